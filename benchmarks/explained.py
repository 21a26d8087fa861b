"""How much of a grid of PyTorch operations the measured roof and the named effects explain within a factor of 1.25.

The effects' sizes come from `roofline measure`; nothing is fitted to the grid. Say the machine file as an argument, or
have one where `--on this` reads it. Prints the share by family and format, and beside it that of the roof alone.
`--times FILE` keeps the times it took, or takes them from there: the explanation can be looked at again without timing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from roofline.bounds.api import question
from roofline.hardware import chip
from roofline.hardware.catalog import user_file
from roofline.hardware.machine import Machine
from roofline.measurement import read_machine_file
from roofline.measurement.executors import Library, torch_library
from roofline.measurement.levels import HELD_UP, SHARED, SampleSummary
from roofline.measurement.timing import RunSetting, point_of, threads_used, time_step
from roofline.notation import program

FACTOR, ENOUGH = 1.25, 0.6

#: Rounds, each over the whole grid, so that a busy minute spoils one round and not one point; seconds for a point.
ROUNDS, SECONDS = 3, 0.5

BYTES = {"fp32": 4, "bf16": 2}


def grid(dtype: str) -> Iterator[tuple[str, str]]:
    """Every operation of the grid in one dtype, with its family."""
    for n in (64, 128, 256, 512, 1024, 2048, 4096):
        yield "matmul", f"{dtype}[{n}, {n}] @ {dtype}[{n}, {n}]"
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        yield "linear", f"{dtype}[{m}, 4096] @ {dtype}[4096, 4096]"
    for batch in (1, 8):
        for side, channels in ((56, 64), (28, 128), (14, 256), (7, 512)):
            kernel = f"{dtype}[3, 3, {channels}, {channels}]"
            yield "conv", f"conv({dtype}[{batch}, {side}, {side}, {channels}], {kernel}, pad=1)"
    for size in (16 * 2**10, 2**20, 32 * 2**20, 128 * 2**20):
        x = f"{dtype}[{size // BYTES[dtype] // 1024}, 1024]"
        yield from (("softmax", f"softmax({x})"), ("layer norm", f"layer_norm({x})"), ("gelu", f"gelu({x})"))
        yield "add", f"{x} + {x}"
    for queries, keys in ((256, 256), (512, 512), (1024, 1024), (2048, 2048), (1, 2048)):
        q, kv = (f"{dtype}[1, {length}, 16, 64]" for length in (queries, keys))
        yield "attention" if queries > 1 else "decode", f"attention({q}, {kv}, {kv})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid, print what is explained; return 1 where it is too little."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machine", nargs="?", default=user_file("this.toml"))
    parser.add_argument("--only", default="", help="families whose name holds this text")
    parser.add_argument("--times", type=Path, help="file of the times: read where it is there, else written")
    parser.add_argument("--rounds", type=int, help=f"rounds to time; by default {ROUNDS}, or none where all are there")
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args(arguments)
    measured = read_machine_file(chosen.machine)
    all_threads, one = chip(f"{chosen.machine}#this"), chip(f"{chosen.machine}#this-core")
    known = json.loads(chosen.times.read_text()) if chosen.times and chosen.times.exists() else {}
    points = [
        (threads, family, dtype, line)
        for dtype in BYTES
        for threads in (1, measured.conditions.cores)
        for family, line in grid(dtype)
        if chosen.only in family
    ]
    library = torch_library()
    missing = not all(f"{threads} {line}" in known for threads, *_, line in points)
    for _ in range(chosen.rounds if chosen.rounds is not None else ROUNDS * missing):
        for threads, _family, _dtype, line in points:
            keep_better(known, f"{threads} {line}", timed(library, line, threads, one))
            if chosen.times:
                chosen.times.write_text(json.dumps(known, indent=1))
    hits: dict[tuple[str, str], list[tuple[bool, bool, bool]]] = {}
    for threads, family, dtype, line in points:
        label = f"{threads} {line}"
        [op] = question(line, on=one).ops()
        summary, setting = SampleSummary(**known[label]["summary"]), RunSetting(**known[label]["setting"])
        roof = one if threads_used(op, threads) == 1 else all_threads
        point = point_of(op, roof, measured, setting, summary, "")
        told, clean = point.explained or 0.0, own(summary)
        near, bare = (1 / FACTOR <= share <= FACTOR for share in (told, point.fraction))
        hits.setdefault((family, dtype), []).append((near, bare, clean))
        if chosen.verbose:
            parts = ", ".join(f"{e.name} {e.seconds / point.run.seconds:.0%}" for e in point.effects)
            mark = f"{'' if near else ' *'}{'' if clean else ' contended'}"
            print(f"{label:60} {summary.value * 1e6:10.1f} us {told:5.2f} {parts}{mark}")
    return report(hits)


def keep_better(known: dict[str, Any], label: str, found: dict[str, Any]) -> None:
    """Keep the better of two rounds of a point: on its own cores before others, then the faster."""

    def rank(one: dict[str, Any]) -> tuple[bool, float]:
        return not own(SampleSummary(**one["summary"])), one["summary"]["value"]

    known[label] = min(known.get(label, found), found, key=rank)


def own(summary: SampleSummary) -> bool:
    """Whether a time was taken on cores of its own, by threads that ran."""
    return not summary.doubted((SHARED, HELD_UP))


def timed(library: Library, line: str, threads: int, machine: Machine) -> dict[str, Any]:
    """Time one round of an operation on warm caches with its output allocated, as plain data."""
    [step], [op] = program(line).steps, question(line, on=machine).ops()
    setting, summary = time_step(library, step, op, threads, rounds=2, seconds=SECONDS)
    return {"setting": asdict(setting), "summary": asdict(summary)}


def report(hits: dict[tuple[str, str], list[tuple[bool, bool, bool]]]) -> int:
    """Print the shares by family; return 1 where too little is explained."""
    everything = [hit for listed in hits.values() for hit in listed]
    print(f"{'':18}{'points':>8}{'explained':>11}{'roof alone':>12}{'clean':>8}")
    for family, listed in [*((f"{f} {d}", listed) for (f, d), listed in sorted(hits.items())), ("all", everything)]:
        shares = [sum(hit[n] for hit in listed) / len(listed) for n in range(3)]
        print(f"{family:18}{len(listed):8}{shares[0]:11.0%}{shares[1]:12.0%}{shares[2]:8.0%}")
    if median(hit[2] for hit in everything) < 1:
        print("most points were taken on a contended machine: run it again when it is quiet")
    return int(sum(hit[0] for hit in everything) < ENOUGH * len(everything))


if __name__ == "__main__":
    sys.exit(main())
