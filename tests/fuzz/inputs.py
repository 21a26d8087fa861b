"""Inputs at random, by seed: a command line with the files it reads, each a valid one that something happened to.

A seed always gives the same input. Kinds are rows of :data:`KINDS` with their share of all inputs.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz import lines
from tests.fuzz.graphs import changed_graph
from tests.fuzz.lines import ODD_WORDS, ROOT, with_options
from tests.models.tiny import TINY
from tests.models.tiny_vision import TINY_VISION

PACKAGE = ROOT / "src" / "roofline"

#: Values in place of a value of JSON or TOML.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 8, 64, 100, 2**31, 2**63, 2**64, 10**9, 10**12, 10**30, 10**200, -(10**30), 0.5,
    1.5, -0.5, 1e-320, 5e-324, 1e308, 1e300, float("inf"), float("-inf"), float("nan"), "", " ", "0", "64", "-1", "bf16",
    "fp8", "float32", "torch.float8_e4m3fn", "int4", "nan", "a" * 500, "é\x00\u202e", [], {}, [[]], [0], [-1], [None],
    [True], [1, 2], [128, 128], [128, 0], [1.5, 2], ["a"], {"a": 1}, {"": {}}, [{}], [[1, 2], [3, 4]], "(a+)+$",
    "re:(a+)+$", "re:.*(x+x+)+y", "{0-3000000000}", "layers.{0-3000000000}.mlp", "model.layers.*", "*" * 40, "[", "(",
    "re:(", "\\", "llama", "Linear", "swiglu", "sliding_attention", ["full_attention"] * 3, [1] * 1000, ["x"] * 10_000,
    {"type": "yarn", "factor": 0}, {"rope_type": None}, {"bits": -4}, "{" * 100,
)  # fmt: skip

#: Endings and beginnings that bytes get.
ODD_BYTES = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"\n", b"\r", b'"', b"'", b"{", b"[", b"]", b"}",
             b",", b"=", b"[[", b"nan", b"1e999", b"9" * 400, b"[" * 5000, b"a." * 500, b"==", b"#", b"\\u0000", b"\xe2\x80\xae")  # fmt: skip


@dataclass
class Input:
    """A command line and the files it reads, by name."""

    kind: str
    words: list[str]
    files: dict[str, bytes] = field(default_factory=dict)


def make(seed: int) -> Input:
    """Make the input of a seed."""
    rng = random.Random(seed)
    kind = rng.choices(list(KINDS), [share for share, _ in KINDS.values()])[0]
    words, files = KINDS[kind][1](rng)
    files |= {name: given(rng) for name, given in GIVEN.items() if any(name in word for word in words)}
    if files and rng.random() < 0.05:
        files = {name: gzip.compress(content, 1, mtime=0) for name, content in files.items()}
    return Input(kind, [word.replace("\x00", "\x01") for word in words], files)


def changed(rng: random.Random, data: Any, depth: int = 0) -> Any:
    """Change one place in nested data: another value, no value, another key, one more."""
    if depth < 6 and isinstance(data, dict) and data and rng.random() < 0.9:
        key = rng.choice(list(data))
        kind = rng.random()
        if kind < 0.75:
            return {**data, key: changed(rng, data[key], depth + 1)}
        if kind < 0.85:
            return {name: value for name, value in data.items() if name != key}
        if kind < 0.93:
            return {**data, key: data[rng.choice(list(data))]}
        return {**data, f"{key}{rng.choice(ODD_WORDS[:80])}": rng.choice(ODD_VALUES)}
    if depth < 6 and isinstance(data, list) and data and rng.random() < 0.8:
        place = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.75:
            return [*data[:place], changed(rng, data[place], depth + 1), *data[place + 1 :]]
        return data[:place] + data[place + 1 :] if kind < 0.9 else [*data, rng.choice(data)]
    if isinstance(data, int | float) and not isinstance(data, bool) and rng.random() < 0.4:
        return rng.choice((-data, data * 2, data + 1, data - 1, data / 2, str(data), [data], data * 10**9))
    if isinstance(data, str) and data and rng.random() < 0.3:
        place = rng.randrange(len(data))
        return data[:place] + rng.choice(ODD_WORDS) + data[place + rng.randint(0, 3) :]
    return rng.choice(ODD_VALUES)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Bytes with pieces lost, doubled or put in, or cut short."""
    for _ in range(rng.randint(1, 3)):
        place = rng.randint(0, len(content))
        kind = rng.random()
        if kind < 0.3:
            content = content[:place] + content[place + rng.randint(1, 30) :]
        elif kind < 0.7:
            content = content[:place] + rng.choice(ODD_BYTES) + content[place:]
        elif kind < 0.8:
            content = content[:place]
        elif kind < 0.9:
            content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
        else:
            content = content[:place] + content[place : place + 200] + content[place:]
    return content


