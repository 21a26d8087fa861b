"""Rows that go to several chips each, against every way to pick the chips on every small network of tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from itertools import product as every
from math import prod
from typing import Any

import numpy as np
import pytest
from simulate_networks import TIERED, Network, dcn, inside, torus
from tests.strategies import LONG, for_each

from roofline.errors import InputError, SizeError
from roofline.hardware import chip
from roofline.hardware.mesh import with_mesh
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.cost import algorithms, cost, default_algorithm
from roofline.ops.collectives.routing import TopKRouting, multicast_link_load
from roofline.sizes import symbol
from roofline.work import Key

#: Receivers on each chip, and how many a row goes to, of how many groups.
ROUTINGS = {
    "one a chip": (1, (2, 1, 1)),
    "three a chip": (3, (3, 1, 1)),
    "half the groups": (4, (3, 2, 4)),
    "each to one group": (2, (2, 1, 2)),
}


def picked(routing: TopKRouting) -> Iterator[tuple[int, ...]]:
    """Every way to take groups, and receivers of them."""
    size = routing.count // routing.groups
    for groups in combinations(range(routing.groups), routing.taken):
        pool = [receiver for group in groups for receiver in range(group * size, (group + 1) * size)]
        yield from combinations(pool, routing.chosen)


def reach(sizes: Sequence[int], at: int, goals: set[int], crossed: Counter[int]) -> None:
    """Take a row from the chip that has it to all its goals: once to each other unit of a tier, then on inside."""
    tier = len(sizes) - 1
    if tier < 0:
        return
    below = prod(sizes[:tier])
    for unit in {goal // below for goal in goals}:
        within = {goal for goal in goals if goal // below == unit}
        crossed[tier] += unit != at // below
        reach(sizes[:tier], at if unit == at // below else min(within), within, crossed)


def crossings(sizes: Sequence[int], routing: TopKRouting) -> list[Fraction]:
    """How often a row crosses each tier, over all chips that may have it and all ways to pick."""
    chips, crossed, ways = prod(sizes), Counter[int](), 0
    each = routing.count // chips
    for chosen, many in Counter(frozenset(r // each for r in found) for found in picked(routing)).items():
        for start in range(chips):
            own = Counter[int]()
            reach(sizes, start, set(chosen), own)
            for tier, times in own.items():
                crossed[tier] += times * many
        ways += many * chips
    return [Fraction(crossed[tier], ways) for tier in range(len(sizes))]


@for_each("routing", ROUTINGS)
@for_each("network", [n for n in TIERED if n.chips <= 16 and len(n.axes) == 1], ids=lambda n: n.name)
def test_every_tier_carries_a_row_once_to_each_unit(network: Network, routing: str) -> None:
    each, usual = ROUTINGS[routing]
    routing = TopKRouting(each * network.chips, *usual)
    sizes = [dimension.size for (dimension,) in network.tiers]
    found = cost("AllToAll", network.axes, network.chips * routing.chosen, density=routing)
    expected = Counter[str]()
    for (dimension,), times in zip(network.tiers, crossings(sizes, routing), strict=True):
        for place in (dimension.place, *dimension.crossed):
            expected[place] += times
    for (dimension,) in network.tiers:
        links = dimension.size - 1 if dimension.kind == "mesh" else 1
        wire = sum(v for key, v in found.work.items() if (key.quantity, key.place) == ("wire", dimension.place))
        assert wire == pytest.approx(float(expected[dimension.place] / max(links, 1)))


@pytest.mark.parametrize(
    "routing", [TopKRouting(16, 4), TopKRouting(24, 3, 2, 4), TopKRouting(12, 2, 4, 6), TopKRouting(48, 5, 1, 3)]
)
@pytest.mark.parametrize("units", [1, 2, 3, 4, 6, 12])
def test_units_that_a_row_reaches(routing: TopKRouting, units: int) -> None:
    """Of parts that groups fill, that fill groups, and that lie across them."""
    found = [len({r * units // routing.count for r in each}) for each in picked(routing)]
    if routing.count % units == 0:
        assert routing.expected_units(units) == pytest.approx(sum(found) / len(found))


@pytest.mark.parametrize(("experts", "chosen"), [(4, 1), (4, 2), (2, 2)])
def test_chips_with_the_few_experts_there_are_receive_what_all_send(experts: int, chosen: int) -> None:
    """Of 8 chips only as many have experts: the link of each carries the rows that the other seven send it."""
    found = cost("AllToAll", chip("h100:8").mesh.select("X"), 8 * chosen, density=TopKRouting(experts, chosen))
    assert found.work.total("wire") == pytest.approx(7 * chosen / experts)


def test_one_link_is_the_books_form_without_picking_twice() -> None:
    """k of n chips, of which 1/n are the row's own: min(k/n, 1)·(n − 1)/n of V = n·k rows (chapter 12)."""
    axes = chip("h100:8").mesh.select("X")
    found = cost("AllToAll", axes, 8 * 4, density=TopKRouting(8, 4))
    assert found.work.total("wire") == pytest.approx(4 * 7 / 8)
    assert found.algorithm == "direct"


