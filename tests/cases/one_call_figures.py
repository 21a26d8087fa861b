"""The seeds' and the book's figures of chips, ratios and tables, each answered by one call.

Read by :mod:`tests.cases.test_one_call`, as :mod:`tests.cases.one_call_rows` is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline import bound, chip, comm, compare, layout, scaling, solve, solve_equal
from roofline.hardware.rate import ridge
from roofline.hardware.schema import on_chip_bytes, peak_of_a_core, peak_of_one, register_bytes
from roofline.models import budget, fewest, outline, outweighing_batch, pool
from tests.cases.one_call_networks import decoded, in_node, in_ring
from tests.cases.one_call_rows import DGX, H100, MATMUL, SPLIT, V5E, V5P, Rows, gpu, heads


def printed(key: str, name: str) -> Any:
    """A figure of a chip as the book's table has it."""
    return chip(key, **{name: "scaling-book"}).figure(name).value


SPECIFICATIONS: Rows = {
    ("tpus.v5p_links", "hbm"): lambda: printed("v5p", "hbm"),
    ("tpus.spec.v6e", "hbm_gb"): lambda: printed("v6e", "hbm.capacity"),
    ("tpus.spec.v6e", "hbm_bw"): lambda: printed("v6e", "hbm"),
    ("tpus.spec.v6e", "bf16"): lambda: printed("v6e", "bf16"),
    ("tpus.spec.v6e", "int8"): lambda: printed("v6e", "int8"),
    ("tpus.spec.v6e", "ici_bidi"): lambda: chip("v6e").figure("ici.duplex").value,
    ("tpus.spec.tpu7x", "hbm_gb"): lambda: printed("tpu7x", "hbm.capacity"),
    ("tpus.spec.tpu7x", "hbm_bw"): lambda: printed("tpu7x", "hbm"),
    ("tpus.spec.tpu7x", "bf16"): lambda: printed("tpu7x", "bf16"),
    ("tpus.spec.tpu7x", "int8"): lambda: printed("tpu7x", "int8"),
    ("tpus.spec.tpu7x", "ici_oneway"): lambda: printed("tpu7x", "ici"),
    ("tpus.spec.tpu7x", "ici_bidi"): lambda: chip("tpu7x", ici="scaling-book").figure("ici.duplex").value,
    ("gpus.spec.h100", "mem"): lambda: printed("h100", "hbm.capacity"),
    ("gpus.spec.h100", "hbm"): lambda: printed("h100", "hbm"),
    ("gpus.spec.h100", "bf16"): lambda: printed("h100", "bf16"),
    ("gpus.spec.h100", "fp8_int8"): lambda: printed("h100", "fp8"),
    ("gpus.spec.h200", "mem"): lambda: printed("h200", "hbm.capacity"),
    ("gpus.spec.h200", "hbm"): lambda: printed("h200", "hbm"),
    ("gpus.spec.h200", "bf16"): lambda: printed("h200", "bf16"),
    ("gpus.spec.h200", "fp8_int8"): lambda: printed("h200", "int8"),
    ("gpus.spec.b200", "mem"): lambda: printed("b200", "hbm.capacity"),
    ("gpus.spec.b200", "hbm"): lambda: printed("b200", "hbm"),
    ("gpus.spec.b200", "bf16"): lambda: printed("b200", "bf16"),
    ("gpus.spec.b200", "fp8_int8"): lambda: printed("b200", "fp8"),
    ("roofline.q5", "dense_peak"): lambda: chip("h100", bf16="1979 TFLOP/s sparse").figure("bf16").value,
    ("tpus.mxu", "per_mxu"): lambda: peak_of_one(chip("v5e", mxu={"clock": 1.5e9}), "mxu", "bf16"),
    ("tpus.mxu", "chip"): lambda: chip("v5e", mxu={"clock": 1.5e9}).figure("bf16").value,
    ("tpus.vpu", "per_core"): lambda: peak_of_a_core(chip("v5p", vpu={"fp32": "8192x vpu.clock"}), "vpu", "fp32"),
    ("tpus.vpu", "mxu_over_vpu"): lambda: chip("v5p", vpu={"fp32": "8192x vpu.clock"}).ratio("bf16", "vpu.fp32"),
    ("tpus.q4.vmem", "vmem_bw"): lambda: chip("v5e", hbm=8.2e11, vmem="22x hbm").figure("vmem").value,
    ("tpus.q2.v5e", "cores"): lambda: chip("v5e:16x16").to_dict()["slice"]["cores"],
    ("tpus.mxu_padding", "util_128"): lambda: layout("bf16[100,300]{1,0:T(128,128)}").used,
    ("tpus.pcie_ratio", "ratio"): lambda: chip("v4", hbm=1.2e12).ratio("hbm", "pcie"),
    ("s002.link_gap", "v5e_oneway"): lambda: chip("v5e", hbm=8.2e11).ratio("hbm", "ici"),
    ("s002.link_gap", "v5p_oneway"): lambda: chip("v5p", hbm=2.8e12).ratio("hbm", "ici"),
    ("s002.link_gap", "h100_nvlink"): lambda: chip("h100", hbm=3.35e12).ratio("hbm", "nvlink"),
    ("s002.link_gap", "h100_ib"): lambda: chip("h100", hbm=3.35e12).ratio("hbm", "nic"),
    ("gpus.q1.5", "each"): lambda: register_bytes(chip("h100")),
    ("gpus.q1.5", "both"): lambda: on_chip_bytes(chip("h100", smem={"per_core": "256 KiB"}), "smem"),
    ("gpus.gb200", "vs_h100"): lambda: chip("gb200-superpod").ratio("ib.unit", "ib.unit", chip("dgx-h100")),
    ("gpus.q3.1", "spine_per_node"): lambda: chip("dgx-h100").figure("spine.node").value,
    ("inference.decode_tp", "beta"): lambda: chip("v5e", hbm=8.2e11, link=4.5e10).ratio("hbm", "link.duplex"),
    ("training.tp_examples", "alpha_int8"): lambda: ridge(chip("v5p:4x4x4"), "int8", "X"),
}

