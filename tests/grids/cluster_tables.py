"""A table whose blocks misbehave once, for tests with workers: it lives in a module that workers import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roofline.grids.blocks import BlockTable


@dataclass
class KillingTable(BlockTable):
    """Rows ``x`` with a time of ``(x·7919) mod 10007``; a worker dies in each block listed, once.

    In blocks that are ``hungry`` so many bytes are held.

    ``marks`` is a folder in which a death is noted, so that the next try goes through.
    """

    marks: str
    deadly: tuple[int, ...] = ()
    size: int = 4000
    choices: int = 2
    always: bool = False
    hungry: Mapping[int, int] = field(default_factory=dict)
    names: tuple[str, ...] = ("x", "lower", "memory")
    axes: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.axes = {"x": np.arange(1, self.size + 1)}

    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> float:
        """A factor."""
        return 1.0 + choice

    def evaluated(
        self, prepared: float, choice: int, sizes: Mapping[str, Any], names: Sequence[str], told: Any = None
    ) -> dict[str, Any]:
        """Columns; the process is killed where it is to be."""
        x = sizes["x"].astype(float)
        for each, held in self.hungry.items():
            if choice == 0 and x.min() <= each <= x.max():
                parts = [np.ones(held // 80) for _ in range(10) if not time.sleep(0.1)]
                time.sleep(len(parts) / 2)  # the nanny looks now and then
        for each in self.deadly:
            mark = os.path.join(self.marks, str(each))
            if choice == 0 and x.min() <= each <= x.max() and (self.always or not os.path.exists(mark)):
                open(mark, "w").close()
                time.sleep(0.1)  # memory takes a while to run out
                os.kill(os.getpid(), signal.SIGKILL)
        return {name: {"lower": prepared * ((x * 7919) % 10007), "memory": x % 101}[name] for name in names}

    def labels(self, choices: Any) -> dict[str, Any]:
        """No choice is a column."""
        return {}
