"""The mesh of a question: its axes get numbers, or formulas of sizes, and name the machine's chips.

>>> from roofline.bounds.api import question
>>> asked = question("bf16[B, D_X] * bf16[D_X, F_Y]", on="v5p", mesh={"X": "N/4", "Y": 4}, N=64)
>>> mesh_of(asked).mesh, mesh_names(asked), multiple_of(asked, "D")
(Mesh(X=16 ici line, Y=4 ici line), ('N',), 16)
>>> mesh_of(question("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", wrap=True)).mesh
Mesh(X=4 ici ring)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.hardware.machine import Machine
from roofline.notation import program
from roofline.ops import formula, formula_names
from roofline.quantity import kind_of
from roofline.sizes import product

if TYPE_CHECKING:
    from roofline.bounds.question import Question


def mesh_of(asked: Question) -> Machine:
    """Name the machine's chips by the mesh axes of the question; a size left out is a symbol."""
    given = {axis: axis_size(size, asked.sizes) for axis, size in asked.conventions.mesh.items()}
    if not given and (asked.conventions.wrap is None or asked.machine.mesh is None):
        return asked.machine
    from roofline.hardware.mesh import with_mesh

    return with_mesh(asked.machine, given or None, wrap=asked.conventions.wrap)


def is_sharded(asked: Question) -> bool:
    """Say whether a question is about several chips: an axis or a collective stands in its text."""
    if asked.raw:
        return False
    parsed = program(asked.text, asked.conventions.compute)
    return bool(parsed.axes or asked.conventions.use or any(step.kind == "collective" for step in parsed.steps))


def of_several_chips(asked: Question) -> Question:
    """Refuse options about several chips beside a line that has no use for them; return the question.

    A mesh is none of them: every chip of it may do all there is to do, which the answer says.

    >>> from roofline.bounds.api import question
    >>> of_several_chips(question("bf16[B, D] * bf16[D, F]", on="h100", density=0.5))
    Traceback (most recent call last):
    roofline.errors.InputError: density= has no effect: nothing is sharded here, and nothing is a collective; shard ...
    """
    said = {
        "plan": asked.conventions.plan is not None,
        "density": asked.conventions.density != 1,
        "algorithm= (or sharp)": asked.conventions.algorithm,
        "wrap": asked.conventions.wrap is not None,
        "uneven": asked.conventions.uneven != "error",
    }
    idle = next((name if "=" in name else f"{name}=" for name, given in said.items() if given), None)
    if asked.raw or idle is None or is_sharded(asked):
        return asked
    hint = "shard a dimension, as in bf16[B_X, D], or leave it out"
    raise InputError(f"{idle} has no effect: nothing is sharded here, and nothing is a collective", hint=hint)


def mesh_names(asked: Question) -> tuple[str, ...]:
    """Names that stand in the sizes of mesh axes: sizes that a question takes beside those of its tensors."""
    return tuple(dict.fromkeys(names_in(asked.conventions.mesh)))


def size_names(asked: Question) -> list[str]:
    """Names of the sizes a question has, set or not."""
    if asked.raw:
        return list(dict.fromkeys(names_in(asked.raw)))
    return list(dict.fromkeys((*program(asked.text, asked.conventions.compute).labels, *mesh_names(asked))))


def names_in(amounts: Mapping[str, Any]) -> list[str]:
    """Names that stand in formulas: the sizes of mesh axes, or amounts of raw work."""
    texts = [text for what, text in amounts.items() if isinstance(text, str) and what != "dtype"]
    return list(dict.fromkeys(name for text in texts if kind_of(text) is None for name in formula_names(text)))


def multiple_of(asked: Question, label: str) -> int:
    """The multiple that a size must be for its mesh axes to divide it; 1 where their sizes are no plain numbers."""
    mesh = mesh_of(asked).mesh
    found = 1
    for step in program(asked.text, asked.conventions.compute).steps:
        for axis in (axis for shape in (*step.inputs, step.output) for axis in shape.axes if axis.label == label):
            ways = product(mesh[name].size for name in axis.shard) if mesh is not None else 1
            found = math.lcm(found, ways) if isinstance(ways, int) else found
    return found


def axis_size(size: Any, sizes: Mapping[str, Any]) -> Any:
    """The size of a mesh axis: a number, or what its formula comes to."""
    if not isinstance(size, str):
        return size
    found = formula(size, {name: value for name, value in sizes.items() if value is not None})
    whole = isinstance(found, float) and found.is_integer()
    return int(found) if whole else found
