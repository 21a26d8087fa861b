"""Commands about a line on a machine: ``bound`` and ``advise``; ``formula`` and ``solve``; ``sweep`` and ``plot``.

Closed forms are printed as LaTeX, JavaScript, Python, C; several sizes as a table, or drawn over a size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.models import model_arguments, without_model
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
    against_catalog,
    blocks_asked,
    expectation_wanted,
    is_list,
    on_each,
    one_expression,
    question_arguments,
    split_words,
    targets,
)
from roofline.cli.output import (
    ChartKind,
    asked_once,
    is_drawn,
    is_text,
    show,
    show_answer,
    show_chart,
    show_each,
    show_json,
    show_program,
    working,
    wrote,
)
from roofline.errors import InputError
from roofline.formulas.printers import PRINTED
from roofline.hardware.targets import open_shape
from roofline.quantity import format_percent, whole_number
from roofline.sections import BLANK, Amount, Column, Row, Sentences, Table, figures
from roofline.signatures import listed_names


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
    if as_json or several or len(targets(options["on"])) > 1 or (explain and is_text()):
        show_answer(answer, as_json, explain)
    else:
        from roofline.bounds.advise import advice_table, advise

        advice = advise(answer, chips=())[:4] if isinstance(answer.bound_by, str) else ()
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
    from roofline.bounds.advise import advise
    from roofline.bounds.api import bound
    from roofline.bounds.question import NOT_REPEATED, refuse_idle

    expressions, sizes = split_words(words)
    line = one_expression(expressions)

    def ask(asked: dict[str, Any]) -> Any:
        answer = bound(line, sizes=sizes, **question_arguments(asked, sizes))
        if answer.question is not None:
            refuse_idle(answer.question, uses=NOT_REPEATED)
        return advise(answer, **({"chips": others} if others else {}))

    show_answer(on_each(options, ask), as_json)


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
    if language is None:
        show_each(found)
        return
    for index, each in enumerate(found):
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
        hint = "a formula is shown at one; roofline sweep takes several"
        raise InputError(f"size {several} has several values", hint=hint)
    options["on"] = on
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
def solve_command(words: tuple[str, ...], for_: str, language: str | None, as_json: bool, **options: Any) -> None:
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
    bandwidths, equal, time = (options.pop(name) for name in ("bandwidths", "equal", "time"))
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
            from roofline.bounds.solve import solve_equal

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
            head = f"{PRINTED[language].comment} {each.question.expression} on {each.target}\n" * (len(answers) > 1)
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
    words: tuple[str, ...],
    columns: str | None,
    output: tuple[str, ...] | None,
    kind: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """A table over all combinations of the sizes: lists, ranges, formulas; of a model, of chips and layouts too.

    A shipped model's name, a path or a hub id, or several with commas between, is a model, anything else notation.

    \b
    roofline sweep "bf16[B, D] * bf16[D, F]" --on h100 B=1:4096:*2 D=4096,8192 F=4*D -o grid.csv
    roofline sweep "bf16[B, D] * bf16[D, F]" --on h100,h200 B=1:8 D=8192 F=8192
    roofline sweep llama-3-70b --on h100:8,h200:8 --tensor 4,8 --batch 1:512 --context 1024:131072:*2 -o grid.parquet
    roofline sweep llama-3-70b --on h100:8 --batch 1:512 --context 1:8192 --keep front,top=100 --workers 2 -o grid/
    """
    from roofline.bounds.sweep import column_hint
    from roofline.formulas.tables import PICTURED

    run = blocks_asked(options, output[0] if output else None)
    if output and as_json and not run:
        raise InputError("--json prints the table and -o writes it", hint="give one of them; -o grid.json writes JSON")
    if kind is not None and (as_json or run or output):
        raise InputError("--kind is that of a picture", hint="end -o in .svg, .png or .pdf, or leave it out")
    expressions, sizes = split_words(words, lists=True)
    if "estimate" in listed_names(columns or ()) and options["overlap"] is options["overhead"] is None:
        hint = f"as in --overhead 5us; {column_hint('estimate', ())}"
        raise InputError("the column estimate needs a stated overlap or overhead", hint=hint)
    if run and options["estimate"]:
        raise InputError("--estimate is not worked out in blocks", hint="leave it out, or sweep in memory: -o grid.csv")
    text, chips = one_expression(expressions), targets(options.pop("on"))
    wanted = expectation_wanted(options)
    with working("sweeping", unit="rows") as report:

        def told(rows: int, every: int, *blocks: int) -> None:
            done, of = blocks or (rows, every)
            report(rows, every, f"{done:,} of {of:,} {'blocks' if blocks else 'rows'}")

        telling = {"block_progress" if run else "progress": told}
        asked = partial(_sweep, text, chips, sizes, {**options, "columns": columns}, {**run, **telling, **wanted})
        found = asked() if run else asked_once(asked)
    if run:
        show_answer(found, as_json, whole=True)
        return
    added: dict[str, Sequence[str]] = {
        "columns": listed_names(columns or ()),
        "price": ["cost_per_million"] if options["price"] else [],
        **{name: ["within"] for name in ("tpot", "ttft") if options[name]},
        "estimate": ["expected", "low", "high"] if wanted else [],
    }
    if output:
        shown = [path.lower().endswith(PICTURED) for path in output]  # .txt holds what a terminal does
        for path, is_shown in zip(output, shown, strict=True):
            found.save(path)
            wrote(path, {} if is_shown else found.units, "" if is_shown else f"{len(found):,} rows to ")
        for line in () if all(shown) else found.in_brief():
            click.echo(line)
    elif kind is not None or is_drawn():
        show_chart(_drawn(found, kind, added))
    else:
        if as_json and len(found) > MOST_JSON:
            raise InputError(f"{len(found)} rows are too many for JSON on a terminal", hint="write a file: -o grid.npz")
        show_answer(found, as_json, whole=True)
    for line in found.incomplete if output or is_drawn() else ():
        click.echo(f"incomplete  {line}")


def _drawn(found: Any, kind: str | None, added: dict[str, Sequence[str]]) -> Any:
    """The picture of a table; an option that adds columns of which it draws none is refused."""
    from roofline.charts.answer_charts import kind_meant, pictures
    from roofline.charts.heat_maps import columns_drawn
    from roofline.charts.size_charts import EXPECTED

    picture, kinds = found.plot(kind), pictures(found)
    shown = kind_meant(kind, kinds)
    drawn = columns_drawn(shown, kinds[shown])
    if any(line.text == EXPECTED for line in picture.lines):
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


@command_named("plot", "on vary kind ceiling level points flops bytes intensity width dark json")
@argument("words", nargs=-1, metavar="[EXPRESSION]... [SIZE=VALUES]...")
@with_options(option("vary"), option("kind", type=ChartKind("roofline", "size")))
@with_options(option("on", name="machines", metavar="TARGET[,TARGET]…"), DESCRIBED, MESH, WORK, EXPECT)
@with_options(options("name ceiling level bandwidth points title json"))
def plot_command(words: tuple[str, ...], vary: str | None, as_json: bool, **options: Any) -> None:
    """Roofline of machines with operations as points; or throughput or time over a size.

    \b
    roofline plot --on h100,a100 "bf16[512, 8192] @ bf16[8192, 8192]" -o roof.png
    roofline plot "bf16[B, D] * bf16[D, F]" --on v5e --vary B=1:511 D=1024,4096 F=D -o knees.svg
    roofline plot "fp16[B, D] * fp16[D, F]" --on a100 --kind time --vary B=1:512 D=5120 F=5120
    """
    from roofline.charts.plot import plot

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
        if is_drawn() and reached:
            show([_reached(reached)])
        show_chart(chart)


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
