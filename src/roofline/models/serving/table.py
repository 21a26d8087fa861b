"""Millions of configurations of one step: its totals as closed forms, evaluated block by block.

The step is traced once with symbols for the sizes that vary. Every amount is then a formula of a few terms, whatever
the number of layers, and one block of 16 thousand rows takes a millisecond.

>>> import numpy as np
>>> found = serve_table("llama-3-70b", "decode", on="h100", batch=np.array([1, 64]), context=np.array([512, 4096]))
>>> found["bound_by"].tolist(), [round(t * 1e3, 1) for t in found["lower"].tolist()]
(['hbm', 'hbm'], [41.5, 67.1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from roofline.bounds.api import target
from roofline.bounds.conventions import Conventions, taken_from
from roofline.bounds.evaluate import untimed
from roofline.bounds.traffic import traffic
from roofline.errors import InputError, SizeError, UntimedError, suggest
from roofline.formulas.tables import Columns
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import check_options
from roofline.models.parallelism.layout import Parallelism, take_layout_options
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving.bound import serve_bound
from roofline.models.serving.step import PHASES, Phase, latent_attention_ways, needs
from roofline.signatures import takes
from roofline.sizes import Codes, Size, check, common_shape, is_array, plain_numbers, symbol
from roofline.work import Key, Op, Work

#: Rows evaluated at once: a few hundred kilobytes of columns, which stay in a core's own cache.
BLOCK = 16_384

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
    set: dict[str, Any] | None = None,
    files: Sequence[str] = (),
    achievable: bool = False,
    **options: Any,
) -> ServingTable:
    """Price one step for every row of the sizes that are arrays (they broadcast); the rest is as in ``serve_bound``.

    Each row is what :func:`roofline.models.serve_bound` gives for its numbers.
    """
    import numpy as np

    described = load(model)
    machine = target(on, set=set, files=files, achievable=achievable)
    ways = Parallelism.on(machine, **take_layout_options(options))
    if ways.pipeline > 1:
        raise InputError("a table over the stages of a pipeline is not made", hint="serve_bound takes arrays of sizes")
    described, machine = local_model(described, machine, ways)
    conventions = taken_from(options, "minimal")
    if phase not in PHASES:
        raise InputError(f"no phase {phase!r}", hint=suggest(phase, PHASES, what="phases"))
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise InputError(f"no column {unknown[0]!r}", hint=suggest(unknown[0], COLUMNS, what="columns"))
    kind = PHASES[phase]
    check_options(options, *kind.takers)
    given = {"batch": batch, **{name: options.pop(name) for name in kind.sizes if name in options}}
    varying = {name: _checked(name, value) for name, value in given.items() if _varies(value)}
    if not varying:
        raise SizeError("no size is an array", hint="serve_bound answers a single configuration")
    shape = common_shape(varying)
    letters = {name: symbol(name) for name in varying}
    sizes = {**given, **letters}
    flat = [np.broadcast_to(values, shape).reshape(-1) for values in varying.values()]
    missing: dict[Key, None] = {}
    found = [
        _rows(described, kind, machine, conventions, {**options, **changed}, sizes, letters, flat, columns, missing)
        for changed in latent_attention_ways(described, phase, {**options, **sizes})
    ]
    table = dict(zip(varying, flat, strict=True)) | reduce(_faster, found)
    table = {name: values for name, values in table.items() if name in varying or name in columns}
    return ServingTable(described, phase, machine, table, tuple(untimed(machine, key) for key in missing))


def _rows(
    model: Model, kind: Phase, machine: Machine, conventions: Conventions, options: dict[str, Any],
    sizes: dict[str, Any], letters: dict[str, Any], flat: list[Any], columns: Sequence[str], missing: dict[Key, None],
) -> dict[str, Any]:  # fmt: skip
    """The columns of a step's totals, ``lower`` among them; amounts without a rate go to ``missing``."""
    ops = kind.build(model, **sizes, **options)
    moved = traffic(ops, conventions.policy, conventions.tile)
    kept = (kind.length(sizes), sizes["batch"], options, kind.kept_beside(sizes))
    needed = needs(model, ops, *kept).total if "memory" in columns else 0
    each = [_times(op, (op.work + load) * op.repeat, machine, missing) for op, load in zip(ops, moved, strict=True)]
    if not any(each):
        raise UntimedError("; ".join(untimed(machine, key) for key in missing))
    columns = tuple(dict.fromkeys((*columns, "lower")))
    names, evaluated = _compiled(ops, moved, each, needed, list(letters.values()), columns)
    return _blocks(evaluated, flat, columns, names)


