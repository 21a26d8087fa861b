"""The fastest layout of a training step on given chips: numbers of chips of each kind, ZeRO stage, checkpointing.

Every layout whose product is the chips is asked, each ZeRO stage and checkpoint policy with every number of
microbatches that leaves each a sequence: one question over an array of them. Of those that fit the fastest is taken,
the fewest of equal ones. A policy whose fastest number fits is not followed by those that run more again, nor by stages
that send more, as these only take longer.

>>> found = search_training("llama-3-8b", on="h100:8", batch_tokens=65536, pipeline=1)
>>> found
<TrainingPlan for llama-3-8b on h100:8: fsdp 8, ZeRO 1, checkpoint none, 1 microbatch: 404 ms a step>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from roofline.answers import EXPECTATION, Answer, attributes
from roofline.bounds.api import take_target_options, target
from roofline.errors import InputError, RooflineError
from roofline.frozen import NamedTuple, dataclass
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.idle import TRAINING, refuse_idle
from roofline.models.operations import network_resources
from roofline.models.parallelism.block_splitting import has_experts
from roofline.models.training import train
from roofline.models.training.answer import Training, budget_in_words, reached_in_words
from roofline.models.training.stage import SHARED_FROM
from roofline.models.training.step import training_question
from roofline.progress import counted, stopped
from roofline.quantity import agree, format_amount, format_percent, format_times, given_amount
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Sentences, Table, caveats, figures
from roofline.signatures import spelled, takes
from roofline.sizes import is_one

SCHEMA = "roofline/train-search/1"

#: What is tried of each option that is not given.
TRIED: dict[str, tuple[Any, ...]] = {
    "tensor": (1, 2, 4, 8),
    "pipeline": (1, 2, 4, 8),
    "context_parallel": (1, 2, 4, 8),
    "expert": (1, 8, 16, 32, 64),
    "data": (1, 8),
    "checkpoint": ("none", "selective", "full"),
}

#: ZeRO stages that are tried, those that send least and hold most first; 0 sends what 1 does.
STAGES = (1, 2, 3)

#: Sequences from which on chips that share a sequence are tried.
LONG_SEQUENCE = 32_768

#: Times that differ by less are equal: the fewest microbatches are taken.
SAME = 1e-9

#: Floors this close rank nothing: of those the least op by op is taken.
TIE = 0.01

#: Layouts that are shown.
MOST_ROWS = 10


class TrainingChoice(NamedTuple):
    """A layout's options and its step; ``reason`` says why it is not taken: legal, fit or beaten, and in words."""

    options: Mapping[str, Any]
    answer: Training | Any  # None of one that is not possible: a type checker takes it for there
    kind: str = ""
    reason: str = ""

    @property
    def layout(self) -> str:
        """The layout in words."""
        tried = {name: self.options[name] for name in TRIED if self.options.get(name, 1) != 1}
        named = tried if self.answer is None else self.answer.numbers
        words = [f"{name.removesuffix('_parallel')} {size}" for name, size in named.items() if name != "checkpoint"]
        return " ".join(words) or "one chip"

    @property
    def zero(self) -> str:
        """The ZeRO stage, where chips share a copy's states."""
        return "" if is_one(self.answer.layout.sharing_states) else str(self.answer.question.zero)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingPlan(Answer):
    """Layouts of a training step, the fastest that fits first, and why the others are not taken.

    ``unnumbered``: the target has no number of chips, so that of the layout only what was given is asked. ``measured``
    is the step that is taken beside the time that was measured: its MFU is that of any layout.
    """

    model: Model
    on: str
    choices: tuple[TrainingChoice, ...]
    stopped: str = ""
    unnumbered: bool = False
    measured: Training | Any = None

    @property
    def meets(self) -> bool:
        """Whether any layout fits."""
        return bool(self.fitting)

    @property
    def fitting(self) -> tuple[TrainingChoice, ...]:
        """The layouts that fit, the fastest first."""
        return tuple(each for each in self.choices if each.kind in ("", "beaten"))

    @property
    def best(self) -> Training | Any:
        """The fastest step that fits."""
        return self.fitting[0].answer if self.fitting else None

    @property
    def target(self) -> str:
        """The chips by their name, or as they were asked for where no layout is possible."""
        return next((each.answer.target for each in self.choices if each.answer is not None), self.on)

    def one_line(self) -> str:
        if not self.fitting:
            return f"TrainingPlan for {self.model.name} on {self.on}: nothing fits"
        return f"TrainingPlan for {self.model.name} on {self.on}: {self._in_words(self.fitting[0])}"

    def _in_words(self, choice: TrainingChoice) -> str:
        found = choice.answer
        many = "1 microbatch" if found.microbatches == 1 else f"{found.microbatches} microbatches"
        step, shared = format_amount(found.time, "s"), choice.zero and f"ZeRO {choice.zero}, "
        return f"{choice.layout}, {shared}checkpoint {found.checkpoint}, {many}: {step} a step"

    def sections(self) -> Iterator[Section]:
        yield from (Headline(self.model.named, f"trained on {self.target}"), BLANK)
        priced = next((each.answer for each in self.choices if each.answer is not None), None)
        yield from () if priced is None else caveats(priced.bound.assumptions)
        yield from () if self.measured is None else reached_in_words(self.measured)
        if not self.fitting:
            yield Sentences(["NOTHING FITS"], "alert")
            possible = [each for each in self.choices if each.answer is not None]
            nearest = min(possible, key=lambda each: float(each.answer.memory.total), default=None)
            if nearest is not None:
                yield Sentences([f"nearest: {self._in_words(nearest)}: {nearest.reason}"])
        else:
            yield Sentences([f"take {self._in_words(self.fitting[0])}"], "strong")
            between = " " if spelled("fsdp").startswith("-") else ", "
            words = between.join(spelled(name, value) for name, value in _options(self.best).items())
            yield Sentences([*self.reasons, f"the step by itself, without {spelled('search')}: {words}"], indent=4)
            yield from (BLANK, *budget_in_words(self.best), self._table())
        if self.stopped:
            yield from (BLANK, Sentences([self.stopped], "alert"))
        counts = Counter(each.kind for each in self.choices)
        reasons = {"legal": "do not divide", "fit": "do not fit", "beaten": "are no faster"}
        parts = [f"{n:,} {agree(n, said)}" for kind, said in reasons.items() if (n := counts[kind])]
        said = "times are floors" if self._are_floors else "times are by the stated overlap and overhead"
        many = f"{len(self.choices):,} layouts: {', '.join(parts)}"
        if self.unnumbered:
            many = f"{self.on} has no number of chips: the layout is as given; {self.on}:8 tries those of 8 chips"
        product = "chips are data · pipeline · fsdp · the larger of expert and context · tensor"
        has_experts = any(each.answer.layout.expert > 1 for each in self.fitting)
        yield from (BLANK, Sentences([many, *[product] * has_experts, said]))

    @property
    def _are_floors(self) -> bool:
        return all(each.answer.time == each.answer.lower for each in self.fitting)

    @property
    def _least_op_by_op(self) -> TrainingChoice:
        return min(self.fitting, key=lambda each: float(each.answer.op_by_op))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the fastest is taken: what the next one pays more, whether overlap decides, and parts that are not whole.

        >>> found = search_training("llama-3-8b", on="h100:8", batch_tokens=65536)
        >>> found.reasons[0]
        'the next, fsdp 4 tensor 2, takes as long'
        """
        first, *others = self.fitting
        best, lines = first.answer, []
        if others:
            more = float(others[0].answer.time) - float(best.time)
            paid = ", ".join(_paid_more(others[0].answer, best))
            times = f"{format_amount(more, 's')} more ({_over(others[0], first).text}): {paid}"
            lines.append(f"the next, {others[0].layout}, takes {times if paid else 'as long'}")
        limit = (1 + TIE) * min(float(each.answer.time) for each in self.fitting)
        tied = [each for each in self.fitting if float(each.answer.time) <= limit]
        if len({float(f"{float(each.answer.op_by_op):.9g}") for each in tied}) > 1:
            own = format_amount(best.op_by_op, "s")
            lines.append(f"{len(tied)} are within {format_percent(TIE)}: op by op this takes the least of them, {own}")
        least = self._least_op_by_op
        if self._are_floors and float(least.answer.op_by_op) < (1 - SAME) * float(best.op_by_op):
            ours, theirs = (format_amount(each.op_by_op, "s") for each in (best, least.answer))
            lead = f"all this rests on overlap: op by op {least.layout} takes the least, {theirs}, and this one {ours}"
            lines.append(f"{lead}; {spelled('overlap', 0.5)} ranks by a part of it")
        each = float(best.sequences)
        if each != int(each):
            parts = f"{best.microbatches} microbatches"
            lines.append(f"{each:.4g} sequences on average in each of {parts}: not all are full")
        return tuple(lines)

    def _table(self) -> Table:
        def row(each: TrainingChoice) -> Row:
            found = each.answer
            mfu = float(found.mfu)
            return Row((
                each.layout, each.zero, str(found.checkpoint), Amount(found.microbatches), Amount(found.time, "s"),
                _over(each, self.fitting[0]), Amount(found.op_by_op, "s"), Amount(_network_time(found), "s"),
                *([Amount(found.bubble, "", format_percent(float(found.bubble)))] if piped else []),
                Amount(mfu, "", format_percent(mfu)), Amount(found.memory.total, "B"), str(found.bound.bound_by),
            ))  # fmt: skip

        piped = any(each.answer.layout.pipeline > 1 for each in self.fitting)
        columns = (
            Column("layout", wrap="words"), Column("ZeRO"), Column("check-\npoint"), *figures("micro-\nbatches"),
            Column("a step", "right", meaning="lower" if self._are_floors else "time"),
            Column("over the\nfastest", "right", spare=3), Column("op\nby op", "right", spare=1),
            Column("network", "right", spare=2),
            *([Column("waits", "right", meaning="bubble")] if piped else []),
            Column("MFU at\nmost", "right", meaning="mfu"),
            *figures("memory"), Column("bound by"),
        )  # fmt: skip
        least = self._least_op_by_op
        rows = [row(each) for at, each in enumerate(self.fitting) if at < MOST_ROWS or each is least]
        return Table(columns, rows, "choices", every=lambda: [row(each) for each in self.fitting])

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/train-search/1``)."""
        return {
            "schema": SCHEMA,
            **attributes(self, "model", "on", "meets"),
            "stopped": self.stopped or None,
            **({} if self.measured is None else attributes(self.measured, "measured", "mfu", "over_floor")),
            "choices": [_plain(each) for each in self.choices],
        }


