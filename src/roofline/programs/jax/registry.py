"""Which rule prices which JAX primitive. The rules stand in ``jax/rules.py``.

A rule gets a :class:`Call` and gives operations, or None for what costs nothing. Adding a primitive touches one file:

>>> @rule("swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> find("swish2") is swish2
True

A primitive that gives its operand in another form (a reshape) says so with ``call.alias()``: nothing moves, and what
comes out is still the tensor that went in.

JAX's shapes and dtypes become this package's here: symbolic dimensions, keys, explicit shardings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.frozen import NamedTuple, dataclass, field
from roofline.lazy import sympy
from roofline.ops import pricing
from roofline.programs.rule_table import CallOfTensors, Priced, RuleTable
from roofline.sizes import Size, ceil_div, exact_div, floor_div, maximum, minimum, product, symbol
from roofline.work import Tensor

__all__ = ["Call", "Priced", "Value", "pricing", "find", "known_names", "rule"]


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


@dataclass(frozen=True, slots=True)
class Call(CallOfTensors):
    """One primitive with its parameters.

    ``ins`` and ``outs`` are shapes, ``used`` says which results anything reads; ``operands`` are the tensors read, None
    where one is a constant that the program holds itself; ``reads`` and ``writes`` are what moves. ``axes`` are the
    sizes of mesh axes by name, and ``inner`` counts a program that a parameter holds (the update of a scatter), for one
    element. ``numbers`` are the values of operands, None where they are not known (``jax/indices.py``).
    """

    name: str
    params: Mapping[str, Any]
    ins: Sequence[Value]
    outs: Sequence[Value]
    operands: Sequence[Tensor | None]
    writes: tuple[Tensor, ...]
    axes: Mapping[str, int]
    inner: Callable[[Any], Size]
    used: tuple[bool, ...] = ()
    numbers: Sequence[Any] = ()
    aliases: dict[int, int] = field(default_factory=dict)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """Everything that is read, each tensor once."""
        return tuple({t.ident: t for t in self.operands if t is not None}.values())

    def alias(self, result: int = 0, operand: int = 0) -> Priced:
        """Say that a result is an operand in another form, so that nothing moves."""
        self.aliases[result] = operand
        return None

    def into(self, place: int, amount: Size) -> tuple[Tensor, ...]:
        """An operand of which so many elements are written in place; the result is that operand."""
        self.alias(0, place)
        by = self.writes[0].ident
        return tuple(t.updated(by, touched=minimum(amount, t.elements)) for t in self.read(place))


Rule: TypeAlias = Callable[[Call], Priced]

_TABLE: RuleTable[Rule] = RuleTable("roofline.programs.jax.rules")

rule, find, known_names = _TABLE.rule, _TABLE.find, _TABLE.names


def value_of(aval: Any) -> Value:
    """Shape and dtype of an abstract value; the part of one device where its sharding is explicit."""
    shape = tuple(size_of(dim) for dim in getattr(aval, "shape", ()))
    name, extra = dtype_of(getattr(aval, "dtype", None))
    split = _split(aval, len(shape))
    if any(split):
        sizes = mesh_axes(aval.sharding.mesh)
        parts = [prod(sizes[axis] for axis in over) for over in split]
        shape = tuple(exact_div(dim, part) for dim, part in zip(shape, parts, strict=True))
        return Value((*shape, *extra), name, split)
    return Value((*shape, *extra), name)


def size_of(dim: Any) -> Size:
    """One dimension: a number, or JAX's symbolic expression as ours."""
    return _expression(str(dim)) if type(dim).__name__ == "_DimExpr" else int(dim)


def scanned(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many of a scan's operands are the same in every step, and how many are carried; the rest it scans over."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    shared, carried, _ = (len(list(tree)) for tree in params["ft_in"].unpack())  # JAX 0.12 keeps trees
    return shared, carried


def mesh_axes(mesh: Any) -> dict[str, int]:
    """Sizes of a mesh's axes by name."""
    return {str(name): int(size) for name, size in dict(mesh.shape).items()}


def automatic(sharding: Any) -> int:
    """Devices over which the compiler shards by itself: the axes of a mesh that are neither explicit nor mapped."""
    mesh = getattr(sharding, "mesh", None)
    if not getattr(mesh, "shape", None):
        return 1
    kinds = dict(_kinds(mesh))
    return prod(size for axis, size in mesh_axes(mesh).items() if kinds.get(axis, "Auto") == "Auto")


def untyped(sharding: Any, aval: Any) -> int:
    """Devices over which ``jit`` shards a value by explicit axes of a mesh that the value's type does not have so."""
    mesh = getattr(sharding, "mesh", None)
    if not getattr(mesh, "shape", None):
        return 1
    rank = len(getattr(aval, "shape", ()))
    pairs = zip(_split_by(sharding, rank), _split(aval, rank) or ((),) * rank, strict=True)
    sizes = mesh_axes(mesh)
    return prod(sizes.get(axis, 1) for asked, typed in pairs if asked != typed for axis in {*asked, *typed})


def dtype_of(dtype: Any) -> tuple[str, tuple[int, ...]]:
    """Our name of a dtype, and the dimensions that one element hides (a random key is two words)."""
    name = str(dtype)
    if name.startswith("key<"):
        return "uint32", (4,) if "rbg" in name else (2,)
    if dtypes.is_dtype(name):
        return dtypes.get(name).name, ()
    return "bool" if name == "float0" else "fp8" if name.startswith("float8") else "uint8", ()


@cache
def _expression(text: str) -> Any:
    """Read ``2*B^2 + floordiv(S, 2)``."""
    from sympy.parsing.sympy_parser import convert_xor, parse_expr, standard_transformations

    names = {name: symbol(name) for name in re.findall(r"[A-Za-z_]\w*", text)}
    words = {"floordiv": floor_div, "ceildiv": ceil_div, "mod": sympy.Mod, "max": maximum, "min": minimum}
    return parse_expr(text, names | words, (*standard_transformations, convert_xor))


def _split(aval: Any, rank: int) -> tuple[tuple[str, ...], ...]:
    """Mesh axes over which each dimension is sharded, where the type of the value says so."""
    sharding = getattr(aval, "sharding", None)
    spec = getattr(sharding, "spec", None)
    if sharding is None or spec is None or not getattr(getattr(sharding, "mesh", None), "shape", None):
        return ()
    return _split_by(sharding, rank)


def _split_by(sharding: Any, rank: int) -> tuple[tuple[str, ...], ...]:
    """Explicit axes of a mesh over which a sharding splits each dimension."""
    spec = getattr(sharding, "spec", None) or ()
    explicit = {name for name, kind in _kinds(sharding.mesh) if kind == "Explicit"}
    parts = [(part,) if isinstance(part, str) else tuple(part or ()) for part in spec]
    parts += [()] * (rank - len(parts))
    return tuple(tuple(axis for axis in part if axis in explicit) for part in parts)


def _kinds(mesh: Any) -> list[tuple[str, str]]:
    kinds = getattr(mesh, "axis_types", None) or ()
    return [(name, getattr(kind, "name", str(kind))) for name, kind in zip(mesh.axis_names, kinds, strict=False)]
