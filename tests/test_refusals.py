"""What Python refuses of a value: one error of ours that says what would be right. The commands' are in tests/cli."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import random
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy

import roofline
from roofline import estimates, measurement, models
from roofline.bounds.solve import solve_equal
from roofline.charts.roofline_charts import roofline_chart
from roofline.cli import main
from roofline.errors import BlockError, InputError, RooflineError, quoted
from roofline.sizes import array_of
from roofline.work import Work
from tests.strategies import for_each, short_fits, some

LINE = "bf16[B, D] * bf16[D, F]"
SIZES = {"B": 8, "D": 8, "F": 8}
CHIP = roofline.chip("h100")
ASKED: dict[str, Any] = {"on": "h100", "rate": 1, "prompt": 8, "output": 8}
DENOISER = {
    "model_type": "Dream", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96, "vocab_size": 100,
}  # fmt: skip


def _bound() -> Any:
    return roofline.bound("bf16[8, 8] * bf16[8, 8]", on="h100")


def _roof(*machines: Any, bounds: Any = ()) -> Any:
    from roofline.charts.roofline_charts import roofline_chart

    return roofline_chart(list(machines), bounds)


def _bare() -> Any:
    """A chip without any rate."""
    from dataclasses import replace

    chip = roofline.chip("h100")
    return replace(chip, memories=tuple(memory._replace(bandwidth=None) for memory in chip.memories))


def _limit(kind: str) -> Any:
    from roofline.models.serving.limits import network_limit

    return network_limit("llama-3-8b", "decode", "h100", kind=kind)


def _swept(**more: Any) -> Any:
    return roofline.sweep("llama-3-8b", on="h100", phase="mixed", prompt=1024, chunk=256, context=1024, **more)


def _load(**more: Any) -> Any:
    from roofline.plans.load import ServerTimes

    return ServerTimes.of(step=[0.01] * 4, prompt=0.1, output=8, **more)


def _all_reduce(devices: int) -> Any:
    from roofline.measurement.accelerator import all_reduce

    return all_reduce(devices)


def _page(name: str, **question: Any) -> Any:
    from roofline.cli.explore import command_words

    return command_words(name, question)


def _stated(trips: Any) -> Any:
    from roofline.programs.rule_table import stated

    return stated(trips, "step.py:12", "open")


def _configured(name: str, **fields: Any) -> Any:
    """A shipped configuration with other fields; None leaves one out."""
    path = Path(roofline.__file__).parent / "models" / "catalog" / f"{name}.json"
    changed = {**json.loads(path.read_text(encoding="utf-8")), **fields}
    return roofline.model({key: value for key, value in changed.items() if value is not None})


def _at(line: str, **sizes: Any) -> Any:
    """Run a line here with PyTorch, held against made figures."""
    from roofline.measurement import MeasuredMachine, run
    from roofline.measurement.executors import torch_library
    from tests.measurement.made import made

    return run(line, at=MeasuredMachine(made(), CHIP, CHIP), library=torch_library(), **sizes)


def _rate(name: str, value: Any, plain: float) -> Any:
    rate = SimpleNamespace(value=value, plain=plain, figure=None)
    return SimpleNamespace(resource=name, quantity="bytes", place="", dtype="", rate=rate)


def _rates(*values: float, open: bool = True) -> Any:
    from roofline.bounds.closed_form import rate_symbols
    from roofline.sizes import symbol

    return rate_symbols([_rate("hbm", symbol("W") if open else 1.0, value) for value in values])


def _closed() -> Any:
    from dataclasses import replace

    from roofline.bounds.closed_form import closed_form

    return closed_form(replace(_bound(), question=None))


def _sent(algorithm: str) -> Any:
    from roofline.ops.collectives.cost import cost

    return cost("AllReduce", [within("hardware.machine", "MeshAxis")("X", 4)], 1e6, algorithm=algorithm)


def _mixture(**fields: Any) -> Any:
    """A small configuration of a mixture of experts."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    return roofline.model({**sizes, "intermediate_size": 64, "num_experts": 4, "moe_topk": 2, **fields})


def within(module: str, name: str) -> Any:
    """A function or class of the package by its place."""
    return getattr(import_module(f"roofline.{module}"), name)


def _travelled() -> Any:
    """A compiled form as a worker gets it."""
    return pickle.loads(pickle.dumps(roofline.bound(LINE, on="h100", D=8, F=8).compile()))


def _resized() -> Any:
    asked = roofline.bound("AllReduce_X(bf16[B])", on="v5e:4", mesh={"X": 4}, B=8).question
    return within("bounds.advise", "_resized")(asked, (), "X", 8)


def _hybrid() -> Any:
    from torch.distributed.fsdp import ShardingStrategy

    return ShardingStrategy.HYBRID_SHARD


def _node() -> Any:
    from onnx import helper

    return helper.make_node("Scan", ["x"], ["y"])


