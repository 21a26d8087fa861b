"""The answer about training a model: one step over all chips, and what follows for a token budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from roofline import sections
from roofline.answers import AS_EXPECTED, Comparable, Fact, Obstacle, capability, expected_facts, whole, with_formulas
from roofline.bounds.advice_engine import LEAST_GAIN
from roofline.bounds.bound import Bound, Measurable, explanation, from_the_floor, loss_of_each_said
from roofline.bounds.cost import BY_FORM
from roofline.bounds.crossing import first_where
from roofline.bounds.memory import Footprint, fullest, only_where
from roofline.errors import RooflineError
from roofline.frozen import dataclass, field, kept, once, replace
from roofline.hardware.figures import price_source
from roofline.hardware.network import domain_of, links_inside_out
from roofline.lazy import np
from roofline.models.description import Model
from roofline.models.operations import longest_operations, network_resources, off_matrix_unit
from roofline.models.parallelism.layout import Parallelism, name_axes
from roofline.models.parallelism.schedules import schedule
from roofline.models.parallelism.splitting import stack_parts
from roofline.models.serving.bound import largest_stage
from roofline.models.training.stage import SHARED_FROM, Stage, optimizer_named
from roofline.quantity import agree, format_amount, format_count, format_number, format_percent, in_a_row
from roofline.sections import BLANK, Amount, Listing, Section, Sentences, SizeColumn, Table, configurations, incomplete
from roofline.signatures import spelled
from roofline.sizes import (
    Size,
    ceil_div,
    exact_div,
    grouped,
    is_array,
    is_number,
    is_one,
    is_symbol,
    maximum,
    product,
)
from roofline.statements import HEADLINE_GAPS, untimed_parts, without

SCHEMA = "roofline/train/1"
DAY = 86400.0

#: Lines of advice shown.
MOST_ADVICE = 6
#: Changes that take other chips, other numbers or another batch.
_AT_A_PRICE = {"on", "weights", "gradients", "batch_tokens"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Training(Measurable, Comparable):
    """One step, and what follows for a token budget.

    ``lower``, ``op_by_op`` and ``upper`` are the times of a step, waits of the pipeline included: everything overlaps,
    each operation within itself, nothing; ``estimate`` is what to expect, by published steps where ``estimate=True``.
    ``stages`` are the kinds of pipeline stage; :attr:`bound` is a chip of the one that takes longest, without waits.

    Attributes
        ``layout``        how the model is laid on the chips that share the step; ``chips`` are those in all, ``ways``
                          those by how they share it: ``data``, ``fsdp``, ``tensor``, ``pipeline`` …
        ``batch_tokens``  tokens of a step over all chips; ``sequence``  tokens of a sequence
        ``microbatches``  parts that each copy of the model takes one after the other, by ``schedule``
        ``checkpoint``    what is kept for the backward pass
        ``model_flops``   exact FLOPs of one forward and backward pass of the whole batch
        ``flops``         the same with what is computed again
        ``six``           the usual 6·parameters·tokens, of the (active) parameters that one token uses; of frozen 4
        ``peak``          FLOP/s of one chip, in the format of the arithmetic; that of all is ``chips`` times as much
        ``lower``, ``op_by_op``, ``upper``  seconds of a step
        ``estimate``      seconds with the overlap or overhead stated, or to expect by constants; None where neither was
        ``stated``        MFU that was stated (0 to 1); ``measured``  seconds that a step took; None where not given
        ``tokens``        tokens to train on, all steps together; None where not given
        ``price``         dollars of one chip for an hour; ``power``  watts of one chip
        ``expectation``   the estimate by constants with its interval, where ``estimate=True`` was asked
    """

    model: Model
    stages: tuple[Stage, ...]
    layout: Parallelism
    batch_tokens: Size
    sequence: Size
    microbatches: Size
    schedule: str
    checkpoint: str
    model_flops: Size
    flops: Size
    six: Size
    peak: float
    lower: Size
    op_by_op: Size
    upper: Size
    estimate: Size | None = None
    stated: float | None = None
    measured: float | None = None
    tokens: Size | None = None
    price: float | None = None
    power: float | None = None
    question: Any = None
    expectation: Any = None
    definitions: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def chips(self) -> Size:
        """Chips in all."""
        return self.layout.chips

    @property
    def ways(self) -> dict[str, Size]:
        """Chips by how they share the step, the outermost first."""
        return {name: size for name, size in self.layout.axes.items() if name != "kv"}

    @property
    def numbers(self) -> dict[str, Size]:
        """The options of :func:`train` that lay the step out again; experts are on ``expert`` chips of all kinds.

        >>> from roofline import train
        >>> spread = train("mixtral-8x7b", on="h100:64", batch_tokens=2**20, tensor=4, expert=8, pipeline=2)
        >>> spread.numbers
        {'pipeline': 2, 'fsdp': 4, 'expert': 8, 'tensor': 4}
        """
        named = {**self.ways, "expert": self.layout.expert}
        named = {"context_parallel" if name == "context" else name: size for name, size in named.items()}
        return {name: size for name, size in named.items() if not is_one(size)}

    @property
    def slowest(self) -> Stage:
        """The kind of stage whose own step takes longest: of arrays in most entries, for symbols the last."""
        return _largest(self.stages, lambda stage: stage.bound.lower)[0]

    @once
    def bound(self) -> Bound:
        """The step of one chip of the slowest stage, waits left out; of arrays of the slowest of each entry."""
        slowest, here = _largest(self.stages, lambda stage: stage.bound.lower)
        if here is None:
            return slowest.bound
        sizes = {name: getattr(self, name) for name in ("batch_tokens", "sequence")}
        sizes |= {} if self.question.microbatches is None else {"microbatches": self.microbatches}
        return stack_parts(lambda **some: self.question.vary(**some).answer().bound, sizes, here)

    @property
    def bound_by(self) -> Any:
        """The resource that binds the slowest stage."""
        return self.bound.bound_by

    @property
    def kind(self) -> Any:
        """Whether the slowest stage is ``compute-bound``, ``memory-bound`` or ``network-bound``."""
        return self.bound.kind

    @property
    def fullest(self) -> Stage:
        """The kind of stage whose chips hold most: of arrays in most entries, for symbols the last."""
        return _largest(self.stages, lambda stage: stage.memory.total)[0]

    @property
    def memory(self) -> Footprint:
        """What a chip of the fullest stage holds, part by part; of arrays and open sizes, of the fullest at each."""
        found = fullest([stage.memory for stage in self.stages])
        return self.fullest.memory if found is None else found

    @property
    def idle(self) -> Size:
        """Seconds that the slowest stage waits for the others at the floor."""
        return self.lower - self.bound.lower

    @property
    def bubble(self) -> Size:
        """The share of a step at the floor that is waiting."""
        return self.idle / self.lower

    @property
    def exposed(self) -> Size:
        """Seconds of collectives that remain with complete overlap: the network's time beyond computing and memory."""
        network = network_resources(self.bound)
        busy = [time for name, time in self.bound.times.items() if name not in network]
        return self.bound.lower - maximum(*busy)

    @property
    def time(self) -> Size:
        """Seconds of a step: as measured, at the stated MFU, with the stated overlap, or else the floor."""
        if self.measured is not None:
            return self.measured
        if self.stated is not None:
            return self.model_flops / (self.chips * self.peak * self.stated)
        return self.lower if self.stated_estimate is None else self.stated_estimate

    @property
    def mfu(self) -> Size:
        """Model FLOPs ÷ (:attr:`time` · ``chips`` · ``peak``)."""
        return self.model_flops / (self.chips * self.peak * self.time)

    @property
    def most_mfu(self) -> Size:
        """Model FLOPs over peak at the floor: the most that a stated MFU can be."""
        return self.model_flops / (self.chips * self.peak * self.lower)

    @property
    def hfu(self) -> Size:
        """All FLOPs computed, those run again included, over peak at :attr:`time`."""
        return self.flops / (self.chips * self.peak * self.time)

    @property
    def tokens_per_second(self) -> Size:
        """Tokens all chips train on in a second."""
        return self.batch_tokens / self.time

    @property
    def tokens_per_day(self) -> Size:
        """Tokens all chips train on in a day."""
        return self.tokens_per_second * DAY

    @property
    def is_budget_expected(self) -> bool:
        """Whether the token budget is by what to expect of a step: where that was asked, and no time was stated."""
        is_stated = any(each is not None for each in (self.measured, self.stated, self.stated_estimate))
        return self.expectation is not None and not is_stated

    @property
    def days(self) -> Size | None:
        """Days the token budget takes: as expected, where an estimate by constants was asked."""
        days = None if self.tokens is None else self.tokens / self.tokens_per_day
        return days if days is None or not self.is_budget_expected else days * (self.expectation.value / self.lower)

    @property
    def cost(self) -> Size | None:
        """What the token budget costs at the stated price of a chip-hour; what does not fit has none."""
        return None if self.price is None else self._of_what_runs(24 * self.chips * self.price)

    @property
    def energy(self) -> Size | None:
        """Joules the chips take for the token budget at the stated power, or their data sheet's; as for the cost."""
        return None if self.power is None else self._of_what_runs(DAY * self.chips * self.power)

    def _of_what_runs(self, a_day: Size) -> Size | None:
        """What all days take, at so much a day: of what can be run, or ran."""
        of_all = None if self.days is None else self.days * a_day
        return of_all if self.measured is not None else only_where(self.fits, of_all)

    @property
    def least_chips(self) -> int | None:
        """The fewest chips the batch fits on, with another FSDP and all else as now; None where no number is enough.

        Beyond one node these are whole nodes, unless the question's own number is no whole number of nodes. It is one
        on which the axes lie, as far as such a number is near.
        """
        for stage in self.stages:
            total, capacity = stage.memory.total, stage.memory.capacity
            if capacity is None or any(is_array(v) or is_symbol(v) for v in (total, stage.fixed, self.chips)):
                return None
            if not math.isfinite(total):  # amounts beyond all floats
                return None
        most = int(self.batch_tokens // self.sequence // (self.layout.data * self._microbatches_at(None)))
        if most < 1 or not self._would_fit(most):
            return None
        fewest = 1 if self._would_fit(1) else first_where(self._would_fit, 1, most)
        each = int(self.chips // self.layout.fsdp)
        node = next((domain_of(link) for link in links_inside_out(self.bound.machine) if not link.axes), None)
        if node is None:
            return fewest * each
        whole = 1 if self.chips > node and self.chips % node else node
        near = (ways for ways in range(fewest, min(most, fewest + 64) + 1) if self._is_laid_out(ways, whole))
        fewest = next(near, fewest) * each
        return fewest if fewest <= node else -(-fewest // whole) * whole

    def _is_laid_out(self, ways: int, whole: int) -> bool:
        """Whether the axes lie on the chips where so many share a copy: beyond one node on whole ones."""
        axes = {**self.layout.axes, "fsdp": ways}
        count = int(product(axes.values()))
        if count > whole and count % whole:
            return False
        try:
            name_axes(replace(self.bound.machine, shape=(count,), slices=1, mesh=None), axes)
        except RooflineError:
            return False
        return True

    @property
    def least_states(self) -> float | None:
        """Bytes of weights, gradients and optimizer of a chip where all of one copy's chips share them, and no copy is
        kept twice; None where stages differ, where a stage of ZeRO shares fewer, and of open sizes.
        """
        (stage, *others), zero = self.stages, self.question.zero
        states = sum(stage.memory.parts[name] for name in ("weights", "gradients", "optimizer"))
        is_known = not others and zero == 3 and is_number(states)
        return float(states) / int(self.layout.data) if is_known else None

    @property
    def _is_steady(self) -> bool:
        """Whether microbatches are of one sequence however many chips share the batch, and few of them wait."""
        return self.layout.pipeline > 1 and self.question.microbatches is None and schedule(self.schedule).bounded

    def _microbatches_at(self, fsdp: Size | None) -> Size:
        """Microbatches where so many chips share a copy; None: so many that each has one sequence."""
        is_open = self.question.as_fits or (self.layout.pipeline > 1 and self.question.microbatches is None)
        if not is_open:
            return self.microbatches
        share = 1 if fsdp is None else exact_div(self.batch_tokens, self.sequence * self.layout.data * fsdp)
        return schedule(self.schedule).one_a_sequence(share, self.layout.pipeline)

    def _sequences_at(self, stage: Stage, fsdp: Size, parts: Size) -> tuple[Size, Size]:
        """Whole sequences of which a stage keeps activations where so many chips share a copy, and of a microbatch."""
        ways = self.layout
        whole = ceil_div(self.batch_tokens, self.sequence * ways.data * fsdp)
        counts = {"stages": ways.pipeline, "microbatches": parts, "chunks": self.question.chunks}
        waiting = schedule(self.schedule).microbatches_in_flight(stage.numbers[0], **counts)
        return ceil_div(waiting * whole, parts), ceil_div(whole, parts)

    def held_whole(self, stage: Stage) -> Size:
        """Bytes of a chip that neither more chips nor fewer sequences make less."""
        return stage.fixed - (stage.memory.parts["activations"] if self._is_steady else 0)

    def _would_fit(self, ways: int) -> bool:
        """Whether chips hold the step where so many share a copy: states in parts, activations of whole sequences."""
        for stage in self.stages:
            parts, held = stage.memory.parts, self.held_whole(stage)
            states = sum(parts[name] for name, zero in SHARED_FROM.items() if self.question.zero >= zero)
            renewed = stage.memory.total - held - states - parts["activations"]
            now = self._sequences_at(stage, self.layout.fsdp, self.microbatches)
            then = self._sequences_at(stage, ways, self._microbatches_at(ways))
            kept, again = (exact_div(after, before) for after, before in zip(then, now, strict=True))
            needs = held + states * self.layout.fsdp / ways + parts["activations"] * kept + renewed * again
            if needs > stage.memory.capacity:
                return False
        return True

    def off_its_unit(self) -> str:
        """Where matrix products run that the matrix unit takes no format of, and the format that it takes."""
        other = off_matrix_unit(self.bound)
        return "" if other is None else other.in_words("weights")

    @property
    def target(self) -> str:
        """The chips that share the step."""
        return f"{self.chips:,} x {self.bound.target}" if self.chips > 1 else self.bound.target

    @property
    def subject(self) -> str:
        """The model, as it was asked for."""
        return self.model.name

    def asked_at(self) -> list[str]:
        sizes = {"step of": self.batch_tokens, "sequences of": self.sequence}
        return [f"{name} {size:,} tokens" for name, size in sizes.items() if is_number(size)]

    def facts(self) -> Iterator[Fact]:
        """The step, what binds it, MFU, the token budget, the rates that were used, memory, for a comparison."""
        yield Fact("a step at best", self.lower, "s", "less", column="lower", timed=True, kind="floor")
        yield self.memory.needs._replace(better="")  # it follows from the microbatches, which are as many as fit
        yield self.memory.has
        yield Fact("a step op by op", self.op_by_op, "s", "less", column="op_by_op", timed=True, form="op_by_op")
        yield Fact("a step at worst", self.upper, "s", "less", column="upper", timed=True, form="upper")
        if self.expectation is not None:
            yield from expected_facts("a step, expected", self.expectation.value, self.expectation)
        if self.measured is not None:
            yield Fact("a step, measured", self.measured, "s", "less", column="measured")
        binds = self.bound.bound_by
        yield Fact("bound by", self.bound.kind and f"{self.bound.kind} ({binds})", data=binds, kind="binds")
        yield Fact("MFU at most", self.most_mfu, "share", "more", column="most_mfu", timed=True)
        yield Fact("tokens a day", self.tokens_per_day, "token", "more", column="tokens_per_day", timed=True)
        if self.tokens is not None:
            end = AS_EXPECTED * self.is_budget_expected
            yield Fact(f"days{end}", self.days, "", "less", column="days", timed=True)
            none = self.obstacle if self.price is not None and self.cost is None else None
            cost = Fact(f"cost{end}", self.cost, "USD", "less", column="cost", timed=True)
            yield cost if none is None else cost._replace(value=f"none: {none.said}", unit="", timed=False)
        yield from self.bound.rates_used()
        yield Fact("microbatches", self.microbatches)

    def needed(self) -> Footprint:
        """The memory that the fullest chip needs."""
        return self.memory

    def made_to_fit(self) -> str:
        return "microbatches" if self.question.as_fits and self.question.microbatches is not None else ""

    def assumed(self) -> tuple[str, ...]:
        return self.bound.assumptions

    def one_line(self) -> str:
        """The time of a step at best, and what binds."""
        chips = f"{self.chips} x " if self.chips > 1 else ""
        kind = f", {self.bound.kind}" if isinstance(self.bound.kind, str) else ""
        time = f"{format_amount(self.lower, 's')} a step at best"
        time += "" if self.expectation is None else f", expected {format_amount(self.expectation.value, 's')}"
        return f"Training {self.model.name}: {time} on {chips}{self.bound.target}{kind}"

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What could not be counted or timed."""
        return self.bound.incomplete

    @property
    def copies(self) -> Size:
        """Parts of the batch: chips of different copies of the model, or of one copy that shares its weights."""
        return self.layout.parts

    @property
    def most_microbatches(self) -> int:
        """Whole sequences of each part of the batch, in numbers."""
        return int(self.batch_tokens // self.sequence // self.copies)

    @property
    def sequences(self) -> Size:
        """Sequences in a microbatch of one copy of the model, on average."""
        return exact_div(exact_div(exact_div(self.batch_tokens, self.sequence), self.copies), self.microbatches)

    @property
    def fits(self) -> Any:
        """Whether the step fits the memory of a chip, and a microbatch is a sequence or more.

        None where the capacity of the memory is not known and a microbatch is a sequence or more.
        """
        fits, is_split = self.memory.fits, self.sequences
        if is_symbol(is_split) or (fits is None and is_array(is_split)):
            return fits
        if is_array(fits) or is_array(is_split):
            return fits & (is_split >= 1)
        return fits if is_split >= 1 else False

    @property
    def obstacle(self) -> Obstacle | None:
        """Why the step cannot be run: a microbatch is less than a sequence, or the memory is too small."""
        if self.fits is False and self.sequences < 1:
            return Obstacle("run", f"{self.sequences:.3g} sequences in a microbatch, and a chip takes whole ones")
        return self.memory.obstacle

    def fitting(self) -> str | None:
        """What would fit, or run, where this does not, in one sentence.

        >>> from roofline import train
        >>> train("llama-3-8b", on="h100:64", batch_tokens=4e6, sequence=8192, microbatches=1).fitting()
        '4 microbatches, in 3.32 s a step; or 248 such chips'
        """
        return None if self.fits is not False else _instead(self, self.advise())

    def explain(self) -> str:
        """The arithmetic of the chip that takes longest line by line, with the source of every figure used."""
        expected = [] if self.expectation is None else ["", "expected", f"  {self.expectation.in_words('a step')}"]
        return "\n".join([*explanation(self.bound, self), *expected])

    def steps(self) -> dict[str, Bound]:
        """The step of the slowest stage."""
        return {"": self.bound}

    @kept
    def advise(self) -> Any:
        """What would make the step faster and by how much, best first."""
        return capability("Training.advise")(self)

    def formula(self) -> Any:
        """The closed form of the step, at the sizes that were asked.

        >>> from roofline import train
        >>> train("llama-3-8b", on="h100:8", batch_tokens=2**20, fsdp=8).formula()
        <Formula: llama-3-8b training step on 8 x NVIDIA H100 SXM5 80GB, 5 terms, tensor binds>
        """
        return capability("Training.formula")(self)

    def sections(self) -> Iterator[Section]:
        """The step, what binds it, memory, the token budget, operations; how it scales and what would be faster."""
        bound = self.bound
        if is_symbol(self.lower):
            yield from bound.sections()
            return
        ways = ", ".join(f"{name.removesuffix('_parallel')} {size}" for name, size in self.numbers.items())
        yield sections.Headline(self.model.named, f"on {self.target}" + (f"  ({ways})" if ways else ""))
        if is_array(self.lower):
            yield from (BLANK, *self.memory.misfit(), *_several_in_words(self), BLANK)
            yield from (sections.assumes(without(bound.assumptions, ("fit",))), incomplete(bound.incomplete))
            return
        yield from (BLANK, *slips[:1]) if (slips := sections.caveats(bound.assumptions)) else ()
        advice = self.advise()
        # what was measured ran: nothing has to make it fit
        to_fit = [line for line in advice if self.measured is None and (line.fits or line.gain < LEAST_GAIN)]
        yield from (BLANK, *reached_in_words(self), *_misfit_in_words(self, to_fit), *budget_in_words(self))
        rate = [_rate_in_words(self)] if self.measured is None else []
        yield from (*_step_in_words(self), Sentences([_flops_in_words(self), *rate]))
        if self.expectation is not None:
            yield Sentences([self.expectation.in_words("a step")], indent=4)
        yield from _memory_in_words(self)
        yield BLANK
        mix = capability("Training.best_mix")(self)
        limits = capability("Training.limits")(self)
        scales = [*limits, *([] if mix is None else [mix])]
        yield Listing("scales", [*map(str, scales), *_computing_on(bound, limits)])
        others = capability("Training.layouts_over_slices")(self)
        floors = {"as it is": self.lower} if others else {}
        floors |= {line.change: line.after.lower for line in others}
        yield Listing("over slices", [f"{how}: at best {format_amount(time, 's')}" for how, time in floors.items()])
        faster = [line for line in advice if line.gain >= LEAST_GAIN and line not in to_fit]
        if self.fits is False:
            name = "would run" if self.sequences < 1 else "less memory"
            yield Listing(name, _folded(to_fit)[:MOST_ADVICE])
        yield Listing("faster", _folded(faster)[:MOST_ADVICE])
        yield from (BLANK, longest_operations(bound), BLANK)
        # the lines about memory say what does not fit
        yield from (sections.assumes(without(bound.assumptions, ("fit", "doubt"))), incomplete(bound.incomplete))

    def tables_as_data(self) -> Mapping[str, Table]:
        """``memory`` is what a chip of the fullest stage holds, ``stages`` each stage of a pipeline, a row each.

        >>> from roofline import train
        >>> step = train("llama-3-8b", on="h100:16", pipeline=4, tensor=4, batch_tokens=2**19)
        >>> stages = step.to_pandas("stages")
        >>> stages["layers"].tolist(), bool(stages["lower"].max() == step.bound.lower)
        ([8, 8, 8, 8], True)
        """
        found = dict(Comparable.tables_as_data(self))
        if len(self.stages) > 1 and is_number(self.lower):
            found["stages"] = _stages(self)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys in SI units (schema ``roofline/train/1``)."""
        names = ("microbatches", "schedule", "checkpoint", "model_flops", "flops")
        times = ("lower", "op_by_op", "upper", "estimate", "idle", "exposed", "time", "mfu", "hfu")
        measured = ("measured", "over_floor", "fraction", "overlapped")
        reached = ("most_mfu", *measured, "tokens_per_second", "tokens_per_day", "days")

        def values(*names: str) -> dict[str, Any]:
            return {name: getattr(self, name) for name in names}

        def stage(found: Stage) -> dict[str, Any]:
            held, memory = {"numbers": list(found.numbers), "layers": found.layers}, found.memory.amounts()
            return {**held, "lower": found.bound.lower, "memory": memory}

        body = {
            "schema": SCHEMA,
            "model": self.model.to_dict(),
            **values("chips", "ways"),
            "options": self.numbers,
            "batch_tokens": whole(self.batch_tokens),
            "sequence": whole(self.sequence),
            "lora": None if self.question is None else self.question.lora,
            **values(*names),
            "six_parameters_tokens": self.six,
            **values(*times),
            "stated_mfu": self.stated,
            **values(*reached, "cost", "energy"),
            "memory": self.memory.amounts(),
            "stages": [stage(each) for each in self.stages],
            "least_chips": self.least_chips,
        }
        expected = {} if self.expectation is None else {"expectation": self.expectation.to_dict()}
        return with_formulas(body) | {"step": self.bound.to_dict(), **expected}


def _stages(found: Training) -> Table:
    """Each stage of a pipeline: its layers, a chip's step without waits, what binds it, what a chip holds."""
    parts = list(found.memory.parts)

    def row(number: int, stage: Stage) -> sections.Row:
        needed = stage.memory
        held = (Amount(bytes, "B") for bytes in (*(needed.parts[part] for part in parts), needed.total))
        fits = "" if needed.fits is None else sections.YesNo(bool(needed.fits))
        floor = Amount(stage.bound.lower, "s")
        return sections.Row((Amount(number), Amount(stage.layers), floor, str(stage.bound.bound_by), *held, fits))

    each = sorted((number, index) for index, stage in enumerate(found.stages) for number in stage.numbers)
    columns = (
        *sections.figures("stage", "layers", "at best"),
        sections.Column("bound by"),
        *sections.figures(*parts, "memory"),
        sections.Column("fits"),
    )
    return Table(columns, [row(number, found.stages[index]) for number, index in each], "stages")


def _several_in_words(found: Training) -> Iterator[Section]:
    """Of lists of sizes: which of those that fit is the quickest, a row a configuration, memory."""
    varying = {name: getattr(found, name) for name in ("batch_tokens", "sequence", "microbatches")}
    varying = {name: size for name, size in varying.items() if is_array(size)}
    needed, many = found.memory, int(found.lower.size)
    parted, end = int((_of_each(found, found.sequences) < 1).sum()), AS_EXPECTED * found.is_budget_expected
    columns = [
        *(SizeColumn(name, size, "size") for name, size in varying.items()),
        SizeColumn("a step at best", found.lower, "s", "lower"),
        *([] if found.expectation is None else [SizeColumn("expected", found.expectation.value, "s")]),
        *([SizeColumn("waiting", found.bubble, "share", "bubble")] if found.layout.pipeline > 1 else []),
        SizeColumn("bound by", found.bound.bound_by),
        SizeColumn("MFU at most", found.most_mfu, "share", "most_mfu"),
        SizeColumn("tokens a day", found.tokens_per_day, "token", "tokens_per_day"),
        *([] if found.days is None else [SizeColumn(f"days{end}", found.days, "", "days")]),
        *([] if found.cost is None else [SizeColumn(f"cost{end}", found.cost, "USD", "cost")]),
        SizeColumn("memory", found.memory.total, "B"),
        *([] if needed.fits is None else [SizeColumn("fits", needed.fits)]),
        *([SizeColumn("runs", _of_each(found, found.sequences >= 1))] if parted else []),
    ]
    table = configurations(columns)
    said = f"{many:,} configurations: at best {format_amount(found.lower, 's')} a step"
    best = _quickest(found, varying)
    expected = [] if found.expectation is None else [found.expectation.in_words("a step")]
    yield Sentences([f"{said}; {best}" if best else said, *expected])
    yield from (BLANK, table)
    parts = ", ".join(f"{name} {format_amount(value, 'B')}" for name, value in needed.parts.items())
    whose = " of the fullest stage" if len(found.stages) > 1 else ""
    lines = [f"memory of a chip{whose} {format_amount(needed.total, 'B')}: {parts}"]
    if needed.capacity is not None:
        fitting = int(_of_each(found, needed.fits).sum())
        fit = agree(fitting, "fit")
        lines.append(f"{fitting:,} of {many:,} configurations {fit} {format_amount(needed.capacity, 'B')}")
    if parted:
        why = "less than a sequence in a microbatch, and a chip takes whole ones"
        lines.append(f"{parted:,} of {many:,} {agree(parted, 'do')} not run: {why}")
    yield Sentences([*lines, *_gathered_for_each(found)])


def _of_each(found: Training, value: Any) -> Any:
    """A value of every configuration."""
    return np.broadcast_to(np.asarray(value), np.shape(found.lower))


def _quickest(found: Training, varying: Mapping[str, Any]) -> str:
    """The configuration that fits and trains on most tokens in a time, in words; empty where none fits."""
    fits = _of_each(found, True if found.fits is None else found.fits)
    if not fits.any():
        return ""
    rate = np.where(fits, _of_each(found, found.batch_tokens / found.lower), 0.0)
    at = int(rate.argmax())
    named = ", ".join(
        f"{name.replace('_', ' ')} {format_number(float(_of_each(found, size).flat[at]))}"
        for name, size in varying.items()
        if size.min() < size.max()
    )
    whole = " and run" * bool((_of_each(found, found.sequences) < 1).any())
    return f"of those that fit{whole}, most tokens a day with {named}" if named else ""


def _folded(advice: Sequence[Any]) -> list[str]:
    """A line of advice for each result: changes that come to the same stand together.

    >>> from collections import namedtuple
    >>> line = namedtuple("line", "change effect")
    >>> _folded([line("h100 chips", "2x"), line("fp8", "1.5x"), line("b200 chips", "2x"), line("zb-h1", "1.5x")])
    ['h100 or b200 chips: 2x', 'fp8 or zb-h1: 1.5x']
    """
    alike = grouped((line.effect, line.change) for line in advice)
    return [f"{_one_of(changes)}: {effect}" for effect, changes in alike.items()]


def _one_of(changes: Sequence[str]) -> str:
    """Changes side by side; the words that all begin or end with are written once.

    >>> _one_of(["checkpoint full, tensor 2", "checkpoint none, tensor 2", "checkpoint 3, tensor 2"])
    'checkpoint full, none or 3, tensor 2'
    >>> _one_of(["checkpoint full", "checkpoint full, tensor 2"])
    'checkpoint full, or checkpoint full, tensor 2'
    """
    *others, last = words = [change.replace(", ", " , ").split() for change in changes]
    if not others:
        return changes[0]
    start = _shared(words)
    end = min(_shared([each[::-1] for each in words]), min(map(len, words)) - start)
    parts = [" ".join(each[start : len(each) - end]) for each in words]
    if not all(parts):
        return ", or ".join(changes)
    joined = f"{', '.join(parts[:-1])} or {parts[-1]}"
    return " ".join([*last[:start], joined, *last[len(last) - end :]]).replace(" ,", ",")


def _shared(lists: Sequence[Sequence[str]]) -> int:
    """How many words all lists begin with."""
    return sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*lists, strict=False)))


