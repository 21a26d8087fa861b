"""Training: FLOPs equal to counts of forward and backward, the book's memory and days, laws of sharding, messages."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.bounds.memory import traffic
from roofline.cli import main
from roofline.errors import InputError, RooflineError
from roofline.models import budget, load, prefill
from roofline.models.training import train
from roofline.models.training.passes import CHECKPOINT_POLICIES, GradientFormat, backward, forward, policy
from roofline.models.training.stage import Formats, kept_bytes
from roofline.rendering.terminal import as_text
from roofline.sizes import symbol
from tests.models.tiny import TINY
from tests.strategies import few, for_each, some

H100: dict[str, Any] = {"on": "h100", "batch_tokens": 8192}


def matrix(ops: Any) -> Any:
    """FLOPs on the matrix unit."""
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


# ---- FLOPs


def test_forward_and_backward_as_counted() -> None:
    """What torch counts for Llama-2-7B, 2048 tokens, every pair of query and key."""
    found = train(
        "llama-2-7b", on="h100", batch_tokens=2048, sequence=2048, count="full", checkpoint="none", weights="bf16",
        unfused=True,
    )  # fmt: skip
    assert found.model_flops == found.bound.flops == 87_784_836_562_944
    assert found.mfu == pytest.approx(1)
    fused = train("llama-2-7b", on="h100", batch_tokens=2048, sequence=2048, count="full", weights="bf16")
    assert fused.bound.flops - found.bound.flops == 32 * 2 * 2048 * 2048 * 4096


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("llama", 31_850_496), ("gpt2", 63_700_992), ("mixtral", 42_909_696), ("qwen3_moe", 32_145_408),
        ("deepseek_v3", 32_256_000), ("gemma3_text", 31_850_496), ("glm4_moe", 35_684_352), ("phi", 33_030_144),
    ],
)  # fmt: skip
def test_forward_and_backward_of_small_models_as_torch_counts_them(name: str, flops: int) -> None:
    """The loss of 2 x 32 tokens and its gradients, by torch's counter over the model of transformers, eager."""
    found = train(load(TINY[name], name=name), on="h100", batch_tokens=64, sequence=32, count="full")
    assert found.model_flops == flops


