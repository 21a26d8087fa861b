"""Time of the routed experts of a layer: two grouped products over the tokens that each expert got, and their routing.

::

    touched = experts · (1 − (1 − 1/experts)^picks)            rows = picks / touched         picks = tokens · k
    compute = touched · ⌈rows/tile⌉ · tile · 2 · hidden · inter · products / (peak · compute_efficiency)
    memory  = touched · hidden · inter · products · bytes / (memory_efficiency · B/s) + picks · hidden · ...
    T       = (compute^p + memory^p)^(1/p) + picks · token_time + touched · expert_time + launch

Source: the expected number of experts touched as in ``ops``; the rest a model of our own.
"""

from __future__ import annotations

from roofline.estimates.kernels import (
    ChipFigures,
    Constant,
    KernelModel,
    Parts,
    Shapes,
    Values,
    register,
    slowed,
    together,
)

EXPERTS = (
    Constant("compute_efficiency", "", "share of the peak in full tiles", 0.6, 0.03, 1.6, own=True),
    Constant("memory_efficiency", "", "share of the data-sheet bandwidth that streams weights", 0.7, 0.05, 1.4, own=True),
    Constant("launch_time", "s", "time of the kernels without tokens", 2e-5, 1e-6, 4e-4, own=True),
    Constant("token_time", "s", "time to route a byte of a token", 1e-12, 1e-15, 1e-9, own=True),
    Constant("expert_time", "s", "time that each expert adds", 5e-8, 1e-10, 2e-5, own=True),
    Constant("tile", "", "rows that an expert's tokens are rounded up to", 32.0, 1.0, 256.0, own=True),
    Constant("overlap_exponent", "", "how well arithmetic and memory overlap", 2.5, 1.0, 10.0),
    Constant("fill", "", "rows of an expert at which half the efficiency is reached", 20.0, 0.1, 1000.0),
    Constant("width_fill", "", "columns of an expert at which half the efficiency is reached", 50.0, 0.1, 5000.0),
    Constant("throttle", "", "lower clock in long kernels", 0.05, 0.001, 1.0),
)


def experts_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of routed experts on one chip.

    ``tokens`` choose ``top_k`` each, of which ``share`` fall to this chip's ``experts``; ``hidden`` and ``inter`` are
    the widths, ``products`` is 3 with a gate and 2 without, ``weight_bytes`` and ``a_bytes`` are bytes of an element.
    """
    import numpy as np

    names = ("tokens", "top_k", "share", "experts", "hidden", "inter", "products", "weight_bytes", "a_bytes")
    tokens, top_k, share, experts, hidden, inter, products, weight_bytes, a_bytes = np.broadcast_arrays(
        *(np.asarray(shapes[name], float) for name in names)
    )
    picks = tokens * top_k * share
    touched = np.maximum(experts * -np.expm1(picks * np.log1p(-1 / np.maximum(experts, 1.0000001))), np.minimum(picks, 1))
    rows = picks / touched
    tile = c["tile"]
    padded = np.where(rows > tile, rows + tile / 2, tile)
    reached = c["compute_efficiency"] * (rows / (rows + c["fill"])) * (inter / (inter + c["width_fill"]))
    compute = touched * np.minimum(padded, rows + tile) * 2 * hidden * inter * products / (chip.matrix_peak * reached)
    stream = c["memory_efficiency"] * chip.bandwidth
    moved = touched * hidden * inter * products * weight_bytes
    moved = moved + picks * (2 * hidden * a_bytes + products * inter * a_bytes)
    memory = moved / stream
    time = slowed(together(compute, memory, c["overlap_exponent"]), c["throttle"])
    hidden_memory = np.minimum(memory, time)
    routing = picks * hidden * c["token_time"] + touched * c["expert_time"]
    parts = {"memory": hidden_memory, "waves": time - hidden_memory, "routing": routing}
    return Parts({**parts, "launch": np.full_like(time, c["launch_time"])})


register(
    KernelModel(
        "experts",
        ("tokens", "top_k", "share", "experts", "hidden", "inter", "products", "weight_bytes", "a_bytes"),
        EXPERTS,
        experts_parts,
        sorted_by=("tokens", "experts"),
    )
)
