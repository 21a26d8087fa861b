"""Find what a configuration of each type means where it leaves a field out, and store it.

Run it in an environment of its own with transformers (seconds, no network)::

    PYTHONPATH=src python tests/models/verify_defaults.py

Kept of each type's class in transformers are the values without which the model read is another one, or none, and
those that were kept before and are still the class's: they may matter beside lists that the class does not have. Fields
that go by two names are left out. The result goes to ``src/roofline/models/families/defaults.json``, which
``roofline.models.families.with_defaults`` reads.
"""

import dataclasses
import json
import sys
import warnings
from functools import partial
from pathlib import Path

RESULT = Path(__file__).resolve().parents[2] / "src" / "roofline" / "models" / "families" / "defaults.json"
#: Types without sizes of a language model's own, or whose class does not describe what is published.
LEFT = {
    "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "dbrx", "mpt", "mimo_v2_flash", "falcon", "opt",
    "modernbert", "gpt2", "gpt_neo", "gpt_bigcode", "gptj", "codegen",
    "ernie", "data2vec-text", "electra", "rembert", "roformer", "megatron-bert", "xlm-roberta-xl",
    "roberta-prelayernorm", "bert-generation",
    "t5", "mt5", "umt5", "bart", "plbart", "mbart", "pegasus", "marian", "blenderbot", "blenderbot-small", "m2m_100",
    "whisper",
}  # fmt: skip
#: Fields without which a type's class describes nothing that can be read.
MORE = {
    "deepseek_v2": {"num_experts_per_tok": 6, "n_routed_experts": 64},
    "embedding_gemma2_text": {"global_head_dim": 512, "num_global_key_value_heads": 1},
    "gemma4_text": {"global_head_dim": 512},
    "gemma4_unified_text": {"global_head_dim": 512},
    "kosmos_2_text_model": {"embed_dim": 2048, "layers": 24, "attention_heads": 32},
    "kosmos_2_5_text_model": {"embed_dim": 1536, "layers": 24, "attention_heads": 16},
    "ernie4_5_vl_moe_text": {"moe_layer_start_index": 1},
    "sarvam_mla": {"n_routed_experts": 128, "n_shared_experts": 1},
    "sarvam_moe": {"n_routed_experts": 128, "n_shared_experts": 1},
    "mistral_large4_text": {"n_routed_experts": 128},
    "glm5_next_text": {"n_routed_experts": 288},
    "dory": {"layer_types": None, "n_recurrent_layers": 20, "attention_head_dim": 256},
    "dots1": {"num_experts_per_tok": 6, "n_routed_experts": 64, "n_shared_experts": 2},
}


def seen(kind, data):
    """What a reader makes of the fields: a figure that changes with whatever changes a cost."""
    from roofline.errors import RooflineError
    from roofline.models.families import read_as, reader_of
    from roofline.models.fields import Fields

    kind = read_as(kind)
    try:
        fields = Fields({**data, "model_type": kind}, kind)
        model = reader_of(kind)(fields)
    except RooflineError as error:
        return str(error)
    ends = model.before, model.after, model.final, model.head
    return repr((model.layers, ends, model.tied, model.width, model.vocabulary))


def matters(kind, bases, name):
    """Say whether one of the configurations is read otherwise without the field."""
    return any(seen(kind, {k: v for k, v in base.items() if k != name}) != seen(kind, base) for base in bases)


def main():
    """Compare what is read with and without each field of each type."""
    import transformers

    from roofline.models.families import known_types
    from roofline.models.families.multimodal import _TEXT

    warnings.filterwarnings("ignore")
    found, before = {}, json.loads(RESULT.read_text(encoding="utf-8"))
    for kind in sorted({*known_types()} - set(_TEXT) - LEFT):
        if kind not in transformers.CONFIG_MAPPING:
            continue
        config = transformers.CONFIG_MAPPING[kind]
        two = {*config.attribute_map, *config.attribute_map.values()}
        values = {f.name: f.default for f in dataclasses.fields(config) if isinstance(f.default, bool | int | str)}
        values = {name: value for name, value in values.items() if value != "auto"} | MORE.get(kind, {})
        # lists that say which layer is what come from the patterns the class itself has
        built = config().to_dict()
        listed = {name: built[name] for name in ("layer_types", "layers_block_type") if built.get(name)}
        # and so do sizes that it works out itself, without which nothing would be read
        made = {name: value for name, value in built.items() if isinstance(value, int) and name not in two}
        whole = {**made, **listed, **values}
        # other sizes of the model, from which what is left out does not follow by chance
        bases = [whole, {**whole, **{name: 3 * values[name] for name in ("hidden_size",) if name in values}}]
        bases.append({**bases[1], **{name: 2 * values[name] for name in ("num_attention_heads",) if name in values}})
        bases += [{k: v for k, v in whole.items() if k not in listed}]
        one = {name for name in values if name not in two or name in MORE.get(kind, {})}
        kept = {name: value for name, value in values.items() if name in one and matters(kind, bases, name)}
        still = {name: value for name, value in before.get(kind, {}).items() if whole.get(name) == value}
        kept = {name: value for name, value in whole.items() if name in kept or name in still}
        found[kind] = kept
        sys.stdout.write(f"{kind} {kept} {[b for b in map(partial(seen, kind), bases) if len(b) < 200]}\n")
    lines = ",\n".join(f" {json.dumps(kind)}: {json.dumps(kept)}" for kind, kept in found.items() if kept)
    RESULT.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
