"""Reports: the page's functions give what a fresh answer gives; it opens in a browser, asks for nothing, shows numbers.

Node and Chromium are used where they are found; elsewhere the tests that need them say what was not run.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline import bound, compare, estimated, llm, plot, solve, sweep
from roofline.charts.chart import Chart
from roofline.charts.specification import Axis, Point, Scale
from roofline.cli import main
from roofline.errors import InputError
from roofline.models import serve_bound
from roofline.models.serving.answer import serve
from roofline.models.serving.generation import generation
from roofline.models.training import train
from roofline.quantity import format_percent, format_quantity
from roofline.web.report import live_steps, page_of, report
from tests.rendering.test_data_frames import EVERY_ANSWER
from tests.strategies import some
from tests.web.conftest import Tab

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="the page's functions were not run: install node")

LONG = os.environ.get("ROOFLINE_LONG") == "1"
LINE = "bf16[B, D] * int8[D, F]"

#: Move a slider, and wait until the answer is drawn; the argument says which of twenty moves it is.
MOVE = """async (i) => {
  const slider = document.querySelector("input[type=range][aria-label=batch]");
  const was = document.querySelector("#lower").textContent;
  slider.value = String(500 + 20 * (i % 2 ? i : -i));
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  while (document.querySelector("#lower").textContent === was) await new Promise((done) => setTimeout(done, 0));
}"""

#: Move the slider of the length of an answer; the number of tokens that it then says.
LENGTH = """async (notch) => {
  const slider = document.querySelector("input[aria-label='tokens of an answer']");
  slider.value = String(notch);
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  await new Promise((done) => setTimeout(done, 100));
  return slider.parentElement.textContent.replace(/\\D/g, "");
}"""
SIZES = {"B": 64, "D": 8192, "F": 8192}
LAYOUT: dict[str, Any] = {"on": "h200:8", "tensor": 8}


@pytest.fixture(scope="module")
def of_a_line() -> str:
    return report(bound(LINE, on="v5e", **SIZES))


@pytest.fixture(scope="module")
def of_a_model() -> str:
    return report(serve("llama-3-70b", batch=64, prompt=2048, context=8192, **LAYOUT))


def functions(page: str) -> str:
    """The script of the page's own functions."""
    found = re.search(r"<script>(window\.ROOFLINE = .*?)</script>", page, re.DOTALL)
    assert found is not None
    return found[1]


def in_node(page: str, step: int, states: list[dict[str, float]]) -> list[dict[str, float]]:
    """What the functions give for states of the sliders."""
    program = (
        f"const window = {{}}; {functions(page)}\nconst f = window.ROOFLINE[{step}], states = {json.dumps(states)};"
    )
    program += "console.log(JSON.stringify(states.map((s) => ({...f.time(s), parts: f.parts({...REST, ...s})}))));"
    rest = {rate["name"]: rate["value"] for rate in embedded(page)["steps"][step]["rates"]}
    done = subprocess.run(
        [str(NODE), "-e", f"const REST = {json.dumps(rest)};{program}"], capture_output=True, text=True, check=True
    )
    found: list[dict[str, float]] = json.loads(done.stdout)
    return found


