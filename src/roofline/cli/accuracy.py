"""``roofline accuracy``: how far estimates are from measurements."""

from __future__ import annotations

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, with_options
from roofline.cli.output import show, show_json


@command_named("accuracy")
@argument("chip", values="chip", required=False)
@with_options(
    option("op"),
    option("library", default=None, show_default=False, help="A library: vllm, trtllm, sglang, nccl, torch."),
    option("constants", name="files"),
    option("json"),
)
def command(chip: str | None, kernel: str | None, library: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """How far estimates are from measurements that were not fitted, by chip, library, kind of kernel and format.

    \b
    roofline accuracy h100
    roofline accuracy --op attention
    """
    from roofline.estimates import accuracy

    found = accuracy(chip, kernel=kernel, library=library, files=files)
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
