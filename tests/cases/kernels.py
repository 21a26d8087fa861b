"""Hold measured kernels against their bounds, by operation: ``python -m tests.cases.kernels DATA``.

DATA has ``kernels.csv.gz`` and ``kernels_more.csv.gz`` (columns in the README beside them). Rows count whose working
set is over twice the L2: smaller ones may find their data there, and a bound is of data in main memory. Rows below
their bound that the README calls impossible count apart, and sends that are faster than the link. Experts and latent
attention are asked by their FLOPs and bytes, which the reader of the calibration makes of a row. Where a row draws its
experts by a power law, which they are is not known: a row faster than the mean of draws is held against the fewest
experts that any draw reads. Latent attention over a cache in fp8 may compute in fp8. Whole layers and recurrences are
asked of the model they are of (:mod:`tests.cases.layers`). A row may be 2 % faster than its bound, as clocks and
rounding are. Kernels ran again and again on the same buffers, and an answer says that data starts in main memory: a row
faster by less than the share of them that the L2 holds counts apart. Rows below that nothing explains are printed, and
the exit code is 1. ``python -m tests.cases.kernels DATA gemm norm`` takes some operations.
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.estimates.rows import FORMATS, SHAPES, more_group_of

from roofline import bound, comm
from roofline.estimates.kernel_model import ChipFigures, data_sheet_times
from tests.cases.layers import LayerQuestion, fewest_keys, layer_bound, layer_question

#: Chips by the data's names; cards that the catalog lacks are left out.
CHIPS = {
    "a100_sxm": "a100", "h100_sxm": "h100", "l40s": "l40s", "rtx_pro_6000_server": "rtx-pro-6000", "b60": "b60",
    "a100": "a100", "a40": "a40", "DB_1080Ti": "gtx-1080-ti", "DB_P100": "p100-pcie", "DB_T4": "t4",
    "AMD Instinct MI100": "mi100", "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb", "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla T4": "t4", "Tesla V100-PCIE-32GB": "v100-pcie",
}  # fmt: skip
#: Formats of a product's operands and result by the data's word.
PRODUCTS = {
    "bfloat16": ("bf16", "bf16", "bf16"), "fp8": ("fp8", "fp8", "bf16"), "fp8_block": ("fp8", "fp8", "bf16"),
    "fp8_static": ("fp8", "fp8", "bf16"),
    "int8_wo": ("bf16", "int8", "bf16"), "int4_wo": ("bf16", "int4", "bf16"), "nvfp4": ("nvfp4", "nvfp4", "bf16"),
    "fp16": ("fp16",) * 3, "fp32": ("fp32",) * 3,
}  # fmt: skip
#: Elementwise functions by the data's word: a line, of two operands or of one.
MAPS = {
    "add": "{d}[E] + {d}[E]",
    "mul": "{d}[E] * {d}[E] -> {d}[E]",
    "div": "{d}[E] / {d}[E]",
    "pow": "{d}[E] + {d}[E]",
}
#: Why the rows of a table have no question.
NO_QUESTION = {
    "conv": "states no shapes",
    "computescale": "a difference of two times",
    "dsv4_csa_topk_calib": "a difference of two times",
    "kda": "the one sequence of a batch is skipped as padding",
    "glm5_topk_module": "a selection; the format of its scores is not said",
    "wideep_deepep_ll": "which tokens go where was drawn, and is not in the row",
    "wideep_deepep_normal": "which tokens go where was drawn, and is not in the row",
}
#: Columns that say what a kernel without a line was.
_OF_KERNELS = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
               "batch_size", "isl", "num_heads", "step", "distribution")  # fmt: skip
SLACK = 1.02
#: Operations of which a draw says what they read: experts, or the keys of a cache that new tokens choose.
DRAWN = ("experts, drawn", "moe", "dsa_context_module")


#: Rows of one expert in DeepGEMM's contiguous layout. It takes the expert of a block's first row for the whole block.
#: ``collector/sglang/collect_wideep_deepep_moe.py`` gives each expert ``tokens * topk / 256`` rows, whole block or not:
#: 128 experts of 8 rows are 8 blocks, which read 8 experts. On H100 they take 393 µs, as 32 experts of 16 rows do.
BLOCK_ROWS = 128


#: A kernel with figures of 1: its seconds are its FLOPs and its bytes.
_UNIT = ChipFigures(1.0, 1.0, 1.0, 1.0)


class Question(NamedTuple):
    """A line that a group of rows shares, its sizes as columns, and what fixes the arithmetic.

    Without sizes the text is a kind of kernel, whose amounts the reader of the calibration knows.
    """

    text: str
    sizes: tuple[tuple[str, str], ...]
    compute: str | None = None


def question(row: Mapping[str, str]) -> Question | None:
    """The question of a row of ``kernels.csv.gz``; None where the row does not say enough."""
    asked = QUESTIONS.get(row["op"])
    return asked(row) if asked is not None else None


def _gemm(row: Mapping[str, str]) -> Question | None:
    found = PRODUCTS.get(row["sub"]) or PRODUCTS.get(row["dtype"])
    if found is None:
        return None
    x, w, y = found
    sizes = (("X", "nb"), ("M", "m"), ("N", "n"), ("K", "k"))
    return Question(
        f"{x}[X, M, K] * {w}[X, K, N] -> {y}[X, M, N]", sizes, "bf16" if row["sub"].endswith("_wo") else None
    )


def _prefill(row: Mapping[str, str]) -> Question | None:
    if not row["s"]:
        return None
    d, window = "fp8" if row["sub"].startswith("fp8") else "bf16", float(row["w"] or 0)
    mask = "" if row.get("mask") == "none" else ", causal" + (f", window={window:.0f}" if window > 0 else "")
    keys, sizes = ("T", (("T", "st"),)) if row.get("st") else ("S", ())
    text = f"attention({d}[B, S, N, H], {d}[B, {keys}, K, H], {d}[B, {keys}, K, H]{mask}) -> bf16[B, S, N, H]"
    return Question(text, (("B", "b"), ("S", "s"), ("N", "h"), ("K", "kv"), ("H", "d"), *sizes), _compute(row))


def _compute(row: Mapping[str, str]) -> str:
    return "fp8" if row["sub"].endswith("kvfp8") or row["sub"].startswith("fp8") else "bf16"


def _decode(row: Mapping[str, str]) -> Question | None:
    kv = "fp8" if row["sub"].endswith("kvfp8") else "bf16"
    text = f"attention(bf16[B, 1, N, H], {kv}[B, T, K, H], {kv}[B, T, K, H]) -> bf16[B, 1, N, H]"
    seen = "seen" if float(row["w"] or 0) > 0 else "st"
    return Question(text, (("B", "b"), ("T", seen), ("N", "h"), ("K", "kv"), ("H", "d")), _compute(row))


def _eltwise(row: Mapping[str, str]) -> Question:
    d, word = row["dtype"], row["sub"]
    if d == "fp16" and word == "add":  # Vidur's own count has the bytes of one operand
        word = "addu"
    text = "gelu({d}[E])" if word == "mlp_act" else MAPS.get(word, "relu({d}[E])")
    return Question(text.format(d=d), (("E", "e"),))


def _norm(row: Mapping[str, str]) -> Question | None:
    if not row["rows"]:  # read and written once, whatever else it does
        return Question(f"relu({row['dtype']}[E])", (("E", "e"),)) if row.get("e") else None
    word = "softmax" if row["sub"] == "softmax" else "layernorm"
    return Question(f"{word}_C({row['dtype']}[R, C])", (("R", "rows"), ("C", "cols")))


def _collective(name: str) -> Callable[[Mapping[str, str]], Question]:
    return lambda row: Question(name, (("bytes", "msg_bytes"), ("chips", "n_gpus")))


QUESTIONS: dict[str, Callable[[Mapping[str, str]], Question | None]] = {
    "gemm": _gemm, "attn_prefill": _prefill, "attn_decode": _decode, "eltwise": _eltwise, "norm": _norm,
    "all_gather": _collective("AllGather"), "allreduce": _collective("AllReduce"),
    "allreduce_custom": _collective("AllReduce"), "alltoall": _collective("AllToAll"),
    "reduce_scatter": _collective("ReduceScatter"), "send_recv": _collective("Permute"),
    "mla_bmm": lambda row: Question(f"{_product_of_latents(row)}", (("N", "num_heads"), ("T", "num_tokens"))),
    "scale_matrix": lambda row: Question("cast(bf16[M, K]) -> fp8", (("M", "m"), ("K", "k"))),
    "convolution": lambda row: Question("relu(bf16[E])", (("E", "e"),)) if row["e"] != "0" else None,
    "moe": lambda row: Question(f"routed {row['sub']}", (), PRODUCTS.get(row["sub"], ("bf16",))[0]),
}  # fmt: skip


def _product_of_latents(row: Mapping[str, str]) -> str:
    """The products with which queries go into the latents and results come out of them, a head each."""
    d, (inner, outer) = "fp8" if "fp8" in row["bmm_dtype"] else "bf16", (128, 512)
    if row["op_name"].endswith("post"):
        inner, outer = outer, inner
    weights = d if d == "bf16" else "fp8"
    return f"bf16[N, T, {inner}] * {weights}[N, {inner}, {outer}] -> bf16[N, T, {outer}]"


#: Our operation by a collective of the second table.
_COLLECTIVES = {"all_reduce": "allreduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter"}


def newer(row: dict[str, str]) -> dict[str, str] | None:
    """A row of ``kernels_more.csv.gz`` in the columns of ``kernels.csv.gz``; its flags are of the other's kind."""
    table = row["table"]
    given = {**row, "dtype": "", "w": row["window_size"]}
    if table == "gemm":
        return given | {"op": "gemm", "sub": row["gemm_dtype"], "nb": "1"}
    if table in ("gdn", "kda", "mamba2") and "conv" in row["kernel_source"]:
        return given | {"op": "convolution", "sub": table, "e": str(_convolved_tokens(row) * _channels(row))}
    if table in ("mla_bmm", "scale_matrix"):
        return given | {"op": table, "sub": row["op_name"]}
    if table in ("custom_allreduce", "oneccl"):
        sent = {"op": _COLLECTIVES.get(row["op_name"], ""), "sub": row["mode"], "n_gpus": row["num_gpus"]}
        return given | sent | {"msg_bytes": str((1 if row["nccl_dtype"] == "int8" else 2) * float(row["message_size"]))}
    if table not in ("context_attention", "generation_attention", "encoder_attention"):
        return None
    given |= {"b": row["batch_size"], "h": row["num_heads"], "d": row["head_dim"]}
    given["kv"] = row["num_key_value_heads"] or row["num_heads"]
    given["sub"] = f"{row['attn_dtype']}/kv{row['kv_cache_dtype']}"
    if table == "generation_attention":
        return given | {"op": "attn_decode", "st": row["step"]}
    past = float(row["step"] or 0)
    given |= {"op": "attn_prefill", "s": row["isl"], "mask": "none" if table == "encoder_attention" else "causal"}
    return given | ({"st": str(past + float(row["isl"]))} if past else {})


