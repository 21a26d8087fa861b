"""Rows of measured kernels as shapes and seconds, by group: chip, library, kind of kernel, format and path.

``kernels.csv.gz`` and ``kernels_more.csv.gz`` hold times measured by others (ai-dynamo/aiconfigurator, microsoft/vidur;
columns as their README says). A row that cannot be what it says is left out and counted.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roofline.estimates import attention, experts
from roofline.estimates.attention import BEYOND, alone_on_core, attention_path, heads_apart, moved_in_front
from roofline.estimates.constants import KERNELS
from roofline.estimates.contraction import IN_TURN
from roofline.estimates.experts import MARLIN, TILES
from roofline.estimates.fitting import Rows
from roofline.estimates.kernel_model import FROM_HOST, ChipFigures
from roofline.estimates.transfer import cores_of, kernel_elsewhere
from roofline.estimates.vector_and_collectives import FRAMEWORKS
from roofline.hardware import chip

#: The tables of measured kernels, and where their rows are kept as arrays, so that they are parsed once.
TABLES = ("kernels.csv.gz", "kernels_more.csv.gz")
KEPT = Path(__file__).resolve().parents[2] / "build" / "measured.npz"
#: Fewest rows of a group: fewer tell too little of six constants.
LEAST = 30
#: Chips by the name the data have.
CHIPS = {
    "a100_sxm": "a100",
    "h100_sxm": "h100",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
    "b60": "b60",
    "a100": "a100",
    "a40": "a40",
}
#: Bytes of an element of A and B by the data's format; fp4 has a scale of one byte for 16, mxfp4 for 32.
FORMATS = {
    "bfloat16": (2, 2),
    "fp8": (1, 1),
    "fp8_block": (1, 1),
    "nvfp4": (0.5625, 0.5625),
    "int8_wo": (2, 1),
    "int4_wo": (2, 0.5),
    "w4a16_mxfp4": (2, 0.53125),
    "w4a8_mxfp4_mxfp8": (1, 0.53125),
}
#: Our format and path of a kernel by the data's.
NAMES = {
    "bfloat16": ("bf16", ""),
    "fp8": ("fp8", ""),
    "fp8_block": ("fp8", "block scales"),
    "nvfp4": ("nvfp4", ""),
    "int8_wo": ("int8", "weights only"),
    "int4_wo": ("int4", "weights only"),
    "w4a16_mxfp4": ("mxfp4", "weights only"),
    "w4a8_mxfp4_mxfp8": ("mxfp4", ""),
}
#: How many weights and activations the products of a library are timed with in turn, and those that are timed with one.
#: TensorRT-LLM takes as many weights as fill the cache, where fewer do (aiconfigurator, collector/…/collect_gemm.py).
TURNS = {"vllm": (6.0, 1.0), "sglang": (6.0, 6.0), "trtllm": (5.0, 1.0)}
ONE_WEIGHT = (("vllm", "nvfp4"), ("vllm", "fp8_block"))
#: Widths of the latents of DeepSeek-V3: keys with their rotary part, values; and of expanded heads.
LATENT, LATENT_VALUE, EXPANDED_KEY, EXPANDED_VALUE = 576, 512, 192, 128


class Group(NamedTuple):
    """Rows of one chip, library, kernel and format."""

    chip: str
    kernel: str
    dtype: str
    library: str
    path: str
    core: bool = True
    version: str = ""


@dataclass(slots=True)
class Lint:
    """What was left out before fitting, by kind of kernel and reason, with counts."""

    counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def keep(self, row: Mapping[str, str], kernel: str) -> bool:
        """Say whether a row can be what it says; count it where it cannot."""
        if "impossible" in row["flag"]:
            why = "faster than the peak, or than memory with a working set over twice the cache"
        elif "slow_path" in row["flag"]:
            why = "over 50 times its bound: another path of the library"
        elif float(row["measured_us"] or 0) <= 0:
            why = "no time"
        else:
            return True
        self.counts[kernel, why] += 1
        return False

    def said(self, kernel: str) -> list[str]:
        """Counts of one kind of kernel, a line a reason."""
        mine = sorted((why, count) for (of, why), count in self.counts.items() if of == kernel)
        return [f"{count:,} rows left out: {why}" for why, count in mine]


def rows_of(group: Group, rows: Sequence[Mapping[str, str]], figures: Mapping[str, float]) -> Rows:
    """Shapes and seconds of a group's rows; several times of one shape become their median."""
    chip = ChipFigures(*(figures[name] for name in ChipFigures._fields))
    shapes = SHAPES[group.kernel](rows)
    if group.kernel in ("collective", "all_reduce"):
        shapes["link"] = np.full(len(rows), figures["link"])
    seconds = column(rows, "measured_us") * 1e-6
    names = list(shapes)
    keys = np.stack([np.broadcast_to(shapes[name], seconds.shape) for name in names])
    _, first, which, counts = np.unique(keys, axis=1, return_index=True, return_inverse=True, return_counts=True)
    middle = seconds[first]
    for again in np.flatnonzero(counts > 1):
        middle[again] = np.median(seconds[which.ravel() == again])
    return Rows({name: keys[number][first] for number, name in enumerate(names)}, middle, chip)


