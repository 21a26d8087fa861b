"""Which chips do what in training: copies, stages, shares of the weights, experts, parts of sequences and of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from roofline.errors import InputError, SizeError
from roofline.hardware.machine import Machine
from roofline.models.description import Model
from roofline.models.parallelism.layout import OPTIONS, Parallelism
from roofline.sizes import Size, check

#: Uses of chips from the outermost links to the innermost.
ORDER = ("data", "pipeline", "fsdp", "expert", "context", "tensor")


def chips_by_use(
    machine: Machine, given: Mapping[str, int], fsdp: int | None, layers: int, chunks: int
) -> dict[str, Size]:
    """Chips by use, outermost first; what is not given goes to ``fsdp``."""
    chips = machine.slices
    for size in machine.shape:
        chips *= size
    checked = {name: check(name, size) for name, size in given.items()}
    stages, pieces = given["pipeline"], check("chunks", chunks)
    if stages * pieces > layers:
        raise SizeError(
            f"{layers} layers do not make {stages * pieces} pieces of a pipeline", hint=f"at most {layers} stages"
        )
    if fsdp is None:
        taken = math.prod(given.values())
        rest, over = divmod(chips, taken)
        if over and machine.shape:
            named = " · ".join(f"{name} {size}" for name, size in given.items() if size > 1)
            raise SizeError(f"{chips} chips are no multiple of {named}", hint=f"{taken} chips, or a multiple")
        fsdp = max(rest, 1) if machine.shape else 1
    return {name: checked[name] if name in checked else check("fsdp", fsdp) for name in ORDER}


def laid_out(
    model: Model, tensor: int, sequence: bool, context: int, expert: int, exchange: str | None = None
) -> Parallelism:
    """How one copy of the model is laid on chips, with the copies that share its experts."""
    from roofline.models.parallelism.block_splitting import has_experts

    numbers = {"tensor": tensor, "context_parallel": context, "expert": expert}
    several = next((name for name, ways in numbers.items() if not isinstance(ways, int)), None)
    if several is not None:
        raise SizeError(f"{several} is not one number of chips", hint="ask for one layout at a time")
    made = Parallelism(**{OPTIONS[name]: check(name, size) for name, size in numbers.items()}, sequence=sequence)
    if expert > 1 and not has_experts(model):
        raise InputError(f"{model.name} has no experts to spread over {expert} chips", hint="leave expert out")
    inside = tensor * context
    if expert > inside and expert % inside:
        raise InputError(f"experts on {expert} chips, of which {inside} run a copy", hint=f"a multiple of {inside}")
    if expert <= inside and expert not in (1, tensor, inside):
        raise InputError(f"experts on {expert} chips, of which {inside} run a copy", hint=f"1, {tensor} or more")
    usual = "all-to-all" if expert > tensor else "all-reduce"
    return replace(made, data=max(expert // inside, 1), exchange=exchange or usual).checked()
