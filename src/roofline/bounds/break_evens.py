"""How long a hop of an unknown latency may take before it changes which of several answers is the best.

>>> from roofline import llm
>>> found = llm("llama-3-70b", on="h100:8,mi300x:8", tensor=8, batch=64, context=8192)
>>> [f"{at['a token at best'] * 1e6:.0f} us" for at in found.break_evens if at]
['72 us']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from roofline.answers import Fact
from roofline.bounds.comparison import SideBySide
from roofline.bounds.comparison_by_work import SideBySideByWork
from roofline.errors import RooflineError
from roofline.quantity import in_a_row
from roofline.sizes import is_number

#: The longest hop that is tried, the shortest, and how close a break-even is found.
LONGEST, SHORTEST, CLOSE = 1.0, 1e-9, 1.002

#: After so many latencies the middle of both ends is tried.
STRAIGHT = 12

#: Asks for the answer at a place again, with other figures of its machine.
Again = Callable[[int, Mapping[str, float]], Any]


def with_break_evens(found: SideBySide, again: Again) -> SideBySide:
    """The same answers, with the latency at which one that lacks it is as good as the best that is timed whole."""

    @cache  # a time and what it costs are at the same latencies
    def asked(at: int, figures: tuple[str, ...], latency: float) -> tuple[list[Fact], str]:
        answer = again(at, dict.fromkeys(figures, latency))
        return list(answer.facts()), _way(answer)

    def facts(at: int, figures: tuple[str, ...], latency: float) -> list[Fact]:
        return asked(at, figures, latency)[0]

    contests = found.parts.values() if isinstance(found, SideBySideByWork) else [found]
    at_of: list[dict[str, float]] = [{} for _ in found.names]
    ways: list[dict[str, str]] = [{} for _ in found.names]
    for one in contests:
        places = [next(at for at, each in enumerate(found.answers) if each is answer) for answer in one.answers]
        for name in (one.headline, *one.ranked_costs()) if len(set(one.policies)) == 1 else ():
            for at, figures in zip(places, one.challengers(name), strict=True):
                longest = None if figures is None else _break_even(one, name, partial(facts, at, tuple(figures)))
                if longest is not None:
                    at_of[at][name] = longest
                    ways[at][name] = asked(at, tuple(figures or ()), longest)[1]
    return found.with_break_evens(tuple(at_of), tuple(ways)) if any(at_of) else found


def _way(answer: Any) -> str:
    """The algorithms of a step's collectives, and its hops; nothing where that is not one number of one step.

    At a long hop other algorithms are the fastest than where none is known.
    """
    steps = answer.steps()
    step = steps.get("decode") or (next(iter(steps.values())) if len(steps) == 1 else None)
    if step is None:
        return ""
    named = (part.op.options.get("algorithm") for part in step.ops if part.op.kind == "collective")
    names = dict.fromkeys(filter(None, named))
    hops = sum(use.amount for use in step.uses if use.quantity == "hops")
    return f"then by {in_a_row(list(names))}, in {hops:,} hops" if names and is_number(hops) else ""


def _break_even(found: SideBySide, name: str, facts: Callable[[float], list[Fact]]) -> float | None:
    """The latency at which a fact is that of the best that is timed whole, between two that are better and worse.

    Times are straight lines in it, piece by piece: the next one tried is where that through both ends crosses, with an
    end's distance halved where it stands twice (the Illinois method); after a few the middle, as this always ends.
    """
    best = found.best_whole(name)

    def worse(latency: float) -> float | None:
        try:
            fact = next((fact for fact in facts(latency) if fact.name == name), None)
        except RooflineError:
            return None
        if fact is None or not best or not is_number(fact.value) or not fact.value:
            return None
        return float(fact.value / best if fact.better == "less" else best / fact.value) - 1

    low, high = SHORTEST, LONGEST
    below, above = worse(low), worse(high)
    if below is None or above is None or not below < 0 <= above:
        return None
    side = tried = 0
    while high / low > CLOSE:
        tried += 1
        middle = low - (high - low) * below / (above - below) if tried < STRAIGHT else (low * high) ** 0.5
        middle = min(max(middle, low * CLOSE**0.75), high / CLOSE**0.75)
        now = worse(middle)
        if now is not None and now < 0:
            low, below, above, side = middle, now, above / 2 if side < 0 else above, -1
        else:
            high, above, below, side = middle, now or 0.0, below / 2 if side > 0 else below, 1
    return float((low * high) ** 0.5)
