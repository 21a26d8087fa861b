"""A whole answer: the prompt's prefill, then one decode step a token over a context that grows.

>>> found = generation("llama-2-7b", on="h100", batch=8, prompt=1024, output=256)
>>> round(found.time_to_first_token * 1e3, 1), round(found.mean_time_per_token * 1e3, 3), round(found.total, 3)
(109.5, 5.383, 1.482)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.bounds.footprint import Footprint
from roofline.bounds.shown import Shown
from roofline.errors import InputError, SizeError
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.serving import serve_bound
from roofline.models.step import PREFILL_ONLY
from roofline.sizes import check

#: Forms of a bound that a time may be taken from.
FORMS = ("lower", "op_by_op", "upper")


@dataclass(frozen=True, slots=True, eq=False)
class Generation(Shown):
    """``batch`` answers of ``output`` tokens to prompts of ``prompt`` tokens.

    The prefill gives the first token; each of the ``output`` − 1 others takes a decode step, whose times are summed
    one by one. ``memory`` is what the last step needs. Times are seconds, of all sequences together.
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

    def __repr__(self) -> str:
        from roofline.quantity import format_amount as show

        done, first = show(self.total, "s"), show(self.time_to_first_token, "s")
        return f"<Generation: {self.batch} x {self.output} tokens in {done}, the first after {first}>"

    def __rich__(self) -> Any:
        from roofline.models.serving_show import generation_lines, section

        return section(f"answers of {self.output:,} tokens to prompts of {self.prompt:,}", generation_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        return {
            "batch": self.batch,
            "prompt": self.prompt,
            "output": self.output,
            "form": self.form,
            "time_to_first_token": self.time_to_first_token,
            "mean_time_per_token": self.mean_time_per_token,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "total": self.total,
            "tokens_per_second": self.tokens_per_second,
            "answers_per_second": self.answers_per_second,
            "memory": self.memory.to_dict(),
        }


def generation(
    model: Model | str, *, prompt: int, output: int, batch: int = 1, form: str = "lower", **options: Any
) -> Generation:
    """Time ``output`` tokens after a ``prompt``, for ``batch`` sequences at once.

    ``form`` says which of a step's bounds adds up: ``lower`` (all overlaps), ``op_by_op`` or ``upper``; a stated
    ``overlap`` or ``overhead`` makes it the ``estimate``. ``options`` are those of :func:`roofline.models.serve_bound`.
    """
    described = load(model)
    sizes = {"batch": batch, "prompt": prompt, "output": output}
    batch, prompt, output = (single(name, value) for name, value in sizes.items())
    form = form_of(form, options)
    before = options.get("past", 0)
    longest = before + prompt + output - 1
    if described.context is not None and longest > described.context:
        raise SizeError(
            f"{described.name} takes sequences of up to {described.context} tokens, not {longest}",
            hint="ask for a shorter prompt or output",
        )
    later = {name: value for name, value in options.items() if name not in PREFILL_ONLY}
    first = serve_bound(described, "prefill", batch=batch, prompt=prompt, **options)
    start = timed(first, form)
    needed = first.footprint
    times = [0.0]
    if output > 1:
        import numpy as np

        contexts = np.arange(before + prompt, before + prompt + output - 1, dtype=np.float64)
        steps = timed(serve_bound(described, "decode", batch=batch, context=contexts, **later), form)
        times = np.broadcast_to(steps, contexts.shape).tolist()
        needed = serve_bound(described, "decode", batch=batch, context=longest - 1, **later).footprint
    if needed is None:
        raise InputError(f"what {described.name} needs is not known")
    return Generation(batch, prompt, output, form, start, times[0], times[-1], sum(times), needed)


def timed(bound: Any, form: str) -> Any:
    """A bound's time in one of its forms; its estimate, where an overlap or overhead is stated."""
    return getattr(bound, form) if bound.estimate is None else bound.estimate


def form_of(form: str, options: Mapping[str, Any]) -> str:
    """The form that times are taken in: ``estimate`` where the options of a step state an overlap or overhead.

    >>> form_of("upper", {}), form_of("lower", {"overhead": "5us"})
    ('upper', 'estimate')
    """
    if form not in FORMS:
        raise InputError(f"no form {form!r} of a bound", hint=f"one of {', '.join(FORMS)}")
    stated = next((name for name in ("overlap", "overhead") if options.get(name) is not None), None)
    if stated is not None and form != "lower":
        raise InputError(f"form {form} and a stated {stated} are two answers", hint="leave one of them out")
    return form if stated is None else "estimate"


def single(name: str, value: Any) -> int:
    """A size that has to be one number."""
    found = check(name, value)
    if not isinstance(found, int):
        raise SizeError(f"size {name} has several values", hint="give one: this answer is about one configuration")
    return found
