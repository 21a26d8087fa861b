"""Language models: a published ``config.json`` → parameters, operations, memory, and the floor of serving it.

>>> from roofline.models import load
>>> load("llama-2-7b").parameters
6738415616
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.errors import late_names

if TYPE_CHECKING:
    from roofline.bounds.cost import token_cost
    from roofline.models.closed_form import serve_table
    from roofline.models.config import load, names, outline
    from roofline.models.description import Model
    from roofline.models.operations import decode, prefill
    from roofline.models.parallelism.layout import Parallelism, pool
    from roofline.models.serving import serve_bound
    from roofline.models.serving.advice import advise_step
    from roofline.models.serving.answer import serve
    from roofline.models.serving.disaggregation import answer_rate, disaggregate, servers_ratio
    from roofline.models.serving.fit import fewest, largest_batch, longest_context, nearest, outweighing_batch
    from roofline.models.serving.generation import chunked, generation
    from roofline.models.serving.limits import network_limit
    from roofline.models.serving.pareto import latency_throughput
    from roofline.models.serving.speculation import expected_tokens, speculate
    from roofline.models.serving.step import mixed
    from roofline.models.training import train
    from roofline.models.training.budget import budget, training_memory

_NAMES = {
    ".bounds.cost": ("token_cost",),
    "closed_form": ("serve_table",),
    "config": ("load", "names", "outline"),
    "description": ("Model",),
    "operations": ("decode", "prefill"),
    "parallelism.layout": ("Parallelism", "pool"),
    "serving": ("serve_bound",),
    "serving.advice": ("advise_step",),
    "serving.answer": ("serve",),
    "serving.disaggregation": ("answer_rate", "disaggregate", "servers_ratio"),
    "serving.fit": ("fewest", "largest_batch", "longest_context", "nearest", "outweighing_batch"),
    "serving.generation": ("chunked", "generation"),
    "serving.limits": ("network_limit",),
    "serving.pareto": ("latency_throughput",),
    "serving.speculation": ("expected_tokens", "speculate"),
    "serving.step": ("mixed",),
    "training": ("train",),
    "training.budget": ("budget", "training_memory"),
}
__getattr__ = late_names(__name__, _NAMES)

__all__ = [
    "Model", "Parallelism", "advise_step", "answer_rate", "budget", "chunked", "decode", "disaggregate",
    "expected_tokens", "fewest", "generation", "largest_batch", "latency_throughput", "load", "longest_context",
    "mixed", "names", "nearest", "network_limit", "outline", "outweighing_batch", "pool", "prefill", "serve",
    "serve_bound", "serve_table", "servers_ratio", "speculate", "token_cost", "train", "training_memory",
]  # fmt: skip
