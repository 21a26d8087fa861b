"""Encoders beside a decoder: counts equal transformers, torch's own counter, published sizes and sums by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from roofline import llm, plan, sweep
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.models import budget, decode, load, prefill, serve_bound, train
from roofline.models.blocks.encoder import with_source
from roofline.models.parallelism.splitting import local_model
from roofline.work import Op

_T5: dict[str, Any] = {
    "vocab_size": 90, "d_model": 32, "d_kv": 16, "d_ff": 40, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
}  # fmt: skip
_BART: dict[str, Any] = {
    "vocab_size": 90, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 40, "decoder_ffn_dim": 50, "max_position_embeddings": 64,
}  # fmt: skip
_NLLB = {"attention_heads": 16, "ffn_dim": 8192, "sparse_step": 4}
_HEARD = {"max_source_positions": 30, "num_mel_bins": 20, "max_target_positions": 60, "max_position_embeddings": None}
_GEMMA: dict[str, Any] = {
    "vocab_size": 90, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8,
}  # fmt: skip
#: Small configurations of types whose fields are not those of T5 or BART, or more.
_OTHERS: dict[str, dict[str, Any]] = {
    "nllb-moe": {
        **_BART, "encoder_layers": 4, "decoder_layers": 5, "num_experts": 6, "encoder_sparse_step": 2,
        "decoder_sparse_step": 2, "expert_capacity": 1000,
    },
    "switch_transformers": {
        **_T5, "num_layers": 4, "num_decoder_layers": 6, "num_experts": 6, "num_sparse_encoder_layers": 2,
        "num_sparse_decoder_layers": 3, "expert_capacity": 1000,
    },
    "t5gemma": {
        "encoder": {**_GEMMA, "hidden_size": 48},
        "decoder": {**_GEMMA, "intermediate_size": 56, "num_hidden_layers": 2, "sliding_window": 100},
    },
    "t5gemma2": {
        "encoder": {"text_config": _GEMMA},
        "decoder": {**_GEMMA, "intermediate_size": 56, "num_hidden_layers": 7, "sliding_window": 100},
    },
    "moonshine": {
        "vocab_size": 90, "hidden_size": 32, "intermediate_size": 40, "encoder_num_hidden_layers": 2,
        "decoder_num_hidden_layers": 3, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 2,
    },
}  # fmt: skip
BATCH, SOURCE, PROMPT = 2, 30, 7

#: Parameters in transformers 5.24; FLOPs of matrix products by torch's counter, eager: a prefill of 2 x 7 tokens with
#: logits of all and a source of 30, one step after it; numbers in the cache after the prefill.
COUNTED = {
    "t5": (81_952, 6_702_336, 248_064, 28_416),
    "mt5": (88_352, 7_117_056, 263_424, 28_416),
    "umt5": (88_736, 7_117_056, 263_424, 28_416),
    "bart": (56_966, 3_859_968, 152_832, 14_208),
    "mbart": (57_094, 3_859_968, 152_832, 14_208),
    "plbart": (56_966, 3_859_968, 152_832, 14_208),
    "pegasus": (56_838, 3_859_968, 152_832, 14_208),
    "marian": (56_710, 3_859_968, 152_832, 14_208),
    "blenderbot": (56_838, 3_859_968, 152_832, 14_208),
    "blenderbot-small": (56_838, 3_859_968, 152_832, 14_208),
    "m2m_100": (52_742, 3_859_968, 152_832, 14_208),
    "whisper": (60_422, 4_689_408, 152_832, 14_208),
    "mvp": (56_966, 3_859_968, 152_832, 14_208),
    # less what transformers runs of experts that a token did not choose: of 6, 4 for each
    "nllb-moe": (150_462, 11_090_432 - 3_174_400, 376_576 - 102_400, 23_680),
    "switch_transformers": (225_664, 13_386_240, 486_912, 56_832),
    "t5gemma": (90_544, 8_731_392, 175_360, 9_472),
    "t5gemma2": (115_168, 9_963_776, 470_272, 33_152),
    "moonshine": (77_952, 11_188_864, 160_512, 14_208),  # of 12,031 numbers of sound
}

WHISPER: dict[str, Any] = {
    "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "num_hidden_layers": 32,
    "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120,
    "vocab_size": 51866, "num_mel_bins": 128, "max_source_positions": 1500, "max_target_positions": 448,
    "activation_function": "gelu", "torch_dtype": "float16", "is_encoder_decoder": True, "scale_embedding": False,
    "forced_decoder_ids": [[1, 50259]], "suppress_tokens": [1, 2], "apply_spec_augment": False, "dropout": 0.0,
}  # fmt: skip
FLAN_T5_XL: dict[str, Any] = {
    "model_type": "t5", "d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_decoder_layers": 24,
    "num_heads": 32, "vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    "n_positions": 512, "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
    "dropout_rate": 0.1, "torch_dtype": "float32", "output_past": True, "is_encoder_decoder": True,
}  # fmt: skip


def small(kind: str) -> dict[str, Any]:
    """A small configuration of a type."""
    if kind in _OTHERS:
        return {"model_type": kind, **_OTHERS[kind]}
    return {"model_type": kind, **(_T5 if "5" in kind else _BART), **(_HEARD if kind == "whisper" else {})}


def products(ops: Sequence[Op]) -> int:
    """FLOPs of matrix products."""
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


@pytest.mark.parametrize("kind", COUNTED)
def test_as_transformers_and_torch_count(kind: str) -> None:
    model = with_source(load(small(kind)), SOURCE)
    assert model.gaps == ()
    found = (
        model.parameters,
        products(prefill(model, batch=BATCH, prompt=PROMPT, count="full", logits="all")),
        products(decode(model, batch=BATCH, context=PROMPT)),
        model.cache_bytes(PROMPT, batch=BATCH, dtype="fp32") / 4,
    )
    assert found == COUNTED[kind]


_LED = {"max_encoder_position_embeddings": 96, "max_decoder_position_embeddings": 64, "attention_window": [8, 16]}


@pytest.mark.parametrize(
    ("data", "counted", "beyond", "pairs"),
    [
        # pairs of queries and keys, layer by layer: torch meets all of some blocks, which are padded
        ({**_BART, "model_type": "led", **_LED}, (64_198, 3_868_672, 154_368), (448 + 384 + 768 + 768) / 2, (4, 8)),
        ({**_T5, "model_type": "longt5", "local_radius": 5}, (81_952, 6_736_128, 251_136), 2 * 36 * 18, (5, 5)),
        (
            {**_T5, "model_type": "longt5", "local_radius": 5, "global_block_size": 4,
             "encoder_attention_type": "transient-global"},
            # sums of blocks are products there
            (82_144, 7_358_720 - 65_536, 251_136), 2 * 36 * (18 + 8), (5, 5),
        ),
    ],
)  # fmt: skip
def test_encoders_whose_tokens_see_a_window(data: Any, counted: Any, beyond: float, pairs: tuple[int, ...]) -> None:
    """Parameters and a decode step as in transformers; pairs are those within a radius, and with sums of blocks."""
    source, heads = 32, 4
    model, each = with_source(load(data), source), 4 * heads * BATCH * (8 if data["model_type"] == "led" else 16)
    parameters, prefilled, decoded = counted
    assert (model.parameters, products(decode(model, batch=BATCH, context=PROMPT))) == (parameters, decoded)
    sums = 2 * source * 8 if "global_block_size" in data else 0
    near = sum(abs(query - key) <= radius for radius in pairs for query in range(source) for key in range(source))
    full, seen = (
        products(prefill(model, batch=BATCH, prompt=PROMPT, logits="all", **count)) for count in ({"count": "full"}, {})
    )
    assert full == prefilled + each * (2 * source**2 + sums - beyond)
    own = (PROMPT * (PROMPT - 1) // 2) * (3 * 4 * BATCH * 8 * (4 if data["model_type"] == "led" else 8))
    assert full - seen == each * (2 * source**2 - near) + own
    assert model.cache_bytes(PROMPT) > 0


def test_published_sizes() -> None:
    # the files of the published checkpoints hold as many numbers
    assert load(WHISPER).parameters == 1_543_490_560
    assert load(FLAN_T5_XL).parameters == 2_849_757_184
    nllb = {"vocab_size": 256206, "d_model": 2048, **dict.fromkeys(("encoder_layers", "decoder_layers"), 24)}
    nllb |= {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in _NLLB.items()}
    found = load({"model_type": "nllb-moe", "num_experts": 128, **nllb})
    assert (round(found.parameters / 1e9, 1), round(found.active_parameters / 1e9, 1)) == (54.5, 3.8)
    assert load(WHISPER).gaps == load(FLAN_T5_XL).gaps == ()


def test_an_encoder_alone_is_read_as_one() -> None:
    """The text encoder of FLUX and of Wan, and a small one: a token sees all others, and there is no head."""
    xxl = {"d_model": 4096, "d_ff": 10240, "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu"}
    t5 = load({"model_type": "t5", "vocab_size": 32128, **xxl, "architectures": ["T5EncoderModel"]})
    umt5 = load({"model_type": "umt5", "vocab_size": 256384, **xxl, "architectures": ["UMT5EncoderModel"]})
    assert (t5.parameters, umt5.parameters) == (4_762_310_656, 5_680_910_336)
    alone = load({**small("t5"), "architectures": ["T5EncoderModel"]})
    assert load({**small("t5"), "architectures": "a text on 'T5EncoderModel'"}).head
    of_a_layer = 4 * 32 * 64 + 2 * 32 * 40
    flops = 2 * BATCH * PROMPT * 2 * of_a_layer + 2 * BATCH * 4 * PROMPT**2 * 2 * 2 * 16
    assert products(prefill(alone, batch=BATCH, prompt=PROMPT)) == flops
    assert alone.cache_bytes(PROMPT) == 0
    with pytest.raises(InputError, match="t5 is an encoder, which does not decode"):
        decode(alone, batch=BATCH, context=PROMPT)


def test_a_step_reads_the_keys_of_its_source() -> None:
    step = serve_bound(load(WHISPER), "decode", on="h100", batch=16, context=100, policy="streamed")
    width, layers = 1280, 32
    matrices = layers * (6 * width**2 + 2 * width * 5120) + 51866 * width  # no keys and values of the source are made
    assert step.bytes["hbm"] == pytest.approx(2 * (matrices + 16 * layers * 2 * width * (101 + 1500)), rel=1e-3)
    model = load(WHISPER)
    assert model.cache_bytes(100) == 2 * layers * 2 * width * (100 + 1500)
    assert model.kv_bytes_per_token() == 2 * layers * 2 * width


def test_a_prefill_counts_sequences_where_most_of_what_is_read_is_no_prompt() -> None:
    found = llm(WHISPER, on="h100", batch=16, prompt=4, context=100)
    assert found.prefill is not None
    said = str(found)
    assert f"{16 / float(found.prefill.lower):,.1f} sequences/s · " in said
    assert "tokens/s · " not in said
    assert "sequences/s" not in str(llm("llama-3-8b", on="h100", prompt=4))


def test_the_encoder_runs_once() -> None:
    model = load(WHISPER)
    first, later = (prefill(model, batch=4, prompt=4, past=past) for past in (0, 4))
    encoder = 2 * 4 * (
        1500 * (32 * (4 * 1280**2 + 2 * 1280 * 5120) + 3 * 1280**2) + 3000 * 3 * 128 * 1280
    ) + 4 * 32 * 20 * 4 * 64 * 1500**2  # fmt: skip
    source = 4 * 1500 * 32 * 2 * 2 * 1280**2
    attended = 4 * 32 * 20 * 4 * 64 * 4 * 4  # to the four tokens that are there already
    assert products(first) - products(later) == encoder + source - attended
    assert not any("encoder." in op.where for op in (*later, *decode(model, context=4)))


def test_chips_that_split_it_hold_equal_parts() -> None:
    for data in (WHISPER, FLAN_T5_XL):
        model = load(data)
        local, _ = local_model(model, chip("h100:4"), tensor=4)
        whole, part = (products(prefill(each, batch=4, prompt=8, activations="bf16")) for each in (model, local))
        heard = 2 * 4 * (1500 * 3 * 1280**2 + 3000 * 3 * 128 * 1280) if data is WHISPER else 0
        # the convolutions of sounds run whole on every chip, and Whisper's vocabulary is padded by half a row for each
        assert part == pytest.approx((whole - heard) / 4 + heard, rel=1e-8)
        assert ("every chip runs the convolutions of sounds whole" in local.notes) == bool(heard)
        assert local.cache_bytes(8) == model.cache_bytes(8) / 4
        sums = [op for op in prefill(local, prompt=8) if op.kind == "collective" and "encoder." in op.where]
        assert sum(op.repeat for op in sums) == 2 * (32 if data is WHISPER else 24) + (data is FLAN_T5_XL)


@pytest.mark.parametrize("kind", _OTHERS)
def test_chips_split_sides_of_any_kind(kind: str) -> None:
    model = with_source(load(small(kind)), SOURCE)
    local, _ = local_model(model, chip("h100:2"), tensor=2)
    whole, part = (products(decode(each, batch=4, context=8)) for each in (model, local))
    routers = 2 * 4 * 32 * 6 * {"nllb-moe": 2, "switch_transformers": 3}.get(kind, 0)  # every chip scores all experts
    assert part == (whole - routers) / 2 + routers
    assert local.cache_bytes(8) == model.cache_bytes(8) / 2


def test_sizes_in_arrays_and_answers() -> None:
    many = serve_bound(load(WHISPER), "prefill", on="h100", batch=np.array([1, 2]), prompt=4)
    one = serve_bound(load(WHISPER), "prefill", on="h100", batch=2, prompt=4)
    assert many.lower[1] == one.lower
    found = llm(load(FLAN_T5_XL), on="h100", batch=8, prompt=1, context=64, source="1k", weights="bf16", kv="bf16")
    said = [str(line) for line in found.decode.assumptions]
    assert any(line.startswith("the encoder reads 1,000 tokens of text of each sequence once, in pre") for line in said)
    assert found.memory.parts["kv"] == 8 * 24 * 2 * 2048 * 2 * (65 + 1000)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda model: train(model, on="h100", batch_tokens=4096), "training of whisper is not modelled: it has an"),
        (lambda model: budget(model, on="h100", tokens=1e9), "a training budget of whisper is not modelled"),
        (lambda model: plan(model, on="h100", rate="1/s", prompt=4, output=9), "a plan of whisper is not modelled"),
        (lambda model: serve_bound(model, "mixed", on="h100", chunk=4, context=9), "a mixed step of whisper is not"),
        (lambda model: llm(model, on="h100", prompt=64, chunk=16), "a prompt in chunks of whisper is not modelled"),
        (
            lambda model: serve_bound(model, "prefill", on="h100", prompt=4, past=np.array([0, 4])),
            "past= beside an encoder is a number: where it is 0 the source is read, else it has been; ask for each",
        ),
        (
            lambda model: sweep(model, "prefill", on="h100", prompt=4, past=[0, 4]),
            "past= beside an encoder is a number",
        ),
        (lambda model: llm(model, on="h100:2", pipeline=2, prompt=4), "a stage of the pipeline needs what the encoder"),
        (lambda model: llm(model, on="h100:2", context_parallel=2, prompt=4), "sharing sequences of whisper over"),
        (
            lambda model: llm(model, on="h100:2", tensor=2, sequence_parallel=True, prompt=4),
            "sequence parallelism of whisper is not modelled",
        ),
        (lambda model: llm(model, on="h100", source=2000), "reads 1,500 tokens at most, and the source has 2,000"),
        (lambda model: llm("llama-2-7b", on="h100", source=20), "llama-2-7b has no encoder that reads a source; leave"),
        (lambda model: load({**small("t5"), "feed_forward_proj": "geglu-x"}), "feed_forward_proj of t5 is not underst"),
        (lambda model: load({**small("marian"), "decoder_vocab_size": 80}), "marian has two tables of words"),
        (lambda model: load({**small("mvp"), "use_prompt": True}), "use_prompt of mvp is set; trained prompts of each"),
        (lambda model: load({"model_type": "t5gemma"}), "t5gemma has no encoder; a t5gemma configuration has both"),
    ],
)
def test_what_is_not_modelled_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(load(WHISPER))
