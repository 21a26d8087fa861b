"""All-reduce among several processes of PyTorch: a latency and a bandwidth from times over sizes.

One process a device, NCCL among GPUs, gloo among processors. Bandwidth is bytes of the tensor ÷ seconds beyond the
latency; a ring sends 2·(n − 1)/n of the tensor over every link, so a link carries that many times as much.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from roofline.errors import InputError, load_extra
from roofline.measurement.result import Ceiling
from roofline.measurement.samples import Sample, SampleSummary, summarise

#: Bytes of the tensors: from what is all latency to what is all bandwidth.
SIZES = tuple(2**power for power in range(10, 29, 3))

#: Rounds over all sizes, samples of each in a round, seconds of work in a sample, and seconds after which to give up.
ROUNDS, WINDOWS, WINDOW, PATIENCE = 3, 5, 5e-3, 120


def all_reduce(devices: int, backend: str = "nccl", sizes: Sequence[int] = SIZES) -> tuple[Ceiling, Ceiling]:
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
    inverse = [1 / seconds for _, seconds in points]
    ratio = [size / seconds for size, seconds in points]
    aa, ab, bb = (
        sum(x * y for x, y in zip(*pair, strict=True))
        for pair in ((inverse, inverse), (inverse, ratio), (ratio, ratio))
    )
    a, b = sum(inverse), sum(ratio)
    determinant = aa * bb - ab * ab
    latency, slope = (a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant
    if latency < 0:
        latency, slope = 0.0, b / bb
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
