"""Answers in a notebook: the one of the docs runs in a kernel, and each answer is shown once, as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import roofline

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "examples" / "first.ipynb"

#: An answer of each kind that rich can print, in the cells of a notebook.
ASKED = """\
roofline.comm("AllReduce_X(bf16[B, D] {U_X})", on="v5e:8", B=512, D=8192)
roofline.shard("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="v5e:8", B=512, D=8192, F=8192)
roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536)
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook of the docs with the cells above, run in a kernel of its own."""
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("pandas")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(line) for line in ASKED.splitlines()]
    folder = tmp_path_factory.mktemp("notebook")
    resources = {"metadata": {"path": str(folder)}}
    client.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    assert (folder / "report.html").stat().st_size > 10_000
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.filterwarnings("ignore")
def test_each_answer_of_a_notebook_is_shown_once(executed: Any) -> None:
    shown = [cell.outputs for cell in executed]
    assert [len(outputs) for outputs in shown] == [1] * 4 + [0] + [1] * len(ASKED.splitlines())
    for [output] in filter(None, shown):
        assert output.output_type == "execute_result"
        assert {"text/html", "image/svg+xml"} & set(output.data)


def test_the_notebook_is_ten_lines() -> None:
    import json

    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"] if line.strip()]
    assert len(lines) <= 10
    assert all(cell.get("outputs", []) == [] for cell in cells)


def test_text_columns_stand_left_heads_too() -> None:
    html = roofline.llm("llama-3-8b", on="h100", context=128)._repr_html_()
    assert '<th style="text-align:left">operation</th>' in html
    assert '<td style="text-align:left">lm_head</td>' in html


def test_several_sizes_are_a_small_table_with_bars() -> None:
    many = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=list(range(1, 100)), D=8192, F=8192)
    html = many._repr_mimebundle_()["text/html"]
    shown = html.partition(">at best</th>")[2]
    assert len(re.findall("<meter", shown)) == 8
    assert "data:image/svg+xml" in html


def test_a_formula_is_shown_without_a_picture() -> None:
    assert "<img" not in roofline.bound("bf16[B, D] * bf16[D, F]", on="h100")._repr_mimebundle_()["text/html"]
