"""What to expect of many rows at once: sizes that are arrays, and the rows of a sweep.

Rows that run as the same kernels are worked out together. Where a choice of kernels depends on the sizes, ``decided``
says which rows go apart, and each part is asked again.

>>> import roofline
>>> found = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=[8, 4096], D=8192, F=8192, estimate=True)
>>> one = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=4096, D=8192, F=8192, estimate=True)
>>> bool(abs(found.estimate[1] / one.estimate - 1) < 1e-12), found.expectation.low.shape
(True, (2,))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.answers import MADE_TO_HOLD, plain_data
from roofline.bounds.bound import Bound
from roofline.bounds.question import Question
from roofline.frozen import dataclass, field
from roofline.lazy import np
from roofline.quantity import format_amount
from roofline.sizes import common_shape, is_array
from roofline.statements import Assumption

#: Rows that are asked at once: with so many the asking costs little, and a column of them stays in cache.
ROWS_AT_ONCE = 16384


class DecidedApart(Exception):
    """Some rows run as other kernels than the rest; ``holds`` says for each row on which side it is."""

    def __init__(self, holds: Any) -> None:
        super().__init__()
        self.holds = holds


def decided(holds: Any) -> bool:
    """Whether a condition holds; over rows where it holds for all or for none, else these go apart.

    >>> import numpy as np
    >>> decided(3 > 2), decided(np.array([3, 4]) > 2)
    (True, True)
    """
    if not is_array(holds) or holds.size == 1:
        return bool(holds)
    if holds.all() or not holds.any():
        return bool(holds.flat[0])
    raise DecidedApart(holds)


def of_one_value(value: Any) -> float:
    """A figure as a number; rows in which it is another go apart."""
    if is_array(value) and value.size > 1:
        middle = value.min() / 2 + value.max() / 2
        decided(value <= middle if value.min() < value.max() else value == value)
        value = value.flat[0]
    return float(value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowExpectations:
    """Expected seconds of every row with an interval of 80%; NaN where no constants are known, ``is_known`` says where.

    ``value``, ``low`` and ``high`` have the shape that the sizes broadcast to. ``estimator`` has the constants.
    ``held`` has the share of runs that the intervals hold, by its words: other than 80% where they held far fewer,
    None of a format, or a kind of kernel, in which none was measured.
    """

    value: Any
    low: Any
    high: Any
    library: str
    assumptions: tuple[Assumption, ...] = ()
    kernels: tuple[Any, ...] = field(default=())
    estimator: Any = None
    held: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def is_known(self) -> Any:
        """In which rows it rests on constants."""
        return self.value == self.value

    def __repr__(self) -> str:
        return f"<RowExpectations: {self.in_words()}>"

    def in_words(self, what: str = "") -> str:
        """The expected times, and of how many rows they are known."""
        known, of = self.is_known, what and f"{what}: "
        if not known.any():
            why = f"no constants of {self.library} are known for these rows, so only their bounds hold"
            return f"{of}no expectation: {why}"
        some = "" if known.all() else f" in {int(known.sum()):,} of {known.size:,} rows"
        whose = "of 80% of its own" if [*self.held] == ["80%"] else f"of its own ({' or '.join(self.held)})"
        return f"{of}expect {format_amount(self.value, 's')}{some}, each with an interval {whose}"

    def explanation(self) -> list[str]:
        """The expected times in words."""
        return [self.in_words()]

    def to_dict(self) -> dict[str, Any]:
        """The times of all rows, None where nothing is known (schema ``roofline/expectation/1``)."""
        times = {"time": self.value, "low": self.low, "high": self.high}
        return {
            "schema": "roofline/expectation/1",
            "known": plain_data(self.is_known),
            **{name: plain_data(each) for name, each in times.items()},
            "coverage": None if None in self.held.values() else min(filter(None, self.held.values()), default=None),
            "parts": {},
            "library": self.library,
            "kernels": [],
            "assumptions": list(self.assumptions),
        }


def expect_rows(
    asked: Question,
    columns: Mapping[str, Any],
    of_operations: Callable[[Bound], Any],
    in_sentences: Callable[[list[Any]], tuple[Assumption, ...]],
    library: str,
) -> RowExpectations:
    """What to expect of a question at columns of its sizes and amounts, which broadcast against each other."""
    shape = common_shape(columns)
    flat = {name: np.broadcast_to(np.asarray(each, np.float64), shape).reshape(-1) for name, each in columns.items()}
    every = np.arange(int(np.prod(shape)))
    found = np.full((3, every.size), np.nan)
    parts: list[Any] = []
    held: dict[str, float | None] = {}
    waiting = [every[start : start + ROWS_AT_ONCE] for start in range(0, every.size, ROWS_AT_ONCE)][::-1]
    while waiting:
        rows = waiting.pop()
        here = {name: each[rows] for name, each in flat.items()}
        sizes = {**asked.sizes, **{name: here[name] for name in asked.size_names if name in here}}
        raw = {name: here.get(name, amount) for name, amount in asked.raw.items()}
        try:
            one = of_operations(asked.vary(sizes=sizes, raw=raw).answer())
            decided(one.is_known)
            held |= {one.holds: one.coverage} if decided(one.is_known) else {}
        except DecidedApart as apart:
            holds = np.broadcast_to(apart.holds, rows.shape)
            waiting += [rows[~holds], rows[holds]]
            continue
        if decided(one.is_known):
            found[:, rows] = np.stack([np.broadcast_to(each, rows.shape) for each in (one.value, one.low, one.high)])
            parts.append(one)
    value, low, high = (each.reshape(shape) for each in found)
    return RowExpectations(value, low, high, library, in_sentences(parts), held=held)


def rows_together(found: Sequence[Any], library: str, shape: Sequence[int] = (-1,)) -> RowExpectations:
    """What is expected of rows that were asked one by one, None where a row has no answer, in a shape."""
    known = [each is not None and getattr(each, "is_known", True) for each in found]
    rows = zip(found, known, strict=True)
    times = [(each.value, each.low, each.high) if there else (np.nan,) * 3 for each, there in rows]
    value, low, high = (each.reshape(shape) for each in np.asarray(times, np.float64).T)
    said = dict.fromkeys(line for each in found if each is not None for line in getattr(each, "assumptions", ()))
    held = {
        getattr(each, "holds", "80%"): getattr(each, "coverage", MADE_TO_HOLD)
        for each in (each for each, there in zip(found, known, strict=True) if there)
    }
    return RowExpectations(value, low, high, library, tuple(said), held=held)


def columns_of(asked: Question) -> dict[str, Any]:
    """The sizes and amounts of a question that are arrays."""
    return {name: each for name, each in {**asked.sizes, **asked.raw}.items() if is_array(each)}