def embedded(page: str) -> dict[str, Any]:
    found = re.search(r'id="page">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@needs_node
def test_a_slider_of_a_line_gives_a_fresh_answer(of_a_line: str) -> None:
    dice = random.Random(7)
    states: list[dict[str, float]] = [
        {name: dice.randint(1, 20000) for name in SIZES} for _ in range(150 if LONG else 40)
    ]
    states += [
        {**SIZES, "W_hbm": dice.uniform(1e11, 1e13), "P_bf16": dice.uniform(1e13, 1e15)}
        for _ in range(50 if LONG else 10)
    ]
    for state, found in zip(states, in_node(of_a_line, 0, states), strict=True):
        changed = {"hbm": state.get("W_hbm", 8.19e11), "mxu.bf16": state.get("P_bf16", 197e12)}
        fresh = bound(LINE, on="v5e", sizes={name: state[name] for name in SIZES}, set=changed)
        for name in ("lower", "op_by_op", "upper"):
            assert found[name] == pytest.approx(getattr(fresh, name), rel=1e-12)
        assert found["memory"] == fresh.footprint.total  # type: ignore[union-attr]
        parts: Any = found["parts"]
        assert sum(parts[1]) == pytest.approx(fresh.times["hbm"], rel=1e-12)


@needs_node
def test_a_label_may_be_a_word_of_the_language() -> None:
    sizes = {"B": 64, "in": 512, "max": 128}
    answer = bound("bf16[B, in] * bf16[in, max]", on="h100", sizes=sizes)
    [found] = in_node(report(answer), 0, [sizes])
    space: dict[str, Any] = {}
    exec(answer.formula().printed("python"), space)
    assert found["lower"] == space["bound"](B=64, in_=512, max_=128)["lower"] == pytest.approx(answer.lower)


@needs_node
def test_a_slider_of_a_model_gives_a_fresh_answer(of_a_model: str) -> None:
    dice = random.Random(11)
    states: list[dict[str, float]] = [
        {"batch": dice.randint(1, 512), "context": dice.randint(0, 131071)} for _ in range(200 if LONG else 10)
    ]
    for state, found in zip(states, in_node(of_a_model, 0, states), strict=True):
        fresh = serve_bound("llama-3-70b", "decode", **LAYOUT, **state)
        for name in ("lower", "op_by_op", "upper"):
            assert found[name] == pytest.approx(getattr(fresh, name), rel=1e-12)
        assert found["memory"] == pytest.approx(fresh.footprint.total, rel=1e-12)  # type: ignore[union-attr]


@needs_node
def test_a_slider_of_training_gives_a_fresh_answer() -> None:
    layout: dict[str, Any] = {"on": "h100:64", "tensor": 4, "checkpoint": "full"}
    page = report(train("llama-3-8b", batch_tokens=2**22, sequence=4096, **layout))
    dice = random.Random(13)
    states: list[dict[str, float]] = [
        {"batch_tokens": 2048 * dice.randint(64, 4096), "sequence": 2 ** dice.randint(9, 12)}
        for _ in range(200 if LONG else 3)
    ]
    for state, found in zip(states, in_node(page, 0, states), strict=True):
        fresh = train("llama-3-8b", **layout, **state)
        for name in ("lower", "op_by_op", "upper"):
            assert found[name] == pytest.approx(getattr(fresh, name), rel=1e-12)
        assert found["memory"] == pytest.approx(fresh.memory.total, rel=1e-12)


def test_what_is_expected_of_a_step_stands_on_its_page() -> None:
    trained = estimated(train("llama-3-8b", on="h100:64", batch_tokens=2**20, tensor=4))
    (step,) = page_of([(trained, None, None)])["steps"]
    assert step["on"] == "h100:64"
    assert step["expected"]["value"] == trained.expectation.value > trained.bound.lower
    unknown = estimated(serve("llama-3-8b", on="gaudi3", batch=8, context=512))
    assert [step["expected"] for step in page_of([(unknown, None, None)])["steps"]] == [None]


@needs_node
def test_rates_of_a_model_give_a_fresh_answer(of_a_model: str) -> None:
    """Bandwidth, peak and link: each moved figure is one that ``set`` takes."""
    rates = {rate["name"]: rate for rate in embedded(of_a_model)["steps"][0]["rates"]}
    dice = random.Random(17)
    for _ in range(40 if LONG else 4):
        state = {n: r["value"] * 10 ** dice.uniform(-0.9, 0.9) for n, r in rates.items() if r["figure"]}
        moved = {rates[name]["figure"]: value for name, value in state.items()}
        fresh = serve_bound("llama-3-70b", "decode", batch=64, context=8192, set=moved, **LAYOUT)
        (found,) = in_node(of_a_model, 0, [{"batch": 64, "context": 8192, **state}])
        assert found["lower"] == pytest.approx(fresh.lower, rel=1e-12)
        assert found["upper"] == pytest.approx(fresh.upper, rel=1e-12)


def opened(tab: Tab, page: str, folder: Path, state: str = "") -> str:
    """The text of the page that Chromium shows of a file, with the network off; the console has nothing to say."""
    path = folder / "report.html"
    path.write_text(page)
    tab.context.set_offline(True)
    tab.page.goto(f"{path.as_uri()}{state}")
    assert tab.said == []
    assert [each for each in tab.asked if not each.startswith("file:")] == []
    return tab.text("body")


def test_the_page_shows_the_answer_and_says_nothing_to_the_console(tab: Tab, of_a_model: str, tmp_path: Path) -> None:
    shown = opened(tab, of_a_model, tmp_path, "#batch=200&W_hbm=8e12")
    fresh = serve_bound("llama-3-70b", "decode", batch=200, context=8192, set={"hbm": 8e12}, **LAYOUT)
    assert tab.text("#lower") == format_quantity(fresh.lower, "s")
    assert "moved: batch 64 → 200, W_hbm 4.8 TB/s → 8 TB/s" in shown
    assert "mostly weights below batch = 52" in shown
    assert "bytes of embed_tokens, input_layernorm" in shown
    assert "self_attn" in shown
    names = tab.page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(set(names)) == len(names)
    ticks = [each.text_content() for each in tab.page.locator("section.chart").first.locator("g.tick text").all()]
    assert not [tick for tick in ticks if tick and "FLOP" in tick], "the unit of a rate stands at its axis"
    hop = tab.page.get_by_label("L_nvlink, exactly")
    assert hop.input_value() == "600", "a latency is moved in nanoseconds"
    hop.fill("1200")
    hop.press("Enter")
    assert "L_nvlink 600 ns a hop → 1.2 µs a hop" in tab.text(".answer")
    hop.fill("600")
    hop.press("Enter")
    whole = generation("llama-3-70b", batch=200, prompt=2048, output=256, set={"hbm": 8e12}, **LAYOUT)
    assert tab.text("#whole") == format_quantity(whole.total, "s")
    for notch in (0, 4.5, 11) if LONG else (4.5,):
        many = int(tab.page.evaluate(LENGTH, notch))
        whole = generation("llama-3-70b", batch=200, prompt=2048, output=many, set={"hbm": 8e12}, **LAYOUT)
        shown_seconds = float(str(tab.page.locator("#whole").get_attribute("data-seconds")))
        assert shown_seconds == pytest.approx(whole.total, rel=1e-12)
    took = []
    for i in range(1, 21 if LONG else 3):
        start = tab.worked()
        tab.page.evaluate(MOVE, i)
        took.append(tab.worked() - start)
    if LONG:  # a time depends on what else the machine does
        assert sorted(took)[len(took) // 2] < 0.05, "a slider moves the answer at once"


def test_a_size_that_chips_share_moves_by_whole_shares_and_no_other_has_figures(tab: Tab, tmp_path: Path) -> None:
    line, sizes = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", {"B": 5000, "F": 13040}
    opened(tab, report(bound(line, on="v5e:8", D=136, **sizes)), tmp_path, "#D=100")
    said = tab.text(".answer")
    assert "D is no multiple of the 8 chips" in said
    assert not re.search("fits|binds|NaN", said)
    moved = "(at) => { at.value = 480; at.dispatchEvent(new Event('input', {bubbles: true})); }"
    tab.page.get_by_label("D", exact=True).evaluate(moved)
    size = int(tab.page.get_by_label("D, exactly").input_value())
    fresh = bound(line, on="v5e:8", D=size, **sizes)
    assert tab.text("#lower") == format_quantity(fresh.lower, "s")
    assert "ici X binds from D = 264 on" in tab.text(".answer")
    assert tab.said == []


#: The bars of a page: of each resource its name, its figure and its part of the longest; those of tables; the text.
BARS = """() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const width = (bar) => all("i", bar).reduce((sum, part) => sum + parseFloat(part.style.width), 0);
  const terms = all(".term").map((term) => [".name", ".figure"].map((name) => term.querySelector(name).textContent)
    .concat(width(term.querySelector(".bar"))));
  return [terms, all("meter").map((meter) => meter.value), document.body.innerText];
}"""

#: Answers whose time is hops, links or several machines', beside those of every kind.
OF_SEVERAL_CHIPS = {
    "hops": lambda: bound("AllReduce_X(bf16[N])", on="h100:8", mesh={"X": 8}, N=1000),
    "hops beside memory": lambda: llm("llama-3-8b", on="h100:8", tensor=8, batch=32, context=8192),
    "experts, side by side": lambda: llm("mixtral-8x7b", on="h100:8,h200:8", tensor=8, expert=8, batch=8, context=512),
    "stages": lambda: train("llama-3-8b", on="h100:64", batch_tokens=2**20, tensor=4, pipeline=2),
}


def test_bars_of_pages_of_every_kind_are_the_times_of_the_answers(tab: Tab, tmp_path: Path) -> None:
    moving: list[Any] = []
    still: list[Any] = []
    for ask in {**EVERY_ANSWER, **OF_SEVERAL_CHIPS}.values():
        answer = ask()
        (moving if live_steps(answer) else still).append(answer)
    for page in ([*still], *([each] for each in some(moving, 6))):
        opened(tab, report(*page), tmp_path)
        terms, shares, said = tab.page.evaluate(BARS)
        assert not re.findall(r".*(?:∞|\b(?:NaN|undefined|Infinity)).*", said)
        assert all(0 <= share <= 1 for share in shares)
        step = next(iter(live_steps(page[0])), None)
        values = {} if step is None else step.formula.values()
        times = {name.removeprefix("time."): time for name, time in values.items() if name.startswith("time.")}
        if step is not None and step.bound is not None:
            busy = {name: time for name, time in step.bound.times.items() if time}
            assert {name: time for name, time in times.items() if time} == pytest.approx(busy)
        longest = max(times.values(), default=0)
        waits = values.get("lower", longest) - longest
        times |= {"waiting": waits} if waits > 1e-6 * longest else {}
        assert len(terms) == len(times)
        for (name, figure, width), (resource, time) in zip(terms, times.items(), strict=True):
            assert name == resource + " (binds)" * (time == longest)
            assert figure == f"{format_quantity(time, 's')} · {format_percent(time / values['lower'])}"
            assert width == pytest.approx(100 * time / max(longest, waits), abs=1e-3)
    assert len(moving) >= 8


#: Of machines side by side each row's name, its time and whether it is starred, and its cost.
RANKED = """() => [...document.querySelectorAll("section.beside tbody tr")].map((row) => {
  const cells = [...row.children].map((cell) => cell.textContent);
  return [cells[0], cells[1].includes("★"), cells[1].startsWith("≥"), cells[6].includes("cheapest"), cells[4]];
})"""


@pytest.mark.long
def test_a_page_ranks_machines_as_their_answer_does(tab: Tab, tmp_path: Path) -> None:
    """What does not fit, cannot be run or is timed in part is neither starred nor the cheapest."""
    part: dict[str, Any] = {"tensor": 8, "batch": 32, "context": 4000}
    for answer in some([
        llm("mixtral-8x7b", on="b200:8,mi355x:8", **part), llm("mixtral-8x7b", on="h100:8,mi355x:8", **part),
        roofline.train("llama-3-8b", on="h100:64,h100:2048", batch_tokens=4e6),
        llm("llama-3-70b", on="h100,b300", context=4000),
        llm(["llama-3-70b", "llama-3-8b"], on="h100:8,h200:8", tensor=8, context=4000),
    ], 2):  # fmt: skip
        opened(tab, report(answer), tmp_path)
        rows, parts = tab.page.evaluate(RANKED), list(getattr(answer, "parts", {"": answer}).values())
        verdicts = tab.page.locator("section.card").first.locator(".verdict").all_inner_texts()
        for part, verdict in zip(parts, verdicts, strict=True):
            assert verdict.removeprefix("llama-3-70b: ").removeprefix("llama-3-8b: ").startswith(str(part.fastest))
            assert "timed whole" in verdict or not part.may_be_beaten(part.headline)
        assert tuple(name for name, star, *_ in rows if star) == answer.best(answer.headline)
        assert [is_partial for _, _, is_partial, *_ in rows] == [bool(gaps) for gaps in answer.untimed]
        cheapest = {name.partition(" ")[0] for name, *_, is_cheapest, _ in rows if is_cheapest}
        assert cheapest <= {part.fastest for part in parts}
        for (*_, memory), obstacle in zip(rows, answer.obstacles, strict=True):
            assert memory.endswith(obstacle.said if obstacle else "B")


#: Go from point to point of the first chart, and what is read of each.
READ_ALL = """async () => {
  const chart = document.querySelector("section.chart svg[role=img]"), found = [];
  for (let i = 0; i < MANY; i++) {
    chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}));
    await new Promise((done) => setTimeout(done, 0));
    found.push(document.querySelector(".read").textContent);
  }
  return found;
}"""


def test_numbers_of_a_page_are_written_as_in_a_terminal(tab: Tab, tmp_path: Path) -> None:
    """Units, prefixes, ties between two roundings, long times, shares: one way to write, in two languages."""
    dice = random.Random(23)
    values = [1125.0, 8_125_000.0, 6.25, 999.5, 9995.0, 999_999.0, 119.6, 7200.0, 1e20, 1e30, 3e-18, 1.0, 5e-9]
    values += [10 ** dice.uniform(-16, 24) for _ in range(300 if LONG else 12)]
    scale: Scale = "log"
    for across, up in (("s", "B/s"), ("FLOP/B", "FLOP/s"), ("B", "s")):
        shares = [dice.choice([1 / 16, 1 / 32, 0.125, 0.135, 0.9996, 5.1e-9, dice.random()]) for _ in values]
        points = [
            Point(str(i), x, x, roof=x / share, kind="measured")
            for i, (x, share) in enumerate(zip(values, shares, strict=True))
        ]
        x, y = (Axis("many", unit, scale, (1e-19, 1e31)) for unit in (across, up))
        opened(tab, report(Chart(kind="time", title="numbers", x=x, y=y, marks=tuple(points))), tmp_path)
        read = tab.page.evaluate(READ_ALL.replace("MANY", str(len(values))))
        for i, (value, share) in enumerate(zip(values, shares, strict=True)):
            said = f"{i} · {format_quantity(value, across)}, {format_quantity(value, up)} · "
            assert read[i].startswith(said + f"{format_percent(value / (value / share))} of the roof"), read[i]


@pytest.mark.parametrize(
    ("line", "formats"),
    [
        ("x = bf16[B, D] * bf16[D, F]; y = fp8[B, D] * fp8[D, F]", "bf16 and fp8 peaks"),
        ("x = bf16[B, D] * bf16[D, F]; softmax(x)", "bf16 peak"),
        ("softmax(fp32[B, F])", "fp32 peak"),
    ],
)
def test_a_page_says_of_which_peak_a_share_is(tab: Tab, tmp_path: Path, line: str, formats: str) -> None:
    sizes = {"B": 64, "D": 16, "F": 8192}
    asked = bound(line, on="h100", sizes={name: size for name, size in sizes.items() if name in line})
    said = opened(tab, report(asked), tmp_path)
    assert asked.utilisation is not None
    assert f", {format_percent(asked.utilisation)} of the {formats}" in said
    assert f"against a ridge of {format_quantity(asked.critical_intensity, 'FLOP/B')}" in said


#: Names in the picture of a chart that stand on each other or outside, names of lines that stand on a line.
COVERED = """(which) => {
  const svg = document.querySelectorAll("section.chart svg[role=img]")[which], whole = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text.beside, text.end")];
  const boxes = texts.map((each) => [each.textContent, each.getBoundingClientRect(), each.style.fill]);
  const points = [...svg.querySelectorAll("path.curve")].flatMap((path) => {
    const at = path.getScreenCTM(), long = path.getTotalLength();
    return Array.from({length: Math.ceil(long / 3)}, (_, i) => path.getPointAtLength(3 * i).matrixTransform(at));
  });
  const on = (box) => points.some((p) => p.x > box.left && p.x < box.right && p.y > box.top + 4 && p.y < box.bottom);
  const over = (a, b) => a.left < b.right && a.right > b.left
    && a.top + 3 < b.bottom && a.bottom > b.top + 3;
  const bad = ([, box, color], i) => (color && on(box)) || box.right > whole.right + 1
    || boxes.some(([, other], k) => k !== i && over(box, other));
  const ticks = [...svg.querySelectorAll(".tick text")]
    .filter((each) => each.getBoundingClientRect().right > whole.right);
  return [boxes.length, [...boxes.filter(bad).map(([text]) => text), ...ticks.map((each) => each.textContent)]];
}"""


#: Whether every picture has the width that the window leaves it.
RESIZED = """() => {
  const width = Math.max(300, Math.min(1120, document.documentElement.clientWidth - 62));
  const all = [...document.querySelectorAll("section.chart svg[role=img]")];
  return all.length > 0 && all.every((svg) => svg.viewBox.baseVal.width === width);
}"""


def test_names_in_a_picture_cover_no_line_and_no_other(tab: Tab, tmp_path: Path) -> None:
    """As many names as have room are there: of two chips, and of two operations on two chips."""
    two = plot(on=["h100", "mi300x"])
    four = plot("x = bf16[64, 8192] * bf16[8192, 8192]; softmax(x)", on=["h100", "v5e"])
    opened(tab, report(two, four), tmp_path)
    for width, least in ((390, 1), (768, 4), (1280, 4)):
        tab.page.set_viewport_size({"width": width, "height": 844})
        tab.page.wait_for_function(RESIZED)
        for which in (0, 1):
            many, covered = tab.page.evaluate(COVERED, which)
            assert covered == [], (width, which)
            assert many >= least, (width, which)


def test_an_option_and_a_figure_with_its_unit_stand_on_one_line_each(tab: Tab, tmp_path: Path) -> None:
    asked = "plan llama-3-8b --on h100 --count 1 --rate 4/s --prompt 1024 --output 128 --tpot 30ms --formats bf16"
    assert main([*asked.split(), "-o", str(tmp_path / "plan.html")]) == 0
    tab.page.set_viewport_size({"width": 390, "height": 844})
    opened(tab, (tmp_path / "plan.html").read_text(), tmp_path)
    parts = (
        "[...document.querySelectorAll('.said .whole')].map((each) => [each.innerText, each.getClientRects().length])"
    )
    shown = dict(tab.page.evaluate(parts))
    assert {"--price", "--estimate"} <= {*shown}
    assert {*shown.values()} == {1}
    bold = tab.page.evaluate(
        "[...document.querySelectorAll('.said')].map((p) => Number(getComputedStyle(p).fontWeight))"
    )
    assert [weight > 500 for weight in bold[:2]] == [True, False]


def test_names_of_strangers_stay_text(tab: Tab, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}
    fields |= {
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "_name_or_path": "</script><script>alert(1)</script>" + "x" * 500 + "模型",
    }
    from roofline.models.config import load

    shown = opened(tab, report(serve(load(fields), batch=2, context=8, on="h100")), tmp_path)
    assert "</script><script>alert(1)" in shown
    assert "at best" in shown
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ({"on": "h100"}, ""),
        ({"on": "h100:8", "tensor": 8}, "one copy of the model, split over 8 chips"),
        ({"on": "h100:8"}, "8 copies of the model, one on each chip; the batch is spread"),
        ({"on": "h100:8", "tensor": 2}, "4 copies of the model, each split over 2 chips; the batch is spread"),
    ],
)  # fmt: skip
def test_a_page_says_how_a_model_lies_on_its_chips(split: dict[str, Any], said: str) -> None:
    (step,) = page_of([(serve("llama-3-8b", batch=8, context=512, **split), None, None)], "live")["steps"]
    assert step["spread"].removesuffix(" over the copies") == said


