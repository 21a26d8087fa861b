"""What a line of notation means, before any size or machine is known: immutable values, nothing else.

Two stages. ``Node`` values mirror the text (:mod:`roofline.notation.parser` makes them). ``Step`` values are the
resolved meaning (:mod:`roofline.notation.resolver` makes them): every tensor typed, every dimension labelled, every
label classified as contracted, batch or kept. Costs are built from steps alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from roofline.frozen import Frozen, NamedTuple
from roofline.sizes import Size, ceil_div, product

_NO_OPTIONS: Mapping[str, Any] = Frozen({})


class Span(NamedTuple):
    """Start and end of a piece of the text."""

    start: int
    end: int


_NO_SPAN = Span(0, 0)


class Dim(NamedTuple):
    """One written dimension: a name or a number, and the mesh axes it is sharded over (``B_XY``)."""

    name: str | None
    size: int | None
    axes: tuple[str, ...] = ()
    span: Span = _NO_SPAN


class MemoryLayout(NamedTuple):
    """How XLA lays an array out in memory: ``{2,1,0:T(8,128)(2,1)S(1)}``.

    ``minor_to_major`` lists the dimensions, the one whose neighbours lie next to each other first. ``tiles`` are
    nested tiles, the outermost first; None in a tile joins a dimension to the next one (``T(*,128)``). ``space`` is
    the memory it lies in.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int | None, ...], ...] = ()
    space: int | None = None

    def __str__(self) -> str:
        """As it is written: ``{1,0:T(8,128)(2,1)S(1)}``."""
        tiles = "".join(f"({','.join('*' if size is None else str(size) for size in tile)})" for tile in self.tiles)
        space = "" if self.space is None else f"S({self.space})"
        said = ("T" if tiles else "") + tiles + space
        return "{" + ",".join(map(str, self.minor_to_major)) + (f":{said}" if said else "") + "}"


def tiled_elements(dims: Sequence[Size], layout: MemoryLayout | None) -> Size:
    """Elements that an array takes in memory with the padding of its tiles.

    The first tile covers the minor dimensions, which are rounded up to multiples of it; the next tile covers the
    minor dimensions of the one before. Source: XLA, "Tiled layout" (openxla.org/xla/tiled_layout).

    >>> tiled_elements((3, 5), MemoryLayout((1, 0), ((2, 2),)))          # 4 x 6
    24
    >>> tiled_elements((3, 5), MemoryLayout((0, 1), ((2, 4),)))          # the first dimension is the minor one: 6 x 4
    24
    >>> tiled_elements((100,), MemoryLayout((0,), ((8, 128), (2, 1))))
    1024
    >>> tiled_elements((3, 50), MemoryLayout((1, 0), ((None, 128),)))    # a dimension joined to the next: 150
    256
    """
    if layout is None or not layout.tiles:
        return product(dims)
    sizes = [dims[i] for i in reversed(layout.minor_to_major)] if layout.minor_to_major else [*dims]
    tiles: Size = 1
    for tile in layout.tiles:
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        tiles = tiles * product(sizes[: len(sizes) - len(tile)])
        joined: Size = 1
        for size, length in zip(sizes[len(sizes) - len(tile) :], tile, strict=True):
            joined = joined * size
            if length is not None:
                tiles, joined = tiles * ceil_div(joined, length), 1
        sizes = [length for length in tile if length is not None]
    return tiles * product(sizes)


class TensorNode(NamedTuple):
    """``dtype[dims]``, ``name[dims]``, ``name:dtype[dims] {U_X}`` or a bare name; ``dims`` is None when bare.

    ``layout`` is XLA's, None where the line has none.
    """

    name: str | None
    dtype: str | None
    dims: tuple[Dim, ...] | None
    unreduced: tuple[str, ...] = ()
    span: Span = _NO_SPAN
    layout: MemoryLayout | None = None


class BinaryNode(NamedTuple):
    """Two expressions joined by an operator.

    ``operator`` is ``contract`` (``* @ . · • ×``) or ``add``, ``subtract``, ``divide``; ``matmul`` marks ``@``.
    ``over`` holds the labels of a named contraction ``·_D``, and is None where none are written.
    """

    operator: str
    left: Node
    right: Node
    over: tuple[str, ...] | None = None
    symbol: str = "*"
    span: Span = _NO_SPAN
    position: int = 0


