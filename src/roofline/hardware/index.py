"""The index of the shipped catalog: which file holds a chip, under which names it may be asked for.

It lets a command parse one TOML file. It is made from the files by :func:`write`, and a test holds it to them.

>>> squash("NVIDIA H100 SXM"), squash("tpu-v5e"), squash("TPU v5e"), squash("gtx1080ti")
('h100sxm', 'v5e', 'v5e', '1080ti')
>>> read().key("1080 Ti"), read().file("gtx-1080-ti")
('gtx-1080-ti', 'nvidia-pascal.toml')
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from roofline import letters
from roofline.errors import HardwareError
from roofline.hardware.machine import Machine

CATALOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalog")
INDEX = "index.json"

#: Words in front of a chip's name that say who makes it or what it is, not which one it is.
_MAKERS = re.compile(
    r"^(?:gpu|nvidia|amd|google|intel|aws|apple|huawei|cerebras|geforce|gtx|rtx|tesla|instinct|radeon|cloud|tpu|ascend|xeon|epyc)+(?=.)"
)


class Index(NamedTuple):
    """``chips`` maps a key to its file, ``aliases`` a squashed name to a key, ``match`` a device name to a key.

    ``systems`` maps the key of a system to its file, ``system_aliases`` a squashed name to such a key.
    """

    chips: Mapping[str, str]
    aliases: Mapping[str, str]
    match: Mapping[str, str]
    systems: Mapping[str, str]
    system_aliases: Mapping[str, str]

    def key(self, name: str) -> str | None:
        """Return the key of the chip called ``name``, or None."""
        return self.aliases.get(squash(name))

    def file(self, key: str) -> str:
        """Return the name of the file that holds a chip."""
        return self.chips[key]


def squash(name: str) -> str:
    """Reduce a name to what is compared: lower case, letters and digits, no maker in front."""
    plain = re.sub(r"[\W_]+", "", letters.plain(name).lower())
    return _MAKERS.sub("", plain)


@cache
def read() -> Index:
    """Read the shipped index, once."""
    import json

    with open(os.path.join(CATALOG, INDEX), encoding="utf-8") as handle:
        data: dict[str, Any] = json.load(handle)
    return Index(data["chips"], data["aliases"], data["match"], data["systems"], data["system_aliases"])


def for_device(name: str) -> str | None:
    """Return the key of the chip a driver reports under this name, the most specific pattern winning, or None.

    A pattern stands at the end of the name: what follows a name makes another chip ("RTX 4090 D", "H200 NVL").

    >>> for_device("NVIDIA A100-SXM4-40GB"), for_device("TPU v5 lite"), for_device("NVIDIA GeForce RTX 4090 D")
    ('a100-40gb', 'v5e', None)
    """
    device = " ".join(name.split()).lower()
    found = [pattern for pattern in read().match if re.search(rf"(?<!\w){re.escape(pattern.lower())}$", device)]
    return read().match[max(found, key=len)] if found else None


def device_key(squashed: str) -> str | None:
    """Return the key of the chip whose driver's name this is without its maker, or None.

    >>> device_key(squash("V100-SXM2-32GB")), device_key(squash("v100"))
    ('v100', None)
    """
    return next((key for pattern, key in read().match.items() if squash(pattern) == squashed), None)


def family(word: str) -> list[str]:
    """List the chips of a maker or an architecture, as the files of the catalog are called.

    >>> family("hopper")[:3], family("gpu")
    (['h100', 'h100-pcie', 'h100-nvl'], [])
    """
    words = {key: file.removesuffix(".toml").split("-") for key, file in read().chips.items()}
    return [] if word == "gpu" else [key for key, found in words.items() if word in found]


def make(machines: Iterable[Machine], systems: Iterable[Machine] = ()) -> dict[str, Any]:
    """Make the content of an index; two chips, or a chip and a system, under one name are an error."""
    chips: dict[str, str] = {}
    aliases: dict[str, str] = {}
    match: dict[str, str] = {}
    for machine in machines:
        chips[machine.key] = os.path.basename(machine.file)
        for name in (machine.key, machine.name, *machine.aliases):
            _claim(aliases, squash(name), machine.key, "name")
        for pattern in machine.match:
            _claim(match, pattern, machine.key, "device name")
    system_files: dict[str, str] = {}
    system_aliases: dict[str, str] = {}
    for system in systems:
        system_files[system.key] = os.path.basename(system.file)
        for name in (system.key, *system.aliases):
            _claim(dict(aliases), squash(name), system.key, "name")
            _claim(system_aliases, squash(name), system.key, "name")
    return {
        "schema": 1,
        "chips": chips,
        "aliases": dict(sorted(aliases.items())),
        "match": match,
        "systems": system_files,
        "system_aliases": dict(sorted(system_aliases.items())),
    }


def _claim(taken: dict[str, str], name: str, key: str, what: str) -> None:
    other = taken.setdefault(name, key)
    if other != key:
        raise HardwareError(f"the {what} {name!r} belongs to both {other} and {key}", hint="keep it in one of them")


def write(folder: str = CATALOG) -> None:
    """Make the index anew from the catalog files in ``folder``."""
    import json

    from roofline.hardware.loader import read_folder, read_systems

    content = make(read_folder(folder), read_systems(folder))
    with open(os.path.join(folder, INDEX), "w", encoding="utf-8") as handle:
        json.dump(content, handle, indent=1, ensure_ascii=False)
        handle.write("\n")


if __name__ == "__main__":
    write()
