"""The engine of advice: changes of a question that may help are asked afresh; what helps is kept, the best first.

One engine serves a line, a step of serving and a step of training. Each of them lists its proposals (``ADVISERS`` of
``bounds.advise`` and of ``models.serving.advice``, and ``models.training.advice``), and says how its answers compare
(:class:`Standing`). A question is a value, so a proposal holds the changed one and not a text to edit.

The same question with one thing changed: another storage format, another size, another machine.

>>> from roofline.bounds.api import question
>>> asked = question("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
>>> retype(asked, {1: "int8"}).text
'bf16[B, D] * int8[D, F] -> bf16[B, F]'
>>> [(o.position, o.role, o.dtype) for o in operands(asked)]
[(0, 'activation', 'bf16'), (1, 'weight', 'bf16')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from roofline import dtypes
from roofline.bounds.bound import Bound, ResourceUse
from roofline.bounds.question import Question
from roofline.errors import RooflineError
from roofline.frozen import NamedTuple, Same, dataclass
from roofline.notation import canonical
from roofline.notation.scope import show_axes
from roofline.notation.structure import Shape, Step

#: The least gain worth a line.
LEAST_GAIN = 1.005

#: Chips another one is compared with when no others are named.
OTHER_CHIPS = ("h100", "h200", "b200", "mi300x", "v5p", "v6e")

A = TypeVar("A", covariant=True)
Found = TypeVar("Found")


class Askable(Protocol[A]):
    """A question as a value: ``answer`` asks it."""

    def answer(self) -> A:
        """Ask it."""


@dataclass(frozen=True, slots=True)
class Proposal(Generic[A]):
    """A change to try: what it is, why it may help, and the question with it made.

    ``more`` is how many times the work the changed question does, ``chips`` how many times the chips it takes. Of
    changes that gain as much, the one of fewer ``parts`` comes first.
    """

    change: str
    reason: str
    question: Askable[A]
    more: float = 1.0
    chips: float = 1.0
    parts: int = 1


def changed_words(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options in which two questions differ, where plain words or figures by name say each; else None.

    >>> changed_words({"batch": 8, "weights": None}, {"batch": 64, "weights": None})
    {'batch': 64}
    >>> changed_words({}, {"set": {"hbm": 9.6e12}})
    {'set': {'hbm': 9600000000000.0}}
    >>> changed_words({"tile": None}, {"tile": (1, 2, 3)}) is None
    True
    """
    found = {name: value for name, value in after.items() if name not in before or before[name] != value}
    values = [each for value in found.values() for each in (value.values() if isinstance(value, dict) else [value])]
    return found if all(isinstance(value, str | int | float) for value in values) else None


class Standing(NamedTuple):
    """What an answer is compared by: seconds for its work, whether it fits, how much of it is not timed, its memory.

    ``floor`` is that of the seconds, where they are stated: of two that take as long, the lower comes first.
    """

    time: float
    fits: bool | None
    gaps: int
    kind: str | None
    memory: float = 0.0
    floor: float = 0.0


class Kept(NamedTuple, Generic[Found]):
    """A proposal that helps: its answer, how much faster the same work gets, whether it fits and did not before."""

    proposal: Proposal[Found]
    after: Found
    gain: float
    makes_it_fit: bool
    reason: str
    memory: float
    floor: float = 0.0


class BeforeAndAfter:
    """The two bounds that a line of advice compares, and their seconds."""

    __slots__ = ()
    before: Bound
    after: Bound

    @property
    def time_before(self) -> float:
        """Seconds at best as it was."""
        return float(self.before.lower)

    @property
    def time_after(self) -> float:
        """Seconds at best with the change."""
        return float(self.after.lower)


