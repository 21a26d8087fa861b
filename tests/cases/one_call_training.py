"""The book's figures of training, and the article's of two networks, each answered by one call.

Read by :mod:`tests.cases.test_one_call`, as :mod:`tests.cases.one_call_rows` is.
"""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

from roofline import bound, trace
from roofline.models import budget, fewest, load, outline, training_memory
from roofline.models.summary import summary
from tests.cases.one_call_rows import V5P, Rows

ATTENTION = "attention(bf16[B, T, N, H], bf16[B, T, K, H], bf16[B, T, K, H], full)"
V5P_MEMORY = {"hbm.capacity": 96e9}
STATES = {"gradients": None, "master": None}
NETWORKS = Path(__file__).parents[2] / "docs" / "examples" / "cnns.py"
MATMULS = ("convolution", "contraction")
LAYERS = ("convolution", "contraction", "pooling")


@cache
def layer(
    B: int = 1,
    T: int = 4096,
    D: int = 8192,
    F: int = 64,
    N: int = 64,
    K: int = 8,
    H: int = 128,
    V: int = 64,
    **more: Any,
) -> Any:
    """A model of one layer in the book's letters, and a batch of it."""
    fields = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": D, "intermediate_size": F}
    heads = {"num_attention_heads": N, "num_key_value_heads": K, "head_dim": H}
    model = load({**fields, **heads, "vocab_size": V, "tie_word_embeddings": True}, name="book")
    return summary(model, batch=B, prompt=T, **{"count": "full", "logits": "all", **more})


def memory(**figures: Any) -> Any:
    return training_memory(70e9, tokens=4e6, width=8192, layers=80, checkpoint=4, **STATES, **figures)


def on_h100() -> Any:
    return training_memory(70e9, on="h100", set={"hbm.capacity": 80e9}, **STATES)


def pure_fsdp() -> Any:
    """The book keeps the hidden state and both of the gated MLP's matmuls of a layer: 5120 + 2 · 13824."""
    return training_memory(13e9, tokens=3e6, width=32768, layers=40, checkpoint=1, chips=4096, **STATES)


@cache
def network(name: str) -> Any:
    import torch

    with torch.device("meta"):
        model = runpy.run_path(str(NETWORKS))[name]()
    return trace(model, "fp32[1, 3, 224, 224]")


def norm(width: int) -> Any:
    from torch import nn

    return trace(nn.LayerNorm(width), f"fp32[1, {width}]")


TRAINING: Rows = {
    ("transformers.attn_proj", "train_flops"): lambda **at: layer(**at).training_flops_by_part["attention"],
    ("transformers.attn_proj", "params"): lambda **at: layer(**at).parts["attention"],
    ("transformers.attn_dot", "full"): lambda **at: layer(**at).training_flops_by_part["scores"],
    ("transformers.attn_dot", "causal"): lambda **at: layer(count="causal", **at).training_flops_by_part["scores"],
    ("transformers.unembed", "train_flops"): lambda **at: layer(**at).training_flops_by_part["vocabulary"],
    ("transformers.unembed", "params"): lambda **at: layer(**at).parts["vocabulary"],
    ("transformers.unembed", "layernorm_params"): lambda D: norm(D).parameters(),
    ("transformers.remat", "flops_none"): lambda params, tokens: budget(params, tokens=tokens, on="v5p").flops_run,
    ("transformers.remat", "flops_block"): lambda params, tokens: (
        budget(params, tokens=tokens, on="v5p", checkpoint="full").flops_run
    ),
    ("transformers.q6", "flops"): lambda B, T, N, K, H, **at: bound(ATTENTION, on="v5p", B=B, T=T, N=N, K=K, H=H).flops,
    ("training.dp_memory", "bytes_per_param"): lambda: training_memory(1e9, **STATES).bytes_per_parameter,
    ("training.dp_memory", "params"): lambda: training_memory(1e9, on="v5p", set=V5P_MEMORY, **STATES).largest,
    ("training.q3.2", "total"): lambda: pure_fsdp().total,
    ("training.q3.2", "per_chip"): lambda: pure_fsdp().each,
    ("applied-training.memory", "total"): lambda: memory().total,
    # the book goes on from the 21.6 TB it prints; the unrounded 21.67 TB take 226
    ("applied-training.memory", "chips"): lambda: (
        fewest(outline(21_600_000_000_000), on="v5p", set=V5P_MEMORY, weights="int8").chips
    ),
    ("applied-training.memory", "days"): lambda: (
        budget(70e9, tokens=15e12, on="v5p", set=V5P, days=44, chips=8960).on_chips(225).days
    ),
    ("gpus.q5.2.1", "gb"): lambda: training_memory(70e9, **STATES).total,
    ("gpus.q5.2.1", "gpus"): lambda: on_h100().chips,
    ("gpus.q5.2.1", "nodes"): lambda: on_h100().slice.nodes,
    ("s004.vgg_count", "macs"): lambda: network("vgg16").macs(),
    ("s004.vgg_count", "params"): lambda: network("vgg16").parameters(),
    ("s004.vgg_count", "mac_per_byte"): lambda: network("vgg16").intensity_of_writes(*MATMULS, convention="macs"),
    ("s004.vgg_count", "flop_per_byte"): lambda: network("vgg16").intensity_of_writes(*MATMULS),
    ("s004.mobilenet_count", "macs"): lambda: network("mobilenet").macs(),
    ("s004.mobilenet_count", "params"): lambda: network("mobilenet").parameters(),
    ("s004.mobilenet_count", "mac_per_byte_weights+3x_outputs"): lambda: network("mobilenet").intensity_of_writes(
        *LAYERS, times=3, convention="macs"
    ),
    ("s004.mobilenet_count", "mac_per_byte_weights+outputs"): lambda: network("mobilenet").intensity_of_writes(
        *LAYERS, convention="macs"
    ),
    ("s004.mobilenet_count", "flop_per_byte_weights+3x_outputs"): lambda: network("mobilenet").intensity_of_writes(
        *LAYERS, times=3
    ),
}
