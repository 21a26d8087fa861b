"""What arguments of functions and options of commands mean, each said once, and the words that others have for them.

Errors, ``help()``, the options of commands and the reference say it from here.

>>> MEANINGS["tensor"].partition(";")[0], MEANINGS_OF["train"]["tokens"]
('Chips that split each layer', 'A token budget, as in 15T.')
"""

from __future__ import annotations

from collections.abc import Collection, Container
from functools import lru_cache

from roofline.errors import InputError, did_you_mean, suggest

_MODELS = "A shipped name, a hub id, a config.json or a folder that holds one, its fields, or a Model."

#: What options of commands and parameters of functions mean, once for both. Conventions add what their fields say.
MEANINGS = {
    "machine": "The target.",
    "model": "A shipped name, a hub id, a config.json or a folder that holds one, or a Model.",
    "expression": "A line of the notation.",
    "sizes": "Sizes by name; named arguments are sizes too.",
    "data": "Copies of the model (default: what chips are left; in training, what a given fsdp leaves).",
    "logits": "last (default) or all: output for the last token of each prompt, or for every one.",
    "absorbed": "Latent attention works on the cached latents, or on keys and values (default: the faster).",
    "skew": "How likely each expert is, where tokens prefer some.",
    "arrival_variation": "Variance of arrivals, over that of Poisson ones.",
    "memory_share": "Share of a chip's memory that an engine uses.",
    "prefill_link": "One-way bandwidth from a prefill chip to the servers that decode.",
    "prompts": "Prompts of a mixed step that have a chunk in it.",
    "last": "The chunks of a mixed step end their prompts, so that each gives a token.",
    "frontend": "torch, jax or onnx (default: by the program and its inputs).",
    "recompute_attention": "Attention makes its scores again in the backward pass (default: True; else it keeps them).",
    "lora": "Rank of adapters (LoRA) beside each matrix; train trains them alone, beside frozen weights.",
    "host_layers": "Layers whose weights stay in the host's memory: each step reads them over its link.",
    "host_kv": "Keys, values and states stay in the host's memory, read and written over its link.",
    "kv_block": "Tokens of a block of a paged cache: memory holds whole ones (default 1).",
    "adapters": "How many different adapters are served, of the rank of lora (default 1).",
    "microbatches": "Parts of a batch, in training added up (default: over stages the floor of any number, else 1).",
    "name": "What the answer calls it.",
    "theme": "light or dark.",
    "out": "A folder that keeps a grid in blocks, and goes on where it was stopped.",
    "client": "An open client of Dask.",
    "progress": "Called with what is done, and with how much there is.",
    "kwargs": "Named arguments of the program.",
    "for_": "What is solved for.",
    "bandwidths": "A bandwidth, or several.",
    "vary": "The size along the horizontal axis: B, or B=1:511.",
    "phase": "Which step of a model (default: as its sizes say).",
    "batch": "Sequences at once (default 1); a list or range gives a table.",
    "prompt": "Tokens to prefill of each sequence.",
    "past": "Tokens in the cache already, before the prompt's.",
    "context": "Tokens in the cache when decoding (default: past and prompt; in llm without a prompt 4096).",
    "output": "Tokens of an answer: prefill, then so many.",
    "chunk": "Prefill the prompt in chunks, beside what decodes at --context.",
    "source": "Tokens that the encoder reads, where there is one (default: the configuration's).",
    "images": "Images in each prompt; their tokens are part of it.",
    "image_size": "Height and width of an image in pixels (default: the tower's own).",
    "batch_tokens": "Tokens of one training step over all chips, as in 4M.",
    "sequence": "Tokens of a training sequence (default 4096, or the most it takes).",
    "tokens": "New tokens of a decode step (default 1).",
    "days": "Without a step: days of the budget; gives MFU or chips.",
    "chip_hours": "Without a step: hours of all chips; gives MFU.",
    "mfu": "A stated utilisation in place of the floor.",
    "memory": "Without a layout: what training holds in all, and the chips that hold it.",
    "search": "The fastest layout that fits: what is not given is tried.",
    "inputs": 'An input: "bf16[1, 3, 224, 224]", with values "int64[2] = 0, 1"; repeat for more.',
    "trips": "How often loops run that JAX or an ONNX file leaves open; repeat for each, as in step.py:12=10.",
    "local": "The sizes are those of one chip's part, as a profile shows them.",
    "backward": "Trace the gradient too.",
    "input_gradients": "That of the inputs too, as of a layer inside a network.",
    "rate": "Requests: 12/s, 700/min, 40k/h; a CSV file with columns time, rate.",
    "shared": "Share of each prompt that is cached already (80%).",
    "lengths": "How lengths of answers are spread.",
    "filter": "Only a kind (gpu, tpu, cpu, accelerator), text of a name, a format, a figure: 'gpu, fp8, memory>=80GB'.",
    "threads": "Threads; by default one a core.",
    "backend": "What runs operations here: torch or numpy; by default PyTorch where it is installed.",
    "seconds": "Seconds of sampling: more confirm more on a shared machine.",
    "quick": "About ten seconds where the cores are free: fewer working sets and windows.",
    "layouts": "Every layout of a line that shards nothing: each mesh axis splits one dimension everywhere, or copies.",
    "device": "Measure an accelerator through PyTorch or JAX instead.",
    "on": "h100, h100:8, v5e:4x4, a TOML file (roofline chips --template).",
    "set": (
        "Override a figure of the chip: hbm=4TB/s, hbm=+20%, bf16=2e15, link=9e10 (names: roofline chips h100); "
        "a100.hbm=2TB/s of one of several."
    ),
    "files": "Machine file or folder over the catalog.",
    "unit": "Run the arithmetic on matrix, vector, or a unit's own name.",
    "over": "Where data comes from: hbm (default), l2, vmem, pcie …",
    "achievable": "Use measured fractions of the data-sheet rates where known.",
    "pool": "Chips that share evenly.",
    "tensor": "Chips that split each layer; a list gives a table: one for each machine, in a sweep every pair.",
    "sequence_parallel": "They split the hidden state between blocks by tokens.",
    "pipeline": "Stages of consecutive layers.",
    "balance": "Cut stages by layers (default) or by time.",
    "expert": "Chips over which whole experts are spread.",
    "expert_exchange": "Tokens are sent to experts (all-to-all, per-expert), or sums are added up (all-reduce).",
    "shared_experts": "replicated (default) or split, where tokens are sent.",
    "context_parallel": "Chips that share each sequence.",
    "kv_parallel": "Of the tensor chips, how many share keys and values.",
    "fsdp": "Chips that share one copy in training (default: what is left).",
    "zero": "0 nothing … 3 weights too.",
    "schedule": "gpipe, 1f1b, interleaved, zb-h1, zb-h2.",
    "chunks": "Pieces a stage (interleaved).",
    "link": "One-way bandwidth of a link to other chips.",
    "sharp": "AllReduce in the switches (SHARP, NVLS).",
    "network": "Count what goes over one link only: nvlink, ib, dcn.",
    "torus_axes": "Axes of a torus that a mesh axis lies over.",
    "weights": "Format of the matrices (default: the model's own).",
    "activations": "Format of activations (default: the model's own).",
    "kv": "Format of keys and values (default: as activations).",
    "dtype": "Arithmetic dtype of raw work (default bf16).",
    "dispatch": "Format in which tokens are sent to experts.",
    "combine": "Format in which experts' results are sent back.",
    "gradients": "Format of gradients (default: as weights).",
    "moments": "Format of optimizer states.",
    "master": "Second copy of weights in a format that is not theirs, or none.",
    "saved_activations": "Format that activations wait in (default: their own).",
    "formats": "Formats to choose from: bf16, fp8, 'fp8 kv fp8', int4 …",
    "flops": "Raw work: FLOPs, as a number or a formula of named sizes.",
    "bytes": "Raw work: bytes, as a number or a formula.",
    "intensity": "Raw work: an arithmetic intensity.",
    "unfused": "Attention writes its scores and probabilities to memory.",
    "checkpoint": "What training keeps: none, selective, matmuls, full.",
    "optimizer": "Optimizer: adam (adamw), adafactor, lion, momentum, muon, sgd.",
    "estimate": "Say what to expect too, by constants of a library's kernels.",
    "measured": "What it takes in reality (60us; of a model one step; of comm its busbw too): how far off the floor.",
    "library": "Whose kernels: vllm, trtllm, sglang.",
    "eager": "Expect kernels without a CUDA graph (default: with one).",
    "constants": "Constants of your own, from roofline calibrate.",
    "start": "Whose constants to start from: a library, or one chip's, as h100+vllm (default: those of vllm).",
    "ttft": "Longest time to first token: 500ms.",
    "tpot": "Longest mean time between tokens of a request: 30ms.",
    "e2e": "Longest time to the last token.",
    "percentile": "Of requests in limits.",
    "price": "Of one chip for an hour; one for each, h200=3.5,b200=6; or as listed: table, table,l4=0.8.",
    "power": "Of one chip, or tdp: that of its data sheet.",
    "objective": "What is least: chips (without prices), cost (with them), energy (power of data sheets).",
    "most": "Sequences at once.",
    "fit": "The fewest chips that hold it, and the longest context; a tenth free: --set hbm.capacity=-10%.",
    "draft": "Speculative decoding with drafts of N tokens.",
    "accept": "Chance that a drafted token holds if all before it do.",
    "draft_by": "What drafts: a model, mtp, or a fraction of a step (0.1).",
    "draft_weights": "Format of a drafting model's matrices (default: its own).",
    "prefill_on": "Prefill on chips of its own: how many for each that decodes.",
    "prefill_tensor": "Chips that split a prefill server (all).",
    "prefill_batch": "Prompts at once.",
    "disaggregate": "Prefill on chips of its own too.",
    "form": "Which bound of a step adds up to longer times.",
    "dtypes": "Roofline: a ceiling for each dtype.",
    "levels": "Roofline: a slope for each memory level.",
    "title": "A title in place of the one made up.",
    "keep": "Reduce in blocks: front, front=lower:memory, front/context for each, top=100, histogram=lower; rows.",
    "workers": "So many processes of this machine, by Dask.",
    "scheduler": "The workers of a Dask scheduler: tcp://host:8786.",
    "scheduler_file": "The same, by the file that the scheduler wrote.",
    "block_rows": "Rows of a block (10,000,000).",
    "advise": "What would move each phase, and by how much.",
    "top": "Show the runs that took longest.",
    "sort": "Order the list: peak, bandwidth, capacity, ridge, power (largest first), price, name; -ridge: turned.",
    "columns": (
        "Columns, comma-separated: lower, op_by_op, upper, bound_by, fits, flops, bytes, intensity, utilisation; "
        "of lines attainable, critical_intensity, estimate, times; of models throughput, tokens_per_second, "
        "cost_per_million, memory, memory.kv, time.hbm."
    ),
}

