"""The published figures of XLA's cost analysis, and where our bytes differ the way from one number to the other."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from roofline.programs import trace
from tests.programs.counter_cases import EXCEPTED, XLA
from tests.programs.xla import as_xla


def _layernorm(x: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def _conv2d(stride: int, padding: Any) -> Any:
    return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), padding)


RUNNERS: dict[str, Any] = {
    "tanh": jnp.tanh, "rsqrt": lax.rsqrt, "gelu": jax.nn.gelu, "add": jnp.add, "transpose": jnp.transpose,
    "max axis1": lambda x: x.max(1), "cast": lambda x: x.astype(jnp.bfloat16), "layernorm": _layernorm,
    "slice": lambda x: x[:100], "batch dot": jnp.matmul, "dot bf16": jnp.matmul,
    "dot int8->int32": lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
    "conv3x3 (1, 1) SAME": _conv2d(1, "SAME"), "conv3x3 (2, 2) SAME": _conv2d(2, "SAME"),
    "conv3x3 (1, 1) VALID": _conv2d(1, "VALID"), "conv7x7 s2 pad3 224": _conv2d(2, ((3, 3), (3, 3))),
}  # fmt: skip


def _shapes(case: dict[str, Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(s["shape"], s["dtype"]) for s in case["shapes"]]


@pytest.mark.parametrize("case", XLA, ids=lambda c: f"{c['number']}-{c['test']}")
def test_case_of_xla(case):
    traced = trace(RUNNERS[case["test"]], *_shapes(case), frontend="jax")
    assert as_xla(traced) == (case["expected_flops"] or 0)
    assert sum(op.dims.get("transcendentals", 0) for op in traced.ops) == (case["transcendentals"] or 0)
    # a transpose by itself moves nothing as it is lowered; compiled, it is read and written
    moved = case["expected_bytes"] or case["compiled_bytes"] or 0
    assert (traced.bytes() == moved) == (case["number"] not in EXCEPTED)


#: One instruction of XLA's text: its name, dtype, dimensions, operation, operands, and the program that it calls.
_LINE = re.compile(r"(?:ROOT )?([\w.]+) = (\w+)\[([\d,]*)\]\S* ([\w-]+)\(([^)]*)\)(?:.*to_apply=([\w.]+))?")
_BYTES = {"f32": 4, "s32": 4, "pred": 1}
#: Instructions that only give what they read another form.
_FORMS = ("broadcast", "reshape")


class Text:
    """The text that XLA counts: bytes of each result, what makes it, of which operands; what parameters stand for."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, tuple[int, str, list[str]]] = {}
        self.given: dict[str, str] = {}
        programs: dict[str, list[tuple[int, str]]] = {}
        calls = []
        for block in text.split("\n\n"):
            header = block.strip().partition(" ")[0]
            if header.startswith("region_"):  # the bodies of reductions cost FLOPs and move nothing
                continue
            for name, dtype, dims, operation, operands, program in _LINE.findall(block):
                words = [word.strip() for word in operands.split(",")]
                self.lines[name] = (_BYTES[dtype] * prod(int(d) for d in dims.split(",") if d), operation, words)
                if operation == "parameter":
                    programs.setdefault(header, []).append((int(operands), name))
                if operation == "call":
                    calls.append((program, words))
        for program, words in calls:
            self.given |= {name: words[place] for place, name in programs[program]}

    def work(self) -> list[tuple[int, str, list[str]]]:
        """The instructions that do something."""
        return [line for line in self.lines.values() if line[1] not in ("parameter", "constant", "call")]

    def size(self, word: str) -> int:
        return self.lines[word][0]

    def source(self, word: str) -> str:
        """What a value is, behind calls and forms."""
        while word in self.given or self.lines[word][1] in _FORMS:
            word = self.given.get(word) or self.lines[word][2][0]
        return word


def _written_out(text: Text) -> int:
    """Every instruction reads its operands and writes its result: what XLA counts."""
    return sum(size + sum(map(text.size, operands)) for size, _, operands in text.work())


def _moved(text: Text) -> int:
    """Constants and forms move nothing, and an operand given twice is read once: what we count."""
    total = 0
    for size, operation, operands in text.work():
        if operation not in _FORMS:
            read = {text.source(word) for word in operands}
            total += size + sum(text.size(word) for word in read if text.lines[word][1] != "constant")
    return total


@pytest.mark.parametrize("case", [c for c in XLA if c["number"] in EXCEPTED], ids=lambda c: c["test"])
def test_both_numbers_follow_from_the_text_that_xla_counts(case):
    """XLA's figure is every line of its text; ours is what is left without the lines that only repeat or rename."""
    function = RUNNERS[case["test"]]
    lowered = jax.jit(function).lower(*_shapes(case))
    assert lowered.cost_analysis()["bytes accessed"] == case["expected_bytes"]
    text = Text(lowered.as_text("hlo"))
    assert _written_out(text) == case["expected_bytes"]
    ours = trace(function, *_shapes(case), frontend="jax")
    cubes = [op for op in ours.ops if op.name == "integer_pow"]  # x·x is written, and read again with x
    assert _moved(text) == ours.bytes() + sum(3 * op.writes[0].traffic_bytes for op in cubes)
