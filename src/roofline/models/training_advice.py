"""What would make a training step faster, or let it fit, and by how much: each line is a step asked afresh.

>>> from roofline.models.training import train
>>> found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=4 * 10**6, tensor=8, checkpoint="full", sequence=2048)
>>> for line in advise(found)[:3]:
...     print(line)
checkpoint none, tensor 4: 1.32 s → 904 ms, 1.46x, then compute-bound
checkpoint matmuls, tensor 4: 1.32 s → 910 ms, 1.45x, then compute-bound
checkpoint selective, tensor 4: 1.32 s → 910 ms, 1.45x, then compute-bound
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roofline import dtypes
from roofline.bounds.proposals import OTHER_CHIPS, Proposal, Standing, helpful
from roofline.hardware.rate import choose_unit
from roofline.models.parallelism.stages import SCHEDULES
from roofline.models.training_answer import Training
from roofline.models.training_limits import again
from roofline.models.training_operations import POLICIES
from roofline.quantity import format_quantity
from roofline.sizes import is_array, is_symbol, maximum, product


@dataclass(frozen=True, slots=True, eq=False)
class TrainingAdvice:
    """A change, the arguments of :func:`roofline.models.train` that make it, and the step after it.

    ``gain`` is how many times as many tokens are trained on in the same time, on as many chips.
    """

    change: str
    arguments: dict[str, Any]
    before: Training
    after: Training

    @property
    def gain(self) -> float:
        """Tokens of a chip and second, after over before."""
        old, new = self.before, self.after
        return float((new.batch_tokens / new.time / new.chips) / (old.batch_tokens / old.time / old.chips))

    @property
    def fits(self) -> bool:
        """Whether it makes a step fit that did not."""
        return self.before.memory.fits is False and self.after.memory.fits is True

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data in SI units."""
        return {
            "change": self.change, "gain": self.gain, "time_before": self.before.time, "time_after": self.after.time,
            "bound_by_after": self.after.bound.bound_by, "memory_after": self.after.memory.total,
            "fits_after": self.after.memory.fits,
        }  # fmt: skip

    def __str__(self) -> str:
        old, new = (format_quantity(float(each.time), "s") for each in (self.before, self.after))
        kind = self.after.bound.kind
        then = f"then {kind}" if kind != self.before.bound.kind else f"still {kind}"
        memory = f", {format_quantity(float(self.after.memory.total), 'B')} a chip: fits" if self.fits else ""
        return f"{self.change}: {old} → {new}, {self.gain:.3g}x, {then}{memory}"


def advise(found: Training) -> tuple[TrainingAdvice, ...]:
    """Try what might help: those that do, what makes the step fit first, then by gain; nothing of arrays and symbols.

    A change that no longer fits is left out where the step fits now. A measured time takes no part: it is of this step.
    """
    if is_array(found.lower) or is_symbol(found.lower):
        return ()
    found = replace(found, measured=None)
    return tuple(
        TrainingAdvice(kept.proposal.change, kept.proposal.question.changes, found, kept.after)
        for kept in helpful(_proposals(found), found, _standing)
        if isinstance(kept.proposal.question, ChangedStep)
    )


@dataclass(frozen=True, slots=True, eq=False)
class ChangedStep:
    """A training step asked anew with something changed."""

    found: Training
    changes: dict[str, Any]

    def answer(self) -> Training:
        """Work the changed step out; a number of microbatches that was not given follows the change."""
        return again(self.found, **{"microbatches": self.found.asked["microbatches"], **self.changes})


def _proposals(found: Training) -> Iterator[Proposal[Training]]:
    for change, changes in _ideas(found):
        yield Proposal(change, "", ChangedStep(found, changes))


def _standing(found: Training) -> Standing:
    """A step is compared by its time for a token and chip, which is never below its floor."""
    time = maximum(found.time, found.lower) * found.chips / found.batch_tokens
    memory = float(found.memory.total)
    return Standing(float(time), found.memory.fits, len(found.bound.incomplete), found.bound.kind, memory)


def _formats(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """Narrower formats that the chip computes in: 16 bits for what is wider, and fp8 with gradients as they were."""
    own = found.model.dtype
    taken = {name: choose_unit(found.bound.machine, "matrix", name) for name in ("bf16", "fp16", "fp8")}
    native = [name for name, choice in taken.items() if choice is not None and choice.dtype == name]
    narrower = [name for name in native if dtypes.get(name).bits < dtypes.get(own).bits]
    yield from ((name, {"weights": name}) for name in narrower[:1] if name != "fp8")
    if "fp8" in native:
        yield "fp8", {"weights": "fp8", "gradients": found.asked["gradients"] or own}


def _ideas(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    asked, ways = found.asked, found.ways
    yield f"{2 * found.batch_tokens:,} tokens a step", {"batch_tokens": 2 * found.batch_tokens}
    if asked["weights"] is None:
        yield from _formats(found)
    policies = [name for name in POLICIES if name != found.checkpoint]
    narrow = int(ways["tensor"]) // 2 if ways["tensor"] % 2 == 0 else 0
    shapes: list[tuple[str, dict[str, Any]]] = []
    if narrow:
        shapes.append((f"tensor {narrow}", {"tensor": narrow, "fsdp": int(ways["fsdp"]) * 2}))
    if ways["fsdp"] % 2 == 0:
        wide = 2 * int(ways["tensor"])
        shapes.append((f"tensor {wide}", {"tensor": wide, "fsdp": int(ways["fsdp"]) // 2}))
    yield from shapes
    for name in policies:
        yield f"checkpoint {name}", {"checkpoint": name}
        for text, arguments in shapes:
            yield f"checkpoint {name}, {text}", {"checkpoint": name, **arguments}
    for zero in range(4):
        if zero != asked["zero"] and ways["fsdp"] > 1:
            yield f"ZeRO stage {zero}", {"zero": zero}
    yield from _pipelines(found)
    if asked.get("overlap") is not None and asked["overlap"] < 1:
        yield "complete overlap", {"overlap": 1.0}
    yield from _chips(found)


def _pipelines(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    stages = int(found.ways["pipeline"])
    if stages == 1:
        return
    for name, each in SCHEDULES.items():
        if name != found.schedule:
            yield f"schedule {name}", {"schedule": name, "chunks": 2 if each.splits else 1}
    yield f"{2 * found.microbatches:,} microbatches", {"microbatches": 2 * found.microbatches}
    yield "no pipeline", {"pipeline": 1, "schedule": "1f1b", "chunks": 1, "fsdp": int(found.ways["fsdp"]) * stages}


def _chips(found: Training) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other chips, as many of them; those of a torus in the same shape."""
    from roofline.hardware import chip
    from roofline.hardware.network import links_inside_out

    machine = found.bound.machine
    if machine.given:
        return
    slices = f":{machine.slices}" if machine.slices > 1 else ""
    for name in OTHER_CHIPS:
        if name == machine.key:
            continue
        links = links_inside_out(chip(name))
        torus = bool(links) and links[0].topology == "torus"
        shape = "x".join(map(str, machine.shape)) if torus else str(product(machine.shape))
        on = f"{name}:{shape}{slices}" if machine.shape else name
        yield f"{name} chips", {"on": on, "power": None}


__all__ = ["TrainingAdvice", "advise"]
