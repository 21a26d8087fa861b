"""``roofline measure``: the ceilings of the machine you are on, written to a machine file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from roofline.cli.command import command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.output import check_files, show, show_json, wrote
from roofline.errors import HardwareError, InputError
from roofline.hardware.catalog import user_file

if TYPE_CHECKING:
    from roofline.hardware.machine import Machine
    from roofline.measurement import Measurement

#: The chip that a measured accelerator is called.
DEVICE = "this-device"

#: Ending of the file of a measurement that was stopped early where a whole one was made before.
STOPPED = ".stopped"


@command_named("measure")
@with_options(
    *options("quick seconds device no-library show"),
    option("chart", help="Draw bandwidth over the working set: .svg, .png or .pdf."),
    *options("roofline against"),
    option("csv", help="Write every ceiling, curve and shape as CSV in SI units."),
    option(
        "output-file",
        name="output",
        older="--output",
        help="Machine file to write; by default the one `--on this` reads.",
    ),
    option("json"),
)
def command(
    quick: bool,
    seconds: float | None,
    device: str | None,
    no_library: bool,
    again: bool,
    chart: str | None,
    roofline: str | None,
    against: str | None,
    csv_file: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Measure this machine: what its cores can compute, what each memory level can move.

    \b
    roofline measure                          # at most 60 s; from then on:  --on this
    roofline measure --quick -o here.toml
    roofline measure --seconds 300            # others use the machine too: more time confirms more figures
    roofline measure --show --chart bandwidth.svg --roofline roof.svg --csv figures.csv
    roofline measure --device cuda            # an accelerator; from then on:  --on this-device
    """
    from roofline.measurement import read_machine_file, write_machine_file
    from roofline.measurement.machine_file import check_machine_file

    sheet = _sheet(against, roofline)
    check_files((chart, roofline), (csv_file,))
    path = output or user_file("this.toml" if device is None else "this-device.toml")
    if again:
        for option, given in (("--quick", quick), ("--no-library", no_library), ("--seconds", seconds)):
            if given:
                raise InputError(f"--show measures nothing, so {option} says nothing", hint="leave one of them out")
        if device is not None and output is not None:
            raise InputError("--show shows the file of -o, so --device says nothing", hint="leave one of them out")
        measured = read_machine_file(path, device=device)
    else:
        check_machine_file(path)
        measured = _measured(quick, not no_library, seconds, device)
        path = _kept(measured, path)
        try:
            write_machine_file(measured, path)
        except HardwareError:
            _show(measured, as_json)
            raise
    _show(measured, as_json)
    written = _written(measured, chart, roofline, sheet, csv_file)
    if as_json:
        return
    if not again:
        if path.endswith(STOPPED):
            said = f"; {path.removesuffix(STOPPED)} keeps the whole measurement made before"
        else:
            own = "this" if device is None else DEVICE
            said = f"; use it with --on {f'{path}#{own}' if output else own}"
        click.echo(f"\nwrote {path}{said}")
    for file in written:
        wrote(file)


def _show(measured: Measurement, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        show_json(measured.to_dict())
    else:
        show(measured)


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
    import os

    from roofline.errors import RooflineError
    from roofline.measurement import read_machine_file

    if not measured.conditions.interrupted or not os.path.isfile(path):
        return path
    try:
        whole = not read_machine_file(path).conditions.interrupted
    except RooflineError:
        whole = False
    return path + STOPPED if whole else path


def _written(
    measured: Measurement, chart: str | None, roofline: str | None, sheet: Machine | None, csv_file: str | None
) -> list[str]:
    """Write the pictures and the table that were asked for; list their files."""
    if chart is not None:
        from roofline.charts.measurement_charts import bandwidth_chart

        bandwidth_chart(measured).save(chart)
    if roofline is not None:
        from roofline.charts.measurement_charts import measured_chart

        measured_chart(measured, sheet=sheet).save(roofline)
    if csv_file is not None:
        from roofline.measurement.machine_file import write_csv

        write_csv(measured, csv_file)
    return [file for file in (chart, roofline, csv_file) if file is not None]


def _measured(quick: bool, library: bool, seconds: float | None, device: str | None) -> Measurement:
    """Measure under a progress bar, which only a terminal shows."""
    from roofline.cli.output import working
    from roofline.measurement import measure

    with working("measuring") as report:

        def progress(done: float, what: str) -> None:
            report(done, 1.0, what)

        return measure(quick=quick, library=library, seconds=seconds, device=device, progress=progress)
