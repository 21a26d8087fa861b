"""Elementwise operations whose cost is more than one FLOP an element; PyTorch tags the others itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roofline.programs.pytorch.price_tables import NAMES, OPTIMIZERS, OTHERS, each_of_list
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule, shape
from roofline.work import Op


@rule(*NAMES)
def known(call: Call) -> Priced:
    """A function that the notation has too; a scaled sum (add with alpha) has one multiply more."""
    function = NAMES[call.name]
    if call.name == "gelu" and call.kwargs.get("approximate") == "tanh":
        function = "gelu_tanh"
    if call.name == "pow" and len(call.args) > 1 and isinstance(call.args[1], int | float):
        function = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(call.args[1], "power")
    if function in ("multiply", "divide") and call.outs[0].is_complex() and isinstance(call.args[1], int | float):
        return counted(call, 2, 0)
    if call.get("alpha", 1) != 1 and call.name in ("add", "sub", "rsub"):
        return counted(call, 4 if call.outs[0].is_complex() else 2, 0)
    return pricing.elementwise(function, call.reads, call.writes, name=call.name)


@rule(*OTHERS)
def other(call: Call) -> Priced:
    """A function that stands in :data:`~roofline.programs.pytorch.price_tables.OTHERS` with its formula."""
    plain, special, _ = OTHERS[call.name]
    drawn = call.name in ("native_dropout", "_fused_dropout")
    return counted(call, plain, special, "the arithmetic of random numbers is not counted" if drawn else "")


def counted(call: Call, plain: int, special: int, note: str = "") -> Op:
    """So many FLOPs and transcendentals for each element of the result."""
    size = call.outs[0].numel()
    return pricing.vector(
        call.name,
        "elementwise",
        call.reads,
        call.writes,
        flops=size * (plain + special),
        elements=size,
        transcendentals=size * special,
        one_each=size,
        note=note,
    )


@shape("fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
       "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")  # fmt: skip
def with_mask(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same shape, and where it was clipped."""
    return torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)


@shape("dequantize")
def out_of_integers(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Floating point of the same shape."""
    return torch.empty(args[0].shape, dtype=torch.float32, device="meta")


@function(torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout)
def dropped_out(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Outside training dropout gives what it got, and costs nothing; while training it is one kernel."""
    given = dict(zip(("input", "p", "train"), args, strict=False)) | kwargs
    if not given["train"]:
        return given["input"]
    plain = func is torch.dropout and 0 < given["p"] < 1 and not recorder.known(given["input"])
    return torch.native_dropout(given["input"], given["p"], True)[0] if plain else NotImplemented


@rule("complex", "view_as_real_copy", "view_as_complex_copy", "real", "imag", "conj_physical")
def reshaped(call: Call) -> Priced:
    """Put together or take apart complex numbers: bytes only."""
    return pricing.elementwise("copy", call.reads, call.writes, name=call.name)


@rule("_foreach_add", "_foreach_mul", "_foreach_sub", "_foreach_div", "_foreach_sqrt", "_foreach_addcmul",
      "_foreach_addcdiv", "_foreach_lerp", "_foreach_neg", "_foreach_pow", "_foreach_norm", "_foreach_maximum",
      "_foreach_reciprocal", "_foreach_abs", "_foreach_exp", "_foreach_clamp_min", "_foreach_clamp_max")  # fmt: skip
def foreach(call: Call) -> Priced:
    """One elementwise function over many tensors at once."""
    each, plain = each_of_list(call.name), call.name.removeprefix("_foreach_")
    size = sum(item.numel() for item in (call.outs if plain != "norm" else call.args[0]))
    return pricing.vector(
        call.name, "elementwise", call.reads, call.writes, flops=each * size, elements=size, one_each=size
    )


@rule(*OPTIMIZERS)
def fused_optimizer(call: Call) -> Priced:
    """A whole optimizer step in one kernel: FLOPs a parameter as its formula has them."""
    each, roots, _ = OPTIMIZERS[call.name]
    size = sum(item.numel() for item in call.args[0])
    op: Op = pricing.vector(
        call.name,
        "elementwise",
        call.reads,
        call.writes,
        flops=each * size,
        elements=size,
        transcendentals=roots * size,
        one_each=size,
    )
    return op
