"""The same operations give the same answer whoever asks: a line, a program, a model's step, a timed call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from roofline import bound, chip, question
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.bounds.conventions import DEFAULT, NAMES, Conventions, settings, table
from roofline.bounds.memory import BYTE_POLICIES, traffic
from roofline.cli import cli
from roofline.errors import InputError, RooflineError
from roofline.meanings import MEANINGS
from roofline.models import load, prefill, serve_bound, train
from roofline.programs import Traced
from roofline.work import Op
from tests.strategies import for_each

LINES = (
    "bf16[B, D] * bf16[D, F] -> bf16[B, F]",
    "h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]",
    "softmax(fp32[B, D])",
)
SIZES = {"B": 512, "D": 4096, "F": 8192}
#: Too large for the memory of any one chip.
LARGE = {"B": 1_000_000, "D": 200_000, "F": 200_000}
OVERRIDES = {"hbm": "6.7e12"}


def by_line(line: str, on: str, sizes: dict[str, int] = SIZES, **given: Any) -> Bound:
    """The answer of ``roofline bound``."""
    used = {name: size for name, size in sizes.items() if name in line}
    return bound(line, on=on, sizes=used, **given)


def by_program(line: str, on: str, sizes: dict[str, int] = SIZES, **given: Any) -> Bound:
    """The answer of ``roofline trace`` about the same operations."""
    return Traced("program", operations(line, sizes)).bound(on, **given)


def operations(line: str, sizes: dict[str, int] = SIZES) -> tuple[Op, ...]:
    """The operations of a line."""
    return question(line, on="h100", sizes={name: size for name, size in sizes.items() if name in line}).ops()


def figures(answer: Bound) -> dict[str, Any]:
    """Everything of an answer that is a number."""
    footprint = answer.footprint
    assert footprint is not None
    names = ("flops", "flops_by", "bytes", "intensity", "critical_intensity", "times", "lower", "op_by_op", "upper")
    found = {name: getattr(answer, name) for name in (*names, "estimate", "bound_by", "attainable", "utilisation")}
    return {**found, "memory": footprint.total, "capacity": footprint.capacity, "fits": footprint.fits}


def said(answer: Bound, *kinds: str) -> list[str]:
    """What an answer says of some kinds."""
    return [line for line in answer.assumptions if getattr(line, "kind", "") in kinds]


@for_each("line", LINES)
@for_each(
    "given",
    [
        {},
        {"overlap": 0.25},
        {"overhead": "5us"},
        {"overlap": 1, "overhead": 0},
        {"set": OVERRIDES},
        {"over": "l2"},
        {"achievable": True},
        {"unit": "vector"},
        {"tile": (128, 128, 64)},
        *({"policy": policy} for policy in BYTE_POLICIES if policy != "tiled"),
    ],
)
def test_a_program_is_answered_as_its_line(line: str, given: dict[str, Any]) -> None:
    one, other = by_line(line, "h100", **given), by_program(line, "h100", **given)
    assert figures(one) == figures(other)
    kinds = ("counting", "rates", "bytes", "given", "machine", "estimate", "fit")
    assert said(one, *kinds) == said(other, *kinds)
    assert one.incomplete == other.incomplete


@pytest.mark.parametrize("ask", [by_line, by_program])
def test_what_does_not_fit_is_said(ask: Callable[..., Bound]) -> None:
    answer = ask(LINES[0], "h100", LARGE)
    assert answer.footprint is not None
    assert (answer.footprint.level, answer.footprint.fits) == ("hbm", False)
    (line,) = said(answer, "fit")
    assert line == "does not fit: it needs 880 GB, 795 GB more than the 84.9 GB of hbm"
    assert answer.to_dict()["footprint"]["fits"] is False
    assert answer.to_dict()["footprint"]["capacity"] == answer.footprint.capacity


def every_front_end(**given: Any) -> Sequence[Bound]:
    """One answer of each front end."""
    return (
        by_line(LINES[0], "h100", **given),
        by_program(LINES[0], "h100", **given),
        serve_bound("llama-2-7b", "decode", on="h100", context=1024, **given),
        serve_bound("llama-2-7b", "prefill", on="h100", prompt=1024, **given),
        serve_bound("llama-2-7b", "decode", on="h100:4", pipeline=2, tensor=2, batch=4, context=1024, **given),
        train("llama-2-7b", on="h100:8", batch_tokens=65536, **given).bound,
        train("llama-2-7b", on="h100:8", batch_tokens=65536, pipeline=2, **given).bound,
    )


def test_figures_of_the_caller_and_doubts_about_them_are_said_everywhere() -> None:
    for answer in every_front_end(set=OVERRIDES):
        assert said(answer, "given") == ["given by the caller: hbm at 6.7 TB/s"]
        doubt = "given hbm.bandwidth is exactly twice the catalog's figure: a sparse (or duplex) figure?"
        assert doubt in answer.assumptions


def test_estimates_are_asked_for_alike_everywhere() -> None:
    wanted = [
        "the estimate lets 25% of the shorter times overlap",
        "the estimate adds 5 µs for every operation started",
    ]
    for answer in every_front_end(overlap=0.25, overhead="5us"):
        assert said(answer, "estimate") == wanted
        assert answer.estimate is not None
        assert answer.lower <= answer.estimate


@pytest.mark.parametrize("half", [0.5, np.float32(0.5), np.array(0.5)[()], Fraction(1, 2), Decimal("0.5")])
def test_shares_are_numbers_of_any_kind(half: Any) -> None:
    taken = Conventions(overlap=half, density=half)
    assert (taken.overlap, taken.density) == (0.5, 0.5)
    assert Conventions(overlap=np.int64(1), density=np.int64(1)).changes() == {"overlap": 1.0}


@pytest.mark.parametrize("name", ["overlap", "density"])
@pytest.mark.parametrize("share", [True, np.True_, np.array([0.5, 1.0]), [0.5], float("nan"), 1.5, "1"])
def test_what_is_no_share_is_said(name: str, share: Any) -> None:
    with pytest.raises(InputError, match=f"{name} .* is not a fraction"):
        Conventions(**{name: share})


def test_the_option_of_a_convention_says_what_the_option_does() -> None:
    setting = settings()["count_padding"]
    assert setting.explain().startswith("Count a convolution's padded positions")
    assert setting.explain_option().startswith("Leave a convolution's padded positions out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"overlap": 2}, "overlap 2 is not a fraction; 0 is no overlap, 1 is all of it"),
        ({"overlap": -0.1}, "overlap -0.1 is not a fraction"),
        ({"overlap": "half"}, "overlap 'half' is not a fraction"),
        ({"overhead": "5 GB"}, "5 GB"),
        ({"policy": "fuse"}, "unknown byte policy 'fuse'; did you mean 'fused'?"),
        ({"policy": "tiled"}, "the byte policy 'tiled' needs a tile"),
        ({"policy": "fused", "tile": (8, 8, 8)}, "tile= goes with policy='tiled', not 'fused'"),
        ({"tile": (8, 8)}, "a tile is three sizes, not (8, 8)"),
    ],
)
def test_errors_are_alike_everywhere(given: dict[str, Any], message: str) -> None:
    texts = set()
    for ask in (
        lambda: by_line(LINES[0], "h100", **given),
        lambda: by_program(LINES[0], "h100", **given),
        lambda: serve_bound("llama-2-7b", "decode", on="h100", context=1024, **given),
        lambda: serve_bound("llama-2-7b", "decode", on="h100:2", pipeline=2, batch=2, context=1024, **given),
        lambda: train("llama-2-7b", on="h100", batch_tokens=8192, **given),
    ):
        with pytest.raises(InputError) as caught:
            ask()
        texts.add(str(caught.value))
    (text,) = texts
    assert message in text


@pytest.mark.parametrize("policy", BYTE_POLICIES)
def test_a_policy_counts_the_same_bytes_for_a_model_and_its_program(policy: str) -> None:
    given: dict[str, Any] = {"tile": (128, 128, 64)} if policy == "tiled" else {"policy": policy}
    step = serve_bound("llama-2-7b", "prefill", on="h100", prompt=1024, **given)
    ops = prefill(load("llama-2-7b"), prompt=1024)
    program = Traced("prefill", ops).bound("h100", **given)
    assert (program.bytes, program.times, program.lower) == (step.bytes, step.times, step.lower)
    loads = traffic(ops, policy, given.get("tile"))
    assert sum(w.total("bytes") * op.repeat for op, w in zip(ops, loads, strict=True)) == sum(step.bytes.values())


def test_a_timed_call_is_put_under_the_roof_of_its_line() -> None:
    """What ``run`` does with an operation, without timing it."""
    machine = chip("h100", hbm="6.7e12")
    [op] = operations(LINES[0])
    answer = Case([op], machine, name="matmul").answer()
    assert figures(answer) == figures(by_line(LINES[0], "h100", set=OVERRIDES))


def test_only_a_case_calls_the_evaluator() -> None:
    import roofline

    source = Path(roofline.__file__).parent
    users = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"bounds.evaluate import .*(evaluate|bound_of_work)", path.read_text())
    }
    assert users == {"__init__.py", "bounds/case.py"}


def run(*words: str) -> str:
    """Output of a command that succeeds."""
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_trace_says_overrides_doubts_and_what_does_not_fit(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "m.py"
    path.write_text("def make(x, w):\n    return x @ w\n")
    inputs = ["--input", "bf16[1000000, 200000]", "--input", "bf16[200000, 200000]"]
    words = ["trace", f"{path}:make", *inputs, "--on", "h100", "--set", "hbm=6.7e12", "--overhead", "5us"]
    found = json.loads(run(*words, "--json"))["bound"]
    assert found["footprint"]["fits"] is False
    assert found["footprint"]["capacity"] == pytest.approx(84.9e9, rel=0.01)
    assert found["estimate"] == pytest.approx(found["lower"] + 5e-6)
    text = " ".join(run(*words).split())
    for line in (
        "given by the caller: hbm at 6.7 TB/s",
        "given hbm.bandwidth is exactly twice the catalog's figure",
        "does not fit: it needs 880 GB",
        "the estimate adds 5 µs for every operation started",
    ):
        assert line in text


def test_conventions_at_their_defaults_change_nothing() -> None:
    assert DEFAULT.changes() == {}
    assert Conventions(policy="minimal", wrap=False, overlap=0).changes() == {
        "policy": "minimal", "wrap": False, "overlap": 0.0,
    }  # fmt: skip
    assert set(settings()) == set(NAMES)


def test_conventions_are_checked_when_they_change() -> None:
    with pytest.raises(RooflineError, match="overlap 3 is not a fraction"):
        replace(DEFAULT, overlap=3)


def test_the_docs_list_every_convention() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text(encoding="utf-8")
    assert table() in page
    for name in ("over", "unit", "achievable", "set", "link"):
        assert f"| {MEANINGS[name]} |" in page, name


@pytest.mark.parametrize("policy", BYTE_POLICIES)
def test_every_policy_is_an_option_of_every_command(policy: str) -> None:
    words = ["--policy", policy, *(["--tile", "128,128,64"] if policy == "tiled" else []), "--on", "h100", "--json"]
    for command in (
        ["bound", LINES[0], "B=64", "D=512", "F=512"],
        ["llm", "llama-2-7b", "--context", "1024"],
        ["train", "llama-2-7b", "--batch-tokens", "8192"],
    ):
        found = json.loads(run(*command, *words))
        step = found.get("decode") or found.get("step") or found
        text = BYTE_POLICIES[policy].text
        assert any(line.startswith(text) for line in step["assumptions"]), command


def test_the_comparison_of_front_ends_can_fail() -> None:
    one, other = by_line(LINES[0], "h100"), by_program(LINES[0], "h100")
    assert figures(one) != figures(by_program(LINES[0], "h100", overlap=0.25))
    assert figures(other) != figures(by_line(LINES[0], "h100", {**SIZES, "B": 513}))
    assert said(one, "given", "machine") != said(by_program(LINES[0], "h100", set=OVERRIDES), "given", "machine")
