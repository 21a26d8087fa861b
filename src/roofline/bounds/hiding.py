"""Whether sending hides behind the arithmetic: how long both take, and from which size on sending takes no longer.

>>> from roofline.bounds.shard import shard
>>> found = shard("bf16[B_Y, D] * bf16[D_X, F] -> bf16[B_Y, F]", on="v5p:4x4", B=4096, D=8192, F=32768)
>>> print("\\n".join(hiding_in_words(found.question, found.best)))
AllReduce over X takes 746 µs and the arithmetic 299 µs: sending does not hide behind it
by this plan it hides from D = 20,400 on; a larger B or F alone does not do it
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from roofline.bounds.question import Question
from roofline.bounds.sharding_plans import RankedPlan
from roofline.errors import RooflineError
from roofline.frozen import replace
from roofline.quantity import format_amount
from roofline.sizes import is_number, product
from roofline.statements import by_what_is_timed

#: Sizes are tried up to so many times what was asked.
FARTHEST = 2**12

#: Sizes that are priced at once.
AT_ONCE = 1024


def hiding_in_words(asked: Question, plan: RankedPlan) -> Iterator[str]:
    """What is sent, over which axes and for how long; whether that hides behind the arithmetic, from which sizes on."""
    bound = plan.bound
    if bound is None or not is_number(bound.lower) or not bound.math:
        return
    sent = [part for part in bound.ops if part.op.kind == "collective"]
    if not sent:
        return
    each = [f"{part.op.options['collective']} over {', '.join(part.op.options['axes'])}" for part in sent]
    times = [format_amount(part.lower, "s") for part in sent]
    said = [f"{what} {'takes ' if len(sent) == 1 else ''}{time}" for what, time in zip(each, times, strict=True)]
    busiest = f"; the busiest link works {format_amount(bound.comms, 's')}" if len(sent) > 1 else ""
    hides = bound.comms <= bound.math
    does = "hides" if hides else "does not hide"
    timed, math_time = by_what_is_timed(bound.incomplete), format_amount(bound.math, "s")
    yield f"{timed}{', '.join(said)}{busiest} and the arithmetic {math_time}: sending {does} behind it"
    if plan.layout:
        return
    sizes = [name for name in asked.size_names if is_number(asked.sizes.get(name)) and name not in asked.formulas]
    first = {name: hidden_from(asked, plan, name) for name in sizes}
    least = [f"{name} = {int(size):,}" for name, size in first.items() if size and 1 < size < math.inf]
    never = [name for name, size in first.items() if size == math.inf and not hides]
    if least:
        others = f"; a larger {' or '.join(never)} alone does not do it" if never else ""
        yield f"by this plan it hides from {' or '.join(least)} on{others}"
    elif never:
        yield f"by this plan a larger {' or '.join(never)} alone does not do it"


def hidden_from(asked: Question, plan: RankedPlan, name: str) -> float | None:
    """The least size from which on sending takes no longer than computing.

    1 where it never takes longer, infinity where it does at the largest tried, :data:`FARTHEST` times the size asked;
    None where that is not known. Sizes that are formulas of it follow, the others are as asked; those that all chips
    divide are tried.
    """
    import numpy as np

    mesh = asked.on_mesh().mesh
    step = product(axis.size for axis in mesh.axes) if mesh is not None else 1
    if not isinstance(step, int):
        return None

    def hides(sizes: Any) -> Any:
        found = replace(asked.with_sizes(**{name: sizes}), plan_of_all=plan.plan).answer()
        return np.broadcast_to(np.asarray(found.comms) <= np.asarray(found.math), sizes.shape)

    doublings = (asked.sizes[name] * FARTHEST // step).bit_length()
    sizes = step * 2 ** np.arange(doublings)
    try:
        while True:
            longer = np.flatnonzero(~hides(sizes))
            if not longer.size:
                return 1
            last = int(longer[-1])
            if last == sizes.size - 1:
                return math.inf
            low, high = int(sizes[last]), int(sizes[last + 1])
            if high - low <= step:
                return high
            stride = step * max(1, (high - low) // (step * AT_ONCE))
            sizes = np.unique(np.append(np.arange(low, high, stride), high))
    except RooflineError:  # a size that the plan does not take, or one that follows from it
        return None