def test_the_page_asks_for_nothing_and_is_small(of_a_line: str, of_a_model: str) -> None:
    for page in (of_a_line, of_a_model):
        assert len(page.encode()) < 400_000
        assert "default-src 'none'" in page
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)


def test_a_page_of_many_sizes_is_small_and_leaves_their_data_to_a_file(tmp_path: Path) -> None:
    few, many = (llm("llama-3-8b", on="h100", batch=range(1, most), context=8192) for most in (9, 513))
    assert page_of([(few, None, None)])["answer"] is not None
    assert page_of([(many, None, None)])["answer"] is None
    many.save(tmp_path / "many.html")
    assert (tmp_path / "many.html").stat().st_size < 300_000


def test_a_page_of_several_sizes_has_curves_of_its_time() -> None:
    beside = llm("llama-3-8b", on=["h100", "h200"], batch=[1, 8, 64], context=8192)
    steps = sweep("llama-3-8b", on="h100", batch=[1, 8, 64], context=[64, 128])
    for answer in (beside, steps):
        (chart,) = page_of([(answer, None, None)])["charts"]
        assert (chart["kind"], len([mark for mark in chart["marks"] if mark["mark"] == "line"])) == ("time", 2)


@pytest.mark.parametrize(
    ("sizes", "kinds"), [((64, 256), ["throughput"]), ((64, 96, 128, 256), ["heatmap", "throughput"])]
)
def test_a_page_of_a_table_over_two_sizes_has_a_heat_map(sizes: Sequence[int], kinds: list[str]) -> None:
    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[8, 64, 512, 4096, 8192], D=list(sizes), F="D")
    charts = page_of([(table, None, None)])["charts"]
    assert [chart["kind"] for chart in charts] == kinds
    cells = [mark for chart in charts for mark in chart["marks"] if mark["mark"] == "cell"]
    assert all(cell["figure"] in cell["label"] for cell in cells)


