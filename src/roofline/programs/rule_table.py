"""The rules of a front end by name, and what the rules of several front ends share.

A table is filled by the files of one folder the first time it is needed.

>>> table: RuleTable[str] = RuleTable("roofline.programs")
>>> table.rule("add", "sub")("elementwise")
'elementwise'
>>> table.find("sub"), table.find("sort")
('elementwise', None)

Loops and branches: how often a loop runs where the user states it, and which branch is the larger.

>>> stated(10, "step.py:12", "how often this loop runs depends on its data")
10
>>> stated({"step.py:3": 10}, "step.py:12", "how often this loop runs depends on its data")
Traceback (most recent call last):
roofline.errors.InputError: step.py:12: how often this loop runs depends on its data; ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Generic, TypeVar

from roofline.errors import InputError
from roofline.ops.counting import count
from roofline.sizes import Size, ceil_div, is_symbol, log2
from roofline.work import Op

Rule = TypeVar("Rule")


class RuleTable(Generic[Rule]):
    """Rules by the name of what they price; ``package`` is the folder whose files register them."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._rules: dict[str, Rule] = {}
        self._loaded = False

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Register a rule under each of the names."""

        def keep(chosen: Rule) -> Rule:
            self._rules.update(dict.fromkeys(names, chosen))
            return chosen

        return keep

    def find(self, name: str) -> Rule | None:
        """The rule of this name, None where there is none."""
        return self._rules.get(name)

    def names(self) -> list[str]:
        """What has a rule, in order."""
        self.load()
        return sorted(self._rules)

    def load(self) -> None:
        """Import every file of rules once."""
        if self._loaded:
            return
        from importlib import import_module
        from pkgutil import iter_modules

        for found in iter_modules(import_module(self._package).__path__):
            import_module(f"{self._package}.{found.name}")
        self._loaded = True


def levels_of(n: Size) -> Size:
    """⌈log₂ n⌉, the levels of a binary tree over n leaves, and at least 1: what sorting compares each element.

    >>> levels_of(8), levels_of(9), levels_of(1)
    (3, 4, 1)
    """
    return ceil_div(log2(n), 1) if is_symbol(n) else max(1, (int(n) - 1).bit_length())


#: What an open size is taken for where branches are compared.
TYPICAL_SIZE = 1024


def stated(trips: Any, place: str, why: str) -> Size:
    """The stated number of trips of the loop at ``place``; an error that says ``why`` it is needed if there is none."""
    chosen = trips.get(place) if isinstance(trips, Mapping) else trips
    if chosen is None:
        hint = f'say trips=10 (--trips 10), or trips={{"{place}": 10}} (--trips {place}=10) where there are several'
        raise InputError(f"{place}: {why}", hint=hint)
    if not is_symbol(chosen) and (isinstance(chosen, bool) or not isinstance(chosen, Integral) or chosen < 0):
        raise InputError(f"{place}: a loop cannot run {chosen!r} times", hint="trips are a whole number from 0 on")
    return chosen


def branch_cost(ops: Sequence[Op]) -> float:
    """How much a branch costs, to compare it with others: FLOPs, and bytes where those are the same."""
    moved = [tensor.traffic_bytes * op.repeat for op in ops for tensor in (*op.reads, *op.writes)]
    cost = count(ops, "all") + (sum(moved[1:], moved[0]) * 1e-9 if moved else 0)
    return float(cost.subs(dict.fromkeys(cost.free_symbols, TYPICAL_SIZE)) if is_symbol(cost) else cost)
