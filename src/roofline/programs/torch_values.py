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
