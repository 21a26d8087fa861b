"""Layouts: which mesh axes shard which dimension of a tensor, and the part of it that one chip holds.

>>> layout = Layout(("B", "D"), (("X", "Y"), ()), ("Z",))
>>> str(layout), layout.state("Y"), layout.state("Z"), layout.state("W")
('[B_XY, D] {U_Z}', 'B', '{U}', None)
>>> str(layout.put({"Y": "D", "Z": None}))
'[B_X, D_Y]'
>>> local_size(8192, 4), local_size(10, 4, uneven="pad")
(2048, 3)
>>> local_size(10, 4, label="B")
Traceback (most recent call last):
roofline.errors.SizeError: size B of 10 does not divide over 4 chips; give a multiple of 4, ...

A move leads from one layout to another: a slice where every chip has all of the tensor, else a collective.

============  ==============  =====================================
from          to              move
============  ==============  =====================================
whole         sharded         slice: every chip keeps its part
sharded       whole           AllGather
sharded       sharded anew    AllToAll
partial sums  whole           AllReduce
partial sums  sharded         ReduceScatter
============  ==============  =====================================

Nothing makes partial sums of a tensor. What makes a tensor smaller comes first.

>>> x = Layout(("B", "D"), (("X",), ("Y",)), ("Z",))
>>> [move.name() for move in moves(x, {"X": "D", "Y": None, "Z": "B"})]
['ReduceScatter_{Z,B}', 'AllToAll_{X,D}', 'AllGather_Y']
>>> moves(x, {"X": UNREDUCED}) is None
True

A mesh axis may shard one of the loops of an operation, which each family has of its own. A loop is a label of the
operands and of the result. Each chip runs its part of a sharded loop. Where it sums, results are partial sums.

>>> from roofline.notation import program
>>> for loop in loops_of(program("bf16[B, D] * bf16[D, F]").steps[0]):
...     print(loop.labels, loop.result)
('B', None) B
('D', 'D') {U}
(None, 'F') F

Chips that share the rows of a softmax or a norm exchange statistics of each row, such as its largest entry and a sum.
Chips that share the keys of an attention do so too: their results add up once they have the same scale. Under a mask
each has early and late keys, so that as many are seen on all.

>>> loops_of(program("softmax_T(bf16[B, N, T])").steps[0])[-1][:3]
(('T',), 'T', 2)

Chips that share the queries of an attention have all of its keys, as if these went round a ring. Of a causal one each
takes early and late queries, so that all see as many keys. Where it has a window and the keys lie as the queries do,
each chip gets those that its window reaches back to. Chips that share an image of a convolution send neighbours the
rows that windows reach over the border, where chips divide the image and its result. Every other dimension is whole on
every chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from roofline.errors import SizeError, check_one_of
from roofline.frozen import NamedTuple, dataclass
from roofline.lazy import np
from roofline.notation.scope import show_axes
from roofline.notation.structure import Shape, Step, TensorDim
from roofline.ops.rules import family_of
from roofline.signatures import either, spelled
from roofline.sizes import UNEVEN, Size, ceil_div, floor_div, is_array, is_exact, is_one, is_symbol, maximum, product

#: The state of a mesh axis over which a tensor is a partial sum; no label is called so.
UNREDUCED = "{U}"

#: Where a mesh axis stands in a tensor: the label it shards, :data:`UNREDUCED`, or None where every chip has it all.
State = str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Labels in order, the mesh axes that shard each, and those the tensor is a partial sum over."""

    labels: tuple[str, ...]
    shards: tuple[tuple[str, ...], ...]
    unreduced: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """Every mesh axis that stands in it."""
        return (*(axis for shard in self.shards for axis in shard), *self.unreduced)

    @property
    def states(self) -> dict[str, State]:
        """Where every mesh axis stands that stands in it."""
        found: dict[str, State] = dict.fromkeys(self.unreduced, UNREDUCED)
        for label, shard in zip(self.labels, self.shards, strict=True):
            for axis in shard:
                found[axis] = label
        return found

    def state(self, axis: str) -> State:
        """Where a mesh axis stands."""
        return self.states.get(axis)

    def over(self, label: str) -> tuple[str, ...]:
        """The mesh axes that shard a label."""
        return next((s for known, s in zip(self.labels, self.shards, strict=True) if known == label), ())

    def put(self, states: Mapping[str, State]) -> Layout:
        """Move mesh axes to other states; an axis new to a label comes last there."""
        now = self.states
        changed = {axis: state for axis, state in states.items() if now.get(axis) != state}
        if not changed:
            return self
        kept = [tuple(axis for axis in shard if axis not in changed) for shard in self.shards]
        shards = tuple(
            (*old, *(axis for axis, state in changed.items() if state == label))
            for label, old in zip(self.labels, kept, strict=True)
        )
        partial = tuple(axis for axis in self.unreduced if axis not in changed)
        return Layout(self.labels, shards, (*partial, *(a for a, state in changed.items() if state == UNREDUCED)))

    def without(self, axes: Iterable[str]) -> Layout:
        """Leave out axes of one chip, which shard nothing."""
        return self.put(dict.fromkeys(axes))

    def ways(self, label: str, mesh: Mapping[str, Size]) -> Size:
        """Over how many chips a label is split."""
        return product(mesh[axis] for axis in self.over(label))

    def text(self, show: Callable[[str], str] = str) -> str:
        """Write it as ``[B_X, D] {U_Y}``, each label by ``show``."""
        dims = [TensorDim(*pair) for pair in zip(self.labels, self.shards, strict=True)]
        return show_axes(dims, show, self.unreduced)

    def __str__(self) -> str:
        return self.text()


