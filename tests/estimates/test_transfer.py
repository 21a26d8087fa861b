"""Chips without constants: whose constants they take, how sure these are, and where nothing is promised."""

from __future__ import annotations

import pytest

from roofline import bound
from roofline.errors import InputError
from roofline.estimates.estimator import Estimator, KernelEstimate, kernels_of
from roofline.estimates.expected_roof import expected_roof
from roofline.estimates.kernel_table import KERNELS
from roofline.estimates.kernels import ChipFigures
from roofline.estimates.transfer import OTHER, SAME, on_another_chip, transfer, transfers, weights
from roofline.hardware import chip

PRODUCT = "bf16[64, 8192] @ bf16[8192, 8192]"


def found(line: str, on: str, library: str = "vllm") -> KernelEstimate:
    return Estimator(library).expect(bound(line, on=on)).kernels[0]


@pytest.mark.parametrize(
    ("on", "source"), [("h200", "h100"), ("h20", "h100"), ("l4", "l40s"), ("a10", "a40"), ("rtx-5090", "rtx-pro-6000")]
)
def test_a_generation_takes_its_own_constants_as_they_are(on: str, source: str) -> None:
    one = found(PRODUCT, on)
    assert one.source is not None
    assert (one.source.chip, one.source.transferred_from) == (source, SAME)
    kept = Estimator("vllm").record(kernels_of(bound(PRODUCT, on=source))[0], chip(source))
    assert kept is not None
    assert one.source.values == kept.values


@pytest.mark.parametrize(("on", "nearest"), [("b200", "h100"), ("v100", "a100"), ("a100-40gb", "a100")])
def test_the_nearest_chip_stands_first(on: str, nearest: str) -> None:
    shares = weights(chip(on), ["a100", "a40", "h100", "l40s", "rtx-pro-6000"])
    assert next(iter(shares)) == nearest
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_another_generation_is_said_and_has_the_interval_that_was_measured() -> None:
    one = found(PRODUCT, "b200")
    seen = transfer("contraction", OTHER)
    assert one.source is not None
    assert seen is not None
    assert one.source.transferred_from == OTHER
    assert one.basis == "h100 and rtx-pro-6000 and a100 and l40s vllm"
    assert (one.low / one.value, one.high / one.value) == pytest.approx(seen.interval)
    assert one.source.error == seen.error
    near = found(PRODUCT, "h200")
    assert one.high / one.low > near.high / near.low


def test_rates_that_feed_the_arithmetic_grow_with_it() -> None:
    model = KERNELS["contraction"]
    values = model.defaults()
    small, large = (ChipFigures(100, peak, 1e12, 5e7) for peak in (1e14, 3e14))
    moved = on_another_chip(model, values, small, large)
    assert moved.pop("core_l2_rate") == pytest.approx(3 * values.pop("core_l2_rate"))
    assert moved == values


def test_a_format_of_one_chip_promises_nothing_of_another_generation() -> None:
    """nvfp4 was measured on RTX PRO 6000 alone, and eight-bit weights on A100."""
    line = "nvfp4[64, 8192] @ nvfp4[8192, 8192]"
    assert found(line, "b200").source is None
    assert found(line, "rtx-5090").source is not None


@pytest.mark.parametrize("kernel", ["contraction", "quantised_contraction", "prefill_attention", "decode_attention"])
def test_residuals_of_chips_left_out_are_wider_than_of_chips_known(kernel: str) -> None:
    seen = transfer(kernel, OTHER)
    assert seen is not None
    assert 0.08 < seen.error["mdape"] < 0.3
    assert 0.7 < seen.error["coverage"] < 0.9
    known = [one.error["mdape"] for one in Estimator().records if one.kernel == kernel]
    assert seen.error["mdape"] > sorted(known)[len(known) // 2]


def test_within_a_generation_the_residual_is_that_of_sister_chips() -> None:
    same = next(one for one in transfers() if one.to == SAME)
    other = transfer("contraction", OTHER)
    assert other is not None
    assert same.interval[0] < 1 < same.interval[1]
    assert same.error["mdape"] < other.error["mdape"]


@pytest.mark.parametrize("on", ["a100", "h100", "h200", "b200", "l40s"])
def test_the_roof_in_practice_lies_below_the_data_sheet(on: str) -> None:
    roof, answer = expected_roof(on), bound(PRODUCT, on=on)
    rates = {use.quantity: use.rate.value for use in answer.ops[0].uses}
    assert 0.4 * rates["flops"] < roof.peak <= rates["flops"] * (1 + 1e-9)
    assert 0.4 * rates["bytes"] < roof.bandwidth <= 1.05 * rates["bytes"]
    assert 1e-6 < roof.start < 1e-5
    assert roof.low < 1 < roof.high
    assert roof.rate(roof.peak / roof.bandwidth) == pytest.approx(roof.peak)
    assert roof.half_flops == pytest.approx(roof.start * roof.peak)


def test_a_chip_without_constants_has_no_roof_in_practice() -> None:
    with pytest.raises(InputError, match="no constants of vllm are known for bf16 products on mi300x"):
        expected_roof("mi300x")
