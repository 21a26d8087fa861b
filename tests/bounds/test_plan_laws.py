"""Laws of sharded programs: nothing is lost or done twice unsaid, one chip alone sends nothing, names do not matter."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import bound, layout, scaling, shard, solve, sweep
from roofline.errors import InputError, RooflineError, SizeError
from roofline.sizes import symbol
from tests.strategies import LONG, few, some

SIZES = {"B": 256, "D": 512, "F": 1024}
LAYOUTS = ["", "_X", "_Y", "_XY"]
MLP = {
    "data": "In[B_X, D] * Wi[D, F] * Wo[F, D] -> Out[B_X, D]",
    "fully sharded": "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]",
    "tensor": "In[B, D_X] * Wi[D, F_X] * Wo[F_X, D] -> Out[B, D_X]",
    "mixed": "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]",
    "2-D weight-stationary": "In[B, D_XY] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B, D_XY]",
}


@st.composite
def matmuls(draw: Any) -> str:
    """A matmul with any legal sharding of its operands and result over X and Y."""

    def tensor(first: str, second: str) -> str:
        one = draw(st.sampled_from(LAYOUTS))
        other = draw(st.sampled_from([x for x in LAYOUTS if not set(x[1:]) & set(one[1:])]))
        return f"bf16[{first}{one}, {second}{other}]"

    return f"{tensor('B', 'D')} * {tensor('D', 'F')} -> {tensor('B', 'F')}"


def done_twice(found: Any, mesh: dict[str, int]) -> list[int]:
    """How often each operation of a plan is done, by what its notes say and what no tensor is sharded over."""
    counts = []
    for part in found.ops:
        if part.op.kind == "collective":
            continue
        said = part.op.note.rpartition("every chip along ")[2].partition(" does")[0] if part.op.note else ""
        idle = [axis for axis in mesh if f"_{axis}" not in found.question.text and axis not in _letters(found)]
        counts.append(prod(mesh[axis] for axis in {*said.split(" and ")} & set(mesh)) * prod(mesh[a] for a in idle))
    return counts


def _letters(found: Any) -> set[str]:
    return {
        letter for word in found.question.text.split("_")[1:] for letter in word.partition("]")[0].partition(",")[0]
    }


@given(matmuls())
@few(10)
def test_flops_are_conserved_but_for_what_is_said_to_be_done_twice(text: str) -> None:
    mesh = {"X": 4, "Y": 4}
    once = bound("bf16[B, D] * bf16[D, F]", on="v5p", **SIZES).flops
    if not _sharded(text):
        return
    for plan in shard(text, on="v5p", mesh=mesh, **SIZES):
        assert plan.bound is not None
        assert plan.bound.flops * 16 == once * done_twice(plan.bound, mesh)[0]


def _sharded(text: str) -> bool:
    return "_" in text


@given(matmuls())
def test_useful_bytes_are_conserved(text: str) -> None:
    for tensor in text.replace(" -> ", " * ").split(" * "):
        held = layout(tensor, mesh={"X": 4, "Y": 4}, sizes={k: v for k, v in SIZES.items() if k in tensor})
        assert held.total_bytes == held.global_bytes * held.copies


@given(matmuls())
def test_a_mesh_of_one_chip_costs_nothing(text: str) -> None:
    alone = bound("bf16[B, D] * bf16[D, F]", on="v5e", **SIZES)
    meshed = bound(text, on="v5e", mesh={"X": 1, "Y": 1}, **SIZES)
    assert not meshed.wire
    assert dict(meshed.times) == dict(alone.times)


@few(25)
@given(matmuls(), st.lists(st.sampled_from([16, 256, 4096, 1 << 20]), min_size=3, max_size=3))
def test_the_best_plan_of_an_open_result_is_no_slower_than_of_a_written_one(text: str, sizes: list[int]) -> None:
    line, asked = (
        text.partition(" -> ")[0],
        {"on": "v5p:4x2", "use": ("X", "Y"), **dict(zip("BDF", sizes, strict=True))},
    )
    try:
        written, free = (shard(each, **asked).best.bound.lower for each in (text, line))
    except RooflineError:  # a size that does not divide, a result that needs to be written
        return
    assert free <= written * (1 + 1e-9)


def test_an_open_result_adds_up_what_its_plan_splits() -> None:
    asked = {"on": "v5p:4x4", "B": 16, "D": 1 << 22, "F": 16}
    free, written = shard("bf16[B, D] * bf16[D, F]", **asked), shard("bf16[B, D] * bf16[D, F] -> bf16[B, F]", **asked)
    assert free.best.bound.lower <= written.best.bound.lower < 6.1e-6


@given(matmuls())
@few(6)
def test_names_of_axes_do_not_matter(text: str) -> None:
    if not _sharded(text):
        return
    other = text.translate(str.maketrans({"X": "Q", "Y": "R"}))
    plans = shard(text, on="h100", mesh={"X": 4, "Y": 2}, **SIZES)
    renamed = shard(other, on="h100", mesh={"Q": 4, "R": 2}, **SIZES)
    assert [p.bound.lower for p in plans if p.bound] == [p.bound.lower for p in renamed if p.bound]


@given(matmuls(), st.floats(1.1, 8))
@few(6)
def test_faster_links_never_slow_anything(text: str, factor: float) -> None:
    if not _sharded(text):
        return
    slow = shard(text, on="v5p", mesh={"X": 4, "Y": 4}, link=2e10, **SIZES)
    fast = shard(text, on="v5p", mesh={"X": 4, "Y": 4}, link=2e10 * factor, **SIZES)
    times = {plan.name: plan.bound for plan in fast}
    for plan in slow:
        quick = times[plan.name]
        assert plan.bound is not None
        assert quick is not None
        assert quick.lower <= plan.bound.lower
        assert quick.upper <= plan.bound.upper
    assert fast.best.bound.lower <= slow.best.bound.lower  # type: ignore[union-attr]


def test_units_overlap_in_the_time_of_the_arithmetic() -> None:
    """A product and a softmax run on two units at once, two formats of one unit do not."""
    asked: dict[str, Any] = {"on": "v5p:16x4x4", "S": 131072, "N": 32, "K": 8, "H": 128}
    attends = ", ".join(f"bf16[1, S_X, {heads}, H]" for heads in "NKK")
    ring = bound(f"attention({attends}, causal) -> bf16[1, S_X, N, H]", **asked)
    assert ring.math == ring.times["mxu"] == ring.lower > ring.times["vpu"]
    two = bound("bf16[M, K] @ bf16[K, N]; int8[M, K] @ int8[K, N]", on="v5e", M=4096, K=4096, N=4096)
    assert two.math == two.lower == pytest.approx(2 * 4096**3 * (1 / 1.97e14 + 1 / 3.94e14), rel=2e-3)


@pytest.mark.parametrize("text", MLP.values(), ids=MLP.keys())
def test_bounds_of_every_plan_are_in_order(text: str) -> None:
    plans = shard(text, on="v5p", mesh={"X": 4, "Y": 4}, overlap=0.5, **SIZES)
    for plan in some(plans, 8):
        found = plan.bound
        assert found is not None
        assert found.lower <= found.op_by_op <= found.upper
        assert found.lower <= found.estimate <= found.upper
    estimates = [p.bound.estimate for p in some(plans, 8)]  # type: ignore[union-attr]
    assert estimates == pytest.approx(sorted(estimates), rel=1e-11)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("data", "no communication"),
        ("fully sharded", "AllGather_X(Wi[D_X, F]); AllGather_X(Wo[F, D_X])"),
        ("tensor", "AllGather_X(In[B, D_X]); ReduceScatter_{X,D}(Out[B, D] {U_X})"),
        (
            "mixed",
            "AllGather_Y(In[B_X, D_Y]); AllGather_X(Wi[D_X, F_Y]); AllGather_X(Wo[F_Y, D_X]); "
            "ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})",
        ),
        (
            "2-D weight-stationary",
            "AllGather_Y(In[B, D_XY]); AllReduce_X(bf16[B, F_Y] {U_X}); ReduceScatter_{Y,D}(Out[B, D_X] {U_Y})",
        ),
    ],
)
def test_a_transformer_mlp_is_one_line_whatever_its_parallelism(name: str, plan: str) -> None:
    assert bound(MLP[name], on="v5p", mesh={"X": 4, "Y": 4}, plan="fewest").plan == plan


@few(15)
@given(st.integers(1, 6), st.integers(1, 64), st.sampled_from(list(MLP)))
def test_number_array_and_symbol_agree(power: int, batch: int, name: str) -> None:
    n, sizes = 2**power, {"B": batch * 64, "D": 8192, "F": 16384}
    mesh = {"X": "n", "Y": 2} if "_Y" in MLP[name] or "Y]" in MLP[name] else {"X": "n"}
    number = bound(MLP[name], on="h100", mesh=mesh, n=n, plan="fewest", **sizes)
    array = bound(MLP[name], on="h100", mesh=mesh, n=np.array([n, n]), plan="fewest", **sizes)
    assert np.allclose(array.lower, number.lower, rtol=1e-12)
    if n <= 4:
        formula = bound(MLP[name], on="h100", mesh=mesh, plan="fewest")
        rates = {use.rate.value: use.rate.plain for use in formula.uses}
        put = {**rates, **{symbol(key): size for key, size in {**sizes, "n": n}.items()}}
        for resource, time in number.times.items():
            assert float(formula.times[resource].subs(put)) == pytest.approx(time, rel=1e-12)


def test_a_sweep_over_chips_and_batches_is_one_call() -> None:
    chips = 4096 if LONG else 256
    grid = sweep(
        "bf16[B_X, D] * bf16[D_X, F] -> bf16[B_X, F]",
        on="h100",
        mesh={"X": "n"},
        n=range(1, chips + 1),
        B=[64 * i for i in range(1, 1001)],
        D=8192,
        F=32768,
        uneven="pad",
        columns=("lower", "bound_by"),
    )
    assert len(grid) == chips * 1000
    for row in (0, 1234, len(grid) // 2 + 1, len(grid) - 1):
        found = grid.row(row)
        assert found.lower == pytest.approx(grid["lower"][row], rel=1e-12)
        assert found.bound_by == grid["bound_by"][row]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e"}, "mesh axis X is not declared: TPU v5e is one chip; declare it"),
        ("bf16[B, D_Z] * bf16[D_Z, F]", {"on": "v5e:4x4"}, "mesh axis Z is not declared; the axes are: X, Y"),
        ("bf16[B_X, D_X] * bf16[D, F]", {"on": "v5e:4"}, "axis X stands twice in one tensor"),
        ("bf16[B_X, D] * bf16[D, F_X]", {"on": "v5e:4"}, "axis X would shard both B and F of the result"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:3"}, "TPU v5e has no slice of 3: its axes are powers of 2"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:32x16"}, "TPU v5e has no slice of 32x16: its largest is 16x16"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "D": 10}, "size D of 10 does not divide over 4 chips"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "dgx-h100:2048"}, "a mesh of 2048 chips is larger than dgx-h100"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "mesh": {"X": 8}}, "make 8 chips, and v5e:4 has 4"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "plan": "AllGadget"}, "no plan with 'AllGadget'; plans are:"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "plan": 99}, "there is no plan 99"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "algorithm": "bok"}, "unknown algorithm 'bok'"),
        ("bf16[B, D_X] * bf16[D_X, F]", {"on": "v5e:4", "uneven": "drop"}, "cannot be treated as 'drop'"),
        ("bf16[B, D] * bf16[D, F] -> bf16[B, F] {U_X}", {"on": "v5e:4", "D": 3}, "no plan gives the result"),
    ],
)  # fmt: skip
def test_messages(text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        bound(text, **{"B": 8, "D": 64, "F": 64, **options})
    assert message in str(caught.value)


def test_a_rank_takes_numbers() -> None:
    with pytest.raises(InputError, match="plan 1 is a rank, and some sizes are open"):
        bound(MLP["tensor"], on="v5e:4", plan=1)


def test_uneven_sizes_are_padded_only_where_that_is_asked_for() -> None:
    text = "bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]"
    with pytest.raises(SizeError):
        bound(text, on="v5e:4", B=10, D=64, F=64)
    padded = bound(text, on="v5e:4", uneven="pad", B=10, D=64, F=64)
    assert padded.ops[0].op.dims["m"] == 3
    assert any("padded" in said for said in padded.assumptions)


@pytest.mark.parametrize(
    ("text", "kind", "nbytes"),
    [
        ("bf16[B, D_X] * bf16[D_X, F] -> bf16[B_X, F]", "ReduceScatter", 4 * 3 * 64 * 2),
        ("relu(bf16[B_X, F]) -> bf16[B, F]", "AllGather", 4 * 3 * 64 * 2),
        ("relu(bf16[B_X, D]) -> bf16[B, D_X]", "AllToAll", 4 * 3 * 4 * 17 * 2),
    ],
)
def test_what_is_padded_is_sent_with_its_padding(text: str, kind: str, nbytes: int) -> None:
    """Each of 4 chips has 3 rows of 9, and gets as many rows of each other chip's sums: 12 rows are sent."""
    sizes = {label: size for label, size in {"B": 9, "D": 65, "F": 64}.items() if label in text}
    found = bound(text, on="v5e:4", uneven="pad", plan=kind, **sizes)
    assert [part.op.dims["bytes"] for part in found.ops if part.op.kind == "collective"] == [nbytes]


