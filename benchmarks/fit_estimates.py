"""Fit the constants of estimates to measured kernels and report how accurate they are on rows that were not fitted.

    python benchmarks/fit_estimates.py DATA [--only KERNEL] [--catalog DIR] [--report FILE]

DATA is a folder with ``kernels.csv.gz``: kernel times measured by others (ai-dynamo/aiconfigurator, microsoft/vidur;
columns as its README says). Every group of rows (chip, library, kernel, format) is cut into two
random halves by a fixed seed: constants, policies and intervals come from the first, reported errors from the second.
Rows of all chips with one library and format share the constants that are not a chip's own.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roofline.estimates.attention import attention_path
from roofline.estimates.constants import TAILS, KernelConstants, write_constants
from roofline.estimates.fitting import Errors, Fitted, Rows, fit_family
from roofline.estimates.kernel_table import KERNELS
from roofline.estimates.kernels import ChipFigures, data_sheet_bound

SEED = 20261122
#: Fewest rows of a group: fewer tell too little of six constants.
LEAST = 40
#: Chips by the name the data have: ours, and the generation.
CHIPS = {
    "a100_sxm": ("a100", "ampere"),
    "h100_sxm": ("h100", "hopper"),
    "l40s": ("l40s", "ada"),
    "rtx_pro_6000_server": ("rtx-pro-6000", "blackwell"),
    "b60": ("b60", "xe2"),
    "a100": ("a100", "ampere"),
    "a40": ("a40", "ampere"),
}
#: Bytes of an element of A and B by the data's format; fp4 has a scale of one byte for 16.
FORMATS = {
    "bfloat16": (2, 2),
    "fp8": (1, 1),
    "fp8_block": (1, 1),
    "nvfp4": (0.5625, 0.5625),
    "int8_wo": (2, 1),
    "int4_wo": (2, 0.5),
}
NAMES = {
    "bfloat16": ("bf16", ""),
    "fp8": ("fp8", ""),
    "fp8_block": ("fp8", "block scales"),
    "nvfp4": ("nvfp4", ""),
    "int8_wo": ("int8", "weights only"),
    "int4_wo": ("int4", "weights only"),
}


class Group(NamedTuple):
    """Rows of one chip, library, kernel and format."""

    chip: str
    kernel: str
    dtype: str
    library: str
    path: str
    core: bool = True


@dataclass(slots=True)
class Lint:
    """What was left out before fitting, and why, with counts."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def keep(self, row: Mapping[str, str]) -> bool:
        """Say whether a row can be what it says; count it where it cannot."""
        if "impossible" in row["flag"]:
            self.counts["faster than the peak, or than memory with a working set over twice the cache"] += 1
            return False
        seconds = float(row["measured_us"] or 0)
        if seconds <= 0:
            self.counts["no time"] += 1
            return False
        return True


