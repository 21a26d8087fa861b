"""Number = array = symbol = compiled = Python = JavaScript on random questions of every kind: ``make agreement``.

A formula is made once and held against fresh answers at random sizes. Questions without a closed form are counted and
named. ``python -m tests.formulas.agreement --questions 10000 [--only serving] [--named llama]`` prints the table.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from roofline.bounds.api import bound, question
from roofline.bounds.bound import BOUNDS
from roofline.bounds.closed_form import Formula, question_formula
from roofline.errors import RooflineError, UntimedError
from roofline.models import load, names, serve_bound, train
from roofline.models.blocks.encoder import encoder_of
from roofline.models.closed_form import model_formula
from roofline.notation.calls import REDUCTIONS, SCANS, UNARY_ELEMENTWISE
from tests.strategies import KINDS

NODE = shutil.which("node")
EQUAL = 1e-12

#: Lines beside those of every kind: every function of the notation, formats that share bytes, strides, windows.
LINES: dict[str, tuple[str, tuple[str, ...]]] = {
    **KINDS,
    **{name: (f"{name}(bf16[B, F])", ("B", "F")) for name in UNARY_ELEMENTWISE if name != "cast"},
    "cast": ("cast(bf16[B, F]) -> int8[B, F]", ("B", "F")),
    **{f"{name} over": (f"{name}_T(bf16[B, T])", ("B", "T")) for name in (*REDUCTIONS, *SCANS)},
    "where": ("where(bool[B, F], bf16[B, F], bf16[B, F])", ("B", "F")),
    "swiglu": ("swiglu(bf16[B, F], bf16[B, F])", ("B", "F")),
    "log softmax": ("log_softmax(fp32[B, T])", ("B", "T")),
    "batch norm": ("batch_norm(bf16[B, D], bf16[D], bf16[D])", ("B", "D")),
    "rope": ("rope(bf16[B, S, N, 128])", ("B", "S", "N")),
    "transpose": ("transpose(bf16[B, D])", ("B", "D")),
    "four bits": ("bf16[B, D] * int4[D, F]", ("B", "D", "F")),
    "blocks": ("bf16[B, D] * mxfp4[D, F]", ("B", "D", "F")),
    "packed cache": ("attention(bf16[B, S, N, H], int4[B, T, N, H], int4[B, T, N, H])", ("B", "S", "T", "N", "H")),
    "window": (
        "attention(bf16[B, S, N, 64], bf16[B, S, N, 64], bf16[B, S, N, 64], causal, window=100)", ("B", "S", "N"),
    ),
    "unfused": (
        "attention(bf16[B, S, N, 64], bf16[B, S, N, 64], bf16[B, S, N, 64], causal, unfused)", ("B", "S", "N"),
    ),
    "strided": ("conv(bf16[B, X, Y, C], bf16[3, 3, C, O], stride=2, pad=1)", ("B", "X", "Y", "C", "O")),
    "dilated": ("conv(bf16[B, X, C], bf16[5, C, O], dilation=3, pad=6)", ("B", "X", "C", "O")),
    "pooled": ("pool(bf16[B, X, Y, C], window=3, stride=7)", ("B", "X", "Y", "C")),
    "mlp": ("h = bf16[B, D] * bf16[D, F]; swiglu(h, h) * bf16[F, D]", ("B", "D", "F")),
}  # fmt: skip

CHIPS = ("h100", "v5e", "a100", "mi300x", "b200", "gtx-1080-ti", "v6e", "trn2", "l40s", "spr")

COLLECTIVES = (
    "AllGather_X({d}[B_X, D])", "ReduceScatter_X({d}[B, D] {U_X}) -> {d}[B_X, D]", "AllReduce_X({d}[B, D] {U_X})",
    "AllToAll_X({d}[B_X, D]) -> {d}[B, D_X]", "Reduce_X({d}[B, D] {U_X})", "Broadcast_X({d}[B, D])",
)  # fmt: skip

SPLIT = (
    "A[I_X, J] * B[J, K] -> C[I_X, K]", "A[I, J_X] * B[J_X, K] -> C[I, K]", "A[I_X, J] * B[J, K_X] -> C[I_X, K]",
    "A[I, J] * B[J, K_X] -> C[I, K_X]", "A[I_X, J] * B[J_X, K] -> C[I_X, K]", "A[I, J_X] * B[J, K] -> C[I, K]",
    "gelu(A[I_X, J])", "h = A[I, J] * B[J, K_X]; g = gelu(h); g * D[K_X, J] -> E[I, J]",
)  # fmt: skip
SPLIT_OVER_TWO = ("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]", "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]")

LAYOUTS: tuple[dict[str, Any], ...] = (
    {"on": "h100"}, {"on": "h200:8", "tensor": 8}, {"on": "b200:4"}, {"on": "v5e:2x2", "tensor": 4},
    {"on": "h200:8", "tensor": 4, "data": 2}, {"on": "h200:16", "tensor": 4, "pipeline": 4},
    {"on": "h200:8", "expert": 8},
    {"on": "mi300x:8", "tensor": 2, "pipeline": 4}, {"on": "h200:8", "tensor": 4, "context_parallel": 2},
    {"on": "h100:8", "tensor": 8, "weights": "int8"}, {"on": "b200:8", "tensor": 8, "kv": "fp8"},
)  # fmt: skip

TRAINED: tuple[dict[str, Any], ...] = (
    {"on": "h100:8"}, {"on": "h100:64", "tensor": 8}, {"on": "v5p:4x4x4", "tensor": 4},
    {"on": "h100:32", "tensor": 2, "pipeline": 4}, {"on": "h100:16", "pipeline": 2, "schedule": "zb-h1"},
    {"on": "h200:16", "pipeline": 2, "schedule": "gpipe", "checkpoint": "full"}, {"on": "h100:8", "zero": 1},
    {"on": "h100:16", "pipeline": 2, "chunks": 2, "schedule": "interleaved"}, {"on": "h100:8", "microbatches": 4},
)  # fmt: skip


class Asked(NamedTuple):
    """What makes a formula, what gives the number at sizes, the sizes, and what gives it for arrays of them."""

    name: str
    make: Callable[[], Formula]
    number: Callable[..., Any]
    points: list[dict[str, int]]
    arrays: Callable[..., Any] | None = None


#: A question without a closed form: its name, and why.
Without = tuple[str, str]
Found = Iterator[Asked]


def of_lines(chance: random.Random, points: int, most: int | None) -> Found:
    """Every kind of operation on some chips."""
    lines = list(LINES.items())
    for kind, (line, labels) in lines if most is None else chance.sample(lines, most):
        for chip in chance.sample(CHIPS, 1 if most else 3):
            sizes = [{label: chance.randint(8, 999) for label in labels} for _ in range(points)]
            yield from _of_a_line(f"{kind} on {chip}", line, chip, sizes)


def of_collectives(chance: random.Random, points: int, most: int | None) -> Found:
    """Collectives in three formats on four networks."""
    every = [
        (text, dtype, on)
        for text in COLLECTIVES
        for dtype in ("bf16", "fp32", "fp8")
        for on in ("h200:8", "v5e:16", "h100:64", "mi300x:8")
    ]
    for text, dtype, on in every if most is None else chance.sample(every, most):
        line = text.replace("{d}", dtype)
        sizes = [{"B": 64 * chance.randint(1, 99), "D": 64 * chance.randint(1, 99)} for _ in range(points)]
        yield from _of_a_line(f"{line} on {on}", line, on, sizes)


def of_split_lines(chance: random.Random, points: int, most: int | None) -> Found:
    """Lines whose tensors are split over chips, by the plan that sends over the fewest mesh axes."""
    every = [(line, on) for line in SPLIT for on in ("h200:8", "v5e:16", "h100:32")]
    every += [(line, on) for line in SPLIT_OVER_TWO for on in ("v5e:4x4", "v4:4x4")]
    for line, on in every if most is None else chance.sample(every, most):
        sizes = [{label: 64 * chance.randint(1, 99) for label in "IJK"} for _ in range(points)]
        yield from _of_a_line(f"{line} on {on}", line, on, sizes, plan="fewest")


def _of_a_line(name: str, line: str, on: str, sizes: list[dict[str, int]], **more: Any) -> Found:
    asked = question(line, on=on, **more)
    points = [{label: at[label] for label in asked.size_names} for at in sizes]

    def ask(**at: Any) -> Any:
        return bound(line, on=on, sizes=at, **more)

    yield Asked(name, lambda: question_formula(asked), ask, points, ask)


def of_serving(chance: random.Random, points: int, most: int | None) -> Found:
    """Prefill, decode and mixed steps of every shipped model in random layouts."""
    every = [name for name in names() if "--" not in name]
    for name in every if most is None else chance.sample(every, most):
        model = load(name)
        longest = min(model.context or 8192, 8192) // 2
        phases = {
            "decode": ("batch", "context"),
            "prefill": ("batch", "prompt"),
            "mixed": ("batch", "context", "chunk"),
        }
        for phase, sizes in phases.items():
            if phase not in steps_of(model):
                continue
            where = _possible(serve_bound, model, chance, phase, dict.fromkeys(sizes, 64))
            at = [
                {size: chance.randint(16, 300) if size == "batch" else chance.randint(1, longest) for size in sizes}
                for _ in range(points)
            ]

            make = partial(model_formula, model, phase, **where, **dict.fromkeys(sizes, 1))
            ask = partial(serve_bound, model, phase, **where)
            yield Asked(f"{name} {phase} {where}", make, ask, at, ask)


def steps_of(model: Any) -> tuple[str, ...]:
    """The kinds of step that a model has."""
    if not model.causal:
        return ("prefill",)
    return ("prefill", "decode") if encoder_of(model) else ("prefill", "decode", "mixed")


def _possible(ask: Callable[..., Any], model: Any, chance: random.Random, phase: str, sizes: Any) -> dict[str, Any]:
    """A layout that the model can have; one chip where three tries find none."""
    for where in chance.sample(LAYOUTS, 3):
        try:
            ask(model, phase, **where, **sizes)
        except RooflineError:
            continue
        return where
    return {"on": "h200"}


def of_training(chance: random.Random, points: int, most: int | None) -> Found:
    """Training steps of every shipped model in random layouts, over pipelines too."""
    every = [name for name in names() if "--" not in name and load(name).head and not encoder_of(load(name))]
    for name in every if most is None else chance.sample(every, most):
        model, length = load(name), min(load(name).context or 1024, 1024)
        for where in chance.sample(TRAINED, 3):
            try:
                train(model, **where, batch_tokens=64 * length, sequence=length)
            except RooflineError:
                continue
            break
        else:
            where = {"on": "h100:8"}
        sizes = [{"batch_tokens": 64 * length * chance.randint(1, 64), "sequence": length} for _ in range(points)]
        make, ask = partial(model_formula, model, "train", **where), partial(train, model, **where)
        yield Asked(f"{name} train {where}", make, ask, sizes, ask)


def of_programs(chance: random.Random, points: int, most: int | None) -> Found:
    """Traced programs of PyTorch and JAX with open sizes."""
    import jax
    import torch
    from torch import nn

    import roofline
    from tests.programs import networks

    def scores(x: Any, w: Any) -> Any:
        return jax.nn.softmax(jax.nn.gelu(x @ w), axis=-1)

    mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(torch.bfloat16)
    conv = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)).eval()
    layer = nn.TransformerEncoderLayer(256, 4, batch_first=True, dropout=0.0).eval()
    every: list[tuple[str, Any, tuple[str, ...], dict[str, Any]]] = [
        ("mlp", mlp, ("bf16[B, 512]",), {}),
        ("mlp, a step", mlp, ("bf16[B, 512]",), {"optimizer": "adamw"}),
        ("convolution", conv, ("fp32[B, 3, 64, 64]",), {}),
        ("encoder layer", layer, ("fp32[B, S, 256]",), {}),
        ("layer norm", nn.LayerNorm(300), ("fp32[B, S, 300]",), {}),
        ("embedding", nn.Embedding(1000, 64), ("int64[B, S]",), {}),
        ("resnet start", networks.on_shapes(networks.resnet18_start), ("fp32[B, 3, 224, 224]",), {}),
        ("jax", scores, ("bf16[B, 512]", "bf16[512, 2048]"), {"frontend": "jax"}),
    ]
    for name, program, inputs, more in every if most is None else chance.sample(every, min(most, 3)):
        open_ = roofline.trace(program, *inputs, **more)
        for chip in ("h100", "a100", "v5e") if most is None else ("h100",):
            labels = sorted(set(re.findall(r"\b[A-Z]\b", " ".join(inputs))))
            sizes = [{label: chance.randint(2, 300) for label in labels} for _ in range(points)]

            def ask(program: Any = program, inputs: Any = inputs, more: Any = more, chip: str = chip, **at: int) -> Any:
                return roofline.trace(program, *inputs, **more, sizes=at).bound(chip)

            yield Asked(f"{name} on {chip}", lambda o=open_, chip=chip: o.bound(chip).formula(), ask, sizes)


#: What is asked, and the share of all questions.
GROUPS: dict[str, tuple[Callable[[random.Random, int, int | None], Found], float]] = {
    "lines": (of_lines, 0.4), "collectives": (of_collectives, 0.12), "split lines": (of_split_lines, 0.12),
    "serving": (of_serving, 0.26), "training": (of_training, 0.07), "programs": (of_programs, 0.03),
}  # fmt: skip

#: About how many formulas a group makes when it makes all.
FORMULAS = {"lines": 210, "collectives": 60, "split lines": 28, "serving": 360, "training": 115, "programs": 20}


@dataclass
class Agreement:
    """What was asked, by how it was evaluated; what differs; what has no closed form."""

    checks: Counter[str] = field(default_factory=Counter)
    questions: int = 0
    formulas: int = 0
    wrong: list[str] = field(default_factory=list)
    without: list[Without] = field(default_factory=list)

    def take(self, name: str, how: str, expected: Mapping[str, float], got: Mapping[str, float], at: Any) -> None:
        """Compare the figures of an answer."""
        for key, value in expected.items():
            found = float(got[key])
            self.checks[how] += 1
            if not abs(found / value - 1) <= EQUAL if value else found != 0:
                self.wrong.append(f"{name} {key} {how} at {at}: {found} for {value}")


def agree(
    group: str, chance: random.Random, points: int, most: int | None = None, named: str = "", part: str = "1/1"
) -> Agreement:
    """Ask a group's questions in every way there is; ``named`` asks only those whose name holds it.

    ``part`` 2/3 is the second of three processes that share the work.
    """
    found, scripts = Agreement(), []
    number, parts = map(int, part.split("/"))
    for index, asked in enumerate(GROUPS[group][0](chance, points, most)):
        if named not in asked.name or index % parts != number - 1:
            continue
        try:
            formula = asked.make()
        except UntimedError:
            continue
        except (RooflineError, NotImplementedError, TypeError) as error:
            found.without.append((asked.name, str(error)))
            continue
        found.formulas += 1
        function = formula.compile()
        answers = [(at, _numbers(asked, at, function.columns)) for at in asked.points]
        known = [(at, expected) for at, expected in answers if expected is not None]
        if not known:
            continue
        arrays = {name: np.array([at[name] for at, _ in known]) for name in formula.sizes}
        names = tuple(known[0][1])
        columns = function.evaluate(arrays, names)
        if columns.invalid:
            found.wrong.append(f"{asked.name}: {columns.invalid}")
            continue
        space: dict[str, Any] = {}
        exec(formula.printed("python"), space)
        sizes = {name: np.array([float(at[name]) for at, _ in known]) for name in known[0][0]}
        several = None if asked.arrays is None else asked.arrays(**sizes)
        for row, (at, expected) in enumerate(known):
            found.questions += 1
            python = space["bound"](**{name: at[name] for name in formula.sizes})
            found.take(asked.name, "compiled", expected, {name: _row(columns[name], row) for name in names}, at)
            found.take(asked.name, "python", expected, python, at)
            if several is not None:
                array = {name: _row(value, row) for name, value in _figures(several).items()}
                some = {name: value for name, value in expected.items() if name in array}
                found.take(asked.name, "array", some, array, at)
        at, expected = known[0]
        symbols = _by_substitution(formula, at, names)
        if symbols is not None:
            found.take(asked.name, "symbol", expected, symbols, at)
        scripts.append((asked.name, formula, known))
    _in_node(scripts, found)
    return found


def _numbers(asked: Asked, at: Mapping[str, int], columns: Sequence[str]) -> dict[str, float] | None:
    try:
        number = asked.number(**at)
    except RooflineError:
        return None
    return {name: float(value) for name, value in _figures(number).items() if name in (*BOUNDS, *columns)}


def _figures(answer: Any) -> dict[str, Any]:
    """The three bounds, and the memory where that is known."""
    memory = getattr(answer, "memory", None) or getattr(answer, "footprint", None)
    found = {name: getattr(answer, name) for name in BOUNDS}
    return found if memory is None else {**found, "memory": memory.total}


def _row(column: Any, row: int) -> float:
    flat = np.asarray(column, float).reshape(-1)
    return float(flat[row if flat.size > 1 else 0])


def _by_substitution(formula: Formula, at: Mapping[str, int], names: Sequence[str]) -> dict[str, float] | None:
    """The form itself with sizes and rates put in; None where several ways are compared."""
    import sympy

    if formula.ways:
        return None
    known: dict[Any, Any] = {symbol: sympy.Integer(at[name]) for name, symbol in formula.letters.items()}
    known |= {rate.symbol: sympy.Float(rate.value, 30) for rate in formula.rates.values()}
    for name, form in formula.definitions.items():
        known[name] = form.xreplace(known)
    forms = {name: formula.bound_form(name) if name in BOUNDS else formula.forms[name] for name in names}
    return {name: float(form.xreplace(known)) for name, form in forms.items()}


def _in_node(scripts: Sequence[tuple[str, Formula, list[Any]]], found: Agreement) -> None:
    if NODE is None or not scripts:
        return
    lines = []
    for _, formula, known in scripts:
        points = json.dumps([{name: at[name] for name in formula.sizes} for at, _ in known])
        source = formula.printed("javascript")
        lines.append(f"console.log(JSON.stringify((() => {{ {source}; return {points}.map(bound) }})()));")
    done = subprocess.run([NODE, "-"], input="\n".join(lines), capture_output=True, text=True, check=True)
    for (name, _, known), line in zip(scripts, done.stdout.splitlines(), strict=True):
        for (at, expected), got in zip(known, json.loads(line), strict=True):
            found.take(name, "javascript", expected, got, at)


def _first_of_each(wrong: Sequence[str]) -> list[str]:
    """The first difference of each question."""
    first: dict[str, str] = {}
    for line in wrong:
        first.setdefault(line.partition(" at ")[0], line)
    return list(first.values())


def main() -> int:
    """Ask every group, print a table of checks, what differs, and what has no closed form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--named", default="", metavar="TEXT", help="only questions whose name holds this")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the Nth of M processes that share the work")
    parser.add_argument("--only", choices=sorted(GROUPS), action="append")
    asked = parser.parse_args()
    totals, wrong = Agreement(), 0
    for group in asked.only or GROUPS:
        began = time.monotonic()
        points = max(round(asked.questions * GROUPS[group][1] / FORMULAS[group] * 1.05), 1)
        found = agree(group, random.Random(f"{asked.seed} {group}"), points, named=asked.named, part=asked.part)
        totals.questions += found.questions
        totals.formulas += found.formulas
        totals.checks += found.checks
        totals.without += found.without
        wrong += len(found.wrong)
        ways = ", ".join(f"{how} {count:,}" for how, count in found.checks.items())
        print(f"{group}: {found.questions:,} questions of {found.formulas:,} formulas; checks: {ways}; "
              f"{len(found.wrong)} differ; {len(found.without)} without a closed form; "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
        for line in [*_first_of_each(found.wrong), *(f"no closed form: {name}: {why}" for name, why in found.without)]:
            print(f"  {line}", flush=True)
    if NODE is None:
        print("node is not here: JavaScript was not run")
    without = f"{len(totals.without)} without a closed form"
    checks = f"{sum(totals.checks.values()):,} checks, {wrong} differ"
    print(f"all: {totals.questions:,} questions of {totals.formulas:,} formulas, {checks}; {without}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
