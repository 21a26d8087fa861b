"""Collectives of traced programs on the network of a target with a shape: over which of its axes, and how long."""

from __future__ import annotations

import jax
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from roofline.hardware import chip
from roofline.ops import pricing
from roofline.ops.pricing import LEAST_SENT_NOTE
from roofline.programs import trace
from roofline.programs.traced import place
from roofline.work import Tensor
from tests.programs.process_groups import run

BYTES = 2**24
X = (Tensor("x", (BYTES // 2,), "bf16"),)


def _summed(axes, sizes=(4, 4), names=("data", "model"), reduce=lax.psum):
    """A sum of 16 MiB over mesh axes; every device holds all of it."""
    mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))
    every = P(None)
    program = jax.shard_map(lambda x: reduce(x, axes), mesh=mesh, in_specs=every, out_specs=every, check_vma=False)
    return trace(program, f"bf16[{BYTES // 2}]", frontend="jax")


def _wire(answer):
    """Bytes over the busiest link of each axis, one way."""
    return {use.place: use.amount for use in answer.uses if use.quantity == "wire"}


@pytest.mark.parametrize(("axes", "place", "sent"), [
    ("model", "Z", 2 * 3 / 4 / 2),
    ("data", "Y", 2 * 3 / 4 / 2),
])  # fmt: skip
def test_an_axis_of_the_program_is_an_axis_of_the_torus(axes, place, sent):
    """A closed ring of 4 sends half of 2·(n − 1)/n of the array each way round."""
    traced = _summed(axes)
    answer = traced.bound(on="v5p:4x4x4")
    assert _wire(answer) == {place: sent * BYTES}
    assert LEAST_SENT_NOTE in traced.assumptions
    assert LEAST_SENT_NOTE not in answer.assumptions
    assert any("lie on v5p:4x4x4 in order" in line for line in answer.assumptions)


def test_without_a_target_a_program_says_the_least_that_each_device_sends():
    """By hand: a sum of V bytes among n devices sends 2·(n − 1)/n·V from each."""
    traced = _summed("model")
    assert traced.sent == traced.to_dict()["sent"] == 2 * 3 / 4 * BYTES
    assert "; each device sends 25.2 MB at least" in str(traced)
    assert "each device sends" not in "".join(map(str, traced.sections(under={"": traced.bound(on="v5p:4x4x4")})))
    alone = trace(lambda x: x + 1, "bf16[64]", frontend="jax")
    assert alone.sent == 0
    assert "sends" not in str(alone)


def test_a_sum_over_the_whole_mesh_uses_every_axis():
    """Over 16 chips: 2·15/16 of the array over four links of two rings, or trees of 15 of the 24 links of a grid."""
    traced = _summed(("data", "model"))
    whole = 2 * 15 / 16 * BYTES
    assert _wire(traced.bound(on="v5p:4x4x4")) == {"Y": whole / 4, "Z": whole / 4}
    assert _wire(traced.bound(on="v5e:4x4")) == {"X": BYTES * 15 / 24, "Y": BYTES * 15 / 24}


def test_axes_of_switches_by_their_stride():
    """The last axis of 8 is a node, the first goes between nodes; at this size switches add up or chips exchange."""
    inside, between = (_summed(axis, (8, 8)).bound(on="h100:64") for axis in ("model", "data"))
    assert all(word.startswith("model") for word in _wire(inside))
    assert all(word.startswith("data") for word in _wire(between))
    assert inside.machine.mesh["model"].segments[0].link == "nvlink"
    assert between.machine.mesh["data"].segments[0].link == "nic"
    assert between.lower > inside.lower


def test_a_part_of_a_torus_axis_is_a_line_and_that_is_said():
    answer = _summed("model").bound(on="v5p:2x2x16")
    assert answer.machine.mesh["model"].segments[0].shape == "line"
    assert any("none wraps around, and ways over other chips are not counted" in line for line in answer.assumptions)


def test_at_best_is_at_most_what_a_ring_over_one_link_takes():
    traced = _summed("model")
    ring = 2 * 3 / 4 * BYTES / chip("v5p").links[0].bandwidth.value
    (found,) = [op for op in traced.bound(on="v5p:4x4x4").ops if op.op.kind == "collective"]
    assert found.times["ici Z"] == pytest.approx(ring / 2)
    (alone,) = [op for op in traced.bound(on="v5p").ops if op.op.kind == "collective"]
    assert alone.times["ici"] == pytest.approx(ring)
    assert LEAST_SENT_NOTE in traced.bound(on="v5p").assumptions


@pytest.mark.parametrize(
    ("target", "group"), [("h100:8", ("x", 3, 1)), ("h100:8", ("x", 16, 1)), ("v5e:4x4", ("x", 4, 3))]
)
def test_devices_that_do_not_fit_stay_a_ring_and_that_is_said(target, group):
    op = pricing.least_collective("psum", X, X, does="AllReduce", nbytes=BYTES, devices=group[1], groups=(group,))
    placed = place([op], chip(target))
    assert placed.ops == (op,)
    assert "does not fit" in placed.assumptions[0]


def test_members_that_are_not_known_lie_next_to_each_other():
    op = pricing.least_collective("psum", X, X, does="AllReduce", nbytes=BYTES, devices=4)
    placed = place([op], chip("v5e:4x4"))
    assert {key.place for key in placed.ops[0].work} == {"Y"}
    assert "which 4 devices take part in psum is not known: next to each other" in placed.assumptions


@pytest.mark.parametrize(("does", "share"), [
    ("AllReduce", 2 * 7 / 8), ("AllGather", 7 / 8), ("ReduceScatter", 7 / 8), ("AllToAll", 7 / 64), ("Permute", 1),
    ("Broadcast", 1), ("Reduce", 1), ("Gather", 7 / 8), ("Scatter", 7 / 8),
])  # fmt: skip
def test_on_a_switch_each_sends_at_most_what_a_ring_does(does, share):
    op = pricing.least_collective("c", X, X, does=does, nbytes=BYTES, devices=8, groups=(("", 8, 1),))
    assert op.work.total("wire") == pytest.approx(share * BYTES)
    (found,) = place([op], chip("h100:8")).ops
    assert found.work.total("wire") <= op.work.total("wire") * (1 + 1e-9)


def test_a_program_that_is_not_split_says_it_runs_on_one_chip():
    traced = trace(lambda x: x @ x, "bf16[512, 512]", frontend="jax")
    said = "nothing is sent between chips: this is what one of the 16 chips of v5e:4x4 does"
    assert said in traced.bound(on="v5e:4x4").assumptions
    assert said not in traced.bound(on="v5e").assumptions
    assert traced.bound(on="v5e:4x4").lower == traced.bound(on="v5e").lower


def test_process_groups_of_pytorch_by_their_ranks():
    found = run("""
grid = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))
ops = torch.distributed._functional_collectives
def program(x):
    return ops.all_reduce(ops.all_reduce(x, "sum", grid["model"]), "sum", grid["data"]) * 2
traced = trace(program, "bf16[1024, 8192]")
answer = traced.bound(on="v5e:2x4")
print(json.dumps({
    "groups": [op.options["groups"] for op in traced.collectives()],
    "places": [[key.place for key in part.op.work if key.quantity == "wire"] for part in answer.ops
               if part.op.kind == "collective"],
}))
""")
    assert found == {"groups": [[["", 4, 1]], [["", 2, 4]]], "places": [["Y"], ["X"]]}


def test_collectives_of_pytorch_with_one_device_at_an_end():
    """V is the message of a broadcast or a reduce, and all that the one device gathers or scatters."""
    found = run("""
def program(x):
    parts = [torch.empty_like(x) for _ in range(8)]
    dist.gather(x, parts, dst=0)
    y = torch.empty_like(x)
    dist.scatter(y, parts, src=0)
    dist.reduce(x, 0)
    dist.broadcast(x, 0)
    return x + y
traced = trace(program, "fp32[1024, 1024]")
answer = traced.bound(on="h100:8")
print(json.dumps([[op.options["collective"], op.dims["bytes"], op.work.total("wire")]
                  for op in (part.op for part in answer.ops) if op.kind == "collective"]))
""")
    shard = 4 * 2**20
    assert found == [
        ["Gather", 8 * shard, 7 * shard], ["Scatter", 8 * shard, 7 * shard], ["Reduce", shard, shard],
        ["Broadcast", shard, shard],
    ]  # fmt: skip
