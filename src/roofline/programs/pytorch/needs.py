"""Which elements of tensors from outside a PyTorch program needs, followed back through its operations.

Views share a storage, so what is needed of one is kept as places of its bytes; an operation that a rule follows says
which elements of its operands a part of its result needs (``programs.regions``). Of every other all is needed.

Scores that a mask of the program's own hides, and weights of an attention that are zero for them.

An attention that is written out masks its scores (``masked_fill``, ``where``, values written to the places of a mask, a
sum with one), takes their softmax and multiplies it by values. Values that no query sees are not needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import product
from math import prod
from operator import lt
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import sympy

from roofline import dtypes
from roofline.frozen import NamedTuple, replace
from roofline.ops.einsum import operand_letters
from roofline.ops.pricing import Reach
from roofline.programs import needs, positions, regions
from roofline.programs.needs import Asked
from roofline.programs.positions import LOW, ZERO, Elements, broadcast, hidden_by, values_held, worked_out
from roofline.programs.pytorch.registry import FUNCTIONS, OF_LETTERS, REDUCTIONS, Call, TensorOperand, operands_in
from roofline.programs.pytorch.rules.contractions import ONE_TRIANGLE
from roofline.programs.pytorch.rules.moving import OF_ELEMENTS, is_replacing, known_mask, known_places, named_elements
from roofline.programs.pytorch.rules.sequences import let_through
from roofline.programs.pytorch.rules.vector import BATCH_NORMS
from roofline.programs.pytorch.rules.windows import CONVOLUTIONS, POOLS, convolution_places, pool_places
from roofline.programs.regions import NOTHING, WHOLE, Region
from roofline.programs.tensor_parts import MOST_PLACES, Stretches, places_together
from roofline.sizes import Size, is_one, is_surely, is_symbol, is_zero, maximum, minimum
from roofline.work import Op, Tensor

#: Functions that take the softmax of scores, and products of matrices.
SOFTMAXES, PRODUCTS = ("softmax", "_softmax", "_safe_softmax"), ("mm", "bmm", "matmul", "einsum")

#: Places of a storage in bytes; None for all of it.
Places: TypeAlias = "dict[Stretches, None] | None"
#: More stretches than these are not told apart.
_MOST_STRETCHES = 256
#: Masks of more elements are not looked at.
_LARGEST_MASK = 2**22


class BoxStretches(Stretches):
    """The places of a box of a tensor of open sizes, laid out so; a mask of positions may let some of it through."""

    box: regions.Box
    shape: tuple[Size, ...]
    layout: Any

    @classmethod
    def of(cls, places: Stretches, box: regions.Box, tensor: TensorOperand) -> BoxStretches:
        """The places of a box of a tensor."""
        made = cls(*places)
        made.box, made.shape, made.layout = box, tensor.shape, tensor.layout
        return made

    @property
    def masked(self) -> regions.MaskedBox | None:
        """The box, where a mask lets some of it through."""
        return self.box if isinstance(self.box, regions.MaskedBox) else None

    def __eq__(self, other: object) -> bool:
        mask = other.masked if isinstance(other, BoxStretches) else None
        return isinstance(other, Stretches) and tuple(self) == tuple(other) and self.masked == mask

    def __hash__(self) -> int:
        return hash(tuple(self))


class NeededBytes(NamedTuple):
    """What a program needs, and which of the bytes that operations write in place, by their places, it gives back."""

    of_tensors: dict[str, Size]
    given: dict[int, Size]


def needed_bytes(
    ops: Sequence[Op],
    calls: Mapping[int, Call],
    seen: Callable[[str], Stretches | None],
    results: Set[str],
    shown: Mapping[str, Sequence[Stretches]],
    outside: Set[str] = frozenset(),
    least: Mapping[str, int] = MappingProxyType({}),
) -> NeededBytes:
    """Bytes of each tensor that the program needs, by its name, where these are not all of it.

    ``calls`` are what operations were made of, ``seen`` says which bytes a view has, ``shown`` which bytes of a tensor
    are given back, ``results`` which are so whole. What nothing reads is a result too, and all that is written to
    tensors from ``outside``.
    """
    read, calls = {t.base for op in ops for t in op.reads}, with_hidden(calls)
    if least:
        made_of = {id(call): _counted_from(least, call) for call in calls.values()}  # several operations have one call
        calls = {place: made_of[id(call)] for place, call in calls.items()}
        ops, shown = _counted_from(least, ops), {name: _counted_from(least, each) for name, each in shown.items()}
    needed: dict[str, Places] = defaultdict(dict)
    for ident, parts in shown.items():
        needed[ident] = dict.fromkeys(parts)
    needed.update(dict.fromkeys(results, None))
    written_whole = {t.ident for op in ops for t in op.writes if t.touched is None}
    left = {ident: list(parts) for ident, parts in shown.items()}

    def need(ident: str, places: Sequence[Stretches] | None) -> None:
        base = ident.partition("[")[0]
        before = needed[base]
        if places is None or before is None:
            needed[base] = None
            return
        before.update(dict.fromkeys(places))
        if len(before) > _MOST_STRETCHES:
            needed[base] = None

    made = {t.ident: t for op in reversed(ops) for t in op.writes if "[" not in t.ident}
    by_call: dict[int, Mapping[str, Sequence[Sequence[Stretches]]]] = {}
    bases = {t.base for op in ops for t in op.writes[:1]}
    kept = {base for base in bases - shown.keys() if base.partition(".")[0] in outside}
    stays, given = _written_last(ops, calls, kept)
    for place, op in reversed(list(enumerate(ops))):
        for tensor in op.writes[:1]:  # statistics and the like beside a result count where something reads them
            is_used = any(t.ident in needed for t in op.writes)
            if tensor.base not in read and tensor.ident not in shown and not is_used:
                needed[tensor.ident] = None
        call: Any = calls.get(place)
        asked = needed.get(op.writes[0].ident, {}) if op.writes else {}
        if _is_part(op, call):
            base, (changed, is_new) = op.writes[0].base, _changed(op, call)
            asked = needed[base]
            if asked is None:
                every = [_everything(made[base])] if base in made else []
                asked = dict.fromkeys(each for each in every if each is not None) or None
                asked = dict.fromkeys(left[base]) if asked is None and base in left.keys() - written_whole else asked
            if changed and base in left:
                after = _without(left[base], changed)
                if after is None:
                    del left[base]
                else:
                    given[place] = _bytes(dict.fromkeys(left[base])) - _bytes(dict.fromkeys(after))
                    left[base] = after
            if is_new and asked is not None:
                after = _without(list(asked), changed or _somewhere(call, asked))
                needed[base] = asked if after is None else dict.fromkeys(after)
            if base in kept:
                asked = None if asked is None or place not in stays else {**asked, **dict.fromkeys(stays[place])}
        whole = next((t.ident for t in op.writes[:1] if t.touched is None and t.ident in left), None)
        if whole is not None and left[whole] != list(shown[whole]):  # parts of it are written again
            given[place] = _bytes(dict.fromkeys(left.pop(whole)))
        followed = _followed(op, call, asked, needed)
        if call is not None:  # of several operations of one call the last has its result
            followed = by_call.setdefault(id(calls[place]), followed)
        for tensor in op.reads:
            view = _counted_from(least, seen(tensor.ident)) or _everything(tensor)
            for places in followed.get(tensor.ident, [None if view is None else [view]]):
                need(tensor.ident, places)
            needed.setdefault(tensor.base, {})
    return NeededBytes({ident: _bytes(places) for ident, places in needed.items() if places is not None}, given)


def _written_last(
    ops: Sequence[Op], calls: Mapping[int, Call], kept: Set[str]
) -> tuple[dict[int, list[Stretches]], dict[int, Size]]:
    """Of operations that write parts of tensors that are kept: places that none after them writes again, and bytes.

    Where the places are not known they are others than those written later, as long as the view has others; the same
    indices of a view name the same places.
    """
    covered: dict[str, list[Stretches]] = defaultdict(list)
    spent: dict[str, dict[Any, Size]] = defaultdict(dict)
    stays: dict[int, list[Stretches]] = {}
    given: dict[int, Size] = {}
    for place, op in reversed(list(enumerate(ops))):
        base = op.writes[0].base if op.writes else ""
        call = calls.get(place) if base in kept else None
        if call is None or not _is_part(op, call):
            continue
        later, (written, _) = covered[base], _changed(op, call)
        if written:
            near = [part for part in later if any(not _lie_apart(part, own) for own in written)]
            after = _without(written, near)
            if after is not None:
                stays[place], given[place] = after, _bytes(dict.fromkeys(after))
            if len(later) + len(written) <= _MOST_STRETCHES:
                later += written
            continue
        _share_unknown(place, op, call, later, spent[base], stays, given)
    return stays, given


def _share_unknown(
    place: int,
    op: Op,
    call: Call,
    later: Sequence[Stretches],
    spent: dict[Any, Size],
    stays: dict[int, list[Stretches]],
    given: dict[int, Size],
) -> None:
    """The bytes that a write to unknown places of a view gives back; ``spent`` are those given by later ones.

    The same indices of views whose rows lie as far apart name the same rows: of these what the later view leaves.
    """
    out, (axes, indices) = call.results[0], _indices_of(call)
    view, axis = _places(out, WHOLE), axes[0] if len(axes) == 1 else None
    apart = [(out.shape[each], out.layout[0][each]) for each in axes] if out.layout else []
    box = [(0, 1, 1) if each in axes else edges for each, edges in enumerate(regions.box_of(out.shape))]
    row = _places(out, (tuple(box),))
    same = (indices, tuple(step for _, step in apart))  # name the same rows, of which views have other parts
    again = [part for each in spent if each[3] == same for part in each[4]]
    key = (tuple(view), out.shape, axis, same, tuple(row))
    every, kept = _bytes(dict.fromkeys(row)), _bytes(dict.fromkeys([*again, *row])) - _bytes(dict.fromkeys(again))
    if again:
        left = [
            (each.start, sorted((*apart, *each.steps), key=lambda step: -step[1]))
            for each in _without(row, again) or ()
        ]
        stays[place] = [Stretches(start, tuple(steps)) for start, steps in left]
        if key in spent or kept == 0:
            given[place] = 0
            return
    size, own = _bytes(dict.fromkeys(view)), op.writes[0].traffic_bytes
    own = own * kept // every if again else own
    room = _bytes(dict.fromkeys([*later, *view])) - _bytes(dict.fromkeys(later))
    rows, taken = list(regions.box_of(out.shape)), dict[Any, Size]()
    for (other, shape, along, *_), amount in spent.items() if len(spent) <= _MOST_STRETCHES else ():
        if other == key[0] and shape == out.shape and None not in (along, axis) and along != axis:  # rows that cross
            first, last, _ = rows[along]
            rows[along] = (minimum(last, first + amount * last // size), last, 1)
        elif not any(_lie_apart(one, two) for one in view for two in other):
            taken[other] = taken.get(other, 0) + amount
    for other, amount in taken.items():  # of which so many surely lie in this view
        room -= maximum(0, amount + size - _bytes(dict.fromkeys([*other, *view])))
    for first, last, _ in rows:
        own = own * (last - first) // maximum(1, last)
    if rows != [*regions.box_of(out.shape)]:
        stays[place] = [*_places(out, (tuple(rows),))]
    given[place] = spent[key] = maximum(0, minimum(own, room))


def _indices_of(call: Call) -> tuple[Sequence[int], Any]:
    """The axes along which indices name rows of what a call writes, all for elements; and which indices they are."""

    def name(value: Any) -> Any:
        if isinstance(value, TensorOperand):
            return value.tensor and value.tensor.ident
        return tuple(map(name, value)) if isinstance(value, list | tuple) else value

    rank = call.results[0].rank
    if call.name == "index_put":
        chosen = [axis for axis, index in enumerate(call.args[1]) if index is not None]
        return chosen, name([call.args[1][axis] for axis in chosen])
    if call.name.startswith("index_"):
        return [call.args[1] % max(1, rank)][:rank], name([call.args[2]])
    return range(rank), name(call.args[1 : 3 if call.name.startswith("scatter") else 2])


def _lie_apart(one: Stretches, other: Stretches) -> bool:
    """Whether the last byte of one surely lies before the first of the other."""
    return is_surely(lt, one.last, other.start) or is_surely(lt, other.last, one.start)


def _without(places: Sequence[Stretches], parts: Sequence[Stretches]) -> list[Stretches] | None:
    """Places without those of several parts; None where one of them cannot be cut out."""
    for part in parts:
        left = regions.without(places, part)
        if left is None:
            return None
        places = left
    return list(places)


def _everything(tensor: Tensor) -> Stretches | None:
    """All bytes of a tensor that is read as a whole."""
    if "[" in tensor.ident or tensor.touched is not None:
        return None
    nbytes = regions.expanded(dtypes.get(tensor.dtype).nbytes(tensor.elements))
    return Stretches(0, ((int(nbytes) if not is_symbol(nbytes) else nbytes, 1),))


def _is_part(op: Op, call: Call | None) -> bool:
    """Whether an operation writes a part of a tensor in place."""
    if call is None or not call.in_place or not op.writes or call.results[0].layout is None:
        return False
    return bool(op.writes[0].updates) or op.writes[0].touched is not None


def _changed(op: Op, call: Call) -> tuple[Sequence[Stretches], bool]:
    """The bytes of a part that an operation writes in place, where they are known; whether it reads none of them."""
    out, boxes = call.results[0], _named_boxes(call)
    is_copy, is_new = call.name in ("copy", "fill", "zero"), is_replacing(call)
    if boxes:
        return _places(out, tuple(boxes)), is_copy or is_new
    is_new = is_copy or (is_new and _are_rows(call))
    if is_copy or call.is_pointwise or op.writes[0].traffic_elements == out.elements:
        return _places(out, WHOLE), is_new
    return (), is_new


def _indices_in(call: Call) -> list[TensorOperand]:
    return [*operands_in((call.args[1 if call.name == "index_put" else 2],))]


def _are_rows(call: Call) -> bool:
    """Whether indices name so many rows or elements, whichever; how many a mask takes is not known."""
    is_listed = call.name in ("scatter", "scatter_reduce") or call.name.startswith("index_")
    return is_listed and not any(each.dtype in ("bool", "uint8") for each in _indices_in(call))


def _somewhere(call: Call, asked: Mapping[Stretches, None]) -> Sequence[Stretches]:
    """Rows that unknown indices of a view replace, of those that are asked for: how many are left counts alone."""
    out, region = call.results[0], _asked_region(call.results[0], dict(asked))
    if not region:
        return ()
    return _places(out, (regions.somewhere(region, out.shape, _sizes_replaced(call)),))


def _sizes_replaced(call: Call) -> Sequence[Size]:
    """How large the part is that rows or elements replace which indices name, each another one."""
    named, shape = _indices_in(call), call.results[0].shape
    if call.name.startswith("scatter"):
        return named[0].shape
    return regions.rows_of(shape, _indices_of(call)[0], prod(broadcast(*(each.shape for each in named))))


def _named_boxes(call: Call) -> Sequence[regions.Box] | None:
    """The boxes that a call with indices writes; None where they are not known."""
    shape = call.results[0].shape
    if not shape:
        return None
    if call.name in OF_ELEMENTS:
        named = named_elements(call)
        boxes = [] if named is None else regions.boxes_where(named)
        return boxes if boxes and regions.elements_of(tuple(boxes), shape) == named.sum() else None
    if call.name in ("index_copy", "index_fill", "index_add", "index_reduce"):
        chosen = {call.args[1] % max(1, len(shape)): call.args[2]}
    elif call.name == "index_put":
        chosen = _by_axis(call.args[1])
    else:
        return None
    places = _named_places(chosen, shape)
    if places is None:
        return None
    start = tuple((0, 1, 1) if axis in chosen else edges for axis, edges in enumerate(regions.box_of(shape)))
    shown = {axis: axis for axis in range(len(shape)) if axis not in chosen}
    every = [(0, size, 1) for size in places.shape[:-1]]
    return regions.named(
        (*start, *every), places, range(len(start), len(start) + len(every)), shown, [*chosen], len(start)
    )


def _by_axis(indices: Sequence[TensorOperand | None]) -> dict[int, TensorOperand]:
    """Indices by the axis that each is of, None for a whole one; of a mask of the program's own the places it names."""
    found: dict[int, TensorOperand] = {}
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif index.dtype == "bool" and index.is_constant and index.elements <= MOST_PLACES:
            places = np.nonzero(np.asarray(index.values))
            own = (replace(index, values=at, dtype="int64", shape=at.shape) for at in places)
            found |= dict(enumerate(own, axis))
            axis += index.rank
        else:
            found[axis] = index
            axis += index.rank if index.dtype in ("bool", "uint8") else 1
    return found


