"""The closed form of a bound: number = compiled = Python = JavaScript; elasticities, flips, terms."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from math import ceil, isnan, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given

import roofline
from roofline.bounds.api import bound, question
from roofline.bounds.bound import BOUNDS
from roofline.bounds.closed_form import Formula, question_formula
from roofline.bounds.solve import solve
from roofline.cli import main
from roofline.cli.trace import load_program
from roofline.errors import InputError, RooflineError, SizeError, UntimedError
from roofline.formulas.compiled import Compiled, ValidRange
from roofline.formulas.printers import fastest_source, text
from roofline.frozen import replace
from roofline.hardware import Machine
from roofline.models import load, serve_bound, train
from roofline.models.closed_form import formula, model_formula, step_function
from roofline.models.sweeps import sweep
from roofline.programs import trace
from roofline.rendering.terminal import as_text
from roofline.sizes import SHORT, TIE, has_more_operations, maximum, minimum, of_largest, symbol
from tests.strategies import expressions, few, machines, some

NODE = shutil.which("node")
EQUAL = {"rel": 1e-12, "abs": 0}


def in_python(found: Formula, point: dict[str, float]) -> dict[str, float]:
    space: dict[str, Any] = {}
    exec(found.printed("python"), space)
    values: dict[str, float] = space["bound"](**point)
    return values


def in_node(sources: list[tuple[str, dict[str, float]]]) -> list[dict[str, float]]:
    lines = [
        f"console.log(JSON.stringify((() => {{ {code}; return bound({json.dumps(at)}) }})()));" for code, at in sources
    ]
    done = subprocess.run([str(NODE), "-"], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@given(expressions(), machines)
@few(15)
def test_number_equals_compiled_equals_python(asked: tuple[str, dict[str, int]], machine: Machine) -> None:
    line, sizes = asked
    try:
        number = bound(line, on=machine, sizes=sizes)
    except UntimedError:
        return
    found = question_formula(question(line, on=machine, sizes=sizes), every=True)
    point = {name: sizes[name] for name in found.sizes}
    values, printed = found.values(), in_python(found, point)
    for name in BOUNDS:
        assert values[name] == pytest.approx(getattr(number, name), **EQUAL), name
        assert printed[name] == pytest.approx(getattr(number, name), **EQUAL), name
    for name, time in number.times.items():
        assert values[f"time.{name}"] == pytest.approx(time, **EQUAL)


STEPS: list[tuple[str, str, dict[str, Any], dict[str, int]]] = [
    ("llama-3-70b", "decode", {"on": "h200:8", "tensor": 8}, {"batch": 64, "context": 8191}),
    ("llama-2-7b", "prefill", {"on": "a100:2", "pipeline": 2}, {"batch": 3, "prompt": 777}),
    ("deepseek-v4-flash", "decode", {"on": "h200:8", "tensor": 8}, {"batch": 5, "context": 2637}),  # no window closes
    ("deepseek-v3", "decode", {"on": "h200:32", "expert": 32}, {"batch": 100, "context": 4001}),
    ("llama-3-70b", "decode", {"on": "h100:8", "tensor": 2, "pipeline": 4}, {"batch": 7, "context": 4096}),
    ("mixtral-8x7b", "mixed", {"on": "h100:2", "tensor": 2}, {"batch": 9, "context": 2000, "chunk": 512}),
    (
        "qwen3.5-122b-a10b-nvfp4", "decode", {"on": "mi300x:8", "tensor": 2, "pipeline": 4},
        {"batch": 20, "context": 2488},
    ),
]  # fmt: skip


@cache
def formula_of(step: int) -> Formula:
    """The closed form of one of the steps, made once."""
    model, phase, where, sizes = STEPS[step]
    return model_formula(model, phase, **where, **sizes)


@pytest.mark.parametrize("step", some(range(len(STEPS)), 3))
def test_a_step_of_a_model_equals_its_formula(step: int) -> None:
    model, phase, where, sizes = STEPS[step]
    number = serve_bound(model, phase, **where, **sizes)
    found = formula_of(step)
    values, printed = found.values(), in_python(found, sizes)
    for name in BOUNDS:
        assert values[name] == pytest.approx(getattr(number, name), **EQUAL), name
        assert printed[name] == pytest.approx(getattr(number, name), **EQUAL), name
    assert number.footprint is not None
    assert values["memory"] == pytest.approx(number.footprint.total, **EQUAL)
    over_rates = found.elasticities()
    for name in BOUNDS:
        assert sum(each.at for x, each in over_rates[name].items() if x in found.rates) == pytest.approx(-1, abs=1e-9)


def test_a_training_step_has_rates_as_symbols_and_equals_its_number() -> None:
    number = train("llama-3-8b", on="h100:8", batch_tokens=2**19, sequence=4096)
    found = model_formula("llama-3-8b", "train", on="h100:8", batch_tokens=2**19, sequence=4096)
    assert {"P_bf16", "W_hbm"} <= set(found.rates)
    for name in BOUNDS:
        assert found.values()[name] == pytest.approx(getattr(number, name), **EQUAL)
    assert found.values()["memory"] == pytest.approx(number.memory.total, **EQUAL)


@pytest.mark.parametrize(
    "wrong", some([{"pipeline": "two"}, {"pipeline": 2.5}, {"pipeline": [2, 4]}, {"microbatches": 0}], 2)
)
def test_a_step_over_stages_takes_their_number_in_any_spelling_and_refuses_what_is_none(wrong: dict[str, Any]) -> None:
    where: dict[str, Any] = {"on": "h100:8", "pipeline": 2}
    given = [{"pipeline": n, "microbatches": n} for n in (2, 2.0, "2", np.int64(2), np.array(2))]
    given.append({"pipeline": 2, "micro_batches": 2})  # the name it had before
    same = [step_function("llama-3-8b", "prefill", **{**where, **n})(batch=8, prompt=512) for n in given]
    assert len({float(each["lower"]) for each in same}) == 1
    for ask in (formula, step_function):
        with pytest.raises(RooflineError, match=next(iter(wrong))):
            ask("llama-3-8b", **{**where, **wrong})


@pytest.mark.long
def test_a_pipelined_training_step_is_short_and_equals_its_number() -> None:
    where: dict[str, Any] = {"on": "h100:16", "pipeline": 4, "tensor": 2}
    found = model_formula("llama-3-8b", "train", **where, batch_tokens=2**18, sequence=2048)
    number = train("llama-3-8b", **where, batch_tokens=2**18, sequence=2048)
    values, printed, over_rates = found.values(), in_python(found, found.point), found.elasticities()
    for name in BOUNDS:
        assert values[name] == pytest.approx(getattr(number, name), **EQUAL)
        assert printed[name] == pytest.approx(getattr(number, name), **EQUAL)
        assert sum(each.at for x, each in over_rates[name].items() if x in found.rates) == pytest.approx(-1, abs=1e-9)
    assert len(found.printed("python")) < 60_000
    rows = found.compile()(batch_tokens=[2**18, 2**18 + 2048], sequence=2048)
    assert rows.invalid == {"batch_tokens is no multiple of 2 sequences": 1}
    alone = model_formula("llama-3-8b", "train", on="h100:4", pipeline=4, batch_tokens=2**18, sequence=2048)
    assert alone.compile()(batch_tokens=[2**18, 10**6], sequence=2048).invalid == {
        "batch_tokens is no multiple of a sequence": 1
    }


@pytest.mark.long
@pytest.mark.skipif(NODE is None, reason="node is not here: JavaScript was not run")
def test_javascript_in_node_equals_the_number() -> None:
    lines = [
        ("bf16[B, D] * int8[D, F]", {"B": 7, "D": 513, "F": 1025}),
        ("conv(bf16[N, H, W, 64], bf16[3, 3, 64, 128], stride=2, pad=1)", {"N": 3, "H": 57, "W": 113}),
    ]
    asked = [question_formula(question(line, on="h100", sizes=sizes)) for line, sizes in lines]
    asked += map(formula_of, some(range(len(STEPS)), 2))
    points = [*(sizes for _, sizes in lines), *(sizes for *_, sizes in some(STEPS, 2))]
    found = in_node([(each.printed("javascript"), at) for each, at in zip(asked, points, strict=True)])
    for each, got in zip(asked, found, strict=True):
        for name in BOUNDS:
            assert got[name] == pytest.approx(each.values()[name], **EQUAL)


def test_rows_out_of_range_are_left_out_and_counted() -> None:
    most = load("llama-2-7b").context
    found = step_function("llama-2-7b", "decode", on="h100")(batch=[1, 1.5, 8, 8], context=[1, 1, most, most - 1])
    assert np.isnan(found["lower"]).tolist() == [False, True, False, False]
    assert found["bound_by"].tolist() == ["hbm", "", "hbm", "hbm"]
    assert list(found.invalid.values()) == [1]
    assert "batch is no whole number of at least 1" in found.invalid


def test_terms_are_called_what_a_reader_knows() -> None:
    found = model_formula("llama-3-70b", "decode", on="h200:8", tensor=8)
    labels = {term.resource: [part.label for part in term.parts] for term in found.terms}
    assert labels["hbm"] == ["weights", "activations", "keys and values"]
    assert labels["nvlink"] == ["AllReduce"]
    assert "attention" in labels["tensor"]


def test_attention_over_a_window_is_short() -> None:
    terms = model_formula("gpt-oss-120b", on="h200").terms
    amounts = {part.label: str(part) for term in terms if term.resource == "tensor" for part in term.parts}
    assert "Min(128, context + 1)" in amounts["attention"]
    assert len(amounts["attention"]) < 160


def test_latex_has_one_fraction_for_each_part() -> None:
    lines = question_formula(question("A[I_X, J] * B[J, K_X] -> C[I_X, K]", on="h200:8")).printed("latex").splitlines()
    assert lines[1] == r"T_{\mathrm{nvlink}} &= \frac{7 \, J \, K}{4 \, W_{\mathrm{nvlink}}} \\"
    step = model_formula("llama-2-7b", "decode", on="h100").printed("latex")
    assert r"\frac{524288 \, \mathrm{batch} \, \left(\mathrm{context} + 1\right)}{W_{\mathrm{hbm}}}" in step


def test_an_elasticity_is_the_slope_of_what_is_evaluated() -> None:
    found = question_formula(
        question("h = bf16[B, D] * bf16[D, F]; gelu(h)", on="h100", sizes={"B": 99, "D": 512, "F": 700})
    )
    f, step = found.compile(), 1e-6
    for name in BOUNDS:
        for rate, figure in found.rates.items():
            up, down = (float(f(**found.point, **{rate: figure.value * by})[name]) for by in (1 + step, 1 - step))
            slope = (up - down) / (2 * step) / found.values()[name]
            assert found.elasticities()[name][rate].at == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("weights", ["int4", "mxfp4", "nvfp4", "nf4"])
def test_whole_bytes_are_no_stair_where_there_are_many(weights: str) -> None:
    """A step of one byte in millions says nothing; of eight tiles it does."""
    sizes = {"B": 64, "D": 1024, "F": 8192}
    line = "bf16[B, D] * {}[D, F]"
    found = question_formula(question(line.format(weights), on="h100", sizes=sizes))
    for name in "DF":
        at = [float(found.compile()(**{**sizes, name: sizes[name] * by})["lower"]) for by in (1.125, 0.875)]
        slope = log(at[0] / at[1]) / log(1.125 / 0.875)
        assert found.elasticities()["lower"][name].at == pytest.approx(slope, rel=1e-2)
    padded = question_formula(question(line.format("bf16"), on="v5e", sizes=sizes, pad=True))
    assert found.steps(wide=True) == ()
    assert padded.steps(wide=True) == ("D", "F")


@pytest.mark.long
def test_each_row_takes_the_faster_way_of_latent_attention() -> None:
    where = {"on": "h200:8", "tensor": 8}
    step = step_function("deepseek-v3", "prefill", **where, past=100)
    points = [{"batch": 1, "prompt": 512, "past": 100}, {"batch": 4, "prompt": 16, "past": 9000}]
    found = step(**{name: np.array([point[name] for point in points]) for name in points[0]})
    for row, point in enumerate(points):
        number = serve_bound("deepseek-v3", "prefill", **where, **point)
        for name in BOUNDS:
            assert found[name][row] == pytest.approx(getattr(number, name), **EQUAL)


def test_a_program_takes_the_fastest_way_at_each_size() -> None:
    where = {"on": "h200:8", "tensor": 8}
    found = model_formula("deepseek-v3", "prefill", **where, batch=1, prompt=512, past=100)
    points = [{"batch": 1, "prompt": 512, "past": 100}, {"batch": 4, "prompt": 16, "past": 9000}]
    assert len(found.ways) == 2
    script = found.printed("javascript")
    scripts = in_node([(script, point) for point in points]) if NODE else [in_python(found, point) for point in points]
    for point, got in zip(points, scripts, strict=True):
        number = serve_bound("deepseek-v3", "prefill", **where, **point)
        for name in BOUNDS:
            assert in_python(found, point)[name] == pytest.approx(getattr(number, name), **EQUAL)
            assert got[name] == pytest.approx(getattr(number, name), **EQUAL)


def test_of_ways_that_differ_by_rounding_the_first_is_taken_everywhere() -> None:
    """The time of a step is the same then, what else it takes is not."""
    B = symbol("B")
    ways = tuple(
        Compiled(name, {"B": B}, {}, {"op_by_op": more * B}, {"hbm": (1 + rest) * B})
        for name, more, rest in (("one", 2, 4e-16), ("other", 3, 0.0))
    )
    both = replace(ways[0], ways=ways)
    assert both(B=np.array([1, 8]))["op_by_op"].tolist() == [2, 16]
    sources = {
        way: (f'def {way}(B):\n    return {{"lower": {1 + rest!r}*B, "more": {more}}}', ["B"])
        for way, more, rest in (("one", 2, 4e-16), ("other", 3, 0.0))
    }
    space: dict[str, Any] = {}
    exec(fastest_source("python", "best", ["B"], sources), space)
    assert space["best"](8) == {"lower": (1 + 4e-16) * 8, "more": 2}


def test_a_program_gives_no_number_where_the_formula_does_not_hold() -> None:
    for line, on, sizes in (
        ("topk_V(bf16[B, V], k=8)", "h100", [{"B": 1, "V": 4}, {"B": 1, "V": 8}]),
        ("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "v5e:4", [{"B": 8, "D": 6, "F": 8}, {"B": 8, "D": 8, "F": 8}]),
    ):
        found = formula(line, on=on)
        for at, holds in zip(sizes, (False, True), strict=True):
            lower, printed = float(found.compile()(**at)["lower"]), in_python(found, at)["lower"]
            assert (not isnan(lower), not isnan(printed)) == (holds, holds)
        assert all(found.conditions[0].reason in found.printed(language) for language in ("python", "js", "c"))


def test_rows_that_take_another_branch_of_a_program_are_left_out() -> None:
    from torch import nn

    class TwoBranches(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.shape[0] > 16 else (x * 2) @ x.T

    found = trace(TwoBranches(), "fp32[B, 512]").bound("h100").formula(B=1)
    assert found.invalid == ("B is below 2",)
    shown = as_text([*found.sections()], 100)
    assert "at B 1 the formula does not hold: B is below 2" in shown
    assert "valid  for whole B from 2 on\n         not where B > 16 does not hold" in shown
    rows = found.compile()(B=[1, 15, 16, 17, 900])
    assert np.isnan(rows["lower"]).tolist() == [True, True, True, False, False]
    assert rows.invalid == {"B is below 2": 1, "B > 16 does not hold": 2}


def test_changes_of_a_sharded_line_are_found_between_sizes_that_divide() -> None:
    """Only every fourth size divides; what binds changes where the bound says so, at such a size."""
    line, point = "bf16[B_X, D_Y] * bf16[D_X, F_Y] -> bf16[B_X, F_Y]", {"B": 64, "D": 8192, "F": 8192}
    for plan, at in (("fewest", {"B": 8192, "D": 88, "F": 88}), (None, {"B": 156})):
        flips = [each for each in formula(line, on="v5e:4x4", plan=plan, **point).flips() if each.size in at]
        assert {flip.size: flip.value for flip in flips} == at
        for flip in flips:
            below = {**point, flip.size: at[flip.size] - 4}
            around = [bound(line, on="v5e:4x4", **each).bound_by for each in (below, {**point, flip.size: flip.value})]
            assert around == [flip.before, flip.after]


def said(*words: str) -> str:
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        main(list(words))
    return printed.getvalue()


def test_programs_of_several_machines_have_names_of_their_own() -> None:
    line = ["formula", "bf16[B, 64] * int8[64, F]", "--on", "h100,v5e"]
    printed, space = said(*line, "--python"), {}
    exec(printed, space)
    assert printed.startswith("# bf16[B, 64] * int8[64, F] -> bf16[B, F] on NVIDIA H100 SXM5 80GB\ndef ")
    assert "lower = max(time_tensor, time_hbm)" in printed
    for name, chip in (("bound_1_h100", "h100"), ("bound_2_v5e", "v5e")):
        assert space[name](B=8, F=512)["upper"] == pytest.approx(bound(line[1], on=chip, B=8, F=512).upper, **EQUAL)
    latex = said("formula", line[1], "--on", "v5e", "--latex")
    assert r"T_{\mathrm{lower}} &=" in latex
    assert r"op\ by\ op" not in latex  # of one operation it is the lower bound again
    assert r"T_{\mathrm{op\ by\ op}} &=" in said(
        "formula", f"{line[1]}; bf16[B, F] * bf16[F, 32]", "--on", "v5e", "--latex"
    )
    rates = "\\end{aligned}\n% P_{\\mathrm{bf16}} = 197 TFLOP/s (mxu)\n% W_{\\mathrm{hbm}} = 819 GB/s (hbm)\n"
    assert rates in latex  # its flips follow


def test_a_formula_says_what_is_wrong_with_its_sizes() -> None:
    asked = ["formula", "llama-2-7b", "--on", "h100"]
    wrong = "--prompt is no size of a decode step; its sizes are --batch, --context; --phase says which step is meant"
    assert said(*asked, "--phase", "decode", "--prompt", "4").strip() == f"error: {wrong}"
    assert "size B is 0.5; a size is a whole number" in said(
        "formula", "bf16[B, 8] * bf16[8, 8]", "--on", "h100", "B=0.5"
    )


def test_the_formula_of_a_program_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "mlp.py"
    file.write_text("from torch import nn\ndef build():\n    return nn.Sequential(nn.Linear(64, 128), nn.GELU())\n")
    asked = ["trace", f"{file}:build", "--input", "fp32[B, 64]", "--on", "h100"]
    shown = said(*asked, "B=32", "--formula")
    assert "at B 32: " in shown
    assert "for whole B from 2 on" in shown
    space: dict[str, Any] = {}
    exec(said(*asked, "--python"), space)
    program = load_program(f"{file}:build")()
    assert space["bound"](B=32)["op_by_op"] == pytest.approx(
        trace(program, "fp32[32, 64]").bound("h100").op_by_op, **EQUAL
    )
    assert "a formula is that of a machine; name one: --on h100" in said(*asked[:-2], "--formula")


def test_a_formula_is_a_function_of_its_sizes():
    found = formula("bf16[M, K] * bf16[K, N]", on="h100", M=8, K=4096, N=4096)
    assert found()["lower"] == pytest.approx(found.values()["lower"], **EQUAL)
    assert found(M=512, K=8192, N=8192)["lower"] == pytest.approx(
        bound("bf16[512, 8192] * bf16[8192, 8192]", on="h100").lower, **EQUAL
    )
    assert found.upper == sum(found.times.values())
    single, several = found(M=512), found(M=[512])
    assert str(single) == str(several)
    assert single.to_dict() == several.to_dict()
    with pytest.raises(SizeError, match="size 'W_hbm' has the name of a rate of the formula; give it another"):
        formula("bf16[B, W_hbm] * bf16[W_hbm, F]", on="h100")
    named = formula("bf16[numpy, self] * bf16[self, t_0]", on="h100")(numpy=512, self=[8192, 4096], t_0=8192)
    assert named["lower"][0] == found(M=512, K=8192, N=8192)["lower"]
    with pytest.raises(SizeError, match="size 'lower' has the name of a column of the answer; give it another"):
        formula("bf16[B, lower] * bf16[lower, F]", on="h100")(B=1, lower=2, F=[3, 4])
    with pytest.raises(SizeError, match="sizes 'in' and 'in_' have one name in python; give one another"):
        formula("bf16[in, in_] * bf16[in_, F]", on="h100").printed("python")
    with pytest.raises(SizeError, match="size M has no value; give it, as in M=1024"):
        formula("bf16[M, K] * bf16[K, N]", on="h100")(K=1, N=1)
    with pytest.raises(AttributeError, match=r"a Formula has no python: .*formula.printed\('python'\)"):
        _ = found.python


def test_a_program_says_of_what_it_is_and_imports_what_it_needs() -> None:
    printed = said("formula", "mixtral-8x7b", "--on", "h100:2", "--tensor", "2", "--python")
    assert printed.startswith("import math\n\n\ndef bound(batch, context, ")  # chips share rows of a table: a ceiling
    assert said("formula", "mixtral-8x7b", "--on", "h200", "--python").startswith("def bound(batch, context, ")
    space: dict[str, Any] = {}
    exec(printed, space)
    assert space["bound"].__doc__.startswith(
        "mixtral-8x7b decode on 2 x NVIDIA H100 SXM5 80GB: times and memory of one chip."
    )
    assert "Takes batch, context as plain numbers." in space["bound"].__doc__
    assert "Rates are in B/s, FLOP/s, hops/s." in space["bound"].__doc__
    planned = said("formula", "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "--on", "v5e:8", "--c")
    assert "// Assumes plan: AllReduce_X(bf16[B, F] {U_X}), which sends over the fewest mesh axes, at every" in planned


def test_a_sweep_of_training_steps_takes_their_options_and_the_usual_sequence() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "tensor": 2, "microbatches": 2}
    table = sweep("llama-3-8b", "train", **asked, batch_tokens=[2**20, 2**21])
    assert table.plain("sequence") == [4096, 4096]
    for tokens, lower in zip((2**20, 2**21), table.plain("lower"), strict=True):
        assert lower == pytest.approx(train("llama-3-8b", **asked, batch_tokens=tokens).lower, **EQUAL)


def test_a_flip_of_open_sizes_is_that_of_solve() -> None:
    line = "bf16[B, D] * fp8[D, F] -> bf16[B, F]"
    found = formula(line, on="h100")
    (flip,) = found.flips()
    solved = solve(line, "B", on="h100")
    assert (flip.size, flip.value, flip.before, flip.after) == ("B", None, "hbm", "tensor")
    assert str(flip.form) == str(solved.form)
    assert "% tensor and hbm: both take equally long at B = \\frac{D" in found.printed("latex")
    assert found.to_dict()["flips"][0]["form"] == text(solved.form, "python")
    assert found._repr_latex_().startswith("$$\\begin{aligned}T_")
    with pytest.raises(InputError, match=r"no 'tensor'; the size stands first: crossing\('B', 'tensor', 'hbm'\)"):
        found.crossing("tensor", "hbm", "B")


def test_a_flip_is_a_number_where_one_size_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bf16[B, 8192] * bf16[8192, 8192]", "--on", "h100"]
    (flip,) = formula(asked[0], on="h100").flips()
    found = solve(asked[0], "B", on="h100")
    assert flip[:4] == ("B", ceil(found.value), "hbm", "tensor")
    assert main(["formula", *asked]) == 0
    assert "tensor binds from B 319 on, hbm before" in capsys.readouterr().out
    assert main(["formula", *asked, "--latex"]) == 0
    assert "% tensor binds from B = 319 on, hbm before: both take equally long at B = " in capsys.readouterr().out
    assert main(["formula", "bf16[B, 64] * bf16[64, 64]", "--on", "h100"]) == 0
    assert "hbm binds at every B\n" in capsys.readouterr().out


def test_a_column_without_a_number_at_the_point_is_none_in_plain_data() -> None:
    found = formula("llama-2-7b", "decode", on="h100", context=128, data=10**30).to_dict()
    assert found["columns"]["critical_intensity"]["value"] is None
    json.dumps(found, allow_nan=False)


def test_open_flips_are_those_that_bind_somewhere() -> None:
    fused = roofline.formula("gelu(bf16[B, D] * bf16[D, F])", on="h100")
    assert [(flip.before, flip.after) for flip in fused.flips()] == [("hbm", "tensor")]
    assert fused.crossing("B", "hbm", "cuda") is not None  # at a negative size
    slow = roofline.formula("gelu(bf16[B, D] * bf16[D, F])", on="h100", set={"vector.bf16": "1 TFLOP/s"})
    assert ("hbm", "cuda") in [(flip.before, flip.after) for flip in slow.flips()]


@pytest.mark.parametrize("way", ["answer", "formula", "answer's formula"])
def test_one_symbol_of_a_size_serves_answers_and_formulas(way: str) -> None:
    """``subs`` and ``diff`` of sympy with the symbol of the docs, and with the one that the formula names."""
    line, B = "int4[B, D] * bf16[D, F]", symbol("B")
    answer = roofline.bound(line, on="h100", D=4096, F=4096)
    found = {"answer": answer, "formula": roofline.formula(line, on="h100"), "answer's formula": answer.formula()}[way]
    for name in ("lower", "op_by_op", "upper"):
        form = getattr(found, name)
        assert B in form.free_symbols
        assert B not in form.subs(B, 64).free_symbols
        assert form.diff(B) != 0
    if way != "answer":
        assert found.sizes["B"] == B
        assert sum(found.times.values()).diff(B) == found.upper.diff(B)


def test_what_is_kept_of_symbols_is_what_it_was_made_of() -> None:
    """Largest parts, where each is the largest, and numbers of operations are kept: each is that of its own forms."""
    B, C = symbol("B"), symbol("C")
    for _ in range(2):
        assert [str(function(B, bound)) for function in (maximum, minimum) for bound in (2, 2.5, 2)] == [
            "Max(2, B)", "Max(2.5, B)", "Max(2, B)", "Min(2, B)", "Min(2.5, B)", "Min(2, B)",
        ]  # fmt: skip
        for keys in ((B, 6, 2 * B - 8), (B, 2 * B - 8, 6)):
            form = of_largest(keys, [10, 20, 30])
            for size in (3, 6, 7, 8, 20):
                numbers = [key if key == 6 else key.subs(B, size) for key in keys]
                assert form.subs(B, size) == (10, 20, 30)[numbers.index(max(numbers))], (keys, size)
        for form in (B, 2 * B + 1, -B / C - 3, sum(B**n for n in range(SHORT + 3)), B * C * maximum(B, C) / 7):
            count = form.count_ops()
            assert [has_more_operations([form], most) for most in (count - 1, count)] == [True, False]
            assert not has_more_operations([form, B, form], 2 * count)
            assert has_more_operations([form, B, form], 2 * count - 1)


def test_tiers_that_are_busy_as_long_do_not_flip_and_a_form_has_the_value_that_is_named() -> None:
    """Rounding makes now one, now the other of two equal times the longer one."""
    flips = formula("AllGather_X(bf16[N_X])", on="h100:16", N=2**20).flips()
    assert [(flip.before, flip.after) for flip in flips] == [
        ("hop latency", "nic"), ("nic", "hop latency"), ("hop latency", "nvlink"),
    ]  # fmt: skip
    assert flips[1].form is None  # the algorithm changes there
    found = model_formula("llama-3-8b", "prefill", on="h100", batch=4, prompt=2048)
    (flip,) = (each for each in found.flips() if each.size == "prompt" and each.form is not None)
    at = {found.letters[size]: value for size, value in found.point.items()}
    at |= {rate.symbol: rate.value for rate in found.rates.values()}
    assert flip.value - 1 <= float(flip.form.subs(at)) <= flip.value


def test_on_a_tie_the_inner_tier_binds_in_single_answers_arrays_and_formulas() -> None:
    """``balanced`` keeps both tiers busy as long; rounding makes now one, now the other the longer."""
    line, sizes = "AllGather_X(bf16[N_X])", [10**9, 2**30, 72 * 16_777_216 + 16]
    where = {"on": "h100:16", "algorithm": "balanced"}
    single = [bound(line, N=size, **where) for size in sizes]
    assert all(abs(each.times["nvlink"] / each.times["nic"] - 1) < TIE for each in single)
    together = bound(line, N=np.array(sizes, dtype=float), **where)
    assert {each.bound_by for each in single} == {*together.bound_by.tolist()} == {"nvlink"}
    chips = 72.0 * np.arange(2, 60)
    opened = formula(line, on="gb200:n")(n=chips, N=chips * 1e6)
    assert {*opened["bound_by"].tolist()} == {"nvlink"}
    found = formula(line, on="gb200:n", N=144 * 7 * 10**6, n=144)
    assert [flip.size for flip in found.flips() if flip.after == "nic"] == ["N"]


def test_a_size_is_a_multiple_of_a_share_of_others() -> None:
    """Of 32 chips in four stages eight take a sequence each, of n chips n/4 do: no size need be a multiple of n."""
    found = formula("bf16[B, D] * bf16[D, F]", on="h100")
    b, d, f = (found.letters[name] for name in "BDF")
    found = replace(found, conditions=(ValidRange(sympy.Eq(sympy.Mod(b, d * f / 4), 0), ""),))
    assert found.multiples == {"B": d * f / 4}
    assert found.multiple("B", {"B": 512, "D": 32, "F": 64}) == 512
