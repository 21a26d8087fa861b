"""Sweeps and arrays by the closed form: equal to what blocks of arrays give; as data for other libraries."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import roofline
from roofline.bounds import arrays as by_arrays
from roofline.bounds import sweep as by_sweep
from roofline.bounds.api import bound
from roofline.bounds.arrays import ArrayBound, ArrayLine
from roofline.bounds.bound import Bound
from roofline.bounds.sweep import COLUMNS, sweep
from roofline.charts.size_charts import series
from roofline.cli import cli, main
from roofline.errors import InputError, OutOfMemoryError, SizeError
from roofline.formulas.column_code import ALIKE, BlockCode, ColumnForms, column_code
from roofline.models import serve_bound, train
from roofline.models import sweeps as model_sweeps
from roofline.models.closed_form import model_formula, step_function
from roofline.models.serving.bound import Pipelined
from roofline.models.sweeps import sweep_steps
from roofline.models.training.answer import Training
from roofline.sizes import BLOCK, symbol
from tests.formulas.test_closed_form import in_python
from tests.strategies import LONG, some

LINE = "h = bf16[B, D] * int4[D, F]; gelu(h)"


@pytest.fixture
def by_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a few rows go by the closed form too, as long ones do."""
    monkeypatch.setattr(model_sweeps, "FEW_ROWS", 0)


def test_arrays_by_the_closed_form_equal_blocks_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"B": np.arange(1, 20001), "D": 4097, "F": 1025}
    lazy = bound(LINE, on="h100", sizes=sizes, overlap=0.5)
    monkeypatch.setattr(ArrayLine, "compiled", lambda line: None)
    blocks = bound(LINE, on="h100", sizes=sizes, overlap=0.5)
    assert isinstance(lazy, ArrayBound)
    assert not isinstance(blocks, ArrayBound)
    for name in by_arrays.SCALARS[:-1]:
        found, wanted = getattr(lazy, name), getattr(blocks, name)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, equal_nan=False, err_msg=name)
    assert lazy.bound_by.decode() == blocks.bound_by.decode()
    for table in by_arrays.TABLES:
        assert list(getattr(lazy, table)) == list(getattr(blocks, table))
    assert lazy.assumptions == blocks.assumptions


@pytest.mark.parametrize("line", ["cumsum_D(fp32[B, D])", LINE])
def test_blocks_of_rows_on_several_cores_and_grids_give_the_same(line: str) -> None:
    axes = {"B": np.arange(1, 201)[:, None], "D": np.arange(1, 401)[None, ::2] * 11, "F": 1025}
    axes = {name: values for name, values in axes.items() if name in line}
    flat = {n: np.broadcast_to(v, (200, 200)).reshape(-1) if np.ndim(v) else v for n, v in axes.items()}
    compiled = bound(line, on="h100").compile()
    names = ("lower", "bound_by", "upper", "op_by_op")
    alone, grid = compiled(names, **flat), compiled(names, **axes)
    several, square = compiled(names, cores=2, **flat), compiled(names, cores=2, **axes)
    for name in names:
        assert alone[name].tolist() == several[name].tolist()
        assert grid[name].tolist() == square[name].tolist()
        if name == "bound_by":
            assert alone[name].tolist() == square[name].reshape(-1).tolist()
        else:
            np.testing.assert_allclose(alone[name], square[name].reshape(-1), rtol=1e-14, equal_nan=False)


@pytest.mark.parametrize("power", [2, 3, 4, 5])
def test_a_power_of_a_size_is_a_product_of_as_many(power: int) -> None:
    B, out, sizes = symbol("B"), np.empty(3), np.array([1.0, 2.0, 3.0])
    code = column_code(
        "demo", ColumnForms({"B": B}, {}, {}, {"hbm": B**power / 8}, {}, {}), ("lower",), frozenset("B"), True
    )
    code.rows([np.empty(3) for _ in code.rows_buffers], [out], sizes)
    assert out.tolist() == [size**power / 8 for size in sizes]


def test_windows_that_share_a_stride_are_exact_on_every_step() -> None:
    """Places of windows are floor((X − 2)/3) + 1, and gaps floor((X − 1)/3): neither is made of a shared X/3."""
    X = np.arange(2, 500)
    form = roofline.formula("pool(bf16[1, X, 2, 1], window=2, stride=3)", on="h100")
    places = (X - 2) // 3 + 1
    assert (form(X=X, W_hbm=1.0)["time.hbm"] == 2 * (4 * places + places)).all()


def test_blocks_take_the_fastest_way_row_by_row() -> None:
    function = step_function("deepseek-v3", "prefill", on="h200:8", tensor=8, past=1)
    sizes = {"batch": np.arange(1, 101)[:, None], "prompt": np.arange(1, 201)[None, :], "past": 900}
    names = ("lower", "time.hbm", "bound_by", "memory")
    found, again = function(names, **sizes), function(names, cores=2, **sizes)
    ways = [way(names, **sizes) for way in function.ways]
    second = ways[1]["lower"] < ways[0]["lower"]
    assert 0 < second.sum() < second.size > BLOCK
    for name in names:
        assert (found[name] == np.where(second, ways[1][name], ways[0][name])).all()
        assert found[name].tolist() == again[name].tolist()


def test_a_name_for_a_kept_part_keeps_it() -> None:
    B, one, two = symbol("B"), symbol("one"), symbol("two")
    rows = BlockCode({B: ALIKE}, [B * B, one, 3 * B * (B + 1), two * 2])
    rows.keep(one, B * B)
    rows.keep(two, one)
    rows.put(3 * B * (B + 1), "outs[0]")
    rows.put(two * 2, "outs[1]")
    outs, space = [np.zeros(3), np.zeros(3)], np.zeros((9, 3))
    names = {f"t_{index}": space[index] for index in range(len(rows.buffers))}
    exec("\n".join(rows.lines), {"numpy": np, "outs": outs, "B_": np.array([1.0, 2.0, 3.0]), **names})
    assert [out.tolist() for out in outs] == [[6, 18, 36], [2, 8, 18]]


