"""The rules of a front end by name, and what the rules of several front ends share.

A table is filled by the files of one folder the first time it is needed.

>>> table: RuleTable[str] = RuleTable("roofline.programs")
>>> table.rule("add", "sub")("elementwise")
'elementwise'
>>> table.find("sub"), table.find("sort")
('elementwise', None)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from roofline.sizes import Size, ceil_div, is_symbol, log2

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
