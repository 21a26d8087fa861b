"""Time of the routed experts of a layer: two grouped products over the tokens that each expert got, and their routing.

Each expert's rows are cut into tiles of ``tm`` rows; all tiles of all experts share the cores. For each product
``[rows, k] @ [k, n]`` of every expert that got tokens::

    tiles  = row_tiles(tm) · ⌈n/128⌉;  row_tiles = touched · max(1, load/tm + ½) where the load of each is not known
    waves  = (1 − q) · max(tiles/cores, 1) + q · ⌈tiles/cores⌉
    mma    = 2 · tm · 128 · k / (peak/cores · compute_efficiency)
    load   = (tm · bytes_A + 128 · bytes_B) · k / core_l2_rate
    tile   = (mma³ + load³)^⅓ + tile_overhead
    memory = bytes of touched weights, results and operands / min(memory_efficiency · B/s, busy · core_memory_rate)
    busy   = touched · n/128, at most the cores: a tile of few columns brings as few bytes, tiles below it the same
    T      = ((waves · tile)^p + memory^p)^(1/p)

The time is that of both products at the best ``tm``, slowed in long kernels, plus routing (tokens and experts) and a
launch. ``policy`` is the rows of a tile, where a library has one size only, or its rule: ``triton`` has tiles of
16 × 32 for at most as many tokens as experts, of 64 × 64 for more; ``marlin`` the least that rows do not fill. Fewer
tokens may take a larger tile, so that no time falls as tokens grow.

Source: a model of our own; how many experts are touched comes from ``ops``.
"""

from __future__ import annotations

from typing import Any

from roofline.estimates.kernel_model import (
    BESIDE,
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
from roofline.lazy import np

EXPERTS = (
    ModelConstant("compute_efficiency", "", "share of a core's peak within a tile", 0.6, 0.03, 1.6, True, "power"),
    ModelConstant("memory_efficiency", "", "share of the bandwidth that streams", 0.7, 0.05, 1.4, True, "stream"),
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
#: Rows of a tile, and its columns, of Triton's grouped product where no tiles were tuned for the number and width of
#: experts: with at most as many tokens as experts, and with more. Source: get_default_config of vLLM 0.14, SGLang 0.5.
UNTUNED = (16, 32), (64, 64)
#: Rows of a tile of Marlin's grouped product: the first that an expert's rows fill to less than a share.
MARLIN, FILLED = (8, 16, 32, 48, 64), 0.9
#: Choices of a token, where only all choices are known: those of most mixtures.
USUAL_CHOICES = 8
EXPERT_POLICIES = ("search", *(f"{rows} rows" for rows in TILES), "triton", "marlin")


def row_tiles(picks: Any, touched: Any, rows: float) -> Any:
    """Tiles of some rows that experts have on the mean: what tokens choose spreads, and leaves half of a last tile.

    >>> float(row_tiles(512, 8, 64)), float(row_tiles(512, 8, 128))
    (12.0, 8.0)
    """
    return np.maximum(touched, np.asarray(picks) / rows + touched / 2)


def _sizes(shapes: Shapes, policy: str) -> list[tuple[int, int, Any]]:
    """Rows and columns of the tiles that a policy has, and which of the kernels may take each.

    Those are the tile that code states and larger ones: none takes less with more tokens where the tile changes.
    """
    if policy in ("", "search"):
        return [(rows, COLUMNS, True) for rows in TILES]
    touched = np.asarray(shapes["touched"], float)
    experts = np.asarray(shapes.get("experts", touched), float)
    if policy == "marlin":
        load = np.asarray(shapes["picks"], float) / experts
        first = np.argmax([load / rows < FILLED for rows in MARLIN[:-1]] + [load >= 0], axis=0)
        return [(rows, COLUMNS, first <= place) for place, rows in enumerate(MARLIN)]
    if policy == "triton":
        tokens = np.asarray(shapes.get("tokens", np.asarray(shapes["picks"]) / USUAL_CHOICES), float)
        return [(*UNTUNED[0], tokens <= experts), (*UNTUNED[1], True)]
    return [(int(policy.partition(" ")[0]), COLUMNS, True)]


def experts_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "search") -> Parts:
    """Parts of the time of routed experts on one chip.

    ``picks`` are the tokens that fall to this chip's experts, once for each expert chosen, and ``touched`` the
    experts that get any, of ``experts``; ``choices`` are those of all chips, where each sees all ``tokens``.
    ``tiles_16`` … ``tiles_128`` are the tiles of so many rows, those of the mean where they are not given.
    ``hidden`` and ``inter`` are the widths, ``products`` is 3 with a gate and 2 without, ``weight_bytes`` and
    ``a_bytes`` are bytes of an element.
    """
    names = ("picks", "touched", "hidden", "inter", "products", "weight_bytes", "a_bytes")
    picks, touched, hidden, inter, products, weight_bytes, a_bytes = np.broadcast_arrays(
        *(np.asarray(shapes[name], float) for name in names)
    )
    experts = np.asarray(shapes.get("experts", touched), float)
    whole = touched * hidden * inter * products * weight_bytes
    warm = warm_share(whole + shapes.get(BESIDE, 0.0), c["cache_share"], chip.cache)
    best: Any = None
    memory: Any = None
    for rows, tile_columns, runs in _sizes(shapes, policy):
        tiles = np.asarray(shapes.get(f"tiles_{rows}", row_tiles(picks, touched, rows)), float)
        time, moving = np.where(runs, 0.0, np.inf), 0.0
        for columns, depth in ((inter * (products - 1), hidden), (hidden, inter)):
            count = tiles * np.ceil(columns / tile_columns)
            busy = np.clip(touched * columns / tile_columns, 1e-9, chip.cores)
            mma = 2 * rows * tile_columns * depth / (chip.matrix_peak / chip.cores * c["compute_efficiency"])
            load = (rows * a_bytes + tile_columns * weight_bytes) * depth / c["core_l2_rate"]
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
        ("picks", "touched", "experts", "tokens", "choices", "hidden", "inter", "products", "weight_bytes", "a_bytes"),
        EXPERTS, experts_parts, EXPERT_POLICIES, sorted_by=("picks", "touched"),
    ),
)  # fmt: skip
