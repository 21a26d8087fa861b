"""What to expect of operations on a chip: kernels as a library runs them, their times, and an interval.

A bound's operations become kernels: products that read one activation run as one (q, k, v; gate and up), a product in 8
or 4 bits has a quantiser in front, an addition joins the norm behind it, the experts of a layer are one kernel. Each
kernel's time comes from the constants of its chip, library and format; where there are none, from those of the nearest
chip, which is said, or from the bound, which is said too. No kernel is expected below its own bound.

>>> from roofline import bound
>>> line = bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100")
>>> found = Estimator("vllm").expect(line)
>>> line.lower < found.low < found.value < found.high
True
>>> found.kernels[0].run.kernel, found.kernels[0].basis
('contraction', 'h100 vllm')

The roof that kernels of a library reach: peak and bandwidth in practice, and the start below which neither counts.

Read off the expected times of three products: a large one, one whose weights stream, and one of nothing::

    start     = T(16 × 16 × 16)
    peak      = 2 · 16384³ / (T − start)          bandwidth = bytes / (T(16 × 16384 × 16384) − start)
    n½        = start · rate: work that takes as long as the start, so that half the rate is reached

>>> roof = expected_roof("h100")
>>> 0.5 < roof.peak / 989.4e12 < 1.0, 0.5 < roof.bandwidth / 3.352e12 < 1.0
(True, True)
>>> roof.half_bytes == roof.start * roof.bandwidth
True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from roofline import dtypes
from roofline.answers import attributes
from roofline.bounds.api import bound
from roofline.bounds.bound import Bound, OpBound
from roofline.bounds.question import Question
from roofline.errors import HardwareError, InputError, check_one_of, suggest
from roofline.estimates.attention import (
    BEYOND,
    DECODE_ROWS,
    SHARED_AT_MOST,
    alone_on_core,
    attention_path,
    cache_words,
    heads_apart,
    launches,
    moved_in_front,
)
from roofline.estimates.constants import (
    KERNELS,
    LEFT_OUT,
    OWN_RUNS,
    KernelConstants,
    ends_in_words,
    error_told,
    interval_told,
    kernel_in_words,
    overlaid,
    read_files,
    share_held,
    shipped,
)
from roofline.estimates.contraction import BATCHED_WEIGHT, BLOCK_SCALES
from roofline.estimates.kernel_model import BESIDE, FROM_HOST, TRITON, ChipFigures, Parts
from roofline.estimates.row_expectations import RowExpectations, columns_of, decided, expect_rows, of_one_value
from roofline.estimates.steps import sum_in_words, with_floor
from roofline.estimates.transfer import (
    OTHER,
    OTHER_KIND,
    SAME,
    STACKED,
    cores_of,
    cores_or_a_sisters,
    distance,
    kernel_elsewhere,
    mixed,
    of_its_own,
    on_another_chip,
    policy_elsewhere,
    stated_policy,
    transfer,
    weights,
    widened,
    within_power,
)
from roofline.estimates.vector_and_collectives import runs_own_all_reduce
from roofline.frozen import Same, dataclass, field, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine, Mesh
from roofline.hardware.rate import data_level, rate
from roofline.lazy import np
from roofline.ops.collectives.cost import cost
from roofline.ops.collectives.registry import LIKE
from roofline.quantity import format_amount, format_quantity, in_a_row
from roofline.sections import Amount, Column, Row, Section, Table, figures
from roofline.signatures import call, check_methods, spelled, takes
from roofline.sizes import Size, is_array, is_symbol, maximum, minimum, sqrt
from roofline.statements import Assumption, assume
from roofline.work import Key, Op, Tensor, with_tensors

#: Formats of constants by the format of a product's activations; half precision runs on the same units.
PRODUCT_FORMATS = {
    "bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "nvfp4": "nvfp4",
    "fp4": "nvfp4",
}  # fmt: skip
#: Paths of the collectives that constants are known of.
_COLLECTIVE_PATHS = {
    "AllReduce": "all-reduce", "AllGather": "allgather", "ReduceScatter": "reducescatter", "AllToAll": "alltoall",
}  # fmt: skip
#: Formats whose steps stand for another format's, in the order of preference.
STEP_FORMATS = ("any", "fp8", "nvfp4", "bf16", "mxfp4")
#: Formats of half precision, whose kernels are alike, and the format of activations beside weights in few bits.
_HALF, _COMPUTED_IN = ("bf16", "fp16"), {"mxfp4": "fp8", "any": "bf16"}
#: Kinds of kernels that a format tells apart: they run on matrix units.
_IN_FORMATS = ("contraction", "attention", "experts", "latent_decode", "latent_prefill")
#: Kinds of kernel on a machine whose constants are kept for the next of them.
MOST_KEPT = 1024
#: Share of the time that kernels without constants may take: with more of it nothing is expected of the whole.
MOST_UNKNOWN = 0.1
#: Vendors whose chips run the kernels of a step in a graph, in small letters.
WITH_GRAPHS = ("nvidia",)
#: Kernels that a library runs for operations of elements.
ELEMENT_KINDS = ("elementwise", "embedding", "reduction", "copy")
#: Kinds whose kernels pass over their data several times, or in steps that wait for each other: none was measured.
UNMEASURED = ("fft", "recurrence", "scan", "selection", "sort")
#: Kinds that other libraries tell of where one was measured on too few chips: on first halves of vLLM's 8-bit caches on
#: L40S SGLang's of other chips are 11% off. Latents and experts of others are 38 to 88% off.
ALIKE = ("decode_attention",)
#: What an engine takes, which says nothing of another one.
OF_ENGINES = ("served_step", "first_token", "eager_kernel")
#: Kernels whose constants, of a path, stand in for a kind without any: a softmax reads, reduces and writes rows as a
#: norm does. Attention without a mask takes the time of all keys.
STAND_INS = {
    "softmax": ("norm", "input_layernorm"), "unmasked_attention": ("prefill_attention", ""),
    "batched_contraction": ("contraction", ""), "quantised_batched_contraction": ("quantised_contraction", ""),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class KernelRun:
    """One kernel: its kind, format and path, the shapes of its model, the operations in it, their bound."""

    kernel: str
    dtype: str
    path: str
    shapes: Mapping[str, Size]
    parts: tuple[OpBound, ...]

    @property
    def name(self) -> str:
        """The operations it runs."""
        return " + ".join(dict.fromkeys(part.op.name for part in self.parts))

    @property
    def kind(self) -> str:
        """Its kind and format in words."""
        what = self.kernel.replace("_", " ")
        if self.dtype == "any" or not self.kernel.endswith(_IN_FORMATS):
            return what
        told = [word for word in self.path.split(", ") if self.kernel == "contraction" or word.endswith(" cache")]
        return ", ".join(filter(None, (f"{what} in {self.dtype}", *told)))

    @property
    def repeat(self) -> Size:
        """How often it runs."""
        return self.parts[0].op.repeat if self.parts else 1

    @property
    def floor(self) -> Size:
        """The bound of all its runs, seconds."""
        return sum(part.lower for part in self.parts)

    @property
    def bytes(self) -> Size:
        """Bytes that one run moves in memory."""
        return sum(part.bytes for part in self.parts) / self.repeat


@dataclass(frozen=True, slots=True, eq=False)
class KernelEstimate:
    """Expected seconds of all runs of a kernel, their interval, the parts of one run, and what they are based on.

    ``source`` is None where no constants are known: then the bound stands for the expectation, and ``basis`` says so.
    """

    run: KernelRun
    value: Size
    low: Size
    high: Size
    parts: Mapping[str, Size] = field(default_factory=dict)
    basis: str = ""
    source: KernelConstants | None = None
    extrapolated: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<KernelEstimate {self.in_words()}>"

    @property
    def stand_in(self) -> tuple[str, ...]:
        """The kind of kernel that was measured and the kind that it stands for, where these differ."""
        if self.source is None:
            return ()
        as_product = any(_kind(part.op) == "convolution" for part in self.run.parts)
        return (self.source.kernel, "convolution") if as_product else self.source.stand_in

    @property
    def holds(self) -> str:
        """What its interval holds: 80%; ``extrapolated`` where none of its kind was measured."""
        return interval_told({}, (), self.stand_in)

    def in_words(self) -> str:
        """Its name, the expected time with its interval, and whose constants that is by."""
        time, low, high = (format_amount(each, "s") for each in (self.value, self.low, self.high))
        origin = "its bound" if self.source is None else f"constants of {self.basis}"
        return f"{self.run.name} {time} ({low} to {high}), {origin}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expectation:
    """Expected seconds of a whole answer with an interval of 80%, kernel by kernel.

    ``framework`` says whose steps the time is of, with the errors of their constants and which of its sizes lie
    ``outside`` what was measured, and ``step`` the parts of that time; without it the time is that of kernels alone.
    ``host`` is the time of the host to start one kernel, where none is in a CUDA graph; that of a whole step stands in
    ``parts``, whose kernels are those of the framework: :attr:`kernel_time` adds up constants of each kernel alone.
    No time is below the ``floor``.
    """

    value: Size
    low: Size
    high: Size
    kernels: tuple[KernelEstimate, ...]
    library: str
    framework: str = ""
    framework_errors: Mapping[str, float] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    stand_in: tuple[str, ...] = ()
    host: float | None = None
    step: Mapping[str, float] = field(default_factory=dict)
    floor: Size | None = None

    @property
    def kernel_time(self) -> Size:
        """Seconds of the kernels alone, one after the other."""
        return _plain(sum(one.value for one in self.kernels))

    @property
    def working_time(self) -> Size:
        """Seconds of the kernels without their starts, for each of which a graph has a gap instead.

        Collectives keep theirs, the latency of messages, and so do experts, each of which is several kernels.
        """
        alone = (one for one in self.kernels if one.run.kernel != "experts" and "link" not in one.run.shapes)
        starts = (one.parts.get("launch", 0.0) * one.run.repeat for one in alone)
        return _plain(self.kernel_time - sum(starts))

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds that add up to the time: of a framework's step, or of the kernels and of a host that is slower."""
        return self.step or with_floor({"kernels": float(self.kernel_time)}, float(self.value))

    @property
    def error(self) -> float | None:
        """Median error of its constants, those of its main kernel or of a framework's steps; None where not known.

        >>> from roofline import bound
        >>> found = bound("bf16[4096, 4096] * bf16[4096, 4096]", on="h100", estimate=True).expectation
        >>> 0.03 < found.error < 0.08, found.error_runs
        (True, 350)
        """
        return self._errors.get("mdape")

    @property
    def error_runs(self) -> int | None:
        """How many runs the error is of, to which such constants were not fitted."""
        runs = self._errors.get("n_test")
        return None if runs is None else int(runs)

    @property
    def _errors(self) -> Mapping[str, float]:
        if self.framework or not self.is_known:
            return self.framework_errors
        return self._main[1].error

    @property
    def runs(self) -> Size:
        """How many kernels run, each as often as it repeats."""
        return _plain(1.0 * sum(one.run.repeat for one in self.kernels))

    @property
    def layers_of_experts(self) -> Size:
        """How many of its kernels are the experts of a layer."""
        return _plain(1.0 * sum(one.run.repeat for one in self.kernels if one.run.kernel == "experts"))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the expectation rests on, in sentences."""
        return assumptions_of([self])

    @property
    def unknown(self) -> tuple[KernelEstimate, ...]:
        """Kernels that no constants are known for, the longest first."""
        return tuple(sorted((one for one in self.kernels if one.source is None), key=lambda one: -_longest(one.value)))

    @property
    def is_known(self) -> Any:
        """Whether it rests on constants: with none for over a tenth of its time the bound alone holds."""
        if self.framework:
            return True
        missing = [one.value for one in self.kernels if one.source is None]
        return len(missing) < len(self.kernels) and sum(missing) <= MOST_UNKNOWN * self.kernel_time

    @property
    def basis(self) -> str:
        """Whose constants: those of the library's kernels."""
        return self.library

    def __repr__(self) -> str:
        return f"<Expectation: {self.in_words()}>"

    def in_words(self) -> str:
        """The expected time with its interval, whose constants it comes from, and the error of its kind."""
        times = f"expect {format_quantity(self.value, 's')}"
        ends = ends_in_words(self.low, self.high, self.floor)
        if self.framework:
            told = error_told(self.error, self.outside, stand_in=self.stand_in)
            return f"{times} ({ends}, {self.holds}; steps of {self.framework}{told})"
        if not self.is_known:
            kinds = in_a_row(dict.fromkeys(one.run.kind for one in self.unknown)) or "it"
            why = f"no constants of {self.library} are known for {kinds}, so only the bound holds"
            return f"no expectation: {why}; {call('calibrate')} makes constants from ten runs"
        main, source = self._main
        moved = source.transferred_from
        stand_in = () if source.dtype in (main.run.dtype, "any") else (source.dtype, main.run.dtype)
        told = error_told(self.error, main.extrapolated, " of its main kernel", stand_in)
        seen = transfer(source.kernel, moved)
        if told and seen is not None and seen.kernel != main.run.kernel:  # a kind that was not tried on other chips
            told += f", measured of {kernel_in_words(seen.kernel)} only"
        origin = f"{main.basis}{source.told}{moved and f' ({moved})'}"
        return f"{times} ({ends}, {self.holds}; constants of {origin}{told})"

    @property
    def coverage(self) -> float | None:
        """The share of runs that its interval holds: 80%, or what those of a framework's steps held if far fewer.

        None in a format, or of a kind of kernel, that no run was measured of.
        """
        return share_held(self.framework_errors, self.outside, self._whose)

    @property
    def holds(self) -> str:
        """What its interval holds: 80%, or how many runs of a framework's steps where these are far fewer.

        ``extrapolated`` in a format, or of a kind of kernel, that no run was measured of.
        """
        return interval_told(self.framework_errors, self.outside, self._whose)

    @property
    def _whose(self) -> tuple[str, ...]:
        """What was measured and what it stands for, where its steps, or over a tenth of its kernels, were not."""
        if self.framework:
            return self.stand_in
        borrowed = [one for one in self.kernels if one.stand_in]
        if not borrowed or not decided(sum(one.value for one in borrowed) > MOST_UNKNOWN * self.kernel_time):
            return ()
        return borrowed[0].stand_in

    @property
    def constants(self) -> str:
        """Whose constants a time rests on that is known: those of a framework's step, or of its main kernel."""
        return self.framework or self._main[0].basis

    @property
    def _main(self) -> tuple[KernelEstimate, KernelConstants]:
        """The kernel that takes longest of those that constants are known for, and these."""
        known = [(one, one.source) for one in self.kernels if one.source is not None]
        return max(known, key=lambda each: float(each[0].value))

    def measured_on(self) -> str:
        """Where the error of its main kernel was measured; empty of a framework's step and where nothing is known."""
        if self.framework or not self.is_known:
            return ""
        _, source = self._main
        seen = transfer(source.kernel, source.transferred_from)
        error, told = (source.error, source.source) if seen is None else (seen.error, seen.source)
        runs = error.get("n_test")
        if not runs or not told:
            return ""
        kind = kernel_in_words(source.kernel if seen is None else seen.kernel)
        if source.source == OWN_RUNS and seen is None:
            return f"the error of {kind} is of {runs:,.0f} runs of your own: {LEFT_OUT}"
        of = f"the error of {kind} is of {runs:,.0f} runs that such constants were not fitted to"
        return f"{of}, {told}; {call('accuracy')} has all errors"

    def explanation(self) -> list[str]:
        """Lines that say where it comes from: each kernel's time, its interval, whose constants, and their source."""
        lines = [self.in_words()]
        if len(self.parts) > 1:
            lines.append(f"  {sum_in_words(self.parts, self.stand_in, self.kernel_time)}")
        for one in self.kernels:
            source = f"  [{one.source.source}]" if one.source is not None and one.source.source else ""
            lines.append(f"  {one.in_words()}{source}")
        return lines

    def sections(self) -> list[Section]:
        """A row a kernel: how often it runs, its floor, what to expect of it, what that rests on."""
        numbers = figures("runs", "at best", "expected", "low", "high")
        columns = (Column("kernel", wrap="anywhere"), *numbers, Column("constants"))
        rows = []
        for one in self.kernels:
            times = ("" if one.source is None else Amount(t, "s") for t in (one.value, one.low, one.high))
            rows.append(Row((one.run.name, Amount(one.run.repeat), Amount(one.run.floor, "s"), *times, one.basis)))
        return [Table(columns, rows, "expected")]

    def to_dict(self) -> dict[str, Any]:
        """The expectation in SI units, kernel by kernel (schema ``roofline/expectation/1``); no times where unknown."""
        kernels = [
            {
                "kernel": one.run.kernel,
                "operations": one.run.name,
                "repeat": one.run.repeat,
                "time": float(one.value),
                "low": float(one.low),
                "high": float(one.high),
                "floor": float(one.run.floor),
                "parts": {name: float(value) for name, value in one.parts.items()},
                "basis": one.basis,
                **({"extrapolated": list(one.extrapolated)} if one.extrapolated else {}),
            }
            for one in self.kernels
        ]
        times = {"time": self.value, "low": self.low, "high": self.high}
        return {
            "schema": "roofline/expectation/1",
            "known": self.is_known,
            **{name: float(time) if self.is_known else None for name, time in times.items()},
            "coverage": self.coverage if self.is_known else None,
            **attributes(self, "error", "error_runs"),
            "parts": dict(self.parts) if self.is_known else {},
            "library": self.library,
            **({} if self.host is None else {"host_time": self.host}),
            "kernels": kernels,
            "assumptions": list(self.assumptions),
        }