SCATTER = "A[N, M_X] * B[M, K] -> C[N, K_X]"
SCORES = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
PROJECTIONS = (
    "q = x:bf16[B, T, D] * bf16[D, N, H] -> bf16[B, T, N, H]; k = x * bf16[D, N, H] -> bf16[B, T, N, H]; "
    "v = x * bf16[D, N, H] -> bf16[B, T, N, H]; o = q * bf16[N, H, D] -> bf16[B, T, D]; "
    "g = x * bf16[D, F]; u = x * bf16[D, F]; u * bf16[F, D]"
)


def sent_by(plan: str, M: int, K: int) -> Any:
    return bound(SCATTER, on="v5p", mesh={"X": 4}, plan=plan, N=1024, M=M, K=K)


def either(M: int, K: int) -> Any:
    """Gather the activations, or scatter the result."""
    return compare(
        sent_by("AllGather_X(A[N, M_X]); slice_{X,K}(B[M, K])", M, K),
        sent_by("slice_{X,M}(B[M, K]); ReduceScatter_{X,K}(C[N, K] {U_X})", M, K),
    )


def both(gathers: str, other: str) -> Any:
    """An AllGather and an AllToAll over many chips, each by an algorithm; the first names the numerator."""
    return compare(many(gathers), many(other))


@cache
def equal_time() -> Any:
    """Gather the weights before, or add up partial sums after: the width from which the second takes less."""
    book = {"on": "v5p", "mesh": {"X": 4}, "algorithm": "book", "set": V5P}
    first, second = "bf16[B, D] * AllGather_X(W:bf16[D_X, F])", "AllReduce_X(bf16[B, F] {U_X})"
    return solve_equal(first, second, "D", quantity="time", **book, B=65536, F=32768)


def many(how: str) -> Any:
    """A collective over a ring: ``alltoall by book``."""
    kind, _, algorithm = how.partition(" by ")
    return comm(kind, bytes=1048576, on="v5p", mesh={"X": 16}, wrap=True, algorithm=algorithm, dtype="int8")


def over(chips: int) -> Any:
    return comm("alltoall", bytes=1e9, on=f"dgx-h100:{chips}", algorithm="book", dtype="int8")


def summed(algorithm: str) -> Any:
    return comm("allreduce", bytes=1e9, on="h100:8", algorithm=algorithm)


