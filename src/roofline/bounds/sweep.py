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

import math
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from roofline.answers import attributes, estimable, figures_of, heading
from roofline.bounds.api import question
from roofline.bounds.arrays import evaluated, no_closed_form, said_of_all
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import NAMES
from roofline.bounds.question import Question, refuse_idle, refuse_idle_on_plan, resolve_sizes, without_helpers
from roofline.counts import typed_size, typed_sizes
from roofline.errors import InputError, SizeError, suggest
from roofline.formulas.compiled import Compiled, Evaluated
from roofline.formulas.tables import Columns, fastest_said, in_one_cell, integers, stacked
from roofline.frozen import dataclass
from roofline.grids.answer import RUN_WORDS, GridRun, ReducedGrid, reduce_grid
from roofline.grids.blocks import BlockTable
from roofline.hardware.figures import told_apart
from roofline.progress import stopped
from roofline.sections import Headline
from roofline.signatures import either, listed_names, takes
from roofline.sizes import BLOCK, Codes, check, is_array, is_symbol

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

#: A figure that is not known.
_UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep(Columns):
    """A table of answers: one row a configuration, sizes first, then the columns asked for, all numpy arrays.

    ``assumptions`` and ``incomplete`` say what was assumed and not timed in it.
    """

    question: Question
    names: tuple[str, ...]
    columns: Mapping[str, Any]
    shape: tuple[int, ...]
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of whole numbers: sizes, but no amounts of raw work."""
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
        given = {name: asked.machine.figure(name).value for name in asked.machine.given}
        own = {"set": in_one_cell(given)} if given else {}
        return {"expression": asked.expression, "on": asked.machine.target, **chosen, **own}

    @property
    def about(self) -> Headline:
        """The line and the machine."""
        return Headline(self.question.expression, f"on {self.question.machine.name}")

    def row(self, index: int) -> Bound:
        """Answer one row afresh, with every detail."""
        index = self.row_number(index)
        own = [name for name in self.question.size_names if name in self.names]
        raw = {name: float(self.columns[name][index]) for name in self.question.raw if name in self.names}
        sizes = {name: int(self.columns[name][index]) for name in own}
        return self.question.vary(sizes=sizes, raw={**self.question.raw, **raw}).answer()

    def remarks(self) -> list[tuple[str, str]]:
        """What is assumed in this table but not in every answer, and what is not timed."""
        assumed = [("assumes", line) for line in self.question.particular(self.assumptions)]
        rest = len(assumed) - MOST_REMARKS
        more = [("assumes", f"… and {rest} more; {either('--json', 'to_dict()')} has them all")] if rest > 0 else []
        return [*assumed[:MOST_REMARKS], *more, *Columns.remarks(self)]

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/sweep/1``): equal-length lists, codes decoded."""
        return {
            **heading("roofline/sweep/1", self.question.machine, self.question.expression),
            "columns": {name: self.plain(name) for name in self.columns},
            **attributes(self, "assumptions", "incomplete"),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        return f"Sweep of {len(self)} rows on {self.question.machine.name}: {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MachineSweep(Columns):
    """A sweep of a line on several machines: the tables of ``parts`` one below the other, ``on`` the first column."""

    parts: tuple[Sweep, ...]
    columns: Mapping[str, Any]
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of sizes."""
        return self.parts[0].whole

    @property
    def same(self) -> Mapping[str, Any]:
        """The line, and conventions of one's own."""
        return self.parts[0].same

    @property
    def about(self) -> Headline:
        """The line."""
        return Headline(self.parts[0].question.expression, "on several machines")

    def row(self, index: int) -> Bound:
        """Answer one row afresh, with every detail."""
        index = self.row_number(index)
        starts = [0, *accumulate(map(len, self.parts))]
        at = bisect(starts, index) - 1
        return self.parts[at].row(index - starts[at])

    def remarks(self) -> list[tuple[str, str]]:
        """The fastest at each size; what is assumed in these tables but not in every answer, and what is not timed."""
        said = [line for part in self.parts for line in part.remarks()]
        return list(dict.fromkeys([*fastest_said(self, ("on",), self.whole), *said, *Columns.remarks(self)]))

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/machine-sweep/1``): equal-length lists, codes decoded."""
        machines = [part.question.machine for part in self.parts]
        return {
            "schema": "roofline/machine-sweep/1",
            "expression": self.parts[0].question.expression,
            "targets": [machine.name for machine in machines],
            "machines": [machine.key for machine in machines],
            "columns": {name: self.plain(name) for name in self.columns},
            **attributes(self, "assumptions", "incomplete"),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        names = ", ".join(told_apart([part.question.machine for part in self.parts]))
        return f"MachineSweep of {len(self)} rows on {names}: {', '.join(self.columns)}"


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

    Of several machines (``on=["h100", "h200"]``) there is a table below the other, the machine its first column.

    A size given as text is a formula of the others (``F="4*D"``) and adds no dimension. The rest is as in
    :func:`roofline.bound`. A size left out is an error: a table needs numbers. Amounts of raw work may be lists too.
    ``columns`` are some of :data:`COLUMNS`; left out, ``fits`` is among them where a row does not fit the memory.
    ``progress`` is told of the rows that are done and of all. What is done when Ctrl-C stops it is kept.

    The answer is a :class:`Sweep`, of several machines a :class:`MachineSweep`. ``keep``, as in
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
    if run is not None:
        return _in_blocks(expression, columns, run, arguments)
    if isinstance(arguments.get("on"), list | tuple):
        return _over_machines(expression, arguments.pop("on"), columns, progress, arguments)
    return sweep_on_one(expression, columns, progress, arguments)


def sweep_on_one(
    expression: str | None, columns: str | Sequence[str] | None, progress: Progress | None, arguments: Mapping[str, Any]
) -> Sweep:
    """The table of one machine."""
    asked, grid, wanted = _asked(expression, columns, arguments)
    found = _table(asked, grid, wanted, progress)
    if columns is None and not (found.columns["fits"] == 0).any():
        del found.columns["fits"]  # type: ignore[attr-defined]
    return found


def resized(table: Sweep, columns: Sequence[str], sizes: Mapping[str, Any]) -> Sweep:
    """A table at other sizes, on the same plan where that is one of chips; sizes given as text are formulas."""
    formulas = {name: value for name, value in sizes.items() if isinstance(value, str)}
    axes = {name: _axis(name, value) for name, value in sizes.items() if name not in formulas}
    return _table(table.question, _Grid(axes, formulas), columns, None)


def _table(asked: Question, grid: _Grid, columns: Sequence[str], progress: Progress | None) -> Sweep:
    found, said = _evaluate(asked, grid, columns, progress)
    shape = tuple(len(a) for a in grid.axes.values() if len(a) > 1) or (1,)
    return Sweep(asked, tuple(grid.names), found, shape, **said)


def _in_blocks(expression: str | None, columns: Any, run: GridRun, arguments: Mapping[str, Any]) -> ReducedGrid:
    """What is kept of the table of one machine, or of several one below the other, worked out in blocks."""
    on = _several(arguments.get("on"))
    each = [_asked(expression, columns, {**arguments, "on": one, **figures_of(one, on, arguments)}) for one in on]
    table = LineTable([MachineLine(*one) for one in each])
    asked = [one for one, _, _ in each]
    everything = {"asked": asked, "formulas": each[0][1].formulas, "columns": table.names}
    name = f"{asked[0].expression}  on {', '.join(one.machine.name for one in asked)}"
    return reduce_grid(table, name, everything, run, tuple(c for c in USUAL_FRONT if c in table.names))


def _several(on: Any) -> Sequence[Any]:
    """The machines of a table."""
    if isinstance(on, list | tuple) and not on:
        raise InputError("no machine to run on", hint="name one or several, as in on=['h100', 'h200']")
    return on if isinstance(on, list | tuple) else [on]


def _asked(
    expression: str | None, columns: str | Sequence[str] | None, arguments: Mapping[str, Any]
) -> tuple[Question, _Grid, Sequence[str]]:
    """The question of a table, the grid of its sizes, and its columns."""
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
        raise InputError(f"no column {unknown[0]!r}", hint=suggest(unknown[0], COLUMNS, what="columns", limit=20))
    amounts = {name: value.reshape(-1) for name, value in asked.raw.items() if is_array(value)}
    axes = {**amounts, **{name: _axis(name, value) for name, value in asked.sizes.items()}}
    grid = _Grid(axes, formulas)
    every = without_helpers(grid.across(), formulas, asked.size_names) if asked.is_sharded else {}
    asked = asked.vary(sizes=every).one_plan().vary(sizes=asked.sizes)
    refuse_idle_on_plan(asked)
    return asked, grid, wanted


def _over_machines(
    expression: str | None, on: Sequence[Any], columns: Any, progress: Progress | None, arguments: Mapping[str, Any]
) -> MachineSweep:
    """The table of each machine, one below the other; what is done when Ctrl-C stops it is kept."""
    parts: list[Sweep] = []
    for number, machine in enumerate(_several(on)):

        def told(done: int, rows: int, number: int = number) -> None:
            if progress is not None:
                progress(number * rows + done, len(on) * rows)

        asked = {**arguments, "on": machine, **figures_of(machine, on, arguments)}
        parts.append(sweep_on_one(expression, columns, told, asked))
        part = parts[-1]
        if len(part) < math.prod(part.shape):
            break
    rows = [len(part) for part in parts]
    names = told_apart([part.question.machine for part in parts])
    places = tuple(dict.fromkeys(names))
    codes = [Codes(_constant(places.index(name), n), places) for name, n in zip(names, rows, strict=True)]
    table = {"on": stacked(codes, rows)}
    for name in dict.fromkeys(column for part in parts for column in part):
        fits = name == "fits"  # a table in which every row fits lacks the column
        each = [part.columns.get(name, _constant(True, len(part)) if fits else None) for part in parts]
        table[name] = stacked(each, rows)
    said = {
        name: tuple(dict.fromkeys(line for part in parts for line in getattr(part, name)))
        for name in ("assumptions", "incomplete")
    }
    return MachineSweep(tuple(parts), table, **said)


def _constant(value: Any, rows: int) -> Any:
    import numpy as np

    return np.full(rows, value)


# Arguments of a question that may be text without being a size.
_NOT_SIZES = frozenset(("on", "unit", "over", "dtype", "flops", "bytes", "intensity", "link", *NAMES))


def _axis(name: str, value: Any) -> Any:
    import numpy as np

    checked = check(name, value)
    if is_symbol(checked):
        raise SizeError(f"size {name} is {checked}", hint="a grid has numbers; roofline.formula takes symbols")
    return np.atleast_1d(np.asarray(checked, dtype=np.float64)).reshape(-1)


class _Grid:
    """All combinations of the axes, made block by block; the last axis varies fastest."""

    def __init__(self, axes: Mapping[str, Any], formulas: Mapping[str, str]) -> None:
        self.axes, self.formulas = axes, formulas
        self.names = [*axes, *formulas]
        self.rows = 1
        for values in axes.values():
            self.rows *= len(values)

    def across(self) -> dict[str, Any]:
        """Every size at once: the axes in dimensions of their own, those of one value as numbers."""
        several = [name for name, values in self.axes.items() if len(values) > 1]
        sizes: dict[str, Any] = {}
        for name, values in self.axes.items():
            own = [-1 if name == other else 1 for other in several]
            sizes[name] = values.reshape(own) if name in several else _whole(values[0])
        return self.with_formulas(sizes)

    def blocks(self) -> Iterator[tuple[slice, dict[str, Any]]]:
        import numpy as np

        for start in range(0, self.rows, BLOCK):
            stop = min(start + BLOCK, self.rows)
            index = np.arange(start, stop)
            sizes: dict[str, Any] = {}
            for name in reversed(list(self.axes)):
                values = self.axes[name]
                sizes[name] = values[index % len(values)] if len(values) > 1 else _whole(values[0])
                index = index // len(values) if len(values) > 1 else index
            sizes = dict(reversed(sizes.items()))
            yield slice(start, stop), self.with_formulas(sizes)

    def with_formulas(self, sizes: dict[str, Any]) -> dict[str, Any]:
        """Sizes with those that follow from them."""
        return resolve_sizes({**sizes, **self.formulas}) if self.formulas else sizes


def _whole(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)


def _evaluate(
    asked: Question, grid: _Grid, columns: Sequence[str], progress: Progress | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a grid, and what its answers say about themselves: by the closed form, or block by block."""
    varying = [name for name, values in grid.axes.items() if len(values) > 1]
    reasons = no_closed_form(asked, dict.fromkeys(varying)) if grid.rows > BLOCK else ()
    if grid.rows > BLOCK and not reasons:
        found = _by_closed_form(asked, grid, columns, progress)
        if found is not None:
            return found
    table, said = _by_blocks(asked, grid, columns, progress)
    return table, {**said, "assumptions": (*said["assumptions"], *reasons)}