@functools.cache
def _configurations() -> tuple[Any, ...]:
    shipped = tuple(json.loads(path.read_bytes()) for path in sorted((PACKAGE / "models" / "catalog").glob("*.json"))
                    if path.name != "index.json")  # fmt: skip
    types = tuple(
        {"model_type": name} for name in json.loads((PACKAGE / "models" / "families" / "defaults.json").read_bytes())
    )
    return (*shipped, *TINY.values(), *TINY_VISION.values(), *types)


#: Sections of quantisation that are valid, one of each method.
SECTIONS: tuple[dict[str, Any], ...] = (
    {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True, "dynamic": {"-:.*mlp.*": {}}},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True, "llm_int8_skip_modules": ["lm_head"]},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "FP8"}}},
    {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*gate.*"], "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"},
                    "input_activations": {"num_bits": 8, "type": "float"}}}},
    {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"model.layers.1.mlp": {"bits": 16}}},
    {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}, "skip_modules": ["lm_head"]},
    {"quant_method": "quanto", "weights": "int8", "modules_to_not_convert": None},
    {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}}},
    {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}, "exclude": ["lm_head"]},
    {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0"]},
    {"quant_method": "bitnet"}, {"quant_method": "eetq"},
)  # fmt: skip


#: How ModelOpt says beside a configuration what it did.
BESIDE = {"producer": {"name": "modelopt"}, "quantization": {
    "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head", "model.layers.0*"],
    "quantized_layers": {"model.layers.1.mlp": {"quant_algo": "NVFP4", "group_size": 16}}}}  # fmt: skip


def configuration(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A published configuration, a small one of a family or one of a type alone, changed."""
    data = dict(rng.choice(_configurations()))
    if rng.random() < 0.3:
        data["quantization_config"] = rng.choice(SECTIONS)
    for _ in range(rng.randint(1, 3)):
        data = changed(rng, data)
        data = data if isinstance(data, dict) else {"model_type": data}
    files = {"config.json": json.dumps(data).encode()}
    if rng.random() < 0.05:
        files["config.json"] = damaged(rng, files["config.json"])
    if rng.random() < 0.1:
        files["hf_quant_config.json"] = json.dumps(changed(rng, BESIDE)).encode()
    words = rng.choices((
        ["model"], ["model", "--modules"],
        ["llm", "--on", "h100", "--context", "128"], ["llm", "--on", "h100:8", "--tensor", "8", "--prompt", "64"],
        ["train", "--on", "h100:8", "--batch-tokens", "65536"],
    ), (75, 12, 6, 6, 1))[0]  # fmt: skip
    words = [words[0], "config.json", *words[1:], "--json"]
    return words if rng.random() < 0.9 else with_options(rng, words, 2), files


def as_toml(data: Any) -> str:
    """Plain data as TOML, tables within one line."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))} = {as_toml(value)}" for name, value in data.items()) + "}"
    if isinstance(data, list):
        return f"[{', '.join(map(as_toml, data))}]"
    if data is None:
        return "''"
    if isinstance(data, float):
        return repr(data)
    return (
        json.dumps(data, ensure_ascii=False).replace("\x7f", "\\u007f")
        if not isinstance(data, int) or isinstance(data, bool)
        else str(data)
    )


