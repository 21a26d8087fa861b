"""``roofline chips``: list, filter, compare and explain the machines of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from roofline import dtypes
from roofline.bounds.chip_card import chip_data, comparison, detail, listing, row_figures
from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.options import machine_files, parse_set
from roofline.cli.output import show, show_json
from roofline.errors import InputError, did_you_mean
from roofline.hardware import Machine, chip, chips
from roofline.sections import Amount, Column, Row, Table

#: Columns of the list that ``--sort`` takes.
SORTS = ("name", "peak", "bandwidth", "capacity", "ridge")


@command_named("chips")
@argument("names", nargs=-1, metavar="[CHIP]...", values="chip")
@with_options(
    option("filter"),
    option("dtype", default="bf16", help="Which peak the list shows."),
    option("sort", type=click.Choice(SORTS)),
    *options("ratio set chips sources json"),
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
    makers = [] if overrides else _of_makers(names, layers)
    if makers:
        found = _ordered(makers, sort, dtype)
    elif names:
        found = [chip(name, files=layers, **overrides) for name in names]
    else:
        found = _ordered(_filtered(chips(layers), filter_), sort, dtype)
    if ratio is not None:
        _show_ratios(found, ratio, as_json)
    elif as_json:
        show_json({"schema": "roofline/chips/1", "chips": [chip_data(machine) for machine in found]})
    elif makers or not names:
        show(listing(found, dtype))
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


def _of_makers(names: Sequence[str], layers: Sequence[str]) -> list[Machine]:
    """The chips of makers or families, where nothing else is named: ``nvidia``, ``tpu``."""
    if not names:
        return []
    machines = chips(layers)
    wanted = {name.lower() for name in names}
    groups = {m.key: {m.vendor.lower(), m.family.lower(), *m.family.lower().split("-")} for m in machines}
    if not wanted <= set().union(*groups.values()) - set(groups):
        return []
    return [m for m in machines if wanted & groups[m.key]]


def _filtered(machines: list[Machine], text: str | None) -> list[Machine]:
    if text is None:
        return machines
    words = {m.key: " ".join((m.key, m.name, m.vendor, m.family, *m.aliases, *m.match)) for m in machines}
    kept = [m for m in machines if text.lower() in words[m.key].lower()]
    if not kept:
        makers = sorted({m.vendor for m in machines if m.vendor})
        near = did_you_mean(text, [*makers, *(m.key for m in machines)])
        hint = f"did you mean {near!r}?" if near else f"makers are: {', '.join(makers)}"
        raise InputError(f"no chip holds {text!r}", hint=hint)
    return kept


def _ordered(machines: list[Machine], sort: str | None, dtype: str) -> list[Machine]:
    if sort is None:
        return machines
    if sort == "name":
        return sorted(machines, key=lambda m: m.name.lower())
    figures: dict[str, Any] = {m.key: row_figures(m, dtype)[sort] for m in machines}
    return sorted(machines, key=lambda m: -(figures[m.key] or 0))
