"""A resolved program written back as one line of notation.

>>> from roofline.notation import canonical, program
>>> line = program("A[B,D]·int8[D , F]")
>>> canonical(line)
'A:bf16[B, D] * int8[D, F] -> bf16[B, F]'
>>> canonical(line, {"B": 64, "D": 8192, "F": 8192})
'A:bf16[64, 8192] * int8[8192, 8192] -> bf16[64, 8192]'

Without sizes the line reads back as the same program, so what lies between two operations is spelt out; with sizes
(also with none of them, ``{}``) it is meant for a reader:

>>> chain = program("gelu(bf16[B, D] * bf16[D, F]) * bf16[F, D]")
>>> canonical(chain)
'%3 = bf16[B, D] * bf16[D, F] -> bf16[B, F]; %4 = gelu(%3) -> bf16[B, F]; %4 * bf16[F, D] -> bf16[B, D]'
>>> canonical(program("softmax(fp32[B, 128])")), canonical(program("softmax(fp32[B, 128])"), {})
('softmax_last(fp32[B, 128]) -> fp32[B, 128]', 'softmax(fp32[B, 128]) -> fp32[B, 128]')
>>> canonical(chain, {"B": 8})
'gelu(bf16[8, D] * bf16[D, F]) * bf16[F, D] -> bf16[8, D]'
>>> canonical(program("conv(bf16[B, 32, 32, 3], bf16[5, 5, 3, 8], stride=(2, 2), pad=2x2, dilation=1)"))
'conv(bf16[B, 32, 32, 3], bf16[5, 5, 3, 8], stride=2, pad=2) -> bf16[B, 16, 16, 8]'

Over several chips a result that was not written takes any layout, so that none is written for it either:

>>> canonical(program("softmax_V(fp32[B, V_X])")), canonical(program("bf16[B, D_X] * bf16[D_X, F]"))
('softmax_V(fp32[B, V_X]) -> fp32', 'bf16[B, D_X] *_D bf16[D_X, F] -> bf16')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from roofline.frozen import dataclass, field
from roofline.notation.calls import FUNCTIONS, usual_over
from roofline.notation.scope import is_unnamed, show_axes
from roofline.notation.structure import Program, Shape, Step
from roofline.signatures import takes
from roofline.sizes import sums_by_name

_OPERATORS = {"contract": "*", "multiply": "*", "add": "+", "subtract": "-", "divide": "/"}
_NUMBER = re.compile(r"[\[ ][0-9]")
_USUAL = {"pad": 0, "output_pad": 0, "dilation": 1, "groups": 1}
_PRODUCTS = ("contract", "multiply")


@takes()
def canonical(program: Program, sizes: Mapping[str, Any] | None = None) -> str:
    """Write a program as one line; named sizes that are whole numbers in ``sizes`` are put in.

    Where one takes the place of a number in the text, no result shows numbers that are worked out from others.
    """
    numbers = {name: size for name, size in (sizes or {}).items() if isinstance(size, int)}
    given = {
        label for step in program.steps for shape in step.inputs if shape.source != "step" for label in shape.labels
    }
    computed = frozenset(program.sizes) - given if any(map(is_unnamed, numbers)) else frozenset[str]()
    known = {**program.sizes, **numbers}
    writer = _Writer(known, frozenset(numbers), computed, exact=sizes is None, sharded=bool(program.axes))
    uses = sums_by_name((shape.ident, 1) for step in program.steps for shape in step.inputs)
    lines = []
    for position, step in enumerate(program.steps):
        ident = step.output.ident
        is_read_once = uses.get(ident) == 1 and position + 1 < len(program.steps) and not step.leaves
        if sizes is not None and ident[0] == "%" and is_read_once:
            writer.inside[ident] = step
            continue
        target = f"{ident} = " if ident[0] != "%" or ident in uses or step.leaves else ""
        lines.append(target + writer.statement(step))
    lines += [step.output.ident for step in program.steps if step.leaves]
    return "; ".join(lines) + _clauses(program)


def laid_out(program: Program, over: Mapping[str, tuple[str, ...]]) -> Program:
    """A program whose dimensions are sharded over mesh axes, each label alike in all tensors and in the result.

    >>> from roofline.notation import program
    >>> canonical(laid_out(program("A[B, D] * W[D, F]"), {"B": ("X",), "F": ("Y",)}))
    'A:bf16[B_X, D] * W:bf16[D, F_Y] -> bf16[B_X, F_Y]'
    """

    def sharded(shape: Shape) -> Shape:
        axes = tuple(axis._replace(shard=over.get(axis.label, ())) for axis in shape.axes)
        shown = show_axes(axes, lambda label: str(program.sizes.get(label, label)), shape.unreduced)
        return shape._replace(axes=axes, written=shape.dtype + shown + shape.tiling)

    made = [one._replace(inputs=tuple(map(sharded, one.inputs)), output=sharded(one.output)) for one in program.steps]
    used = tuple(dict.fromkeys(axis for axes in over.values() for axis in axes))
    return program._replace(steps=(*made[:-1], made[-1]._replace(laid_out=True)), axes=used)


def step_text(step: Step, sizes: Mapping[str, int], numbers: Mapping[str, Any] | None = None) -> str:
    """Write one step, its operands in full; named sizes that are whole numbers in ``numbers`` are put in.

    >>> from roofline.notation import program
    >>> [_, gelu] = program("h = bf16[B, D] * bf16[D, F]; gelu(h)").steps
    >>> gelu.text, step_text(gelu, {}, {"B": 8})
    ('gelu(bf16[B, F]) -> bf16[B, F]', 'gelu(bf16[8, F]) -> bf16[8, F]')
    """
    whole = {name: size for name, size in (numbers or {}).items() if isinstance(size, int)}
    return _Writer({**sizes, **whole}, frozenset(whole), whole=True).statement(step)


def _clauses(program: Program) -> str:
    text = ""
    if program.mesh:
        text += " mesh " + ",".join(f"{axis}={size}" for axis, size in program.mesh.items())
    if program.on:
        text += f" on {program.on}"
    if program.over:
        text += f" over {program.over}"
    return text


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    """Writes steps: ``seen`` tensors by name, steps that stand ``inside`` others in their place.

    In a ``sharded`` program a result whose dimensions were not written takes any layout, so none is written.
    """

    sizes: Mapping[str, Any]
    put_in: frozenset[str]
    computed: frozenset[str] = frozenset()
    whole: bool = False
    exact: bool = False
    sharded: bool = False
    seen: set[str] = field(default_factory=set)
    inside: dict[str, Step] = field(default_factory=dict)

    def statement(self, step: Step) -> str:
        """Write one step and its result."""
        output = step.output
        known = self.sizes.keys() - self.computed
        unknown = any(is_unnamed(label) and label not in known for label in output.labels)
        return f"{self.value(step)} -> {output.dtype if unknown or self.open(step) else self.tensor(output)}"

    def open(self, step: Step) -> bool:
        """Whether the result may be laid out in any way."""
        return self.sharded and not step.laid_out and step.kind != "collective"

    def value(self, step: Step) -> str:
        """Write what a step computes."""
        if step.kind in ("contraction", "elementwise"):
            strong = step.function in _PRODUCTS
            left = self.operand(step.inputs[0], "+-/" if strong else "")
            right = self.operand(step.inputs[1], "*+-/" if strong else "+-/")
            over = _over(step, always=self.open(step)) if self.exact else ""
            return f"{left} {_OPERATORS[step.function]}{over} {right}"
        operands = [self.operand(shape, "") for shape in step.inputs]
        suffix = _suffix(step) if self.exact or not _is_usual(step) else ""
        return f"{step.function}{suffix}({', '.join([*operands, *_options(step)])})"

    def operand(self, shape: Shape, bracketed: str) -> str:
        """Write an operand; an operation inside is put in brackets if its sign is one of ``bracketed``."""
        if self.whole:
            return self.tensor(shape)
        inner = self.inside.get(shape.ident)
        if inner is not None:
            text = self.value(inner)
            sign = _OPERATORS.get(inner.function, "") if inner.kind != "function" else ""
            return f"({text})" if sign and sign in bracketed else text
        if shape.source == "step" or shape.ident in self.seen:
            return shape.ident
        self.seen.add(shape.ident)
        written = self.tensor(shape)
        return written if shape.ident[0] == "%" else f"{shape.ident}:{written}"

    def tensor(self, shape: Shape) -> str:
        """Write a tensor as it stands in the text, or with sizes put in."""
        if not self.put_in:
            return shape.written

        def show(label: str) -> str:
            return str(self.sizes.get(label, "?")) if is_unnamed(label) or label in self.put_in else label

        return shape.dtype + show_axes(shape.axes, show, shape.unreduced) + shape.tiling


def _over(step: Step, *, always: bool) -> str:
    """Name the contracted labels, where a number could be taken for one of them or where no result is written."""
    labels = step.contracted
    if not labels or any(is_unnamed(label) for label in labels):
        return ""
    if not always and not any(_NUMBER.search(shape.written) for shape in (*step.inputs, step.output)):
        return ""
    return f"_{labels[0]}" if len(labels) == 1 else f"_{{{','.join(labels)}}}"


def _is_usual(step: Step) -> bool:
    """Whether a function works along its default dimensions, and none of them was written."""
    if step.kind == "collective" or not step.over or step.over != usual_over(step.function, step.inputs[0].labels):
        return False
    return not step.spelt or any(is_unnamed(label) for label in step.over)


def _suffix(step: Step) -> str:
    if step.kind == "collective":
        target = str(step.options.get("dim", "#"))
        words = [*step.over, *([] if is_unnamed(target) else [target])]
    elif not FUNCTIONS[step.function].suffix or not step.over:
        return ""
    elif any(is_unnamed(label) for label in step.over):
        words = ["last"] if step.over == step.inputs[0].labels[-1:] else []
    else:
        words = list(step.over)
    if not words:
        return ""
    return f"_{words[0]}" if len(words) == 1 else f"_{{{','.join(words)}}}"


def _options(step: Step) -> list[str]:
    if step.kind == "collective":
        return []
    found = []
    for key, value in step.options.items():
        numbers = value if isinstance(value, tuple) else (value,)
        usual = step.options.get("window", 1) if key == "stride" else _USUAL.get(key)
        if value is True:
            found.append(key)
        elif value == "same":
            found.append("same")
        elif value == usual or set(numbers) == {usual} or (key == "groups" and "depthwise" in step.options):
            continue
        else:
            found.append(f"{key}={numbers[0] if len(set(numbers)) == 1 else 'x'.join(map(str, numbers))}")
    return found
