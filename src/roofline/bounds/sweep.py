"""Sweeps: a grid of sizes, evaluated in blocks that stay in cache. Only the columns asked for are kept.

>>> grid = sweep("bf16[B, D] * int8[D, F]", on="v5e", B=[1, 128, 512], D=[1024, 4096], F="D")
>>> len(grid), grid.names
(6, ('B', 'D', 'F'))
>>> grid["bound_by"].tolist()
['hbm', 'hbm', 'hbm', 'hbm', 'mxu', 'mxu']
>>> grid.row(5).kind, dict(grid)["B"].tolist()
('compute-bound', [1, 1, 128, 128, 512, 512])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import prod
from typing import Any

from roofline.answers import attributes, estimable, figures_of, heading
from roofline.bounds.api import question
from roofline.bounds.arrays import ArrayLine, asked_of_rows, column_of, said_of_all
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import NAMES
from roofline.bounds.question import Question, refuse_idle, refuse_idle_on_plan
from roofline.counts import typed_size, typed_sizes
from roofline.errors import InputError, SizeError, suggest
from roofline.formulas.compiled import Compiled, Evaluated
from roofline.formulas.tables import (
    Columns,
    asked_by_name,
    column_meant,
    fastest_said,
    in_one_cell,
    integers,
    not_ranked_said,
    rows_of,
)
from roofline.frozen import dataclass, field, replace
from roofline.grids.answer import RUN_WORDS, GridRun, reduce_grid
from roofline.grids.blocks import BlockTable, Told
from roofline.grids.reductions import columns_to_keep
from roofline.hardware.figures import told_apart
from roofline.lazy import np
from roofline.progress import stopped
from roofline.quantity import agree
from roofline.sections import Headline
from roofline.signatures import either, listed_names, spelled, takes
from roofline.sizes import BLOCK, Codes, check, is_array, is_symbol, plain_number
from roofline.statements import untimed_apart

#: What is told of the rows that are done, and of how many there are.
Progress = Callable[[int, int], None]

#: Columns a sweep may return; ``times`` stands for one column a resource, named ``time.hbm`` and so on.
COLUMNS = (
    "flops", "bytes", "intensity", "critical_intensity", "lower", "op_by_op", "upper", "estimate", "attainable",
    "utilisation", "bound_by", "fits", "times",
)  # fmt: skip

#: Columns where the caller names none. ``estimate`` is kept where an overlap or overhead is stated, ``fits`` where a
#: row does not fit.
DEFAULT_COLUMNS = ("lower", "upper", "estimate", "attainable", "intensity", "bound_by", "fits")

#: What a front is over where nothing is said: time, and how well the machine is used.
USUAL_FRONT = ("lower", "attainable")

#: The most assumptions that stand under a table.
MOST_REMARKS = 6

#: Columns that mean nothing for a bare intensity.
TIMES = ("lower", "upper", "estimate")

#: Columns that follow from others.
_DERIVED = {"fits": ("memory",)}

#: A figure that is not known.
_UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep(Columns):
    """A table of answers: one row a configuration, sizes first, then the columns asked for, all numpy arrays.

    ``assumptions`` and ``incomplete`` say what was assumed and not timed in it. Of several machines the rows of one
    stand below those of another, and ``on`` is the first column. ``formulas`` are sizes that follow from others, and
    ``estimator`` has the constants of what is expected.
    """

    questions: tuple[Question, ...]
    names: tuple[str, ...]
    columns: Mapping[str, Any]
    shape: tuple[int, ...]
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    formulas: Mapping[str, str] = field(default_factory=dict)
    estimator: Any = None
    untimed: tuple[tuple[str, ...], ...] = ()

    INSTEAD = asked_by_name(
        COLUMNS, dict.fromkeys(("times", "time."), "columns='times' adds the time of each resource")
    )

    @property
    def rows_of_a_choice(self) -> int:
        return prod(self.shape)

    @property
    def question(self) -> Question:
        """What is asked, on the first machine."""
        return self.questions[0]

    @property
    def parts(self) -> tuple[Sweep, ...]:
        """The table of each machine, as far as it was worked out."""
        each, found = prod(self.shape), []
        for number, asked in enumerate(self.questions):
            rows = slice(number * each, (number + 1) * each)
            columns = {name: rows_of(column, rows) for name, column in self.columns.items()}
            found.append(replace(self, questions=(asked,), columns=columns, untimed=()))
        return tuple(part for part in found if len(part))

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.question.raw)

    @property
    def same(self) -> Mapping[str, Any]:
        """The line, the machine, and conventions and figures of one's own.

        >>> table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 8], D=64, F=64, overlap=0.5, set={"hbm": 4e12})
        >>> {name: table.same[name] for name in ("overlap", "set")}
        {'overlap': 0.5, 'set': 'hbm.bandwidth=4e+12'}
        """
        asked = self.question
        chosen = {name: in_one_cell(value) for name, value in asked.conventions.changes().items()}
        given = asked.machine.figures_set
        own = {"set": in_one_cell(given)} if given else {}
        return {"expression": asked.expression, "on": asked.machine.target, **chosen, **own}

    @property
    def same_in_all(self) -> str:
        """The machine."""
        return "several machines" if self.questions[1:] else self.question.machine.name

    @property
    def about(self) -> Headline:
        return Headline(self.question.expression, f"on {self.same_in_all}")

    def row(self, index: int) -> Bound:
        """Answer one row afresh, with every detail."""
        index = self.row_number(index)
        asked = self.questions[index // prod(self.shape)]
        own = [name for name in asked.size_names if name in self.names]
        raw = {name: float(self.columns[name][index]) for name in asked.raw if name in self.names}
        sizes = {name: int(self.columns[name][index]) for name in own}
        return asked.vary(sizes=sizes, raw={**asked.raw, **raw}).answer()

    def remarks(self) -> list[tuple[str, str]]:
        """The fastest of several machines at each size; what is assumed in this table but not in every answer; gaps."""
        found = not_ranked_said(self, ("on",))
        found += fastest_said(self, ("on",), self.whole) if self.questions[1:] else []
        for asked in self.questions:
            assumed = [("assumes", line) for line in (*_plan_said(asked), *asked.particular(self.assumptions))]
            rest = len(assumed) - MOST_REMARKS
            more = [("assumes", f"… and {rest} more; {either('--json', 'to_dict()')} has them all")] if rest > 0 else []
            found += [*assumed[:MOST_REMARKS], *more]
        return list(dict.fromkeys([*found, *Columns.remarks(self)]))

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys: ``roofline/sweep/1``, of several machines ``roofline/machine-sweep/1``."""
        machines = [asked.machine for asked in self.questions]
        several = {
            "schema": "roofline/machine-sweep/1",
            "expression": self.question.expression,
            "targets": [machine.name for machine in machines],
            "machines": [machine.key for machine in machines],
            "sets": [machine.figures_set for machine in machines],
        }
        return {
            **(several if machines[1:] else heading("roofline/sweep/1", machines[0], self.question.expression)),
            "columns": self.plain_columns(),
            **attributes(self, "assumptions", "incomplete"),
        }

    def one_line(self) -> str:
        machines = [asked.machine for asked in self.questions]
        names = ", ".join(told_apart(machines)) if machines[1:] else machines[0].name
        return f"Sweep of {len(self)} rows on {names}: {', '.join(self.columns)}"


