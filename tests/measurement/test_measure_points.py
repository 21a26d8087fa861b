"""Points, the effects that explain them, and operations that are run here."""

from __future__ import annotations

import io
import resource
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from made import CALL, made

import roofline
from roofline import build, chip
from roofline.bounds.memory import traffic
from roofline.errors import InputError, SizeError
from roofline.hardware.rate import with_choices
from roofline.measurement import (
    Measured,
    MeasuredMachine,
    points_of,
    probes,
    read_measured,
    run,
    run_function,
    timing,
    write_machine_file,
)
from roofline.measurement.executors import executor, numpy_library
from roofline.measurement.levels import ALONE, HELD_UP
from roofline.measurement.points import Effect, MeasuredPoint, point_sections, profile_sections, time_by_operation
from roofline.measurement.runs import Profile, write_runs
from roofline.measurement.timing import GRAIN, RunSetting, effects, new_page_bytes, time_call
from roofline.notation import program
from roofline.rendering.terminal import as_text, terminal


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "this.toml"
    write_machine_file(made(), path)
    return chip("this", files=[path])


def explained(line, machine, **setting):
    [op] = build(program(line), {})
    [moved] = traffic([op])
    chosen = RunSetting(**{"threads": 2, **setting})
    roof = with_choices(machine, over="warm" if chosen.warm else "main")
    return {effect.name: effect.seconds for effect in effects(op, moved, roof, made(), chosen)}


def test_a_large_product_runs_at_the_librarys_rate(machine):
    found = explained("fp32[1024, 1024] @ fp32[1024, 1024]", machine)
    assert found["arithmetic"] == pytest.approx(2 * 1024**3 / 256e9, rel=0.01)
    assert sum(found.values()) == pytest.approx(2 * 1024**3 / 256e9, rel=0.01)


def test_a_small_product_takes_what_such_shapes_take(machine):
    """A call and the FLOPs at the best rate made the table; at a shape between its entries both are found again."""
    found = explained("fp32[20, 128] @ fp32[128, 128]", machine)
    expected = CALL + 2 * 20 * 128**2 / 256e9
    assert found["shape"] + found["arithmetic"] == pytest.approx(expected, rel=0.15)
    assert found["arithmetic"] == pytest.approx(2 * 20 * 128**2 / 256e9, rel=0.01)


def test_a_product_of_one_row_takes_as_long_as_its_weights(machine):
    found = explained("fp32[1, 4096] @ fp32[4096, 4096]", machine, warm=False)
    took = made().shape_table("library", "fp32", 2).seconds(1, 4096)
    assert found["data"] == pytest.approx(min(took, 4 * (4096**2 + 2 * 4096) / 90e9), rel=1e-3)
    assert "arithmetic" not in found
    assert sum(found.values()) == pytest.approx(took)


def test_a_format_without_a_table_runs_at_the_best_product(machine):
    bare = replace(made(), shapes=())
    [op] = build(program("fp32[1024, 1024] @ fp32[1024, 1024]"), {})
    [moved] = traffic([op])
    found = {e.name: e.seconds for e in effects(op, moved, machine, bare, RunSetting(threads=2))}
    assert found["arithmetic"] == pytest.approx(2 * 1024**3 / 256e9)
    assert found["dispatch"] == 1e-6


def test_a_function_runs_at_the_librarys_own_rate(machine):
    found = explained("softmax(fp32[1024, 1024])", machine, function="softmax")
    assert found["softmax"] == pytest.approx(1024**2 / 1e9)
    assert found["dispatch"] == 3e-6


def test_a_function_that_was_not_timed_is_arithmetic_and_exponentials(machine):
    found = explained("sigmoid(fp32[1024, 1024])", machine, function="sigmoid")
    assert found["exponentials"] == pytest.approx(1024**2 / 2e9)
    assert found["dispatch"] == 1e-6


