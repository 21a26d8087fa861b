"""Work element by element: functions, reductions, norms, softmax, losses, sorting."""

from __future__ import annotations

from typing import Any

from roofline.frozen import replace
from roofline.ops import linear_algebra
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT as SOFTMAX
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.programs.pytorch.registry import OPTIMIZERS
from roofline.programs.rule_table import levels_of
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Work

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
    "QuickGelu": "silu", "Binarizer": "compare",
}  # fmt: skip

#: Powers that are another function.
_POWERS: dict[Any, str] = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@rule(*NAMES)
def known(call: Call) -> Priced:
    """A function that the notation has too."""
    power = call.constant(1) if call.name == "Pow" else None
    if call.name == "Clip" and _bounds(call) == 1:
        return call.elementwise("maximum")
    return call.elementwise(_POWERS.get(power, NAMES[call.name]))


def _bounds(call: Call) -> int:
    """Bounds that a clip has: inputs, attributes before opset 11."""
    return call.has(1) + call.has(2) or ("min" in call.attributes) + ("max" in call.attributes)


@rule("SwiGLU")
def gated(call: Call) -> Priced:
    """a/(1 + exp(−α·a))·b, one product more where α is not 1."""
    op = call.elementwise("swiglu")
    if call.get("alpha", 1.0) == 1.0:
        return op
    more = Work.flops("vector", pricing.arithmetic(call.reads), op.dims["elements"])
    return replace(op, work=op.work + more)


# GELU, exact or by tanh.
rule("Gelu")(lambda call: call.elementwise("gelu_tanh" if call.get("approximate") == "tanh" else "gelu"))

#: FLOPs an element: select(|x| > λ, x ∓ b, 0), two comparisons and a sum; min(max(a·x + b, 0), 1); x/(1 + |x|).
OTHERS = {"Shrink": 3, "HardSigmoid": 4, "Softsign": 3}

rule(*OTHERS)(lambda call: call.for_each("elementwise", call.writes[0].elements, OTHERS[call.name]))

# Another dtype of the same.
rule("Cast", "CastLike")(lambda call: pricing.elementwise("cast", call.read(0), call.writes, name=call.name))


@rule("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
def scaled(call: Call) -> Priced:
    """x/scale + zero, rounded; or (x − zero)·scale."""
    function = "dequantise" if call.name == "DequantizeLinear" else "quantise"
    op = call.elementwise(function)
    note = "between DequantizeLinear and QuantizeLinear a file computes in floating point; a runtime may use integers"
    return replace(op, note=note if call.name == "DequantizeLinear" else "")


# x₁·cos − x₂·sin and x₁·sin + x₂·cos; the runtime's own has the positions before the tables.
rule("RotaryEmbedding")(lambda call: _rotary(call, 1, 2, 3))
rule("com.microsoft.RotaryEmbedding", "GemmaRotaryEmbedding")(lambda call: _rotary(call, 2, 3, 1))


def _rotary(call: Call, cos: int, sin: int, positions: int) -> Priced:
    """x is [B, S, heads·H] or [B, heads, S, H]; of the tables the rows of the positions, or one for each, are read."""
    x = call.shape(0)
    rows = x[0] * (x[2] if len(x) == 4 else x[1])
    width = call.shape(cos)[-1]
    tables = call.touch(cos, rows * width) + call.touch(sin, rows * width)
    return pricing.elementwise("rope", (*call.read(0, positions), *tables), call.writes, name=call.name)


REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceL1": "norm", "ReduceL2": "norm", "ReduceSumSquare": "norm", "ReduceLogSumExp": "logsumexp",
    "ReduceLogSum": "norm", "ArgMax": "argmax", "ArgMin": "argmin",
}  # fmt: skip


@rule(*REDUCTIONS)
def reduced(call: Call) -> Priced:
    """Reduce over some dimensions."""
    sizes = {"elements": product(call.shape(0)), "results": call.writes[0].elements}
    return pricing.reduction(REDUCTIONS[call.name], call.read(0), call.writes, **sizes, name=call.name)


@rule("Mean", "Sum", "Max", "Min")
def of_several(call: Call) -> Priced:
    """The sum (or the largest) of several tensors: one operation for each but the first; one more for a mean."""
    each = sum(item is not None for item in call.operands) - (call.name != "Mean")
    return call.for_each("elementwise", call.writes[0].elements, each)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Priced:
    """A softmax of rows, its logarithm, or the place of the largest, which is found by the same steps."""
    out = call.writes[0]
    rows = exact_div(out.elements, out.dims[call.get("axis", -1)]) if out.dims else 1
    log = call.name == "LogSoftmax"
    return pricing.softmax(call.name, call.reads, call.writes, elements=out.elements, rows=rows, log=log)


