"""Sections look alike whatever answer yields them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from roofline import bound, solve
from roofline.answers import Answer
from roofline.rendering.html import html
from roofline.rendering.terminal import as_text, terminal
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    CrossTable,
    Headline,
    Pairs,
    Row,
    Section,
    Sentences,
    ShareBar,
    Table,
    Words,
    assumes,
    figures,
    incomplete,
)

RESOURCES = Table(
    (Column("resource"), *figures("amount", "time"), Column(wrap="words", most=8), Column()),
    [
        Row(("hbm", Amount(69.2e6, "B"), Amount(84.5e-6, "s"), ShareBar(1.0, "alert"), Words("binds", "alert"))),
        Row(("mxu", Amount(8.59e9, "FLOP"), Amount(43.6e-6, "s"), ShareBar(0.5), "")),
    ],
    headed=False,
)


class Both(Answer):
    """An answer with one section of every kind."""

    def sections(self) -> Iterable[Section]:
        return [
            Headline("A * B", "on TPU v5e"),
            BLANK,
            RESOURCES,
            Sentences(["at best 84.5 µs"]),
            Pairs([("answer", "flips at 240"), ("", "or at 480")]),
            CrossTable("ridge", [("hbm", "bf16", "240"), ("hbm", "int8", "480"), ("vmem", "bf16", "11")]),
            assumes(["dense <peaks>"]),
            incomplete([]),
        ]


def shown(sections: Iterable[Section], width: int = 60) -> list[str]:
    """The lines a terminal of so many columns shows."""
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(terminal(sections))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_terminal_shows_every_kind_of_section() -> None:
    assert shown(Both().sections()) == [
        "A * B  on TPU v5e",
        "",
        "  hbm     69.2 MB  84.5 µs  ████████  binds",
        "  mxu  8.59 GFLOP  43.6 µs  ████",
        "  at best 84.5 µs",
        "  answer  flips at 240",
        "          or at 480",
        "    ridge           bf16  int8",
        "    hbm              240   480",
        "    vmem              11",
        "  assumes  dense <peaks>",
    ]


def test_long_sentences_stay_set_in() -> None:
    assert shown([Sentences(["one two three four"])], width=12) == ["  one two", "  three four"]


def test_a_table_of_two_names_turns_where_it_would_not_fit() -> None:
    cells = [("hbm", f"format{i}", str(i)) for i in range(6)]
    assert len(shown([CrossTable("ridge", cells)], width=200)) == 2
    assert len(shown([CrossTable("ridge", cells)], width=40)) == 7


def test_html_escapes_and_keeps_values() -> None:
    page = Both()._repr_html_()
    assert "dense &lt;peaks&gt;" in page
    assert "<peaks>" not in page
    assert 'data-value="8.45e-05" data-unit="s">84.5 µs</td>' in page
    assert page.startswith('<div class="roofline"><p><b>A * B</b> on TPU v5e</p>')
    assert html([incomplete([])]) == '<div class="roofline"></div>'


def test_what_is_assumed_is_folded_of_one_answer_and_of_several() -> None:
    page = html(bound("bf16[64, 64] * bf16[64, 64]", on=["h100", "a100:8"]).sections())
    assert "<summary>assumes" in page
    assert "<details open" not in page


def test_a_number_and_its_unit_stay_in_one_line_and_no_line_ends_with_a_blank() -> None:
    said = "busy for 10.9 ms and moves 12.5 GB over 3.2 TB/s in 4 steps of 2 sequences"
    sections: list[Section] = [Sentences([said]), Pairs([("why", said)]), assumes([said]), RESOURCES]
    for width in range(30, 80):
        lines = as_text(sections, width).splitlines()
        assert all(line == line.rstrip() for line in lines)
        assert not any(line.endswith(("10.9", "12.5", "3.2")) for line in lines)
        assert "\ue000" not in "".join(lines)
    assert as_text([Sentences([said])]) == f"  {said}\n"


def test_a_table_that_goes_on_below_tells_its_rows_apart_in_each_part() -> None:
    columns = (Column("on"), *figures("tensor", "time", "memory"))
    rows = [Row((on, ways, "10 ms", "40 GB")) for on in ("h100:8", "h200:8") for ways in ("4", "8")]
    assert shown([Table(columns, rows, indent=0)], width=24) == [
        "on      tensor   time",
        "h100:8       4  10 ms",
        "h100:8       8  10 ms",
        "h200:8       4  10 ms",
        "h200:8       8  10 ms",
        "on      tensor  memory",
        "h100:8       4   40 GB",
        "h100:8       8   40 GB",
        "h200:8       4   40 GB",
        "h200:8       8   40 GB",
    ]


def test_sentences_without_comfort_beside_a_row_stand_below_it() -> None:
    said = "weights are 72% of the bytes: still memory-bound"
    columns = (Column("change"), *figures("faster"), Column("why", wrap="words"))
    table = Table(columns, [Row(("int4 weights", "2.14x", said)), Row(("batch 46", "2.46x", said))], indent=0)
    assert shown([table], width=40) == [
        "change        faster",
        "int4 weights   2.14x",
        "    weights are 72% of the bytes: still",
        "    memory-bound",
        "batch 46       2.46x",
        "    weights are 72% of the bytes: still",
        "    memory-bound",
    ]
    assert shown([table], width=60)[1] == "int4 weights   2.14x  weights are 72% of the bytes: still"


def test_a_path_breaks_behind_its_signs_and_makes_its_column_no_wider_than_there_is_room() -> None:
    said = "spec, stas00/ml-engineering@744d01e:compute/accelerator/README.md (hwLat in microseconds)"
    assert shown([Pairs([("W_hbm", said)])], width=44) == [
        "  W_hbm  spec,",
        "         stas00/ml-engineering@744d01e:",
        "         compute/accelerator/README.md",
        "         (hwLat in microseconds)",
    ]
    table = Table((Column("a"), Column("b", wrap="words")), [Row(("x", said))], indent=0)
    for width in range(34, 120):
        for section in (Pairs([("W_hbm", said)]), table):
            lines = shown([section], width)
            assert max(map(len, lines)) <= width
            assert said.replace(" ", "") in "".join(lines).replace(" ", "")


def test_in_a_narrow_terminal_each_machine_stands_over_its_own_figures() -> None:
    answers = solve("bf16[B, D] * bf16[D, F]", "B", on="v5e,v5p,v6e", D=8192, F=8192)
    lines = as_text(answers.sections(), 56).splitlines()
    heads = [line.strip() for line in lines if line.strip() in ("v5e", "v5p", "v6e")]
    assert heads == ["v5e", "v5p", "v6e"]
    ridges = [line.split()[-2] for line in lines if line.strip().startswith("ridge")]
    assert len(ridges) == len(set(ridges)) == 3


def test_a_sentence_of_advice_that_would_be_cramped_stands_below_its_row() -> None:
    """Where a last column has less room than a sentence reads well in, its other cells stay on a line."""
    rows = [
        Row(("fp8 arithmetic", "2.00x", "a higher peak: still compute-bound")),
        Row(("half the FLOPs", "2.00x", "as said")),
    ]
    table = Table((Column(), Column(), Column(wrap="words")), rows, headed=False)
    narrow = [line.rstrip() for line in as_text([table], 44).splitlines()]
    assert narrow == [
        "  fp8 arithmetic  2.00x",
        "      a higher peak: still compute-bound",
        "  half the FLOPs  2.00x",
        "      as said",
    ]
    assert as_text([table], 80).splitlines()[0].rstrip().endswith("a higher peak: still compute-bound")
