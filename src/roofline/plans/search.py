"""Every deployment against the limits: what meets them at the least cost, and one reason for each of the others.

A deployment is a number of replicas, how prompts are taken, and how many sequences each has at once. It is turned down
by the first of these that holds:

    legal     the model does not divide so, or no such chips are joined
    fit       weights, activations and one sequence are more than an engine may use of a chip
    limit     without any load it takes longer than a limit
    rate      it does not keep up: requests come faster than its largest stable rate
    load      under the load it takes longer than a limit
    beaten    another meets the limits at less cost, or at the same cost with more room

The search goes by cost: a replica is priced, and a load solved, once nothing cheaper is left. Fewer replicas have a
larger load each, so the first number that meets the limits is the cheapest of its kind.

Prefill and decode on chips of their own: the cheapest pool for each, of any kinds of chips, and their ratio. Prompts
queue for prefill as M/G/1, each server with an even share of them; the times to first token are theirs. Keys and values
then go to a server that decodes, whose chain has no prompts in it: the transfer, and the waits for a place and for the
step at work there, come before the second token. Pairs of pools that keep their own limits are tried by cost, until one
keeps all limits together and has an allowed number of chips of each kind: none is cheaper.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from roofline.frozen import NamedTuple, dataclass, replace
from roofline.grids.blocks import RowBlock
from roofline.models.serving.disaggregation import link_bandwidth
from roofline.plans.load import LatencyUnderLoad, LoadedServer, ServerTimes, request_times
from roofline.plans.question import LIMIT_NAMES, PlanQuestion, of_all_chips
from roofline.plans.replicas import FORMATS, Replica, UnloadedReplica, WithoutConstants, divides, replicas
from roofline.quantity import format_amount, format_number, format_percent
from roofline.sizes import grouped

#: Reasons in the order in which they are looked for.
KINDS = ("legal", "fit", "limit", "rate", "load", "beaten")

#: A share of keys, values and weights that is no second copy: norms that every chip has.
EVENLY = 1e-3

#: Numbers of sequences between what the time per token allows and what memory holds that are tried.
BETWEEN = 2


@dataclass(frozen=True, slots=True)
class Deployment:
    """So many replicas with at most ``most`` sequences each; prompts whole (``chunk`` 0), in chunks, or apart.

    ``prefill`` are the replicas that only prefill, where there are such, and their number.
    """

    replica: Replica
    copies: int
    chunk: int = 0
    most: int = 0
    prefill: Replica | None = None
    prefill_copies: int = 0

    @property
    def chips(self) -> int:
        """Chips in all."""
        return sum(self.numbers.values())

    @property
    def numbers(self) -> Mapping[str, int]:
        """Chips of each kind."""
        found: Counter[str] = Counter()
        for pool in self.pools[::-1]:
            found[pool.replica.chip] += pool.replica.chips * pool.copies
        return found

    @property
    def takes_prompts(self) -> str:
        """How prompts are taken, in words."""
        if self.prefill is not None:
            return "in own pool"
        return f"chunks of {self.chunk:,}" if self.chunk else "whole"

    def __str__(self) -> str:
        named = [
            f"{pool.replica.chip}:{pool.replica.chips * pool.copies} {pool.replica.described}" for pool in self.pools
        ]
        return named[0] if len(named) == 1 else "prefill {}, decode {}".format(*named)

    @property
    def pools(self) -> tuple[Deployment, ...]:
        """The replicas that only prefill and those that decode, each as a deployment of its own; or itself alone."""
        if self.prefill is None:
            return (self,)
        own = replace(self, prefill=None, prefill_copies=0)
        return replace(own, replica=self.prefill, copies=self.prefill_copies, most=0), own


class Reason(NamedTuple):
    """Why a deployment is not taken: its kind, in words, and how far off: the value over what is allowed."""

    kind: str
    text: str
    excess: float = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """A deployment on the question's load: what it costs and takes, and why it is not taken; None: it meets all.

    Attributes
        ``cost``          what the best plan has least of: dollars an hour, watts, or without prices the number of chips
        ``cost_per_hour`` dollars an hour; None without prices
        ``is_ranked``     whether the price, or power, of its chips is known; without it ``cost`` is chips, and it comes
                          after all others
        ``first_token``, ``per_token``, ``token_gap``, ``end_to_end``  seconds of a request, mean and percentile
        ``largest_rate``  requests a second that it keeps up with; ``in_flight`` those that a replica decodes at once
        ``prefill_share`` of the chips' time that prefill takes (0 to 1)
        ``bound_by``      what limits the rate: what binds the steps, or the prompts, that take most of the time at the
                          largest rate; ``prompt_bound_by`` what binds prefill
        ``interval``      of an estimate: the ends of its interval, over its value
    """

    deployment: Deployment
    cost: float
    reason: Reason | None
    first_token: LatencyUnderLoad | None = None
    per_token: LatencyUnderLoad | None = None
    end_to_end: LatencyUnderLoad | None = None
    largest_rate: float = 0.0
    in_flight: float = 0.0
    prefill_share: float = 0.0
    bound_by: str = ""
    prompt_bound_by: str = ""
    tightness: float = float("inf")
    token_gap: LatencyUnderLoad | None = None
    interval: tuple[float, float] = (1.0, 1.0)
    cost_per_hour: float | None = None
    is_ranked: bool = True

    def __repr__(self) -> str:
        """The deployment with its chips and times of a request, or why it is not taken."""
        chips = f"{self.chips:,} chip{'s' * (self.chips > 1)}"
        cost = "" if self.cost_per_hour is None else f", ${format_number(self.cost_per_hour)} an hour"
        times = {"first token": self.first_token, "a token": self.per_token}
        said = [f"{name} {format_amount(time.mean, 's')}" for name, time in times.items() if time is not None]
        why = "; ".join(filter(None, [", ".join(said), self.reason and self.reason.text]))
        return f"<Assessment {self.deployment}, {chips}{cost}{why and ': '}{why}>"

    @property
    def chip(self) -> str:
        """The kind of chip that decodes."""
        return self.deployment.replica.chip

    @property
    def chips(self) -> int:
        """Chips in all, those that only prefill with them."""
        return self.deployment.chips

    @property
    def order(self) -> tuple[bool, float, float]:
        """What is ranked first, then cost, then how near the nearest limit is."""
        return (not self.is_ranked, self.cost, self.tightness)

    @property
    def miss(self) -> tuple[int, float, float]:
        """How far it is from the limits: what came up last is nearest, then by how much."""
        if self.reason is None:
            return (-len(KINDS), 0.0, self.cost)
        return (-KINDS.index(self.reason.kind), self.reason.excess, self.cost)


class SearchedGroup(NamedTuple):
    """The best of a group of replicas, what each takes without load, and every deployment whose load was solved."""

    best: Assessment | None
    priced: Mapping[Replica, UnloadedReplica | str]
    assessed: Mapping[Deployment, Assessment]


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """The search as blocks of work: a group of replicas, those of one chip and format, is a block."""

    asked: PlanQuestion
    groups: tuple[tuple[Replica, ...], ...]

    def blocks(self) -> list[RowBlock]:
        """A block for each group, its rows the replicas."""
        ends = list(itertools.accumulate(map(len, self.groups)))
        return [RowBlock(n, end - len(self.groups[n]), end, 0, ()) for n, end in enumerate(ends)]

    def prepared(self, choice: int) -> None:
        """Nothing: what replicas have in common is the question."""

    def run(self, prepared: None, block: RowBlock) -> SearchedGroup:
        """Search one group."""
        return Search(self.asked).searched(self.groups[block.number])


class Search:
    """A question's deployments, priced once and assessed once each."""

    def __init__(self, asked: PlanQuestion) -> None:
        self.asked = asked
        self.replicas = replicas(asked)
        self._priced: dict[Replica, UnloadedReplica | str] = {}
        self._assessed: dict[Deployment, Assessment] = {}

    def priced(self, replica: Replica) -> UnloadedReplica | str:
        """A replica without load, or why there is none such."""
        if replica not in self._priced:
            self._priced[replica] = divides(self.asked, replica)
        return self._priced[replica]

    def without_constants(self) -> dict[str, str]:
        """The chips none of whose replicas has times, as constants are not known, with the reason."""
        found: dict[str, str] = {}
        for replica, times in self._priced.items():
            if isinstance(times, WithoutConstants):
                found.setdefault(replica.chip, times)
        known = {replica.chip for replica, times in self._priced.items() if not isinstance(times, str)}
        return {chip: text for chip, text in found.items() if chip not in known}

    def times(self, replica: Replica) -> UnloadedReplica:
        """What a replica takes without load that is known to be legal."""
        found = self.priced(replica)
        assert not isinstance(found, str)
        return found

    def server(self, deployment: Deployment) -> ServerTimes:
        """A replica of a deployment as a server: requests go to each at random."""
        apart, most = deployment.prefill is not None, deployment.most
        made = self.times(deployment.replica).server(deployment.chunk, most=most, apart=apart)
        return made.one_of(deployment.copies)

    def searched(self, group: tuple[Replica, ...]) -> SearchedGroup:
        """The best of some replicas, with all that was priced and assessed on the way."""
        return SearchedGroup(self.best_of(group), self._priced, self._assessed)

    def take(self, found: SearchedGroup) -> Assessment | None:
        """Take what another search of the same question found; the best of its replicas."""
        self._priced.update(found.priced)
        self._assessed.update(found.assessed)
        return found.best

    def afresh(self) -> Search:
        """The same search with nothing assessed yet; a replica has the same times whatever is asked of it."""
        found = Search(self.asked)
        found._priced.update(self._priced)
        return found

    def cost(self, deployment: Deployment) -> float:
        """What the objective counts: dollars an hour, chips or watts; chips where those of a kind are not known."""
        found = of_all_chips(self.asked.weight, deployment.numbers)
        return float(deployment.chips) if found is None else found

    def assess(self, deployment: Deployment) -> Assessment:
        """A deployment against the limits, whatever others there are."""
        if deployment not in self._assessed:
            found = self._assess(deployment)
            numbers = deployment.numbers
            ranked = not any(chip in self.asked.unweighted for chip in numbers)
            dollars = of_all_chips(self.asked.prices.get, numbers)
            self._assessed[deployment] = replace(found, cost_per_hour=dollars, is_ranked=ranked)
        return self._assessed[deployment]

    def _assess(self, deployment: Deployment) -> Assessment:
        cost = self.cost(deployment)
        found = self.unloaded_reason(deployment.replica, only="" if deployment.prefill is None else "per_token")
        times = self.priced(deployment.replica)
        if found is not None or isinstance(times, str):
            return Assessment(deployment, cost, found)
        if deployment.prefill is not None:
            return _assess_apart(self, deployment, times)
        server = self.server(deployment)
        rate = self.asked.load.rate / deployment.copies
        if rate >= server.largest_rate:
            largest = server.largest_rate * deployment.copies
            return Assessment(deployment, cost, _slow(rate, server), largest_rate=largest)
        loaded = server.under(rate, self.asked.limits.share)
        return self.under_load(deployment, times.under(loaded), loaded, times)

    def under_load(
        self, deployment: Deployment, values: Mapping[str, LatencyUnderLoad], loaded: LoadedServer,
        times: UnloadedReplica,
    ) -> Assessment:  # fmt: skip
        """An assessment of times of a request under load."""
        excess = {name: values[name].percentile / limit for name, limit in self.asked.limits.items()}
        worst = max(excess, key=lambda name: excess[name], default=None)
        server, at_work = loaded.server, max(1, round(loaded.in_flight))
        binds, n = times.step_bound_by[min(at_work, times.most)], min(at_work, server.most)
        reason = None
        if worst is not None and excess[worst] > 1:
            through = times.prompt_bound_by if worst == "first_token" else binds
            text = self.missed(worst, values[worst].percentile, f"p{self.asked.limits.percentile:g}", through)
            reason = Reason("load", text, excess[worst])
        # a request's share of the decode steps it is in, in seconds of the replica, no prompt beside
        decoding = server.decode_steps * float(server.step[n]) / n
        share = times.prompt / (times.prompt + decoding)
        return Assessment(
            deployment, self.cost(deployment), reason, values["first_token"], values["per_token"], values["end_to_end"],
            largest_rate=server.largest_rate * deployment.copies, in_flight=loaded.in_flight,
            prefill_share=share, bound_by=times.rate_bound_by(server, deployment.chunk),
            prompt_bound_by=times.prompt_bound_by,
            tightness=max([loaded.utilisation, *excess.values()]), token_gap=loaded.token_gap, interval=times.interval,
        )  # fmt: skip

    def missed(self, name: str, value: float, which: str, through: str) -> str:
        """A limit that is missed, in words."""
        limit = format_amount(getattr(self.asked.limits, name), "s")
        label = f"{LIMIT_NAMES[name]} {which}".strip()
        return f"{label} {format_amount(value, 's')}, over {limit}: {through} binds"

    def unloaded_reason(self, replica: Replica, *, only: str = "") -> Reason | None:
        """Why no number of these replicas is taken, without any load."""
        times = self.priced(replica)
        if isinstance(times, str):
            return Reason("legal", times)
        if times.most < 1:
            needs, may = float(times.memory.total), times.capacity
            weights = format_amount(times.memory.parts["weights"], "B")
            over, has = format_amount(needs - may, "B"), format_amount(may, "B")
            share = f"{format_percent(times.asked.memory_share)} of {times.memory.level}"
            text = f"does not fit by {over} a chip: weights {weights} and one sequence, of {has} ({share})"
            return Reason("fit", text, needs / may)
        found = times.alone
        for name, limit in self.asked.limits.items():
            if only in ("", name) and found[name] > limit:
                through = times.prompt_bound_by if name == "first_token" else times.step_bound_by[1]
                which = f"p{self.asked.limits.percentile:g} " * (name == "end_to_end") + "without load"
                return Reason("limit", self.missed(name, found[name], which, through), found[name] / limit)
        return None

    def outdone(self, replica: Replica) -> bool:
        """Whether stages of a pipeline are no better than as many more ways of the same chips without them.

        Each chip has the same share of the work then, and a stage reads its weights for each of its micro-batches: all
        that stages save is traffic between chips and copies of keys, values and weights. So it holds where links never
        bind without them, and memory holds as many sequences as asked for or no second copy of anything.
        """
        if replica.pipeline == 1:
            return False
        more = "expert" if replica.expert > 1 else "tensor"
        twin = replace(replica, pipeline=1, **{more: getattr(replica, more) * replica.pipeline})
        times = self.priced(twin) if twin in self.replicas else ""
        if isinstance(times, str) or times.most < 1:
            return False
        links = {link.name for link in self.asked.machine(twin.target).links}
        if links & {*times.step_bound_by, times.prompt_bound_by}:
            return False
        if times.most == self.asked.most_sequences * twin.copies:
            return True
        formats, of = FORMATS[twin.formats], self.asked.model
        kept = float(of.cache_bytes(self.asked.load.peak_context, dtype=formats.get("kv")))
        stored = float(of.weight_bytes(formats.get("weights")))
        again = max(times.sequence / kept, times.memory.parts["weights"] / stored) * twin.chips
        return not twin.draft and twin.copies == 1 and again < 1 + EVENLY

    def places(self, times: UnloadedReplica, server: ServerTimes) -> tuple[int, ...]:
        """How many sequences at once are tried: as many as fit, as the time per token allows, and some between.

        Fewer than the time per token allows at any of them only wait longer.
        """
        limit = self.asked.limits.per_token
        if limit is None or server.decode_steps <= 0:
            return (times.most,)
        quick = np.flatnonzero(server.unloaded_gaps <= limit)
        allowed = max(1, int(quick.max())) if len(quick) else 1
        if allowed >= times.most:
            return (times.most,)
        between = np.geomspace(allowed, times.most, BETWEEN + 2).round().astype(int)
        return tuple(dict.fromkeys(int(n) for n in between))

    def best_of(self, group: tuple[Replica, ...], most: float = float("inf")) -> Assessment | None:
        """The best deployment of some replicas, prompts whole or in chunks, that costs no more than ``most``."""
        number = itertools.count()
        queue: list[tuple[float, int, Any]] = []
        for replica in group:
            heapq.heappush(queue, (self.cost(Deployment(replica, 1)), next(number), replica))
        best: Assessment | None = None
        while queue:
            cost, _, item = heapq.heappop(queue)
            if cost > (most if best is None else best.cost):
                break
            if isinstance(item, Replica):
                for deployment in self._first_of(item):
                    heapq.heappush(queue, (self.cost(deployment), next(number), deployment))
                continue
            if best is not None and cost == best.cost:
                load = self.asked.load.rate / item.copies / self.server(item).largest_rate
                if load >= best.tightness:  # no limit leaves more room than this does
                    continue
            found = self.assess(item)
            if found.reason is None:
                if best is None or found.order < best.order:
                    best = found
            else:
                later = self.next_count(item.replica, item.copies + 1)
                if later is not None:
                    deployment = replace(item, copies=later)
                    heapq.heappush(queue, (self.cost(deployment), next(number), deployment))
        return best

    def _first_of(self, replica: Replica) -> Iterator[Deployment]:
        """The fewest of these replicas that keep up, for each way of taking prompts and number of sequences."""
        if self.next_count(replica, 1) is None:  # no number that is allowed is one of these: its times say nothing
            return
        if self.outdone(replica) or self.unloaded_reason(replica) is not None:
            return
        times = self.times(replica)
        for chunk in (*times.chunks, 0):
            server = times.server(chunk)
            for most in self.places(times, server):
                limited = server.limited_to(most)
                copies = self.next_count(replica, int(self.asked.load.rate / limited.largest_rate) + 1)
                if copies is not None:
                    yield Deployment(replica, copies, chunk, most)

    def nearest_miss(self, chip: str = "") -> Assessment | None:
        """What missed the limits by least, of all or of a chip; where no load was solved, of as many as allowed."""
        assessed = [each for each in self._assessed.values() if not chip or each.chip == chip]
        found = [each for each in assessed if each.reason is not None]
        for replica in () if found else (each for each in self.replicas if not chip or each.chip == chip):
            count = max((count for count in self.counts if count % replica.chips == 0), default=0)
            if count:
                times, deployment = self.priced(replica), Deployment(replica, count // replica.chips)
                if not isinstance(times, str) and self.unloaded_reason(replica) is None:
                    ways = [(chunk, times.server(chunk)) for chunk in (0, *times.chunks)]
                    chunk, server = max(ways, key=lambda way: way[1].largest_rate)
                    deployment = replace(deployment, chunk=chunk, most=server.most)
                found.append(self.assess(deployment))
        return min((each for each in found if each.reason is not None), key=lambda each: each.miss, default=None)

    def next_count(self, replica: Replica, copies: int) -> int | None:
        """The least number of replicas, no less than ``copies``, whose chips are allowed."""
        fitting = (count for count in self.counts if count % replica.chips == 0 and count // replica.chips >= copies)
        found = next(fitting, None)
        return None if found is None else found // replica.chips

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of chips that are allowed, the least first."""
        return tuple(sorted(set(self.asked.counts)))

    def tally(self, bests: Sequence[Assessment], searched: Iterable[Replica]) -> Counter[str]:
        """How many deployments are not taken, by why: every number of chips, chunk and number of sequences.

        The first of ``bests`` is taken.
        """
        found: Counter[str] = Counter()
        limits = {ranked: min((each.cost for each in bests if each.is_ranked is ranked), default=float("inf"))
                  for ranked in (True, False)}  # fmt: skip
        for replica in searched:
            limit = limits[replica.chip not in self.asked.unweighted]
            counts = np.array([count // replica.chips for count in self.counts if count % replica.chips == 0])
            if not len(counts):
                continue
            times = self._priced.get(replica)
            reason = None if times is None else self.unloaded_reason(replica)
            if times is None or isinstance(times, str) or reason is not None:
                found["beaten" if reason is None else reason.kind] += len(counts)
                continue
            cost = self.cost(Deployment(replica, 1)) * counts
            for chunk in (*times.chunks, 0):
                if chunk and chunk not in times._mixed:
                    found["beaten"] += len(counts) * times.most
                    continue
                server = times.server(chunk)
                rates = server.rates(np.arange(1, server.most + 1))
                slow = self.asked.load.rate / counts[:, None] >= rates[None, :]
                dear = np.broadcast_to((cost > limit)[:, None], slow.shape)
                found["rate"] += int(slow.sum())
                found["beaten"] += int((~slow & dear).sum())
                found["load"] += int((~slow & ~dear).sum())
        if bests and bests[0].deployment.prefill is None:
            found["load"] -= 1
        return found


def _assess_apart(search: Search, deployment: Deployment, times: UnloadedReplica) -> Assessment:
    """A deployment with chips that only prefill, against the limits."""
    asked, cost = search.asked, search.cost(deployment)
    before = deployment.prefill
    assert before is not None
    reason = search.unloaded_reason(before, only="first_token")
    prompts = search.priced(before)
    if reason is not None or isinstance(prompts, str):
        return Assessment(deployment, cost, reason)
    bandwidth = link_bandwidth(asked.machine(before.chip))
    if bandwidth is None:
        text = f"no link of {before.chip} is known that keys and values could go over"
        return Assessment(deployment, cost, Reason("legal", text))
    first_server = prompts.prefilling.one_of(deployment.prefill_copies)
    server = search.server(deployment)
    rates = asked.load.rate / deployment.prefill_copies, asked.load.rate / deployment.copies
    for rate, each in zip(rates, (first_server, server), strict=True):
        if rate >= each.largest_rate:
            return Assessment(deployment, cost, _slow(rate, each))
    share = asked.limits.share
    sent = prompts.sent_bytes / (bandwidth * before.chips)
    prefilling, loaded = first_server.under(rates[0], share), server.under(rates[1], share, sent)
    values = request_times(
        prefilling.time_to_first_token + prompts.lag, loaded.time_per_token,
        loaded.end_to_end(prefilling) + prompts.lag,
    )  # fmt: skip
    found = search.under_load(deployment, values, loaded, times)
    own = before.chips * deployment.prefill_copies
    most = first_server.largest_rate * deployment.prefill_copies, server.largest_rate * deployment.copies
    largest = min(most)
    busy = asked.load.rate / largest
    return replace(
        found, prefill_share=own / deployment.chips, largest_rate=largest, prompt_bound_by=prompts.prompt_bound_by,
        tightness=max(found.tightness, busy),
        bound_by=prompts.rate_bound_by(first_server, 0) if most[0] < most[1] else found.bound_by,
    )  # fmt: skip


def _slow(rate: float, server: ServerTimes) -> Reason:
    """The reason of a server that does not keep up."""
    text = f"serves at most {format_number(server.largest_rate)}/s of {format_number(rate)}/s a replica"
    return Reason("rate", text, rate / server.largest_rate)


def best_apart(search: Search) -> Assessment | None:
    """The cheapest pools of chips that prefill and that decode, with one format of keys and values and one draft."""
    best: Assessment | None = None
    if search.asked.load.output == 1:
        return None  # nothing is left to decode
    kept = [each for each in search.replicas if each.chip not in search.asked.unweighted]
    for group in grouped(((FORMATS[each.formats].get("kv"), each.draft), each) for each in kept).values():
        for pair in _pairs(search, group):
            if best is not None and search.cost(pair) > best.cost:
                break
            found = search.assess(pair)
            if found.reason is None and (best is None or found.order < best.order):
                best = found
    return best


def _pairs(search: Search, group: Sequence[Replica]) -> Iterator[Deployment]:
    """Pairs of pools that keep their own limits, the cheapest first, of an allowed number of chips of each kind."""
    pools = [_pools(search, group, decodes=decodes) for decodes in (False, True)]
    drawn: tuple[list[Deployment], list[Deployment]] = ([], [])
    queue: list[tuple[float, int, int, Deployment]] = []

    def push(before: int, after: int) -> None:
        for which, number in enumerate((before, after)):
            if number == len(drawn[which]):
                drawn[which].extend(itertools.islice(pools[which], 1))
            if number >= len(drawn[which]):
                return
        first = drawn[0][before]
        pair = replace(drawn[1][after], prefill=first.replica, prefill_copies=first.copies)
        heapq.heappush(queue, (search.cost(pair), before, after, pair))

    push(0, 0)
    while queue:
        _, first, later, pair = heapq.heappop(queue)
        if all(number in search.counts for number in pair.numbers.values()) and _ends_in_time(search, pair):
            yield pair
        push(first, later + 1)
        if not later:
            push(first + 1, 0)


def _ends_in_time(search: Search, pair: Deployment) -> bool:
    """Whether an answer could end within its limit, without any load."""
    limit = search.asked.limits.end_to_end
    assert pair.prefill is not None
    if limit is None:
        return True
    first, later = search.times(pair.prefill).alone, search.times(pair.replica).alone
    return first["first_token"] + later["end_to_end"] - later["first_token"] <= limit


def _pools(search: Search, group: Sequence[Replica], *, decodes: bool) -> Iterator[Deployment]:
    """Pools for one phase that keep its own limit, the cheapest first."""
    dearer = itemgetter(0)

    def growing(pool: Deployment) -> Iterator[tuple[float, Deployment]]:
        while pool.chips <= search.counts[-1]:
            yield search.cost(pool), pool
            pool = replace(pool, copies=pool.copies + 1)

    def of(replica: Replica) -> Iterator[tuple[float, Deployment | None]]:
        yield search.cost(Deployment(replica, 1)), None  # nothing is priced before its turn
        yield from heapq.merge(*map(growing, _first_pools(search, replica, decodes)), key=dearer)

    some = (replica for replica in group if replica.chips <= search.counts[-1])
    for _, pool in heapq.merge(*map(of, some), key=dearer):
        if pool is not None and _keeps(search, pool, decodes):
            yield pool


def _first_pools(search: Search, replica: Replica, decodes: bool) -> Iterator[Deployment]:
    only = "per_token" if decodes else "first_token"
    if search.outdone(replica) or search.unloaded_reason(replica, only=only) is not None:
        return
    times = search.times(replica)
    server = times.server(apart=True) if decodes else times.prefilling
    for most in search.places(times, server) if decodes else (0,):
        rate = server.limited_to(most).largest_rate if most else server.largest_rate
        yield Deployment(replica, int(search.asked.load.rate / rate) + 1, 0, most)


def _keeps(search: Search, pool: Deployment, decodes: bool) -> bool:
    """Whether a pool keeps the limit of its phase."""
    times, limits = search.times(pool.replica), search.asked.limits
    server = times.server(most=pool.most, apart=True) if decodes else times.prefilling
    rate = search.asked.load.rate / pool.copies
    if rate >= server.largest_rate:
        return False
    loaded = server.one_of(pool.copies).under(rate, limits.share)
    limit = limits.per_token if decodes else limits.first_token
    time = loaded.time_per_token if decodes else loaded.time_to_first_token + times.lag
    return limit is None or time.percentile <= limit
