"""Sparse products, packed sequences, control flow and other programs that decide by values, against counts by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils import flop_counter

from roofline.errors import InputError
from roofline.ops.pricing import adaptive_windows
from roofline.programs import trace
from tests.strategies import few

COUNTS = st.integers(1, 4)
LAYOUTS = ("to_sparse", "to_sparse_csr", "to_sparse_csc")


def _matrix(m, k, seed):
    return (torch.rand(m, k, generator=torch.Generator().manual_seed(seed)) > 0.6).float()


@pytest.mark.filterwarnings("ignore:Sparse")
@few(15)
@given(m=COUNTS, k=COUNTS, n=COUNTS, seed=st.integers(0, 99), layout=st.sampled_from(LAYOUTS))
def test_products_with_a_sparse_side_on_either_side_or_both(m, k, n, seed, layout):
    left, right = _matrix(2 * m, 2 * k, seed), _matrix(2 * k, 2 * n, seed + 1)
    a, b = getattr(left, layout)(), getattr(right, layout)()
    stored = int(right.sum())
    found = trace(lambda x: x @ b, f"fp32[{2 * m}, {2 * k}]")
    assert found.macs() == 2 * m * stored
    assert found.ops[0].reads[0].touched == 2 * m * int(right.any(1).sum())  # columns that no stored element meets stay
    found = trace(lambda x: F.linear(x, a), f"fp32[3, {2 * k}]")
    assert found.macs() == 3 * int(left.sum())
    assert found.ops[0].reads[0].touched == 3 * int(left.any(0).sum())
    assert trace(lambda x: a @ x, f"fp32[{2 * k}, 3]").ops[0].reads[1].touched == 3 * int(left.any(0).sum())
    meetings = sum(
        int(left[i, j] != 0 and right[j, c] != 0) for i in range(2 * m) for j in range(2 * k) for c in range(2 * n)
    )
    assert trace(lambda x: (a @ b) * x, "fp32[]").macs() == meetings


@pytest.mark.filterwarnings("ignore:Sparse")
def test_blocks_are_stored_whole_and_what_is_added_is_read():
    dense = torch.zeros(8, 16)
    dense[0, 0] = dense[5, 9] = dense[7, 15] = 1.0
    blocks = dense.to_sparse_bsr((2, 4))
    assert trace(lambda x: blocks @ x, "fp32[16, 5]").macs() == 3 * 8 * 5
    plain = trace(lambda x: blocks @ x, "fp32[16, 5]")
    added = trace(lambda b, x: torch.addmm(b, blocks, x), "fp32[8, 5]", "fp32[16, 5]")
    unread = trace(lambda b, x: torch.addmm(b, blocks, x, beta=0), "fp32[8, 5]", "fp32[16, 5]")
    assert added.bytes() - plain.bytes() == 4 * 8 * 5
    assert added.flops("all") - plain.flops("all") == 8 * 5
    assert unread.bytes() == plain.bytes()


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_grouped_products_in_every_format(dtype):
    size = {"fp32": 4}.get(dtype, 2)
    found = trace(
        lambda x, w, e: torch._grouped_mm(x, w, offs=e), f"{dtype}[24, 32]", f"{dtype}[4, 32, 16]", "int32[4]"
    )
    assert found.macs() == 24 * 32 * 16
    assert found.bytes() == size * (24 * 32 + 4 * 32 * 16 + 24 * 16) + 4 * 4
    split = trace(lambda x, w, e: torch._grouped_mm(x, w, offs=e), f"{dtype}[24, 32]", f"{dtype}[32, 16]", "int32[4]")
    assert split.macs() == 24 * 32 * 16
    assert split.ops[0].writes[0].dims == (4, 24, 16)


@few(10)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), first=st.booleans())
def test_a_packed_recurrent_layer_counts_the_steps_there_are(lengths, first):
    lengths, layer = sorted(lengths, reverse=True), nn.LSTM(5, 6, batch_first=first)

    def program(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first)
        return nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=first)

    shape = (len(lengths), 8, 5) if first else (8, len(lengths), 5)
    found = trace(lambda x: program(x)[0] + 1, f"fp32[{', '.join(map(str, shape))}]")
    real = program(torch.zeros(shape))[0]
    assert found.macs() == sum(lengths) * 24 * (5 + 6)
    assert found.ops[-1].writes[0].dims == tuple(real.shape)
    packing = next(op for op in found.ops if op.name == "pack_padded_sequence")
    assert sum(t.traffic_bytes for t in (*packing.reads, *packing.writes)) == 2 * 4 * sum(lengths) * 5
    trained = trace(lambda x: program(x.requires_grad_())[0].sum().backward(), f"fp32[{', '.join(map(str, shape))}]")
    assert trained.macs() == 3 * found.macs()


def test_branches_and_loops_as_operations():
    def chosen(x):
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x + 1, (x,))

    found = trace(chosen, "fp32[8, 8]")
    assert (found.macs(), found.complete) == (512, True)
    assert any("larger branch of torch.cond" in line for line in found.assumptions)
    moving = trace(
        lambda x: torch.cond(x.sum() > 0, lambda x: x[:2] @ x[0], lambda x: x[:2, 0] + x.sum(), (x,)), "fp32[8, 8]"
    )
    assert moving.macs() == 0  # the larger is the one that takes longer: fewer FLOPs, of all of x
    settled = trace(lambda x: torch.cond(torch.tensor(False), lambda x: x @ x, lambda x: x + 1, (x,)), "fp32[8, 8]")
    assert settled.flops("all") == 64

    def counted(x):
        loop = torch._higher_order_ops.while_loop
        return loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (torch.tensor(0), x))

    assert trace(counted, "fp32[8, 8]").macs() == 3 * 512
    scanned = trace(
        lambda x, w: torch._higher_order_ops.scan(lambda c, s: (c @ w, (c * s).sum()), x[0], x, dim=0),
        "fp32[5, 8, 8]",
        "fp32[8, 8]",
    )
    assert scanned.macs() == 5 * 512
    mapped = trace(lambda x, w: torch._higher_order_ops.map(torch.matmul, x, w), "fp32[5, 8, 8]", "fp32[8, 8]")
    assert mapped.macs() == 5 * 512


@pytest.mark.parametrize("pick", [lambda w, i: w[i], lambda w, i: torch.index_select(w, 0, i.reshape(1))[0]])
def test_layers_that_a_while_loop_picks_by_its_counter_are_read_each_once(pick):
    def program(x, w):
        loop = torch._higher_order_ops.while_loop
        return loop(lambda i, x: i < 6, lambda i, x: (i + 1, x @ pick(w, i)), (torch.tensor(0), x))[1]

    traced = trace(program, "fp32[8, 16]", "fp32[6, 16, 16]")
    assert 0 <= traced.bytes("minimal") - 4 * (2 * 8 * 16 + 6 * 16 * 16) <= 256  # and counters


def test_a_loop_that_depends_on_data_is_an_error():
    def program(x):
        return torch._higher_order_ops.while_loop(lambda x: x.sum() < 0, lambda x: (x @ x,), (x,))

    with pytest.raises(InputError, match=r"test_torch_sequences\.py:\d+: how often this while_loop runs depends on"):
        trace(program, "fp32[4, 4]")


class Dropped(nn.Module):
    """A layer that training leaves out now and then."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return x if self.training and torch.rand([]) < 0.1 else self.layer(x)


