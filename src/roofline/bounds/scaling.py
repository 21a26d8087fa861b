r"""When does a layer scale? The book's conditions, each worked out from the plan of one sharded line.

>>> for name in ("dp", "fsdp", "tp", "mixed"):
...     print(scaling(name, on="v5p"))
dp: tokens per chip = P_bf16/(2*W_ici_X) = 2,550
fsdp: tokens per chip = P_bf16/(2*W_ici_X) = 2,550
tp: F = P_bf16*Y/(2*W_ici_Y)
mixed: tokens per chip = P_bf16**2/(4*F*W_ici_X*W_ici_Y)

No formula is typed here: a condition is a line of the notation and the unknown at which T_math = T_comms. Bandwidths W
are one way over one link; the book's is both ways, twice that. Any collective algorithm may be named in place of the
book's limiting form, any target in place of a ring of a symbolic number of chips:

>>> round(scaling("dp", on="dgx-h100:1024", set={"bf16": 9.9e14}).value)
2475
>>> scaling("tp", on="v5p", set={"bf16": 4.59e14}, F=50_000, unknown="Y").value
19.6...

Sources: "How To Scale Your Model", chapters 5 (data, fully sharded, tensor and mixed parallelism, DCN), 7 (decoding)
and 12 (GPUs, experts).

Whether sending hides behind the arithmetic: how long both take, and from which size on sending takes no longer.

>>> from roofline.bounds.shard import shard
>>> found = shard("bf16[B_Y, D] * bf16[D_X, F] -> bf16[B_Y, F]", on="v5p:4x4", B=4096, D=8192, F=32768)
>>> print("\n".join(hiding_in_words(found.question, found.best)))
AllReduce over X takes 746 µs and the arithmetic 299 µs: sending does not hide behind it
by this plan it hides from D = 20,400 on; a larger B or F alone does not do it
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from roofline import dtypes
from roofline.answers import Fact, NoTime, attributes, machine_asked, on_several, plain_data
from roofline.bounds.api import question
from roofline.bounds.bound import UNITS, Bound
from roofline.bounds.conventions import Conventions, named_axes
from roofline.bounds.crossing import free_symbols, hidden_from, positive_number, put_numbers, rises, roots_of
from roofline.bounds.evaluate import values_of
from roofline.bounds.question import Question, has_arrays, names_in, refuse_idle, refuse_idle_on_plan
from roofline.bounds.sharding_plans import RankedPlan
from roofline.errors import InputError, RooflineError, SizeError, check_one_of, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, field, fields, replace
from roofline.hardware.machine import SLICE_AXIS, TORUS_DIMENSIONS, Machine
from roofline.hardware.network import domain_of, links_inside_out
from roofline.lazy import np, sympy
from roofline.notation import program
from roofline.quantity import format_amount, format_number, format_quantity, in_a_row
from roofline.sections import Section, named, word_pairs
from roofline.signatures import call, either, takes
from roofline.sizes import Size, check, is_array, is_number, is_symbol, product, symbol
from roofline.statements import by_what_is_timed, without


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a sharded line, its unknown, and what the answer is per.

    Communication has to take no longer than the time of ``against``: ``flops``, or ``bytes`` where decoding is bound
    by loading weights. ``per`` lists the mesh axes whose chips share the unknown. ``link`` names the one axis whose
    links count; empty: all. ``routed`` says that k of E experts get each token: given k, the answer is for all tokens.
    ``experts`` says that tokens go to k experts of other chips.
    ``hides`` is what the time of ``against`` has to cover: ``wire``, or ``weights`` that are loaded. ``apart`` says how
    the floor of a model's whole step differs.
    """

    says: str
    text: str
    unknown: str
    what: str
    per: tuple[str, ...] = ()
    mesh: tuple[str, ...] = ("X",)
    link: str = ""
    against: str = "flops"
    routed: bool = False
    hides: str = "wire"
    experts: bool = False
    apart: str = ""


#: What the floor of a training step counts that a condition of layers does not.
_WHOLE_STEP = "attention, and no more chips than sequences"

#: Lines of two matmuls. MIXED shards weights over X and Y and the batch over X; ONE and TWO shard weights in one
#: dimension and in two.
_MIXED = "In:{0}[B_X, D_Y] * Wi:{1}[D_X, F_Y] * Wo:{1}[F_Y, D_X] -> Out:{0}[B_X, D_Y]"
_ONE = "In:{0}[B, D_Y] * Wi:{1}[D, F_Y] * Wo:{1}[F_Y, D] -> Out:{0}[B, D_Y]"
_TWO = "In:{0}[B, D_XY] * Wi:{1}[D_X, F_Y] * Wo:{1}[F_Y, D_X] -> Out:{0}[B, D_XY]"

#: The conditions by name; ``{0}`` in a line is the dtype of activations and gradients, ``{1}`` of weights.
CONDITIONS: dict[str, Condition] = {
    "dp": Condition(
        "data parallelism: gradients of a layer are summed behind its backward pass",
        "dWo = h:{0}[B_X, F] * dOut:{0}[B_X, D] -> {0}[F, D]; dh = dOut * Wo:{1}[F, D] -> {0}[B_X, F]; "
        "dWi = x:{0}[B_X, D] * dh -> {0}[D, F]; dh * Wi:{1}[D, F] -> {0}[B_X, D]",
        "B", "tokens per chip", per=("X",),
        apart="the sums are behind the backward pass alone, 4 of the 6 FLOPs of a weight and token; the formula of a "
        f"training step on n chips has the forward pass beside them, so 1.5 times as many chips, {_WHOLE_STEP}",
    ),
    "fsdp": Condition(
        "fully sharded data parallelism: weights are gathered behind the forward pass",
        "In:{0}[B_X, D] * Wi:{1}[D_X, F] * Wo:{1}[F, D_X] -> Out:{0}[B_X, D]", "B", "tokens per chip", per=("X",),
        apart=f"matrices of layers alone; the formula of a training step on n chips has all of a model, {_WHOLE_STEP}",
    ),
    "tp": Condition(
        "tensor parallelism: activations are gathered and scattered around the layer", _ONE, "F", "F", mesh=("Y",)
    ),
    "dcn": Condition(
        "data parallelism between slices: gradients cross the data-centre network",
        "dWo = h:{0}[B_SX, F] * dOut:{0}[B_SX, D] -> {0}[F, D_X]; dh = dOut * Wo:{1}[F, D] -> {0}[B_SX, F]; "
        "dWi = x:{0}[B_SX, D] * dh -> {0}[D_X, F]; dh * Wi:{1}[D, F] -> {0}[B_SX, D]",
        "B", "tokens per slice", per=("S",), mesh=("X", "S"), link="S",
    ),
    "moe-dp": Condition(
        "data parallelism of E experts, k of them for each token: T tokens reach each expert",
        "dWo = h:{0}[E, T_X, F] * dOut:{0}[E, T_X, D] -> {0}[E, F, D]; dh = dOut * Wo:{1}[E, F, D] -> {0}[E, T_X, F]; "
        "dWi = x:{0}[E, T_X, D] * dh -> {0}[E, D, F]; dh * Wi:{1}[E, D, F] -> {0}[E, T_X, D]",
        "T", "tokens per expert and chip", per=("X",), routed=True,
    ),
    "ep": Condition(
        "expert parallelism: tokens go to the chips of their experts and back",
        "In:{0}[E, T_X, D] *_D Wi:{1}[E_X, D, F] *_F Wo:{1}[E_X, F, D] -> Out:{0}[E, T_X, D]", "F", "F", experts=True,
    ),
    "decode-tp": Condition(
        "tensor parallelism of decoding: activations move while weights are loaded", _ONE, "Y", "ways", mesh=("Y",),
        against="bytes",
    ),
    "batch": Condition(
        "one chip: loading weights is behind the arithmetic, of a layer as wide as wanted",
        "In:{0}[B, D] * W:{1}[D, F] -> Out:{0}[B, F]", "B", "tokens", mesh=(), hides="weights",
    ),
    "moe-batch": Condition(
        "one chip: loading the weights of E experts is behind the arithmetic, k of them for each token",
        "In:{0}[E, T, D] * W:{1}[E, D, F] -> Out:{0}[E, T, F]", "T", "tokens per expert", mesh=(), routed=True,
        hides="weights",
    ),
}  # fmt: skip

