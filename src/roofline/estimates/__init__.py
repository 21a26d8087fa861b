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

from roofline.bounds.bound import Bound
from roofline.bounds.crossing import first_where
from roofline.errors import InputError
from roofline.estimates.accuracy import Accuracy, HeldAccuracy, accuracy, held_accuracy
from roofline.estimates.calibration import Calibration
from roofline.estimates.constants import KernelConstants, read_constants
from roofline.estimates.estimator import Estimator, Expectation, ExpectedRoof, expected_roof
from roofline.estimates.row_expectations import rows_together
from roofline.estimates.served import (
    calibrate,
    calibrate_served,
    expect_training,
    further_expected,
    refuse_unmeasured,
    with_expectation,
)
from roofline.frozen import replace
from roofline.lazy import np
from roofline.models.parallelism.layout import OPTIONS, is_several
from roofline.models.serving.answer import Serving, serve
from roofline.models.serving.bound import Pipelined
from roofline.progress import counted
from roofline.signatures import spelled, takes
from roofline.sizes import is_array

#: Rows of a table of steps that are asked one by one.
MOST_STEPS = 2000


@takes()
def estimated(
    answer: Any, library: str | Estimator = "vllm", files: Any = (), output: int | None = None, eager: bool = False
) -> Any:
    """An answer with what to expect: a bound, a training step, phases of serving, rows of a sweep, measured runs.

    ``library`` names whose kernels run (``vllm``, ``trtllm``, ``sglang``), ``vllm-0.19.0`` that version's where they
    are known), ``files`` hold constants of one's own. ``output`` is the length of answers that are served. ``eager``:
    the host starts each kernel by itself; by default kernels run from a CUDA graph, as serving frameworks run them.
    """
    from roofline.bounds.communication import Communication
    from roofline.bounds.sweep import Sweep
    from roofline.models.sweeps import StepSweep
    from roofline.models.training.answer import Training

    estimator = library if isinstance(library, Estimator) else Estimator(library, files, eager)
    if output is not None and not isinstance(answer, Serving):
        raise InputError(f"{spelled('output')} is the length of answers that a model serves", hint="leave it out")
    if (isinstance(answer, Training) or getattr(answer, "phase", "") == "train") and (eager or library != "vllm"):
        idle = spelled("eager" if eager else "library")
        raise InputError(f"{idle} is of kernels, and a training step is expected as a whole", hint="leave it out")
    if callable(getattr(type(answer), "expected_by", None)):
        if estimator.eager:
            hint = "leave it out"
            raise InputError(f"{spelled('eager')} is of kernels one after the other, and each run is one", hint=hint)
        return answer.expected_by(estimator)
    if isinstance(answer, Sweep):
        return _of_sweep(answer, estimator)
    if isinstance(answer, StepSweep):
        return _of_steps(answer, estimator)
    if isinstance(answer, Communication):
        return replace(answer, bound=estimator.estimated(answer.bound))
    if isinstance(answer, Training):
        step = _of_trainings(answer, estimator) if is_array(answer.lower) else expect_training(estimator, answer.lower)
        estimate = step.value if step is not None and answer.estimate is None else answer.estimate
        return replace(answer, estimate=estimate, expectation=step)
    if isinstance(answer, Serving):
        refuse_unmeasured(answer.model)
    if isinstance(answer, Serving) and answer.varying:
        return _of_several(answer, estimator)
    if isinstance(answer, Serving):
        phases = {name: getattr(answer, name) for name in ("prefill", "decode")}
        found = {name: _of_bound(phase, estimator) for name, phase in phases.items() if phase is not None}
        output = getattr(answer.further.get("generation"), "output", None) if output is None else output
        return with_expectation(replace(answer, **found), estimator, output)
    return _of_bound(answer, estimator)


def _of_sweep(table: Any, estimator: Estimator) -> Any:
    """The table with columns of what to expect in its rows."""
    found = [estimator.expect_rows(one.question, {name: one[name] for name in one.names}) for one in table.parts]
    return replace(_with_columns(table, found, estimator), estimator=estimator)


def _of_steps(table: Any, estimator: Estimator) -> Any:
    """A table of steps with columns of what to expect of each, which is asked by itself."""
    _check_few(len(table))
    found = []
    for row in counted(range(len(table))):
        found.append(_of_step(table, row, estimator) if table.is_possible(row) else None)
    return _with_columns(table, [rows_together(found, estimator.library)], estimator)


def _check_few(steps: int) -> None:
    if steps > MOST_STEPS:
        said = f"what to expect is worked out step by step, up to {MOST_STEPS:,} of them, and there are {steps:,}"
        raise InputError(said, hint=f"ask for fewer, or leave {spelled('estimate')} out")


def _of_several(serving: Any, estimator: Estimator) -> Any:
    """Steps of serving at several sizes or numbers of chips with what to expect of each, which is asked by itself."""
    if serving.front is not None and serving.front.again is not None:
        serving = _sought_in_time(serving, estimator)
    may_be_several, phases = {"batch", "prompt", "context", "past", *OPTIONS}, {}
    for name, phase in serving.phases.items():
        asked = serving.asked_of(name)
        several = {each: value for each, value in asked.items() if each in may_be_several and is_several(value)}
        if not several:  # the other phase alone has several sizes
            phases[name] = getattr(estimated(serve(serving.model, **asked), estimator), name)
            continue
        rows = np.broadcast_arrays(*several.values())
        _check_few(rows[0].size)
        each = [values.ravel() for values in rows]
        found = [
            getattr(estimated(serve(serving.model, **{**asked, **row}), estimator), name).expectation
            for row in (dict(zip(several, map(int, values), strict=True)) for values in zip(*each, strict=True))
        ]
        together = rows_together(found, estimator.library, rows[0].shape)
        estimate = together.value if together.is_known.any() else None
        said = (*phase.assumptions, *together.assumptions)
        phases[name] = replace(phase, estimate=estimate, expectation=together, assumptions=said)
    told = further_expected(replace(serving, **phases), estimator)
    return told if told.front is None else replace(told, front=_front_of(told, estimator))


