"""``roofline shard``: every legal plan of a sharded expression, ranked."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import COUNTING, ESTIMATE, NETWORK, TARGET, option, options, with_options
from roofline.cli.option_values import one_expression, question_arguments, split_words
from roofline.cli.output import show, show_json
from roofline.errors import InputError


@command_named("shard", "on mesh link algorithm uneven use set overlap overhead json")
@argument("words", nargs=-1, metavar="EXPRESSION [SIZE=VALUE]...")
@with_options(TARGET, NETWORK, options("uneven use density"), COUNTING, ESTIMATE, option("json"))
def command(words: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Every legal plan of a sharded expression: what is sent, before or after, over which operand; best first.

    \b
    roofline shard "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]" --on v5p:4x4x4 I=8192 J=8192 K=8192
    roofline shard "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]" --on v5e:16 B=16384 D=8192 F=32768
    """
    from roofline.bounds.shard import shard

    expressions, sizes = split_words(words)
    expression = one_expression(expressions)
    if expression is None:
        raise InputError("the expression is missing", hint="for instance 'A[I, J_X] * B[J_X, K] -> C[I, K]'")
    found = shard(expression, sizes=sizes, **question_arguments(_without_raw(given)))
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)


def _without_raw(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "flops": None, "bytes_": None, "intensity": None, "dtype": None}
