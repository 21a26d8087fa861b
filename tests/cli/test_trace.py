"""``roofline trace`` from the command line."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

import roofline
from roofline.cli import main
from roofline.quantity import format_amount

MODEL = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 10))

def scale(x):
    return x * 2

class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

number = 3
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def run(capsys, *words):
    code = main(["trace", *words])
    return code, capsys.readouterr()


def test_tree_and_bound(capsys, model):
    code, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--on", "1080ti")
    assert code == 0
    assert "Conv2d" in said.out
    assert "memory-bound" in said.out
    assert "GTX 1080 Ti" in said.out


def test_each_module_has_its_parameters_its_time_and_what_binds(capsys, model):
    """By hand: Linear reads 20,490 weights in fp32 and 8 kB and writes 40 B, at 484 GB/s: 76% of all bytes."""
    _, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--on", "1080ti")
    lines = [line.split() for line in said.out.splitlines()]
    (linear,) = (line for line in lines if "Linear" in line)
    moved = 4 * (20490 + 2048 + 10)
    assert linear == ["3", "Linear", "20,490", "41", "kFLOP", "27%", f"{moved / 1e3:.3g}", "kB",
                      f"{moved / 484e9 * 1e9:.3g}", "ns", "76%", "dram"]  # fmt: skip
    (relu,) = (line for line in lines if "ReLU" in line)
    assert relu == ["1", "ReLU", "16.4", "kB", "33.9", "ns", "14%", "dram"]
    assert "needs 102 kB of memory at once (activation 19.5 kB, weight 82.9 kB); dram has 11.8 GB" in said.out


def test_json_has_stable_keys(capsys, model):
    words = ("--input", "fp32[B, 3, 16, 16]", "B=2", "--json", "--on", "h100", "--policy", "minimal", "--backward")
    code, said = run(capsys, f"{model}:build", *words)
    found = json.loads(said.out)
    assert code == 0
    assert found["schema"] == "roofline/trace/1"
    assert found["bound"]["schema"] == "roofline/bound/1"
    forward = 2 * 2 * (8 * 27 * 256 + 2048 * 10)
    assert found["flops"]["flops"] == forward * 2 + 2 * 2 * 2048 * 10
    assert found["ops"][0]["where"] == "0"


def test_functions_classes_and_the_flat_list(capsys, model, tmp_path):
    assert "mul" in run(capsys, f"{model}:scale", "--input", "bf16[4]", "--flat")[1].out
    assert run(capsys, f"{model}:Net", "--input", "fp32[2, 4]")[0] == 0
    page = tmp_path / "ops.html"
    code, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "-o", str(page))
    assert code == 0
    assert said.out.startswith("Sequential  fp32[1, 3, 16, 16]\n\n  152 kFLOP in matmuls")
    assert said.out.endswith(f"\n\nwrote {page}: no sliders; a page of one question with a bound has them\n")
    assert "Conv2d" in page.read_text()


@pytest.mark.parametrize(("program", "words", "message"), [
    ("{}:bild", [], "has no 'bild'; did you mean 'build'?"),
    ("{}", [], "does not say which function"),
    ("nowhere.py:build", [], "there is no file 'nowhere.py'"),
    ("{}:build", ["--input", "fp32[1, 4, 16, 16]"], "check the shapes of the inputs"),
    ("{}:build", ["--input", "fp32[1, 3, H, 16]"], "addmm"),
    ("{}:build", ["--input", "fp32[1, 3, 16, 16]", "--on", "1081ti"], "1080ti"),
    ("{}:build", ["--input", "fp32[1, 3, 16, 16]", "--count", "flop"], "did you mean 'flops'"),
    ("{}:build", ["B"], "'B' is not SIZE=VALUE"),
    ("{}:number", [], "cannot be traced"),
])  # fmt: skip
def test_messages(capsys, model, program, words, message):
    code, said = run(capsys, program.format(model), *words)
    assert code == 2
    assert message in said.err
    assert "Traceback" not in said.err


def test_help_shows_examples():
    from roofline.cli.trace import trace_command

    assert "model.py:build" in CliRunner().invoke(trace_command, ["--help"]).output


@pytest.mark.parametrize(("words", "message"), [
    (["--batch", "4"], "error: --batch is for ONNX files; name the size"),
    (["--dtype", "bf16"], "error: --dtype is for ONNX files; a module has its own"),
    (["D=4"], "error: no input names the size D; sizes are: B"),
    (["b=4"], "error: no input names the size b; did you mean 'B'?"),
])  # fmt: skip
def test_sizes_that_nothing_takes(capsys, model, words, message):
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[B, 8]", *words)
    assert code == 2
    assert said.err.startswith(message)


def test_a_size_that_stays_open(capsys, model):
    code, said = run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--on", "h100")
    assert code == 0
    assert "32*B FLOP" in said.out
    assert "the formulas hold for whole B from 2 on" in said.out
    code, said = run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--on", "h100", "--convention", "macs")
    assert "16*B counted as macs" in said.out
    for words in (["--convention", "macs"], ["--flat"], ["--depth", "1"], ["--explain"]):
        assert run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--on", "h100", "--formula", *words)[0] == 2
    code, said = run(capsys, f"{model}:Net", "--input", "fp32[B, 4]", "--json")
    assert json.loads(said.out)["flops"]["flops"] == "32*B"


LOOP = """
import jax, torch

