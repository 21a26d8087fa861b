"""Matrix products, convolutions, pooling, and attention whole.

Source of attention: the ONNX operators' text (Attention 23 and 24) and onnxruntime's docs/ContribOperators.md, whose
operators are of the domain ``com.microsoft``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.frozen import replace
from roofline.ops.attention import AttentionSizes
from roofline.ops.einsum import einsum_operations
from roofline.ops.elementwise import PER_ELEMENT, PerElement
from roofline.ops.masks import FULL, BandMask
from roofline.ops.pricing import Reach, valid_taps_of
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.programs.onnx.rules.vector import NAMES
from roofline.sizes import Size, exact_div, floor_div, is_zero, maximum, product
from roofline.work import Op, Tensor, Work


@rule("MatMul", "MatMulInteger", "FusedMatMul", "TransposeMatMul", "QLinearMatMul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul, either transposed; the quantised one has its second matrix in fourth place."""
    second = 3 if call.name == "QLinearMatMul" else 1
    a, b = (_turned(call.shape(place), call.get(word, 0)) for place, word in ((0, "transA"), (second, "transB")))
    m, n = (a[-2] if len(a) > 1 else 1), (b[-1] if len(b) > 1 else 1)
    if len(b) <= 2:
        m, batch = m * product(a[:-2]), 1
    else:
        batch = product(call.writes[0].dims[:-2] if len(a) > 1 else call.writes[0].dims[:-1])
    return pricing.contraction(call.name, call.read(0, second), call.writes, m=m, n=n, k=a[-1], batch=batch)


def _turned(shape: tuple[Size, ...], transposed: int) -> tuple[Size, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


@rule("Gemm", "FusedGemm")
def gemm(call: Call) -> Priced:
    """α·A·B + β·C, either transposed."""
    a = call.shape(0)
    k = a[0] if call.get("transA") else a[1]
    m, n = call.writes[0].dims
    return pricing.contraction(call.name, call.read(0, 1, 2), call.writes, m=m, n=n, k=k)


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
    return pricing.convolution(
        call.name,
        (*call.read(0, place), *(call.read(added) if bias else ())),
        call.writes,
        sizes,
        places=() if transposed else places,
        valid_taps=valid_taps_of(places),
        bias=call.writes[0].elements if bias else 0,
        note="padded positions of a convolution are counted" if any(at.low for at in places) else "",
    )


rule("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "FusedConv")(_convolved)


@rule("DeformConv")
def deformed(call: Call) -> Priced:
    """A convolution of places that are mixed from four neighbours each, and weighted by a mask where there is one."""
    op = _convolved(replace(call, name="Conv", operands=call.operands[:2]))
    weight, out = call.shape(1), call.writes[0].dims
    taken = out[0] * product(out[2:]) * call.shape(0)[1] * product(weight[2:])
    added = (2 * 4 + call.has(4)) * taken + (call.writes[0].elements if call.has(3) else 0)
    work = op.work + Work.flops("vector", pricing.arithmetic(call.read(0)), added)
    return replace(op, name=call.name, reads=call.reads, work=work, note="")


def windows_of(
    attributes: Mapping[str, Any], seen: Sequence[Any], slid: Sequence[Any], taps: Sequence[Any]
) -> list[Reach]:
    """The windows in each dimension, by attributes; padding before the first as written or as SAME works it out."""
    spatial, word = len(taps), attributes.get("auto_pad") or b"NOTSET"
    stride, dilation = (list(attributes.get(name) or [1] * spatial) for name in ("strides", "dilations"))
    low = list(attributes.get("pads") or [0] * (2 * spatial))[:spatial]
    for d in range(spatial) if word.startswith(b"SAME") else ():
        whole = max(0, (slid[d] - 1) * stride[d] + (taps[d] - 1) * dilation[d] + 1 - seen[d])
        low[d] = (whole + (word == b"SAME_LOWER")) // 2
    return [Reach(*each) for each in zip(seen, slid, taps, stride, low, dilation, strict=True)]


@rule("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    taps, seen, slid = call.get("kernel_shape"), call.shape(0)[2:], call.writes[0].dims[2:]
    return _pooled(call, product(taps), places=windows_of(call.attributes, seen, slid, taps))


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(call: Call) -> Priced:
    """One window for each channel."""
    return _pooled(call, product(call.shape(0)[2:]), is_adaptive_mean=call.name == "GlobalAveragePool")


@rule("Resize", "Upsample")
def resized(call: Call) -> Priced:
    """Mix neighbours: a multiply and an add for each, nothing for the nearest."""
    shape, out = call.shape(0), call.writes[0]
    each = {"linear": 2, "cubic": 4}.get(call.get("mode"), 1)
    taps = [each if a != b else 1 for a, b in zip(shape, out.dims, strict=True)]
    reached = None if call.get("antialias", 0) else pricing.reached_neighbours(shape, out.dims, taps)
    sizes = {"taps": product(taps), "elements": out.elements, "reached": reached}
    return pricing.resample(call.name, call.read(0), call.writes, **sizes)


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
) -> Op:
    """Attend to the new keys that ``sizes`` count, and to those ``kept`` of a cache."""
    mask, S, length = mask_of(sizes, kept, causal, window), sizes.q_length, kept + sizes.kv_length
    apart = is_plain and is_zero(kept) and len({tensor.ident for tensor in call.read(0, 1, 2)}) == 3
    keys, pairs = mask.keys(S, length) if apart else None, sizes.batch * sizes.heads * mask.pairs(S, length)
    whole = sizes._replace(kv_length=length, pairs=pairs, keys=keys)
    return pricing.attention(call.name, reads, call.writes, whole)


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
    return _attend(call, sizes, call.reads, bool(call.get("is_causal", 0)), kept, is_plain=True)


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
    return [*_bias(call, 3, q[0] * q[1] * call.shape(3)[0] if call.has(3) else 0), found]


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
        turned = q[0] * q[1] * (heads + kv_heads) * h
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
    rows = tuple(_row(t, sizes.batch * kv_heads * q[1] * h, found) for t in written)
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


def _row(cache: Tensor, amount: Size, op: Op) -> Tensor:
    """The part of a cache that is written."""
    return cache.updated(op.writes[0].ident, role="kv", touched=amount)


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


def _bias(call: Call, place: int, size: Size) -> list[Op]:
    """A bias that is added to queries, keys and values beforehand."""
    if not call.has(place):
        return []
    made = (Tensor(f"{call.writes[0].ident}.biased", (size,), call.writes[0].dtype),)
    return [pricing.elementwise("add", (*call.read(0, 1, 2), *call.read(place)), made, name="bias")]


@rule("FlexAttention")
def flexible(call: Call) -> Priced:
    """Attention whose scores, or their softmax, go through a function of the file's own: counted for every score."""
    q, k, v = (call.shape(place) for place in range(3))
    op = _attend(call, _heads_first(q, k, v), call.reads, causal=False)
    nodes = [node for word in ("score_mod", "prob_mod") if call.get(word) for node in call.get(word).node]
    if not nodes:
        return op
    each = sum(PER_ELEMENT.get(NAMES.get(node.op_type, ""), PerElement(0)).flops for node in nodes)
    scores = q[0] * q[1] * q[2] * k[2]
    work = op.work + Work.flops("vector", pricing.arithmetic(call.reads), each * scores)
    return replace(op, work=work, note="the functions of FlexAttention may mask scores: they are counted whole")
