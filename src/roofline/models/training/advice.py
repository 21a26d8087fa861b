"""What would move a training step: limits of its parallelism, the best mix, changes asked afresh.

Limits say from how many tokens on, or up to how many chips, each kind of parallelism pays:

>>> from roofline.models.training import train
>>> found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=2**22, tensor=4, checkpoint="full")
>>> for limit in limits(found):
...     print(limit)
fsdp 1,024: computing covers it from 185 tokens a chip on (1,024 now)
tensor 4: computing covers it up to 8 chips (4 now)
>>> print(best_mix(found))
no other mix of fsdp and tensor that fits has a lower floor than fsdp 1,024, tensor 4

What must be covered is an axis's collectives, all together, behind all computing of the step: the floor's own question.
Computing grows with the tokens of a chip, gathering weights does not; of tensor parallelism both grow, so that there
only its width counts. Each line holds as fresh answers do, on both sides of it.

Advice is a list of changes, each of them a step asked afresh:

>>> found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=4 * 10**6, tensor=8, checkpoint="full", sequence=2048)
>>> for line in advise(found)[:3]:
...     print(line)
checkpoint none, tensor 4: 1.32 s → 907 ms, 1.45x, then compute-bound
checkpoint matmuls, tensor 4: 1.32 s → 913 ms, 1.44x, then compute-bound
h100 chips: 1.32 s → 1.05 s, 1.26x

Source: "How To Scale Your Model", chapter 5: B/X > C/W for data and fully sharded, Y < F·W/C for tensor parallelism.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from roofline import dtypes
from roofline.answers import attributes
from roofline.bounds.advice_engine import OTHER_CHIPS, Proposal, Standing, helpful
from roofline.bounds.bound import Bound
from roofline.errors import RooflineError
from roofline.frozen import Same, dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.network import domain_of, links_inside_out
from roofline.hardware.rate import choose_unit
from roofline.hardware.targets import in_number
from roofline.models.operations import off_matrix_unit
from roofline.models.parallelism.layout import axis_across_slices
from roofline.models.parallelism.schedules import SCHEDULES, schedule
from roofline.models.serving.advice import ChangeList, changes_table, native_formats
from roofline.models.training.answer import Training
from roofline.models.training.passes import CHECKPOINT_POLICIES
from roofline.models.training.question import microbatches_that_fit
from roofline.models.training.step import TrainingQuestion
from roofline.quantity import format_change, format_number, format_percent, format_quantity
from roofline.sections import Headline, Section, paragraph
from roofline.sizes import LARGEST, is_array, is_one, is_symbol, maximum, product, sums_by_name

#: The share of a step that a pipeline may wait for little.
BUBBLE = 0.05

#: How many times as many chips are tried, to split each layer over them.
WIDER = (2, 4, 8, 16)

#: The share of the memory that a change may leave at most, to be worth a line where a step does not fit.
SMALLER = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """One condition: ``what`` must be at ``least`` or at most ``value``; None where no value does, 0 where any does."""

    axis: str
    ways: int
    what: str
    value: float | None
    now: float
    least: bool

    @property
    def holds(self) -> bool:
        """Whether it holds now."""
        if self.value is None:
            return False
        return self.now >= self.value if self.least else self.now <= self.value

    def to_dict(self) -> dict[str, Any]:
        """The condition as plain data."""
        return attributes(self, "axis", "ways", "what", "value", "now", "least", "holds")

    def __str__(self) -> str:
        name = f"{self.axis} {self.ways:,}"
        if self.what == "microbatches":
            little = f"at most {format_percent(BUBBLE)} of the step is waiting"
            return f"{name}: {little} from {self.value:,} microbatches on ({self.now:,.0f} now)"
        if self.value is None:
            return f"{name}: computing covers it at no number of {self.what}"
        if self.value == 0:
            return f"{name}: computing covers it at any number of {self.what}"
        side = f"from {self.value:,.0f} {self.what} on" if self.least else f"up to {self.value:,.0f} {self.what}"
        return f"{name}: computing covers it {side} ({self.now:,.0f} now)"


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """How the chips of a step are best shared out to ``fsdp`` and ``tensor``: ``lower`` seconds, and ``now``."""

    fsdp: int
    tensor: int
    lower: float
    now: float
    bound_by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The mix as plain data."""
        return attributes(self, "fsdp", "tensor", "lower", "now", "bound_by")

    def __str__(self) -> str:
        best = f"fsdp {self.fsdp:,}, tensor {self.tensor:,}"
        if self.lower >= self.now:
            return f"no other mix of fsdp and tensor that fits has a lower floor than {best}"
        return f"best mix {best}: {format_change(self.now, self.lower, 's')}, bound by {self.bound_by}"


