"""What a collective's estimate takes for the bytes that a chip sends, and for the link it sends them over."""

from __future__ import annotations

import numpy as np
import pytest

from roofline import bound, comm
from roofline.errors import SizeError
from roofline.estimates.constants import KERNELS, shipped
from roofline.estimates.kernel_model import ChipFigures


@pytest.mark.parametrize(
    ("kind", "share"), [("alltoall", 1 / 8), ("allgather", 1), ("reducescatter", 1), ("allreduce", 2)]
)
def test_a_chip_sends_its_own_part(kind: str, share: float) -> None:
    found = comm(kind, bytes=512e6, on="h100:8", estimate=True)
    (kernel,) = found.bound.expectation.kernels
    assert kernel.run.shapes["sent"] == pytest.approx(share * 7 / 8 * 512e6, rel=1e-6)
    assert found.bound.lower < kernel.value < 4 * found.bound.lower


@pytest.mark.parametrize("kind", ["alltoall", "allreduce", "allgather"])
def test_over_nodes_the_slowest_tier_sets_the_rate(kind: str) -> None:
    node, nodes = (comm(kind, bytes=512e6, on=f"h100:{chips}", estimate=True).bound for chips in (8, 16))
    assert nodes.lower < nodes.estimate < 5 * nodes.lower
    if kind != "alltoall":  # of which each chip of more has less
        assert nodes.estimate > node.estimate
    short, systems = (4e3, 2e5, 7e5), ("h100:16", "h200:16")
    sister = [comm(kind, bytes=size, on=on, estimate=True) for on in systems for size in short]
    times = [each.bound.estimate for each in sister]  # short messages go by the same links, and by constants of as fast
    assert times[:3] == pytest.approx(times[3:], rel=1e-3) == sorted(times[:3])


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "reducescatter"])
def test_chips_of_other_hosts_share_no_bus(kind: str) -> None:
    """Cards of one host slow each other on its bus. As a power of their number that would be minutes for 64 of them."""
    host, hosts = (comm(kind, bytes=1e9, on=f"l40s:{chips}", estimate=True).bound.estimate for chips in (8, 64))
    assert host < hosts < 3 * host


@pytest.mark.parametrize("kernel", ["all_reduce", "collective"])
def test_more_bytes_never_take_less(kernel: str) -> None:
    """Where a framework calls NCCL, its own kernel for the largest message that it reduces was expected to take 1.4."""
    chips, size = np.arange(2.0, 9.0)[:, None], 2.0 ** np.arange(8, 32, 0.125)
    for record in shipped(kernel):
        shapes = {"sent": 2 * (chips - 1) / chips * size, "chips": chips, "link": record.figures["link"]}
        parts = KERNELS[kernel].parts(shapes, ChipFigures(1, 1, 1, 1), record.values, record.policy)
        assert (np.diff(parts.time) >= -1e-12 * parts.time[:, 1:]).all(), record


def test_open_heads_of_keys_under_a_number_of_queries_are_refused() -> None:
    line = "attention(bf16[B, H, 1, 128], bf16[B, H, C, 128], bf16[B, H, C, 128])"
    with pytest.raises(SizeError, match=r"whether 1 query head can share C key heads is not known; .*q\[B, S, N, H\]"):
        bound(line, on="h100")
    open_heads = bound("attention(bf16[B, 1, N, 128], bf16[B, C, K, 128], bf16[B, C, K, 128])", on="h100")
    assert "C" in str(open_heads.flops)