def test_a_mistake_in_a_long_array_says_where() -> None:
    with pytest.raises(SizeError, match=r"size B is 2\.5 at index 99999"):
        bound(LINE, on="h100", B=np.r_[np.arange(1, 100_000), 2.5], D=8, F=8)


GRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "a line": (LINE, {"on": "v5e", "B": range(1, 201), "D": [1024, 2048], "F": range(8, 8 * 51, 8)}),
    "sizes as text": (
        "bf16[B, D] * bf16[D, F]", {"on": "h100", "B": range(1, 201), "D": "2*N", "N": range(1, 101), "F": "4*D"},
    ),
    "split over chips": (
        "A[I_X, J] * B[J, K_Y] -> C[I, K]", {"on": "v5e:4x4", "I": range(4, 804, 4), "J": 512, "K": range(4, 404, 4)},
    ),
    "padded": (
        "A[I_X, J] * B[J, K] -> C[I_X, K]", {"on": "v5e:4", "I": range(1, 201), "J": range(1, 101), "K": 8,
        "uneven": "pad"},
    ),
    "a collective": (
        "AllReduce_X(bf16[B, D] {U_X})", {"on": "h200:8", "B": range(1, 201), "D": range(8, 8 * 101, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", some(GRIDS, 2))
def test_a_sweep_by_the_closed_form_equals_one_by_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, asked = GRIDS[kind]
    columns = [name for name in COLUMNS if name != "times"] if kind == "a collective" else COLUMNS
    fast = sweep(line, columns=columns, **asked)
    monkeypatch.setattr(ArrayLine, "compiled", lambda line: None)
    slow = sweep(line, columns=columns, **asked)
    assert list(fast) == list(slow)
    for name in fast:
        one, other = fast[name], slow[name]
        assert one.dtype == other.dtype, name
        same = one == other if one.dtype.kind in "OUb" else np.isclose(one, other, rtol=1e-12, atol=0, equal_nan=True)
        assert same.all(), name


#: Lines split over chips, whose plans may split labels that the line itself does not.
SPLIT_FURTHER = (
    "h = {d}[B, D_X] * {d}[D_X, F]; gelu(h)",
    "h = {d}[B, D] * {d}[D, F_X]; g = gelu(h); g * {d}[F_X, D]",
    "softmax_F({d}[B, F_X] + {d}[B, F_X])",
    "{d}[B_X, D] * {d}[D, F]",
    "attention({d}[D, B, 64_X, 128], {d}[D, F, 8, 128], {d}[D, F, 8, 128])",
)


@pytest.mark.parametrize("line", some(SPLIT_FURTHER, 2))
def test_a_row_of_a_line_over_chips_is_what_its_number_gives(line: str) -> None:
    """The plan is chosen once, of those that every size allows; arrays are refused where their numbers are."""
    chance = random.Random(line)
    for _ in range(20 if LONG else 2):
        asked: dict[str, Any] = {
            "on": chance.choice(("h100:8", "v5e:4", "mi300x:8")),
            "policy": chance.choice(("each-op", "fused")),
            "uneven": chance.choice(("error", "error", "pad")),
        }
        text = line.format(d=chance.choice(("bf16", "fp32", "int8")))
        few = np.array([int(8 * chance.choice((1, 2, chance.choice((2, 1 / 8, 9.5))))) for _ in range(6)])
        many = np.resize(few, 3 * BLOCK)
        sizes = {"D": 8 * chance.choice((1, 128)), "F": chance.choice((64, 8004))}
        try:
            short = bound(text, **asked, sizes={**sizes, "B": few})
        except SizeError as error:
            assert "_X" in line
            for ask, size in ((bound, many), (sweep, few), (sweep, many)):
                with pytest.raises(SizeError, match=re.escape(error.message)):
                    ask(text, **asked, sizes={**sizes, "B": size})
            continue
        long = bound(text, **asked, sizes={**sizes, "B": many})
        table = sweep(text, **asked, sizes={**sizes, "B": few}, columns="lower,op_by_op,upper,bound_by")
        for row, size in enumerate(few.tolist()):
            number = bound(text, **asked, plan=short.plan, sizes={**sizes, "B": size})
            assert short.plan == long.plan == table.row(row).plan
            for name in ("lower", "op_by_op", "upper"):
                rows = [getattr(short, name)[row], getattr(long, name)[row], table[name][row]]
                assert rows == pytest.approx([getattr(number, name)] * 3, rel=1e-12)
            assert table["bound_by"][row] == number.bound_by


def test_a_plan_says_which_open_sizes_its_chips_divide() -> None:
    line = "h = bf16[B, D_X] * bf16[D_X, F]; gelu(h)"
    found = roofline.formula(line, on="h100:8", D=1024, F=4096)
    assert found(B=[8, 100]).invalid == {"B is no multiple of the 8 chips that it is split over": 1}
    heads = "attention(bf16[B, S, N_X, 128], bf16[B, T, K, 128], bf16[B, T, K, 128])"
    found = roofline.formula(heads, on="h100:8", B=8, S=64, T=64, N=48)
    assert found(K=[2, 3]).invalid == {"8 chips are no multiple of the K heads of keys that they share": 1}


def test_a_sweep_without_a_closed_form_says_so() -> None:
    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", over="warm", B=range(1, 201), D=range(1, 101), F=8)
    assert "rows are priced as arrays, not by a closed form: rates depend on which level holds the data" in (
        table.assumptions
    )


def test_rows_without_figures_are_counted_by_their_reasons() -> None:
    line, few = "topk_V(bf16[B_X, V], k=8)", "topk cannot take 8 of fewer"
    table = sweep(line, on="h100", mesh={"X": 4}, B=[3, 4, 8], V=[4, 8])
    split = "2 of 6 rows have no figures: B is no multiple of the 4 chips that it is split over"
    assert table.incomplete == (split, f"2 of 6 rows have no figures: {few}")
    # of many rows those that can be may begin behind the first block
    rows = BLOCK + 9
    long = sweep("topk_V(bf16[B, V], k=8)", on="h100", V=[6, 7, 8, 9], B=range(1, rows + 1))
    assert np.isnan(long["lower"]).tolist() == [True] * (2 * rows) + [False] * (2 * rows)
    assert long.incomplete == (f"{2 * rows:,} of {4 * rows:,} rows have no figures: {few}",)


def test_rows_that_chips_do_not_divide_have_no_figures_and_others_do() -> None:
    line = "A[B_X, D] * W[D, F_X] -> C[B_X, F]"
    sizes: dict[str, Any] = {"on": "h100:8", "D": 128, "F": 128}
    table, whole = (sweep(line, **sizes, B=rows) for rows in ([1, 8, 100, 16], [8, 16]))
    assert table["bound_by"].tolist() == ["", whole["bound_by"][0], "", whole["bound_by"][1]]
    assert np.isnan(table["lower"]).tolist() == [True, False, True, False]
    assert table["lower"][[1, 3]].tolist() == whole["lower"].tolist()
    reason = "rows have no figures: B is no multiple of the 8 chips that it is split over"
    assert table.incomplete == (f"2 of 4 {reason}",)
    assert table.to_dict()["columns"]["lower"][0] is None
    long = sweep(line, **sizes, B=range(1, BLOCK + 9))
    assert long["lower"][7::8].tolist() == pytest.approx(
        sweep(line, **sizes, B=range(8, BLOCK + 9, 8))["lower"].tolist()
    )
    assert long.incomplete == (f"{(BLOCK + 8) // 8 * 7:,} of {BLOCK + 8:,} {reason}",)
    (curve,) = series(line, "B", sizes={"B": range(1, 65), "D": 128, "F": 128}, on="h100:8")
    assert [x for x in curve.x if x in range(1, 65)] == list(range(8, 65, 8))
    assert f"56 of 64 {reason}" in curve.said
    named = "sizes B of 1, 2, 3, 4 and 2 more do not divide over 8 chips; give a multiple of 8"
    for ask, rows in ((sweep, [1, 2, 3, 4, 5, 6]), (bound, [1, 2, 3, 4, 5, 6, 8])):
        with pytest.raises(SizeError, match=named):
            ask(line, **sizes, B=rows)


@pytest.mark.parametrize("first", [1, 8])
@pytest.mark.parametrize("many", [20, BLOCK + 10])
def test_windows_that_do_not_fit_have_no_figures_by_arrays_and_by_the_closed_form(first: int, many: int) -> None:
    line = "conv(bf16[1, H, 16, 3], bf16[7, 7, 3, 64])"
    table = sweep(line, on="h100", H=[first, *range(1, many)])
    given = np.array([first, *range(1, many)])
    assert (np.isnan(table["lower"]) == (given < 7)).all()
    assert table["lower"][9] == bound(line, on="h100", H=9).lower
    wrong = int((given < 7).sum())
    assert [text.partition(" of ")[0] for text in table.incomplete] == [str(wrong)]
    form = roofline.formula("topk_V(bf16[B, V], k=8)", on="h100")
    assert form(B=1, V=[7, 8]).invalid == {"topk cannot take 8 of V": 1}
    assert roofline.formula("conv(bf16[1, H, 16, 3], bf16[7, 7, 3, 64], pad=3, stride=2)", on="h100").conditions == ()


def test_a_sweep_over_machines_is_that_of_each() -> None:
    asked: dict[str, Any] = {"B": [8, 4096], "D": 131072, "F": "D"}
    table = sweep("bf16[B, D] * bf16[D, F]", on=["h100", "v5e"], **asked)
    assert next(iter(table)) == "on"
    assert len(table) == 4
    for start, chip in ((0, "h100"), (2, "v5e")):
        alone = sweep("bf16[B, D] * bf16[D, F]", on=chip, **asked)
        assert set(table["on"][start : start + 2]) == {chip}
        for name in ("B", "F", "lower", "bound_by"):
            assert table[name][start : start + 2].tolist() == alone[name].tolist()
    assert table.plain("fits") == [True, True, False, False]
    assert table.row(3).machine.key == "v5e"
    assert table.to_dict()["machines"] == ["h100", "v5e"]
    asked_as = ["sweep", "bf16[B, D] * bf16[D, F]", "--on", "h100,v5e", "B=8:16:*2", "D=4096", "F=D"]
    assert CliRunner().invoke(cli, asked_as).output.count("v5e") == 2


def test_a_sweep_is_data_for_other_libraries(tmp_path: Path) -> None:
    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], D=[8, 16], F="D")
    assert table["B"].dtype == np.int64
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    frames = [pandas.DataFrame(table), table.to_pandas()]
    for frame in frames:
        assert list(frame.columns) == list(table)
        assert frame["B"].tolist() == [1, 1, 2, 2]
        assert frame["bound_by"].tolist() == table["bound_by"].tolist()
    assert polars.DataFrame(table.to_arrow()).shape == (4, len(list(table)))
    assert table.to_polars()["lower"].to_list() == table["lower"].tolist()
    assert pyarrow.table(table).column_names == list(table)
    table.save(str(tmp_path / "grid.parquet"))
    assert pandas.read_parquet(tmp_path / "grid.parquet")["D"].tolist() == [8, 16, 8, 16]
    table.save(str(tmp_path / "grid.csv"))
    assert (tmp_path / "grid.csv").read_text().splitlines()[1].startswith("1,8,8,")


def test_what_is_done_when_a_sweep_is_stopped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_sweep, "BLOCK", 10)
    monkeypatch.setattr(by_arrays, "BLOCK", 10)
    monkeypatch.setattr(ArrayLine, "compiled", lambda line: None)

    def stop(done: int, rows: int) -> None:
        if done >= 30:
            raise KeyboardInterrupt

    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", B=range(1, 101), D=8, F=8, progress=stop)
    assert len(table) == 30
    assert table.incomplete == ("stopped after 30 of 100 rows",)
    monkeypatch.undo()

    def stop_late(done: int, rows: int) -> None:
        if done > 20_000:
            raise KeyboardInterrupt

    asked: dict[str, Any] = {"on": "h100", "B": range(1, 401), "D": range(8, 808, 8), "F": 8}
    some, every = (sweep("bf16[B, D] * bf16[D, F]", progress=told, **asked) for told in (stop_late, None))
    assert 20_000 < len(some) < len(every) == 40_000
    assert some.incomplete == (f"stopped after {len(some):,} of 40,000 rows",)
    assert all(some.plain(name) == every.plain(name)[: len(some)] for name in some)
    steps = sweep_steps("llama-2-7b", on=["h100", "h200"], batch=[1, 2], context=8, progress=_stop_now)
    assert len(steps) == 2
    assert "stopped after 2 of 4 rows" in steps.incomplete


