"""Constants for a chip that has none of its own: from which chips, by which rule, and how far off that was.

Figures of the data sheet move constants from chip to chip, memory is that of the data sheet::

    time of a core        · clock there / clock here
    rate that feeds it    · peak of a core here / there, sustained; within a generation · clock here / there;
                            from larger cores to others, where code states the tiles, the root of both
    share of the cache    · 2 from a cache in halves to one that is whole, at most all of it; ½ back
    share of the peak     · sustained here / there,     sustained = min(1, watts / (peak · energy of a FLOP))
                            within a generation √(watts / (peak · 1.6 energy)), at most 1, for both,
                            and 1.06 of a GeForce board; no rate grows with it, nor a share beyond that
    time of all cores     · cores · clock there / here
    share of the bandwidth  · streamed there / here,     streamed = 0.9 where error correction shares the bus
    rate of a quantiser   · √(cores · clock here / there · streamed bandwidth here / there)
    1 + slowing of long products    · √(sustained there / here),    of another generation

Of a collective what cores do goes with the clock, the hop from chip to chip stays as it is, and bytes take the link.
A launch of a product takes some 5,000 cycles on every chip that was measured. One of more than 10,000 is the host's
time and stays. What a quantiser reads and writes is in part in cache, which keeps up with cores, and in part in memory.
A call of attention launches as many kernels as its library's code says, and its launch is as many times as long. Where
code has another kernel of prefill, shares of the peak with narrow and wide heads stay behind.
The energy of a FLOP is that of the leanest measured chip with such cores that holds its clock. In prefill attention,
whose units rest between products, the share of the peak stays from generation to generation and goes with the clock
that power holds within one; the time beside a block's arithmetic shrinks as the rate that feeds a core grows. Chips of
one generation, one kind of cores and one of main memory run the same kernels.
Another generation has other kernels. There::

    time     = exp(Σ weight · log time of each chip's constants),     weight ∝ 2^(−distance)
    distance = generations between the chips + (2 where one has larger cores and the other has not)

Products take no less there than their FLOPs times that energy over the chip's watts, with Hopper's for stacked
Blackwell. Larger are cores of chips with stacked memory, and of Jetsons: they run other tiles, and since Hopper other
kernels of attention. Where code states the tiles of the chip, that is 1 and not 2; kernels of stated tiles are 1 more
apart where those of one chip are CUTLASS 2's, as Ada's. Outside the sizes that were measured an interval widens with
each doubling, :func:`widened`.

``transfers.toml`` holds the residuals of this rule on chips whose rows were left out, by kind of kernel; an interval
comes from it, half way from the kind's to that of the rows of one library, format and path. A kind of kernel that was
measured on one chip alone says nothing of another generation: no promise.

>>> from roofline.hardware import chip
>>> distance(chip("h200"), chip("h100")), distance(chip("b200"), chip("h100")), distance(chip("b200"), chip("a100"))
(0, 1, 2)
>>> distance(chip("b200"), chip("rtx-pro-6000")), distance(chip("a10"), chip("l40s"))
(2, 1)
>>> [round(sustained(chip(key)), 2) for key in ("a100", "l40s", "l4", "h100", "h100-pcie")]
[1.0, 0.8, 0.5, 1.0, 0.65]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from roofline.estimates.kernel_model import TRITON, ChipFigures, KernelModel, Shapes, Values, data_sheet_times
from roofline.files import read_toml
from roofline.frozen import dataclass, field
from roofline.hardware import chip
from roofline.hardware.catalog import chips_of_family
from roofline.hardware.machine import Machine
from roofline.lazy import np

#: Families of chips in the order of their generations; those of one row are of one.
GENERATIONS: tuple[tuple[str, ...], ...] = (
    ("nvidia-kepler",), ("nvidia-pascal",), ("nvidia-volta",), ("nvidia-turing",), ("nvidia-ampere",),
    ("nvidia-ada", "nvidia-hopper"), ("nvidia-blackwell",), ("nvidia-rubin",),
)  # fmt: skip
#: Place of the generation whose larger cores run kernels of their own: multiplications that wait for no thread.
HOPPERS = 5
#: Distance of a family of the same vendor that stands in no order, or of its cores by another name, and between larger
#: cores and others.
UNORDERED, LARGER = 3, 2
#: FLOPs in half precision of a core in a cycle, beyond which it is one of the larger; others have 512 or 1,024.
LARGE_CORE, STACKED = 1_500.0, "hbm"
#: Joules of a FLOP in half precision: of cores that multiply registers (RTX PRO 6000: 600 W, 504 TFLOP/s), and of
#: Hopper's, which multiply shared memory (H100: 700 W, 989 TFLOP/s). Ampere's without stacked memory, of an 8 nm
#: process, take more: what best products on RTX A6000 and A4000 ask for (:data:`BEYOND_BOOST` has their source).
#: Blackwell's stacked chips were not measured; what others published of them, by 500 to 1,400 W, asks for Hopper's at
#: least.
_REGISTERS, _SHARED, _EIGHT_NM = 1.19e-12, 7.07e-13, 1.9e-12
ENERGY = {
    ("nvidia-ampere", "hbm"): _REGISTERS, ("nvidia-ampere", "dram"): _EIGHT_NM, ("nvidia-ada", "dram"): _REGISTERS,
    ("nvidia-blackwell", "dram"): _REGISTERS, ("nvidia-hopper", "hbm"): _SHARED,
}  # fmt: skip
LEAST_ENERGY = {**ENERGY, ("nvidia-blackwell", "hbm"): _SHARED}
#: Families whose chips with stacked memory have a cache in two halves, each of which keeps what cores beside it read,
#: so that lines may lie in both: NVIDIA, "A100 Tensor Core GPU Architecture". Other caches keep a line once.
HALVED = ("nvidia-ampere", "nvidia-hopper", "nvidia-blackwell", "nvidia-rubin")
#: Generations of cores by the names that libraries' code has for them, by family and whether they are the larger ones.
CORES = {
    ("nvidia-ampere", True): "sm80", ("nvidia-ampere", False): "sm86", ("nvidia-ada", False): "sm89",
    ("nvidia-hopper", True): "sm90", ("nvidia-blackwell", True): "sm100", ("nvidia-blackwell", False): "sm120",
}  # fmt: skip
#: Those whose stated tiles are of kernels of CUTLASS 2: others have CUTLASS 3's, which copy asynchronously in bulk.
CUTLASS_2 = ("sm89",)
#: Kinds of kernels whose units do not rest between products.
PRODUCTS = ("contraction", "experts")
#: Energy of a FLOP at the full clock, against that of the leanest chip.
FULL_CLOCK = 1.6
#: Clock that a GeForce board reaches where its power allows it, against the boost clock that its peak is stated for.
#: The best product in bf16 that PyTorch reached on each of 16 such boards is 0.91 to 1.16 of that peak, 1.06 in the
#: middle (zzc0721/torch-performance-test-data). Boards for workstations and servers keep to the stated one.
GEFORCE, BEYOND_BOOST = "GeForce", 1.06
#: Share of the bandwidth that is left where bits of error correction lie beside the data: on boards for servers with
#: GDDR up to Ada, which have it switched on. Workstations have it off, GDDR7 and HBM bring bits of their own.
#: NVIDIA says that it costs some 20% and depends on the pattern (CUDA C++ Best Practices Guide, "Theoretical Bandwidth
#: Calculation"); sister boards with and without read at 0.91 to 0.93 (XiongjieDai/GPU-Benchmarks-on-LLM-Inference).
CORRECTED = 0.9
SERVER_BOARDS, CORRECTS_ITSELF = re.compile(r"(NVIDIA|Tesla) [A-Z]\d"), ("nvidia-blackwell", "nvidia-rubin")
#: Cycles beyond which a launch is the time of the host.
HOST_CYCLES = 10_000
#: FLOPs in single precision that a core starts in a cycle: half as many in the large cores up to Ampere.
LANES, FEWER_LANES = 256.0, (("nvidia-volta", "hbm"), ("nvidia-turing", "dram"), ("nvidia-ampere", "hbm"))
FILE = Path(__file__).with_name("transfers.toml")
#: Where constants come from, in words.
SAME, OTHER, OTHER_MODEL, OTHER_FORMAT = "its generation", "another generation", "another model", "another format"
#: Constants of a kind of kernel stand for another kind.
OTHER_KIND = "another kind"
#: Sizes outside those that were measured: the interval is what each doubling beyond them adds.
OUTSIDE = "sizes outside, for each doubling"


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far estimates were off on chips whose rows were left out: interval of measured ÷ estimate, errors, rows.

    ``own`` are intervals of a library, format and path of the kind, half way from the kind's to that of their own rows.
    """

    kernel: str
    to: str
    interval: tuple[float, float]
    error: Mapping[str, float]
    source: str
    own: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@cache
