"""Chart: a picture as a value. It can be inspected, changed by copies, and is drawn when it is saved or shown.

>>> from roofline.charts.specification import Axis
>>> from roofline.charts.specification import Line, Ridge
>>> roof = Chart(
...     kind="roofline",
...     title="TPU v5e",
...     x=Axis("arithmetic intensity", "FLOP/B", "log", (10.0, 1000.0)),
...     y=Axis("attainable", "FLOP/s", "log", (1e13, 1e15)),
...     marks=(Line("hbm", (10.0, 240.0), (8.2e12, 1.97e14), "slope"), Ridge(240.0, 1.97e14, "ridge")),
... )
>>> roof
<Chart 'TPU v5e': roofline with 1 line, 1 ridge>
>>> roof.ridges[0].x, roof.with_title("v5e").with_theme("dark").theme, roof.theme
(240.0, 'dark', 'light')

Charts are registered by what they are of, so that adding one touches the file that draws it, and ``specification``
and ``drawing`` where it needs a mark that is new:

>>> list(charts_of("size")), charts_of("model")["memory"].__name__
(['throughput', 'time'], 'memory_by_part')
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

from roofline.charts import drawing, terminal
from roofline.charts.drawing import THEMES
from roofline.charts.specification import Specification
from roofline.errors import InputError, check_one_of, quoted
from roofline.files import PICTURES, check_place
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine
from roofline.quantity import in_a_row
from roofline.signatures import check_methods

#: The smallest picture, in pixels, whose title and ticks still have room.
SMALLEST, LARGEST = (320, 240), 100_000

#: The most columns, or rows, of a chart in a terminal.
MOST_CHARACTERS = 1000

#: The height of a picture of the usual width; what is higher has rows of a key.
PLOT_HEIGHT = 480

#: Machines that a title names.
MOST_IN_TITLE = 3


@check_methods
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chart(Specification):
    """A :class:`~roofline.charts.specification.Specification` that can be drawn: saved, shown, printed as text."""

    def with_title(self, title: str, subtitle: str | None = None) -> Chart:
        """Return the chart under another title (and subtitle)."""
        return replace(self, title=title, subtitle=self.subtitle if subtitle is None else subtitle)

    def with_size(self, width: int, height: int) -> Chart:
        """Return the chart in another size, in pixels.

        >>> from roofline.charts.specification import Axis
        >>> axis = Axis("", "", "linear", (0, 1))
        >>> Chart("time", "", axis, axis, ()).with_size(90, 60)
        Traceback (most recent call last):
        roofline.errors.InputError: a chart of 90 × 60 pixels has no room for its text; at least 320 × 240
        """
        if width < SMALLEST[0] or height < SMALLEST[1]:
            hint = f"at least {SMALLEST[0]} × {SMALLEST[1]}"
            raise InputError(f"a chart of {width} × {height} pixels has no room for its text", hint=hint)
        if max(width, height) > LARGEST:
            most = f"at most {LARGEST:,} of each"
            raise InputError(f"a chart of {quoted(width)} × {quoted(height)} pixels", hint=most)
        return replace(self, width=int(width), height=int(height))

    def with_width(self, width: int) -> Chart:
        """Return the chart as wide as that: a plot keeps its proportions, rows of bars and of a key their height.

        >>> from roofline.charts.specification import Axis
        >>> axis = Axis("", "", "linear", (0, 1))
        >>> [Chart("time", "", axis, axis, (), height=height).with_width(600).height for height in (300, 480, 680)]
        [250, 400, 600]
        """
        if not isinstance(width, int | float):
            raise InputError(f"the width of a chart is {width!r}", hint="a number of pixels, as in width=1200")
        plot = min(self.height, PLOT_HEIGHT)
        scaled = min(round(min(width, 2 * LARGEST) * plot / self.width) + self.height - plot, LARGEST)
        return self.with_size(width, self.height if self.bars else max(SMALLEST[1], scaled))

    def with_theme(self, theme: str) -> Chart:
        """Return the chart in the ``light`` or ``dark`` theme."""
        check_one_of(f"unknown theme {theme!r}", theme, THEMES, "themes")
        return replace(self, theme=theme)

    def save(self, path: str | os.PathLike[str], *, width: int | None = None, scale: float | None = None) -> None:
        """Draw to a file, ``width`` pixels wide; its ending says the format: ``.svg``, ``.png`` or ``.pdf``.

        ``scale`` is the number of pixels of a PNG for each pixel of the width: 1 of a ``width`` that is given, else 2,
        which is sharp on today's screens and in print. The same chart always gives the same SVG, byte for byte.
        """
        dense = (2.0 if width is None else 1.0) if scale is None else scale
        drawing.write(self if width is None else self.with_width(width), chart_path(path), dense)

    def to_text(self, width: int = 80, height: int = 24, *, color: bool = False) -> str:
        """Draw for a terminal: ``width`` columns, about ``height`` rows and a key below; ``color`` uses ANSI codes."""
        if max(width, height) > MOST_CHARACTERS:
            most = f"at most {MOST_CHARACTERS:,} of each"
            raise InputError(f"a chart of {quoted(width)} columns and {quoted(height)} rows", hint=most)
        return terminal.to_text(self, width, height, color=color)

    def _repr_svg_(self) -> str:
        return drawing.svg(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text.from_ansi(self.to_text(max(40, min(options.max_width, 110)), color=console.is_terminal))


Draw = TypeVar("Draw", bound=Callable[..., Chart])

_DRAWN: dict[tuple[str, str], Callable[..., Chart]] = {}


def draws(subject: str, kind: str) -> Callable[[Draw], Draw]:
    """Register a function that draws a kind of chart of a subject (``roofline``, ``size``, ``model``, ``plan``)."""

    def keep(draw: Draw) -> Draw:
        _DRAWN[subject, kind] = draw
        return draw

    return keep


def charts_of(subject: str) -> dict[str, Callable[..., Chart]]:
    """The charts of a subject by kind. They stand in one file of this room, named for the subject."""
    import_module(f"roofline.charts.{subject}_charts")
    return {kind: draw for (of, kind), draw in _DRAWN.items() if of == subject}


def chart_path(path: str | os.PathLike[str]) -> str:
    """The path as text; raises where no chart can be saved there."""
    text = os.fspath(path)
    ending = os.path.splitext(text)[1].lower()
    if ending not in PICTURES:
        wrong = f"a chart cannot be saved as {ending}" if ending else f"{text!r} has no ending that says a format"
        table = "; roofline sweep writes tables" if ending in (".csv", ".parquet") else ""
        raise InputError(wrong, hint=f"end the name in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}{table}")
    check_place(text)
    return text


def joined(names: Sequence[str]) -> str:
    """Join different names as a sentence does.

    >>> joined(["H100"]), joined(["H100", "A100"]), joined(["a", "b", "c", "a"])
    ('H100', 'H100 and A100', 'a, b and c')
    """
    return in_a_row(dict.fromkeys(names))


def machines_said(machines: Sequence[Machine]) -> str:
    """Machines by name, where they are few; of more how many, since each has its key in the picture."""
    names = list(dict.fromkeys(machine.name for machine in machines))
    return joined(names) if len(names) <= MOST_IN_TITLE else f"{len(names)} chips"


def ordered_notes(notes: Iterable[str], machines: Sequence[Machine]) -> tuple[str, ...]:
    """Each note once, without a full stop; the remarks of the machines' own data sheets last."""
    listed = list(notes)
    remarks = {note for machine in machines for note in machine.notes}
    ordered = [*(n for n in listed if n not in remarks), *(n for n in listed if n in remarks)]
    return tuple(dict.fromkeys(note.rstrip(".") for note in ordered))
