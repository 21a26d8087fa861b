"""Conditions on sizes that a formula cannot express: checked for ints and arrays, taken on trust for symbols."""

from __future__ import annotations

from typing import Any

from roofline.errors import SizeError
from roofline.sizes import Size, is_array, is_symbol


def require(condition: Any, message: str, hint: str = "") -> None:
    """Raise :class:`SizeError` unless ``condition`` holds, for every element where it is an array.

    >>> require(7 % 2 == 0, "7 channels do not fall into 2 groups")
    Traceback (most recent call last):
    roofline.errors.SizeError: 7 channels do not fall into 2 groups
    """
    held = bool(condition.all()) if is_array(condition) else is_symbol(condition) or bool(condition)
    if not held:
        raise SizeError(message, hint=hint)


def require_multiple(size: Size, of: Size, message: str, hint: str = "") -> None:
    """Raise unless ``size`` is a whole multiple of ``of``; with a symbol in either nothing is known.

    >>> require_multiple(8, 2, "never shown")
    >>> require_multiple(8, 3, "8 query heads do not share 3 key heads evenly")
    Traceback (most recent call last):
    roofline.errors.SizeError: 8 query heads do not share 3 key heads evenly
    """
    if not (is_symbol(size) or is_symbol(of)):
        require(size % of == 0, message, hint)


def show(size: Size) -> str:
    """Write a size for a message: an array by its range.

    >>> import numpy as np
    >>> show(64), show(np.array([1.0, 8.0]))
    ('64', '1…8')
    """
    return f"{size.min():g}…{size.max():g}" if is_array(size) else str(size)


def require_equal(size: Size, other: Size, message: str, hint: str = "") -> None:
    """Raise unless two sizes are equal; with a symbol in either nothing is known, and nothing raised.

    >>> require_equal(64, 32, "x has 64 channels, the kernel is for 32")
    Traceback (most recent call last):
    roofline.errors.SizeError: x has 64 channels, the kernel is for 32
    """
    if not (is_symbol(size) or is_symbol(other)):
        require(size == other, message, hint)
