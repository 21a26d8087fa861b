"""``roofline train``: the floor of training a model."""

from __future__ import annotations

import shlex
from typing import Any

import click

from roofline.answers import models_in
from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import argument, command_named, not_default, word_of
from roofline.cli.model_options import not_alone
from roofline.cli.option_table import BYTES, ESTIMATE, EXPECT, SEVERAL, option, options, with_options
from roofline.cli.option_values import (
    OF_EACH,
    POWER,
    against_catalog,
    check_chips_of_each,
    convention_arguments,
    crossed_sizes,
    expectation_wanted,
    is_list,
    kept,
    kept_each,
    model_size,
    on_each,
    target_arguments,
    targets,
)
from roofline.cli.output import show_answer, show_changed, show_json, working
from roofline.counts import count, parse_size
from roofline.errors import InputError
from roofline.sizes import LARGEST, check, is_array

#: Options that say nothing without another.
_BESIDE = {
    **dict.fromkeys(("schedule", "chunks"), ("pipeline",)),
    **dict.fromkeys(("price", "power", "days", "chip_hours"), ("tokens",)),
    "sequence_parallel": ("tensor",),
}

#: Options of a token budget, which needs no step; all others are about one.
_OF_BUDGETS = (
    "tokens", "mfu", "price", "power", "days", "chip_hours", "weights", "checkpoint", "on", "set_", "files", "as_json"
)  # fmt: skip


