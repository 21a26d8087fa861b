"""How options about models become arguments of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import not_default, word_of
from roofline.cli.option_values import convention_arguments, target_arguments
from roofline.counts import parse_size
from roofline.errors import InputError
from roofline.quantity import whole_number

#: Options that are numbers of chips.
_NUMBERS = ("tensor", "pipeline", "data", "expert", "context_parallel", "kv_parallel")

#: What such an option is, and what may stand there.
_CHIPS = (
    "number of chips",
    "a number, or a list 1,2,4,8; a formula is of one number or of the n of h100:n, a sweep has a row for each",
)


def sharing(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the options about several chips into arguments of the library; ``options`` loses them."""
    on = options.get("on")
    found: dict[str, Any] = {name: model_size(name, options.pop(name), *_CHIPS, of=on) for name in _NUMBERS}
    found["microbatches"] = model_size("microbatches", options.pop("microbatches"), "number of parts", _CHIPS[1])
    others = ("balance", "expert_exchange", "dispatch", "combine", "shared_experts", "algorithm")
    found |= {name: options.pop(name) for name in others}
    found["sequence_parallel"] = options.pop("sequence_parallel") or None
    return {name: value for name, value in found.items() if value is not None}


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
            denied = flags[name].secondary_opts if context.params[name] is False else ()
            other = denied[-1] if denied else word_of(flags[name])
            wanted = " or ".join(word_of(flags[each]) for each in needed)
            more = "it" if len(needed) == 1 else "one of them"
            raise InputError(f"{other} says nothing without {wanted}", hint=f"add {more}, or leave {other} out")


