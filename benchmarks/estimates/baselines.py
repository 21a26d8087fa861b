"""What simpler ways reach on the same rows: data sheet alone, fitted efficiencies, the nearest row, a forest of trees.

Each is fitted to the rows that constants are fitted to, and its median error is taken on the same other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from roofline.estimates.fitting import SOFT, Errors, Rows
from roofline.estimates.kernel_model import data_sheet_times


def baselines(kernel: str, train: Rows, test: Rows) -> dict[str, float]:
    """Median errors on the test rows by name of the baseline."""
    return {name: Errors.of(make(kernel, train, test), test.seconds).mdape for name, make in BASELINES.items()}


def _floor(kernel: str, train: Rows, test: Rows) -> Any:
    return np.maximum(*data_sheet_times(kernel, test.shapes, test.chip))


def _efficiencies(kernel: str, train: Rows, test: Rows, launch: bool = False) -> Any:
    """Times by a fitted share of the peak and one of the bandwidth, and a fitted start."""
    from scipy.optimize import least_squares

    names = 3 if launch else 2

    def times(rows: Rows, place: Any) -> Any:
        compute, memory = data_sheet_times(kernel, rows.shapes, rows.chip)
        longest = np.maximum(compute / np.exp(place[0]), memory / np.exp(place[1]))
        return longest + (np.exp(place[2]) if launch else 0.0)

    def residuals(place: Any) -> Any:
        return np.log(np.maximum(times(train, place), 1e-12) / train.seconds)

    start = np.log([0.7, 0.7, 5e-6][:names])
    found = least_squares(residuals, start, loss="soft_l1", f_scale=SOFT, max_nfev=200)
    return times(test, found.x)


def _features(rows: Rows) -> Any:
    shape = rows.seconds.shape
    columns = [np.broadcast_to(np.asarray(value, float), shape) for value in rows.shapes.values()]
    return np.log1p(np.stack(columns, axis=1))


def _nearest(kernel: str, train: Rows, test: Rows) -> Any:
    """The time of the nearest row in logarithms of shapes, scaled by the ratio of bounds."""
    near, far = _features(train), _features(test)
    spread = near.std(axis=0)
    near, far = near[:, spread > 0] / spread[spread > 0], far[:, spread > 0] / spread[spread > 0]
    which = np.array([((near - one) ** 2).sum(axis=1).argmin() for one in far])
    return train.seconds[which]


def _forest(kernel: str, train: Rows, test: Rows) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(100, random_state=0, min_samples_leaf=1, n_jobs=1)
    forest.fit(_features(train), np.log(train.seconds))
    return np.exp(forest.predict(_features(test)))


#: Baselines by name.
BASELINES: dict[str, Callable[[str, Rows, Rows], Any]] = {
    "bound": _floor,
    "efficiencies": _efficiencies,
    "efficiencies_and_start": lambda kernel, train, test: _efficiencies(kernel, train, test, launch=True),
    "nearest": _nearest,
    "forest": _forest,
}
