"""Shapes of results, kept: PyTorch works them out in Python, layer by layer alike, which takes longer than all else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from roofline.programs.pytorch.tensors import tensors_in

#: Results that are kept; past them all are forgotten.
MOST = 4096

#: Arguments that say themselves what they are.
_PLAIN = (int, float, bool, str, complex, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)

#: Results by operation and arguments, as :func:`_made` makes others like them.
KEPT: dict[Any, Any] = {}


class _UnlikeOthersError(Exception):
    """An argument or a result that is more than a shape."""


def results_of(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation of PyTorch's own gives of shapes that shares no memory with its arguments; worked out once.

    Tensors of one number are left to PyTorch, which takes those that stand for a number of Python's for another type.
    """
    try:
        if func.namespace != "aten" or torch._C._functorch.peek_interpreter_stack() is not None:
            raise _UnlikeOthersError
        key = (func, torch.get_default_dtype(), _key(args), _key(kwargs))
    except _UnlikeOthersError:
        return func(*args, **kwargs)
    if (kept := KEPT.get(key)) is not None:
        return _made(kept)
    found = func(*args, **kwargs)
    given, outs = {id(tensor): tensor for tensor in tensors_in((args, kwargs))}, tensors_in(found)
    with suppress(_UnlikeOthersError):
        shape = _shape(found)
        storages = {tensor.untyped_storage()._cdata for tensor in (*given.values(), *outs)}
        if len(storages) == len(given) + len(outs):
            if len(KEPT) >= MOST:
                KEPT.clear()
            KEPT[key] = shape
    return found


def _key(value: Any) -> Any:
    """An argument as a part of a key: a tensor as its shape, strides, place and type."""
    if isinstance(value, torch.Tensor):
        if not _is_shape(value) or not value.dim():
            raise _UnlikeOthersError
        return torch.Tensor, value.shape, value.stride(), value.storage_offset(), value.dtype
    if type(value) in _PLAIN:
        return type(value), value
    if isinstance(value, list | tuple):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    raise _UnlikeOthersError


def _is_shape(tensor: Any) -> bool:
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_meta
    if not is_plain or tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return False
    return all(type(size) is int for size in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def _shape(found: Any) -> Any:
    """A result as what :func:`_made` makes one like it of."""
    if isinstance(found, torch.Tensor):
        size = found.untyped_storage().nbytes()
        shape = torch.Size, (found.shape, found.stride()), found.dtype
        if not _is_shape(found) or _made(shape).untyped_storage().nbytes() != size or found.storage_offset():
            raise _UnlikeOthersError
        return shape
    if type(found) in (list, tuple):
        return type(found), tuple(map(_shape, found)), None
    if found is None:
        return None
    raise _UnlikeOthersError


def _made(kept: Any) -> Any:
    if kept is None:
        return None
    kind, parts, dtype = kept
    if kind is torch.Size:
        return torch.empty_strided(*parts, dtype=dtype, device="meta")
    return kind(map(_made, parts))
