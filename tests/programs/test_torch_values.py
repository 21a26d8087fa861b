"""Programs that need some values: ragged batches, quantised modules, indices; and what counts as a parameter."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization as quantization
import torch.nn.functional as F
from torch import nn

from roofline.errors import InputError
from roofline.programs import trace

pytestmark = pytest.mark.filterwarnings("ignore")


def ragged(*lengths):
    return torch.nested.nested_tensor([torch.randn(n, 64) for n in lengths], layout=torch.jagged)


def attended(x, causal=False):
    q = x.unflatten(-1, [4, 16]).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=causal)


def test_sequences_of_a_ragged_batch_see_only_themselves():
    found = trace(attended, ragged(5, 9))
    assert found.flops() == 4 * (5 * 5 + 9 * 9) * 4 * 16
    assert found.inputs == ("fp32[2, j, 64]",)
    assert trace(nn.Linear(64, 32), ragged(5, 9)).flops() == 2 * 14 * 64 * 32


def test_the_gradient_of_ragged_attention():
    layer, ends = nn.Linear(64, 64), torch.tensor([0, 5, 14])

    def program(values):
        return attended(torch.nested.nested_tensor_from_jagged(layer(values), ends), causal=True).values()

    found = trace(program, "fp32[14, 64]", backward=True)
    pairs = 5 * 6 // 2 + 9 * 10 // 2
    assert found.flops() == 2 * 2 * 14 * 64 * 64 + (4 + 10) * pairs * 4 * 16
    assert found.complete


def test_a_nested_tensor_without_offsets_is_refused():
    nested = torch.nested.nested_tensor([torch.randn(5, 64), torch.randn(9, 64)])
    with pytest.raises(InputError, match=r"nested tensor without offsets; make it with layout=torch\.jagged"):
        trace(nn.Linear(64, 32), nested)


def quantised(layers, *shape):
    model = quantization.QuantWrapper(nn.Sequential(*layers)).eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    model = quantization.prepare(model)
    model(torch.randn(*shape))
    return quantization.convert(model)


def test_a_statically_quantised_network():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    found = trace(quantised([*layers, nn.Linear(8, 10)], 2, 3, 16, 16), "fp32[2, 3, 16, 16]")
    assert found.flops() == 2 * (2 * 8 * 16 * 16 * 27 + 2 * 8 * 10)
    assert found.parameters() == 8 * 27 + 8 + 8 * 10 + 10
    names = ["quantize_per_tensor", "conv2d", "relu", "max_pool2d", "adaptive_avg_pool2d", "linear", "dequantize"]
    assert [op.name for op in found.ops] == names
    assert {key.dtype for key in found.ops[1].work} == {"int8", "fp32"}
    assert found.ops[2].writes[0].dtype == "uint8"


def test_a_module_with_fake_quantisation():
    watch = quantization.FakeQuantize.with_args(observer=quantization.MovingAverageMinMaxObserver)
    found = trace(nn.Sequential(watch(), nn.Linear(64, 32)), "fp32[8, 64]")
    assert found.flops() == 2 * 8 * 64 * 32
    assert found.only(name="_fake_quantize_per_tensor_affine_cachemask_tensor_qparams").flops("all") == 7 * 8 * 64
    assert found.complete


def test_an_index_with_values():
    found = trace(lambda x, i: torch.take_along_dim(x, i, 1), "fp32[8, 64]", torch.zeros(8, 3, dtype=torch.int64))
    assert found.ops[-1].name == "gather"
    assert found.ops[-1].reads[0].traffic_bytes == 8 * 3 * 4


def test_parameters_are_counted_whole_and_buffers_are_not():
    assert trace(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval(), "fp32[1, 3, 8, 8]").parameters() == 240

    class Sliced(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows, self.more = nn.Embedding(100, 8), nn.Parameter(torch.randn(50, 8))
            self.register_buffer("scale", torch.ones(8))

        def forward(self, x):
            return self.rows(x) + self.more[:4] * self.scale + self.more[2:3]

    assert trace(Sliced(), "int64[2, 4]").parameters() == 100 * 8 + 50 * 8


def test_inputs_take_values_where_a_program_looks_at_them():
    found = trace(lambda x, which: x[which], "fp32[4, 8]", "bool[4] = true, false, true, false")
    assert found.ops[-1].writes[0].dims == (2, 8)
    assert trace(lambda x, n: x[: int(n)] * 2, "fp32[4, 8]", "int64[1] = 3").bytes() == 2 * 3 * 8 * 4
    with pytest.raises(InputError, match="holds 4 values, and 3 are given; give each, or one"):
        trace(torch.relu, "fp32[4] = 1, 2, 3")
    with pytest.raises(InputError, match="has values and an open size"):
        trace(torch.relu, "fp32[B] = 1")


def test_what_is_made_in_the_shape_of_another_tensor_has_values():
    """Its values do not depend on those of the other tensor, given or not: one row is picked, a mask is seen."""
    kinds = nn.Embedding(4, 8)
    for make in (torch.zeros_like, lambda ids: torch.full_like(ids, 3), lambda ids: ids.new_ones(ids.shape)):
        for ids in ("int64[2, 5]", torch.ones(2, 5, dtype=torch.int64)):
            assert trace(lambda ids, make=make: kinds(make(ids)), ids).bytes("minimal") == 4 * (8 + 2 * 5 * 8)

    def masked(q, k, v):
        mask = torch.ones_like(q[0, 0] @ k[0, 0].T, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    own = 2 * 6 * 6 * 4  # the scores whose shape it is
    pairs = 6 * 7 // 2
    assert trace(masked, *("fp32[1, 2, 6, 4]",) * 3).flops() == own + 2 * 2 * pairs * (4 + 4)
