"""The explorer's server: pages for a browser on this machine, questions to workers, nothing to anybody else.

It listens on the loopback alone. Every address begins with a token; ``Host`` and ``Origin`` are checked, so that a page
of somebody else cannot ask; bodies, times and what may be asked have limits.

Worker processes answer questions within a time: one that takes longer is ended, and others go on meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import re
import secrets
import signal
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from roofline.web.report import PAGES, bundled

#: Bytes of a question, and of a file of measured points.
MOST_BODY, MOST_FILE = 1 << 20, 64 << 20

#: Seconds in which a body has to arrive.
BODY_TIME = 30.0

#: How many answers' functions are kept for the pages that load them.
KEPT_FUNCTIONS = 256

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-content-type-options": "nosniff",
    "cache-control": "no-store", "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}  # fmt: skip

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>roofline explorer</title><link rel="icon" href="data:,"><link rel="stylesheet" href="explorer.css"></head>
<body><div id="live" data-start="{start}"></div><noscript>The explorer needs JavaScript.</noscript>
<script src="explorer.js"></script></body></html>
"""


class Refused(Exception):
    """A request that is not answered: its status and why."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason


class Guard:
    """Lets requests through that come from a page of ours; says to all others what is wrong."""

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on; every answer gets the headers that keep a page to itself."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        wrong = self._wrong(scope)
        if wrong is not None:
            await JSONResponse({"error": wrong[1]}, wrong[0], headers=_HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *named]
            await send(message)

        await self.app(scope, receive, with_headers)

    def _wrong(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host", "") not in self.hosts:
            return 421, f"wrong host: the explorer answers to {self.hosts[0]} alone"
        origin = headers.get("origin")
        if origin is not None and origin not in [f"http://{host}" for host in self.hosts]:
            return 403, "wrong origin: another page may not ask the explorer"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "wrong origin: another page may not ask the explorer"
        given = scope["path"].split("/")[1]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 403, "wrong token: open the whole address that roofline explore printed"
        return None


class Explorer:
    """The explorer's routes over some workers."""

    def __init__(self, workers: Workers, token: str, hosts: Sequence[str], start: str = "") -> None:
        self.workers, self.start = workers, start
        self._functions: OrderedDict[str, str] = OrderedDict()
        self._catalog: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="roofline-explore-")
        under = f"/{token}"
        routes = [
            Route(f"{under}/", self.page),
            Route(f"{under}/explorer.js", self.script),
            Route(f"{under}/explorer.css", self.style),
            Route(f"{under}/catalog", self.catalog),
            Route(f"{under}/functions/{{name}}.js", self.functions),
            Route(f"{under}/api/{{command}}", self.data, methods=["POST"]),
            *(Route(f"{under}/{form}/{{command}}", self.answer, methods=["POST"]) for form in PAGES),
            Route(f"{under}/file", self.file, methods=["POST"]),
        ]
        self.app = Guard(Starlette(routes=routes), token, hosts)

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return Response(_PAGE.format(start=escape(self.start)), media_type="text/html")

    async def script(self, request: Request) -> Response:
        """Its script."""
        return Response(bundled("explorer.js"), media_type="text/javascript")

    async def style(self, request: Request) -> Response:
        """Its style, which it shares with reports."""
        return Response(bundled("report.css"), media_type="text/css")

    async def catalog(self, request: Request) -> Response:
        """What may be asked: commands with options, models, chips, formats, functions of the notation."""
        await self.prepare()
        return JSONResponse(self._catalog)

    async def prepare(self) -> None:
        """Work out what may be asked, which a server does before it says that it is ready."""
        if self._catalog is None:
            self._catalog = await self.workers.ask("catalog", "", {})

    async def functions(self, request: Request) -> Response:
        """The closed forms of an answer, as a module."""
        found = self._functions.get(request.path_params["name"])
        if found is None:
            return JSONResponse({"error": "this answer is no longer kept: ask it again"}, 404)
        return Response(found, media_type="text/javascript")

    async def data(self, request: Request) -> Response:
        """What ``--json`` of a command gives."""
        return await self._asked("data", request)

    async def answer(self, request: Request) -> Response:
        """The page of a command's answer, or a part of it; its functions are a module of their own."""
        return await self._asked(request.url.path.split("/")[2], request)

    async def file(self, request: Request) -> Response:
        """Take a file of measured points; a question names it by the path that comes back."""
        try:
            content = await self._body(request, MOST_FILE)
        except Refused as wrong:
            return JSONResponse({"error": wrong.reason}, wrong.status)
        ending = re.sub(r"[^a-z0-9.]", "", os.path.splitext(request.query_params.get("name", ""))[1].lower())[:8]
        path = os.path.join(self._folder.name, secrets.token_hex(8) + ending)
        with open(path, "wb") as file:
            file.write(content)
        return JSONResponse({"path": path})

    async def _asked(self, form: str, request: Request) -> Response:
        try:
            body = json.loads(await self._body(request, MOST_BODY))
            if not isinstance(body, dict):
                raise ValueError
            found = await self.workers.ask(form, request.path_params["command"], body)
        except Refused as wrong:
            return JSONResponse({"error": wrong.reason}, wrong.status)
        except (ValueError, RecursionError):
            return JSONResponse({"error": 'a question is a JSON object, as {"words": [...], "options": {...}}'}, 400)
        except TookTooLong:
            limit = f"{self.workers.limit:g} s"
            found = {"error": f"this took more than {limit} and was stopped: ask for less, or on the command line"}
            status = 504
        except Busy:
            found, status = {"error": "other questions are being worked on: ask again in a moment"}, 503
        else:
            status = 422
        if "error" in found:  # a page says it itself: a status of failure would make the browser's console say it too
            return JSONResponse(found, 200 if form in PAGES else status)
        return JSONResponse(self._with_functions(found) if form in PAGES else found["data"])

    def _with_functions(self, page: dict[str, Any]) -> dict[str, Any]:
        module = f"export default {page['functions']};"
        name = hashlib.sha256(module.encode()).hexdigest()[:24]
        self._functions[name] = module
        self._functions.move_to_end(name)
        while len(self._functions) > KEPT_FUNCTIONS:
            self._functions.popitem(last=False)
        return {**page, "functions": f"functions/{name}.js"}

    async def _body(self, request: Request, most: int) -> bytes:
        """The body of a request, which may be neither too long nor too slow."""
        too_long = Refused(413, f"the request is too long: at most {most:,} bytes")
        declared = request.headers.get("content-length", "0")
        digits = declared.lstrip("0")
        if declared.isdecimal() and (len(digits) > len(str(most)) or int(digits or 0) > most):
            raise too_long
        parts: list[bytes] = []

        async def read() -> None:
            length = 0
            async for part in request.stream():
                length += len(part)
                if length > most:
                    raise too_long
                parts.append(part)

        try:
            await asyncio.wait_for(read(), BODY_TIME)
        except TimeoutError:
            raise Refused(408, "the request did not arrive in time") from None
        except ClientDisconnect:
            raise Refused(400, "the request ended early") from None
        return b"".join(parts)

    def close(self) -> None:
        """End the workers and delete the files that were taken."""
        self.workers.close()
        self._folder.cleanup()


