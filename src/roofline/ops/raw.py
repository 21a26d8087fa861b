"""Raw work: FLOPs and bytes (or an intensity) with no operation behind them, priced by the same code as the rest.

>>> raw(flops=1e12, bytes=2e9).work
Work(flops/matrix/bf16: 1000000000000.0, bytes/main: 2000000000.0)
>>> raw(intensity=25, dtype="fp32").work                  # as many FLOPs for each byte
Work(flops/matrix/fp32: 25, bytes/main: 1)
"""

from __future__ import annotations

from typing import Any

from roofline import dtypes
from roofline.errors import InputError, SizeError, suggest
from roofline.ops.rules import show
from roofline.sizes import Size, is_array, is_symbol
from roofline.work import Op, Work

_UNITS = ("matrix", "vector")


def raw(
    *,
    flops: Size | None = None,
    bytes: Size | None = None,
    intensity: Size | None = None,
    dtype: str = "bf16",
    unit: str = "matrix",
    name: str = "raw work",
) -> Op:
    """Make an operation of given amounts: FLOPs on a unit in one arithmetic dtype, bytes at ``main``.

    Amounts are positive numbers, arrays or symbols; they need not be whole. ``intensity`` in FLOP/B stands alone: it is
    that many FLOPs for one byte.

    >>> raw(flops=-1)
    Traceback (most recent call last):
    roofline.errors.SizeError: flops is -1; an amount of work is a finite number above 0
    >>> raw(bytes=1e9, intensity=3)
    Traceback (most recent call last):
    roofline.errors.InputError: an intensity stands alone; give intensity=, or flops= and bytes=
    """
    if unit not in _UNITS:
        raise InputError(f"unknown unit {unit!r}", hint=suggest(unit, _UNITS, what="units"))
    if intensity is not None:
        if flops is not None or bytes is not None:
            raise InputError("an intensity stands alone", hint="give intensity=, or flops= and bytes=")
        flops, bytes = _amount("intensity", intensity), 1
    if flops is None and bytes is None:
        raise InputError("raw work needs an amount", hint="give flops=, bytes= or both, or intensity=")
    work = Work()
    if flops is not None:
        work += Work.flops(unit, dtypes.arithmetic_name(dtype), _amount("flops", flops))
    if bytes is not None:
        work += Work.bytes("main", _amount("bytes", bytes))
    return Op(name, "raw", work)


def _amount(name: str, value: Any) -> Size:
    if is_symbol(value) and not value.is_number:
        return value
    hint = "an amount of work is a finite number above 0"
    if is_array(value):
        if value.dtype.kind not in "iuf" or value.size == 0:
            raise SizeError(f"{name} is not an array of numbers", hint=hint)
        if not ((value > 0) & (value < float("inf"))).all():
            raise SizeError(f"{name} is {show(value)}", hint=hint)
        return value.astype(float)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise SizeError(f"{name} is {value!r}", hint=hint)
    if not 0 < value < float("inf"):
        raise SizeError(f"{name} is {value}", hint=hint)
    return value
