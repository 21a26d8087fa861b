"""Timing operations here: a line of notation (or a function of one's own) → points under this machine's roof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

from roofline import dtypes
from roofline.bounds.api import question
from roofline.bounds.case import Case
from roofline.bounds.question import names_in
from roofline.errors import InputError, SizeError
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, with_choices
from roofline.measurement.effects import RunSetting, effects, has_roof, threads_used
from roofline.measurement.executors import Library, any_library, executor, result_format
from roofline.measurement.machine_file import MeasuredMachine, this_machine
from roofline.measurement.points import MeasuredPoint, MeasuredPoints, points_of
from roofline.measurement.probes import Probe, sample, timed
from roofline.measurement.processor import raised_priority
from roofline.measurement.result import Measurement
from roofline.measurement.runs import Measured, read_measured
from roofline.measurement.samples import Sample, SampleSummary, summarise
from roofline.notation import program
from roofline.notation.canonical import step_text
from roofline.notation.structure import Step
from roofline.sizes import is_symbol
from roofline.work import Op

#: Rounds, windows (or runs with cold caches) in a round, and seconds for one operation.
ROUNDS, WINDOWS, SECONDS = 3, 15, 4.0

#: A call this long is not repeated to count the pages it touches.
LONG = 0.05

#: Seconds of calls before the first window, in which sleeping units wake up.
WARM_UP = 0.05

#: Bytes written between two runs with cold caches, where no measurement says how much the caches hold.
FLUSH = 128 * 2**20


@raised_priority()
def run(
    *expressions: str,
    at: MeasuredMachine | None = None,
    sizes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    cold: bool = False,
    library: Library | None = None,
    progress: Callable[[str], None] | None = None,
    **more_sizes: Any,
) -> MeasuredPoints:
    """Time every operation of some lines here, and put it under the roof of this machine as it was measured.

    ``at`` is that machine (:func:`~roofline.measurement.machine_file.this_machine`), by default the one ``--on this``
    reads. ``cold`` empties the caches before every run. Sizes come by name too (``M=64``); one without a value is an
    error, as is a machine nobody has measured.
    """
    measured, on, one_thread = at or this_machine(threads=threads)
    sizes = {**(sizes or {}), **more_sizes}
    chosen = library or any_library()
    cores = measured.conditions.cores
    count = cores if threads is None else threads
    if not 1 <= count <= cores:
        wrong = f"{count} threads have no roof: this machine was measured on {cores}"
        raise InputError(wrong, hint=f"from 1 to {cores}")
    flush = _flusher(chosen, measured) if cold else None
    points = []
    try:
        for line in expressions:
            asked = question(line, on=on, sizes=_own_sizes(line, expressions, sizes))
            ops = asked.ops()
            _check_numbers(ops)
            parsed = program(line)
            for step, unnamed in zip(parsed.steps, ops, strict=True):
                op = replace(unnamed, name=step_text(step, parsed.sizes, asked.sizes))
                if progress is not None:
                    progress(op.name)
                roof = on if threads_used(op, count) > 1 else one_thread
                setting, summary = time_step(chosen, step, op, count, flush)
                how = f"{setting}, {chosen.name}"
                if not has_roof(measured, threads_used(op, count)):
                    how += f", under the roof of {cores} threads: nothing was measured on {count}"
                points.append(point_of(op, roof, measured, setting, summary, how))
    finally:
        chosen.free()
    return MeasuredPoints(points, on)


def time_step(
    library: Library,
    step: Step,
    op: Op,
    threads: int,
    flush: Callable[[], Any] | None = None,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> tuple[RunSetting, SampleSummary]:
    """Time one operation, its output allocated by every call; say how it was run. ``flush`` empties the caches.

    ``rounds`` of windows are taken in about so many ``seconds``.
    """
    library.set_threads(threads)
    call = executor(library, step, op)
    try:
        given = result_format(library, call())
        summary = time_call(call, threads=threads_used(op, threads), flush=flush, rounds=rounds, seconds=seconds)
    except (MemoryError, RuntimeError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0] or "no memory is left"
        raise InputError(f"{library.name} cannot run {step.text or step.function} here: {reason}") from None
    touched = new_page_bytes(call, 3 if summary.value < LONG else 1)
    setting = RunSetting(
        threads=threads,
        warm=flush is None,
        reordered=True,
        new_bytes=touched,
        function=step.function,
        result="" if not op.writes or given == dtypes.get(op.writes[0].dtype).name else given,
    )
    return setting, summary


def run_function(
    call: Callable[[], Any],
    *,
    on: Machine | str,
    flops: float | str,
    bytes: float | str,
    dtype: str = "fp32",
    name: str = "",
    threads: int = 1,
    cold: bool = False,
) -> MeasuredPoint:
    """Time a function of one's own whose FLOPs and bytes are stated, and put it under a roof.

    Amounts may carry units, and ``on`` may be a chip's name. Wrong ones are an error before anything is timed. Unless
    ``cold``, the data is in whichever memory level holds so many bytes, as in :func:`run`.
    """
    machine = on if isinstance(on, Machine) else chip(on)
    machine = machine if cold or machine.over is not None else with_choices(machine, over=WARM)
    named = name or getattr(call, "__name__", "function")
    [stated] = read_measured([(named, flops, bytes, 1.0, dtype)])
    points_of([stated], machine)
    held = [level.capacity.value for level in machine.memories[1:] if level.capacity is not None and not level.link]
    space = flush_bytes(held)
    summary = time_call(call, threads=threads, flush=(lambda: bytearray(space)) if cold else None)
    [point] = points_of([replace(stated, seconds=summary.value)], machine)
    return MeasuredPoint(point.run, point.bound, (), f"{'cold' if cold else 'warm'} caches", "", summary)


def point_of(
    op: Op, machine: Machine, measured: Measurement, setting: RunSetting, summary: SampleSummary, how: str
) -> MeasuredPoint:
    """Make the point of one timed operation: its bound cold or warm, and what explains its time.

    Its result is in the format that the library gave, which is what was written.
    """
    if setting.result:
        op = replace(op, writes=(replace(op.writes[0], dtype=setting.result), *op.writes[1:]))
    roof = with_choices(machine, over=WARM if setting.warm else "main")
    case = Case([op], roof, name=op.name)
    [moved], answer = case.loads(), case.answer()
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), op.writes[0].dtype if op.writes else "")
    loaded = float(sum(amount for _, amount in moved.items()))
    timed_run = Measured(op.name.partition(" -> ")[0], float(answer.flops), loaded, summary.value, dtype)
    return MeasuredPoint(timed_run, answer, effects(op, moved, roof, measured, setting), how, op.kind, summary)


def time_call(
    call: Callable[[], Any],
    *,
    threads: int = 1,
    flush: Callable[[], Any] | None = None,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> SampleSummary:
    """Time a call by the statistics of :mod:`roofline.measurement.samples`; ``flush`` runs before every single one."""
    if flush is None:
        _warm_up(call)
        probe = timed("", "", call, threads=threads)
    else:
        call()
        due = seconds / max(rounds, 1)
        probe = Probe("", "s", "", threads, lambda windows: _cold_round(call, flush, windows, due))
    if not sample([probe], rounds=rounds, windows=WINDOWS, seconds=seconds):
        raise KeyboardInterrupt
    found = summarise(probe.rounds, smaller_is_better=True)
    if found is None:
        raise InputError("nothing was timed", hint="give at least one round")
    return found


def _warm_up(call: Callable[[], Any]) -> None:
    """Call until clocks, caches and the library's internal state have settled."""
    end = perf_counter() + WARM_UP
    call()
    while perf_counter() < end:
        call()


