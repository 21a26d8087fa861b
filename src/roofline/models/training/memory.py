"""The memory that training takes before there is a layout: states of all parameters, and hidden states that are kept.

>>> found = training_memory(70e9, on="h100", gradients=None, master=None, set={"hbm.capacity": 80e9})
>>> found.total / 1e9, found.bytes_per_parameter, found.chips, found.slice.nodes
(700.0, 10.0, 9, 2)

The largest model whose states one chip holds, and a batch of 4M tokens of which each layer keeps four hidden states:

>>> training_memory(1e9, on="v5p", gradients=None, master=None, set={"hbm.capacity": 96e9}).largest
9600000000
>>> found = training_memory(70e9, tokens=4e6, width=8192, layers=80, checkpoint=4, gradients=None, master=None)
>>> round(found.total / 1e12, 2), round(found.parts["activations"] / 1e12, 2)
(21.67, 20.97)

A step of :func:`roofline.models.train` counts every activation and each chip's share; this counts what a first estimate
has. Source: "How To Scale Your Model", chapters 5, 6 and 12.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from roofline.answers import Answer, attributes, machine_asked
from roofline.bounds.api import target
from roofline.errors import InputError
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import Slice, smallest_slice
from roofline.hardware.overrides import describe_given
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.serving.layouts import memory_capacity, single_chip
from roofline.models.training.stage import Formats, kept_bytes
from roofline.quantity import format_amount, format_count, format_number
from roofline.sections import Section, word_pairs
from roofline.signatures import either, spelled, takes
from roofline.sizes import check, product


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingMemory(Answer):
    """What training holds in all.

    Attributes
        ``parts``     bytes of weights, gradients, optimizer and activations
        ``capacity``  bytes of one chip; None where none is asked about
        ``slice``     the least slice of as many chips as hold it
        ``on_chips``  chips that share all of it evenly, where their number is given
    """

    parameters: int
    parts: Mapping[str, float]
    machine: Machine | None = None
    capacity: float | None = None
    slice: Slice | None = None
    on_chips: int | None = None

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        return sum(self.parts.values())

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes of weights, gradients and optimizer for each parameter."""
        return (self.total - self.parts["activations"]) / self.parameters

    @property
    def ratio(self) -> float | None:
        """Chips by memory alone, not rounded."""
        return None if self.capacity is None else self.total / self.capacity

    @property
    def chips(self) -> int | None:
        """Chips by memory alone."""
        return None if self.ratio is None else max(1, math.ceil(self.ratio))

    @property
    def largest(self) -> int | None:
        """Parameters whose states one chip holds."""
        return None if self.capacity is None else int(self.capacity // self.bytes_per_parameter)

    @property
    def each(self) -> float | None:
        """Bytes of each of the chips that share all of it."""
        return None if self.on_chips is None else self.total / self.on_chips

    @property
    def by_zero_stage(self) -> tuple[float, ...] | None:
        """Bytes of each of those chips by ZeRO stage: 0 shares tokens, 1 optimizer states too, 2 gradients, 3 weights.

        >>> [round(size / 1e9) for size in training_memory(30e9, on="h100:8").by_zero_stage]
        [480, 165, 112, 60]
        """
        if self.on_chips is None:
            return None
        shared = ("activations", "optimizer", "gradients", "weights")
        ways = [dict.fromkeys(shared[: stage + 1], self.on_chips) for stage in range(len(shared))]
        return tuple(sum(size / over.get(part, 1) for part, size in self.parts.items()) for over in ways)

    @property
    def fits(self) -> bool | None:
        """Whether those chips hold it."""
        return None if self.each is None or self.capacity is None else self.each <= self.capacity

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units (schema ``roofline/training-memory/1``)."""
        names = ("parameters", "parts", "total", "bytes_per_parameter", "capacity", "ratio", "chips", "largest")
        return {
            "schema": "roofline/training-memory/1",
            **({} if self.machine is None else machine_asked(self.machine)),
            **attributes(self, *names, "on_chips", "each", "by_zero_stage", "fits"),
            "slice": None if self.slice is None else self.slice._asdict(),
        }

    def sections(self) -> tuple[Section, ...]:
        """All of it by part, the chips that hold it, and the largest model of one chip."""
        parts = ", ".join(f"{name} {format_amount(size, 'B')}" for name, size in self.parts.items() if size)
        all_of_it = format_amount(self.total, "B")
        lines = [("in all", f"{all_of_it}{'' if self.parts['activations'] else ' without activations'}: {parts}")]
        lines.append(("a parameter", f"{format_number(self.bytes_per_parameter)} bytes of states"))
        if self.capacity is not None and self.ratio is not None and self.machine is not None:
            many = f"{self.chips:,} hold{'s' * (self.chips == 1)} it"
            least = "" if self.slice is None or self.chips == 1 else f", the smallest target is {self.slice.target}"
            times = f"{all_of_it} are {format_number(self.ratio)} times the {format_amount(self.capacity, 'B')} of one"
            lines.append(("chips", f"{many}{least}: {times}"))
            lines.append(("one chip", f"holds the states of {format_count(self.largest or 0)} parameters"))
        if self.on_chips is not None and self.each is not None:
            fits = "" if self.fits is None else ", fits" if self.fits else ", does not fit"
            lines.append((f"on {self.on_chips:,}", f"{format_amount(self.each, 'B')} each{fits}"))
        if self.by_zero_stage is not None and self.on_chips != 1:
            sizes = [f"{stage}: {format_amount(size, 'B')}" for stage, size in enumerate(self.by_zero_stage)]
            lines.append(("by ZeRO stage", f"{', '.join(sizes)} each"))
        kept = "hidden states that are kept are all of the" if self.parts["activations"] else "no"
        given = [] if self.machine is None else describe_given(self.machine)
        lines.append(("assumes", "; ".join([f"{kept} activations; nothing is held twice", *given])))
        name = "" if self.machine is None else self.machine.name
        return word_pairs(f"training {format_count(self.parameters)} parameters", name, lines)

    @property
    def beside_others(self) -> str:
        """What lets it stand beside others: one model and machine at a time, or a step."""
        step = f"a step with {spelled('batch_tokens', '4M')}, which says the memory on each"
        return f"ask one model and machine at a time; or in place of {either('--memory', 'training_memory')} {step}"

    def one_line(self) -> str:
        """All of it, and chips."""
        chips = "" if self.chips is None or self.machine is None else f", {self.chips:,} x {self.machine.name}"
        return f"TrainingMemory of {format_count(self.parameters)} parameters: {format_amount(self.total, 'B')}{chips}"


@takes()
def training_memory(
    model: Model | str | float | os.PathLike[str] | Mapping[str, Any],
    *,
    tokens: float = 0,
    width: int | None = None,
    layers: int | None = None,
    checkpoint: str | int = "full",
    lora: int | None = None,
    weights: str = "bf16",
    gradients: str | None = "bf16",
    moments: str = "fp32",
    master: str | None = "fp32",
    optimizer: str = "adam",
    on: Any = None,
    chips: int | None = None,
    set: Mapping[str, Any] | None = None,
    files: Any = (),
) -> TrainingMemory:
    """Add up what training takes: states of every parameter, and ``tokens`` hidden states that layers keep.

    ``model`` is as in :func:`roofline.models.load`, or a number of parameters; then ``width`` and ``layers`` go with
    ``tokens``. ``checkpoint`` is how many hidden states a layer keeps, ``full`` one. ``on`` is a chip or a target with
    a shape, whose chips share it all; ``chips`` gives their number. With ``lora`` adapters of that rank are trained
    beside each matrix of a layer, and the weights are frozen in the format ``weights``:

    >>> found = training_memory("llama-3-70b", lora=16, weights="nf4", on="a100")
    >>> [f"{name} {size / 1e9:.2f}" for name, size in found.parts.items() if size], found.chips
    (['weights 43.12', 'gradients 0.41', 'optimizer 2.49'], 1)
    """
    described = None if isinstance(model, int | float) else load(model)
    count = check("parameters", model) if described is None else described.parameters
    given = width, layers
    if described is not None and described.width:  # a model in outline has none
        width, layers = width or described.width, layers or len(described.layers)
    if tokens:
        tokens = check("tokens", tokens)
    else:
        said = {"width": given[0] is not None, "layers": given[1] is not None, "checkpoint": checkpoint != "full"}
        idle = next((name for name, is_given in said.items() if is_given), None)
        if idle is not None:
            hint = "say how many tokens, or leave it out"
            raise InputError(f"{spelled(idle)} is of hidden states, and there are no tokens", hint=hint)
    formats = Formats(weights, gradients or "none", moments, master, optimizer)
    parts = formats.states(count) if lora is None else _of_adapters(described, lora, formats)
    if tokens and (width is None or layers is None):
        raise InputError("hidden states of tokens need a width and layers", hint="as in width=8192, layers=80")
    kept = kept_bytes(tokens, width or 0, layers or 0, checkpoint=checkpoint) if tokens else 0
    machine = None if on is None else target(on, set=set, files=files)
    if chips is not None and not (isinstance(chips, int) and chips > 0):
        raise InputError(f"chips is {chips!r}", hint="a whole number above 0")
    parts["activations"] = kept
    if machine is None:
        return TrainingMemory(int(count), parts, on_chips=chips)
    shaped = product(machine.shape) * machine.slices if machine.shape else None
    one = single_chip(machine)
    capacity = memory_capacity(one)
    needed = max(1, math.ceil(sum(parts.values()) / capacity))
    return TrainingMemory(int(count), parts, one, capacity, smallest_slice(one, needed), chips or shaped)


def _of_adapters(model: Model | None, rank: int, formats: Formats) -> dict[str, Any]:
    """Bytes of frozen weights, and of adapters in bf16 with their gradients and optimizer states."""
    if model is None or not model.width:
        raise InputError(f"{spelled('lora')} is of matrices", hint="name a model, as in llama-3-8b")
    refuse_encoder(model, "training")
    count = adapter_parameters(model, check("lora", rank))
    parts = replace(formats, weights="bf16").states(count)
    return {**parts, "weights": parts["weights"] + model.weight_bytes(formats.weights)}


def adapter_parameters(model: Model, rank: Any) -> Any:
    """Parameters of adapters of a rank beside each matrix of a layer: rank·(in + out); experts have none.

    >>> adapter_parameters(load("llama-3-8b"), 16)
    41943040
    """
    matrices = (each for each in model.layer_weights() if each.weight.kind == "linear")
    return sum(len(each.layers) * rank * sum(each.weight.shape[-2:]) for each in matrices)