RATIOS: Rows = {
    ("sharding.q4", "D_threshold_small_B"): lambda: equal_time().value,
    ("s000.two_chip", "half_D"): lambda: solve(SPLIT, "D", on="v5e:2", link=4.5e10).local,
    ("roofline.two_chip", "half_D"): lambda: solve(SPLIT, "D", on="v5e:2", link=4.5e10).local,
    ("roofline.local_batch", "local"): lambda: layout("int32[512_X, 4096_Y]", mesh={"X": 512, "Y": 4}).elements,
    ("s001.tiles", "intensity"): lambda bm, bn: (
        bound("bf16[m, k] * bf16[k, n]", on="v5e", tile=(bm, bn, 128), m=4096, n=4096, k=2_000_000_000_000).intensity
    ),
    ("s002.crit_ratio", "times"): lambda: bound(intensity=0.5, on="v5e", set={"hbm": 8.2e11}).ridge_over_intensity,
    ("s002.bigger_model", "B_crit"): lambda D, I: (  # noqa: E741
        solve(MATMUL, "B", on="v5e", set={"bf16": I, "hbm": 1}, D=D, F=D).value
    ),
    ("s002.q2.attention", "gqa"): lambda S, T, G: heads("K", S=S, T=T, B=2, N=G, K=1, H=128).intensity,
    ("s004.ratio", "ratio"): lambda: compare(gpu(25), gpu(7)).ratio("attainable"),
    ("sharding.ag_formula", "t_multi_axis"): lambda V, sumX, W, Naxes, Tmin: (
        comm(
            "allgather",
            bytes=V,
            on="v5p",
            mesh={"X": 4, "Y": 4},
            wrap=True,
            algorithm="book",
            dtype="int8",
            set={"link.duplex": W, "link.latency": Tmin},
        ).time
    ),
    ("sharding.a2a", "torus"): lambda V, A, B, C, W: (
        comm(
            "alltoall",
            bytes=V,
            on="v5p",
            mesh={"X": A, "Y": B, "Z": C},
            wrap=True,
            algorithm="book",
            dtype="int1",
            set={"link.duplex": W},
        ).row.wire_time
    ),
    ("sharding.q9", "ratio"): lambda M, K: either(M, K).ratio("comms"),
    ("sharding.q10", "uni_ratio"): lambda: both("alltoall by one-way ring", "allgather by one-way ring").ratio(
        "each link carries"
    ),
    ("sharding.q10", "bidi_ag_gain"): lambda: both("allgather by one-way ring", "allgather by two-way ring").ratio(
        "each link carries"
    ),
    ("sharding.q10", "bidi_a2a_gain"): lambda: both("alltoall by one-way ring", "alltoall by two-way ring").ratio(
        "each link carries"
    ),
    ("sharding.q10", "a2a_over_ag_bidi"): lambda: both("alltoall by book", "allgather by book").ratio(
        "each link carries"
    ),
    ("sharding.q10", "a2a_bidi_bytes_sent"): lambda V: in_ring("alltoall", 16, V, "book").row.sent_both_ways,
    ("transformers.attn_fraction", "ratio"): lambda T, D: compare(
        bound(SCORES, on="v5p", B=1, T=T, N=64, H=128),
        bound(PROJECTIONS, on="v5p", B=1, T=T, D=D, F=32768, N=64, H=128),
    ).ratio("flops"),
    ("inference.kv_param_ratio", "ratio"): lambda D, F, S, H, K: compare(
        layout("int8[2, D, F]", mesh={"X": 1}, D=D, F=F), layout("int8[S, K, H]", mesh={"X": 1}, S=S, K=K, H=H)
    ).ratio("bytes"),
    ("gpus.pq2", "ragged"): lambda V, N, W, k: in_node("alltoall", V, N, W, "book", density=0.5).row.wire_time,
    ("gpus.pq2", "random"): lambda V, N, W, k: in_node("alltoall", V, N, W, density=0.5).row.wire_time,
    ("gpus.pq2", "vs_tpu"): lambda: compare(
        comm("alltoall", bytes=1e9, on="v5p", mesh={"X": 8}, wrap=True, algorithm="book", set={"link.duplex": 4.5e11}),
        comm("alltoall", bytes=1e9, on="h100:8", algorithm="book", set={"nvlink": 4.5e11}),
    ).ratio("at best"),
    ("gpus.sharp_gain", "gain"): lambda: compare(summed("two-shot"), summed("in-switch")).change("each link carries"),
    ("gpus.q4.2", "bytes"): lambda B, N: comm("allreduce", bytes=B, on=f"h100:{N}", algorithm="in-switch").sent_by_all,
    ("gpus.a2a_cross", "exact"): lambda V, M, Wnode: (
        comm(
            "alltoall",
            bytes=V,
            on="dgx-h100",
            mesh={"X": M, "Y": 8},
            algorithm="direct",
            dtype="int1",
            set={"ib.unit": Wnode},
        ).row.wire_time
    ),
    ("gpus.a2a_cross", "approx"): lambda V, M, Wnode: (
        comm(
            "alltoall",
            bytes=V,
            on="dgx-h100",
            mesh={"X": M, "Y": 8},
            algorithm="book",
            dtype="int1",
            set={"ib.unit": Wnode},
        ).row.wire_time
    ),
    ("gpus.a2a_cross", "degradation"): lambda: compare(over(16), over(8)).ratio("at best"),
    ("gpus.cross", "spine"): lambda: comm("allgather", bytes=1e9, on=DGX).tier_bandwidths["spine"],
    ("gpus.dp2", "B_per_gpu"): lambda alpha, X: (
        scaling("dp", on="dgx-h100:16", set=H100, algorithm="hierarchical", network="ib").value
    ),
    ("gpus.tp", "in_node"): lambda: (
        scaling("tp", on="dgx-h100", set={**H100, "nvlink": 4e11}, unknown="Y", F=28000).value
    ),
    ("gpus.tp", "two_nodes"): lambda: (
        scaling("tp", on="dgx-h100", set=H100, algorithm="hierarchical", network="ib", unknown="Y", F=28000).value
    ),
}

