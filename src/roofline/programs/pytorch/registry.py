"""Calls of PyTorch operations as plain values, and the rules that price them.

A :class:`Call` says what is called: shapes, number formats and plain arguments. It does not say where it was seen: a
traced program and a row of a profile become the same call, and reading a profile needs no torch. ``rule("mm")`` prices
an operation of the dispatcher; a family of rules is one file of ``rules``. ``function(torch.nn.functional.linear)``
takes a call as the user wrote it, before PyTorch takes it apart; such rules need torch, and stand in ``functions``.
Adding an operation touches one file:

>>> @rule("mylib.swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> x = TensorOperand((64, 8), "fp32", Tensor("x", (64, 8), "fp32"))
>>> price(Call("mylib.swish2", "swish2", (x,), results=(x,))).work
Work(flops/vector/fp32: 2048)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.errors import InputError
from roofline.frozen import NamedTuple, dataclass
from roofline.ops import pricing
from roofline.programs.rule_table import Priced, PricedCall, RuleTable
from roofline.sizes import Size, maximum, product
from roofline.work import Op, Tensor

__all__ = [
    "UNTOLD", "Call", "PackedWeights", "TensorOperand", "Priced", "find", "find_function", "find_shape", "function",
    "is_operand", "known_names", "operands_in", "price", "pricing", "rule", "shape",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TensorOperand:
    """A tensor that an operation takes or gives.

    ``tensor`` is what moves when it is read or written: None where it only takes a result. ``values`` is PyTorch's own
    tensor where its values are known, so that a mask can be looked at.
    """

    shape: tuple[Size, ...]
    dtype: str
    tensor: Tensor | None = None
    is_sparse: bool = False
    values: Any = None

    @property
    def elements(self) -> Size:
        """Elements of the whole shape."""
        return product(self.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return dtypes.get(self.dtype).family == "complex"


class PackedWeights(NamedTuple):
    """Weights that PyTorch has packed, their bias, and the window (stride, padding …) of those of a convolution."""

    weight: TensorOperand
    bias: TensorOperand | None = None
    window: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Call(PricedCall):
    """One call of an operation.

    ``name`` is the operation without its namespace, overload and trailing underscore (``mm``); ``args`` are all
    arguments in the order of its schema, defaults among them, and ``names`` what the schema calls them. A tensor is a
    :class:`TensorOperand`. ``in_place`` says that the first argument is what is written.
    """

    full_name: str
    name: str
    args: tuple[Any, ...]
    names: tuple[str, ...] = ()
    results: tuple[TensorOperand, ...] = ()
    in_place: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """A plain argument by its name in the schema; the default where it is not there or is not told."""
        if name not in self.names:
            return default
        place = self.names.index(name)
        value = self.args[place] if place < len(self.args) else UNTOLD
        return default if value is UNTOLD else value

    def stated(self, name: str, default: Any = None) -> Any:
        """The same, where a guess would be wrong: an argument that is there and not told is an error."""
        value = self.get(name, UNTOLD)
        if value is UNTOLD and name in self.names:
            raise InputError(f"the value of {name} of {self.full_name} is not told")
        return default if value is UNTOLD else value

    def operand(self, name: str) -> TensorOperand | None:
        """A tensor argument by its name in the schema, None where none is given."""
        found = self.get(name)
        return found if isinstance(found, TensorOperand) else None

    def operands(self, *places: int) -> tuple[TensorOperand, ...]:
        """The tensors at these places; an error where one is not a tensor."""
        found = tuple(self.args[place] for place in places)
        if not all(isinstance(item, TensorOperand) for item in found):
            raise InputError(f"{self.full_name} has no tensor with a shape at one of the arguments {places}")
        return found

    def tensors(self, place: int) -> tuple[TensorOperand, ...]:
        """The tensors of a list."""
        found = tuple(operands_in(self.args[place])) if place < len(self.args) else ()
        if not found:
            raise InputError(f"{self.full_name} has no list of tensors of known formats at argument {place}")
        return found

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """Everything that is read, each tensor once."""
        return tuple({tensor.ident: tensor for tensor in self.read(*operands_in(self.args))}.values())

    @property
    def writes(self) -> tuple[Tensor, ...]:
        """Everything that is written."""
        return tuple(item.tensor for item in self.results if item.tensor is not None)

    def read(self, *values: Any) -> tuple[Tensor, ...]:
        """What moves of these operands; what is no tensor is left out."""
        return tuple(item.tensor for item in values if isinstance(item, TensorOperand) and item.tensor is not None)

    def read_without(self, *values: Any) -> tuple[Tensor, ...]:
        """Everything that is read but these operands."""
        left_out = {tensor.ident for tensor in self.read(*values)}
        return tuple(tensor for tensor in self.reads if tensor.ident not in left_out)

    def unknown(self, reason: str = "no rule") -> Op:
        """A gap, under the name with its namespace."""
        return pricing.unknown(self.full_name, self.reads, self.writes, reason)


#: An argument whose value a profile does not tell.
UNTOLD: Any = type("Untold", (), {"__repr__": lambda self: "UNTOLD"})()


def is_operand(value: Any) -> bool:
    """Whether an argument is a tensor."""
    return isinstance(value, TensorOperand)


def operands_in(value: Any) -> Iterator[TensorOperand]:
    """All tensors among arguments, in order."""
    if isinstance(value, TensorOperand):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from operands_in(item)


Rule: TypeAlias = Callable[[Call], Priced]

#: A rule of a function as the user calls it. It gets the recorder, the function and its arguments; it returns what the
#: function would, or ``NotImplemented`` to leave the call to the dispatcher.
FunctionRule: TypeAlias = Callable[[Any, Any, Sequence[Any], dict[str, Any]], Any]

#: What an operation gives on shapes alone, where PyTorch itself cannot say. It gets the arguments; it returns empty
#: tensors on ``meta``, or ``NotImplemented`` to leave it to PyTorch.
ShapeRule: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], Any]

_RULES: RuleTable[Rule] = RuleTable("roofline.programs.pytorch.rules", "aten")
_FUNCTIONS: RuleTable[FunctionRule] = RuleTable("roofline.programs.pytorch.functions")
_SHAPES: RuleTable[ShapeRule] = RuleTable("roofline.programs.pytorch.functions", "aten")

rule, find, known_names = _RULES.rule, _RULES.find, _RULES.names
function, find_function = _FUNCTIONS.rule, _FUNCTIONS.find
shape, find_shape = _SHAPES.rule, _SHAPES.find


def price(call: Call, *, pointwise: bool = False, reduction: bool = False) -> Priced:
    """Apply the rule of an operation; one tagged pointwise or a reduction by PyTorch needs no rule of its own."""
    chosen = find(call.full_name)
    if chosen is None and call.full_name.startswith("prims."):  # what gradients of gradients are taken apart into
        chosen = find(f"aten.{call.name}")
    if chosen is not None:
        return chosen(call)
    reads, writes = call.reads, call.writes
    if not reads and not writes:
        return None
    if pointwise:
        return call.elementwise(call.name)
    if reduction and reads and writes:
        results = writes[0].elements
        sizes = {"elements": maximum(reads[0].elements, results), "results": maximum(1, results)}
        return pricing.reduction(call.name, reads, writes, **sizes)
    return call.unknown()
