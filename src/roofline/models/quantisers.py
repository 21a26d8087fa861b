"""Sections that quantisation libraries write: torchao, Quark, HQQ, Quanto, EETQ.

>>> from roofline.models.quantisation import read
>>> found = read({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {}}}})
>>> found.storage("model.layers.0.mlp.up_proj", "linear")
Storage(dtype='int4', scale='bf16', block=(1, 128), compute='', zero='bf16', nested=0)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from roofline.errors import InputError, suggest
from roofline.models.quantisation import KV_FORMATS, Modules, Quantisation, modules
from roofline.models.storage import Storage

Section = Mapping[str, Any]


def _hqq(section: Section, _: str | None) -> Quantisation:
    """Groups of weights with a scale and a zero point, both in 16 bits unless they are quantised in turn."""
    whole = section.get("quant_config") or section
    kept = modules(section.get("skip_modules") or ["lm_head"])
    if "weight_quant_params" in whole or "nbits" in whole:
        return Quantisation("hqq", _hqq_storage(whole), kept=kept)
    by = {str(name): _hqq_storage(each) for name, each in whole.items()}
    # each stands for every layer's module of that name
    listed = tuple((modules([f"*.{name}"]), storage) for name, storage in by.items())
    return Quantisation("hqq", None, listed=listed, kept=kept)


def _hqq_storage(section: Section) -> Storage:
    weight = section.get("weight_quant_params") or section
    bits, group = weight.get("nbits", 4), weight.get("group_size", 64)
    _check(bits, (8, 4, 2, 1), "bits of HQQ")
    scales = section.get("scale_quant_params") or {}
    zeros = section.get("zero_quant_params") or {}
    return Storage(
        f"int{bits}", "int8" if scales else "fp16", (1, group or 0), zero="int8" if zeros else "fp16",
        nested=scales.get("group_size") or 0,
    )  # fmt: skip


def _quanto(section: Section, _: str | None) -> Quantisation:
    """8 bits with a scale a row; 4 and 2 bits in groups of 128 with a scale and a shift each, both in 16 bits."""
    formats = {
        "int8": Storage("int8", "bf16", (1, 0)),
        "float8": Storage("fp8_e4m3", "bf16", (1, 0)),
        "int4": Storage("int4", "bf16", (1, 128), zero="bf16"),
        "int2": Storage("int2", "bf16", (1, 128), zero="bf16"),
    }
    name, inputs = section.get("weights") or "int8", section.get("activations")
    _check(name, formats, "weights of Quanto")
    arithmetic = {None: "", "int8": "int8", "float8": "fp8"}
    _check(inputs, arithmetic, "activations of Quanto")
    kept = modules([*(section.get("modules_to_not_convert") or []), "lm_head"])
    return Quantisation("quanto", replace(formats[name], compute=arithmetic[inputs]), kept=kept)


def _eetq(section: Section, _: str | None) -> Quantisation:
    """8 bits with a scale a row, widened before use."""
    kept = modules(section.get("modules_to_not_convert") or [])
    return Quantisation("eetq", Storage("int8", "fp16", (1, 0)), kept=kept)


# ---- torchao


def _torchao(section: Section, _: str | None) -> Quantisation:
    """One format for every matrix, or formats by module; older sections name the function in place of its class."""
    kind = section.get("quant_type")
    if isinstance(kind, Mapping):
        kind = kind.get("default", kind)
    else:
        name = "".join(part.capitalize() for part in str(kind).split("_"))
        kind = {"_type": f"{name}Config", "_data": section.get("quant_type_kwargs") or {}}
    kept = modules(section.get("modules_to_not_convert") or [])
    data = kind.get("_data") or {}
    by = data.get("module_fqn_to_config") or data.get("fqn_to_config")
    if by is None:
        return Quantisation("torchao", _torchao_storage(kind), kept=kept)
    default = by.get("_default")
    listed: list[tuple[Modules, Storage | None]] = []
    # exact names come before patterns
    for name in sorted(by, key=lambda each: each.startswith("re:")):
        path = re.sub(r"\.weight$", "", name)
        if name != "_default":
            listed.append((modules([path]), None if by[name] is None else _torchao_storage(by[name])))
    made = None if default is None else _torchao_storage(default)
    if made is not None and section.get("include_input_output_embeddings"):
        listed.append((modules(["*lm_head"]), made))
    return Quantisation("torchao", made, listed=tuple(listed), kept=kept)


def _torchao_storage(config: Section) -> Storage:
    name, data = str(config.get("_type")), config.get("_data") or {}
    _check(name, _TORCHAO, "torchao configuration")
    return _TORCHAO[name](data)


def _granularity(data: Section, *names: str) -> tuple[int, int]:
    """Block of one scale: a whole matrix, a row, or a group within a row."""
    found = next((data[name] for name in names if data.get(name)), None)
    if isinstance(found, list):
        found = found[-1]
    if not isinstance(found, Mapping):
        return (0, 0)
    if found.get("_type") == "PerGroup":
        return (1, int((found.get("_data") or {})["group_size"]))
    return (0, 0) if found.get("_type") == "PerTensor" else (1, 0)


def _any_int(data: Section, compute: str) -> Storage:
    """Whole numbers of as many bits as it says, in groups or by row."""
    said = data.get("weight_dtype", "int8")
    dtype = str(said.get("_data") if isinstance(said, Mapping) else said).removeprefix("torch.")
    _check(dtype, ("int8", "int4", "int2", "int1"), "weights of torchao")
    block = _granularity(data, "weight_granularity", "granularity")
    mapping = str(data.get("weight_mapping_type", data.get("mapping_type", "SYMMETRIC")))
    zero = "int8" if "ASYMMETRIC" in mapping else ""
    return Storage(dtype, "bf16", block if block != (0, 0) else (1, 0), compute, zero)


def _group(data: Section, default: int) -> tuple[int, int]:
    return (1, int(data.get("group_size") or default))


_TORCHAO: dict[str, Callable[[Section], Storage]] = {
    "Int4WeightOnlyConfig": lambda data: Storage("int4", "bf16", _group(data, 128), zero="bf16"),
    "Int8WeightOnlyConfig": lambda data: Storage("int8", "bf16", _group(data, 0)),
    "Int8DynamicActivationInt8WeightConfig": lambda data: Storage("int8", "bf16", (1, 0), "int8"),
    "Int8DynamicActivationInt4WeightConfig": lambda data: Storage("int4", "bf16", _group(data, 32), "int8"),
    "Float8WeightOnlyConfig": lambda data: Storage("fp8_e4m3", "fp32", (1, 0)),
    "Float8DynamicActivationFloat8WeightConfig": lambda data: Storage(
        "fp8_e4m3", "fp32", _granularity(data, "granularity"), "fp8"
    ),
    "Float8DynamicActivationInt4WeightConfig": lambda data: Storage("int4", "bf16", (1, 128), "fp8", "bf16"),
    "IntxWeightOnlyConfig": lambda data: _any_int(data, ""),
    "Int8DynamicActivationIntxWeightConfig": lambda data: _any_int(data, "int8"),
    "NVFP4DynamicActivationNVFP4WeightConfig": lambda data: Storage("nvfp4", compute="fp4"),
}


# ---- Quark


def _quark(section: Section, _: str | None) -> Quantisation:
    """AMD's: one format, others by module, and keys and values where its projections' outputs are quantised."""
    section = section.get("quant_config") or section
    general = (section.get("global_quant_config") or {}).get("weight")
    by = section.get("layer_quant_config") or {}
    keys, listed = None, []
    for pattern, each in by.items():
        output = each.get("output_tensors") or {}
        if output and re.search(r"k_proj|v_proj|kv|qkv", pattern):
            keys = KV_FORMATS.get(str(output.get("dtype")).upper().removesuffix("_E4M3"), keys)
        if each.get("weight"):
            listed.append((modules([pattern]), _quark_storage(each)))
    for each in (section.get("kv_cache_quant_config") or {}).values():
        output = each.get("output_tensors") or {}
        keys = KV_FORMATS.get(str(output.get("dtype")).upper().removesuffix("_E4M3"), keys)
    kept = modules(section.get("exclude") or [])
    if not general and not listed:
        raise InputError("the quark section says no format of weights", hint="global_quant_config holds it")
    made = _quark_storage(section["global_quant_config"]) if general else None
    return Quantisation("quark", made, listed=tuple(listed), kept=kept, kv=keys)


def _quark_storage(section: Section) -> Storage:
    weight, inputs = section["weight"], section.get("input_tensors") or {}
    dtype, group = str(weight.get("dtype")), weight.get("group_size") or 0
    wide = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp4": "fp4", "fp4_e2m1": "fp4", "int8": "int8"}
    _check(dtype, (*wide, "int4", "uint4"), "weights of Quark")
    compute = wide.get(str(inputs.get("dtype")), "")
    if wide.get(dtype) == "fp4":
        return Storage("mxfp4", compute=compute)
    block = {"per_tensor": (0, 0), "per_channel": (1, 0)}.get(str(weight.get("qscheme")), (1, group))
    if wide.get(dtype) == "fp8":
        return Storage("fp8_e4m3", "fp32", block, compute)
    bits = "int8" if dtype == "int8" else "int4"
    return Storage(bits, "bf16", block, compute, "" if weight.get("symmetric", True) else bits)


def _check(found: Any, known: Any, what: str) -> None:
    if found not in known:
        raise InputError(
            f"{what}: {found!r} is not understood", hint=suggest(str(found), map(str, known), what="known")
        )


#: Readers by the name a section gives its method.
METHODS: dict[str, Callable[[Section, str | None], Quantisation]] = {
    "hqq": _hqq,
    "quanto": _quanto,
    "eetq": _eetq,
    "torchao": _torchao,
    "quark": _quark,
}
