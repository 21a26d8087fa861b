"""Ten decode steps of the docs, each term counted by hand from the sizes in the models' own ``config.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline.models
from roofline.models.closed_form import model_formula

CATALOG = Path(roofline.models.__file__).parent / "catalog"

#: The models of the docs, each with its file.
TEN = {
    "llama-2-7b": "meta-llama--llama-2-7b-hf", "llama-2-13b": "meta-llama--llama-2-13b-hf",
    "llama-2-70b": "meta-llama--llama-2-70b-hf", "llama-65b": "llama-65b",
    "llama-3.1-8b": "meta-llama--meta-llama-3.1-8b", "llama-3.1-70b": "meta-llama--meta-llama-3.1-70b",
    "llama-3.1-405b": "meta-llama--meta-llama-3.1-405b", "qwen3-8b": "qwen--qwen3-8b", "qwen3-32b": "qwen--qwen3-32b",
    "mixtral-8x7b": "mistralai--mixtral-8x7b-v0.1",
}  # fmt: skip


def counted(fields: dict[str, Any], B: int, C: int) -> dict[tuple[str, str], float]:
    """Bytes and FLOPs of one token for each of B sequences after C others; 16-bit weights, keys and values.

    q, k, v and o have d·n·h, d·m·h, d·m·h and n·h·d elements, an MLP has 3·d·f, with E experts of which k are taken
    E·(1 − (1 − k/E)^B) are read. An attention layer reads 2·m·h elements of each of C + 1 tokens.
    """
    d, f, V = (fields[name] for name in ("hidden_size", "intermediate_size", "vocab_size"))
    L, n = fields["num_hidden_layers"], fields["num_attention_heads"]
    m, h = fields.get("num_key_value_heads") or n, fields.get("head_dim") or d // n
    E, k = fields.get("num_local_experts", 1), fields.get("num_experts_per_tok", 1)
    qwen = fields["model_type"] == "qwen3"  # norms of each head's queries and keys
    projections = d * n * h + 2 * d * m * h + n * h * d
    router, norms = (d * E if E > 1 else 0), 2 * d + (2 * h if qwen else 0)
    read = E * (1 - (1 - k / E) ** B) if E > 1 else 1
    layers = L * (projections + router + norms + read * 3 * d * f)
    found: dict[tuple[str, str], float] = {
        ("hbm", "weights"): 2 * (layers + d + V * d + d * min(V, B)),
        ("hbm", "activations"): B * (2 * V + 4),
        ("hbm", "keys and values"): 2 * 2 * m * h * L * B * (C + 1),
        ("tensor", "attention"): 2 * 2 * n * h * L * B * (C + 1),
    }
    dense = projections + router + (0 if E > 1 else 3 * d * f)
    found["tensor", "matrices"] = 2 * B * (L * dense + V * d)
    if E > 1:
        found["tensor", "experts"] = 2 * B * L * k * 3 * d * f
    return found


@pytest.mark.parametrize("name", TEN)
def test_a_step_is_what_a_hand_counts(name: str) -> None:
    fields = json.loads((CATALOG / f"{TEN[name]}.json").read_text(encoding="utf-8"))
    found = model_formula(name, "decode", on="h200")
    parts = {(term.resource, part.label): part.amount for term in found.terms for part in term.parts}
    for batch, context in ((1, 0), (1, 2047), (64, 1000), (333, 17)):
        values = {found.sizes["batch"]: batch, found.sizes["context"]: context}
        by_hand = counted(fields, batch, context)
        assert by_hand.keys() == {key for key in parts if key[0] != "cuda"}
        for key, amount in by_hand.items():
            assert float(parts[key].subs(values)) == pytest.approx(amount, rel=1e-12), (key, batch, context)


def test_the_docs_print_all_ten() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formulas.md").read_text(encoding="utf-8")
    assert all(f'"{name}"' in page for name in TEN)