def layout_of(shape: Shape) -> Layout:
    """Take the layout of a resolved tensor."""
    return Layout(shape.labels, tuple(axis.shard for axis in shape.axes), shape.unreduced)


def local_size(size: Size, ways: Size, *, label: str = "", uneven: str = "error") -> Size:
    """Return the part of a size that one chip holds, size/ways; one that does not divide is an error or padded.

    A symbol is taken to divide. With ``uneven="pad"`` every chip holds ⌈size/ways⌉, the last ones partly padding; so
    it does of a symbol of exact sizes.

    >>> from roofline.sizes import symbol
    >>> local_size(symbol("D"), symbol("n"))
    D/n
    """
    if is_one(ways):
        return size
    padded = uneven == "pad"
    if (is_symbol(size) or is_symbol(ways)) and not (padded and is_symbol(size) and is_exact(size)):
        return size / ways
    if padded:
        return ceil_div(size, ways)
    if not divides(size, ways):
        raise _uneven(size, ways, label)
    return size // ways


def divides(size: Size, ways: Size) -> bool:
    """Say whether a size divides evenly; a symbol is taken to.

    >>> divides(8, 4), divides(10, 4)
    (True, False)
    """
    if is_symbol(size) or is_symbol(ways):
        return True
    rest = size % ways
    return not (rest.any() if is_array(rest) else rest)


#: So many of the sizes that do not divide are named.
_MOST_NAMED = 4


def _uneven(size: Size, ways: Size, label: str) -> SizeError:
    """What does not divide: of arrays the sizes that do not over the first number of chips that one of them meets."""
    rest, rows = size % ways, None
    shown = [size]
    if is_array(rest):
        sizes, chips = np.broadcast_arrays(size, ways)
        rows = rest != 0
        ways = int(chips[rows][0])
        shown = [int(each) for each in np.unique(sizes[rows & (chips == ways)])]
    more = [f"{len(shown) - _MOST_NAMED} more"] if shown[_MOST_NAMED:] else []
    listed = [*map(str, shown[:_MOST_NAMED]), *more]
    label = "" if label.isdigit() else label  # a number has no name
    name = f" {label}" if label else ""
    who = f"size{name}" if label else "a size"
    hint = f"give a multiple of {ways}, or let it be padded with {spelled('uneven', 'pad')}"
    message = f"{who} of {listed[0]} does not divide over {ways} chips"
    if len(shown) > 1:
        message = f"sizes{name} of {', '.join(listed[:-1])} and {listed[-1]} do not divide over {ways} chips"
    rule = f"{label or 'a size'} is no multiple of the {ways} chips that it is split over"
    return SizeError(message, hint=hint, rows=rows, rule=rule)


def axis_hint(axis: str) -> str:
    """How a mesh axis is declared, for a message.

    >>> axis_hint("X")
    "declare it, as in mesh={'X': 4}"
    """
    return f"declare it, as in {either(f'--mesh {axis}=4', f'mesh={{{axis!r}: 4}}')}"