def read(data: Path, lint: Lint, kept: Path = KEPT) -> dict[Group, Rows]:
    """The rows of kernels that have a model, by group: from the tables, or as they were kept when last read."""
    tables = [data / name for name in TABLES]
    code = [Path(__file__), *map(Path, (experts.__file__, attention.__file__))]
    stamp = json.dumps(
        [[str(path), path.stat().st_size, path.stat().st_mtime] for path in tables]
        + [sha256(path.read_bytes()).hexdigest() for path in code]
    )
    if kept.exists():
        with np.load(kept, allow_pickle=False) as held:
            head = json.loads(str(held["head"]))
            if head["stamp"] == stamp:
                lint.counts.update({(kernel, why): count for kernel, why, count in head["lint"]})
                return {Group(*key): _unpacked(key, held, number) for number, key in enumerate(head["groups"])}
    found = _parsed(tables, lint)
    arrays: dict[str, Any] = {}
    for number, rows in enumerate(found.values()):
        arrays[f"names {number}"] = np.array(list(rows.shapes))
        arrays[f"rows {number}"] = np.stack([*rows.shapes.values(), rows.seconds])
        arrays[f"chip {number}"] = np.array(rows.chip)
    counts = [[*key, count] for key, count in lint.counts.items()]
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez(kept, head=json.dumps({"stamp": stamp, "lint": counts, "groups": list(found)}), **arrays)
    return found


def _unpacked(key: Sequence[Any], held: Any, number: int) -> Rows:
    names, columns = held[f"names {number}"].tolist(), held[f"rows {number}"]
    return Rows(dict(zip(names, columns, strict=False)), columns[-1], ChipFigures(*held[f"chip {number}"].tolist()))


def _parsed(tables: Sequence[Path], lint: Lint) -> dict[Group, Rows]:
    """Read the tables."""
    found: dict[Group, list[dict[str, str]]] = defaultdict(list)
    figures: dict[tuple[str, str], dict[str, float]] = {}
    for path in tables:
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                if path.name == TABLES[0]:
                    _note_figures(figures, row)
                    group = group_of(row)
                else:
                    group = more_group_of(row)
                if group is not None and lint.keep(row, group.kernel):
                    found[group].append(row)
    parted = {part: rows for group, rows in found.items() for part, rows in by_source(group, rows).items()}
    made = {}
    for group, rows in sorted(parted.items()):
        if len(rows) >= LEAST:
            mine = figures.get((rows[0]["gpu"], rows[0]["dtype"])) or figures[rows[0]["gpu"], "x"]
            made[group] = rows_of(group, rows, mine)
    return made


def by_source(group: Group, rows: list[dict[str, str]]) -> dict[Group, list[dict[str, str]]]:
    """Rows of experts by the kernel that ran: the usual one has the group's path, others are named in theirs."""
    if group.kernel != "experts":
        return {group: rows}
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        found[row["kernel_source"]].append(row)
    first = max(sorted(found), key=lambda source: len(found[source]))
    names = {
        source: next((word for word in ("cutlass", "marlin", "triton") if word in source), source) for source in found
    }
    paths = {
        source: ", ".join(filter(None, (group.path, "" if source == first else names[source]))) for source in found
    }
    return {group._replace(path=paths[source]): mine for source, mine in found.items()}