@functools.cache
def _tables() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Machine files, a measurement and constants as data, with a chip to ask for."""
    import tomllib

    found = []
    for path in (
        *sorted((PACKAGE / "hardware" / "catalog").glob("*.toml")),
        *sorted((ROOT / "docs" / "examples").glob("*.toml")),
    ):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if "constants" in data:
            continue
        chips = data.get("chip", {})
        for key in list(chips)[:4]:
            kept = {key: chips[key]}
            while isinstance(chips.get(kept[key].get("inherits")), dict) and kept[key]["inherits"] not in kept:
                kept[kept[key]["inherits"]] = chips[kept[key]["inherits"]]
            found.append((key, {**data, "chip": kept}))
    return tuple(found)


def _machine_file(rng: random.Random) -> tuple[str, bytes]:
    """A machine file, changed, and the chip in it."""
    key, data = rng.choice(_tables())
    for _ in range(rng.randint(1, 2)):
        chips = data.get("chip")
        if isinstance(chips, dict) and rng.random() < 0.8:
            data = {**data, "chip": {**chips, **({key: changed(rng, chips[key], 1)} if key in chips else {})}}
        else:
            data = changed(rng, data)
        data = data if isinstance(data, dict) else {}
    text = _toml_file(data)
    return key, damaged(rng, text) if rng.random() < 0.1 else text


def _toml_file(data: dict[str, Any]) -> bytes:
    lines = (f"{json.dumps(name)} = {as_toml(value)}" for name, value in data.items())
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def machine(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A machine file, changed, and a question to it."""
    key, text = _machine_file(rng)
    words = rng.choice((
        ["bound", "bf16[64, 512] * bf16[512, 512]", "--on", f"m.toml#{key}", "--json"],
        ["bound", "fp32[64, 512] + fp32[512]", "--on", "m.toml", "--json"],
        ["chips", "m.toml"], ["chips", key, "--chips", "m.toml", "--json"],
        ["measure", "--show", "-o", "m.toml", "--json"],
        ["comm", "AllReduce_X(bf16[64, 64] {U_X})", "--on", f"m.toml#{key}:4", "--json"],
    ))  # fmt: skip
    return words, {"m.toml": text}


@functools.cache
def _constants() -> tuple[Any, ...]:
    import tomllib

    return tuple(tomllib.loads(path.read_text(encoding="utf-8")) for path in
                 sorted((PACKAGE / "estimates" / "catalog").glob("*.toml")))  # fmt: skip


def _constants_file(rng: random.Random) -> bytes:
    """A file of constants, changed."""
    data = rng.choice(_constants())
    kept = [entry for entry in data["constants"] if rng.random() < 0.15] or data["constants"][:1]
    data = {**data, "constants": kept}
    for _ in range(rng.randint(1, 2)):
        data = changed(rng, data)
        data = data if isinstance(data, dict) else {}
    return _toml_file(data)


