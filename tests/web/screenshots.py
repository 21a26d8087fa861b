"""Screenshots of every page in use, to be looked at: ``python -m tests.web.screenshots FOLDER [NAME …]``.

Each state of a page is drawn in both themes at 390, 768, 1280 and 1920 px: hovered, pinned, dragged, with wrong input,
long names, a thousand operations. What can be seen without eyes is printed: a page that scrolls sideways, an answer
below the fold, words of the console.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from playwright.sync_api import sync_playwright

from roofline import bound
from roofline.cli import main
from tests.web.conftest import CHROMIUM, Tab, exploring

SIZES = ((390, 844), (768, 1024), (1280, 720), (1920, 1080))
TALLEST = 3600
LINE = "bf16[B, D] * bf16[D, F]"
LONG_NAME = "<script>alert(1)</script>" + "y" * 500 + "模型"

Act = Callable[[Any], None]
MODEL = {"model": "llama-3-70b", "on": "h200:8", "tensor": "8", "batch": "64", "prompt": "2048", "context": "8192"}


def fill(label: str, text: str) -> Act:
    """Type into a field and enter it."""

    def act(page: Any) -> None:
        page.get_by_label(label).first.fill(text)
        page.get_by_label(label).first.press("Enter")

    return act


def hover(which: str, x: float = 0.45, y: float = 0.5) -> Act:
    """Put the pointer into the picture of a chart."""

    def act(page: Any) -> None:
        chart = page.locator(which).locator("svg[role=img]").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    return act


def click(selector: str) -> Act:
    return lambda page: page.locator(selector).first.click()


def measured(rows: list[str]) -> Act:
    """Give a file of measured points."""

    def act(page: Any) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("\n".join(["name,dtype,flops,bytes,seconds", *rows]))
            file.flush()
            page.get_by_label("file of measured points").set_input_files(file.name)
            page.wait_for_timeout(500)

    return act


POINTS = [
    f"layer{i}.{'x' * (i % 40)},bf16,{1e9 * (i + 1)},{1e7 * (i % 13 + 1)},{1e-5 * (i % 17 + 1)}" for i in range(1000)
]
FEW = ["fast,bf16,9e11,1e9,0.001", "<b>slow</b>,bf16,1e9,3e9,0.01", f"{LONG_NAME},bf16,1e10,1e9,0.002"]

#: States of the explorer: the address, what is done once, and what is done at each size and theme.
STATES: dict[str, tuple[str, list[Act], list[Act]]] = {
    "operation": ("operation", [], [hover("section.chart >> nth=0")]),
    "operation-dragged": ("operation", [fill("B, exactly", "900"), fill("W_hbm, exactly", "8T")], [hover("section.chart >> nth=1", 0.6)]),
    "operation-several": (f"operation?{urlencode({'line': f'x = {LINE}; softmax(x)', 'on': 'h100,mi300x,v5e', 'sizes': 'B=64 D=8192 F=8192'})}", [], []),
    "operation-wrong": (f"operation?{urlencode({'line': 'bf16[B, D] * bf16[D', 'on': 'h100'})}", [], []),
    "operation-wrong-size": ("operation", [fill("B, exactly", "nonsense"), fill("chips to compare", "h10")], []),
    "operation-long": (f"operation?{urlencode({'line': 'bf16[' + 'B' * 300 + ', D] * bf16[D, F]', 'on': 'h100', 'sizes': 'B' * 300 + '=64 D=64 F=64'})}", [], []),
    "model": (f"model?{urlencode(MODEL)}", [], [hover("section.chart >> nth=0", 0.85)]),
    "model-several": (f"model?{urlencode({**MODEL, 'on': 'h100:8,h200:8,mi300x:8'})}", [], []),
    "model-applied": (f"model?{urlencode(MODEL)}", [click(".advice tr:has-text('fp8 weights, keys') button")], []),
    "model-prefill": (f"model?{urlencode({**MODEL, '.step': 'prefill', 'estimate': '1'})}", [click("summary.leaf:has-text('mlp')"), click("button.leaf:has-text('up_proj')")], []),
    "model-misfit": (f"model?{urlencode({**MODEL, 'on': 'h100:8,h200:8', 'batch': '600'})}", [fill("price of h100:8", "2")], []),
    "model-wrong": (f"model?{urlencode({**MODEL, 'on': 'h2000:8'})}", [], []),
    "model-long": (f"model?{urlencode({**MODEL, 'model': LONG_NAME})}", [], []),
    "training": ("training", [], [hover("section.chart >> nth=0")]),
    "training-several": (f"training?{urlencode({'model': 'llama-3-8b', 'on': 'h100:64,h200:64', 'batch_tokens': '4M', 'sequence': '4096', 'tensor': '4', 'checkpoint': 'full', 'estimate': '1'})}", [], []),
    "plan": ("plan", [], [hover("section.chart", 0.5)]),
    "plan-wrong": (f"plan?{urlencode({'model': 'llama-3-8b', 'on': 'l4', 'rate': 'many', 'prompt': '1024', 'output': '128'})}", [], []),
    "sharding": ("sharding", [click(".chip >> nth=5")], []),
    "sharding-wrong": (f"sharding?{urlencode({'line': 'A[I_X, J] * B[J, K_Y]', 'on': 'h100', 'sizes': 'I=8192'})}", [], []),
    "measured": ("measured", [], []),
    "measured-no-chip": ("measured", [measured(FEW)], []),
    "measured-few": ("measured?on=h100", [measured(FEW)], [hover("section.chart", 0.4, 0.6)]),
    "measured-thousand": ("measured?on=h100", [measured(POINTS), click("section[aria-label='Time lost'] tbody tr >> nth=2")], []),
    "chips": ("chips", [], []),
    "chips-two": ("chips?pick=h100,mi300x&filter=mi3", [], [hover("section.chart", 0.6)]),
    "chips-own": (f"chips?pick=h100,h200,b200,mi300x,v5p,gaudi3&set={quote('hbm=4e12')}", [], []),
    "chips-wrong": ("chips?pick=h100&set=nonsense", [], []),
}  # fmt: skip

LLM = ["llm", "llama-3-70b", "--tensor", "8", "--batch", "64", "--prompt", "2k", "--context", "8k"]
SIZED = ["B=64", "D=8192", "F=8192"]

#: Reports, by the command that writes them.
REPORTS: dict[str, list[str]] = {
    "bound": ["bound", LINE, "--on", "h100", *SIZED],
    "bound-several": ["bound", f"x = {LINE}; softmax(x)", "--on", "h100,mi300x,v5e", *SIZED],
    "solve": ["solve", LINE, "--for", "B", "--on", "v5e", "D=4096", "F=4096"],
    "sweep": ["sweep", LINE, "--on", "h100,h200", "B=1:512", "D=8192", "F=8192"],
    "plot": ["plot", LINE, "--on", "h100", "--on", "mi300x", *SIZED],
    "plot-time": ["plot", LINE, "--on", "h100", "--kind", "time", "--vary", "B=1:4096", "D=8192", "F=8192"],
    "llm": [*LLM, "--on", "h200:8", "--estimate"],
    "llm-several": [*LLM, "--on", "h100:8,h200:8"],
    "train": ["train", "llama-3-8b", "--on", "h100:64", "--batch-tokens", "4M", "--tensor", "4"],
    "shard": ["shard", "A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", "--on", "v5e:4x4", "I=8192", "J=8192", "K=8192"],
    "trace": ["trace", "docs/examples/cnns.py:mobilenet", "--input", "fp32[1, 3, 224, 224]", "--on", "1080ti"],
    "profile": ["profile", "docs/examples/profile.csv", "--on", "docs/examples/measured.toml#this"],
    "plan": ["plan", "llama-3-70b", "--on", "h100,h200", "--count", "2,4,8", "--rate", "12/s", "--prompt", "2048", "--output", "256",
             "--ttft", "500ms", "--tpot", "30ms", "--prices", "h100=2.5,h200=3.1", "--formats", "fp8"],
    "comm": ["comm", "AllReduce_X(bf16[B, D] {U_X})", "--on", "v5e:8", "B=512", "D=8192"],
    "formula": ["formula", "llama-3-70b", "--phase", "decode", "--on", "h200:8", "--tensor", "8", "--batch", "64", "--context", "8192"],
    "chips": ["chips", "h100", "h200"],
    "advise": ["advise", LINE, "--on", "h100", *SIZED],
    "scaling": ["scaling", "fsdp", "--on", "v5p"],
    "layout": ["layout", "A[I_X, J_Y]", "--on", "v5e:4x4", "I=64", "J=64"],
    "model": ["model", "llama-3-70b"],
    "accuracy": ["accuracy", "h100"],
}  # fmt: skip


def draw(tab: Tab, folder: Path, name: str, acts: list[Act]) -> None:
    """A page at every size in both themes, and what is wrong that needs no eyes."""
    for theme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=theme)
        for width, height in SIZES:
            tab.page.set_viewport_size({"width": width, "height": height})
            tab.page.wait_for_timeout(150)
            for act in acts:
                act(tab.page)
            tab.page.wait_for_timeout(50)
            wide, tall = tab.page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            if wide > width:
                print(f"SIDEWAYS {name} at {width}: {wide}")
            least = tab.page.evaluate(
                "(document.querySelector('#lower')?.getBoundingClientRect().bottom ?? 0) + scrollY"
            )
            if least > height and width in (390, 1280):
                print(f"BELOW THE FOLD {name} at {width}: {least:.0f}")
            tab.page.screenshot(
                path=folder / f"{name}.{theme}.{width}.png", full_page=True,
                clip={"x": 0, "y": 0, "width": width, "height": min(tall, TALLEST)},
            )  # fmt: skip
    if tab.said:
        print(f"CONSOLE {name}: {tab.said[:3]}")
    tab.said.clear()


def run(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver, exploring(limit=240) as address:
        tab = Tab(driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]))
        for name, (at, once, each) in STATES.items():
            if wanted and name not in wanted:
                continue
            tab.page.set_viewport_size({"width": 1280, "height": 720})
            tab.page.goto("about:blank")
            tab.page.goto(f"{address}#/{at}")
            for act in [None, *once]:
                if act is not None:
                    act(tab.page)
                tab.page.wait_for_timeout(900)  # a field that was entered begins to ask
                tab.page.wait_for_selector("main[aria-busy=false]")
            draw(tab, folder, name, each)
        reports = {f"report-{name}": words for name, words in REPORTS.items()}
        for name, words in {**reports, "report-thousand": []}.items():
            if wanted and name not in wanted:
                continue
            path = folder / f"{name}.html"
            if words:
                with redirect_stdout(StringIO()):
                    main([*words, "-o", str(path)])
            else:
                line = "; ".join(f"h{i} = bf16[B{'x' * 60}{i % 5}, D] * bf16[D, F]" for i in range(1000))
                sizes = {f"B{'x' * 60}{i}": 64 for i in range(5)}
                bound(line, on="h100", sizes={**sizes, "D": 64, "F": 64}).save(path)
            tab.page.goto(path.resolve().as_uri())
            draw(tab, folder, name, [])
            if name == "report-thousand":  # its title scrolls
                tab.page.evaluate("document.querySelector('h1').scrollTop = 1e6")
                draw(tab, folder, f"{name}-scrolled", [])


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
