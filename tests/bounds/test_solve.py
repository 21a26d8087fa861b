"""Where it flips: exact values, closed forms against numbers, always and never, rates as unknowns."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import bound, chip, solve, solve_dtypes, zones
from roofline.cli import main
from roofline.errors import InputError, SizeError
from tests.strategies import few, some

MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"


@few(8)
@given(
    left=st.sampled_from(["bf16", "int8", "fp8"]),
    right=st.sampled_from(["bf16", "int8", "int4"]),
    width=st.integers(500, 30_000),
    depth=st.integers(500, 30_000),
    chip=st.sampled_from(["v5e", "h100", "a100", "mi300x", "v6e"]),
)
def test_the_pick_is_the_first_size_at_which_it_flips(left: str, right: str, width: int, depth: int, chip: str) -> None:
    line, sizes = f"{left}[B, D] * {right}[D, F] -> {left}[B, F]", {"D": 2 * depth, "F": 2 * width}
    compute = "bf16" if {left, right} == {"fp8", "int8"} else None
    found = solve(line, "B", on=chip, compute=compute, sizes=sizes)
    if found.pick is None:
        assert found.verdict.startswith("always")
        kinds = {bound(line, on=chip, compute=compute, B=b, sizes=sizes).kind for b in (1, 10**4, 10**8)}
        assert len(kinds) == 1
        return
    at = {b: bound(line, on=chip, compute=compute, B=b, sizes=sizes) for b in (found.pick - 1, found.pick) if b}
    assert at[found.pick].kind == "compute-bound"
    if found.pick > 1:
        assert at[found.pick - 1].kind == "memory-bound"
    assert found.pick - 1 <= found.value <= found.pick


def test_the_limit_is_what_large_sizes_tend_to() -> None:
    found = solve(MATMUL, "B", on="v5e", set={"hbm": 8.2e11})
    huge = solve(MATMUL, "B", on="v5e", set={"hbm": 8.2e11}, D=10**12, F=10**12)
    assert found.limit == pytest.approx(1.97e14 / 8.2e11, rel=1e-12)
    assert huge.value == pytest.approx(found.limit, rel=1e-6)
    assert str(found.limit_form) == "P_bf16/W_hbm"
    assert str(found.valid) == "D*F*W_hbm - D*P_bf16 - F*P_bf16 > 0"


@pytest.mark.parametrize(
    ("line", "unknown", "sizes", "verdict"),
    [
        ("int8[B, D] * int8[B, D, F] -> int8[B, F]", "B", {"D": 4096, "F": 4096}, "always memory-bound"),
        (MATMUL, "B", {"D": 256, "F": 256}, "always memory-bound"),
        ("gelu(bf16[B, F])", "B", {"F": 4096}, "always memory-bound"),
        ("bf16[N] . bf16[N] -> bf16[]", "N", {}, "always memory-bound"),
    ],
)
def test_never_is_an_answer(line: str, unknown: str, sizes: dict[str, int], verdict: str) -> None:
    found = solve(line, unknown, on="v5e", sizes=sizes)
    assert (found.verdict, found.value, found.pick) == (verdict, None, None)


def test_the_intensity_limit_says_why() -> None:
    found = solve("int8[B, D] * int8[B, D, F] -> int8[B, F]", "B", on="v5e")
    assert found.intensity_limit == 2
    assert found.verdict == "always memory-bound, for large sizes"


@pytest.mark.parametrize("unknown", ["hbm", "dram", "bandwidth", "bf16", "peak"])
def test_a_rate_is_solved_for(unknown: str) -> None:
    sizes = {"B": 64, "D": 8192, "F": 8192}
    found = solve(MATMUL, unknown, on="v5e", sizes=sizes)
    figure = {"bandwidth": "hbm", "dram": "hbm", "peak": "bf16"}.get(unknown, unknown)
    for factor, kind in ((0.999, found.before), (1.001, found.after)):
        assert bound(MATMUL, on="v5e", set={figure: found.value * factor}, sizes=sizes).bound_by == kind
    assert found.unit in ("B/s", "FLOP/s")
    assert found.pick is None


def test_tiles_and_windows_go_to_bisection() -> None:
    found = solve("sum_T(fp32[B, T])", "T", on="h100", B=64, tile=(8, 8, 8))
    assert found.verdict == "always memory-bound"
    tiled = solve(MATMUL, "B", on="v5e", tile=(512, 512, 128), D=8192, F=8192)
    assert tiled.method == "bisection"
    assert ("found by", "bisection") in list(tiled.pairs())
    low, high = (
        bound(MATMUL, on="v5e", tile=(512, 512, 128), B=b, D=8192, F=8192).kind for b in (tiled.pick - 1, tiled.pick)
    )
    assert (low, high) == ("memory-bound", "compute-bound")


@pytest.mark.parametrize(("unknown", "sizes"), [("F", {"B": 600, "D": 4096}), ("D", {"B": 300, "F": 4096})])
def test_a_flip_to_and_fro_is_told_to_its_last(unknown: str, sizes: dict[str, int]) -> None:
    found = solve(MATMUL, unknown, on="v5e", pad=True, **sizes)
    each = bound(MATMUL, on="v5e", pad=True, **sizes, **{unknown: range(1, 4000)}).bound_by.decode()
    changes = [size for size in range(2, 4000) if each[size - 1] != each[size - 2]]
    assert [int(value) for value, _, _ in found.flips] == changes
    assert found.pick == changes[-1]
    assert set(each[found.pick - 1 :]) == {"mxu"}
    assert found.verdict.startswith(
        f"memory-bound below {changes[0]}, one or the other to {changes[-1]}, compute-bound"
    )


def test_attention_flips_from_memory_to_compute() -> None:
    line = "attention(bf16[8, T, 32, 128], bf16[8, S, 32, 128], bf16[8, S, 32, 128], full)"
    found = solve(line, "T", on="v5e", set={"hbm": 8.2e11}, S=4096)
    before, after = (bound(line, on="v5e", set={"hbm": 8.2e11}, S=4096, T=t).kind for t in (found.pick - 1, found.pick))
    assert (before, after) == ("memory-bound", "compute-bound")


def test_sizes_that_are_given_stay_when_the_others_grow() -> None:
    narrow = solve(MATMUL, "B", on="h100", D=128)
    assert narrow.verdict == "always memory-bound, for large other sizes"
    assert narrow.intensity_limit == pytest.approx(128)
    wide = solve(MATMUL, "B", on="h100", D=1024)
    assert wide.limit == pytest.approx(solve(MATMUL, "B", on="h100", D=1024, F=10**12).value, rel=1e-6)


def test_ratios_of_given_sizes_stay_in_the_limit() -> None:
    line = "attention(bf16[B, S, N, H], bf16[B, T, K, H], bf16[B, T, K, H])"
    found = solve(line, "S", on="h100", N=32, K=8, H=128, B=1, T=8192)
    ridge = 989.4e12 / 3.35232e12
    assert found.limit == pytest.approx(ridge * 8 / 32)
    open_keys = solve(line, "S", on="h100", N=32, K=1, H=128, B=1)
    assert open_keys.limit == pytest.approx(ridge / 32)


def test_the_size_to_take_is_one_that_can_be() -> None:
    line = "attention(bf16[B, S, N, H], bf16[B, T, K, H], bf16[B, T, K, H])"
    found = solve(line, "N", on="h100", B=1, S=1, T=8192, K=8, H=128)
    assert found.pick % 8 == 0  # query heads share key heads evenly
    assert 0 <= found.pick - found.value < 8
    assert found.at_pick().kind == "compute-bound"


def test_an_open_size_leaves_the_crossing_that_matters() -> None:
    """Not that of two units of which memory binds over both, nor one that a third time exceeds."""
    line, sizes = "attention(bf16[B, S, N, H], bf16[B, T, N, H], bf16[B, T, N, H])", {"B": 1, "S": 1, "H": 128}
    found, at = solve(line, "peak", on="v5e", N=8, **sizes), solve(line, "peak", on="v5e", N=8, T=10**9, **sizes)
    assert (found.before, found.after) == (at.before, at.after) == ("mxu", "hbm")
    thin = "h = bf16[B, D] * bf16[D, F]; gelu(h)"
    opened = solve(thin, "bandwidth", on="v5e", B=64, D=1)
    assert (opened.before, opened.after) == ("hbm", "vpu")
    known = solve(thin, "bandwidth", on="v5e", B=64, D=1, F=10**6)
    assert (known.before, known.after) == ("hbm", "vpu")


def test_no_closed_form_is_not_always() -> None:
    line = "attention(bf16[B, S, N, H], bf16[B, T, N, H], bf16[B, T, N, H], causal)"
    found = solve(line, "S", on="a100", B=100, N=16)
    assert found.verdict == "compute-bound for large sizes; no closed form: give H, T for a number"
    assert solve(line, "S", on="a100", B=100, N=16, H=100, T=8192).pick == 158


def test_raw_formulas_have_unknowns_too() -> None:
    found = solve(None, "B", flops="2*B*D*F", bytes="2*(B*D + D*F + B*F)", on="h100", D=8192, F=8192)
    assert found.value == pytest.approx(solve(MATMUL, "B", on="h100", D=8192, F=8192).value, rel=1e-12)


def test_dtypes_flip_at_the_format_that_saves_enough() -> None:
    found = solve_dtypes("bf16[B, D] * bf16[D, F]", 1, on="h100", B=200, D=8192, F=8192)
    assert found.flips_at == "fp8"
    for row in found.rows:
        line = f"bf16[B, D] * {row.dtype}[D, F] -> bf16[B, F]"
        fresh = bound(line, on="h100", compute="bf16", B=200, D=8192, F=8192)
        assert row.bound.lower == fresh.lower


def test_dtypes_leave_each_step_its_arithmetic() -> None:
    line = "h = fp8[B, D] * {}[D, F] -> bf16[B, F]; h * bf16[F, D]"
    found = solve_dtypes(line.format("fp8"), 1, on="h100", B=4096, D=4096, F=4096)
    rows = {row.dtype: row.bound for row in found.rows}
    for name in ("fp8", "nvfp4", "mxfp4"):
        fresh = bound(line.format(name), on="h100", B=4096, D=4096, F=4096)
        assert rows[name].times == pytest.approx(fresh.times)
        assert rows[name].bytes == fresh.bytes
    with pytest.raises(InputError, match="its steps compute in bf16 and fp8; say compute="):
        solve_dtypes(line.format("fp8").replace("[B", "[B_X"), 1, on="h100:8", B=4096, D=4096, F=4096)


@given(st.floats(1e9, 1e13), st.floats(1e9, 1e13), st.floats(0.1, 1e5))
def test_zones_agree_with_bounds(first: float, second: float, intensity: float) -> None:
    found = zones("v5e", [first, second])
    kinds = {bound(intensity=intensity, on="v5e", set={"hbm": b}).kind for b in (first, second)}
    expected = {"red": {"memory-bound"}, "green": {"compute-bound"}, "yellow": {"memory-bound", "compute-bound"}}
    margin = min(abs(intensity / r - 1) for r in found.ridges)
    assert margin < 1e-9 or kinds == expected[found.zone(intensity)]


def test_warm_data_flips_where_its_level_binds() -> None:
    found = solve(MATMUL, "B", on="h100", over="warm", D=1024, F=1024)
    kinds = [bound(MATMUL, on="h100", over="warm", B=b, D=1024, F=1024).kind for b in (found.pick - 1, found.pick)]
    assert kinds == ["memory-bound", "compute-bound"]
    assert found.pick < 100
    with pytest.raises(InputError, match=r"the bandwidth of warm data follows the sizes.*give F a number"):
        solve(MATMUL, "B", on="h100", over="warm", D=1024)
    with pytest.raises(InputError, match="the bandwidth of warm data follows the sizes"):
        solve(MATMUL, "hbm", on="h100", over="warm", B=8, D=1024, F=1024)


def test_what_could_not_be_timed_is_said() -> None:
    line, bare = "fp64[B, D] * fp64[D, F]", chip("v5e")
    found = solve(line, "B", on=bare, D=4096, F=4096)
    assert found.verdict == "always memory-bound, for what could be timed"
    assert found.to_dict()["incomplete"] == list(found.incomplete)
    assert "not timed: flops on matrix in fp64" in found.incomplete[0]
    formats = solve_dtypes(line, 1, on=bare, B=8, D=4096, F=4096)
    assert "not timed: flops on matrix in fp64" in formats.to_dict()["incomplete"][0]


def test_messages() -> None:
    with pytest.raises(SizeError, match="nothing here is called 'Q'"):
        solve(MATMUL, "Q", on="v5e")
    with pytest.raises(InputError, match="D has several values, and an answer is for one set of sizes"):
        solve(MATMUL, "B", on="v5e", D=[1024, 2048], F=64)
    with pytest.raises(InputError, match=r"\['B'\] is nothing to solve for; name one unknown, as in for_='B'"):
        solve("bf16[B, D] * bf16[D, F]", ["B"], on="h100")  # type: ignore[arg-type]
    for more in ({}, {"unknown": "B"}):
        with pytest.raises(
            InputError, match="solve needs for_, the name of what is solved for; name one unknown, as in"
        ):
            solve(MATMUL, on="v5e", **more)
    with pytest.raises(InputError, match=r"solve needs for_, .*, for_='hbm' or 'batch' of a model"):
        solve("llama-3-8b", on="h100", solve_for="hbm", time="5ms")
    with pytest.raises(InputError, match="'vmem' plays no part in this on TPU v5e; what plays a part: mxu, bf16, hbm"):
        solve(MATMUL, "vmem", on="v5e")


@pytest.mark.parametrize(("on", "D", "pick"), some([("h100", 8192, 4), ("v5e", 65536, 16)], 2, 1))
def test_a_number_of_chips_to_take_is_one_there_can_be(on: str, D: int, pick: int) -> None:
    """Chips of v5e come in powers of two, and D is to divide: 3 chips, which are past the crossing, do not fit."""
    found = solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "n", on=on, mesh={"X": "n"}, B=4096, D=D, F=8192)
    assert pick / 2 < found.value <= pick
    assert found.pick == pick
    at = found.at_pick()
    assert at is not None
    assert at.kind == "network-bound"


def test_a_rate_under_measured_fractions_is_told_as_a_data_sheet_has_it() -> None:
    line, sizes = "bf16[B, D] * bf16[D, F]", {"B": 512, "D": 8192, "F": 8192}
    found = solve(line, "bf16", on="h100", achievable=True, **sizes)
    assert found.value is not None
    assert found.fraction == pytest.approx(0.803)
    sheet = found.value / found.fraction
    kinds = [bound(line, on="h100", achievable=True, set={"bf16": sheet * x}, **sizes).kind for x in (0.999, 1.001)]
    assert kinds == ["compute-bound", "memory-bound"]
    assert ("data sheet", "1.9 PFLOP/s, of which 0.803 is reached as measured") in found.pairs()
    assert solve(line, "B", on="h100", achievable=True, D=8192, F=8192).fraction is None
    assert solve(line, "hbm", on="h100", **sizes).fraction is None
    assert solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "ici", on="v5e:16x16", **sizes).fraction is None


def test_of_a_bare_intensity_no_time_is_said() -> None:
    found = solve(intensity="B*D*F/(B*D + D*F + B*F)", for_="B", on="v5e", D=4096, F=4096)
    assert found.pick == solve("bf16[B, 4096] * bf16[4096, 4096]", "B", on="v5e").pick
    assert ">B = 273: 100% of peak</td>" in found._repr_html_()


@pytest.mark.parametrize("names", [("B", "D", "F"), ("X", "Y", "Z"), ("batch", "hidden", "ffn")])
def test_a_closed_form_stands_upright_whatever_its_names(names: tuple[str, str, str]) -> None:
    b, d, f = names
    found = solve(f"bf16[{b}, {d}] * bf16[{d}, {f}]", b, on="h100")
    top, _, bottom = str(found.form).partition("/")
    assert set(top.split("*")) == {"P_bf16", d, f}
    assert str(found.valid) == f"{bottom.strip('()')} > 0"


def test_a_solution_is_printed_in_other_languages(capsys: pytest.CaptureFixture[str]) -> None:
    line = "bf16[B, D] * int8[D, F]"
    found = solve(line, "B", on="v5e")
    space: dict[str, Any] = {}
    exec(found.printed("python"), space)
    assert space["B"](D=4096, F=8192) == pytest.approx(solve(line, "B", on="v5e", D=4096, F=8192).value)
    faster = solve(line, "B", on="v5e", set={"hbm": 8.2e11}, D=4096, F=8192).value
    assert space["B"](D=4096, F=8192, W_hbm=8.2e11) == pytest.approx(faster)
    assert math.isnan(space["B"](D=1, F=1))  # the sizes are too small for it to flip
    took = solve(line, "B", on="v5e", D=4096, F=8192, time="1ms")
    exec(took.printed("py"), space)
    assert space["B"](**{name: {"D": 4096, "F": 8192}[name] for name in ("D", "F") if name in str(took.form)}) == (
        pytest.approx(took.value)
    )
    latex = found.printed("latex")
    assert latex.startswith("\\begin{aligned}\nB &= \\frac{D \\, F \\, P_{\\mathrm{bf16}}}{2")
    assert "\\text{while }" in latex
    assert "& \\to \\frac{P_{\\mathrm{bf16}}}{2 \\, W_{\\mathrm{hbm}}} \\quad \\text{for large sizes}" in latex
    alone = solve("int8[B, 4096] * int8[4096, 4096]", for_="B", on="h100")  # no other size is open
    assert alone.limit_form == alone.form
    assert "large sizes" not in alone.printed("latex") + str(alone)
    assert found._repr_latex_() == f"$${latex}$$"
    assert main(["solve", line, "--for", "B", "--on", "v5e", "--latex"]) == 0
    assert capsys.readouterr().out == latex + "\n"
    assert main(["solve", line, "--for", "B", "--on", "v5e,h100", "--latex"]) == 0
    assert capsys.readouterr().out.startswith(f"% {line} -> bf16[B, F] on TPU v5e\n{latex}\n% ")
    assert main(["solve", "--for", "intensity", "--on", "v5e", "--latex"]) == 2
    assert "only where one line flips is a formula; leave the language out" in capsys.readouterr().err
    never = solve("int8[B, D] * int8[B, D, F] -> int8[B, F]", "B", on="v5e", D=4096, F=4096)
    assert never._repr_latex_() is None
    with pytest.raises(InputError, match="there is no closed form of B: always memory-bound; nothing flips"):
        never.printed("latex")
    with pytest.raises(InputError, match="a solution is not printed in 'go'; one of python, javascript, c, latex"):
        found.printed("go")
    with pytest.raises(
        SizeError, match=r"from the ridge on: roofline\.bound\(\) says both; all ridges are roofline\.zo"
    ):
        solve(line, "intensity", on="v5e", D=4096, F=4096)
