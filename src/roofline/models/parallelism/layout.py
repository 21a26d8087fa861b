"""How a model is laid on chips: which of them split layers, sequences, experts, and which run copies.

>>> from roofline.hardware import chip
>>> Parallelism.on(chip("h100:64"), tensor=8, pipeline=2)
Parallelism(data=4, pipeline=2, tensor=8)
>>> ways = Parallelism.on(chip("h200:32"), expert=32)
>>> ways, ways.exchange
(Parallelism(data=32, expert=32), 'all-to-all')
>>> ways.axes
{'data': 1, 'pipeline': 1, 'fsdp': 1, 'expert': 32, 'context': 1, 'tensor': 1, 'kv': 1}

What a chip then does of a model is in :mod:`roofline.models.parallelism.splitting`.

Pipeline schedules: how long stages wait for each other, and how many microbatches' activations they keep.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, LayoutError, SizeError, suggest
from roofline.frozen import dataclass, field, fields, replace
from roofline.hardware.machine import Figure, Machine
from roofline.hardware.mesh import with_mesh
from roofline.lazy import sympy
from roofline.signatures import call, check_fields, check_methods, either, spelled, takes
from roofline.sizes import (
    Size,
    ceil_div,
    check,
    chip_counts,
    exact_div,
    floor_div,
    is_array,
    is_one,
    is_symbol,
    maximum,
    minimum,
    plain_number,
    round_up,
)

#: Ways in which chips with whole experts get tokens and give results.
EXCHANGES = {
    "all-reduce": "every chip has all tokens; the sums of all experts are added up",
    "all-to-all": "tokens are sent to their experts' chips, once to each chip and each node, and the results back",
    "per-expert": "tokens are sent once for each of their experts, as kernels for low latency do, and the results back",
}
SHARED = {
    "replicated": "every chip runs the shared expert whole, on its own tokens",
    "split": "tensor-parallel chips hold a slice each of the shared expert",
}
BALANCES = {
    "layers": "stages have as many layers each, or one less",
    "time": "layers are cut so that the slowest stage is as fast as can be",
}

#: Options of a step that say how a model is laid on chips, by the field they fill.
OPTIONS = {
    "tensor": "tensor",
    "sequence_parallel": "sequence",
    "context_parallel": "context",
    "kv_parallel": "kv",
    "expert": "expert",
    "data": "data",
    "pipeline": "pipeline",
    "microbatches": "micro_batches",
    "balance": "balance",
    "expert_exchange": "exchange",
    "dispatch": "dispatch",
    "combine": "combine",
    "shared_experts": "shared",
    "algorithm": "algorithm",
}


#: Names under which a step's sizes hold numbers of chips, and the fields that they fill.
CHIPS = ("data", "pipeline", "context_parallel", "tensor", "kv_parallel", "expert")
_NUMBERS = (*(OPTIONS[name] for name in CHIPS), "fsdp")


def _number(name: str, value: Any) -> Any:
    found = check({"context": "context_parallel", "kv": "kv_parallel"}.get(name, name), value)
    if not isinstance(found, int) and not chip_counts(found):
        raise InputError(f"{name} is a plain number of chips", hint="several layouts make a table")
    return found


@check_methods
@dataclass(frozen=True, slots=True, repr=False)
class Parallelism:
    """``data`` copies of ``pipeline`` stages of ``context`` · ``tensor`` chips each; in training ``fsdp`` share a copy.

    Attributes
        ``tensor``    chips that split heads, hidden columns and the vocabulary
        ``sequence``  whether they split the hidden state between blocks by tokens, too
        ``kv``        of the ``tensor`` chips, how many share the same heads' keys and values by sequence
        ``context``   chips that share each sequence, with a part of its keys and values each
        ``expert``    chips over which whole experts are spread; chips of the other kinds, of one stage: part of the
                      ``tensor`` ones, or all ``tensor`` · ``context`` chips of one or more copies
        ``data``      copies of the model, of attention alone where they share experts; each has its part of the batch
        ``fsdp``      chips that share the weights of one copy, each with its part of the copy's batch
        ``pipeline``  stages of consecutive layers; ``balance`` says how they are cut; ``micro_batches`` are in flight
        ``exchange``  how experts get tokens (:data:`EXCHANGES`), sent in the formats ``dispatch`` and ``combine``
        ``shared``    how shared experts lie on chips that send tokens (:data:`SHARED`)
        ``algorithm`` algorithm of the collectives
    """

    tensor: int = 1
    sequence: bool = False
    kv: int = 1
    context: int = 1
    expert: int = 1
    data: Size = 1
    fsdp: Size = 1
    pipeline: int = 1
    micro_batches: int | None = None
    balance: str = "layers"
    exchange: str = ""
    dispatch: str | None = None
    combine: str | None = None
    shared: str = "replicated"
    algorithm: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in _NUMBERS:
            object.__setattr__(self, name, _number(name, getattr(self, name)))

    @classmethod
    def on(
        cls, machine: Machine, *, data: Size | None = None, fsdp: Size | None = 1, copies: Size | None = None,
        **ways: Any,
    ) -> Parallelism:  # fmt: skip
        """Lay a model on a target's chips. Chips left over by the other numbers run copies, unless ``data`` is given.

        ``copies`` in its place is the number of them that share nothing, experts neither, as ``data`` is in training.

        Where ``fsdp`` is None, as in training, they share the weights of one copy; over several slices each has a copy,
        as copies send gradients alone over the slow network between slices, once a step.

        >>> from roofline.hardware import chip
        >>> Parallelism.on(chip("h100:8"), tensor=3)
        Traceback (most recent call last):
        roofline.errors.LayoutError: tensor 3 is 3 chips, of which h100:8 with its 8 has no whole number; \
