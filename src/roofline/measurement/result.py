"""What a measurement found, as frozen values: ceilings, curves over the working set, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline.answers import Answer, attributes
from roofline.frozen import dataclass, replace
from roofline.hardware.rate import value_on_curve
from roofline.measurement.levels import (
    CHANGED,
    CONFIRMED,
    Level,
    SampleSummary,
    agreed_curve,
    extended_capacity,
    find_levels,
    kind_of_doubt,
)
from roofline.quantity import format_number, format_percent, format_quantity
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Sentences, Table, figures
from roofline.signatures import either, spelled
from roofline.sizes import grouped

#: Before a figure in doubt.
MARK = "? "

#: How ceilings of a library's functions begin: their rate, and the time of a call.
LIBRARY, CALL = "library ", "call "

#: Version of the ``[measurement]`` part of a machine file.
VERSION = 1


def threads_text(count: int) -> str:
    """Say a number of threads.

    >>> threads_text(2)
    '2 threads'
    """
    return f"{count} thread{'s' * (count > 1)}"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most one kernel reached: its name, what ran, on how many threads, over which working set.

    ``unit`` is FLOP/s, B/s, element/s, Hz or s; ``working_set`` is in bytes over all threads, None where the kernel
    stays in registers.
    """

    name: str
    unit: str
    kernel: str
    threads: int
    summary: SampleSummary
    dtype: str = ""
    working_set: float | None = None

    @property
    def value(self) -> float:
        """Median of the best round."""
        return self.summary.value

    @property
    def label(self) -> str:
        """The name, with the dtype where it does not say it."""
        return self.name if not self.dtype or self.dtype in self.name.split() else f"{self.name} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Curve:
    """Bandwidth of one kernel over the working set, on a number of threads, smallest set first."""

    name: str
    kernel: str
    threads: int
    points: tuple[tuple[float, SampleSummary], ...]

    @property
    def cold(self) -> bool:
        """Whether its data was in no cache: such a curve shows no levels."""
        return self.name.startswith(COLD)

    def values(self) -> list[tuple[float, float]]:
        """Pairs of working set and bandwidth."""
        return [(size, summary.value) for size, summary in self.points]


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Rates of one library's products in a dtype on some threads: ``points`` are (rows, side, summary of FLOP/s).

    Small and flat products are slower than the best, which is all a roof knows. A shape is the rows of a product and
    the side √(n·k) of the matrix they meet. Rates are measured at some shapes and read between them along straight
    lines in logarithms. Beyond the largest shape the rate stays; below the smallest the time does.

    >>> from roofline.measurement.levels import SampleSummary
    >>> rates = {(8, 64): 10e9, (8, 256): 40e9, (128, 64): 40e9, (128, 256): 160e9}
    >>> points = tuple((*shape, SampleSummary(rate, rate, rate, 9, 1.0)) for shape, rate in rates.items())
    >>> table = ShapeTable("library", "fp32", "torch matmul", 1, points)
    >>> [round(table.rate(*shape) / 1e9) for shape in ((8, 64), (32, 128), (4096, 1024))]
    [10, 40, 160]
    >>> table.seconds(8, 64) == table.seconds(1, 1) == 2 * 8 * 64**2 / 10e9
    True
    """

    name: str
    dtype: str
    kernel: str
    threads: int
    points: tuple[tuple[float, float, SampleSummary], ...]

    @property
    def best(self) -> float:
        """The highest rate of any shape."""
        return max(summary.value for *_, summary in self.points)

    @property
    def call(self) -> float:
        """Time of the smallest product of several rows: what calling costs."""
        rows = sorted({point[0] for point in self.points})
        return self.seconds(rows[min(1, len(rows) - 1)], 0.0)

    def seconds(self, rows: float, side: float) -> float:
        """Time of ``rows`` by a matrix with n·k = ``side**2``."""
        least_rows = min(point[0] for point in self.points)
        least_side = min(point[1] for point in self.points)
        rows, side = max(rows, least_rows), max(side, least_side)
        return 2 * rows * side**2 / self.rate(rows, side)

    def rate(self, rows: float, side: float) -> float:
        """FLOP/s at a shape; where a large product was left out, the largest measured with its rows stands for it."""
        of_rows = grouped((count, (width, summary.value)) for count, width, summary in self.points)
        curve = [(count, value_on_curve(sorted(points), side)) for count, points in sorted(of_rows.items())]
        return float(value_on_curve(curve, rows))


@dataclass(frozen=True, slots=True)
class Conditions:
    """On which machine, when and how the figures were taken, and who else used it; ``device`` for an accelerator.

    ``caches`` is how many levels of caches for data the system reports and ``largest_cache`` the bytes of the largest,
    ``others`` the share of all cores' time that other processes used meanwhile, each None where the system says
    nothing; ``ahead`` whether it preferred this one; ``ran`` the share of all windows in which every thread ran, of
    which those count that had a core of their own.
    """

    processor: str
    date: str
    cores: int
    seconds: float
    quick: bool = False
    interrupted: bool = False
    load: float | None = None
    pinned: bool = True
    missing: tuple[str, ...] = ()
    device: bool = False
    caches: int | None = None
    others: float | None = None
    ahead: bool = False
    ran: float | None = None
    largest_cache: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Answer):
    """All that was measured."""

    conditions: Conditions
    ceilings: tuple[Ceiling, ...]
    curves: tuple[Curve, ...] = ()
    shapes: tuple[ShapeTable, ...] = ()

    def shape_table(self, name: str, dtype: str, threads: int) -> ShapeTable | None:
        """Find what a library's products reach over shapes, None where it was not measured on so many threads."""
        found = (t for t in self.shapes if (t.name, t.dtype, t.threads) == (name, dtype, threads))
        return next(found, None)

    def ceiling(self, name: str, threads: int | None = None, dtype: str = "") -> Ceiling | None:
        """Find a ceiling by name; on the most threads it was taken with, where none are said."""
        found = [c for c in self.ceilings if c.name == name and threads in (None, c.threads) and dtype in ("", c.dtype)]
        return max(found, key=lambda c: c.threads, default=None)

    def value(self, name: str, threads: int | None = None, dtype: str = "") -> float | None:
        """Find a ceiling's value, None where it was not measured."""
        found = self.ceiling(name, threads, dtype)
        return None if found is None else found.value

    def best_ceiling(self, name: str, threads: int, dtype: str = "") -> Ceiling | None:
        """Find the highest ceiling of a name on at most so many threads: more threads can do what fewer can.

        A library's threads wait for one another, so on a contended machine several may do less than one.
        """
        found = [c for c in self.ceilings if c.name == name and c.threads <= threads and dtype in ("", c.dtype)]
        return max(found, key=lambda c: c.value, default=None)

    def thread_counts(self) -> tuple[int, ...]:
        """List with how many threads curves were taken, smallest first."""
        return tuple(sorted({curve.threads for curve in self.curves}))

    def levels(self, threads: int) -> list[Level]:
        """Find the memory levels on this many threads, innermost first.

        Where they end is what the kernels agree on; how fast they are is the best of any kernel there, and of the main
        memory also what fewer threads reached: on a contended machine several threads may do less than one. Where no
        working set is larger than the caches, the levels that the sets do not reach are those of fewer threads, if any.
        """
        found = self._found(threads)
        kernels, loads = self._kernels(threads, found), self._loads(threads)
        better = []

        def fastest(level: Level, inner: float | None) -> float:
            inside = [value for points in kernels for _, value in level.points_within(points, inner)]
            return max([level.bandwidth, *inside])

        for number, level in enumerate(found):
            inner = found[number - 1].capacity if number else None
            end = None if level.capacity is None else extended_capacity(loads, level, found[number + 1].first)
            better.append(replace(level, name=self._name(level, number), bandwidth=fastest(level, inner), capacity=end))
        fewer = [self.levels(count) for count in self.thread_counts() if count < threads]
        if better and self.reaches_memory(threads):
            main = [levels[-1].bandwidth for levels in fewer if levels and levels[-1].capacity is None]
            better[-1] = replace(better[-1], bandwidth=max([better[-1].bandwidth, *main]))
        elif better:
            within, names = better[:-1], {level.name for level in better[:-1]}
            held = max((level.capacity or 0.0 for level in within), default=0.0)
            outer = fewer[-1] if fewer else []
            further = [each for each in outer if each.name not in names and (each.capacity or math.inf) > held]
            better = [*within, *(replace(each, bandwidth=fastest(each, held)) for each in further)]
        return better

    def reaches_memory(self, threads: int) -> bool:
        """Whether the working sets on so many threads grow beyond the caches: smaller ones say nothing of main memory.

        Of caches that fewer threads found each thread may have its own.
        """
        largest = max((size for size, _ in self._loads(threads)), default=0.0)
        found = (
            level.capacity * threads / count
            for count in self.thread_counts() if count < threads
            for level in self.levels(count) if level.capacity is not None
        )  # fmt: skip
        return largest > max([self.conditions.largest_cache or 0.0, *found])

    def behind(self, level: Level, threads: int) -> tuple[Curve, float, SampleSummary] | None:
        """The curve, working set and samples that a level's bandwidth stands on, on these threads or on fewer."""
        curves = sorted((c for c in self.curves if c.threads <= threads), key=lambda curve: -curve.threads)
        points = ((curve, *point) for curve in curves for point in curve.points)
        return next((found for found in points if found[2].value == level.bandwidth), None)

    def confirmed(self, level: Level, threads: int) -> bool:
        """Whether a second round confirms a level's bandwidth, and fewer threads have their share of it."""
        found = self.behind(level, threads)
        return (found is None or found[2].confirmed) and not self.level_is_odd(level, threads)

    def level_is_odd(self, level: Level, threads: int) -> bool:
        """Whether a level is above its share of what fewer threads reached.

        A main memory is held against main memories, a cache against that of the same name where as many were found.
        """
        own = self.levels(threads)
        fewer = {count: self.levels(count) for count in self.thread_counts() if count < threads}
        place = own.index(level) - len(own)
        each = {n: found[place].bandwidth for n, found in fewer.items() if place == -1 or len(found) == len(own)}
        return _is_odd(level.bandwidth, threads, each)

    def is_odd(self, ceiling: Ceiling) -> bool:
        """Whether a rate is above its share of what fewer threads reached."""
        same = [c for c in self.ceilings if (c.name, c.dtype) == (ceiling.name, ceiling.dtype)]
        fewer = {c.threads: c.value for c in same if c.threads < ceiling.threads}
        return ceiling.unit.endswith("/s") and _is_odd(ceiling.value, ceiling.threads, fewer)

    def odd(self) -> list[str]:
        """The figures that are above their share of what fewer threads reached."""
        levels = [(f"{level.name} on {threads_text(threads)}", level, threads)
                  for threads in self.thread_counts() for level in self.levels(threads)]  # fmt: skip
        found = [f"{c.label} on {threads_text(c.threads)}" for c in filter(self.is_odd, self.ceilings)]
        return [*found, *(name for name, level, threads in levels if self.level_is_odd(level, threads))]

    def _name(self, level: Level, number: int) -> str:
        """Name a level: of an accelerator copies see no first-level caches, and its main memory is called hbm."""
        if not self.conditions.device:
            return level.name
        return "hbm" if level.capacity is None else f"l{number + 2}"

    def best_curve(self, threads: int) -> list[tuple[float, float]]:
        """Return the best bandwidth any kernel reached at the working sets of the kernel that only loads."""
        loads = self._loads(threads)
        points = [point for kernel in self._kernels(threads, self._found(threads)) for point in kernel]
        return [(size, max(value for at, value in points if 0.75 <= at / size <= 1.34)) for size, _ in loads]

    def _warm_curves(self, threads: int) -> list[Curve]:
        return [curve for curve in self.curves if curve.threads == threads and not curve.cold]

    def _found(self, threads: int) -> list[Level]:
        """Find the levels, as many as the system reports caches at most. The sizes it reports are not used."""
        kept = [curve for curve in self._warm_curves(threads) if curve.name != PAST_CACHES]
        curves = [curve.values() for curve in sorted(kept, key=lambda curve: curve.name != LOAD)]
        caches = self.conditions.caches
        return find_levels(agreed_curve(curves), None if caches is None else caches + 1)

    def _loads(self, threads: int) -> list[tuple[float, float]]:
        """The curve that levels are read from: that of the loads, or of the first kernel."""
        curves = self._warm_curves(threads)
        return min(curves, key=lambda curve: curve.name != LOAD).values() if curves else []

    def _kernels(self, threads: int, levels: Sequence[Level]) -> list[list[tuple[float, float]]]:
        """List every kernel's working sets with bandwidths; a store past the caches counts only in main memory."""
        outside = levels[-1].first if levels else 0.0
        return [
            [point for point in curve.values() if curve.name != PAST_CACHES or point[0] >= outside]
            for curve in self._warm_curves(threads)
        ]

    @property
    def clean(self) -> float:
        """Share of all windows that count, over everything that was measured."""
        summaries = self.summaries()
        return sum(s.clean for s in summaries) / len(summaries) if summaries else 1.0

    @property
    def contended(self) -> bool:
        """Whether others used the machine: they took cores away, or shared them unseen by this system."""
        taken = self.ran < UNCONTENDED or self.others_busy or self.mostly_shared
        return taken or self.unsteady or self.unconfirmed > UNCONFIRMED

    @property
    def mostly_shared(self) -> bool:
        """Whether others shared the cores most of the time, unseen by this system: they load the main memory too."""
        return self.clean < MOSTLY_SHARED * self.ran

    @property
    def ran(self) -> float:
        """Share of all windows in which every thread ran."""
        return self.clean if self.conditions.ran is None else self.conditions.ran

    @property
    def unconfirmed(self) -> float:
        """Share of the figures that no second round confirms, or that were taken on shared cores."""
        summaries = self.summaries()
        return sum(not summary.confirmed for summary in summaries) / len(summaries) if summaries else 0.0

    @property
    def others_busy(self) -> bool:
        """Whether others used more of the cores than an idle system does."""
        return (self.conditions.others or 0.0) > OTHERS_BUSY

    @property
    def unsteady(self) -> bool:
        """Whether kernels that stay in registers changed their speed: only others on the same cores cause that."""
        known = [c for c in self.ceilings if c.name.startswith(STEADY)]
        doubted = [c for c in known if c.summary.doubted(CHANGED)]
        return len(doubted) > UNSTEADY * len(known)

    def summaries(self) -> list[SampleSummary]:
        """List the summaries of all ceilings, points and shapes."""
        return [
            *(ceiling.summary for ceiling in self.ceilings),
            *(summary for curve in self.curves for _, summary in curve.points),
            *(summary for table in self.shapes for *_, summary in table.points),
        ]

    def sections(self) -> Iterator[Section]:
        """The ceilings, the memory levels, the library's functions, and how far to trust them."""
        told = self.conditions
        yield Headline(told.processor, f"{told.cores} core{'s' * (told.cores != 1)}, {told.date}")
        yield from (BLANK, _ceiling_table(self))
        for threads in self.thread_counts():
            yield from (BLANK, _level_table(self, threads))
        if any(_is_function(ceiling) for ceiling in self.ceilings):
            yield from (BLANK, _function_table(self))
        yield BLANK
        trust = [f"{format_percent(self.clean)} of the windows were clean, {told.seconds:g} s in all"]
        levels = [cells for count in self.thread_counts() for _, cells in _level_cells(self, count)]
        sure = [c.summary.confirmed and not self.is_odd(c) for c in self.ceilings]
        if not all([*sure, *(is_sure for cells in levels for _, is_sure in cells)]):
            near = f"no second round on cores of its own came within {format_percent(CONFIRMED)} of it"
            share = ", or it is above its share of what fewer threads reached" if self.odd() else ""
            trust.insert(0, f"{MARK}{near}{share}")
        yield Sentences(trust, "quiet")
        yield Sentences(self.warnings(), "warning")

    def one_line(self) -> str:
        """What was measured, and when."""
        told = self.conditions
        return f"Measurement of {told.processor}, {told.date}: {len(self.ceilings)} ceilings, {len(self.curves)} curves"

    def to_dict(self) -> dict[str, Any]:
        """Plain data under stable keys in SI units (schema ``roofline/measurement/1``)."""
        told = self.conditions
        return {
            "schema": "roofline/measurement/1",
            **attributes(told, "processor", "date", "cores", "seconds", "quick", "interrupted"),
            "contended": self.contended,
            **attributes(told, "others", "ahead"),
            **attributes(self, "ran", "clean"),
            "ceilings": [
                attributes(c, "name", "dtype", "unit", "threads", "working_set", "kernel")
                | {"dtype": c.dtype or None, **attributes(c.summary, *_SAMPLED)}
                for c in self.ceilings
            ],
            "curves": [
                {
                    **attributes(curve, "name", "kernel", "threads"),
                    "points": [{"bytes": size, **attributes(s, *_SAMPLED)} for size, s in curve.points],
                }
                for curve in self.curves
            ],
            "shapes": [
                {
                    **attributes(table, "name", "dtype", "threads", "kernel"),
                    "points": [{"rows": n, "side": side, **attributes(s, *_SAMPLED)} for n, side, s in table.points],
                }
                for table in self.shapes
            ],
            "levels": {
                str(threads): [
                    {**attributes(level, "name", "bandwidth", "capacity"), "confirmed": self.confirmed(level, threads)}
                    for level in self.levels(threads)
                ]
                for threads in self.thread_counts()
            },
            "warnings": list(self.warnings()),
        }

    def warnings(self, *, brief: bool = False) -> tuple[str, ...]:
        """Say what a reader must know before trusting the figures; where ``brief``, that cores are shared only once."""
        said, contended = [], []
        if self.conditions.interrupted:
            said.append("stopped early: only what was measured until then is here")
        if self.unsteady:
            contended.append("kernels that need no memory changed their speed; others share these cores unseen")
        if self.others_busy:
            used = f"{format_percent(self.conditions.others or 0.0)} of the cores' time"
            how = "; this process went before them" if self.conditions.ahead else ""
            contended.append(f"others used {used}{how}")
        if self.unconfirmed > UNCONFIRMED:
            longer = "" if self.conditions.device else f"more time ({spelled('seconds')}) or "
            contended.append(
                f"{format_percent(self.unconfirmed)} of the figures rest on one round that no other came "
                f"near, or on cores that others used too; {longer}quieter times may give higher ones"
            )
        if self.ran < UNCONTENDED:
            contended.append(
                f"a thread was held up in {format_percent(1 - self.ran)} of the windows; figures are the "
                "best round's, and quieter times may give higher ones"
            )
        if self.clean < UNCONTENDED * self.ran:
            share = f"{format_percent(1 - self.clean / self.ran)} of the windows"
            unseen = f"others used the cores in {share}, unseen by this system; those do not count"
            contended += [unseen] if self.mostly_shared else []
            said += [] if self.mostly_shared else [f"shared cores: {unseen}"]
        said[1 if self.conditions.interrupted else 0 : 0] = [
            each if brief and at else f"contended: {each}" for at, each in enumerate(contended)
        ]
        if not self.conditions.pinned:
            said.append("this system cannot pin threads to cores: they may have moved")
        said += _doubts(self.ceilings)
        if odd := self.odd():
            said.append(f"not believed: above its share of what fewer threads reached: {', '.join(odd)}")
        slower = [
            ceiling
            for ceiling in self.ceilings
            if ceiling.unit in ("FLOP/s", "element/s")
            and (fewer := self.best_ceiling(ceiling.name, ceiling.threads, ceiling.dtype)) is not None
            and fewer.threads < ceiling.threads
        ]
        if slower:
            said.append(f"more was reached on fewer threads: {_named(slower)}")
        for curve in self.curves:
            doubts = ((kind_of_doubt(each), size) for size, summary in curve.points for each in summary.doubts)
            doubtful = grouped((kind, size) for kind, size in doubts if kind not in CHANGED)
            where = f"{curve.name} on {threads_text(curve.threads)}"
            said += [f"{where}: {doubt} at {_sizes(sizes)}" for doubt, sizes in doubtful.items()]
        summaries = self.summaries()
        changed = sum(summary.doubted(CHANGED) for summary in summaries)
        if changed:
            said.append(
                f"{changed} of {len(summaries)} figures fell into two states or changed between rounds; "
                "the best round's stand"
            )
        return (*said, *(f"not measured: {what}" for what in self.conditions.missing))


