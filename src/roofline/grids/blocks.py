"""A grid of rows in blocks: choices times axes, the last axis fastest; each block is a part of every axis.

>>> list(cut((3, 5), 10))
[((0, 2), (0, 5)), ((2, 3), (0, 5))]
>>> list(cut((2, 25), 10))[:3]
[((0, 1), (0, 9)), ((0, 1), (9, 18)), ((0, 1), (18, 25))]

Rows of a block follow each other, so a row is known by its number alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from roofline.frozen import NamedTuple
from roofline.sizes import Codes

#: Rows of a block where nothing is said: a task of about a second, which no scheduler is busy with.
BLOCK_ROWS = 10_000_000

#: Rows of a block worked out at once: some ten megabytes of columns.
CHUNK_ROWS = 2**17

#: A part of each axis: from where to where.
Ranges = tuple[tuple[int, int], ...]


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

    @abstractmethod
    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> Any:
        """What the rows of a choice are worked out with; it is made once and travels to other workers.

        ``groups`` are the sets of columns that :meth:`evaluated` will be asked for.
        """

    @abstractmethod
    def evaluated(
        self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str]
    ) -> Mapping[str, Any]:
        """Columns of a choice at sizes that broadcast, in their shape; NaN where the choice is not possible."""

    @abstractmethod
    def labels(self, choices: Any) -> dict[str, Any]:
        """Columns that follow from the number of the choice in each row."""

    def remarks(self, prepared: Any, choice: int) -> dict[str, tuple[str, ...]]:
        """What is assumed and not timed in the rows of a choice."""
        return {}

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
        import numpy as np

        index = np.asarray(rows)
        found = {}
        for name, values in reversed(list(self.axes.items())):
            found[name] = values[index % len(values)]
            index = index // len(values)
        return dict(reversed(found.items()))

    def labels_at(self, rows: Any) -> dict[str, Any]:
        """Choices and sizes of some rows, as columns."""
        import numpy as np

        return {**self.labels(np.asarray(rows) // prod(self.shape)), **self.sizes_at(rows)}

    def flat(self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Columns at sizes that broadcast, in one dimension."""
        import numpy as np

        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))

        def one(column: Any) -> Any:
            if isinstance(column, Codes):
                return Codes(np.broadcast_to(column.codes, shape).reshape(-1), column.names)
            return np.broadcast_to(np.asarray(column), shape).reshape(-1)

        own = {**self.labels(np.full((), choice)), **sizes}
        rest = tuple(name for name in names if name not in own)
        found = self.evaluated(prepared, choice, sizes, rest) if rest else {}
        return {name: one(own[name] if name in own else found[name]) for name in names}


def cut(shape: Sequence[int], most: int) -> Iterator[Ranges]:
    """Cut an array of this shape into parts of about equal size and at most ``most`` entries that follow each other."""
    inner, split = 1, len(shape)
    while split and inner * shape[split - 1] <= most:
        split -= 1
        inner *= shape[split]
    rest = tuple((0, size) for size in shape[split:])
    if not split:
        yield rest
        return
    length = shape[split - 1]
    pieces = -(-length // max(most // inner, 1))
    step = -(-length // pieces)
    for outer in product(*(range(size) for size in shape[: split - 1])):
        for start in range(0, length, step):
            yield (*((i, i + 1) for i in outer), (start, min(start + step, length)), *rest)
