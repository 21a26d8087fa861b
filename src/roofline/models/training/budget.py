"""Training before there is a layout: what a token budget takes, each figure from the others, and what memory holds.

6·parameters·tokens FLOPs take ``FLOPs / (peak · MFU)`` seconds of one chip. One of MFU, chip-hours and days on so many
chips gives the other two:

>>> found = budget(70e9, tokens=15e12, on="v5p:16x20x28", mfu=0.4)
>>> round(found.days, 2), round(found.chip_hours / 1e6, 2)
(44.32, 9.53)
>>> round(budget("deepseek-v3", tokens=14.8e12, on="h800", chip_hours=2.664e6, price=2).mfu, 3)
0.352

States of all parameters, and hidden states that are kept:

>>> found = training_memory(70e9, on="h100", gradients=None, master=None, set={"hbm.capacity": 80e9})
>>> found.total / 1e9, found.bytes_per_parameter, found.chips, found.slice.nodes
(700.0, 10.0, 9, 2)

The largest model whose states one chip holds, and a batch of 4M tokens of which each layer keeps four hidden states:

>>> training_memory(1e9, on="v5p", gradients=None, master=None, set={"hbm.capacity": 96e9}).largest
9600000000
>>> found = training_memory(70e9, tokens=4e6, width=8192, layers=80, checkpoint=4, gradients=None, master=None)
>>> round(found.total / 1e12, 2), round(found.parts["activations"] / 1e12, 2)
(21.67, 20.97)

A step of :func:`roofline.models.train` counts every activation and each chip's share; this counts what a first estimate
has.

Sources: "How To Scale Your Model", chapters 4 (6·parameters·tokens), 5, 6 and 12 (days).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, Comparable, Fact, attributes, heading, machine_asked
from roofline.bounds.api import target
from roofline.errors import HardwareError, InputError, quoted
from roofline.frozen import dataclass, replace
from roofline.hardware.figures import chip_power, hourly_price, price_source
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import Slice, smallest_slice
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import rate
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operation_builder import ForwardPass
from roofline.models.operations import forward_pass, matrix_flops
from roofline.models.serving.layouts import memory_capacity, single_chip
from roofline.models.training.passes import forward
from roofline.models.training.stage import Formats, Parameters, check_trained, kept_bytes, matrices_of
from roofline.quantity import Figure, figure, format_amount, format_count, format_number, format_percent
from roofline.sections import Section, word_pairs
from roofline.signatures import either, setting, spelled, takes
from roofline.sizes import LARGEST, check
from roofline.work import Key

HOUR = 3600.0

#: Tokens of a sequence that attention's part of a budget is told for, or the most that a model takes.
ATTENTION_AT = 8192

ASSUMED = "6 FLOPs a parameter and token; attention's arithmetic is not counted"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TokenBudget(Comparable):
    """What a token budget takes.

    Attributes
        ``parameters``   that one token uses
        ``peak``         FLOP/s of one chip in ``dtype``
        ``mfu``          the share of the peak that is stated or follows; 1 where nothing is stated: the floor
        ``chip_hours``   hours of one chip; ``chips`` how many share them, ``days`` how long they take together
        ``price``        dollars of a chip-hour, ``asked_price`` as it was given; ``power`` watts of a chip
        ``again``        FLOPs a parameter and token that are run again: 2 where layers keep their input alone
    """

    model: Model
    machine: Machine
    parameters: int
    tokens: float
    dtype: str
    peak: float
    mfu: float
    chip_hours: float
    chips: float | None
    days: float | None
    follows: str
    price: float | None = None
    power: float | None = None
    again: int = 0
    asked_price: Any = None

    @property
    def flops_run(self) -> float:
        """FLOPs that the chips do: 6 for each parameter and token, and those of a forward pass that is run again."""
        return (6 + self.again) * self.parameters * self.tokens

    def on_chips(self, chips: float) -> TokenBudget:
        """The same hours, shared by another number of chips.

        >>> round(budget(70e9, tokens=15e12, on="v5p", days=44, chips=8960).on_chips(225).days, 1)
        1752.2
        """
        if not isinstance(chips, int | float) or not 0 < chips < math.inf:
            raise InputError(f"chips is {chips!r}", hint="a number above 0")
        return replace(self, chips=chips, days=self.chip_hours / 24 / chips)

    @property
    def target(self) -> str:
        """The machine, as a person reads it."""
        return self.machine.name

    @property
    def is_floor(self) -> bool:
        """A budget at a stated utilisation is no floor, and hours of chips are no time of one run."""
        return False

    def facts(self) -> Iterator[Fact]:
        """Hours, days, MFU and cost, for a comparison."""
        yield Fact("chip-hours", self.chip_hours, "", "less")
        yield Fact("days", self.days, "", "less")
        yield Fact("MFU", self.mfu, "share", "more")
        yield from (Fact("cost", self.cost, "USD", "less"), Fact("FLOPs a dollar", self.flops_per_dollar, "", "more"))

    def assumed(self) -> tuple[str, ...]:
        return ASSUMED, *describe_given(self.machine)

    @property
    def flops_per_token(self) -> int:
        """Forward and backward: 6 FLOPs a parameter."""
        return 6 * self.parameters

    @property
    def flops(self) -> float:
        """FLOPs of all tokens."""
        return self.flops_per_token * self.tokens

    @property
    def time_per_token(self) -> float:
        """Seconds that one chip takes for a token."""
        return self.flops_per_token / (self.peak * self.mfu)

    @property
    def seconds(self) -> float | None:
        """Seconds on all chips."""
        return None if self.days is None else self.days * 24 * HOUR

    @property
    def chip_years(self) -> float:
        """Years of 365.25 days on one chip."""
        return self.chip_hours / 24 / 365.25

    @property
    def rate(self) -> float | None:
        """FLOP/s of all chips together at this MFU."""
        return None if self.chips is None else self.chips * self.peak * self.mfu

    @property
    def cost(self) -> float | None:
        """Dollars for all chip-hours."""
        return None if self.price is None else self.chip_hours * self.price

    @property
    def flops_per_dollar(self) -> float | None:
        """FLOPs done for a dollar."""
        return None if self.price is None else self.peak * self.mfu * HOUR / self.price

    @property
    def energy(self) -> float | None:
        """Joules of all chips."""
        return None if self.power is None else self.chip_hours * HOUR * self.power

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys in SI units (schema ``roofline/budget/1``)."""
        names = ("parameters", "tokens", "flops_per_token", "flops", "flops_run", "time_per_token", "dtype", "peak")
        more = ("mfu", "chip_hours", "chip_years", "chips", "days", "seconds", "rate", "price", "cost")
        return {
            **heading("roofline/budget/1", self.machine),
            "model": self.model.name,
            **attributes(self, *names, *more, "flops_per_dollar", "power", "energy", "follows"),
        }

    def sections(self) -> tuple[Section, ...]:
        """FLOPs, then chip-hours and what they come to."""
        per_token = format_amount(self.flops_per_token, "FLOP")
        active = "" if self.model.sparsity is None else "active "
        parameters = f"6 x {format_count(self.parameters)} {active}parameters"
        flops = f"{format_amount(self.flops, 'FLOP')}, {per_token} a token: {parameters}"
        hours = f"{format_number(self.chip_hours)} chip-hours, {format_number(self.chip_years)} chip-years"
        impossible = "; it cannot be: more than the peak" if self.mfu > 1 else ""
        share = f"{format_percent(self.mfu, 1)} of {format_amount(self.peak, 'FLOP/s')} {self.dtype}"
        share += f", {self.follows}{impossible}"
        if self.again:
            flops += f"; with the forward pass run again {format_amount(self.flops_run, 'FLOP')}"
        lines = [("work", flops), ("MFU", share), ("hours", hours)]
        if self.days is not None and self.chips is not None:
            lines.append(("days", f"{format_number(self.days)} on {format_number(self.chips, 6)} chips"))
        if self.cost is not None and self.flops_per_dollar is not None:
            each = f"{format_amount(self.flops_per_dollar, 'FLOP', 4)} a dollar"
            lines.append(("cost", f"${format_number(self.cost)} at ${format_number(self.price or 0)} an hour, {each}"))
        if self.energy is not None:
            lines.append(("energy", f"{format_number(self.energy / 3.6e9)} MWh at {format_number(self.power or 0)} W"))
        lines += [("or", said) for said in _with_attention(self)]
        assumed = [*self.assumed(), *price_source(self.machine, self.price, self.asked_price)]
        lines.append(("assumes", "; ".join(assumed)))
        subject = f"{format_count(int(self.tokens))} tokens for {self.model.named}"
        return word_pairs(subject, self.machine.name, lines)

    def one_line(self) -> str:
        """The days or hours, and at which MFU."""
        hours = f"{format_number(self.chip_hours)} chip-hours"
        days = "" if self.days is None else f", {format_number(self.days)} days"
        share = format_percent(self.mfu, 1)
        return f"TokenBudget {self.model.name}: {hours}{days} at {share} MFU on {self.machine.name}"


