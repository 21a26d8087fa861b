"""``roofline scaling``: from which batch or width on, and up to how many chips, does a layer scale?"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.cli.command import Option, argument, command_named, not_default, word_of
from roofline.cli.option_table import NETWORK, SEVERAL, option, options, with_options
from roofline.cli.option_values import convention_arguments, on_each, parse_mesh, split_words, target_arguments
from roofline.cli.output import show, show_json
from roofline.errors import InputError
from roofline.sections import Column, Row, Section, Table, Words


@command_named("scaling")
@argument("words", nargs=-1, metavar="[CONDITION]... [SIZE=VALUE]...", values="condition")
@with_options(
    option("for", name="unknown", help="Another size, or the number of chips along an axis (Y)."),
    option("dtype", default="bf16", help="Dtype of weights and activations."),
    option("weights", help="Dtype of weights, where it is another."),
    *options("torus-axes network"),
    *SEVERAL,
    *NETWORK,
    option("json"),
)
def command(words: tuple[str, ...], torus_axes: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """From which batch or width on, and up to how many chips, does a layer scale? Without a condition, list them.

    \b
    roofline scaling dp fsdp tp --on v5p
    roofline scaling fsdp --on v5p --torus-axes X=3
    roofline scaling tp --for Y --on v5p F=30000
    roofline scaling mixed --on v5p --torus-axes X=2 F=32768 B=2e6 N=4096
    roofline scaling fsdp --on v5p:16x20x28 B=1024*4096
    """
    names, sizes = split_words(words)
    if not names:
        _refuse_beside_a_list(sizes)
        if as_json:
            from roofline.bounds.scaling_conditions import list_conditions

            columns = ("condition", "says", "answer")
            show_json([dict(zip(columns, row, strict=True)) for row in list_conditions()])
            return
        show(_listed())
        return
    from roofline.bounds.scaling import scaling

    if not options["on"]:
        raise InputError("the target is missing", hint="for instance --on v5p, or --on dgx-h100:1024")
    axes = parse_mesh(torus_axes, "torus-axes", "COUNT")

    def ask(name: str, asked: dict[str, Any]) -> Any:
        arguments = {**target_arguments(asked), **convention_arguments(asked), **asked}
        return scaling(name.lower(), **{"algorithm": "book", **arguments, "torus_axes": axes, "sizes": sizes})

    found = [on_each(options, partial(ask, name)) for name in names]
    if as_json:
        several = {"schema": "roofline/scalings/1", "conditions": [each.to_dict() for each in found]}
        show_json(found[0].to_dict() if len(found) == 1 else several)
        return
    for index, each in enumerate(found):
        if index:
            click.echo()
        show(each)


def _refuse_beside_a_list(sizes: dict[str, Any]) -> None:
    """Without a condition they are listed: then a size and any option but ``--json`` and ``-o`` say nothing."""
    context = click.get_current_context()
    given = [
        word_of(each) for each in context.command.params
        if isinstance(each, Option) and each.name not in ("as_json", "report_file") and not_default(each.name or "")
    ]  # fmt: skip
    idle = next(iter([*sizes, *given]), None)
    if idle is not None:
        raise InputError(f"{idle} says nothing without a condition", hint="as in: roofline scaling fsdp --on v5p")


def _listed() -> list[Section]:
    """The conditions with what they say and what is solved for."""
    from roofline.bounds.scaling_conditions import list_conditions

    columns = (Column("condition"), Column("answer"), Column("what it says", wrap="words"))
    return [Table(columns, [Row((Words(name, "strong"), what, says)) for name, says, what in list_conditions()])]
