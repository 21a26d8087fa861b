"""Serving over several chips: one chip's share of the model, and the mesh they make.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> local, machine = share(load("llama-3-70b"), chip("h100:16"), tensor=16)
>>> local.layers[0].blocks[1].heads, local.kv_bytes_per_token() * 8 == load("llama-3-70b").kv_bytes_per_token()
(4, True)
>>> local.notes[-1], machine.mesh
('8 heads of keys and values on 16 chips: each is held by 2', Mesh(tensor=16 nvlink switch 8, nic switch 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.errors import InputError
from roofline.hardware.machine import Machine
from roofline.models.description import Model
from roofline.models.parallelism import Parallelism

#: Costs of each layer, of what comes before the first, and of what comes after the last.
Costs = tuple[Sequence[float], float, float]


def share(model: Model, machine: Machine, ways: Parallelism | None = None, **options: Any) -> tuple[Model, Machine]:
    """One chip's part of a model that is laid out as ``ways`` says, and the machine with its chips named so.

    ``options`` are those of :meth:`roofline.models.parallelism.Parallelism.on`, in place of ``ways``: ``tensor`` chips
    split the model, ``expert`` hold whole experts; chips that are left over run copies.
    """
    ways = Parallelism.on(machine, **options) if ways is None else ways
    if ways.pipeline > 1:
        raise InputError("the stages of a pipeline have a share each", hint="roofline.models.sharded.shares")
    (local,), named = shares(model, machine, ways)
    return local, named


def shares(
    model: Model, machine: Machine, ways: Parallelism, costs: Costs | None = None, *, compares: bool = True
) -> tuple[tuple[Model, ...], Machine]:
    """One chip's part of each stage of a model, and the machine with its chips named.

    ``costs`` are those that stages are cut by: of each layer, of what comes before them, of what comes after.
    ``compares`` is as in :func:`roofline.models.parallel.divide`.
    """
    if ways.chips == 1:
        return (model,), machine
    from roofline.models.parallel import divide, has_experts, name_axes
    from roofline.models.stages import stages

    if ways.expert > 1 and not has_experts(model):
        raise InputError(f"{model.name} has no experts to spread over {ways.expert} chips", hint="leave expert out")
    wanted = {name: size for name, size in ways.axes.items() if size > 1}
    named = machine
    if machine.mesh is None or [axis.name for axis in machine.mesh] != list(wanted):
        named = name_axes(machine, wanted)
    layers, first, last = costs or (None, 0, 0)
    parts = stages(model, ways.pipeline, layers, first=first, last=last)
    return tuple(divide(part, ways, named, compares=compares) for part in parts), named