def _named_places(chosen: Mapping[int, TensorOperand], shape: Sequence[Any]) -> Any:
    """The places that indices along some axes name together, the axes last; None where they are not known."""
    placed: list[Any] = []
    for axis, index in chosen.items():
        places, size = known_places(index), shape[axis]
        if places is None or (is_symbol(size) and (places < 0).any()):
            return None
        placed.append((places if is_symbol(size) else places % size).reshape(index.shape))
    return np.stack(np.broadcast_arrays(*placed), -1) if placed else None


def _counted_from(least: Mapping[str, int], value: Any) -> Any:
    """Operations, calls or places, with open sizes counted from their least."""
    own = partial(_counted_from, least)
    if not least:
        return value
    if isinstance(value, Op):
        return replace(value, reads=own(value.reads), writes=own(value.writes))
    if isinstance(value, Tensor):
        return replace(value, dims=own(value.dims), touched=own(value.touched))
    if isinstance(value, Call):
        return replace(value, args=own(value.args), results=own(value.results))
    if isinstance(value, TensorOperand) and value.layout is not None:
        strides, start, width = value.layout
        formulas, hidden = (
            each.renamed({size: own(size) for size in each.open_sizes}, own(each.shape))
            if isinstance(each, Elements) else each for each in (value.formulas, value.hidden)
        )  # fmt: skip
        layout = own(tuple(map(_of_some_elements, strides))), own(start), width
        return replace(value, shape=own(value.shape), layout=layout, formulas=formulas, hidden=hidden)
    if isinstance(value, Stretches):
        return Stretches(own(value.start), own(value.steps))
    if isinstance(value, list | tuple):
        return tuple(map(own, value))
    return regions.counted_from(least, [value])[0] if is_symbol(value) else value


