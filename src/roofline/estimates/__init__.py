"""Estimates: how long operations will really take, with an interval and the error of their kind.

>>> import roofline
>>> from roofline.estimates import estimated
>>> answer = estimated(roofline.bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100"), library="vllm")
>>> answer.lower < answer.expectation.low < answer.estimate < answer.expectation.high
True
"""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError
from roofline.estimates.accuracy import Accuracy, HeldAccuracy, accuracy, held_accuracy
from roofline.estimates.calibration import Calibration
from roofline.estimates.constants import KernelConstants, read_constants
from roofline.estimates.estimator import Estimator, Expectation
from roofline.estimates.expected_roof import ExpectedRoof, expected_roof
from roofline.estimates.served import calibrate, calibrate_served, expect_training, with_expectation
from roofline.signatures import spelled, takes


@takes()
def estimated(
    answer: Any,
    library: str | Estimator = "vllm",
    files: Any = (),
    output: int | None = None,
    eager: bool = False,
) -> Any:
    """An answer with what to expect: a bound, a training step, phases of serving, rows of a sweep, measured runs.

    ``library`` names whose kernels run (``vllm``, ``trtllm``, ``sglang``), ``vllm-0.19.0`` that version's where they
    are known), ``files`` hold constants of one's own. ``output`` is the length of answers that are served. ``eager``:
    the host starts each kernel by itself; by default kernels run from a CUDA graph, as serving frameworks run them.
    """
    from dataclasses import replace

    from roofline.bounds.communication import Communication
    from roofline.bounds.sweep import MachineSweep, Sweep
    from roofline.models.serving.answer import Serving
    from roofline.models.training.answer import Training

    estimator = library if isinstance(library, Estimator) else Estimator(library, files, eager)
    if output is not None and not isinstance(answer, Serving):
        raise InputError(f"{spelled('output')} is the length of answers that a model serves", hint="leave it out")
    if isinstance(answer, Training) and (eager or library != "vllm"):
        idle = spelled("eager" if eager else "library")
        raise InputError(f"{idle} is of kernels, and a training step is expected as a whole", hint="leave it out")
    if hasattr(answer, "expected_by"):
        return answer.expected_by(estimator)
    if isinstance(answer, Sweep | MachineSweep):
        return _of_sweep(answer, estimator)
    if isinstance(answer, Communication):
        return replace(answer, bound=estimator.estimated(answer.bound))
    if isinstance(answer, Training):
        return replace(answer, expectation=expect_training(estimator, answer))
    if isinstance(answer, Serving):
        phases = {name: getattr(answer, name) for name in ("prefill", "decode")}
        found = {name: _of_bound(phase, estimator) for name, phase in phases.items() if phase is not None}
        output = getattr(answer.further.get("generation"), "output", None) if output is None else output
        return with_expectation(replace(answer, **found), estimator, output)
    return _of_bound(answer, estimator)


def _of_sweep(table: Any, estimator: Estimator) -> Any:
    """The table with columns of what to expect in its rows."""
    from dataclasses import replace

    import numpy as np

    parts = getattr(table, "parts", (table,))
    found = [estimator.expect_rows(one.question, {name: one.columns[name] for name in one.names}) for one in parts]
    columns = dict(table.columns)
    for name, at in {"expected": "value", "low": "low", "high": "high"}.items():
        columns[name] = np.concatenate([getattr(each, at) for each in found])
    said = dict.fromkeys(str(line) for each in found for line in each.assumptions)
    unknown, lines = int(np.isnan(columns["expected"]).sum()), table.incomplete
    if unknown:
        why = f"no constants of {estimator.library} are known for them, so only their bounds hold"
        lines = (*lines, f"nothing is expected of {unknown:,} of {len(table):,} rows: {why}")
    return replace(table, columns=columns, assumptions=(*table.assumptions, *said), incomplete=lines)


def _of_bound(answer: Any, estimator: Estimator) -> Any:
    from roofline.bounds.bound import Bound
    from roofline.errors import InputError
    from roofline.models.serving.bound import Pipelined

    if isinstance(answer, Pipelined):
        raise InputError("what to expect over the stages of a pipeline is not modelled", hint="tensor and data are")
    if not isinstance(answer, Bound):
        raise InputError(f"no expectation of {type(answer).__name__} is modelled", hint="a bound, or serving a model")
    return estimator.estimated(answer)


__all__ = [
    "Accuracy", "Calibration", "Estimator", "Expectation", "ExpectedRoof", "HeldAccuracy", "KernelConstants",
    "accuracy", "calibrate", "calibrate_served", "estimated", "expected_roof", "held_accuracy", "read_constants",
]  # fmt: skip
