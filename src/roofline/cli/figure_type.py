"""Figures as options: a plain number, or text with its unit (``80%``, ``$2.50/h``, ``700 W``)."""

from __future__ import annotations

from typing import Any

import click

from roofline.errors import InputError, QuantityError


class FigureType(click.ParamType):
    """A number in ``unit``, or text that reads as one; what a plain number may be is the library's to say."""

    name = "figure"

    def __init__(self, unit: str = "") -> None:
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the text of the option."""
        from roofline.quantity import parse

        try:
            return float(value)
        except ValueError:
            pass
        try:
            return parse(value, self.unit, zero=True)
        except QuantityError as error:
            option = param.opts[0] if param is not None else "option"
            raise InputError(f"{option}: {error.message}", hint=error.hint) from None


FRACTION = FigureType()
PRICE = FigureType("USD/h")
POWER = FigureType("W")