def helpful(
    proposals: Iterable[Proposal[Found]],
    before: Found,
    standing: Callable[[Found], Standing],
    *,
    smaller: float | None = None,
) -> list[Kept[Found]]:
    """Ask each proposal; keep what helps: first what makes it fit, then by gain.

    Left out are changes that cannot be answered, that leave more untimed, that gain nothing, those after which it fits
    no more, and those after which what does not fit needs more memory. ``smaller`` keeps, where it does not fit, also
    what leaves at most that share of the memory; what still does not fit is then sorted by memory, and so are equals.
    """
    old = standing(before)
    kept: list[Kept[Found]] = []
    for proposal in proposals:
        try:
            after = proposal.question.answer()
        except RooflineError:
            continue
        new = standing(after)
        gain = old.time / new.time * proposal.more
        makes_it_fit = old.fits is False and new.fits is True
        misfit = new.fits is False and (old.fits is not False or new.memory > old.memory)
        saves = smaller is not None and old.fits is False and new.memory <= smaller * old.memory
        if new.gaps > old.gaps or misfit or (gain < LEAST_GAIN and not makes_it_fit and not saves):
            continue
        then = ", and ".join([str(new.kind)] * (new.kind != old.kind) + ["it fits"] * makes_it_fit)
        reason = ": ".join(filter(None, (proposal.reason, then and f"then {then}")))
        kept.append(Kept(proposal, after, gain, makes_it_fit, reason, new.memory, new.floor))

    def order(each: Kept[Found]) -> tuple[bool, float, float, float, int, float]:
        memory = 0.0 if smaller is None else each.memory
        first = memory if old.fits is False and not each.makes_it_fit else 0.0
        return not each.makes_it_fit, first, -each.gain, each.floor, each.proposal.parts, memory

    return sorted(kept, key=order)


def standing_of(answer: Any) -> Standing:
    """What a bound is compared by."""
    needed = answer.footprint
    fits, memory = (None, 0.0) if needed is None else (needed.fits, float(needed.total))
    return Standing(float(answer.lower), fits, len(answer.incomplete), answer.kind, memory)


def peaks_that_bind(answer: Bound) -> list[ResourceUse]:
    """The unit that binds in each format that it computes in, the one that takes longest first.

    >>> from roofline import bound
    >>> found = bound("bf16[8192, 8192] * bf16[8192, 8192]; fp8[4096, 4096] * fp8[4096, 4096]", on="h100")
    >>> [(use.dtype, round(use.time * 1e6)) for use in peaks_that_bind(found)]
    [('bf16', 1111), ('fp8', 69)]
    """
    busy = {use.dtype: use for use in answer.uses if use.resource == answer.bound_by and use.quantity == "flops"}
    return sorted(busy.values(), key=lambda use: -float(use.time))


class Operand(NamedTuple):
    """One input of an expression: its position among the distinct inputs, what it is, how it is stored."""

    position: int
    ident: str
    role: str
    dtype: str
    written: str


def operands(asked: Question) -> list[Operand]:
    """List the distinct tensors an expression reads from memory, in order of appearance."""
    roles = _roles(Same(asked))
    return [
        Operand(i, ident, roles.get(ident, "activation"), shape.dtype, shape.written)
        for i, (ident, shape) in enumerate(_inputs(asked).items())
    ]


@lru_cache(maxsize=16)
def _roles(asked: Same[Question]) -> Mapping[str, str]:
    """The roles of the tensors that operations read: over chips a plan is looked for, once for all advice."""
    return {t.ident: t.role for op in asked.value.one_plan().ops() for t in op.reads}


def _inputs(asked: Question) -> Mapping[str, Shape]:
    """The distinct tensors that a line reads from memory, in order of appearance."""
    shapes: dict[str, Shape] = {}
    for shape in (shape for step in asked.parsed.steps for shape in step.inputs if shape.source == "input"):
        shapes.setdefault(shape.ident, shape)
    return shapes


