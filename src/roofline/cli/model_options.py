"""Options that the commands about models share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from roofline.cli.options import BYTES
from roofline.errors import InputError

FORMATS = (
    click.option("--weights", metavar="DTYPE", help="Format of the matrices (default: as the configuration says)."),
    click.option("--activations", metavar="DTYPE", help="Format of activations (default: the model's own)."),
    click.option("--kv", metavar="DTYPE", help="Format of keys and values (default: as activations)."),
    click.option("--compute", metavar="DTYPE", help="Arithmetic of matrix products (default: the wider operand's)."),
    *BYTES["minimal"],
    click.option("--full-attention", is_flag=True, help="Count every pair of query and key, masked or not."),
)  # fmt: skip

_WAYS = "N[,N…]"

SHARING = (
    click.option("--tensor", metavar=_WAYS, help="Chips that split each layer; a list gives a table."),
    click.option("--sequence-parallel", is_flag=True, help="They split the hidden state between blocks by tokens."),
    click.option("--pipeline", metavar=_WAYS, help="Stages of consecutive layers."),
    click.option(
        "--microbatches",
        "--micro-batches",
        "micro_batches",
        type=int,
        metavar="N",
        help="In flight in a pipeline (default: one a stage).",
    ),
    click.option("--balance", metavar="HOW", help="Cut stages by layers (default) or by time."),
    click.option("--data", metavar=_WAYS, help="Copies of the model (default: what chips are left)."),
    click.option("--expert", metavar=_WAYS, help="Chips over which whole experts are spread."),
    click.option(
        "--expert-exchange",
        metavar="HOW",
        help="Tokens are sent to experts (all-to-all, per-expert), or sums are added up (all-reduce).",
    ),
    click.option("--dispatch", metavar="DTYPE", help="Format in which tokens are sent to experts."),
    click.option("--combine", metavar="DTYPE", help="Format in which experts' results are sent back."),
    click.option("--shared-experts", metavar="HOW", help="replicated (default) or split, where tokens are sent."),
    click.option("--context-parallel", metavar=_WAYS, help="Chips that share each sequence."),
    click.option("--kv-parallel", metavar=_WAYS, help="Of the tensor chips, how many share keys and values."),
    click.option("--algorithm", metavar="NAME", help="Of the collectives: auto, two-shot, in-switch …"),
)  # fmt: skip

#: Options that are numbers of chips.
_NUMBERS = ("tensor", "pipeline", "data", "expert", "context_parallel", "kv_parallel")


def sharing(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the options about several chips into arguments of the library; ``options`` loses them."""
    found: dict[str, Any] = {name: _number(name, options.pop(name)) for name in _NUMBERS}
    others = ("micro_batches", "balance", "expert_exchange", "dispatch", "combine", "shared_experts", "algorithm")
    found |= {name: options.pop(name) for name in others}
    found["sequence_parallel"] = options.pop("sequence_parallel") or None
    return {name: value for name, value in found.items() if value is not None}


def _number(name: str, text: str | None) -> Any:
    if text is None:
        return None
    from roofline.cli.options import parse_size

    value = parse_size(name, text)
    if isinstance(value, str):
        flag = f"--{name.replace('_', '-')}"
        raise InputError(f"{flag} {text!r} is not a number of chips", hint="a number, or a list 1,2,4,8")
    return value


def not_alone(beside: Mapping[str, Sequence[str]]) -> None:
    """Refuse an option of the command that says nothing without another, where that is not given."""
    context = click.get_current_context()

    def given(name: str) -> bool:
        return context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)

    flags = {param.name: param for param in context.command.params}
    for name, needed in beside.items():
        if given(name) and not any(map(given, needed)):
            other = (flags[name].secondary_opts if context.params[name] is False else ()) or flags[name].opts
            wanted = " or ".join(flags[each].opts[-1] for each in needed)
            more = "it" if len(needed) == 1 else "one of them"
            raise InputError(f"{other[-1]} says nothing without {wanted}", hint=f"add {more}, or leave {other[-1]} out")


def formats(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the shared options into arguments of the library, leaving out those not given; ``options`` loses them."""
    found = {name: options.pop(name) for name in ("weights", "activations", "kv", "compute")}
    found["count"] = "full" if options.pop("full_attention") else None
    return {name: value for name, value in found.items() if value is not None}


def images(options: dict[str, Any], model: Any) -> dict[str, Any]:
    """Turn the options about images in a prompt into arguments of the library; ``options`` loses them."""
    count, size = options.pop("images"), options.pop("image_size")
    if count is None and size is not None:
        raise InputError("--image-size without images", hint="say how many with --images")
    if count is None:
        return {}
    if not count.isdecimal():
        raise InputError(f"--images {count!r} is not a number of images", hint="a whole number, as in --images 4")
    if model.vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    if options["prompt"] is None:
        raise InputError("images are seen in prefill", hint="give the prompt that holds their tokens with --prompt")
    return {"images": int(count), **({} if size is None else {"image_size": _pixels(size)})}


def _pixels(text: str) -> tuple[int, int]:
    height, cross, width = text.lower().partition("x")
    if not (cross and height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise InputError(f"--image-size {text!r} is not understood", hint="height x width in pixels, as in 1024x768")
    return int(height), int(width)