def run(x):
    return jax.lax.while_loop(lambda c: c.sum() > 0, lambda c: c @ c, x)

def plain(x):
    return torch.relu(x)

def build():
    return torch.nn.Linear(int(torch.ones(1).item()), 4)
"""


@pytest.fixture
def loop(tmp_path):
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    return str(path)


@pytest.mark.parametrize("trips", [("7",), ("loop.py:5=7",), ("loop.py:5=7", "loop.py:9=3")])
def test_trips_of_a_loop(capsys, loop, trips):
    words = [word for each in trips for word in ("--trips", each)]
    code, said = run(capsys, f"{loop}:run", "--jax", "--input", "fp32[8, 8]", "--json", *words)
    assert code == 0
    assert json.loads(said.out)["flops"]["flops"] == 7 * 2 * 8**3


def test_a_function_that_names_jax_alone_is_traced_as_one_of_jax(capsys, loop):
    code, said = run(capsys, f"{loop}:run", "--input", "fp32[8, 8]", "--json", "--trips", "7")
    assert (code, json.loads(said.out)["flops"]["flops"]) == (0, 7 * 2 * 8**3)


BUILD_OF_JAX = """
import jax
import jax.numpy as jnp

def f(x, w):
    return x @ w

def build():
    return f, (jax.ShapeDtypeStruct((8, 64), jnp.float32), jax.ShapeDtypeStruct((64, 32), jnp.float32))

def function():
    return f

def without_inputs():
    return jnp.ones((8, 64)) @ jnp.ones((64, 32))
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("build", []),
        ("build", ["--jax"]),
        ("function", ["--input", "fp32[8, 64]", "--input", "fp32[64, 32]"]),
        ("without_inputs", []),
    ],
)
def test_a_function_of_jax_without_parameters_gives_the_program(capsys, tmp_path, name, words):
    path = tmp_path / "net.py"
    path.write_text(BUILD_OF_JAX)
    code, said = run(capsys, f"{path}:{name}", *words, "--json")
    assert (code, json.loads(said.out)["flops"]["flops"]) == (0, 2 * 8 * 64 * 32)


def test_a_function_of_jax_that_ends_the_process_is_an_error(capsys, tmp_path):
    (tmp_path / "m.py").write_text("step = lambda *x: exit('y')\n")
    code, said = run(capsys, f"{tmp_path / 'm.py'}:step", "--jax")
    assert code == 2
    assert "ends with sys.exit('y')" in said.err