FORWARD_FSDP = "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]"
BACKWARD_FSDP = (
    "dWo = h[B_X, F] * dOut[B_X, D] -> bf16[F, D_X]; dh = dOut * Wr[F, D_X] -> bf16[B_X, F]; "
    "dWi = x[B_X, D] * dh -> bf16[D_X, F]; dh * Ws[D_X, F] -> bf16[B_X, D]"
)
BOTH_TP = (
    "In[B, D_Y] * Wi[D, F_Y] * Wo[F_Y, D] -> Out[B, D_Y]; "
    "dWo = h[B, F_Y] * dOut[B, D_Y] -> bf16[F_Y, D]; dh = dOut * Wr[F_Y, D] -> bf16[B, F_Y]; "
    "dWi = x[B, D] * dh -> bf16[D, F_Y]; dh * Ws[D, F_Y] -> bf16[B, D_Y]"
)
BOTH_MIXED = (
    "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]; "
    "dWo = h[B_X, F_Y] * dOut[B_X, D_Y] -> bf16[F_Y, D_X]; dh = dOut * Wr[F_Y, D_X] -> bf16[B_X, F_Y]; "
    "dWi = x[B_X, D] * dh -> bf16[D_X, F_Y]; dh * Ws[D_X, F_Y] -> bf16[B_X, D_Y]"
)
BACKWARD_DP = (
    "dWo = h[B_X, F] * dOut[B_X, D] -> bf16[F, D]; dh = dOut * Wo[F, D] -> bf16[B_X, F]; "
    "dWi = x[B_X, D] * dh -> bf16[D, F]; dh * Wi[D, F] -> bf16[B_X, D]"
)
BACKWARD = (
    "dWo = h[B, F] * dOut[B, D] -> bf16[F, D]; dh = dOut * Wo[F, D] -> bf16[B, F]; "
    "dWi = x[B, D] * dh -> bf16[D, F]; dh * Wi[D, F] -> bf16[B, D]"
)


def layer(text: str, mesh: dict[str, int], B: int, D: int, F: int) -> Any:
    return bound(text, on="v5p", mesh=mesh, algorithm="book", plan="fewest", B=B, D=D, F=F)


def condition(name: str, axes: int) -> Any:
    return scaling(name, on="v5p", set=V5P, torus_axes={"X": axes}, F=32768)


SPLITS: Rows = {
    ("training.table", "dp"): lambda B, X, D, F, **at: layer(BACKWARD_DP, {"X": X}, B, D, F).sent_both_ways,
    ("training.table", "fsdp"): lambda B, X, D, F, **at: (
        layer(f"{FORWARD_FSDP}; {BACKWARD_FSDP}", {"X": X}, B, D, F).sent_both_ways
    ),
    ("training.table", "tp"): lambda B, Y, D, F, **at: layer(BOTH_TP, {"Y": Y}, B, D, F).sent_both_ways,
    ("training.table", "mixed_consistent"): lambda B, X, Y, D, F, **at: (
        layer(BOTH_MIXED, {"X": X, "Y": Y}, B, D, F).sent_both_ways
    ),
    ("training.mixed_bound", "ratio"): lambda B, F, N, **at: (
        scaling("mixed", on="v5p", set=V5P, torus_axes={"X": 2}, F=F, B=B, N=N).batch.ratio
    ),
    ("training.mixed_bound", "B_per_chip"): lambda alpha, F, **at: (
        scaling("mixed", on="v5p", set={"bf16": alpha, "link.duplex": 1}, torus_axes={"X": 2}, F=F).value
    ),
    ("training.mixed_bound", "gain_over_fsdp"): lambda: compare(condition("fsdp", 3), condition("mixed", 2)).ratio(
        "value"
    ),
    ("training.dcn", "t_math"): lambda B, D, F, N, C: (
        bound(BACKWARD, on=pool(chip("v5p", bf16=C), N), B=2_000_000, D=D, F=F).math
    ),
    ("training.dcn", "t_comms"): lambda D, F, M, Wdcn: (
        bound(bytes="8*D*F/M", on="v5p", set={"hbm": Wdcn}, D=D, F=F, M=M).lower
    ),
    ("training.llama70b_17days", "days"): lambda: (
        budget(70e9, tokens=15e12, on="v5p", set=V5P, chips=18823, mfu=0.5).days
    ),
    ("sharding.q5", "opt3_comms"): lambda I, K, W: (  # noqa: E741
        comm(
            "AllReduce_{X,Y,Z}(bf16[I, K] {U_XYZ})", on="v4:4x4x4", set={"link.duplex": W}, algorithm="book", I=I, K=K
        ).row.wire_time
    ),
}