def transfers() -> tuple[Transfer, ...]:
    """What was measured of constants on chips that they were not fitted to."""
    return tuple(
        Transfer(
            one["kernel"], one["to"], (one["interval"][0], one["interval"][1]), one["error"], one["source"],
            {name: (ends[0], ends[1]) for name, ends in one.get("own", {}).items()},
        )
        for one in read_toml(FILE, "file of constants")["transfer"]
    )  # fmt: skip


@lru_cache(maxsize=256)
def transfer(kernel: str, to: str) -> Transfer | None:
    """The residuals of a kind of kernel, or of the kind that stands for one that was not tried.

    Within a generation those are of products, outside the sizes that were measured those that widen most.
    """
    found = {one.kernel: one for one in transfers() if one.to == to}
    stand_ins = {
        SAME: found.get("contraction"),
        OUTSIDE: max(found.values(), key=lambda one: one.interval[1], default=None),
    }
    return found.get(kernel, stand_ins.get(to))


def of_its_own(library: str, dtype: str, path: str) -> str:
    """The name that kernels of a library, format and path have among the intervals of their kind."""
    return " ".join(filter(None, (library, dtype, path)))


def widened(kernel: str, octaves: float, low: Any, high: Any) -> tuple[Any, Any]:
    """An interval so many doublings outside the sizes that were measured.

    It grows as intervals of kernels fitted on the inner sizes had to, to hold 80% of the outer ones. A kind of kernel
    that was not tried takes the widest of those that were.

    >>> low, high = widened("contraction", 2.0, 0.9, 1.1)
    >>> low < 0.9, high > 1.1, widened("contraction", 0.0, 0.9, 1.1)
    (True, True, (0.9, 1.1))
    """
    known = transfer(kernel, OUTSIDE)
    if known is None:
        return low, high
    down, up = known.interval
    return low * down**octaves, high * up**octaves


