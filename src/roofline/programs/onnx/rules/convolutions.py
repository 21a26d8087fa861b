"""Convolutions, transposed ones, pooling, resampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from roofline.ops.pricing import valid_taps
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import product
from roofline.work import Op, Work


@rule("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "FusedConv")
def convolution(call: Call) -> Priced:
    """Convolve [B, C, spatial…] with [O, C/groups, taps…]; transposed: [C, O/groups, taps…]."""
    return _convolved(call)


def _convolved(call: Call) -> Op:
    transposed = call.name == "ConvTranspose"
    place = 3 if call.name == "QLinearConv" else 1
    x, weight, out = call.shape(0), call.shape(place), call.writes[0].dims
    groups, spatial = call.get("group", 1), len(weight) - 2
    slid, seen = (x[2:], out[2:]) if transposed else (out[2:], x[2:])
    stride, dilation = (list(call.get(word) or [1] * spatial) for word in ("strides", "dilations"))
    low = _low(call, seen, slid, weight[2:], stride, dilation)
    taps = None
    if all(isinstance(size, int) for size in (*slid, *seen)):
        taps = prod(
            valid_taps(seen[d], slid[d], weight[2 + d], stride=stride[d], low=low[d], dilation=dilation[d])
            for d in range(spatial)
        )
    added = 8 if call.name == "QLinearConv" else 2
    bias = call.name != "ConvInteger" and call.has(added)
    first, second = weight[:2]
    return pricing.convolution(
        call.name,
        (*call.read(0, place), *(call.read(added) if bias else ())),
        call.writes,
        batch=x[0],
        positions=product(slid),
        out_per_group=second if transposed else first // groups,
        in_per_group=first // groups if transposed else second,
        kernel=product(weight[2:]),
        groups=groups,
        transposed=transposed,
        valid_taps=taps,
        bias=call.writes[0].elements if bias else 0,
        note="padded positions of a convolution are counted" if any(low) else "",
    )


@rule("DeformConv")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    op = _convolved(replace(call, name="Conv", ins=call.ins[:2]))
    weight, out = call.shape(1), call.writes[0].dims
    taken = out[0] * product(out[2:]) * call.shape(0)[1] * product(weight[2:])
    added = (2 * 4 + call.has(4)) * taken + (call.writes[0].elements if call.has(3) else 0)
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(0)), added)
    return replace(op, name=call.name, reads=call.reads, work=work, note="")


def _low(call: Call, seen: Sequence[Any], slid: Sequence[Any], taps: Sequence[Any], stride: Any, dilation: Any) -> Any:
    """Padding before the first element, as written or as SAME works it out."""
    spatial = len(taps)
    auto = call.get("auto_pad", b"NOTSET")
    word = auto.decode() if isinstance(auto, bytes) else auto
    if not word.startswith("SAME"):
        return list(call.get("pads") or [0] * (2 * spatial))[:spatial]
    found = []
    for d in range(spatial):
        whole = max(0, (slid[d] - 1) * stride[d] + (taps[d] - 1) * dilation[d] + 1 - seen[d])
        found.append((whole + (word == "SAME_LOWER")) // 2)
    return found


@rule("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    return _pooled(call, product(call.get("kernel_shape")))


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call: Call) -> Priced:
    """One window for each channel."""
    return _pooled(call, product(call.shape(0)[2:]))


@rule("Resize", "Upsample")
def resized(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest."""
    mode = call.get("mode", b"nearest")
    word = mode.decode() if isinstance(mode, bytes) else mode
    changed = sum(bool(a != b) for a, b in zip(call.shape(0), call.writes[0].dims, strict=True))
    taps = {"nearest": 1, "linear": 2, "cubic": 4}.get(word, 1) ** changed
    size = call.writes[0].elements
    return pricing.resample(call.name, call.read(0), call.writes, taps=taps, elements=size)


def _pooled(call: Call, window: Any) -> Priced:
    results = call.writes[0].elements
    return pricing.pool(call.name, call.reads, call.writes, results=results, window=window)