def _sought_in_time(serving: Any, estimator: Estimator) -> Any:
    """Steps of serving at the batches that are expected to take the time given, where it sought those that do at best.

    Of each context and layout the largest is found by halving: no batch that takes too long at best is expected to do.
    """
    front, asked = serving.front, serving.asked_of("decode")
    most: dict[tuple[int, int], int] = {}
    for choice in front.fitting:
        if choice.time_per_token <= front.most_time:
            each = choice.context, choice.tensor
            most[each] = max(most.get(each, 0), choice.batch)
    largest = [1]
    for (context, tensor), batch in most.items():
        one = {**asked, "context": context, **({"tensor": tensor} if "tensor" in asked else {})}

        def is_late(batch: int, one: dict[str, Any] = one) -> bool:
            found = estimated(serve(serving.model, **{**one, "batch": batch}), estimator).decode.estimate
            return found is not None and found > front.most_time

        largest.append(first_where(is_late, 0, batch + 1) - 1 if is_late(batch) else batch)
    powers = 2 ** np.arange(max(largest).bit_length())
    return front.again(np.unique(np.maximum([*powers, *largest], 1)))


def _front_of(serving: Any, estimator: Estimator) -> Any:
    """The front of the choices by what to expect of them; as it was where that is not known of all of them."""
    from roofline.models.serving.pareto import expected_front

    front, step = serving.front, serving.decode
    if front.form != "lower":
        return front
    if not serving.is_expected:
        why = f"no constants of {estimator.library} are known for all of these choices, so times and limits are floors"
        said = "NOTHING IS EXPECTED of some choices, as said below: times and limit are floors"
        return replace(front, alerts=(said,), incomplete=(*front.incomplete, why))
    sizes = [step.sizes.get(name, 1) for name in ("batch", "context", "tensor")]
    of = step.expectation
    rows = np.broadcast_arrays(*sizes, of.value, of.low, of.high)
    times = {
        (int(batch), int(context), int(tensor)): (float(value), float(low), float(high))
        for batch, context, tensor, value, low, high in zip(*(each.ravel() for each in rows), strict=True)
    }
    return replace(
        expected_front(front, times), assumptions=tuple(dict.fromkeys((*front.assumptions, *of.assumptions)))
    )


def _of_trainings(answer: Any, estimator: Estimator) -> Any:
    """What to expect of training steps at several sizes, each by its floor."""
    _check_few(answer.lower.size)
    found = [expect_training(estimator, each) for each in answer.lower.ravel().tolist()]
    return None if None in found else rows_together(found, estimator.library, answer.lower.shape)


def _of_step(table: Any, row: int, estimator: Estimator) -> Any:
    """What to expect of a step of a table: what its own answer says."""
    if table.phase == "train":
        return expect_training(estimator, table.row(row).lower)
    if table.phase == "mixed":
        return _of_bound(table.row(row), estimator).expectation
    return getattr(
        estimated(serve(**{"model": table.model, **table.asked_in(row)}), estimator), table.phase
    ).expectation


def _with_columns(table: Any, found: Sequence[Any], estimator: Estimator) -> Any:
    """A table with the columns of what is expected of its rows."""
    from roofline.models.sweeps import StepSweep

    columns = dict(table.columns)
    for name, at in {"expected": "value", "low": "low", "high": "high"}.items():
        columns[name] = np.concatenate([getattr(each, at) for each in found])
    said = dict.fromkeys(str(line) for each in found for line in each.assumptions)
    if hasattr(table, "is_possible"):
        possible = np.array([table.is_possible(row) for row in range(len(table))])
    else:
        possible = ~np.isnan(columns["lower"]) if "lower" in columns else np.ones(len(table), bool)
    unknown, lines = int((np.isnan(columns["expected"]) & possible).sum()), table.incomplete
    if unknown:
        why = f"no constants of {estimator.library} are known for them, so only their bounds hold"
        lines = (*lines, f"nothing is expected of {unknown:,} of {len(table):,} rows: {why}")
    expected = table.with_expected(columns) if isinstance(table, StepSweep) else replace(table, columns=columns)
    return replace(expected, assumptions=(*table.assumptions, *said), incomplete=lines)


def _of_bound(answer: Any, estimator: Estimator) -> Any:
    if isinstance(answer, Pipelined):
        raise InputError("what to expect over the stages of a pipeline is not modelled", hint="tensor and data are")
    if not isinstance(answer, Bound):
        raise InputError(f"no expectation of {type(answer).__name__} is modelled", hint="a bound, or serving a model")
    return estimator.estimated(answer)


__all__ = [
    "Accuracy", "Calibration", "Estimator", "Expectation", "ExpectedRoof", "HeldAccuracy", "KernelConstants",
    "accuracy", "calibrate", "calibrate_served", "estimated", "expected_roof", "held_accuracy", "read_constants",
]  # fmt: skip
