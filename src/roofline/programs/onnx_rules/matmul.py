"""Matrix products and attention."""

from __future__ import annotations

from roofline.programs.onnx_registry import Call, Priced, costs, rule
from roofline.sizes import product


@rule("MatMul", "MatMulInteger", "FusedMatMul", "QLinearMatMul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul; the quantised one has its second matrix in fourth place."""
    second = 3 if call.name == "QLinearMatMul" else 1
    a, b = call.shape(0), call.shape(second)
    m, n = (a[-2] if len(a) > 1 else 1), (b[-1] if len(b) > 1 else 1)
    if len(b) <= 2:
        m, batch = m * product(a[:-2]), 1
    else:
        batch = product(call.writes[0].dims[:-2] if len(a) > 1 else call.writes[0].dims[:-1])
    return costs.matmul(call.name, call.read(0, second), call.writes, m=m, n=n, k=a[-1], batch=batch)


@rule("Gemm")
def gemm(call: Call) -> Priced:
    """α·A·B + β·C, either transposed."""
    a = call.shape(0)
    k = a[0] if call.get("transA") else a[1]
    m, n = call.writes[0].dims
    return costs.matmul(call.name, call.read(0, 1, 2), call.writes, m=m, n=n, k=k)


@rule("Einsum")
def einsum(call: Call) -> Priced:
    """A sum over products of two operands; others are gaps."""
    text = call.get("equation")
    equation = (text.decode() if isinstance(text, bytes) else text).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    words = terms.split(",")
    if len(words) != 2 or "." in equation or not arrow:
        return costs.unknown(call.name, call.reads, call.writes, "not two operands with their result")
    size = {letter: n for place, word in enumerate(words) for letter, n in zip(word, call.shape(place), strict=True)}
    left, right = (set(word) for word in words)
    shared = left & right
    return costs.matmul(
        call.name,
        call.read(0, 1),
        call.writes,
        m=product(size[x] for x in sorted((left - shared) & set(result))),
        n=product(size[x] for x in sorted((right - shared) & set(result))),
        k=product(size[x] for x in sorted((left | right) - set(result))),
        batch=product(size[x] for x in sorted(shared & set(result))),
    )


@rule("Attention")
def attention(call: Call) -> Priced:
    """Attend: q [B, heads, S, H] or [B, S, heads·H]; k and v likewise; a cache in fifth and sixth place."""
    q, k, v = (call.shape(place) for place in range(3))
    if len(q) == 3:
        heads, kv_heads = call.get("q_num_heads"), call.get("kv_num_heads")
        batch, s, t = q[0], q[1], k[1]
        h, h_v = q[2] // heads, v[2] // kv_heads
    else:
        (batch, heads, s, h), kv_heads, t, h_v = q, k[1], k[2], v[3]
    if call.has(4):
        t = t + call.shape(4)[2]
    causal = bool(call.get("is_causal", 0))
    pairs = sum(min(i + 1, t) for i in range(s)) if causal and isinstance(s, int) and isinstance(t, int) else s * t
    return costs.attention(
        call.name,
        call.reads,
        call.writes,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        q_length=s,
        kv_length=t,
        head_size=h,
        v_head_size=h_v,
        pairs=batch * heads * pairs,
    )
