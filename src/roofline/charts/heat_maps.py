"""A table over two sizes as a heat map: a cell for each pair, its colour the time, the rate or what binds.

Cells are equally wide whatever the sizes; a line runs where what binds changes. Colours are those of what fits; what
does not is pale and striped.

>>> from roofline import sweep
>>> table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[64, 256, 1024, 4096], D=[256, 1024, 4096, 8192], F="D")
>>> list(with_heat_maps(table, {}))[:5]
['rate-map', 'time-map', 'limit-map', 'upper-map', 'intensity-map']
>>> chart = table.plot("time-map")
>>> chart
<Chart 'Time at best over B and D': heatmap with 1 line, 16 cells>
>>> chart.x.names, chart.cells[0].label, chart.cells[0].part
(('64', '256', '1,024', '4,096'), 'B = 64, D = 256: 58.6 ns, hbm binds', 'below 100 ns')
>>> chart.lines[0].label
'border of hbm and tensor'

Of a table over two sizes and of several machines or choices, a map says which is the fastest where:

>>> table = sweep("bf16[B, D] * bf16[D, F]", on=["a100", "l40s"], B=[1, 4096], D=[256, 8192], F="4*D")
>>> for cell in table.plot("fastest-map").cells[-2:]:
...     print(cell.label)
B = 4,096, D = 256: a100 is the fastest, 6.88 µs, tensor binds
B = 4,096, D = 8,192: l40s is the fastest, 6 ms, tensor binds
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from roofline.charts.chart import Chart, joined
from roofline.charts.specification import NEUTRAL, Axis, HeatCell, LeftOut, Line, ticks
from roofline.formulas.tables import UNITS, YES_NO, Columns
from roofline.frozen import dataclass
from roofline.lazy import np
from roofline.quantity import agree, format_number, format_quantity
from roofline.sections import spread
from roofline.sizes import Codes

#: The usual kinds of maps: the columns that each may draw, the first that a table has, and what it is called. Any other
#: column of figures has a map of its name.
KINDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "cost-map": (("cost_per_million",), "Cost of a million tokens"),
    "rate-map": (("attainable", "throughput", "tokens_per_second"), "Attainable throughput"),
    "time-map": (("lower",), "Time at best"),
    "limit-map": (("bound_by",), "What binds"),
}

#: The maps that draw the columns of curves.
_CURVES = {"time": "time-map", "throughput": "rate-map"}

#: Values of a size from which on a map is easier to read than a curve for each.
LEAST_SIZES = 4

#: Cells of a map along each axis; of more sizes so many are drawn.
MOST_CELLS = 48

#: Cells along each axis that have room for their values.
MOST_TEXTS = 10

#: The longest name of a limit that has room in a cell.
MOST_LETTERS = 9

#: What a cell without a colour stands for.
BLANK = LeftOut("a blank cell does not fit the memory or is not possible")

#: Colours of a map.
SHADES = 8

#: A scale of colours grows by factors where the most is so many times the least.
BY_FACTORS = 10.0

#: Steps of a scale of colours within a decade, the finest first.
_STEPS = ((1, 2, 5), (1, 3), (1,))

#: Corners of cells, in columns and rows.
_Corner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Plane:
    """A table by its two sizes: names and values across and up, and the row of each pair, -1 where there is none.

    Where there are rows for several chips or choices, ``chosen`` names these, and the row is the fastest of each pair.
    """

    table: Columns
    across: str
    up: str
    columns: tuple[Any, ...]
    rows: tuple[Any, ...]
    at: Any
    sizes: tuple[str, ...]
    chosen: tuple[str, ...] = ()

    @property
    def is_dense(self) -> bool:
        """Whether both are sizes of so many values that curves are hard to read."""
        fewest = min(len(self.columns), len(self.rows))
        return fewest >= LEAST_SIZES and {self.across, self.up} <= set(self.table.whole)

    @property
    def called(self) -> str:
        """What a map of the fastest rows shows."""
        return "The fastest machine" if self.chosen == ("on",) else "The fastest choice"

    def said(self, name: str, value: Any) -> str:
        """A size or a choice with its name; chips say by themselves what they are."""
        return str(value) if name == "on" else f"{name} = {_written(value)}"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The picture of a column over two sizes; of the fastest rows it has no column."""

    plane: _Plane
    column: str
    what: str

    def __call__(self) -> Chart:
        """Draw it."""
        plane, column = self.plane, self.column
        table, of_limits = plane.table, column == "bound_by" or bool(plane.chosen)
        across, up = spread(len(plane.columns), MOST_CELLS), spread(len(plane.rows), MOST_CELLS)
        pairs = {(x, y): int(plane.at[a, b]) for x, a in enumerate(across) for y, b in enumerate(up)}
        drawn = [row for row in pairs.values() if row >= 0]
        values, limits, fits = (_in_rows(table, name, drawn) for name in (column, "bound_by", "fits"))
        if plane.chosen:
            values, told_of = _choices(plane, drawn), _in_rows(table, "lower", drawn)
        says = "is the fastest" if plane.chosen else "binds"
        places = {place: row for place, row in pairs.items() if row >= 0 and _is_known(values[row])}
        named = values if plane.chosen else limits
        binding = {place: named[row] for place, row in places.items() if named}
        of_kind = partial(_of_limits, says=says) if of_limits else _of_values
        shown = list(map(values.__getitem__, places.values()))
        fitting = shown if of_limits else [values[row] for row in places.values() if fits.get(row, True)]
        shades, part = of_kind(fitting or shown, column)
        texts = _region_texts(binding, says) if of_limits else _cell_texts(plane, places, values, binding, column)
        cells = []
        for place, row in places.items():
            ends = (plane.columns[across[place[0]]], plane.rows[up[place[1]]])
            pair = ", ".join(
                plane.said(name, value) for name, value in zip((plane.across, plane.up), ends, strict=True)
            )
            figure = _figure(values[row], column)
            told = (
                [f"{figure} {says}", _figure(told_of[row], "lower")] if plane.chosen else [] if of_limits else [figure]
            )
            told += [f"{limits[row]} binds"] if limits else []
            beyond = fits.get(row) is not None and not fits[row]
            label = f"{pair}: {', '.join(told)}{', does not fit' * beyond}"
            number = 0.0 if of_limits else float(values[row])
            shade, text = shades(values[row]), texts.get(place, "")
            cells.append(HeatCell(label, *place, number, shade, part(values[row]), text, beyond, figure))
        names = list(dict.fromkeys(binding.values()))
        border = f"border of {joined(names)}" if names else ""
        lines = [
            Line(border, tuple(float(x) for x, _ in path), tuple(float(y) for _, y in path), "ceiling", NEUTRAL)
            for path in _borders(binding)
        ]
        return Chart(
            kind="heatmap",
            title=_title(plane, self.what),
            subtitle=_subtitle(plane),
            x=_axis(plane.across, [plane.columns[at] for at in across]),
            y=_axis(plane.up, [plane.rows[at] for at in up]),
            marks=(*cells, *lines),
            notes=(
                *_thinned(plane, len(across), len(up)),
                *[BLANK] * (len(places) < len(pairs)),
                *(line if name == "assumes" else f"{name}: {line}" for name, line in table.remarks()),
            ),
        )


