"""The floor of serving: one prefill or decode step of a model on one chip, as a Bound.

>>> answer = serve_bound("llama-2-7b", "decode", on="a100", batch=8, context=1024, policy="streamed")
>>> sum(answer.bytes.values()), answer.bound_by
(17513316352, 'hbm')

Over the stages of a pipeline there are two times: how long a step takes through all of them, and how often one ends. ::

    latency            Σ over stages: one micro-batch through all
    decode             max(m · slowest stage, latency): a sequence's next token enters when its last has come out
    prefill            when the last of m micro-batches leaves the last stage: (m − 1) · slowest + latency if alike

A stage takes up a micro-batch once it has it and has done the one before. The batch is dealt to micro-batches by
sequences, evenly; a prompt of fewer sequences is cut into chunks, each over the ones before it, unless its tokens see
later ones. Where m is not stated, decode takes the m that is the fastest, and prefill the floor of any number of
pieces of any size (:func:`roofline.models.parallelism.schedules.any_number`).

>>> found = serve_bound("llama-3-70b", "decode", on="h100:8", tensor=2, pipeline=4, batch=32, context=4096)
>>> found.micro_batches, round(found.latency * 1e3, 1), round(found.lower * 1e3, 1)
(3, 22.9, 22.9)
>>> [len(stage.ops) for stage in found.stages][1:], found.slowest
([19, 19, 20], 3)

Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", arXiv:2104.04473.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from roofline import dtypes, sizes
from roofline.answers import attributes, capability, plain_data
from roofline.bounds.api import take_target_options, target
from roofline.bounds.bound import BOUNDS, Bound, decoded
from roofline.bounds.case import Case
from roofline.bounds.conventions import OF_OPERATIONS, Conventions, taken_from
from roofline.bounds.memory import Footprint, fullest
from roofline.errors import HardwareError, InputError, SizeError
from roofline.frozen import Frozen, NamedTuple, dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import find_level
from roofline.lazy import np
from roofline.models.config import load
from roofline.models.description import BatchShare, Layer, Model
from roofline.models.operations import check_options
from roofline.models.parallelism.block_splitting import split_by_layout
from roofline.models.parallelism.layout import BALANCES, OPTIONS, Parallelism, name_axes, several_layouts
from roofline.models.parallelism.schedules import any_number
from roofline.models.parallelism.splitting import (
    Costs,
    balance_each,
    local_model,
    local_stages,
    plain_fields,
    stack_layouts,
    stack_parts,
)
from roofline.models.serving.step import (
    PHASES,
    SERVED,
    ServingStep,
    asked_model,
    check_phase,
    check_sizes_of,
    served_model,
)
from roofline.signatures import optional, renamed, spelled, takes
from roofline.sizes import TIE, Size, common_shape, is_array, is_one, is_symbol, maximum, of_largest
from roofline.statements import assume
from roofline.work import Key, Work


@takes(
    target,
    optional(prompt="Size", context="Size", chunk="Size", absorbed="bool", data="Size"),
    SERVED,
    *(taker for kind in PHASES.values() for taker in kind.takers),
    renamed(Parallelism, OPTIONS),
    renamed(Conventions, dict(zip(OF_OPERATIONS, OF_OPERATIONS, strict=True))),
)
def serve_bound(model: Model | str, phase: str, *, on: str | Machine, batch: Size = 1, **options: Any) -> Bound:
    """How fast one step can be at best: ``prefill`` (with ``prompt``), ``decode`` (with ``context``) or ``mixed``.

    >>> answer = serve_bound("llama-2-7b", "prefill", on="a100", batch=8, prompt=1024)
    >>> round(answer.lower * 1e3, 3), answer.kind
    (347.135, 'compute-bound')
    >>> import numpy as np
    >>> many = serve_bound("llama-2-7b", "decode", on="h100", batch=np.array([1, 8, 64]), context=1024)
    >>> [round(float(t) * 1e3, 2) for t in many.lower]
    [4.1, 5.22, 14.2]

    ``policy`` says which bytes count: ``minimal`` (default), ``each-op``, ``fused``, ``tiled`` with a ``tile``, or
    ``streamed``, the convention most published floors are under; ``overlap`` and ``overhead`` add an estimate, as in
    :func:`roofline.bound`. A ``mixed`` step decodes with ``context`` and prefills a ``chunk``. What else a step
    takes (formats, ``past``, ``logits``, ``count`` …) is in :func:`roofline.models.prefill`,
    :func:`roofline.models.decode` and :func:`roofline.models.mixed`; the target's options are those of
    :func:`roofline.bound`. Over several chips (``tensor``, ``expert``, ``pipeline``, ``data``, ``context_parallel`` and
    the rest of :class:`roofline.models.Parallelism`) ``batch`` is that of all, and the answer one chip's;
    numbers of chips may be arrays that broadcast with the sizes. With ``pipeline`` it is that of the slowest stage, the
    times those of all (:class:`roofline.models.serving.bound.Pipelined`). The footprint holds weights, keys and
    values and the activations alive at once. An option that changes nothing here is an error, as in
    :func:`roofline.llm`.
    """
    return step_bound(asked_model(model, options), phase, on=on, batch=batch, **options)


@takes(serve_bound)
def step_bound(
    model: Model | str, phase: str, *, on: str | Machine | None = None, batch: Size = 1, **options: Any
) -> Bound:
    """The same, for callers that try layouts with options of their own: one that changes nothing is no error.

    >>> step_bound("llama-2-7b", "decode", on="h100", batch=8, context=1024, microbatches=2).kind
    'memory-bound'
    """
    chosen = take_target_options(options)
    options = {name: value for name, value in options.items() if value is not None}
    if several_layouts(options):
        return stack_layouts(step_bound, {"batch": batch, **options}, model=model, phase=phase, on=on, **chosen)
    options |= {name: dtypes.get(options[name]).name for name in ("weights", "activations", "kv") if options.get(name)}
    described = served_model(load(model), options)
    asked = {"on": on, **chosen, **options}
    if "skew" in options and described.sparsity is None:
        raise InputError(f"{described.name} has no experts that tokens could prefer", hint="leave skew out")
    machine = target(on, **chosen)
    if described.reads_host and find_level(machine, "host") is None:
        hint = f"give pcie a bandwidth with {spelled('set')}"
        raise HardwareError(f"{machine.name} has no figure for the link to a host's memory", hint=hint)
    check_phase(phase)
    conventions = taken_from(options, "minimal")
    kind = PHASES[phase]
    for required in kind.required:
        if required not in options:
            raise InputError(f"{phase} needs {required}=", hint=f"for instance {required}=1024")
    options = {name: as_size(value) if name in kind.sizes else value for name, value in options.items()}
    ways = Parallelism.of_options(machine, options)
    options = {name: value for name, value in options.items() if name not in OPTIONS}
    step = ServingStep(described, phase, machine, ways, conventions, {"batch": as_size(batch), **options})
    if sum(map(is_array, step.sizes.values())) > 1:
        common_shape(step.sizes)
    check_sizes_of(phase, options)
    check_options(options, *kind.takers, also=OPTIONS)
    if kind.beside and ways.pipeline * ways.context > 1:
        wrong = "a mixed step over the stages of a pipeline or the parts of sequences is not modelled"
        raise InputError(wrong, hint="tensor, expert and data are")
    if ways.pipeline > 1:
        return pipelined(step)
    if sum(value.size > sizes.BLOCK for value in step.sizes.values() if is_array(value)):
        found: Bound | None = capability("serve_bound.arrays")(described, phase, step.sizes, asked)
        if found is not None:
            return found
    local, machine = local_model(described, machine, ways)
    return replace(step, model=local, machine=machine).bound()


@dataclass(frozen=True, slots=True, eq=False)
class StepQuestion:
    """A step of serving as a question: the arguments of :func:`serve_bound`, which advice and solutions change.

    >>> asked = StepQuestion(load("llama-3-8b"), "decode", {"on": "h100", "set": {"hbm": 4e12}, "context": 64})
    >>> asked.with_sizes(batch=8).vary(machine=asked.machine).answer().lower == asked.vary(batch=8).answer().lower
    True
    """

    model: Model
    phase: str
    arguments: Mapping[str, Any]

    @property
    def expression(self) -> str:
        """The step, in words."""
        return f"{self.model.name} {self.phase}"

    @property
    def machine(self) -> Machine:
        """What it runs on, with the figures of its own."""
        return target(self.arguments.get("on"), **take_target_options(dict(self.arguments)))

    def answer(self) -> Bound:
        """Price the step."""
        return step_bound(self.model, self.phase, **self.arguments)

    def vary(self, *, machine: Machine | None = None, **arguments: Any) -> StepQuestion:
        """The step with other arguments, or on another machine."""
        now = dict(self.arguments)
        if machine is not None:  # which has its figures
            take_target_options(now)
            now["on"] = machine
        return replace(self, arguments={**now, **arguments})

    def with_sizes(self, **sizes: Any) -> StepQuestion:
        """The step at other sizes."""
        return self.vary(**sizes)

    def particular(self, assumptions: Sequence[str]) -> list[str]:
        """What is assumed: all of it."""
        return list(assumptions)

    def ways(self, machine: Machine) -> Parallelism:
        """How the step is split over the chips of a machine."""
        return Parallelism.of_options(machine, self.arguments)


def as_size(value: Size) -> Size:
    """Several sizes in a list as an array; anything else as it is."""
    if not isinstance(value, list | tuple | range):
        return value
    return np.asarray(value, dtype=np.float64)


def full_from(
    needed: Footprint | None, model: Model, batch: int, copies: int, steps: Sequence[Bound | None] = ()
) -> int | None:
    """About the batch at which what a step of ``batch`` sequences needs fills a chip's memory; None where not known.

    All but the weights grows with the sequences of a copy. Over the stages of ``steps`` the first that is full counts,
    which may be another than the one that needs the most now.
    """
    if needed is None or needed.fits is None or model.kv_memory == "host":
        return None
    found = []
    for each in (needed, *(stage.footprint for step in steps for stage in getattr(step, "stages", ()))):
        growing = each.total - each.parts.get("weights", 0)
        room = max(0.0, each.capacity - each.total + growing)
        found += [int(room / growing * sizes.ceil_div(batch, copies)) * copies] if growing else []
    return min(found, default=None)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pipelined(Bound):
    """The bound of one chip of the slowest stage over a whole step; the times of the step are those of all stages.

    ``stages`` are the bounds of one micro-batch on each stage (the last chunk of a prompt), ``latency`` is its time
    through all of them. In a prefill in any number of pieces ``micro_batches`` is None; they are the bounds of all of
    a stage's work, and ``latency`` is the time of the smallest piece; its ``estimate`` is of a number of equal pieces,
    the fastest of :func:`numbers_to_try`. ``lower``, ``op_by_op`` and ``upper`` are the
    step's: the time between two tokens of a sequence in decode, until the last prompt is through in prefill. Of open
    sizes ``any_slowest`` has the step of each stage that may be the slowest, beside the time of a micro-batch on it,
    and ``forms`` the three times with ``definitions`` for those of stages, which are long.
    """

    stages: tuple[Bound, ...] = ()
    micro_batches: Size | None = 1
    latency: Size = 0
    slowest: int = 0
    any_slowest: tuple[tuple[Size, Bound], ...] = ()
    forms: Mapping[str, Size] = Frozen()
    definitions: sizes.Definitions | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, ``pipeline`` with what each stage takes beside those of a bound."""

        def plain(stage: Bound) -> dict[str, Any]:
            memory = None if stage.footprint is None else plain_data(stage.footprint.total)
            return {"lower": plain_data(stage.lower), "bound_by": decoded(stage.bound_by), "memory": memory}

        pipeline = attributes(self, "micro_batches", "latency", "slowest")
        return {**Bound.to_dict(self), "pipeline": {**pipeline, "stages": list(map(plain, self.stages))}}


