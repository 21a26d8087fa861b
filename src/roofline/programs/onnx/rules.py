"""Cost rules of ONNX operators.

Matrix products, convolutions, pooling, and attention whole.

Source of attention: the ONNX operators' text (Attention 23 and 24) and onnxruntime's docs/ContribOperators.md, whose
operators are of the domain ``com.microsoft``.

Whole layers in one node: recurrent layers, linear attention, Fourier transforms of a signal or of windows of it.

Operators of ONNX Runtime fuse several: norms with what is added, activations with a bias, quantised arithmetic.

Source of what each does: onnxruntime's docs/ContribOperators.md.

Copies, lookups, fills; sampling at stated places of an image, regions of it, boxes.

Work element by element: functions, reductions, norms, softmax, losses, sorting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roofline.frozen import replace
from roofline.ops import linear_algebra
from roofline.ops.attention import AttentionSizes
from roofline.ops.einsum import einsum_operations
from roofline.ops.elementwise import DEQUANTISE, PER_ELEMENT, QUANTISE, PerElement
from roofline.ops.masks import FULL, BandMask
from roofline.ops.pricing import Reach
from roofline.ops.recurrent import CELLS
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT
from roofline.programs.onnx.registry import UPDATES, Call, Priced, pricing, rule
from roofline.programs.positions import Visible
from roofline.programs.pytorch.registry import OPTIMIZERS, TAPS
from roofline.programs.pytorch.rules.sequences import with_mask
from roofline.programs.rule_table import NAMED_ALIKE, compared
from roofline.programs.tensor_parts import edges_of_places, once_each, part_name
from roofline.sizes import Size, exact_div, floor_div, is_symbol, is_zero, maximum, minimum, product
from roofline.work import Op, Tensor, Work


@rule("MatMul", "MatMulInteger", "FusedMatMul", "TransposeMatMul", "QLinearMatMul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul, either transposed; the quantised one has its second matrix in fourth place."""
    second = 3 if call.name == "QLinearMatMul" else 1
    a, b = (_turned(call.shape(place), call.get(word, 0)) for place, word in ((0, "transA"), (second, "transB")))
    sizes = pricing.product_sizes(a, b, call.writes[0].elements)
    op = pricing.contraction(call.name, call.read(0, second), call.writes, **sizes)
    return _rescaled(call, op, 6) if call.name == "QLinearMatMul" else op


def _rescaled(call: Call, op: Op, scale: int) -> Op:
    """A product of integers whose sums are brought to the scale of the result, or to floating point without one."""
    each = QUANTISE if call.has(scale) else 1
    return call.beside(op, each * op.writes[0].elements)


