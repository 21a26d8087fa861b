"""Printing: the one place where answers reach a terminal."""

from __future__ import annotations

import json
from typing import Any

import click


def show(renderable: Any, *, whole: bool = False) -> None:
    """Print a rich renderable, at 100 columns where the output is not a terminal.

    ``whole`` makes the lines as long as they need to be: a table of figures is not to be cut.
    """
    import sys

    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False, markup=False)
    if whole:
        from rich.measure import Measurement

        console.width = max(
            console.width, Measurement.get(console, console.options.update(width=10_000), renderable).maximum
        )
    console.print(renderable)


def show_json(data: Any) -> None:
    """Print plain data as JSON; never a NaN."""
    click.echo(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))
