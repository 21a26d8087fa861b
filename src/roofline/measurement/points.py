"""Points: runs beside what the machine allows, how much of the gap is explained, and what is odd about them.

>>> from roofline.hardware import chip
>>> [point] = points_of([Measured("up", flops=1e12, bytes=2e9, seconds=2e-3, dtype="bf16")], chip("h100"))
>>> round(point.fraction, 3), point.bound.bound_by, point.flags
(0.505, 'tensor', ())

Measured times beside expected ones: which runs are slower than their kind usually is, and kernels to calibrate from.

An operation with shapes has an expected time: of a line that ``roofline run`` timed, of a torch.profiler trace, of a
run whose name is an expression. A run of FLOPs and bytes alone has none, for these do not tell its kernel.

The same files calibrate constants (:func:`roofline.estimates.calibrate`): a trace, a machine file of ``roofline
measure``, or a CSV of kernels.

:func:`read_profile` reads a file of any profiler: the content tells which one wrote it, its name does not matter.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakKeyDictionary

from roofline.answers import Answer, attributes, estimable, plain_table
from roofline.bounds.api import bound, target
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.errors import InputError
from roofline.estimates.estimator import Estimator, Expectation, KernelRun, elements_run, kernels_of
from roofline.estimates.own_runs import MeasuredKernel, read_kernels
from roofline.files import read_bytes
from roofline.frozen import dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, main_level, resting_level, value_on_curve, with_choices
from roofline.measurement.levels import HELD_UP, SampleSummary
from roofline.measurement.machine_file import read_machine_file
from roofline.measurement.profiles import holds_torch_trace, read_profile, read_torch_trace
from roofline.measurement.result import Measurement
from roofline.measurement.runs import AROUND, Measured, Profile, equal_calls, own_profile, read_measured
from roofline.progress import stopped
from roofline.quantity import format_percent, format_quantity, in_a_row
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    figures,
    percentage,
)
from roofline.signatures import call, check_top, spelled, takes
from roofline.sizes import grouped, sums_by_name

#: A run may be this much above its roof before it is flagged: roofs are measured too.
ABOVE = 1.02

#: Operations listed with their share of the time, and those named that have no rule.
MOST_SPLIT, MOST_UNPRICED = 10, 8

#: A reason where the bound is one of data in the main memory.
IN_CACHE = "data was already in a cache: compare with the bound of warm data"

#: A reason where the machine's figures were measured, as those of the machine that a run was timed on.
OTHER_LOAD = "figures of this machine that were measured while it had other load"

#: Why a run can be faster than its bound, by what binds and by the kind of operation; "" holds for any.
REASONS: tuple[tuple[str, str, str], ...] = (
    ("memory-bound", "", IN_CACHE),
    ("memory-bound", "", "fewer bytes moved than stated"),
    ("compute-bound", "convolution", "an algorithm with fewer operations (Winograd, FFT)"),
    ("compute-bound", "", "arithmetic in a narrower dtype than stated, or a higher clock than the roof's"),
    ("network-bound", "", "switches that add up what passes them"),
    ("", "", "a time taken before the device had finished"),
)

#: A doubt about a trace without kernels of a device, under the roof of one.
OF_CPU = (
    "the trace holds times of a CPU's operations and no kernels of a device: shares of the roof of {0} mean nothing, "
    "and nothing is expected of them; profile with activities=[CPU, CUDA], or ask about the CPU"
)


@dataclass(frozen=True, slots=True)
class Effect:
    """A named part of a run's time: ``seconds`` of it, and the measured size it comes from."""

    name: str
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPoint:
    """One run with its bound.

    ``effects`` are the parts that explain its time, the roof first; ``how`` says how it was run (cold or warm caches,
    threads, output); ``summary`` is the statistics of its time, where it was taken here; ``expected`` is what constants
    of a library expect of its kernel, where that was asked and is known.
    """

    run: Measured
    bound: Bound
    effects: tuple[Effect, ...] = ()
    how: str = ""
    kind: str = ""
    summary: SampleSummary | None = None
    expected: Expectation | None = None

    @property
    def fraction(self) -> float:
        """Share of the roof that was reached: the least possible time ÷ the time it took."""
        return float(self.bound.lower) / self.run.seconds

    @property
    def lost(self) -> float:
        """Seconds above the floor, of all calls."""
        return self.run.in_all - self.least

    @property
    def least(self) -> float:
        """The floor of all calls."""
        return float(self.bound.lower) * self.run.calls

    @property
    def explained(self) -> float | None:
        """The sum of the named effects ÷ the time it took; None where none were worked out."""
        return sum(effect.seconds for effect in self.effects) / self.run.seconds if self.effects else None

    @property
    def unusual(self) -> str:
        """How a run's time differs from what its kind of kernel usually takes; empty within the interval."""
        if self.expected is None or self.expected.low <= self.run.seconds <= self.expected.high:
            return ""
        found, slower = self.expected, self.run.seconds > self.expected.high
        times = self.run.seconds / found.value
        ends = " to ".join(format_quantity(end, "s") for end in (found.low, found.high))
        of = f"{times:.2g} times" if slower else f"{format_percent(times)} of"
        usual = format_quantity(found.value, "s")
        return f"{'slower' if slower else 'faster'} than its kind usually is: {of} {usual} ({ends}, {found.holds})"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the bound assumes, and the dtype where the run states none."""
        if self.run.stated or not self.run.flops:
            return self.bound.assumptions
        return (f"{self.run.dtype} where no dtype is stated", *self.bound.assumptions)

    @property
    def untimed(self) -> tuple[str, ...]:
        """What of the run the machine has no rate for, in short: its floor and its share of the roof are too low."""
        return tuple(getattr(gap, "brief", gap) for gap in self.bound.incomplete)

    @property
    def flags(self) -> tuple[str, ...]:
        """Why this point may be where no point can be: likely reasons for a run above its roof."""
        if self.fraction <= ABOVE:
            return ()
        reasons = [
            reason
            for bound_kind, kind, reason in REASONS
            if bound_kind in ("", self.bound.kind) and kind in ("", self.kind)
            if reason != IN_CACHE or self.bound.machine.over is None
        ]
        reasons += [OTHER_LOAD] if self.summary is not None else []
        return (f"{format_percent(self.fraction)} of the roof: " + "; or ".join(reasons),)

    def to_dict(self) -> dict[str, Any]:
        """Plain data under stable keys in SI units."""
        run = self.run
        return {
            **attributes(run, "name", "calls", "dtype", "flops", "bytes", "seconds"),
            "quartiles": None if self.summary is None else [self.summary.low, self.summary.high],
            "clean": None if self.summary is None else self.summary.clean,
            "doubts": [] if self.summary is None else list(self.summary.doubts),
            "how": self.how,
            "rate": run.flops / run.seconds,
            "bandwidth": run.bytes / run.seconds,
            "roof": float(self.bound.lower),
            "bound_by": self.bound.bound_by,
            **attributes(self, "fraction", "explained"),
            "effects": [attributes(each, "name", "seconds", "why") for each in self.effects],
            **attributes(self, "flags", "assumptions"),
            "incomplete": list(self.bound.incomplete),
            **({} if self.expected is None else {"expected": self._expected_dict(self.expected)}),
        }

    def _expected_dict(self, found: Expectation) -> dict[str, Any]:
        ends = {"time": float(found.value), "low": float(found.low), "high": float(found.high)}
        basis = found.kernels[0].basis
        return {**ends, "basis": basis, "ratio": self.run.seconds / float(found.value), "unusual": bool(self.unusual)}


class MeasuredPoints(Answer, list[MeasuredPoint]):
    """Points under the roof of one machine: a list that shows itself as a table.

    Where they are of a ``profile`` they are its longest runs, and what has no rule is listed beside them.
    ``library`` is the one whose kernels are expected, empty where none was asked for.
    """

    __slots__ = ("library", "machine", "profile")
    machine: Machine
    profile: Profile | None
    library: str

    def __init__(
        self, points: Iterable[MeasuredPoint], machine: Machine, profile: Profile | None = None, library: str = ""
    ) -> None:
        list.__init__(self, points)
        self.machine, self.profile, self.library = machine, profile, library

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self), self.machine, self.profile, self.library)

    def longest(self, top: int) -> MeasuredPoints:
        """The first points, which in a profile took longest."""
        check_top(top, "points")
        return MeasuredPoints(self[:top], self.machine, self.profile, self.library)

    def expected_by(self, estimator: Estimator) -> MeasuredPoints:
        """The points beside what constants of a library expect of their kernels (``roofline.estimates.estimated``).

        Nothing is expected of times of a CPU's operations where the machine is another kind of chip.
        """
        asked = [] if self._doubt else self
        found = [replace(point, expected=expected_time(point.run, self.machine, estimator)) for point in asked] or self
        return MeasuredPoints(found, self.machine, self.profile, estimator.library)

    @property
    def _doubt(self) -> str:
        """What is said where the times are those of a CPU's operations and the machine is a chip that is none."""
        of_cpu = self.profile is not None and self.profile.of_cpu
        return OF_CPU.format(self.machine.name) if of_cpu and self.machine.family not in ("", "cpu", "measured") else ""

    @property
    def unpriced(self) -> Mapping[str, float]:
        """Seconds of operations of a profile that have no rule, by name."""
        return {} if self.profile is None else self.profile.unpriced

    def one_line(self) -> str:
        """How many there are, and where."""
        return f"{len(self)} point{'' if len(self) == 1 else 's'} on {self.machine.name}"

    def sections(self) -> Iterator[Section]:
        """A row a point, what explains the times; of a profile the time by operation and what has no rule."""
        title = f"on {self.machine.name}"
        if self.profile is None:
            yield from point_sections(self, title)
        else:
            yield from profile_sections(self, self.profile, title, len(self), self._doubt)
        if self.library and not self._doubt:
            yield from expected_sections(self, self.machine, self.library)

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """A row a run, or equal calls: the time of one, its floor, the time lost in all, the share of the roof."""
        if table is not None:
            return super().plain_table(table)
        more = ("expected", "low", "high", "of_expected") if self.library else ()
        more = (*["incomplete"] * any(point.untimed for point in self), *more)
        shown = ("name", "calls", "dtype", "flops", "bytes", "seconds", "lower", "lost", "fraction", "bound_by", *more)
        rows = [_row_as_data(point, "incomplete" in more) for point in self]
        return plain_table(Table(list(map(Column, shown)), rows))

    def to_dict(self) -> dict[str, Any]:
        """The points under stable keys in SI units (schema ``roofline/points/1``)."""
        points = [point.to_dict() for point in self]
        found: dict[str, Any] = {"schema": "roofline/points/1", "target": self.machine.name, "points": points}
        if self.library:
            why = self._doubt or _not_expected(self, self.machine, self.library)
            found |= {"library": self.library, "not_expected": why or None}
        if self.profile is None:
            return found
        return {**found, "unpriced": self.profile.unpriced, "notes": list(self.profile.notes)}


