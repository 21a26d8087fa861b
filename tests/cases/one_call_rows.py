"""More of the seeds' and the book's questions, each answered by one call; read by :mod:`tests.cases.test_one_call`.

A row is a function of one public call and what is read from its answer. No row computes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from roofline import bound, chip, solve, zones
from roofline.hardware.network import network
from roofline.hardware.rate import ridge
from roofline.hardware.schema import count_units, flops_per_cycle, resident_warps

BOOK = {"hbm": 8.2e11}
V5E = {"hbm": {"bandwidth": 8.2e11, "capacity": 16e9}, "bf16": 1.97e14}
V5P = {"bf16": 4.59e14}
H100 = {"bf16": 9.9e14}
MATMUL = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
INT8 = "int8[B, D] * int8[D, F] -> int8[B, F]"
WEIGHTS8 = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
BATCHED = "int8[B, D] * int8[B, D, F] -> int8[B, F]"
SPLIT = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
DOT = "bf16[N] . bf16[N] -> bf16[1]"
HEADS = {"B": 2, "N": 8, "H": 128}
Q4 = "int8[B, J] * int8[I, J] -> int8[B, I]"
GATHER_B = "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]"
NODE = {"bf16": 9.9e14}
DGX = "dgx-h100:1024"

Rows = dict[tuple[str, str], Callable[..., Any]]


@cache
def matmul(text: str = MATMUL, *, on: str = "v5e", hbm: float = 8.2e11, exact: bool = False, **sizes: int) -> Any:
    return bound(text, on=on, set={"hbm": hbm}, exact=exact, sizes=sizes)


def int8(**sizes: int) -> Any:
    return bound(INT8, on="v5e", set={"int8": 3.94e14, **BOOK}, sizes=sizes)


def critical(text: str = MATMUL, on: str = "v5e", **figures: float) -> Any:
    return solve(text, "B", on=on, set=figures)


def flops(amount: float, on: str, peak: float) -> Any:
    return bound(flops=amount, dtype="bf16", on=on, set={"bf16": peak})


def times(Tm: float, Tc: float) -> Any:
    return bound(flops=Tm, bytes=Tc, dtype="bf16", on="v5e", set={"bf16": 1, "hbm": 1})


def two_chips(text: str = SPLIT, **sizes: int) -> Any:
    return bound(text, on="v5e:2", link=4.5e10, plan="AllReduce", sizes=sizes)


def crossing(n: int, C: float, W1: float, algorithm: str, text: str = SPLIT) -> Any:
    return solve(text, "D", on="v5e", mesh={"X": n}, link=W1, set={"bf16": C}, algorithm=algorithm)


def scattered(n: int, C: float, W1: float) -> Any:
    return crossing(n, C, W1, "one-way ring", "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F_X]")


def note(flops: str = "n*(24*b*s*h*h + 4*b*s*s*h) + 2*b*s*h*V", bytes: str = "1.2*12*n*h*h + 4*n*b*h*(s+o)") -> Any:
    sizes = {"h": 5120, "b": 8, "s": 1024, "o": 1024, "n": 40, "V": 32000}
    return bound(flops=flops, bytes=bytes, dtype="fp16", on="a100", set={"hbm": 2.039e12}, sizes=sizes)


def gpu(intensity: float) -> Any:
    return bound(intensity=intensity, dtype="fp32", on="1080ti")


def heads(kv: str, **sizes: int) -> Any:
    text = f"attention(bf16[B, T, N, H], bf16[B, S, {kv}, H], bf16[B, S, {kv}, H], full)"
    return bound(text, on="v5e", sizes=sizes)


SEEDS: Rows = {
    ("s000.t_math", "t"): lambda: flops(1e12, "h100", 9.89e14).lower,
    ("s001.v6e", "h100"): lambda: flops(1e12, "h100", 9.89e14).lower,
    ("s001.v6e", "v6e"): lambda: flops(1e12, "v6e", 9.1e14).lower,
    ("roofline.t_math", "t_h100"): lambda: flops(1e12, "h100", 9.89e14).lower,
    ("roofline.t_math", "t_v6e"): lambda: flops(1e12, "v6e", 9.1e14).lower,
    ("s000.v5e", "intensity"): lambda: ridge(chip("v5e", **BOOK), "bf16"),
    ("s000.dot", "intensity"): lambda N: matmul(DOT, exact=True, N=N).intensity,
    ("s000.dot", "limit"): lambda: solve(DOT, "N", on="h100").intensity_limit,
    ("roofline.dot", "intensity"): lambda N: matmul(DOT, exact=True, N=N).intensity,
    ("roofline.dot", "limit"): lambda: solve(DOT, "N", on="h100").intensity_limit,
    ("s000.matmul", "load"): lambda **n: matmul(**n).ops[0].read_bytes,
    ("s000.matmul", "write"): lambda **n: matmul(**n).ops[0].written_bytes,
    ("s000.matmul", "flops"): lambda **n: matmul(**n).flops,
    ("s000.matmul", "intensity"): lambda **n: matmul(**n).intensity,
    ("s000.matmul", "B_crit"): lambda: critical(**BOOK).limit,
    ("roofline.matmul_intensity", "flops"): lambda **n: matmul(**n).flops,
    ("roofline.matmul_intensity", "bytes"): lambda **n: matmul(**n).total_bytes,
    ("roofline.matmul_intensity", "intensity"): lambda **n: matmul(**n).intensity,
    ("roofline.matmul_intensity", "intensity_small_B"): lambda B, **n: (
        matmul(B=B, D=10_000_000_000_000, F=10_000_000_000_000).intensity
    ),
    ("roofline.matmul_exact_flops", "flops"): lambda **n: matmul(exact=True, **n).flops,
    ("s001.exact_flops", "flops"): lambda **n: matmul(exact=True, **n).flops,
    ("s000.q1", "bytes"): lambda **n: matmul(INT8, **n).total_bytes,
    ("s000.q1", "hw"): lambda: ridge(chip("v5e", hbm=8.1e11, int8=3.94e14), "int8"),
    ("s000.q1", "B_crit"): lambda: critical(INT8, hbm=8.1e11, int8=3.94e14).limit,
    ("s000.q1", "t_math"): lambda **n: bound(INT8, on="v5e", set={"int8": 3.94e14}, sizes=n).math,
    ("s000.q1", "t_comms"): lambda **n: bound(INT8, on="v5e", set={"hbm": 8.1e11}, sizes=n).times["hbm"],
    ("roofline.q1.intensity", "intensity"): lambda **n: matmul(INT8, **n).intensity,
    ("roofline.q1.intensity", "hw"): lambda: ridge(chip("v5e", hbm=8.2e11, int8=3.94e14), "int8"),
    ("roofline.q1.intensity", "B_crit"): lambda: critical(INT8, hbm=8.2e11, int8=3.94e14).limit,
    ("roofline.q1.times", "t_math"): lambda **n: int8(**n).math,
    ("roofline.q1.times", "t_comms"): lambda **n: int8(**n).times["hbm"],
    ("roofline.q1.times", "lower"): lambda **n: int8(**n).lower,
    ("roofline.q1.times", "upper"): lambda **n: int8(**n).upper,
    ("s000.q2", "B_crit"): lambda: critical(WEIGHTS8, **BOOK).limit,
    ("s000.q3", "B_crit_4096"): lambda: solve(WEIGHTS8, "B", on="v5e", set=BOOK, D=4096, F=4096).value,
    ("s000.q3", "B_crit_1024"): lambda: solve(WEIGHTS8, "B", on="v5e", set=BOOK, D=1024, F=1024).value,
    ("s000.q3", "y_4096_1"): lambda: matmul(WEIGHTS8, B=1, D=4096, F=4096).attainable,
    ("s000.q3", "y_4096_100"): lambda: matmul(WEIGHTS8, B=100, D=4096, F=4096).attainable,
    ("s000.q3", "y_4096_120"): lambda: matmul(WEIGHTS8, B=120, D=4096, F=4096).attainable,
    ("s000.q3", "y_4096_240"): lambda: matmul(WEIGHTS8, B=240, D=4096, F=4096).attainable,
    ("s000.q3", "y_4096_511"): lambda: matmul(WEIGHTS8, B=511, D=4096, F=4096).attainable,
    ("s000.q3", "y_1024_1"): lambda: matmul(WEIGHTS8, B=1, D=1024, F=1024).attainable,
    ("s000.q3", "y_1024_100"): lambda: matmul(WEIGHTS8, B=100, D=1024, F=1024).attainable,
    ("s000.q3", "y_1024_120"): lambda: matmul(WEIGHTS8, B=120, D=1024, F=1024).attainable,
    ("s000.q3", "y_1024_240"): lambda: matmul(WEIGHTS8, B=240, D=1024, F=1024).attainable,
    ("s000.q3", "y_1024_511"): lambda: matmul(WEIGHTS8, B=511, D=1024, F=1024).attainable,
    ("s000.q4", "intensity"): lambda **n: matmul(BATCHED, **n).intensity,
    ("s000.q4", "limit"): lambda: matmul(BATCHED, B=4096, D=8192, F=8192).intensity,
    ("s000.q5", "B_crit"): lambda: critical(on="h100", bf16=1e15, hbm=3.35e12).limit,
    ("s000.q5", "B_crit_989"): lambda: critical(on="h100", bf16=9.895e14, hbm=3.35e12).limit,
    ("roofline.q5", "B_crit"): lambda: critical(on="h100", bf16=9.895e14, hbm=3.35e12).limit,
    ("s001.bounds", "lower"): lambda **at: times(**at).lower,
    ("s001.bounds", "upper"): lambda **at: times(**at).upper,
    ("s001.bounds", "ratio"): lambda: times(3.0, 3.0).overlap_gain,
    ("roofline.bounds", "lower"): lambda **at: times(**at).lower,
    ("roofline.bounds", "upper"): lambda **at: times(**at).upper,
    ("roofline.bounds", "max_ratio"): lambda: times(3.0, 3.0).overlap_gain,
    ("s001.two_bw", "red"): lambda P, BW1, BW2: zones(chip("v5e", bf16=P), [BW1, BW2]).red_below,
    ("s001.two_bw", "green"): lambda P, BW1, BW2: zones(chip("v5e", bf16=P), [BW1, BW2]).green_from,
    ("s001.vpu", "intensity"): lambda: ridge(chip("v5p", vpu={"fp32": 7e12}, hbm=2.8e12), "fp32", unit="vpu"),
    ("roofline.vpu_v5p", "intensity"): lambda: ridge(chip("v5p", vpu={"fp32": 7e12}, hbm=2.8e12), "fp32", unit="vpu"),
    ("roofline.vpu_v5p", "intensity_chip"): lambda: ridge(
        chip("v5p", vpu={"fp32": 1.4336e13}, hbm=2.8e12), "fp32", unit="vpu"
    ),
    ("s001.tiles", "flops"): lambda m, n, k: matmul("bf16[m, k] * bf16[k, n]", m=m, n=n, k=k).flops,
    ("s001.tiles", "bytes"): lambda bm, bn, bk, **n: (
        bound("bf16[m, k] * bf16[k, n]", on="v5e", tile=(bm, bn, bk), sizes=n).total_bytes
    ),
    ("s002.idle", "idle"): lambda: bound(intensity=1, on="v5e", set={"bf16": 240, "hbm": 1}).idle,
    ("s002.idle", "idle_dot"): lambda: bound(intensity=0.5, on="v5e", set=BOOK).idle,
    ("s002.rule.h100", "B_crit"): lambda: critical(on="h100", bf16=9.89e14, hbm=3.35e12).limit,
    ("s002.q4.h100", "B_crit"): lambda: critical(on="h100", bf16=9.89e14, hbm=3.35e12).limit,
    ("s002.rule.int8", "int8_int8"): lambda: critical(INT8, hbm=8.2e11, int8=3.94e14).limit,
    ("s002.q1.fp32", "intensity"): lambda **n: matmul("fp32[B, D] * fp32[D, F] -> fp32[B, F]", **n).intensity,
    ("s002.q1.fp32", "B_crit"): lambda C, W: (
        solve("fp32[B, D] * fp32[D, F] -> fp32[B, F]", "B", on="v5e", set={"hbm": W, "mxu.fp32": C}).limit
    ),
    ("s002.q2.attention", "decode"): lambda: (
        bound("attention(bf16[8, 1, 32, 128], bf16[8, 4096, 32, 128], bf16[8, 4096, 32, 128])", on="v5e").kind
    ),
    ("s002.q2.attention", "mha"): lambda S, T: heads("N", S=S, T=T, **HEADS).intensity,
    ("s000.two_chip", "t_math"): lambda **n: two_chips(**n).math,
    ("s000.two_chip", "t_comms"): lambda B, F, D=8192: two_chips(B=B, D=D, F=F).comms,
    ("roofline.two_chip", "t_math"): lambda **n: two_chips(**n).math,
    ("roofline.two_chip", "t_comms"): lambda B, F, D=8192: two_chips(B=B, D=D, F=F).comms,
    ("s002.table", "one_math"): lambda B, D, F, C: bound(MATMUL, on="v5e", set={"bf16": C}, B=B, D=D, F=F).math,
    ("s002.table", "two_math"): lambda B, D, F, C: (
        bound(SPLIT, on="v5e:2", link=4.5e10, set={"bf16": C}, plan="AllReduce", B=B, D=D, F=F).math
    ),
    ("s002.table", "two_bytes"): lambda **n: two_chips(**n).sent,
    ("s002.table", "D"): lambda: solve(SPLIT, "D", on="v5e:2", link=4.5e10).value,
    ("s002.think.n_chips", "direct"): lambda **at: crossing(**at, algorithm="direct").value,
    ("s002.think.n_chips", "ring_oneway"): lambda **at: crossing(**at, algorithm="one-way ring").value,
    ("s002.think.n_chips", "ring_bidi"): lambda **at: crossing(**at, algorithm="two-way ring").value,
    ("s002.think.n_chips", "book_limit"): lambda **at: crossing(**at, algorithm="book").value,
    ("s002.think.n_chips", "reduce_scatter_oneway"): lambda **at: scattered(**at).value,
    ("s002.q3.D1024", "comms_over_math"): lambda: two_chips(B=4096, D=1024, F=32768).comms_over_math,
    ("s002.q3.D1024", "best_utilisation"): lambda: two_chips(B=4096, D=1024, F=32768).utilisation,
    ("s002.q3.D1024", "h100_threshold"): lambda: solve(SPLIT, "D", on="h100:2", set={"bf16": 9.89e14}).value,
    ("s003.pmax", "P"): lambda Ppeak, Iop, b: (
        bound(intensity=Iop, dtype="fp16", on="a100", set={"fp16": Ppeak, "hbm": b}).attainable
    ),
    ("s003.oi_matmul", "as_printed"): lambda **n: (
        bound(flops="2*M*N*K", bytes="M*K+K*N+M*N", on="a100", sizes=n).intensity
    ),
    ("s003.oi_matmul", "correct"): lambda **n: (
        bound("fp16[M, K] * fp16[K, N] -> fp16[M, N]", on="a100", sizes=n).intensity
    ),
    ("s003.table.v100", "oi"): lambda: ridge(chip("v100"), "fp16"),
    ("s003.table.a100", "oi"): lambda: ridge(chip("a100", hbm=2.039e12), "fp16"),
    ("s003.table.h100", "oi"): lambda: ridge(chip("h100", fp16=9.89e14, hbm=3.35e12), "fp16"),
    ("s003.a100_opsbyte", "with_2.03"): lambda: ridge(chip("a100", hbm=2.03e12), "fp16"),
    ("s003.a100_opsbyte", "with_1.5"): lambda: ridge(chip("a100", hbm=1.5e12), "fp16"),
    ("s003.a100_opsbyte", "v100"): lambda: ridge(chip("v100"), "fp16"),
    ("s003.llama13b.printed", "memory"): lambda: note().total_bytes,
    ("s003.llama13b.printed", "oi"): lambda: note().intensity,
    ("s003.roof_lines", "ridge"): lambda: ridge(chip("a100", hbm=2.039e12), "fp16"),
    ("s003.roof_lines", "bandwidth_line"): lambda oi: (
        bound(intensity=oi, dtype="fp16", on="a100", set={"hbm": 2.039e12}).attainable
    ),
    ("s003.roof_lines", "compute_line"): lambda: bound(intensity=1e6, dtype="fp16", on="a100").attainable,
    ("s004.1080ti", "I_max"): lambda: ridge(chip("1080ti"), "fp32"),
    ("s004.vgg16", "bound"): lambda: gpu(25).kind,
    ("s004.mobilenet", "bound"): lambda: gpu(7).kind,
    ("s004.fp32", "bytes"): lambda elements: bound("copy(fp32[N])", on="1080ti", N=elements).ops[0].read_bytes,
}

CHIPS: Rows = {
    ("tpus.vmem_intensity", "intensity"): lambda: ridge(chip("v5e", vmem=1.804e13), "bf16", "vmem"),
    ("tpus.v5p_links", "ici_per_link_oneway"): lambda: network(chip("v5p"))["ici"].link.bandwidth.value,
    ("tpus.v5p_links", "dcn"): lambda: network(chip("v5p"))["dcn"].chip_bandwidth,
    ("tpus.spec.v6e", "critical_intensity_bf16"): lambda: ridge(chip("v6e", hbm=1.6e12, bf16=9.2e14), "bf16"),
    ("tpus.spec.v6e", "ici_oneway"): lambda: network(chip("v6e"))["ici"].link.bandwidth.value,
    ("tpus.spec.tpu7x", "critical_intensity_bf16"): lambda: ridge(chip("tpu7x", hbm=7.4e12, bf16=2.3e15), "bf16"),
    ("tpus.q4.hbm", "t_math"): lambda B: bound(Q4, on="v5e", set={"int8": 3.94e14}, B=B, I=16384, J=4096).math,
    ("tpus.q4.hbm", "t_comms"): lambda B: bound(Q4, on="v5e", set=BOOK, B=B, I=16384, J=4096).times["hbm"],
    ("tpus.q4.hbm", "B_crit"): lambda: solve(Q4, "B", on="v5e", set={"int8": 3.94e14, **BOOK}, I=16384, J=4096).value,
    ("tpus.q4.vmem", "B_crit"): lambda: (
        solve(f"{Q4} over vmem", "B", on="v5e", set={"int8": 3.94e14, "vmem": 1.804e13}, I=16384, J=4096).value
    ),
    ("gpus.tc_cycle", "h100"): lambda: flops_per_cycle(
        chip("h100", **{"tensor.clock": 1.76e9, "bf16": 9.9e14}), "tensor", "bf16"
    ),
    ("gpus.tc_cycle", "b200"): lambda: flops_per_cycle(
        chip("b200", **{"tensor.clock": 1.86e9, "bf16": 2.25e15}), "tensor", "bf16"
    ),
    ("gpus.registers", "bytes"): lambda: chip("h100").registers.value,
    ("gpus.registers", "warps"): lambda: resident_warps(chip("h100"), 256),
    ("gpus.spec.h100", "critical_intensity"): lambda: ridge(chip("h100", hbm=3.4e12, bf16=9.9e14), "bf16"),
    ("gpus.spec.h200", "critical_intensity"): lambda: ridge(chip("h200", hbm=4.8e12, bf16=9.9e14), "bf16"),
    ("gpus.spec.b200", "critical_intensity"): lambda: ridge(chip("b200", hbm=8e12, bf16=2.3e15), "bf16"),
    ("gpus.q1.1", "h100"): lambda: count_units(chip("h100"), "cuda"),
    ("gpus.q1.1", "b200"): lambda: count_units(chip("b200"), "cuda"),
    ("gpus.q1.1", "v5p"): lambda: count_units(chip("v5p"), "vpu"),
    ("gpus.q1.4", "bytes"): lambda: b200(64).total_bytes,
    ("gpus.q1.4", "t64"): lambda: b200(64).lower,
    ("gpus.q1.4", "bound64"): lambda: b200(64).kind,
    ("gpus.q1.4", "t512"): lambda: b200(512).lower,
    ("gpus.q1.4", "bound512"): lambda: b200(512).kind,
    ("gpus.nvlink.ampere", "egress"): lambda: network(chip("a100"))["nvlink"].chip_bandwidth,
    ("gpus.nvlink.hopper", "egress"): lambda: network(chip("h100"))["nvlink"].chip_bandwidth,
    ("gpus.q2.1", "node"): lambda: network(chip("dgx-h100"))["nvlink"].bandwidth,
    ("gpus.dgx", "switches"): lambda: network(chip("dgx-h100")).switches(1024),
    ("gpus.dgx", "v5p"): lambda: network(chip("v5p"))["ici"].chip_bandwidth,
    ("gpus.q3.1", "node_to_leaf"): lambda: network(chip("dgx-h100"))["ib"].unit_bandwidth,
    ("gpus.q3.1", "leaf_switches"): lambda: network(chip("dgx-h100"))["ib"].switch_bandwidth,
    ("gpus.q3.1", "su_to_spine"): lambda: network(chip("dgx-h100"))["spine"].unit_bandwidth,
    ("gpus.appB", "nvswitch"): lambda: network(chip("dgx-h100"))["nvlink"].switch_bandwidth,
    ("gpus.appB", "leaf_switch"): lambda: network(chip("dgx-h100"))["ib"].switch_bandwidth,
    ("gpus.appB", "spine_links"): lambda: network(chip("dgx-h100"))["spine"].bandwidth,
    ("gpus.appB", "spine_switch"): lambda: network(chip("dgx-h100"))["spine"].switch_bandwidth,
}


@cache
def b200(B: int) -> Any:
    figures = {"hbm": 8e12, "fp16": 2.3e15}
    return bound("fp16[B, 4096] * fp16[4096, 8192] -> fp16[B, 8192]", on="b200", set=figures, B=B)
