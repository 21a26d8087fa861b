"""Measure the package against its budgets: ``make bench``.

Every figure is the median of several fresh processes, with the fastest and the slowest beside it. A process that
shares its cores with others takes longer by the clock but not by CPU time, so work on one core is judged by CPU time.
A command's start is judged as a ratio: its CPU time over that of a yardstick script that runs right before it.
Exits with 1 when a budget is not met.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

PROGRAM = [sys.executable, "-m", "roofline"]
SCRIPT = Path(sys.executable).with_name("roofline")
CATALOG = Path(__file__).parents[1] / "src" / "roofline" / "hardware" / "catalog"
LINE = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
MATMUL = (LINE, "--on", "v5e", "B=64", "D=8192", "F=8192")
EXPECTED = ("bf16[64, 8192] @ bf16[8192, 8192]", "--on", "h100", "--estimate")
SERVED = ("llama-2-70b", "--on", "h100", "--batch", "8", "--prompt", "1024", "--context", "1536")
HEAVY = ("numpy", "sympy", "rich", "matplotlib")


@dataclass(frozen=True, slots=True)
class Budget:
    """What is measured, how often, and what it may be at most (or must be at least).

    ``needs`` is a library that an extra brings; without it the budget is not measured, and that is said.
    """

    name: str
    unit: str
    limit: float
    measure: Callable[[], float]
    at_least: bool = False
    times: int = 11
    needs: str = ""

    def met(self, value: float) -> bool:
        """Say whether a value is within the budget."""
        return value >= self.limit if self.at_least else value <= self.limit


#: Children run on one thread, with bytecode cached as an installed package has it, and keep memory once they have it:
#: how fast an operating system hands out fresh pages is not what is measured.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
}


def inside(code: str) -> dict[str, float]:
    """Run code in a fresh process; it prints one JSON object."""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def whole(*arguments: str) -> float:
    """Time a command from start to end by the clock, in milliseconds."""
    command = [str(SCRIPT)] if SCRIPT.exists() else PROGRAM
    start = time.perf_counter()
    subprocess.run([*command, *arguments], env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return (time.perf_counter() - start) * 1e3


#: What any command line with a table costs: import click and rich, read one file of the catalog, print one table.
YARDSTICK = f"""
import tomllib
import click
from rich.console import Console
from rich.table import Table

@click.command()
def command():
    with open({str(CATALOG / "nvidia-hopper.toml")!r}, "rb") as file:
        chips = tomllib.load(file)["chip"]
    table = Table(box=None)
    table.add_column("chip")
    table.add_column("name")
    for key, chip in chips.items():
        table.add_row(key, chip.get("name", ""))
    Console(width=100).print(table)

command()
"""


def cpu_of(command: list[str]) -> float:
    """CPU seconds of a command from start to end, in all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold(*arguments: str) -> float:
    """CPU time of a command over that of the yardstick, one after the other."""
    yardstick = cpu_of([sys.executable, "-c", YARDSTICK])
    return cpu_of([*PROGRAM, *arguments]) / yardstick


def bare_python() -> float:
    """Time an empty program: what no command can be faster than."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True, capture_output=True)
    return (time.perf_counter() - start) * 1e3


def import_cpu() -> float:
    """CPU milliseconds of ``import roofline``."""
    return inside(
        "import time, json; t = time.process_time(); import roofline; "
        "print(json.dumps({'ms': (time.process_time() - t) * 1e3}))"
    )["ms"]


def import_heavy() -> float:
    """Number of heavy libraries ``import roofline`` loads."""
    return inside(f"import sys, json, roofline; print(json.dumps({{'n': sum(m in sys.modules for m in {HEAVY!r})}}))")[
        "n"
    ]


ROUNDS = """
rates = []
for _ in range(5):
    start = time.process_time()
    answer = ask()
    rates.append(10 / (time.process_time() - start))
    del answer
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"million/s": statistics.median(rates[1:]), "MiB": peak / 2**20}))
"""

IMPORTS = f"import json, resource, statistics, sys, time\nimport numpy as np\nimport roofline\nline = {LINE!r}\n"

GRID = f"""{IMPORTS}
b, d, f = (np.arange(1, n + 1) * 8 for n in (200, 250, 200))
ask = lambda: roofline.sweep(line, on="v5e", B=b, D=d, F=f)
{ROUNDS}"""

ARRAYS = f"""{IMPORTS}
rng = np.random.default_rng(0)
b, d, f = (rng.integers(1, 10_000, 10_000_000).astype(np.float64) for _ in range(3))
ask = lambda: roofline.bound(line, on="v5e", B=b, D=d, F=f)
{ROUNDS}"""

BESIDE = f"""{IMPORTS}
rng, rows, block = np.random.default_rng(0), 10_000_000, 16_384