_TRAINED = "Format of weights and activations (default: the model's own); with lora of the frozen weights."
#: What parameters of single functions, and options of the commands of their names, mean where that differs.
MEANINGS_OF: dict[str, dict[str, str]] = {
    "accuracy": {
        "op": "A kind of kernel: gemm, attention, prefill, decode, moe, collective, step …",
        "runs": "Your own runs, to hold constants against: a CSV, in Python a list of dicts or a frame too.",
        "library": "A library: vllm, trtllm, sglang, nccl, torch.",
        "dtype": "A format of products or attention: bf16, fp8, nvfp4.",
    },
    "budget": {"tokens": "Tokens to train on, as in 15T."},
    "calibrate": {
        "on": "The chip the runs are of.",
        "library": "What ran, where rows do not say so.",
        "tensor": "Chips that split each layer.",
    },
    "chips": {"top": "Only so many: the first in the order.", "dtype": "Which peak the list shows."},
    "comm": {
        "bytes": "With a collective's name: bytes of the array, all shards together.",
        "bytes_per_chip": (
            "Instead: bytes that each chip holds before: the array for an allreduce or a reduce-scatter, its "
            "part of it for an allgather or an alltoall."
        ),
        "dtype": "Format of the array of so many bytes.",
    },
    "expected_roof": {"dtype": "Format of the products."},
    "explore": {"workers": "Questions at once."},
    "held_accuracy": {
        "runs": "Your own runs, to hold constants against: a CSV, in Python a list of dicts or a frame too."
    },
    "load": {"source": _MODELS},
    "read_measured": {"source": "A CSV file, or rows: tuples, dicts or Measured values."},
    "layout": {
        "tensor": "The tensor with the mesh axes of its dimensions: bf16[B_X, D].",
        "mesh": "Sizes of mesh axes.",
        "on": "Take the axes of a target's shape: v5e:4x4 has X=4,Y=4.",
    },
    "llm": {
        "phase": (
            "Only this phase, prefill or decode (default: both that the sizes say; a picture of time is of the last)."
        ),
        "batch": "Sequences; a list or range gives a table.",
        "algorithm": "Of the collectives: auto, two-shot, in-switch …",
        "tpot": "Longest time a token may take (20ms): best of batches, or the largest.",
        "price": "Of a chip for an hour: cost of a million tokens; of several 3.5,6 or h200=3.5,b200=6.",
    },
    "measure": {
        "chart": "Draw bandwidth over the working set: .svg, .png or .pdf.",
        "csv_file": "Write every ceiling, curve and shape as CSV in SI units.",
    },
    "model": {
        "source": _MODELS,
        "batch": "Sequences of the prefill.",
        "prompt": "Tokens of each (default 1024, or the most it takes).",
        "context": "Tokens of a sequence whose keys and values are shown.",
    },
    "network_limit": {"phase": "prefill or decode."},
    "outline": {"dtype": "Format of weights, activations, keys and values."},
    "plan": {
        "on": "Chips to choose from: h100,h200,b200 (default: those with a price).",
        "prompt": "Tokens of a prompt, on average.",
        "output": "Tokens of an answer, the mean of their lengths.",
        "draft": "Try drafts of so many tokens too: 2,4,8.",
        "estimate": "Rank by what it will take (vllm).",
        "explain": "What binds where, what figures are worth, and break-even prices.",
        "view": "frontier, first-token.",
    },
    "plot": {"machines": "A machine, or several.", "bandwidths": "Roofline: coloured regions between two."},
    "rows": {"most": "How many rows."},
    "run": {
        "on": "This machine as `roofline measure` wrote it: a machine file, or this (default).",
        "cold": "Data starts in the main memory: caches are emptied before every run; or where it lies (default).",
    },
    "scaling": {
        "name": "The condition: tp, dp, mixed, 2d …",
        "unknown": "Another size, or the number of chips along an axis (Y).",
        "dtype": "Dtype of weights and activations.",
        "weights": "Dtype of weights, where it is another.",
    },
    "sections": {"most": "How many rows."},
    "servers_ratio": {
        "batch": "Sequences that a decode server has at once.",
        "prefill_batch": "Prompts that a prefill server takes at once.",
    },
    "solve": {
        "time": "Where the floor takes this time (1ms): the largest size, the least rate, the fewest chips.",
        "for_": "A size (B), a bandwidth (hbm), a peak (bf16), dtype or dtype:1 (an operand's), or intensity.",
        "bandwidths": "Where an intensity is solved for: one or more bandwidths.",
    },
    "sweep": {"kind": "What to draw; without -o in the terminal."},
    "trace": {
        "optimizer": "And a step: sgd, adam, adamw, rmsprop, adagrad.",
        "batch": "The first size of every input that an ONNX file leaves open; several stand side by side.",
        "dtype": "Format in which the fp32 tensors of an ONNX file are taken, as if it was converted.",
        "device": "What a torch program is told when it asks a tensor for its device (default: the module's, or cpu).",
        "trips": (
            "How often loops run that JAX or an ONNX file leaves open: a number, or one for each, repeated: "
            "step.py:12=10, in Python {'step.py:12': 10}."
        ),
        "weights": "Positions of the inputs of a JAX function that hold parameters.",
        "name": "What the answer calls the program.",
    },
    "train": {
        "tokens": "A token budget, as in 15T.",
        "weights": _TRAINED,
        "data": "Copies of the model (default: what a given fsdp leaves).",
        "pipeline": "Stages that hold some layers.",
        "microbatches": (
            "Parts of a step, or several numbers (default 1, or as many as it fits in; with stages any number)."
        ),
        "fsdp": "Chips that share the states of a copy, as zero says.",
        "tensor": "Chips that split each layer; of several machines one each.",
        "expert": "Chips that hold whole experts.",
        "expert_exchange": "all-to-all (default where tokens are sent), per-expert, all-reduce.",
        "sequence_parallel": "Tensor: tokens split between blocks.",
        "algorithm": "Of the collectives (default: the fastest at each size).",
        "checkpoint": "none, selective, matmuls, full, hidden states kept a layer, or modules; a list compares.",
    },
    "training_memory": {"tokens": "Tokens whose hidden states layers keep."},
    "zones": {"dtype": "Format of the arithmetic."},
}
for _asked in ("bound", "comm", "llm", "scaling", "solve", "solve_dtypes", "solve_equal", "sweep", "trace", "train"):
    MEANINGS_OF.setdefault(_asked, {})["on"] = MEANINGS["on"].rstrip(".") + "; or several."

