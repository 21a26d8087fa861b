"""The registry of collective algorithms, and what each is told.

An algorithm is a function from a :class:`Call` to Work: the one-way bytes over the busiest link, and the link
latencies paid one after the other, under each place of the mesh. Adding one adds one function:

>>> @algorithm("carrier pigeon", ["Send"], "one bird")
... def pigeon(call):
...     return Work.hops("sky", 1)
>>> ALGORITHMS.pop("carrier pigeon").says
'one bird'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from roofline.ops.collective_groups import Group
from roofline.ops.collective_picks import Density, Picks
from roofline.sizes import Size, is_array, is_symbol
from roofline.work import Work

GATHERING = ("AllGather", "ReduceScatter", "AllReduce")


class Call(NamedTuple):
    """One collective: ``nbytes`` is the book's V, ``chips`` how many take part, ``density`` the share that is sent.

    Of an AllToAll whose rows go to several chips each, ``density`` says how many: then V has a row for each of these.
    """

    kind: str
    groups: tuple[Group, ...]
    nbytes: Size
    chips: Size
    density: Density = 1

    @property
    def sent(self) -> Size:
        """The share that is sent where each chip gets a row once, but for those that have it."""
        if not isinstance(self.density, Picks):
            return self.density
        return self.density.crossing(self.chips, self.chips) * self.chips / max(self.chips - 1, 1)


Formula: TypeAlias = Callable[[Call], Work]
Fits: TypeAlias = Callable[[Call], str]


class Algorithm(NamedTuple):
    """An algorithm: which collectives it does, what it is in words, its formula, and why it may not fit a network.

    ``limit`` returns why its figure is a limit that this network does not reach, or nothing where it can be done.
    """

    name: str
    kinds: tuple[str, ...]
    says: str
    formula: Formula
    unfit: Fits
    limit: Fits


ALGORITHMS: dict[str, Algorithm] = {}


#: Other names of the field.
ALIASES = {"one-shot": "direct", "nvls": "in-switch", "sharp": "in-switch", "halving-doubling": "tree"}


def named(name: str) -> Algorithm | None:
    """Find an algorithm by its name, written loosely, or by another name of the field.

    >>> named("Two_Way ring").name, named("one-shot").name, named("pigeon")
    ('two-way ring', 'direct', None)
    """
    plain = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    plain = ALIASES.get(plain, plain)
    return next((each for each in ALGORITHMS.values() if each.name.replace(" ", "-") == plain), None)


def anywhere(call: Call) -> str:
    """Fit every network."""
    return ""


def algorithm(
    name: str, kinds: Sequence[str], says: str, unfit: Fits = anywhere, limit: Fits = anywhere
) -> Callable[[Formula], Formula]:
    """Register a formula; ``unfit`` returns why it does not fit a call, ``limit`` why it is never reached there."""

    def keep(formula: Formula) -> Formula:
        ALGORITHMS[name] = Algorithm(name, tuple(kinds), says, formula, unfit, limit)
        return formula

    return keep


def passes(call: Call) -> int:
    """How often the data goes round: an AllReduce is a ReduceScatter and then an AllGather."""
    return 2 if call.kind == "AllReduce" else 1


def no_torus(call: Call) -> str:
    """Refuse links from neighbour to neighbour."""
    slow = next((g for g in call.groups if g.topology == "torus"), None)
    return f"{slow.link} joins neighbours only" if slow else ""


def some_torus(call: Call) -> str:
    """Refuse networks without links from neighbour to neighbour."""
    known = not call.groups or any(g.topology == "torus" for g in call.groups)
    return "" if known else f"{call.groups[0].link} is no torus"


def only_switches(call: Call) -> str:
    """Refuse all but switches."""
    other = next((g for g in call.groups if g.topology != "switch"), None)
    return f"{other.link} has no switch" if other else ""


def all_close(call: Call) -> str:
    """Refuse axes of a torus that end: only two chips in a line are a ring too."""
    for level in (level for group in call.groups if group.topology == "torus" for level in group.levels):
        open_ended = (1 - level.wrap) * (1 if is_symbol(level.size) else level.size > 2)
        if bool(open_ended.any()) if is_array(open_ended) else open_ended:
            return f"axis {level.place} does not close"
    return ""


def one_link(call: Call) -> str:
    """Refuse networks of several tiers."""
    return f"{' and '.join(g.link for g in call.groups)} are {len(call.groups)} tiers" if len(call.groups) > 1 else ""


def several_links(call: Call) -> str:
    """Refuse networks of one tier."""
    return f"{call.groups[0].link} is one tier" if len(call.groups) == 1 else ""
