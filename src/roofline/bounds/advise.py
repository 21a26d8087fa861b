"""What would move the bound, and by how much: each line is a question asked afresh, ranked by gain.

>>> from roofline import bound
>>> answer = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
>>> [(a.change, round(a.gain, 2)) for a in advise(answer)][:3]
[('int4 operands', 1.98), ('int4 weights', 1.94), ('B = 128', 1.94)]

Memory-bound: narrower storage, more work a byte, fusion, larger tiles, a faster level, more bandwidth. Compute-bound:
faster arithmetic, fewer FLOPs, a higher peak. Network- and latency-bound: another layout, plan or algorithm, fewer
bits on the links, more or fewer chips, faster links. What changes nothing is not listed.

An answer that waits for the network:

>>> answer = bound("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="v5e:4", B=64, D=2048, F=8192)
>>> for idea in layouts(answer.question, answer):
...     print(idea.change)
B over X
F over X
>>> [idea.change for idea in faster_links(answer.question, answer)]
['ici at twice the bandwidth']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import TIMES, Comparable, Fact, on_several
from roofline.bounds.advice_engine import (
    LEAST_GAIN,
    OTHER_CHIPS,
    BeforeAndAfter,
    Operand,
    Proposal,
    changed_words,
    helpful,
    operands,
    parsed_sizes,
    peaks_that_bind,
    reshard,
    resize,
    retype,
    retype_result,
    set_options,
    standing_of,
)
from roofline.bounds.api import bound, question
from roofline.bounds.bound import Bound, ResourceUse
from roofline.bounds.crossing import first_where
from roofline.bounds.memory import KERNELS_APART, scores_in_memory
from roofline.bounds.question import NOT_REPEATED, Question, refuse_idle
from roofline.errors import HardwareError, InputError, RooflineError, SizeError
from roofline.frozen import dataclass, fields, replace
from roofline.hardware import chip, override, with_choices
from roofline.hardware.machine import Machine, Mesh
from roofline.hardware.overrides import changed_figures
from roofline.hardware.rate import figure_value, find_link, main_level
from roofline.notation.scope import is_unnamed
from roofline.notation.structure import Step
from roofline.quantity import format_amount, format_change, format_number, format_percent, format_quantity, format_times
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Sentences, Table, figures, incomplete
from roofline.signatures import listed_names, spelled, takes
from roofline.sizes import LARGEST

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide

#: Said of a peak that is compared with one of which only a share is reached.
WHOLE = "its reachable share unknown"

#: Arithmetic formats worth trying, widest first; fp16 where a chip has no bf16.
ARITHMETIC = ("bf16", "fp16", "fp8", "int8", "fp4")

#: As many bits, and another format of them.
_NO_BF16 = ("bf16", "fp16")

# Narrower storage formats worth trying for each width in bits: operands of matrix products, and all others.
_NARROWER = {64: ("fp32", "bf16"), 32: ("bf16", "int8"), 16: ("int8", "int4"), 8: ("int4",)}
_NARROWER_VECTOR = {64: ("fp32",), 32: ("bf16",), 16: ("fp8",)}
_ROLE_WORD = {"weight": "weights", "activation": "activations", "kv": "KV", "gradient": "gradients"}


@dataclass(frozen=True, slots=True, eq=False)
class Advice(BeforeAndAfter):
    """A change that moves the bound.

    ``gain`` is how much faster the same amount of work gets: the time before ÷ the time after, times ``more``.
    ``more`` is how many times the work the changed question does: 2 for a batch twice as large, else 1. ``before`` and
    ``after`` are the two whole answers, which print as a page each: their seconds are ``time_before``, ``time_after``.

    >>> for line in bound("bf16[B, D] * bf16[D, F]", on="h100", B=64, D=8192, F=8192).advise()[:1]:
    ...     print(f"{line.change}: {line.gain:.2f}, {line.more:g} times the work, {line.time_after * 1e6:.1f} µs")
    B = 319: 4.68, 4.98438 times the work, 43.3 µs
    """

    change: str
    reason: str
    before: Bound
    after: Bound
    gain: float
    more: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data in SI units."""
        return {
            "change": self.change, "reason": self.reason, "gain": self.gain, "more_work": self.more,
            "lower_before": self.before.lower, "lower_after": self.after.lower,
            "bound_by_after": self.after.bound_by, "expression": self.after.expression, "target": self.after.target,
            "question": self._question(),
        }  # fmt: skip

    def _question(self) -> dict[str, Any] | None:
        """The changed question in words that ask it again; None where words do not say it."""
        asked, was = self.after.question, self.before.question
        unsaid = (asked.flops_share, asked.scores_on_chip) != (was.flops_share, was.scores_on_chip)
        if not asked.text or unsaid or set(was.machine.given) - set(asked.machine.given):
            return None
        sizes = {name: size for name, size in asked.sizes.items() if isinstance(size, int | float)}
        now, then = (
            {each.name: getattr(q.conventions, each.name) for each in fields(q.conventions)}
            | {"over": q.machine.over or "main", "unit": q.machine.unit or "auto"}
            for q in (asked, was)
        )
        figures_set = changed_figures(asked.machine, was.machine)
        options = changed_words(then, {**now, "set": figures_set} if figures_set else now)
        said = {"expression": asked.text, "sizes": sizes, "on": asked.machine.target, "options": options}
        return None if options is None else said

    def __repr__(self) -> str:
        change = format_change(self.before.lower, self.after.lower, "s")
        return f"<Advice: {self.change}: {change}, {format_times(self.gain)}>"


