"""Every shipped model over several chips, each way: no work, weight or cached token is lost, and copies are known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from roofline.errors import InputError, SizeError
from roofline.hardware import chip
from roofline.hardware.rate import rate
from roofline.models import decode, load, names, prefill, serve_bound
from roofline.models.blocks.encoder import encoder_of
from roofline.models.blocks.latent_attention import CompressedAttention, LatentAttention
from roofline.models.blocks.recurrent import GatedDeltaNet, Mamba2
from roofline.models.description import Model
from roofline.models.parallelism.block_splitting import has_experts
from roofline.models.parallelism.splitting import local_model
from roofline.work import Key, Op
from tests.models.tiny import TINY
from tests.strategies import some

#: Matrices that every chip of a tensor-parallel group holds and runs whole, by the end of their place.
COPIED = (
    "q_a_proj", "kv_a_proj_with_mqa", "kv_proj", "wq_a", "wkv", ".gate", ".router", "indexer.", "compressor.",
    "fc1_latent_proj", "fc2_latent_proj", "_gate", ".fn", "hc_fn", "hc_head", "block_sparse_moe.gate", "pooler",
)  # fmt: skip
DECODERS = [model for model in map(load, names()) if encoder_of(model) is None]
SHIPPED = sorted({(m.family, m.parameters, m.dtype, str(m.quantisation)): m.name for m in DECODERS}.values())


def matrices(ops: Sequence[Op]) -> dict[str, float]:
    """FLOPs on the matrix unit by place."""
    found: dict[str, float] = {}
    for op in ops:
        flops = op.work.total("flops", "matrix") * op.repeat
        if flops and op.kind != "collective":
            found[op.where] = found.get(op.where, 0) + float(flops)
    return found


def blocks(model: Model, kinds: Any) -> bool:
    return any(isinstance(block, kinds) for layer in model.layers for block in layer.blocks)


def steps(model: Model) -> list[tuple[Any, dict[str, int]]]:
    past = {"past": 32} if model.causal else {}
    found: list[tuple[Any, dict[str, int]]] = [(prefill, {"batch": 4, "prompt": 64, **past})]
    return found + ([(decode, {"batch": 4, "context": 96})] if model.causal else [])


@pytest.mark.parametrize("name", some(SHIPPED, 3))
def test_tensor(name: str) -> None:
    """Each matrix is halved, or is one of those that every chip runs; weights and cache likewise."""
    model = local_model(load(name), chip("h200"))[0]
    local, _ = local_model(model, chip("h200:2"), tensor=2)
    for build, sizes in steps(model):
        whole, part = (matrices(build(each, **sizes)) for each in (model, local))
        assert set(whole) == set(part)
        for where, flops in whole.items():
            if part[where] != pytest.approx(flops / 2, rel=1e-3):
                assert part[where] == pytest.approx(flops), where
                assert any(mark in where for mark in COPIED), where
    assert model.weight_bytes() / 2 <= local.weight_bytes() * (1 + 1e-9)
    modules, halves = model.parameters_by_module(), local.parameters_by_module()
    norms = sum(n for where, n in modules.items() if halves[where] == n)
    odd = sum(abs(halves[where] * 2 - n) for where, n in modules.items() if halves[where] != n)
    assert sum(halves.values()) * 2 == sum(modules.values()) + norms + odd
    assert odd <= 2 * model.width * 2 + 4096 * len(model.layers)
    shared_cache = blocks(model, (LatentAttention, CompressedAttention)) or any(
        getattr(block, "indexer", None) for layer in model.layers for block in layer.blocks
    )
    ratio = local.cache_bytes(97) * 2 / max(model.cache_bytes(97), 1)
    assert ratio == pytest.approx(1) or (shared_cache and 1 < ratio <= 2) or not model.causal


@pytest.mark.parametrize("name", some(SHIPPED, 3))
def test_copies(name: str) -> None:
    """Two copies with half of the batch each do what one does with all of it; each holds all weights."""
    model = local_model(load(name), chip("h200"))[0]
    local, _ = local_model(model, chip("h200:2"))
    assert local.parameters == model.parameters
    for build, sizes in steps(model):
        half = {**sizes, "batch": sizes["batch"] // 2}
        assert matrices(build(local, **sizes)) == matrices(build(model, **half))
        if not has_experts(model):
            assert sum(matrices(build(local, **sizes)).values()) * 2 == pytest.approx(
                sum(matrices(build(model, **sizes)).values())
            )
    assert local.cache_bytes(50, batch=4) * 2 == model.cache_bytes(50, batch=4)


@pytest.mark.parametrize("name", some([name for name in SHIPPED if has_experts(load(name))], 4))
@pytest.mark.parametrize(("tensor", "shared"), [(1, "replicated"), (2, "replicated"), (2, "split")])
def test_experts_of_copies(name: str, tensor: int, shared: str) -> None:
    """Four chips share the experts of two or four copies: they do one model's routed work and hold one set of them."""
    model = local_model(load(name), chip("h200"))[0]
    local, _ = local_model(model, chip("h200:4"), tensor=tensor, expert=4, shared=shared)
    mark = "experts"

    def routed(found: dict[str, float]) -> float:
        return sum(n for where, n in found.items() if mark in where and "shared" not in where and "latent" not in where)

    for build, sizes in steps(model):
        ops = [build(each, **sizes) for each in (model, local)]
        whole, part = map(matrices, ops)
        assert routed(part) * 4 == pytest.approx(routed(whole))
        sent = [op for op in ops[1] if op.options.get("collective") == "AllToAll"]
        assert len(sent) == 2 * len({op.where.split(".mlp")[0] for op in sent if "dispatch" in op.where})
        kept = [
            sum(float(t.traffic_bytes) * op.repeat for op in each for t in op.reads if t.role == "weight"
                and mark in op.where and "shared" not in op.where)
            for each in ops
        ]  # fmt: skip
        assert kept[1] * 4 == pytest.approx(kept[0], rel=2e-3)
    held = [
        sum(n for where, n in each.parameters_by_module().items() if ".experts." in where and "bias" not in where)
        for each in (model, local)
    ]
    assert held[1] * 4 == held[0]
    assert local.cache_bytes(50, batch=4) * (4 // tensor) <= model.cache_bytes(50, batch=4)


@pytest.mark.parametrize("name", some(SHIPPED, 3))
def test_shared_sequences(name: str) -> None:
    """Prefill is halved, but for the last token's output; in decode attention and cache alone are."""
    model = local_model(load(name), chip("h200"))[0]
    if blocks(model, (GatedDeltaNet, Mamba2)):
        with pytest.raises(InputError, match="pass a state from token to token"):
            local_model(model, chip("h200:2"), context=2)
        return
    local, _ = local_model(model, chip("h200:2"), context=2)
    for build, sizes in steps(model):
        whole, part = (matrices(build(each, **sizes)) for each in (model, local))
        for where, flops in whole.items():
            attended = "attention" in where.rpartition(".")[2] or "indexer.scores" in where
            # one chip has a sequence's last token, whose output alone is wanted
            last = not where.startswith("layers.")
            copied = last if build is prefill else not attended
            assert part[where] == pytest.approx(flops if copied else flops / 2), where
    assert local.cache_bytes(96, batch=4) * 2 == model.cache_bytes(96, batch=4)
    assert local.weight_bytes() == model.weight_bytes()


LAYOUTS: list[dict[str, Any]] = [
    {"tensor": 8}, {"tensor": 2}, {"pipeline": 4, "tensor": 2}, {"context_parallel": 2, "tensor": 4}, {"expert": 8},
    {"tensor": 2, "expert": 8, "shared_experts": "split"}, {"pipeline": 2, "balance": "time", "micro_batches": 3},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "layout"),
    some([*product(("llama-3-70b", "deepseek-v3", "gpt-oss-120b", "gemma-4-26b-a4b-nvfp4", "kimi-k2"), LAYOUTS)], 4),
    ids=str,
)
def test_never_below_physics(name: str, layout: dict[str, Any]) -> None:
    """All chips together take no less than one model's FLOPs and least bytes would at their peaks together."""
    model = local_model(load(name), chip("h200"))[0]
    for phase, sizes in (("prefill", {"batch": 6, "prompt": 500}), ("decode", {"batch": 24, "context": 700})):
        try:
            found = serve_bound(model, phase, on="h200:8", **sizes, **layout)
        except (InputError, SizeError):
            # heads or experts that do not divide, no experts, or branches: said elsewhere
            continue
        ops = (prefill if phase == "prefill" else decode)(model, **sizes)  # type: ignore[operator]
        machine = chip("h200")
        seconds = 0.0
        for op in ops:
            for key, amount in (op.work * op.repeat).items():
                figure = rate(machine, key, op)
                seconds += float(amount) / figure.value if figure and key.place == "matrix" else 0
        hbm = rate(machine, Key("bytes", "main"), ops[0])
        assert hbm is not None
        weights = sum(float(t.traffic_bytes) * op.repeat for op in ops for t in op.reads if t.role == "weight"
                      and op.kind == "contraction")  # fmt: skip
        assert found.lower >= max(seconds, weights / hbm.value) / 8 * (1 - 1e-9)
        assert found.lower <= found.op_by_op * (1 + 1e-12)
        assert found.op_by_op <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "tensor", "kv"), [("llama-3-70b", 16, 2), ("deepseek-v3", 8, 8), ("gpt-oss-120b", 32, 4)]
)
def test_keys_and_values_dealt_out(name: str, tensor: int, kv: int) -> None:
    """As many FLOPs and weights as without, 1/kv of the cache: queries are gathered and results put together."""
    model = local_model(load(name), chip("h200"))[0]
    plain, _ = local_model(model, chip(f"h200:{tensor}"), tensor=tensor)
    dealt, machine = local_model(model, chip(f"h200:{tensor}"), tensor=tensor, kv=kv)
    assert machine.mesh is not None
    assert machine.mesh.chips == tensor
    for build, sizes in steps(model):
        ops = [build(each, **sizes) for each in (plain, dealt)]
        assert matrices(ops[1]) == matrices(ops[0])
        cached = [
            sum(float(t.traffic_bytes) * op.repeat for op in each for t in op.reads if ".cache." in f"{t.ident}.")
            for each in ops
        ]
        assert cached[1] * kv == pytest.approx(cached[0])
    assert dealt.parameters == plain.parameters
    assert dealt.cache_bytes(96) * kv == plain.cache_bytes(96)
    block = next(block for block in plain.layers[-1].blocks if hasattr(block, "heads"))
    heads, key = block.heads * kv, getattr(block, "rank", 0) + getattr(block, "rotary", 0)  # type: ignore[attr-defined]
    key = key if hasattr(block, "rank") else block.key  # type: ignore[attr-defined]
    last = f"layers.{len(model.layers) - 1}"
    sent = {
        op.name: op.dims["bytes"]
        for op in decode(dealt, batch=4, context=96)
        if op.options.get("axes") == ("kv",) and (last in op.where or "-" in op.where)
    }
    assert sent["queries"] == 4 * heads * key * 2
    assert sent["sums"] == 4 * heads * 4 * kv
    # results on latents are as wide as these: a chip has kv_b's value half of its own heads alone
    assert sent["combine"] == 4 * heads * getattr(block, "rank", block.value) * 2  # type: ignore[attr-defined]


