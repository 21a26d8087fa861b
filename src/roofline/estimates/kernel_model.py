"""Kernel models: how long a kind of kernel takes on a chip, as a formula of shapes, chip figures and named constants.

A bound divides amounts by data-sheet rates. A kernel also has tiles that do not fill the last wave of cores, a launch,
a pipeline that fills, operands that are still in cache. A :class:`KernelModel` holds the formula of one kind and the
constants in it, each with a unit, a meaning and a range; fitted values are data (:mod:`roofline.estimates.constants`).

Every formula works on arrays: one entry a kernel. It returns its parts, which add up to the time:

>>> import numpy as np
>>> chip = ChipFigures(cores=132, matrix_peak=989.4e12, bandwidth=3.35e12, cache=50e6)
>>> from roofline.estimates.constants import KERNELS
>>> model = KERNELS["contraction"]
>>> shapes = {"m": np.array([64.0, 8192.0]), "n": 8192.0, "k": 8192.0, "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
>>> parts = model.parts(shapes, chip, model.defaults(), "search")
>>> [round(float(t) * 1e6) for t in parts.time]
[49, 1578]
>>> sorted(parts.seconds)
['launch', 'memory', 'waves']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from roofline.frozen import NamedTuple, dataclass, field
from roofline.lazy import np

Array: TypeAlias = Any
Shapes: TypeAlias = "Mapping[str, Array]"
Values: TypeAlias = "Mapping[str, float]"


class ChipFigures(NamedTuple):
    """What a kernel model needs of a chip, from its data sheet: cores, FLOP/s of the format, B/s, bytes of cache."""

    cores: float
    matrix_peak: float
    bandwidth: float
    cache: float


class ModelConstant(NamedTuple):
    """One constant of a kernel model: its unit, what it means, a typical value, and the range a fit may take.

    ``own`` tells a constant that each chip and library has from one that chips share. ``moves_with`` says what it goes
    with from one chip to another: the ``peak`` of a core, which a rate feeds, the ``power`` that holds that peak, the
    clock that is ``held`` within a generation, the ``slowing`` of long kernels by power, all ``cores`` at once, what
    error correction leaves of a memory's ``stream``, what halves that keep the same lines leave of a ``cache``,
    ``traffic`` of cache and memory, the ``start`` of a kernel by the chip or its host, or the ``kernel``, so that it is
    typical of another one. Times of a core, in seconds, go with its clock, or the inverse of such a rate.
    """

    name: str
    unit: str
    meaning: str
    typical: float
    low: float
    high: float
    own: bool = False
    moves_with: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Seconds of each part of a kernel's time; ``time`` is their sum."""

    seconds: Mapping[str, Array]

    @property
    def time(self) -> Array:
        """The whole time, seconds."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True, eq=False)
class KernelModel:
    """The model of one kind of kernel: the shapes it takes, its constants, its policies, its formula.

    Another policy than the first is taken where its cost is below ``clearly_less`` of the first one's. ``stated`` ones
    are those that a library's code states, by its name, format and generation of cores: they are taken and not tried.
    Constants of its own are then ``stated_own``: what the code's kernel costs. The chip's are shared by libraries, but
    not of a kernel ``of_one_library``. ``by_code`` names kernels by library, format, path and cores.
    Policies ``of_small_cores`` are of kernels that no chip with larger cores runs, ``of_older_cores`` of such as none
    since Hopper does.
    ``prior`` is the strength of the prior of a fit: as if each constant had been measured within e^(1/prior) by fifty
    rows. ``prior_of_ten`` is its strength where ten rows of a chip move constants of others.
    """

    name: str
    shapes: tuple[str, ...]
    constants: tuple[ModelConstant, ...]
    parts: Callable[[Shapes, ChipFigures, Values, str], Parts]
    policies: tuple[str, ...] = ("",)
    sorted_by: tuple[str, ...] = field(default=())
    clearly_less: float = 1.0
    stated: tuple[str, ...] = ()
    stated_own: tuple[str, ...] = ()
    of_one_library: tuple[str, ...] = ()
    by_code: Callable[[str, str, str, str], str] | None = None
    of_small_cores: tuple[str, ...] = ()
    of_older_cores: tuple[str, ...] = ()
    prior: float = 0.05
    prior_of_ten: float = 0.5

    def defaults(self) -> dict[str, float]:
        """Typical values of all constants, for a first look and as the start of a fit."""
        return {constant.name: constant.typical for constant in self.constants}

    def own(self, policy: str = "") -> list[str]:
        """Names of the constants that each chip and library has of its own."""
        stated = self.stated_own if self.is_shared(policy) else ()
        return [one.name for one in self.constants if (one.name in stated if stated else one.own)]

    def is_shared(self, policy: str) -> bool:
        """Whether a policy is of kernels that several libraries run."""
        return policy in self.stated and policy not in self.of_one_library

    def times(self, shapes: Shapes, chip: ChipFigures, values: Values, policy: str) -> Array:
        """Seconds of each kernel."""
        return self.parts(shapes, chip, values, policy).time


def data_sheet_bound(kernel: str, s: Shapes, chip: ChipFigures) -> tuple[Array, Array]:
    """Seconds that a kernel of these shapes takes at data-sheet rates at least, and the bytes it works on."""
    flops, moved, rate = _flops_bytes_and_rate(kernel, s, chip)
    return np.maximum(flops / chip.matrix_peak if chip.matrix_peak else 0.0, moved / rate), moved


def data_sheet_times(kernel: str, s: Shapes, chip: ChipFigures) -> tuple[Array, Array]:
    """Seconds of arithmetic, and of memory or link, at data-sheet rates."""
    flops, moved, rate = _flops_bytes_and_rate(kernel, s, chip)
    return flops / max(chip.matrix_peak, 1.0) + 0 * moved, moved / rate


def _flops_bytes_and_rate(kernel: str, s: Shapes, chip: ChipFigures) -> tuple[Array, Array, Array]:
    """FLOPs, bytes, and the rate of the bytes."""
    if "contraction" in kernel:
        m, n, k, batch = s["m"], s["n"], s["k"], s.get("batch", 1.0)
        moved = batch * (m * k * s["a_bytes"] + k * n * s["b_bytes"] + m * n * s["out_bytes"])
        return 2 * batch * m * n * k, moved, chip.bandwidth
    if kernel == "latent_decode":
        both = s["head_size"] + s["value_size"]
        moved = s["batch"] * (s["length"] * s["head_size"] * s["kv_bytes"] + 2 * s["heads"] * both)
        return 2 * s["batch"] * s["heads"] * both * s["length"], moved, chip.bandwidth
    if kernel in ("prefill_attention", "decode_attention", "latent_prefill", "unmasked_attention"):
        keys = s["length"] + s.get("past", 0.0)
        queries = 1.0 if kernel == "decode_attention" else s["length"]
        unseen = 0.0 if kernel == "unmasked_attention" else (queries - 1) / 2
        flops = 4 * s["batch"] * s["heads"] * s["head_size"] * queries * (keys - unseen)
        kv_heads = s["kv_heads"] / np.maximum(s.get("shared", 1.0), 1.0)
        moved = s["batch"] * s["head_size"] * (4 * s["heads"] * queries + 2 * kv_heads * keys * s["kv_bytes"])
        return flops, moved, chip.bandwidth
    if kernel == "experts":
        each = s["hidden"] * s["inter"] * s["products"]
        return 2 * s["picks"] * each, s["touched"] * each * s["weight_bytes"], chip.bandwidth
    if "link" in s:
        return 0.0, s["sent"], s["link"]
    return 0.0, s["bytes"], chip.bandwidth


#: What a whole number of turns may be off by.
ROUNDING = 1e-9
#: The shape that says how many bytes other kernels of a step move between two calls of one.
BESIDE = "beside"


def warm_share(working_set: Array, share: float, cache: float, sharpness: float = 2.0) -> Array:
    """Share of bytes that a repeated call finds in cache: ``1 / (1 + (working set / (share · cache))^sharpness)``.

    Of weights and of keys and values the working set is all that moves between two calls: in a step the others' bytes,
    ``beside``, put them out of cache.
    """
    return 1 / (1 + np.minimum(working_set / (share * cache), 1e18) ** sharpness)  # no power is infinite


def whole(load: Array) -> Array:
    """The next whole number of turns or blocks; a rounding above one makes no other.

    >>> whole(3 * (1 / 3 + 1e-16)).item(), whole(1.1).item()
    (1.0, 2.0)
    """
    return np.ceil(load - ROUNDING)


def together(first: Array, second: Array, exponent: float) -> Array:
    """Time of two things that overlap in part: ``(a^p + b^p)^(1/p)``: their sum for 1, the larger beyond."""
    larger = np.maximum(first, second)
    smaller = np.minimum(first, second)
    return larger * (1 + (smaller / larger) ** exponent) ** (1 / exponent)


#: Word of a policy: no CUDA graph was timed, so that the host starts kernels while others run.
FROM_HOST = "from the host"
#: Word of a path: kernels in Triton, whose one code runs on every chip.
TRITON = "in Triton"


def launched(time: Array, memory: Array, launch: float, policy: str = "") -> Parts:
    """Parts of a kernel's time with its launch, which hides behind the kernels, or they behind it, ``FROM_HOST``."""
    start = np.maximum(launch - time, 0.0) if policy.endswith(FROM_HOST) else np.full_like(time, launch)
    hidden = np.minimum(memory, time)
    return Parts({"memory": hidden, "waves": time - hidden, "launch": start})


def slowed(time: Array, throttle: float, busy: Array = 1.0) -> Array:
    """Time with the clock lowered in long kernels: ``T · (1 + throttle · busy² · T / (T + 600 µs))``.

    ``busy`` is the share of the time that arithmetic units work. Power limits a clock where they nearly always do.
    """
    return time * (1 + throttle * busy**2 * time / (time + 600e-6))
