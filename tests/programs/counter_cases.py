"""The 194 published counting cases: who runs which, and the list of those whose figure is not ours, with the reason.

Each reason is worked out by a test: ``test_jax_counter_cases.py`` and ``test_jax_xla_cases.py`` derive both numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "counter_cases.json").read_text())[
    "cases"
]

#: Cases whose source says itself that its figure is what a tool gives, not what is right.
SUSPECT = [c for c in CASES if c.get("suspect")]
_SOUND = [c for c in CASES if not c.get("suspect")]
JAX = [c for c in _SOUND if c["source"].startswith("jax-ml/jax")]
XLA = [c for c in _SOUND if c["source"].startswith("XLA")]
#: Traps of control flow, which JAX runs; the other traps are torch's.
CONTROL_FLOW = [c for c in _SOUND if c["test"] in ("while/cond", "scan")]
TORCH = [c for c in _SOUND if not any(c in home for home in (JAX, XLA, CONTROL_FLOW))]

#: Cases whose FLOPs are ours and whose bytes are not, and why.
EXCEPTED = {
    71: "JAX reads the updates of a scatter that are one repeated constant; a constant moves nothing here",
    97: "JAX reads an operand that is given twice (x times x) twice; each operand is read once here",
    112: "JAX has a scatter that replaces read what it replaces; it is only written here",
    166: "XLA reads the 4 bytes that a reduction starts from; a constant moves nothing here",
    167: "XLA's text before optimisation writes out constants as arrays and a cube as two products",
    177: "XLA's text before optimisation writes out constants, repeated rows and reshapes as arrays",
}