def _step_in_words(found: Training) -> Iterator[Section]:
    """What a step takes at best, what binds, and where the time goes that is not computing."""
    bound = found.bound
    lower, within, nothing = (format_amount(time, "s") for time in (found.lower, found.op_by_op, found.upper))
    step = f"step of {found.batch_tokens:,} tokens in sequences of {found.sequence:,}"
    partly = ", for what is modelled: see incomplete below" if without(bound.incomplete, HEADLINE_GAPS) else ""
    other = off_matrix_unit(bound)
    faster = "" if other is None else other.faster(
        bound, "weights", lambda name: found.question.vary(weights=name, measured=None).answer().lower
    )  # fmt: skip
    yield Sentences([f"{step}: at best {lower}, {bound.kind} ({bound.bound_by}){faster}{partly}"])
    times = sorted(bound.times.items(), key=lambda each: -float(each[1]))
    least = "at least " if found.layout.pipeline > 1 and found.question.microbatches is None else ""
    lines = [
        f"{least}{within} if only each operation overlaps within itself, {nothing} if nothing does",
        ", ".join(f"{name} {format_amount(time, 's')}" for name, time in times),
    ]
    if found.idle:
        order = schedule(found.schedule)
        reads = " and reading weights more than once" if least and (order.splits or order.fills) else ""
        lines.append(
            f"{format_amount(found.idle, 's')} of the step is waiting for other stages{reads}, the bubble "
            f"({format_percent(found.bubble, 1)}), {found.schedule} with {found.microbatches:,} microbatches"
        )
    lines += _gathered_for_each(found)
    if found.exposed > 0:
        lines.append(f"{format_amount(found.exposed, 's')} of the step is collectives that computing does not cover")
    yield Sentences([*lines, *([] if other is None else [other.in_words("weights")])], indent=4)


