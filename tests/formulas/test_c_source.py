"""What a formula prints in C gives its numbers, of several ways and cases too."""

from __future__ import annotations

import math
import shutil
import subprocess

import pytest

import roofline
from roofline.errors import InputError
from tests.strategies import some

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

QUESTIONS = [
    ("bf16[B, D] * int4[D, F] -> bf16[B, F]", "decode", "v5e", {}, {"B": 33, "D": 4095, "F": 77}),
    (
        "attention(bf16[B, S, 8, 64], bf16[B, S, 8, 64], bf16[B, S, 8, 64], causal)",
        "decode",
        "h100",
        {},
        {"B": 3, "S": 99},
    ),
    ("AllReduce_X(bf16[N])", "decode", "h100:8", {}, {"N": 30001}),
    ("deepseek-v3", "prefill", "h200:8", {"tensor": 8}, {"batch": 3, "prompt": 700}),
    ("llama-3-70b", "decode", "h200:8", {"tensor": 8}, {"batch": 5, "context": 3001}),
    ("AllReduce_XYZ(bf16[512, N]); AllReduce_XYZ(bf16[N, 512])", "decode", "v5p:nxnxn", {}, {"n": 8, "N": 12345}),
    ("mixtral-8x7b", "decode", "h100", {}, {"batch": 7, "context": 100}),
    ("llama-3-8b", "train", "h100:n", {}, {"n": 64, "batch_tokens": 2**20, "sequence": 4096}),
    ("llama-3-8b", "train", "h100:8", {"pipeline": 4}, {"batch_tokens": 2**20, "sequence": 4096}),
]


@pytest.mark.parametrize(("subject", "phase", "on", "options", "sizes"), some(QUESTIONS, 4))
def test_it_gives_the_numbers(subject, phase, on, options, sizes, tmp_path):
    found = roofline.formula(subject, phase, on=on, **options)
    names = ("lower", "op_by_op", "upper", "memory")
    here = found(**sizes)
    printed = _run(found, sizes, names, tmp_path)
    assert printed == pytest.approx([float(here[name]) for name in names], rel=1e-12)


@pytest.mark.long
def test_no_column_is_a_number_where_no_case_holds(tmp_path):
    found = roofline.formula("llama-3-8b", "train", on="h100:n")
    sizes = {"n": 12, "batch_tokens": 2**20, "sequence": 4096}
    printed = _run(found, sizes, ("lower", "op_by_op", "upper", "memory", "time_hbm"), tmp_path)
    assert all(math.isnan(value) for value in printed)


def _run(found, sizes, names, tmp_path):
    """What its program in C prints of these columns."""
    call = f"struct bound b = bound({', '.join(str(sizes[name]) for name in found.sizes)});"
    shown = f'printf("{" ".join(["%.17g"] * len(names))}", {", ".join(f"b.{name}" for name in names)});'
    (tmp_path / "it.c").write_text(f"{found.printed('c')}\n#include <stdio.h>\nint main() {{ {call} {shown} }}\n")
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-o", "it", "it.c", "-lm"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "it"], capture_output=True, text=True, check=True).stdout
    return [float(each) for each in printed.split()]


def test_it_gives_no_number_where_the_formula_does_not_hold(tmp_path):
    found = roofline.formula("topk_V(bf16[B, V], k=8)", on="h100")
    assert all(map(math.isnan, _run(found, {"B": 1, "V": 4}, ("lower", "memory"), tmp_path)))


def test_an_unknown_language_names_those_there_are():
    with pytest.raises(InputError, match=r"a formula is not printed in 'rust'; one of python, javascript, c, latex"):
        roofline.formula("bf16[B, D] * bf16[D, F]", on="h100").printed("rust")


def test_a_solution_is_a_function_of_the_sizes_that_are_open(tmp_path):
    line = "bf16[B, D] * int8[D, F]"
    found = roofline.solve(line, "B", on="v5e")
    shown = 'printf("%.17g %.17g", B(4096, 8192), B(1, 1));'
    (tmp_path / "it.c").write_text(f"{found.printed('c')}\n#include <stdio.h>\nint main(void) {{ {shown} }}\n")
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-o", "it", "it.c", "-lm"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "it"], capture_output=True, text=True, check=True).stdout
    flips, never = map(float, printed.split())
    assert flips == pytest.approx(roofline.solve(line, "B", on="v5e", D=4096, F=8192).value, rel=1e-12)
    assert math.isnan(never)