class AdviceList(tuple[Advice, ...], Comparable):
    """Advice about ``answer`` in order of gain, other chips last: a tuple that is an answer too."""

    answer: Bound

    def __new__(cls, answer: Bound, found: Iterable[Advice] = ()) -> AdviceList:
        self = super().__new__(cls, found)
        self.answer = answer
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.answer, tuple(self)

    @property
    def target(self) -> Any:
        """The machine of the answer, as a person reads it."""
        return self.answer.target

    @property
    def machine(self) -> Machine:
        """The machine of the answer."""
        return self.answer.machine

    @property
    def incomplete(self) -> Sequence[str]:
        """What of the answer could not be timed: then nothing is advised."""
        return self.answer.incomplete

    @property
    def is_floor(self) -> bool:
        """Whether its first fact is a time: of an intensity alone it is a rate."""
        return self.answer.is_floor

    def facts(self) -> Iterator[Fact]:
        yield next(iter(self.answer.facts()))
        yield Fact("bound by", f"{self.answer.kind} ({self.answer.bound_by})")
        for item in self:
            word = "on" if item.change == item.after.target else "with"
            yield Fact(f"{word} {item.change}", item.gain, TIMES, timed=True)

    def assumed(self) -> Iterable[str]:
        return self.answer.assumed()

    def needed(self) -> Any:
        return self.answer.needed()

    def to_dict(self) -> dict[str, Any]:
        """The lines under stable keys (schema ``roofline/advice/1``), after the answer they move."""
        now = self.answer.to_dict()
        asked = ("expression", "target", "machine", "set", "sizes", "lower", "bound_by", "kind")
        return {
            "schema": "roofline/advice/1",
            **{name: now[name] for name in asked},
            "advice": [item.to_dict() for item in self],
        }

    def sections(self) -> Iterator[Section]:
        answer = self.answer
        yield Headline(answer.expression, f"on {answer.target}")
        now = f"{format_amount(answer.lower, 's')} at best"
        if answer.is_rate_only:
            now = f"{format_amount(answer.attainable, 'FLOP/s')} attainable"
        yield Sentences([f"{now}, {answer.kind} ({answer.bound_by})"])
        yield BLANK
        yield advice_table(self) if self else Sentences(["nothing that was tried makes it faster"])
        if said := _no_help(answer):
            yield from (BLANK, Sentences([said], "quiet"))
        yield incomplete(answer.incomplete)


