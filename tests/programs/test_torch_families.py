"""Families of operations that other counters count as nothing, each against a loop or a count by hand."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from roofline.ops import linear_algebra
from roofline.programs import trace
from tests.strategies import few

COUNTS = st.integers(1, 12)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@few(10)
@given(m=COUNTS, k=COUNTS, n=COUNTS, seed=st.integers(0, 99))
def test_sparse_products_count_stored_elements(m, k, n, seed):
    dense = (torch.rand(m, k, generator=torch.Generator().manual_seed(seed)) > 0.6).float()
    products = sum(int(row[j] != 0) for row in dense for j in range(k)) * n
    stored = int((dense != 0).sum())
    for matrix, indices in ((dense.to_sparse_csr(), m + 1 + stored), (dense.to_sparse(), 2 * stored)):
        for found in (
            trace(torch.matmul, matrix, f"fp32[{k}, {n}]"),
            trace(lambda x, w=matrix: w @ x, f"fp32[{k}, {n}]"),
        ):
            assert found.macs() == products
            assert found.complete
            (op,) = found.only(kind="contraction").ops
            assert op.reads[0].traffic_bytes == 4 * stored + 8 * indices
            assert op.writes[0].traffic_bytes == 4 * m * n
        assert trace(torch.mv, matrix, f"fp32[{k}]").macs() == stored


@pytest.mark.parametrize(("shape", "dims"), [((4, 64), (1,)), ((2, 8, 16), (1, 2)), ((3, 128), (1,))])
def test_fourier_transforms_are_butterflies(shape, dims):
    rows = torch.Size(shape).numel()
    levels = sum((shape[d] - 1).bit_length() for d in dims)
    butterflies = levels * rows // 2  # a complex product of 6 FLOPs and two complex sums of 2
    found = trace(lambda x: torch.fft.fftn(x, dim=dims), f"complex64[{', '.join(map(str, shape))}]")
    assert found.flops("all") == butterflies * (6 + 2 * 2)
    real = trace(lambda x: torch.fft.rfftn(x, dim=dims), f"fp32[{', '.join(map(str, shape))}]")
    assert 2 * real.flops("all") == found.flops("all")


def test_products_in_fp8_and_int8():
    def scaled(a, b, s):
        return torch._scaled_mm(a, b.t(), s, s, out_dtype=torch.bfloat16)

    found = trace(scaled, "fp8[32, 64]", "fp8[48, 64]", "fp32[]")
    assert found.flops() == 2 * 32 * 64 * 48
    assert found.bytes() == 32 * 64 + 48 * 64 + 4 + 2 * 32 * 48
    (op,) = found.ops
    assert {key.dtype for key, _ in op.work.items() if key.place == "matrix"} == {"fp8"}
    whole = trace(torch._int_mm, "int8[32, 64]", "int8[64, 48]")
    assert (whole.flops(), whole.bytes()) == (2 * 32 * 64 * 48, 32 * 64 + 64 * 48 + 4 * 32 * 48)
    assert {key.dtype for key, _ in whole.ops[0].work.items()} == {"int8"}


@pytest.mark.parametrize(("a", "b", "macs"), [
    ("bf16[32, 64]", "bf16[4, 64, 48]", 32 * 64 * 48),
    ("bf16[32, 64]", "bf16[64, 48]", 32 * 64 * 48),
    ("bf16[4, 32, 64]", "bf16[64, 48]", 32 * 64 * 48),
])  # fmt: skip
def test_grouped_products(a, b, macs):
    assert trace(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), a, b, "int32[4]").macs() == macs
    batched = trace(lambda x, w: torch._grouped_mm(x, w), "bf16[4, 32, 64]", "bf16[4, 64, 48]")
    assert batched.macs() == 4 * 32 * 64 * 48


@pytest.mark.parametrize("rows", [1, 3, 16, 40])
def test_rows_read_the_matrices_they_meet(rows):
    """A step of few tokens through many experts reads at most one expert for each row."""
    met = min(rows, 16)
    given = f"bf16[{rows}, 64]", "bf16[16, 64, 48]", "int32[16]"
    moved = 2 * (rows * 64 + met * 64 * 48 + rows * 48) + 4 * 16
    assert trace(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), *given).bytes() == moved
    assert trace(jax.lax.ragged_dot, *given, frontend="jax").bytes() == moved
    turned = trace(lambda w, x, ends: torch._grouped_mm(w, x.t(), offs=ends), "bf16[16, 48, 64]", *given[::2])
    assert turned.bytes() == moved


def test_shards_of_several_tensors_put_together_are_a_copy():
    """What fully sharded modules do with gradients before they scatter them."""
    found = trace(lambda x, y: torch._chunk_cat([x, y], 0, 4), "fp32[8, 16]", "fp32[12, 16]")
    assert (found.flops("all"), found.bytes()) == (0, 2 * 4 * 20 * 16)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags_read_rows(mode):
    ids, starts = [5, 5, 7, 1, 2, 9, 9, 9, 0, 3], [0, 3, 5]
    found = trace(nn.EmbeddingBag(100, 16, mode=mode), torch.tensor(ids), torch.tensor(starts))
    assert found.bytes() == 4 * 16 * len(ids) + 8 * len(ids) + 8 * len(starts) + 4 * 16 * len(starts)
    assert found.complete
    divisions = 3 if mode == "mean" else 0
    assert found.flops("all") == 16 * (len(ids) - 3 + divisions)


def test_what_a_bag_keeps_for_its_gradient_is_made_inside():
    found = trace(nn.EmbeddingBag(9, 4, mode="sum"), "int64[2, 5]", backward=True)
    assert found.bytes("minimal") == 8 * 10 + 2 * 4 * (9 * 4 + 2 * 4)


def test_a_bag_with_weights_has_a_product_for_each_row():
    def bag(table, ids, weights):
        return torch.nn.functional.embedding_bag(ids, table, per_sample_weights=weights, mode="sum")

    assert trace(bag, "fp32[64, 32]", "int64[5, 4]", "fp32[5, 4]").flops("all") == 32 * (20 + 20 - 5)


def test_a_clamp_with_one_bound_is_one_comparison():
    x = "fp32[64]"
    for one in (lambda x: x.clamp(min=0), lambda x: x.clamp(max=1), lambda x: x.clamp_min(0)):
        assert trace(one, x).flops("all") == 64
    assert trace(lambda x: x.clamp(0, 1), x).flops("all") == 128


@few(30)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), causal=st.booleans(), left=st.integers(-1, 4))
def test_packed_sequences_see_only_themselves(lengths, causal, left):
    from torch.nn.attention.varlen import varlen_attn

    total, longest = sum(lengths), max(lengths)
    starts = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)

    def packed(q, k, v):
        return varlen_attn(q, k, v, starts, starts, longest, longest, window_size=(left, 0 if causal else -1))

    found = trace(packed, *(f"bf16[{total}, 4, 16]",) * 3)
    owner = [n for n, length in enumerate(lengths) for _ in range(length)]
    pairs = sum(
        owner[i] == owner[j] and (not causal or j <= i) and (left < 0 or i - j <= left)
        for i in range(total)
        for j in range(total)
    )
    assert found.macs() == 4 * pairs * (16 + 16)
    assert found.complete


def test_packed_sequences_of_unknown_lengths_are_a_gap():
    from torch.nn.attention.varlen import varlen_attn

    found = trace(lambda q, n: varlen_attn(q, q, q, n, n, 8, 8), "bf16[20, 4, 16]", "int32[3]")
    (gap,) = found.listed_gaps()
    assert (gap.name, gap.count) == ("torch_attn._varlen_attn", 1)
    assert "how long its sequences are is not known" in gap.reason


def test_flex_attention_with_a_score_function_says_so():
    from torch.nn.attention.flex_attention import flex_attention

    def biased(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j))

    found = trace(biased, *("bf16[2, 4, 128, 32]",) * 3)
    assert found.macs() == 2 * 4 * 128 * 128 * 64
    assert found.assumptions == ("the score function of flex attention is not counted, nor what it reads",)


@pytest.mark.parametrize("training", [False, True])
def test_a_fused_encoder_layer_is_its_parts(training):
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0).train(training)
    found = trace(layer, "fp32[2, 10, 64]")
    assert found.macs() == 2 * 10 * (4 * 64 * 64 + 2 * 64 * 128) + 2 * 4 * 10 * 10 * 32
    assert found.complete


SQUARE = "fp32[3, 16, 16]"


def _elimination(n):
    """Multiply-adds and divisions of LU without pivoting, by its loops."""
    return sum((n - k - 1) + 2 * (n - k - 1) ** 2 for k in range(n))


@pytest.mark.parametrize(("call", "inputs", "flops"), [
    (torch.linalg.cholesky, [SQUARE], 3 * linear_algebra.cholesky(16)),
    (torch.linalg.lu_factor, [SQUARE], 3 * linear_algebra.lu(16, 16)),
    (torch.linalg.det, [SQUARE], 3 * (linear_algebra.lu(16, 16) + 16)),
    (torch.linalg.inv, [SQUARE], 3 * linear_algebra.inverse(16)),
    (torch.linalg.solve, [SQUARE, "fp32[3, 16, 5]"], 3 * linear_algebra.solve(16, 5)),
    (lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), [SQUARE, "fp32[3, 16, 5]"], 3 * 16 * 16 * 5),
    (lambda b, a: torch.cholesky_solve(b, a), ["fp32[3, 16, 5]", SQUARE], 3 * 2 * 16 * 16 * 5),
    (lambda a, b: torch.linalg.lstsq(a, b)[0], ["fp32[2, 48, 12]", "fp32[2, 48, 5]"],
     2 * (2 * 12 * 12 * (48 - 4) + 5 * (4 * 48 * 12 - 12 * 12))),
    (torch.linalg.qr, ["fp32[30, 20]"], 2 * linear_algebra.qr(30, 20)),
    (lambda a: torch.linalg.qr(a, mode="r"), ["fp32[30, 20]"], linear_algebra.qr(30, 20)),
])  # fmt: skip
def test_factorisations_and_solves(call, inputs, flops):
    found = trace(call, *inputs)
    assert found.flops("all") == pytest.approx(flops, rel=1e-12)
    assert found.complete


def test_the_leading_terms_against_loops():
    """What is left out is of the order below: its share falls as 1/n."""
    for n in (50, 100, 200):
        assert linear_algebra.lu(n, n) == pytest.approx(_elimination(n), rel=2 / n)
        halves = sum(1 + (n - k - 1) + (n - k - 1) * (n - k) for k in range(n))
        assert linear_algebra.cholesky(n) == pytest.approx(halves, rel=4 / n)
        reflected = sum(4 * (n - k) ** 2 for k in range(n))
        assert linear_algebra.qr(n, n) == pytest.approx(reflected, rel=4 / n)
        assert linear_algebra.triangular_solve(n, 3) == 3 * sum(1 + 2 * i for i in range(n))
        assert linear_algebra.solve(n, n) > linear_algebra.inverse(n)


@pytest.mark.parametrize(("call", "name"), [
    (torch.linalg.svd, "aten._linalg_svd"),
    (torch.linalg.eigh, "aten._linalg_eigh"),
    (torch.linalg.eig, "aten.linalg_eig"),
    (torch.linalg.pinv, "aten.linalg_pinv"),
])  # fmt: skip
def test_what_iterates_is_listed_with_its_bytes(call, name):
    found = trace(lambda x: [call(x), call(x + 1)][0], SQUARE)
    (gap,) = found.listed_gaps()
    moved = sum(t.traffic_bytes for op in found.ops if op.kind == "unknown" for t in (*op.reads, *op.writes))
    assert (gap.name, gap.count, gap.reason, gap.bytes) == (name, 2, "iterates until it converges", moved)
    assert gap.bytes >= 2 * 4 * 3 * (256 + 16 * 17 // 2)  # of a symmetric matrix a triangle is read
    assert any(name in line for line in found.bound("h100").incomplete)


@pytest.mark.parametrize(("build", "inputs"), [
    (lambda: nn.Conv2d(4, 8, 3, stride=2, groups=2), [(2, 4, 9, 9)]),
    (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), [(2, 4, 9, 9)]),
    (lambda: nn.MultiheadAttention(32, 4, batch_first=True), [(2, 5, 32)] * 3),
])  # fmt: skip
def test_forward_agrees_with_torchs_counter_where_it_is_right(build, inputs):
    model = build()
    with FlopCounterMode(display=False) as theirs:
        model(*(torch.zeros(shape) for shape in inputs))
    found = trace(model, *(f"fp32[{', '.join(map(str, shape))}]" for shape in inputs))
    assert found.flops("unmasked") == theirs.get_total_flops() > 0


def test_dropout_is_free_outside_training():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.FeatureAlphaDropout(0.5))
    assert [op.name for op in trace(model.eval(), "fp32[4, 8]").ops] == ["linear"]
    assert [op.name for op in trace(model.eval(), "fp32[B, 8]").ops] == ["linear"]
    assert len(trace(model.train(), "fp32[4, 8]").ops) > 1
    assert trace(lambda x: F.dropout(x, 0.5, training=False), "fp32[4]").ops == ()


def test_a_batch_norm_that_trains_updates_its_statistics():
    """Scale and shift are read; mean and variance are read and written, and the counter of its steps is too."""
    layer, channels = nn.BatchNorm2d(8), 8 * 4
    moved = 2 * 4 * 8 * 25 * 4
    assert trace(layer, "fp32[4, 8, 5, 5]").bytes("minimal") == moved + 2 * channels + 2 * 2 * channels + 2 * 8
    assert trace(layer.eval(), "fp32[4, 8, 5, 5]").bytes("minimal") == moved + 4 * channels


def test_a_kernel_of_your_own_that_updates_a_tensor_writes_that_beside_its_result():
    @torch.library.custom_op("families::attend", mutates_args=("cache",))
    def attend(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    attend.register_fake(lambda x, cache: torch.empty_like(x))
    assert trace(lambda x, cache: attend(x, cache), "fp32[4, 8]", "fp32[16, 8]").bytes("minimal") == 2 * 4 * (32 + 128)


def test_gradients_of_a_batch_norm_with_stored_statistics_read_none_of_the_batch():
    """The input, its gradient, scale, shift and both statistics; the result and two gradients are written."""
    found = trace(nn.BatchNorm1d(4).eval(), "fp32[3, 4]", backward=True)
    assert found.bytes("minimal") == 4 * (2 * 12 + 4 * 4 + 12 + 2 * 4)


def test_batch_norm_with_stored_statistics_folds_into_its_convolution():
    layers = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
    found = trace(nn.Sequential(*layers).eval(), "fp32[2, 3, 16, 16]")
    image, weights = 4 * 2 * 16 * 16, 4 * (8 * 27 + 4 * 8)
    assert found.bytes("fused") == image * 3 + image * 8 + weights
    assert found.bytes() == found.bytes("fused") + 2 * 2 * image * 8
    training = trace(nn.Sequential(*layers).train(), "fp32[2, 3, 16, 16]")
    assert training.bytes("fused") > found.bytes("fused") + 2 * image * 8
    assert any(
        "a batch norm with stored statistics too" in line for line in found.bound("1080ti", policy="fused").assumptions
    )


@pytest.mark.parametrize(("call", "given", "flops"), [
    (torch.histc, "fp32[64]", 3 * 64),
    (lambda x: torch.nonzero_static(x, size=5), "fp32[8, 8]", 64),
    (lambda x: x.index_add(0, torch.zeros(4, dtype=torch.long), x), "fp32[4, 8]", 32),
    (lambda x: x.scatter_add(0, torch.zeros(4, 8, dtype=torch.long), x), "fp32[4, 8]", 32),
])  # fmt: skip
def test_choosing_and_adding_count_every_element(call, given, flops):
    assert trace(call, given).flops("all") == flops


@pytest.mark.parametrize(
    ("pool", "asked", "results"),
    [
        (nn.MaxPool2d(2), nn.MaxPool2d(2, return_indices=True), 216),
        (nn.AdaptiveMaxPool2d(1), nn.AdaptiveMaxPool2d(1, return_indices=True), 6),
    ],
)
def test_max_pooling_writes_which_element_it_took_only_for_those_who_ask(pool, asked, results):
    whole = 4 * (864 + results)
    assert trace(pool, "fp32[2, 3, 12, 12]").bytes("minimal") == whole
    assert trace(asked, "fp32[2, 3, 12, 12]").bytes("minimal") == whole + 8 * results
    model = nn.Sequential(nn.Conv2d(3, 3, 1, bias=False), pool)
    (forward,) = trace(model, "fp32[2, 3, 12, 12]", backward=True).only(kind="pooling", phase="forward").ops
    assert len(forward.writes) == 2


@few(25)
@given(m=COUNTS, n=COUNTS, diagonal=st.integers(-13, 13), upper=st.booleans())
def test_a_triangle_is_read_alone(m, n, diagonal, upper):
    function = torch.triu if upper else torch.tril
    kept = int(function(torch.ones(m, n), diagonal).sum())
    found = trace(lambda x: function(x, diagonal), f"fp32[3, {m}, {n}]")
    assert found.bytes() == 4 * 3 * (kept + m * n)
    inside = trace(lambda x: (x.triu_ if upper else x.tril_)(diagonal), f"fp32[{m}, {n}]")
    assert inside.bytes() == 4 * (m * n - kept)


def test_factors_and_symmetric_matrices_are_read_by_half():
    n, half = 64, 64 * 65 // 2
    square, tall = f"fp32[{n}, {n}]", f"fp32[{n}, 2]"
    for program, given_, moved in (
        (lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), (square, tall), half + 4 * n),
        (
            lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True),
            (square, tall),
            half + 3 * n,
        ),
        (lambda b, a: torch.cholesky_solve(b, a), (tall, square), half + 4 * n),
        (torch.linalg.cholesky, (square,), half + n * n),
        (torch.cholesky_inverse, (square,), half + n * n),
    ):
        assert trace(program, *given_).bytes("minimal") == 4 * moved


def test_a_search_looks_at_few_places():
    found = trace(lambda rows, x: torch.searchsorted(rows, x), "fp32[1000000]", "fp32[10]")
    assert found.bytes() == 4 * 10 * 20 + 4 * 10 + 8 * 10
    assert trace(lambda rows, x: torch.bucketize(x, rows), "fp32[1000000]", "fp32[10]").bytes() == found.bytes()
    many = trace(lambda rows, x: torch.searchsorted(rows, x), "fp32[8]", "fp32[1000]")
    assert many.bytes() == 4 * 8 + 4 * 1000 + 8 * 1000


def test_what_is_cut_off_or_lies_between_windows_is_not_read():
    pad = torch.nn.functional.pad
    assert trace(lambda x: pad(x, (-1, 1, 2, -3)), "fp32[8, 64]").bytes() == 4 * (5 * 63 + 7 * 64)
    apart = trace(lambda x: torch.nn.functional.unfold(x, 2, stride=4), "fp32[1, 2, 16, 16]")
    assert apart.bytes() == 4 * 2 * (2 * 64)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_numbers_of_two_halves_are_four_bytes() -> None:
    found = trace(lambda x, y: x + y, "complex32[8]", "complex32[8]")
    assert (found.flops("all"), found.bytes()) == (2 * 8, 3 * 8 * 4)
    assert {key.dtype for op in found.ops for key in op.work} == {"fp16"}


@pytest.mark.parametrize(("norm", "shape", "of_scale", "of_all"), [
    (nn.LayerNorm(8), (10, 8), 2, 9), (nn.RMSNorm(8), (10, 8), 3, 8), (nn.GroupNorm(2, 4), (3, 4, 5, 5), 2, 7),
    (nn.BatchNorm2d(4), (3, 4, 5, 5), 2, 7), (nn.BatchNorm2d(4).eval(), (3, 4, 5, 5), 2, 3),
    (nn.LayerNorm(8, elementwise_affine=False), (10, 8), None, 7), (nn.LayerNorm(8), (8,), 2, 9),
    (nn.RMSNorm(8), (8,), 3, 8),
])  # fmt: skip
def test_the_gradient_of_a_norm_counts_what_is_asked_for(norm: Any, shape: Any, of_scale: Any, of_all: int) -> None:
    """No input's gradient as of a first layer, and with stored statistics no sums over them."""
    size, given = torch.Size(shape).numel(), f"fp32{list(shape)}"
    for asked, each in ((False, of_scale), (True, of_all)):
        if each is not None:
            traced = trace(norm, given, backward=True, input_gradients=asked)
            assert [op.work.total("flops") for op in traced.ops if op.phase == "backward"] == [each * size]
