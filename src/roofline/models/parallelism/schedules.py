"""Pipeline schedules: how long stages wait for each other, and how many microbatches' activations they keep.

Layers are cut into ``stages``; a step runs ``microbatches`` through them, forward and back. With f, b and w the times
a stage takes for one microbatch's forward pass, the gradients of its inputs and those of its weights::

    gpipe         all forward, then all backward         idle (p − 1)·(f + b + w)              kept m
    1f1b          one forward, one backward in turn      idle (p − 1)·(f + b + w)              kept min(m, p − s)
    interleaved   v pieces of the model on each stage    idle (p − 1)·(f + b + w) / v          kept about p·(1 + 1/v)
    zb-h1         weight gradients fill the waits        idle (p − 1)·(f + b − min(f, b, w))   kept min(m, p)
    zb-h2         as zb-h1, with more forward ahead      idle (p − 1)·max(f, f + b − 2·min(f, b, w))
                                                         kept min(m, 2·p − 1)

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
many microbatches as stages, that of zb-h2, (p − 1)·(f + b − 2·w), for steps that overlap: a stage begins the next one
while later stages still run, and checks its update afterwards. Here all stages end a step before the next begins. The
forms hold for any times (zb-h2 above for 2·p − 1 microbatches or more, in the code for any number), as the step-by-step
simulation in the tests shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import le
from typing import Any

from roofline.errors import InputError, SizeError, check_one_of
from roofline.frozen import dataclass
from roofline.lazy import sympy
from roofline.sizes import Size, exact_div, floor_div, is_array, is_surely, is_symbol, maximum, minimum, round_up

#: Times of a forward pass, of the gradients of inputs and of those of weights.
_Passes = tuple[Size, Size, Size]


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
        >>> [schedule(name).idle(stages=4, microbatches=8, inputs=2) for name in ("1f1b", "zb-h1", "zb-h2")]
        [12, 6, 3]
        """
        if self.fills:
            filled = self.keeps(0, stages, microbatches, chunks) - 1
            waits = (stages - 1) * (forward + inputs) - filled * minimum(forward, inputs, weights)
            return maximum((stages - 1) * forward, waits)
        slot = forward + inputs + weights
        return (stages - 1) * exact_div(slot, chunks if self.splits else 1)

    def step(
        self,
        times: Sequence[_Passes],
        *,
        microbatches: Size,
        chunks: Size = 1,
        once: Sequence[Size] = (0,),
        whole: Sequence[_Passes] = (),
        shorten: Callable[[str, Size], Size] = lambda name, form: form,
    ) -> Size:
        """The least time of a step, with the times of the three passes of each stage, which need not be equal.

        No step is shorter than a stage's own passes after the waits for those before it, nor than one of stages that
        all take what the fastest does; for equal stages it is exactly that long. ``once`` is what each stage does
        beside its microbatches. ``whole`` are passes of the whole batch as one microbatch: with them it is the floor of
        this number of microbatches or fewer, where ``times`` are those of the smallest: no stage does less than all
        of it at once, nor than each of n does by itself. ``shorten`` gives forms that stand in it often symbols
        of their own.

        >>> schedule("1f1b").step([(1, 1, 1), (1, 1, 1), (2, 2, 2)], microbatches=8)
        54
        >>> schedule("1f1b").step([(1, 1, 1)] * 3, microbatches=8, whole=[(7, 7, 7)] * 3)
        27
        """
        stages, alike = len(times), dict[Any, tuple[Size, Size, Size, Size]]()
        before: Size = 0
        beside = [*once] * (stages if len(once) == 1 else 1)
        for passes, own, more in zip(times, whole or times, beside, strict=True):
            slot = sum(passes)
            work = sum(own) if whole else microbatches * slot
            # of stages that do the same the last one waits most
            alike[id(passes), id(own), id(more)] = before, slot, work, more
            before = before + (passes[0] if self.fills else exact_div(slot, chunks if self.splits else 1))
        longest = maximum(*(waits + work + more for waits, _, work, more in alike.values()))
        least = [minimum(*passes) for passes in zip(*times, strict=True)]
        each, fewest = [(waits, slot) for waits, slot, *_ in alike.values()], minimum(*beside)
        if whole and self.fills:
            # these stand in it often; times are of one resource, and those of ``once`` add to them
            least = [shorten("least", time) for time in least]
            each = [(shorten("wait", waits + more), shorten("slot", slot)) for waits, slot, _, more in alike.values()]
        equal = {"stages": stages, "chunks": chunks, "forward": least[0], "inputs": least[1], "weights": least[2]}
        if not whole:
            return maximum(longest, self.idle(microbatches=microbatches, **equal) + microbatches * sum(least) + fewest)
        at_once = sum(minimum(*passes) for passes in zip(*whole, strict=True)) + fewest
        numbers: Sequence[Size] = (minimum(stages, microbatches),) if self.splits else (1,)  # more wait no less
        if self.fills:
            at_once, most = shorten("least", at_once), self.keeps(0, stages, microbatches, chunks)
            near = shorten("number", floor_div(self._best_number(each, least, at_once, fewest, stages), 1))
            numbers = [shorten("number", minimum(most, maximum(1, number))) for number in (near, near + 1)]
        found = []
        for count in numbers:
            several, apart = self.fills or self.splits, fewest if self.fills else 0
            one_by_one = [waits + count * slot for waits, slot in each] if several else []
            busy = maximum(at_once, count * sum(least) + apart) if several else at_once
            found.append(maximum(self.idle(microbatches=count, **equal) + busy, *one_by_one))
        return maximum(longest, minimum(*found))

    @staticmethod
    def _best_number(
        each: Sequence[tuple[Size, Size]], least: Sequence[Size], at_once: Size, fewest: Size, stages: int
    ) -> Size:
        """Microbatches, not rounded, of which a step of the whole batch takes the least time, were they of any size.

        Each more fills a wait of the shortest pass. That helps until another form of the time, none of which falls with
        their number, is as long as that of the waits and the batch at once: the first that is.
        """
        filled = minimum(*least)
        if is_surely(le, filled, 0):
            return 1
        waits = (stages - 1) * (least[0] + least[1]) + filled + at_once

        def where(form: Size, slope: Size) -> Size:
            apart = slope + filled
            return (waits - form) / (apart + 1 * (apart == 0))

        forms = [((stages - 1) * least[0] + at_once, 0), ((stages - 1) * least[0] + fewest, sum(least))]
        forms += [(waits - at_once + fewest, sum(least) - filled), *each]
        return minimum(*(where(form, slope) for form, slope in forms))

    def bubble(self, *, stages: Size, microbatches: Size, chunks: Size = 1) -> Size:
        """The share of a step that a stage waits, each of the three passes taking equally long."""
        idle = self.idle(stages=stages, microbatches=microbatches, chunks=chunks)
        share = idle / (idle + 3 * microbatches)
        if is_symbol(share):
            return sympy.factor(share)
        return share

    def microbatches_in_flight(self, stage: Size, *, stages: Size, microbatches: Size, chunks: Size = 1) -> Size:
        """How many microbatches' activations of all its layers a stage (from 0) keeps at most."""
        if not self.splits:
            return self.keeps(stage, stages, microbatches, chunks)
        return exact_div(self.keeps(stage, stages, microbatches * chunks, chunks), chunks)

    def one_a_sequence(self, sequences: Size, stages: Size) -> Size:
        """Microbatches of so many sequences of a copy where no number is given: one a sequence, as many as run evenly.

        >>> [schedule(name).one_a_sequence(7.5, 4) for name in ("1f1b", "interleaved")]
        [7, 4]
        """
        if is_symbol(sequences):
            return sequences  # they are whole: a closed form says so
        many = maximum(floor_div(sequences, 1), 1)
        many = many if is_array(many) else int(many)
        return maximum(many - many % stages, stages) if self.splits else many

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