def test_the_key_of_a_chart_says_the_peak_once_with_its_figure(tab: Tab, tmp_path: Path) -> None:
    sizes = {"B": range(1, 512, 10), "D": 4096, "F": 4096}
    opened(tab, report(plot(LINE, on="v5e", vary="B", sizes=sizes, kind="throughput")), tmp_path)
    assert tab.page.locator(".key").last.inner_text() == "peak mxu bf16 197 TFLOP/s"


def test_a_heat_map_of_a_page_is_read_by_pointer_and_by_keys(tab: Tab, tmp_path: Path) -> None:
    table = sweep("llama-3-8b", on="h100", batch=[1, 8, 64, 512], context=[1024, 4096, 16384, 65536])
    opened(tab, report(table), tmp_path)
    chart = tab.page.locator(".chart")
    assert chart.locator("rect.cell").count() == 16 + 6  # what does not fit is hatched over its colour
    assert chart.locator(".key").last.inner_text() == "does not fit"
    picture = chart.locator("svg[role=img]")
    box = picture.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 30)
    assert chart.locator(".read").inner_text().startswith("batch = 512, context = 65,536: ")
    tab.page.mouse.move(0, 0)
    picture.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        tab.page.keyboard.press(key)
    assert chart.locator(".read").inner_text().startswith("batch = 8, context = 4,096: ")
    chart.get_by_role("button", name="table").click()
    assert chart.locator("tbody tr").count() == 4
    assert not tab.said


