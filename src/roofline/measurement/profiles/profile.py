"""The contents of a profile of any tool: priced runs, and the time of what has no price."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.measurement.runs import Measured

#: Label of the time that callers spend outside the operations they call.
AROUND = "around other operations"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile held: ``runs`` that could be priced, and the seconds of ``unpriced`` operations by name."""

    runs: tuple[Measured, ...]
    unpriced: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