def blocked(formula, *sizes):
    found = np.empty(rows)
    for start in range(0, rows, block):
        part = slice(start, start + block)
        formula(found[part], *(size[part] for size in sizes))
    return found

def seconds(ask):
    start = time.process_time()
    found = ask()
    return time.process_time() - start

def beside(ours, theirs):
    rounds = [(seconds(theirs), seconds(ours)) for _ in range(7)]
    theirs, ours = (statistics.median(part) for part in zip(*rounds[1:]))
    return {{"ratio": theirs / ours, "million/s": rows / ours / 1e6}}
"""

#: A matmul by its two formulas in numpy, block by block, beside the compiled closed form and an answer over arrays.
MATMUL_BESIDE = f"""{BESIDE}
sizes = [rng.integers(1, 10_000, rows).astype(np.float64) for _ in range(3)]
named = dict(zip("BDF", sizes))

def formulas(out, b, d, f):
    np.maximum(2 * b * d * f / 197e12, (2 * b * d + d * f + 2 * b * f) / 819e9, out=out)

compiled = roofline.bound(line, on="v5e").compile()
ours = {{"compiled": lambda: compiled(**named)["lower"],
         "bound": lambda: roofline.bound(line, on="v5e", **named).lower}}
assert np.allclose(ours["bound"](), blocked(formulas, *sizes), rtol=1e-12)
print(json.dumps(beside(ours[%(kind)r], lambda: blocked(formulas, *sizes))))
"""

#: A decode step of 70B: its closed form as the package prints it, by hand in numpy, block by block.
STEPS_BESIDE = f"""{BESIDE}
from roofline.models import serve_table
from roofline.models.closed_form import model_formula
batch, context = rng.integers(1, 513, rows), rng.integers(1, 4096, rows)
form = model_formula("llama-3-70b", "decode", on="h100")
rates = {{name: rate.value for name, rate in form.rates.items()}}
times = [str(time).replace("Min(", "np.minimum(") for time in form.times.values()]
largest = times[0]
for time_ in times[1:]:
    largest = f"np.maximum({{largest}}, {{time_}})"
hand = eval(f"lambda batch, context: {{largest}}", {{"np": np, **rates}})

def formula(out, batch, context):
    out[...] = hand(batch.astype(np.float64), context.astype(np.float64))

ask = lambda: serve_table("llama-3-70b", "decode", on="h100", batch=batch, context=context, columns=("lower",))["lower"]
assert np.allclose(ask(), blocked(formula, batch, context), rtol=1e-12)
print(json.dumps(beside(ask, lambda: blocked(formula, batch, context))))
"""

#: From a fresh start to the first column of an answer over arrays, and the memory it takes.
FIRST = f"""{IMPORTS}
rng = np.random.default_rng(0)
b, d, f = (rng.integers(1, 10_000, 10_000_000).astype(np.float64) for _ in range(3))
start = time.process_time()
found = roofline.bound(line, on="v5e", B=b, D=d, F=f).lower
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({{"s": seconds, "MiB": peak / 2**20}}))
"""

#: A million serving configurations of a 70B model on 8 chips, in every layout there is.
SEARCH = f"""{IMPORTS}
from roofline.models.sweeps import sweep_steps
ways = [1, 2, 4, 8]
asked = dict(on="h100:8", tensor=ways, pipeline=ways, context_parallel=ways, batch=range(1, 401),
             context=range(128, 128 * 251, 128))
sweep_steps("llama-3-70b", **asked)
times = []
for _ in range(5):
    start = time.process_time()
    found = sweep_steps("llama-3-70b", **asked)
    times.append(time.process_time() - start)