@takes()
def points_of(runs: Iterable[Any], machine: str | Machine) -> MeasuredPoints:
    """Put runs beside what ``machine`` allows; one that says it ran on another machine is an error.

    Runs are those of a profile, or rows as :func:`~roofline.measurement.runs.read_measured` takes them. Where the
    machine takes warm data, the bytes of a run lie in whichever memory level holds so many.
    """
    machine, given = chip(machine), [*runs]
    runs = given if all(isinstance(run, Measured) for run in given) else read_measured(given)
    for run in runs:
        check_ran_on(run, machine)
    answers = bounds_of([(run, machine) for run in runs])
    return MeasuredPoints((MeasuredPoint(run, answer) for run, answer in zip(runs, answers, strict=False)), machine)


def bounds_of(runs: Sequence[tuple[Measured, Machine]]) -> list[Bound]:
    """What machines allow for the FLOPs and bytes of runs: priced once where they are the same."""
    answers: dict[tuple[float, float, str, int], Bound] = {}
    found: list[Bound] = []
    try:
        for run, machine in runs:
            asked = run.flops, run.bytes, run.dtype, id(machine)
            if asked not in answers:
                # of warm data in the level that holds so many bytes
                roof = _warm(machine, run.bytes) if machine.over == WARM and run.bytes else machine
                answers[asked] = bound(flops=run.flops or None, bytes=run.bytes or None, dtype=run.dtype, on=roof)
            found.append(answers[asked])
    except KeyboardInterrupt:
        if not found:
            raise
        stopped(len(found), len(runs), "runs, the longest")
    return found


