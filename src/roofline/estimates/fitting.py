"""Fit the constants of kernel models to measured times.

Residuals are logarithms of estimate over measurement, so that errors count as ratios. A soft loss keeps a few odd rows
from deciding. Constants move on a logarithmic scale within their range, drawn to where they start by a weak prior
(a maximum a posteriori fit): ten rows change what ten rows can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.answers import attributes
from roofline.estimates.kernel_model import FROM_HOST, ChipFigures, KernelModel, ModelConstant
from roofline.estimates.transfer import mixed
from roofline.frozen import dataclass
from roofline.lazy import np

#: Logarithm beyond which a residual counts less than by its square.
SOFT = 0.07
#: Share of its cost that a step of a fit must save: less is within what the next rows change.
LEAST_GAIN = 1e-4
#: Steps of a fit that tells starts apart, and by how much another policy than the start's has to cost less: of
#: products, which have many policies, by half.
LOOK, MUCH_LESS, HALF = 8, 1.15, 2.0
#: What starts say of sizes that few rows do not have: its weight against that of the rows, the logarithm on these rows
#: beyond which it counts less, how many sizes, by how much less a start costs that counts e times as much, steps of the
#: fit to both.
ELSEWHERE, FAR_OFF, SIZES, TELLS, STEPS = 0.1, 0.1, 60, 0.03, 15
#: Least logarithm by which a constant is taken to differ from chip to chip.
LEAST_SPREAD = 0.15
#: Logarithm beyond which no constant is taken to be unknown, and by which it moves to see what it does.
WIDEST, STEP = 2.0, 0.05
#: Constants that times follow in a step, and in no proportion: a design takes them as known.
IN_A_STEP = ("cache_share",)
#: Sizes that starts speak of: those of products. Of attention, starts of other chips' kernels are too far off.
PRODUCT_SIZES = ("m", "n", "k")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Measured kernels of one group: shapes as arrays, seconds, the chip's figures."""

    shapes: Mapping[str, Any]
    seconds: Any
    chip: ChipFigures

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, index: Any) -> Rows:
        """Some of the rows, by number or mask."""
        return Rows({name: value[index] for name, value in self.shapes.items()}, self.seconds[index], self.chip)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Constants of a group and the policy that goes with them."""

    values: Mapping[str, float]
    policy: str
    cost: float


def fit(
    model: KernelModel,
    rows: Rows,
    start: Mapping[str, float] | None = None,
    free: Sequence[str] | None = None,
    policy: str = "",
    prior: float | None = None,
    most: int = 60,
) -> Fitted:
    """Fit some constants of a model to rows, from a start that is the prior too, as strong as the model says."""
    strength = model.prior if prior is None else prior
    return fit_together(model, [rows], [dict(start or model.defaults())], free, [policy], strength, most)[0]


def fit_from_few(
    model: KernelModel,
    rows: Rows,
    starts: Sequence[tuple[Mapping[str, float], str]],
    free: Sequence[str] | None = None,
    prior: float | None = None,
    most: int = 30,
    shares: Sequence[float] = (),
    limits: Mapping[str, tuple[float, float]] | None = None,
) -> Fitted:
    """Fit few rows of a chip from the constants of several others: the start that they fit best, and its policy.

    Another policy than a start's own is taken where its cost is clearly less, but none in the place of one that the
    library's code states. No policy without a graph is tried.
    Of products all constants move, and not the ``free`` ones alone: they follow the rows and, with less weight, the
    mean of the starts over the sizes that these were measured at, the ``limits``. It holds them where rows tell
    nothing. A start counts by its share and by how well the rows fit it. The mean counts less where it is far off the
    rows: by the inverse of its variance there. Each constant is drawn to the mean of the starts as far as these agree
    on it, as an empirical Bayes prior does.
    """

    def look(values: Mapping[str, float], policy: str) -> Fitted:
        return fit(model, rows, values, free, policy, prior, most=LOOK)

    tried = [look(values, policy) for values, policy in starts]
    first = min(tried, key=lambda one: one.cost)
    values, own = starts[tried.index(first)]
    free_to = () if own in model.stated else model.policies
    others = [look(values, policy) for policy in free_to if FROM_HOST not in policy and policy != own]
    best = min(others, key=lambda one: one.cost) if others else first
    sizes = None if limits is None or free is None else elsewhere(rows, limits)
    if best.cost * (MUCH_LESS if sizes is None else HALF) < first.cost:
        tried = [look(values, best.policy) for values, _ in starts]
        first = best
    if sizes is None:
        return fit(model, rows, values, free, first.policy, prior, most)
    least = min(one.cost for one in tried)
    told = np.array(shares or [1.0] * len(starts)) * np.exp([(least - one.cost) / TELLS for one in tried])
    told /= told.sum()

    def mean(shapes: Mapping[str, Any]) -> Any:
        each = zip(starts, tried, strict=True)
        return mixed([model.times(shapes, rows.chip, start, one.policy) for (start, _), one in each], list(told))

    off = float(np.median(np.abs(np.log(mean(rows.shapes) / rows.seconds))))
    count = FAR_OFF / max(FAR_OFF, off) * (ELSEWHERE * len(rows) / SIZES) ** 0.5
    begin, widths = dict(first.values), None
    if len(starts) > 1:
        names = [constant.name for constant in model.constants]
        logs = np.log([[start[name] for name in names] for start, _ in starts])
        begin = {**begin, **dict(zip(names, np.exp(told @ logs).tolist(), strict=True))}
        widths = apart(logs, np.array(shares or [1.0] * len(starts)))
    groups = [rows, Rows(sizes, mean(sizes), rows.chip)]
    return fit_together(model, groups, [begin] * 2, None, [first.policy] * 2, model.prior, STEPS, (1.0, count), widths)[
        0
    ]


def apart(logs: Any, shares: Any) -> Any:
    """By how much chips differ in each constant: the logarithm between two of them, from their spread by shares.

    >>> import numpy as np
    >>> apart(np.log([[1.0, 2.0], [1.0, 4.0]]), np.array([0.5, 0.5])).round(2).tolist()
    [0.15, 0.69]
    """
    shares = shares / shares.sum()
    off = (logs - shares @ logs) ** 2
    return np.maximum(np.sqrt(2 * (shares @ off) * len(logs) / (len(logs) - 1)), LEAST_SPREAD)


def most_telling(
    model: KernelModel,
    rows: Rows,
    starts: Sequence[tuple[Mapping[str, float], str]],
    shares: Sequence[float],
    limits: Mapping[str, tuple[float, float]],
    count: int = 10,
) -> list[int]:
    """Which rows tell most of a chip, the first first: their sizes count, their times are not looked at.

    Each next row is the one that lessens most the mean variance of the logarithm of estimates over the sizes within
    ``limits`` (:func:`elsewhere`), where constants are known as far as the starts agree on them and a measured time has
    an error of its own: a Bayesian design of the fit of :func:`fit_from_few`, linear at each start. A share of a cache
    counts as known.
    """
    names = [constant.name for constant in model.constants]
    logs = np.log([[start[name] for name in names] for start, _ in starts])
    widths = np.minimum(apart(logs, np.array(shares)), WIDEST) if len(starts) > 1 else np.full(len(names), WIDEST)
    widths = np.where(np.isin(names, IN_A_STEP), 0.0, widths)
    sizes = elsewhere(rows, limits)
    over = rows if sizes is None else Rows(sizes, rows.seconds, rows.chip)
    told = [_sensitivity(model, rows, *start) for start in starts]
    wanted = [_sensitivity(model, over, *start) for start in starts]
    spread = [np.diag(widths**2) for _ in starts]
    found: list[int] = []
    for _ in range(min(count, len(rows))):
        gains = np.zeros(len(rows))
        for each, there, known in zip(told, wanted, spread, strict=True):
            moved = known @ each.T
            less = ((there @ moved) ** 2).mean(axis=0) / (SOFT**2 + (each.T * moved).sum(axis=0))
            gains += less / np.einsum("ij,jk,ik->i", there, known, there).mean()
        gains[found] = -1.0
        found.append(int(gains.argmax()))
        for at, each in enumerate(told):
            moved = spread[at] @ each[found[-1]]
            spread[at] = spread[at] - np.outer(moved, moved) / (SOFT**2 + each[found[-1]] @ moved)
    return found


def _sensitivity(model: KernelModel, rows: Rows, values: Mapping[str, float], policy: str) -> Any:
    """By how much the logarithm of each row's time grows with that of each constant."""
    base = np.log(model.times(rows.shapes, rows.chip, values, policy))
    moved = ({**values, one.name: values[one.name] * np.exp(STEP)} for one in model.constants)
    return np.stack([(np.log(model.times(rows.shapes, rows.chip, each, policy)) - base) / STEP for each in moved], 1)


