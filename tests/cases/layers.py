"""Measured layers of named models as questions: the attention of one layer, out of a model's step.

Rows of the tables of modules of ``kernels_more.csv.gz``: projections, norms, rotation, scores and output of one layer
on one chip of a tensor group, whose collective is not among them. The bound is of that layer's operations alone, all
overlapping. ``*_skip_indexer`` leaves the indexer out. DeepSeek-V4 has two kinds of layers, told by how far they
compress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import roofline
from roofline.models import serve_bound

CATALOG = Path(roofline.__file__).parent / "models" / "catalog"
#: Configurations by the data's name of a model, with fields that differ.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek-ai/DeepSeek-V3": ("deepseek-ai--deepseek-v3", {}),
    "deepseek-ai/DeepSeek-V3.2": (
        "deepseek-ai--deepseek-v3",
        {"model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048},
    ),
    "zai-org/GLM-5": ("zai-org--glm-5-fp8", {"quantization_config": None}),
    "zai-org/GLM-5-FP8": ("zai-org--glm-5-fp8", {}),
    "zai-org/GLM-5.2": ("zai-org--glm-5.2", {}),
    "zai-org/GLM-5.2-FP8": ("zai-org--glm-5.2-fp8", {}),
    "sgl-project/DeepSeek-V4-Flash-FP8": ("sgl-project--deepseek-v4-flash-fp8", {}),
    "sgl-project/DeepSeek-V4-Pro-FP8": ("sgl-project--deepseek-v4-pro-fp8", {}),
    "MiniMaxAI/MiniMax-M3": ("minimaxai--minimax-m3", {}),
    "recurrence": ("qwen--qwen3.5-35b-a3b", {}),
}
RECURRENT = ("linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads", "linear_value_head_dim")
#: What a table of whole layers is of: operations of one layer by the beginning of their names.
LAYER = ("self_attn.", "attn.")
#: Phase of a table's rows, and the operations it times.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("mla_context_module", "wideep_context_mla", "dsa_context_module", "dsv4_csa_context_module",
         "dsv4_hca_context_module", "msa_context_module"),
        ("prefill", LAYER),
    ),
    **dict.fromkeys(
        ("mla_generation_module", "wideep_generation_mla", "dsa_generation_module", "dsv4_csa_generation_module",
         "dsv4_hca_generation_module", "msa_generation_module"),
        ("decode", LAYER),
    ),
    "glm5_dsa_attn_module": ("prefill", ("self_attn.attention",)),
    "glm5_mqa_logits_module": ("prefill", ("self_attn.indexer.scores",)),
    "dsv4_hca_attn_module": ("prefill", ("attn.attention",)),
    "dsv4_paged_mqa_logits_module": ("prefill", ("attn.indexer.scores",)),
    "gdn": ("prefill", ("linear_attn.recurrence",)),
    "kda": ("prefill", ("linear_attn.recurrence",)),
    "mhc_module": ("prefill", ("attn_hc.",)),
    "mhc_module post": ("prefill", ("attn_mix.",)),
}  # fmt: skip
#: Tables of prefill whose latent attention may be absorbed or expanded.
LATENT_PREFILL = ("mla_context_module", "wideep_context_mla", "dsa_context_module")
FORMATS = {"bfloat16": "bf16", "fp8_block": "fp8", "fp8": "fp8", "fp8_e4m3": "fp8", "nvfp4": "nvfp4"}


class LayerQuestion(NamedTuple):
    """What rows of layers share: the model, heads on one chip, formats, the phase and which layer."""

    table: str
    model: str
    heads: tuple[int, ...]
    weights: str
    kv: str
    indexer: bool


def layer_question(row: Mapping[str, str]) -> LayerQuestion | None:
    """The question of a row; None where it is no layer of a known model."""
    table, model = row["table"], row["model"]
    if table in ("gdn", "kda"):  # heads of a recurrence of Qwen3.5's kind, which reads no more than any of them
        if "conv" in row["kernel_source"]:
            return None
        heads = tuple(int(row[name]) for name in ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"))
        return LayerQuestion(table, "recurrence", heads, "bf16", "bf16", True)
    if table == "mhc_module":
        model = f"sgl-project/DeepSeek-V4-{'Flash' if row['hidden_size'] == '4096' else 'Pro'}-FP8"
        return LayerQuestion(table + " post" * (row["op_name"] == "post"), model, (0,), "bf16", "bf16", True)
    if table not in TABLES or model not in MODELS:
        return None
    formats = FORMATS[row["gemm_type"]], FORMATS[row["kv_cache_dtype"]]
    return LayerQuestion(table, model, (int(row["num_heads"]),), *formats, "skip" not in row["op_name"])


@cache
def configuration(model: str, heads: tuple[int, ...] = ()) -> dict[str, Any]:
    """The fields of a model's configuration; ``heads`` are numbers and widths of a recurrence's heads.

    Where one number of heads is more than the model's (128 are measured of models of 64), the model has as many.
    """
    name, other = MODELS[model]
    fields = json.loads((CATALOG / f"{name}.json").read_text(encoding="utf-8")) | other
    if model == "recurrence":
        fields["text_config"] = fields["text_config"] | dict(zip(RECURRENT, heads, strict=True))
    elif heads:
        text = "text_config" if "text_config" in fields else ""
        inner = fields[text] if text else fields
        inner = inner | {"num_attention_heads": max(inner["num_attention_heads"], *heads)}
        fields = fields | {text: inner} if text else inner
    return {key: value for key, value in fields.items() if value is not None}


def layer_bound(
    chip: str, asked: LayerQuestion, rows: Sequence[Mapping[str, str]]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bound of one layer's attention for each row, seconds, and the bytes it moves.

    A step takes the way of latent attention that is faster within it; a layer alone the way that is faster alone.
    """
    if asked.table not in LATENT_PREFILL:
        return _bound_one_way(chip, asked, rows)
    ways = [_bound_one_way(chip, asked, rows, absorbed=way) for way in (True, False)]
    (absorbed, some), (expanded, other) = ways
    return np.minimum(absorbed, expanded), np.where(absorbed <= expanded, some, other)


