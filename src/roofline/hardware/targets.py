"""A target as it is typed → Machine: ``h100``, ``h100:8``, ``v5e:4x4``, ``dgx-h100:64``, ``my.toml#name``, ``this``.

A shape makes a mesh of its chips; ``v5e:16x16:2`` is two slices of 256 chips; ``8 x h100`` is ``h100:8``.

>>> chip("h100").name
'NVIDIA H100 SXM5 80GB'
>>> chip("v5e:4x4").shape
(4, 4)
>>> slow = chip("v5e", hbm="8.1e11 B/s", peak={"fp32": 1e13})
>>> slow.given
('hbm.bandwidth', 'mxu.fp32')
>>> chip("v5e:0x4")
Traceback (most recent call last):
roofline.errors.HardwareError: shape '0x4' of 'v5e:0x4' has a size of 0; each size is at least 1, as in ...

Targets whose number of chips is open, ``h100:n`` or ``v5e:nxn``: the ranges of n with one kind of network each.

A closed form holds in one of them: on one chip, on those that share a node, on whole nodes.

>>> for each in open_counts("h100:n"):
...     print(each.says, each.machine.mesh)
n = 1 Mesh(X=1)
n = 2 to 8 Mesh(X=n nvlink switch)
n = 16, 24 … Mesh(X=n nvlink switch 8, nic switch n/8)
>>> [str(each.machine.mesh) for each in open_counts("v5e:nxn")][-2:]
['Mesh(X=n ici line, Y=n ici line)', 'Mesh(X=16 ici ring, Y=16 ici ring)']

``inside`` is how many chips stand together inside the open axis, as those of tensor parallelism do, ``outside`` how
many such parts there are, as stages of a pipeline:

>>> [each.says for each in open_counts("h100:n", inside=4)]
['n = 4', 'n = 8', 'n = 16, 24 …']
>>> [each.says for each in open_counts("h100:n", outside=4)]
['n = 4', 'n = 8', 'n = 16', 'n = 32', 'n = 64, 96 …']
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from typing import Any

from roofline.counts import plain
from roofline.errors import HardwareError, InputError, LayoutError, quoted, suggest
from roofline.frozen import NamedTuple, replace
from roofline.hardware import catalog
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.mesh import uncounted, with_chips, with_mesh
from roofline.hardware.network import domain_of, links_inside_out
from roofline.hardware.rate import with_choices
from roofline.lazy import sympy
from roofline.signatures import NAMED_FIGURES, call, spelled, takes
from roofline.sizes import chip_count, symbol

_SHAPE = r"[0-9]+(?:[xX×][0-9]+)*"
_FILE = r"(?is)(?P<path>.+\.toml)(?:#(?P<name>[^:]*))?(?::(?P<shape>[^/\\]*))?"

#: The most chips one axis of a target may have.
LARGEST_AXIS = 10**6

#: Targets that are measured: what each stands for, the user's own file it is in, and the command that makes that.
MEASURED = {
    "this": ("this machine", "this.toml", "roofline measure"),
    "this-core": ("one core of this machine", "this.toml", "roofline measure"),
    "this-device": (
        "an accelerator of this machine", "this-device.toml", "roofline measure --device cuda` or `--device jax",
    ),
}  # fmt: skip


@takes([NAMED_FIGURES])
def chip(
    target: str | Machine | Mapping[str, Any],
    *,
    files: Iterable[str | os.PathLike[str]] = (),
    unit: str | None = None,
    over: str | None = None,
    achievable: bool = False,
    **overrides: Any,
) -> Machine:
    """Resolve a target, with the caller's figures and choices applied.

    ``files`` are TOML files or folders laid over the shipped catalog, later ones winning. ``overrides`` set figures
    by name: a memory level (``hbm="8.1e11 B/s"``), a dtype (``bf16=1e15``), ``peak`` for every dtype, a link;
    dotted names through a dictionary (``hbm={"capacity": "80 GiB"}``, ``set={"smem.capacity": "2x"}``). ``unit`` and
    ``over`` choose what ``matrix`` and ``main`` mean, ``achievable`` multiplies by measured fractions where known.

    >>> chip("h100", hbm="3 TB/s").memories[0].bandwidth.basis
    'given'

    A chip that is not in the catalog is a dictionary of its figures, which may inherit from one that is:

    >>> mine = chip({"name": "My accelerator", "bf16": "312 TFLOP/s", "hbm": {"bandwidth": 2e12, "capacity": "80 GB"}})
    >>> mine, mine.figure("bf16").value, mine.figure("hbm").value
    (Machine(myaccelerator: bf16 312 TFLOP/s, hbm 2 TB/s, 80 GB), 312000000000000.0, 2000000000000.0)

    Or a file with what is known of it; its keys, which a dictionary may have too, are in ``docs/machines.md``:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "mine.toml")
    >>> with open(path, "w") as file:
    ...     _ = file.write('''
    ...         [chip.mine]
    ...         name = "My accelerator"
    ...         [chip.mine.unit.matrix]
    ...         peak.bf16 = "312 TFLOP/s"
    ...         [[chip.mine.memory]]
    ...         level = "hbm"
    ...         bandwidth = "2 TB/s"
    ...         capacity = "80 GB"
    ...     ''')
    >>> chip("mine", files=[path]).name, chip(path).memories[0].capacity.value
    ('My accelerator', 80000000000.0)
    """
    if isinstance(target, Mapping):
        target, figures = catalog.described_machine(target, catalog.read_layers(files))
        overrides = figures | overrides
    try:
        machine, shape, slices = _resolve(target, files)
    except HardwareError as error:
        if not overrides:
            raise
        more = "; figures are set on a chip that is known, chip('a100', …), or make one: chip({…})"
        raise error.worded(after=more) from None
    if shape and not overrides and unit is None and over is None and not achievable:
        return _in_shape(machine, shape, slices)
    if shape:
        machine = replace(machine, shape=shape, slices=slices)
    if overrides:
        from roofline.hardware.overrides import override

        machine = override(machine, overrides)
    if unit is not None or over is not None or achievable:
        machine = with_choices(machine, unit=unit, over=over, achievable=achievable)
    return _on_its_mesh(machine) if shape else machine


@lru_cache(maxsize=256)
def _in_shape(machine: Machine, shape: tuple[int, ...], slices: int) -> Machine:
    """Several of a chip: one value, so that what is worked out for a machine is found by the next question."""
    return _on_its_mesh(replace(machine, shape=shape, slices=slices))


def _on_its_mesh(machine: Machine) -> Machine:
    """Chips of a shape with the mesh it makes of them; without one where nothing that is known joins those of a row."""
    if not machine.links or (len(machine.shape) == 1 and uncounted(machine.links) is not None):
        return machine
    return with_mesh(machine)


def in_number(on: Any, chips: int, files: Iterable[str | os.PathLike[str]] = ()) -> str | Machine | None:
    """So many of the chips that a target names, in the slice nearest to a square; None where there is no such slice.

    It is typed where the target was, or where the catalog has it; else it is a machine with the figures of the target.

    >>> in_number("v5e:2x4", 16), in_number("8 x H100", 16), in_number(chip("h100:8"), 16), in_number("v5e", 3)
    ('v5e:4x4', 'h100:16', 'h100:16', None)
    >>> in_number(chip("h100", hbm="4 TB/s"), 2)
    Machine(h100:2, given: hbm.bandwidth)
    """
    sized = with_chips(chip(on, files=files), chips)
    if sized is None:
        return None
    if isinstance(on, str):  # which may name a file
        return catalog.behind_colon(on).partition(":")[0] + sized.target.removeprefix(sized.key)
    with suppress(HardwareError):  # of a chip that the catalog has not
        # a mesh is itself alone, and two that say the same are two
        return sized.target if replace(chip(sized.target), mesh=sized.mesh) == sized else sized
    return sized


@takes()
def chips(files: Iterable[str | os.PathLike[str]] = ()) -> list[Machine]:
    """Build every known chip, the user's files laid over the shipped ones.

    >>> len(chips()) >= 74
    True
    """
    return catalog.all_chips(files)


def is_called(on: Any, name: str, files: Iterable[str | os.PathLike[str]] = ()) -> bool:
    """Whether a machine, or the target that means one, has this name: its key, its full name or another of its names.

    >>> is_called("h100:8", "H100-SXM"), is_called("a100", "h100"), is_called("a100", "hbm")
    (True, False, False)
    """
    try:
        machine = on if isinstance(on, Machine) else chip(on, files=files)
    except HardwareError:  # whoever asks it is told so
        return False
    return catalog.has_name(machine, name)


def chips_in(path: str | os.PathLike[str]) -> list[Machine]:
    """The chips of a file of one's own, or of the files of a folder."""
    layers = list(catalog.read_layers([path]))
    return [catalog.find_machine(key, layers) for layer in layers for key in layer.chips]