#: What a worker may hold at most, in bytes, where the system can limit it.
MOST_MEMORY = 12 * 2**30


class TookTooLong(Exception):
    """A question ran into its limit."""


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that start meanwhile hear no Ctrl-C; this one hears it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start would let them through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Busy(Exception):
    """Every worker was busy for as long as a question may take."""


def serve_questions(target: str, connection: Connection) -> None:
    """Answer questions from a connection until it closes; ``target`` is the ``module:function`` that answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    except (ImportError, ValueError, OSError):
        pass
    module, _, name = target.partition(":")
    answer: Callable[..., Any] = getattr(import_module(module), name)
    while True:
        try:
            asked = connection.recv()
        except (EOFError, OSError):  # the server has ended
            return
        try:
            found = answer(*asked)
        except MemoryError:
            found = {"error": "this takes more memory than a question may: ask for less, or the command line"}
        except Exception as wrong:
            found = {"error": f"this went wrong inside: {type(wrong).__name__}: {wrong}"}
        try:
            connection.send(found)
        except OSError:  # whoever asked is gone
            return


class Workers:
    """Some processes that answer questions one at a time, each within ``limit`` seconds.

    >>> import asyncio
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> async def once():
    ...     workers = Workers("roofline.quantity:count", 1, limit=60.0)
    ...     try:
    ...         return await workers.ask("8k")
    ...     finally:
    ...         workers.close()
    >>> with ThreadPoolExecutor(1) as beside:                       # in a notebook a loop runs already
    ...     beside.submit(asyncio.run, once()).result()
    8000
    """

    def __init__(self, target: str, many: int, *, limit: float, preload: Sequence[str] = ()) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            self._context.set_forkserver_preload(list(preload))
        self._target, self.limit = target, limit
        self._free: asyncio.Queue[tuple[Any, Connection]] = asyncio.Queue()
        self._all: set[Any] = set()
        for _ in range(many):
            self._free.put_nowait(self._start())

    def _start(self) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=serve_questions, args=(self._target, theirs), daemon=True)
        with _interrupts_held():  # a terminal sends Ctrl-C to every process, and one that still loads would show where
            process.start()
        theirs.close()
        self._all.add(process)
        return process, ours

    async def ask(self, *question: Any) -> Any:
        """The answer to a question; raises where it takes too long or nobody is free that long."""
        limit = self.limit
        try:
            worker = await asyncio.wait_for(self._free.get(), limit)
        except TimeoutError:
            raise Busy from None
        process, connection = worker
        try:
            connection.send(question)
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(None, connection.poll, limit):
                raise TookTooLong
            found = connection.recv()
        except (TookTooLong, EOFError, OSError, asyncio.CancelledError) as wrong:
            process.kill()
            self._all.discard(process)
            worker = self._start()
            if isinstance(wrong, EOFError | OSError):
                return {"error": "the process that worked on it ended: it may have run out of memory"}
            raise
        finally:
            self._free.put_nowait(worker)
        return found

    def close(self) -> None:
        """End every worker."""
        for process in self._all:
            process.kill()
