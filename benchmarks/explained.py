"""How much of a grid of PyTorch operations the measured roof and the named effects explain within a factor of 1.25.

The effects' sizes come from `roofline measure`; nothing is fitted to the grid. Say the machine file as an argument, or
have one where `--on this` reads it. Prints the share by family, and beside it that of the roof alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from roofline.cli.options import own_file
from roofline.hardware import chip
from roofline.measurement import read_machine_file, run

FACTOR, ENOUGH = 1.25, 0.6
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
        for line in (f"softmax({x})", f"layer_norm({x})", f"{x} + {x}", f"gelu({x})"):
            yield "elementwise", line
    for queries, keys in ((256, 256), (512, 512), (1024, 1024), (2048, 2048), (1, 2048)):
        q, kv = (f"{dtype}[1, {length}, 16, 64]" for length in (queries, keys))
        yield "attention", f"attention({q}, {kv}, {kv})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the grid, print what is explained; return 1 where it is too little."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machine", nargs="?", default=own_file("this.toml"))
    parser.add_argument("--only", default="", help="families whose name holds this text")
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args(arguments)
    measured = read_machine_file(chosen.machine)
    all_threads, one = chip(f"{chosen.machine}#this"), chip(f"{chosen.machine}#this-core")
    hits: dict[str, list[tuple[bool, bool, bool]]] = {}
    for dtype in BYTES:
        for threads in (1, measured.conditions.cores):
            for family, line in grid(dtype):
                if chosen.only not in family:
                    continue
                roof = one if threads == 1 else all_threads
                [point] = run(line, on=roof, measured=measured, one_thread=one, threads=threads)
                told = point.explained or 0.0
                near, bare = (1 / FACTOR <= share <= FACTOR for share in (told, point.fraction))
                clean = point.summary is not None and point.summary.clean >= 0.5
                hits.setdefault(family, []).append((near, bare, clean))
                if chosen.verbose:
                    parts = ", ".join(f"{e.name} {e.seconds / point.run.seconds:.0%}" for e in point.effects)
                    mark = "" if clean else " contended"
                    print(
                        f"{threads} {line:58} {point.run.seconds * 1e6:10.1f} us {told:5.2f} {parts}{mark}", flush=True
                    )
    everything = [hit for listed in hits.values() for hit in listed]
    print(f"{'':14}{'points':>8}{'explained':>11}{'roof alone':>12}{'clean':>8}")
    for family, listed in [*hits.items(), ("all", everything)]:
        shares = [sum(hit[n] for hit in listed) / len(listed) for n in range(3)]
        print(f"{family:14}{len(listed):8}{shares[0]:11.0%}{shares[1]:12.0%}{shares[2]:8.0%}")
    if median(hit[2] for hit in everything) < 1:
        print("most points were taken on a contended machine: run it again when it is quiet")
    return int(sum(hit[0] for hit in everything) < ENOUGH * len(everything))


if __name__ == "__main__":
    sys.exit(main())