# A norm over the dimensions from ``axis`` on.
rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")(
    lambda call: layer_norm_with(call, affine=call.has(1) + call.has(2))
)


def layer_norm_with(call: Call, *, affine: int, added: int = 0) -> Op:
    """A norm, by the root of the mean square where the name says so, with more done to each element."""
    function = "rms_norm" if "RMS" in call.name or "Simplified" in call.name else "layer_norm"
    dims, axis = call.writes[0].dims, call.get("axis", -1)
    return _norm(call, function, product(dims[: axis if axis >= 0 else len(dims) + axis]), affine, added)


def _norm(call: Call, function: str, rows: Size, affine: int, added: int = 0) -> Op:
    facts = {"elements": call.writes[0].elements, "rows": rows, "affine": affine, "added": added}
    return pricing.norm(function, call.reads, call.writes, **facts, name=call.name)


@rule("GroupNormalization", "InstanceNormalization", "MeanVarianceNormalization")
def group_norm(call: Call) -> Priced:
    """A norm over groups of channels of one image, over each channel of one, or over some dimensions of all."""
    out = call.writes[0]
    if call.name == "MeanVarianceNormalization":
        axes = [axis % len(out.dims) for axis in call.get("axes", (0, 2, 3))]
        rows = product(size for place, size in enumerate(out.dims) if place not in axes)
    else:
        rows = out.dims[0] * (call.get("num_groups") or out.dims[1])
    return _norm(call, "group_norm", rows, call.has(1) + call.has(2))


@rule("BatchNormalization")
def batch_norm(call: Call) -> Priced:
    """Stored statistics: a multiply and an add for each element, scale and shift being joined beforehand."""
    function = "layer_norm" if call.get("training_mode") else "batch_norm"
    dims = call.writes[0].dims
    return _norm(call, function, dims[1] if len(dims) > 1 else 1, 2)


#: FLOPs an element of x/‖x‖: a square, a sum, a quotient; and of x/(k + α·Σ x²)^β, whose window is added as it moves.
NORMS = {"LpNormalization": 3, "LRN": 5}

rule(*NORMS)(
    lambda call: call.for_each("norm", call.writes[0].elements, NORMS[call.name], dims={"statistics": 1, "affine": 0})
)


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(call: Call) -> Priced:
    """One score a row is picked and added up, after a softmax over all of them where it is part of the loss."""
    scores, rows = product(call.shape(0)), product(call.shape(1))
    soft = SOFTMAX * scores if call.name.startswith("Softmax") else 0
    reads = call.reads if soft else (*call.touch(0, rows), *call.reads[1:])
    size, roots = (scores, scores) if soft else (rows, 0)
    return call.vector("reduction", soft + rows, size, transcendentals=roots, one_each=rows, reads=reads)


@rule("Det")
def determinant(call: Call) -> Priced:
    """An LU factorisation of each matrix, and the product of its diagonal."""
    *batch, n, _ = call.shape(0)
    return call.vector("linalg", product(batch) * (linear_algebra.lu(n, n) + n), call.writes[0].elements)


@rule("CumSum", "CumProd")
def running(call: Call) -> Priced:
    """n − 1 additions or products for each row of n."""
    size = product(call.shape(0))
    flops = size - exact_div(size, call.shape(0)[call.constant(1) or 0])
    return call.vector("scan", flops, size, one_each=flops, reads=call.read(0))


@rule("TopK")
def top(call: Call) -> Priced:
    """Compare every element once; where all are wanted, rows are sorted: n·⌈log₂ n⌉ for each."""
    size = product(call.shape(0))
    n = call.shape(0)[call.get("axis", -1)]
    every = isinstance(n, int) and call.writes[0].elements == size
    return call.for_each("sort", size, levels_of(n) if every else 1, reads=call.read(0))


@rule("Adam", "Adagrad", "Momentum")
def optimizer_step(call: Call) -> Priced:
    """A step over all parameters: R, T, then the parameters, their gradients, and the states of each.

    A norm coefficient adds norm·x to each gradient.
    """
    kernel = {"Adam": "_fused_adam", "Adagrad": "_fused_adagrad", "Momentum": "_fused_sgd"}[call.name]
    flops, roots, _ = OPTIMIZERS[kernel]
    parameters = call.writes[: exact_div(len(call.operands) - 2, 4 if call.name == "Adam" else 3)]
    flops += 2 * sum(bool(call.get(word)) for word in ("norm_coefficient", "norm_coefficient_post"))
    return call.for_each("elementwise", sum(tensor.elements for tensor in parameters), flops + roots, roots)
