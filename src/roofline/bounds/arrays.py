"""One answer for arrays of sizes, evaluated in blocks that stay in cache.

>>> import numpy as np
>>> from roofline import bound
>>> found = bound("bf16[B, D] * bf16[D, F]", on="h100", B=np.array([1, 512]), D=4096, F=4096)
>>> found.bound_by.decode()
['hbm', 'tensor']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.bounds.bound import Bound, Codes
from roofline.bounds.question import Question
from roofline.errors import SizeError
from roofline.sizes import check, common_shape, is_array

#: Rows evaluated at once: a few hundred kilobytes of columns, which stay in a core's own cache.
BLOCK = 16_384


def bound_arrays(asked: Question) -> Bound:
    """Answer a question whose sizes are arrays that broadcast against each other."""
    import numpy as np

    asked = asked.one_plan()
    sizes = {name: _floats(name, value) for name, value in asked.sizes.items()}
    arrays = {name: value for name, value in sizes.items() if is_array(value)}
    shape = common_shape(arrays, hint="use sweep() for all combinations")
    flat = {name: np.broadcast_to(a, shape).reshape(-1) for name, a in arrays.items()}
    rows = int(np.prod(shape))
    try:
        parts = [
            asked.vary(sizes={**sizes, **{n: a[start : start + BLOCK] for n, a in flat.items()}}).answer()
            for start in range(0, rows, BLOCK)
        ]
    except SizeError:
        for name, value in arrays.items():
            check(name, value)  # says where in the whole array the mistake is
        raise
    return _join(parts, sizes, rows, shape)


def _floats(name: str, value: Any) -> Any:
    """Take an array of numbers as float64; each block of it is checked when it is evaluated."""
    if is_array(value) and value.dtype.kind in "iuf" and value.size:
        return value.astype("float64", copy=False)
    return check(name, value)


def _join(parts: list[Bound], sizes: Mapping[str, Any], rows: int, shape: tuple[int, ...]) -> Bound:
    """Put blocks of answers back together in the shape the sizes broadcast to."""
    import numpy as np

    def joined(values: list[Any]) -> Any:
        if values[0] is None:
            return None
        counts = [min(BLOCK, rows - i * BLOCK) for i in range(len(values))]
        return np.concatenate([np.broadcast_to(v, (n,)) for v, n in zip(values, counts, strict=True)]).reshape(shape)

    def each(pick: Any) -> dict[str, Any]:
        return {key: joined([pick(p)[key] for p in parts]) for key in pick(parts[0])}

    scalars = (
        "flops",
        "intensity",
        "critical_intensity",
        "lower",
        "op_by_op",
        "upper",
        "attainable",
        "utilisation",
    )
    names = parts[0].bound_by.names if isinstance(parts[0].bound_by, Codes) else None
    codes = Codes(joined([p.bound_by.codes for p in parts]), names) if names else parts[0].bound_by
    return replace(
        parts[0],
        **{name: joined([getattr(p, name) for p in parts]) for name in scalars},
        sizes=sizes,
        estimate=joined([p.estimate for p in parts]),
        flops_by=each(lambda p: p.flops_by),
        bytes=each(lambda p: p.bytes),
        wire=each(lambda p: p.wire),
        times=each(lambda p: p.times),
        bound_by=codes,
        uses=(),
        ops=(),
        footprint=None,
        expression=parts[0].expression,
    )
