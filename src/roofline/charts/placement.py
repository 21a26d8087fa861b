"""Where labels go so that none covers another: a small deterministic search, in pixels, that knows no drawing library.

Every label brings candidate places with a cost. Labels start at their cheapest place; then, a few rounds long, each
moves to the place that is cheapest given all the others, and one that stands badly may push a neighbour away. A label
that finds no free place is left out, and the caller lists it elsewhere.

>>> wide = [Candidate(Box(50.0, y, 80.0, 12.0), abs(y - 40)) for y in (40.0, 60.0, 20.0)]
>>> [placed.box.y for placed in place([wide, wide, wide, wide], inside=Box(50, 40, 100, 80)) if placed]
[40.0, 60.0, 20.0]

Placing the labels of a chart asks millions of times which rectangles overlap and which segments cross, so
:class:`Boxes` and :class:`Segments` hold many of them as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from roofline.frozen import dataclass
from roofline.lazy import np

Vertex = tuple[float, float]
Segment = tuple[Vertex, Vertex]

#: Boxes that share less than this touch, and do not overlap.
TOUCH = 1e-6


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

    def nearest(self, point: Vertex) -> Vertex:
        """The place in the rectangle that is nearest to a point; for one that is not turned."""
        x = min(max(point[0], self.x - self.width / 2), self.x + self.width / 2)
        y = min(max(point[1], self.y - self.height / 2), self.y + self.height / 2)
        return x, y

    def grown(self, beside: float, over: float) -> Box:
        """The rectangle with a margin beside and over it."""
        return Box(self.x, self.y, self.width + 2 * beside, self.height + 2 * over, self.angle)


def segment_box(segment: Segment) -> Box:
    """A segment as a rectangle without height."""
    (x0, y0), (x1, y1) = segment
    length = math.hypot(x1 - x0, y1 - y0)
    return Box((x0 + x1) / 2, (y0 + y1) / 2, length, 0.0, math.degrees(math.atan2(y1 - y0, x1 - x0)))


class Boxes:
    """Rectangles in arrays, and which of them another one overlaps.

    >>> Boxes.of([Box(0, 0, 10, 2), Box(0, 9, 10, 2), Box(0, 4, 10, 2, angle=90)]).overlap(Box(0, 4, 10, 2)).tolist()
    [False, False, True]
    """

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self.x, self.y, self.width, self.height, self.turn = columns

    @cached_property
    def reach(self) -> Any:
        """The diagonal of each."""
        return np.hypot(self.width, self.height)

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> Boxes:
        """The arrays of some boxes."""
        rows = [(b.x, b.y, b.width, b.height, math.radians(b.angle)) for b in boxes]
        return cls(np.array(rows, dtype=float).reshape(-1, 5).T.copy())

    def part(self, span: slice) -> Boxes:
        """Some of them, one after another."""
        return Boxes(self._columns[:, span])

    def overlap(self, other: Box) -> Any:
        """Whether each shares area with the other, by separating axes."""
        return self._overlap(Boxes.of([other]))

    def overlaps(self, others: Boxes) -> Any:
        """The same for many others: a row for each of these, a column for each of the others.

        >>> Boxes.of([Box(0, 0, 10, 2), Box(0, 4, 10, 2, angle=90)]).overlaps(Boxes.of([Box(0, 4, 10, 2)])).tolist()
        [[False], [True]]
        """
        return Boxes(self._columns[:, :, None])._overlap(Boxes(others._columns[:, None]))

    def _overlap(self, others: Boxes) -> Any:
        """Whether each shares area with another one, of arrays whose shapes broadcast."""
        across, up = 2 * (self.x - others.x), 2 * (self.y - others.y)
        found = (abs(across) < self.width + others.width - TOUCH) & (abs(up) < self.height + others.height - TOUCH)
        turned = (self.turn != 0) | (others.turn != 0)
        if not turned.any():
            return found
        # circles about both that keep apart spare the rest
        reach = self.reach + others.reach
        near = turned & (across * across + up * up < reach * reach)
        found &= ~turned
        if near.any():
            pair = (np.broadcast_to(each._columns, (5, *near.shape))[:, near] for each in (self, others))
            mine, far = map(Boxes, pair)
            found[near] = mine._share(across[near], up[near], far)
        return found

    def _share(self, across: Any, up: Any, other: Boxes) -> Any:
        """Separating axes: twice the distance of the centres along a side against what both boxes cover of it."""
        turn = other.turn
        cos, sin = abs(np.cos(self.turn - turn)), abs(np.sin(self.turn - turn))
        shared = np.ones(len(self.x), dtype=bool)
        for angle, width, height, far_width, far_height in (
            (turn, other.width, other.height, self.width, self.height),
            (self.turn, self.width, self.height, other.width, other.height),
        ):
            along = across * np.cos(angle) + up * np.sin(angle)
            away = up * np.cos(angle) - across * np.sin(angle)
            shared &= abs(along) < width + far_width * cos + far_height * sin - 2 * TOUCH
            shared &= abs(away) < height + far_width * sin + far_height * cos - 2 * TOUCH
        return shared


class Segments:
    """Segments in arrays, and which of them a line crosses.

    >>> Segments([((0, 0), (2, 2)), ((0, 0), (2, 0))]).cross(((0, 2), (2, 0))).tolist()
    [True, False]
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        ends = np.array(segments, dtype=float).reshape(-1, 4)
        self.ends = ((ends[:, 0], ends[:, 1]), (ends[:, 2], ends[:, 3]))
        self.length = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])

    def part(self, span: slice) -> Segments:
        """Some of them, one after another."""
        found = Segments([])
        found.ends = tuple((x[span], y[span]) for x, y in self.ends)  # type: ignore[assignment]
        found.length = self.length[span]
        return found

    def distance(self, boxes: Sequence[Box]) -> Any:
        """How far each box, not turned and crossed by none, is from the nearest of them.

        >>> Segments([((0, 0), (9, 0)), ((0, 9), (9, 9))]).distance([Box(4, 3, 2, 2), Box(12, 8, 2, 2)]).tolist()
        [2.0, 2.0]
        """
        (x, width), (y, height) = np.array([((b.x, b.y), (b.width / 2, b.height / 2)) for b in boxes]).T[:, :, :, None]
        (x0, y0), (x1, y1) = self.ends
        found = [np.hypot(abs(a - x).clip(width) - width, abs(b - y).clip(height) - height) for a, b in self.ends]
        for across, up in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            a, b = x + across * width - x0, y + up * height - y0
            along = ((a * (x1 - x0) + b * (y1 - y0)) / np.maximum(self.length**2, TOUCH)).clip(0, 1)
            found.append(np.hypot(a - along * (x1 - x0), b - along * (y1 - y0)))
        return np.min(found, axis=(0, 2), initial=np.inf)

    def cross(self, line: Segment) -> Any:
        """Whether each crosses the line; one that only starts on it does not."""
        return self._apart(line, self.ends, math.dist(*line)) & self._apart(self.ends, line, self.length)

    def crossed_by(self, lines: Segments) -> Any:
        """The same for many lines: a row for each.

        >>> Segments([((0, 0), (2, 2)), ((0, 0), (2, 0))]).crossed_by(Segments([((0, 2), (2, 0))])).tolist()
        [[True, False]]
        """
        ends = tuple((x[:, None], y[:, None]) for x, y in lines.ends)
        return self._apart(ends, self.ends, lines.length[:, None]) & self._apart(self.ends, ends, self.length)

    @staticmethod
    def _apart(line: Any, ends: Any, length: Any) -> Any:
        """Whether the two ends lie on different sides of a line; either side of the question may be arrays."""
        (x0, y0), (x1, y1) = line
        first, second = ((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x, y in ends)
        tiny = 1e-6 * length
        return (abs(first) > tiny) & (abs(second) > tiny) & (first * second < 0)


#: Costs in pixels of distance: a label on a label or marker is never accepted, one on a line is only
#: disliked, unless it must be clear.
OVERLAP_COST = 10_000.0
CROSSING_COST = 60.0
FAINT_CROSSING_COST = 8.0
LEADER_CROSSING_COST = 100.0

#: What it costs that two leaders cross: each label would seem to be the other's.
LEADERS_CROSSING_COST = 100.0

#: Pixels between places along a line.
ALONG = 12.0

_ROUNDS = 6

#: How far labels keep from one another, up and down, and beside each other: two in a row are not one.
_MARGIN, _BESIDE = 1.5, 5.0

#: How far labels keep from the middle of a line, up and down.
_STROKE = 0.5

#: What a label that stands well costs at most, and how many better places one that does not may claim from others.
_CONTENT, _TRIES = 12.0, 12

#: What labels elsewhere cost others, as far as it is kept: rounds ask for the same again.
_KEPT = 8192


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place a label could take; ``leader`` is the thin line from there to what it names, where it is far.

    One that must be ``clear`` is no place where a line runs through it.
    """

    box: Box
    cost: float = 0.0
    leader: Segment | None = None
    clear: bool = False


def place(
    labels: Sequence[Sequence[Candidate]],
    *,
    inside: Box,
    taken: Sequence[Box] = (),
    lines: Sequence[Segment] = (),
    faint: Sequence[Segment] = (),
) -> list[Candidate | None]:
    """Choose one candidate a label, or None where all its places are taken.

    ``inside`` is where labels must lie, ``taken`` holds markers no label may cover, ``lines`` what they had better
    not cross, and may not where they must be clear; ``faint`` lines are disliked less, and never forbidden. Labels
    come in order of importance.

    >>> beside, free = Candidate(Box(0, 0, 8, 4), 1.0), Candidate(Box(9, 0, 8, 4), 2.0)
    >>> [found] = place([[beside, free]], inside=Box(0, 0, 99, 99), faint=[((1, -9), (1, 9))])
    >>> found.box.x
    9
    """
    board = _Board([_possible(candidates, inside, taken, lines, faint) for candidates in labels])
    for _ in range(_ROUNDS):
        before = list(board.chosen)
        for index in range(len(labels)):
            board.move({index: board.best(index, {})})
        for index in range(len(labels)):
            board.move(board.room_for(index))
        if board.chosen == before:
            break
    kept: list[Candidate | None] = []
    for index, at in enumerate(board.chosen):
        found = None if at is None else board.places[index][at][0]
        free = found is not None and not Boxes.of([other.box for other in kept if other]).overlap(found.box).any()
        kept.append(found if free else None)
    return kept


class _Board:
    """Where each label stands, and what each of its places would cost given where the others stand.

    A place is a position in the label's list. ``moves`` are places that some labels would take instead of theirs.
    """

    def __init__(self, places: Sequence[Sequence[tuple[Candidate, float]]]) -> None:
        self.places = places
        self.chosen: list[int | None] = [None] * len(places)
        ends = np.cumsum([0, *(len(options) for options in places)])
        self._spans = [slice(*pair) for pair in pairwise(ends)]
        everything = [place for options in places for place in options]
        self._own = np.array([cost for _, cost in everything], dtype=float)
        self._boxes = Boxes.of([candidate.box.grown(_BESIDE, _MARGIN) for candidate, _ in everything])
        leaders = [(i, c.leader) for i, (c, _) in enumerate(everything) if c.leader is not None]
        self._having = np.array([i for i, _ in leaders], dtype=int)
        self._leaders = Boxes.of([segment_box(leader) for _, leader in leaders])
        self._segments = Segments([leader for _, leader in leaders])
        self._lines = [slice(*pair) for pair in pairwise(np.searchsorted(self._having, ends))]
        self._caused: list[Any] = [np.zeros(len(everything))] * len(places)
        self._disturbed = np.zeros(len(everything))
        self._known: dict[tuple[int, int, int], Any] = {}

    def best(self, index: int, moves: Mapping[int, int | None]) -> int | None:
        """The cheapest place of one label, if the others made these moves."""
        costs = self._costs(index, moves)
        return int(costs.argmin()) if len(costs) else None

    def room_for(self, index: int) -> dict[int, int | None]:
        """Let a label that stands badly push one or two others away, where that helps more than it harms."""
        if self._cost({index: self.chosen[index]}) <= _CONTENT:
            return {}
        for at in self._own[self._spans[index]].argsort(kind="stable")[:_TRIES]:
            place = self._spans[index].start + int(at)
            pushed = [other for other, caused in enumerate(self._caused) if caused[place] >= OVERLAP_COST]
            if not 1 <= len(pushed) <= 2:
                continue
            moves: dict[int, int | None] = {index: int(at)}
            for other in pushed:
                moves[other] = self.best(other, moves)
            if self._cost(moves) < self._cost({i: self.chosen[i] for i in moves}) - 1:
                return moves
        return {}

    def move(self, moves: Mapping[int, int | None]) -> None:
        """Make moves."""
        for index, at in moves.items():
            if at is None or at == self.chosen[index]:
                continue
            caused = self._conflict(self.places[index][at][0], slice(0, None), slice(None))
            caused[self._spans[index]] = 0
            self._disturbed += caused - self._caused[index]
            self.chosen[index], self._caused[index] = at, caused

    def _cost(self, moves: Mapping[int, int | None]) -> float:
        """What labels cost together once they have made their moves."""
        stand = ((index, at) for index, at in moves.items() if at is not None)
        return float(sum(self._costs(index, moves)[at] for index, at in stand))

    def _costs(self, index: int, moves: Mapping[int, int | None]) -> Any:
        """What each place of a label costs, if the others made these moves."""
        span = self._spans[index]
        disturbed = self._disturbed[span]
        for other, at in moves.items():
            if other != index and at is not None and at != self.chosen[other]:
                asked = (other, at, index)
                if asked not in self._known:
                    if len(self._known) >= _KEPT:
                        self._known.clear()
                    self._known[asked] = self._conflict(self.places[other][at][0], span, self._lines[index])
                disturbed = disturbed + (self._known[asked] - self._caused[other][span])
        return self._own[span] + disturbed

    def _conflict(self, far: Candidate, span: slice, lines: slice) -> Any:
        """What a label elsewhere costs some places and their leaders: whole numbers, so that sums are exact."""
        boxes = self._boxes.part(span)
        cost = OVERLAP_COST * boxes.overlap(far.box)
        cost[self._having[lines] - span.start] += LEADER_CROSSING_COST * self._leaders.part(lines).overlap(far.box)
        if far.leader is not None:
            cost += LEADER_CROSSING_COST * boxes.overlap(segment_box(far.leader))
            crossing = self._segments.part(lines).cross(far.leader)
            cost[self._having[lines] - span.start] += LEADERS_CROSSING_COST * crossing
        return cost


def places_around(anchor: Vertex, width: float, height: float, *, reach: float, gap: float = 7.0) -> list[Candidate]:
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
            # straight above and below it may stand to a side too, where the middle would cross a line or the frame
            for shift in (0.0, 0.35, -0.35) if cos * cos < _ACROSS**2 else (0.0,):
                box = Box(x + shift * width, y, width, height)
                leader = (anchor, box.nearest(anchor)) if ring > 8 else None
                found.append(Candidate(box, ring + _DIRECTION_COST[step] + 2 * abs(shift), leader))
    return found


def places_beside(
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
    steps = max(24, int((length - width) / ALONG))
    for step in range(steps + 1):
        at = width / 2 + (length - width) * step / steps
        x, y = start[0] + along[0] * at, start[1] + along[1] * at
        for side in (1, -1):
            box = Box(x - side * along[1] * off, y + side * along[0] * off, width, height, angle)
            found.append(Candidate(box, 6.0 * (side < 0) + 30.0 * abs(step / steps - best), clear=True))
    return found


# Right of and above a point first, straight below last: 16 directions from the right, counter-clockwise.
_DIRECTION_COST = (0.0, 1.0, 2.0, 4.0, 5.0, 4.0, 3.0, 2.0, 1.5, 3.0, 4.0, 5.0, 6.0, 5.0, 3.0, 2.0)

#: Below it a direction points across a box and shifts it to neither side.
_ACROSS = 0.2


def _towards(component: float) -> float:
    """How far a box shifts its centre in a direction: all the way, or not at all where it points across."""
    return 0.0 if abs(component) < _ACROSS else math.copysign(1.0, component) * min(1.0, abs(component) * 1.6)


def _possible(
    candidates: Sequence[Candidate],
    inside: Box,
    taken: Sequence[Box],
    lines: Sequence[Segment],
    faint: Sequence[Segment],
) -> list[tuple[Candidate, float]]:
    """Keep the places that lie inside and cover no marker, with what they cost by themselves."""
    left, right = inside.x - inside.width / 2, inside.x + inside.width / 2
    bottom, top = inside.y - inside.height / 2, inside.y + inside.height / 2
    within = [
        candidate
        for candidate in candidates
        if all(left <= x <= right and bottom <= y <= top for x, y in candidate.box.corners())
    ]
    boxes = Boxes.of([candidate.box for candidate in within])
    touched = Boxes.of([candidate.box.grown(0.0, _STROKE) for candidate in within])
    crossed, faintly = (touched.overlaps(Boxes.of(list(map(segment_box, of)))).sum(1) for of in (lines, faint))
    free = ~(crossed.astype(bool) & np.array([candidate.clear for candidate in within], dtype=bool))
    free &= ~boxes.overlaps(Boxes.of(taken)).any(1)
    costs = np.array([candidate.cost for candidate in within]) + CROSSING_COST * crossed + FAINT_CROSSING_COST * faintly
    having = [i for i, candidate in enumerate(within) if candidate.leader is not None and free[i]]
    costs[having] += _leader_costs([within[i].leader for i in having], taken, lines)
    return [(within[i], float(costs[i])) for i in free.nonzero()[0]]


def _leader_costs(leaders: Sequence[Any], taken: Sequence[Box], lines: Sequence[Segment]) -> Any:
    """What leaders cost by themselves: the markers they pass, other than their own, and the lines they cross."""
    boxes, segments, marks = Boxes.of([segment_box(leader) for leader in leaders]), Segments(leaders), Boxes.of(taken)
    starts = np.array([leader[0] for leader in leaders], dtype=float).reshape(-1, 2, 1)
    others = np.hypot(starts[:, 0] - marks.x, starts[:, 1] - marks.y) > 1
    passed = (boxes.overlaps(marks) & others).sum(1)
    over = Segments(lines).crossed_by(segments).sum(1)
    return LEADER_CROSSING_COST * (passed + 0.4 * over)