def test_answers_without_a_closed_form_stand_as_they_are(tmp_path: Path) -> None:
    several = report(serve("llama-3-8b", batch=8, prompt=[64, 128], on="h100"))
    assert embedded(several)["steps"] == []
    assert embedded(several)["sections"]
    of_open_sizes = report(bound(flops="2*B*h", bytes="4*h", dtype="fp16", on="a100", B=8))
    assert [step["operations"] for step in embedded(of_open_sizes)["steps"]] == [[]]
    with pytest.raises(InputError, match=r"end the name in \.html, \.json"):
        bound(LINE, on="v5e", **SIZES).save(tmp_path / "answer.doc")


@pytest.mark.parametrize(
    "words",
    some(
        [
            ["bound", LINE, "--on", "v5e", "B=64", "D=64", "F=64"],
            ["bound", LINE, "--on", "v5e,h100", "B=64", "D=64", "F=64"],
            ["llm", "llama-3-8b", "--on", "h100,h200", "--context", "8k"],
            ["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "64k"],
            ["solve", LINE, "--for", "B", "--on", "v5e", "D=64", "F=64"],
            ["sweep", LINE, "--on", "v5e", "B=1,2", "D=64", "F=64"],
            ["plot", LINE, "--on", "v5e", "B=64", "D=64", "F=64"],
            ["shard", "A[I_X, J] * B[J, K] -> C[I_X, K]", "--on", "v5e:4x4", "I=64", "J=64", "K=64"],
            ["comm", "allreduce", "--bytes", "1e9", "--on", "h100:8"],
            ["chips", "h100", "h200"],
        ],
        2,
    ),
)
def test_commands_write_reports(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "-o", str(tmp_path / "x.html")]) == 0
    page = embedded((tmp_path / "x.html").read_text())
    lacks = "" if page["steps"] else ": no sliders; a page of one question with a bound has them"
    said = capsys.readouterr().out
    assert said.endswith(f"wrote {tmp_path}/x.html{lacks}\n")
    assert (words[0] in ("plot", "chips")) == said.startswith("wrote")
    assert (words[0] in ("bound", "llm", "train")) <= bool(page["steps"])
    assert page["command"] == words
    assert page["sections"] or page["charts"]
    assert page["title"] not in ("", "roofline")


