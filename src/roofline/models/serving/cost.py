"""The cost of a million tokens in dollars and joules, from the price or the power of the chips.

>>> found = token_cost(time=0.02, tokens=64, chips=8, price=2.5, power=700)
>>> round(found.dollars, 3), round(found.joules_per_token, 2), round(found.kilowatt_hours, 3)
(1.736, 1.75, 0.486)

Time at the floor makes this the least cost at this price, and the least energy at this power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.answers import attributes
from roofline.bounds.footprint import Footprint
from roofline.errors import InputError, quoted
from roofline.frozen import dataclass, replace
from roofline.quantity import LEAST, MOST, format_number, format_quantity
from roofline.sections import Section, paragraph
from roofline.signatures import takes
from roofline.sizes import Size, is_array, is_number, is_symbol

#: Seconds of an hour, tokens that prices are given for, and joules of a kilowatt-hour.
HOUR = 3600.0
MILLION = 1e6
KILOWATT_HOUR = 3.6e6

#: Dollars of a million output tokens: the head of a column, and its name as data.
DOLLARS, COST = "$ a million", "cost_per_million"

#: Joules of an output token: the head of a column, and its name as data.
ENERGY, JOULES = "energy a token", "joules_per_token"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TokenCost:
    """Cost of a million tokens: ``chip_hours``, ``dollars`` where a price is known, joules where a power is known.

    What does not fit costs nothing that can be said: all are None, ``reason`` says why. Where it is the least of
    several configurations, ``each`` is the cost of every one of them, in arrays with NaN for what does not fit.
    """

    chip_hours: Size | None
    price: float | None
    power: float | None
    each: TokenCost | None = None
    reason: str | None = None

    def __repr__(self) -> str:
        found = {name: value for name, value in self.to_dict().items() if value is not None}
        return f"TokenCost({', '.join(f'{name}={value!r}' for name, value in found.items())})"

    @property
    def dollars(self) -> Size | None:
        """Dollars a million tokens."""
        return None if self.price is None or self.chip_hours is None else self.chip_hours * self.price

    @property
    def joules_per_token(self) -> Size | None:
        """Joules a token."""
        hours = self.kilowatt_hours
        return None if hours is None else hours * KILOWATT_HOUR / MILLION

    @property
    def kilowatt_hours(self) -> Size | None:
        """Kilowatt-hours a million tokens."""
        if self.power is None or self.chip_hours is None:
            return None
        return self.chip_hours * HOUR * self.power / KILOWATT_HOUR

    def where_it_fits(self, memory: Footprint) -> TokenCost:
        """The cost of what fits ``memory``; of what does not, the reason in its place.

        >>> memory = Footprint({"weights": 30e9}, "hbm", 20e9)
        >>> token_cost(time=0.02, tokens=1, price=3.6).where_it_fits(memory)
        TokenCost(reason='does not fit: needs 30 GB, hbm has 20 GB')
        """
        reason = f"does not fit: {memory.needs_in_words()}" if memory.fits is False else None
        return replace(self, chip_hours=memory.only_if_fits(self.chip_hours), reason=reason)

    def least(self) -> tuple[TokenCost, str, int]:
        """The least of several configurations, a word on those that do not fit, and which it is.

        >>> import numpy as np
        >>> memory = Footprint({"weights": np.array([10e9, 30e9])}, "hbm", 20e9)
        >>> found = token_cost(time=np.array([0.02, 0.01]), tokens=1, price=3.6).where_it_fits(memory)
        >>> found.dollars.round(3), found.least()[0].dollars
        (array([20., nan]), 20.0)
        """
        import numpy as np

        hours = np.asarray(self.chip_hours, float)
        fitting = ~np.isnan(hours)
        if not fitting.any():
            return replace(self, chip_hours=None, each=self, reason="none of the configurations fits"), "", 0
        at = int(np.nanargmin(hours))
        return replace(self, chip_hours=float(hours.flat[at]), each=self), "" if fitting.all() else " that fit", at

    def to_dict(self) -> dict[str, Any]:
        """The cost under stable keys; arrays are lists."""
        return attributes(self, "chip_hours", "dollars", "joules_per_token", "kilowatt_hours", "reason")


def cost_section(costs: Mapping[str, TokenCost], said: Sequence[str]) -> tuple[Section, ...]:
    """Dollars and energy of a million tokens, those that are read and those that are made."""
    lines = []
    for name, cost in costs.items():
        if cost.chip_hours is None:
            continue
        parts = [f"{format_number(float(cost.chip_hours))} chip-hours"]
        if cost.dollars is not None:
            parts.append(f"${format_number(float(cost.dollars))}")
        if cost.kilowatt_hours is not None and cost.joules_per_token is not None:
            energy = f"{format_number(float(cost.kilowatt_hours))} kWh"
            parts.append(f"{energy} ({format_quantity(float(cost.joules_per_token), 'J')} a token)")
        lines.append(f"a million {name} tokens: {', '.join(parts)}")
    return paragraph("cost", [*lines, *said])


def check_amounts(**amounts: Size) -> None:
    """Refuse an amount that is no number above 0, no array of them and no symbol."""
    for name, value in amounts.items():
        if is_symbol(value):
            continue
        several = value.ravel() if is_array(value) else [value]
        if not all(is_number(each) and LEAST <= each <= MOST for each in several):
            raise InputError(
                f"{name} is {quoted(value)}", hint=f"a number above 0, an array or a symbol; {LEAST:g} to {MOST:g}"
            )


@takes()
def token_cost(
    *, time: Size, tokens: Size, chips: Size = 1, price: float | None = None, power: float | None = None
) -> TokenCost:
    """Cost of a million tokens where ``chips`` make ``tokens`` in ``time`` seconds.

    ``price`` is dollars of one chip for an hour, ``power`` watts of one chip.
    """
    check_amounts(time=time, tokens=tokens, chips=chips)
    for name, value in (("price", price), ("power", power)):
        if value is not None and not (isinstance(value, int | float) and 0 <= value < float("inf")):
            raise InputError(
                f"{name} is {quoted(value)}", hint="dollars a chip-hour, as in 2.5; watts of a chip, as in 700"
            )
    return TokenCost(time * chips / tokens * MILLION / HOUR, price, power)
