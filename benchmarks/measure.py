"""Hold the measured ceilings of a CPU against likwid-bench and STREAM, side by side in one run.

A ceiling and its peers are taken in turn, several times over. A shared machine changes its state between rounds, so
the ratio is looked at twice: our best round against the peer's best, and the median of the ratios round by round. One
of them must be at least 0.95 (0.9 in the first level); a kernel that is slower is so in both. Matrix tiles are held
against clock times width. Cases that are too low get up to ``--again`` more rounds.

A peer that is not there is said: likwid-bench comes with the Debian package ``likwid``, STREAM's triad is compiled here
and needs ``cc``. Exits with 1 when a ceiling is too low.

``--repeat 10`` measures ten times instead. Of those whose report says uncontended, the quartiles of every ceiling must
lie within 5 % of its median, at one clock; a figure that its report does not confirm does not count. Without two such
runs the figures that contended ones confirm are held against each other, which decides nothing. ``--spin 4`` measures
beside four spinning processes, and alone before and after: every ceiling must stay at least 0.9 of the one alone, and
the report must say that the machine was contended.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import NamedTuple

from roofline.measurement import Measurement, read_machine_file
from roofline.measurement.kernels import clock_kernel, compute_kernels, memory_kernels
from roofline.measurement.levels import quantile, summarise
from roofline.measurement.machine_code import Compiler
from roofline.measurement.probes import Bench, Probe, sample
from roofline.measurement.processor import allow_tiles
from roofline.measurement.threads import ThreadTeam

ENOUGH, ENOUGH_FIRST_LEVEL = 0.95, 0.9

#: How far the quartiles of several runs may lie apart, and what must be left beside spinning processes.
AGREED, LEFT = 0.05, 0.9

#: Bytes of all arrays: for one thread in the first two levels, for all threads in the others.
FIRST, SECOND, THIRD, MAIN = 24 * 2**10, 512 * 2**10, 12 * 2**20, 384 * 2**20

#: Buffers that hold MAIN bytes each; with more cores one thread's main memory is left out.
MOST_BUFFERS = 4

STREAM = """
#include <stdio.h>
#include <stdlib.h>
#include <omp.h>
int main(int argc, char **argv) {
  long n = atol(argv[1]) / 24; double best = 1e30;
  double *a = aligned_alloc(64, n * 8), *b = aligned_alloc(64, n * 8), *c = aligned_alloc(64, n * 8);
  #pragma omp parallel for
  for (long i = 0; i < n; i++) { a[i] = 0; b[i] = 1; c[i] = 2; }
  for (int k = 0; k < 20; k++) {
    double t = omp_get_wtime();
    #pragma omp parallel for
    for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
    t = omp_get_wtime() - t; if (t < best) best = t;
  }
  printf("%f %f\\n", 24.0 * n / best, a[n / 2]);
}
"""


#: Short rounds of ours in one turn, and the seconds they and more of them take at most.
ROUNDS, OWN_SECONDS = 4, 0.4

#: How long a peer runs, at a rate of the middle levels.
PEER_SECONDS, PEER_RATE = 0.2, 60e9


@dataclass(slots=True)
class Case:
    """One ceiling, ours and what to run of the peers; ``found`` keeps what each peer reached, ``ratios`` our share."""

    name: str
    probe: Probe
    enough: float
    peers: dict[str, Callable[[], float]]
    found: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)

    def take(self, clock: Probe) -> None:
        """Take one round of ours, and right after it each peer, so that both meet the same state of the machine."""
        turn = [replace(probe, rounds=[]) for probe in (clock, self.probe)]
        sample(turn, rounds=ROUNDS, windows=15, seconds=OWN_SECONDS)
        hertz, ours = (summarise(probe.rounds) for probe in turn)
        self.probe.rounds += turn[1].rounds
        if hertz is None or ours is None:
            return
        reached = {peer: run() for peer, run in self.peers.items()}
        if self.name.startswith("tile") and self.probe.per_cycle:
            reached["clock x width"] = self.probe.per_cycle * (ours.clock or hertz.value)
        for peer, value in reached.items():
            self.found.setdefault(peer, []).append(value)
            self.ratios.setdefault(peer, []).append(ours.value / value)

    def against(self, peer: str) -> tuple[float, float]:
        """Our best round as a share of the peer's best, and the median share of all rounds."""
        ours = summarise(self.probe.rounds)
        return (0.0 if ours is None else ours.value) / max(self.found[peer]), median(self.ratios[peer])

    @property
    def peer(self) -> str:
        """The peer that ours falls furthest behind; empty without any."""
        return min(self.ratios, key=lambda peer: max(self.against(peer)), default="")

    @property
    def low(self) -> bool:
        """Whether ours falls too far behind a peer."""
        return bool(self.peer) and max(self.against(self.peer)) < self.enough

    def show(self) -> None:
        """Print our best round with its quartiles, the peer's best, and both ratios."""
        found = summarise(self.probe.rounds)
        if found is None:
            return
        against = ""
        if self.peer:
            best, (of_bests, by_round) = max(self.found[self.peer]) / 1e9, self.against(self.peer)
            against = f"{best:10.1f}{of_bests:7.3f}{by_round:10.3f} {'LOW' if self.low else 'ok':4}{self.peer}"
        print(
            f"{self.name:32}{found.value / 1e9:10.1f}{found.low / 1e9:10.1f}{found.high / 1e9:10.1f}"
            f"{found.clean:7.0%}{len(self.probe.rounds):7}{against or f'{chr(32):28}no peer'}"
        )


