"""``roofline run``: time operations here and show them under this machine's roof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import EXPECT, option, options, with_options
from roofline.cli.option_values import expectation_wanted, split_words
from roofline.cli.output import check_files, show, show_json, working
from roofline.errors import InputError
from roofline.signatures import MEANINGS_OF

if TYPE_CHECKING:
    from roofline.measurement import MeasuredPoint


@command_named("run")
@argument("words", nargs=-1, metavar="EXPRESSION... [SIZE=VALUE]...")
@with_options(
    option("on", older="--machine", multiple=False, metavar="FILE", values="file", help=MEANINGS_OF["run"]["on"]),
    options("threads backend"),
    option(
        "cold",
        words="--cold/--warm",
        name="cold",
        flag_value=None,
        is_flag=True,
        default=False,
        help="Data starts in the main memory: caches are emptied before every run; or where it lies (default).",
    ),
    EXPECT,
    options("chart split csv json"),
)
def command(
    words: tuple[str, ...],
    on: str | None,
    threads: int | None,
    cold: bool,
    backend: str | None,
    chart: str | None,
    split: str | None,
    csv_file: str | None,
    as_json: bool,
    **expected: Any,
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

    wanted = expectation_wanted(expected)
    expressions, sizes = split_words(words, lists=True)
    if not expressions:
        raise InputError("nothing to run", hint='for instance roofline run "bf16[256, 4096] @ bf16[4096, 4096]"')
    check_files((chart, split), (csv_file,))
    found = this_machine(on, threads)
    with working("timing"):
        points = run(*expressions, at=found, sizes=sizes, threads=threads, cold=cold, backend=backend, **wanted)
    if csv_file is not None:
        from roofline.measurement.runs import write_runs

        write_runs([point.run for point in points], csv_file)
    if as_json:
        show_json(points.to_dict())
    else:
        show(points)
    if chart is not None:
        from roofline.charts.measurement_charts import measured_chart
        from roofline.measurement.timing import has_roof

        drawn = threads if threads is not None and has_roof(found.measured, threads) else None
        measured_chart(found.measured, threads=drawn, dtypes=_dtypes(points), points=points).save(chart)
    if split is not None:
        from roofline.charts.bars import split_chart

        split_chart(points).save(split)


def _dtypes(points: list[MeasuredPoint]) -> list[str]:
    return sorted({point.run.dtype for point in points if point.run.flops})
