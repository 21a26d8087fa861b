"""Constants from a few runs of one's own: read a CSV, drop what cannot be, fit from the nearest constants, report.

The rows of a file, and which are left out: :mod:`roofline.estimates.own_runs`.

The fit is a maximum a posteriori one: constants move from known ones as far as the rows ask. On a chip without
constants each of the chips that stand behind an expectation is a start. The one that the rows fit best is taken, with
another policy where that is clearly better. The error before is that of the expectation as it was. The error after is
taken by leaving out one row in five at a time. Where it is over twice that of the constants that the fit starts from,
these stay.

:func:`advised_runs` says which products to measure on a chip, so that few runs tell most of its constants: sizes that
lessen most what is not known of the times of all sizes (:func:`roofline.estimates.fitting.most_telling`), from the
constants that the fit starts from. No time is looked at, so that a table of them can be
filled in where the chip is.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofline import dtypes
from roofline.answers import Answer
from roofline.errors import InputError, quoted
from roofline.estimates.constants import (
    KERNELS,
    LEFT_OUT,
    OWN_RUNS,
    TAILS,
    KernelConstants,
    kernel_in_words,
    shipped,
    write_constants,
)
from roofline.estimates.estimator import Estimator, KernelRun, chip_figures, libraries
from roofline.estimates.fitting import Errors, Fitted, Rows, fit, fit_from_few, most_telling, spread_evenly
from roofline.estimates.kernel_model import ChipFigures, data_sheet_bound
from roofline.estimates.own_runs import (
    TYPICAL,
    MeasuredKernel,
    OfRows,
    Rejected,
    by_kind,
    formats_of,
    kernels_from,
    left_out,
    plausible,
    read_kernels,
    said_of,
    typical,
)
from roofline.estimates.transfer import mixed
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.lazy import np
from roofline.progress import counted, stopped
from roofline.quantity import format_percent, format_quantity, in_a_row
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    Headline,
    Listing,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    figures,
    percentage,
)
from roofline.signatures import either, takes
from roofline.statements import Assumption
from roofline.work import Key

#: Fewest rows that constants are fitted to.
LEAST_ROWS = 5
#: How far a time may be from what the others tell, and one row in how many may be further off.
ODD, MOST_ODD = 5, 5

#: The 90th percentile of Student's t with n - 1 degrees of freedom, by n (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
STUDENT = {3: 1.886, 4: 1.638, 5: 1.533, 6: 1.476, 7: 1.440, 8: 1.415}
#: Rows of the fit that a model states the prior of. With more rows it stays as strong, so that they outweigh it.
PRIOR_ROWS = 10
#: Most steps of a fit.
MOST_STEPS = 30
#: By how much the mean error of rows left out has to exceed that of the start for the start to stay. Four of five rows
#: tell less than five: on first halves of measured kernels the fit that looked worse was mostly the better one.
MUCH_WORSE = 2.0
#: Prefills between steps at under this share of their time alone are in none of the times.
NO_PREFILLS = 0.2
#: Share of runs that an interval of 80% does not hold.
OUTSIDE = 0.2
#: Rows by which the start and the policy are chosen, where there are more.
ROWS_FOR_START = 60
#: Rows for which all constants move, and not only those of one chip, where typical values are the start.
ROWS_FOR_ALL = 30
#: Strength of the prior where typical values are the start.
TYPICAL_PRIOR = 0.05


#: Constants of other chips, or of this one, with their weights.
Sources = Sequence[tuple[KernelConstants, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """Constants of one kind of kernel with the error of the nearest ones before, and of these after.

    ``kept`` says that these are those it started from, as the rows tell no more. ``outside`` are runs whose times the
    interval does not hold, the furthest first: where each stands, its seconds and those expected. ``formats`` are those
    of the runs, as constants of one format of half precision are of both.
    """

    constants: KernelConstants
    before: Errors
    after: Errors
    kept: bool = False
    outside: tuple[tuple[str, float, float], ...] = ()
    formats: str = ""

    @property
    def kind(self) -> str:
        """The kind of kernel and the formats of its runs, in words."""
        return f"{kernel_in_words(self.constants.kernel, self.constants.path)} in {self.formats}"

    @property
    def worse(self) -> bool:
        """Whether the rows brought no gain, by constants that moved."""
        return not self.kept and self.after.mdape > self.before.mdape

    def outside_in_words(self) -> str:
        """How many of its runs the interval does not hold, and the one that is furthest from it."""
        where, seconds, expected = self.outside[0]
        ends = " to ".join(format_quantity(expected * end, "s") for end in self.constants.interval[0])
        lie = "lies" if len(self.outside) == 1 else "lie"
        many = f"{len(self.outside)} of {self.after.count} runs of {self.kind}"
        took, wanted = format_quantity(seconds, "s"), format_quantity(expected, "s")
        said = f"{many} {lie} outside the interval of 80% of their own constants, furthest {where}"
        return f"{said}: {took}, expected {wanted} ({ends})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Calibration(OfRows, Answer):
    """What runs made of the constants of a chip: new constants, errors before and after.

    ``left_out`` says where rows stand that were left out, by the reason; ``assumptions`` what the fit takes of rows.
    """

    target: str
    library: str
    fitted: tuple[Calibrated, ...]
    left_out: Mapping[str, Sequence[str]]
    started_from: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def constants(self) -> tuple[KernelConstants, ...]:
        """The new constants, which ``constants=`` takes."""
        return tuple(one.constants for one in self.fitted)

    def one_line(self) -> str:
        """Each kind of kernel with its runs, and the errors before and after."""
        each = (
            f"{one.kind}, {one.after.count} runs, error {format_percent(one.before.mdape)} → "
            f"{format_percent(one.after.mdape)}"
            for one in self.fitted
        )
        return f"Calibration of {self.target}: {'; '.join(each)}"

    def sections(self) -> Iterable[Section]:
        """A row a kind of kernel, then what was left out."""
        yield Headline(f"calibration of {self.target}", f"for {self.library}")
        yield BLANK
        columns = [Column("library"), Column("kernel", wrap="words"), Column("format")]
        columns += [*figures("rows", "error before"), Column("after", align="right", meaning="error after")]
        columns += [*figures("bias before"), Column("after", align="right", meaning="bias after")]
        rows = []
        for one in self.fitted:
            kind = (one.constants.library, kernel_in_words(one.constants.kernel, one.constants.path), one.formats)
            errors = (percentage(each.mdape) for each in (one.before, one.after))
            biases = (percentage(each.bias, signed=True) for each in (one.before, one.after))
            rows.append(Row((*kind, Amount(one.after.count, "", str(one.after.count)), *errors, *biases)))
        yield Table(columns, rows, name="calibration")
        yield BLANK
        yield Listing("errors", [f"before: of the constants it started from; after: of {LEFT_OUT}"], "quiet")
        yield Listing("started from", list(dict.fromkeys(self.started_from)), "quiet")
        kept, worse = "is over twice that before: the constants it started from stay", "is above that before"
        for said, which in (
            (kept, [one.kind for one in self.fitted if one.kept]),
            (f"{worse}: measure more sizes, short and long ones", [one.kind for one in self.fitted if one.worse]),
        ):
            if which:
                yield Listing("no gain", [f"the error of {', '.join(dict.fromkeys(which))} {said}"], "warning")
        for one in self.fitted:
            if one.outside:
                many = len(one.outside) > OUTSIDE * one.after.count
                yield Listing("outside", [one.outside_in_words()], "warning" if many else "quiet")
            share = 1.0 if one.kept else one.constants.values.get("prefill_factor", 1.0)
            if one.constants.kernel == "served_step" and share < NO_PREFILLS:
                said = f"those between steps came out at {format_percent(share)} of their time alone"
                hint = "times without prefills have a context in place of prompt and output"
                yield Listing("prefills", [f"{said}: {hint}"], "warning")
        yield from (assumes(self.assumptions), Listing("left out", left_out(self.left_out), "warning"))

    def to_dict(self) -> dict[str, Any]:
        """Under stable keys (schema ``roofline/calibration/1``)."""
        fitted = [
            {"constants": one.constants.to_dict(), "before": one.before.mdape, "after": one.after.mdape,
             "rows": one.after.count, "kept": one.kept, "outside": [where for where, *_ in one.outside]}
            for one in self.fitted
        ]  # fmt: skip
        body = {"chip": self.target, "library": self.library, "fitted": fitted, "rejected": self.rejected}
        body |= {"assumptions": list(self.assumptions)}
        places = {why: list(each) for why, each in self.left_out.items()}
        return {"schema": "roofline/calibration/1", **body, "left_out": places}

    def save(
        self, path: str | os.PathLike[str], table: str | None = None, *, width: int | None = None,
        theme: str | None = None, title: str = "",
    ) -> None:  # fmt: skip
        """Write the constants to a file that ``files=`` and ``--constants`` take, or a ``table`` to CSV."""
        if table is not None or width is not None or theme is not None or title:
            super().save(path, table, width=width, theme=theme, title=title)
            return
        write_constants([one.constants for one in self.fitted], Path(path), f"Calibrated for {self.target}.")


@takes()
def calibrate(
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]],
    on: str | Machine,
    *,
    library: str = "vllm",
    start: str | None = None,
) -> Calibration:
    """Fit constants of a chip to measured kernels, from the nearest known constants.

    ``runs`` is a CSV file, a trace of torch.profiler, a machine file, or a list of rows: ``{"m": 64, "n": 8192, "k":
    8192, "dtype": "bf16", "us": 51.2}``, or a data frame of such. ``library`` names what ran, unless rows say so.
    ``start`` names the library whose constants are the prior, or one chip and the library (``h100+vllm``): by default
    that of the rows where it has constants, else vLLM, of the nearest chips.
    """
    machine = chip(on)
    rejected: Rejected = defaultdict(list)
    estimators = {start: Estimator(start)} if start else {}
    fitted, starts = [], []
    grouped = by_kind(kernels := kernels_from(runs, machine), library, machine, rejected)
    try:
        for key, members in counted(grouped.items()):
            named = start or (key[3] if key[3] in libraries(shipped("contraction")) else "vllm")
            estimator = estimators.setdefault(named, Estimator(named))
            kept = plausible(members, machine, estimator, rejected)
            if len(kept) < LEAST_ROWS:
                kind = f"{kernel_in_words(key[0], key[2])} in {key[1]} of {quoted(key[3])}"
                if kept:
                    rejected[f"fewer than {LEAST_ROWS} of a kind: {kind}"] += [one.where for one in kept]
                continue
            sources = start_for(estimator, kept[0].run, machine, key[3])
            kept = without_odd(kept, sources, machine, rejected)
            known = [] if sources[0][0].transferred_from == TYPICAL else sources
            if estimator.only and not known:
                said = f"constants of {named} say nothing of {key[0].replace('_', ' ')} on {machine.key}"
                raise InputError(said, hint="start from a chip of the same vendor that has them")
            rows = as_rows(kept, sources[0][0], machine)
            found = refitted(sources, rows, machine.key, key[3], [one.where for one in kept])
            fitted.append(replace(found, formats=formats_of(kept)))
            whose = in_a_row(f"{one.chip} {one.library}" for one, _ in known) or "typical values"
            where = f" ({known[0][0].transferred_from or 'this chip'})" if known else ""
            starts.append(f"{whose}{where}")
    except KeyboardInterrupt:
        if not fitted:
            raise
        stopped(len(fitted), len(grouped), "kinds of kernels")
    if not fitted:
        why = "; ".join(left_out(rejected)) or "the file has no rows"
        raise InputError(f"nothing can be fitted: {why}", hint="ten runs of each kind of kernel suffice")
    assumed = said_of(kernels)
    return Calibration(machine.key, library, tuple(fitted), rejected, tuple(starts), assumed)


def start_for(estimator: Estimator | None, run: KernelRun, machine: Machine, library: str) -> Sources:
    """The constants that a fit starts from: of the nearest chips, or typical values where none has any."""
    known = estimator.sources(run, machine) if estimator is not None else []
    return known or [(typical(run, machine, library), 1.0)]


def without_odd(
    kept: list[MeasuredKernel], sources: Sources, machine: Machine, rejected: Rejected
) -> list[MeasuredKernel]:
    """Rows without the few whose times are far off what the others make of the constants that a fit starts from."""
    record = sources[0][0]
    if record.transferred_from == TYPICAL:
        return kept
    rows = as_rows(kept, record, machine)
    off = np.log(rows.seconds / expected_before(sources, rows))
    odd = np.abs(off - np.median(off)) > np.log(ODD)
    if not odd.any() or odd.sum() > len(kept) / MOST_ODD or len(kept) - odd.sum() < LEAST_ROWS:
        return kept
    why = f"over {ODD} times more or less than the other rows tell: another kernel, or another unit"
    rejected[why] += [one.where for one, out in zip(kept, odd, strict=True) if out]
    return [one for one, out in zip(kept, odd, strict=True) if not out]


def expected_before(sources: Sources, rows: Rows) -> Any:
    """Seconds of rows by the constants that a fit starts from."""
    model = KERNELS[sources[0][0].kernel]
    times = [model.times(rows.shapes, rows.chip, one.values, one.policy) for one, _ in sources]
    return mixed(times, [share for _, share in sources])


def as_rows(kernels: Sequence[MeasuredKernel], record: KernelConstants, machine: Machine) -> Rows:
    """Kernels of one kind as arrays of shapes and seconds, timed as those that constants are known of."""
    each = [record.as_timed(one.run.shapes) for one in kernels]
    names = sorted({name for one in each for name in one})
    shapes = {name: np.array([float(one.get(name, 0.0)) for one in each]) for name in names}
    return Rows(shapes, np.array([one.seconds for one in kernels]), chip_figures(machine, record, kernels[0].run))


def refitted(sources: Sources, rows: Rows, key: str, library: str, places: Sequence[str]) -> Calibrated:
    """Constants moved to rows of a chip, with errors by leaving out a fifth of the rows at a time.

    ``places`` say where the rows stand.
    """
    record = sources[0][0]
    model = KERNELS[record.kernel]
    prior = model.prior_of_ten
    own: list[str] | None = model.own()
    if record.transferred_from == TYPICAL:  # no chip is near: every constant that the rows can tell moves
        prior, own = TYPICAL_PRIOR, None if len(rows) >= ROWS_FOR_ALL else own
    before = expected_before(sources, rows)
    after = np.empty(len(rows))
    folds = np.arange(len(rows)) % min(5, len(rows))
    for fold in np.unique(folds):
        out = folds == fold
        found = _best(sources, rows.take(~out), own, prior)
        held = rows.take(out)
        after[out] = model.times(held.shapes, rows.chip, found.values, found.policy)
    found, errors = _best(sources, rows, own, prior), Errors.of(after, rows.seconds)
    start = _start(sources)
    alone = model.times(rows.shapes, rows.chip, *start)
    kept = (unmoved := Errors.of(alone, rows.seconds)).mape * MUCH_WORSE < errors.mape
    values, policy = start if kept else (found.values, found.policy)
    if kept:
        after, errors = alone, unmoved
    told = errors.to_dict()
    tested = told.pop("count")
    seen = {name: rows.shapes[name] for name in model.sorted_by if name in rows.shapes}
    constants = replace(
        record,
        chip=key,
        library=library,
        values=values,
        policy=policy,
        interval=(interval_of(rows.seconds / after),),
        edges=(),
        transferred_from="",
        error={**told, "n_fit": len(rows), "n_test": tested},
        valid={name: (float(sizes.min()), float(sizes.max())) for name, sizes in seen.items()},
        source=OWN_RUNS,
        state="",
        version="",
        figures={**record.figures, **rows.chip._asdict()} if record.figures else {},
    )
    expected = model.times(rows.shapes, rows.chip, values, policy)
    off = np.log(rows.seconds / expected)
    low, high = np.log(constants.interval[0])
    beyond = np.maximum(low - off, off - high)
    furthest = [at for at in np.argsort(-beyond) if beyond[at] > 0]
    outside = tuple((places[at], float(rows.seconds[at]), float(expected[at])) for at in furthest)
    return Calibrated(constants, Errors.of(before, rows.seconds), errors, kept, outside, record.dtype)


def _start(sources: Sources) -> tuple[dict[str, float], str]:
    """The constants that a fit starts from as one set: the means of several chips' logarithms by their weights."""
    first, total = sources[0][0], sum(share for _, share in sources)
    means = {name: sum(share * math.log(one.values[name]) for one, share in sources) / total for name in first.values}
    return {name: math.exp(mean) for name, mean in means.items()}, first.policy


