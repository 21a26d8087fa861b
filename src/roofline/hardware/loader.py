"""TOML files → Machines: the shipped catalog, and the user's own files laid over it.

A layer is one file. A name is looked up in the user's layers, the last one first, then in the shipped index; the
chip is then taken from the topmost layer that defines it. ``inherits`` looks one layer further down when a chip
inherits from its own key, so that a user's ``[chip.h100] inherits = "h100"`` changes only what it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from roofline.errors import HardwareError, did_you_mean
from roofline.hardware import index
from roofline.hardware.machine import Machine
from roofline.hardware.reading import Place, is_text_list
from roofline.hardware.schema import build, check_file

#: The most chips one may inherit through.
LONGEST_CHAIN = 50


class Layer(NamedTuple):
    """One parsed file: its chips as they stand, and where it is."""

    chips: Mapping[str, dict[str, Any]]
    place: Place
    family: str

    def key(self, squashed: str) -> str | None:
        """Return the key of the chip with this name, or None."""
        for key, raw in self.chips.items():
            aliases = raw.get("aliases", [])
            listed = aliases if is_text_list(aliases) else []
            if squashed in (index.squash(key), *map(index.squash, listed)):
                return key
        return None


def read_layer(path: str) -> Layer:
    """Parse one file and check its head; a file that does not parse is an error naming the line."""
    import tomllib

    try:
        with open(path, "rb") as handle:
            data = tomllib.load(handle)
    except OSError as error:
        raise HardwareError(f"cannot read {path!r}: {error.strerror}", hint="check the path") from None
    except UnicodeDecodeError:
        raise HardwareError(f"{path}: is not UTF-8 text", hint="save the file as UTF-8") from None
    except RecursionError:
        raise HardwareError(f"{path}: is nested too deeply", hint="a chip needs three levels of tables") from None
    except ValueError as error:
        raise HardwareError(f"{path}: does not read as TOML: {error}", hint="see https://toml.io") from None
    chips, place = check_file(data, path)
    return Layer(chips, place, data.get("family", ""))


def layers_of(files: Iterable[str | os.PathLike[str]]) -> list[Layer]:
    """Read the user's files and the ``*.toml`` files of the user's folders, in order."""
    layers = []
    for item in [files] if isinstance(files, (str, os.PathLike)) else files:
        path = os.fspath(item)
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
    >>> find("h10")
    Traceback (most recent call last):
    roofline.errors.HardwareError: unknown chip 'h10'; did you mean 'h100'? (`roofline chips` lists all)
    """
    squashed = index.squash(name)
    key = next((found for layer in reversed(layers) if (found := layer.key(squashed))), None)
    key = key or index.read().aliases.get(squashed)
    if key is None:
        raise unknown(name, layers)
    return _from_layers(key, layers, ())


def unknown(name: str, layers: Sequence[Layer] = ()) -> HardwareError:
    """Make the error for a name no chip has, with the nearest one."""
    own = {index.squash(key): key for layer in layers for key in layer.chips}
    near = did_you_mean(index.squash(name), [*own, *index.read().aliases])
    hint = (
        f"did you mean {own.get(near, near)!r}? (`roofline chips` lists all)" if near else "`roofline chips` lists all"
    )
    return HardwareError(f"unknown chip {name!r}", hint=hint)


def _from_layers(key: str, layers: Sequence[Layer], chain: tuple[str, ...]) -> Machine:
    """Build ``key`` from the topmost of ``layers`` that defines it, else from the shipped catalog."""
    for position in range(len(layers) - 1, -1, -1):
        if key in layers[position].chips:
            return _build(key, layers[position], layers[: position + 1], chain)
    if key in index.read().chips:
        return shipped(key)
    raise unknown(key, layers)


def _build(key: str, layer: Layer, layers: Sequence[Layer], chain: tuple[str, ...]) -> Machine:
    raw = layer.chips[key]
    place = layer.place.at("chip", key)
    parent = raw.get("inherits")
    if parent is None:
        return build(key, raw, place, family=layer.family)
    if not isinstance(parent, str):
        place.at("inherits").fail(f"is {parent!r:.60}", "expected the name of one chip, such as 'h100'")
    return build(key, raw, place, family=layer.family, parent=_parent(parent, key, place, layers, chain))


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


def everything(files: Iterable[str | os.PathLike[str]] = ()) -> list[Machine]:
    """Build all chips: the shipped ones, the user's own in place of those of the same key, then the user's others."""
    layers = layers_of(files)
    keys = dict.fromkeys([*index.read().chips, *(key for layer in layers for key in layer.chips)])
    return [_from_layers(key, layers, ()) for key in keys]