def names() -> list[str]:
    """List the keys of the shipped chips.

    >>> names()[:3]
    ['mi100', 'mi210', 'mi250']
    """
    return list(catalog.read_index().chips)


def is_machine(word: str) -> bool:
    """Whether a word names a shipped chip or system, or several, with or without their number.

    >>> is_machine("H100:8,a100"), is_machine("dgx-h100"), is_machine("llama-3-8b"), is_machine("B:8")
    (True, True, False, False)
    """
    known = {*names(), *catalog.system_names()}
    return all(one.partition(":")[0].lower() in known for one in word.split(","))


def _resolve(target: Any, files: Iterable[str | os.PathLike[str]]) -> tuple[Machine, tuple[int, ...], int]:
    if isinstance(target, Machine):
        return target, (), 1
    if not isinstance(target, str) or not target.strip():
        raise HardwareError(f"{target!r} is not a chip", hint="name one, such as 'h100', or give a TOML file")
    text = target.strip()
    in_file = re.fullmatch(_FILE, text) if "." in text else None
    if in_file is not None:
        layers = [*catalog.read_layers(files), catalog.read_layer(in_file["path"])]
        return catalog.find_machine(_chip_in(layers[-1], in_file["name"]), layers), *_shape(in_file["shape"], text)
    text = plain(text)
    layers = list(catalog.read_layers(files)) if files else []
    name, _, written = catalog.behind_colon(text, layers).partition(":")
    known = name.strip().lower()
    if known in MEASURED and not any(known in layer.chips for layer in layers):
        of, file, how = MEASURED[known]
        if not os.path.isfile(catalog.user_file(file)):
            hint = f"make one with `{how}`, or name a chip or {spelled('on', 'FILE.toml')}"
            raise HardwareError(f"no measurement of {of} is known", hint=hint)
        layers.append(catalog.read_layer(catalog.user_file(file)))
    return catalog.find_machine(name.strip(), layers), *_shape(written or (None if ":" not in text else ""), text)


