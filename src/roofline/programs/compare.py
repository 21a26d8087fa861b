"""Two programs side by side, or a program beside a count made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.errors import InputError, suggest
from roofline.ops.counting import each
from roofline.sizes import Size
from roofline.work import Op

if TYPE_CHECKING:
    from roofline.programs.traced import Traced


class Difference(NamedTuple):
    """One line of a comparison: what was counted, our count, the other."""

    what: str
    ours: Size
    theirs: Size

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, None where theirs is nothing."""
        return float(self.ours) / float(self.theirs) if self.theirs else None

    @property
    def equal(self) -> bool:
        """Whether both are the same."""
        return bool(self.ours == self.theirs)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two programs under one convention: totals, then by kind, then by module; ``changed`` holds what differs."""

    ours: Traced
    theirs: Traced
    convention: str
    lines: tuple[Difference, ...]

    @property
    def changed(self) -> tuple[Difference, ...]:
        """Lines that differ."""
        return tuple(line for line in self.lines if not line.equal)

    def __rich__(self) -> Any:
        from roofline.programs.show import comparison

        return comparison(self)


def compare(ours: Traced, theirs: Traced, convention: str = "flops") -> Comparison:
    """Compare two programs: in total, in bytes, by kind and by module path."""
    lines = [
        Difference("total", ours.flops(convention), theirs.flops(convention)),
        Difference("bytes", ours.bytes(), theirs.bytes()),
    ]
    both = (_by((op.kind, op) for op in p.ops) for p in (ours, theirs))
    lines += _paired("", *(_counted(groups, convention) for groups in both))
    modules = (_by((op.where, op) for op in p.ops if op.where) for p in (ours, theirs))
    lines += _paired("in ", *(_counted(groups, convention) for groups in modules))
    return Comparison(ours, theirs, convention, tuple(lines))


def against(program: Traced, hand: Size | Mapping[str, Size], convention: str = "flops") -> tuple[Difference, ...]:
    """Compare with a count made by hand.

    A mapping's words are ``total``, ``bytes``, module paths, or kinds; any other is an error that says which exist.
    """
    if not isinstance(hand, Mapping):
        hand = {"total": hand}
    return tuple(Difference(what, _ours(program, what, convention), theirs) for what, theirs in hand.items())


def _ours(program: Traced, what: str, convention: str) -> Size:
    if what == "total":
        return program.flops(convention)
    if what == "bytes":
        return program.bytes()
    kinds = {op.kind for op in program.ops}
    if what in kinds:
        return sum(each(op, convention) for op in program.ops if op.kind == what)
    part = program.under(what)
    if not part.ops and what not in program.modules:
        known = ["total", "bytes", *kinds, *filter(None, program.modules)]
        raise InputError(f"nothing in {program.name} is called {what!r}", hint=suggest(what, known, what="parts"))
    return part.flops(convention)


def _by(pairs: Iterable[tuple[str, Op]]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for name, op in pairs:
        found.setdefault(name, []).append(op)
    return found


def _counted(groups: Mapping[str, list[Op]], convention: str) -> dict[str, Size]:
    return {name: sum(each(op, convention) for op in ops) for name, ops in groups.items()}


def _paired(prefix: str, ours: Mapping[str, Size], theirs: Mapping[str, Size]) -> list[Difference]:
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [Difference(f"{prefix}{name}", ours.get(name, 0), theirs.get(name, 0)) for name in names]