def _stop_now(done: int, rows: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("by_closed_form")
def test_a_sweep_of_steps_is_what_each_step_gives() -> None:
    batch, context = [1, 63], [100, 4000]
    choices: dict[str, Any] = {"on": ["h100:2", "a100:4"], "tensor": [1, 2], "weights": ["fp16", "int8"]}
    table = sweep_steps("llama-2-7b", **choices, batch=batch, context=context)
    assert len(table) == 2 * 2 * 2 * 4
    for row in range(0, len(table), 7):
        asked = {name: table[name][row] for name in ("on", "weights")}
        sizes = {name: int(table[name][row]) for name in ("tensor", "batch", "context")}
        number = serve_bound("llama-2-7b", "decode", **asked, **sizes)
        assert table["lower"][row] == pytest.approx(number.lower, rel=1e-12)
        assert table["bound_by"][row] == number.bound_by
        assert number.footprint is not None
        assert bool(table["fits"][row]) == number.footprint.fits


def test_a_price_adds_a_cost_and_names_the_cheapest_row_that_fits() -> None:
    """Every row costs, and makes, what an answer of its own says; chips are those of the layout."""
    names = "cost_per_million,tokens_per_second,tokens_per_second_per_chip,throughput,time_per_token,fits"
    sizes: dict[str, Any] = {"batch": [16, 128], "context": [2048, 8192], "tensor": [1, 2, 4]}
    table = roofline.sweep("qwen3-32b", on=["h100", "h200:4"], price=[2.5, 4], columns=names, **sizes)
    for at in range(len(table)):
        on, tensor, batch, context = (table.plain(name)[at] for name in ("on", "tensor", "batch", "context"))
        asked = {"tensor": tensor, "batch": batch, "context": context, "price": 2.5 if on == "h100" else 4}
        one = roofline.llm("qwen3-32b", on=on, **asked)
        assert table["tokens_per_second"][at] == pytest.approx(one.tokens_per_second)
        assert table["throughput"][at] == table["tokens_per_second_per_chip"][at]
        assert table["throughput"][at] == pytest.approx(one.tokens_per_second / one.chips)
        assert table["time_per_token"][at] == pytest.approx(one.decode.lower)
        wanted = one.cost_per_million if one.memory.fits else float("nan")
        assert table["cost_per_million"][at] == pytest.approx(wanted, nan_ok=True)
    usual = roofline.sweep("qwen3-32b", on="h100", price=2.5, **sizes)
    assert list(usual)[-1] == "cost_per_million"
    assert "cheapest  $0.2149 a million tokens (4.65M for a dollar): tensor 2, batch 128" in str(usual)
    with pytest.raises(InputError, match="cost_per_million needs the price of a chip; give price="):
        sweep_steps("llama-3-8b", on="h100", batch=[1], columns="cost_per_million")
    with pytest.raises(InputError, match="time_per_token is of decode, and this is prefill; lower is the"):
        sweep_steps("llama-3-8b", "prefill", on="h100", prompt=[512], columns="time_per_token")
    with pytest.raises(
        InputError, match=r"price= is of the sweep of a model, .*; roofline\.bound\(\) takes it, over arr"
    ):
        roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1], D=8, F=8, price=2)