def check_ran_on(run: Measured, machine: Machine) -> None:
    """Raise where a run says that it ran on another machine."""
    if run.on and run.on.lower() not in (machine.key, *machine.aliases):
        hint = f"ask {spelled('on', run.on)}, or leave the column out"
        raise InputError(f"{run.name!r} ran on {run.on!r}, not on {machine.name}", hint=hint)


def _warm(machine: Machine, moved: float) -> Machine:
    """The roof of data that lies in whichever level holds it all, where a run moves each of its bytes once."""
    main = main_level(machine)
    at = resting_level(machine, main, moved)
    if main.bandwidth is None or at.bandwidth is None:
        return machine
    speed = value_on_curve(main.curve, moved) if main.curve else at.bandwidth.value
    figure = at.bandwidth._replace(value=max(speed, main.bandwidth.value))
    levels = tuple(m._replace(bandwidth=figure) if m.name == at.name else m for m in machine.memories)
    return with_choices(replace(machine, memories=levels), over=at.name)


def point_sections(points: Sequence[MeasuredPoint], title: str, doubt: str = "") -> Iterator[Section]:
    """Time, rate, share of the roof, what bounds, what explains the time; then what is odd, and what was assumed.

    Equal calls stand in one row, which says how many they are and what they take in all, and the mean time of one.

    ``doubt`` is said first: why the times may not be those of this machine.
    """
    several = any(point.run.calls > 1 for point in points)
    names = (*["calls", "in all"] * several, "time", "at best", "FLOP/s", "B/s", "of roof")
    columns = (Column("operation", wrap="anywhere", least=22), *figures(*names))
    yield from (Headline(title), BLANK)
    if doubt:
        yield from (Sentences([doubt], "warning", name="doubt"), BLANK)
    yield Table((*columns, Column("bound by")), [Row(_cells(point, several)) for point in points], "points", gap=4)
    yield Sentences([] if doubt else _to_gain(points), "quiet", name="to gain")
    untimed = grouped((what, point.run.name) for point in points for what in point.untimed)
    runs = {what: ", ".join(list(dict.fromkeys(names))[:MOST_UNPRICED]) for what, names in untimed.items()}
    gaps = [f"incomplete: {what} ({names}): floors and shares of the roof are too low" for what, names in runs.items()]
    yield Sentences(gaps, "gap", name="untimed")
    if explained := [f"{point.run.name}: {_explained(point)}" for point in points if point.effects]:
        yield from (BLANK, Sentences(["where the time goes"], "quiet"), Sentences(explained, name="effects"))
    if any((point.explained or 0) >= 1.01 for point in points):
        said = "parts are more than the time where a run beat this machine's figures, measured under other load"
        yield Sentences([f"{said}: {call('measure')} takes them again"], "quiet")
    flags = [f"{point.run.name}: {flag}" for point in points for flag in point.flags]
    how = dict.fromkeys(point.how for point in points if point.how)
    if flags or how:
        yield BLANK
    yield Sentences(flags, "warning", name="flags")
    yield Sentences([f"timed with {said}" for said in how], "quiet")
    doubts = [f"{p.run.name}: {doubt}" for p in points if p.summary is not None for doubt in p.summary.doubts]
    yield Sentences(doubts, "warning", name="doubts")
    if assumed := dict.fromkeys(said for point in points for said in point.assumptions):
        yield from (BLANK, assumes(assumed))


