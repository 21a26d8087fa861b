"""Regions and places of an image: sampling at stated places, pooling of regions, boxes."""

from __future__ import annotations

from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import exact_div

#: Elements mixed by a grid sample in one dimension.
_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@rule("GridSample")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places: a multiply and an add for each, nothing for the nearest."""
    taps = _TAPS[_word(call, "mode", "linear")] ** (len(call.shape(0)) - 2)
    size = call.writes[0].elements
    flops = 0 if taps == 1 else 2 * taps * size
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("AffineGrid")
def grid(call: Call) -> Priced:
    """A matrix for each entry of the batch times (x, y, 1) or (x, y, z, 1) for each place."""
    batch, n, k = call.shape(0)
    places = exact_div(call.writes[0].elements, batch * n)
    return pricing.matmul(call.name, call.read(0, 0), call.writes, m=places, n=n, k=k, batch=batch)


@rule("RoiAlign")
def aligned(call: Call) -> Priced:
    """The mean (or the largest) of some places, each mixed from four neighbours; how many has to be stated."""
    each = call.get("sampling_ratio", 0) ** 2
    if not each:
        return pricing.unknown(
            call.name, call.reads, call.writes, "how many places are looked at depends on the regions"
        )
    size = call.writes[0].elements
    flops = size * (2 * 4 * each + each)
    return pricing.vector(call.name, "resample", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("MaxRoiPool")
def pooled(call: Call) -> Priced:
    """The largest of each part of a region."""
    return pricing.unknown(
        call.name, call.reads, call.writes, "how much of the image is looked at depends on the regions"
    )


@rule("NonMaxSuppression")
def boxes(call: Call) -> Priced:
    """Boxes that overlap one with a better score are left out."""
    return pricing.unknown(call.name, call.reads, call.writes, "how many boxes are compared depends on the scores")


@rule("Col2Im")
def folded(call: Call) -> Priced:
    """Add every element of a window to its place."""
    size = call.read(0)[0].elements
    return pricing.vector(call.name, "resample", call.read(0), call.writes, flops=size, elements=size, one_each=size)


def _word(call: Call, name: str, default: str) -> str:
    found = call.get(name, default)
    return found.decode() if isinstance(found, bytes) else str(found)
