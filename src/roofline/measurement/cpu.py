"""Measuring a CPU: which probes, over which sizes, and what comes out of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from time import monotonic

from roofline.answers import capability
from roofline.errors import InputError
from roofline.measurement.kernels import (
    Kernel,
    clock_kernel,
    compute_kernels,
    exp_kernel,
    memory_kernels,
    new_page_kernel,
)
from roofline.measurement.library import library_probes
from roofline.measurement.machine_code import Compiler
from roofline.measurement.probes import LATEST, USUAL, Bench, Probe, Progress, collect, sample
from roofline.measurement.processor import (
    OtherLoad,
    allow_tiles,
    core_quota,
    data_caches,
    load_average,
    one_thread_a_core,
    raised_priority,
    usable_threads,
)
from roofline.measurement.result import Conditions, Measurement
from roofline.measurement.threads import LibraryThreads, ThreadTeam, core_watch
from roofline.signatures import spelled, takes

#: Bytes of all arrays together, in full and quick; rounds, windows of each probe a round, and seconds for all of it.
MEMORY, QUICK_MEMORY = 768 * 2**20, 384 * 2**20
ROUNDS, WINDOWS, SECONDS, QUICK_SECONDS = 3, 15, USUAL, 6.0

#: Seconds from the start by which sampling ends, and the least share of its time that it gets: on a busy machine the
#: preparation takes a quarter of a minute. Starting Python and writing the file come on top.
LIMIT, QUICK_LIMIT, LEAST_SHARE = 56.0, 8.8, 0.5

#: The most seconds of sampling that may be asked for: samples of all rounds are kept.
LONGEST = 3600.0

#: Bytes of the smallest working set of one thread, and of the new pages that one thread writes in a window. The latter
#: are as many as a block that an allocator hands back each time; few pages may still lie in a cache.
SMALLEST, FRESH = 12 * 2**10, 32 * 2**20


@takes()
def measure(
    *,
    quick: bool = False,
    library: bool = True,
    seconds: float | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Measure the ceilings of this machine's processor; at most 60 seconds, 10 when ``quick``.

    Stopped by Ctrl-C it returns what it has and says so. Needs the extra ``measure`` (llvmlite). ``library`` also
    times PyTorch's (or NumPy's) products. ``seconds`` of sampling in place of the usual confirm more figures on a
    machine that others use; it is over sooner where all are. ``progress`` is called with the share done and what is
    being measured. ``device`` measures an accelerator in its place: ``cuda``, ``cuda:1``, ``jax:0``.
    """
    if device is not None:
        if seconds is not None:
            hint = "an accelerator takes as long as it needs: leave it out"
            raise InputError(f"{spelled('seconds')} is for processors", hint=hint)
        found: Measurement = capability("measured_device")(device, quick=quick, progress=progress)
        return found
    if seconds is not None and not 1 <= seconds <= LONGEST:
        wrong = f"{seconds:g} seconds of sampling are too {'few' if seconds < 1 else 'many'}"
        raise InputError(wrong, hint=f"from 1 to {LONGEST:g}")
    with raised_priority() as ahead:
        return _measure(quick, library, seconds, ahead, progress)


def _measure(quick: bool, library: bool, seconds: float | None, ahead: bool, progress: Progress | None) -> Measurement:
    start = monotonic()
    allowed = usable_threads()
    compiler = Compiler()
    processor = compiler.processor
    missing: list[str] = []
    given = core_quota()
    if given is not None and given < len(one_thread_a_core(allowed)):
        missing.append(f"more cores: this process is given the time of {given:g} of them (a quota)")
    with ThreadTeam(processor.cores) as team:
        counts = tuple(sorted({1, len(processor.cores)}))
        core_watch()
        workers = LibraryThreads(processor.cores)
        caches = data_caches()
        bench = Bench(team, compiler, QUICK_MEMORY if quick else MEMORY, max(caches.values(), default=0.0))
        try:
            probes = list(_probes(bench, counts, missing, quick))
            if library:
                found, lacking = library_probes(counts, workers, quick)
                probes += found
                missing += lacking
            usual, limit = (QUICK_SECONDS, QUICK_LIMIT) if quick else (SECONDS, LIMIT)
            left = seconds or _left(usual, limit, monotonic() - start)
            used_before = OtherLoad(allowed)
            finished = sample(probes, rounds=ROUNDS, windows=WINDOWS, seconds=left, progress=progress)
            used = used_before.used()
        finally:
            workers.free()
            bench.close()
        conditions = Conditions(
            processor=processor.name,
            date=date.today().isoformat(),
            cores=len(processor.cores),
            seconds=round(monotonic() - start, 1),
            quick=quick,
            interrupted=not finished,
            load=load_average(),
            pinned=team.pinned,
            missing=tuple(missing),
            caches=len(caches) or None,
            largest_cache=max(caches.values(), default=0.0) or None,
            others=used,
            ahead=ahead,
        )
    return collect(probes, conditions)


def _left(seconds: float, limit: float, gone: float) -> float:
    """Seconds left for sampling when some have gone by: even a late first round has to end by the limit.

    >>> _left(48.0, 57.0, 2.0), round(_left(48.0, 57.0, 24.0), 6), _left(48.0, 57.0, 80.0)
    (48.0, 30.0, 24.0)
    """
    return min(seconds, max((limit - gone) / LATEST, LEAST_SHARE * seconds))


def _probes(bench: Bench, counts: Sequence[int], missing: list[str], quick: bool) -> Sequence[Probe]:
    """List the probes, the most important first: after Ctrl-C those are there."""
    processor = bench.compiler.processor
    found = [bench.registers(clock_kernel(), 1)]
    found += [bench.registers(k, n) for k in _computing(bench, missing) for n in counts]
    streams = memory_kernels(processor.vector_bits)
    streams = (streams[0], streams[3]) if quick else streams
    exp = exp_kernel(processor.vector_bits)
    for count in counts:
        at_least = bench.memory(exp, count, count * 2.0 * SMALLEST, curve=False)
        found += [*filter(None, [at_least]), bench.fresh(new_page_kernel(), count, FRESH)]
    for count in counts:
        for size in working_sets(count, bench.room(count), quick):
            found += filter(None, [bench.memory(kernel, count, size) for kernel in streams])
    return found


def _computing(bench: Bench, missing: list[str]) -> list[Kernel]:
    kernels = compute_kernels(bench.compiler.processor)
    if any(kernel.amx for kernel in kernels) and not allow_tiles():
        missing.append("matrix tiles: the system does not let this process use them")
        return [kernel for kernel in kernels if not kernel.amx]
    return list(kernels)


def working_sets(threads: int, room: int, quick: bool = False) -> list[float]:
    """List the working sets of a curve: from the smallest to all the room, two an octave, one when quick.

    >>> [int(size) >> 10 for size in working_sets(1, 200 * 2**10, quick=True)]
    [12, 24, 48, 96, 192]
    """
    step = 2.0 if quick else 2**0.5
    found, size = [], float(SMALLEST * threads)
    while size <= room * threads:
        found.append(size)
        size *= step
    return found