#: Points that have most to gain, and the share of the roof below which runs are doubted where none reaches it.
MOST_TO_GAIN, DOUBTED = 3, 0.1


def _to_gain(points: Sequence[MeasuredPoint]) -> list[str]:
    """Which operations are furthest above their floors in seconds, all their runs together.

    A doubt where none comes near the roof.
    """
    lost = sums_by_name((point.run.name, point.lost) for point in points)
    above = sorted(lost.items(), key=lambda each: -each[1])[:MOST_TO_GAIN]
    if len(points) < MOST_TO_GAIN:
        return []
    runs = Counter(p.run.name for p in points)
    in_runs = {name: f" in {count:,} runs" if count > 1 else "" for name, count in runs.items()}
    named = ", ".join(f"{name} {format_quantity(s, 's')}{in_runs[name]}" for name, s in above if s > 0)
    said = [f"most to gain: {named}"] if named else []
    if max(p.fraction for p in points) < DOUBTED:
        said.append(
            f"no run reaches {format_percent(DOUBTED)} of its roof: did they run on this machine, and are seconds, "
            "FLOPs and bytes in these units?"
        )
    return said


def expected_sections(points: Sequence[MeasuredPoint], machine: Machine, library: str) -> Iterator[Section]:
    """Times beside expected ones, and which are unusual; what would provide constants where none are known."""
    known = [point for point in points if point.expected is not None]
    yield BLANK
    if known:
        columns = (Column("operation", wrap="anywhere", least=22), *figures("time", "expected", "of expected"))
        yield Table((*columns, Column("constants")), [_expected_row(point) for point in known], "expected", gap=4)
    said = dict.fromkeys(f"{point.run.name}: {point.unusual}" for point in known if point.unusual)
    if said:
        yield from (BLANK, Sentences(list(said), "warning", name="unusual"))
    if why := _not_expected(points, machine, library):
        yield Sentences([why], "quiet", name="not expected")


