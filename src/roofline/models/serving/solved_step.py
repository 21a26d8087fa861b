"""The rate of a chip, or the size of a step, with which a step of serving takes a stated time at best.

>>> found = solve_step("llama-3-8b", "hbm", time=5e-3, on="h100", batch=8, context=4096)
>>> f"{found.value / 1e12:.4f} TB/s", found.bound_by
('3.8616 TB/s', 'hbm')
>>> solve_step("llama-3-8b", "batch", time="20ms", on="h100", context=4096).pick
96
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from roofline.bounds.api import ARGUMENTS, take_target_options, target
from roofline.bounds.bound import Bound
from roofline.bounds.question import refuse_known
from roofline.bounds.solve import TimeSolution, by_rates, by_whole_numbers, figure_of, named_rates, use_of
from roofline.errors import HardwareError, InputError, suggest
from roofline.frozen import dataclass, replace
from roofline.hardware import override
from roofline.hardware.machine import Machine
from roofline.hardware.rate import LEVEL_SYNONYMS
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.serving.bound import step_bound
from roofline.quantity import parse
from roofline.signatures import call, spelled
from roofline.sizes import check, is_array, is_symbol

#: The sizes of a step that may be solved for, and the tokens in the cache where none are said, as in ``llm``.
SIZES, CONTEXT = ("batch", "context", "prompt"), 4096


@dataclass(frozen=True, slots=True, eq=False)
class SolvedQuestion:
    """A step of a model on a machine: what :func:`roofline.models.serve_bound` is asked, with one unknown."""

    model: Model
    phase: str
    machine: Machine
    arguments: Mapping[str, Any]

    @property
    def expression(self) -> str:
        """The step, in words."""
        return f"{self.model.name} {self.phase}"

    def particular(self, assumptions: Sequence[str]) -> list[str]:
        """What is assumed: all of it."""
        return list(assumptions)

    def answer(self, **changed: Any) -> Bound:
        """The step, with other arguments."""
        return step_bound(self.model, self.phase, **{"on": self.machine, **self.arguments, **changed})


@dataclass(frozen=True, slots=True, eq=False)
class _Unknown:
    """A size of a step (``unit`` is empty), or a rate: ``figure`` is what an override calls it, ``now`` its value."""

    asked: SolvedQuestion
    name: str
    unit: str = ""
    figure: str = ""
    now: float = 1.0
    multiple: int = 1

    def at(self, value: float) -> Bound | None:
        """The step with the unknown at a number; None where that cannot be asked."""
        try:
            if not self.unit:
                return self.asked.answer(**{self.name: int(value)})
            return self.asked.answer(on=override(self.asked.machine, {self.figure: f"{value / self.now:.17g}x"}))
        except (InputError, HardwareError):
            return None

    def floor(self, value: float) -> float:
        """Seconds at best with the unknown at a number; without end where that cannot be asked."""
        found = self.at(value)
        return math.inf if found is None else float(found.lower)


def solve_step(model: Any, for_: str, *, time: float | str | None, on: Any = None, **arguments: Any) -> TimeSolution:
    """Find the least rate (``hbm``, ``bf16`` …), or the largest ``batch``, ``context`` or ``prompt``, within a time.

    The step is one of decoding, or a prefill where a ``prompt`` is given or asked; the rest is as in ``serve_bound``.
    """
    described = load(model)
    if time is None:
        if for_ in ("context", "prompt"):
            held = call("llm", described.name, on="h100", fit=True)
            says = f"{held} says the longest context that memory holds"
        else:
            says = f"{call('llm', described.name, on='h100')} says from which batch on a step is compute-bound"
        hint = f"give {spelled('time', '5ms')}; {says}"
        raise InputError("of a model solve finds what takes a stated time", hint=hint)
    sizes = arguments.pop("sizes", None) or {}
    every = {**arguments, **sizes}.items()
    given = {name: value for name, value in every if is_array(value) or value != ARGUMENTS.get(name, ())}
    refuse_known(for_, given)
    machine = target(on, **take_target_options(given))
    phase = "prefill" if "prompt" in (*given, for_) else "decode"
    given |= {name: check(name, given[name]) for name in SIZES if isinstance(given.get(name), str)}
    if phase == "decode":
        given.setdefault("context", CONTEXT)
    asked_of = SolvedQuestion(described, phase, machine, {n: value for n, value in given.items() if n != for_})
    is_size = for_ in SIZES
    here = asked_of.answer(**{for_: 1} if is_size else {})
    if not isinstance(here.bound_by, str) or is_array(here.lower) or is_symbol(here.lower):
        raise InputError("a time needs every other size of the step", hint="give each one value")
    said: dict[str, Any] = {
        "unknown": for_, "question": asked_of, "time": parse(time, "s"), "unit": "", "incomplete": here.incomplete,
        "assumptions": here.assumptions,
    }  # fmt: skip
    if is_size:
        return _with_assumptions(by_whole_numbers(_Unknown(asked_of, for_), said["time"], said))
    names = named_rates(machine)
    for_ = next((name for name in (for_, for_.lower(), LEVEL_SYNONYMS.get(for_.lower())) if name in names), for_)
    if for_ not in names:
        raise InputError(f"nothing here is called {for_!r}", hint=suggest(for_, [*SIZES, *names], what="unknowns"))
    use = use_of(here, for_, machine)
    unit, now = "FLOP/s" if use.quantity == "flops" else "B/s", float(use.rate.value)
    unknown = _Unknown(asked_of, for_, unit, figure_of(use), now)
    said |= {"unknown": for_, "unit": unit}
    value = now * float(here.times[use.resource]) / said["time"]
    if math.isclose(unknown.floor(value), said["time"], rel_tol=1e-9):
        return TimeSolution(**said, value=value, bound_by=use.resource, answer=unknown.at(value))
    return by_rates(unknown, said["time"], said)


def _with_assumptions(found: TimeSolution) -> TimeSolution:
    """What is assumed of the step that was found, in place of that of one token."""
    return found if found.answer is None else replace(found, assumptions=found.answer.assumptions)
