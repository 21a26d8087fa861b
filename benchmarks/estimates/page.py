"""The tables of docs/accuracy.md, from the constants: ``python -m benchmarks.estimates.page`` writes them anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.estimates.cuts import FILE as CUTS_FILE
from benchmarks.estimates.cuts import LEAST_TESTED
from roofline.estimates.accuracy import KINDS, is_core
from roofline.estimates.attention import BEYOND, WORDS
from roofline.estimates.constants import KERNELS, LEAST_HELD, TAILS, KernelConstants, kernel_in_words, shipped
from roofline.estimates.transfer import OUTSIDE, SAME, transfers

SUMMARY = Path(__file__).with_name("served_summary.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- tables: made by python -m benchmarks.estimates.page -->", "<!-- end of tables -->"
#: Chances below which a group lies far from what an exact interval covers.
RARE = 0.05
CHIPS = ("a100", "h100", "l40s", "rtx-pro-6000", "b60")
BASELINES = {
    "bound": "bound alone",
    "efficiencies": "two efficiencies",
    "efficiencies_and_start": "with a start",
    "nearest": "nearest row",
    "forest": "forest",
}


#: Goals of kinds of kernels in percent, for all chips and for some.
GOALS: dict[str, tuple[float, dict[str, float]]] = {
    "products, bf16": (6, {"l40s": 10}),
    "products, fp8, with the quantiser": (8, {"l40s": 10}),
    "prefill attention": (7, {"l40s": 9}),
    "decode attention": (8, {"rtx-pro-6000": 10}),
    "latent attention": (9, {}),
    "experts of a mixture": (12, {}),
    "collectives (NCCL)": (10, {}),
    "all-reduce of frameworks": (10, {}),
    "elementwise (PyTorch, fp16)": (6, {}),
    "norms (PyTorch, fp16)": (6, {}),
}


def in_words(errors: tuple[float, float] | None) -> str:
    """The median error of a kind on a chip, and the largest 90th percentile of its groups."""
    return "no data" if errors is None else f"{percent(errors[0])} ({100 * errors[1]:.0f})"


#: Goals of served steps: which runs, which error, its limit in percent.
SERVED_GOALS = tuple(
    (name, key, what, goal)
    for name, limits in {"dense": (8, 13), "mixture": (8, 13), "first token": (18, None)}.items()
    for key, what, goal in zip(("mdape", "mape"), ("MdAPE", "MAPE"), limits, strict=True)
    if goal is not None
)
#: Goals on a chip that was left out, and after ten of its rows, in percent.
LEFT_OUT = {
    "contraction": (13, 9),
    "quantised_contraction": (13, 9),
    "prefill_attention": (17, 13),
    "decode_attention": (25, 11),
}
#: Goals on another chip of the same generation, in percent.
WITHIN = {"contraction": 8, "prefill_attention": 8, "decode_attention": 10}
#: The path of products whose kernel TensorRT-LLM has in another form for each generation of cores.
BLOCKS = "block scales"
#: Goal of training steps, in percent.
TRAINING = 10
#: Why a kind misses its goal on a chip, point by point, where it is known.
REASONS = {
    ("products, bf16", "b60"): (
        "tested on the first half: a third of its rows take what the host needs to start a kernel, 28 to 38 µs, which "
        "no shape tells, and are 5.5 off",
        "depths of 12,288 take 1.3 times as long, likely because such rows start in the same of twelve memory "
        "channels; on ten parts of that half constants for them and for 6,144 give 6.1 and 6.0 for 6.3, but a product "
        "would take less as it grows, and no other chip has rows that ask for it",
        "there its own six constants give 6.4, where those that libraries have elsewhere give 6.5, all constants its "
        "own 6.3, and tiles of 96 and 192 rows beside the others 6.2",
        "waves are not it: on one part of that half by the other 1, 2, 4, 8 and 16 tiles a core give 7.2, 6.9, 6.5, "
        "6.5 and 6.6, tiles of 256 x 256 or of 8 rows too 6.3",
        "rows near in size do not share what is left (correlation 0.2)",
    )
}
#: More of why a goal is missed on a chip that was left out, by kernel, format, chip and error: tested on first halves.
LEFT_OUT_REASONS = {
    ("prefill_attention", "bf16", "h100", "unseen"): (
        "on first halves it is 15.9; TensorRT-LLM's, the middle one here, starts a tile in 3.3 µs there, by constants "
        "of the other chips in 1.2 to 1.7: its kernels fill a core of H100 with one block, so that no other hides the "
        "start; twice the time, and the tiles that code states, give 11.8 on first halves, and lose elsewhere"
    ),
    ("contraction", "bf16", "l40s", "ten_rows"): (
        "48 draws of ten give 9.1: the mean of twelve has a standard error of 0.3"
    ),
    ("quantised_contraction", "fp8", "l40s", "ten_rows"): (
        "on first halves of the other chips a prior 1.6 times as strong, or three times the weight of what other chips "
        "say of other sizes, brings nothing; SGLang's products, timed again with the version before, are 5 apart in "
        "the middle and 24 at the 90th percentile; a forest on half of the rows 17.9"
    ),
}


def percent(value: float | None) -> str:
    """A share as percent with a digit."""
    return "" if value is None else f"{100 * value:.1f}"


def is_above(error: float, goal: float) -> bool:
    """Whether an error is above a goal, as it is told.

    >>> is_above(0.1704, 17), is_above(0.1706, 17)
    (False, True)
    """
    return float(percent(error)) > goal


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def by_chip(records: Sequence[KernelConstants]) -> list[str]:
    """The median error by chip, beside the goal."""
    rows = []
    for kind in KINDS:
        least, own = GOALS.get(kind.name, (None, {}))
        special = ", ".join(f"{chip} {value:g}" for chip, value in own.items())
        goal = "" if least is None else f"{least:g}{f' ({special})' if special else ''}"
        rows.append((kind.name, goal, *(in_words(kind.errors(records, chip)) for chip in CHIPS)))
    return table(("kind of kernel", "goal", *CHIPS), rows)


def misses(records: Sequence[KernelConstants]) -> list[str]:
    """Each kind and chip whose error is above the goal, with the reason."""
    lines = []
    for kind in KINDS:
        if kind.name not in GOALS:
            continue
        goal, own = GOALS[kind.name]
        for chip in CHIPS:
            error, aim = (kind.errors(records, chip) or (0.0, 0.0))[0], own.get(chip, goal)
            if is_above(error, aim):
                mine = kind.of(records, chip)
                each = ", ".join(
                    f"{name} {percent(median(r.error['mdape'] for r in mine if r.library == name))}"
                    for name in dict.fromkeys(r.library for r in mine)
                )
                lines.append(
                    f"- {kind.name} on {chip}: {percent(error)} against {aim:g} ({each}{in_other_cuts(mine)}):"
                )
                lines += [f"  - {why}" for why in REASONS.get((kind.name, chip), ["the reason is not known"])]
    for one in (r for r in records if r.kernel == "training_step" and is_above(r.error["mdape"], TRAINING)):
        lines.append(f"- training steps: {percent(one.error['mdape'])} against {TRAINING}; so few sources tell little.")
    return lines or ["- none"]


def in_other_cuts(records: Sequence[KernelConstants]) -> str:
    """The middle of groups' median errors in other random cuts of the same rows, the least and the most."""
    other = json.loads(CUTS_FILE.read_text(encoding="utf-8"))
    each = np.median([other[r.name]["mdape"] for r in records if r.name in other] or [[]], axis=0)
    return f"; {percent(min(each))} to {percent(max(each))} in {len(each)} other cuts of its rows" if len(each) else ""


