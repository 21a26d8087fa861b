"""Questions of the seeds and the book whose answer is words, and what the words are as data.

A row of :data:`WORDS` is a function of one public call; :data:`MEANS` has what the book says, and the data it is.
:data:`OUTSIDE` lists what is no question for this package, with the reason. Read by :mod:`tests.cases.test_one_call`.
"""

from __future__ import annotations

from typing import Any

import pytest

from roofline import bound, chip, comm, compare, layout, shard, solve, solve_equal
from roofline.hardware.network import network
from roofline.hardware.rate import ridge
from tests.cases.one_call_figures import equal_time
from tests.cases.one_call_rows import BOOK, GATHER_B, MATMUL, Rows, note, two_chips

SELF_ATTENTION = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
LAYER = "In[B, D_Y] * Wi[D, F_Y] * Wo[F_Y, D] -> Out[B, D_Y]"
EITHER = "A[I_X, J] * B[J, K_Y] -> C[I, K]"
LOCAL = "In[8_X, 2048_Y] * W[2048_Y, 8192] -> Out[8_X, 8192]"
FIRST = "AllGather_X(W:bf16[D_X, F])"
SECOND = "AllReduce_X(bf16[B, F] {U_X})"


def best(text: str, *, on: str = "v5p:4x4x4", **sizes: int) -> Any:
    """The plan of the book's rules: the one with the least to send."""
    return shard(text, on=on, sizes=sizes).best


def sharded(text: str) -> Any:
    """A matmul on a mesh of X by Y chips."""
    return bound(text, on="v5e", mesh={"X": "X", "Y": "Y"})


def at_ways(ways: int) -> Any:
    figures = {"bf16": 4.59e14, "link": 9e10}
    return bound(
        LAYER, on="v5p", mesh={"Y": ways}, set=figures, algorithm="book", plan="fewest", B=8192, D=8192, F=30000
    )


def flip() -> Any:
    return solve(SELF_ATTENTION, "T", on="v5e", set=BOOK, B=8, N=32, H=128)


def gathered(wrap: bool) -> Any:
    return comm("AllGather_X(int8[D_X])", on="v5e:4x4", wrap=wrap, link=4.5e10, D=16_777_216)


def cache_held() -> Any:
    mesh = {"Y": 8, "Z": 2}
    return layout("int8[2, B_Z, S, K_Y, H]", on="v5e:4x4", mesh=mesh, sizes={"B": 2, "S": 8192, "K": 8, "H": 256})


def shown(text: str) -> Any:
    """A tensor of which a profile shows one chip's part."""
    return layout(text, mesh={"X": 8}, local=True)


def alone() -> Any:
    return shard("A[I, J] * B[J, K] -> C[I, K]", on="v4:4x4x4", algorithm="book", I=4096, J=4096, K=4096)


WORDS: Rows = {
    ("s000.dot", "vpu_intensity"): lambda: ridge(chip("v5p", vpu={"fp32": 7e12}), "fp32", unit="vpu"),
    ("s000.matmul", "gpu"): lambda: solve(MATMUL, "B", on="h100").limit,
    ("s002.q2.attention", "prefill"): lambda: (flip().before, flip().after, flip().value),
    ("s002.q3.D1024", "scales"): lambda: two_chips(B=4096, D=1024, F=32768).kind,
    ("s003.llama13b.fixed", "bound_a100"): lambda: (note().kind, note().critical_intensity),
    ("tpus.spec.v6e", "pod"): lambda: network(chip("v6e"))["ici"].link.axes,
    ("tpus.spec.v6e", "host"): lambda: network(chip("v6e"))["ici"].link.host,
    ("tpus.spec.tpu7x", "pod"): lambda: network(chip("tpu7x"))["ici"].link.label,
    ("tpus.spec.tpu7x", "host"): lambda: network(chip("tpu7x"))["ici"].link.host,
    ("sharding.case.1", "collective"): lambda: bound("A[I, J] * B[J, K]", on="v5p", I=8192, J=8192, K=8192).plan,
    ("sharding.case.1", "output"): lambda: best("A[I, J] * B[J, K]").bound.ops[-1].op.writes[0].label,
    ("sharding.case.2", "collective"): lambda: best("A[I_X, J] * B[J, K]").name,
    ("sharding.case.2", "output"): lambda: best("A[I_X, J] * B[J, K]").bound.ops[-1].op.writes[0].label,
    ("sharding.case.10", "collective"): lambda: {plan.name for plan in shard(EITHER, on="v5p:4x4x4")},
    ("sharding.case.10", "output"): lambda: best(EITHER).bound.ops[-1].op.writes[0].label,
    ("sharding.q4", "small_batch"): lambda: (
        solve_equal(FIRST, SECOND, "D", quantity="sent", on="v5p", mesh={"X": 4}, algorithm="book").form
    ),
    ("sharding.q4", "large_batch"): lambda: equal_time().value,
    ("sharding.q5", "best"): lambda: {plan.name for plan in alone().as_good},
    ("sharding.q6.a", "collective"): lambda: (
        sharded("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]").plan,
        sharded("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]").ops[1].read_bytes,
    ),
    ("sharding.q6.b", "collective"): lambda: (sharded(GATHER_B).plan, sharded(GATHER_B).ops[0].written_bytes),
    ("sharding.q6.c", "collective"): lambda: best("A[I_X, J] * B[J, K_Y]").name,
    ("training.tp_examples", "llama70b_8way"): lambda: at_ways(8).kind,
    ("training.tp_examples", "llama70b_16way"): lambda: at_ways(16).kind,
    ("inference.q4", "ici"): lambda: compare(gathered(wrap=False), gathered(wrap=True)).ratio("at best"),
    ("inference.q4", "kv"): lambda: (cache_held().local, cache_held().copies),
    ("profiling.hlo", "space"): lambda: layout("bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}").space,
    ("profiling.q1", "true"): lambda: [
        shown(text).dims for text in ("bf16[1_X, 8192]", "bf16[4096_X, 8192]", "bf16[8, 4096_X]")
    ],
    ("profiling.q1", "F"): lambda: shown("bf16[4096_X, 8192]").dims[0],
    ("jax.matmul_local", "collective"): lambda: (
        bound(LOCAL, on="v5e:4x2", plan="AllReduce").plan,
        bound(LOCAL, on="v5e:4x2", plan="AllReduce").ops[1].op.reads[0].dims,
    ),
}

