"""Count the parameters of the configurations of ``tests/models/published.py`` with the transformers library.

Run it in an environment of its own with torch and transformers (seconds, no weights, no network)::

    PYTHONPATH=. python tests/models/verify_published.py

The result goes to ``tests/data/published_counts.json``; ``test_published.py`` compares ours with it.
"""

import copy
import json
import re
import sys
import warnings
from pathlib import Path

RESULT = Path(__file__).resolve().parents[1] / "data" / "published_counts.json"
TOWERS = re.compile(r"visual|vision_|multi_modal_projector")


def main():
    """Build each on the meta device, without its tower, and store the counts."""
    import torch
    import transformers

    from tests.models.published import PUBLISHED

    warnings.filterwarnings("ignore")
    found = {}
    for name, data in PUBLISHED.items():
        given = {k: v for k, v in copy.deepcopy(data).items() if k != "quantization_config"}
        config = transformers.CONFIG_MAPPING[data["model_type"]].from_dict(given)
        auto = (
            transformers.AutoModelForImageTextToText if "vision_config" in data else transformers.AutoModelForCausalLM
        )
        with torch.device("meta"):
            model = auto.from_config(config)
        model.tie_weights()
        found[name] = sum(p.numel() for part, p in model.named_parameters() if not TOWERS.search(part))
        sys.stdout.write(f"{name} {found[name]}\n")
    result = {"transformers": transformers.__version__, "parameters": found}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