def until_next(prefill: Bound) -> float:
    """Seconds after which the next prefill starts: over stages, when the slowest has done its work."""
    return float((prefill.stages[prefill.slowest] if isinstance(prefill, Pipelined) else prefill).lower)


def pipelined(asked: ServingStep) -> Bound:
    """Price a step over the stages of a pipeline, with the number of micro-batches that is stated or else the best."""
    ways, options = asked.ways, asked.options
    if ways.balance == "time" and any(map(is_symbol, options.values())):
        hint = f"give every size a value, or {spelled('balance', 'layers')}"
        raise SizeError("stages are cut by their times, and a size is open", hint=hint)
    try:
        return _in_micro_batches(asked)
    except _UnlikeCuts as unlike:
        return stack_parts(lambda **some: pipelined(asked.vary(**some)), asked.sizes, unlike.some)


def _in_micro_batches(asked: ServingStep) -> Bound:
    phase, ways, options = asked.phase, asked.ways, asked.options
    wanted, sequences = ways.micro_batches, _share(asked).group(options["batch"])
    if wanted is None:
        return _in_pieces(asked) if phase == "prefill" else _fastest(asked, sequences)
    few: Any = phase == "prefill" and asked.model.causal and not is_symbol(sequences) and sequences < wanted
    if is_array(few) and few.any() and not few.all():
        given = {name: options[name] for name in ("batch", "prompt", "past") if name in options}
        return stack_parts(lambda **some: pipelined(asked.vary(**some)), given, few)
    if few.all() if is_array(few) else few:
        return _in_chunks(asked, wanted)
    return _in_turns(asked, sizes.minimum(wanted, sequences))