def _lazy() -> Any:
    from torch.nn import LazyLinear

    return roofline.trace(LazyLinear(4), "fp32[2, 3]")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: roofline.advise(_bound(), B=3), "a bound already has its machine and sizes; give an expression to ask"),
    (lambda: roofline.comm("AllReduce", bytes="1GB", on="v5e", mesh={"X": "n"}), "bytes go with a number of chips"),
    (lambda: roofline.solve_dtypes(LINE, 5, on="v5e", B=1, D=1, F=1), "there is no operand 5; operands are: 0"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, objective="speed"), "no objective 'speed'; objectives are: cost"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, lengths="even"), "no lengths 'even'; lengths are: geometric, fixed"),
    (lambda: _load(lengths="even"), "no lengths 'even'; lengths are: geometric, fixed"),
    (lambda: _load().under(1e9), "1e+09 requests/s are not below the "),
    (lambda: _roof(), "no machine to draw the roof of; name one, such as 'h100'"),
    (lambda: roofline.charts.time_chart({}), "there is no curve to draw; give curves by label, each over the same"),
    (lambda: roofline.charts.throughput_chart({}), "there is no curve to draw; give curves by label, each over the"),
    (lambda: roofline.charts.roofline_chart([CHIP], allowed=[_bound()]), "allowed has 1 bounds for 0 runs; give one"),
    (lambda: roofline.charts.read_measured([[[]]]), "point 1: [[]] is not a run; give (name, flops, bytes, seconds)"),
    (lambda: roofline.ops.padded(_bound().ops[0].op, ()), "tile is (), and takes a list"),
    (lambda: roofline.hardware.with_choices(CHIP, unit=np.array([1, 2])), "unit is array([1, 2]), and takes text"),
    (
        lambda: measurement.run_function(lambda: 1 // 0, on="h100", flops=1e9, bytes=1e9),
        "<lambda> raised ZeroDivisionError: integer division or modulo by zero; it is called without arguments",
    ),
    (lambda: measurement.run_function(print, on="h100", flops=1, bytes=1, threads=None), "threads is None, and takes"),
    (lambda: _bound().save(3), "path is 3, and takes text"),
    (lambda: measurement.measure_device("cuda"), "'cuda' drives no device; device='cuda' of measure makes one"),
    (lambda: roofline.hardware.override({"x": None}, {}), "machine is {'x': None}, and takes Machine"),
    (lambda: roofline.models.load("llama-2-7b").layer_weights(among="1, 2"), "among is '1, 2', and takes a list"),
    (lambda: roofline_chart("B=8"), "machines is 'B=8', and takes a list"),
    (lambda: _bound().to_pandas(np.array([1, 2])), "table is array([1, 2]), and takes text"),
    (lambda: _bound().interactive(height=None), "height is None, and takes a whole number"),
    (lambda: roofline.plot([_bound(), _bound()]), "an answer draws itself; answer.plot(), and of"),
    (lambda: roofline.formula("[B, 8] * [8, 8]", on="h100").plot(), "or of two: found(B=[16, 64, 256]).plot()"),
    (lambda: roofline.formula("[B, 8] * [8, 8]", on="h100")(B=8)["at best"], "did you mean 'lower'?"),
    (lambda: _bound().compare(_bound())["other"], "no answer 'other'; names are: "),
    (lambda: roofline.plan("llama-3-8b"), "missing required arguments: 'rate', 'prompt', 'output'; the call"),
    (lambda: _bound().throughput(), "missing a required argument: 'size'; the call is throughput(size)"),
    (lambda: _bound().plot().with_title(np.nan), "title is nan, and takes text"),
    (lambda: _bound().plot().with_width(10**9), "a chart of 1000000000 × 100000 pixels; at most 100,000 of each"),
    (lambda: _bound().plot().to_text(10**9), "a chart of 1000000000 columns and 24 rows; at most 1,000 of each"),
    (lambda: _bound().chips_for(5e-324), "no number of chips does this in 5e-324 seconds; give a longer time"),
    (lambda: roofline.bound(LINE, on="h100", B=[8, 16], D=8, F=8).chips_for(1), "chips_for is of one configuration"),
    (lambda: roofline.model("llama-2-7b").cache_bytes(float("inf")), "length is inf; a number of tokens, an array or"),
    (lambda: roofline.model("llama-2-7b", name="\ud800"), "name has a character that is no text, U+D800; leave it out"),
    (lambda: estimates.expected_roof("h100,h200"), "unknown chip 'h100,h200'"),
    (lambda: models.expected_tokens("", 0.5), "size length"),
    (lambda: models.advise_step("llama-2-7b", "decode", on="h100", context="x"), "size context is 'x'"),
    (lambda: models.nearest("llama-2-7b", "h100", batch=1, context=9, prompt={"x": 1}), "there is no argument 'x'"),
    (lambda: models.nearest("llama-2-7b", "h100", batch=1, context=9, prompt={"prompt": None}), "sizes of a prefill"),
    (lambda: models.decode("llama-2-7b", context=9, skew=[1, 2]), "llama-2-7b has no experts that tokens could prefer"),
    (lambda: roofline.shard("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", B=8, D=8, F=8, algorithm="tree"),
     "tree does not do AllGather over X"),
    (lambda: _roof(_bare()), "no roof to draw: NVIDIA H100 SXM5 80GB needs a peak and a bandwidth; give both"),
    (
        lambda: _roof(roofline.chip("h100"), bounds=[roofline.bound(LINE, on="h100", B=[8, 16], D=8, F=8)]),
        "a point needs single sizes, not arrays; say which size to draw over: vary='B'",
    ),
    (lambda: roofline.zones(_bare()), "has no bandwidth at hbm; give one, as in bandwidths=[8.2e11]"),
    (lambda: _limit("sideways"), "no limit of 'sideways'; kinds are: "),
    (lambda: _swept(columns=["throughput"]),
     "no throughput: a table of mixed steps counts no tokens; of decode, prefill, train"),
    (
        lambda: roofline.models.budget("llama-3-8b", on="h100:8", tokens=1e12, days=30, chip_hours=1e5),
        "chip-hours, days and chips are given, and each follows; leave one out",
    ),
    (lambda: roofline.bound(LINE, on="h100", plan=np.array([1, 2])), "plan is array([1, 2]); its rank, as in plan=2"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, arrival_variation=0), "a variance of arrivals of 0; above 0, up"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, memory_share=0), "0 of a chip's memory; a share above 0 and up to 1"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, logits="last"), "logits= is no choice of a plan; it asks each"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, images=0), "images= is no choice of a plan; it asks each layout"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, batch=1), "batch= is no choice of a plan; it asks each layout"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, chunk=512), "chunk= is no choice of a plan; it asks each layout"),
    (lambda: roofline.llm("llama-3-8b", on="h100", skew=range(0)), "llama-3-8b has no experts that tokens could"),
    (lambda: roofline.llm("mixtral-8x7b", on="h200", skew=[]), "the skew has 0 shares, and there are 8 experts"),
    (lambda: roofline.llm("mixtral-8x7b", on="h200", skew=(1.0,)), "the skew has 1 shares, and there are 8 experts"),
    (lambda: roofline.llm("mixtral-8x7b", on="h200", skew=[0] * 8), "the shares of a skew are not negative, and some"),
    (
        lambda: roofline.evaluate([], [], roofline.chip("h100"), gaps="x" * 10**6),
        "gaps is one text, and takes a list of sentences; as in gaps=['…']",
    ),
    (lambda: roofline.plan("llama-3-8b", **ASKED, past=8), "past= is no choice of a plan; it asks each layout"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, tensor=np.array([1, 2])), "tensor= is no choice of a plan"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, host_layers=[1, 2]), "a plan takes one number of host_layers="),
    (lambda: roofline.llm("llama-3-8b", on="h100", host_layers=2.5), "host_layers= is 2.5; a whole number of at le"),
    (lambda: roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536, days=3), "days= is of a budget; leave"),
    (lambda: roofline.formula("llama-3-8b", on="h100", context=[1, 2]), "size context has several values; leave it"),
    (lambda: _swept(tensor=np.array([1, 2])), "tensor is an array; give its values in a list"),
    (lambda: roofline.trace(abs, "bf16[8]", frontend="torch", device="x"), "device 'x' is none of torch's; cpu, cuda"),
    (lambda: roofline.bound("rope(bf16[2, 8, 7])", on="h100"), "rope turns pairs of elements, and a head has 7"),
    (lambda: roofline.bound(LINE, on="h100", compute=3), "compute is the name of a dtype, not 3; as in compute='bf16'"),
    (lambda: roofline.notation.program(LINE, compute=3), "compute is the name of a dtype, not 3; as in compute='bf16'"),
    (lambda: roofline.bound(LINE, on="h100", B=[], D=8, F=8), "size B is an empty array; give at least one value"),
    (
        lambda: roofline.sweep(LINE, on="h100", B=[1, 2], D=8, F=8, keep="front", block_rows=0),
        "0 rows a block; a million or more keeps a scheduler idle",
    ),
    (lambda: _all_reduce(1), "an all-reduce needs two devices; there is 1 here"),
    (lambda: roofline.trace(len, "fp32[4]", policy="fused"), "policy= is of a machine, and none is named; as in on="),
    (lambda: _stated(-1), "step.py:12: a loop cannot run -1 times; trips are a whole number from 0 on"),
    (
        lambda: roofline.trace(abs, "fp32[4]", frontend="jax", optimizer="adam"),
        "a JAX optimizer is part of the function; trace the training step with its update",
    ),
    (lambda: _lazy(), "has no shape yet: a lazy module takes it from its first input"),
    (
        lambda: _configured("deepseek-ai--deepseek-v4-flash", compress_ratios=None, layer_types=None),
        "has no compress_ratios; a deepseek_v4 configuration needs them or layer_types",
    ),
    (
        lambda: _configured("nvidia--minimax-m2.5-nvfp4", attn_type_list=[0] * 62),
        "has linear attention; only full attention (1) is read",
    ),
    (
        lambda: _configured("nvidia--llama-3_3-nemotron-super-49b-v1", block_configs=None),
        "has no block_configs; a nemotron-nas configuration needs one a layer",
    ),
    (
        lambda: roofline.scaling("tp", on="v5p", torus_axes={"X": 4_000_000_000_000}),
        "X over 4e+12 axes of a torus; a torus has at most 64 axes here",
    ),
    (
        lambda: roofline.bound("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]", on="h100:8", mesh={"X": [2, 4]}, B=64, D=8),
        "size F has no value while X is an array; give F too: arrays and unnamed sizes do not mix",
    ),
    (
        lambda: _configured("nvidia--nvidia-nemotron-3-nano-30b-a3b-nvfp4", mlp_bias=True),
        "is true and it has experts; theirs are not read",
    ),
    (
        lambda: _configured(
            "nvidia--nvidia-nemotron-3-nano-30b-a3b-nvfp4", hybrid_override_pattern=None, layers_block_type=None
        ),
        "has no layers_block_type; a nemotron_h configuration needs it or hybrid_override_pattern",
    ),
    (lambda: _page("explore"), "a page cannot ask 'explore'; commands are: "),
    (lambda: _page("bound", words=[None]), "None is no word of a command line; a word, a number, or a list"),
    (lambda: _page("bound", more="'x"), "a quotation mark is not closed; close it, or leave it out"),
    (lambda: _closed(), "every size has a value; name a size in place of its number, as in trace(program"),
    (lambda: _rates(1.0, 2.0), "two rates are called W; this answer has no closed form"),
    (lambda: _rates(1.0, open=False), "the rate of hbm is a number; this answer has no closed form"),
    (lambda: roofline.layout("", mesh={"X": 4}), "'' is no tensor; as in layout('bf16[B_X, D]', mesh={'X': 4})"),
    (lambda: roofline.layout("bf16[B] + bf16[B]", mesh={"X": 4}), "a layout is that of one tensor with its dimensions"),
    (
        lambda: roofline.solve_equal("conv(bf16[1, S, 8], bf16[3, 8, 8], stride=2)", LINE, "S", B=4, D=4, F=8),
        "there is no closed form in S; solve for another size, or give the others numbers",
    ),
    (lambda: roofline.plan("llama-3-8b", **{**ASKED, "output": 1}).plot(), "answers of one token have no time per tok"),
    (
        lambda: roofline.plan("llama-3-8b", **ASKED, count=1, tpot=1e-9).simulated(),
        "there is no replica that takes whole requests to simulate; looser limits",
    ),
    (lambda: roofline.plan("llama-3-8b", **{**ASKED, "prompt": 0}), "prompt of 0 tokens; 1 token at least"),
    (lambda: roofline.plan("llama-3-8b", **{**ASKED, "output": 10**400}), "output is a number of over 300 digits"),
    (
        lambda: roofline.llm(DENOISER, on="h100", context=8),
        "is a denoiser, which does not decode; give a prompt",
    ),
    (
        lambda: roofline.plan(DENOISER, **ASKED),
        "which does not decode; output=1 plans for passes, with prompt and answer together as the prompt",
    ),
    (lambda: _mixture(model_type="rwkv7"), "model_type 'rwkv7' has layers that are not modelled"),
    (lambda: _mixture(model_type="hunyuan_v1_moe", num_shared_expert=2), "has not one shared expert; that is not read"),
    (
        lambda: _mixture(model_type="phi", partial_rotary_factor=3),
        "partial_rotary_factor of phi is 3; it is a fraction, above 0 and up to 1",
    ),
    (
        lambda: _configured(
            "nvidia--nvidia-nemotron-3-nano-30b-a3b-nvfp4", hybrid_override_pattern=3, layers_block_type=None
        ),
        "hybrid_override_pattern of nemotron_h is 3; it is a text",
    ),
    (lambda: _bound().chips_for(-1), "a time of -1; seconds, above 0"),
    (
        lambda: roofline.models.budget("llama-3-8b", on="h100:8", tokens=1e12, mfu=0.8, checkpoint="full"),
        "an MFU of 80% with a forward pass run again; at most 75%: 6 of 8 FLOPs",
    ),
    (lambda: within("plans.cost", "Trace").of((0, 1, 2), (1, -1)), "a rate of -1 requests/s in a trace; rates are 0"),
    (lambda: within("plans.cost", "Trace").of((0, 1), (1e-70,)), "a rate of 1e-70 requests/s in a trace; rates are"),
    (lambda: within("plans.cost", "Trace").of((0, float("inf")), (1,)), "a time of inf s in a trace; seconds from 0"),
    (lambda: within("models.weights", "modules")("x"), "modules are 'x'; a list of texts, such as ['lm_head']"),
    (lambda: within("plans.load", "Acceptance")(0, 0.8), "a draft of 0 tokens; from 1 to 128, as in draft=4"),
    (
        lambda: roofline.llm("llama-2-7b", on="h100", context=128, tensor=range(1, 2001)),
        "one answer of 2,000 layouts (by tensor=), and at most 1,000 are taken; give fewer values, or ask roofline",
    ),
    (
        lambda: roofline.llm("llama-2-7b", on="h100", batch=range(1, 1001), context=np.arange(1, 102)[:, None]),
        "one answer of 101,000 steps (by batch=, context=), and at most 100,000 are taken; give fewer values, or ask "
        "roofline.sweep(), which takes millions of combinations; arrays that go together: roofline.formula(model, …)",
    ),
    (lambda: roofline.layout("llama-3-8b", on="h100:8"), "llama-3-8b is a model, and this is about one tensor; what"),
    (lambda: roofline.comm("allreduce", bytes=range(5), on="h100:8"), "bytes= takes one amount or a list; several st"),
    (lambda: roofline.comm("allreduce", bytes="1kB:1GB:*10", on="h100:8"), "bytes= takes one amount or a list; sev"),
    (lambda: roofline.plan("llama-3-8b", on="h100", rate=4, context=8192), "did you mean 'prompt' and 'output'?"),
    (
        lambda: within("bounds.comparison", "compare")(roofline.chip("h100"), roofline.chip("v5p")),
        "machines are no answers; roofline.chips('h100', 'v5p') compares them",
    ),
    (lambda: roofline.chip("h100", hbm=[1e12, 2e12]), "hbm has several values, and a machine has one; formula(…) at"),
    (lambda: roofline.bound("bf16[64,64] * bf16[64,64]", onn="a100"), "no argument 'onn'; did you mean 'on'?"),
    (lambda: roofline.bound("bf8[64,64] * bf16[64,64]", on="a100"), "AMD calls fp8_e5m2 so; fp8 is e4m3"),
    (lambda: roofline.llm("llama-3-8b", on="h100", kv="bf8"), "AMD calls fp8_e5m2 so; fp8 is e4m3"),
    (
        lambda: roofline.bound("bf16[B,64] * bf16[64,64]", on="a100", B="sixty"),
        "which has no value; a size is a number, as in B=64, or a formula of numbers and other sizes",
    ),
    (lambda: roofline.model(["a", "b"]), "is not a model; give one; roofline.llm() and roofline.train() put several"),
    (
        lambda: roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], D=3, F=4, measured=1.0),
        "a measured time is of one configuration; give each size one number; roofline.profile([{",
    ),
    (
        lambda: roofline.sweep("llama-2-7b", on="h100", batch=range(1, 10**6), context=range(1, 10**6)),
        "a table of 999,998,000,001 rows is too large for memory; give fewer values; keep='front,top=100' holds only",
    ),
    (
        lambda: roofline.sweep("[B, D] * [D, F]", on="h100", B=range(1, 10**6), D=range(1, 10**6), F=1),
        "a table of 999,998,000,001 rows is too large for memory; give fewer values; keep='front,top=100' holds only",
    ),
    (
        lambda: roofline.sweep("[B, D] * [D, F]", on="h100", B=range(1, 10**6), D=range(1, 10**6), F=1),
        "where sizes go in pairs, roofline.bound takes the same arrays, a row each",
    ),
    (
        lambda: roofline.train("llama-2-7b", on="h100:8", batch_tokens=65536, sequence=range(1, 100_002)),
        "one answer of 100,001 steps (by sequence=), and at most 100,000 are taken",
    ),
    (
        lambda: roofline.sweep("llama-2-7b", on="h100", context=64, tensor=list(range(1, 100_002))),
        "one answer of 100,001 choices (by tensor=), and at most 100,000 are taken; each is a formula of its own",
    ),
    (
        lambda: roofline.sweep("llama-2-7b", on="h100", context=64, sequence=list(range(1, 100_002))),
        "there is no argument 'sequence'; did you mean 'sequence_parallel'?",
    ),
    *(
        (
            lambda where=where: roofline.models.disaggregate(
                "llama-2-7b", prompt=64, output=8, **{"prefill": {"on": "h100"}, "decode": {"on": "h200"}, **where}
            ),
            "tensor has several values; give one: this answer is about one configuration",
        )
        for where in ({"tensor": [1, 2]}, {"decode": {"on": "h200:2", "tensor": [1, 2]}})
    ),
    (
        lambda: roofline.plan("llama-2-7b", on="h100", rate=1, prompt=64, output=16, count=range(1, 20_000)),
        "a plan of 19,999 numbers of chips; at most 10,000, as in 8:4096:*2",
    ),
    (
        lambda: roofline.scaling("fsdp", on="v5p", torus_axes={"X": [1, 2]}),
        "torus_axes for X has several values; one number, as in X=2",
    ),
    (lambda: _at("relu2(fp32[8])"), "torch has no function 'relu2' to run here; write it in functions that torch "),
    (lambda: _at("max_pool(fp32[1, 8, 8, 4], window=2, pad=same)"), "torch pools with no pad=same; say how many"),
    (lambda: _at("layer_norm_B(fp32[B, D])", B=8, D=8), "layer_norm cannot be run here; layer_norm and rms_norm"),
    (lambda: _at("fp4[8, 8] * fp4[8, 8]"), "torch has no fp4 to run fp4[8, 8] * fp4[8, 8] -> fp4[8, 8] in; it has"),
    (lambda: _at("fp32[B, 8] * fp32[8, 8]", B=[1, 2]), "an operation is run at one size; give each size one value"),
    (lambda: _sent("auto"), "auto compares times, and those take the rates of a machine; as in Chooser('auto', mac"),
    (
        lambda: roofline.shard("bf16[B_X, D]{U_X} + bf16[B_X, D]", on="v5e:4"),
        "axis X both shards this tensor and is summed over in {U_X}",
    ),
    (lambda: roofline.notation.program("%1 = bf16[8]; relu(%1)"), "'%1' is not a name; a name begins with a letter"),
    (lambda: roofline.notation.program(f"relu({', '.join(['bf16[8]'] * 9)})"), "relu takes 1 operand"),
    (lambda: roofline.notation.program("attention(bf16[8, 8, 8], bf16[8, 8, 8], casual)"), "did you mean 'causal'"),
    (lambda: roofline.notation.program("h = bf16[2, 8]; h[4, 8] + h"), "h is h[2, 8]; a name is assigned once; give"),
    (lambda: roofline.notation.program("bf16[2, 3] @ bf16[4, 5]"), "[2, 3] @ [4, 5]: 3 and 4 differ; numbers pair"),
    (
        lambda: roofline.sweep("llama-3-8b", on="h100:8", phase="decode", tensor=[3, 5], batch=[1], context=8),
        "tensor 3 does not divide the 8 chips of h100:8",
    ),
    (lambda: _travelled().code(("upper",), frozenset(), True), " did not travel; work it out before"),
    (lambda: _resized(), "v5e:4 has one shape; name a larger target"),
    # What no question of today comes to, asked of the function that says it.
    (lambda: within("estimates.own_runs", "_attention")(
        {"batch": "1", "heads": "8", "head_size": "64", "length": "8", "q_length": "9", "dtype": "bf16"}),
     "q_length is above length; length counts the keys, new ones among them"),
    (lambda: within("grids.runs", "Cluster")(workers=-1), "-1 workers; 0 for this process, or a number of them"),
    (lambda: within("grids.blocks", "Reducing")(None, None, version="0").prepared(0),
     "the workers have roofline "),
    (lambda: within("measurement.accelerator", "_summary")([]), "no all-reduce was timed"),
    (lambda: within("measurement.accelerator", "JaxDevice")(99), "there is no device 99; JAX sees "),
    (lambda: within("measurement.executors", "_only_axis")(SimpleNamespace(over=("B", "D"), function="softmax")),
     "softmax along 2 dimensions cannot be run here; one can"),
    (lambda: within("measurement.timing", "time_call")(bool, rounds=0), "nothing was timed; give at least one round"),
    (lambda: within("bounds.cost", "token_cost")(time=1.0, tokens=1, price=-1), "price is -1; dollars a ch"),
    (lambda: within("models.serving.layouts", "largest")(lambda count: True), "there is no largest one: nothing grows"),
    (lambda: within("models.parallelism.layout", "Parallelism").on(roofline.chip("h100:8"), tensor=[1, 2]),
     "tensor is a plain number of chips; several layouts make a table"),
    (lambda: within("programs.pytorch.rules.contractions", "stored_elements")(SimpleNamespace(values=None, shape=(4,))),
     "how many elements a sparse tensor of [4] stores is not known on shapes alone; give it as an input, or hold it"),
    (lambda: within("programs.pytorch.data_parallel", "_mesh")(None, _hybrid()), "a hybrid sharding needs its two "),
    (lambda: within("programs.jax.trace", "scan")(
        None, SimpleNamespace(params={}), [], SimpleNamespace(place="a.py:3: ")),
     "a.py:3: a scan without a length cannot be counted; give it a length"),
    (lambda: within("programs.onnx.trace", "_scan")(SimpleNamespace(known={}), _node(), {}, "", 1),
     "y: the length of this Scan is not known; give the sizes"),
    (lambda: roofline.llm("7e9", on="h100", context=64, estimate=True),
     "nothing is expected of layers.0.parameters, whose shapes are not known; name a model, or give its config.json"),
    (lambda: roofline.llm(models.outline(7e9, kv=4096), on="h100", context=64, estimate=True), "shapes are not known"),
    (lambda: roofline.sweep("llama-2-7b", on="h100", batch=[8, 9], context=8, price=[[2]]),
     "price is [2]; dollars for a chip-hour, as in 2.5"),
    (lambda: roofline.sweep("llama-2-7b", on="h100", batch=[8, 9], context=8, price=[sympy.Symbol("p")]),
     "price is [p], and a table needs numbers; as in price=2.5"),
    (lambda: roofline.llm("llama-2-7b", on="h100", batch=[8, 9], context=8).configuration(2),
     "there is no configuration 2; places go from 0 to 1"),
    (lambda: roofline.llm("llama-2-7b", on="h100", phase="train"), "no phase 'train'; phases are: prefill, decode"),
    (
        lambda: roofline.llm("llama-2-7b", on="h100", phase="prefill", prompt=9, batch=[1, 2], front=True),
        "phase='prefill' is of one step, and front=True needs the other",
    ),
    (lambda: roofline.llm("llama-2-7b", on="h100").configuration(-1), "there is no configuration -1; places go"),
    (lambda: roofline.formula(LINE, on="h100").steps(wide=True), "the formula has no value of B, D, F; give sizes"),
    (lambda: roofline.plot(on="h100", bytes="N"), "size N has no value; a point needs numbers, as in N=64"),
    (lambda: roofline.plan("llama-3-8b", **{**ASKED, "price": range(3)}), "not one price for each of h100: 3 given"),
    (lambda: within("cli.output", "prepared")(SimpleNamespace(data=[], shown=[], programs=[]), "x.html", []),
     "what this prints is no answer that a file could hold; leave -o out"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_refused(ask: Callable[[], Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        ask()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("library", "ask", "message"),
    [
        ("pandas", lambda: _bound().to_pandas(), "pandas is not installed; pip install pandas, or save('answer.csv')"),
        ("simpy", lambda: roofline.plan("llama-3-8b", **ASKED).simulated(), "a simulation needs simpy; pip install"),
    ],
)
def test_a_library_that_is_missing_is_named(
    library: str, ask: Callable[[], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError) as caught:
        ask()
    assert message in str(caught.value)


def test_an_onnx_file_without_a_graph_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="holds no graph; export or download it again"):
        roofline.trace(str(path))


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", "--port", str(port), "--no-browser"]) == 2
    assert f"port {port} is not free: " in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(address: str) -> None:
        raise OSError("refused")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=refuse))
    words = ["sweep", LINE, "--on", "h100", "B=1:4", "D=8", "F=8", "--keep", "front", "--scheduler", "tcp://host:8786"]
    assert main(words) == 2
    assert "no scheduler answers at tcp://host:8786: refused; dask scheduler starts one" in capsys.readouterr().err