def distance(one: Machine, other: Machine) -> int:
    """How far two chips of a vendor are apart: generations between them, and more for another kind of cores.

    With stacked memory and without they are never of one generation.
    """
    apart = _generations(one, other) + LARGER * (has_large_cores(one) != has_large_cores(other))
    return max(apart, int(one.memories[0].name != other.memories[0].name))


def has_large_cores(machine: Machine) -> bool:
    """Whether a chip has a generation's larger cores, as those with stacked memory have.

    >>> from roofline.hardware import chip
    >>> [key for key in ("h20", "rtx-5090", "agx-thor", "l4", "agx-orin") if has_large_cores(chip(key))]
    ['h20', 'agx-thor', 'agx-orin']
    """
    cores, peak = machine.cores or 0, _half_precision(machine)
    each = cores * (clock(machine, cores) or 0.0)
    return machine.memories[0].name == STACKED or bool(each and peak and peak / each > LARGE_CORE)


def _generations(one: Machine, other: Machine) -> int:
    places = {family: place for place, row in enumerate(GENERATIONS) for family in row}
    if one.family in places and other.family in places:
        return abs(places[one.family] - places[other.family])
    same_cores = one.core == other.core or not (one.core and other.core)
    return 0 if one.family == other.family and same_cores else UNORDERED


