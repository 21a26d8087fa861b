"""A block reduced where its rows are made: the one function that a serial run and the workers of a cluster call.

Columns that a reduction looks at are worked out for all rows, a chunk at a time; the others only for rows that are
kept. Rows themselves, where they are asked for, are written as parquet by the worker that made them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from roofline.errors import RooflineError, load_extra
from roofline.frozen import dataclass, field
from roofline.grids.blocks import BlockTable, RowBlock
from roofline.grids.reductions import KeepRequest, State
from roofline.sizes import Codes

#: Why rows are in no reduction though they could be worked out.
MISFIT = "does not fit the memory"


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is kept of rows: the state of each reduction, how many rows were left out and why, and what was said."""

    states: Mapping[str, State] = field(default_factory=dict)
    rows: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    said: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def merged(self, other: Reduced, keep: KeepRequest) -> Reduced:
        """Both together; what was said first stays first."""
        states = dict(self.states or other.states)
        if self.states and other.states:
            states = {
                each.name: each.merged(self.states[each.name], other.states[each.name]) for each in keep.reductions
            }
        counts = dict(self.left_out)
        for reason, count in other.left_out.items():
            counts[reason] = counts.get(reason, 0) + count
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
        import numpy as np

        states: dict[str, State] = {}
        left_out: dict[str, int] = {}
        names = self._looked_at
        impossible = isinstance(prepared, str)
        if impossible:
            left_out[prepared] = block.stop - block.start
        said = {} if impossible else self.table.remarks(prepared, block.choice)
        with RowsFile(self, block) as file:
            for start, sizes in self.table.chunks(block):
                if impossible and not self.keep.rows:
                    break
                columns = self.table.flat(prepared, block.choice, sizes, names)
                rows = np.arange(start, start + len(next(iter(columns.values()))))
                file.write(columns)
                fine = _usable(columns, left_out) if not impossible else np.zeros(len(rows), bool)
                if not fine.all():
                    columns = {name: _chosen(values, fine) for name, values in columns.items()}
                    rows = rows[fine]
                for each in self.keep.reductions:
                    before = states.get(each.name)
                    found = each.reduced(columns, rows, before)
                    states[each.name] = found if before is None else each.merged(before, found)
        states = {name: self._with_columns(prepared, block, state) for name, state in states.items()}
        return Reduced(states, block.stop - block.start, left_out, said)

    @property
    def _looked_at(self) -> tuple[str, ...]:
        """Columns that are worked out for all rows."""
        fits = ("fits",) if "fits" in self.table.names else ()
        return self.table.names if self.keep.rows else tuple(dict.fromkeys((*self.keep.columns, *fits)))

    @property
    def _worked_out(self) -> tuple[str, ...]:
        """Columns that do not follow from the number of a choice: all of them for the rows that are kept."""
        import numpy as np

        labels = self.table.labels(np.zeros(0, np.int64))
        return tuple(name for name in self.table.names if name not in labels)

    def _with_columns(self, prepared: Any, block: RowBlock, state: State) -> State:
        """The rows that are kept, with the columns that no reduction looked at."""
        import numpy as np

        if "row" not in state:
            return state
        every = self._worked_out
        sizes = self.table.sizes_at(state["row"])
        if not len(state["row"]):
            found = {name: np.zeros(0) for name in every}
        else:
            found = self.table.flat(prepared, block.choice, sizes, every)
        return {**{name: _storable(values) for name, values in found.items()}, **state}


def _usable(columns: Mapping[str, Any], left_out: dict[str, int]) -> Any:
    """Which rows can be compared: those with numbers in all columns that fit the memory."""
    import numpy as np

    numbers = [values for values in columns.values() if not isinstance(values, Codes) and values.dtype.kind == "f"]
    fits = columns.get("fits")
    fine = np.ones(len(next(iter(columns.values()))), bool)
    for values in numbers:
        if values is not fits:
            fine &= values == values
    if not fine.all():
        left_out["not a number"] = left_out.get("not a number", 0) + int((~fine).sum())
    if fits is not None:
        small = fine & (fits == 0)
        if small.any():
            left_out[MISFIT] = left_out.get(MISFIT, 0) + int(small.sum())
            fine &= ~small
    return fine


def _chosen(values: Any, which: Any) -> Any:
    return Codes(values.codes[which], values.names) if isinstance(values, Codes) else values[which]


def _storable(values: Any) -> Any:
    """Names as text, others as they are."""
    import numpy as np

    return np.asarray(values.decode(), dtype=np.str_) if isinstance(values, Codes) else values


class RowsFile:
    """The rows of a block as a parquet file, which gets its name once it is whole; nothing where none are asked for."""

    def __init__(self, work: Reducing, block: RowBlock) -> None:
        self.work, self.block = work, block
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
        table = arrow.table({name: _arrow(arrow, name, columns[name]) for name in self.work.table.names})
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
    """A column of one type in every part: names as a dictionary, ``fits`` as yes, no or unknown."""
    import numpy as np

    if isinstance(values, Codes):
        return arrow.DictionaryArray.from_arrays(arrow.array(values.codes.astype(np.int32)), list(values.names))
    if name == "fits":
        return arrow.array(values == 1, mask=values != values)
    return arrow.array(values)


def row_parts(folder: str, blocks: Sequence[RowBlock]) -> list[str]:
    """The files of rows, in order."""
    return [os.path.join(folder, "rows", f"part-{block.number:06}.parquet") for block in blocks]
