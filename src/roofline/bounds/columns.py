"""A table of answers by columns: what sweeps and tables of serving steps have in common.

>>> from roofline import sweep
>>> table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 512], D=4096, F=4096, columns="lower,bound_by")
>>> dict(table)["bound_by"].tolist(), list(table), "B" in table, len(table)
(['hbm', 'tensor'], ['B', 'D', 'F', 'lower', 'bound_by'], True, 2)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from roofline.bounds.bound import Codes
from roofline.bounds.shown import Shown
from roofline.errors import InputError, suggest
from roofline.quantity import format_quantity

#: The unit of each column; sizes have none. ``time.hbm`` and the like are times.
UNITS = {
    "flops": "FLOP", "bytes": "B", "intensity": "FLOP/B", "critical_intensity": "FLOP/B", "lower": "s",
    "op_by_op": "s", "upper": "s", "estimate": "s", "attainable": "FLOP/s", "utilisation": "", "time": "s",
    "memory": "B",
}  # fmt: skip

#: Rows a terminal and a notebook show.
SHOWN = 40

#: How each kind of remark under a table looks.
REMARKS = {"assumes": "dim", "incomplete": "bold yellow"}


class Columns(Shown):
    """Rows of numpy arrays by name: ``len`` counts rows; columns are named, iterated and looked up as in a data frame.

    ``pandas.DataFrame(dict(table))`` makes one.
    """

    __slots__ = ()

    columns: Mapping[str, Any]
    incomplete: tuple[str, ...]

    @property
    @abstractmethod
    def whole(self) -> tuple[str, ...]:
        """The columns of whole numbers."""

    def remarks(self) -> list[tuple[str, str]]:
        """What stands under the table: ``("incomplete", …)``."""
        return [("incomplete", line) for line in self.incomplete]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def keys(self) -> Any:
        """The columns' names, in order."""
        return self.columns.keys()

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise InputError(f"no column {name!r}", hint=suggest(str(name), self.columns, what="columns"))
        column = self.columns[name]
        if isinstance(column, Codes):
            import numpy as np

            return np.asarray(column.names, dtype=object)[column.codes]
        return column

    def plain(self, name: str) -> list[Any]:
        """One column as a list: whole sizes as ints, figures as floats or None, codes as names."""
        values = self[name].tolist()
        if name in self.whole:
            return [int(value) for value in values]
        return [None if value != value else value for value in values]

    def rows(self, most: int) -> list[list[str]]:
        """The first rows as text, figures with their units."""
        shown = {name: self[name][:most] for name in self.columns}
        return [[_cell(name, column[index]) for name, column in shown.items()] for index in range(min(len(self), most))]

    def save(self, path: str) -> None:
        """Write the table: ``.csv``, ``.json``, ``.npz``, or ``.parquet`` (needs pyarrow), in SI units."""
        from roofline.bounds.table_files import write_table

        write_table(self, path)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys: equal-length lists."""

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=False)
        for name in self.columns:
            table.add_column(name, justify="right" if name != "bound_by" else "left", no_wrap=True)
        for row in self.rows(SHOWN):
            table.add_row(*row)
        rest = len(self) - SHOWN
        more = [f"… and {rest} more rows; -o FILE or save() writes them all"] if rest > 0 else []
        said = [Text(f"{name}  {line}", style=REMARKS[name]) for name, line in self.remarks()]
        return Group(table, *more, *said)

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        most = SHOWN // 2
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows(most))
        rest = f"<p>… and {len(self) - most} more rows</p>" if len(self) > most else ""
        said = "".join(f"<p>{name}: {escape(line)}</p>" for name, line in self.remarks())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}{said}"


def _cell(name: str, value: Any) -> str:
    """Write one figure of a table with its unit; a size has none."""
    if name == "bound_by":
        return str(value)
    unit = UNITS.get(name.partition(".")[0])
    if value != value:
        return ""
    if name == "fits":
        return "yes" if value else "no"
    return f"{int(value)}" if unit is None else format_quantity(float(value), unit)
