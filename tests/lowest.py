"""The lowest versions that ``pyproject.toml`` allows, each extra in a fresh environment, and a question that needs it.

``python -m tests.lowest`` takes all extras, ``python -m tests.lowest parquet onnx`` some. ``--here`` asks in the
environment that it runs in. The core is asked with each of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: What the core answers, and for each extra what nothing answers without it.
QUESTIONS = {
    "core": """
import roofline
line = "bf16[B, D] * bf16[D, F]"
assert roofline.bound(line, on="h100", B=64, D=8192, F=8192).bound_by == "hbm"
assert roofline.bound(line, on="h100", B=[64, 128], D=8192, F=8192).lower.shape == (2,)
assert roofline.solve(line, "B", on="v5e", D=4096, F=4096).pick
assert roofline.models.serve("llama-3-8b", on="h100", batch=8, context=1024).decode.lower > 0
roofline.plot(line, on="h100", B=64, D=8192, F=8192).save("roof.svg")
""",
    "torch": """
import roofline, torch
found = roofline.trace(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU()), "fp32[8, 64]", backward=True)
assert found.flops() > 2 * 8 * 64 * 32
""",
    "jax": """
import jax.numpy as jnp, roofline
found = roofline.trace(lambda x, w: jnp.tanh(x @ w), "bf16[8, 64]", "bf16[64, 32]", frontend="jax")
assert found.flops() >= 2 * 8 * 64 * 32
""",
    "onnx": """
import onnx, roofline
from onnx import TensorProto, helper
x, w = (helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", ["N", 64]), ("w", [64, 32])))
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [x, w], [y])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
assert roofline.trace("net.onnx", batch=8).flops() == 2 * 8 * 64 * 32
""",
    "measure": """
from roofline.measurement.machine_code import Compiler
Compiler()
""",
    "parquet": """
import pyarrow.parquet, roofline
roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], D=64, F=64).save("grid.parquet")
assert pyarrow.parquet.read_table("grid.parquet").num_rows == 2
""",
    "dask": """
import roofline
asked = {"on": "h100", "B": range(1, 101), "D": 64, "F": [64, 128], "keep": "front,top=3", "block_rows": 30}
found = [roofline.sweep("bf16[B, D] * bf16[D, F]", workers=workers, **asked)["top"].to_dict() for workers in (0, 1)]
assert found[0] == found[1]
""",
    "web": """
import uvicorn
from roofline.web.server import Explorer
assert uvicorn.Config(Explorer(None, "token", ["localhost"]).app, port=0).port == 0
""",
    "simulate": """
from roofline.cli import main
words = "plan llama-3-8b --on h100 --count 1 --prompt 512 --output 128 --rate 10/s --tpot 20ms --formats bf16"
assert main([*words.split(), "--simulate"]) == 0
""",
    "estimate": """
import roofline
from roofline.estimates.calibration import calibrate
with open("runs.csv", "w") as file:
    file.write("m,n,k,dtype,us,library\\n")
    file.writelines(f"{256 * i},4096,4096,bf16,{25 + 15 * i},vllm\\n" for i in range(1, 13))
assert calibrate("runs.csv", "h100").fitted
""",
}


def lowest(extra: str) -> list[str]:
    """The requirements of the core, and of an extra, at their lowest versions. An extra may need more than the core.

    >>> [line for line in lowest("torch") if line.startswith("sympy")]
    ['sympy==1.13.3']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"].get(extra, [])
    return [f"{name}=={version}" for name, version in dict(line.split(">=") for line in wanted).items()]


def ask(python: str, extra: str) -> int:
    """Ask the questions of the core and of an extra, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for name in dict.fromkeys(("core", extra)):
            done = subprocess.run([python, "-c", QUESTIONS[name]], cwd=folder, check=False)
            sys.stdout.write(f"{extra}: {name} {'failed' if done.returncode else 'answered'}\n")
            if done.returncode:
                return 1
    return 0


def main(words: list[str]) -> int:
    """Make an environment for each extra and ask there."""
    reader = argparse.ArgumentParser(prog="python -m tests.lowest", description=__doc__)
    reader.add_argument(
        "extras", nargs="*", metavar="extra", help=f"of {', '.join(QUESTIONS)}; all where none is named"
    )
    reader.add_argument("--here", action="store_true", help="ask in the environment that it runs in")
    asked, failed = reader.parse_args(words), 0
    if unknown := set(asked.extras) - set(QUESTIONS):
        reader.error(f"no extra {', '.join(sorted(unknown))}; there are {', '.join(QUESTIONS)}")
    for extra in asked.extras or QUESTIONS:
        if asked.here:
            failed += ask(sys.executable, extra)
            continue
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = str(Path(folder) / "bin" / "python")
            sys.stdout.write(f"{extra}: {' '.join(lowest(extra))}\n")
            install = [python, "-m", "pip", "install", "--quiet", *lowest(extra), str(ROOT)]
            if subprocess.run(install, check=False).returncode:
                sys.stdout.write(f"{extra}: cannot be installed\n")
                failed += 1
            else:
                failed += ask(python, extra)
            sys.stdout.flush()
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
