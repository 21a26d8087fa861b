"""Hold the measured ceilings of a CPU against likwid-bench and STREAM, side by side in one run.

A ceiling and its peers are taken in turn, several times over, and the best of each is compared: a ceiling must be at
least 0.95 of the best peer (0.9 in the first level). Matrix tiles are held against clock times width.
A peer that is not there is said: likwid-bench comes with the Debian package ``likwid``, STREAM's triad is compiled here
and needs ``cc``. Exits with 1 when a ceiling is too low.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roofline.measurement.compute_kernels import clock_kernel, compute_kernels
from roofline.measurement.machine_code import Compiler
from roofline.measurement.memory_kernels import memory_kernels
from roofline.measurement.probes import Bench, Probe
from roofline.measurement.samples import summarise
from roofline.measurement.schedule import sample
from roofline.measurement.team import Team
from roofline.measurement.tiles import allow_tiles

ENOUGH, ENOUGH_FIRST_LEVEL = 0.95, 0.9

#: Bytes of all arrays: for one thread in the first two levels, for all threads in the others.
FIRST, SECOND, THIRD, MAIN = 24 * 2**10, 512 * 2**10, 12 * 2**20, 384 * 2**20

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


@dataclass(slots=True)
class Case:
    """One ceiling, ours and what to run of the peers; ``found`` keeps the best of each peer."""

    name: str
    probe: Probe
    enough: float
    peers: dict[str, Callable[[], float]]
    found: dict[str, float] = field(default_factory=dict)


def likwid(test: str, size: int, threads: int) -> Callable[[], float]:
    """Run a test of likwid-bench: bytes/s, or FLOP/s where it moves nothing to speak of."""

    def run() -> float:
        command = ["likwid-bench", "-t", test, "-s", "1", "-w", f"N:{max(1, size // 1000)}kB:{threads}"]
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    chosen = parser.parse_args(arguments)
    compiler = Compiler()
    if not tests_of_likwid():
        print("likwid-bench is not here: apt-get install likwid")
    with tempfile.TemporaryDirectory() as folder, Team(compiler.processor.cores) as team:
        program = compiled_stream(Path(folder))
        if program is None:
            print("STREAM is not here: it needs a C compiler (cc) with OpenMP")
        bench = Bench(team, compiler, MAIN + 2**24 * len(team.cores))
        clock = bench.registers(clock_kernel(), 1)
        listed = [case for case in cases(bench, program) if chosen.only in case.name]
        print(f"{'':32}{'ours':>10}{'quartiles':>20}{'clean':>7}{'peer':>10}{'ratio':>7}")
        low = sum(compared(case, clock, chosen.rounds) for case in listed)
        bench.close()
    print(f"\nin GFLOP/s or GB/s; {low or 'no'} ceiling{'s' * (low != 1)} too low")
    return int(low > 0)


def compared(case: Case, clock: Probe, rounds: int) -> bool:
    """Take a case and its peers in turn, print ours, its quartiles, the best peer, the ratio; say whether it is low."""
    for _ in range(rounds):
        sample([clock, case.probe], rounds=1, windows=15, seconds=2.0)
        for peer, run in case.peers.items():
            case.found[peer] = max(case.found.get(peer, 0.0), run())
    hertz, found = summarise(clock.rounds[-rounds:]), summarise(case.probe.rounds)
    if found is None:
        return False
    peer, best = max(case.found.items(), key=lambda item: item[1], default=("no peer", 0.0))
    if case.name.startswith("tile") and hertz and case.probe.per_cycle:
        peer, best = f"{hertz.value / 1e9:.2f} GHz x width", case.probe.per_cycle * hertz.value
    ratio = f"{found.value / best:7.3f}" if best else "       "
    low = bool(best) and found.value < case.enough * best
    word = "" if not best else "LOW" if low else "ok"
    print(
        f"{case.name:32}{found.value / 1e9:10.1f}{found.low / 1e9:10.1f}{found.high / 1e9:10.1f}{found.clean:7.0%}"
        f"{best / 1e9:10.1f}{ratio} {word:4}{peer}",
        flush=True,
    )
    return low


if __name__ == "__main__":
    sys.exit(main())
