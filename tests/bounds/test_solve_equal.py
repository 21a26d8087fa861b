"""Where two expressions cost the same, against counts of both at that size."""

from __future__ import annotations

import json

import pytest

from roofline import bound, solve, solve_equal
from roofline.cli import main
from roofline.errors import InputError, RooflineError

SCORES = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
LAYER = (
    "q = x:bf16[B, T, D] * bf16[D, N, H] -> bf16[B, T, N, H]; k = x * bf16[D, N, H] -> bf16[B, T, N, H]; "
    "v = x * bf16[D, N, H] -> bf16[B, T, N, H]; o = q * bf16[N, H, D] -> bf16[B, T, D]; "
    "g = x * bf16[D, F]; u = x * bf16[D, F]; u * bf16[F, D]"
)


def test_attention_overtakes_the_matrices_at_eight_widths() -> None:
    """Chapter 4: for F = 4·D and D = N·H the dots of attention are T/(8·D) of the matrices."""
    for width, least in ((8192, 65536), (4608, 36864)):
        sizes = {"D": width, "F": 4 * width, "N": width // 128, "H": 128}
        found = solve_equal(SCORES, LAYER, "T", sizes=sizes)
        assert found.value == least
        assert found.less_below == 1


def test_a_size_of_low_rank_in_symbols() -> None:
    """Of the mixed forms W = A·B: fewer FLOPs while M < D·F/(D + F)."""
    low_rank = "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]"
    found = solve_equal("bf16[B, D] * bf16[D, F]", low_rank, "M")
    assert (str(found.form), found.value) == ("D*F/(D + F)", None)
    numbers = solve_equal("bf16[B, D] * bf16[D, F]", low_rank, "M", B=8, D=96, F=32)
    assert (numbers.value, numbers.less_below) == (24, 2)
    assert (
        bound("bf16[8, 96] * bf16[96, 32]", on="h100").flops == bound(low_rank, on="h100", B=8, D=96, M=24, F=32).flops
    )


def test_equal_bytes() -> None:
    """An int8 table of V rows is as large as a bf16 matrix and its operands."""
    found = solve_equal("bf16[B, D] * bf16[D, F]", "copy(int8[V, D])", "V", quantity="bytes", B=4, D=64, F=32)
    assert found.value == (2 * (4 * 64 + 64 * 32 + 4 * 32)) / (2 * 64)
    # small sums go whole to every chip, large ones in parts: V(n − 1)/2 and V(n − 1)/n over a ring of 16
    gather, add = "AllGather_X(bf16[D_X, F])", "AllReduce_X(bf16[B, F] {U_X})"
    for D, B in ((4096, 2048), (16, 1)):
        assert solve_equal(gather, add, "B", quantity="sent", on="v5e:16", D=D, F=2048).value == pytest.approx(B)


def test_never_and_messages(capsys: pytest.CaptureFixture[str]) -> None:
    never = solve_equal("bf16[B, D] * bf16[D, F]", "bf16[B, D] * bf16[D, F]; bf16[B, F] * bf16[F, D]", "D")
    assert never.form is None
    assert repr(never) == "<EqualCost: the same FLOPs at no D>"
    with pytest.raises(RooflineError, match="'joules' is not compared"):
        solve_equal("bf16[B, D]", "bf16[B, D]", "D", quantity="joules")
    assert main(["solve", "bf16[B, D] * bf16[D, F]", "bf16[B, D] * bf16[D, M]", "--for", "Q"]) == 2
    assert "nothing here is called 'Q'" in capsys.readouterr().err
    assert main(["solve", "bf16[B, D] * bf16[D, F]", "--for", "D", "--equal", "flops"]) == 2
    assert "--equal compares two expressions" in capsys.readouterr().err


def test_the_command_gives_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", "bf16[B, D] * bf16[D, F]", "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]", "--for", "M"]
    assert main([*words, "--json", "B=8", "D=96", "F=32"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["value"], found["form"]) == ("roofline/equal/1", 24, "D*F/(D + F)")


def test_solve_of_two_lines_names_the_function_that_takes_two():
    line = "bf16[B, D] * bf16[D, F]"
    with pytest.raises(InputError, match=r"one line, not two; .*solve_equal\(first, second"):
        solve((line, line), for_="B")


def test_lines_without_a_product_are_compared_by_the_flops_of_their_unit() -> None:
    found = solve_equal("softmax(bf16[B, D])", "rms_norm(bf16[B, D], bf16[D])", "D", B=64)
    assert (str(found.first), str(found.second), found.value) == ("5*B*D", "4*B*D + 2*B", 2)
    assert solve_equal("bf16[B, D] * bf16[D, F]", "softmax(bf16[B, D])", "F", B=64, D=1000).value == 2.5
