"""Count the matrix FLOPs of small models by running them under torch's own counter, and store the counts.

Run it in an environment of its own with torch and transformers (seconds, no network)::

    PYTHONPATH=. python tests/models/verify_operations.py

Each model of ``tests/models/tiny.py`` runs a prefill of 2 x 21 tokens and one decode step after it, eager, on the CPU.
The counter sees matrix products alone; every masked pair of query and key counts. ``kept`` are the numbers in the
cache after the prefill. The result goes to ``tests/data/matrix_flops.json``; ``test_operations.py`` compares ours with
it.
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "data" / "matrix_flops.json"
BATCH, PROMPT = 2, 21
#: Types that keep no keys there: no decode step is counted.
NO_CACHE = (
    "bert", "modernbert", "openai-gpt", "ernie", "data2vec-text", "electra", "rembert", "roformer", "megatron-bert",
    "xlm-roberta-xl", "roberta-prelayernorm", "bert-generation", "eurobert", "albert",
    "deberta-v2", "mpnet", "esm", "splinter", "nomic_bert", "gte", "jina_embeddings_v3",
    "deberta", "layoutlm", "layoutlmv3", "ibert", "clap_text_model", "clip_text_model", "siglip_text_model",
    "openai_privacy_filter", "ultrabert", "esmc", "embedding_gemma2_text", "clipseg_text_model", "groupvit_text_model",
    "chinese_clip_text_model",
)  # fmt: skip


def built(config, data):
    """The model; a language part that stands in no model of its own gets a head."""
    import torch
    import transformers

    if "architectures" in data:
        module = import_module(type(config).__module__.replace("configuration_", "modeling_"))
        return getattr(module, data["architectures"][0])(config)
    if data["model_type"] == "bert":
        return transformers.BertModel(config)
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:
        return transformers.AutoModelForCausalLM.from_config(config)

    class WithHead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.AutoModel.from_config(config)
            self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

        def forward(self, tokens, **more):
            out = self.model(tokens, **more)
            self.lm_head(out.last_hidden_state)
            return out

    return WithHead()


def kept_elements(cache):
    """How many numbers a cache holds: keys, values and states of every layer, each tensor once."""
    import torch

    found, waiting, depth = {}, [cache], 5
    for _ in range(depth):
        inside = []
        for each in waiting:
            if isinstance(each, torch.Tensor):
                found[id(each)] = each.numel() if each.is_floating_point() else 0
            elif isinstance(each, dict):
                inside += each.values()
            elif isinstance(each, list | tuple):
                inside += each
            elif hasattr(each, "__dict__") and "Config" not in type(each).__name__ and not isinstance(each, type):
                inside += vars(each).values()
        waiting = inside
    return sum(found.values())


def main():
    """Run every small model and store what the counter saw."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    from tests.models.tiny import TINY

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    found = {}
    for name, data in TINY.items():
        torch.manual_seed(0)
        config = transformers.CONFIG_MAPPING[data["model_type"]].from_dict(dict(data))
        config._attn_implementation = "eager"
        config._experts_implementation = "eager"
        model = built(config, data).eval().requires_grad_(False)
        tokens = torch.randint(3, 90, (BATCH, PROMPT))
        counts = {"parameters": sum(p.numel() for p in model.parameters())}
        with torch.no_grad():
            with FlopCounterMode(display=False) as counter:
                out = model(tokens) if data["model_type"] in NO_CACHE else model(tokens, use_cache=True)
            counts["prefill"] = counter.get_total_flops()
            if data["model_type"] not in NO_CACHE:
                kept = next(name for name in ("cache", "cache_params", "state", "past_key_values") if name in out)
                counts["kept"] = kept_elements(out[kept])
                with FlopCounterMode(display=False) as counter:
                    model(tokens[:, :1], use_cache=True, **{kept: out[kept]})
                counts["decode"] = counter.get_total_flops()
        found[name] = counts
        sys.stdout.write(f"{name} {counts}\n")
    result = {
        "about": f"matrix FLOPs of a prefill of {BATCH} x {PROMPT} tokens and of a decode step after it",
        "made by": "tests/models/verify_operations.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "models": found,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
