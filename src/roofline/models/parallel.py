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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import HardwareError, InputError, SizeError
from roofline.hardware.machine import Machine
from roofline.hardware.network import MeshAxis, target_text, with_mesh
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.experts import Experts
from roofline.models.blocks.latent import LatentAttention
from roofline.models.blocks.mlp import Mlp
from roofline.models.blocks.residual import Dense, Norm, Parallel, Positions, Residual
from roofline.models.description import Block, Layer, Model
from roofline.models.trace import Trace
from roofline.ops.collective import cost
from roofline.ops.collective_choice import Chooser
from roofline.sizes import Size, ceil_div, is_array, is_symbol, product
from roofline.work import Op, Tensor

#: What each collective is called in a model's operations.
NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}


@dataclass(frozen=True, slots=True)
class Exchange(Block):
    """A collective of the hidden state between a layer's blocks, over all tokens of the step."""

    kind: str
    axes: tuple[MeshAxis, ...]
    algorithm: str | Chooser | None = None

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the collective and return what each chip then holds: its own tokens after a ReduceScatter, else all."""
        tokens = trace.step.tokens
        ways = product(axis.size for axis in self.axes)
        rows = divided(tokens, ways) if self.kind == "ReduceScatter" else tokens
        out = trace.made("", rows, *x.dims[1:], dtype=x.dtype)
        whole = x if self.kind != "AllGather" else out
        trace.add(exchanged(self.kind, self.axes, whole.traffic_bytes, x, out, self.algorithm), "")
        return out


def exchanged(
    kind: str, axes: Sequence[MeshAxis], nbytes: Size, x: Tensor, out: Tensor, algorithm: str | Chooser | None = None
) -> Op:
    """A collective of an array of ``nbytes`` as an operation from ``x`` to ``out``."""
    found = cost(kind, axes, nbytes, algorithm=algorithm)
    return Op(
        name=kind,
        kind="collective",
        work=found.work,
        reads=(x,),
        writes=(out,),
        dims={"bytes": nbytes, "chips": found.chips},
        note=found.note,
        options={"collective": kind, "algorithm": found.algorithm, "axes": found.axes},
    )


def split(
    model: Model,
    axes: Sequence[MeshAxis],
    *,
    experts: bool = False,
    sequence: bool = False,
    algorithm: str | Chooser | None = None,
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
    made = _Splitter(model.name, ways, tuple(axes), experts, sequence, algorithm)
    layers: dict[Layer, Layer] = {}
    for layer in model.layers:
        if layer not in layers:
            layers[layer] = Layer(made.blocks(layer.blocks))
    first = made.reduce(model.embedding_name)
    gather = (made.gather("lm_head"),) if sequence else ()
    local = replace(
        model,
        vocabulary=ceil_div(model.vocabulary, ways),
        layers=tuple(layers[layer] for layer in model.layers),
        before=(first, *model.before),
        after=(*model.after, *gather),
        extra=(),
        extra_blocks=(),
    )
    return replace(local, notes=(*model.notes, *_notes(model, made)), gaps=(*model.gaps, *made.gaps))


class _Splitter:
    """Turns blocks into one chip's share, and remembers what had to be said."""

    def __init__(
        self,
        name: str,
        ways: int,
        axes: tuple[MeshAxis, ...],
        experts: bool,
        sequence: bool,
        algorithm: str | Chooser | None,
    ) -> None:
        self.name, self.ways, self.axes, self.experts, self.sequence = name, ways, axes, experts, sequence
        self.algorithm = algorithm
        self.said: dict[str, None] = {}
        self.gaps: dict[str, None] = {}

    def reduce(self, name: str) -> Exchange:
        kind = "ReduceScatter" if self.sequence else "AllReduce"
        return Exchange(f"{name}.{NAMES[kind]}", kind, self.axes, self.algorithm)

    def gather(self, name: str) -> Exchange:
        return Exchange(f"{name}.all_gather", "AllGather", self.axes, self.algorithm)

    def blocks(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Split each block that has work to split, with the collectives around it."""
        found: list[Block] = []
        for block in blocks:
            if isinstance(block, _WHOLE):
                found.append(block)
                continue
            if isinstance(block, Parallel) and not _ends_alike(block):
                # a branch that goes on after its matrices needs its sums there
                found.append(replace(block, branches=tuple(self.blocks(branch) for branch in block.branches)))
                continue
            if self.sequence:
                found.append(self.gather(block.name))
            found += [self.one(block), self.reduce(block.name)]
        return tuple(found)

    def one(self, block: Block) -> Block:
        rule = SPLITS.get(type(block))
        if rule is None:
            kind = type(block).__name__
            raise InputError(
                f"splitting {self.name} over chips is not modelled: it has {kind} layers ({block.name})",
                hint=f"those that are: {', '.join(each.__name__ for each in SPLITS)}",
            )
        return rule(self, block)

    def whole(self, what: str, size: int) -> int:
        """A part of a size that the chips must divide."""
        if size % self.ways:
            ways = [n for n in range(2, min(size, 64) + 1) if size % n == 0]
            hint = f"a number of chips that divides them: {', '.join(map(str, ways))}"
            raise SizeError(f"{self.name} has {size} {what}, which {self.ways} chips do not divide", hint=hint)
        return size // self.ways


def _attention(made: _Splitter, block: Any) -> Any:
    heads = made.whole("heads", block.heads)
    kv_heads = block.kv_heads // made.ways
    if block.kv_heads % made.ways:
        if made.ways % block.kv_heads:
            made.whole("heads of keys and values", block.kv_heads)
        kv_heads, copies = 1, made.ways // block.kv_heads
        made.said[f"{block.kv_heads} heads of keys and values on {made.ways} chips: each is held by {copies}"] = None
    if block.norm == "full":
        made.gaps["the norm over all heads: its sums are exchanged between chips, which is not counted"] = None
    if block.selector is not None:
        made.said["every chip selects keys by itself"] = None
    return replace(block, heads=heads, kv_heads=kv_heads)


def _latent(made: _Splitter, block: Any) -> Any:
    made.said["every chip holds the latents of all heads"] = None
    return replace(block, heads=made.whole("heads", block.heads))


def _mlp(made: _Splitter, block: Any) -> Any:
    return replace(block, hidden=made.whole("hidden columns", block.hidden))


def _experts(made: _Splitter, block: Any) -> Any:
    shared = None if block.shared is None else _mlp(made, block.shared)
    if made.experts:
        made.whole("experts", block.count)
        made.said["each chip holds whole experts and gets its share of the tokens, all experts alike"] = None
        return replace(block, shared=shared, ways=made.ways)
    return replace(block, shared=shared, hidden=made.whole("hidden columns of an expert", block.hidden))


def _parallel(made: _Splitter, block: Any) -> Any:
    if made.sequence:
        raise InputError(f"sequence parallelism of {made.name} is not modelled: its branches run side by side")
    branches = []
    for branch in block.branches:
        *first, last = branch
        branches.append((*first, made.one(last)))
    return replace(block, branches=tuple(branches))


#: Blocks that every chip runs whole, and how the others are split.
_WHOLE = (Norm, Residual, Positions, Dense, Exchange)
SPLITS: Mapping[type[Block], Callable[[_Splitter, Any], Block]] = {
    Attention: _attention,
    LatentAttention: _latent,
    Mlp: _mlp,
    Experts: _experts,
    Parallel: _parallel,
}


def _ends_alike(block: Parallel) -> bool:
    """Say whether each branch ends with the only block that is split: one collective then serves all."""
    return all(
        not isinstance(branch[-1], _WHOLE) and all(isinstance(each, _WHOLE) for each in branch[:-1])
        for branch in block.branches
    )


def _notes(model: Model, made: _Splitter) -> list[str]:
    ways = made.ways
    how = "a ReduceScatter and an AllGather" if made.sequence else "an AllReduce"
    said = [f"{ways} chips split heads, hidden columns and vocabulary; {how} after each block puts the sums together"]
    if made.sequence:
        said.append("between blocks each chip has its share of the tokens (sequence parallelism)")
    if model.vocabulary % ways:
        said.append(f"the vocabulary of {model.vocabulary} is padded to {ceil_div(model.vocabulary, ways) * ways}")
    if model.head:
        said.append("logits stay split by vocabulary: only each chip's largest would be exchanged")
    return [*said, *made.said]


def divided(size: Size, ways: Size) -> Size:
    """A size over a number of chips: whole where it divides, else the average."""
    if is_array(size) or is_symbol(size) or is_array(ways) or is_symbol(ways):
        return size / ways
    found = size / ways
    return int(size) // int(ways) if isinstance(size, int) and size % ways == 0 else found


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
            f"{made} is {chips} chips, and {target_text(machine)} has {have}", hint="their product is the chips"
        )
    return with_mesh(machine, wanted)