def _chip_in(layer: catalog.CatalogLayer, name: str | None) -> str:
    """The chip or system of a file named as a target: the one asked for, the only one, or a measured machine whole."""
    keys: Sequence[str] = [*layer.chips, *layer.systems]
    file = layer.place.file
    if name:
        found = layer.key(catalog.normalise(name)) or layer.key(catalog.normalise(name), systems=True)
        if found is None:
            raise HardwareError(f"{file} holds no chip {name!r}", hint=suggest(name, keys, what="its chips"))
        return found
    if set(keys) <= set(MEASURED):
        return min(keys, key=list(MEASURED).index)
    if len(keys) > 1:
        hint = f"choose one: {', '.join(f'{file}#{key}' for key in keys[:6])}"
        raise HardwareError(f"{file} holds {len(keys)} chips", hint=hint)
    return keys[0]


def _shape(written: str | None, target: str) -> tuple[tuple[int, ...], int]:
    """Read ``4x4`` or ``16x16:2``: the sizes, and how many slices of them."""
    if written is None:
        return (), 1
    shape, _, slices = re.sub(r"\s*([xX×:])\s*", r"\1", written.strip()).partition(":")
    sizes = shape.lower().replace("×", "x").split("x") if shape and re.fullmatch(_SHAPE, shape) else []
    count = (slices if re.fullmatch(r"[0-9]+", slices) else "0") if ":" in written else "1"
    digits = [size.lstrip("0") for size in (*sizes, count)]
    if not sizes or any(not size or len(size) > 7 or int(size) > LARGEST_AXIS for size in digits):
        several = re.search(r"\d[\s,]+[A-Za-z][\w.-]*:", written)  # the shape of one, then another one
        hint = "name machines one by one" if several else "write sizes joined by x, such as v5e:4x4 or h100:8"
        if written.isalpha():  # as in h100:n
            hint = f"a number, as in h100:8; {call('formula')} leaves it open, and a sweep takes several targets"
        said = "has a size of 0" if "" in digits[:-1] else "does not read"
        hint = "each size is at least 1, as in v5e:4x4 or h100:8" if "" in digits[:-1] else hint
        raise HardwareError(f"shape {quoted(written)} of {quoted(target)} {said}", hint=hint)
    return tuple(int(size) for size in sizes), int(count)


