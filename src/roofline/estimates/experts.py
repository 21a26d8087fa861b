"""Time of the routed experts of a layer: two grouped products over the tokens that each expert got, and their routing.

Each expert's rows are cut into tiles of ``tm`` rows; all tiles of all experts share the cores. For each product
``[rows, k] @ [k, n]`` of every expert that got tokens::

    tiles  = row_tiles(tm) · ⌈n/128⌉
    waves  = (1 − q) · max(tiles/cores, 1) + q · ⌈tiles/cores⌉
    mma    = 2 · tm · 128 · k / (peak/cores · compute_efficiency)
    load   = (tm · bytes_A + 128 · bytes_B) · k / core_l2_rate
    tile   = (mma³ + load³)^⅓ + tile_overhead
    memory = bytes of touched weights, results and operands / min(memory_efficiency · B/s, tiles · core_memory_rate)
    T      = ((waves · tile)^p + memory^p)^(1/p)

The time is that of both products at the best ``tm``, slowed in long kernels, plus routing (tokens and experts) and a
launch. ``policy`` is the rows of a tile, where a library has one size only.

Source: a model of our own; how many experts are touched comes from ``ops``.
"""

from __future__ import annotations

from typing import Any

from roofline.estimates.kernels import (
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
    slowed,
    together,
    warm_share,
)

EXPERTS = (
    ModelConstant("compute_efficiency", "", "share of a core's peak within a tile", 0.6, 0.03, 1.6, True, "power"),
    ModelConstant("memory_efficiency", "", "share of the data-sheet bandwidth that streams", 0.7, 0.05, 1.4, own=True),
    ModelConstant("launch_time", "s", "time of the kernels without tokens", 2e-5, 1e-6, 4e-4, own=True),
    ModelConstant(
        "core_l2_rate", "B/s", "rate at which one core loads operands from cache", 1e11, 3e9, 2e12, True, "peak"
    ),
    ModelConstant("token_time", "s/B", "time to route a byte of a token", 1e-12, 1e-15, 1e-9, own=True),
    ModelConstant("expert_time", "s", "time that each expert of the chip adds", 2e-8, 1e-10, 2e-5, own=True),
    ModelConstant("elsewhere", "", "time to route a token to another chip against one to this", 0.5, 0.001, 3.0),
    ModelConstant("core_memory_rate", "B/s", "rate at which one core streams from memory", 5e10, 3e9, 2e12),
    ModelConstant("tile_overhead", "s", "time to start a tile", 5e-7, 1e-8, 2e-5),
    ModelConstant("wave_quantisation", "", "share of waves that wait for their last tile", 0.4, 0.01, 1.0),
    ModelConstant("overlap_exponent", "", "how well arithmetic and memory overlap", 2.5, 1.0, 10.0),
    ModelConstant("cache_share", "", "cache that keeps weights between calls, as a share", 0.5, 0.01, 20.0),
    ModelConstant("warm_time", "", "time of a warm byte against a cold one", 0.4, 0.02, 1.0),
    ModelConstant("throttle", "", "lower clock in long kernels", 0.05, 0.001, 1.0),
)
#: Rows of a tile, and its columns.
TILES, COLUMNS = (16, 32, 64, 128), 128
POLICIES = ("search", *(f"{rows} rows" for rows in TILES))


def row_tiles(picks: Any, touched: Any, rows: float) -> Any:
    """Tiles of some rows that evenly loaded experts have.

    >>> float(row_tiles(512, 8, 64)), float(row_tiles(512, 8, 128))
    (8.0, 8.0)
    """
    import numpy as np

    return touched * np.ceil(np.asarray(picks) / touched / rows - 1e-9)


def experts_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "search") -> Parts:
    """Parts of the time of routed experts on one chip.

    ``picks`` are the tokens that fall to this chip's experts, once for each expert chosen, and ``touched`` the
    experts that get any, of ``experts``; ``choices`` are those of all chips, where each sees all tokens.
    ``tiles_16`` … ``tiles_128`` are the tiles of so many rows, for even loads where they are not given. ``hidden`` and
    ``inter`` are the widths, ``products`` is 3 with a gate and 2 without, ``weight_bytes`` and ``a_bytes`` are bytes of
    an element.
    """
    import numpy as np

    names = ("picks", "touched", "hidden", "inter", "products", "weight_bytes", "a_bytes")
    picks, touched, hidden, inter, products, weight_bytes, a_bytes = np.broadcast_arrays(
        *(np.asarray(shapes[name], float) for name in names)
    )
    experts = np.asarray(shapes.get("experts", touched), float)
    whole = touched * hidden * inter * products * weight_bytes
    warm = warm_share(whole, c["cache_share"], chip.cache)
    sizes = TILES if policy in ("", "search") else (int(policy.partition(" ")[0]),)
    best: Any = None
    memory: Any = None
    for rows in sizes:
        tiles = np.asarray(shapes.get(f"tiles_{rows}", row_tiles(picks, touched, rows)), float)
        time, moving = 0.0, 0.0
        for columns, depth in ((inter * (products - 1), hidden), (hidden, inter)):
            count = tiles * np.ceil(columns / COLUMNS)
            busy = np.minimum(count, chip.cores)
            mma = 2 * rows * COLUMNS * depth / (chip.matrix_peak / chip.cores * c["compute_efficiency"])
            load = (rows * a_bytes + COLUMNS * weight_bytes) * depth / c["core_l2_rate"]
            tile = np.cbrt(mma * mma * mma + load * load * load) + c["tile_overhead"]
            quantised = c["wave_quantisation"]
            waves = (1 - quantised) * np.maximum(count / chip.cores, 1) + quantised * np.ceil(count / chip.cores)
            bytes_ = touched * columns * depth * weight_bytes * (1 - warm * (1 - c["warm_time"]))
            bytes_ = bytes_ + picks * (depth * a_bytes + 2 * columns)
            streamed = bytes_ / np.minimum(c["memory_efficiency"] * chip.bandwidth, busy * c["core_memory_rate"])
            time = time + together(waves * tile, streamed, c["overlap_exponent"])
            moving = moving + streamed
        if best is None:
            best, memory = time, moving
        else:
            memory, best = np.where(time < best, moving, memory), np.minimum(time, best)
    best = slowed(best, c["throttle"])
    streamed = np.minimum(memory, best)
    choices = np.asarray(shapes.get("choices", picks), float)
    routed = picks + c["elsewhere"] * np.maximum(choices - picks, 0)
    routing = routed * (hidden + inter) * c["token_time"] + experts * c["expert_time"]
    parts = {"memory": streamed, "waves": best - streamed, "routing": routing}
    return Parts({**parts, "launch": np.full_like(best, c["launch_time"])})


#: The kernel models of this file.
MODELS = (
    KernelModel(
        "experts",
        ("picks", "touched", "hidden", "inter", "products", "weight_bytes", "a_bytes", "experts"),
        EXPERTS,
        experts_parts,
        POLICIES,
        sorted_by=("picks", "touched"),
    ),
)