def _share(asked: ServingStep) -> BatchShare:
    return local_stages(asked.model, asked.machine, asked.ways)[0][0].share


#: Shares of a prompt's tokens, as in a half, between which micro-batches of a model with experts may be.
_SHARES = (2, 4, 8, 16)


class _Stages(NamedTuple):
    """The parts of a model over a pipeline, each of which works on a part of the batch at a time; the named chips."""

    asked: ServingStep
    parts: tuple[Model, ...]
    machine: Machine

    @classmethod
    def of(cls, asked: ServingStep, turns: Size = 1) -> _Stages:
        """The stages, of ``turns`` equal micro-batches; entries of arrays whose cuts differ are asked apart."""
        costs = _costs(asked, turns) if asked.ways.balance == "time" else None
        parts, named = local_stages(asked.model, asked.machine, asked.ways, costs)
        return cls(asked, parts, named).in_turns(turns)

    def in_turns(self, turns: Size, *, cut: bool = False) -> _Stages:
        """The same stages, of equal micro-batches."""
        if is_one(turns):
            return self
        share = self.parts[0].share._replace(turns=turns, cut=cut)
        return self._replace(parts=tuple(replace(part, share=share) for part in self.parts))

    def price(self, *, ends: bool = True, **options: Any) -> list[Bound]:
        """What each takes; of a chunk that ``ends`` no prompt the last one makes no output."""

        def part_of(part: Model) -> Model:
            return part if ends or not part.head else replace(part, head=False, final=(), after=())

        step = self.asked.vary(**options)
        return [replace(step, model=part_of(part), machine=self.machine).bound() for part in self.parts]


