"""A pipeline step by step: every stage runs its passes in the order of a schedule, each when what it needs is there.

A pass is (kind, microbatch, piece): F forward, B input gradients (with weight gradients where they are not apart),
W weight gradients. Piece c of stage s is part ``c·stages + s`` of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

Pass = tuple[str, int, int]


@dataclass
class Run:
    """What came out: when the last stage ended, and by stage the time waited and the most pieces kept."""

    end: float
    idle: list[float]
    held: list[int]


def order(name: str, stage: int, stages: int, microbatches: int, chunks: int = 1) -> list[Pass]:
    """The passes of a stage in order."""
    forward = [("F", m, 0) for m in range(microbatches)]
    backward = [("B", m, 0) for m in range(microbatches)]
    if name == "gpipe":
        return forward + backward
    if name == "1f1b":
        return _in_turn(forward, backward, stages - stage - 1)
    if name == "interleaved":
        rounds = [range(m, m + stages) for m in range(0, microbatches, stages)]
        forward = [("F", m, c) for each in rounds for c in range(chunks) for m in each]
        backward = [("B", m, c) for each in rounds for c in reversed(range(chunks)) for m in each]
        return _in_turn(forward, backward, 2 * (stages - stage - 1) + (chunks - 1) * stages)
    # zb-h1: weight gradients follow their microbatch's input gradients by as many microbatches as the stage's number;
    # zb-h2: by up to twice as many, as many run forward ahead of the first that comes back
    behind, before = stage, stages - stage - 1
    if name == "zb-h2" and stages > 1:
        more = max(min(microbatches, 2 * stages - 1), stages) - 1
        before = more * before // (stages - 1)
        behind = more - before
    ahead = _in_turn(forward, backward, before)
    found: list[Pass] = []
    done = 0
    for each in ahead:
        found.append(each)
        if each[0] == "B" and each[1] >= behind:
            found.append(("W", done, 0))
            done += 1
    return found + [("W", m, 0) for m in range(done, microbatches)]


def _in_turn(forward: list[Pass], backward: list[Pass], ahead: int) -> list[Pass]:
    """``ahead`` passes forward, then one forward and one backward in turn, then what is left."""
    found, rest = forward[:ahead], forward[ahead:]
    for number, each in enumerate(backward):
        found += [*rest[number : number + 1], each]
    return found


def simulate(
    name: str, stages: int, microbatches: int, chunks: int = 1, *, times: list[dict[str, float]] | None = None
) -> Run:
    """Run the schedule; ``times`` are those of F, B and W of a whole stage, one entry a stage."""
    each = times or [{"F": 1.0, "B": 1.0, "W": 1.0}] * stages
    apart = name in ("zb-h1", "zb-h2")
    queues = [order(name, s, stages, microbatches, chunks) for s in range(stages)]
    done: dict[tuple[str, int, int], float] = {}
    free, busy, at = [0.0] * stages, [0.0] * stages, [0] * stages
    parts = stages * chunks
    while any(at[s] < len(queues[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            while at[s] < len(queues[s]):
                kind, m, c = queues[s][at[s]]
                part = c * stages + s
                needs = []
                if kind == "F" and part:
                    needs.append(("F", m, part - 1))
                if kind == "B":
                    needs.append(("F", m, part) if part == parts - 1 else ("B", m, part + 1))
                if kind == "W":
                    needs.append(("B", m, part))
                if any(need not in done for need in needs):
                    break
                took = each[s][kind] if apart or kind == "F" else each[s]["B"] + each[s]["W"]
                start = max([free[s], *(done[need] for need in needs)])
                free[s] = done[kind, m, part] = start + took / chunks
                busy[s] += took / chunks
                at[s] += 1
                moved = True
        assert moved, f"{name} cannot go on"
    end = max(free)
    return Run(end, [end - b for b in busy], [_held(queue, "W" if apart else "B") for queue in queues])


def _held(queue: list[Pass], last: str) -> int:
    """The most microbatches kept at once: those run forward whose last backward pass is not done."""
    kept = most = 0
    for kind, _, _ in queue:
        kept += kind == "F"
        most = max(most, kept)
        kept -= kind == last
    return most
