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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from roofline.bounds.bound import Bound
from roofline.estimates.constants import KernelConstants, error_told, in_words
from roofline.estimates.estimator import PRODUCT_FORMATS, Estimator
from roofline.estimates.kernel_model import ChipFigures
from roofline.estimates.kernel_registry import KERNELS
from roofline.estimates.steps import sum_in_words, with_floor
from roofline.estimates.transfer import OTHER_FORMAT, OTHER_MODEL, transfer, widened
from roofline.frozen import dataclass, replace
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.serving.answer import Serving
from roofline.models.serving.bound import serve_bound
from roofline.models.training.answer import Training
from roofline.quantity import format_quantity
from roofline.sections import Section, Sentences
from roofline.signatures import spelled
from roofline.statements import Assumption

#: Share of a chip's memory that frameworks fill.
FILLED = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class StepEstimate:
    """Expected seconds of a step in a serving framework: interval of 80%, parts, and the constants behind it."""

    value: float
    low: float
    high: float
    parts: Mapping[str, float]
    source: KernelConstants
    extrapolated: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Always: without constants of a framework there is no step estimate."""
        return True

    @property
    def basis(self) -> str:
        """Whose constants: chip, library, format, and what kind of model."""
        source = self.source
        words = (source.chip, source.library, source.version, source.dtype, source.path)
        return " ".join(word for word in (*words, source.policy and f"with {source.policy}") if word not in ("", "any"))

    def in_words(self, what: str) -> str:
        """The expected time with its interval, whose constants, and their error."""
        ends = " to ".join(format_quantity(end, "s") for end in (self.low, self.high))
        told = error_told(self.source.error.get("mdape"), self.extrapolated, stand_in=self.source.stand_in)
        return f"{what}: expect {format_quantity(self.value, 's')} ({ends}, 80%; constants of {self.basis}{told})"

    def to_dict(self) -> dict[str, Any]:
        """In SI units."""
        return {
            "time": self.value,
            "low": self.low,
            "high": self.high,
            "parts": dict(self.parts),
            "basis": self.basis,
            "extrapolated": list(self.extrapolated),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ServedExpectation:
    """What to expect of a served model: time between tokens under load, and to the first token on idle chips.

    ``batch`` is what a copy of the model decodes at once, of the ``asked`` sequences; the others wait for room.
    """

    time_per_token: StepEstimate | None
    time_to_first_token: StepEstimate | None
    batch: float
    asked: float
    library: str
    assumptions: tuple[Assumption, ...] = ()

    def lines(self) -> list[str]:
        """Whose engine serves, the time between tokens and to the first one, each with its parts; nothing without."""
        lines = []
        requests = f"{self.asked:,.0f} request{'s' if self.asked > 1 else ''}"
        for step, what in (
            (self.time_per_token, f"a token, with {requests} at once"),
            (self.time_to_first_token, "the first token of a request alone"),
        ):
            if step is not None:
                lines += [step.in_words(what), f"  {sum_in_words(step.parts, step.source.stand_in)}"]
        head = f"served by {self.library}, what its engine does between steps included"
        return [head, *lines] if lines else []

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
            "batch": self.batch,
            "assumptions": list(self.assumptions),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ServedShapes:
    """What step constants need of a served model: kernels' seconds, the batch of a copy, the kind of the model."""

    batch: float
    asked: float
    decode: float
    prefill: float | None
    mixed: float
    dtype: str
    path: str
    kernels: float
    floor: float
    first_floor: float

    def of_first_token(self) -> dict[str, float]:
        """Shapes of a prompt on idle chips."""
        return {"prefill": self.prefill or 0.0, "kernels": self.kernels}

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
    prompt = None if serving.prefill is None else serving.prefill.sizes["prompt"]
    context = decode.sizes["context"]
    if output is not None and prompt is not None:
        context = prompt + output // 2
    room = _room(decode, copies) if context == decode.sizes["context"] else None
    asked = serving.batch / copies
    if room is None or room < asked:
        decode = serve_bound(serving.model, "decode", batch=serving.batch, context=context, **options)
        room = _room(decode, copies)
        if room < asked:
            fitting = copies * max(int(room), 1)
            decode = serve_bound(serving.model, "decode", batch=fitting, context=context, **options)
    batch = max(min(asked, float(int(room))), 1.0)
    found = estimator.expect(decode)
    prefill, first_floor = None, 0.0
    if prompt is not None and serving.prefill is not None:
        whole = serving.prefill
        if serving.batch > copies:
            whole = serve_bound(serving.model, "prefill", batch=copies, prompt=prompt, **serving.asked)
        prefill, first_floor = estimator.expect(whole).kernel_time, float(whole.lower)
    mixed = batch / output * prefill if output and prefill is not None else 0.0
    path = "mixture" if any(one.run.kernel == "experts" for one in found.kernels) else "dense"
    floors = float(decode.lower), first_floor
    if estimator.eager:
        host = found.runs * estimator.host_time(decode.machine)
        floors = max(floors[0], host), max(floors[1], host)
    return ServedShapes(batch, asked, found.kernel_time, prefill, mixed, _format(decode), path, found.runs, *floors)


