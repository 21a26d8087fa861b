"""One copy of a model on its chips: which layouts and formats there are, and what each takes without load.

>>> from roofline.models import load
>>> from roofline.plans.question import Limits, Load, PlanQuestion
>>> limits = Limits(per_token=0.01)
>>> asked = PlanQuestion(load("llama-3-8b"), Load(4, 1024, 128), limits, ("h100",), (1, 2), objective="chips")
>>> [str(each) for each in replicas(asked)][:4]
['h100 bf16', 'h100 fp8', 'h100 fp8 kv fp8', 'h100:2 tensor 2 bf16']
>>> times = unloaded(asked, replicas(asked)[0])
>>> times.most, round(float(times.step[64]) * 1e3, 2), round(times.prompt * 1e3, 1), times.prompt_bound_by
(399, 7.36, 14.7, 'tensor')

This is the one place where a plan asks for times of steps.

In place of floors steps are taken as a framework is expected to run them, with an interval. A step of n sequences takes
``step_time + gap·K + request_time·n + decode_factor·Σ kernels(n)``, of K kernels without their starts; a prompt adds
``prefill_factor·Σ kernels`` (:mod:`roofline.estimates.steps`). Kernels are estimated at a few n; between these the
ratio to the floor is linear in log n. Without constants of steps for a chip the kernels alone are taken, which is said.

What a replica can give at each number of sequences, where its limits are, and what more of a figure is worth.

With n sequences always at work, a replica gives n / ((o − 1)·t(n) + n·h(n)) answers a second, and a token takes
t(n) + h(n)/(o − 1). For a dense model whose step moves W + n·K bytes and does n·F FLOPs, with memory at R and
arithmetic at P::

    sequences within τ        (R·(τ − t0) − W) / K
    sequences in memory       (M − W_stored) / K_stored
    compute-bound from        W / (F·R/P − K),  only where F·R/P > K
    tokens a second tend to   min(R/K, P/F)

>>> found = corners(times)
>>> found.within_limit, found.in_memory, found.compute_bound_from
(122, 399, None)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from roofline.answers import attributes, figures_of
from roofline.bounds.bound import Bound
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, RooflineError
from roofline.estimates.estimator import Estimator, assumptions_of
from roofline.estimates.served import (
    first_token_shapes,
    refuse_unmeasured,
    step_estimate,
    step_times,
    was_measured,
    weight_format,
)
from roofline.frozen import dataclass, field, once, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level
from roofline.models.description import Model
from roofline.models.parallelism.block_splitting import has_experts
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_stages
from roofline.models.serving import step_bound
from roofline.models.serving.bound import until_next
from roofline.models.serving.layouts import memory_capacity
from roofline.models.serving.speculation import Drafter, drafter
from roofline.plans.load import LatencyUnderLoad, LoadedServer, ServerTimes, request_times
from roofline.plans.question import LIMIT_NAMES, PlanQuestion
from roofline.quantity import format_amount, format_number
from roofline.sections import BLANK, Column, Headline, Row, Section, Sentences, Table, figures
from roofline.signatures import call, setting, spelled
from roofline.statements import untimed_parts

#: Formats that are tried, as options of a step: matrices and their arithmetic, then keys and values too.
FORMATS: dict[str, dict[str, str]] = {
    "bf16": {"weights": "bf16", "activations": "bf16"},
    "fp16": {"weights": "fp16", "compute": "fp16", "activations": "fp16"},
    "fp8": {"weights": "fp8", "compute": "fp8", "activations": "bf16"},
    "fp8 kv fp8": {"weights": "fp8", "compute": "fp8", "activations": "bf16", "kv": "fp8"},
    "nvfp4": {"weights": "nvfp4", "compute": "fp4", "activations": "bf16", "kv": "fp8"},
    "int8": {"weights": "int8", "compute": "int8", "activations": "bf16"},
    "int4": {"weights": "int4", "compute": "bf16", "activations": "bf16"},
    "stored": {},
    "stored kv fp8": {"kv": "fp8"},
}

#: Formats that are tried where none are named, those of them that a chip computes in; else the last resort. Of a
#: quantised checkpoint its own come first, with narrower keys and values where it says nothing of them.
USUAL = ("bf16", "fp8", "fp8 kv fp8")
QUANTISED = ("stored", "stored kv fp8", "fp8 kv fp8")
OLDER = "fp16"

#: Tokens of prompts that go beside a decode step in chunks.
CHUNKS = (512, 2048, 8192)

#: Ways of parallelism that are tried, where they divide the model.
TENSOR = (1, 2, 4, 8, 16, 32, 64)
PIPELINE = (1, 2, 4)
CONTEXT = (1, 2, 4, 8)

#: Prompts from which on chips that share a sequence are tried.
LONG_PROMPT = 32_768

#: Numbers of sequences up to which each is priced; between those further on, times are linear.
EVERY = 256


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of the model: how many chips share it, and in which formats. ``expert`` chips hold whole experts.

    ``draft`` is the length of its drafts, 0 where it does not speculate.
    """

    chip: str
    formats: str
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    draft: int = 0

    @property
    def copies(self) -> int:
        """Copies of attention that share experts."""
        return max(1, self.expert // (self.tensor * self.context))

    @property
    def chips(self) -> int:
        """Chips of one replica."""
        return self.tensor * self.pipeline * self.context * self.copies

    @property
    def target(self) -> str:
        """The chips as a target."""
        return self.chip if self.chips == 1 else f"{self.chip}:{self.chips}"

    @property
    def by_use(self) -> dict[str, int]:
        """Numbers of chips by use."""
        return {name: getattr(self, name) for name in ("tensor", "pipeline", "context", "expert")}

    @property
    def ways(self) -> dict[str, int]:
        """Numbers of chips as options of a step."""
        named = {"context": "context_parallel"}
        return {named.get(name, name): size for name, size in self.by_use.items() if size > 1}

    @property
    def layout(self) -> str:
        """The layout in words."""
        return " ".join(f"{name} {size}" for name, size in self.by_use.items() if size > 1) or "one chip"

    def __str__(self) -> str:
        return f"{self.target} {self.described}"

    @property
    def described(self) -> str:
        """Layout, formats and drafts in words."""
        layout = "" if self.chips == 1 else f"{self.layout} "
        return f"{layout}{self.formats}" + (f" draft {self.draft}" if self.draft else "")


def replicas(asked: PlanQuestion) -> tuple[Replica, ...]:
    """Every replica that is tried, fewer chips first. Whether the model divides so is found when it is priced."""
    found = []
    moe = has_experts(asked.model)
    context = CONTEXT if asked.load.prompt >= LONG_PROMPT else (1,)
    for name in asked.chips:
        for layout in _layouts(moe, max(asked.counts), context):
            found += [
                Replica(name, formats, draft=draft, **layout)
                for formats in _formats(asked, name)
                for draft in dict.fromkeys((0, *asked.drafts.lengths))
            ]
    order = {name: number for number, name in enumerate(asked.chips)}
    return tuple(sorted(found, key=lambda each: (each.chips, order[each.chip])))


def _layouts(moe: bool, most: int, contexts: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Layouts of up to so many chips: every product of the ways of parallelism."""
    for pipeline, context, tensor in itertools.product(PIPELINE, contexts, TENSOR):
        inside = tensor * context
        if inside * pipeline > most:
            continue
        layout = {"tensor": tensor, "pipeline": pipeline, "context": context}
        yield layout
        for expert in (inside * 2**power for power in range(10)) if moe else ():
            if 1 < expert <= most // pipeline and (tensor <= 8 or expert == inside):
                yield {**layout, "expert": expert}


def _formats(asked: PlanQuestion, name: str) -> tuple[str, ...]:
    """Formats that are tried on a chip: those named, or the usual ones; of a checkpoint in its own, that one too.

    Named ones that the chip does not compute in are turned down when they are priced.
    """
    if asked.formats:
        return asked.formats
    machine = asked.machine(name)
    own = asked.model.quantisation
    usual = USUAL if own is None else QUANTISED if own.kv is None else QUANTISED[::2]
    found = tuple(each for each in usual if _computes_in(machine, each))
    return found or ((OLDER,) if _computes_in(machine, OLDER) else USUAL[:1])


def _computes_in(machine: Machine, formats: str) -> bool:
    """Whether a chip has a peak of the arithmetic of a format."""
    arithmetic = FORMATS[formats].get("compute", "bf16")
    return any(arithmetic in unit.peaks for unit in machine.units)


@dataclass(frozen=True, slots=True, eq=False)
class UnloadedReplica:
    """What a replica takes without load: ``step[n]`` of n sequences, ``prompt``, and a step with a chunk beside.

    ``most`` is how many sequences fit, no more than asked for. ``memory`` is that of one chip with one sequence, where
    ``capacity`` is what an engine may take of it, and ``sequence`` what each further one needs.

    ``shared`` is how many prompts one step takes: by floors as many as take no longer than one, which wait for what is
    read once, weights; of what a library is expected to take as many as a chunk holds. ``prefill_factor`` is the time
    of a prefill in its engine against its kernels alone, ``pace`` how many times as long all takes: :meth:`slower`.
    With drafts a step makes and checks one, and ``prompt`` has the prefill of the model that drafts: ``drafting`` and
    ``drafted_prompt`` are these parts.
    """

    asked: PlanQuestion
    replica: Replica
    memory: Footprint
    capacity: float
    sequence: float
    most: int
    step: Any = None
    step_bound_by: tuple[str, ...] = ()
    prompt: float = 0.0
    prompt_bound_by: str = ""
    lag: float = 0.0
    assumptions: tuple[str, ...] = ()
    interval: tuple[float, float] = (1.0, 1.0)
    drafting: Any = 0.0
    drafted_prompt: float = 0.0
    shared: int = 1
    prefill_factor: float = 1.0
    pace: float = 1.0
    _mixed: dict[int, Any] = field(default_factory=dict)
    _mixed_bound_by: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def as_quick_as(self, other: UnloadedReplica) -> bool:
        """Whether all takes the same time and as many sequences fit."""
        alike = (self.most, self.prompt, self.lag) == (other.most, other.prompt, other.lag)
        return alike and np.array_equal(self.step, other.step)

    def slower(self, times: float) -> UnloadedReplica:
        """The same where everything takes so many times as long."""
        if not self.most:
            return self
        mixed = {size: self.mixed(size) * times for size in self.chunks}
        return replace(
            self, step=self.step * times, prompt=self.prompt * times, lag=self.lag * times, pace=self.pace * times,
            _mixed=mixed, _mixed_bound_by=self._mixed_bound_by,
        )  # fmt: skip

    @property
    def untimed(self) -> list[str]:
        """What of a step is not timed, and so not in any floor of it."""
        return untimed_parts(self.assumptions)

    def latency(self, loaded: LoadedServer, name: str) -> LatencyUnderLoad:
        """A time of a request under a load, by its limit's name, what is before and after the stream included."""
        if name == "per_token":
            return loaded.time_per_token
        return (loaded.time_to_first_token if name == "first_token" else loaded.end_to_end()) + self.lag

    def under(self, loaded: LoadedServer) -> dict[str, LatencyUnderLoad]:
        """The times of a request under a load."""
        return {name: self.latency(loaded, name) for name in LIMIT_NAMES}

    @property
    def alone(self) -> dict[str, float]:
        """The times of a request without load, the last token's of an answer at the percentile of the limits."""
        first, step, server = self.prompt + self.lag, float(self.step[1]), self.server()
        gap = step / server.tokens_per_step if self.asked.load.output > 1 else 0.0
        return request_times(first, gap, first + step * server.steps_within(self.asked.limits.share))

    def together(self, chunk: int) -> int:
        """Prompts that share a step with a chunk of so many tokens: as many as it holds and as are to share one."""
        return max(1, min(self.shared, int(chunk // self.asked.load.new_tokens)))

    @property
    def chunks(self) -> tuple[int, ...]:
        """Sizes of chunks that are tried beside decode steps: those up to the first that holds a whole prompt.

        Larger ones too where more prompts gain by sharing a step.
        """
        if self.replica.pipeline * self.replica.context > 1 or self.asked.load.output < 2:
            return ()
        new = self.asked.load.new_tokens
        pairs = zip((0, *CHUNKS), CHUNKS, strict=False)
        return tuple(size for before, size in pairs if before < new or self.together(size) > self.together(before))

    def mixed(self, chunk: int) -> Any:
        """Seconds of a step of n sequences with a chunk of so many tokens beside."""
        if chunk not in self._mixed:
            load, every = self.asked.load, dict.fromkeys((*self.chunks, chunk))
            counts = np.array([-(-load.new_tokens // size) for size in every])
            if self.asked.library is not None:
                # kernels of a chunk come after those of the step, of prompts that share it once
                several = [self.together(size) for size in every]
                chunks = [self._prefilled(m)[0] if m > 1 else self.prompt * self.replica.copies for m in several]
                found = [self.step + time / count for time, count in zip(chunks, counts, strict=True)]
            else:
                new = np.array([round(load.new_tokens / int(count)) for count in counts])
                past = load.cached_tokens + (load.new_tokens - new) // 2
                sizes = {"context": load.mean_context, "chunk": new, "past": past, "last": True}
                together = np.array([self.together(size) for size in every])
                if self.replica.copies > 1 or together.max() > 1:
                    sizes["prompts"] = self.replica.copies * together
                found, binds, _ = _by_sequences(self.asked, self.replica, "mixed", self.most, sizes | self._checked)
                self._mixed_bound_by.update(zip(every, binds, strict=True))
                found = found + self.drafting + self.drafted_prompt * (together / counts)[:, None]
            self._mixed.update(zip(every, found, strict=True))
        return self._mixed[chunk]

    def rate_bound_by(self, server: ServerTimes, chunk: int) -> str:
        """What binds that takes most of the time at the largest rate: prompts, steps with a chunk of one, or steps."""
        n, prompts = server.saturated
        if not server.decode_steps and server.together > 1:
            return self._mixed_bound_by[0][0]
        if not prompts or not chunk:
            return self.prompt_bound_by if prompts else self.step_bound_by[n]
        if self.asked.library is None:
            self.mixed(chunk)
            return self._mixed_bound_by[chunk][n]
        return self.prompt_bound_by if server.stall[n] > server.service[n] / 2 else self.step_bound_by[n]

    @property
    def sent_bytes(self) -> float:
        """Bytes that a prompt leaves for the chips that decode: its keys and values, and those of what drafts."""
        asked, prompt = self.asked, self.asked.load.prompt
        kept = float(asked.model.cache_bytes(prompt, dtype=FORMATS[self.replica.formats].get("kv")))
        if not self.replica.draft:
            return kept
        by = drafter(asked.model, asked.drafts.by, step_options(asked, self.replica), asked.drafts.weights)
        drafted = 0.0 if by.model is None else by.model.cache_bytes(prompt, dtype=by.options.get("kv"))
        return kept + float(drafted)

    @property
    def _checked(self) -> dict[str, int]:
        """Tokens of each sequence in a step, where they are several."""
        return {"tokens": self.replica.draft + 1} if self.replica.draft else {}

    def server(self, chunk: int = 0, *, most: int = 0, apart: bool = False) -> ServerTimes:
        """The replica as a server: prompts whole, in chunks of so many tokens, or on chips of their own.

        It has ``most`` sequences at once, or where this is 0 as many as fit.
        """
        load = self.asked.load
        if load.output < 2:
            return self.prefilling.limited_to(most or self.most)
        more: dict[str, Any] = {"lengths": load.lengths, "arrival_variation": load.arrival_variation}
        more["draft"] = self.asked.drafts.of(self.replica.draft)
        if chunk:
            together = self.together(chunk)
            chunks = -(-load.new_tokens // chunk) / (self.replica.copies * together)
            more |= {"mixed": self.mixed(chunk), "chunks": chunks, "together": together}
        made = ServerTimes.of(step=self.step, prompt=self.prompt, output=load.output, apart=apart, **more)
        return made.limited_to(most or self.most)

    @once
    def prefilling(self) -> ServerTimes:
        """The replica as a server that only prefills: prompts whole, as many in a step as gain by it."""
        copies, alone = self.replica.copies, self.prompt * self.replica.copies
        more: dict[str, Any] = {"output": 1, "arrival_variation": self.asked.load.arrival_variation}
        together = self.together_alone
        if together > 1:
            mixed = np.full(self.most + 1, self._mixed[0])
            several = np.unique([together, *(2**power for power in range(1, 16) if 2**power < together)])
            known = [self._prefilled(int(prompts))[0] for prompts in several[:-1]]
            # prompts of all copies at once: as many as copies take as long as one of each
            prompts = np.arange(copies * together + 1) / copies
            filled = np.interp(prompts, [1, *several], [alone, *known, self._mixed[0]])
            more |= {"mixed": mixed, "chunks": 1 / (copies * together), "together": together, "filled": filled}
        return ServerTimes.of(step=np.full(self.most + 1, alone), prompt=self.prompt, **more)

    @once
    def together_alone(self) -> int:
        """Prompts that share a step where nothing decodes: until what grows with them takes as long as one alone.

        What links carry grows as products do; weights are read once. An engine fills its step where that gains at all.
        """
        together, alone = self.together(max(CHUNKS)), self.prompt * self.replica.copies
        while together > 1:
            time, binds = self._prefilled(together)
            self._mixed[0], self._mixed_bound_by[0] = time, (binds,)
            if self.asked.library is not None:
                return together if time < together * alone else 1
            gaining = math.ceil(alone * (together - 1) / max(time - alone, 1e-12) - 1e-9)
            if gaining >= together:
                break
            together = gaining
        return together

    def _prefilled(self, together: int) -> tuple[float, str]:
        """Seconds of a step of so many prompts of each copy, where nothing decodes, and what binds."""
        prompts = self.replica.copies * together
        found = _prefill(self.asked, self.replica, prompts)
        floor, library = until_next(found), self.asked.library
        if library is None:
            time = floor + self.drafted_prompt * prompts
        else:
            time = max(self.prefill_factor * float(estimator_of(library).expect(found).value), floor)
        return self.pace * time, str(found.bound_by)


def unloaded(asked: PlanQuestion, replica: Replica) -> UnloadedReplica:
    """Price a replica without load; raises where the model does not divide so or no such chips are joined."""
    load, formats = asked.load, FORMATS[replica.formats]
    if asked.library is not None and replica.pipeline > 1:
        wrong = "what to expect over the stages of a pipeline is not known"
        raise InputError(wrong, hint=f"leave {spelled('estimate')} out")
    machine = asked.machine(replica.target)
    if not _computes_in(machine, replica.formats):
        named = formats.get("compute", "bf16")
        wrong = f"no peak of {named} arithmetic is known of {replica.chip}"
        peak = setting(named, "1e14")
        raise InputError(wrong, hint=f"choose other formats, {spelled('formats')}, or give its peak, as in {peak}")
    ways = Parallelism.on(machine, **replica.by_use)
    stages, _ = local_stages(asked.model, machine, ways)
    level, there = data_level(machine), memory_capacity(machine)
    kv, weights = formats.get("kv"), formats.get("weights")

    def kept(part: Model) -> float:
        return float(part.cache_bytes(load.peak_context, dtype=kv)) if part.kv_memory == "main" else 0.0

    capacity = there * asked.memory_share

    def room_for(part: Model) -> tuple[float, float]:
        beside, each = capacity - float(part.weight_bytes(weights)), kept(part)
        return min(beside, 0.0), beside / each if each else math.inf

    # the stage that has room for the fewest sequences, or lacks the most
    held = min(stages, key=room_for)
    sequence = kept(held)
    parts = {"weights": float(held.weight_bytes(weights)), "kv": sequence}
    draft = None if not replica.draft else DraftSteps.of(asked, replica, machine)
    if draft is not None:
        sequence += draft.sequence
        parts |= {"draft": draft.weights, "kv": sequence}
    rough = UnloadedReplica(asked, replica, Footprint(parts, level.name, there), capacity, sequence, 0)
    if sum(parts.values()) > capacity:
        return rough
    copies = replica.copies
    first = _prefill(asked, replica, copies)
    needed = first.footprint
    # engines prefill no more tokens at once than the largest chunk
    activations = 0.0 if needed is None else float(needed.parts["activations"])
    shared = _sharing(first, machine) if asked.library is None else max(1, int(max(CHUNKS) // load.new_tokens))
    several = shared if replica.pipeline * replica.context == 1 else 1  # beside steps the others take whole prompts
    parts["activations"] = activations * min(several, max(CHUNKS) / load.new_tokens)
    room = capacity - sum(parts.values()) + sequence
    most = min(asked.most_sequences, int(room / sequence) if sequence else asked.most_sequences) * copies
    rough = replace(rough, memory=Footprint(parts, level.name, there), most=max(most, 0))
    if most < 1:
        return rough
    decoded = {"context": load.mean_context}
    if load.output > 1 or asked.library is not None:
        (step,), (binds,), said = _by_sequences(asked, replica, "decode", most, decoded | rough._checked)
    else:  # the only token is prefill's
        step, binds, said = np.zeros(most + 1), (str(first.bound_by),) * (most + 1), _said(first)
    drafting, before, drafted = (0.0, 0.0, 0.0) if draft is None else draft.times(most)
    time = float(first.lower) + before
    follows = (until_next(first) + drafted) / copies
    by_floors = replace(
        rough, step=step + drafting, step_bound_by=binds, prompt=follows, prompt_bound_by=str(first.bound_by),
        lag=time - follows, assumptions=said, drafting=drafting, drafted_prompt=drafted / copies, shared=shared,
    )  # fmt: skip
    return by_floors if asked.library is None else expected_replica(asked.library, by_floors, first)


def _step(asked: PlanQuestion, replica: Replica, phase: str, by: Drafter | None = None, **sizes: Any) -> Bound:
    """A step of a replica, or ``by`` the model that drafts for it."""
    model, options = asked.model, step_options(asked, replica)
    if by is not None and by.model is not None:
        model, options = by.model, dict(by.options)
    return step_bound(model, phase, on=asked.machine(replica.target), **{**options, **sizes})


def _prefill(asked: PlanQuestion, replica: Replica, prompts: int) -> Bound:
    load = asked.load
    return _step(asked, replica, "prefill", batch=prompts, prompt=load.new_tokens, past=load.cached_tokens)


def _sharing(prompt: Bound, machine: Machine) -> int:
    """How many prompts in one step compute as long as one waits for other things."""
    computing = max((float(prompt.times.get(unit.name, 0.0)) for unit in machine.units), default=0.0)
    return max(1, math.ceil(float(prompt.lower) / computing - 1e-9)) if computing > 0 else 1


def step_options(asked: PlanQuestion, replica: Replica) -> dict[str, Any]:
    """The options of a step of a replica, on the machine of the question."""
    given = {name: value for name, value in asked.options.items() if name != "set"}
    return {**given, **FORMATS[replica.formats], **replica.ways}


def _by_sequences(
    asked: PlanQuestion, replica: Replica, phase: str, most: int, sizes: Mapping[str, Any], by: Drafter | None = None
) -> tuple[Any, list[tuple[str, ...]], tuple[str, ...]]:
    """Seconds of a step by its number of sequences, from 0 (as of 1), and what binds; and what was assumed.

    Of the model, or of the one that drafts.

    Where sizes are arrays there is a row of each for each of their entries: one question answers them all.
    """
    few = min(most, EVERY)
    numbers = np.unique(np.concatenate([np.arange(1, few + 1), np.geomspace(few, most, 64).round()]))
    rows = max(np.size(size) for size in sizes.values())
    flat = {name: np.repeat(size, len(numbers)) if np.ndim(size) else size for name, size in sizes.items()}
    answer = _step(asked, replica, phase, by, batch=np.tile(numbers, rows), **flat)
    shape = (rows, len(numbers))
    times = np.broadcast_to(np.asarray(answer.lower, dtype=np.float64), rows * len(numbers)).reshape(shape)
    every = np.arange(most + 1)
    step = np.stack([np.interp(every, numbers, row) for row in times])
    names = np.broadcast_to(np.asarray(answer.bound_by), rows * len(numbers)).reshape(shape)
    at = np.minimum(np.searchsorted(numbers, every), len(numbers) - 1)
    return step, list(map(tuple, names[:, at].tolist())), _said(answer)


def _said(answer: Bound) -> tuple[str, ...]:
    """What was assumed of a step, and what of it is not timed."""
    return (*answer.assumptions, *untimed_parts(answer.incomplete))


@dataclass(frozen=True, slots=True, eq=False)
class DraftSteps:
    """What drafts for a replica: its ``weights`` and a ``sequence`` in bytes on one chip."""

    asked: PlanQuestion
    replica: Replica
    by: Drafter
    weights: float = 0.0
    sequence: float = 0.0

    @classmethod
    def of(cls, asked: PlanQuestion, replica: Replica, machine: Machine) -> DraftSteps:
        """Find what drafts, and what it holds. A share of a step holds nothing that is known."""
        options = step_options(asked, replica)
        by = drafter(asked.model, asked.drafts.by, options, asked.drafts.weights, replica.draft)
        if by.held is None:
            return cls(asked, replica, by)
        options = dict(by.options)
        try:
            stages, _ = local_stages(by.held, machine, Parallelism.of_options(machine, options))
        except RooflineError as error:
            raise InputError(f"what drafts, {by.held.name}: {error}") from None
        kept = (part.cache_bytes(asked.load.peak_context, dtype=options.get("kv")) for part in stages)
        weights = max(float(part.weight_bytes(options.get("weights"))) for part in stages)
        return cls(asked, replica, by, weights, max(map(float, kept)))

    def times(self, most: int) -> tuple[Any, float, float]:
        """Seconds of a draft by the number of sequences, of the drafting model's prefill, and until its next one."""
        load, length = self.asked.load, self.replica.draft
        if self.by.model is None:
            (plain,), _, _ = _by_sequences(self.asked, self.replica, "decode", most, {"context": load.mean_context})
            return length * self.by.share * plain, 0.0, 0.0
        after = {"context": load.mean_context + np.arange(length)}
        each = _by_sequences(self.asked, self.replica, "decode", most, after, self.by)[0]
        sizes = {"batch": self.replica.copies, "prompt": load.new_tokens, "past": load.cached_tokens}
        first = _step(self.asked, self.replica, "prefill", self.by, logits="none", **sizes)
        return each.sum(axis=0), float(first.lower), until_next(first)


class UnknownConstantsError(InputError):
    """Constants that an expectation needs and nobody measured."""


class WithoutConstants(str):
    """Why the times of a replica are not known: the constants that nobody measured."""

    __slots__ = ()


def divides(asked: PlanQuestion, replica: Replica) -> UnloadedReplica | str:
    """Price a replica, or say why there is none such."""
    try:
        return unloaded(asked, replica)
    except UnknownConstantsError as error:
        return WithoutConstants(error)
    except RooflineError as error:
        return str(error)


#: Kernels are estimated of powers of so many sequences, and of the most.
RATIO = 4


@cache
def estimator_of(library: str) -> Estimator:
    """The estimator of a library."""
    return Estimator(library)


def expected_replica(library: str, by_floors: UnloadedReplica, prefill: Bound) -> UnloadedReplica:
    """A replica whose floors are known with the times to expect; ``prefill`` is the step of one prompt of each copy."""
    asked, replica, floors, most = by_floors.asked, by_floors.replica, by_floors.step, by_floors.most
    refuse_unmeasured(asked.model)
    estimator, copies = estimator_of(library), replica.copies
    # the same whatever fits, so that a little more memory changes no time
    points = np.unique([most, *(RATIO**power for power in range(16) if RATIO**power < most)])
    steps = (_step(asked, replica, "decode", batch=int(n), context=asked.load.mean_context) for n in points)
    kernels = list(map(estimator.expect, steps))

    def every(times: list[Any]) -> Any:
        logs = np.log(np.maximum(np.arange(most + 1), 1))
        return floors * np.interp(logs, np.log(points), np.array(times, float) / floors[points])

    prompt = estimator.expect(prefill)
    alone = float(prompt.value)
    machine = prefill.machine
    path = "mixture" if has_experts(asked.model) else "dense"
    runs, dtype = kernels[-1].runs, weight_format(kernels[-1])
    step = estimator.step_record("served_step", dtype, path, machine, float(runs))
    first = estimator.step_record("first_token", dtype, path, machine)
    low, high = (float(end / kernels[-1].value) for end in (kernels[-1].low, kernels[-1].high))
    said: list[str] = [*assumptions_of([*kernels, prompt])]
    unknown = next((each for each in (*kernels, prompt) if not each.is_known), None)
    if step is None or not was_measured(step, unknown is None, machine):
        if unknown is not None:
            kind = unknown.unknown[0].run.kind
            hint = f"leave {spelled('estimate')} out for a plan by floors; {call('calibrate')} makes constants"
            raise UnknownConstantsError(f"no constants of {library} are known for {kind} on {machine.name}", hint=hint)
        said.append(f"expected: kernels alone, as {library} has no constants of steps on this chip in this format")
        return replace(
            by_floors, step=every([each.value for each in kernels]), prompt=alone / copies, lag=alone - alone / copies,
            interval=(low, high), assumptions=tuple(dict.fromkeys(said)),
        )  # fmt: skip
    working = every([each.working_time for each in kernels])
    shapes = {"batch": np.arange(most + 1) / copies, "decode": working, "mixed": 0.0, "kernels": runs}
    times = np.maximum(step_times(step, shapes), floors)
    mixed = {"batch": 0.0, "decode": 0.0, "mixed": 1.0, "kernels": 0.0}
    factor = float(step_times(step, mixed, "prefill"))
    whole = max(factor * alone, float(prefill.lower))
    lag = whole - whole / copies
    if first is not None and was_measured(first, unknown is None, machine):
        lag += max(0.0, float(step_times(first, first_token_shapes(prompt, asked.load.prompt))) - whole)
    middle = max(1, most // 2)
    told = step_estimate(step, {**shapes, **{name: float(shapes[name][middle]) for name in ("batch", "decode")}}, 0.0)
    said.append(f"expected: steps by constants of {told.basis}, with their interval ({told.holds})")
    return replace(
        by_floors, step=times, prompt=whole / copies, lag=lag, interval=(told.low / told.value, told.high / told.value),
        assumptions=tuple(dict.fromkeys(said)), prefill_factor=factor,
    )  # fmt: skip


#: How much a figure is changed to see what it is worth.
MORE = 1.01

#: Steps of the search for the largest rate within the limits.
HALVINGS = 14

#: Loads of a curve.
LOADS = 16


@dataclass(frozen=True, slots=True)
class ReplicaCorners:
    """Where a replica's curve of throughput over time per token changes; sequences, and tokens a second of a replica.

    ``within_limit`` are the most sequences whose time per token keeps its limit, ``in_memory`` the most that fit,
    ``compute_bound_from`` the fewest whose step is bound by arithmetic (None: none that fit).
    """

    within_limit: int | None
    in_memory: int
    compute_bound_from: int | None
    tends_to: float

    def to_dict(self) -> dict[str, Any]:
        """The corners under their names."""
        return attributes(self, "within_limit", "in_memory", "compute_bound_from", "tends_to")


def decode_tends_to(times: UnloadedReplica, about: int) -> float:
    """Tokens a second as sequences grow without end, along the line through ``about`` of them and twice as many.

    For a mixture of experts, whose weights read grow with n, it holds near these steps.
    """
    asked, replica = times.asked, times.replica
    batches = np.array([about, 2 * about], dtype=np.float64) * replica.copies
    step = _step(asked, replica, "decode", batch=batches, context=asked.load.mean_context)
    level = step.machine.over or times.memory.level
    moved, moving, flops = (
        np.broadcast_to(np.asarray(each, dtype=np.float64), 2)
        for each in (step.bytes[level], step.times[level], step.flops)
    )
    busiest = max(float(np.max(use.time)) for use in step.uses if use.quantity == "flops")
    limits = ((moved, moved[0] / moving[0]), (flops, np.max(flops) / busiest))
    return min((float(rate * about / np.diff(each)[0]) for each, rate in limits if np.diff(each)), default=float("inf"))


def corners(times: UnloadedReplica) -> ReplicaCorners:
    """The corners of a replica, read from its steps; a step's own line gives what they tend to."""
    limit = times.asked.limits.per_token
    several = times.server().tokens_per_step
    quick = np.flatnonzero(times.step[1:] / several <= limit) if limit is not None else None
    within = None if quick is None else int(quick.max()) + 1 if len(quick) else 0
    memory = times.memory.level
    names = times.step_bound_by
    units = {unit.name for unit in times.asked.machine(times.replica.target).units}
    from_here = next((n for n in range(1, times.most + 1) if names[n] in units and names[n] != memory), None)
    half = max(1, times.most // 2)
    if times.replica.draft:  # of drafts and checks together: along their last steps
        more = float(times.step[-1] - times.step[half]) / max(times.most - half, 1)
        return ReplicaCorners(within, times.most, from_here, several / more if more > 0 else float("inf"))
    return ReplicaCorners(within, times.most, from_here, decode_tends_to(times, half))


@dataclass(frozen=True, slots=True, eq=False)
class ServingCurve:
    """A replica's unloaded curve: for each number of sequences its time per token and output tokens a second a chip."""

    replica: Replica
    sequences: Any
    per_token: Any
    per_chip: Any
    bound_by: tuple[str, ...]
    corners: ReplicaCorners

    def segments(self) -> Iterator[tuple[int, int, str]]:
        """Stretches of sequences with what binds there: first, last, and its name."""
        first = 0
        for at in range(1, len(self.bound_by) + 1):
            if at == len(self.bound_by) or self.bound_by[at] != self.bound_by[first]:
                yield int(self.sequences[first]), int(self.sequences[at - 1]), self.bound_by[first]
                first = at


def serving_curve(times: UnloadedReplica, server: ServerTimes) -> ServingCurve:
    """The curve of a replica that takes prompts in some way, every place always taken."""
    n = np.arange(1, server.most + 1)
    steps = max(server.decode_steps, 1.0)
    each = server.unloaded_gaps[1:]
    answers = n / (steps * server.step[1:] + n * server.stall[1:])
    made = answers * times.asked.load.output / times.replica.chips
    return ServingCurve(times.replica, n, each, made, times.step_bound_by[1 : server.most + 1], corners(times))


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCurve:
    """A replica under loads up to its largest rate: times at the percentile, sequences, output tokens a second a chip.

    An entry for each load, the least first.
    """

    replica: Replica
    per_token: Any
    first_token: Any
    in_flight: Any
    per_chip: Any


def loaded_curve(times: UnloadedReplica, server: ServerTimes, rate: float) -> LoadedCurve:
    """A replica under loads from a tenth of its largest rate, among them ``rate`` requests a second."""
    rates = np.append(np.linspace(0.1, 0.97, LOADS) * server.largest_rate, rate)
    found = []
    for each in np.unique(rates[rates < server.largest_rate]):
        loaded = server.under(float(each), times.asked.limits.share)
        first, gap = loaded.time_to_first_token.percentile + times.lag, loaded.time_per_token.percentile
        found.append((gap, first, loaded.in_flight, each * times.asked.load.output / times.replica.chips))
    return LoadedCurve(times.replica, *np.array(found).T)


def largest_rate_within(times: UnloadedReplica, server: ServerTimes) -> float:
    """The largest rate of requests at which one replica keeps the limits, by halving."""
    limits = times.asked.limits
    soonest_first = sorted(limits.items(), key=lambda each: each[0] != "per_token")  # it is worked out the soonest
    low, high = 0.0, server.largest_rate
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        loaded = server.under(rate, limits.share)
        kept = all(times.latency(loaded, name).percentile <= limit for name, limit in soonest_first)
        low, high = (rate, high) if kept else (low, rate)
    return low


def elasticities(asked: PlanQuestion, replica: Replica, chunk: int, most: int, copies: int) -> dict[str, float]:
    """Per cent more requests within the limits for one per cent more of a figure, one replica of some at its limits.

    Figures are those of the chip that a step meets: memory's bandwidth and capacity, peaks, links. One per cent off
    the price is one per cent off the cost, whatever else there is.
    """
    before = divides(asked, replica)
    if isinstance(before, str) or before.most < 1:
        return {}

    def server(times: UnloadedReplica, at_once: int) -> ServerTimes:
        return times.server(chunk, most=at_once).one_of(copies)

    own = server(before, 0 if most >= before.most else most)
    rate = largest_rate_within(before, own)
    found: dict[str, float] = {}
    for name, figure, value in _figures(asked, replica):
        given = figures_of(replica.target, asked.chips, asked.options).get("set", {})
        changed = replace(asked, options={**asked.options, "set": {**given, figure: value * MORE}})
        after = divides(changed, replica)
        if isinstance(after, str) or (asked.library is not None and after.as_quick_as(before)):
            continue  # constants that do not follow a figure say nothing of its worth
        if rate > 0:
            # where memory holds more, an engine may still admit as few as before
            counts = {min(most or before.most, after.most), 0 if most >= before.most else most}
            others = [server(after, each) for each in counts]
            alike = after.lag == before.lag and all(each.takes_as_long_as(own) for each in others)
            more = rate if alike else max(largest_rate_within(after, each) for each in others)
            found[name] = (more / rate - 1) / (MORE - 1)
    return found


def _figures(asked: PlanQuestion, replica: Replica) -> Iterator[tuple[str, str, float]]:
    """Figures of a chip: how they read, how they are set, and what they are."""
    machine = asked.machine(replica.target)
    level = data_level(machine)
    if level.bandwidth is not None:
        yield f"{level.name} bandwidth", level.name, level.bandwidth.value
    if level.capacity is not None:
        yield f"{level.name} capacity", f"{level.name}.capacity", level.capacity.value
    dtypes = [use.dtype for use in _prefill(asked, replica, replica.copies).uses if use.quantity == "flops"]
    for dtype in dict.fromkeys(dtypes):
        unit = next((unit for unit in machine.units if dtype in unit.peaks), None)
        if unit is not None:
            yield f"{dtype} peak", f"{unit.name}.{dtype}", unit.peaks[dtype].value
    if replica.chips > 1 and machine.links and machine.links[0].bandwidth is not None:
        yield f"{machine.links[0].name} bandwidth", machine.links[0].name, machine.links[0].bandwidth.value


def frontier_sections(
    curves: list[ServingCurve], worth: dict[str, float], even: list[tuple[str, float]]
) -> Iterator[Section]:
    """Each chip's curve by what binds, its corners, what figures are worth, and prices that change the answer."""
    beside = "each chip's best replica, or each format's, every place taken"
    yield from (BLANK, Headline("what would change it", beside, level=2))
    rows = []
    for curve in curves:
        for first, last, binds in curve.segments():
            ends = [format_amount(float(curve.per_token[n - 1]), "s") for n in (first, last)]
            made = format_number(float(curve.per_chip[last - 1]))
            rows.append(Row((str(curve.replica), binds, f"{first:,} to {last:,}", " to ".join(ends), f"{made}/s")))
    columns = (Column("replica", wrap="words"), Column("bound by", meaning="binds"))
    if rows:
        named = figures("sequences", "a token", "output tokens a chip")
        yield Table((*columns, *named), rows, "frontier", indent=4)
    lines = []
    for curve in curves:
        at = curve.corners
        words = [f"memory holds {at.in_memory:,} sequences"]
        if at.within_limit is not None:
            words.append(f"the time per token allows {at.within_limit:,}")
        flips = at.compute_bound_from
        words.append("compute-bound at none" if flips is None else f"compute-bound from {flips:,}")
        words.append(f"decode tends to {format_number(at.tends_to)} tokens/s a replica without end")
        lines.append(f"{curve.replica}: {', '.join(words)}")
    if worth:
        shown = ", ".join(f"{name} {value:+z.2f}%" for name, value in worth.items())
        lines.append(f"1% more is worth, in requests within the limits: {shown}")
    for name, price in even:
        lines.append(f"{name} would cost the same at ${format_number(price)} a chip an hour")
    yield Sentences(lines, indent=4)
