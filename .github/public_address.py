"""Write the public address of the repository into what is published: no file in it names one.

The release workflow runs it before it builds, and anyone who builds elsewhere may::

    python .github/public_address.py https://example.org/somebody/roofline --version v0.1.0

It writes ``[project.urls]`` and the addresses of CITATION.cff, and turns the README's links to files of the repository
into links to that address, at that tag or branch. It is run once, on a fresh checkout.

>>> absolute("[a](docs/a.md#b) ![p](docs/p.svg) `x[B](y)` [c](https://x.org) [d](#e)", "https://h/o/r", "v1")
'[a](https://h/o/r/blob/v1/docs/a.md#b) ![p](https://h/o/r/raw/v1/docs/p.svg) `x[B](y)` [c](https://x.org) [d](#e)'
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

#: Code of Markdown, or a link or a picture whose target lies in the repository.
_RELATIVE = re.compile(
    r"```.*?```|`[^`\n]*`"
    r"|(?P<mark>!?)\[(?P<text>[^\[\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^()\s]+)\)",
    re.DOTALL,
)


def absolute(text: str, address: str, version: str) -> str:
    """Links of a page at the root of the repository, as they read anywhere."""

    def link(found: re.Match[str]) -> str:
        if found["path"] is None:
            return found[0]
        kind = "raw" if found["mark"] else "blob"
        return f"{found['mark']}[{found['text']}]({address}/{kind}/{version}/{found['path'].removeprefix('./')})"

    return _RELATIVE.sub(link, text)


def project_urls(address: str, version: str) -> str:
    """The table of a project's addresses."""
    rows = {
        "Homepage": address,
        "Source": address,
        "Documentation": f"{address}/blob/{version}/docs/index.md",
        "Changelog": f"{address}/blob/{version}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    return "[project.urls]\n" + "".join(f'{name} = "{where}"\n' for name, where in rows.items())


def write(root: Path, address: str, version: str) -> None:
    """Write the address into pyproject.toml, CITATION.cff and the README below ``root``."""
    address = address.rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https?://[^\s\"'()/]+/[^\s\"'()]+", address):
        raise SystemExit(f"{address!r} is no address of a repository; as in https://example.org/somebody/roofline")
    settings, citation, readme = (root / name for name in ("pyproject.toml", "CITATION.cff", "README.md"))
    text = settings.read_text(encoding="utf-8")
    if "[project.urls]" in text:
        raise SystemExit("pyproject.toml has an address already; run this on a fresh checkout")
    before, mark, after = text.partition("[project.scripts]")
    settings.write_text(f"{before}{project_urls(address, version)}\n{mark}{after}", encoding="utf-8")
    before, mark, after = citation.read_text(encoding="utf-8").partition("license:")
    cited = f"url: {address}\nrepository-code: {address}\n"
    citation.write_text(f"{before}{cited}{mark}{after}", encoding="utf-8")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), address, version), encoding="utf-8")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("address", help="of the repository, as in https://example.org/somebody/roofline")
    words.add_argument("--version", default="main", help="the tag or branch that links lead to (default: main)")
    given = words.parse_args()
    write(Path(__file__).resolve().parents[1], given.address, given.version)
