"""Fenced examples in Markdown: find them, run them, compare them, put fresh output in place.

A ``console`` block holds ``$ roofline …`` commands with their output; a line ``...`` stands for any lines, and a
backslash continues a command. A ``python`` block holds ``>>>`` examples; the blocks of a file share one namespace.
Commands run in this process, 100 columns wide, without colour, in a folder of their own. What goes to
standard error counts as output.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]

#: The terminal that examples and tests are shown on, and no figures or settings of the user's own. The folder where
#: matplotlib lists its fonts is kept from run to run, and is each user's own: another's cannot be written to.
MATPLOTLIB = os.path.join(tempfile.gettempdir(), f"roofline-matplotlib-{getattr(os, 'getuid', int)()}")
ENVIRONMENT = {
    "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1", "TERM": "dumb", "XDG_CONFIG_HOME": os.devnull,
    "MPLCONFIGDIR": MATPLOTLIB, "MPLBACKEND": "Agg",
}  # fmt: skip

#: What a user may have set and would show in the output.
REMOVED = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "MATPLOTLIBRC")
DOCTEST_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

#: A command line as a function: its words in, its exit code out.
Main = Callable[[Sequence[str]], int]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w{}]*)[^`]*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its lines, the index of the first of them in the file, how far it is indented."""

    language: str
    lines: tuple[str, ...]
    start: int
    indent: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, the output written under it, and where that output lies in the file."""

    text: str
    expected: tuple[str, ...]
    start: int

    @property
    def writes_alone(self) -> bool:
        """Say whether a page shows of its output which files it wrote, and nothing else."""
        wrote = [line.startswith("wrote ") for line in self.expected if line.strip() not in ("", "...")]
        return bool(wrote) and all(wrote)

    @property
    def is_ours(self) -> bool:
        """Say whether it is run here; others (``pip install …``) are only shown."""
        return self.text.split(" ", 1)[0] == "roofline"


def documents() -> list[Path]:
    """List the pages whose examples are run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page.exists() and not {"_build", "generated"} & set(page.parts)]


def blocks(text: str) -> Iterator[Block]:
    """Cut the fenced blocks out of a page."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        at += 1
        if opening is None:
            continue
        start, closing = at, opening["indent"] + opening["ticks"]
        while at < len(lines) and lines[at].rstrip() != closing:
            at += 1
        inside = tuple(line.removeprefix(opening["indent"]) for line in lines[start:at])
        yield Block(opening["language"], inside, start, opening["indent"])
        at += 1


def commands(block: Block) -> Iterator[Command]:
    """Split a console block into its commands, each with the output under it."""
    at, lines = 0, block.lines
    while at < len(lines):
        if not lines[at].startswith("$ "):
            at += 1
            continue
        text = lines[at][2:]
        while text.endswith("\\") and at + 1 < len(lines):
            at += 1
            text = text[:-1] + lines[at].strip()
        start = at = at + 1
        while at < len(lines) and not lines[at].startswith("$ "):
            at += 1
        yield Command(text, trimmed(lines[start:at]), block.start + start)


def trimmed(lines: Any) -> tuple[str, ...]:
    """Drop spaces at the ends of lines, and empty lines at the end."""
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command showed, and its exit code."""

    lines: tuple[str, ...]
    code: int


def run(main: Main, text: str, columns: int = 100, into: io.StringIO | None = None) -> Shown:
    """Run ``roofline …`` in this process; what goes to standard error is shown too."""
    words = shlex.split(text)
    shown = io.StringIO() if into is None else into
    with (
        mock.patch.dict(os.environ, ENVIRONMENT | {"COLUMNS": str(columns)}),
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        for name in REMOVED:
            os.environ.pop(name, None)
        code = main(words[1:])
    return Shown(trimmed(shown.getvalue().splitlines()), code)


def agrees(command: Command, shown: Shown) -> bool:
    """Say whether a command showed what is written; one that fails must have its error written under it."""
    expects_error = any(line.startswith("error: ") for line in command.expected)
    return matches(command.expected, shown.lines) and (shown.code == 0 or expects_error)


def matches(expected: tuple[str, ...], got: tuple[str, ...]) -> bool:
    """Compare line by line; ``...`` stands for any number of lines.

    >>> matches(("a", "...", "d"), ("a", "b", "c", "d")), matches(("a", "..."), ("b",))
    (True, False)
    """
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in got)) is not None


