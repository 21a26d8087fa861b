"""Step constants of a serving framework from served runs of one's own.

A row is one run at one load: sequences at once, tokens of a prompt and of an answer, and its times::

    batch,prompt,output,tpot_ms,ttft_ms
    16,1024,1024,9.4,71

``concurrency``, ``isl`` and ``osl`` may stand for ``batch``, ``prompt`` and ``output``, ``tpot_s`` for ``tpot_ms``;
``ttft`` may be left out, and counts where nothing waits: at four sequences a copy or fewer. ``tensor``, ``data`` and
``expert`` may be columns where runs differ in them. Runs faster than the bound of their step are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.estimates.advised_runs import AdvisedRuns, advised_runs
from roofline.estimates.calibration import Calibrated, Calibration, refitted
from roofline.estimates.calibration import calibrate as calibrate_kernels
from roofline.estimates.estimator import Estimator
from roofline.estimates.fitting import Rows
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.own_runs import MeasuredKernel, left_out, row_number, rows_of
from roofline.estimates.served import served_shapes
from roofline.hardware.machine import Machine
from roofline.models.serving.answer import serve
from roofline.signatures import either, spelled, takes

#: Names of a column.
NAMES = {"batch": ("batch", "concurrency"), "prompt": ("prompt", "isl"), "output": ("output", "osl")}
UNITS = {"_ms": 1e-3, "_s": 1.0}
#: Fewest runs that constants are fitted to, and most sequences of a copy at which nothing waits before its prefill.
LEAST_RUNS, UNLOADED = 3, 4
#: A row of a served run, for instance.
A_SERVED_RUN = '[{"batch": 16, "prompt": 1024, "output": 1024, "tpot_ms": 9.4, "ttft_ms": 71}]'

Run = tuple[Mapping[str, float], float]


@takes()
def calibrate(
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]] | None = None,
    on: str | Machine | None = None,
    *,
    library: str = "vllm",
    start: str | None = None,
    model: str | None = None,
    tensor: int | None = None,
    data: int | None = None,
    expert: int | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
) -> Calibration | AdvisedRuns:
    """Fit constants of a chip to measured kernels, or with a ``model`` those of a framework's steps to served runs.

    ``runs`` is a CSV file, a trace of torch.profiler, a machine file, or a list of rows: ``{"m": 64, "n": 8192, "k":
    8192, "dtype": "bf16", "us": 51.2}``, of served runs ``{"batch": 16, "prompt": 1024, "output": 1024, "tpot_ms":
    9.4}``. ``library`` names what ran, unless rows say so. ``start`` names the library whose constants are the prior.
    With ``model``, ``tensor``, ``data``, ``expert``, ``weights``, ``activations`` and ``kv`` say how it is served.
    Without ``runs`` the answer is a table of products to measure first.
    """
    served = {
        "tensor": tensor, "data": data, "expert": expert, "weights": weights, "activations": activations, "kv": kv
    }  # fmt: skip
    given = {name: value for name, value in served.items() if value is not None}
    if model is None and given:
        raise InputError(
            f"{spelled(next(iter(given)))} is of a model that is served", hint=f"name it with {spelled('model')}"
        )
    if on is None:
        raise InputError(f"runs are of a chip, which {spelled('on')} names", hint=spelled("on", "h100"))
    if runs is None and model is not None:
        raise InputError("served runs are needed to fit steps", hint=A_SERVED_RUN)
    if runs is None:
        return advised_runs(on, library=library, start=start)
    if model is None:
        return calibrate_kernels(runs, on, library=library, start=start)
    if start is not None:
        said = f"{either('--from', 'start=')} is of kernels: steps start from those of {spelled('library')}"
        raise InputError(said, hint="leave one of them out")
    return calibrate_served(runs, model, on, library=library, **given)


@takes()
def calibrate_served(
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]],
    model: str,
    on: str | Machine,
    *,
    library: str = "vllm",
    **options: Any,
) -> Calibration:
    """Fit a framework's constants of steps on a chip to served runs of a model, from the nearest known constants.

    ``options`` are those of serving: ``tensor``, ``data``, ``expert``, ``weights``, ``activations``, ``kv``.
    """
    estimator = Estimator(library)
    rejected: dict[str, int] = defaultdict(int)
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    machine = None
    for where, row in rows_of(runs, A_SERVED_RUN):
        batch, prompt, output = (int(_figure(row, name, where)) for name in NAMES)
        ways = {name: int(row_number(row, name, where)) for name in ("tensor", "data", "expert") if row.get(name)}
        context = prompt + output // 2
        asked = serve(model, on=on, batch=batch, prompt=prompt, context=context, **{**options, **ways})
        shapes = served_shapes(estimator, asked, output)
        if shapes is None or asked.decode is None:
            raise InputError(f"{where}: no step of {model} is modelled", hint="tensor, data and expert ways are")
        machine = asked.decode.machine
        kind = (shapes.dtype, shapes.path)
        taken = {"served_step": (_seconds(row, "tpot", where), shapes.of_step(), shapes.floor)}
        if shapes.batch <= UNLOADED:
            taken["first_token"] = (_seconds(row, "ttft", where), shapes.of_first_token(), shapes.first_floor)
        for kernel, (seconds, given, floor) in taken.items():
            if seconds is not None and seconds < floor:
                rejected[f"{kernel.replace('_', ' ')} faster than its bound: another layout, format or unit"] += 1
            elif seconds is not None:
                groups[kernel, *kind].append((given, seconds))
    fitted: list[Calibrated] = []
    starts = []
    for (kernel, dtype, kind_of_model), members in groups.items():
        record = estimator.step_record(kernel, dtype, kind_of_model, machine) if machine is not None else None
        if record is None or len(members) < LEAST_RUNS or machine is None:
            why = f"no constants to start from, or fewer than {LEAST_RUNS}: {kernel.replace('_', ' ')}"
            rejected[why] += len(members)
            continue
        ours = replace(record, dtype="any" if record.dtype == "any" else dtype, stand_in=())
        fitted.append(refitted([(ours, 1.0)], _rows(members), machine.key, library))
        starts.append(f"{record.chip} {record.library} ({record.transferred_from or 'this chip'})")
    if not fitted or machine is None:
        why = "; ".join(left_out(rejected, "run")) or "the file has no rows"
        whose = runs if isinstance(runs, str | Path) else "runs"
        raise InputError(
            f"nothing in {whose} can be fitted: {why}", hint="batch, prompt, output and tpot_ms of ten runs"
        )
    return Calibration(machine.key, library, tuple(fitted), dict(rejected), tuple(starts))


def _rows(runs: list[Run]) -> Rows:
    import numpy as np

    shapes = {name: np.array([given[name] for given, _ in runs]) for name in runs[0][0]}
    return Rows(shapes, np.array([seconds for _, seconds in runs]), ChipFigures(1, 1, 1, 1))


def _figure(row: Mapping[str, str], name: str, where: str) -> float:
    """A figure under one of the names of its column."""
    found = next((column for column in NAMES[name] if row.get(column)), None)
    if found is None:
        raise InputError(f"{where} has no {name}", hint=f"a column {' or '.join(NAMES[name])}")
    return row_number(row, found, where)


def _seconds(row: Mapping[str, str], name: str, where: str) -> float | None:
    found = next((unit for unit in UNITS if row.get(name + unit)), None)
    if found is None and name == "tpot":
        raise InputError(f"{where} has no time between tokens", hint="a column tpot_ms or tpot_s")
    return None if found is None else row_number(row, name + found, where) * UNITS[found]