def test_what_the_backward_pass_adds_stands_in_a_line_and_its_products_name_their_layers(capsys, tmp_path):
    """By hand: y = x W, then dW and, below the first layer, dx: three more products of 2·32·16·64 FLOPs."""
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.up, self.down = nn.Linear(16, 64, bias=False), nn.Linear(64, 16, bias=False)\n\n"
        "    def forward(self, x):\n        return self.down(self.up(x))\n"
    )
    words = [f"{path}:Net", "--input", "fp32[32, 16]", "--backward"]
    code, said = run(capsys, *words, "--on", "t4")
    line = next(line for line in said.out.splitlines() if "backward adds" in line)
    assert code == 0
    assert f"backward adds {3 * 2 * 32 * 16 * 64 / 1e3:.0f} kFLOP and" in line
    assert line.endswith("%), one after the other")
    assert "mm (down x2, up)" in said.out
    code, said = run(capsys, *words, "--on", "t4", "--policy", "fused")
    assert code == 0
    assert [line for line in said.out.splitlines() if "Net" in line and " on " in line] == []  # the headline once
    assert said.out.splitlines()[0] == "Net  fp32[32, 16]"
    assert "backward adds 197 kFLOP and" in run(capsys, *words)[1].out
    left_out = "no gradient of the inputs is counted, as of a first layer; --input-gradients counts it too"
    assert left_out in " ".join(said.out.split())
    code, said = run(capsys, *words, "--input-gradients")
    assert f"backward adds {4 * 2 * 32 * 16 * 64 / 1e3:.0f} kFLOP and" in said.out
    assert "no gradient of the inputs" not in said.out


def test_a_fused_trace_says_its_time_by_kernel_and_by_operation_and_one_intensity_one_way(capsys, tmp_path):
    path = tmp_path / "net.py"
    path.write_text("import torch\n\n\ndef net(x, w):\n    return torch.tanh(x @ w) + 1\n")
    words = [f"{path}:net", "--input", "bf16[4096, 8192]", "--input", "bf16[8192, 4096]", "--on", "h100"]
    shown = " ".join(run(capsys, *words, "--policy", "fused")[1].out.split())
    plain = json.loads(run(capsys, *words, "--policy", "fused", "--json")[1].out)["bound"]
    alone, joined = sum(op["lower"] for op in plain["ops"]), plain["op_by_op"]
    assert alone > joined
    said = re.search(r"(\S+ \S+) kernel by kernel, what is joined overlapping too; (\S+ \S+) op by op", shown)
    assert said is not None
    assert said.groups() == (format_amount(joined, "s"), format_amount(alone, "s"))
    shown = run(capsys, *words)[1].out
    assert "kernel by kernel" not in shown
    assert "1,638" in shown
    assert "1.64e+03" not in shown
    # several policies have the figure of each alone, and the list of operations adds up to its sum
    both = run(capsys, *words, "--policy", "each-op,fused", "--flat")[1].out
    (sums,) = re.findall(r"^  sum +(\S+ \S+) +(\S+ \S+)$", both, re.M)[:1]
    assert sums[1] == format_amount(alone, "s")
    apart = format_amount(json.loads(run(capsys, *words, "--json")[1].out)["bound"]["op_by_op"], "s")
    by_kernel = f"h100 policy each-op {apart}, h100 policy fused {format_amount(joined, 's')}"
    assert f"kernel by kernel, what is joined overlapping too: {by_kernel}" in " ".join(both.split())