def test_a_part_of_times_or_memory_that_no_choice_has_is_refused() -> None:
    def columns(names: str, **asked: Any) -> list[str]:
        return list(sweep_steps("llama-3-8b", on=["h100", "h100:8"], batch=[1], context=64, columns=names, **asked))

    with pytest.raises(InputError, match=r"no column 'time\.hbn'; did you mean 'time\.hbm'"):
        columns("lower,time.hbn", tensor=1)
    with pytest.raises(InputError, match=r"no column 'memory\.experts'; did you mean 'memory\.weights'"):
        columns("memory.kv,memory.experts", keep="top=1:memory.kv")
    assert columns("time.nvlink,memory.kv", tensor=8)[-2:] == ["time.nvlink", "memory.kv"]  # of one choice alone


def test_a_limit_marks_rows_that_take_longer_and_keeps_them_from_every_choice() -> None:
    sizes: dict[str, Any] = {"batch": [1, 64, 256, 512], "context": 1024, "price": 2.5}
    every = sweep_steps("llama-3-8b", on=["h100", "h200"], **sizes)
    table = sweep_steps("llama-3-8b", on=["h100", "h200"], tpot="14ms", **sizes)
    quick = every["lower"] <= 14e-3
    assert table.plain("within") == quick.tolist()
    wanted = np.where(quick, every["cost_per_million"], np.nan)
    np.testing.assert_array_equal(table["cost_per_million"], wanted)
    assert table.cheapest == np.nanargmin(wanted) != every.cheapest
    misfits, slow = every["fits"] == 0, (every["fits"] == 1) & ~quick
    assert [said for name, said in table.remarks() if name == "no cost"] == [
        f"{misfits.sum()} of 8 rows: does not fit the memory",
        f"{slow.sum()} of 8 rows: takes longer at best than the limit of 14 ms",
    ]
    assert "none that fits is within the limit at batch 512" in dict(table.remarks())["fastest"]
    kept = sweep_steps("llama-3-8b", on=["h100", "h200"], tpot=0.014, keep="top=9:cost_per_million", **sizes)
    assert kept["top"].plain("row") == np.argsort(wanted)[: np.isfinite(wanted).sum()].tolist()
    assert kept.left_out == {
        "does not fit the memory": misfits.sum(),
        "takes longer at best than the limit": slow.sum(),
    }
    first = sweep_steps("llama-3-8b", "prefill", on="h100", prompt=[512, 65536], ttft="1s", columns="lower")
    assert first.plain("within") == [True, False]
    with pytest.raises(InputError, match="tpot= is a limit of decode, and this is prefill; leave it out"):
        sweep_steps("llama-3-8b", "prefill", on="h100", prompt=[512], tpot=1)
    with pytest.raises(
        SizeError, match=r"tpot= is a limit of a batch, and none is given; several are judged one by one"
    ):
        sweep_steps("llama-3-8b", on="h100", context=512, tpot=1)
    with pytest.raises(InputError, match="within needs a limit; as in tpot='30ms' of decode"):
        sweep_steps("llama-3-8b", on="h100", batch=[1], columns="within")
    with pytest.raises(InputError, match="tpot= is of the sweep of a model, and this is a line"):
        roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1], D=8, F=8, tpot=2)