@takes()
def budget(
    model: Model | str | float | os.PathLike[str] | Mapping[str, Any],
    *,
    tokens: Figure,
    on: Any,
    chips: Figure | None = None,
    mfu: Figure | None = None,
    days: Figure | None = None,
    chip_hours: Figure | None = None,
    price: Figure | None = None,
    power: Figure | None = None,
    checkpoint: str = "none",
    weights: str | None = None,
    set: Mapping[str, Any] | None = None,
    files: Any = (),
) -> TokenBudget:
    """Work out what a token budget takes on a chip, or on those of a target's shape.

    ``model`` is as in :func:`roofline.models.load`, or a number of parameters. Of ``mfu``, ``chip_hours`` and ``days``
    on so many chips one is given, and the others follow; without any, the answer is the floor. Where the number of
    chips is open, ``days`` beside one of the others gives it. ``weights`` is the format of the matrix products,
    ``price`` that of a chip-hour in dollars, ``power`` watts of a chip or those of its data sheet. With
    ``checkpoint="full"`` the forward pass is run again, 2 FLOPs more: the floor is an MFU of 75%.

    >>> found = budget(70e9, tokens=15e12, on="h100:4096", mfu=0.45, price=2)
    >>> round(found.days, 1), round(found.cost / 1e6, 2), f"{found.flops_per_dollar:.3g}"
    (40.0, 7.86, '8.01e+17')
    >>> round(budget(70e9, tokens=15e12, on="h100", mfu=0.45, days=30).chips)
    5459
    >>> budget(70e9, tokens=4e6, on="h100", checkpoint="full").flops_run
    2.24e+18
    """
    if checkpoint not in ("none", "full"):
        hint = "none, or full: the forward pass is run again; what others run again depends on a step's layers"
        raise InputError(f"a budget has no checkpointing policy {checkpoint!r}", hint=hint)
    again = 2 if checkpoint == "full" else 0
    described = load(model)
    # a token of either side passes through a part of the parameters alone
    refuse_encoder(described, "a training budget")
    machine = target(on, set=set, files=files)
    check_trained(weights=weights)
    dtype = dtypes.get(weights or described.dtype).arithmetic
    peak = rate(machine, Key("flops", "matrix", dtype))
    if peak is None:
        wrong = f"{machine.name} has no peak for {dtype}"
        raise HardwareError(wrong, hint=f"give one: {setting(dtype)}")
    mfu, days, chip_hours = (figure(value, "") for value in (mfu, days, chip_hours))
    asked_price, price, power = price, hourly_price(machine, price), chip_power(machine, power)
    figures = {"tokens": tokens, "mfu": mfu, "days": days, "chip_hours": chip_hours, "chips": chips, "price": price}
    for name, value in {**figures, "power": power}.items():
        if value is not None and not (isinstance(value, int | float) and 0 < value <= LARGEST):
            raise InputError(f"{name} is {quoted(value)}", hint="a number above 0")
    if mfu is not None and mfu > 1:
        wrong = f"an MFU of {format_percent(mfu)} is more than the peak"
        raise InputError(wrong, hint="a share of it, as in 0.4 or 40%")
    if mfu is not None and again and mfu > 0.75:
        wrong = f"an MFU of {format_percent(mfu)} with a forward pass run again"
        raise InputError(wrong, hint="at most 75%: 6 of 8 FLOPs")
    shaped = machine.chips if machine.shape else None
    if chips is not None and shaped is not None and chips != shaped:
        raise InputError(f"chips={chips}, and {machine.target} has {shaped}", hint="leave one of them out")
    used = described.active_parameters
    work = 6 * used * tokens / float(peak.value) / HOUR
    most = 6 / (6 + again)
    given = chips if shaped is None else shaped
    share, hours, several, follows = _from_the_others(work, most, mfu, chip_hours, days, given)
    return TokenBudget(
        model=described, machine=machine, parameters=used, tokens=tokens, dtype=dtype, peak=float(peak.value),
        mfu=share, chip_hours=hours, chips=several, days=None if several is None else hours / 24 / several,
        follows=follows, price=price, power=power, again=again, asked_price=asked_price,
    )  # fmt: skip


