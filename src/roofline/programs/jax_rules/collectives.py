"""Collectives between the devices of a mesh: how many bytes each device sends.

Amounts are those of ring algorithms, which are the least that can be sent: (n − 1)/n of the whole for a gather or a
scatter of it, twice that for a reduction that everyone gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from roofline.programs.jax_registry import Call, Priced, Value, costs, rule
from roofline.sizes import Size, exact_div
from roofline.work import Op, Tensor

_NOTE = (
    "collectives send what a ring sends, the least for each device, one way over one link; "
    "several links or a tree may be faster: roofline comm prices a collective on a network"
)


@rule("psum", "psum_invariant", "psum2", "unreduced_psum", "pmax", "pmin")
def all_reduce(call: Call) -> Priced:
    """Everyone gets the sum."""
    n = _devices(call, "axes")
    return [
        _collective(call.name, (read,), (write,), 2 * (n - 1), n, write.traffic_bytes)
        for read, write in zip(call.operands, call.writes, strict=True)
        if read is not None
    ]


@rule("all_gather", "all_gather_invariant", "all_gather_reduced")
def all_gather(call: Call) -> Priced:
    """Everyone gets every part."""
    n = _devices(call, "axis_name")
    return _collective(call.name, call.reads, call.writes, n - 1, n, _bytes(call.writes))


@rule("reduce_scatter", "unreduced_reduce_scatter", "psum_scatter")
def reduce_scatter(call: Call) -> Priced:
    """Everyone gets a part of the sum."""
    n = _devices(call, "axis_name")
    return _collective(call.name, call.reads, call.writes, n - 1, n, _bytes(call.reads))


@rule("all_to_all", "ragged_all_to_all")
def all_to_all(call: Call) -> Priced:
    """Everyone sends every other device its part."""
    n = _devices(call, "axis_name")
    return _collective(call.name, call.read(0), call.writes, n - 1, n, _bytes(call.read(0)))


@rule("ppermute", "psend", "precv")
def permute(call: Call) -> Priced:
    """Everyone sends what it has to one other."""
    n = _devices(call, "axis_name")
    return _collective(call.name, call.reads, call.writes, n if n > 1 else 0, n, _bytes(call.reads))


@rule("reshard")
def reshard(call: Call) -> Priced:
    """Gather what is no longer sharded; axes that change their dimension are exchanged; taking a part sends nothing."""
    before, after = _axes(call.ins[0].split), _axes(call.outs[0].split)
    gathered = [axis for axis in before if axis not in after]
    moved = [axis for axis in before if axis in after and before[axis] != after[axis]]
    if not gathered and not moved:
        if call.ins[0].shape == call.outs[0].shape:
            return call.alias()
        return costs.move(call.name, call.touch(0, call.outs[0].size), call.writes)
    ops = []
    if moved:
        n = prod(call.axes[axis] for axis in moved)
        ops.append(_collective("all_to_all", call.reads, call.writes, n - 1, n, _bytes(call.reads)))
    if gathered:
        n = prod(call.axes[axis] for axis in gathered)
        ops.append(_collective("all_gather", call.reads, call.writes, n - 1, n, _bytes(call.writes)))
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
        n = prod(call.axes[axis] for axis in scattered)
        ops.append(_collective("reduce_scatter", (tensor,), (tensor,), n - 1, 1, tensor.traffic_bytes, n))
    if everyone:
        n = prod(call.axes[axis] for axis in everyone)
        ops.append(_collective("all_reduce", (tensor,), (tensor,), 2 * (n - 1), n, tensor.traffic_bytes))
    return ops


def _collective(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    times: int,
    over: int,
    whole: Size,
    devices: int | None = None,
) -> Op:
    """Send ``times``/``over`` of the whole."""
    sent = exact_div(whole * times, over)
    return costs.collective(name, reads, writes, sent=sent, devices=devices or over, note=_NOTE)


def _devices(call: Call, word: str) -> int:
    """Devices that take part: the product of the axes, or the size of a group of them."""
    groups = call.params.get("axis_index_groups")
    if groups:
        return len(groups[0])
    names: Any = call.params.get(word) or call.params.get("axis_name") or call.params.get("axes") or ()
    chosen = names if isinstance(names, tuple | list) else (names,)
    return prod(call.axes.get(axis, call.params.get("axis_size", 1)) for axis in chosen if isinstance(axis, str))


def _axes(split: Sequence[tuple[str, ...]]) -> dict[str, int]:
    return {axis: place for place, over in enumerate(split) for axis in over}


def _bytes(tensors: Sequence[Tensor]) -> Size:
    amounts = [tensor.traffic_bytes for tensor in tensors]
    return sum(amounts[1:], amounts[0]) if amounts else 0
