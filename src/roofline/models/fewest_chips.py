"""The fewest chips that hold a model and its sequences: by memory alone, as a slice one can have, and split for real.

>>> found = fewest("llama-3-70b", on="h100", batch=32, context=8192)
>>> found.chips, round(found.ratio, 2), found.slice.target, found.split, round(found.left / 1e9, 1)
(3, 2.67, 'h100:3', 4, 113.7)

Source of the method: "How To Scale Your Model", chapter 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline.bounds.footprint import Footprint
from roofline.bounds.shown import Shown
from roofline.errors import HardwareError, InputError, SizeError
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import Slice, smallest_slice, with_chips
from roofline.hardware.rate import data_level
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.fit import largest_batch
from roofline.models.generating import single
from roofline.models.operations import check_known, decode
from roofline.models.parallelism.splitting import local_model
from roofline.models.serving import needs

#: Ways to split a model that are tried.
MOST_WAYS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Fewest(Shown):
    """How many chips hold a model.

    Attributes
        ``needed``     bytes of all chips together, by part
        ``capacity``   bytes of one chip
        ``ratio``      ``needed`` over ``capacity``; ``chips`` is the next whole number
        ``slice``      the least slice, or whole nodes, of so many chips; None where no links are known
        ``left``       bytes of that slice (or of ``chips``) that weights leave
        ``sequences``  how many sequences of this context the slice holds beside the weights
        ``split``      the fewest chips that hold it when each has its share of heads and columns, or with experts over
                       all chips its own sequences; None: none of those tried can
        ``each``       what one of those chips needs, by part
    """

    model: Model
    machine: Machine
    needed: Footprint
    capacity: float
    slice: Slice | None
    sequences: int
    split: int | None
    each: Footprint | None

    @property
    def ratio(self) -> float:
        """Chips by memory alone, not rounded."""
        return float(self.needed.total) / self.capacity

    @property
    def chips(self) -> int:
        """Chips by memory alone."""
        return max(1, math.ceil(self.ratio))

    @property
    def have(self) -> int:
        """Chips of the slice."""
        return self.chips if self.slice is None else self.slice.chips

    @property
    def left(self) -> float:
        """Bytes of the slice that weights leave."""
        return self.have * self.capacity - float(self.needed.parts["weights"])

    def __repr__(self) -> str:
        return f"<Fewest for {self.model.name}: {self.chips} x {self.machine.name}, split {self.split}>"

    def __rich__(self) -> Any:
        from roofline.models.serving_show import fewest_lines, section

        return section("the fewest chips", fewest_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        return {
            "needed": self.needed.to_dict(),
            "capacity": self.capacity,
            "ratio": self.ratio,
            "chips": self.chips,
            "slice": None if self.slice is None else self.slice._asdict(),
            "left": self.left,
            "sequences": self.sequences,
            "split": self.split,
            "each": None if self.each is None else self.each.to_dict(),
        }


def fewest(
    model: Model | str, *, on: str | Machine, batch: int = 0, context: int = 0, expert: bool = False, **options: Any
) -> Fewest:
    """Find the fewest chips of a kind that hold a model with ``batch`` sequences of ``context`` tokens.

    With no batch only the weights count; a shape of the target is left out, as how many is what is asked.
    ``expert`` gives each chip whole experts where it splits. ``options`` are those of
    :func:`roofline.models.decode` and of the target.
    """
    from roofline.bounds.api import target

    described = load(model)
    batch, context = _or_none("batch", batch), _or_none("context", context)
    chosen = {name: options.pop(name) for name in ("set", "files", "unit", "over", "achievable") if name in options}
    check_known(options, decode)
    if batch and not context:
        raise InputError("a batch takes memory by its context", hint="give context=, the tokens each sequence comes to")
    machine = plain_chip(target(on, **chosen))
    capacity = room(machine)
    needed = footprint(described, batch, context, options)
    ratio = float(needed.total) / capacity
    least = smallest_slice(machine, max(1, math.ceil(ratio)))
    have = max(1, math.ceil(ratio)) if least is None else least.chips
    # the last of a sequence's tokens is the one a step makes
    sequences = largest_batch(described, have * capacity, context=context - 1, **options) if context else 0
    split, each = split_ways(described, machine, capacity, batch, context, expert, options)
    return Fewest(described, machine, needed, capacity, least, sequences, split, each)


def _or_none(name: str, value: Any) -> int:
    """A size of one number, or nothing."""
    return 0 if isinstance(value, int) and value == 0 else single(name, value)


def plain_chip(machine: Machine) -> Machine:
    """One chip of a target of several, or of a pool."""
    machine = machine.alone or machine
    return replace(machine, shape=(), slices=1, mesh=None) if machine.shape else machine


def room(machine: Machine) -> float:
    """Bytes of the level a model's data lies in; one that is not known is an error."""
    level = data_level(machine)
    if level.capacity is None:
        raise HardwareError(
            f"the capacity of {level.name} of {machine.name} is not known", hint=f"give it: {level.name}.capacity=80e9"
        )
    return level.capacity.value


def footprint(model: Model, batch: int, context: int, options: Mapping[str, Any]) -> Footprint:
    """Memory of a decode step in which each sequence comes to ``context`` tokens; of the weights alone, with no batch.

    The context includes the token that the step makes.
    """
    if not batch or not context:
        stored = model.in_format(options.get("activations") or model.dtype)
        return Footprint({"weights": stored.weight_bytes(options.get("weights")), "kv": 0, "activations": 0})
    past = context - 1
    return needs(model, decode(model, batch=batch, context=past, **options), context, batch, options)


def split_ways(
    model: Model,
    machine: Machine,
    capacity: float,
    batch: int,
    context: int,
    expert: bool,
    options: Mapping[str, Any],
) -> tuple[int | None, Footprint | None]:
    """The fewest chips whose shares fit, split by heads and columns or with experts spread over all of them.

    A number that divides nothing is passed over.
    """
    for ways in range(1, MOST_WAYS + 1):
        chips = with_chips(machine, ways)
        if chips is None:
            continue
        layouts: list[dict[str, Any]] = [{"tensor": ways, "expert": ways}, {"expert": ways}] if expert else []
        for layout in layouts or [{"tensor": ways}]:
            try:
                local, _ = local_model(model, chips, **layout)
            except SizeError:
                continue
            except InputError:
                return None, None
            each = footprint(local, batch, context, options)
            if float(each.total) <= capacity:
                return ways, each
    return None, None
