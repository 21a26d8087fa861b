"""Footprint: how much memory operations need at once, and whether it fits a level.

>>> from roofline.notation import program
>>> from roofline.ops import build
>>> ops = build(program("h = bf16[B, D] * bf16[D, F]; gelu(h)"), {"B": 4, "D": 8, "F": 16})
>>> footprint(ops).parts
{'activation': 320, 'weight': 256}
>>> footprint(ops).total
576
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.answers import Fact, with_formulas
from roofline.frozen import dataclass, replace
from roofline.quantity import format_amount, format_apart
from roofline.sections import BLANK, Section, Sentences
from roofline.signatures import check_methods
from roofline.sizes import Size, is_array, is_number, is_symbol, maximum, of_largest, undominated
from roofline.work import Op, Tensor

#: How near to its capacity a memory's need is decided by what the capacity is taken from, as a share.
NEAR = 0.05


@check_methods
@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Bytes by part: tensors that come from outside stay for the whole time, intermediates while they are needed.

    ``level`` and ``capacity`` are filled in once a machine is known; ``fits`` is None while the capacity is not.
    ``whole`` is the total as a shorter form than the sum of its parts.
    """

    parts: Mapping[str, Size]
    level: str = "main"
    capacity: float | None = None
    whole: Size | None = None

    @property
    def total(self) -> Size:
        """Bytes needed at once."""
        return sum(self.parts.values()) if self.whole is None else self.whole

    @property
    def fits(self) -> Any:
        """Whether everything fits the level, an array of answers for arrays; None where it is unknown or sizes open."""
        total = self.total
        if self.capacity is not None and is_array(total):
            return total <= self.capacity
        if self.capacity is None or not isinstance(total, int | float):
            return None
        return bool(total <= self.capacity)

    @property
    def obstacle(self) -> tuple[str, str] | None:
        """That it does not fit, and why; None where it does, nobody knows, or there are several configurations."""
        return ("does not fit", self.needs_in_words()) if self.fits is False else None

    def only_if_fits(self, value: Size | None) -> Any:
        """A figure that holds only for what fits, a cost: None where it does not, NaN of one of several configurations.

        >>> Footprint({"weight": 144e9}, "hbm", 84.9e9).only_if_fits(2.5), Footprint({"weight": 1e9}).only_if_fits(2.5)
        (None, 2.5)
        """
        return only_where(self.fits, value)

    def of_which(self) -> str:
        """How many configurations of an array fit, behind their number; nothing where all do."""
        fits = self.fits
        return f", {int(fits.sum())} of which fit" if is_array(fits) and not fits.all() else ""

    @property
    def needs(self) -> Fact:
        """The bytes needed, for a comparison."""
        return Fact("memory needed", self.total, "B", "less")

    @property
    def has(self) -> Fact:
        """The bytes there are, for a comparison."""
        return Fact("memory there", self.capacity, "B", "more")

    def misfit(self, instead: str = "") -> list[Section]:
        """The first line of an answer whose data do not fit, with what would; nothing where one configuration does.

        >>> Footprint({"weight": 144e9}, "hbm", 84.9e9).misfit("fp8 weights")[0].lines
        ['DOES NOT FIT: needs 144 GB, hbm has 84.9 GB · would fit: fp8 weights']
        """
        fits = self.fits
        none = not fits.any() if is_array(fits) else fits is False
        return [Sentences([self.misfit_in_words(instead)], "alert"), BLANK] if none else []

    def misfit_in_words(self, instead: str = "") -> str:
        """What is needed against what there is, and what would fit."""
        return f"DOES NOT FIT: {self.needs_in_words()}" + (f" · would fit: {instead}" if instead else "")

    def needs_in_words(self) -> str:
        """What is needed against what there is."""
        return f"needs {self.against_capacity()}"

    def against_capacity(self) -> str:
        """How much it is, and how much the level has."""
        needs, has = format_apart(self.total, self.capacity, "B")
        return f"{needs}, {self.level} has {has}" + " by the vendor's label" * self.rests_on_label

    @property
    def rests_on_label(self) -> bool:
        """Whether it is near a capacity of whole GB, the vendor's label: a driver may report more or less.

        >>> [Footprint({"weights": 95e9}, "hbm", has).rests_on_label for has in (94e9, 94.5e9, 80e9)]
        [True, False, False]
        """
        has, needs = self.capacity, self.total
        return bool(has and has % 1e9 == 0 and is_number(needs) and abs(needs - has) <= NEAR * has)

    def in_words(self) -> str:
        """What is needed at once, part by part, and what there is.

        >>> Footprint({"weight": 2e9, "activation": 1e6}, "hbm", 80e9).in_words()
        'needs 2 GB of memory at once (weight 2 GB, activation 1 MB); hbm has 80 GB'
        """
        parts = ", ".join(f"{role} {format_amount(size, 'B')}" for role, size in self.parts.items())
        whole, capacity = format_apart(self.total, self.total if self.capacity is None else self.capacity, "B")
        there = "" if self.capacity is None else f"; {self.level} has {capacity}"
        return f"needs {whole} of memory at once ({parts}){there}"

    def to_dict(self) -> dict[str, Any]:
        """What is needed, part by part, and what there is, under the keys that every answer has it under.

        >>> from roofline.sizes import symbol
        >>> Footprint({"kv": 2 * symbol("B")}).to_dict()["formulas"]
        {'parts.kv': '2*B', 'total': '2*B'}
        """
        return with_formulas(self.amounts())

    def amounts(self) -> dict[str, Any]:
        """The same as a part of an answer, whose formulas stand under paths of its own."""
        fields = {"level": self.level, "parts": dict(self.parts), "total": self.total}
        return {**fields, "capacity": self.capacity, "fits": self.fits}


