"""The layouts that are tried for what fits: every way to lay a model over so many chips, and the one with most room.

All that says what would fit asks here: the nearest that fits, the fewest chips, the longest context.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> found = least_chips(load("deepseek-v3"), chip("h200"), Demand(batch=32, tokens=32001, options={"weights": "fp8"}))
>>> found.chips, found.layout
(8, {'tensor': 8, 'kv_parallel': 8})
>>> found.longest
198708

Tried are all equal parts: chips that split heads and columns, of these or beside them chips that share the keys and
values of each sequence, experts over any of them, and copies with a part of the batch each. Stages of layers are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from roofline.bounds.crossing import first_where
from roofline.bounds.memory import Footprint
from roofline.errors import HardwareError, InputError, RooflineError, SizeError, quoted
from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import with_chips
from roofline.hardware.rate import data_level
from roofline.models.description import Model
from roofline.models.operations import check_options, decode, prefill
from roofline.models.parallelism.block_splitting import divides, has_experts
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_stages
from roofline.models.serving.step import needs
from roofline.signatures import setting

#: Chips over which a model is laid at most.
MOST_CHIPS = 1024

#: The search for a batch or context stops here; no chip holds as much.
_MOST = 1 << 40

#: A layout that is less simple has to hold a longer context by this factor.
_LONGER = 1.02


@dataclass(frozen=True)
class Demand:
    """What has to fit: ``batch`` sequences of ``tokens`` each after a decode step. With no batch the weights alone.

    ``options`` are those of :func:`roofline.models.decode`. ``prompt`` are the sizes and options of a prefill that has
    to fit too, those of :func:`roofline.models.prefill`; ``in_pieces`` it needs no more activations than a token's.
    """

    batch: int
    tokens: int
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt: Mapping[str, Any] | None = None
    in_pieces: bool = False

    def __post_init__(self) -> None:
        """Check what is said of the prefill."""
        if self.prompt is not None:
            check_options(self.prompt, prefill)
            if not isinstance(self.prompt.get("prompt"), int | float):
                hint = "sizes of a prefill, as in prompt={'prompt': 2048}"
                raise InputError(f"prompt is {quoted(self.prompt)}", hint=hint)

    def footprint(self, model: Model, **changed: Any) -> Footprint:
        """Memory of one chip's part of a model, by part in the larger step; ``changed`` are other sizes and options."""
        batch, tokens = changed.pop("batch", self.batch), changed.pop("tokens", self.tokens)
        options = {**self.options, **changed}
        decoding = decode_footprint(model, batch, tokens, options)
        if self.prompt is None or not batch or not tokens:
            return decoding
        length, past = self.prompt["prompt"], self.prompt.get("past", 0)
        if past + length < self.tokens:  # else the step is of other sequences, whose tokens say nothing of the prompt
            length = max(1, min(length, tokens - 1 - past))
        asked = {**options, **self.prompt, "prompt": length}
        ops = () if self.in_pieces and model.causal else prefill(model, batch=batch, **asked)
        before = needs(model, ops, past + length, batch, options)
        return Footprint({part: max(size, before.parts[part]) for part, size in decoding.parts.items()})

    def fits(self, model: Model, capacity: float, **changed: Any) -> bool:
        """Whether a chip has room; weights and cache are seen to first, which needs no operations."""
        batch, tokens = changed.get("batch", self.batch), changed.get("tokens", self.tokens)
        if batch and tokens and float(needs(model, (), tokens, batch, {**self.options, **changed}).total) > capacity:
            return False
        return float(self.footprint(model, **changed).total) <= capacity

    def most_sequences(self, model: Model, capacity: float) -> int:
        """The most sequences of these tokens that fit, with their prefill where one is asked for; 0 if none."""
        near = near_capacity(lambda batch: self.footprint(model, batch=batch), capacity, 1, 2)
        return largest(lambda batch: self.fits(model, capacity, batch=batch), near)

    def longest(self, model: Model, capacity: float) -> int | None:
        """The most cached tokens that each sequence has room for, of one where none are asked; 0: none; None: no limit.

        A step adds a token to them.
        """
        batch = max(self.batch, 1)

        def kept(past: int) -> Footprint:
            return needs(model, (), past + 1, batch, self.options)

        try:
            near = near_capacity(kept, capacity, 1, 1025)
            most = largest(lambda past: float(kept(past).total) <= capacity, near)
        except SizeError:
            return None
        # activations take a little of it
        near = near_capacity(
            lambda past: self.footprint(model, batch=batch, tokens=past + 1), capacity, most // 2, most
        )
        return largest(lambda past: self.fits(model, capacity, batch=batch, tokens=past + 1), near) if most else 0