def check_uneven(uneven: str) -> str:
    """Return what is to be done with sizes that do not divide, or say what there is.

    >>> check_uneven("drop")
    Traceback (most recent call last):
    roofline.errors.InputError: sizes that do not divide cannot be treated as 'drop'; choices are: error, pad
    """
    check_one_of(f"sizes that do not divide cannot be treated as {uneven!r}", uneven, UNEVEN, "choices")
    return uneven


#: The kinds of moves, in the order they are made.
ORDER = ("slice", "ReduceScatter", "AllReduce", "AllToAll", "AllGather")

_WITH_TARGET = ("slice", "ReduceScatter", "AllToAll")


class Move(NamedTuple):
    """One move of a tensor: which mesh axes change their state, and to what."""

    kind: str
    axes: tuple[str, ...]
    to: tuple[State, ...]

    @property
    def sends(self) -> bool:
        """Whether anything is sent: everything but a slice."""
        return self.kind != "slice"

    def after(self, layout: Layout) -> Layout:
        """The layout it gives."""
        return _after(self, layout)

    def name(self, show: Callable[[str], str] = str) -> str:
        """Write it as the notation does: ``AllGather_X``, ``ReduceScatter_{X,K}``."""
        targets = dict.fromkeys(show(label) for label in self.to if label) if self.kind in _WITH_TARGET else {}
        words = [*self.axes, *targets]
        return f"{self.kind}_{words[0]}" if len(words) == 1 else f"{self.kind}_{{{','.join(words)}}}"


@lru_cache(maxsize=16_384)
def _after(move: Move, layout: Layout) -> Layout:
    return layout.put(dict(zip(move.axes, move.to, strict=True)))


def moves(layout: Layout, wanted: Mapping[str, State]) -> tuple[Move, ...] | None:
    """List the moves that bring mesh axes to their wanted states, or None where nothing does."""
    found: dict[tuple[str, State], list[tuple[str, State]]] = {}
    states = layout.states
    for axis, state in wanted.items():
        now = states.get(axis)
        if now == state:
            continue
        if state == UNREDUCED:
            return None
        kind = _kind(now, state)
        found.setdefault((kind, state if kind == "AllToAll" else None), []).append((axis, state))
    made = [Move(kind, tuple(a for a, _ in to), tuple(s for _, s in to)) for (kind, _), to in found.items()]
    return tuple(sorted(made, key=lambda move: ORDER.index(move.kind)))


def _kind(now: State, to: State) -> str:
    if now is None:
        return "slice"
    if now == UNREDUCED:
        return "AllReduce" if to is None else "ReduceScatter"
    return "AllGather" if to is None else "AllToAll"


#: What mesh axes have to do to a size: divide it, or it is padded where the caller allows that; divide it in any case;
#: be a multiple of it. Of windows: divide an image and its result; leave parts over whose borders they reach.
Fit: TypeAlias = Literal["padded", "divides", "multiple", "strides", "reach"]


