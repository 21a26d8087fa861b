"""What surrounds the package: one version, a changelog of one page, a notice of what others made."""

from __future__ import annotations

import email
import json
import re
import runpy
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import roofline

ROOT = Path(__file__).resolve().parents[1]
LONGEST_CHANGELOG, WIDEST_LINE = 100, 120


def test_the_version_stands_in_one_place() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    assert settings["project"]["dynamic"] == ["version"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert source.count(f'__version__ = "{roofline.__version__}"') == 1
    assert f": {roofline.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_changelog_is_one_page() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_CHANGELOG
    assert max(map(len, lines)) <= WIDEST_LINE


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


def test_what_is_published_has_the_public_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of the release writes it; the address of this test is made up."""
    from hatchling import build

    address = "https://example.org/somebody/roofline"
    for name in ("pyproject.toml", "README.md", "CITATION.cff", "LICENSE", "NOTICE", "CHANGELOG.md", "docs/index.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src/roofline").mkdir(parents=True)
    shutil.copy(ROOT / "src/roofline/__init__.py", tmp_path / "src/roofline")
    script = runpy.run_path(str(ROOT / ".github/public_address.py"))
    script["write"](tmp_path, f"{address}.git", "v0.1.0")
    monkeypatch.chdir(tmp_path)
    wheel = zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path)))
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as source:
        found = source.extractfile(next(name for name in source.getnames() if name.endswith("/PKG-INFO")))
        assert found is not None
        described = found.read()
    plain = [described, wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA")))]
    for metadata in map(email.message_from_bytes, plain):
        said = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
        assert said == {
            "Homepage": address,
            "Source": address,
            "Documentation": f"{address}/blob/v0.1.0/docs/index.md",
            "Changelog": f"{address}/blob/v0.1.0/CHANGELOG.md",
            "Issues": f"{address}/issues",
        }
        page = str(metadata.get_payload())
        links = re.findall(r"\]\(([^)\s]*)\)", re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.DOTALL))
        assert len(links) > 10
        for link in links:
            assert link.startswith(f"{address}/"), link
            assert (ROOT / re.sub(r".*/(?:blob|raw)/v0\.1\.0/|#.*", "", link)).exists(), link
        assert f"{address}/raw/v0.1.0/docs/images/roof.svg" in links
    assert f"\nurl: {address}\nrepository-code: {address}\n" in (tmp_path / "CITATION.cff").read_text(encoding="utf-8")
    for wrong, message in (
        ("here", "'here' is no address of a repository; as in https://"),
        (address, "a fresh checkout"),
    ):
        with pytest.raises(SystemExit, match=message):
            script["write"](tmp_path, wrong, "main")


def test_no_public_address_is_made_up() -> None:
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    release = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert 'public_address.py "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" --version "$GITHUB_REF_NAME"' in release
