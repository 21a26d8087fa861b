"""A traced program as plain data under documented, stable keys: what ``--json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.ops.counting import CONVENTIONS, each
from roofline.ops.pricing import UNKNOWN
from roofline.sizes import is_symbol

if TYPE_CHECKING:
    from roofline.programs.traced import Traced
    from roofline.work import Op, Tensor

SCHEMA = "roofline/trace/1"
_POLICIES = ("each-op", "fused", "minimal")


def record(program: Traced) -> dict[str, Any]:
    """Turn a program into plain data; symbolic amounts become text.

    >>> from roofline.ops.contraction import matmul
    >>> from roofline.programs.traced import Traced
    >>> found = record(Traced("demo", (matmul(8, 16, 32),)))
    >>> found["schema"], found["flops"]["flops"], found["bytes"]["each-op"]
    ('roofline/trace/1', 8192, 1792)
    """
    return {
        "schema": SCHEMA,
        "name": program.name,
        "inputs": list(program.inputs),
        "flops": {name: _plain(program.flops(name)) for name in CONVENTIONS},
        "bytes": {policy: _plain(program.bytes(policy)) for policy in _POLICIES},
        "parameters": _plain(program.parameters()),
        "kinds": {kind: _plain(amount) for kind, amount in program.totals("all").items()},
        "modules": dict(program.modules),
        "ops": [_op(op) for op in program.ops],
        "gaps": [
            {"name": g.name, "count": _plain(g.count), "bytes": _plain(g.bytes), "where": g.where, "reason": g.reason}
            for g in program.listed_gaps()
        ],
        "assumptions": list(program.assumptions),
    }


def _op(op: Op) -> dict[str, Any]:
    return {
        "name": op.name,
        "kind": op.kind,
        "where": op.where or None,
        "source": op.options.get("source"),
        "phase": op.options.get("phase"),
        "repeat": _plain(op.repeat),
        "dims": {name: _plain(size) for name, size in op.dims.items()},
        "flops": None if op.kind == UNKNOWN else _plain(each(op)),
        "all_flops": None if op.kind == UNKNOWN else _plain(each(op, "all")),
        "reads": [_tensor(tensor) for tensor in op.reads],
        "writes": [_tensor(tensor) for tensor in op.writes],
        "note": op.note or None,
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "tensor": tensor.ident,
        "dtype": tensor.dtype,
        "dims": [_plain(size) for size in tensor.dims],
        "role": tensor.role,
        "bytes": _plain(tensor.traffic_bytes),
    }


def _plain(value: Any) -> Any:
    return str(value) if is_symbol(value) else value