class Windows(NamedTuple):
    """Windows along a dimension of an image, of which chips may make each its part of the result.

    ``taps`` are a label or a number. ``pad`` is None where as many positions are padded as that takes, and ``more`` is
    what is added at the end of a transposed result.
    """

    label: str
    taps: str | int
    stride: int
    pad: int | None
    dilation: int
    is_transposed: bool = False
    more: int = 0

    def scale(self, size: Size, taps: Size, ways: Size) -> bool:
        """Whether each of so many chips makes of its part of the image its part of the result, borders aside.

        >>> Windows("H", 3, 2, 0, 1).scale(64, 3, 4), Windows("H", 3, 2, 0, 1, True).scale(64, 3, 4)
        (True, False)
        """
        if not all(isinstance(n, int) for n in (size, taps, ways)):
            return False
        if self.is_transposed:
            return self.dilation == 1 and self.pad is not None and taps - 2 * self.pad + self.more == self.stride
        return bool(self.results(size, taps) > 0)

    def results(self, size: Size, taps: Size) -> Size:
        """Results of windows that are not transposed."""
        if self.pad is None:
            return ceil_div(size, self.stride)
        return floor_div(size + 2 * self.pad - self.extent(taps), self.stride) + 1

    def extent(self, taps: Size) -> Size:
        """Positions from the first tap to the last."""
        return self.dilation * (taps - 1) + 1

    def reach(self, size: Size, taps: Size, ways: Size) -> tuple[Size, Size]:
        """Rows that windows reach over the borders of a part: on the side that they reach further, and in all.

        A part of L rows has r results, the last part fewer or none. The rows that windows of stride s reach move by
        L − r·s from chip to chip, further before each part, or behind it, as far as the image goes.

        >>> Windows("H", 5, 1, 0, 1).reach(64, 5, 4), Windows("H", 3, 1, 1, 1).reach(64, 3, 4)
        ((3, 3), (1, 2))
        """
        if self.is_transposed and self.pad is not None:
            before, behind = (taps - 1 - self.pad) // self.stride, (self.stride - 1 + self.pad) // self.stride
            return maximum(before, behind), before + behind
        over = self.extent(taps) - self.stride
        if not all(isinstance(n, int) for n in (size, taps, ways)):  # an open size is kept
            over = maximum(0, over)
            return (ceil_div(over, 2), over) if self.pad is None else (self.pad, 2 * self.pad)
        results, part = max(1, self.results(size, taps)), ceil_div(size, ways)
        low = max(0, over + results * self.stride - size) // 2 if self.pad is None else self.pad
        each, sides = ceil_div(results, ways), []
        for chip in range(ceil_div(results, each)):  # those behind have no result
            own = range(chip * each, min((chip + 1) * each, results))
            above = below = 0
            for run in (own,) if over >= 0 else zip(own):  # what lies between windows nobody reads
                first, last = max(0, run[0] * self.stride - low), min(size, (run[-1] + 1) * self.stride + over - low)
                above += max(0, min(chip * part, last) - first)
                below += max(0, last - max(first, (chip + 1) * part))
            sides.append((above, below))
        return max(map(max, sides)), max(map(sum, sides))


class Loop(NamedTuple):
    """A loop: its label in each operand (None where it is absent), and the state of the result if it is sharded.

    ``statistics`` is how many numbers of each row chips exchange when they share it. ``parts`` is a size that the chips
    have to divide, without padding: the groups of a convolution. Of ``shared`` they are a multiple: so many chips share
    each key head. Of the operands at the places ``borders`` chips that share it send each other rows at the borders of
    their parts. ``windows`` are those that change its size. Where it is ``routed``, chips send each other the
    rows that they look up in their part of a table.
    """

    labels: tuple[State, ...]
    result: State
    statistics: int = 0
    parts: str | int | None = None
    shared: str | None = None
    borders: tuple[int, ...] = ()
    windows: Windows | None = None
    routed: bool = False

    @property
    def sizes(self) -> list[tuple[str | int | Windows, Fit]]:
        """The sizes that chips which shard it have to fit, and how."""
        needed: list[tuple[str | int | Windows | None, Fit]] = [
            (label, "padded") for label in dict.fromkeys(self.labels) if label != UNREDUCED
        ]
        needed += [(self.parts, "divides"), (self.shared, "multiple"), (self.windows, "strides")]
        return [(size, fit) for size, fit in needed if size is not None]


#: Reductions whose partial results over parts combine by the same reduction.
_COMBINING = ("sum", "mean", "max", "min", "prod", "norm")

#: Numbers of a row that chips exchange when they share it, by function. With them each chip finishes its part. Both
#: numbers of a reduction give the result, the first alone a partial one.
STATISTICS = {
    "softmax": ("the largest entry", "a sum"),
    "log_softmax": ("the largest entry", "a sum"),
    "layer_norm": ("a sum", "a sum of squares"),
    "group_norm": ("a sum", "a sum of squares"),
    "rms_norm": ("a sum of squares",),
    "attention": ("the largest score", "a sum"),
    "logsumexp": ("the largest entry", "a sum"),
    "argmax": ("the largest entry", "the place"),
    "argmin": ("the smallest entry", "the place"),
    "variance": ("a sum", "a sum of squares"),
    "cumsum": ("a sum",),
    "cumprod": ("a product",),
    "cummax": ("the largest entry",),
    "topk": ("the largest entries", "their places"),
}

