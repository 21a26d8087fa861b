"""``roofline train``: a training step, a budget of tokens, what training holds in all, or the fastest layout.

>>> train("llama-3-8b", on="h100:8", batch_tokens=65536)
<Training llama-3-8b: 404 ms a step at best on 8 x NVIDIA H100 SXM5 80GB, compute-bound>
>>> round(train("llama-3-70b", on="h100:512", tokens=15e12, mfu=0.4).days)
363
>>> train("llama-3-8b", on="h100", memory=True)
<TrainingMemory of 8.03B parameters: 128 GB, 2 x NVIDIA H100 SXM5 80GB>
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from roofline.answers import Answer, capability, on_several
from roofline.bounds.api import target
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.idle import SEARCHED, refuse_idle
from roofline.models.operations import check_options
from roofline.models.parallelism.layout import is_several
from roofline.models.training.answer import Training
from roofline.models.training.budget import TokenBudget, TrainingMemory, budget, training_memory
from roofline.models.training.step import train as train_step
from roofline.signatures import optional, spelled, takes
from roofline.sizes import Size, is_array
from roofline.statements import Assumption

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide


#: What :func:`roofline.models.load` takes, or a number of parameters.
Source = Model | str | float | os.PathLike[str] | Mapping[str, Any]


@overload
def train(
    model: Source, *, memory: Literal[True], on: Machine | str | None = None, **options: Any
) -> TrainingMemory: ...
@overload
def train(model: Source, *, search: Literal[True], batch_tokens: Size | str, on: str, **options: Any) -> Any: ...
@overload
def train(model: Source, *, batch_tokens: Size | str, on: Machine | str | None = None, **options: Any) -> Training: ...
@overload
def train(model: Source, *, tokens: float | str, on: Machine | str | None = None, **options: Any) -> TokenBudget: ...
@overload
def train(model: Source, *, on: Sequence[str], **options: Any) -> SideBySide: ...
@overload
def train(model: list[Any] | tuple[Any, ...], *, on: Any = None, **options: Any) -> SideBySide: ...
@on_several  # type: ignore[misc]  # several models come one by one
@takes(train_step, optional(days="float | str", chip_hours="float | str"))
def train(
    model: Model | str | float | os.PathLike[str] | Mapping[str, Any],
    *,
    on: str | Machine | Sequence[str] | None = None,
    batch_tokens: Size | str | None = None,
    memory: bool = False,
    search: bool = False,
    **options: Any,
) -> Training | TokenBudget | TrainingMemory | SideBySide | Answer:
    """The floor of training: a step of ``batch_tokens`` tokens (:func:`roofline.models.train`), or one of three others.

    ``measured`` is what a step takes in reality, ``count`` which pairs of query and key count, ``causal`` or ``full``.
    Without ``batch_tokens`` a budget of ``tokens`` at ``mfu``, in ``days`` or ``chip_hours``
    (:func:`roofline.models.budget`). ``memory`` adds up what training holds without a layout
    (:func:`roofline.models.training_memory`). ``search`` tries every layout that is not given and takes the fastest
    that fits (:func:`roofline.plans.training.search_training`). A step that does not fit as one, and of which no
    ``microbatches`` are given, is taken in the first of 2, 4, 8 … with which it fits.
    """
    if is_several(options.get("tokens")):
        hint = "give one: days, cost and energy grow with them"
        raise InputError(f"{spelled('tokens')} has several values", hint=hint)
    if search and (memory or batch_tokens is None):
        raise InputError(f"{spelled('search')} tries layouts of a step", hint="give batch_tokens, and no memory")
    if memory:
        if "tokens" in options:
            raise InputError(f"{spelled('tokens')} is of a budget", hint="tokens of a step are batch_tokens")
        check_options(options, training_memory, also=("on",))
        if is_several(batch_tokens):
            raise InputError("batch_tokens has several values", hint="give one: memory is of one step")
        return training_memory(model, tokens=batch_tokens or 0, on=on, **options)  # type: ignore[arg-type]
    if batch_tokens is None:
        if "tokens" not in options:
            hint = "tokens of one step over all chips, as in batch_tokens='4M'; or tokens= alone, a budget"
            raise InputError("batch_tokens= is missing", hint=hint)
        check_options(options, budget)
        return budget(model, on=on, **options)
    check_options(options, train, also=("sizes",))
    idle = next((name for name in ("days", "chip_hours") if options.pop(name, None) is not None), None)
    if idle is not None:
        raise InputError(f"{spelled(idle)} is of a budget", hint="leave batch_tokens out, and give tokens")
    if on is None:
        target(on)  # which says how to name one
    if search:
        refuse_idle(options, SEARCHED, load(model))
        found: Answer = capability("search_training")(model, on=on, batch_tokens=batch_tokens, **options)
        return found
    found = train_step(model, on=on, batch_tokens=batch_tokens, **options)  # type: ignore[arg-type]
    if found.question.microbatches is not None:
        return found
    parts = microbatches_that_fit(found)
    if parts is not None:
        found = train_step(model, on=on, batch_tokens=batch_tokens, **{**options, "microbatches": parts})  # type: ignore[arg-type]
    found = replace(found, question=found.question.vary(as_fits=True))
    if parts is None:
        return found
    number = "as many microbatches as fit" if is_array(parts) else f"{parts:,} microbatches"
    said = Assumption("model", f"{number}, as none were given: the first of 2, 4, 8 … whose step fits")
    (stage,) = found.stages
    bound = replace(stage.bound, assumptions=(said, *stage.bound.assumptions))
    return replace(found, stages=(replace(stage, bound=bound),))


def microbatches_that_fit(found: Training) -> Size | None:
    """Microbatches with which a step fits that does not fit as one, where nobody gave their number; None: none do.

    Of several steps each has its own number, which is what it has alone.
    """
    asked = found.question
    if asked.microbatches is not None or asked.pipeline > 1:
        return None
    if is_array(found.lower):
        parts = parts_that_fit(lambda parts: asked.vary(microbatches=parts).fits, found.sequences, found.lower.shape)
        return parts if (parts > 1).any() else None
    if found.memory.fits is not False:
        return None
    most = int(found.sequences)
    counts = sorted({1 << power for power in range(1, most.bit_length())} | ({most} if most > 1 else set()))
    # a microbatch of fewer sequences never needs more memory
    at = bisect_left(counts, True, key=lambda count: bool(asked.vary(microbatches=count).fits))
    return counts[at] if at < len(counts) else None


def parts_that_fit(fitting: Callable[[Any], Any], sequences: Any, shape: tuple[int, ...]) -> Any:
    """Parts of each of several steps: one, or where that does not fit the first of 2, 4, 8 … with which it does.

    ``fitting`` says of numbers of parts, one a step, which steps fit; it is True where a capacity is not known.
    """
    parts: Any = np.ones(shape, np.int64)
    open_rows = np.broadcast_to(np.equal(fitting(1), False), shape)
    most = np.broadcast_to(np.floor(sequences), shape).astype(np.int64)
    counts: list[Any] = [1 << power for power in range(1, int(most.max()).bit_length())] if open_rows.any() else []
    for count in (*counts, most) if counts else ():
        tried = open_rows & (count <= most) & (most > 1)
        tried &= np.broadcast_to(np.equal(fitting(np.where(tried, count, 1)), True), shape)
        parts, open_rows = np.where(tried, count, parts), open_rows & ~tried
    return parts