#: Conditions on how chips are split, which are worked out from more than one line.
SPLITS = {
    "mixed": ("FSDP over X and tensor parallelism over Y, both behind the forward pass", "tokens per chip"),
    "2d": ("weights in two dimensions send less than in one from so many chips on", "chips"),
}


def list_conditions() -> list[tuple[str, str, str]]:
    """Every condition: its name, its meaning, and the quantity it is solved for."""
    lines = [(name, condition.says, condition.what) for name, condition in CONDITIONS.items()]
    return lines + [(name, *said) for name, said in SPLITS.items()]


def check_experts_per_token(picks: Any, experts: Any) -> Any:
    """Check how many experts each token goes to: no more than there are.

    >>> check_experts_per_token(2, 8), check_experts_per_token(2, None)
    (2, 2)
    """
    each = check("k", picks)
    if isinstance(each, int) and isinstance(experts, int) and each > experts:
        raise SizeError(f"k={each}, and there are E={experts} experts", hint=f"k of 1 to {experts}")
    return each


def condition_named(name: str) -> Condition:
    """Find a condition by its name in any case, or say which there are."""
    found = CONDITIONS.get(name) or CONDITIONS.get(name.lower())
    if found is None:
        known = suggest(name.lower(), [*CONDITIONS, *SPLITS], what="conditions")
        line = f"where a line flips is {call('solve')}, its plans on a mesh {call('shard')}"
        raise InputError(f"unknown condition {name!r}", hint=line if "[" in name else known)
    return found


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of all chips beside a condition on those of one (or of one slice).

    Attributes
        ``chips``      chips that share the batch, where their number is known; ``least`` tokens they need together
        ``tokens``     the batch that was given; ``per`` the part of one chip, ``holds`` whether that is enough
        ``margin``     the part over what is needed
        ``most``       chips (or slices) on which the given batch scales; ``pods`` as many of the largest torus
        ``ratio``      the time of arithmetic over that of communication at the given batch
        ``unit``       what each of ``chips`` is: a chip or a slice
    """

    chips: int | None = None
    least: float | None = None
    tokens: Size | None = None
    per: float | None = None
    holds: bool | None = None
    margin: float | None = None
    most: float | None = None
    pods: float | None = None
    ratio: float | None = None
    unit: str = "chip"

    @classmethod
    def of(
        cls, needed: Any, chips: Any, tokens: Any, machine: Machine, power: float = 1, alone: bool = False
    ) -> Batch | None:
        """What follows from tokens that are needed on each of ``chips`` chips; ``power`` of the ratio of times in it.

        ``alone`` says that the condition is one of a single chip.

        >>> from roofline.hardware import chip
        >>> found = Batch.of(850.0, 8960, 4_194_304, chip("v5p"))
        >>> round(found.per, 1), found.holds, found.least, round(found.most), round(found.pods, 2)
        (468.1, False, 7616000.0, 4934, 0.55)
        """
        if needed is None or is_array(needed) or is_array(tokens) or (chips is None and tokens is None):
            return None
        chips = 1 if alone else chips
        per = None if chips is None or tokens is None else tokens / chips
        most = None if tokens is None or alone else tokens / needed
        largest = next((link.domain for link in machine.links if link.topology in TORUS_DIMENSIONS), None)
        return cls(
            chips=chips, least=None if chips is None else needed * chips, tokens=tokens, per=per,
            holds=None if per is None else per >= needed * (1 - 1e-12), margin=None if per is None else per / needed,
            most=most, pods=None if most is None or largest is None else most / largest,
            ratio=None if per is None else (per / needed) ** power,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Every fact under its name, in tokens and chips."""
        return attributes(self, *(each.name for each in fields(self) if each.name != "unit"))

    def pairs(self, what: str) -> list[tuple[str, str]]:
        """What a reader sees: all chips together, the batch that is given, the most chips for it.

        Nothing where there are several numbers of chips.
        """
        if is_array(self.chips):
            return []
        lines = []
        if self.least is not None and self.chips is not None and self.chips > 1:
            tokens = math.ceil(self.least * (1 - 1e-12)) if math.isfinite(self.least) else self.least
            lines.append(("the batch", f"{_number(tokens)} tokens on {self.chips:,} {self.unit}s"))
        if self.tokens is not None and self.per is not None:
            holds = "scales" if self.holds else "does not scale"
            said = f"{_number(self.per)} {what}, {holds}: arithmetic takes {_number(self.ratio)} times as long"
            lines.append((f"of {self.tokens:,}", f"{said} as what it has to cover"))
        if self.most is not None:
            pods = "" if self.pods is None else f", {_number(self.pods)} pods"
            lines.append(("the most", f"{_number(self.most)} {self.unit}s{pods} for {self.tokens:,} tokens"))
        return lines


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scaling(NoTime):
    """A condition worked out: scaling holds while ``what`` is at least (for numbers of chips: at most) ``form``.

    Attributes
        ``form``        the closed form in rates and open sizes; ``value`` its number where nothing is open
        ``at_most``     whether it is the most (ways of tensor parallelism) rather than the least (a batch)
        ``limit_form``  the form for large sizes, which is how the book gives it; ``limit`` its number
        ``at``          what else follows (the best X of mixed parallelism) in symbols; ``best`` the numbers of it
        ``take``        the whole X and Y that divide the chips and send in the least time; ``shares`` what each has
        ``whole``       the whole X and Y that scale from the fewest tokens B of all chips, and these
        ``batch``       of tokens: those of all chips, and whether the batch that is given is enough
        ``rates``       the rates that stand in the form, in SI units
        ``question``    what was asked, with the plan taken; ``algorithm`` that of the collectives
    """

    name: str
    says: str
    what: str
    form: Any
    value: Any
    question: Question
    algorithm: str
    at: Mapping[str, Any]
    limit_form: Any = None
    limit: Any = None
    at_most: bool = False
    best: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    batch: Batch | None = None
    take: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The condition, which is what answers differ in, and the machine."""
        return f"{self.name} on {self.question.machine.name}"

    def facts(self) -> Iterator[Fact]:
        """The number and its form, for a comparison.

        >>> from roofline import compare, scaling
        >>> both = [scaling(name, on="v5p", set={"bf16": 4.59e14}, F=32768) for name in ("fsdp", "mixed")]
        >>> round(compare(*both).ratio("tokens per chip"), 2)
        12.85
        """
        yield Fact(self.what, self.value, "", "more" if self.at_most else "less")
        yield Fact("for large sizes", self.limit, "", "more" if self.at_most else "less")
        yield Fact("closed form", str(self.form))

    @property
    def shares(self) -> dict[str, float]:
        """What each part of the split that is taken has: tokens of a group along X, columns of F along Y."""
        parts = {"tokens": ("B", "X"), "columns": ("F", "Y")}
        given = {name: (self.sizes.get(size), self.take.get(axis)) for name, (size, axis) in parts.items()}
        return {name: size / ways for name, (size, ways) in given.items() if size is not None and ways is not None}

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/scaling/1``)."""
        return {
            "schema": "roofline/scaling/1", "name": self.name, "says": self.says, "what": self.what,
            "at_most": self.at_most, "form": str(self.form), "value": plain_data(self.value),
            "limit_form": None if self.limit_form is None else str(self.limit_form), "limit": plain_data(self.limit),
            "at": {name: str(form) for name, form in self.at.items()},
            "best": plain_data(self.best),
            "batch": None if self.batch is None else self.batch.to_dict(),
            "take": dict(self.take), "whole": dict(self.whole), "shares": plain_data(self.shares),
            "rates": {name: rate for name, (rate, _) in self.rates.items()},
            "algorithm": self.algorithm, "expression": self.question.text, "plan": self.question.conventions.plan,
            **machine_asked(self.question.machine),
            "assumptions": list(self.assumptions),
        }  # fmt: skip

    def sections(self) -> tuple[Section, ...]:
        return word_pairs(f"{self.name}: {self.says}", self.question.machine.name, self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        sign = "≤" if self.at_most else "≥"
        lines = [("closed form", f"{self.what} {sign} {self.form}")]
        if self.value is not None:
            lines.insert(0, ("scales while", f"{self.what} {sign} {_number(self.value)}"))
        elif (numbers := self._with_rates()) is not None:
            lines.insert(0, ("scales while", f"{self.what} {sign} {numbers}"))
        if self.batch is not None:
            lines += self.batch.pairs(self.what)
        if self.limit_form != self.form:
            value = "" if self.limit is None else f" = {_number(self.limit)}"
            lines.append(("for large sizes", f"{self.what} → {self.limit_form}{value}"))
        for name, form in self.at.items():
            number = self.best.get(name)
            lines.append((f"best {name}", str(form) if number is None else f"{form} = {_number(number)}"))
        if self.take:
            shares = {"tokens": "tokens along X", "columns": "columns of F along Y"}
            parts = [f"{_number(share)} {shares[name]}" for name, share in self.shares.items()]
            taken = ", ".join(f"{name} = {ways:,}" for name, ways in self.take.items())
            lines.append(("take", ": ".join(filter(None, (taken, ", ".join(parts))))))
        if self.whole:
            tokens = _number(math.ceil(self.whole["B"] * (1 - 1e-12)))
            split = f"X = {self.whole['X']:,}, Y = {self.whole['Y']:,}"
            lines.append(("whole ways", f"{split} scales from {tokens} tokens"))
        lines.append(("line", self.question.text))
        if self.question.conventions.plan is not None:
            lines.append(("plan", str(self.question.conventions.plan)))
        shown = ", ".join(f"{name} = {format_quantity(rate, unit)}" for name, (rate, unit) in self.rates.items())
        if shown:
            sent = self.question.conventions.plan is not None
            lines.append(("rates", f"{shown}; W is one way over one link" if sent else shown))
        return [*lines, *named("assumes", self.assumptions)]

    def _with_rates(self) -> Any:
        """The closed form in open sizes alone, its rates as numbers of four digits; None where it has no rates."""
        rates = {each: self.rates[str(each)][0] for each in getattr(self.form, "free_symbols", ())
                 if str(each) in self.rates}  # fmt: skip
        if not rates:
            return None
        found = self.form.subs(rates)
        short = {
            n: sympy.Integer(round(n)) if n > 1000 or n == round(n) else sympy.Float(n, 4)
            for n in found.atoms(sympy.Float)
        }
        return found.xreplace(short)

    def __str__(self) -> str:
        number = "" if self.value is None else f" = {_number(self.value)}"
        return f"{self.name}: {self.what} = {self.form}{number}"

    def one_line(self) -> str:
        return f"Scaling {self}"


#: The number of units along an axis of whole units.
_UNITS = "units"


@on_several
@takes(question, but=("flops", "bytes", "intensity"))
def scaling(
    name: str,
    *,
    on: Any,
    dtype: str = "bf16",
    weights: str | None = None,
    unknown: str | None = None,
    algorithm: str = "book",
    mesh: Mapping[str, Any] | None = None,
    torus_axes: Mapping[str, Any] | None = None,
    network: str | None = None,
    **arguments: Any,
) -> Scaling:
    """Work out one of the conditions (:data:`CONDITIONS`, ``mixed`` and ``2d``) on a target.

    Without a shape in ``on`` or a ``mesh``, each axis has a symbolic size of its own name. Where a condition has one
    axis, that axis takes all chips of a slice. ``unknown`` solves for another size, or for the size of an axis.
    ``weights`` is their dtype where it is not ``dtype``, that of activations and gradients. Where the answer is a
    number of tokens, a batch ``B`` may be given: the answer says whether it is enough, and on how many chips at the
    most. ``N`` is the number of chips where the target has no shape.
    ``torus_axes`` lays a symbolic mesh axis over several axes of a torus (the book's M_X). ``network`` counts one link
    only (``nvlink``, ``ib``); one between nodes lets an open axis take whole nodes. ``2d`` gives the number of chips
    from which weights sharded in two dimensions send less than in one. Sizes may be arrays. The rest is as in
    :func:`roofline.bound`.

    >>> print(scaling("2d", on="v5p"))
    2d: chips = 4*F/D

    >>> found = scaling("mixed", on="v5p", torus_axes={"X": 2}, set={"bf16": 4.59e14}, F=32768, B=409600, N=4096)
    >>> found.value, found.best["X"]                # tokens a chip, and the best X of 4096 chips
    (99.22..., 320.0)

    >>> scaling("tp", on="v5p", unknown="Y", F=[15_000, 30_000], set={"bf16": 4.59e14}).value.round(1).tolist()
    [5.9, 11.8]

    >>> print(scaling("tp", on="dgx-h100", algorithm="hierarchical", network="ib", unknown="Y", set={"bf16": 9.9e14}))
    tp: Y = 8*(F*W_ib + P_bf16)/P_bf16

    >>> scaling("ddp", on="v5p")
    Traceback (most recent call last):
    roofline.errors.InputError: unknown condition 'ddp'; did you mean 'dp'?
    """
    several = _several(torus_axes or {})
    if not isinstance(name, str):
        raise InputError(f"a condition is text, not {quoted(name)}", hint="one at a time, such as 'fsdp'")
    formats = (dtypes.get(dtype).name, dtypes.get(dtype if weights is None else weights).name)
    whole = {"mixed": _mixed, "2d": _two_dimensions}.get(name)
    if whole is not None:
        if mesh or network:
            counted = either("--torus-axes X=2", "torus_axes={'X': 2}")
            hint = f"give their number and what links have, as in N=4096 and {counted}"
            raise InputError(f"{name} splits N chips over X and Y itself", hint=hint)
        return whole(_SplitQuestion(on, formats, algorithm, several, unknown, arguments))
    condition = condition_named(name)
    _known_axes(several, condition.mesh)
    asked = question(_spread(condition.text.format(*formats), several), on=on, algorithm=algorithm, **arguments)
    if mesh is None and asked.machine.mesh is not None and any(len(names) > 1 for names in several.values()):
        hint = "leave them out: an axis takes all of a shape, or those that a mesh gives it"
        raise InputError(f"torus_axes are of open axes, and {asked.machine.target} has a shape", hint=hint)
    wanted = unknown or condition.unknown
    asked, beside = _beside(asked, condition, wanted)
    if condition.link and asked.machine.mesh is not None and asked.machine.slices == 1 and mesh is None:
        raise _one_slice(asked.machine)
    axes = named_axes(mesh) if mesh is not None else _axes(asked.machine, _all(condition.mesh, several))
    opened = _open_axes(axes, wanted, condition, asked.machine)
    unit = chips_inside(asked.machine, network) if len(opened) == 1 and opened[0] not in asked.sizes else 1
    asked = asked.vary(mesh={axis: axis if size is None else size for axis, size in axes.items()})
    names = dict.fromkeys([*program(asked.text).labels, *opened, *names_in(asked.conventions.mesh)])
    sizes = _sizes(asked, wanted, list(names))
    if unit > 1:
        asked = asked.vary(mesh={**axes, opened[0]: f"{unit}*{_UNITS}"})
    kept = _sizes_of_axes(sizes, axes)
    symbolic = _in_symbols(asked.vary(sizes=kept))
    _crosses_slices(asked.vary(sizes=kept), condition)
    asked = asked.vary(sizes=sizes, plan=symbolic.plan)
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in sizes.items()}}
    x = symbol(wanted)
    held, links = _sides(symbolic, condition, network)
    ways = _ways(asked, condition.per)
    if unit > 1:
        whole_units = {symbol(_UNITS): symbol(opened[0]) / unit}
        held, ways, *links = (each.subs(whole_units) if is_symbol(each) else each for each in (held, ways, *links))
    form = _together(_crossing(held, links, x, known), several)
    # where the ratio of arithmetic to communication falls as x grows, scaling holds below the crossing
    most = any(not rises(held / link, x) for link in links)
    if wanted == condition.unknown and condition.per:
        form = form / ways
    form, what, picked, said, batch = _routed(form, condition, wanted, beside, ways, asked)
    found = evaluate_form(
        form, {**known, **picked}, symbolic, {},
        name=name, says=condition.says, what=what, question=asked, algorithm=algorithm, at_most=most,
        assumptions=(
            *said, *_taken(asked.machine, axes, mesh is not None), *_assumed(symbolic, several, network),
            *([condition.apart] if condition.apart and wanted == condition.unknown else []),
        ),
    )  # fmt: skip
    beyond = inner_link_limit(wanted, found.value, asked.machine, unit) if wanted in opened else ()
    return replace(found, assumptions=(*beyond, *found.assumptions), batch=batch(found.value))