#: The kernel that only loads, and the one that stores past the caches.
LOAD, PAST_CACHES = "load", "non-temporal triad"

#: How names of kernels begin whose data is in no cache.
COLD = "cold"

#: Names of kernels that depend on their core alone, and the share of them in doubt that makes a machine unsteady.
STEADY, UNSTEADY = ("register", "tile", "clock"), 0.2

#: Above this share of unconfirmed figures the machine was contended.
UNCONFIRMED = 0.05

#: So many times its share of what fewer threads reached, a figure is not believed.
ODD = 1.15

#: Below this share of what fewer threads reached, a rate that nothing confirms is of threads that waited.
WAITED = 0.1

#: What is told of a summary as plain data.
_SAMPLED = ("value", "low", "high", "samples", "clean", "confirmed", "doubts")

#: Ceilings named in one warning.
MOST_NAMED = 5

#: Below this share of windows in which every thread ran the machine was contended.
UNCONTENDED = 0.9

#: Below this share of windows on cores of its own the machine was mostly shared, its main memory too.
MOSTLY_SHARED = 0.5

#: Above this share of all cores' time used by others the machine was contended.
OTHERS_BUSY = 0.05


def _doubts(ceilings: Sequence[Ceiling]) -> list[str]:
    """Say which ceilings are doubtful: each kind of doubt once, with its particulars where one ceiling alone has it."""
    doubts = ((kind_of_doubt(doubt), (ceiling, doubt)) for ceiling in ceilings for doubt in ceiling.summary.doubts)
    doubtful = grouped((kind, each) for kind, each in doubts if kind not in CHANGED)
    return [
        f"{_named([found[0][0]])}: {found[0][1]}" if len(found) == 1 else f"{head}: {_named([c for c, _ in found])}"
        for head, found in doubtful.items()
    ]


