"""Hold measured kernels against their bounds, by operation: ``python -m tests.cases.kernels DATA``.

DATA has ``kernels.csv.gz`` and ``kernels_more.csv.gz`` (columns in the README beside them). Rows count whose working
set is over twice the L2: smaller ones may find their data there, and a bound is of data in main memory. Rows that the
README calls impossible count apart. A row may be 2 % faster than its bound, as clocks and rounding are. Kernels ran
again and again on the same buffers: a row faster by less than the share of them that the L2 holds counts apart.
``python -m tests.cases.kernels DATA gemm norm`` takes some operations.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roofline import bound, comm

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
SLACK = 1.02


class Question(NamedTuple):
    """A line that a group of rows shares, its sizes as columns, and what fixes the arithmetic."""

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
    if not row["s"] or float(row["w"] or 0) > 0:
        return None
    d = "fp8" if row["sub"].startswith("fp8") else "bf16"
    text = f"attention({d}[B, S, N, H], {d}[B, S, K, H], {d}[B, S, K, H], causal) -> bf16[B, S, N, H]"
    return Question(text, (("B", "b"), ("S", "s"), ("N", "h"), ("K", "kv"), ("H", "d")))


def _decode(row: Mapping[str, str]) -> Question | None:
    if float(row["w"] or 0) > 0:
        return None
    kv = "fp8" if row["sub"].endswith("kvfp8") else "bf16"
    text = f"attention(bf16[B, 1, N, H], {kv}[B, T, K, H], {kv}[B, T, K, H]) -> bf16[B, 1, N, H]"
    return Question(text, (("B", "b"), ("T", "st"), ("N", "h"), ("K", "kv"), ("H", "d")), "bf16")


def _eltwise(row: Mapping[str, str]) -> Question:
    d, word = row["dtype"], row["sub"]
    if d == "fp16" and word == "add":  # Vidur's own count has the bytes of one operand
        word = "addu"
    text = "gelu({d}[E])" if word == "mlp_act" else MAPS.get(word, "relu({d}[E])")
    return Question(text.format(d=d), (("E", "e"),))


def _norm(row: Mapping[str, str]) -> Question | None:
    if not row["rows"]:
        return None
    word = "softmax" if row["sub"] == "softmax" else "layernorm"
    return Question(f"{word}_C({row['dtype']}[R, C])", (("R", "rows"), ("C", "cols")))


def _collective(name: str) -> Callable[[Mapping[str, str]], Question]:
    return lambda row: Question(name, (("bytes", "msg_bytes"), ("chips", "n_gpus")))


QUESTIONS: dict[str, Callable[[Mapping[str, str]], Question | None]] = {
    "gemm": _gemm, "attn_prefill": _prefill, "attn_decode": _decode, "eltwise": _eltwise, "norm": _norm,
    "all_gather": _collective("AllGather"), "allreduce": _collective("AllReduce"),
    "allreduce_custom": _collective("AllReduce"), "alltoall": _collective("AllToAll"),
    "reduce_scatter": _collective("ReduceScatter"),
}  # fmt: skip


def newer(row: Mapping[str, str]) -> dict[str, str] | None:
    """A row of ``kernels_more.csv.gz`` in the columns of ``kernels.csv.gz``; its flags are of the other's kind."""
    given = {
        "gpu": row["gpu"],
        "measured_us": row["measured_us"],
        "flag": row["flag"],
        "dtype": "",
        "w": row["window_size"],
    }
    if row["table"] == "gemm":
        return given | {"op": "gemm", "sub": row["gemm_dtype"], "nb": "1", **{key: row[key] for key in "mnk"}}
    if row["table"] not in ("context_attention", "generation_attention"):
        return None
    given |= {"b": row["batch_size"], "h": row["num_heads"], "kv": row["num_key_value_heads"], "d": row["head_dim"]}
    given["sub"] = f"{row['attn_dtype']}/kv{row['kv_cache_dtype']}"
    if row["table"] == "context_attention":
        return None if float(row["step"] or 0) else given | {"op": "attn_prefill", "s": row["isl"]}
    return given | {"op": "attn_decode", "st": row["step"]}


def lower(chip: str, asked: Question, rows: list[Mapping[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """The bound of each row, and the bytes it moves."""
    sizes = {name: np.array([float(row[column]) for row in rows]) for name, column in asked.sizes}
    if "bytes" in sizes:
        pairs = zip(sizes["bytes"], sizes["chips"], strict=True)
        found = [float(comm(asked.text, bytes=int(size), on=f"{chip}:{int(chips)}").time) for size, chips in pairs]
        return np.array(found), np.full(len(rows), np.inf)
    found = bound(asked.text, on=chip, **({"compute": asked.compute} if asked.compute else {}), **sizes)
    return np.broadcast_to(found.lower, len(rows)), np.broadcast_to(found.total_bytes, len(rows))


def main(words: list[str]) -> int:
    """Check a folder; print counts by operation and the rows furthest below their bound."""
    data = Path(words[0])
    groups: dict[tuple[str, str, Question], list[Mapping[str, str]]] = defaultdict(list)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    caches: dict[str, float] = {}
    for name in ("kernels.csv.gz", "kernels_more.csv.gz"):
        with gzip.open(data / name, "rt", newline="", encoding="utf-8") as file:
            for plain in csv.DictReader(file):
                row: Mapping[str, str] | None = plain if "op" in plain else newer(plain)
                if "l2_mib" in plain:
                    caches.setdefault(CHIPS.get(plain["gpu"], ""), float(plain["l2_mib"] or 0) * 2**20)
                asked = question(row) if row is not None and plain["gpu"] in CHIPS else None
                if row is not None and words[1:] and row["op"] not in words[1:]:
                    continue
                if row is None or asked is None:
                    counts["(no question)"]["rows"] += 1
                else:
                    groups[CHIPS[row["gpu"]], row["op"], asked].append(row)
    worst: list[tuple[float, Any]] = []
    for (chip, op, asked), rows in groups.items():
        bounds, moved = lower(chip, asked, rows)
        seconds = np.array([float(row["measured_us"]) for row in rows]) * 1e-6
        for row, floor, size, time in zip(rows, bounds, moved, seconds, strict=True):
            in_cache = size <= 2 * caches[chip] or "fits_L2" in row["flag"]
            kind = "in L2" if in_cache else "impossible" if "impossible" in row["flag"] else "held"
            counts[op][kind] += 1
            if time * SLACK >= floor:
                continue
            warm = time * SLACK >= floor * (1 - caches[chip] / size)
            counts[op][f"{kind}, below{' by less than the L2 holds of it' if warm and kind == 'held' else ''}"] += 1
            if kind == "held":
                shown = {
                    key: row[key] for key in ("gpu", "backend", "sub", *dict(asked.sizes).values()) if row.get(key)
                }
                worst.append((floor / time, (op, shown)))
    for op, found in sorted(counts.items()):
        sys.stdout.write(f"{op:18} " + ", ".join(f"{count:,} {said}" for said, count in sorted(found.items())) + "\n")
    for ratio, what in sorted(worst, key=lambda item: -item[0])[:20]:
        sys.stdout.write(f"{ratio:6.2f} {what}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
