"""Conventions that say nothing of a line: an error that says what they go with.

>>> from roofline.bounds.api import question
>>> refuse_idle(question("bf16[B, D] * bf16[D, F]", on="h100", density=0.5))
Traceback (most recent call last):
roofline.errors.InputError: density= has no effect: nothing is sharded here, and nothing is a collective; shard ...
>>> refuse_idle(question("gelu(bf16[B, D])", on="v5e", pad=True))
Traceback (most recent call last):
roofline.errors.InputError: pad= has no effect: nothing here runs on the matrix unit; leave it out
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.frozen import NamedTuple
from roofline.hardware.rate import data_level
from roofline.notation import program
from roofline.notation.structure import Step
from roofline.ops.rules import family_of
from roofline.signatures import spelled

if TYPE_CHECKING:
    from roofline.bounds.bound import Bound

_SHARDED = "nothing is sharded here, and nothing is a collective"
_SHARD_ONE = "shard a dimension, as in bf16[B_X, D], or leave it out"
_LEFT_OUT = "leave it out"

#: What options are called in messages where that is not their own name: two of the command line set one convention.
_SAID = {"algorithm": "algorithm= (or sharp)", "link": "a link's figure"}

#: Families of operations that run on the matrix unit, and those that slide a window over what may be padded.
_ON_THE_MATRIX_UNIT = ("contraction", "convolution", "attention")
_WINDOWS = ("convolution", "pooling")


class Use(NamedTuple):
    """What a convention needs of a question to have an effect, and what is said of one that lacks it."""

    name: str
    acts: Callable[[Question], bool]
    lacks: str
    hint: str = _LEFT_OUT


def _steps(asked: Question) -> tuple[Step, ...]:
    return program(asked.text, asked.conventions.compute).steps


def _is_sharded(asked: Question) -> bool:
    return asked.is_sharded


def _uses_a_link(asked: Question) -> bool:
    """Whether chips send each other data, or it comes over a bus, which of some cards is their link too."""
    comes = not asked.raw and any(step.function == "from_host" for step in _steps(asked))
    return asked.is_sharded or comes or data_level(asked.machine).link


def _computes(asked: Question) -> bool:
    return any(step.kind != "collective" for step in _steps(asked))


def _exchanges(asked: Question) -> bool:
    """Whether one of its collectives is an AllToAll, or plans choose them."""
    return _computes(asked) or any(step.function == "AllToAll" for step in _steps(asked))


def _uses_further_axes(asked: Question) -> bool:
    return not set(asked.conventions.use) <= set(program(asked.text, asked.conventions.compute).axes)


def _on_a_torus(asked: Question) -> bool:
    mesh = asked.on_mesh().mesh
    return mesh is None or any(each.topology == "torus" for axis in mesh for each in axis.segments)


def _of_families(*families: str) -> Callable[[Question], bool]:
    return lambda asked: any(family_of(step) in families for step in _steps(asked))


#: In the order in which they are refused.
USES: tuple[Use, ...] = (
    *(Use(name, _is_sharded, _SHARDED, _SHARD_ONE) for name in ("plan", "density", "algorithm", "wrap", "uneven")),
    Use("use", _uses_further_axes, "each of its axes is sharded over already"),
    Use("density", _exchanges, "nothing here is an AllToAll"),
    Use("wrap", _on_a_torus, "no axis here is one of a torus"),
    Use("count_padding", _of_families(*_WINDOWS), "nothing here is a convolution or a pooling"),
    Use("pad", _of_families(*_ON_THE_MATRIX_UNIT), "nothing here runs on the matrix unit"),
    Use("compute", _computes, "nothing here computes"),
)

#: Where one line is asked; a sweep takes one plan anyway.
OF_ONE_LINE = (*USES, *(Use(name, _computes, "a collective alone has one plan") for name in ("plan", "use")))

#: Where nothing is sharded a mesh and a link's own figure are said in an answer's assumptions, which advice and
#: pictures do not repeat.
NOT_REPEATED = (Use("mesh", _is_sharded, _SHARDED, _SHARD_ONE), Use("link", _uses_a_link, _SHARDED, _SHARD_ONE))


def refuse_idle(*asked: Question, uses: tuple[Use, ...] = USES) -> None:
    """Refuse a convention that has no effect on any of these questions. Raw work refuses its own."""
    for name, acts, lacks, hint in uses:
        given = [each for each in asked if _is_given(name, each)]
        if given and not any(map(acts, given)):
            raise InputError(f"{_SAID.get(name, spelled(name))} has no effect: {lacks}", hint=hint)


def _is_given(name: str, asked: Question) -> bool:
    links = {link.name for link in asked.machine.links} if name == "link" else ()
    return name in asked.conventions.changes() or any(path.partition(".")[0] in links for path in asked.machine.given)


def refuse_idle_on_plan(asked: Question, symbolic: Bound | None = None) -> None:
    """Refuse a convention of collectives where one plan is taken for all sizes, and that has none of them.

    ``symbolic`` is the answer on this plan where sizes are open; without it, it is made where it is needed.
    """
    given = {"algorithm", "density"} & asked.conventions.changes().keys() if asked.is_sharded else set()
    if not given:
        return
    taken = asked.vary(sizes={}).one_plan().answer(symbolic=True) if symbolic is None else symbolic
    sent = {part.op.options["collective"] for part in taken.ops if part.op.kind == "collective"}
    idle = [name for name in sorted(given) if not sent or (name == "density" and "AllToAll" not in sent)]
    if idle:
        said, nothing = _SAID.get(idle[0], spelled(idle[0])), "has no AllToAll" if sent else "sends nothing"
        hint = f"give all sizes numbers, or another {spelled('plan').rstrip('=')}, or {_LEFT_OUT}"
        raise InputError(f"{said} has no effect: the plan for all sizes, {taken.plan}, {nothing}", hint=hint)
