"""Constants of served steps, fitted to configurations of published runs, and tested on other configurations.

``served.csv`` holds runs of serving frameworks. A configuration is a model on chips with one length of prompts and
answers; its loads stay together. Errors are of five random folds of configurations, each estimated by constants that
were fitted to the others; the constants that are kept are fitted to all.

Runs of a model, a chip or a format that were not fitted take constants of a wider kind: those of a chip and a format
are of the one or two models that were measured there, and make up for what constants of its kernels miss. Which terms a
form has and how wide that kind is are chosen together, anew for each fold and on the other configurations alone (nested
cross-validation), so that nothing about a fold's estimates has seen it. Each model and each chip is left out in turn
there: a user's are others, and runs of one model cannot tell the host's time of a step from that of its kernels.

Kinds of runs count alike, however many runs each has: of one model, chip, format and version.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.estimates.fits import LEAST_OUTSIDE, SEED, conformal, even_ends, quantiles
from benchmarks.estimates.rows import Lint
from benchmarks.estimates.transfers import residuals_of, widening
from roofline.errors import RooflineError
from roofline.estimates.constants import KERNELS, TAILS, KernelConstants
from roofline.estimates.estimator import STEP_FORMATS, Estimator
from roofline.estimates.fitting import Errors, Rows, fit, fit_together
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.served import served_shapes
from roofline.estimates.transfer import OTHER, OTHER_FORMAT, OTHER_MODEL, SAME, Transfer, distance, weights
from roofline.hardware import chip
from roofline.models.serving.answer import serve

CHIPS = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200"}
FORMATS = {"fp8": "fp8", "fp4": "nvfp4", "": "bf16"}
#: Models by the source's name; one that is not shipped lies with the data.
MODELS = {
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "MiniMaxAI/MiniMax-M2.5": "nvidia--MiniMax-M2.5-NVFP4.json",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-v3",
}
#: Most requests at once at which nothing waits before its prefill.
UNLOADED = 4
#: Weight against one row of typical constants, by what is fitted, and of a wider kind's around a narrower one.
TYPICAL, AROUND = {"served_step": 1.0, "first_token": 0.1}, 0.5
#: Models of steps, and what tells apart the kinds around one another that constants are of; the last has versions.
STEPS, LEVELS = ("served_step", "first_token"), ("library", "path", "chip", "dtype", "version")
KIND, STEPS_OF_FIT = len(LEVELS) - 1, 60
#: How many levels tell apart kinds whose constants unmeasured runs may take: the framework, and which kind of model.
WIDE = (1, 2)
#: Weight of the wide kind's constants against those of the nearest kind, in logarithms, by kind of model.
OF_WIDE = {"dense": 0.5, "mixture": 1.0}
FOLDS = 5
#: Terms that a form leaves out, by name; what is left out stays at the least value of its constant.
FORMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "served_step": {
        "all terms": (),
        "no gap between kernels": ("gap",),
        "no time of the host a step": ("step_time",),
        "no time of the host a sequence": ("request_time",),
    },
    "first_token": {"all terms": ()},
}
#: Fewest rows that move constants from those of the wider kind, and fewest inner runs that outer ones are held against.
LEAST, LEAST_INNER = 3, 20
#: Least growth of a step's time with that of its kernels, in logarithms, over kernels that differ so much: 0.5 or more
#: where a graph holds it.
LEAST_GROWTH, LEAST_SPREAD = 0.25, 1.2
#: Fewest configurations for an interval of a kind's own: four of five folds then hold nine, the fewest that have a 10th
#: and a 90th percentile. Runs of one configuration are off together, and tell little of another one.
LEAST_CONFIGURATIONS = 12
NO_CHIP = ChipFigures(1, 1, 1, 1)
SOURCE = "ai-dynamo/aiconfigurator (Apache-2.0)"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One served run: whose constants, which configuration, its shapes with either format of the cache, its times.

    The first token has no time, 0, where a setting holds prompts back.
    """

    key: Mapping[str, str]
    configuration: tuple[str, ...]
    shapes: Mapping[str, Mapping[str, float]]
    prompt: Mapping[str, float]
    batch: float
    token: float
    first: float
    floor: float

    @property
    def load(self) -> float:
        """Requests at once over all copies."""
        return self.batch * float(self.configuration[6] or 1)


