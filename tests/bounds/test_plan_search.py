"""The search over plans: what it finds is the best of all there are, counted out one by one."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import roofline.ops.sharding.plans as searched
from roofline import bound, formula, shard, sweep
from roofline.bounds.api import question
from roofline.bounds.sharding_plans import MOST, SHOWN_PLANS, _Search
from roofline.errors import InputError, NotationError, SizeError
from roofline.frozen import replace
from roofline.notation import program
from tests.bounds.test_plan_laws import LAYOUTS, MLP
from tests.strategies import LONG, few, some

SIZES = {"B": 64, "D": 512, "F": 1024}
GELU = "h = In[B_X, D_Y] * Wi[D_X, F_Y]; g = gelu(h); g * Wo[F_Y, D_X] -> Out[B_X, D_Y]"


def merit(found: Any, estimated: bool = False) -> tuple[float, ...]:
    """What plans are ranked by, to the digits that adding up in another order leaves alone."""
    figures = (found.estimate if estimated else found.lower, found.op_by_op, found.upper, sum(found.wire.values()))
    return tuple(float(f"{x:.9g}") for x in figures)


def every_plan(text: str, **options: Any) -> list[Any]:
    """Build and price every plan there is, with nothing left out, and sort the prices."""
    search = _Search.of(question(text, **options))
    kept, searched.KEPT = searched.KEPT, 10**9
    try:
        estimated = "overlap" in options or "overhead" in options
        return sorted(merit(search.price(plan), estimated) for plan in search.plans())
    finally:
        searched.KEPT = kept


@st.composite
def chains(draw: Any) -> str:
    """Two matmuls in a row, sharded in any way over X and Y."""

    def tensor(name: str, first: str, second: str) -> str:
        one = draw(st.sampled_from(LAYOUTS))
        other = draw(st.sampled_from([x for x in LAYOUTS if not set(x[1:]) & set(one[1:])]))
        return f"{name}[{first}{one}, {second}{other}]"

    return f"{tensor('I', 'B', 'D')} * {tensor('W', 'D', 'F')} * {tensor('V', 'F', 'D')} -> {tensor('O', 'B', 'D')}"


def _reads(text: str) -> bool:
    """Say whether the layouts of the operands leave one for what is made halfway."""
    try:
        return bool(program(text))
    except NotationError:
        return False


@few(1)
@given(chains(), st.sampled_from([2**6, 2**10, 2**14]), st.sampled_from(["v5e:4x2", "v5p:4x4x4", "h100:16"]))
def test_the_best_plan_is_the_best_of_all(text: str, batch: int, on: str) -> None:
    assume("_" in text and _reads(text))
    mesh = {"X": 4, "Y": 2} if on != "v5p:4x4x4" else {"X": 16, "Y": 4}
    options = {"on": on if on != "h100:16" else "h100", "mesh": mesh, **SIZES, "B": batch}
    every = every_plan(text, **options)
    found = shard(text, **options)
    assert [merit(plan.bound) for plan in found.plans[:16]] == every[:16]
    assert merit(bound(text, **options)) == every[0]


#: Over two axes there are some thousand plans, which take seconds where operations are joined.
TWO_AXES = [(MLP["mixed"], each) for each in ({}, {"overlap": 0.3}, {"overhead": 2e-6})]
JOINED = [(MLP["mixed"], {"policy": "fused"}), (MLP["mixed"], {"policy": "minimal"}), (GELU, {})]


@pytest.mark.parametrize(("text", "options"), [*TWO_AXES, *JOINED] if LONG else TWO_AXES[:1])
def test_more_plans_than_are_listed(text: str, options: dict[str, Any]) -> None:
    asked = {"on": "v5p:4x4", **SIZES, **options}
    every = every_plan(text, **asked)
    found = shard(text, **asked)
    estimated = "overlap" in options or "overhead" in options
    assert len(found) == min(MOST, len(every))
    assert merit(found.best.bound, estimated) == every[0]
    assert bound(text, **asked).plan == found.best.name


@pytest.mark.parametrize(
    "options", some([{"policy": "fused"}, {}, {"policy": "minimal"}, {"overlap": 0.3}, {"overhead": 2e-6}], 3)
)
def test_the_best_plan_where_operations_are_joined(options: dict[str, Any]) -> None:
    """Over one axis there are few plans, so that each of them is priced."""
    text = "h = In[B_X, D] * Wi[D_X, F]; g = gelu(h); g * Wo[F, D_X] -> Out[B_X, D]"
    for batch in (64, 8192):
        asked = {"on": "v5p:2x2x2", "mesh": {"X": 8}, **SIZES, "B": batch, **options}
        found, every = shard(text, **asked), every_plan(text, **asked)
        assert merit(found.best.bound, "overlap" in options or "overhead" in options) == every[0]
        assert len(every) > 8


def test_a_plan_is_legal_only_if_every_layout_on_its_way_divides() -> None:
    """F of 4 is split over Y, but over Y and X together it cannot be."""
    text = "bf16[B, D_X] * bf16[D_X, F_Y] -> bf16[B, F_Y]"
    found = shard(text, on="v5p:4x4", B=4, D=4096, F=4)
    assert found.best.name == "AllReduce_X(bf16[B, F_Y] {U_X})"
    assert len(found) < len(shard(text, on="v5p:4x4", B=4, D=4096, F=16))
    with pytest.raises(SizeError, match="size F of 6 does not divide over 4 chips"):
        shard(text, on="v5p:4x4", B=4, D=4096, F=6)


def test_plans_are_priced_when_they_are_looked_at() -> None:
    answer = bound(MLP["mixed"], on="v5p:4x4", **SIZES)
    assert answer.plans[0].bound is not None
    assert answer.plans[0].bound.lower == answer.lower
    assert [plan.rank for plan in answer.plans[:3]] == [1, 2, 3]
    assert answer.plans[-1].rank == len(answer.plans)


def test_a_single_causal_query_shares_its_keys() -> None:
    """It is the last position and sees every key, so that chips share them as those of full attention."""
    line = "attention(q:bf16[B, S, N, H], k:bf16[B, T_X, K, H], v:bf16[B, T_X, K, H]{}) -> bf16[B, S, N, H]"
    sizes = {"on": "v5e:4", "B": 8, "N": 32, "H": 128, "T": 8192, "K": 8}
    causal, full = (bound(line.format(mask), S=1, **sizes) for mask in (", causal", ""))
    assert causal.plan == full.plan == "AllReduce_X(statistics); AllReduce_X(bf16[B, S, N, H] {U_X})"
    assert (causal.lower, causal.flops) == (full.lower, full.flops)
    assert ", causal)" in causal.expression
    written = bound(line.format(", causal").replace("S", "1"), **sizes)
    assert written.lower == causal.lower
    rows = bound(line.format(", causal"), S=1, **{**sizes, "B": np.array([8, 16])})
    assert rows.wire["ici X"].tolist() == [causal.wire["ici X"], 2 * causal.wire["ici X"]]


@pytest.mark.parametrize(
    ("queries", "mask"),  # every mask and every number of queries
    some([*product((1, 2, 48), (", causal", ", causal, window=64", ", causal, window=5000", ", window=64"))], 6),
)
def test_chips_share_the_keys_of_a_mask(mask: str, queries: int) -> None:
    """Each chip has as many of the keys that some query sees, and of the pairs; few results are cheap to add up."""
    line = f"attention(bf16[B, S, N, H], bf16[B, T_X, K, H], bf16[B, T_X, K, H]{mask}) -> bf16[B, S, N, H]"
    sizes = {"B": 8, "S": queries, "N": 32, "H": 128, "T": 8192, "K": 8}
    found, alone = bound(line, on="h100:4", **sizes), bound(line.replace("_X", ""), on="h100", **sizes)
    assert found.plan == "AllReduce_X(statistics); AllReduce_X(bf16[B, S, N, H] {U_X})"
    assert found.flops_by == {unit: flops / 4 for unit, flops in alone.flops_by.items()}
    shared, whole = ([x.traffic_bytes for x in answer.ops[0].op.reads] for answer in (found, alone))
    assert shared == [whole[0], whole[1] / 4, whole[2] / 4]
    said = any("each chip has early and late keys" in text for text in found.assumptions)
    assert said == (queries > 1 or "window" in mask)
    lengths = bound(line, on="h100:4", plan="statistics", **{**sizes, "T": np.array([8192, 16384])})
    assert lengths.lower[0] == pytest.approx(found.lower, rel=1e-12)
    closed = formula(line, on="h100:4", plan="statistics")(**sizes)
    assert closed["lower"] == pytest.approx(found.lower, rel=1e-12)


def test_one_plan_for_all_rows_is_the_best_for_them_together_and_said() -> None:
    split, line = "bf16[B_X, D] * bf16[D_X, F] -> bf16[B_X, F]", {"on": "mi300x:8", "D": 8192, "F": 5120}
    gathered, moved = "AllGather_X(bf16[D_X, F])", "AllToAll_{X,D}(bf16[B_X, D]); ReduceScatter_{X,B}(bf16[B, F] {U_X})"
    for sizes, plan in (([160, 320], moved), ([32000, 64000], gathered)):
        table = sweep(split, B=sizes, **line)
        assert table["lower"].tolist() == pytest.approx([bound(split, B=B, **line).lower for B in sizes], rel=1e-12)
        said = f"plan of all rows: {plan}; asked alone, a row goes by its own fastest plan"
        assert said in " ".join(str(table).split())
    alone = sweep("bf16[B_X, D] * bf16[D, F]", B=[160, 320], on="h100:8", D=64, F=64)  # sends nothing
    assert "plan of all rows" not in str(alone)
    text = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
    rows = bound(text, on="v5e:4", B=np.array([64, 65536]), D=8192, F=8192)
    said = "at every size; asked alone, each takes its own fastest"
    assert f"plan: AllReduce_X(bf16[B, F] {{U_X}}), {said}" in rows.assumptions
    best = [bound(text, on="v5e:4", B=B, D=8192, F=8192).lower for B in (64, 65536)]
    assert all(row >= one * (1 - 1e-12) for row, one in zip(rows.lower, best, strict=True))
    # a closed form stands on the plan of its own sizes, so that it gives there what the answer says
    gathers = "AllGather_X(bf16[B, D_X]); AllGather_X(bf16[D_X, F])"
    for rank in (None, 1, 2):
        one = bound(text, on="v5e:4", plan=rank, B=4096, D=128, F=8192)
        assert (one.plan == gathers) is (rank != 2)
        assert one.formula().values()["lower"] == pytest.approx(one.lower, rel=1e-12)


@pytest.mark.parametrize(
    ("line", "plan", "result"),
    [
        ("bf16[B_X, D] * bf16[D, F]", "no communication", "bf16[1000_X, 4096]"),
        ("bf16[B, D_X] * bf16[D_X, F]", "no communication", "bf16[1000, 4096] {U_X}"),
        ("bf16[B, D_X] * bf16[D, F]", "AllToAll_{X,B}(bf16[B, D_X])", "bf16[1000_X, 4096]"),
    ],
)
def test_a_final_result_is_partial_only_where_operands_make_it_so(line: str, plan: str, result: str) -> None:
    """To split a contraction and leave the sums to nobody would be no way to do it."""
    answer = bound(line, on="h100:8", B=1000, D=4096, F=4096)
    assert answer.plan == plan
    assert answer.expression.endswith(f"-> {result}")
    summed = bound(f"{line} -> bf16[B, F]", on="h100:8", B=1000, D=4096, F=4096)
    assert summed.lower >= answer.lower


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("h = A[I_X, J] * B[J_X, K]; g = gelu(h); g * C[K_X, L] -> D[I_X, L]", (12, 24, 40)),
        ("A[I_X, J] * B[J_X, K] * C[K_X, L] * E[L_X, M] -> D[I, M]", (17, 34, 73)),
    ],
)
def test_the_worse_partial_plans_are_dropped(text: str, counts: tuple[int, ...], monkeypatch: Any) -> None:
    """One or two plans are kept for each set of layouts on the way, then all of them; the first ones are the same."""
    found = []
    for kept in (1, 2, 10**9):
        monkeypatch.setattr(searched, "KEPT", kept)
        found.append([plan.name for plan in searched.plans(program(text).steps)])
    assert tuple(map(len, found)) == counts
    assert found[0][0] == found[1][0] == found[2][0]


def test_a_tensor_that_is_used_twice_is_gathered_once() -> None:
    """Its gathered layout is held for the second use, in every plan."""
    line = "h = A[I, J_X] * B[J, K_X]; g = A[I, J_X] * C[J, K_X]; h + g -> D[I, K_X]"
    for plan in islice(searched.plans(program(line).steps), 12):
        made = [word.partition("(")[2][0] for word in plan.words if word.startswith("AllGather") and "(A" in word]
        assert len(made) <= 1, plan.name
    assert "AllGather_X(A[I, J_X])" in next(searched.plans(program(line).steps)).words


def test_plans_of_open_sizes_say_what_is_not_worked_out_and_read_in_words() -> None:
    found = shard("bf16[B_X, D_Y] * bf16[D_Y, F] -> bf16[B_X, F]", on="v5e:4x4")
    assert len(found) > SHOWN_PLANS
    last = found.plans[-1]
    assert (last.link_bytes, last.math, last.comms, last.moving, last.memory) == (None,) * 5
    (table,) = found.table().tables()
    assert str(table.rows[0].cells[2]) == "B*F/2"
    assert all(row.cells[2:] == ("not worked out",) * 2 for row in table.rows[SHOWN_PLANS:])
    assert "Piecewise" not in str(found)
    assert f"{len(found) - SHOWN_PLANS} more; " in str(found)
    assert "they have figures too" in str(found)
    arrays = shard("bf16[B_X, D_Y] * bf16[D_Y, F] -> bf16[B_X, F]", on="v5e:4x4", B=[64, 4096], D=8192, F=8192)
    assert str(arrays.table()).count("not worked out") == 2 * (len(arrays) - SHOWN_PLANS)


def test_plans_of_a_line_that_is_not_sharded_say_so_without_contradiction() -> None:
    """Plans slice what every chip has; that each chip does all of the work is said of a bound alone."""
    line, sizes = "bf16[B, D] * bf16[D, F] -> bf16[B, F]", {"B": 512, "D": 8192, "F": 32768}
    said = " ".join(str(shard(line, on="v5e:4x4", **sizes)).split())
    assert "no tensor of the line is sharded: every chip starts with all, and plans slice it" in said
    assert "does all of this" not in said
    assert "does all of this" in " ".join(str(bound(line, on="v5e:4x4", **sizes)).split())


def test_the_best_plan_of_each_layout_is_that_of_the_line_written_so() -> None:
    line, sizes = "A[B, D] * W[D, F] -> C[B, F]", {"B": 512, "D": 8192, "F": 32768}
    found = shard(line, on="v5e:2x4", layouts=True, **sizes)
    assert len(found) == 15  # each of two axes splits one of three dimensions or holds copies, but not both copies
    by_layout = {plan.layout: plan.bound for plan in found}
    written = {
        "B_X, F_Y": "A[B_X, D] * W[D, F_Y] -> C[B_X, F_Y]",
        "D_XY": "A[B, D_XY] * W[D_XY, F] -> C[B, F]",
        "F_Y": "A[B, D] * W[D, F_Y] -> C[B, F_Y]",
    }
    for name, text in written.items():
        alone, there = shard(text, on="v5e:2x4", **sizes).best.bound, by_layout[name]
        assert there is not None
        assert alone is not None
        assert (there.lower, there.upper) == (alone.lower, alone.upper)
    times = [(plan.bound.lower, plan.bound.upper) for plan in found if plan.bound is not None]
    assert times == sorted(times)
    assert [each["layout"] for each in found.to_dict()["plans"]] == [plan.layout for plan in found]


def test_layouts_that_cannot_be_asked_are_refused() -> None:
    line, sizes = "A[B, D] * W[D, F] -> C[B, F]", {"B": 512, "D": 8192, "F": 32768}
    with pytest.raises(InputError, match="the line has a layout of its own; leave its mesh axes or layouts= out"):
        shard("A[B_X, D] * W[D, F]", on="v5e:8", layouts=True, **sizes)
    with pytest.raises(InputError, match="use= is of axes that a layout leaves over; leave use= out"):
        shard(line, on="v5e:8", layouts=True, use="X", **sizes)
    with pytest.raises(InputError, match="no axis here is one of a torus"):
        shard(line, on="h100:8", layouts=True, wrap=True, **sizes)
    with pytest.raises(InputError, match="no chips to lay a line out on"):
        shard(line, on="v5e", layouts=True, **sizes)
    with pytest.raises(InputError, match="layouts are compared at numbers"):
        shard(line, on="v5e:8", layouts=True)
    with pytest.raises(InputError, match="5 dimensions over 3 mesh axes have 215 layouts; at most 64"):
        shard("q[B, S, N, H] *_H k[B, T, N, H]", on="v5p:2x2x2", layouts=True, B=8, S=64, N=8, H=64, T=64)
    odd = shard(line, on="v5e:8", layouts=True, B=500, D=8192, F=32768)
    assert [plan.layout for plan in odd] == ["F_X", "D_X"]  # 8 chips do not divide 500 rows


def test_one_plan_more_than_are_shown_is_shown() -> None:
    found = shard("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on="v5e:4x4", B=512, D=8192, F=32768)
    nine = replace(found, plans=found.plans[: SHOWN_PLANS + 1])
    assert f"{SHOWN_PLANS + 1}." in str(nine)
    assert "1 more;" not in str(nine)
    assert f"{len(found) - SHOWN_PLANS} more;" in str(found)
