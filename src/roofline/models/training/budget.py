"""A token budget: FLOPs, chip-hours, days, MFU and cost, each from the others.

6·parameters·tokens FLOPs take ``FLOPs / (peak · MFU)`` seconds of one chip. One of MFU, chip-hours and days on so many
chips gives the other two:

>>> found = budget(70e9, tokens=15e12, on="v5p:16x20x28", mfu=0.4)
>>> round(found.days, 2), round(found.chip_hours / 1e6, 2)
(44.32, 9.53)
>>> round(budget("deepseek-v3", tokens=14.8e12, on="h800", chip_hours=2.664e6, price=2).mfu, 3)
0.352

Sources: "How To Scale Your Model", chapters 4 (6·parameters·tokens), 6 and 12 (days).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from roofline import dtypes
from roofline.answers import Comparable, Fact, attributes, heading
from roofline.bounds.api import target
from roofline.errors import HardwareError, InputError, quoted
from roofline.frozen import dataclass, replace
from roofline.hardware.figures import chip_power, hourly_price, price_source
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import rate
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operation_builder import ForwardPass
from roofline.models.operations import forward_pass, matrix_flops
from roofline.models.training.passes import forward
from roofline.models.training.stage import check_trained
from roofline.quantity import Figure, figure, format_amount, format_count, format_number, format_percent
from roofline.sections import Section, word_pairs
from roofline.signatures import either, takes
from roofline.sizes import LARGEST, product
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
        raise HardwareError(wrong, hint="give one: " + either(f"--set {dtype}=…", f"set={{{dtype!r}: …}}"))
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
    shaped = product(machine.shape) * machine.slices if machine.shape else None
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