def advice_table(advice: Sequence[Advice]) -> Table:
    """A row for each change: its times before and after, the gain, the reason."""
    change, why = (Column(name, wrap="anywhere") for name in ("change", "why"))
    rows = []
    for index, item in enumerate(advice):
        time = Amount(item.after.lower, "s", format_change(item.before.lower, item.after.lower, "s"))
        label = "faster" if index == 0 else ""
        rows.append(Row((label, item.change, time, Amount(item.gain, "", format_times(item.gain)), item.reason)))
    return Table((Column(meaning="advice"), change, *figures("at best", "faster"), why), rows, "advice", headed=False)


@overload
def advise(answer: str, *, on: list[Any] | tuple[Any, ...], **arguments: Any) -> SideBySide: ...
@overload
def advise(answer: Bound | str, *, chips: Sequence[str] = OTHER_CHIPS, **arguments: Any) -> AdviceList: ...
@on_several
@takes(question)
def advise(answer: Bound | str, *, chips: Sequence[str] = OTHER_CHIPS, **arguments: Any) -> AdviceList | SideBySide:
    """Try every change that fits what binds; return those that help, the largest gain first, other chips last.

    ``answer`` is a bound of plain numbers, or an expression with the arguments of :func:`roofline.bound`. ``chips``
    names other machines to compare with, ``()`` none. Of an answer whose FLOPs or bytes could not be timed, or of a
    bare intensity, nothing is advised. Several machines stand side by side:

    >>> found = advise("bf16[B, D] * bf16[D, F]", on="h100,a100", B=64, D=8192, F=8192)
    >>> [round(gain.value, 2) for gain in found.facts["with int4 weights"]]
    [3.82, 2.43]
    """
    if isinstance(answer, str):
        made: Any = bound(answer, **arguments)
        if isinstance(made, Bound) and made.question is not None:
            refuse_idle(made.question, uses=NOT_REPEATED)
        answer = made
    elif arguments:
        raise InputError("a bound already has its machine and sizes", hint="give an expression to ask anew")
    if not isinstance(answer, Bound):
        raise InputError("advice is about one bound", hint=f"name one machine, as in {spelled('on', 'h100')}")
    if answer.question is None:
        program = f"trace a program again with {spelled('policy', 'fused')}, in bf16 or on another chip, and compare()"
        hint = f"{program}; answers of roofline.bound, llm and train have advice"
        raise InputError("advice changes a question, and this bound has none", hint=hint)
    if not isinstance(answer.bound_by, str):
        raise InputError("advice needs plain numbers", hint="give every size one value, as in B=64")
    if answer.incomplete or answer.question.raw.get("intensity") is not None:
        return AdviceList(answer)
    asked: Question = answer.question
    ideas = [idea for adviser in ADVISERS.get(answer.kind or "", ()) for idea in adviser(asked, answer)]
    kept = helpful(ideas, answer, standing_of) + helpful(_chips(asked, answer, chips), answer, standing_of)
    found = [Advice(k.proposal.change, k.reason, answer, k.after, k.gain, k.proposal.more) for k in kept]
    return AdviceList(answer, found)


