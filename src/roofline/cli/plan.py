"""``roofline plan``: what to deploy for a load within limits."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.options import parse_size
from roofline.cli.output import check_files, show, show_chart, show_json
from roofline.cli.values import FRACTION
from roofline.errors import InputError

#: The exit code where nothing meets the limits.
MISSED = 3


@click.command("plan")
@click.argument("model", metavar="MODEL")
@click.option("--on", required=True, metavar="CHIP[,CHIP…]", help="Chips to choose from: h100,h200,b200.")
@click.option("--count", default="1:64", show_default=True, metavar="N", help="Chips of a kind that may be used.")
@click.option(
    "--rate", required=True, metavar="RATE", help="Requests: 12/s, 700/min, 40k/h; a CSV file with columns time, rate."
)
@click.option("--prompt", metavar="TOKENS", help="Tokens of a prompt, on average.")
@click.option("--output", metavar="TOKENS", help="Tokens of an answer, the mean of their lengths.")
@click.option("--shared", callback=FRACTION, metavar="SHARE", help="Share of each prompt that is cached already (80%).")
@click.option("--ttft", metavar="TIME", help="Longest time to first token: 500ms.")
@click.option("--tpot", metavar="TIME", help="Longest mean time between tokens of a request: 30ms.")
@click.option("--e2e", metavar="TIME", help="Longest time to the last token.")
@click.option("--percentile", type=float, default=95.0, show_default=True, metavar="P", help="Of requests in limits.")
@click.option(
    "--prices", multiple=True, metavar="CHIP=DOLLARS", help="Of a chip for an hour: h100=2.5,h200=3.1; or table."
)
@click.option("--objective", type=click.Choice(["cost", "chips"]), help="What is least (cost, where there are prices).")
@click.option("--formats", metavar="NAME[,NAME…]", help="Formats to choose from: bf16, fp8, 'fp8 kv fp8', int4 …")
@click.option("--lengths", type=click.Choice(["geometric", "fixed"]), default="geometric", show_default=True,
              help="How lengths of answers are spread.")  # fmt: skip
@click.option("--most", type=click.IntRange(1), default=1024, show_default=True, metavar="N", help="Sequences at once.")
@click.option("--disaggregate", is_flag=True, help="Prefill on chips of its own too.")
@click.option(
    "--estimate", is_flag=False, flag_value="vllm", metavar="LIBRARY", help="Rank by what it will take (vllm)."
)
@click.option("--why", metavar="DEPLOYMENT", help="Why not this one: 'h100:8 tensor 8 fp8'.")
@click.option("--explain", is_flag=True, help="What binds where, what figures are worth, and break-even prices.")
@click.option("--simulate", is_flag=True, help="Check the best replica by a simulation, request by request.")
@click.option("-o", "--output-file", "file", metavar="FILE", help="Draw the frontier as .svg, .png or .pdf.")
@click.option("--dark", is_flag=True, help="Light on dark.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON in SI units.")
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
    chips = [name.strip() for name in options.pop("on").split(",") if name.strip()]
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
