"""Time of a matrix multiplication as a library runs it: tiles in waves over cores, split depth, caches, launch.

A library cuts ``[m, k] @ [k, n]`` into output tiles of ``tm × tn`` and, where tiles are few, cuts ``k`` into ``s``
pieces. For every choice of tile and split::

    tiles  = ⌈m/tm⌉ · ⌈n/tn⌉ · batch · s
    waves  = (1 − q) · max(tiles/cores, 1) + q · ⌈tiles/cores⌉
    mma    = 2 · tm · tn · (k/s) / (peak/cores · compute_efficiency)
    load   = (tm · bytes_A + tn · bytes_B) · (k/s) / core_l2_rate
    tile   = (mma³ + load³)^⅓ + tile_overhead + epilogue · tm · tn · bytes_out
    memory = (cold bytes + warm bytes / 3) / (memory_efficiency · B/s)
    T      = ((waves · tile)^p + memory^p)^(1/p) + split cost

Bytes are warm that the cache still has from the call before: all that moved since then, other weights that calls take
in turn and what other kernels move included, fits in its share. Each library's products were timed with weights, and
SGLang's with activations too, in turn; a product of a step takes none in turn.

The time is the soft minimum over the choices, ``(Σ T^(−1/width))^(−width)``, plus the launch. No time of a choice falls
as a size grows, nor does this minimum, but where ``small nosplit`` begins to cut. Long kernels are slower as far as
they keep the units busy, which is what takes power::

    T · (1 + throttle · busy² · T / (T + 600 µs)),    busy = FLOPs / (peak · compute_efficiency · T), at most 1

``policy`` says which choices a library has: ``search`` (all), ``nosplit``, ``bucket`` (tiles of as many rows as the
product has at least, or 128), ``big`` (of as many columns too), ``128x128`` (one tile for all shapes, as CUTLASS on
consumer Blackwell), or ``small nosplit``: all, but two matrices of fewer than 2²¹ multiply-adds keep their depth whole,
so that they take longer than somewhat larger ones; a vector has kernels of its own. ``from the host`` no graph was
timed. Where a library's code states the tile of a product, the choices are that tile and those that it states for
larger products, :data:`STATED_TILES`: no product takes longer than one with more rows or columns.

Sources: a model of our own; tiles, waves and split-k as in NVIDIA, "Matrix Multiplication Background User's Guide";
stated tiles from the code of vLLM and SGLang (Apache-2.0), ``cutlass_gemm_sm…_fp8_dispatch`` and
``sm…_fp8_dispatch_shape``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from roofline.estimates.kernel_model import (
    BESIDE,
    FROM_HOST,
    Array,
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
    launched,
    slowed,
    together,
    warm_share,
)
from roofline.frozen import NamedTuple, Same
from roofline.lazy import np

#: The path of products in fp8 with a scale for each block of a weight.
BLOCK_SCALES = "block scales"
#: Most elements of a weight of a batch, one for each head as latent attention absorbs them, whose products have kernels
#: of their own: measured were weights of 128 × 512.
BATCHED_WEIGHT = 2**17
#: Rows and columns of an output tile.
TILES = (
    (16, 64), (16, 128), (32, 64), (32, 128), (64, 32), (64, 64), (64, 128), (64, 256),
    (128, 32), (128, 64), (128, 128), (128, 256), (256, 64), (256, 128),
)  # fmt: skip
#: Into how many pieces the depth is cut.
SPLITS = (1, 2, 4, 8, 16)
#: How sharply a repeated call loses operands that its cache cannot hold, and how much faster a cache brings them. Of
#: TensorRT-LLM's on L40S and RTX PRO 6000 weights that fill 1.00 of it stay, and of those that fill 1.09 nothing does.
SHARPNESS, CACHE_SPEEDUP = 16.0, 3.0
ANY = float("inf")
_HOPPER = (
    *((16, ANY, (16, 64)), (64, 1280, (16, 64)), (64, ANY, (64, 64))),
    *((128, ANY, (64, 128)), (ANY, ANY, (128, 128))),
)
#: Tiles of products in fp8, as libraries' code states them, by library, format and generation of cores: that of the
#: first line that a product's rows and columns do not exceed, and behind it those of larger products. Small products on
#: Hopper run transposed: 16 rows fill a tile.
STATED_TILES: dict[str, tuple[tuple[float, float, tuple[int, int]], ...]] = {
    "vllm fp8 sm89": (
        *((16, 8192, (16, 64)), (16, 16384, (16, 128)), (16, ANY, (32, 64))),
        *((32, 8192, (32, 64)), (32, 16384, (32, 128)), (32, ANY, (32, 64))),
        *((64, 8192, (64, 64)), (64, 16384, (64, 128)), (64, ANY, (64, 64))),
        *((128, 8192, (64, 128)), (128, 16384, (128, 128)), (128, ANY, (128, 64))),
        *((256, 4096, (64, 128)), (256, ANY, (128, 128))),
        *((ANY, 4096, (128, 128)), (ANY, 8192, (256, 128)), (ANY, ANY, (128, 128))),
    ),
    "vllm fp8 sm90": _HOPPER,
    "vllm fp8 sm120": ((16, ANY, (16, 64)), (32, ANY, (32, 64)), (256, ANY, (64, 64)), (ANY, ANY, (128, 128))),
    "sglang fp8 sm89": (
        *((1, 8192, (16, 64)), (1, ANY, (32, 64))),
        *((16, 8192, (16, 64)), (16, 16384, (32, 64)), (16, ANY, (16, 64))),
        *((64, 16384, (32, 64)), (64, ANY, (16, 64))),
        *((128, 16384, (64, 64)), (128, ANY, (32, 64))),
        *((256, 8192, (128, 64)), (256, 16384, (64, 128)), (256, ANY, (128, 64)), (ANY, ANY, (128, 128))),
    ),
    "sglang fp8 sm90": _HOPPER,
    "sglang fp8 sm120": ((ANY, ANY, (128, 128)),),
}
#: Tiles that a core runs at once, each with its share of the core: Intel's have eight matrix engines.
TILES_A_CORE = {f"8 tiles a core {FROM_HOST}": 8}
PRODUCT_POLICIES = ("search", "nosplit", "bucket", "big", "128x128", f"search {FROM_HOST}")
#: The policy of cuBLAS on L40S and RTX PRO 6000, as measured, and from how many multiply-adds it cuts the depth.
SMALL_WHOLE, LEAST_SPLIT = "small nosplit", 2.0**21
#: Policies whose choices depend on the product's sizes.
LIMITED = ("bucket", "big", SMALL_WHOLE, *STATED_TILES)
#: How many weights, and how many activations, calls take in turn, so that a cache brings fewer of them.
IN_TURN = ("weights_in_turn", "activations_in_turn")
#: Shapes of a product, each with its value where it is left out.
SHAPES = {**dict.fromkeys(("m", "n", "k", "batch", "a_bytes", "b_bytes", "out_bytes", *IN_TURN), 1.0), BESIDE: 0.0}
#: Products worked out at once: with all their choices they stay in a core's own cache.
ROWS_AT_ONCE = 128

CONSTANTS = (
    ModelConstant("compute_efficiency", "", "share of a core's peak within a tile", 0.9, 0.05, 1.6, True, "power"),
    ModelConstant("memory_efficiency", "", "share of the bandwidth that streams", 0.85, 0.2, 1.4, True, "stream"),
    ModelConstant("launch_time", "s", "time of an empty kernel", 2.5e-6, 3e-7, 6e-5, True, "start"),
    ModelConstant("tile_overhead", "s", "time to start a tile: prologue and pipeline fill", 4e-7, 1e-8, 2e-5),
    ModelConstant(
        "core_l2_rate", "B/s", "rate at which one core loads operands from cache", 8e10, 3e9, 2e12, True, "peak"
    ),
    ModelConstant("wave_quantisation", "", "share of waves that wait for their last tile", 0.4, 0.01, 1.0, own=True),
    ModelConstant("epilogue", "s/B", "time to write a byte of a tile", 2e-11, 1e-13, 1e-9),
    ModelConstant(
        "cache_share", "", "cache that keeps operands between calls, as a share", 0.9, 0.05, 2.0, True, "cache"
    ),
    ModelConstant("overlap_exponent", "", "how well tiles and memory overlap", 4.0, 1.0, 12.0),
    ModelConstant("choice_width", "", "how sharply the best tile is chosen", 0.04, 0.001, 0.5),
    ModelConstant("throttle", "", "lower clock in long and busy kernels", 0.05, 0.001, 0.6, moves_with="slowing"),
    ModelConstant("split_overhead", "s", "time to add up the pieces of a split", 2e-6, 1e-8, 2e-5),
    ModelConstant("shortest_depth", "", "depth below which a tile takes no less time", 40.0, 8.0, 512.0),
)


@cache
def _choices(policy: str) -> tuple[Any, Any, Any]:
    """Tile rows, tile columns and splits of the choices of a policy for any shape, each as a row."""
    tiles: Sequence[tuple[int, int]] = ((128, 128),) if policy == "128x128" else TILES
    if policy in STATED_TILES:
        tiles = sorted({tile for *_, tile in STATED_TILES[policy]})
    splits = SPLITS[:1] if policy in ("nosplit", "128x128", *STATED_TILES) else SPLITS
    every = np.array([(rows, columns, split) for rows, columns in tiles for split in splits], float)
    return every[:, 0][None, :], every[:, 1][None, :], every[:, 2][None, :]


def _legal(policy: str, m: Array, n: Array, k: Array, choices: tuple[Any, Any, Any]) -> Any:
    """Which choices a policy of :data:`LIMITED` leaves for each product."""
    rows, columns, split = choices
    if policy == SMALL_WHOLE:
        return (split == 1) | (m * n * k >= LEAST_SPLIT) | (np.minimum(m, n) == 1)
    if policy in STATED_TILES:
        legal: Any = False
        for most_rows, most_columns, tile in STATED_TILES[policy]:
            legal = legal | ((rows == tile[0]) & (columns == tile[1]) & (m <= most_rows) & (n <= most_columns))
        return legal
    wanted = np.clip(2.0 ** np.ceil(np.log2(np.maximum(m, 16))), 16, 128)
    return (rows >= wanted) & ((columns >= np.minimum(128, n)) | (policy == "bucket"))


class _Products(NamedTuple):
    """What a product's shapes say of each choice, whatever the constants: a row a product, a column a choice.

    ``operands`` are bytes of C, A and B, each with all that moves until it is used again.
    """

    tile: Array
    loaded: Array
    depth: Array
    written: Array
    full_waves: Array
    waves: Array
    summed: Array
    is_split: Array
    legal: Any
    operands: tuple[tuple[Array, Array], ...]
    whole: Array
    flops: Array


def contraction_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "search") -> Parts:
    """Parts of the time of matrix products: ``m``, ``n``, ``k``, ``batch``, and bytes of an element of A, B and C.

    ``beside`` are bytes that other kernels move between two calls.
    """
    cores = chip.cores * TILES_A_CORE.get(policy, 1)
    shape, few = _few_products(Same(shapes), cores, policy)
    if few is not None:
        time, memory = _time_and_memory(few, chip, cores, c)
    else:
        columns = _as_columns(shapes)[1]
        starts = range(0, max(int(np.prod(shape)), 1), ROWS_AT_ONCE)
        blocks = ([one if len(one) == 1 else one[row : row + ROWS_AT_ONCE] for one in columns] for row in starts)
        each = [_time_and_memory(_products(block, cores, policy), chip, cores, c) for block in blocks]
        time, memory = (np.concatenate(part) for part in zip(*each, strict=True))
    found = launched(time, memory, c["launch_time"], policy).seconds
    return Parts({name: value.reshape(shape) for name, value in found.items()})


def _as_columns(shapes: Shapes) -> tuple[tuple[int, ...], list[Array]]:
    """The shape that sizes broadcast to, and each size as a column; of one value it has one row."""
    given = [np.asarray(shapes.get(name, left_out), float) for name, left_out in SHAPES.items()]
    shape = np.broadcast_shapes(*(value.shape for value in given))
    columns = [value if value.size == 1 else np.broadcast_to(value, shape) for value in given]
    return shape, [value.reshape(-1, 1) for value in columns]


@lru_cache(maxsize=16)
def _few_products(shapes: Same[Shapes], cores: float, policy: str) -> tuple[tuple[int, ...], _Products | None]:
    """The shape of the sizes, and products that are worked out at once: a fit asks for the same ones often."""
    shape, columns = _as_columns(shapes.value)
    return shape, _products(columns, cores, policy) if max(map(len, columns)) <= ROWS_AT_ONCE else None


def _products(sizes: Sequence[Array], cores: float, policy: str) -> _Products:
    m, n, k, batch, a_bytes, b_bytes, out_bytes, weights, activations, beside = sizes
    choices = rows, columns, split = _choices(policy)
    tiles = np.ceil(m / rows) * np.ceil(n / columns) * batch * split
    a, b, out = batch * m * k * a_bytes, batch * k * n * b_bytes, batch * m * n * out_bytes
    whole = a + b + out
    turn = whole + (weights - 1) * b + (activations - 1) * a
    operands = (out, whole), (a, np.where(activations > 1, turn, whole)), (b, turn + beside)
    return _Products(
        2 * rows * columns, rows * a_bytes + columns * b_bytes, k / split, rows * columns * out_bytes,
        np.ceil(tiles / cores), np.maximum(tiles / cores, 1), 8 * rows * columns, split > 1,
        _legal(policy, m, n, k, choices) if policy in LIMITED else None, operands, whole, (2 * batch * m * n * k)[:, 0],
    )  # fmt: skip


def _time_and_memory(of: _Products, chip: ChipFigures, cores: float, c: Values) -> tuple[Array, Array]:
    """Seconds of products without their launch, and those of memory at the best choice; a choice is a column."""
    quantised = c["wave_quantisation"]
    waves = (1 - quantised) * of.waves + quantised * of.full_waves
    mma = of.tile / (chip.matrix_peak / cores * c["compute_efficiency"])
    load = of.loaded / c["core_l2_rate"]
    inner = np.maximum(of.depth, c["shortest_depth"]) * np.cbrt(mma * mma * mma + load * load * load)
    tile = inner + c["tile_overhead"] + c["epilogue"] * of.written
    cold = sum(one * (1 - warm_share(moved, c["cache_share"], chip.cache, SHARPNESS)) for one, moved in of.operands)
    stream = c["memory_efficiency"] * chip.bandwidth
    memory = (cold + (of.whole - cold) / CACHE_SPEEDUP) / stream
    extra = np.where(of.is_split, c["split_overhead"] + of.summed * of.waves / c["core_l2_rate"], 0.0)
    time = together(waves * tile, memory, c["overlap_exponent"]) + extra
    if of.legal is not None:
        time = np.where(of.legal, time, np.inf)
    least, width = time.min(axis=1), c["choice_width"]
    soft = least * np.maximum(((least[:, None] / time) ** (1 / width)).sum(axis=1) ** -width, 0.5)
    arithmetic = of.flops / (chip.matrix_peak * c["compute_efficiency"])
    soft = slowed(soft, c["throttle"], np.minimum(arithmetic / soft, 1.0))
    return soft, np.broadcast_to(memory[:, 0], soft.shape)


QUANTISE = (
    ModelConstant("launch_time", "s", "time of an empty kernel", 1e-6, 1e-8, 2e-5, True, "start"),
    ModelConstant(
        "rate", "B/s", "rate at which activations are read and written again", 1.5e12, 5e10, 5e13, True, "traffic"
    ),
    ModelConstant("row_time", "s", "time of a row of activations", 1e-10, 1e-13, 1e-7, True, "cores"),
)


def quantise_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time to put ``m`` rows of ``k`` activations into ``a_bytes`` each, from two bytes."""
    m, k = np.asarray(shapes["m"], float), np.asarray(shapes["k"], float)
    moved = m * k * (2 + np.asarray(shapes["a_bytes"], float)) * np.asarray(shapes.get("batch", 1.0), float)
    time = np.hypot(moved / c["rate"], m * c["row_time"])
    return Parts({"memory": time, "launch": np.full_like(time, c["launch_time"])})