def _open_axes(axes: Mapping[str, Any], wanted: str, condition: Condition, machine: Machine) -> list[str]:
    """The axes whose number of chips is open; what is solved for is one of them, or no axis."""
    if isinstance(axes.get(wanted), int):
        other = condition.unknown if condition.unknown != wanted else "B"
        hint = f"leave its number open (on {machine.key}), or solve for a size, as in unknown={other!r}"
        raise InputError(f"{wanted} is {axes[wanted]} chips here, and is what is solved for", hint=hint)
    return [axis for axis, size in axes.items() if size is None]


def _sizes_of_axes(sizes: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of chips that were given, one for each axis."""
    kept = {key: size for key, size in sizes.items() if key in axes}
    several = ", ".join(key for key, size in kept.items() if has_arrays({key: size}))
    if several:
        raise SizeError(f"{several} has several values", hint="an axis has one number of chips, or is left open")
    return kept


def _beside(asked: Question, condition: Condition, wanted: str) -> tuple[Question, dict[str, Any]]:
    """Take what stands beside the condition from the sizes: k of E experts; N chips and a batch of B tokens.

    N and B are taken where the answer is a number of tokens.
    """
    names = []
    if condition.routed and wanted == condition.unknown:
        names.append("k")
    if condition.per == ("X",) and wanted == condition.unknown:
        names += ["N", "B"]
    elif condition.experts:
        names += ["N", "k"]
    elif condition.hides == "weights" or (condition.per and wanted == condition.unknown):
        names.append("B")
    beside = {name: asked.sizes[name] for name in names if name in asked.sizes}
    return asked.vary(sizes={name: size for name, size in asked.sizes.items() if name not in beside}), beside


def _routed(
    form: Any, condition: Condition, wanted: str, beside: Mapping[str, Any], ways: Any, asked: Question
) -> tuple[Any, str, Mapping[Any, Any], tuple[str, ...], Callable[[Any], Batch | None]]:
    """Let k of E experts count: the batch is one of all tokens, and a chip (or node) of several is sent to once.

    Returns the form, what it is of, the number of ``k``, what is said, and what makes the batch of all chips.
    """
    what = condition.what if wanted == condition.unknown else wanted
    known: dict[Any, Any] = {}
    said: tuple[str, ...] = ()
    picks = beside.get("k")
    chips = beside.get("N", ways if isinstance(ways, int) and condition.per else None)
    counted = wanted == condition.unknown and (condition.per or condition.hides == "weights")
    counted = counted and not (condition.routed and picks is None)
    if picks is not None:
        known[symbol("k")] = check_experts_per_token(picks, asked.sizes.get("E"))
    if picks is not None and condition.routed:
        form, what = form * symbol("E") / symbol("k"), "tokens per chip" if condition.per else "tokens"
    elif picks is not None:
        mesh = asked.on_mesh().mesh
        chips = chips or (mesh["X"].size if mesh is not None else None)
        form, said = _sent_once(form, picks, chips, asked.machine)
    tokens = check("B", beside["B"]) if "B" in beside else None

    def batch(value: Any) -> Batch | None:
        found = Batch.of(value, chips, tokens, asked.machine, alone=condition.hides == "weights") if counted else None
        return replace(found, pods=None, unit="slice") if found is not None and condition.link else found

    return form, what, known, said, batch


def _sent_once(form: Any, picks: int, chips: Any, machine: Machine) -> tuple[Any, tuple[str, ...]]:
    """The width that k of the experts need: of several on one chip, or in one node, a token is sent to once.

    Source: "How To Scale Your Model", chapter 12: T_comms counts min(k / nodes, 1) of a dense AllToAll.
    """
    if not isinstance(chips, int):
        return form, ("each token goes to k chips: what is sent and what is computed grow alike, and k cancels",)
    inner = links_inside_out(machine)[0]
    joined = domain_of(inner)
    inside = inner.topology in TORUS_DIMENSIONS or joined is None or chips <= joined
    groups, word = (chips, "chip") if inside else (chips // (joined or 1), "node")
    if picks <= groups:
        return form, (f"each token goes to {picks} of {groups:,} {word}s: k cancels",)
    said = f"a token goes to each of {groups:,} {word}s once, for all of its {picks} experts there"
    return form * groups / symbol("k"), (said,)


def _in_symbols(asked: Question) -> Bound:
    """The answer in symbols; what has no effect on it is refused, but for the algorithm, which is always named."""
    found = asked.answer(symbolic=True)
    unnamed = asked.vary(algorithm=Conventions().algorithm)
    refuse_idle(unnamed)
    refuse_idle_on_plan(unnamed, found)
    return found


class _SplitQuestion(NamedTuple):
    """What is asked of a condition on how N chips are split over X and Y."""

    on: Any
    formats: tuple[str, str]
    algorithm: str
    several: Mapping[str, tuple[str, ...]]
    unknown: str | None
    given: Mapping[str, Any]

    def line(self, text: str, several: Mapping[str, tuple[str, ...]], axes: tuple[str, ...] = ("X", "Y")) -> Question:
        """A line over these axes, each over ``several`` of a torus."""
        line = _spread(text.format(*self.formats), several)
        asked = question(line, on=self.on, algorithm=self.algorithm, **self.given)
        return asked.vary(mesh={axis: axis for axis in _all(axes, several)})


def _split_sizes(asked: Question) -> dict[str, Any]:
    """The sizes that are given, and the number of chips of a target's shape."""
    return {**_chips(asked.machine, asked.sizes.get("N")), **_sizes(asked, None, ["B", "D", "F", "N"])}


def _mixed(request: _SplitQuestion) -> Scaling:
    """FSDP over X and tensor parallelism over Y of N = X·Y chips: the X at which both take as long, then the B."""
    several, wanted = request.several, request.unknown or "B"
    _known_axes(several, ("X", "Y"))
    batch_wanted = wanted == "B"
    asked = request.line(_MIXED, several)
    sizes = _split_sizes(asked)
    symbolic = _in_symbols(asked.vary(sizes={}))
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in sizes.items()}}
    x, n = symbol("X"), symbol("N")
    split = {symbol("Y"): n / x}
    math = _together(_time(symbolic, "flops"), several).subs(split)
    sent = _sent(symbolic)
    over = {axis: _together(sent[axis], several).subs(split) for axis in ("X", "Y")}
    best = _positive(roots_of(over["X"], over["Y"], x) or ())
    equation = sympy.simplify((math / over["X"].subs(x, best)) ** 2)
    form = _root(equation, wanted, sizes)
    says, what = SPLITS["mixed"]
    least = {symbol("B"): form} if batch_wanted and "B" not in sizes else {}  # no batch is given: the least that scales
    found = evaluate_form(
        form / n if batch_wanted else form, known, symbolic, {"X": sympy.simplify(best), "Y": sympy.simplify(n / best)},
        name="mixed", says=says, what=what if batch_wanted else wanted,
        question=asked.vary(plan=symbolic.plan), algorithm=request.algorithm, sizes=sizes,
        at_most=not rises(equation, symbol(wanted)),
        take=best_whole_split(sympy.Max(*over.values()).subs(least), known),
        whole=least_whole_split([time - math for time in over.values()], known) if batch_wanted else {},
        assumptions=(
            *best_split_limit(best.subs(least), known, asked.machine), *_assumed(symbolic, several, None),
        ),
    )  # fmt: skip
    batch = Batch.of(found.value, sizes.get("N"), sizes.get("B"), asked.machine, 0.5) if batch_wanted else None
    return replace(found, batch=batch)