#: Options of commands that functions say in another way.
SAID_IN_PYTHON = {
    "full_attention": "all pairs of query and key are count='full'",
    "all_logits": "outputs for every token are logits='all'",
    "sharp": "sums in the switches are algorithm={'AllReduce': 'in-switch'}",
    "than": "other chips are chips=['a100', 'b200']",
    "warm": "caches that hold all data are over='warm'",
    "cold": "data in the main memory is over='main'",
    "equal": "where two lines cost the same is roofline.solve_equal(first, second, 'B', quantity='flops')",
    "bandwidths": "ridges by bandwidth are roofline.zones(on=..., bandwidths=[...])",
    "explain": "where figures come from is answer.explain()",
    "view": "a picture is answer.plot()",
    "json": "plain data are answer.to_dict()",
    "expected": "what to expect is asked by estimate=True",
    "solve": "where it flips is roofline.solve(line, 'B', on=...)",
    "symbols": "a size of a formula is roofline.sizes.symbol('B'), positive and whole: answer.lower.diff(symbol('B'))",
    "closed_form": "a closed form is answer.formula(), of a solution its form and printed('latex')",
    **dict.fromkeys(
        ("python", "javascript", "latex", "language"),
        "a program or LaTeX is formula.printed('python'), formula.printed('latex'); name= is the function's",
    ),
}

