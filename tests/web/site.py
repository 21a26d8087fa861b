"""Every page of the built documentation held against what a reader needs: ``python -m tests.web.site FOLDER [PAGE …]``.

Each page is opened at five widths in both themes. A line for each fault: a page that scrolls sideways, what is cut or
lies over other text, a name cut between its letters, text with too little contrast, small letters, targets too close
for a finger, a picture without words, a link to nowhere, a name given twice, a heading that skips a level. A fault at
several sizes is one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.web.conftest import CHROMIUM, Tab

WIDTHS = (390, 768, 1366, 1440, 1920)

#: What is made beside the pages: reports, sources, templates of the theme.
NO_PAGES = ("_", "try-it", "course/change-")

#: What finds the faults of a page, in the page.
FINDER = Path(__file__).with_name("page_faults.js")


def faults_of(tab: Tab) -> dict[tuple[str, ...], list[str]]:
    """The faults of the page that is open, each with the sizes and themes it has them at: all where there are none."""
    found: dict[tuple[str, ...], list[str]] = {}
    for theme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            tab.page.set_viewport_size({"width": width, "height": 900})
            tab.page.wait_for_timeout(30)
            for fault in tab.page.evaluate("faults()"):
                found.setdefault(tuple(fault), []).append(f"{width} {theme}")
    return found


def dead_links(site: Path, page: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Links of a page to a file that is not there, to a name that its page does not have, or by no way of the web."""
    for link in dict.fromkeys(facts[page]["links"]):
        parts = urlsplit(link)
        to = ((site / page).parent / unquote(parts.path) if parts.path else site / page).resolve()
        if parts.scheme or parts.netloc:
            is_dead = parts.scheme not in ("https", "http", "mailto")
        elif not to.is_file() or not to.is_relative_to(site):
            is_dead = True
        else:
            there = facts.get(to.relative_to(site).as_posix())
            is_dead = bool(parts.fragment and there) and unquote(parts.fragment) not in there["ids"]
        if is_dead:
            yield link


def run(site: Path, wanted: Sequence[str]) -> int:
    """Print the faults of the pages, and give how many there are."""
    from playwright.sync_api import sync_playwright

    found = (path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")))
    pages = [each for each in found if not each.startswith(NO_PAGES)]
    count, facts = 0, {}
    with sync_playwright() as driver:
        tab = Tab(driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]))
        tab.context.add_init_script(path=FINDER)
        for page in pages:
            tab.page.goto((site / page).as_uri())
            facts[page] = tab.page.evaluate("facts()")
            if wanted and page not in wanted:
                continue
            tab.page.evaluate("loaded()")
            faults = {tuple(fault): ["every size"] for fault in facts[page]["faults"]} | faults_of(tab)
            faults |= {("the console says", said): ["every size"] for said in tab.said}
            tab.said.clear()
            for fault, where in faults.items():
                print(f"{page}: {': '.join(filter(None, fault))} [{', '.join(where)}]", flush=True)
            count += len(faults)
        for page in wanted or pages:
            dead = [*dead_links(site, page, facts)]
            count += len(dead)
            for link in dead:
                print(f"{page}: a link to nowhere: {link}")
    print(f"{len(wanted or pages)} pages, {count} faults")
    return count


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]).resolve(), sys.argv[2:]) > 0)
