"""Collectives of torch.distributed: how many bytes each device sends over its link.

Amounts are those of ring algorithms, which are the least that can be sent: (n − 1)/n of the whole for a gather or a
scatter of it, twice that for a reduction that everyone gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.programs.torch_registry import Call, Priced, costs, rule
from roofline.programs.torch_values import tensors_in
from roofline.sizes import exact_div

#: Times the whole, for n devices.
SHARES: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "allreduce": lambda n: 2 * (n - 1) / n,
    "all_gather_into_tensor": lambda n: (n - 1) / n,
    "allgather": lambda n: (n - 1) / n,
    "_allgather_base": lambda n: (n - 1) / n,
    "reduce_scatter_tensor": lambda n: (n - 1) / n,
    "_reduce_scatter_base": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all_single": lambda n: (n - 1) / n,
    "alltoall_base": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "send": lambda n: 1,
    "recv": lambda n: 0,
}


def _names() -> list[str]:
    plain = [name for name in SHARES if not name.startswith("_")]
    functional = [f"{space}.{name}" for space in ("_c10d_functional", "_c10d_functional_autograd") for name in plain]
    return [
        *functional,
        *(f"_c10d_functional.{name}_coalesced" for name in plain),
        *(f"c10d.{name}" for name in SHARES),
    ]


@rule(*_names())
def collective(call: Call) -> Priced:
    """One collective."""
    name = call.name.removesuffix("_coalesced")
    devices = _devices(call)
    given = next((call.get(word) for word in _GIVEN if call.get(word) is not None), None)
    reads = call.reads if given is None else call.read(*tensors_in(given))  # not the results, which are given too
    whole = max(sum(t.traffic_bytes for t in reads), sum(t.traffic_bytes for t in call.writes))
    share = SHARES[name](devices) if devices > 1 else 0
    sent = whole * share
    note = "collectives are ring algorithms: the least each device can send"
    return costs.collective(
        name, reads, call.writes, sent=exact_div(int(sent * devices), devices), devices=devices, note=note
    )


#: What goes into a collective that writes into tensors it is given.
_GIVEN = ("input_tensor", "input_tensors", "input")


@rule("fsdp.all_gather_copy_in", "fsdp.split_with_sizes_copy", "fsdp.chunk_cat")
def packed(call: Call) -> Priced:
    """Shards of several weights put into one buffer, or taken out of it."""
    writes = call.writes[:1] if call.name == "all_gather_copy_in" else call.writes
    return costs.move(call.name, call.read(*tensors_in(call.args[0])), writes)


@rule(
    "_c10d_functional.wait_tensor",
    "_c10d_functional._wrap_tensor_autograd",
    "_c10d_functional_autograd.wait_tensor",
    "c10d.barrier",
    "c10d.monitored_barrier_",
)
def waited(call: Call) -> Priced:
    """Waiting moves nothing."""
    return None


def _devices(call: Call) -> int:
    size = call.get("group_size")
    if isinstance(size, int):
        return size
    group = call.get("group_name", call.get("process_group"))
    return _group_size(group)


def _group_size(group: Any) -> int:
    import torch.distributed as dist

    if isinstance(group, str):
        from torch.distributed.distributed_c10d import _resolve_process_group

        return int(_resolve_process_group(group).size())
    try:
        return int(dist.ProcessGroup.unbox(group).size()) if group is not None else int(dist.get_world_size())
    except (AttributeError, RuntimeError, TypeError):
        return int(dist.get_world_size()) if dist.is_initialized() else 1
