"""Pooling and resampling: the largest or the sum of each window, neighbours mixed; on the vector unit.

>>> x, y = Tensor("x", (1, 112, 112, 64), "bf16"), Tensor("y", (1, 56, 56, 64), "bf16")
>>> pool("max_pool", [x], [y], results=y.elements, window=9).work
Work(flops/vector/bf16: 1605632)
>>> resample("bilinear", [y], [x], taps=4, elements=x.elements).work.total("flops") == 8 * x.elements
True
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from roofline.frozen import replace
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.convolution import Reach, read_by_windows, require_results, windows
from roofline.ops.rules import Context, register
from roofline.sizes import Size, is_symbol, minimum, product
from roofline.work import Op, Tensor


def pool(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    results: Size,
    window: Size,
    places: Sequence[Reach] = (),
    taps: Size | None = None,
    reached: Size | None = None,
    is_adaptive_mean: bool = False,
    compute: str | None = None,
) -> Op:
    """Pool windows of ``window`` elements into ``results``, over all channels of the batch.

    ::

        FLOPs = results·(window − 1)            comparisons, or adds: one for every element of a window but the first
              = taps − reached                  taps that are counted, and the results that they reach

    ``taps`` are given where not all of a window counts (padding left out), or where windows differ (adaptive pooling).
    Averaging divides once more for each result, which is not counted: one operation for each window element but the
    first serves both. ``places`` are the windows in each dimension, as of a convolution. An index beside each maximum
    costs bytes, no FLOPs. ``is_adaptive_mean`` says that the size of the result was asked for, which some counters tell
    apart. A result without elements is an error, but for an empty input.
    """
    require_results(name, reads, writes)
    taken = results * window if taps is None else taps
    reads, unread = read_by_windows(reads, places)
    flops, dims = taken - (results if reached is None else reached), {"results": results, "window": window}
    op = vector(
        name, "pooling", reads, writes, flops=flops, elements=results, dims=dims, one_each=reads[0].elements,
        compute=compute,
    )  # fmt: skip
    more = {**unread, **({"is_adaptive_mean": True} if is_adaptive_mean else {})}
    return replace(op, options={**op.options, **more}) if more else op


def pool_backward(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, elements: Size, taps: Size | None = None
) -> Op:
    """The gradient of a pooling: added to the ``elements`` that were pooled, once for each of the ``taps`` if given."""
    flops = elements if taps is None else taps
    return vector(name, "pooling", reads, writes, flops=flops, elements=elements, one_each=elements)


def resample(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    taps: Size,
    elements: Size,
    backward: bool = False,
    reached: Size | None = None,
    terms: Size | None = None,
) -> Op:
    """Mix ``elements`` from ``taps`` neighbours each: a multiply and an add for every neighbour.

    ``reached`` are the elements of the first operand that are somebody's neighbour, where others are skipped; ``terms``
    are given where a filter smooths (:func:`smoothed_terms`).

    ::

        FLOPs = 2·taps·elements        linear 2, bilinear 4, trilinear 8, bicubic 16 taps
              = 2·terms                smoothed
              = 0                      nearest; its gradient adds once an element
    """
    flops = (2 * (taps * elements if terms is None else terms)) if taps > 1 else elements if backward else 0
    if reached is not None and reads[0].touched is None:
        reads = (replace(reads[0], touched=reached), *reads[1:])
    op = vector(name, "resample", reads, writes, flops=flops, elements=elements, one_each=elements)
    return replace(op, options={**op.options, "taps": taps})


def resized(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    shape: Sequence[Size],
    results: Sequence[Size],
    taps: int,
    smooths: bool = False,
    backward: bool = False,
) -> Op:
    """Mix an image from ``taps`` neighbours along each dimension whose length changes."""
    each = [taps if n != r else 1 for n, r in zip(shape, results, strict=True)]
    facts: dict[str, Size] = {}
    if smooths and taps > 1:
        facts["terms"] = smoothed_terms(shape, results, each)
    elif not backward:
        facts["reached"] = reached_neighbours(shape, results, each)
    size = product(results)
    return resample(name, reads, writes, taps=product(each), elements=size, backward=backward, **facts)


def reached_neighbours(shape: Sequence[Size], results: Sequence[Size], taps: Sequence[Size]) -> Size:
    """Elements that a resampling reads at most: of each dimension, the neighbours of every result.

    >>> reached_neighbours((3, 64, 64), (3, 16, 128), (1, 2, 2))      # 32 of 64 rows, every column
    6144
    """
    return product(minimum(n, tap * r) for n, r, tap in zip(shape, results, taps, strict=True))


def smoothed_terms(shape: Sequence[Size], results: Sequence[Size], taps: Sequence[Size]) -> Size:
    """Products of a resampling that smooths, one dimension after the other in the cheapest order.

    Where n elements become r < n, a filter is taps·n/r wide and cut at both ends, as PyTorch's and Pillow's
    (ATen/native/cpu/UpSampleKernel.cpp); of open sizes it counts as no wider than of equal ones.

    >>> smoothed_terms((3, 64, 64), (3, 8, 8), (1, 2, 2))          # 120 elements under 8 filters: 120·64 + 120·8
    25920
    """
    changed = [place for place, (n, r) in enumerate(zip(shape, results, strict=True)) if n != r]
    ways = []
    for order in permutations(changed):
        sizes, terms = list(shape), []
        for place in order:
            n, sizes[place] = sizes[place], 1
            terms.append(_under_filters(n, results[place], taps[place]) * product(sizes))
            sizes[place] = results[place]
        ways.append(sum(terms))
    return minimum(*ways)


def _under_filters(n: Size, r: Size, taps: Size) -> Size:
    """Elements under the filters of all r results."""
    if is_symbol(n) or is_symbol(r) or r >= n:
        return taps * r
    reach = taps * n / r / 2
    ends = [(place + 0.5) * n / r + reach + 0.5 for place in range(r)]
    return sum(min(int(end), n) - max(int(end - 2 * reach), 0) for end in ends)


@register("pooling")
def rule(step: Step, context: Context) -> Op:
    """Price a pooling of x [B, spatial…, C]; the stride is the window unless given.

    Padding counts as is usual, or with ``count_padding=False`` only taps and results that meet an element do.
    """
    x = context.tensor(step.inputs[0])
    B, *spatial, C = x.dims
    size, *options = (step.options[key] for key in ("window", "stride", "pad", "dilation"))
    own = windows(size, *options)
    results = [w.results(L) for w, L in zip(own, spatial, strict=True)]
    places = list(zip(own, spatial, results, strict=True))
    counted = {}
    if not context.count_padding:
        counted = {
            "taps": B * C * product(w.taps(L, r) for w, L, r in places),
            "reached": B * C * product(w.reached(L, r) for w, L, r in places),
        }
    out = Tensor(step.output.ident, (B, *results, C), step.output.dtype, label=step.output.written)
    name, compute, reach = step.text or step.function, context.arithmetic(step), [w.reach(L, r) for w, L, r in places]
    facts = {"results": out.elements, "window": product(size), **counted}
    return pool(name, [x], [out], places=reach, compute=compute, **facts)