def test_direct_sends_to_each_chip_and_hierarchical_to_each_node() -> None:
    machine, routing = chip("h100:32"), TopKRouting(256, 8)
    axes, rows = machine.mesh.select("X"), 32 * 8 * 2**20
    ways = {
        name: cost("AllToAll", axes, rows, algorithm=name, density=routing).work for name in ("direct", "hierarchical")
    }
    wire = {name: {key.place: v for key, v in work.items() if key.quantity == "wire"} for name, work in ways.items()}
    nodes, chips = routing.expected_units(4), routing.expected_units(32)
    assert wire["direct"]["X.nic"] == pytest.approx(chips * 24 / 32 * 2**20)
    assert wire["hierarchical"]["X.nic"] == pytest.approx(nodes * 3 / 4 * 2**20)
    assert wire["direct"]["X.nvlink"] == pytest.approx(chips * 7 / 32 * 2**20)
    assert wire["hierarchical"]["X.nvlink"] == pytest.approx((chips * 31 / 32 - nodes * 3 / 4) * 2**20)
    assert [work.total("hops") for work in ways.values()] == [1, 1]
    assert default_algorithm("AllToAll", axes, routing) == "hierarchical"
    assert default_algorithm("AllToAll", axes, 0.25) == "direct"
    assert Chooser("auto", machine).cost("AllToAll", axes, rows, routing).algorithm == "hierarchical"


Chip = tuple[int, ...]


def route(
    shape: Sequence[int], ways: Mapping[int, str], at: Chip, goals: set[Chip], order: Sequence[int]
) -> Iterator[tuple[int, int, tuple[int, ...], Fraction]]:
    """Take a row along one axis after the other: axis, way, the chip before the link, how often."""
    if not order or not goals:
        return
    axis, *rest = order
    n = shape[axis]
    ahead = [(goal[axis] - at[axis]) % n for goal in goals]
    reached: Counter[tuple[int, int]] = Counter()
    if ways[axis] == "one-way":
        reached[1, max(ahead)] += 2
    elif ways[axis] == "line":
        reached[1, max(0, *(goal[axis] - at[axis] for goal in goals), 0)] += 2
        reached[-1, max(0, *(at[axis] - goal[axis] for goal in goals), 0)] += 2
    else:
        for turn in (0, 1):
            near = [d for d in ahead if d < n / 2 or (2 * d == n and turn)]
            far = [n - d for d in ahead if d > n / 2 or (2 * d == n and not turn)]
            reached[1, max(near, default=0)] += 1
            reached[-1, max(far, default=0)] += 1

    def moved(place: int) -> tuple[int, ...]:
        return (*at[:axis], place % n, *at[axis + 1 :])

    for (way, steps), halves in reached.items():
        for step in range(steps):
            yield axis, way, moved(at[axis] + way * step), Fraction(halves, 2)
    for place in {goal[axis] for goal in goals}:
        yield from route(shape, ways, moved(place), {goal for goal in goals if goal[axis] == place}, rest)


TORI: list[tuple[tuple[int, ...], dict[int, str]]] = [
    *(((n,), {0: way}) for n in (2, 3, 4, 5, 6) for way in ("ring", "line", "one-way")),
    ((2, 3), {0: "ring", 1: "ring"}),
    ((4, 2), {0: "line", 1: "ring"}),
    ((3, 3), {0: "line", 1: "line"}),
    ((2, 2, 3), {0: "ring", 1: "line", 2: "ring"}),
]


