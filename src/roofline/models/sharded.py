"""Serving over several chips: the model's share of one of them, and the mesh they make.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> local, machine = share(load("llama-3-70b"), chip("h100:16"), tensor=16)
>>> local.layers[0].blocks[1].heads, local.kv_bytes_per_token() * 8 == load("llama-3-70b").kv_bytes_per_token()
(4, True)
>>> local.notes[-1], machine.mesh
('8 heads of keys and values on 16 chips: each is held by 2', Mesh(tensor=16 nvlink switch 8, nic switch 2))
"""

from __future__ import annotations

from roofline.errors import InputError
from roofline.hardware.machine import Machine
from roofline.models.description import Model
from roofline.sizes import check


def share(
    model: Model, machine: Machine, *, tensor: int = 1, expert: int = 1, algorithm: str | None = None
) -> tuple[Model, Machine]:
    """One chip's part of a model that ``tensor`` chips split, and the machine with its chips named so.

    ``expert`` chips, all of them or one, hold whole experts. Every chip has all tokens of the batch: those of its own
    experts need not be sent, and the AllReduce that adds up the blocks brings the results together.
    """
    check("tensor", tensor)
    check("expert", expert)
    if expert not in (1, tensor):
        raise InputError(
            f"experts on {expert} chips, of which {tensor} split the model",
            hint=f"say expert {tensor}, or leave it out",
        )
    if tensor == 1:
        return model, machine
    from roofline.models.blocks.experts import Experts
    from roofline.models.parallel import name_axes, split
    from roofline.ops.collective_choice import Chooser

    if expert > 1 and not any(isinstance(block, Experts) for layer in model.layers for block in layer.blocks):
        raise InputError(f"{model.name} has no experts to spread over {expert} chips", hint="leave expert out")
    named = machine
    if machine.mesh is None or [axis.name for axis in machine.mesh] != ["tensor"]:
        named = name_axes(machine, {"tensor": tensor})
    axes = named.mesh.select(["tensor"]) if named.mesh else ()
    return split(model, axes, experts=expert > 1, algorithm=Chooser(algorithm, named)), named
