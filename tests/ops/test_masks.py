"""Pairs of every kind of mask against a loop over all of them, for ints, arrays and symbols."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops import masks
from roofline.ops.attention import AttentionSizes, attend, attention
from roofline.ops.masks import CAUSAL, FULL, TOP_LEFT, BandMask, sliding_window
from roofline.sizes import symbol
from roofline.work import Tensor

_SIZES = st.integers(1, 9)
_LIMITS = st.none() | st.integers(-3, 9)


def _band(mask: BandMask, S: int, T: int) -> list[list[bool]]:
    offset = T - S if mask.offset is None else mask.offset

    def sees(i: int, j: int) -> bool:
        ahead = j - (i + offset)
        return (mask.after is None or ahead <= mask.after) and (mask.before is None or -ahead <= mask.before)

    return [[sees(i, j) for j in range(T)] for i in range(S)]


@pytest.mark.parametrize("offset", [None, -6, -2, -1, 0, 1, 3, 6])
def test_a_band_counts_the_pairs_keys_and_queries_of_the_loop(offset: int | None) -> None:
    least = 0 if offset is None else -2  # the last query stands at the last key and sees it
    limits = [None, *range(least, 5)]
    for S, T, before, after in product(range(1, 6), range(1, 6), limits, limits):
        mask = BandMask(offset, before, after)
        seen = _band(mask, S, T)
        case = (mask, S, T)
        assert (mask.pairs(S, T), case) == (sum(map(sum, seen)), case)
        assert (mask.queries(S, T), case) == (sum(map(any, seen)), case)
        assert (mask.keys(S, T), case) == (sum(map(any, zip(*seen, strict=True))), case)


def _loop(sees: Callable[[int, int], bool], S: int, T: int) -> int:
    return sum(sees(i, j) for i in range(T - S, T) for j in range(T))


KINDS: dict[str, tuple[Callable[..., Any], Callable[[int, int, int], int]]] = {
    "full": (lambda S, T, w: FULL.pairs(S, T), lambda S, T, w: S * T),
    "causal": (lambda S, T, w: CAUSAL.pairs(S, T), lambda S, T, w: _loop(lambda i, j: j <= i, S, T)),
    "top left": (
        lambda S, T, w: TOP_LEFT.pairs(S, T),
        lambda S, T, w: sum(j <= i for i in range(S) for j in range(T)),
    ),
    "sliding window": (
        lambda S, T, w: sliding_window(w).pairs(S, T),
        lambda S, T, w: _loop(lambda i, j: i - w < j <= i, S, T),
    ),
    "both sides": (
        lambda S, T, w: BandMask(before=w, after=w).pairs(S, T),
        lambda S, T, w: _loop(lambda i, j: abs(i - j) <= w, S, T),
    ),
    "any window": (lambda S, T, w: masks.any_window_pairs(S, T, w), lambda S, T, w: S * min(w, T)),
    "cache": (
        lambda S, T, w: BandMask(offset=w).pairs(S, T),
        lambda S, T, w: sum(j <= i + w for i in range(S) for j in range(T)),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_gives_the_same_for_ints_arrays_and_symbols(kind: str) -> None:
    formula, loop = KINDS[kind]
    names = [symbol(name) for name in "STw"]
    closed = formula(*names)
    cases = [(S, T, w) for S in range(1, 7) for T in range(1, 7) for w in range(1, 7)]
    found = formula(*(np.array(column, dtype=float) for column in zip(*cases, strict=True)))
    for number, (case, entry) in enumerate(zip(cases, found, strict=True)):
        want = loop(*case)
        assert formula(*case) == want == entry
        if number % 23 == 0:
            assert closed.subs(dict(zip(names, case, strict=True))) == want


POSITIONS: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "selected": (masks.selected_pairs, lambda p, w: min(p + 1, w)),
    "chunked": (masks.chunked_pairs, lambda p, w: p % w + 1),
    "compressed": (masks.compressed_pairs, lambda p, w: (p + 1) // w),
    "compressed, at most 2": (
        lambda S, T, w: masks.compressed_pairs(S, T, w, 2),
        lambda p, w: min((p + 1) // w, 2),
    ),
}


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_mask_by_position_counts_the_keys_of_each(kind: str) -> None:
    formula, keys = POSITIONS[kind]
    names = [symbol("S"), symbol("T"), symbol("w")]
    closed = formula(*names)
    cases = [(S, past + S, w) for S in range(1, 7) for past in range(9) for w in range(1, 6)]
    found = formula(*(np.array(column, dtype=float) for column in zip(*cases, strict=True)))
    for number, (case, entry) in enumerate(zip(cases, found, strict=True)):
        S, T, w = case
        want = sum(keys(p, w) for p in range(T - S, T))
        assert formula(*case) == want == entry
        if number % 23 == 0:
            assert closed.subs(dict(zip(names, case, strict=True))) == want


@given(st.lists(st.tuples(_SIZES, _SIZES), max_size=4), _LIMITS.filter(lambda w: w is None or w >= 0))
def test_packed_sequences_see_only_themselves(lengths: list[tuple[int, int]], before: int | None) -> None:
    queries, keys = [S for S, _ in lengths], [T for _, T in lengths]
    mask = BandMask(before=before)
    assert masks.packed_pairs(mask, queries, keys) == sum(sum(map(sum, _band(mask, S, T))) for S, T in lengths)


def test_a_guard_fails_where_a_mask_is_off_by_one() -> None:
    assert BandMask(before=2).pairs(6, 6) != _loop(lambda i, j: i - 2 < j <= i, 6, 6)


def test_attention_reads_only_the_keys_that_some_query_sees() -> None:
    q, out = (Tensor(name, (1, 8, 16, 64), "bf16") for name in ("q", "out"))
    k, v = (Tensor(name, (1, 8, 64, 64), "bf16", "kv") for name in "kv")
    sizes = [AttentionSizes(1, 16, 64, 8, 8, 64, 64, 8 * m.pairs(16, 64), m.keys(16, 64)) for m in (TOP_LEFT, CAUSAL)]
    op, whole = (attention("sdpa", (q, k, v), (out,), each) for each in sizes)
    assert sum(t.traffic_bytes for t in (*op.reads, *op.writes)) == 65536
    assert sum(t.traffic_bytes for t in (*whole.reads, *whole.writes)) == 163840


def test_attention_that_sees_all_keys_touches_no_part_of_arrays() -> None:
    B, T = np.array([2.0, 3.0]), np.array([64.0, 32.0])
    q, k = Tensor("q", (B, 1, 8, 64), "bf16"), Tensor("k", (B, T, 8, 64), "bf16", "kv")
    assert [x.touched for x in attend(q, k, k, causal=True).reads] == [None, None, None]
