"""Options that several commands share, and how their words become arguments of the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from roofline.errors import InputError, SizeError

Function = TypeVar("Function", bound=Callable[..., Any])

_SIZE = re.compile(r"\s*([^\W\d]\w*)\s*=\s*([^\[\]]*)", re.DOTALL)
_RANGE = re.compile(r"(\d+):(\d+)(?::(\*?)(\d+))?")
TARGET = (
    click.option("--on", "on", metavar="TARGET", help="A chip (h100, v5e:4x4), or a TOML file; see 'roofline chips'."),
    click.option("--set", "set_", metavar="FIGURE=VALUE", multiple=True, help="Override a figure: hbm=8.2e11."),
    click.option("--chips", "files", metavar="PATH", multiple=True, help="Machine file or folder over the catalog."),
    click.option("--unit", metavar="UNIT", help="Run the arithmetic on matrix, vector, or a unit's own name."),
    click.option("--over", metavar="LEVEL", help="Where data comes from: hbm (default), l2, vmem, pcie …"),
    click.option("--achievable", is_flag=True, help="Use measured fractions of the data-sheet rates where known."),
)  # fmt: skip

WORK = (
    click.option("--flops", metavar="AMOUNT", help="Raw work: FLOPs, as a number or a formula of named sizes."),
    click.option("--bytes", "bytes_", metavar="AMOUNT", help="Raw work: bytes, as a number or a formula."),
    click.option("--intensity", metavar="FLOP/B", help="Raw work: an arithmetic intensity."),
    click.option("--dtype", metavar="DTYPE", help="Arithmetic dtype of raw work (default bf16)."),
    click.option("--policy", metavar="POLICY", help="Which bytes count: each-op (default), fused, tiled, minimal."),
    click.option("--tile", metavar="BM,BN,BK", help="Contractions load their operands again for every tile."),
    click.option("--exact", is_flag=True, help="Count 2D-1 rather than 2D FLOPs for a sum over D."),
    click.option("--valid-only", is_flag=True, help="Leave a convolution's padded positions out of the FLOPs."),
    click.option("--pad", is_flag=True, help="Round matrix sizes up to the matrix unit's tile."),
    click.option("--compute", metavar="DTYPE", help="Arithmetic dtype, where the operands' wider one is not meant."),
)

ESTIMATE = (
    click.option("--overlap", type=float, metavar="FRACTION", help="Estimate with this share of times overlapping."),
    click.option("--overhead", metavar="TIME", help="Estimate with this time for every operation started (5us)."),
)  # fmt: skip


def with_options(*groups: Sequence[Callable[[Any], Any]]) -> Callable[[Function], Function]:
    """Add groups of options to a command, in order."""

    def add(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return add


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Tell expressions from sizes among the words of a command line.

    >>> split_words(["bf16[B, D] * bf16[D, F]", "B=1:4", "D=1024,4096", "F=4*D", "x = relu(bf16[N])"])
    (['bf16[B, D] * bf16[D, F]', 'x = relu(bf16[N])'], {'B': [1, 2, 3, 4], 'D': [1024, 4096], 'F': '4*D'})
    """
    expressions: list[str] = []
    sizes: dict[str, Any] = {}
    for word in words:
        match = _SIZE.fullmatch(word)
        if match is None:
            expressions.append(word)
            continue
        name, text = match.groups()
        if name in sizes:
            raise SizeError(f"size {name} is given twice", hint="give it once")
        sizes[name] = parse_size(name, text.strip())
    return expressions, sizes


def parse_size(name: str, text: str) -> Any:
    """Read a size: a number, a list ``1024,4096``, a range ``1:512`` (both ends), ``1:512:2``, ``1:512:*2``, a formula.

    >>> parse_size("B", "1:8:*2"), parse_size("B", "1:7:3"), parse_size("B", "4e6"), parse_size("F", "4*D")
    ([1, 2, 4, 8], [1, 4, 7], 4000000, '4*D')
    """
    if not text:
        raise SizeError(f"size {name} has no value", hint=f"for instance {name}=64")
    if "," in text:
        return [_item(name, item.strip()) for item in text.split(",")]
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if match is not None:
        return _range(name, *match.groups())
    number = _number(text)
    return text if number is None else number