def assumptions_of(expected: Sequence[Expectation]) -> tuple[Assumption, ...]:
    """What expectations of one library on one chip rest on, in sentences: each once, whichever of them need it."""
    said: dict[str, None] = {}
    kernels = [(each, one) for each in expected for one in each.kernels]
    for each, one in kernels:
        if one.source is None:
            what = ": its bound is taken" if decided(each.is_known) else ""
            said[f"expected: no constants for {one.run.kind}{what}"] = None
        elif one.source.transferred_from:
            whose = f"{one.basis} ({one.source.transferred_from})"
            said[f"expected: {one.run.kernel.replace('_', ' ')} by constants of {whose}"] = None
    if any(one.stand_in[1:] == ("convolution",) for _, one in kernels):
        said["expected: convolutions as their implicit products; the error is that of products"] = None
    before = sum(_longest(one.parts.get("quantise", 0.0) * one.run.repeat) for _, one in kernels if one.source)
    if before:
        alone = len(expected) == 1 and not is_array(expected[0].value)
        part = f", {format_quantity(before, 's')} of the time" if alone else ""
        said[f"expected: the kernel before each product that quantises its activations{part}"] = None
    if len(expected) == 1 and not is_array(expected[0].value) and (measured := expected[0].measured_on()):
        said[f"expected: {measured}"] = None
    for host in (each.host for each in expected if each.host is not None):
        took = format_quantity(host, "s")
        said[f"expected: no CUDA graph: the host starts a kernel in {took}, or waits for the kernels"] = None
    outside = dict.fromkeys(one.run.name for _, one in kernels if one.extrapolated)
    if outside:
        names = ", ".join(outside)
        said[f"expected: outside the sizes that were measured, with a wider interval: {names}"] = None
    return tuple(Assumption("estimate", text) for text in said)


