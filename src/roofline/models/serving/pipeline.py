"""A step over the stages of a pipeline: how long it takes through all of them, and how often one ends.

::

    latency            Σ over stages: one micro-batch through all
    decode             max(m · slowest stage, latency): a sequence's next token enters when its last has come out
    prefill            when the last of m micro-batches leaves the last stage: (m − 1) · slowest + latency if alike

A stage takes up a micro-batch once it has it and has done the one before. The batch is dealt to micro-batches by
sequences, evenly; a prompt of fewer sequences is cut into chunks, each over the ones before it.

>>> from roofline.models.serving import serve_bound
>>> found = serve_bound("llama-3-70b", "decode", on="h100:8", tensor=2, pipeline=4, batch=32, context=4096)
>>> found.micro_batches, round(found.latency * 1e3, 1), round(found.lower * 1e3, 1)
(4, 22.3, 23.3)
>>> [len(stage.ops) for stage in found.stages][1:], found.slowest
([19, 19, 20], 3)

Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", arXiv:2104.04473.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from roofline.answers import plain_data
from roofline.bounds.bound import Bound, OpBound, decoded
from roofline.bounds.case import Case
from roofline.bounds.conventions import Conventions
from roofline.bounds.footprint import fullest
from roofline.errors import SizeError
from roofline.hardware.machine import Machine
from roofline.models.description import Model
from roofline.models.parallelism.layout import BALANCES, Parallelism, name_axes
from roofline.models.parallelism.splitting import Costs, local_stages, stack_parts
from roofline.models.serving.step import step_bound
from roofline.sizes import Size, floor_div, is_array, is_symbol, maximum, minimum
from roofline.statements import assume
from roofline.work import Key, Work


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pipelined(Bound):
    """The bound of one chip of the slowest stage over a whole step; the times of the step are those of all stages.

    ``stages`` are the bounds of one micro-batch on each stage (the last chunk of a prompt), ``latency`` is its time
    through all of them; ``lower``, ``op_by_op`` and ``upper`` are the step's: the time between two tokens of a sequence
    in decode, until the last prompt is through in prefill.
    """

    stages: tuple[Bound, ...] = ()
    micro_batches: Size = 1
    latency: Size = 0
    slowest: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, ``pipeline`` with what each stage takes beside those of a bound."""
        stages = [
            {"lower": plain_data(stage.lower), "bound_by": decoded(stage.bound_by), "memory": plain_data(_total(stage))}
            for stage in self.stages
        ]
        pipeline = {
            "micro_batches": plain_data(self.micro_batches),
            "latency": plain_data(self.latency),
            "slowest": self.slowest,
            "stages": stages,
        }
        return {**Bound.to_dict(self), "pipeline": pipeline}


def pipelined(
    model: Model, phase: str, machine: Machine, ways: Parallelism, batch: Size, conventions: Conventions,
    options: dict[str, Any],
) -> Bound:  # fmt: skip
    """Price a step over the stages of a pipeline; prompts too few for its stages, and others, each in their way."""

    def priced(local: Model, named: Machine, **changed: Any) -> Bound:
        return step_bound(local, phase, named, ways, batch, conventions, {**options, **changed})

    if ways.balance == "time" and any(map(is_symbol, (batch, *options.values()))):
        hint = "give every size a value, or balance='layers'"
        raise SizeError("stages are cut by their times, and a size is open", hint=hint)
    costs = _costs(model, machine, ways, priced) if ways.balance == "time" else None
    parts, named = local_stages(model, machine, ways, costs)
    local = parts[0].share.local(parts[0].share.group(batch))
    wanted = ways.pipeline if ways.micro_batches is None else ways.micro_batches
    few: Any = phase == "prefill" and not is_symbol(local) and local < wanted
    if is_array(few) and few.any() and not few.all():

        def ask(batch: Size, **sizes: Size) -> Bound:
            return pipelined(model, phase, machine, ways, batch, conventions, {**options, **sizes})

        return stack_parts(ask, {"batch": batch, **{n: options[n] for n in ("prompt", "past") if n in options}}, few)
    pieces = wanted if (few.all() if is_array(few) else few) else 1
    turns = 1 if pieces > 1 else minimum(wanted, local)
    parts = tuple(replace(part, share=part.share._replace(turns=turns)) for part in parts)
    chunks = _chunks(options, pieces) if pieces > 1 else [{}]
    every = options.get("logits") == "all"
    found = [
        [priced(part if chunk is chunks[-1] or every else _without_head(part), named, **chunk) for chunk in chunks]
        for part in parts
    ]
    count: Size = pieces if pieces > 1 else turns

    def through(time: Callable[[Bound], Size]) -> Size:
        times = [[time(bound) for bound in stage] for stage in found]
        return _ended(times) if pieces > 1 else _steady(phase, [stage[0] for stage in times], turns)

    slowest = _slowest([sum([bound.lower for bound in stage]) for stage in found], parts)
    base = _together(found[slowest], 1 if pieces > 1 else turns, conventions)
    lower = through(lambda bound: bound.lower)
    compute = None if base.attainable is None else base.flops / base.attainable
    stages = tuple(stage[-1] for stage in found)
    changed: dict[str, Any] = {
        "lower": lower,
        "op_by_op": through(lambda bound: bound.op_by_op),
        "upper": through(lambda bound: bound.upper),
        "estimate": None if base.estimate is None else through(lambda bound: bound.estimate),
        "attainable": None if compute is None else base.flops / lower,
        "utilisation": None if base.utilisation is None else base.utilisation * base.lower / lower,
        "footprint": fullest([stage.footprint for stage in stages if stage.footprint is not None]),
        "sizes": {**base.sizes, "batch": batch, **_asked(options, base)},
        "assumptions": (*base.assumptions, *assume("layout", _said(ways, parts, count, pieces, phase))),
    }
    same = {f.name: getattr(base, f.name) for f in fields(Bound)}
    latency = sum([stage.lower for stage in stages])
    return Pipelined(**{**same, **changed}, stages=stages, micro_batches=count, latency=latency, slowest=slowest)


