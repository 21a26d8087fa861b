"""Collectives of a traced program on the network of a target that has a shape.

Which devices take part is a tuple of groups ``(name, size, stride)`` over the numbered devices of the program: a mesh
of data=4, model=2 has the groups ("data", 4, 2) and ("model", 2, 1). A program's devices lie on the chips in order,
so sizes and strides say which axes of the target a collective goes over:

>>> from roofline.hardware import chip
>>> from roofline.ops import pricing
>>> from roofline.work import Tensor
>>> x = (Tensor("x", (1024, 1024), "bf16"),)
>>> op = pricing.least_collective("psum", x, x, does="AllReduce", nbytes=2**21, devices=4, groups=(("model", 4, 1),))
>>> op.work
Work(wire/link: 3145728)
>>> for target in ("v5p:4x4x4", "h100:64"):
...     placed = place([op], chip(target))
...     print(placed.machine.mesh, placed.ops[0].work)
Mesh(X=4 ici ring, Y=4 ici ring, Z=4 ici ring) Work(wire/Z: 1572864, hops/Z: 4)
Mesh(X=16 nvlink switch 2, nic switch 8, model=4 nvlink switch) Work(wire/model: 2097152, hops/model: 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from roofline.errors import HardwareError
from roofline.hardware.axes import AXIS_NAMES, SLICE_AXIS, MeshAxis
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.registry import KINDS
from roofline.ops.pricing import DeviceGroup
from roofline.sizes import Size, product
from roofline.work import Op

_ORDER_NOTE = "the program's devices lie on {} in order, those of the last axis of its mesh next to each other"


class Placed(NamedTuple):
    """Operations whose collectives go over the axes of ``machine``, and what was assumed of those that do."""

    ops: tuple[Op, ...]
    machine: Machine
    assumptions: tuple[str, ...]


def place(ops: Sequence[Op], machine: Machine) -> Placed:
    """Price the collectives on the target's network, each by the algorithm that is the fastest for its size.

    Without a shape of the target they stay as they are. So do those whose devices do not fit it, which is said.
    """
    sent = [op for op in ops if op.options.get("collective") in KINDS and op.work]
    if machine.mesh is None or not isinstance(machine.mesh.chips, int):
        return Placed(tuple(ops), machine, ())
    if not sent:
        many = machine.mesh.chips
        alone = (f"the program is not split: it runs on one of the {many} chips of {machine.target}",)
        return Placed(tuple(ops), machine, alone if many > 1 else ())
    chips = machine.mesh.chips
    cuts = {1, chips}
    for op in sent:
        wanted = cuts | _ends(op)
        cuts = wanted if _nested(wanted) and max(wanted) == chips else cuts
    if not cuts <= _cuts(_in_order(machine)):
        with suppress(HardwareError):  # links that cannot be cut so: those groups do not fit
            machine = with_mesh(machine, _axes(sorted(cuts), sent))
    return _placed(ops, machine)


def _placed(ops: Sequence[Op], machine: Machine) -> Placed:
    from roofline.ops.collectives.choice import Chooser
    from roofline.ops.collectives.cost import cost

    axes, chooser = _in_order(machine), Chooser(machine=machine)
    where = machine.target
    notes: dict[str, None] = {}
    priced = []
    for op in ops:
        does = op.options.get("collective")
        if does not in KINDS or not op.work:
            priced.append(op)
            continue
        over = _over(op, axes)
        if not over:
            notes[
                f"{op.name} over {op.dims['devices']} devices does not fit {where}: it sends the least that each "
                f"has to, one way over one link"
            ] = None
            priced.append(op)
            continue
        dtype = next((tensor.dtype for tensor in (*op.reads, *op.writes)), "")
        found = cost(does, over, op.dims["bytes"], algorithm=chooser, dtype=dtype)
        notes[_ORDER_NOTE.format(where)] = None
        notes[f"{op.name} is {found.note}"] = None
        if not op.options["groups"]:
            notes[f"which {op.dims['devices']} devices take part in {op.name} is not known: next to each other"] = None
        priced.append(replace(op, work=found.work, note=found.note))
    cut = () if machine.mesh is None else machine.mesh.notes
    return Placed(tuple(priced), machine, (*notes, *cut))


def _over(op: Op, axes: Sequence[MeshAxis]) -> tuple[MeshAxis, ...]:
    """Axes of the target that the groups of a collective are; none where they do not fit."""
    found: list[MeshAxis] = []
    for _, size, stride in _groups(op):
        inside, chosen = 1, {}
        for axis in reversed(axes):
            if stride <= inside < stride * size and axis.size != 1:
                chosen[inside] = axis
            inside *= int(axis.size)
        if product(axis.size for axis in chosen.values()) != size or min(chosen) != stride:
            return ()
        found += chosen.values()
    return tuple(axis for axis in axes if axis in found)


def _groups(op: Op) -> tuple[DeviceGroup, ...]:
    """Groups that take part; those whose members are not known are taken to lie next to each other."""
    given: tuple[DeviceGroup, ...] = op.options["groups"]
    return tuple(group for group in given if group[1] > 1) or (("", int(op.dims["devices"]), 1),)


def _ends(op: Op) -> set[int]:
    return {end for _, size, stride in _groups(op) for end in (stride, stride * size)}


def _nested(cuts: Iterable[int]) -> bool:
    return all(outer % inner == 0 for inner, outer in pairwise(sorted(cuts)))


def _in_order(machine: Machine) -> tuple[MeshAxis, ...]:
    """Axes of the target, the outermost first: slices are outside the axes of one."""
    axes = () if machine.mesh is None else machine.mesh.axes
    return tuple(sorted(axes, key=lambda axis: axis.name != SLICE_AXIS))


def _cuts(axes: Sequence[MeshAxis]) -> set[int]:
    """How many chips lie inside each axis and all within it."""
    return {int(product(axis.size for axis in axes[start:])) for start in range(len(axes) + 1)}


def _axes(cuts: Sequence[int], sent: Sequence[Op]) -> dict[str, Size]:
    """Axes between the cuts, by the names that the program gives them."""
    names = {(stride, stride * size): name for op in sent for name, size, stride in _groups(op)}
    spare = iter(AXIS_NAMES)
    found: dict[str, Size] = {}
    for inner, outer in reversed(list(pairwise(cuts))):
        name = names.get((inner, outer), "").replace("_", "")
        usable = name.isidentifier() and name not in found and name not in AXIS_NAMES
        found[name if usable else next(spare)] = outer // inner
    return found