def _with_attention(found: TokenBudget) -> list[str]:
    """What attention adds to the work in sequences of a usual length; nothing of a model that is a number alone."""
    length = min(ATTENTION_AT, found.model.context or ATTENTION_AT)
    dtype = found.model.dtype
    step = ForwardPass(1, length, wanted=None, activations=dtype, kv=dtype)
    work = 3 * matrix_flops(forward(forward_pass(found.model, step)))
    times = float(work / (found.flops_per_token * length))
    if times < 1.001:
        return []
    amount, unit = (found.chip_hours, "chip-hours") if found.days is None else (found.days, "days")
    cost = f", ${format_number(found.cost * times)}" if found.cost is not None else ""
    asked = either("--batch-tokens and --sequence", "batch_tokens and sequence")
    whole = f"{format_number(amount * times)} {unit}{cost}"
    return [f"{whole} with attention in sequences of {length:,} ({times:.3g} times): {asked} count it"]


def _from_the_others(
    work: float, most: float, mfu: float | None, hours: float | None, days: float | None, chips: float | None
) -> tuple[float, float, float | None, str]:
    """MFU, chip-hours and chips from those that are given.

    ``work`` is the hours of one chip at its peak, ``most`` the MFU of the floor.
    """
    if hours is None and days is not None and chips is not None:
        hours, days = days * 24 * chips, None
        if mfu is not None:
            raise InputError("MFU, days and chips are given, and each follows from the others", hint="leave one out")
    if mfu is not None and hours is not None:
        raise InputError("MFU and chip-hours are given, and each follows from the other", hint="leave one out")
    said = "as stated" if mfu is not None else "the floor" if hours is None else "from the hours"
    share = mfu if mfu is not None else most if hours is None else work / hours
    hours = work / share if hours is None else hours
    if days is not None:
        if chips is not None:
            raise InputError("chip-hours, days and chips are given, and each follows", hint="leave one out")
        chips = hours / 24 / days
    return share, hours, chips, said


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingMemory(Answer):
    """What training holds in all.

    Attributes
        ``parts``     bytes of weights, gradients, optimizer and activations
        ``capacity``  bytes of one chip; None where none is asked about
        ``slice``     the least slice of as many chips as hold it
        ``on_chips``  chips that share all of it evenly, where their number is given
    """

    parameters: int
    parts: Mapping[str, float]
    machine: Machine | None = None
    capacity: float | None = None
    slice: Slice | None = None
    on_chips: int | None = None

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        return sum(self.parts.values())

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of weights, gradients and optimizer for each parameter."""
        return (self.total - self.parts["activations"]) / self.parameters

    @property
    def ratio(self) -> float | None:
        """Chips by memory alone, not rounded."""
        return None if self.capacity is None else self.total / self.capacity

    @property
    def chips(self) -> int | None:
        """Chips by memory alone."""
        return None if self.ratio is None else max(1, math.ceil(self.ratio))

    @property
    def largest(self) -> int | None:
        """Parameters whose states one chip holds."""
        return None if self.capacity is None else int(self.capacity // self.bytes_per_parameter)

    @property
    def each(self) -> float | None:
        """Bytes of each of the chips that share all of it."""
        return None if self.on_chips is None else self.total / self.on_chips

    @property
    def by_zero_stage(self) -> tuple[float, ...] | None:
        """Bytes of each of those chips by ZeRO stage: 0 shares tokens, 1 optimizer states too, 2 gradients, 3 weights.

        >>> [round(size / 1e9) for size in training_memory(30e9, on="h100:8").by_zero_stage]
        [480, 165, 112, 60]
        """
        if self.on_chips is None:
            return None
        shared = ("activations", "optimizer", "gradients", "weights")
        ways = [dict.fromkeys(shared[: stage + 1], self.on_chips) for stage in range(len(shared))]
        return tuple(sum(size / over.get(part, 1) for part, size in self.parts.items()) for over in ways)

    @property
    def fits(self) -> bool | None:
        """Whether those chips hold it."""
        return None if self.each is None or self.capacity is None else self.each <= self.capacity

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units (schema ``roofline/training-memory/1``)."""
        names = ("parameters", "parts", "total", "bytes_per_parameter", "capacity", "ratio", "chips", "largest")
        return {
            "schema": "roofline/training-memory/1",
            **({} if self.machine is None else machine_asked(self.machine)),
            **attributes(self, *names, "on_chips", "each", "by_zero_stage", "fits"),
            "slice": None if self.slice is None else self.slice._asdict(),
        }

    def sections(self) -> tuple[Section, ...]:
        """All of it by part, the chips that hold it, and the largest model of one chip."""
        parts = ", ".join(f"{name} {format_amount(size, 'B')}" for name, size in self.parts.items() if size)
        all_of_it = format_amount(self.total, "B")
        lines = [("in all", f"{all_of_it}{'' if self.parts['activations'] else ' without activations'}: {parts}")]
        lines.append(("a parameter", f"{format_number(self.bytes_per_parameter)} bytes of states"))
        if self.capacity is not None and self.ratio is not None and self.machine is not None:
            many = f"{self.chips:,} hold{'s' * (self.chips == 1)} it"
            least = "" if self.slice is None or self.chips == 1 else f", the smallest target is {self.slice.target}"
            times = f"{all_of_it} are {format_number(self.ratio)} times the {format_amount(self.capacity, 'B')} of one"
            lines.append(("chips", f"{many}{least}: {times}"))
            lines.append(("one chip", f"holds the states of {format_count(self.largest or 0)} parameters"))
        if self.on_chips is not None and self.each is not None:
            fits = "" if self.fits is None else ", fits" if self.fits else ", does not fit"
            lines.append((f"on {self.on_chips:,}", f"{format_amount(self.each, 'B')} each{fits}"))
        if self.by_zero_stage is not None and self.on_chips != 1:
            sizes = [f"{stage}: {format_amount(size, 'B')}" for stage, size in enumerate(self.by_zero_stage)]
            lines.append(("by ZeRO stage", f"{', '.join(sizes)} each"))
        kept = "hidden states that are kept are all of the" if self.parts["activations"] else "no"
        given = [] if self.machine is None else describe_given(self.machine)
        lines.append(("assumes", "; ".join([f"{kept} activations; nothing is held twice", *given])))
        name = "" if self.machine is None else self.machine.name
        return word_pairs(f"training {format_count(self.parameters)} parameters", name, lines)

    @property
    def beside_others(self) -> str:
        """What lets it stand beside others: one model and machine at a time, or a step."""
        step = f"a step with {spelled('batch_tokens', '4M')}, which says the memory on each"
        return f"ask one model and machine at a time; or in place of {either('--memory', 'training_memory')} {step}"

    def one_line(self) -> str:
        """All of it, and chips."""
        chips = "" if self.chips is None or self.machine is None else f", {self.chips:,} x {self.machine.name}"
        return f"TrainingMemory of {format_count(self.parameters)} parameters: {format_amount(self.total, 'B')}{chips}"


