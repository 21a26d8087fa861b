"""What surrounds the package: one version, a changelog of one page, a notice of what others made."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import roofline

ROOT = Path(__file__).resolve().parents[1]
LONGEST_CHANGELOG = 100


def test_the_version_stands_in_one_place() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    assert settings["project"]["dynamic"] == ["version"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert source.count(f'__version__ = "{roofline.__version__}"') == 1
    assert f": {roofline.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_changelog_is_one_page() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_CHANGELOG


def test_the_notice_names_every_configuration_that_is_shipped() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8").split()
    words = {word.strip(",:") for word in notice}
    for path in sorted((ROOT / "src/roofline/models/catalog").glob("*.json")):
        source = json.loads(path.read_text(encoding="utf-8")).get("_source", "")
        if source.startswith("https://huggingface.co/"):
            publisher, model = source.split("/")[3:5]
            assert {publisher, model} <= words, source
        elif source:
            assert path.stem in words, source
