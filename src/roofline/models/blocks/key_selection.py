"""Small attentions that pick the keys a query attends to ("lightning indexers"), and the formats they run in.

>>> from roofline.hardware import chip
>>> [index_format(Indexer(64, 128, 2048), chip(name)) for name in ("a100", "h200", "b200")]
['', 'fp8_e4m3', 'mxfp4']
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, ClassVar

from roofline import dtypes
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine
from roofline.models.description import Cached, Layer, Model
from roofline.models.operation_builder import OperationBuilder
from roofline.ops.attention import index_scores
from roofline.ops.masks import CAUSAL, FULL
from roofline.sizes import Size, ceil_div, is_zero
from roofline.work import Op, Tensor

#: Formats that public kernels score in, narrowest first, and whose kernels those are. A chip runs those it has units
#: for; where it has none, activations keep their format.
Kernels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Indexer:
    """Picks the ``top_k`` keys each query attends to (DeepSeek-V3.2, GLM-5, DeepSeek-V4).

    Where ``shared``, an earlier layer's choice is taken over and the layer has no weights for it. ``dtype`` is the
    format of its scores and of the keys it keeps; empty: those of activations and of keys and values.
    """

    #: Sources: github.com/deepseek-ai/DeepGEMM (``fp8_mqa_logits`` for SM90, ``fp8_fp4_mqa_logits`` for SM100);
    #: MXFP4 keys for GLM-5 and DeepSeek-V3.2: vllm-project/vllm#48558, sgl-project/sglang#30546, measured on B200;
    #: for DeepSeek-V4: sgl-project/sglang#26209, and on MI355X ROCm/ATOM#1581.
    KERNELS: ClassVar[Kernels] = (
        ("mxfp4", "fp8_fp4_mqa_logits of DeepGEMM"),
        ("fp8_e4m3", "fp8_mqa_logits of DeepGEMM"),
    )

    heads: int
    width: int
    top_k: int
    shared: bool = False
    dtype: str = ""

    #: Vector FLOPs of a pair: relu, weight, sum over heads.
    each: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class BlockIndexer:
    """Picks the ``top_blocks`` blocks of ``block`` keys each query attends to (MiniMax-M3); ``dtype`` as above."""

    #: Sources: flashinfer-ai/flashinfer#3655 (NVFP4); NVIDIA/TensorRT-LLM#17318 and sgl-project/sglang#30971 (FP8).
    KERNELS: ClassVar[Kernels] = (("nvfp4", "msa_ops of FlashInfer"), ("fp8_e4m3", "the indexer of TensorRT-LLM"))

    heads: int
    width: int
    block: int
    top_blocks: int
    dtype: str = ""

    #: Vector FLOPs of a pair: the largest of a block.
    each: ClassVar[int] = 1
    shared: ClassVar[bool] = False


def index_format(indexer: Indexer | BlockIndexer, machine: Machine) -> str:
    """The narrowest format that public kernels of the family use on a chip with units for it; empty: none is."""
    peaks = {name for unit in machine.units for name in unit.peaks}
    return next((name for name, _ in indexer.KERNELS if dtypes.get(name).arithmetic in peaks), "")


def with_index_formats(model: Model, machine: Machine) -> Model:
    """The model whose indexers run in the formats that public kernels use on this machine."""

    def in_format(block: Any) -> Any:
        indexer = getattr(block, "indexer", None)
        if indexer is None or indexer.dtype == (dtype := index_format(indexer, machine)):
            return block
        return replace(block, indexer=replace(indexer, dtype=dtype))

    def changed(layer: Layer) -> Layer:
        blocks = tuple(map(in_format, layer.blocks))
        return layer if all(map(is_, blocks, layer.blocks)) else Layer(blocks)

    return model.with_layers(changed)


def index_keys(
    indexer: Indexer | BlockIndexer | None, length: Size = 1, name: str = "index keys"
) -> tuple[Cached, ...]:
    """The keys that an indexer keeps of ``length`` tokens; nothing where there is none or it takes a choice over."""
    if indexer is None or indexer.shared:
        return ()
    return (Cached(name, length * indexer.width, dtype=indexer.dtype),)


def cached_index_keys(
    builder: OperationBuilder, indexer: Indexer | BlockIndexer, past: Size, name: str = "index keys"
) -> list[Tensor]:
    """The indexer's keys of earlier steps."""
    if is_zero(past):
        return []
    dims = (builder.step.attended, past, indexer.width)
    return [Tensor(builder.path("cache", name), dims, builder.step.index_format(indexer.dtype), "kv")]


def score_keys(
    builder: OperationBuilder, read: Sequence[Tensor], indexer: Indexer | BlockIndexer, pairs: Size | None = None
) -> None:
    """Score ``pairs`` of one sequence and head, all that are visible unless given; write the choice.

    Σ over heads of w·relu(q·k), or the largest q·k of each block of keys.
    """
    step = builder.step
    if pairs is None:
        pairs = (FULL if step.full else CAUSAL).pairs(step.new, step.length)
    if isinstance(indexer, BlockIndexer):
        best = builder.output("indexer.scores", step.tokens, indexer.heads, ceil_div(step.length, indexer.block))
        dims: dict[str, Size] = {"pairs": step.attended * indexer.heads * pairs}
    else:
        best = builder.output("indexer.choice", step.tokens, indexer.top_k, dtype="int32")
        dims = {"pairs": pairs, "heads": indexer.heads}
    kept = step.index_format(indexer.dtype)
    compute = step.asked_compute or dtypes.arithmetic([indexer.dtype or step.activations, kept])
    op = index_scores(
        "", read, [best], pairs=step.attended * indexer.heads * pairs, head_size=indexer.width, each=indexer.each,
        dims=dims, compute=compute, vector_compute=builder.arithmetic,
    )  # fmt: skip
    builder.add(replace(op, role="selection", options={"kernel": _kernel(indexer, compute, kept)}), "indexer.scores")


def _kernel(indexer: Indexer | BlockIndexer, compute: str, kept: str) -> str:
    """What is said about the formats of the scores and of the keys."""
    own = kept == indexer.dtype and compute == dtypes.get(kept).arithmetic
    source = dict(indexer.KERNELS).get(kept, "") if own else ""
    return f"the indexer scores in {compute} and keeps its keys in {kept}" + (f", as {source} does" if source else "")


def selection_said(ops: Sequence[Op]) -> list[str]:
    """The formats of the indexers among a step's operations, one sentence each."""
    return list(dict.fromkeys(str(op.options["kernel"]) for op in ops if op.role == "selection"))
