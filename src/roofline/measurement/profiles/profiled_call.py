"""A row of a torch.profiler trace as the call it was, priced by the rules that price traced programs.

A trace carries no FLOPs or bytes; names, shapes, formats and plain arguments it does. PyTorch is not needed. An
operation without a rule, or of shapes its rule does not take, is not priced, and whoever reads the trace lists it.

>>> op = price_profiled_call(ProfiledCall("aten::mm", ((64, 128), (128, 32)), ("float", "float")))
>>> op.kind, op.work.total("flops")
('contraction', 524288)
>>> price_profiled_call(ProfiledCall("aten::unique_dim", ((64,),), ("float",))) is None
True
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from roofline.errors import InputError
from roofline.programs.pytorch.registry import UNTOLD, Call, TensorOperand, load, price
from roofline.programs.pytorch.result_shapes import SIGNATURES, known_operations, with_results
from roofline.work import Op, Tensor, Work

#: Formats as a trace names them.
FORMATS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "short int": "int16", "int": "int32", "long": "int64",
    "long int": "int64", "bool": "bool", "c10::Float8_e4m3fn": "fp8_e4m3", "c10::Float8_e5m2": "fp8_e5m2",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "c10::qint8": "int8", "c10::quint8": "uint8", "c10::qint32": "int32",
}  # fmt: skip

#: What a Python number beside a tensor is written as: a tensor without dimensions of one of these formats.
_NUMBERS: dict[str, float] = {"double": math.nan, "long": 0, "long int": 0}

#: The largest size a tensor may have.
LARGEST = 2**50


@dataclass(frozen=True, slots=True)
class ProfiledCall:
    """One call as a trace tells it, argument by argument: shape, format, plain value as text, strides.

    Of a list of tensors the formats are a sequence too. ``gradients`` are the names of the backward operations that the
    trace holds: what a forward one keeps for its gradient is written only where there is one.
    """

    name: str
    shapes: Sequence[Any]
    formats: Sequence[Any]
    values: Sequence[Any] = ()
    strides: Sequence[Any] = ()
    gradients: frozenset[str] | None = None

    def call(self) -> Call:
        """The same call as the rules of traced programs take it, without its results."""
        plain = self.name.removeprefix("aten::")
        is_private = plain.startswith("__")
        name = plain if is_private else plain.rstrip("_") or plain
        told = zip_longest(self.shapes, self.formats, self.values, self.strides, fillvalue=None)
        args = tuple(_argument(place, *one) for place, one in enumerate(told))
        if any(isinstance(item, TensorOperand) and item.shape for item in args):
            args = tuple(_number(item, kind) for item, kind in zip_longest(args, self.formats))
        names = tuple(SIGNATURES.get(name, "").split())
        if name == "sort" and len(args) > 3:
            names = ("self", "stable", "dim", "descending")
        return Call(f"aten.{name}", name, args, names, in_place=not is_private and plain.endswith("_"))

    def is_kept(self, gradient: str) -> bool:
        """Whether the trace holds a gradient whose name ends so."""
        return self.gradients is None or any(name.endswith(gradient) for name in self.gradients)


def price_profiled_call(row: ProfiledCall) -> Op | None:
    """Price a call of the dispatcher; None where it has no rule, or not the shapes its rule takes."""
    if not row.name.startswith("aten::"):
        return None
    load()
    try:
        call = with_results(row.call(), saved=row.is_kept)
        priced = price(call)
    except (InputError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    ops = [priced] if isinstance(priced, Op) else list(priced or ())
    op = _together(call.name, ops) if ops else None
    return op if op is not None and _is_sound(op) else None


def priced_operations() -> list[str]:
    """The operations that have a rule, without their namespace."""
    return known_operations()


def _argument(place: int, shape: Any, kind: Any, value: Any, strides: Any) -> Any:
    if isinstance(kind, str) and kind in FORMATS and _is_shape(shape) and (shape or not value):
        return _operand(f"x{place}", shape, kind, strides)
    if isinstance(kind, list | tuple) and isinstance(shape, list | tuple):
        every = strides if isinstance(strides, list | tuple) and len(strides) == len(shape) else [None] * len(shape)
        parts = enumerate(zip(shape, kind, every, strict=True))
        return tuple(_operand(f"x{place}.{number}", *one) for number, one in parts)
    if not isinstance(value, str):
        return UNTOLD if value is None else value
    try:
        return ast.literal_eval(value.capitalize() if value in ("true", "false") else value)
    except (ValueError, SyntaxError):
        return UNTOLD


def _operand(ident: str, shape: Sequence[int], kind: str, strides: Any) -> TensorOperand:
    """A tensor; a dimension that was expanded, of stride 0, is read once."""
    sizes, dtype = tuple(shape), FORMATS[kind]
    steps = strides if isinstance(strides, list | tuple) and len(strides) == len(sizes) else [None] * len(sizes)
    dims = tuple(1 if step == 0 else size for size, step in zip(sizes, steps, strict=True))
    return TensorOperand(sizes, dtype, Tensor(ident, dims, dtype))


def _number(item: Any, kind: Any) -> Any:
    return _NUMBERS.get(kind, item) if isinstance(item, TensorOperand) and not item.shape else item


def _together(name: str, ops: Sequence[Op]) -> Op:
    """Several kernels behind one call as one operation, each of which reads and writes for itself."""
    if len(ops) == 1:
        return ops[0]
    reads = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.reads]
    writes = [replace(t, ident=f"{t.ident}:{n}") for n, op in enumerate(ops) for t in op.writes]
    work = sum((op.work for op in ops), Work())
    return Op(name, ops[0].kind, work, tuple(reads), tuple(writes), ops[0].dims)


def _is_sound(op: Op) -> bool:
    """Whether what a damaged trace tells still makes an operation: whole sizes, and an amount of work."""
    sizes = (size for tensor in (*op.reads, *op.writes) for size in tensor.dims)
    whole = all(isinstance(size, int) and 0 <= size <= LARGEST for size in sizes)
    return whole and all(isinstance(amount, int | float) and 0 <= amount < math.inf for _, amount in op.work.items())


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(size, int) and size > 0 for size in shape)
