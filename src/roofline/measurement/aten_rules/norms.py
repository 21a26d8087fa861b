"""Layer, RMS, group and batch norm, forward and backward."""

from __future__ import annotations

from math import prod

from roofline.measurement.aten import Seen, like, rule
from roofline.ops import pricing
from roofline.work import Op, Tensor


@rule("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(seen: Seen) -> Op:
    """Normalise over the last dimensions: those that are stated, or that scale and shift have."""
    x, affine = seen.tensor(0), seen.some(2, 3)
    shape = seen.value(1, None)
    last = len(shape) if isinstance(shape, list | tuple) else len(affine[0].dims) if affine else 1
    function = "rms_norm" if "rms" in seen.name else "layer_norm"
    rows = prod(x.dims[: -max(last, 1)])
    facts = {"elements": x.elements, "rows": rows, "affine": len(affine)}
    return pricing.norm(function, (x, *affine), (like(x),), **facts, name=seen.name)


@rule("native_group_norm")
def group_norm(seen: Seen) -> Op:
    """Normalise over groups of channels."""
    x, affine = seen.tensor(0), seen.some(1, 2)
    rows = x.dims[0] * seen.stated(6)
    statistics = [like(x, (rows,), ident=name) for name in ("mean", "rstd")]
    reads, writes = (x, *affine), (like(x), *statistics)
    return pricing.norm("group_norm", reads, writes, elements=x.elements, rows=rows, affine=len(affine), name=seen.name)


#: Whether batch norms take the statistics of the batch: the place that says so, or what their name does.
BATCH_NORMS: dict[str, int | bool] = {
    "native_batch_norm": 5, "cudnn_batch_norm": 5, "miopen_batch_norm": 5, "_native_batch_norm_legit": 5,
    "_batch_norm_with_update": True, "_native_batch_norm_legit_no_training": False, "_batch_norm_no_update": False,
}  # fmt: skip


@rule(*BATCH_NORMS)
def batch_norm(seen: Seen) -> Op:
    """Normalise over the batch: with its own statistics as a layer norm, with stored ones 2 an element."""
    said = BATCH_NORMS[seen.plain]
    training = said if isinstance(said, bool) else seen.stated(said)
    x, affine, channels = seen.tensor(0), seen.some(1, 2), seen.tensor(0).dims[1]
    statistics = [Tensor(name, (channels,), "fp32") for name in ("mean", "rstd")] if training else []
    function = "layer_norm" if training else "batch_norm"
    reads, writes = (x, *affine, *seen.some(3, 4)), (like(x), *statistics)
    return pricing.norm(function, reads, writes, elements=x.elements, rows=channels, affine=len(affine), name=seen.name)


#: The first argument that is a scale or a shift of what a gradient is of: theirs has their shape.
SCALES = {
    "native_layer_norm_backward": (5, 6), "_fused_rms_norm_backward": (4,), "native_group_norm_backward": (4, 4),
    **dict.fromkeys(("native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward",
                     "batch_norm_backward"), (2, 2)),
}  # fmt: skip


@rule(*SCALES)
def backward(seen: Seen) -> Op:
    """The gradients of what was normalised, of its scale and of its shift; the first two arguments are alike."""
    x, scales = seen.tensor(1), seen.some(*SCALES[seen.plain])
    writes = [like(x), *(like(scale, ident=f"grad {n}") for n, scale in enumerate(scales))]
    return pricing.norm_backward(seen.name, seen.every(), writes, elements=x.elements)
