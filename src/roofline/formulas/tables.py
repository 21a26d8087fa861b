"""Tables of columns: rows of numpy arrays by name, as an answer, a data frame, a stream of Arrow, or a file."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from roofline.answers import READ_AS, Answer, chosen_table, with_units
from roofline.errors import InputError, check_one_of, load_extra, quoted, suggest
from roofline.files import PICTURES, check_place, replaced, write_text
from roofline.lazy import np
from roofline.meanings import attribute_meant
from roofline.quantity import EQUAL, agree, format_amount, format_number, in_a_row
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    Tone,
    YesNo,
    caveats,
)
from roofline.sizes import BLOCK, Codes, check_listed
from roofline.statements import LEAST, MOST, by_what_is_timed, kind_of


def asked_by_name(columns: Iterable[str], others: Mapping[str, str]) -> Mapping[str, str]:
    """How columns that a table may have are asked for; ``others`` in another way, ``time.`` those that begin so."""
    asked = {name: f"columns={name!r} asks for it" for name in columns}
    return MappingProxyType({**asked, "estimate": "estimate=True adds expected, low and high", **others})


def column_meant(name: Any, known: Collection[str], limit: int = 12) -> str:
    """Which of the columns that are known a name means, as a hint: it may be what a reader sees, or another's word.

    >>> column_meant("at best", ["B", "lower"]), column_meant("ridge", ["lower", "critical_intensity"])
    ("did you mean 'lower'?", "did you mean 'critical_intensity'?")
    >>> column_meant("lowr", ["B", "lower"])
    "did you mean 'lower'?"
    """
    words = [*(each for each in known if READ_AS.get(each) == name), *attribute_meant(str(name))[0]]
    meant = next((word for word in words if word in known), None)
    return suggest(str(name), known, what="columns", limit=limit) if meant is None else f"did you mean {meant!r}?"


#: Columns of yes and no, each with why a row that has no is passed over where rows of a grid of floors are kept.
YES_NO = {"fits": "does not fit the memory", "within": "takes longer at best than the limit"}

#: The unit of each column; sizes have none. ``time.hbm`` and the like are times.
UNITS = {
    "flops": "FLOP", "bytes": "B", "intensity": "FLOP/B", "critical_intensity": "FLOP/B", "lower": "s",
    "op_by_op": "s", "upper": "s", "estimate": "s", "expected": "s", "low": "s", "high": "s", "time": "s",
    "attainable": "FLOP/s", "throughput": "token/s/chip", "utilisation": "", "memory": "B", "time_per_token": "s",
    "tokens_per_second": "token/s", "tokens_per_second_per_user": "token/s",
    "tokens_per_second_per_chip": "token/s/chip", "cost_per_million": "USD",
}  # fmt: skip

#: Rows a terminal and a notebook show.
SHOWN = 40

#: Endings of files that hold a table as it is shown or drawn, not its numbers.
PICTURED = (*PICTURES, ".txt")

#: How each kind of remark under a table looks.
REMARKS: dict[str, Tone] = {
    "not ranked": "alert", "fastest": "strong", "cheapest": "strong", "does not run": "gap", "no cost": "gap",
    "assumes": "quiet", "incomplete": "gap",
}  # fmt: skip

#: The remarks that answer what a table is asked for: they stand above it.
ANSWERS = ("not ranked", "fastest", "cheapest")


class Columns(Answer, dict):  # type: ignore[type-arg]
    """Rows of numpy arrays by name: ``len`` counts rows; columns are named, iterated and looked up as in a data frame.

    ``pandas.DataFrame(table)``, ``to_pandas()`` and ``to_polars()`` make one; so does whatever reads Arrow's stream.
    It is a dictionary because pandas makes a frame of nothing else that has names; its items are worked out when asked.
    """

    __slots__ = ()

    columns: Mapping[str, Any]
    incomplete: tuple[str, ...]

    #: How columns that it has not are asked for, by name.
    INSTEAD: ClassVar[Mapping[str, str]] = {}

    @property
    @abstractmethod
    def whole(self) -> tuple[str, ...]:
        """The columns of whole numbers."""

    @property
    def same(self) -> Mapping[str, Any]:
        """What is the same in all rows and so no column: a model, a machine, formats. In a CSV file it is a column."""
        return {}

    @property
    def same_in_all(self) -> str:
        """The machine that all rows are on, and what else is the same in them, in a phrase."""
        return ""

    @property
    def about(self) -> Headline | None:
        """What the table is of, and on which machine, where it says so."""
        return None

    @property
    def untimed(self) -> Sequence[Sequence[str]]:
        """What is not timed of the rows of each choice, where that is not the same of all: they are not ranked."""
        return ()

    @property
    def rows_of_a_choice(self) -> int:
        """The rows of each choice, which stand one below the other."""
        return len(self)

    def is_partial(self, index: int) -> bool:
        """Whether times of a row are those of a part of its work, and so are not ranked among the others."""
        return bool(self.untimed and self.untimed[index // self.rows_of_a_choice])

    @property
    def gaps_of_rows(self) -> dict[str, list[str]]:
        """The column ``incomplete`` of files and data: what is not timed of a row, where only some are timed whole."""
        each = ("; ".join(self.untimed[row // self.rows_of_a_choice]) for row in range(len(self)))
        return {"incomplete": list(each)} if self.untimed else {}

    def first(self) -> Iterator[Section]:
        """The answer that a table gives, above it."""
        return iter(())

    def remarks(self) -> list[tuple[str, str]]:
        """What is said of the table, by kind: ``("incomplete", …)``."""
        return [("incomplete", line) for line in self.incomplete]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def keys(self) -> Any:
        """The columns' names, in order."""
        return self.columns.keys()

    def items(self) -> Any:
        """Names and columns."""
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        """The columns."""
        return [self[name] for name in self]

    def get(self, name: str, default: Any = None) -> Any:
        """A column, or a default where there is none of this name."""
        return self[name] if self.__contains__(name) else default

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            meant, *others = attribute_meant(str(name))[0]
            asked = self.INSTEAD.get(meant) or self.INSTEAD.get(meant[: meant.find(".") + 1])
            absent = "" if {meant, *others} & self.columns.keys() else asked
            raise InputError(f"no column {name!r}", hint=absent or column_meant(name, self.columns))
        column = self.columns[name]
        return column.as_names() if isinstance(column, Codes) else column

    def row_number(self, index: int) -> int:
        """Which row an index means, from the end where it is negative; one that is not there is an error."""
        if not -len(self) <= index < len(self):
            raise InputError(f"there is no row {quoted(index)}", hint=f"of {len(self):,} rows the first is 0")
        return int(index) % len(self)

    def flat(self, name: str) -> Any:
        """One column in one dimension, the columns of whole numbers as integers."""
        values = np.asarray(self[name]).reshape(-1)
        return integers(values) if name in self.whole else values

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table as a stream of Arrow, which pyarrow, polars, duckdb and others read without a copy."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The table as one of pyarrow; names are a dictionary column."""
        pyarrow = load_extra("pyarrow", "parquet")

        def column(name: str) -> Any:
            codes = self.columns[name]
            if not isinstance(codes, Codes):
                return pyarrow.array(self.flat(name))
            return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes.codes.reshape(-1)), list(codes.names))

        return pyarrow.table({**{name: column(name) for name in self}, **self.gaps_of_rows})

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column of figures."""
        return {name: unit for name in self if (unit := _unit(name))}

    def to_pandas(self, table: str | None = None, *, columns: Sequence[str] | None = None) -> Any:
        """The table, ``"rows"``, as a data frame of pandas, or some ``columns``; ``attrs["units"]`` has the units.

        Columns of a formula are worked out when they are asked for, so that few of them are quicker than all. There is
        a column ``incomplete`` as in :meth:`save`.
        """
        chosen_table(table, ("rows",))
        frame = _library("pandas").DataFrame({name: self.flat(name) for name in (self if columns is None else columns)})
        for name, gaps in self.gaps_of_rows.items():
            frame[name] = gaps
        frame.attrs |= {"units": self.units, "incomplete": list(getattr(self, "incomplete", ()))}
        return frame

    def to_polars(self) -> Any:
        """The table as a data frame of polars."""
        return _library("polars").DataFrame({**{name: self.flat(name) for name in self}, **self.gaps_of_rows})

    def plain(self, name: str) -> list[Any]:
        """One column as a list: whole sizes as ints, figures as floats or None, codes as names, what fits as bools."""
        check_listed(len(self))
        return self._plain(name, self.flat(name))

    def _plain(self, name: str, values: Any) -> list[Any]:
        kind = int if name in self.whole else bool if name in YES_NO else lambda value: value
        return [None if value != value else kind(value) for value in values.tolist()]

    def plain_columns(self) -> dict[str, list[Any]]:
        """All columns as lists, and what is not timed of each row where only some are timed whole."""
        return {**{name: self.plain(name) for name in self.columns}, **self.gaps_of_rows}

    def plain_blocks(self) -> Iterator[dict[str, list[Any]]]:
        """The same for some rows after the other, of any number."""
        flat, gaps = {name: self.flat(name) for name in self.columns}, self.gaps_of_rows
        for start in range(0, max(len(self), 1), BLOCK):
            rows = slice(start, start + BLOCK)
            shown = {name: self._plain(name, column[rows]) for name, column in flat.items()}
            yield {**shown, **{name: each[rows] for name, each in gaps.items()}}

    def rows(self, most: int) -> list[list[Cell]]:
        """The first rows, figures with their units."""
        return self.rows_at(range(min(max(most, 0), len(self))), list(self.columns))

    def rows_at(self, indices: Sequence[int], names: Iterable[str]) -> list[list[Cell]]:
        """Some columns of some rows, figures with their units."""
        shown = {name: self.flat(name)[list(indices)] for name in names}
        return [
            [_cell(name, column[at], self.is_partial(index)) for name, column in shown.items()]
            for at, index in enumerate(indices)
        ]

    def columns_of(self, names: Iterable[str]) -> list[Column]:
        """Some columns as a reader sees them."""
        return [
            Column(READ_AS.get(n, n), "left" if isinstance(self.columns[n], Codes) else "right", meaning=n)
            for n in names
        ]

    def save(
        self,
        path: str | os.PathLike[str],
        table: str | None = None,
        *,
        width: int | None = None,
        theme: str | None = None,
        title: str = "",
    ) -> None:
        """Write the table: ``.csv``, ``.json``, ``.npz``, or ``.parquet`` (needs pyarrow), in SI units.

        In ``.csv`` the head has the units, and what is the same in all rows is a column too. Where only some rows are
        timed whole, ``incomplete`` is one: what is not timed of a row.
        ``.svg``, ``.png`` and ``.pdf`` draw it, ``.txt`` is what a terminal shows.
        """
        chosen_table(table, ("rows",))
        is_shown = width is not None or theme is not None or title or Path(path).suffix.lower() in PICTURED
        super().save(path, width=width, theme=theme, title=title) if is_shown else write_table(self, os.fspath(path))

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys: equal-length lists."""

    def in_brief(self) -> Iterator[str]:
        """How many rows fit, where that is a column, and what answers the question: of a table that is not shown.

        >>> from roofline import sweep
        >>> list(sweep("llama-3-8b", on="h100", batch=[1, 64, 256], context=[2048, 8192]).in_brief())
        ['5 of 6 rows fit the memory']
        """
        if "fits" in self.columns:
            fits = [value for value in self.plain("fits") if value is not None]
            yield f"{sum(fits):,} of {len(fits):,} rows {agree(sum(fits), 'fit')} the memory"
        yield from (f"{name}  {line}" for name, line in self.remarks() if name in ANSWERS)

    def sections(self, most: int = SHOWN) -> Iterator[Section]:
        def rows(most: int) -> list[Row]:
            return [Row(cells) for cells in self.rows(most)]

        if self.about is not None:
            yield from (self.about, BLANK)
        remarks = self.remarks()
        slips = [line for _, line in remarks if kind_of(line) == "doubt"]
        yield from caveats(slips)
        said = [(name, line) for name, line in remarks if line not in slips]
        answers = (Sentences([f"{name}  {line}"], REMARKS[name], indent=0) for name, line in said if name in ANSWERS)
        first: list[Section] = [*answers, *self.first()]
        if first:
            yield from (*first, BLANK)
        yield Table(
            self.columns_of(list(self.columns)), rows(most), "rows", indent=0, gap=4, every=lambda: rows(len(self))
        )
        rest = len(self) - most
        if rest > 0:
            yield Sentences([f"… and {rest} more rows; -o FILE or save() writes them all"], "quiet", indent=0)
        yield from (
            Sentences([f"{name}  {line}"], REMARKS[name], indent=0) for name, line in said if name not in ANSWERS
        )