def coverage(records: Sequence[KernelConstants]) -> list[str]:
    """How many groups of 200 rows and more have an interval that holds 75 to 87% of them, and which do not."""
    large = [r for r in records if _is_large(r) and "coverage" in r.error]
    out = [r for r in large if _outside(r.error["coverage"])]
    said = [f"{len(large) - len(out)} of {len(large)} groups with 200 test rows or more have between 75 and 87%."]
    counts = many([share_outside(covered_by_chance(r)) for r in large])
    low, high = np.searchsorted(counts.cumsum(), [0.05, 0.95])
    known = sum(share_outside(covered_if_known(r)) for r in large)
    said.append(
        f"By chance alone {counts @ np.arange(len(counts)):.1f} lie outside ({low} to {high} in 90% of cases, "
        f"{len(out)} or more in {100 * counts[len(out) :].sum():.0f}%): so few rows spread the coverage of exact "
        f"intervals. With ends that are known exactly {known:.1f} would: the tested rows spread too."
    )
    chances = {r.name: chance(r) for r in large}
    least = min(chances.values())
    said.append(
        f"Tested for each group, by the exact distribution: the least chance of a coverage as far off is "
        f"{percent(least)}%, and with {len(large)} groups {'none' if least * len(large) > RARE else 'one'} is off by "
        f"more than chance allows (Bonferroni). {sum(each < RARE for each in chances.values())} have a chance below "
        f"{100 * RARE:g}%, where {RARE * len(large):.1f} are expected."
    )
    other = json.loads(CUTS_FILE.read_text(encoding="utf-8"))
    each = np.array([other[r.name]["coverage"] for r in large])
    means, apart = each.mean(axis=1), _outside(each).sum(axis=0)
    beyond = int(_outside(means).sum())
    said.append(
        f"In each of {each.shape[1]} other random cuts of the same rows, own constants fitted anew, "
        f"{apart.min()} to {apart.max()} groups lie outside, and {beyond or 'none'} on the mean of these cuts, "
        f"{percent(means.min())} to {percent(means.max())}. So chance is the reason of each that does here:"
    )
    rows = [
        (
            r.name.replace("_", " "),
            f"{r.error['n_test']:g}",
            percent(r.error["coverage"]),
            percent(chances[r.name]),
            percent(float(np.mean(other[r.name]["coverage"]))),
        )
        for r in sorted(out, key=lambda r: chances[r.name])
    ]
    head = ("group", "rows", "80% covers", "chance of as far off", "mean of other cuts")
    return [*said, "", *table(head, rows), "", *outside_sizes()]


