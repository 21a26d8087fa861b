"""Numbers that a jaxpr works out from constants alone, and the places of an array that they name.

A program that picks layers of stacked weights in a Python loop holds their numbers: they say which parts are read.

>>> import jax
>>> program = jax.make_jaxpr(lambda: jax.numpy.arange(6)[::2] + 1)()
>>> known: dict[Any, Any] = {}
>>> for eqn in program.jaxpr.eqns:
...     known[eqn.outvars[0]] = worked_out(eqn, [number_of(atom, known) for atom in eqn.invars])
>>> known[program.jaxpr.outvars[0]].tolist()
[1, 3, 5]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from roofline.frozen import NamedTuple
from roofline.programs import positions
from roofline.programs.jax.registry import size_of, value_of
from roofline.programs.positions import LOW, ZERO, Elements, hidden_by, of_values, values_held
from roofline.programs.regions import once
from roofline.programs.tensor_parts import MOST_PLACES, edges_of_places, part_name
from roofline.sizes import Size, is_symbol

#: Numbers that take more memory are not looked at; a mask of 4,096 rows and columns is.
_MOST_BYTES = 2**24

#: Floating-point numbers of more elements are not looked at.
_MOST_FLOATS = 2**18

#: Values of an operand, None where they are not known, what is :class:`Hidden` of them, or of open sizes formulas.
Numbers: TypeAlias = Any

#: Functions of JAX's own that are taken whole, by their names.
TAKEN_WHOLE = ("floor_divide", "remainder")
#: Primitives that give the same elements in another form, or one for one.
SAME = ("convert_element_type", "stop_gradient", "copy", "reshape", "squeeze", "expand_dims", "transpose",
        "broadcast_in_dim", "optimization_barrier", "name", "sharding_constraint", "pvary")  # fmt: skip


class Hidden(NamedTuple):
    """Elements of an array that are known, of others that are not: zeros, or scores so low that they become zeros."""

    mask: Any
    is_zero: bool

    @property
    def others(self) -> Any:
        """Which elements are not."""
        if isinstance(self.mask, Elements):
            return positions.worked_out("logical_not", self.mask)
        return np.broadcast_to(~once(self.mask), self.mask.shape)


def number_of(atom: Any, known: Mapping[Any, Numbers]) -> Numbers:
    """The whole numbers that an operand holds, None where they are not known."""
    return held_numbers(atom.val) if hasattr(atom, "val") else known.get(atom)


def held_numbers(value: Any) -> Numbers:
    """A constant that the program holds, where it is whole numbers and not large, or a row of others, no weights."""
    dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
    if _is_float(dtype) and np.ndim(value) > 1:
        return None
    is_held = _is_known(dtype, np.size(value)) and np.size(value) * dtype.itemsize <= _MOST_BYTES
    return np.asarray(value) if is_held else None


def _is_known(dtype: Any, count: int) -> bool:
    """Whether a format is of whole numbers or truth values, or these are few; a random key's has no kind.

    Places are worked out from other numbers where an image is resized.
    """
    return getattr(dtype, "kind", "") in tuple("iub") or (_is_float(dtype) and count <= _MOST_FLOATS)


def _is_float(dtype: Any) -> bool:
    """Whether a format is of floating-point numbers; bfloat16 has no kind of numpy's."""
    return getattr(dtype, "kind", "") == "f" or getattr(dtype, "name", "") == "bfloat16"


