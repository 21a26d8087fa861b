"""Pages in use: the whole way by keyboard, text that stays while it is typed, ten thousand points, pins, the mesh."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from roofline import bound
from roofline.charts.chart import Chart
from roofline.charts.specification import Line, Point, log_axis
from roofline.quantity import format_quantity, parse
from roofline.web.report import report
from tests.web.conftest import Tab
from tests.web.test_states import settled

LONG = os.environ.get("ROOFLINE_LONG") == "1"
LINE = "bf16[B, D] * bf16[D, F]"

#: What has the focus: its name, and whether a ring shows it.
FOCUS = """() => {
  const it = document.activeElement;
  const said = it.getAttribute("aria-label") || it.labels?.[0]?.textContent || it.textContent;
  return [said.trim().slice(0, 90), getComputedStyle(it).outlineStyle !== "none"];
}"""


def test_the_whole_way_by_keyboard(tab: Tab, explorer: str) -> None:
    asked = urlencode({"line": LINE, "on": "v5e", "sizes": "B=64 D=8192 F=8192"})
    tab.page.goto(f"{explorer}#/operation?{asked}")
    settled(tab)
    tab.page.get_by_role("button", name="apply").first.wait_for()
    seen: list[str] = []
    for _ in range(90):
        tab.page.keyboard.press("Tab")
        name, ring = tab.page.evaluate(FOCUS)
        assert ring, f"{name} shows no ring"
        seen.append(name)
        if name == "the answer as JSON":
            break
    for name in ("Operation", "Chips", "line of notation", "chips to compare", "sizes", "B", "B, exactly", "W_hbm",
                 "what the chart shows", "size of the chart", "x log", "table", "save this chart", "apply",
                 "The whole answer", "copy link", "copy as command line", "the answer as JSON"):  # fmt: skip
        assert any(each.startswith(name) for each in seen), f"Tab does not reach {name}"
    assert any(each.startswith("time over B; a table is behind") for each in seen)
    slider = tab.page.get_by_label("B", exact=True)
    slider.focus()
    was = tab.text("#lower")
    for _ in range(3):
        tab.page.keyboard.press("PageUp")
    tab.page.wait_for_function("was => document.querySelector('#lower').textContent !== was", arg=was)
    chart = tab.page.locator("section.chart svg[role=img]").last
    chart.focus()
    tab.page.keyboard.press("+")
    tab.page.get_by_role("button", name="reset zoom").first.wait_for()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Escape")
    assert tab.page.get_by_role("button", name="reset zoom").count() == 0
    tab.page.get_by_role("button", name="table", exact=True).last.focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("section.chart table").first.wait_for()
    tab.page.get_by_label("line of notation").focus()
    tab.page.keyboard.press("Control+a")
    tab.page.keyboard.type("bf16[B, D] * int8[D, F]")
    tab.page.keyboard.press("Enter")
    tab.page.locator("h1", has_text="int8").wait_for()
    assert tab.said == []


MOVE = """name => { const it = document.querySelector(`input[type=range][aria-label=${name}]`);
  it.value = String(Number(it.value) + 7); it.dispatchEvent(new Event("input", {bubbles: true})); }"""


@pytest.mark.skipif(not LONG, reason="text is typed while answers come in the long tests")
def test_text_stays_while_it_is_typed(tab: Tab, explorer: str) -> None:
    """A slider that moves, and an answer that comes, meanwhile draw the page anew."""
    asked = urlencode({"model": "llama-3-8b", "on": "h100,h200", "batch": "8", "context": "4096", "prompt": "64"})
    tab.page.goto(f"{explorer}#/model?{asked}")
    settled(tab)
    typed = {
        "price of h200": ("2", ".75"), "price of a chip for an hour": ("3", ".5"), "batch, exactly": ("1", "00"),
        "chips × count, to compare": ("h1", "00,h200:2"),
    }  # fmt: skip
    for label, (first, rest) in typed.items():
        box = tab.page.get_by_label(label, exact=not label.startswith("chips"))
        box.click()
        tab.page.keyboard.press("Control+a")
        tab.page.keyboard.type(first)
        tab.page.evaluate(MOVE, "context")
        tab.page.wait_for_timeout(100)
        assert box.input_value() == first, label
        tab.page.wait_for_timeout(900 if label.startswith("chips") else 0)
        tab.page.keyboard.type(rest)
        assert box.input_value() == first + rest, label
        tab.page.keyboard.press("Enter")
    settled(tab)
    assert tab.page.get_by_label("h200", exact=False).and_(tab.page.get_by_label("price of")).input_value() == "2.75"
    box = tab.page.get_by_label("price of a chip for an hour", exact=True)
    box.fill("a lot")
    box.press("Enter")
    assert "is no price" in tab.text("[role=alert]")
    tab.page.goto(f"{explorer}#/chips?pick=h100,h200")
    box = tab.page.get_by_label("figures of your own")
    box.click()
    tab.page.keyboard.type("hbm=")
    tab.page.locator("section.chart").wait_for()
    tab.page.keyboard.type("9e12")
    assert box.input_value() == "hbm=9e12"
    tab.page.keyboard.press("Enter")
    tab.page.locator("td", has_text="yours").first.wait_for()
    assert "9 TB/s" in tab.text("td:has-text('yours')")
    assert tab.said == []


def a_cloud(many: int) -> Chart:
    """Points spread under a roof."""
    dice = random.Random(31)
    marks: list[Any] = [Line("h100 hbm", (0.1, 295.0), (3.35e11, 9.89e14), "slope", text="hbm")]
    for number in range(many):
        x = 10 ** dice.uniform(-1, 3)
        roof = min(9.89e14, 3.35e12 * x)
        y = roof * dice.uniform(0.05, 0.95)
        marks.append(Point(f"kernel{number}", x, y, roof=roof, kind="measured", shape=number, bound_by="hbm"))
    return Chart(
        kind="roofline", title="a cloud", x=log_axis("intensity", "FLOP/B", [0.1, 1e3], 1.0),
        y=log_axis("attained", "FLOP/s", [1e10, 1e15], 1.0), marks=tuple(marks),
    )  # fmt: skip


@pytest.mark.skipif(
    not LONG, reason="a time depends on what else the machine does: frames are counted in the long tests"
)
def test_ten_thousand_points_are_read_at_more_than_thirty_frames_a_second(tab: Tab, tmp_path: Path) -> None:
    path = tmp_path / "cloud.html"
    path.write_text(report(a_cloud(10_000)))
    tab.page.goto(path.as_uri())
    chart = tab.page.locator("svg[role=img]").first
    box = chart.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 90, box["y"] + 60)
    start, many, read = tab.worked(), 40, set()
    for step in range(many):
        tab.page.mouse.move(box["x"] + 100 + 15 * step, box["y"] + 80 + 4 * step)
        read.add(tab.text(".read"))
    assert (tab.worked() - start) / many < 1 / 30
    assert sum("kernel" in each for each in read) > many / 4
    assert len(read) > many / 2


def test_a_pin_is_marked_in_chart_and_table(tab: Tab, tmp_path: Path) -> None:
    from roofline.models.serving.answer import serve

    serve("llama-3-8b", on="h100", batch=8, context=4096).save(tmp_path / "x.html")
    tab.page.goto((tmp_path / "x.html").as_uri())
    assert tab.page.locator("[aria-label=key] button").all_inner_texts() == ["weights", "kv", "activations"]
    assert "hbm 84.9 GB" in str(tab.page.locator(".capacity text").text_content())
    tab.page.locator("summary.leaf", has_text="self_attn").click()
    tab.page.locator("button.leaf", has_text="attention").first.click()
    tab.page.locator("circle.told").wait_for()
    said = tab.page.locator("section.chart", has=tab.page.locator("circle.told")).locator(".read").inner_text()
    assert "attention" in said
    assert "time of keys and values = " in said
    tab.page.locator("section.chart", has=tab.page.locator("circle.told")).get_by_role("button", name="table").click()
    assert "attention" in tab.page.locator("tr.pinned").first.inner_text()
    assert tab.said == []


@pytest.mark.skipif(not LONG, reason="a chart is zoomed, dragged and saved in the long tests")
def test_a_chart_in_use(tab: Tab, tmp_path: Path) -> None:
    """Crosshair, pin, wheel, drag, double click, key, scales and files of the roofline of a report."""
    (tmp_path / "x.html").write_text(report(bound(LINE, on="h100", B=64, D=8192, F=8192)))
    tab.page.goto((tmp_path / "x.html").as_uri())
    card = tab.page.locator("section.chart").last
    card.scroll_into_view_if_needed()
    svg, read = card.locator("svg[role=img]"), card.locator(".read")
    box = svg.bounding_box()
    assert box is not None
    x, y, mouse = box["x"], box["y"], tab.page.mouse
    for across in (0.2, 0.5, 0.75):  # what the roof allows, where nothing is near
        mouse.move(x + across * box["width"], y + 0.85 * box["height"])
        said = re.fullmatch(r"at (.* k?)FLOP/B, attainable: h100 (.*FLOP/s)", read.inner_text())
        assert said is not None, read.inner_text()
        intensity, rate = parse(f"{said[1]}B", "B"), parse(said[2], "FLOP/s")
        assert rate == pytest.approx(min(989.4e12, 3.352e12 * intensity), rel=0.02)
    point = card.locator("path.spot").first.bounding_box()
    assert point is not None
    mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    card.locator("circle.told").wait_for()
    mouse.move(5, 5)
    assert "hbm binds" in read.inner_text()
    assert "time of weights = " in read.inner_text()
    zoomed = card.get_by_role("button", name="reset zoom")
    mouse.move(x + 0.4 * box["width"], y + 0.5 * box["height"])
    mouse.down()
    mouse.up()
    mouse.wheel(0, -200)
    zoomed.wait_for()
    svg.dblclick(position={"x": 0.3 * box["width"], "y": 0.8 * box["height"]})
    zoomed.wait_for(state="detached")
    mouse.move(x + 0.4 * box["width"], y + 0.5 * box["height"])
    mouse.down()
    mouse.move(x + 0.5 * box["width"], y + 0.6 * box["height"], steps=4)
    mouse.up()
    zoomed.click()
    zoomed.wait_for(state="detached")
    curves = card.locator("path.curve").count()
    card.locator(".legend button", has_text="h100 hbm").click()
    assert card.locator("path.curve").count() == curves - 2  # the key names a roof once, with all that is in its stroke
    card.get_by_role("button", name="x log").click()
    card.get_by_role("button", name="x linear").wait_for()
    begins = {"PNG": b"\x89PNG", "SVG": b"<svg", "CSV": b"mark,label,", "JSON": b"{"}
    for kind, first in begins.items():
        with tab.page.expect_download() as given:
            card.get_by_label("save this chart").select_option(kind)
        assert given.value.suggested_filename.endswith(f".{kind.lower()}")
        assert Path(given.value.path()).read_bytes().startswith(first)
    assert tab.said == []


def test_the_mesh_says_what_a_chip_holds(tab: Tab, explorer: str) -> None:
    tab.page.goto(f"{explorer}#/sharding")
    settled(tab)
    mesh = tab.page.locator("section.mesh svg")
    assert mesh.locator(".chip").count() == 16
    mesh.focus()
    tab.page.keyboard.press("ArrowRight")
    held = "chip X=1, Y=0 holds A[I 2,048 to 4,095, J] · B[J, K 0 to 2,047]"
    tab.page.locator("section.mesh .read", has_text=held).wait_for()
    assert tab.page.locator("[aria-label=key] button").all_inner_texts() == ["math", "memory", "network"]
    first = bound("A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", on="v5e:4x4", I=8192, J=8192, K=8192)
    bars = str(tab.page.locator("section.chart svg[role=img]").text_content())
    for time in (first.math, first.moving, first.comms):
        assert format_quantity(float(time), "s") in bars
    assert tab.said == []


def test_an_answer_is_interactive_in_a_frame_that_reaches_nothing(tab: Tab) -> None:
    shown = bound(LINE, on="v5e", B=64, D=8192, F=8192).interactive()._repr_html_()
    tab.page.set_content(f"<p>a notebook</p>{shown}")
    frame = tab.page.frame_locator("iframe")
    assert frame.locator("#lower").inner_text(timeout=20_000) == format_quantity(
        bound(LINE, on="v5e", B=64, D=8192, F=8192).lower, "s"
    )
    frame.get_by_label("B, exactly").fill("512")
    frame.get_by_label("B, exactly").press("Enter")
    fresh = bound(LINE, on="v5e", B=512, D=8192, F=8192)
    assert frame.locator("#lower").inner_text() == format_quantity(fresh.lower, "s")


def test_a_report_in_a_page_has_the_colours_of_the_page(tab: Tab) -> None:
    shown = bound(LINE, on="v5e", B=64, D=8192, F=8192).interactive()._repr_html_()
    script = (Path(__file__).parents[2] / "docs" / "_static" / "frames.js").read_text(encoding="utf-8")
    tab.page.set_content(f"<body data-theme='dark'><script>{script}</script><article>{shown}</article>")
    page = tab.page.frame_locator("iframe").locator("body")
    page.get_by_label("B, exactly").wait_for()
    for theme, colour in (("dark", "rgb(20, 22, 26)"), ("light", "rgb(244, 246, 248)"), ("auto", "rgb(244, 246, 248)")):
        tab.page.evaluate("(theme) => { document.body.dataset.theme = theme; }", theme)
        tab.page.wait_for_timeout(50)
        assert page.evaluate("(body) => getComputedStyle(body).backgroundColor") == colour, theme


@pytest.mark.skipif(not LONG, reason="the long tests look for what is wide")
def test_long_names_and_many_operations_stay_in_the_window(browser: Any, tmp_path: Path) -> None:
    line = "; ".join(f"h{i} = bf16[B{'x' * 60}{i % 5}, D] * bf16[D, F]" for i in range(1000))
    sizes = {f"B{'x' * 60}{i}": 64 for i in range(5)}
    path = tmp_path / "x.html"
    path.write_text(report(bound(line, on="h100", sizes={**sizes, "D": 64, "F": 64})))
    for width in (390, 1280):
        tab = Tab(browser, viewport={"width": width, "height": 844})
        tab.page.goto(path.as_uri())
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.said == []
        tab.context.close()
