"""Run one input in a process with limits, and say what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import pickle
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.fuzz.inputs import KINDS, Input, make, written
from tests.fuzz.lines import LONG_LINES, SHORT

#: Seeds that one process runs.
CHUNK = 500
#: Seconds of CPU that an input may take, bytes that a process may take beside what it has loaded.
SECONDS, MEMORY = 10.0, 2 * 2**30
#: Characters of the longest message.
LONGEST = 6000


#: What holds for as long as this process lives.
_HELD: list[contextlib.AbstractContextManager[None]] = []


class Defect(NamedTuple):
    """What is wrong with an input: a signature that is the same for the same fault, and what was said."""

    seed: int
    kind: str
    signature: str
    detail: str


class _TooSlowError(BaseException):
    """Raised in the middle of an input that takes too long."""


def prepare() -> None:
    """Load everything and ask each short line once, so that processes begin with what that reads and keeps."""
    import gc
    import pkgutil

    import matplotlib.figure  # noqa: F401
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import sympy  # noqa: F401
    import torch  # noqa: F401

    import roofline.cli

    for found in pkgutil.iter_modules(roofline.cli.__path__):
        import_module(f"roofline.cli.{found.name}")

    _HELD.append(alone())
    _HELD[-1].__enter__()
    os.environ.update(XDG_CONFIG_HOME="/nowhere", HOME="/nowhere", COLUMNS="100")
    warnings.simplefilter("error", RuntimeWarning)
    for kind in KINDS:
        KINDS[kind][1](__import__("random").Random(0))
    said = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        for line in (*SHORT, *LONG_LINES, ("chips",), ("model",)):
            roofline.cli.main([*line])
            roofline.cli.main([*line, "--json"])
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 20)  # as the installed command does


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Have what measures, serves or starts processes end with an error once its arguments are checked.

    The figures of a chip of the catalog are worked out once in all processes.
    """
    import uvicorn

    from roofline import measurement
    from roofline.bounds.chip_list import chip_data
    from roofline.errors import InputError
    from roofline.web.server import Workers

    def refused(*_: Any, **__: Any) -> Any:
        raise InputError("nothing is measured, served or sent to others here")

    known: dict[int, tuple[Any, Any]] = {}

    def once(machine: Any) -> Any:
        if id(machine) not in known:
            known[id(machine)] = machine, chip_data(machine)
        return known[id(machine)][1]

    refusing = [(import_module("roofline.cli.measure"), "_measured"), (measurement, "run"), (uvicorn.Server, "run")]
    dask = SimpleNamespace(Client=refused)
    silent = [(Workers, "__init__"), (Workers, "close")]
    with contextlib.ExitStack() as held:
        for owner, name in refusing:
            held.enter_context(patch.object(owner, name, refused))
        for owner, name in silent:
            held.enter_context(patch.object(owner, name, lambda *_, **__: None))
        held.enter_context(patch.object(import_module("roofline.grids.runs"), "load_extra", lambda *_: dask))
        held.enter_context(patch.object(import_module("roofline.grids.runs"), "_local", refused))
        held.enter_context(patch.object(import_module("roofline.bounds.chip_list"), "chip_data", once))
        yield


def run_chunk(start: int, only: str | None) -> tuple[int, int, list[Defect]]:
    """Run the seeds from ``start`` on in a process of their own; one that dies is a defect, and another goes on."""
    found: list[Defect] = []
    seed, ran = start, 0
    while seed < start + CHUNK:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with contextlib.suppress(BaseException):
                _child(seed, start + CHUNK, only, writing)
            os._exit(0)
        os.close(writing)
        last, how, used = seed - 1, "ended early", 0.0
        with os.fdopen(reading, "rb") as pipe:
            while True:
                if not select.select([pipe], [], [], 12 * SECONDS)[0]:
                    if not _hangs(child, used):
                        continue
                    os.kill(child, signal.SIGKILL)
                    how = f"no answer in {12 * SECONDS:.0f} s"
                    break
                try:
                    last, counted, defect = pickle.load(pipe)
                    used = _cpu(child)[0]
                except EOFError:
                    break
                ran += counted
                if defect is not None:
                    found.append(defect)
        _, status = os.waitpid(child, 0)
        if last + 1 < start + CHUNK:
            lost = make(last + 1)
            how = (
                f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) and "no answer" not in how else how
            )
            found.append(
                Defect(last + 1, lost.kind, f"process {how}: {lost.words[0]} {lost.kind}", " ".join(lost.words))
            )
            ran += 1
        seed = last + 2
    return start, ran, found