#: Reductions of which partial results do not add up, though they combine.
NO_SUMS = ("max", "min", "prod", "argmax", "argmin", "logsumexp", "norm")


def loops_of(step: Step) -> tuple[Loop, ...]:
    """List the loops of an operation that a mesh axis may shard."""
    return tuple(_FAMILIES.get(family_of(step), _apart)(step))


def _named(step: Step, labels: Sequence[str], summed: Sequence[str] = (), statistics: int = 0) -> list[Loop]:
    """Loops that have one name in all tensors."""
    found = []
    for label in dict.fromkeys(labels):
        inside = tuple(label if label in shape.labels else None for shape in step.inputs)
        found.append(Loop(inside, UNREDUCED if label in summed else label, statistics))
    return found


def _apart(step: Step) -> list[Loop]:
    """Loops of an operation that treats entries separately: the labels of the result that it does not work along.

    The labels it works along are loops too where an exchange of statistics is enough.
    """
    given = {label for shape in step.inputs for label in shape.labels}
    loops = _named(step, [x for x in step.output.labels if x in given and x not in step.over])
    statistics = len(STATISTICS.get(step.function, ()))
    return [*loops, *(_named(step, step.over, statistics=statistics) if statistics else ())]


def _reduction(step: Step) -> list[Loop]:
    several = STATISTICS.get(step.function, ())
    summed = step.over if step.function in _COMBINING or several else ()
    kept = [x for x in step.inputs[0].labels if x not in step.over]
    partial = _named(step, summed, summed, len(several[:1]))
    return [*_named(step, kept), *partial, *(Loop((label,), None, 2) for label in (step.over if several else ()))]


def _norm(step: Step) -> list[Loop]:
    """A norm along a dimension; with stored statistics each entry by itself; else groups of channels, and the image."""
    if step.function == "batch_norm":
        return _named(step, step.output.labels)
    channels = step.output.labels[-1]
    if step.function != "group_norm" or channels not in step.over:
        return _apart(step)
    batch = [label for label in step.output.labels if label not in step.over]
    image = [label for label in step.over if label != channels]
    (whole_groups,) = _named(step, [channels])
    loops = [*_named(step, batch), whole_groups._replace(parts=step.options["groups"])]
    return [*loops, *_named(step, image, statistics=len(STATISTICS["group_norm"]))]


def _top(step: Step) -> list[Loop]:
    """The rows, and the row itself: chips merge the largest entries of their parts."""
    rows = [label for label in step.inputs[0].labels if label not in step.over]
    return [*_named(step, rows), *(Loop((label,), None, len(STATISTICS["topk"])) for label in step.over)]


def _attention(step: Step) -> list[Loop]:
    """Batch; heads, with those of keys and values or several chips to one of these; queries, of a window with the keys
    of the same positions; keys."""
    q, *others = (shape.labels for shape in step.inputs)
    queries, heads, keys = q[-3], q[-2], others[0][-3]
    nowhere = (None,) * len(others)
    loops = [
        Loop((heads, *(x[-2] for x in others)), heads),
        Loop((heads, *nowhere), heads, shared=others[0][-2]),
        Loop((queries, *nowhere), queries),
    ]
    if len(q) == 4:
        loops.append(Loop((q[0], *(x[0] for x in others)), q[0]))
    causal, window = step.options.get("causal"), step.options.get("window")
    alike = all(x[-3] == keys for x in others)
    if causal and window is not None and not step.options.get("unfused") and queries == keys and alike:
        loops.append(Loop((queries,) * len(step.inputs), queries, borders=tuple(range(1, len(step.inputs)))))
    if alike:
        loops.append(Loop((None, *(x[-3] for x in others)), UNREDUCED, len(STATISTICS["attention"])))
    return [loop for loop in loops if loop.result in (*step.output.labels, UNREDUCED)]


def _convolution(step: Step) -> list[Loop]:
    """Image, batch; without groups channels, whose sums are partial, and those of the result; else groups of both."""
    (x, kernel, *bias), groups = step.inputs, step.options.get("groups", 1)
    batch, channels, results = x.labels[0], x.labels[-1], kernel.labels[-1]
    loops = [*_images(step), *_named(step, [batch])]
    if groups == 1 and "depthwise" not in step.options:
        loops += [*_named(step, [results]), *_named(step, [channels], [channels])]
    elif step.function == "conv":
        loops.append(Loop((channels, results, *(results for _ in bias)), results, parts=groups))
    return [loop for loop in loops if loop.result in (*step.output.labels, UNREDUCED)]