def _note_figures(figures: dict[tuple[str, str], dict[str, float]], row: Mapping[str, str]) -> None:
    """Keep what a row states of its chip."""
    if row["gpu"] not in CHIPS or (row["gpu"], row["dtype"]) in figures:
        return
    figures[row["gpu"], row["dtype"]] = {
        "cores": float(row["n_sm"] or 0),
        "matrix_peak": float(row["peak_tflops"] or 0) * 1e12,
        "bandwidth": float(row["bw_gbs"] or 0) * 1e9,
        "cache": float(row["l2_mib"] or 0) * 2**20,
        "link": float(row["link_gbs"] or 0) * 1e9,
    }


def group_of(row: Mapping[str, str]) -> Group | None:
    """The group that a row of the first table belongs to; None where no model is for it."""
    if row["dataset"] not in ("aiconf", "vidur") or row["gpu"] not in CHIPS:
        return None
    chip, library, op = CHIPS[row["gpu"]], row["backend"], row["op"]
    if op == "gemm" and row["sub"] in NAMES:
        dtype, path = NAMES[row["sub"]]
        quantised = dtype in ("fp8", "nvfp4")
        return Group(chip, "quantised_contraction" if quantised else "contraction", dtype, library, path)
    if row["dataset"] == "vidur" and op == "gemm":
        return Group(chip, "contraction", "bf16", library, "")
    if op in ("attn_prefill", "attn_decode"):
        if op == "attn_prefill" and float(row["s"]) <= 1:
            return None
        return attention_group(row, chip, library)
    if row["dataset"] == "vidur" and op in ("eltwise", "norm"):
        kernel = "elementwise" if op == "eltwise" else "norm"
        return Group(chip, kernel, "fp16", library, row["sub"])
    if op in ("allreduce", "all_gather", "reduce_scatter", "alltoall") and library == "nccl":
        return Group(chip, "collective", "any", library, op.replace("_", "").replace("allreduce", "all-reduce"))
    return None


def more_group_of(row: dict[str, str]) -> Group | None:
    """The group that a row of the second table belongs to; the row gets the name of the format in the first."""
    make = MORE.get(row["table"])
    if make is None or row["gpu"] not in CHIPS:
        return None
    return make(row, CHIPS[row["gpu"]], row["backend"])


def _custom_all_reduce(row: dict[str, str], chip: str, library: str) -> Group | None:
    if "eager" in row["flag"] or library == "oneccl" or chip == "b60":
        return None
    row["dtype"] = "x"
    return Group(chip, "all_reduce", "bf16", library, "", version=row["version"])


def _latent(row: dict[str, str], chip: str, library: str) -> Group | None:
    if row["mla_dtype"] != "bfloat16":
        return None
    row["dtype"] = "bf16"
    kernel = "latent_prefill" if row["table"] == "context_mla" else "latent_decode"
    path = "fp8 cache" if row["kv_cache_dtype"] == "fp8" else ""
    return Group(chip, kernel, "bf16", library, path, version=row["version"])


def _unmasked(row: dict[str, str], chip: str, library: str) -> Group | None:
    row["dtype"] = "bf16"
    return Group(chip, "unmasked_attention", "bf16", library, "", version=row["version"])


def _experts(row: dict[str, str], chip: str, library: str) -> Group | None:
    if row["moe_dtype"] not in NAMES or "no_graph" in row["flag"] or "situ" in row["kernel_source"]:
        return None
    dtype, path = NAMES[row["moe_dtype"]]
    row["dtype"] = {"nvfp4": "fp4", "mxfp4": "fp8" if not path else "bf16", "int4": "bf16"}.get(dtype, dtype)
    words = [path] if path else []
    if row["gated"] == "0":
        words.append("no gate")
    return Group(chip, "experts", dtype, library, ", ".join(words), version=row["version"])


