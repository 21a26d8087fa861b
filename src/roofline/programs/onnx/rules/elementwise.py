"""Elementwise operators."""

from __future__ import annotations

from dataclasses import replace

from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.work import Work

#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by ONNX's name.
NAMES = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Mod": "divide", "Pow": "power",
    "Where": "where", "Equal": "compare", "Less": "compare",
    "Greater": "compare", "LessOrEqual": "compare", "GreaterOrEqual": "compare", "And": "add", "Or": "add",
    "Xor": "add", "Not": "neg", "BitwiseAnd": "add", "BitwiseOr": "add", "BitwiseXor": "add", "BitwiseNot": "neg",
    "BitShift": "add", "IsNaN": "compare", "IsInf": "compare", "Relu": "relu", "LeakyRelu": "leaky_relu",
    "PRelu": "leaky_relu", "Clip": "clip", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Sin": "sin", "Cos": "cos", "Tan": "sin", "Asin": "sin", "Acos": "cos", "Atan": "sin",
    "Sinh": "exp", "Cosh": "exp", "Asinh": "log", "Acosh": "log", "Atanh": "log", "Erf": "erf", "Abs": "abs",
    "Neg": "neg", "Reciprocal": "reciprocal", "Sign": "sign", "Floor": "floor", "Ceil": "floor", "Round": "round",
    "Softplus": "softplus", "Mish": "mish", "HardSwish": "hardswish", "Elu": "elu", "Selu": "elu", "Celu": "elu",
    "ThresholdedRelu": "relu", "Swish": "silu",
    "QuickGelu": "silu",
}  # fmt: skip


@rule(*NAMES)
def known(call: Call) -> Priced:
    """A function that the notation has too."""
    function = NAMES[call.name]
    power = call.constants[1] if call.name == "Pow" else None
    if power is not None:
        number = power[0] if isinstance(power, list) else power
        function = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(number, "power")
    return pricing.elementwise(function, call.reads, call.writes, name=call.name)


@rule("SwiGLU")
def gated(call: Call) -> Priced:
    """a/(1 + exp(−α·a))·b, one product more where α is not 1."""
    op = pricing.elementwise("swiglu", call.reads, call.writes, name=call.name)
    if call.get("alpha", 1.0) == 1.0:
        return op
    more = Work.flops("vector", pricing.arithmetic(call.reads), op.dims["elements"])
    return replace(op, work=op.work + more)


@rule("Gelu")
def gelu(call: Call) -> Priced:
    """GELU, exact or by tanh."""
    tanh = call.get("approximate", b"none") in (b"tanh", "tanh")
    return pricing.elementwise("gelu_tanh" if tanh else "gelu", call.reads, call.writes, name=call.name)


#: FLOPs an element: select(|x| > λ, x ∓ b, 0), two comparisons and a sum; min(max(a·x + b, 0), 1); x/(1 + |x|).
_OTHERS = {"Shrink": 3, "HardSigmoid": 4, "Softsign": 3}


@rule(*_OTHERS)
def other(call: Call) -> Priced:
    """A function that the notation does not have."""
    size = call.writes[0].elements
    flops = _OTHERS[call.name] * size
    return pricing.vector(call.name, "elementwise", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("Cast", "CastLike")
def cast(call: Call) -> Priced:
    """Convert to another dtype."""
    return pricing.elementwise("cast", call.read(0), call.writes, name=call.name)


@rule("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
def scaled(call: Call) -> Priced:
    """x/scale + zero, rounded; or (x − zero)·scale."""
    size = call.writes[0].elements
    each = 2 if call.name == "DequantizeLinear" else 3
    op = pricing.vector(
        call.name, "elementwise", call.reads, call.writes, flops=each * size, elements=size, one_each=size
    )
    note = "between DequantizeLinear and QuantizeLinear a file computes in floating point; a runtime may use integers"
    return replace(op, note=note if call.name == "DequantizeLinear" else "")


@rule("RotaryEmbedding")
def rotary(call: Call) -> Priced:
    """x₁·cos − x₂·sin and x₁·sin + x₂·cos; of the tables the rows of the positions are read."""
    return _rotary(call, 1, 2, 3)


@rule("com.microsoft.RotaryEmbedding", "GemmaRotaryEmbedding")
def rotary_of_the_runtime(call: Call) -> Priced:
    """The same, the positions before the tables."""
    return _rotary(call, 2, 3, 1)


def _rotary(call: Call, cos: int, sin: int, positions: int) -> Priced:
    """x is [B, S, heads·H] or [B, heads, S, H]; without positions the tables hold one row for each."""
    x = call.shape(0)
    rows = x[0] * (x[2] if len(x) == 4 else x[1])
    width = call.shape(cos)[-1]
    tables = call.touch(cos, rows * width) + call.touch(sin, rows * width)
    return pricing.elementwise("rope", (*call.read(0, positions), *tables), call.writes, name=call.name)
