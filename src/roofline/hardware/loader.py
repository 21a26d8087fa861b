"""TOML files → Machines: the shipped catalog of chips and systems, and the user's own files laid over it.

A layer is one file. A name is looked up in the user's layers, the last one first, then in the shipped index; the
chip is then taken from the topmost layer that defines it. ``inherits`` looks one layer further down when a chip
inherits from its own key, so that a user's ``[chip.h100] inherits = "h100"`` changes only what it says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from roofline.errors import HardwareError, did_you_mean
from roofline.hardware import index
from roofline.hardware.doubts import doubts
from roofline.hardware.machine import Machine
from roofline.hardware.reading import Place, is_text_list
from roofline.hardware.schema import build, check_file

#: Several chips as other tools write them: ``8xH100``, ``h100 x 8``, ``v5e-16``, ``v5e 4x4``.
_MANY = re.compile(
    r"(?P<count>\d+)\s*[x×*]\s*(?P<chip>\S.*)|(?P<first>.+?)(?:\s*[x×*]\s*|(?P<hyphen>-)|\s+)(?P<shape>\d+(?:[x×]\d+)*)",
    re.IGNORECASE,
)
#: Chips whose slices Google names after their TensorCores: a v4-8 is four chips.
_COUNTED_BY_CORE = ("v2", "v3", "v4", "v5p")

#: The most chips of a family that are listed where its name is taken for one of them.
MOST_LISTED = 16

#: The most chips one may inherit through.
LONGEST_CHAIN = 50


class Layer(NamedTuple):
    """One parsed file: its chips and systems as they stand, and where it is."""

    chips: Mapping[str, dict[str, Any]]
    place: Place
    family: str
    systems: Mapping[str, dict[str, Any]]

    def key(self, squashed: str) -> str | None:
        """Return the key of the chip with this name, or None."""
        for key, raw in self.chips.items():
            aliases = raw.get("aliases", [])
            listed = aliases if is_text_list(aliases) else []
            if squashed in (index.squash(key), *map(index.squash, listed)):
                return key
        return None

    def system(self, squashed: str) -> str | None:
        """Return the key of the system with this name, or None."""
        from roofline.hardware.network_systems import names_of

        return next((k for k, raw in self.systems.items() if squashed in map(index.squash, names_of(k, raw))), None)


def read_layer(path: str) -> Layer:
    """Parse one file and check its head; a file that does not parse is an error naming the line."""
    import tomllib

    path = os.path.expanduser(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            data = tomllib.loads(handle.read())
    except OSError as error:
        raise HardwareError(f"cannot read {path!r}: {error.strerror}", hint="check the path") from None
    except UnicodeDecodeError:
        raise HardwareError(f"{path}: is not UTF-8 text", hint="save the file as UTF-8") from None
    except RecursionError:
        raise HardwareError(f"{path}: is nested too deeply", hint="a chip needs three levels of tables") from None
    except ValueError as error:
        raise HardwareError(f"{path}: does not read as TOML: {error}", hint="see https://toml.io") from None
    chips, place = check_file(data, path)
    return Layer(chips, place, data.get("family", ""), data.get("system", {}))


def layers_of(files: Iterable[str | os.PathLike[str]]) -> list[Layer]:
    """Read the user's files and the ``*.toml`` files of the user's folders, in order."""
    layers = []
    for item in [files] if isinstance(files, (str, os.PathLike)) else files:
        path = os.path.expanduser(os.fspath(item))
        layers += [read_layer(file) for file in (_inside(path) if os.path.isdir(path) else [path])]
    return layers


def _inside(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise HardwareError(f"cannot read {folder!r}: {error.strerror}", hint="check the path") from None
    return [os.path.join(folder, name) for name in sorted(names) if name.endswith(".toml")]


@cache
def _shipped_layer(file: str) -> Layer:
    return read_layer(os.path.join(index.CATALOG, file))


@cache
def shipped(key: str) -> Machine:
    """Build a chip of the shipped catalog from its one file."""
    layer = _shipped_layer(index.read().file(key))
    return _build(key, layer, [layer], ())


def find(name: str, layers: Sequence[Layer] = ()) -> Machine:
    """Build the chip called ``name`` from the user's layers or the shipped catalog.

    >>> find("NVIDIA H100 SXM").name
    'NVIDIA H100 SXM5 80GB'
    >>> find("Tesla V100-SXM2-32GB").key
    'v100'
    >>> find("h10")
    Traceback (most recent call last):
    roofline.errors.HardwareError: unknown chip 'h10'; did you mean 'h100'? (`roofline chips` lists all)
    """
    squashed = index.squash(name)
    for position in range(len(layers) - 1, -1, -1):
        key, system = layers[position].key(squashed), layers[position].system(squashed)
        if key is not None:
            machine = _from_layers(key, layers, ())
            return replace(machine, warnings=doubts(machine, _base(key, layers)))
        if system is not None:
            return _build_system(system, layers[position], layers[: position + 1])
    shipped_key, shipped_system = index.read().aliases.get(squashed), index.read().system_aliases.get(squashed)
    if shipped_key is None and shipped_system is None:
        shipped_key = index.for_device(name) or index.device_key(squashed)
    if shipped_key is not None:
        return _from_layers(shipped_key, layers, ())
    if shipped_system is not None:
        return _build_system(shipped_system, _shipped_layer(index.read().systems[shipped_system]), layers)
    raise unknown(name, layers)


#: Words for kinds of machines, and how to list those of the kind.
_KINDS = {"gpu": "", "cuda": " --filter nvidia", "rocm": " --filter amd"}

#: Words for the machine one sits at.
_HERE = ("cpu", "local", "localhost", "here", "host")


def unknown(name: str, layers: Sequence[Layer] = ()) -> HardwareError:
    """Make the error for a name no chip has, with the nearest one, or how several chips are written."""
    if os.path.isdir(os.path.expanduser(name)):
        return HardwareError(f"{name!r} is a folder", hint="lay its files over the catalog with --chips (files=)")
    if name.lower().endswith((".json", ".yaml", ".yml", ".txt", ".csv", ".py")):
        return HardwareError(f"{name!r} is no machine file", hint="one is TOML, and its name ends in .toml")
    larger = index.read().aliases.get(index.squash(name) + "gb")
    if larger is not None:
        return HardwareError(f"unknown chip {name!r}", hint=f"did you mean {larger!r}? (`roofline chips` lists all)")
    several = _several(name, layers)
    if several:
        return HardwareError(f"unknown chip {name!r}", hint=several)
    own = {index.squash(key): key for layer in layers for key in (*layer.chips, *layer.systems)}
    own |= {squashed: key for squashed, key in index.read().system_aliases.items() if squashed not in own}
    squashed, every = index.squash(name), [*own, *index.read().aliases]
    begin = re.match(r"[a-z]{2,}", squashed)
    alike = [alias for alias in every if (alias.startswith(begin[0]) if begin else alias.isdigit())]
    near = did_you_mean(squashed, alike) or did_you_mean(squashed, every)
    family = index.family(squashed)
    if squashed in _HERE:
        hint = "measure this machine with `roofline measure`, then --on this; `roofline chips` lists data sheets"
    elif len(family) > MOST_LISTED:
        hint = f"`roofline chips --filter {squashed}` lists its {len(family)} chips"
    elif family:
        hint = f"chips of that family are: {', '.join(family)}"
    elif squashed in _KINDS:
        hint = f"name one: `roofline chips{_KINDS[squashed]}` lists them"
    elif near:
        key = own.get(near) or index.read().aliases[near]
        called = key if near in own or near == key.replace("-", "") else min(key, near, key=len)
        hint = f"did you mean {called!r}? (`roofline chips` lists all)"
    elif "/" in name or "\\" in name or re.search(r"\.\w+$", name):
        hint = "the name of a machine file ends in .toml"
    else:
        hint = "`roofline chips` lists all"
    return HardwareError(f"unknown chip {name!r}", hint=hint)


def _several(name: str, layers: Sequence[Layer]) -> str:
    """Say how ``8xH100``, ``h100 x 8``, ``v5e-16`` or ``h100,a100`` is written, where that is meant."""
    if "," in name and all(index.squash(part) in index.read().aliases for part in name.split(",")):
        return f"chips are named one by one: {' and '.join(repr(part.strip()) for part in name.split(','))}"
    found = _MANY.fullmatch(name.strip())
    if found is None:
        return ""
    chip, count = found["chip"] or found["first"], found["count"] or found["shape"]
    squashed = index.squash(chip)
    key = next((k for layer in reversed(layers) if (k := layer.key(squashed))), index.read().aliases.get(squashed))
    if key is None:
        return ""
    if found["hyphen"] and key in _COUNTED_BY_CORE and count.isdigit() and int(count) > 1:
        return f"Google counts its TensorCores, two a chip: write '{key}:{int(count) // 2}' for {int(count) // 2} chips"
    return f"several chips stand behind a colon: '{key}:{count.lower().replace('×', 'x')}'"


def _from_layers(key: str, layers: Sequence[Layer], chain: tuple[str, ...]) -> Machine:
    """Build ``key`` from the topmost of ``layers`` that defines it, else from the shipped catalog."""
    for position in range(len(layers) - 1, -1, -1):
        if key in layers[position].chips:
            return _build(key, layers[position], layers[: position + 1], chain)
    if key in index.read().chips:
        return shipped(key)
    raise unknown(key, layers)


def _base(key: str, layers: Sequence[Layer]) -> Machine | None:
    """The chip that a chip of the user's builds on or stands in for, if any."""
    parent = next((layer.chips[key].get("inherits") for layer in reversed(layers) if key in layer.chips), None)
    if parent is not None and index.squash(parent) != index.squash(key):
        known = index.read().aliases.get(index.squash(parent), parent)
        return _from_layers(known, layers, ())
    return shipped(key) if key in index.read().chips else None


