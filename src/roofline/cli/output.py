"""Printing: the one place where answers reach a terminal."""

from __future__ import annotations

import json
from typing import Any

import click


def show(renderable: Any) -> None:
    """Print a rich renderable, at 100 columns where the output is not a terminal."""
    import sys

    from rich.console import Console

    width = None if sys.stdout.isatty() else 100
    Console(width=width, highlight=False, soft_wrap=False).print(renderable)


def show_json(data: Any) -> None:
    """Print plain data as JSON; never a NaN."""
    click.echo(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))
