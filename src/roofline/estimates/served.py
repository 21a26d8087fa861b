"""What to expect of a model that a framework serves: the time between tokens, and to the first one.

>>> from roofline.estimates import estimated
>>> from roofline.models.serving.answer import serve
>>> asked = serve("llama-3.1-70b", on="h200:8", tensor=8, batch=16, prompt=1024, weights="fp8", activations="fp8")
>>> found = estimated(asked, "vllm", output=1024).expectation
>>> token = found.time_per_token
>>> asked.decode.lower < token.low < token.value < token.high
True
>>> sorted(token.parts)
['host', 'kernels', 'prefill']

Step constants of a serving framework from served runs of one's own.

A row is one run at one load: sequences at once, tokens of a prompt and of an answer, and its times::

    batch,prompt,output,tpot_ms,ttft_ms
    16,1024,1024,9.4,71

``concurrency``, ``isl`` and ``osl`` may stand for ``batch``, ``prompt`` and ``output``, ``tpot_s`` or ``mean TPOT (s)``
for ``tpot_ms``; ``ttft`` may be left out, and counts where nothing waits: at four sequences a copy or fewer.
The time between tokens is taken as that of a step with half of each answer behind it, and the prefills of new
requests that come between steps. A row may be a step by itself, with no prefill in its time::

    batch,context,ms
    16,2048,8.9

``tensor``, ``data`` and ``expert`` may be columns where runs differ in them. Left out and counted are rows of another
``gpu`` or ``model``, rows that cannot be read, and times below the bound of their step or far above it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from roofline.answers import attributes
from roofline.bounds.bound import Bound
from roofline.errors import InputError, RooflineError
from roofline.estimates.calibration import AdvisedRuns, Calibrated, Calibration, advised_runs, refitted
from roofline.estimates.calibration import calibrate as calibrate_kernels
from roofline.estimates.constants import (
    KERNELS,
    KernelConstants,
    ends_in_words,
    error_told,
    in_words,
    interval_told,
    share_held,
)
from roofline.estimates.estimator import Estimator, Expectation, kernel_format
from roofline.estimates.fitting import Rows
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.own_runs import (
    MeasuredKernel,
    Rejected,
    left_out,
    no_columns,
    other_chip,
    place,
    row_number,
    row_size,
    rows_of,
    time_unit,
)
from roofline.estimates.steps import sum_in_words, with_floor
from roofline.estimates.transfer import OTHER_FORMAT, OTHER_MODEL, distance, transfer, widened
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.serving.answer import FurtherAnswer, Serving, serve
from roofline.models.serving.bound import step_bound
from roofline.quantity import format_number, format_quantity, in_a_row
from roofline.sections import Section, Sentences
from roofline.signatures import either, spelled, takes
from roofline.statements import Assumption

#: Share of a chip's memory that frameworks fill.
FILLED = 0.9
#: Formats in blocks that the same units multiply: steps of one stand for the other's.
FOUR_BITS = {"nvfp4", "mxfp4"}


@dataclass(frozen=True, slots=True, eq=False)
class StepEstimate:
    """Expected seconds of a step in a serving framework: interval of 80%, parts, and the constants behind it."""

    value: float
    low: float
    high: float
    parts: Mapping[str, float]
    source: KernelConstants
    extrapolated: tuple[str, ...] = ()
    floor: float | None = None

    @property
    def is_known(self) -> bool:
        """Always: without constants of a framework there is no step estimate."""
        return True

    @property
    def error(self) -> float | None:
        """Median error of the constants behind it."""
        return self.source.error.get("mdape")

    @property
    def error_runs(self) -> int | None:
        """How many runs the error is of, to which the constants were not fitted."""
        runs = self.source.error.get("n_test")
        return None if runs is None else int(runs)

    @property
    def holds(self) -> str:
        """What its interval holds: 80%, ``extrapolated`` in a format not measured, or how many runs it held."""
        return interval_told(self.source.error, self.extrapolated, self.source.stand_in)

    @property
    def coverage(self) -> float | None:
        """The share of runs that it holds; None in a format that no run was measured in."""
        return share_held(self.source.error, self.extrapolated, self.source.stand_in)

    @property
    def basis(self) -> str:
        """Whose constants: chip, library, format, and what kind of model."""
        source = self.source
        words = (source.chip, source.library, source.version, source.dtype, source.path)
        return " ".join(word for word in (*words, source.policy and f"with {source.policy}") if word not in ("", "any"))

    def __repr__(self) -> str:
        return f"<StepEstimate: {self.in_words('a step')}>"

    def in_words(self, what: str) -> str:
        """The expected time with its interval, whose constants, and their error."""
        ends = ends_in_words(self.low, self.high, self.floor)
        told = error_told(self.error, self.extrapolated, stand_in=self.source.stand_in)
        time = format_quantity(self.value, "s")
        return f"{what}: expect {time} ({ends}, {self.holds}; constants of {self.basis}{told})"

    def to_dict(self) -> dict[str, Any]:
        """In SI units."""
        names = ("low", "high", "error", "error_runs", "parts", "basis", "extrapolated")
        return {"time": self.value, **attributes(self, *names)}


@dataclass(frozen=True, slots=True, eq=False)
class ServedExpectation:
    """What to expect of a served model: time between tokens under load, and to the first token on idle chips.

    ``batch`` is what a copy of the model decodes at once, of the ``asked`` sequences; the others wait for room.
    ``told`` says that the decode step is expected to take the same, as no prefills come between steps. ``context`` is
    what a token has before it, where the decode step was asked for after a stated number of others.
    """

    time_per_token: StepEstimate | None
    time_to_first_token: StepEstimate | None
    batch: float
    asked: float
    library: str
    assumptions: tuple[Assumption, ...] = ()
    told: bool = False
    context: int | None = None

    @property
    def value(self) -> float:
        """Seconds to expect of a token, or of the first one where none is decoded; ``low`` and ``high`` its interval.

        >>> from roofline import llm
        >>> found = llm("llama-3-8b", on="h100", batch=8, context=4096, estimate=True).expectation
        >>> found.low < found.value < found.high, found.parts == found.time_per_token.parts
        (True, True)
        """
        return self._first.value

    @property
    def low(self) -> float:
        """The lower end of the interval of ``value``."""
        return self._first.low

    @property
    def high(self) -> float:
        """The upper end of the interval of ``value``."""
        return self._first.high

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds that add up to ``value``."""
        return self._first.parts

    @property
    def _first(self) -> StepEstimate:
        step = self.time_per_token or self.time_to_first_token
        if step is None:
            raise InputError("nothing is expected of these steps", hint="no constants are known")
        return step

    def __repr__(self) -> str:
        steps = (("a token", self.time_per_token), ("the first token", self.time_to_first_token))
        return f"<ServedExpectation: {'; '.join(step.in_words(what) for what, step in steps if step is not None)}>"

    def lines(self) -> list[str]:
        """Whose engine serves, the time between tokens and to the first one, each with its parts; nothing without."""
        lines: list[str] = []
        requests = f"{self.asked:,.0f} request{'s' if self.asked > 1 else ''}"
        between = self.time_per_token is not None and self.time_per_token.parts.get("prefill")
        mixed = " and prefills of new ones between steps" if between else ""
        mixed += "" if self.context is None else f", {self.context:,} tokens before it"
        for step, what in (
            (self.time_per_token, f"a token, with {requests} at once{mixed}"),
            (self.time_to_first_token, "the first token of a request alone"),
        ):
            if step is not None:
                parts = sum_in_words(step.parts, step.source.stand_in)
                lines += [f"a token: {parts}"] if self.told and not lines else [step.in_words(what), f"  {parts}"]
        return [f"served by {self.library}, what its engine does between steps included", *lines] if lines else []

    def sections(self) -> list[Section]:
        """Its lines, those of times set in."""
        lines = self.lines()
        return [Sentences(lines[:1]), Sentences(lines[1:], indent=4)] if lines else []

    def to_dict(self) -> dict[str, Any]:
        """Under stable keys (schema ``roofline/served/1``)."""
        steps = {name: getattr(self, name) for name in ("time_per_token", "time_to_first_token")}
        return {
            "schema": "roofline/served/1",
            "library": self.library,
            **{name: None if step is None else step.to_dict() for name, step in steps.items()},
            **attributes(self, "batch", "assumptions"),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ServedShapes:
    """What step constants need of a served model: kernels' seconds, the batch of a copy, the kind of the model.

    ``first`` are the shapes of a prompt on idle chips.
    """

    batch: float
    asked: float
    context: int
    decode: float
    first: Mapping[str, float] | None
    mixed: float
    dtype: str
    path: str
    kernels: float
    floor: float
    first_floor: float
    is_known: bool = True
    first_is_known: bool = True

    def of_step(self) -> dict[str, float]:
        """Shapes of a decode step."""
        return {"batch": self.batch, "decode": self.decode, "mixed": self.mixed, "kernels": self.kernels}


def served_shapes(estimator: Estimator, serving: Serving, output: int | None = None) -> ServedShapes | None:
    """What step constants need of a served model; None where it does not decode, or over the stages of a pipeline.

    With ``output`` tokens of each answer, decoding is after half of them, and prefills come between steps.
    """
    decode = serving.decode
    if decode is None or serving.ways.pipeline > 1 or not isinstance(serving.batch, int) or not decode.ops:
        return None
    copies = serving.ways.data
    options = {name: value for name, value in serving.asked.items() if name not in PREFILL_ONLY}
    context = decode.sizes["context"]
    if output is not None and serving.prefill is not None:
        context = _read_before(serving.prefill) + output // 2
    room = _room(decode, copies) if context == decode.sizes["context"] else None
    asked = serving.batch / copies
    if room is None or room < asked:
        decode = step_bound(serving.model, "decode", batch=serving.batch, context=context, **options)
        room = _room(decode, copies)
        if room < asked:
            decode = step_bound(serving.model, "decode", batch=copies * int(room), context=context, **options)
    batch = float(int(room)) if room < asked else asked
    found = estimator.expect(decode)
    prefill, first, first_floor, known = 0.0, None, 0.0, (bool(found.is_known), True)
    if (whole := serving.prefill) is not None:
        if serving.batch > copies:
            whole = step_bound(serving.model, "prefill", batch=copies, prompt=whole.sizes["prompt"], **serving.asked)
        alone = estimator.expect(whole)
        first = first_token_shapes(alone, _read_before(whole))
        prefill, first_floor, known = first["prefill"], float(whole.lower), (known[0], bool(alone.is_known))
    # a request waits for the prefills of the others
    mixed = max(batch - 1, 0.0) / output * prefill if output else 0.0
    path = "mixture" if any(one.run.kernel == "experts" for one in found.kernels) else "dense"
    floors = float(decode.lower), first_floor
    if estimator.eager:
        host = found.runs * estimator.host_time(decode.machine)
        floors = max(floors[0], host), max(floors[1], host)
    dtype = weight_format(found)
    times = found.working_time, first, mixed
    return ServedShapes(batch, asked, context, *times, dtype, path, found.runs, *floors, *known)


def first_token_shapes(prefill: Expectation, prompt: float) -> dict[str, float]:
    """Shapes of a prompt on idle chips: its tokens, the seconds of its kernels, how many, and layers of experts."""
    sizes = {"prefill": prefill.kernel_time, "kernels": prefill.runs, "experts": prefill.layers_of_experts}
    return {"prompt": prompt, **sizes}


def _read_before(prefill: Bound) -> int:
    """Tokens before the first decode step: those of the prompt, and those before it that the cache holds."""
    return int(prefill.sizes["prompt"] + prefill.sizes.get("past", 0))


def _room(decode: Bound, copies: int) -> float:
    """Sequences of one copy whose keys and values fit beside the weights; any number where not one does.

    Nothing waits for room then: the model does not fit, as the answer says.
    """
    needed = decode.footprint
    if needed is None or needed.capacity is None:
        return float("inf")
    weights = needed.parts["weights"]
    each = (needed.total - weights) * copies / decode.sizes["batch"]
    room = float((FILLED * needed.capacity - weights) / each) if each else float("inf")
    return room if room >= 1 else float("inf")


def weight_format(step: Expectation) -> str:
    """The format that most bytes of weights are in, as constants of steps name it: of all that a chip holds.

    A step of few tokens reads few of its experts, and what it reads most of may be in another format.

    >>> from roofline.models.serving.bound import step_bound
    >>> steps = [step_bound("gpt-oss-120b", "decode", on="h200:8", tensor=8, batch=n, context=64) for n in (1, 64)]
    >>> [weight_format(Estimator().expect(each)) for each in steps]
    ['mxfp4', 'mxfp4']
    """
    held: Counter[str] = Counter()
    for run, op in ((one.run, part.op) for one in step.kernels for part in one.run.parts):
        words = f" {run.path}" if run.kernel == "contraction" and run.path else ""
        for tensor in op.reads if op.kind != "embedding" else ():
            if tensor.role == "weight":
                held[kernel_format(tensor.dtype) + words] += int(tensor.capacity_bytes * op.repeat)
    return held.most_common(1)[0][0] if held else "bf16"


def expect_served(estimator: Estimator, serving: Serving, output: int | None = None) -> ServedExpectation | None:
    """What to expect of a served model, where the framework has constants of steps."""
    shapes = served_shapes(estimator, serving, output)
    if shapes is None or serving.decode is None:
        return None
    machine = serving.decode.machine
    token = first = None
    record = estimator.step_record("served_step", shapes.dtype, shapes.path, machine, shapes.kernels)
    if record is not None and was_measured(record, shapes.is_known, machine):
        token = step_estimate(record, shapes.of_step(), shapes.floor)
    record = estimator.step_record("first_token", shapes.dtype, shapes.path, machine)
    if record is not None and shapes.first is not None and was_measured(record, shapes.first_is_known, machine):
        first = step_estimate(record, shapes.first, shapes.first_floor)
    if token is None and first is None:
        return None
    said = _said(shapes, token, output is not None)
    stated = serving.decode.sizes["context"]
    usual = shapes.context == stated or (serving.prefill is not None and stated == _read_before(serving.prefill))
    context = None if usual else shapes.context
    return ServedExpectation(token, first, shapes.batch, shapes.asked, estimator.library, said, context=context)


def was_measured(record: KernelConstants, kernels_are_known: bool, machine: Machine) -> bool:
    """Whether steps rest on runs: by their kernels, or as whole steps in their format on a chip of this generation."""
    here = set(record.stand_in) <= FOUR_BITS and distance(chip(record.chip), machine) == 0
    return kernels_are_known or here


def in_framework(decode: Bound, record: KernelConstants, copies: int) -> Bound:
    """A decode step with what to expect of it in a framework, whose graph runs kernels faster than they run alone."""
    found = decode.expectation
    shapes = {
        "batch": decode.sizes["batch"] / copies, "decode": found.working_time, "mixed": 0.0, "kernels": found.runs
    }  # fmt: skip
    step = step_estimate(record, shapes, max(float(decode.lower), found.runs * (found.host or 0.0)))
    whole = replace(
        found, value=step.value, low=step.low, high=step.high, framework=step.basis, outside=step.extrapolated,
        framework_errors=record.error, stand_in=record.stand_in, step=step.parts, floor=step.floor,
    )  # fmt: skip
    ours = decode.estimate is None or decode.estimate == found.value
    return replace(decode, estimate=step.value if ours else decode.estimate, expectation=whole)


def expect_training(estimator: Estimator, floor: Any) -> StepEstimate | None:
    """What to expect of a training step of so many seconds at best: that times the factor of published steps."""
    record = next(iter(estimator.records_of("training_step")), None)
    if record is None or not isinstance(floor, int | float):
        return None
    return step_estimate(record, {"floor": float(floor)}, floor)


def refuse_unmeasured(model: Model) -> None:
    """Refuse ways of serving that no constants are of."""
    if model.reads_host or model.adapters is not None:
        what = "what steps take that read the host's memory" if model.reads_host else "what adapters take"
        raise InputError(f"{what} was not measured", hint=f"leave {spelled('estimate')} out: the floor holds")


def step_times(record: KernelConstants, shapes: Mapping[str, Any], part: str | None = None) -> Any:
    """Seconds of steps of these shapes by a framework's constants, or of one part of them."""
    parts = KERNELS[record.kernel].parts(shapes, ChipFigures(1, 1, 1, 1), record.values, record.policy)
    return parts.time if part is None else parts.seconds[part]


def step_estimate(record: KernelConstants, shapes: Mapping[str, float], floor: Any) -> StepEstimate:
    """A step of these shapes by a framework's constants, never below its floor.

    A step of another number of kernels is of another model than those that were measured: its interval is as wide as
    models that were left out had to have it. So is that of a format which another one stands for.
    """
    model = KERNELS[record.kernel]
    parts = model.parts(shapes, ChipFigures(1, 1, 1, 1), record.values, record.policy)
    outside, sizes = record.outside(shapes), {name: size for name, size in shapes.items() if name != "kernels"}
    low, high = widened(record.kernel, record.octaves_outside(sizes), *record.limits(parts.time))
    others = [OTHER_MODEL] * ("kernels" in outside) + [OTHER_FORMAT] * bool(record.stand_in)
    for seen in filter(None, (transfer(record.kernel, other) for other in others)):
        low, high = min(low, parts.time * seen.interval[0]), max(high, parts.time * seen.interval[1])
    value = max(float(parts.time), float(floor))
    low, high = (max(value * float(end / parts.time), float(floor)) for end in (low, high))
    plain = {name: float(seconds) for name, seconds in parts.seconds.items()}
    return StepEstimate(value, low, high, with_floor(plain, value), record, outside, float(floor))


def _said(shapes: ServedShapes, token: StepEstimate | None, counts_prefills: bool) -> tuple[Assumption, ...]:
    said = []
    if shapes.batch < shapes.asked:
        said.append(f"served: {shapes.batch:g} of {shapes.asked:g} sequences have room at once, the others wait")
    if token is not None and not counts_prefills:
        options = f"{spelled('prompt')} and {spelled('output')}"
        said.append(f"served: no prefills between steps; {options} say how many there are")
    if token is not None and token.source.transferred_from:
        said.append(f"served: steps by constants of {token.basis}, {token.source.transferred_from}")
    if token is not None and token.extrapolated:
        said.append(f"served: measured at other {in_words(token.extrapolated)}, so the interval is wider")
    return tuple(Assumption("estimate", text) for text in said)


@dataclass(frozen=True, slots=True, eq=False)
class WholeAnswersExpectation:
    """What to expect of ``sequences`` answers at once: their prefill, then ``steps`` decode steps, each the mean one.

    The ends of the interval are sums of the ends of both, as if all steps err in the same way: it is no narrower than
    that of steps that err each in its own way.
    """

    sequences: int
    steps: int
    prefill: Expectation
    step: Expectation

    def __repr__(self) -> str:
        return f"<WholeAnswersExpectation: {self.in_words()}>"

    @property
    def parts(self) -> tuple[Expectation, Expectation]:
        """What to expect of the prefill, and of the mean step."""
        return self.prefill, self.step

    def _sum(self, end: str) -> float:
        return float(getattr(self.prefill, end) + self.steps * getattr(self.step, end))

    @property
    def value(self) -> float:
        """Seconds from the prompts to the last token."""
        return self._sum("value")

    @property
    def low(self) -> float:
        """The lower end of the interval of 80%."""
        return self._sum("low")

    @property
    def high(self) -> float:
        """The upper end of it."""
        return self._sum("high")

    @property
    def holds(self) -> str:
        """What the interval of its steps holds: 80%, or how many runs where it held far fewer."""
        return self.step.holds

    @property
    def coverage(self) -> float | None:
        """The share of runs that it holds; None in a format that no run was measured in."""
        return self.step.coverage

    @property
    def tokens_per_second(self) -> float:
        """New tokens a second of all sequences, prefill included."""
        return self.sequences * (self.steps + 1) / self.value

    def in_words(self) -> str:
        """When all is done, with its interval, and how fast that is."""
        ends = " to ".join(format_quantity(end, "s") for end in (self.low, self.high))
        speed = f"{format_number(self.tokens_per_second)} tokens/s"
        return f"expect {format_quantity(self.value, 's')} ({ends}, {self.holds}), {speed}"

    def lines(self) -> list[str]:
        """The parts of the time, whose constants they are by, and how their intervals are added."""
        first, each = (f"{format_quantity(float(part.value), 's')} ({part.constants})" for part in self.parts)
        steps = f", then {self.steps:,} steps of {each} on average" if self.steps else ""
        surer = f"{either('roofline calibrate', 'roofline.calibrate')} makes it surer by runs of your own"
        return [
            f"expect the first token{'s' if self.sequences > 1 else ''} after {first}{steps}",
            f"the interval adds up those of all steps, as if all err in the same way; {surer}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """In SI units."""
        first, step = (
            {"time": float(part.value), "low": float(part.low), "high": float(part.high), "basis": part.constants}
            for part in self.parts
        )
        whole = {"total": {"time": self.value, **attributes(self, "low", "high")}, "time_to_first_token": first}
        return {**whole, "mean_step": step, **attributes(self, "tokens_per_second")}


def with_expectation(serving: Serving, estimator: Estimator, output: int | None) -> Serving:
    """The answer with what to expect of its phases, whose expectations it has, of its served steps, and of a whole."""
    served = expect_served(estimator, serving, output)
    record = None if served is None or served.time_per_token is None else served.time_per_token.source
    copies = serving.ways.data

    def framed(decode: Bound) -> Bound:
        return decode if record is None else in_framework(decode, record, copies)

    if serving.decode is not None:
        serving = replace(serving, decode=framed(serving.decode))
    if served is not None and served.time_per_token is not None and serving.decode is not None:
        served = replace(served, told=serving.decode.estimate == served.time_per_token.value)
    return further_expected(replace(serving, expectation=served), estimator, framed)


def further_expected(
    serving: Serving, estimator: Estimator, framed: Callable[[Bound], Bound] = lambda decode: decode
) -> Serving:
    """The answer with what to expect of what was worked out beside its steps, whose expectations it has."""
    told: tuple[FurtherAnswer, ...] = ()
    for each in serving.worked_out:
        so_far = replace(serving, worked_out=told)
        whole = each.key == "generation"
        told += (_whole_answers(each, so_far, estimator, framed) if whole else each.expected(so_far),)
    return replace(serving, worked_out=told)


def _whole_answers(
    each: FurtherAnswer, serving: Serving, estimator: Estimator, framed: Callable[[Bound], Bound]
) -> FurtherAnswer:
    """Whole answers, with what to expect of them where constants of both their steps are known.

    The mean step has half of its answer behind it, as times grow evenly with the context.
    """
    half = max(each.answer.output - 2, 0) // 2
    context = _read_before(serving.prefill) + half
    mean = step_bound(serving.model, "decode", **{**serving.asked_of("decode"), "context": context})
    parts = (serving.prefill.expectation, framed(estimator.estimated(mean)).expectation)
    if not all(part.is_known for part in parts):
        return replace(each, lead=f"{each.lead}; what to expect of all steps is not known, as said below")
    whole = replace(each.answer, expectation=WholeAnswersExpectation(serving.batch, each.answer.output - 1, *parts))
    return replace(each, answer=whole, sections=whole.details, lead=whole.said)


#: Names of a column.
NAMES = {
    "batch": ("batch", "concurrency", "max_concurrency"),
    "prompt": ("prompt", "isl", "input_len", "input_length", "random_input_len"),
    "output": ("output", "osl", "output_len", "output_length", "random_output_len"),
    "context": ("context", "context_length", "context_len", "kv_len", "seq_len"),
}
#: Sizes of a served run and of a step by itself, and words of their times: a step's may be a unit alone.
FORMS = {
    "tpot_ms": (("batch", "prompt", "output"), ("tpot", "itl")),
    "ms": (("batch", "context"), ("", "step", "tpot")),
}
#: What the fit takes of each.
HOLDS = {
    "tpot_ms": "the time between tokens of a run holds prefills of other requests, (batch − 1)/output of them a step",
    "ms": "the time of a step at a context holds no prefill",
}
#: A time over so many bounds, and over so many seconds, is in another unit.
SLOW, SLOW_SECONDS = 50, 0.1
#: Fewest runs that constants are fitted to, and most sequences of a copy at which nothing waits before its prefill.
LEAST_RUNS, UNLOADED = 3, 4
#: A row of a served run, for instance.
A_SERVED_RUN = (
    '[{"batch": 16, "prompt": 1024, "output": 1024, "tpot_ms": 9.4, "ttft_ms": 71}] of runs, [{"batch": 16, "context": '
    '2048, "ms": 8.9}] of steps alone'
)
COLUMNS = "batch, prompt, output and tpot_ms of runs, or batch, context and ms of steps without prefills"

#: Shapes of a step, seconds, where the run stands.
Run = tuple[Mapping[str, float], float, str]


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
    9.4}``, of steps without prefills ``{"batch": 16, "context": 2048, "ms": 8.9}``. ``library`` names what
    ran, unless rows say so. ``start`` names the library whose constants are the prior.
    With ``model``, ``tensor``, ``data``, ``expert``, ``weights``, ``activations`` and ``kv`` say how it is served.
    Without ``runs`` the answer is a table of products to measure first.
    """
    served = {
        "tensor": tensor, "data": data, "expert": expert, "weights": weights, "activations": activations, "kv": kv
    }  # fmt: skip
    given = {name: value for name, value in served.items() if value is not None}
    if model is None and given:
        hint = f"name it with {spelled('model')}"
        raise InputError(f"{spelled(next(iter(given)))} is of a model that is served", hint=hint)
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
    estimator, machine = Estimator(library), chip(on)
    rejected: Rejected = defaultdict(list)
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    first, forms, rows = None, set(), list(rows_of(runs, A_SERVED_RUN))
    if isinstance(runs, str | Path) and rows and (missing := _form(rows[0][1])[1]):
        raise no_columns(str(runs), missing, rows[0][1], [each for names in NAMES.values() for each in names], COLUMNS)
    for where, row in rows:
        try:
            read = _read(row, machine, model)
        except InputError as wrong:
            first = first or wrong.worded(f"{where}: ")
            rejected[wrong.message].append(place(where))
            continue
        forms.add("ms" if read.output is None else "tpot_ms")
        sizes: dict[str, Any] = {"batch": read.batch, "prompt": read.prompt, "context": read.context}
        asked = serve(model, on=on, **{**options, **read.ways}, **sizes)
        shapes = served_shapes(estimator, asked, read.output)
        if shapes is None or asked.decode is None:
            raise InputError(f"{where}: no step of {model} is modelled", hint="tensor, data and expert ways are")
        taken: dict[str, tuple[float | None, dict[str, float], float]]
        taken = {"served_step": (read.token, shapes.of_step(), shapes.floor)}
        if shapes.batch <= UNLOADED and shapes.first is not None:
            taken["first_token"] = (read.first, dict(shapes.first), shapes.first_floor)
        for kernel, (seconds, given, floor) in taken.items():
            if seconds is not None and seconds < floor:
                why = f"{kernel.replace('_', ' ')} faster than its bound: another layout, format or unit"
                rejected[why].append(place(where))
            elif seconds is not None and seconds > SLOW * floor + SLOW_SECONDS:
                rejected[f"{kernel.replace('_', ' ')} over {SLOW} times its bound: another unit"].append(place(where))
            elif seconds is not None:
                groups[kernel, shapes.dtype, shapes.path].append((given, seconds, place(where)))
    if first is not None and not groups:
        raise first
    fitted: list[Calibrated] = []
    starts = []
    cache = f"{kernel_format(options.get('kv') or 'bf16')} cache"
    for (kernel, dtype, kind_of_model), members in groups.items():
        record = estimator.step_record(kernel, dtype, kind_of_model, machine)
        if record is None or len(members) < LEAST_RUNS:
            why = f"no constants to start from, or fewer than {LEAST_RUNS}: {kernel.replace('_', ' ')}"
            rejected[why] += [where for *_, where in members]
            continue
        policy = cache if cache in KERNELS[kernel].policies else ""
        ours = replace(record, dtype=dtype, stand_in=(), other_model={}, policy=policy)
        places = [where for *_, where in members]
        fitted.append(refitted([(ours, 1.0)], _rows(members), machine.key, library, places))
        starts.append(f"{record.chip} {record.library} ({record.transferred_from or 'this chip'})")
    if not fitted:
        why = "; ".join(left_out(rejected, "run")) or "the file has no rows"
        whose = runs if isinstance(runs, str | Path) else "runs"
        raise InputError(f"nothing in {whose} can be fitted: {why}", hint=COLUMNS)
    said = tuple(Assumption("estimate", HOLDS[one]) for one in FORMS if one in forms)
    return Calibration(machine.key, library, tuple(fitted), rejected, tuple(starts), said)


def _rows(runs: list[Run]) -> Rows:
    shapes = {name: np.array([given[name] for given, *_ in runs]) for name in runs[0][0]}
    return Rows(shapes, np.array([seconds for _, seconds, _ in runs]), ChipFigures(1, 1, 1, 1))


class ServedRun(NamedTuple):
    """A served run: sequences at once, tokens, ways that differ from run to run, seconds a token and to the first.

    A step by itself has a context alone.
    """

    batch: int
    context: int
    prompt: int | None
    output: int | None
    ways: Mapping[str, int]
    token: float
    first: float | None


def _read(row: Mapping[str, str], machine: Machine, model: str) -> ServedRun:
    """One row; of another chip or model it is none."""
    if other := other_chip(row.get("chip", ""), machine):
        raise InputError(f"measured on another chip, {other}", hint=f"rows of {machine.key}")
    if other := _other_model(row.get("model", ""), model):
        raise InputError(f"measured with another model, {other}", hint=f"rows of {model}")
    row = {name: value for name, value in row.items() if value}
    form, missing = _form(row)
    if missing:
        raise InputError(f"the row lacks {in_a_row(missing)}", hint=COLUMNS)
    names, times = FORMS[form]
    columns = {name: next(column for column in NAMES[name] if column in row) for name in names}
    sizes = {name: int(row_size(row, column)) for name, column in columns.items()}
    prompt, output = sizes.get("prompt"), sizes.get("output")
    if output == 1:
        raise InputError("an answer of one token has no time between tokens", hint="an output of 2 or more")
    context = sizes["context"] if prompt is None or output is None else prompt + output // 2
    ways = {name: int(row_size(row, name)) for name in ("tensor", "data", "expert") if row.get(name)}
    token = _seconds(row, _times(row, times))
    if token is None:
        raise InputError("no time of the step" if output is None else "no time between tokens", hint=COLUMNS)
    first = None if output is None else _seconds(row, _times(row, ("ttft",)))
    return ServedRun(sizes["batch"], context, prompt, output, ways, token, first)


def _form(row: Mapping[str, str]) -> tuple[str, list[str]]:
    """Of which form a row is, and the columns of it that it lacks: of two forms the one that lacks fewer."""
    lacks = {}
    for form, (names, times) in FORMS.items():
        lacks[form] = [name for name in names if row.keys().isdisjoint(NAMES[name])]
        if not _times(row, times):
            bare = next((each for each in row if any(word in each for word in filter(None, times))), "")
            lacks[form].append(f"{form} ({bare} has no unit)" if bare else form)
    return min(lacks.items(), key=lambda one: len(one[1]))


@lru_cache(maxsize=64)
def _other_model(name: str, model: str) -> str:
    """The model that a row names, where it is a known one and not the one asked for."""
    try:
        found = load(name).name if name else model
    except RooflineError:
        return ""
    return "" if found in (model, load(model).name) else found


def _times(row: Mapping[str, str], names: Sequence[str]) -> dict[str, float]:
    """Columns of these times with the seconds of their units, whatever the statistic: ``tpot_ms``, ``mean TPOT (s)``.

    Of the name of nothing are columns of any time, as ``ms`` and ``latency_us``.
    """
    pairs = ((each, name) for name in names for each in row if name in each)
    units = ((each, time_unit(each.replace(name, "time") if name else each)) for each, name in pairs)
    return {column: unit for column, unit in units if unit}


def _seconds(row: Mapping[str, str], times: Mapping[str, float]) -> float | None:
    """Seconds of the first of these columns that is filled in."""
    return next((row_number(row, column) * unit for column, unit in times.items() if row[column]), None)