#: Prefix of the quantiser's constants where it is fitted together with the product behind it.
WITH_QUANTISER = "quantise."
#: What a kernel of a stated tile costs. Of the others a chip's two libraries share one value: caches, loads, power.
KERNEL_COSTS = (
    *("compute_efficiency", "memory_efficiency", "launch_time"),
    *("tile_overhead", "epilogue", "wave_quantisation"),
)


def quantised_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "search") -> Parts:
    """Parts of the time of a product together with the kernel that quantises its activations, as they are measured."""
    own = {name.removeprefix(WITH_QUANTISER): value for name, value in c.items() if name.startswith(WITH_QUANTISER)}
    before = quantise_parts(shapes, chip, own).seconds
    product = contraction_parts(shapes, chip, c, policy).seconds
    return Parts({**product, "quantise": sum(before.values())})


#: Shapes of a product alone, and constants of one with the quantiser of its activations before it.
_OF_PRODUCT = tuple(name for name in SHAPES if name not in (BESIDE, *IN_TURN))
_WITH_QUANTISER = (*CONSTANTS, *(one._replace(name=WITH_QUANTISER + one.name) for one in QUANTISE))

#: Constants of products that are a library's, also where cuBLAS runs them: rates, start, share of the cache. The others
#: are the kernel's.
OF_LIBRARY = ("compute_efficiency", "memory_efficiency", "launch_time", "core_l2_rate", "cache_share")
#: Those of a core that runs several tiles, as Intel's: its rates, the start, and how its tiles begin and share waves.
#: What its cache keeps, rows that the host started hardly tell.
OF_CORES = (*OF_LIBRARY[:4], "tile_overhead", "wave_quantisation")
#: The kernel models of this file.
MODELS = (
    KernelModel(
        "contraction",
        _OF_PRODUCT,
        tuple(one._replace(own=one.name in OF_LIBRARY) for one in CONSTANTS),
        contraction_parts,
        (*PRODUCT_POLICIES, SMALL_WHOLE),
        ("m", "n", "k"),
        stated=tuple(TILES_A_CORE),
        stated_own=OF_CORES,
        of_small_cores=(SMALL_WHOLE,),
    ),
    KernelModel(
        "batched_contraction",
        _OF_PRODUCT,
        CONSTANTS,
        contraction_parts,
        PRODUCT_POLICIES,
        ("m", "n", "k", "batch"),
    ),
    KernelModel(
        "quantised_batched_contraction",
        _OF_PRODUCT,
        _WITH_QUANTISER,
        quantised_parts,
        PRODUCT_POLICIES,
        ("m", "n", "k", "batch"),
    ),
    KernelModel("quantise", ("m", "k", "a_bytes"), QUANTISE, quantise_parts, sorted_by=("m", "k")),
    KernelModel(
        "quantised_contraction",
        _OF_PRODUCT,
        _WITH_QUANTISER,
        quantised_parts,
        PRODUCT_POLICIES,
        ("m", "n", "k"),
        stated=tuple(STATED_TILES),
        stated_own=(*KERNEL_COSTS, *(WITH_QUANTISER + one.name for one in QUANTISE)),
    ),
)
