"""The seeds' and the book's questions that once took arithmetic by hand: each answered by one call, in SI units.

A row is a function of one public call and what is read from its answer. The unit of a case (ms, GB …) is a factor of
the check, so that no row computes; a test reads the rows and refuses any arithmetic in them.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofline import bound, chip, comm, layout, scaling, solve, solve_equal
from roofline.hardware.network import network
from roofline.models import budget, fewest, load, outline, pool
from roofline.models.summary import summary
from roofline.sizes import is_symbol
from tests.cases.one_call_figures import FIGURES
from tests.cases.one_call_networks import MORE_ROWS, book_model
from tests.cases.one_call_training import TRAINING
from tests.cases.one_call_words import AMONG, MEANS, OUTSIDE, WORDS
from tests.strategies import for_each, some

CASES: dict[str, Any] = {
    case["id"]: case
    for path in sorted((Path(__file__).parents[1] / "data").glob("*_cases_*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
}

#: What one of a case's unit is in SI units.
SCALE = {
    "ms": 1e-3, "us": 1e-6, "GB": 1e9, "TB": 1e12, "kB": 1e3, "MB": 1e6, "TFLOP": 1e12, "TFLOPs": 1e12, "GB/s": 1e9,
    "TB/s": 1e12, "TFLOP/s": 1e12, "%": 1e-2, "day": 1.0, "KiB": 1024, "tok/ms/chip": 1e3,
}  # fmt: skip

BOOK = {"hbm": 8.2e11}
V5E = {"hbm": {"bandwidth": 8.2e11, "capacity": 16e9}, "bf16": 1.97e14}
V5P = {"bf16": 4.59e14}
H100 = {"bf16": 9.9e14}
MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
SCORES = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
LAYER = (
    "q = x:bf16[B, T, D] * bf16[D, N, H] -> bf16[B, T, N, H]; k = x * bf16[D, N, H] -> bf16[B, T, N, H]; "
    "v = x * bf16[D, N, H] -> bf16[B, T, N, H]; o = q * bf16[N, H, D] -> bf16[B, T, D]; "
    "g = x * bf16[D, F]; u = x * bf16[D, F]; u * bf16[F, D]"
)
NOTE = {"h": 5120, "b": 8, "s": 1024, "o": 1024, "n": 40, "V": 32000}
FLOPS = "n*(24*b*s*h*h + 4*b*s*s*h) + 2*b*s*h*V"


ROWS: dict[tuple[str, str], Callable[..., Any]] = {
    ("s000.local_batch", "total"): lambda: layout("int32[512_X, 4096]", mesh={"X": 128}).global_elements,
    ("s000.local_batch", "local"): lambda: layout("int32[512_X, 4096]", mesh={"X": 128}).elements,
    ("roofline.local_batch", "total"): lambda: layout("int32[512_X, S]", mesh={"X": 512}, S=4096).global_elements,
    ("gpus.deepseek_batch", "tokens"): lambda: layout("int32[15360, 4096_X]", mesh={"X": 2048}).global_elements,
    ("gpus.deepseek_batch", "per_gpu"): lambda: layout("int32[15360, 4096_X]", mesh={"X": 2048}).elements,
    ("s000.derate", "h100_low"): lambda: derated("h100", 9.89e14, "tensor", 0.8),
    ("s000.derate", "h100_high"): lambda: derated("h100", 9.89e14, "tensor", 0.85),
    ("s000.derate", "v6e"): lambda: derated("v6e", 9.1e14, "mxu", 0.95),
    ("s000.two_chip", "D"): lambda: two_chips().value,
    ("s002.rule.int8", "weights_only"): lambda: scaling("batch", on="v5e", weights="int8", set=BOOK).value,
    ("s003.llama13b.printed", "flops"): lambda: bound(flops=FLOPS, dtype="fp16", on="a100", sizes=NOTE).flops,
    ("s004.vgg16", "perf"): lambda: bound(intensity=25, dtype="fp32", on="1080ti").attainable,
    ("s004.mobilenet", "perf"): lambda: bound(intensity=7, dtype="fp32", on="1080ti").attainable,
    ("roofline.two_chip", "D_crit"): lambda: two_chips().value,
    ("tpus.vreg", "bytes"): lambda: layout("fp32[64, 8, 128]").bytes,
    ("tpus.mxu_padding", "padded_128"): lambda: layout("bf16[100,300]{1,0:T(128,128)}").tiled_elements,
    ("tpus.mxu_padding", "padded_256"): lambda: layout("bf16[100,300]{1,0:T(256,256)}").tiled_elements,
    ("tpus.pod_v5p_text", "pod"): lambda: bound(flops=1e18, on=pool(chip("v5p"), 8960)).attainable,
    ("tpus.q2.v5e", "flops"): lambda: bound(flops=1e18, on=pool(chip("v5e"), 256)).attainable,
    ("tpus.q2.v5e", "hosts"): lambda: network(chip("v5e")).hosts(256),
    ("tpus.q3", "B_crit"): lambda: (
        solve(MATMUL, "B", on="v6e", over="pcie", set={"pcie": 1.6e10, "bf16": 9.2e14}).limit
    ),
    ("sharding.q2.1", "t"): lambda: moved("AllGather_X(bf16[1024_X, 4096_Y])"),
    ("sharding.q2.2", "t"): lambda: moved("AllGather_{X,Y}(bf16[1024_X, 4096_Y])"),
    ("sharding.q2.3", "t"): lambda: moved("AllReduce_Z(bf16[1024_X, 4096_Y] {U_Z})"),
    ("sharding.quiz2.small", "shard_bytes"): lambda: layout("bf16[256_Y, 256]", mesh={"Y": 4}).bytes,
    ("sharding.quiz2.large", "total_bytes"): lambda: layout("bf16[2048_Y, 8192]", mesh={"Y": 4}).global_bytes,
    ("gpus.q2.3", "bytes"): lambda: layout("bf16[4096_X, 65536]", mesh={"X": 8}).global_bytes,
    ("gpus.q2.3", "t"): lambda: comm("AllGather_X(bf16[4096_X, 65536])", on="h100:8").row.wire_time,
    ("gpus.q2.3", "t_approx"): lambda: node_gather("bf16[4096_X, 65536]"),
    ("gpus.pq1", "approx"): lambda: node_gather("bf16[1024_X, 16384]"),
    ("gpus.pq1", "exact"): lambda: comm("AllGather_X(bf16[1024_X, 16384])", on="h100:8").row.wire_time,
    ("gpus.q2.1", "switch"): lambda: network(chip("dgx-h100"))["nvlink"].switch_bandwidth,
    ("gpus.dgx", "leaf"): lambda: network(chip("dgx-h100"))["ib"].bandwidth,
    ("gpus.dgx", "spine"): lambda: network(chip("dgx-h100"))["spine"].bandwidth,
    ("gpus.dgx", "node"): lambda: network(chip("dgx-h100"))["ib"].unit_bandwidth,
    ("gpus.gb200", "egress"): lambda: network(chip("gb200-superpod"))["ib"].unit_bandwidth,
    ("transformers.attn_fraction", "T_D8k"): lambda: overtaken(8192, 32768, 64),
    ("transformers.attn_fraction", "T_gemma27b"): lambda: overtaken(4608, 18432, 36),
    ("transformers.6nd", "flops"): lambda tokens, params: budget(params, tokens=tokens, on="v5p").flops,
    ("training.llama70b_17days", "flops"): lambda: budget(70e9, tokens=15e12, on="v5p").flops,
    ("training.llama70b_17days", "chips"): lambda: fsdp(B=16_000_000).batch.most,
    ("training.llama70b_17days", "pods"): lambda: fsdp(B=16_000_000).batch.pods,
    ("training.mixed_bound", "numeric"): lambda: mixed(F=32768).value,
    ("training.mixed_crossing", "B"): lambda: mixed(F=32768, N=4096).batch.least,
    ("training.llama_2M", "fsdp_chips"): lambda: fsdp(B=2_000_000).batch.most,
    ("training.llama_2M", "mixed"): lambda: mixed(F=30000).value,
    ("training.llama_2M", "mixed_chips"): lambda: mixed(F=30000, B=2_000_000).batch.most,
    ("training.llama_2M", "per_tpu"): lambda: scaling("fsdp", on="v5p", set=V5P, N=17920, B=2_000_000).batch.per,
    ("training.q1", "ffw"): lambda: summary(load("llama-2-13b")).parts["mlp"],
    ("training.q1", "attn"): lambda: summary(load("llama-2-13b")).parts["attention"],
    ("training.q1", "vocab"): lambda: summary(load("llama-2-13b")).parts["vocabulary"],
    ("training.q1", "total"): lambda: summary(load("llama-2-13b")).parameters_without_norms,
    ("training.q3.2", "min_batch"): lambda: fsdp(N=4096, B=3_000_000).batch.least,
    ("training.q3.2", "possible"): lambda: fsdp(N=4096, B=3_000_000).batch.holds,
    ("applied-training.flops_token", "flops"): lambda: budget(70e9, tokens=1, on="v5p").flops_per_token,
    ("applied-training.flops_token", "t"): lambda: budget(70e9, tokens=1, on="v5p", set=V5P).time_per_token,
    ("applied-training.total", "flops"): lambda: budget(70e9, tokens=15e12, on="v5p").flops,
    ("applied-training.total", "years"): lambda: budget(70e9, tokens=15e12, on="v5p", set=V5P).chip_years,
    ("applied-training.days", "seconds"): lambda: at_forty().seconds,
    ("applied-training.days", "day"): lambda: at_forty().days,
    ("applied-training.days", "days"): lambda: at_forty().days,
    ("applied-training.fsdp", "per_chip"): lambda: fsdp(N=8960, B="1024*4096").batch.per,
    ("applied-training.fsdp", "bound"): lambda: fsdp(N=8960, B="1024*4096").value,
    ("applied-training.fsdp", "possible"): lambda: fsdp(N=8960, B="1024*4096").batch.holds,
    ("applied-training.q2a", "params"): lambda: summary(load("llama-3-405b")).parameters_without_norms,
    ("applied-training.q2a", "flops_token"): lambda: of_405b().flops_per_token,
    ("applied-training.q2a", "total"): lambda: of_405b().flops,
    ("applied-training.q2b", "days"): lambda: of_405b(mfu=0.4).days,
    ("applied-training.q2b", "mixed_bound"): lambda: mixed(F=53248).value,
    ("gpus.q5.2.2", "rate"): lambda: on_4096().rate,
    ("gpus.q5.2.2", "seconds"): lambda: on_4096().seconds,
    ("gpus.q5.2.2", "days"): lambda: on_4096().days,
    ("gpus.dp", "node"): lambda: scaling("dp", on="h100", set=H100).value,
    ("gpus.dp", "beyond"): lambda: scaling("dp", on="dgx-h100:1024", set=H100).value,
    ("gpus.dp", "llama3"): lambda: scaling("dp", on="dgx-h100:1024", set=H100, N=16000).batch.least,
    ("gpus.dp", "deepseek"): lambda: scaling("dp", on="dgx-h100:1024", set=H800, N=2048).batch.least,
    ("gpus.dp", "h800"): lambda: scaling("dp", on="dgx-h100:1024", set=H800).value,
    ("gpus.moe_dp", "value"): lambda: scaling("moe-dp", on="dgx-h100:1024", set=H100, E=128, k=4).value,
    ("inference.q1", "params"): lambda: summary(book_model()).parameters_without_norms,
    ("inference.q1", "kv"): lambda: book_model().kv_bytes_per_token("int8"),
    ("inference.q2", "batch"): lambda: room(book_model()).sequences,
    ("inference.q2", "batch_k1"): lambda: room(book_model(1)).sequences,
    ("inference.q3", "t"): lambda: bound(bytes=18.4e9, on=pool(chip("v5e", **BOOK), 16)).lower,
    ("inference.appA", "t"): lambda: (
        bound(bytes="2*P", sizes={"P": 600_000_000}, on=pool(chip("v5e", **BOOK), 4)).lower
    ),
    ("inference.kv13b", "params"): lambda: outline(13e9).weight_bytes(),
    ("inference.kv13b", "act"): lambda: layout("bf16[8192, 5120]").total_bytes,
    ("inference.kv13b", "kv"): lambda: load("llama-2-13b").cache_bytes(8192),
    ("inference.decode_tp", "Y"): lambda: scaling("decode-tp", on="v5e", set=EIGHT, F=16384, B=32).value,
    ("applied-inference.kv", "token"): lambda: load("llama-3-70b").kv_bytes_per_token("int8"),
    ("applied-inference.kv", "seq"): lambda: load("llama-3-70b").cache_bytes(32768, dtype="int8"),
    ("applied-inference.kv", "bs240"): lambda: load("llama-3-70b").cache_bytes(32768, batch=240, dtype="int8"),
}

ALL_ROWS = {**ROWS, **MORE_ROWS, **FIGURES, **TRAINING, **WORDS}

#: What the book gives the leading term of, and the exact answer over it: T·(T + 1)/2 pairs of T²/2; a ring of 16.
LEADING = {("transformers.attn_dot", "causal"): 4097 / 4096, ("sharding.q10", "bidi_a2a_gain"): 15 / 16}

#: Units that a case writes otherwise: 1 MB of 1000 KiB.
OWN_SCALE = {("gpus.q1.5", "each"): 1.024e6, ("gpus.q1.5", "both"): 1.024e6}

H800 = {**H100, "ib": 3.75e10, "spine": 3.75e10}
EIGHT = {"hbm": 7.2e11, "link": 4.5e10}


def derated(key: str, peak: float, unit: str, share: float) -> Any:
    figures = {"bf16": peak, unit: {"achievable": {"bf16": share}}}
    return bound(flops=1e15, dtype="bf16", on=key, set=figures, achievable=True).attainable


@cache
def two_chips() -> Any:
    return solve(SPLIT, "D", on="v5e:2", link=4.5e10)


@cache
def moved(text: str) -> Any:
    return comm(text, on="v4:4x4x4", algorithm="book").row.wire_time


@cache
def node_gather(tensor: str) -> Any:
    return comm(f"AllGather_X({tensor})", on="h100:8", algorithm="book").row.wire_time


def overtaken(width: int, columns: int, heads: int) -> Any:
    return solve_equal(SCORES, LAYER, "T", sizes={"D": width, "F": columns, "N": heads, "H": 128}).value


@cache
def fsdp(**sizes: Any) -> Any:
    return scaling("fsdp", on="v5p", set=V5P, torus_axes={"X": 3}, sizes=sizes)


@cache
def mixed(**sizes: Any) -> Any:
    return scaling("mixed", on="v5p", set=V5P, torus_axes={"X": 2}, sizes=sizes)


@cache
def at_forty() -> Any:
    return budget(70e9, tokens=15e12, on="v5p:16x20x28", set=V5P, mfu=0.4)


@cache
def of_405b(**stated: Any) -> Any:
    return budget(405_849_243_648, tokens=15e12, on="v5p", set=V5P, chips=71680, **stated)


@cache
def on_4096() -> Any:
    return budget(70e9, tokens=15e12, on="h100", set=H100, chips=4096, mfu=0.45)


def room(model: Any) -> Any:
    formats = {"weights": "int8", "kv": "int8", "activations": "bf16"}
    return fewest(model, on="v5e:4x4", set=V5E, context=128_000, **formats).given


def entries(source: str) -> Iterator[tuple[tuple[str, str], dict[str, Any], Callable[..., Any]]]:
    """The rows of a seed or of a chapter."""
    for (case_id, name), answer in ALL_ROWS.items():
        entry = next((each for each in CASES[case_id]["expected"] if each["name"] == name), None)
        if entry is not None and case_id.partition(".")[0] == source:
            yield (case_id, name), entry, answer


@pytest.mark.parametrize("source", sorted({case_id.partition(".")[0] for case_id, _ in ALL_ROWS}))
def test_one_call(source: str) -> None:
    if rows := some(entries(source), 4):
        for_each(("key", "entry", "answer"), rows)(check)()


def check(key: tuple[str, str], entry: dict[str, Any], answer: Callable[..., Any]) -> None:
    """Compare an answer with a case's entry, by the rules of the case files."""
    one = OWN_SCALE.get(key, SCALE.get(entry.get("unit", ""), 1.0)) * LEADING.get(key, 1.0)
    if key in AMONG:
        assert AMONG[key][0] == entry["value"]
        assert AMONG[key][1] <= answer()
    elif key in MEANS:
        assert MEANS[key][0] == entry["value"]
        assert as_data(answer()) == MEANS[key][1]
    elif entry["status"] == "formula":
        for point in entry["points"]:
            assert answer(**point["at"]) == pytest.approx(point["value"] * one, rel=max(entry["rtol"], 1e-9))
    elif entry["status"] == "categorical":
        found = answer()
        plain = found.removesuffix("-bound") if isinstance(found, str) and "-bound" not in entry["value"] else found
        assert plain == entry["value"]
    else:
        found = answer()
        assert found == pytest.approx(entry["computed"] * one, rel=1e-6)
        if entry.get("value") is not None and entry["status"] != "erratum":
            assert math.isclose(found, entry["value"] * one, rel_tol=entry["rtol"] * (1 + 1e-9))


