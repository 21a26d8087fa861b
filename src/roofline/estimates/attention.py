"""Time of attention kernels: prefill by tiles of queries over blocks of keys, decode by streaming the cache.

Prefill cuts the queries of each head into tiles and walks over the visible keys in blocks::

    block   = max(mma, exp) + overlap · min(mma, exp) + block_time
    mma     = 4 · rows · keys · d / (peak/cores · compute_efficiency · narrow);  exp = rows · keys / exp_rate
    work    = Σ over tiles of visible blocks · block + start;  keys of past tokens in pieces where tiles are few
    start   = tile_time, twice that where a tile is alone on its core
    compute = (1 − q) · max(work/cores, longest tile) + q · max(⌈tiles/cores⌉ · mean tile, longest tile)
    front   = bytes that a kernel in front moves, at the rate of memory
    T       = (compute^p + memory^p)^(1/p) + front + launch

In front a kernel writes the new keys and values into their cache; TensorRT-LLM's rotates the queries too, and writes
them again. ``policy`` is the tile: ``rows x block``, with ``packed`` where the query heads that share keys stand in one
tile, or the kernel whose tiles code states.
Blocks outside a window are worked through too, and masked, with ``every key``; a kernel that ``looks at every key``
computes their masks, in the time of exponentials, and drops them.
Of a tile that a sequence is too short for, units work on the ``rows`` and ``keys`` it fills, in steps of 16, or on all,
``in whole tiles``, and ``d`` grows in steps of 32. ``narrow`` stands with heads of at most 64, others with heads over
192, over 256, and with those that 16 does not divide, whose loads are narrower: libraries compile a kernel for each
size of a head.
Without a mask, as in encoders of images, kernels have constants of their own.

Decode gives each sequence and key head to a core, or cuts its cache into pieces where cores are left::

    pieces  = min(cores · occupancy / (batch · kv heads), length / chunk), at least 1; 1 by the policy ``whole``, or by
              ``heads apart under a window``, where each query head then reads its keys by itself, as it does with
              TensorRT-LLM where over 32 share them
    core    = bytes of a piece / core_rate + blocks · block_time + start_time
    T       = ((waves · core)^p + memory^p)^(1/p) + combine · log2(1 + pieces), slowed, + launch; at least as long as
              with any fewer sequences, whose pieces are more

Source: models of our own, after Dao, "FlashAttention-2", arXiv:2307.08691, and "Flash-Decoding" (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from roofline.estimates.kernel_model import (
    BESIDE,
    FROM_HOST,
    TRITON,
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
    whole,
)
from roofline.estimates.row_expectations import decided
from roofline.estimates.transfer import cores_of, has_large_cores
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.sizes import Size

#: Pieces of a sequence, and the time of cores with them.
Way: TypeAlias = "tuple[Any, Any]"
#: Word of a policy: a kernel works through keys outside a window too, and masks them.
EVERY_KEY = "every key"
LOOKS = f"looks at {EVERY_KEY}"
#: Word of a policy: units work on whole tiles, and mask what a sequence does not fill, as Triton's kernels do.
WHOLE_TILES = "in whole tiles"
_SIZES = ("128x128", "64x64", "128x64", "64x64 packed", "128x128 packed")
PREFILL_POLICIES = (
    *(*_SIZES, f"128x128 {FROM_HOST}"),
    *(*(f"{size} {EVERY_KEY}" for size in _SIZES), f"128x128 {EVERY_KEY} {FROM_HOST}"),
)
UNMASKED_POLICIES = (*PREFILL_POLICIES, *(f"{size} {WHOLE_TILES}" for size in _SIZES[:3]))
#: Whether a decode kernel cuts sequences into pieces. FlashAttention-2 does not where heads have keys of their own, nor
#: under a window, where it reads keys for each query head anew (``seqlenq_ngroups_swapped`` in its flash_api.cpp).
WINDOW_APART = "heads apart under a window"
DECODE_POLICIES = ("", "whole", FROM_HOST, WINDOW_APART)
#: What FlashAttention-2 and TensorRT-LLM's latent decode do on all but Hopper, whose larger cores have other kernels.
OLDER = ("whole", WINDOW_APART, "64 heads in pairs")
#: Keys that a decode kernel reads at a time, and query heads that share them in one product.
DECODE_BLOCK, DECODE_GROUP = 64, 16
#: Pieces from which on a sequence counts as cut.
LEAST_CUT = 1.01
#: Most rows, of heads that share keys and of tokens, for which a decode kernel runs: those of one tile.
DECODE_ROWS = 64
#: How sharply a repeated call loses keys and values: read in the same order, what cache cannot hold drops out before it
#: is read again.
SHARPNESS = 8.0
#: Rows and keys by which the work of a tile grows: those of one instruction; and by which heads do.
STEP, HEAD_STEP = 16, 32
#: Size of the heads that count as narrow, at most, and above which they count as wide.
NARROW, WIDE = 64, 192
#: Widest heads of which a core holds whole tiles; of wider ones a tile has at most so many rows, and keys of a block.
WIDEST_WHOLE, SMALL_TILE = 256, 32

PREFILL = (
    ModelConstant("compute_efficiency", "", "share of a core's peak within a block", 0.65, 0.05, 1.6, True, "held"),
    ModelConstant("exp_rate", "1/s", "exponentials a second of one core", 3e10, 1e9, 1e12, True, "peak"),
    ModelConstant("memory_efficiency", "", "share of the bandwidth that streams", 0.7, 0.2, 1.4, True, "stream"),
    ModelConstant("launch_time", "s", "time of an empty kernel", 8e-6, 5e-7, 5e-4, own=True),
    ModelConstant("tile_time", "s", "time to start a tile of queries", 1e-6, 1e-8, 2e-5, own=True),
    ModelConstant("block_time", "s", "time of a block beside its arithmetic", 5e-8, 1e-10, 2e-6, False, "peak"),
    ModelConstant("exposed", "", "share of the shorter of product and exponentials that is not hidden", 0.3, 0.01, 1.0),
    ModelConstant("wave_quantisation", "", "share of waves that wait for their last tile", 0.7, 0.01, 1.0),
    ModelConstant("overlap_exponent", "", "how well arithmetic and memory overlap", 1.4, 1.0, 10.0),
    ModelConstant("cache_share", "", "cache that keeps operands between calls, as a share", 0.7, 0.01, 20.0),
    ModelConstant("warm_time", "", "time of a warm byte against a cold one", 0.5, 0.01, 1.0),
    ModelConstant("narrow_heads", "", "share of the peak with heads of 64 to others", 1.0, 0.2, 5.0, True, "kernel"),
    ModelConstant("wide_heads", "", "share of the peak with heads over 192", 1.0, 0.05, 5.0, False, "kernel"),
    ModelConstant("widest_heads", "", "share of the peak with heads over 256", 1.0, 0.05, 5.0, False, "kernel"),
    ModelConstant("uneven_heads", "", "share with heads that 16 does not divide", 1.0, 0.2, 5.0, False, "kernel"),
)
#: Tiles that code states for kernels of prefill: up to which size of heads, rows, keys of a block, under a window.
#: TensorRT-LLM's are in setup.py of its fmha_v2 (``enumerate_hmma_flash_kernels_base``, ``…_qmma_flash_kernels``, and
#: those with ``warpspec``, whose two groups of warps take 64 rows each); FlashAttention-2's, of caches in pages, in
#: flash_fwd_launch_template.h (``run_mha_fwd_splitkv_dispatch``), FlashAttention-3's in hopper/tile_size.h, for pages
#: that are no multiple of a block, so that heads which share keys stand in one tile.
ANY = float("inf")
FLASH_2, FLASH_3, IN_FP8 = "FlashAttention-2", "FlashAttention-3", "in fp8"
#: Cores with 100 KB of shared memory.
SMALL = ("sm86", "sm89", "sm120")
TILES = {
    "FMHA of sm80": ((64, 128, 128, 128), (ANY, 64, 128, 128)),
    "FMHA of small cores": ((32, 64, 64, 64), (128, 64, 32, 32), (255, 64, 16, 16), (ANY, 64, 128, 128)),
    f"FMHA of small cores {IN_FP8}": ((64, 128, 128, 128), (ANY, 64, 32, 32)),
    "FMHA of sm90": ((64, 128, 256, 256), (128, 128, 128, 128), (ANY, 128, 64, 64)),
    f"FMHA of sm90 {IN_FP8}": ((128, 128, 256, 256), (ANY, 128, 128, 128)),
    FLASH_2: ((64, 64, 256, 256), (128, 64, 128, 128), (ANY, 64, 64, 64)),
    f"{FLASH_3} of sm80": ((64, 128, 112, 96), (128, 128, 64, 48), (192, 128, 64, 64), (ANY, 128, 96, 64)),
    f"{FLASH_3} of sm90": (
        (64, 192, 128, 160), (96, 192, 128, 128), (128, 128, 128, 128), (192, 128, 96, 96), (ANY, 128, 80, 64),
    ),
    f"{FLASH_3} of sm90 {IN_FP8}": (
        (64, 192, 160, 160), (96, 192, 128, 128), (128, 128, 160, 160), (192, 128, 160, 128), (ANY, 128, 128, 64),
    ),
}  # fmt: skip
#: What Triton's kernels cost on a chip: their compiler fits each width of heads as it can.
OF_TRITON = ("compute_efficiency", "exp_rate", "memory_efficiency", "launch_time", "wide_heads", "widest_heads")
#: Attention without a mask, which few have with wide heads and many with uneven ones.
UNMASKED = tuple(
    one._replace(own=(one.own or one.name == "uneven_heads") and one.name != "tile_time") for one in PREFILL
)
#: Prefill over expanded latents, whose heads all have one size.
LATENT_PREFILL = tuple(
    one._replace(own=one.own or one.name == "block_time") for one in PREFILL if not one.name.endswith("_heads")
)

DECODE = (
    ModelConstant("launch_time", "s", "time of an empty kernel", 7e-6, 5e-7, 5e-4, own=True),
    ModelConstant("memory_efficiency", "", "share of the bandwidth that streams", 0.85, 0.2, 1.4, True, "stream"),
    ModelConstant("core_rate", "B/s", "rate at which one core streams keys and values", 5e10, 2e9, 2e12, own=True),
    ModelConstant("start_time", "s", "time to start a piece", 3e-6, 1e-8, 2e-5, own=True),
    ModelConstant("combine", "s", "time to combine pieces, for each doubling", 1e-6, 1e-8, 1e-5, own=True),
    ModelConstant("chunk", "", "least length of a piece", 256.0, 16.0, 4096.0, own=True),
    ModelConstant("block_time", "s", "time of a block of keys", 3e-8, 1e-10, 2e-6),
    ModelConstant("occupancy", "", "pieces that a core works on at a time", 1.2, 0.3, 8.0),
    ModelConstant("wave_quantisation", "", "share of waves that wait for their last piece", 0.6, 0.01, 1.0),
    ModelConstant("overlap_exponent", "", "how well cores and memory overlap", 2.5, 1.0, 10.0),
    ModelConstant("cache_share", "", "cache that keeps keys and values between calls, as a share", 0.5, 0.01, 20.0),
    ModelConstant("warm_time", "", "time of a warm byte against a cold one", 0.4, 0.02, 1.0),
    ModelConstant("throttle", "", "lower clock in long kernels", 0.04, 0.001, 1.0),
)

#: Heads that a core takes together over the latents.
LATENT_POLICIES = (
    *("64 heads", "16 heads", "32 heads", "128 heads", "8 heads"),
    "64 heads in pairs",
    f"16 heads {FROM_HOST}",
)
LATENT_DECODE = (
    *(one._replace(own=one.name not in ("combine", "chunk") and one.own) for one in DECODE),
    ModelConstant("compute_efficiency", "", "share of a core's peak within a block", 0.5, 0.02, 1.6, True, "power"),
    ModelConstant("head_time", "s", "time of a core to combine a head's pieces", 1e-7, 1e-10, 5e-5, own=True),
)


#: Largest heads, and most query heads to a key head, that the usual kernels are made for.
WIDEST_HEAD, LARGEST_GROUP = 128, 16
BEYOND = "windows, wide heads or large groups"
ALONE, GROUPED = "a key head for each head", "shared key heads"
#: Kernels of SGLang's own, which run where those of FlashAttention-3 or FlashInfer do not serve, and by its code their
#: tile (extend_attention.py, ``_get_block_sizes_for_extend_attention``): heads over 256 have the small one.
TRITON_TILE = f"64x64 {LOOKS} {WHOLE_TILES}"

#: Libraries whose decode kernels are the same under a window: FlashAttention, which vLLM runs, has others there.
SAME_UNDER_WINDOW = ("sglang", "trtllm")
#: Most query heads to a key head that TensorRT-LLM's kernel of shared keys takes, but on Blackwell with stacked memory:
#: beyond, as where heads have keys of their own, its older one reads keys for each query head by itself
#: (``supportConfigHMMA`` and ``supportConfigQGMMA`` in decoderXQAImplJIT).
SHARED_AT_MOST = 32

#: Formats of caches that were measured, as constants name them.
HALF_OR_EIGHT = ("bf16", "fp8")

#: Words of :func:`attention_path`, and what they are.
WORDS = {
    ALONE: "multi-head attention (MHA)",
    GROUPED: "grouped-query and multi-query attention (GQA, MQA)",
    TRITON: "SGLang's own kernels, where FlashAttention-3 or FlashInfer do not serve",
    BEYOND: f"a sliding window, heads of over {WIDEST_HEAD} numbers, or over {LARGEST_GROUP} heads to a key head",
}


def attention_path(
    kernel: str,
    kv_bytes: float,
    heads: Size,
    kv_heads: Size,
    head_size: Size = 128,
    window: Size = 0,
    cache: str = "",
    library: str = "",
    cores: str = "",
) -> str:
    """What tells kernels of attention apart beside their format: the cache's format, whether heads share keys, width.

    ``cache`` is the format of keys and values, where that is known: one of as many bits as fp8 is read by others.
    ``library`` is whose kernels, where that is known, and ``cores`` on which of a generation.

    >>> attention_path("decode_attention", 1, 32, 8), attention_path("prefill_attention", 2, 32, 8)
    ('fp8 cache, shared key heads', '')
    >>> attention_path("prefill_attention", 1, 32, 8, cache="int8")
    'int8 cache'
    >>> attention_path("prefill_attention", 2, 32, 8, head_size=256)
    'windows, wide heads or large groups'
    >>> [attention_path("decode_attention", 2, 64, 8, window=128, library=name) for name in ("vllm", "sglang")]
    ['shared key heads, windows, wide heads or large groups', 'shared key heads']
    >>> attention_path("prefill_attention", 2, 32, 16, head_size=256, window=1024, library="sglang")
    'in Triton, windows, wide heads or large groups'
    """
    words = cache_words(kv_bytes, cache)
    apart = decided(heads_apart(library, kernel, heads, kv_heads))
    if kernel == "decode_attention":
        words.append(ALONE if apart or decided(heads == kv_heads) else GROUPED)
    usual = library != "sglang" or (kernel == "decode_attention" and decided(head_size <= NARROW))
    if not usual and decided(_in_triton(head_size, window, cores)):
        return ", ".join((*words, TRITON, BEYOND))
    if kernel == "decode_attention":
        window = 0 if library in SAME_UNDER_WINDOW else window
    if any(map(decided, (window > 0, head_size > WIDEST_HEAD, (heads / kv_heads > LARGEST_GROUP) & (not apart)))):
        words.append(BEYOND)
    return ", ".join(words)


def _in_triton(head_size: Size, window: Size, cores: str) -> Size:
    """Whether SGLang's kernel is one of Triton, by what rows of each generation take.

    FlashInfer has heads of 64, 128 and 256 alone. Windows of heads of 256, and heads of 512, Gemma's, have Triton's.
    """
    odd = (head_size > WIDEST_HEAD) & (head_size != WIDEST_WHOLE)
    if cores == "sm120":
        return odd | (window > 0)
    if cores == "sm89":
        return odd | ((window > 0) & (head_size < WIDEST_HEAD))
    return (head_size > WIDEST_WHOLE) | ((window > 0) & (head_size > WIDE))


def heads_apart(library: str, kernel: str, heads: Size, kv_heads: Size) -> Size:
    """Whether a library's decode kernel reads shared keys for each query head by itself.

    >>> [heads_apart("trtllm", "decode_attention", heads, 1) for heads in (32, 48)]
    [False, True]
    """
    return (library == "trtllm") & (kernel == "decode_attention") & (heads / kv_heads > SHARED_AT_MOST)


def cache_words(kv_bytes: float, cache: str = "") -> list[str]:
    """What a path says of the format of keys and values: nothing of half precision."""
    if cache in ("", *HALF_OR_EIGHT):
        return ["fp8 cache"] if kv_bytes == 1 else []
    return [f"{cache} cache"]


#: Kernels that a call launches: one that writes keys and values, where there is a cache, and the one of attention.
LAUNCHES = {"prefill_attention": 2, "unmasked_attention": 1}
#: Libraries whose prefill is FlashAttention-3's, by the family of the larger cores that they ran on: a third kernel
#: plans its tiles (SGLang; ``prepare_varlen_num_blocks``) or sets their count to zero again (vLLM, which has planned
#: before; ``skip_scheduler_metadata_computation`` in hopper/flash_api.cpp). SGLang 0.5.10 ran it on A100 too.
THIRD_KERNEL = {"nvidia-ampere": ("sglang",), "nvidia-hopper": ("sglang", "vllm")}


def launches(kernel: str, library: str, path: str, machine: Machine) -> int:
    """Kernels that a call of a library's attention launches on a chip; 1 where their number says nothing.

    >>> from roofline.hardware import chip
    >>> [launches("prefill_attention", "vllm", "", chip(on)) for on in ("a100", "h200", "b200")]
    [2, 3, 2]
    """
    third = library in THIRD_KERNEL.get(machine.family, ()) and TRITON not in path and has_large_cores(machine)
    return LAUNCHES[kernel] + third if kernel in LAUNCHES else 1


def moved_in_front(library: str, dtype: str) -> float:
    """Bytes that a kernel in front of a library's prefill moves of each number of the queries."""
    return (3.0 if dtype == "fp8" else 4.0) if library == "trtllm" else 0.0


