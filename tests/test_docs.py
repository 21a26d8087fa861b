"""The examples of the README, the docs and the demo show what the program shows today."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from zlib import crc32

import pytest
from click import Option

import roofline
from roofline import models
from roofline.cli import cli, main
from tests.doc_blocks import (
    ROOT,
    Command,
    blocks,
    commands,
    differences,
    documents,
    matches,
    other_pictures,
    prepare,
    python_differences,
    run,
    run_once,
    words_of,
)
from tests.strategies import LONG, for_each

PAGES = documents()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to run examples in."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_tried(command: Command) -> bool:
    """Of commands that a page shows the picture of alone, and no words, ``make test`` draws a sixth.

    Of the scenarios of plans, each a search of a second and its picture, it tries five of nine.
    """
    chance = crc32(command.text.encode())
    is_scenario = command.text.startswith("roofline plan ") and " -o " in command.text
    return LONG or (chance % 3 == 1 if is_scenario else not command.writes_alone or not chance % 6)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_show_what_the_page_says(path: Path, folder: Path) -> None:
    problems = []
    for command, shown in differences(main, path.read_text(encoding="utf-8"), is_tried):
        changed = difflib.unified_diff(command.expected, shown.lines, "written", "shown", lineterm="")
        problems.append("\n".join([f"{path.name}:{command.start}: $ {command.text}", *changed]))
    assert not problems, "\n\n".join([*problems, "make docs-update puts the output in place"])
    assert not [f"make docs-update draws {kept.name} again" for _, kept in other_pictures(folder)]
    constants = Path("docs", "examples", "t4_constants.toml")  # which a command of measuring.md makes from its runs
    assert constants.read_text(encoding="utf-8") == (ROOT / constants).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_examples_give_what_the_page_says(path: Path, folder: Path) -> None:
    problems = [
        f"{path.name}:{line + 1}\n>>> {example.source}written: {example.want}shown:   {got}"
        for line, example, got in python_differences(path.read_text(encoding="utf-8"), path.name)
    ]
    assert not problems, "\n".join(problems)


@for_each("path", PAGES)
def test_no_example_goes_unexecuted(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "python":
            assert any(line.startswith(">>> ") for line in block.lines), f"{path.name}:{block.start}: write it with >>>"
        if block.language == "console":
            assert any(line.startswith("$ ") for line in block.lines), f"{path.name}:{block.start}: no $ command"


def commands_in_sentences() -> list[str]:
    """The commands that the pages say whole within their sentences, without those that need a reader's own file."""
    found: dict[str, None] = {}
    for path in PAGES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for block in blocks("\n".join(lines)):
            lines[block.start : block.start + len(block.lines)] = [""] * len(block.lines)
        said = (" ".join(each.split()) for each in re.findall(r"`(roofline\s[^`]+)`", "\n".join(lines)))
        found |= dict.fromkeys(each for each in said if len(each.split()) > 2)
    own = r"…|\b[A-Z]{4,}\b|\b(?:model\.py|trace\.json|this\.toml|mine\.csv|runs\.csv)"
    own += r"|roofline (?:measure|explore|completion)"
    return [each for each in found if not re.search(own, each)]


IN_SENTENCES = commands_in_sentences()


@pytest.mark.parametrize("line", IN_SENTENCES if "ROOFLINE_LONG" in os.environ else IN_SENTENCES[::60])
def test_a_command_in_a_sentence_runs(line: str, folder: Path) -> None:
    shown = run_once(main, line)
    assert shown.code in (0, 3), "\n".join([line, *shown.lines])


def test_every_page_that_promises_says_it_in_the_same_words() -> None:
    promise = (
        "No program that does this arithmetic and moves these bytes, its data cold and its rates the data sheet's, "
    )
    promise += 'beats "at best"; the floor of any program is `--policy minimal`.'
    for name in ("README.md", *(f"docs/{page}.md" for page in ("glossary", "conventions", "accuracy", "comparison"))):
        assert promise in " ".join((ROOT / name).read_text(encoding="utf-8").split()), name


def broken_tables(text: str) -> list[str]:
    """The first line of each table that has no row of dashes under its head: what is left where a table is cut."""
    lines = text.splitlines()
    for block in blocks(text):
        lines[block.start : block.start + len(block.lines)] = [""] * len(block.lines)
    heads = [i for i, line in enumerate(lines) if line.startswith("|") and not lines[i - 1].startswith("|")]
    return [lines[i] for i in heads if not re.fullmatch(r"[|: -]*---[|: -]*", "".join(lines[i + 1 : i + 2]))]