#: What the book says of these, in words, and what that is as data.
MEANS: dict[tuple[str, str], tuple[Any, Any]] = {
    ("s000.dot", "vpu_intensity"): (
        "about 3 (see book: mixes per-core and per-chip)",
        pytest.approx(3, abs=0.5),
    ),
    ("s000.matmul", "gpu"): ("about 300", pytest.approx(300, abs=5)),
    ("s002.q2.attention", "prefill"): (
        "compute-bound for T > 480 (MHA, v5e)",
        ("hbm", "mxu", pytest.approx(480, abs=1)),
    ),
    ("s002.q3.D1024", "scales"): (False, "network-bound"),
    ("s003.llama13b.fixed", "bound_a100"): (
        "compute (thousands > 153)",
        ("compute-bound", pytest.approx(153, abs=0.5)),
    ),
    ("tpus.spec.v6e", "pod"): ("16x16", (16, 16)),
    ("tpus.spec.v6e", "host"): ("4x2", (4, 2)),
    ("tpus.spec.tpu7x", "host"): ("2x2x1", (2, 2, 1)),
    ("sharding.case.1", "collective"): ("none", None),
    ("sharding.case.1", "output"): ("C[I, K]", "bf16[I, K]"),
    ("sharding.case.2", "collective"): ("none", "no communication"),
    ("sharding.case.2", "output"): ("C[I_X, K]", "bf16[I_X, K]"),
    ("sharding.case.10", "output"): ("C[I, K]", "[I, K]"),
    ("sharding.q6.a", "collective"): ("AllReduce_Y on 2*I*K/X bytes", ("AllReduce_Y(C[I_X, K] {U_Y})", "2*I*K/X")),
    ("sharding.q6.b", "collective"): ("AllGather_X of B, 2*J*K/Y bytes", ("AllGather_X(B[J_X, K_Y])", "2*J*K/Y")),
    ("sharding.q6.c", "collective"): ("none", "no communication"),
    ("sharding.q4", "large_batch"): ("strategy 2 wins when D > 5100", pytest.approx(5100)),
    ("sharding.q4", "small_batch"): ("strategy 2 wins when D > 2B", "2*B"),
    ("training.tp_examples", "llama70b_16way"): ("communication-bound", "network-bound"),
    ("inference.q4", "ici"): ("no wraparound: half the ring bandwidth", 2.0),
    ("inference.q4", "kv"): ("KV[2, B_Z, S, K_Y, H]: heads 8-way, batch 2-way", ((2, 1, 8192, 1, 256), 1)),
    ("profiling.hlo", "space"): ("VMEM (S(1)); S(0) or none is HBM", "VMEM"),
    ("profiling.q1", "true"): (
        "bf16[8,8192] * bf16[32768,8192] -> bf16[8,32768]",
        [(8, 8192), (32768, 8192), (8, 32768)],
    ),
    ("jax.matmul_local", "collective"): (
        "AllReduce_Y of bf16[2,8192]",
        ("AllReduce_Y(Out[8_X, 8192] {U_Y})", (2, 8192)),
    ),
}

#: Of several that are as good, or a choice that is offered: those that have to be among what is found.
AMONG: dict[tuple[str, str], tuple[str, set[str]]] = {
    ("sharding.case.10", "collective"): (
        "AllGather A and B, or C (pick the cheaper)",
        {"AllGather_X(A[I_X, J]); AllGather_Y(B[J, K_Y])", "AllGather_{X,Y}(C[I_X, K_Y])"},
    ),
    ("sharding.q5", "best"): (
        "shard I or K over XYZ, AllGather at the end (equal)",
        {
            "slice_{X,Y,Z,I}(A[I, J]); AllGather_{X,Y,Z}(C[I_XYZ, K])",
            "slice_{X,Y,Z,K}(B[J, K]); AllGather_{X,Y,Z}(C[I, K_XYZ])",
        },
    ),
}

#: What is no question for this package, and why.
OUTSIDE = {
    ("s002.history", "year"): "history; docs/seeds.md has the right year in its errata",
    ("jax.collective_matmul", "overlap_gain"): "the quotient of two times that somebody measured and printed",
    ("training.table", "mixed_as_printed"): "the row counts one exchange more than the tensor-parallel row it repeats; "
    "test_the_row_that_is_left_out_counts_one_exchange_more shows it",
}
