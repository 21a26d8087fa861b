"""How accurate estimates are: the errors of the shipped constants on rows that were not fitted, as an answer.

>>> found = accuracy("h100", kernel="contraction")
>>> [row.library for row in found.records if row.dtype == "bf16" and row.kernel == "contraction"]
['sglang', 'trtllm', 'vllm']
>>> all(0.02 < row.error["mdape"] < 0.08 for row in found.records if row.dtype == "bf16")
True
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, attributes
from roofline.errors import InputError, check_one_of, suggest
from roofline.estimates.attention import BEYOND, WORDS
from roofline.estimates.constants import (
    KERNELS,
    LEFT_OUT,
    OWN_RUNS,
    KernelConstants,
    kernel_in_words,
    overlaid,
    read_files,
    shipped,
)
from roofline.estimates.estimator import Estimator, KernelRun, kernel_format, libraries
from roofline.estimates.fitting import Errors
from roofline.estimates.own_runs import (
    MeasuredKernel,
    OfRows,
    Rejected,
    by_kind,
    chip_of_all,
    formats_of,
    kernels_from,
    left_out,
    plausible,
    said_of,
)
from roofline.estimates.transfer import Transfer, transfer
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.lazy import np
from roofline.progress import counted, stopped
from roofline.quantity import format_percent, in_a_row
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Listing,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    percentage,
)
from roofline.signatures import call, either, spelled, takes
from roofline.statements import Assumption
from roofline.work import Key

#: Words that users have for kernels.
MEANT = {
    "gemm": "contraction", "matmul": "contraction", "attention": "attention", "moe": "experts", "norm": "norm",
    "prefill": "prefill_attention", "decode": "decode_attention", "allreduce": "collective", "softmax": "norm",
}  # fmt: skip
#: Steps, whose errors are those of folds or sources that were left out.
WITHOUT_HALVES = ("served_step", "first_token", "training_step")
#: Kinds that a library's own constants alone speak of, and kinds whose constants go by the link between chips.
OF_A_FRAMEWORK, LINKED = ("served_step", "first_token", "eager_kernel", "all_reduce"), ("collective", "all_reduce")


class KernelKind(NamedTuple):
    """A kind of kernel as its errors are told: the constants of all libraries, paths and formats that belong to it."""

    name: str
    kernels: tuple[str, ...]
    picks: Callable[[KernelConstants], bool] = lambda record: True

    def of(self, records: Iterable[KernelConstants], chip: str) -> list[KernelConstants]:
        """Its constants on a chip."""
        return [one for one in records if one.chip == chip and one.kernel in self.kernels and self.picks(one)]

    def errors(self, records: Iterable[KernelConstants], chip: str) -> tuple[float, float] | None:
        """On a chip the middle one of its median errors, and the largest of its 90th percentiles; None without data."""
        mine = [one.error for one in self.of(records, chip) if "mdape" in one.error and "p90" in one.error]
        return (median(each["mdape"] for each in mine), max(each["p90"] for each in mine)) if mine else None


def is_core(record: KernelConstants) -> bool:
    """Whether attention is without windows, wide heads and large groups."""
    return BEYOND not in record.path


def _plain(record: KernelConstants) -> bool:
    return is_core(record) and record.dtype == "bf16" and "fp8" not in record.path


def _narrow_cache(record: KernelConstants) -> bool:
    return is_core(record) and "fp8 cache" in record.path


_PREFILL, _DECODE = ("prefill_attention",), ("decode_attention",)

#: The kinds of kernels that errors are told of.
KINDS = (
    KernelKind("products, bf16", ("contraction",), lambda one: one.dtype == "bf16" and one.library != "torch"),
    KernelKind("products, fp8, with the quantiser", ("quantised_contraction",), lambda one: one.dtype == "fp8"),
    KernelKind("products, nvfp4, with the quantiser", ("quantised_contraction",), lambda one: one.dtype == "nvfp4"),
    KernelKind("small products of a batch", ("batched_contraction", "quantised_batched_contraction")),
    KernelKind("prefill attention", _PREFILL, lambda one: _plain(one) and not one.path),
    KernelKind("prefill attention, fp8 cache", _PREFILL, _narrow_cache),
    KernelKind("decode attention", _DECODE, _plain),
    KernelKind("decode attention, fp8 cache", _DECODE, _narrow_cache),
    KernelKind(f"prefill attention, {BEYOND}", _PREFILL, lambda one: not is_core(one)),
    KernelKind(f"decode attention, {BEYOND}", _DECODE, lambda one: not is_core(one)),
    KernelKind("attention without a mask", ("unmasked_attention",)),
    KernelKind("latent attention", ("latent_prefill", "latent_decode")),
    KernelKind("experts of a mixture", ("experts",)),
    KernelKind("collectives (NCCL)", ("collective",)),
    KernelKind("all-reduce of frameworks", ("all_reduce",)),
    KernelKind("elementwise (PyTorch, fp16)", ("elementwise",)),
    KernelKind("norms (PyTorch, fp16)", ("norm",)),
)
#: Most kinds that stand in the first sentence by name.
_NAMED = 2
#: Most groups that are all shown, and how many are of more.
MOST_SHOWN, FURTHEST = 30, 10


@dataclass(frozen=True, slots=True, eq=False)
class Borrowed:
    """A kind of kernel that a chip takes other chips' constants for, and how far off such constants were."""

    kernel: str
    formats: tuple[str, ...]
    libraries: tuple[str, ...]
    chips: tuple[str, ...]
    seen: Transfer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Accuracy(Answer):
    """Records of constants with their errors, and kinds of kernels that other chips' constants stand for.

    ``subject`` says what was asked, ``on`` the chip. Of kinds ``without`` constants only bounds are known on the chip;
    ``served`` are whole steps that were measured there and hold the kind that was asked.
    """

    records: tuple[KernelConstants, ...]
    subject: str
    borrowed: tuple[Borrowed, ...] = ()
    without: tuple[str, ...] = ()
    on: str = ""
    served: tuple[KernelConstants, ...] = ()

    def sections(self) -> Iterable[Section]:
        """What kinds of kernels are off, a table with a row a record, and how the errors were taken."""
        yield Headline(self.subject)
        yield BLANK
        yield Sentences([self._lead()], tone="strong")
        yield BLANK
        if self.records:
            yield from self._of_records()
        if self.borrowed:
            yield from self._of_other_chips()
        covers = "80% covers: measurements within the interval"
        said = f"of estimates against measurements: median, mean and 90th percentile of their size; bias; {covers}"
        yield Listing("errors", [said], "quiet")
        paths = "; ".join(one.path for one in self.records)
        yield Listing("words", [f"{word}: {what}" for word, what in WORDS.items() if word in paths], "quiet")
        if any(one.version for one in self.records):
            yield Listing("versions", ["a library without a version: runs of all its versions together"], "quiet")
        yield Listing("measured", _sources(self.records, self.borrowed), "quiet")
        if self.without:
            kinds = ", ".join(map(kernel_in_words, self.without))
            makes = f"{either('roofline calibrate', 'roofline.calibrate')} makes constants from ten runs of a kind"
            yield Listing("bounds only", [f"{kinds}: {makes}"])

    def _of_records(self) -> Iterable[Section]:
        """The chip's own constants: of many kinds a row each, and of their groups those that are furthest off."""
        if self.kinds:
            yield from (self._by_kind(), Sentences(["middle of the median errors (largest 90th percentile)"], "quiet"))
            yield BLANK
        shown = self.records
        if len(shown) > MOST_SHOWN and self.kinds:
            furthest = sorted(shown, key=lambda one: -one.error.get("mdape", 0.0))
            shown = tuple(furthest[:FURTHEST])
            op, dtype, library = map(spelled, ("op", "dtype", "library"))
            every = either("-o groups.csv", 'save("groups.csv")')
            said = f"the {FURTHEST} of {len(self.records)} groups of kernels that are furthest off: {op}, {dtype} and "
            yield Sentences([f"{said}{library} pick some, {every} writes all"])
        columns = [Column("chip"), Column("library", wrap="words"), Column("kernel", wrap="words"), Column("format")]
        rows = list(map(_row, shown))
        columns += [*_ERRORS, Column("80% covers", align="right", spare=2)]
        yield Table(columns, rows, name="accuracy", every=lambda: list(map(_row, self.records)))
        yield BLANK

    def _of_other_chips(self) -> Iterable[Section]:
        """The constants of other chips, moved by figures of data sheets."""
        columns = [Column(name, wrap="words") for name in ("kernel", "formats", "libraries", "constants of")]
        columns += [*_ERRORS, Column("80%", align="right")]
        yield Sentences(["without constants of its own: those of other chips, moved by figures of the data sheets"])
        yield Table(columns, [_borrowed_row(one) for one in self.borrowed], name="borrowed")
        said = "errors of chips that such constants were not fitted to; 80%: measured ÷ expected time"
        half = "; an estimate's interval is half way from there to that of its library, format and path"
        yield Sentences([said + half * any(one.seen.own for one in self.borrowed)], "quiet")
        yield BLANK

    @property
    def kinds(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Of each kind of kernel and chip the middle one of the median errors, and the largest 90th percentile."""
        chips = dict.fromkeys(one.chip for one in self.records)
        found = {kind.name: {chip: kind.errors(self.records, chip) for chip in chips} for kind in KINDS}
        known = {name: {chip: each for chip, each in row.items() if each} for name, row in found.items()}
        return {name: row for name, row in known.items() if row}

    def _by_kind(self) -> Table:
        """A row a kind of kernel, a column a chip."""
        chips = list(dict.fromkeys(chip for row in self.kinds.values() for chip in row))
        columns = [Column("kind of kernel", wrap="words"), *(Column(chip, align="right") for chip in chips)]
        rows = [Row((name, *map(_of_kind, map(row.get, chips)))) for name, row in self.kinds.items()]
        return Table(columns, rows, name="kinds")

    def _lead(self) -> str:
        """The error of each kind where there are few, else from which to which; how many intervals hold."""
        held = [one.error["coverage"] for one in self.records if "coverage" in one.error]
        errors = {(name, chip): each[0] for name, row in self.kinds.items() for chip, each in row.items()}
        if self.on and all(one.chip == "any" for one in self.records):
            return "; ".join(["no measurements of this kind on this chip", *self._in_steps(), *self._elsewhere()])
        if not errors:
            known = sorted(one.error["mdape"] for one in self.records if "mdape" in one.error)
            said = " to ".join(dict.fromkeys(format_percent(error) for error in (known[0], known[-1])))
        elif len(errors) <= _NAMED:
            said = in_a_row(f"{format_percent(error)} ({name})" for (name, _), error in errors.items())
        else:
            least, most = min(errors, key=errors.__getitem__), max(errors, key=errors.__getitem__)
            said = " to ".join(f"{format_percent(errors[each])} ({each[0]})" for each in (least, most))
        if any(len(kind.of(self.records, chip)) > 1 for kind in KINDS for chip in {one.chip for one in self.records}):
            said += ", of the middle group of each kind"
        intervals = f"; intervals of 80% hold {format_percent(median(held))}" if held else ""
        return f"median error {said}{intervals}"

    def _in_steps(self) -> Iterator[str]:
        """The errors of whole steps that hold this kind, and what shows them."""
        errors = sorted(one.error["mdape"] for one in self.served if "mdape" in one.error)
        if errors:
            said = " to ".join(dict.fromkeys(map(format_percent, (errors[0], errors[-1]))))
            yield f"of whole served steps with it there, median error {said}: {call('accuracy', self.on)}"

    def _elsewhere(self) -> Iterator[str]:
        """The errors that were measured on other chips: with constants of others, of another kind, of any chip."""
        tried = [one.seen.error["mdape"] for one in self.borrowed if one.kernel == one.seen.kernel]
        other: dict[str, float] = {}
        for one in self.borrowed:
            if one.kernel != one.seen.kernel and not tried:
                other[kernel_in_words(one.seen.kernel)] = one.seen.error["mdape"]
        if tried:
            said = " to ".join(dict.fromkeys(map(format_percent, (min(tried), max(tried)))))
            yield f"no constants of its own: by those of other chips, median error {said} elsewhere"
        for kernel, error in other.items():
            said = f"median error {format_percent(error)} is of {kernel} elsewhere"
            yield f"no constants of its own, those of others were not tried: {said}"
        for published in self.records:
            if "mdape" in published.error:
                kernel = kernel_in_words(published.kernel, published.path)
                yield f"of a {kernel} on other chips, median error {format_percent(published.error['mdape'])}"

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """The records, a row each, else what stands for them, or the table named; ``kinds`` has the medians alone."""
        return super().plain_table("accuracy" if table is None and self.records else table)

    def one_line(self) -> str:
        """How many records, and the range of their median errors."""
        known = [one.error.get("mdape", 0.0) for one in self.records]
        errors = sorted([*known, *(one.seen.error["mdape"] for one in self.borrowed)])
        ends = dict.fromkeys(format_percent(error) for error in (errors[0], errors[-1]))
        return f"Accuracy: {len(errors)} kinds of kernel, median error {' to '.join(ends)}"

    def to_dict(self) -> dict[str, Any]:
        """The records under stable keys (schema ``roofline/accuracy/1``)."""
        kinds = [
            {"kind": name, "chip": chip, "median": middle, "p90": largest}
            for name, row in self.kinds.items()
            for chip, (middle, largest) in row.items()
        ]
        return {
            "schema": "roofline/accuracy/1",
            "kinds": kinds,
            "records": [one.to_dict() for one in self.records],
            "borrowed": [
                attributes(one, "kernel", "formats", "libraries", "chips")
                | {"basis": one.seen.to, **attributes(one.seen, "interval", "error", "source")}
                for one in self.borrowed
            ],
            "without": list(self.without),
        }


def _of_kind(errors: tuple[float, float] | None) -> Amount | str:
    if errors is None:
        return ""
    return Amount(errors[0], "", f"{format_percent(errors[0])} ({format_percent(errors[1])})")


#: The columns of :func:`_error_cells`.
_ERRORS = [Column(name, align="right", spare=name == "mean") for name in ("rows", "median", "mean", "p90", "bias")]


def _error_cells(error: Mapping[str, float], rows: float) -> list[Cell]:
    """On how many rows errors are, their median, mean and 90th percentile, and the bias; nothing of what is unknown."""
    sizes = [percentage(abs(error[name])) if name in error else "" for name in ("mdape", "mape", "p90")]
    bias = percentage(error["bias"], signed=True) if "bias" in error else ""
    return [Amount(rows, "", f"{rows:g}"), *sizes, bias]


def _row(one: KernelConstants) -> Row:
    library = f"{one.library} {one.version}".strip() + ", your own" * (one.source == OWN_RUNS)
    errors = _error_cells(one.error, one.error.get("n_test", 0))
    covers = percentage(one.error["coverage"]) if "coverage" in one.error else ""
    return Row((one.chip, library, kernel_in_words(one.kernel, one.path), one.dtype, *errors, covers))


def _borrowed_row(one: Borrowed) -> Row:
    ends = " to ".join(f"{end:.2f}" for end in one.seen.interval)
    kind = (kernel_in_words(one.kernel), *(", ".join(each) for each in (one.formats, one.libraries)))
    whose = f"{in_a_row(one.chips)} ({one.seen.to})"
    return Row((*kind, whose, *_error_cells(one.seen.error, one.seen.error["n_test"]), ends))


def _own_runs(one: KernelConstants) -> str:
    """On how many runs of one's own constants rest, over which sizes."""
    sizes = [f"{name} {low:g} to {high:g}" for name, (low, high) in one.valid.items()]
    over = f", {', '.join(sizes)}" if sizes else ""
    kind = f"{one.chip} {one.library} {kernel_in_words(one.kernel)} {one.dtype}".removesuffix(" any")
    return f"{kind}: your own constants, from {one.error.get('n_fit', 0):g} runs{over}; errors are of {LEFT_OUT}"


def _sources(records: Sequence[KernelConstants], borrowed: Sequence[Borrowed] = ()) -> list[str]:
    halves = any(one.state and one.kernel not in WITHOUT_HALVES for one in records)
    said = ["constants from one random half of the measured kernels, errors from the other half"] if halves else []
    told = [_own_runs(one) for one in records if one.source == OWN_RUNS]
    others = [one for one in records if one.source not in ("", OWN_RUNS)]
    told += [f"{one.source}: {one.state}" if one.state else one.source for one in others]
    told += [f"{kernel_in_words(one.seen.kernel)}, {one.seen.to}: {one.seen.source}" for one in borrowed]
    strange: dict[str, list[str]] = defaultdict(list)
    for one in borrowed:
        if one.kernel != one.seen.kernel:
            stands = kernel_in_words(one.seen.kernel)
            tried = f"not tried with constants of {one.seen.to}, the errors are those of {stands}"
            strange[tried].append(kernel_in_words(one.kernel))
    told += [f"{', '.join(dict.fromkeys(kernels))}: {tried}" for tried, kernels in strange.items()]
    return [*said, *dict.fromkeys(told)]


@takes()
def accuracy(
    on: str | Machine | None = None,
    *,
    op: str | None = None,
    dtype: str | None = None,
    library: str | None = None,
    constants: Any = (),
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]] | None = None,
) -> Any:
    """How far estimates are from measurements, by chip, library, kind of kernel and format.

    ``on`` is a chip: its own constants, and those of other chips that stand for it. ``op`` is a kind of kernel
    (``contraction``, ``attention``, ``experts`` …), ``dtype`` a format, ``library`` a library; ``constants`` are one's
    own, from ``calibrate`` or a file that it wrote. ``runs`` are those of one's own to hold them against
    (:func:`held_accuracy`), of the chip ``on``, or of the one that all of them name.
    """
    on = chip_of_all(runs) if on is None and runs is not None else on
    if runs is not None and (on is None or op is not None or dtype is not None):
        own, picks = spelled("runs"), spelled("op" if op is not None else "dtype")
        said = f"{own} has rows of one chip" if on is None else f"{picks} picks shipped errors, {own} has its own rows"
        key = chip(on or "h100").key
        hint = either(f"roofline accuracy {key} --runs {runs}", f"accuracy({key!r}, runs=…)")
        raise InputError(said, hint=hint)
    if runs is not None and on is not None:
        return held_accuracy(runs, on, library=library or "vllm", constants=constants)
    mine = read_files(constants)
    everything = overlaid(shipped(), mine)
    records, machine, asked, wanted = everything, None, [], ""
    if on is not None:
        machine = chip(on)
        asked.append(machine.key)
        records = tuple(one for one in records if one.chip in (machine.key, "any"))
    if op is not None:
        word = op.lower().strip().replace(" ", "_").replace("-", "_")
        wanted = MEANT.get(word, word)
        if not any(wanted in kernel for kernel in KERNELS):
            raise InputError(f"no constants of {op!r}", hint=suggest(op, (*KERNELS, *MEANT), what="kernels"))
        records = tuple(one for one in records if wanted in one.kernel)
    formats = _formats(dtype)
    if formats:
        records = tuple(one for one in records if one.dtype in formats)
    if library is not None:
        asked.append(library)
        records = tuple(one for one in records if one.library == _library(library, everything))
    if op is not None:
        asked.append(kernel_in_words(wanted))
    if dtype is not None:
        asked.append(dtype)
    borrowed = () if machine is None else _borrowed(machine, wanted, formats, library, constants)
    if machine is None and not records:
        hint = either("roofline accuracy", "accuracy()")
        raise InputError(f"no constants of {' '.join(asked)}", hint=f"{hint} lists what there is")
    if machine is not None and not records and not borrowed:
        said = f"no constants{' of ' * (len(asked) > 1)}{' '.join(asked[1:])} stand for {machine.key}"
        hint = either(f"roofline calibrate runs.csv --on {machine.key}", f"calibrate('runs.csv', {machine.key!r})")
        raise InputError(f"{said}, so only bounds hold", hint=f"{hint} makes them from ten runs of a kind of kernel")
    _check_used(mine, records, borrowed, asked)
    known = {one.kernel for one in records} | {one.kernel for one in borrowed}
    alone = machine is not None and library is None and not formats
    kinds = {one.kernel for one in shipped() if alone and wanted in one.kernel and one.kernel != "eager_kernel"}
    without = tuple(sorted(kinds - known))
    ordered = sorted(records, key=lambda one: (one.chip, one.kernel, one.dtype, one.library, one.path))
    on_chip = "" if machine is None else machine.key
    steps = (one for one in everything if one.chip == on_chip and one.kernel == "served_step")
    served = tuple(one for one in steps if op is not None and ("mixture" in one.path or wanted != "experts"))
    return Accuracy(tuple(ordered), " · ".join(["accuracy of estimates", *asked]), borrowed, without, on_chip, served)


