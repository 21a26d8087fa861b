"""Commands over several sizes: ``roofline sweep``, a table; ``plot``, roofline, throughput and time charts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import model_arguments, not_alone, without_model
from roofline.cli.option_table import (
    BLOCKS,
    DESCRIBED,
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
from roofline.cli.output import (
    ChartKind,
    check_json_beside,
    data_or_picture,
    show,
    show_answer,
    show_chart,
    show_json,
    working,
    wrote,
)
from roofline.errors import InputError
from roofline.quantity import format_percent
from roofline.sections import Amount, Column, Row, Table, figures
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

    A shipped model's name, a path or a hub id, or several with commas between, is a model, anything else notation.

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
            show_chart(_drawn(found, kind, added), output)
        else:
            found.save(output)
            is_shown = output.lower().endswith(PICTURED)  # .txt holds what a terminal does
            wrote(output, {} if is_shown else found.units, "" if is_shown else f"{len(found):,} rows to ")
            for line in () if is_shown else found.in_brief():
                click.echo(line)
        for line in found.incomplete:
            click.echo(f"incomplete  {line}")
    elif kind is not None:
        show_chart(_drawn(found, kind, added), None)
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
    from roofline.charts.answer_charts import kind_meant, pictures
    from roofline.charts.heat_maps import columns_drawn

    picture, kinds = found.plot(kind), pictures(found)
    shown = kind_meant(kind, kinds)
    drawn = columns_drawn(shown, kinds[shown])
    if any(line.label.startswith("expected: ") for line in picture.lines):
        added = {**added, "estimate": ()}  # beside curves stands what is expected
    idle = next((name for name, columns in added.items() if columns and not {*columns} & {*drawn}), None)
    if idle is not None:
        column = "expected" if idle == "estimate" else "upper"
        hint = f"leave it out, or write a table; over two sizes a column has a map, as in --kind {column}-map"
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


#: Options that say nothing without another: a terminal has a width and colours of its own.
_BESIDE = dict.fromkeys(("dark", "width"), ("output",))


@command_named("plot", "on vary kind ceiling level points flops bytes intensity width dark json")
@argument("words", nargs=-1, metavar="[EXPRESSION]... [SIZE=VALUES]...")
@with_options(option("vary"), option("kind", type=ChartKind("roofline", "size")))
@with_options(option("on", name="machines", metavar="TARGET[,TARGET]…"), DESCRIBED, MESH, WORK, EXPECT)
@with_options(
    *options("name ceiling level bandwidth points title dark"),
    output_option("Write .svg, .png or .pdf (default: draw in the terminal); .json, .txt.", callback=data_or_picture),
    *options("width json"),
)
def plot_command(
    words: tuple[str, ...],
    vary: str | None,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Roofline of machines with operations as points; or throughput or time over a size.

    \b
    roofline plot --on h100,a100 "bf16[512, 8192] @ bf16[8192, 8192]" -o roof.png
    roofline plot "bf16[B, D] * bf16[D, F]" --on v5e --vary B=1:511 D=1024,4096 F=D -o knees.svg
    roofline plot "fp16[B, D] * fp16[D, F]" --on a100 --kind time --vary B=1:512 D=5120 F=5120
    """
    from roofline.charts.plot import plot

    not_alone(_BESIDE)
    check_json_beside(output, as_json)
    expressions, sizes = split_words(words, lists=True)
    over = _vary(vary, sizes)
    drawing = {
        name: options.pop(name) for name in ("names", "dtypes", "levels", "bandwidths", "measured", "title", "kind")
    }
    machines, drawing = options.pop("machines"), {**drawing, **expectation_wanted(options)}
    arguments = question_arguments({**options, "on": None})
    chart = plot(
        *expressions,
        on=[name for name in targets(machines) if name] or None,
        vary=over,
        sizes=sizes,
        **drawing,
        **{name: value for name, value in arguments.items() if value is not None and value not in ({}, ())},
    )
    if as_json:
        show_json(chart.to_dict())
    else:
        reached = [point for point in getattr(chart, "points", ()) if point.kind == "measured"]
        if output is not None and reached:
            show([_reached(reached)])
        show_chart(chart, output)


def _reached(points: Sequence[Any]) -> Table:
    """How far each measured point is from its roof."""
    columns = (Column("measured", wrap="words"), *figures("reached", "roof", "of the roof"), Column("bound by"))
    rows = [
        Row((
            point.label, Amount(point.y, "FLOP/s"), Amount(point.roof, "FLOP/s"),
            Amount(point.share, "", format_percent(point.share)), point.bound_by,
        ))
        for point in points
    ]  # fmt: skip
    return Table(columns, rows, "measured")


def _vary(text: str | None, sizes: dict[str, Any]) -> str | None:
    """Read ``--vary B=1:511`` into the sizes and return the name."""
    if text is None:
        return None
    _, given = split_words([text], lists=True) if "=" in text else ([], {text: None})
    if not given:
        raise InputError(f"--vary {text!r} is not a size", hint="for instance --vary B=1:511")
    name = next(iter(given))
    if given[name] is not None:
        if name in sizes:
            raise InputError(f"size {name} is given twice", hint=f"leave {name} out of the rest")
        sizes[name] = given[name]
    return name
