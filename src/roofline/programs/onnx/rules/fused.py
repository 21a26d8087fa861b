"""Operators of ONNX Runtime that fuse several: norms with what is added, activations with a bias, quantised arithmetic.

Source of what each does: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.ops.elementwise import PER_ELEMENT
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.programs.onnx.rules.vector import layer_norm_with
from roofline.sizes import Size, exact_div, minimum, product
from roofline.work import Op, Work

QUANTISE, DEQUANTISE = PER_ELEMENT["quantise"].arithmetic, PER_ELEMENT["dequantise"].arithmetic


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(call: Call) -> Priced:
    """The norm of x + skip (+ bias), which may be given back too."""
    simplified = "Simplified" in call.name
    affine = call.has(2) if simplified else call.has(2) + call.has(3)
    return layer_norm_with(call, affine=affine, added=1 + call.has(3 if simplified else 4))


@rule("EmbedLayerNormalization")
def embedded(call: Call) -> Priced:
    """The norm of the sum of a word's row, a position's row and, where given, a segment's row."""
    out = call.writes[0]
    tables = (2, 3, 4)
    rows = tuple(table for place in tables for table in call.touch(place, out.elements))
    op = layer_norm_with(call, affine=2, added=len(rows) - 1)
    return replace(op, reads=(*call.read(0, 1), *rows, *call.read(5, 6)))


@rule("FastGelu", "BiasGelu")
def biased_gelu(call: Call) -> Priced:
    """GELU of x + bias, by tanh where fast."""
    function = PER_ELEMENT["gelu_tanh" if call.name == "FastGelu" else "gelu"]
    return _each(call, function.arithmetic + function.transcendentals + call.has(1), function.transcendentals)


@rule("BiasAdd", "BiasDropout")
def biased(call: Call) -> Priced:
    """x + bias, and what is left of it added."""
    return _each(call, 1 + call.has(2))


@rule("QLinearAdd", "QLinearMul")
def quantised_pair(call: Call) -> Priced:
    """Both out of their integers, one operation, and back."""
    return _each(call, 2 * DEQUANTISE + 1 + QUANTISE)


@rule("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
def quantised_function(call: Call) -> Priced:
    """Out of its integers, the function, and back."""
    function = {"QLinearSigmoid": "sigmoid", "QLinearLeakyRelu": "leaky_relu"}.get(call.name)
    cost = PER_ELEMENT[function] if function else None
    middle = 5 if cost is None else cost.arithmetic + cost.transcendentals
    return _each(call, DEQUANTISE + middle + QUANTISE, 1 if cost is None else cost.transcendentals)


@rule("QLinearConcat")
def joined(call: Call) -> Priced:
    """Copy every part, brought to one scale."""
    return _each(call, DEQUANTISE + QUANTISE)


@rule("QLinearGlobalAveragePool", "QLinearAveragePool")
def quantised_pool(call: Call) -> Priced:
    """Add each window up, and rescale what comes out."""
    size, results = product(call.shape(0)), call.writes[0].elements
    flops = size + (DEQUANTISE + QUANTISE) * results
    return pricing.vector(call.name, "pooling", call.reads, call.writes, flops=flops, elements=results, one_each=size)


def _each(call: Call, each: int, special: int = 0) -> Op:
    size = call.writes[0].elements
    return pricing.vector(
        call.name,
        "elementwise",
        call.reads,
        call.writes,
        flops=each * size,
        elements=size,
        transcendentals=special * size,
        one_each=size,
    )


@rule("MatMulNBits")
def few_bits(call: Call) -> Priced:
    """x [.., K] times a matrix [N, K] of few bits with a scale for each block: multiplied in the precision of x.

    Every element of the matrix is brought to that precision first, 2 FLOPs each: (w − zero)·scale.
    """
    k, n = call.get("K"), call.get("N")
    op = pricing.contraction(
        call.name, (*call.read(0), *call.read(0)), call.writes, m=product(call.shape(0)[:-1]), n=n, k=k
    )
    unpacked = Work.flops("vector", pricing.arithmetic(call.read(0)), DEQUANTISE * n * k)
    return replace(op, reads=call.reads, work=op.work + unpacked)


@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def to_float(call: Call) -> Priced:
    """Multiply in integers, give floating point; the dynamic one brings x to integers first."""
    a, b = call.shape(0), call.shape(1)
    op = pricing.contraction(
        call.name, (*call.read(1), *call.read(1)), call.writes, m=product(a[:-1]), n=b[-1], k=a[-1]
    )
    dynamic = QUANTISE * product(a) if call.name == "DynamicQuantizeMatMul" else 0
    scaled = Work.flops("vector", pricing.arithmetic(call.writes), dynamic + op.writes[0].elements)
    return replace(op, reads=call.reads, work=op.work + scaled)


@rule("QGemm")
def general(call: Call) -> Priced:
    """α·A·B + C in integers: A, scale, zero, B, scale, zero, C."""
    a, (m, n) = call.shape(0), call.writes[0].dims
    k = a[0] if call.get("transA") else a[1]
    op = pricing.contraction(call.name, call.read(0, 3, 6), call.writes, m=m, n=n, k=k)
    return replace(op, reads=call.reads)


#: Functions between the layers of experts.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "swiglu", "identity": "copy"}


@rule("MoE", "QMoE")
def experts(call: Call) -> Priced:
    """Every token through the layers of k experts: 2 FLOPs for each element of their matrices.

    x [tokens, D], the router's scores [tokens, E], then the matrices of all experts, with scales where they are packed
    in bytes, and biases. Of E experts min(tokens·k, E) are read. How their layers are laid out differs between
    versions; how many elements they have does not.
    """
    x, E, packed = call.shape(0), call.shape(1)[-1], call.name == "QMoE"
    tokens = product(x[:-1])
    step = 3 if packed else 2
    k, per_byte = call.get("k", 1), exact_div(8, call.get("expert_weight_bits", 4)) if packed else 1
    layers = [place for place in range(2, len(call.ins), step) if call.has(place)]
    each = [exact_div(product(call.shape(place)), E) * per_byte for place in layers]
    met = minimum(tokens * k, E)
    held = tuple(
        t for place in range(2, len(call.ins)) for t in call.touch(place, met * exact_div(_size(call, place), E))
    )
    sizes = {"m": tokens * k, "n": exact_div(sum(each), x[-1]), "k": x[-1]}
    op = pricing.contraction(call.name, (*call.read(0), *call.read(0)), call.writes, **sizes)
    word = call.get("activation_type", b"relu")
    cost = PER_ELEMENT[_ACTIVATIONS[word.decode() if isinstance(word, bytes) else word]]
    between = tokens * k * exact_div(each[1], x[-1]) * (cost.arithmetic + cost.transcendentals)
    mixed = SOFTMAX_PER_ELEMENT * tokens * E + 2 * tokens * k * x[-1] + (DEQUANTISE * met * sum(each) if packed else 0)
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(0)), between + mixed)
    note = "tokens of a mixture of experts meet as many different experts as they can"
    return replace(op, reads=(*call.read(0, 1), *held), work=work, note=note)


def _size(call: Call, place: int) -> Size:
    return product(call.shape(place)) if call.has(place) else 0