def _in_pieces(asked: ServingStep) -> Bound:
    """A prefill in any number of pieces, of any sizes, as :func:`any_number` has it.

    The smallest piece is a token, or a sequence whose tokens see later ones. Where more tokens read more experts, what
    larger pieces take matters too: of what each token does alone, as attention depends on which tokens are in a piece.
    """
    if asked.model.causal and asked.options.get("count") == "full":
        asked = asked.vary(count="causal")  # a piece that is counted in full has none of the tokens of later ones
    stages = _Stages.of(asked)
    text = {name: value for name, value in asked.options.items() if name not in ("images", "image_size")}
    every = stages.price()
    symbolic = any(is_symbol(bound.lower) for bound in every)
    pieces = stages._replace(asked=replace(asked, options=text, symbolic=symbolic))
    smallest: dict[str, Any] = {"batch": 1, "prompt": 1} if asked.model.causal else {"batch": 1}
    least = pieces.price(**smallest)
    alone = [replace(part, layers=tuple(map(_without_mixing, part.layers)), adapters=None) for part in stages.parts]
    each = pieces._replace(parts=tuple(alone))
    numbers = _SHARES if asked.model.causal and asked.model.sparsity else ()
    shares = [(number, each.in_turns(number, cut=True).price(ends=False)) for number in numbers]
    weights = [float(part.weight_bytes(asked.options.get("weights"))) for part in stages.parts]
    order = sorted(range(len(every)), key=lambda number: -weights[number])

    def through(time: Callable[[Bound], Size]) -> Size:
        def times(bounds: Sequence[Bound]) -> list[Size]:
            return [time(bounds[number]) for number in order]

        return any_number(times(every), times(least), [(number, times(bounds)) for number, bounds in shares])

    found = _over_stages(stages, _holding(every, least), None, through, sum(bound.lower for bound in least))
    return found if found.estimate is None else replace(found, estimate=_least_estimate(asked))