@dataclass(frozen=True)
class PlacedModel:
    """A model on the chips of a ``machine``: the options that lay it there, one chip's part of it, what that needs."""

    machine: Machine
    ways: Parallelism
    local: Model
    demand: Demand
    capacity: float

    @property
    def chips(self) -> int:
        """Chips in all, those of a pool as well."""
        machine = self.machine
        return int(machine.chips if machine.shape else self.ways.chips * machine.pooled)

    @property
    def target(self) -> str:
        """The chips, as a question names them."""
        is_sized = self.chips == 1 or self.machine.shape
        return self.machine.target if is_sized else f"{self.chips} x {self.machine.target}"

    @property
    def layout(self) -> dict[str, int]:
        """Options of a step on this machine; the copies follow from its chips."""
        return {name: ways for name, ways in self.ways.sizes().items() if name != "data"}

    @cached_property
    def each(self) -> Footprint:
        """What one chip needs."""
        return self.demand.footprint(self.local)

    @property
    def fits(self) -> bool:
        """Whether one chip has room for it."""
        return self.demand.fits(self.local, self.capacity)

    @cached_property
    def longest(self) -> int | None:
        """The longest context, as :meth:`Demand.longest` has it."""
        return self.demand.longest(self.local, self.capacity)

    @cached_property
    def longest_prompt(self) -> int | None:
        """The longest prompts that all sequences can be read with together, whole; None where nothing limits them."""
        if not self.longest:
            return self.longest
        batch = max(self.demand.batch, 1)

        def asked(length: int) -> Demand:
            return replace(self.demand, prompt={**(self.demand.prompt or {}), "prompt": length})

        def needed(length: int) -> Footprint:
            return asked(length).footprint(self.local, batch=batch, tokens=length + 1)

        def fits(length: int) -> bool:
            return asked(length).fits(self.local, self.capacity, batch=batch, tokens=length + 1)

        if fits(self.longest):
            return self.longest
        return largest(fits, near_capacity(needed, self.capacity, 1, self.longest))

    def holds(self, past: int) -> bool:
        """Whether one chip has room for sequences of so many cached tokens."""
        return self.demand.fits(self.local, self.capacity, batch=max(self.demand.batch, 1), tokens=past + 1)


def lay_out(model: Model, machine: Machine, ways: Parallelism, demand: Demand) -> PlacedModel:
    """A model on a machine in one layout, without stages."""
    local = local_stages(model, machine, ways, compares=False)[0][0]
    return PlacedModel(machine, ways, local, demand, memory_capacity(machine))


def stages_in_turns(model: Model, machine: Machine, ways: Parallelism, batch: int) -> tuple[Model, ...]:
    """One chip's part of each stage of so many sequences, which stages take in turns; of one where there are none."""
    parts = local_stages(model, machine, ways)[0]
    if len(parts) == 1:
        return parts
    turns = min(ways.micro_batches or ways.pipeline, parts[0].share.group(batch))
    return tuple(replace(part, share=part.share._replace(turns=turns)) for part in parts)


def most_room(
    model: Model, machine: Machine, demand: Demand, *, experts: bool = False, kept: Mapping[str, Any] | None = None
) -> PlacedModel | None:
    """The layout over all chips of a machine that fits and holds the longest context, the simplest of equals.

    ``experts``: only those with whole experts over all chips. ``kept`` are fields of a layout that are no numbers.
    """
    capacity, best = memory_capacity(machine), None
    weights = demand.footprint(model, batch=0).parts["weights"]
    for ways in _every_layout(model, machine.chips, experts):
        if weights > capacity * max(ways["tensor"], ways["expert"]):
            continue
        try:
            found = lay_out(model, machine, Parallelism.on(machine, **(kept or {}), **ways), demand)
            if not found.fits:
                continue
        except RooflineError:
            continue
        if best is None or (best.longest is not None and found.holds(int(best.longest * _LONGER) + 1)):
            best = found
    return best


def least_chips(
    model: Model, machine: Machine, demand: Demand, *, experts: bool = False, kept: Mapping[str, Any] | None = None
) -> PlacedModel | None:
    """The fewest chips of a kind over which a model can be laid so that it fits, and the layout; None: none were found.

    ``machine`` is one chip.
    """
    needed = demand.footprint(model)
    at_least = (float(needed.parts["weights"]) + float(needed.parts["kv"])) / memory_capacity(machine)
    for count in range(max(1, int(at_least)), MOST_CHIPS + 1):
        chips = with_chips(machine, count)
        found = None if chips is None else most_room(model, chips, demand, experts=experts, kept=kept)
        if found is not None:
            return found
    return None


