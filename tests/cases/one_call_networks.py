"""The seeds' and the book's questions about many chips and about serving, each answered by one call: more rows.

Read by :mod:`tests.cases.test_one_call`, as :mod:`tests.cases.one_call_rows` is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline import bound, chip, comm, layout, scaling, shard, solve
from roofline.hardware.rate import main_level, ridge
from roofline.models import (
    answer_rate,
    fewest,
    largest_batch,
    latency_throughput,
    load,
    outline,
    pool,
    serve,
    servers_ratio,
)  # fmt: skip
from roofline.models.training.stage import Formats, kept_bytes
from roofline.ops.collectives.cost import touched_share
from tests.cases.one_call_rows import CHIPS, DGX, GATHER_B, H100, SEEDS, V5E, V5P, Rows, note


def strategy(plan: str, C: float, W: float, X: int = 4, **sizes: int) -> Any:
    text, figures = "bf16[B, D] * bf16[D_X, F] -> bf16[B, F]", {"bf16": C, "link.duplex": W, "hbm": 1e30}
    return bound(text, on="v5p", mesh={"X": X}, set=figures, algorithm="book", plan=plan, sizes=sizes)


@cache
def quiz6(text: str, algorithm: str = "auto", **sizes: int) -> Any:
    return bound(text, on="v5e:4x4", link=4.5e10, algorithm=algorithm, sizes=sizes)


def named(text: str, figures: dict[str, Any], algorithm: str = "auto", **more: Any) -> Any:
    return comm(text, set=figures, algorithm=algorithm, **more)


def in_ring(kind: str, X: int, V: float, algorithm: str, **figures: float) -> Any:
    return comm(kind, bytes=V, on="v5p", mesh={"X": X}, wrap=True, set=figures, algorithm=algorithm, dtype="int8")


def in_node(kind: str, V: float, N: int, W: float, algorithm: str = "auto", **more: Any) -> Any:
    return comm(kind, bytes=V, on=f"h100:{N}", set={"nvlink": W}, algorithm=algorithm, dtype="int8", **more)


def quiz2(tensor: str, **more: Any) -> Any:
    return comm(f"AllGather_Y({tensor})", on="v5e:8x4", link=4.5e10, **more)


def v4(text: str, **more: Any) -> Any:
    return comm(text, on="v4:4x4x4", algorithm="book", **more)


MANY: Rows = {
    ("sharding.code.local", "A"): lambda: list(layout("bf16[8_X, 2048_Y]", mesh={"X": 4, "Y": 2}).local),
    ("sharding.code.local", "B"): lambda: list(layout("bf16[2048, 8192_Y]", mesh={"X": 4, "Y": 2}).local),
    ("sharding.ag_formula", "t_total"): lambda V, W: (
        in_ring("allgather", 4, V, "book", **{"link.duplex": W}).row.wire_time
    ),
    ("sharding.ag_formula", "t_latency"): lambda V, X, W, Tmin: (
        in_ring("allgather", X, V, "book", **{"link.duplex": W, "link.latency": Tmin}).time
    ),
    ("sharding.ag_formula", "t_unidirectional"): lambda V, X, W1: (
        in_ring("allgather", X, V, "one-way ring", link=W1).row.wire_time
    ),
    ("sharding.empirical_10MB", "bytes"): lambda: layout("int8[10000000_X]", mesh={"X": 16}).bytes,
    ("sharding.quiz2.large", "shard_bytes"): lambda: layout("bf16[2048_Y, 8192]", mesh={"Y": 4}).bytes,
    ("sharding.quiz2.large", "t_if_wrap"): lambda: (
        quiz2("bf16[2048_Y, 8192]", wrap=True, algorithm="book").row.wire_time
    ),
    ("sharding.quiz2.large", "t_nowrap"): lambda: quiz2("bf16[2048_Y, 8192]").time,
    ("sharding.quiz2.large", "latency_bound"): lambda: quiz2("bf16[2048_Y, 8192]").row.hop_time,
    ("sharding.quiz2.small", "t"): lambda: quiz2("bf16[256_Y, 256]", algorithm="line").time,
    ("sharding.a2a", "ring"): lambda V, W: in_ring("alltoall", 8, V, "book", **{"link.duplex": W}).row.wire_time,
    ("sharding.q2.2", "latency"): lambda: v4("AllGather_{X,Y}(bf16[1024_X, 4096_Y])").row.hop_time,
    ("sharding.q2.fun", "t1"): lambda: v4("AllGather_{X,Z}(bf16[1024_XZ, 1024])").row.wire_time,
    ("sharding.q2.fun", "t2"): lambda: v4("AllGather_{X,Y,Z}(bf16[1024_XZ, 4096_Y])").row.wire_time,
    ("sharding.q4", "alpha"): lambda: (
        solve(
            "bf16[B, D] * bf16[D_X, F] -> bf16[B, F]",
            "B",
            on="v5p",
            mesh={"X": 4},
            set=V5P,
            algorithm="book",
            plan="AllGather_X(bf16[D_X, F])",
        ).value
    ),
    ("sharding.q4", "B_threshold"): lambda: (
        solve(
            "bf16[B, D] * bf16[D_X, F] -> bf16[B, F]",
            "B",
            on="v5p",
            mesh={"X": 4},
            set=V5P,
            algorithm="book",
            plan="AllGather_X(bf16[D_X, F])",
        ).value
    ),
    ("sharding.q6.a", "t_comms_nowrap"): lambda **n: (
        quiz6("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", "line", J=8192, **n).comms
    ),
    ("sharding.q6.a", "t_math"): lambda **n: quiz6("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", **n).math,
    ("sharding.q6.b", "t_comms_nowrap"): lambda J, K: quiz6(GATHER_B, I=8192, J=J, K=K).comms,
    ("sharding.q6.c", "t_math"): lambda **n: quiz6("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]", **n).math,
    ("sharding.q10", "ag_uni"): lambda N, D: square("AllGather_X(int8[A_X, B])", N, D).row.sent,
    ("sharding.q10", "a2a_uni"): lambda N, D: square("AllToAll_{X,B}(int8[A_X, B])", N, D).row.sent,
    ("transformers.q2", "total"): lambda **n: (
        bound("A[B_X, D_Y] *_D W[D_Y, F]", on="v5p", mesh={"X": 4, "Y": 8, "Z": 4}, sizes=n).flops_of_all
    ),
    ("transformers.q2", "per_device"): lambda **n: (
        bound("A[B_X, D_Y] *_D W[D_Y, F]", on="v5p", mesh={"X": 4, "Y": 8, "Z": 4}, sizes=n).flops
    ),
    ("transformers.dots", "dot"): lambda P: bound("bf16[P] * bf16[P]", on="v5e", P=P).flops,
    ("transformers.dots", "matvec"): lambda **n: bound("bf16[N, P] * bf16[P]", on="v5e", **n).flops,
    ("transformers.dots", "matmat"): lambda **n: bound("bf16[N, P] * bf16[P, M]", on="v5e", **n).flops,
    ("transformers.contraction", "flops"): lambda **n: (
        bound("bf16[G,H,I,J,K,L] * bf16[G,H,M,N,K,L] -> bf16[G,H,I,J,M,N]", on="v5e", **n).flops
    ),
    ("transformers.q3", "flops"): lambda **n: (
        bound("bf16[I,J,K,L] * bf16[I,J,M,N,O] -> bf16[K,L,M,N,O]", on="v5e", **n).flops
    ),
    ("transformers.remat", "all"): lambda: kept_bytes(4e6, 8192, 64, checkpoint=20),
    ("transformers.remat", "block"): lambda: kept_bytes(4e6, 8192, 64, checkpoint=1),
    ("transformers.remat", "seven"): lambda: kept_bytes(4e6, 8192, 64, checkpoint=7),
    ("training.dp_roofline", "B_per_chip"): lambda C, W, **n: (
        scaling("dp", on="v5p", set={"bf16": C, "link.duplex": W}).value
    ),
    ("training.tp_examples", "F_for_8way"): lambda: scaling("tp", on="v5p", set=V5P, mesh={"Y": 8}).value,
    ("training.tp_examples", "gemma7b_limit"): lambda: scaling("tp", on="v5p", set=V5P, unknown="Y", F=50_000).value,
    ("training.dcn", "alpha"): lambda: scaling("dcn", on="v5p:16x20x28:2", mesh={"X": 8960, "S": 2}, set=V5P).value,
    ("training.llama_2M", "tp"): lambda: scaling("tp", on="v5p", set=V5P, unknown="Y", F=30000).value,
    ("inference.decode_tp", "t_ici"): lambda B, D, Wici: (
        comm(
            "AllGather_Y(bf16[B, D_Y])", on="h100", mesh={"Y": 32}, link=Wici, algorithm="book", B=B, D=D
        ).row.wire_time
    ),
    ("inference.appC", "buffer"): lambda: comm("allgather", bytes=1e6, on="v5e:8").crossing,
    ("inference.appC", "act"): lambda: layout("int8[16, 8192]").bytes,
    ("profiling.rs", "bytes"): lambda: layout("bf16[8192, 8192]").bytes,
    ("profiling.rs", "t"): lambda: (
        comm(
            "ReduceScatter_{X,N}(bf16[N] {U_X})",
            on="v5p",
            mesh={"X": 4},
            wrap=True,
            algorithm="book",
            set={"link.duplex": 1.2e11},
            N=67108864,
        ).row.wire_time
    ),
    ("jax.collective_matmul", "a_local"): lambda: list(layout("A[1024_X, 2048_Y]", mesh={"X": 2, "Y": 4}).local),
    ("jax.collective_matmul", "w_local"): lambda: list(layout("W[2048, 8192_Y]", mesh={"X": 2, "Y": 4}).local),
    ("gpus.pq2", "dense"): lambda V, N, W: in_node("alltoall", V, N, W).row.wire_time,
    ("gpus.cross", "approx"): lambda V, Wnode: across(V, Wnode).row.wire_time,
    ("gpus.cross", "total"): lambda V, Wgpu, Wnode: across(V, Wnode, nvlink=Wgpu).row.wire_time,
    ("gpus.q4.3", "t"): lambda D, F, Y, W: (
        comm(
            "AllReduce_X(bf16[D, F_Y] {U_X})",
            on="dgx-h100:8",
            mesh={"X": 4, "Y": Y},
            set={"nvlink": W},
            sharp=True,
            D=D,
            F=F,
        ).row.wire_time
    ),
    ("gpus.q4.4", "t"): lambda D, F: (
        comm("AllReduce_X(bf16[D, F_Y] {U_X})", on=DGX, mesh={"X": 4, "Y": 256}, sharp=True, D=D, F=F).row.wire_time
    ),
    ("gpus.moe_dp", "B_per_gpu"): lambda E, k, C, W: (
        scaling("moe-dp", on=DGX, set={"bf16": C, "ib.unit": W, "spine": 5e10}, E=E, k=k).value
    ),
    ("gpus.dp2", "value"): lambda: (
        scaling("dp", on="dgx-h100:16", set=H100, algorithm="hierarchical", network="ib").value
    ),
}


def across(V: float, Wnode: float, **more: float) -> Any:
    figures = {**more, "ib.unit": Wnode}
    return comm("AllGather_X(int8[N_X])", on="dgx-h100:512", set=figures, algorithm="book", N=int(V))


def square(text: str, N: int, D: int) -> Any:
    return comm(text, on="v5p", mesh={"X": D}, wrap=True, algorithm="one-way ring", A=N, B=N)


def seventy(kv: int = 163_840) -> Any:
    return outline(70e9, kv=kv)


@cache
def least(dtype: str) -> Any:
    return fewest(seventy(), on="v5e", set=V5E, context=8192, weights=dtype, kv=dtype)


@cache
def pareto(batch: int, context: int) -> Any:
    formats = {"weights": "int8", "kv": "int8", "policy": "streamed", "form": "op_by_op"}
    (choice,) = latency_throughput(
        seventy(), on="v5e", set=V5E, pool=16, batch=batch, context=context, **formats
    ).choices
    return choice


SERVING: Rows = {
    ("applied-inference.min_topology.bf16", "params"): lambda: least("bf16").needed.parts["weights"],
    ("applied-inference.min_topology.bf16", "kv_token"): lambda: seventy().kv_bytes_per_token("bf16"),
    ("applied-inference.min_topology.bf16", "min_chips"): lambda: least("bf16").ratio,
    ("applied-inference.min_topology.bf16", "slice_chips"): lambda: least("bf16").slice.chips,
    ("applied-inference.min_topology.bf16", "left"): lambda: least("bf16").left,
    ("applied-inference.min_topology.bf16", "kvs"): lambda: least("bf16").sequences,
    ("applied-inference.min_topology.int4", "params"): lambda: least("int4").needed.parts["weights"],
    ("applied-inference.min_topology.int4", "kv_token"): lambda: seventy().kv_bytes_per_token("int4"),
    ("applied-inference.min_topology.int4", "min_chips"): lambda: least("int4").ratio,
    ("applied-inference.min_topology.int4", "slice_chips"): lambda: least("int4").slice.chips,
    ("applied-inference.min_topology.int4", "left"): lambda: least("int4").left,
    ("applied-inference.min_topology.int4", "kvs"): lambda: least("int4").sequences,
    ("applied-inference.disagg", "ratio"): lambda: servers_ratio(
        prefill_time=0.91, step_time=0.019, steps=512, batch=32
    ),
    ("applied-inference.pareto.s2048.b1", "latency"): lambda: pareto(1, 2047).time_per_token,
    ("applied-inference.pareto.s2048.b120", "latency"): lambda: pareto(120, 2047).time_per_token,
    ("applied-inference.pareto.s8192.b1", "latency"): lambda: pareto(1, 8191).time_per_token,
    ("applied-inference.pareto.s8192.b32", "latency"): lambda: pareto(32, 8191).time_per_token,
    ("applied-inference.pareto.s2048.b1", "throughput"): lambda: pareto(1, 2047).tokens_per_second_per_chip,
    ("applied-inference.pareto.s2048.b120", "throughput"): lambda: pareto(120, 2047).tokens_per_second_per_chip,
    ("applied-inference.pareto.s8192.b1", "throughput"): lambda: pareto(1, 8191).tokens_per_second_per_chip,
    ("applied-inference.pareto.s8192.b32", "throughput"): lambda: pareto(32, 8191).tokens_per_second_per_chip,
    ("inference.q2", "kv_seq"): lambda: outline(1, kv=262_000).cache_bytes(128_000, dtype="int8"),
}


def book_model(kv_heads: int = 8) -> Any:
    """The invented model of chapter 7."""
    fields = {"model_type": "llama", "num_hidden_layers": 64, "hidden_size": 4096, "intermediate_size": 16384}
    more = {"num_attention_heads": 32, "num_key_value_heads": kv_heads, "head_dim": 256, "vocab_size": 32128}
    return load({**fields, **more, "tie_word_embeddings": True}, name="book")


def raw(flops: str = "1", bytes: str = "1", **sizes: float) -> Any:
    return bound(flops=flops, bytes=bytes, on="a100", set={"hbm": 2.039e12}, dtype="fp16", sizes=sizes)


def step_note() -> Any:
    return note("n*(24*b*h*h + 4*b*1536*h) + 2*b*h*V", "24*n*h*h + 4*n*b*h*1536 + 2*h*V")


@cache
def decoded(parameters: float, kv: float, batch: int, *, chips: int, weights: str, context: int = 8191) -> Any:
    """The book's decode step: matrices by their weights or arithmetic, then attention by keys and values."""
    formats = {"weights": weights, "kv": weights, "policy": "streamed", "form": "op_by_op"}
    (choice,) = latency_throughput(
        outline(parameters, kv=kv), on="v5e", set=V5E, pool=chips, batch=batch, context=context, **formats
    ).choices
    return choice


