"""Pipeline parallelism: the layers of each stage, and the schedules that run microbatches through the stages.

The first stage gathers the tokens' embeddings, the last has the output head; what lies between two stages is the
hidden state, which :mod:`roofline.models.parallelism.splitting` sends on.

>>> from roofline.models import load
>>> parts = split_into_stages(load("llama-2-7b"), 4)
>>> [(part.first, len(part.layers), part.embeds, part.head) for part in parts]
[(0, 8, True, False), (8, 8, False, False), (16, 8, False, False), (24, 8, False, True)]
>>> sum(part.parameters for part in parts) == load("llama-2-7b").parameters
True

Pipeline schedules: how long stages wait for each other, and how many microbatches' activations they keep.

Layers are cut into ``stages``; a step runs ``microbatches`` through them, forward and back. With f, b and w the times
a stage takes for one microbatch's forward pass, the gradients of its inputs and those of its weights::

    gpipe         all forward, then all backward         idle (p − 1)·(f + b + w)              kept m
    1f1b          one forward, one backward in turn      idle (p − 1)·(f + b + w)              kept min(m, p − s)
    interleaved   v pieces of the model on each stage    idle (p − 1)·(f + b + w) / v          kept about p·(1 + 1/v)
    zb-h1         weight gradients fill the waits        idle (p − 1)·(f + b − min(f, b, w))   kept min(m, p)

>>> one = schedule("1f1b")
>>> one.bubble(stages=8, microbatches=32), one.microbatches_in_flight(0, stages=8, microbatches=32)
(0.1794871794871795, 8)
>>> schedule("interleaved").bubble(stages=8, microbatches=32, chunks=4)
0.05185185185185185

Sizes may be numbers, arrays or symbols, times too:

>>> from roofline.sizes import symbol
>>> schedule("1f1b").bubble(stages=symbol("p"), microbatches=symbol("m"))
(p - 1)/(m + p - 1)
>>> schedule("1f1b").microbatches(0.05, stages=8)
133

Sources: GPipe, arXiv:1811.06965, section 2.3; PipeDream-Flush and the interleaved schedule, arXiv:2104.04473,
section 2.2; zero bubble, arXiv:2401.10241, section 2. The published forms of zb-h1 are for w ≤ f and w ≤ b and as
many microbatches as stages; these hold for any, as the step-by-step simulation in the tests shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from roofline.errors import InputError, SizeError, suggest
from roofline.models.description import Model
from roofline.sizes import Size, check, exact_div, is_array, is_symbol, maximum, minimum, round_up


def split_into_stages(
    model: Model, count: int, costs: Sequence[float] | None = None, *, first: float = 0, last: float = 0
) -> tuple[Model, ...]:
    """Cut a model into ``count`` stages of consecutive layers.

    ``costs``, ``first`` and ``last`` are those of :func:`balance_layers`; without costs, stages have as many layers.

    A table that the embedding and the head share (tied) stands in the first and in the last stage.
    """
    if check("pipeline", count) == 1:
        return (model,)
    if count > len(model.layers):
        raise SizeError(
            f"{model.name} has {len(model.layers)} layers, too few for {count} stages",
            hint=f"a pipeline of at most {len(model.layers)}",
        )
    from roofline.models.blocks.residual_streams import CopyToStreams

    streams = next((block.streams for block in model.before if isinstance(block, CopyToStreams)), 1)
    held = (
        balance_layers([1.0] * len(model.layers), count)
        if costs is None
        else balance_layers(costs, count, first=first, last=last)
    )
    ends = list(accumulate(held))
    found = []
    for number, (size, end) in enumerate(zip(held, ends, strict=True)):
        part = replace(model, first=model.first + end - size, layers=model.layers[end - size : end])
        if number > 0:
            part = replace(part, before=(), receives=streams * model.width, tied=False, vision=None)
        if number < count - 1:
            part = replace(part, after=(), final=(), head=False, extra=(), extra_blocks=())
        found.append(part)
    return tuple(found)


def balance_layers(costs: Sequence[float], count: int, *, first: float = 0, last: float = 0) -> tuple[int, ...]:
    """How many consecutive layers each of ``count`` stages holds so that the largest sum of costs is least.

    ``first`` and ``last`` are further costs of the first and the last stage (embedding, head). Every stage has a layer.
    Where all layers cost the same and nothing comes beside them, sizes differ by one at most, the smaller ones last:

    >>> balance_layers([1] * 10, 4), balance_layers([1] * 10, 4, last=2)
    ((3, 3, 2, 2), (3, 3, 3, 1))
    >>> balance_layers([5, 1, 1, 1, 1, 1], 2)
    (1, 5)
    """
    layers = len(costs)
    if len(set(costs)) == 1 and not first and not last:
        base, rest = divmod(layers, count)
        return tuple(base + (number < rest) for number in range(count))
    sums = [0.0, *accumulate(map(float, costs))]
    # the largest sum is the cost of some run of layers, with or without the further costs
    low, high = 0.0, sums[-1] + first + last
    best = _fill(sums, count, high, first, last)
    for _ in range(60):
        middle = (low + high) / 2
        found = _fill(sums, count, middle, first, last)
        low, high, best = (low, middle, found) if found else (middle, high, best)
    return tuple(best)


def _fill(sums: Sequence[float], count: int, most: float, first: float, last: float) -> list[int]:
    """Fill the stages in order up to ``most`` each, one layer at least left for every later one; empty if it fails."""
    layers, start = len(sums) - 1, 0
    found: list[int] = []
    for number in range(count):
        beside = (first if number == 0 else 0) + (last if number == count - 1 else 0)
        after = count - 1 - number
        end = layers if after == 0 else start + 1
        while after and end < layers - after and sums[end + 1] - sums[start] + beside <= most:
            end += 1
        if sums[end] - sums[start] + beside > most * (1 + 1e-12):
            return []
        found.append(end - start)
        start = end
    return found


@dataclass(frozen=True, slots=True)
class Schedule:
    """The order in which stages run the microbatches of a step.

    ``fills`` says that weight gradients are run where a stage would wait; ``splits`` that a stage may hold several
    pieces of the model.
    """

    name: str
    says: str
    keeps: Callable[[Size, Size, Size, Size], Size]
    fills: bool = False
    splits: bool = False

    @property
    def bounded(self) -> bool:
        """Whether the activations that a stage keeps stop growing with the number of microbatches."""
        return self.keeps is not _all

    def idle(
        self,
        *,
        stages: Size,
        microbatches: Size,
        chunks: Size = 1,
        forward: Size = 1,
        inputs: Size = 1,
        weights: Size = 1,
    ) -> Size:
        """Time a stage waits in a step; stages take equal times for each pass of one microbatch.

        >>> schedule("1f1b").idle(stages=4, microbatches=8), schedule("zb-h1").idle(stages=4, microbatches=8)
        (9, 3)
        """
        if self.fills:
            filled = minimum(microbatches, stages) - 1
            return (stages - 1) * (forward + inputs) - filled * minimum(forward, inputs, weights)
        slot = forward + inputs + weights
        return (stages - 1) * exact_div(slot, chunks if self.splits else 1)

    def step(
        self,
        times: Sequence[tuple[Size, Size, Size]],
        *,
        microbatches: Size,
        chunks: Size = 1,
        once: Sequence[Size] = (0,),
    ) -> Size:
        """The least time of a step, with the times of the three passes of each stage, which need not be equal.

        No step is shorter than a stage's own passes after the waits for those before it, nor than one of stages that
        all take what the fastest does; for equal stages it is exactly that long. ``once`` is what each stage does
        beside its microbatches.

        >>> schedule("1f1b").step([(1, 1, 1), (1, 1, 1), (2, 2, 2)], microbatches=8)
        54
        """
        found: list[Size] = []
        before: Size = 0
        beside = [*once] * (len(times) if len(once) == 1 else 1)
        for (forward, inputs, weights), more in zip(times, beside, strict=True):
            slot = forward + inputs + weights
            found.append(before + microbatches * slot + more)
            before = before + (forward if self.fills else exact_div(slot, chunks if self.splits else 1))
        least = [_least([each[index] for each in times]) for index in range(3)]
        equal = {"forward": least[0], "inputs": least[1], "weights": least[2]}
        idle = self.idle(stages=len(times), microbatches=microbatches, chunks=chunks, **equal)
        found.append(idle + microbatches * sum(least[1:], least[0]) + _least(beside))
        return maximum(*found)

    def bubble(self, *, stages: Size, microbatches: Size, chunks: Size = 1) -> Size:
        """The share of a step that a stage waits, each of the three passes taking equally long."""
        idle = self.idle(stages=stages, microbatches=microbatches, chunks=chunks)
        share = idle / (idle + 3 * microbatches)
        if is_symbol(share):
            import sympy

            return sympy.factor(share)
        return share

    def microbatches_in_flight(self, stage: Size, *, stages: Size, microbatches: Size, chunks: Size = 1) -> Size:
        """How many microbatches' activations of all its layers a stage (from 0) keeps at most."""
        if not self.splits:
            return self.keeps(stage, stages, microbatches, chunks)
        return exact_div(self.keeps(stage, stages, microbatches * chunks, chunks), chunks)

    def microbatches(self, share: Size, *, stages: Size, chunks: Size = 1) -> Size:
        """The fewest microbatches, as many as stages at least, whose bubble is no more than ``share``.

        A symbol gives the closed form, not rounded up.
        """
        if not (is_symbol(share) or is_array(share)) and not 0 < share < 1:
            raise InputError(f"a bubble of {share} is not a share", hint="above 0 and below 1, as in 0.05")
        wanted = self.idle(stages=stages, microbatches=stages, chunks=chunks) * (1 - share) / (3 * share)
        if is_symbol(wanted) or is_array(wanted):
            return wanted
        fewest = max(math.ceil(wanted * (1 - 1e-12)), stages)
        return round_up(fewest, int(stages)) if self.splits else fewest