def _two_dimensions(request: _SplitQuestion) -> Scaling:
    """Weights over X and Y of N = X·Y chips against all N in one dimension: the best X, then the N of equal times.

    The collectives follow one another, so that their times add. ``torus_axes`` of Y alone lays the one dimension over
    several; of X and Y those of the two dimensions, and the one dimension over all of them.
    """
    several = request.several
    _known_axes(several, ("X", "Y"))
    x, n, wanted = symbol("X"), symbol("N"), request.unknown or "N"
    apart = "X" in several
    of_one = _several({"Y": sum(map(len, several.values()))}) if apart else several
    of_two = several if apart else {}
    sent = []
    lines = ((_ONE, of_one, ("Y",)), (_TWO, of_two, ("X", "Y")))
    for line, spread, axes in lines:
        asked = request.line(line, spread, axes)
        symbolic = _in_symbols(asked.vary(sizes={}))
        over = _sent(symbolic)
        times = [over[axis] for axis in ("X", "Y") if axis in over]
        sent.append(_together(sum(times[1:], times[0]), spread).subs(symbol("Y"), n / x))
    sizes = _split_sizes(asked)
    rates = _numbers(symbolic)
    links = {u.place: u.rate.value for u in symbolic.uses if u.quantity == "wire"}
    if rates.get(links["X"]) == rates.get(links["Y"]):
        sent = [time.subs(links["X"], links["Y"]) for time in sent]
    best = _positive(sympy.solve(sympy.diff(sent[1], x), x))
    equation = sympy.simplify((sent[0].subs(x, 1) / sent[1].subs(x, best)) ** 2)
    says, what = SPLITS["2d"]
    known = {**rates, **{symbol(key): size for key, size in sizes.items()}}
    return evaluate_form(
        _root(equation, wanted, {name: size for name, size in sizes.items() if name != "N"}), known, symbolic,
        {"X": sympy.simplify(best), "Y": sympy.simplify(n / best)}, name="2d", says=says,
        what=what if wanted == "N" else wanted, question=asked.vary(plan=symbolic.plan), algorithm=request.algorithm,
        at_most=not rises(equation, symbol(wanted)), take=best_whole_split(sent[1], known),
        sizes={name: size for name, size in sizes.items() if name == "F"},
        assumptions=(*best_split_limit(best, known, asked.machine), *_assumed(symbolic, several, None)),
    )  # fmt: skip