def _of_heads(row: dict[str, str], chip: str, library: str) -> Group | None:
    """Products of latent attention with a weight for each head, before it and behind it."""
    dtype = NAMES[row["bmm_dtype"]][0]
    before = row["op_name"].endswith("pre")
    row |= {"dtype": dtype, "sub": row["bmm_dtype"], "m": row["num_tokens"], "nb": row["num_heads"]}
    row["n"], row["k"] = (str(LATENT_VALUE), str(EXPANDED_VALUE))[:: 1 if before else -1]
    kernel = "quantised_batched_contraction" if dtype == "fp8" else "batched_contraction"
    return Group(chip, kernel, dtype, library, "", version=row["version"])


#: Groups of the second table's rows.
MORE: dict[str, Callable[[dict[str, str], str, str], Group | None]] = {
    "custom_allreduce": _custom_all_reduce,
    "context_mla": _latent,
    "generation_mla": _latent,
    "encoder_attention": _unmasked,
    "moe": _experts,
    "mla_bmm": _of_heads,
}


def attention_group(row: Mapping[str, str], key: str, library: str) -> Group:
    """Attention by the format of its cache and whether heads share keys; windows and large heads stand apart."""
    heads, kv = float(row["h"]), float(row["kv"] or 0) or float(row["h"])
    kernel = "prefill_attention" if row["op"] == "attn_prefill" else "decode_attention"
    sizes = float(row["kb"]), heads, kv, float(row["d"]), float(row["w"] or 0)
    path = attention_path(kernel, *sizes, library=library, cores=cores_of(chip(key)))
    return Group(key, kernel, row["dtype"], library, path, BEYOND not in path)


def column(rows: Sequence[Mapping[str, str]], name: str, default: float = 0.0) -> Any:
    """One column as numbers."""
    return np.array([float(row[name]) if row[name] else default for row in rows])


def contraction_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """m, n, k, batch where it is not always one, and bytes of elements."""
    a, b = FORMATS.get(rows[0]["sub"], FORMATS["bfloat16"])
    batch = column(rows, "nb", 1.0)
    sizes = {name: column(rows, name) for name in "mnk"} | ({"batch": batch} if batch.max() > 1 else {})
    alike = {"a_bytes": a, "b_bytes": b, "out_bytes": 2}
    if "l2_mib" in rows[0]:  # small products of a batch take one weight
        alike |= dict(zip(IN_TURN, turns(rows, sizes["n"] * sizes["k"] * b), strict=True))
    return {**sizes, **{name: sizes["m"] * 0 + each for name, each in alike.items()}}


def turns(rows: Sequence[Mapping[str, str]], weight: Any) -> tuple[Any, float]:
    """How many weights, of so many bytes, and activations the products of a group take in turn."""
    library, form = rows[0]["backend"], rows[0]["sub"]
    weights, activations = (1.0, 1.0) if (library, form) in ONE_WEIGHT else TURNS.get(library, (1.0, 1.0))
    if library == "trtllm":
        weights = np.clip(np.ceil(column(rows, "l2_mib") * 2**20 / weight), 1, weights)
    return weights, activations


def attention_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Batch, heads, sizes and lengths."""
    heads, kv = column(rows, "h"), column(rows, "kv")
    is_prefill, kv, one = rows[0]["op"] == "attn_prefill", np.where(kv == 0, heads, kv), rows[0]
    length = column(rows, "s") if is_prefill else column(rows, "st") + 1
    key, library, dtype, size = CHIPS[one["gpu"]], one["backend"], one["dtype"], column(rows, "d")
    apart = heads_apart(library, "" if is_prefill else "decode_attention", heads, kv)
    shared = np.where(apart, heads / kv, 1.0)
    alone = alone_on_core(library, dtype, attention_group(one, key, library).path, size, chip(key))
    beside = {"rewritten": moved_in_front(library, dtype), "stored": not is_alone(one), "alone": alone}
    return {
        "batch": column(rows, "b"),
        "heads": heads,
        "kv_heads": np.where(apart, heads, kv),
        **({name: each * heads**0 for name, each in beside.items()} if is_prefill else {"shared": shared}),
        "head_size": size,
        "length": length,
        "window": column(rows, "w"),
        "kv_bytes": column(rows, "kb"),
    }


def is_alone(row: Mapping[str, str]) -> bool:
    """Whether attention was timed without the kernel in front that writes keys and values.

    B60's benchmark calls ``forward`` (aiconfigurator, collector/vllm/collect_attn_xpu.py), which in vLLM 0.20 does not
    write them any more (vllm-project/vllm, pull request 25954); that of NVIDIA's chips calls both.
    """
    return CHIPS[row["gpu"]] == "b60"


def latent_decode_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Batch, heads of this chip, lengths of the cache with the new token."""
    one = np.ones(len(rows))
    return {
        "batch": column(rows, "batch_size"),
        "heads": column(rows, "num_heads"),
        "head_size": LATENT * one,
        "value_size": LATENT_VALUE * one,
        "length": column(rows, "step") + 1,
        "kv_bytes": np.array([1.0 if row["kv_cache_dtype"] == "fp8" else 2.0 for row in rows]),
    }