def test_the_command_prices_the_steps_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "qwen3-32b", "--on", "h100", "--batch", "16,128", "--context", "2048", "--tensor", "1,2"]
    assert main([*asked, "--price", "2.5"]) == 0
    assert "cheapest  $0.2149 a million tokens (4.65M for a dollar): tensor 2, batch 128" in capsys.readouterr().out
    for price, said in (("25000", "$2,149 a million tokens (465 for a dollar):"), ("0", "$0 a million tokens: ")):
        assert main([*asked, "--price", price]) == 0
        assert f"cheapest  {said}" in capsys.readouterr().out
    assert main([*asked, "--price", "1e9"]) == 0
    assert "for a dollar" not in capsys.readouterr().out
    assert main(["sweep", "bf16[B] + bf16[B]", "--on", "h100", "B=1,2", "--price", "2"]) == 2
    assert "--price is about a model, and this is a line of notation" in capsys.readouterr().err


def test_choices_that_are_not_possible_are_left_out_and_counted() -> None:
    table = sweep_steps("llama-2-7b", on="h100:4", tensor=[4, 8], batch=[1, 2], context=64)
    assert np.isnan(table["lower"]).tolist() == [False, False, True, True]
    assert table.incomplete[0].startswith("2 rows have no figures: on h100:4, tensor 8:")
    with pytest.raises(InputError, match="tensor 8"):
        sweep_steps("llama-2-7b", on="h100:4", tensor=[8, 16], batch=[1, 2], context=64)


def test_the_command_takes_a_model_on_several_chips(tmp_path: Path) -> None:
    file = tmp_path / "grid.csv"
    where = ["--on", "h100:2,h200:2", "--tensor", "1,2"]
    words = ["sweep", "llama-2-7b", *where, "--batch", "1:4", "--context", "64:256:*2"]
    done = CliRunner().invoke(cli, [*words, "-o", str(file)], catch_exceptions=False)
    assert done.output.startswith("wrote 48 rows")
    assert len(file.read_text().splitlines()) == 49
    formula = CliRunner().invoke(cli, ["formula", "llama-2-7b", "--on", "h100", "--batch", "8", "--context", "1024"])
    assert all(word in formula.output for word in ("hbm", "weights", "keys and values"))


@pytest.mark.parametrize(("model", "phase"), some([("llama-3-8b", "decode"), ("deepseek-v3", "prefill")], 2))
def test_a_step_over_long_arrays_is_single_answers(model: str, phase: str) -> None:
    rows, chance = 20_000, np.random.default_rng(0)
    sizes: dict[str, Any] = {"batch": chance.integers(1, 200, rows)}
    sizes |= {"context": chance.integers(0, 4000, rows)} if phase == "decode" else {"prompt": 64, "past": 900}
    found = serve_bound(model, phase, on="h200:8", tensor=8, **sizes)
    assert isinstance(found, ArrayBound)
    assert found.footprint is not None
    for row in (0, 777, rows - 1):
        at = {name: int(value[row]) if np.ndim(value) else value for name, value in sizes.items()}
        one = serve_bound(model, phase, on="h200:8", tensor=8, **at)
        assert one.footprint is not None
        assert found.lower[row] == pytest.approx(one.lower, rel=1e-12)
        assert found.op_by_op[row] == pytest.approx(one.op_by_op, rel=1e-12)
        assert found.times["hbm"][row] == pytest.approx(one.times["hbm"], rel=1e-12)
        assert found.bound_by.decode()[row] == one.bound_by
        assert found.footprint.total[row] == pytest.approx(one.footprint.total, rel=1e-12)


@pytest.mark.long
def test_a_sweep_trains_in_as_many_parts_as_train_does() -> None:
    """The same step gives the same answer whoever asks: 3.08 s in 4 parts that fit, not in one of 314 GB."""
    grids = (
        ("llama-3-8b", {"on": "h100:64", "batch_tokens": some([2**22, 2**20, 3_000_000], 2), "sequence": [2048, 8192]}),
        (
            "llama-3-8b",
            {"on": "h100:64", "batch_tokens": [2**22], "fsdp": some([8, 16, 64], 2), "data": some([1, 4, 8], 2)},
        ),
        ("llama-3-70b", {"on": ["h100:128", "h200:128"], "tensor": [8], "batch_tokens": [4_000_000]}),
        ("llama-3-70b", {"on": "h100:8", "tensor": [8], "batch_tokens": [16384], "checkpoint": ["none", "full"]}),
    )
    for model, asked in some(grids, 2):
        grid = roofline.sweep(model, "train", **asked)
        for row in range(len(grid)):
            if np.isnan(grid["lower"][row]):
                continue
            own = {name: grid.plain(name)[row] for name in asked if name in grid}
            step = roofline.train(model, **{"on": asked["on"], "tensor": asked.get("tensor", [1])[0], **own})
            assert grid["lower"][row] == pytest.approx(step.lower, rel=1e-9)
            assert (grid.plain("microbatches")[row], bool(grid["fits"][row])) == (step.microbatches, step.fits)
    given = roofline.sweep("llama-3-8b", "train", on="h100:64", batch_tokens=[2**22], microbatches=[4, 4096])
    assert [bool(fits) for fits in given["fits"]] == [True, False]  # 4,096 parts are less than a sequence each
    staged = roofline.sweep("llama-3-8b", "train", on="h100:64", batch_tokens=[2**22], pipeline=[1, 2])
    assert "microbatches" not in staged
    assert staged["lower"][0] == pytest.approx(roofline.train("llama-3-8b", on="h100:64", batch_tokens=2**22).lower)


