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

from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.frozen import NamedTuple
from roofline.notation import program
from roofline.notation.structure import Step
from roofline.ops.rules import family_of
from roofline.signatures import spelled

_SHARDED = "nothing is sharded here, and nothing is a collective"
_LEFT_OUT = "leave it out"

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


def _computes(asked: Question) -> bool:
    return any(step.kind != "collective" for step in _steps(asked))


def _exchanges(asked: Question) -> bool:
    """Whether one of its collectives is an AllToAll, or plans choose them."""
    return _computes(asked) or any(step.function == "AllToAll" for step in _steps(asked))


def _on_a_torus(asked: Question) -> bool:
    mesh = asked.on_mesh().mesh
    return mesh is None or any(each.topology == "torus" for axis in mesh for each in axis.segments)


def _of_families(*families: str) -> Callable[[Question], bool]:
    return lambda asked: any(family_of(step) in families for step in _steps(asked))


#: In the order in which they are refused.
USES: tuple[Use, ...] = (
    *(
        Use(name, _is_sharded, _SHARDED, "shard a dimension, as in bf16[B_X, D], or leave it out")
        for name in ("plan", "density", "algorithm", "wrap", "uneven")
    ),
    Use("density", _exchanges, "nothing here is an AllToAll"),
    Use("wrap", _on_a_torus, "no axis here is one of a torus"),
    Use("count_padding", _of_families(*_WINDOWS), "nothing here is a convolution or a pooling"),
    Use("pad", _of_families(*_ON_THE_MATRIX_UNIT), "nothing here runs on the matrix unit"),
    Use("compute", _computes, "nothing here computes"),
)


def refuse_idle(*asked: Question) -> None:
    """Refuse a convention that has no effect on any of these questions.

    A mesh is none of them: every chip of it may do all there is to do, which the answer says. Raw work refuses its own.
    """
    lines = [each for each in asked if not each.raw]
    for name, acts, lacks, hint in USES:
        given = [each for each in lines if name in each.conventions.changes()]
        if given and not any(map(acts, given)):
            said = "algorithm= (or sharp)" if name == "algorithm" else spelled(name)
            raise InputError(f"{said} has no effect: {lacks}", hint=hint)