a divisor of 8: 1, 2, 4, 8
        >>> Parallelism.on(chip("v5e:16x16:2"), fsdp=None, tensor=4), Parallelism.on(chip("h100:64"), fsdp=8, tensor=4)
        (Parallelism(data=2, tensor=4, fsdp=64), Parallelism(data=2, tensor=4, fsdp=8))
        """
        given = {name: value for name, value in ways.items() if value is not None}
        numbers = {n: _number(n, v) for n, v in given.items() if n in _NUMBERS}
        made = cls(**{**given, **numbers})
        made._known()
        if data is None and copies is None and fsdp is None:
            data = machine.slices * made.sharing
        inner = {"context": made.context, "tensor": made.tensor}
        alike = 1 if copies is None else made.sharing
        every = {"data": data if copies is None else copies, "pipeline": made.pipeline, "fsdp": fsdp}
        # chips with all experts are whole copies of attention
        every |= inner if alike == 1 else {"expert": made.expert}
        given = {name: _number(name, size) for name, size in every.items() if size is not None}
        of_copy = {name: size for name, size in given.items() if name != "data"}
        one, taken = math.prod(of_copy.values()), math.prod(given.values())
        have = math.prod(machine.shape) * machine.slices if machine.shape else None
        left: Size = 1
        if len(given) == len(every):
            if have is not None and taken != have:
                wrong = f"{_product(given)} is {_chips(taken)}, and {machine.target} has {have}"
                raise LayoutError(wrong, hint=_fits(have, one))
        elif have is None:
            left = made.sharing if data is None and made.expert % (made.tensor * made.context) == 0 else 1
        elif not is_symbol(have) and have % taken:
            whole = f"{machine.target} with its {have}"
            wrong = f"{_product(given)} is {_chips(taken)}, of which {whole} has no whole number"
            raise LayoutError(wrong, hint=_fits(have, taken))
        else:
            left = plain_number(exact_div(have, taken))
        every_copy = given["data"] * alike if "data" in given else left
        made = replace(made, data=every_copy, fsdp=given.get("fsdp", left))
        if of_copy.pop("expert", 1) > 1:
            of_copy |= inner
        one = math.prod(of_copy.values())
        if not is_one(made.data):
            named = f"{made.data} copies" + (f" of {_product(of_copy)}" if one > 1 else "")
            made = replace(made, notes=(f"{named}, each with its part of the batch",))
        made._placed()
        return replace(made, exchange=made.exchange or ("all-to-all" if made.expert > made.tensor else "all-reduce"))

    @classmethod
    def of_options(cls, machine: Machine, options: Mapping[str, Any]) -> Parallelism:
        """Lay a model on a target's chips as the options of a serving step say, whatever else is among them.

        >>> from roofline.hardware import chip
        >>> Parallelism.of_options(chip("h100:8"), {"batch": 64, "context_parallel": 4})
        Parallelism(data=2, context=4)
        """
        return cls.on(machine, **{OPTIONS[name]: value for name, value in options.items() if name in OPTIONS})

    def checked(self) -> Parallelism:
        """The same, whose ways are known and whose parts have chips to lie on."""
        self._known()
        self._placed()
        return self

    @property
    def chips(self) -> Size:
        """Chips in all."""
        return self.parts * self.tensor * self.context * self.pipeline

    @property
    def parts(self) -> Size:
        """Parts of the batch: one for each copy, or for each chip that shares one in training."""
        return self.data * self.fsdp

    @property
    def sends(self) -> bool:
        """Whether tokens are sent to their experts."""
        return self.exchange in ("all-to-all", "per-expert")

    @property
    def sharing(self) -> int:
        """Copies of attention that share experts."""
        return max(self.expert // (self.tensor * self.context), 1)

    @property
    def sharing_states(self) -> Size:
        """Chips that share the weights of one copy in training, those of experts apart."""
        return self.fsdp * self.sharing * self.context

    @property
    def copies(self) -> Size:
        """Copies of the model that share nothing."""
        return exact_div(self.data, self.sharing)

    @property
    def axes(self) -> dict[str, Size]:
        """The mesh, from the outside in.

        Copies, stages, chips that share weights, copies that share experts, parts of sequences, tensor.
        """
        return {
            "data": self.copies,
            "pipeline": self.pipeline,
            "fsdp": self.fsdp,
            "expert": self.sharing,
            "context": self.context,
            "tensor": self.tensor // self.kv,
            "kv": self.kv,
        }

    @property
    def expert_axes(self) -> tuple[str, ...]:
        """The axes of the mesh that experts are spread over, where they are spread over whole axes."""
        if self.expert == self.tensor:
            return ("tensor",)
        return ("expert", "context", "tensor") if self.expert > self.tensor else ()

    def uneven(self, batch: Size) -> str | None:
        """A note about a batch that the copies do not divide, if they do not."""
        if not isinstance(batch, int) or batch % self.data == 0:
            return None
        return f"{self.data} copies do not divide a batch of {batch}: the fullest has {ceil_div(batch, self.data)}"

    def sizes(self) -> dict[str, int]:
        """Numbers of chips other than 1, by name."""
        return {name: getattr(self, OPTIONS[name]) for name in CHIPS if not is_one(getattr(self, OPTIONS[name]))}

    def _known(self) -> None:
        for name, value, known in (
            ("exchange of tokens and experts", self.exchange, EXCHANGES),
            ("way with shared experts", self.shared, SHARED),
            ("balance of stages", self.balance, BALANCES),
        ):
            if value and value not in known:
                raise InputError(f"unknown {name} {value!r}", hint=suggest(value, known, what="ways"))
        for dtype in (self.dispatch, self.combine):
            if dtype is not None:
                dtypes.get(dtype)
        if self.micro_batches is not None:
            _number("microbatches", self.micro_batches)

    def _placed(self) -> None:
        """Keys and values, and experts, lie on chips that there are.

        Experts lie on part of the chips that split a layer, or on all chips of some copies."""
        if self.tensor % self.kv:
            fitting = [str(n) for n in range(1, self.tensor + 1) if self.tensor % n == 0]
            wrong = f"{self.kv} chips that share keys and values, of {self.tensor} that split the model"
            raise LayoutError(wrong, hint=f"kv_parallel of {', '.join(fitting)}")
        if self.kv > 1 and self.context > 1:
            raise LayoutError("kv_parallel and context_parallel together are not modelled", hint="one of the two")
        inside = self.tensor * self.context
        uneven = 0 if is_symbol(self.data) else self.data % max(self.expert // inside, 1)
        if self.tensor % self.expert and (self.expert % inside or uneven):
            ways = {n for n in range(1, self.tensor + 1) if self.tensor % n == 0}
            ways |= {inside * n for n in range(1, self.data + 1) if self.data % n == 0}
            raise LayoutError(
                f"experts on {self.expert} chips, of which {self.tensor} split the model"
                + (f" and {self.data} copies run" if self.data > 1 else ""),
                hint=f"experts on {', '.join(map(str, sorted(ways)))}",
            )
        if self.exchange == "all-reduce" and self.expert > self.tensor:
            wrong = f"experts on {self.expert} chips get tokens of more than {self.tensor}: an AllReduce does not do"
            raise LayoutError(wrong, hint="all-to-all, per-expert, or leave it out")
        if self.sends and not self.expert_axes:
            wrong = f"an AllToAll needs whole experts on all of {self.tensor} chips, not on {self.expert}"
            raise LayoutError(wrong, hint=f"say expert {self.tensor}")

    def __repr__(self) -> str:
        names = [f.name for f in fields(self) if f.name not in ("notes", "exchange")]
        order = ("data", "pipeline", "context", "tensor", "expert", *names)
        shown = {n: getattr(self, n) for n in order if getattr(self, n) != _DEFAULTS[n]}
        return f"Parallelism({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def chips_in_all(machine: Machine, options: Mapping[str, Any]) -> int:
    """Chips that a serving step takes by its options, those of a pool as well."""
    return int(Parallelism.of_options(machine, options).chips * machine.pooled)


#: One chip alone.
ONE_CHIP = Parallelism()
_DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Parallelism)}


def is_several(value: Any) -> bool:
    """Whether a size has several values."""
    return isinstance(value, list | tuple | range) or is_array(value)


#: Steps of one answer, and layouts of it: each layout is priced apart. A sweep takes millions.
MOST_STEPS, MOST_LAYOUTS = 100_000, 1_000


def refuse_more(count: int, names: Iterable[str], what: str = "steps", most: int = MOST_STEPS, hint: str = "") -> None:
    """Refuse an answer of more steps than anybody reads, by the names of the sizes that make them.

    >>> refuse_more(2000, ["tensor"], "layouts", MOST_LAYOUTS)
    Traceback (most recent call last):
    roofline.errors.SizeError: one answer of 2,000 layouts (by tensor=), and at most 1,000 are taken; \