def _turned(shape: tuple[Size, ...], transposed: int) -> tuple[Size, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


@rule("Gemm", "FusedGemm")
def gemm(call: Call) -> Priced:
    """α·A·B + β·C, either transposed, and a function of the result."""
    a = call.shape(0)
    k = a[0] if call.get("transA") else a[1]
    m, n = call.writes[0].dims
    op = pricing.contraction(call.name, call.read(0, 1, 2), call.writes, m=m, n=n, k=k)
    return call.beside(op, m * n * _activated(call), pricing.arithmetic(call.read(0, 1)), reads=op.reads)


def _activated(call: Call) -> int:
    """FLOPs an element of the function that ends a fused operator."""
    word = call.get("activation", "")
    return OTHERS.get(word) or PER_ELEMENT[NAMES[word]].flops if word else 0


@rule("Einsum")
def einsum(call: Call) -> Priced:
    """A sum over products, two operands at a time: the file leaves the order open, so it is the cheapest."""
    operands = [tensor for tensor in call.operands if tensor is not None]
    return einsum_operations(call.name, call.get("equation"), operands, call.writes, any_order=True)


def _convolved(call: Call) -> Op:
    """Convolve [B, C, spatial…] with [O, C/groups, taps…]; transposed: [C, O/groups, taps…]."""
    transposed = call.name == "ConvTranspose"
    place = 3 if call.name == "QLinearConv" else 1
    x, weight, out = call.shape(0), call.shape(place), call.writes[0].dims
    groups = call.count("group", 1)
    slid, seen = (x[2:], out[2:]) if transposed else (out[2:], x[2:])
    places = windows_of(call.attributes, seen, slid, weight[2:])
    added = 8 if call.name == "QLinearConv" else 2
    bias = call.name != "ConvInteger" and call.has(added)
    call.share(weight[0], "group", 1)  # a kernel that the groups do not divide is an error
    counts = {"batch": x[0], "positions": product(slid), "groups": groups}
    sizes = pricing.ConvolutionSizes.of_kernel(weight, **counts, transposed=transposed)
    op = pricing.convolution(
        call.name,
        (*call.read(0, place), *(call.read(added) if bias else ())),
        call.writes,
        sizes,
        places=() if transposed else places,
        valid_taps=pricing.valid_taps_of(places),
        bias=call.writes[0].elements * (bias + _activated(call) + (call.name in _ADDING and call.has(3))),
        note=pricing.padding_note(places),
    )
    return _rescaled(call, op, 6) if call.name == "QLinearConv" else op


#: Convolutions to whose result a tensor is added.
_ADDING = ("FusedConv", "NhwcFusedConv")

rule("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "FusedConv")(_convolved)
rule("NhwcConv", "NhwcFusedConv")(lambda call: _convolved(_channels_second(call, 0, 1)))


def _channels_second(call: Call, *places: int) -> Call:
    """A call whose image, result and kernel have their channels last, as if they came second."""

    def turned(tensor: Tensor | None) -> Tensor | None:
        return tensor and replace(tensor, dims=(tensor.dims[0], tensor.dims[-1], *tensor.dims[1:-1]))

    operands = [turned(tensor) if place in places else tensor for place, tensor in enumerate(call.operands)]
    return replace(call, operands=tuple(operands), outs=tuple(map(turned, call.outs)))


@rule("DeformConv")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    op = _convolved(replace(call, name="Conv", operands=call.operands[:2]))
    weight, out = call.shape(1), call.writes[0].dims
    taken = out[0] * product(out[2:]) * call.shape(0)[1] * product(weight[2:])
    added = (2 * 4 + call.has(4)) * taken + (call.writes[0].elements if call.has(3) else 0)
    return call.beside(op, added, pricing.arithmetic(call.read(0)), name=call.name, note="")


def windows_of(
    attributes: Mapping[str, Any], seen: Sequence[Any], slid: Sequence[Any], taps: Sequence[Any]
) -> list[Reach]:
    """The windows in each dimension, by attributes; padding before the first as written or as SAME works it out."""
    spatial, word = len(taps), attributes.get("auto_pad") or b"NOTSET"
    stride, dilation = (list(attributes.get(name) or [1] * spatial) for name in ("strides", "dilations"))
    low = list(attributes.get("pads") or [0] * (2 * spatial))[:spatial]
    for d in range(spatial) if word.startswith(b"SAME") else ():
        whole = maximum(0, (slid[d] - 1) * stride[d] + (taps[d] - 1) * dilation[d] + 1 - seen[d])
        low[d] = floor_div(whole + int(word == b"SAME_LOWER"), 2)
    return [Reach(*each) for each in zip(seen, slid, taps, stride, low, dilation, strict=True)]


@rule("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> Priced:
    """The largest or the sum of each window."""
    taps, seen, slid = call.get("kernel_shape"), call.shape(0)[2:], call.writes[0].dims[2:]
    return _pooled(call, product(taps), places=windows_of(call.attributes, seen, slid, taps))


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call: Call) -> Priced:
    """One window for each channel."""
    return _pooled(call, product(call.shape(0)[2:]), is_adaptive_mean=call.name == "GlobalAveragePool")


@rule("Resize", "Upsample")
def resized(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest."""
    taps, smooths, (out,) = TAPS.get(call.get("mode"), 1), bool(call.get("antialias", 0)), call.writes
    return pricing.resized(
        call.name, call.read(0), call.writes, shape=call.shape(0), results=out.dims, taps=taps, smooths=smooths
    )


def _pooled(call: Call, window: Any, is_adaptive_mean: bool = False, places: Sequence[Reach] = ()) -> Priced:
    facts = {"results": call.writes[0].elements, "window": window, "is_adaptive_mean": is_adaptive_mean}
    return pricing.pool(call.name, call.reads, call.writes, places=places, **facts)


def mask_of(sizes: AttentionSizes, kept: Size, causal: bool, window: int | None = None) -> BandMask:
    """Query i sees the ``kept`` keys of a cache and new keys up to its own (or the last ``window`` of them).

    >>> def pairs(S, T, kept=0, window=None):
    ...     return mask_of(AttentionSizes(1, S, T, 1, 1, 8, 8, 0), kept, True, window).pairs(S, kept + T)
    >>> pairs(3, 3, kept=4), pairs(2, 5), pairs(4, 3, kept=2, window=4)                      # 3 + 4 + 4 + 3
    (18, 3, 14)
    """
    if not causal:
        return FULL
    offset = None if sizes.q_length == sizes.kv_length else kept
    return BandMask(offset, None if window is None else window - 1)


def _attend(
    call: Call,
    sizes: AttentionSizes,
    reads: tuple[Tensor, ...],
    causal: bool,
    kept: Size = 0,
    window: int | None = None,
    *,
    is_plain: bool = False,
    shown: Any = None,
) -> Op:
    """Attend to the new keys that ``sizes`` count, and to those ``kept`` of a cache; ``shown`` are those of a mask."""
    mask, S, length = mask_of(sizes, kept, causal, window), sizes.q_length, kept + sizes.kv_length
    apart = is_plain and is_zero(kept) and len({tensor.ident for tensor in call.read(0, 1, 2)}) == 3
    whole = sizes._replace(kv_length=length, pairs=sizes.batch * sizes.heads * mask.pairs(S, length))
    is_read = isinstance(shown, Visible) and not causal
    is_seen = not isinstance(shown, Visible) and shown is not None and shown.shape[-2:] in ((1, length), (S, length))
    if is_read or (is_seen and not (causal and is_symbol(S))):
        if causal:
            shown = np.tril(np.broadcast_to(shown, (*shown.shape[:-2], S, length)), kept)
        every = sizes.batch * sizes.heads * S * length
        whole = with_mask(whole._replace(pairs=every, keys=length), shown)
    elif apart:
        whole = whole._replace(keys=mask.keys(S, length))
    return pricing.attention(call.name, reads, call.writes, whole if apart else whole._replace(keys=None))


@rule("Attention")
def attention(call: Call) -> Priced:
    """q [B, heads, S, H] or [B, S, heads·H]; k and v likewise; a cache in fifth and sixth place."""
    q, k, v = (call.shape(place) for place in range(3))
    if len(q) == 3:
        heads, kv_heads = call.count("q_num_heads"), call.count("kv_num_heads")
        h, h_v = call.share(q[2], "q_num_heads"), call.share(v[2], "kv_num_heads")
        sizes = AttentionSizes(q[0], q[1], k[1], heads, kv_heads, h, h_v, 0)
    else:
        sizes = _heads_first(q, k, v)
    kept = call.shape(4)[2] if call.has(4) else 0
    shown = call.masks[3] if call.has(3) else None
    return _attend(call, sizes, call.reads, bool(call.get("is_causal", 0)), kept, is_plain=True, shown=shown)


def _heads_first(q: Sequence[Size], k: Sequence[Size], v: Sequence[Size]) -> AttentionSizes:
    """Sizes of q [B, heads, S, H], k and v likewise."""
    return AttentionSizes(q[0], q[2], k[2], q[1], k[1], q[3], v[3], 0)


@rule("MultiHeadAttention", "DecoderMaskedMultiHeadAttention")
def multi_head(call: Call) -> Priced:
    """q [B, S, D], k [B, T, D] or [B, heads, T, H]; k and v as one [B, T, heads, 2, H], or all three as [.., 3, H]."""
    q, k, v = (call.shape(place) if call.has(place) else () for place in range(3))
    heads = call.count("num_heads")
    if len(q) == 5:
        T, h, h_v = q[1], q[4], q[4]
    elif len(k) == 5:
        T, h, h_v = k[1], k[4], k[4]
    elif len(k) == 4:
        T, h, h_v = k[2], k[3], v[3]
    else:
        T, h, h_v = k[1], call.share(q[2], "num_heads"), call.share(v[2], "num_heads")
    kept, presents = _cache(call, 6, T, length=2)
    sizes = AttentionSizes(q[0], q[1], T, heads, heads, h, h_v, 0)
    found = _attend(call, sizes, call.reads, bool(call.get("unidirectional", 0)), kept)
    found = _in_place(found, presents, T, length=2)
    return [*_bias(call, q[0] * q[1]), found]


@rule("GroupQueryAttention")
def grouped_query(call: Call) -> Priced:
    """Causal, of groups of heads, its new keys written into the cache; with ``do_rotary`` they are turned first.

    Everything in the cache is seen, and the new keys after it: the lengths in use are values, which a file does not
    have. Only the rows of the rotary tables that are used are read.
    """
    q, heads, kv_heads = call.shape(0), call.count("num_heads"), call.count("kv_num_heads")
    packed = not call.has(1)
    h = exact_div(q[2], heads + 2 * kv_heads) if packed else call.share(q[2], "num_heads")
    kept, presents = _cache(call, 3, q[1], length=2)
    sizes = AttentionSizes(q[0], q[1], q[1], heads, kv_heads, h, h, 0)
    window = width if (width := call.get("local_window_size", -1)) > 0 else None
    made: list[Op] = []
    if call.get("do_rotary", 0):
        turned = q[0] * q[1] * (heads + kv_heads) * (2 * call.shape(7)[-1] if call.has(7) else h)
        each = (Tensor(f"{call.writes[0].ident}.turned", (turned,), call.writes[0].dtype),)
        rows = tuple(replace(t, touched=q[1] * t.dims[-1]) for t in call.read(7, 8))
        made.append(pricing.elementwise("rope", (*call.read(0, 1), *rows), each, name="RotaryEmbedding"))
    if not call.has(3):
        return [*made, _attend(call, sizes, call.read(0, 1, 2), True, kept, window)]
    in_place, caches = presents or len(call.writes) < 3, call.read(3, 4)
    if in_place:  # else it is copied whole
        seen = mask_of(sizes, kept, True, window).keys(q[1], kept + q[1]) - q[1]
        caches = tuple(replace(t, touched=sizes.batch * kv_heads * h * seen) for t in caches)
    found = _attend(call, sizes, (*call.read(0, 1, 2), *caches), True, kept, window)
    written = () if presents or not in_place else caches
    new = sizes.batch * kv_heads * q[1] * h
    rows = tuple(cache.updated(found.writes[0].ident, role="kv", touched=new) for cache in written)
    found = _in_place(found, presents, q[1], length=2)
    where = "in its last places" if presents else "after them"
    note = f"a cache is full: all its positions are seen, and the new ones {where}"
    return [*made, replace(found, note=note, writes=(*found.writes, *rows))]


def _cache(call: Call, past: int, new: Size, *, length: int) -> tuple[Size, tuple[Tensor, ...]]:
    """Positions kept of a cache beside ``new`` ones, and the results that share its memory.

    A result as long as the cache is the cache (``past_present_share_buffer`` of ONNX Runtime): of it only the new rows
    are written, in its last places.
    """
    if not call.has(past):
        return 0, ()
    shared = tuple(t for t in call.writes[1:] if t.dims == call.shape(past))
    kept = call.shape(past)[length]
    return (maximum(0, kept - new) if shared else kept), shared


def _in_place(op: Op, presents: Sequence[Tensor], new: Size, *, length: int) -> Op:
    """An attention that writes ``new`` positions of ``presents``, not all of them."""
    written = (replace(t, role="kv", touched=exact_div(t.elements, t.dims[length]) * new) for t in presents)
    return replace(op, writes=(*(t for t in op.writes if t not in presents), *written))


@rule("com.microsoft.Attention", "QAttention")
def projected(call: Call) -> Priced:
    """x [B, S, D] times weights [D, Dq + Dk + Dv], then attention; a cache [2, B, heads, P, H]."""
    quantised = call.name == "QAttention"
    x, weights = call.shape(0), call.shape(1)
    heads = call.count("num_heads")
    parts = call.get("qkv_hidden_sizes") or [floor_div(weights[1], 3)] * 3
    made = Tensor(f"{call.writes[0].ident}.qkv", (x[0], x[1], sum(parts)), call.writes[0].dtype)
    project = pricing.contraction("projection", call.read(0, 1, 2), (made,), m=product(x[:-1]), n=sum(parts), k=x[-1])
    past, rest = (8, (8,)) if quantised else (4, (3, 4, 5))
    h, h_v = call.share(parts[0], "num_heads"), call.share(parts[2], "num_heads")
    sizes = AttentionSizes(x[0], x[1], x[1], heads, heads, h, h_v, 0)
    kept, presents = _cache(call, past, x[1], length=3)
    found = _attend(call, sizes, (made, *call.read(*rest)), bool(call.get("unidirectional", 0)), kept)
    return [project, _in_place(found, presents, x[1], length=3)]


def _bias(call: Call, tokens: Size) -> list[Op]:
    """A bias that is added to queries, keys and values beforehand."""
    if not call.has(3):
        return []
    made = (Tensor(f"{call.writes[0].ident}.biased", (tokens * call.shape(3)[0],), call.writes[0].dtype),)
    return [pricing.elementwise("add", call.read(0, 1, 2, 3), made, name="bias")]


@rule("FlexAttention")
def flexible(call: Call) -> Priced:
    """Attention whose scores, or their softmax, go through a function of the file's own: counted for every score."""
    q, k, v = (call.shape(place) for place in range(3))
    op = _attend(call, _heads_first(q, k, v), call.reads, causal=False)
    nodes = [node for word in ("score_mod", "prob_mod") if call.get(word) for node in call.get(word).node]
    if not nodes:
        return op
    each = sum(PER_ELEMENT.get(NAMES.get(node.op_type, ""), PerElement(0)).flops for node in nodes)
    note = "the functions of FlexAttention may mask scores: they are counted whole"
    return call.beside(op, each * q[0] * q[1] * q[2] * k[2], pricing.arithmetic(call.reads), note=note)


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
    return pricing.fourier(call.name, call.read(0), call.writes, rows=rows, n=n, real=shape[-1] == 1 or out[-1] == 1)


@rule("STFT")
def windows(call: Call) -> Priced:
    """Cut into windows, each weighted and transformed; a signal of two dimensions, as PyTorch exports it, is real."""
    out, signal = call.writes[0].dims, call.shape(0)
    n = call.shape(2)[0] if call.has(2) else call.constant(3, 2 * (out[2] - 1))
    rows, real = out[0] * out[1], len(signal) == 2 or signal[-1] == 1
    op = pricing.fourier(call.name, call.read(0, 2), call.writes, rows=rows, n=n, real=real)
    weighted = rows * n * (1 if real else 2) if call.has(2) else 0
    flops = op.work.total("flops") + weighted
    return call.vector(op.kind, flops, op.dims["elements"], dims={"n": n}, reads=op.reads)


#: FLOPs an element: the place in the window 2, a cosine and its share 3, two of them for a Blackman window.
_WINDOWS = {"HannWindow": 5, "HammingWindow": 5, "BlackmanWindow": 8}

# Cosines over a window.
rule(*_WINDOWS)(lambda call: call.for_each("elementwise", call.writes[0].elements, _WINDOWS[call.name], reads=()))


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

# Each half of x + bias, and the product of one with the GELU of the other.
rule("BiasSplitGelu")(
    lambda call: call.for_each("elementwise", call.writes[0].elements, 2 + PER_ELEMENT["geglu"].flops, 1)
)

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


rule("NhwcMaxPool")(lambda call: pool(_channels_second(call, 0)))


@rule("QLinearGlobalAveragePool", "QLinearAveragePool")
def quantised_pool(call: Call) -> Priced:
    """Add each window up, and rescale what comes out."""
    size, results = product(call.shape(0)), call.writes[0].elements
    flops = size + (DEQUANTISE + QUANTISE) * results
    return call.vector("pooling", flops, results, one_each=size)


@rule("MatMulNBits", "MatMulBnb4")
def few_bits(call: Call) -> Priced:
    """x [.., K] times a matrix [N, K] of few bits with a scale for each block: multiplied in the precision of x.

    Every element of the matrix is brought to that precision first, 2 FLOPs each: (w − zero)·scale; 1 where it is looked
    up. A bias is added.
    """
    k, n = call.count("K"), call.count("N")
    op = pricing.contraction(call.name, call.read(0, 0), call.writes, m=product(call.shape(0)[:-1]), n=n, k=k)
    unpacked = (DEQUANTISE if call.name == "MatMulNBits" else 1) * n * k
    added = op.writes[0].elements if call.has(5) else 0
    return call.beside(op, unpacked + added, pricing.arithmetic(call.read(0)))


@rule("GatherBlockQuantized")
def unpacked_rows(call: Call) -> Priced:
    """Rows of a table of few bits that indices name, with those of its scales and zeros: brought to floating point."""
    axis, rows = call.get("gather_axis", 0), product(call.shape(1))
    each = [(place, exact_div(product(call.shape(place)), call.shape(place)[axis])) for place in (0, 2, 3)
            if call.has(place)]  # fmt: skip
    tables = (table for place, row in each for table in call.touch(place, rows * row))
    return call.for_each("gather", call.writes[0].elements, DEQUANTISE, reads=(*tables, *call.read(1)))


@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def to_float(call: Call) -> Priced:
    """Multiply in integers, give floating point; the dynamic one brings x to integers first."""
    a, b = call.shape(0), call.shape(1)
    op = pricing.contraction(call.name, call.read(1, 1), call.writes, m=product(a[:-1]), n=b[-1], k=a[-1])
    dynamic = QUANTISE * product(a) if call.name == "DynamicQuantizeMatMul" else 0
    return call.beside(op, dynamic + op.writes[0].elements, pricing.arithmetic(call.writes))


@rule("QGemm")
def general(call: Call) -> Priced:
    """α·A·B + C in integers: A, scale, zero, B, scale, zero, C."""
    a, (m, n) = call.shape(0), call.writes[0].dims
    k = a[0] if call.get("transA") else a[1]
    return _rescaled(call, pricing.contraction(call.name, call.read(0, 3, 6), call.writes, m=m, n=n, k=k), 7)


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
    given = sorted(
        (place for place in range(2, len(call.operands)) if call.has(place)), key=lambda at: at not in layers
    )
    held = tuple(t for place in given for t in call.touch(place, met * exact_div(product(call.shape(place)), E)))
    sizes = {"m": tokens * k, "n": exact_div(sum(each), x[-1]), "k": x[-1]}
    op = pricing.contraction(call.name, call.read(0, 0), call.writes, **sizes)
    cost = PER_ELEMENT[_ACTIVATIONS[call.get("activation_type", "relu")]]
    between = tokens * k * exact_div(each[1], x[-1]) * cost.flops
    mixed = SOFTMAX_PER_ELEMENT * tokens * E + 2 * tokens * k * x[-1] + (DEQUANTISE * met * sum(each) if packed else 0)
    reads, note = (
        (*call.read(0), *held, *call.read(1)),
        ("tokens of a mixture of experts meet as many different experts as they can"),
    )
    op = replace(op, dims={**op.dims, "groups": E}, options={**op.options, "layers": len(layers)})
    return call.beside(op, between + mixed, pricing.arithmetic(call.read(0)), reads=reads, note=note)


# What goes in is read, what comes out is written.
rule(
    "Concat", "Tile", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "OneHot", "MaxUnpool",
)(lambda call: call.move())  # fmt: skip


@rule("CenterCropPad")
def centered(call: Call) -> Priced:
    """What is cut off is not read."""
    kept = product(minimum(n, r) for n, r in zip(call.shape(0), call.writes[0].dims, strict=True))
    return call.move(reads=call.touch(0, kept))


@rule("Trilu")
def triangle(call: Call) -> Priced:
    """Read a triangle, the upper one unless the file says other, and write it among zeros."""
    *batch, m, n = call.shape(0)
    if call.has(1) and call.constants[1] is None:
        return call.move()
    kept = linear_algebra.triangle(m, n, int(call.constant(1, 0)), upper=bool(call.get("upper", 1)))
    return call.move(reads=call.touch(0, product(batch) * kept))


@rule("Pad")
def padded(call: Call) -> Priced:
    """Write a tensor among others. What a negative padding cuts off is not read."""
    rank, pads = len(call.shape(0)), call.get("pads") or (call.constants[1] if call.has(1) else None)
    if pads is None or call.has(3) or call.get("mode", "constant") != "constant":
        return call.move()
    cut = [minimum(0, int(pad)) for pad in pads]
    sizes = zip(call.shape(0), cut[:rank], cut[rank:], strict=True)
    (kept,) = call.touch(0, product(maximum(0, size + low + high) for size, low, high in sizes))
    return call.move(reads=(kept, *(t for t in call.reads if t.ident != kept.ident)))


# Everything is read, what is chosen is counted and written.
rule("Compress", "NonZero")(lambda call: call.for_each("gather", product(call.shape(0))))

#: Why there is no rule: how much is done depends on values.
_REASONS = {
    "Unique": "a runtime sorts or hashes",
    "MaxRoiPool": "how much of the image is looked at depends on the regions",
    "NonMaxSuppression": "how many boxes are compared depends on the scores",
}

rule(*_REASONS)(lambda call: call.unknown(_REASONS[call.name]))


@rule("Slice", "Split")
def sliced(call: Call) -> Priced:
    """Read and write the part that is taken."""
    size = sum((t.elements for t in call.writes[1:]), call.writes[0].elements)
    given = [call.constants[place] for place in range(1, len(call.operands)) if call.has(place)]
    places = given or (call.get("starts"), call.get("ends"), call.get("axes", "all"))
    return call.move(reads=_part(call, size, places) if call.name == "Slice" else call.touch(0, size))


def _part(call: Call, size: Size, places: Sequence[Any]) -> tuple[Tensor, ...]:
    """The elements that are taken, under a name of their own where the file says which they are."""
    if any(place is None for place in places):
        return call.touch(0, size)
    named = _NAMED.get(call.name)
    where = "" if named is None else named(call.shape(0), places)
    return call.touch(0, size, where or ";".join(map(str, (*call.shape(0), *places))))


def _edges(shape: Sequence[Size], places: Sequence[Any]) -> str:
    """First, last and step of each dimension; nothing where a size is open or a slice goes backwards."""
    first, last, *more = ([int(n) for n in np.atleast_1d(place)] if place != "all" else [] for place in places)
    axes = more[0] if more and more[0] else range(len(first))
    steps = more[1] if len(more) > 1 else [1] * len(first)
    if not all(type(size) is int for size in shape) or min(steps, default=1) < 1:
        return ""
    edges = [(0, size, 1) for size in shape]
    for start, stop, axis, step in zip(first, last, axes, steps, strict=True):
        edges[axis] = (*slice(start, stop).indices(shape[axis])[:2], step)
    return part_name(edges)


def _picked(shape: Sequence[Size], places: Sequence[Any]) -> str:
    """What indices along an axis pick, where they lie evenly."""
    _, axis, held = places
    if not all(type(size) is int for size in shape):
        return ""
    edges = [(0, size, 1) for size in shape]
    found = edges_of_places(np.array(held) % shape[axis])
    if found is None:
        return ""
    edges[axis] = found
    return part_name(edges)


#: What parts are called whose places are known, by what takes them.
_NAMED = {"Slice": _edges, "Gather": _picked}


@rule("Gather", "GatherElements", "GatherND", "ArrayFeatureExtractor")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name, at most the whole table."""
    held = call.constants[1]
    size = call.writes[0].elements
    if held is None:
        reads = (*call.touch(0, size), *call.read(1))
    else:
        size = once_each(size, np.ravel(held)) if call.name == "Gather" else size
        reads = _part(call, size, (call.name, call.get("axis", 0), held))
    return call.move(reads=reads, kind="gather")


@rule(*UPDATES)
def scattered(call: Call) -> Priced:
    """Write values where indices name: into an input that nobody else reads in place, else into a copy.

    Combining reads what was there and adds.
    """
    size = product(call.shape(1 if call.name == "TensorScatter" else 2))
    combines = call.get("reduction", "none") not in ("none", "linear")
    flops = size if combines else 0
    reads, writes, note = call.reads, call.writes, ""
    if call.in_place:
        (target,) = call.touch(0, size)
        reads = (*((target,) if combines else ()), *(t for t in call.reads if t.ident != target.ident))
        writes = (target.updated(writes[0].ident),)
        note = "an input that is updated is updated in place"
    return call.vector("scatter", flops, size, one_each=flops, note=note, reads=reads, writes=writes)


# Numbers are written.
rule("Range", "MelWeightMatrix", "EyeLike")(lambda call: call.move(reads=()))
rule(
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial",
)(lambda call: call.move(reads=(), note="the arithmetic of random numbers is not counted"))  # fmt: skip


@rule("GridSample")
def sampled(call: Call) -> Priced:
    """Mix neighbours at stated places: a multiply and an add for each, nothing for the nearest."""
    taps = TAPS[call.get("mode", "linear")] ** (len(call.shape(0)) - 2)
    size = call.writes[0].elements
    reached = minimum(product(call.shape(0)), taps * size)
    return pricing.resample(call.name, call.reads, call.writes, taps=taps, elements=size, reached=reached)


@rule("AffineGrid")
def grid(call: Call) -> Priced:
    """A matrix for each entry of the batch times (x, y, 1) or (x, y, z, 1) for each place."""
    batch, n, k = call.shape(0)
    places = exact_div(call.writes[0].elements, batch * n)
    return pricing.contraction(call.name, call.read(0, 0), call.writes, m=places, n=n, k=k, batch=batch)


@rule("RoiAlign")
def aligned(call: Call) -> Priced:
    """The mean (or the largest) of some places, each mixed from four neighbours; how many has to be stated."""
    each = call.get("sampling_ratio", 0) ** 2
    if not each:
        return call.unknown("how many places are looked at depends on the regions")
    return call.for_each("resample", call.writes[0].elements, 2 * 4 * each + each)


# Every element of a window is added to its place.
rule("Col2Im")(lambda call: call.for_each("resample", call.read(0)[0].elements, reads=call.read(0)))


#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by ONNX's name; exp(−α·x) costs what exp(−x) does.
NAMES = {
    **{name.capitalize(): function for name, function in NAMED_ALIKE.items()},
    "Mod": "divide", "Where": "where", "Equal": "compare", "Less": "compare", "Greater": "compare",
    "LessOrEqual": "compare", "GreaterOrEqual": "compare", "And": "add", "Or": "add", "Xor": "add", "Not": "neg",
    "BitwiseAnd": "add", "BitwiseOr": "add", "BitwiseXor": "add", "BitwiseNot": "neg", "BitShift": "add",
    "IsNaN": "compare", "IsInf": "compare", "Relu": "relu", "LeakyRelu": "leaky_relu", "PRelu": "leaky_relu",
    "Clip": "clip", "Sigmoid": "sigmoid", "Softplus": "softplus", "Mish": "mish", "HardSwish": "hardswish",
    "Elu": "elu", "Selu": "elu", "Celu": "elu", "ThresholdedRelu": "relu", "Swish": "silu", "SwiGLU": "swiglu",
    "QuickGelu": "silu", "Binarizer": "compare",
}  # fmt: skip


@rule(*NAMES)
def known(call: Call) -> Priced:
    """A function that the notation has too."""
    if call.name == "Pow":
        return pricing.power(call.name, call.reads, call.writes, call.constant(1))
    if call.name == "Clip":
        bounds = call.has(1) + call.has(2) or sum(name in call.attributes for name in ("min", "max"))  # before opset 11
        return call.elementwise("maximum" if bounds == 1 else NAMES[call.name])
    return call.elementwise(NAMES[call.name])


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
    """x is [B, S, heads·H] or [B, heads, S, H], of whose heads a part as wide as two rows of the tables is turned.

    Of the tables the rows of the positions, or one for each, are read.
    """
    x, width = call.shape(0), call.shape(cos)[-1]
    rows, heads = (x[0] * x[2], x[1]) if len(x) == 4 else (x[0] * x[1], call.get("num_heads", 0))
    turned = rows * heads * 2 * width if heads else product(x)
    reads = (*call.read(0, positions), *call.touch(cos, rows * width), *call.touch(sin, rows * width))
    return pricing.elementwise("rope", reads, call.writes, name=call.name, elements=turned)


REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceL1": "squares", "ReduceL2": "norm", "ReduceSumSquare": "squares", "ReduceLogSumExp": "logsumexp",
    "ReduceLogSum": "mean", "ArgMax": "argmax", "ArgMin": "argmin",
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


@rule("Softmax", "LogSoftmax", "Hardmax", "BiasSoftmax")
def softmax(call: Call) -> Priced:
    """A softmax of rows, its logarithm, that of a sum with a bias, or a one where the largest stands."""
    out = call.writes[0]
    rows = exact_div(out.elements, out.dims[call.get("axis", -1)]) if out.dims else 1
    if call.name == "Hardmax":
        return pricing.reduction("argmax", call.reads, call.writes, elements=out.elements, results=rows, name=call.name)
    facts = {"elements": out.elements, "rows": rows, "log": call.name == "LogSoftmax"}
    op = pricing.softmax(call.name, call.reads, call.writes, **facts)
    return replace(op, work=op.work + call.elementwise("add").work) if call.name == "BiasSoftmax" else op


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


# Channels stand last; SiLU may follow. What is skipped and a bias are added first.
rule("GroupNorm", "SkipGroupNorm")(
    lambda call: _norm(
        call, "group_norm", call.shape(0)[0] * call.count("groups"), 2,
        PER_ELEMENT["silu"].flops * call.get("activation", 0) + call.has(3) + call.has(4),
    )
)  # fmt: skip


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
    soft = SOFTMAX_PER_ELEMENT * scores + rows if call.name.startswith("Softmax") else 0
    reads = (*(call.read(0) if soft else call.touch(0, rows)), *call.read(1), *call.touch(2, rows))
    size, roots = (scores, scores + rows) if soft else (rows, 0)
    return call.vector("reduction", soft + rows, size, transcendentals=roots, one_each=rows, reads=reads)


@rule("Det", "Inverse")
def factorised(call: Call) -> Priced:
    """An LU factorisation of each matrix and the product of its diagonal, or its inverse."""
    *batch, n, _ = call.shape(0)
    each = linear_algebra.inverse(n) if call.name == "Inverse" else linear_algebra.lu(n, n) + n
    return call.vector("linalg", product(batch) * each, call.writes[0].elements)


@rule("CumSum", "CumProd")
def running(call: Call) -> Priced:
    """n − 1 additions or products for each row of n."""
    size = product(call.shape(0))
    rows = exact_div(size, call.shape(0)[call.constant(1) or 0])
    return pricing.scan(call.name, call.read(0), call.writes, elements=size, rows=rows)


@rule("TopK")
def top(call: Call) -> Priced:
    """Compare every element once; where all are wanted, rows are sorted."""
    row, wanted = (tensor.dims[call.get("axis", -1)] for tensor in (*call.read(0), call.writes[0]))
    return call.for_each("sort", product(call.shape(0)), compared(row, wanted), reads=call.read(0))


@rule("Adam", "Adagrad", "Momentum")
def optimizer_step(call: Call) -> Priced:
    """A step over all parameters: R, T, then the parameters, their gradients, and the states of each.

    A norm coefficient adds norm·x to each gradient, one behind it scales what comes out.
    """
    kernel = {"Adam": "_fused_adam", "Adagrad": "_fused_adagrad", "Momentum": "_fused_sgd"}[call.name]
    flops, roots, more, _ = OPTIMIZERS[kernel]
    parameters = call.writes[: exact_div(len(call.operands) - 2, 4 if call.name == "Adam" else 3)]
    flops += 2 * bool(call.get("norm_coefficient")) + bool(call.get("norm_coefficient_post"))
    if call.name == "Momentum":
        is_nesterov, is_damped = call.get("mode") == "nesterov", call.get("beta") != 1
        flops += more["momentum"] + is_damped * more["dampening"] + is_nesterov * more["nesterov"]
    return call.for_each("elementwise", sum(tensor.elements for tensor in parameters), flops, roots)
