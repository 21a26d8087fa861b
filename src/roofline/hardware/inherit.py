"""``inherits``: what a chip leaves unsaid comes from the chip it names.

>>> from roofline.hardware import chip
>>> merge(chip("h100"), chip("h200")).units[0].peaks["bf16"].value
989000000000000.0
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from roofline.frozen import Frozen
from roofline.hardware.machine import Link, Machine, Memory, Unit

_Part = TypeVar("_Part", Unit, Memory, Link)


def merge(parent: Machine, child: Machine) -> Machine:
    """Fill what ``child`` leaves unsaid from ``parent``: part by part, level by level, dtype by dtype.

    Names, prices, notes and what other sources say stay the child's own.
    """
    return replace(
        child,
        name=child.name if child.name != child.key else parent.name,
        units=_merge_named(parent.units, child.units, _merge_units),
        memories=_merge_named(parent.memories, child.memories, fill),
        links=_merge_named(parent.links, child.links, fill),
        cores=child.cores or parent.cores,
        core=child.core or parent.core,
        registers=child.registers or parent.registers,
        tdp=child.tdp or parent.tdp,
        vendor=child.vendor or parent.vendor,
        notes=child.notes or parent.notes,
    )


def _merge_named(below: tuple[Any, ...], above: tuple[Any, ...], join: Any) -> tuple[Any, ...]:
    merged = {part.name: part for part in below}
    for part in above:
        merged[part.name] = join(merged[part.name], part) if part.name in merged else part
    return tuple(merged.values())


def _merge_units(below: Unit, above: Unit) -> Unit:
    return replace(
        fill(below, above),
        peaks=Frozen({**below.peaks, **above.peaks}),
        achievable=Frozen({**below.achievable, **above.achievable}),
        per_clock=Frozen({**below.per_clock, **above.per_clock}),
    )


def fill(below: _Part, above: _Part) -> _Part:
    """Take what ``above`` leaves unsaid from ``below``."""
    missing = {f.name: getattr(below, f.name) for f in fields(above) if not getattr(above, f.name)}
    return replace(above, **missing)