give fewer values, or ask roofline.sweep(), which takes millions of combinations
    """
    if count > most:
        paired = either("", "; arrays that go together: roofline.formula(model, …)(batch=…)") if what == "steps" else ""
        usual = f"give fewer values, or ask {call('sweep')}, which takes millions of combinations{paired}"
        wrong = f"one answer of {count:,} {what} (by {', '.join(map(spelled, names))}), and at most {most:,} are taken"
        raise SizeError(wrong, hint=hint or usual)


def several_layouts(options: Mapping[str, Any]) -> str | None:
    """The first of a step's options about its layout that has several values; None where none has."""
    return next((name for name, value in options.items() if name in OPTIONS and is_several(value)), None)


def check_one_layout(options: Mapping[str, Any]) -> None:
    """Refuse several numbers of chips in a question about one configuration."""
    several = several_layouts(options)
    if several is not None:
        raise SizeError(f"{several} has several values", hint="give one: this answer is about one configuration")


def _product(ways: Mapping[str, int]) -> str:
    shown = [f"{name} {size}" for name, size in ways.items() if size > 1]
    return " · ".join(shown) or "one chip"


def _chips(count: int) -> str:
    return "1 chip" if count == 1 else f"{count} chips"


def _fits(have: int, one: int) -> str:
    if have % one == 0:
        return f"their product is the chips: data {have // one}"
    divisors = [n for n in range(1, min(have, 4096) + 1) if have % n == 0]
    return f"a divisor of {have}: {', '.join(map(str, divisors[:16]))}"


