"""Attention: softmax(q·kᵀ/√H)·v for every head.

>>> q = Tensor("q", (1, 4096, 32, 128), "bf16")
>>> k, v = (Tensor(name, (1, 4096, 8, 128), "bf16", "kv") for name in "kv")
>>> op = attention(q, k, v, causal=True)
>>> op.dims["pairs"] == 4096 * 4097 // 2
True
>>> op.work.total("flops", "matrix") == 4 * 32 * 128 * op.dims["pairs"]
True
>>> decode = attention(Tensor("q", (1, 1, 32, 128), "bf16"), k, v, causal=True, window=1024)
>>> [t.traffic_bytes for t in decode.reads]                    # the window's keys and values, not all
[8192, 2097152, 2097152]
"""

from __future__ import annotations

from dataclasses import replace

from roofline import dtypes
from roofline.notation.structure import Shape, Step
from roofline.ops.checks import require_multiple, show
from roofline.ops.context import Context, like
from roofline.ops.registry import register
from roofline.ops.softmax import PER_ELEMENT as SOFTMAX_PER_PAIR
from roofline.sizes import Size, exact_div, minimum
from roofline.work import Op, Tensor, Work


def visible_pairs(S: Size, T: Size, *, causal: bool = False, window: Size | None = None) -> Size:
    """Count the (query, key) pairs of S queries and T keys.

    ::

        full               S·T
        causal             △(min(S, T), T),  △(s, t) = t + (t − 1) + … = s·(2t − s + 1)/2, s terms
        causal, window w   △(min(S, T), T) − △(min(S, T − w), T − w), w cut to T
        window w alone     S·w, w cut to T: every query sees w keys, wherever they lie

    The causal mask is aligned at the bottom right: the last query sees every key, and where S > T the first S − T
    queries see none. With a window each query sees the last w of those keys, itself included.

    >>> visible_pairs(3, 3, causal=True), visible_pairs(1, 5, causal=True), visible_pairs(5, 2, causal=True)
    (6, 5, 3)
    >>> visible_pairs(4, 4, causal=True, window=2)             # 1 + 2 + 2 + 2
    7
    """
    if not causal:
        return S * (T if window is None else minimum(window, T))
    pairs = _triangle(S, T)
    return pairs if window is None else pairs - _triangle(S, T - minimum(window, T))


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None = None,
    *,
    causal: bool = False,
    window: Size | None = None,
    unfused: bool = False,
    compute: str | None = None,
    exact: bool = False,
    name: str = "attention",
) -> Op:
    """Attend from q [B, S, N, H] to k [B, T, K, H] and v [B, T, K, V]; B may be left out of all three.

    ::

        matrix FLOPs = 2·B·N·pairs·(H + V)             q·kᵀ, then the weighted sum of v
                     = B·N·(pairs·(2H − 1) + V·(2·pairs − queries))      exact, queries: those that see a key
        vector FLOPs = 5·B·N·pairs                     softmax: max, subtract, exp, sum, divide
                     = B·N·(5·pairs − 2·queries)       exact
        bytes        = q, k, v read once, the result written once; k and v have K heads, shared by N/K query heads each

    Where a window hides keys from every query, they are not read: min(T, S + w − 1) stay. 1/√H is folded into q.

    ``unfused`` computes, writes and reads the whole S×T matrix of scores, masked or not, and then that of
    probabilities, in the format of the result: pairs = S·T, and 4·B·N·S·T elements more to move.

    Sources: Vaswani et al., arXiv:1706.03762; Dao et al., FlashAttention, arXiv:2205.14135 (each operand moves once);
    Ainslie et al., GQA, arXiv:2305.13245; causal alignment as in FlashAttention 2.1.
    """
    B, S, N, H = q.dims if len(q.dims) == 4 else (1, *q.dims)
    T, K, V = k.dims[-3], k.dims[-2], v.dims[-1]
    require_multiple(N, K, f"{show(N)} query heads do not share {show(K)} key heads evenly")
    pairs = S * T if unfused else visible_pairs(S, T, causal=causal, window=window)
    queries = minimum(S, T) if causal and not unfused else S
    matrix, vector = 2 * pairs * (H + V), SOFTMAX_PER_PAIR * pairs
    if exact:
        matrix, vector = matrix - pairs - V * queries, vector - 2 * queries
    dtype = compute or dtypes.arithmetic([q.dtype, k.dtype, v.dtype])
    result = out or like(q, "attention", (*q.dims[:-1], V))
    reads, writes = _moved(q, k, v, result, (B, N, S, T), window, unfused)
    return Op(
        name=name,
        kind="attention",
        work=Work.flops("matrix", dtype, B * N * matrix) + Work.flops("vector", dtype, B * N * vector),
        reads=reads,
        writes=writes,
        dims={
            "batch": B,
            "q_length": S,
            "kv_length": T,
            "heads": N,
            "kv_heads": K,
            "head_size": H,
            "v_head_size": V,
            "pairs": pairs,
            "transcendentals": B * N * pairs,
        },
        note=_note(causal, window, unfused) + _order(N, T),
    )


@register("attention")
def rule(step: Step, context: Context) -> Op:
    """Price an attention step; k and v are KV whether read from memory or just made."""
    q, k, v = step.inputs
    return attention(
        context.tensor(q),
        _kv(context, k),
        _kv(context, v),
        context.tensor(step.output),
        causal=bool(step.options.get("causal")),
        window=step.options.get("window"),
        unfused=bool(step.options.get("unfused")),
        compute=context.arithmetic(step),
        exact=context.exact,
        name=step.text or "attention",
    )


def _kv(context: Context, shape: Shape) -> Tensor:
    return context.tensor(shape, "kv")


def _triangle(S: Size, t: Size) -> Size:
    """t + (t − 1) + … over min(S, t) terms."""
    s = minimum(S, t)
    return exact_div(s * (2 * t - s + 1), 2)


def _moved(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    result: Tensor,
    scores: tuple[Size, ...],
    window: Size | None,
    unfused: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What is read and what is written."""
    if unfused:
        between = tuple(Tensor(f"{result.ident}.{part}", scores, result.dtype) for part in ("scores", "probabilities"))
        return (q, k, v, *between), (result, *between)
    if window is not None:
        B, _, S, T = scores
        seen = B * minimum(T, S + window - 1) * k.dims[-2]
        k, v = replace(k, touched=seen * k.dims[-1]), replace(v, touched=seen * v.dims[-1])
    return (q, k, v), (result,)


def _order(N: Size, T: Size) -> str:
    """Say the order that dimensions are read in where another one is likely meant: more heads than keys.

    >>> _order(4096, 32), _order(32, 4096)
    ('; 4096 heads over 32 keys, as dimensions are read in the order [B, S, N, H]', '')
    """
    if not (isinstance(N, int) and isinstance(T, int) and N > T):
        return ""
    return f"; {N} heads over {T} keys, as dimensions are read in the order [B, S, N, H]"


def _note(causal: bool, window: Size | None, unfused: bool) -> str:
    mask = "causal attention, aligned at the bottom right" if causal else "full attention"
    if window is not None:
        mask += f", a window of {show(window)} keys" + ("" if causal else " for every query, those at the edges too")
    if unfused:
        return f"{mask}; unfused: every score is computed, written and read, masked or not, and so is every probability"
    return f"{mask}; fused: scores never leave the chip"