@takes()
def training_memory(
    model: Model | str | float | os.PathLike[str] | Mapping[str, Any],
    *,
    tokens: float = 0,
    width: int | None = None,
    layers: int | None = None,
    checkpoint: str | int = "full",
    lora: int | None = None,
    weights: str = "bf16",
    gradients: str | None = "bf16",
    moments: str = "fp32",
    master: str | None = "fp32",
    optimizer: str = "adam",
    on: Any = None,
    chips: int | None = None,
    set: Mapping[str, Any] | None = None,
    files: Any = (),
) -> TrainingMemory:
    """Add up what training takes: states of every parameter, and ``tokens`` hidden states that layers keep.

    ``model`` is as in :func:`roofline.models.load`, or a number of parameters; then ``width`` and ``layers`` go with
    ``tokens``. ``checkpoint`` is how many hidden states a layer keeps, ``full`` one. ``on`` is a chip or a target with
    a shape, whose chips share it all; ``chips`` gives their number. With ``lora`` adapters of that rank are trained
    beside each matrix of a layer, and the weights are frozen in the format ``weights``:

    >>> found = training_memory("llama-3-70b", lora=16, weights="nf4", on="a100")
    >>> [f"{name} {size / 1e9:.2f}" for name, size in found.parts.items() if size], found.chips
    (['weights 43.12', 'gradients 0.41', 'optimizer 2.49'], 1)
    """
    described = None if isinstance(model, int | float) else load(model)
    count = check("parameters", model) if described is None else described.parameters
    given = width, layers
    if described is not None and described.width:  # a model in outline has none
        width, layers = width or described.width, layers or len(described.layers)
    if tokens:
        tokens = check("tokens", tokens)
    else:
        said = {"width": given[0] is not None, "layers": given[1] is not None, "checkpoint": checkpoint != "full"}
        idle = next((name for name, is_given in said.items() if is_given), None)
        if idle is not None:
            hint = "say how many tokens, or leave it out"
            raise InputError(f"{spelled(idle)} is of hidden states, and there are no tokens", hint=hint)
    formats = Formats(weights, gradients or "none", moments, master, optimizer)
    every = Parameters(count)
    if described is not None and described.width:
        every = every._replace(matrices=tuple(matrices_of(described, range(len(described.layers)), True, True)))
    parts = formats.states(every) if lora is None else _of_adapters(described, lora, formats)
    if tokens and (width is None or layers is None):
        raise InputError("hidden states of tokens need a width and layers", hint="as in width=8192, layers=80")
    kept = kept_bytes(tokens, width or 0, layers or 0, checkpoint=checkpoint) if tokens else 0
    machine = None if on is None else target(on, set=set, files=files)
    if chips is not None and not (isinstance(chips, int) and chips > 0):
        raise InputError(f"chips is {chips!r}", hint="a whole number above 0")
    parts["activations"] = kept
    if machine is None:
        return TrainingMemory(int(count), parts, on_chips=chips)
    shaped = machine.chips if machine.shape else None
    one = single_chip(machine)
    capacity = memory_capacity(one)
    needed = max(1, math.ceil(sum(parts.values()) / capacity))
    return TrainingMemory(int(count), parts, one, capacity, smallest_slice(one, needed), chips or shaped)


def _of_adapters(model: Model | None, rank: int, formats: Formats) -> dict[str, Any]:
    """Bytes of frozen weights, and of adapters in bf16 with their gradients and optimizer states."""
    if model is None or not model.width:
        raise InputError(f"{spelled('lora')} is of matrices", hint="name a model, as in llama-3-8b")
    refuse_encoder(model, "training")
    count = adapter_parameters(model, check("lora", rank))
    parts = replace(formats, weights="bf16").states(count)
    return {**parts, "weights": parts["weights"] + model.weight_bytes(formats.weights)}


def adapter_parameters(model: Model, rank: Any) -> Any:
    """Parameters of adapters of a rank beside each matrix of a layer: rank·(in + out); experts have none.

    >>> adapter_parameters(load("llama-3-8b"), 16)
    41943040
    """
    matrices = (each for each in model.layer_weights() if each.weight.kind == "linear")
    return sum(len(each.layers) * rank * sum(each.weight.shape[-2:]) for each in matrices)
