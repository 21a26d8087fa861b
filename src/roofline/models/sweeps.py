"""Sweeps over steps of a model: every chip, layout and format that is listed, with every size, as one table.

Each choice of chip, layout and formats is compiled once, and evaluated over the grid of all sizes.

>>> grid = sweep_steps("llama-3-70b", on=["h100:8", "h200:8"], tensor=[4, 8], batch=[1, 64], context=[1024, 8192])
>>> len(grid), list(grid)
(16, ['on', 'tensor', 'batch', 'context', 'lower', 'upper', 'bound_by', 'memory', 'fits'])
>>> grid.plain("fits")[:4], grid["on"][-1], grid.plain("tensor")[-1], f"{grid['lower'][-1] * 1e3:.2f} ms"
([True, True, True, True], 'h200:8', 8, '8.10 ms')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from roofline.bounds.sweep import stopped
from roofline.errors import HardwareError, InputError, SizeError, suggest
from roofline.formulas.compiled import Evaluated
from roofline.formulas.tables import Columns, integers, stacked
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level
from roofline.models.closed_form import ALL_PHASES, step_function
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.serving.step import PHASES
from roofline.sizes import Codes, check

#: Columns that a sweep of steps may have, beside ``time.<resource>`` and ``memory.<part>``.
COLUMNS = ("lower", "op_by_op", "upper", "bound_by", "flops", "bytes", "memory", "fits", "intensity", "utilisation")

#: Columns where the caller names none.
USUAL = ("lower", "upper", "bound_by", "memory", "fits")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepSweep(Columns):
    """A table of steps: choices first, then sizes, then the columns asked for.

    A choice that is not possible, such as more chips than there are, has NaN in its rows; ``incomplete`` counts them.
    """

    model: Model
    phase: str
    columns: Mapping[str, Any]
    sizes: tuple[str, ...]
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of sizes."""
        return self.sizes

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/step-sweep/1``): equal-length lists."""
        return {
            "schema": "roofline/step-sweep/1",
            "model": self.model.name,
            "phase": self.phase,
            "columns": {name: self.plain(name) for name in self.columns},
            "incomplete": list(self.incomplete),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        return f"StepSweep of {len(self)} rows, {self.model.name} {self.phase}: {', '.join(self.columns)}"


def sweep_steps(
    model: Model | str,
    phase: str = "decode",
    *,
    on: str | Machine | Sequence[str | Machine],
    columns: str | Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> StepSweep:
    """Evaluate a step for every combination of what is listed: chips, layouts, formats, and sizes.

    ``options`` are those of a step (:func:`roofline.models.serve_bound`, :func:`roofline.models.train`); each may be a
    list. ``columns`` are some of :data:`COLUMNS`. ``progress`` is told of the rows that are done and of all.
    """
    described = load(model)
    if phase not in ALL_PHASES:
        raise InputError(f"no phase {phase!r}", hint=suggest(str(phase), ALL_PHASES, what="phases"))
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns or USUAL)
    unknown = next((n for n in names if n not in COLUMNS and not n.startswith(("time.", "memory."))), None)
    if unknown is not None:
        raise InputError(f"no column {unknown!r}", hint=suggest(unknown, COLUMNS, what="columns"))
    every = ("batch_tokens", "sequence") if phase == "train" else ("batch", *PHASES[phase].sizes)
    axes = {name: _axis(name, options.pop(name)) for name in every if options.get(name) is not None}
    needed = ("batch_tokens",) if phase == "train" else PHASES[phase].required
    missing = next((name for name in needed if name not in axes), None)
    if missing is not None:
        raise SizeError(f"size {missing} has no value", hint=f"a table needs numbers, as in {missing}=1024")
    if phase != "train":
        axes = {"batch": axes.get("batch", _axis("batch", 1)), **axes}
    chips = list(on) if isinstance(on, list | tuple) else [on]
    choices = {"on": chips, **{name: values for name, values in options.items() if _is_choice(name, values)}}
    fixed = {name: value for name, value in options.items() if name not in choices}
    return _Table(described, phase, choices, fixed, axes, names, progress).sweep()


def _axis(name: str, value: Any) -> Any:
    import numpy as np

    least = 0 if name in ("past", "context") else 1
    values = np.atleast_1d(np.asarray(value, dtype=np.float64)).reshape(-1)
    return integers(check(name, values + 1) - 1 if not least else check(name, values))


def _is_choice(name: str, value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and name not in ("files", "skew", "tile", "image_size")


class _Table:
    """A table in the making: one choice after the other, each over the whole grid of sizes."""

    def __init__(
        self, model: Model, phase: str, choices: dict[str, Any], fixed: dict[str, Any], axes: dict[str, Any],
        names: list[str], progress: Callable[[int, int], None] | None,
    ) -> None:  # fmt: skip
        self.model, self.phase, self.choices, self.fixed = model, phase, choices, fixed
        self.axes, self.names, self.progress = axes, names, progress
        self.shape = tuple(len(values) for values in axes.values())
        self.grid = 1
        for size in self.shape:
            self.grid *= size
        self.found: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []
        self.reasons: dict[str, int] = {}

    def sweep(self) -> StepSweep:
        """Evaluate every choice; what is done when it is stopped is kept."""
        every = list(product(*self.choices.values()))
        try:
            for choice in every:
                self.found.append((choice, self._columns(dict(zip(self.choices, choice, strict=True)))))
                if self.progress is not None:
                    self.progress(len(self.found) * self.grid, len(every) * self.grid)
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.reasons[stopped(len(self.found) * self.grid, len(every) * self.grid)] = 0
        if all(columns is None for _, columns in self.found):
            raise InputError(next(iter(self.reasons)))
        said = tuple(f"{rows:,} rows are left out: {why}" if rows else why for why, rows in self.reasons.items())
        return StepSweep(self.model, self.phase, self._joined(), tuple(self.axes), said)

    def _columns(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        """The columns of one choice; None where it is not possible."""
        machine = choice["on"]
        across = {
            name: values.reshape([-1 if i == n else 1 for i in range(len(self.axes))])
            for n, (name, values) in enumerate(self.axes.items())
        }
        try:
            sizes = dict.fromkeys(self.axes, 1)
            function = step_function(self.model, self.phase, **{**self.fixed, **choice, **sizes})
        except (HardwareError, SizeError) as error:
            if len(self.choices) == 1 and len(self.choices["on"]) == 1:
                raise
            self._left_out(f"{_named(choice)}: {error}", self.grid)
            return None
        names = [name for name in self.names if name != "fits" and name in function.columns]
        found = function.evaluate(across, tuple(names))
        self.reasons.update(dict.fromkeys(function.incomplete, 0))
        for reason, count in found.invalid.items():
            self._left_out(reason, count)
        columns = {name: found.whole_column(name) for name in names}
        if "fits" in self.names:
            columns["fits"] = _fits(found, machine, self.fixed)
        return columns

    def _left_out(self, reason: str, rows: int) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + rows

    def _joined(self) -> dict[str, Any]:
        """All rows: choices and sizes, then every column that one of the choices has."""
        import numpy as np

        table: dict[str, Any] = {}
        for place, name in enumerate(self.choices):
            values = [choice[place] for choice, _ in self.found]
            if len(self.choices[name]) > 1 or name != "on":
                table[name] = _repeated(values, self.grid)
        for n, (name, values) in enumerate(self.axes.items()):
            across = values.reshape([-1 if i == n else 1 for i in range(len(self.axes))])
            table[name] = np.tile(np.broadcast_to(across, self.shape).reshape(-1), len(self.found))
        for name in self.names:
            parts = [None if columns is None else columns.get(name) for _, columns in self.found]
            table[name] = stacked(parts, [self.grid] * len(parts))
        return table


def _fits(found: Evaluated, on: str | Machine, fixed: Mapping[str, Any]) -> Any:
    """Whether a step's memory is there, NaN where that is not known."""
    import numpy as np

    from roofline.bounds.api import target

    machine = target(on, **{name: fixed[name] for name in ("set", "files", "over") if name in fixed})
    capacity = data_level(machine).capacity
    memory = found["memory"]
    known = np.full(found.shape, np.nan) if capacity is None else (memory <= capacity.value).astype(np.float64)
    return known == 1 if not np.isnan(known + memory).any() else np.where(np.isnan(memory), np.nan, known)


def _repeated(values: Sequence[Any], times: int) -> Any:
    """A choice in each of its rows: numbers, or the names of others as codes."""
    import numpy as np

    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return np.repeat(np.asarray(values), times)
    names = [value.target if isinstance(value, Machine) else str(value) for value in values]
    unique = list(dict.fromkeys(names))
    return Codes(np.repeat(np.asarray([unique.index(name) for name in names], np.int32), times), tuple(unique))


def _named(choice: Mapping[str, Any]) -> str:
    words = (f"{name} {value.target if isinstance(value, Machine) else value}" for name, value in choice.items())
    return ", ".join(words)
