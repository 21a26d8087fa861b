"""Collectives of torch.distributed: which one, of how many bytes, between which ranks.

Ranks stand in process groups, so that these rules alone ask torch, which has made the groups.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from roofline.programs.pytorch.registry import Call, Priced, operands_in, pricing, rule

#: What each operation does; receiving sends nothing.
KINDS: dict[str, str | None] = {
    **dict.fromkeys(("all_reduce", "allreduce"), "AllReduce"),
    **dict.fromkeys(("all_gather_into_tensor", "allgather", "_allgather_base"), "AllGather"),
    **dict.fromkeys(("reduce_scatter_tensor", "_reduce_scatter_base", "reduce_scatter"), "ReduceScatter"),
    **dict.fromkeys(("all_to_all_single", "alltoall_base", "alltoall"), "AllToAll"),
    "broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter", "send": "Permute",
    "recv": None,
}  # fmt: skip


def _names() -> list[str]:
    plain = [name for name in KINDS if not name.startswith("_")]
    functional = [f"{space}.{name}" for space in ("_c10d_functional", "_c10d_functional_autograd") for name in plain]
    return [*functional, *(f"_c10d_functional.{name}_coalesced" for name in plain), *(f"c10d.{name}" for name in KINDS)]


@rule(*_names())
def collective(call: Call) -> Priced:
    """One collective."""
    name = call.name.removesuffix("_coalesced")
    devices, ranks = _members(call)
    taken = next((call.get(word) for word in _GIVEN if call.get(word) is not None), None)
    reads = call.reads if taken is None else call.read(*operands_in(taken))  # not the results, which are given too
    writes = call.writes or call.read(*operands_in(call.get("output_tensors", call.get("tensors"))))
    does = KINDS[name]
    if does is None or devices == 1:
        return pricing.least_collective(name, reads, writes, does="Permute", nbytes=0, devices=devices)
    given, made = (sum(t.traffic_bytes for t in each) for each in (reads, writes))
    parts = {"AllToAll": max(given, made) * devices, "Gather": given * devices, "Scatter": made * devices}
    nbytes, groups = parts.get(does, max(given, made)), groups_of(devices, ranks)
    return pricing.least_collective(name, reads, writes, does=does, nbytes=nbytes, devices=devices, groups=groups)


#: Names of the input of collectives that write into given tensors.
_GIVEN = ("input_tensor", "input_tensors", "input")


@rule("fsdp.all_gather_copy_in", "fsdp.split_with_sizes_copy", "fsdp.chunk_cat", "fsdp.chunk_cat_mixed_dtype")
def packed(call: Call) -> Priced:
    """Shards of several weights put into one buffer, or taken out of it."""
    writes = call.writes[:1] if call.name == "all_gather_copy_in" else call.writes
    return call.move(reads=call.read(*operands_in(call.args[0])), writes=writes)


# Waiting moves nothing.
rule(
    "_c10d_functional.wait_tensor", "_c10d_functional._wrap_tensor_autograd", "_c10d_functional_autograd.wait_tensor",
    "c10d.barrier", "c10d.monitored_barrier_",
)(lambda call: None)  # fmt: skip


def _members(call: Call) -> tuple[int, list[int]]:
    """How many take part in a call, and their ranks where the process group tells them."""
    size = call.get("group_size")
    found, ranks = members(call.get("group_name", call.get("process_group")))
    return (size if isinstance(size, int) else found), ranks


def members(group: Any) -> tuple[int, list[int]]:
    """How many devices a process group (or its name) has, and their ranks where they are known."""
    import torch.distributed as dist

    if isinstance(group, str):
        from torch.distributed.distributed_c10d import _resolve_process_group

        group = _resolve_process_group(group)
    elif group is not None and not isinstance(group, dist.ProcessGroup):
        try:
            group = dist.ProcessGroup.unbox(group)
        except (AttributeError, RuntimeError, TypeError):
            group = None
    size = group.size() if group is not None else dist.get_world_size() if dist.is_initialized() else 1
    try:
        return size, list(dist.get_process_group_ranks(group))
    except (KeyError, RuntimeError, ValueError):
        return size, []


def groups_of(devices: int, ranks: list[int]) -> list[tuple[str, int, int]]:
    """Ranks with one stride as a group; no group for other ranks, or where not all are known."""
    steps = {after - before for before, after in pairwise(sorted(ranks))}
    return [("", len(ranks), steps.pop())] if len(ranks) == devices and len(steps) == 1 else []
