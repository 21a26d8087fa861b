"""``roofline sweep``: a table over a grid of sizes; of a model, over chips, layouts and formats too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import model_arguments, without_model
from roofline.cli.option_table import (
    BLOCKS,
    ESTIMATE,
    EXPECT,
    MESH,
    MODEL_QUESTION,
    SEVERAL,
    WORK,
    option,
    options,
    output_option,
    with_options,
)
from roofline.cli.option_values import (
    blocks_asked,
    expectation_wanted,
    one_expression,
    question_arguments,
    split_words,
    targets,
)
from roofline.cli.output import show_answer, show_chart, working, wrote
from roofline.errors import InputError
from roofline.signatures import listed_names

#: Rows above which JSON gives way to a file.
MOST_JSON = 100_000


@command_named("sweep", "on batch prompt context tensor weights kv estimate columns json")
@argument("words", nargs=-1, metavar="[EXPRESSION|MODEL] [SIZE=VALUES]...", values="model")
@with_options(SEVERAL, MODEL_QUESTION, MESH, WORK, ESTIMATE, EXPECT)
@with_options(
    options("tpot ttft price columns"),
    output_option("Write a table (.csv, .json, .npz, .parquet) or a picture (.svg, .png, .pdf); blocks to grid/."),
    option("kind", metavar="[time-map|limit-map|…]"),
    BLOCKS,
    option("json"),
)
def sweep_command(
    words: tuple[str, ...], columns: str | None, output: str | None, kind: str | None, as_json: bool, **options: Any
) -> None:
    """A table over all combinations of the sizes: lists, ranges, formulas; of a model, of chips and layouts too.

    A shipped model's name, a path or a hub id is read as a model, anything else as notation.

    \b
    roofline sweep "bf16[B, D] * bf16[D, F]" --on h100 B=1:4096:*2 D=4096,8192 F=4*D -o grid.csv
    roofline sweep "bf16[B, D] * bf16[D, F]" --on h100,h200 B=1:8 D=8192 F=8192
    roofline sweep llama-3-70b --on h100:8,h200:8 --tensor 4,8 --batch 1:512 --context 1024:131072:*2 -o grid.parquet
    roofline sweep llama-3-70b --on h100:8 --batch 1:512 --context 1:8192 --keep front,top=100 --workers 2 -o grid/
    """
    run = blocks_asked(options, output)
    if output is not None and as_json and not run:
        raise InputError("--json prints the table and -o writes it", hint="give one of them; -o grid.json writes JSON")
    if kind is not None and (as_json or run or not _is_drawn(output)):
        raise InputError("--kind is that of a picture", hint="end -o in .svg, .png or .pdf, or leave it out")
    expressions, sizes = split_words(words, lists=True)
    if run and options["estimate"]:
        raise InputError("--estimate is not worked out in blocks", hint="leave it out, or sweep in memory: -o grid.csv")
    text, chips = one_expression(expressions), targets(options.pop("on"))
    wanted = expectation_wanted(options)
    with working("sweeping", unit="rows") as report:

        def told(rows: int, every: int, *blocks: int) -> None:
            done, of = blocks or (rows, every)
            report(rows, every, f"{done:,} of {of:,} {'blocks' if blocks else 'rows'}")

        telling = {"block_progress" if run else "progress": told}
        found = _sweep(text, chips, sizes, {**options, "columns": columns}, {**run, **telling, **wanted})
    if run:
        show_answer(found, as_json, whole=True)
        return
    added: dict[str, Sequence[str]] = {
        "columns": listed_names(columns or ()),
        "price": ["cost_per_million"] if options["price"] else [],
        **{name: ["within"] for name in ("tpot", "ttft") if options[name]},
        "estimate": ["expected", "low", "high"] if wanted else [],
    }
    if output is not None:
        from roofline.formulas.tables import PICTURED

        if _is_drawn(output):
            show_chart(_drawn(found, kind, added), output, None)
        else:
            found.save(output)
            is_shown = output.lower().endswith(PICTURED)  # .txt holds what a terminal does
            wrote(output, {} if is_shown else found.units, "" if is_shown else f"{len(found):,} rows to ")
        for line in found.incomplete:
            click.echo(f"incomplete  {line}")
    elif kind is not None:
        show_chart(_drawn(found, kind, added), None, None)
    else:
        if as_json and len(found) > MOST_JSON:
            raise InputError(f"{len(found)} rows are too many for JSON on a terminal", hint="write a file: -o grid.npz")
        show_answer(found, as_json, whole=True)


def _is_drawn(output: str | None) -> bool:
    """Whether an answer that goes there may be a picture: one is drawn in a terminal too."""
    from roofline.web.report import PICTURES

    return output is None or os.path.splitext(output)[1].lower() in PICTURES


def _drawn(found: Any, kind: str | None, added: dict[str, Sequence[str]]) -> Any:
    """The picture of a table; an option that adds columns of which it draws none is refused."""
    from roofline.charts.answer_charts import pictures
    from roofline.charts.heat_maps import draws_one_of

    picture, kinds = found.plot(kind), list(pictures(found))
    shown = kind if kind in kinds else next((each for each in kinds if kind and each.endswith("-map")), kinds[0])
    idle = next((name for name, columns in added.items() if columns and not draws_one_of(shown, columns)), None)
    if idle is not None:
        hint = "leave it out, or write a table; over two sizes a column has a map of its name, as in --kind upper-map"
        raise InputError(f"--{idle} adds nothing that the picture {shown} draws", hint=hint)
    return picture


def _sweep(
    text: str | None, chips: list[str | None], sizes: dict[str, Any], options: dict[str, Any], run: dict[str, Any]
) -> Any:
    columns = options.pop("columns")
    from roofline.models.config import is_model

    if text is not None and is_model(text):
        from roofline.models.sweeps import sweep as sweep_model

        if sizes:
            name = next(iter(sizes))
            raise InputError(f"{name}= is no size of a model", hint="sizes are options: --batch, --context, --prompt …")
        limits = {name: options.pop(name) for name in ("price", "tpot", "ttft")}
        phase, arguments = model_arguments({**options, "on": chips[0]}, several=True)
        arguments |= {"on": chips if None not in chips else None}
        lists = {name: arguments[name].split(",") for name in ("weights", "kv") if "," in (arguments.get(name) or "")}
        arguments |= {name: [each.strip() for each in several] for name, several in lists.items()}
        return sweep_model(text, phase, columns=columns, **limits, **run, **arguments)
    from roofline.bounds.sweep import sweep

    without_model(options, "price", "tpot", "ttft")
    asked = question_arguments({**options, "on": chips[0]}, sizes)
    asked |= {"on": chips} if len(chips) > 1 else {}
    return sweep(text, columns=columns, sizes=sizes, **run, **asked)