def _computing_on(bound: Bound, limits: Sequence[Any]) -> list[str]:
    """That computing covers the network so early because it does not run on the matrix unit."""
    other = off_matrix_unit(bound)
    if not limits or other is None or other.runs_on is None:
        return []
    return [f"computing is that of {other.runs_on}: on {other.unit} more must be computed to cover it"]


def _gathered_for_each(found: Training) -> list[str]:
    """That stages gather shared weights for every microbatch, where nobody may have asked for it."""
    asked, ways = found.question, found.layout
    if asked.zero != 3 or ways.pipeline == 1 or ways.fsdp == 1 or asked.microbatches is None:
        return []
    shared = f"{found.layout.fsdp} chips share the weights ({spelled('zero', 3)}, the default)"
    return [f"{shared} and gather them for every microbatch; with {spelled('zero', 1)} each holds its own"]


def _flops_in_words(found: Training) -> str:
    over = float(found.model_flops / found.six)
    of_six = next((text for text in (f"{over:.3g}", f"{over:.4g}") if text != "1"), "")
    times = f"{of_six} times " if of_six else ""
    active = "" if found.model.sparsity is None else "active "
    usual = f"6·{active}parameters·tokens"
    if found.question.lora is not None:
        usual = f"(4·frozen {active}+ 6·trained parameters)·tokens"
    said = f"{format_amount(found.model_flops, 'FLOP')} forward and backward, {times}{usual}"
    if found.flops <= found.model_flops * 1.0001:
        return said
    alone = found.checkpoint in ("none", "selective") and not found.question.unfused
    how = "attention's scores made again" if alone else "what is recomputed"
    alike = " and what several chips compute alike" * _computes_alike(found)
    return f"{said}; {format_amount(found.flops, 'FLOP')} with {how}{alike}{_of_the_update(found)}"


