"""Attention: softmax(q·kᵀ/√H)·v for every head.

>>> q = Tensor("q", (1, 4096, 32, 128), "bf16")
>>> k, v = (Tensor(name, (1, 4096, 8, 128), "bf16", "kv") for name in "kv")
>>> op = attend(q, k, v, causal=True)
>>> op.dims["pairs"] == 4096 * 4097 // 2
True
>>> op.work.total("flops", "matrix") == 4 * 32 * 128 * op.dims["pairs"]
True
>>> decode = attend(Tensor("q", (1, 1, 32, 128), "bf16"), k, v, causal=True, window=1024)
>>> [t.traffic_bytes for t in decode.reads]                    # the window's keys and values, not all
[8192, 2097152, 2097152]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.errors import SizeError
from roofline.frozen import NamedTuple, replace
from roofline.notation.calls import ATTENTION_LAYOUT
from roofline.notation.structure import Step
from roofline.ops.basic import arithmetic
from roofline.ops.masks import CAUSAL, FULL, any_window_pairs, sliding_window
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT
from roofline.ops.rules import Context, register, require, require_multiple, show_size
from roofline.sizes import Size, exact_div, is_one, is_symbol, is_zero, minimum
from roofline.work import Op, Tensor, Work

#: What is said of a backward pass of attention that has 5 matmuls.
FUSED_ATTENTION = "attention is fused: it keeps no probabilities, and makes its scores again in the backward pass"


class AttentionSizes(NamedTuple):
    """Sizes of one attention, and what its mask leaves of it: :mod:`roofline.ops.masks` counts pairs and keys.

    ``pairs`` of a query and a key see each other, over all heads of the whole batch. In one head, ``keys`` are those
    that some query sees; None: all are read. ``note`` says how they were counted. ``window`` is the width of a causal
    mask that has one, also where no sequence is so long yet.
    """

    batch: Size
    q_length: Size
    kv_length: Size
    heads: Size
    kv_heads: Size
    head_size: Size
    v_head_size: Size
    pairs: Size
    keys: Size | None = None
    note: str = ""
    window: Size | None = None


def attention(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    sizes: AttentionSizes,
    *,
    head_pairs: Size | None = None,
    queries: Size | None = None,
    matmuls: int = 2,
    compute: str | None = None,
    vector_compute: str | None = None,
    exact: bool = False,
) -> Op:
    """Attend from ``reads``: q, k, v, then anything else.

    ::

        matrix FLOPs = 2·pairs·(⌈matmuls/2⌉·H + ⌊matmuls/2⌋·V)
                     − pairs − V·queries·batch·heads      exact: one add fewer for each score and each result
        vector FLOPs = 5·pairs                            softmax: max, subtract, exp, sum, divide
                     − 2·queries·batch·heads              exact: max and sum take one step fewer
                       4·pairs                            backward: p = exp(s − l), p·(dp − δ)
        bytes        = q, k, v read once, the result written once; of k and v only the keys that some query sees

    ``head_pairs`` are the pairs of one head where the caller has them, ``queries`` those of one head that see a key.
    H is ``head_size``, V ``v_head_size``. A forward pass has 2 matmuls, q·kᵀ and p·v. A backward pass has 4, those of
    dp and dv over V and of dq and dk over H, or 5 where q·kᵀ is computed again.
    ``vector_compute`` is the arithmetic of the softmax where it is not that of the matmuls. 1/√H is folded into q.

    Sources: Vaswani et al., arXiv:1706.03762; Dao et al., FlashAttention, arXiv:2205.14135, section 3 (each operand
    moves once); Ainslie et al., GQA, arXiv:2305.13245 (k and v have fewer heads, shared by the query heads); Dao,
    FlashAttention-2, arXiv:2307.08691, algorithm 2 (backward pass).
    """
    batch, q_length, kv_length, heads, _, head_size, v_head_size, pairs, keys, note, window = sizes
    each = (matmuls - matmuls // 2) * head_size + matmuls // 2 * v_head_size
    macs = pairs * each
    matrix, vector = 2 * macs, (SOFTMAX_PER_ELEMENT if matmuls == 2 else 4) * pairs
    if exact and not is_zero(pairs):
        seeing = batch * heads * (q_length if queries is None else queries)
        matrix, vector = matrix - pairs - v_head_size * seeing, vector - 2 * seeing
    dtype = compute or arithmetic(reads[:3])
    if head_pairs is None:
        head_pairs = pairs if is_zero(pairs) else exact_div(pairs, batch * heads)
    dims = {**dict(zip(sizes._fields, sizes[:7], strict=False)), "pairs": head_pairs, "transcendentals": pairs}
    options: dict[str, Size] = {} if window is None else {"window": window}
    if matmuls != 2 or isinstance(head_pairs, float):  # else they follow from dims
        options |= {"macs": macs, "unmasked_macs": batch * heads * q_length * kv_length * each}
    if keys is not None:
        q, k, v, *rest = reads
        reads = (q, _seen(k, keys, kv_length), _seen(v, keys, kv_length), *rest)
    work = Work.flops("matrix", dtype, matrix) + Work.flops("vector", vector_compute or dtype, vector)
    return Op(name, "attention", work, tuple(reads), tuple(writes), dims, note=note, options=options)


def index_scores(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    pairs: Size,
    head_size: Size,
    each: int,
    dims: Mapping[str, Size],
    compute: str | None = None,
    vector_compute: str | None = None,
) -> Op:
    """Score keys for a selection, as the lightning indexer of DeepSeek-V3.2 does.

    ::

        matrix FLOPs = 2·pairs·head_size        q·kᵀ
        vector FLOPs = each·pairs               3 for relu, weight and sum over heads; 1 for a maximum over a block

    ``pairs`` are those of all heads and sequences; ``dims`` are the facts that are kept of them.
    """
    dtype = compute or arithmetic(reads[:2])
    work = Work.flops("matrix", dtype, 2 * pairs * head_size)
    work = work + Work.flops("vector", vector_compute or dtype, each * pairs)
    return Op(name, "attention", work, tuple(reads), tuple(writes), dims={**dims, "head_size": head_size})


def attend(
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
    parts: Size = 1,
    key_parts: Size = 1,
    aligned: bool = False,
) -> Op:
    """Attend from q [B, S, N, H] to k [B, T, K, H] and v [B, T, K, V]; B may be left out of all three.

    The causal mask is aligned at the bottom right, as in FlashAttention 2.1: the last query sees every key. With a
    window each query sees the last of those keys, itself included; a window alone gives every query as many keys,
    wherever they lie.

    The queries are one of ``parts`` of all, each of which sees as many keys: early and late ones together, but under a
    window those that lie side by side, of which only the keys that they see are read. The keys are one of ``key_parts``
    of all, each of which is seen as often; where they are ``aligned`` they are those of the same positions, beside
    which the operation reads those that its window reaches back to, and the queries are the last, which see most.

    ``unfused`` computes, writes and reads the whole S×T matrix of scores, masked or not, and then that of
    probabilities, in the format of the result: pairs = S·T, and 4·B·N·S·T elements more to move.
    """
    B, S, N, H = q.dims if len(q.dims) == 4 else (1, *q.dims)
    T, K, V = k.dims[-3] * key_parts, k.dims[-2], v.dims[-1]
    heads = f"{show_size(N)} query head{'' if isinstance(N, int) and N == 1 else 's'}"
    if isinstance(N, int) and is_symbol(K):
        hint = f"give {show_size(K)} a number; attention takes {ATTENTION_LAYOUT}"
        raise SizeError(f"whether {heads} can share {show_size(K)} key heads is not known", hint=hint)
    require_multiple(
        N, K, f"{heads} cannot share {show_size(K)} key heads evenly", f"N is a multiple of K in {ATTENTION_LAYOUT}",
        "query heads cannot share key heads evenly",
    )  # fmt: skip
    mask = FULL if not causal else CAUSAL if window is None else sliding_window(window)
    every = S * parts
    counted = S if aligned else every
    pairs, keys, queries = mask.pairs(counted, T), mask.keys(every if aligned else S, T), mask.queries(counted, T)
    if unfused:
        pairs, keys, queries = every * T, T, every
    elif window is not None and not causal:
        pairs, keys = any_window_pairs(every, T, window), sliding_window(window).keys(S, T)
    if not (is_one(parts) or aligned):
        pairs, queries = exact_div(pairs, parts), exact_div(queries, parts)
    if not (is_one(key_parts) or aligned):
        pairs, keys, T = exact_div(pairs, key_parts), exact_div(keys, key_parts), k.dims[-3]
    result = out or Tensor(f"attention({q.ident})", (*q.dims[:-1], V), q.dtype)
    made = ("scores", "probabilities") if unfused else ()
    between = tuple(Tensor(f"{result.ident}.{part}", (B, N, S, T), result.dtype) for part in made)
    note = _note(causal, window, unfused) + _order(N, T)
    sizes = AttentionSizes(B, S, T, N, K, H, V, B * N * pairs, keys, note, window if causal and not unfused else None)
    return attention(
        name, (q, k, v, *between), (result, *between), sizes, head_pairs=pairs, queries=queries, compute=compute,
        exact=exact,
    )  # fmt: skip


@register("attention")
def rule(step: Step, context: Context) -> Op:
    """Price an attention step; k and v are KV whether read from memory or just made.

    Where the heads are split over more chips than those of keys and values, the heads of a chip share one of these.
    """
    q, k, *v = step.inputs
    keys, own = context.tensor(k, "kv"), step.options.get("values")
    if own:
        columns = keys.dims[-1]
        hint = "the values are the first of these columns"
        said = f"values={own} of keys with"
        require(columns >= own, f"{said} {show_size(columns)} columns", hint, f"{said} fewer columns")
    values = replace(keys, dims=(*keys.dims[:-1], own)) if own else context.tensor(v[0], "kv")
    several = exact_div(context.ways.get(q.labels[-2], 1), context.ways.get(k.labels[-2], 1))
    alone = not is_one(several)
    window, parts = step.options.get("window"), context.ways.get(q.labels[-3], 1)
    causal = bool(step.options.get("causal"))
    is_masked = causal or window is not None
    key_parts = context.ways.get(k.labels[-3], 1) if is_masked else 1  # without a mask a part is as good as all
    aligned = not is_one(parts) and q.labels[-3] == k.labels[-3]
    one_of_keys, one_of_values = keys, values
    if alone:
        one_of_keys, one_of_values = (replace(x, dims=(*x.dims[:-2], 1, x.dims[-1])) for x in (keys, values))
    done = attend(
        context.tensor(q), one_of_keys, one_of_values, context.tensor(step.output), causal=causal, window=window,
        unfused=bool(step.options.get("unfused")), compute=context.arithmetic(step), exact=context.exact,
        name=step.text or "attention", parts=parts, key_parts=key_parts, aligned=aligned,
    )  # fmt: skip
    note = done.note + _order_of_letters(q.labels)
    note += f"; the values are the first {own} columns of the keys, which are read once" if own else ""
    if is_masked:
        single = is_one(done.dims["q_length"])
        note += _note_of_parts(parts, key_parts, aligned=aligned, causal=causal, window=window, single=single)
    if alone:
        pairs = zip((keys, values), done.reads[1:3], strict=True)
        both = (replace(whole, touched=one.traffic_elements) for whole, one in pairs)
        done = replace(done, reads=(done.reads[0], *both, *done.reads[3:]))
    return replace(done, reads=(*done.reads[:2], *done.reads[3:]) if own else done.reads, note=note)


def _note_of_parts(
    parts: Size, key_parts: Size, *, aligned: bool, causal: bool, window: Size | None, single: bool
) -> str:
    """Say which queries and keys of a mask each chip has."""
    if aligned:
        said = "; each chip has a part of the sequence and gets the keys that its window reaches back to"
        return f"{said}; pairs are those of the last chip, the first one has fewer"
    said = ""
    if not is_one(parts) and window is not None:
        said += "; each chip takes queries that lie side by side and reads the keys that they see"
        said += "; pairs are those of an average chip" if causal else ""
    elif not is_one(parts):
        said += "; each chip takes early and late queries, which together see as many keys on all"
    if not is_one(key_parts) and not (single and window is None):
        said += "; each chip has early and late keys, of which as many are seen on all"
    return said


def _seen(x: Tensor, keys: Size, length: Size) -> Tensor:
    """Keys or values of which only some are read."""
    if keys is length or is_zero(length - keys):
        return x
    seen = exact_div(x.elements * keys, length)
    return replace(x, touched=seen if x.touched is None else minimum(x.touched, seen))


#: Letters that people write for heads and for a sequence.
_HEAD_LETTERS, _SEQUENCE_LETTERS = ("N", "K", "H"), ("S", "T", "L")


def _order_of_letters(labels: Sequence[str]) -> str:
    """Name the order of dimensions where the letters say that heads stand before the sequence.

    >>> _order_of_letters(("B", "H", "S", "D")), _order_of_letters(("B", "S", "N", "H"))
    ('; H is read as the sequence and S as the heads: dimensions are in the order [B, S, N, H]', '')
    """
    length, heads = labels[-3:-1]
    if length not in _HEAD_LETTERS or heads not in _SEQUENCE_LETTERS:
        return ""
    return f"; {length} is read as the sequence and {heads} as the heads: dimensions are in the order [B, S, N, H]"


def _order(N: Size, T: Size) -> str:
    """Name the order of dimensions where another one is likely meant: there are more heads than keys.

    >>> _order(4096, 32), _order(32, 4096)
    ('; 4096 heads over 32 keys, as dimensions are read in the order [B, S, N, H]', '')
    """
    if not (isinstance(N, int) and isinstance(T, int) and N > T):
        return ""
    return f"; {N} heads over {T} keys, as dimensions are read in the order [B, S, N, H]"


def _note(causal: bool, window: Size | None, unfused: bool) -> str:
    mask = "causal attention, aligned at the bottom right" if causal else "full attention"
    if window is not None:
        edges = "" if causal else " for every query, those at the edges too"
        mask += f", a window of {show_size(window)} keys{edges}"
    if unfused:
        return f"{mask}; unfused: every score is computed, written and read, masked or not, and so is every probability"
    return f"{mask}; fused: scores never leave the chip"