def _channels(row: Mapping[str, str]) -> int:
    """Channels of the convolution before a recurrence, as the source's collectors build its input.

    Queries, keys and values together; ``num_k_heads * head_k_dim``, the keys alone, in the collectors of TensorRT-LLM
    and of SGLang before 0.5.14 (``collector/trtllm/collect_gdn.py``), whose times at 131,072 tokens do not depend on
    the heads of values that the rows state: 384 µs on H100 for 6,144, 8,192 and 12,288 channels.
    """
    names = ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
    if row["table"] == "mamba2":
        names = ("n_groups", "d_state", "nheads", "head_dim")
    keys, key, values, value = (int(row[name]) for name in names)
    of_keys = row["backend"] == "trtllm" or (row["backend"], row["version"]) == ("sglang", "0.5.10")
    if row["table"] == "gdn" and of_keys:
        return keys * key
    return 2 * keys * key + values * value


def _convolved_tokens(row: Mapping[str, str]) -> int:
    """Tokens that the convolution reads.

    vLLM's kernels take cache index 0 for padding and return (``null_block_id``), and ``collector/vllm/collect_kda.py``
    numbers its sequences from 0: the first of a batch is not computed. One sequence of 8,192 tokens takes 923, 926,
    923 and 925 µs on L40S with 4,608 to 36,864 channels.
    """
    tokens = int(row["num_tokens"])
    if row["table"] == "kda" and row["backend"] == "vllm":
        tokens -= tokens // int(row["batch_size"])
    return tokens


