"""Latency against throughput: what each batch and number of chips gives, and which choices no other one beats.

>>> found = latency_throughput("llama-3-70b", on="h200", tensor=[4, 8], batch=[1, 8, 64, 512], context=8192)
>>> [(c.batch, c.tensor, round(c.tokens_per_second_per_chip), round(c.tokens_per_second_per_user)) for c in found.best]
[(1, 8, 34, 271), (8, 8, 239, 239), (64, 8, 988, 124), (64, 4, 988, 62)]
>>> found.said
('2 of 8 do not fit and are left out: the first, batch 512 on 4 chips, needs 379 GB of 141 GB',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from roofline import sections
from roofline.answers import Answer, attributes, machine_asked
from roofline.bounds.api import take_target_options, target
from roofline.bounds.bound import Bound
from roofline.bounds.cost import COST, DOLLARS, ENERGY, JOULES, chip_hours
from roofline.bounds.memory import Footprint
from roofline.errors import HardwareError, InputError, SizeError
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import with_chips
from roofline.models.description import Model
from roofline.models.parallelism.layout import MOST_LAYOUTS, chips_in_all, refuse_more
from roofline.models.parallelism.layout import pool as pooled
from roofline.models.parallelism.splitting import said_of_layouts
from roofline.models.serving.bound import serve_bound, step_bound
from roofline.models.serving.generation import EXPECTED, FORM_TEXT, check_form, time_in_form
from roofline.models.serving.layouts import largest, near_capacity
from roofline.models.serving.step import asked_model
from roofline.quantity import agree, format_amount, format_number, format_quantity, given_amount
from roofline.sections import BLANK, Amount, Column, Row, Sentences, Table, assumes, figures, incomplete
from roofline.signatures import takes
from roofline.sizes import Size, array_of, check, grouped, is_symbol
from roofline.statements import without

#: Rows of choices that are shown, and kinds of choices whose largest batch is said.
MOST_ROWS, MOST_HELD = 40, 8

#: A batch beyond any that memory holds.
FAR_BATCH = 1 << 20

SCHEMA = "roofline/llm-front/1"


@dataclass(frozen=True, slots=True)
class ServingChoice:
    """One configuration: ``batch`` sequences of ``context`` tokens on ``chips``, of which ``tensor`` split the model.

    ``time_per_token`` is a decode step in seconds; ``memory`` is of one chip, in bytes. ``best`` says that none of the
    others that fit is both faster for a user and makes more of a chip. Where the time is what to expect, ``at_best`` is
    the bound below it, ``low`` and ``high`` are the ends of its interval.
    """

    batch: int
    context: int
    tensor: int
    chips: int
    time_per_token: float
    bound_by: str
    memory: float
    fits: bool | None
    best: bool = False
    at_best: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def tokens_per_second_per_user(self) -> float:
        """Tokens a second that one sequence gets."""
        return 1 / self.time_per_token

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Tokens a second that one chip makes."""
        return self.batch / self.time_per_token / self.chips

    def to_dict(self) -> dict[str, Any]:
        """The choice as plain data in SI units."""
        rates = ("time_per_token", "tokens_per_second_per_user", "tokens_per_second_per_chip")
        expected = ("at_best", "low", "high") if self.at_best is not None else ()
        named = ("batch", "context", "tensor", "chips", *rates, *expected, "bound_by", "memory", "fits", "best")
        return attributes(self, *named)


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The most sequences of ``context`` tokens that ``chips`` hold, of which ``tensor`` split the model; 0: none."""

    context: int
    tensor: int
    chips: int
    batch: int

    def to_dict(self) -> dict[str, Any]:
        """It as plain data."""
        return attributes(self, "context", "tensor", "chips", "batch")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ParetoFront(Answer):
    """Every choice in the order asked for; ``best`` are those of the front, the fastest for a user first.

    ``most_time`` are the seconds a token may take at most, where that was asked for: :attr:`within` are the choices.
    ``price`` are the dollars of one chip for an hour, ``power`` its watts, where they are known. ``instead`` is what
    would fit where none of them does, ``alerts`` stand before all else. ``again`` asks the whole question at other
    batches, where they were sought.
    """

    model: Model
    machine: Machine
    form: str
    choices: tuple[ServingChoice, ...]
    capacity: float | None
    level: str
    assumptions: tuple[str, ...]
    incomplete: tuple[str, ...]
    most_time: float | None = None
    flips: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    price: float | None = None
    power: float | None = None
    largest: tuple[LargestBatch, ...] = ()
    instead: str | None = None
    again: Callable[..., Any] | None = None

    @property
    def within(self) -> tuple[ServingChoice, ...]:
        """For each context that has one, the choice that makes the most of a chip in :attr:`most_time` a token."""
        limit = self.most_time or 0.0
        quick = [choice for choice in self.fitting if choice.time_per_token <= limit]
        quick.sort(key=lambda choice: (choice.tokens_per_second_per_chip, -choice.time_per_token))
        most = {choice.context: choice for choice in quick}
        return tuple(most[context] for context in sorted(most))

    @property
    def best(self) -> tuple[ServingChoice, ...]:
        """The choices that no other beats, from the fastest for a user to the most tokens a chip."""
        return tuple(sorted((c for c in self.choices if c.best), key=lambda c: c.time_per_token))

    def cost_per_million(self, choice: ServingChoice) -> float | None:
        """Dollars of a million output tokens of a choice; None without a price, and where it does not fit."""
        if self.price is None or choice.fits is False:
            return None
        return float(self.price * chip_hours(1 / choice.tokens_per_second_per_chip))

    def joules_per_token(self, choice: ServingChoice) -> float | None:
        """Joules of an output token of a choice; None without a power, and where it does not fit."""
        if self.power is None or choice.fits is False:
            return None
        return self.power / choice.tokens_per_second_per_chip

    @property
    def fitting(self) -> tuple[ServingChoice, ...]:
        """The choices that fit, or whose memory nothing is known to hold."""
        return tuple(choice for choice in self.choices if choice.fits is not False)

    @property
    def said(self) -> tuple[str, ...]:
        """What has been left out, and why."""
        out = [choice for choice in self.choices if choice.fits is False]
        if not out or self.capacity is None:
            return ()
        first = min(out, key=lambda choice: (choice.chips, choice.memory))
        chips = "1 chip" if first.chips == 1 else f"{first.chips} chips"
        needs = f"needs {format_quantity(first.memory, 'B')} of {format_quantity(self.capacity, 'B')}"
        several = len({choice.tensor for choice in self.choices}) > len({choice.chips for choice in self.choices})
        split = f" at tensor {first.tensor}" if several else ""
        which = f"the first, batch {first.batch} on {chips}{split}, {needs}"
        if not self.fitting:
            return (f"DOES NOT FIT: none of them; {which}" + (f" · would fit: {self.instead}" if self.instead else ""),)
        return (f"{len(out):,} of {len(self.choices):,} {agree(len(out), 'do not fit and are left out')}: {which}",)

    @property
    def where(self) -> str:
        """The machine, and the number of chips that all choices have."""
        chips = {choice.chips for choice in self.choices}
        return self.machine.with_number(min(chips) if len(chips) == 1 else 1)

    def one_line(self) -> str:
        """How many choices there are, and how many no other beats."""
        count, best = len(self.choices), len(self.best)
        return f"ParetoFront of {self.model.name} on {self.machine.name}: {count} choices, {best} best"

    def sections(self) -> Iterator[sections.Section]:
        """One row a choice that fits, from the fastest for a user; those that no other beats are marked."""
        yield from (sections.Headline(self.model.named, f"on {self.where}"), BLANK)
        yield from sections.caveats((*self.incomplete, *self.assumptions))
        yield from [Sentences(self.alerts, "alert")] if self.alerts else []
        if not self.fitting:
            yield Sentences(self.said, "alert")
            yield Sentences([*self.flips, *self.lead])
            yield from (BLANK, assumes(without(self.assumptions, ("doubt",))), incomplete(self.incomplete))
            return
        contexts = {choice.context for choice in self.choices}
        after = f" after {contexts.pop():,} tokens" if len(contexts) == 1 else ""
        head = [f"decode{after}, {FORM_TEXT[self.form]}: tokens a second of each user and of each chip"]
        fitting = sorted(self.fitting, key=lambda choice: (choice.context, choice.time_per_token))
        table = self._table(fitting)
        if len(table.rows) < len(fitting):
            best = f"best: {len(self.best):,} of them, which no other beats in both rates"
            head.append(f"{len(table.rows)} of the {len(fitting):,} choices that fit are shown; {best}")
        left = self.said or (() if self.capacity is None else ("all of them fit",))
        yield from (Sentences([*self.lead, *self.flips, *self._held(), *left]), BLANK)
        yield Sentences(head)
        yield table
        yield from (BLANK, assumes(without(self.assumptions, ("doubt",))), incomplete(self.incomplete))

    def _table(self, fitting: Sequence[ServingChoice]) -> Table:
        varies = [name for name in ("context", "chips", "tensor") if len({getattr(c, name) for c in self.choices}) > 1]
        if "chips" in varies and "tensor" in varies:
            varies.remove("tensor")

        mark = "" if all(choice.best for choice in fitting) else "best"
        beside = {"low": "low", "high": "high", "at_best": "at best"} if self.form == EXPECTED else {}

        def row(choice: ServingChoice) -> Row:
            user, chip = choice.tokens_per_second_per_user, choice.tokens_per_second_per_chip
            priced, joules = self.cost_per_million(choice), self.joules_per_token(choice)
            cells: tuple[sections.Cell, ...] = (
                sections.YesNo(choice.best, mark, ""),
                *(Amount(size, "", f"{size:,}") for size in (getattr(choice, name) for name in ("batch", *varies))),
                Amount(user, "token/s", f"{format_number(user)}/s"),
                Amount(choice.time_per_token, "s"),
                *(Amount(time, "s") for time in (getattr(choice, name) for name in beside)),
                Amount(chip, "token/s", f"{format_number(chip)}/s"),
                choice.bound_by,
                Amount(choice.memory, "B"),
                *([] if priced is None else [Amount(priced, "USD", format_number(priced))]),
                *([] if joules is None else [Amount(joules, "J")]),
            )
            return Row(cells, "" if choice.best else "quiet")

        amounts = figures("batch", *varies, "each user", "TPOT", *beside.values(), "each chip", wrap="anywhere")
        binds = Column("bound by", wrap="anywhere")
        dollars = [] if self.price is None else [Column(DOLLARS, "right", meaning=COST)]
        energy = [] if self.power is None else [Column(ENERGY, "right", meaning=JOULES)]
        columns = (Column(meaning="best"), *amounts, binds, *figures("memory", wrap="anywhere"), *dollars, *energy)
        ends = {fitting.index(choice) for pair in self._ends().values() for choice in pair}
        rows = [row(fitting[index]) for index in sorted({*sections.spread(len(fitting), MOST_ROWS)} | ends)]
        return Table(columns, rows, "front", indent=0, every=lambda: [row(choice) for choice in fitting])

    def _held(self) -> list[str]:
        """The largest batch that memory holds, on each number of chips and after each number of tokens."""
        several = {name: len({getattr(each, name) for each in self.largest}) > 1 for name in LargestBatch.__slots__}
        said = []
        for each in self.largest[:MOST_HELD]:
            ways = f" with tensor {each.tensor}" if several["tensor"] else ""
            chips = f" on {each.chips:,} chip{'s' * (each.chips > 1)}" if several["chips"] else ways
            after = f" after {each.context:,} tokens" if several["context"] else ""
            said.append(f"{f'{each.batch:,}' if each.batch else 'none'}{chips}{after}")
        more = ["…"] if len(self.largest) > MOST_HELD else []
        held = any(each.batch for each in self.largest)
        return [f"memory holds batches up to {', '.join([*said, *more])}"] if held else []

    def _held_by_memory(self, choice: ServingChoice) -> str:
        """That memory holds no larger batch, and whether its size is the vendor's label, in whole GB."""
        named = (choice.context, choice.tensor, choice.batch)
        if self.capacity is None or named not in {(most.context, most.tensor, most.batch) for most in self.largest}:
            return ""
        label = ", the vendor's label: a driver may report more or less" * (self.capacity % 1e9 == 0)
        return f": memory holds no more, {format_amount(self.capacity, 'B')} of {self.level}{label}"

    def _ends(self) -> dict[int, tuple[ServingChoice, ServingChoice]]:
        """After each number of tokens the two ends of the front: the fastest, and what makes the most of a chip."""
        each = grouped((choice.context, choice) for choice in self.best)
        return {context: (each[context][0], each[context][-1]) for context in sorted(each)[:MOST_HELD]}

    @property
    def lead(self) -> list[str]:
        """What makes the most of a chip in the time that a token may take; without one, the two ends of the front."""
        if self.most_time is not None:
            return self._most_in_time()
        varies = {
            name: len({getattr(choice, name) for choice in self.choices}) > 1 for name in ("context", "chips", "tensor")
        }
        of_each = " of each chip" * varies["chips"]
        lines: dict[str, str] = {}
        for context, (first, last) in self._ends().items():
            after = f" after {context:,} tokens" * varies["context"]
            for what, choice in (("fastest", first), ("most tokens a second", last)):
                rate = choice.tokens_per_second_per_chip * (1 if of_each else choice.chips)
                named = f"batch {choice.batch:,}{f', tensor {choice.tensor}' * varies['tensor']}"
                made = f"{format_amount(choice.time_per_token, 's')} a token, {format_number(rate)} tokens/s{of_each}"
                said = f"{after}: {named}, {made}"
                lines[said] = f"{lines[said]} and {what}" if said in lines else what
        return [f"{what}{said}" for said, what in lines.items()]

    def _most_in_time(self) -> list[str]:
        """What makes the most of a chip in the time that a token may take."""
        limit = format_amount(self.most_time or 0.0, "s")
        lines = []
        for choice in self.within:
            chips = f" on {choice.chips:,} chips" if choice.chips > 1 else ""
            made = f"{format_number(choice.tokens_per_second_per_chip)} tokens/s of each chip"
            lines.append(
                f"in {limit} a token after {choice.context:,} tokens: batch {choice.batch:,}{chips}, {made}, "
                f"{format_amount(choice.time_per_token, 's')} a token{self._held_by_memory(choice)}"
            )
        fastest = min((choice.time_per_token for choice in self.fitting), default=None)
        least = "nothing fits" if fastest is None else f"the least is {format_amount(fastest, 's')}"
        return lines or [f"no choice takes {limit} a token or less: {least}"]

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/llm-front/1``)."""
        return {
            "schema": SCHEMA,
            "model": self.model.to_dict(),
            **machine_asked(self.machine),
            **attributes(self, "form", "capacity", "largest", "most_time", "within", "choices", "instead"),
            **({} if self.price is None else {COST: [self.cost_per_million(choice) for choice in self.choices]}),
            **({} if self.power is None else {JOULES: [self.joules_per_token(choice) for choice in self.choices]}),
            "left_out": list(self.said),
            **attributes(self, "assumptions", "incomplete"),
        }


def expected_front(front: ParetoFront, times: Mapping[tuple[int, int, int], Sequence[float]]) -> ParetoFront:
    """The front by what to expect: of each batch, context and number of tensor ways the time and its interval."""

    def of(choice: ServingChoice) -> ServingChoice:
        value, low, high = times[choice.batch, choice.context, choice.tensor]
        return replace(choice, time_per_token=value, at_best=choice.time_per_token, low=low, high=high)

    return replace(front, form=EXPECTED, choices=_marked([of(choice) for choice in front.choices]))


@takes(serve_bound, but=("chunk", "prompts", "last", "tokens", "prompt", "past", "logits", "images", "image_size"))
def latency_throughput(
    model: Model | str,
    *,
    on: str | Machine,
    batch: Size = 1,
    context: Size,
    tensor: int | Sequence[int] = 1,
    pool: int = 1,
    form: str = "lower",
    tpot: float | str | None = None,
    **options: Any,
) -> ParetoFront:
    """Decode with every ``batch`` (and ``context``, which broadcast) on every number of chips in ``tensor``.

    Where ``on`` has a shape, its chips run as many copies as a split leaves; else as many chips as split the model
    make one, and where ``expert`` is given they hold whole experts. ``batch`` is that of all chips. ``pool`` chips that
    share evenly over free links (:func:`roofline.models.pool`) stand in place of ``tensor``. ``form`` says which bound
    of a step is the time: ``lower``, ``op_by_op`` or ``upper``. ``tpot`` is the longest time a token of a user may take
    (``"20 ms"``, or seconds): the answer's ``within`` is what makes the most of a chip in it.

    >>> latency_throughput("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=[1, 16, 64, 256], context=8192,
    ...                    tpot="20 ms").within[0]
    ServingChoice(batch=64, context=8192, tensor=4, chips=4, ...)
    """
    described = asked_model(model, options, {"tensor": tensor})
    form = check_form(form, options)
    most_time = None if tpot is None else given_amount("tpot", tpot)
    if is_symbol(batch) or is_symbol(context):
        raise InputError("latency and throughput are of numbers", hint="give batch and context without open sizes")
    machine = target(on, **take_target_options(options))
    several = [check("tensor", ways) for ways in ([tensor] if isinstance(tensor, int | float) else tensor)]
    if not several:
        raise InputError("tensor is an empty list", hint="give at least one number of chips")
    refuse_more(len(several), ["tensor"], "layouts", MOST_LAYOUTS, hint="give fewer")
    if pool > 1 and several != [1]:
        raise InputError("a pool of chips is not split by tensor too", hint="give one of the two")
    choices: list[ServingChoice] = []
    answers, held = [], list[LargestBatch]()
    for ways in several:
        on_these = pooled(machine, pool) if pool > 1 else _sized(machine, ways, len(several) > 1)
        local: dict[str, Any] = {**options, "tensor": ways}
        if len(several) > 1 and not machine.shape and options.get("expert", 1) > 1:
            local["expert"] = ways
        step = partial(step_bound, described, "decode", on=on_these, **local)
        answer = step(batch=batch, context=context)
        answers.append(answer)
        rows = _rows(answer, ways, chips_in_all(answer.machine, local), form)
        choices += rows
        needed = answer.footprint
        if described.kv_memory == "main":
            held += _largest(rows, None if needed is None else needed.capacity, step)
    needed, last = answers[0].footprint, answers[several.index(max(several))]
    layouts = [{"tensor": ways} for ways in several]
    said, gaps = (said_of_layouts(layouts, [getattr(a, n) for a in answers]) for n in ("assumptions", "incomplete"))
    return ParetoFront(
        described, last.machine, form, _marked(choices), None if needed is None else needed.capacity,
        "" if needed is None else needed.level, tuple(without(said, ("fit",))), gaps, most_time,
        largest=tuple(held),
    )  # fmt: skip


def batches_in_time(model: Model, *, context: Size, tpot: float, **options: Any) -> Any:
    """Batches to choose from: the largest of each context and layout that fits and takes ``tpot`` a token, powers of 2.

    A step takes longer and more memory the larger its batch. What is known not to do and what does close in together.

    >>> from roofline.models import load
    >>> batches_in_time(load("llama-3-8b"), context=2048, tpot=0.02, on="a100").tolist()
    [1, 2, 4, 8, 16, 32, 64, 95]
    """
    contexts = np.unique(array_of("context", context))
    does: dict[tuple[int, int], int] = {}
    fails: dict[tuple[int, int], int] = {}
    powers = batches = 2 ** np.arange(FAR_BATCH.bit_length())
    while len(batches):
        many, after = (each.ravel() for each in np.meshgrid(batches, contexts))
        for choice in latency_throughput(model, batch=many, context=after, **options).choices:
            each = choice.context, choice.tensor
            if choice.fits is not False and choice.time_per_token <= tpot:
                does[each] = max(does.get(each, 0), choice.batch)
            else:
                fails[each] = min(fails.get(each, choice.batch), choice.batch)
        between = [np.linspace(does[each] + 1, fails[each] - 1, 32) for each in does if each in fails]
        between = [each.astype(np.int64) for each in between if each[0] <= each[-1]]
        batches = np.unique(np.concatenate(between)) if between else powers[:0]
    most = np.array([*does.values(), 1])
    return np.unique([*powers[powers <= most.max()], *most])


def _sized(machine: Machine, ways: int, several: bool) -> Machine:
    """So many chips of a kind; a target with a shape, or with one number of ways, as it was given."""
    if not several or machine.shape:
        return machine
    found = with_chips(machine, ways)
    if found is None:
        raise HardwareError(f"{machine.key} has no group of {ways} chips", hint="a number that a slice or node has")
    return found


def _largest(
    rows: Sequence[ServingChoice], capacity: float | None, step: Callable[..., Bound]
) -> Iterator[LargestBatch]:
    """The largest batch of each context that fits."""
    if capacity is None:
        return

    def most(context: int) -> int:
        def needed(batch: int) -> Footprint:
            found = step(batch=batch, context=context).footprint
            assert found is not None
            return found

        return largest(lambda batch: needed(batch).total <= capacity, near_capacity(needed, capacity, 1, FAR_BATCH))

    for context in sorted({row.context for row in rows}):
        with suppress(SizeError):  # nothing grows with the batch
            yield LargestBatch(context, rows[0].tensor, rows[0].chips, most(context))


def _rows(answer: Bound, ways: int, chips: int, form: str) -> list[ServingChoice]:
    """One choice for each configuration of an answer."""
    needed = answer.footprint
    columns = [answer.sizes["batch"], answer.sizes["context"], time_in_form(answer, form), answer.bound_by]
    columns.append(0.0 if needed is None else needed.total)
    rows = zip(*(array.ravel().tolist() for array in np.broadcast_arrays(*columns)), strict=True)
    capacity = None if needed is None else needed.capacity
    return [
        ServingChoice(
            int(batch), int(context), ways, chips, float(time), str(binds), float(memory),
            None if capacity is None else memory <= capacity,
        )
        for batch, context, time, binds, memory in rows
    ]  # fmt: skip


def _marked(choices: Sequence[ServingChoice]) -> tuple[ServingChoice, ...]:
    """Mark what none beats: from the fastest for a user on, each that makes more of a chip than all before it.

    Choices of different contexts do not compete.
    """
    best: set[int] = set()
    most: dict[int, float] = {}
    for choice in sorted(choices, key=lambda choice: (choice.time_per_token, -choice.tokens_per_second_per_chip)):
        made = choice.tokens_per_second_per_chip
        if choice.fits is not False and made > most.get(choice.context, 0.0):
            most[choice.context] = made
            best.add(id(choice))
    return tuple(replace(choice, best=id(choice) in best) for choice in choices)
