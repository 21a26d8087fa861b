"""JAX's shapes and dtypes in this package's words: symbolic dimensions, keys, explicit shardings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

from roofline import dtypes
from roofline.programs.jax.registry import Value
from roofline.sizes import Size, ceil_div, exact_div, floor_div, maximum, minimum, symbol


def value_of(aval: Any, axes: Mapping[str, int] | None = None) -> Value:
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
    # JAX 0.12 keeps trees of the three kinds.
    shared, carried, _ = (len(list(tree)) for tree in params["ft_in"].unpack())
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


def dtype_of(dtype: Any) -> tuple[str, tuple[int, ...]]:
    """Our name of a dtype, and the dimensions that one element hides (a random key is two words)."""
    name = str(dtype)
    if name.startswith("key<"):
        return "uint32", (4,) if "rbg" in name else (2,)
    if dtypes.is_dtype(name):
        return dtypes.get(name).name, ()
    return {"float0": "bool", "uint2": "int2"}.get(name, "fp8" if name.startswith("float8") else "uint8"), ()


@cache
def _expression(text: str) -> Any:
    """Read ``2*B^2 + floordiv(S, 2)``."""
    import sympy
    from sympy.parsing.sympy_parser import convert_xor, parse_expr, standard_transformations

    words = {
        "floordiv": floor_div,
        "ceildiv": ceil_div,
        "mod": sympy.Mod,
        "max": lambda *v: maximum(*v),
        "min": lambda *v: minimum(*v),
    }
    names = {name: symbol(name) for name in _names(text) if name not in words}
    return parse_expr(text, {**words, **names}, (*standard_transformations, convert_xor))


def _names(text: str) -> set[str]:
    import re

    return set(re.findall(r"[A-Za-z_]\w*", text))


def _split(aval: Any, rank: int) -> tuple[tuple[str, ...], ...]:
    """Mesh axes over which each dimension is sharded, where the type of the value says so."""
    sharding = getattr(aval, "sharding", None)
    spec = getattr(sharding, "spec", None)
    if sharding is None or spec is None or not getattr(getattr(sharding, "mesh", None), "shape", None):
        return ()
    explicit = {name for name, kind in _kinds(sharding.mesh) if kind == "Explicit"}
    parts = [(part,) if isinstance(part, str) else tuple(part or ()) for part in spec]
    parts += [()] * (rank - len(parts))
    return tuple(tuple(axis for axis in part if axis in explicit) for part in parts)


def _kinds(mesh: Any) -> list[tuple[str, str]]:
    kinds = getattr(mesh, "axis_types", None) or ()
    return [(name, getattr(kind, "name", str(kind))) for name, kind in zip(mesh.axis_names, kinds, strict=False)]