def weights(machine: Machine, chips: Iterable[str], own_tiles: bool | None = None) -> dict[str, float]:
    """Weight of each measured chip's constants for a machine, the nearest first; those of its generation stand alone.

    Where code states the tiles of the chips, ``own_tiles`` says whether also those of the machine.

    >>> from roofline.hardware import chip
    >>> weights(chip("h200"), ["a100", "h100"])
    {'h100': 1.0}
    >>> {name: round(weight, 2) for name, weight in weights(chip("b200"), ["a100", "h100", "l40s"]).items()}
    {'h100': 0.57, 'a100': 0.29, 'l40s': 0.14}
    >>> weights(chip("l40s"), ["h100", "rtx-pro-6000"], own_tiles=True)
    {'rtx-pro-6000': 0.5, 'h100': 0.5}
    """
    far = {key: distance(machine, chip(key)) for key in dict.fromkeys(chips)}
    for key, steps in far.items():
        if steps and own_tiles is not None:
            other = chip(key)
            far[key] -= own_tiles and has_large_cores(machine) != has_large_cores(other)
            far[key] += (cores_of(machine) in CUTLASS_2) != (cores_of(other) in CUTLASS_2)
    near = [key for key, steps in far.items() if steps == 0]
    ranked = near[:1] or sorted(far, key=lambda key: (far[key], has_large_cores(chip(key)) != has_large_cores(machine)))
    total = sum(2.0 ** -far[key] for key in ranked)
    return {key: 2.0 ** -far[key] / total for key in ranked}


def sustained(machine: Machine) -> float:
    """Share of a chip's peak that its power sustains; 1 where its watts or the energy of a FLOP are not known.

    A peak that the caller gives is a question about the chip and says nothing of its power.
    """
    each = _joules(machine)
    return 1.0 if each is None else min(1.0, each[0] / each[1])


def within_power(kernel: str, shapes: Shapes, figures: ChipFigures, machine: Machine, time: Any) -> Any:
    """The time of a kernel by constants of another generation, no less than its products take at a chip's watts.

    >>> from roofline.hardware import chip
    >>> square = {**dict.fromkeys("mnk", 8192.0), "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
    >>> figures = ChipFigures(148, 2.25e15, 8e12, 1.26e8)
    >>> [round(1e6 * float(within_power("contraction", square, figures, chip("b200"), us * 1e-6))) for us in (600, 800)]
    [777, 800]
    """
    each = _joules(machine, LEAST_ENERGY)
    if each is None or not kernel.endswith(PRODUCTS):
        return time
    return np.maximum(time, data_sheet_times(kernel, shapes, figures)[0] / min(1.0, each[0] / each[1]))


def clock_held(machine: Machine) -> float | None:
    """Share of its clock that a chip's power holds, against chips with the same cores; None where that is not known.

    Voltage falls with the clock, so that power goes with more than its square: ``√(watts / (peak · energy))``, with the
    energy of a FLOP at the full clock, and at most what its :func:`boost` is.
    """
    each = _joules(machine)
    return None if each is None else min(boost(machine.name, *machine.match), (each[0] / (each[1] * FULL_CLOCK)) ** 0.5)


def boost(*names: str) -> float:
    """The clock that a board of such names reaches where its power allows it, against the stated one.

    >>> boost("NVIDIA GeForce RTX 4090"), boost("NVIDIA RTX 6000 Ada Generation")
    (1.06, 1.0)
    """
    return BEYOND_BOOST if any(GEFORCE in name for name in names) else 1.0


def streamed(machine: Machine) -> float:
    """Share of the stated bandwidth that bits of error correction leave to data.

    >>> from roofline.hardware import chip
    >>> [streamed(chip(key)) for key in ("l40s", "a10g", "t4", "rtx-6000-ada", "rtx-pro-6000", "a100", "agx-orin")]
    [0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0]
    """
    beside = machine.memories[0].name != STACKED and machine.family not in CORRECTS_ITSELF
    return CORRECTED if beside and SERVER_BOARDS.match(machine.name) else 1.0


def _kept_once(machine: Machine) -> float:
    """Share of a cache that lines fill which each of its halves keeps."""
    return 0.5 if machine.memories[0].name == STACKED and machine.family in HALVED else 1.0