def new_page_bytes(call: Callable[[], Any], times: int = 3) -> float:
    """Count the bytes of new pages one call touches: the system's page faults during some calls, the least of them."""
    from resource import RUSAGE_SELF, getpagesize, getrusage

    found = []
    for _ in range(times):
        before = getrusage(RUSAGE_SELF).ru_minflt
        call()
        found.append(getrusage(RUSAGE_SELF).ru_minflt - before)
    return float(min(found) * getpagesize())


def _cold_round(call: Callable[[], Any], flush: Callable[[], Any], windows: int, seconds: float) -> list[Sample]:
    """Take some runs with cold caches, one at least, in about so many seconds."""
    end = perf_counter() + seconds
    found = [_cold(call, flush)]
    while len(found) < windows and perf_counter() < end:
        found.append(_cold(call, flush))
    return found


def _cold(call: Callable[[], Any], flush: Callable[[], Any]) -> Sample:
    from resource import RUSAGE_SELF, getrusage

    flush()
    switches, cpu, start = getrusage(RUSAGE_SELF).ru_nivcsw, process_time(), perf_counter()
    call()
    wall = perf_counter() - start
    taken = getrusage(RUSAGE_SELF).ru_nivcsw > switches
    return Sample(wall, (min((process_time() - cpu) / wall, 0.9) if taken else 1.0,))


def _flusher(library: Library, measured: Measurement) -> Callable[[], Any]:
    """Make a call that empties the caches of operands: it writes four times what they hold."""
    threads = max(measured.thread_counts(), default=1)
    held = [level.capacity for level in measured.levels(threads) if level.capacity]
    space = library.make([flush_bytes(held) // 4], "fp32")
    return lambda: space.__iadd__(1)


def flush_bytes(held: Sequence[float]) -> int:
    """The bytes to write so that nothing stays in caches of these sizes.

    >>> flush_bytes([32e3, 136e6]), flush_bytes([]) == FLUSH
    (544000000, True)
    """
    return int(max(4 * max(held, default=0.0), FLUSH))


def _own_sizes(line: str, lines: Sequence[str], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of one line: without those of other lines only, unless a formula of a kept size names them."""
    own = program(line).labels
    elsewhere = {label for other in lines for label in program(other).labels} - set(own)
    used = names_in({name: value for name, value in sizes.items() if name not in elsewhere})
    return {name: value for name, value in sizes.items() if name not in elsewhere or name in used}


def _check_numbers(ops: Sequence[Op]) -> None:
    for op in ops:
        for tensor in op.reads:
            for size in tensor.dims:
                if is_symbol(size):
                    raise SizeError(f"size {size} has no value", hint=f"running needs numbers, as in {size}=64")
                if hasattr(size, "__len__"):
                    raise SizeError("an operation is run at one size", hint="give each size one value")
