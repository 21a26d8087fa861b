"""Fields: a configuration's entries, read by name and checked; entries that no reader has read are reported.

>>> fields = Fields({"model_type": "llama", "hidden_size": 64, "new_trick": 3}, "toy")
>>> fields.size("hidden_size")
64
>>> fields.size("vocab_size")
Traceback (most recent call last):
roofline.errors.InputError: toy has no vocab_size; a llama configuration needs it
>>> fields.unread()
['new_trick']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofline.errors import InputError, quoted, suggest
from roofline.files import MOST_LAYERS

_WORDS = """
residual_dropout logit_scale dropout layerdrop activation_dropout init_std original_max_position_embeddings
architectures auto_map model_type _name_or_path name_or_path transformers_version torch_dtype dtype use_cache
ignore_index initializer_range initializer_factor rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon
norm_eps rope_theta rope_scaling rope_parameters rope_interleave rope_ratio swa_rope_theta compress_rope_theta
rope_local_base_freq max_position_embeddings initial_context_length max_window_layers n_ctx n_positions
attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop attn_pdrop
summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout task_specific_params
output_attentions output_hidden_states output_router_logits router_aux_loss_coef router_jitter_noise
router_z_loss_coef aux_loss_alpha seq_aux aux_loss_coef pretraining_tp ep_size id2label label2id num_labels
problem_type gradient_checkpointing norm_topk_prob topk_group n_group topk_method routed_scaling_factor scoring_func
score_func moe_router_scaling_factor moe_router_dtype use_moe_router_bias use_routing_bias
moe_router_topk_scaling_factor expert_selection_fn attention_value_scale scale_attn_weights
scale_attn_by_inverse_layer_idx reorder_and_upcast_attn query_pre_attn_scalar logits_scaling embedding_multiplier
residual_multiplier attention_multiplier residual_in_fp32 rescale_prenorm_residual time_step_floor time_step_limit
time_step_max time_step_min time_step_rank mamba_dt_rank use_mamba_kernels chunk_size num_logits_to_keep
swiglu_alpha swiglu_limit swiglu_limits swiglu_limits_shared use_mrope mrope_section rope_type use_qk_norm
quantization_config output_gate_type use_gemma_norm hc_eps hc_sinkhorn_iters num_hash_layers indexer_rope_interleave
index_share_for_mtp_iteration attn_implementation _attn_implementation _attn_implementation_autoset
tie_encoder_decoder is_decoder chunk_size_feed_forward cross_attention_hidden_size remove_invalid_values return_dict
return_dict_in_generate output_scores prefix torchscript finetuning_task tokenizer_class use_bfloat16 tf_legacy_loss
bad_words_ids begin_suppress_tokens suppress_tokens diversity_penalty do_sample early_stopping
encoder_no_repeat_ngram_size exponential_decay_length_penalty length_penalty max_length min_length
no_repeat_ngram_size num_beam_groups num_beams num_return_sequences repetition_penalty temperature top_k top_p
typical_p video_placeholder use_unified_vision_chunk language_model_only vision_soft_tokens_per_image
position_embedding_type classifier_dropout moe_shared_expert_overlap qk_head_dim num_key_value_groups
is_composition is_llama_config pixel_shuffle_factor perceiver_config
attn_logit_softcapping cache_implementation norm_epsilon output_past model_max_length num_image_tokens
"""

#: Fields that change no operation, no parameter and no byte: training, generation, numerics, bookkeeping.
INERT = frozenset(_WORDS.split())


#: Names that configurations give one thing. A field of the same value as one that is read says nothing new.
SYNONYMS: tuple[frozenset[str], ...] = tuple(
    frozenset(line.split())
    for line in (
        "head_dim attention_head_dim kv_channels head_size",
        "num_key_value_heads num_kv_heads n_kv_heads n_head_kv num_query_groups",
        "num_attention_heads n_head n_heads num_heads",
        "num_experts n_routed_experts num_local_experts moe_num_experts num_routed_experts",
        "num_experts_per_tok num_experts_per_token top_k_experts moe_topk moe_top_k moe_k num_selected_experts",
        "moe_intermediate_size expert_intermediate_size moe_ffn_hidden_size ffn_hidden_size_moe",
        "n_shared_experts num_shared_experts moe_num_shared_experts",
        "hidden_size d_model n_embd model_dim",
        "num_hidden_layers n_layer n_layers num_layers",
        "intermediate_size ffn_hidden_size ffn_dim n_inner d_ff",
        "hidden_act hidden_activation activation_function mlp_hidden_act",
        "sliding_window sliding_window_size attention_window_size",
        "num_nextn_predict_layers mtp_num_hidden_layers num_mtp_layers",
        "layer_types layers_block_type",
        "qk_rope_head_dim head_dim rotary_dim",
    )
)


class Fields:
    """A configuration, and the fields that have been read."""

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self._data, self._asked, self.name = data, set[str](), name
        self._own = frozenset(data)
        self.kind = str(data.get("model_type", ""))

    def __contains__(self, field: str) -> bool:
        self._asked.add(field)
        return self._data.get(field) is not None

    def get(self, field: str, default: Any = None) -> Any:
        """The field, or ``default`` where it is missing or null."""
        self._asked.add(field)
        value = self._data.get(field)
        return default if value is None else value

    def size(self, *names: str, default: int | None = None, most: int = 10**12) -> int:
        """A whole number of at least 1, under the first of the names that is there."""
        self._asked.update(names)
        for field in names:
            value = self._data.get(field)
            if value is not None:
                return self._whole(field, value, most)
        if default is None:
            raise InputError(f"{self.name} has no {names[0]}", hint=f"a {self.kind or 'model'} configuration needs it")
        return default

    def count(self, *names: str, most: int = 10**12) -> int:
        """A whole number of at least 0; 0 where the field is missing."""
        self._asked.update(names)
        found = next((self._data[field] for field in names if self._data.get(field) is not None), 0)
        return 0 if found == 0 and not isinstance(found, bool) else self.size(*names, most=most)

    def layers(self, *names: str, default: int | None = None) -> int:
        """A number of layers, which are made one by one: at least 1, or 0 where that is the default."""
        return (
            self.count(*names, most=MOST_LAYERS)
            if default == 0
            else self.size(*names, default=default, most=MOST_LAYERS)
        )

    def optional(self, field: str) -> int | None:
        """A whole number of at least 1, None where it is missing or null."""
        return self.size(field) if field in self else None

    def fraction(self, field: str) -> float | None:
        """A fraction above 0 and up to 1, None where it is missing."""
        return self._above_zero(field, 1, "it is a fraction, above 0 and up to 1") if field in self else None

    def factor(self, field: str) -> float:
        """A number above 0 by which a size is multiplied."""
        return self._above_zero(field, 1e6, "it is a number above 0")

    def text(self, field: str) -> str:
        """A text, empty where it is missing."""
        value = self.get(field, "")
        if not isinstance(value, str):
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint="it is a text")
        return value

    def flag(self, field: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(field, default)
        if not isinstance(value, bool):
            raise InputError(f"{field} of {self.name} is {value!r}", hint="it is true or false")
        return value

    def listed(self, field: str, length: int | None = None, *, nested: bool = False) -> list[Any] | None:
        """A list, of one entry a layer where ``length`` is given; None where it is missing.

        Entries are words, numbers or truths; only a ``nested`` list has lists and sections in it.
        """
        value = self.get(field)
        if value is None:
            return None
        if not isinstance(value, list):
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint="it is a list")
        inner = None if nested else next((each for each in value if isinstance(each, list | dict)), None)
        if inner is not None:
            raise InputError(f"{field} of {self.name} lists {quoted(inner)}", hint="a list of words or numbers")
        if length is not None and len(value) < length:
            raise InputError(
                f"{field} of {self.name} lists {len(value)} layers and num_hidden_layers says {length}",
                hint="the two contradict each other",
            )
        return value

    def section(self, field: str) -> Fields | None:
        """A part of the configuration with fields of its own, None where it is missing."""
        value = self.get(field)
        return None if value is None else _section(value, f"{field} of {self.name}")

    def sections(self, field: str, length: int) -> list[Fields] | None:
        """A list of parts with fields of their own, one a layer; None where it is missing."""
        listed = self.listed(field, length, nested=True)
        named = f"of {field} of {self.name}"
        return listed and [_section(one, f"layer {layer} {named}") for layer, one in enumerate(listed[:length])]

    def renamed(self, **names: str) -> Fields:
        """The same fields, with some also under other names."""
        self._asked.update(names)
        moved = {new: self._data[old] for old, new in names.items() if self._data.get(old) is not None}
        return self.with_values(**moved)

    def with_values(self, **fields: Any) -> Fields:
        """The same fields with further ones."""
        found = Fields({**self._data, **fields}, self.name)
        found._asked, found._own = self._asked, self._own
        return found

    def with_single_values(self, *names: str) -> Fields:
        """The same fields, with a list that repeats one value written as the value."""
        lists = {name: self._data[name] for name in names if isinstance(self._data.get(name), list)}
        return self.with_values(
            **{name: each[0] for name, each in lists.items() if each and each == each[:1] * len(each)}
        )

    def choice(self, field: str, known: Iterable[str], default: str | None = None) -> str:
        """One of a few words."""
        value, words = self.get(field, default), list(known)
        if value not in words:
            raise InputError(
                f"{field} of {self.name} is {quoted(value)}", hint=suggest(str(value), words, what=f"known for {field}")
            )
        return str(value)

    def names(self) -> list[str]:
        """Names of the fields."""
        return list(self._data)

    def ignore(self, *names: str) -> None:
        """Mark fields as read that change nothing here."""
        self._asked.update(names)

    def unread(self) -> list[str]:
        """Fields that no reader has read and that might change a cost: not inert, not empty, not switched off.

        Defaults that are not in the file, and fields that repeat another under a second name, are left out.
        """
        return [
            field
            for field, value in self._data.items()
            if field not in self._asked
            and field in self._own
            and field not in INERT
            and not field.startswith("_")
            and not field.endswith(("_token_id", "_token_ids", "_token_index"))
            and value not in (None, False, {}, [], "")
            and not self._repeats(field, value)
        ]

    def _repeats(self, field: str, value: Any) -> bool:
        """Whether a field that is read has another name of the same thing and the same value."""
        others = {name for names in SYNONYMS if field in names for name in names} - {field}
        return any(name in self._asked and self._data.get(name) == value for name in others)

    def _above_zero(self, field: str, most: float, hint: str) -> float:
        value = self.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint=hint)
        return float(value)

    def _whole(self, field: str, value: Any, most: int) -> int:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 1 <= value <= most or value != int(value):
            hint = f"it is a whole number from 1 to {most:,}"
            hint = "it is a whole number of at least 1" if not number or value < most else hint
            raise InputError(f"{field} of {self.name} is {quoted(value)}", hint=hint)
        return int(value)


def divide_evenly(fields: Fields, total: int, parts: int, what: str) -> int:
    """Divide without remainder, or raise an error that names the two sizes."""
    if total % parts:
        raise InputError(f"{fields.name}: {what.format(total=total, parts=parts)}", hint="check the configuration")
    return total // parts


def _section(value: Any, name: str) -> Fields:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {quoted(value)}", hint="it is a set of fields")
    return Fields(value, name)
