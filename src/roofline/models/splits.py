"""What one of several chips holds of each kind of block: heads, hidden columns and groups are divided.

============================ ======================================================================================
attention                    query heads; heads of keys and values too, or several chips hold each
latent attention             heads; every chip holds the latents
compressed attention         heads and the blocks of its output matrix; every chip holds the shared keys and values
gated delta net              heads of keys and of values, with their channels of the convolution and their states
Mamba-2                      heads and groups, with their channels and states; or several chips hold each group
MLP, experts                 hidden columns; or whole experts
norms, residuals, streams    every chip runs them whole
============================ ======================================================================================

Sources: Megatron-LM, arXiv:1909.08053; the layers of vLLM for Mamba-2 and gated delta nets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.errors import InputError, SizeError
from roofline.hardware.machine import MeshAxis
from roofline.models.blocks.altup import AddToOthers, Correct, LowRank, Predict, Unfold
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.cache_parallel import CacheParallel
from roofline.models.blocks.compressed import CompressedAttention
from roofline.models.blocks.exchange import Algorithm, ContextParallel, Exchange
from roofline.models.blocks.expert_spread import Spread
from roofline.models.blocks.experts import Experts
from roofline.models.blocks.hyper import Collapse, Expand
from roofline.models.blocks.hyper import Spread as Streams
from roofline.models.blocks.kimi_delta import KimiDelta
from roofline.models.blocks.latent import LatentAttention
from roofline.models.blocks.mlp import Mlp
from roofline.models.blocks.per_layer import PerLayerInput, PerLayerTable
from roofline.models.blocks.recurrent import DeltaNet, Mamba
from roofline.models.blocks.residual import Dense, Held, Norm, Parallel, Positions, Residual
from roofline.models.description import Block
from roofline.sizes import product

#: What each collective is called in a model's operations.
NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}


@dataclass(slots=True)
class Splitter:
    """Turns blocks into one chip's share, and remembers what had to be said.

    ``ways`` chips of ``axes`` split each block; those of ``context`` share every sequence. Experts are whole on
    ``expert`` chips; where these send each other tokens, ``spread`` says how. ``kv`` are the axes, of the last ones of
    ``axes``, whose chips share keys and values by sequence.
    """

    name: str
    ways: int
    axes: tuple[MeshAxis, ...]
    expert: int = 1
    sequence: bool = False
    algorithm: Algorithm = None
    context: tuple[MeshAxis, ...] = ()
    spread: Spread | None = None
    kv: tuple[MeshAxis, ...] = ()
    said: dict[str, None] = field(default_factory=dict)
    gaps: dict[str, None] = field(default_factory=dict)

    def reduce(self, name: str) -> Exchange:
        """The collective that adds up the parts of a block's result."""
        kind = "ReduceScatter" if self.sequence else "AllReduce"
        return Exchange(".".join(filter(None, (name, NAMES[kind]))), kind, self.axes, self.algorithm)

    def gather(self, name: str) -> Exchange:
        """The collective that gives a block all tokens."""
        return Exchange(".".join(filter(None, (name, "all_gather"))), "AllGather", self.axes, self.algorithm)

    def blocks(self, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Split each block that has work to split, with the collectives around it."""
        found: list[Block] = []
        for block in blocks:
            if isinstance(block, WHOLE):
                found.append(block)
            elif isinstance(block, Parallel) and not self._ends_alike(block):
                # a branch that goes on after its matrices needs its sums there
                found.append(replace(block, branches=tuple(self.blocks(branch) for branch in block.branches)))
            elif self.ways == 1 or self._sends(block) or isinstance(block, Held):
                found.append(self.one(block))
            else:
                if self.sequence:
                    found.append(self.gather(block.name))
                found += [self.one(block), self.reduce(block.name)]
        return tuple(found)

    def one(self, block: Block) -> Block:
        """One chip's share of a block."""
        rule = SPLITS.get(type(block))
        if rule is None:
            kind = type(block).__name__
            raise InputError(
                f"splitting {self.name} over chips is not modelled: it has {kind} layers ({block.name})",
                hint=f"those that are: {', '.join(each.__name__ for each in SPLITS)}",
            )
        local = rule(self, block)
        if getattr(block, "borrows", "") and (self.kv or self.context):
            raise InputError(
                f"sharing sequences of {self.name} over chips is not modelled: layers attend to keys of earlier ones",
                hint="context_parallel 1, kv_parallel 1",
            )
        if self.kv and isinstance(block, (Attention, LatentAttention, CompressedAttention)):
            return self._dealt(block, local)
        if not self.context or isinstance(block, (Mlp, Experts, Parallel)):
            return local
        if isinstance(block, DeltaNet | Mamba | KimiDelta):
            kind = type(block).__name__
            raise InputError(
                f"sharing sequences of {self.name} over chips is not modelled: its {kind} layers ({block.name}) pass "
                "a state from token to token",
                hint="context_parallel 1",
            )
        if getattr(block, "selector", None) is not None:
            self.gaps["each chip selects among its own keys: putting the choices together is not counted"] = None
        return ContextParallel(local.name, local, self.context, self.algorithm)

    def whole(self, what: str, size: int, ways: int | None = None) -> int:
        """A part of a size that the chips must divide."""
        ways = self.ways if ways is None else ways
        if size % ways:
            fitting = [n for n in range(2, min(size, 64) + 1) if size % n == 0]
            hint = f"a number of chips that divides them: {', '.join(map(str, fitting))}"
            raise SizeError(f"{self.name} has {size} {what}, which {ways} chips do not divide", hint=hint)
        return size // ways

    def shared(self, what: str, size: int) -> int:
        """A part of a size, at least 1: fewer than the chips are held by several each, which is said."""
        if size % self.ways == 0:
            return size // self.ways
        if self.ways % size:
            self.whole(what, size)
        self.said[f"{size} {what} on {self.ways} chips: each is held by {self.ways // size}"] = None
        return 1

    def _dealt(self, block: Any, local: Any) -> Block:
        """Attention whose keys and values are dealt out by sequence where several chips would hold them."""
        if getattr(block, "selector", None) is not None:
            raise InputError(
                f"keys and values of {self.name} dealt out by sequence are not modelled: {block.name} selects some",
                hint="kv_parallel 1",
            )
        shared = int(product(axis.size for axis in self.kv))
        copies = self.ways // getattr(block, "kv_heads", 1)
        if copies % shared:
            fitting = [n for n in range(1, max(copies, 1) + 1) if copies % n == 0] or [1]
            raise SizeError(
                f"{shared} chips share no keys and values: {self.name} has {getattr(block, 'kv_heads', 1)} heads of "
                f"them, and {self.ways} chips split them",
                hint=f"kv_parallel of {', '.join(map(str, fitting))}",
            )
        return CacheParallel(local.name, local, self.kv, self.algorithm)

    def _sends(self, block: Block) -> bool:
        return self.spread is not None and isinstance(block, Experts)

    def _ends_alike(self, block: Parallel) -> bool:
        """Say whether each branch ends with the only block that is split: one collective then serves all."""
        return all(
            not isinstance(branch[-1], WHOLE)
            and not self._sends(branch[-1])
            and all(isinstance(each, WHOLE) for each in branch[:-1])
            for branch in block.branches
        )


def _attention(made: Splitter, block: Any) -> Any:
    heads = made.whole("heads", block.heads)
    kv_heads = made.shared("heads of keys and values", block.kv_heads)
    if (block.norm == "full" or block.out_norm) and made.ways > 1:
        made.gaps["the norm over all heads: its sums are exchanged between chips, which is not counted"] = None
    if block.selector is not None and made.ways > 1:
        made.said["every chip selects keys by itself"] = None
    return replace(block, heads=heads, kv_heads=kv_heads)


def _latent(made: Splitter, block: Any) -> Any:
    if made.ways > 1:
        made.said["every chip holds the latents of all heads"] = None
    return replace(block, heads=made.whole("heads", block.heads))


def _compressed(made: Splitter, block: Any) -> Any:
    if made.ways > 1:
        made.said["every chip holds the keys and values that all heads share, and compresses and selects them"] = None
    heads = made.whole("heads", block.heads)
    return replace(block, heads=heads, groups=made.whole("groups of the output matrix", block.groups))


def _delta(made: Splitter, block: Any) -> Any:
    key_heads = made.whole("heads of keys", block.key_heads)
    return replace(block, key_heads=key_heads, value_heads=made.whole("heads of values", block.value_heads))


def _kimi(made: Splitter, block: Any) -> Any:
    return replace(block, heads=made.whole("heads of delta attention", block.heads))


def _mamba(made: Splitter, block: Any) -> Any:
    if made.ways > 1:
        made.said["Mamba's norm runs over each chip's own channels"] = None
    return replace(block, heads=made.whole("Mamba heads", block.heads), groups=made.shared("groups", block.groups))


def _mlp(made: Splitter, block: Any) -> Any:
    if block.norm and made.ways > 1:
        made.gaps["the norm over all hidden columns: its sums are exchanged between chips, which is not counted"] = None
    return replace(block, hidden=made.whole("hidden columns", block.hidden))


def _experts(made: Splitter, block: Any) -> Any:
    if made.expert > 1:
        made.whole("experts", block.count, made.expert)
    shared = block.shared
    if shared is not None and (made.spread is None or made.spread.split):
        shared = _mlp(made, shared)
    if made.spread is not None:
        return replace(block, shared=shared, ways=made.expert, spread=made.spread)
    slices = made.ways // made.expert
    if made.ways > 1:
        made.said["every chip routes all tokens"] = None
    if made.expert > 1:
        made.said["each chip holds whole experts and gets its share of the tokens, all experts alike"] = None
    if slices > 1 and made.expert > 1:
        made.said[f"each expert is split over {slices} chips"] = None
    if slices > 1:
        made.whole("hidden columns of an expert", block.hidden, slices)
    return replace(block, shared=shared, hidden=block.hidden // slices, ways=made.expert)


def _parallel(made: Splitter, block: Any) -> Any:
    if made.sequence and not block.inside:
        raise InputError(
            f"sequence parallelism of {made.name} is not modelled: its branches stand behind norms of their own",
            hint="leave it out (--no-sequence-parallel)",
        )
    branches = []
    for branch in block.branches:
        *first, last = branch
        branches.append((*first, made.one(last)))
    return replace(block, branches=tuple(branches))


def _held(made: Splitter, block: Any) -> Any:
    return replace(block, blocks=tuple(b if isinstance(b, WHOLE) else made.one(b) for b in block.blocks))


#: Blocks that every chip runs whole, and how the others are split.
WHOLE = (
    Norm, Residual, Positions, Dense, Exchange, Streams, Collapse, Expand, PerLayerInput, PerLayerTable, Unfold,
    Predict, Correct, AddToOthers, LowRank,
)  # fmt: skip
SPLITS: Mapping[type[Block], Callable[[Splitter, Any], Block]] = {
    Attention: _attention,
    LatentAttention: _latent,
    CompressedAttention: _compressed,
    DeltaNet: _delta,
    KimiDelta: _kimi,
    Mamba: _mamba,
    Mlp: _mlp,
    Experts: _experts,
    Parallel: _parallel,
    Held: _held,
}

__all__ = ["NAMES", "SPLITS", "WHOLE", "Splitter"]