def libraries(records: Iterable[KernelConstants]) -> tuple[str, ...]:
    """Names of the libraries that products have constants of."""
    return tuple(dict.fromkeys(one.library for one in records if one.kernel == "contraction"))


@check_methods
class Estimator:
    """Constants of one library, from the shipped records and a user's own files, and what follows for operations.

    ``h100+vllm`` are those of one chip alone, also for a chip of another generation.
    """

    @takes()
    def __init__(self, library: str = "vllm", files: Any = (), eager: bool = False) -> None:
        self.eager, self.only = eager, ""
        self._known: dict[tuple[Any, ...], list[tuple[KernelConstants, float]]] = {}
        self._own = read_files(files)
        only, _, library = library.rpartition("+")
        name, _, self.version = library.partition("-")
        known = libraries(self.records_of("contraction"))
        if name not in known:
            raise InputError(f"no constants of a library {library!r}", hint=suggest(library, known, what="libraries"))
        self.library = name
        mine = self.records_of(library=name) if self.version or only else ()
        versions, chips = ({getattr(one, kind) for one in mine} - {""} for kind in ("version", "chip"))
        if self.version:
            check_one_of(f"no constants of {name} {self.version!r}", self.version, sorted(versions), "versions")
        if only:
            check_one_of(f"no constants of {name} on {only!r}", only, sorted(chips), "chips")
        self.only = only

    @property
    def records(self) -> tuple[KernelConstants, ...]:
        """All constants that may be taken: a user's own, and the shipped ones that promise anything."""
        return self.records_of()

    def records_of(self, kernel: str = "", **words: str) -> tuple[KernelConstants, ...]:
        """The constants of :attr:`records` that are of a kind of kernel and have these words, as ``dtype="bf16"``."""
        words |= {"chip": self.only} if self.only else {}
        asked = {**words, "kernel": kernel} if kernel else words
        own = (one for one in self._own if all(getattr(one, name) == word for name, word in asked.items()))
        return overlaid((record for record in shipped(kernel, **words) if record.usable), own)

    def expect(self, answer: Bound) -> Any:
        """What to expect of an answer's operations, one after the other: an :class:`Expectation`.

        Of sizes that are arrays it is the :class:`~roofline.estimates.row_expectations.RowExpectations` of all rows.
        """
        if is_symbol(answer.lower):
            raise InputError("what to expect is worked out for numbers", hint="give each size a number, or an array")
        asked = answer.question
        if asked is not None and (columns := columns_of(asked)):
            return self.expect_rows(asked, columns)
        if is_array(answer.lower):
            raise InputError("what to expect is worked out for one configuration", hint="give each size one number")
        return self._of_operations(answer)

    def expect_rows(self, asked: Question, columns: Mapping[str, Any]) -> RowExpectations:
        """What to expect of a question in every row of columns of its sizes."""
        found = expect_rows(asked, columns, self._of_operations, assumptions_of, self.library)
        return replace(found, estimator=self)

    def _of_operations(self, answer: Bound) -> Expectation:
        level = data_level(answer.machine)
        if level.name != answer.machine.memories[0].name:
            wrong = f"what kernels take with data in {level.name} was not measured"
            raise InputError(wrong, hint=f"leave {spelled('estimate')} out: the floor holds")
        found = tuple(self.kernel(self.own_kernel(run, answer.machine), answer.machine) for run in kernels_of(answer))
        if not found:
            wrong = f"nothing is expected of {answer.expression}"
            raise InputError(wrong, hint="it holds no operations that take time")
        # no sum of kernels is below the bound, not by a rounding either
        sums = (sum(getattr(one, name) for one in found) for name in ("value", "low", "high"))
        value, low, high = (maximum(each, answer.lower) for each in sums)
        whole = Expectation(value, low, high, found, self.library, floor=answer.lower)
        if not self.eager:
            return whole
        host = self.host_time(answer.machine)
        longer = maximum(value, whole.runs * host)
        low, high = (maximum(longer * end / value, whole.runs * host) for end in (low, high))
        return replace(whole, value=longer, low=low, high=high, host=host, floor=None)

    def host_time(self, machine: Machine) -> float:
        """Seconds of the host to start a kernel without a CUDA graph; an error where it was not measured."""
        found = self.record(KernelRun("eager_kernel", "any", "", {}, ()), machine)
        if found is None:
            wrong = f"what {self.library} takes to start a kernel without a CUDA graph is not known on {machine.key}"
            raise InputError(wrong, hint=f"leave {spelled('eager')} out: graphs are the default of serving frameworks")
        return found.values["host_time"]

    def estimated(self, answer: Bound) -> Bound:
        """The answer with what to expect; a stated overlap or overhead keeps its own estimate."""
        found = self.expect(answer)
        known = found.is_known
        expected = found.value if (known.any() if is_array(known) else known) else None
        estimate = expected if answer.estimate is None else answer.estimate
        halves = "expected: activations pass between kernels in half precision, as in engines; products quantise theirs"
        said = (*answer.assumptions, *found.assumptions, *assume("estimate", (halves,) * _is_narrow(answer)))
        return replace(answer, estimate=estimate, expectation=found, assumptions=said)

    def own_kernel(self, run: KernelRun, machine: Machine) -> KernelRun:
        """The kernel that this library runs instead: of an all-reduce in a node, small products of a batch, a decode.

        vLLM has none of these in 8 bits on NVIDIA's chips: it converts their weights once, and computes in half
        precision (vllm/v1/attention/backends/mla/common.py, ``process_weights_after_loading``).
        """
        if run.path == "all-reduce" and runs_own_all_reduce(self.library, run.shapes["chips"]):
            return replace(run, kernel="all_reduce", dtype="bf16", path="")
        if run.kernel == "quantised_batched_contraction" and self.library == "vllm":
            halves = {**run.shapes, "a_bytes": 2.0, "b_bytes": 2.0}
            return replace(run, kernel="batched_contraction", dtype=_HALF[0], shapes=halves)
        return attention_of(self.library, run, machine)

    def kernel(self, run: KernelRun, machine: Machine) -> KernelEstimate:
        """What to expect of one kernel: no less than its bound, and of tokens after others than of less work."""
        found, other = self._kernel(run, machine), _other_kernel(run)
        beside = found
        if other is not None and found.source is not None:
            beside = self._kernel(self.own_kernel(other, machine), machine)
        both = (found, beside) if decided(found.value >= beside.value) else (beside, found)
        return both[_is_prompt_of_one(run)] if beside.source is not None else found

    def _kernel(self, run: KernelRun, machine: Machine) -> KernelEstimate:
        sources = self.sources(run, machine)
        if not sources:
            return KernelEstimate(run, run.floor, run.floor, run.floor, basis="its bound")
        record = sources[0][0]
        in_graph = not self.eager and BESIDE in run.shapes and machine.vendor.lower() in WITH_GRAPHS
        each = [_parts(one, run, machine, in_graph) for one, _ in sources]
        time = mixed([parts.time for parts in each], [share for _, share in sources])
        if OTHER in record.transferred_from:
            time = within_power(record.kernel, run.shapes, chip_figures(machine, record, run), machine, time)
        low, high = widened(run.kernel, record.octaves_outside(run.shapes), *record.limits(time))
        value = np.maximum(time * run.repeat, run.floor)
        low, high = (np.maximum(value * end / time, run.floor) for end in (low, high))
        plain = {name: _plain(seconds / each[0].time * time) for name, seconds in each[0].seconds.items()}
        once = _plain(value / run.repeat)
        plain = with_floor(plain, once) if isinstance(once, float) else plain
        basis = f"{in_a_row(one.chip for one, _ in sources)} {record.library}"
        value, low, high = map(_plain, (value, low, high))
        return KernelEstimate(run, value, low, high, plain, basis, record, record.outside(run.shapes))

    def record(self, run: KernelRun, machine: Machine) -> KernelConstants | None:
        """The constants for a kernel: of this chip and library, else of the nearest of its vendor, else None."""
        sources = self.sources(run, machine)
        return sources[0][0] if sources else None

    def sources(self, run: KernelRun, machine: Machine) -> list[tuple[KernelConstants, float]]:
        """The constants for a kernel, with their weights: of its kind, or of the kind that stands in for it."""
        link = run.shapes.get("link")
        if is_array(link):
            return self._or_standing_in(run, machine)
        asked = (Same(machine), run.kernel, run.dtype, run.path, _read_format(run), link)
        if asked not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[asked] = self._or_standing_in(run, machine)
        return self._known[asked]

    def _or_standing_in(self, run: KernelRun, machine: Machine) -> list[tuple[KernelConstants, float]]:
        found = self._sources(run, machine)
        if not found and run.path == BLOCK_SCALES:
            return self._sources(replace(run, path=""), machine)
        kernel, path = STAND_INS.get(run.kernel, ("", ""))
        if kernel and not found:
            others = self._sources(replace(run, kernel=kernel, path=path), machine)
            found = [(_standing_in(one, run.kernel), share) for one, share in others]
        return found or (self._sources(run, machine, of_all=True) if run.kernel in ALIKE else [])

    def _sources(self, run: KernelRun, machine: Machine, of_all: bool = False) -> list[tuple[KernelConstants, float]]:
        """The constants of a kind of kernel: those of this chip, of its generation, or of others, ``of_all`` libraries.

        A chip of another vendor, and a vendor's CPU, runs other kernels on other units: nothing is promised of it. Nor
        is it of another generation where one chip alone was measured, or where no chip was left out to see how far off
        that is.
        """
        same = self._of_kind(run, machine.key) or self._of_kind(run, machine.key, _maker(machine))
        mine = [one for one in same if one.chip == machine.key]
        if mine or not same:
            return [(min(mine, key=self._distance), 1.0)] if mine else []
        if run.kernel.endswith(_IN_FORMATS) and matrix_peak(machine, run) is None:
            return []  # without units of the format other kernels run
        if _multiplied_as_they_are(run, machine) and all(distance(machine, chip(one.chip)) for one in same):
            return []  # kernels that convert weights say nothing of those that need not
        link = None if "link" not in run.shapes else of_one_value(_fastest_link(run))
        if link is not None:
            # links tell more of a collective than the generation of a chip
            ranked = sorted(same, key=lambda one: (_ratio(one.figures.get("link"), link), self._distance(one)))
            shares = {ranked[0].chip: 1.0}
        else:
            shares = _shares(same, machine)
        if not of_all and self.library in {one.library for one in same if one.chip in shares}:
            same = [one for one in same if one.library == self.library]
            shares = shares if link is not None else _shares(same, machine)
        nearest = [
            (min((one for one in same if one.chip == key), key=self._distance), share) for key, share in shares.items()
        ]
        alone = len(nearest) == 1 and bool(nearest[0][0].figures) and link is None
        if alone and not self.only and distance(machine, chip(nearest[0][0].chip)):
            return []
        moved = [(_transferred(one, run, machine), share) for one, share in nearest]
        return [(one, share) for one, share in moved if one is not None]

    def _paths(self, run: KernelRun, dtype: str) -> Iterator[str]:
        """Paths whose constants serve a kernel, the nearest first: narrower attention, other scales or none."""
        yield run.path
        if run.path == BLOCK_SCALES and run.kernel != "experts":
            yield ""
        usual = run.path.replace(f"{TRITON}, ", "")
        yield usual
        yield usual.removesuffix(BEYOND).removesuffix(", ")
        if run.kernel == "experts":
            every = dict.fromkeys(one.path for one in self.records_of(run.kernel, dtype=dtype))
            told = ("no gate", "weights only")
            yield from (path for path in every if all((word in path) == (word in run.path) for word in told))

    def step_record(
        self, kernel: str, dtype: str, path: str, machine: Machine, kernels: float = 0.0
    ) -> KernelConstants | None:
        """Constants of this framework's steps: of this format and kind of model, else of another format.

        Steps of another number of ``kernels`` than those measured are of another model. For another model, chip or
        format constants are drawn to those of all the framework's runs, where the record has such values.
        """
        found = self._step_record(kernel, dtype, path, machine)
        if found is None or not found.other_model:
            return found
        if found.chip == machine.key and not found.stand_in and not (kernels and found.outside({"kernels": kernels})):
            return found
        whose = f"drawn to all runs that {found.library} was measured with"
        said = ", ".join(filter(None, (found.transferred_from, whose)))
        return replace(found, values=found.other_model, transferred_from=said)

    def _step_record(self, kernel: str, dtype: str, path: str, machine: Machine) -> KernelConstants | None:
        mine = self.records_of(kernel, library=self.library, path=path)
        formats = dict.fromkeys((dtype, *STEP_FORMATS))
        for only_here in (True, False):
            for one in formats:
                if any(each.dtype == one and (not only_here or each.chip == machine.key) for each in mine):
                    found = self.record(KernelRun(kernel, one, path, {}, ()), machine)
                    if one in (dtype, "any") or found is None:
                        return found
                    return replace(found, transferred_from=f"steps in {one}", stand_in=(one, dtype))
        return None

    def _distance(self, one: KernelConstants) -> tuple[bool, bool, bool]:
        """How far constants are from the library and version asked for; without one, those of all versions."""
        return one.library != self.library, one.version != self.version, bool(one.version)

    def _of_kind(self, run: KernelRun, key: str, maker: tuple[str, bool] | None = None) -> list[KernelConstants]:
        """Constants of this kind of kernel on a chip, or on all chips of a maker: of its format and path.

        Of attention in 8 bits also those in half precision.
        """
        eight_bits = run.dtype == "fp8" and ("attention" in run.kernel or "latent" in run.kernel)
        whose = {"library": self.library} if run.kernel in OF_ENGINES else {}
        for dtype in (run.dtype, "bf16") if eight_bits else (run.dtype,):
            for path in self._paths(run, dtype):
                forms = dict.fromkeys((dtype, "any"))
                words = {"path": path, **whose}
                every = (one for form in forms for one in self.records_of(run.kernel, dtype=form, **words))
                if found := [one for one in every if one.chip == key or (maker and _maker(_listed(one.chip)) == maker)]:
                    return found
        return []