@pytest.mark.parametrize("batches", [[8], [8, 64]])
def test_a_page_of_several_rows_has_no_one_expected_time(batches: list[int]) -> None:
    """The table holds what is expected of each; sliders give bounds."""
    line = bound("bf16[B, D] * bf16[D, F]", on="h100", B=batches, D=64, F=64, estimate=True)
    amounts = bound(flops=[1e12 * each for each in batches], bytes=1e9, dtype="bf16", on="h100", estimate=True)
    for answer in (line, amounts):
        assert all(step["expected"] is None for step in embedded(report(answer))["steps"])


def test_what_is_copied_as_python_asks_the_same(tab: Tab, tmp_path: Path) -> None:
    line = "bf16[批, D_X] * bf16[D_X, F] -> bf16[批, F]"
    of_sizes = ["D=64", "F=64", "--for", "批", "--no-wrap", "--on=v5e", "--mesh", "X=4", "--set", "hbm=4e11,bf16=1e14"]
    for words, compared in (
        (["solve", line, *of_sizes], ("set", "value", "assumptions")),
        (["comm", "allreduce", "--bytes", "28GB, 14GB", "--on", "h100:8"], ("names", "best")),
        (["solve", "--for", "intensity", "--on", "v5e", "--bandwidth", "4e11"], ("ridges", "bandwidths")),
    ):
        assert main([*words, "-o", str(tmp_path / "asked.html")]) == 0
        page = (tmp_path / "asked.html").read_text(encoding="utf-8")
        opened(tab, page, tmp_path)
        taken = "{value: {writeText: (text) => window.copied = text}}"
        tab.page.evaluate(f"Object.defineProperty(navigator, 'clipboard', {taken})")
        tab.page.get_by_text("copy as Python").click()
        space: dict[str, Any] = {}
        exec(tab.page.evaluate("window.copied"), space)
        data, shown = space["answer"].to_dict(), embedded(page)["answer"]
        assert all(data[name] == shown[name] for name in compared)