def worked_out(eqn: Any, operands: Sequence[Numbers]) -> Numbers:
    """What a primitive gives of known whole numbers."""
    function, aval = _FUNCTIONS.get(eqn.primitive.name), eqn.outvars[0].aval
    if function is None or len(eqn.outvars) > 1 or any(value is None for value in operands):
        return None
    sizes = getattr(aval, "shape", None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    repeats = eqn.primitive.name == "broadcast_in_dim"
    if not _is_known(aval.dtype, once(operands[0]).size if repeats else prod(sizes)):
        return None
    pairs = zip(operands, eqn.invars, strict=True)
    with np.errstate(over="ignore"):
        operands = [x if x.dtype == object else x.astype(atom.aval.dtype, copy=False) for x, atom in pairs]
    alike = tuple(sizes) if all(np.shape(value) in ((), tuple(sizes)) for value in operands) else ()
    kept = [any(value.strides[place] for value in operands if value.shape) for place in range(len(alike))]
    is_repeated = eqn.primitive.name not in (*_VIEWS, "reshape", "concatenate") and alike and not all(kept)
    if is_repeated:  # however often, it is worked out once
        first = tuple(slice(None) if is_kept else slice(0, 1) for is_kept in kept)
        operands = [value[first] if value.shape else value for value in operands]
    held = np.prod([n for n, is_kept in zip(alike, kept, strict=True) if is_kept]) if alike else np.prod(sizes)
    if held * aval.dtype.itemsize > _MOST_BYTES and eqn.primitive.name not in _VIEWS:
        return None
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(eqn.params, *operands))
        except TypeError:  # a comparison that depends on an open size
            return None
    return np.broadcast_to(found if found.dtype == object else found.astype(aval.dtype, copy=False), sizes)


def of_positions(eqn: Any, operands: Sequence[Numbers]) -> Elements | None:
    """What a primitive gives at open sizes, as formulas of positions; None where they are not told."""
    given = [each if each is None or isinstance(each, Elements) else of_values(each) for each in operands]
    told = [each for each in given if each is not None]
    if len(told) < len(given) or len(eqn.outvars) != 1:
        return None
    is_called = "jaxpr" in eqn.params and eqn.params.get("name") in TAKEN_WHOLE
    name = eqn.params["name"] if is_called else eqn.primitive.name
    return _moved(name, eqn.params, told, value_of(eqn.outvars[0].aval).shape)


def _moved(name: str, params: Mapping[str, Any], given: list[Elements], out: tuple[Size, ...]) -> Elements | None:
    """Elements that a primitive makes of others, or of none."""
    if name == "iota":
        return Elements(out, positions.place(params["dimension"] - len(out), out))
    if name == "dim_as_value":
        return Elements((), size_of(params["dim"]))
    if name == "select_n":
        return positions.worked_out("where", given[0], *given[:0:-1]) if len(given) == 3 else None
    if name == "clamp":
        return positions.worked_out("minimum", positions.worked_out("maximum", *given[:2]), given[2])
    if name == "concatenate":
        return positions.joined(given, params["dimension"] - len(out))
    if len(given) != 1:
        return positions.worked_out(name, *given)
    (first,) = given
    if name == "convert_element_type":
        return positions.converted(first, np.dtype(params["new_dtype"]).name)
    if name == "broadcast_in_dim":
        return first.spread(out, params["broadcast_dimensions"])
    if name in ("reshape", "squeeze", "expand_dims"):
        return first.reshaped(out)
    if name == "transpose":
        return first.transposed(params["permutation"])
    if name == "rev":
        return first.flipped(params["dimensions"])
    if name == "slice":
        steps = params["strides"] or (1,) * len(out)
        each = enumerate(zip(map(size_of, params["start_indices"]), steps, strict=True))
        return first.moved(out, [start + step * positions.place(d - len(out)) for d, (start, step) in each])
    if name == "cumsum" and not params["reverse"]:
        return positions.counted_up(first, params["axis"] - len(out))
    return first if name in SAME else positions.worked_out(name, first)