def kernel_by_code(library: str, dtype: str, path: str, cores: str) -> str:
    """The kernel of a library's prefill on cores, where its code states tiles; FlashInfer chooses them by lengths.

    >>> [kernel_by_code(name, "bf16", "", "sm90") for name in ("sglang", "trtllm")]
    ['FlashAttention-3 of sm90', 'FMHA of sm90']
    """
    if TRITON in path:
        return TRITON_TILE
    cache = path.startswith("fp8 cache")
    eight = dtype == "fp8" or (library == "vllm" and cores == "sm90" and cache)  # it rounds queries too
    of = "small cores" if cores in SMALL else cores
    name = {"trtllm": "FMHA", "sglang": FLASH_3, "vllm": FLASH_3}.get(library, "")
    if library == "vllm" and cores in (*SMALL, "sm80") and not cache:
        return FLASH_2
    named = f"{name} of {of} {IN_FP8}" if eight else f"{name} of {of}"
    return named if named in TILES else ""


def alone_on_core(library: str, dtype: str, path: str, head_size: Size, machine: Machine) -> Size:
    """Whether a tile of a library's prefill has a core for itself, so that no other hides where it starts and ends.

    A core of Hopper and of stacked Blackwell holds one block, whose warps have tasks of their own. Elsewhere it holds
    two, unless their shared memory, by what code states, is more than it has: 164 KB, and 100 KB of the small cores.

    >>> from roofline.hardware import chip
    >>> [bool(alone_on_core("trtllm", "fp8", "", size, chip("l40s"))) for size in (128, 256)]
    [False, True]
    """
    cores = cores_of(machine)
    if TRITON in path or cores in ("", "sm90", "sm100"):
        return cores != "" and TRITON not in path
    if library == "trtllm":
        return (cores in SMALL) & (head_size > (128 if dtype == "fp8" else 255))
    if library == "vllm":
        return (not path.startswith("fp8 cache")) & ((cores in SMALL) | (head_size > WIDE))
    return (library == "sglang") & (cores == "sm80") & (head_size > WIDEST_HEAD)


