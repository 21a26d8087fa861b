"""Which rule prices which JAX primitive. A family of rules is one file of ``jax/rules``.

A rule gets a :class:`Call` and gives operations, or None for what costs nothing. Adding a primitive touches one file:

>>> @rule("swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> find("swish2") is swish2
True

A primitive that gives its operand in another form (a reshape) says so with ``call.alias()``: nothing moves, and what
comes out is still the tensor that went in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from roofline.ops import pricing
from roofline.programs.rule_table import RuleTable
from roofline.sizes import Size, minimum, product
from roofline.work import Op, Tensor

__all__ = ["Call", "Priced", "Value", "pricing", "find", "load", "rule"]

#: What a rule gives: an operation, several, or None for one that costs nothing.
Priced: TypeAlias = "Op | Sequence[Op] | None"


class Value(NamedTuple):
    """Shape and dtype of an operand or a result; ``split`` names the mesh axes over which each dimension is sharded.

    ``shape`` is one device's where shardings are explicit.
    """

    shape: tuple[Size, ...]
    dtype: str
    split: tuple[tuple[str, ...], ...] = ()

    @property
    def size(self) -> Size:
        """Elements."""
        return product(self.shape)


class Call:
    """One primitive with its parameters.

    ``ins`` and ``outs`` are shapes; ``operands`` are the tensors read, None where one is a constant that the program
    holds itself; ``reads`` and ``writes`` are what moves. ``axes`` are the sizes of mesh axes by name, and ``inner``
    counts a program that a parameter holds (the update of a scatter), for one element.
    """

    __slots__ = ("aliases", "axes", "inner", "ins", "name", "operands", "outs", "params", "reads", "writes")

    def __init__(
        self,
        name: str,
        params: Mapping[str, Any],
        ins: Sequence[Value],
        outs: Sequence[Value],
        operands: Sequence[Tensor | None],
        writes: Sequence[Tensor],
        axes: Mapping[str, int],
        inner: Callable[[Any], Size],
    ) -> None:
        self.name = name
        self.params = params
        self.ins = tuple(ins)
        self.outs = tuple(outs)
        self.operands = tuple(operands)
        self.reads = tuple({t.ident: t for t in operands if t is not None}.values())
        self.writes = tuple(writes)
        self.axes = axes
        self.inner = inner
        self.aliases: dict[int, int] = {}

    def read(self, *places: int) -> tuple[Tensor, ...]:
        """The operands at these places, those that are constants left out."""
        return tuple(found for place in places if (found := self.operands[place]) is not None)

    def alias(self, result: int = 0, operand: int = 0) -> Priced:
        """Say that a result is an operand in another form, so that nothing moves."""
        self.aliases[result] = operand
        return None

    def touch(self, place: int, amount: Size) -> tuple[Tensor, ...]:
        """An operand of which only so many elements are read."""
        return tuple(replace(t, touched=minimum(amount, t.elements)) for t in self.read(place))

    def into(self, place: int, amount: Size) -> tuple[Tensor, ...]:
        """An operand of which so many elements are written in place; the result is that operand."""
        self.alias(0, place)
        return tuple(
            replace(t, ident=f"{t.ident}[+{self.writes[0].ident}]", touched=minimum(amount, t.elements))
            for t in self.read(place)
        )


Rule: TypeAlias = Callable[[Call], Priced]

_TABLE: RuleTable[Rule] = RuleTable("roofline.programs.jax.rules")

rule, find, load = _TABLE.rule, _TABLE.find, _TABLE.load