def _options(found: Training) -> dict[str, Any]:
    """What asks for a layout's step again, beside what was given."""
    copies = {"data": found.layout.copies} if found.bound.machine.slices > 1 else {}
    return {
        **copies, "fsdp": found.layout.fsdp, **found.numbers, "zero": found.question.zero,
        "checkpoint": found.checkpoint, "microbatches": found.microbatches,
    }  # fmt: skip


def _plain(choice: TrainingChoice) -> dict[str, Any]:
    found, reason = choice.answer, {"kind": choice.kind or None, "reason": choice.reason or None}
    if found is None:
        return {"layout": dict(choice.options), **reason}
    return {
        "layout": dict(found.ways),
        "options": _options(found),
        **attributes(found, "checkpoint", "microbatches", "time", "bubble", "mfu", "days", "cost", "energy"),
        "op_by_op": float(found.op_by_op),
        "network": _network_time(found),
        "memory": float(found.memory.total),
        "bound_by": str(found.bound.bound_by),
        **reason,
    }


@takes(train)
def search_training(model: Model | str, *, on: str, batch_tokens: int, **options: Any) -> TrainingPlan:
    """Find the fastest layout of a training step that fits; given options of :func:`roofline.models.train` stay.

    Times are floors, or estimates where ``overlap`` or ``overhead`` is stated.
    """
    took = options.pop("measured", None)
    seconds = None if took is None else given_amount("measured", took)
    alone = next((name for name in (*EXPECTATION, "mfu") if options.get(name)), None)
    if alone is not None:
        hint = "give it with the layout that is found, in a question of its own"
        if alone == "estimate":
            hint += ": it is each floor times one factor, so the order stays"
        raise InputError(f"{spelled('search')} compares floors, and {spelled(alone)} is of one layout", hint=hint)
    described = load(model)
    target_options = take_target_options(dict(options))
    unnumbered = not target(on, **target_options).shape
    tried = {name: values for name, values in TRIED.items() if options.get(name) is None}
    if unnumbered:  # a chip without a number is as many as the options given say
        tried = {name: values for name, values in tried.items() if name == "checkpoint"}
    if not has_experts(described):
        tried.pop("expert", None)
        refuse_idle({"expert_exchange": options.get("expert_exchange")}, TRAINING, described)
    if (options.get("sequence") or 4096) < LONG_SEQUENCE:
        tried.pop("context_parallel", None)
    policies = tried.pop("checkpoint", None) or (options["checkpoint"],)
    given = {name: value for name, value in options.items() if name not in ("checkpoint", *EXPECTATION)}
    given = {name: value for name, value in given.items() if value is not None}
    asked = {"on": on, "batch_tokens": batch_tokens, **given}
    layouts, said = list(product(*tried.values())), ""
    found: list[TrainingChoice] = []
    try:
        for values in counted(layouts):
            found.append(_fastest_that_fits(described, dict(zip(tried, values, strict=True)), asked, policies))
    except KeyboardInterrupt:
        if not any(each.answer for each in found):
            raise
        said = f"{stopped(len(found), len(layouts), 'layouts')}: the others were not tried"
    if all(each.answer is None for each in found):
        raise InputError(found[0].reason)
    fitting = _ranked([each for each in found if not each.kind])
    ranked = [
        each if number == 0 else each._replace(kind="beaten", reason=f"{_over(each, fitting[0]).text} the time")
        for number, each in enumerate(fitting)
    ]
    every = (*ranked, *(each for each in found if each.kind))
    taken, run = next(each.answer for each in every if each.answer is not None), None
    if seconds is not None:
        run = taken.question.vary(microbatches=taken.microbatches, measured=seconds).answer()
    return TrainingPlan(described, on, every, said, unnumbered, run)