@estimable
@takes(question, RUN_WORDS)
def sweep(
    expression: str | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    progress: Progress | None = None,
    **arguments: Any,
) -> Any:
    """Evaluate the grid of all combinations of the sizes given as lists, ranges or arrays.

    Sizes that go in pairs, as the shapes of a log, are arrays of one length of :func:`roofline.bound`.
    Of several machines (``on=["h100", "h200"]``) there is a table below the other, the machine its first column.

    A size given as text is a formula of the others (``F="4*D"``) and adds no dimension. The rest is as in
    :func:`roofline.bound`. A size left out is an error: a table needs numbers. Amounts of raw work may be lists too.
    ``columns`` are some of :data:`COLUMNS`; left out, ``fits`` is among them where a row does not fit the memory.
    ``progress`` is told of the rows that are done and of all. What is done when Ctrl-C stops it is kept.

    The answer is a :class:`Sweep`. ``keep``, as in
    ``"front,top=100,histogram=lower"``, ``out`` (a folder), ``workers``, ``scheduler``, ``scheduler_file``, ``client``
    and ``block_rows`` reduce the rows in blocks instead, here or on Dask (:mod:`roofline.grids`): the answer is then a
    :class:`~roofline.grids.answer.ReducedGrid`.

    >>> grid = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=8, D=[8192, 262144], F="D")
    >>> grid.plain("fits")
    [True, False]
    >>> sweep(flops=[1e12, 4e12], bytes=[1e9, 1e10], on="h100")["bound_by"].tolist()
    ['tensor', 'hbm', 'tensor', 'tensor']
    >>> grid = sweep("bf16[B, D] * bf16[D, F]", on=["h100", "v5e"], B=[64, 512], D=8192, F="D")
    >>> grid["on"].tolist(), grid["bound_by"].tolist()
    (['h100', 'h100', 'v5e', 'v5e'], ['hbm', 'tensor', 'hbm', 'mxu'])
    >>> kept = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=range(1, 1001), D=[1024, 4096], F="D", keep="front,top=2")
    >>> len(kept["front"]), kept["top"].plain("B"), kept["top"].plain("lower")[0] == kept["front"].plain("lower")[0]
    (698, [1, 2], True)
    >>> sizes = {"B": range(1, 1001), "D": 4096, "F": "D"}
    >>> sweep("bf16[B, D] * bf16[D, F]", on=["h100", "v5e"], **sizes, keep="histogram=on")["histogram"].to_dict()
    {'on': ['h100', 'v5e'], 'rows': [1000, 1000]}
    """
    run = GridRun.taken_from(arguments, progress)
    on = arguments.get("on")
    if isinstance(on, list | tuple) and not on:
        raise InputError("no machine to run on", hint="name one or several, as in on=['h100', 'h200']")
    several = on if isinstance(on, list | tuple) else [on]
    own = ({**arguments, "on": one, **figures_of(one, several, arguments)} for one in several)
    each = [_asked(expression, columns, given) for given in own]
    asked, (_, axes, formulas, wanted) = [one[0] for one in each], each[0]
    kept = [] if run is None else columns_to_keep(run.keep)
    added = (n for n in kept if n in COLUMNS and n not in wanted)
    wanted = sorted([*wanted, *added], key=lambda name: name == "bound_by")
    table = LineTable(asked, axes, formulas, wanted)
    if run is None:
        return table.in_memory(progress, usual=columns is None)
    everything = {"asked": asked, "formulas": formulas, "columns": table.names}
    name = f"{asked[0].expression}  on {', '.join(one.machine.name for one in asked)}"
    return reduce_grid(table, name, everything, run, tuple(c for c in USUAL_FRONT if c in table.names))