def latent_prefill_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Batch, expanded heads of this chip, new tokens after those in the cache; sizes of keys and values average."""
    heads, one = column(rows, "num_heads"), np.ones(len(rows))
    return {
        "batch": column(rows, "batch_size"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": (EXPANDED_KEY + EXPANDED_VALUE) / 2 * one,
        "length": column(rows, "isl"),
        "past": column(rows, "step"),
        "kv_bytes": 2 * one,
    }


def unmasked_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Batch, heads, each with keys of its own, and length of encoders, where every key is seen."""
    heads, one = column(rows, "num_heads"), np.ones(len(rows))
    sizes = {"head_size": column(rows, "head_dim"), "length": column(rows, "isl")}
    alike = {"batch": column(rows, "batch_size"), "heads": heads, "kv_heads": heads}
    return {**alike, **sizes, "later": one, "kv_bytes": 2 * one}


def vector_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Bytes moved, and values, which are in half precision."""
    moved = column(rows, "min_bytes")
    return {"bytes": moved, "values": moved / 2}


def collective_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What one chip sends at least, and the chips."""
    chips, size = column(rows, "n_gpus"), column(rows, "msg_bytes")
    times = 2 if rows[0]["op"] == "allreduce" else 1
    return {"sent": times * (chips - 1) / chips * size, "chips": chips}


def all_reduce_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What one chip of a ring sends, and the chips; sizes of messages are in elements of bf16."""
    chips, size = column(rows, "num_gpus"), 2 * column(rows, "message_size")
    return {"sent": 2 * (chips - 1) / chips * size, "chips": chips}


def experts_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Tokens and widths of one chip's experts, by the distribution that the row states."""
    a, b = FORMATS[rows[0]["moe_dtype"]]
    one = np.ones(len(rows))
    loads = []
    for row in rows:
        sizes = [int(float(row[name])) for name in ("num_tokens", "topk", "num_experts", "moe_ep_size")]
        alone = (row["backend"], row["version"]) in RANK_ALONE and row["kernel_source"] != "deepepmoe"
        whole = alone and sizes[-1] > 1
        load = rank_load(*sizes, row["distribution"]) if whole else expert_load(*sizes, row["distribution"])
        loads.append((*load, *(() if whole else (sizes[0], sizes[0] * sizes[1]))))
    picks, touched, *tiles, tokens, choices = np.array(loads).T
    gated = rows[0]["gated"] != "0"
    return {
        "picks": picks,
        "touched": touched,
        "choices": choices,
        "tokens": tokens,
        "experts": column(rows, "num_experts") / column(rows, "moe_ep_size"),
        "hidden": column(rows, "hidden_size"),
        "inter": column(rows, "inter_size") / column(rows, "moe_tp_size"),
        "products": (3.0 if gated else 2.0) * one,
        "weight_bytes": b * one,
        "a_bytes": a * one,
        **{f"tiles_{rows}": count for rows, count in zip(TILED, tiles, strict=True)},
    }


#: Rows of tiles that loads are counted in.
TILED = tuple(sorted({*TILES, *MARLIN}))
#: Loads that a row's time is the mean of.
DRAWS = 5
_LOADS: dict[tuple[int, int, int, int, str], tuple[float, ...]] = {}


