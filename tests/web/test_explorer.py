"""The explorer in a browser: pages load without a word to the console, numbers are those of the core, links keep all;
and its server refuses what does not come from its own page.

One server and one browser serve the session. More states, sizes and pages are asked under ROOFLINE_LONG=1.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from roofline import bound
from roofline.cli.explore import ASKED, _start, answer_question, command_words
from roofline.errors import InputError
from roofline.models import generation, serve_bound
from roofline.quantity import format_quantity
from roofline.web.server import TookTooLong, Workers
from tests.strategies import some
from tests.web.conftest import Tab, exploring

LONG = os.environ.get("ROOFLINE_LONG") == "1"
LINE = "bf16[B, D] * bf16[D, F]"
MODEL: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 8, "context": 8192}


def shown(tab: Tab, address: str, selector: str = "#lower") -> Tab:
    tab.page.goto(address)
    tab.page.wait_for_selector(selector)
    return tab


def said_nothing(tab: Tab, explorer: str) -> None:
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(explorer))
    assert tab.said == []
    assert [each for each in tab.asked if not each.startswith((origin, "data:", "blob:"))] == []


def test_a_slider_a_link_and_the_way_back(tab: Tab, explorer: str) -> None:
    """The first page answers; a slider moves it at once; its address says it all; back takes a change back."""
    asked = urlencode({"line": LINE, "on": "v5e", "sizes": "B=64 D=8192 F=8192"})
    shown(tab, f"{explorer}#/operation?{asked}")
    at = {"B": 64, "D": 8192, "F": 8192}
    assert tab.text("#lower") == format_quantity(bound(LINE, on="v5e", **at).lower, "s")
    tab.page.locator(".advice tr", has_text="int8 weights").wait_for()
    box = tab.page.get_by_label("B, exactly")
    box.fill("512")
    box.press("Enter")
    moved = format_quantity(bound(LINE, on="v5e", **{**at, "B": 512}).lower, "s")
    assert tab.text("#lower") == moved
    assert "B%3D512+D%3D8192" in tab.page.url  # in its place, so that the chart goes on over B
    box.fill("nonsense")
    box.press("Enter")
    assert "not a whole number" in tab.text(".knob [role=alert]")
    link = tab.page.url
    tab.page.goto("about:blank")
    assert shown(tab, link).text("#lower") == moved
    chips = tab.page.get_by_label("chips to compare")
    tab.page.locator(".advice").wait_for()  # comes after the answer, and there is one
    chips.fill("h100,v5e")
    chips.press("Enter")
    tab.page.wait_for_selector("section[aria-label='Machines side by side']")
    assert tab.text("#lower") == format_quantity(bound(LINE, on="h100", **{**at, "B": 512}).lower, "s")
    mine = tab.page.locator(".advice", has_text="What would move it on h100")  # of the machine that is shown
    mine.locator("tr", has_text="twice the bf16 peak").get_by_role("button", name="apply").click()
    twice = bound(LINE, on="h100", **{**at, "B": 512}, set={"tensor.bf16": 2 * 989.4e12})
    tab.page.locator("#lower", has_text=format_quantity(twice.lower, "s")).wait_for()
    assert "P_bf16%40h100" in tab.page.url  # the slider of that machine alone
    assert "twice the bf16 peak: " in tab.text(".diff")
    tab.page.locator(".tabs").get_by_role("button", name="v5e").click()
    tab.page.locator(".advice", has_text="What would move it on v5e").wait_for()
    assert tab.text("#lower") == moved
    tab.page.go_back()
    tab.page.go_back()
    tab.page.locator("#lower", has_text=moved).wait_for()
    line = tab.page.locator(".advice tr", has_text="twice the bandwidth")
    line.or_(tab.page.locator(".advice tr", has_text="twice the bf16 peak")).get_by_role("button", name="apply").click()
    tab.page.locator(".diff", has_text="faster").wait_for()
    said_nothing(tab, explorer)


#: What the fields of a question hold, by their labels.
FIELDS = """Object.fromEntries([...document.querySelectorAll(".ask label")].map((each) =>
  [each.firstChild.textContent, each.querySelector("input, select")?.value]))"""


@pytest.mark.long
def test_from_which_batch_on_a_model_is_not_bound_by_weights(tab: Tab, explorer: str) -> None:
    """A model of the command line opens on an answer, split over all its chips."""
    shown(tab, explorer + _start(["llama-3-70b", "batch=8", "prompt=64"], ["8 x h200"]))
    assert "one copy of the model, split over 8 chips" in tab.text(".answer")
    hints = "[...document.querySelectorAll('.ask [placeholder]')].map((each) => each.placeholder)"
    assert all(each.startswith("e.g. ") for each in tab.page.evaluate(hints)), "a hint looks like a value"
    said, least = tab.text(".answer"), serve_bound("llama-3-70b", "decode", **MODEL).lower
    cost = least * 8 * 3.59 / 3600 / 8 * 1e6
    assert f"${cost:.2f} for a million tokens: decode at batch 8, context 8,192, on h200:8, at the floor" in said
    assert "prices: the catalog's “on demand”, from https" in said
    whole = generation("llama-3-70b", on="h200:8", tensor=8, batch=8, prompt=64, output=256)
    assert f"256 tokens to prompts of 64, batch 8: {format_quantity(whole.total, 's')}, the first token" in said
    modules = tab.text("section[aria-label='Time by module']")
    assert f"which is one operation after the other. At best {format_quantity(least, 's')}" in modules
    assert "mostly weights below batch = 52, mostly keys and values from there on" in tab.text(".answer")
    assert "mlp takes most" in tab.text("section[aria-label='Time by module']")
    box = tab.page.get_by_label("W_hbm, exactly")
    box.fill("8T")
    box.press("Enter")
    fresh = serve_bound("llama-3-70b", "decode", **MODEL, set={"hbm": 8e12})
    assert tab.text("#lower") == format_quantity(fresh.lower, "s")
    tab.page.locator(".advice tr", has_text="twice the hbm bandwidth").get_by_role("button", name="apply").wait_for()
    both = tab.page.locator(".advice tr", has_text="fp8 weights, keys and values")
    both.get_by_role("button", name="apply").click()
    tab.page.locator(".diff", has_text="faster").wait_for()
    narrow = serve_bound("llama-3-70b", "decode", **MODEL, weights="fp8", kv="fp8")
    assert tab.text("#lower") == format_quantity(narrow.lower, "s")
    fields = tab.page.evaluate(FIELDS)  # they say what the command line says
    formats = {"weights": "fp8", "keys and values": "fp8", "arithmetic": ""}
    assert {**fields, **formats, "more options, as on the command line": ""} == fields
    assert "fp8 weights, keys and values: " in tab.text(".diff")
    said_nothing(tab, explorer)


def test_a_machine_that_does_not_fit_is_not_the_cheapest_and_a_page_is_found_as_it_was_left(
    tab: Tab, explorer: str
) -> None:
    asked = {"model": "llama-3-70b", "on": "h100:8,h200:8", "tensor": "8", "batch": "300", "context": "8192"}
    shown(tab, f"{explorer}#/model?{urlencode(asked)}", "section[aria-label='Machines side by side']")
    beside = tab.page.locator("section[aria-label='Machines side by side']")
    box, rows = beside.bounding_box(), beside.inner_text()
    assert box["y"] + box["height"] < 720, "machines side by side stand above the fold"
    hatched = [each.text_content() for each in tab.page.locator("rect.zone.full title").all()]
    assert hatched == ["does not fit on h100:8"] * 2, "in the picture and in its key"
    assert "does not fit" in rows
    wide = "[...document.querySelectorAll('.beside .scroll')].map((each) => [each.scrollWidth, each.clientWidth])"
    assert all(whole <= room for whole, room in tab.page.evaluate(wide)), "no column is cut off"
    assert "decode at batch 300, context 8,192, at the floor" in rows
    assert "prices: the catalog's “on demand”" in rows
    assert "cheapest" in rows.partition("h200:8")[2]
    assert "cheapest" not in rows.partition("h200:8")[0]
    assert "is cheaper than" not in rows
    needs = serve_bound("llama-3-70b", "decode", on="h100:8", tensor=8, batch=300, context=8192).footprint
    assert needs is not None
    too_much = format_quantity(needs.total - (needs.capacity or 0), "B")
    said = tab.text(".answer")
    assert f"DOES NOT FIT: each chip needs {format_quantity(needs.total, 'B')}, {too_much} more than the" in said
    assert "no cost of a million tokens where it does not fit" in said
    tab.page.locator("svg text.over", has_text=f"{too_much} too much").wait_for()
    tab.page.get_by_role("link", name="Chips").click()
    tab.page.wait_for_selector("main table")
    tab.page.get_by_role("button", name="bandwidth").click()  # the largest figure first, names from A on
    assert "wse-3" in tab.text(".chips-table tbody tr")
    tab.page.get_by_role("button", name="chip", exact=True).click()
    assert "910b" in tab.text(".chips-table tbody tr")
    tab.page.get_by_role("link", name="Model").click()
    tab.page.wait_for_selector("#lower")
    assert tab.page.get_by_label("batch", exact=True).first.input_value() == "300"
    said_nothing(tab, explorer)


@pytest.mark.parametrize(
    ("page", "selector", "words"),
    some(
        [
            ("chips?pick=h100,mi300x&filter=mi3", "svg[role=img]", "h100 bf16 989 TFLOP/s"),
            ("sharding", "#asked", "AllGather"),
            ("operation?line=bf16%5BB%2C+D%5D+*+bf16%5BD&on=h100", "[role=alert]", "^"),
            ("plan", "#asked", "chunks"),
            *([("training", "#lower", "a step")] if LONG else []),
        ],
        2,
    ),
)
def test_pages_load(tab: Tab, explorer: str, page: str, selector: str, words: str) -> None:
    shown(tab, f"{explorer}#/{page}", selector)
    assert words in tab.text("main")
    assert tab.said == []


@pytest.mark.long
def test_what_is_wrong_stands_above_the_catalog(tab: Tab, explorer: str) -> None:
    shown(tab, f"{explorer}#/chips?pick=h100&set=nonsense", "[role=alert]")
    assert tab.page.locator("[role=alert]").bounding_box()["y"] < 200


def test_where_measured_points_lose_time(tab: Tab, explorer: str, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("name,dtype,flops,bytes,seconds\nfast,bf16,9e11,1e9,0.001\n<b>slow</b>,bf16,1e9,3e9,0.01\n")
    tab.page.goto(f"{explorer}#/measured")
    tab.page.get_by_label("file of measured points").set_input_files(str(path))
    tab.page.locator(".drop [role=status]", has_text="Which chip did it run on?").wait_for()
    chip = tab.page.get_by_label("the chip that it ran on")
    chip.fill("h100")
    chip.press("Enter")
    tab.page.wait_for_selector("section[aria-label='Time lost']")
    assert "<b>slow</b> loses most: 9.11 ms of its 10 ms" in tab.text("section[aria-label='Time lost']")
    said_nothing(tab, explorer)


def test_names_of_strangers_stay_text_in_every_field(tab: Tab, explorer: str) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>" + "y" * 500 + "模型"
    shown(tab, f"{explorer}#/model?model={quote(name)}&on=h100&context=8", "[role=alert]")
    assert "<script>alert(1)" in tab.text("[role=alert]")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert tab.page.locator("main img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"] if LONG else ["dark"])
@pytest.mark.parametrize("width", [390, 768, 1920] if LONG else [390])
def test_nothing_scrolls_sideways(tab: Tab, explorer: str, width: int, theme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 844})
    tab.page.emulate_media(color_scheme=theme)
    shown(tab, explorer)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    box = tab.page.locator("#lower").bounding_box()
    assert box["y"] + box["height"] < 844, "the answer stands above the fold"
    assert tab.page.locator(".knob .figure", has_text="TB/s").is_visible(), "a rate has its unit"
    tab.page.wait_for_selector(".advice td")
    beyond = "(([each]) => each.scrollWidth - each.clientWidth)(document.querySelectorAll('.advice .scroll'))"
    assert tab.page.evaluate(beyond) == 0, "a reason stands below its row, and its button beside it"
    more = ("model", "training", "plan", "sharding", "chips?pick=h100,a100") if LONG else ()
    for page in ("measured", *more):
        shown(tab, f"{explorer}#/{page}", "main[aria-busy=false]")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page


@pytest.mark.skipif(not LONG, reason="pages are held against the rules of axe-core in the long tests")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "page", ["operation", "model", "training", "plan", "sharding", "measured", "chips?pick=h100,a100"]
)
def test_axe_finds_nothing_serious(browser: Any, explorer: str, page: str, theme: str) -> None:
    rules = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not rules.exists():
        pytest.skip("axe-core is not there: run make web")
    tab = Tab(browser, bypass_csp=True, color_scheme=theme)
    shown(tab, f"{explorer}#/{page}", "main[aria-busy=false]")
    tab.page.add_script_tag(path=str(rules))
    found = tab.page.evaluate("axe.run()")["violations"]
    serious = [
        (each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    tab.context.close()


@pytest.mark.skipif(not LONG, reason="fifty states of the server are asked in the long tests")
def test_numbers_on_screen_are_those_of_the_core(tab: Tab, explorer: str) -> None:
    dice = random.Random(3)
    shown(tab, f"{explorer}#/operation?{urlencode({'line': LINE, 'on': 'v5e', 'sizes': 'B=64 D=8192 F=8192'})}")
    took: list[float] = []
    for _ in range(50):
        sizes = {name: dice.randint(1, 30_000) for name in "BDF"}
        for name, value in sizes.items():
            box = tab.page.get_by_label(f"{name}, exactly")
            box.fill(str(value))
            start = tab.worked()
            box.press("Enter")
            took.append(tab.worked() - start)
        assert tab.text("#lower") == format_quantity(bound(LINE, on="v5e", **sizes).lower, "s")
    assert sorted(took)[len(took) // 2] < 0.15


# The server, without a browser.


def ask(explorer: str, path: str, body: str | bytes | None = None, **headers: str) -> tuple[int, str]:
    at = urlsplit(explorer)
    with closing(http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)) as link:
        link.request("GET" if body is None else "POST", path, body, {"Host": at.netloc, **headers})
        found = link.getresponse()
        return found.status, found.read().decode()


def question(words: list[str], **options: Any) -> str:
    return json.dumps({"words": words, "options": options})


def test_the_server_answers_what_json_gives_and_refuses_others(explorer: str) -> None:
    root = urlsplit(explorer).path
    good = question([LINE, "B=64", "D=64", "F=64"], on="v5e")
    status, said = ask(explorer, f"{root}api/bound", good)
    fresh = bound(LINE, on="v5e", B=64, D=64, F=64).to_dict()
    assert (status, json.loads(said)["lower"]) == (200, fresh["lower"])
    refused = {
        "wrong token": ask(explorer, "/nonsense/api/bound", good),
        "wrong host": ask(explorer, f"{root}api/bound", good, Host="evil.example"),
        "wrong origin": ask(explorer, f"{root}api/bound", good, Origin="http://evil.example"),
        "too long": ask(explorer, f"{root}api/bound", b"x" * 2_000_000),
        "JSON object": ask(explorer, f"{root}api/bound", "[1]"),
        "cannot ask 'measure'": ask(explorer, f"{root}api/measure", "{}"),
        "cannot ask 'trace'": ask(explorer, f"{root}api/trace", question(["x.py:f"])),
        "no option --chart": ask(explorer, f"{root}api/profile", question(["x.csv"], chart="x.svg")),
        "no option -o": ask(explorer, f"{root}api/bound", json.dumps({"words": [LINE], "more": "-o /tmp/x.html"})),
        "expected ','": ask(explorer, f"{root}api/bound", question(["bf16[B"], on="v5e")),
    }
    for reason, (status, said) in refused.items():
        assert status in (400, 403, 413, 421, 422), reason
        assert reason in json.loads(said)["error"]


def test_a_page_runs_its_own_script_alone(explorer: str) -> None:
    at = urlsplit(explorer)
    for path in (at.path, f"{at.path}explorer.js", "/nonsense/"):
        with closing(http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)) as link:
            link.request("GET", path, headers={"Host": at.netloc})
            headers = link.getresponse().headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"


def test_a_worker_that_takes_too_long_is_ended_and_others_go_on() -> None:
    async def both() -> Any:
        workers = Workers("time:sleep", 2, limit=0.7)
        try:
            long = asyncio.ensure_future(workers.ask(60))
            await asyncio.sleep(0)  # it is asked, within that limit
            workers.limit = 60.0
            return await asyncio.gather(long, workers.ask(0.01), workers.ask(0.02), return_exceptions=True)
        finally:
            workers.close()

    with ThreadPoolExecutor(1) as beside:  # the browser's driver has a loop in this thread
        long, *short = beside.submit(asyncio.run, both()).result()
    assert isinstance(long, TookTooLong)
    assert short == [None, None]


@pytest.mark.skipif(not LONG, reason="a plan that runs into the limit is asked in the long tests")
def test_a_long_question_is_stopped_while_another_is_answered() -> None:
    with exploring(limit=20) as address:
        ask_a_long_and_a_short_question(address)


def ask_a_long_and_a_short_question(explorer: str) -> None:
    root = urlsplit(explorer).path
    long = question(
        ["llama-3-70b"],
        on="h100,h200,b200",
        rate="50/s",
        prompt="8k",
        output="2k",
        count="1:512",
        formats="bf16,fp8,int4",
    )
    found: list[tuple[int, str]] = []
    asking = threading.Thread(target=lambda: found.append(ask(explorer, f"{root}api/plan", long)))
    asking.start()
    start = time.perf_counter()
    status, _ = ask(explorer, f"{root}api/bound", question([LINE, "B=64", "D=64", "F=64"], on="v5e"))
    assert status == 200
    assert time.perf_counter() - start < 19
    asking.join(90)
    if found[0][0] != 200:  # a fast machine answers in time
        assert found[0][0] == 504
        assert "was stopped" in json.loads(found[0][1])["error"]


def test_every_command_that_a_page_may_ask_has_one_road() -> None:
    assert command_words("llm", {"words": ["llama-3-8b"], "options": {"on": ["h100"], "batch": 8, "fit": True}}) == [
        "llm", "llama-3-8b", "--on", "h100", "--batch", "8", "--fit",
    ]  # fmt: skip
    catalog = answer_question("catalog", "", {})
    assert set(catalog["commands"]) == set(ASKED)
    named = {each["name"] for command in catalog["commands"].values() for each in command["options"]}
    assert not named & {"report_file", "file", "chart", "csv_file", "scheduler"}
    asked = {
        "words": ["llama-3-8b"],
        "options": {"on": ["h100"], "count": "1", "rate": "1/s", "prompt": 64, "output": 8},
    }
    assert "--formats bf16" in str(answer_question("page", "plan", asked)["sections"])  # options as beside a command
    with pytest.raises(InputError, match="did you mean '--batch'"):
        command_words("llm", {"words": ["llama-3-8b"], "options": {"batc": 8}})
    with pytest.raises(InputError, match="an option stands among the words"):
        command_words("bound", {"words": ["--on"]})
    with pytest.raises(InputError, match=r"options of a question are .*; by name"):
        command_words("bound", {"words": [], "options": ["on"]})