def _ranked(choices: Sequence[TrainingChoice]) -> list[TrainingChoice]:
    """The fastest first; of those in a :data:`TIE` with it the least op by op, then the least on the network."""
    tied = (1 + TIE) * min((float(each.answer.time) for each in choices), default=0.0)

    def order(each: TrainingChoice) -> tuple[float, float, float]:
        time, op_by_op = (float(f"{float(one):.9g}") for one in (each.answer.time, each.answer.op_by_op))
        return 0.0 if time <= tied else time, op_by_op, _network_time(each.answer)

    return sorted(choices, key=order)


def _network_time(found: Training) -> float:
    """Seconds that the busiest link of a chip is busy in a step."""
    network = network_resources(found.bound)
    return max((float(time) for name, time in found.bound.times.items() if name in network), default=0.0)


def _paid_more(found: Training, best: Training) -> Iterator[str]:
    """What a step takes longer for than another: arithmetic that is run again, waits, the network, the rest.

    Nothing where both take as long.
    """
    left = float(found.time) - float(best.time)
    if left <= SAME * float(best.time):
        return
    named: dict[str, Callable[[Training], float]] = {
        "of arithmetic that is run again": lambda step: float(step.flops) / (float(step.chips) * step.peak),
        "of waits for other stages": lambda step: float(step.idle),
        "of sending that nothing hides": lambda step: float(step.exposed),
    }
    unequal = found.time == found.lower and not is_one(found.layout.pipeline)
    rest = "of stages that are not equal" if unequal else "of what else does not overlap"
    least = 0.05 * left
    for what, seconds in named.items():
        more = min(seconds(found) - seconds(best), left)
        if more > least:
            left -= more
            yield f"{format_amount(more, 's')} {what}"
    if left > least:
        yield f"{format_amount(left, 's')} {rest}"


