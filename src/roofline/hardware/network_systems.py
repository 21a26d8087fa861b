"""A system as it stands in a TOML file → the Machine of its chip, with the system's links from the inside out.

::

    [system.my-cluster]
    chip = "h100"                     # a chip of the same file, or of the catalog

    [[system.my-cluster.link]]
    name = "nvlink"                   # what is not said comes from the chip's link of this name

    [[system.my-cluster.link]]
    name = "ib"
    topology = "switch"               # fat-tree: what goes further up crosses this tier's links too
    bandwidth = "25 GB/s"             # one way, per chip
    domain = 512                      # chips it joins

>>> from roofline.hardware import chip
>>> chip("dgx-h100:64").mesh
Mesh(X=64 nvlink switch 8, ib switch 8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roofline.hardware.inherit import fill
from roofline.hardware.machine import Machine
from roofline.hardware.reading import Place, is_text_list, known_keys, text_of, texts_of
from roofline.hardware.schema import links_of

_SYSTEM_KEYS = ("name", "chip", "aliases", "notes", "link")


def build_system(key: str, raw: Mapping[str, Any], place: Place, chip_named: Callable[[str], Machine]) -> Machine:
    """Make the Machine of a system's chip, joined by the system's links."""
    known_keys(raw, _SYSTEM_KEYS, place)
    name = text_of(raw, "chip", place)
    if not name:
        place.at("chip").fail("is missing", "name the chip it is made of, such as 'h100'")
    chip = chip_named(name)
    own = {link.name: link for link in chip.links}
    links = tuple(fill(own[link.name], link) if link.name in own else link for link in links_of(raw, place))
    if not links:
        place.fail("has no link", f"add [[system.{key}.link]] tables, the innermost first")
    widest = 0
    for link in links:
        if link.domain is not None and link.domain <= widest:
            hint = "list the links from the inside out, each joining more chips than the one before"
            place.at("link").fail(f"{link.name!r} joins {link.domain} chips and the one before it {widest}", hint)
        if link.domain is not None and widest and link.domain % widest:
            place.at("link").fail(f"{link.name!r} joins {link.domain} chips", f"expected a multiple of {widest}")
        widest = link.domain or widest
    title = text_of(raw, "name", place) or key
    return replace(
        chip,
        key=key,
        name=f"{chip.name} in {title}",
        links=links,
        notes=(*chip.notes, *texts_of(raw, "notes", place)),
        aliases=texts_of(raw, "aliases", place),
        file=place.file,
    )


def names_of(key: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Names a system may be asked for by."""
    aliases = raw.get("aliases", [])
    return (key, *(aliases if is_text_list(aliases) else ()))
