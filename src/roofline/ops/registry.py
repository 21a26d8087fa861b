"""Which rule prices which family of operations. A family is one file of this room, named for it.

The file is imported when the family first occurs, and registers its rule:

>>> rule_for("softmax").__module__
'roofline.ops.softmax'

So adding a family adds one file. A rule of one's own is registered the same way:

>>> from roofline.work import Op
>>> @register("nothing_at_all")
... def rule(step, context):
...     return Op("nothing", "nothing_at_all")
>>> rule_for("nothing_at_all") is rule
True
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.errors import InputError
from roofline.notation.functions import FUNCTIONS
from roofline.notation.structure import Step
from roofline.ops.context import Rule

_RULES: dict[str, Rule] = {}


def register(family: str) -> Callable[[Rule], Rule]:
    """Register the rule of a family."""

    def keep(rule: Rule) -> Rule:
        _RULES[family] = rule
        return rule

    return keep


def family_of(step: Step) -> str:
    """The family that prices a step: its kind, or the family of the function it calls."""
    return FUNCTIONS[step.function].family if step.kind == "function" else step.kind


def has_rule(family: str) -> bool:
    """Say whether a family can be priced."""
    if family not in _RULES:
        from importlib import import_module

        name = f"roofline.ops.{family}"
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return family in _RULES


def rule_for(family: str) -> Rule:
    """Return the rule of a family; one without a rule is an error, never a silent zero.

    >>> rule_for("quicksort")
    Traceback (most recent call last):
    roofline.errors.InputError: there is no cost rule for operations of the family 'quicksort'
    """
    if not has_rule(family):
        raise InputError(f"there is no cost rule for operations of the family {family!r}")
    return _RULES[family]