#: What a choice is called at a size that no choice is timed whole at.
NO_TIME = "none timed whole"

#: What stands before a figure of the timed part of the work, by its column.
_SIGNS = {
    **dict.fromkeys(("lower", "op_by_op", "upper", "time_per_token", "cost_per_million"), LEAST),
    **dict.fromkeys(
        ("attainable", "throughput", "utilisation", "tokens_per_second", "tokens_per_second_per_user",
         "tokens_per_second_per_chip"), MOST,
    ),
}  # fmt: skip

#: The most rows of which the fastest choice at each size is named, and the most sizes that are named one by one.
MOST_RANKED, MOST_NAMED = 20_000, 12


def fastest_said(table: Columns, choices: Sequence[str], sizes: Sequence[str]) -> list[tuple[str, str]]:
    """Which of several choices has the lowest floor of those that fit and are timed whole, and at which sizes.

    Where what to expect is known of all rows, it is the least time to expect.

    >>> from roofline import sweep
    >>> grid = sweep("bf16[B, D] * bf16[D, F]", on=["h100", "h200", "mi300x"], B=[64, 512, 4096], D=8192, F=8192)
    >>> fastest_said(grid, ["on"], ["B", "D", "F"])
    [('fastest', 'mi300x at all 3 sizes')]
    >>> fastest_said(sweep("bf16[B, 8192] * bf16[8192, 8192]", on=["h100", "h200"], B=[64, 4096]), ["on"], ["B"])
    [('fastest', 'h200 at B 64; h100 and h200 alike at B 4,096')]
    >>> layouts = {"fsdp": [64, 16, 8], "tensor": 1, "batch_tokens": 2**22}
    >>> fastest_said(sweep("llama-3-8b", "train", on="h100:64", **layouts), ["fsdp"], ["batch_tokens"])
    [('fastest', '3 alike, and fsdp 64 takes the least at worst')]
    """
    if "lower" not in table.columns or len(table) > MOST_RANKED:
        return []
    rows = {name: table.plain(name) for name in (*choices, *sizes)}
    told = {names: [name for name in names if len(set(rows[name])) > 1] for names in (tuple(choices), tuple(sizes))}
    by, over = told.values()
    asked = [name for name in YES_NO if name in table.columns]
    fits = [False not in each for each in zip(*map(table.plain, asked), strict=True)] or [True] * len(table)
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    parts: dict[tuple[Any, ...], float] = {}  # the least time of a part of the work
    times, expected = table.plain("lower"), table.plain("expected") if "expected" in table.columns else []
    is_expected = bool(expected) and None not in (new for new, time in zip(expected, times, strict=True) if time)
    upper = table.plain("upper") if "upper" in table.columns else [None] * len(table)
    worst: dict[tuple[Any, ...], dict[str, float]] = {}
    for at, time in enumerate(expected if is_expected else times):
        if time is None and fits[at]:  # a row that cannot be
            continue
        who = " ".join(str(rows[name][at]) if name == "on" else f"{name} {rows[name][at]}" for name in by)
        size = tuple(rows[name][at] for name in over)
        of_size = found.setdefault(size, {})
        if time is not None and fits[at] and table.is_partial(at):
            parts[size] = min(time, parts.get(size, time))
        elif time is not None and fits[at]:
            of_size[who] = min(time, of_size.get(who, time))
            late = upper[at]
            worst.setdefault(size, {})[who] = time if late is None else late
    if not by:
        return []
    part = "" if table.untimed else by_what_is_timed(getattr(table, "incomplete", ()))
    part += "as expected, " if is_expected else ""
    wins: dict[str, list[tuple[Any, ...]]] = {}
    for size, of_size in found.items():
        least = _least_of(of_size)
        alike = in_a_row(least) + " alike" * (len(least) > 1)
        if len(least) > 2:
            late = _least_of({who: worst[size][who] for who in least})
            at_worst = f", and {late[0]} takes the least at worst" if len(late) == 1 else ""
            alike = f"{len(least)} alike{at_worst}"
        if size in parts:
            alike = (
                f"{alike} of those timed whole" if least and parts[size] < min(of_size.values()) else alike or NO_TIME
            )
        none = "none that fits is within the limit" if "within" in asked else "none fits"
        wins.setdefault(alike or none, []).append(size)
    per, what = ("for", "models") if over == ["model"] else ("at", "sizes")
    if len(wins) == 1:
        every = "" if not over else f" {per} both {what}" if len(found) == 2 else f" {per} all {len(found):,} {what}"
        return [("fastest", part + next(iter(wins)) + every)]
    named = len(found) <= MOST_NAMED and len(over) == 1
    head = per if what == "models" else f"at {over[0]}"
    said = [
        f"{who} {head} {', '.join(map(_as_size, (size[0] for size in won)))}" if named else f"{who} {per} {len(won):,}"
        for who, won in wins.items()
    ]
    first, *others = said
    return [("fastest", part + "; ".join([first if named else f"{first} of {len(found):,} {what}", *others]))]