def interval_of(ratios: Any) -> tuple[float, float]:
    """An interval for the next ratio of measured to estimated, of 80%, from a few of them.

    Of nine and more it is split-conformal: the (n + 1) · 10th and 90th percentiles of what was seen. Fewer have no such
    percentiles: theirs is Student's interval of the next logarithm, m ± t · s · √(1 + 1 / n).

    >>> low, high = interval_of([0.9, 0.95, 1.0, 1.05, 1.1])
    >>> round(low, 3), round(high, 3)
    (0.873, 1.14)
    """
    if (count := len(ratios)) not in STUDENT:
        low, high = (float(np.quantile(ratios, tail, method="weibull")) for tail in TAILS)
        return low, high
    logarithms = np.log(ratios)
    reach = STUDENT[count] * logarithms.std(ddof=1) * np.sqrt(1 + 1 / count)
    return float(np.exp(logarithms.mean() - reach)), float(np.exp(logarithms.mean() + reach))


def _best(sources: Sources, rows: Rows, own: Sequence[str] | None, prior: float) -> Fitted:
    """The fit to rows from the start and with the policy that some of them fit best."""
    model, shares = KERNELS[sources[0][0].kernel], [share for _, share in sources]
    starts = [(one.values, one.policy) for one, _ in sources]
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), ROWS_FOR_START)).astype(int))
    limits = sources[0][0].valid
    few = prior_of(len(some), prior)
    found = fit_from_few(model, rows.take(some), starts, own, few, most=MOST_STEPS, shares=shares, limits=limits)
    if len(some) == len(rows):
        return found
    return fit(model, rows, found.values, own, found.policy, prior_of(len(rows), prior), MOST_STEPS)


def prior_of(count: int, prior: float) -> float:
    """The prior a row of a fit to so many, which is as strong in all as that of ten: a fit takes the root of the count.

    >>> prior_of(10, 0.5), prior_of(40, 0.5)
    (0.5, 0.25)
    """
    return prior * math.sqrt(PRIOR_ROWS / count)


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
        yield Sentences([f"fill in us of each, save it as runs.csv, then {again}"])

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
    rows = as_rows(kernels, record, machine)
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