def _fastest_link(run: KernelRun) -> Size:
    """B/s of the fastest link that a collective goes over: its chip's own, whatever tiers lie beyond it."""
    rates = _link_rates(run.parts[0]) if run.parts else {}
    return maximum(*rates.values()) if rates else run.shapes["link"]


def _ratio(first: float | None, second: float) -> float:
    """How far two rates are apart, as a logarithm; without a first one, as far as can be."""
    return abs(math.log(first / second)) if first else math.inf


@cache
def _listed(key: str) -> Machine | None:
    """A chip as it is listed; None of one that no catalog knows any more."""
    try:
        return chip(key)
    except HardwareError:
        return None


def _maker(machine: Machine | None) -> tuple[str, bool] | None:
    """The vendor of a chip in small letters, as users write it in files of their own too, and whether it is a CPU."""
    return None if machine is None else (machine.vendor.lower(), machine.family == "cpu")


def _parts(record: KernelConstants, run: KernelRun, machine: Machine, in_graph: bool) -> Parts:
    """Parts of the time of one run of a kernel; in a graph without the host, if that started it when measured."""
    figures = chip_figures(machine, record, run)
    parts = KERNELS[record.kernel].parts(record.as_timed(run.shapes), figures, record.values, record.policy)
    if in_graph and record.policy.endswith(FROM_HOST):
        return Parts({**parts.seconds, "launch": 0 * parts.time})
    return parts


