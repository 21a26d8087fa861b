"""Step-by-step simulation of Broadcasts over any network, of two binary trees, chains, and switches that reduce.

Each step is done on real arrays, one a chip, and every result is checked. Nothing here uses the package's formulas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import lcm, prod

import numpy as np
from simulate import (
    SCHEDULES,
    Chip,
    Dimension,
    Link,
    Piece,
    Trace,
    balanced_orders,
    chips_of,
    gather_schedule,
    links_between,
    phase,
    straight_schedule,
)
from simulate_moves import Move, _range, elements, run
from simulate_networks import Network

ZERO, HALF, ONE = Fraction(0), Fraction(1, 2), Fraction(1)

#: From one position to another goes the part of a message from one fraction of it to another.
Part = tuple[int, int, Fraction, Fraction]


# ---- two binary trees


def in_order_tree(n: int) -> dict[int, int | None]:
    """Parents in a binary tree of the positions 1 … n, whose odd positions are leaves; the top has none."""
    parents: dict[int, int | None] = {}

    def build(first: int, last: int, parent: int | None) -> None:
        if first > last:
            return
        top = first - 1 + 2 ** ((last - first + 1).bit_length() - 1)
        parents[top] = parent
        build(first, top - 1, top)
        build(top + 1, last, top)

    build(1, n, None)
    return parents


def two_trees(n: int) -> tuple[dict[int, int | None], dict[int, int | None]]:
    """Two trees of the chips 1 … n; a chip that has others below it in one has none in the other."""
    first = in_order_tree(n)

    def other(position: int) -> int:
        return n + 1 - position if n % 2 == 0 else (position - 2) % n + 1

    second = {other(p): None if parent is None else other(parent) for p, parent in first.items()}
    inner = [{p for p in tree.values() if p is not None} for tree in (first, second)]
    assert not inner[0] & inner[1], "a chip is between others in both trees"
    return first, second


def depth(tree: dict[int, int | None], chip: int) -> int:
    parent = tree[chip]
    return 0 if parent is None else 1 + depth(tree, parent)


def _down(tree: dict[int, int | None], start: Fraction, stop: Fraction, shift: int) -> list[list[Part]]:
    levels = max((depth(tree, chip) for chip in tree), default=0)
    return [
        [(p - shift, c - shift, start, stop) for c, p in tree.items() if p is not None and depth(tree, c) == level]
        for level in range(1, levels + 1)
    ]


def _together(*schedules: list[list[Part]]) -> list[list[Part]]:
    return [
        [part for schedule in schedules for part in (schedule[t] if t < len(schedule) else [])]
        for t in range(max(map(len, schedules), default=0))
    ]


# ---- a message from position 0 to all others of one axis


def _broadcast_steps(n: int, kind: str) -> list[list[Part]]:
    if n == 1:
        return []
    if kind in ("direct", "mesh"):
        return [[(0, j, ZERO, ONE) for j in range(1, n)]]
    if kind == "relay":
        parts = {j: (Fraction(j - 1, n - 1), Fraction(j, n - 1)) for j in range(1, n)}
        handed_on = [(i, j, *part) for i, part in parts.items() for j in parts if i != j]
        return [[(0, j, *part) for j, part in parts.items()], *([handed_on] if handed_on else [])]
    if kind == "trees":
        first, second = two_trees(n - 1)
        halves = []
        for tree, start, stop in ((first, ZERO, HALF), (second, HALF, ONE)):
            top = next(chip for chip, parent in tree.items() if parent is None)
            halves.append([[(0, top, start, stop)], *_down(tree, start, stop, 0)])
        return _together(*halves)
    if kind == "tree":
        steps, have = [], 1
        while have < n:
            steps.append([(i, i + have, ZERO, ONE) for i in range(have) if i + have < n])
            have *= 2
        return steps
    if kind == "shortest":
        ways = [(range(n // 2), 1), (range((n - 1) // 2), -1)]
        return [[(i * way % n, (i + 1) * way % n, ZERO, ONE) for far, way in ways if i in far] for i in range(n // 2)]
    if kind == "ring" and n > 2:
        return [[(i, i + 1, ZERO, HALF), (-i % n, -(i + 1) % n, HALF, ONE)] for i in range(n - 1)]
    return [[(i, i + 1, ZERO, ONE)] for i in range(n - 1)]


def broadcast(network: Network, gathering: Network | None = None, *, backwards: bool = False) -> Trace:
    """From the first chip: within its unit, then each chip's part over the next tier, then gathered in other units.

    ``network`` says by which way the message spreads, ``gathering`` by which way parts are gathered. ``backwards``,
    every message goes the other way and is added up where it arrives: a Reduce.
    """
    gathering = gathering or network
    tiers = range(len(network.tiers))
    chips = chips_of(network.dimensions)
    sizes = [prod(d.size for d in tier) for tier in network.tiers]
    steps: list[list[Move]] = []
    for tier in tiers:
        steps += _spread(network, tier, chips, sizes)
    for tier in reversed(tiers):
        steps += _gather(gathering, tier, chips, sizes)
    return _spread_to_all(chips, steps, backwards=backwards)


def straight_broadcast(network: Network, *, backwards: bool = False) -> Trace:
    """From the first chip straight to every other, over all tiers at once; ``backwards``, a Reduce."""
    sent = [m for step in straight_schedule(network.dimensions) for m in step if not any(m.source)]
    moves = [Move(m.source, (m.target,), m.links, ZERO, ONE) for m in sent]
    return _spread_to_all(chips_of(network.dimensions), [moves], backwards=backwards)


def relayed_broadcast(network: Network, *, backwards: bool = False) -> Trace:
    """The first chip sends each other a part, which sends it on to the others; ``backwards``, a Reduce."""
    first, *others = chips_of(network.dimensions)
    parts = {chip: (Fraction(i, len(others)), Fraction(i + 1, len(others))) for i, chip in enumerate(others)}
    messages = [m for step in straight_schedule(network.dimensions) for m in step if m.target != first]
    scattered = [Move(m.source, (m.target,), m.links, *parts[m.target]) for m in messages if m.source == first]
    handed_on = [Move(m.source, (m.target,), m.links, *parts[m.source]) for m in messages if m.source != first]
    return _spread_to_all([first, *others], filter(None, [scattered, handed_on]), backwards=backwards)


def _spread_to_all(chips: Sequence[Chip], steps: Iterable[Sequence[Move]], *, backwards: bool) -> Trace:
    steps = list(steps)
    count = elements(steps)
    if backwards:
        arrays = _partials(chips, count)
        total = sum(arrays.values())
        turned = [[_turned(move) for move in step] for step in reversed(steps)]
        trace = run(arrays, turned, handed_on=True)
        _all_have({chip: values for chip, values in arrays.items() if not any(chip)}, total)
        return trace
    message = np.arange(1, count + 1)
    arrays = {chip: message.copy() if not any(chip) else np.zeros_like(message) for chip in chips}
    trace = run(arrays, steps)
    for chip in chips:
        assert np.array_equal(arrays[chip], message), f"{chip} lacks something"
    return trace


def _split(network: Network, chip: Chip, tier: int) -> tuple[Chip, Chip, Chip]:
    """Coordinates of a chip: in the tiers outside this one, in it, in those inside."""
    before = sum(len(t) for t in network.tiers[tier + 1 :])
    here = len(network.tiers[tier])
    return chip[:before], chip[before : before + here], chip[before + here :]


def _part(network: Network, chip: Chip, tier: int, sizes: Sequence[int]) -> tuple[Fraction, Fraction]:
    """A chip's part of the message among those of its unit of this tier: by its place in the tiers inside."""
    start, width = ZERO, ONE
    for inner in range(tier):
        _, at, _ = _split(network, chip, inner)
        width /= sizes[inner]
        start += width * _rank(at, network.tiers[inner])
    return start, width