def hidden(eqn: Any, operands: Sequence[Numbers]) -> Hidden | None:
    """Which elements of a result are zeros or very low by a mask that the program knows, as of masked scores.

    >>> import jax
    >>> mask = np.tril(np.ones((2, 2), bool))
    >>> program = jax.make_jaxpr(lambda mask, x: jax.numpy.exp(jax.lax.select(mask, x, x * 0 - 1e9)))
    >>> eqns = program(mask, np.ones((2, 2), np.float32)).jaxpr.eqns
    >>> chosen = hidden(eqns[-2], [mask, np.full((2, 2), -1e9), None])
    >>> hidden(eqns[-1], [chosen])
    Hidden(mask=array([[False,  True],
           [False, False]]), is_zero=True)
    """
    name, shape = eqn.primitive.name, _shape(eqn.outvars[0])
    first, is_open = operands[0] if operands else None, any(map(is_symbol, shape))
    if name == "select_n" and not is_open and not (isinstance(first, np.ndarray) and first.shape == shape):
        return None
    if name in _MASKING:
        given = [once(first), *operands[1:]] if name == "select_n" and not is_open else operands
        lines = _shape(eqn.invars[-1])
        for kind in (LOW, ZERO):
            found = hidden_by(_MASKING[name], given, shape, kind, _held, lines)
            if found is not None:
                return Hidden(found, kind == ZERO)
    if not isinstance(first, Hidden) or not all(isinstance(each, np.ndarray) for each in operands[1:]):
        return None
    if isinstance(first.mask, Elements):
        moved = _moved(name, eqn.params, [first.mask], shape) if name in SAME else None
        return None if moved is None else first._replace(mask=moved)
    if name not in _VIEWS and (name not in _MOVING or first.mask.size > _MOST_BYTES):
        return None
    return Hidden(np.asarray(_FUNCTIONS[name](eqn.params, first.mask, *operands[1:])), first.is_zero)


def _shape(atom: Any) -> tuple[Size, ...]:
    return tuple(map(size_of, getattr(atom.aval, "shape", ())))


#: Primitives that hide scores or keep them hidden, by numpy's names.
_MASKING = {"select_n": "where", "mul": "multiply", "div": "divide", "add": "add", "sub": "subtract", "exp": "exp",
            "exp2": "exp"}  # fmt: skip


def _held(operand: Numbers, kind: str) -> Any:
    """Where an operand is zero, very low or very large; None where that is not known."""
    if isinstance(operand, Hidden):
        return operand.mask if kind == (ZERO if operand.is_zero else LOW) else None
    is_known = isinstance(operand, Elements) or (isinstance(operand, np.ndarray) and _is_float(operand.dtype))
    return values_held(operand, kind) if is_known else None


def _broadcast(params: Mapping[str, Any], x: Any) -> Any:
    shape, places = params["shape"], params["broadcast_dimensions"]
    kept = dict(zip(places, x.shape, strict=True))
    return np.broadcast_to(x.reshape([kept.get(place, 1) for place in range(len(shape))]), shape)


def _iota(params: Mapping[str, Any]) -> Any:
    shape, axis = params["shape"], params["dimension"]
    numbers = np.arange(shape[axis], dtype=params["dtype"])
    return np.broadcast_to(numbers.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)


def _sliced(params: Mapping[str, Any], x: Any) -> Any:
    steps = params["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, params["start_indices"], params["limit_indices"], steps))]


def _part(params: Mapping[str, Any], x: Any, *starts: Any) -> Any:
    sizes = params["slice_sizes"]
    first = [min(max(int(at), 0), n - size) for at, n, size in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))]


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, *values: function(*values)


def _shifted(x: Any, bits: Any) -> Any:
    """Shifted to the right with zeros."""
    unsigned = np.asarray(x).astype(f"u{np.asarray(x).dtype.itemsize}")
    return np.right_shift(unsigned, np.asarray(bits).astype(unsigned.dtype))


def _divided(params: Mapping[str, Any], a: Any, b: Any) -> Any:
    """A quotient, cut towards zero for whole numbers."""
    return a / b if a.dtype.kind == "f" else np.where(b == 0, 0, np.trunc(a / np.where(b == 0, 1, b)))


