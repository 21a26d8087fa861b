"""Count parameters and matrix FLOPs of vision towers with transformers and torch's counter, and store the counts.

Run it in an environment of its own with torch and transformers (seconds, no weights, no network)::

    PYTHONPATH=. python tests/models/verify_vision.py

Towers and projectors of the configurations in ``src/roofline/models/catalog`` are built on the meta device and their
parameters counted; the small ones of ``tests/models/tiny_vision.py`` run two images each, eager, on the CPU. The
counter sees matrix products and convolutions. The result goes to ``tests/data/vision_towers.json``;
``test_vision.py`` compares ours with it.

Gemma 4's pooling is an average, which transformers writes as a product with a matrix of ones and zeros, as large as
patches x tokens; its FLOPs, 2·tokens·patches·width for each image, are stored apart and belong to no floor.
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "src" / "roofline" / "models" / "catalog"
RESULT = ROOT / "tests" / "data" / "vision_towers.json"
#: Names in transformers of what the hub's own code of Kimi calls otherwise.
KIMI = {
    "vt_hidden_size": "hidden_size", "vt_intermediate_size": "intermediate_size",
    "vt_num_attention_heads": "num_attention_heads", "vt_num_hidden_layers": "num_hidden_layers",
    "init_pos_emb_height": "pos_emb_height", "init_pos_emb_width": "pos_emb_width", "init_pos_emb_time": "pos_emb_time",
    "patch_size": "patch_size", "merge_kernel_size": "merge_kernel_size",
}  # fmt: skip


def built(data):
    """The tower, and the projector where it is no part of it."""
    kind, seen, text = data["model_type"], data["vision_config"], data["text_config"]
    name = "kimi_k25" if kind == "kimi_k25" else kind
    module = import_module(f"transformers.models.{name}.modeling_{name}")
    settings = import_module(f"transformers.models.{name}.configuration_{name}")
    if kind == "kimi_k25":
        config = settings.Kimi_K25VisionConfig(**{new: seen[old] for old, new in KIMI.items()})
        whole = settings.Kimi_K25Config(vision_config=config, projection_hidden_size=seen["mm_hidden_size"])
        whole.text_config.hidden_size = text["hidden_size"]
        config._attn_implementation = "eager"
        return module.Kimi_K25VisionModel(config), module.Kimi_K25MultimodalProjection(whole)
    stem = {"qwen3_vl": "Qwen3VL", "qwen3_vl_moe": "Qwen3VLMoe", "qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}
    if kind in stem:
        seen = {k: v for k, v in seen.items() if k != "model_type"}
        config = getattr(settings, f"{stem[kind]}VisionConfig")(**seen)
        config._attn_implementation = "eager"
        return getattr(module, f"{stem[kind]}VisionModel")(config), None
    config = settings.Gemma4VisionConfig(**{k: v for k, v in seen.items() if k != "model_type"})
    config._attn_implementation = "eager"
    inner = settings.Gemma4TextConfig(hidden_size=text["hidden_size"])
    return module.Gemma4VisionModel(config), module.Gemma4MultimodalEmbedder(config, inner)


def counted(tower, projector):
    """Parameters apart; Qwen's mergers are the projector and stand inside the tower."""
    found = {"vision_tower": 0, "projector": 0}
    for name, parameter in tower.named_parameters():
        found["projector" if "merger" in name else "vision_tower"] += parameter.numel()
    if projector is not None:
        found["projector"] += sum(parameter.numel() for parameter in projector.parameters())
    return found


def seen(kind, tower, projector, size, patch):
    """Run two images of one size."""
    import torch

    rows, columns = size[0] // patch, size[1] // patch
    if kind == "gemma4":
        across, down = torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy")
        places = torch.stack((across.flatten(), down.flatten()), -1)[None].repeat(2, 1, 1)
        return projector(tower(torch.rand(2, rows * columns, 3 * patch**2), places).last_hidden_state)
    grid = torch.tensor([[1, rows, columns]] * 2)
    if kind == "kimi_k25":
        out = tower(torch.rand(2 * rows * columns, 3, patch, patch), grid_thw=grid)
        return projector(out.pooler_output)
    return tower(torch.rand(2 * rows * columns, 3 * 2 * patch**2), grid_thw=grid)


def main():
    """Count every tower."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    from tests.models.tiny_vision import IMAGES, TINY_VISION

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    shipped, small = {}, {}
    for path in sorted(CATALOG.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data.get("vision_config"), dict):
            with torch.device("meta"):
                shipped[path.stem] = counted(*built(data))
            sys.stdout.write(f"{path.stem} {shipped[path.stem]}\n")
    for name, data in TINY_VISION.items():
        torch.manual_seed(0)
        tower, projector = built(data)
        patch, size = data["vision_config"]["patch_size"], IMAGES[name]
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            seen(data["model_type"], tower.eval(), projector, size, patch)
        small[name] = {**counted(tower, projector), "flops": counter.get_total_flops(), "pooling": 0}
        if name == "gemma4":
            patches, side = size[0] * size[1] // patch**2, data["vision_config"]["pooling_kernel_size"]
            small[name]["pooling"] = 2 * 2 * (patches // side**2) * patches * data["vision_config"]["hidden_size"]
        sys.stdout.write(f"{name} {small[name]}\n")
    result = {
        "about": "parameters of vision towers and projectors; matrix FLOPs of two images through small ones",
        "made by": "tests/models/verify_vision.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "models": shipped,
        "small": small,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