def likwid(test: str, size: int, threads: int) -> Callable[[], float]:
    """Run a test of likwid-bench: bytes/s, or FLOP/s where it moves nothing to speak of.

    Without a number of iterations it looks for one over several seconds, in which a shared machine changes its state.
    """
    arrays = [f"N:{max(1, size // 1000)}kB:{threads}"]
    passes = max(10, round(PEER_SECONDS * PEER_RATE * threads / size))

    def run() -> float:
        command = ["likwid-bench", "-t", test, "-i", str(passes), "-w", *arrays]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        word = "MFlops/s" if test.startswith("peakflops") else "MByte/s"
        return float(re.search(rf"^{word}:\s+([\d.]+)", text, re.M)[1]) * 1e6  # type: ignore[index]

    return run


def compiled_stream(folder: Path) -> Path | None:
    """Compile STREAM's triad, None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    (folder / "stream.c").write_text(STREAM, encoding="ascii")
    options = ["-O3", "-march=native", "-fopenmp", "-ffast-math"]
    done = subprocess.run([compiler, *options, "stream.c", "-o", "stream"], cwd=folder, capture_output=True)
    return folder / "stream" if done.returncode == 0 else None


def stream(program: Path, size: int, threads: int) -> Callable[[], float]:
    """Run STREAM's triad, the best of its twenty passes, in bytes/s."""
    environment = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}

    def run() -> float:
        done = subprocess.run([program, str(size)], env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0])

    return run


def tests_of_likwid() -> set[str]:
    """List the tests likwid-bench has; none where it is not installed."""
    if shutil.which("likwid-bench") is None:
        return set()
    done = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True)
    return {line.split()[0] for line in done.stdout.splitlines() if " - " in line}