#: Arguments of models, by the words that other libraries have for them.
_MEANT = {
    "on": "chip chips device gpu tpu machine hardware target accelerator",
    "tensor": "tp tp_size tensor_parallel tensor_parallel_size",
    "pipeline": "pp pp_size pipeline_parallel pipeline_parallel_size stages",
    "data": "dp dp_size data_parallel data_parallel_size replicas",
    "expert": "ep ep_size expert_parallel expert_parallel_size",
    "context_parallel": "cp cp_size context_parallel_size ring",
    "fsdp": "zero zero3 fsdp_size shard",
    "weights": "dtype torch_dtype precision quantization quant",
    "kv": "kv_dtype kv_cache_dtype",
    "sequence": "seq seq_len seqlen sequence_length seq_length max_seq_len context",
    "context": "seq seq_len seqlen sequence_length seq_length ctx context_length max_model_len",
    "prompt": "input_len input_length isl prompt_len prompt_length prompt_tokens",
    "output": "max_tokens max_new_tokens output_len output_length output_tokens osl",
    "batch": "bs batch_size users concurrency",
    "batch_tokens": "bs batch batch_size global_batch_size",
    "optimizer": "optim using",
    "checkpoint": "recompute remat recomputation activation_checkpointing gradient_checkpointing",
    "microbatches": "grad_accum gradient_accumulation gradient_accumulation_steps micro_batch",
    "prompt and output": "context seq seq_len seqlen sequence_length seq_length ctx context_length max_model_len",
}

