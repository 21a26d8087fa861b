"""Layer, group, batch and RMS norm, forward and backward."""

from __future__ import annotations

from typing import Any

from roofline.programs.pytorch.registry import Call, Priced, is_operand, pricing, rule
from roofline.sizes import Size, exact_div, product
from roofline.work import Op


@rule("native_layer_norm", "layer_norm", "_fused_rms_norm", "rms_norm")
def layer_norm(call: Call) -> Priced:
    """Normalise over the last dimensions: those that are stated, or that the scale has."""
    (x,) = call.operands(0)
    function = "rms_norm" if "rms" in call.name else "layer_norm"
    affine = _given(call.args[2 : 3 if function == "rms_norm" else 4])
    shape = call.get("normalized_shape")
    if not isinstance(shape, int | list | tuple):
        shape = call.args[2].shape if affine else x.shape[-1:]
    return _norm(function, call, x.elements, exact_div(x.elements, product(_as_tuple(shape))), affine=affine)


@rule("native_group_norm")
def group_norm(call: Call) -> Priced:
    """Normalise over groups of channels."""
    (x,) = call.operands(0)
    return _norm("group_norm", call, x.elements, x.shape[0] * call.stated("group"), affine=_given(call.args[1:3]))


@rule("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm",
      "_batch_norm_with_update", "_native_batch_norm_legit_functional")  # fmt: skip
def batch_norm(call: Call) -> Priced:
    """Normalise over the batch: with statistics of the batch as a layer norm, with stored ones 2 an element."""
    training = call.stated("training", call.stated("train", call.name == "_batch_norm_with_update"))
    return _batch_norm("layer_norm" if training else "batch_norm", call)


@rule("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_stored(call: Call) -> Priced:
    """Normalise with stored statistics."""
    return _batch_norm("batch_norm", call)


@rule("native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
      "cudnn_batch_norm_backward", "miopen_batch_norm_backward", "batch_norm_backward",
      "_fused_rms_norm_backward", "rms_norm_backward")  # fmt: skip
def norm_backward(call: Call) -> Priced:
    """The gradient of a norm."""
    return pricing.norm_backward(call.name, call.reads, call.writes, elements=call.operands(0)[0].elements)


def _batch_norm(function: str, call: Call) -> Op:
    (x,) = call.operands(0)
    return _norm(function, call, x.elements, x.shape[1], affine=_given(call.args[1:3]), name="batch_norm")


def _norm(function: str, call: Call, size: Size, rows: Size, *, affine: int, name: str | None = None) -> Op:
    writes = call.writes[:1] if function == "batch_norm" else call.writes  # with stored statistics there are no others
    return pricing.norm(function, call.reads, writes, elements=size, rows=rows, affine=affine, name=name)


def _given(values: Any) -> int:
    return sum(map(is_operand, values))


def _as_tuple(shape: Any) -> tuple[Size, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
