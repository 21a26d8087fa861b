"""Serving a model on a chip, as a user reads it: both phases with rates per user and chip, memory, what binds.

>>> found = serve("llama-2-13b", on="a100", batch=8, prompt=1024, context=1536)
>>> found.decode.kind, round(found.time_per_token * 1e3, 1), round(found.tokens_per_second)
('memory-bound', 17.5, 456)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from roofline import dtypes, sections
from roofline.answers import (
    OF_FORM,
    Comparable,
    Fact,
    capability,
    expected_facts,
    plain_data,
    plain_table,
    whole,
    with_formulas,
)
from roofline.bounds.bound import Bound, measured_in_words
from roofline.bounds.cost import COST, DOLLARS, ENERGY, JOULES
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, suggest
from roofline.frozen import dataclass, field, kept, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import ridge
from roofline.lazy import np
from roofline.models import operations
from roofline.models.blocks.encoder import encoder_of
from roofline.models.description import Model
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.operations import check_decodes, longest_operations
from roofline.models.parallelism.layout import CHIPS, ONE_CHIP, OPTIONS, Parallelism, several_layouts
from roofline.models.parallelism.splitting import local_stages
from roofline.models.serving.bound import Pipelined, as_size, full_from, serve_bound, step_bound
from roofline.models.serving.fit import NearestFit, nearest
from roofline.models.serving.layouts import Demand, most_room
from roofline.models.serving.limits import NetworkLimit, compute_bound_batch, network_at_any_batch, network_limit
from roofline.models.serving.step import asked_model
from roofline.quantity import agree, format_amount, format_number, format_percent, in_a_row
from roofline.sections import BLANK, CONFIGURATIONS, Section, Sentences, SizeColumn, configurations, incomplete, spread
from roofline.signatures import spelled, takes
from roofline.sizes import Size, ceil_div, is_array, is_number, is_symbol, is_zero, maximum, product
from roofline.statements import HEADLINE_GAPS, Assumption, by_what_is_timed, without
from roofline.work import Op

SCHEMA = "roofline/llm/1"

#: The most contexts of which is said where decode becomes compute-bound.
MOST_CONTEXTS = 4

#: Phases that may be asked for alone.
_ASKED_ALONE = ("prefill", "decode")

#: The time of a phase as data.
_TIMES = {"prefill": "time_to_first_token", "decode": "time_per_token"}

_FORMATS = ("weights", "activations", "kv", "compute", "count", "skew")


@dataclass(frozen=True, slots=True)
class FurtherAnswer:
    """Something worked out beside a step: its key in JSON, the answer, what yields its sections, its lines above.

    ``first``: it stands above the step; ``over``: below the step's times, over its table of operations. ``again`` works
    it out of a step with what to expect, where it follows from the step's time.
    """

    key: str
    answer: Any
    sections: Callable[[], Iterable[Section]]
    lead: str = ""
    first: bool = False
    over: bool = False
    again: Callable[[Any], FurtherAnswer] | None = None

    def expected(self, found: Serving) -> FurtherAnswer:
        """The same worked out of the step's expected time, where it follows from it and that time is known."""
        return self.again(found) if self.again is not None and found.is_expected else self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Serving(Comparable):
    """The floor of each phase that was asked for; one that was not is None.

    Attributes
        ``batch``        sequences at once
        ``prefill``, ``decode``  the bound of a step of each phase: ``answer.decode.lower`` is its seconds at best
        ``formats``      formats of weights, keys and values, and arithmetic that were asked for
        ``ways``         chips by how they share the model: ``tensor``, ``pipeline``, ``expert`` …
        ``asked``        options of both phases
        ``expectation``  what to expect in a serving framework, where constants of its steps were asked for
        ``worked_out``   what else was asked: cost, fit, advice …, by key in :attr:`further`
        ``front``        the choices of decoding that no other beats, where several were asked for
    """

    model: Model
    batch: Size
    prefill: Bound | Any  # None where it was not asked: a type checker takes it for there
    decode: Bound | Any
    formats: dict[str, Any] = field(default_factory=dict)
    ways: Parallelism = ONE_CHIP
    asked: dict[str, Any] = field(default_factory=dict)
    expectation: Any = None
    worked_out: tuple[FurtherAnswer, ...] = ()
    front: Any = None

    @property
    def further(self) -> dict[str, Any]:
        """What else was asked, by its key: ``generation``, ``cost``, ``fewest`` …"""
        return {each.key: each.answer for each in self.worked_out}

    @property
    def cost(self) -> dict[str, Any]:
        """What a million tokens cost, by ``input`` and ``output``, where ``price`` or ``power`` was given.

        With a prompt and an output ``answer`` is what a million whole answers cost, their prompts included.

        >>> from roofline import llm
        >>> round(llm("llama-3-8b", on="h100", batch=64, context=8192, price=3).cost["output"].dollars, 3)
        0.325
        """
        if "cost" not in self.further:
            raise InputError("what it costs was not asked for", hint="give price=, dollars of a chip for an hour")
        found: dict[str, Any] = self.further["cost"]
        return found

    @property
    def cost_per_million(self) -> Any:
        """Dollars of a million output tokens at the price that was given; of several configurations an array.

        None, or NaN in the array, of what does not fit.

        >>> from roofline import llm
        >>> llm("llama-3-8b", on="h100", batch=[8, 64], context=8192, price=3).cost_per_million.round(3).tolist()
        [0.733, 0.325]
        """
        cost = self.cost["output"]
        return (cost.each or cost).dollars

    def beside(self, measured: float | str) -> Serving:
        """The answer beside what a step takes in reality: of decode, or of prefill where nothing decodes."""
        if self.decode is None:
            return replace(self, prefill=self.prefill.beside(measured))
        return replace(self, decode=self.decode.beside(measured))

    def one_line(self) -> str:
        """Each phase in one line."""
        phases = [f"{name} {phase!r}" for name, phase in self.phases.items()]
        return f"Serving {self.model.name}: {', '.join(phases)}"

    def sections_in_full(self) -> Iterator[Section]:
        """What it says of the steps, also where the front stands in their place."""
        yield from self._of_steps()
        for each in self.worked_out:
            yield from () if each.first or each.over else each.sections()
        yield from () if self.front is None else self.front.sections()

    def sections(self) -> Iterator[Section]:
        """What each phase takes at best, what binds, the operations that cost most; memory; what was assumed.

        What else was asked stands above the phases in a line each, and below them in full; advice stands over their
        tables of operations. Of several configurations
        the front stands in place of the phases, where it was asked for.
        """
        if self.front is None:
            yield from (self if self.prefill_server is None else replace(self, prefill=None))._of_steps()
        else:
            lead = [line for each in self.worked_out for line in each.lead.splitlines()]
            head, blank, *rest = self.front.sections()
            yield from (head, blank, *((Sentences(lead), BLANK) if lead else ()), *rest)
        for each in self.worked_out:
            yield from () if (each.first or each.over) and self.front is None else each.sections()

    @property
    def prefill_server(self) -> Serving | None:
        """The step of the chips that prefill, where these are others than those that decode."""
        return self.further["disaggregation"].server if "disaggregation" in self.further else None

    def _of_prefill_server(self) -> Iterator[Section]:
        """The step of a prefill server, its memory and operations, as those of the chips that decode."""
        server = self.prefill_server
        if server is not None:
            yield from (BLANK, sections.Headline("a prefill server", f"on {server.target}", level=2), BLANK)
            yield from (*_phase_in_words("prefill", server.prefill, server), BLANK, *_memory_in_words(server, None))
            yield from (BLANK, longest_operations(server.prefill, "prefill"))

    def _first_token(self) -> Iterator[str]:
        """When the first token is there and how long each one more takes, where both phases were asked for."""
        if self.prefill is not None and self.decode is not None:
            first, more = (format_amount(phase.lower, "s") for phase in (self.prefill, self.decode))
            tokens = "first token" if self.batch == 1 else f"first tokens of all {self.batch:,}"
            timed = by_what_is_timed(self.incomplete)
            read, after = self.prefill.sizes, self.decode.sizes["context"]
            other = after != read["prompt"] + read.get("past", 0)
            at = f" at a context of {format_number(after)}" if other else ""
            yield f"{timed}{tokens} after {first} at best, then {more} for each one more{at}"

    def _of_steps(self) -> Iterator[Section]:
        """What is said of the steps."""
        phases = list(self.phases.values())
        if any(is_symbol(phase.lower) for phase in phases):
            for phase in phases:
                yield from phase.sections()
            return
        yield from (sections.Headline(self.model.named, f"on {self.target}"), BLANK)
        near = self.nearest()
        yield from self._misfit(near.lead if near else "")
        idle = self.idle_copies()
        yield from (Sentences([idle]), BLANK) if idle else ()
        yield from sections.caveats(item for phase in phases for item in (*phase.incomplete, *phase.assumptions))
        first, over = (
            [(each, list(each.sections())) for each in self.worked_out if getattr(each, place)]
            for place in ("first", "over")
        )
        for each, shown in first:
            yield from (Sentences(each.lead.splitlines()), *shown)
        several = any(is_array(phase.lower) for phase in phases)
        lead = [line for each in self.worked_out if not each.first for line in each.lead.splitlines()]
        if not several and self.further.keys() <= {"cost"} and self.fits is not False:
            lead = [*self._first_token(), *lead]
        if self.expects_steps_alone():
            lead.append(f"these are bounds: what to expect ({spelled('estimate')}) is said of each step alone")
        yield from (Sentences(lead),) if lead else ()
        yield from (BLANK,) if first or lead else ()
        tables_last = bool(first or over) and not several
        if several:
            yield _configurations(self)
            yield from self._fastest_layout()
        else:
            for name, phase in self.phases.items():
                table = () if tables_last else (longest_operations(phase, name), BLANK)
                yield from (*_phase_in_words(name, phase, self), *table)
        for _, shown in over if tables_last else ():
            yield from shown
        yield from (BLANK,) if tables_last else ()
        if self.expectation is not None:
            yield from (*self.expectation.sections(), BLANK)
        yield from _memory_in_words(self, near)
        for name, phase in self.phases.items() if tables_last else ():
            whose = [f"operations of {name}"] * (len(self.phases) > 1)
            yield from (BLANK, Sentences(whose, indent=4), longest_operations(phase, name))
        yield from self._of_prefill_server()
        # what does not fit is said beside the memory
        said = without([item for phase in phases for item in phase.assumptions], ("fit", "doubt"))
        if self.expectation is not None:
            said = [*said, *self.expectation.assumptions]
        yield from (BLANK, sections.assumes(dict.fromkeys(said)), incomplete(self.incomplete))

    def _fastest_layout(self) -> Iterator[Section]:
        """The layout with the lowest floor of those that fit, where nothing but the layout varies."""
        by_phase = self._phase.expectation.value if self.is_expected else self._phase.lower
        times = np.where(self.memory.fits, by_phase, np.inf)
        if set(self.varying) <= set(OPTIONS) and times.min() < np.inf:
            by = "as expected, " if self.is_expected else "by floors, " * (self._phase.estimate is not None)
            by = by_what_is_timed(self.incomplete) or by
            yield Sentences([f"fastest of those that fit: {by}{self.configuration(int(times.argmin()))}"])

    def _misfit(self, instead: str) -> Iterator[Section]:
        """That it does not fit; where one prompt in chunks would, that all of them at once do not."""
        chunks = self.further.get("chunked")
        if chunks is None or chunks.memory is None or not chunks.memory.fits or self.memory.fits is not False:
            yield from self.memory.misfit(instead)
            return
        needed = self.memory.against_capacity()
        together = f"{self.batch:,} prompts read together DO NOT FIT: they need {needed}"
        yield from (Sentences([f"{together}; one in chunks beside those that decode fits"], "alert"), BLANK)

    def expects_steps_alone(self) -> bool:
        """Whether an expectation was asked for beside something longer than a step, which is a bound."""
        longer = any(each.lead and not (each.first or each.over or each.again) for each in self.worked_out)
        return longer and any(phase.expectation is not None for phase in self.phases.values())

    @property
    def is_expected(self) -> bool:
        """Whether what to expect is known of all its steps, and of whole answers and drafts where they were asked for.

        >>> from roofline import llm
        >>> [llm("llama-3-8b", on="h100", context=4096, estimate=given).is_expected for given in (False, True)]
        [False, True]
        """
        longer = (self.further.get(name) for name in ("generation", "speculation"))
        each = (phase.expectation and phase.expectation.is_known for phase in self.phases.values())
        known = (bool(of.all() if is_array(of) else of) for of in each)
        return all(known) and all(answer is None or bool(getattr(answer, "expectation", None)) for answer in longer)

    def steps(self) -> dict[str, Bound]:
        return self.phases

    def off_its_unit(self) -> str:
        """Where matrix products run that the matrix unit takes no format of, and the format that it takes."""
        other = operations.off_matrix_unit(self._phase)
        return "" if other is None else other.in_words("activations")

    def weights_alone(self) -> str:
        """That weights alone were asked for in a format of eight bits, and what asks for the rest in it; or nothing."""
        weights, rest = self.asked.get("weights"), self.model.dtype
        if weights is None or self.asked.get("activations") or self.asked.get("kv"):
            return ""
        if dtypes.get(weights).bits != 8 or dtypes.get(rest).bits <= 8:
            return ""
        return f"weights alone are {weights}: {spelled('activations', weights)} has products, keys and values in it too"

    @property
    def phases(self) -> dict[str, Bound]:
        """The bounds of the phases that were asked for."""
        return {name: b for name, b in (("prefill", self.prefill), ("decode", self.decode)) if b is not None}

    def asked_of(self, phase: str) -> dict[str, Any]:
        """The options and sizes of a phase, as :func:`roofline.models.serve_bound` takes them.

        >>> serve("llama-3-8b", on="h100", prompt=64, logits="all").asked_of("decode")
        {'on': 'h100', 'batch': 1, 'context': 64}
        """
        if phase not in self.phases:
            raise InputError(f"there is no {phase} in this answer", hint=f"it has {in_a_row(self.phases)}")
        options = {name: value for name, value in self.asked.items() if value is not None}
        kept = {name: value for name, value in options.items() if phase == "prefill" or name not in PREFILL_ONLY}
        sizes = self.phases[phase].sizes
        return kept | {name: sizes[name] for name in ("batch", "prompt", "context", "past") if name in sizes}

    @property
    def varying(self) -> dict[str, Any]:
        """The sizes and numbers of chips that are arrays."""
        return {key: value for phase in self.phases.values() for key, value in phase.sizes.items() if is_array(value)}

    def configuration(self, index: int) -> str:
        """One of several configurations in words, by its place: the sizes and numbers of chips that differ.

        >>> serve("llama-3-8b", on="h100", batch=[1, 8], context=8192).configuration(1)
        'batch 8'
        """
        varying = self.varying
        shape = np.broadcast_shapes(*(value.shape for value in varying.values()))
        many = int(np.prod(shape))
        if not 0 <= index < many:
            raise InputError(f"there is no configuration {index}", hint=f"places go from 0 to {many - 1:,}")
        return ", ".join(
            f"{name} {format_number(float(np.broadcast_to(value, shape).flat[index]))}"
            for name, value in varying.items()
            if value.min() < value.max()
        )

    @property
    def target(self) -> str:
        """The chips that share the model."""
        number = self.chips
        if is_array(number):  # several layouts
            number = int(number.flat[0]) if (number == number.flat[0]).all() else 1
        machine: Machine = next(iter(self.phases.values())).machine
        return machine.with_number(number) if is_number(number) else machine.name

    @property
    def subject(self) -> str:
        """The model, as it was asked for."""
        return self.model.name

    def asked_at(self) -> list[str]:
        sizes = {name: size for phase in self.phases.values() for name, size in phase.sizes.items()}
        said = [name for name in ("batch", "prompt", "past", "context") if is_number(sizes.get(name)) and sizes[name]]
        said = [name for name in said if name != "context" or "prompt" not in said or sizes[name] != sizes["prompt"]]
        whole = self.further.get("generation")
        answers = [] if whole is None else [f"output {whole.output:,}"]
        return [in_a_row(self.phases), *(f"{name} {sizes[name]:,}" for name in said), *answers]

    def facts(self) -> Iterator[Fact]:
        """Whole answers, each phase's bounds and what binds, tokens a second, the rates that were used, memory."""
        if (whole := self.further.get("generation")) is not None:
            at, of, form = OF_FORM.get(whole.form, " at best"), "whole answers", whole.form
            kind, time = "floor" * (form not in OF_FORM), whole.total
            yield Fact(f"{of}{at}", time, "s", "less", column="total", timed=True, form=form, time_of=of, kind=kind)
            expected = whole.expectation
            asked = expected or next((phase.expectation for phase in self.phases.values()), None)
            yield from expected_facts("whole answers, expected", expected and expected.value, asked, "total_")
            rate, called = whole.tokens_per_second, "total_tokens_per_second"
            yield Fact(f"their tokens/s{at}", rate, "token/s", "more", column=called, timed=True)
        for name, phase in self.phases.items():
            each = "a token" if name == "decode" else "first tokens"
            time, column = phase.lower, _TIMES[name]
            yield Fact(f"{each} at best", time, "s", "less", column=column, timed=True, time_of=each, kind="floor")
            of = "prefill_" * (name == "prefill")
            yield from expected_facts(f"{name}, expected", phase.estimate, phase.expectation, of)
            if phase.measured is not None:
                yield Fact(f"{name}, measured", phase.measured, "s", "less", column=f"{of}measured")
            binds = phase.kind and f"{phase.kind} ({phase.bound_by})"
            yield Fact(f"{name} bound by", binds, data=phase.bound_by, column=f"{name}_bound_by", kind="binds")
        if self.decode is not None:
            rate, expected, word = self.tokens_per_second, self.expected_tokens_per_second, "tokens_per_second"
            yield Fact("tokens/s at best", rate, "token/s", "more", column=word, timed=True)
            each_chip = None if rate is None else rate / self.chips
            yield Fact("tokens/s a chip", each_chip, "token/s", "more", column=f"{word}_per_chip", timed=True)
            if expected is not None:
                yield Fact("tokens/s, expected", expected, "token/s", "more", column=f"expected_{word}", timed=True)
        for name, cost in self.further.get("cost", {}).items():
            yield from cost.facts(name)
        laid = ", ".join(f"{name} {ways}" for name, ways in self.ways.sizes().items())
        is_usual = self.ways.chips == 1 and "fewest" not in self.further
        yield Fact("chips", self.chips, "", "less", is_usual=is_usual)
        yield Fact("laid out", laid or "one chip", is_usual=is_usual)
        longest = "fewest" in self.further and self.further["fewest"].longest
        if longest and longest.context is not None:
            yield Fact("longest context", longest.context, "", "more")
        yield from {fact.name: fact for phase in self.phases.values() for fact in phase.rates_used()}.values()
        yield from (self.memory.needs, self.memory.has)

    def facts_at(self) -> str:
        whole = self.further.get("generation")
        if whole is None or self.decode is None:
            return ""
        said = f"a token and tokens/s are at context {self.decode.sizes['context']:,}"
        if "cost" not in self.further or "speculation" in self.further or whole.output == 1:
            return said  # output tokens cost a step at that context, or one with drafts
        steps = whole.output - 1
        return f"{said}, output tokens cost the mean of an answer's {steps:,} step{'s' * (steps > 1)}"

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """Over lists a row a configuration; of one the operations, a row each."""
        if table in (None, CONFIGURATIONS) and self.varying:
            asked = self.table().named(table, tuple(self.tables_as_data()))
            if asked.name == CONFIGURATIONS:
                return plain_table(_configurations(self, as_data=True).in_full())
        return Comparable.plain_table(self, table)

    def explain(self) -> str:
        """The arithmetic of each phase line by line, with the source of every figure used."""
        served = [] if self.expectation is None else self.expectation.lines()
        apart = self.further.get("disaggregation")
        steps = list(self.phases.values()) if apart is None else [apart, self.decode]
        return "\n\n".join([*(step.explain() for step in steps), *["\n  ".join(served)] * bool(served)])

    def advise(self, *, chips: Sequence[str] | None = None) -> Any:
        """What would make each phase faster and by how much; ``chips`` are others to compare with.

        >>> [line.change for line in serve("llama-3-8b", on="h100", context=8192).advise(chips=())][:2]
        ['batch 64', 'int4 weights']
        """
        return capability("Serving.advise")(self, **({} if chips is None else {"chips": chips}))

    def formula(self, phase: str = "decode") -> Any:
        """The closed form of a phase, at the sizes that were asked.

        >>> serve("llama-3-8b", on="h100", context=8192).formula()
        <Formula: llama-3-8b decode on NVIDIA H100 SXM5 80GB, 3 terms, hbm binds>
        """
        return capability("Serving.formula")(self, phase)

    def needed(self) -> Footprint:
        """The memory that a chip needs."""
        return self.memory

    def assumed(self) -> list[str]:
        """What both phases assume, and beside others why not fewer chips."""
        fewest = self.further.get("fewest")
        longest = fewest and fewest.longest and fewest.longest.beyond_training
        said = [fewest and fewest.fewer, longest and f"of the longest context: {longest}"]
        return [*self.assumptions, *filter(None, said)]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What both phases assume."""
        return tuple(dict.fromkeys(line for phase in self.phases.values() for line in phase.assumptions))

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What could not be counted or timed in either phase."""
        return tuple(dict.fromkeys(line for phase in self.phases.values() for line in phase.incomplete))

    @property
    def bound_by(self) -> Any:
        """What binds the phase that was asked for; of two phases that of decode."""
        return self._phase.bound_by

    @property
    def kind(self) -> Any:
        """Whether the phase that was asked for, of two decode, is ``memory-bound``, ``compute-bound`` …"""
        return self._phase.kind

    @property
    def tokens_per_second_per_user(self) -> Any:
        """Tokens a second that one sequence gets; None without decode."""
        return None if self.decode is None else 1 / self.decode.lower

    @property
    def time_to_first_token(self) -> Size | None:
        """Seconds before the whole batch's first tokens are there, nothing else running."""
        return None if self.prefill is None else self.prefill.lower

    @property
    def time_per_token(self) -> Size | None:
        """Seconds between two tokens of one sequence."""
        return None if self.decode is None else self.decode.lower

    @property
    def tokens_per_second(self) -> Size | None:
        """New tokens a second of the whole batch, on all chips that share the model."""
        return None if self.decode is None else self.batch / self.decode.lower

    @property
    def expected_tokens_per_second(self) -> Size | None:
        """New tokens a second of the whole batch by what to expect of a decode step; None where that is not known.

        >>> from roofline import llm
        >>> found = llm("llama-3-8b", on="h100", batch=64, context=4096, estimate=True)
        >>> round(found.expected_tokens_per_second / found.tokens_per_second, 2)
        0.84
        """
        known = self.decode is not None and self.decode.expectation is not None and self.decode.estimate is not None
        return self.batch / self.decode.expectation.value if known else None

    @property
    def memory(self) -> Footprint:
        """What the larger of the two steps needs, part by part; of decode, where others prefill."""
        phases = self.phases.values() if self.prefill_server is None else [self.decode]
        found = [phase.footprint for phase in phases if phase.footprint]
        parts = {name: maximum(*(each.parts[name] for each in found)) for name in found[0].parts}
        return Footprint(parts, found[0].level, found[0].capacity)

    @property
    def fits(self) -> Any:
        """Whether the larger of the two steps fits the memory of a chip; None where its capacity is not known."""
        return self.memory.fits

    def compute_bound_from(self, context: int | None = None) -> dict[str, int | None] | None:
        """The batches from which decode is compute-bound, as a whole and for the matrices alone; None: at no batch.

        After ``context`` tokens: by default those asked for, where that is one number.
        """
        context = self.decode.sizes["context"] if context is None and self.decode is not None else context
        if self.decode is None or not isinstance(context, int) or self.ways.pipeline > 1 or not self.decode.ops:
            return None
        counted = {**self._counted, "context": context}
        return {
            name: compute_bound_batch(self._local, self.decode.machine, attention=attention, **counted)
            for name, attention in (("whole", True), ("matrices", False))
        }

    @property
    def _counted(self) -> dict[str, Any]:
        """How operations of a decode step are counted, as options that ask the same."""
        decode: Any = self.decode
        return {**self.formats, **_bytes_of(decode), "context": decode.sizes["context"]}

    @property
    def moved(self) -> dict[str, Size] | None:
        """Bytes that one chip moves in a decode step: ``weights``, ``kv``, ``states``, ``rest``; None over stages.

        >>> round(serve("llama-3-8b", on="h100", batch=8, context=4096).moved["kv"] / 1e9, 2)
        4.3
        """
        is_known = self.decode is not None and not isinstance(self.decode, Pipelined)
        return operations.moved_by_part(self.decode) if is_known else None

    def idle_copies(self) -> str:
        """A word where fewer sequences decode than there are copies of the model, with what one copy over all takes."""
        batch, copies = self.batch, self.ways.copies
        if self.decode is None or not isinstance(batch, int) or batch >= copies or not self.memory.fits:
            return ""
        machine, sizes = self.decode.machine, self.decode.sizes
        laid = most_room(self.model, machine, Demand(batch, sizes["context"] + 1, self.formats))
        said = f"{batch:,} of {copies:,} copies of the model {'works' if batch == 1 else 'work'} at batch {batch:,}"
        if laid is None or laid.ways.copies >= copies:
            return f"{said}; the others wait"
        asked = {**self.asked_of("decode"), **laid.layout}
        asked = {name: value for name, value in asked.items() if name not in CHIPS or name in laid.layout}
        time = format_amount(step_bound(self.model, "decode", **asked).lower, "s")
        ways = " ".join(spelled(name, ways) for name, ways in laid.layout.items())
        return f"{said}, the others wait: {ways} splits the model over them, {time} a token at best"

    def where_it_flips(self) -> list[str]:
        """A line of the batches from which decode is compute-bound, and how many memory holds, where that is known."""
        asked: Any = None if self.decode is None else self.decode.sizes["context"]
        contexts = sorted({*map(int, asked.ravel().tolist())}) if is_array(asked) else [asked]
        looked = [contexts[index] for index in spread(len(contexts), MOST_CONTEXTS)]
        at = {context: self.compute_bound_from(context) for context in looked}
        flips = next(iter(at.values()))
        if flips is None:
            return []
        kept, copies = self.memory.parts.get("kv", 0), self.ways.copies
        grows = "keys and values grow" if is_array(kept) or kept else "what a sequence keeps grows"
        never = f"at no batch: {grows} with it{self._attention_against_ridge()}"
        starts = {context: each["whole"] for context, each in at.items() if each is not None}
        if all(batch is None for batch in starts.values()):
            whole = never
        else:
            differ = len({*starts.values()}) > 1
            starts = starts if differ else dict([next(iter(starts.items()))])
            after = {context: f" after {context:,} tokens" * differ for context in at}
            said = (f"{'at no batch' if n is None else f'from batch {n:,}'}{after[at]}" for at, n in starts.items())
            whole = in_a_row(list(said))
        alone = "at no batch"
        if flips["matrices"] is None:
            counted = {**self._counted, "context": contexts[0]}
            link = network_at_any_batch(self._local, self._phase.machine, **counted)
            alone += f": {link} takes longer than they do" if link else ""
        else:
            each = f" in all, {ceil_div(flips['matrices'], copies):,} on each copy" if copies > 1 else ""
            alone = f"from batch {flips['matrices']:,}{each}"
        memory, full = "", None if is_array(self._phase.lower) else self.full_from()
        if full and self.memory.fits is True:
            decoding = replace(self, prefill=None).full_from() or full
            memory = f"; memory holds batches up to about {decoding:,}"
            memory += f" ({full:,} with all their prompts in one prefill)" if full < decoding else ""
        of = f"; of {len(contexts):,} contexts {in_a_row([f'{each:,}' for each in looked])} were looked at"
        return [f"compute-bound {whole}; the matrices alone {alone}{memory}{of * (len(looked) < len(contexts))}"]

    def _attention_against_ridge(self) -> str:
        """FLOPs a byte of the attention of a decode step, which no batch moves, where they are below its ridge."""
        step = self.decode
        parts = [] if step is None else [part for part in step.ops if part.op.kind == "attention"]
        flops, moved = (sum(getattr(part, name) for part in parts) for name in ("flops", "bytes"))
        intensity: Any = flops / moved if parts and not is_zero(moved) else 0
        own_ridge: Any = None if step is None else _ridge_of(step.machine, [part.op for part in parts])
        intensity, own_ridge = (each.max() if is_array(each) else each for each in (intensity, own_ridge))
        if not (is_number(intensity) and is_number(own_ridge) and 0 < intensity < own_ridge):
            return ""
        said, against = (format_amount(each, "FLOP/B") for each in (intensity, own_ridge))
        return f", {said} in attention against a ridge of {against}"

    def full_from(self) -> int | None:
        """About the batch at which decoding at this context fills a chip's memory, with the prefill of as many prompts.

        None where that is not known.

        >>> [serve("llama-3-8b", on="h100", batch=8, context=8192, prompt=n).full_from() for n in (None, 8192)]
        [64, 37]
        """
        needed = None if self.decode is None or self.decode.footprint is None else self.memory
        if not isinstance(self.batch, int):
            return None
        return full_from(needed, self.model, self.batch, self.ways.data, (self.prefill, self.decode))

    def network_limit(self, phase: str) -> NetworkLimit | None:
        """Find how many chips may split a layer, or a model's experts, before the network binds in this phase.

        None where neither is split, where the layout has more than this split and copies, or where sizes are arrays.
        """
        found = self.prefill if phase == "prefill" else self.decode
        ways = self.ways
        kind = "tensor" if ways.tensor > 1 else "expert" if ways.expert > 1 else None
        if found is None or kind is None or not isinstance(self.batch, int):
            return None
        one = replace(ways, tensor=1) if kind == "tensor" else replace(ways, expert=1)
        if replace(one, data=1, exchange="", algorithm=None) != ONE_CHIP:
            return None  # another layout than the one that is solved for
        if phase == "prefill" and self.asked.get("images"):
            return None  # the tower is not split: the limit would be the language part's alone
        sizes = {name: found.sizes[name] for name in ("prompt", "past", "tokens", "context") if name in found.sizes}
        if not all(isinstance(size, int) for size in sizes.values()):
            return None
        batch = max(self.batch // ways.data, 1)
        chosen = {**_bytes_of(found), "algorithm": ways.algorithm, **self.formats}
        return network_limit(self.model, phase, found.machine, kind=kind, batch=batch, **sizes, **chosen)

    @kept
    def nearest(self) -> NearestFit | None:
        """What would fit where this does not: a batch, a context, a format, a number of chips, another chip."""
        needed = self.memory
        if needed.fits is not False or not self.model.causal or self.is_cut_by_times:
            return None
        prompt, read = None, 0
        if self.prefill is not None:
            kept = {name: value for name, value in self.asked.items() if name in PREFILL_ONLY and value is not None}
            prompt = {**kept, "prompt": self.prefill.sizes["prompt"]}
            read = _read(self.prefill.sizes)
        sizes = {"batch": whole(self.batch), "context": read if self.decode is None else self.decode.sizes["context"]}
        return nearest(self.model, self._phase.machine, ways=self.ways, prompt=prompt, **sizes, **self.formats)

    @property
    def is_cut_by_times(self) -> bool:
        """Whether stages are cut by what their layers take, which another batch or format changes."""
        return bool(self.ways.pipeline > 1 and self.ways.balance == "time")

    def fitting(self) -> str | None:
        """What would fit where this does not, in one sentence."""
        found = self.nearest()
        return None if found is None else _choices(found)

    @property
    def chips(self) -> Size:
        """Chips in all, those of a pool as well; an array where several layouts were asked for."""
        return self._layout["chips"]

    @property
    def cache_of_all(self) -> Size | None:
        """Bytes of the keys, values and states of all sequences after the step, before chips split or copy them."""
        sizes = self._phase.sizes
        tokens = _read(sizes) if self.decode is None else sizes["context"] + 1
        if not is_number(tokens) or not is_number(sizes["batch"]) or encoder_of(self.model) is not None:
            return None
        kept: Size = self.model.cache_bytes(tokens, batch=sizes["batch"], dtype=self.formats.get("kv"))
        return kept

    @property
    def _phase(self) -> Bound:
        """The phase that was asked for; of two that of decode."""
        phase: Bound = self.decode or self.prefill
        return phase

    @property
    def _layout(self) -> dict[str, Size]:
        """Numbers of chips by use, and in all; arrays where several layouts were asked for."""
        phase = self._phase
        used = {name: phase.sizes[name] for name in CHIPS if name in phase.sizes}
        chips = phase.machine.pooled * product(n for name, n in used.items() if name not in ("expert", "kv_parallel"))
        return {"chips": chips, **used}

    @property
    def _local(self) -> Model:
        """What one chip runs."""
        phase = self._phase
        return local_stages(self.model, phase.machine, self.ways, compares=False)[0][getattr(phase, "slowest", 0)]

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys in SI units (schema ``roofline/llm/1``); arrays are lists."""
        layout, near = {name: whole(number) for name, number in self._layout.items()}, self.nearest()
        found = with_formulas(
            {
                "schema": SCHEMA,
                "model": self.model.to_dict(),
                "batch": self.batch,
                "tensor": layout.get("tensor", 1),
                "expert": layout.get("expert", 1),
                "lora": None if self.model.adapters is None else self.model.adapters.rank,
                "adapters": 0 if self.model.adapters is None else self.model.adapters.number,
                "kv_block": self.model.kv_block,
                "host_layers": sum(layer.memory == "host" for layer in self.model.layers),
                "host_kv": self.model.kv_memory == "host",
                "parallelism": layout,
                **{name: getattr(self, name) for name in ("time_to_first_token", "time_per_token")},
                **{name: getattr(self, name) for name in ("tokens_per_second", "tokens_per_second_per_user")},
                "memory": {
                    **self.memory.amounts(),
                    "cache_of_all": self.cache_of_all,
                    "instead": None if near is None else _choices(near),
                    "nearest": None if near is None else near.to_dict(),
                },
                "compute_bound_from": self.compute_bound_from(),
                "moved": self.moved,
                "experts_touched": None if self.moved is None else operations.share_of_experts(self.decode),
            }
        )
        phases = {name: self.phases[name].to_dict() if name in self.phases else None for name in ("prefill", "decode")}
        served = {} if self.expectation is None else {"expectation": self.expectation.to_dict()}
        if self.expected_tokens_per_second is not None:
            served["expected_tokens_per_second"] = plain_data(self.expected_tokens_per_second)
        served |= {} if self.front is None else {"front": self.front.to_dict()}
        return found | phases | served | {each.key: plain_data(each.answer) for each in self.worked_out}


def _read(sizes: Mapping[str, Any]) -> Any:
    """Tokens of a sequence after its prompt: those in the cache before, and those of the prompt."""
    past = sizes.get("past")
    return sizes["prompt"] + (0 if past is None else past)


def _phase_in_words(name: str, phase: Bound, found: Serving) -> Iterator[Section]:
    """The time of a phase at best, its tokens per second, and the limits within which its kind stays the same."""
    sizes = {key: value for key, value in phase.sizes.items() if value is not None}
    asked = ", ".join(f"{key} {format_amount(value, '') if is_array(value) else value}" for key, value in sizes.items())
    lower, within, nothing = (format_amount(time, "s") for time in (phase.lower, phase.op_by_op, phase.upper))
    partly = ", for what is modelled: see incomplete below" if without(phase.incomplete, HEADLINE_GAPS) else ""
    other = operations.off_matrix_unit(phase)
    faster = "" if other is None else other.faster(
        phase, "activations",
        lambda to: serve_bound(found.model, name, **{**found.asked_of(name), "activations": to}).lower,
    )  # fmt: skip
    yield Sentences([f"{name} ({asked}): at best {lower}, {phase.kind} ({phase.bound_by}){faster}{partly}"])
    wider = capability("Serving.narrower_cache")(found) if name == "decode" else ""
    lines = [wider] if wider else []
    least = "at least " if getattr(phase, "micro_batches", 1) is None else ""
    lines.append(f"{least}{within} if only each operation overlaps within itself, {nothing} if nothing does")
    if phase.stated_estimate is not None:
        lines.append(f"{format_amount(phase.stated_estimate, 's')} by the stated overlap and overhead, an estimate")
    whole = name == "prefill" and encoder_of(found.model) is not None  # most of what is read is not of the prompt

    def made(time: Size) -> str:
        tokens = sizes["batch"] * (1 if whole else sizes.get("prompt", 1))
        every = f"{format_number(float(tokens / time))} {'sequences' if whole else 'tokens'}/s"
        return every if name == "prefill" else f"{every}, {format_number(float(1 / time))} tokens/s for each user"

    expected, moved = phase.expectation, phase.times.get(found.memory.level)
    then = f": {made(expected.value)}" if expected is not None and expected.is_known else ""
    used = "" if moved is None else f", {format_percent(moved / phase.lower)} of bandwidth"
    flops = "" if phase.utilisation is None else f" · {format_percent(phase.utilisation)} of peak FLOP/s"
    lines += [
        f"{made(phase.lower)}{flops}{used}",
        *([] if expected is None else [f"{expected.in_words()}{then}"]),
        *([] if phase.measured is None else [measured_in_words(phase) + _parts_asked(phase, name)]),
        *([] if other is None else [other.in_words("activations")]),
        *_over_several_chips(phase, found, name),
    ]
    if name == "decode":
        lines += [] if isinstance(phase, Pipelined) else [operations.moved_in_words(phase)]
        lines += found.where_it_flips()
    lines.append(operations.shares_of_modules(phase))
    yield Sentences(lines, indent=4)


def _parts_asked(phase: Bound, name: str) -> str:
    """How to ask for the parts of a decode step that was measured, beside what was; what may make it slow."""
    if name != "decode" or isinstance(phase, Pipelined):
        return ""
    if phase.expectation is None:
        return f"; {spelled('estimate', True)} says what kernels and the host take of such a step"
    is_slow = bool(phase.expectation.is_known and (phase.measured or 0) > phase.expectation.high)
    return ", as of prompts read between steps, or kernels started without CUDA graphs" * is_slow


def _over_several_chips(phase: Bound, found: Serving, name: str) -> list[str]:
    """The stages of a step over several chips, and how far it may be split before the network binds."""
    lines = []
    if isinstance(phase, Pipelined):
        latency = format_amount(phase.latency, "s")
        slow = format_amount(phase.stages[phase.slowest].lower, "s")
        number = phase.micro_batches
        several = "any number of" if number is None else number
        name = "micro-batch" + "es" * (number is None or number != 1)
        each, work = ("each takes", "") if number is not None else ("the smallest takes", "all of them take ")
        lines.append(
            f"{several} {name} over {len(phase.stages)} stages: {each} {latency} through all, {work}{slow} in the "
            f"slowest, number {phase.slowest + 1}: shares and operations below are of this stage"
        )
        lines.append("where it becomes compute-bound or network-bound is not worked out over stages")
    limit = found.network_limit(name)
    if limit is None:
        return lines
    ways = getattr(found.ways, limit.kind)
    if phase.expectation is None:
        return [*lines, limit.says(ways)]
    fewer = spelled(limit.kind, f"{ways // 2},{ways}" if spelled("on").startswith("-") else [ways // 2, ways])
    said = f"what to expect adds the latency of every hop, so fewer chips may be faster: {fewer} compares them"
    return [*lines, f"at best {limit.says(ways)}; {said}"]


def _choices(near: NearestFit) -> str:
    return "; or ".join(near.said) or "nothing near"


def _each_token_keeps(found: Serving) -> str:
    """The bytes of keys and values of one more token and of a sequence's states, in brackets; nothing without both."""
    each = found.model.kv_bytes_per_token(found.formats.get("kv"))
    states = found.model.state_bytes()
    windows = any(getattr(block, "window", None) for block in found.model.layer_blocks)
    over = "" if is_number(found.chips) and found.chips == 1 else ", before chips split or copy it"
    whole = found.cache_of_all
    if over and whole and is_number(whole):
        over = f", {format_amount(whole, 'B')} of all sequences{over}"
    until = ", until windows are full" if windows else ""
    kept = [f"{format_amount(each, 'B')} a token"] if each else []
    kept += [f"states {format_amount(states, 'B')} a sequence"] if states else []
    return f" ({', '.join(kept)}{over}{until})" if kept else ""


def _memory_in_words(found: Serving, near: NearestFit | None) -> Iterator[Section]:
    """The memory of the larger step by part, whether it fits, and what would fit."""
    needed = found.memory
    said = {"kv": _each_token_keeps(found)}
    parts = ", ".join(f"{name} {format_amount(value, 'B')}{said.get(name, '')}" for name, value in needed.parts.items())
    line = f"memory {format_amount(needed.total, 'B')}: {parts}"
    if needed.capacity is None:
        yield Sentences([f"{line}; the chip's capacity is not known"])
        return
    capacity = format_amount(needed.capacity, "B")
    if is_array(needed.total):
        fitting = int((needed.total <= needed.capacity).sum())
        fit = f"configurations {agree(fitting, 'fit')} {capacity} of {needed.level}"
        yield Sentences([line, f"{fitting} of {needed.total.size} {fit}"])
    elif needed.fits:
        free = format_amount(needed.capacity - needed.total, "B")
        yield Sentences([f"{line}; fits {capacity} of {needed.level}, {free} free"])
    else:
        over = format_amount(needed.total - needed.capacity, "B")
        yield Sentences([f"{line}; does not fit: {over} more than {needed.level} holds"])
        if found.is_cut_by_times:
            say = "the nearest that fits is not worked out over stages that are cut by their times"
            yield Sentences([say], indent=4)
        elif near is not None:
            yield Sentences([f"instead: {_choices(near)}"], indent=4)


def _configurations(found: Serving, *, as_data: bool = False) -> sections.Table:
    """One row a configuration where sizes are arrays; ``as_data`` with the ends of the interval that is expected."""
    columns = [SizeColumn(key, value, "size") for key, value in found.varying.items()]
    for name, phase in found.phases.items():
        ends = {"low": "low", "high": "high"} if as_data else {}
        times_expected = {} if phase.expectation is None else {"expected": "value", **ends}
        columns += [
            SizeColumn(f"{name} at best", phase.lower, "s", _TIMES[name]),
            *(
                SizeColumn(head, getattr(phase.expectation, at), "s", "prefill_" * (name == "prefill") + head)
                for head, at in times_expected.items()
            ),
            SizeColumn("bound by", phase.bound_by, meaning=f"{name}_bound_by"),
        ]
    if found.decode is not None:
        words = {"tokens/s": "tokens_per_second", "each user": "tokens_per_second_per_user"}
        rates = {"": (found.tokens_per_second, 1 / found.decode.lower)}
        if found.is_expected:
            expected = {"expected": (found.expected_tokens_per_second, 1 / found.decode.expectation.value)}
            rates = {**rates, **expected} if as_data else expected
        columns += [
            SizeColumn(f"{of} {name}".strip(), rate, "token/s", f"{of}_{word}".strip("_"))
            for of, both in rates.items()
            for (name, word), rate in zip(words.items(), both, strict=True)
        ]
    costs = {name: cost.each for name, cost in found.further.get("cost", {}).items() if cost.each is not None}
    fits = found.memory.fits
    for name, cost in costs.items():
        both = (DOLLARS, COST, "USD", cost.dollars), (ENERGY, JOULES, "J", cost.joules)
        for head, key, unit, value in both:
            if value is not None and (fits is None or fits.any()):
                told, meant = (f"{head} {name}", f"{name}_{key}") if len(costs) > 1 else (head, key)
                columns.append(SizeColumn(told, value, unit, meant))
    columns.append(SizeColumn("memory", found.memory.total, "B"))
    if found.memory.fits is not None:
        columns.append(SizeColumn("fits", found.memory.fits))
    if as_data and found.incomplete:
        columns.append(SizeColumn("incomplete", "; ".join(found.incomplete)))
    return configurations(columns)


@takes(serve_bound, but=("phase", "tokens", "chunk", "prompts", "last"))
def serve(
    model: Model | str,
    *,
    batch: Size = 1,
    prompt: Size | None = None,
    context: Size | None = None,
    phase: str | None = None,
    **options: Any,
) -> Serving:
    """Price the prefill of ``prompt`` tokens and a decode step after ``context`` tokens, whichever are given.

    Where only ``prompt`` is given, decode follows it: its context is ``past`` and the prompt. ``phase`` asks for one of
    the two alone. ``options`` are those of :func:`roofline.models.serve_bound`; ``past``, ``logits``, ``images`` and
    ``image_size`` concern prefill alone.

    >>> serve("llama-3-8b", on="h100", prompt=1024, phase="prefill").phases.keys()
    dict_keys(['prefill'])
    """
    if phase not in (None, *_ASKED_ALONE):
        raise InputError(f"no phase {phase!r}", hint=suggest(str(phase), _ASKED_ALONE, what="phases"))
    if phase == "prefill" and prompt is None:
        wrong = f"{spelled('phase', phase)} needs a prompt to read"
        raise InputError(wrong, hint=f"as in {spelled('prompt', 1024)}")
    if prompt is None and context is None:
        hint = f"give a prompt to prefill, a context to decode after, or both ({spelled('context', '8k')})"
        raise InputError("nothing is asked for", hint=hint)
    alone = next((name for name in PREFILL_ONLY if prompt is None and options.get(name) is not None), None)
    if alone is not None:
        raise InputError(f"{spelled(alone)} says nothing without {spelled('prompt')}", hint="add it, or leave it out")
    described = asked_model(model, options)
    later = {name: value for name, value in options.items() if name not in PREFILL_ONLY}
    reads = prompt is not None and phase != "decode"
    prefill = step_bound(described, "prefill", batch=batch, prompt=prompt, **options) if reads else None
    if not reads:
        check_decodes(described, "give a prompt")
    read = 0 if prompt is None else as_size(prompt) + as_size(options.get("past", 0))
    after = read if context is None else context
    decodes = described.causal and phase != "prefill"
    decode = step_bound(described, "decode", batch=batch, context=after, **later) if decodes else None
    if prefill and decode and isinstance(after, int) and isinstance(read, int) and after < read:
        said = f"decode of other sequences: {after:,} tokens of context are fewer than the {read:,} that prefill leaves"
        decode = replace(decode, assumptions=(*decode.assumptions, Assumption("model", said)))
    formats: dict[str, Any] = {name: options[name] for name in _FORMATS if name in options}
    one = prefill or decode
    ways = ONE_CHIP if one is None or several_layouts(options) else Parallelism.of_options(one.machine, options)
    return Serving(described, batch, prefill, decode, formats, ways, dict(options))


def _bytes_of(found: Bound) -> dict[str, Any]:
    """Which bytes an answer counts, as options that ask the same."""
    return {name: found.request[name] for name in ("policy", "tile") if name in found.request}


def _ridge_of(machine: Machine, ops: Sequence[Op]) -> Size | None:
    """The ridge of the formats that operations multiply in: F ÷ Σ F_dtype/ridge_dtype; None where one is not known."""
    products = [
        (key.dtype, amount * op.repeat)
        for op in ops
        for key, amount in op.work.items()
        if (key.quantity, key.place) == ("flops", "matrix")
    ]
    ridges = {dtype: ridge(machine, dtype) for dtype, _ in products}
    known = [(amount, found) for dtype, amount in products if (found := ridges[dtype])]
    if not known or len(known) < len(products):
        return None
    return sum(amount for amount, _ in known) / sum(amount / found for amount, found in known)