def _of_the_update(found: Training) -> str:
    rule = optimizer_named(found.question.optimizer).by_matrix
    return " and the optimizer's products" if rule and rule.is_orthogonal else ""


def _computes_alike(found: Training) -> bool:
    """Whether several chips compute the same: latents, heads of keys and values that they share, the choice of experts.

    Of adapters it is not known from the FLOPs alone.
    """
    ops = [(each.op, len(stage.numbers)) for stage in found.stages for each in stage.bound.ops]
    each = sum(op.work.total("flops", "matrix") * op.repeat * many for op, many in ops if op.phase == "forward")
    forward = float(each * found.chips / found.layout.pipeline)
    return found.question.lora is None and forward > float(found.model_flops) / 3 * 1.001


def _rate_in_words(found: Training) -> str:
    time = format_amount(found.time, "s")
    how = "at the floor"
    if found.stated is not None:
        how = f"at the stated MFU, {time} a step"
        if found.stated > float(found.most_mfu):
            how += f" (it cannot be: the floor allows {format_percent(found.most_mfu, 1)})"
    elif found.measured is not None:
        how = f"as measured, {time} a step"
    elif found.stated_estimate is not None:
        how = f"as estimated, {time} a step"
    run_again = found.flops > found.model_flops * 1.0001
    again = f", {format_percent(found.hfu, 1)} with what is run again{_of_the_update(found)}" if run_again else ""
    other = off_matrix_unit(found.bound)
    of = "" if other is None or other.runs_on is None else f" of the peak of {other.runs_on}"
    rate = float(found.tokens_per_second)
    a_chip = f", {format_number(rate / found.chips)} a chip" if found.chips > 1 else ""
    each = f"{format_number(rate)} tokens/s{a_chip}, {format_count(int(found.tokens_per_day))} tokens a day"
    return f"MFU {format_percent(found.mfu, 1)}{of}{again}, {how}: {each}"