def replicated(W: float = 9e10, C: float = 2.75e14, I: int = 4096, J: int = 4096, K: int = 4096) -> Any:  # noqa: E741
    figures = {"bf16": C, "link.duplex": W}
    return shard("A[I, J] * B[J, K] -> C[I, K]", on="v4:4x4x4", set=figures, algorithm="book", I=I, J=J, K=K)


DP = (
    "dWo = h[B_X, F] * dOut[B_X, D] -> bf16[F, D]; dh = dOut * Wo[F, D] -> bf16[B_X, F]; "
    "dWi = x[B_X, D] * dh -> bf16[D, F]; dh * Wi[D, F] -> bf16[B_X, D]"
)
MIXED = "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]"
MIXED_PLAN = (
    "AllGather_Y(In[B_X, D_Y]); AllGather_X(Wi[D_X, F_Y]); AllGather_X(Wo[F_Y, D_X]); "
    "ReduceScatter_{Y,D}(Out[B_X, D] {U_Y})"
)


def data_parallel(
    C: float = 4.59e14, W: float = 1.8e11, *, B: int = 48000, X: int = 16, D: int, F: int, Y: int = 1
) -> Any:
    return bound(
        DP, on="v5p", mesh={"X": X}, set={"bf16": C, "link.duplex": W}, algorithm="book", plan="fewest", B=B, D=D, F=F
    )


