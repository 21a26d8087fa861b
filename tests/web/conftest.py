"""A browser, a page and an explorer for the tests of pages: one each for a session; one line where there is no browser.

A page of its own costs two seconds, so tests share one: it is empty and has its usual size and theme when one begins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from tests.conftest import NO_BROWSER

#: The browser without windows takes a sixth less work for the same pages.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)

#: Nothing is drawn to a screen, and a page is open for less long than making its script fast takes: ``make test-long``,
#: which measures how long a script works, has it made fast.
FLAGS = ["--no-sandbox", "--disable-gpu", "--in-process-gpu", "--no-zygote"]
if "ROOFLINE_LONG" not in os.environ:
    FLAGS.append("--js-flags=--no-opt,--no-maglev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages first: on several processes all of them then run on one, with one browser and one explorer."""
    items.sort(key=lambda each: not each.nodeid.startswith("tests/web/"))


def has_browser() -> bool:
    return CHROMIUM is not None and find_spec("playwright") is not None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if not has_browser():
        if os.environ.get("ROOFLINE_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


class Tab:
    """A page of the browser, with what its console said and what it asked of others."""

    def __init__(self, browser: Any, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 720}, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.session: Any = None
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda each: self.said.append(each.text) if each.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda each: self.said.append(str(each)))
        self.page.on("request", lambda each: self.asked.append(each.url))

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def worked(self) -> float:
        """Seconds that the page's thread has worked: what others do on the machine meanwhile does not count."""
        if self.session is None:
            self.session = self.context.new_cdp_session(self.page)
            self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


@pytest.fixture(scope="session")
def one_tab(browser: Any) -> Iterator[Tab]:
    found = Tab(browser)
    yield found
    found.context.close()


@pytest.fixture
def tab(one_tab: Tab) -> Tab:
    """The page that tests share, as a new one would be."""
    page = one_tab.page
    one_tab.context.set_offline(False)
    page.set_viewport_size({"width": 1280, "height": 720})
    page.emulate_media(color_scheme="light")
    page.goto("about:blank")
    one_tab.said.clear()
    one_tab.asked.clear()
    return one_tab


@pytest.fixture(scope="session")
def explorer() -> Iterator[str]:
    """The address of an explorer whose questions may take two minutes, as other work may go on beside."""
    with exploring(limit=120) as address:
        yield address


@contextmanager
def exploring(limit: int) -> Iterator[str]:
    """The address of an explorer of one worker, whose questions may take ``limit`` seconds."""
    words = [sys.executable, "-m", "roofline", "explore", "--no-browser", "--workers", "1", "--limit", str(limit)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = next((line for line in running.stdout if line.startswith("ready: ")), "")
        assert found, "the explorer did not start"
        try:
            yield found.removeprefix("ready: ").strip()
        finally:
            running.terminate()
