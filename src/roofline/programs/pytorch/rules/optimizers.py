"""What optimizers and gradient scalers run: one function over many tensors at once, whole steps in one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.ops.elementwise import PER_ELEMENT
from roofline.programs.pytorch.price_tables import NAMES, OTHERS
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule, shape

_BY_NAME = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "maximum",
    "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub",
    "tan", "tanh", "trunc",
)  # fmt: skip
#: FLOPs an element of what reduces each tensor to a number.
_REDUCING = {"norm": 2, "powsum": 2, "max": 1}


@rule(*(f"_foreach_{name}" for name in _BY_NAME))
def foreach(call: Call) -> Priced:
    """One elementwise function over many tensors at once; a scaled sum has one multiply more."""
    name = call.name.removeprefix("_foreach_")
    cost = PER_ELEMENT.get(NAMES.get(name, ""))
    each = 1 if cost is None else cost.arithmetic + cost.transcendentals
    if name in OTHERS:
        each = sum(OTHERS[name][:2])
    elif name in ("add", "sub") and call.get("alpha", 1) != 1:
        each = 2
    return _vector(call, each, sum(item.numel() for item in call.outs))


@rule(*(f"_foreach_{name}" for name in _REDUCING))
def foreach_reduced(call: Call) -> Priced:
    """A number for each of many tensors."""
    each = _REDUCING[call.name.removeprefix("_foreach_")]
    return _vector(call, each, sum(item.numel() for item in call.args[0]))


@rule("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad")
def fused_optimizer(call: Call) -> Priced:
    """A whole optimizer step in one kernel: FLOPs a parameter as its formula has them.

    Adam, AdamW: m = m + (1 − β₁)(g − m), v = β₂v + (1 − β₂)g², p −= lr·(λp) + lr·m/(√v/c + ε): 16, one a root. SGD
    with momentum: 4. Adagrad: 6, one a root. Gradients are written only where they are unscaled.
    """
    each = {"_fused_sgd": 4, "_fused_adagrad": 6}.get(call.name, 16)
    size = sum(item.numel() for item in call.args[0])
    writes = call.writes
    if call.get("grad_scale") is None:
        gradients = {tensor.ident.partition(".")[0] for tensor in call.read(*call.args[1])}
        writes = tuple(tensor for tensor in writes if tensor.ident.partition(".")[0] not in gradients)
    roots = 0 if call.name == "_fused_sgd" else size
    return pricing.vector(
        call.name,
        "elementwise",
        call.reads,
        writes,
        flops=each * size,
        elements=size,
        transcendentals=roots,
        one_each=size,
    )


@rule("_amp_foreach_non_finite_check_and_unscale")
def unscaled(call: Call) -> Priced:
    """Gradients times 1/scale, and whether each is finite."""
    return _vector(call, 2, sum(item.numel() for item in call.args[0]))


@rule("_amp_update_scale")
def rescaled(call: Call) -> Priced:
    """The next scale: one choice, one product."""
    return _vector(call, 2, 1)


@shape("_fused_sgd", "_fused_adagrad", "_amp_foreach_non_finite_check_and_unscale")
def in_place(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Nothing comes out. Whether a gradient is not finite keeps the value it had: it is taken not to be."""
    return None


def _vector(call: Call, each: int, size: Any) -> Priced:
    return pricing.vector(
        call.name, "elementwise", call.reads, call.writes, flops=each * size, elements=size, one_each=size
    )