def _kernel(row: dict[str, str]) -> tuple[dict[str, str], Question] | None:
    """A row of experts or latent attention, whose amounts the calibration's reader makes."""
    placed = ""
    if row["table"] in ("wideep_context_moe", "wideep_generation_moe", "wideep_moe"):
        if row["table"] == "wideep_context_moe" and row["distribution"] == "uniform":
            placed = " blocks"
        elif row["distribution"].endswith("_eplb"):  # experts are copied until all ranks have as much
            placed = " spread"
        row |= {"table": "moe", "gated": "1", "distribution": row["distribution"].removesuffix("_eplb")}
    if row["table"] in ("wideep_context_mlp", "wideep_generation_mlp"):  # one expert that all tokens go to
        one = dict.fromkeys(("topk", "num_experts", "moe_ep_size", "moe_tp_size", "gated"), "1")
        sizes = {"num_tokens": row["num_token"], "inter_size": row["intermediate_size"], "moe_dtype": row["quant_type"]}
        row |= {"table": "moe", "distribution": "balanced"} | one | sizes
    if row["table"] == "moe" and (not row["gated"] or "gating_inferred" in row["flag"]):
        row["gated"] = "0"  # two products are the fewest
    # constants leave out runs without a graph or with another activation: the floor is no higher than of the others
    named = row | {"flag": "", "kernel_source": ""}
    group = more_group_of(named)
    if group is None or group.kernel not in ("experts", "latent_prefill", "latent_decode"):
        return None
    drawn = ", drawn" if row["distribution"].startswith("power_law") else ""
    formats = "/".join(row[name] for name in ("moe_dtype", "mla_dtype", "kv_cache_dtype") if row[name])
    more = {"op": group.kernel + drawn, "sub": f"{formats} {row['gated']}{placed}", "dtype": named["dtype"]}
    compute = "fp8" if row["kv_cache_dtype"] == "fp8" else {"fp4": "nvfp4"}.get(more["dtype"], more["dtype"])
    return row | more, Question(f"{group.kernel} {more['sub']}", (), compute)


