"""A resolved program and the sizes of its labels → operations.

>>> from roofline.notation import program
>>> line = program("h = bf16[B, D] * int8[D, F]; gelu(h)")
>>> [op.kind for op in build(line, {"B": 64, "D": 8192, "F": 8192})]
['contraction', 'elementwise']
>>> build(line, {})[0].work
Work(flops/matrix/bf16: 2*B*D*F)
>>> build(line, {"D": 8192, "N": 4})
Traceback (most recent call last):
roofline.errors.SizeError: size N stands nowhere in the expression; sizes are: B, D, F
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, InputError, NotationError, SizeError, suggest
from roofline.frozen import Frozen
from roofline.notation.structure import Program, Shape, Step
from roofline.ops.rules import Context, family_of, rule_for, show_size
from roofline.signatures import takes
from roofline.sizes import Size, check, is_array, is_symbol, none_open, symbol
from roofline.work import Op

#: Families that can count complex numbers: a complex product is 6 real FLOPs, a sum 2.
_COMPLEX_FAMILIES = ("contraction", "elementwise", "copy", "fft")


@takes()
def build(
    program: Program,
    sizes: Mapping[str, Size | None],
    *,
    exact: bool = False,
    count_padding: bool = True,
    compute: str | None = None,
) -> tuple[Op, ...]:
    """Make the operations of a program on one chip.

    ``sizes`` gives labels an int or an array; labels without one, or with None, become symbols. ``exact`` counts one
    add fewer than multiplies, ``count_padding=False`` leaves out what a convolution does on padded positions,
    ``compute`` is the arithmetic dtype of every operation.

    Raises :class:`~roofline.errors.SizeError` for a size that cannot be one, contradicts the text, stands nowhere in
    it, or is missing beside an array; :class:`~roofline.errors.NotationError` for sharded tensors and collectives,
    which one chip does not have.
    """
    _single_device(program)
    known = label_sizes(program, sizes)
    arithmetic = arithmetic_dtype(compute)
    ops = []
    for step in program.steps:
        _real_or_countable(program, step)
        op = rule_for(family_of(step))(step, Context(known, exact, count_padding, arithmetic))
        known = _with_derived(known, step.output, op)
        ops.append(op)
    return tuple(ops)


def _single_device(program: Program) -> None:
    collectives = [step for step in program.steps if step.kind == "collective"]
    if not (collectives or program.axes):
        return
    if collectives:
        raise NotationError(
            f"{collectives[0].function} moves data between chips: it needs a mesh, and this is one chip",
            text=program.text,
            position=collectives[0].span.start,
            hint="leave it out to ask about one chip's part",
        )
    raise NotationError(
        f"the tensors are sharded over {', '.join(program.axes)}: that needs a mesh, and this is one chip",
        text=program.text,
        position=program.steps[0].span.start,
        hint=f"leave _{program.axes[0]} out, and give the sizes one chip holds",
    )


def arithmetic_dtype(compute: str | None) -> str | None:
    """Check the arithmetic dtype a caller chose, where one was."""
    if compute is None:
        return None
    if not isinstance(compute, str):
        raise DTypeError(f"compute is the name of a dtype, not {compute!r}", hint="as in compute='bf16'")
    return dtypes.arithmetic_name(compute)


def _real_or_countable(program: Program, step: Step) -> None:
    family = family_of(step)
    if family in _COMPLEX_FAMILIES:
        return
    for shape in (*step.inputs, step.output):
        if dtypes.get(shape.dtype).family == "complex":
            raise NotationError(
                f"{step.function} of complex numbers has no cost rule",
                text=program.text,
                position=step.span.start,
                hint="contractions and sums, products and quotients of elements have one",
            )


# ---- sizes


def label_sizes(program: Program, given: Mapping[str, Any], axes: Mapping[str, Size] = Frozen({})) -> dict[str, Size]:
    """Check the sizes given for a program's labels; those without one become symbols. ``axes`` are a mesh's sizes."""
    known: dict[str, Size] = dict(program.sizes)
    for name, value in given.items():
        if value is None:
            continue
        if name in program.labels:
            known[name] = check(name, value)
        else:
            _contradiction(program, name, value)
    missing = [label for label in program.labels if label not in known]
    arrays = [name for name, value in known.items() if is_array(value)]
    opened = [*missing, *(name for name, value in known.items() if is_symbol(value))]
    none_open([*arrays, *(name for name, size in axes.items() if is_array(size))], opened)
    _broadcast(known, arrays)
    return {**known, **{label: symbol(label) for label in missing}}


def _contradiction(program: Program, name: str, value: Any) -> None:
    """Raise for a size that nothing in the text asks for; the same number once more is none."""
    if name in program.sizes:
        fixed = program.sizes[name]
        if is_array(value) or is_symbol(value) or value != fixed:
            raise SizeError(f"size {name} is {fixed} in the text, not {show_size(value)}", hint="give it in one place")
        return
    if any(name in step.output.labels for step in program.steps):
        raise SizeError(f"size {name} follows from the others", hint="leave it out")
    if not program.labels:
        raise SizeError(f"size {name} stands nowhere in the expression", hint="all its sizes are written as numbers")
    longer = next((label for label in program.labels if label.startswith(f"{name}_")), None)
    hint = suggest(name, program.labels, what="sizes")
    if longer is not None:
        axis = longer.removeprefix(f"{name}_")
        hint = f"{longer} is one name; {name} over a mesh axis {axis} is written {name}_{{{axis}}}"
    raise SizeError(f"size {name} stands nowhere in the expression", hint=hint)


def _broadcast(known: Mapping[str, Size], arrays: list[str]) -> None:
    for name in arrays[1:]:
        if known[name].shape == known[arrays[0]].shape:
            continue
        try:
            known[arrays[0]] + known[name]
        except ValueError:
            first, other = known[arrays[0]].shape, known[name].shape
            raise SizeError(
                f"sizes {arrays[0]} and {name} are arrays of shapes {first} and {other}",
                hint="arrays pair element by element, as numpy broadcasts them",
            ) from None


def _with_derived(known: dict[str, Size], shape: Shape, op: Op) -> dict[str, Size]:
    """Take in the sizes of the result that the rule worked out; they must agree with those that were known."""
    found = dict(known)
    for label, size in zip(shape.labels, op.writes[0].dims, strict=True):
        before = found.setdefault(label, size)
        if isinstance(before, int) and isinstance(size, int) and before != size:
            raise InputError(f"{label} of the result is {size}, and {before} elsewhere")
    return found
