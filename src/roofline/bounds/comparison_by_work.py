"""Several models, or amounts of bytes, on several machines side by side: a row an answer, ranked within its work.

>>> from roofline import llm
>>> found = llm("llama-3-8b,llama-3-70b", on="h100:8,h200:8", tensor=8, context=8192)
>>> {work: part.fastest for work, part in found.parts.items()}
{'llama-3-8b': 'h200:8', 'llama-3-70b': 'h200:8'}
>>> found.best("a token at best")
('h200:8 llama-3-8b', 'h200:8 llama-3-70b')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from roofline.bounds.comparison import FACTS, TIMES_THE_LEAST, SideBySide
from roofline.frozen import dataclass, once
from roofline.quantity import in_a_row
from roofline.sections import BLANK, Cell, Column, Row, Section, Sentences, Table

#: The table of what the machines have, whatever the work.
MACHINES = "machines"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SideBySideByWork(SideBySide):
    """Answers about several ``works``, one an answer; ``places`` name each among those about its work."""

    works: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    @once
    def parts(self) -> dict[str, SideBySide]:
        """The answers about each work side by side."""
        each = {work: _positions(self.works, work) for work in self.works}
        return {
            work: SideBySide(
                tuple(self.places[at] for at in own),
                tuple(self.answers[at] for at in own),
                tuple(self.break_evens[at] for at in own) if self.break_evens else (),
                tuple(self.ways[at] for at in own) if self.ways else (),
            )
            for work, own in each.items()
        }

    @property
    def kind(self) -> str:
        """What kind of work they are about, in a word."""
        return "model" if all(hasattr(answer, "model") for answer in self.answers) else "bytes"

    @property
    def best_of_its(self) -> str:
        """What a mark says, in words."""
        return f"best of its {self.kind}"

    def best(self, name: str) -> tuple[str, ...]:
        """Names of the answers that are best about their work in one of :attr:`facts`."""
        SideBySide.best(self, name)  # refuses a fact that no answer has
        found = self._each(lambda part: [who in part.best(name) if name in part.facts else False for who in part.names])
        return tuple(who for who, is_best in zip(self.names, found, strict=True) if is_best)

    @property
    def is_one_work(self) -> bool:
        """Whether some are about the same work: their times rank these."""
        return any(len(part.answers) > 1 for part in self.parts.values())

    @property
    def fastest(self) -> None:
        """None: each work has its own, ``parts[work].fastest``."""

    @property
    def is_even(self) -> bool:
        """Whether the headline says the same of all about each work."""
        return all(part.is_even for part in self.parts.values())

    @property
    def times_the_best(self) -> list[float | None]:
        """How many times the least time about its work each takes; None where it has no such figure."""
        return self._each(lambda part: part.times_the_best or [None] * len(part.names))

    def ratio_cells(self) -> list[Cell]:
        """How many times the least about its work each takes, the least marked."""
        return self._each(lambda part: part.ratio_cells() if part.ranked else [""] * len(part.names))

    def _each(self, of: Callable[[SideBySide], Iterable[Any]]) -> list[Any]:
        """What is said of the answers of each part, in the order of all."""
        found = {
            at: said
            for work, part in self.parts.items()
            for at, said in zip(_positions(self.works, work), of(part), strict=True)
        }
        return [found[at] for at in range(len(self.names))]

    def of_each_policy(self) -> Iterator[tuple[str, SideBySide]]:
        """The answers about each work, by byte policy where there are several; an answer alone ranks none."""
        for work, part in self.parts.items():
            if len(part.names) > 1:
                yield from ((f"{work}: {by}", one) for by, one in part.of_each_policy())

    def verdicts(self) -> list[str]:
        """Who has the best of the headline about each work, once for works of which the same is said."""
        return self._said_once(SideBySide.verdicts)

    def _said_once(self, of: Callable[[SideBySide], Iterable[str]]) -> list[str]:
        """What is said of each work that several answers are about, once for works of which the same is said."""
        found: dict[str, list[str]] = {}
        for work, part in self.parts.items():
            for said in of(part) if len(part.names) > 1 else ():
                found.setdefault(said, []).append(work)
        all_of_them = f"all {len(self.parts)} {'models' if self.kind == 'model' else 'amounts'}"
        every = len(self.parts) if len(self.parts) > 2 else 0
        return [f"{all_of_them if len(at) == every else in_a_row(at)}: {said}" for said, at in found.items()]

    def cheapest(self) -> Iterator[str]:
        """Where each work costs least."""
        for work, part in self.parts.items():
            yield from (f"{work}: {said}" for said in part.cheapest())

    @property
    def machines(self) -> tuple[str, ...]:
        """What each is on."""
        return self.places

    def works_as_data(self) -> dict[str, list[Any]]:
        """What each answer is about."""
        return SideBySide.works_as_data(self) or {self.kind: list(self.works)}

    @property
    def lead(self) -> str:
        """Who has the best of the headline about each work, in words."""
        return "; ".join(
            self._said_once(lambda part: [f"{by}{one.lead}" for by, one in part.of_each_policy() if one.fastest])
        )

    def fact_tables(self) -> Iterator[Section]:
        """A row an answer, those about one work below each other; what machines have, and what is the same of all."""
        cells = self.fact_cells()
        if self.all_by_room and not all(self.fitting):
            cells["fits"] = ["yes" if fits else "no" for fits in self.fitting]
        kept = (self.headline, TIMES_THE_LEAST)
        alike = {name: each for name, each in cells.items() if name not in kept and len({*map(str, each)}) == 1}
        of_place = {n: each for n, each in cells.items() if n not in (*kept, *alike) and self._is_of_place(n, each)}
        own = {name: each for name, each in cells.items() if name not in alike and name not in of_place}
        order = [at for work in self.parts for at in _positions(self.works, work)]
        rows = [Row((self.works[at], self.places[at], *(each[at] for each in own.values()))) for at in order]
        heads = (Column(self.kind), Column("on"))
        yield Table((*heads, *(Column(name, "right", "words") for name in own)), rows, FACTS)
        if of_place:
            there = dict.fromkeys(self.places)
            rows = [Row((place, *(self._there(place, each) for each in of_place.values()))) for place in there]
            yield from (BLANK, Sentences([f"the same whatever the {self.kind}"], "quiet"))
            yield Table((Column("on"), *(Column(name, "right", "words") for name in of_place)), rows, MACHINES)
            yield BLANK
        if alike:
            said = ", ".join(f"{name} {each[0]}" for name, each in alike.items())
            yield Sentences([f"the same of all: {said}"], "quiet")

    def _is_of_place(self, name: str, cells: Sequence[Cell]) -> bool:
        """Whether a fact is the same for all works on a machine, and several run there.

        The rate of a format is so too where works of other formats lack it.
        """
        is_rate = any(fact is not None and fact.unit in ("FLOP/s", "B/s") for fact in self.facts.get(name, ()))
        said: dict[str, list[str]] = {}
        for place, cell in zip(self.places, cells, strict=True):
            said.setdefault(place, []).append(str(cell))
        return all(len(each) > 1 and len({*each} - ({""} if is_rate else set())) <= 1 for each in said.values())

    def _there(self, place: str, cells: Sequence[Cell]) -> Cell:
        """A fact of a machine, by the works that have it."""
        found = [cell for where, cell in zip(self.places, cells, strict=True) if where == place]
        return next((cell for cell in found if str(cell)), "")

    def operation_sections(self) -> Iterator[Section]:
        """None, and of which answers they stand side by side."""
        if any(answer.steps() for answer in self.answers):
            yield Sentences([f"one {self.kind} at a time has its operations side by side"], "quiet")

    def assuming(self) -> dict[str, Sequence[int]]:
        """Those about one work together, then those on one machine, then each by itself."""
        found = {work: _positions(self.works, work) for work in self.works}
        found |= {place: _positions(self.places, place) for place in self.places}
        return {**found, **SideBySide.assuming(self)}


def beside_by_work(found: SideBySide, works: Sequence[str], places: Sequence[str]) -> SideBySide:
    """The same answers by the work that they are about, where there are several works and machines or formats."""
    is_several = len({*works}) > 1 and (len({*places}) > 1 or not all(hasattr(each, "model") for each in found.answers))
    if not is_several:
        return found
    return SideBySideByWork(found.names, found.answers, works=tuple(works), places=tuple(places))


def _positions(names: Sequence[str], wanted: str) -> list[int]:
    return [at for at, name in enumerate(names) if name == wanted]
