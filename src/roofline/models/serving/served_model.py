"""A model as it is served: adapters beside it, its cache in blocks, parts of it in the host's memory.

>>> options = {"lora": 16, "adapters": 8, "kv_block": 16, "policy": "streamed"}
>>> served = served_model(load("llama-3-8b"), options)
>>> str(served.adapters), served.kv_block, options
('8 adapters of rank 16 (LoRA)', 16, {'policy': 'streamed'})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import InputError, SizeError
from roofline.frozen import replace
from roofline.models.blocks.encoder import with_source
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.idle import SERVING, refuse_idle
from roofline.models.parallelism.layout import is_several
from roofline.models.weights import ServedAdapters
from roofline.signatures import optional, spelled
from roofline.sizes import check, is_number, is_zero

#: Options of a step that say what is served and where it lies.
SERVED = optional(source="Size", lora="int", adapters="int", kv_block="int", host_layers="int", host_kv="bool")


def served_model(model: Model, options: dict[str, Any]) -> Model:
    """The model with what ``options`` say of how it is served, which they lose.

    ``source`` is what an encoder reads of each sequence; ``lora`` the rank of ``adapters`` that are served beside the
    model; ``kv_block`` the tokens of a block of a paged cache, of which a sequence takes whole ones; ``host_layers``
    the last layers, whose weights stay in the host's memory, and ``host_kv`` leaves keys, values and states there.
    """
    given = {each.name: options.pop(each.name, None) for each in SERVED}
    found = with_source(model, given["source"])
    if given["kv_block"] is not None:
        found = replace(found, kv_block=_one_number("kv_block", given["kv_block"]))
    if given["lora"] is not None:
        rank, count = (_one_number(name, 1 if given[name] is None else given[name]) for name in ("lora", "adapters"))
        found = replace(found, adapters=ServedAdapters(rank, count))
    if given["host_layers"] is not None and not is_zero(given["host_layers"]):
        found = with_host_layers(found, _one_number("host_layers", given["host_layers"], least=0))
    return replace(found, kv_memory="host") if given["host_kv"] else found


def asked_model(model: Model | str, options: dict[str, Any], *more: Mapping[str, Any]) -> Model:
    """The model of a name, where an option without effect is refused; ``more`` are those of further steps."""
    described = load(model)
    refuse_idle(options, SERVING, described, *more)
    return served_model(described, options)


def with_host_layers(model: Model, count: int) -> Model:
    """The model with the weights of its last layers in the host's memory, from which each step reads them."""
    layers = model.layers
    if count > len(layers):
        wrong = f"{model.name} has {len(layers)} layers, and {count:,} are to stay with the host"
        raise SizeError(wrong, hint=f"{len(layers)} at most")
    moved = {id(layer): replace(layer, memory="host") for layer in layers}
    return replace(model, layers=(*layers[:-count], *(moved[id(layer)] for layer in layers[-count:])))


def _one_number(name: str, value: Any, least: int = 1) -> int:
    if is_several(value):
        hint = f"a whole one, as in {spelled(name, 16)}; sweep takes several"
        raise InputError(f"{spelled(name)} is one number", hint=hint)
    if is_number(value) and not (value >= least and value == int(value)):
        raise SizeError(f"{spelled(name)} is {value}", hint=f"a whole number of at least {least}")
    found = check(name, value)
    if not isinstance(found, int):
        raise InputError(f"{spelled(name)} is one number", hint=f"a whole one, as in {spelled(name, 16)}")
    return found