def _not_expected(points: Sequence[MeasuredPoint], machine: Machine, library: str) -> str:
    """Of which runs nothing is expected, and why; nothing where something is of all."""
    unknown = [point for point in points if point.expected is None]
    if not unknown:
        return ""
    shapeless = sum(priced_run(point.run, machine) is None for point in unknown)
    reasons = {"their shapes": shapeless, f"constants of {library} for their kernels": len(unknown) - shapeless}
    lacking = [f"{what} are not known ({n})" for what, n in reasons.items() if n]
    which = f"{len(unknown)} of {len(points)} runs" if len(unknown) < len(points) else "these runs"
    makes = f"; {call('calibrate')} makes constants from ten runs" if shapeless < len(unknown) else ""
    return f"nothing is expected of {which}: {', or '.join(lacking)}{makes}"


def _row_as_data(point: MeasuredPoint, says_untimed: bool) -> Row:
    run, found = point.run, point.expected
    said: tuple[str | Amount, ...] = (
        run.name, Amount(run.calls), run.dtype, Amount(run.flops, "FLOP"), Amount(run.bytes, "B"),
        Amount(run.seconds, "s"), Amount(float(point.bound.lower), "s"), Amount(point.lost, "s"),
        percentage(point.fraction), str(point.bound.bound_by or ""),
    )  # fmt: skip
    if says_untimed:
        said = (*said, "; ".join(point.untimed))
    if found is None:
        return Row(said)
    times = (Amount(float(each), "s") for each in (found.value, found.low, found.high))
    return Row((*said, *times, percentage(run.seconds / float(found.value))))


def _expected_row(point: MeasuredPoint) -> Row:
    found = point.expected
    assert found is not None
    seconds, basis = point.run.seconds, found.kernels[0].basis
    share = format_percent(seconds / float(found.value))
    return Row((point.run.name, Amount(seconds, "s"), Amount(found.value, "s"), share, basis))


def profile_sections(
    points: Sequence[MeasuredPoint], found: Profile, title: str, top: int, doubt: str = ""
) -> Iterator[Section]:
    """What a profile held: the longest runs, where the time goes, and what has no rule.

    ``points`` are the longest ``top`` runs, or all, the longest first.
    """
    yield from point_sections(points[:top], title, doubt)
    yield from (BLANK, Sentences(["time by operation"], "quiet"))
    shares = time_by_operation(found.runs, found.unpriced)
    rows = [Row((name, Amount(time, "s"), Amount(share, "", format_percent(share)))) for name, time, share in shares]
    figured = (Column(align="right", meaning=name) for name in ("time", "share"))
    columns = (Column(meaning="operation", wrap="anywhere", least=22), *figured)
    yield Table(columns, rows[:MOST_SPLIT], "time", headed=False, every=lambda: rows)
    if (hidden := (len(found.runs) if found.own else len(equal_calls(found.runs))) - top) > 0:
        runs, are = ("runs", "are") if hidden > 1 else ("run", "is")
        who = f"{runs} that lose{'s' * (hidden == 1)} less" if found.own else f"shorter {runs}"
        yield Sentences([f"{hidden} {who} {are} not shown ({spelled('top')})"], "quiet")
    unpriced = sorted(found.unpriced.items(), key=lambda item: -item[1])
    named = [f"{name} {format_quantity(seconds, 's')}" for name, seconds in unpriced if name != AROUND]
    if named:
        yield Sentences([f"incomplete: no rule for {', '.join(named[:MOST_UNPRICED])}"], "gap", name="incomplete")
    if around := found.unpriced.get(AROUND, 0.0):
        yield Sentences([f"{format_quantity(around, 's')} {AROUND}: views, calls, what autograd does between"], "quiet")
    yield Sentences(found.notes, "quiet", name="notes")