def _shares(same: Sequence[KernelConstants], machine: Machine) -> dict[str, float]:
    """Weights of chips' constants of one kind of kernel for a machine."""

    def tiles(one: KernelConstants, on: Machine) -> bool:
        return bool(stated_policy(KERNELS[one.kernel], one.library, one.dtype, one.path, on))

    known = all(tiles(one, chip(one.chip)) for one in same)
    return weights(machine, (one.chip for one in same), all(tiles(one, machine) for one in same) if known else None)


def _transferred(record: KernelConstants, run: KernelRun, machine: Machine) -> KernelConstants | None:
    """Constants of another chip for this one, with the interval and the error that such constants were seen to have.

    None where it was never seen how far off they are.
    """
    here = chip(record.chip)
    to = SAME if distance(machine, here) == 0 else OTHER
    seen = transfer(record.kernel, to)
    if seen is None:
        return None
    source = ChipFigures(*(record.figures.get(name, 0.0) for name in ChipFigures._fields))
    target = chip_figures(machine, record, run)
    model = KERNELS[record.kernel]
    there, known = (launches(record.kernel, record.library, record.path, one) for one in (machine, here))
    tiles = bool(stated_policy(model, record.library, record.dtype, record.path, machine))
    by_code = [kernel_elsewhere(model, record.library, record.dtype, record.path, one) for one in (machine, here)]
    values = on_another_chip(
        model, record.values, source, target, here, machine, launches=there / known, tiles=tiles,
        other_kernel=by_code[0] != by_code[1],
    )  # fmt: skip
    policy = by_code[0] or policy_elsewhere(model, record.policy, machine, record.path)
    error = {**seen.error, "n_fit": record.error.get("n_fit", 0)}
    moved = replace(record, values=values, policy=policy, error=error, transferred_from=to)
    low, high = seen.own.get(of_its_own(record.library, record.dtype, record.path), seen.interval)
    if to == OTHER:  # never surer than within a generation
        near = transfer(record.kernel, SAME) or seen
        return replace(moved, interval=((min(low, near.interval[0]), max(high, near.interval[1])),), edges=())
    return replace(moved, interval=tuple((min(ends[0], low), max(ends[1], high)) for ends in record.interval))


def _standing_in(record: KernelConstants, kernel: str) -> KernelConstants:
    """Constants of another kind of kernel, no surer than those were seen to be, or on a chip of another generation."""
    seen = transfer(record.kernel, OTHER_KIND) or transfer(record.kernel, OTHER)
    low, high = seen.interval if seen is not None else record.interval[0]
    interval = ((min(low, *(ends[0] for ends in record.interval)), max(high, *(ends[1] for ends in record.interval))),)
    error = record.error if seen is None else {**seen.error, "n_fit": record.error.get("n_fit", 0)}
    known = replace(record, kernel=kernel, interval=interval, edges=(), error=error, stand_in=(record.kernel, kernel))
    return replace(known, transferred_from=", ".join(filter(None, (f"{record.kernel}s", record.transferred_from))))


def _longest(time: Any) -> float:
    """A time as a number; of several rows that of the longest."""
    return float(time.max() if is_array(time) else time)


def _plain(value: Any) -> Any:
    """An array of one number as that number."""
    return float(value.item()) if getattr(value, "size", 0) == 1 else value


def chip_figures(machine: Machine, record: KernelConstants, run: KernelRun) -> ChipFigures:
    """Figures of the machine; those that constants were fitted with where they are its own.

    These follow what a caller sets: ``hbm=+20%`` is a fifth more than they were fitted with. Where those are not
    known, cores of the sister with the nearest peak stand in, and else cores and cache of the chip that was measured.
    """
    held = record.figures
    if record.chip != machine.key or not all(name in held for name in ChipFigures._fields):
        return _data_sheet_figures(machine, held, run)
    fitted = ChipFigures(*(held[name] for name in ChipFigures._fields))
    listed = _listed(record.chip) if machine.given else None
    if listed is None:
        return fitted
    each = zip(fitted, *(_data_sheet_figures(one, held, run) for one in (machine, listed)), strict=True)
    return ChipFigures(*(was * now / before if before else was for was, now, before in each))


def _data_sheet_figures(machine: Machine, held: Mapping[str, float], run: KernelRun) -> ChipFigures:
    peak = matrix_peak(machine, run) or held.get("matrix_peak", 0.0)
    main = data_level(machine)
    inner = [m for m in machine.memories if not m.link and m.capacity is not None and m is not main]
    cache_bytes = float(inner[0].capacity.value) if inner and inner[0].capacity else held.get("cache", 5e7)
    cores = float(cores_or_a_sisters(machine) or held.get("cores", 100.0))
    bandwidth = float(main.bandwidth.value) if main.bandwidth else held.get("bandwidth", 1e12)
    return ChipFigures(cores, peak, bandwidth, cache_bytes)


def matrix_peak(machine: Machine, run: KernelRun) -> float | None:
    """FLOP/s of the machine's matrix units in the format that a kernel computes in; None where they have none in it."""
    read = _read_format(run)
    if "weights only" in run.path or run.dtype in _HALF:
        wanted: tuple[str, ...] = (read,) if read in _HALF else _HALF
    else:
        wanted = (dtypes.get(_COMPUTED_IN.get(run.dtype, run.dtype)).arithmetic,)
    rates = (rate(machine, Key("flops", "matrix", one)) for one in wanted)
    return next((float(found.value) for found in rates if found is not None and found.dtype in wanted), None)


