"""Rows that go to several chips each, against every way to pick the chips on every small network of tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

import pytest
from simulate_networks import TIERED, Network, dcn, inside, torus

from roofline.hardware import chip
from roofline.ops.collective import cost, default_algorithm
from roofline.ops.collective_choice import Chooser
from roofline.ops.collective_picks import Picks
from roofline.work import Key

ROUTINGS = {
    "one a chip": (1, Picks(0, 2)),
    "three a chip": (3, Picks(0, 3)),
    "half the groups": (4, Picks(0, 3, taken=2, groups=4)),
    "each to one group": (2, Picks(0, 2, taken=1, groups=2)),
}


def picked(picks: Picks) -> Iterator[tuple[int, ...]]:
    """Every way to take groups, and receivers of them."""
    size = picks.count // picks.groups
    for groups in combinations(range(picks.groups), picks.taken):
        pool = [receiver for group in groups for receiver in range(group * size, (group + 1) * size)]
        yield from combinations(pool, picks.chosen)


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


def crossings(sizes: Sequence[int], picks: Picks) -> list[Fraction]:
    """How often a row crosses each tier, over all chips that may have it and all ways to pick."""
    chips, crossed, ways = prod(sizes), Counter[int](), 0
    each = picks.count // chips
    for chosen, many in Counter(frozenset(r // each for r in found) for found in picked(picks)).items():
        for start in range(chips):
            own = Counter[int]()
            reach(sizes, start, set(chosen), own)
            for tier, times in own.items():
                crossed[tier] += times * many
        ways += many * chips
    return [Fraction(crossed[tier], ways) for tier in range(len(sizes))]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("network", [n for n in TIERED if n.chips <= 16 and len(n.axes) == 1], ids=lambda n: n.name)
def test_every_tier_carries_a_row_once_to_each_unit(network: Network, routing: str) -> None:
    each, usual = ROUTINGS[routing]
    picks = Picks(each * network.chips, usual.chosen, usual.taken, usual.groups)
    sizes = [dimension.size for (dimension,) in network.tiers]
    found = cost("AllToAll", network.axes, network.chips * picks.chosen, density=picks)
    expected = Counter[str]()
    for (dimension,), times in zip(network.tiers, crossings(sizes, picks), strict=True):
        for place in (dimension.place, *dimension.crossed):
            expected[place] += times
    for (dimension,) in network.tiers:
        links = dimension.size - 1 if dimension.kind == "mesh" else 1
        wire = sum(v for key, v in found.work.items() if (key.quantity, key.place) == ("wire", dimension.place))
        assert wire == pytest.approx(float(expected[dimension.place] / max(links, 1)))


@pytest.mark.parametrize("picks", [Picks(16, 4), Picks(24, 3, 2, 4), Picks(12, 2, 4, 6), Picks(48, 5, 1, 3)])
@pytest.mark.parametrize("units", [1, 2, 3, 4, 6, 12])
def test_units_that_a_row_reaches(picks: Picks, units: int) -> None:
    """Of parts that groups fill, that fill groups, and that lie across them."""
    found = [len({r * units // picks.count for r in each}) for each in picked(picks)]
    if picks.count % units == 0:
        assert picks.reached(units) == pytest.approx(sum(found) / len(found))


def test_one_link_is_the_books_form_without_picking_twice() -> None:
    """k of n chips, of which 1/n are the row's own: min(k/n, 1)·(n − 1)/n of V = n·k rows (chapter 12)."""
    axes = chip("h100:8").mesh.select("X")
    found = cost("AllToAll", axes, 8 * 4, density=Picks(8, 4))
    assert found.work.total("wire") == pytest.approx(4 * 7 / 8)
    assert found.algorithm == "direct"


def test_direct_sends_to_each_chip_and_hierarchical_to_each_node() -> None:
    machine, picks = chip("h100:32"), Picks(256, 8)
    axes, rows = machine.mesh.select("X"), 32 * 8 * 2**20
    ways = {
        name: cost("AllToAll", axes, rows, algorithm=name, density=picks).work for name in ("direct", "hierarchical")
    }
    wire = {name: {key.place: v for key, v in work.items() if key.quantity == "wire"} for name, work in ways.items()}
    nodes, chips = picks.reached(4), picks.reached(32)
    assert wire["direct"]["X.nic"] == pytest.approx(chips * 24 / 32 * 2**20)
    assert wire["hierarchical"]["X.nic"] == pytest.approx(nodes * 3 / 4 * 2**20)
    assert wire["direct"]["X.nvlink"] == pytest.approx(chips * 7 / 32 * 2**20)
    assert wire["hierarchical"]["X.nvlink"] == pytest.approx((chips * 31 / 32 - nodes * 3 / 4) * 2**20)
    assert [work.total("hops") for work in ways.values()] == [1, 2]
    assert default_algorithm("AllToAll", axes, picks) == "hierarchical"
    assert default_algorithm("AllToAll", axes, 0.25) == "direct"
    large, small = (Chooser("auto", machine).cost("AllToAll", axes, n, picks).algorithm for n in (2**30, 2**10))
    assert (large, small) == ("hierarchical", "direct")


def test_a_torus_carries_a_row_to_each_chip() -> None:
    """Along the rings a row for several chips is sent to each of them; slices joined by switches get it once."""
    slice_, picks = torus((2, "ring"), (2, "ring")), Picks(32, 4)
    whole, part = (cost("AllToAll", slice_.axes, 64, density=each).work for each in (1, picks))
    for key, amount in whole.items():
        assert part[key] == pytest.approx(amount * picks.density(4) if key.quantity == "wire" else amount)
    joined = inside(slice_, dcn(2))
    found = cost("AllToAll", joined.axes, 8 * 4, density=picks)
    assert found.algorithm == "hierarchical"
    assert found.work[Key("wire", "S")] == pytest.approx(picks.reached(2) / 2)


def test_skewed_picks_reach_the_busiest_unit_more_often() -> None:
    alike, skewed = Picks(8, 2), Picks(8, 2, skew=(3, 3, 1, 1, 1, 1, 1, 1))
    assert Picks(8, 2, skew=(2,) * 8).reached(4) == alike.reached(4)
    assert alike.reached(4) < skewed.reached(4) < 4
    assert skewed.reached(1) == 1
    assert Picks(8, 2, once=False, skew=skewed.skew).reached(4) == pytest.approx(2 * 4 * 6 / 12)
