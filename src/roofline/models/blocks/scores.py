"""The core of attention, for whichever (query, key) pairs a mask or a selection leaves.

The number of pairs is the only thing that differs between causal, windowed, chunked and selected attention:

>>> chunked_pairs(2, 3, 4)                                     # queries 3 and 4 in chunks of 4: 4 keys, then 1
5
>>> compressed_pairs(8, 0, 4), compressed_pairs(8, 0, 4, most=1)        # one entry for every 4 tokens before it
(6, 5)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.models.trace import Trace
from roofline.ops.attention import visible_pairs
from roofline.ops.softmax import PER_ELEMENT as SOFTMAX_PER_PAIR
from roofline.sizes import Size, exact_div, floor_div, maximum
from roofline.work import Op, Tensor, Work

__all__ = ["chunked_pairs", "compressed_pairs", "selected_pairs", "visible_pairs"]


def scores(
    trace: Trace,
    q: Tensor,
    read: Sequence[Tensor],
    *,
    pairs: Size,
    heads: int,
    kv_heads: int,
    key: int,
    value: int,
    length: Size,
    part: str = "attention",
) -> Tensor:
    """softmax(q·kᵀ)·v for ``heads`` heads over ``pairs`` pairs of one sequence.

    ::

        matrix FLOPs = 2·batch·heads·pairs·(key + value)
        vector FLOPs = 5·batch·heads·pairs                  softmax: max, subtract, exp, sum, divide
    """
    step = trace.step
    count = step.attended * heads * pairs
    # keys in a narrower format are widened on the way in: the arithmetic is that of the queries
    dtype = dtypes.get(q.dtype).arithmetic
    out = trace.made(part, step.tokens, heads * value)
    reads: tuple[Tensor, ...] = (q, *read)
    writes: tuple[Tensor, ...] = (out,)
    if step.unfused:
        square = (step.attended, heads, step.new, length)
        between = tuple(trace.made(f"{part}.{name}", *square) for name in ("scores", "probabilities"))
        count = step.attended * heads * step.new * length
        reads, writes = (*reads, *between), (out, *between)
    trace.add(
        Op(
            name="",
            kind="attention",
            work=Work.flops("matrix", dtype, 2 * count * (key + value))
            + Work.flops("vector", "bf16" if dtypes.get(q.dtype).bits < 16 else dtype, SOFTMAX_PER_PAIR * count),
            reads=reads,
            writes=writes,
            dims={
                "batch": step.attended,
                "q_length": step.new,
                "kv_length": length,
                "heads": heads,
                "kv_heads": kv_heads,
                "head_size": key,
                "v_head_size": value,
                "pairs": pairs,
                "transcendentals": count,
            },
        ),
        part,
    )
    return out


def selected_pairs(new: Size, past: Size, most: Size) -> Size:
    """Pairs where each query attends to ``most`` of the keys it may see: as many as a window of that width leaves."""
    return visible_pairs(new, past + new, causal=True, window=most)


def chunked_pairs(new: Size, past: Size, chunk: int) -> Size:
    """Pairs where a query sees the keys of its own chunk up to itself.

    Position p sees p mod c + 1 keys, so t positions see F(t) = ⌊t/c⌋·c·(c + 1)/2 + r·(r + 1)/2 with r = t mod c.
    """

    def total(t: Size) -> Size:
        full = floor_div(t, chunk)
        rest = t - full * chunk
        return full * (chunk * (chunk + 1) // 2) + exact_div(rest * (rest + 1), 2)

    return total(past + new) - total(past)


def compressed_pairs(new: Size, past: Size, rate: int, most: int | None = None) -> Size:
    """Pairs of queries and compressed entries: position p sees ⌊(p + 1)/m⌋ entries, at most ``most`` of them.

    Σ ⌊i/m⌋ for i ≤ t is G(t) = m·q·(q − 1)/2 + q·(t − m·q + 1) with q = ⌊t/m⌋; what exceeds K is G(t − K·m).
    """

    def total(t: Size) -> Size:
        q = floor_div(t, rate)
        return exact_div(rate * q * (q - 1), 2) + q * (t - rate * q + 1)

    def capped(t: Size) -> Size:
        return total(t) if most is None else total(t) - total(maximum(t - most * rate, 0))

    return capped(past + new) - capped(past)