class CallNode(NamedTuple):
    """A function applied to arguments: ``softmax_T(x)``, ``conv(x, w, stride=2)``, ``AllGather_X(x)``.

    ``places`` says where each option stands in the text.
    """

    function: str
    arguments: tuple[Node, ...]
    over: tuple[str, ...] = ()
    options: Mapping[str, Any] = _NO_OPTIONS
    span: Span = _NO_SPAN
    places: Mapping[str, Span] = _NO_OPTIONS

    def place(self, *options: str) -> Span:
        """Where the last of these options stands, or the call where none is written."""
        written = [self.places[option] for option in options if option in self.places]
        return max(written, key=lambda span: span.start, default=self.span)


Node = TensorNode | BinaryNode | CallNode


def nodes_in(node: Node) -> Iterator[Node]:
    """A node and all inside it, in the order of the text."""
    yield node
    if isinstance(node, BinaryNode):
        inside: tuple[Node, ...] = (node.left, node.right)
    else:
        inside = node.arguments if isinstance(node, CallNode) else ()
    for each in inside:
        yield from nodes_in(each)


class StatementNode(NamedTuple):
    """``h = expression -> output``; the name and the output may be absent."""

    value: Node
    target: str | None = None
    output: TensorNode | None = None
    span: Span = _NO_SPAN


class ProgramNode(NamedTuple):
    """Statements joined by ``;`` and what may close the text: ``mesh X=2``, ``on v5e:4x4``, ``over vmem``."""

    statements: tuple[StatementNode, ...]
    text: str
    mesh: Mapping[str, int | str] = _NO_OPTIONS
    on: str | None = None
    over: str | None = None


class TensorDim(NamedTuple):
    """One dimension of a resolved tensor.

    ``label`` is never empty: a written number gets a label of its own (``#1``, ``#2`` …) whose size stands in
    ``Program.sizes``; the output of a convolution gets derived labels (``#3``) with no size there, which the cost
    rule supplies. ``shard`` holds the mesh axes the dimension is sharded over.
    """

    label: str
    shard: tuple[str, ...] = ()


Axes: TypeAlias = tuple[TensorDim, ...]
Labels: TypeAlias = tuple[str, ...]


class Shape(NamedTuple):
    """A typed tensor: which one it is (``ident``), its format, its dimensions.

    ``ident`` is the name where it has one, else unique in the program (``%1``). ``written`` is the text form
    (``bf16[B, D]``). ``source`` is ``input`` for a tensor that comes from memory and ``step`` for one that an
    earlier step made. ``unreduced`` holds the mesh axes it is a partial sum over (``{U_X}``). ``layout`` is how XLA
    lays it out in memory, where that is written.
    """

    ident: str
    dtype: str
    axes: tuple[TensorDim, ...]
    source: str = "input"
    unreduced: tuple[str, ...] = ()
    written: str = ""
    layout: MemoryLayout | None = None

    @property
    def tiling(self) -> str:
        """Its layout as it is written, where the tiles of it pad the tensor; else nothing."""
        return str(self.layout) if self.layout is not None and self.layout.tiles else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the dimensions in order."""
        return tuple(axis.label for axis in self.axes)


class Step(NamedTuple):
    """One resolved operation.

    Attributes
        ``kind``        ``contraction``, ``elementwise``, ``function`` or ``collective``
        ``function``    ``contract``; ``multiply``, ``add``, ``subtract``, ``divide``; or the registered function's name
        ``inputs``      operands in order; ``output`` what it makes
        ``contracted``  labels summed over; ``batch`` labels in both inputs and the output (contractions)
        ``over``        labels a function works along (softmax, reductions, norms); mesh axes for a collective
        ``compute``     the arithmetic dtype by the rules of the notation
        ``options``     ``causal``, ``stride``, ``padding`` …, validated against the function's signature
        ``laid_out``    whether the dimensions of the result, and so its sharding, were written
        ``spelt``       whether the labels of ``over`` were written
        ``leaves``      whether its result was named alone: it is written to memory, whoever else reads it
    """

    kind: str
    function: str
    inputs: tuple[Shape, ...]
    output: Shape
    contracted: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    compute: str = "bf16"
    options: Mapping[str, Any] = _NO_OPTIONS
    text: str = ""
    span: Span = _NO_SPAN
    laid_out: bool = False
    spelt: bool = False
    leaves: bool = False


class Program(NamedTuple):
    """Resolved steps in order, the sizes that stand in the text as numbers, and what had to be assumed.

    ``labels`` are the named sizes in order of first appearance: what a caller may set. ``axes`` are the mesh axes
    that occur.
    """

    steps: tuple[Step, ...]
    sizes: Mapping[str, int]
    labels: tuple[str, ...]
    text: str
    axes: tuple[str, ...] = ()
    mesh: Mapping[str, int | str] = _NO_OPTIONS
    on: str | None = None
    over: str | None = None
    assumptions: tuple[str, ...] = ()