def _named(ceilings: Sequence[Ceiling]) -> str:
    """Name ceilings with their threads, the first few of many."""
    names = [f"{ceiling.label} on {threads_text(ceiling.threads)}" for ceiling in ceilings]
    rest = len(names) - MOST_NAMED
    more = f" and {rest} more ({either('--json', 'to_dict()')} has all)" if rest > 0 else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _sizes(sizes: Sequence[float]) -> str:
    if len(sizes) > 3:
        return f"{len(sizes)} sizes"
    return ", ".join(format_quantity(size, "B") for size in sizes)


def _ceiling_table(measured: Measurement) -> Table:
    """A row a ceiling, one thread beside all."""
    counts = sorted({c.threads for c in measured.ceilings})
    on = map(threads_text, counts)
    rows = []
    for name, dtype in dict.fromkeys((c.name, c.dtype) for c in measured.ceilings if not _is_function(c)):
        found = {c.threads: c for c in measured.ceilings if (c.name, c.dtype) == (name, dtype)}
        most = found[max(found)]
        trust = (_quartiles(most.summary, most.unit), format_percent(most.summary.clean, 0))
        cells = (_cell(found.get(count), measured) for count in counts)
        rows.append(Row((most.label, *cells, *trust)))
    columns = (Column("ceiling"), *figures(*on, "quartiles"), Column("clean", "right", tone="quiet"))
    return Table(columns, rows, "ceilings")


