"""Answers side by side: what each says about the same thing, in one row, the best marked.

>>> from roofline import bound, llm, train
>>> line = dict(B=64, D=8192, F=8192)
>>> found = compare(*(bound("bf16[B, D] * bf16[D, F]", on=chip, **line) for chip in ("a100", "h100")))
>>> found.fastest, [round(times, 2) for times in found.times_the_best]
('h100', [1.64, 1.0])
>>> round(found.ratio("at best"), 2), round(found.change("attainable"), 2)
(1.64, -0.39)

At several sizes there is a row a batch or a context, a column an answer, the best of each row marked:

>>> found = llm("llama-3-8b", on="h100,h200", batch=[1, 64], context=8192)
>>> found.names, [dict(sizes) for sizes in found.sizes], [each.fastest for each in found.each]
(('h100', 'h200'), [{'batch': 1}, {'batch': 64}], ['h200', 'h200'])

Why one of several answers about the same chip takes longer than another: what takes how long, and what decides.

>>> a, b = (train("llama-3-8b", on="h100:8", fsdp=8 // n, tensor=n, batch_tokens="1M") for n in (1, 8))
>>> [(fact.name, round(fact.value, 2)) for fact in resource_facts(b) if fact.is_shown][:2]
[('time on tensor', 6.16), ('time on nvlink', 5.16)]
>>> why_slower_in_turn((a, a.bound), (b, b.bound), "tensor too")
'time on nvlink is 1.43 s, and 5.16 s of tensor too'

How long a hop of an unknown latency may take before it changes which of several answers is the best.

>>> found = llm("llama-3-70b", on="h100:8,mi300x:8", tensor=8, batch=64, context=8192)
>>> [f"{at['a token at best'] * 1e6:.0f} us" for at in found.break_evens if at]
['72 us']

Several models, or amounts of bytes, on several machines side by side: a row an answer, ranked within its work.

>>> found = llm("llama-3-8b,llama-3-70b", on="h100:8,h200:8", tensor=8, context=8192)
>>> {work: part.fastest for work, part in found.parts.items()}
{'llama-3-8b': 'h200:8', 'llama-3-70b': 'h200:8'}
>>> found.best("a token at best")
('h200:8 llama-3-8b', 'h200:8 llama-3-70b')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import groupby, product
from typing import Any

from roofline.answers import (
    AS_EXPECTED,
    COST_OF_FORM,
    NAMES_AS_DATA,
    OPERATIONS,
    TIMES,
    Answer,
    AnswerName,
    Comparable,
    Fact,
    Obstacle,
    attributes,
    numbered,
    plain_data,
    plain_table,
)
from roofline.bounds.bound import ALL_IN_TURN, KERNELS_IN_TURN, fusing_in_words, named_place, unfused_in_words
from roofline.bounds.cost import BY_FORM
from roofline.errors import InputError, RooflineError, check_one_of, suggest
from roofline.frozen import NamedTuple, dataclass, once, replace
from roofline.hardware.figures import told_apart
from roofline.hardware.machine import Machine
from roofline.quantity import (
    EQUAL,
    UNITS,
    format_amount,
    format_count,
    format_number,
    format_percent,
    format_quantity,
    format_range,
    format_times,
    in_a_row,
)
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Listing,
    Row,
    Section,
    Sentences,
    Table,
    Words,
    YesNo,
    figures,
    incomplete,
)
from roofline.signatures import call, either, spelled, takes
from roofline.sizes import grouped, is_array, is_number, sums_by_name
from roofline.statements import LEAST, MOST, untimed_apart, untimed_parts, without

#: Marks the best of a row.
MARK = "*"

#: The figures of the headline over the least of them.
TIMES_THE_LEAST = "times the least"

#: The table of what answers say, by name.
FACTS = "comparison"

#: The kind of fact that the rate that binds is, its words, and what the fastest of as much of it does.
_RATES = {
    "compute-bound": ("matrix", "", "computes the least", "compute the least"),
    "memory-bound": ("main", "memory bandwidth", "moves the fewest bytes", "move the fewest bytes"),
}

#: Times where less overlaps than at best, as data: they tell apart what has the same floor.
_LESS_OVERLAPS = {"op_by_op": "op by op", "upper": "at worst"}

#: What is asked that the subject and the machine of an answer say, or that follows from the rest.
_SAID_ELSEWHERE = ("text", "on", "set", "unit", "over", "achievable", "measured", "as_fits")

#: The least share of operations that answers have in common whose operations stand side by side.
FEWEST_SHARED = 0.25

#: Operations of a phase that are shown, and letters of several subjects that are named.
SHOWN, LONGEST_SUBJECT = 16, 60

#: Answers that one line names, and of which each that cannot be run says what could.
FEW = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SideBySide(Answer):
    """Several answers, named; ``rows`` align what they say by name.

    ``break_evens`` are of each answer that lacks the latency of a hop, by the name of a fact: the latency, in seconds,
    up to which it is better than the best of those timed whole; ``ways`` by which algorithms, and in how many hops.
    """

    names: tuple[str, ...]
    answers: tuple[Any, ...]
    break_evens: tuple[Mapping[str, float], ...] = ()
    ways: tuple[Mapping[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.answers)

    def __getitem__(self, which: int | str) -> Any:
        """An answer by its name or its place.

        >>> from roofline import llm
        >>> both = llm("llama-3-8b", on="h100,h200", context=8192)
        >>> both["h200"].decode.lower == both[1].decode.lower < both[0].decode.lower
        True
        """
        if isinstance(which, int):
            return self.answers[which]
        check_one_of(f"no answer {which!r}", str(which), self.names, "names")
        return self.answers[self.names.index(which)]

    @once
    def facts(self) -> dict[str, tuple[Fact | None, ...]]:
        """Each fact by its name, one an answer; None where an answer does not have it.

        What follows from a time has no value where some of the work has no rate there: see :attr:`partial`.
        """
        pairs = zip(self.answers, self.untimed, strict=True)
        said = (
            [f._replace(value=None) if gaps and f.timed else f for f in self._said(answer)] for answer, gaps in pairs
        )
        every = aligned(list(said)).items()
        return {name: facts for name, facts in every if not all(fact is None or fact.is_usual for fact in facts)}

    def _said(self, answer: Comparable) -> list[Fact]:
        """What an answer says; behind what binds it the time on each resource, where all are of one kind of chip."""
        found = list(answer.facts())
        behind = max((at for at, fact in enumerate(found, 1) if fact.kind == "binds"), default=len(found))
        found[behind:behind] = resource_facts(answer) if self.is_one_chip else ()
        return found

    @property
    def is_one_chip(self) -> bool:
        """Whether all answers are of one kind of chip, whose resources have the same names."""
        machines = list(map(_machine, self.answers))
        return (
            self.is_one_work
            and len(machines) > 1
            and None not in machines
            and len({each.name for each in machines}) == 1
        )

    @once
    def partial(self) -> dict[str, tuple[Fact | None, ...]]:
        """What follows from the time of a part of the work, by name: times that are that or more, rates that or less.

        None where all of the work is timed.
        """
        pairs = list(zip(self.answers, self.untimed, strict=True))
        return aligned([[each for each in self._said(answer) if gaps and each.timed] for answer, gaps in pairs])

    @once
    def untimed(self) -> list[list[str]]:
        """Of each answer what its machine has no rate or latency for: times without it are of a part of the work.

        None of any where all lack the same of the same machine: that adds as much to each, and their order stands.
        """
        return untimed_apart(self._gaps)

    @property
    def untimed_alike(self) -> Sequence[str]:
        """What is not timed of any answer, where that is the same of all of several."""
        return () if any(self.untimed) else untimed_parts(self._gaps[0])

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What is not timed of any of them."""
        return tuple(dict.fromkeys(line for gaps in self._gaps for line in gaps))

    @property
    def _gaps(self) -> list[Sequence[str]]:
        return [getattr(answer, "incomplete", ()) for answer in self.answers]

    def best(self, name: str) -> tuple[str, ...]:
        """Names of the answers that are best in one of :attr:`facts`; none where no value is better, or all are equal.

        None too where an answer that is not timed whole may be better. What cannot be run is best in no time and in
        nothing that follows from one, unless none of the answers can.

        >>> from roofline import llm
        >>> llm("llama-3-8b", on="h100,h200", context=8192).best("a token at best")
        ('h200',)
        """
        facts = self.facts
        check_one_of(f"no fact {name!r}", name, facts, "facts")
        return () if self.may_be_beaten(name) else best_of(self.names, self._in_the_running(facts[name]))

    def _in_the_running(self, facts: Sequence[Fact | None]) -> tuple[Fact | None, ...]:
        """A fact with words where it follows from a time of what is timed in part, or cannot be run as others can."""
        out = [obstacle.said if obstacle and any(self.fitting) else "" for obstacle in self.obstacles]
        out = [gaps[0] if gaps else each for each, gaps in zip(out, self.untimed, strict=True)]
        pairs = zip(facts, out, strict=True)
        return tuple(
            fact._replace(value=each)
            if each and fact and fact.timed and (fact.value is not None or self._has_part(fact.name))
            else fact
            for fact, each in pairs
        )

    def _has_part(self, name: str) -> bool:
        """Whether some answer has a figure of a fact for the part of its work that is timed."""
        return any(part is not None and part.value is not None for part in self.partial.get(name, ()))

    def explain(self) -> str:
        """The arithmetic of each answer, and where its figures come from."""
        silent = next((each for each in self.answers if not hasattr(each, "explain")), None)
        if silent is not None:
            explain = either("--explain", "explain()")
            raise InputError(f"{explain} says nothing of this answer", hint="it is of steps and operations on a chip")
        return "\n\n".join(f"{who}\n\n{each.explain()}" for who, each in zip(self.names, self.answers, strict=True))

    @property
    def headline(self) -> str:
        """The fact that answers are ranked by: the first, which is a time where the answers are bounds."""
        return next(iter(self.facts))

    @property
    def ranked(self) -> tuple[float | None, ...]:
        """The figures of the headline, one an answer; none where no value of it is better than another."""
        facts = self.facts[self.headline]
        values = tuple(None if f is None or not is_number(f.value) else float(f.value) for f in facts)
        return values if any(f and f.better for f in facts) and values != (None,) * len(values) else ()

    @property
    def fitting(self) -> list[bool]:
        """Whether each answer's data fit and it can be run, or nobody knows."""
        return [each is None for each in self.obstacles]

    @property
    def contending(self) -> list[bool]:
        """Whether each is ranked: what can be run is, and what cannot where none can."""
        return [fits or not any(self.fitting) for fits in self.fitting]

    @once
    def obstacles(self) -> list[Obstacle | None]:
        """Why each cannot be run; None where it can."""
        return [answer.obstacle for answer in self.answers]

    @property
    def all_by_room(self) -> bool:
        """Whether what cannot be run lacks memory alone."""
        return all(each is None or each.verb == "fit" for each in self.obstacles)

    @property
    def _whose(self) -> str:
        """Those that are ranked where others cannot be run, in words."""
        return " that it fits on" if self.all_by_room else " that run"

    @property
    def _where_none_can(self) -> str:
        """That none can be run, behind who would be best, in words."""
        return "" if any(self.fitting) else f", if it {'fitted' if self.all_by_room else 'ran'}"

    @property
    def fastest(self) -> str | None:
        """Name of the best in the headline of those that can be run; of all where none can; None: nothing to rank.

        It is the best of those timed whole: :attr:`untimed` are not ranked, and one of them may be better.
        """
        found = zip(self.names, self.ranked, self.fitting, strict=True) if self.ranked else ()
        times = [(not fits, -value if self._more else value, who) for who, value, fits in found if value is not None]
        return min(times, key=lambda each: each[:2])[2] if times else None

    @property
    def is_even(self) -> bool:
        """Whether the headline says the same of all that are ranked: of those that can be run, where any can."""
        found = zip(self.ranked, self.contending, strict=True) if self.ranked else ()
        values = [value for value, contends in found if value is not None and contends]
        return len(values) > 1 and max(values) - min(values) <= EQUAL * max(values)

    @property
    def times_the_best(self) -> list[float | None]:
        """How many times the least time of those that can be run each takes; None where it has no such figure."""
        least = self._least
        return [None if time is None or least is None else _times(time, least) for time in self.ranked]

    @property
    def _least(self) -> float | None:
        """The least figure of the headline of those that can be run, or of all where none can."""
        said = self._in_the_running(self.facts[self.headline]) if self.ranked else ()
        return min((float(fact.value) for fact in said if fact is not None and is_number(fact.value)), default=None)

    @property
    def _more(self) -> bool:
        """Whether more of the headline is better."""
        return any(fact is not None and fact.better == "more" for fact in self.facts[self.headline])

    @property
    def ratios(self) -> dict[str, tuple[float | None, ...]]:
        """Each figure of the answers over the last one's; None where it is none, or is 0."""
        numbers = {name: facts for name, facts in self.facts.items() if any(f and is_number(f.value) for f in facts)}
        return {name: tuple(_over(fact, facts[-1]) for fact in facts) for name, facts in numbers.items()}

    def ratio(self, name: str, of: int = 0, to: int = -1) -> float:
        """A figure of one answer over that of another: of the first over the last where none is named.

        ``name`` is that of a fact, or of a number that the answers have: ``at best``, ``flops``, ``comms``.
        """
        return self._figure(name, of) / self._figure(name, to)

    def change(self, name: str, of: int = 0, to: int = -1) -> float:
        """By how much of the other's figure it is more: the ratio less 1."""
        return self.ratio(name, of, to) - 1

    def _figure(self, name: str, at: int) -> float:
        if not -len(self.answers) <= at < len(self.answers):
            raise InputError(f"there is no answer {at}", hint=f"there are {len(self.answers)}, the first is 0")
        fact = self.facts[name][at] if name in self.facts else None
        value: Any = getattr(self.answers[at], name, None) if name not in self.facts else fact and fact.value
        if not is_number(value):
            hint = suggest(name, list(self.ratios), what="figures of these answers")
            raise InputError(f"{self.names[at]} has no figure {name!r}", hint=hint)
        return float(value)

    def one_line(self) -> str:
        """Who is fastest, on what it does not fit, and who is not ranked; many are counted."""
        out: dict[str, list[str]] = {}
        for who, obstacle, decided in zip(self.names, self.obstacles, self.decided, strict=True):
            if obstacle:
                out.setdefault(f"{obstacle.said.upper()} on ", []).append(who)
            if not decided:
                out.setdefault("NOT RANKED: ", []).append(who)
        ranks = self.ranked and not self.is_even and len(set(self.policies)) == 1
        first = f"{self.lead} of " if ranks else ""
        said = [f"{first}{_few(self.names)}", *(f"{each}{_few(names)}" for each, names in out.items())]
        return f"SideBySide: {'; '.join(said)}"

    @property
    def subject(self) -> str:
        """What the answers are about; where that is long, of each name the word that tells it apart."""
        several: dict[str, list[str]] = {}
        for name, answer in zip(self.names, self.answers, strict=True):
            several.setdefault(answer.subject, name.split())
        said = ", ".join(several)
        if len(several) == 1 or len(said) <= LONGEST_SUBJECT:
            return said
        shared = set.intersection(*map(set, several.values()))
        apart = [" ".join(word for word in words if word not in shared) for words in several.values()]
        short = ", ".join(apart)
        are_words = all(re.fullmatch(r"\w[\w.-]*", each) for each in apart) and len(short) <= LONGEST_SUBJECT
        return short if are_words else f"{len(several)} questions"

    @property
    def is_one_work(self) -> bool:
        """Whether the answers are about as much arithmetic, so that their times rank them."""
        return len({getattr(each, "model_flops", getattr(each, "flops", None)) for each in self.answers}) == 1

    def sections(self, *, operations: bool = True) -> Iterator[Section]:
        """What does not fit; the fastest; a row a fact, a column an answer; the same of the ``operations``.

        Of one traced program its modules stand before the facts, as on a command line.
        """
        if operations and (program := self.program) is not None:
            yield from program.sections_beside(self)
            return
        yield Headline(self.subject, ", ".join([*asked_of_all(self.answers), "side by side"]))
        yield BLANK
        for who, answer, obstacle in zip(self.names, self.answers, self.obstacles, strict=True):
            if obstacle is not None:
                instead = None if len(self.answers) > FEW else getattr(answer, "fitting", lambda: None)()
                yield Sentences([answer.obstacle_in_words(instead, who)], "alert")
            remarks = (answer.idle_copies(), answer.off_its_unit())
            yield Sentences([f"{who}: {remark}" for remark in remarks if remark])
        if len(self.answers) > FEW and any(self.obstacles):
            yield Sentences(["ask about one alone, and its answer says what would fit instead"], "quiet")
        yield from self.not_ranked()
        ranks = bool(self.ranked) and self.is_one_work
        verdicts = [*self.verdicts(), *self.cheapest(), *self._without_price()] if ranks else []
        alone = {answer.weights_alone() for answer in self.answers}
        verdicts += alone if len(alone) == 1 and "" not in alone else []
        verdicts += self._unlike() if ranks else []
        verdicts += self._unfused() if ranks else []
        if verdicts:
            yield Sentences(verdicts)
        yield from self.timed_in_part()
        if verdicts or any(self.untimed):
            yield BLANK
        yield from self.fact_tables()
        said = [
            f"{MARK} {self.best_of_its}" * (self.is_one_work and any(map(self.best, self.facts))),
            "times at best are floors" * self.answers[0].is_floor,
            f"{LEAST}, {MOST}: by the part of the work that is timed" * any(self.untimed),
            INTERVAL_IN_WORDS * has_interval(self.facts),
            GAINS_IN_WORDS * any(f is not None and f.unit == TIMES for facts in self.facts.values() for f in facts),
            *dict.fromkeys(answer.facts_at() for answer in self.answers),
        ]
        if any(said):
            yield Sentences(["; ".join(filter(None, said))], "quiet")
        if operations:
            yield from self.operation_sections()
        yield BLANK
        yield from self.assumption_sections(("fit", "alike"))

    def _unfused(self) -> list[str]:
        """What the times of one traced program take for granted of memory; nothing beside other byte policies."""
        policies = {answer.request.get("policy", "each-op") for answer in self.answers} if self.program else set()
        found = dict(zip(self.names, self.answers, strict=True))
        return unfused_in_words(dict([*found.items()][:FEW])) if len(policies) == 1 else []

    def _unlike(self) -> Iterator[str]:
        """What differs between answers because it was chosen for some of them so that these fit."""
        for name in dict.fromkeys(filter(None, (answer.made_to_fit() for answer in self.answers))):
            values = dict.fromkeys(format_amount(fact.value) for fact in self.facts[name] if fact is not None)
            if len(values) > 1:
                chosen = "none were given, and each has the fewest that fit"
                yield f"not alike: {name} {in_a_row([*values])}, as {chosen}; {spelled(name)} gives all the same"

    @property
    def program(self) -> Any:
        """The traced program that all answers are of; None where they are of several, or of none."""
        first, *others = (getattr(answer, "program", None) for answer in self.answers)
        return first if first is not None and others and all(map(first.is_same, others)) else None

    @property
    def best_of_its(self) -> str:
        """What a mark says, in words."""
        return "best of its row"

    def fact_tables(self) -> Iterator[Section]:
        """A row a fact and a column an answer."""
        columns = [Column(wrap="words"), *(Column(who, "right", wrap="words") for who in self.names)]
        rows = [Row((name, *cells)) for name, cells in self.fact_cells().items()]
        yield Table(tuple(columns), rows, FACTS)

    def fact_cells(self) -> dict[str, Sequence[Cell]]:
        """What every answer says of each fact that is shown, the best marked where all are about as much work."""
        one = self.is_one_work
        runs = [f"no: it {each.said}" if each else "yes" for each in self.obstacles]
        found: dict[str, Sequence[Cell]] = {} if self.all_by_room else {"runs": runs}
        for name, said in self.facts.items():
            facts = said if one else tuple(fact and fact._replace(better="") for fact in said)
            if any(fact is not None and fact.is_shown for fact in facts):
                best, part = self.best(name) if one else (), self.partial.get(name, ())
                found[name] = fact_cells(self.names, facts, best, part)
                if name == self.headline and len(self.names) > 1 and self.ranked and one:
                    found[TIMES_THE_LEAST] = self.ratio_cells()
        return found

    def operation_sections(self) -> Iterator[Section]:
        """A table of operations a phase, and what a fusing compiler would save of each answer."""
        yield from _operations_tables(self.names, self.answers)
        for who, answer in zip(self.names, self.answers, strict=True):
            for step in answer.steps().values():
                yield from fusing_in_words(step, f"{who}: ")

    def not_ranked(self) -> Iterator[Section]:
        """Who is not timed whole, with what is left out."""
        for who, gaps, decided in zip(self.names, self.untimed, self.decided, strict=True):
            if not decided:
                yield Sentences([f"NOT RANKED: {who}", *gaps], "alert")

    def timed_in_part(self) -> Iterator[Section]:
        """What is not timed of those that are ranked all the same."""
        pairs = zip(self.names, self.untimed, self.decided, strict=True)
        yield Sentences([f"{who}: {gap}" for who, gaps, decided in pairs if decided for gap in gaps], "quiet")

    def ratio_cells(self) -> list[Cell]:
        """How many times the least each takes, the least marked."""
        best = () if self._more else self.best(self.headline)
        least = self._least
        parts = self.partial.get(self.headline, (None,) * len(self.names))
        return [
            Amount(times, "", f"{format_number(times, 3)}x{MARK if who in best else ''}")
            if times is not None
            else ""
            if part is None or least is None
            else Amount(float(part.value) / least, "", f"{_side(part)} {format_number(float(part.value) / least, 3)}x")
            for who, times, part in zip(self.names, self.times_the_best, parts, strict=True)
        ]

    def assumption_sections(self, said: Sequence[str] = ("fit",)) -> Iterator[Section]:
        """What all answers assume, and what each does besides, without the kinds that are ``said`` elsewhere."""
        left = [dict.fromkeys(map(str, without(answer.assumed(), said))) for answer in self.answers]
        for who, own in {"": range(len(left)), **self.assuming()}.items():
            shared = [line for line in left[own[0]] if all(line in left[at] for at in own)]
            yield Listing(f"{who} assumes".strip(), shared, "quiet")
            for line, at in product(shared, own):
                del left[at][line]
        yield incomplete(self.untimed_alike)

    def assuming(self) -> dict[str, Sequence[int]]:
        """The places of those of which is said together what they assume beyond all, by their name."""
        return {who: [at] for at, who in enumerate(self.names)}

    @once
    def policies(self) -> tuple[str, ...]:
        """The byte policy of each answer. Floors are ranked within one: policies count other bytes of the same run."""
        asked = [
            (each.request, "each-op") if hasattr(each, "request") else (getattr(each, "asked", {}), "minimal")
            for each in self.answers
        ]
        return tuple(str(options.get("policy") or usual) for options, usual in asked)

    def of_each_policy(self) -> Iterator[tuple[str, SideBySide]]:
        """The answers of each byte policy, and its name where there are several; a policy of one answer ranks none."""
        several = dict.fromkeys(self.policies)
        if len(several) == 1 or self.is_even:
            yield "", self
            return
        for policy in several:
            kept = [at for at, each in enumerate(self.policies) if each == policy]
            if len(kept) > 1:
                own = (self.names[at] for at in kept)
                names = (name.without("policy") if isinstance(name, AnswerName) else name for name in own)
                yield f"by policy {policy} ", self.some(kept, names)

    def some(self, places: Sequence[int], names: Iterable[str]) -> SideBySide:
        """The answers at some places side by side, under ``names``."""
        own: list[Any] = [[of[at] for at in places if of] for of in (self.answers, self.break_evens, self.ways)]
        return SideBySide(tuple(names), *map(tuple, own))

    def verdicts(self) -> list[str]:
        """Who has the best of the headline, by how much, and why; by each policy where there are several."""
        return [f"{by}{one._verdict()}" for by, one in self.of_each_policy()]

    def _verdict(self) -> str:
        fits = [who for who, fits in zip(self.names, self.fitting, strict=True) if fits]
        some_fit = 0 < len(fits) < len(self.names)
        where = f" of those{self._whose}" if some_fit else self._where_none_can
        if unless := self.unless(self.headline, f"has the lowest {self._what_ranks}"):
            return unless
        if self.may_be_beaten(self.headline):
            if sum(value is not None for value in self.ranked) == 1:
                return f"{self.fastest} alone is timed whole"
            where = f"{where} and that are timed whole" if some_fit else f"{_TIMED_WHOLE}{where}"
        if self.is_even:
            return f"{self.even_in_words()}{self._because()}"
        counts = {getattr(answer, "chips", 1) for answer in self.answers}
        targets = {who: _machine(self[who]).target for who in self._leaders}
        told = any(":" in target and target in who for who, target in targets.items())
        count = self._on_chips(self._leaders) if len(counts) > 1 and not told else ""
        return f"{self.lead}{count}{where}{self._why() or self._because()}{self._next()}"

    def _because(self) -> str:
        """Which resource, or wait, makes the difference to who comes next on the same kind of chip, in words.

        Of equal floors it is the one that makes it op by op.
        """
        if not (self.is_one_chip and self.answers[0].is_floor) or any(self.untimed):
            return ""
        steps = dict(zip(self.names, map(_first_timed, self.answers), strict=True))
        ranked = [who for who, contends in zip(self.names, self.contending, strict=True) if contends]
        in_turn = {who: float(steps[who].op_by_op) for who in ranked if steps[who] is not None and steps[who].ops}
        first = min(in_turn, key=lambda who: in_turn[who], default="") if self.is_even else self._leaders[0]
        other = max(in_turn, key=lambda who: in_turn[who], default="") if self.is_even else self._follower[1]
        if first not in in_turn or other not in in_turn or first == other:
            return ""
        why = why_slower_in_turn if self.is_even else why_slower
        said = why((self[first], steps[first]), (self[other], steps[other]), other)
        return f": {said}" if said else ""

    def _next(self) -> str:
        """Who comes next, and how many times as long it takes, in words."""
        times, who = self._follower
        return f"; {who} comes next and takes {format_number(times, 3)}x as long" if times else ""

    @property
    def _follower(self) -> tuple[float | None, str]:
        """Who comes next, and how many times as long it takes; None where nobody does."""
        found = zip(self.times_the_best, self.names, self.contending, strict=True) if self.answers[0].is_floor else ()
        first = self._leaders
        others = [(times, who) for times, who, contends in found if times and contends and who not in first]
        return min(others, default=(None, ""))

    @property
    def lead(self) -> str:
        """Who has the best of the headline, in words: the fastest, and those that are as good."""
        if self.answers[0].is_floor:
            return _alike(self._leaders, *(f"{verb} the lowest {self._what_ranks}" for verb in ("has", "have")))
        verbs = ("allows the most", "allow the most") if self._more else ("takes the fewest", "take the fewest")
        return _alike(self._leaders, *(f"{verb} {self.headline}" for verb in verbs))

    @property
    def _what_ranks(self) -> str:
        """The time that ranks them: the floor, or what a stated form of it is; of what, where steps differ."""
        ranked = self._said_of(self.headline)
        form = {"lower": "floor", "estimate": "estimate"}.get(ranked.form, "time")
        return f"{form} of {ranked.time_of}" if ranked.time_of and len(self.answers[0].steps()) > 1 else form

    @property
    def _leaders(self) -> tuple[str, ...]:
        """The fastest, and those that are as good."""
        found = best_of(self.names, self._in_the_running(self.facts[self.headline]))
        return found if self.fastest in found else (str(self.fastest),)

    def may_be_beaten(self, name: str) -> bool:
        """Whether an answer that is not timed whole may be better in a fact than all others: its timed part is.

        What does not fit is left out, where another fits.
        """
        facts, parts = self.facts.get(name, ()), self.partial.get(name, ())
        if not facts or not parts:
            return False
        wanted = any(fits for fits, fact in zip(self.fitting, facts, strict=True) if fact and is_number(fact.value))
        fits = [fits is wanted or fits for fits in self.fitting]
        return _is_open(*([each for each, here in zip(of, fits, strict=True) if here] for of in (facts, parts)))

    def best_whole(self, name: str) -> float | None:
        """The best figure of a fact of those that are timed whole, and fit where any fits; None where none has one."""
        facts = self.facts.get(name) or (None,) * len(self.names)
        said = [fact for fact in self._in_the_running(facts) if fact and is_number(fact.value)]
        values = [float(fact.value) for fact in said]
        return (min if said[0].better == "less" else max)(values) if values else None

    def challengers(self, name: str) -> list[list[str] | None]:
        """Of each answer the figures whose lack leaves open whether it is the best in a fact; None where it is not.

        Empty where no single figure fills what is not timed.
        """
        best, parts = self.best_whole(name), self.partial.get(name) or (None,) * len(self.names)
        if best is None or not self.may_be_beaten(name):
            return [None] * len(self.names)
        figures = [[getattr(gap, "figure", "") for gap in gaps] for gaps in self.untimed]
        return [
            (own if all(own) else [])
            if part and is_number(part.value) and contends
            and (part.value < best if part.better == "less" else part.value > best)
            else None
            for own, part, contends in zip(figures, parts, self.contending, strict=True)
        ]  # fmt: skip

    def unless(self, name: str, verb: str, of: str = "") -> str:
        """Who does what ``verb`` says unless a hop takes long, against the best that is timed whole; else empty."""
        challengers = self.challengers(name)
        open_ = [at for at, figures in enumerate(challengers) if figures is not None]
        if not open_ or not all(name in self._break_evens[at] for at in open_):
            return ""
        facts, parts = self.facts[name], self.partial[name]
        leaders = best_of(self.names, self._in_the_running(facts)) or [str(self.fastest)]
        whole = next(fact for who, fact in zip(self.names, facts, strict=True) if who in leaders and fact)
        verb = verb if len(open_) == 1 else f"is ahead of {in_a_row(leaders)}"
        against = f"against {_written(whole)}{of} of {in_a_row(leaders)}"
        return "; ".join(
            f"{self.names[at]} {verb} unless a hop there takes over "
            f"{format_quantity(self._break_evens[at][name], 's', 2)}{self._way(at, name)}: {_side(part)} "
            f"{_written(part)} {against}"
            for at, part in enumerate(parts)
            if at in open_ and part is not None
        )

    def _way(self, at: int, name: str) -> str:
        said = self.ways[at].get(name) if self.ways else ""
        return f" ({said})" if said else ""

    @property
    def _break_evens(self) -> Sequence[Mapping[str, float]]:
        return self.break_evens or ({},) * len(self.names)

    @once
    def decided(self) -> list[bool]:
        """Whether each stands in its place: timed whole, or worse by what is timed, or better up to a known hop."""
        contests = [self.headline, *self.ranked_costs()] if self.ranked and len({*self.policies}) == 1 else []
        if not contests or None in map(self.best_whole, contests):
            return [not gaps for gaps in self.untimed]
        open_ = {name: self.challengers(name) for name in contests}
        return [
            not gaps or all(of[at] is None or name in self._break_evens[at] for name, of in open_.items())
            for at, gaps in enumerate(self.untimed)
        ]

    def even_in_words(self) -> str:
        """Who have the same headline, where it is even: all, or those that it fits on, or that are timed whole.

        Of floors, who takes the least where less overlaps: op by op or kernel by kernel, or else at worst.

        >>> from roofline import train
        >>> steps = (train("llama-3-8b", on="h100:64", fsdp=64 // n, tensor=n, batch_tokens="4M") for n in (1, 8))
        >>> compare(*steps, names=["data alone", "tensor too"]).even_in_words()
        'all have the same floor; op by op data alone takes the least'
        """
        fitting, whole = len(set(self.fitting)) > 1, any(self.untimed)
        those = f"those{self._whose}{' and that are timed whole' * whole}" if fitting else "those timed whole"
        same = self._what_ranks if self.answers[0].is_floor else self.headline
        said = f"{those if fitting or whole else 'all'} have the same {same}{self._where_none_can}"
        slower = {fact.form: name for name, facts in self.facts.items() for fact in facts if fact and fact.unit == "s"}
        found = (
            (KERNELS_IN_TURN if slower[name] == KERNELS_IN_TURN else how, self.best(slower[name]))
            for name, how in _LESS_OVERLAPS.items()
            if name in slower
        )
        how, least = next(((how, best) for how, best in found if best), ("", ()))
        takes = "takes" if len(least) == 1 else "take"
        return f"{said}; {how} {in_a_row(least)} {takes} the least" if least else said

    def cheapest(self) -> Iterator[str]:
        """Where it costs least, where answers have a cost: one that does not fit has none."""
        for name in self.ranked_costs():
            facts = self.facts[name]
            found = [(fact, at) for at, fact in enumerate(facts) if fact is not None and is_number(fact.value)]
            where = _TIMED_WHOLE if self.may_be_beaten(name) else ""
            form, of = self._said_of(name).form, self._said_of(name).dollars_of
            if unless := self.unless(name, "is the cheapest", f" a million {of}{COST_OF_FORM[form]}"):
                yield unless
            elif len(found) > 1:
                least = min(float(fact.value) for fact, _ in found)
                first = [self.names[at] for fact, at in found if float(fact.value) <= (1 + EQUAL) * least]
                amount = f"${format_number(least)} a million {of}"
                if form == "expected":
                    amount += AS_EXPECTED
                elif form != "lower" or f"{name}{AS_EXPECTED}" in self.facts:
                    amount += f", {BY_FORM[form]}"
                those = f" of those{self._whose}" * (not where and False in self.fitting)
                who = _alike(first, "is the cheapest", "are the cheapest")
                of_it = self._parts_of(name, first)
                yield f"{who}{where}{those}{self._on_chips(first)}: {amount}{of_it}{self._on_the_fewest}"

    def _parts_of(self, price: str, first: Sequence[str]) -> str:
        """What the cheapest costs a token, where it is the cheapest of whole answers."""
        asked = self._said_of(price)
        if asked.dollars_of != "answers" or len(first) > 1:
            return ""
        at, end = self.names.index(first[0]), AS_EXPECTED if asked.form == "expected" else ""
        tokens = {name: self.facts.get(f"{name}{end}", self.facts[name])[at] for name in self._costs}
        said = [
            f"${format_number(float(fact.value))} a million {fact.dollars_of}"
            for fact in tokens.values()
            if fact is not None and fact.dollars_of != "answers" and is_number(fact.value)
        ]
        return f" ({', '.join(said)})" if said else ""

    def ranked_costs(self) -> list[str]:
        """The facts that costs are ranked by: as expected where all of them have that, or else at the floor.

        Of whole answers where that is known, else of tokens, or of runs.
        """

        def ranked(name: str) -> str:
            expected = self.facts.get(f"{name}{AS_EXPECTED}", ())
            lacks = (new is None and old is not None for new, old in zip(expected, self.facts[name], strict=False))
            return f"{name}{AS_EXPECTED}" if expected and not any(lacks) else name

        costs = self._costs
        answers = [name for name in costs if self._said_of(name).dollars_of == "answers"]
        return [ranked(name) for name in answers or costs]

    @property
    def _costs(self) -> list[str]:
        """The facts of dollars, without those of what to expect beside the floor."""
        found = {name: self._said_of(name) for name in self.facts}
        return [name for name, fact in found.items() if fact.dollars_of and fact.form != "expected"]

    def _said_of(self, name: str) -> Fact:
        """A fact as the first answer says it that has it."""
        return next(fact for fact in self.facts[name] if fact is not None)

    def _without_price(self) -> Iterator[str]:
        """The machines that lack a price where others have one, and how it is given."""
        for name in self._costs:
            facts = self.facts[name]
            each = zip(self.machines, facts, self.fitting, strict=True)
            lacking = dict.fromkeys(who for who, fact, fits in each if fact is None and fits)
            has_one = any(fact and is_number(fact.value) for fact in facts)
            if has_one and lacking:
                given = spelled("price", ",".join(["table", *(f"{who.partition(':')[0]}=…" for who in lacking)]))
                yield f"no price of {', '.join(lacking)} is listed: {given} gives yours"

    @property
    def machines(self) -> tuple[str, ...]:
        """What each is on: its name where they are named by their machines."""
        return self.names

    def _on_chips(self, first: Sequence[str]) -> str:
        """On how many chips some answers are, where they are on several, in words."""
        of = zip(self.names, self.answers, strict=True)
        counts = {getattr(answer, "chips", 1) for who, answer in of if who in first}
        return f" on {max(counts):,} chips" if len(counts) == 1 and counts != {1} else ""

    @property
    def _on_the_fewest(self) -> str:
        """What compares costs where one chip does not hold the model, for answers about serving it on one."""
        single = {getattr(answer, "chips", None) for answer in self.answers} == {1}
        others = f"; {spelled('fit', True)} prices each on the fewest chips that hold it"
        return others if single and False in self.fitting and self.all_by_room else ""

    def _why(self) -> str:
        """What decides, where the same binds everywhere and the fastest has the most of it, alone or with others."""
        kinds = {getattr(_first_timed(answer), "kind", None) for answer in self.answers}
        said = kinds.pop() if len(kinds) == 1 else None
        place, of, *fewest = _RATES.get(said or "", ("", "", "", ""))
        rates = [name for name in self.facts if place and self._said_of(name).kind == place]
        counts = {getattr(answer, "chips", 1) for answer in self.answers}
        most = self.best(rates[0]) if len(rates) == 1 and len(counts) == 1 else ()
        first = self._leaders
        if not {*first} <= {*most}:
            return ""
        rate, several = of or f"{rates[0]} FLOP/s", len(first) > 1
        who, has = ("they", "have") if several else ("it", "has")
        is_all = len(first) == len(most)
        decides = f"{who} {has} the most {rate}" if is_all else f"of those with the most {rate} {who} {fewest[several]}"
        return f": all are {said}, and {decides}"

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """A row an answer and a column a fact, whether it ``fits`` last; ``comparison`` has them turned.

        ``operations`` has a row an operation of each answer: ``to_pandas("operations")``.

        >>> from roofline import bound
        >>> frame = bound("bf16[64, 8192] * bf16[8192, 8192]", on="a100,h100").to_pandas()
        >>> frame["on"].tolist(), [round(time * 1e6, 1) for time in frame["lower"]], frame.attrs["units"]["lower"]
        (['a100', 'h100'], [66.9, 40.7], 's')
        """
        if table == OPERATIONS:
            found = self.operations_as_data()
            if found is None:
                raise InputError("these answers have no operations", hint=f"their table is {FACTS}")
            return plain_table(found)
        if table not in (None, "facts"):
            return Answer.plain_table(self, table)
        return plain_table(self._facts_as_data())

    def _facts_as_data(self) -> Table:
        """A row an answer, a column a fact, whether it ``fits``, and what is ``incomplete``; NaN: no such figure."""
        cells = {**self.works_as_data(), **{name: _as_cell(facts) for name, facts in self.facts.items()}}
        known = [each.needed() is not None and each.needed().fits is not None for each in self.answers]
        fits = [here if is_known or not here else None for here, is_known in zip(self.fitting, known, strict=True)]
        if any(each is not None for each in fits):
            cells["fits"] = ["" if each is None else YesNo(bool(each)) for each in fits]
        if self.incomplete:
            cells["incomplete"] = ["; ".join(gaps) for gaps in self._gaps]
        plain = {name: re.sub(r"\W+", "_", self.column_of(name)).strip("_") for name in cells}
        columns = [Column("on"), *(Column(name, meaning=word) for name, word in plain.items())]
        return Table(columns, list(map(Row, zip(self.machines, *cells.values(), strict=True))), "facts")

    def column_of(self, name: str) -> str:
        """What data call a fact."""
        return (self._said_of(name).column if name in self.facts else "") or NAMES_AS_DATA.get(name, name)

    def works_as_data(self) -> dict[str, list[Any]]:
        """What each answer is about, where it is not the same line of all: its model."""
        models = [getattr(getattr(each, "model", None), "name", "") for each in self.answers]
        return {"model": models} if any(models) else {}

    def operations_as_data(self) -> Table | None:
        each = [(who, answer.operations_as_data()) for who, answer in zip(self.names, self.answers, strict=True)]
        found = [table for _, table in each if table is not None]
        rows = [Row((who, *row.cells[1:])) for who, table in each if table is not None for row in table.rows]
        return found[0]._replace(rows=rows, phase="") if found else None

    def to_dict(self) -> dict[str, Any]:
        """Every answer whole, and which is best in what (schema ``roofline/comparison/1``)."""
        said = self.facts
        best = {name: list(self.best(name)) for name in said}
        return {
            "schema": "roofline/comparison/1",
            **attributes(self, "names", "fastest"),
            "best": {name: who for name, who in best.items() if who},
            "untimed": {who: list(gaps) for who, gaps in zip(self.names, self.untimed, strict=True) if gaps},
            "break_evens": {who: dict(at) for who, at in zip(self.names, self._break_evens, strict=True) if at},
            "facts": {
                name: [None if fact is None else plain_data(fact.value) for fact in facts]
                for name, facts in said.items()
            },
            "ratios": plain_data(self.ratios),
            "operations": [each.to_dict() for each in operations_beside(self.answers)],
            "answers": [answer.to_dict() for answer in self.answers],
        }


