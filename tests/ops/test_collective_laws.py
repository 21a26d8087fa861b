"""Laws of all collectives by all algorithms on networks of any shape, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulate_networks import Network, dcn, inside, one, tiered, torus
from tests.strategies import for_each, some

from roofline import bound, formula
from roofline.bounds.evaluate import evaluate
from roofline.hardware import chip
from roofline.hardware.machine import MeshAxis
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.choice import Chooser, feasible_algorithms, regimes
from roofline.ops.collectives.cost import KINDS, algorithms, cost, default_algorithm, limit_reason
from roofline.ops.collectives.registry import link_groups
from roofline.sizes import symbol
from roofline.work import Key, Op, Work

SIDES = st.tuples(st.integers(1, 9), st.sampled_from(["ring", "line"]))
TORI = st.lists(SIDES, min_size=1, max_size=3).map(lambda sides: torus(*sides))
TIERS = st.builds(
    lambda sizes, nested, inner: tiered(sizes, nested=nested, inner=inner),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["switch", "mesh"]),
)
SLICES = st.builds(lambda slice_, slices: inside(slice_, dcn(slices)), TORI, st.integers(2, 5))
NETWORKS = st.one_of(TORI, TIERS, SLICES)
V = prod(range(1, 13)) ** 4


@st.composite
def cases(draw: st.DrawFn) -> tuple[Network, str, str]:
    network, kind = draw(NETWORKS), draw(st.sampled_from(list(KINDS)))
    return network, kind, draw(st.sampled_from(algorithms(kind, network.axes)))


def amounts(work: Work) -> dict[Key, object]:
    return {key: value for key, value in work.items() if value != 0}


def same(work: Work, other: Work) -> bool:
    """Amounts are floats where a count does not divide V."""
    return amounts(work) == pytest.approx(amounts(other), rel=1e-12)


@given(cases())
def test_amounts_are_not_negative_and_one_chip_does_nothing(case):
    network, kind, name = case
    work = cost(kind, network.axes, V, algorithm=name).work
    assert all(amount >= 0 for _, amount in work.items())
    assert (amounts(work) == {}) == (network.chips == 1)
    with_one = cost(kind, [*network.axes, MeshAxis("Q", 1)], V, algorithm=name).work
    assert same(with_one, work)


@given(cases(), st.randoms())
def test_the_order_of_the_axes_changes_nothing(case, random):
    network, kind, name = case
    axes = list(network.axes)
    random.shuffle(axes)
    assert same(*(cost(kind, given, V, algorithm=name).work for given in (axes, network.axes)))


#: Ways to add up that are no ReduceScatter and AllGather.
ONE_PASS = (
    "direct", "chain", "spanning trees", "double binary tree", "in-switch", "whole sums", "outer one-shot",
    "two outer one-shots", "whole sums by rails", "one-shot by rails", "balanced", "balanced in-switch",
)  # fmt: skip


@given(NETWORKS)
def test_an_all_reduce_in_two_passes_is_a_reduce_scatter_and_an_all_gather(network):
    for name in algorithms("AllReduce", network.axes):
        if name in ONE_PASS:
            continue
        part = "direct" if name == "two-shot" else name
        halves = [cost(kind, network.axes, V, algorithm=part).work for kind in ("ReduceScatter", "AllGather")]
        whole = cost("AllReduce", network.axes, V, algorithm=name).work
        for place in {key.place for key in whole}:
            wire = Key("wire", place)
            assert float(whole[wire]) == pytest.approx(float(halves[0][wire] + halves[1][wire])), name
        fewer = sum(half.total("hops") for half in halves) - whole.total("hops")
        sides = [d.size for d in network.dimensions if d.size > 1]
        turns = (
            name in ("two-way ring", "torus") and len(link_groups(network.axes)) == 1 and not any(n % 2 for n in sides)
        )
        assert fewer in ((0, 1) if turns else (0,)), name


@given(st.sampled_from(["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast", "Reduce", "Gather"]))
def test_two_chips_on_a_ring_have_one_way(kind):
    axes = one("ring", 2).axes
    both, once = (cost(kind, axes, V, algorithm=f"{name} ring").work for name in ("two-way", "one-way"))
    met = Work.hops("X", int(kind == "AllReduce"))  # the two send one another their sums
    assert both + met == once
    pair = chip("h100:2")  # as direct exchange, by whose name it goes
    assert cost(kind, list(pair.mesh), 2**20, algorithm=Chooser(None, pair)).algorithm != "two-way ring"


@given(cases(), st.lists(st.integers(1, 10**9), min_size=1, max_size=4))
def test_a_number_an_array_and_a_symbol_give_the_same(case, sizes):
    network, kind, name = case
    bytes_ = symbol("V")
    many = cost(kind, network.axes, np.array(sizes, dtype=float), algorithm=name).work
    formula = cost(kind, network.axes, bytes_, algorithm=name).work
    for i, size in enumerate(sizes):
        numbers = cost(kind, network.axes, size, algorithm=name).work
        assert set(numbers) == set(many) == set(formula)
        for key, value in numbers.items():
            assert float(np.broadcast_to(many[key], len(sizes))[i]) == pytest.approx(float(value), rel=1e-12)
            put_in = formula[key].subs({bytes_: size}) if hasattr(formula[key], "subs") else formula[key]
            assert float(put_in) == pytest.approx(float(value), rel=1e-12)


#: What every chip has to receive, of V over N chips.
RECEIVED = {
    "AllGather": lambda n: Fraction(n - 1, n),
    "ReduceScatter": lambda n: Fraction(n - 1, n),
    "AllReduce": lambda n: Fraction(n - 1, n),
    "AllToAll": lambda n: Fraction(n - 1, n * n),
    "Broadcast": lambda n: Fraction(min(1, n - 1)),
    "Reduce": lambda n: Fraction(min(1, n - 1)),
    "Gather": lambda n: Fraction(n - 1, n),
    "Scatter": lambda n: Fraction(1, n),
    "Send": lambda n: Fraction(min(1, n - 1)),
    "Permute": lambda n: Fraction(min(1, n - 1)),
}


@given(cases())
def test_nothing_beats_what_a_chip_must_receive_and_how_far_it_comes(case):
    """Bytes over each link by the links there are; hops from the farthest chip. Stated limits are none of these."""
    network, kind, name = case
    if limit_reason(kind, network.axes, name):
        return
    work = cost(kind, network.axes, V, algorithm=name).work
    into, far, switched = Fraction(0), 0, 0
    for group in link_groups(network.axes):
        for level in group.segments:
            n = int(level.size)
            ways = {"torus": level.directions, "mesh": max(1, n - 1)}.get(level.topology, 1)
            into += Fraction(work[Key("wire", level.place)]) * ways / V
            far += (n // 2 if level.wrap else n - 1) if level.topology == "torus" else 0
            switched |= level.topology != "torus" and n > 1
    assert into >= RECEIVED[kind](network.chips) * (1 - Fraction(1, 10**12))
    if kind not in ("Permute", "Send"):
        assert work.total("hops") >= far + switched
    assert work.total("hops") >= min(1, network.chips - 1)


@given(TORI, st.sampled_from(list(KINDS)))
def test_closing_axes_is_never_slower(network, kind):
    """More links: neither more bytes over any of them, nor more hops."""
    closed = network.by({"line": "ring"})
    ring = torus(*((d.size, "ring") for tier in closed.tiers for d in tier))
    for name in algorithms(kind, network.axes):
        if name not in algorithms(kind, ring.axes) or default_algorithm(kind, network.axes) == "line":
            continue
        before, after = (cost(kind, axes, V, algorithm=name).work for axes in (network.axes, ring.axes))
        assert max([a for k, a in after.items() if k.quantity == "wire"], default=0) <= max(
            [a for k, a in before.items() if k.quantity == "wire"], default=0
        )
        assert after.total("hops") <= before.total("hops")


@given(cases(), st.floats(0, 1))
def test_only_an_all_to_all_has_a_density(case, density):
    network, kind, name = case
    dense, sparse = (cost(kind, network.axes, V, algorithm=name, density=d).work for d in (1, density))
    factor = density if kind == "AllToAll" else 1
    for key, value in dense.items():
        assert float(sparse[key]) == pytest.approx(float(value * factor if key.quantity == "wire" else value))


# ---- the fastest

TARGETS = ["v5e:8", "v5e:16", "v5e:16x4", "v4:4x4x4", "v5e:16x16:2", "a100:8", "h100:8", "h100:64", "dgx-h100:1024",
           "gb200:72", "mi300x:8", "trn2-ultraserver:4x4x4"]  # fmt: skip


def time(found, machine):
    answer = evaluate([Op("x", "collective", found.work)], [Work()], machine)
    return max(answer.times.values()), sum(answer.times.values())


@given(st.sampled_from(TARGETS), st.sampled_from(list(KINDS)), st.floats(1, 1e10))
def test_auto_is_the_least_of_all_that_the_network_can_do(target, kind, nbytes):
    machine = chip(target)
    axes = list(machine.mesh)
    best = Chooser(None, machine).cost(kind, axes, nbytes, 1)
    assert best.algorithm in feasible_algorithms(kind, axes)
    names = feasible_algorithms(kind, axes)
    others = [time(cost(kind, axes, nbytes, name, machine=machine), machine) for name in names]
    assert time(best, machine)[0] == min(others)[0]
    if "no hop latency is known" in best.note:
        assert regimes(kind, axes, machine) == ()
        return
    assert time(best, machine) == min(others)
    regime = [r for r in regimes(kind, axes, machine) if r.start <= nbytes][-1]
    by_regime = cost(kind, axes, nbytes, regime.algorithm, machine=machine)
    assert time(by_regime, machine)[0] == pytest.approx(time(best, machine)[0], rel=1e-9)
    assert "algorithm auto" not in best.note


@for_each("target", some(TARGETS, 2))
@for_each("kind", KINDS)
def test_auto_of_an_array_is_auto_of_each(target, kind):
    machine = chip(target)
    axes = list(machine.mesh)
    sizes = np.array([2.0**k for k in range(0, 40, 3)])
    many = cost(kind, axes, sizes, algorithm=Chooser("auto", machine))
    each = [cost(kind, axes, float(size), algorithm=Chooser("auto", machine)) for size in sizes]
    assert many.algorithm.split(" or ") == list(dict.fromkeys(one.algorithm for one in each))
    for key in many.work:
        assert np.broadcast_to(many.work[key], sizes.shape).tolist() == [one.work[key] for one in each]
    assert all(name in many.note for name in many.algorithm.split(" or "))


@given(st.sampled_from(TARGETS), st.sampled_from(list(KINDS)), st.floats(1, 1e10), st.floats(1, 100))
def test_faster_links_are_never_slower_by_auto(target, kind, nbytes, factor):
    machine = chip(target)
    link = machine.links[0]
    faster = chip(target, **{link.name: link.bandwidth.value * factor})
    times = [time(Chooser(None, m).cost(kind, list(m.mesh), nbytes, 1), m)[0] for m in (faster, machine)]
    assert times[0] <= times[1] * (1 + 1e-12)


def test_one_chip_sends_nothing_at_any_size():
    """Where nothing is sent, the time of no algorithm has the shape of the sizes."""
    line = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
    sizes = {"B": [64, 128], "D": [8192] * 2, "F": [8192] * 2}
    found = bound(line, on="h100", mesh={"X": [1, 1]}, **sizes)
    one = [bound(line, on="h100", mesh={"X": 1}, B=B, D=8192, F=8192).lower for B in (64, 128)]
    assert list(found.lower) == pytest.approx(one, rel=1e-12)


def test_a_formula_has_a_piece_for_each_algorithm():
    machine = chip("h100:8")
    found = cost("AllReduce", machine.mesh.select("X"), symbol("V"), algorithm=Chooser("auto", machine))
    assert found.algorithm == "direct or in-switch"
    assert "the fastest at each size: direct, in-switch from 77.1 kB" in found.note
    for size in (1, 70_000, 80_000, 2**40):
        number = cost("AllReduce", machine.mesh.select("X"), size, algorithm=Chooser(None, machine)).work
        for key, amount in found.work.items():
            assert float(amount.subs({symbol("V"): size})) == number[key]
    from roofline.hardware.mesh import with_mesh

    open_ = with_mesh(chip("a100"), {"X": symbol("n")})
    found = cost("AllReduce", open_.mesh.select("X"), symbol("V"), algorithm=Chooser("auto", open_))
    assert (found.algorithm, "the fastest for large arrays" in found.note) == ("two-shot", True)


def test_the_algorithm_asked_for_names_a_faster_one():
    """A decode step's AllReduce: 16 KiB over 8 GPUs, where one hop is enough."""
    machine = chip("a100:8")
    small = cost("AllReduce", machine.mesh.select("X"), 2**14, algorithm=Chooser("two-shot", machine))
    assert small.algorithm == "two-shot"
    assert small.note.endswith("; at this size direct would take 600 ns rather than 1.2 µs")
    large = cost("AllReduce", machine.mesh.select("X"), 2**20, algorithm=Chooser("two-shot", machine))
    assert large.note.endswith("then a direct AllGather")
    usual = cost("AllReduce", machine.mesh.select("X"), 2**14, algorithm=Chooser(None, machine))
    assert (usual.algorithm, usual.note.endswith("; the fastest at this size")) == ("direct", True)


