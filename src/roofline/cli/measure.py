"""Commands about what is measured: ``roofline measure``, ``run`` and ``profile``; ``calibrate`` and ``accuracy``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import EXPECT, TARGET, option, options, output_option, with_options
from roofline.cli.option_values import expectation_wanted, split_words, target_arguments
from roofline.cli.output import asked_once, check_files, show_answer, working, wrote
from roofline.errors import HardwareError, InputError, RooflineError
from roofline.hardware.catalog import user_file
from roofline.hardware.machine import Machine

if TYPE_CHECKING:
    from roofline.measurement import Measurement


#: The chip that a measured accelerator is called.
DEVICE = "this-device"

#: Ending of the file of a measurement that was stopped early where a whole one was made before.
STOPPED = ".stopped"


@command_named("measure")
@with_options(
    *options("quick seconds device no-library show chart roofline against csv"),
    output_option("Machine file to write; by default the one `--on this` reads."),
    option("json"),
)
def measure_command(again: bool, against: str | None, output: str | None, as_json: bool, **options: Any) -> None:
    """Measure this machine: what its cores can compute, what each memory level can move.

    \b
    roofline measure                          # at most 60 s; from then on:  --on this
    roofline measure --quick -o here.toml
    roofline measure --seconds 300            # others use the machine too: more time confirms more figures
    roofline measure --show --chart bandwidth.svg --roofline roof.svg --csv figures.csv
    roofline measure --device cuda            # an accelerator; from then on:  --on this-device
    """
    from roofline.measurement import read_machine_file, write_machine_file
    from roofline.measurement.machine_file import check_machine_file, write_csv

    chart, roofline, csv_file = (options.pop(name) for name in ("chart", "roofline", "csv_file"))
    device, sheet = options["device"], _sheet(against, roofline)
    check_files((chart, roofline), (csv_file,))
    path = output or user_file("this.toml" if device is None else "this-device.toml")
    if again:
        for name in ("quick", "no_library", "seconds"):
            if options[name]:
                said = f"--show measures nothing, so --{name.replace('_', '-')} says nothing"
                raise InputError(said, hint="leave one of them out")
        if device is not None and output is not None:
            raise InputError("--show shows the file of -o, so --device says nothing", hint="leave one of them out")
        measured = read_machine_file(path, device=device)
    else:
        check_machine_file(path)
        library = not options.pop("no_library")
        measured = _measured(library=library, **options)
        path = _kept(measured, path)
        try:
            write_machine_file(measured, path)
        except HardwareError:
            show_answer(measured, as_json)
            raise
    show_answer(measured, as_json)

    def roof() -> Any:
        from roofline.charts.roofline_charts import measured_chart

        return measured_chart(measured, sheet=sheet)

    _draw((chart, lambda: measured.plot("bandwidth")), (roofline, roof))
    if csv_file is not None:
        write_csv(measured, csv_file)
    if as_json:
        return
    if not again:
        if path.endswith(STOPPED):
            said = f"; {path.removesuffix(STOPPED)} keeps the whole measurement made before"
        else:
            own = "this" if device is None else DEVICE
            said = f"; use it with --on {f'{path}#{own}' if output else own}"
        click.echo(f"\nwrote {path}{said}")
    for file in filter(None, (chart, roofline, csv_file)):
        wrote(file)


def _sheet(against: str | None, roofline: str | None) -> Machine | None:
    """Find the data sheet to draw beside the roofline."""
    if against is None:
        return None
    if roofline is None:
        raise InputError("--against goes with --roofline", hint="name the picture: --roofline FILE")
    from roofline.hardware import chip

    return chip(against)


def _kept(measured: Measurement, path: str) -> str:
    """Name the file to write: one stopped early does not take the place of one that was not."""
    from roofline.measurement import read_machine_file

    if not measured.conditions.interrupted or not os.path.isfile(path):
        return path
    try:
        whole = not read_machine_file(path).conditions.interrupted
    except RooflineError:
        whole = False
    return path + STOPPED if whole else path


def _draw(*files: tuple[str | None, Callable[[], Any]]) -> None:
    """Write the pictures of which a file was named."""
    for path, chart in files:
        if path is not None:
            chart().save(path)


def _measured(**options: Any) -> Measurement:
    """Measure under a progress bar, which only a terminal shows."""
    from roofline.measurement import measure

    with working("measuring") as report:
        return measure(progress=lambda done, what: report(done, 1.0, what), **options)


@command_named("run")
@argument("words", nargs=-1, metavar="EXPRESSION... [SIZE=VALUE]...")
@with_options(
    option("on", older="--machine", multiple=False, metavar="FILE", values="file"),
    options("threads backend"),
    option("cold", words="--cold/--warm", name="cold", flag_value=None, is_flag=True, default=False),
    EXPECT,
    options("chart split csv json"),
)
def run_command(
    words: tuple[str, ...], chart: str | None, split: str | None, csv_file: str | None, as_json: bool, **options: Any
) -> None:
    """Time operations on this machine and show how close each comes to its roof, and what explains the rest.

    \b
    roofline run "bf16[256, 4096] @ bf16[4096, 4096]" "softmax(fp32[8, 32, 512, 512])"
    roofline run "bf16[256, 4096] @ bf16[4096, 4096]" --chart roof.svg --split split.svg --csv runs.csv
    roofline run "fp32[M, K] * fp32[K, N]" M=64 K=4096 N=4096 --threads 1 --cold
    roofline run "fp32[1024, 1024] @ fp32[1024, 1024]" --backend numpy
    """
    from roofline.measurement import run
    from roofline.measurement.machine_file import this_machine
    from roofline.measurement.runs import write_runs
    from roofline.measurement.timing import has_roof

    wanted, threads = expectation_wanted(options), options["threads"]
    expressions, sizes = split_words(words, lists=True)
    if not expressions:
        raise InputError("nothing to run", hint='for instance roofline run "bf16[256, 4096] @ bf16[4096, 4096]"')
    check_files((chart, split), (csv_file,))
    found = this_machine(options.pop("on"), threads)
    with working("timing"):
        points = asked_once(lambda: run(*expressions, at=found, sizes=sizes, **options, **wanted))  # timed once
    if csv_file is not None:
        write_runs([point.run for point in points], csv_file)
    show_answer(points, as_json)

    def roof() -> Any:
        from roofline.charts.roofline_charts import measured_chart

        drawn = threads if threads is not None and has_roof(found.measured, threads) else None
        dtypes = sorted({point.run.dtype for point in points if point.run.flops})
        return measured_chart(found.measured, threads=drawn, dtypes=dtypes, points=points)

    _draw((chart, roof), (split, lambda: points.plot("split")))


@command_named("profile")
@argument("file", values="file")
@with_options(TARGET, EXPECT, options("top chart split csv json"))
def profile_command(
    file: str, top: int, chart: str | None, split: str | None, csv_file: str | None, as_json: bool, **options: Any
) -> None:
    """Put what a profiler saw under a machine's roof: a torch.profiler trace, a Nsight Compute CSV, or a plain CSV.

    \b
    roofline profile trace.json --on h100  # torch.profiler, with record_shapes=True
    roofline profile runs.csv --on this    # name, dtype, flops, bytes, seconds; or m, n, k, dtype, us
    roofline profile k.csv --on a100       # a file of Nsight Compute, which these lines write:
    M=gpu__time_duration.sum,dram__bytes.sum
    M=$M,'regex:sm__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on.sum'
    M=$M,'regex:sm__ops_path_tensor_src_.*'
    ncu --csv --page raw --metrics "$M" python run.py > k.csv
    """
    from roofline.measurement import profile
    from roofline.measurement.runs import write_runs

    wanted = expectation_wanted(options)
    check_files((chart, split), (csv_file,))
    with working("reading the profile"):
        kept = None if as_json or split else top
        points = profile(file, top=kept, **target_arguments(options), **wanted)
    longest = points.longest(top)
    runs = sorted(points.profile.runs if points.profile else (), key=lambda run: -run.seconds)  # each call by itself
    if chart is not None and not any(p.run.flops and p.run.bytes for p in longest):
        wrong = f"none of the {len(longest)} longest runs has both FLOPs and bytes, so there is no chart"
        raise InputError(wrong, hint="leave --chart out, show more with --top, or draw the time with --split")

    if csv_file is not None:
        write_runs(runs, csv_file)
    _draw((chart, lambda: longest.plot("roofline")), (split, lambda: points.plot("split")))
    show_answer(points if as_json else longest, as_json)


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
def calibrate_command(file: str | None, output: str | None, as_json: bool, **options: Any) -> None:
    """Fit the constants of estimates to your own runs; ten runs of each kind of kernel suffice.

    Without FILE the answer is a table of products to measure, those that tell most of the chip's constants.

    FILE is a CSV, a trace of torch.profiler (record_shapes=True), or a machine file of roofline measure.
    A row is an expression or m, n, k, or batch, heads, kv_heads, head_size, length, with dtype and seconds, ms or us.
    With --model a row is a served run: batch, prompt, output, tpot_ms and, where known, ttft_ms; or a step without
    prefills: batch, context, ms.

    \b
    roofline calibrate --on h200 -o my_runs.csv
    roofline calibrate my_runs.csv --on h100 -o mine.toml
    roofline calibrate trace.json --on h100 -o mine.toml
    roofline calibrate served.csv --model llama-3-70b --on h200:8 --tensor 8 --weights fp8 -o mine.toml
    roofline bound "bf16[64, 8192] @ bf16[8192, 8192]" --on h100 --estimate --constants mine.toml
    """
    from roofline.estimates import calibrate

    with working("fitting"):
        found = calibrate(file, **options)
    if output is not None:
        found.save(output)
    show_answer(found, as_json)
    if output is not None:
        wrote(output)


@command_named("accuracy")
@argument("chip", values="chip", required=False)
@with_options(
    option("op"),
    option("dtype"),
    option("library", default=None, show_default=False),
    option("constants"),
    option("constants", words="--runs", older="--data", name="runs", multiple=False),
    option("json"),
)
def accuracy_command(chip: str | None, runs: str | None, as_json: bool, **picked: Any) -> None:
    """How far estimates are from measurements that were not fitted, by chip, library, kind of kernel and format.

    \b
    roofline accuracy h100
    roofline accuracy h100 --op attention --dtype fp8
    roofline accuracy h100 --runs mine.csv
    """
    from roofline.estimates import accuracy

    with working("reading runs"):
        show_answer(accuracy(chip, runs=runs, **picked), as_json)
