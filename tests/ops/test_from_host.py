"""Data that lies in the host's memory: over PCIe first, then on the chips."""

from __future__ import annotations

import pytest

from roofline import bound, chip

MATRIX = "int8[131072, 131072]"


def test_bytes_come_over_pcie_and_are_written_to_the_chips_own_memory() -> None:
    found = bound("from_host(int8[16384, 1024])", on="v5e", set={"pcie": 1.6e10, "hbm": 8.2e11})
    assert found.times == {"pcie": pytest.approx(16384 * 1024 / 1.6e10), "hbm": pytest.approx(16384 * 1024 / 8.2e11)}
    assert found.flops == 0


def test_each_chip_loads_its_part_and_one_gathers_them() -> None:
    """The book's chapter 2: 16 GiB of int8 on the hosts of a v5e 4x4, then all of it on every chip."""
    found = bound("AllGather_{X,Y}(from_host(int8[J_XY, I]))", on="v5e:4x4", J=131072, I=131072)
    assert found.times["pcie"] == pytest.approx(2**34 / 16 / 1.6e10)
    assert found.ops[0].bound_by == "pcie"
    assert found.wire["ici X"] == found.wire["ici Y"] == pytest.approx(2**34 * 15 / 16 / 2)


def test_it_is_read_where_it_was_written() -> None:
    loaded = bound(f"W = from_host({MATRIX}); bf16[8, 131072] * W", on="v5e")
    there = bound(f"bf16[8, 131072] * {MATRIX}", on="v5e")
    assert loaded.bytes["hbm"] == there.bytes["hbm"] + 2**34
    assert loaded.lower == pytest.approx(2**34 / 1.6e10)
    assert loaded.math == there.math


def test_a_closed_form_has_it() -> None:
    found = bound("from_host(int8[J, I])", on="v5e").formula(J=1024, I=1024)
    assert found.values()["lower"] == pytest.approx(1024**2 / 1.6e10)


def test_a_chip_without_a_bus_says_so() -> None:
    assert not any(memory.name in ("pcie", "host") for memory in chip("tpu7x").memories)
    assert bound("from_host(int8[1024, 1024])", on="tpu7x").incomplete


@pytest.mark.parametrize(
    ("name", "bus", "rate"),
    [
        ("rtx-4090", "pcie", 32e9),
        ("mi300x", "pcie", 64e9),
        ("t4", "pcie", 16e9),
        ("h800", "pcie", 64e9),
        ("gb200", "c2c", 450e9),
    ],
)
def test_the_hosts_memory_is_reached_over_the_bus_of_the_card(name: str, bus: str, rate: float) -> None:
    """That by which cards of one host send each other data, or the link to a processor beside it."""
    assert bound("from_host(bf16[N])", on=name, N=10**9).times[bus] == pytest.approx(2e9 / rate)
    assert bound("bf16[N] + bf16[N]", on=name, over=bus, N=10**9).lower == pytest.approx(6e9 / rate)
    other = bound("from_host(bf16[N])", on=name, N=10**9, set={bus: "20 GB/s"})
    assert other.times[bus] == pytest.approx(2e9 / 20e9)
