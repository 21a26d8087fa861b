"""Bad input at random, through the whole command: an answer or one clear message, never a traceback or a NaN."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.cli import main
from tests.notation.strings import texts
from tests.strategies import CHIPS, KINDS

LINES = [text for text, _ in KINDS.values()]
NAMES = sorted({label for _, labels in KINDS.values() for label in labels})

odd_sizes = st.one_of(
    st.integers(-2, 2**70).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["", "0", "1e30", "1e31", "nan", "-0", "4*D", "1,2,0", "1:0", "3:9:*2", "9**9**9", "B", "١", "1e-3"]
    ),
    st.text("0123456789.:,*eE+-/() BDF", max_size=12),
)
some_sizes = st.lists(st.tuples(st.sampled_from(NAMES), odd_sizes), max_size=6)
options = st.one_of(
    st.tuples(st.just("--on"), st.one_of(st.sampled_from([*CHIPS, "v5e:4x4", "h100:0", "this"]), st.text(max_size=8))),
    st.tuples(st.just("--unit"), st.one_of(st.sampled_from(["matrix", "vector", "mxu"]), st.text(max_size=5))),
    st.tuples(st.just("--over"), st.one_of(st.sampled_from(["hbm", "vmem", "pcie", "l2"]), st.text(max_size=5))),
    st.tuples(st.just("--set"), st.builds("{}={}".format, st.sampled_from(["hbm", "bf16", "x", "peak"]), odd_sizes)),
    st.tuples(st.just("--policy"), st.sampled_from(["each-op", "fused", "minimal", "tiled", "none"])),
    st.tuples(st.just("--tile"), st.text("0123456789,x", max_size=9)),
    st.tuples(st.just("--compute"), st.sampled_from(["bf16", "fp8", "int8", "bf17", "fp16_acc16"])),
    st.tuples(st.just("--flops"), odd_sizes),
    st.tuples(st.just("--bytes"), odd_sizes),
    st.tuples(st.just("--dtype"), st.sampled_from(["bf16", "int8", "fp9"])),
    st.sampled_from([("--exact",), ("--pad",), ("--achievable",), ("--valid-only",)]),
)


def check(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run the command: 0 with finite numbers, or 2 with a message."""
    code = main(words)
    shown = capsys.readouterr()
    assert code in (0, 2), words
    assert "Traceback" not in shown.err
    if code == 2:
        assert shown.err.strip()
        assert not shown.out
        return
    finite(json.loads(shown.out), words)


def finite(value: Any, words: list[str]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            finite(item, words)
    elif isinstance(value, list):
        for item in value:
            finite(item, words)
    elif isinstance(value, float):
        assert math.isfinite(value), words


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(LINES),
    st.lists(st.tuples(st.sampled_from(NAMES), odd_sizes), max_size=6),
    st.lists(options, max_size=3),
)
def test_odd_sizes_and_options(
    capsys: pytest.CaptureFixture[str], line: str, sizes: list[tuple[str, str]], chosen: list[tuple[str, ...]]
) -> None:
    flat = [word for option in chosen for word in option]
    words = ["bound", line, *(f"{name}={value}" for name, value in sizes), "--json", *flat]
    check(words if "--on" in flat else [*words, "--on", "h100"], capsys)


@pytest.mark.fuzz
def test_random_and_mutated_lines(capsys: pytest.CaptureFixture[str], fuzz_rounds: int) -> None:
    for line in texts(seed=2026, count=max(300, fuzz_rounds // 2)):
        check(["bound", "--json", "--on", "v5e", "--", line], capsys)
