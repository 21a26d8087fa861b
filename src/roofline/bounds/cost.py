"""The cost of a million tokens, or runs of a line, in dollars and joules, from the price or the power of the chips.

>>> found = token_cost(time=0.02, tokens=64, chips=8, price=2.5, power=700)
>>> round(found.dollars, 3), round(found.joules, 2), round(found.kilowatt_hours, 3)
(1.736, 1.75, 0.486)

Time at the floor makes this the least cost at this price, and the least energy at this power.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline.answers import COST_OF_FORM, OF_FORM, Fact, attributes, plain_data
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, a_or_an, quoted
from roofline.frozen import dataclass, replace
from roofline.hardware.figures import chip_power, is_tdp
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.quantity import LEAST, MOST, format_amount, format_number, format_quantity
from roofline.sections import Section, paragraph
from roofline.signatures import spelled, takes
from roofline.sizes import Size, is_array, is_number, is_symbol

#: Seconds of an hour, tokens that prices are given for, and joules of a kilowatt-hour.
HOUR = 3600.0
MILLION = 1e6
KILOWATT_HOUR = 3.6e6

#: Dollars of a million output tokens: the head of a column, and its name as data.
DOLLARS, COST = "$ a million", "cost_per_million"

#: The time behind a cost by its form, in words.
BY_FORM = {
    "lower": "at the floor", "op_by_op": "if only each operation overlaps within itself",
    "upper": "if nothing overlaps", "estimate": "by the stated overlap and overhead",
    "expected": "at the time to expect",
}  # fmt: skip

#: Joules of an output token: the head of a column, and its name as data.
ENERGY, JOULES = "energy a token", "joules_per_token"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MillionCost:
    """Cost of a million tokens, or what ``of`` says: ``chip_hours``, ``dollars`` where a price is known, joules where a
    power is.

    What does not fit (``fits`` is False) costs nothing that can be said: all are None, ``reason`` says why. Where it is
    the least of several configurations, ``each`` is the cost of every one of them, in arrays, NaN where one has none.
    ``form`` is that of the time behind it; where it is ``expected``, ``floor`` is the cost at the floor.
    """

    chip_hours: Size | None
    price: float | None
    power: float | None
    each: MillionCost | None = None
    reason: str | None = None
    of: str = "token"
    form: str = "lower"
    floor: MillionCost | None = None
    fits: bool = True

    def __repr__(self) -> str:
        found = {name: value for name, value in self.to_dict().items() if value is not None}
        return f"MillionCost({', '.join(f'{name}={value!r}' for name, value in found.items())})"

    @property
    def dollars(self) -> Size | None:
        """Dollars of a million tokens, or of what else it is of."""
        return None if self.price is None or self.chip_hours is None else self.chip_hours * self.price

    @property
    def joules(self) -> Size | None:
        """Joules of one token, or one of what else it is of."""
        hours = self.kilowatt_hours
        return None if hours is None else hours * KILOWATT_HOUR / MILLION

    @property
    def kilowatt_hours(self) -> Size | None:
        """Kilowatt-hours of a million tokens, or of what else it is of."""
        if self.power is None or self.chip_hours is None:
            return None
        return self.chip_hours * HOUR * self.power / KILOWATT_HOUR

    def counted(self, name: str) -> str:
        """What it is a million of: tokens of a ``name``, or what else it is of.

        >>> token_cost(time=1, tokens=1).counted("input"), MillionCost(1, None, None, of="run").counted("")
        ('input tokens', 'runs')
        """
        return f"{name} tokens" if self.of == "token" else f"{self.of}s"

    def where_it_fits(self, memory: Footprint) -> MillionCost:
        """The cost of what fits ``memory``; of what does not, the reason in its place.

        >>> memory = Footprint({"weights": 30e9}, "hbm", 20e9)
        >>> token_cost(time=0.02, tokens=1, price=3.6).where_it_fits(memory)
        MillionCost(reason='does not fit: needs 30 GB, hbm has 20 GB')
        """
        fits = memory.fits is not False
        reason = None if fits else f"does not fit: {memory.needs_in_words()}"
        return replace(self, chip_hours=memory.only_if_fits(self.chip_hours), reason=reason, fits=fits)

    def within(self, time: Size, limit: float) -> MillionCost:
        """The cost of configurations that take ``limit`` seconds or less; the others have none.

        >>> import numpy as np
        >>> found = token_cost(time=np.array([0.02, 0.01]), tokens=1, price=3.6)
        >>> found.within(found.chip_hours, 1e-6).least()[0].reason
        'none that fits takes 1 µs a token or less'
        """
        hours = np.asarray(self.chip_hours, float)
        kept = np.where(np.asarray(time) <= limit, hours, np.nan)
        slow = np.isnan(kept).all() and not np.isnan(hours).all()
        reason = f"none that fits takes {format_amount(limit, 's')} a {self.of} or less" if slow else self.reason
        return replace(self, chip_hours=kept, reason=reason)

    def least(self) -> tuple[MillionCost, str, int]:
        """The least of several configurations, a word on those that do not fit or keep a limit, and which it is.

        >>> import numpy as np
        >>> memory = Footprint({"weights": np.array([10e9, 30e9])}, "hbm", 20e9)
        >>> found = token_cost(time=np.array([0.02, 0.01]), tokens=1, price=3.6).where_it_fits(memory)
        >>> found.dollars.round(3), found.least()[0].dollars
        (array([20., nan]), 20.0)
        """
        hours = np.asarray(self.chip_hours, float)
        fitting = ~np.isnan(hours)
        if not fitting.any():
            reason = self.reason or "none of the configurations fits"
            return replace(self, chip_hours=None, each=self, reason=reason), "", 0
        at = int(np.nanargmin(hours))
        return replace(self, chip_hours=float(hours.flat[at]), each=self), "" if fitting.all() else " that fit", at

    def to_dict(self) -> dict[str, Any]:
        """The cost under stable keys; arrays are lists."""
        plain = attributes(self, "chip_hours", "dollars", "kilowatt_hours", "reason")
        form = {} if self.form == "lower" else {"form": self.form}
        return plain | {f"joules_per_{self.of}": plain_data(self.joules)} | form

    def facts(self, name: str = "") -> Iterator[Fact]:
        """Dollars and energy of a million tokens of a ``name``, or of runs, for a comparison: at the floor, and then as
        expected; or at the form of time that was asked for.
        """
        if self.floor is not None:
            yield from self.floor.facts(name)
        form = "expected" if self.floor is not None else self.form if self.form in OF_FORM else "lower"
        of, none = self.counted(name), self.reason if self.fits else "does not fit"
        at = {"lower": "", "estimate": "estimated"}.get(form, form)
        asked = (("$", "USD", self.price, self.dollars), ("kWh", "kWh", self.power, self.kilowatt_hours))
        for head, unit, given, amount in asked:
            if given is not None:
                word = "cost" if unit == "USD" else "kilowatt_hours"
                fact = Fact(
                    f"{head} a million {of}{COST_OF_FORM[form]}", amount, unit, "less", timed=True, form=form,
                    dollars_of=of if unit == "USD" else "",
                    column="_".join(filter(None, (at, name, word, "per_million"))),
                )  # fmt: skip
                yield fact._replace(value=f"none: {none}", unit="", timed=False) if none else fact

    def in_words(self, of: str) -> list[str]:
        """Chip-hours, dollars and energy of a million of what it is of, as a line; none where it does not fit."""
        if self.chip_hours is None:
            return []
        parts = [f"{format_number(float(self.chip_hours))} chip-hours"]
        if self.dollars is not None:
            parts.append(f"${format_number(float(self.dollars))}")
        if self.kilowatt_hours is not None and self.joules is not None:
            energy = f"{format_number(float(self.kilowatt_hours))} kWh"
            parts.append(f"{energy} ({format_quantity(float(self.joules), 'J')} {a_or_an(self.of)})")
        return [f"a million {of}: {', '.join(parts)}"]


def cost_section(costs: Mapping[str, MillionCost], said: Sequence[str]) -> tuple[Section, ...]:
    """Dollars and energy of a million tokens, those that are read and those that are made."""
    lines = [line for name, cost in costs.items() for line in cost.in_words(cost.counted(name))]
    return paragraph("cost", [*lines, *said])


def power_asked(machine: Machine, power: Any) -> tuple[float | None, list[str]]:
    """Watts of one chip where a power is asked for, and a word on those of its data sheet."""
    if power is None:
        return None, []
    watts = chip_power(machine, power)
    if watts is None:
        hint = f"give it in watts, as in {spelled('power', 700)}"
        raise InputError(f"no power of {machine.name} is known", hint=hint)
    if not is_tdp(power):
        return watts, []
    return watts, [f"power: the data sheet's {watts:g} W, an upper bound, hosts and cooling not in it"]


def chip_hours(seconds: Size) -> Size:
    """Hours of one chip for a million, of which each takes it so many seconds.

    >>> chip_hours(0.0036)
    1.0
    """
    return seconds * MILLION / HOUR


def check_amounts(**amounts: Size) -> None:
    """Refuse an amount that is no number above 0, no array of them and no symbol."""
    for name, value in amounts.items():
        if is_symbol(value):
            continue
        several = value.ravel() if is_array(value) else [value]
        if not all(is_number(each) and LEAST <= each <= MOST for each in several):
            hint = f"a number above 0, an array or a symbol; {LEAST:g} to {MOST:g}"
            raise InputError(f"{name} is {quoted(value)}", hint=hint)


@takes()
def token_cost(
    *, time: Size, tokens: Size, chips: Size = 1, price: float | None = None, power: float | None = None
) -> MillionCost:
    """Cost of a million tokens where ``chips`` make ``tokens`` in ``time`` seconds.

    ``price`` is dollars of one chip for an hour, ``power`` watts of one chip.
    """
    check_amounts(time=time, tokens=tokens, chips=chips)
    for name, value in (("price", price), ("power", power)):
        if value is not None and not (isinstance(value, int | float) and 0 <= value < float("inf")):
            hint = "dollars a chip-hour, as in 2.5; watts of a chip, as in 700"
            raise InputError(f"{name} is {quoted(value)}", hint=hint)
    return MillionCost(chip_hours(time * chips / tokens), price, power)