def _sizes(asked: Question, wanted: str | None, names: list[str]) -> dict[str, Any]:
    """The sizes that are given, checked: each stands in the line, and the unknown is not one of them."""
    for name in asked.sizes:
        check_one_of(f"size {name} plays no part in this condition", name, names, "sizes", error=SizeError)
        if name == wanted:
            other = next((each for each in reversed(names) if each != wanted), "B")
            hint = f"leave it out, or solve for another, as in {either(f'--for {other}', f'unknown={other!r}')}"
            raise InputError(f"{name} is what is solved for, and it is given", hint=hint)
    return {name: check(name, size) for name, size in asked.sizes.items() if size is not None}


def _known_axes(several: Mapping[str, tuple[str, ...]], axes: tuple[str, ...]) -> None:
    for axis in several:
        if axis not in axes:
            hint = f"its mesh axes are {in_a_row(axes)}"
            raise InputError(f"torus_axes names {axis!r}, which this condition does not have", hint=hint)


def _chips(machine: Machine, given: Any) -> dict[str, Any]:
    """The number of chips that a target's shape gives; those of one node leave X no link of its own."""
    if machine.mesh is None:
        return {}
    chips = machine.mesh.chips
    if given is not None and given != chips:
        raise InputError(f"N={given}, and {machine.target} has {chips} chips", hint="leave one of them out")
    links = {level.link for axis in machine.mesh for level in axis.segments}
    if len(links) == 1 and all(level.topology != "torus" for axis in machine.mesh for level in axis.segments):
        mesh = either("--mesh X=…,Y=…", "mesh={'X': …, 'Y': …}")
        hint = f"both axes share it; ask bound about the line, with {mesh}"
        raise InputError(f"the {chips} chips of {machine.target} are joined by {links.pop()} alone", hint=hint)
    return {"N": chips}


