"""What fits: the largest batch and context, the nearest configuration that fits, the fewest chips that hold a model.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> model = load("llama-2-7b")
>>> largest_batch(model, 80e9, context=4095), longest_context(model, 80e9, batch=16)
(30, 4095)

Where a model and its sequences do not fit, each of these changes is enough by itself:

>>> found = nearest(load("llama-3-70b"), chip("h100"), batch=8, context=8191)
>>> found.said
('fp8 weights with fp8 keys and values', 'int4 weights', '2 such chips hold it (tensor=2)', 'one NVIDIA B200 SXM',
"the weights of 46 of 80 layers in the host's memory (host_layers=46)")
>>> nearest(load("llama-3-8b"), chip("h100"), batch=100, context=8191).said[0]
'batch 64 at this context'
>>> nearest(load("llama-3-70b"), chip("h200:8"), batch=8, context=8191).said[0]
'split over the 8 (tensor=8)'

The fewest chips by memory alone, as a slice one can have, and when each has its share of heads and columns:

>>> found = fewest("llama-3-70b", on="h100", batch=32, context=8192)
>>> found.chips, round(found.ratio, 2), found.slice.target, found.split, round(found.left / 1e9, 1)
(3, 2.67, 'h100:3', 4, 113.7)

Source of the method for the fewest chips: "How To Scale Your Model", chapter 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, attributes
from roofline.bounds.api import take_target_options, target
from roofline.bounds.memory import Footprint
from roofline.errors import RooflineError
from roofline.frozen import dataclass, field, replace
from roofline.hardware import chip
from roofline.hardware.catalog import summaries
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import Slice, smallest_slice, with_chips
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import data_level, find_level
from roofline.models.blocks.attention import with_index_formats
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import check_options, decode
from roofline.models.parallelism.layout import ONE_CHIP, OPTIONS, Parallelism, pool
from roofline.models.serving import layouts
from roofline.models.serving.generation import single_size
from roofline.models.serving.layouts import Demand, PlacedModel
from roofline.models.serving.step import with_host_layers
from roofline.quantity import format_amount, format_number
from roofline.sections import BLANK, Headline, Section, Sentences, assumes, paragraph
from roofline.signatures import spelled, takes
from roofline.statements import Assumption

#: Narrower formats to try, for weights and for keys and values.
FORMATS = ("fp8", "int4")


@takes()
def largest_batch(model: Model | str, capacity: float, *, context: int, **options: Any) -> int:
    """The most sequences of ``context`` tokens that ``capacity`` bytes have room for in a decode step; 0 if none."""
    return Demand(1, context + 1, options).most_sequences(load(model), capacity)


@takes()
def longest_context(model: Model | str, capacity: float, *, batch: int, **options: Any) -> int:
    """The most cached tokens that ``batch`` sequences have room for, no more than the model takes; 0 if none."""
    described = load(model)
    longest = None if described.context is None else described.context - 1
    demand = Demand(batch, 1, options)

    def fits(context: int) -> bool:
        return (longest is None or context <= longest) and demand.fits(described, capacity, tokens=context + 1)

    return layouts.largest(fits)


@takes()
def outweighing_batch(
    model: Model | str, *, context: int, weights: str | None = None, kv: str | None = None
) -> int | None:
    """The fewest sequences of ``context`` tokens whose keys and values are more bytes than the weights.

    From there on a decode step reads more of keys and values than of weights. None where a sequence keeps none.

    >>> outweighing_batch("llama-2-13b", context=8192)
    4
    """
    described = load(model)
    each = described.cache_bytes(single_size("context", context), dtype=kv)
    return int(described.weight_bytes(weights) // each) + 1 if each else None


@dataclass(frozen=True, slots=True)
class NearestFit:
    """Changes that make it fit, each enough by itself; None or empty where no change of the kind does.

    ``batch`` fits at this context, ``context`` at this batch. ``formats`` are arguments of a step, and ``together`` two
    of them that are enough only with each other. ``chips`` hold it by memory alone, ``split`` chips divide its heads
    and columns, laid out as ``split_as`` says. ``chip`` names another chip: the one with the least memory that is
    enough, of the same vendor where there is one, in the same number ``have``. ``layouts`` are options of a step that
    lay each copy over more of the target's own chips, each enough by itself. ``unequal`` are options that lay it over
    ``chips`` chips in unequal parts, where no equal ones hold it there. ``host_layers``, the fewest of ``layers``
    layers that are enough, leave their weights in the host's memory.
    """

    batch: int | None
    context: int | None
    formats: tuple[tuple[str, str], ...]
    chips: int | None
    split: int | None
    chip: str | None
    have: int = 1
    layouts: tuple[Mapping[str, int], ...] = ()
    together: tuple[tuple[str, str], ...] = ()
    split_as: Mapping[str, int] = field(default_factory=dict)
    unequal: tuple[Mapping[str, int], ...] = ()
    host_layers: int | None = None
    layers: int = 0

    @property
    def said(self) -> tuple[str, ...]:
        """One phrase for each."""
        return tuple(self._phrases())

    @property
    def lead(self) -> str:
        """The first phrase; where that takes other chips, what fits on the same ones too."""
        first = next(iter(self.said), "")
        is_same = bool(self.layouts or self.batch or self.context or self.together or self.formats)
        here = "" if is_same or self.host_layers is None else self.said[-1]
        return f"{first}; or {here}" if here and here != first else first

    def to_dict(self) -> dict[str, Any]:
        """Every change under its name: formats by what they are of, layouts by option."""
        plain = attributes(
            self, "batch", "context", "chips", "split", "chip", "have", "layouts", "split_as", "unequal", "host_layers"
        )
        return {**plain, "formats": dict(self.formats), "together": dict(self.together)}

    def _phrases(self) -> Iterator[str]:
        if self.layouts:
            (layout,) = self.layouts
            ways = max(layout.get("tensor", 1) * layout.get("context_parallel", 1), layout.get("expert", 1))
            over = f"the {ways}" if ways == self.have else f"{ways} of the {self.have}"
            yield f"split over {over} ({_as_options(layout)})"
        if self.batch:
            yield f"batch {self.batch:,} at this context"
        elif self.context:
            yield f"a context of {self.context:,} at this batch"
        words = {"weights": "weights", "kv": "keys and values"}
        if self.together:
            yield " with ".join(f"{name} {words[part]}" for part, name in self.together)
        yield from (f"{name} {words[part]}" for part, name in self.formats)
        if self.chips is not None and not (self.layouts and self.split == self.have):
            how = f" ({_as_options(self.split_as)})" if self.split_as else ""
            if self.unequal:
                beside = f", {self.split:,} in equal parts{how}" if self.split else ""
                yield f"{self.chips:,} such chips hold it in unequal parts: {_unequally(self.unequal)}{beside}"
            elif self.split and self.chips <= self.have:  # memory enough, but heads and columns do not divide so
                yield f"{self.split:,} such chips hold it{how}"
            elif self.split in (None, self.chips):
                yield f"{self.chips:,} such chips {'hold it' if self.split else 'have the memory'}{how}"
            else:
                yield f"{self.chips:,} such chips have the memory, {self.split:,} split it evenly{how}"
        if self.chip is not None:
            yield f"one {self.chip}" if self.have == 1 else f"{self.have:,} x {self.chip}"
        if self.host_layers is not None:
            whose = f"{self.host_layers:,} of {self.layers:,} layers"
            yield f"the weights of {whose} in the host's memory ({spelled('host_layers', self.host_layers)})"


def _unequally(layouts: Sequence[Mapping[str, int]]) -> str:
    """Layouts in unequal parts, each with what is unequal."""
    how = {"tensor": "padded", "pipeline": "stages of layers"}
    return " or ".join(f"{_as_options(ways)} ({how[name]})" for ways in layouts for name in ways)


def _as_options(layout: Mapping[str, int]) -> str:
    return " ".join(spelled(name, ways) for name, ways in layout.items())


@takes()
def nearest(
    model: Model | str,
    machine: Machine | str,
    *,
    batch: int,
    context: int,
    ways: Parallelism | None = None,
    prompt: Mapping[str, Any] | None = None,
    **options: Any,
) -> NearestFit:
    """Find what fits in place of ``batch`` sequences with ``context`` tokens in the cache, laid out as ``ways`` says.

    ``options`` are those of :func:`roofline.models.decode`. ``prompt`` are the sizes and options of a prefill that has
    to fit too, those of :func:`roofline.models.prefill`.
    """
    model, machine = load(model), chip(machine)
    ways = ways or Parallelism.on(machine)
    model = with_index_formats(model, machine)
    demand, capacity = Demand(batch, context + 1, options, prompt), layouts.memory_capacity(machine)
    parts = layouts.stages_in_turns(model, machine, ways, batch)
    local, staged = parts[0], replace(demand, in_pieces=len(parts) > 1 and ways.micro_batches is None)

    def fits(**changed: Any) -> bool:
        return all(staged.fits(part, capacity, **changed) for part in parts)

    most = min(staged.most_sequences(part, capacity) for part in parts)
    longest = None if most else layouts.largest(lambda tokens: fits(tokens=tokens + 1))
    formats, together = _fitting_formats(fits, local, options)
    kept = {"sequence": ways.sequence, "shared": ways.shared}
    alone = layouts.single_chip(machine)
    least = layouts.least_chips(model, alone, demand, experts=ways.expert > 1, kept=kept)
    here = machine if machine.shape else with_chips(machine, ways.chips)
    own = None
    if here is not None and ways.chips > 1:
        is_least = least is not None and least.machine.shape == here.shape
        own = least if is_least else layouts.most_room(model, here, demand, experts=ways.expert > 1, kept=kept)
    needed = max(float(staged.footprint(part).total) for part in parts)
    whole = needed if local is model else float(demand.footprint(model).total)
    by_memory = -int(-whole // layouts.memory_capacity(alone))
    # the fewest chips with equal parts may be more
    fewer = least is None or least.chips > by_memory
    unequal = layouts.unequal_layouts(model, alone, by_memory, demand) if fewer else ()
    split_as = {"pool": by_memory} if least is None and model.in_outline else {} if least is None else least.layout
    return NearestFit(
        most or None, longest or None, formats, by_memory, None if least is None else least.chips,
        _larger_chip(machine, needed / machine.pooled), ways.chips * machine.pooled,
        () if own is None else (own.layout,), together, split_as,
        unequal, _host_layers(machine, local, demand) if len(parts) == 1 else None, len(local.layers),
    )  # fmt: skip


def _host_layers(machine: Machine, local: Model, demand: Demand) -> int | None:
    """The fewest layers whose weights the host's memory takes so that the rest fits; None where no number does.

    Nor is there one without a link to a host, or where it has something already.
    """
    capacity, every = layouts.memory_capacity(machine), len(local.layers)
    if find_level(machine, "host") is None or local.reads_host or local.in_outline:
        return None
    kept = layouts.largest(lambda few: few < every and demand.fits(with_host_layers(local, every - few), capacity))
    return every - kept if kept or demand.fits(with_host_layers(local, every), capacity) else None


_Formats = tuple[tuple[str, str], ...]


def _fitting_formats(fits: Callable[..., bool], model: Model, options: Any) -> tuple[_Formats, _Formats]:
    """The widest narrower format of each part that fits by itself, and one of both where neither alone does."""
    alone: dict[str, tuple[str, str]] = {}
    together: _Formats = ()
    for name in FORMATS:
        narrower = [part for part in ("weights", "kv") if _narrower(model, options, part, name)]
        enough = [part for part in narrower if fits(**{part: name})]
        for part in enough:
            alone.setdefault(part, (part, name))
        if not together and not alone and len(narrower) == 2 and fits(weights=name, kv=name):
            together = tuple((part, name) for part in narrower)
    return tuple(alone[part] for part in ("weights", "kv") if part in alone), together


def _narrower(model: Model, options: Any, part: str, name: str) -> bool:
    """Whether a format has fewer bits than the one in use. False for weights that a checkpoint quantises itself."""
    now = options.get(part) or ("" if part == "weights" and model.quantisation else model.dtype)
    return bool(now) and dtypes.get(name).bits < dtypes.get(now).bits


def _larger_chip(machine: Machine, needed: float) -> str | None:
    """The catalog's first chip with the least memory of this kind that is enough; one of the same vendor first."""
    kind = data_level(machine).name
    found = [
        (other.vendor != machine.vendor, other.capacities[kind], other.name)
        for other in summaries()
        if not other.announced and other.capacities.get(kind, 0.0) >= needed
    ]
    return min(found, key=lambda each: each[:2])[2] if found else None


