"""Ask one question in this process; the answer is plain data: numbers, texts, lists and mappings.

A question is a mapping:

- ``{"command": [word, …], "show": ["json", "text"]}``, with ``files`` where it reads some;
- ``{"ask": "roofline.bound", "args": […], "kwargs": {…}}``: a public function, arguments encoded by :func:`encoded`;
- ``{"program": "torch", "source": "lambda x: x.relu()", "inputs": ["bf16[8]"]}``: a program to trace, and its bound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fractions
import importlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Question = Mapping[str, Any]

#: Commands whose answer depends on the machine they run on.
MEASURING = ("measure", "run")


class NotPlain(Exception):
    """A value that cannot be written as plain data."""


def decoded(value: Any) -> Any:
    """Make an argument from plain data."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        ((kind, inner),) = value.items()
        if kind in _DECODE:
            return _DECODE[kind](inner)
    return {name: decoded(item) for name, item in value.items()}


def _array(inner: Any) -> Any:
    import numpy as np

    return np.array(inner[1], dtype=inner[0])


def _scalar(inner: Any) -> Any:
    import numpy as np

    return np.dtype(inner[0]).type(inner[1])


def _expression(inner: str) -> Any:
    import sympy

    return sympy.sympify(inner)


_DECODE: dict[str, Any] = {
    "$tuple": lambda inner: tuple(decoded(item) for item in inner),
    "$range": lambda inner: range(*inner),
    "$fraction": fractions.Fraction,
    "$path": Path,
    "$array": _array,
    "$numpy": _scalar,
    "$sympy": _expression,
    "$call": lambda inner: call(inner),
}


def call(question: Question) -> Any:
    """Call the public function that a question names."""
    module, _, name = question["ask"].rpartition(".")
    function = getattr(importlib.import_module(module), name)
    arguments = [decoded(item) for item in question.get("args", ())]
    return function(*arguments, **{key: decoded(item) for key, item in question.get("kwargs", {}).items()})


def plain(value: Any, depth: int = 6) -> Any:
    """Write an answer as plain data."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth - 1) for key, item in value.items()}
    if type(value).__module__.partition(".")[0] == "sympy":
        return {"$sympy": str(value)}
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), depth)
    if hasattr(value, "_asdict"):
        return plain(value._asdict(), depth)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth - 1) for item in value]
    if type(value).__name__ == "Machine":
        return {"machine": value.key}
    if dataclasses.is_dataclass(value) and depth > 0:
        return {field.name: plain(getattr(value, field.name), depth - 1) for field in dataclasses.fields(value)}
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def shown(value: Any) -> str:
    """What a terminal of 100 columns shows of an answer."""
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=100, highlight=False, markup=False).print(value)
    return text.getvalue()


@contextlib.contextmanager
def laid_out(files: Mapping[str, str]) -> Iterator[None]:
    """Write a question's files into the current folder for as long as it is asked."""
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf-8")
    try:
        yield
    finally:
        for name in files:
            Path(name).unlink(missing_ok=True)


def answer(question: Question) -> dict[str, Any]:
    """Ask a question; an error is an answer too: its kind and its text."""
    with laid_out(question.get("files", {})):
        if "command" in question:
            return _of_command(question["command"], question.get("show", ["json"]))
        from roofline.errors import RooflineError

        try:
            if "program" in question:
                from tests.corpus.programs import traced

                return {"answer": plain(traced(question))}
            value = call(question)
            found = {"answer": plain(value)}
            if "text" in question.get("show", ()):
                found["text"] = shown(value).splitlines()
        except RooflineError as error:
            return {"error": str(error).splitlines()}
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {error}"}
        return found


def _of_command(words: list[str], show: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "text" in show or "--json" in words or words[0] == "plot":
        found["text"] = _said(words)
    if "json" in show and "--json" not in words and "-o" not in words and "--help" not in words:
        found["json"] = _said([*words, "--json"])
    return found


def _said(words: list[str]) -> dict[str, Any]:
    import click

    from roofline.cli import main
    from tests.doc_blocks import ENVIRONMENT

    os.environ.update(ENVIRONMENT)
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            code: Any = main(words)
    except (Exception, click.exceptions.Exit) as error:
        code = f"{type(error).__name__}: {error}"
    try:
        said: Any = json.loads(text.getvalue())
    except ValueError:
        said = [line.rstrip() for line in text.getvalue().splitlines()]
    return {"code": code, "said": said}
