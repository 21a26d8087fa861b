"""What a profile comes to, whichever tool it is from."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.measurement.runs import Measured

#: What time is listed as that a caller spends beside the operations it calls.
AROUND = "around other operations"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile held: ``runs`` that could be priced, and the seconds of ``unpriced`` operations by name."""

    runs: tuple[Measured, ...]
    unpriced: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