def prepare(folder: Path) -> None:
    """Lay out what the examples expect of the folder they run in: ``out/``, and the data files of the docs."""
    (folder / "out").mkdir(exist_ok=True)
    examples = ROOT / "docs" / "examples"
    if examples.exists():
        shutil.copytree(examples, folder / "docs" / "examples", dirs_exist_ok=True)


_SHOWN: dict[tuple[Main, str, int], Shown] = {}


def run_once(main: Main, text: str, columns: int = 100) -> Shown:
    """The same as :func:`run`; a command that several pages show, and that has nothing to do with files, once."""
    if re.search(r" -o | --\S*(?:chart|csv)|docs/|out/", text):
        return run(main, text, columns)
    if (main, text, columns) not in _SHOWN:
        _SHOWN[main, text, columns] = run(main, text, columns)
    return _SHOWN[main, text, columns]


def differences(
    main: Main, page: str, tried: Callable[[Command], bool] = lambda command: True
) -> Iterator[tuple[Command, Shown]]:
    """Run the commands of a page in order, those that are ``tried``; yield those that show something else with it."""
    for block in blocks(page):
        if block.language == "console":
            for command in commands(block):
                if command.is_ours and tried(command):
                    shown = run_once(main, command.text)
                    if not agrees(command, shown):
                        yield command, shown


class _Collect(doctest.DocTestRunner):
    """Runs examples and hands every one that fails to ``report``, with what it gave instead."""

    def __init__(self, report: Callable[[doctest.Example, str], None]) -> None:
        super().__init__(optionflags=DOCTEST_OPTIONS)
        self._report = report

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        self._report(example, got)

    def report_unexpected_exception(self, out: Any, test: Any, example: doctest.Example, exc_info: Any) -> None:
        error = exc_info[1]
        kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        self._report(example, f"Traceback (most recent call last):\n{kind}: {error}\n")


def python_differences(page: str, name: str) -> list[tuple[int, doctest.Example, str]]:
    """Run the ``>>>`` examples of a page in one namespace; list those that give something else.

    Each is the line in the page where the example stands, the example, and what it gave.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found: list[tuple[int, doctest.Example, str]] = []
    for block in blocks(page):
        if block.language != "python":
            continue
        source = "\n".join(block.lines) + "\n"
        test = doctest.DocTestParser().get_doctest(source, namespace, name, name, block.start)

        def report(example: doctest.Example, got: str, start: int = block.start) -> None:
            found.append((start + example.lineno, example, got))

        _Collect(report).run(test, clear_globs=False, out=lambda text: None)
        namespace = test.globs
    return found


def words_of(picture: Path) -> str:
    """What a picture says of itself, whatever the fonts it is drawn in: its title, its subtitle and its notes."""
    found = re.search(r"<title>.*</desc>", picture.read_text(encoding="utf-8"), re.DOTALL)
    assert found, picture.name
    return found[0]


def other_pictures(folder: Path, of: Callable[[Path], object] = words_of) -> list[tuple[Path, Path]]:
    """Pictures drawn in a folder whose words, or what ``of`` reads, differ from those kept in ``docs/images``."""
    pairs = [(drawn, ROOT / "docs" / "images" / drawn.name) for drawn in folder.glob("*.svg")]
    return [(drawn, kept) for drawn, kept in pairs if kept.exists() and of(kept) != of(drawn)]
