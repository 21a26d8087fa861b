"""What a replica can give at each number of sequences, where its limits are, and what more of a figure is worth.

With n sequences always at work, a replica gives n / ((o − 1)·t(n) + n·h(n)) answers a second, and a token takes
t(n) + h(n)/(o − 1). For a dense model whose step moves W + n·K bytes and does n·F FLOPs, with memory at R and
arithmetic at P::

    sequences within τ        (R·(τ − t0) − W) / K
    sequences in memory       (M − W_stored) / K_stored
    compute-bound from        W / (F·R/P − K),  only where F·R/P > K
    tokens a second tend to   min(R/K, P/F)

>>> from roofline.models import load
>>> from roofline.plans.question import Limits, Load, PlanQuestion
>>> from roofline.plans.replicas import Replica, unloaded
>>> limits = Limits(per_token=0.01)
>>> asked = PlanQuestion(load("llama-3-8b"), Load(4, 1024, 128), limits, ("h100",), (1,), objective="chips")
>>> found = corners(unloaded(asked, Replica("h100", "bf16")))
>>> found.within_limit, found.in_memory, found.compute_bound_from
(122, 399, None)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roofline.answers import attributes, figures_of
from roofline.frozen import dataclass, replace
from roofline.hardware.rate import data_level
from roofline.models.serving import step_bound
from roofline.plans.load import ServerTimes
from roofline.plans.question import PlanQuestion
from roofline.plans.replicas import FORMATS, Replica, UnloadedReplica, divides, step_options
from roofline.quantity import format_amount, format_number
from roofline.sections import BLANK, Column, Headline, Row, Section, Sentences, Table, figures

#: How much a figure is changed to see what it is worth.
MORE = 1.01

#: Steps of the search for the largest rate within the limits.
HALVINGS = 14

#: Loads of a curve.
LOADS = 16


@dataclass(frozen=True, slots=True)
class ReplicaCorners:
    """Where a replica's curve of throughput over time per token changes; sequences, and tokens a second of a replica.

    ``within_limit`` are the most sequences whose time per token keeps its limit, ``in_memory`` the most that fit,
    ``compute_bound_from`` the fewest whose step is bound by arithmetic (None: none that fit).
    """

    within_limit: int | None
    in_memory: int
    compute_bound_from: int | None
    tends_to: float

    def to_dict(self) -> dict[str, Any]:
        """The corners under their names."""
        return attributes(self, "within_limit", "in_memory", "compute_bound_from", "tends_to")


def decode_tends_to(times: UnloadedReplica, about: int) -> float:
    """Tokens a second as sequences grow without end, along the line through ``about`` of them and twice as many.

    For a mixture of experts, whose weights read grow with n, it holds near these steps.
    """
    asked, replica = times.asked, times.replica
    step = step_bound(
        asked.model, "decode", on=asked.machine(replica.target), context=asked.load.mean_context,
        batch=np.array([about, 2 * about], dtype=np.float64) * replica.copies, **step_options(asked, replica),
    )  # fmt: skip
    level = step.machine.over or times.memory.level
    moved, moving, flops = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), 2)
        for each in (step.bytes[level], step.times[level], step.flops)
    )
    busiest = max(float(np.max(use.time)) for use in step.uses if use.quantity == "flops")
    limits = ((moved, moved[0] / moving[0]), (flops, np.max(flops) / busiest))
    return min((float(rate * about / np.diff(each)[0]) for each, rate in limits if np.diff(each)), default=float("inf"))


def corners(times: UnloadedReplica) -> ReplicaCorners:
    """The corners of a replica, read from its steps; a step's own line gives what they tend to."""
    limit = times.asked.limits.per_token
    several = times.server().tokens_per_step
    quick = np.flatnonzero(times.step[1:] / several <= limit) if limit is not None else None
    within = None if quick is None else int(quick.max()) + 1 if len(quick) else 0
    memory = times.memory.level
    names = times.step_bound_by
    units = {unit.name for unit in times.asked.machine(times.replica.target).units}
    from_here = next((n for n in range(1, times.most + 1) if names[n] in units and names[n] != memory), None)
    half = max(1, times.most // 2)
    if times.replica.draft:  # of drafts and checks together: along their last steps
        more = float(times.step[-1] - times.step[half]) / max(times.most - half, 1)
        return ReplicaCorners(within, times.most, from_here, several / more if more > 0 else float("inf"))
    return ReplicaCorners(within, times.most, from_here, decode_tends_to(times, half))


@dataclass(frozen=True, slots=True, eq=False)
class ServingCurve:
    """A replica's unloaded curve: for each number of sequences its time per token and output tokens a second a chip."""

    replica: Replica
    sequences: Any
    per_token: Any
    per_chip: Any
    bound_by: tuple[str, ...]
    corners: ReplicaCorners

    def segments(self) -> Iterator[tuple[int, int, str]]:
        """Stretches of sequences with what binds there: first, last, and its name."""
        first = 0
        for at in range(1, len(self.bound_by) + 1):
            if at == len(self.bound_by) or self.bound_by[at] != self.bound_by[first]:
                yield int(self.sequences[first]), int(self.sequences[at - 1]), self.bound_by[first]
                first = at


def serving_curve(times: UnloadedReplica, server: ServerTimes) -> ServingCurve:
    """The curve of a replica that takes prompts in some way, every place always taken."""
    n = np.arange(1, server.most + 1)
    steps = max(server.decode_steps, 1.0)
    each = server.unloaded_gaps[1:]
    answers = n / (steps * server.step[1:] + n * server.stall[1:])
    made = answers * times.asked.load.output / times.replica.chips
    return ServingCurve(times.replica, n, each, made, times.step_bound_by[1 : server.most + 1], corners(times))


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCurve:
    """A replica under loads up to its largest rate: times at the percentile, sequences, output tokens a second a chip.

    An entry for each load, the least first.
    """

    replica: Replica
    per_token: Any
    first_token: Any
    in_flight: Any
    per_chip: Any


def loaded_curve(times: UnloadedReplica, chunk: int, most: int, rate: float) -> LoadedCurve:
    """A replica under loads from a tenth of its largest rate, among them ``rate`` requests a second."""
    server = times.server(chunk, most=most)
    rates = np.append(np.linspace(0.1, 0.97, LOADS) * server.largest_rate, rate)
    found = []
    for each in np.unique(rates[rates < server.largest_rate]):
        loaded = server.under(float(each), times.asked.limits.share)
        first, gap = loaded.time_to_first_token.percentile + times.lag, loaded.time_per_token.percentile
        found.append((gap, first, loaded.in_flight, each * times.asked.load.output / times.replica.chips))
    return LoadedCurve(times.replica, *np.array(found).T)


def largest_rate_within(times: UnloadedReplica, chunk: int, most: int) -> float:
    """The largest rate of requests at which one replica keeps the limits, by halving."""
    server = times.server(chunk, most=most)
    limits = times.asked.limits
    low, high = 0.0, server.largest_rate
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        found = times.under(server.under(rate, limits.share))
        kept = all(found[name].percentile <= limit for name, limit in limits.items())
        low, high = (rate, high) if kept else (low, rate)
    return low


def elasticities(asked: PlanQuestion, replica: Replica, chunk: int, most: int) -> dict[str, float]:
    """Per cent more requests within the limits for one per cent more of a figure, one replica at its limits.

    Figures are those of the chip that a step meets: memory's bandwidth and capacity, peaks, links. One per cent off
    the price is one per cent off the cost, whatever else there is.
    """
    before = divides(asked, replica)
    if isinstance(before, str) or before.most < 1:
        return {}
    rate = largest_rate_within(before, chunk, 0 if most >= before.most else most)
    found: dict[str, float] = {}
    for name, figure, value in _figures(asked, replica):
        given = figures_of(replica.target, asked.chips, asked.options).get("set", {})
        changed = replace(asked, options={**asked.options, "set": {**given, figure: value * MORE}})
        after = divides(changed, replica)
        if isinstance(after, str) or (asked.library is not None and after.as_quick_as(before)):
            continue  # constants that do not follow a figure say nothing of its worth
        if rate > 0:
            # where memory holds more, an engine may still admit as few as before
            counts = {min(most or before.most, after.most), 0 if most >= before.most else most}
            more = max(largest_rate_within(after, chunk, each) for each in counts)
            found[name] = (more / rate - 1) / (MORE - 1)
    return found


def _figures(asked: PlanQuestion, replica: Replica) -> Iterator[tuple[str, str, float]]:
    """Figures of a chip: how they read, how they are set, and what they are."""
    machine = asked.machine(replica.target)
    level = data_level(machine)
    if level.bandwidth is not None:
        yield f"{level.name} bandwidth", level.name, level.bandwidth.value
    if level.capacity is not None:
        yield f"{level.name} capacity", f"{level.name}.capacity", level.capacity.value
    dtype = FORMATS[replica.formats].get("compute", "bf16")
    unit = next((unit for unit in machine.units if dtype in unit.peaks), None)
    if unit is not None:
        yield f"{dtype} peak", f"{unit.name}.{dtype}", unit.peaks[dtype].value
    if replica.chips > 1 and machine.links and machine.links[0].bandwidth is not None:
        yield f"{machine.links[0].name} bandwidth", machine.links[0].name, machine.links[0].bandwidth.value


def frontier_sections(
    curves: list[ServingCurve], worth: dict[str, float], even: list[tuple[str, float]]
) -> Iterator[Section]:
    """Each chip's curve by what binds, its corners, what figures are worth, and prices that change the answer."""
    yield from (
        BLANK,
        Headline("what would change it", "each chip's best replica, or each format's, every place taken", level=2),
    )
    rows = []
    for curve in curves:
        for first, last, binds in curve.segments():
            ends = [format_amount(float(curve.per_token[n - 1]), "s") for n in (first, last)]
            made = format_number(float(curve.per_chip[last - 1]))
            rows.append(Row((str(curve.replica), binds, f"{first:,} to {last:,}", " to ".join(ends), f"{made}/s")))
    names = (
        Column("replica", wrap="words"),
        Column("bound by", meaning="binds"),
        *figures("sequences", "a token", "output tokens a chip"),
    )
    if rows:
        yield Table(names, rows, "frontier", indent=4)
    lines = []
    for curve in curves:
        at = curve.corners
        words = [f"memory holds {at.in_memory:,} sequences"]
        if at.within_limit is not None:
            words.append(f"the time per token allows {at.within_limit:,}")
        flips = at.compute_bound_from
        words.append("compute-bound at none" if flips is None else f"compute-bound from {flips:,}")
        words.append(f"decode tends to {format_number(at.tends_to)} tokens/s a replica without end")
        lines.append(f"{curve.replica}: {', '.join(words)}")
    if worth:
        shown = ", ".join(f"{name} {value:+z.2f}%" for name, value in worth.items())
        lines.append(f"1% more is worth, in requests within the limits: {shown}")
    for name, price in even:
        lines.append(f"{name} would cost the same at ${format_number(price)} a chip an hour")
    yield Sentences(lines, indent=4)
