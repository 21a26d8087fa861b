"""One chip's share of a model: blocks with local sizes, and the collectives that put their results together.

Tensor parallelism splits each block's heads or hidden width over the chips of a mesh axis, and the vocabulary. What a
chip holds and does follows from the local model as it does from any other:

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> mesh = name_axes(chip("h200:8"), {"tensor": 8}).mesh
>>> local = split(load("llama-2-70b"), mesh.select(["tensor"]))
>>> [block.name for block in local.layers[0].blocks][:3], local.parameters
(['input_layernorm', 'self_attn', 'self_attn.all_reduce'], 8623235072)

Source: Megatron-LM, arXiv:1909.08053 (tensor) and arXiv:2205.05198 (sequence parallelism).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofline.errors import HardwareError, SizeError
from roofline.hardware.machine import Machine, MeshAxis
from roofline.hardware.mesh import with_mesh
from roofline.models.blocks.exchange import Algorithm, HandOn, Received
from roofline.models.blocks.expert_spread import Spread
from roofline.models.blocks.experts import Experts
from roofline.models.blocks.residual import Parallel
from roofline.models.description import Block, Layer, Model, Share
from roofline.models.parallelism import SHARED, Parallelism
from roofline.models.splits import Splitter
from roofline.ops.collective_choice import Chooser
from roofline.sizes import ceil_div, product


def split(
    model: Model,
    axes: Sequence[MeshAxis],
    *,
    experts: bool = False,
    sequence: bool = False,
    algorithm: Algorithm = None,
) -> Model:
    """What one chip runs of a model that is split over mesh axes.

    ``experts`` gives each chip whole experts instead of a slice of every one. ``sequence`` keeps the hidden state
    between blocks split by tokens: a ReduceScatter and an AllGather stand where else an AllReduce does, of the same
    bytes. ``algorithm`` is that of the collectives. Keys' heads fewer than chips are
    held by several; query heads must divide.
    """
    ways = product(axis.size for axis in axes)
    if not isinstance(ways, int):
        raise SizeError("the number of chips a model is split over is a plain number")
    if ways == 1:
        return model
    expert = ways if experts else 1
    return _split(model, Splitter(model.name, ways, tuple(axes), expert, sequence, algorithm))


def divide(model: Model, ways: Parallelism, machine: Machine, *, compares: bool = True) -> Model:
    """What one chip runs of a model, or of one stage of it, laid out as ``ways`` says on a machine of that mesh.

    ``compares`` says whether notes of collectives name a faster algorithm, which nobody reads in a search.
    """
    named = {axis.name: axis for axis in machine.mesh or ()}
    algorithm = Chooser(ways.algorithm, machine, compares)
    axes = {name: (named[name],) if size > 1 else () for name, size in ways.axes.items()}
    axes["tensor"] = (*axes["tensor"], *axes["kv"])
    spread = None
    if ways.sends and ways.expert > 1:
        spread = Spread(
            axes=tuple(axis for name in ways.expert_axes for axis in axes[name]),
            tensor=axes["tensor"],
            context=axes["context"] if ways.expert > ways.tensor else (),
            group=ways.sharing > 1,
            scattered=ways.sequence and ways.tensor > 1,
            split=ways.shared == "split" and ways.tensor > 1,
            dispatch=ways.dispatch or _quantised(model),
            combine=ways.combine or "",
            algorithm=algorithm,
            once=ways.exchange == "all-to-all",
        )
    made = Splitter(
        model.name, ways.tensor, axes["tensor"], ways.expert, ways.sequence and ways.tensor > 1, algorithm,
        axes["context"], spread, axes["kv"],
    )  # fmt: skip
    local = _split(model, made)
    if ways.pipeline > 1 and not model.head and not model.final:
        local = replace(local, hands=(*local.hands, HandOn("hand_on", axes["pipeline"], algorithm)))
    share = Share(ways.copies, ways.sharing, ways.context)
    return replace(local, share=share, notes=(*local.notes, *_said(ways, spread, model)))


def has_experts(model: Model) -> bool:
    """Say whether a model has experts to spread over chips."""

    def inside(blocks: Sequence[Block]) -> bool:
        return any(
            isinstance(block, Experts) or (isinstance(block, Parallel) and any(map(inside, block.branches)))
            for block in blocks
        )

    return any(inside(layer.blocks) for layer in model.layers)


def _split(model: Model, made: Splitter) -> Model:
    layers: dict[Layer, Layer] = {}
    for layer in model.layers:
        if layer not in layers:
            layers[layer] = Layer(made.blocks(layer.blocks))
    local = replace(model, layers=tuple(layers[layer] for layer in model.layers), extra=(), extra_blocks=())
    if made.ways > 1:
        first: tuple[Block, ...] = (made.reduce(model.embedding_name),) if model.embeds else ()
        if made.sequence and not model.embeds:
            first = (Received("", made.ways),)
        gather = (made.gather("lm_head"),) if made.sequence and model.head else ()
        local = replace(
            local,
            vocabulary=ceil_div(model.vocabulary, made.ways),
            before=(*first, *model.before),
            after=(*model.after, *gather),
            notes=(*local.notes, *_notes(model, made)),
        )
    return replace(local, notes=(*local.notes, *made.said), gaps=(*model.gaps, *made.gaps))


def _quantised(model: Model) -> str:
    """The format activations are quantised to before their products with experts' matrices, if they are."""
    from roofline.models.description import Weight
    from roofline.models.operations import storages

    for number, layer in enumerate(model.layers, model.first):
        for block in layer.blocks:
            for weight in block.weights():
                if weight.kind == "expert":
                    of = storages(model)(f"layers.{number}")(f"{block.name}.{weight.name}", Weight(*weight))
                    return of.compute if of.compute.startswith("fp8") else ""
    return ""


