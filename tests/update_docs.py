"""Run every example of the README and the docs and put what it shows, pictures too, in place of what is written.

``python -m tests.update_docs [page …]``. Output that still matches, wildcards included, stays as it is;
of lines between two ``...`` those from the most like their first to the most like their last take their place.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from roofline.charts import drawing
from roofline.cli import main
from tests.doc_blocks import blocks, differences, documents, other_pictures, prepare, python_differences

#: Lines of which less than this is as it was are other lines: then all of the output is written.
ALIKE = 0.6

#: Width in pixels of a picture on a phone, and the height of a plot there.
PHONE = (360, 420)


def elided(written: Sequence[str], shown: Sequence[str]) -> list[str]:
    """What is shown, without what ``...`` stood for: of each piece between two the lines from its first to its last.

    >>> elided(["...", "  at best 3 ms", "..."], ["a model", "", "  at best 4 ms", "", "  assumes 2 FLOPs"])
    ['...', '  at best 4 ms', '...']
    >>> elided(["a plan for 1/s", "  take one", "..."], ["a plan for 2/s", "in 3 ms", "  take two", "more"])
    ['a plan for 2/s', 'in 3 ms', '  take two', '...']
    """
    if not written:
        return list(shown)
    pieces: list[list[str]] = [[]]
    for line in written:
        if line.strip() == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    found: list[str] = []
    start = 0
    for number, piece in enumerate(pieces):
        found += ["..."] * (number > 0)
        if not piece:
            continue
        first = _nearest(piece[0], shown, start) if number else 0
        last = len(shown) - 1 if number == len(pieces) - 1 else _nearest(piece[-1], shown, first or 0)
        if first is None or last is None:
            return list(shown)
        found += shown[first : last + 1]
        start = last + 1
    return found


def _nearest(line: str, shown: Sequence[str], start: int) -> int | None:
    """The place of the line, from ``start`` on, that is most like one; None where none is."""
    likely = [SequenceMatcher(None, line, each).ratio() for each in shown[start:]]
    return start + likely.index(max(likely)) if max(likely, default=0.0) >= ALIKE else None


def updated(page: str, name: str) -> str:
    """Return the page with the output of its examples made fresh."""
    lines = page.splitlines()
    edits = [(c.start, len(c.expected), elided(c.expected, shown.lines)) for c, shown in differences(main, page)]
    for line, example, got in python_differences(page, name):
        if got.startswith("Traceback") and not example.want.startswith("Traceback"):
            raise SystemExit(f"{name}:{line + 1}: >>> {example.source}{got}")
        after = line + example.source.count("\n")
        edits.append((after, example.want.count("\n"), [text or "<BLANKLINE>" for text in got.splitlines()]))
    indents = {block.start + i: block.indent for block in blocks(page) for i in range(len(block.lines) + 1)}
    for start, count, fresh in sorted(edits, reverse=True):
        lines[start : start + count] = [(indents[start] + line).rstrip() for line in fresh]
    return "\n".join(lines) + "\n"


def update(pages: list[Path]) -> None:
    """Rewrite the pages whose examples show something else now, and say which."""
    for path in pages:
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            prepare(Path(folder))
            fresh = updated(page, path.name)
            os.chdir(path.parent)
            for drawn, kept in other_pictures(Path(folder), Path.read_bytes):
                shutil.copyfile(drawn, kept)
                shutil.copyfile(drawn.parent / "phone" / drawn.name, kept.parent / "phone" / kept.name)
                sys.stdout.write(f"updated {kept.name}\n")
        if fresh != page:
            path.write_text(fresh, encoding="utf-8")
            sys.stdout.write(f"updated {path.name}\n")


def also_for_phones(write: Callable[..., None]) -> Callable[..., None]:
    """Draw each picture a second time, as wide as a phone's page, so that its letters can be read there."""

    def draw(chart: Any, path: str, scale: float) -> None:
        write(chart, path, scale)
        if path.endswith(".svg"):
            small = Path(path).absolute().parent / "phone" / Path(path).name
            small.parent.mkdir(exist_ok=True)
            write(chart.with_size(PHONE[0], chart.height if chart.bars else PHONE[1]), str(small), scale)

    return draw


def pages_named(words: Sequence[str]) -> list[Path]:
    """The pages that a command line names, all where it names none.

    >>> [page.name for page in pages_named(["README.md"])], len(pages_named([])) > 20
    (['README.md'], True)
    >>> pages_named(["--help"])
    Traceback (most recent call last):
    SystemExit: usage: python -m tests.update_docs [page …], as in docs/tour.md; without a page all, which takes minutes
    """
    pages = [Path(word).resolve() for word in words]
    if not all(page.suffix == ".md" and page.is_file() for page in pages):
        usage = "usage: python -m tests.update_docs [page …]"
        raise SystemExit(f"{usage}, as in docs/tour.md; without a page all, which takes minutes")
    return pages or documents()


if __name__ == "__main__":
    drawing.write = also_for_phones(drawing.write)
    update(pages_named(sys.argv[1:]))