known = int(np.isfinite(found["lower"]).sum())
assert known >= 1_000_000, known
print(json.dumps({{"s": statistics.median(times)}}))
"""

#: The two formulas of a matmul by numexpr on one thread, over the time of the compiled closed form.
NUMEXPR = f"""{BESIDE}
import numexpr
numexpr.set_num_threads(1)
b, d, f = (rng.integers(1, 10_000, rows).astype(np.float64) for _ in range(3))
flops, load = "2*b*d*f/197e12", "(2*b*d+d*f+2*b*f)/819e9"
compiled = roofline.bound(line, on="v5e").compile()
ours = lambda: compiled.evaluate({{"B": b, "D": d, "F": f}}, ("lower",), checked=True)
theirs = lambda: numexpr.evaluate(f"where({{flops}} > {{load}}, {{flops}}, {{load}})")
print(json.dumps(beside(ours, theirs)))
"""

PLAN = """
import json, resource, sys, time
start = time.process_time()
from roofline.plans.answer import plan
found = plan("llama-3-70b", on=["h100", "h200", "b200"], count=range(1, 129), rate="12/s", prompt=2048, output=256,
             ttft="500ms", tpot="30ms", price={"h100": 2.5, "h200": 3.1, "b200": 4.9})
seconds = time.process_time() - start
assert found.meets and sum(found.reasons.values()) > 10**6
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"s": seconds, "MiB": peak / 2**20}))
"""

TRACE = """
import json, resource, sys, time
import torch
import roofline
from roofline.programs.pytorch import trace as torch_trace
from tests.programs import networks
model = networks.on_shapes(networks.Llama).to(torch.bfloat16)
roofline.trace(torch.nn.Linear(8, 8), "fp32[8, 8]")
cache = [("bf16[1, 32, 2049, 128]",) * 2 for _ in range(32)]
asked = {"decode": ("int32[1, 1]", cache, 2048), "train": ("int32[1, 2048]",)}
start = time.process_time()
found = roofline.trace(model, *asked["%(step)s"], **%(options)r)
seconds = time.process_time() - start
found.bound("h100")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"s": seconds, "MiB": peak / 2**20}))
"""
DECODE, TRAIN = (TRACE % {"step": s, "options": o} for s, o in (("decode", {}), ("train", {"optimizer": "adamw"})))


ESTIMATES = """
import json, statistics, time
import numpy as np
from roofline.estimates.constants import KERNELS
from roofline.estimates.kernel_model import ChipFigures
from tests.estimates.test_kernels import MORE, SHAPES
model, chip, count = KERNELS["%(kernel)s"], ChipFigures(132, 989.4e12, 3.35e12, 50e6), 100_000
shapes = {**SHAPES[model.name], MORE[model.name]: np.geomspace(1, 1000, count)}
rates = []
for _ in range(5):
    start = time.process_time()
    model.times(shapes, chip, model.defaults(), model.policies[0])
    rates.append(count / (time.process_time() - start))
