"""Where it flips on several chips, and for sizes that follow others: every crossing is looked at from both sides."""

from __future__ import annotations

from math import ceil, floor

import pytest

from roofline import bound, comm, scaling, shard, solve, sweep
from roofline.bounds.ridges import rules_of_thumb
from roofline.errors import HardwareError, NotationError, RooflineError, SizeError
from tests.strategies import some

SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"


@pytest.mark.parametrize("on", some(["dgx-h100:512", "dgx-h100:16", "gb200-superpod:144", "dgx-h100:64", "h100:32"], 5))
def test_a_closed_form_over_several_links_is_that_of_the_busiest(on: str) -> None:
    found = solve(SPLIT, "D", on=on, plan="AllReduce")
    value, chips = found.limit, int(on.partition(":")[2])
    assert value is not None
    assert next(x.value for x in found.by_algorithm if x.algorithm == "in-switch") == pytest.approx(value)
    for multiple, kind in (
        (floor(value / chips) * chips, "network-bound"),
        (ceil(value / chips) * chips, "compute-bound"),
    ):
        assert bound(SPLIT, on=on, plan="AllReduce", B=2**20, F=2**20, D=multiple).kind == kind


def test_hops_of_each_link_have_a_latency_of_their_own() -> None:
    """One hop within the node and one between nodes: 0.6 and 2.7 µs, in formulas as in numbers."""
    line, sizes = "bf16[B_X, D_Y] * bf16[D_X, F_Y] -> bf16[B_X, F_Y]", {"B": 8192, "D": 2048, "F": 4096}
    open_ = bound(line, on="dgx-h100:64", mesh={"Y": 8, "X": 8})
    number = bound(line, on="dgx-h100:64", mesh={"Y": 8, "X": 8}, plan=open_.plan, sizes=sizes)
    rates = {use.rate.value: use.rate.plain for use in open_.uses}
    named = {s: sizes[s.name] for s in open_.upper.free_symbols if s.name in sizes}
    assert float(open_.upper.subs(named).subs(rates)) == pytest.approx(number.upper, rel=1e-12)
    assert number.times["hop latency"] == pytest.approx(3.3e-6)


@pytest.mark.parametrize(
    ("on", "depth"),
    some(
        [("v5e", 40_960), ("v5e", 65_536), ("h100", 65_536), ("dgx-h100", 65_536), ("mi300x", 2**18), ("v5p", 65_536)],
        3,
    ),
)
def test_a_number_of_chips_is_right_for_those_that_there_can_be(on: str, depth: int) -> None:
    """Eight v5e in a line are slower than a closed ring would be; sixteen H100 are two nodes."""
    sizes = {"B": 8192, "D": depth, "F": 8192}
    found = solve(SPLIT, "X", on=on, mesh={"X": "X"}, plan="AllReduce", sizes=sizes)
    for chips in (2**k for k in range(1, 9)):
        try:
            kind = bound(SPLIT, on=on, mesh={"X": chips}, plan="AllReduce", sizes=sizes).kind
        except RooflineError:
            continue
        if found.value is None:
            assert found.verdict == f"always {kind}"
        else:
            after = next((name for value, _, name in reversed(found.flips) if chips >= value), found.flips[0][1])
            assert (kind == "compute-bound") == (after in ("mxu", "tensor", "matrix")), chips


def test_one_chip_sends_nothing_whatever_the_plan_of_several() -> None:
    """Two v5e wait for their link, one computes: the answer is no *always*."""
    sizes = {"B": 4096, "D": 8192, "F": 8192}
    found = solve(SPLIT, "X", on="v5e", mesh={"X": "X"}, sizes=sizes)
    assert (found.verdict, found.pick) == ("compute-bound below, network-bound from X = 2", 2)
    kinds = [bound(SPLIT, on="v5e", mesh={"X": chips}, sizes=sizes).kind for chips in (1, 2)]
    assert kinds == ["compute-bound", "network-bound"]


def test_the_crossing_that_is_told_first_is_the_one_to_computing() -> None:
    line = "In[B, D_Y] * Wi[D, F_Y] * Wo[F_Y, D] -> Out[B, D_Y]"
    found = solve(line, "D", on="h100:8", mesh={"Y": 8}, B=8192, F="4*D")
    assert (found.before, found.after) == ("nvlink", "tensor")
    assert [flip[1] for flip in found.flips] == ["hop latency", "nvlink"]


