"""Count the parameters of every shipped configuration with the transformers library, and store the counts.

Run it in an environment of its own with torch and transformers (about a minute, no weights, no network)::

    python tests/models/verify_parameters.py

Models are built on the meta device from the configurations in ``src/roofline/models/catalog``. The result goes to
``tests/data/parameter_counts.json``; ``test_parameters.py`` compares ours with it. For multimodal models the language
part and its head are counted. Configurations that transformers names otherwise are built as the type they are; those
whose code is remote are left to the test's own count.
"""

import json
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "src" / "roofline" / "models" / "catalog"
RESULT = ROOT / "tests" / "data" / "parameter_counts.json"
TOWERS = re.compile(r"visual|vision_|multi_modal_projector|embed_vision|mm_projector")
#: Types whose code is not in transformers.
REMOTE = {"mimo", "nemotron-nas"}


def build(data):
    """Build the model of a configuration on the meta device."""
    import transformers

    data = {k: v for k, v in data.items() if k not in ("quantization_config", "_source")}
    kind = data["model_type"]
    if isinstance(data.get("text_config"), dict):
        data["text_config"] = {k: v for k, v in data["text_config"].items() if k != "quantization_config"}
    if kind in ("kimi_k2", "kimi_k25"):  # DeepSeek-V3 under another name
        inner = data.get("text_config", data)
        config = transformers.DeepseekV3Config.from_dict({**inner, "model_type": "deepseek_v3"})
        return made(transformers.DeepseekV3ForCausalLM, config)
    if kind == "deepseek_ref":  # what the reference code of DeepSeek-V4 calls it
        config = transformers.CONFIG_MAPPING["deepseek_v4"].from_dict({**data, "model_type": "deepseek_v4"})
        return made(transformers.DeepseekV4ForCausalLM, config)
    if kind == "minimax_m3":  # its language part alone
        from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as module

        config = module.MiniMaxM3VLTextConfig.from_dict({**data, "model_type": "minimax_m3_vl_text"})
        return made(module.MiniMaxM3VLForCausalLM, config)
    if kind == "step3p7":  # its language part alone; the head is added by hand below
        from transformers.models.step3p7 import modeling_step3p7 as module

        moved = {**data, "model_type": "step3p5", "n_routed_experts": data["num_experts"]}
        return made(module.Step3p7TextModel, module.Step3p7TextConfig.from_dict(moved))
    config = transformers.CONFIG_MAPPING[kind].from_dict(data)
    name = data.get("architectures", [None])[0]
    defaults = {"gpt2": "GPT2LMHeadModel", "bert": "BertModel", "llama": "LlamaForCausalLM"}
    defaults |= {"whisper": "WhisperForConditionalGeneration"}
    return made(getattr(transformers, name or defaults[kind]), config)


def made(cls, config):
    """Instantiate without memory, weights tied as the configuration says."""
    import torch

    with torch.device("meta"):
        model = cls(config)
    model.tie_weights()
    return model


def count(model, data):
    """Count the language part: in all, and layer by layer; an encoder's layers are in all alone."""
    total, layers = 0, {}
    for name, parameter in model.named_parameters():
        if TOWERS.search(name):
            continue
        total += parameter.numel()
        found = re.search(r"(?:^|\.)(?:layers?|h)\.(\d+)\.", name)
        if found and ".encoder." not in name:
            layers[int(found[1])] = layers.get(int(found[1]), 0) + parameter.numel()
    if type(model).__name__ == "Step3p7TextModel":
        total += data["vocab_size"] * data["hidden_size"]
    return total, [layers[number] for number in sorted(layers)]


def main():
    """Count every configuration of the catalog."""
    import torch
    import transformers

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    found = {}
    for path in sorted(CATALOG.glob("*.json")):
        if path.name == "index.json":
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["model_type"] in REMOTE:
            continue
        model = build(data)
        total, layers = count(model, data)
        runs = []
        for each in layers:
            if runs and runs[-1][1] == each:
                runs[-1][0] += 1
            else:
                runs.append([1, each])
        found[path.stem] = {"class": type(model).__name__, "parameters": total, "layers": runs}
        sys.stdout.write(f"{path.stem} {total}\n")
    result = {
        "about": "parameters of the language part of models built on the meta device; layers as runs [how many, each]",
        "made by": "tests/models/verify_parameters.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "models": found,
    }
    text = json.dumps(result, indent=1)
    text = re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text)
    RESULT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
