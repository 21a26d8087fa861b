"""roofline: how fast can this run here at best, what limits it, what would move the limit?

Every command has a function of its name here, and an answer can ``.table()``, ``.plot()``, ``.explain()``,
``.compare(other)``, ``.save(path)``, ``.to_dict()`` and ``.to_pandas()`` itself; bounds also ``.advise()`` and
``.formula()``.

>>> import roofline
>>> answer = roofline.bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
>>> answer.kind, answer.bound_by
('memory-bound', 'hbm')
>>> roofline.solve("bf16[B, D] * int8[D, F] -> bf16[B, F]", "B", on="v5e", D=8192, F=8192).pick
128

Time on a resource = amount of work for it ÷ its rate; the lower bound is the largest time, the upper bound their
sum. Everything public is listed in ``__all__``; importing the package loads nothing heavy.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, without the ten milliseconds that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from roofline.bounds.advise import Advice, advise
    from roofline.bounds.api import bound, question
    from roofline.bounds.bound import Bound
    from roofline.bounds.chip_list import chips
    from roofline.bounds.communication import Communication, comm
    from roofline.bounds.comparison import SideBySide, compare
    from roofline.bounds.evaluate import evaluate
    from roofline.bounds.ridges import Zones, rules_of_thumb, zones
    from roofline.bounds.scaling import Scaling, scaling
    from roofline.bounds.shard import ShardPlans, TensorLayout, layout, shard
    from roofline.bounds.solve import Solution, solve, solve_dtypes, solve_equal
    from roofline.bounds.sweep import Sweep
    from roofline.charts.chart import Chart
    from roofline.charts.plot import plot
    from roofline.errors import RooflineError
    from roofline.estimates import estimated
    from roofline.estimates.accuracy import accuracy
    from roofline.estimates.served import calibrate
    from roofline.hardware import Machine, chip
    from roofline.measurement import (
        MeasuredPoints,
        Measurement,
        measure,
        points_of,
        profile,
        read_profile,
        run,
        write_machine_file,
    )
    from roofline.models.closed_form import formula
    from roofline.models.config import model
    from roofline.models.description import Model
    from roofline.models.serving.answer import Serving
    from roofline.models.serving.llm import llm
    from roofline.models.sweeps import sweep
    from roofline.models.training.answer import Training
    from roofline.models.training.question import train
    from roofline.notation import parse, program
    from roofline.ops.rules import build
    from roofline.plans.answer import DeploymentPlan, plan
    from roofline.programs.api import trace
    from roofline.programs.traced import Traced
    from roofline.work import Key, Op, Tensor, Work

_WHERE = {
    "roofline.bounds.advise": ("Advice", "advise"),
    "roofline.bounds.api": ("bound", "question"),
    "roofline.bounds.bound": ("Bound",),
    "roofline.bounds.evaluate": ("evaluate",),
    "roofline.bounds.chip_list": ("chips",),
    "roofline.bounds.communication": ("Communication", "comm"),
    "roofline.bounds.comparison": ("SideBySide", "compare"),
    "roofline.bounds.ridges": ("Zones", "rules_of_thumb", "zones"),
    "roofline.bounds.scaling": ("Scaling", "scaling"),
    "roofline.bounds.shard": ("ShardPlans", "TensorLayout", "layout", "shard"),
    "roofline.bounds.solve": ("Solution", "solve", "solve_dtypes", "solve_equal"),
    "roofline.bounds.sweep": ("Sweep",),
    "roofline.charts.chart": ("Chart",),
    "roofline.charts.plot": ("plot",),
    "roofline.errors": ("RooflineError",),
    "roofline.estimates": ("accuracy", "calibrate", "estimated"),
    "roofline.hardware": ("Machine", "chip"),
    "roofline.measurement": (
        "MeasuredPoints",
        "Measurement",
        "measure",
        "points_of",
        "profile",
        "read_profile",
        "run",
        "write_machine_file",
    ),
    "roofline.models.closed_form": ("formula",),
    "roofline.models.config": ("model",),
    "roofline.models.description": ("Model",),
    "roofline.models.serving.answer": ("Serving",),
    "roofline.models.serving.llm": ("llm",),
    "roofline.models.sweeps": ("sweep",),
    "roofline.models.training.answer": ("Training",),
    "roofline.models.training.question": ("train",),
    "roofline.notation": ("parse", "program"),
    "roofline.ops.rules": ("build",),
    "roofline.plans.answer": ("DeploymentPlan", "plan"),
    "roofline.programs.api": ("trace",),
    "roofline.programs.traced": ("Traced",),
    "roofline.work": ("Key", "Op", "Tensor", "Work"),
}
#: The rooms of the house that can be reached without an import of their own, as in ``roofline.models.load``.
_ROOMS = (
    "bounds", "charts", "dtypes", "errors", "estimates", "formulas", "hardware", "measurement", "models", "notation",
    "ops", "plans", "programs", "quantity", "sizes", "work",
)  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__version__ = "0.1.0"

__all__ = [
    "Advice", "Bound", "Chart", "Communication", "DeploymentPlan", "Key", "Machine", "MeasuredPoints", "Measurement",
    "Model", "Op", "RooflineError", "Scaling", "Serving", "ShardPlans", "SideBySide", "Solution", "Sweep", "Tensor",
    "TensorLayout", "Traced", "Training", "Work", "Zones", "accuracy", "advise", "bound", "build", "calibrate", "chip",
    "chips", "comm", "compare", "estimated", "evaluate", "formula", "layout", "llm", "measure", "model", "parse",
    "plan", "plot", "points_of", "profile", "program", "question", "read_profile", "rules_of_thumb", "run", "scaling",
    "shard", "solve", "solve_dtypes", "solve_equal", "sweep", "trace", "train", "write_machine_file", "zones",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return import_module(f"roofline.{name}")
    meant = ""
    if not name.startswith("_"):
        in_models = name in import_module("roofline.models").__all__
        alike = [each for each in __all__ if each[0].isupper() == name[0].isupper()]
        meant = f"models.{name}" if in_models else import_module("roofline.meanings").function_meant(name, alike)
    said = f"module 'roofline' has no attribute {name!r}"
    if meant:  # of obj=None Python adds no guess of its own
        raise AttributeError(f"{said}; did you mean roofline.{meant}?", obj=None)
    raise AttributeError(said)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})
