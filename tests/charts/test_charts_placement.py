"""Laws of label placement: whatever is placed is inside, covers nothing, and comes out the same each time."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_geometry import crosses, crosses_line, overlap
from tests.strategies import few

from roofline.charts.placement import Box, Boxes, Segments, place, places_around, places_beside

FRAME = Box(200, 150, 400, 300)
anchors = st.tuples(st.integers(5, 395), st.integers(5, 295))
labels = st.lists(st.tuples(anchors, st.integers(8, 120), st.sampled_from([14, 28, 42])), max_size=14)


@few(10)
@given(labels, st.lists(anchors, max_size=6))
def test_placed_labels_are_free_and_inside(wanted, markers):
    taken = [Box(x, y, 10, 10) for x, y in markers]
    options = [places_around(anchor, width, height, reach=120) for anchor, width, height in wanted]
    found = place(options, inside=FRAME, taken=taken)
    boxes = [candidate.box for candidate in found if candidate is not None]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    assert not any(overlap(box, marker) for box in boxes for marker in taken)
    assert all(0 <= x <= 400 and 0 <= y <= 300 for box in boxes for x, y in box.corners())
    assert place(options, inside=FRAME, taken=taken) == found


def test_a_label_makes_room_for_one_that_has_fewer_places():
    free = places_around((200, 150), 60, 14, reach=60)
    only = [candidate for candidate in free if candidate.box == free[0].box]
    found = place([free, only], inside=FRAME)
    assert None not in found


def test_a_label_with_no_place_is_left_out():
    same = places_around((200, 150), 60, 14, reach=0)[:1]
    assert [candidate is None for candidate in place([same, same], inside=FRAME)] == [False, True]


@given(anchors, anchors, st.integers(10, 60))
def test_a_label_beside_a_line_does_not_cross_it(start, end, width):
    for candidate in places_beside(start, end, width, 14):
        assert not crosses((start, end), candidate.box)


def test_a_label_beside_a_line_is_left_out_rather_than_struck_through():
    options = [places_beside((100, 150), (300, 150), 60, 14)]
    bars = [((x, 0.0), (x, 300.0)) for x in range(90, 320, 20)]
    assert place(options, inside=FRAME, lines=bars) == [None]
    assert place(options, inside=FRAME, lines=bars[:4]) != [None]


@given(anchors, anchors, anchors, anchors)
def test_crossing_is_mutual(a, b, c, d):
    assert crosses_line((a, b), (c, d)) == crosses_line((c, d), (a, b))


boxes = st.builds(
    Box,
    *(st.floats(0, 100),) * 2,
    *(st.floats(1, 60),) * 2,
    st.sampled_from([0.0, 0.0, 90.0, 33.0, -71.0]),
)


@given(st.lists(boxes, max_size=8), boxes)
def test_boxes_in_arrays_overlap_as_one_by_one(several, other):
    assert Boxes.of(several).overlap(other).tolist() == [overlap(box, other) for box in several]


@given(st.lists(st.tuples(anchors, anchors), max_size=8), st.tuples(anchors, anchors))
def test_segments_in_arrays_cross_as_one_by_one(several, line):
    assert Segments(several).cross(line).tolist() == [crosses_line(segment, line) for segment in several]


@pytest.mark.long
def test_labels_of_sixty_points_that_coincide_take_few_comparisons(monkeypatch):
    calls = []
    compare = Boxes.overlap
    monkeypatch.setattr(Boxes, "overlap", lambda self, other: calls.append(other) or compare(self, other))
    found = place([places_around((200, 150), 20, 14, reach=160)] * 60, inside=FRAME)
    assert len([candidate for candidate in found if candidate]) > 40
    assert len(calls) < 20_000


@given(anchors, st.integers(1, 80), st.integers(-90, 90), anchors, st.integers(1, 80), st.integers(-90, 90))
def test_overlap_is_mutual_and_seen_by_points_inside(first, a, turn, second, b, other):
    one, two = Box(*first, a, 14, turn), Box(*second, b, 14, other)
    assert overlap(one, two) == overlap(two, one)
    if (one.x, one.y) == (two.x, two.y):
        assert overlap(one, two)