def _multiplied_as_they_are(run: KernelRun, machine: Machine) -> bool:
    """Whether engines multiply the weights of experts without converting them: mxfp4 on Blackwell's stacked memory.

    They have kernels of their own for these chips (sm100), and convert weights on others, RTX PRO 6000 too
    (vllm/model_executor/layers/quantization/mxfp4.py, ``get_mxfp4_backend``).
    """
    if (run.kernel, run.dtype) != ("experts", "mxfp4") or machine.memories[0].name != STACKED:
        return False
    found = rate(machine, Key("flops", "matrix", run.dtype))
    return found is not None and dtypes.get(found.dtype).bits == dtypes.get(run.dtype).bits


def _read_format(run: KernelRun) -> str:
    """The format of what a kernel reads first."""
    return run.parts[0].op.reads[0].dtype if run.parts and run.parts[0].op.reads else ""


def kernels_of(answer: Bound) -> list[KernelRun]:
    """The kernels that a library runs for an answer's operations."""
    runs: list[KernelRun] = []
    apart, parts = answer.request.get("policy", "each-op") == "each-op", [part for part in answer.ops if part.times]
    for group in _groups(list(map(_as_engines_run, parts)) if _is_narrow(answer) else parts, apart):
        op, kind = group[0].op, _kind(group[0].op)
        if _SHAPED.get(kind, "") not in ("", *op.dims):
            wrong = f"nothing is expected of {op.where or op.name}, whose shapes are not known"
            raise InputError(wrong, hint="name a model, or give its config.json")
        if kind in UNMEASURED:
            runs.append(KernelRun(kind, "any", "", {}, group))
        elif kind == "collective":
            runs.append(_collective_run(group, answer.machine.mesh))
        else:
            runs.append(KERNEL_RUNS.get(kind, _vector_run)(group))
    moved = sum(run.bytes * run.repeat for run in runs)
    if not runs or decided(moved == maximum(*(run.bytes for run in runs))):  # one kernel, once
        return runs
    return [replace(run, shapes={**run.shapes, BESIDE: moved - run.bytes}) for run in runs]


def _is_narrow(answer: Bound) -> bool:
    """Whether a step of a model was asked for with activations in fewer than 16 bits."""
    return dtypes.get(answer.request.get("activations", _HALF[0])).bits < 16


def _as_engines_run(part: OpBound) -> OpBound:
    """An operation of a step as engines run it, whatever format of activations its floor is of.

    What passes from kernel to kernel stays in half precision; a product that computes in fewer bits quantises what it
    reads. Weights, keys and values are as they were asked for.
    """
    op = part.op
    passed = [dtypes.get(one.dtype).bits_per_element for one in (*op.reads, *op.writes) if _is_passed(one)]
    if not passed or op.role == "quantised":
        return part
    wider = 16 / passed[0]
    dims = {**op.dims, "bytes": op.dims["bytes"] * wider} if "bytes" in op.dims else op.dims
    halves = with_tensors(op, lambda one: replace(one, dtype=_HALF[0]) if _is_passed(one) else one, dims=dims)
    wires = (use if use.quantity != "wire" else replace(use, time=use.time * wider) for use in part.uses)
    return replace(part, op=halves, uses=tuple(wires))


def _is_passed(tensor: Tensor) -> bool:
    return tensor.role == "activation" and dtypes.get(tensor.dtype).bits < 16


def _kind(op: Op) -> str:
    if "choices" in op.dims:
        return "experts"
    if op.kind == "convolution" and "m" not in op.dims:
        return "elementwise"  # of each channel by itself, beside a recurrence: no product of matrices
    return "selection" if op.role == "selection" else op.kind


def _groups(parts: Sequence[OpBound], apart: bool) -> list[tuple[OpBound, ...]]:
    """Operations that run as one kernel, in order; ``apart`` has each of elements read and write memory."""
    found: list[tuple[OpBound, ...]] = []
    for part in parts:
        joins = bool(found) and _joins(found[-1][-1].op, part.op, apart)
        found.append((*found.pop(), part) if joins else (part,))
    return found


def _joins(before: Op, op: Op, apart: bool) -> bool:
    """Whether an operation runs in the kernel of the one before it."""
    if before.repeat is not op.repeat and decided(before.repeat != op.repeat):
        return False
    if _in_experts(before) and _in_experts(op):
        return True
    if before.kind == op.kind == "contraction" and "choices" not in op.dims:
        same = before.reads and op.reads and before.reads[0].ident == op.reads[0].ident
        return bool(same) and all(decided(before.dims[name] == op.dims[name]) for name in ("m", "k", "batch"))
    if apart or before.kind not in ELEMENT_KINDS or before.kind == "embedding":
        return False
    made, modules = {tensor.ident for tensor in before.writes}, {each.where.rpartition(".")[0] for each in (before, op)}
    if op.kind in (*ELEMENT_KINDS, "norm") and any(tensor.ident in made for tensor in op.reads):
        return True
    # elementwise operations of one module, as the rotations of queries and of keys
    return before.kind == op.kind == "elementwise" and len(modules) == 1 and modules != {""}


def _in_experts(op: Op) -> bool:
    return "choices" in op.dims or ".experts." in f".{op.where}."


def kernel_format(dtype: str) -> str:
    """A format of products by the name that constants of kernels have for it.

    >>> kernel_format("fp8_e4m3"), kernel_format("fp16"), kernel_format("int4")
    ('fp8', 'bf16', 'int4')
    """
    return PRODUCT_FORMATS.get(dtype, dtype)


def product_kind(a: str, b: str, computed: str = "") -> tuple[str, str, str]:
    """The kind of kernel, format and path of a product of activations and weights in two formats.

    ``computed`` is the format of its arithmetic; without it the wider of both. Activations go into that of the weights
    where these are computed in as they are. Weights in fewer bits have kernels of their own, which convert them: in
    int4 and int8 on an A100 they take 1.7 and 1.4 times what constants of bf16 say of so many bytes.

    >>> product_kind("bf16", "int8"), product_kind("int8", "int8"), product_kind("fp8_e4m3", "fp8")
    (('contraction', 'int8', 'weights only'), ('contraction', 'int8', ''), ('quantised_contraction', 'fp8', ''))
    >>> product_kind("bf16", "fp8"), product_kind("bf16", "fp8", "fp8")
    (('contraction', 'fp8', 'weights only'), ('quantised_contraction', 'fp8', ''))
    """
    computed = computed or max((a, b), key=lambda one: dtypes.get(one).bits)
    arithmetic, weights = kernel_format(computed), kernel_format(b)
    if dtypes.get(weights).bits >= dtypes.get(arithmetic).bits:
        return "quantised_contraction" if weights in ("fp8", "nvfp4") else "contraction", weights, ""
    return "contraction", weights, "weights only" if arithmetic == "bf16" else f"beside {arithmetic}"


def _operands(op: Op) -> tuple[str, str, str]:
    """Formats of the activations and weights that a kernel reads, and of its arithmetic.

    Activations in half precision are in the format of the weights, where these are computed in as they are: the kernel
    before has quantised them.
    """
    a, b = op.reads[0].dtype, op.reads[1].dtype if len(op.reads) > 1 else op.reads[0].dtype
    computed = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    alike = kernel_format(computed) == kernel_format(b)
    return b if alike and a in _HALF else a, b, computed


def _product_run(group: tuple[OpBound, ...]) -> KernelRun:
    op = group[0].op
    a, b, computed = _operands(op)
    kernel, dtype, path = product_kind(a, b, computed)
    if not path and decided(op.dims["batch"] > 1) and decided(op.dims["n"] * op.dims["k"] <= BATCHED_WEIGHT):
        kernel = kernel.replace("contraction", "batched_contraction")
    elif not path and dtype == "fp8" and _has_block_scales(op):
        path = BLOCK_SCALES
    shapes = {
        "m": op.dims["m"],
        "n": sum(part.op.dims["n"] for part in group),
        "k": op.dims["k"],
        "batch": op.dims["batch"],
        "a_bytes": dtypes.get(a).bits_per_element / 8,
        "b_bytes": dtypes.get(b).bits_per_element / 8,
        "out_bytes": dtypes.get(op.writes[0].dtype).bits_per_element / 8 if op.writes else 2.0,
    }
    return KernelRun(kernel, dtype, path, shapes, group)


