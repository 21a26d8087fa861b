"""``roofline formula``: the closed form of a bound, its terms, flips and elasticities; as LaTeX, JavaScript, Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import model_arguments, without_model
from roofline.cli.option_table import MESH, MODEL_QUESTION, SEVERAL, WORK, options, with_options
from roofline.cli.option_values import one_expression, question_arguments, split_words, targets
from roofline.cli.output import show, show_json
from roofline.errors import InputError


@command_named("formula", "on phase batch prompt context tensor weights kv latex js python json")
@argument("words", nargs=-1, metavar="EXPRESSION|MODEL [SIZE=VALUE]...", values="model")
@with_options(SEVERAL, MODEL_QUESTION, MESH, WORK, options("latex js python json"))
def command(words: tuple[str, ...], language: str | None, as_json: bool, **options: Any) -> None:
    """The closed form of a bound: terms by resource, which one binds, where that flips, and what it depends on.

    A shipped model's name, a path or a hub id is read as a model, anything else as notation. That of a program comes
    from roofline trace --formula.

    \b
    roofline formula "bf16[B, D] * int8[D, F]" --on v5e B=64 D=8192 F=8192
    roofline formula llama-3-70b --phase decode --on h200:8 --tensor 8 --batch 64 --context 8192
    roofline formula llama-3-8b --phase train --on h100:8 --js
    """
    check_one_answer(language, as_json)
    asked, sizes = split_words(words)
    text = one_expression(asked)
    chips = targets(options.pop("on"))
    found = [_formula(text, on, sizes, dict(options)) for on in chips]
    show_formulas(found, language, as_json)


def check_one_answer(language: str | None, as_json: bool) -> None:
    """Refuse two forms of one answer."""
    if language and as_json:
        raise InputError("--json and a program are two answers", hint="leave one of them out")


#: How a comment begins in each language.
COMMENT = {"python": "#", "javascript": "//", "latex": "%"}


def show_formulas(found: Sequence[Any], language: str | None, as_json: bool) -> None:
    """Print closed forms, as programs of ``language`` where it is given; of several each has a name of its own."""
    if as_json:
        show_json(found[0].to_dict() if len(found) == 1 else [each.to_dict() for each in found])
        return
    for index, each in enumerate(found):
        if index:
            click.echo()
        if language is None:
            show(each)
            continue
        if len(found) > 1:
            click.echo(f"{COMMENT[language]} {each.expression} on {each.machine.name}")
        click.echo(each.printed(language, "bound" if len(found) == 1 else _name_of(each, index)))


def _name_of(formula: Any, index: int) -> str:
    """The name of one of several functions: by its chip."""
    key = "".join(letter if letter.isalnum() else "_" for letter in formula.machine.key or "")
    return f"bound_{index + 1}_{key}".rstrip("_")


def _formula(text: str | None, on: str | None, sizes: dict[str, Any], options: dict[str, Any]) -> Any:
    several = next((name for name, value in sizes.items() if isinstance(value, list)), None)
    if several is not None:
        raise InputError(
            f"size {several} has several values", hint="a formula is shown at one; roofline sweep takes several"
        )
    options["on"] = on
    from roofline.models.config import is_model

    if text is not None and is_model(text):
        from roofline.models.closed_form import formula

        if sizes:
            name = next(iter(sizes))
            raise InputError(f"{name}= is no size of a model", hint="sizes are options: --batch, --context, --prompt …")
        phase, arguments = model_arguments(options, several=False)
        return formula(text, phase, **arguments)
    from roofline.bounds.api import question
    from roofline.bounds.closed_form import question_formula
    from roofline.bounds.idle import refuse_idle, refuse_idle_on_plan

    without_model(options)
    asked = question(text, sizes=sizes, **question_arguments(options, sizes))
    refuse_idle(asked)
    refuse_idle_on_plan(asked)
    return question_formula(asked, every=True)
