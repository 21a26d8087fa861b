"""Which rule prices which PyTorch operation. A family of rules is one file of ``pytorch/rules``.

Two kinds of rules. ``rule("aten.mm")`` prices an operation of the dispatcher, which is what backward passes and
decompositions arrive as. ``function(torch.nn.functional.linear)`` takes a call as the user wrote it, before PyTorch
takes it apart. Adding an operation touches one file:

>>> @rule("mylib.swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> find("mylib.swish2") is swish2
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from roofline.ops import pricing
from roofline.programs.rule_table import RuleTable
from roofline.work import Op, Tensor

if TYPE_CHECKING:
    from roofline.programs.pytorch.operators import Facts
    from roofline.programs.pytorch.recorder import Recorder

__all__ = [
    "Call",
    "Priced",
    "pricing",
    "find",
    "find_function",
    "find_shape",
    "function",
    "load",
    "price",
    "rule",
    "shape",
]

#: What a rule gives: an operation, several, or None for one that costs nothing (a view, an allocation).
Priced: TypeAlias = "Op | Sequence[Op] | None"


class Call:
    """One call of an operation: its arguments and the tensors it reads and writes.

    ``name`` is the operation without its namespace and overload (``mm``); ``args`` and ``kwargs`` hold torch values,
    ``outs`` the tensors that came out, ``reads`` and ``writes`` the same as :class:`~roofline.work.Tensor`.
    """

    __slots__ = ("_read", "args", "kwargs", "name", "outs", "reads", "schema", "writes")

    def __init__(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outs: Sequence[Any],
        read: dict[int, Tensor],
        writes: Sequence[Tensor],
        schema: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.outs = outs
        self.schema = schema
        self._read = read
        self.reads: tuple[Tensor, ...] = tuple({tensor.ident: tensor for tensor in read.values()}.values())
        self.writes: tuple[Tensor, ...] = tuple(writes)

    def get(self, name: str, default: Any = None) -> Any:
        """An argument by the name it has in the operation's schema."""
        if name in self.kwargs:
            return self.kwargs[name]
        if name in self.schema:
            place = self.schema.index(name)
            if place < len(self.args):
                return self.args[place]
        return default

    def read(self, *values: Any) -> tuple[Tensor, ...]:
        """The tensors among torch values that the operation reads."""
        return tuple(self._read[id(value)] for value in values if value is not None)


Rule: TypeAlias = Callable[[Call], Priced]
FunctionRule: TypeAlias = "Callable[[Recorder, Any, Sequence[Any], dict[str, Any]], Any]"

ShapeRule: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], Any]

_RULES: RuleTable[Rule] = RuleTable("roofline.programs.pytorch.rules")
_SHAPES: RuleTable[ShapeRule] = RuleTable("roofline.programs.pytorch.rules")
_FUNCTIONS: dict[Any, FunctionRule] = {}

#: Import every file of rules once.
load = _RULES.load


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operations of the dispatcher (``aten.mm``), whatever their overload."""
    return _RULES.rule(*map(_full, names))


def function(*functions: Any) -> Callable[[FunctionRule], FunctionRule]:
    """Register a rule for functions as the user calls them.

    The rule gets the recorder, the function and its arguments; it returns what the function would, or
    ``NotImplemented`` to leave the call to the dispatcher.
    """

    def keep(chosen: FunctionRule) -> FunctionRule:
        for item in functions:
            _FUNCTIONS[item] = chosen
        return chosen

    return keep


def shape(*names: str) -> Callable[[ShapeRule], ShapeRule]:
    """Register what an operation gives on shapes alone, where PyTorch itself cannot say.

    The rule gets the arguments; it returns empty tensors on ``meta``, or ``NotImplemented`` to leave it to PyTorch.
    """
    return _SHAPES.rule(*map(_full, names))


def find_shape(name: str) -> ShapeRule | None:
    """The shape rule of an operation, None where there is none."""
    return _SHAPES.find(name)


def find(name: str) -> Rule | None:
    """The rule of an operation, None where there is none."""
    return _RULES.find(name)


def find_function(called: Any) -> FunctionRule | None:
    """The rule of a function, None where there is none."""
    return _FUNCTIONS.get(called)


def price(facts: Facts, call: Call) -> Priced:
    """Apply the rule of an operation; one tagged elementwise or a reduction by PyTorch needs no rule of its own."""
    chosen: Callable[[Call], Priced] | None = find(facts.full_name)
    if chosen is None and facts.full_name.startswith("prims."):  # what gradients of gradients are taken apart into
        chosen = find(f"aten.{facts.name}")
    if chosen is not None:
        return chosen(call)
    if not call.reads and not call.writes:
        return None
    if facts.pointwise:
        return pricing.elementwise(call.name, call.reads, call.writes)
    if facts.reduction and call.reads and call.writes:
        elements, results = call.reads[0].elements, call.writes[0].elements
        return pricing.reduction(
            call.name, call.reads, call.writes, elements=max(elements, results), results=results or 1
        )
    return pricing.unknown(facts.full_name, call.reads, call.writes)


def _full(name: str) -> str:
    return name if "." in name else f"aten.{name}"