def _check_used(
    own: Sequence[KernelConstants], records: Sequence[KernelConstants], borrowed: Sequence[Borrowed], asked: list[str]
) -> None:
    """Refuse constants of one's own of which none is among those that are asked for."""
    chips = {one.chip for one in records} | {name for one in borrowed for name in one.chips}
    if own and not any(one.chip in chips for one in own):
        others = ", ".join(sorted({one.chip for one in own}))
        said = f"{spelled('constants')} holds none of {' '.join(asked)}, but of {others}"
        raise InputError(said, hint="name that chip, or leave them out")


def _library(wanted: str, records: Iterable[KernelConstants]) -> str:
    """A library that has constants; another word is an error that lists those there are."""
    known = dict.fromkeys(one.library for one in records)
    check_one_of(f"no constants of {wanted!r}", wanted, known, "libraries")
    return wanted


def _formats(dtype: str | None) -> tuple[str, ...]:
    """The formats that constants have for one of a user's: those of its products among them; none of none.

    >>> _formats("fp16"), _formats("e4m3"), _formats(None)
    (('fp16', 'bf16'), ('fp8_e4m3', 'fp8'), ())
    """
    if dtype is None:
        return ()
    name = dtypes.get(dtype).name
    return tuple(dict.fromkeys((name, kernel_format(name))))