def _as_size(value: Any) -> str:
    """A size, or the name of a model."""
    return value if isinstance(value, str) else f"{value:,}"


def _least_of(times: Mapping[str, float]) -> list[str]:
    """The names of the least time, and of those that are equal to it."""
    return [who for who, time in times.items() if time <= (1 + EQUAL) * min(times.values())]


def not_ranked_said(table: Columns, choices: Sequence[str]) -> list[tuple[str, str]]:
    """The choices of a table that are not timed whole, with what is left out."""
    every = {name: table.plain(name)[:: table.rows_of_a_choice] for name in choices} if table.untimed else {}
    return [("not ranked", line) for line in choices_not_ranked(every, table.untimed)]


def choices_not_ranked(choices: Mapping[str, Sequence[Any]], untimed: Sequence[Sequence[str]]) -> list[str]:
    """Which choices are not timed whole, and what is left out.

    >>> choices_not_ranked({"on": ["h100:8", "mi300x:8"], "tensor": [8, 8]}, [[], ["not timed: hops"]])
    ['mi300x:8: not timed: hops']
    """
    told = {name: values for name, values in choices.items() if len(set(values)) > 1}
    found: dict[str, dict[str, None]] = {}
    for number, gaps in enumerate(untimed):
        row = ((name, values[number]) for name, values in told.items())
        who = " ".join(str(value) if name == "on" else f"{name} {value}" for name, value in row)
        for line in gaps:
            found.setdefault(line, {})[who] = None
    return [f"{', '.join(who)}: {line}" for line, who in found.items()]


