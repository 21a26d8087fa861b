"""``roofline explore``: pages in the browser, answered by a server on this machine alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any
from urllib.parse import parse_qsl, urlencode

import click

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.option_values import one_expression, split_words
from roofline.cli.output import working
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.models.config import is_model, load

#: What every worker has loaded before its first question.
_PRELOADED = (
    "numpy", "sympy", "roofline.cli.questions", "roofline.cli.bound", "roofline.cli.llm", "roofline.web.page",
    "roofline.bounds.api", "roofline.bounds.advise", "roofline.models.closed_form", "roofline.models.serving.answer",
    "roofline.models.serving.advice", "roofline.charts.roofline_charts", "roofline.charts.model_charts",
    "roofline.cli.train", "roofline.models.training.answer", "roofline.models.training.advice",
    "roofline.charts.answer_charts",
)  # fmt: skip

#: The first question of each worker, so that a reader does not wait for what is made once; of a model the page's own.
_FIRST: dict[str, Any] = {"words": ["bf16[B, D] * bf16[D, F]", "B=64", "D=64", "F=64"], "options": {"on": "h100"}}


@command_named("explore")
@argument("words", nargs=-1, metavar="[LINE|MODEL] [SIZE=VALUE]...")
@with_options(option("on"))
@with_options(
    *options("port no-browser limit"),
    option("workers", type=click.IntRange(1, 64), default=2, help="Questions at once."),
)
def command(
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
        raise InputError("the explorer needs starlette and uvicorn", hint="pip install 'roofline[web]'") from None
    import secrets
    import socket

    from roofline.web.server import Explorer, Workers

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as wrong:
        listening.close()
        raise InputError(
            f"port {port} is not free: {wrong.strerror}", hint="leave --port out for any free one"
        ) from None
    port = listening.getsockname()[1]
    click.echo("starting the explorer; Ctrl-C ends it")
    token = secrets.token_urlsafe(18)
    pool = Workers("roofline.cli.questions:answer_question", workers, limit=limit, preload=_PRELOADED)
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
