"""A deployment as options of serving engines: our reading of their documentation, to be checked against your version.

Sources: vLLM, "Engine Arguments" and "Data Parallel Deployment" (docs.vllm.ai); SGLang, "Server Arguments" and "DP, DPA
and SGLang DP Router" (docs.sglang.io); TensorRT-LLM, "trtllm-serve" (nvidia.github.io/TensorRT-LLM). Of drafts: their
pages "Speculative Decoding".

>>> from roofline.plans.replicas import Replica
>>> from roofline.plans.search import Deployment
>>> four = Deployment(Replica("h100", "fp8 kv fp8", tensor=4), 2, 2048, 128)
>>> print(engine_settings(four, "MODEL", 2304, 0.9)["vllm"])
vllm serve MODEL --tensor-parallel-size 4 --max-num-seqs 128 --max-num-batched-tokens 2176 --max-model-len 2304 \
--gpu-memory-utilization 0.9 --quantization fp8 --kv-cache-dtype fp8 --enable-chunked-prefill

Copies of attention beside shared experts are ranks of their own in vLLM, and parts of one tensor group in the others:

>>> experts = Deployment(Replica("h100", "stored", expert=8), 1, 2048, 256)
>>> commands = engine_settings(experts, "MODEL", 4096, 0.9)
>>> commands["vllm"].partition(" --gpu")[0]
'vllm serve MODEL --enable-expert-parallel --max-num-seqs 32 --max-num-batched-tokens 2080 --max-model-len 4096'
>>> commands["sglang"].partition("MODEL ")[2].partition(" --context")[0]
'--tp-size 8 --ep-size 8 --max-running-requests 256 --chunked-prefill-size 16384'
>>> print(engine_settings(four, "MODEL", 2304, 0.9)["tensorrt-llm"].partition("fraction")[2])
 0.9 --config options.yaml  # with {kv_cache_config: {dtype: fp8}, enable_chunked_prefill: true}
"""

from __future__ import annotations

from typing import NamedTuple

from roofline.plans.replicas import FORMATS
from roofline.plans.search import Deployment


class Engine(NamedTuple):
    """An engine's command and its words for what a deployment sets; ``{}`` takes the value.

    ``spans``: the numbers of chips, sequences and tokens count all copies of attention together, not each one's.
    """

    command: str
    tensor: str
    pipeline: str
    data: str
    expert: str
    sequences: str
    tokens: str
    length: str
    memory: str
    weights: str = ""
    kv: str = ""
    chunked: str = ""
    whole: str = ""
    spans: tuple[str, ...] = ()
    file: str = ""
    draft: str = ""
    own_draft: str = ""
    context: str = ""
    half: str = ""


ENGINES = {
    "vllm": Engine(
        "vllm serve {}", "--tensor-parallel-size {}", "--pipeline-parallel-size {}", "--data-parallel-size {}",
        "--enable-expert-parallel", "--max-num-seqs {}", "--max-num-batched-tokens {}", "--max-model-len {}",
        "--gpu-memory-utilization {:g}", "--quantization {}", "--kv-cache-dtype {}", "--enable-chunked-prefill",
        "--no-enable-chunked-prefill",
        draft="--speculative-config '{{\"method\": \"draft_model\", \"model\": \"{model}\", "
        "\"num_speculative_tokens\": {length}}}'",
        own_draft="--speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": {length}}}'",
        context="--prefill-context-parallel-size {}", half="--dtype half",
    ),
    "sglang": Engine(
        "python -m sglang.launch_server --model-path {}", "--tp-size {}", "--pp-size {}",
        "--dp-size {} --enable-dp-attention", "--ep-size {}", "--max-running-requests {}", "--chunked-prefill-size {}",
        "--context-length {}", "--mem-fraction-static {:g}", "--quantization {}", "--kv-cache-dtype {}",
        "--enable-mixed-chunk", spans=("tensor", "sequences", "tokens"),
        draft="--speculative-algorithm STANDALONE --speculative-draft-model-path {model} "
        "--speculative-num-steps {length} --speculative-eagle-topk 1 --speculative-num-draft-tokens {checked}",
        own_draft="--speculative-algorithm EAGLE --speculative-num-steps {length} --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens {checked}", half="--dtype half",
    ),
    "tensorrt-llm": Engine(
        "trtllm-serve {}", "--tp_size {}", "--pp_size {}", "enable_attention_dp: true", "--ep_size {}",
        "--max_batch_size {}", "--max_num_tokens {}", "--max_seq_len {}", "--kv_cache_free_gpu_memory_fraction {:g}",
        kv="kv_cache_config: {{dtype: {}}}", chunked="enable_chunked_prefill: true", spans=("tensor",),
        file="--config options.yaml  # with {{{}}}",
        draft="speculative_config: {{decoding_type: DraftTarget, max_draft_len: {length}, "
        "speculative_model_dir: {model}}}",
        own_draft="speculative_config: {{decoding_type: MTP, num_nextn_predict_layers: {length}}}",
        half="dtype: float16",
    ),
}  # fmt: skip