def _cell(name: str, value: Any, is_partial: bool = False) -> Cell:
    """One figure of a table with its unit; a size has none. Of a part of the work it says so."""
    if isinstance(value, str):
        return value
    unit = _unit(name)
    if value != value:
        return ""
    if name in YES_NO:
        return YesNo(bool(value))
    sign = _SIGNS.get(name.partition(".")[0], "") if is_partial else ""
    if unit == "USD" or (sign and unit is not None):
        text = format_number(float(value)) if unit == "USD" else format_amount(float(value), unit)
        return Amount(float(value), unit, f"{sign} {text}".lstrip())
    return Amount(int(value), "", str(int(value))) if unit is None else Amount(float(value), unit)


def _unit(name: str) -> str | None:
    return UNITS.get(name.partition(".")[0], _OF_RATES.get(name[:2]))


#: The units of peaks and bandwidths, by how the names of rates begin.
_OF_RATES = {"P_": "FLOP/s", "W_": "B/s"}


def write_table(table: Columns, path: str) -> None:
    """Write ``table`` as CSV, JSON, npz or parquet; another suffix, or a file that cannot be written, is an error."""
    check_table(path)
    with replaced(path) as part:
        _WRITERS[Path(path).suffix.lower()](table, part)


def check_table(path: str) -> None:
    """Refuse a file that no table can be written to, as CSV, JSON, npz, parquet, text or a picture."""
    check_one_of(f"cannot write a table to {path!r}", Path(path).suffix.lower(), [*_WRITERS, *PICTURED], "endings")
    check_place(path)


