"""Strings to read: lines that are right, and generators of random and damaged ones for fuzzing."""

from __future__ import annotations

import random
from collections.abc import Iterator

VALID = (
    "bf16[B, D] * int8[D, F] -> bf16[B, F]",
    "int8[B, D] * int8[B, D, F] -> int8[B, F]",
    "int8[B, D] *_D int8[B, D, F] -> int8[B, F]",
    "bf16[512, 8192] @ bf16[8192, 4096]",
    "bf16[8, 1, 5, 6] @ bf16[3, 6, 7]",
    "bf16[N] · bf16[N] -> bf16[]",
    "bf16[N] • bf16[N] → bf16[1]",
    "x • y: bf16[N], bf16[N] → bf16[1]",
    "bf16[B, D] + bf16[B, D]",
    "bf16[B, S, D] / fp32[D] - bf16[B, S, D]",
    "bf16[4, 1] + bf16[3]",
    "gelu(bf16[B, F])",
    "softmax_T(fp32[B, N, S, T])",
    "softmax(fp32[8, 32, 2048, 2048])",
    "attention(bf16[B, S, N, H], bf16[B, T, K, H], bf16[B, T, K, H], causal)",
    "attention(bf16[8, 128, 32, 64], bf16[8, 256, 8, 64], bf16[8, 256, 8, 64], window=128)",
    "attention(bf16[S, N, H], bf16[S, N, H], bf16[S, N, V]) -> bf16[S, N, V]",
    "conv(bf16[B, 224, 224, 3], bf16[7, 7, 3, 64], stride=2, pad=3)",
    "conv(bf16[B, H, W, C], bf16[3, 3, 1, C], depthwise, same)",
    "conv(bf16[B, H, W, 64], bf16[3, 3, 16, O], bf16[O], stride=(2, 1), dilation=2x2, groups=4) -> bf16[B, P, Q, O]",
    "conv_transpose(bf16[B, 7, C], bf16[4, C, O], stride=2, pad=1, output_pad=1)",
    "pool(bf16[8, 112, 112, 64], window=3x3, stride=2, pad=1)",
    "embedding(bf16[V, D], int32[B, S])",
    "layer_norm_D(x[B, S, D], g[D], b[D])",
    "group_norm(bf16[B, 14, 14, 64], groups=32)",
    "sum_{S,T}(bf16[B, S, T]) -> fp32[B]",
    "mean(bf16[B, T]) -> bf16[B]",
    "argmax_last(bf16[8, 128])",
    "cumsum_T(fp32[B, T])",
    "where(bool[B, D], bf16[B, D], bf16[D])",
    "cast(bf16[B, D]) -> int8",
    "transpose(bf16[B, S, D]) -> bf16[D, B, S]",
    "rope(bf16[B, S, N, H], fp32[S, H])",
    "swiglu(bf16[B, F], bf16[B, F])",
    "bf16[B_X, D] * bf16[D, F_Y] -> bf16[B_X, F_Y]",
    "A[I, J_X] * B[J_X, K] -> C[I, K] {U_X}",
    "A[I_{data,model}, d_ff] * B[d_ff, K]",
    "AllGather_X(bf16[B_X, D])",
    "ReduceScatter_{X,K}(bf16[I, K] {U_X})",
    "AllReduce_Z(bf16[B_X, D_Y] {U_Z})",
    "AllToAll_{X,J}(A[I_X, J])",
    "AllToAll_{X, J} A[I_X, J] -> A[I, J_X]",
    "Permute_X(bf16[B_X, D])",
    "bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F] {U_X}; AllReduce_X; mesh X=2",
    "h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]",
    "x[B, D] * (W[D, F] + b[F]) -> f32[B, F] on v5e:4x4 over vmem",
    "In[B_X, D] . Win[D, F] . Wout[F, D] -> Out[B_X, D]",
    r"$X[B, D] \cdot_D Y[D, F] \rightarrow Z[B, F]$",
    r"\text{int8[B, D]} *_D \text{int8[B, D, F]} \rightarrow \text{int8[B, F]}",
    "W:int8[D, F]; x:bf16[B, D]\nx * W  # a comment\n-> bf16[B, F]",
    "bf16[B, 8192] * int8[8192, F] -> bf16[B, F]",
    "nvfp4[B, D] * mxfp4[D, F] -> bf16[B, F]",
    "h = bf16[B, D] + bf16[B, D]; layer_norm(h); h",
    "topk_D(bf16[B, D], k=2)",
    "fft_D(fp32[B, D])",
    "logsumexp_D(log_softmax(fp32[B, D]))",
    "maximum(rms_norm(bf16[B, D], bf16[D]), cummax_D(bf16[B, D]))",
    "Broadcast_X(bf16[B, D])",
    "Send_X(from_host(bf16[B, D_X]))",
)