def _sequences(count: int) -> str:
    return f"{count:,} sequence{'s' * (count != 1)} of this context"


@dataclass(frozen=True, slots=True)
class LongestContext:
    """The longest context that memory has room for.

    Attributes
        ``target``, ``chips``  what holds it
        ``layout``   options of a step that lay the model over those chips
        ``batch``    sequences at once
        ``context``  tokens in the cache of each when decoding; 0: not one; None: what is kept does not grow with them
        ``trained``  tokens that the model was trained on; None where that is not known
        ``named``    the model, in words
    """

    target: str
    chips: int
    layout: Mapping[str, int]
    batch: int
    context: int | None
    trained: int | None
    named: str = "the model"

    def sentence(self) -> str:
        """How long it is, where, and what the model was trained on where that is less."""
        where = f"on {self.target}{' with ' * bool(self.layout)}{_as_options(self.layout)}"
        of = "one sequence" if self.batch == 1 else f"{self.batch:,} sequences"
        if self.context is None:
            return f"the context of {of} has no limit in memory {where}: what is kept does not grow with it"
        if not self.context:
            return f"no context of {of} fits {where}"
        less = f"; {self.beyond_training}" if self.beyond_training else ""
        return f"longest context of {of} {where}: {self.context:,} tokens{' each' * (self.batch > 1)}{less}"

    @property
    def beyond_training(self) -> str:
        """What the model was trained on, where that is less; else nothing."""
        beyond = self.trained is not None and self.context is not None and self.context >= self.trained
        return f"{self.named} was trained on {self.trained:,}" if beyond else ""

    def to_dict(self) -> dict[str, Any]:
        """Every fact under its name."""
        return attributes(self, "target", "chips", "layout", "batch", "context", "trained")