def time_by_operation(
    runs: Iterable[Measured], unpriced: Mapping[str, float] | None = None
) -> list[tuple[str, float, float]]:
    """Divide the time over operations: name, seconds and share of all, longest first; equal names together.

    ``unpriced`` are seconds of operations without a rule, which took time all the same.
    """
    seconds = sums_by_name([*(unpriced or {}).items(), *((run.name, run.in_all) for run in runs)])
    total = sum(seconds.values())
    return [(name, time, time / total) for name, time in sorted(seconds.items(), key=lambda item: -item[1])]


def _cells(point: MeasuredPoint, several: bool) -> tuple[str | Amount, ...]:
    run = point.run
    counted = (Amount(run.calls, "", f"{run.calls:,}"), Amount(run.in_all, "s")) if several else ()
    held_up = point.summary is not None and point.summary.doubted({HELD_UP})
    return (
        run.name,
        *counted,
        Amount(run.seconds, "s", f"≤ {format_quantity(run.seconds, 's')}" if held_up else ""),
        Amount(float(point.bound.lower), "s"),
        Amount(run.flops / run.seconds, "FLOP/s") if run.flops else "",
        Amount(run.bytes / run.seconds, "B/s") if run.bytes else "",
        percentage(point.fraction),
        str(point.bound.bound_by or ""),
    )


def _explained(point: MeasuredPoint) -> str:
    shares = [(effect.name, effect.seconds / point.run.seconds) for effect in point.effects]
    named = [f"{name} {format_percent(share)}" for name, share in shares if share >= 0.01] or ["no effect of 1%"]
    rest = 1 - sum(share for _, share in shares)
    if abs(rest) < 0.01:
        return ", ".join(named)
    if rest < 0:
        parts = in_a_row(name for name, _ in shares)
        return f"no split: its parts alone, {parts}, would take {1 - rest:.1f}x as long"
    return f"{', '.join(named)}; unexplained {format_percent(rest)}"


#: The table of a machine file that holds a library's products, and the curve that stands for operations of elements.
PRODUCTS, COPY = "library", "copy"


def priced_run(run: Measured, machine: Machine) -> Bound | None:
    """The bound of a run's operation with cold data, which an expectation needs; None where its shapes are unknown."""
    cold = with_choices(machine, over="main")
    if run.op is not None:
        return Case([run.op], cold, name=run.name).answer()
    if "[" not in run.name:
        return None
    try:
        answer = bound(run.name, on=cold)
    except InputError:
        return None
    return answer if answer.ops else None


def expected_time(run: Measured, machine: Machine, estimator: Estimator) -> Expectation | None:
    """What to expect of a run: None where its operation or constants for it are unknown."""
    answer = priced_run(run, machine)
    if answer is None:
        return None
    found = estimator.expect(answer)
    return found if found.kernels and all(one.source is not None for one in found.kernels) else None


@takes()
def measured_kernels(path: str | os.PathLike[str], machine: Machine) -> list[MeasuredKernel]:
    """Kernels and their seconds from a trace of torch.profiler, a machine file of ``roofline measure`` or a CSV.

    Of a trace the kernel of each operation is taken; runs of one shape become their median. Of a machine file the
    library's products on all threads are taken, and copies as operations of elements.
    """
    name = os.fspath(path)
    content = read_bytes(name, "table").lstrip(b"\xef\xbb\xbf \t\r\n")
    if b"[measurement]" in content:
        return list(_of_machine_file(read_machine_file(name), machine))
    if holds_torch_trace(content):
        return list(_of_trace(name, machine))
    return read_kernels(name, machine)


