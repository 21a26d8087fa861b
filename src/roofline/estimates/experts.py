"""Time of the routed experts of a layer: two grouped products over the tokens that each expert got, and their routing.

::

    rows    = picks / touched, and half a tile more, one tile at least
    reached = compute_efficiency · rows/(rows + fill) · inter/(inter + width_fill)
    compute = touched · rows · 2 · hidden · inter · products / (peak · reached)
    memory  = (touched · hidden · inter · products · bytes + picks · (2 hidden + products · inter) · bytes_A) / stream
    T       = (compute^p + memory^p)^(1/p), slowed, + picks · hidden · token_time + touched · expert_time + launch

Source: a model of our own; how many experts are touched comes from ``ops``.
"""

from __future__ import annotations

from roofline.estimates.kernels import (
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
    slowed,
    together,
)

EXPERTS = (
    ModelConstant("compute_efficiency", "", "share of the peak in full tiles", 0.6, 0.03, 1.6, own=True),
    ModelConstant("memory_efficiency", "", "share of the data-sheet bandwidth that streams", 0.7, 0.05, 1.4, own=True),
    ModelConstant("launch_time", "s", "time of the kernels without tokens", 2e-5, 1e-6, 4e-4, own=True),
    ModelConstant("token_time", "s", "time to route a byte of a token", 1e-12, 1e-15, 1e-9, own=True),
    ModelConstant("expert_time", "s", "time that each expert adds", 5e-8, 1e-10, 2e-5, own=True),
    ModelConstant("tile", "", "rows that an expert's tokens are rounded up to", 32.0, 1.0, 256.0, own=True),
    ModelConstant("overlap_exponent", "", "how well arithmetic and memory overlap", 2.5, 1.0, 10.0),
    ModelConstant("fill", "", "rows of an expert at which half the efficiency is reached", 20.0, 0.1, 1000.0),
    ModelConstant("width_fill", "", "columns of an expert at which half the efficiency is reached", 50.0, 0.1, 5000.0),
    ModelConstant("throttle", "", "lower clock in long kernels", 0.05, 0.001, 1.0),
)


def experts_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of routed experts on one chip.

    ``picks`` are the tokens that fall to this chip's experts, once for each expert chosen, and ``touched`` the
    experts that get any; ``hidden`` and ``inter`` are the widths, ``products`` is 3 with a gate and 2 without,
    ``weight_bytes`` and ``a_bytes`` are bytes of an element.
    """
    import numpy as np

    names = ("picks", "touched", "hidden", "inter", "products", "weight_bytes", "a_bytes")
    picks, touched, hidden, inter, products, weight_bytes, a_bytes = np.broadcast_arrays(
        *(np.asarray(shapes[name], float) for name in names)
    )
    rows = picks / touched
    tile = c["tile"]
    padded = np.where(rows > tile, rows + tile / 2, tile)
    reached = c["compute_efficiency"] * (rows / (rows + c["fill"])) * (inter / (inter + c["width_fill"]))
    compute = touched * padded * 2 * hidden * inter * products / (chip.matrix_peak * reached)
    moved = touched * hidden * inter * products * weight_bytes + picks * (2 * hidden + products * inter) * a_bytes
    memory = moved / (c["memory_efficiency"] * chip.bandwidth)
    time = slowed(together(compute, memory, c["overlap_exponent"]), c["throttle"])
    streamed = np.minimum(memory, time)
    routing = picks * hidden * c["token_time"] + touched * c["expert_time"]
    parts = {"memory": streamed, "waves": time - streamed, "routing": routing}
    return Parts({**parts, "launch": np.full_like(time, c["launch_time"])})


#: The kernel models of this file.
MODELS = (
    KernelModel(
        "experts",
        ("picks", "touched", "hidden", "inter", "products", "weight_bytes", "a_bytes"),
        EXPERTS,
        experts_parts,
        sorted_by=("picks", "touched"),
    ),
)