def _given(shapes: Shapes, **defaults: float) -> list[Any]:
    values = (shapes.get(name, default) for name, default in defaults.items())
    return list(np.broadcast_arrays(*(np.asarray(value, float) for value in values)))


def _tile(policy: str, heads: Any, window: Any) -> tuple[Any, Any, bool]:
    """Rows of a tile, keys of a block, whether heads that share keys stand in one tile."""
    if policy in TILES:
        size, rows, block, local = np.array(TILES[policy], float).T
        which = np.searchsorted(size, heads)
        return rows[which], np.where(window > 0, local[which], block[which]), policy.startswith(FLASH_3)
    size, *words = (policy or PREFILL_POLICIES[0]).split()
    rows, _, block = size.partition("x")
    return float(rows), float(block), "packed" in words


def prefill_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of causal attention of ``length`` new tokens after ``past`` ones, in pieces if tiles are few.

    ``later`` is the share of later keys that are seen too: all of them without a mask. Where a kernel in front writes
    keys and values into their cache, ``stored`` is 1, and ``rewritten`` are :func:`moved_in_front`; ``alone`` is
    :func:`alone_on_core`.
    """
    batch, heads, kv_heads, size, length, past, window, later, kv_bytes, stored, rewritten, alone = _given(
        shapes, batch=1, heads=1, kv_heads=1, head_size=128, length=1, past=0, window=0, later=0, kv_bytes=2,
        stored=0, rewritten=0, alone=0,
    )  # fmt: skip
    rows, block, packed = _tile(policy, size, window)
    rows, block = (np.where(size > WIDEST_WHOLE, np.minimum(each, SMALL_TILE), each) for each in (rows, block))
    group = heads / kv_heads
    shared = group if packed else np.ones_like(group)
    each = np.ceil(length * shared / rows)
    tiles = batch * (heads / shared) * each
    reach = np.minimum(rows / shared, length)
    last = np.ceil((past + length) / block)
    mean = np.clip((past + (each * reach + reach) / 2) / block, 1.0, last)
    mean = np.where(rows / shared < block, np.minimum(past / block + (np.ceil(length / block) + 1) / 2, last), mean)
    mean = mean + later * (last - mean)
    skips = (window > 0) & (LOOKS in policy or EVERY_KEY not in policy)
    seen = np.where(skips, np.ceil((window + reach) / block) + 0.5, np.inf)
    dropped = [np.maximum(each - seen, 0.0) * (LOOKS in policy) for each in (mean, last)]
    mean, last = np.minimum(mean, seen), np.minimum(last, seen)
    filled = np.minimum(rows, STEP * np.ceil(length * shared / STEP))
    filled = filled * np.minimum(block, STEP * np.ceil((past + length) / STEP))
    filled = rows * block + 0 * filled if WHOLE_TILES in policy else filled
    share: Any = c["compute_efficiency"]
    widths = {"narrow": size <= NARROW, "wide": size > WIDE, "widest": size > WIDEST_WHOLE, "uneven": size % STEP > 0}
    widths["wide"] = widths["wide"] & ~widths["widest"]
    for width, holds in widths.items():
        share = share * np.where(holds, c.get(f"{width}_heads", 1.0), 1.0)
    mma = 4 * filled * HEAD_STEP * np.ceil(size / HEAD_STEP) / (chip.matrix_peak / chip.cores * share)
    exponentials = filled / c["exp_rate"]
    blocks = np.maximum(mma, exponentials) + c["exposed"] * np.minimum(mma, exponentials) + c["block_time"]
    uncut = np.minimum(np.ceil(length / block), last)
    pieces = np.clip(last - uncut, 1, np.maximum(chip.cores / tiles, 1))
    looks = [each * (exponentials + c["block_time"]) for each in dropped]
    start = c["tile_time"] * (1 + alone)
    tile = (mean * blocks + looks[0]) / pieces + start
    longest = (uncut + (last - uncut) / pieces) * blocks + looks[1] + start
    even = np.maximum(tiles * pieces * tile / chip.cores, longest)
    waves = np.maximum(whole(tiles * pieces / chip.cores) * tile, longest)
    compute = (1 - c["wave_quantisation"]) * even + c["wave_quantisation"] * waves
    keys = past + length
    new = 2 * batch * size * kv_heads * length
    front = stored * new * (2 + kv_bytes) + rewritten * batch * length * size * heads
    moved = 4 * batch * length * size * heads + 2 * batch * size * kv_heads * keys * kv_bytes + (1 - stored) * 2 * new
    warm = warm_share(moved + front / 2, c["cache_share"], chip.cache, SHARPNESS)  # half of it is what attention reads
    byte = (1 - warm * (1 - c["warm_time"])) / (c["memory_efficiency"] * chip.bandwidth)
    time = together(compute, moved * byte, c["overlap_exponent"]) + front * byte
    return launched(time, (moved + front) * byte, c["launch_time"], policy)


def stored_prefill_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of prefill, where nothing else is said behind a kernel that writes keys and values."""
    return prefill_parts({"stored": 1.0, **shapes}, chip, c, policy)