def test_a_wrong_answer_is_caught() -> None:
    entry = {"status": "agrees", "computed": 240.2439, "value": 240.0, "rtol": 0.0212}
    check(("", ""), entry, lambda: 240.2439)
    with pytest.raises(AssertionError):
        check(("", ""), entry, lambda: 243.2)
    with pytest.raises(AssertionError):
        check(("sharding.q6.c", "collective"), {"status": "categorical", "value": "none"}, lambda: "AllGather_X(A)")


def expected(case_id: str, name: str) -> dict[str, Any]:
    return next(entry for entry in CASES[case_id]["expected"] if entry["name"] == name)


def test_the_history_stands_in_the_errata() -> None:
    errata = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text(encoding="utf-8")
    assert str(expected("s002.history", "year")["value"]) in errata


def test_the_row_that_is_left_out_counts_one_exchange_more() -> None:
    """The mixed row has 8·B·D/X backward where the tensor-parallel row has 4: nothing sends the difference."""
    (point,) = expected("training.table", "mixed_as_printed")["points"]
    at = point["at"]
    consistent = ALL_ROWS["training.table", "mixed_consistent"](**at)
    assert point["value"] - consistent == pytest.approx(4 * at["B"] * at["D"] / at["X"])


def test_the_gain_that_is_left_out_is_of_measured_times() -> None:
    case = CASES["jax.collective_matmul"]
    assert "measured 311 / 244 / 224 us" in case["question"]
    assert expected("jax.collective_matmul", "overlap_gain")["computed"] == pytest.approx(311 / 244)


