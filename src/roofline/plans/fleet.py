"""A load that changes over a day: the fewest replicas at each time, and what they cost against a fixed number.

One replica keeps the limits up to λ* requests a second, so a rate λ needs ⌈λ / λ*⌉ of them; k replicas are enough up to
k·λ*. With floors that is the fewest there can be; with estimates it is what to expect.

>>> trace = Trace.of([0, 6 * 3600, 18 * 3600, 24 * 3600], [2.0, 10.0, 4.0])
>>> trace.peak, trace.mean
(10.0, 6.5)
>>> [(round(at / 3600), count) for at, count in trace.replicas(3.0)]
[(0, 1), (6, 4), (18, 2)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from roofline.answers import attributes
from roofline.errors import InputError, did_you_mean, quoted, suggest
from roofline.files import MOST_ROWS, as_text, read_bytes, table_rows
from roofline.frozen import dataclass, replace
from roofline.quantity import LEAST, MOST, format_amount, format_number
from roofline.sections import Section, paragraph
from roofline.signatures import either

#: Seconds of an interval into which the times of single requests are gathered.
GATHERED = 60.0
#: What a row may hold.
COLUMNS = ("time", "rate", "prompt", "output")


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests a second over time: ``rates[i]`` from ``times[i]`` to ``times[i + 1]``, in seconds."""

    times: tuple[float, ...]
    rates: tuple[float, ...]
    prompt: int | None = None
    output: int | None = None

    @classmethod
    def of(cls, times: Sequence[float], rates: Sequence[float]) -> Trace:
        """Make a trace: as many rates as stretches of time."""
        if len(times) != len(rates) + 1 or any(later <= first for first, later in pairwise(times)):
            raise InputError("times of a trace do not rise", hint="one row a moment, in order")
        wrong = next((time for time in times if not 0 <= time <= MOST), None)
        if wrong is not None:
            raise InputError(f"a time of {wrong:g} s in a trace", hint="seconds from 0 on, in order")
        hint = f"rates are 0 or from {LEAST:g} to {MOST:g} requests a second, one of them above 0"
        wrong = next((rate for rate in rates if rate and not LEAST <= rate <= MOST), None)
        if wrong is not None:
            raise InputError(f"a rate of {wrong:g} requests/s in a trace", hint=hint)
        if not rates or max(rates) <= 0:
            raise InputError("a trace without requests", hint=hint)
        return cls(tuple(map(float, times)), tuple(map(float, rates)))

    @classmethod
    def read(cls, path: str) -> Trace:
        """Read a CSV file: columns ``time`` (seconds) and ``rate``; or without rates, a row a request.

        Columns ``prompt`` and ``output`` are tokens, of which the means are kept. Others are not read.
        """
        text = as_text(read_bytes(path, "table", hint="a CSV file with columns time and rate"), path)
        hint = "columns time (in seconds) and rate, or time alone"
        rows = list(table_rows(text, path, hint))
        names = [name.strip().lower() for name in rows[0][1]] if rows else []
        if "time" not in names:
            columns = ", ".join(filter(None, names)) or "nothing"
            raise InputError(f"{path} has no column time, its first line has {columns}", hint=hint)
        absent = [name for name in COLUMNS if name not in names]
        meant = {name: did_you_mean(name, absent) for name in names if name and name not in COLUMNS}
        for other, near in meant.items():
            if near or len(absent) == len(COLUMNS) - 1:  # a further column, as an identifier, stands beside known ones
                hint = suggest(other, absent if near else COLUMNS, what="columns")
                wrong = f"{path} has no column {near or 'rate'}, and one that is unknown: {quoted(other)}"
                raise InputError(wrong, hint=hint)
        if len(rows) < 2:
            raise InputError(f"{path} has no rows below its first line", hint=hint)
        times, rates, prompts, outputs = (
            [_figure(path, line, row, names.index(name)) for line, row in rows[1:]] if name in names else []
            for name in COLUMNS
        )
        prompt, output = (max(1, round(sum(each) / len(each))) if each else None for each in (prompts, outputs))
        if rates:
            last = times[-1] + (times[-1] - times[-2] if len(times) > 1 else 3600.0)
            return replace(cls.of([*times, last], rates), prompt=prompt, output=output)
        times.sort()
        count = max(1, math.ceil((times[-1] - times[0]) / GATHERED))
        if count > MOST_ROWS:
            raise InputError(f"{path} spans {times[-1] - times[0]:.3g} s of requests", hint="a trace is some days long")
        seen = [0] * count
        for time in times:
            seen[min(count - 1, int((time - times[0]) / GATHERED))] += 1
        made = cls.of([times[0] + GATHERED * n for n in range(count + 1)], [each / GATHERED for each in seen])
        return replace(made, prompt=prompt, output=output)

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.times[-1] - self.times[0]

    @property
    def peak(self) -> float:
        """The largest rate."""
        return max(self.rates)

    @property
    def mean(self) -> float:
        """The mean rate."""
        return sum(rate * (end - start) for rate, start, end in self._stretches()) / self.seconds

    def replicas(self, each: float) -> list[tuple[float, int]]:
        """The fewest replicas of ``each`` requests a second: from when on, and how many; equal ones are one."""
        found: list[tuple[float, int]] = []
        for rate, start, _ in self._stretches():
            count = max(1, math.ceil(rate / each * (1 - 1e-12)))
            if not found or found[-1][1] != count:
                found.append((start, count))
        return found

    def replica_seconds(self, each: float) -> float:
        """Seconds of replicas in all, where their number follows the rate."""
        return sum(
            max(1, math.ceil(rate / each * (1 - 1e-12))) * (end - start) for rate, start, end in self._stretches()
        )

    def _stretches(self) -> list[tuple[float, float, float]]:
        return [(rate, *ends) for rate, ends in zip(self.rates, pairwise(self.times), strict=True)]


