"""``roofline profile``: runs of a profiler or a CSV file under a machine's roof."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.options import TARGET, target_arguments, with_options
from roofline.cli.output import check_files, show, show_json
from roofline.errors import InputError


@click.command("profile")
@click.argument("file")
@with_options(TARGET)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Show the runs that took longest.")
@click.option("--chart", metavar="FILE", help="Draw the points under the roof: .svg, .png or .pdf.")
@click.option("--split", metavar="FILE", help="Draw the time by operation, and what of it the roof needs.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write name,dtype,flops,bytes,seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the points as JSON in SI units.")
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
    roofline profile runs.csv --on this            # name,dtype,flops,bytes,seconds
    """
    from roofline.bounds.api import target
    from roofline.measurement import points_of, read_profile
    from roofline.measurement.points import check_ran_on, profile_sections

    check_files((chart, split), (csv_file,))
    machine = target(**target_arguments(options))
    found = read_profile(file)
    runs = sorted(found.runs, key=lambda run: -run.seconds)
    for run in runs:
        check_ran_on(run, machine)
    points = points_of(runs if as_json or split is not None else runs[:top], machine)
    if csv_file is not None:
        from roofline.measurement.runs import write_runs

        write_runs(runs, csv_file)
    if chart is not None:
        from roofline.charts import plot

        drawn = [p.run for p in points[:top] if p.run.flops and p.run.bytes]
        if not drawn:
            wrong = f"none of the {min(top, len(runs))} longest runs has both FLOPs and bytes, so there is no chart"
            raise InputError(wrong, hint="leave --chart out, show more with --top, or draw the time with --split")
        plot(on=machine, measured=drawn).save(chart)
    if split is not None:
        from roofline.charts.bar_charts import split_chart

        split_chart(points, unpriced=found.unpriced).save(split)
    if as_json:
        show_json(
            {
                "schema": "roofline/points/1",
                "target": machine.name,
                "points": [point.to_dict() for point in points],
                "unpriced": found.unpriced,
                "notes": list(found.notes),
            }
        )
    else:
        show(profile_sections(points, found, f"on {machine.name}", top))