def _function_table(measured: Measurement) -> Table:
    """A row a function of the library: its rate in a cache by format and threads, and what a call costs."""
    found = {(c.name, c.dtype, c.threads): c for c in measured.ceilings if _is_function(c)}
    rated = {(dtype, threads) for name, dtype, threads in found if name.startswith(LIBRARY)}
    columns = sorted(rated, key=lambda column: (column[0] != "fp32", *column))
    rows = []
    for name in dict.fromkeys(name.partition(" ")[2] for name, _, _ in found):
        rates = [found.get((f"{LIBRARY}{name}", *column)) for column in columns]
        calls = [c for (called, _, _), c in found.items() if called == f"{CALL}{name}"]
        fastest = min(calls, key=lambda call: call.value, default=None)
        rows.append(Row((name, *(_cell(each, measured) for each in (*rates, fastest)))))
    on = [f"{dtype}, {threads_text(threads)}" for dtype, threads in columns]
    return Table((Column("elements/s in a cache"), *figures(*on, "a call", wrap="words")), rows, "functions", gap=4)


def _level_table(measured: Measurement, threads: int) -> Table:
    """A row a memory level: what it holds, its best bandwidth, and that of each kernel."""
    rows = []
    for level, cells in _level_cells(measured, threads):
        holds = "" if level.capacity is None else Amount(level.capacity, "B", _binary(level.capacity))
        speeds = (Amount(v, "B/s", MARK * (not sure) + format_quantity(v, "B/s")) if v else "" for v, sure in cells)
        rows.append(Row((level.name, holds, *speeds)))
    curves = [curve for curve in measured.curves if curve.threads == threads]
    columns = figures("holds", "best", *(c.name for c in curves), wrap="words")
    return Table((Column(f"memory, {threads_text(threads)}"), *columns), rows, "levels", gap=4)