def elsewhere(rows: Rows, limits: Mapping[str, tuple[float, float]]) -> dict[str, Any] | None:
    """Sizes spread evenly over what was measured, all else as in the rows; None without any."""
    names = [name for name in PRODUCT_SIZES if name in limits and name in rows.shapes]
    if not names:
        return None
    number = np.arange(SIZES)
    sizes = {name: np.asarray(value, float)[number % len(rows)] for name, value in rows.shapes.items()}
    return {**sizes, **spread_evenly({name: limits[name] for name in names}, SIZES)}


def spread_evenly(limits: Mapping[str, tuple[float, float]], count: int) -> dict[str, Any]:
    """So many sizes within limits, spread evenly on a logarithmic scale.

    They are the points of an additive recurrence with the roots of ``x^(d + 1) = x + 1`` (Roberts' R sequence).

    >>> [sizes.tolist() for sizes in spread_evenly({"m": (1, 64), "n": (1, 4096)}, 3).values()]
    [[8.0, 3.0, 1.0], [64.0, 2.0, 205.0]]
    """
    root = 2.0
    for _ in range(30):
        root = (1 + root) ** (1 / (len(limits) + 1))
    number = np.arange(count)
    return {
        name: np.round(low * (high / low) ** ((0.5 + number * root**-place) % 1))
        for place, (name, (low, high)) in enumerate(limits.items(), 1)
    }


