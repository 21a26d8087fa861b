"""One price: a line of the notation and the traced program that does the same have the same FLOPs and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline.bounds.memory import traffic
from roofline.notation import program
from roofline.ops.recurrent import CELLS
from roofline.ops.rules import build
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
    "convolution with gaps between windows": (
        "conv(bf16[2, 9, 9, 4], bf16[1, 1, 4, 8], stride=2)",
        lambda x, w: F.conv2d(x, w, stride=2),
        [(2, 4, 9, 9), (8, 4, 1, 1)],
    ),
    "pool with gaps between windows": (
        "pool(bf16[2, 9, 9, 4], window=2, stride=3)",
        lambda x: F.max_pool2d(x, 2, 3),
        [(2, 4, 9, 9)],
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
    assert {key for op in ours for key in op.work} == {key for op in theirs for key in op.work}
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
        ("a sum of squares with its root", lambda x: x.norm(dim=1), [(4, 8)], 4 * 16),
        ("absolute values without a root", lambda x: x.norm(1, dim=1), [(4, 8)], 4 * 15),
        ("the largest absolute value", lambda x: x.norm(float("inf"), dim=1), [(4, 8)], 4 * 15),
        ("how many are not nought", lambda x: x.norm(0, dim=1), [(4, 8)], 4 * 15),
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


def test_gaps_between_windows_are_not_read_by_any_front_end() -> None:
    """1 x 1 windows every second place read a quarter of 8 x 8; so do both gradients where they read the input."""
    x, w = torch.randn(2, 4, 8, 8, requires_grad=True), torch.randn(6, 4, 1, 1, requires_grad=True)
    whole, quarter = 4 * x.numel(), x.numel()

    def amounts(ops: list) -> list:
        return [t.traffic_bytes for op in ops for t in op.reads if t.traffic_bytes in (whole, quarter)]

    def there_and_back(function):
        return lambda x, w, g: function(x, w, stride=2).backward(g)

    forward, *back = trace(there_and_back(F.conv2d), x, w, torch.randn(2, 6, 4, 4)).ops
    assert (forward.reads[0].traffic_bytes, forward.options["between"]) == (quarter, whole - quarter)
    assert [(op.name, op.options.get("between", 0)) for op in back if op.kind == "convolution"] == [
        ("conv_backward_input", 0),
        ("conv_backward_weight", whole - quarter),
    ]
    w = torch.randn(4, 6, 1, 1, requires_grad=True)
    forward, *back = trace(there_and_back(F.conv_transpose2d), x, w, torch.randn(2, 6, 15, 15)).ops
    left = 4 * 2 * 6 * (15 * 15 - 8 * 8)
    assert [op.options.get("between", 0) for op in (forward, *back) if op.kind == "convolution"] == [0, left, left]
    jax = pytest.importorskip("jax")
    shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 4, 8, 8), (6, 4, 1, 1))]
    conv = lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), "VALID")  # noqa: E731
    assert amounts(trace(conv, *shapes).ops) == [quarter]
    gradients = trace(jax.grad(lambda x, w: conv(x, w).sum(), argnums=(0, 1)), *shapes).ops
    assert amounts([op for op in gradients if op.kind == "convolution"]).count(whole) == 0
    pool = lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, 1, 1), (1, 1, 2, 2), "VALID")  # noqa: E731
    assert amounts(trace(pool, shapes[0]).ops) == [quarter]
    onnx = pytest.importorskip("onnx")
    helper, F32 = onnx.helper, onnx.TensorProto.FLOAT
    for kind, inputs, more in (
        ("Conv", {"x": (2, 4, 8, 8), "w": (6, 4, 1, 1)}, {}),
        ("MaxPool", {"x": (2, 4, 8, 8)}, {"kernel_shape": [1, 1]}),
    ):
        node = helper.make_node(kind, list(inputs), ["y"], strides=[2, 2], **more)
        made = [helper.make_tensor_value_info(name, F32, shape) for name, shape in inputs.items()]
        graph = helper.make_graph([node], "g", made, [helper.make_tensor_value_info("y", F32, None)])
        assert amounts(trace(helper.make_model(graph)).ops) == [quarter]


@pytest.mark.parametrize(
    "normalised",
    [
        lambda x: F.layer_norm(x, (8,)),
        lambda x: F.group_norm(x, 4),
        lambda x: F.batch_norm(x, None, None, training=True),
    ],
)
def test_norms_compute_in_the_format_of_what_they_normalise(normalised: Callable[[Any], Any]) -> None:
    """Whatever the statistics are in that PyTorch keeps for the backward pass."""

    def step(x: Any) -> Any:
        x = x.requires_grad_()
        return torch.autograd.grad(normalised(x).sum(), x)

    traced = trace(step, torch.empty((4, 8, 8), dtype=torch.bfloat16))
    assert {key.dtype for op in traced.ops for key in op.work} == {"bf16"}


@pytest.mark.parametrize(("exponent", "each"), [(2, 1), (3, 2), (4, 2), (7, 4), (-1, 1), (-2, 2), (1, 0)])
def test_a_whole_power_is_its_products_in_every_front_end(exponent: int, each: int) -> None:
    pytest.importorskip("jax")
    onnx = pytest.importorskip("onnx")
    helper, F32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(name, F32, [8, 4]) for name in "xy")
    held = helper.make_tensor("n", F32, [], [exponent])
    graph = helper.make_graph([helper.make_node("Pow", ["x", "n"], ["y"])], "g", [x], [y], [held])
    power = lambda x: x**exponent  # noqa: E731
    found = [trace(power, "fp32[8, 4]", frontend=name).flops("all") for name in ("torch", "jax")]
    assert found[0] == trace(helper.make_model(graph)).flops("all") == each * 32
    assert found[1] == found[0] or (exponent == 1 and found[1] == 0)
    assert trace(power, "complex64[8, 4]").flops("all") == (each - (exponent < 0)) * 6 * 32 + (exponent < 0) * 11 * 32


@pytest.mark.parametrize("wanted", [3, 6])
def test_the_largest_of_a_row_are_found_alike_in_every_front_end(wanted: int) -> None:
    """Each element is compared once; all in order are a sort."""
    jax = pytest.importorskip("jax")
    onnx = pytest.importorskip("onnx")
    helper, F32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y, places = (helper.make_tensor_value_info(n, F32 if n != "i" else 7, [4, 6]) for n in "xyi")
    held = helper.make_tensor("k", onnx.TensorProto.INT64, [1], [wanted])
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["y", "i"])], "g", [x], [y, places], [held])
    expected = 24 * (3 if wanted == 6 else 1)
    assert trace(lambda x: x.topk(wanted), "fp32[4, 6]").flops("all") == expected
    assert trace(lambda x: jax.lax.top_k(x, wanted), "fp32[4, 6]", frontend="jax").flops("all") == expected
    assert trace(helper.make_model(graph)).flops("all") == expected


@pytest.mark.parametrize(
    ("loss", "written"),
    [
        (F.mse_loss, lambda x, y: (x - y).square()),
        (F.huber_loss, lambda x, y: torch.where((x - y).abs() < 1, 0.5 * (x - y) * (x - y), (x - y).abs() - 0.5)),
        (F.binary_cross_entropy, lambda x, y: (y - 1) * torch.log(1 - x) - y * torch.log(x)),
        (F.soft_margin_loss, lambda x, y: torch.log(1 + torch.exp(-(x * y)))),
    ],
)
def test_a_loss_costs_no_more_than_its_formula_written_out(loss: Callable, written: Callable) -> None:
    """Without a sum it is work on each element, and the sum counts one more."""
    shapes = ("fp32[6, 10]",) * 2
    plain = trace(lambda x, y: loss(x, y, reduction="none"), *shapes).flops("all")
    assert 60 < plain <= trace(written, *shapes).flops("all")
    assert trace(loss, *shapes).flops("all") == plain + 60