def _by_closed_form(
    asked: Question, grid: _Grid, columns: Sequence[str], progress: Progress | None
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The columns of a grid from the closed form, over its axes as they are; None where it has none."""
    import numpy as np

    every = grid.across()
    sizes = without_helpers(every, grid.formulas, asked.size_names)
    varying = {name: values for name, values in sizes.items() if is_array(values)}
    shape = np.broadcast_shapes(*(np.shape(values) for values in every.values()))
    first = {name: values.reshape(-1)[:1] for name, values in varying.items()}
    sample = asked.vary(sizes={**sizes, **first}).answer()
    found = evaluated(asked, sizes, varying)
    if found is None or found.invalid or tuple(found.function.times) != tuple(sample.times):
        return None
    capacity = None if sample.footprint is None else sample.footprint.capacity
    known = {column: value is not _UNKNOWN for column, value in _values(sample, columns)}
    needed = ["memory" if name == "fits" else name for name, there in known.items() if there]

    def told(done: int) -> None:
        if progress is not None:
            progress(grid.rows * done // len(found), grid.rows)

    stop = found.work_out(tuple(dict.fromkeys(needed)), told) * (grid.rows // len(found))
    table: dict[str, Any] = {}
    for name, values in every.items():
        table[name] = _flat(integers(np.asarray(values)), shape, stop)
    for column, there in known.items():
        table[column] = _flat(_column(found, column, there, capacity), shape, stop)
    if "bound_by" in table:
        table["bound_by"] = table.pop("bound_by")
    cut = (stopped(stop, grid.rows, "rows"),) if stop < grid.rows else ()
    return table, {"assumptions": said_of_all(sample, found), "incomplete": (*sample.incomplete, *cut)}


def _column(found: Evaluated, name: str, known: bool, capacity: float | None) -> Any:
    """A column of a closed form at its sizes; NaN where it is not known."""
    import numpy as np

    if capacity is None if name == "fits" else not known:
        return np.full(found.shape, _UNKNOWN)
    return found["memory"] <= capacity if name == "fits" else found.whole_column(name)


def _flat(column: Any, shape: tuple[int, ...], stop: int) -> Any:
    """A column in every row, of axes that it is not over too, up to the row where the work was stopped."""
    import numpy as np

    if isinstance(column, Codes):
        return Codes(_flat(column.codes, shape, stop), column.names)
    return np.broadcast_to(column, shape).reshape(-1)[:stop]


def _by_blocks(
    asked: Question, grid: _Grid, columns: Sequence[str], progress: Progress | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a grid, a block of rows at a time; what is done when it is stopped is kept."""
    last = [name for name in columns if name != "bound_by"] + ["bound_by"] * ("bound_by" in columns)
    priced = PricedRows(asked, grid.formulas, last)
    said: dict[str, dict[str, None]] = {"assumptions": {}, "incomplete": {}}
    done = 0
    try:
        for where, sizes in grid.blocks():
            answer = priced.add(sizes, where.stop - where.start)
            for name, lines in said.items():
                lines.update(dict.fromkeys(getattr(answer, name)))
            done = where.stop
            if progress is not None:
                progress(done, grid.rows)
    except KeyboardInterrupt:
        if not done:
            raise
        said["incomplete"][stopped(done, grid.rows, "rows")] = None
    table = priced.joined((-1,), done)
    for name in set(grid.names) - set(asked.raw):
        table[name] = integers(table[name])
    return table, {name: tuple(lines) for name, lines in said.items()}


class PricedRows:
    """Columns of a question whose rows are priced as arrays, a block after the other."""

    def __init__(self, asked: Question, formulas: Mapping[str, str], columns: Sequence[str]) -> None:
        self.asked, self.formulas, self.columns = asked, formulas, columns
        self.parts: dict[str, list[Any]] = {}

    def add(self, sizes: Mapping[str, Any], rows: int) -> Bound:
        """Price a block of so many rows; the answer to it."""
        answer = _answer_at(self.asked, sizes, self.formulas)
        for name, value in (*sizes.items(), *_values(answer, [n for n in self.columns if n not in sizes])):
            self.parts.setdefault(name, []).append(_in_rows(name, value, rows, answer))
        return answer

    def joined(self, shape: tuple[int, ...], rows: int) -> dict[str, Any]:
        """The columns of so many rows in a shape."""
        import numpy as np

        def one(parts: Sequence[Any]) -> Any:
            if isinstance(parts[0], Codes):
                return Codes(one([part.codes for part in parts]), parts[0].names)
            return np.concatenate(parts)[:rows].reshape(shape)

        return {name: one(parts) for name, parts in self.parts.items()}


def _in_rows(name: str, value: Any, rows: int, answer: Bound) -> Any:
    """A column of some rows, which an answer may say in one value."""
    import numpy as np

    if isinstance(value, str):
        return Codes(np.full(rows, list(answer.times).index(value), np.int8), tuple(answer.times))
    kind = bool if name == "fits" and value is not _UNKNOWN else float
    return value if isinstance(value, Codes) else np.broadcast_to(np.asarray(value, kind), (rows,))


def _answer_at(asked: Question, sizes: Mapping[str, Any], formulas: Mapping[str, str]) -> Bound:
    """The answer at arrays of sizes, and of amounts of raw work."""
    raw = {name: sizes[name] for name in asked.raw if name in sizes}
    given = {name: size for name, size in sizes.items() if name not in raw}
    return asked.vary(sizes=without_helpers(given, formulas, asked.size_names), raw={**asked.raw, **raw}).answer()


class LineTable(BlockTable):
    """The grid of a line's sizes on one machine or several, whose rows are worked out in blocks."""

    def __init__(self, lines: Sequence[MachineLine]) -> None:
        self.lines, self.choices = tuple(lines), len(lines)
        self.axes = {name: integers(values) for name, values in lines[0].grid.axes.items()}
        columns = dict.fromkeys(name for line in lines for name in line.columns)
        self.machines = told_apart([line.asked.machine for line in lines])
        self.names = (*(("on",) if len(lines) > 1 else ()), *lines[0].grid.names, *columns)

    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> Any:
        """The closed form on a machine with groups of columns compiled; None where it has none."""
        return self.lines[choice].closed_form(groups)

    def evaluated(
        self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str]
    ) -> Mapping[str, Any]:
        """Columns at sizes that broadcast; NaN or no name where the machine has no such column."""
        import numpy as np

        line = self.lines[choice]
        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))
        found = {name: np.full(shape, _UNKNOWN) for name in names if name not in line.names}
        return {**found, **line.evaluated(prepared, sizes, [name for name in names if name in line.names])}

    def labels(self, choices: Any) -> dict[str, Any]:
        """The machine of each row, where there are several."""
        import numpy as np

        places = tuple(dict.fromkeys(self.machines))
        codes = np.asarray([places.index(name) for name in self.machines], np.int32)
        return {"on": Codes(codes[np.asarray(choices)], places)} if self.choices > 1 else {}

    def remarks(self, prepared: Any, choice: int) -> dict[str, tuple[str, ...]]:
        """What is assumed and not timed in the first row."""
        return self.lines[choice].said