def name_axes(machine: Machine, sizes: Mapping[str, int]) -> Machine:
    """Name the chips of a target by the axes of a parallelism, the last the innermost; sizes of 1 count as none.

    A slice's own axes are given out in order; one may be cut between two, whose collectives then share its links:

    >>> from roofline.hardware import chip
    >>> name_axes(chip("v5p:16x16x16"), {"fsdp": 512, "tensor": 8}).mesh
    Mesh(fsdp=512 ici ring 16, ici ring 16, ici line 2, tensor=8 ici line)
    """
    wanted = {name: size for name, size in sizes.items() if size != 1}
    if not wanted:
        return machine
    chips = math.prod(wanted.values())
    have = math.prod(machine.shape) * machine.slices
    if machine.shape and have != chips:
        made = " · ".join(f"{name} {size}" for name, size in wanted.items())
        wrong = f"{made} is {chips} chips, and {machine.target} has {have}"
        raise LayoutError(wrong, hint="their product is the chips")
    outer = axis_across_slices(machine, wanted)
    if outer is not None:
        # a mesh names the axis over slices last
        wanted[outer] = wanted.pop(outer)
    return with_mesh(machine, wanted)


def axis_across_slices(machine: Machine, sizes: Mapping[str, int]) -> str | None:
    """The axis that runs over several slices: the outermost whose size they divide; None over one slice, or where none.

    Copies send least over the slow network between slices, then stages, and chips that split layers most.

    >>> from roofline.hardware import chip
    >>> axis_across_slices(chip("v5e:16x16:2"), {"data": 2, "fsdp": 64, "tensor": 4})
    'data'
    """
    if machine.slices == 1:
        return None
    return next((name for name, size in sizes.items() if size > 1 and size % machine.slices == 0), None)


