"""Answers in a notebook: each is shown once, as HTML. The notebook of the docs runs in a kernel in the long tests.

Otherwise its cells run here, in the shell that a kernel has too, which takes a tenth of the time.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import redirect_stdout
from io import StringIO
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


def cells() -> list[str]:
    """The code of the notebook of the docs, and the cells above."""
    read = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [*("".join(cell["source"]) for cell in read if cell["cell_type"] == "code"), *ASKED.splitlines()]


def in_a_kernel(folder: Path) -> list[list[Any]]:
    """What each cell shows in a kernel of its own, as the data of each output."""
    client, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells()])
    resources = {"metadata": {"path": str(folder)}}
    client.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    assert {output.output_type for cell in notebook.cells for output in cell.outputs} == {"execute_result"}
    return [[output.data for output in cell.outputs] for cell in notebook.cells]


def in_a_shell(folder: Path) -> list[list[Any]]:
    """What each cell shows in a shell of this process."""
    pytest.importorskip("IPython")
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    was, shown = os.getcwd(), []
    os.chdir(folder)
    try:
        for code in cells():
            shell.display_pub = CapturingDisplayPublisher()
            outputs = shell.display_pub.outputs
            shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=outputs)
            with redirect_stdout(StringIO()) as printed:
                shell.run_cell(code).raise_error()
            assert printed.getvalue() == ""
            shown.append([output["data"] for output in outputs])
    finally:
        os.chdir(was)
    return shown


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [in_a_shell, *([in_a_kernel] if os.environ.get("ROOFLINE_LONG") == "1" else [])])
def test_each_answer_of_a_notebook_is_shown_once(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    shown = run(tmp_path)
    assert [len(outputs) for outputs in shown] == [1] * 4 + [0] + [1] * len(ASKED.splitlines())
    for [data] in filter(None, shown):
        assert {"text/html", "image/svg+xml"} & set(data)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_notebook_is_ten_lines() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"] if line.strip()]
    assert len(lines) <= 10
    assert all(cell.get("outputs", []) == [] for cell in cells)


def test_text_columns_stand_left_heads_too() -> None:
    html = roofline.llm("llama-3-8b", on="h100", context=128)._repr_html_()
    assert '<th style="text-align:left">operation</th>' in html
    assert '<td style="text-align:left">lm_head</td>' in html
    assert re.search(r'<td style="text-align:right;white-space:nowrap"[^>]*>1.05 GB</td>', html)


def test_several_sizes_are_a_small_table_with_bars() -> None:
    many = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=list(range(1, 100)), D=8192, F=8192)
    html = many._repr_mimebundle_()["text/html"]
    shown = html.partition(">at best</th>")[2]
    assert len(re.findall("<meter", shown)) == 8
    assert "data:image/svg+xml" in html


def test_a_formula_is_shown_without_a_picture() -> None:
    assert "<img" not in roofline.bound("bf16[B, D] * bf16[D, F]", on="h100")._repr_mimebundle_()["text/html"]
