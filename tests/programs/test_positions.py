"""Masks made of positions: their formula at a size is the count at that size, and the pairs counted one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy
import torch
import torch.nn.functional as F

from roofline.programs import trace
from roofline.programs.positions import Elements, converted, of_values, place, worked_out
from roofline.programs.regions import edge
from roofline.sizes import is_symbol, symbol
from tests.strategies import some

S, T = symbol("S"), symbol("T")
SIZES = [(2, 2), (7, 3), (3, 7), (9, 9), (12, 10), (2, 13)]


def _at(amount, S_, T_):
    names = [{"Max": max, "Min": min}, "math"]
    return sympy.lambdify([S, T], amount, modules=names)(S_, T_) if is_symbol(amount) else amount


def _mask(rng, function, rows, columns, depth):
    """A random mask of rows and columns, worked out by numpy or as formulas."""
    if depth:
        name = rng.choice(["logical_and", "logical_or", "logical_not", "logical_xor"])
        many = 1 if name == "logical_not" else 2
        return function(name, *(_mask(rng, function, rows, columns, depth - 1) for _ in range(many)))
    shift, width = rng.randint(-3, 5), rng.randint(1, 4)
    chunks = [function("floor_divide", each, width) for each in (rows, columns)]
    return function(*rng.choice([
        ("greater_equal", rows, function("add", columns, shift)), ("less", rows, function("add", columns, shift)),
        ("less", columns, width), ("greater_equal", rows, width), ("equal", rows, function("add", columns, shift)),
        ("greater", rows, 2.5), ("equal", function("remainder", columns, width), 0),
        ("equal", *chunks), ("greater_equal", *chunks), ("not_equal", *chunks),
        ("less", function("absolute", function("subtract", rows, columns)), width),
        ("less", columns, function("multiply", function("add", chunks[0], 1), width)),
        ("equal", *(function("floor_divide", function("subtract", each, 2), width) for each in (rows, columns))),
        ("less_equal", function("absolute", function("subtract", *chunks)), 1),
        ("less", function("add", rows, columns), width + 5),
    ]))  # fmt: skip


@pytest.mark.parametrize("seed", some(range(120), 31))
def test_pairs_of_a_random_mask_by_counting(seed):
    depth, shift = seed % 3, random.Random(seed).choice([0, 2, T - S])
    rows, columns = Elements((S, 1), place(-2) + shift), Elements((T,), place(-1))
    found = _mask(random.Random(seed), worked_out, rows, columns, depth)
    pairs, keys = (None, None) if found is None else (found.visible().pairs(S, T), found.visible().keys(S, T))
    for s, t in SIZES if pairs is not None else ():
        own = np.arange(s)[:, None] + (shift if type(shift) is int else t - s), np.arange(t)
        seen = _mask(random.Random(seed), lambda name, *given: getattr(np, name)(*given), *own, depth)
        seen = np.broadcast_to(seen, (s, t))
        assert (_at(pairs, s, t), _at(keys, s, t) >= seen.any(0).sum()) == (seen.sum(), True), (s, t)
        if type(shift) is int and s > 2 and t > 2:  # of every second row and third column no more than it sees
            held = found.visible().elements_in((edge(1, s // 2, 2), edge(0, -(-t // 3), 3)))
            told = {at for part in found.visible().columns(edge(1, s // 2, 2), t) for at in range(*map(int, part))}
            assert held <= seen[1::2, ::3].sum()
            assert told <= {*np.flatnonzero(seen[1::2].any(0)).tolist()}


def test_most_masks_are_read():
    read = 0
    for seed in range(10):
        rows, columns = Elements((S, 1), place(-2)), Elements((T,), place(-1))
        read += _mask(random.Random(seed), worked_out, rows, columns, 1) is not None
    assert read >= 9
    chunks = worked_out("floor_divide", worked_out("add", columns, 1), 3)
    assert _at(worked_out("less", chunks, 2).visible().pairs(S, T), 2, 9) == 2 * 5  # (j + 1) // 3 < 2 of 0 to 4
    assert _at(worked_out("greater", chunks, 1).visible().pairs(S, T), 2, 9) == 2 * 4  # of 5 to 8


@pytest.mark.parametrize("low", [-20, -2, 0, 3])
@pytest.mark.parametrize("high", [-1, 0, 2, 20])
def test_a_band_of_values_is_read(low, high):
    apart = np.subtract.outer(np.arange(6), np.arange(8))
    band = (apart >= low) & (apart <= high)
    found = of_values(np.where(band, 0.0, -np.inf)[None])
    assert found.visible(is_added=True).pairs(6, 8) == band.sum()
    apart = np.array([[1, 0, 1], [0, 2, 0]])
    assert [of_values(apart == n).visible().pairs(2, 3) for n in range(3)] == [3, 2, 1]
    assert of_values(np.arange(9).reshape(3, 3)) is None


def _positions(S, T):
    return torch.arange(S)[:, None] + (T - S), torch.arange(T)


def causal(S, T):
    return torch.full((S, T), float("-inf")).triu_(1 + T - S)


def behind_a_cache(S, T):
    own = torch.full((S, S), -1e9).masked_fill(torch.arange(S) < (torch.arange(S) + 1).view(S, 1), 0)
    return torch.cat([torch.zeros(S, T - S), own], -1)[None, None].expand(1, 1, S, T)


def window(S, T):
    q, k = _positions(S, T)
    hidden = k > q
    hidden |= k <= q - 4
    return torch.zeros(S, T).masked_fill(hidden, float("-inf"))


def by_vmap(S, T):
    def is_seen(q, k):
        return (k <= q) & (k > q - 4)

    return torch.vmap(torch.vmap(is_seen, (None, 0)), (0, None))(torch.arange(S) + (T - S), torch.arange(T))


def prefix(S, T):
    q, k = _positions(S, T)
    return (q >= k) | (k < 3)


def sinks(S, T):
    q, k = _positions(S, T)
    return (q >= k) & ((q - k < 4) | (k < 2))


def documents(S, T):
    q, k = _positions(S, T)
    return torch.div(q, 5, rounding_mode="floor") == k // 5


def chunked(S, T):
    q, k = _positions(S, T)
    return torch.logical_and(q >= k, q // 5 == k // 5)


def blocks(S, T):
    q, k = _positions(S, T)
    return q // 5 >= k // 5


def around(S, T):
    q, k = _positions(S, T)
    return (q - k).abs() < 4


def alibi(S, T):
    q, k = _positions(S, T)
    return (0.5 * (k - q)).masked_fill(q < k, float("-inf"))


def buffer(S, T):
    return torch.ones(1024, 1024, dtype=torch.bool).tril()[T - S : T, :T]


def padding(S, T):
    return (1.0 - torch.ones(1, T)[:, None, None, :]) * -1e9


def first_keys(S, T):
    return (torch.arange(T) < 3)[None, None, None, :]


MASKS = [causal, behind_a_cache, window, by_vmap, prefix, sinks, documents, chunked, blocks, around, alibi, buffer,
         padding, first_keys]  # fmt: skip


@pytest.mark.parametrize("mask", some(MASKS, 7, 3))
@pytest.mark.parametrize("keys", ["S", "T"])
def test_torch_counts_the_pairs_of_a_mask_of_an_open_size(mask, keys):
    def program(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(q.shape[-2], k.shape[-2]))

    inputs = ["fp32[2, 3, S, 8]", *[f"fp32[2, 3, {keys}, 8]"] * 2]
    opened = trace(program, *inputs)
    for s, t in [(13, 13)] if keys == "S" else [(3, 17)]:
        fixed, made = trace(program, *inputs, sizes={"S": s} | ({"T": t} if keys == "T" else {})), mask(s, t)
        seen = torch.broadcast_to(made if made.dtype == torch.bool else made > -1e4, (1, 1, s, t)).sum().item()
        assert _at(opened.flops(), s, t) == fixed.flops() == 2 * 3 * seen * 8 * 4
        for policy in ("each-op", "minimal"):
            assert _at(opened.bytes(policy), s, t) == fixed.bytes(policy), policy


ONE_ROW = [
    (lambda S: torch.tensor([[True, True, True, False, False]]).expand(S, 5), 3),
    (lambda S: (torch.arange(S)[:, None] >= torch.arange(5))[1:2].expand(S, 5), 2),
    (lambda S: (torch.arange(1)[:, None] + 3 >= torch.arange(5)) & torch.ones(S, 5, dtype=torch.bool), 4),
    (lambda S: torch.ones(1, 5).tril(1).bool().repeat(S, 1), 2),
]


@pytest.mark.parametrize(("mask", "seen"), some(ONE_ROW, 2))
def test_a_mask_of_one_row_holds_for_every_row(mask, seen):
    def program(q, k):
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask(q.shape[0]))

    assert trace(program, "fp32[S, 8]", "fp32[5, 8]").flops() == 4 * 8 * seen * S


def test_a_mask_of_too_many_parts_or_of_no_number_is_not_read():
    cases = {sympy.Integer(n): frozenset(frozenset([place(-2) - 99 * n - m]) for m in range(9)) for n in (1, 2)}
    assert Elements((S, T), cases=cases).visible() is None
    rows, columns = Elements((S, 1), place(-2)), Elements((T,), place(-1))
    assert worked_out("multiply", worked_out("less", rows, columns), float("-inf")) is None
    assert [worked_out("trunc", number).number for number in (-1.5, 1.5)] == [-1, 1]


def test_rows_under_a_mask_that_hides_no_columns_are_read_whole():
    box = ((1, 3, 1), (2, T, 1))
    assert worked_out("less", Elements((S, 1), place(-2)), 4).shown(1).seen_of(box) == box


def test_chunks_that_are_cut_towards_zero_before_the_first_place():
    rows, columns = Elements((9, 1), place(-2) - 4), Elements((5,), place(-1))
    own, other = (converted(worked_out("true_divide", each, 4), "int64") for each in (rows, columns))
    alike, i = worked_out("equal", own, other), np.arange(9)[:, None] - 4
    for mask, seen in ((alike, i >= -9), (worked_out("and", alike, worked_out("ge", rows, columns)), i >= range(5))):
        assert mask.visible().pairs(9, 5) == ((np.trunc(i / 4) == np.arange(5) // 4) & seen).sum()


def test_what_is_written_into_a_mask_is_known_no_more():
    def program(x):
        mask = torch.ones(x.shape[0], x.shape[0]).tril()
        mask[:, :3] = x[:, :3]
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    assert trace(program, "fp32[S, 8]").flops() == 4 * 8 * S**2
