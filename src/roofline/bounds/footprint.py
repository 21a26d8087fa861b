"""Footprint: how much memory operations need at once, and whether it fits a level.

>>> from roofline.notation import program
>>> from roofline.ops import build
>>> ops = build(program("h = bf16[B, D] * bf16[D, F]; gelu(h)"), {"B": 4, "D": 8, "F": 16})
>>> footprint(ops).parts
{'activation': 320, 'weight': 256}
>>> footprint(ops).total
576
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.sizes import Size, maximum
from roofline.work import Op, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Bytes by part: tensors that come from outside stay for the whole time, intermediates while they are needed.

    ``level`` and ``capacity`` are filled in once a machine is known; ``fits`` is None while the capacity is not.
    """

    parts: Mapping[str, Size]
    level: str = "main"
    capacity: float | None = None

    @property
    def total(self) -> Size:
        """Bytes needed at once."""
        values = list(self.parts.values())
        return sum(values[1:], values[0]) if values else 0

    @property
    def fits(self) -> bool | None:
        """Whether everything fits the level; None where the capacity is unknown or sizes are not plain numbers."""
        total = self.total
        if self.capacity is None or not isinstance(total, int | float):
            return None
        return bool(total <= self.capacity)


def footprint(ops: Sequence[Op]) -> Footprint:
    """Add up what lives at once: every outside tensor, plus the largest set of intermediates alive together."""
    made = {t.ident: index for index, op in enumerate(ops) for t in op.writes}
    last = {t.ident: index for index, op in enumerate(ops) for t in (*op.writes, *op.reads)}
    used = {t.ident for op in ops for t in op.reads}
    everything: dict[str, Tensor] = {t.ident: t for op in ops for t in (*op.reads, *op.writes)}
    parts: dict[str, Size] = {}
    for ident, tensor in everything.items():
        if ident not in made or ident not in used:
            parts[tensor.role] = parts.get(tensor.role, 0) + tensor.capacity_bytes
    passing = [i for i in made if i in used]
    if passing:
        alive = [
            sum(everything[i].capacity_bytes for i in passing if made[i] <= index <= last[i])
            for index in range(len(ops))
        ]
        parts["activation"] = parts.get("activation", 0) + maximum(*alive)
    return Footprint(parts)
