"""Probes of a library's products and convolutions over shapes, from those that are all call to those that are steady.

Operands stand in the order they were made in: a library that wants another order makes it at each call, and its time
is in the figures. Shapes that take too long are left out; the largest kept one stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from roofline.measurement.probes import Probe, shortest, timed

#: Rows of products, and sides of the square matrix they meet.
ROWS, SIDES = (1, 3, 12, 48, 192, 768), (48, 96, 192, 384, 768, 1536, 3072)
QUICK_ROWS, QUICK_SIDES = (1, 12, 192), (48, 192, 768, 1536)

#: Convolutions of 3 x 3: sides of the image, and channels in and out.
IMAGES, CHANNELS = (6, 20, 40), (32, 96, 192, 384)
QUICK_IMAGES, QUICK_CHANNELS = (6, 20), (32, 192)

#: The longest shape in seconds (few longer ones are undisturbed), and the rate in FLOP/s supposed before any is known.
PATIENCE, LEAST_RATE = 0.01, 2e10

#: Formats in which models compute.
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


def torch_shapes(torch: Any, threads: int, before: Callable[[], Any], quick: bool) -> Iterator[Probe]:
    """Probe products and convolutions of PyTorch."""
    before()
    for dtype, kind in DTYPES.items():
        for name, made in (("library", _products), ("library convolution", _convolutions)):
            limit = Limit()
            for rows, side, call, what in made(torch, getattr(torch, kind), quick):
                flops = 2.0 * rows * side**2
                if limit.allows(flops, call):
                    yield timed(
                        name, f"torch {torch.__version__} {what}", call, threads=threads, amount=flops,
                        unit="FLOP/s", dtype=dtype, before=before, shape=(float(rows), side),
                    )  # fmt: skip


class Limit:
    """Lets a shape through when it will not take too long, judging by the best rate of those before."""

    def __init__(self) -> None:
        self.best = 0.0

    def allows(self, flops: float, call: Callable[[], Any]) -> bool:
        """Run a call where it should be short, and say whether it was."""
        if flops / max(self.best, LEAST_RATE) > PATIENCE:
            return False
        took = shortest(call)
        if took:
            self.best = max(self.best, flops / took)
        return took <= PATIENCE


Shaped = Iterator[tuple[int, float, Callable[[], Any], str]]


def _products(torch: Any, kind: Any, quick: bool) -> Shaped:
    rows = QUICK_ROWS if quick else ROWS
    for side in QUICK_SIDES if quick else SIDES:
        tall, matrix = torch.rand(rows[-1], side).to(kind), torch.rand(side, side).to(kind)
        out = torch.empty(rows[-1], side, dtype=kind)
        for count in rows:
            what = f"matmul, {count} x {side} by {side} x {side}"
            yield count, float(side), _product(torch, tall[:count], matrix, out[:count]), what


def _product(torch: Any, a: Any, b: Any, out: Any) -> Callable[[], Any]:
    return lambda: torch.mm(a, b, out=out)


def _convolutions(torch: Any, kind: Any, quick: bool) -> Shaped:
    for channels in QUICK_CHANNELS if quick else CHANNELS:
        kernel = torch.rand(channels, channels, 3, 3).to(kind)
        for image in QUICK_IMAGES if quick else IMAGES:
            x = torch.rand(1, channels, image, image).to(kind)
            what = f"conv2d 3 x 3, {image} x {image} of {channels} channels"
            yield image**2, 3.0 * channels, _convolution(torch, x, kernel), what


def _convolution(torch: Any, x: Any, kernel: Any) -> Callable[[], Any]:
    return lambda: torch.nn.functional.conv2d(x, kernel, padding=1)
