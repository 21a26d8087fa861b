"""Help: the common options by group in a screen, all of them under --help-all; one table holds them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import roofline.cli
from roofline.cli import cli, main, reference
from roofline.cli.command import Argument, Command, Option
from roofline.meanings import MEANINGS_OF

ENTRIES = list(reference())
NAMES = [entry.name for entry in ENTRIES]


#: A plan chooses the number of chips, and its ``--estimate`` may name the library.
SEVERAL_FORMS = {"--on", "--estimate"}


def command(name: str) -> Command:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, Command)
    return found


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_help_is_a_screen(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = shown([name, "-h"], capsys)
    assert text == shown([name, "--help"], capsys)
    assert len(text.splitlines()) <= 55, "name fewer common options"


@pytest.mark.parametrize("name", NAMES)
def test_short_help_names_the_file_that_an_answer_may_go_to(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if any("-o" in each.opts for each in command(name).params) and name != "calibrate":
        assert "  -o, --output-file FILE" in shown([name, "-h"], capsys)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_all_options_stand_under_help_all_and_no_word_is_broken(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    whole = shown([name, "--help-all"], capsys)
    assert not [line for line in whole.splitlines() if line != line.rstrip()]
    flat = " ".join(whole.split())
    for parameter in command(name).params:
        if isinstance(parameter, Option):
            assert parameter.word in flat
            assert " ".join((parameter.help or "").split()) in flat, "a word is broken"
    long = [line for line in whole.splitlines() if len(line) > min(columns, 100) and "roofline" not in line]
    assert not [line for line in long if " " in line.strip()]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_a_row_of_the_table(name: str) -> None:
    kinds = {type(parameter) for parameter in command(name).params}
    assert kinds <= {Option, Argument}


def test_a_word_has_one_meaning_in_all_commands() -> None:
    """One group, and one form of the value up to how many may be given."""
    forms: dict[str, set[tuple[str, str]]] = {}
    for entry in ENTRIES:
        for group, listed in entry.groups.items():
            for option in listed:
                form = re.sub(r"\[.*", "", option.form)
                forms.setdefault(next(w for w in option.words if w[:2] == "--"), set()).add((group, form))
    several = {word: found for word, found in forms.items() if len(found) > 1}
    assert set(several) <= SEVERAL_FORMS, several


def test_the_reference_has_every_option_of_every_command() -> None:
    for entry in ENTRIES:
        listed = [option.words for group in entry.groups.values() for option in group]
        options = [each for each in command(entry.name).params if isinstance(each, click.Option)]
        assert len(listed) == len(options)
        assert entry.examples, f"{entry.name} has no example"
        assert all(option.says for group in entry.groups.values() for option in group)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (["plot", "--on", "h100", "--intensity", "7", "--output", "F.svg"], "--output-file"),
        (["bound", "softmax(fp32[8, 8])", "--on", "h100", "--output", "F.json"], "--output-file"),
    ],
)
def test_older_words_are_taken(older: list[str], newer: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = []
    for word in ("--output", newer, "-o"):
        assert main([word if each == "--output" else each for each in older]) == 0
        (path,) = tmp_path.iterdir()
        written.append(path.read_text())
        path.unlink()
    assert written[0] == written[1] == written[2]


def test_help_says_what_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """An option that takes several values has commas in its form, or says that it may stand several times."""
    for name in NAMES:
        for each in command(name).params:
            if isinstance(each, Option) and each.multiple:
                assert "," in (each.metavar or "") or "repeat" in each.says, (name, each.word)
    listed = {entry.name: option.says for entry in ENTRIES for each in entry.groups.values() for option in each
              if "-o" in option.words}  # fmt: skip
    assert {name for name, says in listed.items() if "May be repeated." not in says} == {"measure", "calibrate"}
    said = "its table (.csv) or a picture (.svg, .png, .pdf). May be repeated."
    assert " ".join(shown(["bound", "--help"], capsys).split()).count(said) == 1
    assert "(.json, .txt) or a picture" in " ".join(shown(["plot", "--help"], capsys).split())  # it has no table


def test_what_an_option_means_stands_in_one_place_for_commands_and_functions() -> None:
    """No command words it by itself: of its own name ``MEANINGS_OF`` says it, else the table of options."""
    for name, own in MEANINGS_OF.items():
        if name in NAMES:
            said = {each.name: each.help for each in command(name).params if isinstance(each, Option)}
            assert {key: said[key] for key in own if key in said} == {key: own[key] for key in own if key in said}
    worded = re.compile(r'^ +option\("(?!output-file).*help="', re.MULTILINE)
    files = Path(roofline.cli.__file__).parent.glob("*.py")
    assert [file.name for file in files if worded.search(file.read_text(encoding="utf-8"))] == []