def _misfit_in_words(found: Training, to_fit: Sequence[Any]) -> list[Section]:
    """That it does not fit, with what would; of a step that was measured, that it ran in another way than asked."""
    needed, said = found.memory, ""
    if found.measured is not None and needed.fits is False:
        line = "DOES NOT FIT as asked: by this layout and checkpoint policy it would need "
        line += needed.against_capacity()
        given = f"{spelled('microbatches')}, {spelled('checkpoint')} and the layout as they were"
        said = f"{line}; it ran, so give {given}"
    elif found.fits is False:
        said = found.obstacle_in_words(_instead(found, to_fit))
    return [Sentences([said], "alert"), BLANK] if said else []


def _instead(found: Training, to_fit: Sequence[Any]) -> str:
    """The changes after which a step fits and takes least, and on how many chips it fits as it is.

    The same chips, formats and batch stand first: they cost nothing.
    """
    fitting = [line for line in to_fit if line.fits]
    free = [line for line in fitting if not _AT_A_PRICE.intersection(line.arguments)]
    whole = [line for line in fitting if {"batch_tokens", "microbatches"} == set(line.arguments)]
    # a few tokens more cost next to nothing: they are named where the same tokens take longer
    whole = [line for line in whole[:1] if all(line.gain > other.gain * LEAST_GAIN for other in free[:1])]
    chosen = dict.fromkeys([*whole, *free[:1], *fitting[:1]])
    ways = [f"{line.change}, in {format_amount(line.after.time, 's')} a step" for line in chosen]
    least = None if found.sequences < 1 else found.least_chips
    wider = [line.change for line in fitting if {"on", "tensor"} <= set(line.arguments) and line not in chosen]
    dealt = [line.change for line in fitting if {"on", "batch_tokens"} <= set(line.arguments) and line not in chosen]
    ways += [f"{least:,} such chips"] if least is not None else [*wider[:1], *dealt[:1]]
    return "; ".join([*ways[:-1], *(f"or {way}" if len(ways) > 1 else way for way in ways[-1:])])