def test_whole_nodes_in_place_of_open_ones_give_the_same_condition() -> None:
    """F of 2475·(Y − 8): an axis of whole nodes at Y = 16 is the axis of 16 chips."""
    asked = {"set": H100, "network": "ib", "algorithm": "hierarchical"}
    whole = scaling("tp", on="dgx-h100", **asked, Y=16).value
    assert whole == scaling("tp", on="dgx-h100:16", **asked).value == pytest.approx(19800)
    assert scaling("tp", on="dgx-h100", **asked, unknown="Y", F=19800).value == pytest.approx(16)


def as_data(found: Any) -> Any:
    """An answer with its formulas as text."""
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        return tuple(as_data(each) for each in found)
    return str(found) if is_symbol(found) else found


def test_every_figure_is_answered_or_listed() -> None:
    figures = {(key, entry["name"]) for key, case in CASES.items() for entry in case["expected"]}
    assert len(figures) == 557
    assert figures - set(OUTSIDE) == set(ALL_ROWS) & figures
    assert not set(OUTSIDE) & set(ALL_ROWS)


def test_no_row_computes() -> None:
    """No row and no helper of a row has an operator, or a function that adds, chooses or rounds."""
    files = (Path(__file__), *sorted(Path(__file__).parent.glob("one_call_*.py")))
    tree = ast.Module([node for file in files for node in ast.parse(file.read_text(encoding="utf-8")).body], [])
    checks = ("CASES", "LEADING", "entries", "check", "as_data", "expected")
    parts = [node for node in tree.body if isinstance(node, ast.AnnAssign | ast.FunctionDef)]
    names = [getattr(node, "name", ast.unparse(getattr(node, "target", node))) for node in parts]
    kept = zip(names, parts, strict=True)
    parts = [node for name, node in kept if name not in checks and not name.startswith("test_")]
    for node in (inner for part in parts for inner in ast.walk(part)):
        assert not isinstance(node, ast.BinOp), ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("sum", "max", "min", "round", "abs"), ast.unparse(node)