def _has_block_scales(op: Op) -> bool:
    """Whether a weight has a scale for each block: they are more than one, and not one a row."""
    scales = [tensor.dims[-1] for tensor in op.reads[2:3] if tensor.role == "weight"]
    return bool(scales) and scales[0] not in (1, op.reads[1].dims[0])


def _convolution_run(group: tuple[OpBound, ...]) -> KernelRun:
    """A convolution as its implicit matrix product: the bytes of its input are spread over the product's ``m·k``."""
    run = _product_run(group)
    dims = run.shapes
    read = group[0].op.reads[0].traffic_bytes / (dims["m"] * dims["k"] * dims["batch"])
    return replace(run, shapes={**dims, "a_bytes": read})


def cache_format(read: str, held: str) -> str:
    """The format of keys and values as a path tells it: nothing where it is that of the queries, in over 8 bits."""
    alike = kernel_format(read) == kernel_format(held)
    return "" if alike and dtypes.get(held).bits > 8 else kernel_format(held)


def _attention_run(group: tuple[OpBound, ...]) -> KernelRun:
    op = group[0].op
    dims = op.dims
    held = next((tensor for tensor in op.reads if tensor.role == "kv"), op.reads[-1])
    kv_bytes, cache = dtypes.get(held.dtype).bits_per_element / 8, cache_format(op.reads[0].dtype, held.dtype)
    dtype = kernel_format(op.reads[0].dtype)
    shapes = {name: dims[name] for name in ("batch", "heads", "kv_heads", "head_size")} | {"kv_bytes": kv_bytes}
    one = decided(dims["q_length"] <= 1)
    value_size = dims.get("v_head_size", dims["head_size"])
    if decided(value_size != dims["head_size"]):
        path = ", ".join(cache_words(kv_bytes, cache))
        return _latent_run(group, dtype, path, shapes, value_size, one)
    window = {"window": op.options["window"]} if "window" in op.options else {}  # also where it is not reached yet
    mask = _mask_shapes(dims) or window
    return attention_run(shapes | mask, dims["q_length"], dims["kv_length"], dtype, cache, group)


def attention_run(
    shapes: Mapping[str, Size], queries: Size, keys: Size, dtype: str, cache: str, group: tuple[OpBound, ...] = ()
) -> KernelRun:
    """The kernel of so many queries over so many keys, of which the new ones are the last.

    A few after others, as a draft is checked, run as one does: cut along the keys, with the rows of a few tokens.
    """
    one, past = decided(queries <= 1), keys - queries
    few = one or decided((past > 0) & (queries * shapes["heads"] / shapes["kv_heads"] <= DECODE_ROWS))
    kernel = "decode_attention" if few else "prefill_attention"
    kv_bytes, heads, kv_heads, size = (shapes[name] for name in ("kv_bytes", "heads", "kv_heads", "head_size"))
    path = attention_path(kernel, kv_bytes, heads, kv_heads, size, shapes.get("window", 0), cache)
    if few:
        tokens = {} if one else {"queries": queries}
        return KernelRun(kernel, dtype, path, {**shapes, **tokens, "length": keys}, group)
    if not path and dtype == "bf16" and decided(shapes.get("later", 0.0) >= 1):
        kernel = "unmasked_attention"
    return KernelRun(kernel, dtype, path, {**shapes, "length": queries, "past": past}, group)


def attention_of(library: str, run: KernelRun, machine: Machine) -> KernelRun:
    """A kernel with the path and shapes that constants of a library have of it, where it is attention.

    Blackwell with stacked memory has kernels of TensorRT-LLM that share keys among more heads.
    """
    given = run.shapes
    if run.kernel not in ("decode_attention", "prefill_attention"):
        return run
    kv_bytes, heads, kv_heads, size = (given[name] for name in ("kv_bytes", "heads", "kv_heads", "head_size"))
    if machine.family == "nvidia-blackwell" and machine.memories[0].name == STACKED and library == "trtllm":
        kv_heads = maximum(kv_heads, heads / SHARED_AT_MOST)
    cache, told, _ = run.path.partition(" cache")
    window, form = given.get("window", 0), cache if told else ""
    path = attention_path(run.kernel, kv_bytes, heads, kv_heads, size, window, form, library, cores_of(machine))
    if run.kernel == "prefill_attention":
        alone = alone_on_core(library, run.dtype, path, size, machine)
        given = {**given, "rewritten": moved_in_front(library, run.dtype), "alone": alone}
    if not decided(heads_apart(library, run.kernel, heads, kv_heads)):
        return replace(run, path=path, shapes=given)
    return replace(run, path=path, shapes={**given, "kv_heads": heads, "shared": heads / kv_heads})


def _is_prompt_of_one(run: KernelRun) -> bool:
    """Whether a single token sees itself alone, as the first of a prompt and as one that follows none."""
    return run.kernel == "decode_attention" and "queries" not in run.shapes and decided(run.shapes["length"] <= 1)


def _other_kernel(run: KernelRun) -> KernelRun | None:
    """Attention that another kernel runs, and that takes no more, of one token no less; None where there is none.

    A few tokens after others are a prompt, which a prefill kernel runs. More of them are as many as fill a tile of a
    decode kernel. A token alone is a prompt too.
    """
    given, left_out = run.shapes, {"queries", "past", "later", "shared", "rewritten"}
    if "queries" in given or _is_prompt_of_one(run):
        kernel, other = "prefill_attention", {"length": given.get("queries", 1.0), "past": 0.0}
    elif run.kernel == "prefill_attention" and decided(given.get("past", 0.0) > 0):
        few = maximum(1, DECODE_ROWS * given["kv_heads"] / given["heads"])
        kernel, other = "decode_attention", {"length": given["length"] + given["past"], "queries": few}
    else:
        return None
    kv_bytes, heads, kv_heads, size = (given[name] for name in ("kv_bytes", "heads", "kv_heads", "head_size"))
    cache, told, _ = run.path.partition(" cache")
    kv_heads = kv_heads / given.get("shared", 1)
    shapes = {name: value for name, value in given.items() if name not in left_out} | other | {"kv_heads": kv_heads}
    path = attention_path(kernel, kv_bytes, heads, kv_heads, size, shapes.get("window", 0), cache if told else "")
    return replace(run, kernel=kernel, path=path, shapes=shapes)


def _mask_shapes(dims: Mapping[str, Size]) -> dict[str, Size]:
    """What the number of visible pairs tells of a mask: a window, or the share of later keys that are seen too.

    After ``p`` tokens a causal mask with a window of ``p + x`` keys leaves ``S`` queries ``(p + x)·S − x(x − 1)/2``
    pairs, and one with fewer keys that many for each query. Any other mask with so many pairs counts as such a window.
    More pairs than keys, as with compressed ones beside a window, are all keys.

    >>> four = {"q_length": 4, "kv_length": 4}
    >>> _mask_shapes({**four, "pairs": 10}), _mask_shapes({**four, "pairs": 9}), _mask_shapes({**four, "pairs": 16})
    ({}, {'window': 3.0}, {'later': 1.0})
    >>> [_mask_shapes({"q_length": 1, "kv_length": 99, "pairs": pairs}) for pairs in (8, 99, 120)]
    [{'window': 8.0}, {}, {}]
    """
    queries, keys, pairs = (dims[name] for name in ("q_length", "kv_length", "pairs"))
    past = keys - queries
    causal = queries * (past + (queries + 1) / 2)
    if decided(past < 0):
        return {"later": 1.0}
    later = queries * keys - causal
    if decided((pairs > causal * (1 + 1e-9)) & (later > 0)):
        return {"later": minimum(1.0, (pairs - causal) / maximum(later, 1e-9))}
    if decided(pairs >= causal * (1 - 1e-9)):
        return {}
    inside = pairs - past * queries
    if decided(inside <= 0):
        return {"window": pairs / queries}
    return {"window": past + queries + 0.5 - sqrt((queries + 0.5) ** 2 - 2 * inside)}


