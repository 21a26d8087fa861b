"""Why one of several answers about the same chip takes longer than another: what takes how long, and what decides.

>>> from roofline import train
>>> a, b = (train("llama-3-8b", on="h100:8", fsdp=8 // n, tensor=n, batch_tokens="1M") for n in (1, 8))
>>> [(fact.name, round(fact.value, 2)) for fact in resource_facts(b) if fact.is_shown][:2]
[('time on tensor', 6.16), ('time on nvlink', 5.16)]
>>> why_slower_in_turn((a, a.bound), (b, b.bound), "tensor too")
'time on nvlink is 1.43 s, and 5.16 s of tensor too'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.answers import Comparable, Fact
from roofline.quantity import EQUAL, format_amount
from roofline.sizes import sums_by_name

#: What stages of a pipeline wait, beside the times on resources.
WAITING = "waiting for other stages"

#: The share of a step from which on a resource's time is shown.
LEAST_SHARE = 0.01

#: The whole time on a resource is told for the operations that wait for it where it has this share of the difference.
_EXPLAINS = 0.5


def times_by_resource(answer: Comparable, step: Any) -> dict[str, float]:
    """Seconds on each resource, the longest first, and the waits of stages."""
    found = {name: float(time) for name, time in step.times.items() if time}
    found = dict(sorted(found.items(), key=lambda each: -each[1]))
    whole = answer.lower if hasattr(answer, "stages") and hasattr(answer, "lower") else step.lower
    waits = float(whole) - max(found.values(), default=0.0)
    return {**found, **({WAITING: waits} if waits > 1e-9 * float(whole) else {})}


def resource_facts(answer: Comparable) -> Iterator[Fact]:
    """The time on each resource of each phase as facts; those of a hundredth of the step or more are shown."""
    for phase, step in answer.steps().items():
        for name, time in times_by_resource(answer, step).items():
            is_shown = time >= LEAST_SHARE * float(step.lower)
            said = name if name == WAITING else f"time on {name}"
            yield Fact(f"{phase} {said}".lstrip(), time, "s", "less", timed=True, is_shown=is_shown)


def why_slower(first: tuple[Comparable, Any], other: tuple[Comparable, Any], name: str) -> str:
    """What decides between two floors, of answers and their steps: what binds the longer, or what its stages wait."""
    mine, theirs = times_by_resource(*first), times_by_resource(*other)
    waits = theirs.pop(WAITING, 0.0), mine.pop(WAITING, 0.0)
    what = next(iter(theirs))
    if waits[0] - waits[1] > theirs[what] - max(mine.values()):
        what, theirs, mine = WAITING, {WAITING: waits[0]}, {WAITING: waits[1]}
    return f"{what} takes {_beside(mine.get(what, 0.0), theirs[what], name)}"


def why_slower_in_turn(first: tuple[Comparable, Any], other: tuple[Comparable, Any], name: str) -> str:
    """What decides between two times op by op: the operations that one resource binds; nothing where none does.

    Where all the time on that resource explains it as well, that is told: a row of the comparison has the same.
    """
    mine, theirs = (
        sums_by_name((str(part.bound_by), float(part.lower)) for part in step.ops) for _, step in (first, other)
    )
    what = max(theirs, key=lambda each: theirs[each] - mine.get(each, 0.0), default="")
    if not what or theirs[what] <= mine.get(what, 0.0) * (1 + EQUAL):
        return ""
    less, more = (times_by_resource(*each).get(what, 0.0) for each in (first, other))
    if more - less >= _EXPLAINS * (theirs[what] - mine.get(what, 0.0)):
        return f"time on {what} is {_beside(less, more, name)}"
    return f"operations that wait for {what} take {_beside(mine.get(what, 0.0), theirs[what], name)}"


def _beside(mine: float, theirs: float, name: str) -> str:
    return f"{format_amount(mine, 's')}, and {format_amount(theirs, 's')} of {name}"