def reached_in_words(found: Training) -> Iterator[Section]:
    """The MFU that a measured step reached, and how far it is from its bounds."""
    if found.measured is None:
        return
    yield Sentences([_rate_in_words(found)], "strong")
    why = "other work, chips or formats ran than asked about"
    line = from_the_floor(found.measured, float(found.lower), float(found.upper), why)
    lost = [*_loss_in_words(found), loss_of_each_said()] if found.measured >= float(found.lower) else []
    yield from (Sentences([line, *lost], indent=4), BLANK)


def _loss_in_words(found: Training) -> list[str]:
    """What may explain a measured step above its floor: times that do not overlap, and matmuls below their peak."""
    floor, above = float(found.lower), float(found.measured or 0) - float(found.lower)
    causes = [("times that do not overlap", float(found.upper) - floor)]
    peaks = [use for use in found.bound.uses if use.quantity == "flops" and use.resource == found.bound.bound_by]
    units = {unit.name: unit for unit in found.bound.machine.units}
    reached = units[peaks[0].resource].achievable.get(peaks[0].dtype) if peaks else None
    if reached is not None and not found.bound.machine.use_achievable:
        share = f"matmuls at the {format_percent(reached.value)} of peak that was measured"
        causes.append((share, floor / reached.value - floor))
    left = above - sum(seconds for _, seconds in causes)
    if left <= 0:
        return []
    said = in_a_row(f"{name} explain {format_amount(seconds, 's')}" for name, seconds in causes)
    return [
        f"of {format_amount(above, 's')} above the floor, {said} at most; {format_amount(left, 's')} are left: slower "
        "kernels, waits for data or other chips, or another layout than asked"
    ]