def _rank(at: Chip, dimensions: Sequence[Dimension]) -> int:
    rank = 0
    for p, d in zip(at, dimensions, strict=True):
        rank = rank * d.size + p
    return rank


def _spread(network: Network, tier: int, chips: Sequence[Chip], sizes: Sequence[int]) -> Iterator[list[Move]]:
    """Every chip of the first unit sends its part to its peers along the axes of a tier, one after the other."""
    dimensions = network.tiers[tier]
    for axis, dimension in enumerate(dimensions):
        for step in _broadcast_steps(dimension.size, dimension.kind):
            moves = []
            for chip in chips:
                outer, at, inner = _split(network, chip, tier)
                if any(outer) or any(at[axis:]):
                    continue
                start, width = _part(network, chip, tier, sizes)
                for source, target, low, high in step:
                    ends = [(*outer, *at[:axis], p, *at[axis + 1 :], *inner) for p in (source, target)]
                    links = links_between(dimension, *ends)
                    moves.append(Move(ends[0], (ends[1],), links, start + low * width, start + high * width))
            yield moves


def _gather(
    network: Network, tier: int, chips: Sequence[Chip], sizes: Sequence[int], *, everywhere: bool = False
) -> Iterator[list[Move]]:
    """In units that got only parts, or ``everywhere``, chips give each other theirs, all units at once."""
    units = {split[::2] for split in (_split(network, chip, tier) for chip in chips) if everywhere or any(split[0])}
    dimensions = network.tiers[tier]
    if not units:
        return
    for step in gather_schedule(dimensions, balanced_orders(dimensions)):
        moves = []
        for (outer, inner), message in product(units, step):
            ends = [(*outer, *at, *inner) for at in (message.source, message.target)]
            owner = (*outer, *message.piece.owner, *inner)
            start, width = _part(network, owner, tier + 1, sizes)
            axis = next((i for i, (a, b) in enumerate(zip(message.source, message.target, strict=True)) if a != b), 0)
            low, high = (start + width * f for f in (message.piece.start, message.piece.stop))
            moves.append(Move(ends[0], (ends[1],), links_between(dimensions[axis], *ends), low, high))
        yield moves