def test_a_solution_moves_and_stands_at_what_was_found() -> None:
    found = solve(LINE, "B", on="v5e", D=4096, F=4096)
    page = embedded(report(found))
    [step] = page["steps"]
    assert {size["name"]: size["value"] for size in step["sizes"]} == {"B": found.pick, "D": 4096, "F": 4096}
    assert page["answer"]["unknown"] == "B"
    assert [chart["kind"] for chart in page["charts"]] == ["time"]


def test_machines_side_by_side_have_their_pictures_each() -> None:
    several = compare(*(serve("llama-3-8b", on=chip, batch=8, prompt=64, context=512) for chip in ("h100", "h200")))
    drawn = [(chart["on"], chart["kind"], chart.get("step")) for chart in embedded(report(several))["charts"]]
    for machine in ("h100", "h200"):
        assert [rest for on, *rest in drawn if on == machine] == [
            ["roofline", "prefill"], ["roofline", "decode"], ["bars", ""],
        ]  # fmt: skip
    rows = embedded(report(sweep(LINE, on=["v5e", "v5p"], B=list(range(1, 200)), D=64, F=64)))
    assert [chart["kind"] for chart in rows["charts"]] == ["throughput"]
    assert [len(each["rows"]) for each in rows["sections"] if "rows" in each] == [150]
    assert rows["title"] == "bf16[B, 64] * int8[64, 64] -> bf16[B, 64]"


