"""The command line as data: every command with its options by group, for the page of the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from roofline.cli.command import Command, Option


class OptionEntry(NamedTuple):
    """An option of a command: its words, the form of its value, what it means, its default, words it takes too."""

    words: tuple[str, ...]
    form: str
    says: str
    default: str
    older: tuple[str, ...]
    common: bool


class CommandEntry(NamedTuple):
    """A command: what it answers, how it is called, its examples, and its options by group."""

    name: str
    says: str
    usage: str
    text: str
    examples: tuple[str, ...]
    groups: dict[str, tuple[OptionEntry, ...]]


def entries(commands: dict[str, str], load: Callable[[str], click.Command]) -> Iterator[CommandEntry]:
    """A command after the other, from the commands themselves."""
    for name, says in commands.items():
        found = load(name)
        context = click.Context(found, info_name=f"roofline {name}", **found.context_settings)
        text, _, examples = (found.help or "").partition("\b\n")
        groups = found.groups() if isinstance(found, Command) else {}
        yield CommandEntry(
            name,
            says,
            found.get_usage(context).removeprefix("Usage: "),
            " ".join(text.split()),
            tuple(line.strip() for line in examples.splitlines() if line.strip()),
            {group: tuple(_entry(each, found, context) for each in listed) for group, listed in groups.items()},
        )


def _entry(option: Option, command: Any, context: click.Context) -> OptionEntry:
    default = str(option.default) if option.show_default and option.default is not None else ""
    words = (*option.words, *option.secondary_opts)
    form = "" if option.is_flag else option.make_metavar(context)
    common = not command.common or option.word in command.common
    return OptionEntry(words, form, option.help or "", default, option.accepted, common)