def test_a_device_of_pytorch_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="there is no device 3; PyTorch sees 1"):
        within("measurement.accelerator", "TorchDevice")(3)


def test_a_system_that_tells_no_cpu_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline.measurement.machine_code.time", SimpleNamespace())
    with pytest.raises(RooflineError, match="this system does not tell a thread's CPU time; measuring needs Linux or"):
        within("measurement.machine_code", "Compiler")()


def test_the_explorer_names_the_libraries_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main(["explore", "--no-browser"]) == 2
    assert "the explorer needs starlette and uvicorn; pip install '.[web]' in the folder" in capsys.readouterr().err


def test_runs_as_json_are_told_from_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text('[{"name": "a", "flops": 1e9, "seconds": 1e-3}]', encoding="utf-8")
    with pytest.raises(
        InputError, match="holds runs as JSON; write_runs writes them as they are read here; else write it"
    ):
        roofline.profile(str(path), on="h100")


def test_one_number_of_chips_and_of_drafts_does() -> None:
    one = roofline.plan("llama-3-8b", **ASKED, count=1, draft=4)
    assert one.to_dict() == roofline.plan("llama-3-8b", **ASKED, count=[1], draft=[4]).to_dict()


def test_a_draft_that_cannot_be_split_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise InputError("not so")

    small = SimpleNamespace(name="small", after=())
    drafting = SimpleNamespace(model=small, held=small, options={})
    monkeypatch.setattr("roofline.plans.replicas.drafter", lambda *given: drafting)
    monkeypatch.setattr("roofline.plans.replicas.local_stages", refuse)
    monkeypatch.setattr("roofline.plans.replicas.step_options", lambda *given: {})
    asked = SimpleNamespace(model=None, drafts=SimpleNamespace(by="small", weights=None))
    with pytest.raises(InputError, match="what drafts, small: not so"):
        within("plans.replicas", "DraftSteps").of(asked, SimpleNamespace(draft=2), roofline.chip("h100"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (OSError("connection closed"), "block 3 was not done: connection closed; what is done is kept: the same comm"),
        (ZeroDivisionError("by zero"), "block 3 failed: ZeroDivisionError: by zero; what is done is kept: the same"),
    ],
)
def test_a_block_that_was_not_done_is_said(wrong: Exception, message: str) -> None:
    def lost() -> None:
        raise wrong

    with pytest.raises(BlockError, match=message):
        within("grids.runs", "_result")(SimpleNamespace(result=lost), "block 3")