def _power(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Watts of a chip; those of its data sheet where ``tdp`` or nothing is given."""
    return None if str(value).lower() == "tdp" else POWER(context, parameter, value)


@command_named(
    "train",
    "batch-tokens sequence tokens search on set fsdp tensor weights checkpoint estimate mfu measured price "
    "explain json",
)
@argument("model", metavar="MODEL", values="model")
@with_options(SEVERAL, options("batch-tokens sequence"), option("data", type=OF_EACH, metavar="N"))
@with_options(option("pipeline", type=OF_EACH, default=1, metavar="N"), options("schedule chunks"))
@with_options(option("microbatches", type=str), option("fsdp", type=OF_EACH))
@with_options(options("tensor expert", type=OF_EACH, default=1, metavar="N"), option("expert-exchange"))
@with_options(
    option("context-parallel", type=OF_EACH, default=1, metavar="N"),
    option("sequence-parallel", default=True, words="--sequence-parallel/--no-sequence-parallel"),
    option("algorithm", multiple=False),
    option("zero"),
    option("checkpoint", default="selective"),
    *options("lora saved-activations unfused"),
    option("optimizer", default="adam", values="adam adamw lion momentum sgd"),
    *options("weights gradients moments master tokens mfu measured days chip-hours price"),
    option("power", callback=_power),
    *BYTES["minimal"],
    option("full-attention"),
    *ESTIMATE,
    *EXPECT,
    *options("memory search explain json"),
)
def train_command(model: str, explain: bool, as_json: bool, search: bool, memory: bool, **options: Any) -> None:
    """The floor of a training step: time, what binds, memory by part; days and cost of a token budget.

    MODEL is a shipped name (see 'roofline model'), a config.json, a folder that holds one, several (A,B), or, without a
    step, a number of parameters. Without --batch-tokens the answer is that of the token budget: 6 FLOPs a parameter and
    token.

    \b
    roofline train 70e9 --on v5p:16x20x28 --tokens 15e12 --mfu 0.4
    roofline train deepseek-v3 --on h800 --tokens 14.8e12 --chip-hours 2.664e6 --price 2
    roofline train 70e9 --on h100 --memory --gradients none --master none
    roofline train llama-3-8b --on h100:8 --batch-tokens 65536
    roofline train llama-3-8b --on h100:64,b200:64 --batch-tokens 1M,4M --tokens 15T
    roofline train llama-3-70b --on v5p:16x16x16 --batch-tokens 4e6 --tensor 8 --checkpoint full --tokens 15e12
    """
    from roofline.bounds.comparison import SideBySide, SideBySideBySize
    from roofline.models.parallelism.schedules import schedule
    from roofline.models.training.question import train

    if search and memory:
        raise InputError("--search and --memory are two answers", hint="leave one of them out")
    if explain and (search or memory or options["batch_tokens"] is None):
        raise InputError("--explain is of a step", hint="add --batch-tokens, as in --batch-tokens 4M")
    schedule(options["schedule"])  # a wrong name is said before that it takes --pipeline
    not_alone(_BESIDE)
    wanted = expectation_wanted(options)
    options["measured"] = wanted.pop("measured", None)
    check_chips_of_each(options)
    if search:
        _search(model, as_json, {**options, **wanted})
        return
    if memory:
        _memory(model, as_json, {**options, **wanted})
        return
    if options["batch_tokens"] is None:
        if wanted:
            raise InputError("what to expect is that of a step", hint="give --batch-tokens")
        _budget(model, as_json, options)
        return
    for name in ("days", "chip_hours"):
        if options.pop(name) is not None:
            word = name.replace("_", "-")
            raise InputError(f"--{word} is of a budget without a step", hint="leave --batch-tokens out, or give --mfu")
    options["tokens"] = _count("tokens", options["tokens"])
    for name in ("batch_tokens", "sequence"):
        options[name] = _sizes(name, options[name])
    options["microbatches"] = _parts(options["microbatches"])
    options["checkpoint"] = kept_each(options.pop("checkpoint"))
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        asked |= crossed_sizes({name: asked[name] for name in ("batch_tokens", "sequence", "microbatches")})
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        return train(asked.pop("model"), **arguments, **asked, **wanted)

    options["model"] = models_in(model)
    found = on_each(options, ask)
    if as_json and not isinstance(found, SideBySide | SideBySideBySize) and not is_array(found.lower):
        from roofline.models.training.advice import advise, best_mix, layouts_over_slices, limits

        mix = best_mix(found)
        scales, faster = [limit.to_dict() for limit in limits(found)], [line.to_dict() for line in advise(found)]
        show_json(
            {
                **found.to_dict(),
                "limits": scales,
                "mix": None if mix is None else mix.to_dict(),
                "advice": faster,
                "over_slices": [line.to_dict() for line in layouts_over_slices(found)],
            }
        )
        return
    if as_json or explain:
        show_answer(found, as_json, explain)
    else:
        show_changed(found, against_catalog(found, options, ask))


def _search(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """The fastest layout: options about it that are not given are tried. Exit code 3: none fits."""
    from roofline.plans.training import TRIED, search_training

    context = click.get_current_context()
    if options["batch_tokens"] is None:
        raise InputError("--search is about a step", hint="add --batch-tokens, as in --batch-tokens 4M")
    if len(targets(options["on"])) > 1:
        raise InputError("--search is on one machine", hint="ask once for each")
    for name in ("days", "chip_hours"):
        options.pop(name)
    for name in ("batch_tokens", "sequence", "tokens"):
        options[name] = _count(name, options[name])
    if options["microbatches"] is not None:
        options["microbatches"] = _parts(options["microbatches"])
        if is_array(options["microbatches"]):
            raise InputError("--search tries numbers of microbatches", hint="give one, or leave --microbatches out")
    for name in (*TRIED, "zero"):
        if not not_default(name):
            options[name] = None
    policy = options["checkpoint"]
    options["checkpoint"] = None if policy is None else kept(policy)
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        found = {name: value for name, value in {**arguments, **asked}.items() if value not in (None, (), {})}
        return search_training(model, **found)

    with working("trying layouts"):
        found = on_each(options, ask)
    show_answer(found, as_json)
    if not getattr(found, "meets", True):
        context.exit(3)


#: Options of what is held in all, which needs no layout.
_OF_MEMORY = (
    "batch_tokens", "checkpoint", "weights", "gradients", "moments", "master", "optimizer", "lora", "on", "set_",
    "files",
)  # fmt: skip


def _memory(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """Answer what training holds in all; an option about a layout is refused."""
    from roofline.models.training.memory import training_memory

    given = [name for name in options if name not in _OF_MEMORY and not_default(name)]
    policy = kept_each(options["checkpoint"]) if not_default("checkpoint") else "full"
    if policy != "full" and not isinstance(policy, int):
        given.append("checkpoint")
    if given:
        raise _of_a_step(model, given[0], options)
    not_alone({"checkpoint": ("batch_tokens",)})
    names = ("weights", "gradients", "moments", "master", "lora")
    figures = {name: options[name] for name in names if not_default(name)}
    tokens = _count("batch_tokens", options["batch_tokens"]) or 0

    def ask(asked: dict[str, Any]) -> Any:
        where = target_arguments(asked)
        return training_memory(
            asked["model"], tokens=tokens, checkpoint=policy, optimizer=options["optimizer"],
            **{name: where[name] for name in ("on", "set", "files")}, **figures,
        )  # fmt: skip

    found = on_each({**options, "model": models_in(model)}, ask)
    show_answer(found, as_json)


def _of_a_step(model: str, name: str, options: dict[str, Any]) -> InputError:
    """That an option is of one step, where ``--memory`` is of all chips together, with the line of that step."""
    from roofline.models.config import load

    params: dict[str, Any] = {each.name: each for each in click.get_current_context().command.params if each.name}
    word, several = word_of(params[name]), models_in(model)
    if load(several[0] if isinstance(several, list) else several).in_outline:
        stages = "a target of several chips lists every stage: --on h100:8"
        hint = stages if name in ("zero", "fsdp") else "a number of parameters has no steps: leave it out"
        return InputError(f"{word} says nothing about --memory", hint=hint)
    if name in _OF_BUDGETS and name != "checkpoint":
        return InputError(f"{word} says nothing about --memory", hint="ask for each by itself")
    usual = {"on": "--on=h100:8", "batch_tokens": "--batch-tokens=4M"}
    words = [word for other, word in usual.items() if not options[other]]
    for other, value in options.items():
        if not_default(other):
            values = value if isinstance(value, tuple) else (value,)
            flag = params[other].secondary_opts[-1:] if value is False else [word_of(params[other])]
            words += flag if params[other].is_flag else [f"{flag[0]}={each}" for each in values]
    asked = shlex.join([model, *words])
    why = f"{word} is of one step, and --memory is of training in all, without a layout"
    return InputError(why, hint=f"a step lists its own memory: roofline train {asked}")


def _budget(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """Answer for a token budget without a step; an option about steps is refused."""
    tokens = _count("tokens", options["tokens"])
    if tokens is None:
        raise InputError(
            "--batch-tokens is missing",
            hint="tokens of one step over all chips, as in --batch-tokens 4M; or --tokens alone: a budget",
        )
    not_alone({name: ("batch_tokens",) for name in options if name not in (*_OF_BUDGETS, "batch_tokens")})
    from roofline.models.training.budget import budget

    figures = {name: options[name] for name in ("mfu", "days", "chip_hours", "price", "power", "weights")}
    if not_default("checkpoint"):
        figures["checkpoint"] = options["checkpoint"]

    def ask(asked: dict[str, Any]) -> Any:
        where = target_arguments(asked)
        return budget(
            asked["model"], tokens=tokens, **{name: where[name] for name in ("on", "set", "files")}, **figures
        )

    found = on_each({**options, "model": models_in(model)}, ask)
    show_answer(found, as_json)


def _sizes(name: str, text: str | None) -> Any:
    """Read tokens of a step or a sequence: a number, or a list or range of them."""
    if text is None or not (is_list(text) or ":" in text):
        return _count(name, text)
    each = text.split(",") if "," in text else map(str, parse_size(name, text))
    return check(name, [_count(name, one) for one in each])


def _parts(text: str | None) -> Any:
    """Read microbatches: a number, or a list or range of them."""
    found = model_size("microbatches", text, "number of parts", "as in 8, or several: 8,16,32")
    return None if found is None else check("microbatches", found)


def _count(name: str, text: str | None) -> int | None:
    """Read a whole number, which may be written as 4e6, 4M or 15T."""
    if text is None:
        return None
    value = count(text, billion=True)
    if not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(
            f"--{name.replace('_', '-')} {text!r} is not a number of tokens", hint="as in 65536, 4e6 or 4M"
        )
    return value