def _latent_run(
    group: tuple[OpBound, ...], dtype: str, path: str, shapes: dict[str, Size], value_size: Size, one: bool
) -> KernelRun:
    """Attention whose keys are wider than its values: over latents that all heads share, or with expanded heads."""
    dims = group[0].op.dims
    past = dims["kv_length"] - dims["q_length"]
    if decided(dims["kv_heads"] == 1) and (one or decided(past > 0)):  # tokens are rows beside the heads
        seen = _mask_shapes(dims).get("window", dims["kv_length"])  # no kernel reads latents that are not chosen
        shapes |= {"heads": dims["heads"] * dims["q_length"], "value_size": value_size, "length": seen}
        return KernelRun("latent_decode", dtype, path, shapes, group)
    shapes |= {"head_size": (dims["head_size"] + value_size) / 2, "length": dims["q_length"], **_mask_shapes(dims)}
    return KernelRun("latent_prefill", dtype, path, {**shapes, "past": past}, group)


def _experts_run(group: tuple[OpBound, ...]) -> KernelRun:
    products = [part.op for part in group if "choices" in part.op.dims]
    op = products[0]
    a, b, _ = _operands(op)
    wide = [one for one in products if decided(one.dims["k"] == op.dims["k"])]
    down = products[-1]
    shapes = {
        "picks": op.dims["m"],
        "touched": op.dims["groups"],
        "experts": op.reads[1].dims[0],
        "tokens": op.reads[0].dims[0],
        "choices": op.dims["choices"],
        "hidden": op.dims["k"],
        "inter": down.dims["k"],
        "products": len(wide) + 1 if down is not op else 1,
        "weight_bytes": dtypes.get(b).bits_per_element / 8,
        "a_bytes": dtypes.get(a).bits_per_element / 8,
    }
    dtype = kernel_format(b)
    words = ["weights only"] if kernel_format(a) != dtype else []
    # mixtures are published in fp8 with a scale for each block: DeepSeek-V3, Qwen3, MiniMax, GLM
    words += [BLOCK_SCALES] if dtype == "fp8" else []
    words += ["no gate"] if shapes["products"] == 2 else []
    return KernelRun("experts", dtype, ", ".join(words), shapes, group)


def _collective_run(group: tuple[OpBound, ...], mesh: Mesh | None) -> KernelRun:
    """A collective as a library runs it on long messages: short ones go no other way, as those of a floor do."""
    part = group[0]
    op, kind = part.op, str(part.op.options.get("collective", ""))
    chips, size = op.dims.get("chips", 2), op.dims.get("bytes", 0)
    # an array that goes from all to all is that of all chips: each has its part of it to send
    times = 2 if kind == "AllReduce" else 1 / chips if kind == "AllToAll" else 1
    sent = times * (chips - 1) / chips * size
    rates = _link_rates(part)
    link = maximum(*rates.values()) if rates else 1e11
    if mesh is not None and len(rates) > 1:  # over tiers each chip sends as fast as the one that takes longest lets it
        axes, dtype = mesh.select(op.options["axes"]), next((tensor.dtype for tensor in op.writes), "")
        crossed = cost(kind, axes, 1.0, density=op.options["density"], dtype=dtype).work
        slowest = maximum(*(crossed[Key("wire", place)] / rate for place, rate in rates.items()))
        link = minimum(link, times * (chips - 1) / chips / slowest)
    shapes = {"sent": sent, "chips": chips, "link": link}
    return KernelRun("collective", "any", _COLLECTIVE_PATHS.get(LIKE.get(kind, kind), kind), shapes, group)


def _link_rates(part: OpBound) -> dict[str, Size]:
    """B/s of each link that a collective goes over, by its place."""
    return {use.place: use.rate.value for use in part.uses if use.quantity == "wire"}


def _vector_run(group: tuple[OpBound, ...]) -> KernelRun:
    """A kernel of elements; of rows where it ends in a norm or is a softmax. A gradient of softmax states no rows."""
    last = group[-1].op
    if last.kind == "norm" or (last.kind == "softmax" and "rows" in last.dims):
        return elements_run(*_moved(group), group, last.kind, "input_layernorm" if last.kind == "norm" else "")
    return elements_run(*_moved(group), group)


def elements_run(
    moved: Size, values: Size, group: tuple[OpBound, ...] = (), kernel: str = "elementwise", path: str = "add"
) -> KernelRun:
    """The kernel of operations of elements that move so many bytes, which are so many values."""
    return KernelRun(kernel, "fp16", path, {"bytes": moved, "values": values}, group)


def _moved(group: tuple[OpBound, ...]) -> tuple[Size, Size]:
    """Bytes and values one run of a kernel reads and writes: what its operations hand to each other stays inside."""
    made = {tensor.ident for part in group for tensor in part.op.writes}
    reads = {t.ident: t for part in group for t in part.op.reads if t.ident not in made}
    taken = {t.ident for part in group for t in part.op.reads}
    writes = list(group[-1].op.writes) + [t for part in group[:-1] for t in part.op.writes if t.ident not in taken]
    moved = [(t.traffic_bytes, dtypes.get(t.dtype).bits_per_element / 8) for t in (*reads.values(), *writes)]
    return sum(each for each, _ in moved), sum(each / width for each, width in moved)


#: A dimension that a kind of operation has wherever its shapes are known: a number of parameters has none.
_SHAPED = {"contraction": "m", "attention": "q_length"}

#: Kernels of operations by their kind; others are collectives, or kernels of elements.
KERNEL_RUNS = {
    "contraction": _product_run,
    "convolution": _convolution_run,
    "attention": _attention_run,
    "experts": _experts_run,
}


#: Sides of the large product, rows of the one that streams, and sides of the one of nothing.
LARGE, FLAT, NOTHING = 16_384, 16, 16


@check_methods
@dataclass(frozen=True, slots=True)
class ExpectedRoof:
    """FLOP/s, B/s and a start in seconds that products reach; 80 % of rates are ``low`` to ``high`` times these."""

    peak: float
    bandwidth: float
    start: float
    low: float
    high: float
    dtype: str
    basis: str

    @property
    def half_flops(self) -> float:
        """n½ of FLOPs: launch-bound below it where arithmetic binds."""
        return self.start * self.peak

    @property
    def half_bytes(self) -> float:
        """n½ of bytes: launch-bound below it where memory binds."""
        return self.start * self.bandwidth

    def rate(self, intensity: float) -> float:
        """FLOP/s at an intensity, for work that is much longer than the start."""
        return min(self.peak, intensity * self.bandwidth)


@takes()
def expected_roof(
    on: str | Machine, *, dtype: str = "bf16", library: str | Estimator = "vllm", files: Sequence[str] = ()
) -> ExpectedRoof:
    """The roof of a chip in practice; an error where no constants are known of its products in a format."""
    estimator, on = library if isinstance(library, Estimator) else Estimator(library, files), chip(on)
    found = [_product(estimator, on, dtype, *sides) for sides in ((LARGE,) * 3, (FLAT, LARGE, LARGE), (NOTHING,) * 3)]
    if any(one.source is None for one in found):
        name = chip(on).target
        wrong = f"no constants of {estimator.library} are known for {dtype} products on {name}"
        raise InputError(wrong, hint=f"{call('calibrate')} makes some from ten runs")
    large, flat, start = (float(one.value) for one in found)
    tensors = (*found[1].run.parts[0].op.reads, *found[1].run.parts[0].op.writes)
    moved = float(sum(tensor.traffic_bytes for tensor in tensors))
    low, high = (large / float(end) for end in (found[0].high, found[0].low))
    peak, bandwidth = 2 * LARGE**3 / (large - start), moved / (flat - start)
    return ExpectedRoof(peak, bandwidth, start, low, high, dtype, found[0].basis)


def _product(estimator: Estimator, on: str | Machine, dtype: str, m: int, n: int, k: int) -> KernelEstimate:
    found: KernelEstimate = estimator.expect(bound(f"{dtype}[{m}, {k}] @ {dtype}[{k}, {n}]", on=on)).kernels[0]
    return found