def test_two_dimensions_of_one_name_are_not_made_by_pairing() -> None:
    from roofline.notation.scope import Wanted
    from roofline.notation.structure import Shape, TensorDim

    left, right = (
        Shape("x", "bf16", tuple(TensorDim(label) for label in labels)) for labels in (("A", "#2", "S", "D"), "BCDF")
    )
    scope = SimpleNamespace(
        pair=lambda one, other: "A", is_one=lambda label: False, show_axes=lambda axes: "[A, A]",
        fail=lambda message, place, hint: InputError(message, hint=hint),
    )  # fmt: skip
    node, wanted = SimpleNamespace(over=None, position=0), Wanted()
    with pytest.raises(InputError, match="would hold one label twice; name the dimensions that differ"):
        within("notation.resolver", "_pair_numbers")(scope, node, left, right, wanted)


def test_a_search_of_training_that_finds_no_layout_says_why() -> None:
    from roofline.plans.training import search_training

    with pytest.raises(InputError, match="fsdp 8 · tensor 3 is 24 chips, and h100:8 has 8; a divisor of 8"):
        search_training("llama-3-8b", on="h100:8", batch_tokens=65536, tensor=3, fsdp=8)


#: A question of a function, to which an argument of every kind is given in place of each parameter's own.
OTHER_KINDS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (roofline.bound, (LINE,), {"on": "h100", "B": 8, "D": 8, "F": 8}),
    (roofline.chips, (), {"top": 1}),
    (roofline.chip, ("h100",), {}),
    (roofline.comm, ("allreduce",), {"on": "h100:8", "bytes": 1e6}),
    (roofline.solve, (LINE, "B"), {"on": "h100", "D": 64, "F": 64}),
]