def scores_again(ops: Any) -> Any:
    """FLOPs of Q·Kᵀ, once, of all attention."""
    found = [op for op in ops if op.kind == "attention" and "v_head_size" in op.dims]
    return sum(matrix([op]) * op.dims["head_size"] // (op.dims["head_size"] + op.dims["v_head_size"]) for op in found)


@for_each("name", some(sorted(TINY), 4))
def test_backward_is_twice_forward(name: str) -> None:
    model = load(TINY[name], name=name)
    ops = forward(prefill(model, batch=2, prompt=24, logits="all"))
    assert matrix(backward(ops, policy("none"), GradientFormat("bf16"))) == pytest.approx(
        2 * matrix(ops) + scores_again(ops)
    )
    ops = forward(prefill(model, batch=2, prompt=24, logits="all", unfused=True))
    assert matrix(backward(ops, policy("none"), GradientFormat("bf16"))) == 2 * matrix(ops)


@pytest.mark.parametrize("name", ["llama-2-7b", "mixtral-8x7b", "gpt-2", "deepseek-v3"])
def test_what_is_run_again(name: str) -> None:
    """Unfused, selective runs attention again and nothing else; full runs all layers again, not the head."""
    for unfused in (True, False):
        ops = forward(prefill(load(name), batch=2, prompt=512, logits="all", unfused=unfused))
        inside = [op for op in ops if op.where.startswith("layers.")]
        least = 0 if unfused else scores_again(ops)
        more = {
            p: matrix(backward(ops, policy(p), GradientFormat("bf16"))) - 2 * matrix(ops) - least
            for p in CHECKPOINT_POLICIES
        }
        core = matrix(op for op in inside if op.kind == "attention")
        selective = core if unfused else 0
        assert more == pytest.approx({"none": 0, "selective": selective, "matmuls": core, "full": matrix(inside)})


def test_modules_are_run_again() -> None:
    """DeepSeek-V3 ran norms and up-projections again (arXiv:2412.19437, section 3.2.3)."""
    ops = forward(prefill(load("deepseek-v3"), batch=2, prompt=512, logits="all"))
    chosen = policy("layernorm,mla_up_proj")
    again = [op for op in backward(ops, chosen, GradientFormat("bf16")) if op.phase == "recompute"]
    names = {op.where.removesuffix(" again").rpartition(".")[2] for op in again}
    assert names == {
        "input_layernorm", "post_attention_layernorm", "q_a_layernorm", "kv_a_layernorm", "q_b_proj", "kv_b_proj",
    }  # fmt: skip
    sizes: dict[str, Any] = {"on": "h100:8", "batch_tokens": 2**15, "tensor": 8}
    plain, some = (train("llama-3-8b", **sizes, checkpoint=name) for name in ("none", "mlp_act"))
    kept = [each.memory.parts["activations"] for each in (plain, some)]
    # the product of gate and up of each token, split over 8 chips, is made again
    assert kept[0] - kept[1] == 32 * 2**15 * 14336 // 8 * 2
    assert some.flops == plain.flops
    assert policy("mlp,self_attn").modules == ("mlp", "self_attn")
    with pytest.raises(InputError, match="no module of a layer is called 'mlpp'; did you mean 'mlp'"):
        train("llama-3-8b", **sizes, checkpoint="mlpp,self_attn")


@pytest.mark.parametrize(
    ("kind", "shared"),
    [("deepseek_v3", "shared_experts"), ("qwen2_moe", "shared_expert"), ("granitemoeshared", "shared_mlp")],
)
def test_a_module_of_experts_has_those_of_every_token(kind: str, shared: str) -> None:
    """Whatever a model calls them: naming them too runs nothing more again."""
    asked: dict[str, Any] = {"on": "h100", "batch_tokens": 4096, "sequence": 512}
    alone, both, less = (
        train(TINY[kind], **asked, checkpoint=modules) for modules in ("moe", f"moe,{shared}", "moe_act")
    )
    assert alone.memory.parts == both.memory.parts
    assert alone.lower == both.lower
    assert alone.memory.total < less.memory.total


@pytest.mark.parametrize(("kind", "inside"), [("nemotron_h", "fc1_latent_proj"), ("qwen3_next", "choice")])
def test_a_module_of_experts_is_all_of_their_block_and_nothing_else(kind: str, inside: str) -> None:
    """Routers, latents and sums too; gates of attention are none of theirs."""
    ops = prefill(load(TINY[kind]), batch=1, prompt=8)
    again = {op.where for op in ops if policy("moe").again(op)}
    assert any(where.endswith(inside) for where in again)
    assert not any("attn" in where for where in again)


def test_activations_wait_in_a_narrower_format() -> None:
    sizes: dict[str, Any] = {"on": "h100:8", "batch_tokens": 2**16, "tensor": 8}
    wide, narrow, wider = (train("llama-3-8b", **sizes, saved_activations=dtype) for dtype in (None, "fp8", "fp32"))
    halved = wide.memory.parts["activations"] - narrow.memory.parts["activations"]
    assert 0.4 * wide.memory.parts["activations"] < halved < 0.5 * wide.memory.parts["activations"]
    assert wider.memory.parts == wide.memory.parts
    assert narrow.lower == wide.lower


def test_published_runs_fit_as_they_ran() -> None:
    """Llama 3 405B without recomputation in 80 GB (arXiv:2407.21783, section 3.3.2), DeepSeek-V3 with an fp8 cache."""
    llama = train(
        "llama-3-405b", on="h100:8192", batch_tokens=2**24, sequence=8192, tensor=8, pipeline=16, zero=1,
        checkpoint="none",
    )  # fmt: skip
    assert llama.memory.fits
    sizes: dict[str, Any] = {"on": "h800:2048", "batch_tokens": 15360 * 4096, "pipeline": 16, "expert": 64, "zero": 1}
    formats = {"weights": "fp8", "gradients": "bf16", "moments": "bf16", "schedule": "zb-h1"}
    modules = "layernorm,mla_up_proj,moe_act"
    deepseek = train("deepseek-v3", **sizes, **formats, checkpoint=modules, saved_activations="fp8")
    assert deepseek.memory.fits


def test_every_weight_gets_a_gradient_of_its_size() -> None:
    ops = forward(prefill(load("llama-2-7b"), prompt=64, logits="all"))
    found = {
        t.ident.removesuffix(" gradient"): t.elements
        for op in backward(ops, policy("full"), GradientFormat("fp32"))
        for t in op.writes
        if t.role == "gradient"
    }
    assert found == {t.ident: t.elements for op in ops for t in op.reads if t.role == "weight"}


@given(
    tensor=st.sampled_from([1, 2, 4, 8]), data=st.sampled_from([1, 2]), sequences=st.integers(1, 6), sp=st.booleans()
)
@few(20)
def test_flops_are_conserved_over_chips(tensor: int, data: int, sequences: int, sp: bool) -> None:
    split = {"tensor": tensor, "sequence_parallel": sp} if tensor > 1 else {}
    found = train(
        "llama-2-7b", on="h100:16", batch_tokens=sequences * 4096, data=data, checkpoint="none", **split
    )  # fmt: skip
    scores = 32 * sequences * 2 * 4096 * (4096 * 4097 // 2)
    assert found.bound.flops * 16 == pytest.approx(found.model_flops + scores, rel=1e-12)
    assert found.bound.lower >= found.model_flops / 16 / found.peak * (1 - 1e-12)
    assert found.bound.lower <= found.bound.op_by_op * (1 + 1e-12) <= found.bound.upper * (1 + 1e-9)


# ---- memory


def test_sixteen_bytes_a_parameter() -> None:
    assert sum(Formats().states(1).values()) == 16
    assert Formats().states(64, shards=8, zero=1) == {"weights": 128, "gradients": 128, "optimizer": 96}
    assert Formats().states(64, shards=8, zero=2) == {"weights": 128, "gradients": 16, "optimizer": 96}
    assert Formats().states(64, shards=8, zero=3) == {"weights": 16, "gradients": 16, "optimizer": 96}


def test_activations_of_a_plain_layer() -> None:
    """Korthikanti et al.: 34·s·b·h, less 2 for the dropout masks ours has none of, and 2·a·s²·b of probabilities.

    Fused attention keeps none of these, and a sum in fp32 for each query and head.
    """
    s, b, h, a = 512, 2, 1024, 16
    config = {"model_type": "gpt2", "n_embd": h, "n_head": a, "n_positions": s, "vocab_size": 64}
    found = {}
    for layers in (1, 2):
        model = load({**config, "n_layer": layers}, name="plain")
        for name in ("none", "selective", "full"):
            for unfused in (True, False):
                answer = train(
                    model, on="h100", batch_tokens=s * b, sequence=s, checkpoint=name, weights="bf16", unfused=unfused
                )
                found[name, layers, unfused] = answer.memory.parts["activations"]
    grown = {
        (name, unfused): found[name, 2, unfused] - found[name, 1, unfused]
        for name in ("none", "selective", "full") for unfused in (True, False)
    }  # fmt: skip
    plain = 32 * s * b * h
    assert grown == {
        ("full", True): 2 * s * b * h, ("selective", True): plain, ("none", True): plain + 2 * a * s * s * b,
        ("full", False): 2 * s * b * h, ("selective", False): plain + 4 * a * s * b,
        ("none", False): plain + 4 * a * s * b,
    }  # fmt: skip


def test_activations_of_products_that_are_used_in_parts() -> None:
    """Mamba-2 makes gates, channels and step widths by one matrix, Qwen3-Next queries and gates: all of it waits."""
    mamba = {"model_type": "mamba2", "num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 8}
    gated = {
        "model_type": "qwen3_next", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 96, "num_experts": 0, "full_attention_interval": 1,
    }  # fmt: skip
    inner, channels = 8 * 16, 8 * 16 + 2 * 2 * 8
    values = {"mamba2": 2 * 64 + (inner + channels + 8) + channels + 3 * inner}
    # the last are sums of attention in fp32, one for each head
    values["qwen3_next"] = 4 * 64 + (2 * 64 + 32) + (64 + 2 * 32) + 3 * 64 + 3 * 96 + 2 * 4
    for config in (mamba, gated):
        waits = [0.0, 0.0]
        for layers in (1, 2):
            model = load({**config, "hidden_size": 64, "vocab_size": 96, "num_hidden_layers": layers})
            waits[layers - 1] = train(model, on="h100", batch_tokens=64, sequence=64).memory.parts["activations"]
        assert waits[1] - waits[0] == 64 * 2 * values[config["model_type"]]


def test_policies_trade_memory_for_flops() -> None:
    found = [train("llama-3-8b", on="h100", batch_tokens=16384, checkpoint=name) for name in CHECKPOINT_POLICIES]
    sizes = [each.memory.parts["activations"] for each in found]
    assert sizes == sorted(sizes, reverse=True)
    flops = [each.bound.flops for each in found]
    assert flops == sorted(flops)


def test_the_least_chips_keep_copies_and_splits() -> None:
    sizes: dict[str, Any] = {"batch_tokens": 4096 * 1024, "data": 2, "tensor": 8, "checkpoint": "full"}
    least = train("llama-3-70b", on="h100:64", **sizes).least_chips
    assert least is not None
    assert least % 16 == 0
    assert train("llama-3-70b", on="h100", fsdp=least // 16, **sizes).memory.fits
    assert not train("llama-3-70b", on="h100", fsdp=least // 16 - 1, **sizes).memory.fits


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_the_least_chips_are_the_least(zero: int) -> None:
    sizes: dict[str, Any] = {"batch_tokens": 4096 * 1024, "zero": zero, "checkpoint": "full"}
    least = train("llama-2-7b", on="h100:64", **sizes).least_chips
    assert least is not None
    assert train("llama-2-7b", on="h100", fsdp=least, **sizes).memory.fits
    assert least % 8 == 0  # whole nodes
    assert not train("llama-2-7b", on="h100", fsdp=least - 8, **sizes).memory.fits


@pytest.mark.parametrize(("schedule", "fsdp"), [("1f1b", 4), ("gpipe", 2), ("zb-h1", 8)])
def test_the_least_chips_of_a_pipeline_have_fewer_microbatches_in_flight(schedule: str, fsdp: int) -> None:
    """Of 16 sequences 16 copies have one each: a stage keeps one, however many are in flight on fewer copies."""
    sizes: dict[str, Any] = {"batch_tokens": 65536, "pipeline": 2, "schedule": schedule}
    found = train("llama-3-70b", on=f"h100:{2 * fsdp}", **sizes)
    assert (found.memory.fits, found.least_chips) == (False, 32)
    assert train("llama-3-70b", on="h100:32", **sizes).memory.fits
    assert not train("llama-3-70b", on="h100:16", **sizes).memory.fits


# ---- collectives


def test_bytes_sent_by_stage() -> None:
    """One way round a ring of n, ZeRO 3 sends 3·(n − 1)/n of the layers' weights, 1 and 2 send 2, as plain copies do.

    A lookup's backward pass reads no table, and the head's follows its forward pass at once: both are gathered once.
    """
    sent = {}
    for zero in (0, 1, 2, 3):
        found = train("llama-2-7b", on="h100:8", batch_tokens=65536, zero=zero)
        sent[zero] = sum(found.bound.wire.values()) / (2 * found.model.parameters * 7 / 8)
    copies = train("llama-2-7b", on="h100:8", batch_tokens=65536, data=8)
    third = 3 - (2 * 32000 * 4096 + 4096) / copies.model.parameters
    # where the switches add up, an AllReduce sends each byte once
    assert sent == {0: pytest.approx(8 / 7), 1: pytest.approx(2), 2: pytest.approx(2), 3: pytest.approx(third)}
    assert sum(copies.bound.wire.values()) == pytest.approx(2 * copies.model.parameters)
    plain = train("llama-2-7b", on="a100:8", batch_tokens=65536, data=8)
    assert sum(plain.bound.wire.values()) == pytest.approx(2 * 2 * copies.model.parameters * 7 / 8)


def test_tensor_parallel_collectives_of_a_layer() -> None:
    """Megatron-LM: forward 2 AllReduces of the hidden state a layer and as many backward, in either form."""
    sizes: dict[str, Any] = {"on": "a100:8", "batch_tokens": 8192, "tensor": 8, "checkpoint": "none"}
    plain = train("llama-2-7b", sequence_parallel=False, **sizes)
    split = train("llama-2-7b", **sizes)
    hidden = 8192 * 4096 * 2 * 7 / 8
    # 32 layers of 2 blocks, and the embedding's own; forward and backward, two passes each
    assert sum(plain.bound.wire.values()) == pytest.approx((32 * 2 + 1) * 2 * 2 * hidden)
    # what is gathered is gathered once more in the backward pass, and so is the head's input, there and back; chips
    # add up the gradients of norms, which each runs on its own tokens
    norms = (32 * 2 + 1) * 4096 * 2 * 2 * 7 / 8
    assert sum(split.bound.wire.values()) == pytest.approx(((32 * 2) * 5 + 2 + 2) * hidden + norms, rel=1e-12)
    assert split.memory.parts["activations"] < plain.memory.parts["activations"]


# ---- the book's counts, of the operations of a step


def test_what_runs_again_beside_the_matmuls_is_attention() -> None:
    """4·B·T²·N·H FLOPs on the matrix unit, every pair of query and key."""
    ops = forward(prefill(load("llama-2-7b"), batch=2, prompt=256, logits="all", count="full"))
    again = [op for op in backward(ops, policy("matmuls"), GradientFormat("bf16")) if op.where.endswith("again")]
    assert matrix(again) == 32 * 4 * 2 * 256**2 * 4096


@pytest.mark.parametrize(("checkpoint", "flops"), [("none", 6), ("full", 8)])
def test_flops_of_each_weight_and_token(checkpoint: str, flops: int) -> None:
    """Of the layers' matrices, attention's core left out."""
    model = load("llama-2-7b")
    ops = forward(prefill(model, prompt=128, logits="all"))
    step = [*ops, *backward(ops, policy(checkpoint), GradientFormat("bf16"))]
    inside = [op for op in step if op.where.startswith("layers.") and op.kind == "contraction"]
    weights = sum(count for name, count in model.parameters_by_module().items() if name.endswith("proj"))
    assert matrix(inside) == flops * weights * 128


def test_the_stated_utilisation_through_the_answer() -> None:
    """The book's 44 days at 40%, with the exact FLOPs in place of 6·70e9, of a batch with a sequence for each chip."""
    found = train(
        "llama-3-70b", on="v5p:16x20x28", batch_tokens=2**26, mfu=0.4, tokens=15e12, checkpoint="full", price=2
    )
    assert found.chips == 8960
    short = budget(70e9, tokens=15e12, on="v5p:16x20x28", mfu=0.4)
    assert found.days == pytest.approx(short.days * found.model_flops / found.batch_tokens / (6 * 70e9), rel=1e-9)
    assert found.mfu == pytest.approx(0.4)
    assert found.cost == pytest.approx(found.days * 24 * 8960 * 2)


def test_training_that_does_not_fit_has_no_cost_and_one_that_ran_has() -> None:
    asked: dict[str, Any] = {"batch_tokens": 2**20, "tokens": 15e12, "price": 2}
    found = train("llama-3-70b", on="h100:8", **asked)
    assert (found.memory.fits, found.cost, found.energy) == (False, None, None)
    assert "take 9,559 days if it fitted: what does not fit has no cost" in as_text(found.sections(), 200)
    assert {fact.value for fact in found.facts() if fact.name == "cost"} == {"none: does not fit"}
    ran = train("llama-3-70b", on="h100:8", measured=100, **asked)
    assert ran.cost == pytest.approx(ran.days * 24 * 8 * 2)
    several = train("llama-3-70b", on="h100:64", **{**asked, "batch_tokens": [2**19, 2**23]}, microbatches=1)
    assert (np.isnan(several.cost) == ~several.memory.fits).all()
    assert not several.memory.fits.all()


# ---- arrays and symbols


def test_number_equals_array_equals_symbol() -> None:
    many = train("llama-3-8b", on="h100:8", batch_tokens=np.array([32768, 65536]), checkpoint="full")
    for index, tokens in enumerate((32768, 65536)):
        one = train("llama-3-8b", on="h100:8", batch_tokens=tokens, checkpoint="full")
        assert many.bound.lower[index] == pytest.approx(one.bound.lower, rel=1e-12)
        assert many.memory.total[index] == pytest.approx(one.memory.total, rel=1e-9)
    letter = symbol("T")
    closed = train("llama-3-8b", on="h100:8", batch_tokens=letter, checkpoint="full", tensor=8)
    plain = train("llama-3-8b", on="h100:8", batch_tokens=8192, checkpoint="full", tensor=8)
    assert int(closed.bound.flops.subs(letter, 8192)) == plain.bound.flops
    assert float(closed.bound.lower.subs(letter, 8192)) == pytest.approx(plain.bound.lower, rel=1e-12)
    assert float(closed.memory.total.subs(letter, 8192)) == pytest.approx(plain.memory.total, rel=1e-12)


# ---- the command


def test_the_issue_s_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = "train llama-3-70b --on v5p:16x16x16 --batch-tokens 4e6 --fsdp 512 --tensor 8 --checkpoint full"
    assert main([*words.split(), "--tokens", "15e12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "roofline/train/1"
    assert found["chips"] == 4096
    assert found["memory"]["fits"]
    assert found["days"] == pytest.approx(57.11, abs=0.01)
    assert main([*words.split(), "--tokens", "15e12", "--price", "4.2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for piece in (
        "network-bound (ici Z)",
        "15T tokens take 57.11 days",
        "sequence parallelism",
        "fit on 16 such chips",
    ):
        assert piece in text


MESSAGES = [
    *(
        (["llama-2-7b", "--on", "h100", "--batch-tokens", odd], f"--batch-tokens '{odd}' is not a number of tokens")
        for odd in ("x", "nan", "inf", "1e400", "0", "0.5", "4,000,000")
    ),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--checkpoint", "²"], "no checkpointing policy '²'"),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--checkpoint", "9" * 400], "no checkpointing policy '999"),
    (
        ["llama-2-7b", "--on", "h100:8", "--batch-tokens", "4096", "--tensor", "3"],
        "tensor 3 does not divide the 8 chips of h100:8",
    ),
    (
        ["llama-2-7b", "--on", "h100:8", "--batch-tokens", "4096", "--fsdp", "3"],
        "fsdp 3 does not divide the 8 chips of h100:8",
    ),
    (
        ["mixtral-8x7b", "--on", "h200:16", "--batch-tokens", "4096", "--expert", "8", "--fsdp", "2", "--data", "8"],
        "data 8 · fsdp 2 · expert 8 is 128 chips, and h200:16 has 16; their product is the chips: data 1",
    ),
    (
        ["mixtral-8x7b", "--on", "h200:16", "--batch-tokens", "4096", "--expert", "4", "--tensor", "2", "--data", "3"],
        "data 3 · expert 4 does not divide the 16 chips of h200:16",
    ),
    (
        ["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--checkpoint", "ful"],
        "no checkpointing policy 'ful'; did",
    ),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--optimizer", "adm"], "no optimizer 'adm'; did you mean"),
    (["7e9", "--memory", "--optimizer", "muon"], "--optimizer muon is of whole matrices, whose sizes are not known"),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--zero", "4"], "no ZeRO stage 4; 0 shares nothing"),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--mfu", "40"], "mfu 40.0 is not a fraction; 0.4 is 40%"),
    (["llama-2-7b", "--on", "h100", "--batch-tokens", "8", "--policy", "tild"], "unknown byte policy 'tild'"),
    (["bert-base", "--on", "h100", "--batch-tokens", "8"], "bert-base has no output head to train"),
    (
        ["llama-2-7b", "--on", "h100:8", "--batch-tokens", "4M", "--microbatches", "2,4", "--measured", "30s"],
        "a measured time is of one step; give batch_tokens, sequence and microbatches one number each",
    ),
    (["llama-2-7b", "--batch-tokens", "4M"], "no machine to run on; name one: --on h100"),
    (["llama-2-7b", "--batch-tokens", "4M", "--search"], "no machine to run on; name one: --on h100"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words]) == 2
    assert message in capsys.readouterr().err


def test_what_never_fits_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "llama-2-70b", "--on", "h100:8", "--batch-tokens", "32768", "--zero", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.index("DOES NOT FIT: needs ") < text.index("step of 32,768 tokens")
    assert "does not fit" in text
    assert "no number of chips is enough" in text


def test_fewer_sequences_than_copies_is_a_listed_gap() -> None:
    few = train("llama-3-8b", on="h100:8", batch_tokens=16384)
    assert few.bound.incomplete[0].startswith("0.5 sequences for each copy of the model: to split one over chips")
    assert not train("llama-3-8b", on="h100:8", batch_tokens=32768).bound.incomplete


def test_an_unknown_split_is_an_error() -> None:
    with pytest.raises(RooflineError, match="what 'none' keeps depends on the layers"):
        kept_bytes(8, 8, 8, checkpoint="none")


def test_weights_gathered_for_every_microbatch_are_said_where_nobody_asked_for_it() -> None:
    asked: dict[str, Any] = {"on": "h100:64", "batch_tokens": 2**20, "tensor": 8, "pipeline": 2}
    said = "4 chips share the weights (zero=3, the default) and gather them for every microbatch"
    for parts in some((16, [8, 16]), 2, 1):  # over a table of them too
        assert said in as_text(train("llama-3-70b", **asked, microbatches=parts).sections(), 200)
    for other in ({"zero": 1}, {"pipeline": 1}):  # of a table alone, which has no advice to work out
        table = train("llama-3-70b", **{**asked, **other}, microbatches=[8, 16])
        assert "for every microbatch" not in as_text(table.sections(), 200)


def test_a_step_that_nobody_divided_is_taken_in_the_fewest_parts_that_fit() -> None:
    asked: dict[str, Any] = {"on": "h100:64", "batch_tokens": 4_000_000, "sequence": 8192}
    found = roofline.train("llama-3-8b", **asked)
    each = {parts: train("llama-3-8b", microbatches=parts, **asked) for parts in (1, 2, 4)}
    assert {parts: one.fits for parts, one in each.items()} == {1: False, 2: False, 4: True}
    assert (found.microbatches, found.lower, found.memory.total) == (4, each[4].lower, each[4].memory.total)
    assert "4 microbatches, as none were given: the first of 2, 4, 8 … whose step fits" in found.bound.assumptions
    expected = roofline.train("llama-3-8b", estimate=True, **asked)
    assert expected.expectation is not None
    assert roofline.train("llama-3-8b", **asked, microbatches=1).microbatches == 1
    assert roofline.train("llama-3-8b", **asked, measured=5.0).microbatches == 4
    assert roofline.train("llama-3-405b", on="h100:8", batch_tokens=2_000_000).microbatches == 1  # none fits


def test_the_microbatches_that_fit_are_the_fewest_of_all() -> None:
    for sequence, zero in ((512, 1), (2048, 3), (4096, 3)):
        asked = {"on": "h100:8", "batch_tokens": 2**21, "sequence": sequence, "zero": zero, "checkpoint": "none"}
        every = [2**power for power in range(1, 12) if 2**power * 8 * sequence <= 2**21]
        fewest = next(n for n in every if train("llama-3-8b", **asked, microbatches=n).memory.fits)
        assert roofline.train("llama-3-8b", **asked).microbatches == fewest


def test_each_step_of_a_list_takes_the_microbatches_that_it_takes_alone() -> None:
    asked: dict[str, Any] = {"on": "v5p:4x4x4", "fsdp": 8, "tensor": 8}
    sizes = [2**17, 2**19, 3 * 2**18, 2**20, 2**21]
    found = roofline.train("llama-3-70b", batch_tokens=sizes, **asked)
    alone = [roofline.train("llama-3-70b", batch_tokens=size, **asked) for size in sizes]
    assert found.microbatches.tolist() == [one.microbatches for one in alone]
    assert [one.question.fits for one in alone] == [one.memory.fits for one in alone]
    assert len(set(found.microbatches.tolist())) > 2
    assert found.memory.total.tolist() == [one.memory.total for one in alone]
    assert found.lower.tolist() == pytest.approx([one.lower for one in alone])
    none = roofline.train("llama-3-405b", on="h100:8", batch_tokens=[1_000_000, 2_000_000])
    assert none.microbatches == 1
    assert not none.fits.any()
    assert roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536).microbatches == 1


@pytest.mark.parametrize(("master", "each"), [("fp32", 12 + 2 + 12 + 2), ("none", 8 + 2 + 2 + 8 + 2)])
def test_an_optimizer_reads_the_gradients_that_a_floor_does_not_move_again(master: str, each: int) -> None:
    """Moments in fp32, and a copy in fp32 or the weights; the gradients and the new weights in bf16."""
    asked: dict[str, Any] = {**H100, "weights": "bf16", "gradients": "bf16", "master": master}
    found = train(load(TINY["llama"], name="llama"), **asked)
    [update] = [each.op for each in found.bound.ops if each.op.where == "optimizer"]
    moved = {policy: traffic([update], policy)[0].total("bytes") for policy in ("each-op", "fused", "minimal")}
    floor = each - 2 - (2 if master == "none" else 0)
    assert moved == {
        policy: found.model.parameters * size for policy, size in zip(moved, (each, each, floor), strict=True)
    }


@pytest.mark.parametrize(("name", "ways"), [("llama", {"fsdp": 4}), ("mixtral", {"expert": 2}), ("gpt2", {"fsdp": 4})])
def test_matrices_are_made_orthogonal_once_by_all_chips_that_share_states(name: str, ways: dict[str, int]) -> None:
    """FLOPs by the shape of each matrix; one moment of it, two of the rest, of adafactor a row and a column."""
    model, flops, inside, rows = load(TINY[name], name=name), 0, 0, 0
    for held in model.layer_weights():
        if held.weight.kind in ("linear", "expert"):
            *several, m, n = held.weight.shape
            many = len(held.layers) * int(np.prod(several))
            flops += many * (3 * min(m, n) ** 2 * max(m, n) + 17 * min(m, n) ** 3)
            inside, rows = inside + many * m * n, rows + many * (m + n)

    def update(optimizer: str, chips: int, **more: int) -> tuple[Any, float]:
        asked = {"on": f"h100:{chips}", "batch_tokens": 1024, "sequence": 32, "optimizer": optimizer, **more}
        found = train(model, master="none", **asked)
        return found, matrix(each.op for each in found.bound.ops if each.op.where == "optimizer") * chips

    alone, whole = update("muon", 1)
    assert whole == flops
    assert alone.memory.parts["optimizer"] == 4 * (2 * model.parameters - inside)
    assert update("muon", 4, tensor=2)[1] == pytest.approx(flops)
    assert update("muon", 4, **ways)[1] == pytest.approx(flops)
    assert update("muon", 4, fsdp=4, zero=0)[1] == 4 * flops
    tables = [(model.vocabulary, model.width)] * (1 if model.tied else 2)
    tables += [(model.context, model.width)] if name == "gpt2" else []
    numbers = model.parameters - inside + rows + sum(m + n - m * n for m, n in tables)
    assert update("adafactor", 1)[0].memory.parts["optimizer"] == 4 * numbers


def test_a_table_takes_several_numbers_of_microbatches(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "h100:8", "--phase", "train", "--batch-tokens", "65536", "--microbatches", "1,2"]
    assert main(["sweep", "llama-3-8b", *words, "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert columns["microbatches"] == [1, 2]
    alone = [train("llama-3-8b", on="h100:8", batch_tokens=65536, microbatches=parts) for parts in (1, 2)]
    assert columns["upper"] == pytest.approx([one.upper for one in alone])
    assert main(["sweep", "llama-3-8b", *words]) == 0
    assert "microbatches 1 at microbatches 1" not in capsys.readouterr().out
    assert main(["sweep", "llama-3-8b", *words[:-1], "x"]) == 2
    assert "--microbatches 'x' is not a number of parts; a number, or a list 1,2,4,8" in capsys.readouterr().err
    assert main(["formula", "llama-3-8b", *words]) == 2
    assert "--microbatches has several values" in capsys.readouterr().err


def test_a_table_says_which_steps_have_less_than_a_sequence_in_a_microbatch(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"on": "h100:64", "tensor": 8, "batch_tokens": 2_000_000, "sequence": 8192}
    table = roofline.sweep("llama-3-8b", "train", microbatches=[1, 8, 64], **asked)
    alone = [train("llama-3-8b", microbatches=parts, **asked) for parts in (1, 8, 64)]
    assert table.plain("fits") == [one.fits for one in alone] == [False, True, False]
    assert sum(one.sequences < 1 for one in alone) == 1
    said = dict(table.remarks())
    assert said["fastest"] == "microbatches 8"  # not 64, which does not run
    wanted = "1 of 3 rows: less than a sequence in a microbatch, and a chip takes whole ones"
    assert said["does not run"] == wanted
    assert f"does not run  {wanted}" in str(table)
    assert "does not run" not in dict(roofline.sweep("llama-3-8b", "train", microbatches=[1, 8], **asked).remarks())


@pytest.mark.parametrize("parts", some([None, 16], 2, 1))
def test_tokens_that_give_each_chip_whole_sequences_are_among_the_ways_out(parts: int | None) -> None:
    asked = {"on": "h100:64", "batch_tokens": 4_000_000}  # 15.26 sequences a chip: 16 microbatches are less than one
    found = roofline.train("qwen3-32b", microbatches=parts, **asked)
    assert found.fits is False
    (line,) = [line for line in found.advise() if set(line.arguments) == {"batch_tokens", "microbatches"}]
    assert line.arguments == {"batch_tokens": 16 * 64 * 4096, "microbatches": 16}
    alone = roofline.train("qwen3-32b", **{**asked, **line.arguments})
    assert alone.fits is True
    assert line.after.lower == alone.lower
    said = f"4,194,304 tokens a step in 16 microbatches, in {alone.lower:.1f} s a step"
    # where the same tokens take no longer in another layout, that is named
    free = [each for each in found.advise() if each.fits and not {"batch_tokens", "on"} & set(each.arguments)]
    assert (said in " ".join(str(found).split())) is (line.gain > 1.005 * free[0].gain)


def test_advice_stands_over_the_operations() -> None:
    said = as_text(train("llama-3-8b", on="h100:8", batch_tokens=65536).sections())
    places = [
        said.index(words) for words in ("step of 65,536", "memory of a chip", "\n  faster  ", "operation  ", "assumes")
    ]
    assert places == sorted(places)


def test_no_second_copy_is_said_by_a_word_as_in_a_command():
    asked = {"on": "h100:8", "batch_tokens": 65536, "moments": "bf16"}
    found = [roofline.train("llama-3-8b", master=master, **asked) for master in ("none", None)]
    assert found[0].memory.parts == found[1].memory.parts
    assert found[0].bound.assumptions == found[1].bound.assumptions
    assert found[0].memory.parts["optimizer"] == pytest.approx(4 * 8030261248 / 8)
    in_all = {"on": "h100", "memory": True, "gradients": "none", "master": "none"}
    assert roofline.train(70e9, **in_all).bytes_per_parameter == 10
    with pytest.raises(InputError, match="a step is of a model's layers, and 7B parameters have none; name a model"):
        roofline.train(7e9, on="h100", batch_tokens=4096)


def test_weights_in_the_format_of_their_second_copy_have_none() -> None:
    """GPT-2 is stored in fp32: weights, gradients and two moments of 4 bytes each, as PyTorch trains in fp32."""
    found = train("gpt2", on="h100", batch_tokens=8192)
    assert sum(found.memory.parts[part] for part in ("weights", "gradients", "optimizer")) == 16 * 124_439_808
    assert "adam; weights fp32, gradients fp32, moments fp32" in found.bound.assumptions
    assert roofline.train(1e9, on="h100", memory=True, weights="fp32", gradients="fp32").bytes_per_parameter == 16
    assert roofline.train(1e9, on="h100", memory=True, master="bf16").bytes_per_parameter == 12


def test_several_steps_are_asked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--batch-tokens", "1Mi,4Mi", "--sequence", "4Ki,8Ki", "--json"]
    assert main([*words, "--on", "h100:64"]) == 0
    found = json.loads(capsys.readouterr().out)
    pairs = list(zip(found["batch_tokens"], found["sequence"], strict=True))
    assert pairs == [(2**20, 4096), (2**20, 8192), (2**22, 4096), (2**22, 8192)]
    for at, (tokens, sequence) in enumerate(pairs):
        alone = train("llama-3-8b", on="h100:64", batch_tokens=tokens, sequence=sequence)
        assert found["step"]["lower"][at] == pytest.approx(alone.lower, rel=1e-12)
    assert main([*words, "--on", "h100:64,h200:64"]) == 0
    beside = json.loads(capsys.readouterr().out)
    assert list(zip(*beside["sizes"].values(), strict=True)) == pairs


@pytest.mark.parametrize("tokens", [[1e12, 2e12], "1T,2T"])
@pytest.mark.parametrize("step", [{}, {"batch_tokens": 2**20}])
def test_several_budgets_of_tokens_are_one_clear_error(tokens: object, step: dict[str, int]) -> None:
    with pytest.raises(InputError, match="tokens= has several values; give one: days, cost and energy grow with them"):
        roofline.train("llama-3-8b", on="h100:64", tokens=tokens, **step)


def test_the_least_chips_are_the_first_number_on_which_the_step_fits() -> None:
    """Numbers that are no whole nodes are asked one by one; of whole nodes the least is a whole one."""
    asked = {n: train("llama-3-8b", on=f"h100:{n}", batch_tokens=10**6, fsdp=n, microbatches=8) for n in range(9, 17)}
    first = next(n for n, found in asked.items() if found.memory.fits)
    assert first == 11
    assert {n: found.least_chips for n, found in asked.items()} == {n: 16 if n == 16 else 11 for n in asked}


def test_the_least_chips_run_as_many_microbatches_as_fit_where_none_are_given() -> None:
    """On fewer chips a step takes more microbatches: 64 chips need one, and 16 hold it in 32."""
    asked: dict[str, Any] = {"batch_tokens": 2**20, "checkpoint": "full"}
    found = {chips: roofline.train("llama-3-70b", on=f"h100:{chips}", **asked) for chips in (8, 16, 64)}
    assert {each.least_chips for each in found.values()} == {16}
    assert [each.memory.fits for each in found.values()] == [False, True, True]
    assert train("llama-3-70b", on="h100:64", **asked).least_chips == 48  # in one, as it says


def test_memory_says_in_how_many_microbatches_and_a_step_has_one_policy() -> None:
    asked = {"on": "h100:16", "batch_tokens": 10**6}
    said = " ".join(str(roofline.train("llama-3-8b", **asked)).split())
    assert "memory of a chip 48.9 GB in 8 microbatches: weights" in said
    assert "forward and backward, 1.001 times 6·parameters·tokens" in said
    assert "memory of a chip 54.3 GB in 1 microbatch:" in str(roofline.train("llama-3-8b", checkpoint="full", **asked))
    with pytest.raises(InputError, match="several, and a step has one; sweep takes several"):
        roofline.train("llama-3-8b", checkpoint="none,full", **asked)
    kept = roofline.train("llama-3-8b", checkpoint=["full", 4], **asked)
    assert kept.names == ("h100:16 checkpoint full", "h100:16 checkpoint 4")
    alone = [roofline.train("llama-3-8b", checkpoint=each, **asked).memory.total for each in ("full", 4)]
    assert [fact.value for fact in kept.facts["memory needed"]] == alone
    beside = roofline.train("llama-3-8b", on="h100:16,b200:16", batch_tokens=10**6)
    assert (beside.best("memory needed"), beside.best("vector bf16"), beside.best("vector fp32")) == ((), (), ())


def test_what_is_said_of_attention_and_of_experts_is_said_of_models_that_have_them() -> None:
    mamba = load(TINY["mamba"], name="mamba")
    found = train(mamba, on="h100:8", batch_tokens=2**16)
    assert not [said for said in found.bound.assumptions if "attention" in said and "checkpointing" not in said]
    with pytest.raises(InputError, match="unfused= says nothing of mamba, which has no attention"):
        train(mamba, on="h100:8", batch_tokens=2**16, unfused=True)
    asked = {"on": "h100:64", "batch_tokens": 2**20}
    assert "times 6·active parameters·tokens" in " ".join(str(train("mixtral-8x7b", **asked)).split())
    adapted = " ".join(str(train("mixtral-8x7b", lora=16, **asked)).split())
    assert "times (4·frozen active + 6·trained parameters)·tokens" in adapted
    assert "6 x 12.9B active parameters" in str(roofline.train("mixtral-8x7b", on="h100:64", tokens="1T"))
