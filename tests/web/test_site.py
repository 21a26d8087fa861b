"""The finder of faults on the pages of the documentation finds each kind, and none on a page that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.conftest import Tab
from tests.web.site import FINDER, dead_links

CSS = (Path(__file__).parents[2] / "docs" / "_static" / "pages.css").read_text(encoding="utf-8")
PAGE = """<!doctype html><html lang="en"><title>t</title><meta name="viewport" content="width=device-width">
<body style="margin: 8px; font: 16px sans-serif"><article><h1>t</h1>{}</article></body></html>"""

FAULTS = {
    "the page scrolls sideways": "<div style='width: 900px'>wide</div>",
    "scrolls sideways": "<div style='overflow: auto'><div style='width: 900px'>wide</div></div>",
    "cut": "<div style='overflow: hidden; white-space: nowrap'>" + "words " * 99 + "</div>",
    "too little contrast": "<p style='color: #aaa'>faint</p>",
    "a word cut between its letters": "<dl><dt style='width: 3em; overflow-wrap: anywhere'>a.disaggregation</dt></dl>",
    "small letters": "<p style='font-size: 9px'>small</p>",
    "lies over other text": "<p>one</p><p style='margin-top: -34px'>two</p>",
    "too close for a finger": "<a href='#a'>a</a><br><a href='#b'>b</a>",
    "a picture that is not there": "<img src='data:,' alt='a'>",
    "a picture without words": "<img src='data:,'>",
    "a name given twice": "<p id='a'>a</p><p id='a'>b</p>",
    "a heading that skips a level": "<h3>deep</h3>",
    "a link without words": "<a href='#a'></a>",
}
FINE = """<h2>b</h2><p id="a">A sentence with <a href="#a">a link</a> in it, and <button>a button</button>.</p>
<dl><dt style="width: 4em; overflow-wrap: anywhere">two words.<wbr>serving</dt></dl>
<div style="overflow: auto; color: #fff; background: #333">light on dark</div>
<div style="position: fixed; left: -300px; width: 200px">a drawer beside the window</div>"""


def found(tab: Tab, body: str) -> set[str]:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.page.set_content(PAGE.replace("{}", body))
    tab.page.add_script_tag(path=FINDER)
    return {fault for fault, *_ in tab.page.evaluate("[...faults(), ...facts().faults]")}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_page_is_found(tab: Tab, fault: str) -> None:
    assert fault in found(tab, FAULTS[fault])


def test_a_page_without_faults_has_none(tab: Tab) -> None:
    assert found(tab, FINE) == set()


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").touch()
    (tmp_path / "b.html").touch()
    links = [
        "b.html#there",
        "b.html#gone",
        "c.html",
        "../b.html",
        "#top",
        "#bottom",
        "https://example.org",
        "tcp://host:1",
    ]
    facts = {"a.html": {"ids": ["top"], "links": links}, "b.html": {"ids": ["there"], "links": []}}
    dead = ["b.html#gone", "c.html", "../b.html", "#bottom", "tcp://host:1"]
    assert list(dead_links(tmp_path.resolve(), "a.html", facts)) == dead


def lines(tab: Tab, selector: str) -> int:
    """On how many lines a part of the page stands."""
    boxes = f"[...document.querySelectorAll('{selector}')].flatMap((part) => [...part.getClientRects()])"
    return int(tab.page.evaluate(f"new Set({boxes}.map((box) => Math.round(box.top))).size"))


@pytest.mark.parametrize(("names", "second"), [("", "AXIS=<wbr>SIZE,…"), ("<td><p>mesh</p></td>", "AXIS=SIZE,…")])
def test_an_option_of_a_table_stands_on_one_line(tab: Tab, names: str, second: str) -> None:
    """Also where the column of what it says would take its room."""
    words = " ".join(f"<span class=pre>{word}</span>" for word in ("--mesh", second))
    option = f'<code class="{"literal" if names else "long literal"}">{words}</code>'
    row = f"<tr>{names}<td><p>{option}</p></td><td></td><td><p>{'words ' * 99}</p></td></tr>"
    head = f"<tr>{'<th>argument</th>' if names else ''}<th>option</th><th>default</th><th>what it says</th></tr>"
    body = f'<style>{CSS}</style><article><table class="docutils">{head}{row}</table></article>'
    for width in (768, 1280):
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.set_content(body)
        assert lines(tab, "td code .pre") == 1


def test_an_option_of_a_command_stands_before_what_it_takes(tab: Tab) -> None:
    command = '<span class="na">--on</span><span class="w"> </span><span class="n">h100-sxm</span>'
    for before in range(60, 90):
        pre = f'<div class="highlight"><pre>{"x" * before} {command}</pre></div>'
        body = f'<article style="width: 600px"><div class="highlight-console">{pre}</div></article>'
        tab.page.set_viewport_size({"width": 768, "height": 900})
        tab.page.set_content(f"<style>{CSS}</style>{body}")
        assert lines(tab, ".na, .n") == 1


def test_words_of_a_table_stand_whole_on_the_smallest_phone(tab: Tab) -> None:
    """Where its columns have room for them; the long sentences of one take none from the others."""
    row = f"<tr><td><code>assumptions[]</code></td><td>algorithms</td><td>{'words ' * 99}</td></tr>"
    head = "<tr><th>key</th><th>unit</th><th>what it is</th></tr>"
    table = f'<table class="whole-words docutils">{head}{row}</table>'
    tab.page.set_content(f'<style>{CSS}</style><article><div class="table-wrapper">{table}</div></article>')
    tab.page.add_script_tag(path=FINDER)
    for width in (320, 360):
        tab.page.set_viewport_size({"width": width, "height": 900})
        faults = {fault for fault, *_ in tab.page.evaluate("faults()")}
        assert not {"a word cut between its letters", "scrolls sideways"} & faults


def test_the_index_fills_its_columns_evenly(tab: Tab) -> None:
    """Also where one name has most of the lines; on a phone there is one column."""
    css = (Path(__file__).parents[2] / "docs" / "_static" / "pages.css").read_text(encoding="utf-8")
    cells = [f"<td style='width: 33%'><ul>{'<li>name</li>' * lines}</ul></td>" for lines in (60, 4)]
    table = f"<table class='genindextable'><tr>{''.join(cells)}</tr></table>"
    for width, columns in ((390, 1), (768, 2)):
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.set_content(f"<!doctype html><style>{css}</style>{table}")
        places = tab.page.evaluate("[...document.querySelectorAll('li')].map((item) => item.getBoundingClientRect().x)")
        counts = sorted(places.count(each) for each in set(places))
        assert len(counts) == columns
        assert counts[-1] - counts[0] <= 6