def test_a_size_may_follow_the_one_that_is_solved_for() -> None:
    found = solve("bf16[B, D] * bf16[D, F]", "D", on="h100", B=512, F="4*D")
    assert str(found.form) == "5*B*P_bf16/(4*(B*W_hbm - P_bf16))"
    for size, kind in ((870, "memory-bound"), (872, "compute-bound")):
        assert bound("bf16[B, D] * bf16[D, F]", on="h100", B=512, D=size, F=4 * size).kind == kind
    assert found.pick == 872
    square = solve("bf16[N, K] * bf16[K, M]", "N", on="h100", set={"bf16": 9e14, "hbm": 3e12}, K="N", M="N")
    assert square.value == pytest.approx(3 * 300)
    raw = solve(flops="2*B*D*F", bytes="2*(B*D + D*F + B*F)", for_="D", on="h100", B=512, F="4*D")
    assert raw.value == pytest.approx(found.value)


def test_a_size_may_follow_one_that_is_open() -> None:
    answer = bound("bf16[B, D] * bf16[D, F]", on="h100", F="4*D")
    assert str(answer.flops) == "8*B*D**2"
    with pytest.raises(SizeError, match="size F is a formula of E, which has no value; sizes are: B, D"):
        bound("bf16[B, D] * bf16[D, F]", on="h100", F="4*E")
    with pytest.raises(SizeError, match="size D has no value; a table needs numbers"):
        sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], F=8)
    with pytest.raises(SizeError, match="size I has no value; a table needs numbers"):
        sweep("A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", on="v5p:4x4x4", K=8192)


def test_a_chain_leaves_the_layout_of_what_is_halfway_open() -> None:
    """Sequence parallelism around a tensor-parallel MLP: S and F are sharded over the same axis."""
    best = shard("gelu(In[S_Y, D] * Wi[D, F_Y]) * Wo[F_Y, D] -> Out[S_Y, D]", on="v5p", mesh={"Y": 4},
                 S=8192, D=8192, F=32768).best  # fmt: skip
    assert best.name == "AllGather_Y(In[S_Y, D]); ReduceScatter_{Y,S}(Out[S, D] {U_Y})"
    with pytest.raises(NotationError, match="axis Y would shard both S and F of the result"):
        shard("AllGather_Y(In[S_Y, D] * Wi[D, F_Y])", on="v5p", mesh={"Y": 4})


def test_hops_without_a_latency_are_no_hops_in_no_time() -> None:
    found = comm("AllReduce_X(bf16[B, D] {U_X})", on="mi300x:8", B=1024, D=1024)
    assert (found.row.hops, found.row.hop_time, found.time) == (2, None, found.row.wire_time)
    said = "not timed: hops at X (2 hops); AMD MI300X has no figure for it: setting mi300x.xgmi.latency gives it one"
    assert found.bound.incomplete == (said,)
    for name in ("mi300x.xgmi.latency", "mi300x.xgmi.hop", "hop"):
        timed = comm("AllReduce_X(bf16[B, D] {U_X})", on="mi300x:8", B=1024, D=1024, set={name: 1e-6})
        assert (timed.row.hop_time, timed.bound.incomplete) == (pytest.approx(2e-6), ())


def test_too_many_axes_of_open_sizes_are_no_shape() -> None:
    with pytest.raises(HardwareError, match="TPU v5e has no slice of that shape: it has 3 axes; it is a torus of 2"):
        scaling("mixed", on="v5e", torus_axes={"X": 2}, F=16384)


@pytest.mark.parametrize("on", ["v5e:8", "v5e"])
def test_a_mesh_axis_to_be_solved_for_is_to_be_opened(on: str) -> None:
    with pytest.raises(SizeError, match=r"mesh axis X is fixed here, or not said; open it .* mesh=\{'X': 'X'\}"):
        solve(SPLIT, "X", on=on, B=64, D=64, F=64)


