"""Laws of tracing: linear in the batch, training three times forward, whatever the call and its form, nothing left."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import nn
from torch.utils.checkpoint import checkpoint

import roofline
from roofline.ops.attention import FUSED_ATTENTION
from roofline.ops.counting import CONVENTIONS
from roofline.programs import trace
from roofline.programs.pytorch import operators
from roofline.programs.pytorch.tensors import tensors_in
from roofline.sizes import symbol
from tests.programs import networks, process_groups
from tests.strategies import few

SIZES = st.integers(1, 48)


def _encoder(**options):
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0, **options)


@few(6)
@given(batch=st.integers(1, 9))
def test_counts_are_linear_in_the_batch(batch):
    one, many = (trace(_encoder(), f"fp32[{n}, 8, 32]") for n in (1, batch))
    whole = [name for name in CONVENTIONS if name not in ("all", "elementwise")]
    assert all(many.flops(name) == batch * one.flops(name) for name in whole)
    assert many.flops("all") - many.flops() == batch * (one.flops("all") - one.flops())


@few(10)
@given(m=SIZES, k=SIZES, n=SIZES)
def test_training_is_three_forwards(m, k, n):
    x = torch.empty(m, k, device="meta", requires_grad=True)
    model = nn.Linear(k, n)
    assert trace(model, x, backward=True).flops() == 3 * trace(model, x).flops() == 6 * m * k * n


@few(20)
@given(
    sizes=st.tuples(*(st.integers(1, 4),) * 3, st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    pad=st.integers(0, 2),
    dilation=st.integers(1, 2),
    transposed=st.booleans(),
)
def test_convolution_against_a_loop(sizes, stride, pad, dilation, transposed):
    b, c, o, g, k = sizes
    kind = nn.ConvTranspose1d if transposed else nn.Conv1d
    pad = min(pad, dilation * (k - 1)) if transposed else pad
    layer = kind(c * g, o * g, k, stride, pad, dilation=dilation, groups=g, bias=False)
    x = torch.empty(b, c * g, 9, device="meta", requires_grad=True)
    length = layer(torch.zeros(1, c * g, 9)).shape[-1]
    slid, seen = (9, length) if transposed else (length, 9)
    valid = sum(0 <= i * stride - pad + t * dilation < seen for i in range(slid) for t in range(k))
    traced = trace(layer, x, backward=True)
    each = b * g * c * o
    assert traced.only(phase="forward").macs() == each * slid * k
    assert traced.flops("valid") == 3 * 2 * each * valid
    assert traced.only(phase="backward").macs() == 2 * each * slid * k


@few(10)
@given(S=st.integers(1, 40), T=st.integers(1, 40))
def test_a_causal_mask_is_found_however_it_is_written(S, T):
    q, kv = f"bf16[2, 4, {S}, 8]", f"bf16[2, 4, {T}, 8]"
    seen = sum(min(i + 1, T) for i in range(S))

    def flag(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def boolean(q, k, v):
        mask = torch.ones(S, T, dtype=torch.bool, device=q.device).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def added(q, k, v):
        mask = torch.full((S, T), float("-inf"), device=q.device).triu(1)
        return F.scaled_dot_product_attention(q, k, v, mask.to(q.dtype))

    counts = {trace(f, q, kv, kv).flops() for f in (flag, boolean, added)}
    assert counts == {2 * 2 * 4 * (8 + 8) * seen}


def test_a_mask_of_data_is_counted_whole_and_said_so():
    def masked(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)

    traced = trace(masked, *("bf16[1, 2, 8, 4]",) * 3, "bf16[8, 8]")
    assert traced.flops() == 2 * 2 * 8 * 8 * 8
    assert "the values of an attention mask are not known: every score is counted" in traced.assumptions


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.BatchNorm1d(4, track_running_stats=False), (3, 4)), (nn.InstanceNorm1d(4, affine=True), (3, 4, 5)),
     (nn.GRU(4, 3), (2, 1, 4)), (nn.LSTM(4, 3), (2, 1, 4)), (nn.LayerNorm(4), (3, 4))],
)  # fmt: skip
def test_training_moves_weights_their_gradients_input_and_loss_and_nothing_that_nobody_asks_for(layer, shape):
    """No gradient of the input, no last state of a recurrent layer."""

    def step(x):
        out = layer(x)
        return (out if isinstance(out, torch.Tensor) else out[0]).sum()

    weights, data = sum(p.nbytes for p in layer.parameters()), torch.zeros(shape)
    assert trace(step, data, backward=True).bytes("minimal") == 2 * weights + data.nbytes + 4


def test_flex_attention_asks_its_mask():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def window(q, k, v):
        def near(b, h, i, j):
            return (i >= j) & (i - j < 16)

        block = create_block_mask(near, None, None, q.shape[2], k.shape[2], device=q.device)
        return flex_attention(q, k, v, block_mask=block)

    q = [torch.empty(2, 4, 128, 32, device="meta", requires_grad=True) for _ in range(3)]
    forward = trace(window, *q).flops()
    pairs = sum(min(i + 1, 16) for i in range(128))
    assert forward == 2 * 2 * 4 * 64 * pairs
    assert trace(window, *q, backward=True).flops() == forward + 5 * forward // 2
    opened = trace(window, *["fp32[B, 4, S, 32]"] * 3)
    assert opened.flops().subs({symbol("B"): 2, symbol("S"): 128}) == forward
    assert opened.assumptions[0] == "the mask of flex attention is looked at: scores it lets through count"


def test_flex_attention_reads_the_keys_that_its_mask_shows():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def window(q, k, v):
        block = create_block_mask(lambda b, h, i, j: (j <= i + 48) & (j > i + 40), None, None, 16, 64, device=q.device)
        return flex_attention(q, k, v, block_mask=block)

    traced = trace(window, "fp32[2, 4, 16, 32]", "fp32[2, 4, 64, 32]", "fp32[2, 4, 64, 32]")
    (op,) = (op for op in traced.ops if op.kind == "attention")
    assert [each.traffic_elements for each in op.reads[1:3]] == [2 * 4 * (8 + 15) * 32] * 2


@pytest.mark.parametrize(("rule", "batches", "heads", "kv_heads"), [
    (lambda b, h, i, j: (j < 32) == (b == 0), 2, None, 4),
    (lambda b, h, i, j: j // 16 == h + 0 * (b + i), None, 4, 2),
])  # fmt: skip
def test_flex_attention_reads_the_keys_of_each_entry_and_head_of_keys(rule, batches, heads, kv_heads):
    """As attention does that has the same mask as values: half of the keys in each entry, or in each head of keys."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block = create_block_mask(rule, batches, heads, 64, 64, device="cpu")
    axes = [torch.arange(size or 1) for size in (batches, heads, 64, 64)]
    mask = rule(*(axis.view(-1, *[1] * (3 - at)) for at, axis in enumerate(axes)))
    mask = mask.expand(batches or 1, heads or 1, 64, 64)

    def flex(q, k, v):
        return flex_attention(q, k, v, block_mask=block, enable_gqa=True)

    def by_values(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    shapes = ("bf16[2, 4, 64, 8]", *(f"bf16[2, {kv_heads}, 64, 8]",) * 2)
    for program in (flex, by_values):
        (op,) = (op for op in trace(program, *shapes).ops if op.kind == "attention")
        assert [each.traffic_elements for each in op.reads[1:3]] == [2 * kv_heads * 32 * 8] * 2


def test_gradient_checkpointing_adds_a_forward():
    block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    x = torch.empty(4, 16, device="meta", requires_grad=True)
    plain = trace(block, x, backward=True).flops()
    again = trace(lambda t: checkpoint(block, t, use_reentrant=False), x, backward=True).flops()
    assert again == plain + plain // 3


class Pair(NamedTuple):
    left: object
    right: object


@dataclass
class Answer:
    loss: object
    words: object


@pytest.mark.parametrize("form", [Pair, Answer, lambda *parts: parts, lambda *parts: {"a": {"b": list(parts)}}])
def test_the_form_of_what_goes_in_and_comes_out_does_not_matter(form):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 16, bias=False)

        def forward(self, given):
            return form(self.inner(given.left), given.right)

    found = trace(Model(), Pair("fp32[4, 8]", "fp32[4, 8]"), backward=True)
    assert found.flops() == 2 * 2 * 4 * 8 * 16  # the kernel's gradient; the input needs none
    assert found.inputs == ("Pair",)