def formats(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the shared options into arguments of the library, leaving out those not given; ``options`` loses them."""
    found = {name: options.pop(name) for name in ("weights", "activations", "kv", "compute")}
    found["count"] = "full" if options.pop("full_attention") else None
    return {name: value for name, value in found.items() if value is not None}


#: Options of what is served and where it lies that are numbers.
_SERVED = ("source", "lora", "adapters", "kv_block", "host_layers")


def served(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the options about what is served into arguments of the library, those given; ``options`` loses them."""
    found: dict[str, Any] = {name: model_size(name, options.pop(name)) for name in _SERVED}
    found["host_kv"] = options.pop("host_kv") or None
    return {name: value for name, value in found.items() if value is not None}


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


#: Names of the options of a question about a model; those of its sizes, and those that training has alone.
MODEL_SIZES = ("batch", "prompt", "past", "context", "chunk", "batch_tokens", "sequence")
OF_TRAINING = ("batch_tokens", "sequence", "fsdp", "checkpoint")
_CHOICES = (
    *_NUMBERS, "microbatches", "balance", "expert_exchange", "dispatch", "combine", "shared_experts",
    "sequence_parallel", "weights", "activations", "kv", "full_attention", "fsdp", "checkpoint", "phase", *_SERVED,
    "host_kv",
)  # fmt: skip


def without_model(options: dict[str, Any], *also: str) -> None:
    """Refuse the options about a model, and others, beside a line of notation; ``options`` loses them."""
    for name in dict.fromkeys((*MODEL_SIZES, *_CHOICES, *also)):
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
    on, sizes = options["on"], {name: model_size(name, options.pop(name)) for name in MODEL_SIZES}
    given = {name: value for name, value in sizes.items() if value is not None}
    training = {
        "fsdp": model_size("fsdp", options.pop("fsdp"), *_CHIPS, of=on),
        "checkpoint": _kept_each(options.pop("checkpoint")),
    }
    given |= {name: value for name, value in training.items() if value is not None}
    for name in given:
        if (name in OF_TRAINING) != (phase == "train"):
            what = "about training" if name in OF_TRAINING else "no size of a training step"
            hint = "add --phase train" if name in OF_TRAINING else "its sizes are --batch-tokens and --sequence"
            raise InputError(f"--{name.replace('_', '-')} is {what}", hint=hint)
    _check_sizes_of(phase, given)
    arguments = {**target_arguments(options), **sharing({**options, "on": on, "algorithm": None}), **given}
    for name in ("flops", "bytes_", "intensity", "dtype"):
        if options.pop(name) is not None:
            raise InputError(f"--{name.rstrip('_')} is about raw work, and this is a model", hint="leave it out")
    arguments |= formats({**options, "compute": options.get("compute")}) | served(options)
    conventions = convention_arguments(options)
    for name in conventions:
        if name not in (*OF_OPERATIONS, "algorithm", "compute"):
            raise InputError(f"--{name} says nothing about a model", hint="leave it out")
    lists = next((name for name, value in arguments.items() if isinstance(value, list)), None)
    if lists is not None and not several:
        flag = f"--{lists.replace('_', '-')}"
        raise InputError(f"{flag} has several values", hint="a formula is of one; roofline sweep takes several")
    return phase, {**arguments, **{name: value for name, value in conventions.items() if name != "compute"}}


def kept(text: str) -> int | str:
    """What a checkpoint keeps: a policy by name, or so many layers."""
    number = whole_number(text)
    return text if number is None else number


#: Policies of keeping everything of a kind: several are a list, where modules with commas between them are one policy.
_POLICIES = ("none", "selective", "matmuls", "full")


def _kept_each(text: str | None) -> Any:
    if text is None:
        return None
    parts = text.split(",")
    is_list = len(parts) > 1 and all(each in _POLICIES or each.isdecimal() for each in parts)
    return [kept(each) for each in parts] if is_list else kept(text)


def _check_sizes_of(phase: str, given: Mapping[str, Any]) -> None:
    """Refuse a size that a phase of serving does not have."""
    from roofline.models.serving.step import PHASES

    if phase not in PHASES:
        return
    known = ("batch", *PHASES[phase].sizes)
    wrong = next((name for name in MODEL_SIZES if name in given and name not in known), None)
    if wrong is not None:
        listed = ", ".join(f"--{name}" for name in known if name in MODEL_SIZES)
        hint = f"its sizes are {listed}; --phase says which step is meant"
        raise InputError(f"--{wrong} is no size of a {phase} step", hint=hint)


def _phase_meant(options: dict[str, Any]) -> str:
    if any(options[name] is not None for name in OF_TRAINING):
        return "train"
    if options["chunk"] is not None:
        return "mixed"
    return "prefill" if options["prompt"] is not None and options["context"] is None else "decode"


def model_size(
    name: str,
    text: str | int | None,
    what: str = "size",
    hint: str = "a number, a list 1,8,64 or a range 1:512:*2",
    of: str | None = None,
) -> Any:
    """Read a number, or a list or range of them; one that is read already, as of one of several machines, stays.

    That of the target ``of`` may be open, and bears a name then.
    """
    value = parse_size(name, text) if isinstance(text, str) else text
    if isinstance(value, str) and not _is_open(of, value):
        raise InputError(f"--{name.replace('_', '-')} {text!r} is not a {what}", hint=hint)
    return value


def _is_open(target: str | None, name: str) -> bool:
    from roofline.hardware.open_counts import open_shape

    opened = open_shape(target)
    return opened is not None and name == opened[2]


#: Options of the command that say nothing without another, and which: one of them is enough.
BESIDE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("past", "all_logits"), ("prompt",)),
    "kv_parallel": ("tensor",),
    "phase": ("view",),
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


PICTURE_NAMES = ("view", "phase", "file", "dark", "width")
WORKED_OUT_NAMES = (
    "output", "chunk", "fit", "advise", "price", "power", "draft", "accept", "draft_by", "draft_weights",
    "prefill_on", "prefill_tensor", "prefill_batch", "prefill_link", "form", "tpot",
)  # fmt: skip


def taken(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Take options of these names out."""
    return {name: options.pop(name) for name in names}
