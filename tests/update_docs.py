"""Run every example of the README and the docs and put what it shows, pictures too, in place of what is written.

``python -m tests.update_docs [page …]``. Output that still matches, wildcards included, stays as it is;
of lines between ``...`` those that are most like them take their place.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from roofline.cli import main
from tests.doc_blocks import blocks, differences, documents, other_pictures, prepare, python_differences

#: Lines of which less than this is as it was are other lines: then all of the output is written.
ALIKE = 0.6


def elided(written: Sequence[str], shown: Sequence[str]) -> list[str]:
    """What is shown, without the lines that ``...`` stood for.

    >>> elided(["...", "  at best 3 ms", "..."], ["a model", "", "  at best 4 ms", "", "  assumes 2 FLOPs"])
    ['...', '  at best 4 ms', '...']
    """
    if "..." not in written:
        return list(shown)
    found, start = [], 0
    for line in written:
        if line.strip() == "...":
            found.append("...")
            continue
        likely = [SequenceMatcher(None, line, each).ratio() for each in shown[start:]]
        if max(likely, default=0.0) < ALIKE:
            return list(shown)
        start += likely.index(max(likely)) + 1
        found.append(shown[start - 1])
    return found


def updated(page: str, name: str) -> str:
    """Return the page with the output of its examples made fresh."""
    lines = page.splitlines()
    edits = [(c.start, len(c.expected), elided(c.expected, shown.lines)) for c, shown in differences(main, page)]
    for line, example, got in python_differences(page, name):
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
            for drawn, kept in other_pictures(Path(folder)):
                shutil.copyfile(drawn, kept)
                sys.stdout.write(f"updated {kept.name}\n")
        if fresh != page:
            path.write_text(fresh, encoding="utf-8")
            sys.stdout.write(f"updated {path.name}\n")


if __name__ == "__main__":
    update([Path(given).resolve() for given in sys.argv[1:]] or documents())