def test_the_form_of_a_call_does_not_matter():
    a, b = "fp32[6, 8]", "fp32[8, 5]"
    forms = [torch.mm, torch.matmul, lambda a, b: a @ b, lambda a, b: torch.einsum("ij,jk->ik", a, b),
             lambda a, b: F.linear(a, b.T), lambda a, b: torch.addmm(torch.zeros(5), a, b)]  # fmt: skip
    assert {trace(form, a, b).flops() for form in forms} == {2 * 6 * 8 * 5}


@pytest.mark.parametrize(("layer", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers(layer, gates):
    model = layer(16, 32, num_layers=2, bidirectional=True)
    traced = trace(model, "fp32[5, 3, 16]")
    one = 5 * 3 * gates * 32
    assert traced.macs() == 2 * one * (16 + 32) + 2 * one * (64 + 32)
    x = torch.empty(5, 3, 16, device="meta", requires_grad=True)
    assert trace(model, x, backward=True).macs() == 3 * traced.macs()


def test_bytes_of_views_lookups_and_expanded_tensors():
    assert trace(lambda x: x.T.view(8, 4).unsqueeze(0), "fp32[4, 8]").bytes() == 0
    assert trace(nn.Embedding(1000, 64), "int64[4]").bytes() == 2 * 4 * 64 * 4 + 4 * 8
    added = trace(lambda x, y: x + y.expand(8, 4), "fp32[8, 4]", "fp32[1, 4]")
    assert added.bytes() == 32 * 4 + 4 * 4 + 32 * 4


def test_a_tied_table_is_streamed_once_in_the_floor():
    traced = trace(networks.on_shapes(networks.GPT2), "int64[1, 1]")
    weights = 4 * (124_439_808 - 1024 * 768)
    assert 0 < traced.bytes("minimal") - weights < 4 * (768 + 50257 + 100)


def test_where_and_source_of_forward_and_backward():
    traced = trace(networks.on_shapes(networks.GPT2), "int64[1, 8]", backward=True)
    matmuls = [op for op in traced.ops if op.kind == "contraction"]
    assert {op.where for op in matmuls if op.phase == "forward"} == {
        op.where for op in matmuls if op.phase == "backward"
    }
    assert all(op.options["source"].startswith("networks.py:") for op in matmuls)
    assert traced.under("layers.3.mlp.0").flops() == 3 * 2 * 8 * 768 * 3072


def test_a_function_that_trains_itself():
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    before = model.weight.detach().clone()
    traced = trace(step, "fp32[4, 8]")
    assert traced.flops() == 2 * 2 * 4 * 8 * 8
    assert {op.phase for op in traced.ops} == {"forward", "backward", "optimizer"}
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None
    assert optimizer.param_groups[0]["params"][0] is model.weight


def test_nothing_survives_the_call():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(2))
    model(torch.zeros(2, 3, 8, 8))
    names = {name: id(t) for name, t in (*model.named_parameters(), *model.named_buffers())}
    values = {name: t.detach().clone() for name, t in model.state_dict().items()}
    functions = {name: id(vars(torch)[name]) for name in vars(torch) if callable(vars(torch)[name])}
    functionals = {name: id(vars(F)[name]) for name in vars(F)}
    calls = nn.Module.__call__, nn.Module._call_impl, torch.Tensor.backward, torch.autograd.backward
    for run in (lambda: trace(model, "fp32[2, 3, 8, 8]", optimizer="adam"), lambda: trace(model, "fp32[2, 4, 8, 8]")):
        try:
            run()
        except roofline.RooflineError:
            continue
        finally:
            assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0
            assert {n: id(t) for n, t in (*model.named_parameters(), *model.named_buffers())} == names
            assert all(torch.equal(t, values[n]) for n, t in model.state_dict().items())
            assert all(p.grad is None for p in model.parameters())
            assert {n: id(vars(torch)[n]) for n in functions} == functions
            assert {n: id(vars(F)[n]) for n in vars(F)} == functionals
            after = nn.Module.__call__, nn.Module._call_impl, torch.Tensor.backward, torch.autograd.backward
            assert after == calls
            assert torch.is_grad_enabled()
            assert not model[0]._forward_hooks
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).sum() == 8