def fit_together(
    model: KernelModel,
    groups: Sequence[Rows],
    starts: Sequence[dict[str, float]],
    free: Sequence[str] | None,
    policies: Sequence[str],
    prior: float,
    most: int,
    counts: Sequence[Any] = (),
    widths: Any = None,
) -> list[Fitted]:
    """Move the free constants of all groups together to where residuals are least.

    ``counts`` are weights, one for each group: a number, or an array with one for each of its rows.
    ``widths`` are how far each constant may be from its start, as a logarithm, at the price of one row.
    """
    from scipy.optimize import least_squares

    names = list(free) if free is not None else [constant.name for constant in model.constants]
    known: dict[str, ModelConstant] = {constant.name: constant for constant in model.constants}
    low = np.log([known[name].low for name in names])
    high = np.log([known[name].high for name in names])
    first = np.clip(np.log([starts[0][name] for name in names]), low + 1e-6, high - 1e-6)
    weight = prior * np.sqrt(sum(len(rows) for rows in groups) / 50) if widths is None else SOFT / widths

    def residuals(place: Any) -> Any:
        moved = dict(zip(names, np.exp(place).tolist(), strict=True))
        found = []
        for rows, start, policy, count in zip(groups, starts, policies, counts or [1.0] * len(groups), strict=True):
            with np.errstate(all="ignore"):
                times = model.times(rows.shapes, rows.chip, {**start, **moved}, policy)
                found.append(count * np.log(times / rows.seconds))
        each = np.concatenate(found)
        return np.concatenate([np.where(np.isfinite(each), each, 5.0), weight * (place - first)])

    solved = least_squares(
        residuals, first, bounds=(low, high), loss="soft_l1", f_scale=SOFT, max_nfev=most, ftol=LEAST_GAIN
    )
    moved = dict(zip(names, np.exp(solved.x).tolist(), strict=True))
    return [
        Fitted({**start, **moved}, policy, float(solved.cost)) for start, policy in zip(starts, policies, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of estimates against measurements, in shares: medians, mean, 90th percentile, bias (median), rows."""

    mdape: float
    mape: float
    p90: float
    bias: float
    count: int

    @classmethod
    def of(cls, estimated: Any, measured: Any) -> Errors:
        """Compare estimates with measurements."""
        error = np.asarray(estimated) / np.asarray(measured) - 1
        size = np.abs(error)
        middle, ninth = np.percentile(size, [50, 90])
        return cls(float(middle), float(size.mean()), float(ninth), float(np.median(error)), len(size))

    def to_dict(self) -> dict[str, Any]:
        """Every figure under its name."""
        return attributes(self, "mdape", "mape", "p90", "bias", "count")
