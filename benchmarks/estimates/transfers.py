"""How far estimates are off on chips that were not fitted: residuals by kind of kernel, for ``transfers.toml``.

To another generation: each chip of the fits is left out in turn, and estimated by the rule of
``roofline.estimates.transfer`` from the others. Intervals come from the halves of rows that fits take; the coverage
that a chip reports is of its other half, by an interval that the chip's own rows have no part in. Its ends are as far
on either side: by as much as one chip takes longer than the others tell, these take less than it tells.

Within a generation no chip of the main data has a sister there. DeepBench has: single-precision products of cuBLAS on
two Maxwell chips with the same cores. Each is estimated by its sister's constants as they are; the peak is that of the
clock that a board reaches, which of a GeForce is beyond the stated one. Its two Pascal chips are left out, because the
1080 Ti of that set runs further above the clock that its peak is stated for.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.estimates.fits import Outcome, conformal, even_ends, halves
from benchmarks.estimates.rows import Group, column
from benchmarks.estimates.shared_constants import chosen_policy
from roofline.estimates.constants import KERNELS
from roofline.estimates.fitting import Errors, Rows, fit
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.transfer import OTHER, OTHER_KIND, OUTSIDE, SAME, Transfer, boost, of_its_own

#: Chips of DeepBench that have the same cores, and the names of their boards.
SISTERS = (("DB_M40", "DB_TitanX"),)
BOARDS = {"DB_M40": "Tesla M40", "DB_TitanX": "GeForce GTX TITAN X"}
#: Share of outer rows that a widened interval holds.
WITHIN = 0.8
DEEPBENCH = "baidu-research/DeepBench (Apache-2.0)"
#: How an interval's ends come from ratios of measured to estimated times.
Ends: TypeAlias = Callable[[Any], tuple[float, float]]
AICONF = "ai-dynamo/aiconfigurator (Apache-2.0), microsoft/vidur (MIT)"


def another_generation(done: Sequence[Outcome]) -> list[Transfer]:
    """The residuals of chips that were left out, by kind of kernel; each group notes how many its interval covers.

    That is the interval of kernels of its library, format and path: :func:`half_way`. It also notes the median error
    that is left with a factor of the group's own, from its first half.
    """
    by_kernel: dict[str, list[Outcome]] = defaultdict(list)
    for one in done:
        if one.left_out is not None and one.constants.usable:
            by_kernel[one.group.kernel].append(one)
    found = []
    for kernel, mine in sorted(by_kernel.items()):
        for one in mine:
            others = [each for each in mine if each.group.chip != one.group.chip]
            if others and one.left_out is not None:
                known, held = one.left_out
                low, high = half_way(others, name_of(one))
                noted: dict[str, float] = one.constants.error  # type: ignore[assignment]
                noted["unseen_coverage"] = float(np.mean((held >= low) & (held <= high)))
                noted["unseen_factor"] = float(np.median(np.abs(np.median(known) / held - 1)))
        fitted, reported = (np.concatenate([one.left_out[half] for one in mine if one.left_out]) for half in (0, 1))
        chips = sorted({one.group.chip for one in mine})
        source = f"{AICONF}: {', '.join(chips)} left out in turn"
        whole = residuals_of(kernel, OTHER, fitted, reported, source, even_ends)
        found.append(replace(whole, own={name: half_way(mine, name) for name in sorted(set(map(name_of, mine)))}))
    return found


def name_of(one: Outcome) -> str:
    """The library, format and path of a group."""
    return of_its_own(one.group.library, one.group.dtype, one.group.path)


def half_way(done: Sequence[Outcome], name: str) -> tuple[float, float]:
    """The interval of kernels of a name: its width is the geometric mean of that of all of the kind and of their own.

    Few chips tell of the kernels of one name, and all of a kind are not equally hard.
    """
    every = [one for one in done if one.left_out is not None]
    own = [one for one in every if name_of(one) == name] or every
    ratios = (np.concatenate([one.left_out[0] for one in some if one.left_out]) for some in (every, own))
    of_all, of_its = (np.log(even_ends(each)[1]) for each in ratios)
    width = float(np.exp(np.sqrt(of_all * of_its)))
    return 1 / width, width


def another_kind(done: Sequence[Outcome], data: Mapping[Group, Rows]) -> list[Transfer]:
    """The residuals of activations by constants of norms of the same chip: a softmax, without rows, takes these."""
    norms, activations = ([one for one in done if one.group.path == path] for path in ("input_layernorm", "mlp_act"))
    parts: list[tuple[Any, Any]] = []
    for known in norms:
        for there in (one.group for one in activations if one.group.chip == known.group.chip):
            rows, model = data[there], KERNELS[known.group.kernel]
            ratio = rows.seconds / model.times(rows.shapes, rows.chip, known.constants.values, known.constants.policy)
            parts.append(tuple(ratio[half] for half in halves(there, len(rows))))
    if not parts:
        return []
    fitted, reported = map(np.concatenate, zip(*parts, strict=True))
    return [residuals_of("norm", OTHER_KIND, fitted, reported, f"{AICONF}: activations by norms", even_ends)]


def outside_sizes(done: Sequence[Outcome]) -> list[Transfer]:
    """What each doubling outside the measured sizes adds to an interval, by kind of kernel, all chips pooled."""
    by_kernel: dict[str, list[Outcome]] = defaultdict(list)
    for one in done:
        if one.outer is not None:
            by_kernel[one.group.kernel].append(one)
    found = []
    for kernel, mine in sorted(by_kernel.items()):
        parts = [np.concatenate([one.outer[part] for one in mine if one.outer]) for part in range(3)]
        groups = f"{len(mine)} groups, fitted from the 10th to the 90th percentile of sizes"
        found.append(widening(kernel, *parts, f"{AICONF}: {groups}"))
    return found


def widening(kernel: str, fitted: Any, reported: Any, ratios: Any, source: str) -> Transfer:
    """What each doubling adds, from scores of ``fitted`` rows; errors and coverage of ``reported`` ones."""
    each = max(float(np.sort(fitted)[min(int(np.ceil((len(fitted) + 1) * WITHIN)) - 1, len(fitted) - 1)]), 0.0)
    errors = Errors.of(1 / ratios, np.ones_like(ratios))
    error = {name: getattr(errors, name) for name in ("mdape", "mape", "p90", "bias")}
    error |= {"n_test": float(errors.count), "coverage": float(np.mean(reported <= each))}
    error |= {"unwidened": float(np.mean(reported <= 0))}
    return Transfer(kernel, OUTSIDE, (float(np.exp(-each)), float(np.exp(each))), error, source)


def within_a_generation(data: Path) -> list[Transfer]:
    """The residuals of products on a sister chip."""
    rows = _deepbench(data / "kernels.csv.gz")
    model = KERNELS["contraction"]
    parts: list[tuple[Any, Any]] = []
    own: list[Any] = []
    for pair in SISTERS:
        for source, target in (pair, pair[::-1]):
            start = fit(model, rows[source], policy=chosen_policy(model, rows[source]), most=40)
            there = rows[target]
            ratio = there.seconds / model.times(there.shapes, there.chip, start.values, start.policy)
            first, second = halves(Group(target, "contraction", "fp32", "cublas", ""), len(there))
            parts.append((ratio[first], ratio[second]))
            mine, rest = fit(model, there.take(first), policy=start.policy, most=40), there.take(second)
            own.append(model.times(rest.shapes, rest.chip, mine.values, mine.policy) / rest.seconds)
    fitted, reported = (np.concatenate([part[half] for part in parts]) for half in (0, 1))
    chips = ", ".join(name.removeprefix("DB_") for pair in SISTERS for name in pair)
    found = residuals_of("contraction", SAME, fitted, reported, f"{DEEPBENCH}: {chips}, each by its sister")
    fitted_here = float(np.median(np.abs(np.concatenate(own) - 1)))
    alike = np.concatenate(
        [_same_shapes(rows[source], rows[target]) for pair in SISTERS for source, target in (pair, pair[::-1])]
    )
    apart = float(np.median(np.abs(alike - 1)))
    return [replace(found, error={**found.error, "by_own_rows": fitted_here, "by_same_shapes": apart})]


def _same_shapes(source: Rows, target: Rows) -> Any:
    """Times of a sister, by the ratio of peaks, against those of the same shapes: what no constants can tell."""
    known, there = (
        {tuple(shape): time for *shape, time in zip(*(one.shapes[size] for size in "mnk"), one.seconds, strict=True)}
        for one in (source, target)
    )
    ratio = source.chip.matrix_peak / target.chip.matrix_peak
    return np.array([known[shape] * ratio / time for shape, time in there.items() if shape in known])


def residuals_of(kernel: str, to: str, fitted: Any, reported: Any, source: str, ends: Ends = conformal) -> Transfer:
    """The interval of measured ÷ estimated of some rows, and errors with coverage on others."""
    errors = Errors.of(1 / reported, np.ones_like(reported))
    low, high = ends(fitted)
    inside = float(np.mean((reported >= low) & (reported <= high)))
    error = {name: getattr(errors, name) for name in ("mdape", "mape", "p90", "bias")}
    return Transfer(kernel, to, (low, high), {**error, "n_test": float(errors.count), "coverage": inside}, source)


def _deepbench(path: Path) -> dict[str, Rows]:
    """Single-precision products of the sisters, without those that a fault is known of."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    wanted = {name for pair in SISTERS for name in pair}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["gpu"] in wanted and row["dtype"] == "fp32" and "impossible" not in row["flag"]:
                found[row["gpu"]].append(row)
    made = {}
    for name, rows in found.items():
        first = rows[0]
        figures = ChipFigures(
            float(first["n_sm"]),
            float(first["peak_tflops"]) * 1e12 * boost(BOARDS[name]),
            float(first["bw_gbs"]) * 1e9,
            float(first["l2_mib"]) * 2**20,
        )
        shapes = {name: column(rows, name) for name in "mnk"}
        shapes |= dict.fromkeys(("a_bytes", "b_bytes", "out_bytes"), 0 * shapes["m"] + 4.0)
        made[name] = Rows(shapes, column(rows, "measured_us") * 1e-6, figures)
    return made
