"""Splitting over chips: one chip's part of a model, and the mesh that the chips make.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> local, machine = local_model(load("llama-3-70b"), chip("h100:16"), tensor=16)
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
from roofline.models.blocks.key_selection import with_index_formats
from roofline.models.description import Model
from roofline.models.parallelism.layout import Parallelism, name_axes
from roofline.models.parallelism.stages import split_into_stages

#: Costs of each layer, of what comes before the first, and of what comes after the last.
Costs = tuple[Sequence[float], float, float]


def local_model(
    model: Model, machine: Machine, ways: Parallelism | None = None, **options: Any
) -> tuple[Model, Machine]:
    """One chip's part of a model that is laid out as ``ways`` says, and the machine with its chips named so.

    In place of ``ways``, ``options`` are those of :meth:`roofline.models.Parallelism.on`: ``tensor`` chips split the
    model, ``expert`` chips hold whole experts; chips that are left over run copies.
    """
    ways = Parallelism.on(machine, **options) if ways is None else ways
    if ways.pipeline > 1:
        raise InputError("the stages of a pipeline have a share each", hint="local_stages gives them")
    (local,), named = local_stages(model, machine, ways)
    return local, named


def local_stages(
    model: Model, machine: Machine, ways: Parallelism, costs: Costs | None = None, *, compares: bool = True
) -> tuple[tuple[Model, ...], Machine]:
    """One chip's part of each stage of a model, and the machine with its chips named.

    ``costs`` of each layer, of the blocks before them and of those after balance the stages.
    ``compares`` is as in :func:`roofline.models.parallelism.block_splitting.split_by_layout`.
    """
    model = with_index_formats(model, machine)
    if ways.chips == 1:
        return (model,), machine
    from roofline.models.parallelism.block_splitting import has_experts, split_by_layout

    if ways.expert > 1 and not has_experts(model):
        raise InputError(f"{model.name} has no experts to spread over {ways.expert} chips", hint="leave expert out")
    wanted = {name: size for name, size in ways.axes.items() if size > 1}
    named = machine
    if machine.mesh is None or [axis.name for axis in machine.mesh] != list(wanted):
        named = name_axes(machine, wanted)
    layers, first, last = costs or (None, 0, 0)
    parts = split_into_stages(model, ways.pipeline, layers, first=first, last=last)
    return tuple(split_by_layout(part, ways, named, compares=compares) for part in parts), named