def columns_drawn(kind: str, picture: Callable[[], Chart]) -> Sequence[str]:
    """The columns of a table that a picture may draw: a map its own, a curve those that the map in its place may."""
    return (picture.column,) if isinstance(picture, HeatMap) else KINDS[_CURVES[kind]][0]


def with_heat_maps(table: Columns, curves: Mapping[str, Callable[[], Chart]]) -> dict[str, Callable[[], Chart]]:
    """The pictures of a table by kind: curves, and its heat maps, which come first where curves would be many."""
    plane = _plane(table)
    if plane is None:
        fastest = _plane_of_fastest(table)
        return {**curves} if fastest is None else {**curves, "fastest-map": HeatMap(fastest, "", fastest.called)}
    drawn = {kind: (_column(table, kind), what) for kind, (_, what) in KINDS.items()}
    taken = [column for column, _ in drawn.values()]
    others = [name for name in table.columns if name not in (*plane.sizes, *taken, *YES_NO)]
    named = {f"{re.sub('[_.]', '-', name)}-map": name for name in others if _is_number(table, name)}
    drawn |= {kind: (name, _called(name).capitalize()) for kind, name in named.items()}
    maps = {kind: HeatMap(plane, *each) for kind, each in drawn.items() if _is_told(table, each[0])}
    return {**maps, **curves} if plane.is_dense else {**curves, **maps}


