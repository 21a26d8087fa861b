"""A grid of rows in blocks: choices times axes, the last axis fastest; each block is a part of every axis.

Rows of a block follow each other, so a row is known by its number alone.

A block reduced where its rows are made: the one function that a serial run and the workers of a cluster call.

Columns that a reduction looks at are worked out for all rows, a chunk at a time; the others only for rows that are
kept. Rows themselves, where they are asked for, are written as parquet by the worker that made them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

from roofline.errors import RooflineError, SizeError, load_extra
from roofline.formulas.compiled import Ranges, cut
from roofline.formulas.tables import YES_NO, rows_of, stacked
from roofline.frozen import NamedTuple, dataclass, field
from roofline.grids.reductions import Histogram, KeepRequest, RowReduction, State
from roofline.lazy import np
from roofline.signatures import either
from roofline.sizes import MOST_ROWS, Codes, sums_by_name
from roofline.statements import untimed_parts

#: Rows of a block where nothing is said: a task of about a second, which no scheduler is busy with.
BLOCK_ROWS = 10_000_000

#: Rows of a block worked out at once: some ten megabytes of columns.
CHUNK_ROWS = 2**17


#: What is told of the rows of a choice that are done; where it is given, Ctrl-C stops the work, and the rest is NaN.
Told = Callable[[int], None] | None


class RowBlock(NamedTuple):
    """Rows ``start`` to ``stop`` of a grid: those of one choice, and a part of each axis."""

    number: int
    start: int
    stop: int
    choice: int
    ranges: Ranges

    def __str__(self) -> str:
        return f"block {self.number} (rows {self.start:,} to {self.stop - 1:,})"


class BlockTable(ABC):
    """A table whose rows are worked out block by block. It travels to workers, so it holds what makes rows, not rows.

    ``choices`` counts its formulas, each over all ``axes``. ``names`` are its columns, sizes first.
    """

    axes: Mapping[str, Any]
    choices: int
    names: tuple[str, ...]

    #: The function that takes sizes in pairs, as arrays of one length.
    takes_pairs = ""

    #: Errors of a choice among several that leave its rows out.
    leave_out: tuple[type[RooflineError], ...] = ()

    @abstractmethod
    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> Any:
        """What the rows of a choice are worked out with; it is made once and travels to other workers.

        ``groups`` are the sets of columns that :meth:`evaluated` will be asked for.
        """

    @abstractmethod
    def evaluated(
        self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str], told: Told = None
    ) -> Mapping[str, Any]:
        """Columns of a choice at sizes that broadcast, in their shape; NaN where the choice is not possible."""

    @abstractmethod
    def labels(self, choices: Any) -> dict[str, Any]:
        """Columns that follow from the number of the choice in each row."""

    def remarks(self, prepared: Any, choice: int) -> dict[str, tuple[str, ...]]:
        """What is assumed and not timed in the rows of a choice."""
        return {}

    @property
    def questions(self) -> tuple[str, ...]:
        """Axes of which each value is a question of its own, whose rows a front mixes."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Values on each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.choices * prod(self.shape)

    def blocks(self, most: int) -> Iterator[RowBlock]:
        """Cut the grid into blocks of at most so many rows, each of one choice."""
        number = start = 0
        for choice in range(self.choices):
            for ranges in cut(self.shape, most):
                stop = start + prod(b - a for a, b in ranges)
                yield RowBlock(number, start, stop, choice, ranges)
                number, start = number + 1, stop

    def chunks(self, block: RowBlock) -> Iterator[tuple[int, dict[str, Any]]]:
        """The pieces of a block that are worked out at once: first row and sizes that broadcast."""
        start = block.start
        for ranges in cut(tuple(b - a for a, b in block.ranges), CHUNK_ROWS):
            within = [(a + first, b + first) for (a, b), (first, _) in zip(ranges, block.ranges, strict=True)]
            yield start, self._across(within)
            start += prod(b - a for a, b in ranges)

    def _across(self, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """A part of each axis along a dimension of its own."""
        found = {}
        for n, ((name, values), (a, b)) in enumerate(zip(self.axes.items(), ranges, strict=True)):
            shape = [-1 if i == n else 1 for i in range(len(self.axes))]
            found[name] = values[a:b].reshape(shape)
        return found

    def sizes_at(self, rows: Any) -> dict[str, Any]:
        """The sizes of some rows, by their numbers."""
        index = np.asarray(rows)
        found = {}
        for name, values in reversed(list(self.axes.items())):
            found[name] = values[index % len(values)]
            index = index // len(values)
        return dict(reversed(found.items()))

    def labels_at(self, rows: Any) -> dict[str, Any]:
        """Choices and sizes of some rows, as columns."""
        return {**self.labels(np.asarray(rows) // prod(self.shape)), **self.sizes_at(rows)}

    def flat(
        self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str], told: Told = None
    ) -> dict[str, Any]:
        """Columns at sizes that broadcast, in one dimension."""
        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))

        def one(column: Any) -> Any:
            if isinstance(column, Codes):
                return Codes(one(column.codes), column.names)
            return (column if np.shape(column) == shape else np.broadcast_to(column, shape)).reshape(-1)

        own = {**self.labels(np.full((), choice)), **sizes}
        rest = tuple(name for name in names if name not in own)
        found = self.evaluated(prepared, choice, sizes, rest, told) if rest else {}
        return {name: one(own[name] if name in own else found[name]) for name in names}

    def all_columns(
        self, progress: Callable[[int, int], None] | None = None
    ) -> tuple[dict[str, Any], int, tuple[int, ...]]:
        """All columns of all rows in memory, one choice after the other; how many rows; the choices left out.

        ``progress`` is told of the rows that are done and of all. What is done when Ctrl-C stops it is kept.
        """
        if self.rows > MOST_ROWS:
            raise self._too_large()
        across, each = self._across([(0, size) for size in self.shape]), prod(self.shape)
        parts, done, impossible = list[dict[str, Any]](), 0, list[int]()

        def told(rows: int) -> None:
            nonlocal done
            done = start + rows
            if progress is not None:
                progress(done, self.rows)

        try:
            for choice in range(self.choices):
                start = choice * each
                try:
                    prepared = self.prepared(choice)
                except self.leave_out as error:
                    if self.choices == 1:
                        raise
                    prepared = str(error)
                    impossible.append(choice)
                parts.append(self.flat(prepared, choice, across, self.names, told))
                if done == start:
                    told(each)
                if done < start + each:
                    break
        except MemoryError:
            raise self._too_large() from None
        except KeyboardInterrupt:
            if not parts:
                raise
        rows = [each] * len(parts)
        columns = {name: stacked([part.pop(name) for part in parts], rows) for name in self.names}
        return {name: rows_of(column, slice(done)) for name, column in columns.items()}, done, tuple(impossible)

    def _too_large(self) -> SizeError:
        """An error of a table whose columns have no room in memory."""
        best = either("--keep front,top=100", "keep='front,top=100'")
        every = either("--keep rows -o grid/", "keep='rows', out='grid/'")
        hint = f"give fewer values; {best} holds only the best rows, {every} writes all of them in blocks"
        several = [length for length in self.shape if length > 1]
        if self.takes_pairs and len(several) > 1 and len(set(several)) == 1:
            hint += either("", f"; where sizes go in pairs, {self.takes_pairs} takes the same arrays, a row each")
        return SizeError(f"a table of {self.rows:,} rows is too large for memory", hint=hint)


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is kept of rows: the state of each reduction, how many rows were left out and why, and what was said."""

    states: Mapping[str, State] = field(default_factory=dict)
    rows: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def merged(self, other: Reduced, keep: KeepRequest) -> Reduced:
        """Both together; what was said first stays first."""
        states = {**self.states, **other.states}
        for each in keep.reductions:
            for name in {each.name, kept_as(each, True)} & self.states.keys() & other.states.keys():
                states[name] = each.merged(self.states[name], other.states[name])
        counts = sums_by_name((*self.left_out.items(), *other.left_out.items()))
        names = dict.fromkeys((*self.said, *other.said))
        said = {
            name: tuple(dict.fromkeys((*self.said.get(name, ()), *other.said.get(name, ())))) for name in names
        }  # fmt: skip
        return Reduced(states, self.rows + other.rows, counts, said)


@dataclass(frozen=True, slots=True)
class Reducing:
    """A table, what is kept of it, and the folder rows go to, as one value that travels to a worker."""

    table: BlockTable
    keep: KeepRequest
    folder: str = ""
    version: str = ""

    def prepared(self, choice: int) -> Any:
        """What the rows of a choice are worked out with; the reason where it is not possible."""
        from roofline import __version__

        if self.version != __version__:
            raise RooflineError(f"the workers have roofline {__version__}, and {self.version} asks them")
        try:
            return self.table.prepared(choice, (self._looked_at, self._worked_out))
        except RooflineError as error:
            return str(error)

    def run(self, prepared: Any, block: RowBlock) -> Reduced:
        """Work out a block and reduce it; its rows are written where they are asked for."""
        states: dict[str, State] = {}
        left_out: dict[str, int] = {}
        names = self._looked_at
        impossible = isinstance(prepared, str)
        if impossible:
            left_out[prepared] = block.stop - block.start
        said = {} if impossible else dict(self.table.remarks(prepared, block.choice))
        gaps = untimed_parts(said.get("incomplete", ()))
        if not impossible:
            said[untimed_of(block.choice)] = tuple(gaps)
        as_named = {each: kept_as(each, bool(gaps)) for each in self.keep.reductions}
        with RowsFile(self, block, gaps) as file:
            for start, sizes in self.table.chunks(block):
                if impossible and not self.keep.rows:
                    break
                columns = self.table.flat(prepared, block.choice, sizes, names)
                rows = np.arange(start, start + len(next(iter(columns.values()))))
                file.write(columns)
                compared = {name: columns[name] for name in self._compared} or columns
                fine = _usable(compared, left_out) if not impossible else np.zeros(len(rows), bool)
                if not fine.all():
                    columns = {name: rows_of(values, fine) for name, values in columns.items()}
                    rows = rows[fine]
                for each, name in as_named.items():
                    before = states.get(name)
                    found = each.reduced(columns, rows, before)
                    states[name] = found if before is None else each.merged(before, found)
        states = {name: self._with_columns(prepared, block, state) for name, state in states.items()}
        plain = {name: tuple(map(str, lines)) for name, lines in said.items()}
        return Reduced(states, block.stop - block.start, left_out, plain)

    @property
    def _looked_at(self) -> tuple[str, ...]:
        """Columns that are worked out for all rows."""
        return self.table.names if self.keep.rows else self._compared

    @property
    def _compared(self) -> tuple[str, ...]:
        """Columns that rows are compared by: those of what is kept of them, and whether they fit, in time."""
        asked = (name for name in YES_NO if name in self.table.names)
        return tuple(dict.fromkeys((*self.keep.columns, *asked))) if self.keep.reductions else ()

    @property
    def _worked_out(self) -> tuple[str, ...]:
        """Columns that do not follow from the number of a choice: all of them for the rows that are kept."""
        labels = self.table.labels(np.zeros(0, np.int64))
        return tuple(name for name in self.table.names if name not in labels)

    def _with_columns(self, prepared: Any, block: RowBlock, state: State) -> State:
        """The rows that are kept, with the columns that no reduction looked at."""
        if "row" not in state:
            return state
        every = self._worked_out
        sizes = self.table.sizes_at(state["row"])
        if not len(state["row"]):
            found: dict[str, Any] = {name: np.zeros(0) for name in every}
        else:
            found = self.table.flat(prepared, block.choice, sizes, every)
        names = {name: np.asarray(each.decode(), np.str_) for name, each in found.items() if isinstance(each, Codes)}
        return {**found, **names, **state}


def untimed_of(whole: int | str) -> str:
    """The name of what is not timed whole: of a choice, by its number, or of a table that is kept."""
    return f"untimed {whole}"


#: Columns of figures and names that another time would change.
FOLLOW_FROM_TIME = (
    "lower", "op_by_op", "upper", "bound_by", "attainable", "utilisation", "throughput", "time_per_token",
    "tokens_per_second", "tokens_per_second_per_user", "tokens_per_second_per_chip", "cost_per_million",
)  # fmt: skip


def kept_as(reduction: RowReduction, is_partial: bool) -> str:
    """The name of what is kept of rows that are timed whole, or in part: which are not ranked among the others.

    >>> from roofline.grids.reductions import Top
    >>> kept_as(Top(3, "lower"), True), kept_as(Histogram("lower"), True)
    ('untimed top-lower', 'untimed histogram-lower')
    >>> kept_as(Histogram("memory"), True)
    'histogram-memory'
    """
    is_apart = is_partial and not (isinstance(reduction, Histogram) and reduction.column not in FOLLOW_FROM_TIME)
    return untimed_of(reduction.name) if is_apart else reduction.name


def _usable(columns: Mapping[str, Any], left_out: dict[str, int]) -> Any:
    """Which rows can be compared: those with numbers in all columns that fit the memory, in time."""
    fine = np.ones(len(next(iter(columns.values()))), bool)
    passed_over = {why: columns[name] == 0 for name, why in YES_NO.items() if name in columns}
    numbers = (v for name, v in columns.items() if name not in YES_NO and not isinstance(v, Codes))
    passed_over["not a number"] = reduce(np.logical_or, (v != v for v in numbers if v.dtype.kind == "f"), ~fine)
    for why, rows in passed_over.items():
        if (fine & rows).any():
            left_out[why] = left_out.get(why, 0) + int((fine & rows).sum())
            fine &= ~rows
    return fine


class RowsFile:
    """The rows of a block as a parquet file, which gets its name once it is whole; nothing where none are asked for."""

    def __init__(self, work: Reducing, block: RowBlock, gaps: Sequence[str] = ()) -> None:
        self.work, self.block, self.gaps = work, block, "; ".join(gaps)
        self.writer: Any = None
        self.name = os.path.join(work.folder, "rows", f"part-{block.number:06}.parquet")
        self.part = ""

    def __enter__(self) -> RowsFile:
        return self

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write rows: choices and sizes, then the columns."""
        if not self.work.keep.rows:
            return
        arrow = load_extra("pyarrow", "parquet")
        every = {name: columns[name] for name in self.work.table.names}
        if self.work.table.choices > 1:  # of which some may be timed in part
            every["incomplete"] = Codes(np.zeros(len(next(iter(every.values()))), np.int32), (self.gaps,))
        table = arrow.table({name: _arrow(arrow, name, values) for name, values in every.items()})
        if self.writer is None:
            from uuid import uuid4

            unfinished = os.path.join(self.work.folder, "unfinished")
            os.makedirs(unfinished, exist_ok=True)
            os.makedirs(os.path.dirname(self.name), exist_ok=True)
            self.part = os.path.join(unfinished, f"{os.path.basename(self.name)}.{uuid4().hex}")
            split = [each.name for each in table.schema if arrow.types.is_floating(each.type)]
            rest = [name for name in table.schema.names if name not in split]
            # numbers that lie close share their high bytes: a third of the space, and less time than a dictionary
            self.writer = load_extra("pyarrow.parquet", "parquet").ParquetWriter(
                self.part, table.schema, compression="zstd", use_dictionary=rest, use_byte_stream_split=split
            )
        self.writer.write_table(table)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.writer is None:
            return
        self.writer.close()
        if kind is None:
            os.replace(self.part, self.name)
        else:
            os.unlink(self.part)


def _arrow(arrow: Any, name: str, values: Any) -> Any:
    """A column of one type in every part: names as a dictionary, yes, no or unknown as that."""
    if isinstance(values, Codes):
        return arrow.DictionaryArray.from_arrays(arrow.array(values.codes.astype(np.int32)), list(values.names))
    if name in YES_NO:
        return arrow.array(values == 1, mask=values != values)
    return arrow.array(values)


def row_parts(folder: str, blocks: Sequence[RowBlock]) -> list[str]:
    """The files of rows, in order."""
    return [os.path.join(folder, "rows", f"part-{block.number:06}.parquet") for block in blocks]
