"""``roofline sweep``: a table over a grid of sizes."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.options import (
    ESTIMATE,
    MESH,
    TARGET,
    WORK,
    one_expression,
    question_arguments,
    split_words,
    with_options,
)
from roofline.cli.output import show, show_json
from roofline.errors import InputError

#: Rows above which JSON gives way to a file.
MOST_JSON = 100_000


@click.command("sweep")
@click.argument("words", nargs=-1, metavar="[EXPRESSION] [SIZE=VALUES]...")
@with_options(TARGET, MESH, WORK, ESTIMATE)
@click.option(
    "--columns", metavar="NAMES", help="Columns, comma-separated: lower,upper,attainable,intensity,bound_by,fits …"
)
@click.option("-o", "--output", metavar="FILE", help="Write .csv, .json, .npz or .parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON in SI units.")
def command(words: tuple[str, ...], columns: str | None, output: str | None, as_json: bool, **options: Any) -> None:
    """A table over all combinations of the sizes: lists, ranges, formulas.

    \b
    roofline sweep "bf16[B, D] * bf16[D, F]" --on h100 B=1:4096:*2 D=4096,8192 F=4*D -o grid.csv
    """
    from roofline.bounds.sweep import sweep

    expressions, sizes = split_words(words, lists=True)
    found = sweep(one_expression(expressions), columns=columns, sizes=sizes, **question_arguments(options, sizes))
    if output is not None:
        found.save(output)
        click.echo("\n".join([f"wrote {len(found)} rows to {output}", *_not_timed(found)]))
    elif as_json:
        if len(found) > MOST_JSON:
            raise InputError(f"{len(found)} rows are too many for JSON on a terminal", hint="write a file: -o grid.npz")
        show_json(found.to_dict())
    else:
        show(found, whole=True)


def _not_timed(found: Any) -> list[str]:
    return [f"incomplete  {line}" for line in found.incomplete]
