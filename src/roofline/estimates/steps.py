"""Served steps: what a serving framework adds to the kernels of a step.

A decode step takes the host's time, the kernels of the decoding sequences, and its share of the prefills of new ones::

    TPOT = step_time + gap · K + request_time · B + decode_factor · Σ decode
         + prefill_factor · ((B − 1)/output) · Σ prefill
    TTFT = token_time · S + gap · K + expert_time · E + prefill_factor · Σ prefill       (nothing else running)

Sums are over kernels, of which a pass runs K, with a gap between each and the next. In the graph of a decode step the
gap stands in place of what starts a kernel that runs alone, which is no part of Σ decode. That of a collective is, the
latency of its messages, and that of experts, which are several kernels. B is the batch of one copy, no more than its
keys and values leave room for in nine tenths of the memory: further requests wait. A request waits for the prefills of
the others. A mean decode step has half of its answer behind it, and prefill is of one sequence. Its S tokens come as
text, and no graph holds its kernels: the host starts K of them one by one. The experts of each of E layers are many:
their choice, sums and sorting, quantisers, two products, and the library's own choice of kernels for so many tokens.
TTFT under load is queueing, and no estimate's matter.

Without a graph (eager) the host starts each kernel by itself: a pass takes no less than K · host_time.

A training step takes its floor, in which all overlaps, times one factor.

Constants are those of a framework on a chip, by the format of most weights, dense models and mixtures of experts apart.
Source: a model of our own, on runs published with ai-dynamo/aiconfigurator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.estimates.kernel_model import ChipFigures, KernelModel, ModelConstant, Parts, Shapes, Values
from roofline.lazy import np
from roofline.quantity import format_quantity

#: The part of a time that stands at its floor: what its other parts leave of the floor.
TO_FLOOR = "up to its floor"
#: Parts of a step in the order in which they are told.
_TOLD = ("kernels", "host", "prefill", TO_FLOOR)

SERVED = (
    ModelConstant("step_time", "s", "time of the host between steps", 1e-3, 1e-6, 0.2, own=True),
    ModelConstant("request_time", "s", "time of the host that each sequence adds", 1e-5, 1e-8, 2e-3, own=True),
    ModelConstant(
        "decode_factor",
        "",
        "time of a step's kernels in the framework against alone, without starts",
        1.0,
        0.05,
        5.0,
        own=True,
    ),
    ModelConstant("prefill_factor", "", "time of prefills between steps against alone", 1.0, 0.05, 5.0, own=True),
    ModelConstant("gap", "s", "time between a kernel and the next in the graph of a step", 1e-6, 1e-8, 2e-5, own=True),
)
FIRST_TOKEN = (
    ModelConstant("token_time", "s", "time of the host that each token of a prompt adds", 5e-6, 1e-8, 1e-4, own=True),
    ModelConstant(
        "prefill_factor", "", "time of the prefill's kernels in the framework against alone", 1.0, 0.05, 9.0, own=True
    ),
    ModelConstant("gap", "s", "time between a kernel and the next in a prefill", 5e-6, 1e-7, 1e-4, own=True),
    ModelConstant("expert_time", "s", "time of the host that the experts of a layer add", 1e-4, 1e-6, 1e-2, own=True),
)


def served_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a step of ``batch`` sequences: ``decode`` and ``mixed`` seconds of so many ``kernels``."""
    batch, decode, mixed, kernels = (np.asarray(shapes[one], float) for one in ("batch", "decode", "mixed", "kernels"))
    host = c["step_time"] + c["request_time"] * batch + c["gap"] * kernels
    return Parts({"host": host, "kernels": c["decode_factor"] * decode, "prefill": c["prefill_factor"] * mixed})


def first_token_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time to the first token of a ``prompt``, with ``prefill`` seconds of ``kernels``, on idle chips.

    ``experts`` are the layers that have some.
    """
    names = ("prompt", "prefill", "kernels", "experts")
    prompt, prefill, kernels, experts = (np.asarray(shapes[name], float) for name in names)
    host = c["token_time"] * prompt + c["gap"] * kernels + c["expert_time"] * experts
    return Parts({"host": host + 0 * prefill, "prefill": c["prefill_factor"] * prefill})


def with_floor(parts: Mapping[str, float], value: float) -> dict[str, float]:
    """Parts that add up to a time, which its floor may hold above their sum.

    >>> with_floor({"kernels": 2.0}, 3.0), with_floor({"kernels": 2.0}, 2.0)
    ({'kernels': 2.0, 'up to its floor': 1.0}, {'kernels': 2.0})
    """
    rest = value - sum(parts.values())
    return {**parts, **({TO_FLOOR: rest} if rest > 1e-9 * value else {})}


def sum_in_words(parts: Mapping[str, float], stand_in: Sequence[str] = (), alone: float = 0.0) -> str:
    """The parts of a step's time as a sum; out of the framework its kernels take ``alone`` seconds.

    >>> sum_in_words({"host": 3e-3, "kernels": 8e-3, "prefill": 0.0}, ("fp8", "bf16"), 9e-3)
    'kernels 8 ms (9 ms alone) + host 3 ms, from fp8 steps: bf16 was not measured'
    """
    told = [f"{name} {format_quantity(parts[name], 's')}" for name in _TOLD if parts.get(name)]
    if alone and parts.get("kernels") not in (None, alone):
        told[0] += f" ({format_quantity(alone, 's')} alone)"
    whose = f", from {stand_in[0]} steps: {stand_in[1]} was not measured" if stand_in else ""
    return " + ".join(told) + whose


TRAINING = (ModelConstant("step_factor", "", "time of a step against its floor", 1.6, 1.0, 5.0, own=True),)


def training_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a training step whose floor, waits of the pipeline included, is ``floor`` seconds."""
    floor = np.asarray(shapes["floor"], float)
    return Parts({"floor": floor, "above it": (c["step_factor"] - 1) * floor})


EAGER = (ModelConstant("host_time", "s", "time of the host to start a kernel without a graph", 1e-5, 1e-6, 2e-4, True),)


def eager_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Time of the host to start so many ``kernels`` one by one."""
    return Parts({"host": np.asarray(shapes["kernels"], float) * c["host_time"]})


#: Strength of the prior of ten runs: constants of steps differ more from framework to framework than those of kernels.
TEN_RUNS = 0.15
#: The kernel models of this file.
MODELS = (
    KernelModel(
        "served_step",
        ("batch", "decode", "mixed", "kernels"),
        SERVED,
        served_parts,
        ("", "bf16 cache", "fp8 cache"),
        ("batch", "decode", "kernels"),
        prior_of_ten=TEN_RUNS,
    ),
    # the policy says in which format the runs that were fitted held keys and values
    KernelModel(
        "first_token",
        ("prompt", "prefill", "kernels", "experts"),
        FIRST_TOKEN,
        first_token_parts,
        sorted_by=("prefill", "kernels"),
        prior_of_ten=TEN_RUNS,
    ),
    KernelModel("eager_kernel", ("kernels",), EAGER, eager_parts),
    KernelModel("training_step", ("floor",), TRAINING, training_parts, sorted_by=("floor",)),
)