def _is_large(record: KernelConstants) -> bool:
    """Whether enough rows were tested to tell of coverage."""
    return record.error["n_test"] >= LEAST_TESTED


def _outside(share: Any) -> Any:
    """Whether a share of measurements that an interval of 80% holds is none of 75 to 87%."""
    return (share < 0.75) | (share > 0.87)


def outside_sizes() -> list[str]:
    """What each doubling outside the measured sizes adds to an interval, and the coverage with and without it."""
    rows = [
        (
            one.kernel.replace("_", " "),
            f"{one.error['n_test']:g}",
            *(percent(one.error[name]) for name in ("mdape", "unwidened", "coverage")),
            f"{one.interval[1]:.3f}",
        )
        for one in transfers()
        if one.to == OUTSIDE
    ]
    head = ("kernel", "outer rows", "MdAPE", "covered as it is", "covered widened", "ends move, each doubling")
    said = (
        "Outside the sizes that were measured: constants and intervals of the rows between the 10th and the 90th "
        "percentile of each size, held against the outer rows. The widening is that of outer rows of the first half, "
        "the coverage that of the second."
    )
    return [said, "", *table(head, rows)]


def covered_by_chance(record: KernelConstants) -> Any:
    """Chance of each number of test rows that an exact interval of 80% of a group covers.

    Rows of both halves are alike. Between two order statistics, k places apart, of n rows so lie ``BetaBinomial(k, n +
    1 − k)`` of n others, whatever their distribution; here n rows of each third of times, fitted and tested.
    """
    from scipy.stats import betabinom

    rows, parts = int(record.error["n_test"]), len(record.interval)
    found = np.ones(1)
    for part in range(parts):
        count = rows // parts + (part < rows % parts)
        apart = np.ceil((count + 1) * TAILS[1]) - np.floor((count + 1) * TAILS[0])
        found = np.convolve(found, betabinom(count, apart, count + 1 - apart).pmf(np.arange(count + 1)))
    return found


def covered_if_known(record: KernelConstants) -> Any:
    """The same with ends that are known exactly and cover as much on the mean: a binomial sample of the tested rows."""
    from scipy.stats import binom

    counts = covered_by_chance(record)
    number = np.arange(len(counts))
    return binom(len(counts) - 1, counts @ number / (len(counts) - 1)).pmf(number)


def share_outside(counts: Any) -> float:
    """The chance of a coverage outside 75 to 87%, from that of each number of covered rows."""
    return float(counts[_outside(np.arange(len(counts)) / (len(counts) - 1))].sum())


def chance(record: KernelConstants) -> float:
    """The chance that an exact interval covers as few rows as a group's does, or as many: that of both sides.

    It is the usual one of two sides, twice the smaller.
    """
    counts = covered_by_chance(record)
    seen = round(record.error["coverage"] * (len(counts) - 1))
    return min(2 * float(min(counts[: seen + 1].sum(), counts[seen:].sum())), 1.0)