def _least(values: Sequence[Size]) -> Size:
    return minimum(*values) if len(values) > 1 else values[0]


def _all(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    return microbatches


def _down(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    return minimum(microbatches, stages - stage)


def _pieces(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    """Pieces: those run before the first comes back, and the one at work."""
    return minimum(microbatches, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1)


def _level(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    return minimum(microbatches, stages)


SCHEDULES: Mapping[str, Schedule] = {
    "gpipe": Schedule("gpipe", "every microbatch forward, then every one backward", _all),
    "1f1b": Schedule("1f1b", "one microbatch forward, one backward in turn", _down),
    "interleaved": Schedule("interleaved", "1f1b with several pieces of the model on each stage", _pieces, splits=True),
    "zb-h1": Schedule("zb-h1", "weight gradients are run where a stage would wait", _level, fills=True),
}


def schedule(name: str) -> Schedule:
    """Find a schedule by name."""
    if name not in SCHEDULES:
        raise InputError(f"no pipeline schedule {name!r}", hint=suggest(name, SCHEDULES, what="schedules"))
    return SCHEDULES[name]


def check_schedule(chosen: Schedule, *, stages: int, microbatches: Size, chunks: int) -> None:
    """Refuse what a schedule cannot run."""
    if chunks > 1 and not chosen.splits:
        raise SizeError(f"{chosen.name} has one piece of the model on each stage", hint="interleaved has several")
    if chosen.splits and isinstance(microbatches, int) and microbatches % stages:
        up = -(-microbatches // stages) * stages
        raise SizeError(
            f"interleaved runs microbatches in rounds of {stages}, and {microbatches} is no multiple",
            hint=f"{up} would do",
        )
