"""Chart: a picture as a value. It can be inspected, changed by copies, and drawn when saved or shown.

>>> from roofline.charts.marks import Axis, Line, Ridge
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
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.charts.marks import MARK_NAMES, Axis, Bar, Line, Mark, Point, Region, Ridge
from roofline.errors import InputError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

AnyMark = TypeVar("AnyMark", Line, Point, Region, Ridge, Bar)

THEMES = ("light", "dark")

#: File endings a chart can be saved under.
FORMATS = ("svg", "png", "pdf")

#: The smallest picture, in pixels, whose title and ticks still have room.
SMALLEST = (320, 240)


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A picture's specification.

    Attributes
        ``kind``      ``roofline``, ``throughput``, ``time``, ``bars`` or ``front``
        ``title``, ``subtitle``   what is shown, and of which machine
        ``x``, ``y``  the axes
        ``marks``     lines, points, regions, ridges and bars in data units, in drawing order
        ``notes``     conventions and anything a reader must know, in small print below
        ``theme``     ``light`` or ``dark``
        ``width``, ``height``   of the picture in pixels
    """

    kind: str
    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    theme: str = "light"
    width: int = 720
    height: int = 480

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in order."""
        return self._only(Line)

    @property
    def points(self) -> tuple[Point, ...]:
        """The operations in order."""
        return self._only(Point)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The coloured stretches in order."""
        return self._only(Region)

    @property
    def ridges(self) -> tuple[Ridge, ...]:
        """The corners in order: ridges of a roofline, knees of a curve."""
        return self._only(Ridge)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The bars in order."""
        return self._only(Bar)

    def line(self, label: str) -> Line:
        """Find a line by its label."""
        found = next((line for line in self.lines if line.label == label), None)
        if found is None:
            known = [line.label for line in self.lines]
            raise InputError(f"no line {label!r} in this chart", hint=suggest(label, known, what="lines"))
        return found

    def with_title(self, title: str, subtitle: str | None = None) -> Chart:
        """Return the chart under another title (and subtitle)."""
        return replace(self, title=title, subtitle=self.subtitle if subtitle is None else subtitle)

    def with_size(self, width: int, height: int) -> Chart:
        """Return the chart in another size, in pixels.

        >>> Chart("time", "", Axis("", "", "linear", (0, 1)), Axis("", "", "linear", (0, 1)), ()).with_size(90, 60)
        Traceback (most recent call last):
        roofline.errors.InputError: a chart of 90 × 60 pixels has no room for its text; at least 320 × 240
        """
        if width < SMALLEST[0] or height < SMALLEST[1]:
            hint = f"at least {SMALLEST[0]} × {SMALLEST[1]}"
            raise InputError(f"a chart of {width} × {height} pixels has no room for its text", hint=hint)
        return replace(self, width=int(width), height=int(height))

    def with_theme(self, theme: str) -> Chart:
        """Return the chart in the ``light`` or ``dark`` theme."""
        if theme not in THEMES:
            raise InputError(f"unknown theme {theme!r}", hint=suggest(theme, THEMES, what="themes"))
        return replace(self, theme=theme)

    def save(self, path: str | PathLike[str], *, scale: float = 2.0) -> None:
        """Draw to a file; its ending says the format: ``.svg``, ``.png`` or ``.pdf``.

        ``scale`` is the number of pixels of a PNG for each pixel of :attr:`width` (2 is sharp on today's screens and
        in print). The same chart always gives the same SVG, byte for byte.
        """
        from roofline.charts.draw import write

        write(self, known_path(path), scale)

    def to_text(self, width: int = 80, height: int = 24, *, color: bool = False) -> str:
        """Draw for a terminal: ``width`` columns, about ``height`` rows and a key below; ``color`` uses ANSI codes."""
        from roofline.charts.terminal import to_text

        return to_text(self, width, height, color=color)

    def to_dict(self) -> dict[str, Any]:
        """The specification under stable keys in SI units (schema ``roofline/chart/1``)."""
        return {
            "schema": "roofline/chart/1",
            "kind": self.kind,
            "title": self.title,
            "subtitle": self.subtitle,
            "x": _plain(asdict(self.x)),
            "y": _plain(asdict(self.y)),
            "marks": [{"mark": MARK_NAMES[type(mark)], **_plain(asdict(mark))} for mark in self.marks],
            "notes": list(self.notes),
        }

    def _repr_svg_(self) -> str:
        from roofline.charts.draw import svg

        return svg(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield Text.from_ansi(self.to_text(max(40, min(options.max_width, 110)), color=console.is_terminal))

    def __repr__(self) -> str:
        names = [MARK_NAMES[type(mark)] for mark in self.marks]
        counts = [f"{n} {name}{'s' * (n > 1)}" for name in MARK_NAMES.values() if (n := names.count(name))]
        return f"<Chart {self.title!r}: {self.kind} with {', '.join(counts)}>"

    def _only(self, kind: type[AnyMark]) -> tuple[AnyMark, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, kind))


def known_path(path: str | PathLike[str]) -> str:
    """Give a path as text; an error where no chart can be saved there."""
    import os

    text = os.fspath(path)
    ending = os.path.splitext(text)[1].lower().lstrip(".")
    if ending not in FORMATS:
        wrong = f"a chart cannot be saved as .{ending}" if ending else f"{text!r} has no ending that says a format"
        raise InputError(wrong, hint=f"end the name in .{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}")
    folder = os.path.dirname(text)
    if folder and not os.path.isdir(folder):
        raise InputError(f"there is no folder {folder!r} to save the chart in", hint="make it first")
    return text


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