def _pooling(step: Step) -> list[Loop]:
    labels = step.inputs[0].labels
    return [*_images(step), *_named(step, [x for x in (labels[0], labels[-1]) if x in step.output.labels])]


def _images(step: Step) -> list[Loop]:
    """The dimensions of an image, whose windows keep or change its size; several elements reach over borders."""
    loops = []
    for at, kept in enumerate(step.output.labels[1:-1], 1):
        along = windows_along(step, at)
        (loop,) = _named(step, [along.label])
        if along.label == kept:
            loops.append(loop._replace(borders=() if along.pad == 0 else (0,)))
        else:
            loops.append(loop._replace(result=kept, borders=(0,), windows=along))
    return loops


def windows_along(step: Step, at: int) -> Windows:
    """The windows along one dimension of the image of a convolution or a pooling."""
    pad, window = step.options["pad"], step.options.get("window")
    return Windows(
        step.inputs[0].labels[at],
        step.inputs[1].labels[at - 1] if window is None else window[at - 1],
        step.options["stride"][at - 1],
        None if pad == "same" else pad[at - 1],
        step.options["dilation"][at - 1],
        step.function == "conv_transpose",
        step.options.get("output_pad", (0,) * at)[at - 1],
    )


def _embedding(step: Step) -> list[Loop]:
    """The indices, the width, and the rows: each chip looks up its own and writes zeros for the others, or sends them
    to the chips that have their indices."""
    table, indices = step.inputs
    loops = _named(step, [x for x in (*indices.labels, table.labels[-1]) if x in step.output.labels])
    rows, kept = table.labels[0], [x for x in indices.labels if x in step.output.labels]
    if rows in indices.labels:
        return loops
    return [*loops, Loop((rows, None), UNREDUCED), *(Loop((rows, x), x, routed=True) for x in kept)]


_FAMILIES: dict[str, Callable[[Step], list[Loop]]] = {
    "contraction": lambda step: _named(step, [label for x in step.inputs for label in x.labels], step.contracted),
    "reduction": _reduction,
    "norm": _norm,
    "sort": _top,
    "attention": _attention,
    "convolution": _convolution,
    "pooling": _pooling,
    "embedding": _embedding,
}


def split_images(step: Step, layouts: Iterable[Layout], raw: Layout) -> list[str]:
    """List the dimensions of an image that a layout splits, of a step with windows that change its size.

    Those that windows keep are loops: chips exchange the borders of their parts. So are others where the raw result is
    split.
    """
    if family_of(step) not in ("convolution", "pooling"):
        return []
    images = {*step.inputs[0].labels[1:-1], *step.output.labels[1:-1]}
    for loop in loops_of(step):
        if loop.windows is None or raw.over(str(loop.result)):
            images -= {loop.labels[0], loop.result}
    return [label for layout in layouts for label in layout.labels if label in images and layout.over(label)]


#: Operations that are linear in all operands together: partial sums of these give partial sums of the result.
_LINEAR = ("add", "subtract", "sum", "mean", "neg", "cast", "copy", "transpose")

#: Operations that are linear in each operand by itself, and those that are so in the first one only.
_PRODUCTS, _FIRST = ("multiply", "contract"), ("divide", "embedding")


def linear_loops(step: Step) -> tuple[Loop, ...]:
    """Ways in which partial sums of operands give partial sums of the result: of all of a sum, of one of a product.

    >>> from roofline.notation import program
    >>> [loop.labels for loop in linear_loops(program("sum_S(bf16[B, S, D])").steps[0])]
    [('{U}',)]
    >>> [loop.labels for loop in linear_loops(program("bf16[B, D] * bf16[D, F]").steps[0])]
    [('{U}', None), (None, '{U}')]
    """
    operands = range(len(step.inputs))
    if step.function in _LINEAR:
        return (Loop((UNREDUCED,) * len(operands), UNREDUCED),)
    factors = operands if step.function in _PRODUCTS else operands[:1] if step.function in _FIRST else ()
    return tuple(Loop(tuple(UNREDUCED if x == at else None for x in operands), UNREDUCED) for at in factors)
