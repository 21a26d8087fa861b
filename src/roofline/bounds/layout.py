"""What one chip holds of a sharded tensor: its local shape, bytes on each chip and in all, how often it is copied.

>>> found = layout("int8[I_XY, J]", mesh={"X": 2, "Y": 8, "Z": 2}, I=128, J=2048)
>>> found
<Layout: int8[I_XY, J] is int8[8, 2048] on each of 32 chips, 16.4 kB; 262 kB in all, 2 copies>
>>> found.local, found.bytes, found.global_bytes, found.total_bytes, found.copies
((8, 2048), 16384, 262144, 524288, 2)
>>> layout("bf16[B_X, D]", on="v5e:4x4", B=10, D=8, uneven="pad").padding
2
>>> layout("bf16[B_X, D]", mesh={"X": "n"}).bytes
2*B*D/n

Partial sums ``{U_X}`` are held whole by every chip along X: that is no copy, but one of the parts of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.answers import Comparable, Fact, attributes
from roofline.bounds.api import refuse_model, target
from roofline.bounds.conventions import named_axes
from roofline.bounds.question import axis_size, resolve_sizes
from roofline.counts import typed_sizes
from roofline.errors import InputError, NotationError, SizeError, suggest
from roofline.frozen import dataclass, replace
from roofline.notation import parse
from roofline.notation.scope import DEFAULT_DTYPE
from roofline.notation.structure import MemoryLayout, TensorNode, tiled_elements
from roofline.ops import formula_names
from roofline.ops.sharding.layout import Layout, axis_hint, check_uneven, local_size
from roofline.quantity import format_amount
from roofline.sections import Section, named, word_pairs
from roofline.signatures import call, takes
from roofline.sizes import Size, check, is_array, is_one, product, symbol


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorLayout(Comparable):
    """A tensor laid out on a mesh.

    Attributes
        ``dims``, ``local``   sizes of the whole tensor and of one chip's part
        ``elements``          of one chip's part; ``global_elements`` of the tensor, ``tiled_elements`` in memory
        ``bytes``             bytes that one chip holds, padding included
        ``global_bytes``      bytes of the tensor itself; ``total_bytes`` of what all chips hold together
        ``copies``            how many chips hold the same part
        ``partial``           how many partial sums there are of every element (1 where it is no partial sum)
        ``padding``           elements of padding in each direction, added up over the dimensions
        ``used``              share of the elements in memory that are no padding of tiles
        ``space``             memory that a layout of XLA names: ``HBM``, ``VMEM``; None where it names none
        ``mesh``              sizes of the mesh axes by name
    """

    text: str
    dtype: str
    layout: Layout
    dims: tuple[Size, ...]
    local: tuple[Size, ...]
    mesh: Mapping[str, Size]
    assumptions: tuple[str, ...] = ()
    memory: MemoryLayout | None = None

    @property
    def elements(self) -> Size:
        """Elements of one chip's part, without the padding of tiles."""
        return product(self.local)

    @property
    def global_elements(self) -> Size:
        """Elements of the whole tensor, once and without padding."""
        return product(self.dims)

    @property
    def tiled_elements(self) -> Size:
        """Elements that one chip's part takes in memory, with the padding of XLA's tiles."""
        return tiled_elements(self.local, self.memory)

    @property
    def used(self) -> Size:
        """Share of the elements in memory that are no padding of XLA's tiles.

        >>> layout("bf16[100,300]{1,0:T(128,128)}").used
        0.6103515625
        """
        return self.elements / self.tiled_elements

    @property
    def space(self) -> str | None:
        """Memory that the layout names; None where it names none."""
        return None if self.memory is None or self.memory.space is None else _SPACES.get(self.memory.space)

    @property
    def target(self) -> str:
        """The tensor, which is what layouts differ in."""
        return self.text

    @property
    def is_floor(self) -> bool:
        """Bytes are no time."""
        return False

    def facts(self) -> Iterator[Fact]:
        """Bytes on a chip and in all, for a comparison."""
        yield Fact("bytes on each chip", self.bytes, "B", "less")
        yield Fact("bytes of the tensor", self.global_bytes, "B")
        yield Fact("bytes in all", self.total_bytes, "B", "less")
        yield from (Fact("copies", self.copies), Fact("elements on each chip", self.elements))

    @property
    def bytes(self) -> Size:
        """Bytes one chip holds, with the padding of XLA's tiles."""
        return dtypes.get(self.dtype).nbytes(self.tiled_elements)

    @property
    def global_bytes(self) -> Size:
        """Bytes of the whole tensor, once and without padding."""
        return dtypes.get(self.dtype).nbytes(self.global_elements)

    @property
    def chips(self) -> Size:
        """Chips in the mesh."""
        return product(self.mesh.values())

    @property
    def total_bytes(self) -> Size:
        """Bytes all chips hold together."""
        return self.bytes * self.chips

    @property
    def copies(self) -> Size:
        """How many chips hold the same part."""
        return product(size for axis, size in self.mesh.items() if self.layout.state(axis) is None)

    @property
    def partial(self) -> Size:
        """How many partial sums there are of every element."""
        return product(self.mesh[axis] for axis in self.layout.unreduced)

    @property
    def padding(self) -> Size:
        """Elements of padding, added over the dimensions; each is padded to a multiple of its axes."""
        parts = zip(self.dims, self.local, self.layout.shards, strict=True)
        return sum(here * product(self.mesh[axis] for axis in shard) - size for size, here, shard in parts)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/layout/1``); formulas as text."""
        return {
            "schema": "roofline/layout/1",
            "tensor": self.text,
            "dtype": self.dtype,
            **attributes(self, "mesh", "dims", "local", "chips", "bytes", "global_bytes", "total_bytes"),
            **attributes(self, "elements", "global_elements", "tiled_elements"),
            **attributes(self, "copies", "partial", "padding", "used", "space"),
            "assumptions": list(self.assumptions),
        }

    def sections(self) -> tuple[Section, ...]:
        """What each chip holds, the tensor, all chips together."""
        local = ", ".join(map(_count, self.local))
        here = f"{self.dtype}[{local}], {format_amount(self.bytes, 'B')}, {_amount(self.elements)} elements"
        whole = f"{format_amount(self.global_bytes, 'B')}, {_amount(self.global_elements)} elements"
        lines = [
            ("each chip", here),
            ("the tensor", f"{whole}, over {_count(self.chips)} {'chip' if is_one(self.chips) else 'chips'}"),
            ("in all", f"{format_amount(self.total_bytes, 'B')}: {_times(self.copies)}"),
        ]
        if self.memory is not None and self.memory.tiles:
            said = f"{_amount(self.tiled_elements)} elements on each chip with the padding of tiles"
            lines.insert(1, ("in memory", f"{said}, {_share(self.used)} of them used"))
        if self.layout.unreduced:
            over = ", ".join(self.layout.unreduced)
            lines.append(("partial sums", f"{_count(self.partial)} of every element, over {over}"))
        mesh = ",".join(f"{axis}={'[…]' if is_array(size) else size}" for axis, size in self.mesh.items())
        where = f"mesh {mesh}" if mesh else "one chip"
        return word_pairs(self.text, where, [*lines, *named("assumes", self.assumptions)])

    def one_line(self) -> str:
        """What each chip holds, and all chips together."""
        local = ", ".join(map(_count, self.local))
        here = f"{self.dtype}[{local}] on each of {_count(self.chips)} chips, {format_amount(self.bytes, 'B')}"
        return f"Layout: {self.text} is {here}; {format_amount(self.global_bytes, 'B')} in all, {_times(self.copies)}"


#: Memories by their number in a layout of XLA.
_SPACES = {0: "HBM", 1: "VMEM"}


def _memory(node: TensorNode) -> tuple[str, ...]:
    """Say which memory a layout of XLA puts the tensor in."""
    if node.layout is None or node.layout.space is None:
        return ()
    where = _SPACES.get(node.layout.space, "a memory that is not known here")
    return (f"lies in {where} (S({node.layout.space})); S(0) or none is HBM",)


@takes()
def layout(
    tensor: str,
    *,
    mesh: Mapping[str, Any] | None = None,
    on: Any = None,
    uneven: str = "error",
    local: bool = False,
    sizes: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    **named: Any,
) -> TensorLayout:
    """Lay out one tensor on a mesh.

    ``mesh`` gives the size of each axis: a number, an array, or a formula of sizes; ``on`` takes the axes of a target's
    shape instead. Sizes are numbers or arrays; those left out are symbols, and are taken to divide. A size that its
    axes do not divide is an error; with ``uneven="pad"`` every chip holds the part rounded up. ``local`` says that the
    sizes are those of one chip's part, as a profile shows them:

    >>> layout("bf16[4096_X, 8192]", mesh={"X": 8}, local=True).dims
    (32768, 8192)

    >>> layout("bf16[B_X, D]", mesh={"X": 4}, B=10, D=8)
    Traceback (most recent call last):
    roofline.errors.SizeError: size B of 10 does not divide over 4 chips; ...
    >>> layout("bf16[B_Z, D]", on="v5e:4x4")
    Traceback (most recent call last):
    roofline.errors.NotationError: mesh axis Z is not declared; the axes are: X, Y; declare it, as in mesh={'Z': 4}
      bf16[B_Z, D]
           ^
    """
    check_uneven(uneven)
    refuse_model(tensor, "one tensor", f"what each chip holds of it: {call('llm', tensor, on='h100:8', tensor=8)}")
    node, shape = _tensor(tensor), named_axes(mesh)
    twice = sorted({*(sizes or {})} & {*named})
    if twice:
        raise InputError(f"size {twice[0]} is given twice", hint="give it once")
    given = resolve_sizes(typed_sizes({**(sizes or {}), **named}))
    axes, notes = _axes(node, tensor, shape, on, files, given)
    labels = [dim.name for dim in node.dims or () if dim.name]
    beside = {*axes, *(name for size in shape.values() if isinstance(size, str) for name in formula_names(size))}
    unknown = next((name for name in given if name not in labels and name not in beside), None)
    if unknown is not None:
        hint = suggest(unknown, labels, what="sizes")
        raise SizeError(f"size {unknown} stands nowhere in the tensor", hint=hint)
    known = {name: check(name, given[name]) if name in given else symbol(name) for name in labels}
    given_dims = node.dims or ()
    names = tuple(dim.name or f"#{i}" for i, dim in enumerate(given_dims))
    where = Layout(names, tuple(dim.axes for dim in given_dims), node.unreduced)
    dims = tuple(known[dim.name] if dim.name else dim.size for dim in given_dims)
    ways = [product(axes[axis] for axis in dim.axes) for dim in given_dims]
    if local:
        dims = tuple(size * way for size, way in zip(dims, ways, strict=True))
    parts = tuple(
        local_size(size, way, label=dim.name or "", uneven=uneven)
        for size, way, dim in zip(dims, ways, given_dims, strict=True)
    )
    dtype = dtypes.get(node.dtype or DEFAULT_DTYPE).name
    said = [] if node.dtype else [f"default dtype {DEFAULT_DTYPE}"]
    text, assumed = tensor.strip(), (*said, *_memory(node), *notes)
    found = TensorLayout(text, dtype, where, dims, parts, axes, assumed, node.layout)
    if uneven == "pad" and not is_array(found.padding) and found.padding != 0:
        return replace(found, assumptions=(*assumed, f"padded to a multiple of the axes: {found.padding} more in all"))
    return found


def _tensor(text: str) -> TensorNode:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{text!r} is no tensor", hint="as in layout('bf16[B_X, D]', mesh={'X': 4})")
    parsed = parse(text)
    node = parsed.statements[0].value
    if len(parsed.statements) > 1 or not isinstance(node, TensorNode) or parsed.statements[0].output or not node.dims:
        hint = "as in bf16[B_X, D]; 'roofline shard' lays out whole expressions"
        raise NotationError("a layout is that of one tensor with its dimensions", text=text, hint=hint)
    return node


def _axes(
    node: TensorNode, text: str, mesh: dict[str, Any], on: Any, files: Sequence[str], sizes: Mapping[str, Any]
) -> tuple[dict[str, Size], tuple[str, ...]]:
    """Sizes of the mesh axes, from the caller or from the target's shape."""
    axes = {axis: axis_size(size, sizes) for axis, size in mesh.items()}
    notes: tuple[str, ...] = ()
    if on is not None:
        from roofline.hardware.mesh import shape_axes, with_mesh

        machine = target(on, files=files)
        if mesh and machine.links:
            machine = with_mesh(machine, axes)
        if machine.mesh is not None:
            axes, notes = dict(machine.mesh.sizes), machine.mesh.notes
        else:
            axes = axes or shape_axes(machine)
    axes = {axis: check(axis, size) for axis, size in axes.items()}
    for dim in node.dims or ():
        for axis in dim.axes:
            _declared(axis, axes, text, dim.span.start + len(dim.name or str(dim.size)) + 1)
    for axis in node.unreduced:
        _declared(axis, axes, text, text.find("{"))
    return axes, notes


def _declared(axis: str, axes: Mapping[str, Size], text: str, position: int) -> None:
    if axis not in axes:
        known = f"the axes are: {', '.join(axes)}" if axes else "there are none"
        message = f"mesh axis {axis} is not declared; {known}"
        raise NotationError(message, text=text, position=position, hint=axis_hint(axis))


def _times(copies: Size) -> str:
    return "1 copy" if is_one(copies) else f"{_count(copies)} copies"


def _count(size: Size) -> str:
    """A number as it stands, an array as its range."""
    if not is_array(size):
        return str(size)
    return " … ".join(dict.fromkeys(f"{end:.12g}" for end in (float(size.min()), float(size.max()))))


def _amount(size: Size) -> str:
    """A number with separators, an array or a formula as it stands."""
    return f"{size:,}" if isinstance(size, int) else _count(size)


def _share(value: Size) -> str:
    return f"{100 * value:.4g}%" if isinstance(value, float) else _count(value)