def _amounts(text: str, rows: list[Mapping[str, str]], fewest: bool) -> tuple[Any, Any]:
    """FLOPs and bytes of kernels without a line; ``fewest`` experts are those that any draw reads."""
    kernel = text.partition(" ")[0]
    if kernel == "routed":  # experts by the tokens of one chip, its choices and its experts
        tokens, picks, held = (np.array([float(row[name]) for row in rows]) for name in ("T", "a", "el"))
        each = np.array([3 * float(row["H"]) * float(row["I"]) for row in rows])
        touched = np.ceil(picks / tokens) if fewest else np.minimum(held, picks)
        return 2 * picks * each, touched * each * FORMATS.get(rows[0]["sub"], (2, 2))[1]
    shapes = SHAPES[kernel](rows)
    if kernel == "experts":
        tokens, ranks = (np.array([float(row[name]) for row in rows]) for name in ("num_tokens", "moe_ep_size"))
        if fewest or text.endswith(("spread", "blocks")):
            shapes["picks"] = shapes["choices"] / ranks
        if text.endswith("blocks"):
            shapes["touched"] = np.minimum(shapes["touched"], np.ceil(shapes["picks"] / BLOCK_ROWS))
    if fewest:
        shapes["touched"] = np.minimum(np.ceil(shapes["picks"] / tokens), shapes["experts"])
    flops, moved = data_sheet_times(kernel, shapes, _UNIT)
    return flops, moved


