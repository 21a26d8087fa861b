"""The factor of a training step over its floor, from the published steps in the project's tests.

A source counts once, by the median of its steps: they share a program, a cluster and a way to count time. Errors are of
steps whose source was left out. Beside stands the same for the times of operations one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.estimates.fits import conformal
from roofline.estimates.constants import KernelConstants
from roofline.estimates.fitting import Errors
from roofline.models import load, train

STEPS = Path(__file__).resolve().parents[2] / "tests" / "data" / "published_measurements.json"


def fitted_training() -> KernelConstants:
    """The factor, with its errors and those of the baseline."""
    cases = [case for case in json.loads(STEPS.read_text(encoding="utf-8"))["cases"] if case["ask"] == "train"]
    steps = [_answer(case) for case in cases]
    sources = [case["source"].partition(",")[0] for case in cases]
    seconds = np.array([case["seconds"] for case in cases])
    floors = np.array([float(step.lower) for step in steps])
    expected = without_its_source(floors, seconds, sources)
    one_by_one = without_its_source(np.array([float(step.op_by_op) for step in steps]), seconds, sources)
    errors = Errors.of(expected, seconds)
    return KernelConstants(
        chip="any",
        kernel="training_step",
        dtype="any",
        library="published training steps",
        values={"step_factor": middle_of_sources(seconds / floors, sources)},
        interval=(conformal(seconds / expected),),
        valid={"floor": (float(floors.min()), float(floors.max()))},
        state="steps of published training runs; errors with the run's source left out",
        source="; ".join(dict.fromkeys(sources)),
        error={
            **{name: getattr(errors, name) for name in ("mdape", "mape", "p90", "bias")},
            "n_fit": len(cases),
            "n_test": len(cases),
            "by_bound": Errors.of(floors, seconds).mdape,
            "by_one_by_one": Errors.of(one_by_one, seconds).mdape,
        },
    )


def _answer(case: dict[str, Any]) -> Any:
    model = load(case["model"], name="" if isinstance(case["model"], str) else case["id"])
    return train(model, on=case["on"], **case.get("options", {}))


def middle_of_sources(factors: Any, sources: Sequence[str]) -> float:
    """The median over sources of the median of each one's steps.

    >>> middle_of_sources([1.0, 2.0, 4.0, 4.2], ["a", "b", "c", "c"])
    2.0
    """
    names = np.array(sources)
    return float(np.median([np.median(np.array(factors)[names == one]) for one in np.unique(names)]))


def without_its_source(times: Any, seconds: Any, sources: Sequence[str]) -> Any:
    """Times scaled by the factor of the steps of other sources."""
    names, factors = np.array(sources), np.asarray(seconds) / times
    each = {one: middle_of_sources(factors[names != one], names[names != one]) for one in np.unique(names)}
    return times * np.array([each[one] for one in sources])