#: The engines' words for formats of keys and values.
CACHE_WORDS = {"sglang": {"fp8": "fp8_e4m3"}}


def engine_settings(
    deployment: Deployment, model: str, length: int, memory: float, drafts_by: str | None = None
) -> dict[str, str]:
    """The command of one replica for each engine; ``length`` tokens are a sequence's most, ``memory`` the share.

    ``drafts_by`` names the model that drafts, ``mtp`` its own layers; None: it has no name.
    """
    return {
        name: _command(name, engine, deployment, model, length, memory, drafts_by) for name, engine in ENGINES.items()
    }


def _command(
    name: str, engine: Engine, deployment: Deployment, model: str, length: int, memory: float, drafts_by: str | None
) -> str:
    replica, copies = deployment.replica, deployment.replica.copies
    formats = FORMATS[replica.formats]
    most = -(-deployment.most // copies)
    decoded = most * (replica.draft + 1)
    tokens = deployment.chunk + decoded if deployment.chunk else max(length, decoded)
    if name == "sglang":
        tokens = deployment.chunk or -1
    counts = {"tensor": replica.tensor, "sequences": most, "tokens": tokens}
    counts.update({each: counts[each] * copies for each in engine.spans if counts[each] > 0})
    kv = formats.get("kv")
    flags = [
        engine.command.format(model),
        engine.tensor.format(counts["tensor"]) if counts["tensor"] > 1 else "",
        engine.pipeline.format(replica.pipeline) if replica.pipeline > 1 else "",
        engine.context.format(replica.context) if replica.context > 1 else "",
        engine.expert.format(replica.expert) if replica.expert > 1 else "",
        engine.sequences.format(counts["sequences"]) if most else "",
        engine.tokens.format(counts["tokens"]),
        engine.length.format(length),
        engine.memory.format(memory),
        engine.weights.format("fp8") if formats.get("compute") == "fp8" else "",
    ]
    draft = engine.own_draft if drafts_by == "mtp" else engine.draft
    drafts = {"length": replica.draft, "checked": replica.draft + 1, "model": drafts_by or "DRAFT"}
    # what TensorRT-LLM takes in a file only
    settings = [
        engine.data.format(copies) if copies > 1 else "",
        engine.kv.format(CACHE_WORDS.get(name, {}).get(kv, kv)) if kv is not None else "",
        engine.chunked if deployment.chunk else engine.whole,
        draft.format(**drafts) if replica.draft else "",
        engine.half if formats.get("compute") == "fp16" else "",
    ]
    settings = list(filter(None, settings))
    if engine.file and settings:
        settings = [engine.file.format(", ".join(settings))]
    unknown = f"# we know of no option for context {replica.context}"
    lacks = replica.context > 1 and not engine.context
    return " ".join(filter(None, [*flags, *settings, unknown if lacks else ""]))
