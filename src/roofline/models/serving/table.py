"""Millions of configurations of one step, by its closed form: compiled once, evaluated block by block.

>>> import numpy as np
>>> found = serve_table("llama-3-70b", "decode", on="h100", batch=np.array([1, 64]), context=np.array([512, 4096]))
>>> found["bound_by"].tolist(), [round(t * 1e3, 1) for t in found["lower"].tolist()]
(['hbm', 'hbm'], [41.5, 67.1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.bounds.api import target
from roofline.errors import InputError, SizeError, suggest
from roofline.formulas.tables import Columns
from roofline.hardware.machine import Machine
from roofline.models.closed_form import step_function
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.serving.bound import serve_bound
from roofline.models.serving.step import PHASES
from roofline.signatures import takes
from roofline.sizes import Codes, Size, check, common_shape, is_array, plain_numbers

COLUMNS = ("lower", "op_by_op", "upper", "bound_by", "flops", "bytes", "memory")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServingTable(Columns):
    """One row a configuration: the sizes that vary, then the columns asked for, all numpy arrays.

    ``lower``, ``op_by_op`` and ``upper`` are seconds, ``bytes`` and ``memory`` bytes, ``bound_by`` names.
    """

    model: Model
    phase: str
    machine: Machine
    columns: Mapping[str, Any]
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of sizes."""
        return tuple(name for name in self.columns if name not in COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/llm-table/1``): equal-length lists, codes decoded."""
        return {
            "schema": "roofline/llm-table/1",
            "model": self.model.to_dict(),
            "phase": self.phase,
            "target": self.machine.name,
            "machine": self.machine.key,
            "columns": {name: self.plain(name) for name in self.columns},
            "incomplete": list(self.incomplete),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        return f"ServingTable of {len(self)} rows, {self.model.name} {self.phase}: {', '.join(self.columns)}"


@plain_numbers
@takes(serve_bound)
def serve_table(
    model: Model | str,
    phase: str,
    *,
    on: str | Machine,
    batch: Size = 1,
    columns: Sequence[str] = ("lower", "bound_by"),
    **options: Any,
) -> ServingTable:
    """Price one step for every row of the sizes that are arrays (they broadcast); the rest is as in ``serve_bound``.

    Each row is what :func:`roofline.models.serve_bound` gives for its numbers. One that the closed form does not hold
    for is NaN, and ``incomplete`` counts it.
    """
    import numpy as np

    if phase not in PHASES:
        raise InputError(f"no phase {phase!r}", hint=suggest(phase, PHASES, what="phases"))
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise InputError(f"no column {unknown[0]!r}", hint=suggest(unknown[0], COLUMNS, what="columns"))
    given = {"batch": batch, **{name: options.pop(name) for name in PHASES[phase].sizes if name in options}}
    varying = {name: np.asarray(value) for name, value in given.items() if _varies(value)}
    if not varying:
        raise SizeError("no size is an array", hint="serve_bound answers a single configuration")
    shape = common_shape(varying)
    described, machine = load(model), target(on, **{n: options[n] for n in _OF_TARGET if n in options})
    function = step_function(described, phase, on=on, **options, **dict.fromkeys(given, 1))
    found = function.evaluate({**given, **varying}, columns)
    if found.invalid:
        for name, values in varying.items():
            _check(name, values)
    table: dict[str, Any] = {n: np.broadcast_to(values, shape).reshape(-1) for n, values in varying.items()}
    for name in columns:
        values = found.whole_column(name)
        flat = values.codes if isinstance(values, Codes) else values
        table[name] = Codes(flat.reshape(-1), values.names) if isinstance(values, Codes) else flat.reshape(-1)
    return ServingTable(described, phase, machine, table, found.incomplete)


def _varies(value: Any) -> bool:
    return is_array(value) or isinstance(value, list | tuple | range)


def _check(name: str, value: Any) -> None:
    """Check a size: at least 1, but ``past`` and ``context`` may be 0."""
    import numpy as np

    check(name, np.asarray(value, dtype=np.float64) + 1 if name in ("past", "context") else value)


#: Options that are the target's.
_OF_TARGET = ("set", "files", "over", "unit", "achievable")