def _of_some_elements(stride: Size) -> Size:
    """A stride of a tensor that is not empty: PyTorch takes a dimension for at least 1 long, in case it is."""
    if not is_symbol(stride):
        return stride
    return stride.replace(sympy.Max, lambda *sizes: sympy.Max(*(size for size in sizes if size != 1)))


def _bytes(places: Mapping[Stretches, None]) -> Size:
    """Bytes of places, each once; of such as cannot be cut the largest alone."""
    boxes = [each for each in places if isinstance(each, BoxStretches)]
    is_one = len(boxes) == len(places) and len({(each.shape, each.layout) for each in boxes}) == 1
    told = boxes if is_one else [each for each in boxes if each.masked]
    if told:
        plain = [each for each in places if each not in told]
        alike: dict[Any, list[regions.Box]] = defaultdict(list)
        for each in told:
            alike[each.shape, each.layout].append(each.box)
        held = [regions.elements_of(regions.union(of), shape) * layout[2] for (shape, layout), of in alike.items()]
        return maximum(*held, *([_bytes(dict.fromkeys(plain))] if plain else ()))
    if any(is_symbol(n) for each in places for n in (each.start, *(n for step in each.steps for n in step))):
        return regions.elements_of_stretches(list(places))
    return places_together(list(places))


def _followed(
    op: Op, call: Call | None, asked: Places, needed: Mapping[str, Places]
) -> Mapping[str, Sequence[Sequence[Stretches]]]:
    """What an operation needs of the tensors that it reads for places of its result, by their names, if followed."""
    if call is None or not call.full_name.startswith("aten.") or not call.results or not op.writes:
        return {}
    if call.name.startswith("convolution_backward"):
        return _of_kernel_gradient(call)
    rule = _RULES.get(call.name) or (needs.alike if call.is_pointwise else None)
    out, is_part = call.results[0], _is_part(op, call)
    if is_part and asked is not None and _asked_region(out, asked) == NOTHING:
        return {tensor.ident: () for tensor in op.reads}
    if rule is None:
        return {}
    single = out.tensor is not None and op.writes[0].ident == out.tensor.ident and op.writes[0].touched is None
    single = is_part or (single and "[" not in op.writes[0].ident)
    idents = {t.ident for t in op.writes[1:] if t.ident in needed}
    beside = [each for each in call.results[1:] if each.tensor is not None and each.tensor.ident in idents]
    operands = list(operands_in((call.args, call.results[:1], tuple(beside))))
    if not single or any(each.layout is None for each in operands):
        return {}
    if len(beside) != len(idents) or (beside and rule in (_recurrent, _solved)):
        return {}
    if any(each.shape != out.shape for each in beside):
        return {}
    found: dict[str, list[Sequence[Stretches]]] = {}
    try:
        region = _asked_region(out, asked)
        for each in beside:  # as places of what a pool, a sort or a maximum takes
            assert each.tensor is not None
            region = regions.union(region, _asked_region(each, needed[each.tensor.ident]))
        if region is not WHOLE:
            given = list(operands_in(call.args))
            facts = Asked(call, [x.shape for x in given], [out.shape], [region], given)
            for operand, part in zip(given, rule(facts), strict=False):
                if operand.tensor is not None:
                    found.setdefault(operand.tensor.ident, []).append(_places(operand, part))
    except TypeError:  # a comparison that depends on an open size
        if all(type(size) is int for each in operands for size in each.shape):
            raise
        return {}
    return found


def _of_kernel_gradient(call: Call) -> Mapping[str, Sequence[Sequence[Stretches]]]:
    """The gradient of a kernel needs the elements of the image that its windows reach."""
    grad, x, weight = call.operands(0, 1, 2)
    if x.tensor is None or x.layout is None or x.rank != weight.rank:
        return {}
    with suppress(TypeError):  # a comparison that depends on an open size
        places, transposed = convolution_places(call, x, weight, grad)
        groups, every = int(call.stated("groups", 1)), (regions.box_of(grad.shape),)
        image, _ = regions.convolved(every, weight.shape, places, groups, transposed)
        return {x.tensor.ident: [_places(x, image)]}
    return {}


def _asked_region(tensor: TensorOperand, asked: Places) -> Region:
    """The elements of a result that lie at places which are asked for; all where that depends on open sizes."""
    try:
        return regions.box_in(WHOLE, tensor.shape) if asked is None else _region(tensor, list(asked))
    except TypeError:  # a comparison that depends on one
        if all(type(size) is int for size in tensor.shape):
            raise
        return WHOLE