def lower(chip: str, asked: Any, rows: list[Mapping[str, str]], fewest: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The bound of each row, and the bytes it moves."""
    if isinstance(asked, LayerQuestion):
        return layer_bound(chip, asked, fewest_keys(asked, rows) if fewest else rows)
    if not asked.sizes:
        flops, moved = _amounts(asked.text, rows, fewest)
        answer = bound(flops=flops, bytes=moved, dtype=asked.compute, on=chip)
        return np.broadcast_to(answer.lower, len(rows)), np.broadcast_to(moved, len(rows))
    sizes = {name: np.array([_number(row, column) for row in rows]) for name, column in asked.sizes}
    if "bytes" in sizes:
        pairs = list(zip(sizes["bytes"], sizes["chips"], strict=True))
        known = {
            (size, chips): float(comm(asked.text, bytes=int(size), on=f"{chip}:{int(chips)}").time)
            for size, chips in set(pairs)
        }
        return np.array([known[pair] for pair in pairs]), np.full(len(rows), np.inf)
    found = bound(asked.text, on=chip, **({"compute": asked.compute} if asked.compute else {}), **sizes)
    return np.broadcast_to(found.lower, len(rows)), np.broadcast_to(found.total_bytes, len(rows))


def _number(row: Mapping[str, str], column: str) -> float:
    if column in ("st", "seen"):  # of a first step the new key alone
        return max(1.0, min(float(row["st"]), float(row["w"]) if column == "seen" else math.inf))
    return float(row[column])


Groups = dict[tuple[str, str, Question | LayerQuestion], list[Mapping[str, str]]]
Counts = dict[str, dict[str, int]]


def read(data: Path, only: list[str], counts: Counts) -> tuple[Groups, dict[str, float]]:
    """Rows by chip, operation and question, and the L2 of each chip; rows without a question are counted."""
    groups: Groups = defaultdict(list)
    caches: dict[str, float] = {}
    for name in ("kernels.csv.gz", "kernels_more.csv.gz"):
        with gzip.open(data / name, "rt", newline="", encoding="utf-8") as file:
            for plain in csv.DictReader(file):
                row = plain if "op" in plain else newer(plain)
                if "l2_mib" in plain:
                    caches.setdefault(CHIPS.get(plain["gpu"], ""), float(plain["l2_mib"] or 0) * 2**20)
                asked = question(row) if row is not None and plain["gpu"] in CHIPS else None
                if row is None and plain["gpu"] in CHIPS and (layer := layer_question(plain)) is not None:
                    row, asked = {**plain, "op": plain["table"], "sub": plain["kernel_source"]}, layer
                if row is None and (found := _kernel(plain)) is not None:
                    row, asked = found
                if row is not None and only and row["op"] not in only:
                    continue
                if row is None or asked is None:
                    table = plain.get("op") or plain["table"]
                    why = NO_QUESTION.get(table, "a format or a shape that is not said")
                    counts[f"(no question: {table})"]["not of this catalog" if plain["gpu"] not in CHIPS else why] += 1
                else:
                    groups[CHIPS[row["gpu"]], row["op"], asked].append(row)
    return groups, caches


def _why_below(row: Mapping[str, str], time: float, floor: float, fewest: float, cold: float) -> str:
    """Why a row is faster than its bound; empty where nothing says so."""
    if time >= floor * cold:
        return "less than the L2 holds of it"
    if time >= fewest:
        return "the mean of draws, above the fewest that any reads"
    if row["op"] == "send_recv" and time < float(row["naive_bound_us"]) * 1e-6:
        return "faster than the link"
    return "impossible in the data's own words" if "impossible" in row["flag"] else ""


def main(words: list[str]) -> int:
    """Check a folder; print counts by operation, and the rows below their bound that nothing explains."""
    counts: Counts = defaultdict(lambda: defaultdict(int))
    groups, caches = read(Path(words[0]), words[1:], counts)
    worst: dict[str, list[tuple[float, Any]]] = defaultdict(list)
    for (chip, op, asked), rows in groups.items():
        rows.sort(key=lambda row: [float(row.get(name) or 0) for name in ("isl", "step", "batch_size")])
        bounds, moved = lower(chip, asked, rows)
        least = lower(chip, asked, rows, fewest=True)[0] if op in DRAWN else bounds
        seconds = np.array([float(row["measured_us"]) for row in rows]) * 1e-6
        for row, floor, fewest, size, time in zip(rows, bounds, least, moved, seconds, strict=True):
            if size <= 2 * caches[chip] or "fits_L2" in row["flag"]:
                counts[op]["in L2"] += 1
                continue
            counts[op]["held"] += 1
            if time * SLACK >= floor:
                continue
            why = _why_below(row, time * SLACK, floor, fewest, 1 - caches[chip] / size)
            counts[op]["below" + (why and f": {why}")] += 1
            if not why:
                columns = dict(getattr(asked, "sizes", ())).values() or _OF_KERNELS
                shown = {key: row[key] for key in ("gpu", "backend", "sub", *columns) if row.get(key)}
                worst[op].append((floor / time, shown))
    for op, found in sorted(counts.items()):
        sys.stdout.write(f"{op:18} " + ", ".join(f"{count:,} {said}" for said, count in sorted(found.items())) + "\n")
    for op, below in sorted(worst.items()):
        for ratio, what in sorted(below, key=lambda item: -item[0])[:20]:
            sys.stdout.write(f"{op:18} {ratio:6.2f} {what}\n")
    return 1 if worst else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