class Strided(nn.Module):
    """Looks at a number that it holds as a buffer, and at a mask."""

    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(2))
        self.register_buffer("kept", torch.tensor([True, False, True, True]))

    def forward(self, x):
        return x[:, :: int(self.step)][self.kept] * 2


def test_numbers_that_do_not_depend_on_data_are_looked_at():
    assert trace(Dropped().train(), "fp32[4, 8]").macs() == 4 * 64
    model = Strided()
    assert trace(model, "fp32[4, 8]").ops[-1].writes[0].dims == (3, 4)
    assert model.step.item() == 2
    with pytest.raises(InputError, match="asks for the value of a tensor"):
        trace(lambda x: x if x.sum() > 0 else -x, "fp32[4]")


def test_what_takes_a_result_is_not_read():
    plain = trace(lambda a, b: torch.mm(a, b), "fp32[8, 16]", "fp32[16, 4]")
    into = trace(lambda a, b: torch.mm(a, b, out=torch.empty(8, 4)), "fp32[8, 16]", "fp32[16, 4]")
    assert (into.flops("all"), into.bytes()) == (plain.flops("all"), plain.bytes())


def test_gradients_that_are_given_as_constants():
    def program(a, b):
        return (a.requires_grad_() @ b).backward(torch.ones(3, 5))

    assert trace(program, "fp32[3, 4]", "fp32[4, 5]").macs() == 2 * 60
    assert trace(
        lambda a, b: torch.func.vjp(lambda a: a @ b, a)[1](torch.ones(3, 5)), "fp32[3, 4]", "fp32[4, 5]"
    ).macs() == 2 * 60  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda x: x.quantile(0.3, dim=-1),
    torch.linalg.matrix_rank,
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
])  # fmt: skip
def test_what_has_no_shapes_of_its_own_is_traced(call):
    assert trace(call, "fp32[8, 8]").flops("all") > 8