def unequal_layouts(model: Model, one: Machine, chips: int, demand: Demand) -> tuple[dict[str, int], ...]:
    """Layouts over so many chips like ``one`` that hold a model in unequal parts: padded heads, stages of layers."""
    machine, capacity, found = with_chips(one, chips), memory_capacity(one), []
    if machine is None:
        return ()
    for ways in ({"tensor": chips}, {"pipeline": chips}):
        with suppress(RooflineError):
            stages = local_stages(model, machine, Parallelism.on(machine, **ways), compares=False)[0]
            if all(demand.fits(stage, capacity) for stage in stages):
                found.append(ways)
    return tuple(found)


def _every_layout(model: Model, chips: int, experts: bool) -> Iterator[dict[str, int]]:
    """Every way to lay equal parts of a model over so many chips, the simplest first: few kinds, few copies."""
    # a number of parameters has nothing to split: each chip has a copy
    parts = [1] if model.in_outline else [count for count in range(1, chips + 1) if chips % count == 0]
    mixture = has_experts(model)
    found = []
    for tensor in parts:
        for context in parts:
            if chips % (tensor * context):
                continue
            wholes = [chips] if experts and mixture else parts if mixture else [1]
            for expert in (each for each in wholes if divides(model, tensor, each)):
                shared = [1] if context > 1 else [each for each in parts if tensor % each == 0]
                found += [{"tensor": tensor, "context": context, "kv": kv, "expert": expert} for kv in shared]
    simple = ("tensor", "expert", "kv", "context")

    def effort(ways: Mapping[str, int]) -> tuple[Any, ...]:
        used = [name for name in simple if ways[name] > 1]
        return len(used), -ways["tensor"] * ways["context"], [simple.index(name) for name in used], *ways.values()

    yield from sorted(found, key=effort)


def single_chip(machine: Machine) -> Machine:
    """One chip of a target of several, or of a pool."""
    machine = machine.alone or machine
    return replace(machine, shape=(), slices=1, mesh=None) if machine.shape else machine


def largest(fits: Callable[[int], bool], near: int = 1) -> int:
    """The largest whole number that fits, given that all smaller ones do; 0 if none. ``near`` is a guess at it.

    >>> largest(lambda count: count * count < 1000), largest(lambda count: count < 1000, near=998)
    (31, 999)
    """
    low, high, step = 0, near, 1
    if fits(near):
        low = near
        while fits(low + step):
            low, step = low + step, 2 * step
            if low + step > _MOST:
                raise SizeError("there is no largest one: nothing grows with it")
        high = low + step
    else:
        while high > step and not fits(high - step):
            high, step = high - step, 2 * step
        low = max(high - step, 0)
    return first_where(lambda count: not fits(count), low, high) - 1


def near_capacity(needed: Callable[[int], Footprint], capacity: float, low: int, high: int) -> int:
    """About how many fill a capacity: memory grows nearly evenly, so two of its values say where.

    >>> near_capacity(lambda count: Footprint({"kv": 3 * count}), 100.0, 1, 2)
    33
    """
    first, second = (float(needed(count).total) for count in (low, high))
    if second <= first:
        return 1
    return int(min(max(low + (capacity - first) * (high - low) / (second - first), 1), _MOST // 2))


def memory_capacity(machine: Machine) -> float:
    """Capacity in bytes of the level that a model's data lies in; an error where it is not known."""
    level = data_level(machine)
    if level.capacity is None:
        figure = f"{level.name}.capacity"
        hint = f"give it: {setting(figure, '80e9')}"
        raise HardwareError(f"the capacity of {level.name} of {machine.name} is not known", hint=hint)
    return level.capacity.value


def decode_footprint(model: Model, batch: int, context: int, options: Mapping[str, Any]) -> Footprint:
    """Memory of a decode step after which each sequence has ``context`` tokens. With no batch: of the weights alone."""
    if not batch or not context:
        stored = model.in_format(options.get("activations") or model.dtype)
        return Footprint({"weights": stored.weight_bytes(options.get("weights")), "kv": 0, "activations": 0})
    past = context - 1
    return needs(model, decode(model, batch=batch, context=past, **options), context, batch, options)
