"""Random states of every page: what stands on the screen is what ``--json`` says, and an address brings all of it back.

Fifty states of each page are asked under ROOFLINE_LONG=1, one of the model page without.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from roofline.cli.explore import answer_question
from roofline.quantity import format_quantity
from tests.web.conftest import Tab

LONG = os.environ.get("ROOFLINE_LONG") == "1"
LINE = "bf16[B, D] * bf16[D, F]"

State = dict[str, str]
#: Fields of a page, the question that they ask on a command line, and what of its JSON stands where on the screen.
Asked = tuple[State, str, list[str], dict[str, Any], Callable[[Any], dict[str, str]]]


def settled(tab: Tab, address: str = "") -> None:
    """Go to an address of the page that is open, and wait until its answer is there."""
    if address:
        tab.page.evaluate("to => new Promise((done) => { location.hash = to; setTimeout(done, 20); })", address)
    tab.page.wait_for_selector("main[aria-busy=false]")


def seconds(value: float) -> str:
    return format_quantity(value, "s")


def an_operation(dice: random.Random) -> Asked:
    sizes = [f"{name}={dice.randint(1, 30_000)}" for name in "BDF"]
    on = dice.choice(["h100", "v5e", "mi300x", "b200"])
    return (
        {"line": LINE, "on": on, "sizes": " ".join(sizes)},
        "bound", [LINE, *sizes], {"on": on}, lambda said: {"#lower": seconds(said["lower"])},
    )  # fmt: skip


def a_model(dice: random.Random) -> Asked:
    asked = {
        "on": dice.choice(["h100:8", "h200:8", "mi300x:8"]), "tensor": "8", "batch": str(dice.randint(1, 300)),
        "prompt": str(dice.randint(1, 8000)), "context": str(dice.randint(1, 8000)),
        "weights": dice.choice(["bf16", "fp8", "int4"]),
    }  # fmt: skip
    model, phase = dice.choice(["llama-3-70b", "llama-3-8b", "qwen3-32b"]), dice.choice(["prefill", "decode"])
    step = {".step": "prefill"} if phase == "prefill" else {}
    return ({"model": model, **asked, **step}, "llm", [model], asked, lambda s: {"#lower": seconds(s[phase]["lower"])})


MFU = "mfu"


def training(dice: random.Random) -> Asked:
    asked = {
        "on": dice.choice(["h100:64", "h200:32"]), "tensor": dice.choice(["1", "2", "8"]),
        "batch_tokens": str(4096 * dice.randint(64, 2048)), "sequence": "4096",
        "checkpoint": dice.choice(["none", "selective", "full"]),
    }  # fmt: skip
    return (
        {"model": "llama-3-8b", **asked}, "train", ["llama-3-8b"], asked,
        lambda said: {"#lower": seconds(said["step"]["lower"]), ".answer": f"MFU {said[MFU]:.1%} "},
    )  # fmt: skip


def a_plan(dice: random.Random) -> Asked:
    asked = {"on": "l4,h100", "rate": f"{dice.randint(1, 30)}/s", "prompt": str(dice.randint(100, 2000))}
    asked |= {"output": str(dice.randint(16, 400)), "prices": "l4=0.7,h100=2.5"}
    return (
        {"model": "llama-3-8b", **asked}, "plan", ["llama-3-8b"], {**asked, "prices": asked["prices"].split(",")},
        lambda said: {"#asked tbody tr": said["choices"][0]["deployment"],
                      "[aria-label=Answer]": "TPOT p95 " + seconds(said["choices"][0]["per_token"]["percentile"])},
    )  # fmt: skip


def a_sharded_line(dice: random.Random) -> Asked:
    line = dice.choice(["A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", "A[I, J_X] * B[J_X, K] -> C[I, K]"])
    sizes = [f"{name}={1024 * dice.randint(1, 32)}" for name in "IJK"]
    asked = {"on": dice.choice(["v5e:4x4", "v4:4x4", "v5p:8x4"])}
    return (
        {"line": line, "sizes": " ".join(sizes), **asked}, "shard", [line, *sizes], asked,
        lambda said: {"#asked tbody tr": seconds(said["plans"][0]["lower"]), "#asked": said["plans"][0]["name"]},
    )  # fmt: skip


def chips(dice: random.Random) -> Asked:
    pair = dice.sample(["h100", "h200", "mi300x", "b200", "v5e", "v5p", "a100"], 2)

    def shown(said: Any) -> dict[str, str]:
        main = said["chips"][0]["memories"][0]["capacity"]["value"]
        return {"section:has(> h2:has-text('Side by side'))": format_quantity(main, "B")}

    return {"pick": ",".join(pair)}, "chips", pair, {}, shown


PAGES: dict[str, Callable[[random.Random], Asked]] = {
    "operation": an_operation, "model": a_model, "training": training, "plan": a_plan, "sharding": a_sharded_line,
    "chips": chips,
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES if LONG else ["model"])
def test_what_a_page_shows_is_what_json_says(tab: Tab, explorer: str, page: str) -> None:
    dice = random.Random(f"states of {page}")
    tab.page.goto(f"{explorer}#/chips?filter=nothing" if page != "chips" else f"{explorer}#/chips?pick=l4,a100")
    settled(tab)
    for _ in range(50 if LONG else 1):
        state, command, words, options, shown = PAGES[page](dice)
        settled(tab, f"/{page}?{urlencode(state)}")
        said = answer_question("data", command, {"words": words, "options": options})
        for selector, text in shown(said["data"]).items():
            tab.page.locator(selector, has_text=text).first.wait_for(timeout=30_000)
    assert tab.said == []


@pytest.mark.skipif(not LONG, reason="fifty files of measured points are shown in the long tests")
def test_measured_points_are_those_of_json(tab: Tab, explorer: str, tmp_path: Path) -> None:
    dice = random.Random(29)
    tab.page.goto(f"{explorer}#/measured?on=h100")
    for number in range(50):
        path = tmp_path / f"points{number}.csv"
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["name", "dtype", "flops", "bytes", "seconds"])
            for k in range(dice.randint(2, 9)):
                flops, moved = 10 ** dice.uniform(8, 12), 10 ** dice.uniform(6, 10)
                roof = max(flops / 989.4e12, moved / 3.35e12)
                rows.writerow([f"kernel{number}_{k}", "bf16", flops, moved, roof * dice.uniform(1.1, 9)])
        tab.page.get_by_label("file of measured points").set_input_files(str(path))
        said = answer_question("data", "profile", {"words": [str(path)], "options": {"on": "h100"}})["data"]
        lost = {each["name"]: each["seconds"] * (1 - each["fraction"]) for each in said["points"]}
        name = max(lost, key=lambda each: lost[each])
        tab.page.locator("section[aria-label='Time lost']", has_text=f"{name} loses most: ").wait_for()
        assert seconds(lost[name]).split()[0][:3] in tab.text("section[aria-label='Time lost'] p")
    assert tab.said == []


#: What is set on a page of a model, each as one reads it off the page.
READ = """() => ({
  lower: document.querySelector("#lower").textContent, whole: document.querySelector("#whole")?.textContent,
  boxes: [...document.querySelectorAll(".knob input[type=text]")].map((each) => each.value),
  prices: [...document.querySelectorAll("input[aria-label^=price]")].map((each) => each.value),
  tabs: [...document.querySelectorAll(".tabs [aria-pressed=true]")].map((each) => each.textContent),
  chart: [...document.querySelectorAll(".chart h2 select")].map((each) => each.value),
  answers: document.querySelector("[aria-label='tokens of an answer']")?.value,
})"""


def move_everything(tab: Tab) -> dict[str, Any]:
    """Set each thing that an address keeps: sizes, rates, the phase, prices, the length of answers, the chart."""
    page = tab.page
    for name, value in (("batch, exactly", "200"), ("W_hbm, exactly", "8T")):
        page.get_by_label(name).fill(value)
        page.get_by_label(name).press("Enter")
    page.get_by_label("price of a chip for an hour").fill("4.25")
    page.get_by_label("price of a chip for an hour").press("Enter")
    page.get_by_label("tokens of an answer").focus()
    for _ in range(2):
        page.keyboard.press("PageUp")
    page.get_by_label("what the chart shows").select_option("throughput")
    page.get_by_role("button", name="prefill", exact=True).click()
    page.get_by_label("prompt, exactly").fill("3000")
    page.get_by_label("prompt, exactly").press("Enter")
    page.get_by_label("size of the chart").select_option("prompt")
    found: dict[str, Any] = page.evaluate(READ)
    assert "4.25" in found["prices"]
    assert found["answers"] != "8"
    assert found["chart"] == ["throughput", "prompt"]
    return found


@pytest.mark.skipif(not LONG, reason="a report's address is read back; the explorer's in the long tests")
def test_an_address_brings_everything_back(tab: Tab, explorer: str) -> None:
    asked = urlencode({"model": "llama-3-8b", "on": "h100", "batch": "8", "context": "4096", "prompt": "256"})
    tab.page.goto(f"{explorer}#/model?{asked}")
    settled(tab)
    was = move_everything(tab)
    link = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(link)
    settled(tab)
    assert tab.page.evaluate(READ) == was
    tab.page.goto(f"{explorer}#/sharding")
    settled(tab)
    tab.page.go_back()
    settled(tab)
    assert tab.page.evaluate(READ) == was
    assert tab.said == []


def test_an_address_brings_everything_of_a_report_back(tab: Tab, tmp_path: Path) -> None:
    from roofline.models.serving.answer import serve

    serve("llama-3-8b", on="h100", batch=8, prompt=256, context=4096).save(tmp_path / "x.html")
    tab.page.goto((tmp_path / "x.html").as_uri())
    was = move_everything(tab)
    link = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(link)
    assert tab.page.evaluate(READ) == was
    assert json.dumps(was)