def _root(equation: Any, wanted: str, sizes: Mapping[str, Any]) -> Any:
    """Solve ratio² = 1 for the unknown. The ratio is a product of powers, so there is one root."""
    if wanted in sizes and wanted != "B":
        raise InputError(f"{wanted} is what is solved for, and it is given", hint="leave it out")
    found = roots_of(equation, sympy.Integer(1), symbol(wanted))
    if not found:
        raise _does_not_decide(wanted)
    return found[0]


def _does_not_decide(wanted: Any) -> InputError:
    other = either("--for B", "unknown='B'")
    hint = f"solve for another size, as in {other}, or for an axis whose size is open (on a chip without a shape)"
    return InputError(f"{wanted} does not decide whether this scales", hint=hint)


def _crosses_slices(asked: Question, condition: Condition) -> None:
    """A condition on what crosses slices needs an axis that does."""
    mesh = asked.on_mesh().mesh
    if condition.link and mesh is not None:
        axis = next(iter(mesh.select([condition.link])), None)
        if axis is not None and all(level.topology == "torus" for level in axis.segments):
            raise _one_slice(asked.machine)


def _one_slice(machine: Machine) -> InputError:
    several = f"{machine.target}:2" if len(machine.shape) > 1 else "v5p:16x20x28:2"
    hint = f"name a target of several, as in {several}"
    return InputError(f"{machine.name} is one slice here, and nothing crosses slices", hint=hint)


def _assumed(symbolic: Bound, several: Mapping[str, tuple[str, ...]], network: str | None) -> tuple[str, ...]:
    """What the answer rests on: the collectives and links of the plan, and what of the network counts."""
    spread = [f"{axis} lies over {len(over)} axes of the torus" for axis, over in several.items() if len(over) > 1]
    counted = [f"only what goes over {network} counts"] if network else []
    said = without(symbolic.assumptions, ("plan",))
    return (*said, *spread, *counted)


#: The most axes of a torus that a mesh axis may lie over; those of real machines are 6 at most.
MOST_AXES = 64