def _plane(table: Columns) -> _Plane | None:
    """The table by its two sizes, the one with more values across; None where it is over fewer or more of them."""
    sizes = _sizes_of(table)
    found = {name: _values_of(table, name) for name in sizes}
    varying = [name for name in sizes if len(found[name][0]) > 1]
    for number, first in enumerate(varying):
        for second in varying[number + 1 :]:
            across, up = sorted((first, second), key=lambda name: -len(found[name][0]))
            (columns, x), (rows, y) = found[across], found[up]
            at = np.full((len(columns), len(rows)), -1)
            at[x, y] = np.arange(len(table))
            # a table that was stopped lacks some of its last pairs
            before = (len(found[first][0]) - 1) * len(found[second][0])
            if before < len(table) == int((at >= 0).sum()):
                return _Plane(table, across, up, columns, rows, at, sizes)
    return None


def _plane_of_fastest(table: Columns) -> _Plane | None:
    """The table by its two sizes, the fastest row of each pair: one that fits, where any does.

    None where more sizes of the work vary: rows of a pair would be of another work.
    """
    sizes, whole = _sizes_of(table), set(table.whole)
    found = {name: _values_of(table, name) for name in sizes}
    own = getattr(table, "sizes", whole)  # of a step its layouts are whole numbers too, and no sizes of the work
    varying = [name for name in sizes if len(found[name][0]) > 1]
    ranked = sorted((name for name in varying if name in own), key=lambda name: -len(found[name][0]))
    if len(ranked) < 2 or "lower" not in table.columns:
        return None
    across, up = ranked[:2]
    (columns, x), (rows, y) = found[across], found[up]
    pairs = x * len(rows) + y
    several = [name for name in varying if len(set(zip(pairs, found[name][1], strict=True))) > len(set(pairs))]
    if not several or not set(several).isdisjoint(own):
        return None
    at = np.full((len(columns), len(rows)), -1)
    times = table.flat("lower").astype(float)
    beyond = ~table.flat("fits").astype(bool) if "fits" in table.columns else np.zeros(len(table), dtype=bool)
    for row in np.lexsort((times, beyond))[::-1].tolist():  # the fastest last, so that it stays
        if np.isfinite(times[row]):
            at[x[row], y[row]] = row
    return _Plane(table, across, up, columns, rows, at, tuple(n for n in sizes if n not in several), tuple(several))


def _choices(plane: _Plane, rows: Sequence[int]) -> dict[int, str]:
    """The chips and the choices of some rows, in words."""
    names = [_in_rows(plane.table, name, rows) for name in plane.chosen]
    return {
        row: ", ".join(
            str(each[row]) if name == "on" else f"{name} {_written(each[row])}"
            for name, each in zip(plane.chosen, names, strict=True)
        )
        for row in rows
    }


def _sizes_of(table: Columns) -> tuple[str, ...]:
    """The choices and sizes of a table, which stand before its figures."""
    names, whole = list(table.columns), set(table.whole)
    last = max((at for at, name in enumerate(names) if name in whole), default=-1)
    return tuple(names[: last + 1])