def only_where(runs: Any, value: Size | None) -> Any:
    """A figure of what ``runs``: None where it does not, NaN of one of several configurations."""
    if value is None or not is_array(runs):
        return None if runs is False else value
    import numpy as np

    return np.where(runs, value, np.nan)


def footprint(ops: Sequence[Op]) -> Footprint:
    """Add up what lives at once: every outside tensor, plus the largest set of intermediates alive together.

    Tensors in one memory (``Tensor.storage``: a weight before and after its update) count once. One pass.
    """
    memories: dict[str, _Memory] = {}
    for index, op in enumerate(ops):
        for tensors, made in ((op.reads, False), (op.writes, True)):
            for tensor in tensors:
                memories.setdefault(tensor.storage or tensor.ident, _Memory(tensor.role)).hold(tensor, index, made=made)
    parts: dict[str, Size] = {}
    lives: list[tuple[Size, int, int]] = []
    for memory in memories.values():
        if memory.stays:
            parts[memory.role] = parts.get(memory.role, 0) + memory.size
        else:
            lives.append((memory.size, memory.made, memory.last))
    if lives:
        parts["activation"] = parts.get("activation", 0) + _most_at_once(lives, len(ops))
    return Footprint(parts)


def fullest(footprints: Sequence[Footprint]) -> Footprint | None:
    """What the stage of a pipeline holds that holds most, at each size; None where no stage says.

    >>> from roofline.sizes import symbol
    >>> B = symbol("B")
    >>> fullest([Footprint({"weights": 10, "kv": B}), Footprint({"weights": 8, "kv": B})]).parts
    {'weights': 10, 'kv': B}
    >>> fullest([Footprint({"weights": 10, "kv": B}), Footprint({"weights": 8, "kv": 2 * B})]).total.subs(B, 3)
    14
    """
    if len(footprints) < 2:
        return footprints[0] if footprints else None
    totals, kept = [each.total for each in footprints], list(footprints)
    if any(map(is_symbol, totals)):
        from sympy import expand

        by_total = {expand(total): each for total, each in zip(reversed(totals), reversed(kept), strict=True)}
        totals = undominated(list(reversed(by_total)))
        kept = [by_total[total] for total in totals]
    elif not any(map(is_array, totals)):
        return max(footprints, key=lambda each: each.total)
    names = dict.fromkeys(name for each in kept for name in each.parts)
    parts = {name: of_largest(totals, [each.parts.get(name, 0) for each in kept]) for name in names}
    whole = maximum(*totals) if any(map(is_symbol, totals)) else None
    return kept[0] if len(kept) == 1 else replace(kept[0], parts=parts, whole=whole)


class _Memory:
    """One stretch of memory: when it is first read and made, when it is used last, and how large it is."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.needed = self.made = self.last = -1
        self._sizes: dict[str, Size] = {}

    def hold(self, tensor: Tensor, index: int, *, made: bool) -> None:
        """Note that an operation reads a tensor in it, or writes one."""
        if made:
            self.made = index if self.made < 0 else self.made
        else:
            self.needed = index if self.needed < 0 else self.needed
        self.last = index
        self._sizes[tensor.ident] = tensor.capacity_bytes

    @property
    def stays(self) -> bool:
        """Whether it is there from the start, or a result that nothing reads."""
        return self.needed < 0 or self.made < 0 or self.needed <= self.made

    @property
    def size(self) -> Size:
        """Bytes of the largest tensor in it."""
        return maximum(*self._sizes.values())


def _most_at_once(lives: Sequence[tuple[Size, int, int]], length: int) -> Size:
    """The largest sum of sizes alive together; each lives from one step to another, both included. One pass."""
    born: list[list[Size]] = [[] for _ in range(length)]
    gone: list[list[Size]] = [[] for _ in range(length + 1)]
    for size, first, final in lives:
        born[first].append(size)
        gone[final + 1].append(size)
    alive: Size = 0
    sums: list[Size] = []
    for index in range(length):
        alive = alive + sum(born[index]) - sum(gone[index])
        sums.append(alive)
    return maximum(*(dict.fromkeys(sums) if any(map(is_symbol, sums)) else sums))
