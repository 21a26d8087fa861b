"""Which products to measure on a chip, so that few runs tell most of its constants.

The sizes are those that lessen most what is not known of the times of all sizes (:func:`fitting.most_telling`), from
the constants that :func:`calibration.calibrate` starts from. No time is looked at, so that a table of them can be
filled in where the chip is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from roofline import dtypes
from roofline.answers import Answer
from roofline.errors import InputError
from roofline.estimates.calibration import as_rows, start_for
from roofline.estimates.estimator import Estimator, chip_figures
from roofline.estimates.fitting import most_telling, spread_evenly
from roofline.estimates.kernel_model import ChipFigures, data_sheet_bound
from roofline.estimates.kernel_registry import KERNELS
from roofline.estimates.own_runs import MeasuredKernel, read_kernels
from roofline.frozen import NamedTuple, dataclass
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Sentences, Table, figures
from roofline.signatures import either, takes
from roofline.work import Key

#: Formats of products that a table is made for, where the chip has units for them.
FORMATS = ("bf16", "fp16", "fp8", "nvfp4")
#: Runs of a format, sizes that are looked at, and the sizes of products where no constants say what was measured.
RUNS, LOOKED_AT = 10, 600
USUAL = {"m": (1.0, 16384.0), "n": (128.0, 65536.0), "k": (128.0, 65536.0)}
#: Longest bound of a run, seconds, and the share of memory that its operands may take.
LONGEST, SHARE = 20e-3, 0.25
#: Bytes of a memory of unknown size.
SMALL = 16e9
#: Sizes are powers of two or three times as much; widths and depths of at least so many.
NARROWEST = 128


class AdvisedRun(NamedTuple):
    """A product to measure, and what is expected of it before, seconds."""

    m: int
    n: int
    k: int
    dtype: str
    expected: float | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AdvisedRuns(Answer):
    """Products to measure on a chip, the most telling of each format first: a table to fill in and to calibrate by."""

    target: str
    library: str
    runs: tuple[AdvisedRun, ...]

    def sections(self) -> Iterable[Section]:
        """A row a run, with room for its time."""
        yield Headline(f"runs to measure on {self.target}", f"with {self.library}")
        yield BLANK
        columns = [*figures("m", "n", "k"), Column("dtype"), *figures("us", "expected")]
        yield Table(columns, [_row(one) for one in self.runs], name="runs")
        yield BLANK
        command = f"roofline calibrate runs.csv --on {self.target} -o mine.toml"
        again = either(command, f"calibrate('runs.csv', {self.target!r}).save('mine.toml')")
        yield Sentences([f"saved as runs.csv, with the microseconds of each: {again}"])

    def to_dict(self) -> dict[str, Any]:
        """Under stable keys (schema ``roofline/advised-runs/1``)."""
        runs = [one._asdict() for one in self.runs]
        return {"schema": "roofline/advised-runs/1", "chip": self.target, "library": self.library, "runs": runs}


def _row(one: AdvisedRun) -> Row:
    sizes = (Amount(size, "", str(size)) for size in (one.m, one.n, one.k))
    return Row((*sizes, one.dtype, "", "" if one.expected is None else Amount(one.expected, "s")))


@takes()
def advised_runs(on: str | Machine, *, library: str = "vllm", start: str | None = None) -> AdvisedRuns:
    """Which products to measure on a chip: ten of each format that it has units for.

    ``library`` names what will run, ``start`` the library whose constants are the prior, as in ``calibrate``.

    >>> found = advised_runs("h200")
    >>> len(found.runs), sorted({one.dtype for one in found.runs})
    (20, ['bf16', 'fp8'])
    """
    machine = chip(on)
    estimator = Estimator(start or library)
    found: list[AdvisedRun] = []
    for dtype in FORMATS:
        alike = dtype == "fp16" and any(one.dtype == "bf16" for one in found)
        peak = rate(machine, Key("flops", "matrix", dtypes.get(dtype).arithmetic))
        if not alike and peak is not None and peak.dtype == dtypes.get(dtype).arithmetic:
            found += _of_format(dtype, machine, estimator, library)
    if not found:
        said = f"{machine.key} has no matrix units in {', '.join(FORMATS)}, so no products are advised"
        raise InputError(said, hint="rows of other kernels are fitted too")
    return AdvisedRuns(machine.key, library, tuple(found))


def _of_format(dtype: str, machine: Machine, estimator: Estimator, library: str) -> list[AdvisedRun]:
    """The products of one format that tell most."""
    first = read_kernels([{"m": 1, "n": NARROWEST, "k": NARROWEST, "dtype": dtype, "us": 1}], machine)[0].run
    sources = start_for(estimator, first, machine, library)
    record = sources[0][0]
    limits = {name: record.valid.get(name, ends) for name, ends in USUAL.items()}
    here = chip_figures(machine, record, first)
    kernels = _candidates(dtype, limits, machine, here)
    rows = as_rows(kernels, here)
    starts = [(one.values, one.policy) for one, _ in sources]
    told = most_telling(KERNELS[first.kernel], rows, starts, [share for _, share in sources], limits, RUNS)
    chosen = [kernels[at].run for at in told]
    expected = [estimator.kernel(run, machine) for run in chosen]
    times = [None if one.source is None else float(one.value) for one in expected]
    sizes = [[int(run.shapes[name]) for name in "mnk"] for run in chosen]
    return [AdvisedRun(m, n, k, dtype, time) for (m, n, k), time in zip(sizes, times, strict=True)]


def _candidates(
    dtype: str, limits: Mapping[str, tuple[float, float]], machine: Machine, here: ChipFigures
) -> list[MeasuredKernel]:
    """Products of round sizes, spread evenly over the limits, that fit and end soon."""
    even = zip(*(spread_evenly(limits, LOOKED_AT)[name] for name in "mnk"), strict=True)
    rounded = dict.fromkeys((_round("m", m), _round("n", n), _round("k", k)) for m, n, k in even)
    kernels = read_kernels([{"m": m, "n": n, "k": k, "dtype": dtype, "us": 1} for m, n, k in rounded], machine)
    room = machine.memories[0].capacity
    most = SHARE * (room.value if room is not None else SMALL)
    floors = [data_sheet_bound(one.run.kernel, one.run.shapes, here) for one in kernels]
    return [one for one, (floor, held) in zip(kernels, floors, strict=True) if floor <= LONGEST and held <= most]


def _round(name: str, size: float) -> int:
    """The nearest power of two, or three times one; of a width or a depth at least 128."""
    power = 2.0 ** math.floor(math.log2(max(size, 1.0)))
    near = min((power, 1.5 * power, 2 * power), key=lambda one: abs(math.log(one / size)))
    return max(round(near), 1 if name == "m" else NARROWEST)
