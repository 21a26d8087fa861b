"""Limits of a step of serving: the batch from which it is compute-bound, the chips up to which the network hides.

The batch from which computing takes as long as moving:

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> model, h100 = load("llama-3-8b"), chip("h100")
>>> compute_bound_batch(model, h100, context=0, attention=False), compute_bound_batch(model, h100, context=8192)
(296, None)

Splitting each layer over n chips divides weights, arithmetic and cache by n; what the chips send each other does not
shrink. From some n on, the links or their latency bind:

>>> network_limit(load("llama-3-70b"), "prefill", chip("h200"), batch=64, prompt=4096)
NetworkLimit(tensor=16: the network takes 0.72 of the rest; at 32 2.08)
>>> network_limit(load("deepseek-v3"), "decode", chip("h200"), kind="expert", batch=64, context=4096)
NetworkLimit(expert=128: the network takes 0.941 of the rest; at 256 1.28)

For the matrices of one layer of width D and hidden width F, and B tokens, all links overlapping, that is the book's
n < F·W/C in prefill (FLOPs at C against 2·B·D bytes each way at W) and n < F·W/(B·M) in decode (weights at M).

Source: "How To Scale Your Model", chapters 5, 7 and 12.

The rate of a chip, or the size of a step, with which a step of serving takes a stated time at best.

>>> found = solve_step("llama-3-8b", "hbm", time=5e-3, on="h100", batch=8, context=4096)
>>> f"{found.value / 1e12:.4f} TB/s", found.bound_by
('3.8616 TB/s', 'hbm')
>>> solve_step("llama-3-8b", "batch", time="20ms", on="h100", context=4096).pick
96
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from roofline.bounds.api import ARGUMENTS, take_target_options, target
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.bounds.conventions import Conventions
from roofline.bounds.crossing import first_where
from roofline.bounds.memory import Tile, check_policy
from roofline.bounds.question import refuse_known
from roofline.bounds.solve import TimeSolution, Unknown, by_rates, by_whole_numbers, figure_of, named_rates, use_of
from roofline.errors import InputError, RooflineError, check_one_of
from roofline.frozen import dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.network import links_inside_out
from roofline.hardware.rate import LEVEL_SYNONYMS
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import decode
from roofline.models.parallelism.block_splitting import divides, experts_of
from roofline.models.serving.bound import StepQuestion, serve_bound, step_bound
from roofline.models.serving.step import asked_model
from roofline.quantity import given_amount
from roofline.signatures import call, spelled, takes
from roofline.sizes import Size, check, is_array, is_number, is_symbol
from roofline.work import Op

#: Kinds of split.
KINDS = ("tensor", "expert")

#: The widest split that is tried.
_MOST = 1024

#: A batch beyond any that is run: a step that is memory-bound here is so at every batch.
_FAR = 1 << 30


def compute_bound_batch(
    model: Model,
    machine: Machine,
    *,
    context: int,
    policy: str = "streamed",
    tile: Tile | None = None,
    attention: bool = True,
    **options: Any,
) -> int | None:
    """Find the smallest batch whose decode step is compute-bound; None where none is, as keys and values grow too.

    Computing then takes as long as memory and as every link between the chips that share the model.
    ``attention=False`` asks about the matrices alone. ``options`` are those of
    :func:`roofline.models.decode`; bytes are counted under ``policy``.
    """
    check_policy(policy)
    # a list has no hash
    chosen = {name: tuple(value) if name == "skew" and value is not None else value for name, value in options.items()}
    return _compute_bound_batch(model, machine, context, policy, tile and tuple(tile), attention, tuple(chosen.items()))


@lru_cache(maxsize=256)
def _compute_bound_batch(
    model: Model, machine: Machine, context: int, policy: str, tile: Tile | None, attention: bool,
    options: tuple[tuple[str, Any], ...],
) -> int | None:  # fmt: skip
    """The same whatever the batch of the question is: answers at other batches find it."""
    choices, conventions = dict(options), Conventions(policy=policy, tile=tile)

    def excess(batch: int) -> float:
        """Seconds that computing takes longer than moving, in memory or between chips."""
        ops = decode(model, batch=batch, context=context, **choices)
        units, moving = _times(ops, machine, conventions, attention)
        return float(max(units.values(), default=0) - max(moving.values(), default=0))

    if excess(_FAR) < 0:
        return None
    low, high, below = 0, 1, 0.0
    while (above := excess(high)) < 0:
        low, high, below = high, high * 16, above
    # in between it is nearly a straight line, whose zero is a good guess
    near = low + int((high - low) * below / (below - above or 1)) + 1
    return first_where(lambda batch: excess(batch) >= 0, low, high, near)


def network_at_any_batch(
    model: Model, machine: Machine, *, context: int, policy: str = "streamed", tile: Tile | None = None, **options: Any
) -> str:
    """The link that the matrices wait for at every batch, as tokens and products grow alike; empty where it is none.

    >>> from roofline.models import load
    >>> network_at_any_batch(load("llama-3-8b"), chip("h100"), context=8192)
    ''
    """
    ops = decode(model, batch=_FAR, context=context, **options)
    units, moving = _times(ops, machine, Conventions(policy=policy, tile=tile), attention=False)
    slowest = max({**units, **moving}.items(), key=lambda each: each[1])[0]
    return slowest if any(slowest == link.name for link in machine.links) else ""


def _times(
    ops: Sequence[Op], machine: Machine, conventions: Conventions, attention: bool
) -> tuple[Counter[str], Counter[str]]:
    """Seconds of each compute unit, and of memory and each link."""
    units, moving = Counter[str](), Counter[str]()
    for part in Case(ops, machine, conventions).prices():
        for use in part.uses if attention or part.op.kind != "attention" else ():
            (units if use.quantity == "flops" else moving)[use.resource] += use.time
    return units, moving


@dataclass(frozen=True, slots=True, repr=False)
class NetworkLimit:
    """The widest split whose step is not network-bound (``ways``), and the narrowest that is (``beyond``).

    ``ways`` is None where every split is network-bound, ``beyond`` where none is, both where no number of chips has
    equal parts. A share is the network's time over
    the longest other time. ``one_axis`` says that wider splits divide the model, but no single axis of the torus is as
    long.
    """

    kind: str
    ways: int | None
    share: float | None
    beyond: int | None
    share_beyond: float | None
    one_axis: bool = False

    def says(self, asked: Size = 1) -> str:
        """The limit in a sentence, for a step over so many chips."""
        what = "tensor" if self.kind == "tensor" else "experts over"
        if self.ways is self.beyond is None:
            return (
                f"no number of chips has equal parts of {'heads and columns' if self.kind == 'tensor' else 'experts'}"
            )
        if self.ways is None:
            return f"the network binds however few chips share the work ({what} {self.beyond})"
        if self.beyond is None:
            most = "the most in equal parts" + (" along one axis of the network" if self.one_axis else "")
            return f"the network does not bind up to {what} {self.ways}, {most}"
        if is_number(asked) and asked >= self.beyond:
            return f"the network binds from {what} {self.beyond} on; up to {self.ways} it does not"
        return f"the network does not bind up to {what} {self.ways}; from {self.beyond} on it does"

    def __repr__(self) -> str:
        at = "" if self.beyond is None else f"at {self.beyond} {self.share_beyond:.3g}"
        if self.ways is None:
            return f"NetworkLimit({self.kind}: {f'the network binds at any; {at}' if at else 'no equal parts'})"
        after = f"; {at}" if at else "; no wider split waits"
        return f"NetworkLimit({self.kind}={self.ways}: the network takes {self.share:.3g} of the rest{after})"


@takes(serve_bound, but=("on",))
def network_limit(
    model: Model | str, phase: str, machine: Machine | str, *, kind: str = "tensor", batch: int = 1, **options: Any
) -> NetworkLimit:
    """Solve for the widest split over which a step is not bound by links or latency.

    ``kind`` is ``tensor``: all chips share ``batch`` sequences; or ``expert``: each chip has ``batch`` sequences of its
    own. Each number of chips is joined as the target's are. Numbers that do not divide the model into equal parts are
    passed over: they pad, and the network's share of their steps does not grow with each. ``options`` are those of
    :func:`roofline.models.serve_bound`.
    """
    check_one_of(f"no limit of {kind!r}", kind, KINDS, "kinds")
    if kind in options:
        raise InputError(f"{kind}= is what is solved for", hint="leave it out")
    model, machine = asked_model(model, options, {kind: 2}), chip(machine)
    bare = replace(machine, shape=(), slices=1, mesh=None)
    low: tuple[int | None, float | None] = (None, None)
    beyond = low
    ways = _candidates(model, kind)
    refused: list[int] = []
    unanswered: RooflineError | None = None
    while ways:
        middle = ways[len(ways) // 2]
        try:
            total = batch if kind == "tensor" else batch * middle
            asked: dict[str, Any] = {**options, kind: middle, "batch": total}
            found = step_bound(model, phase, on=bare, **asked)
        except RooflineError as error:
            # no such chips are joined
            unanswered = error
            ways.remove(middle)
            refused.append(middle)
            continue
        if not is_number(found.lower):
            several = "has several values" if is_array(found.lower) else "has an open size"
            wrong = f"a limit of the network is of one step, and this {several}"
            raise InputError(wrong, hint="give each size a number")
        ratio = network_share(found)
        if ratio >= 1:
            beyond, ways = (middle, ratio), [n for n in ways if n < middle]
        else:
            low, ways = (middle, ratio), [n for n in ways if n > middle]
    if unanswered is not None and low == beyond == (None, None):
        raise unanswered
    torus = any(link.topology in TORUS_DIMENSIONS for link in links_inside_out(machine)[:1])
    wider = low[0] is not None and beyond[0] is None and any(n > low[0] for n in refused)
    return NetworkLimit(kind, *low, *beyond, one_axis=torus and wider)


def network_share(found: Bound) -> float:
    """The network's longest time over the longest of the rest, also where one link has both.

    >>> from roofline.models import serve_bound
    >>> network_share(serve_bound("llama-2-7b", "decode", on="h100", context=1000))
    0.0
    """
    sent, rest = Counter[str](), Counter[str]()
    for use in found.uses:
        (sent if use.quantity in ("wire", "hops") else rest)[use.resource] += float(use.time)  # type: ignore[assignment]
    return max(sent.values(), default=0.0) / max(rest.values())


def _candidates(model: Model, kind: str) -> list[int]:
    """Numbers that divide the heads or the experts, and with them every size of the model into equal parts."""
    if kind == "expert":
        sizes = {block.count for block in experts_of(model)}
    else:
        sizes = {size for block in model.layer_blocks if isinstance(size := getattr(block, "heads", None), int)}
    found = sorted({n for size in sizes for n in range(2, min(size, _MOST) + 1) if size % n == 0})
    return [n for n in found if (divides(model, 1, n) if kind == "expert" else divides(model, n))]


#: The sizes of a step that may be solved for, and the tokens in the cache where none are said, as in ``llm``.
SIZES, CONTEXT = ("batch", "context", "prompt"), 4096


def solve_step(model: Any, for_: str, *, time: float | str | None, on: Any = None, **arguments: Any) -> TimeSolution:
    """Find the least rate (``hbm``, ``bf16`` …), or the largest ``batch``, ``context`` or ``prompt``, within a time.

    The step is one of decoding, or a prefill where a ``prompt`` is given or asked, or the ``phase`` that is said; the
    rest is as in ``serve_bound``.
    """
    described = load(model)
    if time is None:
        if for_ in ("context", "prompt"):
            held = call("llm", described.name, on="h100", fit=True)
            says = f"{held} says the longest context that memory holds"
        else:
            says = f"{call('llm', described.name, on='h100')} says from which batch on a step is compute-bound"
        hint = f"give {spelled('time', '5ms')}; {says}"
        raise InputError("of a model solve finds what takes a stated time", hint=hint)
    sizes = arguments.pop("sizes", None) or {}
    every = {**arguments, **sizes}.items()
    given = {name: value for name, value in every if is_array(value) or value != ARGUMENTS.get(name, ())}
    refuse_known(for_, given)
    machine = target(on, **take_target_options(given))
    phase = given.pop("phase", None) or ("prefill" if "prompt" in (*given, for_) else "decode")
    given |= {name: check(name, given[name]) for name in SIZES if isinstance(given.get(name), str)}
    if phase == "decode":
        given.setdefault("context", CONTEXT)
    asked = StepQuestion(described, phase, {"on": machine, **{n: value for n, value in given.items() if n != for_}})
    is_size = for_ in SIZES
    here = (asked.with_sizes(**{for_: 1}) if is_size else asked).answer()
    if not isinstance(here.bound_by, str) or is_array(here.lower) or is_symbol(here.lower):
        raise InputError("a time needs every other size of the step", hint="give each one value")
    seconds = given_amount("time", time)
    if is_size:
        found = by_whole_numbers(Unknown(asked, for_, here, {}, "", "", None), seconds)
        # in place of what one token assumes
        return found if found.answer is None else replace(found, assumptions=found.answer.assumptions)
    names = named_rates(machine)
    for_ = next((name for name in (for_, for_.lower(), LEVEL_SYNONYMS.get(for_.lower())) if name in names), for_)
    check_one_of(f"nothing here is called {for_!r}", for_, [*SIZES, *names], "unknowns")
    use = use_of(here, for_, machine)
    unit, now = "FLOP/s" if use.quantity == "flops" else "B/s", float(use.rate.value)
    unknown = Unknown(asked, for_, here, {}, unit, figure_of(use), now)
    value = now * float(here.times[use.resource]) / seconds
    if math.isclose(unknown.floor(value), seconds, rel_tol=1e-9):
        return unknown.within(seconds, value, bound_by=use.resource, answer=unknown.at(value))
    return by_rates(unknown, seconds)