def _all(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    return microbatches


def _pieces(stage: Size, stages: Size, microbatches: Size, chunks: Size) -> Size:
    """Pieces: those run before the first comes back, and the one at work."""
    return minimum(microbatches, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1)


SCHEDULES: Mapping[str, Schedule] = {
    "gpipe": Schedule("gpipe", "every microbatch forward, then every one backward", _all),
    "1f1b": Schedule(
        "1f1b", "one microbatch forward, one backward in turn",
        lambda stage, stages, microbatches, chunks: minimum(microbatches, stages - stage),
    ),
    "interleaved": Schedule("interleaved", "1f1b with several pieces of the model on each stage", _pieces, splits=True),
    "zb-h1": Schedule(
        "zb-h1", "weight gradients are run where a stage would wait",
        lambda stage, stages, microbatches, chunks: minimum(microbatches, stages), fills=True,
    ),
    "zb-h2": Schedule(
        "zb-h2",
        "as zb-h1, up to twice as many microbatches forward first; all stages end a step before the next begins",
        lambda stage, stages, microbatches, chunks: minimum(microbatches, 2 * stages - 1), fills=True,
    ),
}  # fmt: skip


def schedule(name: str) -> Schedule:
    """Find a schedule by name."""
    check_one_of(f"no pipeline schedule {name!r}", name, SCHEDULES, "schedules")
    return SCHEDULES[name]


def any_number(work: Sequence[Size], least: Sequence[Size], shares: Sequence[tuple[int, Sequence[Size]]] = ()) -> Size:
    """The least time of work that is done in any number of micro-batches of any sizes, one after the other.

    By stage, those with the most to do first: ``work`` is all of it, as one micro-batch; ``least`` what no micro-batch
    takes less than; of some numbers n, from few to many, ``shares`` are what one of an n-th of all takes. A stage
    begins when the first micro-batch has come through those before it. ::

        always                                   max over stages s of (work_s + Σ least of the others)
        the largest micro-batch is smaller than  max over stages s of (n · share_s + Σ least of the others)
        an n-th of all, but no smaller than an   of any q stages, each as the fastest of them: n · share, or work,
        o-th                                       + (q − 1) · the share of an o-th

    Stages that are alike take Σ t + (p − 1) · max t for micro-batches that take t; a larger one takes no less time, and
    no more for each of its tokens.

    >>> any_number([8, 8, 10], [1, 1, 2]), any_number([8, 8, 8], [1, 1, 1], [(3, [7, 7, 7])])
    (12, 22)
    """
    every, sizes = sum(least), [(1, work), *shares]

    def one_after_another(times: Sequence[Size]) -> Size:
        return maximum(*(time + every - own for time, own in zip(times, least, strict=True)))

    cases = []
    for (number, part), (_, smaller) in zip(sizes, [*shares, (0, least)], strict=True):
        busy = [maximum(all_of, number * time) for all_of, time in zip(work, part, strict=True)]
        fastest = zip(accumulate(busy, minimum), accumulate(smaller, minimum), strict=True)
        alike = {(id(time), id(wait)): time + q * wait for q, (time, wait) in enumerate([*fastest])}
        cases.append(maximum(one_after_another(busy), *alike.values()))
    return minimum(*cases)


def check_schedule(chosen: Schedule, *, stages: int, microbatches: Size, chunks: int) -> None:
    """Refuse what a schedule cannot run."""
    if chunks > 1 and not chosen.splits:
        raise SizeError(f"{chosen.name} has one piece of the model on each stage", hint="interleaved has several")
    if chosen.splits and isinstance(microbatches, int) and microbatches % stages:
        up = -(-microbatches // stages) * stages
        wrong = f"interleaved runs microbatches in rounds of {stages}, and {microbatches} is no multiple"
        raise SizeError(wrong, hint=f"{up} would do")
