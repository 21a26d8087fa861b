"""The value of an unknown at which the floor takes a stated time: by hand, and by asking again at it."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from roofline import bound, llm, model, solve, solve_equal
from roofline.cli import main
from roofline.errors import HardwareError, InputError, SizeError
from roofline.hardware import chip
from tests.strategies import some

MATMUL = "bf16[B, D] * bf16[D, F]"
SHARDED = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
CAUSAL = "attention(bf16[B, T, N, H], bf16[B, T, K, H], bf16[B, T, K, H], causal)"


def test_a_time_by_hand() -> None:
    peak = chip("h100").figure("bf16").value
    found = solve(MATMUL, "B", on="h100", time="1ms", D=8192, F=28672)
    assert found.value == pytest.approx(1e-3 * peak / (2 * 8192 * 28672))
    assert (found.pick, found.bound_by, str(found.form)) == (int(found.value), "tensor", "P_bf16*t/(2*D*F)")
    moved = 2 * (64 * 8192 + 8192 * 28672 + 64 * 28672)
    found = solve(MATMUL, "hbm", on="h100", time=0.3e-3, B=64, D=8192, F=28672)
    assert (found.value, found.unit, found.bound_by) == (pytest.approx(moved / 0.3e-3), "B/s", "hbm")


@pytest.mark.parametrize(
    ("line", "name", "on", "sizes", "time"),
    some(
        [
            (*asked, time)
            for time in (2e-4, 1e-3, 0.1)
            for asked in (
                (MATMUL, "B", "h100", {"D": 8192, "F": 28672}),
                (MATMUL, "D", "v5e", {"B": 17, "F": 28672}),
                (CAUSAL, "T", "h100", {"B": 1, "N": 32, "K": 8, "H": 128}),
                (SHARDED, "B", "a100:8", {"D": 8192, "F": 28672}),
                (SHARDED, "D", "h100:8", {"B": 4096, "F": 8192}),
            )
        ],
        4,
        1,
    ),
)
def test_the_largest_size_is_within_the_time_and_the_next_is_not(
    line: str, name: str, on: str, sizes: dict[str, int], time: float
) -> None:
    found = solve(line, name, on=on, time=time, **sizes)
    step = 8 if name == "D" and ":8" in on else 1
    assert found.pick is not None
    assert found.pick % step == 0
    at = [bound(line, on=on, **sizes, **{name: size}).lower for size in (found.pick, found.pick + step)]
    assert at[0] <= time * (1 + 1e-9) < at[1] * (1 + 2e-9)
    assert bound(line, on=on, **sizes, **{name: found.pick}).bound_by == found.bound_by


@pytest.mark.parametrize(
    ("line", "name", "on", "figure"),
    [(MATMUL, "hbm", "h100", "hbm"), (MATMUL, "bf16", "h100", "bf16"), (SHARDED, "link", "h100:8", "nvlink")],
)
def test_the_floor_at_a_rate_takes_the_time(line: str, name: str, on: str, figure: str) -> None:
    sizes = {"B": 2048, "D": 8192, "F": 28672}
    found = solve(line, name, on=on, time=1.2e-3, **sizes)
    assert found.value is not None
    assert bound(line, on=on, set={figure: found.value}, **sizes).lower == pytest.approx(1.2e-3)


PRODUCT = "A[B_X, D] * W[D_X, F] -> C[B_X, F]"


@pytest.mark.parametrize(
    ("line", "on", "figure", "time"),
    some(
        [
            ("AllReduce_X(bf16[B, D])", "h100:8", "nvlink", 6e-6),
            ("AllReduce_X(bf16[B, D])", "v5e:16", "ici", 8e-5),
            ("AllReduce_X(bf16[B, D])", "h100:16", "link", 3e-3),
            (PRODUCT, "v5p:8", "ici", 1.4e-4),
            (PRODUCT, "v5p:8", "hbm", 1.4e-4),
        ],
        3,
    ),
)
def test_a_lower_rate_takes_another_plan_or_algorithm(line: str, on: str, figure: str, time: float) -> None:
    sizes = {"B": 64, "D": 8192, **({"F": 4096} if "F" in line else {})}
    found = solve(line, figure, on=on, time=time, **sizes)
    assert found.value is not None
    now, below = (bound(line, on=on, set={figure: found.value * part}, **sizes).lower for part in (1, 0.999))
    assert now <= time * (1 + 1e-6)
    assert below > time


def test_no_size_is_refused_that_another_plan_takes_in_time() -> None:
    line = "A[I_X, J] * B[J_X, K] -> C[I_X, K]"
    found = solve(line, "I", on="v5e:8", time="1ms", J=8192, K=8192)
    assert found.pick is not None
    assert bound(line, on="v5e:8", I=found.pick, J=8192, K=8192).lower <= 1e-3
    assert bound(line, on="v5e:8", I=found.pick + 8, J=8192, K=8192).lower > 1e-3
    assert found.plan == bound(line, on="v5e:8", I=found.pick, J=8192, K=8192).plan
    assert f"plan: {found.plan}" in found.assumptions
    assert found.collectives == ("AllToAll over X by line", "ReduceScatter over X by line")


def test_a_time_that_nothing_gives_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", MATMUL, "--on", "h100", "D=8192", "F=28672"]
    assert main([*words, "--for", "hbm", "--time", "10us", "B=64"]) == 0
    assert "no hbm takes 10 µs: tensor alone takes 30.4 µs" in capsys.readouterr().out
    assert main([*words, "--for", "B", "--time", "10us", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["value"], found["verdict"]) == (None, "no B takes 10 µs: the least B takes 140 µs")
    assert main([*words, "--for", "B", "--time", "1ms", "--latex"]) == 0
    value, condition = capsys.readouterr().out.splitlines()[1:3]
    assert value == "B &= \\frac{P_{\\mathrm{bf16}} \\, t}{2 \\, D \\, F} \\\\"
    assert (condition.startswith(r"& \quad \text{while }"), condition.endswith(r"\leq t")) == (True, True)


def test_a_value_for_a_time_says_where_it_holds() -> None:
    """The bytes take 1 ms at that rate, and the product no longer."""
    found = solve(MATMUL, "hbm", on="h100", time="1ms", B=64, D=8192, F=28672)
    assert found.value == pytest.approx(2 * (64 * 8192 + 8192 * 28672 + 64 * 28672) / 1e-3)
    assert found.to_dict()["valid"] == "2*B*D*F/P_bf16 <= t"
    assert "valid while  2*B*D*F/P_bf16 <= t" in str(found)


def test_a_time_on_several_machines_stands_side_by_side() -> None:
    found = solve(MATMUL, "B", on=["v5e", "h100"], time="1ms", D=8192, F=28672)
    assert [fact.value for fact in found.facts["B to take"]] == [419, 2106]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"for_": "B", "D": 64}, "a time needs every size but B; give F a number"),
        ({"for_": "B", "D": 64, "F": 64, "time": "soon"}, "soon"),
    ],
)
def test_what_a_time_needs(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        solve(MATMUL, on="h100", **{"time": "1ms", **asked})


@pytest.mark.parametrize(("on", "time"), some([("h100", 1e-3), ("h100", 1e-4), ("v5e", 4e-3), ("dgx-h100", 6e-4)], 2))
def test_the_fewest_chips_within_a_time_are_the_first_of_all_that_there_can_be(on: str, time: float) -> None:
    sizes = {"B": 8192, "D": 65536, "F": 8192}
    found = solve(SHARDED, "n", on=on, time=time, mesh={"X": "n"}, **sizes)
    times = {}
    for chips in (2**k for k in range(9)):  # others do not divide D
        with suppress(HardwareError, SizeError):
            times[chips] = bound(SHARDED, on=on, mesh={"X": chips}, **sizes).lower
    within = [chips for chips, took in times.items() if took <= time]
    assert found.pick == (within[0] if within else min(times, key=lambda chips: times[chips]))
    assert (found.value is None, found.least) == ((False, None) if within else (True, min(times.values())))
    assert any(f"of {found.pick}: X={found.pick} over" in line for line in found.assumptions)


def test_chips_for_a_time_are_told_in_words() -> None:
    asked = {"on": "h100", "mesh": {"X": "n"}, "B": 8192, "D": 65536, "F": 8192}
    assert solve(SHARDED, "n", time="1ms", **asked).verdict == "n = 16 is the least within 1 ms, tensor binds"
    none = solve(SHARDED, "n", time="9us", **asked).verdict
    assert none.startswith("no n tried up to 32,768 is within 9 µs: the fastest, 32, takes ")
    rows = solve("bf16[B_X, D] * bf16[D, F]", "n", time="1ms", **{**asked, "B": 2_560_000, "D": 8192})
    assert rows.verdict == "n = 512 is the least power of two within 1 ms, tensor binds"  # 400 are within it too
    facts = {fact.name: fact.value for fact in rows.facts()}
    assert (facts["n exactly"], facts["n to take"]) == (None, 512)
    alone = solve("AllGather_X(bf16[B_X, D])", "n", on="h100", time="1s", mesh={"X": "n"}, B=64, D=64)
    assert alone.pick == 2  # one chip sends nothing


@pytest.mark.parametrize("words", [["--for", "dtype"], ["--for", "intensity"]])
def test_a_time_is_of_a_size_or_a_rate(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", MATMUL, *words, "--time", "1ms", "--on", "h100", "D=64", "F=64"]) == 2
    assert "--time is of one line and a size or rate of it" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "sizes"), [("B", {"D": 8192, "F": 8192}), ("hbm", {"B": 64, "D": 8192, "F": 8192})])
def test_a_printed_solution_is_the_answer_at_other_sizes_or_no_number(name: str, sizes: dict[str, int]) -> None:
    found: dict[str, Any] = {}
    exec(solve(MATMUL, name, on="h100", time="1ms", **sizes).printed("python"), found)
    for at in ({}, {"D": 4096}, {"D": 64, "F": 64}, {"B": 10**6}):
        other = {**sizes, **{size: value for size, value in at.items() if size in sizes}}
        there, printed = solve(MATMUL, name, on="h100", time="1ms", **other), found[name](**other)
        binds = "tensor" if name == "B" else "hbm"
        assert printed == pytest.approx(there.value) if there.bound_by == binds else math.isnan(printed)


@pytest.mark.parametrize(
    ("name", "time", "step"),
    [
        ("hbm", 5e-3, {"batch": 8, "context": 4096}),
        ("bf16", 0.2, {"batch": 8, "prompt": 4096}),
        ("link", 0.18, {"batch": 8, "prompt": 4096, "tensor": 8, "algorithm": "two-shot"}),
    ],
)
def test_the_rate_for_a_step_of_a_model(name: str, time: float, step: dict[str, Any]) -> None:
    on = "h100:8" if "tensor" in step else "h100"
    found = solve("llama-3-8b", name, on=on, time=time, **step)
    assert found.value is not None
    again = llm("llama-3-8b", on=chip(on, **{name: found.value}), **step)
    lower = (again.prefill or again.decode).lower if "prompt" in step else again.decode.lower
    assert lower == pytest.approx(time, rel=1e-6)
    if name == "hbm":
        assert found.value == pytest.approx(again.decode.total_bytes / time, rel=1e-9)
        assert found.verdict == "at best 5 ms with hbm = 3.86 TB/s or more"
        assert json.loads(json.dumps(found.to_dict()))["value"] == found.value


def test_the_largest_batch_and_context_of_a_step_by_asking_again() -> None:
    for name, other in (("batch", {"context": 4096}), ("context", {"batch": 8})):
        found = solve("llama-3-8b", name, on="h100", time="20ms", **other)
        assert found.pick is not None
        times = [
            llm("llama-3-8b", on="h100", **{name: at, **other}).decode.lower for at in (found.pick, found.pick + 1)
        ]
        assert times[0] <= 20e-3 < times[1]
    for several in ([8, 16], np.array([8, 16])):
        with pytest.raises(InputError, match="a time needs every other size of the step"):
            solve("llama-3-8b", "hbm", on="h100", batch=several, time="5ms")
    with pytest.raises(InputError, match="batch is what is solved for, and has a value, 8; leave the value out"):
        solve("llama-3-8b", "batch", on="h100", batch=8, time="20ms")
    with pytest.raises(InputError, match="B is what is solved for, and has a value, 8; leave the value out"):
        solve("bf16[B, D] * bf16[D, F]", "B", on="h100", B=8)
    with pytest.raises(InputError, match=r"B is what is solved for, and has a value, \[1.0, 2.0\]; leave"):
        solve("bf16[B, D] * bf16[D, F]", "B", on="h100", B=np.array([1, 2]))
    with pytest.raises(InputError, match="M is what is solved for, and has a value, 8; leave the value out"):
        solve_equal("bf16[B, D] * bf16[D, F]", "bf16[B, M] * bf16[M, F]", "M", M=8)
    with pytest.raises(InputError, match="no phase 'training'; phases are: prefill, decode, mixed"):
        solve("llama-3-8b", "batch", on="h100", phase="training", time="20ms")
    said = solve("llama-3-8b", "batch", on="h100", phase="prefill", prompt=500, time="200ms")
    assert said.pick == solve("llama-3-8b", "batch", on="h100", prompt=500, time="200ms").pick
    own = solve(model("llama-3-8b"), "batch", on="h100", time="20ms")
    assert own.pick == solve("llama-3-8b", "batch", on="h100", time="20ms").pick == 96
    with pytest.raises(InputError, match="of a model solve finds what takes a stated time; give time='5ms'"):
        solve("llama-3-8b", "batch", on="h100")
    assert (
        solve("llama-3-8b", "bf16", on="h100", batch=8, time="1ms").verdict
        == "no bf16 takes 1 ms: hbm alone takes 5.76 ms"
    )


def test_the_largest_size_of_a_time_is_one_that_plans_can_split() -> None:
    """Between multiples of 20 chips only slower plans are left, and the time of a size there says nothing of larger."""
    line, where = "int8[B, D_X] * fp16[D_X, F] -> int8[B, F]", {"on": "h100:20", "D": 8000, "F": 16000}
    found = solve(line, "B", time="3ms", **where)
    assert found.pick is not None
    times = [bound(line, B=found.pick + more, **where).lower for more in (0, 20, 40, 2000)]
    assert times[0] <= 3e-3 < min(times[1:])


def test_with_the_rate_found_the_time_holds_where_bytes_are_rounded_up() -> None:
    line, where, time = "fp32[B, F] * bf16[F] -> mxfp8[B]", {"on": "trn2", "B": 1, "F": 197}, 3.9466666666666665e-10
    found = solve(line, "hbm", time=time, **where)
    assert bound(line, set={"hbm": found.value}, **where).lower <= time * (1 + 1e-9)


@pytest.mark.parametrize(
    ("line", "unknown", "where", "time", "step"),
    [
        ("pool(bf16[4, X, 8, 64], window=3, stride=2)", "X", {}, 1e-7, 1),
        ("conv(bf16[64, X, 64, 64], bf16[3, 3, 64, O], stride=2)", "X", {"O": 32}, 1e-3, 1),
        ("attention(bf16[4, 128, N, 64], bf16[4, 128, 6, 64], bf16[4, 128, 6, 64])", "N", {}, 1e-5, 6),
    ],
)
def test_sizes_that_cannot_be_asked_are_passed_over(
    line: str, unknown: str, where: dict[str, int], time: float, step: int
) -> None:
    found = solve(line, unknown, time=time, on="l40s", sizes=where)
    assert found.pick is not None
    assert found.pick % step == 0
    times = [bound(line, on="l40s", sizes={**where, unknown: found.pick + more}).lower for more in (0, step)]
    assert times[0] <= time < times[1]


def test_where_no_size_takes_the_time_the_least_that_can_be_asked_says_what_is_left() -> None:
    line = "attention(bf16[4, 128, N, 64], bf16[4, 128, 6, 64], bf16[4, 128, 6, 64])"
    found = solve(line, "N", time=1e-9, on="l40s")
    assert (found.value, found.least) == (None, bound(line, on="l40s", N=6).lower)
    assert found.verdict.startswith("no N takes 1 ns: the least N takes ")


def test_a_size_that_the_time_does_not_grow_with_has_no_largest() -> None:
    found = solve("embedding(bf16[V, D], int32[B])", "V", on="h100", time="1us", D=100, B=50)
    assert (found.value, found.pick) == (None, None)
    assert found.verdict == "every V is within 1 µs: the largest take 6.03 ns"
