"""Policies of kernels: what the host hides, one tile for all shapes, sequences that pairs of blocks share."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.estimates.kernel_table import KERNELS
from roofline.estimates.kernels import FROM_HOST, ChipFigures, launched

A100 = ChipFigures(108, 312e12, 2.039e12, 42e6)


def test_the_host_hides_behind_kernels_where_no_graph_was_timed() -> None:
    time = np.array([1e-4, 1e-3])
    assert launched(time, time / 2, 3e-4).time == pytest.approx([4e-4, 1.3e-3])
    assert launched(time, time / 2, 3e-4, FROM_HOST).time == pytest.approx([3e-4, 1e-3])


@pytest.mark.parametrize(
    ("kernel", "policy"),
    [
        ("contraction", f"search {FROM_HOST}"),
        ("decode_attention", FROM_HOST),
        ("prefill_attention", f"128x128 {FROM_HOST}"),
        ("latent_decode", f"16 heads {FROM_HOST}"),
        ("latent_prefill", f"128x128 {FROM_HOST}"),
    ],
)
def test_no_kernel_is_shorter_than_its_host(kernel: str, policy: str) -> None:
    model = KERNELS[kernel]
    assert policy in model.policies
    values = {**model.defaults(), "launch_time": 3e-4}
    shapes = {name: np.array([8.0]) for name in model.shapes if name not in ("window", "past")}
    assert model.times(shapes, A100, values, policy) == pytest.approx([3e-4])


def test_one_tile_takes_as_long_for_one_row_as_for_all_of_its_rows() -> None:
    model = KERNELS["quantised_contraction"]
    values = {**model.defaults(), "quantise.rate": 5e13, "quantise.row_time": 1e-13, "throttle": 0.001}
    shapes = {"m": np.array([1.0, 128.0, 129.0]), "n": 16384.0, "k": 8192.0, "a_bytes": 1.0, "b_bytes": 1.0}
    one, full, two = model.times(shapes, A100, values, "128x128")
    assert full == pytest.approx(one, rel=0.02)
    assert two > full
    assert model.times(shapes, A100, values, "nosplit")[0] < one


def test_a_pair_of_blocks_walks_over_a_whole_sequence() -> None:
    """TensorRT-LLM 1.0 on A100: 32 sequences take as long as one, 128 take 2.3 times as long as 32."""
    model = KERNELS["latent_decode"]
    values = {**model.defaults(), "occupancy": 1.47, "memory_efficiency": 1.4, "throttle": 0.001}
    shapes = {"batch": np.array([1.0, 32.0, 64.0, 128.0]), "heads": 16.0, "length": 65536.0}
    one, some, pairs, more = model.times(shapes, A100, values, "64 heads in pairs")
    assert some / one == pytest.approx(1, rel=0.05)
    assert pairs / some == pytest.approx(2 / 1.47, rel=0.05)
    assert more / some == pytest.approx(2 / 1.47 + 1, rel=0.05)
