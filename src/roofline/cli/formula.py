"""Commands about closed forms: ``roofline formula`` and ``solve``; as LaTeX, JavaScript, Python, C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import model_arguments, without_model
from roofline.cli.option_table import MESH, MODEL_QUESTION, SEVERAL, WORK, option, options, with_options
from roofline.cli.option_values import on_each, one_expression, question_arguments, split_words, targets
from roofline.cli.output import show, show_answer, show_json, show_program
from roofline.errors import InputError
from roofline.formulas.printers import PRINTED
from roofline.quantity import whole_number


@command_named("formula", "on phase batch prompt context tensor weights kv latex js python c json")
@argument("words", nargs=-1, metavar="EXPRESSION|MODEL [SIZE=VALUE]...", values="model")
@with_options(SEVERAL, MODEL_QUESTION, MESH, WORK, options("latex js python c json"))
def formula_command(words: tuple[str, ...], language: str | None, as_json: bool, **options: Any) -> None:
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
    if any(each.invalid for each in found):
        click.get_current_context().exit(3)


def check_one_answer(language: str | None, as_json: bool) -> None:
    """Refuse two forms of one answer."""
    if language and as_json:
        raise InputError("--json and a program are two answers", hint="leave one of them out")


def show_formulas(found: Sequence[Any], language: str | None, as_json: bool) -> None:
    """Print closed forms, as programs of ``language`` where it is given; of several each has a name of its own."""
    if as_json:
        show_json(found[0].to_dict() if len(found) == 1 else [each.to_dict() for each in found])
        return
    for index, each in enumerate(found):
        if language is None:
            if index:
                click.echo()
            show(each)
            continue
        head = f"{PRINTED[language].comment} {each.expression} on {each.of_chips}\n" if len(found) > 1 else ""
        name = "bound" if len(found) == 1 else _name_of(each, index)
        show_program(f"{chr(10) * bool(index)}{head}{each.printed(language, name)}")


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
    from roofline.hardware.open_counts import open_shape
    from roofline.models.closed_form import formula
    from roofline.models.config import is_model

    if text is not None and is_model(text):
        chips = (open_shape(on) or ("", (), ""))[2]
        name = next((name for name in sizes if name != chips), None)
        if name is not None:
            raise InputError(f"{name}= is no size of a model", hint="sizes are options: --batch, --context, --prompt …")
        phase, arguments = model_arguments(options, several=False)
        return formula(text, phase, **arguments, **sizes)
    without_model(options)
    return formula(text, sizes=sizes, **question_arguments(options, sizes))


@command_named("solve", "for time equal bandwidth on set over flops bytes dtype policy latex json")
@argument("words", nargs=-1, metavar="[EXPRESSION]... [SIZE=VALUE]...")
@with_options(option("for", required=True), options("bandwidth equal time"))
@with_options(SEVERAL, MESH, WORK, options("latex js python c json"))
def solve_command(
    words: tuple[str, ...],
    for_: str,
    bandwidths: tuple[str, ...],
    equal: str | None,
    time: str | None,
    language: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """At which size, bandwidth, peak or dtype does the bottleneck flip? Where do two expressions cost the same?

    \b
    roofline solve "bf16[B, D] * int8[D, F] -> bf16[B, F]" --for B --on v5e D=4096 F=4096
    roofline solve "bf16[B, D] * bf16[D, F]" --for hbm --on h100 B=64 D=8192 F=8192
    roofline solve "bf16[B, D] * bf16[D, F]" --for B --time 1ms --on h100 D=8192 F=28672
    roofline solve llama-3-8b --for hbm --time 5ms --on h100 batch=8 context=4096
    roofline solve --for intensity --on v5e --bandwidth 4.1e11 --bandwidth 8.2e11
    roofline solve "bf16[B, D] * bf16[D, F]" "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]" --for M
    """
    check_one_answer(language, as_json)
    expressions, sizes = split_words(words)
    compared = _two(expressions, equal)
    expression = None if compared else one_expression(expressions)
    if bandwidths and for_ != "intensity":
        raise InputError("--bandwidth goes with --for intensity", hint="set a figure with --set hbm=8.2e11")
    if time is not None and (compared or for_ == "intensity" or for_.partition(":")[0] == "dtype"):
        raise InputError("--time is of one line and a size or rate of it", hint="as in --for B --time 1ms")
    if for_ in ("ridge", "critical-intensity", "critical_intensity"):
        raise InputError(f"--for {for_} is not an unknown", hint="the ridge of a machine is --for intensity")

    def ask(asked: dict[str, Any]) -> Any:
        arguments = question_arguments(asked, sizes)
        if compared:
            from roofline.bounds.solve_equal import solve_equal

            given: dict[str, Any] = {n: value for n, value in arguments.items() if value not in (None, (), {}, [])}
            first, second = compared
            return solve_equal(first, second, for_, quantity=equal or "flops", sizes=sizes, **given)
        if for_ == "intensity" and expression is None:
            return _zones(arguments, bandwidths)
        if for_.partition(":")[0] == "dtype" and expression is not None:
            return _dtypes(expression, for_, sizes, arguments)
        from roofline.bounds.solve import solve

        return solve(expression, for_, sizes=sizes, time=time, **arguments)

    found = on_each(options, ask)
    if language is not None:
        answers = getattr(found, "answers", [found])
        if not hasattr(answers[0], "printed"):
            raise InputError("only where one line flips is a formula", hint="leave the language out")
        for each in answers:
            head = (
                f"{PRINTED[language].comment} {each.question.expression} on {each.target}\n" if len(answers) > 1 else ""
            )
            show_program(f"{head}{each.printed(language)}")
    else:
        show_answer(found, as_json)


def _two(expressions: list[str], equal: str | None) -> list[str]:
    """The two expressions of a comparison, none where one is asked about."""
    if len(expressions) == 2 and all("[" in text for text in expressions):
        return expressions
    if equal is not None:
        raise InputError("--equal compares two expressions", hint="write both, each as one word in quotes")
    return []


def _zones(arguments: dict[str, Any], bandwidths: tuple[str, ...]) -> Any:
    from roofline.bounds.api import TARGET_OPTIONS
    from roofline.bounds.ridges import zones

    machine = {name: arguments[name] for name in ("on", *TARGET_OPTIONS)}
    return zones(bandwidths=bandwidths, dtype=arguments["dtype"] or "bf16", **machine)


def _dtypes(expression: str, for_: str, sizes: dict[str, Any], arguments: dict[str, Any]) -> Any:
    from roofline.bounds.solve import solve_dtypes

    text = for_.partition(":")[2] or "0"
    operand = whole_number(text)
    if operand is None:
        raise InputError(f"--for {for_!r} does not name an operand", hint="dtype:0 is the first, dtype:1 the second")
    return solve_dtypes(expression, operand, sizes=sizes, **arguments)
