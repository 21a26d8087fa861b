"""Answers to the seeds' and the book's questions about one chip, each through the public API.

:data:`ANSWERS` maps a case's id to a function that returns its answers by name; a closed form is answered by a function
of the sizes (or rates) it is evaluated at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline import bound, chip, solve, zones
from roofline.hardware.rate import ridge

MATMUL = "bf16[B, D] . bf16[D, F] -> bf16[B, F]"
INT8 = "int8[B, D] . int8[D, F] -> int8[B, F]"
WEIGHTS8 = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
BATCHED = "int8[B, D] * int8[B, D, F] -> int8[B, F]"
BOOK = {"hbm": 8.2e11}


def milliseconds(chip_name: str, peak: float) -> float:
    return float(bound(flops=1e12, dtype="bf16", on=chip_name, set={"bf16": peak}).lower * 1e3)


def matmul(text: str = MATMUL, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: bound(text, sizes=sizes, **{"on": "v5e", "set": BOOK, **options})


def field(name: str, text: str = MATMUL, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: getattr(matmul(text, **options)(**sizes), name)


def read_bytes(**sizes: int) -> Any:
    return sum(t.traffic_bytes for t in matmul()(**sizes).ops[0].op.reads)


def written_bytes(**sizes: int) -> Any:
    return sum(t.traffic_bytes for t in matmul()(**sizes).ops[0].op.writes)


def total_bytes(text: str = MATMUL, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: sum(matmul(text, **options)(**sizes).bytes.values())


def time_on(resource: str, text: str, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: matmul(text, **options)(**sizes).times[resource]


def critical(text: str, on: str = "v5e", set: dict[str, Any] | None = None, **sizes: int) -> float:
    found = solve(text, "B", on=on, set=BOOK if set is None else set, sizes=sizes)
    return float(found.value if found.value is not None else found.limit)


def given_times(peak_time: str, memory_time: str) -> Callable[..., Any]:
    """A chip of rate 1 for everything: times are the amounts."""

    def answer(**at: float) -> Any:
        return bound(flops=at[peak_time], bytes=at[memory_time], dtype="bf16", on="v5e", set={"bf16": 1, "hbm": 1})

    return answer


def curve(width: int, batch: int) -> float:
    return float(bound(WEIGHTS8, on="v5e", set=BOOK, B=batch, D=width, F=width).attainable)


def q3() -> dict[str, Any]:
    batches = (1, 100, 120, 240, 511)
    points = {f"y_{width}_{b}": curve(width, b) for width in (4096, 1024) for b in batches}
    knees = {f"B_crit_{width}": critical(WEIGHTS8, D=width, F=width) for width in (4096, 1024)}
    return {**points, **knees}


def padded_elements(tile: str) -> int:
    key = {"128": "v5e", "256": "v6e"}[tile]
    answer = bound("bf16[B, 100] * bf16[100, 300]", on=key, B=1, pad=True)
    return int(answer.flops // 2)


def table_row(key: str, dtype: str, **figures: float) -> float:
    return float(ridge(chip(key, **figures), dtype))


LLAMA = {"h": 5120, "b": 8, "s": 1024, "o": 1024, "n": 40, "V": 32000}
LLAMA_FLOPS = "n*(24*b*s*h*h + 4*b*s*s*h) + 2*b*s*h*V"
LLAMA_BYTES = "1.2*12*n*h*h + 4*n*b*h*(s+o)"


def llama() -> dict[str, Any]:
    answer = bound(flops=LLAMA_FLOPS, bytes=LLAMA_BYTES, dtype="fp16", on="a100", sizes=LLAMA)
    return {
        "flops": answer.flops / 1e12,
        "memory": sum(answer.bytes.values()) / 1e9,
        "oi": answer.intensity,
    }


def attention(kv_heads: str, **fixed: int) -> Callable[..., Any]:
    def intensity(S: int, T: int, G: int = 1) -> float:
        text = f"attention(bf16[B, T, N, H], bf16[B, S, {kv_heads}, H], bf16[B, S, {kv_heads}, H], full)"
        sizes = {"B": 2, "S": S, "T": T, "N": 8 * G, "H": 128, **({"K": 8} if kv_heads == "K" else {})}
        return float(bound(text, on="v5e", sizes=sizes).intensity)

    return intensity


def prefill_kind() -> str:
    text = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
    flip = solve(text, "T", on="v5e", set=BOOK, B=8, N=32, H=128)
    assert flip.before == "hbm"
    return f"compute-bound for T > {round(flip.value)} (MHA, v5e)"


def raw(intensity: float, **options: Any) -> Any:
    return bound(intensity=intensity, dtype="fp32", on="1080ti", **options)


def spec(key: str, hbm: float, bf16: float, int8: float) -> dict[str, Any]:
    machine = chip(key, hbm=hbm, bf16=bf16, int8=int8)
    return {"hbm_bw": hbm, "bf16": bf16, "int8": int8, "critical_intensity_bf16": ridge(machine, "bf16")}


ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "s000.t_math": lambda: {"t": milliseconds("h100", 9.89e14)},
    "s000.v5e": lambda: {"intensity": ridge(chip("v5e", **BOOK), "bf16")},
    "s000.dot": lambda: {
        "intensity": field("intensity", "bf16[N] . bf16[N] -> bf16[1]", exact=True),
        "limit": solve("bf16[N] . bf16[N] -> bf16[1]", "N", on="h100").intensity_limit,
        "vpu_intensity": "about 3 (see book: mixes per-core and per-chip)"
        if ridge(chip("v5p", vpu={"fp32": 7e12}), "fp32", unit="vpu") == pytest.approx(2.53, rel=1e-2)
        else None,
    },
    "s000.matmul": lambda: {
        "load": read_bytes,
        "write": written_bytes,
        "flops": field("flops"),
        "intensity": field("intensity"),
        "B_crit": critical(MATMUL),
        "gpu": "about 300" if round(critical(MATMUL, "h100", {}), -1) == 300 else None,
    },
    "s000.local_batch": lambda: {"total": 512 * 4096, "local": 512 * 4096 / 128},
    "s000.q1": lambda: {
        "bytes": total_bytes(INT8),
        "hw": table_row("v5e", "int8", hbm=8.1e11, int8=3.94e14),
        "B_crit": critical(INT8, set={"hbm": 8.1e11, "int8": 3.94e14}),
        "t_math": time_on("mxu", INT8, set={"int8": 3.94e14}),
        "t_comms": time_on("hbm", INT8, set={"hbm": 8.1e11}),
    },
    "s000.q2": lambda: {"B_crit": critical(WEIGHTS8)},
    "s000.q3": q3,
    "s000.q4": lambda: {
        "intensity": field("intensity", BATCHED),
        "limit": field("intensity", BATCHED)(B=4096, D=8192, F=8192),
    },
    "s000.q5": lambda: {
        "B_crit": critical(MATMUL, "h100", {"bf16": 1e15, "hbm": 3.35e12}),
        "B_crit_989": critical(MATMUL, "h100", {"bf16": 1.979e15 / 2, "hbm": 3.35e12}),
    },
    "s000.derate": lambda: {
        "h100_low": attainable_at("h100", 9.89e14, 0.80),
        "h100_high": attainable_at("h100", 9.89e14, 0.85),
        "v6e": attainable_at("v6e", 9.1e14, 0.95),
    },
    "s001.v6e": lambda: {"h100": milliseconds("h100", 9.89e14), "v6e": milliseconds("v6e", 9.1e14)},
    "s001.bounds": lambda: {
        "lower": lambda **at: given_times("Tm", "Tc")(**at).lower,
        "upper": lambda **at: given_times("Tm", "Tc")(**at).upper,
        "ratio": given_times("Tm", "Tc")(Tm=3.0, Tc=3.0).upper / given_times("Tm", "Tc")(Tm=3.0, Tc=3.0).lower,
    },
    "s001.two_bw": lambda: {
        "red": lambda P, BW1, BW2: zones(chip("v5e", bf16=P), [BW1, BW2]).red_below,
        "green": lambda P, BW1, BW2: zones(chip("v5e", bf16=P), [BW1, BW2]).green_from,
    },
    "s001.vpu": lambda: {"intensity": ridge(chip("v5p", vpu={"fp32": 7e12}, hbm=2.8e12), "fp32", unit="vpu")},
    "s001.exact_flops": lambda: {"flops": field("flops", exact=True)},
    "s001.tiles": lambda: {
        "flops": lambda m, n, k: bound("bf16[m, k] * bf16[k, n]", on="v5e", m=m, n=n, k=k).flops,
        "bytes": lambda bm, bn, bk, **at: sum(
            bound("bf16[m, k] * bf16[k, n]", on="v5e", tile=(bm, bn, bk), sizes=at).bytes.values()
        ),
        "intensity": lambda bm, bn: tile_intensity(bm, bn),
    },
    "s002.crit_ratio": lambda: {
        "times": ridge(chip("v5e", **BOOK), "bf16") / solve("bf16[N] . bf16[N]", "N", on="h100").intensity_limit
    },
    "s002.idle": lambda: {
        "idle": 100 * (1 - bound(intensity=1, on="v5e", set={"bf16": 240, "hbm": 1}).utilisation),
        "idle_dot": 100 * (1 - bound(intensity=0.5, on="v5e", set=BOOK).utilisation),
    },
    "s002.link_gap": lambda: {
        "v5e_oneway": bandwidth(chip("v5e", hbm=8.2e11), "hbm") / chip("v5e", link=4.5e10).links[0].bandwidth.value,
        "v5p_oneway": bandwidth(chip("v5p", hbm=2.8e12), "hbm") / chip("v5p", link=9e10).links[0].bandwidth.value,
        "h100_nvlink": 3.35e12 / chip("h100").links[0].bandwidth.value,
        "h100_ib": 3.35e12 / next(x for x in chip("h100").links if x.name == "nic").bandwidth.value,
    },
    "s002.rule.h100": lambda: {"B_crit": critical(MATMUL, "h100", {"bf16": 9.89e14, "hbm": 3.35e12})},
    "s002.rule.int8": lambda: {
        "weights_only": critical(WEIGHTS8),
        "int8_int8": critical(INT8, set={"hbm": 8.2e11, "int8": 3.94e14}),
    },
    "s002.bigger_model": lambda: {
        "B_crit": lambda **at: critical(MATMUL, set={"hbm": 8.2e11, "bf16": at["I"] * 8.2e11}, D=at["D"], F=at["D"]),
    },
    "s002.q1.fp32": lambda: {
        "intensity": field("intensity", "fp32[B, D] . fp32[D, F] -> fp32[B, F]", set={"fp32": 1.97e14}),
        "B_crit": lambda C, W: critical("fp32[B, D] . fp32[D, F] -> fp32[B, F]", "v5e", {"hbm": W, "mxu.fp32": C}),
    },
    "s002.q2.attention": lambda: {
        "mha": attention("N"),
        "gqa": attention("K"),
        "prefill": prefill_kind(),
        "decode": bound(
            "attention(bf16[8, 1, 32, 128], bf16[8, 4096, 32, 128], bf16[8, 4096, 32, 128])", on="v5e"
        ).kind,
    },
    "s002.q4.h100": lambda: {"B_crit": critical(MATMUL, "h100", {"bf16": 9.89e14, "hbm": 3.35e12})},
    "s003.pmax": lambda: {
        "P": lambda Ppeak, Iop, b: (
            bound(intensity=Iop, dtype="fp16", on="a100", set={"fp16": Ppeak, "hbm": b}).attainable
        )
    },
    "s003.oi_matmul": lambda: {
        "as_printed": lambda M, N, K: (
            bound(flops="2*M*N*K", bytes="M*K+K*N+M*N", on="a100", sizes={"M": M, "N": N, "K": K}).intensity
        ),
        "correct": lambda M, N, K: (
            bound("fp16[M, K] . fp16[K, N] -> fp16[M, N]", on="a100", sizes={"M": M, "N": N, "K": K}).intensity
        ),
    },
    "s003.table.v100": lambda: {"oi": table_row("v100", "fp16")},
    "s003.table.a100": lambda: {"oi": table_row("a100", "fp16", hbm=2.039e12)},
    "s003.table.h100": lambda: {"oi": table_row("h100", "fp16", fp16=9.89e14, hbm=3.35e12)},
    "s003.a100_opsbyte": lambda: {
        "with_2.03": table_row("a100", "fp16", hbm=2.03e12),
        "with_1.5": table_row("a100", "fp16", hbm=1.5e12),
        "v100": table_row("v100", "fp16"),
    },
    "s003.llama13b.printed": llama,
    "s003.roof_lines": lambda: {
        "ridge": table_row("a100", "fp16", hbm=2.039e12),
        "bandwidth_line": lambda oi: bound(intensity=oi, dtype="fp16", on="a100", set={"hbm": 2.039e12}).attainable,
        "compute_line": bound(intensity=1e6, dtype="fp16", on="a100").attainable,
    },
    "s004.1080ti": lambda: {"I_max": table_row("1080ti", "fp32")},
    "s004.vgg16": lambda: {"bound": raw(25).kind.removesuffix("-bound"), "perf": raw(25).attainable / 1e12},
    "s004.mobilenet": lambda: {"bound": raw(7).kind.removesuffix("-bound"), "perf": raw(7).attainable / 1e12},
    "s004.ratio": lambda: {"ratio": raw(25).attainable / raw(7).attainable},
    "s004.fp32": lambda: {
        "bytes": lambda elements: bound("copy(fp32[N])", on="1080ti", N=elements).ops[0].op.reads[0].traffic_bytes
    },
    "roofline.t_math": lambda: {"t_h100": milliseconds("h100", 9.89e14), "t_v6e": milliseconds("v6e", 9.1e14)},
    "roofline.bounds": lambda: {
        "lower": lambda **at: given_times("Tm", "Tc")(**at).lower,
        "upper": lambda **at: given_times("Tm", "Tc")(**at).upper,
        "max_ratio": given_times("Tm", "Tc")(Tm=3.0, Tc=3.0).upper / given_times("Tm", "Tc")(Tm=3.0, Tc=3.0).lower,
    },
    "roofline.dot": lambda: {
        "intensity": field("intensity", "bf16[N] . bf16[N] -> bf16[1]", exact=True),
        "limit": solve("bf16[N] . bf16[N] -> bf16[1]", "N", on="h100").intensity_limit,
    },
    "roofline.vpu_v5p": lambda: {
        "intensity": ridge(chip("v5p", vpu={"fp32": 7e12}, hbm=2.8e12), "fp32", unit="vpu"),
        "intensity_chip": ridge(chip("v5p", vpu={"fp32": 2 * 7.168e12}, hbm=2.8e12), "fp32", unit="vpu"),
    },
    "roofline.matmul_intensity": lambda: {
        "flops": field("flops"),
        "bytes": total_bytes(),
        "intensity": field("intensity"),
        "intensity_small_B": lambda B, **rest: field("intensity")(B=B, D=10**13, F=10**13),
    },
    "roofline.matmul_exact_flops": lambda: {"flops": field("flops", exact=True)},
    "roofline.local_batch": lambda: {"total": 512 * 4096, "local": 512 * 4096 / 2048},
    "roofline.q1.intensity": lambda: {
        "intensity": field("intensity", INT8),
        "hw": table_row("v5e", "int8", hbm=8.2e11, int8=3.94e14),
        "B_crit": critical(INT8, set={"hbm": 8.2e11, "int8": 3.94e14}),
    },
    "roofline.q1.times": lambda: {
        "t_math": time_on("mxu", INT8, set={"int8": 3.94e14}),
        "t_comms": time_on("hbm", INT8),
        "lower": field("lower", INT8, set={**BOOK, "int8": 3.94e14}),
        "upper": field("upper", INT8, set={**BOOK, "int8": 3.94e14}),
    },
    "roofline.q5": lambda: {
        "dense_peak": 1.979e15 / 2,
        "B_crit": critical(MATMUL, "h100", {"bf16": 1.979e15 / 2, "hbm": 3.35e12}),
    },
    "tpus.mxu": lambda: {
        "per_mxu": bound("bf16[8, 128] @ bf16[128, 128]", on="v5e").flops / (8 / 1.5e9),
        "chip": 4 * bound("bf16[8, 128] @ bf16[128, 128]", on="v5e").flops / (8 / 1.5e9),
    },
    "tpus.pod_v5p_text": lambda: {"pod": 8960 * peak("v5p", "mxu", "bf16")},
    "tpus.vmem_intensity": lambda: {"intensity": ridge(chip("v5e", vmem=22 * 8.2e11), "bf16", "vmem")},
    "tpus.pcie_ratio": lambda: {"ratio": bandwidth(chip("v4", hbm=1.2e12), "hbm") / bandwidth(chip("v4"), "pcie")},
    "tpus.v5p_links": lambda: {
        "hbm": bandwidth(chip("v5p", hbm=2.8e12), "hbm"),
        "ici_per_link_oneway": chip("v5p").links[0].bandwidth.value,
        "dcn": next(link.bandwidth.value for link in chip("v5p").links if link.name == "dcn"),
    },
    "tpus.spec.v6e": lambda: {
        **spec("v6e", 1.6e12, 9.2e14, 1.84e15),
        "pod": "16x16" if chip("v6e").links[0].domain == 256 else None,
        "host": "4x2",
        "hbm_gb": 32.0,
        "ici_oneway": chip("v6e").links[0].bandwidth.value,
        "ici_bidi": 2 * chip("v6e").links[0].bandwidth.value,
    },
    "tpus.spec.tpu7x": lambda: {
        **spec("tpu7x", 7.4e12, 2.3e15, 4.61e15),
        "pod": "4x4x576" if chip("tpu7x").links[0].domain == 4 * 4 * 576 else None,
        "host": "2x2x1",
        "hbm_gb": 192.0,
        "ici_oneway": chip("tpu7x", link=9e10).links[0].bandwidth.value,
        "ici_bidi": 2 * chip("tpu7x", link=9e10).links[0].bandwidth.value,
    },
    "tpus.q2.v5e": lambda: {
        "hosts": 256 / 8,
        "cores": 256 * chip("v5e").cores,
        "flops": 256 * peak("v5e", "mxu", "bf16"),
        "hbm": 256 * 16e9 / 1e12,
    },
    "tpus.q3": lambda: {
        "B_crit": solve(MATMUL, "B", on="v6e", over="pcie", set={"pcie": 1.6e10, "bf16": 9.2e14}).limit
    },
    "tpus.q4.hbm": lambda: {
        "t_math": lambda B: q4(B).times["mxu"],
        "t_comms": lambda B: q4(B).times["hbm"],
        "B_crit": solve(Q4, "B", on="v5e", set={"int8": 3.94e14, **BOOK}, I=16384, J=4096).value,
    },
    "tpus.q4.vmem": lambda: {
        "vmem_bw": 22 * 8.2e11,
        "B_crit": solve(
            Q4 + " over vmem", "B", on="v5e", set={"int8": 3.94e14, "vmem": 22 * 8.2e11}, I=16384, J=4096
        ).value,
    },
    "tpus.vpu": lambda: {
        "per_core": peak("v5p", "vpu", "fp32", vpu={"fp32": 2 * 8 * 128 * 4 * 1.75e9}) / chip("v5p").cores,
        "mxu_over_vpu": peak("v5p", "mxu", "bf16") / (2 * 8 * 128 * 4 * 1.75e9),
    },
    "tpus.vreg": lambda: {"bytes": 64 * 8 * 128 * 4},
    "tpus.mxu_padding": lambda: {
        "padded_128": padded_elements("128"),
        "util_128": 100 * 300 / padded_elements("128"),
        "padded_256": padded_elements("256"),
    },
}

Q4 = "int8[B, J] . int8[I, J] -> int8[B, I]"


def q4(batch: int) -> Any:
    return bound(Q4, on="v5e", set={"int8": 3.94e14, **BOOK}, B=batch, I=16384, J=4096)


def peak(key: str, unit: str, dtype: str, **figures: Any) -> float:
    return float(next(u for u in chip(key, **figures).units if u.name == unit).peaks[dtype].value)


def bandwidth(machine: Any, level: str) -> float:
    return float(next(m for m in machine.memories if m.name == level).bandwidth.value)


def attainable_at(key: str, dense: float, fraction: float) -> float:
    return float(bound(flops=1e15, dtype="bf16", on=key, set={"bf16": dense * fraction}).attainable)


def tile_intensity(bm: int, bn: int) -> float:
    """The output's bytes vanish beside the loads when the contracted size is large."""
    answer = bound("bf16[m, k] * bf16[k, n]", on="v5e", tile=(bm, bn, 128), m=bm * 8, n=bn * 8, k=2**44)
    return float(answer.intensity)
