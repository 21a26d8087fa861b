"""Reductions, softmax, norms, running sums, sorting."""

from __future__ import annotations

from roofline.ops import linear_algebra
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT as SOFTMAX
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import exact_div, product
from roofline.work import Op

_NAMES = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceL1": "norm", "ReduceL2": "norm", "ReduceSumSquare": "norm", "ReduceLogSumExp": "logsumexp",
    "ReduceLogSum": "norm", "ArgMax": "argmax", "ArgMin": "argmin",
}  # fmt: skip


@rule(*_NAMES)
def reduced(call: Call) -> Priced:
    """Reduce over some dimensions."""
    elements, results = product(call.shape(0)), call.writes[0].elements
    return pricing.reduction(
        _NAMES[call.name], call.read(0), call.writes, elements=elements, results=results, name=call.name
    )


@rule("Mean", "Sum", "Max", "Min")
def of_several(call: Call) -> Priced:
    """The sum (or the largest) of several tensors: one operation for each but the first; one more for a mean."""
    size = call.writes[0].elements
    each = sum(item is not None for item in call.ins) - (call.name != "Mean")
    flops = size * each
    return pricing.vector(call.name, "elementwise", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Priced:
    """max, subtract, exp, sum, divide."""
    size = call.writes[0].elements
    return pricing.vector(
        call.name,
        "softmax",
        call.reads,
        call.writes,
        flops=SOFTMAX * size,
        elements=size,
        transcendentals=size,
        one_each=size,
    )


@rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_norm(call: Call) -> Priced:
    """A norm over the dimensions from ``axis`` on."""
    return layer_norm_with(call, affine=call.has(1) + call.has(2))


def layer_norm_with(call: Call, *, affine: int, added: int = 0) -> Op:
    """The same, by the root of the mean square where the name says so, with more done to each element."""
    function = "rms_norm" if "RMS" in call.name or "Simplified" in call.name else "layer_norm"
    out = call.writes[0]
    axis = call.get("axis", -1)
    rows = product(out.dims[: axis if axis >= 0 else len(out.dims) + axis])
    facts = {"elements": out.elements, "rows": rows, "affine": affine, "added": added}
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
    affine = call.has(1) + call.has(2)
    facts = {"elements": out.elements, "rows": rows, "affine": affine}
    return pricing.norm("group_norm", call.reads, call.writes, **facts, name=call.name)


@rule("BatchNormalization")
def batch_norm(call: Call) -> Priced:
    """Stored statistics: a multiply and an add for each element, scale and shift being joined beforehand."""
    function = "layer_norm" if call.get("training_mode") else "batch_norm"
    out = call.writes[0]
    rows = out.dims[1] if len(out.dims) > 1 else 1
    facts = {"elements": out.elements, "rows": rows, "affine": 2}
    return pricing.norm(function, call.reads, call.writes, **facts, name=call.name)


#: FLOPs an element of x/‖x‖: a square, a sum, a quotient; and of x/(k + α·Σ x²)^β, whose window is added as it moves.
NORMS = {"LpNormalization": 3, "LRN": 5}


@rule(*NORMS)
def other_norm(call: Call) -> Priced:
    """A norm without scale and shift."""
    size = call.writes[0].elements
    dims = {"statistics": 1, "affine": 0}
    flops = NORMS[call.name] * size
    return pricing.vector(
        call.name, "norm", call.reads, call.writes, flops=flops, elements=size, dims=dims, one_each=size
    )


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(call: Call) -> Priced:
    """One score a row is picked and added up, after a softmax over all of them where it is part of the loss."""
    scores, rows = product(call.shape(0)), product(call.shape(1))
    soft = SOFTMAX * scores if call.name.startswith("Softmax") else 0
    reads = call.reads if soft else (*call.touch(0, rows), *call.reads[1:])
    roots = scores if soft else 0
    return pricing.vector(
        call.name,
        "reduction",
        reads,
        call.writes,
        flops=soft + rows,
        elements=scores if soft else rows,
        transcendentals=roots,
        one_each=rows,
    )


@rule("Det")
def determinant(call: Call) -> Priced:
    """An LU factorisation of each matrix, and the product of its diagonal."""
    *batch, n, _ = call.shape(0)
    flops = product(batch) * (linear_algebra.lu(n, n) + n)
    return pricing.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.writes[0].elements)


@rule("CumSum", "CumProd")
def running(call: Call) -> Priced:
    """n − 1 additions or products for each row of n."""
    held = call.constants[1]
    axis = held[0] if isinstance(held, list) else held or 0
    size = product(call.shape(0))
    flops = size - exact_div(size, call.shape(0)[axis])
    return pricing.vector(call.name, "scan", call.read(0), call.writes, flops=flops, elements=size, one_each=flops)


@rule("TopK")
def top(call: Call) -> Priced:
    """Compare every element once; where all are wanted, rows are sorted: n·⌈log₂ n⌉ for each."""
    size = product(call.shape(0))
    n = call.shape(0)[call.get("axis", -1)]
    every = isinstance(n, int) and call.writes[0].elements == size
    flops = size * max(1, (n - 1).bit_length()) if every else size
    return pricing.vector(call.name, "sort", call.read(0), call.writes, flops=flops, elements=size, one_each=size)
