"""Answers to the seeds' and the book's questions about one chip, each through the public API.

:data:`ANSWERS` maps a case's id to a function that returns its answers by name; a closed form is answered by a function
of the sizes (or rates) it is evaluated at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline import bound, chip, solve
from roofline.hardware.rate import ridge

MATMUL = "bf16[B, D] . bf16[D, F] -> bf16[B, F]"
BOOK = {"hbm": 8.2e11}


def matmul(text: str = MATMUL, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: bound(text, sizes=sizes, **{"on": "v5e", "set": BOOK, **options})


def field(name: str, text: str = MATMUL, **options: Any) -> Callable[..., Any]:
    return lambda **sizes: getattr(matmul(text, **options)(**sizes), name)


def read_bytes(**sizes: int) -> Any:
    return sum(t.traffic_bytes for t in matmul()(**sizes).ops[0].op.reads)


def written_bytes(**sizes: int) -> Any:
    return sum(t.traffic_bytes for t in matmul()(**sizes).ops[0].op.writes)


def critical(text: str, on: str = "v5e", set: dict[str, Any] | None = None, **sizes: int) -> float:
    found = solve(text, "B", on=on, set=BOOK if set is None else set, sizes=sizes)
    return float(found.value if found.value is not None else found.limit)


def padded_elements(tile: str) -> int:
    key = {"128": "v5e", "256": "v6e"}[tile]
    answer = bound("bf16[B, 100] * bf16[100, 300]", on=key, B=1, pad=True)
    return int(answer.flops // 2)


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
    "s002.link_gap": lambda: {
        "v5e_oneway": bandwidth(chip("v5e", hbm=8.2e11), "hbm") / chip("v5e", link=4.5e10).links[0].bandwidth.value,
        "v5p_oneway": bandwidth(chip("v5p", hbm=2.8e12), "hbm") / chip("v5p", link=9e10).links[0].bandwidth.value,
        "h100_nvlink": 3.35e12 / chip("h100").links[0].bandwidth.value,
        "h100_ib": 3.35e12 / next(x for x in chip("h100").links if x.name == "nic").bandwidth.value,
    },
    "s002.bigger_model": lambda: {
        "B_crit": lambda **at: critical(MATMUL, set={"hbm": 8.2e11, "bf16": at["I"] * 8.2e11}, D=at["D"], F=at["D"]),
    },
    "s002.q2.attention": lambda: {
        "mha": attention("N"),
        "gqa": attention("K"),
        "prefill": prefill_kind(),
        "decode": bound(
            "attention(bf16[8, 1, 32, 128], bf16[8, 4096, 32, 128], bf16[8, 4096, 32, 128])", on="v5e"
        ).kind,
    },
    "s004.ratio": lambda: {"ratio": raw(25).attainable / raw(7).attainable},
    "roofline.local_batch": lambda: {"total": 512 * 4096, "local": 512 * 4096 / 2048},
    "roofline.q5": lambda: {
        "dense_peak": 1.979e15 / 2,
        "B_crit": critical(MATMUL, "h100", {"bf16": 1.979e15 / 2, "hbm": 3.35e12}),
    },
    "tpus.mxu": lambda: {
        "per_mxu": bound("bf16[8, 128] @ bf16[128, 128]", on="v5e").flops / (8 / 1.5e9),
        "chip": 4 * bound("bf16[8, 128] @ bf16[128, 128]", on="v5e").flops / (8 / 1.5e9),
    },
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


def tile_intensity(bm: int, bn: int) -> float:
    """The output's bytes vanish beside the loads when the contracted size is large."""
    answer = bound("bf16[m, k] * bf16[k, n]", on="v5e", tile=(bm, bn, 128), m=bm * 8, n=bn * 8, k=2**44)
    return float(answer.intensity)
