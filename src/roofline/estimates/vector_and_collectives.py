"""Time of kernels that move bytes: elementwise operations, norms, softmax; collectives.

Time of elementwise operations, norms and softmax: values come from memory or cache, then a core works; and a launch.

::

    memory = bytes · (1 − warm + warm / cache_speedup) / (0.9 · B/s)
    cores  = values · value_time / cores
    T      = memory + cores + launch

What a kernel stays below the rate of memory is the time of its cores, which goes with their clock: norms of PyTorch
reach 0.34 of A100's bandwidth, and 0.60 of that of A40, which is a third, for 84 cores and not 108.

Time of a collective: a start, a latency for each chip, and the bytes that a chip sends at the link's rate.

A communication library (NCCL)::

    T     = start + hop · (n − 1) + sent / rate(n) + middle · sent / (sent + middle_bytes)       sent = share(n) · V
    rate  = link_efficiency · B/s / (1 + chip_cost · (n − 2)^chip_power)        n at most the 8 of a node

``share(n)`` is that of a ring: 2(n−1)/n of V in an all-reduce, (n−1)/n where every chip gathers, scatters or
exchanges. The library switches between protocols with the size; ``middle`` is the time that this adds between them.

Serving frameworks reduce small messages with kernels of their own: in one shot each chip reads all of the others'
data, in two shots a part of it, and again the sums. Beyond ``policy`` bytes they call the communication library::

    one shot  = start + hop · (n − 1) + (n − 1) · V / rate(n)
    two shots = start + hop · (n − 1) + second_shot + 2(n−1)/n · V / rate(n)
    T         = the smaller                                         V ≤ policy bytes
    T         = library_start + 2(n−1)/n · V / (library_share · rate(n))      beyond, at least that of ``policy`` bytes

Source: the α–β model, R. Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994; one and two
shots: the custom all-reduce of vLLM, SGLang and TensorRT-LLM.
"""

from __future__ import annotations

from roofline.estimates.kernel_model import (
    Array,
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
    warm_share,
)
from roofline.estimates.row_expectations import decided
from roofline.lazy import np

#: Share of the data sheet's bandwidth that memory streams at.
STREAMED = 0.9
VECTOR = (
    ModelConstant("launch_time", "s", "time of an empty kernel", 5e-6, 2e-7, 1e-4, own=True),
    ModelConstant("cache_share", "", "cache that keeps operands between calls, as a share", 1.2, 0.02, 20.0, own=True),
    ModelConstant("cache_speedup", "", "rate of the cache against that of memory", 4.0, 1.0, 40.0, own=True),
    ModelConstant("value_time", "s", "time of a value on a core", 6e-11, 2e-13, 2e-9, own=True),
)


