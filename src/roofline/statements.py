"""Statements about an answer, as values with a kind: what was assumed, and what is not in it.

Both are strings, so that JSON and ``answer.assumptions`` hold plain text. Code asks ``.kind``, never the words:

>>> said = [Assumption("counting", "2 FLOPs per multiply-add"), Assumption("given", "given: hbm at 2 TB/s")]
>>> [line for line in said if line.kind == "given"]
['given: hbm at 2 TB/s']
>>> Gap("rate", "not timed: 5 FLOP in fp4") == "not timed: 5 FLOP in fp4"
True
>>> Assumption("mood", "it will be fine")
Traceback (most recent call last):
ValueError: no kind of Assumption is called 'mood': counting, rates, bytes, formats, notation, plan, layout, ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

#: Kinds of assumptions.
ASSUMPTION_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "counting": "how FLOPs are counted: multiply-adds, complex numbers, masked pairs, padding",
        "rates": "which rates are taken: data sheet, measured, achievable fractions",
        "bytes": "which bytes count (the byte policy), and where data starts",
        "formats": "number formats of weights, activations, caches and states",
        "notation": "how a line of the notation was read where it leaves a choice",
        "plan": "the plan that a sharded program goes by, and of how many chips a figure is one's",
        "layout": "how work lies on the chips: the mesh, stages, what is not sharded",
        "alike": "chips that all do the same, as nothing is sharded over them",
        "collective": "how a collective is done: its algorithm, the axes it goes over",
        "network": "what is taken for granted about links and the axes of a mesh",
        "operation": "what a reader should know about one operation",
        "model": "what a model's description or a step of it leaves open",
        "program": "what was assumed about a traced program",
        "given": "a figure that the caller set in place of the catalog's",
        "doubt": "a figure of the caller's that is likely a slip: its unit is missing, or it is twice what is known",
        "machine": "what is odd about a machine's figures, or what one of them stands for",
        "estimate": "the overlap and the overhead that an estimate was asked with",
        "fit": "what does not fit the memory",
    }
)

#: Kinds of gaps.
GAP_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "rate": "an amount of work that the machine has no rate for",
        "latency": "steps over a network whose latency is not known",
        "operation": "an operation of a program without a rule",
        "field": "a field of a model's configuration without a rule",
        "format": "a number format that a model's name promises and its configuration does not describe",
        "model": "a part of a model, or of how it runs, that is not modelled",
        "range": "sizes of which a closed form does not hold, and whose rows are priced as arrays",
        "start": "a size below the least of which a closed form holds",
    }
)

#: Kinds of gaps that leave a part of the work out of its time, which takes longer by it.
TIME_GAPS = ("rate", "latency")

#: Kinds of gaps that change an answer's first figures, and so stand beside them; and all such statements.
HEADLINE_GAPS = ("format",)
HEADLINES = (*HEADLINE_GAPS, "doubt")

#: Stand before what follows from the timed part of the work: all of it takes that or more, or is that fast at most.
LEAST, MOST = "≥", "≤"

#: Of what a time is where not all is timed, in words.
BY_WHAT_IS_TIMED = "by what is timed"


class Statement(str):
    """A string with a kind. Subclasses list their kinds."""

    __slots__ = ("_kind",)
    KINDS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    _kind: str

    def __new__(cls, kind: str, text: str) -> Self:
        if kind not in cls.KINDS:
            raise ValueError(f"no kind of {cls.__name__} is called {kind!r}: {', '.join(cls.KINDS)}")
        made = super().__new__(cls, text)
        made._kind = kind
        return made

    @property
    def kind(self) -> str:
        """Which of :attr:`KINDS` it is."""
        return self._kind

    def __reduce__(self) -> Any:
        """A copy has the same kind."""
        return type(self), (self._kind, str(self))


class Assumption(Statement):
    """Something an answer takes for granted; its kind is one of :data:`ASSUMPTION_KINDS`."""

    __slots__ = ()
    KINDS = ASSUMPTION_KINDS


class SizeCondition(Assumption):
    """An assumption about sizes: ``holds`` are the relations that say so, each with what is said where it does not.

    >>> from roofline.sizes import symbol
    >>> said = SizeCondition("program", "the formulas hold for whole B from 2 on", [(symbol("B") >= 2, "B is below 2")])
    >>> said.kind, said.holds[0][1]
    ('program', 'B is below 2')
    """

    __slots__ = ("_holds",)
    _holds: tuple[tuple[Any, str], ...]

    def __new__(cls, kind: str, text: str, holds: Iterable[tuple[Any, str]] = ()) -> Self:
        made = super().__new__(cls, kind, text)
        made._holds = tuple(holds)
        return made

    @property
    def holds(self) -> tuple[tuple[Any, str], ...]:
        """Relations of sizes, and the reason why a size is left out."""
        return self._holds

    def __reduce__(self) -> Any:
        """A copy has the same relations."""
        return type(self), (self._kind, str(self), self._holds)


class Gap(Statement):
    """Something that is not in an answer; its kind is one of :data:`GAP_KINDS`.

    ``figure`` is the path of the figure of the machine that would fill it, as it is set: ``xgmi.latency``. ``brief``
    says it in short, for a line above the whole list.

    >>> Gap("operation", "not counted: svd x1 (no rule): FLOPs unknown", brief="not counted: svd x1").brief
    'not counted: svd x1'
    """

    __slots__ = ("_brief", "_figure")
    KINDS = GAP_KINDS
    _figure: str
    _brief: str

    def __new__(cls, kind: str, text: str, figure: str = "", brief: str = "") -> Self:
        made = super().__new__(cls, kind, text)
        made._figure, made._brief = figure, brief or str(made)
        return made

    @property
    def figure(self) -> str:
        """The path of the figure that is missing; empty where no single one is."""
        return self._figure

    @property
    def brief(self) -> str:
        """What is missing, in short."""
        return self._brief

    def __reduce__(self) -> Any:
        """A copy lacks the same figure, and says the same in short."""
        return type(self), (self._kind, str(self), self._figure, self._brief)


def assume(kind: str, lines: Iterable[str]) -> list[Assumption]:
    """Make assumptions of one kind; lines that are assumptions already keep their own.

    >>> [line.kind for line in assume("model", ["no dropout", Assumption("formats", "weights bf16")])]
    ['model', 'formats']
    """
    return [line if isinstance(line, Assumption) else Assumption(kind, line) for line in lines]


def missing(kind: str, lines: Iterable[str]) -> list[Gap]:
    """Make gaps of one kind; lines that are gaps already keep their own.

    >>> [line.kind for line in missing("field", ["new_trick is not understood", Gap("format", "the name says fp8")])]
    ['field', 'format']
    """
    return [line if isinstance(line, Gap) else Gap(kind, line) for line in lines]


def kind_of(line: str) -> str:
    """The kind of a statement; empty for a plain string."""
    return line.kind if isinstance(line, Statement) else ""


def untimed_parts(lines: Iterable[str]) -> list[str]:
    """The gaps that leave a part of the work out of its time.

    >>> untimed_parts([Gap("latency", "not timed: hops at X"), Gap("field", "new_trick is not understood")])
    ['not timed: hops at X']
    """
    return [line for line in lines if kind_of(line) in TIME_GAPS]


def untimed_apart(each: Iterable[Iterable[str]]) -> list[list[str]]:
    """What is not timed of each of several answers: one of which some is not timed is not ranked among the others.

    Of none where all of several lack the same of the same machine: that adds as much to each, their order stands.

    >>> hops = Gap("latency", "not timed: hops at X; chip A has no figure for it")
    >>> untimed_apart([[hops], []]), untimed_apart([[hops], [hops]])
    ([['not timed: hops at X; chip A has no figure for it'], []], [[], []])
    """
    found = [untimed_parts(lines) for lines in each]
    return [[] for _ in found] if found[1:] and all(lines == found[0] for lines in found) else found


def by_what_is_timed(lines: Iterable[str]) -> str:
    """What stands before the fastest of several where these gaps leave a part of the work out of its time."""
    return f"{BY_WHAT_IS_TIMED}, " if untimed_parts(lines) else ""


def without(lines: Iterable[str], kinds: Collection[str]) -> list[str]:
    """Leave out statements of some kinds.

    >>> without([Assumption("fit", "does not fit"), Assumption("bytes", "all bytes once")], {"fit"})
    ['all bytes once']
    """
    return [line for line in lines if kind_of(line) not in kinds]