def test_the_command_lists_ways_and_policies_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "llama-3-8b", "--on", "h100:64", "--batch-tokens", "4M", "--json"]
    assert main([*words, "--checkpoint", "none,full", "--fsdp", "16,64", "--data", "1,4"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert sorted(set(columns["checkpoint"])) == ["full", "none"]
    assert sorted(set(columns["fsdp"])) == [16, 64]
    assert main([*words, "--checkpoint", "layernorm,mlp_act"]) == 0  # modules with commas are one policy
    assert "checkpoint" not in json.loads(capsys.readouterr().out)["columns"]


def test_some_columns_make_a_frame() -> None:
    pytest.importorskip("pandas")
    found = roofline.formula("bf16[B, D] * bf16[D, F]", on="h100", D=8192, F=8192)(B=np.arange(1.0, 9.0))
    frame = found.to_pandas(columns=["B", "lower"])
    assert (list(frame), frame.attrs["units"]["lower"]) == (["B", "lower"], "s")
    assert frame["lower"].tolist() == found["lower"].tolist()
    with pytest.raises(InputError, match="no column 'time'"):
        found.to_pandas(columns=["time"])


def test_a_row_whose_layout_leaves_an_option_idle_is_answered() -> None:
    """Sums by tokens are of several chips, and a list of layouts may hold one alone."""
    grid = sweep_steps("llama-3-8b", on="h100:8", tensor=[1, 8], sequence_parallel=True, batch=[8], context=1024)
    assert [grid.row(index).lower for index in range(len(grid))] == pytest.approx(grid["lower"].tolist())


def test_a_file_says_the_conventions_and_figures_of_ones_own(tmp_path: Path) -> None:
    lines = roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 8], D=64, F=64, overlap=0.5, set={"hbm": 4e12})
    steps = roofline.sweep("llama-3-8b", on="h100", batch=[1, 8], context=64, set={"hbm": 4e12})
    for table, wanted in (
        (lines, {"overlap": "0.5", "set": "hbm.bandwidth=4e+12"}),
        (steps, {"set": "hbm=4e+12"}),
    ):
        table.save(tmp_path / "table.csv")
        with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [{name: row[name] for name in wanted} for row in rows] == [wanted] * 2


def test_a_table_of_training_steps_has_the_cost_of_its_tokens() -> None:
    table = roofline.sweep("llama-3-8b", "train", on="h100:8", batch_tokens=[2**16, 2**17], price=2)
    step = table["lower"][0]
    assert table["cost_per_million"][0] == pytest.approx(8 * 2 / 3600 * step / 2**16 * 1e6, rel=1e-12)
    assert table.cheapest is not None


def test_the_fastest_of_several_choices_is_named_at_each_size() -> None:
    def said(table: Any) -> list[str]:
        return [line for name, line in table.remarks() if name == "fastest"]

    line = "bf16[B, 8192] * bf16[8192, 8192]"
    beside = sweep(line, on=["h100", "h200"], B=[64, 4096])
    assert said(beside) == ["h200 at B 64; h100 and h200 alike at B 4,096"]
    assert said(sweep(line, on="h100", B=[64, 4096])) == []
    steps = sweep_steps("llama-3-70b", on=["h100:8", "h200:8"], tensor=[4, 8], batch=[1, 64], context=[8000, 64000])
    frame = steps.to_pandas()
    frame = frame[frame["fits"]]
    best = frame.loc[frame.groupby(["batch", "context"])["lower"].idxmin()]
    assert set(zip(best["on"], best["tensor"], strict=True)) == {("h200:8", 8)}
    assert said(steps) == [f"h200:8 tensor 8 at {len(best)} of 4 sizes; none fits at {4 - len(best)}"]


def test_of_several_models_each_has_its_own_fastest_chip() -> None:
    def fastest(*models: str, **asked: Any) -> str | None:
        return dict(roofline.sweep([*models], batch=8, context=4096, **asked).remarks()).get("fastest")

    assert fastest("llama-3-8b", "llama-3-70b", on=["h100", "h200"]) == "h200 for llama-3-8b; none fits for llama-3-70b"
    assert fastest("llama-3-8b", "mistral-7b", on=["h100", "h200"]) == "h200 for both models"
    assert fastest("llama-3-8b", "llama-3-70b", on="h100") is None


def test_what_a_step_chose_or_could_choose_is_no_size_of_the_question() -> None:
    def fastest(**asked: Any) -> str:
        return dict(sweep_steps("llama-3-8b", "train", **asked).remarks())["fastest"]

    steps = sweep_steps("llama-3-8b", "train", on=["h100:8", "h100:64"], batch_tokens=2**22)
    assert len(set(steps.plain("microbatches"))) == 2
    assert dict(steps.remarks())["fastest"] == "h100:64"
    said = fastest(on="h100:64", batch_tokens=[2**22, 2**23], microbatches=[4, 8])
    assert said.endswith("microbatches 8 at batch_tokens 8,388,608")
    # a layout that is no layout of these chips has no microbatches either
    assert fastest(on="h100:64", fsdp=[3, 64], batch_tokens=2**22) == "fsdp 64"


