"""The book's questions about serving (chapters 7, 8 and 12): every expected figure, through the public API.

Where the book goes on from a figure it has rounded (a KV cache of 162 kB a token, a step of 19 ms), so do the answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roofline import bound, chip, scaling
from roofline.hardware.mesh import smallest_slice
from roofline.models import (
    Model,
    answer_rate,
    fewest,
    largest_batch,
    latency_throughput,
    load,
    outline,
    pool,
)
from roofline.models.training.stage import states
from tests.cases import left_open
from tests.cases.test_one_chip_cases import check

CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "data" / "book_cases_serving.json").read_text(encoding="utf-8")
    )["cases"]
}
V5E = {"hbm": {"bandwidth": 8.2e11, "capacity": 16e9}, "bf16": 1.97e14}
H100 = {"hbm": {"capacity": 80e9}, "bf16": 9.9e14}

#: Keys and values of a token of the 70B model, in elements: exactly, and as the book's 162 kB in int8.
EXACT, ROUNDED = 2 * 80 * 8 * 128, 162_000


def seventy(kv: int = EXACT) -> Model:
    return outline(70e9, kv=kv)


def together(chips: int) -> Any:
    return pool(chip("v5e", **V5E), chips)


def invented_experts() -> dict[str, Any]:
    """The book counts the matrices alone: no norms, no routers."""
    config = {
        "model_type": "mixtral",
        "num_hidden_layers": 64,
        "hidden_size": 4096,
        "intermediate_size": 16384,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "vocab_size": 32128,
        "num_local_experts": 16,
        "num_experts_per_tok": 2,
        "tie_word_embeddings": True,
    }
    counts = load(config, name="book").parameters_by_module()
    matrices = sum(n for name, n in counts.items() if not name.endswith(("norm", "gate")))
    found = fewest(outline(matrices), on="v5e", set=V5E, weights="int8")
    weights = found.needed.parts["weights"]
    assert found.slice is not None
    assert found.slice.target == "v5e:4x4"
    return {
        "load": bound(bytes=weights, on=together(128)).lower * 1e3,
        "free": (128 * found.capacity - weights) / 128 / 1e9,
        "min_chips": found.chips,
    }


def latency() -> dict[str, Any]:
    """70 GB of weights and 42 GB of keys and values."""
    figures = {"bf16": 2200 * 9e10}
    tp = scaling("tp", on="v5e", set=figures, link=4.5e10, torus_axes={"Y": 2}, unknown="Y", sizes={"F": 28672})
    step = {n: bound(bytes=112e9, on=together(n)).lower * 1e3 for n in (8, 16)}
    printed = {"step_time": 17e-3, "steps": 1, "batch": 32}
    return {
        "step": step[8],
        "tps": answer_rate(**printed),
        "tps_chip": answer_rate(**printed, chips=8),
        "Y_ici": float(tp.value),
        "step16": step[16],
    }


def least(dtype: str) -> dict[str, Any]:
    found = fewest(seventy(), on="v5e", set=V5E, context=8192, weights=dtype, kv=dtype)
    rounded = fewest(seventy(ROUNDED), on="v5e", set=V5E, context=8192, weights=dtype, kv=dtype)
    assert found.slice is not None
    assert found.sequences == rounded.sequences
    return {
        "params": found.needed.parts["weights"] / 1e9,
        "kv_token": seventy().kv_bytes_per_token(dtype) / 1e3,
        "min_chips": found.ratio,
        "slice_chips": found.slice.chips,
        "left": found.left / 1e9,
        "kvs": found.sequences,
        "qps_chip": answer_rate(step_time=19e-3, steps=512, batch=found.sequences, chips=found.slice.chips),
    }


def doubled(dtype: str) -> dict[str, Any]:
    chips = CASES[f"applied-inference.double.{dtype}"]["inputs"]["chips"]
    assert chips == 2 * fewest(seventy(), on="v5e", set=V5E, weights=dtype).have
    batch = largest_batch(seventy(ROUNDED), chips * 16e9, context=8191, weights=dtype, kv=dtype)
    return {"batch": batch, "qps_chip": answer_rate(step_time=19e-3, steps=512, batch=batch, chips=chips)}


def pareto(name: str) -> dict[str, Any]:
    inputs = CASES[name]["inputs"]
    formats = {"weights": "int8", "kv": "int8", "policy": "streamed", "form": "op_by_op"}
    sizes = {"batch": inputs["batch"], "context": inputs["seq"] - 1}
    (choice,) = latency_throughput(seventy(), on="v5e", set=V5E, pool=inputs["chips"], **sizes, **formats).choices
    return {"latency": choice.time_per_token * 1e3, "throughput": choice.tokens_per_second_per_chip / 1e3}


def trained_weights() -> dict[str, Any]:
    held = sum(states(70e9, gradients=None, master=None).values())
    gpus = math.ceil(held / 80e9)
    found = smallest_slice(chip("h100", **H100), gpus)
    assert found is not None
    return {"gb": held / 1e9, "gpus": gpus, "nodes": found.nodes}


ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "inference.q6": invented_experts,
    **{f"applied-inference.min_topology.{dtype}": partial(least, dtype) for dtype in ("bf16", "int4")},
    **{f"applied-inference.double.{dtype}": partial(doubled, dtype) for dtype in ("bf16", "int8", "int4")},
    **{name: partial(pareto, name) for name in CASES if ".pareto." in name},
    "gpus.q5.2.1": trained_weights,
}


def entries() -> Iterator[Any]:
    for case_id, case in CASES.items():
        for entry in left_open(case):
            yield pytest.param(case_id, entry, id=f"{case_id}-{entry['name']}")


def test_every_case_is_answered() -> None:
    assert set(ANSWERS) >= {key for key, case in CASES.items() if left_open(case)}


@pytest.mark.parametrize(("case_id", "entry"), list(entries()))
def test_case(case_id: str, entry: dict[str, Any]) -> None:
    check(entry, ANSWERS[case_id]()[entry["name"]])