@pytest.mark.parametrize(("program", "words", "message"), [
    ("run", ["--jax", "--input", "fp32[8, 8]"], "say --trips 10, or --trips"),
    ("run", ["--jax", "--input", "fp32[8, 8]", "--trips", "-1"], "--trips '-1' is not N or PLACE=N"),
    ("run", ["--jax", "--input", "fp32[8, 8]", "--trips", "loop.py:6=2"], "loop.py:5: how often this while loop"),
    ("plain", ["--input", "fp32[8]", "--trips", "2"], "--trips is for JAX and ONNX"),
    ("plain", ["--input", "fp32[8]", "-o", "ops.gif"], "end the name in .html, .json, .txt"),
    ("plain", ["--input", "fp32[8]", "-o", "no/such/folder/ops.html"], "there is no folder 'no/such/folder'"),
    ("plain", ["--input", "fp32[8]", "-o", "no/such/folder/ops.json"], "there is no folder 'no/such/folder'"),
    ("plain", ["--input", "fp32[8]", "--depth", "-1"], "0 shows the program alone"),
    ("plain", ["--input", "fp32[8]", "--policy", "fussed"], "did you mean 'fused'"),
    ("plain", ["--input", "fp32[B]", "B=1,2"], "several sizes stand side by side on a machine; name one: --on"),
    ("run", ["--jax", "--input", "fp32[B]", "B=1,2"], "several sizes stand side by side on a machine; name one: --on"),
    ("plain", [], "give one input for each argument"),
    ("run", ["--jax"], "give one input for each argument"),
    ("plain", ["--jax", "--input", "fp32[8]"], "trace PyTorch without --jax"),
    ("build", ["--input", "fp32[8]"], "loop.py:11: "),
])  # fmt: skip
def test_what_to_do_about_it(capsys, loop, program, words, message):
    code, said = run(capsys, f"{loop}:{program}", *words)
    assert (code, said.out) == (2, "")
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(("words", "message"), [
    (["--batch", "0"], "size batch is 0; a size is a whole number of at least 1"),
    (["--batch", "-2"], "size batch is -2"),
    (["--batch", "1,64"], "several sizes stand side by side on a machine; name one: --on"),
    (["--dtype", "int8"], "fp32 tensors cannot be taken as int8; a floating format"),
    (["N=x"], "size N is a formula of x, which has no value"),
    (["N=1,2"], "several sizes stand side by side on a machine; name one: --on"),
    (["--jax"], "--jax is not for ONNX files"),
    (["--backward"], "--backward is not for ONNX files"),
    (["--optimizer", "sgd"], "--optimizer is not for ONNX files"),
])  # fmt: skip
def test_what_an_onnx_file_does_not_take(capsys, tmp_path, words, message):
    from tests.programs.onnx_models import value
    from tests.programs.onnx_networks import Graph

    graph, path = Graph(), tmp_path / "layer.onnx"
    path.write_bytes(graph.model(value("x", "N", 64), graph.dense("x", 64, 8)).SerializeToString())
    code, said = run(capsys, str(path), *words)
    assert (code, said.out) == (2, "")
    assert message in said.err


