"""``roofline plan``: what to deploy for a load within limits."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import WORKERS, option, options, with_options
from roofline.cli.options import parse_size, targets
from roofline.cli.output import check_files, show, show_chart, show_json
from roofline.cli.progress import working
from roofline.errors import InputError

#: The exit code where nothing meets the limits.
MISSED = 3


@command_named("plan", "rate prompt output on count ttft tpot prices formats estimate why explain output-file json")
@argument("model", metavar="MODEL", values="model")
@with_options(
    option("on", required=True, metavar="CHIP[,CHIP]…", help="Chips to choose from: h100,h200,b200."),
    *options("count rate"),
    option("prompt", help="Tokens of a prompt, on average."),
    option("output", help="Tokens of an answer, the mean of their lengths."),
    *options("shared ttft tpot e2e percentile prices objective formats lengths most disaggregate"),
    option("estimate", is_flag=False, flag_value="vllm", metavar="LIBRARY", help="Rank by what it will take (vllm)."),
    option("why"),
    option("explain", help="What binds where, what figures are worth, and break-even prices."),
    option("simulate"),
    WORKERS,
    option("output-file", help="Draw the frontier as .svg, .png or .pdf."),
    *options("dark json"),
)
def command(
    model: str,
    as_json: bool,
    why: str | None,
    explain: bool,
    simulate: bool,
    file: str | None,
    dark: bool,
    **options: Any,
) -> None:
    """The cheapest way to serve a model for a load within limits, and why not the others.

    Every chip, number of chips, layout, format and way of taking prompts is asked. Exit code 3: nothing meets the
    limits, and the answer is the nearest miss.

    \b
    roofline plan llama-3-70b --on h100,h200,b200 --rate 12/s --prompt 2048 --output 256 --ttft 500ms --tpot 30ms
    roofline plan llama-3-8b --on l4,a100 --rate 2/s --prompt 1024 --output 128 --prices l4=0.7,a100=1.8
    """
    from roofline.charts.chart import charts_of
    from roofline.plans.answer import plan
    from roofline.plans.question import read_prices

    check_files([file])
    chips = [str(name) for name in targets(options.pop("on"))]
    prices = read_prices(options.pop("prices"), chips)
    count = parse_size("count", options.pop("count"))
    if isinstance(count, str):
        raise InputError(f"--count {count!r} is not a number of chips", hint="8, a list 8,16 or a range 1:64")
    formats = [name.strip() for name in (options.pop("formats") or "").split(",") if name.strip()]
    shared = options.pop("shared")
    trace = None
    if options["rate"].lower().endswith((".csv", ".txt")):
        from roofline.plans.fleet import Trace

        trace = Trace.read(options["rate"])
        options["rate"] = trace.peak
        options |= {name: options[name] or getattr(trace, name) for name in ("prompt", "output")}
    options |= {name: _number(name, options[name]) for name in ("prompt", "output")}
    with working("trying deployments"):
        found = plan(
            model, on=chips, count=[count] if isinstance(count, int) else count, prices=prices, formats=formats,
            shared=shared or 0.0, most_sequences=options.pop("most"), **options,
        )  # fmt: skip
    if why is not None:
        reason = found.why(why)
        if as_json:
            show_json({"deployment": why, "reason": None if reason is None else reason._asdict()})
        else:
            click.echo(f"{why}: {'the one to take' if reason is None else reason.text}")
        return
    fleet = None if trace is None else found.fleet(trace)
    if as_json:
        over = {} if fleet is None else {"fleet": fleet.to_dict()}
        show_json({**found.to_dict(), **over, **({"elasticities": found.elasticities()} if explain else {})})
    else:
        show(found)
        if fleet is not None:
            show(fleet.sections())
        if explain:
            show(found.explain())
        if simulate:
            show(found.simulated())
    if file is not None:
        show_chart(charts_of("plan")["frontier"](found, theme="dark" if dark else "light"), file, None)
    if not found.meets:
        click.get_current_context().exit(MISSED)


def _number(name: str, text: str | int | None) -> int:
    if text is None:
        hint = f"tokens, as in --{name} 1024, or a column {name} of the trace"
        raise InputError(f"a plan needs --{name}", hint=hint)
    value = parse_size(name, str(text))
    if not isinstance(value, int):
        raise InputError(f"--{name} {text!r} is not a number of tokens", hint=f"one number, as in --{name} 1024")
    return value
