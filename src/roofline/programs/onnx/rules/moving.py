"""Copies, lookups, fills; sampling at stated places of an image, regions of it, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roofline.programs.onnx.registry import UPDATES, Call, Priced, pricing, rule
from roofline.sizes import Size, exact_div, product
from roofline.work import Tensor


@rule("Concat", "Pad", "Tile", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Trilu", "OneHot",
      "EyeLike", "CenterCropPad", "MaxUnpool")  # fmt: skip
def copied(call: Call) -> Priced:
    """Read what goes in, write what comes out."""
    return pricing.move(call.name, call.reads, call.writes)


@rule("Compress", "NonZero")
def chosen(call: Call) -> Priced:
    """Read everything, count what is chosen, write it."""
    size = product(call.shape(0))
    return pricing.vector(call.name, "gather", call.reads, call.writes, flops=size, elements=size, one_each=size)


@rule("Unique")
def distinct(call: Call) -> Priced:
    """What comes first is found by sorting or by a table."""
    return pricing.unknown(call.name, call.reads, call.writes, "a runtime sorts or hashes")


@rule("Slice", "Split")
def sliced(call: Call) -> Priced:
    """Read and write the part that is taken."""
    size = sum((t.elements for t in call.writes[1:]), call.writes[0].elements)
    given = [call.constants[place] for place in range(1, len(call.ins)) if call.has(place)]
    places = given or (call.get("starts"), call.get("ends"), call.get("axes", "all"))
    reads = _part(call, size, places) if call.name == "Slice" else call.touch(0, size)
    return pricing.move(call.name, reads, call.writes)


def _part(call: Call, size: Size, places: Sequence[Any]) -> tuple[Tensor, ...]:
    """The elements that are taken, under a name of their own where the file says which they are."""
    taken = call.touch(0, size)
    if any(place is None for place in places):
        return taken
    where = _edges(call.shape(0), places) if call.name == "Slice" else ""
    where = where or ";".join(map(str, (*call.shape(0), *places)))
    return tuple(replace(tensor, ident=f"{tensor.ident}[{where}]") for tensor in taken)


def _edges(shape: Sequence[Size], places: Sequence[Any]) -> str:
    """First, last and step of each dimension; nothing where a size is open or a slice goes backwards."""
    first, last, *more = ([int(n) for n in np.atleast_1d(place)] if place != "all" else [] for place in places)
    axes = more[0] if more and more[0] else range(len(first))
    steps = more[1] if len(more) > 1 else [1] * len(first)
    if not all(type(size) is int for size in shape) or min(steps, default=1) < 1:
        return ""
    edges = [(0, size, 1) for size in shape]
    for start, stop, axis, step in zip(first, last, axes, steps, strict=True):
        edges[axis] = (*slice(start, stop).indices(shape[axis])[:2], step)
    return ",".join(":".join(map(str, edge)) for edge in edges)


@rule("Gather", "GatherElements", "GatherND", "ArrayFeatureExtractor")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name, at most the whole table."""
    held = call.constants[1]
    if held is None:
        reads = (*call.touch(0, call.writes[0].elements), *call.read(1))
    else:
        reads = _part(call, call.writes[0].elements, (call.name, call.get("axis", 0), held))
    return pricing.move(call.name, reads, call.writes, kind="gather")


@rule(*UPDATES)
def scattered(call: Call) -> Priced:
    """Write values where indices name: into an input that nobody else reads in place, else into a copy.

    Combining reads what was there and adds.
    """
    size = product(call.shape(1 if call.name == "TensorScatter" else 2))
    combines = call.get("reduction", b"none") not in (b"none", "none", b"linear", "linear")
    flops = size if combines else 0
    reads, writes, note = call.reads, call.writes, ""
    if call.in_place:
        (target,) = call.touch(0, size)
        reads = (*((target,) if combines else ()), *(t for t in call.reads if t.ident != target.ident))
        writes = (replace(target, ident=f"{target.ident}[+{writes[0].ident}]"),)
        note = "an input that is updated is updated in place"
    return pricing.vector(call.name, "scatter", reads, writes, flops=flops, elements=size, one_each=flops, note=note)


@rule(
    "Range",
    "MelWeightMatrix",
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
def filled(call: Call) -> Priced:
    """Write numbers."""
    note = "" if call.name in ("Range", "MelWeightMatrix") else "the arithmetic of random numbers is not counted"
    return pricing.move(call.name, (), call.writes, note=note)


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
    return pricing.contraction(call.name, call.read(0, 0), call.writes, m=places, n=n, k=k, batch=batch)


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