#: Tori whose receivers the groups divide; on the largest, many ways to take groups are left to the long test.
ON_TORI = [
    (at, ways, name)
    for at, ways in TORI
    for name, (each, usual) in ROUTINGS.items()
    if each * prod(at) % usual[2] == 0 and (LONG or len(at) < 3 or each < 3)
]


@for_each(("shape", "ways", "routing"), ON_TORI)
def test_every_link_of_a_torus_carries_a_row_once(shape: tuple[int, ...], ways: dict[int, str], routing: str) -> None:
    each, usual = ROUTINGS[routing]
    chips = list(every(*map(range, shape)))
    routing = TopKRouting(each * len(chips), *usual)
    sets = Counter(frozenset(chips[r // each] for r in found) for found in picked(routing))
    orders = [[*ways][start:] + [*ways][:start] for start in range(len(ways))]
    crossed: dict[int, Counter[tuple[int, tuple[int, ...]]]] = {axis: Counter() for axis in ways}
    for goals, many in sets.items():
        for at, order in every(chips, orders):
            for axis, way, place, times in route(shape, ways, at, set(goals), order):
                crossed[axis][way, place] += times * many
    total = sum(sets.values()) * len(orders)
    for axis, rows in multicast_link_load(routing, shape, ways).items():
        assert rows == pytest.approx(float(max(crossed[axis].values()) / Fraction(total)))


@pytest.mark.parametrize(("shape", "ways"), [*TORI, ((4, 4, 4), dict.fromkeys(range(3), "ring"))], ids=str)
def test_no_link_carries_more_than_to_all_nor_more_for_copies(shape: tuple[int, ...], ways: dict[int, str]) -> None:
    """Whatever the skew; and what chips have before is never sent for longer."""
    chips = prod(shape)
    routing = TopKRouting(4 * chips, 3)
    skews = [(1.0,) * 4 * chips, (9.0,) * 4 + (1.0,) * 4 * (chips - 1), (1e6,) + (1.0,) * (4 * chips - 1)]
    whole, plain = (
        multicast_link_load(TopKRouting(chips, chips), shape, ways),
        multicast_link_load(routing, shape, ways),
    )
    loads = [multicast_link_load(replace(routing, skew=skew), shape, ways) for skew in skews]
    assert loads[0] == pytest.approx(plain)
    for skewed in loads:
        assert all(skewed[axis] <= whole[axis] * (1 + 1e-9) for axis in ways)
    assert max(loads[1].values()) > max(plain.values()) or chips == 2
    for copies in (n for n in range(1, chips + 1) if chips % n == 0):
        copied = multicast_link_load(replace(routing, copies=copies), shape, ways)
        assert max(copied.values()) <= max(plain.values())
    assert set(multicast_link_load(replace(routing, copies=chips), shape, ways).values()) == {0.0}


@pytest.mark.parametrize("algorithm", [None, "direct", "book", "hierarchical"])
@pytest.mark.parametrize("target", ["v5e:8", "v5e:4x4:2", "v5p:4x4x4", "h100:8", "h100:32"])
def test_nothing_is_sent_nor_waited_for_where_every_chip_has_it(target: str, algorithm: str | None) -> None:
    axes = [axis for axis in chip(target).mesh if axis.size > 1]
    n = prod(axis.size for axis in axes)
    if algorithm is not None and algorithm not in algorithms("AllToAll", axes):
        return
    found = cost("AllToAll", axes, n * 8, algorithm=algorithm, density=TopKRouting(256, 8, copies=n)).work
    assert found.total("wire") == 0
    assert algorithm == "book" or found.total("hops") == 0


def test_no_torus_carries_more_than_an_all_gather() -> None:
    for target in ("v5e:16", "v5e:8", "v5e:16x16", "v5p:4x4x4", "v4:4x4x8"):
        axes = [axis for axis in chip(target).mesh if axis.size > 1]
        n = prod(axis.size for axis in axes)
        gather = cost("AllGather", axes, n)
        for routing in (TopKRouting(256, 8), TopKRouting(256, 8, 4, 8), TopKRouting(512, 10)):
            exchange = cost("AllToAll", axes, n * routing.chosen, density=routing)
            least, most = (max(v for k, v in c.work.items() if k.quantity == "wire") for c in (exchange, gather))
            assert least <= most * (1 + 1e-9)
            plain = cost("AllToAll", axes, n * routing.chosen, density=routing.sent_share(n))
            assert exchange.work.total("wire") < plain.work.total("wire")


def test_slices_get_a_row_once() -> None:
    routing, slice_ = TopKRouting(32, 4), torus((2, "ring"), (2, "ring"))
    joined = inside(slice_, dcn(2))
    found = cost("AllToAll", joined.axes, 8 * 4, density=routing)
    assert found.algorithm == "hierarchical"
    assert found.work[Key("wire", "S")] == pytest.approx(routing.expected_units(2) / 2)


def test_nothing_is_sent_where_every_chip_has_it() -> None:
    """Chips that split layers hold the same tokens: what they have is not sent to them."""
    node, nodes = chip("h100:8").mesh.select("X"), chip("h100:32").mesh.select("X")
    assert cost("AllToAll", node, 2**20, density=TopKRouting(256, 8, copies=8)).work.total("wire") == 0
    routing = TopKRouting(256, 8, copies=16)
    wire = {
        k.place: v for k, v in cost("AllToAll", nodes, 32 * 8, density=routing).work.items() if k.quantity == "wire"
    }
    assert wire["X.nic"] == pytest.approx(routing.expected_units(4) * 2 / 4)
    assert wire["X.nvlink"] == pytest.approx(routing.expected_units(32) * 16 / 32 - wire["X.nic"])


def test_skewed_picks_reach_the_busiest_unit_more_often() -> None:
    alike, skewed = TopKRouting(8, 2), TopKRouting(8, 2, skew=(3, 3, 1, 1, 1, 1, 1, 1))
    assert TopKRouting(8, 2, skew=(2,) * 8).expected_units(4) == pytest.approx(alike.expected_units(4))
    assert skewed.expected_units(4) < alike.expected_units(4) < skewed.expected_units(4, busiest=True) < 4
    assert skewed.expected_units(1) == pytest.approx(1)
    # one receiver gets a row as often as its share says, and none twice
    assert skewed.expected_units(8, busiest=True) == pytest.approx(8 * 2 * 3 / 12)
    assert skewed.expected_units(8) == pytest.approx(2)
    always = TopKRouting(8, 2, skew=(100, 1, 1, 1, 1, 1, 1, 1))
    assert always.expected_units(8, busiest=True) == 8
    assert always.expected_units(8) < 2
    limited = TopKRouting(256, 8, 4, 8)
    flat = TopKRouting(256, 8, 4, 8, skew=(1.0,) * 256)
    assert [flat.expected_units(n) for n in (8, 64)] == pytest.approx([limited.expected_units(n) for n in (8, 64)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((256, 300), "a row goes to 300 of 256 receivers; from 1 to 256"),
        ((8, 0), "a row goes to 0 of 8 receivers"),
        ((10, 2, 3, 4), "2 of 10 receivers in 3 of 4 groups; groups divide 10"),
        ((8, 2, 5, 4), "in 5 of 4 groups"),
        ((8, 4, 1, 4), "those taken have 4 receivers at least"),
        ((8, 2, 1, 1, (1.0,) * 4), "the skew has 4 shares, and there are 8 receivers; one for each"),
        ((4, 2, 1, 1, (0.0,) * 4), "the shares of a skew are not negative, and some are more than 0"),
        ((4, 2, 1, 1, (1.0, -1.0, 1.0, 1.0)), "the shares of a skew are not negative"),
    ],
)
def test_picks_that_cannot_be_are_told(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(SizeError, match=said):
        TopKRouting(*arguments)


@pytest.mark.parametrize("size", [symbol("n"), np.array([8, 16])])
def test_open_numbers_of_chips_are_told(size: Any) -> None:
    axes = with_mesh(chip("h100"), {"X": size}).mesh.select("X")
    with pytest.raises(InputError, match="are counted on a number of chips; one number of chips at a time"):
        cost("AllToAll", axes, 2**20, density=TopKRouting(256, 8))
