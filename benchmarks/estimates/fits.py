"""Fit constants to one half of each group's rows, and report errors on the other half.

Every group of rows (chip, library, kernel, format) is cut into two random halves by a fixed seed: constants, policies
and intervals come from the first, reported errors from the second. Rows of all chips with one library, format and
policy share the constants that are not a chip's own. Intervals come from residuals of the first half, each taken with
the chip's own constants fitted without the fifth of rows that it stands in. Of large groups a part of the first half is
fitted; the rest of that half is estimated by these constants.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.estimates import baselines as baselined
from benchmarks.estimates import shared_constants
from benchmarks.estimates.baselines import baselines
from benchmarks.estimates.rows import KEPT, LEAST, Group, same_kernels, stated_for
from benchmarks.estimates.shared_constants import fit_alone, fit_family
from roofline.estimates import fitting, kernel_model, transfer
from roofline.estimates.attention import launches
from roofline.estimates.constants import KERNELS, TAILS, KernelConstants
from roofline.estimates.contraction import IN_TURN
from roofline.estimates.fitting import Errors, Fitted, Rows, fit, fit_from_few, most_telling
from roofline.estimates.kernel_model import KernelModel
from roofline.estimates.transfer import (
    distance,
    mixed,
    on_another_chip,
    policy_elsewhere,
    stated_policy,
    weights,
    within_power,
)
from roofline.hardware import chip
from roofline.hardware.machine import Machine

SEED = 20261122
#: Parts of the first half that residuals for the interval are taken in.
FOLDS = 5
#: Fewest rows for an interval of a group's own: with fewer it takes those of all chips of its library and format.
LEAST_FOR_INTERVAL = 40
#: Rows of a group beyond which a part of the first half is fitted.
MOST_ROWS = 800
#: Fewest rows for intervals by thirds of estimated time.
LEAST_FOR_THIRDS = 240
#: Rows of an unseen chip that a fit is tried with, and rows of each other chip that stand behind it.
TEN, FEW = 10, 150
#: How often ten rows are drawn, where there is a goal for what they give; once elsewhere. Three to five
#: groups of a chip make the figure, and median errors of draws spread by 0.5 to 1.9 points (products).
DRAWS = {"contraction": 12, "quantised_contraction": 12, "prefill_attention": 12, "decode_attention": 12}
#: Kinds of kernels whose ten rows can be advised.
ADVISED = ("contraction", "quantised_contraction")
#: Doublings outside the inner sizes from which a row counts as outer.
LEAST_OUTSIDE = 0.5
#: Kernels that were timed without a graph: all of a chip, as the data's README says, and vLLM's latent attention, whose
#: benchmark times six calls in a row (aiconfigurator, collector/vllm/collect_mla.py).
CHIPS_WITHOUT_GRAPH, KERNELS_WITHOUT_GRAPH = ("b60",), (("vllm", "latent_decode"), ("vllm", "latent_prefill"))
SOURCES = {
    "graph": ("ai-dynamo/aiconfigurator (Apache-2.0)", "CUDA graph, buffers used again: caches warm"),
    "host": ("ai-dynamo/aiconfigurator (Apache-2.0)", "no graph, started by the host, buffers used again: caches warm"),
    "eager": ("microsoft/vidur (MIT)", "kernel alone, eager"),
}


@dataclass(slots=True)
class Outcome:
    """What came of a group: its constants, with errors on the other half, and what other chips' constants gave there.

    ``left_out`` are measured ÷ estimated with the chip left out: on the half that is fitted, and on the other.
    ``outer`` is what :func:`outer_sizes` finds.
    """

    group: Group
    constants: KernelConstants
    left_out: tuple[Any, Any] | None = None
    outer: tuple[Any, Any, Any] | None = None


def was_started_by_host(group: Group) -> bool:
    """Whether a group's kernels were timed without a graph."""
    return group.chip in CHIPS_WITHOUT_GRAPH or (group.library, group.kernel) in KERNELS_WITHOUT_GRAPH