def _csv(table: Columns, path: str) -> None:
    import csv

    same = {name: v for name, v in table.same.items() if name not in table.columns}
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, columns in enumerate(table.plain_blocks()):
            if number == 0:
                writer.writerow(with_units([*same, *columns], table.units))
            writer.writerows((*same.values(), *row) for row in zip(*columns.values(), strict=True))


def in_one_cell(value: Any) -> Any:
    """What is the same in all rows as one cell of a file: numbers and text as they are, several of them beside others.

    >>> in_one_cell(0.5), in_one_cell({"X": 4, "Y": 2}), in_one_cell((128, 128, 64))
    (0.5, 'X=4 Y=2', '128 128 64')
    """
    if isinstance(value, Mapping):
        return " ".join(
            f"{name}={each:g}" if isinstance(each, float) else f"{name}={each}" for name, each in value.items()
        )
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _npz(table: Columns, path: str) -> None:
    flat = {name: table.flat(name) for name in table.columns}
    plain = {name: column.astype(str) if column.dtype == object else column for name, column in flat.items()}
    plain |= {name: np.asarray(gaps) for name, gaps in table.gaps_of_rows.items()}
    np.savez_compressed(path, **plain)


def integers(values: Any) -> Any:
    """Whole numbers as integers, where they and nothing else are among the values; larger ones than 2^63 stay floats.

    >>> import numpy as np
    >>> integers(np.array([1.0, 64.0])).tolist(), integers(np.array([1.0, 1e30])).tolist()
    ([1, 64], [1.0, 1e+30])
    """
    if values.dtype.kind != "f":
        return values
    fits = bool((np.abs(values) < 2.0**63).all()) and bool((np.rint(values) == values).all())
    return values.astype(np.int64) if fits else values