def vector_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of an operation that moves ``bytes``, which are ``values``."""
    moved = np.asarray(shapes["bytes"], float)
    warm = warm_share(moved, c["cache_share"], chip.cache)
    memory = moved / (STREAMED * chip.bandwidth) * (1 - warm + warm / c["cache_speedup"])
    at_cores = np.asarray(shapes["values"], float) * c["value_time"] / chip.cores
    return Parts({"memory": memory, "cores": at_cores, "launch": np.full_like(memory, c["launch_time"])})


_LINK = (
    ModelConstant("start", "s", "time of a collective of no bytes", 1e-5, 5e-7, 5e-4, True, "start"),
    ModelConstant("hop", "s", "time that each further chip adds", 1e-6, 1e-9, 1e-4, own=True),
    ModelConstant(
        "link_efficiency", "", "share of the data-sheet link rate that long messages reach", 0.75, 0.02, 1.5, own=True
    ),
    ModelConstant("chip_cost", "", "how much of that rate further chips cost", 0.02, 1e-4, 8.0, own=True),
    ModelConstant("chip_power", "", "how that cost grows with further chips", 1.0, 0.1, 2.0, own=True),
)
COLLECTIVE = (
    *_LINK,
    ModelConstant("middle", "s", "most time that medium messages add", 1e-5, 1e-8, 1e-3, True, "start"),
    ModelConstant("middle_bytes", "B", "size at which medium messages begin", 1e6, 1e3, 1e9),
)
ALL_REDUCE = (
    *_LINK,
    ModelConstant("second_shot", "s", "time that a second shot adds", 3e-6, 1e-8, 1e-4, True, "start"),
    ModelConstant(
        "library_start", "s", "time of an all-reduce of the communication library", 2e-5, 1e-6, 1e-3, moves_with="start"
    ),
    ModelConstant("library_share", "", "its rate against that of the framework's kernels", 1.0, 0.2, 3.0),
)
#: Largest message, in bytes, that a framework reduces with a kernel of its own. Below 8 MiB is what vLLM's code states
#: where no memory is shared between chips (custom_all_reduce.py, ``max_size``).
LARGEST = {f"up to {2**power} MiB": 2.0 ** (power + 20) for power in range(8)} | {
    "up to 512 KiB": 2.0**19,
    "below 8 MiB": 2.0**23 - 1,
    "all sizes": float("inf"),
}
#: Serving frameworks by the names of their constants, each with its other names. They reduce over the chips of one node
#: with a kernel of their own. Other libraries call NCCL; all do beyond a node.
FRAMEWORKS = {"vllm": "", "sglang": "", "trtllm": "tensorrt-llm tensorrt_llm trt-llm trt_llm"}
#: Chips of a node, which kernels of frameworks reach.
NODE = 8


def runs_own_all_reduce(library: str, chips: Array) -> bool:
    """Whether a serving framework reduces over these chips with a kernel of its own.

    >>> runs_own_all_reduce("vllm", 8), runs_own_all_reduce("vllm", 16), runs_own_all_reduce("nccl", 8)
    (True, False, False)
    """
    return library in FRAMEWORKS and decided(chips <= NODE)


def _rate(c: Values, link: Array, chips: Array) -> Array:
    # chips of a host share its buses, and those beyond it have their own
    further = np.clip(chips - 2, 0.0, NODE - 2)
    return c["link_efficiency"] * link / (1 + c["chip_cost"] * further ** c["chip_power"])


def collective_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a collective that sends ``sent`` bytes of each of ``chips`` at ``link`` B/s."""
    sent, chips, link = (np.asarray(shapes[name], float) for name in ("sent", "chips", "link"))
    wire = sent / _rate(c, link, chips) + c["middle"] * sent / (sent + c["middle_bytes"])
    start = c["start"] + c["hop"] * (chips - 1) + 0 * wire
    return Parts({"wire": wire, "launch": start})


def all_reduce_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a framework's all-reduce, in which a ring sends ``sent`` bytes of each of ``chips``."""
    sent, chips, link = (np.asarray(shapes[name], float) for name in ("sent", "chips", "link"))
    rate, largest = _rate(c, link, chips), LARGEST.get(policy, float("inf"))
    size = sent * chips / (2 * (chips - 1))
    most = np.minimum(size, largest)
    shots = np.minimum((chips - 1) * most / rate, c["second_shot"] + 2 * (chips - 1) / chips * most / rate)
    own, ring = c["start"] + c["hop"] * (chips - 1), sent / (c["library_share"] * rate)
    is_own = (size <= largest) | (own + shots >= c["library_start"] + ring)
    wire, start = np.where(is_own, shots, ring), np.where(is_own, own, c["library_start"])
    return Parts({"wire": wire, "launch": start + 0 * wire})


#: The kernel models of this file.
MODELS = (
    *(
        KernelModel(name, ("bytes", "values"), VECTOR, vector_parts, sorted_by=("bytes",))
        for name in ("elementwise", "norm", "softmax")
    ),
    KernelModel("collective", ("sent", "chips", "link"), COLLECTIVE, collective_parts, sorted_by=("chips", "sent")),
    KernelModel(
        "all_reduce",
        ("sent", "chips", "link"),
        ALL_REDUCE,
        all_reduce_parts,
        ("all sizes", *(name for name in LARGEST if name != "all sizes")),
        sorted_by=("chips", "sent"),
    ),
)