def mixed_layer(W: float, X: int = 16, Y: int = 4, B: int = 48000, D: int = 8192, F: int = 32768) -> Any:
    return bound(
        MIXED,
        on="v5p:4x4x4",
        mesh={"X": X, "Y": Y},
        plan=MIXED_PLAN,
        set={**V5P, "link.duplex": W},
        algorithm="book",
        B=B,
        D=D,
        F=F,
    )


AGAIN: Rows = {
    ("s003.llama13b.fixed", "mem_1.2x24nh2_kv_s+o"): lambda: note(bytes="1.2*24*n*h*h + 4*n*b*h*(s+o)").total_bytes,
    ("s003.llama13b.fixed", "oi_1.2x24nh2_kv_s+o"): lambda: note(bytes="1.2*24*n*h*h + 4*n*b*h*(s+o)").intensity,
    ("s003.llama13b.fixed", "oi_prefill_weights+kv_write"): lambda: note(bytes="24*n*h*h + 4*n*b*h*s").intensity,
    ("s003.llama13b.decode", "oi"): lambda: step_note().intensity,
    ("s003.llama13b.decode", "bound_a100"): lambda: step_note().kind,
    ("s003.llama_perf", "t"): lambda: note().lower,
    ("s003.llama_perf", "t_mem"): lambda: note().times["hbm"],
    ("s004.prefill_decode", "linear_prefill"): lambda T: raw("2*T*D*F", "2*D*F", T=T, D=5120, F=13824).intensity,
    ("s004.prefill_decode", "linear_decode"): lambda B: raw("2*B*D*F", "2*D*F", B=B, D=5120, F=13824).intensity,
    ("s004.prefill_decode", "prefill"): lambda: serve("llama-2-13b", on="a100", prompt=2048).prefill.kind,
    ("s004.prefill_decode", "decode"): lambda: serve("llama-2-13b", on="a100", prompt=2048).decode.kind,
    ("inference.step_formula", "min_step"): lambda B, KV, P, W: (
        bound(bytes="B*KV + P", on="v5e", set={"hbm": W}, sizes={"B": B, "KV": KV, "P": P}).lower
    ),
    ("inference.quiz", "kv"): lambda: outline(30e9, kv=100_000).cache_bytes(8192, dtype="int8"),
    ("inference.quiz", "t4"): lambda: decoded(30e9, 100_000, 4, chips=16, weights="int8", context=8189).time_per_token,
    ("inference.quiz", "t256"): lambda: (
        decoded(30e9, 100_000, 256, chips=16, weights="int8", context=8189).time_per_token
    ),
    ("applied-inference.latency", "step"): lambda: bound(bytes=112e9, on=pool(chip("v5e", **V5E), 8)).lower,
    ("applied-inference.latency", "step16"): lambda: bound(bytes=112e9, on=pool(chip("v5e", **V5E), 16)).lower,
    ("applied-inference.latency", "tps"): lambda: answer_rate(step_time=17e-3, steps=1, batch=32),
    ("applied-inference.latency", "tps_chip"): lambda: answer_rate(step_time=17e-3, steps=1, batch=32, chips=8),
    ("applied-inference.latency", "Y_ici"): lambda: (
        scaling("tp", on="v5e", set={"bf16": 1.98e14, "link": 4.5e10}, torus_axes={"Y": 2}, unknown="Y", F=28672).value
    ),
    ("applied-inference.min_topology.bf16", "qps_chip"): lambda: answer_rate(
        step_time=19e-3, steps=512, batch=43, chips=16
    ),
    ("applied-inference.min_topology.int4", "qps_chip"): lambda: answer_rate(
        step_time=19e-3, steps=512, batch=43, chips=4
    ),
    ("applied-inference.double.bf16", "batch"): lambda: most("bf16", 512e9),
    ("applied-inference.double.int8", "batch"): lambda: most("int8", 256e9),
    ("applied-inference.double.int4", "batch"): lambda: most("int4", 128e9),
    ("applied-inference.double.bf16", "qps_chip"): lambda: answer_rate(step_time=19e-3, steps=512, batch=140, chips=32),
    ("applied-inference.double.int8", "qps_chip"): lambda: answer_rate(step_time=19e-3, steps=512, batch=140, chips=16),
    ("applied-inference.double.int4", "qps_chip"): lambda: answer_rate(step_time=19e-3, steps=512, batch=140, chips=8),
    ("applied-inference.prefill", "t"): lambda: (
        bound(
            flops="2*P*T",
            sizes={"P": 70_000_000_000, "T": 8192},
            achievable=True,
            on=pool(chip("v5e", **V5E, mxu={"achievable": {"bf16": 0.4}}), 16),
        ).lower
    ),
    ("applied-inference.q1", "flops"): lambda: large().flops,
    ("applied-inference.q1", "t_flops_xN"): lambda: large().math,
    ("applied-inference.q1", "t_int8_xN"): lambda: large().times["hbm"],
    ("applied-inference.q1", "t_bf16_xN"): lambda: large("2*P").times["hbm"],
    ("applied-inference.q3", "min_step_256"): lambda: (
        bound(bytes=405_849_243_648, on=pool(chip("v5e", **V5E), 256)).lower
    ),
    ("inference.q4", "step_params_only"): lambda: bound(bytes=18_400_000_000, on=pool(chip("v5e", **V5E), 16)).lower,
    ("inference.q4", "alpha_int8_wrap"): lambda: ridge(chip("v5e:16x16", int8=3.94e14, link=4.5e10), "int8", "X"),
    ("inference.q4", "Y_max_two_axes_nowrap_int8_act"): lambda: (
        scaling(
            "tp",
            on="v5e",
            dtype="int8",
            unknown="Y",
            F=16384,
            torus_axes={"Y": 2},
            wrap=False,
            algorithm="torus",
            set={"int8": 3.94e14, "link": 4.5e10},
        ).limit
    ),
    ("applied-training.memory", "params"): lambda: outline(70e9).weight_bytes(),
    ("applied-training.memory", "opt"): lambda: Formats(gradients="none", master=None).states(70e9)["optimizer"],
    ("applied-training.memory", "acts"): lambda: kept_bytes(4e6, 8192, 80, checkpoint=4),
    ("training.q3.2", "acts"): lambda: kept_bytes(3e6, 32768, 40, checkpoint=1),
    ("training.dp_roofline", "t_comms"): lambda **at: data_parallel(**at).comms,
    ("training.dp_roofline", "t_math"): lambda **at: data_parallel(**at).math,
    ("training.mixed_bound", "t_fsdp"): lambda D, F, Y, W, MX: mixed_layer(W, Y=Y, D=D, F=F).times["ici X.1"],
    ("training.mixed_bound", "t_tp"): lambda B, D, X, W, MY: mixed_layer(W, X=X, B=B, D=D).times["ici Y"],
    ("sharding.q4", "t1"): lambda B, D, F, C, W: strategy("AllGather_X(bf16[D_X, F])", C, W, B=B, D=D, F=F).lower,
    ("sharding.q4", "t2"): lambda B, D, F, X, C, W: (
        strategy("slice_{X,D}(bf16[B, D]); AllReduce_X(bf16[B, F] {U_X})", C, W, X, B=B, D=D, F=F).lower
    ),
    ("sharding.q5", "opt1_comms"): lambda **at: replicated(**at).best.comms,
    ("sharding.q5", "t_math_sharded"): lambda **at: replicated(**at).best.math,
    ("sharding.ag_formula", "t_hop"): lambda V, X, W: (
        in_ring("allgather", X, V, "book", **{"link.duplex": W}).row.wire_time_per_hop
    ),
    ("sharding.quiz2.small", "t_hop_bw"): lambda: quiz2("bf16[256_Y, 256]", algorithm="line").row.wire_time_per_hop,
    ("sharding.latency_threshold", "bytes"): lambda: comm("allgather", bytes=1e6, on="v5e:8").crossing_per_chip,
    ("profiling.matmul", "t"): lambda: (
        bound(
            "bf16[32_X, 1024, 8192_Y] * bf16[8192_Y, 32768]", on="v3", mesh={"X": 4, "Y": 2}, set={"bf16": 2.3e13}
        ).math
    ),
    ("profiling.hlo", "bytes"): lambda: layout("bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}").bytes,
    ("jax.matmul_local", "in_local"): lambda: list(layout("bf16[8_X, 2048_Y]", mesh={"X": 4, "Y": 2}).local),
    ("jax.matmul_local", "w_local"): lambda: list(layout("bf16[2048_Y, 8192]", mesh={"X": 4, "Y": 2}).local),
    ("jax.matmul_local", "out_local"): lambda: list(layout("bf16[8_X, 8192]", mesh={"X": 4, "Y": 2}).local),
    ("gpus.pq2", "true_fraction"): lambda Z, K: touched_share(K, Z),
    ("gpus.cross", "node"): lambda: comm("allgather", bytes=1e9, on="dgx-h100:8").algorithm_bandwidth,
    ("gpus.cross", "leaf"): lambda: comm("allgather", bytes=1e9, on="dgx-h100:256").algorithm_bandwidth,
    ("gpus.cross", "overall"): lambda: (
        comm("allgather", bytes=1e9, on=DGX, algorithm="book-levels").algorithm_bandwidth
    ),
    ("transformers.moe_ratio", "sparsity"): lambda: load("deepseek-v3").sparsity,
    ("tpus.q2.v5e", "hbm"): lambda: main_level(pool(chip("v5e", **V5E), 256)).capacity.value,
}


def large(bytes: str = "P") -> Any:
    return bound(flops="2*P", bytes=bytes, on="v5e", set={"hbm": 8.2e11, "bf16": 1.97e14}, P=405_849_243_648)


def most(dtype: str, room: float) -> Any:
    return largest_batch(seventy(162_000), room, context=8191, weights=dtype, kv=dtype)


MORE_ROWS: Rows = {**SEEDS, **CHIPS, **MANY, **SERVING, **AGAIN}