def test_stages_of_zero_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["llama-3-8b", "--phase", "train", "--on", "h100:8", "--batch-tokens", "65536"]
    assert main(["sweep", *asked, "--zero", "1,3", "--columns", "memory", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["columns"]
    memory = [train("llama-3-8b", on="h100:8", batch_tokens=65536, zero=stage).memory.total for stage in (1, 3)]
    assert (shown["zero"], shown["memory"]) == ([1, 3], memory)
    wrong = (
        (["sweep", *asked, "--zero", "x"], "'x' is not a ZeRO stage; 0, 1, 2, 3, or in a sweep a"),
        (["formula", *asked, "--zero", "1,3"], "roofline sweep takes several"),
        (["sweep", "llama-3-8b", "--phase", "decode", "--on", "h100", "--zero", "1"], "--zero is about training"),
    )
    for words, said in wrong:
        assert main(words) == 2
        assert said in capsys.readouterr().err


def test_copies_take_the_chips_that_a_given_fsdp_leaves() -> None:
    steps = sweep_steps("llama-3-8b", "train", on="h100:64", fsdp=[8, 64], batch_tokens=2**22)
    assert not steps.incomplete
    for row, copies in enumerate((8, 1)):
        asked = {"on": "h100:64", "fsdp": 64 // copies, "batch_tokens": 2**22}
        alone = train("llama-3-8b", **asked)
        assert alone.ways["data"] == copies
        assert alone.lower == train("llama-3-8b", **asked, data=copies).lower == pytest.approx(steps["lower"][row])


def test_targets_that_take_their_chips_from_the_layout_say_how_many() -> None:
    sizes = {"batch": [1, 8], "context": 4096}
    grid = sweep_steps("qwen3-32b", on=["h100:2", "mi300x"], tensor=[2, 1], **sizes)
    assert grid.plain("chips") == [2, 2, 2, 2, 2, 2, 1, 1]
    assert dict(grid.remarks())["fastest"].startswith("h100:2 tensor 2 chips 2 of those timed whole")
    assert grid.asked_in(4) == {"on": "mi300x", "tensor": 2, "batch": 1, "context": 4096}
    kept = sweep_steps("qwen3-32b", on=["h100:2", "mi300x"], tensor=[2, 1], keep="top=8", **sizes)["top"]
    assert sorted(kept.plain("chips")) == [1, 1, 2, 2, 2, 2]  # two rows of mi300x are timed in part
    for on in (["h100:2", "mi300x:2"], ["mi300x"], ["h100", "mi300x"]):
        tensor = [2, 1] if len(on) == 1 or ":" in on[1] else 1
        assert "chips" not in sweep_steps("qwen3-32b", on=on, tensor=tensor, **sizes)


@pytest.mark.long
@pytest.mark.usefixtures("by_closed_form")
def test_a_prompt_of_fewer_sequences_than_stages_has_figures_too() -> None:
    """It goes over the stages in chunks, which the closed form of whole sequences does not hold for."""
    columns = "lower,op_by_op,upper,bound_by,flops,bytes,memory,memory.kv,time.nvlink,fits"
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 2, "pipeline": 4}
    found = sweep_steps("llama-3-70b", "prefill", batch=[1, 3, 4], prompt=[1024, 4096], columns=columns, **asked)
    assert not found.incomplete
    for at in range(len(found)):
        step = serve_bound("llama-3-70b", "prefill", **found.asked_in(at))
        needed = step.footprint
        assert needed is not None
        each = [step.lower, step.op_by_op, step.upper, step.flops, sum(step.bytes.values())]
        each += [needed.total, needed.parts["kv"], step.times["nvlink"], needed.fits]
        numbers = [name for name in columns.split(",") if name != "bound_by"]
        assert [found[name][at] for name in numbers] == pytest.approx(each, rel=1e-12)
        assert found["bound_by"][at] == step.bound_by


@pytest.mark.usefixtures("by_closed_form")
@pytest.mark.long
def test_any_number_of_such_prompts_is_priced_in_memory_and_in_blocks(tmp_path: Path) -> None:
    """Each row is what one step is, whichever rows are priced with it, and where the slowest stage differs too."""
    columns = "lower,bound_by,flops,bytes,memory,time.hbm"
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 2, "pipeline": 4, "microbatches": 4, "columns": columns}
    asked |= {"batch": [1, 3, 5], "prompt": [2, *range(100, 130000, 3000)]}
    found = sweep_steps("llama-3-8b", "prefill", **asked)
    assert len(found) == 135
    assert found.incomplete == ("2 rows have no figures: a prompt of fewer than 4 tokens makes no 4 chunks",)
    assert [at for at in range(135) if np.isnan(found["lower"][at])] == [0, 45]
    numbers = [name for name in columns.split(",") if name != "bound_by"]
    for at in (1, 44, 46, 89):
        step = found.row(at)
        assert isinstance(step, Bound)
        assert step.footprint is not None
        each = [step.lower, step.flops, sum(step.bytes.values()), step.footprint.total, step.times["hbm"]]
        assert [found[name][at] for name in numbers] == pytest.approx(each, rel=1e-12)
        assert found["bound_by"][at] == step.bound_by
    kept = sweep_steps("llama-3-8b", "prefill", **asked, keep="rows,top=1000:lower", block_rows=60, out=str(tmp_path))
    rows = kept["top-lower"]
    order = np.asarray(rows["row"])
    assert sorted(order.tolist()) == [at for at in range(135) if at not in (0, 45)]
    for name in numbers:
        np.testing.assert_allclose(rows[name], found[name][order], rtol=1e-14, err_msg=name)


def test_lists_of_very_many_rows_are_refused_and_files_of_them_written_in_blocks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = {"B": np.arange(1, 12), "D": 8192, "F": 8192}
    table = sweep("bf16[B, D] * bf16[D, F]", on="h100", **sizes)
    table.save(tmp_path / "whole.csv")
    monkeypatch.setattr("roofline.sizes.MOST_LISTED", 10)
    monkeypatch.setattr("roofline.formulas.tables.BLOCK", 3)
    table.save(tmp_path / "blocks.csv")
    assert (tmp_path / "blocks.csv").read_text() == (tmp_path / "whole.csv").read_text()
    for answer in (table, bound("bf16[B, D] * bf16[D, F]", on="h100", sizes=sizes)):
        for ask in (answer.to_dict, lambda answer=answer: answer.save(tmp_path / "answer.json")):
            with pytest.raises(SizeError, match="over 11 rows is too large for lists; 10 at most; its columns"):
                ask()
    assert not (tmp_path / "answer.json").exists()


def test_an_answer_that_has_no_room_as_lists_is_an_error_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = bound("bf16[B, D] * bf16[D, F]", on="h100", B=np.arange(1, 12), D=8192, F=8192)

    def full(value: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("roofline.bounds.bound.plain_data", full)
    with pytest.raises(OutOfMemoryError, match="the answer takes more memory than there is"):
        answer.to_dict()


@pytest.mark.long
def test_few_rows_are_priced_as_arrays_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compile the closed form of each layout takes ten times as long; the table is the same, what it says too."""
    columns = "lower,upper,bound_by,flops,bytes,memory,fits,utilisation,throughput,time.nvlink,memory.kv"
    asked: dict[str, Any] = {"on": "h100:4", "tensor": [2, 8], "pipeline": [1, 2], "columns": columns}
    asked |= {"batch": [1, 64], "prompt": [1, 512], "microbatches": 2}
    found = sweep_steps("qwen3-0.6b", "prefill", **asked)
    monkeypatch.setattr(model_sweeps, "FEW_ROWS", 0)
    forms = sweep_steps("qwen3-0.6b", "prefill", **asked)
    assert list(found) == list(forms)
    assert found.plain("bound_by") == forms.plain("bound_by")
    for name in columns.replace("bound_by,", "").split(","):
        np.testing.assert_allclose(found[name], forms[name], rtol=1e-12, err_msg=name)
    assert (found.incomplete, found.notes, found.impossible) == (forms.incomplete, forms.notes, forms.impossible)
    assert "1 row has no figures: a prompt of fewer than 2 tokens makes no 2 chunks" in found.incomplete
    asked |= {"tensor": 1, "pipeline": 2, "batch": 1, "prompt": 1}  # one question, as of one step
    with pytest.raises(InputError, match="a prompt of fewer than 2 tokens makes no 2 chunks"):
        sweep_steps("qwen3-0.6b", "prefill", **asked)


@pytest.mark.long
@pytest.mark.usefixtures("by_closed_form")
def test_a_row_over_stages_has_the_figures_of_the_slowest_one() -> None:
    """The first stage has the most layers, in some rows another takes longest: its figures count, in programs too."""
    columns = ["lower", "flops", "time.hbm"]
    asked: dict[str, Any] = {"on": "h100:16", "tensor": 4, "pipeline": 4}
    found = sweep_steps("deepseek-v3", "decode", batch=[9, 512], context=60000, columns=columns, **asked)
    form = model_formula("deepseek-v3", "decode", batch=9, context=100, **asked)
    slowest = set()
    for at, batch in enumerate((9, 512)):
        step = found.row(at)
        assert isinstance(step, Pipelined)
        each = [step.lower, step.flops, step.times["hbm"]]
        assert [found[name][at] for name in columns] == pytest.approx(each, rel=1e-9)
        assert in_python(form, {"batch": batch, "context": 60000})["time_hbm"] == pytest.approx(each[2], rel=1e-9)
        slowest.add(step.slowest)
    assert len(slowest) == 2


@pytest.mark.long
def test_a_batch_of_no_whole_microbatches_over_stages_has_the_figures_of_a_single_step() -> None:
    """The closed form holds where microbatches are whole sequences; a step without them takes as many as there are."""
    columns = ["lower", "op_by_op", "flops", "bytes", "memory", "time.hbm"]
    asked: dict[str, Any] = {"on": "h100:4", "pipeline": [1, 2], "sequence": 4096, "columns": columns}
    found = sweep_steps("qwen3-0.6b", "train", batch_tokens=[5000, 1000000], **asked)
    for at in (1, 3):
        step = found.row(at)
        assert isinstance(step, Training)
        own = step.bound
        each = [step.lower, step.op_by_op, own.flops, sum(own.bytes.values()), step.memory.total, own.times["hbm"]]
        assert [found[name][at] for name in columns] == pytest.approx(each, rel=1e-9)
        assert found.row(1).microbatches > 1  # as many as fit, as the row has them
    assert np.isnan(found["lower"][2])
    assert found.incomplete == (
        "1 row has no figures: less than a sequence in a microbatch, and a chip takes whole ones",
    )


@pytest.mark.long
def test_a_row_of_training_over_stages_has_the_figures_of_the_slowest_one() -> None:
    columns = ["lower", "flops", "time.hbm"]
    sizes = {"batch_tokens": [2**20], "sequence": 8192}
    found = sweep_steps("deepseek-v3", "train", on="h100:64", tensor=4, pipeline=4, columns=columns, **sizes)
    step = found.row(0)
    assert isinstance(step, Training)
    each = [step.lower, step.bound.flops, step.bound.times["hbm"]]
    assert [found[name][0] for name in columns] == pytest.approx(each, rel=1e-9)


def test_entries_of_an_array_may_differ_in_their_slowest_stage() -> None:
    asked: dict[str, Any] = {"on": "h100:16", "tensor": 4, "pipeline": 4, "past": 100}
    prompts = [7, 30000]
    both = serve_bound("deepseek-v3", "prefill", batch=1, prompt=np.array(prompts), **asked)
    alone = [serve_bound("deepseek-v3", "prefill", batch=1, prompt=prompt, **asked) for prompt in prompts]
    assert isinstance(both, Pipelined)
    assert len({one.slowest for one in alone if isinstance(one, Pipelined)}) == 2
    for name in ("lower", "upper", "flops"):
        assert getattr(both, name) == pytest.approx([getattr(one, name) for one in alone], rel=1e-12)
    assert both.bytes["hbm"] == pytest.approx([one.bytes["hbm"] for one in alone], rel=1e-12)
    assert both.bound_by.decode() == [one.bound_by for one in alone]


def test_the_last_digit_does_not_depend_on_the_order_of_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    """Definitions are worked out in the order of their names: sums of floats are the same in every process."""
    script = (
        "from roofline.formulas.column_code import ColumnForms, column_code\n"
        "from roofline.sizes import symbol\n"
        "B, *parts = map(symbol, 'Babcdefgh')\n"
        "uses = {each: B * B / (number + 3) + number for number, each in enumerate(parts)}\n"
        "forms = ColumnForms({'B': B}, {}, {'total': sum(parts)}, {}, uses, {})\n"
        "print(column_code('demo', forms, ('total',), frozenset('B'), True).printed.source)\n"
    )
    exec(script, {})  # this process has an order of its own
    sources = {capsys.readouterr().out} | {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(8 if LONG else 1)
    }  # fmt: skip
    assert len(sources) == 1