def _narrower_storage(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Store weights, activations or KV in fewer bits; one role at a time, then all of them."""
    if asked.raw:
        return
    inputs = _narrowable(asked)
    moved = {t.ident: t.traffic_bytes for part in answer.ops for t in part.op.reads}
    total = sum(answer.bytes.values())
    matrix = any(key.place == "matrix" for part in answer.ops for key in part.op.work)
    narrower = _NARROWER if matrix else _NARROWER_VECTOR
    for role in dict.fromkeys(o.role for o in inputs):
        chosen = [o for o in inputs if o.role == role]
        share = sum(moved.get(o.ident, 0) for o in chosen) / total
        for name in _formats(asked, narrower, chosen):
            formats = {o.position: name for o in chosen if dtypes.get(o.dtype).bits > dtypes.get(name).bits}
            sent = any(part.op.kind == "collective" for part in answer.ops)
            from_host = any(key.place == "host" for part in answer.ops for key in part.op.work)
            loaded = f"{_ROLE_WORD[role]} are {format_percent(share)} of the bytes"
            loaded = "fewer bytes to load" if from_host else loaded
            reason = "fewer bytes to load and to send" if sent else loaded
            yield from _retyped(asked, formats, f"{name} {_ROLE_WORD[role]}", reason)
    if len({o.role for o in inputs}) > 1:
        for name in _formats(asked, narrower, inputs):
            formats = {o.position: name for o in inputs if dtypes.get(o.dtype).bits > dtypes.get(name).bits}
            if len(formats) > 1:
                everything = "all inputs and intermediates in fewer bits"
                yield from _retyped(asked, formats, f"{name} operands", everything, intermediates=name)


def _formats(asked: Question, narrower: Mapping[int, tuple[str, ...]], chosen: Sequence[Operand]) -> tuple[str, ...]:
    """Narrower formats for the widest of some operands; in place of 16 bits also fp8 where the chip computes in it."""
    bits = max(dtypes.get(o.dtype).bits for o in chosen)
    computes = bits == 16 and any("fp8" in unit.peaks for unit in asked.machine.units)
    return tuple(dict.fromkeys((*(("fp8",) if computes else ()), *narrower.get(bits, ()))))


def _faster_arithmetic(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Compute in a narrower format with a higher peak."""
    if asked.raw:
        return
    inputs = _narrowable(asked)
    known = {dtype for unit in asked.machine.units for dtype in unit.peaks}
    measured = {dtype for unit in asked.machine.units for dtype in unit.achievable}
    tried = known - {"fp16"} if "bf16" in known else known
    for name in ARITHMETIC:
        wider = [o for o in inputs if dtypes.get(o.dtype).bits > dtypes.get(name).bits or (o.dtype, name) == _NO_BF16]
        formats: dict[int, str] = {o.position: name for o in wider}
        if name in tried and formats and len(formats) == len(inputs):
            plain = asked.vary(compute=None)
            whole = asked.machine.use_achievable and measured and name not in measured
            reason = f"a higher peak, {WHOLE}" if whole else "a higher peak"
            yield from _retyped(plain, formats, f"{name} arithmetic", reason, intermediates=name)
    if "tf32" in known and {o.dtype for o in inputs} == {"fp32"} and asked.conventions.compute is None:
        yield Proposal("tf32 arithmetic", "fp32 stored, 10 bits of fraction multiplied", asked.vary(compute="tf32"))
    read = {dtypes.arithmetic_name(o.dtype) for o in inputs}
    if len(read) == 1 and asked.conventions.compute is None and (summed := f"{min(read)}_acc16") in known:
        yield Proposal(f"{summed} arithmetic", "sums in fp16, not in fp32", asked.vary(compute=summed))


def _narrowable(asked: Question) -> list[Operand]:
    """The operands that a narrower format could hold: not indices, not complex numbers, not wide integers."""
    inputs = [o for o in operands(asked) if o.role in _ROLE_WORD]
    formats = [dtypes.get(o.dtype) for o in inputs]
    able = all(f.family == "float" or (f.family == "int" and f.bits <= 8) for f in formats)
    return inputs if able else []


def _retyped(
    asked: Question, formats: dict[int, str], change: str, reason: str, intermediates: str | None = None
) -> Iterator[Proposal[Bound]]:
    if formats:
        yield from _attempt(change, reason, partial(retype, asked, formats, intermediates=intermediates))


def _larger_batch(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Grow a size that the weights do not carry to where computing takes as long as loading."""
    if asked.raw:
        return
    sizes = {**parsed_sizes(asked), **asked.sizes}
    for label in _batch_labels(asked):
        now = sizes.get(label)
        if not isinstance(now, int) or label in asked.formulas:
            continue
        wanted = _first_compute_bound(asked, answer, label, now)
        if wanted is not None:
            change = f"{label} = {wanted}" if not is_unnamed(label) else f"a size of {wanted} for {now}"
            larger = resize(asked, label, wanted)
            more = _more_work(larger, answer, wanted / now)
            yield Proposal(change, f"{format_number(more, 3)} times the work", larger, more)


def _more_work(larger: Question, answer: Bound, times: float) -> float:
    """How many times the FLOPs a question takes; not a number where it cannot be asked.

    Over chips the size is ``times`` as large: another plan may give each chip another share of the work.
    """
    try:
        return times if larger.is_sharded else float(larger.answer().flops) / float(answer.flops)
    except RooflineError:
        return math.nan


def _batch_labels(asked: Question) -> list[str]:
    """Labels of an activation that no weight carries and that the result keeps.

    Those of a tensor that stands under other labels elsewhere, as a square that meets itself, are tied to these.
    """
    found: dict[str, None] = {}
    roles = {o.ident: o.role for o in operands(asked)}
    steps = asked.parsed.steps
    once = {s.ident: s.labels for step in steps for s in step.inputs}
    again = {s.ident for step in steps for s in step.inputs if s.labels != once[s.ident]}
    tied = {label for step in steps for s in step.inputs if s.ident in again for label in s.labels}
    for step in steps:
        weights = {label for s in step.inputs if roles.get(s.ident) == "weight" for label in s.labels}
        if weights:
            kept = [x for s in step.inputs for x in s.labels if x not in weights | tied and x in step.output.labels]
            found.update(dict.fromkeys(kept))
    return list(found)


def _first_compute_bound(asked: Question, answer: Bound, label: str, now: int) -> int | None:
    """Double until another kind of resource binds, then halve the stretch: the smallest size that its axes divide.

    Sizes that are formulas of it stay whole too: its steps are then a divisor of what it is.
    """
    each = asked.multiple_of(label) if asked.conventions.uneven == "error" else 1

    def at(size: int) -> Bound | None:
        try:
            return resize(asked, label, size).answer()
        except SizeError:
            return None

    if asked.formulas:
        each = next((n for n in range(each, now, each) if now % n == 0 and at(now + n) is not None), now)
    before, low, high = answer, now // each, now * 2 // each
    farthest = min(now * 2**24, LARGEST) // each
    while high <= farthest and (after := at(high * each)) and after.kind == before.kind:
        before, low, high = after, high, high * 2
    if high > farthest or after is None:
        return None
    # times are nearly straight lines: where the two that bind at the ends cross
    ahead, behind = (found.times[before.bound_by] - found.times[after.bound_by] for found in (before, after))
    crossing = low + math.ceil((high - low) * ahead / (ahead - behind))
    kind = before.kind

    def flips(count: int) -> bool:
        found = at(count * each)
        return found is not None and found.kind != kind

    return first_where(flips, low, high, near=crossing) * each


def _fusion(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Run elementwise operations inside the kernel that made their operand."""
    if len(answer.ops) > 1 and asked.conventions.policy == "each-op":
        yield Proposal("fuse elementwise operations", "intermediates stay on the chip", asked.vary(policy="fused"))


#: Kinds of operations that one kernel can run row by row; those that need all of a row, whose kernels are written so.
_BY_ROWS, _OF_ROWS = {"contraction", "elementwise"}, {"softmax", "reduction", "norm"}


def _one_kernel(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Run sums over rows in the kernel of what is beside them: a softmax or a norm that is written out, or a product's.

    >>> from roofline import advise
    >>> found = advise("x = fp32[B, T]; e = exp(x); s = sum_T(e); e / s", on="h100", B=8192, T=8192)
    >>> [(line.change, round(line.gain, 2)) for line in found][0]
    ('one kernel for all', 2.5)
    """
    kinds = [part.op.kind for part in answer.ops]
    apart = len(kinds) > 1 and asked.conventions.policy in KERNELS_APART
    by_rows = set(kinds) <= _BY_ROWS | _OF_ROWS and kinds.count("contraction") < 2
    if apart and by_rows and not _OF_ROWS.isdisjoint(kinds):
        yield Proposal("one kernel for all", "whole rows stay on the chip", asked.vary(policy="minimal"))


def _unfused_attention(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Keep attention scores on the chip, where a line says that they are written, or writes attention out.

    >>> from roofline import advise
    >>> line = "s = bf16[S, D] * bf16[T, D]; p = softmax_T(s); p * bf16[T, D]"
    >>> [(a.change, round(a.gain, 1)) for a in advise(line, on="h100", S=8192, T=8192, D=128)][0]
    ('fused attention', 4.7)
    """
    reason = "scores and probabilities stay on the chip"
    if any(step.options.get("unfused") for step in _attention(asked)):
        yield Proposal("fused attention", reason, set_options(asked, "attention", unfused=False))
    elif asked.conventions.policy in KERNELS_APART and scores_in_memory([part.op for part in answer.ops]):
        yield Proposal("fused attention", reason, asked.vary(scores_on_chip=True))


def _causal(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Attend only backwards, where the model allows it."""
    if any(not step.options.get("causal") for step in _attention(asked)):
        changed = set_options(asked, "attention", causal=True, full=False)
        yield Proposal("causal attention", "about half the pairs", changed)


def _attention(asked: Question) -> list[Step]:
    steps = asked.parsed.steps if asked.text else ()
    return [step for step in steps if step.function == "attention"]


def _no_help(answer: Bound) -> str:
    """What gains nothing of twice the bandwidth, peak and batch, and the formats in which the chip does not compute."""
    asked = answer.question
    if answer.incomplete or asked.raw or not isinstance(answer.bound_by, str):
        return ""
    words = [each.change for each in _doubled(asked, answer) if _gain(each, answer) < LEAST_GAIN]
    said = f"no gain from {', '.join(words)}" if words else ""
    known = {dtypes.arithmetic_name(name) for unit in asked.machine.units for name in unit.peaks}
    lacking = [name for name in ("fp8", "int8") if dtypes.arithmetic_name(name) not in known]
    lacks = f"{asked.machine.name} has no {' or '.join(lacking)} arithmetic" if lacking and known else ""
    return "; ".join(each for each in (said, lacks) if each)


def _gain(proposal: Proposal[Bound], answer: Bound) -> float:
    """How much faster the same amount of work gets; not a number where it cannot be asked."""
    try:
        return float(answer.lower) / float(proposal.question.answer().lower) * proposal.more
    except (RooflineError, ZeroDivisionError):
        return math.nan


def _doubled(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Twice the bandwidth of the main memory, twice the peak that takes longest, twice the first size of a batch."""
    memory = main_level(asked.machine)
    if memory.bandwidth is not None:
        machine = override(asked.machine, {memory.name: memory.bandwidth.value * 2})
        yield Proposal("twice the memory's bandwidth", "", asked.vary(machine=machine))
    computing = [use for use in answer.uses if use.quantity == "flops"]
    if computing:
        yield _twice_the_peak(asked, max(computing, key=lambda each: float(each.time)), "")
    sizes = {**parsed_sizes(asked), **asked.sizes}
    for label in _batch_labels(asked)[:1]:
        if isinstance(now := sizes.get(label), int):
            change = f"twice {label}" if not is_unnamed(label) else f"a size of {2 * now} for {now}"
            larger = resize(asked, label, 2 * now)
            yield Proposal(change, "", larger, _more_work(larger, answer, 2.0))


def _larger_tiles(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Load operands less often."""
    if asked.conventions.policy == "tiled" and asked.conventions.tile is not None:
        bm, bn, bk = asked.conventions.tile
        twice = (bm * 2, bn * 2, bk)
        yield Proposal(f"tiles of {bm * 2} x {bn * 2}", "operands are loaded half as often", asked.vary(tile=twice))


def _faster_level(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Keep the operands in a memory level that holds them and is faster."""
    if answer.footprint is None or asked.conventions.policy == "tiled":
        return
    for memory in asked.machine.memories:
        if memory.bandwidth is None or memory.capacity is None or memory.link:
            continue
        if memory.capacity.value >= answer.footprint.total and memory.name != answer.footprint.level:
            reason = f"{memory.name} holds all {format_quantity(answer.footprint.total, 'B')}"
            machine = with_choices(asked.machine, over=memory.name)
            yield Proposal(f"operands in {memory.name}", reason, asked.vary(machine=machine))


def _more_bandwidth(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """A platform with twice the bandwidth at the level that binds."""
    name = answer.bound_by
    memory = next((m for m in asked.machine.memories if m.name == name and m.bandwidth), None)
    if memory is not None and memory.bandwidth is not None:
        machine = override(asked.machine, {name: memory.bandwidth.value * 2})
        word = "memory" if name == main_level(asked.machine).name else name
        yield Proposal(f"{word} at twice the bandwidth", "a steeper roof", asked.vary(machine=machine))


def _higher_peak(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """A platform with twice a peak of the unit that binds."""
    for use in peaks_that_bind(answer):
        own = f"{use.resource}.{use.dtype}" in asked.machine.given  # it may be that of sparse weights already
        sparse = use.place == "matrix" and use.dtype != "fp64" and not own
        yield _twice_the_peak(asked, use, "a higher roof" + ", as with 2:4 sparse weights" * sparse)


def _twice_the_peak(asked: Question, use: ResourceUse, reason: str) -> Proposal[Bound]:
    machine = override(asked.machine, {f"{use.resource}.{use.dtype}": figure_value(asked.machine, use.rate) * 2})
    return Proposal(f"twice the {use.dtype} peak", reason, asked.vary(machine=machine))


def _fewer_flops(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Half the arithmetic over the same bytes: pruning, low rank, a cheaper algorithm."""
    reason = "pruning, low rank or a cheaper algorithm over the same bytes"
    yield Proposal("half the FLOPs", reason, asked.vary(flops_share=asked.flops_share / 2))


def _matrix_unit(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Run on the matrix unit where the caller chose another."""
    if asked.machine.unit is not None:
        yield Proposal("the matrix unit", "a higher peak", asked.vary(machine=with_choices(asked.machine, unit="auto")))


def _chips(asked: Question, answer: Bound, names: Sequence[str]) -> Iterator[Proposal[Bound]]:
    """The same on another chip, with the same choice of unit, level and share of the figures."""
    here = asked.machine
    over = None if here.over == main_level(here).name else here.over
    for name in listed_names(names):
        machine = chip(name)
        if machine.key == here.key:
            continue
        try:
            machine = with_choices(machine, unit=here.unit, over=over, achievable=here.use_achievable)
        except HardwareError:
            continue  # it has no such unit or level
        reached = any(unit.achievable for unit in machine.units)
        reason = "another chip" if reached or not here.use_achievable else f"another chip, {WHOLE}"
        yield Proposal(machine.name, reason, asked.vary(machine=machine))


# Narrower formats of what is sent, by its width in bits.
_NARROWER_SENT = {64: ("fp32", "bf16"), 32: ("bf16", "fp8"), 16: ("fp8",)}

# Limiting forms: what no collective reaches is no advice.
_LIMITS = ("book", "book-levels")


def layouts(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Shard another dimension over the axes that something is sent over."""
    for axis in _sent_over(answer):
        parsed = asked.parsed
        shapes = [shape for step in parsed.steps for shape in (*step.inputs, step.output)]
        now = {one.label for shape in shapes for one in shape.axes if axis in one.shard}
        for label in dict.fromkeys(label for shape in shapes for label in shape.labels):
            if label not in now and not is_unnamed(label):
                made = partial(reshard, asked, axis, label)
                yield from _attempt(f"{label} over {axis}", "another dimension is sharded", made)


def other_plan(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Take the best plan where another one was asked for."""
    if asked.conventions.plan is not None:
        yield Proposal("the best plan", "other collectives", asked.vary(plan=None))


def other_algorithms(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Send by another algorithm that the links can do."""
    from roofline.ops.collectives.cost import algorithms

    mesh = asked.on_mesh().mesh
    if mesh is None:
        return
    ops = [part.op for part in answer.ops if part.op.kind == "collective"]
    taken = {name for op in ops for name in op.options["algorithms"]}
    names: dict[str, None] = {}
    for op in ops:
        axes = mesh.select(op.options["axes"])
        closed = all(level.shape != "line" for axis in axes for level in axis.segments)
        found = algorithms(op.options["collective"], axes, op.writes[0].dtype if op.writes else "")
        names.update(dict.fromkeys(n for n in found if n not in _LIMITS and (closed or n != "two-way ring")))
    for name in names:
        if {name} != taken:
            yield Proposal(f"algorithm {name}", "collectives go another way", asked.vary(algorithm=name))


def narrower_result(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Send the result in fewer bits."""
    last = asked.parsed.steps[-1].output if asked.text else None
    sent = {t.ident for part in answer.ops if part.op.kind == "collective" for t in part.op.writes}
    if last is None or last.ident not in sent or dtypes.get(last.dtype).family != "float":
        return
    for name in _NARROWER_SENT.get(dtypes.get(last.dtype).bits, ()):
        yield from _attempt(f"{name} result", "fewer bytes on the links", partial(retype_result, asked, name))


def other_sizes(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Half or twice the chips along the axes that something is sent over."""
    mesh = asked.on_mesh().mesh
    if mesh is None:
        return
    for axis in _sent_over(answer):
        size = mesh[axis].size
        for n in (size // 2, size * 2) if isinstance(size, int) and size % 2 == 0 else ():
            word = "fewer" if n < size else "more"
            yield from _attempt(f"{axis} = {n}", f"{word} chips", partial(_resized, asked, mesh, axis, n))


def faster_links(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Links of twice the bandwidth, or half the latency where that is what takes the time."""
    use = max((u for u in answer.uses if u.resource == answer.bound_by), key=lambda u: u.time)
    level = asked.on_mesh().segment(use.place)
    if level is None:
        return
    link, found = level.link, find_link(asked.machine, level.link)
    if use.quantity == "wire" and found is not None and found.bandwidth is not None:
        machine = override(asked.machine, {link: found.bandwidth.value * 2})
        yield Proposal(f"{link} at twice the bandwidth", "faster links", asked.vary(machine=machine))
    if use.quantity == "hops" and found is not None and found.latency is not None:
        machine = override(asked.machine, {f"{link}.latency": found.latency.value / 2})
        yield Proposal(f"{link} at half the latency", "shorter hops", asked.vary(machine=machine))


def _attempt(change: str, reason: str, make: Callable[[], Question]) -> Iterator[Proposal[Bound]]:
    """A change that the notation or the network refuses is no idea."""
    try:
        yield Proposal(change, reason, make())
    except InputError:
        return


def _sent_over(answer: Bound) -> list[str]:
    """Mesh axes that the plan's collectives go over."""
    axes = (axis for part in answer.ops if part.op.kind == "collective" for axis in part.op.options["axes"])
    return list(dict.fromkeys(axes))


def _resized(asked: Question, mesh: Mesh, axis: str, size: int) -> Question:
    """The question with another number of chips along one axis, on a target of that shape."""
    sizes: dict[str, Any] = {one.name: one.size for one in mesh} | {axis: size}
    if not asked.conventions.mesh and len(sizes) == len(asked.machine.shape) and asked.machine.slices == 1:
        machine = replace(asked.machine, shape=tuple(sizes.values()), mesh=None)
        from roofline.hardware.mesh import with_mesh

        return asked.vary(machine=with_mesh(machine))
    if asked.machine.shape:
        raise InputError(f"{asked.machine.target} has one shape", hint="name a larger target")
    return asked.vary(mesh={**asked.conventions.mesh, axis: size})


Adviser = Callable[[Question, Bound], Iterator[Proposal[Bound]]]

_ON_THE_NETWORK = (layouts, other_plan, other_algorithms, narrower_result, other_sizes, faster_links)

#: What to try, by what binds, in this order; what helps is sorted by gain. The first two are the seeds' lists.
ADVISERS: dict[str, tuple[Adviser, ...]] = {
    "memory-bound": (
        _narrower_storage, _larger_batch, _fusion, _one_kernel, _unfused_attention, _larger_tiles, _faster_level,
        _more_bandwidth,
    ),
    "compute-bound": (_faster_arithmetic, _causal, _fewer_flops, _matrix_unit, _higher_peak),
    "network-bound": (*_ON_THE_NETWORK, _narrower_storage, _larger_batch),
    "latency-bound": (*_ON_THE_NETWORK, _larger_batch),
}  # fmt: skip
