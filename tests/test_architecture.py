"""The walks of docs/architecture.md are the calls that the program makes, in their order."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import import_module
from inspect import unwrap
from itertools import groupby
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from roofline.cli import main
from roofline.models import config

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = re.findall(r"```commands\nroofline ([^\n]*)\n```\n(.*?)(?=\n## )", PAGE, re.DOTALL)


def calls_of(table: str) -> list[str]:
    """The functions a walk lists, in order."""
    return re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)


def find(path: str) -> tuple[str, Any]:
    """The module and the function that a dotted path names."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(["roofline", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found.__module__, unwrap(getattr(found, "callback", found))
    raise AssertionError(f"{path} is nowhere")


def order_of(functions: list[Any], command: str) -> list[int]:
    """Run a command; the positions of the functions in the order they are first called."""
    positions = {function.__code__: index for index, function in enumerate(functions)}
    seen: list[int] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        code: CodeType = frame.f_code
        if event == "call" and code in positions and positions[code] not in seen:
            seen.append(positions[code])

    sys.setprofile(watch)
    try:
        assert main(shlex.split(command)) == 0
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize(("command", "table"), WALKS, ids=["size", "field"])
def test_a_walk_is_what_happens(command: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = calls_of(table)
    assert len(calls) > 10
    config._from_catalog.cache_clear()  # a model that another test read would not be read again
    modules, functions = zip(*map(find, calls), strict=True)
    entered = [module for module, _ in groupby(modules)]
    assert len(set(entered)) == len(entered), "a module is entered twice"
    assert order_of(list(functions), command) == list(range(len(functions)))
    assert capsys.readouterr().out
