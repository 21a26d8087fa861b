"""The tours of the seed documents: every command of the tables runs, and what stands in bold is in its output."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from roofline.cli import main
from tests.strategies import some

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
ROWS = [
    (what, command, answer)
    for what, command, answer in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", TEXT, re.MULTILINE)
    if "`roofline " in command
]


@cache
def output(command: str) -> str:
    """What a command prints, without line breaks; pictures are checked with the pages."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), contextlib.chdir(ROOT):
        status = main(shlex.split(command)[1:])
    assert status in (0, None), shown.getvalue()
    return " ".join(shown.getvalue().split())


@pytest.mark.parametrize(("what", "command", "answer"), some(ROWS, 2), ids=[what for what, _, _ in some(ROWS, 2)])
def test_the_tour(what: str, command: str, answer: str, tmp_path: Path) -> None:
    (line,) = re.findall(r"`(roofline [^`]+)`", command)
    found = output(re.sub(r" -o (\S+\.svg)", lambda name: f" -o {tmp_path / name[1]}", line))
    for part in re.findall(r"\*\*((?:\\\*|[^*])+)\*\*", answer):
        assert part.replace("\\*", "*").replace("wrote ", f"wrote {tmp_path}/") in found


def test_every_document_has_its_tour() -> None:
    assert len(ROWS) > 95
    assert TEXT.count("\n| it shows |") + TEXT.count("\n| slide |") == 5


def test_links_on_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    missing = [link for link in re.findall(r"\]\(#([^)]+)\)", TEXT) if link not in anchors]
    assert not missing
