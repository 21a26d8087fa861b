"""Measuring an accelerator: what is sampled of any device, whichever library drives it.

A :class:`Device` enqueues work and tells how long it took; :func:`measure_device` decides what to enqueue. Products are
warmed up and tried over a small grid of shapes; copies and triads run over sizes, so that the cache shows; links give a
latency and a bandwidth, fitted to times over sizes. Copies run warm, of bytes just moved, and cold.

An all-reduce takes several processes of PyTorch, one a device: NCCL among GPUs, gloo among processors. Its bandwidth is
bytes of the tensor ÷ seconds beyond the latency; a ring sends 2·(n − 1)/n of the tensor over every link, so a link
carries that many times as much.

Accelerators as libraries drive them: CUDA and ROCm through PyTorch, TPUs and whatever else JAX finds.

PyTorch drives CUDA and ROCm by the same names. Copies within a cache take less time than the host needs to enqueue one,
so that their bandwidth would be the host's: they are captured once as a graph, which the device repeats by itself.

JAX tells no device times: work is enqueued, the last result waited for, and the wall time shared out, so that only a
long run of work says something. On a machine without an accelerator it finds the processor.
"""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import cycle
from math import ceil, floor, log2, prod
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Protocol, runtime_checkable

from roofline.errors import InputError, load_extra, quoted
from roofline.frozen import replace
from roofline.lazy import np
from roofline.measurement.levels import Sample, SampleSummary, summarise
from roofline.measurement.library import TORCH_DTYPES
from roofline.measurement.probes import Probe, Progress, collect, failures
from roofline.measurement.result import COLD, Ceiling, Conditions, Measurement
from roofline.quantity import whole_number
from roofline.signatures import spelled, takes
from roofline.sizes import grouped

#: Something to enqueue on a device.
Enqueue = Callable[[], object]

#: What makes the arrays of a piece of work, and the work.
Maker = Callable[[], Enqueue]

#: Shapes of products (m, n, k): square ones, and one that is tall.
SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 4096, 4096))
QUICK_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192))

#: Bytes of all arrays of a copy or triad, from the first caches to far beyond the last.
SMALLEST, LARGEST = 2**18, 2**31

#: Bytes of all the arrays a cold copy goes round: more than any cache holds.
COLD_BYTES = 2**29

#: Bytes sent over a link.
MESSAGES = tuple(2**power for power in range(12, 29, 4))

#: The unit of probes of links, whose times become a latency and a bandwidth.
LINK = "link"

#: A shape that is quick on every device; the time of larger shapes is estimated from it.
SMALL_SHAPE = (512, 512, 512)

#: A shape is left out where one product of it would take this many seconds.
LONG = 0.25

#: Seconds of work in one sample, and samples in each of the interleaved rounds.
WINDOW, WINDOWS, ROUNDS = 5e-3, 5, 3

#: Seconds of work in one sample of products: full load lowers clocks, after a while.
SUSTAINED = 2e-2

#: Seconds of work before the first sample, in which clocks settle.
WARM_UP = 0.2

#: Bytes of the tensors of an all-reduce: from what is all latency to what is all bandwidth; seconds before giving up.
TENSORS, PATIENCE = tuple(2**power for power in range(10, 29, 3)), 120


@runtime_checkable
class Device(Protocol):
    """One accelerator as a library drives it. Everything enqueued runs in order."""

    @property
    def name(self) -> str:
        """The name its driver reports."""

    @property
    def memory(self) -> float:
        """Bytes of its memory."""

    def dtypes(self) -> Sequence[str]:
        """Formats it multiplies."""

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product of [m, k] and [k, n] into memory that is there already."""

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy of ``size`` bytes within its memory: twice as many move. ``cold``: of bytes in no cache."""

    def triad(self, size: int) -> Enqueue:
        """a = b + s·c over arrays of ``size`` bytes: three times as many move."""

    def nothing(self) -> Enqueue:
        """The smallest piece of work there is."""

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        """Links by name (``to host``, ``from host``, ``peer 1``, ``all-reduce``), each as a send of so many bytes."""

    def seconds(self, work: Enqueue, times: int) -> float:
        """Seconds that ``times`` pieces of work take on the device, one after the other, from start to end."""


