"""Answers to the book's questions that a mesh and a model answer together: days, memory, serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline import Bound, bound, chip, comm, layout, scaling
from roofline.errors import SizeError
from roofline.hardware.rate import ridge
from roofline.models.training.stage import kept_bytes, states

DAY = 86_400


def training(params: float, tokens: float) -> Bound:
    """6 FLOPs a parameter and token, all on one chip."""
    return bound(flops="6*params*tokens", sizes={"params": int(params), "tokens": int(tokens)}, on="v5p")


def days(params: float, tokens: float, *, chips: float, mfu: float) -> float:
    """Days on chips that reach a stated share of their peak."""
    return float(training(params, tokens).lower) / (chips * mfu) / DAY


def seventeen_days() -> dict[str, Any]:
    per_chip = scaling("fsdp", on="v5p", set={"bf16": 4.59e14}, torus_axes={"X": 3}).value
    assert per_chip is not None
    return {
        "flops": training(70e9, 15e12).flops,
        "days": days(70e9, 15e12, chips=16e6 // per_chip, mfu=0.5),
    }


def pure_fsdp() -> dict[str, Any]:
    """13e9 parameters at 10 bytes; the book keeps the hidden state and both of the gated MLP's matmuls of a layer."""
    acts = kept_bytes(3e6, 5120 + 2 * 13824, 40, checkpoint=1)
    total = acts + sum(states(13e9, gradients=None, master=None).values())
    return {"acts": acts, "total": total, "per_chip": total / 4096 / 1e9}


def serving_in_int8() -> dict[str, Any]:
    """The invented model of 18.4e9 parameters with 8 heads of keys and values, on a slice without wrap-around."""
    figures = {"int8": 3.94e14, "link": 4.5e10}
    options = {"on": "v5e:4x4", "link": 4.5e10, "D": 2**24}
    line, ring = (comm("AllGather_X(int8[D_X])", wrap=wrap, **options).row.wire_time for wrap in (False, True))
    shapes = {level.shape for axis in chip("v5e:4x4").mesh or () for level in axis.segments}
    no_wrap = shapes == {"line"} and line == 2 * ring
    ways = scaling(
        "tp", on="v5e", dtype="int8", unknown="Y", F=16384, torus_axes={"Y": 2}, wrap=False, algorithm="torus",
        set=figures,
    )  # fmt: skip
    cache, sizes = "int8[2, B_Z, S, K_Y, H]", {"B": 2, "S": 8192, "K": 8, "H": 256}
    with pytest.raises(SizeError, match="size K of 8 does not divide over 16 chips"):
        layout("int8[2, B, S, K_Y, H]", on="v5e:4x4", mesh={"Y": 16}, sizes=sizes)
    held = layout(cache, on="v5e:4x4", mesh={"Y": 8, "Z": 2}, sizes=sizes)
    whole = held.copies == 1 and held.local[1] == held.local[3] == 1
    return {
        "ici": "no wraparound: half the ring bandwidth" if no_wrap else "",
        "alpha_int8_wrap": ridge(chip("v5e:16x16", **figures), "int8", "X"),
        "Y_max_two_axes_nowrap_int8_act": ways.limit,
        "kv": "KV[2, B_Z, S, K_Y, H]: heads 8-way, batch 2-way" if whole else "",
        "step_params_only": bound(bytes="P/16", sizes={"P": 18_400_000_000}, on="v5e", set={"hbm": 8.2e11}).lower * 1e3,
    }


def shapes_from_a_profile() -> dict[str, Any]:
    """The layout whose parts are what a profile shows of one chip: 1 row of 8192, and 4096 of 8192."""
    sizes, mesh = {"B": 8, "D": 8192, "F": 32768}, {"X": 8}
    x, w, out = (layout(text, mesh=mesh, sizes={k: v for k, v in sizes.items() if k in text})
                 for text in ("bf16[B_X, D]", "bf16[F_X, D]", "bf16[B, F_X]"))  # fmt: skip
    assert (x.local, w.local) == ((1, 8192), (4096, 8192))
    whole = [f"{part.dtype}[{','.join(map(str, part.dims))}]" for part in (x, w, out)]
    return {"true": f"{whole[0]} * {whole[1]} -> {whole[2]}"}


MODELS: dict[str, Callable[[], dict[str, Any]]] = {
    "inference.q4": serving_in_int8,
    "training.llama70b_17days": seventeen_days,
    "training.q3.2": pure_fsdp,
    "profiling.q1": shapes_from_a_profile,
}