def _said(ways: Parallelism, spread: Spread | None, model: Model) -> list[str]:
    said = list(ways.notes)
    if spread is not None:
        formats = [f"{what} {dtype or 'as activations'}" for what, dtype in
                   (("dispatch", spread.dispatch), ("combine", spread.combine))]  # fmt: skip
        said.append(
            f"whole experts on {ways.expert} chips, all chosen alike unless a skew is given; {spread.says()} "
            f"({', '.join(formats)})"
        )
        if any(getattr(block, "shared", None) for layer in model.layers for block in layer.blocks):
            said.append(SHARED["split" if spread.split else "replicated"])
    if ways.kv > 1:
        said.append(f"{ways.kv} chips share the keys and values of the same heads by sequence")
    if ways.context > 1:
        said.append(
            f"{ways.context} chips share each sequence: prefill passes keys and values round, queries dealt evenly; in "
            "decode each chip has a part of the keys and values and runs everything else on all new tokens"
        )
    return said


def _notes(model: Model, made: Splitter) -> list[str]:
    ways = made.ways
    how = "a ReduceScatter and an AllGather" if made.sequence else "an AllReduce"
    said = [f"{ways} chips split heads, hidden columns and vocabulary; {how} after each block puts the sums together"]
    if made.sequence:
        said.append("between blocks each chip has its share of the tokens (sequence parallelism)")
    if model.vocabulary % ways:
        said.append(f"the vocabulary of {model.vocabulary} is padded to {ceil_div(model.vocabulary, ways) * ways}")
    if model.head:
        said.append("logits stay split by vocabulary: only each chip's largest would be exchanged")
    return said


def name_axes(machine: Machine, sizes: Mapping[str, int]) -> Machine:
    """Name the chips of a target by the axes of a parallelism, the last the innermost; sizes of 1 count as none.

    A slice's own axes are given out in order; one may be cut between two, whose collectives then share its links:

    >>> from roofline.hardware import chip
    >>> name_axes(chip("v5p:16x16x16"), {"fsdp": 512, "tensor": 8}).mesh
    Mesh(fsdp=512 ici ring 16, ici ring 16, ici line 2, tensor=8 ici line)
    """
    wanted = {name: size for name, size in sizes.items() if size != 1}
    if not wanted:
        return machine
    chips = math.prod(wanted.values())
    have = math.prod(machine.shape) * machine.slices
    if machine.shape and have != chips:
        made = " · ".join(f"{name} {size}" for name, size in wanted.items())
        raise HardwareError(
            f"{made} is {chips} chips, and {machine.target} has {have}", hint="their product is the chips"
        )
    outer = next((name for name, size in wanted.items() if machine.slices > 1 and size == machine.slices), None)
    if outer is not None:
        # what is outermost runs over the slices, which a mesh names last
        wanted[outer] = wanted.pop(outer)
    return with_mesh(machine, wanted)
