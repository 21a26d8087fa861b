"""Sweeps over steps of a model: every chip, layout and format that is listed, with every size, as one table.

Each choice of chip, layout and formats is compiled once, and evaluated over the grid of all sizes.

>>> grid = sweep_steps("llama-3-70b", on=["h100:8", "h200:8"], tensor=[4, 8], batch=[1, 64], context=[1024, 8192])
>>> len(grid), list(grid)
(16, ['on', 'tensor', 'batch', 'context', 'lower', 'upper', 'bound_by', 'memory', 'fits'])
>>> grid.plain("fits")[:4], grid["on"][-1], grid.plain("tensor")[-1], f"{grid['lower'][-1] * 1e3:.2f} ms"
([True, True, True, True], 'h200:8', 8, '8.10 ms')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from typing import Any

import numpy as np

from roofline.answers import FORMATS, attributes, estimable, figures_of, machines_in, price_of_each
from roofline.bounds.api import target
from roofline.bounds.bound import Bound
from roofline.bounds.cost import COST, MILLION, chip_hours
from roofline.bounds.sweep import column_hint, forms_behind
from roofline.bounds.sweep import sweep as sweep_line
from roofline.counts import FROM_ZERO
from roofline.errors import HardwareError, InputError, SizeError
from roofline.formulas.compiled import Compiled, Evaluated
from roofline.formulas.tables import (
    YES_NO,
    Columns,
    asked_by_name,
    fastest_said,
    in_one_cell,
    integers,
    not_ranked_said,
)
from roofline.frozen import dataclass, field, replace
from roofline.grids.answer import RUN_WORDS, GridRun, reduce_grid
from roofline.grids.blocks import BlockTable, Told
from roofline.grids.reductions import columns_to_keep
from roofline.hardware.figures import hourly_price, told_apart
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level
from roofline.meanings import LISTS, meant, unknown_argument
from roofline.models.closed_form import (
    OF_TRAINING,
    PARTED,
    TRAINING_SIZES,
    fill_in,
    refuse_arrays,
    step_columns,
    step_function,
)
from roofline.models.config import is_model, load_each
from roofline.models.description import Model
from roofline.models.idle import refuse_algorithm, refuse_idle_of_step
from roofline.models.operations import check_options
from roofline.models.parallelism.layout import Parallelism, chips_in_all, refuse_more
from roofline.models.serving import serve_bound, step_bound
from roofline.models.serving.step import PHASES, check_phase, stored_formats
from roofline.models.training.answer import Training
from roofline.models.training.question import microbatches_that_fit, parts_that_fit
from roofline.models.training.step import train as train_step
from roofline.models.training.step import training_question
from roofline.progress import stopped
from roofline.quantity import format_count, format_number, format_quantity, given_amount, in_a_row
from roofline.sections import BLANK, Headline, Row, Section, Sentences, Table
from roofline.signatures import call, listed_names, optional, spelled, takes
from roofline.sizes import Codes, array_of, check, is_symbol, symbol
from roofline.statements import untimed_apart, without

#: The most choices of which the cheapest row is shown.
MOST_CHEAPEST = 12

#: At most so many rows of a choice are priced as arrays: to compile its closed form takes longer.
FEW_ROWS = 1024

#: Columns that follow from the time of a step, under the names that an answer of ``llm`` has them by.
OF_TIME = (
    "throughput", "time_per_token", "tokens_per_second", "tokens_per_second_per_user", "tokens_per_second_per_chip",
    COST,
)  # fmt: skip

#: Columns that a sweep of steps may have, beside ``time.<resource>`` and ``memory.<part>``.
COLUMNS = (
    "lower", "op_by_op", "upper", "bound_by", "flops", "bytes", "memory", "fits", "within", "intensity", "utilisation",
    *OF_TIME,
)  # fmt: skip

#: Columns that follow from others.
DERIVED = {"fits": ("memory",), "within": ("lower",), **dict.fromkeys(OF_TIME, ("lower",)), COST: ("lower", "memory")}

#: Columns of steps that run: beside them stands which rows do not fit. A cost has no value there.
OF_RUNS = frozenset({"lower", "op_by_op", "upper", "within", "utilisation", *OF_TIME} - {COST})

#: The chips that a row's layout takes, where targets without a number of their own take different ones.
CHIPS = "chips"

#: Parts that a training step is done in, where nobody gave their number: one, or as many as :func:`train` takes.
PARTS = "microbatches"

#: What of a step may be a list here, and is one value there.
_LISTED = optional(
    price="float | str | Sequence | Mapping", checkpoint="str | int | Sequence[str]", microbatches="Size",
    **dict.fromkeys(("tpot", "ttft"), "float | str"),
    **dict.fromkeys(("fsdp", "zero", "lora", "adapters", "kv_block", "host_layers"), "int | Sequence[int]"),
    **dict.fromkeys((*FORMATS, "gradients", "moments", "saved_activations"), "str | Sequence[str]"),
)  # fmt: skip

#: The limit that the time of a step may have: of each phase its own.
LIMITS = {"decode": "tpot", "prefill": "ttft"}

#: Sizes whose product is the tokens of a step.
TOKENS = {"decode": ("batch",), "prefill": ("batch", "prompt"), "train": ("batch_tokens",)}

#: Columns where the caller names none.
USUAL = ("lower", "upper", "bound_by", "memory", "fits")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepSweep(Columns):
    """A table of steps: choices first, then sizes, then the columns asked for.

    ``untimed`` says what is not timed of each choice, where that is not the same of all: its rows are not ranked.
    ``chips`` is a column where targets without a number of chips take different ones. A choice that is not possible,
    such as more chips than there are, has NaN in its rows; ``incomplete`` counts them.
    Of each choice there are ``rows_of_a_choice``, one after the other; ``impossible`` are the numbers of those that are
    not possible. ``notes`` say how many rows do not run, or have no cost for another reason than the limit, and why.
    ``limit`` is the longest time of a step in seconds, where one was given. ``by_expected``: costs and the
    limit are by what to expect, not by floors. Of several models, which ``asked`` has, ``model`` is the first.
    """

    model: Model
    phase: str
    columns: Mapping[str, Any]
    sizes: tuple[str, ...]
    incomplete: tuple[str, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    rows_of_a_choice: int = 1
    impossible: tuple[int, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    untimed: tuple[tuple[str, ...], ...] = ()
    limit: float | None = None
    by_expected: bool = False

    INSTEAD = asked_by_name(
        COLUMNS,
        {
            "within": "a limit adds it: tpot='30ms' of decode, ttft='1s' of prefill",
            COST: "price=2.5 adds it: dollars of one chip for an hour",
            "time.": "columns='time.hbm' asks for the time of a resource",
            "memory.": "columns='memory.kv' asks for a part of the memory",
        },
    )

    def with_expected(self, columns: dict[str, Any]) -> StepSweep:
        """The table with the columns of what to expect. Limits, costs and with them the cheapest row are by it where it
        is known of all rows; else all stay by floors, as a floor and what to expect do not compare.
        """
        lower, expected = columns.get("lower"), columns["expected"]
        named = [*["costs"] * (COST in columns), *["the limit"] * ("within" in columns)]
        are = f"{in_a_row(named)} {'is' if named == ['the limit'] else 'are'}"
        if lower is None or np.isnan(expected[~np.isnan(lower)]).any():
            why = "what to expect is not known of all rows" if lower is not None else "there is no column lower"
            notes = (("assumes", f"{are} by floors, as {why}"),)
            return replace(self, columns=columns, notes=self.notes + notes * bool(named))
        late = expected > (np.inf if self.limit is None else self.limit)
        if "within" in columns:
            columns["within"] = np.where(late, 0.0, columns["within"])
        if COST in columns:
            columns[COST] = np.where(late, np.nan, columns[COST] * expected / lower)
        notes = (("assumes", f"{are} by the times to expect"),)
        return replace(self, columns=columns, notes=self.notes + notes * bool(named), by_expected=True)

    def _late_said(self) -> list[tuple[str, str]]:
        """How many rows that fit have no cost, as they take longer than the limit."""
        if COST not in self.columns or self.limit is None:
            return []
        late = int(((self["within"] == 0) & (self["fits"] != 0 if "fits" in self.columns else True)).sum())
        takes = "expected to take longer" if self.by_expected else "takes longer at best"
        said = f"{late:,} of {len(self):,} rows: {takes} than the limit of {format_quantity(self.limit, 's')}"
        return [("no cost", said)] * bool(late)

    def is_possible(self, index: int) -> bool:
        """Whether the choice of a row is possible, and its step has a time where the table has times."""
        index = self.row_number(index)
        time = self["lower"][index] if "lower" in self.columns else 0.0
        return bool(time == time) and index // self.rows_of_a_choice not in self.impossible

    def row(self, index: int) -> Bound | Training:
        """Answer one row afresh, with every detail: a step of serving, or of training.

        >>> grid = sweep_steps("llama-3-70b", on=["h100:8", "h200:8"], tensor=8, batch=[1, 64], context=8192)
        >>> grid.row(3)
        <Bound: 8.1 ms at best, 9.98 ms at worst on NVIDIA H200 SXM, memory-bound (hbm)>
        """
        asked = {"model": self.model, **self.asked_in(index)}
        if self.phase == "train":
            found = training_question(**asked).answer()
            parts = microbatches_that_fit(found)
            return found if parts is None else found.question.vary(microbatches=parts).answer()
        return step_bound(phase=self.phase, **asked)

    def asked_in(self, index: int) -> dict[str, Any]:
        """The choices and sizes of one row, as a step takes them.

        >>> sweep_steps("llama-3-8b", on="h100", kv=["bf16", "fp8"], batch=8, context=[64, 512]).asked_in(-1)
        {'on': 'h100', 'kv': 'fp8', 'batch': 8, 'context': 512}
        """
        index = self.row_number(index)
        several = {name: values for name, values in self.asked.items() if _is_choice(name, values)}
        single = {name: value for name, value in self.asked.items() if name not in several}
        choices = list(product(*several.values()))
        choice = choices[index // self.rows_of_a_choice]
        sizes = {name: int(self[name][index]) for name in (*self.sizes, *[PARTS] * (PARTS in self.columns))}
        chosen = {**single, **dict(zip(several, choice, strict=True))}
        machines = several.get("on") or [chosen["on"]]
        return {**chosen, **figures_of(chosen["on"], machines, single), **sizes}

    @property
    def models(self) -> Sequence[Model]:
        """The models whose steps these are."""
        return list(self.asked.get("model", (self.model,)))

    @property
    def subject(self) -> str:
        """The models and the phase, as titles name them."""
        return f"{self._models_named} {self.phase}"

    @property
    def _models_named(self) -> str:
        return ", ".join(model.name for model in self.models)

    @property
    def _asked_in_all(self) -> dict[str, Any]:
        told = ((name, value) for name, value in self.asked.items() if isinstance(value, str | int | Machine))
        return {name: getattr(value, "name", value) for name, value in told if not isinstance(value, bool)}

    @property
    def cheapest(self) -> int | None:
        """The row that fits and is timed whole with the least cost of a token; None without a price or such a row.

        >>> grid = sweep_steps("llama-3-8b", on="h100", batch=[1, 64, 4096], context=8192, price=2.5)
        >>> grid.cheapest, grid.remarks()[0]
        (1, ('cheapest', '$0.2711 a million tokens (3.69M for a dollar): batch 64, context 8,192'))
        """
        cost = self._costs(partial=False)
        return None if np.isnan(cost).all() else int(np.nanargmin(cost))

    def _costs(self, partial: bool) -> Any:
        """The cost of each row that is timed in part alone, or whole; NaN of the others."""
        if COST not in self.columns:
            return np.array([np.nan])
        of_choice = np.array([bool(gaps) for gaps in self.untimed] or [False])
        is_partial = of_choice[np.arange(len(self)) // self.rows_of_a_choice] if self.untimed else of_choice
        return np.where(is_partial == partial, self[COST], np.nan)

    def _cheapest_said(self) -> list[tuple[str, str]]:
        """Which row is the cheapest."""
        at = self.cheapest
        if at is None:
            return []
        part = self._costs(partial=True)
        open_ = " of those timed whole" if (part < self[COST][at]).any() else ""
        before = list(self)[: list(self).index(self.sizes[-1]) + 1]
        row = {name: self[name][at] for name in before}
        named = ", ".join(f"{name} {v if isinstance(v, str) else format(v, ',')}" for name, v in row.items())
        cost = float(self[COST][at])
        tokens = f" ({format_count(int(MILLION / cost))} for a dollar)" if 0 < cost <= MILLION else ""
        return [("cheapest", f"${format_number(cost)} a million tokens{tokens}{open_}: {named}")]

    def first(self) -> Iterator[Section]:
        """Of several choices of chips, layouts and formats the cheapest row of each, the least first."""
        choices = self._choices
        if COST not in self.columns or not choices:
            return
        each, cost = self.rows_of_a_choice, self[COST]
        found = [cost[start : start + each] for start in range(0, len(self), each)]
        best = [n * each + int(np.nanargmin(some)) for n, some in enumerate(found) if not np.isnan(some).all()]
        best.sort(key=lambda at: (self.is_partial(at), cost[at]))
        if not 1 < len(best) <= MOST_CHEAPEST:
            return
        names = [name for name in self if name not in YES_NO]
        rows = [Row(cells) for cells in self.rows_at(best, names)]
        yield from (BLANK, Sentences(["the cheapest row of each"], indent=0))
        yield Table(self.columns_of(names), rows, "cheapest", indent=0, gap=4)

    @property
    def same_in_all(self) -> str:
        """What is the same in all rows, of the machine, the layout and the formats, in a phrase."""
        named = self._asked_in_all
        where = [_machines({"on": [self.asked["on"]]}, self.asked)["on"][0].of_chips] if named.pop("on", "") else []
        return ", ".join([*where, *(f"{name} {each}" for name, each in named.items())])

    @property
    def same(self) -> Mapping[str, Any]:
        """The model, the phase, and what of the machine, the layout and the formats is the same in all rows."""
        single = {name: value for name, value in self.asked.items() if not _is_choice(name, value)}
        stored = [stored_formats(model, single).items() for model in self.models]
        usual = {"tensor": 1, **dict(each for each in stored[0] if all(each in other for other in stored))}
        own = {name: in_one_cell(value) for name, value in single.items() if name == "set" or isinstance(value, float)}
        named = {"model": self.model.name, "phase": self.phase, "on": None, **usual, **self._asked_in_all, **own}
        return {name: value for name, value in named.items() if value is not None and name not in self.columns}

    @property
    def about(self) -> Headline:
        """The model and the phase, and what is the same in all rows."""
        where = self.same_in_all
        named = f"{', '.join(model.named for model in self.models)} {self.phase}"
        return Headline(named, f"on {where}" if "on" in self._asked_in_all else where)

    def remarks(self) -> list[tuple[str, str]]:
        """The cheapest row, the fastest choice at each size; what is assumed of formats, copies and the model."""
        said = without(self.assumptions, ("counting", "rates", "bytes", "plan", "collective"))
        choices = [*self._choices, *(name for name in self.sizes if name == PARTS)]
        over = [name for name in choices if name == "model"]  # each has its own fastest choice
        over += [name for name in self.sizes if name not in choices]
        fastest = fastest_said(self, [name for name in choices if name not in over], over)
        return [
            *not_ranked_said(self, self._choices),
            *self._cheapest_said(),
            *fastest,
            *self.notes,
            *self._late_said(),
            *(("assumes", line) for line in said),
            *Columns.remarks(self),
        ]

    @property
    def _choices(self) -> list[str]:
        """The columns of what is chosen: chips, layouts, formats."""
        names = list(self)
        return names[: names.index(self.sizes[0])]

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of sizes."""
        return (*self.sizes, PARTS) if PARTS in self.columns else self.sizes

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/step-sweep/1``): equal-length lists."""
        return {
            "schema": "roofline/step-sweep/1",
            "model": self._models_named,
            **attributes(self, "phase", "same"),
            "columns": self.plain_columns(),
            **attributes(self, "assumptions", "incomplete"),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        return f"StepSweep of {len(self)} rows, {self.subject}: {', '.join(self.columns)}"


@takes(_LISTED, sweep_line, serve_bound, TRAINING_SIZES)
def sweep(
    expression: Model | str | Sequence[Model | str] | None = None, phase: str = "decode", **arguments: Any
) -> Any:
    """Evaluate the grid of all combinations of what is listed: of a line as notation, or of a model by its name.

    Of a line the sizes are lists, ranges, arrays or formulas (:func:`roofline.bounds.sweep.sweep`); of a model, or
    several, the chips, layouts, formats and sizes of a step may be (:func:`sweep_steps`); ``count`` is ``causal`` or
    ``full``.

    >>> grid = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 512], D=8192, F="D")
    >>> grid["bound_by"].tolist()
    ['hbm', 'tensor']
    >>> sweep("llama-3-8b", on="h100", batch=range(1, 513), context=4096)
    <StepSweep of 512 rows, llama-3-8b decode: batch, context, lower, upper, bound_by, memory, fits>
    """
    arguments["on"] = machines_in(arguments.get("on"))
    slip = next((name for name in arguments if arguments["on"] is None and meant(name, ("on",))), None)
    if slip is not None:
        raise unknown_argument(slip, ("on",))
    if arguments.get("estimate") is True and any(arguments.get(word.name) is not None for word in RUN_WORDS):
        hint = "leave it out, or sweep in memory"
        raise InputError(f"{spelled('estimate', True)} is not worked out in blocks", hint=hint)
    raw = ("flops", "bytes", "intensity", "dtype")
    misplaced = InputError("model= names no size: what is swept stands first", hint="a model, or a list of several")
    if expression is None and "model" in arguments and all(arguments.get(name) is None for name in raw):
        raise misplaced
    if expression is not None and (not isinstance(expression, str) or is_model(expression)):
        if "model" in arguments:
            raise misplaced
        idle = next((name for name in raw if arguments.get(name) is not None), None)
        if idle is not None:
            raise InputError(f"{idle} is of raw work, and this sweeps steps of a model", hint="leave it out")
        described = load_each(expression)
        own = ("price", *LIMITS.values())
        for model in described:
            refuse_idle_of_step({name: each for name, each in arguments.items() if name not in own}, phase, model)
        return sweep_steps(described, phase, **arguments)
    if phase != "decode":
        raise InputError(f"{spelled('phase')} is of a model, and this is a line", hint="leave it out")
    for name in ("price", *LIMITS.values()):
        if arguments.pop(name, None) is not None:
            hint = f"{call('bound')} takes it, over arrays too" if name == "price" else "leave it out"
            raise InputError(f"{spelled(name)} is of the sweep of a model, and this is a line", hint=hint)
    return sweep_line(expression, **arguments)


@estimable
def sweep_steps(
    model: Model | str | Sequence[Model | str],
    phase: str = "decode",
    *,
    on: str | Machine | Sequence[str | Machine],
    columns: str | Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    price: Any = None,
    tpot: float | str | None = None,
    ttft: float | str | None = None,
    **options: Any,
) -> Any:
    """Evaluate a step for every combination of what is listed: models, chips, layouts, formats, and sizes.

    ``options`` are those of a step (:func:`roofline.models.serve_bound`, :func:`roofline.models.train`); each may be a
    list. A training step takes ``microbatches`` as :func:`roofline.train` does: where none are given, as many as fit.
    Decode without a ``context`` is after the 4,096 tokens that :func:`roofline.llm` takes, or as many as the model can.
    ``columns`` are some of :data:`COLUMNS`; ``throughput`` is tokens a second for each chip, ``memory`` bytes of one
    chip; where some of the times or rates are of steps that do not fit, ``fits`` stands beside them. ``price``, dollars
    of one chip for an hour (one of each machine, or ``"table"``), adds ``cost_per_million``, dollars of a million
    tokens where the step fits, and the cheapest row is named. ``tpot`` is the longest time a token of decoding may
    take, ``ttft`` that of a prefill: ``within`` says which rows do at best; no other is named or kept. With an
    ``estimate`` limits, costs and the rows that are named are by what to expect, where that is known of all rows.
    ``progress`` is told of the rows that are done and of all. The answer is a :class:`StepSweep`, or what was kept of
    the grid where ``keep``, ``out``, ``workers`` and the like are given, as in :func:`roofline.sweep`.

    >>> sizes = {"batch": range(1, 257), "context": 8192}
    >>> front = sweep_steps("llama-3-70b", on=["h100:8", "h200:8"], tensor=8, keep="front", **sizes)["front"]
    >>> len(front), front.plain("on")[-1], front.plain("batch")[-1], f"{front['throughput'][-1]:.0f} tokens/s a chip"
    (256, 'h200:8', 256, '1487 tokens/s a chip')
    >>> grid = sweep_steps("llama-3-8b", on="h100", batch=[1, 64, 128], context=8192, tpot="20 ms", price=2.5)
    >>> grid.plain("within"), grid.cheapest, dict(grid.remarks())["no cost"]
    ([True, False, False], 0, '1 of 3 rows: takes longer at best than the limit of 20 ms')
    """
    run = GridRun.taken_from(options, progress)
    models = load_each(model)
    check_options(options, train_step if phase == "train" else serve_bound)
    idle = next((name for name in ("overlap", "overhead") if options.get(name) is not None), None)
    if idle is not None:
        one = call("llm", "MODEL", **{idle: "…"})
        hint = f"{spelled('estimate', True)} adds columns of what to expect, and {one} says it of one step"
        raise InputError(f"{spelled(idle)} makes an estimate, and a table of steps has no column of it", hint=hint)
    check_phase(phase, "train")
    shown = (*USUAL, "throughput") if run is not None and phase in TOKENS else USUAL
    limit = _time_limit(phase, {"tpot": tpot, "ttft": ttft})
    shown = shown if price is None else (*shown, COST)
    names = listed_names(columns if isinstance(columns, str) else columns or shown)
    names += ["within"] * (limit is not None and "within" not in names)
    kept = [] if run is None else columns_to_keep(run.keep)
    names += [n for n in kept if n not in names and (n in COLUMNS or n.startswith(("time.", "memory.")))]
    _check_of_time(names, phase, price, limit)
    unknown = next((n for n in names if n not in COLUMNS and not n.startswith(("time.", "memory."))), None)
    if unknown is not None:
        raise _no_column(unknown, (*COLUMNS, "time.hbm", "memory.kv"))
    every = ("batch_tokens", "sequence") if phase == "train" else ("batch", *PHASES[phase].sizes)
    axes = {name: _axis(name, options.pop(name)) for name in every if options.get(name) is not None}
    if phase == "decode" and limit is not None and "batch" not in axes:
        hint = f"several are judged one by one, as in {spelled('batch', '1:256:*2')}"
        raise SizeError(f"{spelled('tpot')} is a limit of a batch, and none is given", hint=hint)
    if phase == "train" and "sequence" not in axes:
        usual = OF_TRAINING["sequence"]
        axes["sequence"] = _axis("sequence", min(usual, *(each.context or usual for each in models)))
    if phase == "decode" and "context" not in axes:
        axes["context"] = _axis("context", min(each.usual_length for each in models))
    needed = ("batch_tokens",) if phase == "train" else PHASES[phase].required
    missing = next((name for name in needed if name not in axes), None)
    if missing is not None:
        raise SizeError(f"size {missing} has no value", hint=f"a table needs numbers, as in {spelled(missing, 1024)}")
    if phase != "train":
        axes = {"batch": axes.get("batch", _axis("batch", 1)), **axes}
    chips = list(on) if isinstance(on, list | tuple) else [on]
    several = {"model": models} if len(models) > 1 else {}
    choices = {"on": chips, **several, **{name: each for name, each in options.items() if _is_choice(name, each)}}
    fixed = {name: value for name, value in options.items() if name not in choices}
    listed = [name for name, values in choices.items() if len(values) > 1]
    hint = "each is a formula of its own; give fewer, or some in one sweep and some in another"
    refuse_more(prod(map(len, choices.values())), listed, "choices", hint=hint)
    refuse_arrays(fixed)
    if phase == "train":
        refuse_algorithm(options, [machine.shape for machine in _machines(choices, fixed)["on"]])
    prices = price_of_each(price, chips)
    if any(map(is_symbol, prices)):
        raise InputError(f"price is {price}, and a table needs numbers", hint=f"as in {spelled('price', 2.5)}")
    table = StepTable(models[0], phase, choices, fixed, axes, names, prices, limit)
    _check_parts(table, [name for name in names if "." in name])
    if run is None:
        return table.in_memory(progress)
    question = {
        **({} if several else {"model": models[0]}),
        "phase": phase,
        "choices": _machines(choices, fixed),
        "fixed": fixed,
        "columns": names,
        **({} if price is None else {"price": price}),
        **({} if limit is None else {"limit": limit}),
    }
    front = tuple(name for name in ("lower", "throughput") if name in names)
    return reduce_grid(table, f"{', '.join(each.name for each in models)} {phase}", question, run, front or ("lower",))


def _check_parts(table: StepTable, parts: Sequence[str]) -> None:
    """Refuse a part of times or of memory that no choice has."""
    known: dict[str, None] = {}
    for number in range(table.choices if parts else 0):
        with suppress(*table.leave_out):  # its rows are left out
            known |= dict.fromkeys(table.function(number).columns)
        if known.keys() >= {*parts}:
            return
    unknown = next((name for name in parts if known and name not in known), None)
    if unknown is not None:
        raise _no_column(unknown, [name for name in known if "." in name])


def _no_column(name: str, known: Sequence[str]) -> InputError:
    return InputError(f"no column {name!r}", hint=column_hint(name, known))


def _time_limit(phase: str, given: Mapping[str, Any]) -> float | None:
    """The longest time that a step may take; that of another phase is refused."""
    for name, value in given.items():
        if value is not None and LIMITS.get(phase) != name:
            own = next(each for each, limit in LIMITS.items() if limit == name)
            raise InputError(f"{spelled(name)} is a limit of {own}, and this is {phase}", hint="leave it out")
    found = next(((name, value) for name, value in given.items() if value is not None), None)
    return None if found is None else given_amount(*found)


def _check_of_time(names: Sequence[str], phase: str, price: Any, limit: float | None) -> None:
    """Refuse rates of steps that make no tokens, a cost without a price, and whether steps keep to no limit."""
    rate = next((name for name in names if name in OF_TIME), None)
    if rate is not None and phase not in TOKENS:
        raise InputError(f"no {rate}: a table of {phase} steps counts no tokens", hint=f"of {', '.join(TOKENS)}")
    user = next((name for name in names if name in ("time_per_token", "tokens_per_second_per_user")), None)
    if user is not None and phase != "decode":
        raise InputError(f"{user} is of decode, and this is {phase}", hint="lower is the time of a step")
    if COST in names and price is None:
        raise InputError(f"{COST} needs the price of a chip", hint=f"give {spelled('price', 2.5)}, dollars an hour")
    if "within" in names and limit is None:
        raise InputError("within needs a limit", hint=f"as in {spelled('tpot', '30ms')} of decode")


def _machines(choices: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Choices with machines in place of their names, so that their figures are part of the question."""
    given = {name: fixed[name] for name in ("set", "files", "over") if name in fixed}
    named = choices["on"]
    return {**choices, "on": [target(each, **{**given, **figures_of(each, named, given)}) for each in named]}