def halves(group: Group, count: int, seed: int = SEED) -> tuple[Any, Any]:
    """Two random halves of a group's rows, by the seed and the group's name: one is fitted, one reported."""
    name = "/".join(map(str, group))
    shuffled = np.random.default_rng([seed, *name.encode()]).permutation(count)
    return np.sort(shuffled[::2]), np.sort(shuffled[1::2])


def parted(group: Group, rows: Rows, seed: int = SEED) -> tuple[Rows, Rows, Rows]:
    """Rows of a group that are fitted, those of the first half that are not, and the other half."""
    first, second = halves(group, len(rows), seed)
    taken = np.arange(len(first)) % max(1, len(rows) // MOST_ROWS) == 0
    return rows.take(first[taken]), rows.take(first[~taken]), rows.take(second)


def quantiles(estimated: Any, measured: Any) -> tuple[tuple[float, ...], tuple[tuple[float, float], ...]]:
    """Edges of thirds of estimated time, and in each the split-conformal quantiles of measured ÷ estimated."""
    count = 3 if len(estimated) >= LEAST_FOR_THIRDS else 1
    edges = tuple(float(edge) for edge in np.quantile(estimated, [i / count for i in range(1, count)]))
    which = np.searchsorted(np.asarray(edges), estimated)
    return edges, tuple(conformal((measured / estimated)[which == third]) for third in range(count))


def conformal(ratios: Any) -> tuple[float, float]:
    """Split-conformal quantiles of ratios: for n of them the ⌈(n + 1) · share⌉-th."""
    ordered = np.sort(ratios)
    low = ordered[max(int(np.floor((len(ordered) + 1) * TAILS[0])) - 1, 0)]
    high = ordered[min(int(np.ceil((len(ordered) + 1) * TAILS[1])) - 1, len(ordered) - 1)]
    return float(low), float(high)


def even_ends(ratios: Any) -> tuple[float, float]:
    """Ends as far on either side of one that hold as many: few chips, or few models, may each be off to either side."""
    ordered = np.sort(np.abs(np.log(ratios)))
    share = TAILS[1] - TAILS[0]
    far = np.exp(ordered[min(int(np.ceil((len(ordered) + 1) * share)) - 1, len(ordered) - 1)])
    return float(1 / far), float(far)


#: Versions of libraries by chip, kernel and library, where groups do not say them.
Versions = Mapping[tuple[str, str, str], str]


def kept_family(kernel: str, groups: Mapping[Group, Rows], versions: Versions) -> list[Outcome]:
    """What :func:`fitted_family` finds, kept until the rows or the code that it follows from change."""
    made_by = (
        fitting,
        kernel_model,
        transfer,
        shared_constants,
        sys.modules[KERNELS[kernel].parts.__module__],
        baselined,
        sys.modules[__name__],
    )
    digest = sha256()
    for module in made_by:
        digest.update(Path(str(module.__file__)).read_bytes())
    for group, rows in groups.items():
        version = versions.get((group.chip, kernel, group.library), "")
        digest.update(repr((group, version, rows.chip, list(rows.shapes))).encode())
        for column in (*rows.shapes.values(), rows.seconds):
            digest.update(np.ascontiguousarray(column).tobytes())
    path = KEPT.parent / "fits" / f"{kernel}-{digest.hexdigest()[:20]}.pickle"
    if path.exists():
        return list(pickle.loads(path.read_bytes()))
    found = fitted_family(kernel, groups, versions)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(found))
    return found