def test_few_elements_stay_on_one_thread(machine):
    small = explained(f"gelu(fp32[{GRAIN // 2}])", machine)
    large = explained(f"gelu(fp32[{GRAIN}])", machine)
    assert small["exponentials"] == pytest.approx(large["exponentials"])


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_attention_is_its_products_and_the_softmax_of_its_scores(machine, dtype):
    shape = f"{dtype}[1, 512, 16, 64]"
    found = explained(f"attention({shape}, {shape}, {shape})", machine, threads=1)
    products = 4 * 16 * 512 * 512 * 64 / {"fp32": 128e9, "bf16": 256e9}[dtype]
    assert found["arithmetic"] + found.get("shape", 0.0) == pytest.approx(products, rel=0.15)
    assert found["softmax"] == pytest.approx(16 * 512 * 512 / 0.5e9)


def test_attention_of_one_query_loads_keys_and_values(machine):
    q, kv = "fp32[1, 1, 16, 64]", "fp32[1, 8192, 16, 64]"
    found = explained(f"attention({q}, {kv}, {kv})", machine, threads=1, warm=False)
    assert found["data"] == pytest.approx(4 * (2 * 8192 + 2) * 16 * 64 / 90e9, rel=1e-3)


def test_new_pages_and_order_are_named(machine):
    found = explained("fp32[12, 64] @ fp32[64, 64]", machine, new_bytes=2e6, reordered=True)
    assert found["new pages"] == pytest.approx(1e-3)
    assert found["order"] == pytest.approx(2 * 4 * 64 * 64 / 1080e9, rel=1e-3)
    assert "order" not in explained("fp32[1, 64] @ fp32[64, 64]", machine, reordered=True)


def test_a_point_above_its_roof_is_flagged_with_reasons(machine):
    [point] = points_of([Measured("fast", flops=1e9, bytes=90e9, seconds=0.5, dtype="fp32")], machine)
    assert point.fraction == pytest.approx(2.0)
    [flag] = point.flags
    assert flag.startswith("200% of the roof: data was already in a cache: compare with the bound of warm data")
    assert "Winograd" not in flag


def test_a_convolution_above_its_roof_may_be_winograd(machine):
    [point] = points_of([Measured("conv", flops=1e12, bytes=1e6, seconds=1.0, dtype="fp32")], machine)
    fast = MeasuredPoint(point.run, point.bound, kind="convolution")
    assert "Winograd" in fast.flags[0]
    assert "Winograd" not in point.flags[0]


def test_a_point_under_its_roof_is_not_flagged(machine):
    [point] = points_of([Measured("slow", 1e9, 90e9, 2.0, "fp32")], machine)
    assert point.flags == ()
    assert point.explained is None
    assert point.to_dict()["fraction"] == pytest.approx(0.5)


def test_a_run_that_only_moves_or_only_computes_is_a_point(machine):
    points = points_of([Measured("copy", 0.0, 90e9, 1.0), Measured("spin", 512e9, 0.0, 1.0, "fp32")], machine)
    assert [point.fraction for point in points] == pytest.approx([1.0, 1.0])


def test_time_is_split_by_operation(machine):
    runs = [Measured("a", 1e9, 1e9, 1.0), Measured("b", 1e9, 1e9, 2.0), Measured("a", 1e9, 1e9, 3.0)]
    assert time_by_operation(runs) == [
        ("a", 4.0, pytest.approx(2 / 3)),
        ("b", 2.0, pytest.approx(1 / 3)),
    ]


def rendered(sections):
    from rich.console import Console

    console = Console(width=110, record=True, file=io.StringIO())
    console.print(terminal(sections))
    return console.export_text()


def test_tables_say_what_is_odd_and_what_is_missing(machine):
    runs = Measured("fast", 1e9, 90e9, 0.5, "fp32"), Measured("slow", 1e9, 90e9, 5.0, "fp32")
    text = rendered(profile_sections(points_of(runs, machine), Profile(runs, {"aten::sort": 2.0}), "on x", 1))
    assert "200%" in text
    assert "fast: 200% of the roof" in text
    assert "1 shorter run is not shown" in text
    assert "incomplete: no rule for aten::sort 2 s" in text