def expert_load(tokens: int, chosen: int, experts: int, ranks: int, distribution: str) -> tuple[float, ...]:
    """Choices that fall to the timed rank's experts, how many of its experts get any, and their tiles by size.

    Balanced rows give every expert as many. In rows of a power law with exponent α the shares of experts follow
    ``x^-α`` between 1 and 0.8 · tokens; the rank with the largest sum is timed: the mean of as many draws as are timed.
    """
    key = (tokens, chosen, experts, ranks, distribution)
    if key not in _LOADS:
        total, here = tokens * chosen, experts / ranks
        if not distribution.startswith("power_law"):
            touched = min(here, max(total / ranks, 1.0))
            tiles = (float(touched * np.ceil(total / ranks / touched / rows - 1e-9)) for rows in TILED)
            _LOADS[key] = (total / ranks, touched, *tiles)
        else:
            mine = power_law_loads(tokens, chosen, experts, ranks, distribution)[:, 0]
            tiles = (float(np.ceil(mine / rows - 1e-9).sum(axis=1).mean()) for rows in TILED)
            _LOADS[key] = (float(mine.sum(axis=1).mean()), float((mine > 0).sum(axis=1).mean()), *tiles)
    return _LOADS[key]


#: Libraries and versions whose rows over several ranks give one rank its tokens alone, and count what these choose
#: elsewhere as choices of its first expert. Source: aiconfigurator, collector/sglang/collect_moe.py of May 2026
#: (``topk_ids.clamp(min=0)``). DeepEP's kernels, of another collector, get the choices of their own experts.
RANK_ALONE = (("sglang", "0.5.10"),)


