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
    over = _over(call)
    return [
        _collective(call, "AllReduce", over, (read,), (write,), write.traffic_bytes, call.name)
        for read, write in zip(call.operands, call.writes, strict=True)
        if read is not None
    ]


#: Primitives by what they do: everyone gets every part, or a part of the sum; everyone sends every other device its
#: part, or what it has to one other.
_DOES = {
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "AllGather"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter", "psum_scatter"), "ReduceScatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "AllToAll"),
    **dict.fromkeys(("ppermute", "psend", "precv"), "Permute"),
}


@rule(*_DOES)
def collective(call: Call) -> Priced:
    """One collective, of the bytes that a device holds before it, or after a gathering."""
    does, over = _DOES[call.name], _over(call)
    reads = call.read(0) if does == "AllToAll" else call.reads
    nbytes = _bytes(call.writes if does == "AllGather" else reads)
    whole = nbytes * _count(call, over) if does == "AllToAll" else nbytes
    return _collective(call, does, over, reads, call.writes, whole, call.name)


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


def _over(call: Call) -> Sequence[str] | int:
    """Mesh axes that take part, or how many devices where the program groups them by number."""
    groups = call.params.get("axis_index_groups")
    if groups:
        return len(groups[0])
    names: Any = call.params.get("axis_name") or call.params.get("axes") or ()
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
    return sum(tensor.traffic_bytes for tensor in tensors)
