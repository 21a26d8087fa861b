"""Answers side by side at several sizes: a row a batch or a context, a column an answer, the best of each row marked.

>>> from roofline import llm
>>> found = llm("llama-3-8b", on="h100,h200", batch=[1, 64], context=8192)
>>> found.names, [dict(sizes) for sizes in found.sizes], [each.fastest for each in found.each]
(('h100', 'h200'), [{'batch': 1}, {'batch': 64}], ['h200', 'h200'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from roofline.answers import Answer
from roofline.bounds.comparison import MARK, TIMES_THE_LEAST, SideBySide, fact_row
from roofline.errors import InputError
from roofline.frozen import dataclass
from roofline.sections import BLANK, Amount, Cell, Column, Headline, Row, Section, Sentences, Table, Words, figures

#: What is said of data that are more than the memory.
NO_ROOM = "does not fit"

#: The most sizes at which answers are put side by side: each is asked by itself.
MOST_SIZES = 64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SideBySideBySize(Answer):
    """The same answers side by side at several ``sizes``: ``each`` is the comparison at one of them."""

    sizes: tuple[Mapping[str, int], ...]
    each: tuple[SideBySide, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Who stands side by side."""
        return self.each[0].names

    @property
    def subject(self) -> str:
        """What the answers are about."""
        return self.each[0].subject

    def explain(self) -> str:
        """The arithmetic of each answer at each size, and where its figures come from."""
        sizes = zip(self.sizes, self.each, strict=True)
        return "\n\n".join(f"{_named(size)}\n\n{one.explain()}" for size, one in sizes)

    def one_line(self) -> str:
        """Who stands side by side, and at how many sizes."""
        return f"SideBySideBySize: {', '.join(self.names)} at {len(self.sizes)} sizes"

    def sections(self) -> Iterator[Section]:
        """Who is fastest at which sizes; a table for each figure that they change: a row a size, a column an answer."""
        yield Headline(self.subject, "side by side")
        yield BLANK
        yield Sentences(self._verdict())
        for name in self._shown():
            yield from (BLANK, Sentences([name], "strong"), self._table(name))
            if name == self.each[0].headline and all(one.ranked and one.is_one_work for one in self.each):
                rows = [self._row(sizes, one.ratio_cells()) for sizes, one in zip(self.sizes, self.each, strict=True)]
                yield from (
                    BLANK,
                    Sentences([TIMES_THE_LEAST], "strong"),
                    Table(self._columns(), rows, TIMES_THE_LEAST),
                )
        floors = "; times at best are floors" if self.each[0].answers[0].is_floor else ""
        fits = all(fits for one in self.each for fits in one.fitting)
        room = "" if fits else f"; {NO_ROOM}: of a chip with room enough"
        yield Sentences([f"{MARK} best of its row{floors}{room}"], "quiet")
        yield BLANK
        yield from self.each[0].assumption_sections()

    def _verdict(self) -> list[str]:
        """Who has the lowest floor, from which size on: in runs of sizes, and where nothing fits."""
        runs = [
            list(run) for _, run in groupby(zip(map(_lead, self.each), self.sizes, strict=True), lambda pair: pair[0])
        ]
        said = []
        for run in runs:
            first, last = _named(run[0][1]), _named(run[-1][1])
            where = "" if len(runs) == 1 else f" at {first}" if first == last else f" from {first} to {last}"
            said.append(run[0][0] + where)
        return said

    def _shown(self) -> list[str]:
        """The facts of which more or less is better and that the sizes change, the headline first."""
        kept: dict[Any, str] = {}
        for name in self.each[0].facts:
            facts = [one.facts.get(name, ()) for one in self.each]
            better = any(fact is not None and fact.better for found in facts for fact in found)
            values = tuple(tuple(fact and fact.value for fact in found) for found in facts)
            if name == self.each[0].headline or (better and len(set(values)) > 1):
                kept.setdefault(values, name)  # what says the same again, as a rate of the only chip, stands once
        return list(kept.values())

    def _table(self, name: str) -> Table:
        """A fact at each size; where data do not fit, that of a chip with room enough is said to be so."""
        rows = []
        for sizes, one in zip(self.sizes, self.each, strict=True):
            facts = one.facts.get(name, (None,) * len(self.names))
            is_room = any(fact is not None and fact.unit == "B" for fact in facts)
            shown = [fits or is_room for fits in one.fitting]
            kept = [fact if here else None for fact, here in zip(facts, shown, strict=True)]
            best = fact_row(self.names, name, kept, one.partial.get(name, ())).cells[1:]
            other = fact_row(("",) * len(facts), name, facts, one.partial.get(name, ()))
            cells = zip(best, other.cells[1:], shown, strict=True)
            rows.append(self._row(sizes, [cell if here else _without_room(other) for cell, other, here in cells]))
        return Table(self._columns(), rows, name)

    def _columns(self) -> tuple[Column, ...]:
        return (*figures(*self.sizes[0]), *(Column(who, "right", wrap="words") for who in self.names))

    def _row(self, sizes: Mapping[str, int], cells: Sequence[Cell]) -> Row:
        return Row((*(Amount(value, "", f"{value:,}") for value in sizes.values()), *cells))

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """A row a size and an answer: the sizes, then the columns of answers side by side.

        >>> from roofline import llm
        >>> frame = llm("llama-3-8b", on="h100", kv="bf16,fp8", batch=[1, 8], context=8192).to_pandas()
        >>> frame["batch"].tolist(), frame["on"].tolist()[:2]
        ([1, 1, 8, 8], ['h100 kv bf16', 'h100 kv fp8'])
        """
        tables = [one.plain_table(table) for one in self.each]
        rows = [
            [*sizes.values(), *row] for sizes, (_, found, _) in zip(self.sizes, tables, strict=True) for row in found
        ]
        return [*self.sizes[0], *tables[0][0]], rows, tables[0][2]

    def to_dict(self) -> dict[str, Any]:
        """The comparison at each size (schema ``roofline/comparison-by-size/1``)."""
        return {
            "schema": "roofline/comparison-by-size/1",
            "names": list(self.names),
            "sizes": {name: [each[name] for each in self.sizes] for name in self.sizes[0]},
            "comparisons": [each.to_dict() for each in self.each],
        }


def _lead(one: SideBySide) -> str:
    """Who has the lowest floor of those that it fits on."""
    if not any(one.fitting):
        return "nothing fits"
    if one.is_even:
        return one.even_in_words()
    return "no time is known" if one.fastest is None else f"{one.fastest} has the lowest floor"


def _without_room(cell: Cell) -> Cell:
    """A figure of data that do not fit: that of a chip with room enough, where there is one."""
    return (
        Amount(cell.value, cell.unit, f"{NO_ROOM}: {cell}".rstrip(MARK)) if isinstance(cell, Amount) else Words(NO_ROOM)
    )


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in sizes.items())


def beside_at_sizes(sizes: Sequence[Mapping[str, int]], ask: Callable[[Mapping[str, int]], Any]) -> SideBySideBySize:
    """Ask for the answers side by side at each of several sizes."""
    if len(sizes) > MOST_SIZES:
        hint = "sweep takes several machines, formats and millions of sizes, and draws them"
        raise InputError(f"answers side by side take up to {MOST_SIZES} sizes, not {len(sizes):,}", hint=hint)
    return SideBySideBySize(tuple(sizes), tuple(map(ask, sizes)))