def rank_load(tokens: int, chosen: int, experts: int, ranks: int, distribution: str) -> tuple[float, ...]:
    """Choices of the tokens that have one on the timed rank, experts that get any, tiles by size, tokens, choices.

    Balanced token i chooses the experts ``i + j · ⌈experts/chosen⌉``. In rows of a power law the experts, the most
    loaded first, fill the first choices of all tokens, then the second ones, and so on.
    """
    key = (tokens, chosen, experts, ranks, f"{distribution} of one rank")
    if key not in _LOADS:
        if distribution.startswith("power_law"):
            draws = [tokens_hit(load, tokens) for load in power_law_loads(tokens, chosen, experts, ranks, distribution)]
        else:
            stride = -(-experts // chosen)
            first = np.arange(tokens) * (1.0 if tokens >= stride else stride / tokens)
            picked = (first[:, None] + np.arange(chosen)[None, :] * stride).astype(int) % experts
            here = picked < experts // ranks
            draws = [(np.bincount(picked[here], minlength=experts // ranks), float(here.any(axis=1).sum()))]
        found = []
        for mine, hit in draws:
            load = mine + (np.arange(len(mine)) == 0) * (hit * chosen - mine.sum())
            counts = (float(np.ceil(load / rows - 1e-9).sum()) for rows in TILED)
            found.append((hit * chosen, float((load > 0).sum()), *counts, hit, hit * chosen))
        _LOADS[key] = tuple(np.mean(found, axis=0).tolist())
    return _LOADS[key]


def power_law_loads(tokens: int, chosen: int, experts: int, ranks: int, distribution: str) -> Any:
    """Whole tokens of each expert by rank, the busiest rank first, as many draws as are timed, by a fixed seed."""
    power = float(distribution.rpartition("_")[2])
    low, top = (1.0, 0.8 * tokens) if tokens * chosen > experts else (0.01, 2.0)
    drawn = np.random.default_rng([tokens, chosen, experts]).random((DRAWS, experts))
    share = ((top ** (1 - power) - low ** (1 - power)) * drawn + low ** (1 - power)) ** (1 / (1 - power))
    load = np.minimum(share / share.sum(axis=1, keepdims=True) * tokens * chosen, tokens)
    load = (
        np.round(load * (tokens * chosen / load.sum(axis=1, keepdims=True))).clip(max=tokens).reshape(DRAWS, ranks, -1)
    )
    for draw in load:
        _make_up(draw, tokens * chosen, tokens)
        busiest = draw.sum(axis=1).argmax()
        draw[[0, busiest]] = draw[[busiest, 0]]
    return load


def _make_up(load: Any, whole: int, most: int) -> None:
    """Give or take what rounding left over, a token a rank in turn, from its least or most loaded expert."""
    missing = int(whole - load.sum())
    for turn in range(abs(missing)):
        mine = load[turn % len(load)]
        if missing > 0:
            mine[mine.argmin()] = min(mine.min() + 1, most)
        else:
            mine[mine.argmax()] = max(mine.max() - 1, 0)


def tokens_hit(load: Any, tokens: int) -> tuple[Any, float]:
    """Tokens of each expert of the first rank, and how many tokens choose one of them."""
    flat = load.ravel()
    order = np.argsort(-flat, kind="stable")
    start = np.concatenate([[0], np.cumsum(flat[order])[:-1]]) % tokens
    edges = np.zeros(2 * tokens + 1)
    for place, expert in enumerate(order):
        if expert < load.shape[1] and flat[expert]:
            edges[int(start[place])] += 1
            edges[int(start[place] + flat[expert])] -= 1
    covered = np.cumsum(edges[:-1])
    return load[0], float(((covered[:tokens] + covered[tokens:]) > 0).sum())


SHAPES: dict[str, Callable[[Sequence[Mapping[str, str]]], dict[str, Any]]] = {
    "contraction": contraction_shapes,
    "quantised_contraction": contraction_shapes,
    "batched_contraction": contraction_shapes,
    "quantised_batched_contraction": contraction_shapes,
    "prefill_attention": attention_shapes,
    "decode_attention": attention_shapes,
    "unmasked_attention": unmasked_shapes,
    "latent_prefill": latent_prefill_shapes,
    "latent_decode": latent_decode_shapes,
    "elementwise": vector_shapes,
    "norm": vector_shapes,
    "collective": collective_shapes,
    "all_reduce": all_reduce_shapes,
    "experts": experts_shapes,
}


#: Tables of kernels whose versions are told apart in a family: each has several paths that share constants.
ATTENTION = {"prefill_attention": "context_attention", "decode_attention": "generation_attention"}


def versions(data: Path) -> dict[tuple[str, str, str], str]:
    """The version of a library whose attention was measured, by chip, kernel and library."""
    with open(data / "versions.csv", newline="") as file:
        newest = [row for row in csv.DictReader(file) if row["role"] == "newest" and row["gpu"] in CHIPS]
    return {
        (CHIPS[row["gpu"]], kernel, row["backend"]): row["version"]
        for kernel, table in ATTENTION.items()
        for row in newest
        if row["table"] == table
    }


#: Policies that a chip states, or a library's code for it: B60's cores have eight matrix engines each, and its rows
#: were timed without a graph; vLLM reduces less than 8 MiB by itself where all chips have NVLink and share no memory.
STATED = {
    ("b60", "contraction", "vllm"): f"8 tiles a core {FROM_HOST}",
    ("a100", "all_reduce", "vllm"): "below 8 MiB",
}


def stated_for(group: Group) -> str:
    """The policy that code or cores state for a group's kernels; empty where none is known."""
    known = kernel_elsewhere(KERNELS[group.kernel], group.library, group.dtype, group.path, chip(group.chip))
    return known or STATED.get((group.chip, group.kernel, group.library), "")


def same_kernels(group: Group) -> str:
    """Kernels that several libraries run: those whose tiles code states, or cuBLAS's; empty where each has its own.

    vLLM, SGLang and TensorRT-LLM leave products in half precision to cuBLAS. It has other kernels on each generation.
    """
    if KERNELS[group.kernel].is_shared(stated_for(group)):
        return "stated"
    is_left = group.kernel == "contraction" and group.dtype == "bf16" and group.library in FRAMEWORKS
    return "cuBLAS" if is_left else ""


def groups_by_family(groups: Mapping[Group, Rows]) -> Iterable[tuple[tuple[str, ...], dict[Group, Rows]]]:
    """Groups that share constants: of one kernel, library and format, on all chips of a vendor.

    Libraries that run the same kernels make one family.
    """
    families: dict[tuple[str, ...], dict[Group, Rows]] = defaultdict(dict)
    for group, rows in groups.items():
        apart = "contraction" in group.kernel or group.kernel == "experts"
        vendor = chip(group.chip).vendor
        library = same_kernels(group) or group.library
        key = (group.kernel, library, group.dtype, group.path if apart else "", str(group.core), vendor)
        families[key][group] = rows
    return families.items()
