"""How options about models become arguments of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import not_default, word_of
from roofline.cli.option_table import OF_TRAINING, SERVED, SHARING_OF_EACH, STEP_SIZES, STORED
from roofline.cli.option_values import convention_arguments, target_arguments
from roofline.errors import InputError
from roofline.quantity import whole_number


def not_of_memory() -> None:
    """Refuse an option of a step's time beside a picture of memory."""
    params = {param.name: param for param in click.get_current_context().command.params}
    idle = next((name for name in params if name in _OF_TIME and not_default(name)), None)
    if idle is not None:
        raise InputError(
            f"{word_of(params[idle])} is of a step's time, and --view memory shows none", hint="leave one of them out"
        )


def not_alone(beside: Mapping[str, Sequence[str]]) -> None:
    """Refuse an option of the command that says nothing without another, where that is not given."""
    context = click.get_current_context()
    flags = {param.name: param for param in context.command.params}
    for name, needed in beside.items():
        if not_default(name) and not any(map(not_default, needed)):
            denied = flags[name].secondary_opts if context.params.get(name) is False else ()
            other = denied[-1] if denied else word_of(flags[name])
            wanted = " or ".join(word_of(flags[each]) for each in needed)
            more = "it" if len(needed) == 1 else "one of them"
            raise InputError(f"{other} says nothing without {wanted}", hint=f"add {more}, or leave {other} out")


def images(options: dict[str, Any], model: Any) -> dict[str, Any]:
    """Turn the options about images in a prompt into arguments of the library; ``options`` loses them."""
    count, size = options.pop("images"), options.pop("image_size")
    if count is None:
        return {}
    images = whole_number(count)
    if images is None:
        raise InputError(f"--images {count!r} is not a number of images", hint="a whole number, as in --images 4")
    if model.vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    if options["prompt"] is None:
        raise InputError("images are seen in prefill", hint="give the prompt that holds their tokens with --prompt")
    return {"images": images, **({} if size is None else {"image_size": _pixels(size)})}


def _pixels(text: str) -> tuple[int, int]:
    height, cross, width = text.lower().partition("x")
    size = whole_number(height), whole_number(width)
    if not (cross and size[0] and size[1]):
        raise InputError(f"--image-size {text!r} is not understood", hint="height x width in pixels, as in 1024x768")
    return size[0], size[1]


_TRAINED = ("batch_tokens", "sequence", *OF_TRAINING.names)


def without_model(options: dict[str, Any], *also: str) -> None:
    """Refuse the options about a model, and others, beside a line of notation; ``options`` loses them."""
    groups = (STEP_SIZES, OF_TRAINING, SHARING_OF_EACH, STORED, SERVED)
    for name in (*(name for group in groups for name in group.names), "phase", *also):
        if options.pop(name) not in (None, False):
            raise InputError(
                f"--{name.replace('_', '-')} is about a model, and this is a line of notation",
                hint="give a model's name, or leave it out",
            )


def model_arguments(options: dict[str, Any], *, several: bool) -> tuple[str, dict[str, Any]]:
    """The phase of a step of a model, and the arguments of its question; sizes are lists only where ``several`` may be.

    ``options`` loses what it had.
    """
    phase = options.pop("phase") or _phase_meant(options)
    on = options["on"]
    given = STEP_SIZES.arguments(options) | OF_TRAINING.arguments(options, on)
    for name in given:
        if (name in _TRAINED) != (phase == "train"):
            what = "about training" if name in _TRAINED else "no size of a training step"
            hint = "add --phase train" if name in _TRAINED else "its sizes are --batch-tokens and --sequence"
            raise InputError(f"--{name.replace('_', '-')} is {what}", hint=hint)
    _check_sizes_of(phase, given)
    arguments = {**target_arguments(options), **SHARING_OF_EACH.arguments(options, on), **given}
    for name in ("flops", "bytes_", "intensity", "dtype"):
        if options.pop(name) is not None:
            raise InputError(f"--{name.rstrip('_')} is about raw work, and this is a model", hint="leave it out")
    arguments |= STORED.arguments(options) | SERVED.arguments(options)
    conventions = convention_arguments(options)
    for name in conventions:
        if name not in (*OF_OPERATIONS, "algorithm", "compute"):
            raise InputError(f"--{name} says nothing about a model", hint="leave it out")
    lists = next((name for name, value in arguments.items() if isinstance(value, list)), None)
    if lists is not None and not several:
        flag = f"--{lists.replace('_', '-')}"
        raise InputError(f"{flag} has several values", hint="a formula is of one; roofline sweep takes several")
    return phase, {**arguments, **conventions}


def _check_sizes_of(phase: str, given: Mapping[str, Any]) -> None:
    """Refuse a size that a phase of serving does not have."""
    from roofline.models.serving.step import PHASES

    if phase not in PHASES:
        return
    known = ("batch", *PHASES[phase].sizes)
    wrong = next((name for name in STEP_SIZES.names if name in given and name not in known), None)
    if wrong is not None:
        listed = ", ".join(f"--{name}" for name in known if name in STEP_SIZES.names)
        hint = f"its sizes are {listed}; --phase says which step is meant"
        raise InputError(f"--{wrong} is no size of a {phase} step", hint=hint)


def _phase_meant(options: dict[str, Any]) -> str:
    if any(options[name] is not None for name in _TRAINED):
        return "train"
    if options["chunk"] is not None:
        return "mixed"
    return "prefill" if options["prompt"] is not None and options["context"] is None else "decode"


#: Options of the command that say nothing without another, and which: one of them is enough.
BESIDE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("past", "all_logits"), ("prompt",)),
    "kv_parallel": ("tensor",),
    "dark": ("file",),
    "width": ("file", "view"),
}

#: Options of the time of a step.
_OF_TIME = (
    "over", "achievable", "unit", "algorithm", "compute", "full_attention", *OF_OPERATIONS,
    "estimate", "library", "eager", "constants", "measured",
)  # fmt: skip


def beside_of_serving() -> dict[str, tuple[str, ...]]:
    """Those, and what the library says of its own options."""
    from roofline.models.idle import SERVING, WAYS_OF_SERVING

    uses = {**SERVING, **WAYS_OF_SERVING}
    return BESIDE | {{"prefill_link": "link"}.get(name, name): use.beside for name, use in uses.items() if use.beside}


PICTURE_NAMES = ("view", "phase", "file")
WORKED_OUT_NAMES = (
    "output", "chunk", "fit", "advise", "price", "power", "draft", "accept", "draft_by", "draft_weights",
    "prefill_on", "prefill_tensor", "prefill_batch", "prefill_link", "form", "tpot",
)  # fmt: skip


def taken(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Take options of these names out."""
    return {name: options.pop(name) for name in names}