_OPEN = r"(?P<chip>[^:]+(?:#[^:]*)?):(?P<shape>[^:/\\]*[A-Za-z_][^:/\\]*)"

#: The longest axis of a slice that is looked at.
_LONGEST = 64


class OpenCount(NamedTuple):
    """A range of numbers of chips: the machine of so many, the symbol of the number, and what it may be.

    ``most`` is None where any number may join, ``step`` what the number is a multiple of.
    """

    machine: Machine
    size: Any
    least: int
    most: int | None
    step: int

    @property
    def holds(self) -> Any:
        """The relation that holds of the number here."""
        if self.least == self.most:
            return sympy.Eq(self.size, self.least)
        upper = [] if self.most is None else [self.size <= self.most]
        return sympy.And(
            self.size >= self.least, *upper, *([sympy.Eq(sympy.Mod(self.size, self.step), 0)] if self.step > 1 else [])
        )

    @property
    def says(self) -> str:
        """It in words: ``n = 16, 24 …``."""
        if self.least == self.most:
            return f"{self.size} = {self.least:,}"
        if self.step == 1 and self.most is not None:
            return f"{self.size} = {self.least:,} to {self.most:,}"
        end = "" if self.most is None else f" {self.most:,}"
        second = self.least + self.step
        return f"{self.size} = {self.least:,}, {second:,}" + (" …" + end if second != self.most else "")

    def __contains__(self, value: Any) -> bool:
        return bool(value >= self.least and (self.most is None or value <= self.most) and value % self.step == 0)


def open_shape(on: Any) -> tuple[str, tuple[str, ...], str] | None:
    """The chip of a target whose number of chips is open, its shape, and the name of the number; None of others.

    >>> open_shape("v5p:16x16xn"), open_shape("h100:8")
    (('v5p', ('16', '16', 'n'), 'n'), None)
    """
    found = re.fullmatch(_OPEN, on.strip()) if isinstance(on, str) else None
    if found is None:
        return None
    sizes = tuple(part.strip() for part in re.split("[xX×]", found["shape"]))
    names = {part for part in sizes if part.isidentifier()}
    if len(names) != 1 or any(not part.isdecimal() for part in sizes if part not in names):
        return None
    return found["chip"].strip(), sizes, names.pop()


def open_counts(on: str, *, inside: int = 1, outside: int = 1, **options: Any) -> tuple[OpenCount, ...]:
    """The ranges of an open number of chips; ``options`` are those of :func:`roofline.chip`."""
    machine, shape, name = _read(on, options)
    links = links_inside_out(machine)
    if not links:
        with_mesh(replace(machine, shape=(2,)))  # says that no link is known
    if links[0].topology in TORUS_DIMENSIONS:
        found = tuple(_of_slices(machine, shape, name, inside * outside))
    elif len(shape) > 1:
        raise HardwareError(f"{on}: chips of {machine.name} stand in a row", hint=f"as in {machine.key}:{name}")
    else:
        tiers = _of_tiers(machine, name, inside) if outside == 1 else _of_parts(machine, name, inside, outside)
        found = tuple(tiers)
    if not found:
        _numbered(machine, shape, name, 2)  # says why there is none, where there is no slice at all
        raise LayoutError(f"no {on} has a multiple of {inside} chips", hint="fewer that split the model, or more axes")
    return found


def numbered_counts(on: str, numbers: Sequence[int], **options: Any) -> tuple[OpenCount, ...]:
    """Some numbers of chips by themselves, those of them that there can be.

    >>> [each.says for each in numbered_counts("v5e:n", [1, 2, 3, 4])]
    ['n = 1', 'n = 2', 'n = 4']
    """
    return tuple(_possible(*_read(on, options), numbers))