#: What primitives do to numbers.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _each(np.add), "sub": _each(np.subtract), "mul": _each(np.multiply), "neg": _each(np.negative),
    "max": _each(np.maximum), "min": _each(np.minimum), "sign": _each(np.sign), "rem": _each(np.fmod),
    "abs": _each(np.abs), "sin": _each(np.sin),
    "reduce_sum": lambda params, x: np.sum(x, axis=tuple(params["axes"]), dtype=x.dtype),
    "div": _divided, "floor": _each(np.floor), "ceil": _each(np.ceil),
    "clamp": _each(lambda low, x, high: np.clip(x, low, high)),
    "lt": _each(np.less), "le": _each(np.less_equal), "gt": _each(np.greater), "ge": _each(np.greater_equal),
    "eq": _each(np.equal), "ne": _each(np.not_equal), "and": _each(np.bitwise_and), "or": _each(np.bitwise_or),
    "not": _each(np.invert), "xor": _each(np.bitwise_xor), "shift_left": _each(np.left_shift),
    "shift_right_arithmetic": _each(np.right_shift), "shift_right_logical": _each(_shifted),
    "integer_pow": lambda params, x: np.power(x, params["y"]),
    "select_n": _each(lambda which, *cases: np.select([which == n for n in range(1, len(cases))], cases[1:], cases[0])),
    "convert_element_type": _each(np.asarray), "copy": _each(np.asarray), "stop_gradient": _each(np.asarray),
    "reshape": lambda params, x: x.reshape(params["new_sizes"]),
    "squeeze": lambda params, x: np.squeeze(x, tuple(params["dimensions"])),
    "expand_dims": lambda params, x: np.expand_dims(x, tuple(params["dimensions"])),
    "transpose": lambda params, x: np.transpose(x, params["permutation"]),
    "rev": lambda params, x: np.flip(x, params["dimensions"]),
    "concatenate": lambda params, *parts: np.concatenate(parts, params["dimension"]),
    "broadcast_in_dim": _broadcast, "iota": _iota, "slice": _sliced, "dynamic_slice": _part,
}  # fmt: skip

#: Primitives whose results repeat or show what they are given, and take no memory.
_VIEWS = ("broadcast_in_dim", "iota", "slice", "dynamic_slice", "transpose", "rev", "squeeze", "expand_dims")


#: Primitives that move what they are given, or give it in another format.
_MOVING = (*_VIEWS, "reshape", "convert_element_type", "copy", "stop_gradient")


def sliced_part(shape: Sequence[Any], sizes: Sequence[Any], starts: Sequence[Numbers]) -> str:
    """The part that a slice of these sizes takes; nothing where a start or a size is not known."""
    if not all(isinstance(at, np.ndarray) for at in starts):
        return ""
    left = [n - size for n, size in zip(shape, sizes, strict=True)]
    if not all(type(n) is int or n == 0 for n in left):
        return ""
    first = [min(max(int(at), 0), int(n)) for at, n in zip(starts, left, strict=True)]
    return part_name([(at, at + size, 1) for at, size in zip(first, sizes, strict=True)])


def picking(indices: Numbers) -> Numbers:
    """Indices that pick of an array, where they are known and not too many."""
    return indices if isinstance(indices, np.ndarray) and indices.size <= MOST_PLACES else None


def gathered_part(shape: Sequence[Any], params: Mapping[str, Any], indices: Numbers) -> str:
    """The part that a gather takes, where its places lie evenly along one dimension; nothing where they do not."""
    numbers, sizes = params["dimension_numbers"], tuple(map(size_of, params["slice_sizes"]))
    batched = getattr(numbers, "operand_batching_dims", None)
    if indices is None or batched:
        return ""
    edges = [(0, size, 1) for size in sizes]
    several = 0
    for axis, column in zip(numbers.start_index_map, np.moveaxis(indices, -1, 0), strict=True):
        if not all(type(n) is int for n in (shape[axis], sizes[axis])):
            return ""
        found = edges_of_places(np.clip(column, 0, shape[axis] - sizes[axis]), sizes[axis])
        if found is None:
            return ""
        several += found != (found[0], found[0] + sizes[axis], 1)
        edges[axis] = found
    return part_name(edges) if several < 2 else ""