def cases(bench: Bench, program: Path | None) -> list[Case]:
    """Pair our kernels with the peers' for every level and number of threads."""
    known = tests_of_likwid()
    wide = f"avx{'512' if bench.compiler.processor.vector_bits == 512 else ''}"
    streams = {kernel.name: kernel for kernel in memory_kernels(bench.compiler.processor.vector_bits)}
    computing = compute_kernels(bench.compiler.processor)
    if not allow_tiles():
        print("matrix tiles are not here: the system does not let this process use them")
        computing = tuple(kernel for kernel in computing if not kernel.amx)
    found = []
    for threads in sorted({1, len(bench.team.cores)}):
        for kernel in computing:
            tests = {"fp32": f"peakflops_sp_{wide}_fma", "fp64": f"peakflops_{wide}_fma"}
            test = tests.get(kernel.dtype, "")
            peers = {f"likwid {test}": likwid(test, 32_000 * threads, threads)} if test in known else {}
            found.append(Case(f"{kernel.name}, {threads} thr", bench.registers(kernel, threads), ENOUGH, peers))
        for level, size in (("L1", FIRST * threads), ("L2", SECOND * threads), ("L3", THIRD), ("main", MAIN)):
            for name, tests in (
                ("load", (f"load_{wide}",)),
                ("copy", (f"copy_{wide}",)),
                ("triad", (f"stream_{wide}_fma", f"stream_sp_{wide}_fma")),
                ("non-temporal triad", (f"stream_mem_{wide}", "stream_mem_avx_fma")),
            ):
                if (name == "non-temporal triad") != (level == "main") and name == "non-temporal triad":
                    continue
                probe = bench.memory(streams[name], threads, size)
                if probe is None:
                    continue
                peers = {f"likwid {test}": likwid(test, size, threads) for test in tests if test in known}
                if program is not None and name == "triad" and level == "main":
                    peers["STREAM triad"] = stream(program, size, threads)
                enough = ENOUGH_FIRST_LEVEL if level == "L1" else ENOUGH
                found.append(Case(f"{name} {level}, {threads} thr", probe, enough, peers))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Take all cases in turn, print them side by side; return 1 where one is too low."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--again", type=int, default=6, help="more rounds of the cases that are too low")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--repeat", type=int, metavar="N", help="measure N times, and hold the runs against each other")
    parser.add_argument("--spin", type=int, metavar="N", help="measure alone and beside N spinning processes")
    parser.add_argument("--quick", action="store_true", help="quick measurements, for --repeat and --spin")
    chosen = parser.parse_args(arguments)
    if chosen.repeat:
        return repeated(chosen.repeat, chosen.quick)
    if chosen.spin:
        return beside(chosen.spin, chosen.quick)
    compiler = Compiler()
    if not tests_of_likwid():
        print("likwid-bench is not here: apt-get install likwid")
    with tempfile.TemporaryDirectory() as folder, ThreadTeam(compiler.processor.cores) as team:
        program = compiled_stream(Path(folder))
        if program is None:
            print("STREAM is not here: it needs a C compiler (cc) with OpenMP")
        bench = Bench(team, compiler, min(len(team.cores), MOST_BUFFERS) * (MAIN + 2**24))
        clock = bench.registers(clock_kernel(), 1)
        listed = [case for case in cases(bench, program) if chosen.only in case.name]
        with contextlib.suppress(KeyboardInterrupt):
            for _ in range(chosen.rounds):
                for case in listed:
                    case.take(clock)
            for _ in range(chosen.again):
                for case in listed:
                    if case.low:
                        case.take(clock)
        bench.close()
    print(f"{'':32}{'ours':>10}{'quartiles':>20}{'clean':>7}{'rounds':>7}{'peer':>10}{'bests':>7}{'by round':>10}")
    for case in listed:
        case.show()
    low = sum(case.low for case in listed)
    print(f"\nin GFLOP/s or GB/s; {low or 'no'} ceiling{'s' * (low != 1)} too low")
    return int(low > 0)


