"""Constants from a few runs of one's own: read a CSV, drop what cannot be, fit from the nearest constants, report.

A row of the file is one kernel: an ``expression`` of the notation, or the shapes of a kind of kernel, with the seconds
it took::

    m,n,k,dtype,seconds                                batch,heads,kv_heads,head_size,length,dtype,us
    64,8192,8192,bf16,5.1e-5                           8,32,8,128,4096,bf16,61.2

``us`` or ``ms`` may stand for ``seconds``; ``library`` and ``q_length`` are optional. Rows that cannot be are left out
with a reason: below the cold bound with a working set over twice the cache, two times for one shape that differ by more
than a quarter, times that a timer of a microsecond cannot tell apart.

The fit is a maximum a posteriori one: constants move from the nearest known ones as far as the rows ask. The error
before and after is taken by leaving out one row in five at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roofline.answers import Answer
from roofline.errors import InputError
from roofline.estimates.attention import attention_path
from roofline.estimates.constants import KernelConstants, write_constants
from roofline.estimates.estimator import PRODUCT_FORMATS, Estimator, KernelRun, chip_figures, kernels_of
from roofline.estimates.fitting import Errors, Rows, fit
from roofline.estimates.kernel_table import KERNELS
from roofline.estimates.kernels import data_sheet_bound
from roofline.files import MOST_SAMPLES, as_text, read_bytes, table_rows
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.quantity import format_percent
from roofline.sections import BLANK, Column, Headline, Listing, Row, Section, Table

#: Fewest rows that constants are fitted to, and most that a file may have.
LEAST_ROWS = 5
#: Strength of the prior from constants of this chip, and from those of another one: own rows count for more there.
PRIORS = {"chip": 0.5, "other": 0.15}
_SECONDS = {"seconds": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "measured_us": 1e-6}
_PRODUCT = ("m", "n", "k")
_ATTENTION = ("batch", "heads", "head_size", "length")


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """Constants of one kind of kernel with the error of the nearest ones before, and of these after."""

    constants: KernelConstants
    before: Errors
    after: Errors


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Calibration(Answer):
    """What runs made of the constants of a chip: new constants, errors before and after, rows left out and why."""

    target: str
    library: str
    fitted: tuple[Calibrated, ...]
    rejected: Mapping[str, int]
    started_from: tuple[str, ...] = ()

    def sections(self) -> Iterable[Section]:
        """A row a kind of kernel, then what was left out."""
        yield Headline(f"calibration of {self.target}", f"for {self.library}")
        yield BLANK
        columns = [
            Column("kernel"),
            Column("format"),
            *(Column(name, align="right") for name in ("rows", "error before", "after", "bias before", "after")),
        ]
        rows = [
            Row(
                (
                    one.constants.kernel.replace("_", " "),
                    one.constants.dtype,
                    str(one.after.count),
                    format_percent(one.before.mdape),
                    format_percent(one.after.mdape),
                    f"{100 * one.before.bias:+.1f}%",
                    f"{100 * one.after.bias:+.1f}%",
                )
            )
            for one in self.fitted
        ]
        yield Table(columns, rows, name="calibration")
        yield BLANK
        yield Listing("started from", list(dict.fromkeys(self.started_from)), "quiet")
        if self.rejected:
            yield Listing("left out", [f"{count} rows: {why}" for why, count in self.rejected.items()], "warning")

    def to_dict(self) -> dict[str, Any]:
        """Under stable keys (schema ``roofline/calibration/1``)."""
        fitted = [
            {
                "constants": one.constants.to_dict(),
                "before": one.before.mdape,
                "after": one.after.mdape,
                "rows": one.after.count,
            }
            for one in self.fitted
        ]
        return {
            "schema": "roofline/calibration/1",
            "chip": self.target,
            "library": self.library,
            "fitted": fitted,
            "rejected": dict(self.rejected),
        }

    def save(self, path: str | Path) -> None:
        """Write the constants to a file that ``files=`` and ``--constants`` take."""
        write_constants([one.constants for one in self.fitted], path, f"Calibrated for {self.target}.")


def calibrate(path: str | Path, on: str | Machine, *, library: str = "vllm", start: str | None = None) -> Calibration:
    """Fit constants of a chip to a file of measured kernels, from the nearest known constants.

    ``library`` names what ran, unless rows say so; ``start`` names the library whose constants are the prior.
    """
    machine = chip(on) if isinstance(on, str) else on
    rejected: dict[str, int] = defaultdict(int)
    estimator = Estimator(start or "vllm")
    groups: dict[tuple[str, str, str, str], list[tuple[KernelRun, float]]] = defaultdict(list)
    for number, row in _rows(path):
        run, seconds, named = _read(row, machine, f"{path}, line {number}")
        groups[run.kernel, run.dtype, run.path, named or library].append((run, seconds))
    fitted, starts = [], []
    for key, members in groups.items():
        kept = _plausible(members, machine, estimator, rejected)
        record = estimator.record(kept[0][0], machine) if len(kept) >= LEAST_ROWS else None
        if record is None:
            rejected[
                f"no constants to start from, or fewer than {LEAST_ROWS} rows: {key[0].replace('_', ' ')} {key[1]}"
            ] += len(kept)
            continue
        fitted.append(_fitted(record, kept, machine, key[3]))
        starts.append(f"{record.chip} {record.library} ({record.transferred_from or 'this chip'})")
    if not fitted:
        why = "; ".join(f"{count} rows: {said}" for said, count in rejected.items()) or "the file has no rows"
        raise InputError(f"nothing in {path} can be fitted: {why}", hint="ten rows of a kind of kernel suffice")
    return Calibration(machine.key, library, tuple(fitted), dict(rejected), tuple(starts))


def _rows(path: str | Path) -> Iterator[tuple[int, dict[str, str]]]:
    hint, name = "a CSV file with a line of names first", str(path)
    text = as_text(read_bytes(path, "table"), name)
    rows = table_rows(text, name, hint, most=MOST_SAMPLES)
    _, header = next(rows, (0, []))
    names = [word.strip().lower() for word in header]
    for line, row in rows:
        yield line, dict(zip(names, (value.strip() for value in row), strict=False))


def _read(row: Mapping[str, str], machine: Machine, where: str) -> tuple[KernelRun, float, str]:
    """One row as a kernel, its seconds, and the library it names."""
    unit = next((name for name in _SECONDS if row.get(name)), None)
    if unit is None:
        raise InputError(f"{where} has no time", hint="a column seconds, ms or us")
    seconds = _number(row, unit, where) * _SECONDS[unit]
    if row.get("expression"):
        from roofline.bounds.api import bound

        runs = kernels_of(bound(row["expression"], on=machine))
        if len(runs) != 1:
            raise InputError(f"{where}: the expression makes {len(runs)} kernels", hint="one operation a row")
        return runs[0], seconds, row.get("library", "")
    if all(row.get(name) for name in _PRODUCT):
        return _product(row, where), seconds, row.get("library", "")
    if all(row.get(name) for name in _ATTENTION):
        return _attention(row, where), seconds, row.get("library", "")
    raise InputError(f"{where} names no kernel", hint="an expression, or m, n, k, or batch, heads, head_size, length")


def _number(row: Mapping[str, str], name: str, where: str, default: float | None = None) -> float:
    text = row.get(name, "")
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1e18:
        raise InputError(f"{where}: {name} is {text!r:.40}", hint="a number above 0")
    return value


def _product(row: Mapping[str, str], where: str) -> KernelRun:
    dtype = PRODUCT_FORMATS.get(row.get("dtype", "bf16"), row.get("dtype", "bf16"))
    size = {"bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5625, "int8": 1.0, "int4": 0.5}.get(dtype)
    if size is None:
        raise InputError(f"{where}: no kernels of {dtype!r:.40} are known", hint="bf16, fp8, nvfp4, int8, int4")
    only_weights = dtype in ("int8", "int4")
    shapes = {name: _number(row, name, where) for name in _PRODUCT}
    shapes |= {
        "batch": _number(row, "batch", where, 1.0),
        "a_bytes": 2.0 if only_weights else size,
        "b_bytes": size,
        "out_bytes": 2.0,
    }
    kernel = "quantised_contraction" if dtype in ("fp8", "nvfp4") else "contraction"
    return KernelRun(kernel, dtype, "weights only" if only_weights else "", shapes, ())


def _attention(row: Mapping[str, str], where: str) -> KernelRun:
    shapes = {name: _number(row, name, where) for name in _ATTENTION}
    shapes["kv_heads"] = _number(row, "kv_heads", where, shapes["heads"])
    dtype = PRODUCT_FORMATS.get(row.get("dtype", "bf16"), "bf16")
    shapes["kv_bytes"] = 1.0 if row.get("kv", dtype) == "fp8" else 2.0
    queries = _number(row, "q_length", where, 1.0)
    kernel = "prefill_attention" if queries > 1 else "decode_attention"
    path = attention_path(kernel, shapes["kv_bytes"], shapes["heads"], shapes["kv_heads"])
    if queries > 1:
        shapes |= {"past": shapes["length"] - queries, "length": queries}
    return KernelRun(kernel, dtype, path, shapes, ())


def _plausible(
    members: Sequence[tuple[KernelRun, float]], machine: Machine, estimator: Estimator, rejected: dict[str, int]
) -> list[tuple[KernelRun, float]]:
    """Rows that can be: those that cannot are counted under their reason."""
    times: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for run, seconds in members:
        times[tuple(sorted(run.shapes.items()))].append(seconds)
    kept: dict[tuple[Any, ...], tuple[KernelRun, float]] = {}
    record = estimator.record(members[0][0], machine)
    figures = None if record is None else chip_figures(machine, record, members[0][0])
    for run, seconds in members:
        key = tuple(sorted(run.shapes.items()))
        every = times[key]
        floor, working_set = data_sheet_bound(run.kernel, run.shapes, figures) if figures is not None else (0.0, 0.0)
        if max(every) > 1.25 * min(every):
            rejected["one shape has times that differ by over a quarter"] += 1
        elif figures is not None and seconds < 0.98 * floor and working_set > 2 * figures.cache:
            rejected["faster than the data sheet allows, with data over twice the cache"] += 1
        elif seconds < 20e-6 and abs(seconds * 1e6 - round(seconds * 1e6)) < 1e-9:
            rejected["under 20 µs and whole microseconds: the timer is too coarse"] += 1
        elif key in kept:
            rejected["the same shape again: the first is taken"] += 1
        else:
            kept[key] = (run, seconds)
    return list(kept.values())


def _fitted(
    record: KernelConstants, kept: Sequence[tuple[KernelRun, float]], machine: Machine, library: str
) -> Calibrated:
    """Fit one kind of kernel, with errors by leaving out a fifth of the rows at a time."""
    import numpy as np

    model = KERNELS[record.kernel]
    own = [constant.name for constant in model.constants if constant.own]
    names = sorted({name for run, _ in kept for name in run.shapes})
    shapes = {name: np.array([float(run.shapes.get(name, 0.0)) for run, _ in kept]) for name in names}
    rows = Rows(shapes, np.array([seconds for _, seconds in kept]), chip_figures(machine, record, kept[0][0]))
    prior = PRIORS["other" if record.transferred_from else "chip"]
    before = model.times(shapes, rows.chip, record.values, record.policy)
    after = np.empty(len(rows))
    folds = np.arange(len(rows)) % min(5, len(rows))
    for fold in np.unique(folds):
        out = folds == fold
        found = fit(model, rows.take(~out), record.values, own, record.policy, prior)
        held = rows.take(out)
        after[out] = model.times(held.shapes, rows.chip, found.values, found.policy)
    found = fit(model, rows, record.values, own, record.policy, prior)
    errors = Errors.of(after, rows.seconds)
    ratio = np.sort(rows.seconds / after)
    interval = ((float(np.quantile(ratio, 0.1)), float(np.quantile(ratio, 0.9))),)
    constants = replace(
        record,
        chip=machine.key,
        library=library,
        values=found.values,
        interval=interval,
        edges=(),
        transferred_from="",
        error={
            "mdape": errors.mdape,
            "mape": errors.mape,
            "p90": errors.p90,
            "bias": errors.bias,
            "n_fit": len(rows),
            "n_test": errors.count,
        },
        valid={
            name: (float(shapes[name].min()), float(shapes[name].max())) for name in model.sorted_by if name in shapes
        },
        source="calibrated from runs of one's own",
        state="",
        version="",
        figures=rows.chip._asdict(),
    )
    return Calibrated(constants, Errors.of(before, rows.seconds), errors)