@takes()
def measure_device(device: Device, *, quick: bool = False, progress: Progress | None = None) -> Measurement:
    """Measure an accelerator: products, bandwidth over sizes, the cost of a launch, links.

    Stopped by Ctrl-C it returns what it has and says so.
    """
    if not isinstance(device, Device):
        raise InputError(f"{quoted(device)} drives no device", hint=f"{spelled('device', 'cuda')} of measure makes one")
    start = monotonic()
    work = list(_probes(device, quick))
    probes = [probe for probe, _ in work]
    first = work[0][1]()
    device.seconds(first, _repeats(device, first, WARM_UP))
    finished = _sample(probes, progress)
    conditions = Conditions(
        processor=device.name,
        date=date.today().isoformat(),
        cores=1,
        seconds=round(monotonic() - start, 1),
        quick=quick,
        interrupted=not finished,
        missing=_missing(device),
        device=True,
    )
    return _with_links(collect([probe for probe in probes if probe.unit != LINK], conditions), probes)


def _probes(device: Device, quick: bool) -> Iterator[tuple[Probe, Maker]]:
    """What is sampled, each with the function that makes its work."""

    def probe(
        name: str, unit: str, what: str, make: Maker, amount: float = 0.0, dtype: str = "", size: int = 0
    ) -> tuple[Probe, Maker]:
        take = _taker(device, make, amount, SUSTAINED if dtype else WINDOW)
        by_time, working_set = unit in ("s", LINK), float(size) if size else None
        return Probe(name, unit, what, 1, take, dtype, working_set, unit == "B/s", smaller_is_better=by_time), make

    for dtype in device.dtypes():
        for m, n, k in _shapes(device, dtype, QUICK_SHAPES if quick else SHAPES):
            make = partial(device.product, dtype, m, n, k)
            yield probe("library", "FLOP/s", f"product of {m} x {k} by {k} x {n}", make, 2.0 * m * n * k, dtype)
    for size in _sizes(device, quick):
        half, third = size // 2, size // 3
        yield probe("copy", "B/s", "a = b", partial(device.copy, half), half * 2.0, size=size)
        yield probe("triad", "B/s", "a = b + s·c", partial(device.triad, third), third * 3.0, size=size)
        if size <= COLD_BYTES // 4:
            make = partial(device.copy, half, cold=True)
            yield probe(f"{COLD} copy", "B/s", "a = b, each time other arrays", make, half * 2.0, size=size)
    yield probe("launch", "s", "the smallest piece of work", device.nothing)
    sends = f"sends of {MESSAGES[0]} to {MESSAGES[-1]} bytes"
    for link, send in device.links().items():
        for size in MESSAGES:
            yield probe(link, LINK, sends, partial(send, size), size=size)


def _taker(device: Device, make: Maker, amount: float, seconds: float) -> Callable[[int], list[Sample]]:
    """Make the function that takes the windows of a round: rates of an ``amount``, or times without one.

    ``make`` makes the work with its arrays. They are freed after every round, since not all fit at once.
    """
    known: list[int] = []

    def take(windows: int) -> list[Sample]:
        work = make()
        if not known:
            known.append(_repeats(device, work, seconds))
        device.seconds(work, 1)
        taken = [device.seconds(work, known[0]) / known[0] for _ in range(windows)]
        return [Sample(amount / time if amount else time, (1.0,)) for time in taken]

    return take