#: Attributes of answers: what they are, and the words that others have for them.
_ATTRIBUTES = {
    "estimate": ("seconds to expect, where estimate=True was asked", "expected expected_time predicted prediction"),
    "expectation": (
        "its value, low, high and parts, where estimate=True was asked",
        "interval confidence low high parts",
    ),
    "lower": ("seconds at best", "best best_case floor lower_bound minimum min_time"),
    "upper": ("seconds at worst", "worst worst_case upper_bound maximum max_time"),
    "critical_intensity": ("the ridge in FLOP/B", "ridge ridge_point knee balance machine_balance balance_point"),
    "intensity": ("FLOPs a byte", "arithmetic_intensity operational_intensity ai oi"),
    "bound_by": ("the resource that binds", "limited_by limiter bottleneck binding limiting_resource"),
    "kind": (
        "'memory-bound', 'compute-bound' or 'network-bound'",
        "memory_bound is_memory_bound compute_bound is_compute_bound network_bound is_network_bound regime",
    ),
    "total_bytes": ("the sum of bytes, which has them by memory level", "bytes_moved moved_bytes memory_bytes traffic"),
    "attainable": ("FLOP/s at best", "performance flops_per_second achieved_flops roof tflops gflops"),
    "time_to_first_token": ("seconds at best", "ttft first_token first_token_time first_token_latency"),
    "time_per_token": ("seconds at best", "tpot itl tbt inter_token_latency token_time"),
    "memory": ("bytes by part, total, and what fits", "footprint kv_cache kv_bytes peak_memory vram memory_usage"),
    "bus_bandwidth": ("B/s on the bus, as nccl-tests count", "busbw bus_bw"),
    "algorithm_bandwidth": ("B/s of the buffer, as nccl-tests count", "algbw algo_bw bandwidth"),
    "incomplete": (
        "what is not counted or not timed, a line each",
        "unknown missing gaps uncounted unsupported not_counted without_rule left_out",
    ),
    "verdicts": ("a method: who is best and why, in words", "why reason reasons verdict because winner"),
    "compare": ("a method: it and another side by side", "speedup faster_than versus relative_to"),
    "utilisation": ("the compute unit's share of the time at best", "utilization of_peak fraction_of_peak mfu"),
    "times": ("seconds by resource", "memory_time compute_time hbm_time network_time breakdown"),
    "flops": ("FLOPs of the matrix work", "flop total_flops num_flops flop_count"),
    "over_floor": (
        "how many times the floor it takes, where measured= says how long", "slowdown over_bound times_the_floor"
    ),
    "fraction": (
        "the share of the floor's speed that is reached, where measured= says the time", "efficiency fraction_of_bound"
    ),
}  # fmt: skip