def layout(row: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Tensor, data and expert ways; None where the sizes that a row states contradict each other.

    Some rows state tensor or data ways already multiplied with those of experts, as equal runs under both show.
    """
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    tensor, data, split, expert = (int(row[name] or 1) for name in names)
    if not row["attention_dp_size"] and float(row["concurrency"] or 0) == tensor * float(row["batch_size"]):
        tensor, data = 1, tensor  # a batch is that of a chip
    if split == expert > 1 and tensor * data == split * expert == max(tensor, data):
        return (expert, 1, expert) if tensor > 1 else (1, expert, expert)
    if tensor * data < split * expert or (tensor > 1 and data > 1 and tensor * data == expert == 16):
        return None
    return tensor, data, expert


def mean_of_length(row: Mapping[str, str]) -> float:
    """Mean length of prompts and of answers over the one stated, by the benchmark that a row is of.

    InferenceMAX draws both evenly from 0.8 to 1 of it (``--random-range-ratio 0.8`` in all of its scripts). Runs of
    aiconfigurator itself, whose sources are in its ``data/``, have the lengths that they state.
    """
    return 1.0 if "source_file=data/" in row["silicon_data_source"] else 0.9


def held_back(row: Mapping[str, str]) -> bool:
    """Whether a setting holds prompts back for up to 20 steps, so that others join them.

    InferenceMAX sets ``batch_wait_timeout_iters: 20`` for Llama 70B in TensorRT-LLM at 1,024 and 1,024 tokens on fewer
    than eight chips (``benchmarks/70b_fp4_b200_trt_slurm.sh`` and its sisters).
    """
    lengths = row["isl"] == row["osl"] == "1024" and int(row["tp_size"]) < 8
    return lengths and row["backend"] == "trtllm" and row["model_path"] == "meta-llama/Llama-3.1-70B"


def drafts_tokens(row: Mapping[str, str]) -> bool:
    """Whether a run of InferenceMAX drafts tokens (multi-token prediction), which no column states.

    With TensorRT-LLM it added such runs of DeepSeek on 2026-01-14 and gave them release 1.2.0rc6.post3 on 2026-02-05,
    others 1.2.0rc6.post2 (``perf-changelog.yaml``, pull requests 392, 594, 620, 632 and 642). They take 0.5 to 0.9 of
    the others' time a token in the same configuration, and more to the first one.
    """
    drafted = row["backend_version"] == "1.2.0rc6.post3" or "measured=2026-01-14" in row["silicon_data_source"]
    return drafted and row["backend"] == "trtllm" and "DeepSeek" in row["model_path"]


def without_graph(runs: Sequence[Run]) -> list[Run]:
    """Runs whose time a token hardly grows with that of their kernels: the host starts these one by one, no graph does.

    So it is with all runs of a model, a chip and a version where it is with those of one layout, and these are not few
    nor of like kernels.
    """
    layouts: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        layouts[(*_same(run), *run.configuration[5:7])].append(run)
    flat = {key[:-2] for key, mine in layouts.items() if len(mine) > LEAST and _growth(mine) < LEAST_GROWTH}
    return [run for run in runs if _same(run) in flat]


def _growth(runs: Sequence[Run]) -> float:
    """How fast the logarithm of a time a token grows with that of kernels; 1 where these are too much alike to tell."""
    kernels = np.log([run.shapes["bf16"]["decode"] + run.shapes["bf16"]["mixed"] for run in runs])
    if np.ptp(kernels) < np.log(LEAST_SPREAD):
        return 1.0
    return float(np.polyfit(kernels, np.log([run.token for run in runs]), 1)[0])


def read_runs(data: Path, lint: Lint) -> list[Run]:
    """Read aggregated runs without a flag, of steps that a graph holds and that make one token each."""
    with open(data / "served.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "agg" and row["silicon_tpot_ms"]]
    estimators = {name: Estimator(name) for name in ("vllm", "trtllm", "sglang")}
    found = []
    for row in rows:
        ways = layout(row)
        if row["flag"]:
            lint.counts["served", row["flag"].replace("_", " ")] += 1
        elif ways is None:
            lint.counts["served", "numbers of chips contradict each other"] += 1
        elif drafts_tokens(row):
            lint.counts["served", "drafts of several tokens"] += 1
        else:
            try:
                found.append(_run(row, ways, data, estimators[row["backend"]]))
            except RooflineError as error:
                lint.counts["served", str(error)] += 1
    eager = {id(run) for run in without_graph(found)}
    lint.counts["served", "steps of no graph, whose time does not follow that of their kernels"] += len(eager)
    return [run for run in found if id(run) not in eager]


def _run(row: Mapping[str, str], ways: tuple[int, int, int], data: Path, estimator: Estimator) -> Run:
    tensor, copies, expert = ways
    key, chips, form = CHIPS[row["system"]], tensor * copies, FORMATS[row["precision"]]
    name = MODELS[row["model_path"]]
    model = str(data.parent / "model_configs" / name) if name.endswith(".json") else name
    options: dict[str, Any] = {"on": f"{key}:{chips}" if chips > 1 else key}
    options |= {"tensor": tensor} if tensor > 1 else {}
    options |= {"data": copies} if copies > 1 else {}
    options |= {"expert": expert} if expert > 1 else {}
    if name != "gpt-oss-120b" and form != "bf16":  # products are in it; what passes from layer to layer stays in bf16
        options |= {"weights": form, "compute": form, "activations": "bf16"}
    prompt, output = (round(mean_of_length(row) * int(row[name])) for name in ("isl", "osl"))
    shapes, floor, first, dtype, path = {}, 0.0, {}, "", ""
    for kv in ("fp8", "bf16"):  # prompts are prefilled beside a cache in bf16, as where nothing is said
        asked = serve(
            model, batch=int(row["batch_size"]) * copies, prompt=prompt, context=prompt + output // 2, kv=kv, **options
        )
        found = served_shapes(estimator, asked, output)
        if found is None or found.first is None or asked.decode is None:
            raise RooflineError("no step to estimate")
        shapes[kv], first, dtype, path = found.of_step(), found.first, found.dtype, found.path
        floor = float(asked.decode.lower)
    names = ("model_path", "system", "backend", "backend_version", "precision", "tp_size", "attention_dp_size")
    configuration = tuple(row[name] for name in (*names, "moe_ep_size", "isl", "osl"))
    kind = {"library": row["backend"], "path": path, "chip": key, "dtype": dtype, "version": row["backend_version"]}
    seconds = float(row["silicon_tpot_ms"]) * 1e-3, 0.0 if held_back(row) else float(row["silicon_ttft_ms"]) * 1e-3
    return Run(kind, configuration, shapes, first, float(row["batch_size"]), *seconds, floor)


#: One run with the shapes of a model, and the seconds that it took.
Member = tuple[Run, Mapping[str, float], float]
#: Constants by what they are of: of all, of a framework, of it with dense models …
Values = dict[tuple[str, ...], Mapping[str, float]]


def fitted_steps(runs: Sequence[Run]) -> list[KernelConstants]:
    """Constants of steps and of first tokens, by framework, kind of model, chip, format and version."""
    fold = folds(runs)
    estimated = nested(runs)
    found = []
    for kernel in STEPS:
        members, used, values = _of_all(kernel, runs)
        caches = best_caches(tuple(runs)) if kernel == "served_step" else {}
        _, width = best_form(kernel, runs)
        for one in _records(kernel, values, members, used, estimated[kernel], fold):
            kind = (one.library, one.path, one.chip, one.dtype)
            record = replace(one, policy=f"{caches[kind]} cache") if kind in caches else one
            found.append(replace(record, other_model=_between(values[kind], values[kind[:width]], one.path)))
    return found


def folds(runs: Sequence[Run], count: int = FOLDS) -> Any:
    """The fold that each run is in: those of one configuration are in one."""
    every = sorted({run.configuration for run in runs})
    shuffled = np.random.default_rng(SEED).permutation(len(every))
    number = {configuration: int(place) % count for configuration, place in zip(every, shuffled, strict=True)}
    return np.array([number[run.configuration] for run in runs])


def models_of(runs: Sequence[Run]) -> Any:
    """The model of each run."""
    return np.array([MODELS[run.configuration[0]] for run in runs])


def chips_of(runs: Sequence[Run]) -> Any:
    """The chip of each run."""
    return np.array([run.key["chip"] for run in runs])


#: What is left out whole: folds of configurations, whose kinds of runs are known, or models or chips, which are not.
LEFT_OUT = {"": folds, "model": models_of, "chip": chips_of}


@cache
def _nested(runs: tuple[Run, ...], by: str) -> dict[str, Any]:
    groups = LEFT_OUT[by](runs)
    found = {kernel: np.zeros(len(runs)) for kernel in STEPS}
    for one in np.unique(groups):
        for kernel in STEPS:
            form, width = best_form(kernel, [run for run, group in zip(runs, groups, strict=True) if group != one])
            each = _estimated(kernel, runs, groups != one, groups == one, form)
            found[kernel] += each[width if by else len(LEVELS)]
    return found


def nested(runs: Sequence[Run], by: str = "") -> dict[str, Any]:
    """Estimates of all runs, each by a form and constants that its group had no part in; zero without a model.

    Groups are folds of configurations, or those of ``LEFT_OUT``.
    """
    return _nested(tuple(runs), by)


def best_form(kernel: str, runs: Sequence[Run]) -> tuple[tuple[str, ...], int]:
    """The terms to leave out, and how many levels tell apart the kinds whose constants unmeasured runs take.

    Both are chosen on the runs that may be fitted: what gives the least mean error of models and of chips that are left
    out of these in turn. An error is the logarithm of a ratio. A form with fewer terms is taken where it is no worse.
    """
    return _best(kernel, tuple(runs))


@cache
def _best(kernel: str, mine: tuple[Run, ...]) -> tuple[tuple[str, ...], int]:
    seconds = np.array([run.first if kernel == "first_token" else run.token for run in mine])
    errors: dict[tuple[str, int], float] = {}
    for name, form in FORMS[kernel].items():
        each = [_of_groups(kernel, mine, form, by) for by in ("model", "chip")]
        for width in WIDE:
            errors[name, width] = float(np.mean([_mean_off(estimated[width], seconds) for estimated in each]))
    best = min(errors, key=lambda one: (round(errors[one], 4), -len(FORMS[kernel][one[0]])))
    print(f"{kernel}, {len(mine)} runs: {best} of {errors}", file=sys.stderr, flush=True)
    return FORMS[kernel][best[0]], best[1]


def _mean_off(estimated: Any, seconds: Any) -> float:
    """The mean logarithm that estimates are off, of runs that have one."""
    known = estimated > 0
    return float(np.abs(np.log(estimated[known] / seconds[known])).mean())


def _same(run: Run) -> tuple[str, ...]:
    """What runs that count as one kind share: framework, chip, format, version, model."""
    return (*(run.key[name] for name in LEVELS), MODELS[run.configuration[0]])


@cache
def _of_groups(kernel: str, mine: tuple[Run, ...], form: tuple[str, ...], by: str) -> Any:
    """Estimates of runs by width, each by constants that its model or chip had no part in."""
    groups = LEFT_OUT[by](mine)
    return np.sum([_estimated(kernel, mine, groups != one, groups == one, form) for one in np.unique(groups)], axis=0)


def _estimated(kernel: str, runs: Sequence[Run], fits: Any, tested: Any, left_out: Sequence[str]) -> Any:
    """Estimates of the tested runs by constants of the fitted ones, zero elsewhere: a row a width of kinds."""
    members, used = members_of(kernel, runs, fits)
    values = hierarchy(kernel, [members[i] for i in used if fits[i]], left_out)
    found = np.zeros((len(LEVELS) + 1, len(runs)))
    for i in (i for i in used if tested[i]):
        run = members[i][0]
        for width in WIDE:
            found[width, i] = _time(kernel, members[i], _unmeasured(values, run.key, width))
        found[-1, i] = _time(kernel, members[i], _narrowest(values, run, len(LEVELS)))
    return found


def members_of(kernel: str, runs: Sequence[Run], fits: Any) -> tuple[list[Member], list[int]]:
    """Runs with the shapes of a model of steps, and the numbers of those that it is for."""
    if kernel == "first_token":
        members: list[Member] = [(run, run.prompt, run.first) for run in runs]
        return members, [i for i, run in enumerate(runs) if run.load <= UNLOADED and run.first]
    caches = best_caches(tuple(run for run, one in zip(runs, fits, strict=True) if one))
    return [(run, run.shapes[caches.get(_kind(run), "bf16")], run.token) for run in runs], list(range(len(runs)))


@cache
def best_caches(runs: tuple[Run, ...]) -> dict[tuple[str, ...], str]:
    """The format of the cache, which no column states: the one that fits a kind's runs better."""
    found = {}
    for kind in sorted({_kind(run) for run in runs}):
        mine = [run for run in runs if _kind(run) == kind]
        if len(mine) >= LEAST:
            rows = {kv: _rows([(run, run.shapes[kv], run.token) for run in mine]) for kv in ("bf16", "fp8")}
            costs = {kv: fit(KERNELS["served_step"], each, prior=0.1).cost for kv, each in rows.items()}
            found[kind] = min(costs, key=lambda kv: costs[kv])
    return found


def _kind(run: Run) -> tuple[str, ...]:
    return tuple(run.key[name] for name in LEVELS[:KIND])


def _of_all(kernel: str, runs: Sequence[Run]) -> tuple[list[Member], list[int], Values]:
    """Runs with the shapes of a model of steps, the numbers of those that it is for, and constants fitted to all."""
    everything = np.ones(len(runs), bool)
    members, used = members_of(kernel, runs, everything)
    return members, used, hierarchy(kernel, [members[i] for i in used], best_form(kernel, runs)[0])


def hierarchy(kernel: str, members: Sequence[Member], left_out: Sequence[str] = ()) -> Values:
    """Fit from the widest kind to the narrowest, each drawn to the one around it, without the terms left out."""
    known = KERNELS[kernel].constants
    free = [one.name for one in known if one.name not in left_out]
    values: Values = {(): {one.name: one.low if one.name in left_out else one.typical for one in known}}
    for depth in range(1, len(LEVELS) + 1):
        groups: dict[tuple[str, ...], list[Member]] = defaultdict(list)
        for member in members:
            groups[tuple(member[0].key[name] for name in LEVELS[:depth])].append(member)
        for key, mine in sorted(groups.items()):
            start = values[key[:-1]]
            if len(mine) < LEAST:
                values[key] = start
                continue
            alike = Counter(_same(run) for run, *_ in mine)
            counts = np.array([np.sqrt(len(mine) / (len(alike) * alike[_same(run)])) for run, *_ in mine])
            prior = (TYPICAL[kernel] if depth == 1 else AROUND) / np.sqrt(len(mine) / 50)
            rows, starts = [_rows(mine)], [dict(start)]
            fitted = fit_together(KERNELS[kernel], rows, starts, free, [""], prior, STEPS_OF_FIT, [counts])
            values[key] = fitted[0].values
    return values


def _narrowest(values: Values, run: Run, width: int) -> Mapping[str, float]:
    key = tuple(run.key[name] for name in LEVELS[:width])
    return next(values[key[:depth]] for depth in range(len(key), -1, -1) if key[:depth] in values)


def _unmeasured(values: Values, key: Mapping[str, str], width: int) -> Mapping[str, float]:
    """Constants for a run that was not measured: of the wide kind, and of the nearest one on its chip or another."""
    levels = tuple(key[name] for name in LEVELS[:width])
    wide = next(values[levels[:depth]] for depth in range(width, -1, -1) if levels[:depth] in values)
    near = _nearest((one for one in values if len(one) == KIND), key)
    return wide if near is None else _between(values[near], wide, key["path"])


def _between(near: Mapping[str, float], wide: Mapping[str, float], path: str) -> dict[str, float]:
    """Constants between those of the nearest kind and of the wide one."""
    share = OF_WIDE[path]
    return {name: float(near[name] ** (1 - share) * value**share) for name, value in wide.items()}


def _time(kernel: str, member: Member, values: Mapping[str, float]) -> float:
    return float(KERNELS[kernel].times(member[1], NO_CHIP, values, ""))


def _rows(members: Sequence[Member]) -> Rows:
    shapes = {name: np.array([one[1][name] for one in members]) for name in members[0][1]}
    return Rows(shapes, np.array([one[2] for one in members]), NO_CHIP)


def _records(
    kernel: str, values: Values, members: Sequence[Member], used: Sequence[int], estimated: Any, fold: Any
) -> list[KernelConstants]:
    """Constants of every kind with their errors on the folds that did not see them; versions apart where stated."""
    found = []
    for key, constants in sorted(values.items()):
        if len(key) < KIND or not key[-1]:
            continue
        mine = [i for i in used if tuple(members[i][0].key[name] for name in LEVELS[: len(key)]) == key]
        if len(mine) < LEAST:
            continue
        # few configurations tell little of an interval: those of the framework and kind of model then set it
        wide = [i for i in used if tuple(members[i][0].key[name] for name in LEVELS[:2]) == key[:2]]
        enough = len({members[i][0].configuration for i in mine}) >= LEAST_CONFIGURATIONS
        basis = mine if enough else wide
        found.append(
            _record(kernel, dict(zip(LEVELS, key, strict=False)), constants, members, mine, basis, estimated, fold)
        )
    return found


def _record(
    kernel: str,
    key: Mapping[str, str],
    values: Mapping[str, float],
    members: Sequence[Member],
    mine: Sequence[int],
    basis: Sequence[int],
    estimated: Any,
    fold: Any,
) -> KernelConstants:
    model, seconds = KERNELS[kernel], np.array([member[2] for member in members])
    edges, interval = quantiles(estimated[basis], seconds[basis])
    seen = _rows([members[i] for i in mine]).shapes
    inside = []
    for i in mine:
        others = [j for j in basis if fold[j] != fold[i]]
        low, high = conformal(seconds[others] / estimated[others])
        inside.append(low <= seconds[i] / estimated[i] <= high)
    errors = Errors.of(estimated[mine], seconds[mine])
    error = {name: getattr(errors, name) for name in ("mdape", "mape", "p90", "bias")}
    error |= {"n_fit": len(mine), "n_test": len(mine), "coverage": float(np.mean(inside))}
    if kernel == "served_step":
        error["by_bound"] = Errors.of(np.array([members[i][0].floor for i in mine]), seconds[mine]).mdape
    return KernelConstants(
        kernel=kernel,
        dtype=key["dtype"],
        chip=key["chip"],
        library=key["library"],
        path=key["path"],
        version=key.get("version", ""),
        values=values,
        edges=edges,
        interval=interval,
        valid={name: (float(seen[name].min()), float(seen[name].max())) for name in model.sorted_by},
        state="served runs of one length of prompts and answers each; errors by folds of configurations",
        source=SOURCE,
        error=error,
    )


def transferred(runs: Sequence[Run]) -> list[Transfer]:
    """How far steps and first tokens are off on a chip that was left out: with one of its generation, and without.

    Each is estimated as ``Estimator.step_record`` does, by the framework's constants from all other chips.
    """
    found, kinds = [], {_kind(run) for run in runs}
    for kernel, estimated in nested(runs, "chip").items():
        ratios: dict[str, list[float]] = defaultdict(list)
        for i in np.flatnonzero(estimated).tolist():
            near = _nearest((one for one in kinds if one[2] != runs[i].key["chip"]), runs[i].key)
            if near is not None:
                to = SAME if distance(chip(runs[i].key["chip"]), chip(near[2])) == 0 else OTHER
                ratios[to].append(_measured(kernel, runs[i]) / estimated[i])
        for to, each in ratios.items():
            found.append(residuals_of(kernel, to, np.array(each)[::2], np.array(each)[1::2], SOURCE))
    return found


def _measured(kernel: str, run: Run) -> float:
    return run.first if kernel == "first_token" else run.token


def _left_out(kernel: str, to: str, ratios: Mapping[Any, Any], what: str) -> Transfer:
    """Residuals of groups that were left out; coverage is the mean over these, each by an interval of the others."""
    inside = []
    for own, mine in ratios.items():
        low, high = even_ends(np.concatenate([each for other, each in ratios.items() if other != own]))
        inside.append(np.mean((mine >= low) & (mine <= high)))
    every = np.concatenate(list(ratios.values()))
    source = f"{SOURCE}: {len(ratios)} {what} left out in turn"
    moved = residuals_of(kernel, to, every, every, source, even_ends)
    return replace(moved, error={**moved.error, "coverage": float(np.mean(inside))})


def other_models(runs: Sequence[Run]) -> list[Transfer]:
    """How far steps and first tokens of a model are off by constants of other models."""
    found, models = [], models_of(runs)
    for kernel, estimated in nested(runs, "model").items():
        seconds = np.array([_measured(kernel, run) for run in runs])
        groups = {one: (models == one) & (estimated > 0) for one in np.unique(models[estimated > 0])}
        ratios = {one: seconds[mine] / estimated[mine] for one, mine in groups.items()}
        found.append(_left_out(kernel, OTHER_MODEL, ratios, "models"))
    return found


def other_formats(runs: Sequence[Run]) -> list[Transfer]:
    """How far steps and first tokens are off in a format that was left out of a chip, where another one is known.

    The form is that of all runs, and the constants are those of the runs that remain.
    """
    found, every, kinds = [], [_kind(run) for run in runs], sorted({_kind(run) for run in runs})
    for kernel in STEPS:
        form, width = best_form(kernel, runs)
        ratios = {}
        for own in (one for one in kinds if sum(other[:3] == one[:3] for other in kinds) > 1):
            mine = np.array([one == own for one in every])
            estimated = _estimated(kernel, runs, ~mine, mine, form)[width]
            used = np.flatnonzero(estimated).tolist()
            if used:
                ratios[own] = np.array([_measured(kernel, runs[i]) for i in used]) / estimated[used]
        found.append(_left_out(kernel, OTHER_FORMAT, ratios, "formats of chips"))
    return found


def outside_batches(runs: Sequence[Run]) -> list[Transfer]:
    """What each doubling outside the measured batches and times adds to an interval of steps.

    As for kernels: constants of each kind from its inner runs, an interval from other inner runs, scores of outer ones.
    """
    kernel = "served_step"
    members, _ = members_of(kernel, runs, np.ones(len(runs), bool))
    kinds: dict[tuple[str, ...], list[Member]] = defaultdict(list)
    for member in members:
        kinds[_kind(member[0])].append(member)
    model, scores, ratios = KERNELS[kernel], [], []
    for _, mine in sorted(kinds.items()):
        rows = _rows(mine)
        names = [name for name in model.sorted_by if name != "kernels"]
        limits = {name: tuple(np.quantile(rows.shapes[name], TAILS)) for name in names}
        inside = KernelConstants("", kernel, "", "", {}, valid=limits)
        far = inside.octaves_outside(rows.shapes)
        inner = np.random.default_rng(SEED).permutation(np.flatnonzero(far <= 0))
        outer = np.flatnonzero(far >= LEAST_OUTSIDE)
        if len(inner) < LEAST_INNER or not len(outer):
            continue
        found = fit(model, rows.take(np.sort(inner[::2])), prior=TYPICAL["first_token"])
        each = rows.seconds / model.times(rows.shapes, NO_CHIP, found.values, "")
        low, high = conformal(each[inner[1::2]])
        scores.append(np.maximum(np.log(low / each[outer]), np.log(each[outer] / high)) / far[outer])
        ratios.append(each[outer])
    together, beyond = np.concatenate(scores), np.concatenate(ratios)
    return [widening(kernel, together[::2], together[1::2], beyond[1::2], SOURCE)]


def _nearest(kinds: Iterable[tuple[str, ...]], key: Mapping[str, str]) -> tuple[str, ...] | None:
    """The nearest kind of the run's framework and kind of model: on its chip if known there, in its format if there."""
    known = sorted(one for one in kinds if one[:2] == (key["library"], key["path"]))
    here = [one for one in known if one[2] == key["chip"]]
    for dtype in dict.fromkeys((key["dtype"], *STEP_FORMATS)):
        same = [one for one in here or known if one[3] == dtype]
        if same:
            first = next(iter(weights(chip(key["chip"]), [one[2] for one in same])))
            return next(one for one in same if one[2] == first)
    return None


def summary(runs: Sequence[Run]) -> dict[str, Errors]:
    """Errors on configurations that were not fitted: all runs, and by kind of model, framework and chip."""
    token, first = nested(runs).values()
    seconds = np.array([run.token for run in runs])
    found = {"all": Errors.of(token, seconds)}
    for name in ("path", "library", "chip"):
        for word in sorted({run.key[name] for run in runs}):
            mine = np.array([run.key[name] == word for run in runs])
            found[word] = Errors.of(token[mine], seconds[mine])
    found["bound alone"] = Errors.of(np.array([run.floor for run in runs]), seconds)
    idle = first > 0
    firsts = np.array([run.first for run in runs])
    found["first token"] = Errors.of(first[idle], firsts[idle])
    for by in filter(None, LEFT_OUT):
        other, other_first = nested(runs, by).values()
        for word in ("dense", "mixture"):
            mine = np.array([run.key["path"] == word for run in runs]) & (other > 0)
            found[f"{word}, another {by}"] = Errors.of(other[mine], seconds[mine])
        mine = other_first > 0
        found[f"first token, another {by}"] = Errors.of(other_first[mine], firsts[mine])
    return found