class MachineLine:
    """A line on one machine over a grid, as it travels: worked out by its closed form, or as arrays."""

    def __init__(self, asked: Question, grid: _Grid, columns: Sequence[str]) -> None:
        self.asked, self.grid = asked, grid
        first = {name: values[:1] for name, values in grid.axes.items()}
        sample = _answer_at(asked, grid.with_formulas(first), grid.formulas)
        values = dict(_values(sample, columns))
        self.columns, self.times = tuple(values), tuple(sample.times)
        self.names = frozenset((*grid.names, *values))
        self.known = frozenset(name for name, value in values.items() if value is not _UNKNOWN)
        self.capacity = None if sample.footprint is None else sample.footprint.capacity
        self.said = {
            "assumes": tuple(map(str, asked.particular(sample.assumptions))),
            "incomplete": tuple(map(str, sample.incomplete)),
        }

    def closed_form(self, groups: Sequence[Sequence[str]]) -> Compiled | None:
        """The closed form with groups of columns compiled; None where it has none."""
        few = _Grid({name: values[:2] for name, values in self.grid.axes.items()}, self.grid.formulas)
        every = few.across()
        sizes = without_helpers(every, few.formulas, self.asked.size_names)
        varying = {name: values for name, values in sizes.items() if is_array(values)}
        if no_closed_form(self.asked, varying):
            return None
        found = evaluated(self.asked, sizes, varying)
        if found is None or tuple(found.function.times) != self.times:
            return None
        for names in groups:
            found.function.evaluate(varying, self._forms(found.function, names) or None)
        return found.function

    def _forms(self, function: Compiled, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of the closed form that columns of the table follow from."""
        parts = dict.fromkeys("memory" if name == "fits" else name for name in names if name in self.known)
        return tuple(name for name in parts if name in function.columns)

    def evaluated(
        self, prepared: Compiled | None, sizes: Mapping[str, Any], names: Sequence[str]
    ) -> Mapping[str, Any]:  # fmt: skip
        """Columns at sizes that broadcast: by the closed form where it holds for all of them, or as arrays."""
        import numpy as np

        every = self.grid.with_formulas(dict(sizes))
        if prepared is not None:
            given = {name: every[name] for name in prepared.sizes}
            found = prepared.evaluate(given, self._forms(prepared, names) or None)
            if not found.invalid:
                own = {name: every[name] for name in names if name in every}
                rest = [name for name in names if name not in own]
                return {**own, **{n: _column(found, n, n in self.known, self.capacity) for n in rest}}
        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))
        flat = {
            name: np.broadcast_to(np.asarray(values, np.float64), shape).reshape(-1) for name, values in sizes.items()
        }
        rows = len(next(iter(flat.values()), [0]))
        priced = PricedRows(self.asked, self.grid.formulas, names)
        for start in range(0, rows, BLOCK):
            part = self.grid.with_formulas({name: values[start : start + BLOCK] for name, values in flat.items()})
            priced.add(part, min(BLOCK, rows - start))
        columns = priced.joined(shape, rows)
        return {name: columns[name] for name in names}


def _values(answer: Bound, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for column in columns:
        if column == "times":
            yield from ((f"time.{name}", time) for name, time in answer.times.items())
        elif column.startswith("time."):
            name = column[5:]
            if name not in answer.times:
                raise InputError(f"no time on {name!r}", hint=suggest(name, answer.times, what="resources"))
            yield column, answer.times[name]
        elif column == "bytes":
            yield column, sum(answer.bytes.values())
        elif column == "fits":
            fits = answer.footprint.fits if answer.footprint is not None else None
            yield column, _UNKNOWN if fits is None else fits
        else:
            value = getattr(answer, column)
            yield column, _UNKNOWN if value is None else value