def _over(each: TrainingChoice, best: TrainingChoice) -> Amount:
    times = float(each.answer.time) / float(best.answer.time)
    return Amount(times, "", format_times(times))


def _fastest_that_fits(
    model: Model, layout: dict[str, Any], asked: dict[str, Any], policies: tuple[Any, ...]
) -> TrainingChoice:
    """A layout with the fastest stage and policy that fit, each with its fastest number of microbatches."""

    def answer(**more: Any) -> Training:
        return training_question(model, **{**asked, **layout, **more}).answer()

    try:
        stages = (asked["zero"],) if "zero" in asked else STAGES
        least = answer(microbatches=1, zero=stages[0], checkpoint=policies[0])
        given = answer(checkpoint=policies[0]) if "microbatches" in asked else least
    except RooflineError as error:
        return TrainingChoice({**layout, "checkpoint": policies[0]}, None, "legal", str(error))
    if (share := float(given.sequences)) < 1:
        text = f"{share:.3g} sequences for each microbatch of a copy of the model: none is split over chips"
        return TrainingChoice({**layout, "checkpoint": policies[0]}, None, "legal", text)
    counts = [int(given.microbatches)] if "microbatches" in asked else _numbers(int(share))
    found: list[TrainingChoice] = []
    last, untried = TrainingChoice(layout, None, "legal"), policies
    for zero in stages[-1:] if is_one(least.layout.sharing_states) else stages:
        if zero not in (stages[0], stages[-1]):
            least = answer(microbatches=1, zero=zero, checkpoint=policies[0])
        # bytes of a chip of the fullest stage, whatever waits beside them
        states = max(sum(float(stage.memory.parts[name]) for name in SHARED_FROM) for stage in least.stages)
        if zero != stages[-1] and states > (least.memory.capacity or float("inf")):
            continue
        for place, policy in enumerate(untried):
            options = {**layout, "checkpoint": policy}
            number, fastest = _fastest_number(model, {**asked, **options, "zero": zero}, counts)
            step = answer(checkpoint=policy, zero=zero, microbatches=number)
            if step.memory.fits is False:
                over = float(step.memory.total) - float(step.memory.capacity or 0.0)
                last = TrainingChoice(options, step, "fit", f"does not fit by {format_amount(over, 'B')} a chip")
                continue
            found.append(TrainingChoice(options, step))
            if fastest:
                untried = untried[:place]  # whatever runs more again, or sends more, takes longer
                break
    return _ranked(found)[0] if found else last