def measured(quick: bool) -> Measurement:
    """Measure in a process of its own, as a user does; say how long it took, how clean it was, what memory it used."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "this.toml"
        command = [sys.executable, "-m", "roofline", "measure", "-o", str(file), *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, capture_output=True)
        found = read_machine_file(file)
    reasons = [warning for warning in found.warnings() if warning.startswith("contended")]
    said = "; ".join(reasons) or "uncontended"
    memory = getrusage(RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"{found.conditions.seconds:5.1f} s, {found.clean:4.0%} clean, {said}; at most {memory / 2**30:.2f} GiB",
        flush=True,
    )
    return found


class Figure(NamedTuple):
    """A ceiling or level of one run: whether smaller is better, at which clock, whether its report confirms it."""

    value: float
    smaller: bool
    clock: float
    confirmed: bool

    @property
    def per_cycle(self) -> float:
        """The value at a clock of one."""
        return self.value * self.clock if self.smaller else self.value / self.clock


def figures(found: Measurement) -> dict[str, Figure]:
    """Every ceiling and level by name; a level is confirmed where most working sets in it are."""
    usual = found.value("clock") or 1.0
    named = {
        f"{c.label}, {c.threads} thr": Figure(c.value, c.unit == "s", c.summary.clock or usual, c.summary.confirmed)
        for c in found.ceilings
    }
    for threads in found.thread_counts():
        inner = 0.0
        for level in found.levels(threads):
            outer = level.capacity or math.inf
            curves = [curve for curve in found.curves if curve.threads == threads]
            inside = [one.confirmed for curve in curves for size, one in curve.points if inner < size <= outer]
            sure = sum(inside) > len(inside) / 2
            named[f"{level.name}, {threads} thr"] = Figure(level.bandwidth, False, usual, sure)
            inner = outer
    return named


def repeated(times: int, quick: bool) -> int:
    """Measure several times; print how far the uncontended runs agree; return 1 where they do not.

    Without two uncontended runs all are held against each other, which decides nothing.
    """
    every = [measured(quick) for _ in range(times)]
    kept = [found for found in every if not found.contended]
    print(f"{len(kept)} of {times} runs say uncontended")
    apart = agreement([figures(found) for found in (kept if len(kept) > 1 else every)])
    return int(len(kept) > 1 and apart > 0)


def agreement(runs: Sequence[dict[str, Figure]]) -> int:
    """Print how far runs agree on every figure that at least two confirm, and return how many lie apart.

    A cloud's host changes the clock from minute to minute. What a core does goes with it, what memory does hardly: a
    figure lies apart where it does so both as it is and per cycle of its own clock.
    """
    apart, spreads, lone = 0, [], 0
    print(f"{'':40}{'median':>12}{'runs':>6}{'as it is':>10}{'a cycle':>10}")
    for name in runs[0]:
        found = [run[name] for run in runs if name in run and run[name].confirmed]
        if len(found) < 2:
            lone += 1
            print(f"{name:40}{runs[0][name].value:12.4g}{len(found):6}")
            continue
        both = [spread_of([figure.value for figure in found]), spread_of([figure.per_cycle for figure in found])]
        apart += min(both) > AGREED
        spreads.append(min(both))
        word = " APART" if min(both) > AGREED else ""
        print(f"{name:40}{median(f.value for f in found):12.4g}{len(found):6}{both[0]:10.1%}{both[1]:10.1%}{word}")
    some = f"{apart or 'no'} of {len(spreads)} figures"
    within = f"; half of all lie within {median(spreads):.1%}" if spreads else ""
    print(f"{some} have quartiles more than {AGREED:.0%} apart{within}; {lone} were not confirmed twice")
    return apart


def spread_of(values: Sequence[float]) -> float:
    """Distance of the quartiles as a share of the median."""
    return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)


def beside(spinning: int, quick: bool) -> int:
    """Measure beside processes that only spin, alone before and after; print what is left; return 1 where too little.

    A machine whose host is busy changes by itself: what is left is held against the lesser of the two alone, and the
    figures that these two have further apart than that are counted.
    """
    first = figures(measured(quick))
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(spinning)]
    try:
        found = measured(quick)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    second = figures(measured(quick))
    low = drifted = 0
    for name, (value, smaller, *_) in figures(found).items():
        alone = [run[name].value for run in (first, second) if name in run] or [value]
        quiet = max(alone) if smaller else min(alone)
        drifted += min(alone) < LEFT * max(alone)
        left = quiet / value if smaller else value / quiet
        low += left < LEFT
        print(f"{name:40}{quiet:12.4g}{value:12.4g}{left:7.2f}{' LOW' if left < LEFT else ''}")
    said = f"{'' if found.contended else 'NOT '}said to be contended"
    print(f"{low or 'no'} ceiling{'s' * (low != 1)} too low; {said}; {drifted} changed by more between the runs alone")
    return int(low > 0 or not found.contended)


if __name__ == "__main__":
    sys.exit(main())