@takes()
def pool(machine: Machine, chips: int) -> Machine:
    """One machine with the peaks, bandwidths and capacities of ``chips`` together, without their links.

    It is the floor of any way to split work over them.

    >>> from roofline.hardware import chip
    >>> sixteen = pool(chip("v5e"), 16)
    >>> sixteen.name, sixteen.memories[0].bandwidth.value / chip("v5e").memories[0].bandwidth.value
    ('16 x TPU v5e sharing evenly', 16.0)
    """
    check("pool", chips)
    if chips == 1:
        return machine
    if machine.shape:
        wrong = f"{machine.key} has a shape, and the {chips} chips of a pool have none"
        raise InputError(wrong, hint=f"say on {machine.key}")
    if machine.over == "warm":
        raise InputError("a pool of chips has no warm data", hint="leave warm out")

    def all_of(figure: Figure | None) -> Figure | None:
        if figure is None:
            return None
        return figure._replace(value=figure.value * chips, note=f"{chips} times one chip's")

    units = tuple(
        unit._replace(peaks={name: f._replace(value=f.value * chips) for name, f in unit.peaks.items()})
        for unit in machine.units
    )
    memories = tuple(
        m._replace(bandwidth=all_of(m.bandwidth), capacity=all_of(m.capacity), curve=()) for m in machine.memories
    )
    tdp = all_of(machine.tdp)
    name = f"{chips} x {machine.name} sharing evenly"
    return replace(
        machine, name=name, units=units, memories=memories, tdp=tdp, links=(), mesh=None,
        pooled=machine.pooled * chips, alone=machine.alone or machine,
    )  # fmt: skip


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
        least = [minimum(*passes) for passes in zip(*times, strict=True)]
        equal = {"forward": least[0], "inputs": least[1], "weights": least[2]}
        idle = self.idle(stages=len(times), microbatches=microbatches, chunks=chunks, **equal)
        found.append(idle + microbatches * sum(least[1:], least[0]) + minimum(*beside))
        return maximum(*found)

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
    if name not in SCHEDULES:
        raise InputError(f"no pipeline schedule {name!r}", hint=suggest(name, SCHEDULES, what="schedules"))
    return SCHEDULES[name]


def check_schedule(chosen: Schedule, *, stages: int, microbatches: Size, chunks: int) -> None:
    """Refuse what a schedule cannot run."""
    if chunks > 1 and not chosen.splits:
        raise SizeError(f"{chosen.name} has one piece of the model on each stage", hint="interleaved has several")
    if chosen.splits and isinstance(microbatches, int) and microbatches % stages:
        up = -(-microbatches // stages) * stages
        wrong = f"interleaved runs microbatches in rounds of {stages}, and {microbatches} is no multiple"
        raise SizeError(wrong, hint=f"{up} would do")
