"""Collectives: laws that hold for every algorithm and network; numbers, arrays and symbols; messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import LONG, for_each, some

from roofline import bound, comm
from roofline.bounds.evaluate import evaluate
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import KINDS, algorithms, collective, cost, default_algorithm, latency_crossover
from roofline.sizes import symbol
from roofline.work import Key, Op, Tensor, Work

TARGETS = [
    "v5e:2", "v5e:4", "v5e:16", "v5e:16x4", "v5e:16x16", "v5e:4x4", "v4:4x4x4", "v5p:2x2x4", "v5p:4x8x4", "v5e:16x16:2",
    "h100:2", "h100:8", "h100:12", "h100:64", "dgx-h100:256", "dgx-h100:1024", "gb200:144", "mi300x:2", "mi300x:8",
    "trn2-ultraserver:4x4x4",
]  # fmt: skip

CASES = [(t, k, a) for t in TARGETS for k in KINDS for a in algorithms(k, list(chip(t).mesh))]


def time(kind, machine, nbytes, algorithm=None, axes=None):
    chosen = list(machine.mesh) if axes is None else machine.mesh.select(axes)
    work = cost(kind, chosen, nbytes, algorithm=algorithm).work
    return evaluate([Op(kind, "collective", work)], [Work()], machine)


def amounts(work):
    return {key: value for key, value in work.items() if value != 0}


@for_each(("target", "kind", "algorithm"), some(CASES, 7))
def test_every_algorithm_is_timed_and_grows_with_its_bytes(target, kind, algorithm):
    machine = chip(target)
    small, large = time(kind, machine, 1e6, algorithm), time(kind, machine, 2e6, algorithm)
    assert 0 < small.lower <= small.upper
    for resource, seconds in small.times.items():
        assert large.times[resource] == pytest.approx(seconds * (1 if resource == "hop latency" else 2))


@for_each(("target", "kind", "algorithm"), some(CASES, 7))
def test_the_default_is_one_of_those_that_fit(target, kind, algorithm):
    axes = list(chip(target).mesh)
    assert default_algorithm(kind, axes) in algorithms(kind, axes)
    assert cost(kind, axes, 1, algorithm=algorithm).algorithm == algorithm


@pytest.mark.parametrize("kind", KINDS)
def test_axes_of_one_chip_cost_nothing(kind):
    for target in ("v5p:1x1x1", "h100:1", "dgx-h100:1x1", "mi300x:1"):
        axes = list(chip(target).mesh)
        for algorithm in algorithms(kind, axes):
            assert amounts(cost(kind, axes, 1e9, algorithm=algorithm).work) == {}
    plain, beside = chip("v5p:4x4x4"), chip("v5p:4x4x4")
    beside = with_mesh(beside, {"X": 4, "Y": 4, "Q": 1, "Z": 4})
    for algorithm in algorithms(kind, list(plain.mesh)):
        with_one = cost(kind, list(beside.mesh), 1e9, algorithm=algorithm)
        assert amounts(with_one.work) == amounts(cost(kind, list(plain.mesh), 1e9, algorithm=algorithm).work)


@for_each(
    ("target", "kind", "algorithm"), some([c for c in CASES if ":" in c[0] and "x" not in c[0].partition(":")[2]], 5)
)
def test_relabelling_changes_nothing(target, kind, algorithm):
    machine = chip(target)
    other = with_mesh(machine, {"data": machine.shape[0]})
    found = time(kind, other, 1e9, algorithm)
    before = time(kind, machine, 1e9, algorithm)
    assert found.lower == before.lower
    assert found.upper == before.upper


def test_the_order_of_the_axes_of_a_torus_changes_nothing():
    mesh = chip("v5p:4x8x4").mesh
    for kind in KINDS:
        assert amounts(cost(kind, mesh.select("XZ"), 1e9).work) == amounts(cost(kind, mesh.select("ZX"), 1e9).work)


@given(st.sampled_from(CASES), st.floats(1, 1e12), st.floats(1, 100))
def test_more_bandwidth_is_never_slower(case, nbytes, factor):
    target, kind, algorithm = case
    machine = chip(target)
    name = machine.links[0].name
    faster = chip(target, **{name: machine.links[0].bandwidth.value * factor})
    assert time(kind, faster, nbytes, algorithm).lower <= time(kind, machine, nbytes, algorithm).lower * (1 + 1e-12)


@given(
    st.sampled_from(["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast", "Permute"]), st.integers(1, 64)
)
def test_wrap_around_is_never_slower(kind, n):
    times = [
        time(kind, with_mesh(chip("v5p"), {"X": 4 * n if 4 * n <= 28 else 4}, wrap=wrap), 1e9).lower
        for wrap in (True, False)
    ]
    assert times[0] <= times[1]


def test_more_axes_are_never_slower():
    """The same array over more links: 4 chips on one axis, 16 on two, 64 on three."""
    machine = chip("v4:4x4x4")
    for algorithm in ("torus", "book"):
        times = [time("AllGather", machine, 1e9, algorithm, axes).lower for axes in ("X", "XY", "XYZ")]
        assert times[0] > times[1] > times[2]


# ---- arrays and symbols


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_agree_with_numbers(kind):
    sizes = np.array([1, 2, 4, 8, 12, 16, 64, 1024, 4096])
    machine = with_mesh(chip("h100"), {"X": sizes})
    for algorithm in ("one-way ring", "book", "direct"):
        fits = [algorithm in algorithms(kind, chip(f"h100:{n}").mesh.select("X")) for n in sizes]
        if not all(fits) or algorithm not in algorithms(kind, machine.mesh.select("X")):
            continue
        many = cost(kind, machine.mesh.select("X"), 1e9, algorithm=algorithm).work
        for i, n in enumerate(sizes):
            one = cost(kind, chip(f"h100:{n}").mesh.select("X"), 1e9, algorithm=algorithm).work
            for key in many:
                single = one[key._replace(place="X")] if key not in one and key.place.endswith("nvlink") else one[key]
                assert np.broadcast_to(many[key], sizes.shape)[i] == pytest.approx(single, rel=1e-12), (algorithm, n)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_axis_sizes_on_a_torus(kind):
    sizes = np.array([1, 2, 4, 8, 16])
    machine = with_mesh(chip("v5e"), {"X": sizes, "Y": 4})
    for algorithm in algorithms(kind, list(machine.mesh)):
        many = cost(kind, list(machine.mesh), 1e9, algorithm=algorithm).work
        for i, n in enumerate(sizes):
            axes = list(chip(f"v5e:{n}x4").mesh)
            if algorithm not in algorithms(kind, axes):  # of one axis there is none outside
                continue
            one = cost(kind, axes, 1e9, algorithm=algorithm).work
            for key in many:
                assert np.broadcast_to(many[key], sizes.shape)[i] == pytest.approx(one[key]), (algorithm, n, key)


def test_a_sweep_over_chips_and_batches_is_one_call():
    """1 to 4,096 chips by 1,000 batches."""
    chips = np.arange(1.0, 4097.0)[:: 1 if LONG else 7, None]
    batch = np.arange(1.0, 1001.0)[None, :]
    machine = with_mesh(chip("h100"), {"X": chips})
    work = cost("AllReduce", machine.mesh.select("X"), 2 * 8192 * batch).work
    arithmetic = Op("matmul", "contraction", Work.flops("matrix", "bf16", 1))
    found = evaluate([Op("AllReduce", "collective", work), arithmetic], [Work(), Work()], machine)
    assert found.lower.shape == (len(chips), 1000)
    for number, size in ((8, 1000), (64, 500)):
        (row,) = (chips[:, 0] == number).nonzero()[0]
        assert found.lower[row, size - 1] == pytest.approx(
            time("AllReduce", chip(f"h100:{number}"), 2 * 8192 * size).lower
        )


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_agree_with_numbers(kind):
    n, V = symbol("n"), symbol("V")
    for key, sizes, wrap in (
        ("v5p", (4, 8, 12), True),
        ("v5p", (4, 8), False),
        ("h100", (2, 4, 8), None),
        ("mi300x", (4, 8), None),
    ):
        symbolic = with_mesh(chip(key), {"X": n}, wrap=wrap).mesh.select("X")
        for algorithm in algorithms(kind, symbolic):
            formula = cost(kind, symbolic, V, algorithm=algorithm).work
            for size in sizes[algorithm in ("double binary tree", "two-shot") and sizes[0] == 2 :]:  # a symbol is more
                numbers = cost(
                    kind, with_mesh(chip(key), {"X": size}, wrap=wrap).mesh.select("X"), 2**30, algorithm=algorithm
                ).work
                for place in numbers:
                    value = formula[place]
                    value = value.subs({n: size, V: 2**30}) if hasattr(value, "subs") else value
                    assert float(value) == pytest.approx(float(numbers[place]), rel=1e-12), (algorithm, place)


def test_closed_forms():
    n, V = symbol("n"), symbol("V")
    ring = with_mesh(chip("v5p"), {"X": n}).mesh.select("X")
    assert cost("AllReduce", ring, V).work[Key("wire", "X")] == V * (n - 1) / n
    assert cost("AllToAll", ring, V).work[Key("wire", "X")] == V / 8
    machine = with_mesh(chip("v5p"), {"X": n})
    assert str(time("AllGather", machine, V, "book").times["ici X"] * 9e10 * 2) == "1.0*V"


def test_exact_ints_stay_exact():
    work = cost("AllGather", chip("v5e:4").mesh.select("X"), 4 * 10**30).work
    assert work[Key("wire", "X")] == 3 * 10**30


# ---- crossing of the latency and the bandwidth regime


@pytest.mark.parametrize("target", ["v5e:8", "v5e:16", "v4:4x4x4", "h100:8", "h100:64", "v5e:16x4"])
@pytest.mark.parametrize("kind", ["AllGather", "AllReduce", "AllToAll"])
def test_at_the_crossing_both_take_as_long(target, kind):
    machine = chip(target)
    size = latency_crossover(kind, list(machine.mesh), machine)
    found = time(kind, machine, size)
    others = max(seconds for name, seconds in found.times.items() if name != "hop latency")
    assert found.times["hop latency"] == pytest.approx(others)
    assert time(kind, machine, size * 0.9).kind == "latency-bound"
    assert time(kind, machine, size * 1.1).kind == "network-bound"


def test_no_crossing_without_a_latency():
    machine = chip("mi300x:8")
    assert latency_crossover("AllGather", list(machine.mesh), machine) is None
    assert any("hops" in said for said in time("AllGather", machine, 1e9).incomplete)


# ---- operations and messages


def test_an_operation_on_local_shards():
    x = Tensor("x", (128, 64), "int8")
    ring = chip("v5e:16").mesh.select("X")
    gathered = collective("AllGather", x, ring)
    assert gathered.dims == {"bytes": 128 * 64 * 16, "chips": 16}
    assert gathered.writes[0].dims == (2048, 64)
    assert collective("ReduceScatter", x, ring).writes[0].dims == (8, 64)
    out = Tensor("y", (8, 1024), "int8")
    shuffled = collective("AllToAll", x, ring, out=out, density=0.5)
    assert [tensor.traffic_bytes for tensor in (*shuffled.reads, *shuffled.writes)] == [64 * 64, 8 * 512]
    assert shuffled.work[Key("wire", "X")] == pytest.approx(128 * 64 * 16 * 0.5 / 8)


@pytest.mark.parametrize(
    ("target", "kind", "algorithm", "message"),
    [
        ("v5e:4", "AllGathr", None, "unknown collective 'AllGathr'; did you mean 'AllGather'?"),
        ("v5e:4", "AllGather", "two way rng", "unknown algorithm 'two way rng'; did you mean 'two-way ring'?"),
        (
            "v5e:4",
            "AllGather",
            "in-switch",
            "in-switch does not do AllGather over X: it does AllReduce, Broadcast, Reduce; those that do: ",
        ),
        (
            "v5e:4",
            "AllReduce",
            "tree",
            "tree does not do AllReduce over X: ici has no switch; those that do: one-way ring, ",
        ),
        ("h100:8", "AllGather", "torus", "torus does not do AllGather over X: nvlink is no torus; those that do: "),
        (
            "h100:8",
            "AllGather",
            "hierarchical",
            "hierarchical does not do AllGather over X: nvlink is one tier; those that do: ",
        ),
        (
            "h100:16",
            "AllReduce",
            "double binary tree",
            "double binary tree does not do AllReduce over X: nvlink and nic are 2 tiers; those that do: ",
        ),
        (
            "a100:8",
            "AllReduce",
            "in-switch",
            "in-switch does not do AllReduce over X: nvlink has no switches that reduce; ",
        ),
        ("v5e:4", "ReduceScatter", "direct", "direct does not do ReduceScatter over X: ici joins neighbours only; "),
    ],
)
def test_messages(target, kind, algorithm, message):
    with pytest.raises(InputError) as error:
        cost(kind, chip(target).mesh.select("X"), 1, algorithm=algorithm)
    assert str(error.value).startswith(message)


def test_no_axes():
    with pytest.raises(InputError, match="AllGather goes over mesh axes, and there are none; as in AllGather_X"):
        cost("AllGather", [], 1)


def test_an_algorithm_may_be_written_loosely():
    axes = chip("v5e:4").mesh.select("X")
    assert cost("AllGather", axes, 1, algorithm="One-Way_Ring").algorithm == "one-way ring"


def test_an_algorithm_is_for_the_collectives_that_it_does_over_these_axes() -> None:
    node, torus = chip("h100:8"), chip("v5e:4")
    ring = Chooser("one-way ring", node)
    assert cost("AllReduce", node.mesh.select("X"), 2**20, algorithm=ring).algorithm == "one-way ring"
    assert cost("AllToAll", node.mesh.select("X"), 2**20, algorithm=ring).algorithm == "direct"
    with pytest.raises(InputError, match="in-switch does not do AllReduce over X: ici has no switches"):
        cost("AllReduce", torus.mesh.select("X"), 2**20, algorithm=Chooser("in-switch", torus))


def test_collectives_with_one_chip_at_an_end() -> None:
    """A Reduce sends what a Broadcast does, and where switches add up the format each byte once; int8 they do not."""
    found = {name: comm(name, bytes=8e9, on="h100:8") for name in ("broadcast", "reduce", "gather", "scatter")}
    assert {name: (each.algorithm, each.row.wire_time) for name, each in found.items()} == {
        "broadcast": ("in-switch", pytest.approx(8e9 / 4.5e11)),
        "reduce": ("in-switch", pytest.approx(8e9 / 4.5e11)),
        "gather": ("direct", pytest.approx(7e9 / 4.5e11)),
        "scatter": ("direct", pytest.approx(7e9 / 4.5e11)),
    }
    assert comm("reduce", bytes=8e9, on="h100:8", dtype="int8").algorithm == "two-shot"
    held = [comm(text, on="v5e:4", B=64, D=64).bound.ops[0].op for text in (
        "Gather_X(bf16[B_X, D])", "Scatter_{X,B}(bf16[B, D])", "Reduce_X(bf16[B, D] {U_X})")]  # fmt: skip
    assert [(op.reads[0].dims, op.writes[0].dims) for op in held] == [
        ((16, 64), (64, 64)), ((64, 64), (16, 64)), ((64, 64), (64, 64))]  # fmt: skip


@pytest.mark.parametrize("on", ["h100", "a100", "b200"])
@pytest.mark.parametrize("line", some(["bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "AllGather_X(bf16[B_X, D])"], 2))
def test_arrays_of_chips_within_and_beyond_a_node_are_what_each_number_is(on: str, line: str) -> None:
    """A direct exchange takes one hop: over the links of a node within it, over the network beyond."""
    chips = np.array([1, 2, 4, 8, 16, 64])
    for batch in (64, 4096):
        sizes = {"B": batch, "D": 8192, **({"F": 64} if "F" in line else {})}
        many = bound(line, on=on, mesh={"X": chips}, **sizes)
        for place, number in enumerate(chips.tolist()):
            if number == 1 and "Gather" in line:
                continue
            one = bound(line, on=on, mesh={"X": number}, **sizes)
            for name in ("lower", "op_by_op", "upper"):
                assert getattr(many, name)[place] == pytest.approx(getattr(one, name), rel=1e-12), (number, name)


# ---- units that differ by a chip


@for_each("chips", [9, 12, 17, 20, 36, 100])
def test_units_that_differ_send_what_the_smallest_has_to(chips):
    """Nodes of 8 or fewer chips, as alike as can be: what each of them sends out, over the network links of its own."""
    nodes = -(-chips // 8)
    units = [chips // nodes + (node < chips % nodes) for node in range(nodes)]

    def suffices(load: float) -> bool:
        """A node that adds up a share r sends its sums of 1 − r out, and r to each other node: 1 + (nodes − 2)·r."""
        left = [load * own - 1 for own in units]
        return min(left) >= 0 and (nodes == 2 or sum(left) / (nodes - 2) >= 1)

    low, high = 0.0, 2.0
    for _ in range(60):
        low, high = (low, (low + high) / 2) if suffices((low + high) / 2) else ((low + high) / 2, high)
    least = {
        "AllReduce": high,
        "AllGather": max((chips - own) / chips / own for own in units),
        "ReduceScatter": max((chips - own) / chips / own for own in units),
        "AllToAll": max((chips - own) / chips**2 for own in units),
        "Broadcast": max(1 / own for own in units),
    }
    axes = chip(f"h100:{chips}").mesh.select("X")
    many = with_mesh(chip("h100"), {"X": np.array([8, chips])}).mesh.select("X")
    for kind, share in least.items():
        assert cost(kind, axes, 1e9).work[Key("wire", "X.nic")] == pytest.approx(share * 1e9), kind
        assert cost(kind, many, 1e9).work[Key("wire", "X.nic")] == pytest.approx([0, share * 1e9]), kind
    others = chips - min(units)
    for kind, share in {"AllGather": others / chips, "AllReduce": others, "Broadcast": others}.items():
        for sizes, sent in ((axes, share * 1e9), (many, [0, share * 1e9])):
            assert cost(kind, sizes, 1e9, algorithm="direct").work[Key("wire", "X.nic")] == pytest.approx(sent), kind
