"""One price: a line of the notation and the traced program that does the same have the same FLOPs and bytes."""

from __future__ import annotations

import pytest

from roofline.bounds.traffic import traffic
from roofline.notation import program
from roofline.ops.build import build
from roofline.ops.recurrent import CELLS
from roofline.programs import trace

torch = pytest.importorskip("torch")
F = torch.nn.functional

#: A line, a function of PyTorch, the shapes that the function takes.
SAME = {
    "matmul": ("bf16[64, 32] * bf16[32, 48] -> bf16[64, 48]", lambda x, w: x @ w, [(64, 32), (32, 48)]),
    "softmax": ("softmax(bf16[8, 32])", lambda x: F.softmax(x, -1), [(8, 32)]),
    "log softmax": ("log_softmax(bf16[8, 32])", lambda x: F.log_softmax(x, -1), [(8, 32)]),
    "layer norm": (
        "layer_norm(bf16[8, 32], bf16[32], bf16[32])",
        lambda x, g, b: F.layer_norm(x, (32,), g, b),
        [(8, 32), (32,), (32,)],
    ),
    "gelu": ("gelu(bf16[8, 32])", F.gelu, [(8, 32)]),
    "gelu by tanh": ("gelu_tanh(bf16[8, 32])", lambda x: F.gelu(x, approximate="tanh"), [(8, 32)]),
    "add": ("bf16[8, 32] + bf16[8, 32]", lambda x, y: x + y, [(8, 32), (8, 32)]),
    "sum": ("sum_D(bf16[B, D])", lambda x: x.sum(-1), [(8, 32)]),
    "running sum": ("cumsum(bf16[8, 32])", lambda x: x.cumsum(-1), [(8, 32)]),
    "max pool": ("pool(bf16[2, 9, 9, 4], window=3, stride=2)", lambda x: F.max_pool2d(x, 3, 2), [(2, 4, 9, 9)]),
    "convolution": (
        "conv(bf16[2, 9, 9, 4], bf16[3, 3, 4, 8], stride=2, pad=1)",
        lambda x, w: F.conv2d(x, w, stride=2, padding=1),
        [(2, 4, 9, 9), (8, 4, 3, 3)],
    ),
    "transposed convolution": (
        "conv_transpose(bf16[2, 9, 9, 4], bf16[3, 3, 4, 8], stride=2, pad=1)",
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        [(2, 4, 9, 9), (4, 8, 3, 3)],
    ),
    "causal attention": (
        "attention(bf16[2, 16, 8, 64], bf16[2, 16, 8, 64], bf16[2, 16, 8, 64], causal)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 8, 16, 64)] * 3,
    ),
    "causal attention of few queries": (  # the keys behind the last query are hidden from all
        "attention(bf16[2, 16, 8, 64], bf16[2, 16, 8, 64], bf16[2, 16, 8, 64], causal)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 8, 16, 64), (2, 8, 64, 64), (2, 8, 64, 64)],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_line_and_a_traced_program_cost_the_same(name: str) -> None:
    line, function, shapes = SAME[name]
    ours = build(program(line), {"B": 8, "D": 32} if name == "sum" else {})
    theirs = trace(function, *(torch.empty(shape, dtype=torch.bfloat16) for shape in shapes)).ops
    assert [sum(op.work.total("flops", unit) for op in ours) for unit in ("matrix", "vector")] == [
        sum(op.work.total("flops", unit) for op in theirs) for unit in ("matrix", "vector")
    ]
    assert sum(work.total("bytes") for work in traffic(ours)) == sum(work.total("bytes") for work in traffic(theirs))
    sizes = [
        {key: op.dims[key] for key in ("m", "n", "k", "batch", "pairs") if key in op.dims} for op in (*ours, *theirs)
    ]
    assert sizes[0] == sizes[-1]


@pytest.mark.parametrize(
    ("name", "function", "shapes", "flops"),
    [
        ("a scaled sum", lambda x, y: torch.add(x, y, alpha=2), [(8, 32), (8, 32)], 2 * 8 * 32),
        ("group norm", lambda x: F.group_norm(x, 4), [(2, 8, 6)], 5 * 2 * 8 * 6 + 2 * 2 * 4),
        ("max pool", lambda x: F.max_pool1d(x, 3), [(2, 4, 9)], 2 * 4 * 3 * 2),
        ("distances", lambda x, y: torch.cdist(x, y, p=1.0), [(5, 16), (7, 16)], 3 * 5 * 7 * 16),
    ],
)
def test_prices_that_profile_and_trace_disagreed_on(name: str, function: object, shapes: list, flops: int) -> None:
    found = trace(function, *(torch.empty(shape) for shape in shapes)).ops
    assert sum(op.work.total("flops") for op in found) == flops, name


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_layer_multiplies_by_every_weight_and_counts_its_cell(cell: str) -> None:
    width, hidden, steps, batch = 16, 8, 5, 3
    layer = getattr(torch.nn, cell.upper())(width, hidden, num_layers=2, bidirectional=True)
    found = trace(layer, torch.empty(steps, batch, width)).ops
    gates, element, _ = CELLS[cell]
    each = steps * batch * gates * hidden
    matrix = 2 * each * 2 * ((width + hidden) + (2 * hidden + hidden))
    assert sum(op.work.total("flops", "matrix") for op in found) == matrix
    assert sum(op.work.total("flops", "vector") for op in found) == element * steps * batch * hidden * 4