def read(data: Path, lint: Lint) -> dict[Group, list[dict[str, str]]]:
    """Read the rows of kernels that have a model, by group."""
    found: dict[Group, list[dict[str, str]]] = defaultdict(list)
    with gzip.open(data / "kernels.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            group = group_of(row)
            if group is not None and lint.keep(row):
                found[group].append(row)
    return {group: rows for group, rows in sorted(found.items()) if len(rows) >= LEAST}


def group_of(row: Mapping[str, str]) -> Group | None:
    """The group a row belongs to; None where no model is for it."""
    if row["dataset"] not in ("aiconf", "vidur") or row["gpu"] not in CHIPS:
        return None
    chip, library, op = CHIPS[row["gpu"]][0], row["backend"], row["op"]
    if op == "gemm" and row["sub"] in NAMES:
        dtype, path = NAMES[row["sub"]]
        quantised = dtype in ("fp8", "nvfp4")
        return Group(chip, "quantised_contraction" if quantised else "contraction", dtype, library, path)
    if op in ("attn_prefill", "attn_decode"):
        return attention_group(row, chip, library)
    if row["dataset"] == "vidur" and op in ("eltwise", "norm"):
        kernel = "elementwise" if op == "eltwise" else "norm"
        return Group(chip, kernel, "fp16", library, row["sub"])
    if op == "moe":
        return Group(chip, "experts", row["dtype"], library, row["sub"])
    if op in ("allreduce", "all_gather", "reduce_scatter", "alltoall") and library == "nccl":
        return Group(chip, "collective", "any", library, op.replace("_", "").replace("allreduce", "all-reduce"))
    return None


def attention_group(row: Mapping[str, str], chip: str, library: str) -> Group:
    """Attention by the format of its cache and whether heads share keys; windows and large heads stand apart."""
    heads, kv = float(row["h"]), float(row["kv"] or 0) or float(row["h"])
    core = not float(row["w"] or 0) and float(row["d"]) <= 128 and heads / kv <= 16
    kernel = "prefill_attention" if row["op"] == "attn_prefill" else "decode_attention"
    if kernel == "prefill_attention":
        core = core and float(row["s"]) > 1
    return Group(chip, kernel, row["dtype"], library, attention_path(kernel, float(row["kb"]), heads, kv), core)


def column(rows: Sequence[Mapping[str, str]], name: str, default: float = 0.0) -> Any:
    """One column as numbers."""
    return np.array([float(row[name]) if row[name] else default for row in rows])


def rows_of(group: Group, rows: Sequence[Mapping[str, str]]) -> Rows:
    """Shapes and seconds of a group's rows."""
    first = rows[0]
    chip = ChipFigures(
        float(first["n_sm"]),
        float(first["peak_tflops"] or 0) * 1e12,
        float(first["bw_gbs"]) * 1e9,
        float(first["l2_mib"]) * 2**20,
    )
    return Rows(SHAPES[group.kernel](rows), column(rows, "measured_us") * 1e-6, chip)


def contraction_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """m, n, k and bytes of elements."""
    a, b = FORMATS[rows[0]["sub"]]
    sizes = {name: column(rows, name) for name in "mnk"}
    return {**sizes, "a_bytes": sizes["m"] * 0 + a, "b_bytes": sizes["m"] * 0 + b, "out_bytes": sizes["m"] * 0 + 2}


def attention_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Batch, heads, sizes and lengths."""
    heads, kv = column(rows, "h"), column(rows, "kv")
    length = column(rows, "s") if rows[0]["op"] == "attn_prefill" else column(rows, "st") + 1
    return {
        "batch": column(rows, "b"),
        "heads": heads,
        "kv_heads": np.where(kv == 0, heads, kv),
        "head_size": column(rows, "d"),
        "length": length,
        "window": column(rows, "w"),
        "kv_bytes": column(rows, "kb"),
    }


def vector_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Bytes moved; rows and columns of norms."""
    return {"bytes": column(rows, "min_bytes"), "rows": column(rows, "rows"), "columns": column(rows, "cols")}


def collective_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What one chip sends at least, the chips, the link's rate one way."""
    chips, size = column(rows, "n_gpus"), column(rows, "msg_bytes")
    times = 2 if rows[0]["op"] == "allreduce" else 1
    return {"sent": times * (chips - 1) / chips * size, "chips": chips, "link": column(rows, "link_gbs") * 1e9}


def experts_shapes(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Tokens and widths of one chip's experts."""
    a, b = FORMATS.get(rows[0]["sub"], {"bf16": (2, 2), "fp8": (1, 1), "fp4": (0.5625, 0.5625)}[rows[0]["dtype"]])
    # the column named after top-k holds the choices that fall to this rank's experts
    experts, picks = column(rows, "el"), column(rows, "a")
    touched = np.where(experts > 1, experts * -np.expm1(picks * np.log1p(-1 / np.maximum(experts, 2))), 1.0)
    one = experts * 0 + 1
    return {
        "picks": picks,
        "touched": np.minimum(touched, np.maximum(picks, 1)),
        "hidden": column(rows, "H"),
        "inter": column(rows, "I"),
        "products": 3 * one,
        "weight_bytes": b * one,
        "a_bytes": a * one,
    }


SHAPES: dict[str, Callable[[Sequence[Mapping[str, str]]], dict[str, Any]]] = {
    "contraction": contraction_shapes,
    "quantised_contraction": contraction_shapes,
    "prefill_attention": attention_shapes,
    "decode_attention": attention_shapes,
    "elementwise": vector_shapes,
    "norm": vector_shapes,
    "collective": collective_shapes,
    "experts": experts_shapes,
}


def halves(group: Group, count: int) -> tuple[Any, Any]:
    """Two random halves of a group's rows, by the seed and the group's name: one is fitted, one reported."""
    name = "/".join(map(str, group))
    shuffled = np.random.default_rng([SEED, *name.encode()]).permutation(count)
    return np.sort(shuffled[::2]), np.sort(shuffled[1::2])


def quantiles(estimated: Any, measured: Any) -> tuple[tuple[float, ...], tuple[tuple[float, float], ...]]:
    """Edges of thirds of estimated time, and in each the split-conformal quantiles of measured ÷ estimated."""
    count = 3 if len(estimated) >= 120 else 1
    edges = tuple(float(edge) for edge in np.quantile(estimated, [i / count for i in range(1, count)]))
    which = np.searchsorted(np.asarray(edges), estimated)
    found = []
    for third in range(count):
        ratio = np.sort((measured / estimated)[which == third])
        # the conformal rank for n rows: the ⌈(n + 1) · share⌉-th
        low = ratio[max(int(np.floor((len(ratio) + 1) * TAILS[0])) - 1, 0)]
        high = ratio[min(int(np.ceil((len(ratio) + 1) * TAILS[1])) - 1, len(ratio) - 1)]
        found.append((float(low), float(high)))
    return edges, tuple(found)


@dataclass(slots=True)
class Outcome:
    """What came of a group: its constants, errors on the other half, and coverage of the interval there."""

    group: Group
    constants: KernelConstants
    errors: Errors
    coverage: float
    bound: Errors


#: Fewest rows for an interval of a group's own: with fewer it takes those of all chips of its library and format.
LEAST_FOR_INTERVAL = 40


def fitted_family(kernel: str, groups: Mapping[Group, Rows]) -> list[Outcome]:
    """Fit one library's and format's groups of all chips together and test each on its other half."""
    parts = {group: halves(group, len(rows)) for group, rows in groups.items()}
    # four fifths of the first half are fitted, one fifth sets the interval: neither is reported on
    train = {group: first[np.arange(len(first)) % 5 != 0] for group, (first, _) in parts.items()}
    found = fit_family(KERNELS[kernel], [rows.take(train[group]) for group, rows in groups.items()])
    checks = []
    for (group, rows), fitted in zip(groups.items(), found, strict=True):
        check = rows.take(np.setdiff1d(parts[group][0], train[group]))
        checks.append((KERNELS[kernel].times(check.shapes, rows.chip, fitted.values, fitted.policy), check.seconds))
    every = tuple(np.concatenate(each) for each in zip(*checks, strict=True))
    return [
        outcome(
            group,
            rows,
            fitted,
            len(train[group]),
            parts[group],
            check if len(check[0]) >= LEAST_FOR_INTERVAL else every,
        )
        for (group, rows), fitted, check in zip(groups.items(), found, checks, strict=True)
    ]


def outcome(
    group: Group, rows: Rows, fitted: Fitted, trained: int, parts: tuple[Any, Any], check: tuple[Any, Any]
) -> Outcome:
    """The record of a group and how it does on rows that were not fitted."""
    model, (first, second) = KERNELS[group.kernel], parts
    test = rows.take(second)
    edges, interval = quantiles(*check)
    estimated = model.times(test.shapes, rows.chip, fitted.values, fitted.policy)
    errors = Errors.of(estimated, test.seconds)
    seen = rows.take(first).shapes
    valid = {name: (float(seen[name].min()), float(seen[name].max())) for name in model.sorted_by if name in seen}
    constants = KernelConstants(
        chip=group.chip,
        kernel=group.kernel,
        dtype=group.dtype,
        library=group.library,
        path=group.path,
        values=fitted.values,
        policy=fitted.policy,
        edges=edges,
        interval=interval,
        valid=valid,
        error={
            "mdape": errors.mdape,
            "mape": errors.mape,
            "p90": errors.p90,
            "bias": errors.bias,
            "n_fit": trained,
            "n_test": errors.count,
        },
        state="CUDA graph, buffers used again: caches warm" if group.dtype != "fp16" else "kernel alone, eager",
        figures=rows.chip._asdict(),
        source="ai-dynamo/aiconfigurator (Apache-2.0)" if group.dtype != "fp16" else "microsoft/vidur (MIT)",
    )
    low, high = constants.limits(estimated)
    inside = float(np.mean((test.seconds >= low) & (test.seconds <= high)))
    return Outcome(
        group,
        constants,
        errors,
        inside,
        Errors.of(data_sheet_bound(group.kernel, test.shapes, rows.chip)[0], test.seconds),
    )


def report(outcomes: Iterable[Outcome], lint: Lint) -> str:
    """The tables of the accuracy page."""
    lines = [
        "| chip | library | kernel | format | rows | MdAPE | MAPE | p90 | bias | 80 % covers | bound alone |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        g, e = one.group, one.errors
        name = f"{g.kernel.replace('_', ' ')}{', other' if not g.core else ''}"
        cells = [g.chip, g.library, name, f"{g.dtype} {g.path}".strip(), str(e.count)]
        cells += [f"{100 * x:.1f}" for x in (e.mdape, e.mape, e.p90, e.bias, one.coverage, one.bound.mdape)]
        lines.append("| " + " | ".join(cells) + " |")
    said = [f"- {count:,} rows left out: {why}" for why, count in sorted(lint.counts.items())]
    return "\n".join([*lines, "", *said, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, report, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", action="append", help="a kernel to fit; all by default")
    parser.add_argument("--catalog", type=Path, help="folder to write constants to")
    parser.add_argument("--report", type=Path, help="file to write the tables to")
    options = parser.parse_args(arguments)
    lint = Lint()
    families: dict[tuple[str, ...], dict[Group, Rows]] = defaultdict(dict)
    for group, rows in read(options.data, lint).items():
        if not options.only or group.kernel in options.only:
            key = (
                group.kernel,
                group.library,
                group.dtype,
                group.path if "contraction" in group.kernel else "",
                str(group.core),
            )
            families[key][group] = rows_of(group, rows)
    done: list[Outcome] = []
    for key, groups in families.items():
        start = time.perf_counter()
        found = fitted_family(key[0], groups)
        done += found
        middle = defaultdict(list)
        for one in found:
            middle[one.group.chip].append(one.errors.mdape)
        shown = ", ".join(f"{chip} {100 * float(np.median(each)):.1f}" for chip, each in middle.items())
        print(f"{' '.join(key)}: {shown}  ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    if options.catalog:
        options.catalog.mkdir(parents=True, exist_ok=True)
        for kernel in dict.fromkeys(one.group.kernel for one in done):
            records = [one.constants for one in done if one.group.kernel == kernel and one.group.core]
            write_constants(
                records,
                options.catalog / f"{kernel.replace('_', '-')}.toml",
                "Made by benchmarks/fit_estimates.py; see docs/accuracy.md.",
            )
    text = report(done, lint)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