def step(batch: int, kv: float) -> Any:
    """A decode step of 13B parameters on eight chips, by the book's bytes of a sequence."""
    sizes = {"B": batch, "KV": kv, "P": 26e9}
    return bound(bytes="B*KV + P", on=pool(chip("v5e", **V5E), 8), sizes=sizes)


def cache(batch: int, kv: float) -> Any:
    return bound(bytes="B*KV", on="v5e", sizes={"B": batch, "KV": kv})


def table(attention: str, kv: float, *batches: int) -> Rows:
    """The rows of the book's table of a 13B model."""
    rows: Rows = {}
    for batch in batches:
        name = f"inference.table.{attention}.b{batch}"
        rows[name, "kv"] = lambda batch=batch: cache(batch, kv).total_bytes
        rows[name, "total"] = lambda batch=batch: step(batch, kv).total_bytes
        rows[name, "step"] = lambda batch=batch: step(batch, kv).lower
        rows[name, "tps"] = lambda batch=batch: step(batch, kv).throughput("B")
    return rows


STEPS: Rows = {
    **table("mha", 6.7e9, 8, 16, 240),
    **table("gmqa5x", 1.34e9, 1, 16, 32, 64),
    ("inference.step_formula", "max_tps"): lambda B, KV, P, W: bound(
        bytes="B*KV + P", on="v5e", set={"hbm": W}, sizes={"B": B, "KV": KV, "P": P}
    ).throughput("B"),
    ("inference.step_formula", "general"): lambda B, n, **at: (
        decoded(n, 100_000, B, chips=16, weights="int8", context=8189).time_per_token
    ),
    ("inference.kv13b", "kvs_to_exceed_params"): lambda: outweighing_batch(outline(13e9, kv=409_600), context=8192),
    ("inference.decode_tp", "Y_max"): lambda F, B, beta: (
        scaling("decode-tp", on="v5e", set={"hbm": beta, "link.duplex": 1}, F=F, B=B).value
    ),
    ("inference.decode_tp", "t_hbm"): lambda D, F, Y, Whbm: (
        bound(bytes="2*D*F/Y", on="v5e", set={"hbm": Whbm}, D=D, F=F, Y=Y).lower
    ),
    ("inference.q6", "load"): lambda: bound(bytes=211_658_735_616, on=pool(chip("v5e", **V5E), 128)).lower,
    ("inference.q6", "free"): lambda: (
        fewest(outline(211_658_735_616), on="v5e:8x16", set=V5E, weights="int8").given.left_each
    ),
    ("inference.q6", "min_chips"): lambda: fewest(outline(211_658_735_616), on="v5e", set=V5E, weights="int8").chips,
    ("inference.appC", "Y"): lambda B, D: comm("AllGather_X(int8[B, D_X])", on="v5e:8", B=B, D=D).latency_bound_from,
    ("applied-inference.kv", "chips"): lambda: (
        fewest(
            outline(70e9, kv=1_300_000_000), on="v5e", set=V5E, batch=1, context=1000, weights="int8", kv="int8"
        ).chips
    ),
    ("applied-inference.q3", "chips_15ms"): lambda: bound(bytes=405_849_243_648, on="v5e", set=V5E).chips_for(15e-3),
    ("profiling.matmul", "batch_shard"): lambda: layout("bf16[32_X, 1024]", mesh={"X": 4}).elements,
}

FIGURES: Rows = {**SPECIFICATIONS, **RATIOS, **SPLITS, **STEPS}