def test_an_operation_without_a_rule_is_not_zero(capsys, tmp_path):
    from onnx import helper

    from tests.programs.onnx_models import value

    node = helper.make_node("Strange", ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "g", [value("x", 16)], [value("y", 16)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    path = tmp_path / "strange.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    shown = run(capsys, str(path), "--on", "l4")[1].out
    (row,) = [line for line in shown.splitlines() if line.startswith("  Strange")]
    assert "unknown" in row
    assert "0 FLOP" not in row
    assert "unknown" in run(capsys, str(path), "--flat")[1].out
    assert json.loads(run(capsys, str(path), "--json")[1].out)["ops"][0]["flops"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["--unit", "vector"], ["--set", "hbm=1e12"], ["--warm"], ["--achievable"], ["--policy", "fused"],
        ["--policy", "tiled", "--tile", "8,8,8"],
    ],
)  # fmt: skip
def test_what_is_said_of_a_machine_needs_one(capsys, model, words):
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[8]", *words)
    assert code != 0
    assert f"{words[0]}" in said.err
    assert "says nothing without a machine" in said.err


def test_a_size_may_be_a_formula_of_another(capsys, model):
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[D, F]", "D=3", "F=4*D", "--json")
    assert code == 0
    assert json.loads(said.out)["bytes"]["minimal"] == 2 * 4 * 36
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[D, F]", "D=k", "F=4*k", "k=3", "--json")
    assert json.loads(said.out)["bytes"]["minimal"] == 2 * 4 * 36
    code, said = run(capsys, f"{model}:scale", "--input", "fp32[D, F]", "F=4*D")
    assert code != 0
    assert "size F is a formula of D, which has no value" in said.err


def test_a_picture_shows_the_layers_under_the_roof(capsys, model, tmp_path):
    words = ["trace", f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "-o", str(tmp_path / "layers.svg")]
    assert main([*words, "--on", "1080ti"]) == 0
    shown = capsys.readouterr().out
    assert "\n  at best 245 ns, memory-bound (dram), on NVIDIA GTX 1080 Ti\n" in shown
    assert shown.endswith(f"wrote {tmp_path}/layers.svg\n")
    assert "Sequential on NVIDIA GTX 1080 Ti" in (tmp_path / "layers.svg").read_text()
    for more, message in (([], "a roofline is that of a machine"), (["--on", "h100", "--json"], "two answers")):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err


def test_policies_stand_side_by_side(capsys, model, tmp_path):
    words = [
        "trace",
        f"{model}:build",
        "--input",
        "fp32[1, 3, 16, 16]",
        "--on",
        "h100,a100",
        "--policy",
        "each-op, fused",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["bound"]
    assert found["names"] == [f"{on} policy {policy}" for on in ("h100", "a100") for policy in ("each-op", "fused")]
    for name, answer in zip(found["names"], found["answers"], strict=True):
        on, _, policy = name.split()
        assert main([*words[:4], "--on", on, "--policy", policy, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bound"]["lower"] == answer["lower"]
    assert main(words[:-2]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[2].startswith("  h100 has the lowest floor")  # the answer is first
    assert told.count("has the lowest floor") == 1
    assert told.index("memory needed") > told.index("module ")
    assert main([*words, "-o", str(tmp_path / "four.svg")]) == 0
    shown = capsys.readouterr().out
    assert "has the lowest floor" in shown
    assert shown.endswith(f"wrote {tmp_path}/four.svg\n")


def test_the_source_of_every_figure(capsys, model):
    words = ["trace", f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--explain"]
    assert main([*words, "--on", "1080ti"]) == 0
    shown = capsys.readouterr().out
    assert "\nT_dram = " in shown
    assert "  dram 484 GB/s  [" in shown
    assert main(words) == 2
    assert "prints the sources of a machine's figures; name one (--on h100)" in capsys.readouterr().err


def test_the_time_at_best_stands_before_the_modules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("from torch import nn\n\ndef build():\n    return nn.Linear(64, 64)\n", encoding="utf-8")
    assert main(["trace", f"{path}:build", "--input", "fp32[8, 64]", "--on", "h100"]) == 0
    text = capsys.readouterr().out
    assert text.index("at best ") < text.index("parameters")
    assert ", memory-bound (hbm), on NVIDIA H100" in text.splitlines()[2]


def test_python_shows_the_modules_that_the_command_shows(capsys: pytest.CaptureFixture[str], model: str) -> None:
    answer = roofline.trace(runpy.run_path(model)["build"](), "fp32[1, 3, 16, 16]", on="1080ti", estimate=True)
    _, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--on", "1080ti", "--estimate")
    assert str(answer).partition("assumes")[0] == said.out.partition("assumes")[0]
    assert str(answer).rpartition("\n\n")[2] == said.out.rstrip().rpartition("\n\n")[2]
    both = roofline.trace(runpy.run_path(model)["build"](), "fp32[1, 3, 16, 16]", on=["1080ti", "a100"])
    _, said = run(capsys, f"{model}:build", "--input", "fp32[1, 3, 16, 16]", "--on", "1080ti,a100")
    assert str(both) == said.out.rstrip()
    assert both.program.is_same(answer.program)
    other = roofline.trace(runpy.run_path(model)["build"](), "fp32[2, 3, 16, 16]", on="a100")
    assert both[0].compare(other).program is None
    opened = roofline.trace(runpy.run_path(model)["scale"], "fp32[B, 512]", on="a100")
    assert "  on NVIDIA A100 SXM4 80GB" in str(opened).splitlines()
    frame = answer.to_pandas("modules").set_index("module")
    assert frame.loc["Sequential", "op_by_op"] == pytest.approx(answer.op_by_op)
    assert frame.loc[["0", "1", "3"], "op_by_op"].sum() == pytest.approx(answer.op_by_op)


def test_what_is_missing_is_named_beside_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.py"
    path.write_text("import jax.numpy as jnp\n\ndef step(x):\n    return jnp.linalg.svd(x)[1].sum()\n")
    _, said = run(capsys, f"{path}:step", "--input", "fp32[64, 64]", "--on", "v5e")
    assert re.search(r"^  at least .*, on TPU v5e; not counted: svd x1", said.out, re.M)
    assert said.out.count("iterates until it converges") == 1
    answer = roofline.trace(runpy.run_path(str(path))["step"], "fp32[64, 64]", on="v5e", frontend="jax")
    assert repr(answer).endswith(", INCOMPLETE: not all is counted>")
    with pytest.raises(AttributeError, match=r"there is answer\.incomplete, what is not counted or not timed"):
        getattr(answer, "gaps")  # noqa: B009


@pytest.mark.parametrize("own", ['"fp32[B, 64]"', "(torch.randn(8, 64),)", "torch.randn(8, 64)"])
def test_a_function_may_give_the_inputs_beside_the_program(tmp_path: Path, capsys, own: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(f"import torch\n\ndef make():\n    return torch.nn.Linear(64, 64), {own}\n")
    alone = "import torch\n\ndef make():\n    return torch.nn.Linear(64, 64)\n"
    sizes = ["B=8"] * ("B" in own)
    given = run(capsys, f"{path}:make", *sizes, "--on", "h100", "--json")
    path.write_text(alone)
    text = "fp32[B, 64]" if sizes else "fp32[8, 64]"
    assert given == run(capsys, f"{path}:make", "--input", text, *sizes, "--on", "h100", "--json")


def test_a_flat_list_says_how_long_each_operation_takes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU())\n"
    )
    words = (f"{tmp_path}/net.py:build", "--input", "fp32[64, 512]")
    assert "bound by" not in run(capsys, *words, "--flat")[1].out
    lines = run(capsys, *words, "--flat", "--on", "l4")[1].out.splitlines()
    head = next(line for line in lines if line.lstrip().startswith("operation"))
    assert head.split()[-6:] == ["at", "best", "of", "time", "bound", "by"]
    linear = next(line for line in lines if line.lstrip().startswith("linear"))
    assert linear.split()[-1] == "dram"
    assert "linear (0)" in run(capsys, *words, "--on", "l4")[1].out


def test_a_unit_for_both_kinds_of_work_binds_in_one_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["bound", "relu(fp32[512, 512] * fp32[512, 512])", "--on", "orin-nano"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines if line.endswith("binds")] == [["cuda", "fp32", "products"]]
    assert any(line.split()[:3] == ["cuda", "fp32", "elementwise"] for line in lines)
    assert main(["bound", "fp32[512, 512] * fp32[512, 512]", "--on", "l4"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rounded to tf32 products run on tensor at 60.6 TFLOP/s (set tensor.fp32=60.6TFLOP/s)" in said
    assert main(["bound", "fp32[512, 512] * fp32[512, 512]", "--on", "l4", "--set", "tensor.fp32=60.6TFLOP/s"]) == 0
    assert "tensor fp32" in " ".join(capsys.readouterr().out.split())


SHARDED_IN_JAX = """
import jax
from jax.sharding import AbstractMesh, PartitionSpec as P

mesh = AbstractMesh((4,), ("x",))

def step(x):
    return jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(x)
"""


def test_the_least_that_is_sent_is_not_said_where_a_network_prices_it(capsys, tmp_path):
    path = tmp_path / "step.py"
    path.write_text(SHARDED_IN_JAX)
    words = [f"{path}:step", "--jax", "--input", "fp32[1024, 1024]"]
    texts = [" ".join(run(capsys, *words, *on)[1].out.split()) for on in ([], ["--on", "v5e"], ["--on", "v5e:4"])]
    assert ["one way over one link" in text for text in texts] == [True, True, False]
    assert "AllReduce over X (4 chips)" in texts[2]


def test_files_of_a_trace_are_those_of_any_answer(capsys, model, tmp_path):
    """Beside a file the head of the answer is printed; of several machines a CSV has a row an operation of each."""
    words = ["--input", "fp32[1, 3, 16, 16]", "--on"]
    files = {ending: str(tmp_path / f"ops.{ending}") for ending in ("csv", "txt", "json")}
    assert run(capsys, f"{model}:build", *words, "h100,a100", "-o", files["csv"])[0] == 0
    head, *rows = (tmp_path / "ops.csv").read_text().splitlines()
    assert head.startswith("on,phase,operation,kind")
    assert {row.partition(",")[0] for row in rows} == {"h100", "a100"}
    assert run(capsys, f"{model}:build", *words, "h100", "-o", files["txt"])[1].out.startswith("Sequential")
    assert "assumes" in (tmp_path / "ops.txt").read_text()
    assert run(capsys, f"{model}:build", *words, "h100", "-o", files["json"])[1].out == f"wrote {files['json']}\n"
    assert json.loads((tmp_path / "ops.json").read_text())["bound"]["bound_by"] == "hbm"