def decode_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of attention of one new token, or a few ``queries``, over ``length`` keys of each sequence.

    Where query heads read shared keys each by itself, ``kv_heads`` are as many, of which ``shared`` have the same keys.
    """
    batch, heads, kv_heads, size, length, window, queries, kv_bytes, shared = _given(
        shapes, batch=1, heads=1, kv_heads=1, head_size=128, length=1, window=0, queries=1, kv_bytes=2, shared=1
    )
    length = np.where(window > 0, np.minimum(length, window), length)
    apart = (window > 0) & (policy == WINDOW_APART)
    taken, slots = np.where(apart, heads, kv_heads), chip.cores * c["occupancy"]
    sequences = batch * taken
    pieces = np.maximum(np.minimum(slots / sequences, length / c["chunk"]), 1)
    pieces = np.where(apart | (policy == "whole"), 1.0, pieces)
    groups = np.maximum(1, np.ceil(queries * heads / taken / DECODE_GROUP))
    row = 2 * size * kv_bytes

    def core(keys: Any) -> Any:
        blocks = whole(keys / DECODE_BLOCK) * groups
        return keys * row / c["core_rate"] + c["block_time"] * blocks + c["start_time"]

    moved = batch * kv_heads / np.maximum(shared, 1) * length * row + 4 * batch * heads * size * queries
    alone = np.where(apart | (policy == "whole"), 1.0, np.clip(length / c["chunk"], 1, slots))
    ways = _ways(core, length, pieces, alone, sequences / slots, c)
    return _joined(ways, moved, shapes, chip, c, policy)


def latent_decode_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of attention of one new token over ``length`` latents, which all heads of a chip share."""
    batch, heads, size, value, length, kv_bytes = _given(
        shapes, batch=1, heads=1, head_size=576, value_size=512, length=1, kv_bytes=2
    )
    rows = float((policy or LATENT_POLICIES[0]).split()[0])
    paired = policy.endswith("in pairs")
    sequences, slots = batch * np.ceil(heads / rows), chip.cores * c["occupancy"]
    pieces = np.maximum(np.minimum(slots / sequences, length / c["chunk"]), 1)

    def core(keys: Any) -> Any:
        mma = rows * 2 * (size + value) * keys / (chip.matrix_peak / chip.cores * c["compute_efficiency"])
        stream = keys * size * kv_bytes / c["core_rate"]
        return together(mma, stream, 2.0) + c["block_time"] * whole(keys / DECODE_BLOCK) + c["start_time"]

    if paired:
        turns = np.ceil(2 * sequences / chip.cores)
        waves = (np.floor(turns / 2) * 2 / np.clip(c["occupancy"], 1, 2) + turns % 2) * core(length)
        ways = [(np.ones_like(pieces), waves)]
    else:
        ways = _ways(core, length, pieces, np.clip(length / c["chunk"], 1, slots), sequences / slots, c)
    ways = [(cut, waves + batch * heads / chip.cores * c["head_time"]) for cut, waves in ways]
    moved = batch * (length * size * kv_bytes + 2 * heads * (size + value))
    return _joined(ways, moved, shapes, chip, c, policy)