@pytest.mark.parametrize("chips", some(["v5e:4", "h100:8", "mi300x:8", "gaudi3:4"], 2))
def test_the_width_among_the_rules_of_thumb_is_the_one_that_is_solved_for(chips: str) -> None:
    """In a full mesh (mi300x, gaudi3) each chip has a link to each other: the width is the same for any number."""
    key, _, count = chips.partition(":")
    widths = {rule.column: rule for rule in rules_of_thumb(key) if rule.group == "width"}
    rule, found = widths[f"{count} chips"], solve(SPLIT, "D", on=chips, B=2**20, F=2**20)
    assert rule.value == pytest.approx(found.value)
    assert found.collectives[0].rpartition(" ")[2] in rule.meaning


@pytest.mark.parametrize(
    ("line", "name", "chips", "sizes"),
    some(
        [
            (
                "bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]",
                "D",
                "v5e:4",
                {"B": 16, "F": 8192},
            ),  # always memory-bound by one
            (
                "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F_X]",
                "B",
                "h100:8",
                {"D": 8192, "F": 16384},
            ),  # network-bound by one
        ],
        2,
        1,
    ),
)
def test_what_binds_on_both_sides_is_that_of_the_fastest_plan_there(
    line: str, name: str, chips: str, sizes: dict[str, int]
) -> None:
    found = solve(line, name, on=chips, sizes=sizes)
    assert found.pick is not None
    kinds = [bound(line, on=chips, sizes=sizes | {name: size}).bound_by for size in (found.pick - 8, found.pick + 8)]
    assert (kinds, "the fastest at each size" in str(found)) == ([found.before, found.after], True)
    fixed = bound(line, on=chips, sizes={}).plan
    assert len(solve(line, name, on=chips, sizes=sizes, plan=fixed).flips) < len(found.flips)


def test_the_answer_names_the_changes_past_the_one_it_gives() -> None:
    line, asked = "bf16[B_X, D] * bf16[D, F_X] -> bf16[B, F]", {"on": "v5e:4x4", "mesh": {"X": 16}}
    sizes = {"D": 8192, "F": 8192}
    found = solve(line, "B", sizes=sizes, **asked)
    said = "latency-bound below, memory-bound from B = 32, network-bound from 48, compute-bound at no B"
    assert found.verdict == said
    kinds = {16: "latency-bound", 32: "memory-bound", 48: "network-bound", 8192: "network-bound"}
    answers = {size: bound(line, sizes=sizes | {"B": size}, **asked) for size in (*kinds, 2**30)}
    assert {size: answers[size].kind for size in kinds} == kinds
    assert found.intensity_limit == pytest.approx(answers[2**30].intensity, rel=1e-4)


def test_a_plan_that_is_faster_at_the_size_to_take_is_named() -> None:
    sizes = {"B": 2**20, "F": 2**20}
    found = solve(SPLIT, "D", on="h100:8", sizes=sizes)
    assert found.faster_plan == bound(SPLIT, on="h100:8", sizes=sizes | {"D": found.pick}).plan
    assert "AllToAll" in str(found.faster_plan)


@pytest.mark.parametrize("rate", ["nvlink", "hbm", "bf16"])
def test_a_rate_is_solved_for_by_the_plan_that_is_the_fastest_at_those_sizes(rate: str) -> None:
    line, sizes = "bf16[B_X, D] * bf16[D, F_X] -> bf16[B_X, F]", {"B": 1024, "D": 4096, "F": 16384}
    found = solve(line, rate, on="h100:8", sizes=sizes)
    assert found.faster_plan is None
    near = [bound(line, on="h100:8", sizes=sizes, set={rate: part * (found.value or 0)}) for part in (0.99, 1.01)]
    assert [answer.bound_by for answer in near] == [found.before, found.after]


@pytest.mark.long
def test_sizes_that_no_plan_can_split_flip_nothing() -> None:
    """Between sizes that 16 chips split the best plans are out of reach, and another resource binds."""
    line, where = "int8[B, D_X] * fp16[D_X, F] -> int8[B, F]", {"on": "a100:16", "D": 8000, "F": 16000}
    found = solve(line, "B", **where)
    assert found.verdict == "network-bound below, compute-bound from B = 499216"  # both take as long at 499200
    for value, before, after in found.flips:
        sides = [bound(line, B=int(value) - step, **where).bound_by for step in (16, 0)]
        assert sides == [before, after]
