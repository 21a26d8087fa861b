"""All questions: those of the docs, those that the tests asked when they were recorded, and a grid over what there is.

``python -m pytest -p tests.corpus.recorder …`` records the questions of the tests (see there); the list stands in
``tests/data/corpus.json``.
"""

from __future__ import annotations

import itertools
import json
import shlex
from typing import Any

from tests.corpus import programs
from tests.corpus.answers import MEASURING, Question
from tests.doc_blocks import ROOT, blocks, commands, documents

RECORDED = ROOT / "tests" / "data" / "corpus.json"


def gathered() -> list[Question]:
    """Every question once."""
    found = [*of_the_docs(), *recorded(), *grid(), *programs.questions()]
    return list({json.dumps(question, sort_keys=True): question for question in found}.values())


def of_the_docs() -> list[Question]:
    """List the commands of the README and the docs, asked for text and for JSON."""
    found = []
    for page in documents():
        for block in blocks(page.read_text(encoding="utf-8")):
            for command in commands(block) if block.language == "console" else ():
                words = shlex.split(command.text)[1:]
                if command.is_ours and words and words[0] not in MEASURING:
                    found.append({"command": words, "show": ["json", "text"]})
    return found


def recorded() -> list[Question]:
    """Read the questions that tests have asked."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    for question in kept["questions"]:
        if "files" in question:
            question["files"] = {name: kept["files"][number] for name, number in question["files"].items()}
    questions: list[Question] = kept["questions"]
    return questions


def command(*words: Any) -> Question:
    """A question of the command line, asked for JSON."""
    return {"command": [str(word) for word in words], "show": ["json"]}


def grid() -> list[Question]:
    """Ask systematically: models, notation, sharded lines, collectives, training."""
    return [*_models(), *_notation(), *_sharded(), *_collectives()]


def _models() -> list[Question]:
    from roofline import models

    found: list[Question] = []
    names = list({repr(models.load(name)): name for name in models.names()}.values())
    for name in names:
        for on, phase in itertools.product(("h200:4", "v5p:16"), ("prefill", "decode")):
            asked: dict[str, Any] = {"on": on, "batch": 8, "tensor": 4 if on == "h200:4" else 8}
            asked |= {"prompt": 2048} if phase == "prefill" else {"context": 4096}
            found.append({"ask": "roofline.models.serve_bound", "args": [name, phase], "kwargs": asked})
        found.append(command("model", name))
    for number, name in enumerate(names[::3]):
        found.append(command("llm", name, "--on", "h200:8", "--batch", 16, "--context", 8192, "--prompt", 1024))
        if number % 6 == 0:
            found.append(
                command("llm", name, "--on", "h200", "--batch", 4, "--context", 1024, "--prompt", 256, "--advise")
            )
        found.append(
            command("train", name, "--on", "h100:64", "--batch-tokens", "1e6", "--sequence", 4096, "--fsdp", 64)
        )
        found.append(
            {
                "ask": "roofline.models.train",
                "args": [name],
                "kwargs": {"on": "v5p:64", "batch_tokens": 2**20, "sequence": 4096, "tensor": 4},
            }
        )
    return found


def _notation() -> list[Question]:
    from roofline.notation import calls

    x, y, z = "bf16[64, 32, 1024]", "bf16[64, 32, 1024]", "bf16[64, 32, 1024]"
    several = {
        "attention": "attention(bf16[4, 64, 8, 128], bf16[4, 256, 2, 128], bf16[4, 256, 2, 128]{})",
        "conv": "conv(bf16[4, 28, 28, 64], bf16[3, 3, 64, 128]{})",
        "pool": "pool(bf16[4, 28, 28, 64]{})",
        "conv_transpose": "conv_transpose(bf16[4, 28, 28, 64], bf16[2, 2, 64, 128]{})",
        "embedding": "embedding(bf16[1000, 64], int32[8, 16]{})",
        "group_norm": "group_norm(bf16[4, 28, 28, 64], groups=8)",
        "batch_norm": "batch_norm(bf16[4, 28, 28, 64])",
    }
    more = {
        "attention": (", causal", ", window=32", ", causal, unfused"),
        "conv": (", stride=2, pad=1", ", same", ", pad=1, dilation=2"),
        "pool": (", window=3, stride=2", ", window=2, pad=same"),
        "conv_transpose": (", stride=2",),
    }
    lines = []
    for name, function in calls.canonical_functions().items():
        if function.family == "collective":
            continue
        if name in several:
            lines += [several[name].format(option) for option in ("", *more.get(name, ()))]
        else:
            lines.append(f"{name}({', '.join((x, y, z)[: function.least])})")
    lines += [
        "bf16[64, 1024] * bf16[1024, 4096]",
        "bf16[64, 1024] * int8[1024, 4096] -> bf16[64, 4096]",
        "fp8[64, 1024] @ fp8[1024, 4096] -> bf16[64, 4096]",
        "int8[8, 64] * int8[8, 64, 128] -> int8[8, 128]",
        "bf16[1024] · bf16[1024] -> bf16[]",
        "bf16[64, 1024] + bf16[1024]",
        "bf16[64, 1024] * nvfp4[1024, 4096] -> bf16[64, 4096]",
        "h = bf16[64, 1024] * bf16[1024, 4096]; g = gelu(h); g * bf16[4096, 1024]",
        "x = softmax(bf16[64, 1024]); x + bf16[64, 1024]",
        "fp32[64, 64] * fp32[64, 64] + fp32[64]",
    ]
    found = [command("bound", line, "--on", on) for line in lines for on in ("h100", "v5e")]
    for line in lines[-10:]:
        found += [
            command("bound", line, "--on", "mi300x", "--policy", policy)
            for policy in ("each-op", "fused", "minimal", "tiled")
        ]
        found += [command("advise", line, "--on", "h100"), command("bound", line, "--on", "a100", "--explain")]
        found += [
            command("bound", line, "--on", "h100", "--set", "hbm=6.7e12"),
            command("bound", line, "--on", "b200", "--overhead", "5us"),
        ]
    return found


_SHARDED = (
    "In[B_X, D] * W[D, F_Y] -> Out[B_X, F_Y]",
    "In[B, D_X] * W[D_X, F] -> Out[B, F]",
    "In[B_X, D_Y] * W[D_X, F_Y] -> Out[B_X, F_Y]",
    "In[B, D_XY] * W[D_XY, F] -> Out[B, F]",
    "In[B_X, D] * W[D_Y, F] -> Out[B_X, F]",
    "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]",
    "In[B, D] * W[D, F_X] -> Out[B, F_X]",
    "In[B_X, D] * W[D, F] -> Out[B_X, F]",
)


def _sharded() -> list[Question]:
    found = []
    for line, (on, mesh) in itertools.product(_SHARDED, (("v5e", "X=4,Y=4"), ("h100", "X=8,Y=4"), ("v5p", "X=8,Y=8"))):
        sizes = ["B=1024", "D=8192", "F=32768"]
        asked = ("shard", "advise") if on == "v5e" else ("bound",) if "Wi" in line else ("shard", "bound")
        found += [command(name, line, "--on", on, "--mesh", mesh, *sizes) for name in asked]
        if "Wi" in line:
            continue
        found.append(command("bound", line, "--on", on, "--mesh", mesh, "--overlap", "0.8", *sizes))
        found.append(command("solve", line, "--for", "B", "--on", on, "--mesh", mesh, *sizes[1:]))
    for name in ("dp", "fsdp", "tp", "dcn", "moe-dp", "ep", "decode-tp", "mixed", "2d"):
        found += [command("scaling", name, "--on", on) for on in ("v5e", "v5p", "h100", "b200")]
    found += [
        command("layout", "bf16[I_XY, J]", "--mesh", "X=4,Y=2", "I=128", "J=64"),
        command("layout", "int8[I, J_X]", "--mesh", "X=8", "I=100", "J=100", "--uneven", "pad"),
    ]
    return found


def _collectives() -> list[Question]:
    lines = (
        "AllGather_X(bf16[B_X, D])",
        "AllReduce_X(bf16[B, D] {U_X})",
        "ReduceScatter_X,B(bf16[B, D] {U_X})",
        "AllToAll_X,B->D(bf16[B_X, D])",
        "AllToAll_X(bf16[B_X, D])",
        "Permute_X(bf16[B_X, D])",
        "Broadcast_X(bf16[B, D])",
        "Send_X(bf16[B, D])",
        "ReduceScatter_X(bf16[B, D] {U_X})",
        "AllGather_XY(bf16[B_XY, D])",
        "AllReduce_{XY}(bf16[B, D] {U_XY})",
    )
    machines = (
        ("v5e", "X=4"),
        ("v5e", "X=16"),
        ("v5p", "X=4,Y=4"),
        ("h100", "X=8"),
        ("h100", "X=32"),
        ("b200", "X=8"),
        ("mi300x", "X=8"),
        ("trn2", "X=16"),
    )
    found = []
    for line, (on, mesh) in itertools.product(lines, machines):
        asked = ("comm", line, "--on", on, "--mesh", mesh)
        found += [command(*asked, "B=8192", "D=8192"), command(*asked, "B=64", "D=64")]
        found += [
            command(*asked, "B=4096", "D=4096", "--algorithm", name)
            for name in ("one-way ring", "two-way ring", "tree", "direct")
        ]
    return found
