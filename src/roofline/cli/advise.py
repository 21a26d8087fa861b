"""``roofline advise``: what would move the bound, and by how much?"""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import MESH, TARGET, WORK, option, with_options
from roofline.cli.option_values import one_expression, question_arguments, split_words
from roofline.cli.output import show, show_json


@command_named("advise", "on than set over warm flops bytes dtype json")
@argument("words", nargs=-1, metavar="[EXPRESSION] [SIZE=VALUE]...")
@with_options(TARGET, MESH, WORK, option("than"), option("json"))
def command(words: tuple[str, ...], others: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """What would move the bound, and by how much? Every line equals a fresh 'roofline bound'.

    \b
    roofline advise "h = bf16[B, D] * bf16[D, F]; gelu(h)" --on h100 B=128 D=4096 F=16384
    """
    from roofline.bounds.advice_engine import OTHER_CHIPS
    from roofline.bounds.advise import advise
    from roofline.bounds.api import bound
    from roofline.bounds.idle import NOT_REPEATED, refuse_idle

    expressions, sizes = split_words(words)
    answer = bound(one_expression(expressions), sizes=sizes, **question_arguments(options, sizes))
    if answer.question is not None:
        refuse_idle(answer.question, uses=NOT_REPEATED)
    found = advise(answer, chips=others or OTHER_CHIPS)
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
