"""Operations of PyTorch's dispatcher, known by name and input shapes alone → operations with our costs.

A profiler's trace carries no FLOPs or bytes; names, shapes and formats it does. A rule takes the shapes and formats of
the inputs, and the values of the others where the trace has them; an operation without a rule is listed, never zero.
A family of rules is one file of ``aten_rules``; what an operation costs is what ``roofline trace`` says of it.

>>> op = operation("aten::mm", [[64, 128], [128, 32]], ["float", "float"])
>>> op.kind, op.work.total("flops")
('contraction', 524288)
>>> operation("aten::unique_dim", [[64]], ["float"]) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from roofline import dtypes
from roofline.errors import InputError
from roofline.programs.rule_table import RuleTable
from roofline.work import Op, Tensor, Work

#: Formats as a trace names them.
FORMATS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "short int": "int16", "int": "int32", "long": "int64",
    "long int": "int64", "bool": "bool", "c10::Float8_e4m3fn": "fp8_e4m3", "c10::Float8_e5m2": "fp8_e5m2",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip

#: The largest size a tensor may have.
LARGEST = 2**50

Rule = Callable[["Seen"], Op]

_RULES: RuleTable[Rule] = RuleTable("roofline.measurement.aten_rules")


class Seen:
    """One operation as a trace saw it: tensors where inputs have shapes, plain values where it tells them.

    Of a list of tensors the formats are a sequence too.
    """

    def __init__(self, name: str, dims: Sequence[Any], formats: Sequence[Any], values: Sequence[Any]) -> None:
        self.name = name
        self.plain = name.removeprefix("aten::")
        self.values = list(values)
        self._lists: dict[int, tuple[Tensor, ...]] = {}
        self.tensors: list[Tensor | None] = []
        for place, (shape, kind) in enumerate(zip(dims, formats, strict=False)):
            if not isinstance(kind, str):
                pairs = zip(shape, kind, strict=True)
                self._lists[place] = tuple(_tensor(f"x{place}.{n}", *pair) for n, pair in enumerate(pairs))
            known = isinstance(kind, str) and kind in FORMATS and _is_shape(shape)
            self.tensors.append(_tensor(f"x{place}", shape, kind) if known else None)

    def tensor(self, place: int) -> Tensor:
        """The tensor at an argument's place."""
        found = self.optional(place)
        if found is None:
            raise InputError(f"{self.name} has no tensor with a shape at argument {place}")
        return found

    def optional(self, place: int) -> Tensor | None:
        """The tensor at an argument's place, None where there is none."""
        return self.tensors[place] if place < len(self.tensors) else None

    def some(self, *places: int) -> tuple[Tensor, ...]:
        """The tensors at these places that are there."""
        return tuple(found for place in places if (found := self.optional(place)) is not None)

    def every(self, first: int = 0) -> tuple[Tensor, ...]:
        """All tensors from an argument on."""
        return self.some(*range(first, len(self.tensors)))

    def listed(self, place: int) -> tuple[Tensor, ...]:
        """The tensors of a list at an argument's place."""
        if not self.has_list(place):
            raise InputError(f"{self.name} has no list of tensors of known formats at argument {place}")
        return self._lists[place]

    def has_list(self, place: int) -> bool:
        """Whether a list at an argument's place holds tensors."""
        return bool(self._lists.get(place))

    @property
    def all_listed(self) -> tuple[Tensor, ...]:
        """The tensors of all lists."""
        return tuple(tensor for found in self._lists.values() for tensor in found)

    def stated(self, place: int) -> Any:
        """The plain value at an argument's place; an error where it does not read: older traces tell none, none text.

        What an operation within was given may then say more.
        """
        found = self.value(place, None)
        if found is None:
            raise InputError(f"the trace tells no value of argument {place} of {self.name}")
        return found

    def value(self, place: int, default: Any) -> Any:
        """The plain value at an argument's place: text of a trace read as numbers."""
        written = self.values[place] if place < len(self.values) else ""
        if isinstance(written, str):
            import ast

            try:
                return ast.literal_eval(written.capitalize() if written in ("true", "false") else written)
            except (ValueError, SyntaxError):
                return default
        return written


def operation(name: str, dims: Sequence[Any], formats: Sequence[Any], values: Sequence[Any] = ()) -> Op | None:
    """Price an operation of the dispatcher; None where it has no rule, or not the shapes its rule takes."""
    if not name.startswith("aten::"):
        return None
    _RULES.load()
    found = _RULES.find(name.removeprefix("aten::"))
    try:
        op = None if found is None else found(Seen(name, dims, formats, values))
    except (InputError, LookupError, TypeError, ValueError, ArithmeticError):
        return None
    return op if op is not None and _is_sound(op) else None


#: Register the rule of some operations.
rule = _RULES.rule


def known() -> list[str]:
    """List the operations that have a rule."""
    _RULES.load()
    return _RULES.names()


def like(tensor: Tensor, dims: Sequence[int] | None = None, dtype: str | None = None, ident: str = "out") -> Tensor:
    """A result of the shape and format of a tensor, or of others."""
    return Tensor(ident, tensor.dims if dims is None else tuple(dims), dtype or tensor.dtype)


def together(name: str, ops: Sequence[Op]) -> Op:
    """Several kernels behind one call as one operation, each of which reads and writes for itself."""
    reads = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.reads]
    writes = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.writes]
    work = sum((op.work for op in ops), Work())
    return Op(name, ops[0].kind, work, tuple(reads), tuple(writes), ops[0].dims)


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that operands have together: sizes stand from the last, and a 1 is repeated as often as needed."""
    width = max(map(len, shapes))
    columns = zip(*[(*[1] * (width - len(shape)), *shape) for shape in shapes], strict=True)
    sizes = [{size for size in column if size != 1} for column in columns]
    if any(len(found) > 1 for found in sizes):
        raise InputError("shapes that do not broadcast")
    return tuple(found.pop() if found else 1 for found in sizes)


def widest(kinds: Sequence[str]) -> str:
    """The format of a result: that of the widest operand, and of no integer beside a real number."""
    return max(kinds, key=lambda kind: (dtypes.get(kind).family in ("float", "complex"), dtypes.get(kind).bits))


def _is_sound(op: Op) -> bool:
    """Whether what a damaged trace tells still makes an operation: whole sizes, and an amount of work."""
    sizes = (size for tensor in (*op.reads, *op.writes) for size in tensor.dims)
    whole = all(isinstance(size, int) and 0 <= size <= LARGEST for size in sizes)
    return whole and all(isinstance(amount, int | float) and 0 <= amount < math.inf for _, amount in op.work.items())


def _tensor(ident: str, shape: Sequence[int], kind: str) -> Tensor:
    return Tensor(ident, tuple(shape), FORMATS[kind])


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(size, int) and size > 0 for size in shape)