def _read(on: str, options: Mapping[str, Any]) -> tuple[Machine, tuple[str, ...], str]:
    """The machine of a target whose number of chips is open, its shape, and the name of the number."""
    read = open_shape(on)
    assert read is not None
    key, shape, name = read
    return chip(key, **options), shape, name


def _possible(machine: Machine, shape: Sequence[str], name: str, numbers: Iterable[int]) -> Iterator[OpenCount]:
    for number in numbers:
        with suppress(HardwareError, InputError):  # no such slice
            yield _numbered(machine, shape, name, number)


def _of_tiers(machine: Machine, name: str, inside: int) -> Iterator[OpenCount]:
    """One unit of chips that stand together, then each tier of switches: units that the tier below it does not hold.

    Where a tier joins units of units, all have as many of them: 34 nodes are 17 under each of two leaf switches.
    """
    yield _numbered(machine, (str(inside),), name, inside)
    inner, below = 1, 1
    for domain in map(domain_of, links_inside_out(machine)):
        unit, part = max(inside, below), max(inside, inner)
        if inner > 1 and part < unit and domain is not None:
            for units in range(2, domain // unit + 1):
                step, fewer = units * part, (units - 1) * unit
                alike = range(fewer - fewer % step + step, units * unit + 1, step)
                yield _ranged(machine, (name,), name, alike, False)
        elif domain is None or domain >= 2 * unit:
            yield _ranged(machine, (name,), name, range(2 * unit, (domain or 2 * unit) + 1, unit), domain is None)
        if domain is None:
            return
        inner, below = below, domain


def _of_parts(machine: Machine, name: str, inside: int, outside: int) -> Iterator[OpenCount]:
    """Several parts of an open number of chips each: parts of units each by itself, and parts of whole ones."""
    *within, last = map(domain_of, links_inside_out(machine))
    unit = within[-1] if within and within[-1] is not None else last or 1
    most = last or 2 * outside * unit
    for part in range(inside, unit + 1, inside):
        if (unit % part == 0 or (part % (within[0] or 1) == 0 if within else False)) and outside * part <= most:
            yield _numbered(machine, (name,), name, outside * part)
    if last is None and unit % inside == 0:
        yield _ranged(machine, (name,), name, range(2 * outside * unit, 2 * outside * unit + 1, outside * unit), True)


def _of_slices(machine: Machine, shape: Sequence[str], name: str, inside: int) -> Iterator[OpenCount]:
    """Slices a chip can have, those together whose axes close alike; with chips inside, each by itself."""
    made: list[tuple[int, Any]] = []
    for found in _possible(machine, shape, name, range(1, _LONGEST + 1)):
        one, size = found.machine, found.least
        chips = one.mesh.chips if one.mesh is not None else 1
        if chips % inside == 0:
            alone = size <= 2 or inside > 1
            closes = [part.shape for axis in one.mesh or () for part in axis.segments]
            made.append((size, size if alone else str(closes)))
    for _, group in groupby(made, key=lambda each: each[1]):
        sizes = [size for size, _ in group]
        step = sizes[1] - sizes[0] if len(sizes) > 1 else 0
        if step and sizes == list(range(sizes[0], sizes[-1] + 1, step)) and sizes[0] % step == 0:
            yield _ranged(machine, shape, name, range(sizes[0], sizes[-1] + 1, step), False)
        else:
            yield from (_numbered(machine, shape, name, size) for size in sizes)


def _numbered(machine: Machine, shape: Sequence[str], name: str, size: int) -> OpenCount:
    return OpenCount(_shaped(machine, shape, {name: size}), symbol(name, exact=True), size, size, size)


def _ranged(machine: Machine, shape: Sequence[str], name: str, sizes: range, is_open: bool) -> OpenCount:
    if len(sizes) == 1 and not is_open:
        return _numbered(machine, shape, name, sizes[0])
    least, most = sizes[0], None if is_open else sizes[-1]
    count = chip_count(name, least, most, sizes.step)
    return OpenCount(_shaped(machine, shape, {name: count}), count, least, most, sizes.step)


def _shaped(machine: Machine, shape: Sequence[str], sizes: Mapping[str, Any]) -> Machine:
    return with_mesh(replace(machine, shape=tuple(sizes[part] if part in sizes else int(part) for part in shape)))