def _bound_one_way(
    chip: str, asked: LayerQuestion, rows: Sequence[Mapping[str, str]], **way: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The bound of a layer and its bytes, as the step does its attention or in the way that is given."""
    (phase, names), tensor, fields = TABLES[asked.table], 1, configuration(asked.model, asked.heads)
    if len(asked.heads) == 1 and asked.heads[0]:
        tensor = fields.get("text_config", fields)["num_attention_heads"] // asked.heads[0]
    kept = {} if asked.kv == "bf16" else {"kv": asked.kv}  # an indexer keeps its keys in a format of its own
    answer = serve_bound(
        fields, phase, on=f"{chip}:{tensor}" if tensor > 1 else chip, tensor=tensor, weights=asked.weights,
        activations=asked.weights, **kept, **way, **_sizes(asked.table, phase, rows),
    )  # fmt: skip
    if not answer.ops:  # rows that differ in the way latent attention is done have no operations in common
        half = len(rows) // 2
        parts = [_bound_one_way(chip, asked, each, **way) for each in (rows[:half], rows[half:])]
        return np.concatenate([one for one, _ in parts]), np.concatenate([size for _, size in parts])
    chosen = _layer(asked, answer)
    times: dict[str, Any] = {}
    moved: Any = np.zeros(len(rows))
    for part in answer.ops:
        layer, _, inner = part.op.where.removeprefix("layers.").partition(".")
        if not inner.startswith(names) or part.op.kind == "collective":
            continue
        if layer != chosen or (not asked.indexer and ".indexer" in inner):
            continue
        for resource, seconds in part.times.items():
            times[resource] = times.get(resource, 0.0) + seconds / part.op.repeat
        moved = moved + part.bytes / part.op.repeat
    return np.broadcast_to(np.max(np.stack(np.broadcast_arrays(*times.values())), axis=0), len(rows)), moved


def _sizes(table: str, phase: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Sequences, their new tokens and those before, for each row."""
    if table.startswith("mhc_module"):
        return {"batch": 1, "prompt": _column(rows, "num_tokens")}
    batch = _column(rows, "batch_size")
    if table in ("gdn", "kda"):
        return {"batch": batch, "prompt": _column(rows, "seq_len")}
    if phase == "prefill":
        return {"batch": batch, "prompt": _column(rows, "isl"), "past": _column(rows, "step")}
    length = _column(rows, "isl" if table.startswith("wideep") else "step")
    return {"batch": batch, "context": np.maximum(length - 1, 1)}


def _column(rows: Sequence[Mapping[str, str]], name: str) -> np.ndarray[Any, Any]:
    return np.array([float(row[name] or 0) for row in rows])


def fewest_keys(asked: LayerQuestion, rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The rows with as many tokens before them as one new token can choose: no choice of keys reads fewer."""
    fields = configuration(asked.model, asked.heads)
    chosen = fields.get("index_topk")
    if not chosen or asked.table not in LATENT_PREFILL:
        return list(rows)
    return [{**row, "step": str(min(float(row["step"] or 0), chosen))} for row in rows]


def _layer(asked: LayerQuestion, answer: Any) -> str:
    """The run of layers that a table is of: those with an indexer, or the last ones where none has."""
    named = [part.op.where.removeprefix("layers.").partition(".") for part in answer.ops if "attn" in part.op.where]
    of = dict.fromkeys(layer for layer, _, inner in named if inner.startswith(TABLES[asked.table][1]))
    with_indexer = dict.fromkeys(layer for layer, _, inner in named if ".indexer" in inner)
    compressed = dict.fromkeys(layer for layer, _, inner in named if ".compressor" in inner)
    if "_hca_" in asked.table:
        return next(layer for layer in compressed if layer not in with_indexer)
    return next((layer for layer in with_indexer if layer in of), list(of)[-1])
