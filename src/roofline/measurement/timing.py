"""Operations timed here, a line of notation or a function of one's own, → points under this machine's roof.

Named effects explain the time beyond the roof. Their sizes were measured; none is fitted to the run.

The roof's own parts come first (arithmetic at the library's rate, data from the level it lies in; the longer one
counts), then what no roof has: the cost of calling, what a library loses at a shape, first touches of new pages.
Threads that a library leaves idle change the roof itself. Vector work has the library's own rate of that function.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any

from roofline import dtypes
from roofline.answers import estimable
from roofline.bounds.api import question
from roofline.bounds.case import Case
from roofline.bounds.question import names_in
from roofline.errors import InputError, SizeError
from roofline.frozen import dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, rate, value_on_curve, with_choices
from roofline.measurement.executors import Library, any_library, executor, result_format
from roofline.measurement.levels import Sample, SampleSummary, summarise
from roofline.measurement.library import GRAIN
from roofline.measurement.machine_file import MeasuredMachine, this_machine
from roofline.measurement.points import Effect, MeasuredPoint, MeasuredPoints, points_of
from roofline.measurement.probes import Probe, sample, timed
from roofline.measurement.processor import raised_priority
from roofline.measurement.result import Measurement, ShapeTable, threads_text
from roofline.measurement.runs import Measured, read_measured
from roofline.notation import program
from roofline.notation.canonical import step_text
from roofline.notation.structure import Step
from roofline.progress import counted, stopped
from roofline.signatures import takes
from roofline.sizes import is_symbol
from roofline.work import Key, Op, Work

#: Kinds of operations that a library runs as matrix products, and the name of their table of rates over shapes.
SHAPED = {"contraction": "library", "convolution": "library convolution"}

#: Block sizes of PyTorch's attention on a CPU: of queries, by the least number of queries for each size, and of keys
#: (q_split_size and kv_split_size of cpu_flash_attention).
QUERY_BLOCKS, KEY_BLOCK = ((768, 256), (192, 64), (0, 32)), 512


@dataclass(frozen=True, slots=True)
class RunSetting:
    """How an operation was run: threads, caches, output allocated anew or reused, weights reordered at each call.

    ``function`` is its name in the notation, ``result`` the format of what the library gave where the line has another.
    ``new_bytes`` counts what one call touched of pages the system had to make, by the system's own count of faults.
    """

    threads: int = 1
    warm: bool = True
    new_output: bool = True
    reordered: bool = False
    new_bytes: float = 0.0
    function: str = ""
    result: str = ""

    def __str__(self) -> str:
        words = [
            "warm caches" if self.warm else "cold caches",
            threads_text(self.threads),
            "output allocated" if self.new_output else "output reused",
        ]
        if self.result:
            words.append(f"result in {self.result}")
        return ", ".join([*words, "weights packed at each call of a product"] if self.reordered else words)


def effects(op: Op, moved: Work, machine: Machine, measured: Measurement, setting: RunSetting) -> tuple[Effect, ...]:
    """Explain the time of an operation; ``machine`` is the measured one with the threads that can take part.

    ::

        time ≈ max(arithmetic at the library's rate, bytes at their level) + call + what the shape loses + new pages

    Of a number of threads on which nothing was measured nothing is explained.
    """
    threads = threads_used(op, setting.threads)
    if not has_roof(measured, threads):
        return ()
    data = _data(op, moved, machine)
    table = _table(op, measured, threads)
    if table is not None:
        found = _shaped(op, table, data, _order(op, measured, threads, setting))
    elif op.kind == "attention":
        found = _attention(op, machine, measured, threads, data)
    else:
        found = _plain(op, machine, measured, threads, data, setting.function)
    kept = [effect for effect in found if effect.seconds > 0]
    fresh = measured.value("fresh pages", threads) or measured.value("fresh pages")
    if setting.new_bytes and fresh is not None:
        kept.append(Effect("new pages", setting.new_bytes / fresh, "first touch of pages the system makes"))
    return tuple(kept)


def threads_used(op: Op, threads: int) -> int:
    """How many threads a library gives an operation: elementwise work on few elements stays on one.

    >>> threads_used(Op("add", "elementwise", dims={"elements": 1000}), 8)
    1
    """
    elements = op.dims.get("elements")
    return 1 if isinstance(elements, int | float) and elements < GRAIN else threads


def has_roof(measured: Measurement, threads: int) -> bool:
    """Whether figures were taken on so many threads. They are taken on one and on all."""
    counts = measured.thread_counts()
    return not counts or threads in counts


def _shaped(op: Op, table: ShapeTable, data: float, order: float) -> Iterator[Effect]:
    """Products and convolutions: the roof, then what the library needs beyond it at such a shape, the call included."""
    rows, side, batch = _shape(op)
    arithmetic = batch * 2 * rows * side**2 / table.best
    took = batch * table.seconds(rows, side)
    if arithmetic >= data:
        yield Effect("arithmetic", min(arithmetic, took), f"at the library's own best product in {table.dtype}")
    else:
        yield Effect("data", min(data, took), "at the best bandwidth of its level")
    rest = max(0.0, took - max(arithmetic, data))
    yield Effect("order", min(order, rest), "weights read and written in the library's own order")
    yield Effect("shape", max(0.0, rest - order), "what small and flat products lose, as measured at such shapes")


def _order(op: Op, measured: Measurement, threads: int, setting: RunSetting) -> float:
    """Time to read and write the weights once, where a call puts them in order."""
    weights = sum(float(tensor.capacity_bytes) for tensor in op.reads if tensor.role == "weight")
    if not weights or not setting.reordered or op.dims.get("m") == 1:
        return 0.0
    curves = [curve for curve in measured.curves if curve.threads == threads and curve.name in ("copy", "load")]
    return 2 * weights / min((value_on_curve(curve.values(), 2 * weights) for curve in curves), default=math.inf)


def _table(op: Op, measured: Measurement, threads: int) -> ShapeTable | None:
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    table = measured.shape_table(SHAPED.get(op.kind, ""), dtype, threads)
    return table if table is not None and all(isinstance(op.dims.get(size), int) for size in "mnk") else None


def _shape(op: Op) -> tuple[float, float, float]:
    """Rows, the side of the matrix they meet, and how many such products there are."""
    m, n, k, batch = (float(op.dims.get(size, 1)) for size in ("m", "n", "k", "batch"))
    return m, math.sqrt(n * k), batch


def _attention(op: Op, machine: Machine, measured: Measurement, threads: int, data: float) -> Iterator[Effect]:
    """Attention in blocks: both products of each block, called within the kernel, and the softmax of its scores."""
    matrix = float(op.work.total("flops", "matrix"))
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    table = measured.shape_table("library", dtype, 1)
    softmax = measured.best_ceiling("library softmax", threads, "fp32")
    if table is None or softmax is None:
        yield from _plain(op, machine, measured, threads, data, "")
        return
    rows, side = _block(op)
    within = max(table.seconds(rows, side) - table.call, 2 * rows * side**2 / table.best)
    products = matrix * within / (2 * rows * side**2) / threads
    arithmetic = matrix / table.best / threads
    scores = float(op.dims["transcendentals"]) / softmax.value
    if max(arithmetic, products) + scores >= data:
        yield Effect("arithmetic", arithmetic, f"at the library's own best product in {dtype}")
        yield Effect("shape", max(0.0, products - arithmetic), f"products of {rows:.0f} rows in blocks")
        yield Effect("softmax", scores, "at the library's own rate in a cache, in fp32")
        cast = None if dtype == "fp32" else measured.best_ceiling("library cast", threads, "fp32")
        if cast is not None:
            yield Effect("cast", float(op.dims["transcendentals"]) / cast.value, f"probabilities written in {dtype}")
    else:
        yield Effect("data", data, "at the best bandwidth of its level")
    yield from _call(measured, "softmax", dtype)


def _block(op: Op) -> tuple[float, float]:
    """Rows of queries in a block, and the side of the matrix of keys they meet."""
    queries, keys, size = (float(op.dims[name]) for name in ("q_length", "kv_length", "head_size"))
    rows = next(block for least, block in QUERY_BLOCKS if queries >= least)
    return min(rows, queries), math.sqrt(min(KEY_BLOCK, keys) * size)


def _plain(
    op: Op, machine: Machine, measured: Measurement, threads: int, data: float, function: str
) -> Iterator[Effect]:
    """Vector work: the library's own rate of the function where it was measured, else arithmetic and exponentials."""
    dtype = op.writes[0].dtype if op.writes else ""
    own = measured.best_ceiling(f"library {function}", threads, dtype) if function else None
    if own is not None:
        parts = [Effect(function, float(op.dims["elements"]) / own.value, f"the library's own rate in {dtype}")]
    else:
        arithmetic, note = _arithmetic(op, machine, measured, threads)
        exponentials = _exponentials(op, measured, threads)
        parts = [
            Effect("arithmetic", arithmetic, note),
            Effect("exponentials", exponentials, "at the library's rate of exp"),
        ]
    if sum(part.seconds for part in parts) >= data:
        yield from parts
    else:
        yield Effect("data", data, "at the best bandwidth of its level")
    yield from _call(measured, function, dtype)


def _call(measured: Measurement, function: str, dtype: str) -> Iterator[Effect]:
    own = measured.value(f"call {function}", dtype=dtype)
    dispatch = own if own is not None else measured.value("dispatch")
    if dispatch is not None:
        yield Effect("dispatch", dispatch, f"one call of the library's {function}" if own is not None else "one call")


def _arithmetic(op: Op, machine: Machine, measured: Measurement, threads: int) -> tuple[float, str]:
    seconds, note = 0.0, ""
    for key, amount in op.work.items():
        if key.quantity != "flops":
            continue
        product = op.kind in (*SHAPED, "attention") and key.place == "matrix"
        library = measured.best_ceiling("library", threads, key.dtype) if product else None
        if library is not None:
            seconds += float(amount) / library.value
            note = f"at the library's own best product in {key.dtype}"
            continue
        found = rate(machine, key, op)
        if found is not None:
            seconds += float(amount) / float(found.value)
            note = note or f"at the register peak in {found.dtype}"
    return seconds, note


def _exponentials(op: Op, measured: Measurement, threads: int) -> float:
    fastest = measured.best_ceiling("library exp", threads, "fp32") or measured.best_ceiling("exp fp32", threads)
    amount: Any = op.dims.get("transcendentals", 0)
    return float(amount) / fastest.value if fastest else 0.0


def _data(op: Op, moved: Work, machine: Machine) -> float:
    seconds = 0.0
    for key, amount in moved.items():
        found = rate(machine, Key("bytes", key.place), op)
        seconds += float(amount) / float(found.value) if found is not None else 0.0
    return seconds


#: Rounds, windows (or runs with cold caches) in a round, and seconds for one operation.
ROUNDS, WINDOWS, SECONDS = 3, 15, 4.0

#: A call this long is not repeated to count the pages it touches.
LONG = 0.05

#: Seconds of calls before the first window, in which sleeping units wake up.
WARM_UP = 0.05

#: Bytes written between two runs with cold caches, where no measurement says how much the caches hold.
FLUSH = 128 * 2**20


@estimable
@takes()
@raised_priority()
def run(
    *expressions: str,
    at: MeasuredMachine | None = None,
    on: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, Any] | None = None,
    threads: int | None = None,
    cold: bool = False,
    backend: str | None = None,
    library: Library | None = None,
    progress: Callable[[str], None] | None = None,
    **more_sizes: Any,
) -> MeasuredPoints:
    """Time every operation of some lines here, and put it under the roof of this machine as it was measured.

    ``at`` is that machine (:func:`~roofline.measurement.machine_file.this_machine`), or ``on`` its file, by
    default the one of ``on="this"``. ``cold`` empties the caches before every run. ``backend`` is what runs them:
    ``torch`` or ``numpy``, by default PyTorch where it is installed. Sizes come by name too
    (``M=64``); one without a value is an error, as is a machine nobody has measured.
    """
    measured, whole, one_thread = at or this_machine(on, threads)
    sizes = {**(sizes or {}), **more_sizes}
    chosen = library or any_library(backend)
    cores = measured.conditions.cores
    count = cores if threads is None else threads
    if not 1 <= count <= cores:
        wrong = f"{count} threads have no roof: this machine was measured on {cores}"
        raise InputError(wrong, hint=f"from 1 to {cores}")
    flush = _flusher(chosen, measured) if cold else None
    points = []
    try:
        for line in counted(expressions):
            asked = question(line, on=whole, sizes=_own_sizes(line, expressions, sizes))
            ops = asked.ops()
            _check_numbers(ops)
            parsed = program(line)
            for step, unnamed in counted([*zip(parsed.steps, ops, strict=True)]):
                op = replace(unnamed, name=step_text(step, parsed.sizes, asked.sizes))
                if progress is not None:
                    progress(op.name)
                roof = whole if threads_used(op, count) > 1 else one_thread
                setting, summary = time_step(chosen, step, op, count, flush)
                how = f"{setting}, {chosen.name}"
                if not has_roof(measured, threads_used(op, count)):
                    how += f", under the roof of {cores} threads: nothing was measured on {count}"
                points.append(point_of(op, roof, measured, setting, summary, how))
    except KeyboardInterrupt:
        if not points:
            raise
        stopped(len(points), None, "operations")
    finally:
        chosen.free()
    return MeasuredPoints(points, whole)


