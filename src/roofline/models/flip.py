"""Where decode stops waiting for memory: the batch from which computing takes as long as moving.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> model, h100 = load("llama-3-8b"), chip("h100")
>>> flip(model, h100, context=0, attention=False), flip(model, h100, context=8192)
(296, None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roofline.bounds.traffic import Tile, check_policy, traffic
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.models.description import Model
from roofline.models.operations import decode
from roofline.sizes import Size
from roofline.work import Op, Work

#: A batch beyond any that is run: what is memory-bound here stays so.
_FAR = 1 << 30


def flip(
    model: Model,
    machine: Machine,
    *,
    context: int,
    policy: str = "streamed",
    tile: Tile | None = None,
    attention: bool = True,
    **options: Any,
) -> int | None:
    """The smallest batch whose decode step is compute-bound; None where no batch is, as keys and values grow with it.

    Computing then takes as long as memory and as every link between chips that share the model. ``attention=False``
    leaves attention out, which is the question about the matrices alone. ``options`` are those of
    :func:`roofline.models.decode`; bytes are counted under ``policy``.
    """
    check_policy(policy)

    def excess(batch: int) -> float:
        """Seconds that computing takes longer than moving, in memory or between chips."""
        ops = decode(model, batch=batch, context=context, **options)
        moved = traffic(ops, policy, tile)
        times = _times(ops, moved, machine, attention)
        return float(times["flops"] - times["moving"])

    return None if excess(_FAR) < 0 else _first(excess)


def _first(excess: Callable[[int], float]) -> int:
    """The smallest whole number of at least 1 with no negative excess, which grows and is nearly straight.

    A chord's zero is a better guess than the middle; halving follows wherever it is not.
    """
    low, high = 0, 1
    below, above = -1.0, excess(1)
    while above < 0:
        low, below, high = high, above, high * 16
        above = excess(high)
    turn = 0
    while high - low > 1:
        chord = low + int((high - low) * below / (below - above)) + 1
        middle = min(max(chord, low + 1), high - 1) if turn % 3 < 2 and low else (low + high) // 2
        value = excess(middle)
        turn += 1
        if value < 0:
            low, below = middle, value
        else:
            high, above = middle, value
    return high


def _times(ops: Sequence[Op], moved: Sequence[Work], machine: Machine, attention: bool) -> dict[str, Size]:
    """Seconds of the busiest compute unit, and of memory or the busiest link."""
    units: dict[str, Size] = {}
    moving: dict[str, Size] = {}
    for op, load in zip(ops, moved, strict=True):
        if op.kind == "attention" and not attention:
            continue
        for key, amount in ((op.work + load) * op.repeat).items():
            found = rate(machine, key, op)
            if found is None:
                continue
            times = units if key.quantity == "flops" else moving
            times[found.resource] = times.get(found.resource, 0) + amount / found.value
    return {"flops": max(units.values(), default=0), "moving": max(moving.values(), default=0)}