def _several(torus_axes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Names of the torus axes that one mesh axis is laid over: X, X2 …"""
    counts = {axis: check(f"of torus_axes for {axis}", count) for axis, count in torus_axes.items()}
    for axis, count in counts.items():
        if not isinstance(count, int):
            raise SizeError(f"torus_axes for {axis} has several values", hint=f"one number, as in {axis}=2")
        if count > MOST_AXES:
            raise SizeError(f"{axis} over {count:g} axes of a torus", hint=f"a torus has at most {MOST_AXES} axes here")
    return {axis: (axis, *(f"{axis}{i}" for i in range(2, count + 1))) for axis, count in counts.items()}


def _spread(text: str, several: Mapping[str, tuple[str, ...]]) -> str:
    """Shard over several axes of a torus where a line shards over one mesh axis."""
    if not any(len(names) > 1 for names in several.values()):
        return text

    def spread(found: re.Match[str]) -> str:
        return f"_{{{','.join(_all(tuple(found[1]), several))}}}"

    return re.sub(r"_([A-Z]+)", spread, text)


def _axes(machine: Machine, names: tuple[str, ...]) -> dict[str, Any]:
    """Sizes of a condition's mesh axes: None where open, else from the target's shape. One axis takes all of a slice.

    >>> from roofline.hardware import chip
    >>> [_axes(chip(on), ("Y",)) for on in ("v5e", "h100:8", "v5e:4x4", "v5e:16x16:2")]
    [{'Y': None}, {'Y': 8}, {'Y': 16}, {'Y': 256, 'S': 2}]
    """
    if machine.mesh is None or not names:
        return dict.fromkeys(names)
    if names[1:] not in ((), (SLICE_AXIS,)) or machine.mesh.sizes.keys() == {*names}:
        return {}
    inside = {names[0]: product(machine.shape)}
    return {**inside, SLICE_AXIS: machine.slices} if machine.slices > 1 else inside


def _taken(machine: Machine, axes: Mapping[str, Any], given: bool) -> tuple[str, ...]:
    """Say that one axis takes all the axes of a target's shape."""
    if given or len(axes) != (1 if machine.slices == 1 else 2) or len(machine.shape) < 2:
        return ()
    name, size = next(iter(axes.items()))
    whole = replace(machine, slices=1).target
    fewer = {name: machine.shape[0], "X" if name == "Y" else "Y": size // machine.shape[0], **dict([*axes.items()][1:])}
    example = ", ".join(f"{axis}={n}" for axis, n in fewer.items())
    return (f"{name} is all {size:,} chips of {whole}, over its axes at once; a mesh takes fewer, as in {example}",)


def _all(axes: tuple[str, ...], several: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for axis in axes for name in several.get(axis, (axis,)))


def _together(form: Any, several: Mapping[str, tuple[str, ...]]) -> Any:
    """Let the first of several torus axes stand for their product, which is all that a closed form depends on."""
    return form.subs({symbol(name): 1 for names in several.values() for name in names[1:]})


def _numbers(symbolic: Bound) -> dict[Any, float]:
    return values_of(use.rate for use in symbolic.uses)


def _sides(symbolic: Bound, condition: Condition, network: str | None) -> tuple[Any, list[Any]]:
    """The time that communication has to stay below, and the times of the links that count."""
    held = _weights(symbolic) if condition.against == "bytes" else _time(symbolic, condition.against)
    if condition.hides == "weights":
        return held, [_weights(symbolic, named="W")]
    links = [u for u in symbolic.uses if u.quantity == "wire"]
    if network is not None:
        names = list(dict.fromkeys(u.network for u in links))
        check_one_of(f"nothing is sent over {network!r}", network, names, "links in use")
        links = [u for u in links if u.network == network]
    return held, [u.time for u in links if not condition.link or u.axis == condition.link]


def _crossing(held: Any, links: list[Any], x: Any, known: Mapping[Any, Any]) -> Any:
    """The size at which the links take as long as the arithmetic, or as loading the weights."""
    if len(links) > 1 and any(is_array(size) for size in known.values()):
        raise SizeError("with arrays the link that binds may differ", hint="one number a size, or name the link")
    found = hidden_from(held, links, x, {each: size for each, size in known.items() if not is_array(size)})
    if found is None:
        raise _does_not_decide(x)
    return found


def _time(symbolic: Bound, quantity: str) -> Any:
    return sum(use.time for use in symbolic.uses if use.quantity == quantity)


def _weights(symbolic: Bound, named: str = "") -> Any:
    """Time to load the weights alone, as in decoding of a small batch; those of experts go by their name."""
    reads = [t for part in symbolic.ops for t in part.op.reads if t.role == "weight" or (named and t.ident == named)]
    loaded = sum(t.traffic_bytes for t in reads)
    return loaded / next(use.rate.value for use in symbolic.uses if use.quantity == "bytes")


def _sent(symbolic: Bound) -> dict[str, Any]:
    """The time on the links of each mesh axis."""
    return {use.axis: use.time for use in symbolic.uses if use.quantity == "wire"}


def _ways(asked: Question, axes: tuple[str, ...]) -> Any:
    mesh = asked.on_mesh().mesh
    return product(mesh[axis].size for axis in axes) if mesh is not None else 1


def _positive(roots: Iterable[Any]) -> Any:
    """The first root that is positive where every size is 1."""
    return next(root for root in roots if root.subs(dict.fromkeys(root.free_symbols, 1)) > 0)


def evaluate_form(
    form: Any, known: Mapping[Any, Any], symbolic: Bound, at: Mapping[str, Any], **fields: Any
) -> Scaling:
    """Put numbers into a form and what follows from it; ``symbolic`` has the rates and what was assumed."""
    form = sympy.factor(sympy.cancel(form))
    leading = _for_large_sizes(form)
    used = ((use.rate, UNITS[use.quantity][1]) for use in symbolic.uses)
    units = {rate.value: (rate.plain, unit) for rate, unit in used if rate.plain is not None}
    return Scaling(
        form=form, value=value_of(form, known), at=at, limit_form=leading, limit=value_of(leading, known),
        best={name: value_of(found, known) for name, found in at.items()},
        rates={str(each): units[each] for each in sorted(form.free_symbols, key=str) if each in units}, **fields,
    )  # fmt: skip


def best_split_limit(best: Any, known: Mapping[Any, Any], machine: Machine) -> tuple[str, ...]:
    """Say that the best X of N chips is below 1 or above N, or that their Y is more chips than the inner link joins.

    >>> from roofline.hardware import chip
    >>> from roofline.sizes import symbol
    >>> B, N = symbol("B"), symbol("N")
    >>> for batch in (1, 400, 4000):
    ...     print(best_split_limit(N * B / 4000, {B: batch, N: 256}, chip("h100")))
    ('the best X is below 1: X = 1, all 256 chips along Y',)
    ('the best Y is 10, and nvlink joins 8 chips: take Y = 8 at the most',)
    ()
    """
    n = symbol("N")
    chips, x, y = known.get(n), value_of(best, known), value_of(sympy.simplify(n / best), known)
    if isinstance(chips, int) and x is not None and not is_array(x):
        if x < 1:
            return (f"the best X is below 1: X = 1, all {chips:,} chips along Y",)
        if x > chips:
            return (f"the best X is more than {chips:,} chips: X = {chips:,}, all of them along X",)
    found = inner_link_limit("Y", y, machine)
    return tuple(f"the best Y is {_number(y)}, and {said}" for said in found)


#: A size at which every term that grows with it is larger than those that do not.
_LARGE = 1e30


def best_whole_split(time: Any, known: Mapping[Any, Any]) -> dict[str, int]:
    """The X and Y whose product is N at which a time is the least; empty where open sizes decide that.

    >>> import sympy
    >>> from roofline.sizes import symbol
    >>> B, D, X, N = symbol("B"), symbol("D"), symbol("X"), symbol("N")
    >>> best_whole_split(B * (X + 100 / X), {N: 64}), best_whole_split(B * X + D / X, {N: 64})
    ({'X': 8, 'Y': 8}, {})
    >>> best_whole_split(sympy.Max(B / X, 1e6 * X), {N: 64})  # small at any X beside the other, until it is large
    {}
    """
    x, choices = symbol("X"), _whole_ways(known)
    if not choices:
        return {}
    plain = put_numbers(time, known)
    openly = free_symbols(plain) - {x}
    ends = [plain.subs(x, at) for at in (choices[0], choices[-1])]
    for size in openly:
        others = dict.fromkeys(openly - {size}, 1)
        low, high = (float(end.subs({**others, size: _LARGE}) / end.subs({**others, size: 1})) for end in ends)
        if abs(low / high - 1) > 1e-9:
            return {}
    plain = plain.subs(dict.fromkeys(openly, 1))
    best = min(choices, key=lambda ways: float(plain.subs(x, ways)))
    return {"X": best, "Y": choices[-1] // best}


def least_whole_split(waits: Iterable[Any], known: Mapping[Any, Any]) -> dict[str, float]:
    """The whole X and Y of N chips that scale from the fewest tokens B, and these; empty where none does, or is known.

    ``waits`` are the times of communication less that of arithmetic, each linear in B.

    >>> from roofline.sizes import symbol
    >>> B, X, N = symbol("B"), symbol("X"), symbol("N")
    >>> least_whole_split([3 * X - B, B * 8 / X - B], {N: 16})  # X of 8 or more for Y, and B of 3 X for X
    {'X': 8, 'Y': 2, 'B': 24.0}
    >>> least_whole_split([B + X], {N: 16})
    {}
    """
    x, tokens, choices = symbol("X"), symbol("B"), _whole_ways(known)
    if not choices:
        return {}
    rates = {name: value for name, value in known.items() if name != tokens}
    plain = [put_numbers(wait, rates) for wait in waits]
    for size in set().union(*map(free_symbols, plain)) - {x, tokens}:
        if len({_growth(wait, size, at) for wait in plain for at in ({x: 1, tokens: 1}, {x: 2, tokens: _LARGE})}) > 1:
            return {}
    plain = [wait.subs(dict.fromkeys(free_symbols(wait) - {x, tokens}, 1)) for wait in plain]

    def needed(ways: int) -> float:
        fixed, grows = ([float(wait.subs({x: ways, tokens: count})) for wait in plain] for count in (0, 1))
        pairs = [(start, start - one) for start, one in zip(fixed, grows, strict=True)]  # beyond B = start / falls
        return max(start / falls if falls > 0 else math.inf if start > 0 or falls < 0 else 0 for start, falls in pairs)

    best = min(choices, key=needed)
    least = needed(best)
    return {"X": best, "Y": choices[-1] // best, "B": max(0.0, least)} if math.isfinite(least) else {}


def _whole_ways(known: Mapping[Any, Any]) -> list[int]:
    """The divisors of N chips, 1 first and N last; none where their number is open, or a size is an array."""
    chips = known.get(symbol("N"))
    if not isinstance(chips, int) or any(is_array(size) for size in known.values()):
        return []
    return [ways for ways in range(1, chips + 1) if chips % ways == 0]


def _growth(amount: Any, size: Any, at: Mapping[Any, Any]) -> float:
    """How many times as much there is of twice a size, to nine digits; every other size is 1 where ``at`` has none."""
    others = {**dict.fromkeys(free_symbols(amount) - {size}, 1), **at}
    return round(float(amount.subs({**others, size: 2}) / amount.subs({**others, size: 1})), 9)


def chips_inside(machine: Machine, network: str | None) -> int:
    """Chips of one unit that ``network`` joins: those of a node where it is the link between nodes, else 1.

    >>> from roofline.hardware import chip
    >>> [chips_inside(chip("dgx-h100"), name) for name in ("ib", "nvlink", None)]
    [8, 1, 1]
    """
    links = links_inside_out(machine)
    inside = next((inner for inner, link in pairwise(links) if link.name == network), None)
    return (domain_of(inside) or 1) if inside is not None else 1


def inner_link_limit(axis: str, chips: Any, machine: Machine, unit: int = 1) -> tuple[str, ...]:
    """Say how many chips an axis can have of those that scale: those that the inner link joins, or whole units.

    Says nothing of a torus and of arrays.

    >>> from roofline.hardware import chip
    >>> inner_link_limit("Y", 13.04, chip("h100"))
    ('nvlink joins 8 chips: take Y = 8 at the most',)
    >>> inner_link_limit("Y", 13.04, chip("gb200")), inner_link_limit("Y", 99, chip("v5e"))
    ((), ())
    >>> inner_link_limit("Y", 19.3, chip("dgx-h100"), 8)
    ('whole units of 8 chips: take Y = 16 at the most',)
    """
    inner = links_inside_out(machine)[0]
    most = domain_of(inner)
    if chips is None or is_array(chips) or inner.topology in TORUS_DIMENSIONS or most is None or chips <= most:
        return ()
    if unit > 1:
        return (f"whole units of {unit} chips: take {axis} = {int(chips // unit * unit)} at the most",)
    return (f"{inner.name} joins {most} chips: take {axis} = {most} at the most",)


def value_of(form: Any, known: Mapping[Any, Any]) -> Size | None:
    """Put numbers into a form; sizes may be arrays. None where something is open, or where it is not positive.

    >>> import numpy as np
    >>> from roofline.sizes import symbol
    >>> F, Y = symbol("F"), symbol("Y")
    >>> value_of(F / Y, {F: 12, Y: 4}), value_of(F / Y, {F: 12}), value_of(F / Y, {F: np.array([12, 8]), Y: 4}).tolist()
    (3.0, None, [3.0, 2.0])
    """
    known = {each: size for each, size in known.items() if each in free_symbols(form)}
    arrays = sorted((each for each, size in known.items() if is_array(size)), key=str)
    if not arrays:
        return positive_number(put_numbers(form, known))
    rest = put_numbers(form, {each: size for each, size in known.items() if not is_array(size)})
    if free_symbols(rest) - set(arrays):
        return None
    return sympy.lambdify(arrays, rest, "numpy")(*(known[each] for each in arrays))


def _for_large_sizes(form: Any) -> Any:
    """The leading term of a form as all its sizes grow together: (n − 1)/n becomes 1.

    >>> from sympy import Symbol
    >>> from roofline.sizes import symbol
    >>> F, W, P = symbol("F"), Symbol("W"), Symbol("P")
    >>> _for_large_sizes((4 * F * W + P) / P)
    4*F*W/P
    """
    t = sympy.Symbol("t", positive=True)
    sizes = [s for s in form.free_symbols if s.is_integer]
    if not sizes:
        return form
    grown = sympy.cancel(form.subs({size: size * t for size in sizes}))
    degree = sympy.degree(sympy.numer(grown), t) - sympy.degree(sympy.denom(grown), t)
    return sympy.factor(sympy.limit(sympy.cancel(grown / t**degree), t, sympy.oo))


def _number(value: Any) -> str:
    if is_array(value):
        return f"{format_number(float(value.min()), 4)} … {format_number(float(value.max()), 4)}"
    return format_number(value, 4)


#: Sizes are tried up to so many times what was asked.
FARTHEST = 2**12

#: Sizes that are priced at once.
AT_ONCE = 1024


def hiding_in_words(asked: Question, plan: RankedPlan) -> Iterator[str]:
    """What is sent, over which axes and for how long; whether that hides behind the arithmetic, from which sizes on."""
    bound = plan.bound
    if bound is None or not is_number(bound.lower) or not bound.math:
        return
    sent = [part for part in bound.ops if part.op.kind == "collective"]
    if not sent:
        return
    each = [f"{part.op.options['collective']} over {', '.join(part.op.options['axes'])}" for part in sent]
    times = [format_amount(part.lower, "s") for part in sent]
    said = [f"{what} {'takes ' if len(sent) == 1 else ''}{time}" for what, time in zip(each, times, strict=True)]
    busiest = f"; the busiest link works {format_amount(bound.comms, 's')}" if len(sent) > 1 else ""
    hides = bound.comms <= bound.math
    does = "hides" if hides else "does not hide"
    timed, math_time = by_what_is_timed(bound.incomplete), format_amount(bound.math, "s")
    yield f"{timed}{', '.join(said)}{busiest} and the arithmetic {math_time}: sending {does} behind it"
    if plan.layout:
        return
    sizes = [name for name in asked.size_names if is_number(asked.sizes.get(name)) and name not in asked.formulas]
    first = {name: size_that_hides(asked, plan, name) for name in sizes}
    least = [f"{name} = {int(size):,}" for name, size in first.items() if size and 1 < size < math.inf]
    never = [name for name, size in first.items() if size == math.inf and not hides]
    if least:
        others = f"; a larger {' or '.join(never)} alone does not do it" if never else ""
        yield f"by this plan it hides from {' or '.join(least)} on{others}"
    elif never:
        yield f"by this plan a larger {' or '.join(never)} alone does not do it"


def size_that_hides(asked: Question, plan: RankedPlan, name: str) -> float | None:
    """The least size from which on sending takes no longer than computing.

    1 where it never takes longer, infinity where it does at the largest tried, :data:`FARTHEST` times the size asked;
    None where that is not known. Sizes that are formulas of it follow, the others are as asked; those that all chips
    divide are tried.
    """
    mesh = asked.on_mesh().mesh
    step = product(axis.size for axis in mesh.axes) if mesh is not None else 1
    if not isinstance(step, int):
        return None

    def hides(sizes: Any) -> Any:
        found = replace(asked.with_sizes(**{name: sizes}), plan_of_all=plan.plan).answer()
        return np.broadcast_to(np.asarray(found.comms) <= np.asarray(found.math), sizes.shape)

    doublings = (asked.sizes[name] * FARTHEST // step).bit_length()
    sizes = step * 2 ** np.arange(doublings)
    try:
        while True:
            longer = np.flatnonzero(~hides(sizes))
            if not longer.size:
                return 1
            last = int(longer[-1])
            if last == sizes.size - 1:
                return math.inf
            low, high = int(sizes[last]), int(sizes[last + 1])
            if high - low <= step:
                return high
            stride = step * max(1, (high - low) // (step * AT_ONCE))
            sizes = np.unique(np.append(np.arange(low, high, stride), high))
    except RooflineError:  # a size that the plan does not take, or one that follows from it
        return None
