"""What every answer has in common: it shows itself in a terminal and a notebook, and gives itself as plain data.

An answer derives from :class:`Answer`, yields its sections, and says itself in one line. It imports no renderer, and
nothing that stands above it: what it offers from there stands in :data:`CAPABILITIES`.
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from inspect import signature
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from roofline.counts import parse_size
from roofline.errors import InputError, LayoutError, OneSizeError, UnsplitError, a_or_an, check_one_of
from roofline.frozen import NamedTuple, replace
from roofline.meanings import SAID_IN_PYTHON, attribute_meant
from roofline.quantity import in_a_row
from roofline.sections import (
    Amount,
    Column,
    CrossTable,
    Headline,
    Row,
    Section,
    ShareBar,
    Table,
    YesNo,
    figures,
    joined,
)
from roofline.signatures import check_methods, described, either, spelled, with_named, wrong_kind
from roofline.sizes import OF_PROGRAMS, check_itself, check_listed, grouped, is_array, is_number, is_symbol, of_python

Function = TypeVar("Function", bound=Callable[..., Any])

#: What answers offer that is worked out in rooms above them: ``module:function``, loaded when it is called.
CAPABILITIES = {
    "Answer.interactive": "roofline.web.report:Interactive",
    "Answer.notebook": "roofline.web.report:notebook",
    "Answer.plot": "roofline.charts.answer_charts:plot_answer",
    "Answer.save": "roofline.web.report:save",
    "Comparable.compare": "roofline.bounds.comparison:compare",
    "Comparable.facts": "roofline.bounds.comparison:facts_of_one",
    "Comparable.operations": "roofline.bounds.bound:operations_as_data",
    "Bound.advise": "roofline.bounds.advise:advise",
    "Bound.with_policy": "roofline.bounds.case:with_policy",
    "Bound.scores_on_chip": "roofline.bounds.case:scores_on_chip",
    "Bound.formula": "roofline.bounds.closed_form:closed_form",
    "Machine.figure": "roofline.hardware.figures:named_figure",
    "Machine.ratio": "roofline.hardware.figures:ratio",
    "Machine.sections": "roofline.bounds.chip_list:detail",
    "Machine.tables_as_data": "roofline.bounds.chip_list:figure_tables",
    "Machine.to_dict": "roofline.bounds.chip_list:chip_data",
    "Machine.to_toml": "roofline.hardware.schema:machine_toml",
    "first_plan": "roofline.bounds.sharding_plans:first_plan",
    "lay_out": "roofline.bounds.sharding_plans:lay_out",
    "plan_for_rows": "roofline.bounds.sharding_plans:plan_for_rows",
    "ranked_plans": "roofline.bounds.sharding_plans:ranked",
    "chip": "roofline.hardware.targets:chip",
    "is_called": "roofline.hardware.targets:is_called",
    "told_apart": "roofline.hardware.figures:told_apart",
    "Model.sections": "roofline.models.summary:model_card",
    "Serving.advise": "roofline.models.serving.advice:advise",
    "Serving.narrower_cache": "roofline.models.serving.advice:narrower_cache",
    "Serving.formula": "roofline.models.closed_form:serving_formula",
    "serve_bound.arrays": "roofline.models.closed_form:step_over_arrays",
    "solve_step": "roofline.models.serving.limits:solve_step",
    "Training.advise": "roofline.models.training.advice:advise",
    "Training.formula": "roofline.models.closed_form:training_formula",
    "Training.best_mix": "roofline.models.training.advice:best_mix",
    "Training.layouts_over_slices": "roofline.models.training.advice:layouts_over_slices",
    "Training.limits": "roofline.models.training.advice:limits",
    "estimated": "roofline.estimates:estimated",
    "measured_kernels": "roofline.measurement:measured_kernels",
    "measured_device": "roofline.measurement.accelerator:measured_device",
    "beside_at_sizes": "roofline.bounds.comparison:beside_at_sizes",
    "with_break_evens": "roofline.bounds.comparison:with_break_evens",
    "beside_by_work": "roofline.bounds.comparison:beside_by_work",
    "refuse_unknown": "roofline.models.config:refuse_unknown",
    "model_names": "roofline.models.config:names",
    "search_training": "roofline.plans.training:search_training",
}

#: Methods that only some answers have, and which.
ONLY_SOME = {
    "advise": "bounds, answers of llm and training steps say what would be faster",
    "compare": "bounds, advice, plans of sharded lines, and answers of llm, train, comm and solve, stand beside others "
    "of their kind",
    "explain": "bounds, machines, plans, answers of comm, llm and training steps, also side by side, "
    "say where figures come from",
    "formula": "bounds, answers of llm and training steps have a closed form; a solution has form and printed('latex')",
}

#: The attributes that hold an answer's times in seconds, and what people call them.
_TIMES = (
    "lower", "op_by_op", "upper", "estimate", "time", "time_to_first_token", "time_per_token", "prefill", "decode",
)  # fmt: skip
_TIME_WORDS = frozenset((*_TIMES, "seconds", "latency", "runtime", "duration", "times"))

#: Attributes that are parts of an answer, and lists of them, which have what the answer has not itself.
_PARTS = ("decode", "prefill", "bound", "best")
_LISTS_OF_PARTS = ("answers", "each")

_TABLES = (Table, CrossTable)

#: The table of operations, by name.
OPERATIONS = "operations"


class Answer(ABC):
    """An answer: ``sections`` are what a reader sees, ``one_line`` what a prompt shows."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_methods(cls)

    @abstractmethod
    def sections(self) -> Iterable[Section]:
        """What the answer says, part by part."""

    def sections_in_full(self) -> Iterable[Section]:
        """What its tables are taken from; a table that shows a reader a part of its rows has them all there."""
        return self.sections()

    def one_line(self) -> str:
        """The answer in one line, as a prompt shows it; a dataclass with one says ``repr=False``."""
        subject = next((each.subject for each in self.sections() if isinstance(each, Headline)), "")
        return f"{type(self).__name__}: {subject}"

    def table(self) -> Part:
        """Its tables alone, with every row, under what it is about; of an answer that shows none that of its data.

        >>> from roofline import bound
        >>> [each.name for each in bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100").table().tables()]
        ['resources', 'operations']
        """
        said = list(self.sections_in_full())
        tables = [each.in_full() if isinstance(each, Table) else each for each in said if isinstance(each, _TABLES)]
        tables += [] if tables else [*self.tables_as_data().values()][:1]
        if not tables:
            hint = either("end the name in .html, .json or .txt", "to_dict() gives its figures")
            raise InputError(f"{a_or_an(type(self).__name__)} has no table", hint=hint)
        return Part([*(each for each in said[:1] if isinstance(each, Headline)), *tables])

    def to_pandas(self, table: str | None = None) -> Any:
        """Its operations as a data frame of pandas, where it has any, else its first table; or the one named ``table``.

        Of several answers side by side it is a row an answer, and ``to_pandas("operations")`` a row an operation.
        ``attrs["units"]`` has the units. The columns of operations are the same in every answer. ``"facts"`` is the
        answer in one row, as one of several side by side: its times, what was expected and measured, rates and memory.
        A column of figures without any holds NaN, as do times of which the machine has no rate for a part: the column
        ``incomplete`` of facts, there where any is, and ``attrs["incomplete"]`` of every frame, say for what.

        >>> from roofline import bound
        >>> answer = bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100")
        >>> frame = answer.to_pandas()
        >>> round(float(frame["lower"].sum()) * 1e6, 1), frame.attrs["units"]["lower"], frame["bound_by"].tolist()
        (40.7, 's', ['hbm'])
        >>> answer.to_pandas("resources")["resource"].tolist()
        ['tensor', 'hbm']
        >>> each = [bound("bf16[64, 8192] * bf16[8192, 8192]", on=chip, estimate=True) for chip in ("h100", "a100")]
        >>> [round(float(one.to_pandas("facts")["expected"][0]) * 1e6, 1) for one in each]
        [49.9, 99.2]
        """
        names, rows, units = self.plain_table(table)
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise InputError("pandas is not installed", hint="pip install pandas, or save('answer.csv')") from None
        frame = pandas.DataFrame(rows, columns=names)
        for at, name in enumerate(names):
            if rows and all(row[at] is None for row in rows):
                frame[name] = float("nan")
        frame.attrs |= {"units": units, "incomplete": list(getattr(self, "incomplete", ()))}
        return frame

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """Names, rows and units of a table as a data frame and a CSV file have them: as :meth:`to_pandas` chooses."""
        own = self.operations_as_data() if table in (None, OPERATIONS) else None
        if own is not None:
            return plain_table(own)
        more = self.tables_as_data()
        chosen = more.get(table or "")
        return plain_table(self.table().named(table, tuple(more)) if chosen is None else chosen)

    def tables_as_data(self) -> Mapping[str, Table]:
        """Tables of a data frame, by name, beside those that are shown."""
        return {}

    def operations_as_data(self) -> Table | None:
        """Every operation with all that is known of it, in the same columns for all answers; None of one without."""
        return None

    def plot(self, kind: str | None = None, *, theme: str = "light") -> Any:
        """Draw it: its usual picture, or one of another ``kind``; an answer without one says what has.

        >>> from roofline import bound
        >>> bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100").plot()
        <Chart 'Roofline of NVIDIA H100 SXM5 80GB': roofline with 2 lines, 1 point, 1 ridge>
        """
        return capability("Answer.plot")(self, kind, theme=theme)

    def save(
        self,
        path: str | os.PathLike[str],
        table: str | None = None,
        *,
        width: int | None = None,
        theme: str | None = None,
        title: str = "",
    ) -> None:
        """Write it; the ending says how.

        ``.html`` is a report with sliders, ``.json`` plain data, ``.txt`` what a terminal shows, ``.csv`` the
        table of a data frame, or that of the name ``table``, and ``.svg``, ``.png`` or ``.pdf`` its usual picture,
        ``width`` pixels wide and in the ``theme`` light or dark. A page or a picture may have a ``title`` of yours. A
        chip is written as a machine file by ``.toml``.
        """
        capability("Answer.save")(self, path, table, width, theme, title)

    def interactive(self, height: int = 760) -> Any:
        """The report with sliders as a notebook shows it: in a frame of its own that may only run its script.

        >>> from roofline import bound
        >>> bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100").interactive()
        <Interactive report of bf16[64, 8192] * bf16[8192, 8192] -> bf16[64, 8192]>
        """
        return capability("Answer.interactive")(self, height)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # of obj=None Python adds no guess of its own to what is said
            if name in ONLY_SOME:
                of = f"; bound(on=…) of it is one, as in bound(on='h100').{name}()"
                hint = ONLY_SOME[name] + of * callable(getattr(type(self), "bound", None))
                raise AttributeError(f"{a_or_an(type(self).__name__)} has no {name}(): {hint}", obj=None)
            said = _elsewhere(self, name) or SAID_IN_PYTHON.get(name)
            if not said and name in _TIME_WORDS:
                there = [each for each in _TIMES if each in dir(type(self))]
                said = f"its times are {', '.join(there)}" * bool(there)
            if said:
                raise AttributeError(f"{a_or_an(type(self).__name__)} has no {name}: {said}", obj=None)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<{self.one_line()}>"

    def __str__(self) -> str:
        """What ``print`` shows: the text of a terminal, as wide as the one that is there."""
        from shutil import get_terminal_size

        from roofline.rendering.terminal import as_text

        return as_text(self.sections(), get_terminal_size((100, 24)).columns).rstrip("\n")

    def __rich__(self) -> Any:
        """What a terminal shows."""
        from roofline.rendering.terminal import terminal

        return terminal(self.sections())

    def _repr_html_(self) -> str:
        """What it says, as HTML."""
        from roofline.rendering.html import html

        return html(self.sections())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows, once: what it says with what would be faster, and its picture."""
        return {"text/html": capability("Answer.notebook")(self), "text/plain": repr(self)}


check_methods(Answer)


def _elsewhere(answer: Any, name: str) -> str:
    """Where an answer has what a word asks for, which is no attribute of it; nothing where it has it nowhere."""
    words, meaning = attribute_meant(name)
    places = [] if name.startswith("_") else list(_places(answer, words, "answer"))
    if not places:
        return str(getattr(type(answer), "INSTEAD", {}).get(words[0], ""))
    return f"there {'are' if len(places) > 1 else 'is'} {in_a_row(places)}{meaning and ', '}{meaning}"


#: The attributes of a class, which Python gathers anew each time.
_names = cache(dir)


def _places(answer: Any, words: Sequence[str], path: str) -> Iterator[str]:
    """The expressions that say an attribute, the first of ``words``: of the answer, of a column, or of its parts."""
    has = _names(answer.__class__)
    if words[0] in has:
        yield f"{path}.{words[0]}"
        return
    column = next((word for word in words if word in answer.columns), None) if "columns" in has else None
    if column is not None:
        yield f"{path}[{column!r}]"
        return
    parts = {f"{path}.{name}": getattr(answer, name) for name in _PARTS if name in has}
    lists = {name: getattr(answer, name) for name in _LISTS_OF_PARTS if name in has}
    parts |= {f"{path}.{name}[0]": held[0] for name, held in lists.items() if isinstance(held, list | tuple) and held}
    for at, part in parts.items():
        yield from () if part is None or callable(part) else _places(part, words, at)


#: The unit of how many times as fast something is.
TIMES = "x"


class Fact(NamedTuple):
    """One thing that answers of a kind say: a number in ``unit`` or words; comparisons align facts by ``name``.

    ``source`` says where a figure of a chip is from, ``data`` is what a data frame has in place of words, ``column``
    what it calls the fact, where that does not follow from its name. ``timed`` says that the number follows from the
    time of the work. ``interval`` is where 80% of runs are expected; its ends are facts of a data frame too, which a
    reader sees behind the number alone. ``held`` says how many runs it held in place of 80%, where these are far fewer;
    a data frame then lacks its ends. It is ``extrapolated`` where none was measured.
    ``is_usual``: it is left out where all say so. ``form`` is that of the time behind it, and ``dollars_of`` what a
    million of costs so many dollars, ``time_of`` what its time is of, where answers hold several steps. ``kind`` is
    ``floor`` of a time at best or what is attainable, ``binds`` of what binds a step, and of a rate its place.
    """

    name: str
    value: Any
    unit: str = ""
    better: Literal["", "less", "more"] = ""
    source: str = ""
    data: str | None = None
    column: str = ""
    timed: bool = False
    interval: tuple[float, float] | None = None
    is_shown: bool = True
    held: str = ""
    is_usual: bool = False
    form: str = "lower"
    dollars_of: str = ""
    time_of: str = ""
    kind: str = ""


class Obstacle(NamedTuple):
    """Why something cannot be run as asked: it does not fit the memory, or does not run, and ``why``."""

    verb: Literal["fit", "run"]
    why: str

    @property
    def said(self) -> str:
        """That it does not."""
        return f"does not {self.verb}"


#: Share of runs that an interval of what is expected is made to hold.
MADE_TO_HOLD = 0.8


def expected_facts(name: str, estimate: Any, expectation: Any, of: str = "") -> Iterator[Fact]:
    """What to expect and the interval of it, where an estimate by constants was asked for and they are known.

    ``of`` begins their names in a data frame.

    >>> from roofline import bound
    >>> answer = bound("bf16[4096, 4096] * bf16[4096, 4096]", on="h100", estimate=True)
    >>> [fact.name for fact in expected_facts("expected", answer.estimate, answer.expectation)]
    ['expected', 'expected, 80% from', 'expected, 80% to']
    """
    if expectation is None:
        return
    ends = (expectation.low, expectation.high)
    interval = ends if is_number(estimate) and ends[0] <= estimate <= ends[1] else None
    coverage = MADE_TO_HOLD if interval is None else expectation.coverage
    held = "" if coverage == MADE_TO_HOLD else expectation.holds
    yield Fact(name, estimate, "s", "less", column=f"{of}expected", timed=True, interval=interval, held=held)
    share = "" if held else "80% "  # an interval that is extrapolated has ends and no share
    sides = (("from", "low"), ("to", "high"))
    for (side, word), end in zip(sides, () if held and coverage is not None else interval or (), strict=False):
        yield Fact(f"{name}, {share}{side}", end, "s", column=f"{of}{word}", timed=True, is_shown=False)


class Comparable(Answer):
    """An answer that can stand beside others of its kind."""

    __slots__ = ()

    #: The machine, as a person reads it.
    target: Any

    @property
    def is_floor(self) -> bool:
        """Whether its first fact is a time that cannot be beaten."""
        return True

    @property
    def subject(self) -> str:
        """What several of its kind, side by side, are about: the subject of its own headline."""
        return next((each.subject for each in self.sections() if isinstance(each, Headline)), "")

    def asked_at(self) -> list[str]:
        """The phases and sizes that it is about, in words, as a title has them."""
        return []

    @abstractmethod
    def facts(self) -> Iterable[Fact]:
        """What it says: the time at best first, then the rest in the order of a table."""

    def steps(self) -> Mapping[str, Any]:
        """The bounds whose operations it has, by phase: a step without phases has the phase ``""``."""
        return {}

    def operations_as_data(self) -> Table | None:
        """The operations of each step, a row each."""
        found: Table | None = capability("Comparable.operations")(self.steps())
        return found

    def tables_as_data(self) -> Mapping[str, Table]:
        """``facts`` is a row of what it says; ``memory`` is what a chip holds, a row a part.

        >>> from roofline import llm
        >>> llm("llama-3-8b", on="h100", context=8192).to_pandas("memory")["part"].tolist()
        ['weights', 'kv', 'activations']
        """
        said = capability("Comparable.facts")(self)
        found = {} if said is None else {"facts": said}
        needed = self.needed()
        if needed is None or is_array(needed.total) or is_symbol(needed.total):
            return found
        has = needed.capacity
        parts = needed.parts.items()
        rows = [Row((part, Amount(size, "B"), ShareBar(size / has) if has else "")) for part, size in parts]
        return found | {"memory": Table([Column("part"), *figures("bytes", "share")], rows)}

    def idle_copies(self) -> str:
        """That some of its chips do nothing of their own, and what would put them to use; or nothing."""
        return ""

    def off_its_unit(self) -> str:
        """That its matrix products run on another unit than the matrix unit, and which format would not; or nothing."""
        return ""

    def weights_alone(self) -> str:
        """That weights alone were asked for in a format of eight bits, and what asks for the rest in it; or nothing."""
        return ""

    def made_to_fit(self) -> str:
        """The fact that was chosen so that it fits, as nobody gave it, as ``microbatches``; or nothing."""
        return ""

    def facts_at(self) -> str:
        """The sizes that its facts are at, where these are not those of all of them; or nothing."""
        return ""

    def needed(self) -> Any:
        """The memory that it needs on each chip, a :class:`~roofline.bounds.memory.Footprint`; None: not asked."""
        return None

    @property
    def obstacle(self) -> Obstacle | None:
        """Why it cannot be run as asked; None where it can, or nobody knows.

        >>> from roofline import llm
        >>> llm("llama-3-70b", on="h100", context=8192).obstacle
        Obstacle(verb='fit', why='needs 144 GB, hbm has 84.9 GB')
        """
        needed = self.needed()
        return None if needed is None else needed.obstacle

    def obstacle_in_words(self, instead: str | None = None, who: str = "") -> str:
        """That it cannot be run and why, with what could be ``instead``, ``who`` is the machine of several."""
        if (obstacle := self.obstacle) is None:
            return ""
        would = f" · would {obstacle.verb}: {instead}" if instead else ""
        return f"{obstacle.said.upper()}{f' on {who}' if who else ''}: {obstacle.why}{would}"

    def assumed(self) -> Iterable[str]:
        """What it assumes."""
        return getattr(self, "assumptions", ())

    def compare(self, *others: Any, names: Sequence[str] = ()) -> Any:
        """This answer beside others of its kind: :func:`roofline.bounds.comparison.compare`."""
        return capability("Comparable.compare")(self, *others, names=names)


class NoTime(Comparable):
    """An answer that is a size, a rate, an intensity or a number of tokens or chips: no time, and so no floor."""

    __slots__ = ()

    @property
    def is_floor(self) -> bool:
        """Its first fact is no time."""
        return False


class Part(Answer):
    """Some sections of an answer, shown by themselves."""

    __slots__ = ("_sections",)

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = tuple(sections)

    def sections(self) -> tuple[Section, ...]:
        return self._sections

    def tables(self) -> list[Table]:
        """Its tables."""
        found = (each.table() if isinstance(each, CrossTable) else each for each in self._sections)
        return [each for each in found if isinstance(each, Table)]

    def named(self, name: str | None = None, more: Iterable[str] = ()) -> Table:
        """The table of a name, that of the first where none is said; those of one name are one, under each other.

        ``more`` are the names of other tables, which an error names too.
        """
        found = grouped((each.name, each) for each in self.tables())
        return joined(found[chosen_table(name, [*found, *more])])


#: How the name of a fact at the time to expect ends.
AS_EXPECTED = ", expected"

#: How the name of a fact at another time than the floor and what to expect ends, by its form.
OF_FORM = {"op_by_op": ", op by op", "upper": ", at worst", "estimate": ", estimated"}

#: The same of costs, which have the name alone at the floor.
COST_OF_FORM = {"lower": "", "expected": AS_EXPECTED, **OF_FORM}

#: What a reader sees in place of a column's name; files and data keep the name.
READ_AS = {
    "lower": "at best", "op_by_op": "op by op", "upper": "at worst", "bound_by": "bound by", "time_per_token": "TPOT",
    "tokens_per_second": "tokens/s", "tokens_per_second_per_user": "each user",
    "tokens_per_second_per_chip": "each chip", "cost_per_million": "$ a million", "within": "in time",
}  # fmt: skip

#: The other way round, with heads that are not those of a table of sizes; a fact or a column may say its own name.
NAMES_AS_DATA = {head: name for name, head in READ_AS.items()} | {
    "FLOPs": "flops", "FLOP/B": "intensity", "kernel by kernel": "op_by_op", "ridge": "critical_intensity",
    "an hour": "cost_per_hour", "all overlaps": "lower", "none does": "upper", "needs": "memory", "each link": "sent",
    "bytes take": "wire_time", "hops take": "hop_time", "bytes moved": "bytes", "KV per token": "kv_per_token",
}  # fmt: skip


def chosen_table(name: str | None, names: Collection[str]) -> str:
    """The name of a table that was asked for, the first where none was."""
    chosen = next(iter(names)) if name is None else name
    check_one_of(f"no table {chosen!r}", chosen, names, "tables")
    return chosen


def with_units(names: Iterable[str], units: Mapping[str, str]) -> list[str]:
    """The head of a CSV file: names of columns with their units behind.

    >>> with_units(["bound_by", "lower"], {"lower": "s"})
    ['bound_by', 'lower [s]']
    """
    return [f"{name} [{units[name]}]" if units.get(name) else name for name in names]


def plain_table(table: Table) -> tuple[list[str], list[list[Any]], dict[str, str]]:
    """The names of a table's columns, its rows with figures as numbers, and the units of its columns.

    Yes and no are truth values; where a column of figures has none, it is None. Figures of one column in several units
    have a column ``unit``, or one for each such column where the units of a row differ.

    >>> from roofline.sections import Column, Row, figures
    >>> plain_table(Table((Column(), *figures("time")), [Row(("hbm", Amount(8.45e-5, "s")))]))
    (['name', 'time'], [['hbm', 8.45e-05]], {'time': 's'})
    """
    names: list[str] = []
    for at, column in enumerate(table.columns):
        spelt = column.name.replace("-\n", "").replace("\n", " ")
        name = column.meaning or spelt or ("name" if at == 0 else f"column {at + 1}")
        name = NAMES_AS_DATA.get(name, name)
        names.append(name if name not in names else f"{name} {at + 1}")
    width, cells = range(len(names)), [[*row.cells, *[None] * (len(names) - len(row.cells))] for row in table.rows]
    figured = {at for row in cells for at in width if isinstance(row[at], _FIGURES)}
    right = (at for at in range(len(table.columns)) if table.columns[at].align == "right")
    figured |= {at for at in right if all(row[at] in ("", None) for row in cells)}
    rows = [[None if at in figured and row[at] == "" else _plain_cell(row[at]) for at in width] for row in cells]
    found = {at: dict.fromkeys(filter(None, (_unit(row[at]) for row in cells))) for at in width}
    mixed = [at for at in width if len(found[at]) > 1]
    alike = all(len({_unit(row[at]) for at in mixed} - {""}) < 2 for row in cells)
    for name, those in [("unit", mixed)] if mixed and alike else [(f"{names[at]} unit", [at]) for at in mixed]:
        names.append(name)
        for row, own in zip(rows, cells, strict=True):
            row.append(next(filter(None, (_unit(own[at]) for at in those)), ""))
    return names, rows, {names[at]: next(iter(found[at])) for at in width if len(found[at]) == 1}


#: Cells whose data is no text.
_FIGURES = (Amount, ShareBar, YesNo)


def _plain_cell(cell: Any) -> Any:
    if isinstance(cell, Amount | YesNo):
        return None if isinstance(cell.value, float) and cell.value != cell.value else cell.value
    return cell.share if isinstance(cell, ShareBar) else None if cell is None else str(cell)


def _unit(cell: Any) -> str:
    return cell.unit if isinstance(cell, Amount) else ""


def capability(name: str) -> Callable[..., Any]:
    """Find what an answer offers from a room above it.

    >>> capability("Bound.advise").__name__
    'advise'
    """
    module, _, function = CAPABILITIES[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


#: What the function of a command takes where it can say what to expect too.
EXPECTATION = {"estimate": False, "library": "vllm", "constants": (), "eager": False}

EXPECTED_KINDS = {
    "estimate": "bool | str | Estimator | None", "library": "str", "eager": "bool",
    "constants": "str | PathLike | Calibration | Sequence[str | PathLike | Calibration]",
}  # fmt: skip


def _taking(
    words: Mapping[str, Any], kinds: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[[Function], Function]]:
    """Make a decorator by which questions take further ``words``: it answers by those given, and what asks the rest."""

    def made(answer_with: Callable[..., Any]) -> Callable[[Function], Function]:
        @wraps(answer_with)
        def decorated(ask: Function) -> Function:
            own = signature(ask)
            further = {name: value for name, value in words.items() if name not in own.parameters}

            @wraps(ask)
            def asked(*given: Any, **options: Any) -> Any:
                chosen = {name: options.pop(name) for name in further if name in options}
                if (wrong := wrong_kind(chosen, kinds)) is not None:
                    raise wrong
                return answer_with(lambda: ask(*given, **options), **chosen)

            asked.__signature__ = with_named(own, further)  # type: ignore[attr-defined]
            asked.__doc__ = described(ask.__doc__, [*own.parameters, *further], ask.__name__)
            return asked  # type: ignore[return-value]

        return decorated  # type: ignore[return-value]

    return made


@_taking(EXPECTATION, EXPECTED_KINDS)
def estimable(ask: Callable[[], Any], estimate: Any = False, **by: Any) -> Any:
    """Let a question say what to expect too: ``estimate=True``, or the name of whose kernels run.

    >>> from roofline import bound
    >>> bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100", estimate=True).expectation.is_known
    True
    """
    if not estimate and any(value != EXPECTATION[name] for name, value in by.items()):
        named = f"{spelled('library')}, {spelled('constants')} and {spelled('eager')}"
        raise InputError(f"{named} go with {spelled('estimate')}", hint=f"add {spelled('estimate', True)}")
    answer = ask()
    if not estimate:
        return answer
    library = by.get("library", "vllm") if estimate is True else estimate
    return capability("estimated")(answer, library, by.get("constants", ()), eager=by.get("eager", False))


@_taking({"measured": None}, {})
def measurable(ask: Callable[[], Any], measured: Any = None) -> Any:
    """Let a question say what it takes in reality: ``measured="60us"``.

    >>> from roofline import bound
    >>> round(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100", measured="60us").over_floor, 2)
    1.48
    """
    answer = ask()
    if measured is None:
        return answer
    if not hasattr(answer, "beside"):
        raise InputError("a measured time is of one step on one machine", hint=f"leave {spelled('measured')} out")
    return answer.beside(measured)


@_taking({"price": None, "power": None}, dict.fromkeys(("price", "power"), "float | str | None"))
def priceable(ask: Callable[[], Any], **costs: Any) -> Any:
    """Let a question say what its runs cost: ``price=2.5``, ``power="tdp"``.

    >>> from roofline import bound
    >>> bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100,a100", price="table").best("$ a million runs")
    ('a100',)
    """
    answer, given = ask(), {name: value for name, value in costs.items() if value is not None}
    return answer.priced(**given) if given else answer


#: Formats of a model of which a question takes several.
FORMATS = ("weights", "activations", "kv")

#: Machines side by side.
MOST_MACHINES = 1000

#: The first argument of a question, of which some take several: an answer is named by it alone.
SUBJECTS = ("model", "expression")

#: What is more work or less: answers about one are ranked, and no others.
WORKS = ("model", "bytes", "bytes_per_chip")

#: What training keeps of activations: several are a list, and a text with commas is one, of modules.
CHECKPOINT = "checkpoint"

#: Words of a question of which it takes several, an answer for each.
LISTED = ("model", *FORMATS, "policy", CHECKPOINT)


def models_in(model: Any) -> Any:
    """Several models in a text as a list, one of a list by itself; anything else, as a file's name, as it is.

    >>> models_in("llama-3-8b, qwen3-8b"), models_in(("llama-3-8b",)), models_in("llama-3-8b,")
    (['llama-3-8b', 'qwen3-8b'], 'llama-3-8b', 'llama-3-8b')
    >>> models_in("70,000,000,000")
    '70,000,000,000'
    """
    if isinstance(model, list | tuple):
        return model[0] if len(model) == 1 else list(model)
    text = model if issubclass(type(model), str) else ""
    is_list = "," in text and "[" not in text and re.search("[A-Za-z]", text) and not os.path.exists(text)
    return models_in([each.strip() for each in model.split(",") if each.strip()]) if is_list else model


def on_several(
    ask: Function, subject: str = "model", read: Callable[[Any], Any] = models_in, amounts: Sequence[str] = ()
) -> Function:
    """Let a question name several machines, ``on="h100,h200"`` or a list: the answers stand side by side.

    A question of a model may name several models and formats too, and each several byte policies. ``subject`` is the
    first argument of a question that takes several of it, ``read`` finds several in one text. A list of ``amounts`` is
    several too.

    >>> from roofline import bound, llm
    >>> bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100,h200").fastest
    'h200'
    >>> bound("gelu(bf16[64, 8192] * bf16[8192, 8192])", on="h100", policy=["each-op", "fused"]).names
    ('h100 policy each-op', 'h100 policy fused')
    >>> llm("llama-3-8b", on="h100", context=8192, kv="bf16,fp8").names
    ('h100 kv bf16', 'h100 kv fp8')
    >>> llm(["llama-3-8b", "qwen3-8b"], on="h100", context=8192).names
    ('h100 llama-3-8b', 'h100 qwen3-8b')
    """
    parameters = signature(ask).parameters
    formats = [name for name in dict.fromkeys((subject, *LISTED, *amounts)) if name in parameters]

    @wraps(ask)
    def asked(*given: Any, **options: Any) -> Any:
        if subject in parameters and (given or subject in options):
            first = read(given[0] if given else options[subject])
            if given and not isinstance(first, list):
                given = (first, *given[1:])
            else:
                given, options = given[1:], {**options, subject: first}
        for name, value in options.items():
            check_itself(name, value)
        options = {name: value if name in OF_PROGRAMS else of_python(value) for name, value in options.items()}
        on = machines_in(options.get("on"))
        machines = on if isinstance(on, list | tuple) and on else [on]
        chosen = format_choices(options, formats)
        is_one_price = not isinstance(prices_in(options.get("price")), list | tuple | Mapping)
        options = options if on is options.get("on") else {**options, "on": on}
        if machines[0] is on and len(chosen) == 1 and is_one_price:
            try:
                return ask(*given, **{**options, **figures_of(on, machines, options)})
            except OneSizeError:
                if not sizes_listed(options):
                    raise
                return each_beside(machines, chosen, options, lambda one: ask(*given, **one), by_size=True)
        return each_beside(machines, chosen, options, lambda one: ask(*given, **one))

    return asked  # type: ignore[return-value]


def machines_in(on: Any) -> Any:
    """Several machines in a text as a list, a description of a chip as that machine; anything else as it is.

    >>> machines_in("h100, a100:8"), machines_in("h100"), machines_in(["h100", {"bf16": 4e14, "hbm": 3e12}])
    (['h100', 'a100:8'], 'h100', ['h100', Machine(chip: bf16 400 TFLOP/s, hbm 3 TB/s)])
    """
    if isinstance(on, Mapping):
        return capability("chip")(on)
    is_text = isinstance(on, str) and "," in on and not on.rstrip().endswith(".toml")
    several = [each.strip() for each in on.split(",")] if is_text else on
    if isinstance(several, list | tuple) and len(several) > MOST_MACHINES:
        raise InputError(f"{spelled('on')} names {len(several):,} machines", hint=f"at most {MOST_MACHINES:,} at once")
    described = isinstance(several, list | tuple) and any(isinstance(each, Mapping) for each in several)
    return [machines_in(each) for each in several] if described else several


def one_measured(measured: Any, answers: int) -> None:
    """Refuse a measured time beside several answers: it is of one of them."""
    if measured is not None and answers > 1:
        hint = "name the machine, the model and the formats that it was measured with"
        raise InputError(f"{spelled('measured')} is a time of one answer, and these are {answers}", hint=hint)


#: The most sizes at which the hop is looked for that would change an order.
MOST_BREAK_EVENS = 4


def each_beside(
    machines: Sequence[Any],
    chosen: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    ask: Callable[[dict[str, Any]], Any],
    *,
    crossed: bool = False,
    by_size: bool = False,
) -> Any:
    """Each machine's answer with each choice of formats, side by side; ``ask`` takes the options of one.

    Of several batches or contexts there is a comparison at each: of two lists in pairs, or where they are ``crossed``
    of each with each. A single answer is asked once, unless ``by_size`` says that it takes one value of a size.
    """
    if chosen and "model" in chosen[0]:
        capability("refuse_unknown")([each["model"] for each in chosen])
    one_measured(options.get("measured"), len(machines) * len(chosen))
    priced = ({} if price is None else {"price": price} for price in price_of_each(options.get("price"), machines))
    laid_out = layout_of_each(options, machines)
    own = [
        {"on": on, **price, **ways, **figures_of(on, machines, options)}
        for on, price, ways in zip(machines, priced, laid_out, strict=True)
    ]

    def beside(sizes: Mapping[str, int]) -> Any:
        asked_of = [{**options, **each, **formats, **sizes} for each in own for formats in chosen]
        try:
            answers = [ask(dict(one)) for one in asked_of]
        except LayoutError as wrong:
            name = next((each for each in WAYS if options.get(each) not in (None, 1)), None)
            if len(machines) == 1 or name is None or isinstance(wrong, UnsplitError):
                raise
            fit = f", or {spelled('fit')}, which lays it out on each" if options.get("fit") is False else ""
            raise wrong.worded(after=f"; or one for each machine, as in {spelled(name, '8,4')}{fit}") from None
        found = side_by_side(answers, names_of(machines, chosen))
        if len(answers) > 1 and any(name in WORKS for name in chosen[0]):
            ways = [{name: each[name] for name in each if name not in WORKS} for each in chosen]
            found = capability("beside_by_work")(found, works_of(chosen) * len(machines), names_of(machines, ways))

        def again(at: int, figures: Mapping[str, float]) -> Any:
            one = dict(asked_of[at])
            if "set_" in one:  # as words of a command line
                return ask({**one, "set_": (*(one["set_"] or ()), *(f"{name}={of!r}" for name, of in figures.items()))})
            return ask({**one, "set": {**(one.get("set") or {}), **figures}})

        few = len(answers) > 1 and len(rows) <= MOST_BREAK_EVENS
        return capability("with_break_evens")(found, again) if few else found

    listed = sizes_listed(options) if by_size or len(machines) * len(chosen) > 1 else {}
    rows = list(product(*listed.values()) if crossed else zip(*listed.values(), strict=False))
    if not listed:
        return beside({})
    if not crossed and len({len(values) for values in listed.values()}) > 1:
        said = ", ".join(f"{len(values)} of {spelled(name)}" for name, values in listed.items())
        raise InputError(f"sizes do not go in pairs: {said}", hint="lists of one length, or one value")
    return capability("beside_at_sizes")([dict(zip(listed, row, strict=True)) for row in rows], beside)


#: Sizes of a step, of which answers side by side may have several.
STEP_SIZES = ("batch", "prompt", "past", "context", "batch_tokens", "sequence")


def figures_of(on: Any, machines: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that are set of one of several machines: of all of them, and ``a100.hbm`` of an A100 alone.

    >>> both = ["a100:8", "h100"]
    >>> [figures_of(on, both, {"set": {"a100.hbm": 2e12, "bf16": 3e14}})["set"] for on in both]
    [{'hbm': 2000000000000.0, 'bf16': 300000000000000.0}, {'bf16': 300000000000000.0}]
    >>> figures_of("h100", both, {"set_": ("h100.hbm=3e12", "a100.hbm=2e12")})
    {'set_': ('hbm=3e12',)}

    A machine has its name in the catalog and its other names there too:

    >>> figures_of("h100-sxm", ["h100-sxm"], {"set": {"h100.hbm": 3e12, "hbm.capacity": 9e10}})
    {'set': {'hbm': 3000000000000.0, 'hbm.capacity': 90000000000.0}}
    """
    figures, words = options.get("set"), options.get("set_") or ()
    given = [*(figures if isinstance(figures, Mapping) else ()), *words]
    if not given or not all(isinstance(figure, str) for figure in given):
        return {}
    said, own, files = {_named(each) for each in machines}, _named(on), options.get("files") or ()
    heads = {figure.partition(".")[0].lower() for figure in given if isinstance(figure, str) and "." in figure} - said
    others = {head for head in heads if any(capability("is_called")(each, head, files) for each in machines)}
    mine = {own, *(head for head in others if capability("is_called")(on, head, files))}

    def kept(figures: Iterable[str]) -> dict[str, str]:
        parts = {figure: figure.partition(".") for figure in figures if isinstance(figure, str)}
        named = {f: (head.lower(), rest) for f, (head, _, rest) in parts.items() if head.lower() in said | others}
        return {f: named[f][1] if f in named else f for f in parts if f not in named or named[f][0] in mine}

    found: dict[str, Any] = {}
    if isinstance(figures, Mapping):
        found["set"] = {own_name: figures[name] for name, own_name in kept(figures).items()}
    if words:
        found["set_"] = tuple(kept(words).values())
    return found


def _named(on: Any) -> str:
    """The name of a machine without how many there are, in small letters."""
    target = getattr(on, "target", on)
    return target.partition(":")[0].lower() if isinstance(target, str) else ""


#: Numbers of chips that split a model, of which several machines may each have one.
WAYS = ("tensor", "pipeline", "data", "expert", "context_parallel", "kv_parallel", "fsdp")


def layout_of_each(options: Mapping[str, Any], machines: Sequence[Any]) -> list[dict[str, int]]:
    """The numbers of chips of each machine, where some are given as a list: in the order of the machines.

    >>> layout_of_each({"tensor": "8,4", "data": 1}, ["h100:8", "h200:4"])
    [{'tensor': 8}, {'tensor': 4}]
    """
    listed = {name: values for name, values in values_listed(options, WAYS).items() if len(machines) > 1}
    for name, values in listed.items():
        if len(values) != len(machines):
            hint = "one for all, or one for each in their order; sweep takes each with each"
            raise LayoutError(f"{len(values)} values of {spelled(name)} for {len(machines)} machines", hint=hint)
    return [{name: values[at] for name, values in listed.items()} for at in range(len(machines))]


def sizes_listed(options: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The sizes of a step that have several values, as text or as numbers.

    >>> sizes_listed({"batch": "1:8:*2", "context": 8192, "prompt": None}), sizes_listed({"batch": [1.0, 8.0]})
    ({'batch': [1, 2, 4, 8]}, {'batch': [1, 8]})
    """
    return values_listed(options, STEP_SIZES)


def values_listed(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, list[Any]]:
    """Those of some options that have several values, as text or as numbers."""
    given = {name: options[name] for name in names if options.get(name) is not None}
    read = {name: parse_size(name, value) if isinstance(value, str) else value for name, value in given.items()}
    found: dict[str, list[Any]] = {}
    for name, value in read.items():
        if is_array(value) or isinstance(value, list | tuple | range):
            each = value.ravel().tolist() if is_array(value) else value
            found[name] = [parse_size(name, one) if isinstance(one, str) else _whole(one) for one in each]
    return found


def _whole(value: Any) -> Any:
    """A whole number as one, also where it stood among floats; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def format_choices(options: Mapping[str, Any], formats: Iterable[str] = LISTED) -> list[dict[str, Any]]:
    """Every choice of one model, format and policy where options list several; one of nothing where none does.

    >>> format_choices({"weights": "bf16", "kv": "bf16, fp8"})
    [{'kv': 'bf16'}, {'kv': 'fp8'}]
    """
    given, whole = {name: options.get(name) for name in formats}, (*SUBJECTS, CHECKPOINT, *WORKS)
    lists = {
        name: [*map(str.strip, value.split(","))] if isinstance(value, str) and name not in whole else value
        for name, value in given.items()
    }
    listed = {name: value for name, value in lists.items() if isinstance(value, list | tuple) and len(value) > 1}
    words = {name: value for name, value in listed.items() if all(isinstance(each, str) for each in value)}
    several = {**words, **{name: listed[name] for name in whole if name in listed}}
    return [dict(zip(several, each, strict=True)) for each in product(*several.values())]


def numbered(names: Sequence[str]) -> list[str]:
    """Names of which some stand several times: those with a number.

    >>> numbered(["h100", "a100", "h100"])
    ['h100 (1)', 'a100', 'h100 (2)']
    """
    many, so_far, found = Counter(names), Counter[str](), []
    for name in names:
        so_far[name] += 1
        found.append(f"{name} ({so_far[name]})" if many[name] > 1 else name)
    return found


class AnswerName(str):
    """The name of one of several answers: its machine, and what was chosen for it.

    >>> AnswerName("h100", {"kv": "fp8", "policy": "minimal"}).without("policy")
    'h100 kv fp8'
    """

    _parts: tuple[str, Mapping[str, Any]]

    def __new__(cls, on: str, chosen: Mapping[str, Any]) -> Self:
        said = (_name_of(value) if name in SUBJECTS else f"{name} {value}" for name, value in chosen.items())
        made = super().__new__(cls, " ".join([on, *said]).strip())
        made._parts = on, chosen
        return made

    def __reduce__(self) -> Any:
        return type(self), self._parts

    def without(self, left_out: str) -> str:
        """The name that does not say one of the choices."""
        on, chosen = self._parts
        return AnswerName(on, {name: value for name, value in chosen.items() if name != left_out})


def names_of(machines: Sequence[Any], chosen: Sequence[Mapping[str, Any]]) -> list[AnswerName]:
    """The names of answers: each machine with each choice of models and formats.

    >>> names_of(["h100", "h200:8"], [{"model": "llama-3-8b", "kv": "bf16"}, {"kv": "fp8"}])[:3]
    ['h100 llama-3-8b kv bf16', 'h100 kv fp8', 'h200:8 llama-3-8b kv bf16']
    """
    return [AnswerName(on, each) for on in capability("told_apart")(machines) for each in chosen]


def works_of(chosen: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of the work of each choice; works that differ and have one name are numbered.

    >>> works_of([{"model": "my own", "kv": "bf16"}, {"model": "my own", "kv": "fp8"}, {"model": "your own"}])
    ['my own', 'my own', 'your own']
    """
    of = [{name: each[name] for name in each if name in WORKS} for each in chosen]
    apart = [each for at, each in enumerate(of) if each not in of[:at]]
    names = numbered([" ".join(map(_name_of, each.values())) for each in apart])
    return [names[apart.index(each)] for each in of]


def _name_of(value: Any) -> str:
    return str(getattr(value, "name", value))


def price_of_each(price: Any, machines: Sequence[Any]) -> list[Any]:
    """The price of each machine: one of a list in their order, or one by their names; one price is that of all.

    ``table`` among prices by name is that of machines that are not named, as the catalog lists it.

    >>> price_of_each([2, 3], ["h100:8", "h200"]), price_of_each({"h100": 2, "h200": 3}, ["h200", "h100:8"])
    ([2, 3], [3, 2])
    >>> price_of_each("2, 3", ["h100", "h200"]), price_of_each("table, l4=0.8", ["h100", "l4"])
    (['2', '3'], ['table', '0.8'])
    """
    price = list(price) if isinstance(price, range) else prices_in(price)
    if isinstance(price, list | tuple) and len(price) == len(machines):
        return list(price)
    if isinstance(price, Mapping):
        keys = [next((key for key in (*_priced_as(on), "table") if key in price), None) for on in machines]
        if None not in keys:
            return [price[key] for key in keys]
    if isinstance(price, list | tuple | Mapping):
        asked = ", ".join(capability("told_apart")(machines))
        by_name = f"by name: {spelled('price', f'{_priced_as(machines[0])[0]}=2.5')}"
        hint = f"one for all, one for each in their order, or {by_name}; table takes those that are listed"
        raise InputError(f"not one price for each of {asked}: {len(price)} given", hint=hint)
    return [price] * len(machines)


def _priced_as(on: Any) -> tuple[str, str]:
    """The names that a price of a machine goes by: as it is typed, and that of its chip."""
    target = str(getattr(on, "target", on))
    return target, getattr(on, "key", target.partition(":")[0])


def prices_in(text: Any) -> Any:
    """Several prices in a text: by name, as in ``h200=3.5,b200=6``, or in order; anything else as it is.

    >>> prices_in("h200=3.5, b200=$6"), prices_in("3.5,6"), prices_in("$2.50/h"), prices_in("table,l4=0.8")
    ({'h200': '3.5', 'b200': '$6'}, ['3.5', '6'], '$2.50/h', {'table': 'table', 'l4': '0.8'})
    """
    if isinstance(text, list | tuple) and any(isinstance(each, str) and "=" in each for each in text):
        text = ",".join(map(str, text))
    if not isinstance(text, str) or not re.search("[=,]", text) or re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        return text
    named = [tuple(map(str.strip, part.rpartition("="))) for part in text.split(",")]
    if not any(name or price == "table" for name, _, price in named):
        return [price for _, _, price in named]
    wrong = next((price for name, _, price in named if not name and price != "table"), None)
    if wrong is not None:
        hint = f"for instance {spelled('price', 'h100=2.5,h200=3.1')}, or table, or table,h100=2.5"
        raise InputError(f"{spelled('price')} {wrong!r} is not CHIP=DOLLARS", hint=hint)
    return {name or price: price for name, _, price in named}


def side_by_side(answers: Sequence[Any], names: Sequence[str]) -> Any:
    """The one answer, or several beside each other by their names."""
    if len(answers) == 1:
        return answers[0]
    return replace(capability("Comparable.compare")(*answers), names=tuple(numbered(names)))


def heading(schema: str, machine: Any, expression: str | None = None) -> dict[str, Any]:
    """The first keys of an answer as plain data: its schema, what was asked, and on which machine."""
    asked = {} if expression is None else {"expression": expression}
    return {"schema": schema, **asked, **machine_asked(machine)}


def machine_asked(machine: Any) -> dict[str, Any]:
    """A machine as plain data of an answer says it: what it is, and the figures that were set on it.

    >>> from roofline import chip
    >>> machine_asked(chip("h100", hbm="4 TB/s"))
    {'target': 'NVIDIA H100 SXM5 80GB', 'machine': 'h100', 'set': {'hbm.bandwidth': 4000000000000.0}}
    """
    return {"target": machine.name, "machine": machine.key, "set": machine.figures_set}


def attributes(value: Any, *names: str) -> dict[str, Any]:
    """Attributes of a value as plain data, under their own names.

    >>> attributes(1 + 2j, "real", "imag")
    {'real': 1.0, 'imag': 2.0}
    """
    return {name: plain_data(getattr(value, name)) for name in names}


def plain_data(value: Any) -> Any:
    """Turn a value into plain data for JSON: arrays into lists, open formulas and what is not finite into null.

    >>> import numpy as np
    >>> from roofline.sizes import symbol
    >>> plain_data({"time": np.array([1.0, np.inf]), "batch": symbol("B"), "chips": (1, 2), "steps": range(3)})
    {'time': [1.0, None], 'batch': None, 'chips': [1, 2], 'steps': [0, 1, 2]}
    """
    if is_array(value):
        check_listed(value.size)
        return [plain_data(each) for each in value.ravel().tolist()]
    if is_symbol(value):
        return None if value.free_symbols else plain_data(float(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list | range):
        return [plain_data(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain_data(each) for name, each in value.items()}
    return value if not hasattr(value, "to_dict") else plain_data(value.to_dict())


def with_formulas(body: dict[str, Any]) -> dict[str, Any]:
    """Turn a whole answer into plain data; what is open is null, and stands under ``formulas`` by its path.

    >>> from roofline.sizes import symbol
    >>> with_formulas({"batch": symbol("B"), "memory": {"total": 2 * symbol("B"), "fits": None}})["formulas"]
    {'batch': 'B', 'memory.total': '2*B'}
    """
    formulas: dict[str, str] = {}
    found: dict[str, Any] = open_as_null("", body, formulas)
    return {**found, "formulas": formulas} if formulas else found


def open_as_null(path: str, value: Any, formulas: dict[str, str]) -> Any:
    """Turn a value at ``path`` into plain data; what is open is null, and its formula goes to ``formulas``."""
    if isinstance(value, Mapping):
        inside = {name: (f"{path}.{name}" if path else name, each) for name, each in value.items()}
        return {name: open_as_null(at, each, formulas) for name, (at, each) in inside.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, dict | list | tuple) for each in value):
        return [open_as_null(f"{path}.{index}", each, formulas) for index, each in enumerate(value)]
    if is_symbol(value) and value.free_symbols:
        formulas[path] = str(value)
        return None
    return plain_data(value)


def whole(value: Any) -> Any:
    """Sizes as the whole numbers they are: an array of them, which holds floats, as a list of ints.

    >>> import numpy as np
    >>> whole(np.array([1.0, 64.0])), whole(64)
    ([1, 64], 64)
    """
    if not is_array(value):
        return value
    return [int(size) if float(size).is_integer() else size for size in value.ravel().tolist()]
