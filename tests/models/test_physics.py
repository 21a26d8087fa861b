"""No answer below physics: FLOPs and bytes counted here from configurations and from what transformers counts.

Nothing of the package's readers goes into the floor: parameters are those of ``parameter_counts.json``, sizes those of
the configuration's fields. What is left out of the count (norms, rotations, keys and values) makes the floor lower.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.bounds.evaluate import evaluate
from roofline.bounds.memory import traffic
from roofline.hardware import chips
from roofline.hardware.rate import rate
from roofline.models import decode, load, prefill, serve_bound
from roofline.work import Key
from tests.strategies import some

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "src/roofline/models/catalog"
COUNTS = json.loads((ROOT / "tests/data/parameter_counts.json").read_text(encoding="utf-8"))["models"]
NAMES = sorted(COUNTS)
#: Batch and tokens of each shape: a prompt to prefill, or tokens in the cache before one more.
SHAPES = [("prefill", 1, 500), ("prefill", 4, 64), ("decode", 1, 400), ("decode", 64, 300)]
PEAK, MAIN = Key("flops", "matrix", "bf16"), Key("bytes", "main")
#: Every chip of which anything is known.
CHIPS = [machine for machine in chips() if rate(machine, PEAK) is not None or rate(machine, MAIN) is not None]

_COUNTS = ("n_routed_experts", "num_local_experts", "num_experts")
_CHOSEN = ("num_experts_per_tok", "experts_per_token", "top_k_experts", "moe_top_k")
_HIDDEN = ("moe_intermediate_size", "expert_ffn_hidden_size")


def first(fields: dict[str, Any], names: tuple[str, ...], default: int = 0) -> int:
    """The first of the fields that says something."""
    return next((int(fields[name]) for name in names if fields.get(name)), default)


class Own:
    """A model's least work, from its fields."""

    def __init__(self, name: str) -> None:
        data = json.loads((CATALOG / f"{name}.json").read_text(encoding="utf-8"))
        fields = {**data, **data.get("text_config", {})}
        self.total: int = COUNTS[name]["parameters"]
        width, vocabulary = first(fields, ("hidden_size", "n_embd")), int(fields["vocab_size"])
        self.table = width * vocabulary
        each = max(layer for _, layer in COUNTS[name]["layers"])
        self.experts = first(fields, _COUNTS) if fields.get("enable_moe_block") is not False else 0
        self.chosen = first(fields, _CHOSEN)
        hidden = first(fields, _HIDDEN, first(fields, ("intermediate_size",)))
        wide = first(fields, ("moe_latent_size",), width)
        gates = 2 if fields.get("mlp_hidden_act") == "relu2" else 3
        self.expert = gates * wide * hidden if self.experts else 0
        sparse = [layer > self.experts * self.expert for _, layer in COUNTS[name]["layers"]]
        self.sparse: int = sum(
            n for (n, _), has in zip(COUNTS[name]["layers"], sparse, strict=True) if has and self.experts
        )
        assert not self.experts or each > self.experts * self.expert, name
        inside: int = sum(n * layer for n, layer in COUNTS[name]["layers"])
        # gpt-oss adds a bias to each result of each expert
        biases = 2 * hidden + wide if fields["model_type"] == "gpt_oss" else 0
        self.layers: int = inside - self.sparse * self.experts * (self.expert + biases)

    def flops(self, tokens: int, outputs: int) -> float:
        """Two for each weight of a layer's matrices and token, and of the head for those that need it."""
        layers = self.layers * 0.98 + self.sparse * self.chosen * self.expert
        return 2.0 * (layers * tokens + (self.table * outputs if self.total > self.layers + self.table else 0))

    def bytes(self, tokens: int) -> float:
        """Two for each weight of a layer, experts by how many are expected to be touched, and for the head."""
        touched = self.experts * (1 - (1 - self.chosen / self.experts) ** tokens) if self.experts else 0
        return 2.0 * (self.layers * 0.98 + self.sparse * touched * self.expert)


@pytest.mark.parametrize("name", some(NAMES, 24, 5))
def test_no_answer_is_below_physics(name: str) -> None:
    """Every chip and shape; the count is close to ours where nothing else is large: the test can fail."""
    own, model = Own(name), load(name)
    for shape, (phase, batch, length) in enumerate(SHAPES):
        if phase == "decode" and not model.causal:
            continue
        sizes: dict[str, Any] = {"weights": "bf16", "kv": "bf16", "activations": "bf16"}
        tokens = batch * length if phase == "prefill" else batch
        if phase == "prefill":
            ops = prefill(model, batch=batch, prompt=length, **sizes)
        else:
            ops = decode(model, batch=batch, context=length, **sizes)
        moved = traffic(ops, "minimal")
        flops, nbytes = own.flops(tokens, batch), own.bytes(tokens)
        counted = sum(op.work.total("flops", "matrix") * op.repeat for op in ops)
        loaded = sum(load.total("bytes") * op.repeat for op, load in zip(ops, moved, strict=True))
        assert counted >= flops
        assert loaded >= nbytes
        if phase == "decode" and batch == 1:
            assert loaded <= 1.6 * nbytes + 4 * own.table, name
        for number, machine in enumerate(CHIPS[shape :: len(SHAPES)]):
            found = evaluate(ops, moved, machine)
            peak = rate(machine, PEAK)
            main = rate(machine, MAIN)
            if peak is not None:
                assert found.lower >= flops / peak.value * (1 - 1e-12), (name, machine.key)
            if main is not None:
                assert found.lower >= nbytes / main.value * (1 - 1e-12), (name, machine.key)
            if number == 0 and phase == "decode":
                asked = serve_bound(model, "decode", on=machine, batch=batch, context=length, policy="minimal", **sizes)
                assert asked.lower == pytest.approx(found.lower, rel=1e-12)