def _clocks_held(here: Machine, there: Machine) -> float:
    """How much more of its clock a chip holds than another with the same cores; 1 where one of them is not known."""
    held = clock_held(here), clock_held(there)
    return held[1] / held[0] if held[0] and held[1] else 1.0


def _joules(machine: Machine, energies: Mapping[tuple[str, str], float] = ENERGY) -> tuple[float, float] | None:
    """Joules that a chip has for a FLOP in half precision, and joules that the leanest chip with such cores takes."""
    energy, peak = energies.get((machine.family, machine.memories[0].name)), _half_precision(machine)
    return None if energy is None or machine.tdp is None or peak is None else (float(machine.tdp.value) / peak, energy)


def _half_precision(machine: Machine) -> float | None:
    """FLOP/s of a chip in half precision as its data sheet states them; None where only the caller does."""
    stated = [unit.peaks[dtype] for unit in machine.units for dtype in ("bf16", "fp16") if dtype in unit.peaks]
    return max((float(figure.value) for figure in stated if not figure.is_set), default=None)


def cores_or_a_sisters(machine: Machine) -> int | None:
    """Cores of a chip; of one that states none those of the sister with the nearest peak, None where there is none.

    >>> from roofline.hardware import chip
    >>> [cores_or_a_sisters(chip(key)) for key in ("h100", "h800", "b300", "l40s", "rubin")]
    [132, 132, 148, 142, None]
    """
    peak = _half_precision(machine)
    return (
        machine.cores
        if machine.cores or peak is None
        else _sisters_cores(machine.family, peak, has_large_cores(machine))
    )


@cache
def _sisters_cores(family: str, peak: float, large: bool) -> int | None:
    every = map(chip, chips_of_family(family.rpartition("-")[2]))
    sisters = (one for one in every if one.family == family and one.cores and has_large_cores(one) == large)
    far = {one.cores: abs((_half_precision(one) or 0.0) - peak) for one in sisters}
    return min(far, key=lambda cores: far[cores], default=None)


def clock(machine: Machine, cores: float) -> float | None:
    """Cycles a second of a chip's cores: as stated, or from its peak in single precision; None where not known."""
    for unit in machine.units:
        if unit.kind == "vector" and unit.clock is not None:
            return float(unit.clock.value)
        if unit.kind == "vector" and "fp32" in unit.peaks and cores:
            fewer = (machine.family, machine.memories[0].name) in FEWER_LANES
            return float(unit.peaks["fp32"].value) / (cores * LANES / (2 if fewer else 1))
    return None


def cores_of(machine: Machine) -> str:
    """The name that code has for the cores of a chip; empty where none is known.

    >>> from roofline.hardware import chip
    >>> cores_of(chip("h200")), cores_of(chip("v100"))
    ('sm90', '')
    """
    return CORES.get((machine.family, has_large_cores(machine)), "")


def stated_policy(model: KernelModel, library: str, dtype: str, path: str, machine: Machine) -> str:
    """The policy that a library's code states for its kernels on a chip; empty where none is known.

    >>> from roofline.estimates.constants import KERNELS
    >>> from roofline.hardware import chip
    >>> stated_policy(KERNELS["quantised_contraction"], "vllm", "fp8", "", chip("h200"))
    'vllm fp8 sm90'
    >>> stated_policy(KERNELS["quantised_contraction"], "trtllm", "fp8", "", chip("h200"))
    ''
    """
    named = " ".join(filter(None, (library, dtype, path, cores_of(machine))))
    return named if named in model.stated else ""


def kernel_elsewhere(model: KernelModel, library: str, dtype: str, path: str, machine: Machine) -> str:
    """The kernel that a library's code has on a chip, by whose name a policy states its tiles; empty where not known.

    >>> from roofline.estimates.constants import KERNELS
    >>> from roofline.hardware import chip
    >>> kernel_elsewhere(KERNELS["prefill_attention"], "vllm", "bf16", "", chip("h200"))
    'FlashAttention-3 of sm90'
    """
    if model.by_code:
        return model.by_code(library, dtype, path, cores_of(machine))
    return stated_policy(model, library, dtype, path, machine)


