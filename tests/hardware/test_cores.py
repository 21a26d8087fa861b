"""What a chip's cores are made of, where the catalog does not say."""

from __future__ import annotations

import pytest

from roofline import chip
from roofline.errors import HardwareError
from roofline.hardware.schema import (
    count_units,
    flops_per_cycle,
    on_chip_bytes,
    peak_of_one,
    register_bytes,
    resident_warps,
)


def test_what_is_not_known_is_no_number() -> None:
    assert count_units(chip("mi300x"), "vector") is None
    assert peak_of_one(chip("mi300x"), "vector", "fp32") is None
    assert register_bytes(chip("v5p")) is None
    assert on_chip_bytes(chip("h100"), "pcie") is None
    assert resident_warps(chip("v5p"), 256) is None
    assert flops_per_cycle(chip("h100"), "tensor", "fp4") is None
    with pytest.raises(HardwareError, match="NVIDIA H100 SXM5 80GB has no unit 'mxu'; its units are: tensor, cuda"):
        count_units(chip("h100"), "mxu")
