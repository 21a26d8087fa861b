"""Grids in blocks: cuts, reductions against brute force, folders that go on and refuse, workers that fail."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from functools import reduce
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import roofline
from roofline.bounds.sweep import sweep
from roofline.cli import main
from roofline.errors import BlockError, InputError
from roofline.frozen import replace
from roofline.grids import blocks as in_blocks
from roofline.grids.blocks import BlockTable, RowBlock, cut
from roofline.grids.reductions import Front, Histogram, KeepRequest, RowReduction, Top, bin_edges
from roofline.grids.runs import Cluster, in_turn
from roofline.models.sweeps import sweep_steps
from roofline.sizes import Codes

SIZES: dict[str, Any] = {"batch": range(1, 65), "context": range(1, 4097, 16)}
CHOICES: dict[str, Any] = {"on": ["h100:8", "h200:8"], "tensor": [8, 16]}
KEEP = "front,front=lower:memory:throughput,top=7:upper,histogram=memory,histogram=bound_by"


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 1, 9), (4, 1, 6), ()])
@pytest.mark.parametrize("most", [1, 2, 4, 7, 1000])
def test_a_cut_has_every_entry_once_in_order(shape: tuple[int, ...], most: int) -> None:
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    parts = [whole[tuple(slice(a, b) for a, b in ranges)].reshape(-1) for ranges in cut(shape, most)]
    assert np.concatenate(parts).tolist() == list(range(whole.size))
    assert max(map(len, parts)) <= most


def brute_front(points: Any) -> list[int]:
    """Rows that no other row beats or, standing before them, equals."""
    kept = []
    for i, one in enumerate(points):
        better = ((points <= one).all(axis=1) & (points < one).any(axis=1)).any()
        same = (points[:i] == one).all(axis=1).any()
        if not better and not same:
            kept.append(i)
    return sorted(kept, key=lambda i: (*points[i], i))


@pytest.mark.parametrize("seed", range(20))
def test_reductions_equal_brute_force_however_rows_are_cut_and_merged(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, names = int(rng.integers(1, 300)), ("lower", "memory", "throughput")[: 2 + seed % 2]
    columns = {name: rng.integers(1, 12, rows).astype(float) for name in (*names, "throughput")}
    points = np.stack([-columns[name] if name == "throughput" else columns[name] for name in names], axis=1)
    reductions: list[RowReduction] = [Front(names), Top(5, "throughput"), Histogram("lower")]
    cuts = np.unique(np.r_[0, rng.integers(0, rows, 4), rows])
    found = {}
    for each in reductions:
        states = []
        for start, stop in pairwise(cuts):
            before = None
            for a in range(start, stop, 37):  # the chunks of a block
                part = slice(a, min(a + 37, stop))
                state = each.reduced({n: v[part] for n, v in columns.items()}, np.arange(rows)[part], before)
                before = state if before is None else each.merged(before, state)
            states.append(before)
        random.Random(seed).shuffle(states)
        found[each.name] = reduce(each.merged, [state for state in states if state is not None])
    front, top, counts = found.values()
    assert front["row"].tolist() == brute_front(points)
    assert top["row"].tolist() == np.lexsort((np.arange(rows), -columns["throughput"]))[:5].tolist()
    edges = bin_edges(counts["bin"])
    assert dict(zip(edges.tolist(), counts["rows"].tolist(), strict=True)) == {
        float(value): int((columns["lower"] == value).sum()) for value in np.unique(columns["lower"])
    }


def test_rows_that_are_timed_in_part_are_not_ranked_and_are_told_apart_in_files(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"tensor": 8, "batch": [1, 16, 64], "context": 8192}
    chips, keep = ["mi300x:8", "h100:8"], "top=4,front,histogram=lower,histogram=memory"
    kept = sweep_steps("llama-3-70b", on=chips, keep=keep, block_rows=2, **asked)
    alone = sweep_steps("llama-3-70b", on="h100:8", keep=keep, **asked)
    for name in ("top", "front"):
        assert kept[name].plain("lower") == alone[name].plain("lower")
        assert set(kept[name].plain("on")) == {"h100:8"}
    assert kept["histogram-lower"].plain("rows") == alone["histogram-lower"].plain("rows")
    assert sum(kept["histogram-memory"].plain("rows")) == 6  # which no time changes
    (said,) = kept.to_dict()["not_ranked"]
    assert said.startswith("mi300x:8: not timed: hops at tensor")
    assert f"not ranked {said}" in " ".join(str(kept).split())
    alike = sweep_steps("llama-3-70b", on="mi300x:8", weights=["bf16", "fp8"], keep="top=9", **asked)
    assert (len(alike["top"]), alike.to_dict()["not_ranked"]) == (6, [])
    nobody = sweep_steps("llama-3-70b", on=["mi300x:8", "mi325x:8"], tensor=8, batch=[1, 2], context=1024, keep="top=3")
    assert (len(nobody["top"]), len(nobody.to_dict()["not_ranked"])) == (3, 2)
    table = sweep_steps("llama-3-70b", on=chips, **asked)
    gaps = table.to_dict()["columns"]["incomplete"]
    assert [bool(each) for each in gaps] == [True] * 3 + [False] * 3
    table.save(tmp_path / "rows.csv")
    head, *rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert head.endswith(",incomplete")
    assert ["not timed: hops" in row for row in rows] == [bool(each) for each in gaps]


def test_rows_in_files_say_what_is_not_timed_and_keep_none_from_the_best(tmp_path: Path) -> None:
    """A collective has no FLOP/s: with the rows, where all columns are looked at, nothing was left to rank."""
    dataset = pytest.importorskip("pyarrow.dataset").dataset
    asked: dict[str, Any] = {"on": ["h100:8", "mi300x:8"], "mesh": {"X": 8}, "N": [1000, 2000]}
    line, folder = "AllReduce_X(bf16[N] {U_X})", tmp_path / "grid"
    kept = sweep(line, **asked, keep="top=9,rows", out=str(folder))
    assert kept["top"].to_dict() == sweep(line, **asked, keep="top=9")["top"].to_dict()
    rows = dataset(folder / "rows").to_table().to_pydict()
    assert [bool(each) for each in rows["incomplete"]] == [on == "mi300x:8" for on in rows["on"]]


def test_a_histogram_has_sixteen_bins_an_octave_and_counts_names() -> None:
    values = np.geomspace(1e-9, 1e9, 5000)
    state = Histogram("lower").reduced({"lower": values}, np.arange(5000))
    low, high = bin_edges(state["bin"]), bin_edges(state["bin"] + 1)
    assert [int(((values >= a) & (values < b)).sum()) for a, b in zip(low, high, strict=True)] == state["rows"].tolist()
    assert ((high - low) / low <= 1 / 16).all()
    one = Histogram("bound_by").reduced({"bound_by": Codes(np.array([0, 0, 1]), ("hbm", "mxu"))}, np.arange(3))
    other = Histogram("bound_by").reduced({"bound_by": Codes(np.array([0]), ("ici", "hbm"))}, np.arange(1))
    both = Histogram("bound_by").merged(one, other)
    assert both["bin"].tolist() == ["hbm", "ici", "mxu"]
    assert both["rows"].tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fronts", r"keep='fronts' is not understood; did you mean 'front'"),
        ("front=lower", "over one column"),
        ("front=lower:bound_by", "no column 'bound_by' of numbers"),
        ("top", "no number of rows; as in top=100"),
        ("top=3:lowr", "did you mean 'lower'"),
        ("histogram=x", "no column 'x'"),
        (" , ", "names nothing to keep"),
    ],
)
def test_what_to_keep_is_read_or_the_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        KeepRequest.read(text, ("lower", "upper", "bound_by"), ("lower", "upper"))


@pytest.mark.parametrize("text", ["top=3", "histogram"])
def test_columns_without_a_usual_one_are_asked_for(text: str) -> None:
    with pytest.raises(InputError, match=f"keep='{text}' names no column; as in {text}[:=]COLUMN"):
        KeepRequest.read(text, ("bound_by",), ())


def test_columns_named_in_keep_are_made_and_a_front_says_which_questions_it_mixes() -> None:
    grid = {"on": "h200:8", "tensor": 8, "batch": [1, 8, 64]}
    found = sweep_steps(
        "llama-3-70b", **grid, context=[2048, 8192], keep="front=time_per_token:throughput,top=1:time.hbm"
    )
    assert {"time_per_token", "throughput", "time.hbm"} <= set(found["front"].columns)
    assert found["front"].title.endswith("; rows of every context compete, which front/context keeps apart")
    assert "compete" not in found["top"].title
    one = sweep_steps("llama-3-70b", **grid, context=2048, columns="memory", keep="front=time_per_token:throughput")
    assert "compete" not in one["front"].title
    assert len(one["front"]) == 3
    assert "token/s/chip" in str(one["front"])
    with pytest.raises(InputError, match="cost_per_million needs the price of a chip"):
        sweep_steps("llama-3-70b", **grid, keep="front=cost_per_million:lower")
    line = sweep(
        "bf16[B, D] * bf16[D, F]", on="h100", B=[1, 8], D=64, F=64, columns="lower", keep="front=flops:op_by_op"
    )
    assert {"lower", "flops", "op_by_op"} <= set(line["front"].columns)


def test_a_front_or_the_best_rows_for_each_value_are_those_of_that_value_alone() -> None:
    grid: dict[str, Any] = {"on": ["h100:8", "h200:8"], "tensor": 8, "batch": [1, 8, 64, 512]}
    contexts = [512, 2048, 65536]
    keep = "front/context,top=2:upper/context,top=1/on"
    every = sweep_steps("llama-3-70b", **grid, context=contexts, keep=keep, block_rows=5)
    same_tables(every, sweep_steps("llama-3-70b", **grid, context=contexts, keep=keep))
    alone = [
        sweep_steps("llama-3-70b", **grid, context=each, keep="front,top=2:upper", columns="lower,throughput,fits")
        for each in contexts
    ]
    for name in ("front", "top-upper"):
        for column in ("batch", "context", "on", "lower"):
            wanted = [value for one in alone for value in one[name].plain(column)]
            assert every[name].plain(column) == wanted, (name, column)
    assert every["front"].title == "front of lower, throughput for each context"
    assert every["top-lower"].plain("on") == ["h100:8", "h200:8"]
    for wrong, why in (("histogram=lower/context", "is not for each value; front and top are"),
                       ("rows/context", "is not for each value"), ("front/", "names no column after /")):  # fmt: skip
        with pytest.raises(InputError, match=f"{wrong}' {why}"):
            sweep_steps("llama-3-70b", **grid, context=contexts, keep=wrong)
    kept = sweep_steps("llama-3-8b", on="h100", batch=[1, 2], context=9, keep="top=2:lower/lower")
    assert kept["top-lower"].title == "best by lower for each lower"


def same_tables(one: Any, other: Any) -> None:
    """Compare what was kept, bit for bit."""
    assert one.left_out == other.left_out
    assert list(one.tables) == list(other.tables)
    for name, table in one.tables.items():
        assert list(table) == list(other.tables[name])
        for column in table:
            left, right = table[column], other.tables[name][column]
            assert left.dtype == right.dtype
            assert left.tolist() == right.tolist(), (name, column)


def test_a_grid_in_blocks_keeps_the_rows_of_the_table_in_memory(tmp_path: Path, monkeypatch: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    monkeypatch.setattr(in_blocks, "CHUNK_ROWS", 1000)
    columns = "lower,upper,bound_by,memory,fits,throughput"
    whole = sweep_steps("llama-3-70b", **CHOICES, **SIZES, columns=columns)
    out = str(tmp_path / "grid")
    found = sweep_steps(
        "llama-3-70b", **CHOICES, **SIZES, columns=columns, keep=f"rows,{KEEP}", out=out, block_rows=3000
    )
    said = [f"{count:,} rows are in no reduction: {why}" for why, count in sorted(found.left_out.items())]
    assert list(found.incomplete) == said
    rows = pandas.read_parquet(f"{out}/rows")
    assert len(rows) == len(whole) == found.rows
    assert polars.read_parquet(f"{out}/rows")["batch"].to_list() == whole["batch"].tolist()
    for name in whole:
        if name == "fits":
            assert [None if value is None else bool(value) for value in rows[name]] == whole.plain(name)
        elif whole[name].dtype.kind == "f":
            assert np.array_equal(rows[name], whole.flat(name), equal_nan=True), name
        else:
            assert rows[name].tolist() == whole[name].tolist(), name
    fits = whole["fits"] == 1
    upper = np.where(fits, whole["upper"], np.inf)
    best = np.lexsort((np.arange(len(whole)), upper))[:7]
    assert found["top"]["row"].tolist() == best.tolist()
    assert found["top"].plain("on") == whole["on"][best].tolist()
    assert found["top"].plain("bound_by") == whole["bound_by"][best].tolist()
    usable = np.flatnonzero(fits)
    points = np.stack([whole["lower"], -whole["throughput"]], axis=1)[usable]
    best_yet, front = np.inf, []
    for i in np.lexsort((usable, points[:, 1], points[:, 0])):
        if points[i, 1] < best_yet:
            best_yet = points[i, 1]
            front.append(int(usable[i]))
    assert found["front-lower-throughput"]["row"].tolist() == front
    assert found["histogram-bound_by"].to_dict()["rows"] == [
        int((whole["bound_by"][fits] == name).sum()) for name in found["histogram-bound_by"]["bound_by"]
    ]
    assert sum(found.left_out.values()) == len(whole) - int(fits.sum())
    assert pandas.read_parquet(f"{out}/top-upper.parquet")["row"].tolist() == best.tolist()
    assert not os.path.exists(f"{out}/unfinished")


def test_a_line_in_blocks_is_the_sweep_of_it(tmp_path: Path) -> None:
    line, sizes = "h = bf16[B, D] * int4[D, F]; gelu(h)", {"B": range(1, 201), "D": [1024, 2048, 4096]}
    asked: list[dict[str, Any]] = [
        {"F": range(8, 8 * 51, 8)},                               # by the closed form
        {"F": "4*D"},                                             # as arrays
    ]  # fmt: skip
    for more in asked:
        whole = sweep(line, on="v5e", **sizes, **more)
        kept = sweep(line, on="v5e", **sizes, **more, keep="front,top=9", block_rows=7001)
        best = np.lexsort((np.arange(len(whole)), whole["lower"]))[:9]
        assert kept["top"]["row"].tolist() == best.tolist()
        for name in whole:
            shown, wanted = kept["top"].plain(name), whole[name][best].tolist()
            assert shown == (pytest.approx(wanted, rel=1e-12) if whole[name].dtype.kind == "f" else wanted), name
        assert kept.said["assumes"] == tuple(text for kind, text in whole.remarks() if kind == "assumes")
    held = {"on": "v5e", "B": range(1, 40), "D": [512, 768], "F": 512, "over": "warm"}
    as_arrays = sweep(line, **held, keep="top=3", block_rows=11)
    assert as_arrays["top"].plain("lower") == sorted(sweep(line, **held)["lower"].tolist())[:3]
    raw = sweep(flops=[1e12, 4e12], bytes=[1e9, 1e10], on="h100", keep="top=1")
    assert raw["top"].plain("bytes") == [1e9]


def test_a_line_on_several_machines_is_one_grid() -> None:
    line, sizes = "bf16[B, D] * bf16[D, F]", {"B": range(1, 41), "D": range(512, 8193, 512), "F": "4*D"}
    on = ["h100", "v5e", "h200:1"]
    columns = "lower,upper,bound_by,fits,attainable"
    whole = sweep(line, on=on, **sizes, columns=columns)
    kept = sweep(line, on=on, **sizes, columns=columns, keep="front,top=20:upper,histogram=bound_by", block_rows=250)
    assert (kept.rows, len(whole)) == (1920, 1920)
    best = np.lexsort((np.arange(len(whole)), whole["upper"]))[:20]
    assert kept["top"]["row"].tolist() == best.tolist()
    assert kept["top"].plain("on") == whole["on"][best].tolist()
    assert kept["front"]["row"].tolist() == brute_front(np.stack([whole["lower"], -whole["attainable"]], axis=1))
    names, counts = np.unique(whole["bound_by"].astype(str), return_counts=True)
    assert kept["histogram-bound_by"].to_dict() == {"bound_by": names.tolist(), "rows": counts.tolist()}
    parts = [sweep(line, on=one, **sizes, columns=columns, keep="top=20:upper", block_rows=250) for one in on]
    merged_rows = sorted((each, n * 640 + row) for n, part in enumerate(parts) for each, row in zip(
        part["top"]["upper"].tolist(), part["top"]["row"].tolist(), strict=True))[:20]  # fmt: skip
    assert list(zip(kept["top"]["upper"].tolist(), kept["top"]["row"].tolist(), strict=True)) == merged_rows
    lacking = sweep(line, on=on[:2], **sizes, columns="lower,times", keep="top=3:time.mxu,top=2:lower")
    assert lacking["top-time.mxu"].plain("on") == ["v5e"] * 3
    assert lacking.left_out == {"not a number": 640}
    assert "640 of the rows that are kept: not a number" in replace(lacking, tables={}, rows_kept=True).incomplete


def test_a_folder_goes_on_where_it_was_stopped_and_takes_no_other_question(tmp_path: Path) -> None:
    out = str(tmp_path / "grid")
    asked = {**CHOICES, **SIZES, "keep": KEEP, "block_rows": 5000}
    serial = sweep_steps("llama-3-70b", **asked)

    def stop(rows: int, every: int) -> None:
        if rows > every / 2:
            raise KeyboardInterrupt

    half = sweep_steps("llama-3-70b", **asked, out=out, progress=stop)
    assert 0 < half.done < half.blocks
    assert "the same command goes on" in half.incomplete[-1]
    part = sorted((tmp_path / "grid" / "parts").iterdir())[0]
    part.write_bytes(part.read_bytes()[:100])  # cut short by other means than ours: made again
    told: list[int] = []
    rest = sweep_steps("llama-3-70b", **asked, out=out, progress=lambda rows, every: told.append(rows))
    same_tables(rest, serial)
    assert rest.done == rest.blocks == len(told)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "grid" / "parts").iterdir()}
    same_tables(sweep_steps("llama-3-70b", **asked, out=out), serial)
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "grid" / "parts").iterdir()}
    for other in ({"context": [1, 2]}, {"keep": "top=3"}, {"weights": "fp8"}, {"set": {"hbm": "1 TB/s"}}):
        with pytest.raises(InputError, match="another question: llama-3-70b decode; name another folder"):
            sweep_steps("llama-3-70b", **{**asked, **other}, out=out)
    manifest = tmp_path / "grid" / "manifest.json"
    for odd in ("[]", "{}", '{"question": 7}', '{"question": {"of": {}}}'):
        manifest.write_text(odd)
        with pytest.raises(InputError, match="holds a grid of another question"):
            sweep_steps("llama-3-70b", **asked, out=out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    with pytest.raises(InputError, match="is not empty and holds no grid"):
        sweep_steps("llama-3-70b", **asked, out=str(tmp_path / "mine"))


@pytest.mark.parametrize("change", [
    {"about": np.asarray("[]")}, {"about": np.asarray('{"rows": 64}')}, {"top|upper": np.zeros(9)}, {"|": np.zeros(2)},
])  # fmt: skip
def test_a_part_that_was_changed_is_made_again(tmp_path: Path, change: dict[str, Any]) -> None:
    out, asked = str(tmp_path / "grid"), {"on": "h100", "B": range(1, 65), "D": 512, "F": 512, "keep": "top=3"}
    before = sweep("bf16[B, D] * bf16[D, F]", **asked, out=out)
    (path,) = (tmp_path / "grid" / "parts").iterdir()
    with np.load(path) as held:
        right = {name: held[name] for name in held.files}
    np.savez(path, **{**right, **change})
    same_tables(sweep("bf16[B, D] * bf16[D, F]", **asked, out=out), before)
    with np.load(path) as held:
        assert {name: held[name].tolist() for name in held.files} == {name: right[name].tolist() for name in right}


def test_rows_that_are_lost_are_made_again(tmp_path: Path) -> None:
    out, asked = str(tmp_path / "grid"), {"on": "h100", "batch": range(1, 101), "context": 64, "block_rows": 30}
    sweep_steps("llama-2-7b", **asked, out=out)
    parts = sorted((tmp_path / "grid" / "rows").iterdir())
    before = [part.read_bytes() for part in parts]
    parts[1].unlink()
    sweep_steps("llama-2-7b", **asked, out=out)
    assert [part.read_bytes() for part in sorted((tmp_path / "grid" / "rows").iterdir())] == before


class Failing:
    """A task of which one block takes more memory than there is."""

    def prepared(self, choice: int) -> int:
        return choice

    def run(self, prepared: int, block: RowBlock) -> int:
        if block.number == 2:
            raise MemoryError
        return block.number


def test_a_block_that_runs_out_of_memory_is_named() -> None:
    blocks = [RowBlock(number, 10 * number, 10 * number + 10, 0, ()) for number in range(4)]
    done = in_turn(Failing(), blocks)
    assert [next(done)[1], next(done)[1]] == [0, 1]
    with pytest.raises(BlockError, match=r"^block 2 \(rows 20 to 29\) takes more memory than there is; workers with"):
        next(done)


def test_two_clusters_are_a_mistake_and_so_is_a_file_for_blocks(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="workers and scheduler are two clusters"):
        Cluster(workers=2, scheduler="tcp://host:8786")
    # a worker imports the script that asks for workers, which then has none
    with monkeypatch.context() as patch:
        patch.setattr("distributed.LocalCluster", Mock(side_effect=RuntimeError("Nanny failed.")))
        with pytest.raises(InputError, match="no worker starts: Nanny failed; in a script"):
            Cluster(workers=2).opened().__enter__()
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(InputError, match="asks for workers again; in a script, what asks goes under if __name__"):
        Cluster(workers=2).opened().__enter__()
    words = ["sweep", "llama-2-7b", "--on", "h100", "--batch", "1:9", "--context", "64"]
    cases = {
        ("--keep", "top=1", "-o", "grid.csv"): "name a folder: -o grid/",
        ("--workers", "0"): "rows in blocks need a folder",
        ("--keep", "top=1", "--scheduler-file", "nowhere.json"): "there is no scheduler file 'nowhere.json'",
        ("--keep", "top=1", "--estimate"): "not worked out in blocks",
    }
    for more, said in cases.items():
        assert main([*words, *more]) == 2
        assert said in capsys.readouterr().err
    for asked in ("llama-2-7b", "bf16[B, 4096] * bf16[4096, 4096]"):
        with pytest.raises(InputError, match="estimate=True is not worked out in blocks"):
            roofline.sweep(
                asked, on="h100", keep="top=1", estimate=True, **{"batch" if asked[0] == "l" else "B": [1, 2]}
            )
    pytest.importorskip("distributed")
    monkeypatch.setenv("HOME", str(tmp_path))
    for text, said in {"hello": "is not valid JSON", '{"id": 1}': "holds no address of a scheduler"}.items():
        (tmp_path / "s.json").write_text(text)
        for file in (str(tmp_path / "s.json"), "~/s.json"):
            assert main([*words, "--keep", "top=1", "--scheduler-file", file]) == 2
            assert said in capsys.readouterr().err
    out = str(tmp_path / "new") + "/"
    assert main([*words, "--keep", "top=2", "-o", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"]["top-lower"]["batch"] == [1, 2]
    assert sorted(os.listdir(out)) == ["manifest.json", "parts", "top-lower.parquet"]


def test_blocks_are_of_one_choice_and_know_their_rows() -> None:
    class Table(BlockTable):
        def __init__(self) -> None:
            self.axes = {"a": np.arange(3), "b": np.arange(4)}
            self.choices, self.names = 2, ("a", "b")

        def prepared(self, choice: int, groups: Any = ()) -> Any:
            return None

        def evaluated(self, prepared: Any, choice: int, sizes: Any, names: Any, told: Any = None) -> Any:
            return {}

        def labels(self, choices: Any) -> dict[str, Any]:
            return {"choice": choices}

    table = Table()
    blocks = list(table.blocks(5))
    assert [(b.start, b.stop, b.choice) for b in blocks] == [(i * 4, i * 4 + 4, i // 3) for i in range(6)]
    found = table.labels_at(np.arange(24))
    assert list(zip(*(found[n].tolist() for n in ("choice", "a", "b")), strict=True)) == list(
        product(range(2), range(3), range(4))
    )