@given(NETWORKS, st.sampled_from(list(KINDS)), st.sampled_from(["bf16", "int8", "fp8"]))
def test_the_algorithm_for_large_arrays_sends_the_least(network, kind, dtype):
    """Without rates: no algorithm that the network can do has a busiest link with less on every link."""
    chosen = cost(kind, network.axes, V, dtype=dtype)
    for name in feasible_algorithms(kind, network.axes, 1, dtype):
        other = cost(kind, network.axes, V, algorithm=name, dtype=dtype).work
        wires = [key for key in {*chosen.work, *other} if key.quantity == "wire"]
        assert any(chosen.work[key] <= other[key] * (1 + 1e-12) for key in wires) or not wires


def test_one_chooser_compares_on_axes_of_one_name_and_several_sizes():
    machine = chip("v5e:8")
    chooser = Chooser(None, machine)
    for size in (8, 4, 2):
        axes = [replace(axis, size=size, segments=_of_size(axis.segments, size)) for axis in machine.mesh.select("X")]
        alone = cost("AllReduce", axes, 2**14, algorithm=Chooser(None, machine))
        assert cost("AllReduce", axes, 2**14, algorithm=chooser).note == alone.note


def _of_size(segments, size):
    return tuple(replace(segment, size=size) for segment in segments)


