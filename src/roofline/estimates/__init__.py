"""Estimates: how long operations will really take, with an interval and the error of their kind.

>>> import roofline
>>> from roofline.estimates import estimated
>>> answer = estimated(roofline.bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100"), library="vllm")
>>> answer.lower < answer.expectation.low < answer.estimate < answer.expectation.high
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.estimates.accuracy import Accuracy, accuracy
from roofline.estimates.calibration import Calibration, calibrate
from roofline.estimates.constants import KernelConstants, read_constants
from roofline.estimates.estimator import Estimator, Expectation
from roofline.estimates.served import with_expectation


def estimated(answer: Any, library: str = "vllm", files: Sequence[str] = (), output: int | None = None) -> Any:
    """An answer with what to expect: of a bound, or of both phases of serving.

    ``library`` names whose kernels run (``vllm``, ``trtllm``, ``sglang``), ``vllm-0.19.0`` that version's where they
    are known), ``files`` hold constants of one's own. ``output`` is the length of answers that are served.
    """
    from dataclasses import replace

    from roofline.models.serving.answer import Serving

    estimator = Estimator(library, files)
    if isinstance(answer, Serving):
        phases = {name: getattr(answer, name) for name in ("prefill", "decode")}
        served = with_expectation(answer, estimator, output)
        return replace(
            served, **{name: _of_bound(phase, estimator) for name, phase in phases.items() if phase is not None}
        )
    return _of_bound(answer, estimator)


def _of_bound(answer: Any, estimator: Estimator) -> Any:
    from roofline.bounds.bound import Bound
    from roofline.errors import InputError
    from roofline.models.serving.pipeline import Pipelined

    if isinstance(answer, Pipelined):
        raise InputError("what to expect over the stages of a pipeline is not modelled", hint="tensor and data are")
    if not isinstance(answer, Bound):
        raise InputError(f"no expectation of {type(answer).__name__} is modelled", hint="a bound, or serving a model")
    return estimator.estimated(answer)


__all__ = [
    "Accuracy",
    "Calibration",
    "Estimator",
    "Expectation",
    "KernelConstants",
    "accuracy",
    "calibrate",
    "estimated",
    "read_constants",
]
