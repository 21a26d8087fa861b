"""Record the questions that tests ask: the outermost calls of public functions and of the command line.

``RECORD=FOLDER python -m pytest -p tests.corpus.recorder tests/bounds tests/cases tests/cli tests/models …`` writes
what is asked into a folder; ``python -m tests.corpus.recorder FOLDER`` makes ``tests/data/corpus.json`` of it: each
question once, a few of each test.
"""

from __future__ import annotations

import fractions
import functools
import hashlib
import json
import os
import re
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.answers import MEASURING, NotPlain
from tests.corpus.questions import RECORDED

#: Results that are arguments of other questions.
ARGUMENTS = ("chip", "load", "pool", "parse", "program", "build", "question")
#: Kept of one test function; how long a question may be, and how many seconds it may take.
OF_ONE_TEST, LONGEST, SLOWEST = 10, 4000, 0.15


class Recorder:
    """Writes the outermost calls of one process."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / f"{os.getpid()}.jsonl"
        self.inside = False
        self.test = ""
        self.made: dict[int, tuple[Any, dict[str, Any]]] = {}

    def around(self, describe: Callable[..., dict[str, Any]], function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that a call from outside is written down."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return function(*args, **kwargs)
            try:
                asked: dict[str, Any] | None = describe(*args, **kwargs)
            except NotPlain:
                asked = None
            self.inside, began = True, time.process_time()
            try:
                result = function(*args, **kwargs)
            finally:
                self.inside = False
                if asked is not None:
                    with self.path.open("a", encoding="utf-8") as file:
                        file.write(
                            json.dumps({"test": self.test, "seconds": time.process_time() - began, "question": asked})
                            + "\n"
                        )
            if asked is not None and asked.get("ask", "").rpartition(".")[2] in ARGUMENTS and "files" not in asked:
                self.made[id(result)] = (result, asked)
            return result

        return wrapper

    def described(self, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Write a call of a public function as a question."""
        files: dict[str, str] = {}
        asked = {
            "ask": name,
            "args": [self.encoded(item, files) for item in args],
            "kwargs": {key: self.encoded(item, files) for key, item in kwargs.items()},
        }
        return {**asked, "files": files} if files else asked

    def encoded(self, value: Any, files: dict[str, str]) -> Any:
        """Write an argument as plain data that ``answers.decoded`` reads."""
        if value is None or type(value) in (bool, int, float):
            return value
        if type(value) is str:
            return with_file(value, files)
        if isinstance(value, Path):
            return {"$path": with_file(str(value), files)}
        if type(value) in (tuple, list):
            items = [self.encoded(item, files) for item in value]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is range:
            return {"$range": [value.start, value.stop, value.step]}
        if isinstance(value, fractions.Fraction):
            return {"$fraction": str(value)}
        if type(value) is dict and all(type(key) is str for key in value):
            return {key: self.encoded(item, files) for key, item in value.items()}
        if id(value) in self.made and self.made[id(value)][0] is value:
            return {"$call": self.made[id(value)][1]}
        if type(value).__name__ == "Parallelism":
            given = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            changed = {
                field.name: given[field.name] for field in fields(value) if given.get(field.name) != field.default
            }
            return {"$call": self.described("roofline.models.Parallelism", **changed)}
        return _of_library(value)


def _of_library(value: Any) -> Any:
    import numpy as np
    import sympy

    if isinstance(value, np.generic):
        return {"$numpy": [str(value.dtype), value.item()]}
    if isinstance(value, np.ndarray) and value.size <= 60 and value.dtype.kind in "iuf":
        return {"$array": [str(value.dtype), value.tolist()]}
    if isinstance(value, sympy.Expr):
        return {"$sympy": sympy.srepr(value)}
    raise NotPlain(type(value).__name__)


def with_file(text: str, files: dict[str, str]) -> str:
    """Keep the file that a word names, ``model.py:build`` too, and name it without its folder."""
    head, colon, tail = text.rpartition(":")
    for path, rest in ((text, ""), (head, colon + tail)):
        if path and len(path) < 300 and (file := Path(path)).is_file() and file.stat().st_size < 40_000:
            try:
                files[file.name] = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise NotPlain(text) from error
            return file.name + rest
    if "/pytest-" in text:
        raise NotPlain(text)
    return text


def commanded(args: Any = None, *rest: Any, **kwargs: Any) -> dict[str, Any]:
    """Write a command line as a question."""
    if not args or args[0] in MEASURING:
        raise NotPlain("measures this machine")
    files: dict[str, str] = {}
    asked = {"command": [with_file(str(word), files) for word in args], "show": ["json"]}
    return {**asked, "files": files} if files else asked


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Wrap the public functions wherever a test module or a room names them."""
    import roofline
    from roofline import models
    from roofline.cli import cli

    found = {}
    session.config.stash[_KEY] = recorder = Recorder(os.environ["RECORD"])
    for room in (roofline, models):
        for name in room.__all__:
            function = getattr(room, name)
            if isinstance(function, types.FunctionType) and name not in MEASURING:
                describe = functools.partial(recorder.described, f"{room.__name__}.{name}")
                found[id(function)] = recorder.around(describe, function)
                setattr(room, name, found[id(function)])
    for module in list(sys.modules.values()):
        if "/tests/" in (getattr(module, "__file__", None) or "") and module.__name__.startswith(("tests", "test_")):
            for name, value in list(vars(module).items()):
                if id(value) in found:
                    setattr(module, name, found[id(value)])
    cli.main = recorder.around(commanded, cli.main)  # type: ignore[method-assign]


_KEY = pytest.StashKey[Recorder]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember which test asks; what another made is no argument of its questions."""
    recorder = item.config.stash[_KEY]
    recorder.test = item.nodeid
    recorder.made.clear()


def kept(folder: str) -> dict[str, Any]:
    """Each question once, a few of each test, those of a test chosen by chance; files are listed once."""
    of_test: dict[str, dict[str, Any]] = defaultdict(dict)
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = json.dumps(row["question"], sort_keys=True)
            if (len(text) <= LONGEST or "files" in row["question"]) and row["seconds"] <= SLOWEST:
                of_test[re.sub(r"\[.*", "", row["test"])].setdefault(text, row["question"])
    chosen: dict[str, Any] = {}
    for test, questions in of_test.items():
        most = 10 * OF_ONE_TEST if "test_odd_values" in test or "published" in test else OF_ONE_TEST
        by_chance = sorted(questions, key=lambda text: hashlib.sha1(text.encode()).hexdigest())
        chosen |= {text: questions[text] for text in by_chance[:most]}
    files: list[str] = []
    for _, question in sorted(chosen.items()):
        for name, content in question.get("files", {}).items():
            if content not in files:
                files.append(content)
            question["files"][name] = files.index(content)
    return {"files": files, "questions": [question for _, question in sorted(chosen.items())]}


def written(found: dict[str, Any]) -> str:
    """Write the list one question a line."""
    rows = [
        ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in found[name])
        for name in ("files", "questions")
    ]
    return '{{"files": [\n{}\n],\n"questions": [\n{}\n]}}\n'.format(*rows)


if __name__ == "__main__":
    RECORDED.write_text(written(kept(sys.argv[1])), encoding="utf-8")