def test_where_one_shot_and_two_shot_cross():
    """V·7/300e9 of one shot take as long as two hops of 0.6 µs; below, one of them is enough."""
    machine = chip("a100:8")
    first, second = regimes("AllReduce", machine.mesh.select("X"), machine)
    assert (first.algorithm, second.algorithm) == ("direct", "two-shot")
    bandwidth = machine.links[0].bandwidth.value
    assert second.start == pytest.approx(1.2e-6 * bandwidth / 7)


@pytest.mark.parametrize("chips", [16, 20, 24, 56])
def test_over_nodes_a_small_array_takes_one_hop_of_the_network(chips: int) -> None:
    """Out of the smallest node V·(N − m) goes in one hop of 2.7 µs, 2·V·(N − m)/N in two, over each GPU's own NIC."""
    machine = chip(f"h100:{chips}")
    axes, others = machine.mesh.select("X"), chips - chips // -(-chips // 8)
    for kind in ("AllGather", "ReduceScatter", "AllReduce", "Broadcast", "Reduce"):
        small = cost(kind, axes, 8, algorithm=Chooser(None, machine))
        hops = [small.work[Key("hops", place)] for place in ("X.nvlink", "X.nic")]
        assert (small.algorithm, hops) == ("direct", [0, 1])
    _, second, third, *last = regimes("AllReduce", axes, machine)
    nodes = -(-chips // 8)
    assert [each.algorithm for each in (second, third)] == ["whole sums", "outer one-shot"]
    assert second.start == pytest.approx((0.6e-6 + 2.7e-6) * 50e9 / others)
    assert third.start == pytest.approx((2 * 0.6e-6 + 2.7e-6) * 50e9 / (nodes - 1))
    # of two nodes a part is sent as often in one pass as in two
    assert [each.algorithm for each in last] == ["in-switch"] * (nodes > 2)


@pytest.mark.parametrize(("kind", "inside"), [("Send", 7 / 8), ("Permute", 1 + 1 / 8)])
def test_a_message_to_another_node_leaves_by_all_nics_of_its_node(kind: str, inside: float) -> None:
    machine = chip("h100:16")
    axes = machine.mesh.select("X")
    small, large = (cost(kind, axes, nbytes, algorithm=Chooser(None, machine)) for nbytes in (2**10, 2**30))
    assert (small.algorithm, large.algorithm) == ("direct", "striped")
    assert [large.work[Key("wire", place)] / 2**30 for place in ("X.nic", "X.nvlink")] == [1 / 8, inside]
    alone = with_mesh(machine, {"X": 2, "Y": 8})  # every chip has a message, for its own NIC
    assert cost(kind, alone.mesh.select("X"), 2**30, algorithm=Chooser(None, alone)).algorithm == "direct"


def test_the_message_that_leaves_a_slice_goes_round_against_those_inside() -> None:
    work = cost("Permute", chip("v5e:16x16:2").mesh.axes, 2**20, algorithm="striped").work
    assert [work[Key("wire", place)] for place in "XYS"] == [2**20, 2**20, 2**12]
    assert [work[Key("hops", place)] for place in "XYS"] == [15, 15, 1]
    work = cost("Permute", chip("v5e:4x4:2").mesh.axes, 2**30, algorithm="striped").work  # no axis closes
    assert [work[Key("wire", place)] for place in "XYS"] == [2**30, 2**30, 2**26]


def test_messages_take_other_ways_too_where_links_lead_there() -> None:
    """Eight chips with a link for each pair; and tori: two links of each ring and one of a line.

    Where all send to the next, a part goes round the rest of a ring: 1/16 of the bytes, over 15 links.
    """
    mesh, cube, part = chip("mi300x:8"), chip("v5p:4x4x4"), chip("v5e:8x16")
    shares = ((mesh, "Send", 1 / 7), (mesh, "Permute", 1 / 4), (cube, "Send", 1 / 6), (part, "Send", 1 / 3),
              (chip("v5e:16x16"), "Permute", 15 / 16), (part, "Permute", 15 / 16))  # fmt: skip
    for machine, kind, share in shares:
        found = cost(kind, list(machine.mesh), 2**30, algorithm=Chooser(None, machine))
        wires = {amount for key, amount in found.work.items() if key.quantity == "wire"}
        assert found.algorithm == "striped"
        assert max(wires) == pytest.approx(2**30 * share)
    # a chip's next one is along the last axis of the slice, whatever the axes of the mesh are called
    meshes = (with_mesh(chip("v4:4x4x8"), {one: 16, other: 8}).mesh for one, other in ("AB", "BA"))
    first, second = ([*cost("Permute", mesh.axes, 2**20, "striped").work.items()] for mesh in meshes)
    assert [amount for _, amount in first] == [amount for _, amount in second]


def test_one_hop_goes_over_all_tiers_of_a_fat_tree() -> None:
    """128 nodes of 8 under leaf and spine switches: NVLink's 0.6 µs and one 2.7 µs of InfiniBand, not one a tier."""
    machine = chip("dgx-h100:1024")
    axes = machine.mesh.select("X")
    one = cost("AllGather", axes, 1016 * 1024, algorithm=Chooser(None, machine))
    assert (one.algorithm, time(one, machine)[0]) == ("rails", pytest.approx(0.6e-6 + 2.7e-6))
    assert [one.work[Key("wire", f"X.{link}")] for link in ("ib", "spine")] == [127 * 1016, 96 * 1016]
    for kind, hops in (("AllReduce", [2, 0, 2]), ("Broadcast", [2, 0, 1])):
        work = cost(kind, axes, 2**30, algorithm="in-switch").work
        assert [work[Key("hops", f"X.{link}")] for link in ("nvlink", "ib", "spine")] == hops


@pytest.mark.parametrize("parts", [{"X": 8, "Y": 2}, {"X": 2, "Y": 8}, {"X": 2, "Y": 4, "Z": 2}])
@pytest.mark.parametrize(
    "kind", ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast", "Reduce", "Gather"]
)
def test_all_parts_of_a_cut_axis_are_the_axis(kind: str, parts: dict[str, int]) -> None:
    """A collective over all chips of a ring takes what it takes, however mesh axes name them; a part is a line."""
    ring = chip("v5e:16")
    whole, cut = ring.mesh, with_mesh(ring, parts).mesh
    assert whole is not None
    assert cut is not None
    one, several = cost(kind, whole.axes, 2**30), cost(kind, cut.axes, 2**30)
    assert several.algorithm == one.algorithm == "two-way ring"
    for quantity in ("wire", "hops"):
        assert several.work.total(quantity) == one.work.total(quantity)
    part = "line" if kind != "AllReduce" else "chain" if parts["X"] > 2 else "direct"
    assert cost(kind, cut.select("X"), 2**30).algorithm == part


TOGETHER = "AllGather_X(bf16[B_X, D]); AllReduce_{X,Y}(bf16[E, F] {U_XY})"


@pytest.mark.parametrize("on", ["v5e:16x16", "h100:16"])
@pytest.mark.parametrize(("E", "F"), some([(50, 1000), (16, 64), (4096, 4096)], 2))
def test_collectives_take_the_algorithms_that_are_the_fastest_together(on: str, E: int, F: int) -> None:
    """None of all pairs of algorithms takes less; an array of sizes and a formula say the same."""
    asked = {"on": on, "mesh": {"X": 2, "Y": 8} if on == "h100:16" else {}, "B": 2048, "D": 1024, "F": F}
    found = bound(TOGETHER, E=E, **asked)
    kinds = {"AllGather": found.machine.mesh.select("X"), "AllReduce": list(found.machine.mesh)}
    pairs = product(*(feasible_algorithms(kind, axes) for kind, axes in kinds.items()))
    named = (bound(TOGETHER, E=E, algorithm=dict(zip(kinds, pair, strict=True)), **asked).lower for pair in pairs)
    assert found.lower == pytest.approx(min(named), rel=1e-12)
    assert bound(TOGETHER, E=np.array([E, 2 * E]), **asked).lower[0] == pytest.approx(found.lower, rel=1e-12)
    assert formula(TOGETHER, **asked)(E=E)["lower"] == pytest.approx(found.lower, rel=1e-12)


@pytest.mark.parametrize("B", some([32, 1024], 2))
def test_collectives_of_two_products_take_the_algorithms_that_are_the_fastest_together(B: int) -> None:
    line = "H = bf16[B_X, D_Y] * bf16[D_X, F_Y] -> [B, F]; H * bf16[F_X, E_Y] -> bf16[B_X, E_Y]"
    asked = {"on": "a100:8x4", "B": B, "D": 8192, "E": 4096, "F": 8192}
    found = bound(line, **asked)
    kinds = {"AllReduce": list(found.machine.mesh), "ReduceScatter": found.machine.mesh.select("X")}
    pairs = product(*(feasible_algorithms(kind, axes) for kind, axes in kinds.items()))
    named = (bound(line, plan=found.plan, algorithm=dict(zip(kinds, pair, strict=True)), **asked) for pair in pairs)
    assert found.lower <= min(each.lower for each in named) * (1 + 1e-12)


def test_collectives_of_one_kind_may_go_by_two_algorithms_where_that_is_the_fastest_together() -> None:
    line = "AllReduce_{X,Y}(bf16[B, F] {U_XY}); AllReduce_{X,Y}(bf16[E, F] {U_XY}); AllGather_X(bf16[G_X, F])"
    asked = {"on": "v5e:16x16", "B": 8, "E": 64, "G": 2048, "F": 1024}
    found = bound(line, **asked)
    assert [*zip(*(one.op.options["algorithms"] for one in found.ops), strict=True)] == [
        ("whole sums", "outer one-shot", "two-way ring")
    ]
    axes = list(found.machine.mesh)
    named = ({"AllReduce": each, "AllGather": "two-way ring"} for each in feasible_algorithms("AllReduce", axes))
    assert found.lower * 1.1 < min(bound(line, algorithm=each, **asked).lower for each in named)
    assert bound(line, **{**asked, "B": np.array([8, 16])}).lower[0] == pytest.approx(found.lower, rel=1e-12)


def test_an_algorithm_that_is_slower_by_itself_leaves_a_busy_link_to_others() -> None:
    """Whole sums are the fastest of so few bytes, but send 6 times as many over the axis that a gather keeps busy."""
    sizes = {"B": 2048, "D": 1024, "E": 50, "F": 1000}
    found = bound(TOGETHER, on="v5e:16x16", **sizes)
    assert found.ops[1].op.options["algorithms"] == ("torus",)
    assert found.lower == pytest.approx((2048 * 1024 * 2 * 15 / 32 + 50 * 1000 * 2 * 255 / 512) / 45e9)
    assert any("the fastest beside other collectives, by itself whole sums is" in said for said in found.assumptions)
    alone = bound(TOGETHER.partition("; ")[2], on="v5e:16x16", E=50, F=1000)
    assert alone.ops[0].op.options["algorithms"] == ("whole sums",)
