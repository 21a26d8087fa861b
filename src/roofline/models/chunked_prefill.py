"""A prompt prefilled in chunks, with sequences that go on decoding beside it or with none.

Each chunk loads the weights again and reads what the earlier ones cached:

>>> whole = chunked("llama-3-8b", on="h100", prompt=8192, chunk=8192)
>>> parts = chunked("llama-3-8b", on="h100", prompt=8192, chunk=512, batch=64, context=4096)
>>> parts.steps, round(whole.time_to_first_token * 1e3), round(parts.time_to_first_token * 1e3)
(16, 133, 238)
>>> [round(time * 1e3, 1) for time in (parts.longest_step, parts.alone)]
[15.1, 14.7]

Source: A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from roofline.bounds.shown import Shown
from roofline.errors import InputError
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.generating import form_of, single, timed
from roofline.models.serving import serve_bound
from roofline.sizes import is_zero


@dataclass(frozen=True, slots=True, eq=False)
class Chunked(Shown):
    """The steps of one prompt's prefill, ``chunk`` tokens each, beside ``batch`` sequences that decode (0: none).

    ``times`` are the steps' seconds in order; ``whole`` is the prefill in one piece, ``alone`` a decode step without a
    chunk (None where nothing decodes).
    """

    prompt: int
    chunk: int
    batch: int
    form: str
    times: tuple[float, ...]
    binds: tuple[str, ...]
    whole: float
    alone: float | None

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

    def __repr__(self) -> str:
        from roofline.quantity import format_amount as show

        first, longest = show(self.time_to_first_token, "s"), show(self.longest_step, "s")
        return f"<Chunked: {self.prompt} tokens by {self.chunk}: first token after {first}, longest step {longest}>"

    def __rich__(self) -> Any:
        from roofline.models.serving_show import chunked_lines, section

        return section(f"a prompt of {self.prompt:,} in chunks", chunked_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        return {
            "prompt": self.prompt,
            "chunk": self.chunk,
            "batch": self.batch,
            "form": self.form,
            "steps": self.steps,
            "time_to_first_token": self.time_to_first_token,
            "whole_prefill": self.whole,
            "longest_step": self.longest_step,
            "mean_step": self.mean_step,
            "decode_alone": self.alone,
            "times": list(self.times),
            "bound_by": list(self.binds),
        }


def chunked(
    model: Model | str,
    *,
    prompt: int,
    chunk: int,
    batch: int = 0,
    context: int | None = None,
    form: str = "lower",
    **options: Any,
) -> Chunked:
    """Prefill a ``prompt`` in chunks of ``chunk`` tokens, the last one shorter where they do not divide it.

    ``batch`` sequences with ``context`` tokens in the cache decode in each of the steps. ``form`` and ``options`` are
    those of :func:`roofline.models.generation`.
    """
    described = load(model)
    prompt, chunk = single("prompt", prompt), single("chunk", chunk)
    form = form_of(form, options)
    batch = 0 if isinstance(batch, int) and batch == 0 else single("batch", batch)
    if batch and context is None:
        raise InputError("sequences that decode need a context", hint="for instance context=4096")
    if options.pop("logits", "last") != "last":
        raise InputError("a chunked prefill gives the last token alone", hint="leave the logits out")
    if not is_zero(options.pop("images", 0)):
        raise InputError("images in a chunked prefill are not modelled", hint="leave the images or the chunks out")
    options.pop("image_size", None)
    before = options.pop("past", 0)
    times, binds = [], []
    for new, past in _chunks(prompt, min(chunk, prompt)):
        last = past + new == prompt
        if batch:
            sizes: dict[str, Any] = {"batch": batch, "context": context, "chunk": new, "past": before + past}
            step = serve_bound(described, "mixed", last=last, **sizes, **options)
        else:
            logits = "last" if last else "none"
            step = serve_bound(described, "prefill", prompt=new, past=before + past, logits=logits, **options)
        times.append(float(timed(step, form)))
        binds.append(str(step.bound_by))
    whole = serve_bound(described, "prefill", prompt=prompt, past=before, **options)
    alone = serve_bound(described, "decode", batch=batch, context=context, **options) if batch else None
    return Chunked(
        prompt,
        min(chunk, prompt),
        batch,
        form,
        tuple(times),
        tuple(binds),
        float(timed(whole, form)),
        None if alone is None else float(timed(alone, form)),
    )


def _chunks(prompt: int, chunk: int) -> Iterator[tuple[int, int]]:
    """New tokens of each step, and those before them."""
    for past in range(0, prompt, chunk):
        yield min(chunk, prompt - past), past
