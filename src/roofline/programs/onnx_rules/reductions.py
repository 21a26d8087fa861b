"""Reductions, softmax, norms, running sums, sorting."""

from __future__ import annotations

from roofline.ops.softmax import PER_ELEMENT as SOFTMAX
from roofline.programs import factorizations
from roofline.programs.onnx_registry import Call, Priced, costs, rule
from roofline.sizes import exact_div, product

_NAMES = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceL1": "norm", "ReduceL2": "norm", "ReduceSumSquare": "norm", "ReduceLogSumExp": "logsumexp",
    "ReduceLogSum": "norm", "ArgMax": "argmax", "ArgMin": "argmin",
}  # fmt: skip


@rule(*_NAMES)
def reduced(call: Call) -> Priced:
    """Reduce over some dimensions."""
    elements, results = product(call.shape(0)), call.writes[0].elements
    return costs.reduction(
        _NAMES[call.name], call.read(0), call.writes, elements=elements, results=results, name=call.name
    )


@rule("Mean")
def mean(call: Call) -> Priced:
    """The mean of several tensors."""
    size = call.writes[0].elements
    flops = size * len(call.ins)
    return costs.vector(call.name, "elementwise", call.reads, call.writes, flops=flops, elements=size, one_each=size)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Priced:
    """max, subtract, exp, sum, divide."""
    size = call.writes[0].elements
    return costs.vector(
        call.name,
        "softmax",
        call.reads,
        call.writes,
        flops=SOFTMAX * size,
        elements=size,
        transcendentals=size,
        one_each=size,
    )


#: FLOPs an element: mean 1, subtract, square and sum 2, divide and scale 2 …, as the formula of each has them.
NORMS = {"LayerNormalization": 8, "RMSNormalization": 4, "SimplifiedLayerNormalization": 4, "GroupNormalization": 8,
         "InstanceNormalization": 8, "LpNormalization": 3, "MeanVarianceNormalization": 6, "LRN": 5}  # fmt: skip


@rule(*NORMS)
def norm(call: Call) -> Priced:
    """A norm over each row: its statistics, then (x − mean)/√(variance + ε)·scale + bias."""
    return _norm(call, NORMS[call.name], statistics=1)


@rule("BatchNormalization")
def batch_norm(call: Call) -> Priced:
    """Stored statistics: a multiply and an add for each element, scale and shift being joined beforehand."""
    return _norm(call, 8 if call.get("training_mode") else 2, statistics=call.get("training_mode", 0))


def _norm(call: Call, each: int, statistics: int) -> Priced:
    size = call.writes[0].elements
    affine = int(call.has(1))
    return costs.vector(
        call.name,
        "norm",
        call.reads,
        call.writes,
        flops=each * size,
        elements=size,
        dims={"statistics": statistics, "affine": affine},
        one_each=size,
    )


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(call: Call) -> Priced:
    """One score a row is picked and added up, after a softmax over all of them where it is part of the loss."""
    scores, rows = product(call.shape(0)), product(call.shape(1))
    soft = SOFTMAX * scores if call.name.startswith("Softmax") else 0
    reads = call.reads if soft else (*call.touch(0, rows), *call.reads[1:])
    roots = scores if soft else 0
    return costs.vector(
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
    flops = product(batch) * (factorizations.lu(n, n) + n)
    return costs.vector(call.name, "linalg", call.reads, call.writes, flops=flops, elements=call.writes[0].elements)


@rule("CumSum")
def running(call: Call) -> Priced:
    """n − 1 additions for each row of n."""
    held = call.constants[1]
    axis = held[0] if isinstance(held, list) else held or 0
    size = product(call.shape(0))
    flops = size - exact_div(size, call.shape(0)[axis])
    return costs.vector(call.name, "scan", call.read(0), call.writes, flops=flops, elements=size, one_each=flops)


@rule("TopK")
def top(call: Call) -> Priced:
    """Compare every element once."""
    size = product(call.shape(0))
    return costs.vector(call.name, "sort", call.read(0), call.writes, flops=size, elements=size, one_each=size)