def numbers_to_try(stages: int) -> list[int]:
    """Numbers of micro-batches of which one is nearly the best: powers of two up to eight times as many as stages."""
    return [1 << power for power in range((8 * stages).bit_length())]


def _least_estimate(asked: ServingStep) -> Size | None:
    """The estimate of a prefill in the best number of equal micro-batches; None of open sizes."""
    prompt, sequences = asked.options["prompt"], _share(asked).group(asked.options["batch"])
    if is_symbol(prompt + sequences):
        return None
    whole, found = sequences if asked.model.causal else math.inf, list[Size]()
    for number in numbers_to_try(asked.ways.pipeline):
        # fewer tokens make no such number of chunks
        step = asked.vary(prompt=of_largest([whole, number], [prompt, maximum(prompt, number)]))
        cut = not any(map(is_array, asked.sizes.values())) and whole < number
        step = replace(step, ways=replace(asked.ways, micro_batches=number))
        estimate: Any = _estimate_in_chunks(step, number) if cut else pipelined(step).estimate
        found.append(of_largest([maximum(whole, prompt), number], [estimate, math.inf]))
    return sizes.minimum(*found)


def _estimate_in_chunks(asked: ServingStep, pieces: int) -> Size:
    """The estimate of :func:`_in_chunks`, where all chunks but the last are priced at once."""
    stages, (*before, last) = _Stages.of(asked), _chunks(asked.options, pieces)
    rows = {name: np.array([chunk[name] for chunk in before], float) for name in last}
    both = zip(stages.price(ends=asked.options.get("logits") == "all", **rows), stages.price(**last), strict=True)
    return _ended([[*np.broadcast_to(np.array(b.estimate), len(before)).tolist(), e.estimate] for b, e in both])


@lru_cache
def _without_mixing(layer: Layer) -> Layer:
    """The blocks of a layer that work on each token by itself."""
    return replace(layer, blocks=tuple(b for b in layer.blocks if not any(part.keeps for part in b.parts())))