def test_an_encoder_with_a_padding_mask():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    found = trace(lambda x: model(x, src_key_padding_mask=padding), "fp32[2, 5, 16]")
    pairs = 4 * (5 * 5 + 5 * 3)
    assert found.macs() == 2 * (2 * 5 * (4 * 256 + 2 * 512) + pairs * 8)


def test_a_lazy_module_says_what_it_lacks():
    with pytest.raises(InputError, match=r"LazyLinear\.weight has no shape yet.*run the module once"):
        trace(nn.LazyLinear(4), "fp32[2, 3]")


GRID = ("fp32[2, 3, 8, 8]", "fp32[2, 5, 5, 2]")


def _sample(mode):
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, align_corners=False)


@pytest.mark.parametrize(("call", "inputs", "flops"), [
    (lambda a, b: a * b, ("complex64[8]", "complex64[8]"), 6 * 8),
    (lambda a, b: a + b, ("complex64[8]", "complex64[8]"), 2 * 8),
    (lambda a, b: a * b, ("complex64[8]", "fp32[8]"), 2 * 8),
    (lambda a: a * 2.0, ("complex64[8]",), 2 * 8),
    (lambda a: a.sum(), ("complex64[8]",), 2 * 7),
    (lambda a: a.sort(0), ("fp32[100, 8]",), 800 * 7),
    (torch.searchsorted, ("fp32[100]", "fp32[8]"), 8 * 7),
    (torch.bucketize, ("fp32[100]", "fp32[8]"), 100 * 4),
    (lambda a: F.interpolate(a, size=(4, 4), mode="area"), ("fp32[1, 2, 2, 2]",), 0),
    (lambda a: F.adaptive_avg_pool1d(a, 2), ("fp32[3, 9]",), 3 * (10 - 2)),
    (_sample("bilinear"), GRID, 2 * 4 * 150),
    (_sample("nearest"), GRID, 0),
    (_sample("bicubic"), GRID, 2 * 16 * 150),
    (lambda a, w: F.conv_tbc(a, w, torch.zeros(8)), ("fp32[10, 2, 4]", "fp32[3, 4, 8]"), 2 * 8 * 2 * 8 * 12 + 128),
    (nn.Bilinear(4, 5, 6, bias=False), ("fp32[3, 4]", "fp32[3, 5]"), 2 * 3 * 6 * (4 * 5 + 5)),
])  # fmt: skip
def test_counts_by_hand(call, inputs, flops):
    found = trace(call, *inputs)
    assert found.flops("all") == flops
    assert found.complete


