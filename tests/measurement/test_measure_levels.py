"""Memory levels found on curves that were made from known levels."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import made, summary

from roofline.measurement.levels import agreed_curve, find_levels
from roofline.measurement.result import Curve


def grid(low=12, high=29, step=0.5):
    return [2.0 ** (low + step * n) for n in range(int((high - low) / step) + 1)]


def curve(levels, *, noise=0.0, blur=1.0, seed=0):
    """Bandwidth over the grid: ``levels`` are (capacity, bandwidth), the last capacity infinite.

    Within ``blur`` beyond a capacity the bandwidth falls in proportion to what still fits.
    """
    chance = random.Random(seed)
    found = []
    for size in grid():
        place = next(n for n, (capacity, _) in enumerate(levels) if size <= capacity)
        value = levels[place][1]
        if place and size < blur * levels[place - 1][0]:
            held = levels[place - 1][0] / size
            value = 1 / (held / levels[place - 1][1] + (1 - held) / value)
        found.append((size, value * chance.uniform(1 - noise, 1 + noise)))
    return found


SERVER = [(48e3, 540e9), (1e6, 210e9), (32e6, 110e9), (float("inf"), 30e9)]


def test_four_levels():
    found = find_levels(curve(SERVER))
    assert [level.name for level in found] == ["l1", "l2", "l3", "dram"]
    assert [level.bandwidth for level in found] == [540e9, 210e9, 110e9, 30e9]


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_slopes_between_levels_do_not_make_levels(seed):
    found = find_levels(curve(SERVER, noise=0.05, blur=2.5, seed=seed))
    assert [level.name for level in found] == ["l1", "l2", "l3", "dram"]
    for level, (capacity, bandwidth) in zip(found, SERVER, strict=True):
        assert level.bandwidth == pytest.approx(bandwidth, rel=0.12)
        if level.capacity is not None:
            assert capacity / 2 <= level.capacity <= capacity * 1.5


def two_states(points, share, seed):
    """Every point is, by chance, one of a slower state: who shares the core's units took part of them."""
    chance = random.Random(seed)
    return [(size, value * (share if chance.random() < 0.25 else 1.0)) for size, value in points]


@pytest.mark.parametrize("seed", range(40))
def test_kernels_that_are_disturbed_one_by_one_agree_on_the_levels(seed):
    kernels = [two_states(curve(SERVER, noise=0.03, blur=2.0, seed=seed + n), 0.77, 3 * seed + n) for n in range(3)]
    found = find_levels(agreed_curve(kernels), most=4)
    assert [level.name for level in found] == ["l1", "l2", "l3", "dram"]
    for level, (capacity, _) in zip(found[:-1], SERVER, strict=False):
        assert capacity / 3 <= level.capacity <= capacity * 2


def test_no_more_levels_are_found_than_the_system_has():
    """A step within the third cache is no fourth one where there are three: the smallest step goes."""
    stepped = [(48e3, 540e9), (1e6, 210e9), (8e6, 75e9), (64e6, 50e9), (float("inf"), 20e9)]
    assert [level.name for level in find_levels(curve(stepped))] == ["l1", "l2", "l3", "l4", "dram"]
    found = find_levels(curve(stepped), most=4)
    assert [level.name for level in found] == ["l1", "l2", "l3", "dram"]
    assert found[2].capacity == pytest.approx(64e6, rel=0.5)
    assert [level.name for level in find_levels(curve(stepped), most=1)] == ["dram"]


def test_a_flat_curve_is_one_level():
    assert [(level.name, level.capacity) for level in find_levels([(s, 20e9) for s in grid()])] == [("dram", None)]


def test_a_rise_is_no_level():
    """The smallest sets are slow where the loop's ends weigh; that is no level of its own."""
    points = [(s, 300e9 if i < 2 else v) for i, (s, v) in enumerate(curve(SERVER))]
    assert [level.name for level in find_levels(points)] == ["l1", "l2", "l3", "dram"]


def test_the_outermost_bandwidth_is_taken_far_beyond_the_last_cache():
    falling = [(s, v if s < 40e6 else 30e9 * (1 + 40e6 / s)) for s, v in curve(SERVER)]
    assert find_levels(falling)[-1].bandwidth < 37e9


def test_no_points_are_no_levels():
    assert find_levels([]) == []
    assert [level.name for level in find_levels([(4096.0, 1e9)])] == ["dram"]


@given(
    st.lists(st.floats(1.6, 6.0), min_size=1, max_size=3),
    st.floats(14.0, 16.0),
    st.lists(st.floats(3.0, 5.0), min_size=3, max_size=3),
)
def test_levels_made_are_levels_found(falls, first, gaps):
    """Any two to four levels with steps of at least 1.6 and three octaves each are found, without noise."""
    bandwidth, power, levels = 500e9, first, []
    for fall, gap in zip(falls, gaps, strict=False):
        levels.append((2.0**power, bandwidth))
        bandwidth, power = bandwidth / fall, power + gap
    levels.append((float("inf"), bandwidth))
    found = find_levels(curve(levels))
    assert [level.bandwidth for level in found] == [value for _, value in levels]
    for level, (capacity, _) in zip(found[:-1], levels, strict=False):
        assert level.capacity <= capacity < level.capacity * 2**0.5 * 1.001


def test_no_point_of_the_innermost_level_is_too_fast_for_it():
    """Where others held up most of the smallest working sets, those left alone tell what the level can do."""
    [first, *_] = find_levels(curve(SERVER))
    triad = list(zip((13e3, 17e3, 24e3, 28e3, 34e3), (728e9, 640e9, 915e9, 913e9, 600e9), strict=True))
    assert max(v for _, v in first.points_within(triad, None)) == 915e9


def test_a_kernel_that_still_runs_at_the_level_before_does_not_lift_a_level():
    """Arrays of several kernels round a working set differently: at one size one is in the first level, others not."""
    found = made()
    load = next(curve for curve in found.curves if curve.threads == 1)
    first, second = found.levels(1)[:2]
    assert second.bandwidth == 210e9
    copied = [(size, first.bandwidth if size == second.first else value) for size, value in load.values()]
    copy = Curve("copy", "a = b", 1, tuple((size, summary(value)) for size, value in copied))
    assert replace(found, curves=(*found.curves, copy, replace(load, name="triad"))).levels(1)[:2] == [first, second]


def test_a_level_that_steps_down_in_its_middle_still_ends_at_a_working_set():
    """The median of two plateaus of one length is the bandwidth of neither."""
    values = [379, 392, 175, 163, 98, 97, 40, 40, 40, 20, 20, 20]
    levels = find_levels([(24576.0 * 2**n, value * 1e9) for n, value in enumerate(values)], most=3)
    assert [level.name for level in levels] == ["l1", "l2", "dram"]


@given(
    st.lists(st.floats(1e9, 1e12), min_size=1, max_size=24),
    st.sampled_from([None, 1, 2, 3, 4]),
    st.sampled_from([0.5, 1.0]),
)
def test_levels_are_found_in_every_curve(values, most, step):
    sizes = grid(14, 14 + step * (len(values) - 1), step)
    levels = find_levels(list(zip(sizes, values, strict=True)), most)
    assert 1 <= len(levels) <= (most or len(values))
    assert [level.capacity is None for level in levels] == [False] * (len(levels) - 1) + [True]
    assert all(level.first <= (level.capacity or level.first) for level in levels)