def _shapes(device: Device, dtype: str, shapes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Leave out shapes that take too long here. Where all of them do, the small shape is used."""
    work = device.product(dtype, *SMALL_SHAPE)
    device.seconds(work, 1)
    per_flop = device.seconds(work, 1) / prod(SMALL_SHAPE)
    return [shape for shape in shapes if prod(shape) * per_flop <= LONG] or [SMALL_SHAPE]


def _sizes(device: Device, quick: bool) -> list[int]:
    """Sizes of all arrays together, up to a quarter of the memory: two an octave, one when quick."""
    an_octave = 1 if quick else 2
    count = floor(an_octave * log2(min(LARGEST, device.memory / 4) / SMALLEST)) + 1
    return [int(SMALLEST * 2 ** (number / an_octave)) // 768 * 768 for number in range(count)]


def _runs(device: Device, dtype: str) -> bool:
    """Whether a device, and the library that drives it, multiplies a format."""
    try:
        device.seconds(device.product(dtype, 64, 64, 64), 1)
    except LACKING:
        return False
    return True


def _repeats(device: Device, work: Enqueue, seconds: float) -> int:
    device.seconds(work, 1)
    if device.seconds(work, 1) >= seconds:
        return 1
    return max(1, round(seconds / max(device.seconds(work, 4) / 4, 1e-9)))


def _sample(probes: Sequence[Probe], progress: Progress | None) -> bool:
    """Take all rounds; False where Ctrl-C stopped them. Work that fails, for lack of memory say, is passed over."""
    try:
        for number in range(ROUNDS):
            for position, probe in enumerate(probes):
                if progress is not None:
                    progress((number * len(probes) + position) / (ROUNDS * len(probes)), probe.name)
                if taken := probe.take_windows(WINDOWS):
                    probe.rounds.append(taken)
    except KeyboardInterrupt:
        return False
    return True


def _with_links(found: Measurement, probes: Sequence[Probe]) -> Measurement:
    """Add the latency and the bandwidth of each link, from the times of its messages."""
    sends = [probe for probe in probes if probe.unit == LINK]
    summaries = ((probe, summarise(probe.rounds, smaller_is_better=True)) for probe in sends)
    links = grouped((each.name, (each.working_set or 0.0, told)) for each, told in summaries if told is not None)
    ceilings, unread = list(found.ceilings), failures(sends)
    for name, points in links.items():
        try:
            ceilings += link_ceilings(name, sends[0].what, points)
        except InputError as error:
            unread.append(f"{name}: {error.message}")
    missing = (*found.conditions.missing, *unread)
    return replace(found, conditions=replace(found.conditions, missing=missing), ceilings=tuple(ceilings))


def _missing(device: Device) -> tuple[str, ...]:
    reached = device.links()
    said = [] if reached else ["links: the library reaches none from here"]
    said += [] if any(link.startswith("peer") for link in reached) else ["peer links: it reaches no other device"]
    return tuple(said)


def all_reduce(devices: int, backend: str = "nccl", sizes: Sequence[int] = TENSORS) -> tuple[Ceiling, Ceiling]:
    """Time all-reduces among ``devices`` processes; return the ceilings ``all-reduce`` and ``all-reduce latency``.

    Raises :class:`~roofline.errors.InputError` for fewer than two devices, or where the processes fail.
    """
    if devices < 2:
        raise InputError("an all-reduce needs two devices", hint=f"there is {devices} here")
    taken = all_reduce_times(devices, backend, sizes)
    points = [(size, _summary(rounds)) for size, rounds in zip(sizes, taken, strict=True)]
    kernel = f"{backend} all-reduce of {sizes[0]} to {sizes[-1]} bytes, n = {devices}"
    return link_ceilings("all-reduce", kernel, points)


def all_reduce_times(devices: int, backend: str, sizes: Sequence[int]) -> list[list[list[float]]]:
    """Time all-reduces among ``devices`` processes: seconds of one by size, round and sample."""
    load_extra("torch", "torch")
    from torch import distributed, multiprocessing

    if not distributed.is_available() or (backend == "nccl" and not distributed.is_nccl_available()):
        raise InputError(f"this PyTorch is built without {backend}", hint="install one that has it")
    with tempfile.TemporaryDirectory() as folder:
        try:
            multiprocessing.spawn(_work, (devices, backend, tuple(sizes), folder), nprocs=devices)
        except Exception as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(f"all-reduce among {devices} processes of {backend} failed: {reason}") from None
        taken: list[list[list[float]]] = json.loads((Path(folder) / "times.json").read_text(encoding="ascii"))
    return taken


def link_ceilings(name: str, kernel: str, points: Sequence[tuple[float, SampleSummary]]) -> tuple[Ceiling, Ceiling]:
    """Make the bandwidth and the latency of a link from times over sizes, with the spread of its largest message."""
    latency, bandwidth = fit_line([(size, summary.value) for size, summary in points])
    largest = points[-1][1]
    low, high = (bandwidth * largest.value / end for end in (largest.high, largest.low))
    speed = SampleSummary(bandwidth, low, high, largest.samples, largest.clean)
    delay = SampleSummary(latency, latency, latency, largest.samples, largest.clean)
    return Ceiling(name, "B/s", kernel, 1, speed), Ceiling(f"{name} latency", "s", kernel, 1, delay)


def fit_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fit (size in bytes, seconds) by time = latency + size ÷ bandwidth; both to nine digits.

    >>> fit_line([(1e3, 2.01e-6), (1e6, 12e-6), (1e9, 10.002e-3)])
    (2e-06, 100000000000.0)

    Least squares of relative errors, Σ ((a + b·size)/seconds − 1)², so that small messages count as much as large
    ones. A latency below zero is none. Raises :class:`~roofline.errors.InputError` for fewer than two sizes.
    """
    if len({size for size, _ in points}) < 2:
        raise InputError("a latency and a bandwidth need times of at least two sizes")
    sizes, seconds = np.array(points).T
    slope, latency = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    if latency < 0:
        ratio = sizes / seconds
        latency, slope = 0.0, ratio.sum() / (ratio**2).sum()
    if slope <= 0:
        raise InputError("larger messages take no longer: no bandwidth can be read off")
    return float(f"{latency:.9g}"), float(f"{1 / slope:.9g}")


def _summary(rounds: Sequence[Sequence[float]]) -> SampleSummary:
    found = summarise([[Sample(s, (1.0,)) for s in one] for one in rounds], smaller_is_better=True)
    if found is None:
        raise InputError("no all-reduce was timed")
    return found


def _work(rank: int, devices: int, backend: str, sizes: Sequence[int], folder: str) -> None:
    """Take part as one process; the first writes what it timed."""
    import torch
    from torch import distributed

    place = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        backend, init_method=f"file://{folder}/meet", rank=rank, world_size=devices,
        timeout=timedelta(seconds=PATIENCE),
    )  # fmt: skip
    try:
        times = list(_times(torch, distributed, place, sizes))
        if rank == 0:
            (Path(folder) / "times.json").write_text(json.dumps(times), encoding="ascii")
    finally:
        distributed.destroy_process_group()