def fitted_family(kernel: str, groups: Mapping[Group, Rows], versions: Versions) -> list[Outcome]:
    """Fit one library's and format's groups of all chips together and test each on its other half.

    Groups of different versions of the library share no constants, where ``versions`` tells them apart. Where libraries
    run the same kernels, groups of one chip share.
    Each chip is also left out in turn, and fitted again with ten of its rows.
    """
    model = KERNELS[kernel]
    train, spare, test = zip(*(parted(*one) for one in groups.items()), strict=True)
    stated = [stated_for(group) for group in groups]
    kin = [
        group.chip if same_kernels(group) else versions.get((group.chip, kernel, group.library), "") for group in groups
    ]
    hosted = [was_started_by_host(group) for group in groups]
    found: dict[int, Fitted] = {}
    for this in dict.fromkeys(kin):
        which = [number for number, other in enumerate(kin) if other == this]
        each = ([them[number] for number in which] for them in (train, stated, hosted))
        fitted = fit_family(model, *each)
        found.update(zip(which, fitted, strict=True))
    checks = [residuals(kernel, rows, spare[number], found[number]) for number, rows in enumerate(train)]
    every = tuple(np.concatenate(each) for each in zip(*checks, strict=True))
    done = []
    for number, group in enumerate(groups):
        check = checks[number] if len(checks[number][0]) >= LEAST_FOR_INTERVAL else every
        one = outcome(group, train[number], test[number], found[number], check)
        done.append(replace(one, outer=outer_sizes(model, train[number], test[number], found[number].policy)))
    return left_out(kernel, done, train, test)


def outer_sizes(model: KernelModel, train: Rows, test: Rows, policy: str) -> tuple[Any, Any, Any] | None:
    """How constants and intervals of the inner sizes do on the outer ones; None of groups with few rows.

    Inner are rows of the first half whose sizes all lie between the tenth and the ninetieth percentile. Half of them
    are fitted anew, the others make an interval. A score is by how much the logarithm of the interval's end must move,
    for each doubling that a row lies outside. Found are scores of outer rows of the first half and of the other, and
    measured ÷ estimated of the latter.
    """
    names = [name for name in model.sorted_by if name in train.shapes and np.ptp(train.shapes[name]) > 0]
    limits = {name: tuple(np.quantile(train.shapes[name], TAILS)) for name in names}
    inside = KernelConstants("", model.name, "", "", {}, valid=limits)
    if not names:
        return None
    far = [inside.octaves_outside(rows.shapes) for rows in (train, test)]
    inner = np.random.default_rng(SEED).permutation(np.flatnonzero(far[0] <= 0))
    outer = [np.flatnonzero(octaves >= LEAST_OUTSIDE) for octaves in far]
    if len(inner) < LEAST or min(map(len, outer)) < TEN:
        return None
    found = fit(model, train.take(np.sort(inner[::2][:FEW])), policy=policy, most=25)

    def ratios(rows: Rows) -> Any:
        return rows.seconds / model.times(rows.shapes, rows.chip, found.values, found.policy)

    low, high = conformal(ratios(train.take(np.sort(inner[1::2]))))
    beyond = [ratios(rows.take(index)) for rows, index in zip((train, test), outer, strict=True)]
    missed = [np.maximum(np.log(low / each), np.log(each / high)) for each in beyond]
    scores = [one / octaves[index] for one, octaves, index in zip(missed, far, outer, strict=True)]
    return scores[0], scores[1], beyond[1]


def residuals(kernel: str, rows: Rows, spare: Rows, fitted: Fitted) -> tuple[Any, Any]:
    """Estimates and measurements of fitted rows, each by own constants that did not see it, and of rows not fitted."""
    model = KERNELS[kernel]
    own = model.own(fitted.policy)
    folds = np.arange(len(rows)) % FOLDS
    estimated = np.empty(len(rows))
    for fold in range(FOLDS):
        out = folds == fold
        again = fit(model, rows.take(~out), fitted.values, own, fitted.policy, most=8)
        held = rows.take(out)
        estimated[out] = model.times(held.shapes, rows.chip, again.values, again.policy)
    beside = model.times(spare.shapes, rows.chip, fitted.values, fitted.policy)
    return np.concatenate([estimated, beside]), np.concatenate([rows.seconds, spare.seconds])