def test_inputs_of_a_short_convolution_are_whole_on_chips_that_share_keys_by_sequence() -> None:
    """Each of them runs the convolution of every new token, and keeps a part of the keys alone."""
    model = load(TINY["inkling_text"])
    once, twice = (local_model(model, chip("h200:8"), tensor=8, kv=ways)[0] for ways in (1, 2))
    assert once.state_bytes() == twice.state_bytes()
    assert once.kv_bytes_per_token() == 2 * twice.kv_bytes_per_token()


def test_no_keys_and_values_to_deal_out() -> None:
    with pytest.raises(SizeError, match=r"2 chips share no keys and values: llama-3-70b has 8 heads of them, and 8"):
        local_model(load("llama-3-70b"), chip("h200:8"), tensor=8, kv=2)
    with pytest.raises(SizeError, match=r"4 chips share no keys .* has 8 heads of them, and 4 .* kv_parallel of 1"):
        local_model(load("llama-3-70b"), chip("h200:4"), tensor=4, kv=4)
    with pytest.raises(InputError, match="3 chips that share keys and values, of 8 that split the model"):
        local_model(load("llama-3-70b"), chip("h200:8"), tensor=8, kv=3)
    with pytest.raises(InputError, match="kv_parallel and context_parallel together are not modelled"):
        local_model(load("deepseek-v3"), chip("h200:16"), tensor=8, kv=2, context=2)


@pytest.mark.parametrize("chips", [2, 4])
def test_queries_can_be_dealt_evenly(chips: int) -> None:
    """Of 2c pieces of a prompt, chip i has piece i and the one as far from the end: pairs counted one by one."""
    model, prompt = load("llama-3-8b"), 64
    piece = prompt // (2 * chips)
    held = [[*range(i * piece, (i + 1) * piece), *range(prompt - (i + 1) * piece, prompt - i * piece)]
            for i in range(chips)]  # fmt: skip
    pairs = [sum(1 for query in mine for key in range(prompt) if key <= query) for mine in held]
    assert len(set(pairs)) == 1
    local, _ = local_model(model, chip(f"h200:{chips}"), context=chips)
    attention = next(op for op in prefill(local, prompt=prompt) if op.kind == "attention")
    assert attention.work.total("flops", "matrix") == 2 * pairs[0] * 32 * (128 + 128)