def _build(key: str, layer: Layer, layers: Sequence[Layer], chain: tuple[str, ...]) -> Machine:
    raw = layer.chips[key]
    place = layer.place.at("chip", key)
    parent = raw.get("inherits")
    if parent is None:
        return build(key, raw, place, family=layer.family)
    if not isinstance(parent, str):
        place.at("inherits").fail(f"is {parent!r:.60}", "expected the name of one chip, such as 'h100'")
    return build(key, raw, place, family=layer.family, parent=_parent(parent, key, place, layers, chain))


def _build_system(key: str, layer: Layer, layers: Sequence[Layer]) -> Machine:
    """Build a system from its layer; the chip it is made of is looked up like any other name."""
    from roofline.hardware.network_systems import build_system

    def chip_named(name: str) -> Machine:
        squashed = index.squash(name)
        known = next((k for below in reversed(layers) if (k := below.key(squashed))), None)
        known = known or index.read().aliases.get(squashed)
        if known is None:
            place.at("chip").fail(f"names {name!r}, which is not known", unknown(name, layers).hint)
        return _from_layers(known, layers, ())

    place = layer.place.at("system", key)
    return build_system(key, layer.systems[key], place, chip_named)


def _parent(name: str, key: str, place: Place, layers: Sequence[Layer], chain: tuple[str, ...]) -> Machine:
    """Find what a chip inherits from: in its own layer and those below, or below only where it names itself."""
    squashed = index.squash(name)
    below = layers[:-1] if squashed == index.squash(key) else layers
    found = next((k for layer in reversed(below) if (k := layer.key(squashed))), None)
    if found is not None and any(found in layer.chips for layer in below):
        step = f"{len(below)}:{found}"
        if step in chain:
            place.at("inherits").fail(f"goes round in a circle through {name!r}", "let one of them stand alone")
        if len(chain) >= LONGEST_CHAIN:
            place.at("inherits").fail(f"goes through more than {LONGEST_CHAIN} chips", "inherit from nearer the root")
        return _from_layers(found, below, (*chain, step))
    shipped_key = index.read().aliases.get(squashed)
    if shipped_key is None or shipped_key in chain:
        place.at("inherits").fail(f"names {name!r}, which is not known", unknown(name, layers).hint)
    return shipped(shipped_key)


def read_folder(folder: str) -> list[Machine]:
    """Build every chip of the catalog files in a folder, file by file, in order."""
    machines = []
    for file in _inside(folder):
        layer = read_layer(file)
        machines += [_build(key, layer, [layer], ()) for key in layer.chips]
    return machines


def read_systems(folder: str) -> list[Machine]:
    """Build every system of the catalog files in a folder, file by file, in order."""
    layers = [read_layer(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".toml")]
    return [_build_system(key, layer, layers) for layer in layers for key in layer.systems]


def systems() -> list[str]:
    """List the keys of the shipped systems.

    >>> systems()
    ['trn2-ultraserver', 'dgx-b200', 'gb200-superpod', 'dgx-h100', 'dgx-h200']
    """
    return list(index.read().systems)


def everything(files: Iterable[str | os.PathLike[str]] = ()) -> list[Machine]:
    """Build all chips: the shipped ones, the user's own in place of those of the same key, then the user's others."""
    layers = layers_of(files)
    keys = dict.fromkeys([*index.read().chips, *(key for layer in layers for key in layer.chips)])
    return [_from_layers(key, layers, ()) for key in keys]
