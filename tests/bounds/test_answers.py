"""Bounds, sweeps and their forms: policies, levels, units, estimates, JSON, HTML, one line, files."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import roofline
from roofline import bound, chip, sweep
from roofline.bounds.bound import Bound
from roofline.errors import HardwareError, InputError, SizeError, UntimedError
from roofline.hardware.machine import Figure, Machine
from roofline.quantity import format_amount
from roofline.rendering.terminal import as_text

MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
SIZES: dict[str, Any] = {"B": 64, "D": 8192, "F": 8192}


def test_the_design_s_example() -> None:
    answer = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", **SIZES)
    assert answer.flops == 2 * 64 * 8192 * 8192
    assert answer.bytes == {"hbm": 2 * 64 * 8192 + 8192 * 8192 + 2 * 64 * 8192}
    assert answer.times["mxu"] == pytest.approx(43.6e-6, rel=1e-3)
    assert answer.times["hbm"] == pytest.approx(84.5e-6, rel=1e-3)
    assert answer.upper == sum(answer.times.values())
    assert answer.utilisation == pytest.approx(0.516, rel=1e-3)


def test_another_level_and_unit() -> None:
    near = bound(MATMUL, on="v5e", over="vmem", **SIZES)
    assert near.bound_by == "mxu"
    assert "vmem" in near.bytes
    far = bound(MATMUL, on="v5e", over="pcie", **SIZES)
    assert far.lower == pytest.approx(sum(far.bytes.values()) / 16e9)
    vector = bound(MATMUL, on="h100", unit="vector", **SIZES)
    assert vector.times["cuda"] == pytest.approx(vector.flops / 133.8e12)
    assert bound(MATMUL + " on v5e over vmem", **SIZES).lower == near.lower


def test_what_does_not_fit_is_said() -> None:
    answer = bound(MATMUL, on="v5e", over="vmem", **SIZES)
    assert answer.footprint is not None
    assert answer.footprint.fits is False
    assert as_text(answer.sections()).splitlines()[2] == "  DOES NOT FIT: needs 136 MB, vmem has 134 MB"
    assert "does not fit: it needs 136 MB, 2.1 MB more than the 134 MB of vmem" in answer.assumptions


def test_a_tile_that_does_not_fit_is_said() -> None:
    answer = bound(MATMUL, on="h100", tile=(8192, 8192, 8192), B=8192, D=8192, F=8192)
    assert any(
        said.startswith("does not fit: a tile needs 403 MB, smem of one core holds") for said in answer.assumptions
    )


def test_tiles_load_again() -> None:
    answer = bound(MATMUL, on="v5e", tile=(512, 512, 512), B=4096, D=4096, F=4096)
    assert answer.bytes["hbm"] == 570_425_344


def test_estimates_lie_between_the_bounds() -> None:
    half = bound(MATMUL, on="v5e", overlap=0.5, **SIZES)
    assert half.estimate == pytest.approx((half.lower + half.upper) / 2)
    late = bound(MATMUL, on="v5e", overlap=1, overhead="5us", **SIZES)
    assert late.estimate == pytest.approx(late.lower + 5e-6)
    assert bound(MATMUL, on="v5e", **SIZES).estimate is None


@pytest.mark.parametrize("sizes", [SIZES, SIZES | {"B": [64, 128]}])
def test_a_stated_overlap_is_said_beside_an_estimate_by_constants_and_by_explain(sizes: dict[str, Any]) -> None:
    said = "with the stated overlap and overhead"
    alone, both, constants = (
        bound(MATMUL, on="h100", **sizes, **more)
        for more in ({"overlap": 0.5}, {"overlap": 0.5, "estimate": True}, {"estimate": True})
    )
    assert np.array_equal(both.stated_estimate, alone.estimate)
    assert constants.stated_estimate is None
    for shown in (str, Bound.explain):
        assert [said in shown(each) for each in (alone, both, constants)] == [True, True, False]


def test_achievable_rates_are_slower_and_said() -> None:
    plain, achieved = (bound(MATMUL, on="h100", achievable=a, B=8192, D=8192, F=8192) for a in (False, True))
    assert achieved.lower == pytest.approx(plain.lower / 0.803)
    assert any("0.803 of the data-sheet figure" in said for said in achieved.assumptions)


def test_padding_to_the_matrix_unit() -> None:
    answer = bound("bf16[B, 100] * bf16[100, 300]", on="v5e", pad=True, B=8)
    assert answer.flops == 2 * 8 * 128 * 384


def test_an_amount_without_a_rate_makes_it_incomplete() -> None:
    answer = bound("fp64[B] + fp64[B]", on="v5e", B=1024)
    assert answer.incomplete == ("not timed: flops on vector in fp64 (1.02 kFLOP); TPU v5e has no figure for it",)
    assert "could be timed; not timed: flops on vector in fp64 (see incomplete below)" in " ".join(str(answer).split())
    assert answer.bound_by == "hbm"
    with pytest.raises(UntimedError, match="not timed: flops on matrix in int64"):
        bound(flops=1e12, dtype="int64", on="v5e")


def test_a_machine_s_fused_and_minimal_bytes() -> None:
    line = "h = bf16[B, D] * bf16[D, F]; gelu(h)"
    each, fused, minimal = (
        sum(bound(line, on="h100", policy=policy, **SIZES).bytes.values()) for policy in ("each-op", "fused", "minimal")
    )
    hidden = 2 * 64 * 8192
    assert each - fused == 2 * hidden
    assert fused == minimal


@pytest.mark.parametrize(
    ("line", "on", "more"),
    [
        ("h = bf16[B, D] * bf16[D, F]; gelu(h)", "h100", 2 * 64 * 8192),
        ("h = bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]; gelu(h)", "h100:8", 2 * 64 * 8192),
        ("h = bf16[B, D] * bf16[D, F] -> int4[B, F]; relu(h)", "h100", 64 * 8192 // 2),
    ],
)
def test_a_result_named_alone_is_written_once_more(line: str, on: str, more: int) -> None:
    """A residual that goes on, or the activations that a backward pass reads: each-op wrote it anyway."""
    for policy, added in {"each-op": 0, "fused": more, "minimal": more}.items():
        without, found = (bound(text, on=on, policy=policy, **SIZES) for text in (line, line + "; h"))
        assert sum(found.bytes.values()) - sum(without.bytes.values()) == added
    opened = bound(line + "; h", on=on, policy="fused", B=64)
    sizes = {symbol: SIZES[symbol.name] for symbol in opened.bytes["hbm"].free_symbols}
    assert opened.bytes["hbm"].subs(sizes) == bound(line + "; h", on=on, policy="fused", **SIZES).bytes["hbm"]


@pytest.mark.parametrize(
    ("line", "tensors"),
    [
        ("s = sigmoid(x:bf16[B, F]); s + x", 2),  # one kernel reads x once
        ("h = bf16[B, F] + bf16[B, F]; g = gelu(h); softmax(h)", 6),  # what is made in a kernel it does not read
        ("h = x:bf16[B, F] + bf16[B, F]; n = rms_norm(h); n + x", 6),  # two kernels read x, and the second n
        ("a = exp(x:bf16[B, F]); b = log(x); a + b", 5),  # neither is made of the other: a kernel each
    ],
)
def test_a_fused_kernel_reads_each_tensor_once(line: str, tensors: int) -> None:
    assert sum(bound(line, on="h100", policy="fused", B=64, F=512).bytes.values()) == tensors * 2 * 64 * 512


def test_three_bounds_of_a_program_are_apart() -> None:
    answer = bound("h = bf16[B, D] * bf16[D, F]; softmax(h)", on="v5e", B=4096, D=8192, F=8192)
    assert answer.lower < answer.op_by_op < answer.upper
    assert len(answer.ops) == 2


def test_two_chips_own_figures() -> None:
    assert bound(MATMUL, on=chip("v5e", hbm="8.1e11 B/s"), **SIZES).times["hbm"] == pytest.approx(
        sum(bound(MATMUL, on="v5e", **SIZES).bytes.values()) / 8.1e11
    )
    sparse = bound(MATMUL, on="h100", set={"bf16": 1978.8e12}, **SIZES)
    assert any("exactly twice the catalog's figure" in said for said in sparse.assumptions)


def test_json_is_plain_and_complete() -> None:
    for asked in (SIZES, {}, {**SIZES, "B": np.array([1, 64])}):
        data = bound(MATMUL, on="v5e", **asked).to_dict()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert set(data) >= {
            "schema", "expression", "target", "sizes", "flops", "bytes", "wire", "intensity", "critical_intensity",
            "times", "lower", "op_by_op", "upper", "bound_by", "attainable", "ops", "footprint", "assumptions",
            "incomplete",
        }  # fmt: skip
    assert data["bound_by"] == ["hbm", "hbm"]
    assert len(data["times"]["hbm"]) == 2
    formulas = bound(MATMUL, on="v5e").to_dict()["formulas"]
    assert formulas["flops"] == "2*B*D*F"
    assert formulas["intensity"] == "B*D*F/(B*D + B*F + D*F)"


def test_formulas_are_shown_whole() -> None:
    page = Console(width=100, record=True, file=StringIO())
    answer = bound("h = bf16[B, T, D] * bf16[D, F]; softmax(h)", on="h100")
    page.print(answer)
    text = page.export_text()
    assert "…" not in text
    for part in answer.ops:
        assert part.op.name in text
        assert f"at best {part.lower} s" in text
    assert all(f"  {name}  " in text for name in ("tensor", "hbm", "cuda"))


def test_html_names_what_binds() -> None:
    page = bound(MATMUL, on="v5e", **SIZES)._repr_html_()
    assert ">hbm</td>" in page
    assert "binds" in page
    assert "2 FLOPs per multiply-add" in page


def test_every_answer_has_a_page() -> None:
    solved = roofline.solve("bf16[B, D] * int8[D, F]", "B", on="v5e", D=4096, F=4096)
    assert ">B = 136.27397</td>" in solved._repr_html_()
    assert "compute-bound at every bandwidth" in roofline.zones("v5e", [4e11, 8e11])._repr_html_()
    assert "flips at fp8" in roofline.solve_dtypes(MATMUL, 1, on="h100", B=200, D=8192, F=8192)._repr_html_()
    page = sweep(MATMUL, on="v5e", B=range(1, 51), D=8, F=8)._repr_html_()
    assert page.count("<tr>") == 41
    assert "and 10 more rows" in page


def test_a_sweep_is_the_bounds_of_its_rows() -> None:
    table = sweep(MATMUL, on="v5e", B=[1, 100, 300], D=[512, 8192], F="2*D", columns=roofline.bounds.sweep.COLUMNS)
    assert len(table) == 6
    for index in range(6):
        row = table.row(index)
        assert table["lower"][index] == pytest.approx(row.lower, rel=1e-12)
        assert table["time.mxu"][index] == pytest.approx(row.times["mxu"], rel=1e-12)
        assert table["bound_by"][index] == row.bound_by
        assert table["F"][index] == 2 * table["D"][index]


def test_a_sweep_says_what_it_could_not_time() -> None:
    grid = sweep("fp64[B, D] * fp64[D, F]", on="v5e", B=[1, 2], D=64, F=64)
    assert grid.incomplete == ("not timed: flops on matrix in fp64; TPU v5e has no figure for it",)
    assert grid.to_dict()["incomplete"] == list(grid.incomplete)
    said = sweep("gelu(bf16[B])", on="v5e", B=[1, 2]).assumptions
    assert "no bf16 peak on vpu of TPU v5e: elementwise work runs as fp32 there" in said


@pytest.mark.parametrize(
    ("line", "target", "choices", "said"),
    [
        (MATMUL, "v100", {}, ["no bf16 peak on NVIDIA V100 SXM2 16/32GB: matrix products run as fp32 on cuda"]),
        (MATMUL, "h100", {"set": {"bf16": 1.9788e15}}, ["exactly twice the catalog's figure: a sparse (or duplex)"]),
        (MATMUL, "h100", {}, []),
        ("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "v5e:4", {}, ["axis X: 4 chips in a line, without wrap-around"]),
    ],
)
def test_solutions_and_tables_say_what_is_assumed_beside_the_conventions(
    line: str, target: str, choices: dict[str, Any], said: list[str]
) -> None:
    solution = roofline.solve(line, "B", on=target, D=64, F=64, **choices)._repr_html_()
    table = roofline.sweep(line, on=target, B=[1, 2], D=64, F=64, **choices)
    for shown in (html.unescape(solution), html.unescape(table._repr_html_())):
        assert [text for text in said if text not in shown] == []
        assert ("assumes" in shown) is bool(said)
        assert "2 FLOPs per multiply-add" not in shown


def test_a_table_names_the_first_of_many_assumptions() -> None:
    table = roofline.sweep("softmax(bf16[B, 64])", on="v5e", B=[1, 2])
    many = replace(table, assumptions=tuple(f"case {i}" for i in range(9)))
    assert [line for _, line in many.remarks()][-2:] == ["case 5", "… and 3 more; to_dict() has them all"]


def test_a_sweep_may_vary_what_only_formulas_name() -> None:
    grid = sweep("bf16[B, D] * bf16[D, F]", on="v5e", columns="lower, bytes", B=[1, 2], D="64*n", F="4*D", n=[1, 3])
    assert grid["D"].tolist() == [64, 192, 64, 192]
    assert list(grid.columns) == ["B", "n", "D", "F", "lower", "bytes"]
    assert grid.row(3).lower == grid["lower"][3] == bound("bf16[2, 192] @ bf16[192, 768]", on="v5e").lower


def test_conventions_of_a_sweep_are_no_sizes() -> None:
    with pytest.raises(HardwareError, match="mesh axis 3 is not declared"):
        sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], D=512, F=512, use="3")


def test_a_sweep_over_blocks_is_in_order() -> None:
    table = sweep("bf16[B, D] * bf16[D, D2]", on="v5e", B=range(1, 301), D=range(1, 201), D2=64, columns=("flops",))
    assert len(table) == 60_000
    assert (table["flops"] == 2 * table["B"] * table["D"] * 64).all()
    assert table["B"][0] == 1
    assert table["D"][199] == 200
    assert table["B"][200] == 2


@pytest.mark.parametrize("suffix", ["csv", "json", "npz"])
def test_a_sweep_is_saved(tmp_path: Path, suffix: str) -> None:
    table = sweep(MATMUL, on="v5e", B=[1, 300], D=8192, F=8192)
    path = tmp_path / f"grid.{suffix}"
    table.save(str(path))
    if suffix == "csv":
        lines = path.read_text().splitlines()
        figures = "lower [s],upper [s],attainable [FLOP/s],intensity [FLOP/B]"
        assert lines[0] == f"expression,on,B,D,F,{figures},bound_by"
        assert lines[2].endswith("mxu")
    elif suffix == "json":
        assert json.loads(path.read_text())["columns"]["bound_by"] == ["hbm", "mxu"]
    else:
        assert np.load(path)["bound_by"].tolist() == ["hbm", "mxu"]


def test_arrays_that_do_not_fit_together() -> None:
    with pytest.raises(SizeError, match="the sizes do not broadcast"):
        bound(MATMUL, on="v5e", B=np.arange(1, 3), D=np.arange(1, 4), F=4)
    with pytest.raises(SizeError, match=r"size B is 0 at index 20001"):
        bound(MATMUL, on="v5e", B=np.where(np.arange(30_000) == 20_001, 0, 8), D=8, F=8)
    with pytest.raises(SizeError, match="size F has no value while B is an array"):
        bound(MATMUL, on="v5e", B=np.arange(1, 3), D=4)


def test_more_rows_than_memory_holds_are_refused_with_the_limit() -> None:
    rows, columns, depth = (np.arange(1, 2001).reshape(shape) for shape in ((-1, 1, 1), (-1, 1), (-1,)))
    said = r"the sizes make 8,000,000,000 rows, too many for memory: .*; 1,000,000,000 rows at most; a sweep that keeps"
    with pytest.raises(SizeError, match=said):
        bound(MATMUL, on="v5e", B=rows, D=columns, F=depth)
    with pytest.raises(SizeError, match=said):
        bound(flops=1e9 * rows, bytes=1e6 * (columns + depth), on="v5e")


@pytest.mark.filterwarnings("error")
def test_rows_without_flops_have_no_ridge() -> None:
    found = bound("sum_D(bf16[B, D])", on="h100", B=4, D=np.array([1, 2])).to_dict()
    assert found["critical_intensity"][0] is None
    assert found["critical_intensity"][1] == bound("sum_D(bf16[B, D])", on="h100", B=4, D=2).critical_intensity


@pytest.mark.parametrize("on", ["h100", "v5e"])
def test_each_row_of_warm_data_takes_its_time_at_its_own_level(on: str) -> None:
    line, sizes = "bf16[B, D] * bf16[D, F] * bf16[F, E]", {"D": 1024, "F": 4096, "E": 512}
    counts = [8, 4096, 40_000]  # of v5e's 128 MiB: both products, one, none
    rows = bound(line, on=on, over="warm", B=np.array(counts), **sizes)
    for index, count in enumerate(counts):
        alone = bound(line, on=on, over="warm", B=count, **sizes)
        for field in ("lower", "op_by_op", "upper"):
            assert getattr(rows, field)[index] == pytest.approx(getattr(alone, field), rel=1e-12)
        assert {name: time[index] for name, time in rows.times.items() if time[index]} == pytest.approx(alone.times)
        assert rows.bound_by[index] == alone.bound_by
    shown = str(bound(line, on=on, over="warm", B=np.array([40_000, 50_000]), **sizes)).split()
    assert "hbm" in shown
    assert not {"smem", "l2", "vmem"} & set(shown)  # levels that hold the data of no row


def test_warm_data_says_where_its_level_has_no_bandwidth() -> None:
    asked = {"on": "t4", "over": "warm", "D": 512, "F": 512}
    said = "l2 holds it all, but no bandwidth of it is known: dram's is taken; give one: l2='… B/s'"
    assert said in bound(MATMUL, B=512, **asked).assumptions
    assert said not in bound(MATMUL, B=8192, **asked).assumptions
    assert said not in bound(MATMUL, B=512, **asked, set={"l2": "1.2 TB/s"}).assumptions
    assert bound(MATMUL, B=512, **asked, set={"l2": "1.2 TB/s"}).times["l2"] == pytest.approx(1572864 / 1.2e12)


def h100_of_a_measured_l2() -> Machine:
    h100 = chip("h100")
    measured = Figure(5.5e12, "a microbenchmark", basis="measured")
    levels = (m._replace(bandwidth=measured, achievable=None) if m.name == "l2" else m for m in h100.memories)
    return replace(h100, memories=tuple(levels))


def test_warm_data_in_a_level_that_was_measured_says_so() -> None:
    said = "the bandwidth of l2 is a measured one"
    assert said in bound(MATMUL, on=h100_of_a_measured_l2(), over="warm", B=64, D=4096, F=4096).assumptions
    assert said not in bound(MATMUL, on="a100", over="warm", B=1024, D=4096, F=2048).assumptions


def test_arrays_keep_their_shape() -> None:
    answer = bound(MATMUL, on="v5e", B=np.arange(1, 4)[:, None], D=np.arange(1, 3), F=4)
    assert answer.lower.shape == (3, 2)
    assert answer.bound_by.codes.shape == (3, 2)


def test_bare_intensities_side_by_side_are_ranked_by_what_they_attain() -> None:
    both = bound(intensity=50, dtype="bf16", on="h100,a100")
    assert both.headline == "attainable"
    assert not [name for name in both.facts if name in ("at best", "at worst")]
    assert both.best("attainable") == ("h100",)
    attained = [50 * each.machine.figure("hbm").value for each in both.answers]
    assert both.ranked == pytest.approx(attained)


def test_a_bare_intensity_shows_what_it_attains() -> None:
    assert repr(bound(intensity=7, dtype="fp32", on="1080ti")) == (
        "<Bound: 3.39 TFLOP/s attainable on NVIDIA GTX 1080 Ti, memory-bound (dram)>"
    )


def test_padding_leaves_vector_work_alone() -> None:
    line = "h = bf16[128, 128] * bf16[128, 128]; softmax(bf16[4, 8])"
    plain, padded = (bound(line, on="v5e", pad=pad) for pad in (False, True))
    assert padded.lower == plain.lower


def test_chips_that_share_nothing_are_said() -> None:
    alone, shared = "nothing is sharded: each of the 8 chips does all of this", "an axis behind a size shares it, as in"
    answer = bound(MATMUL, on="h100:8", **SIZES)
    assert answer.idle_copies() == f"{alone}; {shared} B_X"
    assert answer.idle_copies() in as_text(answer.sections(), 120).splitlines()[2]
    beside = as_text(bound(MATMUL, on="h100:8,h100", **SIZES).sections(), 160)
    assert beside.count(shared) == 1
    assert "h100:8: nothing is sharded" in " ".join(beside.split()[:40])
    assert bound("bf16[64, 8] * bf16[8, 8]", on="v5e:4x4").idle_copies().endswith(f"{shared} 64_XY")
    mesh = {"data": 2, "model": 4}
    assert bound("bf16[64, 8] * bf16[8, 8]", on="h100", mesh=mesh).idle_copies().endswith(f"{shared} B_data")
    assert bound(flops=1e12, bytes=1e9, dtype="bf16", on="h100:8").idle_copies() == alone


def test_a_given_figure_that_is_likely_a_slip_is_said_first_and_once() -> None:
    said = "given hbm.bandwidth is below a thousandth of the catalog's figure: is its unit missing?"
    for answer in (
        bound(MATMUL, on="h100", set={"hbm": 3.35}, **SIZES),
        roofline.llm("llama-3-8b", on="h100", set={"hbm": 3.35}),
        roofline.train("llama-3-8b", on="h100:8", batch_tokens=2**20, set={"hbm": 3.35}),
        roofline.sweep("llama-3-8b", on="h100", batch=[1, 2], set={"hbm": 3.35}),
        roofline.sweep(MATMUL, on="h100", **{**SIZES, "B": [1, 2]}, set={"hbm": 3.35}),
    ):
        text = as_text(answer.sections(), 120)
        assert said in text.splitlines()[2]
        assert text.count(said) == 1


def test_a_size_that_does_not_divide_is_named_once() -> None:
    with pytest.raises(InputError, match=r"^a size of 63 does not divide over 4 chips; give a multiple of 4"):
        bound("bf16[63_X, 8] * bf16[8, 8]", on="v5e:4")


def test_a_sparse_peak_in_a_file_is_doubted(tmp_path: Path) -> None:
    path = tmp_path / "sparse.toml"
    lines = ["schema = 1", 'family = "mine"', "[chip.sparse]", 'inherits = "h100"']
    path.write_text("\n".join([*lines, "[chip.sparse.unit.tensor]", 'peak = { bf16 = "1979 TFLOP/s" }']))
    said = bound(MATMUL, on=str(path), **SIZES).assumptions
    assert "tensor.bf16 is exactly twice that of NVIDIA H100 SXM5 80GB: a sparse (or duplex) figure?" in said


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"on": 5}, "5 is not a machine"),
        ({"over": 3}, "over is 3; give the name of a level"),
        ({"unit": 3}, "unit is 3; give the name of a unit"),
        ({"policy": 3}, "policy is 3, and takes text; "),
        ({"overlap": "x"}, "overlap 'x' is not a fraction"),
        ({"set": "hbm=3"}, "set is 'hbm=3'; give figures by name"),
        ({"tile": 3}, "a tile is three sizes, not 3"),
        ({"polcy": "fused"}, "there is no argument 'polcy'; did you mean 'policy'?"),
        ({"overlp": 0.5}, "there is no argument 'overlp'; did you mean 'overlap'?"),
        ({"Q": "D"}, "size Q stands nowhere in the question; sizes are: B, D, F"),
        ({"tile": (8, 8, 8), "policy": "fused"}, "tile= goes with policy='tiled', not 'fused'"),
    ],
)
def test_arguments_of_the_wrong_kind(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        bound(MATMUL, **{"on": "h100", **wrong}, **SIZES)


@pytest.mark.parametrize(
    ("idle", "message"),
    [
        (
            {"compute": "fp8"},
            "compute= says nothing about raw work, which has no tensors; its arithmetic dtype is dtype=",
        ),
        ({"policy": "minimal"}, "policy= says nothing about raw work"),
        ({"tile": (8, 8, 8)}, "tile= says nothing about raw work"),
        ({"exact": True}, "exact= says nothing about raw work"),
        ({"pad": True}, "pad= says nothing about raw work"),
        ({"count_padding": False}, "count_padding= says nothing about raw work"),
        ({"mesh": {"X": 4}}, "mesh= says nothing about raw work"),
        ({"D": 8}, "size D stands nowhere in the raw work; sizes are: B"),
    ],
)
def test_raw_work_refuses_what_it_cannot_heed(idle: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        bound(flops="2*B*1e9", bytes=1e9, on="v5e", B=64, **idle)
    assert bound(flops="2*B*1e9", bytes=1e9, on="v5e", B="C/2", C=128).flops == 128e9
    assert bound(flops="2*B*1e9", bytes=1e9, on="v5e", sizes={"B": 64, "S": 8}).flops == 128e9  # sizes of several
    with pytest.raises(InputError, match="size S stands nowhere in the raw work; all its amounts are written as num"):
        bound(flops=1e9, bytes=1e9, on="v5e", sizes={"S": 8})


def test_one_measured_level_makes_no_measured_machine() -> None:
    machine = h100_of_a_measured_l2()
    said = bound(MATMUL, on=machine, over="l2", **SIZES).assumptions
    assert "dense data-sheet peaks and one-way bandwidths" in said
    assert "the bandwidth of l2 is a measured one" in said
    reached = bound(MATMUL, on=machine, over="l2", achievable=True, **SIZES).assumptions
    assert "no measured fraction for l2: the measured figure stands" in reached


def test_padding_names_the_unit_without_a_tile() -> None:
    with pytest.raises(InputError, match="TPU v5e has no tile size for vpu, on which this runs"):
        bound(MATMUL, on="v5e", pad=True, unit="vector", **SIZES)


def test_messages() -> None:
    with pytest.raises(InputError, match="no machine to run on"):
        bound(MATMUL, **SIZES)
    with pytest.raises(InputError, match="size B is given twice"):
        bound(MATMUL, on="v5e", sizes={"B": 1}, B=2)
    with pytest.raises(HardwareError, match="no measurement"):
        bound(MATMUL, on="this", **SIZES)


def test_public_names_exist() -> None:
    for name in roofline.__all__:
        assert getattr(roofline, name) is not None


def test_an_intensity_in_formulas_has_whole_factors_where_an_amount_is_no_whole_number() -> None:
    found = bound(flops="2*B*D", bytes="1.2*D + 4*B", on="h100").intensity
    assert str(found) == "2*B*D/(4*B + 1.2*D)"


def test_one_question_is_about_one_machine() -> None:
    with pytest.raises(InputError, match="is not a machine; ask about each, and compare: "):
        roofline.formula(MATMUL, on=["h100", "a100"], B=64, D=64, F=64)


def test_a_measured_total_says_what_splits_it() -> None:
    chain = "a = bf16[64, 8192] * bf16[8192, 8192]; gelu(a)"
    said = "a total does not say which operations lose it; a profile of the run does: roofline.profile(file, on=…)"
    assert said in " ".join(str(roofline.bound(chain, on="h100", measured="90us")).split())
    assert said not in str(roofline.bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100", measured="90us"))
    step = roofline.train("llama-3-8b", on="h100:64", batch_tokens=2**20, measured="3s")
    assert said in " ".join(str(step).split())


@pytest.mark.parametrize(
    ("chain", "alone"),
    [
        ("y = bf16[4096, 4096] * bf16[4096, 4096]; relu(y)", "bf16[4096, 4096] * bf16[4096, 4096]"),
        ("y = bf16[B, D] * bf16[D, F]; z = gelu(y); z + bf16[B, F]", ""),
    ],
)
def test_what_joins_a_kernel_overlaps_with_it_one_kernel_after_the_other(chain: str, alone: str) -> None:
    sizes = {"B": 4096, "D": 4096, "F": 4096} if "B" in chain else {}
    found = bound(chain, on="h100", policy="fused", **sizes)
    assert found.op_by_op == pytest.approx(max(found.times.values()))  # one kernel
    assert found.op_by_op < sum(part.lower for part in found.ops)
    assert bound(f"{chain}; softmax(bf16[64, 64])", on="h100", policy="fused", **sizes).op_by_op > found.op_by_op
    if alone:
        plain = bound(alone, on="h100")
        assert found.op_by_op == pytest.approx(plain.op_by_op)
        assert sum(found.bytes.values()) == sum(plain.bytes.values())
    if sizes:
        several = bound(chain, on="h100", policy="fused", **{**sizes, "B": [64, 4096]})
        assert several.op_by_op[1] == pytest.approx(found.op_by_op, rel=1e-12)


def test_equal_operations_of_a_long_answer_stand_in_one_row() -> None:
    line = "; ".join(["bf16[64, 512] * bf16[512, 512]", *["gelu(bf16[64, 512])"] * 30])
    answer = roofline.bound(line, on="h100")
    shown = str(answer)
    (row,) = [text for text in shown.splitlines() if "gelu" in text and text.endswith("  hbm")]
    whole = sum(part.lower for part in answer.ops if "gelu" in part.op.name)
    assert " 30  " in row
    assert f"{format_amount(whole, 's')}  hbm" in row
    assert len(answer.to_pandas()) == len(answer.ops) == 31
    few = str(roofline.bound("; ".join(["gelu(bf16[64, 512])"] * 3), on="h100"))
    assert "count" not in few


def test_what_is_picked_of_a_result_is_the_same_floor_of_a_number_an_array_and_a_formula() -> None:
    line, D = "h = relu(bf16[N, D]); take(h, int32[K])", 64
    rows = bound(line, on="h100", policy="minimal", N=[10, 1000], K=100, D=D)
    for at, N in enumerate((10, 1000)):
        one = bound(line, on="h100", policy="minimal", N=N, K=100, D=D)
        read = min(N, 100) * D * 2 + 100 * 4
        assert one.total_bytes == rows.total_bytes[at] == read + 100 * D * 2
    assert one.formula().values()["bytes"] == pytest.approx(one.total_bytes)


def test_fused_says_where_it_joins_nothing_and_names_minimal() -> None:
    """A reader took ``fused`` for one kernel for the whole block; it moved as many bytes as the default."""
    block = "q = bf16[B, D] * bf16[D, F]; q * bf16[F, D]"
    sizes = {"B": 2048, "D": 4096, "F": 4096}
    fused, apart, minimal = (bound(block, on="h100", policy=name, **sizes) for name in ("fused", "each-op", "minimal"))
    assert fused.total_bytes == apart.total_bytes > minimal.total_bytes
    said = " ".join(str(fused).split())
    assert "policy='fused' changes nothing here against each-op: only elementwise operations join" in said[:250]
    assert "policy='minimal' keeps all intermediates on chip: 134 MB → 101 MB" in said
    assert "changes nothing" not in str(apart) + str(minimal)
    assert "changes nothing here against each-op: there are no intermediates" in str(
        bound(MATMUL, on="h100", policy="minimal", **SIZES)
    )
    joined = bound("h = bf16[B, D] * bf16[D, F]; gelu(h)", on="h100", policy="fused", **sizes)
    assert "changes nothing" not in str(joined)


def test_the_machine_that_a_line_names_stands_beside_it_and_not_in_it() -> None:
    line = "bf16[8, 8] * bf16[8, 8] on v5e over vmem"
    titles = [str(bound(line, on=on, over=over)).splitlines()[0] for on, over in ((None, None), ("h100", "l2"))]
    shown = "bf16[8, 8] * bf16[8, 8] -> bf16[8, 8]  on "
    assert titles == [f"{shown}TPU v5e", f"{shown}NVIDIA H100 SXM5 80GB"]


def test_a_figure_of_ones_own_goes_with_open_sizes_over_chips() -> None:
    found = bound("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="h100:8", set={"hbm": "2x"})
    assert "given by the caller: hbm at 6.7 TB/s" in str(found)
