"""``roofline explore``: pages in the browser, answered by a server on this machine alone.

Questions in JSON: the one road from a question of a page to a command, and from its answer to data or a page.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from math import gcd, prod
from typing import Any
from urllib.parse import parse_qsl, urlencode

import click

from roofline.cli import cli, main
from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.option_values import one_expression, split_words
from roofline.cli.output import keep, working
from roofline.errors import InputError, check_one_of, from_the_source, quoted
from roofline.hardware import chip
from roofline.models.config import is_model, load
from roofline.signatures import on_command_line

#: What every worker has loaded before its first question.
_PRELOADED = (
    "numpy", "sympy", "roofline.cli.explore", "roofline.cli.lines", "roofline.cli.models", "roofline.web.report",
    "roofline.bounds.api", "roofline.bounds.advise", "roofline.models.closed_form", "roofline.models.serving.answer",
    "roofline.models.serving.advice", "roofline.charts.roofline_charts", "roofline.charts.model_charts",
    "roofline.models.training.answer", "roofline.models.training.advice",
    "roofline.charts.answer_charts",
)  # fmt: skip

#: The first question of each worker, so that a reader does not wait for what is made once; of a model the page's own.
_FIRST: dict[str, Any] = {"words": ["bf16[B, D] * bf16[D, F]", "B=64", "D=64", "F=64"], "options": {"on": "h100"}}


@command_named("explore")
@argument("words", nargs=-1, metavar="[LINE|MODEL] [SIZE=VALUE]...")
@with_options(options("on port no-browser limit"), option("workers", type=click.IntRange(1, 64), default=2))
def explore_command(
    words: tuple[str, ...], on: tuple[str, ...], port: int, no_browser: bool, limit: float, workers: int
) -> None:
    """Explore in the browser: a line, a model, training, a plan, chips, sharding, measured points.

    The server listens on this machine alone, and its address holds a token. Ctrl-C ends it.

    \b
    roofline explore
    roofline explore llama-3-70b --on h200:8
    roofline explore "bf16[B, D] * bf16[D, F]" --on h100,mi300x B=64 D=8192 F=8192
    """
    first_page = _start(words, on)
    warming = _warming(first_page)
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise InputError("the explorer needs starlette and uvicorn", hint=from_the_source("web")) from None
    import secrets
    import socket

    from roofline.web.server import Explorer, Workers

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # else a second explorer binds the port too while this one loads
    except OSError as wrong:
        listening.close()
        raise InputError(
            f"port {port} is not free: {wrong.strerror}", hint="leave --port out for any free one"
        ) from None
    port = listening.getsockname()[1]
    click.echo("starting the explorer; Ctrl-C ends it")
    token = secrets.token_urlsafe(18)
    pool = Workers("roofline.cli.explore:answer_question", workers, limit=limit, preload=_PRELOADED)
    explorer = Explorer(pool, token, (f"127.0.0.1:{port}", f"localhost:{port}"), first_page)
    address = f"http://127.0.0.1:{port}/{token}/"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            import asyncio

            first = [asyncio.ensure_future(pool.ask(*warming)) for _ in range(workers)]
            with working("loading") as report:
                for each in first:
                    each.add_done_callback(lambda _: report(sum(one.done() for one in first), workers))
                await asyncio.gather(*first, explorer.prepare(), return_exceptions=True)
            await super().startup(sockets)
            click.echo(f"ready: {address}")
            if not no_browser:
                import webbrowser

                await asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)

    settings = uvicorn.Config(
        explorer.app, log_level="error", access_log=False, lifespan="off", ws="none", limit_concurrency=64,
        timeout_keep_alive=10, timeout_graceful_shutdown=1, server_header=False,
    )  # fmt: skip
    try:
        Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        explorer.close()


def _warming(first_page: str) -> tuple[str, str, dict[str, Any]]:
    """What each worker is asked before the server is ready: the page that opens, or a line.

    >>> _warming("#/model?model=llama-3-8b&on=h100%3A8&tensor=8&batch=1")
    ('live', 'llm', {'words': ['llama-3-8b'], 'options': {'on': ['h100:8'], 'tensor': '8', 'batch': '1'}})
    """
    page, _, said = first_page.partition("?")
    if page != "#/model":
        return "page", "bound", _FIRST
    options: dict[str, Any] = dict(parse_qsl(said))
    return "live", "llm", {"words": [options.pop("model")], "options": {**options, "on": options["on"].split(",")}}


#: What a page is asked with at first where the command line does not say it, so that it opens on an answer.
_USUAL_CHIPS = {"operation": "h100", "model": "h200:8"}
_USUAL_LOAD = {"batch": "1", "prompt": "2048", "context": "8192"}


def _start(words: Sequence[str], on: Sequence[str]) -> str:
    """The page to begin with, as the part of an address behind the number sign: a question that has an answer.

    A model is split over all chips of a target, of several targets over as many as divide the chips of each.

    >>> _start(["llama-3-8b"], ["h100:8", "v5e:2x2"])
    '#/model?model=llama-3-8b&on=h100%3A8%2Cv5e%3A2x2&tensor=4&batch=1&prompt=2048&context=8192'
    >>> _start([], []), _start([], ["h100"])
    ('', '#/operation?on=h100')
    """
    asked, sizes = split_words(words)
    text, where = one_expression(asked), ",".join(on)
    if text is None:
        if sizes:
            raise InputError("sizes go with a line", hint='as in roofline explore "bf16[B, D] * bf16[D, F]" B=64')
        return f"#/operation?{urlencode({'on': where})}" if where else ""
    if is_model(text):
        load(text)
        where = where or _USUAL_CHIPS["model"]
        chips = gcd(*(prod(chip(name).shape) for name in where.split(",")))
        asked_for = {"model": text, "on": where, "tensor": chips, **_USUAL_LOAD, **sizes}
        return f"#/model?{urlencode(asked_for)}"
    said: dict[str, Any] = {"line": text, "on": where or _USUAL_CHIPS["operation"]}
    if sizes:
        said["sizes"] = " ".join(f"{name}={value}" for name, value in sizes.items())
    return f"#/operation?{urlencode(said)}"


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
        check_one_of(f"{name} has no option {option}", option, known, "options")
        if known[option].is_flag:
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
        if option.startswith("-") and not _is_number(option):
            check_one_of(f"{name} has no option {option}", option, known, "options")
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
    check_one_of(f"a page cannot ask {name!r}", name, ASKED, "commands")
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def _options(command: click.Command) -> Iterator[click.Option]:
    """The options of a command that a page may use."""
    for each in command.params:
        writes = "-o" in each.opts or each.name in _NOT_ASKED or not each.expose_value
        if isinstance(each, click.Option) and not writes:
            yield each


def answer_question(form: str, name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as ``data`` (what ``--json`` gives), as a ``page`` or a part of one; or the ``catalog`` of questions."""
    if form == "catalog":
        return catalog()
    from roofline.web.report import PAGES, page_of

    try:
        words = command_words(name, question)
        with keep() as found, on_command_line(), redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            code = main([*words, "--json"] if form == "data" else words)
            made = page_of(found.shown, form, command=words) if form in PAGES and found.shown else None
    except InputError as wrong:
        return {"error": str(wrong)}
    if form == "data" and found.data:
        return {"data": found.data[0]}
    if made is not None:
        return {**made, "command": words}
    return {"error": next(iter(found.errors), f"no answer came (exit code {code})")}


def catalog() -> dict[str, Any]:
    """What may be asked: commands with their options, and the names that words may take."""
    from roofline import dtypes
    from roofline.hardware import chips
    from roofline.models.config import names as models
    from roofline.notation.calls import canonical_functions

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
