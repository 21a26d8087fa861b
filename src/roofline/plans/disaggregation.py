"""Prefill and decode on chips of their own: the cheapest pool for each, of any kinds of chips, and their ratio.

Prompts queue for prefill as M/G/1, each server with an even share of them; the times to first token are theirs. Keys
and values then go to a server that decodes, whose chain has no prompts in it: the transfer, and the wait for a place
there, come before the second token. The two pools have no limit in common but the end-to-end time, so each is the
cheapest of its own; where an end-to-end limit is missed so, faster pools are tried in turn.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from roofline.plans.replicas import FORMATS, Replica
from roofline.plans.search import Assessment, Deployment, Search, prompt_server, shifted


def best_apart(search: Search) -> Assessment | None:
    """The cheapest pools of chips that prefill and that decode, with one format of keys and values and one draft."""
    meets: list[Assessment] = []
    alike: dict[tuple[Any, int], list[Replica]] = {}
    for replica in search.replicas:
        alike.setdefault((FORMATS[replica.formats].get("kv"), replica.draft), []).append(replica)
    for group in map(tuple, alike.values()):
        firsts, laters = (_cheapest(search, group, decodes=decodes) for decodes in (False, True))
        for first, later in itertools.product(firsts, laters):
            found = search.assess(replace(later, prefill=first.replica, prefill_copies=first.copies))
            if found.reason is None:
                meets.append(found)
    return min(meets, key=lambda each: each.order, default=None)


#: Pools of each kind that are combined where an end-to-end limit may ask for more than the cheapest.
POOLS = 3


def _cheapest(search: Search, group: tuple[Replica, ...], *, decodes: bool) -> list[Deployment]:
    """The cheapest pools for one phase, by its own limit."""
    number = itertools.count()
    queue: list[tuple[float, int, Any]] = [
        (search.cost(Deployment(replica, 1)), next(number), replica) for replica in group
    ]
    heapq.heapify(queue)
    found: list[Deployment] = []
    while queue and len(found) < POOLS:
        _, _, item = heapq.heappop(queue)
        if isinstance(item, Replica):
            later = _first_pools(search, item, decodes)
        elif _keeps(search, item, decodes):
            found.append(item)
            continue
        else:
            copies = search.next_count(item.replica, item.copies + 1)
            later = iter([] if copies is None else [replace(item, copies=copies)])
        for deployment in later:
            heapq.heappush(queue, (search.cost(deployment), next(number), deployment))
    return found


def _first_pools(search: Search, replica: Replica, decodes: bool) -> Iterator[Deployment]:
    if search.unloaded_reason(replica, only="per_token" if decodes else "first_token") is not None:
        return
    times = search.priced(replica)
    assert not isinstance(times, str)
    server = times.server(apart=True) if decodes else prompt_server(times)
    for most in search.places(times, server) if decodes else (0,):
        rate = server.limited_to(most).largest_rate if most else server.largest_rate
        copies = search.next_count(replica, int(search.asked.load.rate / rate) + 1)
        if copies is not None:
            yield Deployment(replica, copies, 0, most)


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