_PIECES = (
    *"[](){},;:=*@.·•×+-/_→ \n\t$\\%#'\"²é漢🙂\x00\u202e0123456789",
    "->", "bf16", "int8", "fp8_e4m3", "bf61", "B", "D", "F_X", "B_XY", "B_{data,model}", "{U_X}", "*_D", "·_{D,E}",
    "gelu(", "softmax_T(", "attention(", "conv(", "AllGather_X(", "AllReduce_X", "stride=2", "pad=same", "causal",
    "h = ", "h", "mesh X=2", " on v5e:4x4", " over vmem", "bf16[B, D]", "[8, 8]", "bf16[]", "1e6", "1e999", "0",
    "9" * 31, "9" * 5000, r"\cdot", r"\text{", r"\alpha", "%1", "_", "__", "X", "A[I, J]", "2.5", "-1", "1_000", "٣",
    "where(", "pool(", "window=3", "embedding(", "sum(", "transpose(", "cast(",
)  # fmt: skip


def random_text(rng: random.Random) -> str:
    """Pieces of the notation and of other things, in any order."""
    return "".join(rng.choice(_PIECES) for _ in range(rng.randint(0, 24)))


def mutated(rng: random.Random) -> str:
    """A right line, or two, with a few characters or pieces lost, doubled, swapped or put in."""
    text = rng.choice(VALID)
    if rng.random() < 0.2:
        text += rng.choice((";", "\n", " * ", " + ", " -> ", ",")) + rng.choice(VALID)
    for _ in range(rng.randint(1, 4)):
        place = rng.randint(0, len(text))
        length = rng.randint(0, 3)
        kind = rng.random()
        if kind < 0.4:
            text = text[:place] + text[place + length :]
        elif kind < 0.8:
            text = text[:place] + rng.choice(_PIECES) + text[place:]
        elif kind < 0.9:
            text = text[:place] + text[place : place + length] * 2 + text[place + length :]
        else:
            text = text[:place] + text[place : place + length][::-1] + text[place + length :]
    return text


def relabelled(rng: random.Random) -> str:
    """A line of the right form whose dimensions are chosen at random: shapes that mostly do not fit."""
    words = ("B", "D", "F", "1", "2", "8", "8_X", "B_X", "D_Y", "d_ff", "4096")

    def tensor() -> str:
        dims = ", ".join(rng.choice(words) for _ in range(rng.randint(0, 4)))
        return rng.choice(("bf16", "int8", "fp32", "fp16", "", "A", "h:int4")) + f"[{dims}]"

    forms = (
        "{} * {}", "{} * {} -> {}", "{} ·_D {}", "{} ·_{{D,F}} {} -> {}", "{} + {} * {}", "{} / {} -> {}",
        "softmax_D({})",
        "sum_{{B,D}}({}) -> {}", "attention({}, {}, {})", "conv({}, {}, stride=2, pad=1)", "conv({}, {}, same) -> {}",
        "conv_transpose({}, {}, groups=2)", "pool({}, window=2) -> {}", "embedding({}, {})", "transpose({}) -> {}",
        "where({}, {}, {})", "layer_norm({}, {}, {})", "AllGather_X({})", "ReduceScatter_X({}) -> {}",
        "AllToAll_{{X,D}}({})",
        "h = {}; h * {} -> {}", "A{0}; gelu(A) + {0}", "rope({}, {}) -> {}", "cumsum({})", "conv({}, {}, depthwise)",
        "gelu({} * {}) -> {}", "group_norm({}, groups=2)", "argmax({}) -> {}", "swiglu({}, {} @ {})",
    )  # fmt: skip
    return rng.choice(forms).format(*(tensor() for _ in range(3)))


def texts(seed: int, count: int) -> Iterator[str]:
    """``count`` strings, a third of each kind, the same ones for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        yield (random_text, mutated, relabelled)[number % 3](rng)