print(json.dumps({"1/s": statistics.median(rates)}))
"""


def estimates(kernel: str) -> float:
    """Estimates a second of one kind of kernel, on one core."""
    return inside(ESTIMATES % {"kernel": kernel})["1/s"]


BUDGETS = (
    Budget("import roofline, CPU", "ms", 10, import_cpu),
    Budget("import roofline, heavy libraries loaded", "", 0, import_heavy, times=1),
    Budget("roofline bound … --json, cold, over the yardstick", "", 1.1, lambda: cold("bound", *MATMUL, "--json")),
    Budget("roofline bound …, cold, over the yardstick", "", 1.3, lambda: cold("bound", *MATMUL)),
    Budget("roofline llm …, cold, over the yardstick", "", 2, lambda: cold("llm", *SERVED)),
    Budget("roofline bound … --estimate, cold, the same", "", 3.3, lambda: cold("bound", *EXPECTED)),
    Budget("roofline llm … --estimate, cold, the same", "", 4.2, lambda: cold("llm", *SERVED, "--estimate")),
    Budget(
        "roofline solve … with symbols, cold", "ms", 1000,
        lambda: whole("solve", LINE, "--for", "B", "--on", "v5e"),
    ),
    Budget(
        "one matmul over a grid of 10 million, one core", "million/s", 20,
        lambda: inside(GRID)["million/s"], at_least=True, times=3,
    ),
    Budget("the same, peak memory", "MiB", 1024, lambda: inside(GRID)["MiB"], times=1),
    Budget(
        "one matmul over arrays of 10 million, one core", "million/s", 20,
        lambda: inside(ARRAYS)["million/s"], at_least=True, times=3,
    ),
    Budget(
        "the compiled matmul, over two formulas in numpy", "", 0.6,
        lambda: inside(MATMUL_BESIDE % {"kind": "compiled"})["ratio"], at_least=True, times=3,
    ),
    Budget(
        "an answer over arrays, over the same formulas", "", 0.45,
        lambda: inside(MATMUL_BESIDE % {"kind": "bound"})["ratio"], at_least=True, times=3,
    ),
    Budget("the first column of 10 million rows, cold", "s", 1.5, lambda: inside(FIRST)["s"], times=3),
    Budget("the same, peak memory", "MiB", 1024, lambda: inside(FIRST)["MiB"], times=1),
    Budget(
        "a decode step of 70B, over its own formula in numpy", "", 0.7,
        lambda: inside(STEPS_BESIDE)["ratio"], at_least=True, times=3,
    ),
    Budget(
        "the same, configurations", "million/s", 30,
        lambda: inside(STEPS_BESIDE)["million/s"], at_least=True, times=3,
    ),
    Budget("a million configurations of 70B on 8 chips, warm", "s", 0.5, lambda: inside(SEARCH)["s"], times=3),
    Budget(
        "numexpr, over the compiled matmul", "", 1,
        lambda: inside(NUMEXPR)["ratio"], at_least=True, times=3, needs="numexpr",
    ),
    *(
        Budget(
            f"expected times of {name.replace('_', ' ')}", "1/s", least, partial(estimates, name), True, times=3,
            needs="pytest",
        )
        for name, least in (("elementwise", 1e5), ("decode_attention", 1e5), ("contraction", 2e4))
    ),
    Budget("a plan for 70B over a million candidates, cold", "s", 5, lambda: inside(PLAN)["s"], times=3),
    Budget("the same, peak memory", "MiB", 1024, lambda: inside(PLAN)["MiB"], times=1),
    Budget("trace of Llama-2-7B's decode step in torch", "s", 1, lambda: inside(DECODE)["s"], times=3, needs="torch"),
    Budget("trace of its training step", "s", 5, lambda: inside(TRAIN)["s"], times=3, needs="torch"),
    Budget("the same under a roof, peak memory", "MiB", 2048, lambda: inside(TRAIN)["MiB"], times=1, needs="torch"),
)  # fmt: skip


def main() -> int:
    """Measure everything, or what is called by a word of the command line; return 1 when a budget is missed."""
    missed, words = 0, sys.argv[1:]
    import_cpu(), whole("--help")
    print(f"{'':52}{'budget':>16}{'median':>10}{'fastest':>10}{'slowest':>10}")
    for budget in BUDGETS:
        if words and not any(word in budget.name for word in words):
            continue
        if budget.needs and find_spec(budget.needs) is None:
            extra = f"pip install 'roofline[{'test' if budget.needs == 'pytest' else budget.needs}]'"
            print(f"{budget.name:52}  NOT MEASURED: {budget.needs} is not installed ({extra})")
            continue
        try:
            values = [budget.measure() for _ in range(budget.times)]
        except subprocess.CalledProcessError as error:
            missed += 1
            print(f"{budget.name:52}  FAILED: {error.stderr.strip().splitlines()[-1]}")
            continue
        middle = statistics.median(values)
        met = budget.met(middle)
        missed += not met
        sign = "≥" if budget.at_least else "≤"
        limit = f"{sign} {budget.limit:g} {budget.unit}"
        best, worst = (max(values), min(values)) if budget.at_least else (min(values), max(values))
        word = "PASS" if met else "OVER"
        print(f"{budget.name:52}{limit:>16}{middle:10.4g}{best:10.4g}{worst:10.4g}  {word}", flush=True)
    empty = statistics.median(bare_python() for _ in range(11))
    print(f"\nan empty Python program takes {empty:.3g} ms here; {missed or 'no'} budget{'s' * (missed != 1)} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