def resized(table: Sweep, columns: Sequence[str], sizes: Mapping[str, Any]) -> Sweep:
    """A table at other sizes, on the same plan where that is one of chips; sizes given as text are formulas."""
    formulas = {name: value for name, value in sizes.items() if isinstance(value, str)}
    axes = {name: _axis(name, value) for name, value in sizes.items() if name not in formulas}
    return LineTable(table.questions, axes, formulas, columns).in_memory()


def _asked(
    expression: str | None, columns: str | Sequence[str] | None, arguments: Mapping[str, Any]
) -> tuple[Question, dict[str, Any], dict[str, str], list[str]]:
    """The question of a table on one machine; its axes, the sizes that follow from them, and its columns."""
    columns = None if columns is None else listed_names(columns)
    formulas: dict[str, str] = {}
    arguments = {k: v if k in _NOT_SIZES else typed_size(k, v) for k, v in arguments.items()}
    if isinstance(arguments.get("sizes"), Mapping):
        arguments["sizes"] = typed_sizes(arguments["sizes"])
    for source in (arguments, arguments.get("sizes") or {}):
        formulas |= {k: v for k, v in source.items() if isinstance(v, str) and k not in _NOT_SIZES}
    plain = {k: v for k, v in arguments.items() if k not in formulas}
    if plain.get("sizes"):
        plain["sizes"] = {k: v for k, v in plain["sizes"].items() if k not in formulas}
    asked = question(expression, **plain)
    refuse_idle(asked)
    for name in asked.size_names:
        if asked.sizes.get(name) is None and name not in formulas:
            raise SizeError(f"size {name} has no value", hint=f"a table needs numbers, as in {name}=1024")
    stated = asked.conventions.overlap is not None or asked.conventions.overhead is not None
    meaningless = {*(() if stated else ("estimate",)), *(TIMES if asked.raw.get("intensity") is not None else ())}
    wanted = columns if columns is not None else [c for c in DEFAULT_COLUMNS if c not in meaningless]
    unknown = [c for c in wanted if c not in COLUMNS and not c.startswith("time.")]
    if unknown:
        raise InputError(f"no column {unknown[0]!r}", hint=column_hint(unknown[0], COLUMNS))
    amounts = {name: value.reshape(-1) for name, value in asked.raw.items() if is_array(value)}
    axes = {**amounts, **{name: _axis(name, value) for name, value in asked.sizes.items()}}
    return asked, axes, formulas, sorted(wanted, key=lambda name: name == "bound_by")