@dataclass(frozen=True, slots=True)
class GivenChips:
    """What weights leave on so many chips that share evenly.

    Attributes
        ``left``          bytes of all chips together; below 0 where the weights do not fit
        ``weights_each``  bytes of weights on each
        ``sequences``     of the context that was asked about beside the weights; None without one
        ``tokens``        of one sequence that fit beside the weights; None where nothing is kept of them
        ``pooled``        whether they are a pool, whose target is that of one chip
        ``host_layers``   where the weights do not fit, the fewest layers that the host's memory takes so that the rest
                          does, split over tensor; None where no number does
    """

    target: str
    chips: int
    left: float
    weights_each: float
    sequences: int | None
    tokens: int | None
    pooled: bool = False
    host_layers: int | None = None

    @property
    def left_each(self) -> float:
        """Bytes that weights leave on each chip."""
        return self.left / self.chips

    def sentence(self) -> str:
        """What is left, in words."""
        where = f"{self.chips:,} x {self.target}" if self.pooled else self.target
        if self.left < 0:
            ways = _as_options({"tensor": self.chips, "host_layers": self.host_layers or 0})
            host = f"; they do with {ways}" if self.host_layers else ""
            return f"on {where} weights do not fit: {format_amount(-self.left, 'B')} too many{host}"
        rest = f"{format_amount(self.left_each, 'B')} a chip, {format_amount(self.left, 'B')} in all"
        fit = "" if self.sequences is None else f": {_sequences(self.sequences)}"
        return f"on {where} weights take {format_amount(self.weights_each, 'B')} a chip and leave {rest}{fit}"

    def to_dict(self) -> dict[str, Any]:
        """Every fact under its name, in SI units."""
        plain = attributes(self, "target", "chips", "left", "left_each", "weights_each", "sequences", "tokens")
        return {**plain, "host_layers": self.host_layers}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FewestChips(Answer):
    """How many chips hold a model.

    Attributes
        ``needed``     bytes of all chips together, by part
        ``capacity``   bytes of one chip
        ``slice``      the least slice, or whole nodes, of so many chips; None where no links are known
        ``sequences``  how many sequences of this context the slice holds beside the weights
        ``laid``       the model laid over the fewest chips that hold it in equal parts: ``split`` chips, of which
                       :attr:`each` needs so much, by the options :attr:`layout`; None: none of those tried hold it
        ``given``      what weights leave on the chips of the target's own shape; None where it has none
        ``batch``, ``context``  sequences that were asked about and their tokens; 0: the weights alone
        ``placed``     the model where it is to run: on the target's own chips where they hold it, else on the fewest
                       that do; None where that is not worked out. :attr:`longest` is the longest context there
        ``unequal``    options that lay it over the slice in unequal parts, where no equal ones hold it there
    """

    model: Model
    machine: Machine
    needed: Footprint
    capacity: float
    slice: Slice | None
    sequences: int
    laid: PlacedModel | None
    given: GivenChips | None = None
    batch: int = 0
    context: int = 0
    placed: PlacedModel | None = None
    unequal: tuple[Mapping[str, int], ...] = ()

    @property
    def ratio(self) -> float:
        """Chips by memory alone, not rounded."""
        return float(self.needed.total) / self.capacity

    @property
    def chips(self) -> int:
        """Chips by memory alone."""
        return max(1, math.ceil(self.ratio))

    @property
    def split(self) -> int | None:
        """The fewest chips that hold it in equal parts."""
        return None if self.laid is None else self.laid.chips

    @property
    def layout(self) -> dict[str, int]:
        """The options that lay it over those chips."""
        return {} if self.laid is None else self.laid.layout

    @property
    def each(self) -> Footprint | None:
        """What one of those chips needs."""
        return None if self.laid is None else self.laid.each

    @property
    def longest(self) -> LongestContext | None:
        """The longest context of so many sequences, or of one."""
        at = self.placed
        if at is None or (self.model.in_outline and not self.model.kv_bytes_per_token()):
            return None
        batch = max(at.demand.batch, 1)
        named = self.model.checkpoint or "the model"
        return LongestContext(at.target, at.chips, at.layout, batch, at.longest, self.model.context, named)

    @property
    def have(self) -> int:
        """Chips of the slice."""
        return self.chips if self.slice is None else self.slice.chips

    @property
    def left(self) -> float:
        """Bytes of the slice that weights leave."""
        return self.have * self.capacity - float(self.needed.parts["weights"])

    @property
    def _where(self) -> str:
        return f"{self.chips:,} x {self.machine.name}" if self.slice is None else self.slice.target

    @property
    def least(self) -> str:
        """The least that holds it."""
        asked = f"batch {self.batch:,}, context {self.context:,}" if self.batch else "weights alone"
        if self.laid is None:
            return f"fits on {self._where} by memory ({asked})"
        ways = f" with {_as_options(self.layout)}" if self.layout else ""
        ways += f" in {self.laid.ways.copies:,} copies" if self.laid.ways.copies > 1 else ""
        return f"fits on {self.laid.target}{ways} ({asked}){self.fewer and f'; {self.fewer}'}"

    @property
    def fewer(self) -> str:
        """Why the fewest chips by memory are not those of the layout; empty where they are."""
        if self.split is None or self.split <= self.have:
            return ""
        if not self.unequal:
            return f"{self._where} has the memory, but no equal parts"
        return f"{self._where} holds it in unequal parts: {_unequally(self.unequal)}"

    @property
    def lead(self) -> str:
        """The answer in a line: the least that holds it, and what the chips given hold."""
        said = self.least
        if self.given is not None and self.given.left < 0:
            return f"{self.given.sentence()}; {said}"
        if self.given is not None and self.given.sequences is not None:
            return f"{said}; {self.given.target} holds {_sequences(self.given.sequences)}"
        if self.laid is not None and self.split == self.have and self.sequences:
            return f"{said}; {self.laid.target} holds {_sequences(self.sequences)}"
        return said

    def one_line(self) -> str:
        """Chips by memory, and split."""
        return f"FewestChips for {self.model.name}: {self.chips} x {self.machine.name}, split {self.split}"

    @property
    def beside_others(self) -> str:
        """What lets it stand beside others: a step."""
        return f"give {spelled('context', '8k')} or {spelled('prompt', '8k')}: the step on the fewest chips compares"

    def sections(self) -> tuple[Section, ...]:
        """What it fits on in a line, and how that comes about."""
        head = Headline(self.model.named, f"in memories of {self.machine.name}")
        lead = Sentences([self.lead, *self.longest_context()], "strong")
        return head, BLANK, lead, *self.details(), BLANK, assumes(self.assumptions)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What is stored in which format, and that all of the memory is the model's."""
        stored = {} if self.placed is None else self.placed.demand.options
        own, one = "as the model has them", format_amount(self.capacity, "B")
        kept = self.model.kv_bytes_per_token(stored.get("kv"))
        cached = f"keys and values {stored.get('kv') or own}, {format_amount(kept, 'B')} a token"
        cached = cached if kept or not self.model.in_outline else "keys and values not known"
        said = f"weights {stored.get('weights') or own}, {cached}"
        whole = f"all {one} of a chip are the model's: nothing is reserved for a runtime, graphs and fragments"
        room = Assumption("fit", f"{whole} (engines leave about 10%)")
        return Assumption("formats", said), room, *describe_given(self.machine)

    def explain(self) -> str:
        """What is needed part by part, and the source of the capacity that it is divided by."""
        level = data_level(self.machine)
        parts = [f"  {name} {format_amount(size, 'B')}" for name, size in self.needed.parts.items() if size]
        found = level.capacity
        said = "" if found is None else ", ".join(filter(None, (found.basis, found.source, found.date, found.note)))
        capacity = f"  {level.name} {format_amount(self.capacity, 'B')}  [{said}]"
        lines = [self.lead, *self.longest_context(), "", "needed in all", *parts, "", "capacity of a chip", capacity]
        return "\n".join([*lines, "", "assumes", *(f"  {line}" for line in self.assumptions)])

    @property
    def longest_prompt(self) -> int | None:
        """The longest prompts that so many sequences are read with together, whole, where that is less than decodes."""
        context = None if self.longest is None else self.longest.context
        found = None
        if context and self.placed is not None and self.model.causal and not self.model.in_outline:
            with suppress(RooflineError):
                found = self.placed.longest_prompt
        return found if found is not None and context is not None and found < context else None

    def longest_context(self) -> list[str]:
        """A line of the longest context, where it was worked out; and of the longest prompt, where that is shorter."""
        if self.longest is None:
            return []
        whole, several = self.longest_prompt, self.longest.batch > 1
        if whole is None:
            return [self.longest.sentence()]
        read = f"{self.longest.batch:,} prompts read together" if several else "a prompt read whole"
        later = "in turn or in chunks" if several else "in chunks"
        says = f"{read} may have {whole:,} tokens{' each' * several}: longer ones are read {later}"
        return [self.longest.sentence(), says]

    def details(self) -> tuple[Section, ...]:
        """Chips by memory, the least slice with what it has left, and the fewest that split the model."""
        total, one, left = (format_amount(size, "B") for size in (self.needed.total, self.capacity, self.left))
        held = f"{total} are {format_number(self.ratio)} times the {one} of one {self.machine.name}"
        lines = [f"{held}: {self.chips:,} {'holds' if self.chips == 1 else 'hold'} it by memory"]
        if self.slice is not None:
            nodes = f" on {self.slice.nodes} nodes" if self.slice.nodes > 1 else ""
            beside = f"; {_sequences(self.sequences)} fit{'s' * (self.sequences == 1)}" if self.sequences else ""
            lines.append(
                f"the smallest target of so many is {self.slice.target}{nodes}, where weights leave {left}{beside}"
            )
        if self.model.in_outline:
            lines.append("parts are taken as equal: a number of parameters does not say what there is to split")
        elif self.split is None or self.each is None:
            joined = self.slice is not None and with_chips(self.machine, self.slice.chips) is not None
            tried = f"up to {layouts.MOST_CHIPS:,}" if joined else "that are known to be joined"
            lines.append(f"in equal parts it fits no number of them {tried} (stages of layers not tried)")
        else:
            each = format_amount(self.each.total, "B")
            how = f" ({_as_options(self.layout)})" if self.layout else ""
            lines.append(f"in equal parts: {self.split:,}{how}, with {each} on each")
        if self.given is not None:
            lines.append(self.given.sentence())
        return paragraph("the fewest chips", lines)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        names = ("left", "sequences", "split", "layout", "each", "unequal", "given", "batch", "context", "longest")
        return {
            **attributes(self, "needed", "capacity", "ratio", "chips"),
            "slice": None if self.slice is None else self.slice._asdict(),
            **attributes(self, *names, "longest_prompt", "assumptions"),
        }


