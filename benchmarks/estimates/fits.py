"""Fit constants to one half of each group's rows, and report errors on the other half.

Every group of rows (chip, library, kernel, format) is cut into two random halves by a fixed seed: constants, policies
and intervals come from the first, reported errors from the second. Rows of all chips with one library, format and
policy share the constants that are not a chip's own. Intervals come from residuals of the first half, each taken with
the chip's own constants fitted without the fifth of rows that it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.estimates.baselines import baselines
from benchmarks.estimates.rows import Group
from roofline.estimates.constants import TAILS, KernelConstants
from roofline.estimates.fitting import Errors, Fitted, Rows, fit, fit_family
from roofline.estimates.kernel_table import KERNELS

SEED = 20261122
#: Parts of the first half that residuals for the interval are taken in.
FOLDS = 5
#: Fewest rows for an interval of a group's own: with fewer it takes those of all chips of its library and format.
LEAST_FOR_INTERVAL = 40
#: Rows of a group beyond which a part of the first half is fitted.
MOST_ROWS = 800
#: Fewest rows for intervals by thirds of estimated time.
LEAST_FOR_THIRDS = 240
#: Rows of an unseen chip that a fit is tried with.
TEN = 10
#: Strength of the prior from other chips' constants, as ``calibrate`` has it.
PRIOR_ELSEWHERE = 0.15
SOURCES = {
    "graph": ("ai-dynamo/aiconfigurator (Apache-2.0)", "CUDA graph, buffers used again: caches warm"),
    "eager": ("microsoft/vidur (MIT)", "kernel alone, eager"),
}


@dataclass(slots=True)
class Outcome:
    """What came of a group: its constants, with errors on the other half, and those of the baselines there."""

    group: Group
    constants: KernelConstants


def halves(group: Group, count: int) -> tuple[Any, Any]:
    """Two random halves of a group's rows, by the seed and the group's name: one is fitted, one reported."""
    name = "/".join(map(str, group))
    shuffled = np.random.default_rng([SEED, *name.encode()]).permutation(count)
    return np.sort(shuffled[::2]), np.sort(shuffled[1::2])


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


def fitted_family(kernel: str, groups: Mapping[Group, Rows], unseen: bool = False) -> list[Outcome]:
    """Fit one library's and format's groups of all chips together and test each on its other half.

    ``unseen`` also leaves each chip out in turn, and fits it again with ten of its rows.
    """
    model = KERNELS[kernel]
    parts = {group: halves(group, len(rows)) for group, rows in groups.items()}
    train = [rows.take(parts[group][0][:: max(1, len(rows) // MOST_ROWS)]) for group, rows in groups.items()]
    test = [rows.take(parts[group][1]) for group, rows in groups.items()]
    found = fit_family(model, train)
    checks = [residuals(kernel, rows, fitted) for rows, fitted in zip(train, found, strict=True)]
    every = tuple(np.concatenate(each) for each in zip(*checks, strict=True))
    elsewhere = left_out(kernel, list(groups), train, test) if unseen else [{} for _ in groups]
    done = []
    for number, group in enumerate(groups):
        check = checks[number] if len(checks[number][0]) >= LEAST_FOR_INTERVAL else every
        done.append(outcome(group, train[number], test[number], found[number], check, elsewhere[number]))
    return done


def residuals(kernel: str, rows: Rows, fitted: Fitted) -> tuple[Any, Any]:
    """Estimates and measurements of rows, each estimated by own constants that did not see it."""
    model = KERNELS[kernel]
    own = [constant.name for constant in model.constants if constant.own]
    folds = np.arange(len(rows)) % FOLDS
    estimated = np.empty(len(rows))
    for fold in range(FOLDS):
        out = folds == fold
        again = fit(model, rows.take(~out), fitted.values, own, fitted.policy, most=8)
        held = rows.take(out)
        estimated[out] = model.times(held.shapes, rows.chip, again.values, again.policy)
    return estimated, rows.seconds


def left_out(
    kernel: str, groups: Sequence[Group], train: Sequence[Rows], test: Sequence[Rows]
) -> list[dict[str, float]]:
    """Errors of each chip by constants of the other chips alone, and after a fit to ten of its own rows."""
    model = KERNELS[kernel]
    own = [constant.name for constant in model.constants if constant.own]
    few = [rows.take(np.arange(0, len(rows), max(1, len(rows) // 150))) for rows in train]
    found: list[dict[str, float]] = []
    for number, group in enumerate(groups):
        others = [few[i] for i, other in enumerate(groups) if other.chip != group.chip and other.path == group.path]
        if not others:
            found.append({})
            continue
        start = combined(fit_family(model, others, turns=1))
        rows = test[number]
        ratio = rows.seconds / model.times(rows.shapes, rows.chip, start.values, start.policy)
        low, high = conformal(ratio)
        errors = [np.abs(1 / ratio - 1)]
        after = []
        for draw in range(3):
            ten = np.random.default_rng([SEED, number, draw]).permutation(len(train[number]))[:TEN]
            again = fit(model, train[number].take(ten), start.values, own, start.policy, PRIOR_ELSEWHERE, most=30)
            after.append(Errors.of(model.times(rows.shapes, rows.chip, again.values, again.policy), rows.seconds).mdape)
        found.append(
            {
                "unseen": float(np.median(errors[0])),
                "unseen_low": low,
                "unseen_high": high,
                "ten_rows": float(np.mean(after)),
            }
        )
    return found


def combined(found: Sequence[Fitted]) -> Fitted:
    """The middle of several chips' constants, with the policy of most."""
    policies = [one.policy for one in found]
    names = found[0].values
    middle = {name: float(np.exp(np.median([np.log(one.values[name]) for one in found]))) for name in names}
    return Fitted(middle, max(policies, key=policies.count), 0.0)


def outcome(
    group: Group, train: Rows, test: Rows, fitted: Fitted, check: tuple[Any, Any], elsewhere: Mapping[str, float]
) -> Outcome:
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
    source, state = SOURCES["eager" if group.dtype == "fp16" else "graph"]
    link = {"link": float(train.shapes["link"][0])} if "link" in train.shapes else {}
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
        figures={**train.chip._asdict(), **link},
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
        **elsewhere,
        **{f"by_{name}": value for name, value in baselines(group.kernel, train, test).items()},
    }
    object.__setattr__(constants, "error", error)
    return Outcome(group, constants)
