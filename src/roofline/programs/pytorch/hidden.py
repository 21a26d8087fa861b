"""Scores that a mask of the program's own hides, and weights of an attention that are zero for them.

An attention that is written out masks its scores (``masked_fill``, ``where``, values written to the places of a mask, a
sum with one), takes their softmax and multiplies it by values. Values that no query sees are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np

from roofline.frozen import replace
from roofline.programs.pytorch.registry import Call, TensorOperand
from roofline.programs.pytorch.rules.moving import known_mask
from roofline.programs.pytorch.rules.sequences import HIDDEN

#: More scores are not looked at.
_MOST_SCORES = 2**20
#: Functions that take the softmax of scores, and products of matrices.
SOFTMAXES, PRODUCTS = ("softmax", "_softmax", "_safe_softmax"), ("mm", "bmm", "matmul", "einsum")

#: Which elements of a storage are zero (True), or so low that their exponential is zero (False), by its name.
_Held: TypeAlias = "dict[tuple[str, bool], Any]"


def with_hidden(calls: Mapping[int, Call]) -> dict[int, Call]:
    """The calls in their order; of scores a softmax, of weights and factors a product has which elements are hidden."""
    held: _Held = {}
    found: dict[int, Call] = {}
    for place, call in sorted(calls.items()):
        is_product, before = call.name in PRODUCTS, calls.get(place - 1)
        is_scaled = call.name == "mul"  # also by zeros that are no result of an operation
        if (is_scaled or (held and (is_product or call.name in SOFTMAXES))) and call is not before:
            found[place] = replace(call, args=_told(call.args, held, is_product or is_scaled))
        else:
            found[place] = call if call is not before else found[place - 1]
        masks = [(is_zero, _hidden_by(call, held, is_zero)) for is_zero in (False, True)]
        for out in call.results:
            held = {key: mask for key, mask in held.items() if key[0] != _base(out)}
        for is_zero, mask in masks:
            if mask is not None and mask.any() and call.results[0].elements == mask.size:
                flat = np.zeros(mask.size, bool)
                view = _view(flat, call.results[0])
                if view is not None:
                    view[...] = mask
                    held[_base(call.results[0]), is_zero] = flat
    return found


def _told(value: Any, held: _Held, is_zero: bool) -> Any:
    """Arguments whose tensors say which of their elements are hidden."""
    if isinstance(value, list | tuple):
        return tuple(_told(each, held, is_zero) for each in value)
    return replace(value, hidden=_where_hidden(value, held, is_zero)) if isinstance(value, TensorOperand) else value


def _hidden_by(call: Call, held: _Held, is_zero: bool) -> Any:
    """Which elements of a call's first result are zero, or very low; None where that is not known."""
    name, args, shape = call.name, call.args, call.results[0].shape if call.results else ()
    if not all(type(n) is int for n in shape) or prod(shape) > _MOST_SCORES:
        return None
    if name in ("where", "masked_fill", "index_put") and len(args) > 2 and not call.get("accumulate"):
        mask, *cases = args if name == "where" else (args[1], args[2], args[0])
        chosen = _named(mask, shape) if name == "index_put" else known_mask(mask)
        if name == "index_put" and cases[0].elements != 1:
            cases[0] = None
        if chosen is None:
            return None
        parts = zip(cases, (chosen, ~chosen), strict=True)
        masks = [hides & taken for case, taken in parts if (hides := _where_hidden(case, held, is_zero)) is not None]
    elif name in (*SOFTMAXES, "exp") and is_zero:
        masks = [_where_hidden(args[0], held, False)]
        if name != "exp" and masks[0] is not None:
            masks = [masks[0] & ~masks[0].all(args[1], keepdims=True)]
    else:
        sides = {"add": 2, "sub": 1, "mul": 2, "div": 1, "_to_copy": 1, "clone": 1, "scalar_tensor": 1}.get(name, 0)
        sides = sides if name not in ("add", "sub", "mul", "div") or is_zero is (name in ("mul", "div")) else 0
        masks = [_where_hidden(value, held, is_zero) for value in args[:sides]]
        if name == "sub" and masks and isinstance(other := args[1], TensorOperand):
            masks = [masks[0] if masks[0] is None else _below_the_largest(masks[0], other.shape)]
            if other.values is not None:  # large where it hides, as 1e10 · (1 − mask)
                masks.append(_where_hidden(replace(other, values=-other.values), {}, False))
    known = [mask for mask in masks if mask is not None and mask.any()]
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*known)), shape) if known else None


def _named(indices: Any, shape: tuple[Any, ...]) -> Any:
    """Which elements indices of the program's own name, None for a whole dimension; None where that is not known."""
    if not all(index is None or (index.values is not None and index.is_constant) for index in indices):
        return None
    chosen = np.zeros(shape, bool)
    chosen[tuple(slice(None) if index is None else np.asarray(index.values) for index in indices)] = True
    return chosen


def _below_the_largest(mask: Any, subtracted: tuple[Any, ...]) -> Any:
    """Where scores stay low when the largest of each line is subtracted: not in a line that is hidden as a whole."""
    ahead = mask.ndim - len(subtracted)
    axes = tuple(axis for axis, size in enumerate(subtracted, ahead) if axis >= 0 and size == 1 < mask.shape[axis])
    return mask & ~mask.all(axes, keepdims=True) if axes else mask


def _where_hidden(value: Any, held: _Held, is_zero: bool) -> Any:
    """Where a number or a tensor is zero, or very low; None where that is not known."""
    if not isinstance(value, TensorOperand):
        return np.asarray(value == 0 if is_zero else value <= HIDDEN) if isinstance(value, int | float) else None
    if value.values is not None and value.is_constant and value.elements <= _MOST_SCORES:
        return np.asarray(value.values == 0 if is_zero else value.values <= HIDDEN)
    flat = held.get((_base(value), is_zero))
    return None if flat is None else _view(flat, value)


def _view(flat: Any, operand: TensorOperand) -> Any:
    """Elements of a storage as a tensor shows them; None where it has not so many."""
    if operand.layout is None or any(type(n) is not int for n in operand.shape):
        return None
    strides, start, width = operand.layout
    last = start + sum((n - 1) * step for n, step in zip(operand.shape, strides, strict=True))
    if start % width or last >= flat.size * width:
        return None
    return np.lib.stride_tricks.as_strided(flat[start // width :], operand.shape, [n // width for n in strides])


def _base(operand: TensorOperand) -> str:
    return "" if operand.tensor is None else operand.tensor.base