# ---- sums


def _partials(chips: Sequence[Chip], count: int) -> dict[Chip, np.ndarray]:
    rng = np.random.default_rng(2)
    return {chip: rng.integers(1, 100, count) for chip in chips}


def _all_have(arrays: dict[Chip, np.ndarray], total: np.ndarray) -> None:
    for chip, values in arrays.items():
        assert np.array_equal(values, total), f"the sum at {chip} is wrong"


def _move(dimension: Dimension, part: Part, *, add: bool) -> Move:
    source, target, start, stop = part
    return Move((source,), ((target,),), links_between(dimension, (source,), (target,)), start, stop, add)


def double_tree_all_reduce(dimension: Dimension) -> Trace:
    """Half of the array up and down each of two trees."""
    n = dimension.size
    down = _together(
        *(_down(tree, a, b, 1) for tree, (a, b) in zip(two_trees(n), ((ZERO, HALF), (HALF, ONE)), strict=True))
    )
    up = [[(target, source, a, b) for source, target, a, b in step] for step in reversed(down)]
    steps = [[_move(dimension, part, add=True) for part in step] for step in up]
    steps += [[_move(dimension, part, add=False) for part in step] for step in down]
    arrays = _partials([(i,) for i in range(n)], 2)
    total = sum(arrays.values())
    trace = run(arrays, steps)
    _all_have(arrays, total)
    return trace


def one_shot(network: Network) -> Trace:
    """Every chip gets the whole partial sums of all others, and adds them up itself."""
    dimensions = network.dimensions
    chips = chips_of(dimensions)
    if dimensions[0].kind in ("direct", "mesh"):
        steps = straight_schedule(dimensions)
    else:
        steps = gather_schedule(dimensions, balanced_orders(dimensions))
    place = {chip: i for i, chip in enumerate(chips)}
    moves = [
        [
            Move(
                m.source,
                (m.target,),
                m.links,
                (place[m.piece.owner] + m.piece.start) / len(chips),
                (place[m.piece.owner] + m.piece.stop) / len(chips),
            )
            for m in step
        ]
        for step in steps
    ]
    count = elements(moves) if moves else len(chips)
    each = count // len(chips)
    partial = _partials(chips, each)
    arrays = {chip: np.zeros(count, dtype=int) for chip in chips}
    for chip in chips:
        arrays[chip][place[chip] * each : (place[chip] + 1) * each] = partial[chip]
    trace = run(arrays, moves)
    _all_have({c: a.reshape(len(chips), each).sum(axis=0) for c, a in arrays.items()}, sum(partial.values()))
    return Trace([{link: size * len(chips) for link, size in step.items()} for step in trace.steps])


