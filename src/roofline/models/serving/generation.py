"""A whole answer: the prompt's prefill, in one piece or in chunks, then one decode step a token.

>>> found = generation("llama-2-7b", on="h100", batch=8, prompt=1024, output=256)
>>> round(found.time_to_first_token * 1e3, 1), round(found.mean_time_per_token * 1e3, 3), round(found.total, 3)
(109.5, 5.383, 1.482)

A prompt is prefilled in chunks so that other sequences go on decoding beside it. Each chunk loads the weights again
and reads what the earlier ones cached:

>>> whole = chunked("llama-3-8b", on="h100", prompt=8192, chunk=8192)
>>> parts = chunked("llama-3-8b", on="h100", prompt=8192, chunk=512, batch=64, context=4096)
>>> parts.steps, round(whole.time_to_first_token * 1e3), round(parts.time_to_first_token * 1e3)
(16, 133, 238)
>>> [round(time * 1e3, 1) for time in (parts.longest_step, parts.alone)]
[15.1, 14.7]

Source: A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from roofline.answers import Answer, attributes
from roofline.bounds.bound import Bound
from roofline.bounds.memory import Footprint, fullest
from roofline.errors import InputError, SizeError, check_one_of
from roofline.frozen import dataclass
from roofline.lazy import np
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.description import Model
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.parallelism.layout import check_one_layout
from roofline.models.serving.bound import serve_bound, step_bound
from roofline.models.serving.step import asked_model
from roofline.quantity import format_amount, format_number
from roofline.sections import Section, Sentences, paragraph
from roofline.signatures import spelled, takes
from roofline.sizes import Size, check, is_zero

#: Steps that one answer times one by one: no published model holds more tokens than ten million, five to a step.
MOST_STEPS = 2_000_000

#: Forms of a bound that a time may be taken from.
FORMS = ("lower", "op_by_op", "upper")

#: Which bound of a step a time is, in words.
EXPECTED = "expected"
FORM_TEXT = {
    "lower": "if all overlaps",
    "op_by_op": "if only each operation overlaps within itself",
    "upper": "if nothing overlaps",
    "estimate": "by the stated overlap and overhead",
    EXPECTED: "as expected",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Generation(Answer):
    """``batch`` answers of ``output`` tokens to prompts of ``prompt`` tokens.

    The prefill gives the first token; each of the ``output`` − 1 others takes a decode step, whose times are summed
    one by one. ``memory`` is what the last step needs. Times are seconds, of all sequences together. ``expectation`` is
    what to expect of them, where constants were asked for.
    """

    batch: int
    prompt: int
    output: int
    form: str
    time_to_first_token: float
    first_step: float
    last_step: float
    decoding: float
    memory: Footprint
    expectation: Any = None

    @property
    def total(self) -> float:
        """Seconds from the prompts to the last token."""
        return self.time_to_first_token + self.decoding

    @property
    def mean_time_per_token(self) -> float | None:
        """Mean seconds between two tokens of a sequence; None where there is one alone."""
        return self.decoding / (self.output - 1) if self.output > 1 else None

    @property
    def tokens_per_second(self) -> float:
        """New tokens a second of all sequences, prefill included."""
        return self.batch * self.output / self.total

    @property
    def answers_per_second(self) -> float:
        """Answers a second, one batch after the other."""
        return self.batch / self.total

    @property
    def evictions_per_step(self) -> float | None:
        """Sequences that end in each decode step at steady state, where new ones take the room of those that end."""
        return self.batch / (self.output - 1) if self.output > 1 else None

    @property
    def evictions_per_second(self) -> float | None:
        """Sequences that end in a second of decoding at steady state."""
        return None if self.output < 2 else self.batch / self.decoding

    def one_line(self) -> str:
        """When it is done, and when the first token is there."""
        done, first = format_amount(self.total, "s"), format_amount(self.time_to_first_token, "s")
        return f"Generation: {self.batch} x {self.output} tokens in {done}, the first after {first}"

    @property
    def subject(self) -> str:
        """Which answers they are."""
        tokens = "1 token" if self.output == 1 else f"{self.output:,} tokens"
        return f"answers of {tokens} to prompts of {self.prompt:,}"

    @property
    def said(self) -> str:
        """When all is done and how fast that is: what to expect where it was asked for, and the bound."""
        best = "" if self.form == "estimate" else "at best "
        rate = f"{format_number(self.tokens_per_second)} tokens/s"
        told = f"{best}{format_amount(self.total, 's')} {FORM_TEXT[self.form]}, {rate}"
        told = told if self.expectation is None else f"{self.expectation.in_words()}; {told}"
        misfit = [f"DOES NOT FIT at the end: {self.memory.needs_in_words()}"] if self.memory.fits is False else []
        return " · ".join((*misfit, f"{self.subject}: {told}"))

    def sections(self) -> tuple[Section, ...]:
        """When it is done, the first token and the steps after it, and the memory at the end."""
        return Sentences([self.said]), *self.details()

    def details(self) -> tuple[Section, ...]:
        """What :attr:`said` leaves out: the first token, the steps after it, the memory at the end."""
        times = (self.time_to_first_token, self.first_step, self.last_step)
        first, *steps = (format_amount(time, "s") for time in times)
        prompts = "token" if self.batch == 1 else f"tokens of {self.batch:,} prompts, read together,"
        line = f"{'bound: ' if self.expectation else ''}first {prompts} after {first}"
        if (mean := self.mean_time_per_token) is not None:
            each = " to ".join(dict.fromkeys(steps))
            average = f", {format_amount(mean, 's')} on average" if each != format_amount(mean, "s") else ""
            line += f", then {self.output - 1:,} steps of {each}{average}"
        total, kept = format_amount(self.memory.total, "B"), format_amount(self.memory.parts["kv"], "B")
        rate = f"{format_number(self.answers_per_second)} answers/s"
        ends = f"{rate} with {self.batch:,} at once"
        if self.expectation is not None:
            expected = format_number(self.batch / self.expectation.value)
            ends = f"with {self.batch:,} at once expect {expected} answers/s, at best {rate}"
        lines = [line, ends, f"memory at the end {total}, of it keys and values {kept}"]
        return (Sentences([*(self.expectation.lines() if self.expectation else ()), *lines], indent=4),)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        times = ("time_to_first_token", "mean_time_per_token", "first_step", "last_step", "total")
        rates = ("tokens_per_second", "answers_per_second", "evictions_per_step", "evictions_per_second")
        found = attributes(self, "batch", "prompt", "output", "form", *times, *rates, "memory")
        return found if self.expectation is None else {**found, "expectation": self.expectation.to_dict()}


@takes(serve_bound, but=("chunk", "prompts", "last", "tokens", "context"))
def generation(
    model: Model | str, *, prompt: int, output: int, batch: Size = 1, form: str = "lower", **options: Any
) -> Generation:
    """Time ``output`` tokens after a ``prompt``, for ``batch`` sequences at once.

    ``form`` says which of a step's bounds adds up: ``lower`` (all overlaps), ``op_by_op`` or ``upper``; a stated
    ``overlap`` or ``overhead`` makes it the ``estimate``. ``options`` are those of :func:`roofline.models.serve_bound`.
    """
    described = asked_model(model, options)
    check_one_layout(options)
    sizes = {"batch": batch, "prompt": prompt, "output": output}
    batch, prompt, output = (single_size(name, value) for name, value in sizes.items())
    check_steps(output, "an output", "tokens")
    form = check_form(form, options)
    before = single_size("past", options.get("past", 0), zero=True)
    later = {name: value for name, value in options.items() if name not in PREFILL_ONLY}
    first = step_bound(described, "prefill", batch=batch, prompt=prompt, **options)
    start = time_in_form(first, form)
    needed = first.footprint
    times = [0.0]
    if output > 1:
        times = decode_times(described, before + prompt, output, form, batch=batch, **later)[0].tolist()
        needed = step_bound(described, "decode", batch=batch, context=before + prompt + output - 2, **later).footprint
    assert needed is not None
    return Generation(batch, prompt, output, form, start, times[0], times[-1], sum(times), needed)


def decode_times(model: Model, before: int, output: int, form: str, **options: Any) -> tuple[Any, Bound]:
    """Seconds of each step of answers of ``output`` tokens after ``before`` tokens, and the bound of all of them."""
    contexts = np.arange(before, before + output - 1, dtype=np.float64)
    found = step_bound(model, "decode", context=contexts, **options)
    return np.broadcast_to(time_in_form(found, form), contexts.shape), found


def time_in_form(bound: Any, form: str) -> Any:
    """A bound's time in one of its forms; its estimate, where an overlap or overhead is stated."""
    return getattr(bound, form) if bound.estimate is None else bound.estimate


