"""Which rule prices which ONNX operator. The rules stand in ``onnx/rules.py``.

>>> @rule("Swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> find("Swish2") is swish2
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from roofline.frozen import dataclass, replace
from roofline.ops import pricing
from roofline.programs.rule_table import CallOfTensors, Priced, RuleTable
from roofline.sizes import Size, exact_div
from roofline.work import Op, Tensor

__all__ = [
    "GATHERS", "PICKING", "SCATTERS", "UPDATES", "Call", "Priced", "pricing", "find", "known_names", "rule",
    "with_every_input",
]  # fmt: skip

#: Operators that write into a part of their first input, those first that take an index of each value.
SCATTERS = ("ScatterElements", "ScatterND", "Scatter")
UPDATES = (*SCATTERS, "TensorScatter")

#: Operators that read a part of their first input where others say, those first that take indices of it.
GATHERS = ("Gather", "GatherElements", "GatherND")
PICKING = (*GATHERS, "Slice", "ArrayFeatureExtractor")


@dataclass(frozen=True, slots=True)
class Call(CallOfTensors):
    """One node: its operator, its attributes, its tensors.

    ``operands`` holds None for an input that is left out; ``constants`` the values of small inputs that the file holds,
    ``masks`` which elements masks of the file's own let through.
    ``in_place`` says that nobody else reads the first input, an input of the file, so that it can be updated.
    """

    name: str
    attributes: Mapping[str, Any]
    operands: tuple[Tensor | None, ...]
    outs: tuple[Tensor | None, ...]
    constants: tuple[Any, ...]
    in_place: bool = False
    masks: tuple[Any, ...] = ()

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """Inputs, each once; numbers that the file holds move nothing."""
        pairs = zip(self.operands, self.constants, strict=True)
        return tuple({t.ident: t for t, held in pairs if t is not None and held is None}.values())

    @property
    def writes(self) -> tuple[Tensor, ...]:
        """Results."""
        return tuple(t for t in self.outs if t is not None)

    def shape(self, place: int) -> tuple[Size, ...]:
        """Shape of an input."""
        found = self.operands[place]
        return () if found is None else found.dims

    def has(self, place: int) -> bool:
        """Whether an input is given."""
        return place < len(self.operands) and self.operands[place] is not None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute; a word as text."""
        found = self.attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else found

    def constant(self, place: int, default: Any = None) -> Any:
        """The number that an input is, where the file holds it: of a list the first. One with a default may lack."""
        held = self.constants[place] if default is None or place < len(self.constants) else None
        found = held[0] if isinstance(held, list) else held
        return default if found is None else found

    def count(self, name: str, default: int | None = None) -> int:
        """An attribute that counts something, heads for example: a whole number of at least 1."""
        value = self.attributes[name] if default is None else self.get(name, default)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}, and is a whole number of at least 1")
        return value

    def share(self, size: Size, name: str, default: int | None = None) -> Size:
        """A size over an attribute that counts its equal parts."""
        parts = self.count(name, default)
        if isinstance(size, int) and size % parts:
            raise ValueError(f"{size} does not divide into {name} = {parts}")
        return exact_div(size, parts)


Rule: TypeAlias = Callable[[Call], Priced]

_TABLE: RuleTable[Rule] = RuleTable("roofline.programs.onnx.rules")

rule, find, known_names = _TABLE.rule, _TABLE.find, _TABLE.names

#: Inputs of which the shape or the dtype alone is looked at, and those that say the sizes of the result.
_NOT_READ = {
    **dict.fromkeys(("EyeLike", "RandomNormalLike", "RandomUniformLike"), (0,)), "CastLike": (1,),
    "Resize": (1, 2, 3), "Upsample": (1,),
}  # fmt: skip


def with_every_input(call: Call, ops: Sequence[Op]) -> Sequence[Op]:
    """What a rule prices, which reads every input that is no number of the file: scales and axes too."""
    numbers = zip(call.operands, call.constants, strict=True)
    held = {t.ident for t, number in numbers if t is not None and number is not None}
    moved = [t.ident for op in ops for t in (*op.reads, *op.writes)]
    read = {*moved, *(ident.partition("[")[0] for ident in moved)}
    shape_only = call.read(*_NOT_READ.get(call.name, ()))
    more = tuple(t for t in call.reads if t.ident not in read and t not in shape_only)
    *others, last = (replace(op, reads=tuple(t for t in op.reads if t.ident not in held)) for op in ops)
    return [*others, replace(last, reads=(*last.reads, *more))]
