"""Reductions, softmax, running values, sorting, losses."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from roofline.errors import InputError
from roofline.measurement.aten import Seen, like, rule
from roofline.ops import pricing
from roofline.programs.pytorch.price_tables import ELEMENT_OF_LOSS, REDUCTIONS
from roofline.work import Op, Tensor


@rule("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def softmax(seen: Seen) -> Op:
    """max, subtract, exp, sum, divide."""
    x = seen.tensor(0)
    rows = x.elements // (x.dims[int(seen.value(1, -1))] if x.dims else 1)
    facts = {"elements": x.elements, "rows": rows, "log": "log" in seen.name}
    return pricing.softmax(seen.name, (x,), (like(x),), **facts)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_gradient(seen: Seen) -> Op:
    """The gradient of the result and the result."""
    reads = tuple(tensor for tensor in seen.every() if tensor.dims)
    out = like(reads[0])
    return pricing.softmax_backward(seen.name, reads, (out,), elements=out.elements, log="log" in seen.name)


#: Where a reduction has its dimensions: after the tensor, or after the order of a norm.
_AXES = {"linalg_vector_norm": 2, "norm": 2}

#: Reductions that say where they found a value, alone or beside the value, and those that give two values.
_PLACES, _BOTH, _TWO = ("argmax", "argmin"), ("max", "min"), ("var_mean", "std_mean", "aminmax")


@rule(*REDUCTIONS)
def reduction(seen: Seen) -> Op:
    """Reduce over the dimensions that are stated, else over all; with a second tensor it is no reduction."""
    x, place = seen.tensor(0), _AXES.get(seen.plain, 1)
    if seen.plain in _BOTH and seen.optional(1) is not None and seen.tensor(1).dims == x.dims:
        raise InputError("the larger of two is no reduction")
    axes = seen.value(place, [])
    axes = [axes] if isinstance(axes, int) and not isinstance(axes, bool) else axes
    over = axes if isinstance(axes, list | tuple) and axes else range(len(x.dims))
    along = {int(axis) % max(len(x.dims), 1) for axis in over}
    kept = [size for axis, size in enumerate(x.dims) if axis not in along]
    yes = seen.plain in ("any", "all", "_is_all_true", "_is_any_true")
    writes = [like(x, kept, "int64" if seen.plain in _PLACES else "bool" if yes else None)]
    if seen.plain in _TWO or (seen.plain in _BOTH and kept):
        writes.append(like(x, kept, "int64" if seen.plain in _BOTH else None, ident="second"))
    ours, results = REDUCTIONS[seen.plain], prod(kept)
    return pricing.reduction(ours, (x,), writes, elements=x.elements, results=results, name=seen.name)


@rule("cumsum", "cumprod", "cumsum_", "cumprod_")
def running(seen: Seen) -> Op:
    """A running value: n − 1 operations for each row of n."""
    x, dim = seen.tensor(0), seen.stated(1)
    flops = x.elements - x.elements // (x.dims[dim] if x.dims else 1)
    return pricing.vector(seen.name, "scan", (x,), (like(x),), flops=flops, elements=x.elements)


@rule("sort", "topk")
def sorted_(seen: Seen) -> Op:
    """Compare: n·⌈log₂ n⌉ for rows of n sorted whole, n for each row of which only the largest are wanted."""
    x, whole = seen.tensor(0), seen.plain == "sort"
    places = [place for place in (1, 2) if not isinstance(seen.value(place, 0), bool)]  # sort may say stable first
    dim = seen.stated(places[-1])
    kept = x.dims if whole else tuple(seen.stated(1) if n == dim % len(x.dims) else s for n, s in enumerate(x.dims))
    levels = max(1, (x.dims[dim] - 1).bit_length()) if whole else 1
    writes, flops = (like(x, kept), like(x, kept, "int64", "places")), x.elements * levels
    return pricing.vector(seen.name, "sort", (x,), writes, flops=flops, elements=x.elements)


@rule("nll_loss_forward", "nll_loss2d_forward")
def picked(seen: Seen) -> Op:
    """Pick one score a row; the sum over rows counts 1 each."""
    scores, target = seen.tensor(0), seen.tensor(1)
    rows = target.elements
    reads = (replace(scores, touched=min(rows, scores.elements)), *seen.every(1))
    return pricing.vector(seen.name, "reduction", reads, (like(scores, ()),), flops=rows, elements=rows)


@rule("nll_loss_backward", "nll_loss2d_backward")
def put_back(seen: Seen) -> Op:
    """Put one gradient a row, and zeros elsewhere: the scores themselves are not read."""
    scores, target = seen.tensor(1), seen.tensor(2)
    rows = target.elements
    reads = seen.some(0, 2, 3)
    return pricing.vector(seen.name, "reduction", reads, (like(scores),), flops=rows, elements=rows)


LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")


@rule(*LOSSES, *(f"{name}_backward" for name in LOSSES))
def loss(seen: Seen) -> Op:
    """A loss over all elements: subtract, square (or the like), add; its gradient likewise."""
    back = seen.plain.endswith("backward")
    x, reads = seen.tensor(1 if back else 0), seen.some(*range(3 if back else 2))
    reduced = not back and seen.value(3 if seen.plain == "binary_cross_entropy" else 2, 1) != 0
    out: Tensor = like(x, () if reduced else None)
    size = x.elements
    return pricing.vector(seen.name, "reduction", reads, (out,), flops=ELEMENT_OF_LOSS * size, elements=size)
