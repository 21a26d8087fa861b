"""``roofline chips``: list, filter, compare and explain the machines of the catalog."""

from __future__ import annotations

from typing import Any

import click

from roofline.answers import figures_of
from roofline.bounds.chip_list import ChipList, chips, detail
from roofline.cli.command import argument, command_named, not_default
from roofline.cli.option_table import option, options, with_options
from roofline.cli.option_values import machine_files, parse_set
from roofline.cli.output import is_kept, show, show_answer
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.hardware.catalog import machine_template


@command_named("chips")
@argument("names", nargs=-1, metavar="[CHIP]...", values="chip")
@with_options(
    option("filter"),
    option("dtype", default="bf16"),
    option("top", default=None),
    *options("sort ratio set chips template sources json"),
)
def chips_command(
    names: tuple[str, ...],
    filter_: str | None,
    dtype: str,
    sort: str | None,
    top: int | None,
    ratio: str | None,
    set_: tuple[str, ...],
    files: tuple[str, ...],
    template: bool,
    sources: bool,
    as_json: bool,
) -> None:
    """List the catalog; with one chip its figures and rules of thumb; with several, side by side.

    \b
    roofline chips nvidia
    roofline chips h100 --sources
    roofline chips h100 mi300x v5p
    roofline chips --filter "fp8, memory>=80GB" --sort bandwidth --top 5
    roofline chips --ratio bf16/price
    roofline chips --template > my-chip.toml
    """
    if template:
        if (
            as_json
            or sources
            or is_kept()
            or any((names, filter_, sort, top, ratio, set_, files, not_default("dtype")))
        ):
            raise InputError("--template goes alone", hint="as in: roofline chips --template > my-chip.toml")
        click.echo(machine_template(), nl=False)
        return
    if ratio is not None and sort is None and not_default("dtype"):
        raise InputError("--dtype is the peak that a list shows, and --ratio names its own", hint="leave --dtype out")
    layers = machine_files(files)
    overrides: dict[str, Any] = dict(parse_set(set_))
    if overrides and not names:
        raise InputError("--set goes with a chip", hint="as in: roofline chips v5e --set hbm=8.2e11")
    shown = dtype if not_default("dtype") else None
    of_lists = {"--filter": filter_, "--sort": sort, "--top": top, "--dtype": shown}
    if overrides and (idle := next((word for word, value in of_lists.items() if value is not None), None)):
        raise InputError(f"{idle} is of a list, and --set goes with chips by name", hint="leave one of them out")
    if overrides:
        own = [figures_of(name, names, {"set": overrides, "files": layers})["set"] for name in names]
        found = ChipList([chip(name, files=layers, **of) for name, of in zip(names, own, strict=True)], beside=True)
    else:
        # a ratio that ranks is worked out of all chips before the first of them are kept
        ranks = ratio is not None and sort is None and top is not None
        found = chips(names, filter=filter_, sort=sort, dtype=shown, top=None if ranks else top, files=layers)
    answer = found if ratio is None else found.ratio(*_two_figures(ratio), top=top)
    if sources and not (answer is found and found.beside):
        raise InputError("--sources is of chips by name", hint="as in: roofline chips h100 --sources")
    if answer is found and sources and found.beside and not as_json:
        show([section for machine in found for section in detail(machine, sources=True)], of=found)
    else:
        show_answer(answer, as_json, whole=found.beside)


def _two_figures(text: str) -> tuple[str, str]:
    name, slash, other = (part.strip() for part in text.partition("/"))
    if not slash or not name or not other:
        raise InputError(f"--ratio {text!r} is not two figures", hint="as in --ratio bf16/price, --ratio hbm/pcie")
    return name, other