def _borrowed(
    machine: Machine, wanted: str, formats_asked: Sequence[str], library: str | None, files: Any
) -> tuple[Borrowed, ...]:
    """Kinds of kernels that a chip takes other chips' constants for, as estimates of each library take them."""
    link = next(({"link": each.bandwidth.value * (each.links or 1)} for each in machine.links if each.bandwidth), None)
    found: dict[tuple[str, str], tuple[set[str], dict[str, None], dict[str, None]]] = {}
    half = rate(machine, Key("flops", "matrix", "bf16"))
    alike = {"bf16": "fp16"} if half is None or half.dtype != "bf16" else {}  # constants are of both
    for name in libraries(shipped("contraction")):
        estimator = Estimator(name, files)
        kinds = dict.fromkeys((one.kernel, one.dtype, one.path) for one in estimator.records if wanted in one.kernel)
        for kernel, dtype, path in kinds:
            if formats_asked and dtype not in formats_asked:
                continue
            own = {one.library for one in estimator.records if one.kernel == kernel and one.dtype == dtype}
            linked = kernel in LINKED
            if (kernel in OF_A_FRAMEWORK and name not in own) or (linked and link is None):
                continue
            sources = estimator.sources(KernelRun(kernel, dtype, path, link or {} if linked else {}, ()), machine)
            first = sources[0][0] if sources else None
            seen = first and transfer(first.kernel, first.transferred_from)
            if first is None or seen is None or library not in (None, first.library):
                continue
            key = kernel, first.transferred_from  # all that the errors depend on
            formats, names, chips = found.setdefault(key, (set(), {}, {}))
            formats.add(alike.get(dtype, dtype))
            names[first.library] = None
            chips |= dict.fromkeys(one.chip for one, _ in sources)
    rows = sorted(found.items())
    return tuple(
        Borrowed(kernel, tuple(sorted(formats)), tuple(sorted(names)), tuple(chips), seen)
        for (kernel, to), (formats, names, chips) in rows
        if (seen := transfer(kernel, to)) is not None
    )


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Constants held against one kind of kernel of one's own runs: errors, share inside the interval, rows.

    ``own`` says that the constants were calibrated from runs of one's own, which may be these. ``formats`` are those of
    the runs, as constants of one format of half precision are of both.
    """

    kernel: str
    dtype: str
    library: str
    path: str
    basis: str
    errors: Errors
    coverage: float
    own: bool = False
    formats: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldAccuracy(OfRows, Answer):
    """Errors of constants on one's own runs, as the constants are, and where rows stand that were left out, by why."""

    kinds: tuple[Held, ...]
    left_out: Mapping[str, Sequence[str]]
    subject: str
    assumptions: tuple[Assumption, ...] = ()

    def sections(self) -> Iterable[Section]:
        """A row a kind of kernel, then what was left out."""
        yield Headline(self.subject)
        yield BLANK
        columns = [Column("library"), Column("kernel", wrap="words"), Column("format"), Column("constants")]
        columns += [*(each._replace(spare=0) for each in _ERRORS), Column("80% covers", align="right")]
        rows = []
        for one in self.kinds:
            errors = (*_error_cells(one.errors.to_dict(), one.errors.count), percentage(one.coverage))
            rows.append(Row((one.library, kernel_in_words(one.kernel, one.path), one.formats, one.basis, *errors)))
        yield Table(columns, rows, name="accuracy")
        yield BLANK
        said = ["of estimates against these runs, by constants as they are"]
        if any(one.own for one in self.kinds):
            said.append(f"smaller where your own constants were fitted to these runs: {call('calibrate')} tells errors")
            said[-1] += f" of {LEFT_OUT}"
        yield Listing("errors", said)
        yield from (assumes(self.assumptions), Listing("left out", left_out(self.left_out), "warning"))

    def one_line(self) -> str:
        """How many kinds of kernel, and rows."""
        rows = sum(one.errors.count for one in self.kinds)
        return f"HeldAccuracy: {len(self.kinds)} kinds of kernel, {rows} rows"

    def to_dict(self) -> dict[str, Any]:
        """Under stable keys (schema ``roofline/held-accuracy/1``)."""
        kinds = [
            attributes(one, "kernel", "dtype", "library", "path", "basis", "coverage") | one.errors.to_dict()
            for one in self.kinds
        ]
        places = {why: list(each) for why, each in self.left_out.items()}
        body = {"kinds": kinds, "rejected": self.rejected, "assumptions": list(self.assumptions)}
        return {"schema": "roofline/held-accuracy/1", **body, "left_out": places}