def best_mix(found: Training) -> Mix | None:
    """Find the mix of fully sharded and tensor parallelism with the least floor, all else as it is; None without both.

    Every power of two that divides the chips is asked for anew. What does not fit or is not modelled is left out; of
    floors that are equal, the mix whose operations one after the other take least.
    """
    tensor, fsdp = found.layout.tensor, found.layout.fsdp
    if is_array(found.lower) or is_symbol(found.lower) or tensor == 1 or fsdp == 1:
        return None
    chips, now = int(tensor) * int(fsdp), (float(found.lower), float(found.op_by_op))
    best = (now, int(tensor), str(found.bound.bound_by))
    for ways, tried in _shared_out(found, 1):
        if tried.memory.fits is not False and len(tried.bound.incomplete) <= len(found.bound.incomplete):
            floors = (float(tried.lower), float(tried.op_by_op))
            best = min(best, (floors, ways, str(tried.bound.bound_by)))
    (lower, _), ways, bound_by = best
    return Mix(chips // ways, ways, lower, now[0], bound_by)


def layouts_over_slices(found: Training) -> tuple[TrainingAdvice, ...]:
    """Other ways to lay a step over several slices, the fastest first; each is a step asked afresh.

    Copies on each slice, stages on each slice, and chips that share weights or split layers over all slices.

    >>> from roofline.models.training import train
    >>> for line in layouts_over_slices(train("llama-3-8b", on="v5e:16x16:2", batch_tokens=2**19, tensor=4)):
    ...     print(line.change)
    pipeline over the slices (pipeline 2, fsdp 64, tensor 4)
    fsdp over the slices (fsdp 128, tensor 4)
    """
    machine = found.bound.machine
    if machine.slices == 1 or is_array(found.lower) or is_symbol(found.lower):
        return ()
    ways = {name: int(number) for name, number in found.ways.items()}
    lines = []
    for name in ("data", "pipeline", "fsdp", "tensor"):
        changed = _over_slices(ways, name, machine)
        if changed is None:
            continue
        asked = {n: changed[n] for n in ("data", "pipeline", "fsdp", "tensor")}
        if (after := _tried(found, **asked)) is not None:
            shown = ", ".join(f"{n} {size:,}" for n, size in asked.items() if size > 1)
            lines.append(TrainingAdvice(f"{name} over the slices ({shown})", asked, found, after))
    return tuple(sorted(lines, key=lambda line: float(line.after.lower)))


def _over_slices(ways: dict[str, int], name: str, machine: Machine) -> dict[str, int] | None:
    """The same layout with another axis over the slices; None where there is none."""
    now = axis_across_slices(machine, ways)
    if now is None or now == name:
        return None
    changed = {**ways, now: ways[now] // machine.slices}
    changed[name] *= machine.slices
    return changed if axis_across_slices(machine, changed) == name else None


def limits(found: Training) -> tuple[Limit, ...]:
    """Work out where each axis of a layout stops being covered by computing; of arrays and symbols nothing is said."""
    if is_array(found.lower) or is_symbol(found.lower):
        return ()
    can_double = 2 * found.batch_tokens <= LARGEST
    by_tokens = [n for n in ("data", "fsdp", "expert") if found.ways[n] > 1 and can_double]
    each = _from_tokens(found, by_tokens) if by_tokens else []
    each += [_tensor(found)] if found.layout.tensor > 1 else []
    if found.layout.pipeline > 1:
        stages, fewest = int(found.layout.pipeline), _fewest_microbatches(found)
        each.append(Limit("pipeline", stages, "microbatches", fewest, float(found.microbatches), True))
    return tuple(each)


def _fewest_microbatches(found: Training) -> int:
    """From how many microbatches on this step waits little: stages are not alike, as the textbook's are.

    The waits hardly change with the microbatches, the rest grows with them, which tells where to look.
    """
    order, stages = schedule(found.schedule), int(found.layout.pipeline)
    step = stages if order.splits else 1
    textbook = int(order.microbatches(BUBBLE, stages=stages, chunks=int(found.question.chunks)))

    def waits(count: int) -> float:
        return float(again(found, microbatches=count).bubble)

    try:
        share = waits(textbook)
        near = textbook * share / (1 - share) * (1 - BUBBLE) / BUBBLE
        count = max(-(-math.ceil(near) // step) * step, stages)
        while waits(count) > BUBBLE:
            count += step
        while count > stages and waits(count - step) <= BUBBLE:
            count -= step
    except RooflineError:
        return textbook
    return count


def again(found: Training, **changes: Any) -> Training:
    """Ask for a step anew, with something changed; what was measured is of the step as it is."""
    parts = found.microbatches if found.layout.pipeline == 1 else found.question.microbatches
    return _again(Same(found.question), **{"microbatches": parts, **changes})


@lru_cache(maxsize=64, typed=True)
def _again(question: Same[TrainingQuestion], **changes: Any) -> Training:
    """Limits, mixes and advice ask for many of the same steps: each is worked out once."""
    made: Training = question.value.vary(measured=None, **changes).answer()
    return made


def _tried(found: Training, **changes: Any) -> Training | None:
    """The step with something changed, in microbatches that follow the change; None where it is not possible."""
    try:
        return again(found, **{"microbatches": found.question.microbatches, **changes})
    except RooflineError:
        return None


def _would_fit(found: Training, changes: dict[str, Any]) -> bool:
    """Whether a changed step is possible and fits."""
    after = _tried(found, **changes)
    return after is not None and bool(after.fits)


def axis_times(bound: Bound, axis: str) -> dict[str, Any]:
    """Seconds by link of the collectives over one axis of the mesh."""
    wires = (use for use in bound.uses if use.quantity == "wire" and use.axis == axis)
    return sums_by_name((use.place, use.time) for use in wires)


def computing(bound: Bound) -> float:
    """Seconds of the busiest unit."""
    times = sums_by_name((use.resource, float(use.time)) for use in bound.uses if use.quantity == "flops")
    return float(max(times.values()))


def _from_tokens(found: Training, axes: Sequence[str]) -> list[Limit]:
    """Tokens of a chip from which computing takes longer than each axis: both are straight lines of the batch.

    Where no number of microbatches is given, they are as many as fit, so that it is one from which computing covers an
    axis; over stages the floor gathers weights once.
    """
    asked, one = found.question, found
    sent = [time for axis in axes for time in axis_times(found.bound, axis).values()]
    if asked.as_fits and asked.microbatches is not None and computing(found.bound) >= max(sent, default=0.0):
        one = again(found, microbatches=1)
    twice = again(one, batch_tokens=2 * found.batch_tokens)
    return [_from_tokens_of(one, twice, axis) for axis in axes]


def _from_tokens_of(found: Training, twice: Training, axis: str) -> Limit:
    now = float(found.batch_tokens) / float(found.chips)
    later = axis_times(twice.bound, axis)
    values: list[float | None] = []
    for place, time in axis_times(found.bound, axis).items():
        here = computing(found.bound) - float(time)
        slope = computing(twice.bound) - float(later[place]) - here
        start = here - slope
        if slope > 0:
            values.append(max(-start / slope, 0.0) * now)
        else:
            values.append(0.0 if here >= 0 else None)
    worst = None if None in values else max((v for v in values if v is not None), default=0.0)
    return Limit(axis, int(found.numbers[axis]), "tokens a chip", worst, now, True)


def _tensor(found: Training) -> Limit:
    """The most chips that may split a layer, the chips of a step and its batch as they are."""
    best: int | None = None
    for ways, tried in _shared_out(found):
        times = axis_times(tried.bound, "tensor")
        if max(times.values(), default=0) <= computing(tried.bound):
            best = ways
        elif best is not None:
            break
    return Limit("tensor", int(found.layout.tensor), "chips", best, float(found.layout.tensor), False)


def _shared_out(found: Training, *first: int) -> Iterator[tuple[int, Training]]:
    """The step with its chips shared out anew to ``tensor`` and ``fsdp``: ``first`` ways of tensor, then 2, 4, 8 …"""
    chips = int(found.layout.tensor) * int(found.layout.fsdp)
    for ways in (*first, *_doubling(chips)):
        tried = _tried(found, tensor=ways, fsdp=chips // ways)
        if tried is not None:
            yield ways, tried


def _doubling(most: int) -> Iterator[int]:
    ways = 2
    while ways <= most:
        if most % ways == 0:
            yield ways
        ways *= 2


@dataclass(frozen=True, slots=True, eq=False)
class TrainingAdvice:
    """A change, the arguments of :func:`roofline.models.train` that make it, and the step after it.

    ``gain`` is how many times as many tokens a chip is trained on in the same time. ``more`` is how many
    times as many tokens a changed step has. ``before`` and ``after`` are whole answers, which print as a page each:
    their seconds are ``time_before`` and ``time_after``.
    """

    change: str
    arguments: dict[str, Any]
    before: Training
    after: Training

    @property
    def gain(self) -> float:
        """Tokens of a chip and second, after over before."""
        old, new = self.before, self.after
        return float((new.batch_tokens / _taken(new) / new.chips) / (old.batch_tokens / _taken(old) / old.chips))

    @property
    def time_before(self) -> float:
        """Seconds of the step as it was, by a stated MFU where there is one."""
        return float(_taken(self.before))

    @property
    def time_after(self) -> float:
        """Seconds of the changed step."""
        return float(_taken(self.after))

    @property
    def fits(self) -> bool:
        """Whether it makes a step fit that did not."""
        return self.before.fits is False and self.after.fits is True

    @property
    def more(self) -> float:
        """How many times as many tokens the changed step trains on."""
        return float(self.after.batch_tokens / self.before.batch_tokens)

    @property
    def reason(self) -> str:
        """What binds then, and whether it fits, in words."""
        kind, total = self.after.bound.kind, format_quantity(float(self.after.memory.total), "B")
        then = [f"then {kind}"] if kind != self.before.bound.kind else []
        obstacle = self.after.obstacle
        fits = ": fits" if self.fits else "" if obstacle is None else f": still {obstacle.said}"
        return ", ".join([*then, *([f"{total} a chip{fits}"] if self.before.fits is False else [])])

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data in SI units."""
        return {
            "change": self.change, "gain": self.gain,
            "time_before": self.time_before, "time_after": self.time_after,
            "bound_by_after": self.after.bound.bound_by, "memory_after": self.after.memory.total,
            "fits_after": self.after.memory.fits,
        }  # fmt: skip

    @property
    def effect(self) -> str:
        """What the change does to the step, in words; where the step does not fit, also to its memory."""
        change = format_change(float(_taken(self.before)), float(_taken(self.after)), "s")
        each = "" if self.after.chips == self.before.chips else " a chip"
        return ", ".join(filter(None, [change, f"{format_number(self.gain, 3)}x{each}", self.reason]))

    def __str__(self) -> str:
        return f"{self.change}: {self.effect}"

    def __repr__(self) -> str:
        return f"<TrainingAdvice {self}>"


class TrainingAdviceList(ChangeList):
    """Advice about a training step, best first.

    >>> from roofline import train
    >>> train("llama-3-8b", on="h100:8", batch_tokens="1M").advise()[:1]  # doctest: +ELLIPSIS
    (<TrainingAdvice b200 chips: 6.16 s → 2.71 s, 2.27x>,)
    """

    __slots__ = ()

    def sections(self) -> Iterator[Section]:
        """What to change, the gain, and why."""
        rows = [(line.change, line.gain, line.time_before, line.time_after, line.reason) for line in self]
        if rows:
            yield from (Headline("faster", "tokens of a chip and second", level=2), changes_table(rows))
        else:
            yield from paragraph("faster", ["nothing that was tried helps"])


def advise(found: Training) -> TrainingAdviceList:
    """Try what might help: those that do, what makes the step fit first, then by gain; nothing of arrays and symbols.

    A change that no longer fits is left out where the step fits now. Where it does not, what needs more memory is left
    out, what halves the memory is kept, and what still does not fit is sorted by its memory; not so where memory is
    enough, and a microbatch is less than a sequence. A measured time takes no part: it is of this step. Where matrix
    products run on another unit than the matrix unit, the format that it has is first: it costs no other chip.
    """
    if is_array(found.lower) or is_symbol(found.lower):
        return TrainingAdviceList()
    found = replace(found, measured=None)
    ideas = {_named_whole(found, change, changes): changes for change, changes in _ideas(found)}
    proposals = [  # layers that are split send in each of them: that counts as two changes
        Proposal(change, "", ChangedStep(found, changes), parts=len(changes) + ("tensor" in changes))
        for change, changes in ideas.items()
    ]
    is_parted = found.fits is False and found.memory.fits is not False
    lines: dict[str, TrainingAdvice] = {}
    for kept in helpful(proposals, found, _standing, smaller=None if is_parted else SMALLER):
        line = _line(found, kept.proposal.change, ideas[kept.proposal.change], kept.after)
        lines.setdefault(line.change, line)
    other = off_matrix_unit(found.bound)
    first = None if other is None else {"weights": other.instead}
    return TrainingAdviceList(sorted(lines.values(), key=lambda line: first is None or line.arguments != first))


def _line(found: Training, change: str, changes: dict[str, Any], after: Training) -> TrainingAdvice:
    """A line of advice; it names the microbatches of a step that fits in them, where none of its own did."""
    asked, parts = found.question, after.microbatches
    is_open = asked.as_fits and asked.microbatches is None and after.layout.pipeline == 1
    if is_open and "microbatches" not in changes and parts > 1:
        change = f"{change}, {_parts(int(parts))}"
    # where no chips share a copy any more, a stage of ZeRO says nothing
    is_idle = asked.zero != 3 and is_one(after.layout.sharing_states) and not is_one(found.layout.sharing_states)
    return TrainingAdvice(change, {**changes, **({"zero": 3} if is_idle else {})}, found, after)


def _named_whole(found: Training, change: str, changes: dict[str, Any]) -> str:
    """A change in words with the number that fsdp changes to, where it was given: else fsdp takes the chips left."""
    is_given = found.question.fsdp is not None and "fsdp" in changes
    return f"{change}, fsdp {changes['fsdp']:,}" if is_given else change


@dataclass(frozen=True, slots=True, eq=False)
class ChangedStep:
    """A training step asked anew with something changed."""

    found: Training
    changes: dict[str, Any]

    def answer(self) -> Training:
        """Work the changed step out; a number of microbatches that was not given follows the change."""
        asked = self.found.question
        if not asked.as_fits or "microbatches" in self.changes:
            return again(self.found, **{"microbatches": asked.microbatches, **self.changes})
        one = again(self.found, **{"microbatches": None, **self.changes})
        parts = microbatches_that_fit(one)
        return one if parts is None else again(one, microbatches=parts)


def _taken(found: Training) -> Any:
    """The time that a step takes: by the MFU that was stated, but never below its floor."""
    return maximum(found.time, found.lower)


def _standing(found: Training) -> Standing:
    """A step is compared by its time for a token and chip, which is never below its floor."""
    each = found.chips / found.batch_tokens
    time, floor = float(_taken(found) * each), float(found.lower * each)
    memory = float(found.memory.total)
    return Standing(time, found.fits, len(found.incomplete), found.bound.kind, memory, floor)


def _formats(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """Narrower formats that the chip computes in: 16 bits for what is wider, and fp8 with gradients as they were."""
    own = found.model.dtype
    taken = {name: choose_unit(found.bound.machine, "matrix", name) for name in ("bf16", "fp16", "fp8")}
    native = [name for name, choice in taken.items() if choice is not None and choice.dtype == name]
    same = native_formats(found.bound.machine, dtypes.get(own).arithmetic)
    yield from ((name, {"weights": name}) for name in same)
    narrower = [name for name in native if dtypes.get(name).bits < dtypes.get(own).bits]
    yield from ((name, {"weights": name}) for name in narrower[:1] if name != "fp8")
    if "fp8" in native:
        yield "fp8", {"weights": "fp8", "gradients": found.question.gradients or own}


def _ideas(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    asked, ways = found.question, found.ways
    yield f"{2 * found.batch_tokens:,} tokens a step", {"batch_tokens": 2 * found.batch_tokens}
    if asked.weights is None:
        yield from _formats(found)
    # with fused attention these two are one
    alike = {"none", "selective"} if not asked.unfused else set()
    others = [name for name in CHECKPOINT_POLICIES if name != "selective" or asked.unfused]
    policies = [name for name in others if name != found.checkpoint and not {name, found.checkpoint} <= alike]
    narrow = int(ways["tensor"]) // 2 if ways["tensor"] % 2 == 0 else 0
    shapes: list[tuple[str, dict[str, Any]]] = []
    if narrow:
        shapes.append((f"tensor {narrow}", {"tensor": narrow, "fsdp": int(ways["fsdp"]) * 2}))
    if ways["fsdp"] % 2 == 0:
        wide = 2 * int(ways["tensor"])
        shapes.append((f"tensor {wide}", {"tensor": wide, "fsdp": int(ways["fsdp"]) // 2}))
    yield from shapes
    for name in policies:
        yield f"checkpoint {name}", {"checkpoint": name}
        for text, arguments in shapes:
            yield f"checkpoint {name}, {text}", {"checkpoint": name, **arguments}
    for zero in range(4):
        if zero != asked.zero and ways["fsdp"] > 1:
            yield f"ZeRO stage {zero}", {"zero": zero}
    yield from _pipelines(found)
    if found.fits is False and found.sequences < 1 and found.microbatches > 1:
        changes: list[tuple[str, dict[str, Any]]] = [("", {}), *((f", {text}", given) for text, given in shapes)]
        for name in (found.checkpoint, *policies):
            kept = "" if name == found.checkpoint else f", checkpoint {name}"
            for text, given in changes:
                yield f"{_parts(1)}{kept}{text}", {"microbatches": 1, "checkpoint": name, **given}
    elif found.memory.fits is False:
        yield from _microbatches(found)
        yield from _same_chips(found)
    if found.fits is False and found.layout.pipeline == 1:
        yield from _whole_sequences(found)
    if asked.conventions.overlap is not None and asked.conventions.overlap < 1:
        yield "complete overlap", {"overlap": 1.0}
    yield from _chips(found)
    if found.memory.fits is False and found.sequences >= 1 and found.least_chips is None:
        yield from _wider(found)
        yield from _dealt_out(found)


def _same_chips(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """One copy that all of the same chips share, in other ways, and the fewest microbatches with which it fits.

    >>> from roofline.models.training import train
    >>> [each for each, _ in _same_chips(train("llama-3-8b", on="h100:8", batch_tokens=65536, fsdp=1, data=8))][:2]
    ['data 1', 'data 1, tensor 2']
    """
    layout, least = found.layout, found.least_states
    if layout.pipeline > 1 or (least is not None and least > (found.memory.capacity or 0)):
        return
    chips = int(layout.fsdp) * int(layout.data) * int(layout.tensor)
    for ways in (1 << power for power in range(chips.bit_length())):
        every = {"data": 1, "tensor": ways, "fsdp": chips // ways}
        changed: dict[str, Any] = {name: many for name, many in every.items() if many != getattr(layout, name)}
        one = _tried(found, **changed, microbatches=None) if changed and chips % ways == 0 else None
        count = None if one is None else 1 if one.fits else microbatches_that_fit(one)
        if count is not None:
            said = [f"{name} {many}" for name, many in changed.items() if name != "fsdp"]
            parts = {"microbatches": count} if count != found.microbatches else {}
            yield ", ".join([*said, *(_parts(count) for _ in parts)]), {**changed, **parts}


def _more_chips(found: Training, times: int) -> tuple[Any, str]:
    """So many times as many chips of the same kind as a target, and in words; None where there is no such slice."""
    asked = found.question
    on: Any = in_number(asked.on, int(found.chips) * times, asked.target.get("files", ()))
    return on, getattr(on, "target", on)


def _dealt_out(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fewest times as many chips with which it fits, each with as many tokens as now: they share the states.

    >>> from roofline.models.training import train
    >>> asked = {"on": chip("l40s", hbm="1 TB/s"), "batch_tokens": 2048, "sequence": 2048}
    >>> lora = {"lora": 16, "weights": "nf4", "checkpoint": "full"}
    >>> [each for each, _ in _dealt_out(train("llama-3-70b", **asked, **lora))]
    ['l40s:2, 4,096 tokens a step']
    """
    for times in WIDER:
        (on, named), tokens = _more_chips(found, times), found.batch_tokens * times
        if on is None or tokens > LARGEST:
            continue
        arguments = {
            "on": on, "batch_tokens": tokens, "fsdp": int(found.layout.fsdp) * times,
            "microbatches": found.question.microbatches,
        }  # fmt: skip
        if _would_fit(found, arguments):
            yield f"{named}, {tokens:,} tokens a step", arguments
            return


def _wider(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each layer split over the fewest times as many chips of a node with which it fits; also checkpointed, over fewer.

    >>> from roofline.models.training import train
    >>> [each for each, _ in _wider(train("llama-3-8b", on="4090", batch_tokens=4096))]
    ['4090:8, tensor 8']
    """
    node = next((domain_of(link) for link in links_inside_out(found.bound.machine) if not link.axes), None)
    most = max(WIDER) if node is None else node // int(found.layout.tensor)
    fewest = most + 1
    for kept in dict.fromkeys((found.checkpoint, "full")):
        changed = {} if kept == found.checkpoint else {"checkpoint": kept}
        for times in (each for each in WIDER if each < fewest):
            (on, named), ways = _more_chips(found, times), int(found.layout.tensor) * times
            if on is None:
                continue
            arguments = {"on": on, "tensor": ways, **changed, "microbatches": found.question.microbatches}
            if _would_fit(found, arguments):
                fewest = times
                said = [named, f"tensor {ways}", *(f"checkpoint {each}" for each in changed.values())]
                yield ", ".join(said), arguments
                break


def _microbatches(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fewest microbatches with which a step fits, or else as many as there are sequences; also checkpointed."""
    most = found.most_microbatches
    doubled = (int(found.microbatches) << power for power in range(1, 32))
    counts = [n for n in doubled if n < most]
    for kept in dict.fromkeys((found.checkpoint, "full")):
        changed = {} if kept == found.checkpoint else {"checkpoint": kept}
        if most > found.microbatches:
            # a microbatch of fewer sequences never needs more memory
            tried = [{**changed, "microbatches": count} for count in counts]
            at = bisect_left(tried, True, key=partial(_would_fit, found))
            arguments = {**changed, "microbatches": (count := [*counts, most][at])}
            yield ", ".join([*(f"checkpoint {name}" for name in changed.values()), _parts(count)]), arguments


def _whole_sequences(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """The next number of tokens that gives each copy whole sequences, in the fewest microbatches with which it fits.

    A microbatch of 1.02 sequences is two in memory: a few tokens more take less of it.
    """
    each, length = int(found.copies), int(found.sequence)
    whole = -(-int(found.batch_tokens) // (each * length))
    tokens = whole * each * length
    if tokens == found.batch_tokens:
        return
    for count in dict.fromkeys([*_doubling(whole), whole]):
        arguments = {"batch_tokens": tokens, "microbatches": count}
        after = _tried(found, **arguments)
        if after is not None and after.fits:
            yield f"{tokens:,} tokens a step in {_parts(count)}", arguments
            return


def _quickest_microbatches(found: Training) -> int:
    """The number of microbatches with the lowest floor of those that fit, more of them or fewer: more wait less, but
    read and gather weights more often.
    """
    most, now = found.most_microbatches, int(found.microbatches)
    counts = {1 << power for power in range(max(most, 1).bit_length())} | {most, now}
    stages = int(found.layout.pipeline) if schedule(found.schedule).splits else 1
    times = {now: float(found.lower)}
    for count in sorted(counts - {0, now}):
        other = _tried(found, microbatches=count) if count % stages == 0 else None
        if other is not None and other.fits is not False:
            times[count] = float(other.lower)
    return min(times, key=lambda count: (times[count], count))


def _parts(count: int) -> str:
    return "1 microbatch" if count == 1 else f"{count:,} microbatches"


def _pipelines(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    stages = int(found.layout.pipeline)
    if stages == 1:
        return
    for name, each in SCHEDULES.items():
        if name != found.schedule:
            yield f"schedule {name}", {"schedule": name, "chunks": 2 if each.splits else 1}
    best = found.microbatches if found.fits is False else _quickest_microbatches(found)
    if best != found.microbatches:
        yield f"{_parts(best)}, the quickest number", {"microbatches": best}
    yield "no pipeline", {"pipeline": 1, "schedule": "1f1b", "chunks": 1, "fsdp": int(found.layout.fsdp) * stages}


def _chips(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other chips, as many of them; those of a torus in the same shape."""
    machine = found.bound.machine
    if machine.given:
        return
    slices = f":{machine.slices}" if machine.slices > 1 else ""
    for name in OTHER_CHIPS:
        if name == machine.key:
            continue
        links = links_inside_out(chip(name))
        torus = bool(links) and links[0].topology == "torus"
        shape = "x".join(map(str, machine.shape)) if torus else str(product(machine.shape))
        on = f"{name}:{shape}{slices}" if machine.shape else name
        yield f"{name} chips", {"on": on, "power": None}
