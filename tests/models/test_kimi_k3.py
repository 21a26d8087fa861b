"""Kimi K3: delta attention with a whole gate, gated latent attention, experts in a latent space, block residuals."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.models import load, serve_bound

FULL = [*range(4, 93, 4), 93]

#: The fields of huggingface.co/moonshotai/Kimi-K3/blob/main/config.json that say what it computes.
KIMI_K3: dict[str, Any] = {
    "model_type": "kimi_k3",
    "tie_word_embeddings": False,
    "text_config": {
        "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0, "attn_res_block_size": 12,
        "first_k_dense_replace": 1, "hidden_act": "situ", "hidden_size": 7168, "intermediate_size": 33792,
        "kv_lora_rank": 512, "latent_moe_use_norm": True,
        "linear_attn_config": {
            "full_attn_layers": FULL, "kda_layers": [n for n in range(1, 94) if n not in FULL],
            "gate_lower_bound": -5.0, "head_dim": 128, "num_heads": 96, "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        },
        "max_position_embeddings": 1048576, "mla_use_nope": True, "mla_use_output_gate": True,
        "model_type": "kimi_linear", "moe_intermediate_size": 3072, "moe_layer_freq": 1, "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid", "num_attention_heads": 96, "num_expert_group": 1, "num_experts": 896,
        "num_experts_per_token": 16, "num_hidden_layers": 93, "num_key_value_heads": 96,
        "num_nextn_predict_layers": 0, "num_shared_experts": 2, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "rms_norm_eps": 1e-05, "routed_expert_hidden_size": 3584,
        "routed_scaling_factor": 1.0, "tie_word_embeddings": False, "topk_group": 1, "use_grouped_topk": True,
        "v_head_dim": 128, "vocab_size": 163840,
        "quantization_config": {
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
            "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp.*", "re:.*routed_expert_.*", "lm_head"],
            "config_groups": {
                "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 32}}
            },
        },
    },
}  # fmt: skip


def test_parameters_by_hand() -> None:
    """2.78e12 in all, about 104e9 for a token, as published."""
    width, inner, heads = 7168, 96 * 128, 96
    linear = 5 * width * inner + 3 * inner * 4 + width * 128 + 128 * inner + heads * width + inner + heads + 128
    queries = width * 1536 + 1536 + 1536 * heads * 192
    latent = queries + width * 576 + 512 + 512 * heads * 256 + 2 * heads * 128 * width
    experts = 896 * 3 * 3584 * 3072 + 2 * 3584 * width + 3584 + 896 * width + 3 * width * 2 * 3072
    each = 2 * width + 2 * 2 * width
    total = 69 * linear + 24 * latent + 92 * experts + 3 * width * 33792 + 93 * each + 2 * 163840 * width + 3 * width
    model = load(KIMI_K3, name="kimi-k3")
    assert model.parameters == total
    assert model.parameters / 1e12 == pytest.approx(2.7799, rel=1e-3)
    assert model.active_parameters / 1e9 == pytest.approx(104, rel=0.02)
    assert model.gaps == ()


def test_formats_and_cache() -> None:
    model = load(KIMI_K3, name="kimi-k3")
    assert model.kv_bytes_per_token("bf16") == 24 * 2 * (512 + 64)
    experts = 92 * 896 * 3 * 3584 * 3072
    assert model.weight_bytes() == experts * 17 // 32 + 2 * (model.parameters - experts)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_steps_on_a_rack(phase: str) -> None:
    sizes = {"prefill": {"prompt": 2048}, "decode": {"context": 8192}}[phase]
    found = serve_bound(load(KIMI_K3, name="kimi-k3"), phase, on="gb200:72", expert=72, batch=72, **sizes)
    assert found.lower > 0
    assert not found.incomplete
    assert "896 experts on 72 chips: 13 on each, 40 of the 936 are redundant copies" in found.assumptions
