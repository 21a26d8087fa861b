"""Pooling and resampling: the largest or the sum of each window, neighbours mixed; on the vector unit.

>>> x, y = Tensor("x", (1, 112, 112, 64), "bf16"), Tensor("y", (1, 56, 56, 64), "bf16")
>>> pool("max_pool", [x], [y], results=y.elements, window=4).work
Work(flops/vector/bf16: 602112)
>>> resample("bilinear", [y], [x], taps=4, elements=x.elements).work.total("flops") == 8 * x.elements
True
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from roofline.frozen import replace
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.convolution import Reach, read_by_windows, require_results, windows
from roofline.ops.rules import Context, register
from roofline.sizes import Size, exact_div, is_symbol, is_zero, maximum, minimum, product
from roofline.work import Op, Tensor


def pool(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    results: Size,
    window: Size,
    places: Sequence[Reach] = (),
    apart: Size | None = None,
    is_adaptive_mean: bool = False,
    compute: str | None = None,
) -> Op:
    """Pool windows of ``window`` elements into ``results``, over all channels of the batch.

    ::

        FLOPs = elements − apart                comparisons, or adds
              = results·(window − 1)            where windows lie side by side

    A window takes one for each element that no window before it has, and one less where it shares no element with
    these. What it shares may come from them in any way, as by rows before columns: no order of comparisons or adds
    needs fewer.
    ``elements`` are those that windows meet, no padding, and ``apart`` the windows that share none with one before.
    ``places`` are the windows in each dimension, as of a convolution. Where they are not known, windows count as apart;
    where windows differ (adaptive pooling) all elements are met, and the caller gives ``apart``.
    Averaging divides once more for each result, which is not counted. An index beside each maximum costs bytes, no
    FLOPs. ``is_adaptive_mean`` says that the size of the result was asked for, which some counters tell apart. A result
    without elements is an error, but for an empty input.
    """
    require_results(name, reads, writes)
    elements, _, apart = _met_and_apart(reads[0].elements, results, window, places, apart)
    reads, unread = read_by_windows(reads, places)
    flops, dims = elements - apart, {"results": results, "window": window}
    op = vector(
        name, "pooling", reads, writes, flops=flops, elements=results, dims=dims, one_each=reads[0].elements,
        compute=compute,
    )  # fmt: skip
    more = {**unread, **({"is_adaptive_mean": True} if is_adaptive_mean else {})}
    return replace(op, options={**op.options, **more}) if more else op


def _met_and_apart(
    elements: Size, results: Size, window: Size, places: Sequence[Reach], apart: Size | None
) -> tuple[Size, Size, Size]:
    """Of so many elements those that windows meet, windows that surely meet some, and that share none before them."""
    met = [place.met() for place in places]
    if not places or any(each is None for each in met) or is_zero(results):
        return (minimum(elements, results * window), results, results) if apart is None else (elements, results, apart)
    elements = exact_div(elements, product(place.length for place in places)) * product(met)
    every = exact_div(results, product(place.results for place in places))
    meeting = product(place.meeting(place.taps - 1 if place.dilation == 1 else 0) for place in places)
    return elements, every * meeting, every * product(place.apart() for place in places)


def pool_backward(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    results: Size,
    window: Size = 1,
    places: Sequence[Reach] = (),
    apart: Size | None = None,
    is_search: bool = False,
) -> Op:
    """The gradient of a pooling of ``elements`` into ``results``, whose windows are told as those of :func:`pool`.

    ::

        FLOPs = results − apart                adds: none where windows lie side by side
              + elements − apart               is_search: finds the largest of each window again

    Of ``results`` those count whose windows meet an element. A window adds its gradient to what those before left where
    it shares an element with them, else it writes it. Sums transposed so take as many adds as the sums, less the
    elements and more the results (Tellegen's principle).
    """
    met, meeting, apart = _met_and_apart(elements, results, window, places, apart)
    flops = maximum(0, meeting - apart) + (met - apart if is_search else 0)
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
    are given where neighbours lie on a grid (:func:`separable_terms`).

    ::

        FLOPs = 2·taps·elements        linear 2, bilinear 4, trilinear 8, bicubic 16 taps
              = 2·terms                on a grid
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
    """Mix an image from ``taps`` neighbours along each dimension whose length changes; its gradient takes as many."""
    each = [taps if n != r else 1 for n, r in zip(shape, results, strict=True)]
    reached = _reached(shape, results, each, smooths=smooths)
    return resample(
        name, reads, writes, taps=product(each), elements=product(results), backward=backward,
        reached=None if backward or smooths else product(reached),
        terms=separable_terms(shape, results, each, smooths=smooths),
    )  # fmt: skip


def separable_terms(
    shape: Sequence[Size], results: Sequence[Size], taps: Sequence[Size], *, smooths: bool = False
) -> Size:
    """Products of a resampling: some dimensions together, then others, whichever way takes the fewest.

    Of dimensions that are still to be mixed, only neighbours of results go along. Where a filter ``smooths`` and n
    elements become r < n, it is taps·n/r wide and cut at both ends, as PyTorch's and Pillow's
    (ATen/native/cpu/UpSampleKernel.cpp); of open sizes it counts as no wider than of equal ones.

    >>> separable_terms((3, 64, 64), (3, 128, 128), (1, 4, 4))        # 4·128·64 and 4·128·128, not 16·128·128
    294912
    >>> separable_terms((3, 64, 64), (3, 32, 32), (1, 2, 2))          # four neighbours of each at once
    12288
    >>> separable_terms((3, 64, 64), (3, 8, 8), (1, 2, 2), smooths=True)     # 120 under 8 filters: 120·64 + 120·8
    25920
    """
    under = [_under_filters(n, r, tap) if smooths else tap * r for n, r, tap in zip(shape, results, taps, strict=True)]
    reached = _reached(shape, results, taps, smooths=smooths)

    def least(left: Sequence[int]) -> Size:
        ways = []
        for now in (now for many in range(1, len(left) + 1) for now in combinations(left, many)):
            after = [place for place in left if place not in now]
            sizes = [under[p] if p in now else reached[p] if p in after else r for p, r in enumerate(results)]
            ways.append(product(sizes) + least(after))
        return minimum(*ways) if ways else 0

    return least([place for place, tap in enumerate(taps) if tap > 1])


def _reached(shape: Sequence[Size], results: Sequence[Size], taps: Sequence[Size], *, smooths: bool) -> list[Size]:
    """Elements of each dimension that a resampling reads at most: the neighbours of every result.

    >>> _reached((3, 64, 64), (3, 16, 128), (1, 2, 2), smooths=False)      # 32 of 64 rows, every column
    [3, 32, 64]
    """
    return [n if smooths else minimum(n, tap * r) for n, r, tap in zip(shape, results, taps, strict=True)]


def _under_filters(n: Size, r: Size, taps: Size) -> Size:
    """Elements under the filters of all r results."""
    if is_symbol(n) or is_symbol(r) or r >= n:
        return taps * r
    reach = taps * n / r / 2
    ends = [(place + 0.5) * n / r + reach + 0.5 for place in range(r)]
    return sum(min(int(end), n) - max(int(end - 2 * reach), 0) for end in ends)


@register("pooling")
def rule(step: Step, context: Context) -> Op:
    """Price a pooling of x [B, spatial…, C]; the stride is the window unless given."""
    x = context.tensor(step.inputs[0])
    B, *spatial, C = x.dims
    size, *options = (step.options[key] for key in ("window", "stride", "pad", "dilation"))
    own = windows(size, *options)
    results = [w.results(L) for w, L in zip(own, spatial, strict=True)]
    out = Tensor(step.output.ident, (B, *results, C), step.output.dtype, label=step.output.written)
    places = [window.reach(L, r) for window, L, r in zip(own, spatial, results, strict=True)]
    facts = {"results": out.elements, "window": product(size), "compute": context.arithmetic(step)}
    return pool(step.text or step.function, [x], [out], places=places, **facts)
