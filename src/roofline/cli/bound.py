"""Commands about a line on a machine: ``roofline bound`` and ``advise``."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import ESTIMATE, EXPECT, MESH, SEVERAL, WORK, option, options, with_options
from roofline.cli.option_values import (
    against_catalog,
    expectation_wanted,
    is_list,
    on_each,
    one_expression,
    question_arguments,
    split_words,
    targets,
)
from roofline.cli.output import is_kept, show, show_answer
from roofline.sections import BLANK, Sentences


@command_named("bound", "on flops bytes dtype set over warm policy estimate measured price explain json")
@argument("words", nargs=-1, metavar="[EXPRESSION] [SIZE=VALUE]...")
@with_options(SEVERAL, MESH, WORK, ESTIMATE, EXPECT, options("measured price power explain json"))
def bound_command(words: tuple[str, ...], explain: bool, as_json: bool, **options: Any) -> None:
    """How fast can this run here at best, and what limits it?

    Attention reads q[B, S, N, H] (batch, queries, heads, head size), k[B, T, K, H] and v[B, T, K, H].

    \b
    roofline bound "bf16[B, D] * int8[D, F] -> bf16[B, F]" --on v5e B=64 D=8192 F=8192
    roofline bound "softmax(fp32[8, 32, 2048, 2048])" --on h100
    roofline bound "bf16[8192, 8192] * bf16[8192, 8192]" --on a100,h100,b200
    roofline bound "x = relu(bf16[8192, 8192]); sum(x)" --on h100 --policy each-op,minimal
    roofline bound "bf16[B, D] * bf16[D, F]" --on h100 B=64 D=8192 F=8192 -o report.html
    roofline bound --flops 1e12 --bytes 2e9 --dtype bf16 --on h100
    """
    from roofline.bounds.api import bound

    expressions, sizes = split_words(words)
    wanted = expectation_wanted(options)
    line = one_expression(expressions)

    def ask(asked: dict[str, Any]) -> Any:
        costs = {name: asked.pop(name) for name in ("price", "power")}
        return bound(line, sizes=sizes, **question_arguments(asked, sizes), **costs, **wanted)

    several = is_list(options["policy"])
    answer = on_each(options, ask, measured=wanted.get("measured"))
    if as_json or several or len(targets(options["on"])) > 1 or (explain and not is_kept()):
        show_answer(answer, as_json, explain)
    else:
        from roofline.bounds.advise import advice_table, advise

        advice = advise(answer)[:4] if isinstance(answer.bound_by, str) else ()
        changed = Sentences(against_catalog(answer, options, ask), "strong")
        beside = [changed, *[BLANK] * bool(advice)] if changed.lines else []
        show(answer.sections([*beside, *([advice_table(advice)] if advice else ())]), of=answer)


@command_named("advise", "on than set over warm flops bytes dtype json")
@argument("words", nargs=-1, metavar="[EXPRESSION] [SIZE=VALUE]...")
@with_options(SEVERAL, MESH, WORK, option("than"), option("json"))
def advise_command(words: tuple[str, ...], others: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """What would move the bound, and by how much? Every line equals a fresh 'roofline bound'.

    \b
    roofline advise "h = bf16[B, D] * bf16[D, F]; gelu(h)" --on h100 B=128 D=4096 F=16384
    roofline advise "bf16[B, D] * bf16[D, F]" --on h100,a100 B=64 D=8192 F=8192
    """
    from roofline.bounds.advice_engine import OTHER_CHIPS
    from roofline.bounds.advise import advise
    from roofline.bounds.api import bound
    from roofline.bounds.question import NOT_REPEATED, refuse_idle

    expressions, sizes = split_words(words)
    line = one_expression(expressions)

    def ask(asked: dict[str, Any]) -> Any:
        answer = bound(line, sizes=sizes, **question_arguments(asked, sizes))
        if answer.question is not None:
            refuse_idle(answer.question, uses=NOT_REPEATED)
        return advise(answer, chips=others or OTHER_CHIPS)

    show_answer(on_each(options, ask), as_json)