def many(chances: Iterable[float]) -> Any:
    """The chance of each number of events, one of which happens with each chance.

    >>> many([0.5, 0.5]).tolist()
    [0.25, 0.5, 0.25]
    """
    found = np.ones(1)
    for each in chances:
        found = np.convolve(found, (1 - each, each))
    return found


def unseen(records: Sequence[KernelConstants]) -> list[str]:
    """Errors on a chip whose rows were left out, and after ten of them; then the residuals that intervals come from."""
    tried = [r for r in records if "unseen" in r.error]
    rows = []
    for kernel, dtype in sorted({(r.kernel, r.dtype) for r in tried}):
        for chip in sorted({r.chip for r in tried}):
            mine = [r.error for r in tried if (r.kernel, r.dtype, r.chip) == (kernel, dtype, chip) and is_core(r)]
            if mine:
                names = ("unseen", "unseen_coverage", "ten_rows", "ten_advised", "mdape")
                errors = [percent(median(each)) if (each := _each(mine, name)) else "" for name in names]
                goals = [f"{goal:g}" for goal in LEFT_OUT.get(kernel, ())] or ["", ""]
                rows.append(
                    (f"{kernel.replace('_', ' ')}, {dtype}", chip, goals[0], *errors[:2], goals[1], *errors[2:])
                )
    head = (
        "kernel",
        "chip",
        "goal",
        "left out",
        "80% covers",
        "goal",
        "ten of its rows",
        "ten advised",
        "half of its rows",
    )
    seen = [
        (
            one.kernel.replace("_", " "),
            one.to,
            f"{one.error['n_test']:g}",
            *(percent(one.error[name]) for name in ("mdape", "mape", "p90", "bias", "coverage")),
            " to ".join(f"{end:.2f}" for end in one.interval),
            one.source,
        )
        for one in transfers()
        if one.to != OUTSIDE
    ]
    columns = ("kernel", "constants of", "rows", "MdAPE", "MAPE", "p90", "bias", "80% covers", "interval", "source")
    large = [r.error["unseen_coverage"] for r in tried if _is_large(r) and "unseen_coverage" in r.error]
    within = len(large) - int(_outside(np.array(large)).sum())
    return [
        f"Intervals hold {percent(float(np.mean(large)))}% on the mean of {len(large)} groups with 200 test rows and",
        f"more, and 75 to 87% in {within} of them: a chip is off as a whole, to one side, and few were measured.",
        "",
        "*Ten of its rows* are random ones, 12 draws, *ten advised* those whose sizes",
        "tell most; `roofline calibrate` lists such sizes. *Half of its rows* is the error of the tables above, here",
        "with caches of all formats in one row.",
        "",
        *folded("Each kernel and format on each chip", table(head, rows)),
        "Above the goal or without data, and why:",
        "",
        *unseen_misses(records),
        "",
        *folded("The residuals that intervals of a chip without constants come from", table(columns, seen)),
    ]


def unseen_misses(records: Sequence[KernelConstants]) -> list[str]:
    """Goals on chips that were left out, and within a generation, that are missed or that no rows tell of."""
    lines = []
    for kernel, goals in LEFT_OUT.items():
        mine = [r for r in records if r.kernel == kernel and "unseen" in r.error and is_core(r)]
        for dtype, chip in sorted({(r.dtype, r.chip) for r in mine}):
            group = [r for r in mine if (r.dtype, r.chip) == (dtype, chip)]
            for name, said, goal in zip(("unseen", "ten_rows"), ("left out", "after ten rows"), goals, strict=True):
                error = median(_each([r.error for r in group], name))
                if is_above(error, goal):
                    each = ", ".join(
                        f"{library} {percent(median(_each([r.error for r in group if r.library == library], name)))}"
                        for library in dict.fromkeys(r.library for r in group)
                    )
                    what = f"{kernel.replace('_', ' ')} in {dtype} on {chip}, {said}"
                    why = tested_reason([r.error for r in group], name, goal)
                    plain = [r.error[name] for r in group if BLOCKS not in r.path]
                    if 100 * median(plain or [error]) <= goal:
                        why += f"; without {BLOCKS}, whose kernel is another one on each chip, {percent(median(plain))}"
                    why = "; ".join(filter(None, (why, LEFT_OUT_REASONS.get((kernel, dtype, chip, name)))))
                    lines.append(f"- {what}: {percent(error)} against {goal} ({each}); {why}.")
    held = {one.kernel: one for one in transfers() if one.to == SAME}
    for kernel, goal in WITHIN.items():
        known = held.get(kernel)
        if known is None:
            lines.append(f"- {kernel.replace('_', ' ')} within a generation: no data against {goal}.")
        elif is_above(known.error["mdape"], goal):
            own = percent(known.error.get("by_own_rows"))
            same = percent(known.error.get("by_same_shapes"))
            why = (
                f"tested: a sister's own times of the very same shapes, by the ratio of peaks, are {same} off, as "
                f"boost clocks stand in no data sheet; half of the chip's own rows give {own}; {known.source}, of 2015"
            )
            lines.append(f"- {kernel} within a generation: {percent(known.error['mdape'])} against {goal}; {why}.")
    return lines


