"""Answers to the book's questions on when a layer scales: chapters 5 to 7 and 12, each through the public API.

Bandwidths W of the book are both ways over one axis, twice that of a link.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from roofline import Bound, bound, chip, comm, scaling
from roofline.hardware.rate import rate, ridge
from roofline.sizes import is_symbol, symbol
from roofline.work import Key

V5P = {"bf16": 4.59e14}
H100 = {"bf16": 9.9e14}
FORWARD = {
    "fsdp": "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]",
    "tp": "In[B, D_Y] * Wi[D, F_Y] * Wo[F_Y, D] -> Out[B, D_Y]",
    "mixed": "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]",
}
BACKWARD = {
    "dp": "dWo = h[B_X, F] * dOut[B_X, D] -> bf16[F, D]; dh = dOut * Wo[F, D] -> bf16[B_X, F]; "
    "dWi = x[B_X, D] * dh -> bf16[D, F]; dh * Wi[D, F] -> bf16[B_X, D]",
    "fsdp": "dWo = h[B_X, F] * dOut[B_X, D] -> bf16[F, D_X]; dh = dOut * Wo[F, D_X] -> bf16[B_X, F]; "
    "dWi = x[B_X, D] * dh -> bf16[D_X, F]; dh * Wi[D_X, F] -> bf16[B_X, D]",
    "tp": "dWo = h[B, F_Y] * dOut[B, D_Y] -> bf16[F_Y, D]; dh = dOut * Wo[F_Y, D] -> bf16[B, F_Y]; "
    "dWi = x[B, D] * dh -> bf16[D, F_Y]; dh * Wi[D, F_Y] -> bf16[B, D_Y]",
    "mixed": "dWo = h[B_X, F_Y] * dOut[B_X, D_Y] -> bf16[F_Y, D_X]; dh = dOut * Wo[F_Y, D_X] -> bf16[B_X, F_Y]; "
    "dWi = x[B_X, D] * dh -> bf16[D_X, F_Y]; dh * Wi[D_X, F_Y] -> bf16[B_X, D_Y]",
}


def v5p(text: str, mesh: dict[str, Any], C: float = 4.59e14, W: float = 1.8e11, **sizes: Any) -> Bound:
    """Ask on v5p chips in the book's limiting form."""
    return bound(text, on="v5p", mesh=mesh, set={"bf16": C}, link=W / 2, algorithm="book", plan="fewest", sizes=sizes)


def sent(texts: list[str], mesh: dict[str, Any], **sizes: Any) -> float:
    """Bytes that the book counts for a layer: T_comms times W, both ways over every axis."""
    return 2 * sum(sum(v5p(text, mesh, **sizes).wire.values()) for text in texts)


def at(value: Any, **sizes: float) -> float:
    """Put sizes into a closed form."""
    return float(value.subs({symbol(name): size for name, size in sizes.items()})) if is_symbol(value) else value


# ---- chapters 5, 6 and 7: when does a layer scale


def fsdp_on_a_cube() -> float:
    """Tokens per chip of fully sharded data parallelism over all three axes of a v5p."""
    return float(scaling("fsdp", on="v5p", set=V5P, torus_axes={"X": 3}).value)


def most_chips(tokens: int) -> float:
    """Chips of fully sharded data parallelism over all three axes of a v5p for a batch of so many tokens."""
    return float(scaling("fsdp", on="v5p", set=V5P, torus_axes={"X": 3}, unknown="X", B=tokens).value)


def mixed(F: float, MX: int = 2, MY: int = 1, alpha: float = 2550) -> float:
    axes = {"X": int(MX), "Y": int(MY)}
    return float(
        scaling("mixed", on="v5p", torus_axes=axes, set={"bf16": alpha * 1.8e11}, link=9e10, sizes={"F": int(F)}).value
    )


def tensor_parallel() -> dict[str, Any]:
    def layer(ways: int) -> str:
        answer = v5p(FORWARD["tp"], {"Y": ways}, B=8192, D=8192, F=30000)
        return "compute-bound" if answer.comms_over_math <= 1 else "communication-bound"

    return {
        "F_for_8way": scaling("tp", on="v5p", set=V5P, mesh={"Y": 8}).value,
        "llama70b_8way": layer(8),
        "llama70b_16way": layer(16),
        "gemma7b_limit": scaling("tp", on="v5p", set=V5P, unknown="Y", F=50_000).value,
        "alpha_int8": ridge(chip("v5p:4x4x4"), "int8", "X"),
    }


def mixed_parallel() -> dict[str, Any]:
    def ask(
        X: int = 16, Y: int = 4, MX: int = 2, B: int = 48000, D: int = 8192, F: int = 32768, W: float = 1.8e11
    ) -> Bound:
        options = {"set": V5P, "link": W / 2, "algorithm": "book", "sizes": {"B": B, "D": D, "F": F}}
        assert MX == 2
        return bound(FORWARD["mixed"], on="v5p:4x4x4", mesh={"X": X, "Y": Y}, plan=PLAN, **options)

    return {
        "t_fsdp": lambda **at: ask(**at).times["ici X.1"],
        "t_tp": lambda MY, **at: ask(**at).times["ici Y"],
        "ratio": lambda B, F, MX, MY, alpha, N: math.sqrt(B / N / mixed(F, MX, MY, alpha)),
        "B_per_chip": lambda alpha, MX, MY, F: mixed(F, MX, MY, alpha),
        "numeric": mixed(32768),
        "gain_over_fsdp": fsdp_on_a_cube() / mixed(32768),
    }