def _holding(found: Sequence[Bound], smaller: Sequence[Bound]) -> list[list[Bound]]:
    """What stages take, with the memory that they need where they work on ``smaller`` parts at a time."""

    def memory(needed: Footprint | None, part: Footprint | None) -> Footprint | None:
        if needed is None or part is None:
            return needed
        return replace(needed, parts={**needed.parts, "activations": part.parts["activations"]})

    return [
        [replace(one, footprint=memory(one.footprint, part.footprint))]
        for one, part in zip(found, smaller, strict=True)
    ]


def _in_turns(
    asked: ServingStep, turns: Size, smaller: Sequence[Bound] | None = None, priced: Sequence[Bound] | None = None
) -> Bound:
    """A step in so many equal micro-batches, ``priced`` where it was, with the memory of ``smaller`` ones."""
    stages = _Stages.of(asked, turns)
    found = priced or stages.price()

    def through(time: Callable[[Bound], Size]) -> Size:
        return _steady(asked.phase, [time(bound) for bound in found], turns)

    return _over_stages(stages, _holding(found, smaller or found), turns, through, turns=turns)


def _in_chunks(asked: ServingStep, pieces: int) -> Bound:
    """A prefill of fewer sequences than micro-batches, whose prompts are cut into chunks."""
    stages, every = _Stages.of(asked), asked.options.get("logits") == "all"
    chunks = _chunks(asked.options, pieces)
    found = [stages.price(ends=every or chunk is chunks[-1], **chunk) for chunk in chunks]
    by_stage = [list(bounds) for bounds in zip(*found, strict=True)]

    def through(time: Callable[[Bound], Size]) -> Size:
        return _ended([[time(bound) for bound in stage] for stage in by_stage])

    return _over_stages(stages, by_stage, pieces, through)


def _fastest(asked: ServingStep, sequences: Size) -> Bound:
    """A decode step in the number of micro-batches with which it takes the least time.

    m of them take m · slowest, which grows with m, or what one takes through all stages, which falls. The stages are
    no slower than the slowest, so m is at most their number; so many need the least memory, which is the step's. Of
    open sizes as many as stages; a closed form has each.
    """
    best = most = sizes.minimum(asked.ways.pipeline, sequences)
    if is_symbol(most):
        return _in_turns(asked, most)
    least, tried = math.inf, dict[int, list[Bound]]()
    for number in range(asked.ways.pipeline if is_array(most) else int(most), 0, -1):
        turns = sizes.minimum(number, most)
        tried[number] = _Stages.of(asked, turns).price()
        times = [bound.lower for bound in tried[number]]
        time = _steady("decode", times, turns)
        best, least = of_largest([-least, -time * (1 + TIE)], [best, turns]), sizes.minimum(least, time)
        if np.all(turns * maximum(*times) <= sum(times)):
            break
    priced = tried.get(int(np.max(best))) if np.ptp(best) == 0 else None
    return _in_turns(asked, best, tried[max(tried)], priced)


