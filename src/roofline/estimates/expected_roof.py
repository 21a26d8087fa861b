"""The roof that kernels of a library reach: peak and bandwidth in practice, and the start below which neither counts.

Read off the expected times of three products: a large one, one whose weights stream, and one of nothing::

    start     = T(16 × 16 × 16)
    peak      = 2 · 16384³ / (T − start)          bandwidth = bytes / (T(16 × 16384 × 16384) − start)
    n½        = start · rate: work that takes as long as the start, so that half the rate is reached

>>> roof = expected_roof("h100")
>>> 0.5 < roof.peak / 989.4e12 < 1.0, 0.5 < roof.bandwidth / 3.352e12 < 1.0
(True, True)
>>> roof.half_bytes == roof.start * roof.bandwidth
True
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.bounds.api import bound
from roofline.errors import InputError
from roofline.estimates.estimator import Estimator, KernelEstimate
from roofline.frozen import dataclass
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.signatures import call, check_methods, takes

#: Sides of the large product, rows of the one that streams, and sides of the one of nothing.
LARGE, FLAT, NOTHING = 16_384, 16, 16


@check_methods
@dataclass(frozen=True, slots=True)
class ExpectedRoof:
    """FLOP/s, B/s and a start in seconds that products reach; 80 % of rates are ``low`` to ``high`` times these."""

    peak: float
    bandwidth: float
    start: float
    low: float
    high: float
    dtype: str
    basis: str

    @property
    def half_flops(self) -> float:
        """n½ of FLOPs: launch-bound below it where arithmetic binds."""
        return self.start * self.peak

    @property
    def half_bytes(self) -> float:
        """n½ of bytes: launch-bound below it where memory binds."""
        return self.start * self.bandwidth

    def rate(self, intensity: float) -> float:
        """FLOP/s at an intensity, for work that is much longer than the start."""
        return min(self.peak, intensity * self.bandwidth)


@takes()
def expected_roof(
    on: str | Machine, *, dtype: str = "bf16", library: str | Estimator = "vllm", files: Sequence[str] = ()
) -> ExpectedRoof:
    """The roof of a chip in practice; an error where no constants are known of its products in a format."""
    estimator, on = library if isinstance(library, Estimator) else Estimator(library, files), chip(on)
    found = [_product(estimator, on, dtype, *sides) for sides in ((LARGE,) * 3, (FLAT, LARGE, LARGE), (NOTHING,) * 3)]
    if any(one.source is None for one in found):
        name = chip(on).target
        wrong = f"no constants of {estimator.library} are known for {dtype} products on {name}"
        raise InputError(wrong, hint=f"{call('calibrate')} makes some from ten runs")
    large, flat, start = (float(one.value) for one in found)
    tensors = (*found[1].run.parts[0].op.reads, *found[1].run.parts[0].op.writes)
    moved = float(sum(tensor.traffic_bytes for tensor in tensors))
    low, high = (large / float(end) for end in (found[0].high, found[0].low))
    peak, bandwidth = 2 * LARGE**3 / (large - start), moved / (flat - start)
    return ExpectedRoof(peak, bandwidth, start, low, high, dtype, found[0].basis)


def _product(estimator: Estimator, on: str | Machine, dtype: str, m: int, n: int, k: int) -> KernelEstimate:
    found: KernelEstimate = estimator.expect(bound(f"{dtype}[{m}, {k}] @ {dtype}[{k}, {n}]", on=on)).kernels[0]
    return found