def _range(name: str, first: str, last: str, times: str | None, step: str | None) -> list[int]:
    low, high, by = int(first), int(last), int(step or 1)
    if low > high or low < 1 or by < (2 if times else 1):
        raise SizeError(
            f"size {name} has an empty range {first}:{last}", hint="as in 1:512, 1:512:8 (steps) or 1:512:*2 (doubling)"
        )
    if (high - low) // by > 50_000_000 and not times:
        raise SizeError(f"size {name} has over 50 million values", hint="take larger steps")
    if not times:
        return list(range(low, high + 1, by))
    values = [low]
    while values[-1] * by <= high:
        values.append(values[-1] * by)
    return values


def _item(name: str, text: str) -> int | float:
    number = _number(text)
    if number is None:
        raise SizeError(f"size {name} lists {text!r}", hint=f"numbers, as in {name}=1024,4096")
    return number


def _number(text: str) -> int | float | None:
    """Read a number, whole where it can be (``4e6``); None for anything else, which is then a formula."""
    plain = text.replace("_", "")
    try:
        return int(plain) if plain.lstrip("+-").isdigit() else _whole(float(plain))
    except (ValueError, OverflowError):
        return None


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def parse_set(items: Sequence[str]) -> dict[str, str]:
    """Read ``--set`` words into overrides.

    >>> parse_set(["hbm=8.2e11", "mxu.bf16=1e15"])
    {'hbm': '8.2e11', 'mxu.bf16': '1e15'}
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"--set {item!r} is not FIGURE=VALUE", hint="for instance --set hbm=8.2e11")
        found[name.strip()] = value.strip()
    return found


def parse_tile(text: str | None) -> list[int] | None:
    """Read ``--tile 128,128,64``."""
    if text is None:
        return None
    parts = re.split(r"[,x]", text)
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise InputError(f"--tile {text!r} is not three sizes", hint="bm,bn,bk, as in --tile 128,128,64")
    return [int(part) for part in parts]


def machine_files(files: Sequence[str]) -> tuple[str, ...]:
    """Put the user's own folder of machine files before those named on the command line."""
    import os
    from pathlib import Path

    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    own = Path(home) / "roofline" / "chips"
    return (*([str(own)] if own.is_dir() else []), *files)


def target_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the shared target options into arguments of the library; ``options`` loses them."""
    return {
        "on": options.pop("on"),
        "set": parse_set(options.pop("set_")),
        "files": machine_files(options.pop("files")),
        "unit": options.pop("unit"),
        "over": options.pop("over"),
        "achievable": options.pop("achievable"),
    }


def question_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Turn target, work and estimate options into arguments of :func:`roofline.question`."""
    arguments = target_arguments(options)
    arguments |= {
        "flops": options.pop("flops"),
        "bytes": options.pop("bytes_"),
        "intensity": options.pop("intensity"),
        "dtype": options.pop("dtype"),
        "policy": options.pop("policy"),
        "tile": parse_tile(options.pop("tile")),
        "exact": options.pop("exact"),
        "count_padding": not options.pop("valid_only"),
        "pad": options.pop("pad"),
        "compute": options.pop("compute"),
        "overlap": options.pop("overlap", None),
        "overhead": options.pop("overhead", None),
    }
    return arguments


def one_expression(expressions: Sequence[str]) -> str | None:
    """Check that at most one expression was given."""
    if len(expressions) > 1:
        shown = ", ".join(repr(e) for e in expressions)
        raise InputError(
            f"one expression at a time, not {len(expressions)}: {shown}", hint="quote an expression as one word"
        )
    return expressions[0] if expressions else None