@takes()
def held_accuracy(
    runs: str | Path | Sequence[MeasuredKernel | Mapping[str, Any]],
    on: str | Machine,
    *,
    library: str = "vllm",
    constants: Any = (),
) -> HeldAccuracy:
    """Hold constants against one's own runs, without fitting.

    ``runs`` are as ``calibrate`` takes them, ``on`` the chip they are of; ``library`` names what ran where rows do
    not.
    """
    machine = chip(on)
    rejected: Rejected = defaultdict(list)
    kinds: list[Held] = []
    grouped = by_kind(kernels := kernels_from(runs, machine), library, machine, rejected)
    try:
        for key, members in counted(grouped.items()):
            _hold(key, members, machine, constants, library, kinds, rejected)
    except KeyboardInterrupt:
        if not kinds:
            raise
        stopped(len(kinds), len(grouped), "kinds of kernels")
    if not kinds:
        why = "; ".join(left_out(rejected)) or "the file has no rows"
        raise InputError(f"nothing can be held against constants: {why}", hint="a row a kernel, with its time")
    whose = f" · {runs}" if isinstance(runs, str | Path) else ""
    assumed = said_of(kernels)
    return HeldAccuracy(tuple(kinds), rejected, f"accuracy of estimates · {machine.key}{whose}", assumed)


