"""Questions in JSON: the one road from a question of a page to a command, and from its answer to data or a page.

A question has the words of a command line (``words``), options by name (``options``), and more options as one would
type them (``more``):

>>> command_words("bound", {"words": ["bf16[B, D] * bf16[D, F]"], "options": {"on": ["h100", "a100"], "warm": True}})
['bound', 'bf16[B, D] * bf16[D, F]', '--on', 'h100', '--on', 'a100', '--warm']
>>> asked = {"words": ["bf16[64, 64] * bf16[64, 64]"], "options": {"on": "v5e"}}
>>> answer_question("data", "bound", asked)["data"]["schema"]
'roofline/bound/1'
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import click

from roofline.cli import cli, main
from roofline.cli.output import keep
from roofline.errors import InputError, quoted, suggest

#: Commands that a page may ask. The others run programs, measure this machine, or write files.
ASKED = (
    "bound", "solve", "advise", "shard", "scaling", "comm", "layout", "formula", "sweep", "plot", "model", "llm",
    "plan", "train", "profile", "accuracy", "chips",
)  # fmt: skip

#: Options that write files or run elsewhere: a page has no business with them.
_NOT_ASKED = {
    "report_file", "output_file", "file", "chart", "split", "csv_file", "as_json", "workers", "scheduler",
    "scheduler_file", "keep",
}  # fmt: skip


#: The page of an answer: whole, what moves of it alone, and the rest.
_PAGES = ("page", "live", "rest")


def command_words(name: str, question: Mapping[str, Any]) -> list[str]:
    """The command line of a question; an option that a command lacks, or a page may not use, is an error."""
    command = _command(name)
    known = {word: each for each in _options(command) for word in (*each.opts, *each.secondary_opts)}
    words = [name, *map(_text, _listed(question.get("words", ())))]
    if any(word.startswith("-") for word in words[1:]):
        raise InputError("an option stands among the words", hint="options have their own place")
    given = question.get("options") or {}
    if not isinstance(given, Mapping):
        raise InputError(f"the options of a question are {quoted(given)}", hint='by name, as in {"on": "h100"}')
    for key, value in given.items():
        option = f"--{_text(key).replace('_', '-')}"
        found = known.get(option)
        if found is None:
            raise InputError(f"{name} has no option {option}", hint=suggest(option, known, what="options"))
        if found.is_flag:
            words += [option] if value else []
            continue
        for each in _listed(value):
            if each not in (None, ""):
                words += [option, _text(each)]
    try:
        more = shlex.split(_text(question.get("more") or ""))
    except ValueError:
        raise InputError("a quotation mark is not closed", hint="close it, or leave it out") from None
    for word in more:
        option = word.partition("=")[0]
        if option.startswith("-") and option not in known and not _is_number(option):
            raise InputError(f"{name} has no option {option}", hint=suggest(option, known, what="options"))
    return [*words, *more]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InputError(f"{value!r} is no word of a command line", hint="a word, a number, or a list of them")
    return str(value)


def _command(name: str) -> click.Command:
    if name not in ASKED:
        raise InputError(f"a page cannot ask {name!r}", hint=suggest(name, ASKED, what="commands"))
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def _options(command: click.Command) -> Iterator[click.Option]:
    """The options of a command that a page may use."""
    for each in command.params:
        writes = "-o" in each.opts or each.name in _NOT_ASKED
        if isinstance(each, click.Option) and not writes:
            yield each


def answer_question(form: str, name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as ``data`` (what ``--json`` gives), as a ``page`` or a part of one; or the ``catalog`` of questions."""
    if form == "catalog":
        return catalog()
    from roofline.web.page import page_of

    said = StringIO()
    try:
        words = command_words(name, question)
        with keep() as found, redirect_stderr(said), redirect_stdout(StringIO()):
            code = main([*words, "--json"] if form == "data" else words)
            made = page_of(found.shown, form, command=words) if form in _PAGES and found.shown else None
    except InputError as wrong:
        return {"error": str(wrong)}
    if form == "data" and found.data:
        return {"data": found.data[0]}
    if made is not None:
        return {**made, "command": words}
    return {"error": said.getvalue().removeprefix("error: ").strip() or f"no answer came (exit code {code})"}


def catalog() -> dict[str, Any]:
    """What may be asked: commands with their options, and the names that words may take."""
    from roofline import dtypes
    from roofline.hardware import chips
    from roofline.models.config import names as models
    from roofline.notation.functions import canonical_functions

    return {
        "commands": {name: _described(name) for name in ASKED},
        "models": models(),
        "chips": [{"key": each.key, "name": each.name, "vendor": each.vendor} for each in chips()],
        "formats": dtypes.names(),
        "functions": sorted(canonical_functions()),
    }


def _described(name: str) -> dict[str, Any]:
    command = _command(name)
    return {
        "help": (command.help or "").partition("\n")[0],
        "options": [
            {
                "name": each.name, "option": each.opts[-1], "help": each.help or "", "flag": bool(each.is_flag),
                "choices": list(each.type.choices) if isinstance(each.type, click.Choice) else [],
            }
            for each in _options(command)
        ],
    }  # fmt: skip