class Remembering(nn.Module):
    """A layer that keeps things for its next call, in each way that layers do."""

    def __init__(self):
        super().__init__()
        self.bias, self.places, self.kept, self.last = nn.Linear(4, 4), torch.arange(4), {}, []

    def forward(self, x):
        if "table" not in self.kept:
            self.kept["table"] = self.bias.weight[:, self.places]
        if not hasattr(self, "rotation"):
            self.rotation = torch.ones(4, device=x.device) * self.bias.bias
            self.register_buffer("mask", x > 0, persistent=False)
        self.last.append(x)
        self.places = self.places + 0 * x[0].int()
        return x @ self.kept["table"] + self.rotation


def test_what_a_layer_keeps_for_its_next_call_is_not_that_of_the_trace():
    model = Remembering()
    first, again = trace(model, "fp32[2, 4]", backward=True), trace(model, "fp32[3, 4]", backward=True)
    assert [op.name for op in first.ops] == [op.name for op in again.ops]
    assert not model.kept
    assert not model.last
    assert not hasattr(model, "rotation")
    assert not hasattr(model, "mask")
    assert model.places.tolist() == [0, 1, 2, 3]
    assert model(torch.ones(2, 4)).shape == (2, 4)


def test_an_operation_without_a_rule_is_a_gap_never_zero():
    traced = trace(lambda x: torch.linalg.svd(x).S @ x, "fp32[16, 16]")
    (gap,) = traced.listed_gaps()
    assert (gap.name, gap.count, gap.bytes) == ("aten._linalg_svd", 1, 4 * (3 * 256 + 16))
    assert not traced.complete
    assert any("_linalg_svd" in line for line in traced.bound("h100").incomplete)
    assert trace(nn.Linear(4, 4), "fp32[4, 4]").bound("h100").incomplete == ()