@for_each("path", PAGES)
def test_every_table_has_its_head_and_every_link_its_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert broken_tables(text) == []
    assert re.findall(r"(?<!!)\[\]\([^)]*\)", text) == []  # plain Markdown shows nothing for them


def test_the_check_for_tables_can_fail() -> None:
    assert broken_tables("# T\n\n| a |\n|---|\n| 1 |\n\n| 2 |\n") == ["| 2 |"]


def test_every_line_of_the_demo_runs(folder: Path) -> None:
    lines = (ROOT / "docs" / "demo.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 6
    for line in lines:
        shown = run_once(main, line)
        assert shown.code == 0, "\n".join([line, *shown.lines])
        assert shown.lines, line
    wanted = [words[words.index("-o") + 1] for words in map(shlex.split, lines) if "-o" in words]
    assert wanted
    assert all((folder / path).stat().st_size > 1000 for path in wanted)


def sample(words: Sequence[str]) -> int:
    """A program to try the checker on: it says a word twice, or fails."""
    word = words[-1]
    if word == "crash":
        raise RuntimeError("crash")
    if word == "boom":
        sys.stderr.write("error: no\n")
        return 2
    sys.stdout.write(f"{word}\n{word}\n")
    return 0


def page(*lines: str) -> str:
    """A page with one console block."""
    return "\n".join(["# Title", "", "```console", *lines, "```", "end", ""])


@pytest.mark.parametrize(
    "lines",
    [
        ("$ roofline say hello", "hello", "hello"),
        ("$ roofline say hello", "hello", "..."),
        ("$ roofline say hello", "..."),
        ("$ roofline \\", "    say hello", "hello", "hello", "", "$ roofline say 'x y'", "x y", "x y"),
        ("$ pip install something", "whatever it shows"),
        ("$ roofline say boom", "error: no"),
    ],
)
def test_checker_accepts_what_is_shown(lines: tuple[str, ...]) -> None:
    assert not list(differences(sample, page(*lines)))


@pytest.mark.parametrize(
    "lines",
    [
        ("$ roofline say hello", "hello", "hallo"),
        ("$ roofline say hello", "hello"),
        ("$ roofline say hello", "hello", "hello", "hello"),
        ("$ roofline say hello",),
        ("$ roofline say hello", "...", "hallo"),
        ("$ roofline say hello", " hello", "hello"),
        ("$ roofline say boom", "..."),
        ("$ roofline say boom", "error: yes"),
    ],
)
def test_checker_catches_what_is_not_shown(lines: tuple[str, ...]) -> None:
    assert len(list(differences(sample, page(*lines)))) == 1


def test_checker_does_not_swallow_a_crash() -> None:
    with pytest.raises(RuntimeError, match="crash"):
        list(differences(sample, page("$ roofline say crash", "...")))


def test_python_checker_shares_a_namespace_and_catches_a_wrong_result() -> None:
    good = "```python\n>>> a = 1\n```\n\n```python\n>>> a + 1\n2\n```\n"
    assert not python_differences(good, "page")
    wrong = python_differences(good.replace("\n2\n", "\n3\n"), "page")
    assert [(line, example.want, got) for line, example, got in wrong] == [(5, "3\n", "2\n")]
    assert "NameError" in python_differences("```python\n>>> missing\n```\n", "page")[0][2]


def test_output_is_put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import update_docs

    monkeypatch.setattr(update_docs, "main", sample)
    stale = page("$ roofline say a", "old", "", "$ roofline say b", "b", "...", "", "$ roofline say c")
    fresh = page("$ roofline say a", "a", "a", "", "$ roofline say b", "b", "...", "", "$ roofline say c", "c", "c")
    python = "  ```python\n  >>> 1 + 1\n  5\n  >>> a = 2\n  >>> a\n  ```\n"
    expected = "  ```python\n  >>> 1 + 1\n  2\n  >>> a = 2\n  >>> a\n  2\n  ```\n"
    assert update_docs.updated(stale + python, "page") == fresh + expected
    assert update_docs.updated(fresh, "page") == fresh
    cut = update_docs.elided(["one: 1 ms", "...", "two: 2 ms", "..."], ["one: 3 ms", "", "two: 4 ms", "three"])
    assert cut == ["one: 3 ms", "...", "two: 4 ms", "..."]
    assert update_docs.elided(["...", "gone"], ["a", "b"]) == ["a", "b"]


def test_console_examples_have_the_tones_of_a_terminal() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import ConsoleLexer

    text = page(
        "$ roofline say --loud 'x y' \\", "    z", "x y  on v5e", "", "  hbm  84.5 µs  ███▍  binds", "",
        "  chip  p95  binds", "  h100  1.5x the cost  hbm", "",
        "  at best 84.5 µs if all overlaps", "  faster  z (--tensor 2)  1.98x", "", "  assumes  a", "           b", "",
        "                  h100  a100",
        "  times the least  1.2x  1x*", "  at worst        7 ms  6 ms", "  bound by        hbm   mxu",
        "  main            3 GB  4 GB", "",
        "                over the      op", "  layout  step  fastest  by op", "  fsdp 4  3 s    1.16x  4 s",
        "  twice  2.5x the chips", "...",
    )  # fmt: skip
    shown = "\n".join(next(iter(blocks(text))).lines) + "\n"
    tokens = [(str(kind).removeprefix("Token."), word) for kind, word in ConsoleLexer().get_tokens(shown)]
    assert "".join(word for _, word in tokens) == shown
    for expected in (
        ("Generic.Prompt", "$ "), ("Keyword", "roofline"), ("Name.Attribute", "--loud"), ("Literal.String", "'x"),
        ("Literal.String", "y'"), ("Generic.Strong", "x y"), ("Generic.Error", "███▍"), ("Generic.Error", "binds"),
        ("Generic.Strong", "84.5 µs"), ("Generic.Inserted", "1.98x"), ("Name.Tag", "--tensor"),
        ("Comment", "  chip  p95  binds\n"), ("Comment", "  assumes  a\n"), ("Comment", "           b\n"),
        ("Comment", "                over the      op\n"), ("Comment", "  layout  step  fastest  by op\n"),
        ("Text", "  bound by        hbm   mxu\n"),
    ):  # fmt: skip
        assert expected in tokens
    behind = tokens[tokens.index(("Name.Attribute", "--loud")) + 1]  # keeps an option's value on its line
    assert behind == ("Text.Whitespace", " ")
    assert [word for kind, word in tokens if kind == "Generic.Inserted"] == ["1.98x"]
    prompts = ConsoleLexer().get_tokens("$ roofline a \\\n  b\n$ roofline c\nshown\n$ roofline d\n\n$ roofline e\n")
    assert [str(kind) for kind, word in prompts if word == "$ "] == [
        "Token.Generic.Prompt", "Token.Generic.Prompt", "Token.Generic.Heading", "Token.Generic.Prompt",
    ]  # fmt: skip


def test_a_phone_shows_of_an_example_what_the_page_keeps() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import elided

    wide = ("a b  ██", "", "c d", "e f  g", "...")
    narrow = ("a b", "██", "", "c", "d", "e f", "g", "...")
    assert tuple(elided(wide, wide[:4], narrow)) == narrow
    assert list(elided(("a b  ██", "...", "e f  g"), wide[:4], narrow[:7])) == ["a b", "██", "...", "e f", "g"]
    assert list(elided(("...", "c d", "..."), wide[:4], narrow[:7])) == ["...", "c", "d", "..."]


def test_on_a_phone_tables_of_the_same_columns_are_lists_where_the_words_of_one_have_no_room() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import tables_for_a_phone
    from docutils import nodes
    from docutils.core import publish_doctree

    rule = " ".join(["=" * 30] * 3)
    lines = [
        " ".join(f"{word or '..':30}" for word in row)
        for row in (("source", "what it is", "more"), ("www.a-very-long-address.org", "words-without-room", "and-more"))
    ]
    short = " ".join(f"{word:30}" for word in ("a", "b", "c"))
    text = [rule, lines[0], rule, lines[1], rule, "", "And", "", rule, lines[0], rule, short, rule, ""]
    page = publish_doctree("\n".join(text))
    tables_for_a_phone(None, page)
    both = list(page.findall(nodes.bullet_list))
    assert [each.children[0].astext() for each in both] == [
        "www.a-very-long-address.org · words-without-room · more: and-more",
        "a · b · more: c",
    ]


def test_on_a_phone_a_wide_table_is_a_list_and_long_code_may_break() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import WIDE_TABLE, tables_for_a_phone
    from docutils import nodes
    from docutils.core import publish_doctree

    heads = ["library", "kernel", "rows", "MdAPE", "covers"]
    rows = [
        ["vllm", "``a.long_name_of_it``", "350", "6.7", "80%"],
        ["torch", "``mm``", "9", "1.0", "75%"],
    ]
    assert len(heads) == WIDE_TABLE
    rule = " ".join(["=" * 22] * len(heads))
    table = [
        rule,
        " ".join(f"{each:22}" for each in heads),
        rule,
        *(" ".join(f"{e or '..':22}" for e in r) for r in rows),
    ]
    page = publish_doctree("\n".join([*table, rule, ""]))
    for entry in page.findall(nodes.comment):
        entry.parent.remove(entry)
    tables_for_a_phone(None, page)
    (found,) = page.findall(nodes.bullet_list)
    assert found["classes"] == ["on-a-phone"]
    assert [each.astext() for each in found.children] == [
        "vllm, a.long_name_of_it · rows: 350 · MdAPE: 6.7 · covers: 80%",
        "torch, mm · rows: 9 · MdAPE: 1.0 · covers: 75%",
    ]
    (before,) = page.findall(nodes.table)
    assert before["classes"] == ["on-a-desk"]
    assert [code["classes"] for code in before.findall(nodes.literal)] == [["long"], []]


def test_what_is_said_behind_a_command_is_one_word_of_it() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import CommandLexer, ConsoleLexer
    from pygments.token import Comment

    for lexer, line in (
        (CommandLexer(), "roofline run a#b   # so 'long'"),
        (ConsoleLexer(), "$ roofline run   # so 'long'"),
    ):
        tokens = list(lexer.get_tokens(line))
        assert [said for kind, said in tokens if kind is Comment.Single] == ["# so 'long'"]
        assert "".join(said for _, said in tokens).rstrip("\n") == line


def test_on_a_phone_words_of_code_take_room_with_their_edges() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import tables_for_a_phone
    from docutils import nodes
    from docutils.core import publish_doctree

    def is_a_list(word: str) -> bool:
        rule = " ".join(["=" * 40] * 3)
        rows = (("class", "what it is", "given by"), ("``Quantisation``", "a checkpoint", word))
        lines = [" ".join(f"{cell:40}" for cell in row) for row in rows]
        page = publish_doctree("\n".join([rule, lines[0], rule, lines[1], rule, ""]))
        tables_for_a_phone(None, page)
        return "whole-words" not in next(page.findall(nodes.table))["classes"]

    assert [is_a_list(word) for word in ("``Model``", "``Quantisation.storage``", "``Model.part.of.a.name``")] == [
        False,
        True,
        False,
    ]


def test_an_example_in_python_ends_with_its_last_line() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import without_blank_ends
    from docutils import nodes

    tree = nodes.Element()
    tree += nodes.literal_block(">>> 1\n1\n\n", ">>> 1\n1\n\n", language="python")
    without_blank_ends(None, tree)
    assert (tree[0].astext(), tree[0].rawsource) == (">>> 1\n1", ">>> 1\n1")


def test_names_of_modules_break_behind_their_dots_alone() -> None:
    """On a phone a signature's module goes on below between its words, and its name stands whole."""
    from docs.console_examples import names_that_break

    name = '<span class="sig-name descname"><span class="pre">Plan.best_one</span></span>'
    module = '<span class="sig-prename descclassname"><span class="pre">roofline.plans.</span></span>'
    context = {"body": module + name}
    names_that_break(None, "", "", context, None)
    assert context["body"] == module.replace("roofline.", "roofline.<wbr>") + name


def test_a_bracket_and_a_comma_stay_with_the_name_beside_them() -> None:
    from docs.console_examples import names_that_break

    name = '<a href="#b"><code class="xref"><span class="pre">bounds.bound</span></code></a>'
    context = {"body": f"as ({name}), {name} or {name}; <code>x</code>, (<code>y</code>)"}
    names_that_break(None, "", "", context, None)
    name = name.replace("bounds.", "bounds.<wbr>")
    whole = '<span class="with-signs">{}</span>'.format
    assert context["body"] == (
        f"as {whole(f'({name}),')} {name} or {whole(f'{name};')} <code>x</code>, (<code>y</code>)"
    )


def test_addresses_of_sources_are_links(generated: ModuleType) -> None:
    page = generated.source_pages()["sources/nvidia-hopper"]
    assert "](https://glennklockwood.com/garden/processors/h100)" in page
    assert "](https://github.com/pytorch/pytorch/blob/00604d0/torch/_inductor/analysis/device_info.py)" in page
    assert "](https://github.com/openxla/xla/blob/HEAD/xla/backends/gpu/target_config/specs/h200.txtpb)" in page
    assert "| CUDA guide bank width (32 banks x 32 bit/clk) quoted in public repo text |" in page


def test_names_with_underscores_are_no_emphasis(generated: ModuleType) -> None:
    pytest.importorskip("docutils")
    assert generated._key("_c10d_functional.all") == r"<code>\_c10d\_<wbr>functional.<wbr>all</code>"
    assert generated._options_as_code("after --context, a `--past`") == "after `--context`, a `--past`"
    for name, page in generated.json_pages().items():
        assert "..\n" not in page, name
        assert ".:" not in page, name
    rows = "".join(generated.source_pages().values())
    assert not re.search(r"(?<!\\)_", re.sub(r"\]\([^)]*\)", "]", rows).partition("## ")[2].partition("## ")[0])


def test_each_picture_has_one_of_a_phones_width_that_says_the_same() -> None:
    for picture in (ROOT / "docs" / "images").glob("*.svg"):
        small = picture.parent / "phone" / picture.name
        assert words_of(small) == words_of(picture), f"make docs-update draws {picture.name} again"
        assert 'width="360"' in small.read_text(encoding="utf-8")[:1000]


def test_pictures_of_the_dark_pages_are_those_of_the_dark_theme() -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import in_dark

    roof = roofline.charts.plot(on="v5e", bandwidths=(4.1e11, 8.2e11), intensity=[100, 600])
    heat_map = roofline.sweep("bf16[B, D] * bf16[D, 64]", on="h100", B=[64, 4096], D=[1024, 8192]).plot(kind="heatmap")
    for chart in (roof, heat_map):
        light, dark = (chart.with_theme(theme)._repr_svg_() for theme in ("light", "dark"))
        named = [re.sub(r"\b[mph][0-9a-f]{10}\b", "id", drawn) for drawn in (in_dark(light), dark, light)]
        assert named[0] == named[1] != named[2]


def test_one_run_shows_what_a_phone_shows(folder: Path) -> None:
    pytest.importorskip("docutils")
    from docs.console_examples import PHONE, is_too_wide, narrow

    for line in (
        'roofline bound "bf16[64, 8192] * int8[8192, 8192]" --on v5e',
        "roofline llm llama-3-8b --on h100 --batch 1:4 --view memory",  # signs, which no console lays out
        "roofline bound nonsense",
    ):
        wide, on_a_phone = run(main, line), run(main, line, PHONE)
        assert narrow(Command(line, wide.lines, 0)) == on_a_phone.lines
        assert not any(map(is_too_wide, on_a_phone.lines))
    assert narrow(Command(line, ("something else",), 0)) is None


def test_blocks_know_where_they_stand() -> None:
    text = (
        page("$ roofline say a", "a", "a") + "  ```python\n  >>> 1\n  1\n  ```\n````text\n```console\n$ no\n```\n````\n"
    )
    found = list(blocks(text))
    assert [(b.language, b.start) for b in found] == [("console", 3), ("python", 9), ("text", 13)]
    assert found[1].lines == (">>> 1", "1")
    assert [c.start for c in commands(found[0])] == [4]
    assert matches((), ())
    assert not matches((), ("a",))


@pytest.mark.parametrize("module", [roofline, models], ids=lambda module: module.__name__)
def test_the_reference_shows_every_public_name(module: ModuleType, generated: ModuleType) -> None:
    shown = {id(each) for each in (*generated.answer_parts.documented(), *generated.answer_parts.parts())}
    assert [name for name in module.__all__ if id(getattr(module, name)) not in shown] == []


def test_every_class_that_an_answer_gives_has_its_page(generated: ModuleType) -> None:
    pages = generated.answer_parts.pages()
    said = [line.split(" | ")[1] for page in pages.values() for line in page.splitlines() if line.startswith("| {py")]
    assert all(each.endswith(".") for each in said)
    text = "\n".join([*pages.values(), *(path.read_text() for path in (ROOT / "docs" / "python").glob("*.md"))])
    found = {kind.__name__ for kind in generated.answer_parts.parts()}
    assert {"FewestChips", "TokenBudget", "Formula", "Compiled", "Calibration", "Footprint", "Fleet"} <= found
    for kind, places in generated.answer_parts.parts().items():
        assert f".. autoclass:: {kind.__module__}.{kind.__qualname__}\n" in text
        assert places
        assert kind.__doc__
        assert not kind.__doc__.startswith(f"{kind.__name__}(")


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """The pages that are made before a build."""
    sys.path.insert(0, str(ROOT / "docs"))
    path = ROOT / "docs" / "generated_pages.py"
    spec = spec_from_file_location("generated_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_shows_every_option(generated: ModuleType) -> None:
    pages = generated.command_pages()
    missing = [
        (name, word)
        for name in cli.list_commands(None)  # type: ignore[arg-type]
        for param in (cli.get_command(None, name) or cli).params  # type: ignore[arg-type]
        if isinstance(param, Option) and not param.hidden
        for word in param.opts
        for page in (pages[f"commands/{name}"], pages["commands"])
        if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", page)
    ]
    assert missing == []


def test_the_reference_shows_every_parameter_of_public_functions() -> None:
    # sphinx writes a function's signature: what is in the signature is in the reference
    for name in roofline.__all__:
        value = getattr(roofline, name)
        if inspect.isfunction(value):
            rest = [each for each in inspect.signature(value).parameters.values() if each.kind is each.VAR_KEYWORD]
            assert all(each.name in ("named_sizes", "more_sizes", "named", "overrides") for each in rest), name


def test_the_gallery_shows_every_picture_with_its_command(generated: ModuleType) -> None:
    shown = {name for _, _, name, _ in generated.pictures()}
    assert {path.name for path in (ROOT / "docs" / "images").glob("*.svg")} - shown == set()
    assert sum(bool(command) for *_, command in generated.pictures()) >= 14


def test_the_page_of_models_names_every_shipped_one(generated: ModuleType) -> None:
    page = generated.model_page()
    assert [name for name in models.names() if "--" not in name and f"`{name}`" not in page] == []
    assert "| `deepseek-v3` | 671B | 37.6B | 163,840 |" in page


def test_the_page_of_operators_names_what_has_a_rule(generated: ModuleType) -> None:
    page = generated.operator_page()
    for name in ("`mm`", "`scaled_dot_product_attention`", "`dot_general`", "`com.microsoft.Attention`", "`Conv`"):
        assert name in page, name
    counts = dict(re.findall(r"## (\w+): (\d+)", page))
    said = " ".join((ROOT / "docs" / "programs.md").read_text(encoding="utf-8").split())
    assert (
        "{PyTorch} operations of PyTorch's dispatcher, {JAX} primitives of JAX and {ONNX} oper".format(**counts) in said
    )


@for_each("path", [path for path in PAGES if path.parent.name == "docs"])
def test_a_page_says_whose_question_it_answers(path: Path) -> None:
    if path.name != "changelog.md":
        assert "*For whoever" in "\n".join(path.read_text(encoding="utf-8").splitlines()[:8])


@for_each("path", PAGES)
def test_a_formula_on_a_page_is_the_one_that_is_printed_above_it(path: Path) -> None:
    found = list(blocks(path.read_text(encoding="utf-8")))
    for before, block in pairwise(found):
        if block.language == "{math}":
            assert set(filter(None, block.lines)) <= set(before.lines), f"{path.name}:{block.start}"


def test_a_formula_is_drawn_in_the_colour_of_the_text_and_says_itself_in_words() -> None:
    from docs.math_images import drawn

    page = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    latex = next("\n".join(block.lines) for block in blocks(page) if block.language == "{math}")
    image = drawn(latex)
    assert image.count('<svg role="img" aria-label="T_') == 4
    assert "currentColor" in image
    names = re.findall(r'\bid="([^"]+)"', image)
    assert len(set(names)) == len(names)
    assert set(re.findall(r'href="#([^"]+)"', image)) <= set(names)
    assert "http" not in re.sub(r'xmlns(?::\w+)?="[^"]+"|xmlns', "", image).replace("www.w3.org", "")


def test_machine_files_stand_in_the_page_as_they_are() -> None:
    page = (ROOT / "docs" / "machines.md").read_text(encoding="utf-8")
    for name in ("edge.toml", "cluster.toml"):
        text = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")
        assert f"`docs/examples/{name}`:\n\n```toml\n{text}```\n" in page