def _level_cells(measured: Measurement, threads: int) -> Iterator[tuple[Level, list[tuple[float, bool]]]]:
    """Each memory level with its best bandwidth and that of each kernel, and whether a second round confirms them."""
    inner = None
    for level in measured.levels(threads):
        cells = [(level.bandwidth, measured.confirmed(level, threads))]
        for curve in (curve for curve in measured.curves if curve.threads == threads):
            best = max((value for _, value in level.points_within(curve.values(), inner)), default=0.0)
            cells.append((best, all(summary.confirmed for _, summary in curve.points if summary.value == best)))
        yield level, cells
        inner = level.capacity


def _is_function(ceiling: Ceiling) -> bool:
    return ceiling.name.startswith((LIBRARY, CALL)) and ceiling.unit in ("element/s", "s")


def _is_odd(value: float, threads: int, fewer: Mapping[int, float]) -> bool:
    """Whether a rate on some threads is more than their number times what each of fewer threads reached.

    >>> _is_odd(412e9, 2, {1: 56e9}), _is_odd(105e9, 2, {1: 56e9})
    (True, False)
    """
    return any(value > ODD * threads / count * reached for count, reached in fewer.items())


def _cell(ceiling: Ceiling | None, measured: Measurement) -> Amount | str:
    """A figure, with a mark where no second round or no smaller number of threads confirms it.

    Nothing stands without a figure, or for a rate whose threads waited for each other or for others all the time.
    """
    if ceiling is None:
        return ""
    mark = "" if ceiling.summary.confirmed and not measured.is_odd(ceiling) else MARK
    fewer = measured.best_ceiling(ceiling.name, ceiling.threads, ceiling.dtype)
    if mark and ceiling.unit.endswith("/s") and fewer is not None and ceiling.value < WAITED * fewer.value:
        return ""
    return Amount(ceiling.value, ceiling.unit, f"{mark}{_compact(ceiling.value, ceiling.unit)}")


def _quartiles(summary: SampleSummary, unit: str) -> str:
    """The quartiles, with their unit once where it is that of both.

    >>> _quartiles(SampleSummary(1.7e11, 1.59e11, 1.78e11, 9, 1.0), "FLOP/s")
    '159 … 178 GFLOP/s'
    >>> _quartiles(SampleSummary(9.9e11, 9.9e11, 1e15, 9, 1.0), "FLOP/s")
    '990 GFLOP/s … 1 PFLOP/s'
    """
    low, high = (_compact(value, unit) for value in (summary.low, summary.high))
    number, _, written = low.partition(" ")
    return f"{number if high.endswith(f' {written}') else low} … {high}"


def _compact(value: float, unit: str) -> str:
    return f"{format_number(value / 1e9, 3)} G/s" if unit == "element/s" else format_quantity(value, unit)


def _binary(size: float) -> str:
    for name, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{format_number(size / factor, 3)} {name}"
    return f"{size:.0f} B"