def test_a_rule_of_ones_own():
    from roofline.programs.pytorch.registry import find, pricing, rule

    listed = find("aten._linalg_svd")
    assert not trace(torch.linalg.svd, "fp32[16, 16]").complete
    try:

        @rule("_linalg_svd")
        def svd(call):
            return pricing.vector("svd", "factorization", call.reads, call.writes, flops=1000)

        assert trace(torch.linalg.svd, "fp32[16, 16]").flops("all") == 1000
    finally:
        rule("_linalg_svd")(listed)


def test_a_rule_of_ones_own_stands_before_the_shipped_one_that_is_read_later():
    script = """
from roofline.programs.onnx.registry import find, rule
own = rule("Conv")(lambda call: None)
print(find("MatMul") is not None, find("Conv") is own)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]


def test_sharded_modules_show_local_shapes_and_collectives():
    found = process_groups.run("""
model = nn.Sequential(nn.Linear(512, 2048, bias=False), nn.GELU(), nn.Linear(2048, 512, bias=False))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
traced = trace(model, "fp32[64, 512]")
(found,) = traced.collectives()
sent = int(found.work.total("wire"))
print(json.dumps([traced.flops(), found.name, found.dims["devices"], sent, traced.complete]))
""")
    assert found == [2 * 2 * 64 * 512 * 256, "all_reduce", 8, 2 * 7 * 64 * 512 * 4 // 8, True]


def test_comparison_of_shapes_and_with_a_hand_count():
    model = networks.on_shapes(networks.vgg16)
    one, two = (trace(model, f"fp32[{n}, 3, 224, 224]") for n in (1, 2))
    found = two.diff(one)
    assert found.lines[0][1:] == (2 * 30_940_528_640, 30_940_528_640)
    assert {line.ratio for line in found.changed if line.what != "bytes"} == {2.0}
    (line,) = one.check(30_940_528_640)
    assert line.equal
    assert one.check({"0": 2 * 64 * 27 * 224 * 224})[0].equal
    with pytest.raises(roofline.RooflineError, match="nothing in Sequential is called 'convolutoin'; did you mean"):
        one.check({"convolutoin": 1})
    with pytest.raises(roofline.RooflineError, match="parts are: total, bytes") as error:
        one.check({"elsewhere": 1})
    assert ", ," not in str(error.value)


def test_two_shapes_of_one_module_are_told_apart():
    one, two = (trace(nn.Linear(8, 8), f"fp32[{n}, 8]") for n in (1, 2))
    console = Console(width=120, file=StringIO())
    console.print(two.diff(one))
    shown = console.file.getvalue()
    assert "Linear fp32[2, 8] beside Linear fp32[1, 8], counted as flops" in shown


def test_importing_the_package_imports_no_framework():
    code = "import sys, roofline, roofline.programs; print([m for m in ('torch', 'jax', 'onnx') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_of_a_result_with_a_loss_only_that_is_differentiated():
    class Model(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return {"loss": y.square().mean(), "scores": y}

    found = trace(Model(8, 8), "fp32[4, 8]", backward=True)
    assert [op.writes[0].dims for op in found.ops if op.name == "ones_like"] == [()]
    assert found.flops() == 2 * 2 * 4 * 8 * 8


def test_the_gradient_of_a_result_is_given_from_outside_to_torch_and_jax_alike():
    """What comes after writes it: it is read where it is needed and written by no operation; that of a loss is one."""
    layer = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False, dtype=torch.float16)
    x, weight, y = 2 * 8 * 3 * 224 * 224, 2 * 64 * 3 * 49, 2 * 8 * 64 * 112 * 112
    step = trace(layer, "fp16[8, 3, 224, 224]", backward=True)
    assert [op.name for op in step.ops] == ["conv", "conv_backward_weight"]
    assert step.bytes() == 2 * (x + weight + y)
    assert step.bound("v100").footprint.parts["gradient"] == y + weight

    pytest.importorskip("jax")
    shapes = "bf16[64, 32]", "bf16[32, 16]"
    product = trace(lambda a, b: a @ b, *shapes, backward=True, frontend="jax")
    inputs = [
        torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True) for shape in ((64, 32), (32, 16))
    ]
    assert product.bytes() == 3 * 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert trace(lambda a, b: a @ b, *inputs, backward=True).bytes() == product.bytes()


def test_the_scores_of_attention_are_made_again_or_their_probabilities_are_moved():
    """The gradient has five products in place of two, as in a step of training; with kept probabilities four."""
    q, k, v = (torch.empty(2, 4, 128, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3))
    fused, kept = (
        trace(F.scaled_dot_product_attention, q, k, v, backward=True, recompute_attention=again)
        for again in (True, False)
    )
    pairs = 2 * 4 * 128 * 128
    assert fused.flops() == (2 + 5) * pairs * 2 * 64
    assert kept.flops() == (2 + 4) * pairs * 2 * 64
    assert kept.bytes() == fused.bytes() + 2 * 2 * pairs
    assert fused.assumptions == (FUSED_ATTENTION,)
    assert "probabilities of attention are written" in kept.assumptions[0]
    assert FUSED_ATTENTION in roofline.train("llama-3-8b", on="h100:8", batch_tokens="1M", fsdp=8).assumed()


ATEN, META = torch.ops.aten, {"device": "meta"}
WIDE, CUBE = torch.empty(4, 6, **META), torch.empty(2, 3, 4, 5, **META)


@pytest.mark.parametrize(
    ("func", "args", "is_kept"),
    [
        (ATEN.mul.Tensor, (WIDE, WIDE), True),
        (ATEN.mul.Tensor, (WIDE.to(torch.int32), 2.5), True),
        (ATEN.add.Tensor, (WIDE, WIDE.t().contiguous().t()), True),
        (ATEN.relu.default, (CUBE.to(memory_format=torch.channels_last),), True),
        (ATEN.native_layer_norm.default, (WIDE, [6], None, None, 1e-5), True),
        (ATEN.native_batch_norm.default, (CUBE, None, None, None, None, True, 0.1, 1e-5), True),
        (ATEN.cat.default, ([WIDE, WIDE.clone()], 1), True),
        (ATEN.topk.default, (WIDE, 2), True),
        (ATEN.mul.Tensor, (WIDE, torch.empty((), dtype=torch.float64, **META)), False),  # may stand for 2.5
        (ATEN.t.default, (WIDE,), False),
        (ATEN.reshape.default, (WIDE, [24]), False),
        (ATEN.split.Tensor, (WIDE, 2), False),
    ],
)
def test_a_result_that_is_kept_is_what_pytorch_gives(func, args, is_kept, monkeypatch):
    monkeypatch.setattr(operators, "KEPT", {})

    def said(found):
        return [(each.shape, each.stride(), each.dtype, each.is_meta) for each in tensors_in(found)]

    first, again = (operators.results_of(func, args, {}) for _ in range(2))
    assert len(operators.KEPT) == is_kept
    assert said(first) == said(again) == said(func(*args))
    assert type(again) is type(func(*args))
    assert not {id(each) for each in tensors_in(first)} & {id(each) for each in tensors_in((again, args))}


def test_kept_results_follow_the_default_type_and_the_kind_of_a_number(monkeypatch):
    monkeypatch.setattr(operators, "KEPT", {})
    whole = WIDE.to(torch.int32)

    def dtypes():
        asked = ((ATEN.exp.default, ()), (ATEN.mul.Tensor, (2,)), (ATEN.mul.Tensor, (2.0,)), (ATEN.mul.Tensor, (True,)))
        return [operators.results_of(func, (whole, *more), {}).dtype for func, more in asked]

    assert dtypes() == [torch.float32, torch.int32, torch.float32, torch.int32]
    torch.set_default_dtype(torch.float64)
    try:
        assert dtypes() == [torch.float64, torch.int32, torch.float64, torch.int32]
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(operators.KEPT) == 8
    monkeypatch.setattr(operators, "MOST", 8)
    operators.results_of(ATEN.exp.default, (WIDE,), {})
    assert len(operators.KEPT) == 1


def _by_hand(q, k, v):
    return torch.softmax(q.transpose(1, 2) @ k.permute(0, 2, 3, 1), -1) @ v.transpose(1, 2)


HEADS = ("fp32[2, 3, 4, 8]",) * 3


@pytest.mark.parametrize(
    ("program", "inputs", "results"),
    [
        (_by_hand, HEADS, 2 * 4 * 3 * 8),
        (lambda q, k, v: torch.einsum("bhst,bthd->bshd", torch.einsum("bshd,bthd->bhst", q, k), v), HEADS, 192),
        (lambda x, w: F.linear(x.transpose(1, 2), w), ("fp32[2, 5, 4]", "fp32[6, 5]"), 2 * 4 * 6),
        (lambda w, x: (w @ x) * 2, ("fp32[3, 4]", "fp32[2, 4, 5]"), 30),
        (lambda *qkvm: F.scaled_dot_product_attention(*qkvm), (*HEADS, "fp32[3, 4, 4]"), 192),
        (lambda x: F.pad(x, (2, 1), mode="reflect"), ("fp32[2, 5]",), 16),
        (lambda x, y: x @ y.transpose(1, 2), ("fp32[2, 1, 4, 5]", "fp32[3, 6, 5]"), 2 * 3 * 4 * 6),
        (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True), ("fp32[2, 5, 8]",), 80),
        (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), ("fp32[2, 5, 8]",), 80),
        (nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()), ("fp32[2, 5, 8]",), 80),
        (lambda x, w: checkpoint(lambda x: F.gelu(x) @ w, x * 2, use_reentrant=True), ("fp32[5, 8]", "fp32[8, 4]"), 20),
    ],
)
def test_training_moves_all_that_it_is_given_and_gives_and_gradients_of_these(program, inputs, results):
    """At least each once: no copy that a function made, nothing worked out again, results that gradients read too."""
    found = trace(program, *inputs, input_gradients=True)
    own = sum(p.numel() for p in program.parameters()) if isinstance(program, nn.Module) else 0
    given = sum(math.prod(map(int, re.findall(r"\d+", text.partition("[")[2]))) for text in inputs)
    assert found.bytes("minimal") == 4 * 2 * (own + given + results)


@pytest.mark.parametrize(
    ("options", "length", "reached"),
    [({"stride": 2}, 8, 7), ({"stride": 3, "padding": 1}, 10, 10), ({"stride": 4, "dilation": 3}, 9, 3), ({}, 8, 8)],
)
def test_the_gradient_of_a_kernel_reads_what_its_windows_reach(options, length, reached):
    def program(x, w):
        return F.conv1d(x, w, **options)

    results = program(torch.empty(1, 2, length), torch.empty(3, 2, 3)).numel()
    found = trace(program, f"fp32[1, 2, {length}]", torch.empty(3, 2, 3, requires_grad=True), backward=True)
    assert found.bytes("minimal") == 4 * (2 * reached + 2 * 18 + 2 * results)


def test_a_learned_bias_of_scores_has_a_gradient_that_is_added_up():
    """Of two heads and three entries, 4 queries and 5 keys: of 120 scores 20 are left."""

    def attend(q, k, bias):
        return F.scaled_dot_product_attention(q, k, k, attn_mask=bias)

    def gradient(*learned):
        shapes = ((3, 2, 4, 8), (3, 2, 5, 8), (4, 5))
        given = [torch.empty(shape, requires_grad=place in learned) for place, shape in enumerate(shapes)]
        (op,) = trace(attend, *given, backward=True).only(phase="backward").ops
        vector = sum(amount for key, amount in op.work.items() if key.place == "vector")
        return vector, [t.dims for t in op.writes]

    plain, learned = gradient(0), gradient(2)
    assert (plain[1], learned[1]) == ([(3, 2, 4, 8)], [(4, 5)])
    assert learned[0] - plain[0] == 120 - 20
