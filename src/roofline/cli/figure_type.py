"""Figures as options: a plain number, or text with its unit (``80%``, ``$2.50/h``, ``700 W``)."""

from __future__ import annotations

from collections.abc import Callable

import click

from roofline.errors import InputError, QuantityError

Callback = Callable[[click.Context, click.Parameter, str | None], float | None]


def figure_in(unit: str) -> Callback:
    """Make what reads an option as a number in ``unit``; which numbers it may be is the library's to say."""

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
        from roofline.quantity import parse

        if value is None:
            return None
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return parse(value, unit, zero=True)
        except QuantityError as error:
            raise InputError(f"{parameter.opts[0]}: {error.message}", hint=error.hint) from None

    return read


FRACTION = figure_in("")
PRICE = figure_in("USD/h")
POWER = figure_in("W")