def test_a_measurement_is_a_report_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roofline").mkdir()
    shutil.copy(Path(__file__).parents[2] / "docs" / "examples" / "measured.toml", tmp_path / "roofline" / "this.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["measure", "--show", "-o", str(tmp_path / "x.html")]) == 0
    page = embedded((tmp_path / "x.html").read_text())
    assert {chart["kind"] for chart in page["charts"]} >= {"roofline"}
    assert page["sections"]


def test_the_bundle_is_what_its_sources_give(tmp_path: Path) -> None:
    web = Path(__file__).parents[2] / "web"
    built = web / "node_modules" / ".bin" / "esbuild"
    if not built.exists():
        pytest.skip("the bundle was not rebuilt: run make web")
    command = json.loads((web / "package.json").read_text())["scripts"]["build"].split()
    words = [word for word in command[1:] if not word.startswith("--outdir")]
    subprocess.run([built, *words, f"--outdir={tmp_path}"], cwd=web, check=True, capture_output=True)
    committed = Path(__file__).parents[2] / "src" / "roofline" / "web"
    for name in ("report.js", "explorer.js"):
        assert (tmp_path / name).read_text() == (committed / name).read_text()


def test_powers_are_raised_whatever_their_exponent(tab: Tab, tmp_path: Path) -> None:
    """Experts that a batch touches are a power of it; two numbers in a product have a sign between."""
    path = tmp_path / "mixture.html"
    path.write_text(report(serve("deepseek-v3", on="h200:8", tensor=8, expert=8, batch=64, context=4096)))
    tab.page.goto(path.as_uri())
    formula = tab.page.locator(".formula:has(sup)").first
    assert formula.locator("sup").first.inner_text() == "batch"
    assert "2554954752\u2009·\u20090.96875batch" in formula.inner_text()


@pytest.mark.parametrize("schedule", some(["gpipe", "1f1b", "zb-h1", "zb-h2"], 4))
def test_a_page_of_a_pipeline_asks_again_with_other_microbatches(schedule: str) -> None:
    asked: dict[str, Any] = {"on": "v5p:4x4x4", "batch_tokens": 4e6, "fsdp": 16, "pipeline": 4, "schedule": schedule}
    (step,) = live_steps(train("llama-3-8b", **asked, microbatches=8))
    numbers = [1, 3, 32]
    found = step.formula(microbatches=numbers)
    for at, number in enumerate(numbers):
        alone = train("llama-3-8b", **asked, microbatches=number)
        assert found["lower"][at] == pytest.approx(alone.lower)
        assert found["memory"][at] == pytest.approx(alone.memory.total)


def test_a_page_of_an_interleaved_pipeline_keeps_its_microbatches() -> None:
    split: dict[str, Any] = {"fsdp": 16, "pipeline": 4, "schedule": "interleaved", "chunks": 4}
    (step,) = live_steps(train("llama-3-8b", on="v5p:4x4x4", batch_tokens=4e6, microbatches=8, **split))
    assert "microbatches" not in step.formula.sizes


@pytest.mark.long
def test_what_a_stage_waits_stands_among_the_times_of_resources(tab: Tab, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"on": "v5p:4x4x4", "batch_tokens": 4e6, "fsdp": 16, "pipeline": 4, "microbatches": 4}
    opened(tab, report(train("llama-3-8b", **asked)), tmp_path)
    rows = tab.page.locator("section[aria-label='Time on each resource'] summary")
    assert re.split(r"\s+", rows.last.inner_text()) == ["waiting", "4.66", "s", "·", "37%"]
    slider = tab.page.locator("input[type=range][aria-label=microbatches]")
    slider.press("End")
    slider.press("Home")
    assert "waiting 18.6 s · 70%" in " ".join(rows.last.inner_text().split())
    if LONG:
        opened(tab, report(train("llama-3-8b", on="v5p:4x4x4", batch_tokens=4e6)), tmp_path)
        assert "waiting" not in "".join(rows.all_inner_texts())


def test_an_arrow_stays_whole_and_a_path_breaks_behind_its_slashes(tab: Tab, tmp_path: Path) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    opened(tab, report(solve("bf16[B, D] * bf16[D, F] -> bf16[B, F]", "B", on="h100", D=4096, F=4096)), tmp_path)
    assert tab.page.locator("h1 .whole").all_inner_texts() == ["->"]
    assert "->" in tab.text("h1")
    source = tab.page.locator("section[aria-label='Time on each resource'] p.quiet").first
    assert re.search(r"\S{24,}", source.inner_text())
    assert "/<wbr>" in source.inner_html()


@pytest.mark.long
def test_a_figure_at_the_line_of_what_there_is_stands_behind_it(tab: Tab, tmp_path: Path) -> None:
    opened(tab, report(train("llama-3-8b", on="h100:64", batch_tokens="4M", tensor=4)), tmp_path)
    for width in (390, 768, 1280):
        tab.page.set_viewport_size({"width": width, "height": 844})
        tab.page.wait_for_timeout(60)
        memory = tab.page.locator("section.chart:has(.capacity)").first
        line = memory.locator(".capacity line").bounding_box()
        for figure in memory.locator("text.end").all():
            box = figure.bounding_box()
            assert line is not None
            assert box is not None
            assert not box["x"] < line["x"] < box["x"] + box["width"], width


def test_a_page_of_many_sizes_is_as_large_as_any_other() -> None:
    """Curves have as many points as the page can show; a long table is no data of it, one of a few rows is."""
    usual = len(report(bound(LINE, on="v5e", B=64, D=8192, F=8192)))
    chart = plot(LINE, on="v5e", vary="B", sizes={"B": range(1, 8_001), "D": 4096, "F": 4096}, kind="time")
    table = sweep(LINE, on="v5e", B=range(1, 8_001), D=64, F=64)
    for answer in (chart, table):
        assert len(report(answer)) < 2 * usual
    drawn = embedded(report(chart))["charts"][0]
    lines = {mark["label"]: mark for mark in drawn["marks"] if mark["mark"] == "line"}
    for line in chart.lines:  # each knee, and both ends
        shown = lines[line.label]["x"]
        assert (shown[0], shown[-1]) == (line.x[0], line.x[-1])
        assert {ridge.x for ridge in chart.ridges} & set(line.x) <= set(shown)
        assert max(lines[line.label]["y"]) == max(line.y)
    assert embedded(report(table))["answer"] is None
    few = sweep(LINE, on="v5e", B=[1, 8], D=64, F=64)
    assert embedded(report(few))["answer"]["columns"]["B"] == [1, 8]


def test_a_page_has_the_prices_that_were_asked() -> None:
    """A price of one's own gave way to the catalog's, so that page and terminal told two costs."""
    for price, each in (({"h100": 2, "mi300x": 1.5}, [2, 1.5]), ("table", [2.69, None]), (3, [3, 3])):
        found = llm("llama-3-8b", on=["h100:8", "mi300x:8"], tensor=8, context=4096, price=price)
        steps = page_of([(found, None, None)])["steps"]
        assert [step["prices"].get("on demand", {}).get("value") for step in steps] == each


def test_the_key_names_a_roof_once_with_its_figures(tab: Tab, tmp_path: Path) -> None:
    opened(tab, report(bound(LINE, on="h100", B=64, D=8192, F=8192)), tmp_path)
    key = tab.page.locator("section.chart .key", has_text="h100")
    assert key.all_inner_texts() == ["h100 hbm 3.35 TB/s, bf16 989 TFLOP/s"]
    beside = roofline.llm("llama-3-8b", on="h100,h200", batch=[1, 8], context=512)
    opened(tab, report(beside), tmp_path)
    assert "a token at best" not in tab.page.locator("[aria-label=Answer]").inner_text()
    assert tab.page.locator("#asked").inner_text().startswith("a token at best\n")  # a table's title stands above it


@pytest.mark.long
def test_words_of_the_last_of_many_columns_are_seen_on_a_phone(tab: Tab, tmp_path: Path) -> None:
    found = roofline.plan("llama-3-8b", on="h100", count=[1, 2], rate=2, prompt=1024, output=128, prices={"h100": 2.0})
    tab.page.set_viewport_size({"width": 390, "height": 844})
    opened(tab, report(found), tmp_path)
    words = tab.page.locator("tr.below td > span").first
    box = words.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    tab.page.set_viewport_size({"width": 1280, "height": 844})
    words.wait_for(state="detached")