def _ways(core: Callable[[Any], Any], length: Any, pieces: Any, alone: Any, share: Any, c: Values) -> list[Way]:
    """The time of a core by the keys of a piece, in waves; that of one sequence ``alone``, cut as that would be.

    Between them, those of the fewest sequences whose pieces have a block more than that, or as many as here, and of the
    most that are cut. With fewer pieces there is less to put together: of all that come before these take longest.
    """
    load, quantised = share * pieces, c["wave_quantisation"]
    waves = ((1 - quantised) * np.maximum(load, 1) + quantised * whole(load)) * core(length / pieces)
    first, here = (whole(length / cuts / DECODE_BLOCK) for cuts in (alone, pieces))
    longer = (length / (DECODE_BLOCK * (1 + 1e-6)) / np.maximum(blocks, 1e-6) for blocks in (first, here - 1))
    others = (alone, *(np.clip(cuts, np.maximum(pieces, LEAST_CUT), alone) for cuts in (*longer, pieces)))
    return [(pieces, waves), *((cuts, core(length / cuts)) for cuts in others)]


def _joined(ways: Sequence[Way], moved: Any, shapes: Shapes, chip: ChipFigures, c: Values, policy: str) -> Parts:
    """Parts of the longest of some ways beside the bytes ``moved``, each with the time to put its pieces together."""
    warm = warm_share(moved + shapes.get(BESIDE, 0.0), c["cache_share"], chip.cache, SHARPNESS)
    memory = moved * (1 - warm * (1 - c["warm_time"])) / (c["memory_efficiency"] * chip.bandwidth)
    time: Any = 0.0
    for pieces, waves in ways:
        combined = np.where(pieces >= LEAST_CUT, c["combine"] * np.log2(1 + pieces), 0.0)
        time = np.maximum(time, together(waves, memory, c["overlap_exponent"]) + combined)
    return launched(slowed(time, c["throttle"]), memory, c["launch_time"], policy)


