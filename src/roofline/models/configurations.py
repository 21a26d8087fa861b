"""The table of an answer over lists of sizes: a row a configuration, its sizes first.

>>> import numpy as np
>>> found = configurations([SizeColumn("batch", np.array([1, 8]), "size"), SizeColumn("decode at best", 0.01, "s")])
>>> [[str(cell) for cell in row.cells] for row in found.rows]
[['1', '10 ms'], ['8', '10 ms']]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.frozen import NamedTuple
from roofline.quantity import format_number, format_percent
from roofline.sections import Amount, Cell, Column, Row, Table, YesNo, spread

#: Configurations that are shown.
MOST_ROWS = 40

#: Columns of words; others hold figures.
_WORDS = ("bound by", "fits")
#: Columns that a narrow terminal leaves out, the highest first.
_SPARE = {"each user": 2, "bound by": 1}
#: Units whose figures are written without one: the head says it.
_PLAIN = ("", "token/s", "token", "USD")


class SizeColumn(NamedTuple):
    """A column: its name, a value or an array of them, the unit (``size`` of a size), and its name as data."""

    name: str
    values: Any
    unit: str = ""
    meaning: str = ""


def configurations(columns: Sequence[SizeColumn]) -> Table:
    """A row for each entry of the arrays, which broadcast against each other."""
    import numpy as np

    shape = np.broadcast_shapes(*(np.shape(each.values) for each in columns))
    flat = [np.broadcast_to(np.asarray(each.values), shape).ravel() for each in columns]

    def rows(most: int) -> list[Row]:
        return [
            Row([_cell(values[index], each.unit) for values, each in zip(flat, columns, strict=True)])
            for index in spread(flat[0].size, most)
        ]

    heads = [
        Column(
            each.name,
            "left" if each.name in _WORDS else "right",
            "words" if each.name == "bound by" else "never",
            meaning=each.meaning or each.name,
            spare=_SPARE.get(each.name, 0),
        )
        for each in columns
    ]
    return Table(heads, rows(MOST_ROWS), "configurations", indent=0, every=lambda: rows(flat[0].size))


def _cell(value: Any, unit: str) -> Cell:
    if isinstance(value, str):
        return value
    if value != value:
        return ""
    if value.dtype == bool:
        return YesNo(bool(value))
    if unit == "size" and float(value).is_integer():
        return Amount(int(value), "", format_number(float(value)))
    if unit == "share":
        return Amount(float(value), "", format_percent(float(value)))
    unit = unit.removeprefix("size")
    return Amount(float(value), unit, format_number(float(value)) if unit in _PLAIN else "")
