"""A model by name, folder or file → :class:`~roofline.models.description.Model`.

>>> load("llama-2-7b")
Model(llama-2-7b: 6,738,415,616 parameters, 32 layers)
>>> load("lama-2-7b")
Traceback (most recent call last):
roofline.errors.InputError: no model 'lama-2-7b'; did you mean 'llama-2-7b'?

A model in outline: a number of parameters and of cached elements a token, where there is no configuration yet.

Enough for the first estimates of serving (does it fit, how long is a step, how large a batch):

>>> from roofline.models import serve_bound
>>> model = outline(70e9, kv=2 * 80 * 8 * 128, dtype="int8")
>>> model
Model(outline: 70,000,000,000 parameters, 1 layers)
>>> model.kv_bytes_per_token("int8")
163840
>>> step = serve_bound(model, "decode", on="v5e", batch=1, context=2047, weights="int8", kv="int8", policy="streamed")
>>> sum(step.bytes.values()) == 70 * 10**9 + 2048 * 163840
True
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from roofline import dtypes
from roofline.answers import models_in
from roofline.errors import InputError, did_you_mean, quoted
from roofline.files import is_program, read_json
from roofline.frozen import dataclass, replace
from roofline.hardware.targets import is_machine
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.encoder import Encoder
from roofline.models.description import Block, CachedTokens, Layer, Model, RecordedBlock, shared_said
from roofline.models.families import language_part, read_as, reader_for, type_in_name, with_defaults
from roofline.models.fields import Fields
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import read_quantisation
from roofline.ops.masks import CAUSAL, FULL
from roofline.quantity import format_count
from roofline.signatures import call, spelled, takes
from roofline.sizes import check, grouped, is_zero
from roofline.statements import Gap
from roofline.work import Op, Tensor, Work

_CATALOG = os.path.join(os.path.dirname(__file__), "catalog")
_BESIDE = "_hf_quant_config.json"
#: Classes that judge a text: a number for each class or token in place of a head over the vocabulary.
_JUDGES = re.compile(r"For(Sequence|Token)Classification$|RewardModel$")
#: Classes that generate, by which code beside a checkpoint names them.
_GENERATES = re.compile(r"For(CausalLM|Seq2SeqLM|ConditionalGeneration)")
#: Types whose files name a class without more in its name for one that generates.
_PLAINLY_NAMED = ("chatglm", "internvl_chat")
_NARROW = re.compile(r"(fp8|nvfp4|mxfp4|int4|int8|awq|gptq)", re.IGNORECASE)


def is_model(text: str) -> bool:
    """Whether a word names a model: shipped, a path, or a hub's id; notation has brackets.

    >>> is_model("llama-3-70b"), is_model("meta-llama/Llama-3.1-8B"), is_model("bf16[B, D] * bf16[D, F]")
    (True, True, False)
    """
    return os.path.exists(text) or not any(letter in text for letter in "[(=*;") or text.endswith(".json")


@takes()
def load(source: Model | str | float | os.PathLike[str] | Mapping[str, Any], *, name: str | None = None) -> Model:
    """Read a model: one of the shipped names, a ``config.json``, a folder that holds one, or its fields as a mapping.

    So is a configuration of transformers, ``AutoConfig.from_pretrained(…)``. A number of parameters (``70e9``, ``13B``)
    is a model in outline. A :class:`Model` is returned unchanged.

    >>> load({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...       "intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": True}).parameters
    88640

    A file that is no configuration, a missing field, sizes that contradict each other and an unknown ``model_type``
    are errors. Fields that might change a cost and are not understood are listed in ``gaps``.

    ModelOpt writes how it quantised a checkpoint into an ``hf_quant_config.json`` beside the ``config.json``, or with
    the configuration's own name before it (``x.json``, ``x_hf_quant_config.json``). It is read wherever it lies there.
    """
    if isinstance(source, Model):
        return source
    as_dict = None if isinstance(source, Mapping | type) else getattr(source, "to_dict", None)
    if callable(as_dict) and isinstance(getattr(source, "model_type", None), str):  # a configuration of transformers
        source = as_dict()
    if isinstance(source, Mapping):
        named = (source.get(field) for field in ("_name_or_path", "model_type"))
        return from_fields(source, name or next((each for each in named if isinstance(each, str) and each), "model"))
    if isinstance(source, int | float) and not isinstance(source, bool):
        return outline(source, name=name or f"{format_count(check('parameters', source))} parameters")
    if not isinstance(source, str | os.PathLike):
        several = isinstance(source, list | tuple)
        beside = f"{call('llm')} and {call('train')} put several side by side"
        hint = f"give one; {beside}, and `roofline model llama-3-8b llama-3-70b` shows them" if several else ""
        usual = "give a shipped name, a config.json, or its fields"
        raise InputError(f"{quoted(source)} is not a model", hint=hint or usual)
    text = os.fsdecode(source)
    if is_program(text):
        raise InputError(f"{text} is a program, not a model's configuration", hint=f"{call('trace')} reads it")
    found = _stands_for(text)
    if found is None:
        raise _missing(text)
    if isinstance(found, float):
        return outline(found, name=name or f"{text} parameters")
    if os.path.dirname(found) == _CATALOG and not _is_path(text):
        model = _from_catalog(found, name or text)
        base = None if _shipped(text) else _tuned_from(text)
        if base is None or text.lower().endswith(f"/{base}"):
            return model
        note = f"{text} is read as {base}, which it was tuned from: its sizes are those of its base"
        return replace(model, notes=(*model.notes, note))
    if os.path.isdir(found):
        inside = os.path.join(found, "config.json")
        if not os.path.isfile(inside):
            raise InputError(f"the folder {text} holds no config.json", hint="name the file itself")
        found = inside
    folder, file = os.path.split(os.path.abspath(found))
    own = os.path.basename(folder) if file == "config.json" else file.removesuffix(".json")
    shown = own if os.path.exists(text) else text
    return from_fields(_with_quantisation_beside(_read(found), found), name or shown)


def _stands_for(text: str) -> str | float | None:
    """What a text names: a configuration's file or folder, or the parameters of an outline; None where it names none.

    >>> _stands_for("13B"), _stands_for("lama-2-7b"), _stands_for("llama-2-7b") == _stands_for("llama-2-7b-chat")
    (13000000000.0, None, True)
    """
    if (downloaded := _downloaded(text)) is not None:
        return downloaded
    base = None if _is_path(text) else _tuned_from(text)
    shipped = None if _is_path(text) else _shipped(text) or (base and _shipped(base))
    return shipped or (text if os.path.exists(text) else _count_of(text))


@takes()
def model(source: Model | str | float | os.PathLike[str] | Mapping[str, Any], *, name: str | None = None) -> Model:
    """Read a model: one of the shipped names, a ``config.json``, a folder that holds one, or its fields as a mapping.

    The same as :func:`roofline.models.load`. A list of what is shipped: ``roofline model`` on the command line.

    >>> model({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    ...        "num_key_value_heads": 8, "num_local_experts": 16, "num_experts_per_tok": 2, "intermediate_size": 2048,
    ...        "vocab_size": 32000}, name="mine")
    Model(mine: 14,491,586,560 parameters, 32 layers)
    """
    return load(source, name=name)


@lru_cache(256)
def _from_catalog(path: str, name: str) -> Model:
    """A shipped model: the same value each time, so that what was made for it is found again."""
    return from_fields(_with_quantisation_beside(_read(path), path), name)


def from_fields(data: Mapping[str, Any], name: str) -> Model:
    """Read a configuration that is in memory already."""
    try:
        return _from_fields(data, name)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", hint="some hundred lists within lists at most") from None


def _from_fields(data: Mapping[str, Any], name: str) -> Model:
    fields = Fields(data, name)
    kind = fields.text("model_type")
    if not kind:
        raise InputError(f"{name} has no model_type", hint="a config.json names its family there")
    _check_sections(data, name)
    fields, left = with_defaults(fields)
    fields = fields.with_values(model_type=read_as(kind))
    fields.ignore_inert()
    model = _without_head(reader_for(fields)(fields), fields)
    text = language_part(fields) or {}
    of_mlx = fields.get("quantization") if isinstance(data.get("quantization"), Mapping) else None
    section = data.get("quantization_config") or text.get("quantization_config") or of_mlx
    expert = data.get("expert_dtype")
    quantisation = None
    if isinstance(section, Mapping) and section:
        quantisation = read_quantisation(section, expert)
    written = data.get("torch_dtype") or data.get("dtype") or text.get("torch_dtype") or text.get("dtype")
    gaps = [*model.gaps]
    gaps += [Gap("field", f"{field} is not understood and not modelled") for field in fields.unread()]
    gaps += [Gap("format", text) for text in (quantisation.gaps if quantisation else ())]
    narrow = _NARROW.search(name)
    if narrow and quantisation is None:
        said = "the configuration has no quantization_config"
        gaps.append(Gap("format", f"the name says {narrow[0]}, {said}: weights as {written or 'bf16'}"))
    notes = [*model.notes, *left()]
    if model.extra:
        notes.append(f"{len(model.extra)} multi-token-prediction layers are counted apart (mtp_parameters) and not run")
    notes += shared_said(model)
    dtype = dtypes.get(str(written)).name if written else "bf16"
    # a section inside text_config is about the language model alone
    beside = quantisation if data.get("quantization_config") else None
    return replace(
        model,
        name=name,
        family=kind,
        # a table that is quantised apart from the head is no longer the head's
        tied=model.tied and not (isinstance(section, Mapping) and section.get("untie_embedding_weights")),
        dtype=dtype,
        vision=None if model.vision is None else model.vision.in_formats(dtype, beside),
        quantisation=quantisation,
        gaps=tuple(dict.fromkeys(gaps)),
        notes=tuple(notes),
        source=str(data.get("_source", "")),
    )


def _without_head(model: Model, fields: Fields) -> Model:
    """A decoder that judges or embeds texts: the class that its configuration names has no head, and generates nothing.

    A class that is named for its type alone (``MistralModel``) gives hidden states, where a head would be one apart
    and no code beside the checkpoint makes it a generator.

    >>> fields = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...           "intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": False}
    >>> classes = ("LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel")
    >>> [load({**fields, "architectures": [each]}).parameters for each in classes]
    [95040, 88640, 88640]
    """
    code = fields.get("auto_map")
    plain = re.sub(r"[-_]", "", model.family).lower() + "model"
    generator = model.tied or model.family in _PLAINLY_NAMED
    generator = generator or (isinstance(code, Mapping) and _GENERATES.search(str(code)) is not None)
    headless = next((c for c in fields.classes if _JUDGES.search(c) or (not generator and c.lower() == plain)), None)
    if headless is None or not (model.head and model.causal) or any(isinstance(each, Encoder) for each in model.before):
        return model
    model = model.with_blocks(lambda block: replace(block, cached=False) if isinstance(block, Attention) else block)
    note = f"{headless} has no head over the vocabulary: it generates nothing"
    return replace(model, head=False, causal=False, notes=(*model.notes, note))


def names() -> list[str]:
    """The names of the shipped models, shortest first for each.

    >>> {"llama-2-7b", "gpt-3", "deepseek-v3", "mixtral-8x7b"} <= set(names())
    True
    """
    return sorted(_index())


def shipped_names() -> list[list[str]]:
    """The shipped models, each with all its names, shortest first; a name with its owner is left out."""
    of = grouped((file, name) for name, file in _index().items() if "--" not in name)
    return sorted(sorted(names, key=lambda name: (len(name), name)) for names in of.values())


@cache
def _index() -> dict[str, str]:
    with open(os.path.join(_CATALOG, "index.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def _shipped(name: str) -> str | None:
    index, wanted = _index(), name.strip().lower().replace("/", "--")
    file = index.get(wanted)
    if file is None and not os.path.exists(name):
        letters = _letters(wanted)
        alike = {path for known, path in index.items() if _letters(known) == letters}
        file = alike.pop() if len(alike) == 1 else None
    return None if file is None else os.path.join(_CATALOG, file)


#: An id of the Hugging Face hub: whose, and which.
_HUB_ID = re.compile(r"([\w.-]+)/([\w.-]+)")

#: What names of tuned models have at their end; their sizes are those of the model they were tuned from.
_TUNED = ("-instruct", "-chat", "-it", "-hf", "-chat-hf", "-base")


def _downloaded(name: str) -> str | None:
    """The config.json of a hub id that is in the local cache of the Hugging Face hub: no network is asked."""
    found = _HUB_ID.fullmatch(name.strip())
    if found is None or os.path.exists(name):
        return None
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(cache, f"models--{found[1]}--{found[2]}", "snapshots")
    snapshots = os.listdir(folder) if os.path.isdir(folder) else ()
    configs = [os.path.join(folder, each, "config.json") for each in snapshots]
    return max(filter(os.path.isfile, configs), key=os.path.getmtime, default=None)


def _tuned_from(name: str) -> str | None:
    """The shipped model that a tuned one is named after, of the same owner where the name has one.

    >>> _tuned_from("meta-llama/Llama-3.1-70B-Instruct"), _tuned_from("somebody/Llama-3.1-70B-Instruct")
    ('llama-3.1-70b', None)
    >>> _tuned_from("llama-3-70b-instruct"), _tuned_from("llama-3-70b-instrukt")
    ('llama-3-70b', None)
    """
    found = re.fullmatch(r"(?:([\w.-]+)/)?([\w.-]+)", name.strip().lower())
    if found is None or os.path.exists(name):
        return None
    owner, model = found.groups()
    bases = (model.removesuffix(ending) for ending in ("", *_TUNED) if model.endswith(ending))
    index, of = _index(), f"{owner}--" if owner else ""
    return next((base for base in bases if base in index and index[base].startswith(of)), None)


def _letters(name: str) -> str:
    """A name without separators: ``llama13b`` is ``llama-13b``."""
    return re.sub(r"[-_. ]", "", name)


def _is_path(text: str) -> bool:
    return text.endswith(".json") or text.startswith((".", os.sep)) or os.path.isdir(text)


def _count_of(text: str) -> float | None:
    """Read a number of parameters (``70e9``, ``13B``) that stands in place of a model; None where it is none.

    >>> _count_of("70e9"), _count_of("13B"), _count_of("0.5b"), _count_of("gpt-2")
    (70000000000.0, 13000000000.0, 500000000.0, None)
    """
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?(?:e\+?\d+)?)([MBT]?)", text, re.IGNORECASE)
    if found is None:
        return None
    return float(found[1]) * {"": 1.0, "m": 1e6, "b": 1e9, "t": 1e12}[found[2].lower()]


def _digits(name: str) -> str:
    return re.sub(r"\D", "", name)


#: Longer texts are like no name.
LONGEST_NAME = 1_000
_LISTED = "; `roofline model` lists the shipped ones"
_NOT_SHIPPED = (
    "`roofline model` lists the shipped ones; a config.json of a transformer does as well, "
    "and `roofline trace` reads any other network from its program"
)


def _has_another_word(name: str, near: str) -> bool:
    """Whether a word of ``name`` is none of ``near``'s misspelt.

    >>> _has_another_word("bert-large", "bert-base"), _has_another_word("bert-bsae", "bert-base")
    (True, False)
    """
    words = re.split(r"[-_. ]", near)
    return any(did_you_mean(word, words) is None and len(word) > 3 for word in re.split(r"[-_. ]", name))


def _begun(name: str) -> str:
    """The shipped models with a name as a word, or with all its parts, letters and numbers apart; empty where none is.

    >>> _begun("llama3"), _begun("scout"), _begun("gpt-5")
    ('llama-3-405b, llama-3-70b, llama-3-8b', 'llama-4-scout', '')
    """
    parts = _parts(name)
    shipped = [each for each, *_ in shipped_names()]
    found = [each for each in shipped if len(name) > 1 and name in each.split("-")]
    found = found or [each for each in shipped if len(parts) > 1 and not parts - _parts(each)]
    return ", ".join(found[:6]) + ("; roofline model lists all" if len(found) > 6 else "")


def _nearest(name: str, known: list[str]) -> str | None:
    """Of ``known`` the name most like ``name``; before them a shipped model of its version and another size.

    >>> _nearest("llama-3.1-1b", names()), _nearest("mixtrall-8x7b", names()), _nearest("banana", names())
    ('llama-3.1-8b', 'mixtral-8x7b', None)
    """
    version, *sized = re.split(r"-(?=\d+(?:\.\d+)?[bm]\b)", name, maxsplit=1)
    siblings = [each for each in names() if sized and each.startswith(f"{version}-")]
    return did_you_mean(name, siblings) or did_you_mean(name, known)


def _parts(name: str) -> Counter[str]:
    """Words and numbers of a name: ``llama3-8b`` has llama, 3 and 8b."""
    return Counter(re.findall(r"[a-z]+(?=\d)|\d+(?:\.\d+)*[bkm]?|[a-z]+", name.lower()))


def load_each(source: Any) -> list[Model]:
    """One model, or each of several in a text with commas or in a list.

    >>> [model.name for model in load_each("llama-3-8b, qwen3-8b")], len(load_each("llama-3-8b"))
    (['llama-3-8b', 'qwen3-8b'], 1)
    """
    several = models_in(source)
    if several == []:
        raise InputError("no model is named", hint="one or more, as in 'llama-3-8b,qwen3-8b'")
    asked = several if isinstance(several, list) else [several]
    refuse_unknown(asked)
    return [load(each) for each in asked]


#: How many unknown models of one call are named.
MOST_NAMED = 8


def refuse_unknown(asked: Sequence[Any]) -> None:
    """Refuse several names of which more than one is not known: all of them at once, of many the first few."""
    names = dict.fromkeys(each for each in asked if isinstance(each, str) and not _is_line(each))
    unknown = list(islice((each for each in names if _stands_for(each) is None), MOST_NAMED))
    if len(unknown) > 1:
        of_hint = grouped((_missing(each, listed="").hint, each) for each in unknown)
        hint = "; ".join(f"{', '.join(of)}: {each}" for each, of in of_hint.items())
        listed = "" if _NOT_SHIPPED in of_hint else _LISTED
        raise InputError(f"no models {', '.join(map(repr, unknown))}", hint=f"{hint}{listed}")


def _is_line(text: str) -> bool:
    return "[" in text and "]" in text


def _missing(text: str, *, listed: str = _LISTED) -> InputError:
    if len(text) > LONGEST_NAME:
        return InputError(f"no model {quoted(text)}", hint=_NOT_SHIPPED)
    if _is_path(text):
        stem = os.path.basename(text).removesuffix(".json").lower()
        hint = f"the shipped model is called {stem!r}" if stem in _index() else "check the path"
        return InputError(f"no file {text}", hint=hint)
    if _is_line(text):
        hint = "bound, advise and solve ask about one; a sweep is of one line, or of models: 'gpt2,qwen3-8b'"
        return InputError(f"{quoted(text)} is a line, not a model", hint=hint)
    if "," in text and re.search("[A-Za-z]", text):
        several = "llm and train put several side by side, at several batches too; sweep makes a table of them"
        return InputError(f"one model here, not {text.count(',') + 1}: {text}", hint=several)
    plain = text.strip().lower()
    if is_machine(plain):
        wrong = f"{quoted(text)} is a machine, not a model"
        return InputError(wrong, hint=f"name a model; to llm and train it is {spelled('on', text)}")
    kind = type_in_name(plain)
    if _HUB_ID.fullmatch(text.strip()):
        hint = "it is neither shipped nor in the hub's local cache: give its config.json, or a folder that holds it"
        near = _nearest(plain.partition("/")[2].removeprefix("meta-"), [name for name, *_ in shipped_names()])
        hint += f"; {near} is shipped" if near else ""
        hint += f"; model_type {kind!r} is read" if kind else ""
        return InputError(f"no model {text!r}", hint=hint)
    near = _nearest(plain, names())
    if begun := _begun(plain):
        return InputError(f"no model {text!r}", hint=f"shipped are: {begun}")
    if kind and near and not _letters(near).startswith(_letters(kind)):
        near = None  # of another family
    hint = f"did you mean {near!r}?" if near else _NOT_SHIPPED
    if kind and (near is None or _digits(near) != _digits(plain) or _has_another_word(plain, near)):
        said = f"{hint} " if near else ""
        hint = (
            f"{said}it is not shipped, but model_type {kind!r} is read: give its config.json, or a folder that holds it"
            f"{listed}"
        )
    return InputError(f"no model {text!r}", hint=hint)


def _read(path: str) -> dict[str, Any]:
    data = read_json(path, "configuration")
    if not isinstance(data, dict):
        raise InputError(f"{path} is not a configuration", hint="a config.json is a set of fields in braces")
    return data


def _with_quantisation_beside(data: dict[str, Any], path: str) -> dict[str, Any]:
    """A configuration with the section that lies in a file beside it; its own section goes first.

    Where both are there, the file beside it adds what the configuration leaves out, as the format of keys and values.
    """
    own = data.get("quantization_config")
    inner = data.get("text_config")
    if own is None and isinstance(inner, Mapping) and inner.get("quantization_config"):
        return data
    stem = path.removesuffix(".json")
    names = [
        f"{stem}{_BESIDE}",
        *([stem.removesuffix("config") + _BESIDE[1:]] if os.path.basename(path) == "config.json" else []),
    ]
    beside = next((name for name in names if os.path.isfile(name)), None)
    found = {} if beside is None else _read(beside)
    if not found.get("quantization") or not isinstance(own or {}, Mapping):
        return data
    Fields(found, str(beside)).section("quantization")
    return {**data, "quantization_config": {"quant_method": "modelopt", **found["quantization"], **(own or {})}}


def _check_sections(data: Mapping[str, Any], name: str) -> None:
    """Every field that is called a section is one, those of the language part too; null leaves it out, a mark
    (``_from_model_config``, ``is_llama_config``) is none.

    >>> _check_sections({"quantization_config": "fp8"}, "toy")
    Traceback (most recent call last):
    ...
    roofline.errors.InputError: quantization_config of toy is 'fp8'; it is a set of fields
    """
    fields = Fields(data, name)  # of its own: what is checked here is not yet read
    for part in (fields, Fields(language_part(fields) or {}, f"the language part of {name}")):
        for field in part.names():
            if field.endswith("_config") and not field.startswith(("_", "is_")):
                part.section(field)


@dataclass(frozen=True, slots=True)
class Parameters(RecordedBlock):
    """All matrices together: each of ``count`` parameters serves every token once."""

    count: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        builder.declare("", (self.count, 1), "linear")
        (matrix, *beside), own = builder.read_weight(builder.weights[""])
        tokens = builder.step.tokens
        out = builder.output("", *x.dims)
        work = Work.flops("matrix", own or dtypes.arithmetic([x.dtype, matrix.dtype]), 2 * tokens * self.count)
        sizes = {"tokens": tokens, "parameters": self.count}
        builder.add(Op("", "contraction", work, (x, matrix, *beside), (out,), sizes), "")
        return out


@dataclass(frozen=True, slots=True)
class Cache(Block):
    """Keys and values, ``each`` elements a token; each is used by ``queries`` heads, where that is known."""

    each: int
    queries: int | None = None

    def kept_per_token(self) -> tuple[CachedTokens, ...]:
        return (CachedTokens("keys and values", self.each),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        read = []
        if not is_zero(step.past):
            read.append(Tensor(builder.path("cache"), (step.batch, step.past, self.each), step.kv, "kv"))
        new = Tensor(builder.path("new"), (step.tokens, self.each), step.kv, "kv")
        pairs = (FULL if step.full else CAUSAL).pairs(step.new, step.length)
        work = Work.flops("matrix", step.activations, 2 * step.batch * pairs * self.each * (self.queries or 0))
        builder.add(Op("", "attention", work, (x, *read), (new,), {"pairs": pairs}), "")
        return x


@takes()
def outline(
    parameters: float, *, kv: int = 0, queries: int | None = None, dtype: str = "bf16", name: str = "outline"
) -> Model:
    """A model of ``parameters``, all used by every token, that keeps ``kv`` elements of keys and values a token.

    ``queries`` is the number of query heads that share a head of keys. Without it attention's arithmetic is left out,
    and the answer says so. The model has no norms, activations or embedding tables.
    """
    blocks: list[Block] = [Parameters("parameters", check("parameters", parameters))]
    gaps: tuple[str, ...] = ()
    if queries is not None and not kv:
        raise InputError("queries share keys, and there are none", hint="add kv=, or leave queries out")
    if kv:
        heads = None if queries is None else check("queries", queries)
        blocks.append(Cache("attention", check("kv", kv), heads))
        if heads is None:
            gaps = ("attention's arithmetic is not counted: how many query heads share keys is not said",)
    return Model(
        name=name,
        family="outline",
        width=0,
        vocabulary=0,
        layers=(Layer(tuple(blocks)),),
        dtype=dtypes.get(dtype).name,
        head=False,
        gaps=gaps,
        notes=(f"a model in outline: {'parameters and' if kv else 'parameters alone, no'} keys and values",),
    )
