"""No collective that was measured is faster than its bound.

``measured_collectives.csv`` holds, for each chip, library, collective and number of chips, the two rows nearest to the
bound out of 6,025 in 94 groups. Sources: ai-dynamo/aiconfigurator@095f58a (nccl, trtllm, vllm, sglang; Apache-2.0),
microsoft/vidur (a100_dgx; MIT). ``bytes`` is V: the array of an AllReduce, all shards of the others, a Send's message.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.strategies import for_each

from roofline.hardware import chip
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import cost
from roofline.work import Key

DATA = Path(__file__).parents[1] / "data" / "measured_collectives.csv"
ROWS = list(csv.DictReader(DATA.read_text(encoding="utf-8").splitlines()))


@for_each("row", ROWS, ids=lambda row: f"{row['chip']}:{row['chips']} {row['library']} {row['collective']}")
def test_no_measured_collective_is_below_its_bound(row: dict[str, str]) -> None:
    machine = chip(f"{row['chip']}:{row['chips']}")
    assert machine.mesh is not None
    found = cost(
        row["collective"], machine.mesh.axes, int(row["bytes"]), algorithm=Chooser(machine=machine), dtype="bf16"
    )
    link = machine.links[0]
    assert link.bandwidth is not None
    assert link.latency is not None
    wire, hops = found.work[Key("wire", "X")] / link.bandwidth.value, found.work[Key("hops", "X")] * link.latency.value
    assert max(wire, hops) <= float(row["measured_us"]) * 1e-6


def test_sends_of_a_pair_of_a100_that_were_timed_at_one_end() -> None:
    """152 of the 329 sends within a node of vidur's ``a100_pairwise_nvlink`` are above the link's 300 GB/s.

    The clock of one end does not see all of a message: its best is 343 GB/s for 33 MB and 288 for 67 MB, and no send of
    the set ``a100_dgx``, over the same twelve links of 25 GB/s one way, is above 276 (356 rows, 33 MB in 120 µs).
    """
    link = chip("a100:2").links[0].bandwidth
    assert link is not None
    assert link.value == 300e9
    assert 33_292_290 / 97e-6 > link.value > 66_846_720 / 232e-6 > 33_161_220 / 120e-6 * 0.95


def test_nccl_on_eight_h200() -> None:
    """One GiB in bf16: 4.00 ms measured, 4.18 ms in two shots, 2.39 ms where the switches add up."""
    machine = chip("h200:8")
    assert machine.mesh is not None
    found = cost("AllReduce", machine.mesh.axes, 2**30, algorithm=Chooser(machine=machine), dtype="bf16")
    two_shot = cost("AllReduce", machine.mesh.axes, 2**30, algorithm="two-shot")
    times = [each.work.total("wire") / 450e9 for each in (found, two_shot)]
    assert times == [pytest.approx(2.386e-3, rel=1e-3), pytest.approx(4.176e-3, rel=1e-3)]
    assert times[0] < 4.00e-3 < times[1]


@pytest.mark.parametrize(
    ("on", "bandwidth"), [("l40s:2", 32e9), ("rtx-pro-6000:8", 64e9), ("b60:2", 32e9), ("t4:4", 16e9)]
)
def test_cards_of_one_host_have_their_bus_as_a_link(on: str, bandwidth: float) -> None:
    machine = chip(on)
    assert machine.mesh is not None
    (segment,) = machine.mesh["X"].segments
    assert (segment.link, segment.topology) == ("pcie", "switch")
    assert machine.links[0].bandwidth is not None
    assert machine.links[0].bandwidth.value == bandwidth
    given = chip(on, pcie=25e9)
    assert given.links[0].bandwidth is not None
    assert given.links[0].bandwidth.value == 25e9