def _figure(path: str, line: int, row: Sequence[str], at: int) -> float:
    try:
        value = float(row[at])
        if not abs(value) < 1e15:  # a span of requests is cut into windows: none may be without end
            raise ValueError
        return value
    except (IndexError, ValueError):
        wrong = f"{path}, line {line}: {row[at] if at < len(row) else 'nothing'!r} is not a number"
        raise InputError(wrong, hint="seconds, and requests a second") from None


@dataclass(frozen=True, slots=True)
class Fleet:
    """A replica that keeps the limits up to ``each`` requests a second, over a trace; ``price`` dollars an hour each.

    ``basis`` is ``floor`` (the fewest there can be) or ``estimate``.
    """

    trace: Trace
    replica: str
    chips: int
    each: float
    price: float | None
    basis: str

    @property
    def at_peak(self) -> int:
        """Replicas at the largest rate."""
        return max(count for _, count in self.trace.replicas(self.each))

    @property
    def mean(self) -> float:
        """Mean number of replicas, where it follows the rate."""
        return self.trace.replica_seconds(self.each) / self.trace.seconds

    @property
    def steps(self) -> list[tuple[float, int]]:
        """Rates from which on one replica more is needed, and how many there are then."""
        return [(count * self.each, count + 1) for count in range(1, self.at_peak)]

    def sections(self) -> tuple[Section, ...]:
        """How many replicas, and what following the rate saves."""
        least = "at least" if self.basis == "floor" else "expected"
        trace, peak = self.trace, self.at_peak
        head = format_number(peak * self.each / trace.peak)
        low, high = format_number(min(trace.rates)), format_number(trace.peak)
        chips = "1 chip" if peak * self.chips == 1 else f"{peak * self.chips:,} chips"
        over = f"over {format_amount(trace.seconds / 3600, '')} h"
        lines = [
            f"rates of {low} to {high}/s {over}, {format_number(trace.mean)}/s on average"
            if low != high
            else f"a rate of {high}/s {over}",
            f"one {self.replica} keeps the limits up to {format_number(self.each)}/s: {least} {peak:,} at the peak "
            f"({chips}, room for {head} times the peak), {format_number(self.mean)} on average",
        ]
        if self.price is not None:
            fixed = peak * self.price * trace.seconds / 3600
            follows = trace.replica_seconds(self.each) / 3600 * self.price
            always = f"${format_number(fixed)} with all of them on"
            lines.append(f"{always}, ${format_number(follows)} where their number follows the rate")
        if self.steps:
            shown = [f"{count} from {format_number(rate)}/s" for rate, count in self.steps[:8]]
            more = f" …; {either('--json', 'to_dict()')} has every step" if len(self.steps) > 8 else ""
            lines.append(f"scale to {', '.join(shown)}{more}")
        return paragraph("the fleet over time", lines)

    def to_dict(self) -> dict[str, Any]:
        """The fleet under stable keys."""
        return {
            **attributes(self, "replica", "chips", "each", "price", "basis", "at_peak", "mean"),
            "peak_rate": self.trace.peak,
            "mean_rate": self.trace.mean,
            "replicas": [{"time": time, "replicas": count} for time, count in self.trace.replicas(self.each)],
        }