def _values_of(table: Columns, name: str) -> tuple[tuple[Any, ...], Any]:
    """The values of a column, numbers by size and names in their order; the place of each row among them."""
    column = table.columns[name]
    if not isinstance(column, Codes):
        values, places = np.unique(table.flat(name), return_inverse=True)
        return tuple(values.tolist()), places.reshape(-1)
    codes, first, places = np.unique(column.codes.reshape(-1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return tuple(column.names[at] for at in codes[order]), np.argsort(order)[places.reshape(-1)]


def _column(table: Columns, kind: str) -> str:
    return next((name for name in KINDS[kind][0] if name in table.columns), "")


def _is_number(table: Columns, column: str) -> bool:
    """Whether a column has figures, not names."""
    return not isinstance(table.columns[column], Codes) and table.flat(column).dtype.kind in "iuf"


def _is_told(table: Columns, column: str) -> bool:
    """Whether a table has the column, and a figure in it."""
    if not column or isinstance(table.columns[column], Codes):
        return bool(column)
    values = table.flat(column).astype(float)
    return bool((np.isfinite(values) & (values > 0)).any())


def _in_rows(table: Columns, name: str, rows: Sequence[int]) -> dict[int, Any]:
    """A column in some rows; of one that a table lacks nothing."""
    column = table.columns.get(name)
    if column is None:
        return {}
    if isinstance(column, Codes):
        found = [column.names[code] for code in column.codes.reshape(-1)[rows]]
    else:
        found = table.flat(name)[rows].tolist()
    return dict(zip(rows, found, strict=True))


def _is_known(value: Any) -> bool:
    return value not in (None, "") and (isinstance(value, str) or math.isfinite(value))


def _figure(value: Any, column: str) -> str:
    if UNITS.get(column) == "USD":
        return f"${format_number(float(value))}"
    return str(value) if isinstance(value, str) else format_quantity(float(value), UNITS.get(column, ""))


def _of_limits(values: Sequence[Any], column: str, says: str) -> tuple[Callable[[Any], int], Callable[[Any], str]]:
    """The shade of each limit, far from each other, and what the key says of it."""
    names = list(dict.fromkeys(values))
    shades = {name: round(number * (SHADES - 1) / max(len(names) - 1, 1)) for number, name in enumerate(names)}
    return shades.__getitem__, lambda name: f"{name} {says}"


def _of_values(values: Sequence[Any], column: str) -> tuple[Callable[[Any], int], Callable[[Any], str]]:
    """The shade of a value and what the key says of it: a range between round numbers."""
    least, most = min(values), max(values)
    steps = round_steps(least, most)
    said = [_figure(step, column) for step in steps]
    between = [f"{low} to {high}" for low, high in pairwise(said)]
    ranges = [f"below {said[0]}", *between, f"{said[-1]} or more"] if said else [_figure(least, column)]

    def level(value: Any) -> int:
        return sum(value >= step for step in steps)

    lowest = level(least)
    span = max(level(most) - lowest, 1)
    return (lambda value: round((level(value) - lowest) * (SHADES - 1) / span)), (lambda value: ranges[level(value)])


def round_steps(least: float, most: float) -> list[float]:
    """Round numbers between two values, fewer than there are shades: by factors where they are far apart.

    >>> round_steps(1e-6, 3e-4), round_steps(3.1, 7.2), round_steps(1.0, 1e4)
    ([2e-06, 5e-06, 1e-05, 2e-05, 5e-05, 0.0001, 0.0002], [4.0, 5.0, 6.0, 7.0], [10.0, 100.0, 1000.0, 10000.0])
    >>> round_steps(3.0, 3.0)
    []
    """
    if least == most:
        return []
    if least <= 0 or most / least < BY_FACTORS:
        return [value for value, _ in ticks(Axis("", "", "linear", (least, most))) if least < value <= most]
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    for factors in _STEPS:
        found = [step for decade in decades for each in factors if least < (step := float(f"{each}e{decade}")) <= most]
        if len(found) < SHADES:
            return found
    return found[:: math.ceil(len(found) / (SHADES - 1))]


def _cell_texts(
    plane: _Plane, places: Mapping[_Corner, int], values: Mapping[int, Any], binding: Mapping[_Corner, str], column: str
) -> dict[_Corner, str]:
    """The value of each cell and what binds there where the cells are few, else what binds where."""
    names = set(binding.values())
    if max(len(plane.columns), len(plane.rows)) > MOST_TEXTS:
        return _region_texts(binding, "binds")
    told = len(names) > 1 and max(map(len, names)) <= MOST_LETTERS
    return {
        place: _figure(values[row], column) + (f"\n{binding[place]}" if told else "") for place, row in places.items()
    }


def _region_texts(binding: Mapping[_Corner, str], says: str) -> dict[_Corner, str]:
    """What binds, or is the fastest, said once in the middle of the cells where it does."""
    found = {}
    for name in dict.fromkeys(binding.values()):
        inner = {place for place, other in binding.items() if other == name}
        while True:  # layers of cells are taken off until none is left
            core = {(x, y) for x, y in inner if {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} <= inner}
            if not core:
                break
            inner = core
        listed = sorted(inner)
        found[listed[len(listed) // 2]] = f"{name} {says}"
    return found


def _borders(binding: Mapping[_Corner, str]) -> Iterator[list[_Corner]]:
    """Paths along the sides of cells on whose two sides another resource binds.

    >>> list(_borders({(0, 0): "hbm", (1, 0): "hbm", (0, 1): "mxu", (1, 1): "mxu"}))
    [[(0, 1), (2, 1)]]
    """
    sides: dict[_Corner, list[_Corner]] = {}
    for (x, y), name in binding.items():
        for beside, ends in (((x + 1, y), ((x + 1, y), (x + 1, y + 1))), ((x, y + 1), ((x, y + 1), (x + 1, y + 1)))):
            if binding.get(beside, name) != name:
                sides.setdefault(ends[0], []).append(ends[1])
                sides.setdefault(ends[1], []).append(ends[0])
    while sides:
        at = next((corner for corner, others in sorted(sides.items()) if len(others) % 2), min(sides))
        path = [at]
        while at in sides:
            after = sides[at].pop()
            sides[after].remove(at)
            for corner in (at, after):
                if not sides[corner]:
                    del sides[corner]
            if len(path) > 1 and any(a == b == c for a, b, c in zip(path[-2], path[-1], after, strict=True)):
                path[-1] = after
            else:
                path.append(after)
            at = after
        yield path


def _axis(name: str, values: Sequence[Any]) -> Axis:
    label = f"size {name}" if len(name) == 1 else _called(name)
    return Axis(label, "", "linear", (0.0, float(len(values))), tuple(map(_written, values)))


def _called(name: str) -> str:
    return "chips" if name == "on" else name.replace("_", " ")


def _written(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _title(plane: _Plane, what: str) -> str:
    model = getattr(plane.table, "model", None)
    of = "" if model is None else f" of {model.name} {plane.table.phase}"  # type: ignore[attr-defined]
    return f"{what}{of} over {_called(plane.across)} and {_called(plane.up)}"


def _subtitle(plane: _Plane) -> str:
    """What the table is of, and the sizes that are the same in all rows."""
    table, about = plane.table, plane.table.about
    values = {name: _values_of(table, name)[0] for name in plane.sizes}
    same = [plane.said(name, values[name][0]) for name in plane.sizes if len(values[name]) == 1]
    subject = [] if about is None or hasattr(table, "model") else [about.subject]
    return " · ".join(filter(None, [table.same_in_all, *subject, ", ".join(same)]))


def _thinned(plane: _Plane, across: int, up: int) -> Iterator[str]:
    for name, drawn, every in ((plane.across, across, plane.columns), (plane.up, up, plane.rows)):
        if drawn < len(every):
            yield LeftOut(f"{drawn} of {len(every):,} values of {_called(name)} {agree(drawn, 'are')} drawn")