#: Functions of the package, and the words that people look for them by.
_FUNCTIONS = {
    "bound": "gemm matmul attention analyze analyse predict",
    "llm": "inference infer decode prefill generate serving",
    "train": "training finetune fine_tune",
    "trace": "from_torch from_pytorch from_jax from_onnx count flops profile_model",
    "chip": "machine device gpu tpu accelerator hardware_of",
    "chips": "machines devices gpus accelerators",
    "comm": "collective allreduce all_reduce communication network_time",
    "plan": "deploy deployment capacity",
    "read_profile": "read_trace load_profile load_trace",
}

#: Options of which one value is a list.
LISTS = ("files", "skew", "tile", "image_size")


def meant(name: str, known: Container[str]) -> str:
    """Which of some arguments a word of other libraries means, as a hint; nothing where that is open.

    >>> meant("tp", ["tpot", "tensor"]), meant("seq_len", ["context"]), meant("seq_len", ["sequence"]), meant("x", [])
    ("did you mean 'tensor'?", "did you mean 'context'?", "did you mean 'sequence'?", '')
    >>> meant("context", ["prompt", "output"])
    "did you mean 'prompt' and 'output'?"
    """
    each = ((told.split(" and "), words.split()) for told, words in _MEANT.items())
    found = (several for several, words in each if all(one in known for one in several) and name.lower() in words)
    return next((f"did you mean {' and '.join(map(repr, several))}?" for several in found), "")


@lru_cache(1024)
def attribute_meant(word: str) -> tuple[tuple[str, ...], str]:
    """The attribute of answers that a word means, with other words for it, and what it is; else the word itself.

    >>> attribute_meant("knee")[0][:2], attribute_meant("knee")[1], attribute_meant("ops")
    (('critical_intensity', 'ridge'), 'the ridge in FLOP/B', (('ops',), ''))
    """
    each = (((name, *words.split()), said) for name, (said, words) in _ATTRIBUTES.items())
    return next((found for found in each if word.lower() in found[0]), ((word,), ""))


def function_meant(word: str, known: Collection[str]) -> str:
    """The function of the package that a word means, or that is spelled nearly so; nothing where that is open.

    >>> function_meant("machine", ["chip", "sweep"]), function_meant("swep", ["chip", "sweep"]), function_meant("x", [])
    ('chip', 'sweep', '')
    """
    meant = next((name for name, words in _FUNCTIONS.items() if word.lower() in words.split()), None)
    return meant or did_you_mean(word, known) or ""


def unknown_argument(name: str, known: Collection[str]) -> InputError:
    """An error about an argument of a name that is not known, with the one that it means.

    >>> print(unknown_argument("tp", ["batch", "tensor"]))
    there is no argument 'tp'; did you mean 'tensor'?
    """
    hint = SAID_IN_PYTHON.get(name) or meant(name, known) or suggest(name, known, what="arguments")
    return InputError(f"there is no argument {name!r}", hint=hint)