def _cpu(child: int) -> tuple[float, str]:
    """Seconds of CPU that a process has used, and its state: R runs or waits for a processor, S sleeps."""
    fields = Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0]


def _hangs(child: int, used: float) -> bool:
    """Whether a process that says nothing hangs: it sleeps, or ran longer than its own limit; others may starve it."""
    now, state = _cpu(child)
    return state != "R" or now - used > 2 * SECONDS


def _child(first: int, end: int, only: str | None, writing: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(writing, "wb", buffering=0) as pipe, tempfile.TemporaryDirectory(dir=_fast()) as folder:
        os.chdir(folder)
        os.symlink(Path(__file__).parents[2] / "docs", "docs")
        for seed in range(first, end):
            made = make(seed)
            wanted = only is None or made.kind == only
            pipe.write(pickle.dumps((seed, int(wanted), run_input(seed, made, folder) if wanted else None)))
        os.chdir("/")


def _fast() -> str | None:
    """A folder in memory where there is one: files are made in a hundredth of the time."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_input(seed: int, made: Input, folder: str) -> Defect | None:
    """Run an input; say what is wrong, None if nothing."""
    from roofline.cli import main

    def fault(signature: str, detail: str = "") -> Defect:
        return Defect(seed, made.kind, signature, (detail or " ".join(made.words))[-4000:])

    for _ in written(made, folder):
        pass
    out, err = io.StringIO(), io.StringIO()

    def stop(*_: Any) -> None:
        raise _TooSlowError

    signal.signal(signal.SIGPROF, stop)
    before = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1.0)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _request(made) if made.kind == "request" else main(made.words)
    except _TooSlowError as slow:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return fault(f"over {SECONDS:.0f} s in {_place(slow)}", traceback.format_exc())
    except BaseException as error:
        return fault(f"{type(error).__name__} in {_place(error)}: {_generic(str(error))}", traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        left = _cleared(folder, made)
    if time.process_time() - before > SECONDS:
        return fault(f"over {SECONDS:.0f} s: {made.words[0]} {made.kind}")
    named = [text.decode() for content in made.files.values() for text in _NAMES.findall(content)]
    wrong = left or _wrong(code, out.getvalue(), err.getvalue(), [*made.words, *named])
    return (
        fault(wrong, f"{' '.join(made.words)}\n{err.getvalue()[-1500:]}\n{out.getvalue()[-1500:]}") if wrong else None
    )


def _cleared(folder: str, made: Input) -> str:
    """Take away what an input left in its folder; say what is wrong with what was written there."""
    wrong = ""
    for entry in os.scandir(folder):
        if entry.name == "docs":
            continue
        if ".part" in entry.name and entry.name not in made.files:
            wrong = f"{made.words[0]}: a file is left half written"
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
            continue
        if entry.name == "o.json":
            with open(entry.path, encoding="utf-8") as file:
                wrong = wrong or _wrong(0, file.read(), "", [made.words[0], "--json"])
        os.unlink(entry.path)
    return wrong


def _request(made: Input) -> int:
    """Send a request to the explorer, whose questions are answered in this process; 0 for an answer, 2 for an error."""
    import asyncio

    from roofline.cli.explore import answer_question
    from roofline.web.server import Explorer

    class Here:
        """In place of processes that answer."""

        limit = SECONDS

        async def ask(self, *question: Any) -> Any:
            return answer_question(*question)

        def close(self) -> None:
            pass

    method, address, *headers = made.words
    path, _, query = address.partition("?")
    pairs = [word.lower().partition("=")[::2] for word in headers]
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": "",
        "raw_path": path.encode("utf-8", "replace"), "query_string": query.encode("utf-8", "replace"),
        "headers": [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in pairs],
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": made.files["body"], "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    explorer = Explorer(Here(), "token", ("127.0.0.1:1",))  # type: ignore[arg-type]
    try:
        with ThreadPoolExecutor(1) as beside:  # a loop may be running in this thread: a browser's, in tests
            beside.submit(lambda: asyncio.run(explorer.app(scope, receive, send))).result()  # type: ignore[arg-type]
    finally:
        explorer.close()
    status, body = sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])
    if status == 500:
        raise AssertionError(f"status 500: {body[:200]!r}")
    if status >= 400:
        sys.stderr.write(body.decode() or str(status))
        return 2
    if path.startswith("/token/api/"):
        found = next((said for said in _odd(json.loads(body), "")), "")
        if found:
            raise AssertionError(found)
    return 0


def _wrong(code: Any, out: str, err: str, words: list[str]) -> str:
    name = words[0] if words else ""
    if code not in (0, 2) and (name, code) not in (("plan", 3), ("train", 3)):  # nothing meets the limits
        return f"{name}: code {code}"
    if "Traceback (most" in err or "Traceback (most" in out:
        return f"{name}: a traceback is printed"
    if shown := _INTERNALS.search(f"{out}\n{err}"):
        return f"{name}: {shown[0]} is printed"
    if code == 2:
        if not err.strip():
            return f"{name}: code 2 without a message"
        if len(err) > LONGEST:
            return f"{name}: a message of over {LONGEST:,} characters"
        return f"{name}: output beside an error" if out.strip() and "--json" in words else ""
    if "--json" not in words or not out.strip().startswith(("{", "[")):
        asked = " ".join(words).lower()
        shown = None if "nan" in asked or "inf" in asked or "-0" in asked else _NO_NUMBER.search(out)
        return f"{name}: {shown[0]} is printed" if shown else ""
    try:
        data = json.loads(out)
    except ValueError:
        return f"{name}: no JSON"
    return next((f"{name}: {said}" for said in _odd(data, "")), "")


#: What a caller never reads: names of Python's and of libraries' own kinds.
_INTERNALS = re.compile(
    r"<class |<function |<module |<bound method| object at 0x|NoneType|np\.(?:float|int|str)|mappingproxy|"
    r"\barray\(|frozenset\(|dict_keys|Symbol\(|defaultdict"
)
#: What is no number in a text.
_NO_NUMBER = re.compile(r"(?<![\w.'\"/-])(?:-?nan|-?inf|-0(?:\.0+)?)(?![\w.'\"/-])")

#: Names in a file that read as no number: a machine may be called so, and its answers print it.
_NAMES = re.compile(rb"(?i)[\"'](-?nan|-?inf)[\"']")

#: Keys of amounts and times, which are never below 0.
_AMOUNTS = (
    "lower",
    "upper",
    "op_by_op",
    "flops",
    "bytes",
    "seconds",
    "time",
    "parameters",
    "memory",
    "tokens_per_second",
)


def _odd(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _odd(item, name)
        low, middle, high = (value.get(name) for name in ("lower", "op_by_op", "upper"))
        numbers = [one for one in (low, middle, high) if isinstance(one, int | float)]
        if any(before > after * (1 + 1e-9) for before, after in itertools.pairwise(numbers)):
            yield "bounds are not in order"
    elif isinstance(value, list):
        for item in value:
            yield from _odd(item, key)
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{key} is not finite"
    elif isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        yield f"{key} is -0"
    elif isinstance(value, int | float) and value < 0 and key in _AMOUNTS:
        yield f"{key} is negative"


def _place(error: BaseException) -> str:
    """The last line of the package that an error went through, and the last line of all."""
    steps = traceback.extract_tb(error.__traceback__)
    steps = [step for step in steps if "/tests/fuzz/" not in step.filename]
    own = [step for step in steps if "/roofline/" in step.filename]
    step = own[-1] if own else steps[-1] if steps else None
    if step is None:
        return "nowhere"
    return f"{step.filename.rpartition('/roofline/')[2]}:{step.lineno} {step.name}"


def _generic(text: str) -> str:
    """A message without the values in it."""
    return re.sub(r"'[^']*'|\d+", "…", text.splitlines()[0] if text else "")[:80]