def policy_elsewhere(model: KernelModel, policy: str, machine: Machine, path: str = "") -> str:
    """The policy that constants of another chip, with one of theirs, have on a chip; Triton's kernels are everywhere.

    >>> from roofline.estimates.constants import KERNELS
    >>> from roofline.hardware import chip
    >>> [policy_elsewhere(KERNELS["contraction"], "small nosplit", chip(key)) for key in ("l4", "b200")]
    ['small nosplit', 'search']
    >>> [policy_elsewhere(KERNELS["decode_attention"], "whole", chip(key)) for key in ("a100", "rtx-5090", "b200")]
    ['whole', 'whole', '']
    """
    if not has_large_cores(machine) or TRITON in path:
        return policy
    newer = any(machine.family in row for row in GENERATIONS[HOPPERS:])
    return model.policies[0] if policy in model.of_small_cores or (newer and policy in model.of_older_cores) else policy


def on_another_chip(
    model: KernelModel, values: Values, source: ChipFigures, target: ChipFigures, here: Machine, there: Machine,
    *, launches: float = 1.0, tiles: bool = False, other_kernel: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Constants of one chip for another: ``source`` and ``here`` are the chip that was measured.

    ``launches`` are kernels that a call launches there for each one here. Where code states the ``tiles`` there, they
    do not shrink with the cores, nor does a core's port to the cache. ``other_kernel``: code has another kernel there.
    """
    clocks = clock(here, source.cores), clock(there, target.cores)
    cycle = clocks[0] / clocks[1] if clocks[0] and clocks[1] else 1.0
    if not source.matrix_peak or not target.matrix_peak:  # no products: elements, and messages between chips
        moves = {one.name: cycle if one.moves_with == "start" else 1.0 for one in model.constants}
        return {name: value * moves[name] for name, value in values.items()}
    alike = distance(here, there) == 0
    power = _clocks_held(here, there) if alike else sustained(there) / sustained(here)
    # the same cores load as much in a cycle, whatever format's units were left out of them; power that is left over
    # speeds up arithmetic, which had to wait for it, and no load of a short product
    grown = 1 / cycle if alike else (target.matrix_peak / target.cores) / (source.matrix_peak / source.cores)
    chips = target.cores / source.cores / cycle
    stream = streamed(there) / streamed(here)
    traffic = (chips * stream * target.bandwidth / source.bandwidth) ** 0.5
    fed = grown * (min(power, 1.0) if alike else power)
    if tiles and has_large_cores(here) > has_large_cores(there):
        fed = (fed / cycle) ** 0.5
    factors = {
        "peak": fed, "power": power, "held": power if alike else 1.0, "cores": chips, "stream": stream,
        "traffic": traffic, "cache": _kept_once(there) / _kept_once(here), "start": 1 / cycle,
        "kernel": 1.0, "": 1.0,
    }  # fmt: skip
    moved = {}
    for one in model.constants:
        if one.moves_with == "slowing":
            more = 0.0 if alike else power**-0.5 - 1
            moved[one.name] = min(max(values[one.name] + (1 + values[one.name]) * more, one.low), one.high)
            continue
        if one.moves_with == "kernel" and other_kernel:
            moved[one.name] = one.typical
            continue
        factor = factors[one.moves_with]
        if one.moves_with == "start" and values[one.name] * (clocks[0] or 0.0) > HOST_CYCLES:
            factor = 1.0
        if one.unit == "s":
            factor = 1 / factor if one.moves_with else cycle
        factor *= launches if one.name == "launch_time" else 1.0
        most = max(values[one.name], 1.0) if one.moves_with == "cache" else one.high
        if alike and one.moves_with in ("power", "held"):  # power left over brings a clock back, and none beyond it
            most = min(most, max(values[one.name], boost(there.name, *there.match)))
        moved[one.name] = min(max(values[one.name] * factor, one.low), most)
    return moved


def mixed(times: Sequence[Any], shares: Sequence[float]) -> Any:
    """The weighted geometric mean of times.

    >>> float(mixed([1.0, 4.0], [0.5, 0.5]))
    2.0
    """
    return np.exp(sum(share * np.log(time) for time, share in zip(times, shares, strict=True)))