def column_hint(name: str, known: Sequence[str]) -> str:
    """What would be right in place of a column that a table has not; an estimate adds its columns to all others."""
    if name in ("estimate", "expected", "low", "high"):
        return f"{spelled('estimate', True)} adds expected, low and high to the columns that are named"
    return column_meant(name, known, limit=20)


# Arguments of a question that may be text without being a size.
_NOT_SIZES = frozenset(("on", "unit", "over", "dtype", "flops", "bytes", "intensity", "link", *NAMES))


def _axis(name: str, value: Any) -> Any:
    checked = check(name, value)
    if is_symbol(checked):
        raise SizeError(f"size {name} is {checked}", hint="a grid has numbers; roofline.formula takes symbols")
    return np.atleast_1d(np.asarray(checked, dtype=np.float64)).reshape(-1)


class LineTable(BlockTable):
    """The grid of a line's sizes on one machine or several: by closed forms where rows are many, or as arrays."""

    takes_pairs = "roofline.bound"

    def __init__(
        self, asked: Sequence[Question], axes: Mapping[str, Any], formulas: Mapping[str, str], columns: Sequence[str]
    ) -> None:
        self.axes = {name: values if name in asked[0].raw else integers(values) for name, values in axes.items()}
        self.single = {name: plain_number(values[0]) for name, values in axes.items() if len(values) == 1}
        self.choices, self.columns = len(asked), columns
        self.machines = told_apart([one.machine for one in asked])
        self.lines = [self._line(one, formulas) for one in asked]
        shown = (name for line in self.lines for name, _ in _values(line.sample, columns))
        self.names = tuple(dict.fromkeys((*(("on",) if len(asked) > 1 else ()), *axes, *formulas, *shown)))

    def _line(self, asked: Question, formulas: Mapping[str, str]) -> ArrayLine:
        """The line of one machine: of few rows with all of them, of many with the first."""
        rows = range(prod(self.shape))
        if asked.is_sharded:
            every = self._given(self.sizes_at(rows))
            ask, wrong, _ = asked_of_rows(every, lambda sizes: _on_one_plan(asked, sizes, formulas))
            if wrong is not None:
                ask = _on_one_plan(asked, {n: v[~wrong] if is_array(v) else v for n, v in every.items()}, formulas)
            asked = ask
            refuse_idle_on_plan(asked)
        if not self.is_long:
            return ArrayLine(asked, self._given(self.sizes_at(rows)), formulas, may_fail=True)
        for some in (rows[:1], rows[:BLOCK], rows[:: len(rows) // BLOCK | 1]):  # more where the first cannot be
            first = ArrayLine(asked, self._given(self.sizes_at(some)), formulas, may_fail=True)
            with suppress(SizeError):
                return ArrayLine(asked, first.spare, formulas, may_fail=True)
        return first

    @property
    def is_long(self) -> bool:
        """Whether the rows of a machine are so many that a closed form is worth its making."""
        return prod(self.shape) > BLOCK

    def _given(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes as a line takes them: numbers where there is one value, others as floats."""
        return {name: self.single.get(name, np.asarray(each, np.float64)) for name, each in sizes.items()}

    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> Compiled | None:
        """The closed form on a machine with groups of columns compiled; None where rows are priced as arrays."""
        line = self.lines[choice]
        function = line.compiled() if self.is_long else None
        if function is not None:
            first = line.with_formulas(line.first)
            for names in groups:
                function.evaluate({name: first[name] for name in function.sizes}, forms_behind(function, names) or None)
        return function

    def evaluated(
        self, prepared: Compiled | None, choice: int, sizes: Mapping[str, Any], names: Sequence[str], told: Told = None
    ) -> Mapping[str, Any]:
        """Columns at sizes that broadcast; NaN or no name where the machine has no such column."""
        line, given = self.lines[choice], self._given(sizes)
        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))
        every = line.with_formulas(given)
        own = {name: integers(np.asarray(every[name])) for name in names if name in line.formulas}
        found = None if prepared is None else prepared.evaluate({name: every[name] for name in prepared.sizes})
        if found is not None and not found.invalid:
            known = dict(_values(line.sample, self.columns))
            needed = [name for name in forms_behind(found.function, names) if known.get(name, 0) is not _UNKNOWN]
            found.work_out(tuple(needed), told)
            line.assumptions = dict.fromkeys(said_of_all(line.sample, found.function))
            line.incomplete = dict.fromkeys(line.sample.incomplete)
            capacity = None if line.sample.footprint is None else line.sample.footprint.capacity
            rest = [name for name in names if name not in own]
            return {**own, **{name: _column(found, name, known.get(name, _UNKNOWN), capacity) for name in rest}}
        flat = {n: np.broadcast_to(v, shape).reshape(-1) if is_array(v) else v for n, v in given.items()}
        wanted = [name for name in self.columns if name in names or name == "times"]

        def columns(answer: Bound) -> dict[str, Any]:
            return {n: float(v) if type(v) is int else v for n, v in _values(answer, wanted)}

        priced = line.priced(flat, prod(shape), columns, told)
        nothing = np.full(shape, _UNKNOWN)
        return {name: own[name] if name in own else priced.get(name, nothing).reshape(shape) for name in names}

    def labels(self, choices: Any) -> dict[str, Any]:
        places = tuple(dict.fromkeys(self.machines))
        codes = np.asarray([places.index(name) for name in self.machines], np.int32)
        return {"on": Codes(codes[np.asarray(choices)], places)} if self.choices > 1 else {}

    def remarks(self, prepared: Any, choice: int) -> dict[str, tuple[str, ...]]:
        line = self.lines[choice]
        return {
            "assumes": tuple(map(str, line.asked.particular(line.sample.assumptions))),
            "incomplete": (*line.sample.incomplete, *(f"some rows have no figures: {why}" for why in line.failed)),
        }

    def in_memory(self, progress: Progress | None = None, *, usual: bool = False) -> Sweep:
        """All rows; of the ``usual`` columns ``fits`` is kept where a row does not fit."""
        columns, done, _ = self.all_columns(progress)
        if usual and not (columns["fits"] == 0).any():
            del columns["fits"]
        lines = self.lines[: -(-done // prod(self.shape))]
        said = [(*line.assumptions, *(line.no_closed_form if self.is_long else ())) for line in lines]
        every, lack = f"of {prod(self.shape):,} rows", "have no figures"
        gaps = [
            (*line.incomplete, *(f"{n:,} {every} {agree(n, lack)}: {why}" for why, n in line.failed.items()))
            for line in lines
        ]
        cut = [(stopped(done, self.rows, "rows"),)] if done < self.rows else []
        assumed, missing = (tuple(dict.fromkeys(chain.from_iterable(parts))) for parts in (said, gaps + cut))
        shape = tuple(len(values) for values in self.axes.values() if len(values) > 1) or (1,)
        formulas, asked = dict(self.lines[0].formulas), tuple(line.asked for line in self.lines)
        untimed = untimed_apart(line.incomplete for line in lines)
        apart = tuple(map(tuple, untimed)) if untimed[1:] and any(untimed) else ()
        return Sweep(asked, (*self.axes, *formulas), columns, shape, assumed, missing, formulas=formulas, untimed=apart)


def _on_one_plan(asked: Question, sizes: Mapping[str, Any], formulas: Mapping[str, str]) -> Question:
    """The question on the plan that is the best for rows together."""
    sizes_of_line = ArrayLine(asked, sizes, formulas).sizes_of_line
    return asked.vary(sizes=sizes_of_line).one_plan().vary(sizes=asked.sizes)


def _plan_said(asked: Question) -> list[str]:
    """By which plan chips send in all rows, where nobody named one and it sends anything."""
    taken = asked.plan_of_all
    if taken is None or asked.conventions.plan is not None or not taken.words:
        return []
    return [f"plan of all rows: {taken.name}; asked alone, a row goes by its own fastest plan"]


def forms_behind(
    function: Compiled, names: Sequence[str], derived: Mapping[str, Sequence[str]] = _DERIVED
) -> tuple[str, ...]:
    """The columns of a closed form that columns of a table follow from."""
    every = dict.fromkeys(part for name in names for part in (name, *derived.get(name, ())))
    return tuple(name for name in every if name in function.columns)


def _column(found: Evaluated, name: str, known: Any, capacity: float | None) -> Any:
    """A column of a closed form at its sizes; NaN where it is not known."""
    if capacity is None if name == "fits" else known is _UNKNOWN:
        return np.full(found.shape, _UNKNOWN)
    return found["memory"] <= capacity if name == "fits" else found.whole_column(name)


def _values(answer: Bound, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for column in columns:
        if column == "times":
            yield from ((f"time.{name}", time) for name, time in answer.times.items())
            continue
        if column.startswith("time.") and (name := column[5:]) not in answer.times:
            raise InputError(f"no time on {name!r}", hint=suggest(name, answer.times, what="resources"))
        value = column_of(answer, column)
        yield column, _UNKNOWN if value is None else value
