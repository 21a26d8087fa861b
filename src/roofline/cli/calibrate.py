"""``roofline calibrate``: constants of estimates from a few runs of one's own."""

from __future__ import annotations

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, with_options
from roofline.cli.output import show, show_json


@command_named("calibrate")
@argument("file")
@with_options(
    option("on", required=True, multiple=False, metavar="TARGET", help="The chip the runs are of."),
    option("library", help="What ran, where rows do not say so."),
    option("from"),
    option("output-file", name="output", older="--output", help="Write the constants to a file for --constants."),
    option("json"),
)
def command(file: str, on: str, library: str, start: str | None, output: str | None, as_json: bool) -> None:
    """Fit the constants of estimates to a CSV of runs; ten rows of a kind of kernel suffice.

    A row is an expression or m, n, k, or batch, heads, kv_heads, head_size, length, with dtype and seconds, ms or us.

    \b
    roofline calibrate my_runs.csv --on h100 -o mine.toml
    roofline bound "bf16[64, 8192] @ bf16[8192, 8192]" --on h100 --estimate --constants mine.toml
    """
    from roofline.estimates import calibrate

    found = calibrate(file, on, library=library, start=start)
    if output is not None:
        found.save(output)
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
