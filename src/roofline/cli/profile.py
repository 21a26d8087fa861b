"""``roofline profile``: runs of a profiler or a CSV file under a machine's roof."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import EXPECT, TARGET, options, with_options
from roofline.cli.option_values import expectation_wanted, target_arguments
from roofline.cli.output import check_files, show, show_json, working
from roofline.errors import InputError


@command_named("profile")
@argument("file", values="file")
@with_options(TARGET, EXPECT, options("top chart split csv json"))
def command(
    file: str,
    top: int,
    chart: str | None,
    split: str | None,
    csv_file: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Put what a profiler saw under a machine's roof: a torch.profiler trace, a Nsight Compute CSV, or a plain CSV.

    \b
    roofline profile trace.json --on h100          # torch.profiler, with record_shapes=True
    roofline profile kernels.csv --on a100         # ncu --csv --page raw
    roofline profile runs.csv --on this            # name,dtype,flops,bytes,seconds, or m,n,k,dtype,us
    """
    from roofline.measurement import profile

    wanted = expectation_wanted(options)
    check_files((chart, split), (csv_file,))
    with working("reading the profile"):
        kept = None if as_json or csv_file or split else top
        points = profile(file, top=kept, **target_arguments(options), **wanted)
    longest = points.longest(top)
    if csv_file is not None:
        from roofline.measurement.runs import write_runs

        write_runs([point.run for point in points], csv_file)
    if chart is not None:
        from roofline.charts import plot

        drawn = [p.run for p in longest if p.run.flops and p.run.bytes]
        if not drawn:
            wrong = f"none of the {len(longest)} longest runs has both FLOPs and bytes, so there is no chart"
            raise InputError(wrong, hint="leave --chart out, show more with --top, or draw the time with --split")
        plot(on=points.machine, measured=drawn).save(chart)
    if split is not None:
        from roofline.charts.bars import split_chart

        split_chart(points, unpriced=points.unpriced).save(split)
    if as_json:
        show_json(points.to_dict())
    else:
        show(longest)