_SHAPES = ("batch", "heads", "kv_heads", "head_size", "length", "window", "kv_bytes")
_SORTED = ("batch", "heads", "length")

#: The kernel models of this file.
MODELS = (
    KernelModel(
        "prefill_attention",
        (*_SHAPES, "past"),
        PREFILL,
        stored_prefill_parts,
        PREFILL_POLICIES,
        _SORTED,
        stated=(TRITON_TILE, *TILES),
        stated_own=OF_TRITON,
        of_one_library=tuple(TILES),
        by_code=kernel_by_code,
        prior=0.2,
    ),
    KernelModel(
        "unmasked_attention", (*_SHAPES, "past"), UNMASKED, prefill_parts, UNMASKED_POLICIES, _SORTED, prior=0.2
    ),
    KernelModel(
        "decode_attention",
        _SHAPES,
        DECODE,
        decode_parts,
        DECODE_POLICIES,
        _SORTED,
        clearly_less=0.8,
        of_older_cores=OLDER,
        prior_of_ten=1.0,
    ),
    KernelModel("latent_prefill", (*_SHAPES, "past"), LATENT_PREFILL, prefill_parts, PREFILL_POLICIES, _SORTED),
    KernelModel(
        "latent_decode",
        ("batch", "heads", "head_size", "value_size", "length", "kv_bytes"),
        LATENT_DECODE,
        latent_decode_parts,
        LATENT_POLICIES,
        _SORTED,
        of_older_cores=OLDER,
    ),
)