def budget_in_words(found: Training) -> Iterator[Section]:
    """Days, cost and energy of the tokens to train on, where they were given; the least of a step timed in part."""
    if found.tokens is None or found.days is None:
        return
    runs = found.measured is not None or found.fits is not False
    is_given = found.measured is not None or found.stated is not None
    least = "at least " * (not is_given and bool(untimed_parts(found.incomplete)))
    takes = f"{'take' if runs else 'would take'} {least}{format_number(float(found.days))} days"
    line = f"{format_count(int(found.tokens))} tokens {takes}"
    line += f" {BY_FORM['expected']}" * found.is_budget_expected
    if found.cost is not None:
        line += f", cost {least}${format_number(float(found.cost))}"
    if found.energy is not None:
        energy, power = format_number(float(found.energy) / 3.6e9), format_number(float(found.power or 0))
        line += f", {least}{energy} MWh at {power} W a chip"
    if not runs:
        obstacle = found.obstacle or Obstacle("fit", "")
        line += f" if it {'fitted' if obstacle.verb == 'fit' else 'ran'}: what {obstacle.said} has no cost"
    yield from (Sentences([line, *price_source(found.fullest.bound.machine, found.price, found.question.price)]), BLANK)


def _memory_in_words(found: Training) -> Iterator[Section]:
    """What a chip of the fullest stage holds, whether it fits, and the fewest chips on which it does."""
    needed, numbers = found.memory, found.fullest.numbers
    parts = ", ".join(f"{name} {format_amount(size, 'B')}" for name, size in needed.parts.items() if size)
    stage = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    which = f" of stage {stage}, the fullest" if len(found.stages) > 1 else ""
    number = found.microbatches
    split = f" in {number:,} microbatch{'es' * (number > 1)}" if is_number(number) else ""
    line = f"memory of a chip{which} {format_amount(needed.total, 'B')}{split}: {parts}"
    if needed.capacity is None:
        yield Sentences([f"{line}; its capacity is not known"])
        return
    if needed.fits:
        line += f"; fits {format_amount(needed.capacity, 'B')} of {needed.level}"
    else:
        over = format_amount(needed.total - needed.capacity, "B")
        line += f"; does not fit: {over} more than {needed.level} holds"
    yield Sentences([line])
    yield Sentences([f"with this layout, {_least_in_words(found)}"], indent=4)


