"""Values of options: figures with a unit (``80%``, ``$2.50/h``, ``700 W``), and one value for an option.

>>> command = click.Command("x", params=[click.Option(["--dtype"]), click.Option(["--json"], is_flag=True)])
>>> check_once(command, ["--json", "--dtype", "bf16", "--json"])
>>> check_once(command, ["--dtype", "bf16", "--dtype=fp32"])
Traceback (most recent call last):
roofline.errors.InputError: --dtype is given 2 times; give it once
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from roofline.errors import InputError, QuantityError

Callback = Callable[[click.Context, click.Parameter, str | None], float | None]

#: Options whose value may be a list.
_LISTS = {"flops": "--flops 1e9,2e9", "bytes_": "--bytes 1e9,2e9", "intensity": "--intensity 7,25"}


def figure_in(unit: str) -> Callback:
    """Make what reads an option as a number in ``unit``; which numbers it may be is the library's to say."""

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
        from roofline.quantity import count, parse

        if value is None:
            return None
        try:
            plain = None if unit else count(value)  # 2.664M hours
            return float(value if plain is None else plain)
        except (ValueError, OverflowError):
            pass
        try:
            return parse(value, unit, zero=True)
        except QuantityError as error:
            raise InputError(f"{parameter.opts[0]}: {error.message}", hint=error.hint) from None

    return read


FRACTION = figure_in("")
PRICE = figure_in("USD/h")
POWER = figure_in("W")


def check_once(command: click.Command, words: Sequence[str]) -> None:
    """Raise where an option of a command has two values, or two options give one thing two values."""
    long = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    single = next((word for word in words if len(word) > 2 and word[1] != "-" and f"-{word}" in long), None)
    if single is not None:  # -on h100 would read as -o n
        raise click.NoSuchOption(single, f"No such option {single!r}; that is written -{single}, with two dashes.")
    parser = command.make_parser(click.Context(command, resilient_parsing=True, **command.context_settings))
    given: dict[str, list[click.Option]] = {}
    for option in parser.parse_args(list(words))[2]:
        if isinstance(option, click.Option) and option.name and not (option.multiple or option.count):
            given.setdefault(option.name, []).append(option)
    for name, options in given.items():
        if len(options) < 2 or _is_switch(command, options[0]):
            continue
        words = list(dict.fromkeys(option.opts[0] for option in options))
        if len(words) > 1:
            raise InputError(f"{' and '.join(words)} exclude each other", hint="give one of them")
        hint = f"a list is one word: {_LISTS[name]}" if name in _LISTS else "give it once"
        raise InputError(f"{words[0]} is given {len(options)} times", hint=hint)


def _is_switch(command: click.Command, option: click.Option) -> bool:
    """Whether an option is on or not given, and nothing else sets what it sets."""
    alone = sum(other.name == option.name for other in command.params) == 1
    return option.is_flag and alone and not option.secondary_opts
