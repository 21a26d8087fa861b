"""Policies of kernels: what the host hides, one tile for all shapes, sequences that pairs of blocks share."""

from __future__ import annotations

import numpy as np
import pytest

from roofline.estimates.kernel_model import FROM_HOST, ChipFigures, launched
from roofline.estimates.kernel_registry import KERNELS

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


def grouped(rows: list[float], tokens: float, policy: str) -> list[float]:
    """Seconds of 64 experts whose memory and launch take nothing, with so many rows each."""
    model = KERNELS["experts"]
    values = {**model.defaults(), "memory_efficiency": 1.4, "core_memory_rate": 2e12, "token_time": 1e-15}
    picks = np.array(rows) * 64
    shapes = {"picks": picks, "touched": 64.0, "experts": 64.0, "hidden": 4096.0, "inter": 2048.0, "products": 3.0}
    times = model.parts(
        {**shapes, "tokens": tokens, "weight_bytes": 2.0, "a_bytes": 2.0},
        A100._replace(bandwidth=1e18),
        values,
        policy,
    )
    return list(times.seconds["waves"] + times.seconds["memory"])


def test_untuned_triton_has_small_tiles_for_as_many_tokens_as_experts_and_64_rows_for_more() -> None:
    one, most, more = grouped([65.0, 128.0, 129.0], 1000.0, "triton")
    assert one == pytest.approx(most, rel=1e-3)
    assert more > 1.2 * most
    few, many = (grouped([1.0], tokens, "triton")[0] for tokens in (64.0, 65.0))
    assert few < many


def test_marlin_takes_the_least_tile_that_rows_do_not_fill() -> None:
    small, same, larger = grouped([40.0, 43.0, 44.0], 1000.0, "marlin")
    assert small == pytest.approx(same, rel=1e-3)
    assert larger > 1.1 * same