def test_a_symbolic_number_of_chips_gives_the_threshold_as_a_formula() -> None:
    found = solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "D", on="v5e", mesh={"X": "n"})
    forms = {crossing.algorithm: str(crossing.form) for crossing in found.by_algorithm}
    assert forms["one-way ring"] == "2*P_bf16*(n - 1)/W_ici_X"
    assert forms["two-way ring"] == "P_bf16*(n - 1)/W_ici_X"
    assert forms["book"] == "P_bf16*n/W_ici_X"


def test_what_to_take_divides_over_the_chips() -> None:
    found = solve("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "D", on="v5e:8", B=8192, F=32768)
    assert found.pick is not None
    assert found.pick % 8 == 0
    assert found.at_pick().kind == "compute-bound"  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "form"), [("dp", "P_bf16/(2*W_ici_X)"), ("ep", "P_bf16*X/(8*W_ici_X)")])
def test_conditions_are_formulas(name: str, form: str) -> None:
    assert str(scaling(name, on="v5p").form) == form


def one_and_two_dimensions(D: int, F: int, N: int, X: int) -> list[float]:
    """Seconds on the links of an MLP's weights sharded over N chips in one and in two dimensions."""
    lines = {
        "In[B, D_Y] * Wi[D, F_Y] * Wo[F_Y, D] -> Out[B, D_Y]": {"Y": N},
        "In[B, D_XY] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B, D_XY]": {"X": X, "Y": N // X},
    }
    answers = [bound(text, on="v5p", mesh=mesh, algorithm="book", plan="fewest", B=256, D=D, F=F)
               for text, mesh in lines.items()]  # fmt: skip
    return [sum(time for name, time in answer.times.items() if name in answer.wire) for answer in answers]


@pytest.mark.long
def test_two_dimensions_send_less_from_four_times_the_ratio_of_widths_on() -> None:
    found = scaling("2d", on="v5p", D=8192, F=16384)
    assert (str(found.form), found.value) == ("4*F/D", 8)
    assert str(found.at["X"]) == "sqrt(D)*sqrt(N)/sqrt(F)"
    one, two = one_and_two_dimensions(8192, 16384, 8, 2)  # the best X of 8 chips is 2
    assert one == pytest.approx(two)
    one, two = one_and_two_dimensions(16384, 8192, 8, 4)  # where 2 chips would do
    assert two < one
    one, two = one_and_two_dimensions(8192, 65536, 8, 1 * 2)  # where 32 would
    assert one < two
    assert scaling("2d", on="v5p", torus_axes={"Y": 2}, D=8192, F=16384).value == 32


@pytest.mark.parametrize(
    ("name", "on", "form"),
    some(
        [
            ("ep", "h100", "P_bf16/W_nvlink"),
            ("ep", "dgx-h100:1024", "P_bf16/W_ib"),
            ("dp", "dgx-h100:1024", "P_bf16/(8*W_ib)"),
            ("fsdp", "dgx-h100:1024", "P_bf16/(8*W_ib)"),
            ("tp", "h100", "P_bf16*Y/W_nvlink"),
            ("mixed", "dgx-h100", "P_bf16**2/(F*W_ib*W_nvlink)"),
            ("2d", "dgx-h100", "4*F*W_nvlink/(D*W_ib)"),
        ],
        2,
    ),
)
def test_conditions_inside_and_beyond_the_node(name: str, on: str, form: str) -> None:
    assert str(scaling(name, on=on).form) == form


def test_forms_for_large_sizes_leave_out_one_part_of_many() -> None:
    found = scaling("tp", on="v5e", unknown="Y", torus_axes={"Y": 2}, wrap=False, algorithm="torus")
    assert (str(found.form), str(found.limit_form)) == ("(2*F*W_ici_Y + P_bf16)/P_bf16", "2*F*W_ici_Y/P_bf16")


def test_wrap_around_may_be_asked_for_on_the_axes_of_a_target() -> None:
    line = bound("AllGather_X(bf16[B_X, D])", on="v5e:4", B=4096, D=8192)
    ring = bound("AllGather_X(bf16[B_X, D])", on="v5e:4", wrap=True, B=4096, D=8192)
    assert ring.times["ici X"] * 2 == line.times["ici X"]


def test_an_unknown_condition_names_those_there_are() -> None:
    with pytest.raises(InputError, match="unknown condition 'ddp'; did you mean 'dp'"):
        scaling("ddp", on="v5p")