def _as_cell(facts: Sequence[Fact | None]) -> list[Any]:
    """What answers say of one fact as data: numbers with their unit, else words."""
    given = [fact for fact in facts if fact is not None]
    texts = any(fact.data or isinstance(fact.value, str) for fact in given)
    if texts and not any(fact.unit or fact.better or is_number(fact.value) for fact in given):
        return ["" if fact is None else str(fact.data or fact.value or "") for fact in facts]
    return [
        Amount(fact.value if isinstance(fact.value, int) else float(fact.value), fact.unit)
        if fact is not None and is_number(fact.value)
        else Amount(float("nan"))
        for fact in facts
    ]


def facts_of_one(answer: Comparable) -> Table | None:
    """What one answer says as a row of data; None of one over arrays or with open sizes."""
    if any(not is_number(fact.value) and not isinstance(fact.value, str | None) for fact in answer.facts()):
        return None
    machine = _machine(answer)
    names = ("",) if machine is None else tuple(told_apart([machine]))
    return SideBySide(names, (answer,))._facts_as_data()


class OperationBeside(NamedTuple):
    """An operation of several answers: what each says of it, None where one does not have it."""

    phase: str
    name: str
    where: str
    parts: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Its name, and what each answer says of it, in their order."""
        by = {name: [part and plain_data(getattr(part, name)) for part in self.parts] for name in ("lower", "bound_by")}
        return {"phase": self.phase, "name": self.name, "where": self.where, **by}


def operations_beside(answers: Sequence[Comparable]) -> list[OperationBeside]:
    """The operations of several answers by their names, each phase's longest first; none where few are of all.

    >>> from roofline import bound
    >>> line = "bf16[64, 8192] * bf16[8192, 8192]; gelu(bf16[64, 8192])"
    >>> found = operations_beside([bound(line, on=chip) for chip in ("h100", "a100")])
    >>> [[round(part.lower * 1e6, 1) for part in each.parts] for each in found]
    [[40.7, 66.9], [0.6, 1.0]]
    """
    found: dict[tuple[str, str, str, int], list[Any]] = {}
    for at, answer in enumerate(answers):
        seen = Counter[tuple[str, str, str]]()
        for phase, step in answer.steps().items():
            for part in step.ops:
                place = (phase, *named_place(part.op))
                found.setdefault((*place, seen[place]), [None] * len(answers))[at] = part
                seen[place] += 1
    rows = [
        OperationBeside(phase, name, where or _source(parts), tuple(parts))
        for (phase, name, where, _), parts in found.items()
    ]
    if len(rows) < 2 or sum(None not in row.parts for row in rows) < FEWEST_SHARED * len(rows):
        return []
    phases = list(dict.fromkeys(row.phase for row in rows))
    longest = [max(float(part.lower) for part in row.parts if part is not None) for row in rows]
    order = sorted(range(len(rows)), key=lambda at: (phases.index(rows[at].phase), -longest[at]))
    return [rows[at] for at in order]


def _source(parts: Sequence[Any]) -> str:
    """The line or the node of a program that an operation outside all modules is of, where it is the same in all."""
    sources = {str(part.op.options.get("source", "")) for part in parts if part is not None}
    return sources.pop() if len(sources) == 1 else ""


def _operations_tables(names: Sequence[str], answers: Sequence[Comparable]) -> Iterator[Section]:
    """A table a phase: a row an operation with its time at best in each answer, and the sum of all."""
    every = operations_beside(answers)
    for phase in dict.fromkeys(row.phase for row in every):
        found = [row for row in every if row.phase == phase]
        placed = any(row.where for row in found[:SHOWN])
        columns = [Column("operation" + (f" of {phase}" if phase else ""), wrap="dots", meaning="operation")]
        columns += [Column("where", wrap="dots")] * placed
        for who in names:
            columns += [Column(who, "right", "words"), Column("bound by", meaning=f"{who} bound by", spare=1)]
        shown = _operation_rows(found[:SHOWN], placed)
        if rest := found[SHOWN:]:
            shown.append(_summed(f"{len(rest)} more", rest, placed))
        shown.append(_summed(ALL_IN_TURN, found, placed))
        steps = [answer.steps()[phase] for answer in answers if phase in answer.steps()]
        if len(steps) == len(names) and any(step.joins_kernels for step in steps):
            kernels = [cell for step in steps for cell in (Amount(step.op_by_op, "s"), "")]
            shown.append(Row((KERNELS_IN_TURN, *[""] * placed, *kernels)))
        every_row = partial(_operation_rows, found, placed)
        yield from (BLANK, Table(columns, shown, OPERATIONS, every=every_row, phase=phase))


def _operation_rows(found: Sequence[OperationBeside], placed: bool) -> list[Row]:
    rows: list[Row] = []
    for row in found:
        cells: list[Any] = [row.name, *[row.where] * placed]
        for part in row.parts:
            cells += ["", ""] if part is None else [Amount(part.lower, "s"), str(part.bound_by or "")]
        rows.append(Row(cells))
    return rows


def _summed(name: str, found: Sequence[OperationBeside], placed: bool) -> Row:
    """The times of some operations one after the other."""
    cells: list[Any] = [name, *[""] * placed]
    for parts in zip(*(row.parts for row in found), strict=True):
        cells += [Amount(sum(part.lower for part in parts if part is not None), "s"), ""]
    return Row(cells)


def _times(value: float, least: float) -> float:
    """A figure over the least."""
    return 1.0 if value == least else value / least if least else float("inf")


def _over(fact: Fact | None, other: Fact | None) -> float | None:
    """A fact over another, where both are numbers."""
    if fact is None or other is None or not is_number(fact.value) or not is_number(other.value) or not other.value:
        return None
    return float(fact.value) / float(other.value)


def _is_saved(answer: Any) -> bool:
    """Whether it is the JSON of an answer, or the name of a file of it."""
    named = (isinstance(answer, str) or hasattr(answer, "__fspath__")) and str(answer).endswith(".json")
    return named or (isinstance(answer, Mapping) and "schema" in answer)


@takes()
def compare(*answers: Any, names: Sequence[str] = (), **asked: Any) -> SideBySide:
    """Put answers of one kind side by side: bounds, servings or trainings, on several machines or under several terms.

    ``names`` are the heads of the columns: by default what differs of the subject, the machine and what was asked, or
    else a number. An answer with open or several sizes is an error: :func:`roofline.sweep` compares those.
    """
    if any(_is_saved(answer) for answer in answers):
        hint = "pickle.load gives back an answer that pickle.dump kept; or ask for both at once, as in on='h100,h200'"
        raise InputError("an answer that was saved is data, as json.load reads it, and no answer", hint=hint)
    if asked or any(isinstance(answer, str) for answer in answers):
        hint = "ask on several machines, as in llm(model, on=['h100', 'h200']), or compare(first, second)"
        raise InputError("a comparison is of answers, not of what is asked", hint=hint)
    if len(answers) < 2:
        raise InputError("a comparison needs two answers or more", hint="compare(first, second)")
    if all(isinstance(answer, Machine) for answer in answers):
        raise InputError("machines are no answers", hint=f"{call('chips', *(m.key for m in answers))} compares them")
    _check_kind(answers)
    for answer in answers:
        if any(not is_number(fact.value) and not isinstance(fact.value, str | None) for fact in answer.facts()):
            steps = answer.steps().items()
            several = next(
                (spelled(name) if phase else f"size {name}" for phase, step in steps
                 for name, value in step.sizes.items() if is_array(value)), None,
            )  # fmt: skip
            if several is None:
                hint = "give every size one value; sweep takes several"
                values = (fact.value for fact in answer.facts())
                open_ = {each for value in values for each in getattr(value, "free_symbols", ())}
                names = sorted(str(each) for each in open_ if each.is_integer)  # rates are none
                lacks = f", and {in_a_row(names)} {'have' if len(names) > 1 else 'has'} no value" if names else ""
                raise InputError(f"a comparison is of plain numbers{lacks}", hint=hint)
            hint = "sweep takes several machines, formats and sizes, and draws them"
            raise InputError(f"answers side by side take one value of {several}, and several are given", hint=hint)
    chosen = list(names) or _names_apart(answers)
    if len(chosen) != len(answers):
        raise InputError(f"{len(chosen)} names for {len(answers)} answers", hint="give one for each")
    return SideBySide(tuple(numbered(chosen)), answers)


def _check_kind(answers: Sequence[Any]) -> None:
    """Refuse answers of several kinds, or of one that says no facts to compare."""
    kinds = {type(answer).__name__ for answer in answers}
    if len(kinds) > 1 or not isinstance(answers[0], Comparable):
        usual = "compare bounds with bounds, and servings with servings"
        hint = usual if len(kinds) > 1 else getattr(answers[0], "beside_others", usual)
        said = in_a_row(sorted(kinds)) if len(kinds) > 1 else "answers of this kind"
        raise InputError(f"{said} do not compare", hint=hint)


def _machine(answer: Comparable) -> Any:
    """The machine that an answer is about, or its question, or its first step."""
    about = (answer, *(getattr(answer, name, None) for name in ("question", "bound")), *answer.steps().values())
    return next((each.machine for each in about if hasattr(each, "machine")), None)


def _names_apart(answers: Sequence[Any]) -> list[str]:
    """What differs of the subjects, the machines and what was asked; the machines where nothing does.

    >>> from roofline import llm
    >>> one, other = (llm("llama-3-8b", on="h100", batch=batch, context=8192) for batch in (8, 64))
    >>> _names_apart([one, other]), _names_apart([one, llm("llama-3-70b", on="h200", batch=8, context=8192)])
    (['h100 batch 8', 'h100 batch 64'], ['llama-3-8b on h100', 'llama-3-70b on h200'])
    """
    machines = told_apart([_machine(answer) or "" for answer in answers])
    subjects = [answer.subject for answer in answers]
    heads = machines
    if len(set(subjects)) > 1:
        several = len(set(machines)) > 1
        heads = [f"{what} on {who}" if several else what for what, who in zip(subjects, machines, strict=True)]
    return [" ".join(filter(None, each)) for each in zip(heads, _asked_apart(answers), strict=True)]


def _asked_apart(answers: Sequence[Any]) -> list[str]:
    """What each question asks in another way than the others, in words."""
    told = list(map(_asked, answers))
    names = dict.fromkeys(name for each in told for name in each if name not in _SAID_ELSEWHERE)
    apart = [name for name in names if len({each.get(name) for each in told}) > 1]
    shown = ([(name, each[name]) for name in apart if each.get(name) not in (None, False)] for each in told)
    return [", ".join(name if value is True else f"{name} {value}" for name, value in each) for each in shown]


def _asked(answer: Any) -> dict[str, Any]:
    """What was asked that is a number, a word or nothing: of its question, or of a step with its sizes."""
    question = getattr(answer, "question", None)
    if is_dataclass(question):
        records = filter(is_dataclass, (question, getattr(question, "conventions", None)))
        told = {field.name: getattr(each, field.name) for each in records for field in fields(each)}
    else:
        asked = [step.sizes for phase, step in answer.steps().items() if phase]
        asked += [getattr(each, "request", {}) for each in (answer, getattr(answer, "bound", None))]
        told = {name: value for each in (*asked, getattr(answer, "asked", {})) for name, value in each.items()}
        ways = told.get("algorithm")
        told |= {"algorithm": " ".join(ways.values())} if isinstance(ways, Mapping) else {}
    return {name: value for name, value in told.items() if value is None or isinstance(value, str | int | float)}


def _first_timed(answer: Any) -> Any:
    """The step whose time an answer says first: decoding, where a model has that beside prefill; None of several."""
    first, steps = next(iter(answer.facts())).value, list(answer.steps().values())
    same = (step for step in steps if getattr(step, "lower", None) is first)
    return next(same, steps[0] if len(steps) == 1 else None)


def asked_of_all(answers: Sequence[Comparable]) -> list[str]:
    """The phases and sizes that all of them are about, in words.

    >>> from roofline import llm
    >>> asked_of_all([llm("llama-3-8b", on="h100", batch=batch, context=8192) for batch in (8, 64)])
    ['decode', 'context 8,192']
    """
    first, *others = [answer.asked_at() for answer in answers]
    return [said for said in first if all(said in each for each in others)]


def aligned(said: Sequence[Iterable[Fact]]) -> dict[str, tuple[Fact | None, ...]]:
    """Each fact by its name, one for each of those who say it; None where one does not.

    They stand in the order of the first; what only a later one says, behind what that one says before it.

    >>> [*aligned([[Fact("at best", 1.0), Fact("chips", 8)], [Fact("at best", 2.0), Fact("hops", 3)]])]
    ['at best', 'hops', 'chips']
    """
    found = [{fact.name: fact for fact in facts} for facts in said]
    names: list[str] = []
    for each in found:
        behind = 0
        for name in each:
            if name not in names:
                names.insert(behind, name)
            behind = names.index(name) + 1
    return {name: tuple(each.get(name) for each in found) for name in names}


def _side(fact: Fact) -> str:
    """The sign before what a part of the work takes: all of it takes that or more, and is that fast or less."""
    return LEAST if fact.better == "less" else MOST


def has_interval(facts: Mapping[str, Sequence[Fact | None]]) -> bool:
    """Whether some fact says where 80% of runs are expected."""
    return any(fact is not None and fact.interval and not fact.held for each in facts.values() for fact in each)


def _is_open(facts: Sequence[Fact | None], partial: Sequence[Fact | None]) -> bool:
    """Whether some value of a part of the work is better than every one of ``facts``: whose is best is not known."""
    values = [fact for fact in facts if fact is not None and fact.better and is_number(fact.value)]
    parts = [float(fact.value) for fact in partial if fact is not None and is_number(fact.value)]
    if not values or not parts:
        return False
    less = values[0].better == "less"
    best = (min if less else max)(float(fact.value) for fact in values)
    return min(parts) < best if less else max(parts) > best


def best_of(names: Sequence[str], facts: Sequence[Fact | None]) -> tuple[str, ...]:
    """Names of those that are best in a fact; none where no value is better, or all are equal.

    >>> best_of(("a", "b"), (Fact("time", 2.0, "s", "less"), Fact("time", 1.0, "s", "less")))
    ('b',)
    >>> best_of(("a", "b"), (Fact("time", "none: does not fit"), Fact("time", 1.0, "s", "less")))
    ('b',)
    """
    found = [(who, fact) for who, fact in zip(names, facts, strict=True) if fact is not None and fact.value is not None]
    ranked = [(who, float(fact.value)) for who, fact in found if fact.better and is_number(fact.value)]
    less = any(fact.better == "less" for _, fact in found)  # words in a figure's place have no better
    wanted = (min if less else max)((value for _, value in ranked), default=0.0)
    close = tuple(who for who, value in ranked if abs(value - wanted) <= EQUAL * abs(wanted))
    return close if len(close) < len(found) else ()


def fact_cells(
    names: Sequence[str], facts: Sequence[Fact | None], best: Collection[str], partial: Sequence[Fact | None] = ()
) -> list[Cell]:
    """What answers say of a fact, the ``best`` marked; ``partial`` are those of the part that is timed."""
    cells: list[Cell] = []
    for who, fact, part in zip(names, facts, partial or (None,) * len(facts), strict=True):
        if part is not None and is_number(part.value):
            cells.append(Amount(float(part.value), part.unit, f"{_side(part)} {_written(part)}"))
            continue
        if fact is None or fact.value is None:
            known = fact is None or not fact.unit
            cells.append("" if known else Amount(float("nan"), "", "not known"))
            continue
        text = fact.value if isinstance(fact.value, str) else _written(fact)
        text += MARK if who in best else ""
        text += f" ({format_range(*fact.interval, fact.unit)}{fact.held and f', {fact.held}'})" if fact.interval else ""
        cells.append(
            Words(text, source=fact.source)
            if isinstance(fact.value, str)
            else Amount(float(fact.value), fact.unit, text, fact.source)
        )
    return cells


def _written(fact: Fact) -> str:
    """A figure as a person reads it."""
    if fact.unit == "share":
        return format_percent(fact.value)
    if fact.unit in UNITS and fact.unit:
        return format_amount(fact.value, fact.unit)
    if fact.unit == TIMES:
        return format_times(fact.value)
    if fact.unit == "token":
        return format_count(int(fact.value))
    return f"${format_number(fact.value)}" if fact.unit == "USD" else format_number(fact.value)


#: What is said of changes: each is a row of how many times as fast the same work gets.
GAINS_IN_WORDS = "of a change: how many times as fast the same work gets"

#: What is said of figures in brackets.
INTERVAL_IN_WORDS = "in brackets where 80% of runs are expected"

#: What is said of a best that one that is not timed whole may beat.
_TIMED_WHOLE = " of those timed whole"

#: Of which chip the figures are of what cannot be run, by why it cannot.
_IF_IT_RAN = {"fit": "with room enough", "run": "that runs parts of a sequence"}

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
        verdict = self._verdict() if len(self.names) > 1 else []
        return "; ".join([f"SideBySideBySize: {', '.join(self.names)} at {len(self.sizes)} sizes", *verdict])

    def sections(self) -> Iterator[Section]:
        beside = "side by side" if len(self.names) > 1 else f"on {self.names[0]}"
        asked = asked_of_all([answer for one in self.each for answer in one.answers])
        yield Headline(self.subject, ", ".join([*asked, beside]))
        if len(self.names) > 1:
            yield BLANK
            open_ = next((one for one in self.each if not all(one.decided)), None)
            yield from (open_ or self.each[0]).not_ranked()
            yield Sentences(self._verdict())
            yield from (open_ or next((one for one in self.each if any(one.untimed)), self.each[0])).timed_in_part()
        for work, part in self.by_work().items():
            yield from (BLANK, Headline(work, level=2)) if work else ()
            yield from part.tables_by_size()
        lacking = {each.verb: each for one in self.each for each in one.obstacles if each}
        said = [
            f"{MARK} best of its row" * (len(self.names) > 1),
            "times at best are floors" * self.each[0].answers[0].is_floor,
            INTERVAL_IN_WORDS * any(has_interval(one.facts) for one in self.each),
            *(f"{each.said}: of a chip {_IF_IT_RAN[verb]}" for verb, each in lacking.items()),
        ]
        yield Sentences(["; ".join(filter(None, said))], "quiet")
        yield Sentences(self._would_run())
        yield BLANK
        yield from self.each[0].assumption_sections()

    def by_work(self) -> Mapping[str, SideBySideBySize]:
        """The answers about each work at every size, by its name; all of them where they are about one."""
        works = getattr(self.each[0], "parts", None)
        if works is None:
            return {"": self}
        parts: list[Any] = [getattr(one, "parts", {}) for one in self.each]
        return {work: SideBySideBySize(self.sizes, tuple(each[work] for each in parts)) for work in works}

    def tables_by_size(self) -> Iterator[Section]:
        """A table for each figure that the sizes change: a row a size, a column an answer."""
        for name in self._shown():
            yield from (BLANK, Sentences([name], "strong"), self._table(name))
            is_ranked = len(self.names) > 1 and all(one.ranked and one.is_one_work for one in self.each)
            if name == self.each[0].headline and is_ranked:
                rows = [self._row(sizes, one.ratio_cells()) for sizes, one in zip(self.sizes, self.each, strict=True)]
                table = Table(self._columns(), rows, TIMES_THE_LEAST)
                yield from (BLANK, Sentences([TIMES_THE_LEAST], "strong"), table)

    def _verdict(self) -> list[str]:
        """Who has the lowest floor and who is the cheapest, from which size on, in runs; and where nothing fits."""
        costs = zip(*(one.ranked_costs() for one in self.each), strict=False)
        said = [[[f"{by}{_lead(each)}" for by, each in one.of_each_policy()] for one in self.each]]
        said += [
            [
                [_alike(who, f"has the lowest {name}", f"have the lowest {name}") for who in [one.best(name)] if who]
                for one, name in zip(self.each, names, strict=True)
            ]
            for names in costs
        ]
        return [line for each in said for line in self._in_runs(each)]

    def _in_runs(self, said: Sequence[Sequence[str]]) -> list[str]:
        """What is said at each size, once for sizes one after the other of which the same is said."""
        runs = [list(run) for _, run in groupby(zip(said, self.sizes, strict=True), lambda pair: pair[0])]
        found = []
        for run in runs:
            first, last = _named(run[0][1]), _named(run[-1][1])
            where = "" if len(runs) == 1 else f" at {first}" if first == last else f" from {first} to {last}"
            found += [line + where for line in run[0][0]]
        return found

    def _would_run(self) -> list[str]:
        """What would fit, or run, of the first that does not."""
        for sizes, one in zip(self.sizes, self.each, strict=True):
            for who, answer, fits in zip(one.names, one.answers, one.fitting, strict=True):
                if not fits and (instead := getattr(answer, "fitting", lambda: None)()):
                    return [f"{who} at {_named(sizes)} would {answer.obstacle.verb}: {instead}"]
        return []

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
            cells = fact_cells(self.names, facts, one.best(name), one.partial.get(name, ()))
            pairs = zip(cells, one.obstacles, strict=True)
            rows.append(self._row(sizes, [_with_obstacle(cell, None if is_room else each) for cell, each in pairs]))
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
        pairs = zip(self.sizes, tables, strict=True)
        rows = [[*sizes.values(), *row] for sizes, (_, found, _) in pairs for row in found]
        return [*self.sizes[0], *tables[0][0]], rows, tables[0][2]

    def to_dict(self) -> dict[str, Any]:
        """The comparison at each size (schema ``roofline/comparison-by-size/1``)."""
        return {
            "schema": "roofline/comparison-by-size/1",
            "names": list(self.names),
            "sizes": {name: [each[name] for each in self.sizes] for name in self.sizes[0]},
            "comparisons": [each.to_dict() for each in self.each],
        }


def _alike(names: Sequence[str], one: str, several: str) -> str:
    """Who is the best, with the verb of one or that of several.

    >>> _alike(["h200"], "is the cheapest", "are the cheapest"), _alike(["a", "b", "c"], "leads", "lead")
    ('h200 is the cheapest', 'a, b and c alike lead')
    """
    return f"{in_a_row(names)} alike {several}" if len(names) > 1 else f"{names[0]} {one}"


def _few(names: Sequence[str]) -> str:
    """Names where they are few, else how many answers they are."""
    return ", ".join(names) if len(names) <= FEW else f"{len(names)} answers"


def _lead(one: SideBySide) -> str:
    """Who has the lowest floor of those that it fits on."""
    if not any(one.fitting):
        return f"nothing {'fits' if one.all_by_room else 'runs'}"
    if one.is_even:
        return one.even_in_words()
    if one.ranked and (unless := one.unless(one.headline, "has the lowest floor")):
        return unless
    where = _TIMED_WHOLE if one.ranked and one.may_be_beaten(one.headline) else ""
    return "no time is known" if one.fastest is None else f"{one.lead}{where}"


def _with_obstacle(cell: Cell, obstacle: Obstacle | None) -> Cell:
    """A figure of what cannot be run: that of a chip on which it could, where there is one."""
    if obstacle is None:
        return cell
    if isinstance(cell, Amount):
        return Amount(cell.value, cell.unit, f"{obstacle.said}: {cell}".rstrip(MARK))
    return Words(obstacle.said)


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in sizes.items())


def check_number(sizes: Sequence[Mapping[str, int]]) -> None:
    """Refuse more sizes than are put side by side."""
    if len(sizes) > MOST_SIZES:
        hint = "sweep takes several machines, formats and millions of sizes, and draws them"
        raise InputError(f"answers side by side take up to {MOST_SIZES} sizes, not {len(sizes):,}", hint=hint)


def beside_at_sizes(sizes: Sequence[Mapping[str, int]], ask: Callable[[Mapping[str, int]], Any]) -> SideBySideBySize:
    """Ask for the answers side by side, or for one alone, at each of several sizes."""
    check_number(sizes)
    each = []
    for one in map(ask, sizes):
        if not isinstance(one, SideBySide):
            _check_kind([one])
            one = SideBySide((_machine(one).target,), (one,))
        each.append(one)
    return SideBySideBySize(tuple(sizes), tuple(each))


#: What stages of a pipeline wait, beside the times on resources.
WAITING = "waiting for other stages"

#: The share of a step from which on a resource's time is shown.
LEAST_SHARE = 0.01

#: The whole time on a resource is told for the operations that wait for it where it has this share of the difference.
_EXPLAINS = 0.5


def times_by_resource(answer: Comparable, step: Any) -> dict[str, float]:
    """Seconds on each resource, the longest first, and the waits of stages."""
    found = {name: float(time) for name, time in step.times.items() if time}
    found = dict(sorted(found.items(), key=lambda each: -each[1]))
    whole = answer.lower if hasattr(answer, "stages") and hasattr(answer, "lower") else step.lower
    waits = float(whole) - max(found.values(), default=0.0)
    return {**found, **({WAITING: waits} if waits > 1e-9 * float(whole) else {})}


def resource_facts(answer: Comparable) -> Iterator[Fact]:
    """The time on each resource of each phase as facts; those of a hundredth of the step or more are shown."""
    for phase, step in answer.steps().items():
        for name, time in times_by_resource(answer, step).items():
            is_shown = time >= LEAST_SHARE * float(step.lower)
            said = name if name == WAITING else f"time on {name}"
            yield Fact(f"{phase} {said}".lstrip(), time, "s", "less", timed=True, is_shown=is_shown)


def why_slower(first: tuple[Comparable, Any], other: tuple[Comparable, Any], name: str) -> str:
    """What decides between two floors, of answers and their steps: what binds the longer, or what its stages wait."""
    mine, theirs = times_by_resource(*first), times_by_resource(*other)
    waits = theirs.pop(WAITING, 0.0), mine.pop(WAITING, 0.0)
    what = next(iter(theirs))
    if waits[0] - waits[1] > theirs[what] - max(mine.values()):
        what, theirs, mine = WAITING, {WAITING: waits[0]}, {WAITING: waits[1]}
    return f"{what} takes {_beside(mine.get(what, 0.0), theirs[what], name)}"


def why_slower_in_turn(first: tuple[Comparable, Any], other: tuple[Comparable, Any], name: str) -> str:
    """What decides between two times op by op: the operations that one resource binds; nothing where none does.

    Where all the time on that resource explains it as well, that is told: a row of the comparison has the same.
    """
    mine, theirs = (
        sums_by_name((str(part.bound_by), float(part.lower)) for part in step.ops) for _, step in (first, other)
    )
    what = max(theirs, key=lambda each: theirs[each] - mine.get(each, 0.0), default="")
    if not what or theirs[what] <= mine.get(what, 0.0) * (1 + EQUAL):
        return ""
    less, more = (times_by_resource(*each).get(what, 0.0) for each in (first, other))
    if more - less >= _EXPLAINS * (theirs[what] - mine.get(what, 0.0)):
        return f"time on {what} is {_beside(less, more, name)}"
    return f"operations that wait for {what} take {_beside(mine.get(what, 0.0), theirs[what], name)}"


def _beside(mine: float, theirs: float, name: str) -> str:
    return f"{format_amount(mine, 's')}, and {format_amount(theirs, 's')} of {name}"


#: The longest hop that is tried, the shortest, and how close a break-even is found.
LONGEST, SHORTEST, CLOSE = 1.0, 1e-9, 1.002

#: After so many latencies the middle of both ends is tried.
STRAIGHT = 12

#: Asks for the answer at a place again, with other figures of its machine.
Again = Callable[[int, Mapping[str, float]], Any]


def with_break_evens(found: SideBySide, again: Again) -> SideBySide:
    """The same answers, with the latency at which one that lacks it is as good as the best that is timed whole."""

    @cache  # a time and what it costs are at the same latencies
    def asked(at: int, figures: tuple[str, ...], latency: float) -> Any:
        return again(at, dict.fromkeys(figures, latency))

    contests = found.parts.values() if isinstance(found, SideBySideByWork) else [found]
    at_of: list[dict[str, float]] = [{} for _ in found.names]
    ways: list[dict[str, str]] = [{} for _ in found.names]
    for one in contests:
        places = [next(at for at, each in enumerate(found.answers) if each is answer) for answer in one.answers]
        for name in (one.headline, *one.ranked_costs()) if len(set(one.policies)) == 1 else ():
            for at, of_each in zip(places, one.challengers(name), strict=True):
                again_at = partial(asked, at, tuple(of_each or ()))
                longest = None if of_each is None else _break_even(one, name, again_at)
                if longest is not None:
                    at_of[at][name], ways[at][name] = longest, _way(again_at(longest))
    return replace(found, break_evens=tuple(at_of), ways=tuple(ways)) if any(at_of) else found


def _way(answer: Any) -> str:
    """The algorithms of a step's collectives, and its hops; nothing where that is not one number of one step.

    At a long hop other algorithms are the fastest than where none is known.
    """
    steps = answer.steps()
    step = steps.get("decode") or (next(iter(steps.values())) if len(steps) == 1 else None)
    if step is None:
        return ""
    names = dict.fromkeys(name for part in step.ops for name in part.op.options.get("algorithms", ()))
    hops = sum(use.amount for use in step.uses if use.quantity == "hops")
    return f"then by {in_a_row(list(names))}, in {hops:,} hops" if names and is_number(hops) else ""


def _break_even(found: SideBySide, name: str, asked: Callable[[float], Comparable]) -> float | None:
    """The latency at which a fact is that of the best that is timed whole, between two that are better and worse.

    Times are straight lines in it, piece by piece: the next one tried is where that through both ends crosses, with an
    end's distance halved where it stands twice (the Illinois method); after a few the middle, as this always ends.
    """
    best = found.best_whole(name)

    def worse(latency: float) -> float | None:
        try:
            fact = next((fact for fact in asked(latency).facts() if fact.name == name), None)
        except RooflineError:
            return None
        if fact is None or not best or not is_number(fact.value) or not fact.value:
            return None
        return float(fact.value / best if fact.better == "less" else best / fact.value) - 1

    low, high = SHORTEST, LONGEST
    below, above = worse(low), worse(high)
    if below is None or above is None or not below < 0 <= above:
        return None
    side = tried = 0
    while high / low > CLOSE:
        tried += 1
        middle = low - (high - low) * below / (above - below) if tried < STRAIGHT else (low * high) ** 0.5
        middle = min(max(middle, low * CLOSE**0.75), high / CLOSE**0.75)
        now = worse(middle)
        if now is not None and now < 0:
            low, below, above, side = middle, now, above / 2 if side < 0 else above, -1
        else:
            high, above, below, side = middle, now or 0.0, below / 2 if side > 0 else below, 1
    return float((low * high) ** 0.5)


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
        return {work: self.some(own, (self.places[at] for at in own)) for work, own in each.items()}

    @property
    def kind(self) -> str:
        """What kind of work they are about, in a word."""
        return "model" if all(hasattr(answer, "model") for answer in self.answers) else "bytes"

    @property
    def best_of_its(self) -> str:
        return f"best of its {self.kind}"

    def best(self, name: str) -> tuple[str, ...]:
        SideBySide.best(self, name)  # refuses a fact that no answer has
        found = self._each(lambda part: [who in part.best(name) if name in part.facts else False for who in part.names])
        return tuple(who for who, is_best in zip(self.names, found, strict=True) if is_best)

    @property
    def is_one_work(self) -> bool:
        return any(len(part.answers) > 1 for part in self.parts.values())

    @property
    def fastest(self) -> None:
        """None: each work has its own, ``parts[work].fastest``."""

    @property
    def is_even(self) -> bool:
        return all(part.is_even for part in self.parts.values())

    @property
    def times_the_best(self) -> list[float | None]:
        return self._each(lambda part: part.times_the_best or [None] * len(part.names))

    def ratio_cells(self) -> list[Cell]:
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
        return self._said_once(SideBySide.verdicts)

    def _said_once(self, of: Callable[[SideBySide], Iterable[str]]) -> list[str]:
        """What is said of each work that several answers are about, once for works of which the same is said."""
        several = {work: part for work, part in self.parts.items() if len(part.names) > 1}
        found = grouped((said, work) for work, part in several.items() for said in of(part))
        all_of_them = f"all {len(self.parts)} {'models' if self.kind == 'model' else 'amounts'}"
        every = len(self.parts) if len(self.parts) > 2 else 0
        return [f"{all_of_them if len(at) == every else in_a_row(at)}: {said}" for said, at in found.items()]

    def cheapest(self) -> Iterator[str]:
        for work, part in self.parts.items():
            yield from (f"{work}: {said}" for said in part.cheapest())

    @property
    def machines(self) -> tuple[str, ...]:
        return self.places

    def works_as_data(self) -> dict[str, list[Any]]:
        return SideBySide.works_as_data(self) or {self.kind: list(self.works)}

    @property
    def lead(self) -> str:
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
        yield Table((*heads, *map(self._column, own)), rows, FACTS)
        if of_place:
            there = dict.fromkeys(self.places)
            rows = [Row((place, *(self._there(place, each) for each in of_place.values()))) for place in there]
            yield from (BLANK, Sentences([f"the same whatever the {self.kind}"], "quiet"))
            yield Table((Column("on"), *map(self._column, of_place)), rows, MACHINES)
            yield BLANK
        if alike:
            said = ", ".join(f"{name} {each[0]}" for name, each in alike.items())
            yield Sentences([f"the same of all: {said}"], "quiet")

    def _column(self, name: str) -> Column:
        return Column(name, "right", "words", meaning=self.column_of(name))

    def _is_of_place(self, name: str, cells: Sequence[Cell]) -> bool:
        """Whether a fact is the same for all works on a machine, and several run there.

        The rate of a format is so too where works of other formats lack it.
        """
        is_rate = any(fact is not None and fact.unit in ("FLOP/s", "B/s") for fact in self.facts.get(name, ()))
        said = grouped((place, str(cell)) for place, cell in zip(self.places, cells, strict=True))
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
