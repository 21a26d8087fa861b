"""Time of a collective: a start, a latency for each chip, and the bytes that a chip sends at the link's rate.

::

    T = start + hop · (n − 1) + sent / (link_efficiency · B/s) + (sent · rounding)^½       sent = share(n) · V

``share(n)`` is that of the floor: 2(n−1)/n of V in an all-reduce, (n−1)/n where every chip gathers, scatters or
exchanges. A library switches between protocols with the size; ``middle`` is the time that this adds between them.

Source: the α–β model, R. Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994.
"""

from __future__ import annotations

from roofline.estimates.kernels import (
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
)

COLLECTIVE = (
    ModelConstant("start", "s", "time of a collective of no bytes", 1e-5, 5e-7, 5e-4, own=True),
    ModelConstant("hop", "s", "time that each further chip adds", 1e-6, 1e-9, 1e-4, own=True),
    ModelConstant(
        "link_efficiency", "", "share of the data-sheet link rate that long messages reach", 0.75, 0.02, 1.5, own=True
    ),
    ModelConstant("chip_cost", "", "how much of that rate each further chip costs", 0.02, 1e-4, 1.0, own=True),
    ModelConstant("middle", "s", "most time that medium messages add", 1e-5, 1e-8, 1e-3, own=True),
    ModelConstant("middle_bytes", "B", "size at which medium messages begin", 1e6, 1e3, 1e9, own=True),
)


def collective_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a collective that sends ``sent`` bytes of each of ``chips`` at ``link`` B/s."""
    import numpy as np

    sent, chips, link = (np.asarray(shapes[name], float) for name in ("sent", "chips", "link"))
    rate = c["link_efficiency"] * link / (1 + c["chip_cost"] * (chips - 2))
    wire = sent / rate + c["middle"] * sent / (sent + c["middle_bytes"])
    start = c["start"] + c["hop"] * (chips - 1) + 0 * wire
    return Parts({"wire": wire, "launch": start})


#: The kernel models of this file.
MODELS = (
    KernelModel("collective", ("sent", "chips", "link"), COLLECTIVE, collective_parts, sorted_by=("chips", "sent")),
)
