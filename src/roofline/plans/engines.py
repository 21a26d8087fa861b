"""A deployment as options of serving engines: our reading of their documentation, to be checked against your version.

Sources: vLLM, "Engine Arguments" (docs.vllm.ai); SGLang, "Server Arguments" (docs.sglang.ai); TensorRT-LLM,
"trtllm-serve" and the LLM API reference (nvidia.github.io/TensorRT-LLM).

>>> from roofline.plans.replicas import Replica
>>> from roofline.plans.search import Deployment
>>> four = Deployment(Replica("h100", "fp8 kv fp8", tensor=4), 2, 2048, 128)
>>> print(engine_settings(four, "MODEL", 2304, 0.9)["vllm"])
vllm serve MODEL --tensor-parallel-size 4 --max-num-seqs 128 --max-num-batched-tokens 2176 --max-model-len 2304 \
--gpu-memory-utilization 0.9 --quantization fp8 --kv-cache-dtype fp8 --enable-chunked-prefill
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from roofline.plans.replicas import FORMATS
from roofline.plans.search import Deployment


class Engine(NamedTuple):
    """An engine's command and its words for what a deployment sets; ``{}`` takes the value."""

    command: str
    tensor: str
    pipeline: str
    data: str
    expert: Callable[[int], str]
    sequences: str
    tokens: str
    length: str
    memory: str
    weights: str
    kv: str
    chunked: str = ""
    whole: str = ""


ENGINES = {
    "vllm": Engine(
        "vllm serve {}", "--tensor-parallel-size {}", "--pipeline-parallel-size {}", "--data-parallel-size {}",
        lambda n: "--enable-expert-parallel", "--max-num-seqs {}", "--max-num-batched-tokens {}", "--max-model-len {}",
        "--gpu-memory-utilization {:g}", "--quantization {}", "--kv-cache-dtype {}", "--enable-chunked-prefill",
        "--no-enable-chunked-prefill",
    ),
    "sglang": Engine(
        "python -m sglang.launch_server --model-path {}", "--tp-size {}", "--pp-size {}",
        "--dp-size {} --enable-dp-attention", "--ep-size {}".format, "--max-running-requests {}",
        "--chunked-prefill-size {}", "--context-length {}", "--mem-fraction-static {:g}", "--quantization {}",
        "--kv-cache-dtype {}", "--enable-mixed-chunk", "",
    ),
    "tensorrt-llm": Engine(
        "trtllm-serve {}", "--tp_size {}", "--pp_size {}", "", "--ep_size {}".format, "--max_batch_size {}",
        "--max_num_tokens {}", "--max_seq_len {}", "--kv_cache_free_gpu_memory_fraction {:g}", "", "", "", "",
    ),
}  # fmt: skip

#: The engines' words for formats of keys and values.
CACHE_WORDS = {"sglang": {"fp8": "fp8_e4m3"}}


def engine_settings(deployment: Deployment, model: str, length: int, memory: float) -> dict[str, str]:
    """The command of one replica for each engine; ``length`` tokens are a sequence's most, ``memory`` the share."""
    return {name: _command(name, engine, deployment, model, length, memory) for name, engine in ENGINES.items()}


def _command(name: str, engine: Engine, deployment: Deployment, model: str, length: int, memory: float) -> str:
    replica, most = deployment.replica, deployment.most
    formats = FORMATS[replica.formats]
    tokens = deployment.chunk + most if deployment.chunk else max(length, most)
    if name == "sglang":
        tokens = deployment.chunk or -1
    words = [engine.command.format(model)]
    words += [engine.tensor.format(replica.tensor)] if replica.tensor > 1 else []
    words += [engine.pipeline.format(replica.pipeline)] if replica.pipeline > 1 else []
    words += [engine.data.format(replica.copies)] if replica.copies > 1 and engine.data else []
    words += [engine.expert(replica.expert)] if replica.expert > 1 else []
    words += [engine.sequences.format(most)] if most else []
    words += [engine.tokens.format(tokens), engine.length.format(length), engine.memory.format(memory)]
    if formats.get("compute") == "fp8" and engine.weights:
        words.append(engine.weights.format("fp8"))
    kv = formats.get("kv")
    if kv is not None and engine.kv:
        words.append(engine.kv.format(CACHE_WORDS.get(name, {}).get(kv, kv)))
    words.append(engine.chunked if deployment.chunk else engine.whole)
    return " ".join(filter(None, words))
