"""Elementwise operations whose cost is more than one FLOP an element; PyTorch tags the others itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roofline.programs.torch_recorder import Recorder
from roofline.programs.torch_registry import Call, Priced, costs, function, rule, shape
from roofline.work import Op

#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by PyTorch's name.
NAMES = {
    "add": "add", "sub": "subtract", "rsub": "subtract", "mul": "multiply", "div": "divide", "maximum": "maximum",
    "minimum": "minimum", "where": "where", "masked_fill": "where", "pow": "power", "relu": "relu",
    "leaky_relu": "leaky_relu", "hardtanh": "clip", "gelu": "gelu", "sigmoid": "sigmoid", "silu": "silu",
    "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos",
    "erf": "erf", "square": "square", "abs": "abs", "neg": "neg", "reciprocal": "reciprocal", "sign": "sign",
    "sgn": "sign", "floor": "floor", "ceil": "floor", "round": "round", "trunc": "round", "clamp": "clip",
    "clamp_min": "maximum", "clamp_max": "minimum", "softplus": "softplus", "mish": "mish", "hardswish": "hardswish",
    "elu": "elu", "expm1": "exp", "log1p": "log", "log2": "log", "log10": "log", "exp2": "exp", "sinh": "exp",
    "cosh": "exp", "tan": "sin", "asin": "sin", "acos": "cos", "atan": "sin", "atan2": "sin", "erfc": "erf",
    "erfinv": "erf",
    "floor_divide": "divide", "remainder": "divide", "fmod": "divide", "isin": "compare", "eq": "compare",
    "ne": "compare",
    "lt": "compare", "le": "compare", "gt": "compare", "ge": "compare", "heaviside": "compare", "copysign": "abs",
    "threshold": "relu", "relu6": "relu6",
}  # fmt: skip

#: FLOPs and transcendentals an element of what has no forward function of its own; the formula is stated.
OTHERS: dict[str, tuple[int, int, str]] = {
    "addcmul": (3, 0, "a + v·b·c"),
    "addcdiv": (3, 0, "a + v·b/c"),
    "lerp": (3, 0, "a + w·(b − a)"),
    "gelu_backward": (11, 2, "g·(½·(1 + erf(x/√2)) + x·exp(−x²/2)/√(2π))"),
    "silu_backward": (8, 1, "g·s·(1 + x·(1 − s)), s = 1/(1 + exp(−x))"),
    "sigmoid_backward": (3, 0, "g·(1 − y)·y"),
    "tanh_backward": (3, 0, "g·(1 − y²)"),
    "threshold_backward": (1, 0, "select(x > 0, g, 0)"),
    "hardtanh_backward": (2, 0, "select(low < x < high, g, 0)"),
    "leaky_relu_backward": (2, 0, "select(x > 0, g, a·g)"),
    "elu_backward": (4, 1, "select(x > 0, g, g·a·exp(x))"),
    "hardswish_backward": (5, 0, "g·select(x < −3, 0, x < 3: x/3 + ½, 1)"),
    "softplus_backward": (4, 1, "g·e/(e + 1), e = exp(x)"),
    "mish_backward": (10, 3, "g·(t + x·s·(1 − t²)), t = tanh(log(1 + exp(x)))"),
    "glu": (5, 1, "a·1/(1 + exp(−b)), for each half"),
    "glu_backward": (8, 1, "the gradient of a·σ(b) for both"),
    "log_sigmoid_forward": (3, 2, "min(x, 0) − log(1 + exp(−|x|))"),
    "log_sigmoid_backward": (4, 1, "g·(1 − σ(x))"),
    "hardsigmoid_backward": (2, 0, "select(−3 < x < 3, g/6, 0)"),
    "_prelu_kernel": (2, 0, "max(x, 0) + a·min(x, 0)"),
    "_prelu_kernel_backward": (4, 0, "select(x > 0, g, a·g) and select(x > 0, 0, x·g)"),
    "rrelu_with_noise": (2, 0, "select(x > 0, x, a·x)"),
    "xlogy": (1, 1, "x·log(y)"),
    "celu": (3, 1, "select(x > 0, x, a·(exp(x/a) − 1)), as elu"),
    "hardsigmoid": (4, 0, "min(max(x + 3, 0), 6)·1/6"),
    "hardshrink": (3, 0, "select(|x| > λ, x, 0): two comparisons and a choice"),
    "softshrink": (3, 0, "select(|x| > λ, x ∓ λ, 0)"),
    "hardshrink_backward": (3, 0, "select(|x| > λ, g, 0)"),
    "softshrink_backward": (3, 0, "select(|x| > λ, g, 0)"),
    "rrelu_with_noise_backward": (2, 0, "select(x > 0, g, a·g)"),
    "logit": (2, 1, "log(x/(1 − x))"),
    "logit_backward": (3, 0, "g/(x·(1 − x))"),
    "hypot": (3, 1, "√(a² + b²)"),
    "sinc": (2, 1, "sin(π·x)/(π·x)"),
    "soft_margin_loss_backward": (6, 1, "−g·y·z/(1 + z), z = exp(−y·x)"),
    "fake_quantize_per_tensor_affine_cachemask": (7, 0, "(clip(round(x/s) + z) − z)·s, and where it is clipped"),
    "fake_quantize_per_channel_affine_cachemask": (7, 0, "(clip(round(x/s) + z) − z)·s, and where it is clipped"),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": (7, 0, "the same"),
    "_fused_moving_avg_obs_fq_helper": (9, 0, "the same, and the largest and the smallest that were met"),
    "quantize_per_tensor": (5, 0, "clip(round(x/s) + z)"),
    "quantize_per_channel": (5, 0, "clip(round(x/s) + z)"),
    "dequantize": (2, 0, "(x − z)·s"),
    "_fused_dropout": (2, 0, "select(mask, x·1/(1 − p), 0); the random numbers are not counted"),
    "_masked_scale": (2, 0, "x·mask·scale"),
    "_add_relu": (2, 0, "max(a + b, 0)"),
    "addr": (3, 0, "a + v·b·c, an outer product"),
    "_thnn_fused_lstm_cell": (5, 1, "3 sigmoids, 2 tanh, 4 products and sums for every four gates"),
    "_weight_norm_interface": (4, 0, "g·v/√Σv²"),
    "_weight_norm_interface_backward": (8, 0, "the gradient of g·v/√Σv²"),
    "logaddexp": (4, 2, "max + log(1 + exp(−|a − b|))"),
    "polar": (2, 2, "a·cos, a·sin"),
    "native_dropout": (2, 0, "select(mask, x·1/(1 − p), 0); the random numbers are not counted"),
    "native_dropout_backward": (2, 0, "g·mask·scale"),
    "_softmax_backward_data": (4, 0, "y·(g − Σ g·y)"),
    "_log_softmax_backward_data": (4, 1, "g − exp(y)·Σ g"),
}


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
    return costs.elementwise(function, call.reads, call.writes, name=call.name)


@rule(*OTHERS)
def other(call: Call) -> Priced:
    """A function that stands in :data:`OTHERS` with its formula."""
    plain, special, _ = OTHERS[call.name]
    drawn = call.name in ("native_dropout", "_fused_dropout")
    return counted(call, plain, special, "the arithmetic of random numbers is not counted" if drawn else "")


def counted(call: Call, plain: int, special: int, note: str = "") -> Op:
    """So many FLOPs and transcendentals for each element of the result."""
    size = call.outs[0].numel()
    return costs.vector(
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
    return costs.elementwise("copy", call.reads, call.writes, name=call.name)
