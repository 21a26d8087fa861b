"""Prefill and decode on chips of their own: the cheapest pool for each, of any kinds of chips, and their ratio.

Prompts queue for prefill as M/G/1, each server with an even share of them; the times to first token are theirs. Keys
and values then go to a server that decodes, whose chain has no prompts in it: the transfer, and the wait for a place
there, come before the second token. Pairs of pools that keep their own limits are tried by cost, until one keeps all
limits together and has an allowed number of chips of each kind: none is cheaper.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from roofline.plans.replicas import FORMATS, Replica
from roofline.plans.search import Assessment, Deployment, Search, prompt_server, shifted


def best_apart(search: Search) -> Assessment | None:
    """The cheapest pools of chips that prefill and that decode, with one format of keys and values and one draft."""
    best: Assessment | None = None
    if search.asked.load.output == 1:
        return None  # nothing is left to decode
    alike: dict[tuple[Any, int], list[Replica]] = {}
    for replica in search.replicas:
        alike.setdefault((FORMATS[replica.formats].get("kv"), replica.draft), []).append(replica)
    for group in alike.values():
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
    limit, load = search.asked.limits.end_to_end, search.asked.load
    assert pair.prefill is not None
    first, later = search.priced(pair.prefill), search.priced(pair.replica)
    assert not isinstance(first, str)
    assert not isinstance(later, str)
    token = float(later.step[1]) / later.tokens_per_step
    return limit is None or first.prompt + first.lag + (load.output - 1) * token <= limit


def _pools(search: Search, group: Sequence[Replica], *, decodes: bool) -> Iterator[Deployment]:
    """Pools for one phase that keep its own limit, the cheapest first."""
    number = itertools.count()
    queue: list[tuple[float, int, Any]] = []

    def push(item: Any) -> None:
        pool = item if isinstance(item, Deployment) else Deployment(item, 1)
        if pool.chips <= search.counts[-1]:
            heapq.heappush(queue, (search.cost(pool), next(number), item))

    for replica in group:
        push(replica)
    while queue:
        _, _, item = heapq.heappop(queue)
        if isinstance(item, Replica):
            for pool in _first_pools(search, item, decodes):
                push(pool)
            continue
        if _keeps(search, item, decodes):
            yield item
        push(replace(item, copies=item.copies + 1))


def _first_pools(search: Search, replica: Replica, decodes: bool) -> Iterator[Deployment]:
    only = "per_token" if decodes else "first_token"
    if search.outdone(replica) or search.unloaded_reason(replica, only=only) is not None:
        return
    times = search.priced(replica)
    assert not isinstance(times, str)
    server = times.server(apart=True) if decodes else prompt_server(times)
    for most in search.places(times, server) if decodes else (0,):
        rate = server.limited_to(most).largest_rate if most else server.largest_rate
        yield Deployment(replica, int(search.asked.load.rate / rate) + 1, 0, most)


def _keeps(search: Search, pool: Deployment, decodes: bool) -> bool:
    """Whether a pool keeps the limit of its phase."""
    times, limits = search.priced(pool.replica), search.asked.limits
    assert not isinstance(times, str)
    server = times.server(apart=True).limited_to(pool.most or times.most) if decodes else prompt_server(times)
    rate = search.asked.load.rate / pool.copies
    if rate >= server.largest_rate:
        return False
    loaded = server.under(rate, limits.share)
    limit = limits.per_token if decodes else limits.first_token
    time = loaded.time_per_token if decodes else shifted(loaded.time_to_first_token, times.lag)
    return limit is None or max(time.mean, time.percentile) <= limit