def stacked(parts: Sequence[Any], rows: Sequence[int]) -> Any:
    """A column of several tables, one below the other; NaN, or no name, where one has none of it.

    >>> import numpy as np
    >>> stacked([np.array([1.0]), None], [1, 2]).tolist()
    [1.0, nan, nan]
    >>> stacked([Codes(np.array([0]), ("hbm",)), Codes(np.array([1]), ("mxu", "hbm"))], [1, 1]).decode()
    ['hbm', 'hbm']
    """
    if len(parts) == 1 and parts[0] is not None:
        return parts[0]
    given = [part for part in parts if part is not None]
    ends = np.cumsum([0, *rows]).tolist()
    places = [slice(start, end) for start, end in pairwise(ends)]
    if any(isinstance(part, Codes) for part in given):
        lacking = ("",) if len(given) < len(parts) else ()
        names = tuple(dict.fromkeys((*(name for part in given for name in part.names), *lacking)))
        codes = np.full(ends[-1], len(names) - 1, np.int16)
        for part, place in zip(parts, places, strict=True):
            if part is not None:
                codes[place] = np.asarray([names.index(name) for name in part.names], np.int16)[part.codes.reshape(-1)]
        return Codes(codes, names)
    alike = given and len(given) == len(parts) and all(part.dtype == given[0].dtype for part in given)
    found = np.empty(ends[-1], given[0].dtype) if alike else np.full(ends[-1], np.nan)
    for part, place in zip(parts, places, strict=True):
        if part is not None:
            found[place] = part.reshape(-1)
    return found


def rows_of(column: Any, which: Any) -> Any:
    """Some rows of a column."""
    return Codes(column.codes[which], column.names) if isinstance(column, Codes) else column[which]


def _library(name: str) -> Any:
    """Load a library that a caller has who asks for its kind of table."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed", hint=f"pip install {name}, or save the table as .csv") from None


_WRITERS: Mapping[str, Callable[[Columns, str], None]] = {
    ".csv": _csv,
    ".json": lambda table, path: write_text(path, json.dumps(table.to_dict(), allow_nan=False)),
    ".npz": _npz,
    ".parquet": lambda table, path: load_extra("pyarrow.parquet", "parquet").write_table(table.to_arrow(), path),
}
