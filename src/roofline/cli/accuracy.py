"""``roofline accuracy``: how far estimates are from measurements."""

from __future__ import annotations

import click

from roofline.cli.output import show, show_json


@click.command("accuracy")
@click.argument("chip", required=False)
@click.option("--op", "kernel", metavar="KIND", help="A kind of kernel: gemm, attention, moe, collective, norm …")
@click.option("--library", metavar="NAME", help="A library: vllm, trtllm, sglang, nccl, torch.")
@click.option("--constants", "files", multiple=True, metavar="FILE", help="Constants of your own, from calibrate.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
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