def check_form(form: str, options: Mapping[str, Any]) -> str:
    """The form that times are taken in: ``estimate`` where the options of a step state an overlap or overhead.

    >>> check_form("upper", {}), check_form("lower", {"overhead": "5us"})
    ('upper', 'estimate')
    """
    check_one_of(f"no form {form!r} of a bound", form, FORMS, "forms")
    stated = next((name for name in ("overlap", "overhead") if options.get(name) is not None), None)
    if stated is not None and form != "lower":
        raise InputError(f"form {form} and a stated {stated} are two answers", hint="leave one of them out")
    return form if stated is None else "estimate"


def single_size(name: str, value: Any, *, zero: bool = False) -> int:
    """A size that has to be one number; with ``zero`` it may be 0."""
    found = check(name, value, least=0 if zero else 1)
    if not isinstance(found, int):
        raise SizeError(f"size {name} has several values", hint="give one: this answer is about one configuration")
    return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChunkedPrefill(Answer):
    """The steps of one prompt's prefill, ``chunk`` tokens each, beside ``batch`` sequences that decode (0: none).

    ``times`` are the steps' seconds in order; ``whole`` is the prefill in one piece, ``alone`` a decode step without a
    chunk (None where nothing decodes). ``moved`` are the bytes of main memory that a chip moves in all steps,
    ``whole_moved`` those of one piece; ``times_at_worst`` is how many times as long as one piece all steps take where
    nothing overlaps. ``memory`` is what a chip holds in the fullest step: the last, or before a short last chunk.
    """

    prompt: int
    chunk: int
    batch: int
    form: str
    times: tuple[float, ...]
    binds: tuple[str, ...]
    whole: float
    alone: float | None
    moved: float
    whole_moved: float
    times_at_worst: float
    memory: Footprint | None = None

    @property
    def steps(self) -> int:
        """Steps until the prompt gives its first token."""
        return len(self.times)

    @property
    def time_to_first_token(self) -> float:
        """Seconds until the prompt gives its first token, nothing waiting before it."""
        return sum(self.times)

    @property
    def longest_step(self) -> float:
        """The longest wait of the sequences that decode, in seconds."""
        return max(self.times)

    @property
    def mean_step(self) -> float:
        """Seconds a token of the sequences that decode, while the prompt is prefilled."""
        return self.time_to_first_token / self.steps

    def one_line(self) -> str:
        """When the first token is there, and the longest step."""
        first, longest = format_amount(self.time_to_first_token, "s"), format_amount(self.longest_step, "s")
        when = f"first token after {first}, longest step {longest}"
        return f"ChunkedPrefill: {self.prompt} tokens by {self.chunk}: {when}"

    def sections(self) -> tuple[Section, ...]:
        """The prefill in chunks against one in a piece, and what the sequences beside it wait."""
        return paragraph(f"a prompt of {self.prompt:,} in chunks", [self.said, *self._details()])

    def details(self) -> tuple[Section, ...]:
        """What :attr:`said` leaves out."""
        return paragraph(f"a prompt of {self.prompt:,} in chunks", self._details())

    @property
    def said(self) -> str:
        """When the first token is there, and what it costs to take the prompt in chunks."""
        first = format_amount(self.time_to_first_token, "s")
        beside = f" beside {self.batch:,} that decode" if self.batch else ""
        ratio = f"{self.time_to_first_token / self.whole:.4g}x a prefill in one piece {FORM_TEXT[self.form]}"
        if self.form == "lower":
            ratio += f", {self.times_at_worst:.4g}x if nothing does"
        if not self.batch and self.moved > self.whole_moved:
            more = format_amount(self.moved - self.whole_moved, "B")
            ratio += f"; a chip moves {more} more: weights and earlier keys again for each"
        if self.batch and self.memory is not None:
            fits = {True: ", which fits", False: ", which DOES NOT FIT", None: ""}[self.memory.fits]
            ratio += f"; {format_amount(self.memory.total, 'B')} on a chip{fits}"
        many = "1 chunk" if self.steps == 1 else f"{self.steps:,} chunks"
        return f"first token after {first} in {many} of {self.chunk:,}{beside}: {ratio}"

    def _details(self) -> list[str]:
        """What the sequences beside it wait, and what binds the steps."""
        lines = []
        if self.alone is not None:
            mean, most = format_amount(self.mean_step, "s"), format_amount(self.longest_step, "s")
            alone, whole = format_amount(self.alone, "s"), format_amount(self.whole + self.alone, "s")
            lines.append(
                f"a token beside it every {mean} on average, {most} at most; {alone} with no chunk, "
                f"{whole} with the prompt whole"
            )
        binds = Counter(self.binds).items()
        lines.append("bound by " + ", ".join(f"{name} in {count} of {self.steps}" for name, count in binds))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        return {
            **attributes(self, "prompt", "chunk", "batch", "form", "steps", "time_to_first_token"),
            "whole_prefill": self.whole,
            **attributes(self, "longest_step", "mean_step", "memory"),
            "decode_alone": self.alone,
            "bytes": self.moved,
            "whole_bytes": self.whole_moved,
            **attributes(self, "times_at_worst", "times"),
            "bound_by": list(self.binds),
        }


