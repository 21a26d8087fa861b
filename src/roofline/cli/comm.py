"""``roofline comm``: how long a collective takes, by which algorithm."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named, not_default
from roofline.cli.option_table import EXPECT, MESH, SEVERAL, option, options, with_options
from roofline.cli.option_values import (
    convention_arguments,
    expectation_wanted,
    is_list,
    on_each,
    one_expression,
    split_words,
    target_arguments,
)
from roofline.cli.output import show, show_explained, show_json
from roofline.errors import InputError


@command_named("comm", "on bytes bytes-per-chip dtype estimate measured algorithm sharp mesh wrap set explain json")
@argument("words", nargs=-1, metavar="COLLECTIVE [SIZE=VALUE]...")
@with_options(SEVERAL, MESH, EXPECT)
@with_options(
    option("bytes", name="bytes", help="With a collective's name: bytes of the array, all shards together."),
    option(
        "bytes-per-chip",
        help="Instead: bytes that each chip holds before: the array for an allreduce or a reduce-scatter, its part of "
        "it for an allgather or an alltoall.",
    ),
    option("dtype", default="bf16", help="Format of that array."),
    *options("measured explain json"),
)
def command(
    words: tuple[str, ...],
    bytes: str | None,
    bytes_per_chip: str | None,
    dtype: str,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """How long a collective takes on this network, by which algorithm, and what else would do it.

    \b
    roofline comm "AllGather_Y(bf16[2048_Y, 8192])" --on v5e:8x4
    roofline comm allreduce 500MB --on h100:8
    roofline comm allreduce --bytes 28GB,14GB --algorithm ring --on h100:32x8
    roofline comm alltoall --bytes-per-chip 64MB --on h100:16,v5e:4x4
    roofline comm "AllReduce_X(bf16[B, D] {U_X})" --on dgx-h100:1024 --sharp B=8192 D=8192
    """
    from roofline.bounds.communication import comm

    expressions, sizes = split_words(words)
    named = len(expressions) == 2 and expressions[0].isalpha() and expressions[1][:1].isdigit()
    expression = " ".join(expressions) if named else one_expression(expressions)
    if expression is None:
        raise InputError("the collective is missing", hint="for instance 'AllGather_X(bf16[B_X, D])'")
    amounts = {"bytes": bytes, "bytes_per_chip": bytes_per_chip}
    given: dict[str, Any] = {name: amount for name, amount in amounts.items() if amount is not None}
    given |= {"dtype": dtype} if given or not_default("dtype") else {}

    wanted = expectation_wanted(options)
    lists = [name for name, text in given.items() if is_list(text)]
    if lists and "measured" in wanted:
        raise InputError("--measured is a time of one collective", hint="give one number of bytes, and one format")

    def ask(asked: dict[str, Any]) -> Any:
        one = {name: asked.pop(name) for name in given}
        chosen = {**target_arguments(asked), **convention_arguments(asked)}
        return comm(expression, sizes=sizes, **one, **chosen, **wanted)

    found = on_each({**options, **given}, ask, *lists)
    if as_json:
        show_json(found.to_dict())
    elif explain:
        show_explained(found)
    else:
        show(found)