def _numbers(most: int) -> Any:
    """Numbers of microbatches to try: all up to 4,096; beyond a thousand as many more, by equal ratios.

    >>> [(len(found), int(found.max())) for found in map(_numbers, (3, 4096, 10**9))]
    [(3, 3), (4096, 4096), (2047, 1000000000)]
    """
    if most <= 4096:
        return np.arange(1, most + 1)
    return np.unique(np.concatenate([np.arange(1, 1025), np.geomspace(1024, most, 1024).round().astype(np.int64)]))


def _fastest_number(model: Model, asked: dict[str, Any], counts: Any) -> tuple[int, bool]:
    """The number of microbatches with the least time of those that fit, and whether none of the others is faster.

    Where none fits, the number with the least memory.
    """
    numbers, times, needs, capacity = _by_number(model, asked, np.asarray(counts, dtype=np.int64))
    fits = needs <= capacity
    if not fits.any():
        return int(numbers[needs.argmin()]), False
    least = float(times[fits].min())
    return int(numbers[fits & (times <= least * (1 + SAME))].min()), least <= float(times.min()) * (1 + SAME)


def _by_number(model: Model, asked: dict[str, Any], counts: Any) -> tuple[Any, Any, Any, float]:
    """Numbers of microbatches that the schedule takes, each one's time and memory; and the capacity."""
    try:
        answers = {0: training_question(model, **{**asked, "microbatches": counts}).answer()}
    except RooflineError:  # a schedule that takes some numbers only
        if len(counts) == 1:
            raise
        answers = {}
        for number in counts:
            with suppress(RooflineError):
                answers[number] = training_question(model, **{**asked, "microbatches": int(number)}).answer()
        counts = np.asarray([*answers])
    each = [(answer.time, answer.memory.total) for answer in answers.values()]
    times, needs = (
        np.broadcast_to(np.asarray(values, dtype=np.float64).ravel(), counts.shape)
        for values in zip(*each, strict=True)
    )
    capacity = answers.popitem()[1].memory.capacity
    return counts, times, needs, float("inf") if capacity is None else float(capacity)
