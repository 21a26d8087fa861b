"""Layers that attend to keys and values of earlier ones, and inputs of every layer's own (Gemma 3n and 4)."""

from __future__ import annotations

import pytest

from roofline.errors import InputError
from roofline.models import load, serve_bound, train
from roofline.models.operations import decode
from roofline.models.serving.advice import advise_step
from tests.models.small import small
from tests.models.tiny import TINY

GEMMAS = ("gemma4_text that borrows", "gemma3n_text")
#: 4 layers keep keys and values: two with windows of 8, two that see all, whose heads are 24 wide in Gemma 4.
KEPT = {"gemma4_text that borrows": (2 * 2 * 16, 2 * 2 * 24), "gemma3n_text": (2 * 2 * 16, 2 * 2 * 16)}


@pytest.mark.parametrize("name", GEMMAS)
def test_only_layers_that_lend_keep_keys_and_values(name: str) -> None:
    local, full = KEPT[name]
    assert load(TINY[name]).cache_bytes(100, batch=3, dtype="bf16") == 3 * 2 * 2 * (8 * local + 100 * full)
    assert load(TINY[name]).kv_bytes_per_token("bf16") == 2 * 2 * (local + full)


@pytest.mark.parametrize("name", GEMMAS)
def test_the_floor_reads_borrowed_keys_and_values_once(name: str) -> None:
    """Operation by operation each of the two layers that borrow reads them again: 7 or 100 old ones and a new one."""
    model, sizes = load(TINY[name]), {"on": "h100", "batch": 3, "context": 100, "kv": "bf16"}
    local, full = KEPT[name]

    def kv(policy: str) -> float:
        found = serve_bound(model, "decode", policy=policy, **sizes)
        again = serve_bound(model, "decode", policy=policy, **{**sizes, "kv": "fp8"})
        return 2 * (sum(found.bytes.values()) - sum(again.bytes.values()))

    once = 3 * 2 * 2 * (7 * local + 100 * full)
    new = 3 * 2 * 2 * (local + full)
    assert kv("streamed") == kv("minimal") == once + new
    assert kv("each-op") == (once + new) * 3 / 2 + new


def test_a_cut_gate_takes_six_operations_a_value() -> None:
    """Of 2 of 6 layers, 48 wide, in a step of 3 tokens: sum, difference, square and its sum, difference, maximum."""
    cuts = [op for op in decode(load(TINY["gemma3n_text"]), batch=3, context=9) if op.where.endswith(".cut")]
    assert sum(op.work.total("flops", "vector") * op.repeat for op in cuts) == 2 * 3 * 48 * 6


HUNYUAN = small("hunyuan", num_experts=6, moe_topk=2, use_cla=True, cla_share_factor=2)


def test_layers_that_share_keys_in_pairs_keep_and_read_those_of_half_of_them() -> None:
    """Cross-layer attention: of four layers two make keys and values, 2 heads of 16 each, of 100 old tokens and 1."""
    model = load({**HUNYUAN, "num_hidden_layers": 4, "torch_dtype": "bfloat16"})
    assert sum(part.elements for block in model.blocks for part in block.cache(101)) == 2 * 2 * 2 * 16 * 101
    found, again = (serve_bound(model, "decode", on="h100", batch=3, context=100, kv=kv) for kv in ("bf16", "fp8"))
    moved = 2 * (sum(found.bytes.values()) - sum(again.bytes.values()))
    assert moved == pytest.approx(3 * 2 * 2 * 2 * 2 * 16 * 101)
    plain = load({**HUNYUAN, "num_hidden_layers": 4, "use_cla": False})
    assert plain.parameters - model.parameters == 2 * (2 * 2 * 16 * 64 + 16)
    two = serve_bound(model, "decode", on="h100:2", batch=4, context=99, pipeline=2)
    assert two.lower > 0
    with pytest.raises(InputError, match="needs keys and values of lending layers from an earlier one"):
        serve_bound(load({**HUNYUAN, "num_hidden_layers": 3}), "decode", on="h100:3", context=9, pipeline=3)


def test_of_a_table_of_inputs_only_rows_move() -> None:
    """90 rows of 6 layers' inputs, each 12 wide, are in memory; 3 tokens read 3 of them."""
    model = load({**TINY["gemma3n_text"], "torch_dtype": "bfloat16"})
    smaller = load({**TINY["gemma3n_text"], "torch_dtype": "bfloat16", "vocab_size_per_layer_input": 45})
    assert model.weight_bytes() - smaller.weight_bytes() == 2 * 45 * 6 * 12
    reads = {t.ident: t.traffic_bytes for op in decode(model, batch=3, context=9) for t in op.reads}
    assert reads["embed_tokens_per_layer"] == 2 * 3 * 6 * 12


def test_advice_counts_a_router_that_runs_twice_in_a_layer_once() -> None:
    model, sizes = load({**TINY["gemma3n_text"], "torch_dtype": "bfloat16"}), {"on": "h100", "batch": 1, "context": 64}
    ops = serve_bound(model, "decode", **sizes).ops
    read = {t.ident: t.traffic_bytes * part.op.repeat for part in ops for t in part.op.reads if t.role == "weight"}
    share = sum(read.values()) / sum(serve_bound(model, "decode", **sizes).bytes.values())
    said = {line.change: line.reason for line in advise_step(model, "decode", chips=(), **sizes)}
    assert said["int4 weights"] == f"weights are {share:.0%} of the bytes" == "weights are 95% of the bytes"
    assert said["fp8 weights, keys and values"] == "together they are 100% of the bytes"


@pytest.mark.parametrize("name", GEMMAS)
def test_over_several_chips(name: str) -> None:
    model = load(TINY[name])
    alone, two = (serve_bound(model, "decode", on="h100:2", batch=4, context=98, tensor=ways) for ways in (1, 2))
    assert sum(two.bytes.values()) < sum(alone.bytes.values())
    assert train(model, on="h100", batch_tokens=256, sequence=128).lower > 0
    for layout in ({"pipeline": 2}, {"context_parallel": 2}):
        with pytest.raises(InputError, match="not modelled"):
            serve_bound(model, "decode", on="h100:2", batch=4, context=99, **layout)


def test_no_layer_borrows_of_a_kind_that_none_lends() -> None:
    with pytest.raises(InputError, match="num_kv_shared_layers of toy is 5, and its other layers leave no keys of ev"):
        load({**TINY["gemma3n_text"], "num_kv_shared_layers": 5}, name="toy")
