"""What a strict type checker says of the Python in the README and in common use of the functions."""

from __future__ import annotations

import ast
import doctest
import os
from pathlib import Path

import pytest

from tests.doc_blocks import ROOT, blocks

#: What people write, beside the README's own lines.
COMMON_USE = """
import roofline

step = roofline.llm("llama-3-8b", on="h100", batch=8, context="8k", price=2.5)
step.decode.lower, step.prefill, step.tokens_per_second, step.memory.fits, step.cost["output"].dollars
beside = roofline.llm("llama-3-8b", on=["h100", "h200"], context=8192)
beside.fastest, beside.to_pandas()
trained = roofline.train("llama-3-8b", on="h100:8", batch_tokens="512k")
trained.time, trained.mfu, trained.memory.total
roofline.train("llama-3-8b", on="h100:64", tokens="1T", mfu=0.4).days
roofline.train("llama-3-8b", on="h100", memory=True).total
planned = roofline.plan("llama-3-8b", on="h100,a100", rate="5/s", prompt=1000, output=200, tpot="50ms", prices="table")
planned.best.chip, planned.best.chips, planned.best.cost_per_hour, planned.why("a100")
asked = roofline.bound("bf16[64, 64] * bf16[64, 64]", on="h100", estimate=True)
asked.expectation.low, asked.expectation.high, asked.lower, asked.advise()
roofline.solve("bf16[B, D] * bf16[D, F]", "B", on="h100", D=64, F=64).pick
formula = roofline.formula("bf16[M, K] * bf16[K, N]", on="h100")
formula(M=1, K=2, N=3)["lower"], formula.printed("python")
found = roofline.chips("nvidia", sort="price", top=5)
found[0].figure("hbm").value, found[:2].to_pandas(), found.ratio("bf16", "price").ratios["h100"]
roofline.comm("allreduce", bytes="1GB", on="h100:8").time
roofline.bound("bf16[64, 64] * bf16[64, 64]", on=["h100", "a100"]).fastest
roofline.comm("allreduce", bytes="1GB", on=["h100:8", "a100:8"]).ratio("at best")
roofline.model("llama-3-8b").parameters
roofline.sweep("llama-3-8b", on="h100", batch=[1, 2], context=8192).to_pandas()
"""


@pytest.mark.skipif(not os.environ.get("ROOFLINE_LONG"), reason="reads the whole package: make test-long")
def test_a_strict_type_checker_takes_the_readmes_python(tmp_path: Path) -> None:
    from mypy import api

    python = [block for block in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if block.language == "python"]
    lines = ["\n".join(block.lines) for block in python]
    readme = "".join(each.source for text in lines for each in doctest.DocTestParser().get_examples(text))
    programs = {"readme.py": readme, "common.py": COMMON_USE}
    for name, source in programs.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    words = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", "--allow-redefinition"]
    said, wrong, code = api.run([*words, *(str(tmp_path / name) for name in programs)])
    assert (said, wrong, code) == ("", "", 0)


def test_the_attributes_of_common_use_are_there() -> None:
    """The program above runs too, line by line."""
    space: dict[str, object] = {}
    for node in ast.parse(COMMON_USE).body:
        exec(compile(ast.Module([node], []), "common", "exec"), space)