def constants(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A file of constants, changed, for an estimate."""
    words = ["bound", "bf16[64, 512] * bf16[512, 512]", "--on", "h100", "--estimate", "--constants", "c.toml", "--json"]
    return rng.choice((words, ["accuracy", "--constants", "c.toml", "--json"])), {"c.toml": _constants_file(rng)}


def _call(name: str, dims: list[Any], types: list[str] | None = None, **more: Any) -> dict[str, Any]:
    args = {
        "Input Dims": dims,
        "Input type": types or ["float"] * len(dims),
        "Concrete Inputs": [""] * len(dims),
        **more,
    }
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 100, "dur": 50, "args": args}


EVENTS: tuple[dict[str, Any], ...] = (
    _call("aten::linear", [[256, 1024], [4096, 1024], [4096]], **{"External id": 1}),
    _call("aten::addmm", [[4096], [256, 1024], [1024, 4096]], **{"External id": 2}),
    _call("aten::softmax", [[256, 1024], [], []], ["float", "Scalar", ""]),
    _call("aten::mm", [[64, 64], [64, 64]], ["c10::BFloat16"] * 2),
    _call("aten::conv2d", [[1, 3, 32, 32], [8, 3, 3, 3], [], [], [], [], []]),
    _call("aten::scaled_dot_product_attention", [[1, 8, 64, 64]] * 3),
    _call("aten::cat", [[[4, 4], [4, 4]], []], ["TensorList", "Scalar"]),
    _call("aten::view", [[256, 1024], []], ["float", ""]),
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 120, "dur": 7, "args": {"External id": 2, "correlation": 5}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 110, "dur": 2, "args": {"correlation": 5}},
    {"ph": "X", "pid": 3, "tid": 4, "ts": 1, "dur": 2, "name": "fusion", "args": {"hlo_op": "fusion.1", "hlo_module": "jit"}},
)  # fmt: skip


def _trace(rng: random.Random) -> bytes:
    """A trace of a profiler, changed."""
    events = [dict(rng.choice(EVENTS), ts=rng.randrange(1000)) for _ in range(rng.randint(1, 12))]
    data: Any = {"schemaVersion": 1, "traceEvents": events}
    for _ in range(rng.randint(1, 3)):
        data = changed(rng, data)
    content = json.dumps(data).encode()
    return damaged(rng, content) if rng.random() < 0.1 else content


def trace_file(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A trace of a profiler, changed, under a roof or as measured kernels."""
    name = "calibrate" if rng.random() < 0.02 else "profile"
    words = [name, "t.json", "--on", rng.choice(("h100", "v5e", "cpu")), "--json"]
    return words if rng.random() < 0.9 else with_options(rng, words, 2), {"t.json": _trace(rng)}


RUNS = "name,dtype,flops,bytes,seconds\nup,bf16,137 GFLOP,201 MB,210 us\nadd,fp32,1e6,2e6,1e-5\ncopy,int8,0,1 GB,1 ms\n"
WIDE = (
    '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","sm__ops_path_tensor_src_bf16_dst_fp32.sum",'
    '"sm__sass_thread_inst_executed_op_ffma_pred_on.sum"\n"","","ns","byte","",""\n"0","gemm","1,234","5,000","8,000","10"\n'
    '"1","copy","100","1000000","0","0"\n'
)
LONG = (
    '==PROF== x\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","gemm","gpu__time_duration.sum","usecond",'
    '"1,234.5"\n"0","gemm","dram__bytes.sum","Mbyte","5.5"\n"0","gemm","sm__ops_path_tensor_src_fp16_dst_fp32.sum","","900"\n'
)  # fmt: skip
SAMPLES = "m,n,k,dtype,us,library\n" + "".join(f"{64 * i},4096,4096,bf16,{20 + i},vllm\n" for i in range(1, 12))
HEADS = "batch,heads,kv_heads,head_size,length,phase,us\n" + "".join(
    f"{i},32,8,128,1024,decode,{20 + i}\n" for i in range(1, 9)
)


SERVED = "batch,prompt,output,tpot_ms,ttft_ms\n1,1024,128,9.1,80\n8,1024,128,10.2,400\n32,1024,128,14.1,900\n"
RATES = "time,rate\n0,1\n60,4\n120,2\n"
REQUESTS = "time,prompt,output\n0,64,16\n1.5,32,8\n2,64,16\n"


def _csv_file(rng: random.Random, text: str) -> bytes:
    """A CSV file: cells, rows and columns changed."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows)
        kind, place = rng.random(), rng.randrange(len(row))
        if kind < 0.7:
            row[place] = rng.choice(ODD_WORDS)
        elif kind < 0.8:
            del row[place]
        elif kind < 0.9:
            row.insert(place, rng.choice(ODD_WORDS))
        else:
            rows.insert(rng.randrange(len(rows)), list(rng.choice(rows)))
        rows = [kept for kept in rows if kept] or [[""]]
    content = "\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass")
    return damaged(rng, content) if rng.random() < 0.15 else content


def table(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A CSV file of runs, of a profiler or of kernels, changed."""
    fitted = rng.random() < 0.06
    text = rng.choice((SAMPLES, HEADS, SERVED) if fitted else (RUNS, RUNS, WIDE, LONG))
    words = ["profile", "t.csv", "--on", "h100", "--json"]
    if fitted:
        words = ["calibrate", *words[1:], *(("--model", "llama-2-7b") if text == SERVED else ())]
    elif rng.random() < 0.2:
        words = ["plot", "--on", "h100", "--measured", "t.csv", "--json"]
    return words if rng.random() < 0.9 else with_options(rng, words, 2), {"t.csv": _csv_file(rng, text)}


def graph(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """An ONNX file, changed, with and without a machine."""
    words = ["trace", "g.onnx", *rng.choice(([], ["--on", "h100"], ["--on", "v5e", "--batch", "8"], ["--batch", "0"]))]
    return [*words, "--json", *(with_options(rng, ["trace"], 2)[1:] if rng.random() < 0.2 else [])], {
        "g.onnx": _onnx_file(rng)
    }


def _onnx_file(rng: random.Random) -> bytes:
    """An ONNX file: sizes, attributes, types and names changed, or its bytes."""
    content = changed_graph(rng)
    return damaged(rng, content) if rng.random() < 0.2 else content


def bomb(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A file that is made to take long or much: deep, long or packed."""
    content = rng.choice(_BOMBS)(rng)
    words = rng.choice((
        ["model", "f.json"], ["profile", "f.json", "--on", "h100"], ["bound", "bf16[8]+bf16[8]", "--on", "f.toml"],
        ["calibrate", "f.csv", "--on", "h100"], ["trace", "f.onnx"], ["measure", "--show", "-o", "f.toml"],
        ["accuracy", "--constants", "f.toml"], ["plot", "--on", "h100", "--measured", "f.csv"],
    ))  # fmt: skip
    name = next(word for word in words if word.startswith("f."))
    return words, {name: content}


_BOMBS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda rng: b"[" * rng.choice((1000, 20_000, 200_000)),
    lambda rng: b'{"a":' * rng.choice((900, 100_000)) + b"1",
    lambda rng: b'{"hidden_size": ' + b"9" * rng.choice((290, 310, 5000)) + b"}",
    lambda rng: b"x = " + b"9" * rng.choice((290, 5000)),
    lambda rng: b"a." * rng.choice((30, 40, 20_000)) + b"a = 1",
    lambda rng: b"x = " + b"[" * rng.choice((100, 900, 50_000)),
    lambda rng: b"x = " + b"{a=" * rng.choice((100, 900, 50_000)),
    lambda rng: gzip.compress(b" " * rng.choice((10**6, 5 * 10**7)), 1, mtime=0),
    lambda rng: gzip.compress(b"[" + b"[]," * 10**6, 1, mtime=0),
    lambda rng: b"name,flops,bytes,seconds\n" + b"a,1,1,1\n" * rng.choice((10, 20_000)),
    lambda rng: b"," * rng.choice((100, 300_000)),
    lambda rng: b'"' + b"a" * 200_000,
    lambda rng: json.dumps({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": rng.choice((10**5, 10**9, 10**12)),
                            "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}).encode(),
    lambda rng: json.dumps({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                            "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
                            "num_local_experts": rng.choice((10**5, 10**9)), "num_experts_per_tok": 2}).encode(),
    lambda rng: json.dumps({"model_type": "gpt_oss", "layer_types": ["full_attention"] * 200_000, "num_hidden_layers": 200_000,
                            "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}).encode(),
    lambda rng: json.dumps({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                            "intermediate_size": 11008, "vocab_size": 32000,
                            "quantization_config": {"quant_method": rng.choice(("fp8", "mxfp4", "compressed-tensors", "awq")),
                                                    "config_groups": {"g": {"targets": ["re:(a|a)+$", "Linear"], "weights": {"num_bits": 8, "type": "float"}}},
                                                    "ignore": ["re:" + "(.*)*" * 8 + "x", "model.layers.{0-3000000000}.mlp"],
                                                    "modules_to_not_convert": ["re:(l|a|y|e|r|s|.)*$!", "*" * 30 + "x",
                                                                               "model.layers.{0-3000000000}.mlp"]}}).encode(),
)  # fmt: skip

#: Programs for ``trace FILE.py:step``; a few get as far as their framework.
PROGRAMS = (
    b"def step(x: int):\n    return x\n", b"import sys\nsys.exit(3)\n", b"def step(:\n", b"step = 1\n", b"print('x')\n",
    b"raise RuntimeError('no')\n", b"def build():\n    return 1\n", b"import nothing_of_this_name\n", b"\xff\x00", b"",
    b"step = lambda *x: exit('y')\n", b"def step(x):\n    return step(x)\n", b"raise MemoryError\n",
    b"class step:\n    def __call__(self): raise SystemExit\n",
    b"import torch\ndef step(x, *more):\n    return torch.nn.functional.gelu(x @ x.T).sum()\n",
    b"import torch\nstep = torch.nn.Linear(8, 8)\n", b"import torch\ndef step(x):\n    return x.reshape(0, -1)[9]\n",
    b"import torch\ndef step(x):\n    return x.item() + torch.zeros(10**15)\n",
)  # fmt: skip


@functools.cache
def _grid(keep: str) -> dict[str, bytes]:
    """What a run in blocks leaves in its folder."""
    import contextlib
    import io
    import tempfile

    from roofline.cli import main

    with tempfile.TemporaryDirectory() as path, contextlib.redirect_stdout(io.StringIO()):
        main(["sweep", *lines.MATMUL, "B=1:64", "--keep", keep, "-o", path])
        return {name: (Path(path) / name).read_bytes() for name in ("manifest.json", "parts/block-000000.npz")}


def _changed_part(rng: random.Random, content: bytes) -> bytes:
    """A part of a grid: what is said of it, or its columns, changed."""
    import io

    import numpy as np

    with np.load(io.BytesIO(content)) as file:
        held = {name: file[name] for name in file.files}
    if rng.random() < 0.5:
        held["about"] = np.asarray(json.dumps(changed(rng, json.loads(str(held["about"])))))
    else:
        name = rng.choice(list(held))
        kept = held.pop(name)
        if rng.random() < 0.7:
            held[rng.choice((name, name + "x", "|"))] = rng.choice(
                (
                    kept.reshape(-1)[:1],
                    np.asarray("x"),
                    np.zeros((2, 2)),
                    np.zeros(0),
                    np.asarray(["a"]),
                    -kept.size * np.ones(9),
                )
            )
    made = io.BytesIO()
    np.savez(made, **held)
    return made.getvalue()


def folder(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A folder of a grid in blocks that was stopped, changed, or one that somebody else left there."""
    keep = rng.choice(("top=3", "rows", "front", "histogram=lower"))
    words = ["sweep", *lines.MATMUL, "B=1:64", "--keep", keep, "-o", "grid"]
    if keep != "rows" and rng.random() < 0.5:
        held = dict(_grid(keep))
        name = rng.choice(list(held))
        held[name] = (
            damaged(rng, held[name])
            if rng.random() < 0.3
            else json.dumps(changed(rng, json.loads(held[name]))).encode()
            if name == "manifest.json"
            else _changed_part(rng, held[name])
        )
        return words if rng.random() < 0.8 else with_options(rng, words, 1), {
            f"grid/{name}": content for name, content in held.items()
        }
    data = {"schema": "roofline/grid-manifest/1", "hash": "0" * 64, "question": {"of": "sweep", "sizes": [1, 2]}}
    content = json.dumps(changed(rng, data)).encode()
    content = damaged(rng, content) if rng.random() < 0.3 else content
    return with_options(rng, words, 1), {rng.choice(("grid/manifest.json", "grid/parts", "grid/x")): content}


def request(rng: random.Random) -> tuple[list[str], dict[str, bytes]]:
    """A request to the explorer: method, path and headers as words, its body as a file."""
    words = lines.command(rng)[:12] if rng.random() < 0.5 else lines.notation(rng)
    name, typed, options = words[0], [], {}
    for at, word in enumerate(words[1:], 1):
        if not word.startswith("--"):
            typed += [] if words[at - 1].startswith("--") else [word]
        elif rng.random() < 0.9:
            options[word[2:]] = words[at + 1] if words[at + 1 : at + 2] and not words[at + 1].startswith("--") else True
    data: Any = {
        "words": typed,
        "options": options,
        "more": rng.choice(("", "", "", "--json", "--explain", "'", "-o x.html")),
    }
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        data = changed(rng, data)
    content = json.dumps(data).encode()
    content = damaged(rng, content) if rng.random() < 0.1 else content
    form = rng.choices(("api", "page", "live", "rest", "file", "catalog", "functions", "", rng.choice(ODD_WORDS)),
                       (70, 4, 3, 3, 5, 0.5, 3, 3, 8))[0]  # fmt: skip
    path = (
        f"/token/{form}/{name}"
        if rng.random() < 0.95
        else rng.choice((f"/{form}", f"//{form}", "/", "/token", "/../token/"))
    )
    if form in ("file", "catalog", ""):
        path = f"/token/{form}" + ("?name=" + rng.choice(ODD_WORDS) if form == "file" else "")
    headers = ["host=127.0.0.1:1"] if rng.random() < 0.97 else [f"host={rng.choice(ODD_WORDS)}"]
    if rng.random() < 0.1:
        named = rng.choice(
            ("origin", "sec-fetch-site", "content-length", "content-type", "transfer-encoding", "range", "x" * 50)
        )
        headers.append(f"{named}={rng.choice(ODD_WORDS)}")
    method = "POST" if rng.random() < 0.93 else rng.choice(("GET", "PUT", "HEAD", "OPTIONS", "", "é"))
    return [method, path, *headers], {"body": content}


#: The files that command lines of :mod:`tests.fuzz.lines` name.
GIVEN: dict[str, Callable[[random.Random], bytes]] = {
    "given-machine.toml": lambda rng: _machine_file(rng)[1],
    "given-constants.toml": lambda rng: _constants_file(rng),
    "given-samples.csv": lambda rng: _csv_file(rng, rng.choice((SAMPLES, HEADS, SERVED))),
    "given-points.csv": lambda rng: _csv_file(rng, RUNS),
    "given-rates.csv": lambda rng: _csv_file(rng, rng.choice((RATES, REQUESTS))),
    "given-scheduler.json": lambda rng: json.dumps(
        changed(rng, {"address": "tcp://127.0.0.1:1", "workers": {}})
    ).encode(),
    "given.onnx": lambda rng: _onnx_file(rng),
    "given.py": lambda rng: rng.choice(PROGRAMS),
}

#: How often each kind of input is made, and by what; kinds that take long are made less often.
KINDS: dict[str, tuple[float, Callable[[random.Random], tuple[list[str], dict[str, bytes]]]]] = {
    "command": (5, lambda rng: (lines.command(rng), {})),
    "option": (7, lambda rng: (lines.option(rng), {})),
    "notation": (45, lambda rng: (lines.notation(rng), {})),
    "configuration": (6, configuration),
    "machine": (6, machine),
    "constants": (1, constants),
    "trace": (13, trace_file),
    "table": (7, table),
    "graph": (7, graph),
    "request": (3, request),
    "folder": (0.5, folder),
    "bomb": (0.3, bomb),
}


def written(made: Input, folder: str) -> Iterator[str]:
    """Write the files of an input; give their paths."""
    for name, content in made.files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(content)
        yield path