def test_a_dtype_that_was_not_stated_is_said(machine):
    """Or a run in fp32 is held against a roof of bf16, and nothing tells."""
    said = "bf16 where no dtype is stated"
    unstated, stated, copy = points_of(
        read_measured([("a", 1e9, 2e9, 0.25), ("b", 1e9, 2e9, 0.25, "bf16"), ("copy", 0, 2e9, 0.25)]), machine
    )
    assert said in unstated.to_dict()["assumptions"]
    assert said not in stated.to_dict()["assumptions"] + copy.to_dict()["assumptions"]
    assert said in rendered(profile_sections([unstated], Profile(()), "on x", 1))
    [again] = points_of(read_measured([unstated.run]), machine)
    assert said in again.assumptions


def test_runs_are_written_and_read_back(tmp_path):
    runs = (Measured("a, b", 1e9, 2e9, 0.25, "fp32"), Measured("c", 1.0, 2.0, 3.0, "bf16"))
    write_runs(runs, tmp_path / "runs.csv")
    assert read_measured(tmp_path / "runs.csv") == runs


def test_numpy_runs_what_it_can(machine):
    points = run(
        "fp32[64, 128] @ fp32[128, 32]", "x = fp32[64, 64] + fp32[64, 64]; exp(x)",
        at=MeasuredMachine(made(), machine, machine), library=numpy_library(),
    )  # fmt: skip
    assert [point.run.name for point in points] == [
        "fp32[64, 128] * fp32[128, 32]", "fp32[64, 64] + fp32[64, 64]", "exp(fp32[64, 64])",
    ]  # fmt: skip
    assert all(point.run.seconds > 0 and point.effects for point in points)
    assert all(point.to_dict()["doubts"] == list(point.summary.doubts) for point in points)
    assert "numpy" in points[0].how
    assert "warm caches, 2 threads, output allocated" in points[0].how
    assert "dispatch" in rendered(point_sections(points, "on x"))


def test_what_runs_operations_is_chosen_by_name(machine):
    here = {"at": MeasuredMachine(made(), machine, machine)}
    [point] = run("fp32[64, 128] @ fp32[128, 32]", backend="numpy", **here)
    assert "numpy" in point.how
    with pytest.raises(InputError, match="no backend 'nump'; did you mean 'numpy'"):
        run("fp32[64, 128] @ fp32[128, 32]", backend="nump", **here)


def test_bytes_are_those_of_the_result_that_the_library_gives(machine):
    """It gives no fp64 for a sum of fp32, nor int8 for a product of int8; the bytes were those of the line."""
    given = {"at": MeasuredMachine(made(), machine, machine), "library": numpy_library()}
    [point] = run("fp32[8, 8] + fp32[8, 8] -> fp64[8, 8]", **given)
    assert point.run.bytes == 3 * 4 * 64
    assert "output allocated, result in fp32" in point.how
    [plain] = run("fp32[8, 8] + fp32[8, 8]", **given)
    assert plain.run.bytes == point.run.bytes
    assert "result" not in plain.how


def test_threads_on_which_nothing_was_measured_are_told(machine):
    """Two of four were held against the roof of four, and explained by what one does."""
    found = made()
    four = replace(found.conditions, cores=4)
    curves = tuple(replace(curve, threads=4) if curve.threads == 2 else curve for curve in found.curves)
    here = MeasuredMachine(replace(found, conditions=four, curves=curves), machine, machine)
    large = "fp32[512, 512] + fp32[512, 512]"
    [two], [one] = (run(large, at=here, library=numpy_library(), threads=threads) for threads in (2, 1))
    assert not two.effects
    assert two.how.endswith("under the roof of 4 threads: nothing was measured on 2")
    assert one.effects
    assert "under the roof" not in one.how


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("softmax(fp32[8, 8])", "numpy cannot run softmax"),
        ("bf16[8, 8] @ bf16[8, 8]", "numpy has no bf16"),
        ("gelu(fp32[8, 8])", "numpy has no function 'gelu'; install torch"),
    ],
)
def test_what_numpy_cannot_run_is_said(machine, line, said):
    with pytest.raises(InputError, match=said):
        run(line, at=MeasuredMachine(made(), machine, machine), library=numpy_library())