def _axis(name: str, value: Any) -> Any:
    values = np.atleast_1d(array_of(name, value)).reshape(-1)
    return integers(check(name, values, least=0 if name in FROM_ZERO else 1))


def _is_choice(name: str, value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and name not in LISTS


class StepTable(BlockTable):
    """The grid of a step: choices of chips, layouts and formats, each a formula over all sizes."""

    leave_out = (HardwareError, SizeError)

    def __init__(
        self, model: Model, phase: str, picks: dict[str, Any], fixed: dict[str, Any], axes: dict[str, Any],
        columns: list[str], prices: Sequence[Any] = (None,), limit: float | None = None,
    ) -> None:  # fmt: skip
        self.limit = limit
        self.model, self.phase, self.picks, self.fixed = model, phase, picks, fixed
        self.prices = dict(zip(picks["on"], prices, strict=False))
        self.every = list(product(*picks.values()))
        self.choices = len(self.every)
        splits = phase == "train" and all(map(self._splits, range(self.choices)))
        self.axes, self.columns = axes, [*[PARTS] * splits, *columns]
        self._by_arrays = False
        self._functions: dict[int, Compiled] = {}
        self._machines: dict[int, Machine] = {}
        self._copies: dict[int, Any] = {}
        self._noted, self._left_out = Counter[tuple[str, str]](), Counter[str]()
        self._gaps: dict[int, Sequence[str]] = {}
        self._chips_of_each = self._differing_chips()
        self.names = (*self._shown, *[CHIPS] * bool(self._chips_of_each), *axes, *self.columns)

    @property
    def questions(self) -> tuple[str, ...]:
        """Sizes of what is asked that have several values: all but the batch, which is chosen."""
        return tuple(name for name, values in self.axes.items() if len(values) > 1 and not name.startswith("batch"))

    @property
    def _shown(self) -> list[str]:
        """The choices that are columns: those of several values, and all that are listed."""
        return [name for name, values in self.picks.items() if len(values) > 1 or name != "on"]

    def _differing_chips(self) -> list[int]:
        """The chips of each choice, where targets without a number take those of the layout and that differs."""
        several = len(self.picks["on"]) > 1 and self.phase != "train"
        if not several or all(self._machine(number).shape for number in range(self.choices)):
            return []
        found = []
        for number in range(self.choices):
            try:
                found.append(self._chips(number))
            except (HardwareError, SizeError):  # its rows are left out
                found.append(0)
        return found if len({*found} - {0}) > 1 else []

    def choice(self, number: int) -> dict[str, Any]:
        """A choice by its number."""
        return dict(zip(self.picks, self.every[number], strict=True))

    def _asked(self, number: int) -> dict[str, Any]:
        """What a step of a choice is asked with: the choice, what is the same in all, and its machine's own figures."""
        choice = self.choice(number)
        return {"model": self.model, **self.fixed, **choice, **figures_of(choice["on"], self.picks["on"], self.fixed)}

    def _splits(self, number: int) -> bool:
        """Whether a choice is a training step in one part or more, as fits, since nobody gave their number."""
        asked = self._asked(number)
        given = asked.get(PARTS) is not None
        return self.phase == "train" and not given and asked.get("pipeline") in (None, 1)

    def function(self, number: int) -> Compiled:
        """The formula of a choice; raises where it is not possible."""
        if number in self._functions:
            return self._functions[number]
        sizes: dict[str, Any] = dict.fromkeys(self.axes, 1)
        if self._splits(number):
            sizes[PARTS] = symbol(PARTS, exact=True)
        return step_function(phase=self.phase, **{**self._asked(number), **sizes})

    def prepared(self, choice: int, groups: Sequence[Sequence[str]] = ()) -> Compiled | Evaluated:
        """The formula of a choice, with groups of columns compiled; or its few rows, priced as arrays."""
        try:
            if self._by_arrays:
                across = self._across([(0, size) for size in self.shape])
                asked = self._asked(choice)
                rows = step_columns(asked.pop("model"), self.phase, across, asked)
                self._functions[choice] = rows.function
                return rows
            function = self.function(choice)
        except self.leave_out as error:
            if self.choices == 1:
                raise
            raise type(error)(f"{_named(self.choice(choice))}: {error}") from None
        first = {name: values[:1] for name, values in self.axes.items()}
        for names in groups:
            self._over(function, choice, first, names)
        return function

    def evaluated(
        self, prepared: Any, choice: int, sizes: Mapping[str, Any], names: Sequence[str], told: Told = None
    ) -> Mapping[str, Any]:
        """Columns at sizes that broadcast; NaN where the choice is not possible."""
        if isinstance(prepared, str):
            shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))
            self._left_out[prepared] += prod(shape)
            return {
                name: Codes(np.zeros(shape, np.int16), ("",)) if name == "bound_by" else np.full(shape, np.nan)
                for name in names
            }  # fmt: skip
        found, sizes = self._over(prepared, choice, sizes, names)
        self._gaps[choice] = found.function.incomplete
        self._left_out.update({**dict.fromkeys(found.function.incomplete, 0), **found.invalid})
        return {name: self.column(found, name, choice, sizes) for name in names}

    def _over(
        self, function: Compiled | Evaluated, choice: int, sizes: Mapping[str, Any], names: Sequence[str]
    ) -> tuple[Evaluated, Mapping[str, Any]]:
        """The formula of a choice at sizes, and those sizes with the parts that a training step is done in."""
        if isinstance(function, Evaluated):
            return function, sizes
        if self._splits(choice):
            sizes = {**sizes, PARTS: self._parts(function, choice, sizes)}
        forms = forms_behind(function, names, DERIVED)
        # nothing of a model in outline follows from its context
        known = {name: values for name, values in sizes.items() if name in function.sizes}
        found = function.evaluate(known, forms or None)
        asked = self._asked(choice)
        fill_in(found, forms, asked.pop("model"), self.phase, asked)
        return found, sizes

    def _parts(self, function: Compiled, choice: int, sizes: Mapping[str, Any]) -> Any:
        """Microbatches of each step: one, or where that does not fit the first of 2, 4, 8 … with which it does."""

        def fitting(parts: Any) -> Any:
            found = function.evaluate({**sizes, PARTS: parts}, ("memory",))
            return _fits(found, self._machine(choice))

        shape = np.broadcast_shapes(*(np.shape(value) for value in sizes.values()))
        return parts_that_fit(fitting, self._sequences(choice, sizes), shape)

    def _sequences(self, choice: int, sizes: Mapping[str, Any]) -> Any:
        """Sequences of each copy of the model in a training step."""
        if choice not in self._copies:
            first = {name: int(values[0]) for name, values in self.axes.items()}
            self._copies[choice] = training_question(**{**self._asked(choice), **first}).answer().copies
        return sizes["batch_tokens"] / sizes["sequence"] / self._copies[choice]

    def column(self, found: Evaluated, name: str, choice: int, sizes: Mapping[str, Any]) -> Any:
        """One column of a choice; NaN where it has none of that name."""
        if name == PARTS:
            return sizes[PARTS]
        if name == "fits":
            fits = _fits(found, self._machine(choice))
            parts = sizes.get(PARTS, self.choice(choice).get(PARTS, self.fixed.get(PARTS)))
            if self.phase != "train" or parts is None:
                return fits
            is_whole = np.broadcast_to(self._sequences(choice, sizes) >= parts, np.shape(fits))
            self._noted["does not run", PARTED] += int((~is_whole).sum())
            return np.where(np.isnan(fits), np.nan, (fits == 1) & is_whole)
        if name == "within":
            return np.where(np.isnan(found["lower"]), np.nan, found["lower"] <= self.limit)
        if name in OF_TIME:
            return self._of_time(found, name, choice, sizes)
        return found.whole_column(name) if name in found.function.columns else np.full(found.shape, np.nan)

    def _of_time(self, found: Evaluated, name: str, choice: int, sizes: Mapping[str, Any]) -> Any:
        """A time, a rate or a cost of tokens, from the time of a step."""
        made = prod(sizes[each] for each in TOKENS[self.phase]) / found["lower"]
        of_chip = made / self._chips(choice)
        if name == COST:
            machine = self._machine(choice)
            price = hourly_price(machine, self.prices[self.every[choice][0]])
            slow = False if self.limit is None else found["lower"] > self.limit
            lacking = {YES_NO["fits"]: _fits(found, machine) == 0, "": slow}  # the table says itself which are slow
            lacking[f"no price of {machine.key} is listed"] = price is None
            cost = chip_hours(1 / of_chip) * (np.nan if price is None else price)
            is_open = ~np.isnan(found["lower"])
            for why, rows in lacking.items():
                self._noted["no cost", why] += int((is_open & rows).sum())
                is_open = is_open & ~np.asarray(rows)
            return np.where(is_open, cost, np.nan)
        if name == "time_per_token":
            return found["lower"]
        whole = {"tokens_per_second": made, "tokens_per_second_per_user": 1 / found["lower"]}
        return whole.get(name, of_chip)

    def _chips(self, choice: int) -> int:
        """The chips of a choice: those of the target, or as many as its layout takes of a kind of chip."""
        machine = self._machine(choice)
        if machine.shape or self.phase == "train":
            return int(machine.chips)
        return chips_in_all(machine, self._asked(choice))

    def _machine(self, choice: int) -> Machine:
        if choice not in self._machines:
            named = self.picks["on"]
            self._machines[choice] = _machines(self.picks, self.fixed)["on"][named.index(self.every[choice][0])]
        return self._machines[choice]

    def remarks(self, prepared: Compiled, choice: int) -> dict[str, tuple[str, ...]]:
        """What is not timed."""
        return {"incomplete": tuple(prepared.incomplete)}

    def labels(self, choices: Any) -> dict[str, Any]:
        """Chips, layouts and formats of each row."""
        found, numbers = {}, np.asarray(choices)
        for name in self._shown:
            place = list(self.picks).index(name)
            values = _as_column([choice[place] for choice in self.every])
            found[name] = Codes(values.codes[numbers], values.names) if isinstance(values, Codes) else values[numbers]
        return found if not self._chips_of_each else {**found, CHIPS: np.asarray(self._chips_of_each)[numbers]}

    def in_memory(self, progress: Callable[[int, int], None] | None) -> StepSweep:
        """All rows of all choices that are possible; the others' are NaN."""
        self._noted, self._left_out, grid = Counter(), Counter(), prod(self.shape)
        self._by_arrays = self.phase != "train" and grid <= FEW_ROWS
        is_checked = "fits" not in self.columns and not OF_RUNS.isdisjoint(self.columns)
        self.names += ("fits",) * is_checked
        table, done, impossible = self.all_columns(progress)
        if is_checked and not (table["fits"] == 0).any():
            del table["fits"]
        possible = [number for number in range(-(-done // grid)) if number not in impossible]
        if not possible or sum(self._left_out.values()) == done:  # as of lines: a table without a figure is an error
            raise InputError(next(why for why, rows in self._left_out.items() if rows))
        have = {rows: "row has" if rows == 1 else "rows have" for rows in self._left_out.values()}
        said = [f"{rows:,} {have[rows]} no figures: {why}" if rows else why for why, rows in self._left_out.items()]
        said += [stopped(done, self.rows, "rows")] if done < self.rows else []
        notes = tuple(
            (name, f"{rows:,} of {done:,} rows: {why}") for (name, why), rows in self._noted.items() if why and rows
        )
        picked = {name: values[0] if len(values) == 1 else values for name, values in self.picks.items()}
        asked, axes, assumed = {**picked, **self.fixed}, tuple(self.axes), self._assumed(possible)
        several = possible if possible[1:] else ()
        apart = dict(zip(several, untimed_apart(self._gaps.get(number, ()) for number in several), strict=True))
        every = range(-(-done // grid)) if any(apart.values()) else ()
        untimed = tuple(tuple(apart.get(number, ())) for number in every)
        return StepSweep(
            self.model,
            self.phase,
            table,
            axes,
            tuple(said),
            asked,
            assumed,
            grid,
            impossible,
            notes,
            untimed,
            self.limit,
        )

    def _assumed(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """What the steps of all these choices assume, and of how many copies those with several are."""
        each = {number: self.function(number).assumptions for number in numbers}
        shared = [line for line in each[numbers[0]] if all(line in lines for lines in each.values())]
        serving = numbers if self.phase != "train" else ()
        ways = [Parallelism.of_options(self._machine(number), self._asked(number)) for number in serving]
        copies = dict.fromkeys(line for laid in ways for line in laid.notes if line not in shared)
        return (*shared, *(f"of some rows: {line}" for line in copies))


def _fits(found: Evaluated, machine: Machine) -> Any:
    """Whether a step's memory is there, NaN where that is not known."""
    capacity = data_level(machine).capacity
    if capacity is None:
        return np.full(found.shape, np.nan)
    memory = found["memory"]
    fits = memory <= capacity.value
    return np.where(np.isnan(memory), np.nan, fits) if found.invalid else fits


def _as_column(values: Sequence[Any]) -> Any:
    """A choice's values: numbers, or the names of others as codes."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return np.asarray(values)
    names = told_apart([each.name if isinstance(each, Model) else each for each in values])
    unique = list(dict.fromkeys(names))
    return Codes(np.asarray([unique.index(name) for name in names], np.int32), tuple(unique))


def _named(choice: Mapping[str, Any]) -> str:
    words = (f"{name} {getattr(value, 'target', getattr(value, 'name', value))}" for name, value in choice.items())
    return ", ".join(words)