def _times(torch: Any, distributed: Any, place: Any, sizes: Sequence[int]) -> Iterator[list[list[float]]]:
    """Seconds of one all-reduce by size, round and sample; every process does the same number of each."""
    tensors = [torch.zeros(max(1, size // 4), device=place) for size in sizes]

    def seconds(tensor: Any, times: int) -> float:
        distributed.barrier()
        _finish(torch, place)
        start = perf_counter()
        for _ in range(times):
            distributed.all_reduce(tensor)
        _finish(torch, place)
        return (perf_counter() - start) / times

    repeats = []
    for tensor in tensors:
        seconds(tensor, 2)
        agreed = torch.tensor([seconds(tensor, 4)], device=place)
        distributed.all_reduce(agreed, op=distributed.ReduceOp.MAX)
        repeats.append(max(1, round(WINDOW / float(agreed))))
    rounds = [
        [[seconds(tensor, times) for _ in range(WINDOWS)] for tensor, times in zip(tensors, repeats, strict=True)]
        for _ in range(ROUNDS)
    ]
    yield from ([one[position] for one in rounds] for position in range(len(sizes)))


def _finish(torch: Any, place: Any) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


#: The 8-bit format whose product PyTorch scales by factors beside it: its name, and that on AMD's CDNA 3.
SCALED = {"fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz")}

#: What a product raises on a device, or in a PyTorch, that does not have it.
LACKING = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)

#: The least compute capability of NVIDIA's that has TF32.
TF32_FROM = (8, 0)

#: Pieces of work in a graph, at least; fewer are enqueued one by one.
TURNS = 32


class Replayed:
    """Work that a graph repeats, ``turns`` pieces at a time; called, it enqueues one piece."""

    def __init__(self, torch: Any, work: Enqueue, cycle_length: int = 1) -> None:
        self._torch, self._work = torch, work
        self.turns = cycle_length * ceil(TURNS / cycle_length)
        self._graph: Any = None
        self._tried = False

    def __call__(self) -> object:
        return self._work()

    def graph(self) -> Any:
        """Capture the pieces of work as a graph on the current device; None where they cannot be captured."""
        if not self._tried:
            self._tried = True
            cuda = self._torch.cuda
            graph, side = cuda.CUDAGraph(), cuda.Stream()
            side.wait_stream(cuda.current_stream())
            try:
                with cuda.stream(side):
                    graph.capture_begin()
                    try:
                        for _ in range(self.turns):
                            self._work()
                    finally:
                        graph.capture_end()
            except RuntimeError:
                return None
            cuda.current_stream().wait_stream(side)
            self._graph = graph
        return self._graph


class TorchDevice(Device):
    """A device of ``torch.cuda``; fp32 products run in fp32, not in TF32, which is measured as ``tf32``."""

    def __init__(self, index: int = 0) -> None:
        torch = load_extra("torch", "torch")
        if not torch.cuda.is_available():
            hint = f"leave {spelled('device')} out to measure the processor"
            raise InputError("PyTorch sees no accelerator here", hint=hint)
        if index >= torch.cuda.device_count():
            raise InputError(f"there is no device {index}", hint=f"PyTorch sees {torch.cuda.device_count()}")
        self.torch: Any = torch
        self.index = index
        self.place = torch.device("cuda", index)
        self._told = torch.cuda.get_device_properties(index)

    @property
    def name(self) -> str:
        return str(self._told.name)

    @property
    def memory(self) -> float:
        return float(self._told.total_memory)

    def dtypes(self) -> Sequence[str]:
        # without TF32 fp32 would be measured twice, once under a wrong name
        is_cuda = self.torch.version.hip is None
        has_tf32 = is_cuda and self.torch.cuda.get_device_capability(self.index) >= TF32_FROM
        tf32 = ("tf32",) if has_tf32 else ()
        return [dtype for dtype in (*TORCH_DTYPES, *tf32, *SCALED) if _runs(self, dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        torch = self.torch
        if dtype == "int8":
            a, b = (torch.randint(-128, 128, s, dtype=torch.int8, device=self.place) for s in ((m, k), (n, k)))
            return lambda: torch._int_mm(a, b.t())
        if dtype in SCALED:
            narrow = getattr(torch, self._scaled_format(dtype))
            a, b = (torch.randn(s, device=self.place).to(narrow) for s in ((m, k), (n, k)))
            one = torch.ones((), device=self.place)
            return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
        kind = getattr(torch, TORCH_DTYPES["fp32" if dtype == "tf32" else dtype])
        a, b = (torch.randn(s, device=self.place).to(kind) for s in ((m, k), (k, n)))
        out = torch.empty(m, n, dtype=kind, device=self.place)

        if kind is not torch.float32:
            return lambda: torch.mm(a, b, out=out)

        def enqueue() -> None:
            self._allow_tf32(dtype == "tf32")
            torch.mm(a, b, out=out)

        return enqueue

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory; cold ones take one pair of arrays after the other."""
        pairs = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([(self._bytes(size), self._bytes(size)) for _ in range(pairs)])

        def enqueue() -> None:
            a, b = next(turns)
            a.copy_(b)

        return Replayed(self.torch, enqueue, pairs)

    def triad(self, size: int) -> Enqueue:
        torch = self.torch
        a, b, c = (torch.ones(size // 4, device=self.place) for _ in "abc")
        return Replayed(torch, lambda: torch.add(b, c, alpha=3.0, out=a))

    def nothing(self) -> Enqueue:
        one = self.torch.zeros(1, device=self.place)
        return lambda: one.add_(1.0)

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        host, own = {"pin_memory": True}, {"device": self.place}
        found = {"from host": partial(self._sent, host, own), "to host": partial(self._sent, own, host)}
        for other in range(self.torch.cuda.device_count()):
            if other != self.index and self.torch.cuda.can_device_access_peer(self.index, other):
                found[f"peer {other}"] = partial(self._sent, own, {"device": self.torch.device("cuda", other)})
        return dict(found)

    def seconds(self, work: Enqueue, times: int) -> float:
        """Time between two events on the device; where a graph repeats the work, scaled to ``times`` pieces."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in "ab"]
        call, count, scale = work, times, 1.0
        with self.torch.cuda.device(self.index):
            if isinstance(work, Replayed) and times >= TURNS and (graph := work.graph()) is not None:
                call, count = graph.replay, max(1, round(times / work.turns))
                scale = times / (count * work.turns)
            events[0].record()
            for _ in range(count):
                call()
            events[1].record()
            events[1].synchronize()
        return float(events[0].elapsed_time(events[1])) * 1e-3 * scale

    def _bytes(self, size: int, **where: Any) -> Any:
        return self.torch.zeros(size, dtype=self.torch.uint8, **(where or {"device": self.place}))

    def _sent(self, source: Mapping[str, Any], target: Mapping[str, Any], size: int) -> Enqueue:
        """A copy of so many bytes from one place to another."""
        here, there = self._bytes(size, **source), self._bytes(size, **target)
        return lambda: there.copy_(here, non_blocking=True)

    def _allow_tf32(self, allow: bool) -> None:
        """Allow or forbid TF32 in products of fp32, by the one setting this PyTorch has: mixing both is an error."""
        matmul = self.torch.backends.cuda.matmul
        try:
            matmul.fp32_precision = "tf32" if allow else "ieee"
        except AttributeError:
            matmul.allow_tf32 = allow

    def _scaled_format(self, dtype: str) -> str:
        """The 8-bit format of this device: AMD's gfx942 has its own."""
        plain, other = SCALED[dtype]
        return other if "gfx94" in str(getattr(self._told, "gcnArchName", "")) else plain


#: Formats tried; one the device cannot multiply is left out.
JAX_FORMATS = ("fp32", "fp16", "bf16", "int8")

#: Bytes of memory assumed where the device does not tell: enough for sizes beyond any cache.
ASSUMED_MEMORY = 8.0 * 2**30


class JaxDevice(Device):
    """A device of this process, of ``jax.local_devices()``: those of other hosts it cannot reach.

    fp32 products run in fp32, not in the TF32 or bfloat16 that JAX takes for them by itself.
    """

    def __init__(self, index: int = 0) -> None:
        jax, jnp = load_extra("jax", "jax"), load_extra("jax.numpy", "jax")
        found = jax.local_devices()
        if index >= len(found):
            raise InputError(f"there is no device {index}", hint=f"JAX sees {len(found)}")
        self.jax: Any = jax
        self.jnp: Any = jnp
        self.device = found[index]
        self._last: Any = None

    @property
    def name(self) -> str:
        return str(self.device.device_kind)

    @property
    def memory(self) -> float:
        """Bytes of its memory, where it tells."""
        told = self.device.memory_stats() or {}
        return float(told.get("bytes_limit", ASSUMED_MEMORY))

    def dtypes(self) -> Sequence[str]:
        return [dtype for dtype in JAX_FORMATS if _runs(self, dtype)]

    def product(self, dtype: str, m: int, n: int, k: int) -> Enqueue:
        """A product whose result is accumulated as the format's hardware does."""
        wide = self.jnp.int32 if dtype == "int8" else None
        precision = self.jax.lax.Precision.HIGHEST if dtype == "fp32" else None
        a, b = (self._any(dims, TORCH_DTYPES[dtype]) for dims in ((m, k), (k, n)))
        call = self.jax.jit(lambda x, y: self.jnp.matmul(x, y, precision=precision, preferred_element_type=wide))
        return self._enqueue(call, a, b)

    def copy(self, size: int, cold: bool = False) -> Enqueue:
        """A copy within its memory, plus one, so that the compiler keeps it. Cold copies write new arrays."""
        call = self.jax.jit(lambda x: x + self.jnp.uint8(1))
        arrays = max(1, COLD_BYTES // (2 * size)) if cold else 1
        turns = cycle([self._ones((size,), "uint8") for _ in range(arrays)])
        written: deque[Any] = deque(maxlen=arrays)

        def enqueue() -> None:
            self._last = call(next(turns))
            written.append(self._last)

        return enqueue

    def triad(self, size: int) -> Enqueue:
        b, c = self._ones((size // 4,), "float32"), self._ones((size // 4,), "float32")
        return self._enqueue(self.jax.jit(lambda x, y: x + 3.0 * y), b, c)

    def nothing(self) -> Enqueue:
        return self._enqueue(self.jax.jit(lambda x: x + 1.0), self._ones((), "float32"))

    def links(self) -> dict[str, Callable[[int], Enqueue]]:
        """The host, every other device, and an all-reduce among all of them."""
        every = enumerate(self.jax.local_devices())
        peers = {f"peer {number}": partial(self._sent, other) for number, other in every if other != self.device}
        host = {"from host": partial(self._sent, self.device, from_host=True)}
        return {**host, **peers, **({"all-reduce": self._all_reduce} if peers else {})}

    def seconds(self, work: Enqueue, times: int) -> float:
        """Wall time from the first piece of work to the last result."""
        start = perf_counter()
        for _ in range(times):
            work()
        self.jax.block_until_ready(self._last)
        return perf_counter() - start

    def _enqueue(self, call: Callable[..., Any], *operands: Any) -> Enqueue:
        def enqueue() -> None:
            self._last = call(*operands)

        return enqueue

    def _ones(self, dims: tuple[int, ...], kind: str) -> Any:
        return self.jax.device_put(self.jnp.ones(dims, kind), self.device)

    def _any(self, dims: tuple[int, ...], kind: str) -> Any:
        """Random numbers. Equal numbers would take less power than real ones."""
        random = self.jax.random
        if kind == "int8":
            made = random.randint(random.key(0), dims, -128, 128, self.jnp.int8)
        else:
            made = random.normal(random.key(0), dims, self.jnp.float32).astype(kind)
        return self.jax.device_put(made, self.device)

    def _sent(self, target: Any, size: int, from_host: bool = False) -> Enqueue:
        """A copy of so many bytes to another place, from here or from the host."""
        source = np.ones(size, np.uint8) if from_host else self._ones((size,), "uint8")
        return self._enqueue(self.jax.device_put, source, target)

    def _all_reduce(self, size: int) -> Enqueue:
        """One array on every device, summed over all of them."""
        count = len(self.jax.local_devices())
        call = self.jax.pmap(lambda x: self.jax.lax.psum(x, "all"), axis_name="all")
        return self._enqueue(call, call(self.jnp.zeros((count, max(1, size // 4)), "float32")))


def measured_device(name: str, *, quick: bool = False, progress: Progress | None = None) -> Measurement:
    """Measure the accelerator called ``cuda``, ``cuda:1`` or ``jax:0``; with several GPUs their all-reduce too."""
    found = measure_device(_named(name), quick=quick, progress=progress)
    if not name.startswith("cuda") or found.conditions.interrupted:
        return found
    import torch

    try:
        return replace(found, ceilings=(*found.ceilings, *all_reduce(torch.cuda.device_count())))
    except KeyboardInterrupt:
        return replace(found, conditions=replace(found.conditions, interrupted=True))
    except InputError as error:
        missing = (*found.conditions.missing, f"all-reduce: {error.message}")
        return replace(found, conditions=replace(found.conditions, missing=missing))


def _named(text: str) -> Device:
    """Find a device by its name."""
    kinds: dict[str, Callable[[int], Device]] = {"cuda": TorchDevice, "jax": JaxDevice}
    name, _, index = text.partition(":")
    number = whole_number(index or "0")
    if name not in kinds or number is None:
        hint = "cuda (of ROCm's PyTorch too), jax, or one of several: cuda:1"
        raise InputError(f"{spelled('device', text)} is not one", hint=hint)
    return kinds[name](number)
