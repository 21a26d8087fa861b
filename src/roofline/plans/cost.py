"""What a deployment costs: dollars and energy of a million tokens, and the interval of its cost by estimates.

Input and output tokens share the chips by the time that each would take by itself: the prefill of a prompt, and the
decode steps of an answer, each over the sequences that it has in flight; chips that only prefill pay for the input.
TDP × time is a ceiling of the energy of these chips: they are on all the time, and draw no more than that for long. Of
a plan by floors it is one only if these chips do: a real run may take more. Hosts, networks and cooling are not in it.

>>> from roofline.plans.answer import plan
>>> found = plan("llama-3-8b", on=["h100"], count=[1], rate=4, prompt=1024, output=128, formats=["bf16"])
>>> power(found.asked, found.best.deployment)
700.0
>>> both = million_tokens(found.asked, found.best)
>>> round(sum(both[name].joules * 4 * n for name, n in (("input", 1024), ("output", 128))))
700

A load that changes over a day: the fewest replicas at each time, and what they cost against a fixed number.

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
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from roofline.answers import attributes
from roofline.bounds.cost import MillionCost, token_cost
from roofline.errors import InputError, did_you_mean, quoted, suggest
from roofline.files import MOST_ROWS, as_text, read_bytes, table_rows
from roofline.frozen import dataclass, replace
from roofline.plans.question import PlanQuestion, of_all_chips
from roofline.plans.replicas import Replica, UnloadedReplica
from roofline.plans.search import Assessment, Deployment, Search
from roofline.quantity import LEAST, MOST, format_amount, format_number, format_percent
from roofline.sections import BLANK, Amount, Cell, Column, Headline, Row, Section, Table, figures, paragraph
from roofline.signatures import either


def power(asked: PlanQuestion, deployment: Deployment) -> float | None:
    """Watts of all chips by their TDP; None where one has none that is known."""
    return of_all_chips(asked.watts, deployment.numbers)


def million_tokens(asked: PlanQuestion, choice: Assessment) -> dict[str, MillionCost]:
    """The cost of a million input and output tokens at the load: shares of the chips' time, or chips of their own.

    Answers of one token are prefill's: then there are costs of input tokens alone.
    """
    load, share, pools = asked.load, choice.prefill_share, choice.deployment.pools
    parts = (share, 1 - share) if len(pools) == 1 else (1.0, 1.0)
    made = {"input": (pools[0], parts[0], load.prompt), "output": (pools[-1], parts[1], load.output)}
    return {
        name: token_cost(
            time=part, tokens=load.rate * tokens, price=of_all_chips(asked.prices.get, pool.numbers),
            power=power(asked, pool),
        )
        for name, (pool, part, tokens) in made.items()
        if name == "input" or load.output > 1
    }  # fmt: skip


def cost_lines(asked: PlanQuestion, choice: Assessment) -> Iterator[str]:
    """Dollars of tokens and the ceiling of their energy, in words."""
    both = million_tokens(asked, choice)
    shared = f"prefill has {format_percent(choice.prefill_share)} of the chip time used"
    dollars = [
        f"${format_number(float(cost.dollars))} a million {name} tokens"
        for name, cost in both.items()
        if cost.dollars is not None
    ]
    if dollars:
        yield f"{', '.join(dollars)}: {shared}"
    energy = [
        f"{format_amount(float(cost.joules), 'J')} an {name} token "
        f"({format_number(float(cost.kilowatt_hours))} kWh a million)"
        for name, cost in reversed(both.items())
        if cost.joules is not None and cost.kilowatt_hours is not None
    ]
    if energy:
        watts = format_number(power(asked, choice.deployment) or 0.0)
        more = "" if dollars else f"; {shared}"
        energy[-1] += ceiling_holds(asked)
        yield f"energy at most {', '.join(energy)}: TDP of {watts} W all the time{more}"


def ceiling_holds(asked: PlanQuestion) -> str:
    """When TDP times time is a ceiling: by floors only if a real run takes no more chips."""
    return "" if asked.library is not None else " if these chips do"


def cost_sections(asked: PlanQuestion, choices: Sequence[Assessment], most: int) -> tuple[Section, ...]:
    """Dollars and energy of a million tokens of each choice, as a table whose first ``most`` rows are shown."""
    names = ["input"] + ["output"] * (asked.load.output > 1)
    heads = [f"$ {name}" for name in names if asked.prices]
    heads += [*(f"kWh {name}" for name in names), f"an {names[-1]} token"]

    def row(choice: Assessment) -> Row:
        costs = million_tokens(asked, choice)
        joules = costs[names[-1]].joules
        dollars = [costs[name].dollars for name in names if asked.prices]
        energy = [costs[name].kilowatt_hours for name in names]
        cells: list[Cell] = [
            "" if each is None else Amount(each, "", f"${format_number(float(each))}") for each in dollars
        ]
        cells += ["" if each is None else Amount(each, "", format_number(float(each))) for each in energy]
        return Row((str(choice.deployment), *cells, "" if joules is None else Amount(joules, "J")))

    head = Headline(
        "a million tokens", f"dollars and kWh, energy at most{ceiling_holds(asked)}: TDP all the time", level=2
    )
    columns = (Column("deployment", wrap="words", least=20), *figures(*heads))
    rows = [row(choice) for choice in choices[:most]]
    return BLANK, head, Table(columns, rows, "costs", indent=4, every=lambda: [row(choice) for choice in choices])


class ScaledSearch(Search):
    """A search whose replicas take as long as one end of their interval says: 0 the low one, 1 the high one."""

    def __init__(self, base: Search, end: int) -> None:
        super().__init__(base.asked)
        self.base, self.end = base, end

    def priced(self, replica: Replica) -> UnloadedReplica | str:
        if replica not in self._priced:
            found = self.base.priced(replica)
            self._priced[replica] = found if isinstance(found, str) else found.slower(found.interval[self.end])
        return self._priced[replica]


def cost_interval(search: Search, group: Sequence[Replica]) -> tuple[float, float]:
    """The cost of the cheapest of some replicas where steps take as long as each end of their interval says."""
    found = [ScaledSearch(search, end).best_of(tuple(group)) for end in (0, 1)]
    low, high = (float("inf") if each is None else each.cost for each in found)
    return min(low, high), high


def plain_costs(asked: PlanQuestion, choice: Assessment) -> dict[str, Any]:
    """Costs of tokens under stable keys; None where no price or no TDP is known, or the load cannot be served."""
    both = {} if choice.first_token is None else million_tokens(asked, choice)
    found: dict[str, Any] = {"power": power(asked, choice.deployment)}
    for name in ("input", "output"):
        cost = both.get(name, MillionCost(None, None, None))
        found[f"cost_per_million_{name}_tokens"] = cost.dollars
        found[f"most_joules_per_{name}_token"] = cost.joules
        found[f"most_kilowatt_hours_per_million_{name}_tokens"] = cost.kilowatt_hours
    return found


#: Seconds of an interval into which the times of single requests are gathered.
GATHERED = 60.0
#: One prompt in twenty is so many times as long as the mean where prompts are called uneven.
UNEVEN = 1.25
#: What a row may hold.
COLUMNS = ("time", "rate", "prompt", "output")


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests a second over time: ``rates[i]`` from ``times[i]`` to ``times[i + 1]``, in seconds.

    ``prompt`` and ``output`` are means; one prompt in twenty is at least as long as ``long_prompt``.
    """

    times: tuple[float, ...]
    rates: tuple[float, ...]
    prompt: int | None = None
    output: int | None = None
    long_prompt: int | None = None

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
        least = min((*prompts, *outputs), default=0.0)
        if least < 0:
            raise InputError(f"a prompt or an answer of {least:g} tokens in a trace", hint="tokens from 0 on")
        prompt, output = (max(1, round(sum(each) / len(each))) if each else None for each in (prompts, outputs))
        longer = round(sorted(prompts)[math.ceil(0.95 * len(prompts)) - 1]) if prompts else None
        if rates:
            last = times[-1] + (times[-1] - times[-2] if len(times) > 1 else 3600.0)
            return replace(cls.of([*times, last], rates), prompt=prompt, output=output, long_prompt=longer)
        times.sort()
        count = max(1, math.ceil((times[-1] - times[0]) / GATHERED))
        if count > MOST_ROWS:
            raise InputError(f"{path} spans {times[-1] - times[0]:.3g} s of requests", hint="a trace is some days long")
        seen = [0] * count
        for time in times:
            seen[min(count - 1, int((time - times[0]) / GATHERED))] += 1
        made = cls.of([times[0] + GATHERED * n for n in range(count + 1)], [each / GATHERED for each in seen])
        return replace(made, prompt=prompt, output=output, long_prompt=longer)

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
        return sum(rate * (end - start) for rate, (start, end) in self._stretches()) / self.seconds

    def replicas(self, each: float) -> list[tuple[float, int]]:
        """The fewest replicas of ``each`` requests a second: from when on, and how many; equal ones are one."""
        runs = groupby(self._counts(each), key=itemgetter(0))
        return [(start, count) for count, ((_, start, _), *_) in runs]

    def replica_seconds(self, each: float) -> float:
        """Seconds of replicas in all, where their number follows the rate."""
        return sum(count * (end - start) for count, start, end in self._counts(each))

    def _counts(self, each: float) -> list[tuple[int, float, float]]:
        """The fewest replicas in each stretch of time."""
        return [(max(1, math.ceil(rate / each * (1 - 1e-12))), *ends) for rate, ends in self._stretches()]

    def _stretches(self) -> Iterator[tuple[float, tuple[float, float]]]:
        return zip(self.rates, pairwise(self.times), strict=True)


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
        if trace.prompt and trace.long_prompt and trace.long_prompt > UNEVEN * trace.prompt:
            lines.append(
                f"one prompt in twenty has {trace.long_prompt:,} tokens or more: times are of prompts that all have "
                f"{trace.prompt:,}, and TTFT at a percentile is longer"
            )
        return paragraph("the fleet over time", lines)

    def to_dict(self) -> dict[str, Any]:
        """The fleet under stable keys."""
        return {
            **attributes(self, "replica", "chips", "each", "price", "basis", "at_peak", "mean"),
            "prompt": self.trace.prompt,
            "long_prompt": self.trace.long_prompt,
            "peak_rate": self.trace.peak,
            "mean_rate": self.trace.mean,
            "replicas": [{"time": time, "replicas": count} for time, count in self.trace.replicas(self.each)],
        }
