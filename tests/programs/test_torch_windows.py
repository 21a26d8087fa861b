"""Pools of PyTorch against a loop over every window."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from roofline.programs import trace


def comparisons(length: int, kernel: int, stride: int, pad: int) -> int:
    """Count the comparisons of a pool over a square: each element of a window with the largest before it."""
    places = range(-pad, length + pad - kernel + 1, stride)
    return sum(1 for _ in places for _ in places for place in range(kernel * kernel) if place > 0)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pad"), [(9, 3, 2, 1), (9, 2, 2, 0), (8, 3, 1, 0), (7, 5, 3, 2)]
)
def test_a_max_pool_compares_each_element_of_a_window_but_the_first(
    length: int, kernel: int, stride: int, pad: int
) -> None:
    traced = trace(lambda x: F.max_pool2d(x, kernel, stride, pad), f"fp32[2, 3, {length}, {length}]")
    assert traced.flops("all") == 6 * comparisons(length, kernel, stride, pad)
    found = F.max_pool2d(torch.zeros(2, 3, length, length), kernel, stride, pad)
    assert traced.ops[0].dims["results"] == found.numel()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
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
