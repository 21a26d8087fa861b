"""Pools of PyTorch against a loop over every window."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from roofline.programs import trace
from tests.strategies import some


def comparisons(length: int, kernel: int, stride: int, pad: int) -> int:
    """Count the comparisons of a pool over a square: each new element of a window with what it shares, or another."""
    places = range(-pad, length + pad - kernel + 1, stride)
    found, before = 0, set[tuple[int, int]]()
    for row, column in product(places, places):
        rows, columns = (range(max(0, at), min(length, at + kernel)) for at in (row, column))
        window = set(product(rows, columns))
        found += len(window - before) - (not window & before)
        before |= window
    return found


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pad"), [(9, 3, 2, 1), (9, 2, 2, 0), (8, 3, 1, 0), (7, 5, 3, 2)]
)
def test_a_max_pool_compares_each_new_element_of_a_window(length: int, kernel: int, stride: int, pad: int) -> None:
    traced = trace(lambda x: F.max_pool2d(x, kernel, stride, pad), f"fp32[2, 3, {length}, {length}]")
    assert traced.flops("all") == 6 * comparisons(length, kernel, stride, pad)
    found = F.max_pool2d(torch.zeros(2, 3, length, length), kernel, stride, pad)
    assert traced.ops[0].dims["results"] == found.numel()


@pytest.mark.parametrize("mode", some(["nearest", "nearest-exact", "bilinear", "bicubic"], 2))
@pytest.mark.parametrize("size", [(4, 5), (3, 40), (32, 7)])
def test_what_no_result_has_as_a_neighbour_is_not_read(mode: str, size: tuple[int, int]) -> None:
    traced = trace(lambda x: F.interpolate(x, size, mode=mode), "fp32[1, 2, 16, 20]")
    moved = traced.bytes("minimal") // 4 - 2 * size[0] * size[1]
    x = torch.rand(1, 2, 16, 20, requires_grad=True)
    F.interpolate(x, size, mode=mode).sum().backward()
    assert x.grad is not None
    used = int((x.grad != 0).sum())
    assert used <= moved <= 2 * 16 * 20
    assert mode not in ("nearest", "nearest-exact") or moved == used


@pytest.mark.parametrize(("mode", "onnx_mode"), [("bilinear", "linear"), ("bicubic", "cubic")])
@pytest.mark.parametrize("size", [(8, 8), (5, 40), (48, 48)])
def test_smoothing_counts_all_that_lies_under_its_filters(mode: str, onnx_mode: str, size: tuple[int, int]) -> None:
    """Rows and columns in turn, in the cheaper order; PyTorch's own weights say how many there are."""
    onnx = pytest.importorskip("onnx")
    helper, F32 = onnx.helper, onnx.TensorProto.FLOAT

    def terms(n: int, r: int) -> int:
        one = F.interpolate(torch.eye(n)[None, None], (r, n), mode=mode, antialias=True)
        width = {"bilinear": 2, "bicubic": 4}[mode]
        return int((one != 0).sum()) if r < n else width * r

    (h, w), (rows, columns) = (32, 48), size
    changed = [
        (terms(h, rows), w, columns) if h != rows else None,
        (terms(w, columns), h, rows) if w != columns else None,
    ]
    down, across = (each or (0, 0, 0) for each in changed)
    cheapest = min(down[0] * w + across[0] * rows, across[0] * h + down[0] * columns)
    found = trace(lambda x: F.interpolate(x, size, mode=mode, antialias=True), f"fp32[1, 2, {h}, {w}]").flops("all")
    assert 0.97 <= 2 * 2 * cheapest / found <= 1.01
    x, y = (helper.make_tensor_value_info(name, F32, shape) for name, shape in (("x", [1, 2, h, w]), ("y", None)))
    held = helper.make_tensor("s", onnx.TensorProto.INT64, [4], [1, 2, *size])
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=onnx_mode, antialias=1)
    assert trace(helper.make_model(helper.make_graph([node], "g", [x], [y], [held]))).flops("all") == found


@pytest.mark.parametrize(("mode", "onnx_mode", "taps"), [("bilinear", "linear", 2), ("bicubic", "cubic", 4)])
@pytest.mark.parametrize("size", some([(8, 48), (64, 48), (64, 96), (32, 48), (8, 12), (64, 12)], 2))
def test_neighbours_lie_along_dimensions_that_change(
    mode: str, onnx_mode: str, taps: int, size: tuple[int, int]
) -> None:
    """As many in PyTorch as in ONNX: rows that stay as they are are not mixed, others once for a row of results."""
    onnx = pytest.importorskip("onnx")
    helper, F32 = onnx.helper, onnx.TensorProto.FLOAT

    def products(first: int, second: int) -> int:
        """Along one dimension, of what the other one reads; then along that."""
        (_, r, tap), (N, R, more) = sides[first], sides[second]
        read = {round(place * N / R) + near for place in range(R) for near in range(more)} if more > 1 else range(N)
        return r * tap * min(len(read), N) * (tap > 1) + r * R * more * (more > 1)

    sides = [(n, r, taps if n != r else 1) for n, r in zip((32, 48), size, strict=True)]
    at_once = size[0] * size[1] * sides[0][2] * sides[1][2] if size != (32, 48) else 0
    expected = 2 * 2 * min(products(0, 1), products(1, 0), at_once)
    step = lambda x: F.interpolate(x, size, mode=mode)  # noqa: E731
    assert trace(step, "fp32[1, 2, 32, 48]").flops("all") == expected
    x, y = (helper.make_tensor_value_info(name, F32, shape) for name, shape in (("x", [1, 2, 32, 48]), ("y", None)))
    held = helper.make_tensor("s", onnx.TensorProto.INT64, [4], [1, 2, *size])
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=onnx_mode)
    assert trace(helper.make_model(helper.make_graph([node], "g", [x], [y], [held]))).flops("all") == expected


def test_smoothing_reads_everything_and_a_grid_sample_at_most_its_places() -> None:
    smooth = trace(lambda x: F.interpolate(x, (4, 4), mode="bilinear", antialias=True), "fp32[1, 2, 16, 16]")
    assert smooth.bytes("minimal") == 4 * (2 * 16 * 16 + 2 * 16)
    for mode, taps in (("nearest", 1), ("bilinear", 4)):
        sampled = trace(
            lambda x, g, mode=mode: F.grid_sample(x, g, mode, align_corners=False),
            "fp32[1, 2, 64, 64]",
            "fp32[1, 3, 3, 2]",
        )
        assert sampled.bytes("minimal") == 4 * (taps * 2 * 9 + 2 * 9 + 2 * 9)
