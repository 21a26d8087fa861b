"""An answer as plain data under documented, stable keys, in SI units: what ``--json`` prints.

Numbers stay numbers, arrays become equal-length lists, symbols become null with the formula under ``formulas``;
there is never a NaN.
"""

from __future__ import annotations

import math
from typing import Any

from roofline.bounds.bound import Bound, Codes, OpBound
from roofline.sizes import is_array, is_symbol

SCHEMA = "roofline/bound/1"

_SCALARS = (
    "flops", "intensity", "critical_intensity", "lower", "op_by_op", "upper", "estimate", "attainable", "utilisation",
)  # fmt: skip
_TABLES = ("flops_by", "bytes", "wire", "times")


def record(answer: Bound) -> dict[str, Any]:
    """Turn a bound into plain data.

    >>> from roofline import bound
    >>> found = record(bound("bf16[B, D] * bf16[D, F]", on="v5e", B=8, D=256, F=256))
    >>> found["schema"], found["bound_by"], found["bytes"]
    ('roofline/bound/1', 'hbm', {'hbm': 139264})
    >>> record(bound("bf16[B, D] * bf16[D, F]", on="v5e"))["formulas"]["flops"]
    '2*B*D*F'
    """
    formulas: dict[str, str] = {}
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "expression": answer.expression,
        "target": answer.target,
        "machine": answer.machine.key,
        "sizes": {name: plain(whole(value)) for name, value in answer.sizes.items()},
    }
    for name in _SCALARS:
        body[name] = entry(name, getattr(answer, name), formulas)
    for name in _TABLES:
        body[name] = {key: entry(f"{name}.{key}", value, formulas) for key, value in getattr(answer, name).items()}
    body["bound_by"] = decoded(answer.bound_by)
    body["kind"] = answer.kind
    body["ops"] = [_op(part, formulas, i) for i, part in enumerate(answer.ops)]
    body["footprint"] = _inside("footprint", answer.footprint and answer.footprint.to_dict(), formulas)
    body["rates"] = [
        {
            "resource": use.resource,
            "dtype": use.dtype or None,
            "value": plain(use.rate.plain if use.rate.plain is not None else use.rate.value),
            "symbol": str(use.rate.value) if is_symbol(use.rate.value) else None,
            "source": use.rate.figure.source if use.rate.figure else None,
            "basis": use.rate.figure.basis if use.rate.figure else None,
        }
        for use in answer.uses
    ]
    body["options"] = {key: plain(value) for key, value in answer.request.items()}
    if answer.plan is not None:
        for name in ("math", "comms", "comms_over_math"):
            body[name] = entry(name, getattr(answer, name), formulas)
        body["plan"] = answer.plan
        body["plans"] = [found.to_dict() for found in answer.plans]
    body["assumptions"] = list(answer.assumptions)
    body["incomplete"] = list(answer.incomplete)
    if formulas:
        body["formulas"] = formulas
    return body


def _op(part: OpBound, formulas: dict[str, str], index: int) -> dict[str, Any]:
    path = f"ops.{index}"
    return {
        "name": part.op.name,
        "kind": part.op.kind,
        "where": part.op.where or None,
        "repeat": plain(part.op.repeat),
        "dims": {key: plain(value) for key, value in part.op.dims.items()},
        "flops": entry(f"{path}.flops", part.flops, formulas),
        "bytes": entry(f"{path}.bytes", part.bytes, formulas),
        "intensity": entry(f"{path}.intensity", part.intensity, formulas),
        "times": {key: entry(f"{path}.times.{key}", value, formulas) for key, value in part.times.items()},
        "lower": entry(f"{path}.lower", part.lower, formulas),
        "upper": entry(f"{path}.upper", part.upper, formulas),
        "bound_by": part.bound_by if isinstance(part.bound_by, str) else None,
    }


def decoded(binding: Any) -> Any:
    """What binds: a name, names for arrays, None for formulas."""
    return binding.decode() if isinstance(binding, Codes) else binding


def entry(path: str, value: Any, formulas: dict[str, str]) -> Any:
    """A value as plain data; one that is open is null, and stands among the formulas under its path."""
    if is_symbol(value) and value.free_symbols:
        formulas[path] = str(value)
        return None
    return plain(value)


def data(body: dict[str, Any]) -> dict[str, Any]:
    """A whole answer as plain data; what is open is null, and stands under ``formulas`` by its path.

    >>> from roofline.sizes import symbol
    >>> data({"batch": symbol("B"), "memory": {"total": 2 * symbol("B"), "fits": None}})["formulas"]
    {'batch': 'B', 'memory.total': '2*B'}
    """
    formulas: dict[str, str] = {}
    found: dict[str, Any] = _inside("", body, formulas)
    return {**found, "formulas": formulas} if formulas else found


def _inside(path: str, value: Any, formulas: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _inside(f"{path}.{key}" if path else key, each, formulas) for key, each in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, dict | list | tuple) for each in value):
        return [_inside(f"{path}.{index}", each, formulas) for index, each in enumerate(value)]
    return entry(path, value, formulas)


def whole(value: Any) -> Any:
    """Sizes as the whole numbers they are: an array of them, which holds floats, as a list of ints.

    >>> import numpy as np
    >>> whole(np.array([1.0, 64.0])), whole(64)
    ([1, 64], 64)
    """
    if not is_array(value):
        return value
    return [int(size) if float(size).is_integer() else size for size in value.ravel().tolist()]


def plain(value: Any) -> Any:
    """Turn a value into plain data: arrays into lists, symbols and what is not finite into null."""
    if is_array(value):
        return [plain(v) for v in value.ravel().tolist()]
    if is_symbol(value):
        return None if value.free_symbols else plain(float(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value
