"""``roofline train``: the floor of training a model."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.model_options import not_alone
from roofline.cli.options import (
    BYTES,
    ESTIMATE,
    EXPECT,
    SEVERAL,
    convention_arguments,
    expectation_asked,
    on_each,
    target_arguments,
    with_options,
)
from roofline.cli.output import show, show_json
from roofline.cli.values import FRACTION, POWER, PRICE
from roofline.errors import InputError
from roofline.quantity import count
from roofline.sizes import LARGEST

#: Options that say nothing without another.
_BESIDE = {
    **dict.fromkeys(("schedule", "chunks"), ("pipeline",)),
    **dict.fromkeys(("price", "power", "days", "chip_hours"), ("tokens",)),
    "sequence_parallel": ("tensor",),
}

#: Options of a token budget, which needs no step; all others are about one.
_OF_BUDGETS = ("tokens", "mfu", "price", "power", "days", "chip_hours", "weights", "on", "set_", "files", "as_json")


@click.command("train")
@click.argument("model", metavar="MODEL")
@with_options(SEVERAL)
@click.option("--batch-tokens", metavar="N", help="Tokens of one step over all chips, as in 4e6.")
@click.option("--sequence", metavar="N", help="Tokens of a sequence (default 4096, or the most it takes).")
@click.option("--data", type=int, metavar="N", help="Copies of the model (default 1; over slices one on each).")
@click.option("--pipeline", type=int, default=1, show_default=True, metavar="N", help="Stages that hold some layers.")
@click.option("--schedule", default="1f1b", show_default=True, metavar="NAME", help="gpipe, 1f1b, interleaved, zb-h1.")
@click.option("--chunks", type=int, default=1, show_default=True, metavar="N", help="Pieces a stage (interleaved).")
@click.option(
    "--micro-batches",
    "--microbatches",
    "microbatches",
    type=int,
    metavar="N",
    help="Parts of a step (default 1; with stages one a sequence).",
)
@click.option("--fsdp", type=int, metavar="N", help="Chips that share one copy by --zero (default: what is left).")
@click.option("--tensor", type=int, default=1, show_default=True, metavar="N", help="Chips that split each layer.")
@click.option("--expert", type=int, default=1, show_default=True, metavar="N", help="Chips that hold whole experts.")
@click.option(
    "--expert-exchange", metavar="HOW", help="all-to-all (default where tokens are sent), per-expert, all-reduce."
)
@click.option(
    "--context-parallel", type=int, default=1, show_default=True, metavar="N", help="Chips that share each sequence."
)
@click.option("--sequence-parallel/--no-sequence-parallel", default=True, help="Tensor: tokens split between blocks.")
@click.option("--algorithm", metavar="NAME", help="Of the collectives (default: the fastest at each size).")
@click.option("--zero", type=int, default=3, show_default=True, metavar="STAGE", help="0 nothing … 3 weights too.")
@click.option(
    "--checkpoint",
    default="selective",
    show_default=True,
    metavar="POLICY",
    help="none, selective, matmuls, full, how many hidden states a layer keeps, or modules (layernorm,mla_up_proj).",
)
@click.option("--saved-activations", metavar="DTYPE", help="Format that activations wait in (default: their own).")
@click.option("--unfused", is_flag=True, help="Attention writes its scores and probabilities to memory.")
@click.option(
    "--optimizer", "using", default="adam", show_default=True, metavar="NAME", help="adam, lion, momentum, sgd."
)
@click.option("--weights", metavar="DTYPE", help="Format of weights and activations (default: the model's own).")
@click.option("--gradients", metavar="DTYPE", help="Format of gradients (default: as weights).")
@click.option("--moments", default="fp32", show_default=True, metavar="DTYPE", help="Format of optimizer states.")
@click.option("--master", default="fp32", show_default=True, metavar="DTYPE", help="Second copy of weights, or none.")
@click.option("--tokens", metavar="N", help="A token budget, as in 15e12.")
@click.option("--mfu", callback=FRACTION, metavar="FRACTION", help="A stated utilisation in place of the floor.")
@click.option(
    "--measured", metavar="TIME", help="What a step takes in reality (14.2s): MFU, and how far off the floor."
)
@click.option(
    "--days", callback=FRACTION, metavar="DAYS", help="Without a step: days of the budget; gives MFU or chips."
)
@click.option("--chip-hours", callback=FRACTION, metavar="HOURS", help="Without a step: hours of all chips; gives MFU.")
@click.option("--price", callback=PRICE, metavar="DOLLARS", help="Of one chip for an hour.")
@click.option("--power", callback=POWER, metavar="WATTS", help="Of one chip (default: its data sheet's).")
@with_options(BYTES["minimal"])
@click.option("--full-attention", is_flag=True, help="Count every pair of query and key, masked or not.")
@with_options(ESTIMATE, EXPECT)
@click.option("--search", is_flag=True, help="The fastest layout that fits: what is not given is tried.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON in SI units.")
def command(model: str, as_json: bool, search: bool, **options: Any) -> None:
    """The floor of a training step: time, what binds, memory by part; days and cost of a token budget.

    MODEL is a shipped name (see 'roofline model'), a config.json, a folder that holds one, or a number of parameters.
    Without --batch-tokens the answer is that of the token budget: 6 FLOPs a parameter and token.

    \b
    roofline train 70e9 --on v5p:16x20x28 --tokens 15e12 --mfu 0.4
    roofline train deepseek-v3 --on h800 --tokens 14.8e12 --chip-hours 2.664e6 --price 2
    roofline train llama-3-8b --on h100:8 --batch-tokens 65536
    roofline train llama-3-8b --on h100:64,b200:64 --batch-tokens 4M --tokens 15T
    roofline train llama-3-70b --on v5p:16x16x16 --batch-tokens 4e6 --tensor 8 --checkpoint full --tokens 15e12
    """
    from roofline.bounds.comparison import SideBySide
    from roofline.models.parallelism.schedules import schedule
    from roofline.models.training import train

    schedule(options["schedule"])  # a wrong name is said before that it takes --pipeline
    not_alone(_BESIDE)
    estimates, expect = options["estimate"], expectation_asked(options)
    if search and estimates:
        raise InputError("--search compares floors", hint="estimate the layout that it finds, without --search")
    if search:
        _search(model, as_json, options)
        return
    if options["batch_tokens"] is None:
        if estimates:
            raise InputError("what to expect is that of a step", hint="give --batch-tokens")
        _budget(model, as_json, options)
        return
    for name in ("days", "chip_hours"):
        if options.pop(name) is not None:
            word = name.replace("_", "-")
            raise InputError(f"--{word} is of a budget without a step", hint="leave --batch-tokens out, or give --mfu")
    for name in ("batch_tokens", "sequence", "tokens"):
        options[name] = _count(name, options[name])
    kept = options.pop("checkpoint")
    options["checkpoint"] = int(kept) if kept.isdecimal() else kept
    if options["master"] == "none":
        options["master"] = None
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        return expect(train(model, **arguments, **asked))

    found = on_each(options, ask)
    if as_json and isinstance(found, SideBySide):
        show_json(found.to_dict())
        return
    if as_json:
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
    show(found)


def _search(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """The fastest layout: options about it that are not given are tried. Exit code 3: none fits."""
    from roofline.plans.training import TRIED, search_training

    context = click.get_current_context()
    if options["batch_tokens"] is None:
        raise InputError("--search is about a step", hint="add --batch-tokens, as in --batch-tokens 4M")
    for name in ("days", "chip_hours"):
        options.pop(name)
    for name in ("batch_tokens", "sequence", "tokens"):
        options[name] = _count(name, options[name])
    for name in TRIED:
        if context.get_parameter_source(name) == ParameterSource.DEFAULT:
            options[name] = None
    kept = options["checkpoint"]
    options["checkpoint"] = int(kept) if kept is not None and kept.isdecimal() else kept
    if options["master"] == "none":
        options["master"] = None
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        found = {name: value for name, value in {**arguments, **asked}.items() if value not in (None, (), {})}
        if options["master"] is None:
            found["master"] = None
        return search_training(model, **found)

    found = on_each(options, ask)
    show_json(found.to_dict()) if as_json else show(found)
    if not getattr(found, "meets", True):
        context.exit(3)


def _budget(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """Answer for a token budget without a step; an option about steps is refused."""
    tokens = _count("tokens", options["tokens"])
    if tokens is None:
        raise InputError(
            "--batch-tokens is missing",
            hint="tokens of one step over all chips, as in 4e6; or --tokens alone, a budget by 6·parameters·tokens",
        )
    not_alone({name: ("batch_tokens",) for name in options if name not in (*_OF_BUDGETS, "batch_tokens")})
    from roofline.models.training.budget import budget

    figures = {name: options[name] for name in ("mfu", "days", "chip_hours", "price", "power", "weights")}

    def ask(asked: dict[str, Any]) -> Any:
        where = target_arguments(asked)
        return budget(model, tokens=tokens, **{name: where[name] for name in ("on", "set", "files")}, **figures)

    found = on_each(options, ask)
    show_json(found.to_dict()) if as_json else show(found)


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