@given(length=st.integers(1, 40), results=st.integers(1, 40))
def test_windows_of_adaptive_pooling(length, results):
    edges = [((i * length) // results, -((-(i + 1) * length) // results)) for i in range(results)]
    assert adaptive_windows(length, results) == sum(last - first for first, last in edges)


def test_paths_through_labels():
    B, T, C, L = 2, 10, 20, 4
    full = torch.full((B,), T), torch.full((B,), L)

    def program(scores):
        return F.ctc_loss(scores, torch.ones(B, L, dtype=torch.long), *full, reduction="none")

    (op,) = (op for op in trace(program, f"fp32[{T}, {B}, {C}]").ops if op.kind == "scan")
    assert op.work.total("flops") == 13 * B * T * (2 * L + 1)
    trained = trace(lambda x: program(x.requires_grad_()).sum().backward(), f"fp32[{T}, {B}, {C}]")
    assert trained.complete
    assert trained.only(name="ctc_loss_backward").flops("all") == 13 * B * T * (2 * L + 1) + 3 * T * B * C


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("labels", [(2, 4), (8,)], ids=["rows", "one row"])
def test_labels_of_known_lengths(reduction, labels):
    loss = nn.CTCLoss(reduction=reduction)
    targets, lengths = torch.ones(labels, dtype=torch.long), (torch.tensor([10, 10]), torch.tensor([4, 4]))
    real = loss(torch.zeros(10, 2, 20), targets, *lengths)
    for known in (lengths, ((10, 10), (4, 4))):
        found = trace(loss, "fp32[10, 2, 20]", targets, *known, input_gradients=True)
        assert (found.complete, found.only(name="ctc_loss").flops("all")) == (True, 13 * 2 * 10 * 9)
        forward = [op for op in found.ops if op.phase == "forward"]
        assert forward[-1].writes[0].elements == real.numel()


def test_labels_of_known_lengths_without_a_module():
    """Lengths and the rest of ``torch.ctc_loss`` may be left out or given by name."""
    targets, lengths = torch.ones(2, 4, dtype=torch.long), (torch.tensor([10, 10]), torch.tensor([4, 4]))
    named = dict(zip(("input_lengths", "target_lengths"), lengths, strict=True))
    for known in ({}, {"reduction": 1}):
        whole = trace(lambda x, known=known: torch.ctc_loss(x, targets, *lengths, **known), "fp32[10, 2, 20]")
        by_name = trace(lambda x, known=known: torch.ctc_loss(x, targets, **named, **known), "fp32[10, 2, 20]")
        assert whole.flops("all") == by_name.flops("all") >= whole.only(name="ctc_loss").flops("all") == 13 * 2 * 10 * 9
    assert trace(lambda x: torch.ctc_loss(x, targets, [10, 10], [4, 4]), "fp32[10, 2, 20]").complete


@pytest.mark.parametrize("given", [
    {}, {"hop_length": 8, "window": torch.hann_window(12), "win_length": 12}, {"length": 190}, {"normalized": True},
])  # fmt: skip
def test_a_signal_put_together_from_its_windows(given):
    given = {"n_fft": 16, "window": torch.hann_window(16)} | given
    real = torch.istft(torch.ones(2, 9, 51, dtype=torch.complex64), **given)
    found = trace(lambda x: torch.istft(x, **given), "complex64[2, 9, 51]")
    assert found.ops[-1].writes[0].dims == tuple(real.shape)
    frames, size = 2 * 51 * 16, real.numel()
    looked_at = 2 * real.shape[-1]  # the smallest of the weights' sums, by PyTorch itself
    assert found.flops("all") == 2 * 51 * 5 * 16 * 4 / 2 + frames + frames + 16 + frames / 2 + looked_at + size


@pytest.mark.filterwarnings("error")
def test_functions_that_refuse_some_values_are_taken_to_be_given_others():
    both = trace(lambda x: torch.istft(x, 16, window=torch.hann_window(16), onesided=False, return_complex=True),
                 "complex64[2, 16, 51]")  # fmt: skip
    assert (both.complete, both.only(name="fft_c2c").flops("all")) == (True, 2 * 51 * 5 * 16 * 4)
    rows, weights = 8 * 64, "fp32[64]"
    plain = trace(torch.cov, "fp32[8, 64]")
    weighted = trace(lambda x, often, w: torch.cov(x, fweights=often, aweights=w), "fp32[8, 64]", "int64[64]", weights)
    assert plain.macs() == weighted.macs() == 8 * rows
    method = trace(lambda x, w: x.cov(aweights=w), "fp32[8, 64]", weights)
    assert method.macs() == 8 * rows
    assert weighted.bytes("minimal") == 4 * (rows + 64 + 64) + 8 * 64
    step = trace(lambda x, w: torch.cov(x, aweights=w), "fp32[8, 64]", weights, input_gradients=True)
    assert step.macs() == 3 * 8 * rows
    loss = trace(lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), *("fp32[8, 64]",) * 2, "fp32[8]")
    assert loss.bytes("minimal") == 4 * (2 * rows + 8 + 1)


def test_the_gradient_of_windows_is_added_up():
    step = trace(lambda x: x.unfold(1, 8, 4).pow(2).sum(), "fp32[8, 64]", input_gradients=True)
    assert step.only(name="unfold_backward").flops("all") == 8 * 15 * 8


@pytest.mark.filterwarnings("ignore")
def test_a_linear_layer_that_is_quantised_as_it_runs():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
    packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    found = trace(packed, "fp32[3, 16]")
    assert (found.macs(), found.complete) == (3 * 16 * 32, True)
    assert {key.dtype for key, _ in found.ops[0].work.items() if key.place == "matrix"} == {"int8"}
    assert found.ops[0].work.total("flops", "vector") == 3 * 3 * 16 + 2 * 3 * 32
    assert found.only(name="linear_dynamic").bytes() == 4 * 3 * 16 + 16 * 32 + 4 * 32 + 4 * 3 * 32


def test_a_linear_layer_on_sequences_of_different_lengths():
    def program(rows, weight):
        nested = torch.nested.nested_tensor_from_jagged(rows, torch.tensor([0, 2, 6]), min_seqlen=2, max_seqlen=4)
        return F.gelu(F.linear(nested, weight)).values()

    found = trace(program, "fp32[6, 8]", "fp32[4, 8]")
    assert (found.macs(), found.complete) == (6 * 8 * 4, True)


def test_gradients_of_a_recurrent_layer_that_nobody_asks_for_are_not_counted():
    """Two layers: the products of the weights with the input and with the hidden state, and their gradients."""
    step, first, second, hidden = 4 * 10, 32 * 3 * 64, 64 * 3 * 64, 64 * 3 * 64
    layer = nn.GRU(32, 64, 2, batch_first=True)
    once = step * (first + second + 2 * hidden)
    assert trace(layer, "fp32[4, 10, 32]", backward=True).macs() == 3 * once - step * first
    x = torch.empty(4, 10, 32, device="meta", requires_grad=True)
    assert trace(layer, x, backward=True).macs() == 3 * once
    layer.weight_ih_l1.requires_grad_(False)
    assert trace(layer, x, backward=True).macs() == 3 * once - step * second


def test_each_direction_of_a_recurrent_layer_writes_its_half():
    layer = nn.LSTM(32, 64, 2, bidirectional=True)
    weights = sum(weight.numel() for weight in layer.parameters())
    states = 2 * 4 * 4 * 64
    state = ("fp32[4, 4, 64]",) * 2
    found = trace(lambda x, h, c: layer(x, (h, c)), "fp32[10, 4, 32]", *state)
    inputs, outputs = 10 * 4 * 32, 10 * 4 * 128
    assert found.bytes("minimal") == 4 * (weights + inputs + outputs + 2 * states)
    assert found.bytes() == 4 * (weights + 2 * inputs + outputs + 2 * states + outputs * 3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_gradients_of_every_layer_are_given_back(kind):
    """Read or written once each: parameters, input and results, and the gradients of them."""
    layer = kind(4, 5, 3, bidirectional=True)
    weights, states = sum(weight.numel() for weight in layer.parameters()), 2 if kind is nn.LSTM else 1
    x = torch.empty(6, 2, 4, device="meta", requires_grad=True)
    results = 6 * 2 * 10 + states * 6 * 2 * 5
    assert trace(layer, x, backward=True).bytes("minimal") == 4 * 2 * (weights + x.numel() + results)


@pytest.mark.parametrize(("call", "each"), [
    (F.elu, 4), (F.celu, 4), (F.hardsigmoid, 4), (F.hardshrink, 3), (F.softshrink, 3), (torch.logit, 3),
    (lambda x: torch.hypot(x, x), 4), (lambda x: torch.add(x, x, alpha=3), 2), (lambda x: x - x, 1),
])  # fmt: skip
def test_a_function_counts_what_its_formula_has(call, each):
    assert trace(call, "fp32[10, 10]").flops("all") == each * 100


def test_sums_of_segments():
    lengths = torch.tensor([50, 30, 20])
    found = trace(lambda x: torch.segment_reduce(x, "sum", lengths=lengths), "fp32[100, 16]")
    assert (found.complete, found.flops("all")) == (True, 1600)


@pytest.mark.parametrize(("size", "value_size"), [(64, 64), (192, 128), (64, 128)])
@pytest.mark.parametrize("recompute", [True, False], ids=["scores made again", "probabilities kept"])
def test_gradients_over_values_of_another_size_than_keys(size, value_size, recompute):
    shapes = [(2, 3, 16, size), (2, 3, 300, size), (2, 3, 300, value_size)]
    given = [f"bf16{list(shape)}" for shape in shapes]
    options = {"backward": True, "input_gradients": True, "recompute_attention": recompute}
    program = trace(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *given, **options)
    pairs = 2 * 3 * 16 * 300
    forward, again = 2 * pairs * (size + value_size), 2 * pairs * size
    backward = flop_counter.sdpa_backward_flop_count((*shapes[0][:-1], value_size), *shapes)  # scores made again
    assert backward == 2 * forward + again
    assert program.flops() == forward + backward - (0 if recompute else again)
    (last,) = [op for op in program.ops if op.name.endswith("backward")]
    assert last.work.total("flops") - backward + (0 if recompute else again) == 4 * pairs  # p = exp(s − l), p·(dp − δ)
