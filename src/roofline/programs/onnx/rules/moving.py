"""Copies, lookups, fills; sampling at stated places of an image, regions of it, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roofline.ops import linear_algebra
from roofline.programs.onnx.registry import UPDATES, Call, Priced, pricing, rule
from roofline.programs.tensor_parts import edges_of_places, once_each, part_name
from roofline.sizes import Size, exact_div, maximum, minimum, product
from roofline.work import Tensor

# What goes in is read, what comes out is written.
rule(
    "Concat", "Tile", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "OneHot", "CenterCropPad", "MaxUnpool",
)(lambda call: call.move())  # fmt: skip


@rule("Trilu")
def triangle(call: Call) -> Priced:
    """Read a triangle, the upper one unless the file says other, and write it among zeros."""
    *batch, m, n = call.shape(0)
    if call.has(1) and call.constants[1] is None:
        return call.move()
    kept = linear_algebra.triangle(m, n, int(call.constant(1, 0)), upper=bool(call.get("upper", 1)))
    return call.move(reads=call.touch(0, product(batch) * kept))


@rule("Pad")
def padded(call: Call) -> Priced:
    """Write a tensor among others. What a negative padding cuts off is not read."""
    rank, pads = len(call.shape(0)), call.get("pads") or (call.constants[1] if call.has(1) else None)
    if pads is None or call.has(3) or call.get("mode", "constant") != "constant":
        return call.move()
    cut = [minimum(0, int(pad)) for pad in pads]
    sizes = zip(call.shape(0), cut[:rank], cut[rank:], strict=True)
    (kept,) = call.touch(0, product(maximum(0, size + low + high) for size, low, high in sizes))
    return call.move(reads=(kept, *(t for t in call.reads if t.ident != kept.ident)))


# Everything is read, what is chosen is counted and written.
rule("Compress", "NonZero")(lambda call: call.for_each("gather", product(call.shape(0))))

#: Why there is no rule: how much is done depends on values.
_REASONS = {
    "Unique": "a runtime sorts or hashes",
    "MaxRoiPool": "how much of the image is looked at depends on the regions",
    "NonMaxSuppression": "how many boxes are compared depends on the scores",
}

rule(*_REASONS)(lambda call: call.unknown(_REASONS[call.name]))


@rule("Slice", "Split")
def sliced(call: Call) -> Priced:
    """Read and write the part that is taken."""
    size = sum((t.elements for t in call.writes[1:]), call.writes[0].elements)
    given = [call.constants[place] for place in range(1, len(call.operands)) if call.has(place)]
    places = given or (call.get("starts"), call.get("ends"), call.get("axes", "all"))
    reads = _part(call, size, places) if call.name == "Slice" else call.touch(0, size)
    return call.move(reads=reads)


def _part(call: Call, size: Size, places: Sequence[Any]) -> tuple[Tensor, ...]:
    """The elements that are taken, under a name of their own where the file says which they are."""
    if any(place is None for place in places):
        return call.touch(0, size)
    named = _NAMED.get(call.name)
    where = "" if named is None else named(call.shape(0), places)
    return call.touch(0, size, where or ";".join(map(str, (*call.shape(0), *places))))


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
    return part_name(edges)


def _picked(shape: Sequence[Size], places: Sequence[Any]) -> str:
    """What indices along an axis pick, where they lie evenly."""
    _, axis, held = places
    if not all(type(size) is int for size in shape):
        return ""
    edges = [(0, size, 1) for size in shape]
    found = edges_of_places(np.array(held) % shape[axis])
    if found is None:
        return ""
    edges[axis] = found
    return part_name(edges)


#: What parts are called whose places are known, by what takes them.
_NAMED = {"Slice": _edges, "Gather": _picked}


@rule("Gather", "GatherElements", "GatherND", "ArrayFeatureExtractor")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name, at most the whole table."""
    held = call.constants[1]
    size = call.writes[0].elements
    if held is None:
        reads = (*call.touch(0, size), *call.read(1))
    else:
        size = once_each(size, np.ravel(held)) if call.name == "Gather" else size
        reads = _part(call, size, (call.name, call.get("axis", 0), held))
    return call.move(reads=reads, kind="gather")


@rule(*UPDATES)
def scattered(call: Call) -> Priced:
    """Write values where indices name: into an input that nobody else reads in place, else into a copy.

    Combining reads what was there and adds.
    """
    size = product(call.shape(1 if call.name == "TensorScatter" else 2))
    combines = call.get("reduction", "none") not in ("none", "linear")
    flops = size if combines else 0
    reads, writes, note = call.reads, call.writes, ""
    if call.in_place:
        (target,) = call.touch(0, size)
        reads = (*((target,) if combines else ()), *(t for t in call.reads if t.ident != target.ident))
        writes = (target.updated(writes[0].ident),)
        note = "an input that is updated is updated in place"
    return call.vector("scatter", flops, size, one_each=flops, note=note, reads=reads, writes=writes)


# Numbers are written.
rule("Range", "MelWeightMatrix", "EyeLike")(lambda call: call.move(reads=()))
rule(
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial",
)(lambda call: call.move(reads=(), note="the arithmetic of random numbers is not counted"))  # fmt: skip

#: Elements mixed by a grid sample in one dimension.
_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


@rule("GridSample")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places: a multiply and an add for each, nothing for the nearest."""
    taps = _TAPS[call.get("mode", "linear")] ** (len(call.shape(0)) - 2)
    size = call.writes[0].elements
    reached = minimum(product(call.shape(0)), taps * size)
    return pricing.resample(call.name, call.reads, call.writes, taps=taps, elements=size, reached=reached)


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
        return call.unknown("how many places are looked at depends on the regions")
    return call.for_each("resample", call.writes[0].elements, 2 * 4 * each + each)


# Every element of a window is added to its place.
rule("Col2Im")(lambda call: call.for_each("resample", call.read(0)[0].elements, reads=call.read(0)))
