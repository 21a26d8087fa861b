"""Layer, group, batch, instance and RMS norm, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from roofline.programs.pytorch.price_tables import NORM_BACKWARD
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule
from roofline.programs.pytorch.whole import Whole, run_whole
from roofline.work import Op


@rule("native_layer_norm")
def layer_norm(call: Call) -> Priced:
    """Normalise over the last dimensions."""
    x, shape = call.args[0], call.args[1]
    return _norm("layer_norm", call, x.numel(), x.numel() // max(1, prod(shape)), affine=_given(call.args[2:4]))


@rule("native_group_norm")
def group_norm(call: Call) -> Priced:
    """Normalise over groups of channels."""
    rows = call.args[0].shape[0] * call.args[6]
    return _norm("group_norm", call, call.args[0].numel(), rows, affine=_given(call.args[1:3]))


@rule("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm",
      "_batch_norm_with_update", "_native_batch_norm_legit_functional")  # fmt: skip
def batch_norm(call: Call) -> Priced:
    """Normalise over the batch: with statistics of the batch as a layer norm, with stored ones 2 an element."""
    x = call.args[0]
    training = bool(call.get("training", call.get("train", call.name == "_batch_norm_with_update")))
    function = "layer_norm" if training else "batch_norm"
    return _norm(function, call, x.numel(), x.shape[1], affine=_given(call.args[1:3]), name="batch_norm")


@rule("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_stored(call: Call) -> Priced:
    """Normalise with stored statistics."""
    x = call.args[0]
    return _norm("batch_norm", call, x.numel(), x.shape[1], affine=_given(call.args[1:3]), name="batch_norm")


@rule("_fused_rms_norm")
def rms_norm(call: Call) -> Priced:
    """Normalise by the root of the mean square."""
    x, shape = call.args[0], call.args[1]
    return _norm("rms_norm", call, x.numel(), x.numel() // max(1, prod(shape)), affine=_given(call.args[2:3]))


@rule("native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
      "cudnn_batch_norm_backward", "batch_norm_backward", "_fused_rms_norm_backward")  # fmt: skip
def backward(call: Call) -> Priced:
    """The gradient of a norm."""
    size = call.args[0].numel()
    return pricing.vector(
        call.name, "norm", call.reads, call.writes, flops=NORM_BACKWARD * size, elements=size, one_each=size
    )


@function(F.rms_norm, torch.rms_norm)
def rms_norm_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An RMS norm whole, where PyTorch has no kernel of its own for it."""
    given = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)) | kwargs
    x, shape, weight = given["input"], given["normalized_shape"], given.get("weight")
    tensors = [x] if weight is None else [x, weight]
    if not isinstance(shape, int | list | tuple) or tuple(x.shape[-len(_tuple(shape)) :]) != _tuple(shape):
        return NotImplemented
    rows = x.numel() // max(1, prod(_tuple(shape)))
    dtype = x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)

    def forward(outs: Sequence[Any]) -> Op:
        reads = [recorder.read(t) for t in tensors]
        writes = [recorder.wrote(out) for out in outs]
        return pricing.norm("rms_norm", "rms_norm", reads, writes, size=x.numel(), rows=rows, affine=len(tensors) - 1)

    def back(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [recorder.read(t) for t in (*grads, *saved)]
        writes = [recorder.wrote(t) for t in made]
        return pricing.vector(
            "rms_norm_backward", "norm", reads, writes, flops=NORM_BACKWARD * x.numel(), elements=x.numel()
        )

    return run_whole(recorder, Whole([(x.shape, dtype)], forward, back), tensors)[0]


def _norm(function: str, call: Call, size: int, rows: int, *, affine: int, name: str | None = None) -> Op:
    writes = call.writes[:1] if function == "batch_norm" else call.writes  # with stored statistics there are no others
    return pricing.norm(function, name or function, call.reads, writes, size=size, rows=rows, affine=affine)


def _given(values: Sequence[Any]) -> int:
    return sum(value is not None for value in values)


def _tuple(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
