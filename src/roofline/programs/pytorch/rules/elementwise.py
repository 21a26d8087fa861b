"""Functions element by element, over lists of tensors, and whole steps of optimizers."""

from __future__ import annotations

from typing import Any

from roofline.ops.elementwise import PER_ELEMENT
from roofline.programs.pytorch.price_tables import FUNCTIONS, OPTIMIZERS, STATED_FORMULAS
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, is_operand, pricing, rule
from roofline.sizes import Size
from roofline.work import Op

_RANDOM_NOTE = "the arithmetic of random numbers is not counted"

#: Powers that are another function.
_POWERS: dict[Any, str] = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@rule(*FUNCTIONS)
def known(call: Call) -> Priced:
    """A function that the notation has too; a scaled sum (add with alpha) has one multiply more."""
    function = FUNCTIONS[call.name]
    second = call.args[1] if len(call.args) > 1 else None
    is_number = isinstance(second, int | float)
    if call.name == "gelu" and call.get("approximate") == "tanh":
        function = "gelu_tanh"
    if call.name == "pow" and is_number:
        function = _POWERS.get(second, "power")
    if function in ("multiply", "divide") and call.results[0].is_complex and is_number:
        return counted(call, 2, 0)
    if call.name in ("add", "sub", "rsub") and call.get("alpha", 1) != 1:
        return pricing.scaled_sum(call.name, call.reads, call.writes)
    return pricing.elementwise(function, call.reads, call.writes, name=call.name)


@rule(*STATED_FORMULAS)
def other(call: Call) -> Priced:
    """A function that stands in :data:`~roofline.programs.pytorch.price_tables.STATED_FORMULAS` with its formula."""
    plain, special, _ = STATED_FORMULAS[call.name]
    return counted(call, plain, special, _RANDOM_NOTE if call.name in ("native_dropout", "_fused_dropout") else "")


def counted(call: Call, plain: int, special: int, note: str = "") -> Op:
    """So many FLOPs and transcendentals for each element of the result."""
    size = call.results[0].elements
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


@rule("complex", "view_as_real_copy", "view_as_complex_copy", "real", "imag", "conj_physical")
def reshaped(call: Call) -> Priced:
    """Put together or take apart complex numbers: bytes only."""
    return pricing.elementwise("copy", call.reads, call.writes, name=call.name)


@rule("_transform_bias_rescale_qkv")
def heads_split(call: Call) -> Priced:
    """Add the bias of queries, keys and values, and lay them out by heads."""
    return pricing.elementwise("add", call.reads, call.writes, name=call.name)


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
    cost = PER_ELEMENT.get(FUNCTIONS.get(name, ""))
    each = 1 if cost is None else cost.arithmetic + cost.transcendentals
    if name in STATED_FORMULAS:
        each = sum(STATED_FORMULAS[name][:2])
    elif name in ("add", "sub") and call.get("alpha", 1) != 1:
        each = 2
    return _vector(call, each, _elements(call.results))


@rule(*(f"_foreach_{name}" for name in _REDUCING))
def foreach_reduced(call: Call) -> Priced:
    """A number for each of many tensors."""
    return _vector(call, _REDUCING[call.name.removeprefix("_foreach_")], _elements(call.tensors(0)))


@rule(*OPTIMIZERS)
def fused_optimizer(call: Call) -> Priced:
    """A whole optimizer step in one kernel: FLOPs a parameter as its formula has them.

    Gradients are written only where they are unscaled.
    """
    each, roots, _ = OPTIMIZERS[call.name]
    size = _elements(call.tensors(0))
    writes = call.writes
    if call.operand("grad_scale") is None:
        gradients = {tensor.ident.partition(".")[0] for tensor in call.read(*call.tensors(1))}
        writes = tuple(tensor for tensor in writes if tensor.ident.partition(".")[0] not in gradients)
    return pricing.vector(
        call.name,
        "elementwise",
        call.reads,
        writes,
        flops=each * size,
        elements=size,
        transcendentals=roots * size,
        one_each=size,
    )


@rule("_amp_foreach_non_finite_check_and_unscale")
def unscaled(call: Call) -> Priced:
    """Gradients times 1/scale, and whether each is finite."""
    return _vector(call, 2, _elements(call.tensors(0)))


@rule("_amp_update_scale")
def rescaled(call: Call) -> Priced:
    """The next scale: one choice, one product."""
    return _vector(call, 2, 1)


def _elements(operands: tuple[TensorOperand, ...]) -> Size:
    return sum(item.elements for item in operands if is_operand(item))


def _vector(call: Call, each: int, size: Size) -> Priced:
    return pricing.vector(
        call.name, "elementwise", call.reads, call.writes, flops=each * size, elements=size, one_each=size
    )
