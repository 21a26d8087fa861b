"""Whole grids at once: evaluated in blocks that stay in cache, only the columns asked for kept.

>>> grid = sweep("bf16[B, D] * int8[D, F]", on="v5e", B=[1, 128, 512], D=[1024, 4096], F="D")
>>> len(grid), grid.names
(6, ('B', 'D', 'F'))
>>> grid["bound_by"].tolist()
['hbm', 'hbm', 'hbm', 'hbm', 'mxu', 'mxu']
>>> grid.row(5).kind
'compute-bound'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline.bounds.api import question
from roofline.bounds.bound import Bound, Codes
from roofline.bounds.columns import Columns
from roofline.bounds.question import Question, without_helpers
from roofline.bounds.question_mesh import of_several_chips, size_names
from roofline.errors import InputError, SizeError, suggest
from roofline.sizes import check, common_shape, is_array

#: Rows evaluated at once: a few hundred kilobytes of columns, which stay in a core's own cache.
BLOCK = 16_384

#: Columns a sweep may return; ``times`` stands for one column a resource, named ``time.hbm`` and so on.
COLUMNS = (
    "flops", "bytes", "intensity", "critical_intensity", "lower", "op_by_op", "upper", "estimate", "attainable",
    "utilisation", "bound_by", "fits", "times",
)  # fmt: skip

#: Columns of a table for which none are named: ``estimate`` where an overlap or overhead is stated, ``fits`` where
#: some row does not fit the memory its data is in.
DEFAULT_COLUMNS = ("lower", "upper", "estimate", "attainable", "intensity", "bound_by", "fits")

#: The most assumptions that stand under a table.
MOST_REMARKS = 6

#: Columns that mean nothing for a bare intensity.
TIMES = ("lower", "upper", "estimate")

#: A figure that is not known.
_UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Sweep(Columns):
    """A table of answers: one row a configuration, sizes first, then the columns asked for, all numpy arrays.

    ``assumptions`` and ``incomplete`` say what was assumed and not timed in it.
    """

    question: Question
    names: tuple[str, ...]
    columns: Mapping[str, Any]
    shape: tuple[int, ...]
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of whole numbers: sizes, but no amounts of raw work."""
        return tuple(name for name in self.names if name not in self.question.raw)

    def row(self, index: int) -> Bound:
        """Answer one row afresh, with every detail."""
        own = [name for name in size_names(self.question) if name in self.names]
        raw = {name: float(self.columns[name][index]) for name in self.question.raw if name in self.names}
        sizes = {name: int(self.columns[name][index]) for name in own}
        return self.question.vary(sizes=sizes, raw={**self.question.raw, **raw}).answer()

    def remarks(self) -> list[tuple[str, str]]:
        """What is assumed in this table but not in every answer, and what is not timed."""
        assumed = [("assumes", line) for line in self.question.particular(self.assumptions)]
        rest = len(assumed) - MOST_REMARKS
        more = [("assumes", f"… and {rest} more; --json has them all")] if rest > 0 else []
        return [*assumed[:MOST_REMARKS], *more, *super(Sweep, self).remarks()]

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/sweep/1``): equal-length lists, codes decoded."""
        return {
            "schema": "roofline/sweep/1",
            "expression": self.question.expression,
            "target": self.question.machine.name,
            "machine": self.question.machine.key,
            "columns": {name: self.plain(name) for name in self.columns},
            "assumptions": list(self.assumptions),
            "incomplete": list(self.incomplete),
        }

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} rows on {self.question.machine.name}: {', '.join(self.columns)}>"


def sweep(expression: str | None = None, *, columns: str | Sequence[str] | None = None, **arguments: Any) -> Sweep:
    """Evaluate the grid of all combinations of the sizes given as lists, ranges or arrays.

    A size given as text is a formula of the others (``F="4*D"``) and adds no dimension. The rest is as in
    :func:`roofline.bound`. A size left out is an error: a table needs numbers. Amounts of raw work may be lists too.
    ``columns`` are some of :data:`COLUMNS`; left out, ``fits`` is among them where a row does not fit the memory.

    >>> grid = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=8, D=[8192, 262144], F="D")
    >>> grid.plain("fits")
    [True, False]
    >>> sweep(flops=[1e12, 4e12], bytes=[1e9, 1e10], on="h100")["bound_by"].tolist()
    ['tensor', 'hbm', 'tensor', 'tensor']
    """
    columns = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else columns
    formulas: dict[str, str] = {}
    for source in (arguments, arguments.get("sizes") or {}):
        formulas |= {k: v for k, v in source.items() if isinstance(v, str) and k not in _NOT_SIZES}
    plain = {k: v for k, v in arguments.items() if k not in formulas}
    if plain.get("sizes"):
        plain["sizes"] = {k: v for k, v in plain["sizes"].items() if k not in formulas}
    asked = of_several_chips(question(expression, **plain)).one_plan()
    for name in size_names(asked):
        if asked.sizes.get(name) is None and name not in formulas:
            raise SizeError(f"size {name} has no value", hint=f"a table needs numbers, as in {name}=1024")
    stated = asked.overlap is not None or asked.overhead is not None
    meaningless = {*(() if stated else ("estimate",)), *(TIMES if asked.raw.get("intensity") is not None else ())}
    wanted = columns if columns is not None else [c for c in DEFAULT_COLUMNS if c not in meaningless]
    unknown = [c for c in wanted if c not in COLUMNS and not c.startswith("time.")]
    if unknown:
        raise InputError(f"no column {unknown[0]!r}", hint=suggest(unknown[0], COLUMNS, what="columns"))
    amounts = {name: value.reshape(-1) for name, value in asked.raw.items() if is_array(value)}
    axes = {**amounts, **{name: _axis(name, value) for name, value in asked.sizes.items()}}
    grid = _Grid(axes, formulas)
    found, said = _evaluate(asked, grid, wanted)
    if columns is None and not (found["fits"] == 0).any():
        del found["fits"]
    shape = tuple(len(a) for a in axes.values() if len(a) > 1) or (1,)
    return Sweep(asked, tuple(grid.names), found, shape, **said)


# Arguments of a question that may be text without being a size.
_NOT_SIZES = frozenset((
    "on", "unit", "over", "policy", "compute", "dtype", "overhead", "flops", "bytes", "intensity", "link", "plan",
    "algorithm", "uneven",
))  # fmt: skip


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


def _axis(name: str, value: Any) -> Any:
    import numpy as np

    checked = check(name, value)
    return np.atleast_1d(np.asarray(checked, dtype=np.float64)).reshape(-1)


class _Grid:
    """All combinations of the axes, made block by block; the last axis varies fastest."""

    def __init__(self, axes: Mapping[str, Any], formulas: Mapping[str, str]) -> None:
        self.axes, self.formulas = axes, formulas
        self.names = [*axes, *formulas]
        self.rows = 1
        for values in axes.values():
            self.rows *= len(values)

    def blocks(self) -> Iterator[tuple[slice, dict[str, Any]]]:
        import numpy as np

        for start in range(0, self.rows, BLOCK):
            stop = min(start + BLOCK, self.rows)
            index = np.arange(start, stop)
            sizes: dict[str, Any] = {}
            for name in reversed(list(self.axes)):
                values = self.axes[name]
                sizes[name] = values[index % len(values)] if len(values) > 1 else _whole(values[0])
                index = index // len(values) if len(values) > 1 else index
            sizes = dict(reversed(sizes.items()))
            yield slice(start, stop), self._with_formulas(sizes)

    def _with_formulas(self, sizes: dict[str, Any]) -> dict[str, Any]:
        from roofline.bounds.question import resolve_sizes

        return resolve_sizes({**sizes, **self.formulas}) if self.formulas else sizes


def _whole(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)


def _evaluate(asked: Question, grid: _Grid, columns: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a grid, and what its answers say about themselves."""
    import numpy as np

    table: dict[str, Any] = {name: np.empty(grid.rows) for name in grid.names}
    codes: Any = None
    binding: tuple[str, ...] = ()
    said: dict[str, dict[str, None]] = {"assumptions": {}, "incomplete": {}}
    own = size_names(asked)
    for where, sizes in grid.blocks():
        raw = {name: sizes[name] for name in asked.raw if name in sizes}
        given = {name: size for name, size in sizes.items() if name not in raw}
        given = without_helpers(given, grid.formulas, own)
        answer = asked.vary(sizes=given, raw={**asked.raw, **raw}).answer()
        for name, lines in said.items():
            lines.update(dict.fromkeys(getattr(answer, name)))
        for name in grid.names:
            table[name][where] = sizes[name]
        for column, value in _values(answer, columns):
            if column == "bound_by":
                codes = np.empty(grid.rows, np.int8) if codes is None else codes
                binding = value.names if isinstance(value, Codes) else tuple(answer.times)
                codes[where] = value.codes if isinstance(value, Codes) else binding.index(value)
            else:
                kind = bool if column == "fits" and value is not _UNKNOWN else float
                table.setdefault(column, np.empty(grid.rows, kind))[where] = value
    if codes is not None:
        table["bound_by"] = Codes(codes, binding)
    return table, {name: tuple(lines) for name, lines in said.items()}


def _values(answer: Bound, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for column in columns:
        if column == "times":
            yield from ((f"time.{name}", time) for name, time in answer.times.items())
        elif column.startswith("time."):
            name = column[5:]
            if name not in answer.times:
                raise InputError(f"no time on {name!r}", hint=suggest(name, answer.times, what="resources"))
            yield column, answer.times[name]
        elif column == "bytes":
            yield column, sum(answer.bytes.values())
        elif column == "fits":
            fits = answer.footprint.fits if answer.footprint is not None else None
            yield column, _UNKNOWN if fits is None else fits
        else:
            value = getattr(answer, column)
            yield column, _UNKNOWN if value is None else value