def retype(asked: Question, formats: Mapping[int, str], *, intermediates: str | None = None) -> Question:
    """Store the inputs at these positions in other formats; results stay as they are.

    ``intermediates`` does the same for what one step makes and another reads, where that is wider.

    The arithmetic dtype follows from the new operands by the rules of the notation, unless ``compute`` was stated.
    """
    wanted = {ident: dtypes.get(formats[i]).name for i, ident in enumerate(_inputs(asked)) if i in formats}

    passed_on = {s.ident for step in asked.parsed.steps for s in step.inputs if s.source == "step"}

    def changed(shape: Shape) -> Shape:
        if shape.ident not in passed_on:
            return _stored_as(shape, wanted.get(shape.ident, shape.dtype))
        narrower = intermediates and dtypes.get(intermediates).bits < dtypes.get(shape.dtype).bits
        return _stored_as(shape, dtypes.get(intermediates).name) if intermediates and narrower else shape

    return _with_shapes(asked, changed)


def _with_steps(asked: Question, changed: Callable[[Step], Step]) -> Question:
    """The question with each step of its line changed."""
    return asked.vary(text=canonical(asked.parsed._replace(steps=tuple(map(changed, asked.parsed.steps)))))


def _with_shapes(asked: Question, changed: Callable[[Shape], Shape]) -> Question:
    """The question with each tensor of its line changed."""
    return _with_steps(
        asked, lambda step: step._replace(inputs=tuple(map(changed, step.inputs)), output=changed(step.output))
    )


def _stored_as(shape: Shape, name: str) -> Shape:
    return shape._replace(dtype=name, written=name + shape.written.removeprefix(shape.dtype))


def retype_result(asked: Question, name: str) -> Question:
    """Store the final result in another format; the arithmetic stays as it was."""
    *first, last = asked.parsed.steps
    changed = last._replace(output=_stored_as(last.output, dtypes.get(name).name))
    return asked.vary(text=canonical(asked.parsed._replace(steps=(*first, changed))))


def set_options(asked: Question, function: str, **options: bool) -> Question:
    """Set flags of every call of a function; one that is False is taken away.

    >>> from roofline.bounds.api import question
    >>> line = "attention(bf16[8,32,64,128], bf16[8,32,64,128], bf16[8,32,64,128],unfused) on h100"
    >>> set_options(question(line), "attention", unfused=False, causal=True).text.partition("],")[2]
    ' bf16[8, 32, 64, 128], bf16[8, 32, 64, 128], causal) -> bf16[8, 32, 64, 128] on h100'
    """

    def changed(step: Step) -> Step:
        flags = {name: value for name, value in {**step.options, **options}.items() if value is not False}
        return step._replace(options=flags) if step.function == function else step

    return _with_steps(asked, changed)


def reshard(asked: Question, axis: str, label: str | None) -> Question:
    """Shard ``label`` over a mesh axis in every tensor it stands in, and nothing else over that axis."""

    def changed(shape: Shape) -> Shape:
        axes = tuple(
            one._replace(shard=(*(a for a in one.shard if a != axis), *((axis,) if one.label == label else ())))
            for one in shape.axes
        )
        unreduced = tuple(a for a in shape.unreduced if a != axis)
        head = shape.written.partition("[")[0]
        text = show_axes(axes, lambda name: str(asked.parsed.sizes.get(name, name)), unreduced)
        return shape._replace(axes=axes, unreduced=unreduced, written=head + text + shape.tiling)

    return _with_shapes(asked, changed)


def resize(asked: Question, label: str, size: Any) -> Question:
    """Ask at another value of one size, also of one that stands in the text as a number."""
    if label not in parsed_sizes(asked):
        return asked.with_sizes(**{label: size})
    return asked.vary(text=canonical(asked.parsed, {label: size}))


def parsed_sizes(asked: Question) -> Mapping[str, int]:
    """Sizes that stand in the text as numbers, by label (``#1``, ``#2`` …)."""
    return asked.parsed.sizes if asked.text else {}
