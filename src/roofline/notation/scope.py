"""What resolving a text keeps track of: names, sizes, labels given to numbers, steps made, what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, NotationError
from roofline.notation.structure import Axis, Dim, Shape, Span, Step, TensorNode

DEFAULT_DTYPE = "bf16"


class Scope:
    """The state of one resolution; it lives as long as one call of ``resolve``."""

    def __init__(self, text: str, compute: str | None) -> None:
        self.text = text
        self.compute = compute
        self.names: dict[str, Shape] = {}
        self.sizes: dict[str, int] = {}
        self.derived: set[str] = set()
        self.steps: list[Step] = []
        self.assumptions: dict[str, None] = {}
        self.places: dict[tuple[str, str], Span] = {}
        self._defaulted: list[str] = []
        self._tensors = 0
        self._numbers = 0

    # -- making ---------------------------------------------------------------------------------

    def ident(self, name: str | None = None) -> str:
        """Count one more tensor; give its name, or ``%n`` where it has none."""
        self._tensors += 1
        return name or f"%{self._tensors}"

    def number(self, size: int | None) -> str:
        """Make the label of a written number, or of a dimension whose size a cost rule will supply."""
        self._numbers += 1
        label = f"#{self._numbers}"
        if size is None:
            self.derived.add(label)
        else:
            self.sizes[label] = size
        return label

    def axis(self, dim: Dim) -> Axis:
        """Turn a written dimension into an axis."""
        return Axis(dim.name or self.number(dim.size), dim.axes)

    def assume(self, line: str) -> None:
        """Note, once, what was assumed."""
        self.assumptions[line] = None

    def default_dtype(self, node: TensorNode, dtype: str) -> str:
        """Note that a tensor was written without a dtype."""
        if dtype != DEFAULT_DTYPE:
            self.assume(f"default dtype {dtype} for {node.name or self.text[node.span.start : node.span.end]}")
        else:
            shown = node.name or " ".join(self.text[node.span.start : node.span.end].split())
            if shown not in self._defaulted:
                self._defaulted.append(shown)
        return dtype

    def all_assumptions(self) -> tuple[str, ...]:
        """List what was assumed, the default dtype first."""
        first = [f"default dtype {DEFAULT_DTYPE} for {', '.join(self._defaulted)}"] if self._defaulted else []
        return (*first, *self.assumptions)

    # -- tensors --------------------------------------------------------------------------------

    def tensor(self, node: TensorNode, default: str = DEFAULT_DTYPE) -> Shape:
        """Resolve a tensor that stands in an expression: a new input, or one that was named before."""
        if node.dims is None:
            return self._referred(node)
        if node.name in self.names:
            return self._checked(node)
        dtype = node.dtype or self.default_dtype(node, default)
        axes = tuple(self.axis(dim) for dim in node.dims)
        labels = [axis.label for axis in axes]
        for position, label in enumerate(labels):
            if label in labels[:position]:
                hint = "give the second one a name of its own"
                raise self.fail(f"{label} stands twice in one tensor", node.dims[position].span, hint)
        shape = Shape(self.ident(node.name), dtype, axes, "input", node.unreduced)
        shape = replace(shape, written=self.show(shape))
        for axis, dim in zip(axes, node.dims, strict=True):
            self.places[shape.ident, axis.label] = dim.span
        if node.name:
            self.names[node.name] = shape
        return shape

    def _referred(self, node: TensorNode) -> Shape:
        name = node.name or ""
        if name not in self.names:
            from roofline.errors import did_you_mean

            near = did_you_mean(name, self.names)
            hint = f"did you mean '{near}'?" if near else f"an input is written with its dims, as in {name}[B, D]"
            raise self.fail(f"'{name}' is not defined", node.span, hint)
        return self.names[name]

    def _checked(self, node: TensorNode) -> Shape:
        known = self.names[node.name or ""]
        if node.dtype and node.dtype != known.dtype:
            raise self.fail(f"{node.name} is {known.dtype}, here {node.dtype}", node.span, "a name is assigned once")
        dims = node.dims or ()
        if not self.agrees(known, dims, node.unreduced):
            shown = f"{node.name}{self.show_axes(known.axes, known.unreduced)}"
            hint = "a name is assigned once; give the other tensor another name"
            raise self.fail(f"{node.name} is {shown}", node.span, hint)
        return known

    def agrees(self, known: Shape, dims: Sequence[Dim], unreduced: tuple[str, ...]) -> bool:
        """Say whether written dims fit a tensor that is known already."""
        if len(dims) != len(known.axes) or unreduced != known.unreduced:
            return False
        return all(
            dim.axes == axis.shard
            and (self.sizes.get(axis.label) == dim.size if dim.name is None else dim.name == axis.label)
            for dim, axis in zip(dims, known.axes, strict=True)
        )

    def define(self, name: str, shape: Shape, span: Span, *, again: bool = False) -> None:
        """Bind a name to a tensor, once."""
        if name in self.names and not again:
            raise self.fail(f"'{name}' is assigned already", span, "a name is assigned once")
        self.names[name] = shape

    # -- labels ---------------------------------------------------------------------------------

    def pair(self, left: str, right: str) -> str | None:
        """Take two labels for one; return the label that stands for both, or None where they differ.

        Numbers pair when equal. A number and a name pair when the name has no other size; it then has this one.
        """
        if left == right:
            return left
        if is_number(left) and is_number(right):
            size = self.sizes.get(left)
            return left if size is not None and size == self.sizes.get(right) else None
        if not is_number(left) and not is_number(right):
            return None
        name, number = (right, left) if is_number(left) else (left, right)
        size = self.sizes.get(number)
        if size is None or self.sizes.get(name, size) != size or (name in self.derived and name not in self.sizes):
            return None
        if name not in self.sizes:
            self.sizes[name] = size
            self.assume(f"{name} = {size}, the number it meets")
        return name

    def is_one(self, label: str) -> bool:
        """Say whether this is a written 1, which broadcasts."""
        return is_number(label) and self.sizes.get(label) == 1

    # -- text -----------------------------------------------------------------------------------

    def show_label(self, label: str) -> str:
        """Write a label as a reader would: its name, or the number it stands for."""
        return str(self.sizes.get(label, "?")) if is_number(label) else label

    def show_axes(self, axes: Sequence[Axis], unreduced: tuple[str, ...] = ()) -> str:
        """Write dimensions as ``[B_X, 4096] {U_Y}``."""
        return show_axes(axes, self.show_label, unreduced)

    def show(self, shape: Shape) -> str:
        """Write a tensor as ``bf16[B, D]``."""
        return shape.dtype + self.show_axes(shape.axes, shape.unreduced)

    def place(self, shape: Shape, label: str, otherwise: Span) -> Span:
        """Where a label of an input stands in the text."""
        return self.places.get((shape.ident, label), otherwise)

    def fail(self, message: str, span: Span | int, hint: str = "") -> NotationError:
        """Make the error that points at a span."""
        position = span if isinstance(span, int) else span.start
        return NotationError(message, text=self.text, position=position, hint=hint)

    # -- dtypes and steps -----------------------------------------------------------------------

    def dtypes(self, shapes: Sequence[Shape], span: Span | int) -> tuple[str, str]:
        """Choose the arithmetic dtype and the storage dtype of a result from its operands."""
        names = [shape.dtype for shape in shapes]
        try:
            return self.compute or dtypes.arithmetic(names), dtypes.storage(names)
        except DTypeError as error:
            if self.compute is None:
                raise self.fail(error.message, span, error.hint) from None
            return self.compute, dtypes.get(self.compute.partition("_acc")[0]).name

    def add(
        self,
        kind: str,
        function: str,
        inputs: Sequence[Shape],
        axes: Sequence[Axis],
        *,
        dtype: str,
        compute: str,
        span: Span,
        name: str | None = None,
        unreduced: tuple[str, ...] = (),
        contracted: tuple[str, ...] = (),
        batch: tuple[str, ...] = (),
        over: tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Shape:
        """Make one step; return its output."""
        output = Shape(self.ident(name), dtype, tuple(axes), "step", unreduced)
        output = replace(output, written=self.show(output))
        self.steps.append(
            Step(
                kind,
                function,
                tuple(inputs),
                output,
                contracted,
                batch,
                over,
                compute,
                MappingProxyType(dict(options or {})),
                "",
                span,
            )
        )
        return output


def is_number(label: str) -> bool:
    """Say whether a label stands for a written number or a derived size.

    >>> is_number("#1"), is_number("B")
    (True, False)
    """
    return label[0] == "#"


def rename(shape: Shape, labels: Mapping[str, str]) -> Shape:
    """Return the tensor with some labels replaced.

    >>> rename(Shape("%1", "bf16", (Axis("#1"), Axis("D"))), {"#1": "B"}).labels
    ('B', 'D')
    """
    if not any(label in labels for label in shape.labels):
        return shape
    axes = tuple(Axis(labels.get(axis.label, axis.label), axis.shard) for axis in shape.axes)
    return replace(shape, axes=axes)


def show_axes(axes: Sequence[Axis], show: Callable[[str], str], unreduced: tuple[str, ...] = ()) -> str:
    """Write dimensions, each label by ``show``, with their mesh axes.

    >>> show_axes([Axis("B", ("X", "Y")), Axis("D", ("data",))], str, ("Z",))
    '[B_XY, D_{data}] {U_Z}'
    """
    inside = ", ".join(show(axis.label) + _suffix(axis.shard) for axis in axes)
    return f"[{inside}]" + (f" {{U{_suffix(unreduced)}}}" if unreduced else "")


def _suffix(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    letters = all(len(name) == 1 and "A" <= name <= "Z" for name in names)
    return "_" + "".join(names) if letters else f"_{{{','.join(names)}}}"