def _region(tensor: TensorOperand, places: Sequence[Stretches]) -> Region:
    """The elements of a tensor that lie at places of its storage; all where these lie on no common grid."""
    assert tensor.layout is not None
    strides, start, width = tensor.layout
    boxes = {each: _box_in(tensor, each) for each in places if isinstance(each, BoxStretches)}
    own = {each: box for each, box in boxes.items() if box is not None}
    if own:
        rest = [each for each in places if each not in own]
        return regions.union(tuple(own.values()), _region(tensor, rest) if rest else ())

    def is_dense(order: Sequence[int]) -> bool:
        behind = (regions.expanded(prod(tensor.shape[d] for d in order[at + 1 :]) * width) for at in range(len(order)))
        return all(tensor.shape[d] == 1 or strides[d] == held for d, held in zip(order, behind, strict=True))

    order: Sequence[int] = range(len(strides))
    if not is_dense(order):
        order = sorted(order, key=lambda d: (-strides[d], tensor.shape[d]))
    shape, dense = tuple(tensor.shape[d] for d in order), is_dense(order)
    held = regions.expanded(prod(shape) * width)
    if dense and not start and Stretches(0, ((held, 1),)) in places:
        return regions.box_in(WHOLE, tensor.shape)
    if start or not dense or not all(regions.is_less(each.last, held) for each in places):
        view = regions.stretches_of(regions.box_of(tensor.shape), strides, start, width)
        found = regions.shown_by(view, (*shape, width), places)
    else:
        found = regions.union(*(regions.boxes_of(each, (*shape, width)) for each in places))
    region = regions.each(found, lambda box: [tuple(box[order.index(d)] for d in range(len(order)))])
    return regions.box_in(region, tensor.shape)