@takes(serve_bound, but=("chunk", "prompts", "last", "tokens"))
def chunked(
    model: Model | str,
    *,
    prompt: int,
    chunk: int,
    batch: int = 0,
    context: int | None = None,
    form: str = "lower",
    **options: Any,
) -> ChunkedPrefill:
    """Prefill a ``prompt`` in chunks of ``chunk`` tokens, the last one shorter where they do not divide it.

    ``batch`` sequences with ``context`` tokens in the cache decode in each of the steps. ``form`` and ``options`` are
    those of :func:`roofline.models.generation`.
    """
    described = asked_model(model, options)
    refuse_encoder(described, "a prompt in chunks")
    if not described.causal:
        hint = f"leave {spelled('chunk')} out"
        raise InputError(f"{described.name} reads a text whole: its tokens see later ones", hint=hint)
    check_one_layout(options)
    prompt, chunk = single_size("prompt", prompt), single_size("chunk", chunk)
    form = check_form(form, options)
    batch = single_size("batch", batch, zero=True)
    context = None if context is None else single_size("context", context)
    if batch and context is None:
        raise InputError("sequences that decode need a context", hint=f"for instance {spelled('context', 4096)}")
    if context is not None and not batch:
        raise InputError(f"{spelled('context')} is of sequences that decode", hint="add batch=8, or leave it out")
    if options.pop("logits", "last") != "last":
        raise InputError("a chunked prefill gives the last token alone", hint="leave the logits out")
    if not is_zero(options.pop("images", 0)):
        raise InputError("images in a chunked prefill are not modelled", hint="leave the images or the chunks out")
    options.pop("image_size", None)
    before, chunk = single_size("past", options.pop("past", 0), zero=True), min(chunk, prompt)
    earlier = check_steps(-(-prompt // chunk), "a prompt in chunks", "steps") - 1

    def step(new: int, past: Any, last: bool) -> Bound:
        """The step of one chunk, or with an array ``past`` those of all chunks of one length."""
        if batch:
            sizes: dict[str, Any] = {"batch": batch, "context": context, "chunk": new, "past": past}
            return step_bound(described, "mixed", last=last, **sizes, **options)
        return step_bound(described, "prefill", prompt=new, past=past, logits="last" if last else "none", **options)

    steps = [(step(prompt - earlier * chunk, before + earlier * chunk, last=True), 1)]
    needed = [steps[0][0].footprint]
    if earlier:
        steps.insert(0, (step(chunk, before + chunk * np.arange(earlier, dtype=np.float64), last=False), earlier))
        needed.append(step(chunk, before + chunk * (earlier - 1), last=False).footprint)
    whole = step_bound(described, "prefill", prompt=prompt, past=before, **options)
    alone = step_bound(described, "decode", batch=batch, context=context, **options) if batch else None

    def each(value: Callable[[Bound], Any]) -> list[Any]:
        """A value of every step in order."""
        return [one for found, count in steps for one in np.broadcast_to(value(found), count).tolist()]

    times, worst = each(lambda found: time_in_form(found, form)), each(lambda found: found.upper)
    return ChunkedPrefill(
        prompt, chunk, batch, form, tuple(map(float, times)), tuple(map(str, each(lambda found: found.bound_by))),
        float(time_in_form(whole, form)), None if alone is None else float(time_in_form(alone, form)),
        float(sum(each(lambda found: found.total_bytes))), float(whole.total_bytes), float(sum(worst) / whole.upper),
        fullest([each for each in needed if each is not None]),
    )  # fmt: skip


def check_steps(count: int, whose: str, unit: str) -> int:
    """The count of steps that are each timed, refused where there are too many."""
    if count > MOST_STEPS:
        hint = "each is timed apart; ask for fewer"
        raise SizeError(f"{whose} of {format_number(count)} {unit}, and at most {MOST_STEPS:,} are timed", hint=hint)
    return count
