"""``roofline accuracy``: how far estimates are from measurements."""

from __future__ import annotations

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, with_options
from roofline.cli.output import show, show_json, working


@command_named("accuracy")
@argument("chip", values="chip", required=False)
@with_options(
    option("op"),
    option("library", default=None, show_default=False, help="A library: vllm, trtllm, sglang, nccl, torch."),
    option("constants"),
    option(
        "constants",
        words="--runs",
        older="--data",
        name="runs",
        multiple=False,
        help="Your own runs, to hold constants against.",
    ),
    option("json"),
)
def command(
    chip: str | None, op: str | None, library: str | None, constants: tuple[str, ...], runs: str | None, as_json: bool
) -> None:
    """How far estimates are from measurements that were not fitted, by chip, library, kind of kernel and format.

    \b
    roofline accuracy h100
    roofline accuracy --op attention
    roofline accuracy h100 --runs mine.csv
    """
    from roofline.estimates import accuracy

    with working("reading runs"):
        found = accuracy(chip, op=op, library=library, constants=constants, runs=runs)
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