def _box_in(tensor: TensorOperand, places: BoxStretches) -> regions.Box | None:
    """The box of a tensor that a box of a view of it is, under its mask; None where it has none, or it is not told."""
    if (places.shape, places.layout) == (tensor.shape, tensor.layout):
        return places.box
    assert tensor.layout is not None
    (strides, start, width), (apart, first, other) = tensor.layout, places.layout
    if places.masked is None or width != other:
        return None
    begin = regions.boxes_of(Stretches(regions.expanded(first - start), ()), (*tensor.shape, width))
    if begin is None or len(begin) != 1:
        return None
    found, told = list(begin[0][:-1]), list[tuple[int, Any, Size] | None]()
    for size, stride, (low, high, step) in zip(places.shape, apart, places.box, strict=True):
        times = [None if is_zero(own) else regions.expanded(regions.whole_quotient(stride, own)) for own in strides]
        axis = next((d for d, n in enumerate(times) if type(n) is int and n > 0 and found[d] == begin[0][d]), None)
        if is_zero(stride) or is_one(size):
            told.append(None)
        elif axis is None:
            return None
        else:
            n, at = times[axis] or 1, begin[0][axis][0]
            found[axis] = regions.edge(at + low * n, -(-(high - low) // step), step * n)
            told.append((axis, sympy.Rational(1, n), -sympy.sympify(at) / n))
    return regions.under(places.box, tuple(found), told)


def _places(tensor: TensorOperand, region: Region) -> Sequence[Stretches]:
    """The places of elements in a tensor's storage."""
    assert tensor.layout is not None
    strides, start, width = tensor.layout
    boxes = regions.box_in(region, tensor.shape) or ()
    found = [(regions.stretches_of(box, strides, start, width), box) for box in boxes]
    is_open = any(map(is_symbol, tensor.shape))
    kept = (is_open or isinstance(box, regions.MaskedBox) for box in boxes)
    return [BoxStretches.of(*each, tensor) if keeps else each[0] for each, keeps in zip(found, kept, strict=True)]


def _axis(each: Asked, default: int = 0) -> int:
    """The dimension that the call names, counted from the front."""
    return int(each.facts.get("dim", default)) % max(1, len(each.outs[0]))


def _rolled(each: Asked) -> Iterator[Region]:
    own, dims = each.ins[0], each.facts.get("dims", ())
    shape = own if dims else (prod(own),)
    found = regions.reshaped(each.region, own, shape)
    for axis, shift in zip(dims or (0,), each.facts.get("shifts"), strict=True):
        size, axis = shape[axis], axis % len(shape)
        if is_symbol(size) and not regions.is_at_most(abs(shift), size):
            raise TypeError  # nobody knows how often it turns
        first = shift % max(1, size) if not is_symbol(size) else shift if shift >= 0 else size + shift
        last = size - first  # the last so many come to the front
        ends = regions.joined(found, axis, first, last), regions.joined(found, axis, 0, first)
        starts = [last if place == axis else 0 for place in range(len(shape))]
        part = (*shape[:axis], first, *shape[axis + 1 :])
        found = regions.union(ends[0], regions.sliced(ends[1], part, starts, (1,) * len(shape)))
    yield regions.reshaped(found, shape, own)


def _padded(each: Asked) -> Iterator[Region]:
    pads = [*each.facts.get("pad", ())][::2]
    return needs.padded(each, [*[0] * (len(each.ins[0]) - len(pads)), *pads[::-1]])


def _gated(each: Asked) -> Iterator[Region]:
    """Of both halves what the result has."""
    axis, size = _axis(each, -1), each.outs[0][_axis(each, -1)]

    def both(box: Any) -> list[Any]:
        first, last, step = box[axis]
        whole = (first, last, step) == (0, size, 1)
        halves = [(0, each.ins[0][axis], 1)] if whole else [box[axis], (first + size, last + size, step)]
        return [(*box[:axis], half, *box[axis + 1 :]) for half in halves]

    yield regions.each(each.region, both)


def _masked(each: Asked) -> Iterator[Region]:
    """Of tensors of which a mask takes elements those that it takes, where the program itself says which."""
    filled = each.facts.name == "masked_fill"
    place = int(filled)
    if len(each.numbers) <= place:
        return iter(())
    mask = known_mask(each.numbers[place])
    choice = each.numbers[place].formulas if mask is None else mask
    return needs.chosen(each, choice, (False, None, True) if filled else (None, True, False))


def _triangular(each: Asked) -> Iterator[Region]:
    """Of matrices their triangle."""
    kept = _triangle(each.facts, each.outs[0])
    if kept is None:
        return needs.alike(each)
    shown = kept.shown(1) if isinstance(kept, Elements) else kept
    return iter([regions.let_through(each.region, each.outs[0], shown)])


def _triangle(call: Call, shape: Sequence[Size]) -> Any:
    """Which elements a triangle keeps; None where that is not told."""
    if all(type(n) is int for n in shape) and prod(shape[-2:]) <= _LARGEST_MASK:
        kept = np.tril if call.name == "tril" else np.triu
        return kept(np.ones(shape[-2:], bool), call.get("diagonal", 0))
    return positions.triangle(Elements(shape, 1), call.get("diagonal", 0), call.name == "triu")


def _padded_by_own(each: Asked) -> Iterator[Region]:
    mode = "reflect" if "reflection" in each.facts.name else "edge"
    return needs.padded_by_own(each, each.facts.get("padding")[::2][::-1], mode)


def _distances(each: Asked) -> Iterator[Region]:
    """Of two lists of points those between which the result has distances."""
    for place, shape in zip((-2, -1), each.ins, strict=True):
        rows = regions.each(each.region, lambda box, p=place, n=shape[-1]: [(*box[:-2], box[p], (0, n, 1))])
        yield regions.aligned(rows, shape, (*each.outs[0][:-2], each.outs[0][place], shape[-1]))


def _picked(each: Asked, axis: int) -> Iterator[Region]:
    return needs.picked(each, axis, _rows(each.numbers[1]))


def _rows(index: TensorOperand) -> Any:
    """Places that an index names, one by one, or as a formula of an open number of them; None if they are not known."""
    places = known_places(index)
    return index.formulas if places is None else places.tolist()


def _bagged(each: Asked) -> Iterator[Region]:
    """Rows that go into the bags of the result, where they are known; a bag goes up to the next one."""
    table, call, starts = each.ins[0], each.facts, each.facts.operand("offsets")
    rows, firsts = known_places(each.numbers[1]), None if starts is None else known_places(starts)
    if rows is None or firsts is None:
        yield regions.along(each.region, table, (0,))
        return
    ends, spare = (*firsts[1:], len(rows)), call.get("padding_idx", -1)

    def named(box: Any) -> Any:
        held = [row for bag in range(*box[0]) for row in rows[firsts[bag] : ends[bag]] if row != spare]
        return regions.with_rows(((0, 1, 1), box[1]), 0, held) if held else []

    yield regions.each(each.region, named)


def _indexed(each: Asked) -> Iterator[Region]:
    table, out = each.ins[0], each.outs[0]
    chosen = _by_axis(each.facts.args[1])
    if len(chosen) == 1 and next(iter(chosen.values())).dtype not in ("bool", "uint8"):
        ((axis, index),) = chosen.items()
        yield next(needs.picked(each._replace(ins=(table, index.shape)), axis, _rows(index)))
        if each.ins[1] == index.shape:
            yield from [*_picked(each, axis)][1:]
        return
    places, axes = _named_places(chosen, table), [*chosen]
    if places is None:
        return
    first = axes[0] if axes == [*range(axes[0], axes[-1] + 1)] else 0  # where what they pick stands in the result
    batch = range(first, first + places.ndim - 1)
    others = [d for d in range(len(out)) if d not in batch]
    shown = dict(zip((axis for axis in range(len(table)) if axis not in axes), others, strict=True))
    yield regions.each(each.region, lambda box: regions.named(box, places, batch, shown, axes, len(table)))


def _reduced(each: Asked) -> Iterator[Region]:
    dims, rank = each.facts.get("dim"), len(each.ins[0])
    axes = [dims] if isinstance(dims, int) else list(dims or range(rank))
    return needs.along(each, [d % max(1, rank) for d in axes], bool(each.facts.get("keepdim", False)))


def _normed(each: Asked) -> Iterator[Region]:
    """Along one dimension, or along as many of the last as the call gives lengths of."""
    rank, lengths = len(each.ins[0]), each.facts.get("normalized_shape", ())
    last = range(rank - (len(lengths) or 1), rank)
    return needs.normed(each, last if each.facts.get("dim") is None else [_axis(each)])


def _of_scores(each: Asked) -> Iterator[Region]:
    """A softmax of scores: of rows that see more than one, those that no mask hides."""
    hidden, every = each.numbers[0].hidden, (regions.box_of(each.outs[0]),)
    is_last = _axis(each, -1) == len(each.outs[0]) - 1
    if isinstance(hidden, Elements) and is_last and positions.each_row_sees(hidden, hidden.shape):
        yield from needs.of_scores(each, worked_out("logical_not", hidden))
        return
    if not isinstance(hidden, np.ndarray) or (
        each.region == every and hidden.shape[_axis(each, -1)] > regions.MOST_BOXES
    ):
        yield from _normed(each)
        return
    hidden = hidden & ~hidden.all(_axis(each, -1), keepdims=True)  # of scores that are all as low none is
    several = np.broadcast_to((~hidden).sum(_axis(each, -1), keepdims=True) != 1, hidden.shape)
    rows = regions.let_through(each.region, each.outs[0], several)
    for region in _normed(each._replace(wanted=(rows,))):
        yield regions.let_through(region, each.ins[0], ~hidden)


def _product(each: Asked) -> Iterator[Region]:
    """A product of elements, matrices, or tensors whose dimensions have letters, one with zeros that are known."""
    hidden = [x.hidden for x in each.numbers]
    known = [worked_out("logical_not", x) if isinstance(x, Elements) else x if x is None else ~x for x in hidden]
    if each.facts.name == "mul":
        return needs.scaled(each, [x.formulas or held for x, held in zip(each.numbers, known, strict=True)])
    if each.facts.name != "einsum":
        return needs.multiplied(each, known)
    return needs.lettered(each, *operand_letters(each.facts.args[0], [*map(len, each.ins)]), known)


def _batch_normed(each: Asked) -> Iterator[Region]:
    axes = [d for d in range(len(each.ins[0])) if d != 1] if each.facts.is_training else []
    return needs.normed_by_channel(each, axes)


def _group_normed(each: Asked) -> Iterator[Region]:
    x, groups = each.ins[0], each.facts.get("num_groups", each.facts.get("group", 1))
    return needs.normed_by_channel(each, range(2, len(x)), x[1] // groups)


def _scattered(each: Asked) -> Iterator[Region]:
    """Of a tensor some rows of which are replaced what lies beside them, and of the others these rows."""
    (x, rows), call, axis = each.ins, each.facts, _axis(each)
    size, is_row = x[axis], call.name == "select_scatter"
    at = call.get("index") if is_row else call.get("start") or 0
    first = minimum(size, at + size if at < 0 else at)
    many, step = 1 if is_row else rows[axis], 1 if is_row else call.get("step", 1)
    part = regions.box_of(x)
    yield regions.outside(each.region, (*part[:axis], regions.edge(maximum(0, first), many, step), *part[axis + 1 :]))
    shape = (*x[:axis], many, *x[axis + 1 :])
    yield regions.reshaped(regions.joined(each.region, axis, maximum(0, first), many, step), shape, rows)


def _scattered_by_mask(each: Asked) -> Iterator[Region]:
    """The values follow one another: of a known mask those that the result has, else up to the last of its elements."""
    chosen = named_elements(each.facts)
    if chosen is not None and all(type(n) is int for n in each.ins[2]):
        taken, found = np.zeros(prod(each.ins[2]), bool), _held(each.region, each.outs[0])[chosen]
        taken[: len(found)] = found
        yield regions.aligned(_beside(each), each.ins[0], each.outs[0])
        yield regions.aligned(each.region, each.ins[1], each.outs[0])
        yield regions.reshaped(tuple(regions.boxes_where(taken)), taken.shape, each.ins[2])
        return
    count = prod(each.outs[0])
    flat = regions.up_to(regions.reshaped(each.region, each.outs[0], (count,)), (count,), 0)
    yield regions.aligned(each.region, each.ins[0], each.outs[0])
    if each.ins[1] == each.outs[0]:
        yield regions.reshaped(flat, (count,), each.ins[1])
        if prod(each.ins[2]) >= count:
            yield regions.reshaped(regions.joined(flat, 0, 0, count), (prod(each.ins[2]),), each.ins[2])


def _selected_by_mask(each: Asked) -> Iterator[Region]:
    """Elements that a known mask takes, one after the other."""
    chosen, x = known_mask(each.numbers[1]), each.ins[0]
    if chosen is not None and all(type(n) is int for n in x) and np.broadcast_shapes(chosen.shape, x) == x:
        named = np.zeros(x, bool)
        named[np.broadcast_to(chosen, x)] = _held(each.region, each.outs[0])
        boxes = tuple(regions.boxes_where(named))
        yield boxes if regions.elements_of(boxes, x) == named.sum() else WHOLE


def _held(region: Region, shape: Sequence[int]) -> Any:
    """The elements of a region, as a mask."""
    held = np.zeros(shape, bool)
    for box in regions.box_in(region, shape) or ():
        held[tuple(slice(*edges) for edges in box)] = True
    return held


def _solved(each: Asked) -> Iterator[Region]:
    """The columns of B that the result has, and of a triangular matrix what its rows depend on."""
    matrix, known, out, call, region = *each.ins[:2], each.outs[0], each.facts, each.region
    if call.name == "cholesky_solve":
        matrix, known = known, matrix
    is_vector = len(out) == len(matrix) - 1  # B holds one right side of each matrix, which is a column of its own
    if is_vector:
        region, known, out = regions.each(region, lambda box: [(*box, (0, 1, 1))]), (*known, 1), (*out, 1)
    n, is_upper = matrix[-1], bool(call.get("upper"))
    if call.name == "linalg_solve_triangular":
        side, diagonal = bool(call.get("left", True)), not call.get("unitriangular", False)
        of_matrix, of_known = needs.solved(region, matrix, known, out, side, is_upper, diagonal)
    else:
        asked = regions.along(region, out, (len(out) - 2,))
        full = [(0, n, 1), (0, n, 1)]

        def square(box: regions.Box) -> list[regions.Box] | None:
            every = call.name == "_linalg_solve_ex"
            return [(*box[:-2], *full)] if every else needs.triangle(box[:-2], out[:-2], n, is_upper)

        of_matrix = regions.aligned(regions.each(asked, square), matrix, (*out[:-2], n, n))
        of_known = regions.aligned(asked, known, out)
    if is_vector:
        of_known = regions.each(of_known, lambda box: [box[:-1]])
    yield from (of_known, of_matrix) if call.name == "cholesky_solve" else (of_matrix, of_known)


def _of_classes(each: Asked) -> Iterator[Region]:
    """A loss of each row of classes, which stand along the second dimension, or along the only one."""
    if len(each.outs[0]) == len(each.ins[0]) - 1:
        yield from needs.along(each, [len(each.ins[0]) > 1], kept=False)
        yield each.region


def _beside(each: Asked) -> Region:
    """Of a tensor of which rows or elements are replaced what lies beside them, wherever they lie."""
    region, named = each.region, named_elements(each.facts)
    if not is_replacing(each.facts):
        return region
    if named is not None:
        return regions.let_through(region, each.outs[0], ~named)
    boxes = _named_boxes(each.facts)
    if not boxes and _are_rows(each.facts) and each.outs[0]:
        return needs.beside_some(each, _sizes_replaced(each.facts))
    for box in (boxes or ())[: regions.MOST_BOXES]:
        region = regions.outside(region, box)
    return region


def _put(each: Asked) -> Iterator[Region]:
    """Of values that indices along some axes write, along the others what the result has."""
    chosen = _by_axis(each.facts.args[1])
    yield _beside(each)
    if any(index.dtype in ("bool", "uint8") for index in chosen.values()):
        return
    yield from [WHOLE] * (len(each.ins) - 2)
    axes, batch = [*chosen], np.broadcast_shapes(*(index.shape for index in chosen.values()))
    first = axes[0] if axes == [*range(axes[0], axes[-1] + 1)] else 0

    def spread(box: regions.Box) -> list[regions.Box]:
        kept = tuple(edges for axis, edges in enumerate(box) if axis not in axes)
        return [(*kept[:first], *regions.box_of(batch), *kept[first:])]

    (full,) = spread(regions.box_of(each.outs[0]))
    yield regions.aligned(regions.each(each.region, spread), each.ins[-1], [size for _, size, _ in full])


def _written_at(each: Asked) -> Iterator[Region]:
    """Values that indices along an axis write or add: along the others what the result has, of known ones these."""
    axis, index, rows, found = _axis(each), each.ins[1], known_places(each.numbers[1]), WHOLE
    of_rows = each.facts.name.startswith("index")
    if each.ins[0]:
        size = each.ins[0][axis]
        shape = (*each.ins[0][:axis], prod(index), *each.ins[0][axis + 1 :]) if of_rows else index
        spread = [prod(index) if d == axis else 1 for d in range(len(shape))] if of_rows else index
        places = None if rows is None else rows.reshape(spread)
        found = needs.at_places(each.region, axis, shape, places, size)
    yield _beside(each)
    yield regions.each(found, lambda box: [(box[axis],)]) if of_rows and index else found
    if each.facts.name != "index_fill":  # whose value is one number
        yield found


def _put_in_order(each: Asked) -> Iterator[Region]:
    """Values at places of the elements in order: of known places those that the result has."""
    yield _beside(each)
    if named_elements(each.facts) is not None:
        asked = _held(each.region, each.outs[0])
        taken = asked.reshape(-1)[known_places(each.numbers[1]) % asked.size]
        yield WHOLE
        yield tuple(regions.boxes_where(taken.reshape(each.ins[2])))


def _gathered(each: Asked) -> Iterator[Region]:
    """Elements that indices name along an axis: of unknown ones all, of a tensor that is not large those of known."""
    region, (x, index), axis = each.region, each.ins, _axis(each)
    places = known_places(each.numbers[1])
    if places is None or not x or any(type(n) is not int for n in x) or prod(x) > _LARGEST_MASK:
        yield regions.along(region, x, (axis,))
    else:
        at, named = list(np.indices(index)), np.zeros(x, bool)
        at[axis] = places.reshape(index)
        for box in region or ():
            named[tuple(each_at[tuple(slice(*edges) for edges in box)] for each_at in at)] = True
        boxes = regions.boxes_where(named)
        exact = regions.elements_of(tuple(boxes), x) == named.sum()
        yield tuple(boxes) if exact else regions.along(region, x, (axis,))
    yield region


def _windows(each: Asked, image: Sequence[Any]) -> list[Any]:
    """Taps of windows over an image that are laid side by side, their distance, its padding, stride and number."""
    words = ("kernel_size", "dilation", "padding", "stride")
    along = zip(*(each.facts.stated(word) for word in words), image[-2:], strict=True)
    return [
        (taps, apart, pad, stride, (size + 2 * pad - apart * (taps - 1) - 1) // stride + 1)
        for taps, apart, pad, stride, size in along
    ]


def _side_by_side(each: Asked) -> Iterator[Region]:
    """Of an image whose windows are laid side by side, [channels · taps, places], those that the result has."""
    image, windows = each.ins[0], _windows(each, each.ins[0])
    shape = (*image[:-2], *(window[0] for window in windows), *(window[-1] for window in windows))

    def reached(box: regions.Box) -> list[regions.Box]:
        sides = []
        for (_, apart, pad, stride, many), size, (first, last, _), at in zip(
            windows, image[-2:], box[-4:-2], box[-2:], strict=True
        ):
            reach = Reach(size, many, last - first, stride, pad - first * apart, apart)
            sides.append(regions.windows_apart(at, reach) or [regions.windowed(at, reach)])
        return [(*box[:-4], *each) for each in product(*sides)]

    yield regions.each(regions.reshaped(each.region, each.outs[0], shape), reached)


def _laid_over(each: Asked) -> Iterator[Region]:
    """Of windows, [channels · taps, places], that are added up to an image, those that reach what it has."""
    windows, image = _windows(each, each.outs[0]), each.outs[0]
    shape = (*image[:-2], *(window[0] for window in windows), *(window[-1] for window in windows))

    def reached(box: regions.Box) -> list[regions.Box] | None:
        sides: list[list[regions.Box]] = []
        for (taps, apart, pad, stride, many), edges in zip(windows, box[-2:], strict=True):
            if taps * many > _LARGEST_MASK:
                return None
            at = np.add.outer(np.arange(taps) * apart - pad, np.arange(many) * stride)
            sides.append(regions.boxes_where(np.isin(at, np.arange(*edges))))
        single: list[list[regions.Box]] = [
            [((tap, tap + 1, 1), at) for taps, at in side for tap in range(*taps)] for side in sides
        ]
        if prod(map(len, sides)) != 1 and prod(map(len, single)) <= regions.MOST_BOXES:
            sides = single  # of many channels one tap of each lies evenly apart
        if prod(map(len, sides)) > regions.MOST_BOXES:
            return None
        return [(*box[:-2], *(own[0] for own in pair), *(own[1] for own in pair)) for pair in product(*sides)]

    yield regions.reshaped(regions.each(each.region, reached), shape, each.ins[0])


def _on_a_diagonal(each: Asked) -> Iterator[Region]:
    """Of rows that are laid on diagonals of matrices, the elements that stand in the result."""
    shift, *axes = (each.facts.get(name) for name in ("offset", "dim1", "dim2"))
    row, column = (axis % len(each.outs[0]) for axis in axes)

    def held(box: regions.Box) -> list[regions.Box] | None:
        rest = tuple(edges for axis, edges in enumerate(box) if axis not in (row, column))
        both = np.intersect1d(np.arange(*box[row]) - max(0, -shift), np.arange(*box[column]) - max(0, shift))
        return regions.with_rows((*rest, (0, 1, 1)), len(rest), both) if len(both) else []

    yield regions.each(each.region, held)


def _on_blocks(each: Asked) -> Iterator[Region]:
    """Of matrices that stand on the diagonal of one."""
    row, column = 0, 0
    for shape in each.ins:
        rows, columns = (1, 1, *shape)[-2:]
        part = regions.joined(regions.joined(each.region, 0, row, rows), 1, column, columns)
        yield regions.reshaped(part, (rows, columns), shape)
        row, column = row + rows, column + columns


def _sampled(each: Asked) -> Iterator[Region]:
    """Of images at unknown places those and the channels that the result has; and the places."""
    (image, grid), out = each.ins, each.outs[0]
    yield regions.along(each.region, image, range(2, len(image)))
    yield regions.along(regions.each(each.region, lambda box: [(box[0], *box[2:])]), grid, (len(out) - 1,), kept=False)


def _trilinear(each: Asked) -> Iterator[Region]:
    """Products of three tensors, each without some of the dimensions, summed along others."""
    lacking, summed = each.facts.args[3:6], each.facts.args[6]
    every = range(len(each.ins[0]) + len(lacking[0]))
    words = [[d for d in every if d not in missing] for missing in lacking]
    return needs.lettered(each, words, [d for d in every if d not in summed])


def _recurrent(each: Asked) -> Iterator[Region]:
    """Of sequences the steps up to the last that counts; where they run both ways, or are packed, all is needed."""
    *_, is_both, of_batch = each.facts.args[:9]
    if len(each.facts.args) == 9 and not isinstance(each.facts.args[3], list | tuple) and not is_both:
        x, state = each.ins[:2]
        axis = 1 if of_batch and len(x) > 2 else 0
        yield regions.along(regions.up_to(each.region, each.outs[0], axis), x, (len(x) - 1,))
        if len(x) > 2:
            held = regions.each(each.region, lambda box: [((0, state[0], 1), box[1 - axis], (0, state[2], 1))])
            yield from [held] * (2 if each.facts.name == "lstm" else 1)


def _linear(each: Asked) -> list[Region]:
    """The weight stands the other way round, and a bias behind it."""
    rows, columns = range(len(each.ins[0]) - 1), ["out"] * (len(each.ins[1]) > 1)
    return needs.added_to(each, [[*rows, "in"], [*columns, "in"]], [*rows, *columns], slice(2))


def _convolved(each: Asked) -> Iterator[Region]:
    call, (x, weight) = each.facts, each.numbers[:2]
    if x.rank != weight.rank or isinstance(call.stated("padding", 0), str):
        return
    places, transposed = convolution_places(call, x, weight, call.results[0])
    yield from regions.convolved(each.region, weight.shape, places, int(call.stated("groups", 1)), transposed)
    yield from (regions.each(each.region, lambda box: [(box[1],)]) for _ in each.ins[2:])


def _pooled(each: Asked) -> Iterator[Region]:
    places = pool_places(each.facts, each.facts.args[0], each.facts.results[0])
    if places:
        yield regions.under_windows(each.region, places)


def _resampled(each: Asked) -> Iterator[Region]:
    """Of each place of the result the nearest one of the image, or those that it is mixed of."""
    own, out, call = each.ins[0][2:], each.outs[0][2:], each.facts
    given = call.get("scale_factors") or [call.get(f"scales{end}") for end in ("_d", "_h", "_w")[-len(own) :]]
    given = [call.get("scales")] if len(own) == 1 and "scales" in call.names else given
    middle = 0.5 if "exact" in call.name else 0.0

    def rows(size: int, many: int, scale: float | None) -> Callable[[Any], Any]:
        ratio = 1 / scale if scale else size / many
        if "nearest" not in call.name:
            kind = "cubic" if "cubic" in call.name else "linear"
            by_corners = call.get("align_corners")
            return needs.mixed(size, *((needs.corners(size, many), 0.0) if by_corners else (ratio, 0.5)), kind)
        single, half = np.float32(ratio), np.float32(middle)
        return lambda at: np.minimum(((at.astype(np.float32) + half) * single).astype(int), size - 1)

    return needs.by_rows(each, [rows(*axis) for axis in zip(own, out, given, strict=True)])


def _attended(each: Asked) -> Iterator[Region]:
    """Under a mask whose values are known the keys that it lets some of the queries see."""
    shown = let_through(each.numbers[3]) if len(each.numbers) > 3 else None
    return needs.attended(each, bool(each.facts.get("is_causal")), shown)


_RULES: dict[str, needs.Rule] = {
    **dict.fromkeys((*FUNCTIONS, "clone", "contiguous", "_to_copy", "copy", "expand_copy"), needs.alike),
    **dict.fromkeys(("log_sigmoid_forward", "complex", "polar"), needs.alike),
    **dict.fromkeys(("mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy"), needs.alike),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _of_classes),
    **dict.fromkeys(("where", "masked_fill"), _masked), **dict.fromkeys(("tril", "triu"), _triangular),
    **dict.fromkeys((f"{kind}_pad{d}d" for kind in ("reflection", "replication") for d in (1, 2, 3)), _padded_by_own),
    **dict.fromkeys(("cdist", "_cdist_forward"), _distances),
    "cat": lambda each: needs.joined(each, _axis(each)), "stack": lambda each: needs.stacked(each, _axis(each)),
    "repeat": needs.repeated, "roll": _rolled, "constant_pad_nd": _padded, "index": _indexed, "glu": _gated,
    "flip": lambda each: [
        regions.flipped(each.region, each.ins[0], [d % len(each.ins[0]) for d in each.facts.get("dims", ())])
    ],
    "index_select": lambda each: _picked(each, _axis(each)), "embedding": lambda each: _picked(each, 0),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag"), _bagged),
    **dict.fromkeys(("index_add", "index_copy", "index_fill", "index_reduce"), _written_at),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), _written_at),
    "index_put": _put, "put": _put_in_order, "im2col": _side_by_side, "col2im": _laid_over,
    "diag_embed": _on_a_diagonal,
    "block_diag": _on_blocks, "_trilinear": _trilinear, "_prelu_kernel": needs.alike,
    "gather": _gathered,
    "renorm": lambda each: needs.along(each, [d for d in range(len(each.ins[0])) if d != _axis(each)]),
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), _sampled),
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"),
                    lambda each: needs.along(each, range(len(each.ins[0]))[-int(each.facts.name[-2]) :], many=2)),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"),
                    lambda each: needs.along(each, [d % len(each.ins[0]) for d in each.facts.get("dim")])),
    **dict.fromkeys(("linalg_inv_ex", "_linalg_det", "linalg_matrix_exp", "linalg_pinv", "linalg_householder_product"),
                    needs.batched),
    **dict.fromkeys(ONE_TRIANGLE,
                    lambda each: needs.batched(each, half="upper" if each.facts.get("upper", False) else "lower")),
    **dict.fromkeys(("linalg_solve_triangular", "_linalg_solve_ex", "cholesky_solve"), _solved),
    "masked_scatter": _scattered_by_mask, "masked_select": _selected_by_mask,
    "linalg_cross": lambda each: needs.along(each, [_axis(each)], many=2),
    **dict.fromkeys((*REDUCTIONS, "kthvalue", "median", "nanmedian", "mode"), _reduced),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "_cummax_helper", "_cummin_helper"),
                    lambda each: [regions.up_to(each.region, each.ins[0], _axis(each)) if each.ins[0] else WHOLE]),
    **dict.fromkeys(("log_softmax", "_log_softmax", "layer_norm", "native_layer_norm", "rms_norm"), _normed),
    **dict.fromkeys(SOFTMAXES, _of_scores), **dict.fromkeys((*PRODUCTS, "mul"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "mv", "addmv", "addr"),
                    lambda each: needs.added_to(each, *OF_LETTERS[each.facts.name])),
    "linear": _linear, "flex_attention": needs.attended, "scaled_dot_product_attention": _attended,
    **dict.fromkeys((f"{name}{d}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)),
                    _resampled),
    **dict.fromkeys((f"upsample_{name}" for name in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")),
                    _resampled),
    **dict.fromkeys((f"{name}_pool{d}d" for name in ("adaptive_avg", "_adaptive_avg", "adaptive_max")
                     for d in (1, 2, 3)),
                    lambda each: needs.adapted(each, int(each.facts.name[-2]))),
    **dict.fromkeys(("group_norm", "native_group_norm"), _group_normed),
    **dict.fromkeys(BATCH_NORMS, _batch_normed), **dict.fromkeys(("slice_scatter", "select_scatter"), _scattered),
    **dict.fromkeys(("sort", "topk"), lambda each: needs.along(each, [_axis(each, -1)])),
    **dict.fromkeys(CONVOLUTIONS, _convolved), **dict.fromkeys(POOLS, _pooled),
}  # fmt: skip


#: More scores are not looked at.
_MOST_SCORES = 2**20

#: Which elements of a storage are ``ZERO``, or so ``LOW`` that their exponential is zero, by its name.
_Held: TypeAlias = "dict[tuple[str, str], Any]"


def with_hidden(calls: Mapping[int, Call]) -> dict[int, Call]:
    """The calls in their order; of scores a softmax, of weights and factors a product has which elements are hidden."""
    held: _Held = {}
    found: dict[int, Call] = {}
    for place, call in sorted(calls.items()):
        is_product, before = call.name in PRODUCTS, calls.get(place - 1)
        is_scaled = call.name == "mul"  # also by zeros that are no result of an operation
        if (is_scaled or (held and (is_product or call.name in SOFTMAXES))) and call is not before:
            found[place] = replace(call, args=_told(call.args, held, ZERO if is_product or is_scaled else LOW))
        else:
            found[place] = call if call is not before else found[place - 1]
        masks = [(kind, _hidden_by(call, held, kind)) for kind in (LOW, ZERO)]
        for out in call.results:
            held = {key: mask for key, mask in held.items() if key[0] != _base(out)}
        for kind, mask in masks:
            if isinstance(mask, Elements) and _is_whole(call.results[0]):
                held[_base(call.results[0]), kind] = mask
            elif isinstance(mask, np.ndarray) and call.results[0].elements == mask.size:
                flat = np.zeros(mask.size, bool)
                view = _view(flat, call.results[0])
                if view is not None:
                    view[...] = mask
                    held[_base(call.results[0]), kind] = flat
    return found


def _told(value: Any, held: _Held, kind: str) -> Any:
    """Arguments whose tensors say which of their elements are hidden."""
    if isinstance(value, list | tuple):
        return tuple(_told(each, held, kind) for each in value)
    return replace(value, hidden=_where_hidden(held, value, kind)) if isinstance(value, TensorOperand) else value


def _hidden_by(call: Call, held: _Held, kind: str) -> Any:
    """Which elements of a call's first result are zero, or very low; None where that is not known."""
    name, args, shape = call.name, call.args, call.results[0].shape if call.results else ()
    if all(type(n) is int for n in shape) and prod(shape) > _MOST_SCORES:
        return None
    if name in ("where", "masked_fill", "index_put") and len(args) > 2 and not call.get("accumulate"):
        if name == "index_put" and any(map(is_symbol, shape)):
            return None
        mask, yes, no = args if name == "where" else (args[1], args[2], args[0])
        chosen = _named(mask, shape) if name == "index_put" else known_mask(mask)
        chosen = mask.formulas if chosen is None and isinstance(mask, TensorOperand) else chosen
        if chosen is None:
            return None
        name, args = "where", (chosen, no, None if name == "index_put" and yes.elements != 1 else yes)
    if name in ("tril", "triu"):
        name, args = "where", (_triangle(call, shape), 0, args[0])
    lines = args[1].shape if name == "sub" and isinstance(args[1], TensorOperand) else ()
    axis = args[1] if name in SOFTMAXES else -1
    held_of = partial(_where_hidden, held)
    return hidden_by(_MASKING.get(name, ""), args, shape, kind, held_of, lines, axis)


#: Functions that hide scores or keep them hidden, by numpy's names.
_MASKING = {
    "where": "where", "exp": "exp", "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide",
    **dict.fromkeys(SOFTMAXES, "softmax"), **dict.fromkeys(("_to_copy", "clone", "scalar_tensor"), "positive"),
}  # fmt: skip


def _named(indices: Any, shape: tuple[Any, ...]) -> Any:
    """Which elements indices of the program's own name, None for a whole dimension; None where that is not known."""
    if not all(index is None or (index.values is not None and index.is_constant) for index in indices):
        return None
    chosen = np.zeros(shape, bool)
    chosen[tuple(slice(None) if index is None else np.asarray(index.values) for index in indices)] = True
    return chosen


def _where_hidden(held: _Held, value: Any, kind: str) -> Any:
    """Where a number or a tensor is zero, very low or very large; None where that is not known."""
    if not isinstance(value, TensorOperand):
        return values_held(value, kind) if isinstance(value, int | float) else None
    if value.values is not None and value.is_constant and value.elements <= _MOST_SCORES:
        return values_held(value.values, kind)
    if value.formulas is not None and any(map(is_symbol, value.shape)):
        return values_held(value.formulas, kind)
    flat = held.get((_base(value), kind))
    if isinstance(flat, Elements):
        return flat.reshaped(value.shape) if _is_whole(value) else None
    return None if flat is None else _view(flat, value)


def _is_whole(operand: TensorOperand) -> bool:
    """Whether a tensor shows its storage from the start, row after row."""
    if operand.layout is None or operand.layout[1]:
        return False
    strides, _, width = operand.layout
    dense = (prod(operand.shape[d + 1 :]) * width for d in range(operand.rank))
    pairs = zip(operand.shape, map(_of_some_elements, strides), dense, strict=True)
    return all(n == 1 or regions.expanded(step - own) == 0 for n, step, own in pairs)


def _view(flat: Any, operand: TensorOperand) -> Any:
    """Elements of a storage as a tensor shows them; None where it has not so many."""
    if operand.layout is None or any(type(n) is not int for n in operand.shape):
        return None
    strides, start, width = operand.layout
    last = start + sum((n - 1) * step for n, step in zip(operand.shape, strides, strict=True))
    if start % width or last >= flat.size * width:
        return None
    return np.lib.stride_tricks.as_strided(flat[start // width :], operand.shape, [n // width for n in strides])


def _base(operand: TensorOperand) -> str:
    return "" if operand.tensor is None else operand.tensor.base