def test_sizes_must_be_numbers(machine):
    with pytest.raises(SizeError, match="size M has no value; running needs numbers, as in M=64"):
        run("fp32[M, N] @ fp32[N, 4]", at=MeasuredMachine(made(), machine, machine), library=numpy_library())


def test_what_is_stated_of_a_function_is_checked_before_it_is_timed(machine):
    point = run_function(lambda: None, on="h100", flops="1 GFLOP", bytes="2 MB", dtype="bf16")
    assert (point.run.flops, point.run.bytes) == (1e9, 2e6)
    for wrong in ({"flops": -1}, {"bytes": "2 GFLOP"}, {"dtype": "bf61"}, {"flops": 0, "bytes": 0}):
        with pytest.raises(InputError, match="point 1: "):
            run_function(lambda: pytest.fail("it ran"), on=machine, **{"flops": 1.0, "bytes": 1.0, **wrong})


def test_a_cold_function_runs_after_more_than_the_caches_hold_was_written(machine, monkeypatch):
    from roofline.measurement import timing

    written = []
    monkeypatch.setattr(timing, "bytearray", written.append, raising=False)
    run_function(lambda: None, on=machine, flops=1e3, bytes=8e3, cold=True)
    held = max(level.capacity.value for level in machine.memories[1:])
    assert set(written) == {max(timing.FLUSH, int(4 * held))}


def test_a_function_of_ones_own(machine):
    point = run_function(lambda: sum(range(1000)), on=machine, flops=1e3, bytes=8e3, name="sum")
    assert point.run.name == "sum"
    assert point.summary.samples > 0
    assert 0 < point.fraction < 1


def test_new_pages_are_counted(monkeypatch):
    """The least of some calls, for other threads of the process touch pages too; by made-up counts of the system's."""
    faults, others = [1000], iter([50, 0, 7])
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_minflt=faults[0]))
    monkeypatch.setattr(resource, "getpagesize", lambda: 2**14)

    def touch():
        faults[0] += 64 + next(others)

    assert new_page_bytes(touch) == 64 * 2**14
    assert new_page_bytes(lambda: None) == 0