def _least_in_words(found: Training) -> str:
    """On how many chips batch and states fit, or why no number of chips that share the batch is enough."""
    states, least = found.least_states, found.least_chips
    if least is None and found.chips > 1 and states is not None and states > (found.memory.capacity or math.inf):
        each = format_amount(states, "B")
        return (
            f"weights, gradients and optimizer alone are {each} a chip, though all {found.chips:,} share them: no "
            "layout or checkpointing of these chips is enough"
        )
    if least is not None:
        return f"batch and states fit on {least:,} such chip{'s' * (least > 1)} at the least"
    if any((stage.memory.capacity or 0) <= found.held_whole(stage) for stage in found.stages):
        return "no number of chips is enough: what each holds whole does not fit"
    return (
        "no number of chips is enough for this batch: each takes a whole sequence, and its part of the step does not "
        f"fit; {spelled('tensor')} splits layers and sequences{_longest_that_fits(found)}"
    )


def _longest_that_fits(found: Training) -> str:
    """The longest sequence that one chip holds, where it is shorter than asked; empty of more chips."""
    if found.chips != 1:
        return ""

    def too_long(tokens: int) -> bool:
        one = found.question.vary(sequence=tokens, batch_tokens=tokens, microbatches=1, measured=None)
        return one.answer().memory.fits is False

    longest = int(found.sequence)
    if not too_long(longest) or too_long(1):
        return ""
    return f", and one chip holds sequences of up to {first_where(too_long, 1, longest) - 1:,} tokens, one at a time"


def _largest(stages: tuple[Stage, ...], size: Any) -> tuple[Stage, Any]:
    """The stage of the largest size, of arrays in most entries, and in which it is so: None where in all."""
    sizes = [size(stage) for stage in stages]
    if any(is_symbol(value) for value in sizes):
        return stages[-1], None
    most, here = largest_stage(sizes)
    return stages[most], here
