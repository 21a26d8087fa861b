"""Options that say nothing of a model or its layout: an error that says what they go with.

>>> from roofline.models import load
>>> refuse_idle({"expert_exchange": "per-expert"}, SERVING, load("llama-2-7b"))
Traceback (most recent call last):
roofline.errors.InputError: expert_exchange= says nothing of llama-2-7b, which has no experts; leave it out
>>> refuse_idle({"balance": "time"}, SERVING, load("llama-2-7b"))
Traceback (most recent call last):
roofline.errors.InputError: balance= says nothing without pipeline=; add it, or leave balance= out
>>> refuse_idle({"balance": "time", "pipeline": [1, 2]}, SERVING, load("llama-2-7b"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from roofline.answers import WAYS
from roofline.errors import InputError
from roofline.frozen import NamedTuple
from roofline.models.description import Model
from roofline.models.parallelism.block_splitting import experts_of, has_experts
from roofline.models.parallelism.layout import CHIPS
from roofline.signatures import spelled
from roofline.sizes import Size, is_array, is_one, product

#: What a model may have, and how it is found.
HAS: dict[str, Callable[[Model], bool]] = {
    "experts": has_experts,
    "shared experts": lambda model: any(each.shared is not None for each in experts_of(model)),
    "attention": lambda model: any(block.keeps == "keys" for block in model.layer_blocks),
    "latent attention": lambda model: any(block.is_latent for block in model.layer_blocks),
    "cache": lambda model: model.causal,
}


class OptionUse(NamedTuple):
    """The ``usual`` value of an option, the options of which it needs one, and what the model must have for it.

    ``against`` is a choice of another option that leaves it nothing to say.
    """

    usual: Any = None
    beside: tuple[str, ...] = ()
    has: str = ""
    against: tuple[str, str] | None = None


Rules = Mapping[str, OptionUse]

#: Experts get no tokens then: sums are added up.
_SUMS = ("expert_exchange", "all-reduce")

#: Options of a step of serving.
SERVING: Rules = {
    "sequence_parallel": OptionUse(False, ("tensor",)),
    "balance": OptionUse("layers", ("pipeline",)),
    "microbatches": OptionUse(None, ("pipeline",)),
    "algorithm": OptionUse(None, ("tensor", "expert", "context_parallel")),
    "expert_exchange": OptionUse(None, ("expert",), "experts"),
    **dict.fromkeys(("dispatch", "combine"), OptionUse(None, ("expert",), "experts", _SUMS)),
    "shared_experts": OptionUse("replicated", ("expert",), "shared experts", _SUMS),
    "absorbed": OptionUse(None, (), "latent attention"),
    "image_size": OptionUse(None, ("images",)),
    "adapters": OptionUse(1, ("lora",)),
    "kv_block": OptionUse(1, (), "cache"),
    "host_kv": OptionUse(False, (), "cache"),
}
#: Options of ways of serving.
WAYS_OF_SERVING: Rules = {
    "accept": OptionUse(0.8, ("draft",)),
    "draft_by": OptionUse(None, ("draft",)),
    "draft_weights": OptionUse(None, ("draft_by",)),
    "prefill_tensor": OptionUse(None, ("prefill_on",)),
    "prefill_batch": OptionUse(1, ("prefill_on",)),
    "prefill_link": OptionUse(None, ("prefill_on",)),
}
#: Options of a plan, which tries layouts.
PLANNED: Rules = {
    **{name: use._replace(beside=()) for name, use in SERVING.items() if use.has},
    **{
        name: use._replace(beside=("draft",))
        for name, use in WAYS_OF_SERVING.items()
        if any("draft" in each for each in use.beside)
    },
    "draft_by": OptionUse(0.1, ("draft",)),
    "adapters": SERVING["adapters"],
}
#: Options of a training step, and those of a search, which tries layouts.
SEARCHED: Rules = {
    "expert_exchange": OptionUse(None, (), "experts"),
    **dict.fromkeys(("price", "power"), OptionUse(None, ("tokens",))),
}
TRAINING: Rules = {
    **SEARCHED,
    "expert_exchange": OptionUse(None, ("expert",), "experts"),
    "sequence_parallel": OptionUse(True, ("tensor",)),
    "schedule": OptionUse("1f1b", ("pipeline",)),
    "unfused": OptionUse(False, (), "attention"),
}
#: Options of a budget, which say nothing of a step.
OF_A_BUDGET = ("price", "power", "tokens", "mfu")
#: Options of what is served, and where and in which formats it lies, that training has not.
OF_SERVING = ("activations", "kv", "kv_parallel", "balance", "source", "adapters", "kv_block", "host_layers", "host_kv")


def refuse_idle(options: Mapping[str, Any], rules: Rules, model: Model | None = None, *more: Mapping[str, Any]) -> None:
    """Refuse the first option that has no effect; of several layouts, one in which it has one is enough.

    ``more`` are the options of further steps of the same question.
    """
    every = (options, *({**options, **each} for each in more))
    for name, (usual, beside, has, against) in rules.items():
        given = (value for each in every if (value := each.get(name)) is not None)
        if not any(is_array(value) or value != usual for value in given):
            continue
        if has and model is not None and not HAS[has](model):
            raise InputError(f"{spelled(name)} says nothing of {model.name}, which has no {has}", hint="leave it out")
        if beside and not any(_is_there(other, each.get(other)) for each in every for other in beside):
            needed = " or ".join(map(spelled, beside))
            hint = f"add {'it' if len(beside) == 1 else 'one of them'}, or leave {spelled(name)} out"
            raise InputError(f"{spelled(name)} says nothing without {needed}", hint=hint)
        if against is not None and all(each.get(against[0]) == against[1] for each in every):
            raise InputError(f"{spelled(name)} says nothing with {spelled(*against)}", hint="leave one of them out")


def refuse_idle_of_step(options: Mapping[str, Any], phase: str, model: Model) -> None:
    """Refuse an option that has no effect on a step, of serving or of training, nor on a table of steps.

    >>> from roofline.models import load
    >>> refuse_idle_of_step({"tokens": 1e12}, "train", load("llama-2-7b"))
    Traceback (most recent call last):
    roofline.errors.InputError: tokens= is of a budget, and this is a step; leave it out
    """
    refuse_idle(options, TRAINING if phase == "train" else SERVING, model)
    if phase != "train":
        return
    for kind, names in (("a budget, and this is a step", OF_A_BUDGET), ("serving, and this is training", OF_SERVING)):
        idle = next((name for name in names if options.get(name) is not None), None)
        if idle is not None:
            raise InputError(f"{spelled(idle)} is of {kind}", hint="leave it out")


def refuse_algorithm(options: Mapping[str, Any], shapes: Iterable[Sequence[Size]]) -> None:
    """Refuse an algorithm of collectives in training on one chip, where nothing is sent; ``shapes`` of all targets."""
    ways = [options[name] for name in WAYS if options.get(name) is not None]
    if options.get("algorithm") is not None and all(map(is_one, (*map(product, shapes), *ways))):
        raise InputError(f"{spelled('algorithm')} says nothing of one chip: nothing is sent", hint="leave it out")


def _is_there(name: str, value: Any) -> bool:
    """Whether an option is given, a number of chips above 1, or several of which one is."""
    if is_array(value):
        return name not in CHIPS or bool((value > 1).any())
    if isinstance(value, list | tuple | range):
        return any(_is_there(name, each) for each in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return name not in CHIPS or value > 1
    return value is not None and value is not False