def time_step(
    library: Library, step: Step, op: Op, threads: int, flush: Callable[[], Any] | None = None
) -> tuple[RunSetting, SampleSummary]:
    """Time one operation, its output allocated by every call; say how it was run. ``flush`` empties the caches."""
    library.set_threads(threads)
    call = executor(library, step, op)
    try:
        given = result_format(library, call())
        summary = time_call(call, threads=threads_used(op, threads), flush=flush)
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


@takes()
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
    machine = chip(on)
    machine = machine if cold or machine.over is not None else with_choices(machine, over=WARM)
    named = name or getattr(call, "__name__", "function")
    [stated] = read_measured([(named, flops, bytes, 1.0, dtype)])
    points_of([stated], machine)
    held = [level.capacity.value for level in machine.memories[1:] if level.capacity is not None and not level.link]
    space = flush_bytes(held)
    try:
        call()
    except Exception as error:  # of whatever kind: the function is the caller's
        wrong = f"{named} raised {type(error).__name__}: {error}"
        raise InputError(wrong, hint="it is called without arguments") from error
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
    timed_run = Measured(op.name.partition(" -> ")[0], float(answer.flops), loaded, summary.value, dtype, op=op)
    return MeasuredPoint(timed_run, answer, effects(op, moved, roof, measured, setting), how, op.kind, summary)


def time_call(
    call: Callable[[], Any],
    *,
    threads: int = 1,
    flush: Callable[[], Any] | None = None,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
) -> SampleSummary:
    """Time a call by the statistics of :mod:`roofline.measurement.levels`; ``flush`` runs before every single one."""
    if flush is None:
        end = perf_counter() + WARM_UP
        call()
        while perf_counter() < end:  # until clocks, caches and the library's internal state have settled
            call()
        probe = timed("", "", call, threads=threads)
    else:
        call()
        due = seconds / max(rounds, 1)
        probe = Probe("", "s", "", threads, lambda windows: _cold_round(call, flush, windows, due))
    if not sample([probe], rounds=rounds, windows=WINDOWS, seconds=seconds):
        raise KeyboardInterrupt
    found = summarise(probe.rounds, smaller_is_better=True, unit=probe.unit)
    if found is None:
        raise InputError("nothing was timed", hint="give at least one round")
    return found


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
