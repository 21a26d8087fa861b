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
