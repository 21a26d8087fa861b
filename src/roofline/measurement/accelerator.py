"""Measuring an accelerator: what is sampled of any device, whichever library drives it.

A :class:`Device` enqueues work and tells how long it took; :func:`measure_device` decides what to enqueue. Products are
warmed up and tried over a small grid of shapes; copies and triads run over sizes, so that the cache shows; links give a
latency and a bandwidth, fitted to times over sizes. Copies run warm, of bytes just moved, and cold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from math import floor, log2, prod
from time import monotonic
from typing import Protocol

from roofline.errors import InputError
from roofline.measurement.all_reduce import link_ceilings
from roofline.measurement.probes import Probe, Progress, collect, failures
from roofline.measurement.result import COLD, Conditions, Measurement
from roofline.measurement.samples import Sample, SampleSummary, summarise

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


def measure_device(device: Device, *, quick: bool = False, progress: Progress | None = None) -> Measurement:
    """Measure an accelerator: products, bandwidth over sizes, the cost of a launch, links.

    Stopped by Ctrl-C it returns what it has and says so.
    """
    start = monotonic()
    work = list(_probes(device, quick))
    probes = [probe for probe, _ in work]
    _warm_up(device, work[0][1]())
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
        name: str,
        unit: str,
        what: str,
        make: Callable[[], Enqueue],
        amount: float = 0.0,
        dtype: str = "",
        size: int = 0,
    ) -> tuple[Probe, Callable[[], Enqueue]]:
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


def _taker(device: Device, make: Callable[[], Enqueue], amount: float, seconds: float) -> Callable[[int], list[Sample]]:
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


def _warm_up(device: Device, work: Enqueue) -> None:
    device.seconds(work, _repeats(device, work, WARM_UP))


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
    links: dict[str, list[tuple[float, SampleSummary]]] = {}
    sends = [probe for probe in probes if probe.unit == LINK]
    for probe in sends:
        summary = summarise(probe.rounds, smaller_is_better=True)
        if summary is not None:
            links.setdefault(probe.name, []).append((probe.working_set or 0.0, summary))
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
