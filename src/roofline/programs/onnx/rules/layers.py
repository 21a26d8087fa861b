"""Whole layers in one node: recurrent layers, linear attention, Fourier transforms of a signal or of windows of it.

Operators of ONNX Runtime fuse several: norms with what is added, activations with a bias, quantised arithmetic.

Source of what each does: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from roofline.frozen import replace
from roofline.ops.elementwise import PER_ELEMENT, PerElement
from roofline.ops.recurrent import CELLS
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.programs.onnx.rules.vector import layer_norm_with
from roofline.sizes import exact_div, minimum, product
from roofline.work import Op, Work

#: Cells by ONNX's name.
CELL_NAMES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}


@rule(*CELL_NAMES)
def recurrent(call: Call) -> Priced:
    """x [T, B, I], weights [directions, gates·H, I] and [directions, gates·H, H]."""
    cell = CELL_NAMES[call.name]
    steps, batch, width = call.shape(0)
    directions, _, hidden = call.shape(2)
    return pricing.recurrent(
        cell,
        call.name,
        call.reads,
        call.writes,
        steps=steps * batch,
        hidden=directions * hidden,
        macs=directions * CELLS[cell].gates * hidden * (width + hidden),
        inner=width + hidden,
        compute=pricing.arithmetic(call.read(0, 1)),
    )


@rule("CausalConvWithState")
def causal_convolution(call: Call) -> Priced:
    """x [B, C, L] and weights [C, 1, taps]; the last taps are kept for what comes next."""
    batch, channels, length = call.shape(0)
    taps = call.shape(1)[2]
    size = batch * channels * length
    activated = call.get("activation", "none") != "none"
    return pricing.convolution(
        call.name,
        call.reads,
        tuple(out for out in call.writes if 0 not in out.dims),  # one tap keeps nothing
        pricing.ConvolutionSizes(batch, length, 1, 1, taps, channels),
        bias=size * (int(call.has(2)) + 4 * int(activated)),
        note="" if call.has(3) else "padded positions of a convolution are counted",
    )


#: Whether the state decays, and whether what it holds of a key is taken out before a value is put in.
_UPDATES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


@rule("LinearAttention")
def linear_attention(call: Call) -> Priced:
    """For every token and head of keys a state of K·V: k ⊗ v put in (for a delta what it holds taken out), and decayed.

    Every head of queries reads it. Counted token by token: 2 FLOPs for each product of K·V, 1 for a decay.
    """
    decays, corrects = _UPDATES[call.get("update_rule", "gated_delta")]
    heads, kv_heads = call.count("q_num_heads"), call.count("kv_num_heads")
    batch, length, packed = call.shape(0)
    k, v = call.share(packed, "q_num_heads"), call.share(call.shape(2)[2], "kv_num_heads")
    tokens = batch * length
    macs = tokens * k * v * (heads + kv_heads * (2 if corrects else 1))
    dtype = pricing.arithmetic(call.read(0, 1, 2))
    work = Work.flops("matrix", dtype, 2 * macs)
    beside = tokens * kv_heads * ((k * v if decays else 0) + (2 * v if corrects else 0))
    if decays:
        beside += product(call.shape(4))
    if decays or corrects:
        work += Work.flops("vector", dtype, beside)
    dims = {"m": tokens, "n": v, "k": k, "batch": heads}
    return Op(call.name, "contraction", work, call.reads, call.writes, dims, options={"macs": macs})


@rule("DFT")
def transform(call: Call) -> Priced:
    """Over one dimension; the last holds real and imaginary parts, or real ones alone."""
    shape, out = call.shape(0), call.writes[0].dims
    axis = call.constant(2, call.get("axis", 1 if len(call.operands) < 3 else -2))
    n = out[axis] if not call.get("onesided", 0) or out[-1] == 1 else call.constant(1, shape[axis])
    rows = exact_div(product(out[:-1]), out[axis])
    real = shape[-1] == 1 or out[-1] == 1
    return pricing.fourier(call.name, call.read(0), call.writes, rows=rows, n=n, real=real)


@rule("STFT")
def windows(call: Call) -> Priced:
    """Cut into windows, each weighted and transformed."""
    out = call.writes[0].dims
    n = call.shape(2)[0] if call.has(2) else call.constant(3, 2 * (out[2] - 1))
    rows, real = out[0] * out[1], call.shape(0)[-1] == 1
    op = pricing.fourier(call.name, call.read(0, 2), call.writes, rows=rows, n=n, real=real)
    weighted = rows * n * (1 if real else 2) if call.has(2) else 0
    flops = op.work.total("flops") + weighted
    return call.vector(op.kind, flops, op.dims["elements"], dims={"n": n}, reads=op.reads)


#: FLOPs an element: the place in the window 2, a cosine and its share 3, two of them for a Blackman window.
_WINDOWS = {"HannWindow": 5, "HammingWindow": 5, "BlackmanWindow": 8}

# Cosines over a window.
rule(*_WINDOWS)(lambda call: call.for_each("elementwise", call.writes[0].elements, _WINDOWS[call.name], reads=()))

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
    size = call.writes[0].elements
    return call.for_each("elementwise", size, function.flops + call.has(1), function.transcendentals)


# x + bias, and what is left of it added.
rule("BiasAdd", "BiasDropout")(lambda call: call.for_each("elementwise", call.writes[0].elements, 1 + call.has(2)))

#: Between leaving the integers and coming back: one operation on two operands, a function, or parts of one scale.
_QUANTISED = {
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), PerElement(DEQUANTISE + 1)),
    "QLinearSigmoid": PER_ELEMENT["sigmoid"],
    "QLinearLeakyRelu": PER_ELEMENT["leaky_relu"],
    "QLinearSoftmax": PerElement(SOFTMAX_PER_ELEMENT - 1, 1),
    "QLinearConcat": PerElement(0),
}


@rule(*_QUANTISED)
def quantised(call: Call) -> Priced:
    """Out of the integers, what is done, and back."""
    cost = _QUANTISED[call.name]
    each = DEQUANTISE + cost.flops + QUANTISE
    return call.for_each("elementwise", call.writes[0].elements, each, cost.transcendentals)


@rule("QLinearGlobalAveragePool", "QLinearAveragePool")
def quantised_pool(call: Call) -> Priced:
    """Add each window up, and rescale what comes out."""
    size, results = product(call.shape(0)), call.writes[0].elements
    flops = size + (DEQUANTISE + QUANTISE) * results
    return call.vector("pooling", flops, results, one_each=size)


@rule("MatMulNBits")
def few_bits(call: Call) -> Priced:
    """x [.., K] times a matrix [N, K] of few bits with a scale for each block: multiplied in the precision of x.

    Every element of the matrix is brought to that precision first, 2 FLOPs each: (w − zero)·scale.
    """
    k, n = call.count("K"), call.count("N")
    op = pricing.contraction(call.name, call.read(0, 0), call.writes, m=product(call.shape(0)[:-1]), n=n, k=k)
    unpacked = Work.flops("vector", pricing.arithmetic(call.read(0)), DEQUANTISE * n * k)
    return replace(op, reads=call.reads, work=op.work + unpacked)


@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def to_float(call: Call) -> Priced:
    """Multiply in integers, give floating point; the dynamic one brings x to integers first."""
    a, b = call.shape(0), call.shape(1)
    op = pricing.contraction(call.name, call.read(1, 1), call.writes, m=product(a[:-1]), n=b[-1], k=a[-1])
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
    k, per_byte = call.count("k", 1), exact_div(8, call.count("expert_weight_bits", 4)) if packed else 1
    layers = [place for place in range(2, len(call.operands), step) if call.has(place)]
    each = [exact_div(product(call.shape(place)), E) * per_byte for place in layers]
    met = minimum(tokens * k, E)
    given = [place for place in range(2, len(call.operands)) if call.has(place)]
    held = tuple(t for place in given for t in call.touch(place, met * exact_div(product(call.shape(place)), E)))
    sizes = {"m": tokens * k, "n": exact_div(sum(each), x[-1]), "k": x[-1]}
    op = pricing.contraction(call.name, call.read(0, 0), call.writes, **sizes)
    cost = PER_ELEMENT[_ACTIVATIONS[call.get("activation_type", "relu")]]
    between = tokens * k * exact_div(each[1], x[-1]) * cost.flops
    mixed = SOFTMAX_PER_ELEMENT * tokens * E + 2 * tokens * k * x[-1] + (DEQUANTISE * met * sum(each) if packed else 0)
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(0)), between + mixed)
    note = "tokens of a mixture of experts meet as many different experts as they can"
    return replace(op, reads=(*call.read(0, 1), *held), work=work, note=note)