def left_out(kernel: str, done: Sequence[Outcome], train: Sequence[Rows], test: Sequence[Rows]) -> list[Outcome]:
    """Outcomes with the errors of each chip by constants of the other chips alone, and after a fit to ten of its rows.

    None of the other chips' constants has seen the chip that is left out: where the libraries of a chip share constants
    these are the ones that ship, elsewhere each group is fitted by itself. The rule of ``roofline.estimates.transfer``
    makes constants from them.
    """
    model = KERNELS[kernel]
    few = [rows.take(np.arange(0, len(rows), max(1, len(rows) // FEW))) for rows in train]
    stated = [policy if (policy := stated_for(one.group)) in model.stated else "" for one in done]
    alone = [] if len(done) < 2 else [_alone(model, rows, one) for rows, one in zip(few, done, strict=True)]
    found = []
    for number, one in enumerate(done):
        place = sum(other.group.library == one.group.library for other in done[:number])
        target = chip(one.group.chip)
        others = [i for i, other in enumerate(done) if measured_elsewhere(other.group, one.group, target)]
        tiles = has_stated_tiles(one.group, target)
        shares = shares_of(target, {done[i].group.chip: train[i] for i in others}, test[number], tiles)
        if not shares:
            found.append(one)
            continue
        measured = {done[i].group.chip: done[i].constants.valid for i in others}
        starts = {}
        for i in others:
            policy = stated[number] or policy_elsewhere(model, alone[i].policy, target, one.group.path)
            moved = on_another_chip(
                model,
                alone[i].values,
                few[i].chip,
                train[number].chip,
                chip(done[i].group.chip),
                target,
                launches=launches_of(one.group) / launches_of(done[i].group),
                tiles=tiles,
                other_kernel=stated[number] != stated[i],
            )
            starts[done[i].group.chip] = (moved, policy)
        ratios = tuple(
            rows.seconds / _from_others(model, rows, [starts[key] for key in shares], list(shares.values()), target)
            for rows in (train[number], test[number])
        )
        rows, begin = test[number], [starts[key] for key in shares]
        after = [
            _from_ten(model, train[number], ten, begin, list(shares.values()), measured[next(iter(shares))], rows)
            for ten in tens(place, len(train[number]), kernel)
        ]
        errors = {"unseen": _middle(1 / ratios[1]), "ten_rows": float(np.mean(after)), **_why(model, rows, starts, one)}
        if kernel in ADVISED:
            told = (list(shares.values()), measured[next(iter(shares))])
            ten = most_telling(model, train[number], begin, *told)
            errors["ten_advised"] = _from_ten(model, train[number], np.array(ten), begin, *told, rows)
        object.__setattr__(one.constants, "error", {**one.constants.error, **errors})
        found.append(replace(one, left_out=(ratios[0], ratios[1])))
    return found


def _from_others(model: KernelModel, rows: Rows, starts: Sequence[Any], shares: list[float], target: Machine) -> Any:
    """Times of rows by the constants of other chips, as :mod:`roofline.estimates.transfer` puts them together."""
    time = mixed([model.times(rows.shapes, rows.chip, *start) for start in starts], shares)
    return within_power(model.name, rows.shapes, rows.chip, target, time)


def launches_of(group: Group) -> int:
    """Kernels that a call of a group's library launches on its chip."""
    return launches(group.kernel, group.library, group.path, chip(group.chip))


def tens(number: int, count: int, kernel: str) -> list[Any]:
    """Random draws of ten rows."""
    draws = range(DRAWS.get(kernel, 1))
    return [np.random.default_rng([SEED, number, draw]).permutation(count)[:TEN] for draw in draws]


def _from_ten(
    model: KernelModel, rows: Rows, ten: Any, starts: Sequence[Any], shares: list[float], limits: Any, test: Rows
) -> float:
    """The median error on other rows after a fit to ten."""
    again = fit_from_few(model, rows.take(ten), starts, model.own(), model.prior_of_ten, shares=shares, limits=limits)
    return Errors.of(model.times(test.shapes, test.chip, again.values, again.policy), test.seconds).mdape


def _middle(ratios: Any) -> float:
    """The median error of estimated ÷ measured."""
    return float(np.median(np.abs(ratios - 1)))


def _why(
    model: KernelModel, rows: Rows, starts: Mapping[str, tuple[Mapping[str, float], str]], one: Outcome
) -> dict[str, float]:
    """Two tests of why a chip that was left out is far off: the best single chip, and the same with its own policy.

    The policy is the one that the chip's own first half chose: with it the constants alone are of other chips.
    """
    own = [model.times(rows.shapes, rows.chip, values, one.constants.policy) for values, _ in starts.values()]
    others = [model.times(rows.shapes, rows.chip, *start) for start in starts.values()]
    best, known = (min(_middle(times / rows.seconds) for times in each) for each in (others, own))
    return {"unseen_best": best, "unseen_policy": known}


def _alone(model: KernelModel, rows: Rows, one: Outcome) -> Fitted:
    """Constants of a chip that saw no other, with the policy that its rows chose."""
    if same_kernels(one.group):
        return Fitted(one.constants.values, one.constants.policy, 0.0)
    return fit_alone(model, rows, one.constants.policy)


def has_stated_tiles(group: Group, target: Machine) -> bool:
    """Whether a library's code states the tiles of a group's kernels on a chip."""
    return bool(stated_policy(KERNELS[group.kernel], group.library, group.dtype, group.path, target))


def measured_elsewhere(other: Group, group: Group, target: Machine) -> bool:
    """Whether a group is of the same kernels on another chip of the vendor."""
    same = other.library == group.library and other.path == group.path
    return same and other.chip != group.chip and chip(other.chip).vendor == target.vendor


def shares_of(target: Machine, others: Mapping[str, Rows], rows: Rows, tiles: bool) -> dict[str, float]:
    """Weights of other chips' constants, none where nothing is promised; a collective takes the nearest link."""
    if others and "link" in rows.shapes:
        far = {key: abs(np.log(each.shapes["link"][0] / rows.shapes["link"][0])) for key, each in others.items()}
        return {min(far, key=lambda key: far[key]): 1.0}
    shares = weights(target, others, tiles or None)
    # operations of elements stream bytes at the rate of the data sheet: one other chip tells of them
    enough = len(shares) > 1 or "bytes" in rows.shapes or any(distance(target, chip(key)) == 0 for key in shares)
    return shares if enough else {}


def outcome(group: Group, train: Rows, test: Rows, fitted: Fitted, check: tuple[Any, Any]) -> Outcome:
    """The record of a group and how it does on rows that were not fitted."""
    model = KERNELS[group.kernel]
    edges, interval = quantiles(*check)
    estimated = model.times(test.shapes, test.chip, fitted.values, fitted.policy)
    errors = Errors.of(estimated, test.seconds)
    valid = {
        name: (float(train.shapes[name].min()), float(train.shapes[name].max()))
        for name in model.sorted_by
        if name in train.shapes
    }
    how = "eager" if group.library == "torch" else "host" if was_started_by_host(group) else "graph"
    source, state = SOURCES[how]
    timed = {name: float(train.shapes[name].max()) for name in ("link", *IN_TURN) if name in train.shapes}
    constants = KernelConstants(
        chip=group.chip,
        kernel=group.kernel,
        dtype=group.dtype,
        library=group.library,
        version=group.version,
        path=group.path,
        values=fitted.values,
        policy=fitted.policy,
        edges=edges,
        interval=interval,
        valid=valid,
        state=state,
        figures={**train.chip._asdict(), **timed},
        source=source,
    )
    low, high = constants.limits(estimated)
    inside = float(np.mean((test.seconds >= low) & (test.seconds <= high)))
    error = {
        "mdape": errors.mdape,
        "mape": errors.mape,
        "p90": errors.p90,
        "bias": errors.bias,
        "n_fit": len(train),
        "n_test": errors.count,
        "coverage": inside,
        **{f"by_{name}": value for name, value in baselines(group.kernel, train, test).items()},
    }
    object.__setattr__(constants, "error", error)
    return Outcome(group, constants)
