"""``roofline accuracy``: how far estimates are from measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, with_options
from roofline.cli.output import show, show_json
from roofline.cli.progress import working

if TYPE_CHECKING:
    from roofline.answers import Answer


@command_named("accuracy")
@argument("chip", values="chip", required=False)
@with_options(
    option("op"),
    option("library", default=None, show_default=False, help="A library: vllm, trtllm, sglang, nccl, torch."),
    option("constants", name="files"),
    option(
        "constants",
        words="--runs",
        older="--data",
        name="data",
        multiple=False,
        help="Your own runs, to hold constants against.",
    ),
    option("json"),
)
def command(
    chip: str | None, kernel: str | None, library: str | None, files: tuple[str, ...], data: str | None, as_json: bool
) -> None:
    """How far estimates are from measurements that were not fitted, by chip, library, kind of kernel and format.

    \b
    roofline accuracy h100
    roofline accuracy --op attention
    roofline accuracy h100 --runs mine.csv
    """
    from roofline.errors import InputError
    from roofline.estimates import accuracy, held_accuracy
    from roofline.hardware import chip as machine_named
    from roofline.measurement import measured_kernels

    found: Answer
    if data is None:
        found = accuracy(chip and chip.lower(), kernel=kernel, library=library, files=files)
    elif chip is None or kernel is not None:
        said = "--runs has rows of one chip" if chip is None else "--op picks shipped errors, --runs has its own rows"
        raise InputError(said, hint=f"roofline accuracy {chip or 'h100'} --runs {data}")
    else:
        with working("reading runs"):
            runs = measured_kernels(data, machine_named(chip))
            found = held_accuracy(runs, chip, library=library or "vllm", files=files)
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
