"""``roofline chips``: list, filter, compare and explain the machines of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline import dtypes
from roofline.bounds.chip_card import chip_data, comparison, detail
from roofline.bounds.chip_list import chips, listing, of_makers, order_meant
from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.option_values import machine_files, parse_set
from roofline.cli.output import show, show_json
from roofline.errors import InputError
from roofline.hardware import Machine, chip
from roofline.sections import Amount, Column, Row, Table


@command_named("chips")
@argument("names", nargs=-1, metavar="[CHIP]...", values="chip")
@with_options(
    option("filter"),
    option("dtype", default="bf16", help="Which peak the list shows."),
    *options("sort ratio set chips sources json"),
)
def command(
    names: tuple[str, ...],
    filter_: str | None,
    dtype: str,
    sort: str | None,
    ratio: str | None,
    set_: tuple[str, ...],
    files: tuple[str, ...],
    sources: bool,
    as_json: bool,
) -> None:
    """List the catalog; with one chip its figures and rules of thumb; with several, side by side.

    \b
    roofline chips nvidia
    roofline chips h100 --sources
    roofline chips h100 mi300x v5p
    roofline chips v4 v5p --ratio hbm/pcie
    """
    dtype = dtypes.arithmetic_name(dtype)
    layers = machine_files(files)
    overrides: dict[str, Any] = dict(parse_set(set_))
    if overrides and not names:
        raise InputError("--set goes with a chip", hint="as in: roofline chips v5e --set hbm=8.2e11")
    order = None if sort is None else order_meant(sort)
    makers = not overrides and bool(of_makers(names, layers))
    if names and not makers:
        found = [chip(name, files=layers, **overrides) for name in names]
    else:
        found = chips(names, filter=None if makers else filter_, sort=sort, dtype=dtype, files=layers)
    if ratio is not None:
        _show_ratios(found, ratio, as_json)
    elif as_json:
        show_json({"schema": "roofline/chips/1", "chips": [chip_data(machine) for machine in found]})
    elif makers or not names:
        show(listing(found, dtype, order))
    elif len(names) == 1:
        show(detail(found[0], sources=sources))
    else:
        show(comparison(found), whole=True)


def _show_ratios(machines: Sequence[Machine], text: str, as_json: bool) -> None:
    """One figure over another, of each chip."""
    name, slash, other = (part.strip() for part in text.partition("/"))
    if not slash or not name or not other:
        raise InputError(f"--ratio {text!r} is not two figures", hint="as in --ratio hbm/pcie")
    found = {machine.key: machine.ratio(name, other) for machine in machines}
    if as_json:
        show_json({"schema": "roofline/ratios/1", "figure": name, "over": other, "ratios": found})
    else:
        columns = (Column("chip"), Column(f"{name} over {other}", "right"))
        show([Table(columns, [Row((key, Amount(value))) for key, value in found.items()], indent=0)])
