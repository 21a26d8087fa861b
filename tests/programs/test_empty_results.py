"""Sizes below 1: open in an input of a file, an error in a weight, as are windows without results.

A result may be empty: it costs nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import RooflineError, SizeError

numpy = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from tests.programs.onnx_models import model, value, weight  # noqa: E402

node = onnx.helper.make_node
IMAGE, KERNEL = (1, 3, 4, 4), (8, 3, 7, 7)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_of_an_input_is_open(size: int) -> None:
    file = model([node("MatMul", ["x", "w"], ["y"])], [value("x", size, 64), value("w", 64, 32)], [value("y")])
    assert roofline.trace(file, batch=8).flops() == 2 * 8 * 64 * 32
    assert str(roofline.trace(file).flops()) == "4096*x_0"


@pytest.mark.parametrize("dims", [(64, -1), (-64, 32), (0, 32)])
def test_a_size_below_one_of_a_weight_is_an_error(dims: tuple[int, ...]) -> None:
    file = model([node("MatMul", ["x", "w"], ["y"])], [value("x", 8, 64)], [value("y")], [weight("w", *dims)])
    with pytest.raises(SizeError, match="the weight 'w' has the sizes"):
        roofline.trace(file)


def test_an_empty_output_costs_nothing() -> None:
    parts = onnx.numpy_helper.from_array(numpy.array([0, 8, 0]), "parts")
    split = model([node("Split", ["x", "parts"], ["a", "b", "c"], axis=0)], [value("x", 8, 64)],
                  [value("a", 0, 64), value("b", 8, 64), value("c", 0, 64)], [parts])  # fmt: skip
    assert roofline.trace(split).bytes() == 2 * 8 * 64 * 4
    window = model([node("CausalConvWithState", ["x", "w"], ["y", "s"])], [value("x", 2, 4, 8)],
                   [value("y", 2, 4, 8), value("s", 2, 4, 0)], [weight("w", 4, 1, 1)])  # fmt: skip
    assert roofline.trace(window).flops() == 2 * 2 * 4 * 8


def test_a_negative_size_of_an_output_is_an_error() -> None:
    file = model([node("Relu", ["x"], ["y"])], [value("x", 8, 64)], [value("y", 8, -64)])
    with pytest.raises(SizeError, match="the output 'y' has a size of -64"):
        roofline.trace(file)


def _onnx(kind: str) -> Any:
    if kind == "conv":
        return model([node("Conv", ["x", "w"], ["y"])], [value("x", *IMAGE), value("w", *KERNEL)], [value("y")])
    return model([node("MaxPool", ["x"], ["y"], kernel_shape=[7, 7])], [value("x", *IMAGE)], [value("y")])


def _jax(kind: str) -> Any:
    if kind == "conv":
        return lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID")
    return lambda x, w: jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, (1, 1, 7, 7), (1, 1, 1, 1), "VALID")


def _torch(kind: str) -> Any:
    functional = torch.nn.functional
    return (lambda x, w: functional.conv2d(x, w)) if kind == "conv" else (lambda x, w: functional.max_pool2d(x, 7))


@pytest.mark.parametrize("kind", ["conv", "pool"])
@pytest.mark.parametrize("front_end", ["notation", "torch", "jax", "onnx"])
def test_a_window_without_results_is_an_error(front_end: str, kind: str) -> None:
    lines = {"conv": "conv(fp32[1, 4, 4, 3], fp32[7, 7, 3, 8])", "pool": "pool(fp32[1, 4, 4, 3], window=7)"}
    shapes = [f"fp32[{', '.join(map(str, dims))}]" for dims in (IMAGE, KERNEL)]
    with pytest.raises(RooflineError):  # noqa: PT012
        if front_end == "notation":
            roofline.bound(lines[kind], on="h100")
        elif front_end == "onnx":
            roofline.trace(_onnx(kind)).bound(on="h100")
        else:
            program = (_torch if front_end == "torch" else _jax)(kind)
            roofline.trace(program, *shapes, frontend=front_end).bound(on="h100")


attend = torch.nn.functional.scaled_dot_product_attention
EMPTY = {
    "product": (lambda x, w: x[:0] @ w, ((8, 64), (64, 32))),
    "batched product": (lambda x, w: torch.bmm(x[:0], w[:0]), ((8, 4, 64), (8, 64, 32))),
    "convolution": (lambda x, w: torch.nn.functional.conv2d(x[:0], w), ((2, 3, 8, 8), (8, 3, 3, 3))),
    "pool": (lambda x, _: torch.nn.functional.max_pool2d(x[:0], 2), ((2, 3, 8, 8), (1,))),
    "attention": (lambda q, _: attend(q[:0], q[:0], q[:0]), ((2, 4, 8, 16), (1,))),
    "softmax": (lambda x, _: torch.softmax(x[:0], -1), ((8, 4), (1,))),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_batch_costs_nothing(name: str) -> None:
    program, shapes = EMPTY[name]
    found = roofline.trace(program, *(torch.zeros(shape) for shape in shapes))
    assert (found.flops(), found.bytes(), found.complete) == (0, 0, True)
    beside = roofline.trace(lambda x, w: (program(x, w), x + 1), *(torch.zeros(shape) for shape in shapes))
    assert beside.bytes() == 2 * 4 * torch.zeros(shapes[0]).numel()


def test_an_empty_sum_writes_zeros() -> None:
    found = roofline.trace(lambda x, w: x[:, :0] @ w[:0], torch.zeros(8, 64), torch.zeros(64, 32))
    assert (found.flops(), found.bytes()) == (0, 4 * 8 * 32)


def test_an_empty_slice_of_a_file_costs_nothing() -> None:
    held = [onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [1], [0]) for name in ("start", "end")]
    nodes = [node("Slice", ["x", "start", "end"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    found = roofline.trace(model(nodes, [value("x", 8, 64), value("w", 64, 32)], [value("y")], held))
    assert (found.flops(), found.bytes()) == (0, 0)


def test_a_mask_and_a_shift_of_nothing_cost_nothing() -> None:
    empty = torch.zeros(5, 0, dtype=torch.bool)
    assert roofline.trace(lambda x: torch.where(empty, x, x), torch.zeros(5, 0)).bytes() == 0
    assert roofline.trace(lambda x: torch.roll(x, 1, 1), torch.zeros(5, 0)).bytes() == 0
