"""What resolving a text keeps track of: names, sizes, labels given to numbers, steps made, what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, NotationError, near_words
from roofline.frozen import Frozen, NamedTuple
from roofline.notation.structure import Dim, Shape, Span, Step, TensorDim, TensorNode
from roofline.notation.tokens import TRANSPOSED

DEFAULT_DTYPE = "bf16"


class Wanted(NamedTuple):
    """What a statement says about the result of its last operation: its name and what stands after ``->``.

    ``inside`` is a result that only another operation of the statement uses: its layout is free.
    """

    name: str | None = None
    output: TensorNode | None = None
    inside: bool = False

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The dimensions that are written, None where none are."""
        return self.output.dims if self.output else None

    def dtype(self, otherwise: str) -> str:
        """The written dtype, or the one that follows from the operands."""
        return (self.output.dtype if self.output else None) or otherwise

    def unreduced(self, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        """The written partial sums where a result is written, or what follows from the operands."""
        stated = self.output.unreduced if self.output else ()
        return stated if self.dims is not None else stated or otherwise

    def written(self, output: Shape) -> str:
        """The result as it is written, or nothing where no dimensions are."""
        if self.dims is None or len(self.dims) != len(output.axes):
            return ""
        axes = [TensorDim(dim.name or str(dim.size), dim.axes) for dim in self.dims]
        return output.dtype + show_axes(axes, str, output.unreduced)


NOTHING = Wanted()

INSIDE = Wanted(inside=True)


class Scope:
    """The state of one resolution; it lives as long as one call of ``resolve``."""

    def __init__(self, text: str, compute: str | None) -> None:
        self.text = text
        self.compute = compute
        self.names: dict[str, Shape] = {}
        self.declared: dict[str, TensorNode] = {}
        self.sizes: dict[str, int] = {}
        self.derived: set[str] = set()
        self.steps: list[Step] = []
        self.assumptions: dict[str, None] = {}
        self.places: dict[tuple[str, str], Span] = {}
        self._defaulted: list[str] = []
        self._tensors = 0
        self._numbers = 0

    def ident(self, name: str | None = None) -> str:
        """Count one more tensor; give its name, or ``%n`` where it has none."""
        self._tensors += 1
        numbered = f"%{self._tensors}"
        if name and name[0] == "%" and name != numbered:
            raise self.fail(f"'{name}' is not the number of this tensor, {numbered}", 0, "a name begins with a letter")
        return name or numbered

    def number(self, size: int | None) -> str:
        """Make the label of a written number, or of a dimension whose size a cost rule will supply."""
        self._numbers += 1
        label = f"#{self._numbers}"
        if size is None:
            self.derived.add(label)
        else:
            self.sizes[label] = size
        return label

    def axis(self, dim: Dim) -> TensorDim:
        """Turn a written dimension into an axis."""
        return TensorDim(dim.name or self.number(dim.size), dim.axes)

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

    def tensor(self, node: TensorNode, default: str = DEFAULT_DTYPE) -> Shape:
        """Resolve a tensor that stands in an expression: a new input, or one that was named before."""
        declared = self.declared.pop(node.name, None) if node.name else None
        if declared is not None:
            self._input(declared, default)
        if node.dims is None:
            return self._referred(node)
        if node.name in self.names:
            return self._checked(node)
        return self._input(node, default)

    def _input(self, node: TensorNode, default: str) -> Shape:
        dims = node.dims or ()
        dtype = node.dtype or self.default_dtype(node, default)
        axes = tuple(self.axis(dim) for dim in dims)
        labels = [axis.label for axis in axes]
        for position, label in enumerate(labels):
            if label in labels[:position]:
                other = next(letter for letter in "KMPQRST" if letter not in labels)
                hint = f"give the second one a name of its own and tie the two: {label}, {other} with {other}={label}"
                raise self.fail(f"{label} stands twice in one tensor", dims[position].span, hint)
        shape = Shape(self.ident(node.name), dtype, axes, "input", node.unreduced, layout=node.layout)
        shape = shape._replace(written=self.show(shape))
        if shape.tiling:
            sharded = any(axis.shard for axis in axes)
            said = "is not counted: it is sharded" if sharded else "is counted"
            self.assume(f"the padding of the tiles of {shape.written} {said}")
        for axis, dim in zip(axes, dims, strict=True):
            self.places[shape.ident, axis.label] = dim.span
        if node.name:
            self.names[node.name] = shape
        return shape

    def _referred(self, node: TensorNode) -> Shape:
        name = node.name or ""
        if name not in self.names:
            hint = near_words(name, self.names) or f"an input is written with its dims, as in {name}[B, D]"
            if name == "T" and self.text[: node.span.start].endswith("."):
                hint = TRANSPOSED
            raise self.fail(f"'{name}' is not defined", node.span, hint)
        known = self.names[name]
        if node.unreduced and node.unreduced != known.unreduced:
            shown = f"{name}{self.show_axes(known.axes, known.unreduced)}"
            raise self.fail(f"{name} is {shown}", node.span, "partial sums come from an operation")
        return known

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

    def leave(self, node: TensorNode) -> bool:
        """Say of a named result that it leaves, whoever reads it; whether it is one that an operation made."""
        known = self.tensor(node) if node.name in self.names else None
        for at, step in enumerate(self.steps):
            if known is not None and step.output.ident == known.ident:
                self.steps[at] = step._replace(leaves=True)
                return True
        return False

    def agrees(self, known: Shape, dims: Sequence[Dim], unreduced: tuple[str, ...]) -> bool:
        """Say whether written dims fit a tensor that is known already."""
        if len(dims) != len(known.axes) or unreduced != known.unreduced:
            return False
        return all(
            dim.axes == axis.shard
            and (self.sizes.get(axis.label) == dim.size if dim.name is None else dim.name == axis.label)
            for dim, axis in zip(dims, known.axes, strict=True)
        )

    def unassigned(self, name: str, span: Span) -> None:
        """Check that a name is free, and one that a reader may give."""
        if name in self.names or name in self.declared:
            raise self.fail(f"'{name}' is assigned already", span, "a name is assigned once")
        if name[0] == "%":
            raise self.fail(f"'{name}' is not a name", span, "a name begins with a letter")

    def pair(self, left: str, right: str) -> str | None:
        """Take two labels for one; return the label that stands for both, or None where they differ.

        Numbers pair when equal. A number and a name pair when the name has no other size; it then has this one.
        """
        if left == right:
            return left
        if is_unnamed(left) and is_unnamed(right):
            size = self.sizes.get(left)
            return left if size is not None and size == self.sizes.get(right) else None
        if not is_unnamed(left) and not is_unnamed(right):
            return None
        name, number = (right, left) if is_unnamed(left) else (left, right)
        size = self.sizes.get(number)
        if size is None or self.sizes.get(name, size) != size or (name in self.derived and name not in self.sizes):
            return None
        if name not in self.sizes:
            self.sizes[name] = size
            self.assume(f"{name} = {size}, the number it meets")
        return name

    def is_one(self, label: str) -> bool:
        """Say whether this is a written 1, which broadcasts."""
        return is_unnamed(label) and self.sizes.get(label) == 1

    def show_label(self, label: str) -> str:
        """Write a label as a reader would: its name, or the number it stands for."""
        return str(self.sizes.get(label, "?")) if is_unnamed(label) else label

    def show_axes(self, axes: Sequence[TensorDim], unreduced: tuple[str, ...] = ()) -> str:
        """Write dimensions as ``[B_X, 4096] {U_Y}``."""
        return show_axes(axes, self.show_label, unreduced)

    def show(self, shape: Shape) -> str:
        """Write a tensor as ``bf16[B, D]``."""
        return shape.dtype + self.show_axes(shape.axes, shape.unreduced) + shape.tiling

    def place(self, shape: Shape, label: str, otherwise: Span) -> Span:
        """Where a label of an input stands in the text."""
        return self.places.get((shape.ident, label), otherwise)

    def fail(self, message: str, span: Span | int, hint: str = "") -> NotationError:
        """Make the error that points at a span."""
        return NotationError(message, text=self.text, position=span if isinstance(span, int) else span.start, hint=hint)

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
        axes: Sequence[TensorDim],
        *,
        span: Span,
        wanted: Wanted,
        at: Span | int | None = None,
        typed_by: Sequence[Shape] = (),
        dtype: str | None = None,
        unreduced: tuple[str, ...] = (),
        contracted: tuple[str, ...] = (),
        batch: tuple[str, ...] = (),
        over: tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
        spelt: bool = False,
    ) -> Shape:
        """Make one step; return its output. What is written after ``->`` goes before ``dtype`` and ``unreduced``.

        Without a ``dtype`` the result has that of the inputs, or of those in ``typed_by``; formats that do not go
        together are an error ``at`` a place.
        """
        compute, storage = self.dtypes(typed_by or inputs, span if at is None else at)
        dtype, unreduced = wanted.dtype(dtype or storage), wanted.unreduced(unreduced)
        self._labels_once(axes, wanted.output.span if wanted.output and wanted.dims is not None else span)
        axes = _first_of_each(axes) if wanted.inside else axes
        self._axes_once(axes, unreduced, span)
        output = Shape(self.ident(wanted.name), dtype, tuple(axes), "step", unreduced)
        output = output._replace(written=wanted.written(output) or self.show(output))
        self.steps.append(
            Step(
                kind, function, tuple(inputs), output, contracted, batch, over, compute, Frozen(dict(options or {})),
                span=span, laid_out=wanted.dims is not None, spelt=spelt,
            )
        )  # fmt: skip
        return output

    def _labels_once(self, axes: Sequence[TensorDim], span: Span) -> None:
        labels = [axis.label for axis in axes]
        for position, label in enumerate(labels):
            if label in labels[:position]:
                hint = "give one of the two dimensions another name"
                raise self.fail(f"{self.show_label(label)} stands twice in the result", span, hint)

    def _axes_once(self, axes: Sequence[TensorDim], unreduced: tuple[str, ...], span: Span) -> None:
        """Check that a mesh axis shards one dimension of a result at most."""
        used: dict[str, str] = {}
        for axis in axes:
            for shard in axis.shard:
                if shard in used:
                    shown = f"{self.show_label(used[shard])} and {self.show_label(axis.label)}"
                    hint = "write the result with the axis once: -> …"
                    raise self.fail(f"axis {shard} would shard both {shown} of the result", span, hint)
                used[shard] = axis.label
        for shard in unreduced:
            if shard in used:
                shown = self.show_label(used[shard])
                hint = "gather or scatter one of them first"
                raise self.fail(f"the result is a partial sum over {shard}, which shards its {shown}", span, hint)