def _steady(phase: str, times: Sequence[Size], turns: Size) -> Size:
    """The step's time where all micro-batches are alike."""
    latency, slow = sum(times), maximum(*times)
    return maximum(turns * slow, latency) if phase == "decode" else (turns - 1) * slow + latency


def _ended(times: Sequence[Sequence[Size]]) -> Size:
    """When the last of several unlike micro-batches leaves the last stage; ``times`` by stage, then by micro-batch."""
    before: list[Size] = [0] * len(times[0])
    for stage in times:
        free: Size = 0
        for number, time in enumerate(stage):
            free = maximum(before[number], free) + time
            before[number] = free
    return before[-1]


def _chunks(options: dict[str, Any], pieces: int) -> list[dict[str, Size]]:
    """The prompt in pieces as even as can be, each after those before it."""
    prompt, past = options["prompt"], options.get("past", 0)
    least = min(prompt.ravel().tolist()) if is_array(prompt) else prompt
    if not is_symbol(least) and least < pieces:
        raise SizeError(
            f"a prompt of {least:g} tokens makes no {pieces} chunks", hint=f"micro_batches {prompt} at most"
        )
    ends = [floor_div(prompt * number, pieces) for number in range(pieces + 1)]
    return [{"prompt": b - a, "past": past + a} for a, b in pairwise(ends)]


def _without_head(part: Model) -> Model:
    """A stage for a chunk that is not a prompt's last: no output is wanted."""
    return replace(part, head=False, final=(), after=()) if part.head else part


def _costs(model: Model, machine: Machine, ways: Parallelism, priced: Callable[..., Bound]) -> Costs:
    """What each layer takes, what comes before the first and after the last, each operation by itself."""
    from roofline.models.parallelism.block_splitting import split_by_layout

    named = name_axes(machine, {name: size for name, size in ways.axes.items() if size > 1})
    local = split_by_layout(model, replace(ways, pipeline=1), named)
    layers = [0.0] * len(model.layers)
    beside = [0.0, 0.0]
    numbers = {label: found for label, found, _ in local.layer_groups()}
    for part in priced(local, named).ops:
        inside = numbers.get(part.op.group, ())
        for number in inside:
            layers[number] += _sum_of(part.lower) / len(inside)
        if not inside:
            beside[any(layers)] += _sum_of(part.lower)
    return layers, beside[0], beside[1]


def _together(bounds: Sequence[Bound], times: Size, conventions: Conventions) -> Bound:
    """What a chip does in a step: its operations for every micro-batch."""
    first = bounds[-1]
    parts = [part for bound in bounds for part in bound.ops]
    return Case(
        [replace(part.op, repeat=part.op.repeat * times) for part in parts],
        first.machine,
        conventions,
        name=first.expression,
        sizes=first.sizes,
        memory=None if first.footprint is None else first.footprint.parts,
        moved=[_moved(part) for part in parts],
        assumptions=first.assumptions,
        request=first.request,
    ).answer()


def _moved(part: OpBound) -> Work:
    repeat = part.op.repeat
    return Work({Key(u.quantity, u.place): u.amount / repeat for u in part.uses if u.quantity == "bytes"})


def _slowest(amounts: Sequence[Size], parts: Sequence[Model]) -> int:
    """The stage with the largest time: of arrays in sum, of open sizes that of most layers, or the head."""
    if any(map(is_symbol, amounts)):
        return max(range(len(parts)), key=lambda number: (len(parts[number].layers), parts[number].head))
    return max(range(len(amounts)), key=lambda number: _sum_of(amounts[number]))


def _asked(options: dict[str, Any], base: Bound) -> dict[str, Any]:
    return {name: options[name] for name in base.sizes if name in options}


def _said(ways: Parallelism, parts: Sequence[Model], count: Size, pieces: int, phase: str) -> list[str]:
    layers = ", ".join(str(len(part.layers)) for part in parts)
    number = count if isinstance(count, int) else "as many"
    kind = "chunks of the prompt" if pieces > 1 else "micro-batches"
    said = [f"{ways.pipeline} stages of {layers} layers ({BALANCES[ways.balance]}); {number} {kind} in flight"]
    if phase == "decode":
        said.append("a sequence's next token starts when its last one has left the last stage")
    return said


def _sum_of(value: Size) -> float:
    """An amount as one number to compare by: the sum of an array."""
    return float(value.sum()) if is_array(value) else float(value)


def _total(bound: Bound) -> Size:
    return None if bound.footprint is None else bound.footprint.total


__all__ = ["Pipelined", "pipelined"]