def _over_stages(
    stages: _Stages, found: Sequence[Sequence[Bound]], count: Size | None, through: Callable[..., Size],
    latency: Size | None = None, turns: Size = 1,
) -> Bound:  # fmt: skip
    """The step of all stages, of what each takes: ``through`` gives the whole time by those of their work."""
    asked, parts = stages.asked, stages.parts

    def stacked(some: Any) -> Bound:
        return stack_parts(lambda **sizes: pipelined(asked.vary(**sizes)), asked.sizes, some)

    if any(is_array(bound.lower) and not bound.ops for stage in found for bound in stage):
        # entries differ in their way of latent attention, so the operations do: ask each half by itself
        shape = common_shape({name: size for name, size in asked.sizes.items() if is_array(size)})
        return stacked(np.arange(np.prod(shape)).reshape(shape) < np.prod(shape) // 2)
    last = tuple(stage[-1] for stage in found)
    amounts = [sum([bound.lower for bound in stage]) for stage in found]
    slowest, here = _slowest(amounts, parts)
    latency = sum([bound.lower for bound in last]) if latency is None else latency
    own: dict[str, Any] = {"stages": last, "micro_batches": count, "latency": latency, "slowest": slowest}
    if here is not None:
        return Pipelined(**plain_fields(stacked(here)), **own)
    step: dict[str, Any] = {
        **{name: through(lambda bound, name=name: getattr(bound, name)) for name in BOUNDS},
        "footprint": fullest([stage.footprint for stage in last if stage.footprint is not None]),
    }
    said = assume("layout", _said(asked, parts, count, len(found[0])))

    def whole(number: int, **more: Any) -> Bound:
        base = _together(found[number], turns, asked.conventions)
        changed: dict[str, Any] = {
            **step,
            "estimate": None if base.estimate is None else through(lambda bound: bound.estimate),
            "attainable": None if base.attainable is None else base.flops / step["lower"],
            "utilisation": None if base.utilisation is None else base.utilisation * base.lower / step["lower"],
            # what a chunk has before it is no size of the step
            "sizes": {n: asked.options.get(n, v) for n, v in base.sizes.items() if n != "past" or n in asked.options},
            "assumptions": (*base.assumptions, *said),
        }
        return Pipelined(**{**plain_fields(base), **changed}, **own, **more)

    if not any(map(is_symbol, amounts)):
        return whole(slowest)
    each = {amount: number for number, amount in reversed(list(enumerate(amounts)))}
    any_slowest = tuple((amount, whole(number)) for amount, number in reversed(each.items()))
    short = sizes.Definitions()
    forms = {name: through(lambda each, name=name: short("stage", getattr(each, name))) for name in BOUNDS}
    return whole(slowest, any_slowest=any_slowest, forms=forms, definitions=short)


def _steady(phase: str, times: Sequence[Size], turns: Size) -> Size:
    """The step's time where all micro-batches are alike."""
    latency, slow = sum(times), maximum(*times)
    return maximum(turns * slow, latency) if phase == "decode" else (turns - 1) * slow + latency


def _ended(times: Sequence[Sequence[Size]]) -> Size:
    """When the last of several unlike micro-batches leaves the last stage; ``times`` by stage, then by micro-batch."""
    before: list[Size] = [0] * len(times[0])
    for stage in times:
        free: Size = 0
        for number, time in enumerate(stage):
            free = maximum(before[number], free) + time
            before[number] = free
    return before[-1]


def _chunks(options: Mapping[str, Any], pieces: int) -> list[dict[str, Size]]:
    """The prompt in pieces as even as can be, each after those before it."""
    prompt, past = options["prompt"], options.get("past", 0)
    least = min(prompt.ravel().tolist()) if is_array(prompt) else prompt
    if not is_symbol(least) and least < pieces:
        raise SizeError(
            f"a prompt of {least:g} tokens makes no {pieces} chunks",
            hint=f"microbatches {least:g} at most",
            rows=prompt < pieces if is_array(prompt) else None,
            rule=f"a prompt of fewer than {pieces} tokens makes no {pieces} chunks",
        )
    ends = [sizes.floor_div(prompt * number, pieces) for number in range(pieces + 1)]
    return [{"prompt": b - a, "past": past + a} for a, b in pairwise(ends)]


class _UnlikeCuts(Exception):
    """Entries of arrays whose stages are cut unlike those of the first: ``some`` are those that are cut alike."""

    def __init__(self, some: Any) -> None:
        self.some = some


def _costs(asked: ServingStep, turns: Size) -> Costs:
    """What each layer takes of one of so many micro-batches, what comes before the first and after the last.

    Each operation counts by itself. Of arrays they are those of the first entry, as all whose stages are cut alike.
    """
    ways = asked.ways
    named = name_axes(asked.machine, {name: size for name, size in ways.axes.items() if not is_one(size)})
    local = split_by_layout(asked.model, replace(ways, pipeline=1), named)
    local = replace(local, share=local.share._replace(turns=turns))
    layers, beside, inner = [0.0] * len(asked.model.layers), [0.0, 0.0], False
    numbers = {label: found for label, found, _ in local.layer_groups()}
    for part in replace(asked, model=local, machine=named).bound().ops:
        inside = numbers.get(part.op.group, ())
        for number in inside:
            layers[number] = layers[number] + part.lower / len(inside)
        inner |= bool(inside)
        if not inside:
            beside[inner] = beside[inner] + part.lower
    every = np.broadcast_arrays(*layers, *beside)
    flat = np.array([each.ravel() for each in every])
    if flat.shape[1] > 1:
        cuts = balance_each(flat[:-2], ways.pipeline, first=flat[-2], last=flat[-1])
        alike = (cuts == cuts[:, :1]).all(axis=0)
        if not alike.all():
            raise _UnlikeCuts(alike.reshape(every[0].shape))
    *first, before, after = flat[:, 0].tolist()
    return first, before, after


def _together(bounds: Sequence[Bound], times: Size, conventions: Conventions) -> Bound:
    """What a chip does in a step: its operations for every micro-batch."""
    first = bounds[-1]
    parts = [part for bound in bounds for part in bound.ops]
    return Case(
        [replace(part.op, repeat=part.op.repeat * times) for part in parts],
        first.machine,
        conventions,
        name=first.expression,
        sizes=first.sizes,
        memory=None if first.footprint is None else first.footprint.parts,
        moved=[
            Work({Key(u.quantity, u.place): u.amount / part.op.repeat for u in part.uses if u.quantity == "bytes"})
            for part in parts
        ],
        assumptions=first.assumptions,
        request=first.request,
    ).answer()


def _slowest(amounts: Sequence[Size], parts: Sequence[Model]) -> tuple[int, Any]:
    """The stage with the largest time (:func:`largest_stage`); of open sizes that of most layers, or the head."""
    if any(map(is_symbol, amounts)):
        return max(range(len(parts)), key=lambda number: (len(parts[number].layers), parts[number].head)), None
    return largest_stage(amounts)


def largest_stage(amounts: Sequence[Size]) -> tuple[int, Any]:
    """The stage of the largest amount, of arrays that of most entries, and in which entries: None where in all."""
    each = sizes.of_largest(amounts, range(len(amounts)))
    numbers = each.ravel().tolist() if is_array(each) else [each]
    most = max(dict.fromkeys(numbers), key=numbers.count)
    return most, None if numbers.count(most) == len(numbers) else each == most


def _said(asked: ServingStep, parts: Sequence[Model], count: Size | None, chunks: int) -> list[str]:
    ways = asked.ways
    layers = ", ".join(str(len(part.layers)) for part in parts)
    states = spelled("microbatches")
    if count is None:
        smallest = "a token" if asked.model.causal else "a sequence"
        run = f"micro-batches of any number and size, down to {smallest}: {states} states their number"
        return [
            f"{ways.pipeline} stages of {layers} layers ({BALANCES[ways.balance]}); {run}",
            "each stage reads its weights once and waits while the smallest micro-batch is on the others",
        ]
    kind = "chunks of the prompt" if chunks > 1 else "micro-batch" if is_one(count) else "micro-batches"
    run = f"{count if isinstance(count, int) else 'as many'} {kind} in flight"
    if ways.micro_batches is None and not is_one(parts[0].share.group(asked.options["batch"])):
        number = f", {count}" if isinstance(count, int) else ""
        best = f"the fastest number{number}; memory is that of as many as stages"
        run = f"micro-batches in flight: {'as many as stages' if is_symbol(count) else best}; {states} states another"
    said = [f"{ways.pipeline} stages of {layers} layers ({BALANCES[ways.balance]}); {run}"]
    if asked.phase == "decode":
        said.append("a sequence's next token starts when its last one has left the last stage")
    return said