PLAN = (
    "AllGather_Y(In[B_X, D_Y]); AllGather_X(Wi[D_X, F_Y]); AllGather_X(Wo[F_Y, D_X]); "
    "ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})"
)


def between_slices() -> dict[str, Any]:
    target, mesh = "v5p:16x20x28:2", {"X": 8960, "S": 2}
    found = scaling("dcn", on=target, mesh=mesh, set=V5P)
    open_sizes = found.question.vary(sizes={}).answer(symbolic=True)
    rates = {use.rate.value: use.rate.plain for use in open_sizes.uses}
    (math_time,) = [time for name, time in open_sizes.times.items() if name == "mxu"]

    def t_math(B: float, D: float, F: float, N: float, C: float) -> float:
        assert N == 2 * 8960
        return at(math_time.subs({**rates, next(u.rate.value for u in open_sizes.uses if u.dtype): C}), B=B, D=D, F=F)

    return {
        "alpha": found.value,
        "t_math": t_math,
        "t_comms": lambda D, F, M, Wdcn: at(open_sizes.times["dcn"].subs(rates), D=D, F=F),
    }


def bytes_of_a_layer() -> dict[str, Any]:
    def whole(at: dict[str, float], *axes: str) -> dict[str, Any]:
        return {"mesh": {axis: int(at[axis]) for axis in axes}, **{name: int(at[name]) for name in "BDF"}}

    return {
        "dp": lambda **at: sent([BACKWARD["dp"]], **whole(at, "X")),
        "fsdp": lambda **at: sent([FORWARD["fsdp"], BACKWARD["fsdp"]], **whole(at, "X")),
        "tp": lambda **at: sent([FORWARD["tp"], BACKWARD["tp"]], **whole(at, "Y")),
        "mixed_consistent": lambda **at: sent([FORWARD["mixed"], BACKWARD["mixed"]], **whole(at, "X", "Y")),
    }


def decoding() -> dict[str, Any]:
    v5e = chip("v5e", hbm=8.2e11)
    hbm, ici = rate(v5e, Key("bytes", "main")).value, 2 * rate(v5e, Key("wire", "link")).value

    def ways(F: int, B: int, beta: float) -> float:
        figures = {"hbm": beta * 9e10, "link": 4.5e10}
        return float(scaling("decode-tp", on="v5e", set=figures, sizes={"F": F, "B": B}).value)

    def loading(D: int, F: int, Y: int, Whbm: float) -> float:
        answer = bound("In[B, D] * W[D, F_Y] -> Out[B, F_Y]", on="h100", mesh={"Y": Y}, B=1, D=D, F=F)
        return float(answer.ops[0].op.reads[1].traffic_bytes / Whbm)

    def gathering(B: int, D: int, Wici: float) -> float:
        text = "AllGather_Y(bf16[B, D_Y])"
        return float(comm(text, on="h100", mesh={"Y": 32}, link=Wici, algorithm="book", B=B, D=D).row.wire_time)

    return {"beta": hbm / ici, "Y_max": ways, "Y": ways(16384, 32, 8), "t_hbm": loading, "t_ici": gathering}


# ---- chapter 12: GPUs


def two_nodes() -> dict[str, Any]:
    def tokens(alpha: float, X: float) -> float:
        options = {"set": {"bf16": alpha * 4e11}, "algorithm": "hierarchical", "network": "ib"}
        return float(scaling("dp", on=f"dgx-h100:{int(X) * 8}", **options).value)

    return {"B_per_gpu": tokens, "value": tokens(2475, 2)}


def gpu_ways() -> dict[str, Any]:
    """TP ways for F = 28000: beyond a node all that leaves it counts; of two nodes only what crosses between them."""

    def widest(algorithm: str) -> float:
        options = {"on": "dgx-h100:16", "set": H100, "mesh": {"Y": 16}, "network": "ib"}
        return float(scaling("tp", algorithm=algorithm, **options).value)

    return {"in_node": 28000 / (widest("book") / 16), "two_nodes": 8 + 28000 / (widest("hierarchical") / 8)}


SCALING: dict[str, Callable[[], dict[str, Any]]] = {
    "training.llama70b_17days": lambda: {"chips": most_chips(16_000_000), "pods": most_chips(16_000_000) / 8960},
    "training.tp_examples": tensor_parallel,
    "training.mixed_bound": mixed_parallel,
    "training.dcn": between_slices,
    "training.table": bytes_of_a_layer,
    "training.q3.2": lambda: {"min_batch": fsdp_on_a_cube() * 4096, "possible": fsdp_on_a_cube() * 4096 <= 3e6},
    "inference.decode_tp": decoding,
    "gpus.dp2": two_nodes,
    "gpus.tp": gpu_ways,
}
