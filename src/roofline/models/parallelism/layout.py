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
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, LayoutError, SizeError, check_one_of
from roofline.frozen import dataclass, field, fields, replace
from roofline.hardware.machine import Figure, Machine
from roofline.hardware.mesh import with_mesh
from roofline.signatures import call, check_fields, check_methods, either, spelled, takes
from roofline.sizes import Size, ceil_div, check, chip_counts, exact_div, is_array, is_one, is_symbol, plain_number

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
    micro_batches: Size | None = None
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
        if self.micro_batches is not None and not is_symbol(self.micro_batches):
            object.__setattr__(self, "micro_batches", _number("microbatches", self.micro_batches))

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
        roofline.errors.LayoutError: tensor 3 does not divide the 8 chips of h100:8; \
a divisor of 8: 1, 2, 4, 8
        >>> Parallelism.on(chip("v5e:16x16:2"), fsdp=None, tensor=4), Parallelism.on(chip("h100:64"), fsdp=8, tensor=4)
        (Parallelism(data=2, tensor=4, fsdp=64), Parallelism(data=2, tensor=4, fsdp=8))
        """
        given = {name: value for name, value in ways.items() if value is not None}
        numbers = {n: _number(n, v) for n, v in given.items() if n in _NUMBERS}
        made = cls(**{**given, **numbers})
        made._known()
        if data is None and copies is None and fsdp is None:
            copies = machine.slices
        inner = {"context": made.context, "tensor": made.tensor}
        alike = 1 if copies is None else made.sharing
        every = {"data": data if copies is None else copies, "pipeline": made.pipeline, "fsdp": fsdp}
        # chips with all experts are whole copies of attention
        every |= inner if alike == 1 else {"expert": made.expert}
        given = {name: _number(name, size) for name, size in every.items() if size is not None}
        of_copy = {name: size for name, size in given.items() if name != "data"}
        one, taken = math.prod(of_copy.values()), math.prod(given.values())
        have = machine.chips if machine.shape else None
        left: Size = 1
        if len(given) == len(every):
            if have is not None and taken != have:
                chips = f"{taken} chip{'s' * (taken != 1)}"
                wrong = f"{_product(given)} is {chips}, and {machine.target} has {have}"
                raise LayoutError(wrong, hint=_fits(have, one))
        elif have is None:
            left = made.sharing if data is None and made.expert % (made.tensor * made.context) == 0 else 1
        elif not is_symbol(have) and have % taken:
            wrong = f"{_product(given)} does not divide the {have} chips of {machine.target}"
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
            if value:
                check_one_of(f"unknown {name} {value!r}", value, known, "ways")
        for dtype in (self.dispatch, self.combine):
            if dtype is not None:
                dtypes.get(dtype)

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
    have = machine.chips
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