def _hold(
    key: tuple[str, str, str, str], members: Sequence[MeasuredKernel], machine: Machine, files: Any, library: str,
    kinds: list[Held], rejected: Rejected,
) -> None:  # fmt: skip
    """Hold the constants of one kind of kernel against its runs; of a library without any those of ``library``."""
    named = library if key[3] not in libraries(overlaid(shipped("contraction"), read_files(files))) else key[3]
    estimator = Estimator(named, files)
    kept = plausible(members, machine, estimator, rejected)
    found = [estimator.kernel(estimator.own_kernel(one.run, machine), machine) for one in kept]
    known = [(each, one.seconds) for each, one in zip(found, kept, strict=True) if each.source is not None]
    if len(known) < len(kept):
        why = f"no constants: {kernel_in_words(key[0], key[2])} in {key[1]}"
        rejected[why] += [one.where for each, one in zip(found, kept, strict=True) if each.source is None]
    if known:
        seconds = np.array([each for _, each in known])
        inside = [float(one.low) <= took <= float(one.high) for one, took in known]
        errors = Errors.of(np.array([float(one.value) for one, _ in known]), seconds)
        own = any(one.source is not None and one.source.source == OWN_RUNS for one, _ in known)
        held = Held(key[0], key[1], key[3], key[2], known[0][0].basis, errors, float(np.mean(inside)), own)
        kinds.append(replace(held, formats=formats_of(kept)))