def _room(decode: Bound, copies: int) -> float:
    """Sequences of one copy whose keys and values fit beside the weights."""
    needed = decode.footprint
    if needed is None or needed.capacity is None:
        return float("inf")
    weights = needed.parts["weights"]
    each = (needed.total - weights) * copies / decode.sizes["batch"]
    return float((FILLED * needed.capacity - weights) / each) if each else float("inf")


def _format(decode: Bound) -> str:
    """The format that most bytes of weights are in, by the name that constants have for it."""
    moved: Counter[str] = Counter()
    for part in decode.ops:
        for tensor in part.op.reads:
            if tensor.role == "weight":
                moved[tensor.dtype] += int(tensor.traffic_bytes * part.op.repeat)
    most = moved.most_common(1)[0][0] if moved else "bf16"
    return PRODUCT_FORMATS.get(most, most)


def expect_served(estimator: Estimator, serving: Serving, output: int | None = None) -> ServedExpectation | None:
    """What to expect of a served model, where the framework has constants of steps."""
    shapes = served_shapes(estimator, serving, output)
    if shapes is None or serving.decode is None:
        return None
    machine = serving.decode.machine
    token = first = None
    record = estimator.step_record("served_step", shapes.dtype, shapes.path, machine)
    if record is not None:
        token = step_estimate(record, shapes.of_step(), shapes.floor)
    record = estimator.step_record("first_token", shapes.dtype, shapes.path, machine)
    if record is not None and shapes.prefill is not None:
        first = step_estimate(record, shapes.of_first_token(), shapes.first_floor)
    if token is None and first is None:
        return None
    return ServedExpectation(
        token, first, shapes.batch, shapes.asked, estimator.library, _said(shapes, token, output is not None)
    )


def in_framework(decode: Bound, record: KernelConstants, copies: int) -> Bound:
    """A decode step with what to expect of it in a framework, whose graph runs kernels faster than they run alone."""
    found = decode.expectation
    shapes = {
        "batch": decode.sizes["batch"] / copies,
        "decode": found.kernel_time,
        "mixed": 0.0,
        "kernels": found.runs,
    }
    step = step_estimate(record, shapes, max(float(decode.lower), found.runs * (found.host or 0.0)))
    whole = replace(
        found, value=step.value, low=step.low, high=step.high, framework=step.basis, outside=step.extrapolated,
        error=record.error.get("mdape"), stand_in=record.stand_in, step=step.parts,
    )  # fmt: skip
    ours = decode.estimate is None or decode.estimate == found.value
    estimate = step.value if ours else decode.estimate
    return replace(decode, estimate=estimate, expectation=whole)


def expect_training(estimator: Estimator, found: Training) -> StepEstimate | None:
    """What to expect of a training step: its floor times the factor of published steps."""
    record = next((one for one in estimator.records if one.kernel == "training_step"), None)
    if record is None or not isinstance(found.lower, int | float):
        return None
    return step_estimate(record, {"floor": float(found.lower)}, found.lower)


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
    return StepEstimate(value, low, high, with_floor(plain, value), record, outside)


def _said(shapes: ServedShapes, token: StepEstimate | None, counts_prefills: bool) -> tuple[Assumption, ...]:
    said = []
    if shapes.batch < shapes.asked:
        said.append(f"served: {shapes.batch:g} of {shapes.asked:g} sequences have room at once, the others wait")
    if token is not None and not counts_prefills:
        said.append(
            f"served: no prefills between steps; {spelled('prompt')} and {spelled('output')} say how many there are"
        )
    if token is not None and token.source.transferred_from:
        said.append(f"served: steps by constants of {token.basis}, {token.source.transferred_from}")
    if token is not None and token.extrapolated:
        said.append(f"served: extrapolated, measured at other {in_words(token.extrapolated)}")
    return tuple(Assumption("estimate", text) for text in said)


def with_expectation(serving: Serving, estimator: Estimator, output: int | None) -> Serving:
    """The answer with what to expect of its phases, whose expectations it has, and of its served steps."""
    served = expect_served(estimator, serving, output)
    decode = serving.decode
    if served is not None and served.time_per_token is not None and decode is not None:
        decode = in_framework(decode, served.time_per_token.source, serving.ways.data)
    return replace(serving, decode=decode, expectation=served)
