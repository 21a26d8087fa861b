"""``-o FILE`` of every command: what it says as one page with sliders (.html), as plain data (.json) or as text (.txt).

There is one road for all commands. The command runs as ever, what it shows is kept, and the file is made of that:

>>> from roofline.cli.bound import bound_command
>>> [option.opts for option in with_report(bound_command).params if option.name == "report_file"]
[['-o', '--output-file', '--output']]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from roofline.cli.command import Option
from roofline.cli.option_table import option
from roofline.cli.output import KeptAnswers, check_files, keep, wrote
from roofline.errors import InputError

#: Where the context of a command holds the file, and the words it was given.
KEY, WORDS = "roofline.report", "roofline.words"

_HELP = "Write a page with sliders (.html), the answer (.json, .txt), or its table (.csv)."


def with_report(command: click.Command) -> click.Command:
    """Give a command ``-o FILE``; one that writes other kinds of files by ``-o`` keeps them."""
    own = next((each for each in command.params if "-o" in each.opts), None)
    if getattr(own, "name", "") == "report_file" or command.callback is None or command.name in _OWN_FILES:
        return command
    if own is None:
        free = all("--output" not in each.opts for each in command.params)
        option(
            "output-file",
            name="report_file",
            older="--output" if free else "",
            expose_value=False,
            callback=_any,
            help=_HELP,
        )(command)
    elif isinstance(own, click.Option):
        own.callback = _page_or(own.callback)
        own.help = f"{own.help} With .html: a page with sliders."
    written = next(each for each in command.params if "-o" in each.opts)
    if isinstance(written, Option):
        written.repeats = command.name not in ONE_FILE
    command.callback = _kept(command.callback)
    return command


#: Commands that make their file by work of their own, which is done once.
ONE_FILE = ("measure", "calibrate")

#: Commands whose file is something else than what they say (constants), and those that serve.
_OWN_FILES = ("calibrate", "explore", "completion")


def _any(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        check_files((), (value,))
        context.meta[KEY] = value


def _page_or(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """A page goes the common road, any other file the command's own."""

    def take(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is not None and value.lower().endswith(".html"):
            check_files((), (value,))
            context.meta[KEY] = value
            return None
        return value if before is None else before(context, parameter, value)

    return take


def data_or_picture(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The answer (.json, .txt) and its table (.csv) go the common road, a picture the command's own."""
    if value is None or not value.lower().endswith((".json", ".txt", ".csv")):
        return value
    _any(context, parameter, value)
    return None


def _kept(run: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which writes what it would show where a file was named."""

    def command(**options: Any) -> Any:
        meta = click.get_current_context().meta
        path = meta.pop(KEY, None)
        if path is None:
            return run(**options)
        if os.path.splitext(path)[1].lower() == ".json" and "as_json" in options:
            options["as_json"] = True
        elif options.get("as_json"):
            raise InputError(f"--json and {path} are two answers", hint="-o FILE.json writes what --json prints")
        with keep() as found:
            try:
                code = run(**options)
            except click.exceptions.Exit:  # what says that nothing meets its limits is an answer too
                write(found, path, _asked(meta, path))
                raise
        write(found, path, _asked(meta, path))
        return code

    command.__doc__ = run.__doc__
    return command


def _asked(meta: dict[str, Any], path: str) -> list[str]:
    """The words of the command without the file that it writes."""
    words = [*meta.get(WORDS, ())]
    places = [at for at, word in enumerate(words) if word.endswith(path)]
    for at in reversed(places[-1:]):
        del words[at - (words[at] == path) : at + 1]
    return words


def write(found: KeptAnswers, path: str, words: Sequence[str]) -> None:
    """Write what a command said; a page also says by which words."""
    from roofline.web.report import save_data, save_shown

    lacks = ""
    if found.data:
        save_data(found.data[0], path)
    elif not found.shown:
        raise InputError("what this prints is no answer that a file could hold", hint="leave -o out")
    else:
        lacks = save_shown(found.shown, path, words)
    is_table = path.lower().endswith(".csv")
    wrote(path, found.shown[0][0].plain_table()[2] if is_table else {}, said=lacks)
