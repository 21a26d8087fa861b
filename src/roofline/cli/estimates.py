"""Commands about estimates: ``roofline calibrate`` and ``accuracy``."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, output_option, with_options
from roofline.cli.output import show_answer, working


@command_named("calibrate")
@argument("file", required=False)
@with_options(
    option("on", required=True, multiple=False, metavar="TARGET"),
    *options("library from model"),
    *options("tensor data expert", type=int, metavar="N"),
    *options("weights activations kv"),
    output_option("Write the constants to a file for --constants, or the runs to measure."),
    option("json"),
)
def calibrate_command(
    file: str | None,
    on: str,
    library: str,
    start: str | None,
    model: str | None,
    output: str | None,
    as_json: bool,
    **served: Any,
) -> None:
    """Fit the constants of estimates to your own runs; ten runs of each kind of kernel suffice.

    Without FILE the answer is a table of products to measure, those that tell most of the chip's constants.

    FILE is a CSV, a trace of torch.profiler (record_shapes=True), or a machine file of roofline measure.
    A row is an expression or m, n, k, or batch, heads, kv_heads, head_size, length, with dtype and seconds, ms or us.
    With --model a row is a served run: batch, prompt, output, tpot_ms and, where known, ttft_ms.

    \b
    roofline calibrate --on h200 -o my_runs.csv
    roofline calibrate my_runs.csv --on h100 -o mine.toml
    roofline calibrate trace.json --on h100 -o mine.toml
    roofline calibrate served.csv --model llama-3-70b --on h200:8 --tensor 8 --weights fp8 -o mine.toml
    roofline bound "bf16[64, 8192] @ bf16[8192, 8192]" --on h100 --estimate --constants mine.toml
    """
    from roofline.estimates import calibrate

    with working("fitting"):
        found = calibrate(file, on, library=library, start=start, model=model, **served)
    if output is not None:
        found.save(output)
    show_answer(found, as_json)


@command_named("accuracy")
@argument("chip", values="chip", required=False)
@with_options(
    option("op"),
    option("dtype"),
    option("library", default=None, show_default=False),
    option("constants"),
    option("constants", words="--runs", older="--data", name="runs", multiple=False),
    option("output-file", name="output", help="Write every group to a file: .csv, .json, .txt."),
    option("json"),
)
def accuracy_command(chip: str | None, runs: str | None, output: str | None, as_json: bool, **picked: Any) -> None:
    """How far estimates are from measurements that were not fitted, by chip, library, kind of kernel and format.

    \b
    roofline accuracy h100
    roofline accuracy h100 --op attention --dtype fp8
    roofline accuracy h100 --runs mine.csv
    """
    from roofline.estimates import accuracy

    with working("reading runs"):
        found = accuracy(chip, runs=runs, **picked)
    if output is not None:
        found.save(output)
    show_answer(found, as_json)
