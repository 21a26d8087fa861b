"""Collectives between the devices of a mesh: which one, of how many bytes, over which axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from roofline.programs.jax.registry import Call, Priced, Value, pricing, rule
from roofline.sizes import Size
from roofline.work import Op, Tensor


@rule("psum", "psum_invariant", "psum2", "unreduced_psum", "pmax", "pmin")
def all_reduce(call: Call) -> Priced:
    """Everyone gets the sum."""
    over = _over(call, "axes")
    return [
        _collective(call, "AllReduce", over, (read,), (write,), write.traffic_bytes, call.name)
        for read, write in zip(call.operands, call.writes, strict=True)
        if read is not None
    ]


@rule("all_gather", "all_gather_invariant", "all_gather_reduced")
def all_gather(call: Call) -> Priced:
    """Everyone gets every part."""
    over = _over(call, "axis_name")
    return _collective(call, "AllGather", over, call.reads, call.writes, _bytes(call.writes), call.name)


@rule("reduce_scatter", "unreduced_reduce_scatter", "psum_scatter")
def reduce_scatter(call: Call) -> Priced:
    """Everyone gets a part of the sum."""
    over = _over(call, "axis_name")
    return _collective(call, "ReduceScatter", over, call.reads, call.writes, _bytes(call.reads), call.name)


@rule("all_to_all", "ragged_all_to_all")
def all_to_all(call: Call) -> Priced:
    """Everyone sends every other device its part."""
    over, reads = _over(call, "axis_name"), call.read(0)
    return _collective(call, "AllToAll", over, reads, call.writes, _bytes(reads) * _count(call, over), call.name)


@rule("ppermute", "psend", "precv")
def permute(call: Call) -> Priced:
    """Everyone sends what it has to one other."""
    over = _over(call, "axis_name")
    return _collective(call, "Permute", over, call.reads, call.writes, _bytes(call.reads), call.name)


@rule("reshard")
def reshard(call: Call) -> Priced:
    """Gather what is no longer sharded; axes that change their dimension are exchanged; taking a part sends nothing."""
    before, after = _axes(call.ins[0].split), _axes(call.outs[0].split)
    gathered = [axis for axis in before if axis not in after]
    moved = [axis for axis in before if axis in after and before[axis] != after[axis]]
    if not gathered and not moved:
        if call.ins[0].shape == call.outs[0].shape:
            return call.alias()
        return pricing.move(call.name, call.touch(0, call.outs[0].size), call.writes)
    ops = []
    if moved:
        whole = _bytes(call.reads) * _count(call, moved)
        ops.append(_collective(call, "AllToAll", moved, call.reads, call.writes, whole, "all_to_all"))
    if gathered:
        ops.append(_collective(call, "AllGather", gathered, call.reads, call.writes, _bytes(call.writes), "all_gather"))
    return ops


def reduced_over(call: Call, axes: Iterable[str], tensor: Tensor, value: Value) -> list[Op]:
    """The collective after a sum over sharded dimensions: everyone gets it, or its part where the result is sharded."""
    summed = list(dict.fromkeys(axes))
    if not summed:
        return []
    kept = _axes(value.split)
    scattered = [axis for axis in summed if axis in kept]
    everyone = [axis for axis in summed if axis not in kept]
    ops = []
    if scattered:
        whole = tensor.traffic_bytes * _count(call, scattered)
        ops.append(_collective(call, "ReduceScatter", scattered, (tensor,), (tensor,), whole, "reduce_scatter"))
    if everyone:
        whole = tensor.traffic_bytes
        ops.append(_collective(call, "AllReduce", everyone, (tensor,), (tensor,), whole, "all_reduce"))
    return ops


def _collective(
    call: Call,
    does: str,
    over: Sequence[str] | int,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    nbytes: Size,
    name: str,
) -> Op:
    """One collective over mesh axes, or over groups of so many devices."""
    groups = [] if isinstance(over, int) else [(axis, call.axes[axis], _stride(call, axis)) for axis in over]
    devices = _count(call, over)
    return pricing.least_collective(name, reads, writes, does=does, nbytes=nbytes, devices=devices, groups=groups)


def _over(call: Call, word: str) -> Sequence[str] | int:
    """Mesh axes that take part, or how many devices where the program groups them by number."""
    groups = call.params.get("axis_index_groups")
    if groups:
        return len(groups[0])
    names: Any = call.params.get(word) or call.params.get("axis_name") or call.params.get("axes") or ()
    chosen = names if isinstance(names, tuple | list) else (names,)
    listed = [axis for axis in chosen if isinstance(axis, str)]
    return listed if all(axis in call.axes for axis in listed) else int(call.params.get("axis_size", 1))


def _count(call: Call, over: Sequence[str] | int) -> int:
    """Devices that take part."""
    return over if isinstance(over, int) else prod(call.axes[axis] for axis in over)


def _stride(call: Call, axis: str) -> int:
    """How far apart the devices of an axis are: those of the mesh's last axis are next to each other."""
    names = list(call.axes)
    return prod(call.axes[name] for name in names[names.index(axis) + 1 :])


def _axes(split: Sequence[tuple[str, ...]]) -> dict[str, int]:
    return {axis: place for place, over in enumerate(split) for axis in over}


def _bytes(tensors: Sequence[Tensor]) -> Size:
    amounts = [tensor.traffic_bytes for tensor in tensors]
    return sum(amounts)
