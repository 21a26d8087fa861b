"""``roofline plan``: what to deploy for a load within limits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import not_alone
from roofline.cli.option_table import SERVED, WORKERS, option, options, with_options
from roofline.cli.option_values import announced, parse_set, targets
from roofline.cli.output import ChartKind, check_files, data_or_picture, show, show_chart, show_json, working
from roofline.counts import parse_size
from roofline.errors import InputError, quoted
from roofline.sections import BLANK, Section, Sentences

#: The exit code where nothing meets the limits.
MISSED = 3

#: Options that say nothing without another.
_BESIDE = {
    **dict.fromkeys(("accept", "draft_by"), ("draft",)),
    "draft_weights": ("draft_by",),
    **dict.fromkeys(("dark", "width"), ("file",)),
}


@command_named("plan", "rate prompt output on count ttft tpot price formats disaggregate estimate why explain json")
@argument("model", metavar="MODEL", values="model")
@with_options(
    option("on", metavar="CHIP[,CHIP]…"),
    *options("count set rate prompt output shared ttft tpot e2e percentile price objective formats lengths most"),
    option("disaggregate"),
    option("draft", type=str, metavar="N[,N]…"),
    *options("accept draft-by draft-weights"),
    *SERVED,
    option("estimate", is_flag=False, flag_value="vllm", metavar="LIBRARY"),
    *options("why explain simulate"),
    *WORKERS,
    option(
        "output-file", callback=data_or_picture, help="Draw the frontier (.svg, .png, .pdf); .json, .txt: all; .csv."
    ),
    option("view", type=ChartKind("plan")),
    *options("dark width json"),
)
def plan_command(
    model: str,
    as_json: bool,
    why: str | None,
    explain: bool,
    simulate: bool,
    file: str | None,
    view: str | None,
    **options: Any,
) -> None:
    """The cheapest way to serve a model for a load within limits, and why not the others.

    Every chip, number of chips, layout, format and way of taking prompts is asked. Exit code 3: nothing meets the
    limits, and the answer is the nearest miss.

    \b
    roofline plan llama-3-70b --on h100,h200,b200 --rate 12/s --prompt 2048 --output 256 --ttft 500ms --tpot 30ms
    roofline plan llama-3-8b --on l4,a100 --rate 2/s --prompt 1024 --output 128 --price l4=0.7,a100=1.8
    """
    from roofline.charts.chart import charts_of
    from roofline.plans.answer import plan

    check_files([file])
    not_alone(_BESIDE)
    if as_json and view is not None and file is None:
        raise InputError("--json and a picture are two answers", hint="give -o FILE for the picture, or leave one out")
    if as_json and simulate:
        raise InputError("--simulate is a table, which --json does not have", hint="leave one of them out")
    chips = [str(name) for name in targets(options.pop("on")) if name is not None] or None
    count = _whole_numbers("count", options.pop("count"), "chips", "8, a list 8,16 or a range 1:64")
    drafts = options.pop("draft")
    if drafts is not None:
        drafts = _whole_numbers("draft", drafts, "tokens", "4, or several to try: 2,4,8")
    formats = [name.strip() for name in (options.pop("formats") or "").split(",") if name.strip()]
    shared, figures = options.pop("shared"), parse_set(options.pop("set_"))
    options |= SERVED.arguments(options)
    options |= {"set": figures} if figures else {}
    trace = None
    if options["rate"].lower().endswith((".csv", ".txt")):
        from roofline.plans.fleet import Trace

        trace = Trace.read(options["rate"])
        options["rate"] = trace.peak
        options |= {name: options[name] or getattr(trace, name) for name in ("prompt", "output")}
    options |= {name: _number(name, options[name]) for name in ("prompt", "output")}
    with suppress(TypeError, ValueError):
        options["draft_by"] = float(options["draft_by"])
    options |= {"draft": drafts or [], "draft_by": options["draft_by"] or 0.1}
    with working("trying chips and formats"):
        found = plan(
            model, on=chips, count=count, formats=formats,
            shared=shared or 0.0, announce=announced, **options,
        )  # fmt: skip
    if why is not None:
        _show_reason(found, why, as_json)
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
    if file is not None or view is not None:
        view = view or ("frontier" if found.asked.load.output > 1 else "first-token")
        show_chart(charts_of("plan")[view](found), file)
    if not found.meets:
        click.get_current_context().exit(MISSED)


def _show_reason(found: Any, why: str, as_json: bool) -> None:
    """Why the best deployment that words mean is not the one to take."""
    about = found.assess(why)
    reason, name = about.reason, str(about.deployment)
    if as_json:
        plain = None if reason is None else reason._asdict()
        show_json({"asked": why, "deployment": name, "reason": plain})
        return
    show(found.sections(BLANK, *_why(why, name, reason)), of=found)


def _whole_numbers(name: str, text: str, what: str, hint: str) -> list[int]:
    """One number or several of an option; infinities, fractions and letters are errors."""
    value: Any = parse_size(name, text)
    listed = [value] if isinstance(value, str | int | float) else list(value)
    if any(isinstance(number, str) or number % 1 != 0 for number in listed):
        raise InputError(f"--{name} {quoted(text)} is not a number of {what}", hint=hint)
    return [int(number) for number in listed]


def _number(name: str, text: str | int | None) -> int:
    if text is None:
        hint = f"tokens, as in --{name} 1024, or a column {name} of the trace"
        raise InputError(f"a plan needs --{name}", hint=hint)
    value = parse_size(name, str(text))
    if not isinstance(value, int):
        raise InputError(f"--{name} {text!r} is not a number of tokens", hint=f"one number, as in --{name} 1024")
    return value


def _why(asked: str, name: str, reason: Any) -> list[Section]:
    """What was asked about in a line, and below it why it is not taken."""
    exact = name in " ".join(asked.split())
    of = "" if exact else f", the best of {asked!r}"
    if reason is None:
        return [Sentences([f"take {name}{of}"], "strong")]
    if reason.kind == "beaten":
        head = f"not {name}{of}"
    else:
        head = f"not {name}" if exact else f"no {asked!r} will do; the nearest is {name}"
    return [Sentences([head], "strong"), Sentences([reason.text], indent=4)]