def tested_reason(errors: Sequence[Mapping[str, float]], name: str, goal: float) -> str:
    """Why a chip that was left out is above its goal, by what its rows give under four other conditions."""
    names = ("mdape", "unseen_best", "unseen_policy", "unseen_factor")
    fitted, best, policy, factor = (median(_each(errors, key)) for key in names)
    if name == "ten_rows":
        advised = _each(errors, "ten_advised")
        other = f", the ten that calibrate asks for {percent(median(advised))}" if advised else ""
        which = "rows" if advised and 100 * median(advised) > goal else "random ones"
        little = f", so ten {which} tell too little" if 100 * fitted <= goal else ""
        return f"tested: half of all its rows give {percent(fitted)}{other}{little}"
    figures = (
        f"the best single chip gives {percent(best)}, with its own tile rule {percent(policy)}, with a factor of each "
        f"group's own {percent(factor)}, with all constants its own "
    )
    cause = "its kernels take constants that no other chip has"
    if 100 * policy <= goal:
        cause = "its kernels have a tile rule that no other chip shows"
    if 100 * factor <= goal:
        cause = "the chip is off as a whole"
    if 100 * best <= goal:
        cause = "one chip tells of it, but no rule tells which"
    return f"tested: {cause}: {figures}{percent(fitted)}"


def _each(errors: Iterable[Mapping[str, float]], name: str) -> list[float]:
    return [error[name] for error in errors if name in error]


def groups(records: Sequence[KernelConstants]) -> list[str]:
    """All groups, with the baselines beside; the table of a chip is folded away."""
    head = ("library", "kernel", "format", "rows", "MdAPE", "MAPE", "p90", "bias", "80% covers", *BASELINES.values())
    lines: list[str] = []
    for chip in sorted({r.chip for r in records}):
        rows = []
        mine = (r for r in records if r.chip == chip)
        for r in sorted(mine, key=lambda r: (r.kernel, r.dtype, r.path, r.library, r.version)):
            error = r.error
            figures = [percent(error[name]) for name in ("mdape", "mape", "p90", "bias")]
            figures.append(percent(error.get("coverage")))
            baselines = [percent(error.get(f"by_{name}")) for name in BASELINES]
            library = " ".join(filter(None, (r.library, r.version)))
            kernel = r.kernel.replace("_", " ")
            path = f"{r.dtype} {r.path}".replace("any ", "").strip()
            rows.append((library, kernel, path, f"{error['n_test']:g}", *figures, *baselines))
        where = "any chip" if chip == "any" else chip
        lines += folded(f"{where}: {len(rows)} group{'s' if len(rows) > 1 else ''}", table(head, rows))
    return lines


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines of Markdown that a page shows when its summary is clicked."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def served(records: Sequence[KernelConstants]) -> list[str]:
    """Errors of served steps on configurations that were not fitted, by kind of model, framework and chip."""
    rows = [
        (name, f"{one['count']:g}", *(percent(one[key]) for key in ("mdape", "mape", "p90", "bias")))
        for name, one in json.loads(SUMMARY.read_text(encoding="utf-8")).items()
    ]
    said = (
        "Time a token, in five folds of configurations; the form is chosen within the others. *First token* is that of "
        "few requests. For *another model* each model is left out in turn, for *another chip* each chip. Runs that "
        "draft tokens or have no graph [are not among them](#steps-of-a-framework): with them mixtures are further off."
    )
    held = json.loads(SUMMARY.read_text(encoding="utf-8"))
    above = [
        f"- {name}: {what} {percent(held[name][key])} against {goal:g}."
        for name, key, what, goal in SERVED_GOALS
        if is_above(held[name][key], goal)
    ]
    lines = ["", "Above the goal:", "", *above] if above else []
    return [said, "", *table(("runs", "rows", "MdAPE", "MAPE", "p90", "bias"), rows), "", *_held(records), *lines]