def _first_of_each(axes: Sequence[TensorDim]) -> list[TensorDim]:
    """Let a mesh axis shard one dimension, the first that it stands at.

    >>> [axis.shard for axis in _first_of_each([TensorDim("S", ("Y",)), TensorDim("F", ("X", "Y"))])]
    [('Y',), ('X',)]
    """
    taken: set[str] = set()
    kept = []
    for axis in axes:
        kept.append(axis._replace(shard=tuple(name for name in axis.shard if name not in taken)))
        taken.update(axis.shard)
    return kept


def is_unnamed(label: str) -> bool:
    """Say whether a label stands for a written number or a derived size.

    >>> is_unnamed("#1"), is_unnamed("B")
    (True, False)
    """
    return label[0] == "#"


def rename(shape: Shape, labels: Mapping[str, str]) -> Shape:
    """Return the tensor with some labels replaced.

    >>> rename(Shape("%1", "bf16", (TensorDim("#1"), TensorDim("D"))), {"#1": "B"}).labels
    ('B', 'D')
    """
    if not any(label in labels for label in shape.labels):
        return shape
    return shape._replace(axes=tuple(TensorDim(labels.get(axis.label, axis.label), axis.shard) for axis in shape.axes))


def show_axes(axes: Sequence[TensorDim], show: Callable[[str], str], unreduced: tuple[str, ...] = ()) -> str:
    """Write dimensions, each label by ``show``, with their mesh axes.

    >>> show_axes([TensorDim("B", ("X", "Y")), TensorDim("D", ("data",))], str, ("Z",))
    '[B_XY, D_{data}] {U_Z}'
    """
    inside = ", ".join(show(axis.label) + _suffix(axis.shard) for axis in axes)
    return f"[{inside}] {show_sums(unreduced)}".rstrip()


def show_sums(unreduced: tuple[str, ...]) -> str:
    """Write the mesh axes that a tensor is in partial sums over; nothing where there are none."""
    return f"{{U{_suffix(unreduced)}}}" if unreduced else ""


def _suffix(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    letters = all(len(name) == 1 and "A" <= name <= "Z" for name in names)
    return "_" + "".join(names) if letters else f"_{{{','.join(names)}}}"