def test_cold_runs_empty_the_caches_before_each():
    order = []
    time_call(lambda: order.append("call"), flush=lambda: order.append("flush"), rounds=1)
    assert order[0] == "call"
    assert order[1:] == ["flush", "call"] * ((len(order) - 1) // 2)


TORCH_LINES = {
    "fp32[4, 8] @ fp32[8, 3]": (4, 3),
    "fp32[B, S, D] * fp32[D, F] -> fp32[B, S, F]": (2, 3, 5),
    "fp32[B, D] * fp32[B, D, F] -> fp32[B, F]": (2, 5),
    "int8[16, 32] @ int8[32, 16]": (16, 16),
    "bf16[B, D] + bf16[D]": (2, 4),
    "gelu_tanh(fp32[4, 4])": (4, 4),
    "softmax_S(fp32[B, S, D])": (2, 3, 4),
    "sum_S(fp32[B, S, D])": (2, 4),
    "layer_norm(fp32[B, D], fp32[D], fp32[D])": (2, 4),
    "rms_norm(fp32[B, D], fp32[D])": (2, 4),
    "attention(fp32[B, S, N, H], fp32[B, S, K, H], fp32[B, S, K, H], causal)": (2, 4, 3, 6),
    "conv(fp32[B, 8, 8, C], fp32[3, 3, C, F], stride=2, pad=1)": (2, 5, 4, 4),
    "conv_transpose(fp32[B, 8, 8, C], fp32[3, 3, C, F], stride=2, pad=1, output_pad=1)": (2, 5, 16, 16),
    "pool(fp32[B, 9, 9, C], window=3, stride=2, pad=1)": (2, 3, 5, 5),
    "embedding(fp32[V, D], int32[B, S])": (2, 3, 4),
    "cumsum_S(fp32[B, S, D])": (2, 3, 4),
    "transpose(fp32[B, S, D]) -> fp32[D, B, S]": (4, 2, 3),
    "argmax_S(fp32[B, S, D])": (2, 4),
    "prod(fp32[B, S])": (),
    "norm_{B,S}(fp32[B, S, D])": (4,),
    "clip(fp32[B, S])": (2, 3),
    "dropout(fp32[B, S])": (2, 3),
    "compare(fp32[B, S], fp32[B, S])": (2, 3),
}
SIZES = {"B": 2, "S": 3, "D": 4, "F": 5, "N": 4, "K": 2, "H": 6, "C": 3, "V": 9}


@pytest.mark.parametrize("line", TORCH_LINES)
def test_torch_runs_what_the_notation_says(line):
    pytest.importorskip("torch")
    from roofline.measurement.executors import torch_library

    parsed = program(line)
    ops = build(parsed, {name: size for name, size in SIZES.items() if name in parsed.labels})
    assert tuple(executor(torch_library(), parsed.steps[0], ops[0])().shape) == TORCH_LINES[line]


def test_attention_is_not_run_fused_where_the_line_says_unfused(machine):
    pytest.importorskip("torch")
    head = "fp32[1, 8, 2, 4]"
    with pytest.raises(InputError, match="torch's attention is fused; leave unfused out"):
        run(f"attention({head}, {head}, {head}, unfused)", at=MeasuredMachine(made(), machine, machine))


def test_several_threads_do_at_least_what_one_does(machine):
    """On a contended machine a library's threads wait for each other; the ceiling of one thread then stands."""
    from made import summary

    slow = made()
    ceilings = tuple(
        replace(c, summary=summary(1e9)) if (c.name, c.threads) == ("library", 2) else c for c in slow.ceilings
    )
    slow = replace(slow, ceilings=ceilings)
    assert slow.best_ceiling("library", 2, "fp32").value == 128e9
    assert "more was reached on fewer threads: library fp32 on 2 threads, library bf16 on 2 threads" in slow.warnings()
    assert not any("fewer threads" in line for line in made().warnings())


def test_a_time_and_a_rate_of_threads_that_were_held_up_do_not_stand_as_others(machine):
    """A time is at most so long where not all threads ran, and a rate far below one thread's is none."""
    from made import summary

    (found,) = points_of([Measured("x", 1e6, 1e6, 2e-3, "fp32")], machine)
    held = replace(summary(2e-3), doubts=(f"{HELD_UP}: an upper limit",))
    for told, mark in ((held, "≤ "), (summary(2e-3), "")):
        assert f"  {mark}2 ms  " in as_text(point_sections([replace(found, summary=told)], "x"))
    slow = replace(summary(2.45e6), doubts=(f"{ALONE}: no other",))
    cast = next(c for c in made().ceilings if c.name.startswith("library ") and c.unit == "element/s")
    rates = [replace(cast, threads=1), replace(cast, threads=2), replace(cast, threads=2, summary=slow)]
    one, two, waited = (
        str(replace(made(), ceilings=tuple(each))).partition("elements/s")[2].splitlines()[1].split()
        for each in (rates[:1], rates[:2], rates[::2])
    )
    assert (len(two), waited) == (len(one) + 2, one)


def test_long_runs_with_cold_caches_keep_to_their_time(monkeypatch):
    """By a clock that only the call moves on: what else this machine does is not in it."""
    now, calls = [0.0], []
    for module, name in ((timing, "perf_counter"), (timing, "process_time"), (probes, "monotonic")):
        monkeypatch.setattr(module, name, lambda: now[0])

    def call():
        calls.append(1)
        now[0] += 0.1

    assert time_call(call, flush=lambda: None, seconds=0.6).value == pytest.approx(0.1)
    assert 4 <= len(calls) <= 9


def test_ctrl_c_ends_a_run():
    """It ended the timing of one operation, and the next one was begun."""
    calls = []

    def call():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_call(call, flush=lambda: None, seconds=1e3)


def test_a_warm_function_is_under_the_roof_of_warm_data(machine, monkeypatch):
    """As a line of notation is: its caches were said to be warm under the roof of the main memory."""
    monkeypatch.setattr(timing, "time_call", partial(time_call, seconds=0.2))
    warm, cold = (run_function(lambda: None, on=machine, flops=0, bytes=8e3, cold=cold) for cold in (False, True))
    assert (warm.bound.bound_by, cold.bound.bound_by) == ("l1", "dram")
    chosen = with_choices(machine, over="l2")
    assert run_function(lambda: None, on=chosen, flops=0, bytes=8e3).bound.bound_by == "l2"


def test_lines_share_sizes_that_stand_in_one_of_them(machine):
    """A size of the first line was said to stand nowhere in the second."""
    lines, here = ("fp32[M, K] @ fp32[K, 8]", "fp32[F] + fp32[F]"), MeasuredMachine(made(), machine, machine)
    points = run(*lines, at=here, sizes={"F": "4*K"}, M=4, K=8, library=numpy_library())
    assert [point.run.flops for point in points] == [2 * 4 * 8 * 8, 32]
    assert [point.run.name for point in points] == ["fp32[4, 8] * fp32[8, 8]", "fp32[32] + fp32[32]"]
    with pytest.raises(SizeError, match="size Z stands nowhere in the expression"):
        run(*lines, at=here, M=4, K=8, F=8, Z=3, library=numpy_library())
    with pytest.raises(SizeError, match="size M has no value"):
        run(*lines, at=here, K=8, F=8, library=numpy_library())


def test_parts_of_more_than_the_time_are_said_to_beat_figures_of_the_machine() -> None:
    [point] = points_of([Measured("up", flops=1e12, bytes=2e9, seconds=2e-3, dtype="bf16")], chip("h100"))
    slow, quick = (replace(point, effects=(Effect("arithmetic", seconds),)) for seconds in (1e-3, 2.2e-3))
    said = as_text(point_sections([quick], "here"), 120)
    assert "up: no split: its parts alone, arithmetic, would take 1.1x as long" in said
    assert "where a run beat this machine's figures, measured under other load: " in said
    assert "other load" not in as_text(point_sections([slow], "here"), 120)


def test_what_there_is_to_gain_is_that_of_all_runs_of_an_operation() -> None:
    rows = [("mm", 1e12, 1e9, 0.003), ("mm", 1e12, 1e9, 0.0035), ("softmax", 1e9, 3e9, 0.004)]
    found = roofline.profile(
        [dict(zip(("name", "flops", "bytes", "seconds"), row, strict=True)) for row in rows], on="h100"
    )
    lost = sum(point.lost for point in found if point.run.name == "mm")
    assert lost > next(point.lost for point in found if point.run.name == "softmax")
    assert f"most to gain: mm {lost * 1e3:.3g} ms in 2 runs, softmax" in " ".join(str(found).split())


def test_what_the_machine_has_no_rate_for_is_said():
    """A floor without the time of FLOPs is no roof to hold a run against: text, data and tables say so."""
    rows = [{"name": "product", "flops": 1e9, "bytes": 1e6, "seconds": 1e-3}]
    found = points_of(rows, "spr")
    said = "not timed: flops on matrix in bf16"
    assert f"incomplete: {said} (product): floors and shares" in " ".join(str(found).split())
    assert found.to_dict()["points"][0]["incomplete"][0].startswith(f"{said} (1 GFLOP); ")
    assert found.to_pandas()["incomplete"].tolist() == [said]
    assert "incomplete" not in points_of(rows, "h100").to_pandas()