@takes()
def fewest(
    model: Model | str, *, on: str | Machine, batch: int = 0, context: int = 0, expert: int = False,
    prompt: Mapping[str, Any] | None = None, **options: Any,
) -> FewestChips:  # fmt: skip
    """Find the fewest chips of a kind that hold a model with ``batch`` sequences of ``context`` tokens.

    With no batch or no context only the weights count. Of a target with a shape the answer says too what its own chips
    have left beside the weights (``given``), and the fewest chips are of its kind. ``expert`` gives each chip whole
    experts. ``prompt`` are the sizes and options of a prefill that has to fit too, as :func:`nearest` takes them.
    ``longest`` is the longest context of ``batch`` sequences, or of one, laid out as options such as ``tensor`` say, or
    split over all chips of the target. Other ``options`` are those of :func:`roofline.models.decode` and of the target.

    >>> given = fewest("llama-3-70b", on="h100:8", context=8192).given
    >>> given.chips, round(given.left_each / 1e9, 1), given.sequences
    (8, 67.3, 200)
    >>> fewest("llama-3-8b", on="h100", batch=8).longest.sentence()
    'longest context of 8 sequences on h100: 65,688 tokens each'
    """
    described = load(model)
    batch, context = (single_size(name, size, zero=True) for name, size in (("batch", batch), ("context", context)))
    chosen = take_target_options(options)
    laid = {name: options.pop(name) for name in list(options) if name in OPTIONS and name != "algorithm"}
    check_options(options, decode)
    wanted = target(on, **chosen)
    machine = layouts.single_chip(wanted)
    described, capacity = with_index_formats(described, machine), layouts.memory_capacity(machine)
    demand = Demand(batch, context, options, prompt)
    needed = demand.footprint(described)
    ratio = float(needed.total) / capacity
    least = smallest_slice(machine, max(1, math.ceil(ratio)))
    have = max(1, math.ceil(ratio)) if least is None else least.chips
    is_kept = bool(context) and (not described.in_outline or described.kv_bytes_per_token() > 0)
    sequences = demand.most_sequences(described, have * capacity) if is_kept else 0
    kept = {"sequence": bool(laid.get("sequence_parallel")), "shared": laid.get("shared_experts") or "replicated"}
    split = layouts.least_chips(described, machine, demand, experts=bool(expert), kept=kept)
    if expert > 1:
        laid = {"expert": int(expert), **laid}
    is_least = not laid and split is not None and wanted.shape and split.machine.shape == wanted.shape
    own = split if is_least else _own(described, wanted, demand, laid, bool(expert))
    chips = wanted.pooled if wanted.pooled > 1 else wanted.chips
    given = None
    if chips > 1:
        room = demand.most_sequences(described, chips * capacity) if is_kept else None
        weights = float(needed.parts["weights"])
        left, each_has = chips * capacity - weights, weights / chips
        alone = own if batch < 2 else _own(described, wanted, replace(demand, batch=1), laid, bool(expert))
        tokens = None if alone is None else alone.longest
        in_host = _in_host(described, wanted, demand) if left < 0 else None
        given = GivenChips(wanted.target, chips, left, each_has, room, tokens, wanted.pooled > 1, in_host)
    if laid and own is not None and own.fits and (split is None or own.chips <= split.chips):
        split = own
    if split is None and described.in_outline and own is not None and not own.fits:
        own = PlacedModel(pool(machine, have), ONE_CHIP, described, demand, have * capacity)
    placed = own if own is None or own.fits or (laid and own.longest) else split or own
    asked = (batch, context) if batch and context else (0, context)
    unequal: tuple[dict[str, int], ...] = ()
    if least is not None and split is not None and split.chips > have and not expert:
        unequal = layouts.unequal_layouts(described, machine, have, demand)
    return FewestChips(described, machine, needed, capacity, least, sequences, split, given, *asked, placed, unequal)


def _in_host(model: Model, wanted: Machine, demand: Demand) -> int | None:
    """The fewest layers for the host's memory where the rest is split over all chips of a target."""
    with suppress(RooflineError):
        ways = Parallelism.on(wanted, tensor=wanted.chips)
        return _host_layers(wanted, layouts.lay_out(model, wanted, ways, demand).local, demand)
    return None


def _own(model: Model, wanted: Machine, demand: Demand, laid: Mapping[str, Any], experts: bool) -> PlacedModel | None:
    """A model on a target's own chips: laid out as given, or in the way that leaves most room, or sharing evenly.

    None over stages of layers.
    """
    if wanted.pooled == 1 and laid:
        ways = Parallelism.of_options(wanted, laid)
        sized = wanted if wanted.shape else with_chips(wanted, ways.chips) or wanted
        return None if ways.pipeline > 1 else layouts.lay_out(model, sized, ways, demand)
    for asked in (demand, replace(demand, tokens=0)) if wanted.chips > 1 else ():
        found = layouts.most_room(model, wanted, asked, experts=experts)
        if found is not None:
            return replace(found, demand=demand)
    return PlacedModel(wanted, ONE_CHIP, model, demand, layouts.memory_capacity(wanted) * wanted.chips)