def _held(records: Sequence[KernelConstants]) -> list[str]:
    """How many runs the intervals of steps hold, those of one version by themselves, and the groups that hold few."""
    rows = []
    for path, those in (("dense", "dense models"), ("mixture", "mixtures")):
        steps = [r for r in records if (r.kernel, r.path) == ("served_step", path)]
        every, one = ([r for r in steps if bool(r.version) is versioned] for versioned in (False, True))
        alone = f"{percent(_covered(one))}% of {sum(r.error['n_test'] for r in one):g} by constants of one version"
        rows.append(f"{percent(_covered(every))}% of steps of {those} ({alone})")
    few = [
        (
            f"{r.chip} {' '.join(filter(None, (r.library, r.version)))}",
            f"{kernel_in_words(r.kernel)}, {r.dtype} {r.path}".replace("any ", ""),
            f"{r.error['n_test']:g}",
            percent(r.error["coverage"]),
        )
        for r in sorted(records, key=lambda r: r.error["coverage"])
        if r.error["coverage"] < LEAST_HELD
    ]
    return [
        f"Intervals of 80% hold {' and '.join(rows)}. These groups hold fewer than {100 * LEAST_HELD:g}%; what "
        "their constants expect is told with the share held in place of 80%:",
        "",
        *table(("chip and library", "of", "runs", "held"), few),
    ]


def _covered(records: Sequence[KernelConstants]) -> float:
    """The share of all tested runs that the intervals hold."""
    tested = sum(r.error["n_test"] for r in records)
    return sum(r.error["coverage"] * r.error["n_test"] for r in records) / tested


def forest_wins(records: Sequence[KernelConstants]) -> str:
    """How often a forest does better."""
    tried = [r for r in records if "by_forest" in r.error]
    better = sum(r.error["by_forest"] < r.error["mdape"] for r in tried)
    return f"A forest of trees on the same rows does better in {better} of {len(tried)} groups."


def alone(records: Sequence[KernelConstants]) -> list[KernelConstants]:
    """Groups of kernels that share none of their constants with another, though not all are a group's own.

    A product with its quantiser may share those of the same without it.
    """
    found = []
    for record in records:
        kinds = (record.kernel, record.kernel.removeprefix("quantised_"))
        own = KERNELS[record.kernel].own(record.policy)
        common = {name: value for name, value in record.values.items() if name not in own}
        others = (other.values.items() for other in records if other.kernel in kinds and other is not record)
        if own and common and not any(common.items() <= other for other in others):
            found.append(record)
    return found


def tables(records: Sequence[KernelConstants]) -> str:
    """All tables of the page."""
    kernels = [r for r in records if r.kernel not in ("served_step", "first_token")]
    steps = [r for r in records if r.kernel in ("served_step", "first_token")]
    parts = [
        [
            "## Median error by chip",
            "",
            "Percent, on rows that were not fitted: of the median errors of all libraries and paths the middle one,",
            "and in brackets the largest of their 90th percentiles. Attention with",
            f"{BEYOND} has rows of its own and is in no other;",
            "decode attention under a window has with vLLM alone.",
            *(f"*{word[:1].upper()}{word[1:]}*: {what}." for word, what in WORDS.items()),
            "In all tables *MdAPE* is",
            "the median of |expected ÷ measured − 1| and *MAPE* its mean, *p90* its 90th percentile, *bias* the median",
            "with its sign, all in percent; *80% covers* is the share of measurements that the interval holds.",
            "`roofline accuracy h100` prints a column of it, `roofline accuracy h100 --op decode` some of its rows.",
            "",
        ],
        [*by_chip(kernels), "", "Above the goal, and why:", "", *misses(kernels), ""],
        ["## Intervals", "", *coverage(kernels), ""],
        ["## Chips that were not seen", "", *unseen(kernels), ""],
        ["## Served steps", "", *served(steps), ""],
        ["## Served steps by framework", "", *groups(steps), ""],
        ["## All groups of kernels", "", forest_wins(kernels), "", *groups(kernels), ""],
    ]
    return "\n".join(line for part in parts for line in part)


def page(text: str, records: Sequence[KernelConstants]) -> str:
    """The page with its tables made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(records)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), shipped()), encoding="utf-8")