def turning_all_reduce(dimensions: Sequence[Dimension]) -> Trace:
    """Sums along all axes but one, then along that one from both ends of as many lines as it has chips, then back.

    Each line round a ring leaves out another link, so that each link carries as much.
    """
    chips = chips_of(dimensions)
    place, start, parts = {chip: i for i, chip in enumerate(chips)}, ZERO, []
    for order, share in balanced_orders(dimensions):
        held = {chip: [Piece(chip, start, start + share)] for chip in chips}
        start += share
        for _ in phase(dimensions, order[0], held):
            pass
        pieces = [piece for line in held.values() for piece in line]
        parts.append((order[0], {*pieces}, [step for axis in order[1:] for step in phase(dimensions, axis, held)]))

    def moved(piece: Piece, *ends: Chip, axis: int = 0, add: bool = False) -> Move:
        a, b = ((place[piece.owner] + f) / len(chips) for f in (piece.start, piece.stop))
        return Move(ends[0], (ends[1],), links_between(dimensions[axis], *ends), a, b, add)

    found: list[list[dict[Link, Fraction]]] = []
    gathers = []
    for _, _, gather in parts:
        axes = [[next(i for i, n in enumerate(m.source) if n != m.target[i]) for m in step] for step in gather]
        gathers.append(
            [
                [moved(m.piece, m.source, m.target, axis=i) for m, i in zip(step, own, strict=True)]
                for step, own in zip(gather, axes, strict=True)
            ]
        )
    whole = [[moved(piece, piece.owner, piece.owner) for _, pieces, _ in parts for piece in pieces]]
    arrays = _partials(chips, elements([*whole, *(step for gather in gathers for step in gather)]))
    total = sum(arrays.values())
    for (axis, pieces, _), gather in zip(parts, gathers, strict=True):
        there = run(arrays, [[_turned(move) for move in step] for step in reversed(gather)], handed_on=True)
        middle: list[list[tuple[Link, Fraction]]] = [[] for _ in range(dimensions[axis].size - 1)]
        for piece in pieces:
            n, own = dimensions[axis].size, piece.owner
            row = [(*own[:axis], (own[axis] + 1 - n // 2 + k) % n, *own[axis + 1 :]) for k in range(n)]
            where = _range(moved(piece, own, own), total.size)
            steps, sums = _sums_of_a_line(row, "line", {chip: arrays[chip][where] for chip in row})
            for step, ends in zip(middle, steps, strict=True):
                for a, b, _ in ends:
                    step += [
                        (link, (piece.stop - piece.start) / len(chips)) for link in moved(piece, a, b, axis=axis).links
                    ]
            for chip in row:
                arrays[chip][where] = sums[chip]
        turn = Trace()
        for step in middle:
            turn.add(step)
        found.append([*there.steps, *turn.steps, *run(arrays, gather).steps])
    _all_have(arrays, total)
    trace = Trace()
    for steps in zip(*found, strict=True):
        trace.add(pair for step in steps for pair in step.items())
    return trace


# ---- whole partial sums along one axis after the other


def whole_sums(dimensions: Sequence[Dimension], order: Sequence[int], part: Fraction) -> Trace:
    """Every chip gets the whole sums of all others of its row, along one axis after the other."""
    sums = _partials(chips_of(dimensions), 3)
    total, trace = sum(sums.values()), Trace()
    for axis in order:
        rows = defaultdict(list)
        for chip in sums:
            rows[*chip[:axis], *chip[axis + 1 :]].append(chip)
        kind = dimensions[axis].kind
        each = [(_sums_of_a_line if kind == "line" else _sums_of_all)(row, kind, sums) for row in rows.values()]
        for hops in zip(*(steps for steps, _ in each), strict=True):
            crossed = [(links_between(dimensions[axis], *ends), share) for row in hops for *ends, share in row]
            trace.add((link, share * part) for links, share in crossed for link in links)
        for _, found in each:
            sums.update(found)
    _all_have(sums, total)
    return trace


#: From one chip to another goes so much of the array, step by step; and what each chip has then.
RowOfSums = tuple[list[list[tuple[Chip, Chip, Fraction]]], dict[Chip, np.ndarray]]


def _sums_of_a_line(row: Sequence[Chip], kind: str, sums: dict[Chip, np.ndarray]) -> RowOfSums:
    """What lies behind a chip is added up on its way, from both ends."""
    ahead, behind = ([sums[chip].copy() for chip in row] for _ in range(2))
    steps, n = [], len(row)
    for t in range(n - 1):
        ahead[t + 1] += ahead[t]
        behind[n - 2 - t] += behind[n - 1 - t]
        steps.append([(row[t], row[t + 1], ONE), (row[n - 1 - t], row[n - 2 - t], ONE)])
    return steps, {chip: a + b - sums[chip] for chip, a, b in zip(row, ahead, behind, strict=True)}


def _sums_of_all(row: Sequence[Chip], kind: str, sums: dict[Chip, np.ndarray]) -> RowOfSums:
    have: list[dict[tuple[int, int | None], np.ndarray]] = [{(i, None): sums[chip]} for i, chip in enumerate(row)]
    steps = []
    for hops in SCHEDULES[kind](len(row)):
        steps.append([(row[s], row[t], ONE if half is None else HALF) for s, t, _, half, _ in hops])
        for source, target, origin, half, _ in hops:
            assert (origin, None) in have[source], "a chip sends what it does not have"
            have[target][origin, half] = sums[row[origin]]
    for own in have:
        for origin in {origin for origin, half in own if half is not None}:
            assert own.pop((origin, 0)) is own[origin, 1], "a chip lacks a half"
    return steps, {chip: sum(own.values()) for chip, own in zip(row, have, strict=True)}


# ---- switches that reduce and multicast


def _peers(network: Network, chip: Chip, tier: int) -> list[Chip]:
    outer, _, inner = _split(network, chip, tier)
    return [(*outer, p, *inner) for p in range(network.tiers[tier][0].size)]


def _reduces(network: Network, tier: int) -> bool:
    return network.tiers[tier][0].reduces


def _sizes(network: Network) -> list[int]:
    return [prod(d.size for d in tier) for tier in network.tiers]


def _whole(network: Network) -> int:
    """Elements of an array whose every part is whole, on the way over tiers that do not reduce too."""
    chips, sizes, network = chips_of(network.dimensions), _sizes(network), network.by({"switch": "direct"})
    tiers = [tier for tier in range(len(sizes)) if not _reduces(network, tier)]
    moves = [step for tier in tiers for step in _gather(network, tier, chips, sizes, everywhere=True)]
    return lcm(elements(moves), prod(sizes))


def switch_all_reduce(network: Network) -> Trace:
    """Tier by tier: chips send others' parts to the switch, which adds them up; then it multicasts the results.

    What a switch has got it sends on itself, so a chip's own link is crossed once. Chips of other tiers scatter sums.
    """
    network = network.by({"switch": "direct"})
    chips = chips_of(network.dimensions)
    sizes = _sizes(network)
    arrays = _partials(chips, _whole(network))
    total = sum(arrays.values())
    trace = Trace()
    for tier, n in enumerate(sizes):
        if n > 1 and _reduces(network, tier):
            before = {chip: values.copy() for chip, values in arrays.items()}
            parts = {chip: _own(network, chip, tier + 1, sizes, total.size) for chip in chips}
            for chip in chips:
                own = parts[chip]
                arrays[chip][own] = sum(before[peer][own] for peer in _peers(network, chip, tier))
            each = Fraction(1, prod(sizes[: tier + 1]))
            trace.add(_ports(network, tier, chips, out=each * (n - 1), into=each))
            _at_once(trace, _passes_on(network, sizes, tier))
        elif n > 1:
            steps = reversed(list(_gather(network, tier, chips, sizes, everywhere=True)))
            trace.steps += run(arrays, ([_turned(move) for move in step] for step in steps)).steps
    passed = False
    for tier in reversed(range(len(sizes))):
        if sizes[tier] > 1 and _reduces(network, tier):
            trace.steps += _multicast(network, tier, chips, sizes, arrays).steps
            _at_once(trace, passed)
            passed = _passes_on(network, sizes, tier)
        elif sizes[tier] > 1:
            trace.steps += run(arrays, _gather(network, tier, chips, sizes, everywhere=True)).steps
            passed = False
    _all_have(arrays, total)
    return trace


def _at_once(trace: Trace, passed: bool) -> None:
    """Do the last two steps as one, where switches pass on what they have got."""
    if passed:
        after, before = trace.steps.pop(), trace.steps.pop()
        trace.add((*before.items(), *after.items()))


def _passes_on(network: Network, sizes: Sequence[int], tier: int) -> bool:
    """Whether the switches of the tier below add up too and send on at once, as those of a fat tree do."""
    below = next((t for t in reversed(range(tier)) if sizes[t] > 1), None)
    nested = [s.place for axis in network.axes for s in axis.segments if s.nested]
    tree = below is not None and network.tiers[below][0].place in nested and network.tiers[tier][0].place in nested
    return tree and below is not None and _reduces(network, below)


def _turned(move: Move) -> Move:
    """The same part the other way, added up."""
    (target,) = move.targets
    ends = {"out": ("in", move.source), "in": ("out", target)}
    links = tuple((link[0], *ends.get(str(link[1]), (target, move.source))) for link in move.links)
    return Move(target, (move.source,), links, move.start, move.stop, add=True)


def _passed_on(network: Network, trace: Trace) -> Trace:
    """Messages whose way up switches that multicast have gone already: such a switch sends on what it has got."""
    able = {one.place for tier, (one, *_) in enumerate(network.tiers) if _reduces(network, tier)}
    steps = [{link: n for link, n in step.items() if link[0] not in able or link[1] != "out"} for step in trace.steps]
    return Trace(steps)


def _own(network: Network, chip: Chip, tier: int, sizes: Sequence[int], count: int) -> slice:
    start, width = _part(network, chip, tier, sizes)
    return slice(int(start * count), int((start + width) * count))


def _ports(
    network: Network, tier: int, chips: Sequence[Chip], *, out: Fraction, into: Fraction
) -> Iterator[tuple[tuple[str, object, object], Fraction]]:
    for place, chip in product(_crossed(network, tier), chips):
        yield (place, "out", chip), out
        yield (place, "in", chip), into


def _crossed(network: Network, tier: int) -> list[str]:
    """Places that a chip's messages to a switch cross: switches that add up send on what they have got themselves."""
    one = network.tiers[tier][0]
    plain = [other[0].place for number, other in enumerate(network.tiers) if not _reduces(network, number)]
    return [one.place, *(place for place in one.crossed if place in plain)]


def _multicast(
    network: Network, tier: int, chips: Sequence[Chip], sizes: Sequence[int], arrays: dict[Chip, np.ndarray]
) -> Trace:
    """Every chip sends its part once, and the switch hands it to all others."""
    before = {chip: values.copy() for chip, values in arrays.items()}
    for chip in chips:
        own = _own(network, chip, tier + 1, sizes, arrays[chip].size)
        for peer in _peers(network, chip, tier):
            arrays[peer][own] = before[chip][own]
    each = Fraction(1, prod(sizes[: tier + 1]))
    trace = Trace()
    trace.add(_ports(network, tier, chips, out=each, into=each * (sizes[tier] - 1)))
    return trace


def switch_broadcast(network: Network) -> Trace:
    """The first chip sends once and the switch hands it to its unit; then every chip its part, tier by tier.

    Over a tier that does not multicast it spreads as any message does.
    """
    sizes, spread, network = _sizes(network), network.by({"switch": "relay"}), network.by({"switch": "direct"})
    chips = chips_of(network.dimensions)
    steps = [list(_spread(spread, tier, chips, sizes)) for tier in range(len(sizes))]
    count = lcm(_whole(network), *(elements(each) for each in steps))
    message = np.arange(1, count + 1)
    arrays = {chip: message.copy() if not any(chip) else np.zeros_like(message) for chip in chips}
    trace = Trace()
    for tier, n in enumerate(sizes):
        if not _reduces(network, tier):
            trace.steps += _passed_on(network, run(arrays, steps[tier])).steps
            continue
        step = []
        for chip in chips:
            outer, at, _ = _split(network, chip, tier)
            if n == 1 or any(outer) or any(at):
                continue
            own = _own(network, chip, tier, sizes, count)
            width = Fraction(own.stop - own.start, count)
            others = [peer for peer in _peers(network, chip, tier) if peer != chip]
            for peer in others:
                arrays[peer][own] = arrays[chip][own]
            place = network.tiers[tier][0].place
            step += [((place, "out", chip), width), *(((place, "in", peer), width) for peer in others)]
        if step:
            trace.add(step)
            _at_once(trace, _passes_on(network, sizes, tier))
    for tier in reversed(range(len(sizes) - 1)):
        outside = [chip for chip in chips if any(_split(network, chip, tier)[0])]
        if sizes[tier] > 1 and outside and _reduces(network, tier):
            above = next(t for t in range(tier + 1, len(sizes)) if sizes[t] > 1)
            trace.steps += _multicast(network, tier, outside, sizes, arrays).steps
            _at_once(trace, _reduces(network, above) and _passes_on(network, sizes, above))
        elif sizes[tier] > 1 and outside:
            trace.steps += run(arrays, _gather(network, tier, chips, sizes)).steps
    for chip in chips:
        assert np.array_equal(arrays[chip], message), f"{chip} lacks something"
    return trace
