"""Steps of a replica as a framework is expected to run them, with an interval, in place of floors.

A step of n sequences takes ``step_time + gap·K + request_time·n + decode_factor·Σ kernels(n)``; a prompt adds
``prefill_factor·Σ kernels`` (:mod:`roofline.estimates.steps`). Kernels are estimated at a few n; between these the
ratio to the floor is linear in log n. Without constants of steps for a chip the kernels alone are taken, which is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from roofline.bounds.bound import Bound
from roofline.estimates.estimator import Estimator
from roofline.estimates.served import step_times
from roofline.models.blocks.experts import MixtureOfExperts
from roofline.models.description import Model

#: Kernels are estimated of powers of so many sequences, and of the most.
RATIO = 4


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedSteps:
    """Expected seconds: ``step[n]``, ``prompt`` in the stream of steps, ``lag`` before and after it.

    ``low`` and ``high`` are the interval of 80 % as factors, ``said`` what it rests on.
    """

    step: Any
    prompt: float
    lag: float
    low: float
    high: float
    said: tuple[str, ...]


@cache
def estimator_of(library: str) -> Estimator:
    """The estimator of a library."""
    return Estimator(library)


def expected_steps(
    library: str, model: Model, dtype: str, floors: Any, prefill: Bound, decode: Callable[[int], Bound], copies: int
) -> ExpectedSteps:
    """What to expect of a replica whose floors are known; ``decode`` gives the answer of n sequences."""
    estimator = estimator_of(library)
    most = len(floors) - 1
    # the same whatever fits, so that a little more memory changes no time
    points = np.unique([most, *(RATIO**power for power in range(16) if RATIO**power < most)])
    kernels = [estimator.expect(decode(int(n))) for n in points]
    values = np.array([float(each.value) for each in kernels])
    ratio = np.interp(np.log(np.maximum(np.arange(most + 1), 1)), np.log(points), values / floors[points])
    prompt = estimator.expect(prefill)
    alone = float(prompt.value)
    machine = prefill.machine
    path = "mixture" if _is_mixture(model) else "dense"
    step, first = (estimator.step_record(name, dtype, path, machine) for name in ("served_step", "first_token"))
    value = float(values[-1])
    low, high = float(kernels[-1].low) / value, float(kernels[-1].high) / value
    said: list[str] = [text for each in (*kernels, prompt) for text in each.assumptions]
    if step is None:
        said.append(f"expected: kernels alone, as {library} has no constants of steps on this chip in this format")
        return ExpectedSteps(
            floors * ratio, alone / copies, alone - alone / copies, low, high, tuple(dict.fromkeys(said))
        )
    runs = kernels[-1].runs
    shapes = {"batch": np.arange(most + 1) / copies, "decode": floors * ratio, "mixed": 0.0, "kernels": runs}
    times = np.maximum(step_times(step, shapes), floors)
    mixed = {"batch": 0.0, "decode": 0.0, "mixed": alone, "kernels": 0.0}
    whole = max(float(step_times(step, mixed, "prefill")), float(prefill.lower))
    lag = whole - whole / copies
    if first is not None:
        lag += max(0.0, float(step_times(first, {"prefill": alone, "kernels": prompt.runs})) - whole)
    middle = float(times[max(1, most // 2)])
    ends = step.limits(np.asarray(middle))
    words = " ".join(filter(None, (step.chip, step.library, step.version, step.dtype, step.path)))
    said.append(f"expected: steps by constants of {words}")
    return ExpectedSteps(
        times, whole / copies, lag, float(ends[0]) / middle, float(ends[1]) / middle, tuple(dict.fromkeys(said))
    )  # fmt: skip


def _is_mixture(model: Model) -> bool:
    return any(isinstance(block, MixtureOfExperts) for layer in set(model.layers) for block in layer.blocks)
