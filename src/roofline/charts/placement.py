"""Where labels go so that none covers another: a small deterministic search, in pixels, that knows no drawing library.

Every label brings candidate places with a cost. Labels start at their cheapest place; then, a few rounds long, each
moves to the place that is cheapest given all the others, and one that stands badly may push a neighbour away. A label
that finds no free place is left out, and the caller lists it elsewhere.

>>> wide = [Candidate(Box(50.0, y, 80.0, 12.0), abs(y - 40)) for y in (40.0, 60.0, 20.0)]
>>> [placed.box.y for placed in place([wide, wide, wide, wide], inside=Box(50, 40, 100, 80)) if placed]
[40.0, 60.0, 20.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Vertex = tuple[float, float]
Segment = tuple[Vertex, Vertex]

#: Costs in pixels of distance: a label on a label or marker is never accepted, one on a line is only
#: disliked, unless it must be clear.
OVERLAP_COST = 10_000.0
CROSSING_COST = 60.0
LEADER_CROSSING_COST = 25.0

_ROUNDS = 6

#: Boxes that share less than this touch, and do not overlap.
_TOUCH = 1e-6

#: What a label that stands well costs at most, and how many better places one that does not may claim from others.
_CONTENT, _TRIES = 12.0, 12

#: Of more labels than this none pushes others away, which takes long and gains little where all of them are pressed.
_MOST_THAT_PUSH = 40


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle about a centre, turned by ``angle`` degrees."""

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0

    def corners(self) -> tuple[Vertex, ...]:
        """The four corners in order."""
        turn = math.radians(self.angle)
        cos, sin = math.cos(turn), math.sin(turn)
        w, h = self.width / 2, self.height / 2
        return tuple(
            (self.x + dx * cos - dy * sin, self.y + dx * sin + dy * cos)
            for dx, dy in ((-w, -h), (w, -h), (w, h), (-w, h))
        )

    def grown(self, by: float) -> Box:
        """The rectangle with a margin all around."""
        return Box(self.x, self.y, self.width + 2 * by, self.height + 2 * by, self.angle)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place a label could take; ``leader`` is the thin line from there to what it names, where it is far.

    One that must be ``clear`` is no place where a line runs through it.
    """

    box: Box
    cost: float = 0.0
    leader: Segment | None = None
    clear: bool = False


def overlap(first: Box, second: Box) -> bool:
    """Whether two rectangles share area (separating axes).

    >>> overlap(Box(0, 0, 10, 2), Box(0, 4, 10, 2)), overlap(Box(0, 0, 10, 2), Box(0, 4, 10, 2, angle=90))
    (False, True)
    """
    across, up = abs(first.x - second.x) * 2, abs(first.y - second.y) * 2
    if first.angle == second.angle == 0:
        return across < first.width + second.width - _TOUCH and up < first.height + second.height - _TOUCH
    if max(across, up) >= first.width + first.height + second.width + second.height:
        return False
    a, b = first.corners(), second.corners()
    return not any(_separates(axis, a, b) for box in (first, second) for axis in _axes(box))


def crosses(segment: Segment, box: Box) -> bool:
    """Whether a segment runs through a rectangle."""
    (x0, y0), (x1, y1) = segment
    across, up = (box.width, box.height) if box.angle == 0 else (box.width + box.height,) * 2
    if not (
        min(x0, x1) - box.x < across / 2 > box.x - max(x0, x1) and min(y0, y1) - box.y < up / 2 > box.y - max(y0, y1)
    ):
        return False
    middle, length = ((x0 + x1) / 2, (y0 + y1) / 2), math.hypot(x1 - x0, y1 - y0)
    return overlap(Box(*middle, length, 0.0, math.degrees(math.atan2(y1 - y0, x1 - x0))), box)


def crosses_line(first: Segment, second: Segment) -> bool:
    """Whether two segments cross; a segment that only starts on the other does not.

    >>> crosses_line(((0, 0), (2, 2)), ((0, 2), (2, 0))), crosses_line(((0, 0), (2, 2)), ((0, 0), (2, 0)))
    (True, False)
    """
    return _sides(first, second) < 0 and _sides(second, first) < 0


def _sides(line: Segment, ends: Segment) -> float:
    """Negative where two ends lie on different sides of a line, 0 where one lies on it."""
    (x0, y0), (x1, y1) = line
    first, second = ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in ends)
    tiny = 1e-6 * math.hypot(x1 - x0, y1 - y0)
    return 0.0 if min(abs(first), abs(second)) <= tiny else first * second


def place(
    labels: Sequence[Sequence[Candidate]],
    *,
    inside: Box,
    taken: Sequence[Box] = (),
    lines: Sequence[Segment] = (),
) -> list[Candidate | None]:
    """Choose one candidate a label, or None where all its places are taken.

    ``inside`` is where labels must lie, ``taken`` holds markers no label may cover, ``lines`` what they had better
    not cross, and may not where they must be clear. Labels come in order of importance.
    """
    open_to = [_possible(candidates, inside, taken, lines) for candidates in labels]
    chosen: list[_Choice | None] = [None] * len(labels)
    for _ in range(_ROUNDS):
        before = list(chosen)
        for index in range(len(labels)):
            chosen[index] = _best(index, open_to, chosen)
        for index in range(len(labels) if len(labels) <= _MOST_THAT_PUSH else 0):
            chosen = _made_room(index, open_to, chosen)
        if chosen == before:
            break
    kept: list[Candidate | None] = []
    for item in chosen:
        free = item is not None and not any(overlap(item[0].box, other.box) for other in kept if other)
        kept.append(item[0] if item is not None and free else None)
    return kept


#: A place with what it costs by itself.
_Choice = tuple[Candidate, float]


def _best(index: int, open_to: Sequence[Sequence[_Choice]], chosen: Sequence[_Choice | None]) -> _Choice | None:
    """The cheapest place of one label given where the others are."""
    others = [c[0] for i, c in enumerate(chosen) if c is not None and i != index]
    best, least = None, math.inf
    for item in open_to[index]:
        if item[1] < least:
            cost = item[1] + _conflict(item[0], others, least - item[1])
            best, least = (item, cost) if cost < least else (best, least)
    return best


def _made_room(index: int, open_to: Sequence[Sequence[_Choice]], chosen: list[_Choice | None]) -> list[_Choice | None]:
    """Let a label that stands badly push one or two others away, where that helps more than it harms."""
    if _cost([index], chosen) <= _CONTENT:
        return chosen
    for item in sorted(open_to[index], key=lambda item: item[1])[:_TRIES]:
        box = item[0].box.grown(1.5)
        pushed = [i for i, c in enumerate(chosen) if c is not None and i != index and overlap(box, c[0].box)]
        if not 1 <= len(pushed) <= 2:
            continue
        trial = list(chosen)
        trial[index] = item
        for other in pushed:
            trial[other] = _best(other, open_to, trial)
        if _cost([index, *pushed], trial) < _cost([index, *pushed], chosen) - 1:
            return trial
    return chosen


def _cost(indices: Sequence[int], chosen: Sequence[_Choice | None]) -> float:
    total = 0.0
    for index in indices:
        item = chosen[index]
        if item is not None:
            total += item[1] + _conflict(item[0], [c[0] for i, c in enumerate(chosen) if c is not None and i != index])
    return total


def around(anchor: Vertex, width: float, height: float, *, reach: float, gap: float = 7.0) -> list[Candidate]:
    """List places for a horizontal label round a point, near ones first, with a leader from the farther ones."""
    found = []
    for ring in (0.0, 7.0, 16.0, 28.0, 44.0, 64.0, 90.0, 120.0, 155.0):
        if ring > reach:
            break
        for step in range(16):
            angle = step * math.pi / 8
            cos, sin = math.cos(angle), math.sin(angle)
            distance = gap + ring
            x = anchor[0] + distance * cos + width / 2 * _towards(cos)
            y = anchor[1] + distance * sin + height / 2 * _towards(sin)
            box = Box(x, y, width, height)
            leader = (anchor, _nearest(anchor, box)) if ring > 8 else None
            found.append(Candidate(box, ring + _DIRECTION_COST[step], leader))
    return found


def beside(
    start: Vertex, end: Vertex, width: float, height: float, *, best: float = 0.5, gap: float = 3.0
) -> list[Candidate]:
    """List places along a straight line, above it first, turned with it; ``best`` is the preferred fraction of it.

    A label there that another line ran through would be taken for that line's, so they must be clear.
    """
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    if length < width * 0.6:
        return []
    angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
    along = ((end[0] - start[0]) / length, (end[1] - start[1]) / length)
    off = height / 2 + gap
    found = []
    steps = 24
    for step in range(steps + 1):
        at = width / 2 + (length - width) * step / steps
        x, y = start[0] + along[0] * at, start[1] + along[1] * at
        for side in (1, -1):
            box = Box(x - side * along[1] * off, y + side * along[0] * off, width, height, angle)
            found.append(Candidate(box, 6.0 * (side < 0) + 30.0 * abs(step / steps - best), clear=True))
    return found


# Right of and above a point first, straight below last: 16 directions from the right, counter-clockwise.
_DIRECTION_COST = (0.0, 1.0, 2.0, 4.0, 5.0, 4.0, 3.0, 2.0, 1.5, 3.0, 4.0, 5.0, 6.0, 5.0, 3.0, 2.0)


def _towards(component: float) -> float:
    """How far a box shifts its centre in a direction: all the way, or not at all where it points across."""
    return 0.0 if abs(component) < 0.2 else math.copysign(1.0, component) * min(1.0, abs(component) * 1.6)


def _nearest(point: Vertex, box: Box) -> Vertex:
    x = min(max(point[0], box.x - box.width / 2), box.x + box.width / 2)
    y = min(max(point[1], box.y - box.height / 2), box.y + box.height / 2)
    return x, y


def _possible(
    candidates: Sequence[Candidate], inside: Box, taken: Sequence[Box], lines: Sequence[Segment]
) -> list[tuple[Candidate, float]]:
    """Keep the places that lie inside and cover no marker, with what they cost by themselves."""
    left, right = inside.x - inside.width / 2, inside.x + inside.width / 2
    bottom, top = inside.y - inside.height / 2, inside.y + inside.height / 2
    kept = []
    for candidate in candidates:
        corners = candidate.box.corners()
        if not all(left <= x <= right and bottom <= y <= top for x, y in corners):
            continue
        if any(overlap(candidate.box, box) for box in taken):
            continue
        crossed = sum(crosses(line, candidate.box) for line in lines)
        if candidate.clear and crossed:
            continue
        cost = candidate.cost + CROSSING_COST * crossed
        leader = candidate.leader
        if leader is not None:
            passed = sum(crosses(leader, box) for box in taken if math.dist((box.x, box.y), leader[0]) > 1)
            cost += LEADER_CROSSING_COST * (passed + 0.4 * sum(crosses_line(leader, line) for line in lines))
        kept.append((candidate, cost))
    return kept


def _conflict(candidate: Candidate, others: Sequence[Candidate], enough: float = math.inf) -> float:
    """What a place costs given the others, or some figure above ``enough`` where it is more than that."""
    box = candidate.box.grown(1.5)
    cost = 0.0
    for other in others:
        cost += OVERLAP_COST * overlap(box, other.box)
        if candidate.leader is not None:
            cost += LEADER_CROSSING_COST * crosses(candidate.leader, other.box)
        if other.leader is not None:
            cost += LEADER_CROSSING_COST * crosses(other.leader, box)
        if cost > enough:
            break
    return cost


def _axes(box: Box) -> tuple[Vertex, Vertex]:
    turn = math.radians(box.angle)
    return (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))


def _separates(axis: Vertex, a: Sequence[Vertex], b: Sequence[Vertex]) -> bool:
    along_a = [x * axis[0] + y * axis[1] for x, y in a]
    along_b = [x * axis[0] + y * axis[1] for x, y in b]
    return max(along_a) <= min(along_b) + _TOUCH or max(along_b) <= min(along_a) + _TOUCH
