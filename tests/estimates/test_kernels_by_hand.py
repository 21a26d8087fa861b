"""Kernel models against the same formulas written out one number at a time, at random shapes and constants."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from roofline.estimates.constants import KERNELS
from roofline.estimates.contraction import SPLITS, TILES
from roofline.estimates.kernel_model import ChipFigures

CHIP = ChipFigures(cores=132, matrix_peak=989.4e12, bandwidth=3.35e12, cache=50e6)
Numbers = Mapping[str, float]


def warm(bytes_: float, share: float, sharpness: int = 2) -> float:
    return 1 / (1 + (bytes_ / (share * CHIP.cache)) ** sharpness)


def norm(first: float, second: float, power: float) -> float:
    return float((first**power + second**power) ** (1 / power))


def streamed(s: Numbers, c: Numbers) -> float:
    found = warm(s["bytes"], c["cache_share"])
    slow = s["bytes"] / (0.9 * CHIP.bandwidth)
    return (1 - found) * slow + found * slow / c["cache_speedup"]


def elementwise(s: Numbers, c: Numbers) -> float:
    return streamed(s, c) + s["values"] / CHIP.cores * c["value_time"] + c["launch_time"]


def rate(s: Numbers, c: Numbers) -> float:
    return c["link_efficiency"] * s["link"] / (1 + c["chip_cost"] * max(s["chips"] - 2, 0) ** c["chip_power"])


def collective(s: Numbers, c: Numbers) -> float:
    wire = s["sent"] / rate(s, c) + c["middle"] * s["sent"] / (s["sent"] + c["middle_bytes"])
    return wire + c["start"] + c["hop"] * (s["chips"] - 1)


def all_reduce(s: Numbers, c: Numbers) -> float:
    """Each chip sends its whole message to each other at once, or its parts in two shots, as a ring sends them."""
    message = s["sent"] / (2 * (s["chips"] - 1) / s["chips"])
    at_once = (s["chips"] - 1) * message / rate(s, c)
    return min(at_once, c["second_shot"] + s["sent"] / rate(s, c)) + c["start"] + c["hop"] * (s["chips"] - 1)


def contraction(s: Numbers, c: Numbers) -> float:
    m, n, k = s["m"], s["n"], s["k"]
    a, b, out = m * k * s["a_bytes"], k * n * s["b_bytes"], m * n * s["out_bytes"]
    turn = a * s["activations_in_turn"] + b * s["weights_in_turn"] + out  # what calls move until the first comes again
    again = {"a": turn if s["activations_in_turn"] > 1 else a + b + out, "b": turn + s["beside"], "out": a + b + out}
    kept = sum(size * warm(again[name], c["cache_share"], 16) for name, size in {"a": a, "b": b, "out": out}.items())
    times = []
    for tile_rows, tile_columns in TILES:
        for split in SPLITS:
            tiles = math.ceil(m / tile_rows) * math.ceil(n / tile_columns) * split
            deep = max(k / split, c["shortest_depth"])
            multiply = 2 * tile_rows * tile_columns * deep * CHIP.cores / CHIP.matrix_peak / c["compute_efficiency"]
            load = (tile_rows * s["a_bytes"] + tile_columns * s["b_bytes"]) * deep / c["core_l2_rate"]
            written = c["epilogue"] * tile_rows * tile_columns * s["out_bytes"]
            one = norm(multiply, load, 3) + c["tile_overhead"] + written
            even, whole = max(tiles / CHIP.cores, 1), math.ceil(tiles / CHIP.cores)
            waves = even + c["wave_quantisation"] * (whole - even)
            memory = (a + b + out - kept + kept / 3) / (c["memory_efficiency"] * CHIP.bandwidth)
            sums = 8 * tile_rows * tile_columns * even / c["core_l2_rate"]
            added = c["split_overhead"] + sums if split > 1 else 0
            times.append(norm(waves * one, memory, c["overlap_exponent"]) + added)
    least, width = min(times), c["choice_width"]
    soft = least * max(sum((least / each) ** (1 / width) for each in times) ** -width, 0.5)
    working = min(2 * m * n * k / CHIP.matrix_peak / c["compute_efficiency"] / soft, 1)
    return soft * (1 + c["throttle"] * working**2 * soft / (soft + 600e-6)) + c["launch_time"]


def prefill(s: Numbers, c: Numbers) -> float:
    """Causal attention in tiles of 128 queries and blocks of 128 keys, less of short sequences and of wide heads."""
    heads, size, length = s["batch"] * s["heads"], s["head_size"], s["length"]
    side = 32 if size > 256 else 128
    tiles = math.ceil(length / side)
    rows = keys = min(side, 16 * math.ceil(length / 16))
    multiply = 4 * rows * keys * 32 * math.ceil(size / 32) * CHIP.cores / CHIP.matrix_peak / c["compute_efficiency"]
    multiply /= c["narrow_heads"] if size <= 64 else c["uneven_heads"] if size % 16 else 1
    multiply /= c["widest_heads"] if size > 256 else c["wide_heads"] if size > 192 else 1
    powers = rows * keys / c["exp_rate"]
    block = max(multiply, powers) + c["exposed"] * min(multiply, powers) + c["block_time"]
    mean = min(max((tiles + 1) * min(side, length) / 2 / side, 1), tiles)
    start = c["tile_time"] * (2 if s["alone"] else 1)
    one, longest = mean * block + start, tiles * block + start
    even = max(heads * tiles * one / CHIP.cores, longest)
    turns = max(math.ceil(heads * tiles / CHIP.cores) * one, longest)
    new = 2 * s["batch"] * s["kv_heads"] * size * length
    moved = 4 * heads * length * size + new * s["kv_bytes"]
    in_front = new * (2 + s["kv_bytes"]) + heads * length * size * s["rewritten"]
    kept = warm(moved + in_front / 2, c["cache_share"], 8)
    byte = (1 - kept * (1 - c["warm_time"])) / (c["memory_efficiency"] * CHIP.bandwidth)
    compute = even + c["wave_quantisation"] * (turns - even)
    return norm(compute, moved * byte, c["overlap_exponent"]) + in_front * byte + c["launch_time"]


SHAPES: dict[str, tuple[Callable[[Numbers, Numbers], float], dict[str, tuple[float, ...]]]] = {
    "elementwise": (elementwise, {"bytes": (1e4, 1e7, 8e7, 1e10), "values": (5e3, 1e9)}),
    "norm": (elementwise, {"bytes": (1e5, 4e7, 1e9), "values": (1e5, 5e8)}),
    "collective": (collective, {"sent": (1e3, 1e6, 1e9), "chips": (2, 8), "link": (4.5e11,)}),
    "all_reduce": (all_reduce, {"sent": (1e3, 1e5, 1e6, 1e9), "chips": (2, 4, 8), "link": (4.5e11,)}),
    "prefill_attention": (
        prefill,
        {
            "batch": (1, 8), "heads": (32,), "kv_heads": (4, 32), "head_size": (64, 72, 128, 256, 512),
            "length": (16, 50, 128, 1000, 8192), "kv_bytes": (1, 2), "rewritten": (0, 3, 4), "alone": (0, 1),
        },
    ),
    "contraction": (
        contraction,
        {
            "m": (1, 100, 4096), "n": (1000, 8192), "k": (32, 512, 8192),
            "a_bytes": (1, 2), "b_bytes": (0.5, 2), "out_bytes": (2,),
            "weights_in_turn": (1, 6), "activations_in_turn": (1, 6), "beside": (0, 10**7),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_a_kernel_model_is_its_formula(kind: str) -> None:
    model, (by_hand, sizes), draw = KERNELS[kind], SHAPES[kind], random.Random(kind)
    for _ in range(25):
        constants = {
            each.name: math.exp(draw.uniform(math.log(each.low), math.log(each.high))) for each in model.constants
        }
        shape = {name: draw.choice(values) for name, values in sizes.items()}
        arrays = {name: np.array([value], float) for name, value in shape.items()}
        found = model.times(arrays, CHIP, constants, model.policies[0])
        assert found[0] == pytest.approx(by_hand(shape, constants), rel=1e-9), (shape, constants)