def _faster(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Row by row the columns of the way that is faster."""
    import numpy as np

    faster = other["lower"] < one["lower"]
    found: dict[str, Any] = {}
    for name, values in one.items():
        if isinstance(values, Codes):
            names = tuple(dict.fromkeys((*values.names, *other[name].names)))
            parts = [np.asarray([names.index(n) for n in each.names])[each.codes] for each in (values, other[name])]
            found[name] = Codes(np.where(faster, parts[1], parts[0]).astype(np.int8), names)
        else:
            found[name] = np.where(faster, other[name], values)
    return found


def _varies(value: Any) -> bool:
    return is_array(value) or isinstance(value, list | tuple | range)


def _checked(name: str, value: Any) -> Any:
    """Check a size: at least 1, but ``past`` and ``context`` may be 0."""
    import numpy as np

    may_be_none = name in ("past", "context")
    return check(name, np.asarray(value, dtype=np.float64) + 1) - 1 if may_be_none else check(name, value)


def _blocks(
    evaluated: Callable[..., Any], flat: list[Any], columns: Sequence[str], names: tuple[str, ...]
) -> dict[str, Any]:
    import numpy as np

    rows = len(flat[0])
    table = {name: np.empty(rows, np.int8 if name == "bound_by" else np.float64) for name in columns}
    for start in range(0, rows, BLOCK):
        where = slice(start, start + BLOCK)
        for name, values in evaluated(*(values[where] for values in flat)).items():
            table[name][where] = values
    return {name: Codes(values, names) if name == "bound_by" else values for name, values in table.items()}


def _compiled(
    ops: Sequence[Op], moved: Sequence[Work], each: Sequence[dict[str, Any]], needed: Any, letters: list[Any],
    columns: Sequence[str],
) -> tuple[tuple[str, ...], Callable[..., dict[str, Any]]]:  # fmt: skip
    """Compile the step's totals for arrays. Times of single operations are compiled only for ``op_by_op``."""
    import numpy as np
    import sympy

    names = tuple(dict.fromkeys(name for times in each for name in times))
    totals = [sympy.expand(sum(times.get(name, 0) for times in each)) for name in names]
    amounts = {
        "flops": sum(op.work.total("flops", "matrix") * op.repeat for op in ops),
        "bytes": sum(work.total("bytes") * op.repeat for op, work in zip(ops, moved, strict=True)),
        "memory": needed,
    }
    wanted = {name: sympy.expand(value) for name, value in amounts.items() if name in columns}
    resources, others = _function(letters, totals), _function(letters, list(wanted.values()))
    pieces = [list(times.values()) for times in each] if "op_by_op" in columns else []
    apart = _function(letters, [sympy.expand(time) for times in pieces for time in times])

    def evaluated(*values: Any) -> dict[str, Any]:
        times = resources(*values)
        found: dict[str, Any] = dict(zip(wanted, others(*values), strict=True))
        lower, codes = times[0], np.zeros(len(values[0]), np.int8)
        for code, time in enumerate(times[1:], 1):
            if "bound_by" in columns:
                codes[np.broadcast_to(time > lower, codes.shape)] = code
            lower = np.maximum(lower, time)
        found |= {"lower": lower, "upper": sum(times), "bound_by": codes}
        if pieces:
            flat = iter(apart(*values))
            found["op_by_op"] = sum(_largest([next(flat) for _ in times]) for times in pieces if times)
        return {name: found[name] for name in columns}

    return names, evaluated


def _largest(values: list[Any]) -> Any:
    import numpy as np

    result = values[0]
    for value in values[1:]:
        result = np.maximum(result, value)
    return result


def _times(op: Op, work: Work, machine: Machine, missing: dict[Key, None]) -> dict[str, Any]:
    """Seconds by resource; an amount without a rate is untimed, as everywhere, and goes to ``missing``."""
    times: dict[str, Any] = {}
    for key, amount in work.items():
        found = rate(machine, key, op)
        if isinstance(amount, int | float) and amount == 0:
            continue
        if found is None:
            missing[key] = None
        else:
            times[found.resource] = times.get(found.resource, 0) + amount / found.value
    return times


def _function(letters: list[Any], formulas: list[Any]) -> Callable[..., list[Any]]:
    """Compile formulas for arrays with common subexpressions shared. Min and Max become pairwise numpy calls."""
    import numpy as np
    import sympy

    pairs = {sympy.Min: ("minimum", np.minimum), sympy.Max: ("maximum", np.maximum)}
    for kind, (name, _) in pairs.items():
        function = sympy.Function(name)

        def nested(*parts: Any, function: Any = function) -> Any:
            result = parts[0]
            for part in parts[1:]:
                result = function(result, part)
            return result

        formulas = [sympy.sympify(formula).replace(kind, nested) for formula in formulas]
    modules = [dict(pairs.values()), "numpy"]
    compiled: Callable[..., list[Any]] = sympy.lambdify(letters, formulas, modules=modules, cse=True)
    return compiled
