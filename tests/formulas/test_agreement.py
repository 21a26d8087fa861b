"""Number = array = symbol = compiled = Python = JavaScript on random questions; ROOFLINE_LONG=1 asks ten thousand.

A formula is made once and held against fresh answers at random sizes. Those without a closed form are counted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from roofline.bounds.api import bound, question
from roofline.bounds.closed_form import BOUNDS, Formula, question_formula
from roofline.errors import RooflineError, UntimedError
from roofline.models import load, names, serve_bound, train
from roofline.models.closed_form import model_formula
from tests.strategies import KINDS

LONG = os.environ.get("ROOFLINE_LONG") == "1"
NODE = shutil.which("node")
EQUAL = 1e-12

#: Formulas that are made of each kind of question, and sizes at which each is tried.
MADE = {"lines": 3 if LONG else 1, "models": None if LONG else 6, "training": None if LONG else 2}
TRIED = {"lines": 80 if LONG else 4, "models": 16 if LONG else 2, "training": 8 if LONG else 1}

#: Lines with steps beside those of every kind: formats that share bytes, strides, windows, collectives.
STEPPED = {
    "four bits": ("bf16[B, D] * int4[D, F]", ("B", "D", "F")),
    "blocks": ("bf16[B, D] * mxfp4[D, F]", ("B", "D", "F")),
    "packed cache": ("attention(bf16[B, S, N, H], int4[B, T, N, H], int4[B, T, N, H])", ("B", "S", "T", "N", "H")),
    "window": (
        "attention(bf16[B, S, N, 64], bf16[B, S, N, 64], bf16[B, S, N, 64], causal, window=100)",
        ("B", "S", "N"),
    ),
    "strided": ("conv(bf16[B, X, Y, C], bf16[3, 3, C, O], stride=2, pad=1)", ("B", "X", "Y", "C", "O")),
    "pooled": ("pool(bf16[B, X, Y, C], window=3, stride=7)", ("B", "X", "Y", "C")),
}

CHIPS = ("h100", "v5e", "a100", "mi300x", "b200", "gtx-1080-ti")


class Asked(NamedTuple):
    """A formula, and what gives the number at sizes."""

    name: str
    formula: Formula
    number: Callable[..., Any]
    sizes: list[dict[str, int]]


def of_lines(chance: random.Random) -> Iterator[Asked]:
    for kind, (line, labels) in {**KINDS, **STEPPED}.items():
        for chip in chance.sample(CHIPS, MADE["lines"] or 1):
            try:
                formula = question_formula(question(line, on=chip))
            except UntimedError:
                continue
            points = [{label: chance.randint(8, 999) for label in labels} for _ in range(TRIED["lines"])]
            ask = lambda line=line, chip=chip, **sizes: bound(line, on=chip, sizes=sizes)  # noqa: E731
            yield Asked(f"{kind} on {chip}", formula, ask, points)


def layouts(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        [{"on": "h100"}, {"on": "h200:8", "tensor": 8}, {"on": "b200:4"}, {"on": "v5e:2x2", "tensor": 4}]
    )


def of_models(chance: random.Random) -> Iterator[Asked | str]:
    every = [name for name in names() if "--" not in name]
    for name in every if MADE["models"] is None else chance.sample(every, MADE["models"]):
        model = load(name)
        most = min(model.context or 8192, 8192) // 2
        for phase, sizes in (("decode", ("batch", "context")), ("prefill", ("batch", "prompt"))):
            if phase == "decode" and not model.causal:
                continue
            where = layouts(chance)
            try:
                serve_bound(model, phase, **where, **dict.fromkeys(sizes, 64))
            except RooflineError:
                where = {"on": "h200"}
            try:
                formula = model_formula(model, phase, **where)
            except (RooflineError, NotImplementedError) as error:
                yield f"{name} {phase}: {error}"
                continue
            points = [
                {size: chance.randint(1, most if size != "batch" else 300) for size in sizes}
                for _ in range(TRIED["models"])
            ]
            ask = lambda model=model, phase=phase, where=where, **at: serve_bound(model, phase, **where, **at)  # noqa: E731
            yield Asked(f"{name} {phase} {where}", formula, ask, points)


def of_training(chance: random.Random) -> Iterator[Asked | str]:
    every = [name for name in names() if "--" not in name]
    for name in every if MADE["training"] is None else chance.sample(every, MADE["training"]):
        model, where = load(name), {"on": "h100:8"}
        if not model.head:
            continue
        try:
            formula = model_formula(model, "train", **where)
        except (RooflineError, NotImplementedError) as error:
            yield f"{name} train: {error}"
            continue
        length = min(model.context or 1024, 1024)
        points = [
            {"batch_tokens": 8 * length * chance.randint(1, 64), "sequence": length} for _ in range(TRIED["training"])
        ]
        ask = lambda model=model, where=where, **at: train(model, **where, **at)  # noqa: E731
        yield Asked(f"{name} train", formula, ask, points)


GROUPS = {"lines": of_lines, "models": of_models, "training": of_training}


@pytest.mark.parametrize("group", GROUPS)
def test_number_equals_compiled_equals_python_equals_javascript(group: str) -> None:
    chance = random.Random(16)
    wrong, without, tried, scripts = [], [], 0, []
    for asked in GROUPS[group](chance):
        if isinstance(asked, str):
            without.append(asked)
            continue
        function = asked.formula.compile()
        arrays = {name: np.array([point[name] for point in asked.sizes]) for name in asked.formula.sizes}
        columns = function.evaluate(arrays, BOUNDS)
        space: dict[str, Any] = {}
        exec(asked.formula.printed("python"), space)
        numbers = []
        for row, point in enumerate(asked.sizes):
            number = asked.number(**point)
            expected = {name: float(getattr(number, name)) for name in BOUNDS}
            given = {name: point[name] for name in asked.formula.sizes}
            python = space["roofline"](**given)
            numbers.append((given, expected))
            tried += 1
            for name in BOUNDS:
                for how, value in (
                    ("compiled", columns[name].reshape(-1)[row if arrays else 0]),
                    ("python", python[name]),
                ):
                    if not abs(value / expected[name] - 1) <= EQUAL:
                        wrong.append(f"{asked.name} {name} {how} at {point}: {value} for {expected[name]}")
        scripts.append((asked.name, asked.formula.printed("javascript"), numbers))
    wrong += list(wrong_in_node(scripts))
    sys.stderr.write(f"{group}: {tried} questions, {len(without)} without a closed form {without}\n")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong[:12]])
    assert len(without) <= 0.05 * tried


def wrong_in_node(scripts: list[Any]) -> Iterator[str]:
    if NODE is None:
        sys.stderr.write("node is not here: JavaScript was not run\n")
        return
    lines = []
    for _, source, numbers in scripts:
        points = json.dumps([at for at, _ in numbers])
        lines.append(f"console.log(JSON.stringify((() => {{ {source}; return {points}.map(roofline) }})()));")
    done = subprocess.run([NODE, "-"], input="\n".join(lines), capture_output=True, text=True, check=True)
    for (name, _, numbers), line in zip(scripts, done.stdout.splitlines(), strict=True):
        for (at, expected), got in zip(numbers, json.loads(line), strict=True):
            for key, value in expected.items():
                if not abs(got[key] / value - 1) <= EQUAL:
                    yield f"{name} {key} javascript at {at}: {got[key]} for {value}"