@pytest.mark.parametrize(("ask", "given", "named"), OTHER_KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_an_argument_of_another_kind_is_one_error(
    ask: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    shown = inspect.signature(ask).parameters.values()
    names = [each.name for each in shown if each.kind is each.KEYWORD_ONLY or each.name in named]
    refused = set()
    for name in names:
        for value in (object(), -1, [1, 2], b"x", {"a": 1}, np.array("x"), np.array([1, 2]), 1j):
            with suppress(RooflineError):
                refused.add(name)
                ask(*given, **{**named, name: value})
                refused.discard(name)
    assert refused >= {"files"}


#: A question of every function; an argument of its own or of any option is replaced by each of :data:`HOSTILE`.
QUESTIONS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    *OTHER_KINDS,
    (roofline.formula, (LINE,), {"on": "h100", "D": 8, "F": 8}),
    (roofline.shard, ("bf16[B, D_X] * bf16[D_X, F]",), {"on": "v5e:4", "B": 64, "D": 64, "F": 64}),
    (roofline.llm, ("llama-2-7b",), {"on": "h100", "batch": 2, "prompt": 64, "context": 128}),
    (roofline.train, ("llama-2-7b",), {"on": "h100:8", "batch_tokens": 65536, "tokens": 10**9, "price": 2}),
    (roofline.plan, ("llama-2-7b",), {"on": ["h100"], "rate": 1, "prompt": 64, "output": 16, "count": [1]}),
    (roofline.sweep, (LINE,), {"on": "h100", "B": [8, 16], "D": 64, "F": 64}),
    (roofline.layout, ("bf16[B_X, D]",), {"on": "v5e:4", "B": 64, "D": 64}),
    (roofline.scaling, ("tp",), {"on": "v5p"}),
    (roofline.advise, (LINE,), {"on": "h100", "B": 8, "D": 8, "F": 8}),
    (roofline.plot, (LINE,), {"on": "h100", "B": 8, "D": 8, "F": 8}),
    (roofline.profile, ("docs/examples/profile.csv",), {"on": "h100"}),
    (roofline.model, ("llama-2-7b",), {}),
    (roofline.zones, (), {"on": "h100"}),
    (roofline.bound, (), {"on": "h100", "flops": 1e12, "bytes": 1e9, "dtype": "bf16"}),
    (roofline.train, (7e9,), {"on": "h100:8", "tokens": 10**9, "mfu": 0.4}),
    (roofline.chips, ("h100", "a100"), {}),
    (roofline.plot, (LINE, LINE), {"on": "h100", "B": 8, "D": 8, "F": 8}),
    (roofline.build, (roofline.program(LINE), {"B": 8, "D": 8, "F": 8}), {}),
    (roofline.parse, (LINE,), {}),
    (roofline.points_of, ([], roofline.chip("h100")), {}),
    (roofline.evaluate, (roofline.build(roofline.program(LINE), SIZES), [Work()], roofline.chip("h100")), {}),
    (roofline.solve_dtypes, (LINE, 1), {"on": "h100", "B": 8, "D": 64, "F": 64}),
    (roofline.calibrate, ("docs/examples/t4_runs.csv", "t4"), {}),
    (roofline.read_profile, ("docs/examples/profile.csv",), {}),
    (roofline.estimated, (roofline.bound(LINE, on="h100", **SIZES),), {}),
]


class _Odd:
    """A value whose own methods fail."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __hash__ = None  # type: ignore[assignment]


def _nested(depth: int = 5000) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: tuple[Any, ...] = (
    None, [], {}, ["x"], object(), 1j, float("nan"), float("inf"), -1, 0, True, "", "x", b"x", np.array([1, 2]),
    np.array("x"), np.array([1j]), np.zeros(0), np.zeros((2, 2, 2)), 10**400, lambda: 1, {1, 2}, range(0), ("x", 1),
    {"x": None}, {1: 2}, {"B": 1j}, [[1]], [None], _Odd(), _nested(), int, range(10**9), Fraction(1, 3), Decimal("nan"),
    sympy.I, sympy.nan, sympy.Integer(2), sympy.Symbol("x"), sympy.Eq(sympy.Symbol("x"), 1), sympy.Matrix([1]),
    Path("nowhere"), np.array(3), np.array([200, 200], np.uint8), np.ma.array([1, 2], mask=[0, 1]),
    np.float16("nan"), np.datetime64("2020-01-01"), "9" * 400, "x" * 100_000,
)  # fmt: skip


def _look_at(answer: Any) -> None:
    """Ask an answer for all it may work out late."""
    repr(answer)
    for name in ("table", "to_dict"):
        if callable(found := getattr(answer, name, None)):
            with suppress(RooflineError):
                json.dumps(found(), default=str, allow_nan=False)


@pytest.mark.parametrize(
    ("ask", "given", "named"), some(QUESTIONS, 2), ids=lambda value: getattr(value, "__name__", "")
)
@short_fits()
def test_no_argument_of_a_wrong_kind_ends_in_an_error_of_pythons(
    ask: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    shown = inspect.signature(ask).parameters.values()
    by_name = [each.name for each in shown if each.kind is each.KEYWORD_ONLY and each.name not in NOT_ASKED]
    raised = []
    chosen = random.Random(ask.__name__)
    for place in (*range(len(given)), *dict.fromkeys((*named, *by_name))):
        for value in HOSTILE if os.environ.get("ROOFLINE_LONG") else chosen.sample(HOSTILE, 1):
            words = [value if place == at else each for at, each in enumerate(given)]
            options = named if isinstance(place, int) else {**named, place: value}
            try:
                _look_at(ask(*words, **options))
            except RooflineError:
                pass
            except Exception as error:
                raised.append(f"{place}={quoted(value)}: {error!r}")
    assert not raised


#: Options that open a connection, are called, or hold a question as it was asked.
NOT_ASKED = ("workers", "scheduler", "scheduler_file", "client", "progress", "announce", "out", "over_dask", "question")


def test_what_is_no_number_of_its_kind_is_named() -> None:
    for ask, said in (
        (lambda: roofline.bound(LINE, on="h100", B=sympy.I, D=8, F=8), "B is I, and takes a whole number or several"),
        (
            lambda: roofline.bound(LINE, on="h100", B=range(10**9), D=8, F=8),
            "B has over 100,000,000 values; ask in",
        ),
        (lambda: roofline.sweep(LINE, on="h100", B=sympy.Symbol("x"), D=8, F=8), "size B is x; a grid has numbers"),
        (lambda: roofline.bound(LINE, on="h100", B=np.ma.array([1, 2], mask=[0, 1]), D=8, F=8), "B is nan at index 1"),
        (
            lambda: roofline.bound(LINE, on="h100", B=np.array([1e200, 1.0]), D=8, F=8),
            r"B is 1e\+200 at index 0; sizes",
        ),
        (lambda: roofline.chips("h100", 3), "3 is no file; files are paths"),
        (lambda: roofline.plot(None), "expressions is None, and takes text"),
        (lambda: roofline.chips(files=[3]), "3 is no file; files are paths, as in"),
        (lambda: roofline.chips(files=iter(["a.toml"])), "files is .*, and takes a list of text"),
        (
            lambda: roofline.profile("docs/examples/profile.csv", on="h100", top=1.5),
            "top is 1.5; how many runs",
        ),
        (lambda: roofline.plan("llama-2-7b", on=["h100"], rate=np.array([3]), prompt=8, output=8), r"rate array\(\[3"),
        (lambda: roofline.plan("llama-2-7b", on=["h100"], rate=1, prompt=8, output=8, tensor=[1, 2]), "tensor="),
        (lambda: roofline.evaluate([], [Work()], roofline.chip("h100")), "0 operations, and bytes of 1; give one Work"),
        (
            lambda: roofline.bound(LINE, on="h100", B=np.array([1, 2]), D=sympy.Symbol("D"), F=8),
            "size D has no value while B is an array; give D too",
        ),
        (
            lambda: roofline.llm("llama-3-8b", on="h100", batch=[1, 2], context=sympy.Symbol("S")),
            "size context has no value while batch is an array; give context too",
        ),
        (
            lambda: roofline.train("llama-3-8b", on="h100:8", batch_tokens=["64k", "1M"], sequence=sympy.Symbol("S")),
            "size sequence has no value while batch_tokens is an array; give sequence too",
        ),
        (lambda: roofline.evaluate("x", [Work()], roofline.chip("h100")), "ops is 'x', and takes a list"),
        (lambda: evaluated().advise(), "advice changes a question, and this bound has none; trace a program again"),
    ):
        with pytest.raises(InputError, match=said):
            ask()


def evaluated() -> roofline.Bound:
    operations = roofline.build(roofline.program(LINE), SIZES)
    return roofline.evaluate(operations, [each.work for each in operations], roofline.chip("h100"))


def test_numbers_of_other_libraries_are_numbers() -> None:
    plain = roofline.bound(LINE, on="h100", B=2, D=8, F=8).lower
    assert roofline.bound(LINE, on="h100", B=sympy.Integer(2), D=Fraction(8), F=Decimal(8)).lower == plain
    asked = {"on": "h100", "prompt": 64}
    bytes_ = [
        roofline.llm("llama-2-7b", context=np.array([200, 250], kind), **asked).memory.total.tolist()
        for kind in (np.uint8, np.float64)
    ]
    assert bytes_[0] == bytes_[1]


def test_what_is_given_as_it_is_by_default_changes_nothing() -> None:
    for ask, given, named in QUESTIONS[:1] + [each for each in QUESTIONS if each[0] is roofline.evaluate]:
        usual = repr(ask(*given, **named))
        for each in inspect.signature(ask).parameters.values():
            if each.kind is each.KEYWORD_ONLY and each.name not in named and each.default is not each.empty:
                assert repr(ask(*given, **named, **{each.name: each.default})) == usual, each.name


def test_none_is_what_it_is_where_it_is_left_out() -> None:
    assert repr(roofline.train(LLAMA, memory=True, tokens=None)) == repr(roofline.train(LLAMA, memory=True))
    assert repr(roofline.llm(LLAMA, on="h100", fit=True, absorbed=None)) == repr(
        roofline.llm(LLAMA, on="h100", fit=True)
    )
    assert repr(roofline.formula(LINE, on="h100", prompt=None)) == repr(roofline.formula(LINE, on="h100"))
    with pytest.raises(InputError, match="batch_tokens= is missing"):
        roofline.train(LLAMA, on="h100", tokens=None)
    with pytest.raises(InputError, match="D has no value"):
        roofline.sweep(LINE, on="h100", B=[8], D=None, F=8)


def test_lots_of_raw_work_have_one_formula() -> None:
    form = roofline.bound(on="h100", flops=[1e12, 2e12], bytes=1e9).formula()
    assert str(form.lower) == "Max(1000000000/W_hbm, flops/P_bf16)"


def test_layouts_in_an_array_stand_in_the_table() -> None:
    answer = roofline.llm("llama-2-7b", on="h100:8", batch=8, context=128, pipeline=2, micro_batches=np.array([1, 2]))
    assert "microbatches" in str(answer.table())


def test_an_error_names_the_argument_and_what_it_takes() -> None:
    with pytest.raises(InputError, match=r"policy is \['min'\], and takes text"):
        roofline.bound(LINE, on="h100", policy=["min"])
    with pytest.raises(InputError, match=r"exact is array\(\[1, 2\]\), and takes True or False"):
        roofline.formula(LINE, on="h100", exact=np.array([1, 2]))
    with pytest.raises(InputError, match=r"estimate is -1, and takes True or False or text or an estimator"):
        roofline.bound(LINE, on="h100", B=8, D=8, F=8, estimate=-1)
    with pytest.raises(InputError, match="a tile is three sizes, not 'x'"):
        roofline.bound(LINE, on="h100", tile=np.array("x"))
    for top in (0, -1, 1.5, "5"):
        with pytest.raises(InputError, match=f"top is {top!r}; how many chips to list, as in top=5"):
            roofline.chips(top=top)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no argument 'no_such'; arguments are: filter, sort, dtype, top"):
        roofline.chips(no_such=1)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"missing a required argument: 'on'; the call is zones\(on, bandwidths="):
        roofline.zones()  # type: ignore[call-arg]
    with pytest.raises(
        InputError, match=r"too many positional arguments; give on='h100'; the call is bound\(expression=None, \*, on="
    ):
        roofline.bound(LINE, "h100")  # type: ignore[call-arg]
    ops = roofline.build(roofline.program(LINE), {"B": 8, "D": 8, "F": 8})
    with pytest.raises(InputError, match=r"there is no argument 'question'; arguments are: expression, sizes"):
        roofline.evaluate(ops, [op.work for op in ops], roofline.chip("h100"), question=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("word", ["chip", "device", "gpu", "machine", "hardware", "target"])
def test_other_words_for_a_machine_are_told_ours(word: str) -> None:
    asked: dict[str, Any] = {word: "h100"}
    for ask in (
        lambda: roofline.bound(LINE, **asked, B=8, D=8, F=8),
        lambda: roofline.sweep(LINE, **asked, B=8, D=8, F=8),
        lambda: roofline.sweep("llama-3-8b", **asked, batch=1, context=64),
        lambda: roofline.llm("llama-3-8b", **asked),
    ):
        with pytest.raises(InputError, match=f"there is no argument {word!r}; did you mean 'on'?"):
            ask()
    with pytest.raises(InputError, match="too many positional arguments; give on='h100'; the call is llm"):
        roofline.llm("llama-3-8b", "h100")  # type: ignore[misc]


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_a_tensor_is_the_numbers_that_it_holds(library: str) -> None:
    made = pytest.importorskip(library)
    tensor = made.tensor if library == "torch" else made.array
    sizes = {"D": 8, "F": 8}
    for given, number in ((tensor(8), 8), (tensor([8, 16]), [8, 16])):
        found = roofline.bound(LINE, on="h100", B=given, **sizes)
        assert found.to_dict() == roofline.bound(LINE, on="h100", B=number, **sizes).to_dict()
        served = roofline.llm("llama-2-7b", on="h100", batch=given, context=64)
        assert served.to_dict() == roofline.llm("llama-2-7b", on="h100", batch=number, context=64).to_dict()
    priced = {"on": "h100", "batch": 1, "context": 64}
    assert (
        roofline.llm("llama-2-7b", price=tensor(2), **priced).to_dict()
        == roofline.llm("llama-2-7b", price=2, **priced).to_dict()
    )
    with pytest.raises(RooflineError, match="price is"):
        roofline.llm("llama-2-7b", price=tensor([2, 3]), **priced)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("sNaN"),
        Fraction(10**400),
        sympy.Lambda(sympy.Symbol("x"), 1),
        sympy.Lambda(sympy.Symbol("x"), sympy.Symbol("x")),
        2 * sympy.Function("f")(1),
        SimpleNamespace(to_numpy=1),
    ],
)
def test_what_looks_like_a_number_and_is_none_is_refused(value: Any) -> None:
    for ask in (
        lambda: roofline.chip("h100", hbm=value),
        lambda: roofline.bound(LINE, on="h100", B=value, D=8, F=8),
        lambda: roofline.comm("allreduce", on="h100:8", bytes=1e6, pad=value),
    ):
        with pytest.raises(RooflineError):
            ask()


def test_a_frame_is_no_tile_and_a_form_no_function() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"B": [8]})
    with pytest.raises(InputError, match=r"a tile is three sizes, not +B 0 +8; bm, bn, bk"):
        roofline.sweep("llama-2-7b", on="h100", batch=[8, 16], context=64, tile=frame)
    form: Any = sympy.Lambda(sympy.Symbol("x"), 1)
    with pytest.raises(InputError, match="and takes a function of 2 arguments"):
        roofline.sweep(LINE, on="h100", B=[8, 16], D=64, F=64, keep="front", progress=form)


class _Lies:
    """Says that it is text."""

    __class__ = str  # type: ignore[assignment]


class _HasNoClass:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("of the value itself")


@pytest.mark.parametrize("kind", [_Lies, _HasNoClass])
def test_a_value_that_cannot_be_asked_for_its_class_is_refused(kind: Any) -> None:
    for ask in (roofline.bound, roofline.advise):
        with pytest.raises(RooflineError, match="pad is"):
            ask(LINE, on="h100", pad=kind(), B=8, D=8, F=8)


def test_a_series_is_an_array_and_a_count_may_have_a_space() -> None:
    pandas = pytest.importorskip("pandas")
    sizes = {"D": 8192, "F": 8192}
    several = roofline.bound(LINE, on="h100", B=pandas.Series([8, 16], index=[5, 3]), **sizes)
    assert several.lower.tolist() == roofline.bound(LINE, on="h100", B=np.array([8, 16]), **sizes).lower.tolist()
    table = roofline.sweep(LINE, on="h100", B=pandas.Series([8, 16]), **sizes)
    assert table["B"].tolist() == [8, 16]
    served = roofline.llm("llama-3-8b", on="h100", batch=pandas.Series([1, 2]), context="8 k")
    assert served.decode.sizes["batch"].tolist() == [1, 2]
    assert served.decode.sizes["context"] == 8000
    with pytest.raises(InputError, match="size B is 0 at index 0; a size is a whole number of at least 1"):
        roofline.sweep(LINE, on="h100", B=np.arange(3), **sizes)


def test_a_peak_of_a_chip_that_is_described_has_a_format() -> None:
    with pytest.raises(
        RooflineError, match=r"a peak is that of a format; name the format, as in \{'bf16': '4 TFLOP/s'\}"
    ):
        roofline.chip({"name": "X", "peak": "4 TFLOP/s", "hbm": "3 TB/s"})
    mine = roofline.chip({"peak": {"bf16": 4e14}, "hbm": "3 TB/s"})
    assert mine.figure("bf16").value == 4e14


def test_the_functions_of_rooms_name_a_wrong_argument_as_those_of_the_package_do() -> None:
    asked: dict[str, Any] = {"on": "h100", "rate": 1, "prompt": 64, "output": 16, "count": 1}
    found, same = (roofline.plan("llama-2-7b", most=most, **asked) for most in (np.array(3), 3))
    assert found.to_dict() == same.to_dict()
    for ask, said in (
        (lambda: models.largest_batch("llama-2-7b", [8e10], context=64), "capacity is .*, and takes a number"),
        (lambda: models.outline(7e9, dtype=np.array([True])), r"dtype is array\(\[ True\]\), and takes text"),
        (
            lambda: models.network_limit("llama-2-7b", "decode", "h100:8", kind=-0.0, context=64),
            "kind is 0.0, and takes",
        ),
        (lambda: roofline.bound(flops=1, bytes=1, on="h100").priced([1, 2]), r"price is \[1, 2\]; dollars"),
        (lambda: roofline.bound(flops=1, bytes=1, on="h100").priced(np.array(["a", "b"])), "price is .*; dollars"),
        (lambda: roofline.bound(flops=1, bytes=1, on="h100").priced(power=[]), r"power is \[\]; "),
        (lambda: roofline.bound(flops=1, bytes=1, on="h100").priced(power=10**400), "power is .*"),
        (
            lambda: models.network_limit("llama-2-7b", "decode", "h100", context=[1, "y"]),
            r"context is \[1, 'y'\], and takes a whole number or several",
        ),
        (lambda: models.network_limit("llama-2-7b", "prefill", "h100", context=64), "prefill needs prompt="),
        (
            lambda: models.network_limit("llama-2-7b", "decode", "h100", context=64, tensor=2),
            "tensor= is what is solved",
        ),
        (lambda: roofline.calibrate([], "t4", library="x" * 10**6), "library has 1,000,000 letters; at most 1,000"),
        (
            lambda: roofline.plan("llama-2-7b", **{**asked, "most": 10**30}),
            "sequences at once; at most 131,072; engines",
        ),
        (lambda: models.answer_rate(step_time="lower", steps=9), "step_time is 'lower'; a number above 0, an array or"),
        (lambda: models.token_cost(time=0.1, tokens=0), "tokens is 0; a number above 0"),
        (lambda: roofline.points_of(iter([1]), roofline.chip("h100")), "point 1: 1 is not a run"),
        (lambda: estimates.Estimator(b"x"), "library is b'x', and takes text"),
        (lambda: estimates.read_constants(None), "path is None, and takes text or "),
        (lambda: roofline.bound(LINE, on="h100", link=_FloatRaises(), B=8, D=8, F=8), "link: .*_FloatRaises"),
        (lambda: roofline.bound(LINE, on="h100", B=_FloatRaises(), D=8, F=8), "B is .*_FloatRaises"),
        (lambda: array_of("seconds", [_FloatRaises()]), "size seconds is not an array of numbers; give ints"),
    ):
        with pytest.raises(InputError, match=said):
            ask()


class _FloatRaises:
    """A value whose own method raises."""

    def __float__(self) -> float:
        raise RuntimeError


@pytest.mark.parametrize(
    "ask",
    [
        lambda: roofline.llm("llama-2-7b", context=5),
        lambda: models.serve("llama-2-7b", context=5),
        lambda: models.generation("llama-2-7b", prompt=5, output=5),
        lambda: models.chunked("llama-2-7b", prompt=8, chunk=4),
        lambda: models.speculate("llama-2-7b", context=5, acceptance=0.8, draft=2, by=0.1),
        lambda: models.disaggregate("llama-2-7b", prompt=8, output=8, prefill={}, decode={"on": "h100"}),
    ],
)
def test_serving_on_no_machine_asks_for_one(ask: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match="no machine to run on; name one: on='h100'"):
        ask()


def test_what_says_nothing_of_a_model_is_refused_in_its_sweep() -> None:
    with pytest.raises(InputError, match="flops is of raw work, and this sweeps steps of a model; leave it out"):
        roofline.sweep("llama-3-8b", on="h100", batch=[1, 2], context=100, flops=[[1]])
    asked = {"on": "h100", "context": 100, "draft": 4, "accept": 0.5}
    with pytest.raises(InputError, match="draft_by= has several values; a model, mtp, or a fraction of a step"):
        roofline.llm("llama-3-8b", **asked, draft_by=np.array([0.1, 0.2]))


STEP: dict[str, Any] = {"on": "h100", "batch": 8, "context": 64}
TRAINED: dict[str, Any] = {"on": "h100:8", "batch_tokens": 65536}
PLANNED: dict[str, Any] = {"on": "h100", "rate": 1, "prompt": 8, "output": 8}
LLAMA = "llama-2-7b"


def _over_sizes(line: str, **asked: Any) -> Any:
    return roofline.sweep(line, B=[64, 128], D=64, F=64, **asked)


#: Arguments that have nothing to act on, and what is said of them.
IDLE: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: _over_sizes("bf16[B, D_X] * bf16[D_X, F]", algorithm="tree", on="v5e:4"),
        "tree does not do AllGather over X: ici has no switch",
    ),
    *(
        (lambda name=name, value=value: roofline.llm(LLAMA, **STEP, **{name: value}), f"{name}= says nothing {why}")
        for name, value, why in (
            ("accept", 0.5, "without draft="),
            ("draft_by", "mtp", "without draft="),
            ("draft_weights", "int4", "without draft_by="),
            ("prefill_tensor", 2, "without prefill_on="),
            ("prefill_batch", 2, "without prefill_on="),
            ("prefill_link", 1e9, "without prefill_on="),
            ("algorithm", "nonsense", "without tensor= or expert= or context_parallel="),
            ("sequence_parallel", True, "without tensor="),
            ("balance", "time", "without pipeline="),
            ("microbatches", 2, "without pipeline="),
            ("absorbed", True, "of llama-2-7b, which has no latent attention"),
            ("expert_exchange", "per-expert", "of llama-2-7b, which has no experts"),
            ("dispatch", "fp8", "of llama-2-7b, which has no experts"),
            ("combine", "fp8", "of llama-2-7b, which has no experts"),
            ("shared_experts", "split", "of llama-2-7b, which has no shared experts"),
        )
    ),
    (lambda: roofline.llm("mixtral-8x7b", on="h100:8", tensor=8, context=64, dispatch="fp8"), "without expert="),
    (
        lambda: roofline.llm("mixtral-8x7b", on="h100:8", expert=8, context=64, shared_experts="split"),
        "shared_experts= says nothing of mixtral-8x7b, which has no shared experts",
    ),
    *(
        (
            lambda name=name, value=value: roofline.llm(
                "deepseek-v3", on="h100:8", tensor=8, expert=8, context=64, expert_exchange="all-reduce",
                **{name: value},
            ),
            f"{name}= says nothing with expert_exchange='all-reduce'; leave one of them out",
        )
        for name, value in (("dispatch", "fp8"), ("combine", "fp8"), ("shared_experts", "split"))
    ),
    (lambda: roofline.llm(LLAMA, on="h100", prompt=64, image_size=(64, 64)), "image_size= says nothing without"),
    (lambda: roofline.chips("h100", dtype="fp8"), "dtype= is the peak that a list shows"),
    (
        lambda: roofline.accuracy("h100", constants=Path(__file__).parents[1] / "docs/examples/t4_constants.toml"),
        "constants= holds none of h100, but of t4; name that chip, or leave them out",
    ),
    (lambda: models.serve_bound(LLAMA, "decode", **STEP, microbatches=2), "microbatches= says nothing without"),
    (
        lambda: models.serve_table(LLAMA, "decode", on="h100", batch=[1, 2], context=64, algorithm="ring"),
        "algorithm= says nothing without tensor=",
    ),
    (lambda: models.advise_step(LLAMA, "decode", **STEP, balance="time"), "balance= says nothing without pipeline="),
    (
        lambda: models.network_limit(LLAMA, "decode", "h100", context=64, microbatches=2),
        "microbatches= says nothing without pipeline=",
    ),
    (lambda: models.train(LLAMA, **TRAINED, schedule="gpipe"), "schedule= says nothing without pipeline="),
    (lambda: models.train(LLAMA, on="h100", batch_tokens=8192, zero=2), "zero= says nothing where fsdp is 1"),
    (lambda: roofline.train(LLAMA, on="h100", batch_tokens=8192, algorithm="ring"), "algorithm= says nothing of one"),
    (lambda: roofline.llm(LLAMA, on="h100", fit=True, overlap=0.5), "overlap= is of a step, and fit= alone is"),
    (lambda: models.generation(LLAMA, on="h100", prompt=8, output=8, absorbed=True), "absorbed= says nothing of"),
    (lambda: models.chunked(LLAMA, on="h100", prompt=8, chunk=4, balance="time"), "balance= says nothing without"),
    (lambda: models.serve(LLAMA, **STEP, dispatch="fp8"), "dispatch= says nothing of llama-2-7b"),
    (lambda: models.latency_throughput(LLAMA, **STEP, algorithm="tree"), "algorithm= says nothing without"),
    (
        lambda: models.speculate(LLAMA, on="h100", context=64, acceptance=0.8, draft=2, by=0.1, microbatches=2),
        "microbatches= says nothing without",
    ),
    (
        lambda: models.disaggregate(LLAMA, prompt=8, output=8, prefill={"on": "h100"}, decode={"on": "h100"},
                                    algorithm="tree"),
        "algorithm= says nothing without",
    ),
    (lambda: roofline.train(LLAMA, **TRAINED, price=2), "price= says nothing without tokens="),
    (lambda: roofline.train(LLAMA, **TRAINED, power=2, search=True), "power= says nothing without tokens="),
    (lambda: roofline.train(LLAMA, **TRAINED, expert_exchange="all-to-all"), "expert_exchange= says nothing of"),
    (lambda: roofline.train(LLAMA, **TRAINED, schedule="gpipe"), "schedule= says nothing without pipeline="),
    (lambda: roofline.train(LLAMA, **TRAINED, sequence_parallel=False), "sequence_parallel= says nothing without"),
    (lambda: roofline.train(LLAMA, on="h100", memory=True, tokens=8), "tokens= is of a budget"),
    (lambda: roofline.train(7e9, on="h100", tokens=1e9, search=True), "search= tries layouts of a step"),
    (lambda: roofline.formula(LINE, "prefill", on="h100"), "phase= is of a model, and this is a line"),
    (lambda: roofline.formula(LINE, on="h100", density=0.5), "density= has no effect: nothing is sharded here"),
    (lambda: roofline.formula(LLAMA, on="h100", balance="time"), "balance= says nothing without pipeline="),
    (lambda: roofline.formula(LLAMA, "train", on="h100:8", mfu=0.4), "mfu= is of a budget, and this is a step"),
    (lambda: roofline.sweep(LINE, "train", on="h100", **SIZES), "phase= is of a model, and this is a line"),
    (lambda: roofline.sweep(LLAMA, on="h100", context=[8, 9], overlap=0.5), "overlap= makes an estimate, and a table"),
    (lambda: roofline.sweep(LLAMA, on="h100", context=[8, 9], absorbed=True), "absorbed= says nothing of llama-2-7b"),
    (lambda: roofline.plan(LLAMA, **PLANNED, accept=0.5), "accept= says nothing without draft="),
    (lambda: roofline.plan(LLAMA, **PLANNED, dispatch="fp8"), "dispatch= says nothing of llama-2-7b"),
    (lambda: roofline.plan(LLAMA, **PLANNED, overhead="5us"), "overhead= is no choice of a plan"),
    (lambda: roofline.plan(LLAMA, **PLANNED, activations="fp8"), "activations= is said by formats"),
    (lambda: roofline.plot(LINE, on="h100", **SIZES, eager=True), "eager= goes with estimate="),
    (lambda: roofline.bound("AllReduce_X(bf16[8])", on="h100:8", density=0.5), "density= has no effect: nothing here"),
    (lambda: roofline.bound("AllReduce_X(bf16[8])", on="h100:8", wrap=True), "wrap= has no effect: no axis here is o"),
    (lambda: roofline.bound("AllReduce_X(bf16[8])", on="h100:8", compute="fp32"), "compute= has no effect: nothing h"),
    (lambda: roofline.bound(LINE, on="h100", **SIZES, count_padding=False), "count_padding= has no effect: nothing"),
    (lambda: roofline.sweep("gelu(bf16[B])", on="v5e", B=[8], pad=True), "pad= has no effect: nothing here runs on t"),
    (lambda: roofline.plot("gelu(bf16[8])", on="v5e", pad=True), "pad= has no effect: nothing here runs on the matrix"),
    (lambda: roofline.shard("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", B=8, D=8, F=8, count_padding=False),
     "count_padding= has no effect: nothing here is a convolution"),
    (lambda: solve_equal(LINE, "bf16[B, D] * int8[D, F]", "B", set={"hbm": 1e12}), "set= says nothing of FLOPs"),
    (lambda: solve_equal(LINE, "bf16[B, D] * int8[D, F]", "B", quantity="bytes", unit="vector"), "unit= says nothing"),
    (lambda: solve_equal(LINE, "bf16[B, D] * int8[D, F]", "B", density=0.5), "density= has no effect: nothing is sha"),
    (lambda: solve_equal(LINE, "relu(bf16[B, D])", "B", on="v5e", mesh={"X": 2}), "mesh= has no effect: nothing is"),
    (lambda: roofline.advise(LINE, on="v5e", **SIZES, mesh={"X": 2}), "mesh= has no effect: nothing is sharded here"),
    (lambda: roofline.plot(LINE, on="v5e", **SIZES, mesh={"X": 2}), "mesh= has no effect: nothing is sharded here"),
    (lambda: roofline.scaling("tp", on="h100", wrap=True), "wrap= has no effect: no axis here is one of a torus"),
    (lambda: roofline.scaling("2d", on="h100", wrap=True), "wrap= has no effect: no axis here is one of a torus"),
    (lambda: roofline.scaling("mixed", on="h100", wrap=True), "wrap= has no effect: no axis here is one of a torus"),
    (lambda: roofline.scaling("tp", on="v5p", density=0.5), "density= has no effect: the plan for all sizes, "),
    *(
        (lambda ask=ask, name=name, value=value: ask("bf16[B, D_X] * bf16[D_X, F]", **{name: value}, on="v5e:4"),
         f"{name}= has no effect: the plan for all sizes, "
         "no communication, sends nothing; give all sizes numbers, or another plan, or leave it out")
        for ask in (roofline.formula, lambda line, **asked: roofline.solve(line, "B", D=64, F=64, **asked), _over_sizes)
        for name, value in (("density", 0.5), ("algorithm", "tree"))
        if (ask, name) != (_over_sizes, "algorithm")
    ),
    (lambda: roofline.comm("AllReduce_X(bf16[8])", on="h100:8", dtype="fp8"), "dtype= is of bytes, and a line says i"),
    (lambda: roofline.sweep(LLAMA, "train", on="h100:8", tokens=1e12), "tokens= is of a budget, and this is a step"),
    (lambda: roofline.formula(LLAMA, "train", on="h100:8", kv="fp8"), "kv= is of serving, and this is training"),
    (
        lambda: roofline.train(LLAMA, **TRAINED, data=8, zero=1),
        "zero= says nothing where fsdp is 1: no chips share a copy; fsdp=8 in place of data=8 shares over the cop",
    ),
    *(
        (lambda size=size: roofline.bound(LINE, on="h100", **SIZES, mesh={"X": size}), f"size X is {size}; a size is a")
        for size in (-1, 0, 2.5)
    ),
    (
        lambda: roofline.profile(
            Path(__file__).parent / "data" / "torch_trace_products.json", on="h100", estimate=True, eager=True
        ),
        "eager= is of kernels one after the other, and each run is one",
    ),
    (lambda: roofline.train(LLAMA, **TRAINED, estimate=True, eager=True), "eager= is of kernels, and a training step"),
    (lambda: roofline.train(LLAMA, **TRAINED, estimate=True, library="trtllm"), "library= is of kernels, and a train"),
    (lambda: roofline.train(LLAMA, **TRAINED, search=True, estimate=True), "search= compares floors, and estimate= is"),
    (lambda: models.training_memory(LLAMA, layers=3), "layers= is of hidden states, and there are no tokens"),
    (lambda: models.chunked(LLAMA, on="h100", prompt=64, chunk=8, context=9), "context= is of sequences that decode"),
    (lambda: models.outline(7e9, queries=8), "queries share keys, and there are none"),
    (
        lambda: models.disaggregate(LLAMA, prompt=8, output=8, prefill={"on": "h100"}, decode={"on": "h100"}, on="a1"),
        "on= is given for prefill and for decode too",
    ),
    (lambda: estimates.estimated(_bound(), output=5), "output= is the length of answers that a model serves"),
    (lambda: roofline.llm(LLAMA, on="h100", fit=True, unit="vector"), "unit= is of a step, and fit= alone is of memo"),
]  # fmt: skip


@for_each(("ask", "message"), IDLE)
def test_an_argument_that_has_no_meaning_is_an_error(ask: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ask()
    assert message in str(caught.value)


def test_an_argument_is_taken_where_one_of_several_layouts_has_a_use_for_it() -> None:
    answer = roofline.llm(LLAMA, on="h100", batch=8, context=64, tensor=[1, 2], algorithm="two-shot")
    assert answer.decode.lower.shape == (2,)
    assert roofline.llm(LLAMA, **STEP, balance="layers", shared_experts="replicated").decode is not None


def test_keys_and_values_are_held_in_the_format_of_the_activations_that_make_them() -> None:
    for format_ in ("bf16", "fp8"):
        kept = roofline.llm("llama-3-8b", **STEP, activations=format_).decode.footprint.parts["kv"]
        assert kept == roofline.llm("llama-3-8b", **STEP, kv=format_).decode.footprint.parts["kv"]


def test_a_plan_may_have_its_data_in_another_level_of_memory() -> None:
    assert roofline.plan(LLAMA, **PLANNED, over="l2").best is not None


def test_inputs_of_a_program_may_be_a_list() -> None:
    pytest.importorskip("torch")
    assert len(roofline.trace(abs, inputs=["fp32[4]"]).ops) == 1


def test_a_method_takes_whole_numbers_and_says_which_rows_there_are() -> None:
    table = roofline.sweep(LINE, on="h100", B=[8, 16, 32], D=64, F=64)
    both = roofline.sweep(LINE, on="h100,h200", B=[8, 16, 32], D=64, F=64)
    assert table.row(np.int64(1)).sizes["B"] == table.row(1.0).sizes["B"] == 16  # type: ignore[arg-type]
    assert [both.row(at).sizes["B"] for at in (-1, 3, 2)] == [32, 8, 32]
    assert both.row(-1).machine.key == "h200"
    for one, index in ((table, 3), (table, -4), (both, 6), (both, -7), (table, 10**30)):
        with pytest.raises(InputError, match="there is no row"):
            one.row(index)
    with pytest.raises(InputError, match=r"index is 0\.5, and takes a whole number"):
        table.row(0.5)  # type: ignore[arg-type]
    assert len(table.rows(10**30)) == len(table.rows(40.0)) == 3  # type: ignore[arg-type]
    assert table.rows(-1) == []


def test_a_method_names_an_argument_that_is_missing_or_has_half_a_character() -> None:
    with pytest.raises(
        InputError, match=r"missing a required argument: 'other'; the call is crossing\(size, one, other\)"
    ):
        roofline.formula(LINE, on="h100").crossing("B", "hbm")  # type: ignore[call-arg]
    with pytest.raises(InputError, match="quantity is 3, and takes text"):
        Work().total(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path has a character that is no text"):
        _bound().save("\ud800.html")
    with pytest.raises(InputError, match="tensor is 'x', and takes a whole number"):
        models.Parallelism(tensor="x")  # type: ignore[arg-type]
    assert models.Parallelism(tensor=np.int8(2)).tensor.__class__ is int


def test_a_function_that_is_called_with_other_arguments_is_refused_and_its_own_error_comes_out() -> None:
    def raising(*_: Any) -> Any:
        raise ZeroDivisionError

    asked: dict[str, Any] = {"on": "h100", "batch": [8, 16], "context": 64}
    with pytest.raises(InputError, match="takes a function of 2 arguments"):
        roofline.sweep("llama-2-7b", progress=lambda: None, **asked)
    with pytest.raises(ZeroDivisionError):
        roofline.sweep("llama-2-7b", progress=raising, **asked)


@pytest.mark.parametrize("name", ["a\0", "a\ud800"])
def test_a_name_that_no_file_has_is_refused_wherever_files_are_written(name: str) -> None:
    from roofline.files import replaced

    table = roofline.sweep(LINE, on="h100", B=[8, 16], D=64, F=64)
    writers: dict[str, list[Callable[[str], Any]]] = {
        ".csv": [table.save, _bound().save], ".svg": [table.save, _bound().save, _bound().plot().save],
        ".html": [_bound().save], "": [lambda path: replaced(path).__enter__()],
    }  # fmt: skip
    for ending, each in writers.items():
        for write in each:
            with pytest.raises(RooflineError, match=r"no file has such a name|is no text"):
                write(f"{name}{ending}")


@pytest.mark.parametrize("size", [[1, 2], roofline.formula(LINE, on="h100").sizes["B"]])
def test_what_an_answer_of_arrays_or_formulas_says_is_plain_data(size: Any) -> None:
    served = models.serve("llama-2-7b", on="h100", batch=size, context=128)
    trained = models.train("llama-2-7b", on="h100:8", batch_tokens=np.array(size) * 4096, fsdp=8)
    for answer in (served, trained):
        needed = answer.needed()
        assert needed is not None
        json.dumps(needed.to_dict(), allow_nan=False)
        assert next(fact.name for fact in answer.facts())
        assert "iframe" in answer.interactive()._repr_html_()
    assert len(served.needed().to_dict()) == 5 + isinstance(size, sympy.Symbol)  # type: ignore[union-attr]


def test_a_formula_without_a_point_says_which_sizes_it_lacks() -> None:
    with pytest.raises(RooflineError, match=r"no value of D, F; give sizes"):
        roofline.formula(LINE, on="h100", B=8).values()
    found = roofline.formula(LINE, on="h100", **SIZES)
    for wrong in (lambda: found.crossing("B", "tensor", "x"), lambda: found.bound_form("x")):
        with pytest.raises(InputError, match="the formula has no 'x'"):
            wrong()
    with pytest.raises(RooflineError, match="batch_tokens has several values"):
        models.train("llama-2-7b", on="h100:8", batch_tokens=[2**20, 2**21], fsdp=8).formula()


def test_a_simulation_has_limits() -> None:
    plan = roofline.plan("llama-3-8b", **ASKED, count=[1])
    for wrong, said in (
        ({"requests": 39}, "requests is 39; from 40 to 200,000"),
        ({"seed": -1}, "seed is -1; a whole"),
    ):
        with pytest.raises(InputError, match=said):
            plan.simulated(**wrong)


def _unequal() -> Any:
    """A value that cannot be compared."""

    def wrong(*_: Any) -> bool:
        raise RuntimeError("not compared")

    return type("Unequal", (), {"__eq__": wrong, "__hash__": object.__hash__})()


def test_what_would_end_in_an_error_of_pythons_further_in_is_refused() -> None:
    from roofline.bounds.bound import Bound

    small = {"model": "llama-2-7b", "on": "h100", "context": 64}
    asks: list[tuple[Callable[[], Any], str]] = [
        (lambda: models.serve_table("llama-2-7b", "decode", on="h100", batch=[1, 2], context=64, tile=slice(1)),
         "tile is slice"),
        (lambda: models.speculate(**small, acceptance=0.8, draft=2, by=0.1, longest=-1), "longest is -1"),
        (lambda: models.disaggregate("llama-2-7b", prompt=64, output=10**30, prefill={"on": "h100"},
                                     decode={"on": "h200"}), "are timed"),
        (lambda: models.expected_tokens(4, "(("), "does not start with a number"),
        (lambda: models.expected_tokens([None], 0.8), "size length"),
        (lambda: roofline.formula(LINE, on="h100").compile().code(("x",), frozenset(), True), "there is no column 'x'"),
        (lambda: estimates.Estimator().records[0].limits("x"), "size seconds"),
        (lambda: roofline.train("llama-2-7b", on="h100:8", batch_tokens=2**20, mfu=5e-324), "is not a fraction"),
        (lambda: roofline.plan("llama-3-8b", **ASKED, arrival_variation=1e308), "a variance of arrivals"),
        (lambda: roofline.plan("llama-3-8b", **{**ASKED, "rate": 5e-324}), "a rate of 5e-324 requests/s"),
        (lambda: roofline.plan("llama-3-8b", **ASKED, shared="9" * 400), "is not finite"),
        (lambda: roofline.plan("llama-3-8b", **ASKED, shared="9" * 80), "is above 1e\\+60"),
        (lambda: roofline.plot(LINE, on="h100", **SIZES, constants=np.array([1, 2])), "constants is array"),
        (lambda: roofline.train(7e9, memory=True, batch_tokens=np.array([1, 2])), "batch_tokens has several values"),
        (lambda: roofline.train("llama-2-7b", memory=True, batch_tokens=[1, 2]), "batch_tokens has several values"),
        (lambda: models.servers_ratio(prefill_time=0.1, step_time=0.01, steps=5e-324), "steps is 5e-324; a number"),
        (lambda: models.answer_rate(step_time=np.array([0.1, 0.0]), steps=9), "step_time is array"),
        (lambda: models.token_cost(time=0.1, tokens=5e-324), "tokens is 5e-324; a number above 0"),
        (lambda: solve_equal(LINE, "relu(bf16[B, D])", "B", on="h100", D=8, F=8, quantity="flops", tile=np.ones(3)),
         "tile= says nothing of"),
        (lambda: models.load("llama-2-7b").cache_bytes(64, batch="x"), "batch is 'x', and takes a whole number"),
        (lambda: roofline.formula(LINE, on="h100").compile().code(["x"], frozenset(), True), "there is no column 'x'"),
        (lambda: roofline.llm("llama-2-7b", on="h100", fit=True, tile=_unequal()), "tile is .* and takes three sizes"),
        (lambda: models.serve_table("llama-2-7b", "decode", on="h100", batch=[1, 2], context=8, tile=_unequal()),
         "tile is .* and takes three sizes"),
        (lambda: models.latency_throughput("llama-2-7b", on="h100", batch=[1], context=sympy.Symbol("x")),
         "latency and throughput are of numbers"),
        (lambda: models.network_limit("llama-2-7b", "decode", "h100:8", context=range(3)),
         "a limit of the network is of one step, and this has several values"),
        (lambda: models.network_limit("llama-2-7b", "decode", "h100:8", context=-sympy.Symbol("x")),
         "a limit of the network is of one step, and this has an open size"),
        (lambda: roofline.sweep("llama-2-7b", on="h100", batch=[8, 16], context=64, progress=int), "takes a function"),
        (lambda: roofline.model("llama-2-7b", name="x" * 1001), "name has 1,001 letters"),
        (lambda: Bound.sections(_bound(), [[]]), "takes a list"),
        (lambda: models.latency_throughput("llama-2-7b", on="h100", context=64, tensor=()), "tensor is an empty list"),
    ]  # fmt: skip
    for ask, said in asks:
        with pytest.raises(RooflineError, match=said):
            ask()
