"""Contractions, tiles, padding and attention: the formulas against nested loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import few

from roofline.errors import InputError, SizeError
from roofline.models import decode, load
from roofline.notation import program
from roofline.ops import build, padded, tile_bytes, tiled_traffic
from roofline.ops.attention import attend
from roofline.ops.contraction import contraction, matmul
from roofline.work import Key, Op, Tensor

small = st.integers(1, 6)


def one(text: str, **sizes: object) -> Op:
    (op,) = build(program(text), sizes)
    return op


def moved(op: Op) -> list[int]:
    return [t.traffic_bytes for t in (*op.reads, *op.writes)]


@given(batch=small, m=small, n=small, k=st.integers(0, 6))
def test_a_product_counts_its_multiplies_and_adds(batch: int, m: int, n: int, k: int) -> None:
    multiplies = adds = 0
    for _ in product(range(batch), range(m), range(n)):
        for step in range(k):
            multiplies += 1
            adds += step > 0
    assert matmul(m, n, k, batch, exact=True).work.total("flops") == multiplies + adds
    assert matmul(m, n, k, batch).work.total("flops") == 2 * multiplies
    assert moved(matmul(m, n, k, batch, a="int8", b="fp32", out="bf16", compute="fp32")) == [
        batch * m * k,
        4 * batch * k * n,
        2 * batch * m * n,
    ]


def test_an_empty_sum_takes_no_adds() -> None:
    assert matmul(64, 300, 0, exact=True).work.total("flops") == 0
    q, k = Tensor("q", (1, 4, 2, 8), "bf16"), Tensor("k", (1, 0, 2, 8), "bf16")
    assert attend(q, k, k, exact=True).work.total("flops") == 0


@given(B=small, G=small, D=small, E=small, F=small)
@few(30)
def test_labels_fall_into_m_n_k_and_batch(B: int, G: int, D: int, E: int, F: int) -> None:
    op = one("bf16[B, G, D, E] * bf16[G, E, D, F] -> bf16[G, B, F]", B=B, G=G, D=D, E=E, F=F)
    assert op.dims == {"m": B, "n": F, "k": D * E, "batch": G}
    assert op.work.total("flops") == 2 * B * G * D * E * F


def test_a_dot_product_runs_on_the_vector_unit_batched_or_not() -> None:
    single = one("bf16[N] · bf16[N] -> bf16[]", N=1024)
    batched = one("bf16[B, N] · bf16[B, N] -> bf16[B]", N=1024, B=8)
    assert list(single.work) == list(batched.work) == [Key("flops", "vector", "bf16")]
    assert batched.work.total("flops") == 2 * 8 * 1024
    assert [t.role for t in (*single.reads, *batched.reads)] == ["activation"] * 4
    (exact,) = build(program("bf16[N] · bf16[N] -> bf16[]"), {"N": 1024}, exact=True)
    assert exact.work.total("flops") / sum(moved(single)) == (2 * 1024 - 1) / (4 * 1024 + 2)


def test_a_matrix_times_a_vector_runs_on_the_matrix_unit() -> None:
    assert list(one("bf16[D] * bf16[D, F]", D=8, F=8).work) == [Key("flops", "matrix", "bf16")]


def test_a_product_without_a_contracted_label_is_elementwise() -> None:
    op = one("bf16[B, D] * bf16[D] -> bf16[B, D]", B=4, D=8)
    assert op.kind == "elementwise"
    assert op.work.total("flops", "vector") == 32


def test_roles() -> None:
    weights = one("bf16[B, D] * bf16[D, F]", B=2, D=3, F=4)
    batched = one("bf16[B, D] * bf16[B, D, F] -> bf16[B, F]", B=2, D=3, F=4)
    assert [t.role for t in weights.reads] == ["activation", "weight"]
    assert [t.role for t in batched.reads] == ["activation", "activation"]
    first, second = build(program("h = bf16[B, D] * bf16[D, F]; bf16[G, F] * h"), {"B": 2, "D": 3, "F": 4, "G": 5})
    assert second.reads[1].role == "activation"
    assert second.reads[1].ident == first.writes[0].ident == "h"


def test_complex_products_count_real_flops() -> None:
    assert one("complex64[M, K] * complex64[K, N]", M=2, K=3, N=5).work.total("flops") == 2 * 3 * 5 * 8
    assert one("fp32[M, K] * complex64[K, N]", M=2, K=3, N=5).work.total("flops") == 2 * 3 * 5 * 4
    assert matmul(2, 5, 3, a="complex64", b="complex64", exact=True).work.total("flops") == 10 * (3 * 6 + 2 * 2)


def test_the_arithmetic_dtype_can_be_chosen() -> None:
    (op,) = build(program("bf16[B, D] * fp8[D, F]"), {}, compute="float8_e4m3")
    assert list(op.work) == [Key("flops", "matrix", "fp8")]


# ---- tiles and padding


@given(m=st.integers(1, 9), n=st.integers(1, 9), k=small, bm=small, bn=small, bk=small)
def test_tiled_traffic_is_what_the_loop_over_tiles_loads(m: int, n: int, k: int, bm: int, bn: int, bk: int) -> None:
    loaded = stored = 0
    largest = 0
    for i, j in product(range(0, m, bm), range(0, n, bn)):
        rows, columns = min(bm, m - i), min(bn, n - j)
        for inner in range(0, k, bk):
            depth = min(bk, k - inner)
            loaded += 2 * rows * depth + 4 * depth * columns
            largest = max(largest, 2 * rows * depth + 4 * depth * columns + 4 * rows * columns)
        stored += 4 * rows * columns
    op = matmul(m, n, k, a="bf16", b="fp32")
    assert tiled_traffic(op, bm, bn, bk) == loaded + stored
    assert tile_bytes(op, bm, bn, bk) == largest


@given(rows=st.integers(1, 7), matrices=st.integers(1, 3), bm=st.integers(1, 4), bn=st.integers(1, 4))
def test_tiles_of_several_matrices_load_what_the_best_way_to_deal_the_rows_does(
    rows: int, matrices: int, bm: int, bn: int
) -> None:
    """Every way to deal rows to experts, each of which gets one: tile after tile of each expert."""
    n, k, matrices = 5, 3, min(matrices, rows)
    ways = []
    for dealt in product(range(1, rows + 1), repeat=matrices):
        if sum(dealt) == rows:
            tiles = [(own, at) for many in dealt for own in _steps(many, bm) for at in _steps(n, bn)]
            ways.append(sum(2 * own * k + 4 * k * columns + 2 * own * columns for own, columns in tiles))
    x, out = Tensor("x", (rows, k), "bf16"), (Tensor("y", (rows, n), "bf16"),)
    w = Tensor("w", (8, n, k), "fp32", "weight", touched=matrices * n * k)
    op = contraction("experts", (x, w), out, m=rows, n=n, k=k)
    op = replace(op, dims={**op.dims, "groups": matrices})
    assert tiled_traffic(op, bm, bn, 2) == min(ways)


def _steps(size: int, step: int) -> list[int]:
    return [min(step, size - at) for at in range(0, size, step)]


@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3"])
def test_a_bias_and_scales_of_weights_are_read_once_by_tiles(name: str) -> None:
    op = next(op for op in decode(load(name), batch=8, context=100) if op.kind == "contraction" and op.reads[2:])
    plain = replace(op, reads=op.reads[:2])
    beside = sum(tensor.traffic_bytes for tensor in op.reads[2:])
    assert tiled_traffic(op, 4, 512, 64) == tiled_traffic(plain, 4, 512, 64) + beside
    assert tile_bytes(op, 4, 512, 64) == tile_bytes(plain, 4, 512, 64)


def test_tiles_of_the_book() -> None:
    op = matmul(4096, 4096, 4096)
    assert tiled_traffic(op, 512, 512, 512) == 570425344
    reloaded = tiled_traffic(op, 512, 512, 512) - op.writes[0].traffic_bytes
    assert op.work.total("flops") / reloaded == 512 * 512 / (512 + 512)


def test_a_tile_is_a_size_and_belongs_to_a_contraction() -> None:
    with pytest.raises(SizeError, match="size bn is 0"):
        tiled_traffic(matmul(4, 4, 4), 2, 0, 2)
    with pytest.raises(SizeError, match="size bk is -1"):
        tile_bytes(matmul(4, 4, 4), 2, 2, -1)
    with pytest.raises(InputError, match="tiles are for contractions, not elementwise"):
        tiled_traffic(one("gelu(bf16[8])"), 2, 2, 2)


@pytest.mark.parametrize(("tile", "elements"), [((128, 128), 49152), ((256, 256), 131072), ((128, 8), 128 * 304)])
def test_padding_to_the_matrix_unit(tile: tuple[int, int], elements: int) -> None:
    op = matmul(64, n=300, k=100)
    full = padded(op, tile)
    assert full.work.total("flops") == 2 * 64 * elements
    assert moved(full) == moved(op)
    assert op.work.total("flops") / full.work.total("flops") == 100 * 300 / elements
    assert "padded to" in full.note
    assert padded(matmul(64, n=0, k=100), tile).work.total("flops") == 0


def test_padding_leaves_vector_work_alone_and_says_what_it_does_not_pad() -> None:
    vector = one("softmax(bf16[8, 8])")
    assert padded(vector, (128, 128)) is vector
    heads = one("attention(bf16[1, 8, 2, 4], bf16[1, 8, 2, 4], bf16[1, 8, 2, 4])")
    assert padded(heads, (128, 128)).work == heads.work
    assert "not padded to the matrix unit's tile" in padded(heads, (128, 128)).note
    conv = one("conv(bf16[1, 8, 8, 3], bf16[3, 3, 3, 16], bf16[16], same)")
    assert padded(conv, (128, 128)).work.total("flops", "matrix") == 2 * 64 * 128 * 128
    assert padded(conv, (128, 128)).work.total("flops", "vector") == 64 * 16
    with pytest.raises(SizeError, match="size tile rows is 0"):
        padded(matmul(4, 4, 4), (0, 128))


# ---- attention


def sees(i: int, j: int, S: int, T: int, causal: bool, window: int | None) -> bool:
    """Whether query i sees key j: aligned at the bottom right, the last ``window`` keys up to its own."""
    own = i + T - S
    return not causal or (j <= own and (window is None or j > own - window))


lengths = st.integers(1, 8)


@given(
    B=st.integers(1, 2), K=st.integers(1, 2), G=st.integers(1, 3), S=lengths, T=lengths, H=small, V=small,
    causal=st.booleans(), window=st.none() | st.integers(1, 9),
)  # fmt: skip
def test_attention(B: int, K: int, G: int, S: int, T: int, H: int, V: int, causal: bool, window: int | None) -> None:
    window = window if causal else None
    multiplies = adds = softmax = 0
    touched = set()
    for _, head, i in product(range(B), range(K * G), range(S)):
        seen = [j for j in range(T) if sees(i, j, S, T, causal, window)]
        touched |= {(head // G, j) for j in seen}
        for _ in seen:
            multiplies += H
            adds += H - 1
        if seen:
            softmax += 5 * len(seen) - 2
            multiplies += V * len(seen)
            adds += V * (len(seen) - 1)
    q = Tensor("q", (B, S, K * G, H), "bf16")
    k, v = Tensor("k", (B, T, K, H), "int8", "kv"), Tensor("v", (B, T, K, V), "int8", "kv")
    exact = attend(q, k, v, causal=causal, window=window, exact=True)
    assert exact.work.total("flops", "matrix") == multiplies + adds
    assert exact.work.total("flops", "vector") == softmax
    assert attend(q, k, v, causal=causal, window=window).work.total("flops", "matrix") == 2 * multiplies
    seen_keys = len(touched) // K
    assert seen_keys == T or window is not None
    assert moved(exact) == [2 * B * S * K * G * H, B * seen_keys * K * H, B * seen_keys * K * V, 2 * B * S * K * G * V]


def test_unfused_attention_moves_every_score_twice_and_every_probability_twice() -> None:
    q = Tensor("q", (2, 4, 6, 8), "bf16")
    k, v = (Tensor(name, (2, 5, 3, 8), "bf16", "kv") for name in "kv")
    fused, unfused = attend(q, k, v), attend(q, k, v, unfused=True)
    assert sum(moved(unfused)) - sum(moved(fused)) == 4 * (2 * 6 * 4 * 5) * 2
    assert unfused.work == fused.work
    masked = attend(q, k, v, unfused=True, causal=True, exact=True)
    assert masked.work == attend(q, k, v, exact=True).work
    assert "unfused: every score" in masked.note


@pytest.mark.parametrize(("S", "T", "G"), [(4096, 4096, 1), (4096, 1, 1), (4096, 4096, 8), (4096, 1, 8)])
def test_attention_intensity_of_the_book(S: int, T: int, G: int) -> None:
    """T queries over S keys, G query heads for each key head: T·G·S/(T·G + S); "How To Scale Your Model", ch. 4."""
    op = one("attention(bf16[B, T, N, H], bf16[B, S, K, H], bf16[B, S, K, H])", B=3, S=S, T=T, N=8 * G, K=8, H=128)
    assert op.work.total("flops", "matrix") / sum(moved(op)) == pytest.approx(T * G * S / (T * G + S), rel=1e-12)


@pytest.mark.parametrize("more", ["", ", causal", ", causal, window=64", ", unfused"])
def test_values_that_are_columns_of_the_keys_are_read_with_them(more: str) -> None:
    """Latent attention: the products are those of values apart, whose bytes are none."""
    sizes = {"B": 8, "S": 4, "T": 4096}
    own = one(f"attention(q[B, S, 128, 576], c[B, T, 1, 576], values=512{more})", **sizes)
    apart = one(f"attention(q[B, S, 128, 576], c[B, T, 1, 576], v[B, T, 1, 512]{more})", **sizes)
    assert own.work == apart.work
    assert moved(own) == [*moved(apart)[:2], *moved(apart)[3:]]
    if not more:
        assert sum(moved(own)) == 2 * (8 * 4 * 128 * (576 + 512) + 8 * 4096 * 576)
    assert own.note.endswith("; the values are the first 512 columns of the keys, which are read once")
    with pytest.raises(SizeError, match="values=512 of keys with 128 columns; the values are the first of these"):
        one("attention(q[B, S, 16, D], c[B, S, 1, D], values=512)", B=1, S=1, D=128)


def test_heads_are_shared_evenly() -> None:
    q, k = Tensor("q", (1, 4, 6, 8), "bf16"), Tensor("k", (1, 4, 4, 8), "bf16")
    order = r"; N is a multiple of K in q\[B, S, N, H\]"
    with pytest.raises(SizeError, match="6 query heads cannot share 4 key heads evenly" + order):
        attend(q, k, k)
    with pytest.raises(SizeError, match="1 query head cannot share 4 key heads evenly" + order):
        attend(Tensor("q", (1, 4, 1, 8), "bf16"), k, k)


def test_attention_with_more_heads_than_keys_says_in_which_order_dimensions_are_read() -> None:
    line = "attention(bf16[1, {0}, 128], bf16[1, {0}, 128], bf16[1, {0}, 128])"
    swapped, right = (one(line.format(sizes)) for sizes in ("32, 64", "64, 32"))
    assert swapped.note.endswith("64 heads over 32 keys, as dimensions are read in the order [B, S, N, H]")
    assert "order" not in right.note


def test_attention_says_what_it_assumes() -> None:
    op = one("attention(bf16[1, 8, 2, 4], bf16[1, 8, 2, 4], bf16[1, 8, 2, 4], causal, window=3)")
    assert op.note == (
        "causal attention, aligned at the bottom right, a window of 3 keys; fused: scores never leave the chip"
    )
