"""The chart in a terminal: a golden picture, its width kept, its signs explained in the key."""

from __future__ import annotations

import io
import re

import pytest
from charts_to_draw import ALL, MATMUL, exercise_3, two_bandwidths, two_chips
from tests.strategies import for_each

from roofline.charts import plot
from roofline.errors import InputError

GOLDEN = """\
Roofline of NVIDIA H100 SXM5 80GB
attainable FLOP/s
  2 PFLOP/s ┤
  1 PFLOP/s ┤                            ⢀⡠◇⠤⠤a⠤⠤⠤⠤⠤⠤⠤2⠤⠤⠤⠤⠄
500 TFLOP/s ┤                         ⣀⠤⠒⠁
            │                     ⢀⡠⠒⠉
200 TFLOP/s ┤                  ⣀⠤1⠁
            │              ⢀⡠⠔⠊
100 TFLOP/s ┤           ⣀⠔⠊⠁
 50 TFLOP/s ┤       ⣀⠤⠒⠉
            │   ⢀⡠⠔⠉
 20 TFLOP/s ┤⡠⠔⠊⠁
            └─────┬────────────────┬────────────────┬───────
                  10              100             1,000
             arithmetic intensity, FLOP/B
1 hbm 3.35 TB/s
2 bf16 989 TFLOP/s
◇ 295 FLOP/B: h100 tensor bf16 over hbm
a up projection: 989 TFLOP/s at 455 FLOP/B, tensor binds
"""


def test_golden():
    assert plot(MATMUL, on="h100", names=["up projection"]).to_text(60, 10) == GOLDEN.rstrip("\n")


@for_each("name", ALL)
@for_each("width", [40, 80, 120])
def test_no_line_is_wider_than_asked_for(name, width):
    assert all(len(line) <= width for line in ALL[name]().to_text(width, 16).splitlines())


def test_every_sign_of_the_key_stands_in_the_picture():
    text = two_chips().to_text(100, 24)
    picture, _, key = text.partition("arithmetic intensity")
    for sign in re.findall(r"^(\S) ", key, re.M):
        assert sign in picture


def test_machines_are_named_where_there_are_several():
    key = two_chips().to_text(100, 24)
    assert "bf16[512, 8192] @ bf16[8192, 8192] on a100: 312 TFLOP/s at 455 FLOP/B" in key


def test_regions_shade_the_axis():
    text = two_bandwidths().to_text(80, 12)
    assert re.search(r"└░+┬?░*", text)
    assert "▒ memory-bound at 410 GB/s only" in text


def test_colour_is_asked_for():
    assert "\x1b[" not in exercise_3().to_text()
    assert "\x1b[34m" in exercise_3().to_text(color=True)
    plain = re.sub(r"\x1b\[\d+m", "", exercise_3().to_text(color=True))
    assert [line.rstrip() for line in plain.splitlines()] == exercise_3().to_text().splitlines()


def test_too_small_is_an_error():
    with pytest.raises(InputError, match="30 columns by 24 rows are too few for a chart; at least 40 × 5"):
        exercise_3().to_text(30)


def test_rich_prints_it():
    from rich.console import Console

    console = Console(width=70, record=True, file=io.StringIO())
    console.print(exercise_3())
    printed = console.export_text().splitlines()
    assert [line.rstrip() for line in printed] == exercise_3().to_text(70).splitlines()


def test_each_of_the_most_points_has_a_letter_of_its_own():
    text = plot("bf16[B, 64] @ bf16[64, 64]", on="h100", B=list(range(1, 65))).to_text()
    found = [line[0] for line in text.splitlines() if re.match(r"\S B = \d+: ", line)]
    assert len(found) == len(set(found)) == 64


def test_points_are_looked_for_a_few_times_and_not_once_for_each(monkeypatch):
    chart = plot(on="h100", measured=[(f"run {n}", 1e9, "1 GB", f"{n + 1} ms") for n in range(200)])
    asked, marks = [], type(type(chart).points)
    look = marks.__get__
    monkeypatch.setattr(marks, "__get__", lambda self, *where: asked.append(self) or look(self, *where))
    assert "run 199" in chart.to_text()
    assert len(asked) < 50