def _of_trace(path: str, machine: Machine) -> Iterator[MeasuredKernel]:
    runs: dict[Any, KernelRun] = {}
    names: dict[Any, str] = {}
    times: dict[Any, list[float]] = defaultdict(list)
    for one in read_torch_trace(path).runs:
        answer = priced_run(one, machine)
        kernels = [] if answer is None else kernels_of(answer)
        if len(kernels) == 1:
            key = kernels[0].kernel, kernels[0].dtype, kernels[0].path, tuple(sorted(kernels[0].shapes.items()))
            runs[key] = kernels[0]
            names.setdefault(key, one.name)
            times[key].append(one.seconds)
    if not runs:
        raise InputError(f"{path} holds no operation that one kernel runs", hint="profile products, attention, norms")
    for key, run in runs.items():
        yield MeasuredKernel(run, median(times[key]), "", where=names[key])


def _of_machine_file(measured: Measurement, machine: Machine) -> Iterator[MeasuredKernel]:
    threads = max(measured.thread_counts(), default=1)
    for table in measured.shapes:
        if table.name == PRODUCTS and table.threads == threads:
            for rows, side, summary in table.points:
                line = f"{table.dtype}[{rows:.0f}, {side:.0f}] @ {table.dtype}[{side:.0f}, {side:.0f}]"
                (run,) = kernels_of(bound(line, on=with_choices(machine, over="main")))
                yield MeasuredKernel(run, 2 * rows * side**2 / summary.value, "", where=line)
    for curve in measured.curves:
        if curve.name == COPY and curve.threads == threads:
            for size, summary in curve.points:
                copied = f"copy of {format_quantity(size, 'B')}"
                yield MeasuredKernel(elements_run(size, size / 2), size / summary.value, "", where=copied)


#: What profilers held that were read.
_EXPORTED: WeakKeyDictionary[Any, Profile] = WeakKeyDictionary()


def _read(source: Any) -> Profile:
    """What a file holds, or rows, or a profiler of PyTorch, whose trace is exported to be read."""
    if isinstance(source, str | os.PathLike):
        return read_profile(source)
    export = getattr(source, "export_chrome_trace", None)
    if not callable(export):
        return own_profile(source)
    if source in _EXPORTED:  # a profiler gives its trace once
        return _EXPORTED[source]
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        try:
            export(path)
        except (AssertionError, AttributeError, RuntimeError) as error:
            hint = "end its block first, made with record_shapes=True; a trace that was saved is read by its file"
            raise InputError(f"the profiler gives no trace: {str(error) or type(error).__name__}", hint=hint) from None
        return _EXPORTED.setdefault(source, read_profile(path))


@estimable
@takes(target)
def profile(
    path: str | os.PathLike[str] | Sequence[Any] | Any, *, on: str | Machine, top: int | None = None, **options: Any
) -> MeasuredPoints:
    """Put what a profiler saw, or rows of your own, under a machine's roof; ``top`` keeps as many runs.

    ``path`` is what :func:`read_profile` reads, or rows as :func:`roofline.calibrate` takes them: a list of dicts, or a
    data frame of pandas or polars; or the ``torch.profiler.profile`` itself, once its block has ended. Of a profiler's
    runs equal calls are one, of their mean time, and those come first that take longest in all; of rows those that lose
    most time above their floors. A run that says that it ran on another machine is an error. The rest are options of
    the target, as in :func:`roofline.bound`.

    >>> rows = [{"m": 64, "n": 8192, "k": 8192, "us": 96}, {"m": 4096, "n": 4096, "k": 4096, "seconds": 6.2e-4}]
    >>> frame = profile(rows, on="a100", estimate=True).to_pandas()
    >>> frame[["fraction", "bound_by"]].round(2).values.tolist()
    [[0.71, 'tensor'], [0.7, 'hbm']]
    """
    check_top(top, "runs")
    machine = target(on, **options)
    found = _read(path)
    runs = sorted(found.runs, key=lambda run: -run.seconds)
    for run in runs:
        check_ran_on(run, machine)
    if found.own:
        points = sorted(points_of(runs, machine), key=lambda point: -point.lost)
        return MeasuredPoints(points[:top], machine, found)
    return MeasuredPoints(points_of(equal_calls(runs)[:top], machine), machine, found)
