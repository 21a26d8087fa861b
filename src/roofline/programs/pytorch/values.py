"""The tensors inside the arguments and results of a call: nested lists, tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: What a program makes out of nothing, and whole numbers that a module holds, keep their values up to this size.
LARGEST_CONSTANT = 64 * 2**20


def tensors_in(value: Any) -> list[Any]:
    """All tensors, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def all_whole(value: Any) -> bool:
    """Whether a result holds whole numbers, which have no gradient."""
    return not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in(value))


def is_open(value: Any) -> bool:
    """Whether a size of a result has no number."""
    return any(isinstance(size, torch.SymInt) for tensor in tensors_in(value) for size in tensor.shape)


def results_in(value: Any, depth: int = 3) -> list[Any]:
    """The plain tensors that a program gives back, those that objects of its own hold (caches) among them."""
    if isinstance(value, torch.Tensor):
        return [value] if type(value) is torch.Tensor else []
    if isinstance(value, list | tuple | set):
        return [tensor for item in value for tensor in results_in(item, depth)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in results_in(item, depth)]
    held = getattr(value, "__dict__", None)
    if depth == 0 or not isinstance(held, dict) or isinstance(value, torch.nn.Module | type) or callable(value):
        return []
    return results_in(dict(held), depth - 1)
