"""The nearest that fits, where a model and its sequences do not: each a change that is enough by itself.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> found = nearest(load("llama-3-70b"), chip("h100"), batch=8, context=8191)
>>> found.said
('int4 weights', '2 such chips by memory, 2 that split it', 'one NVIDIA B200 SXM')
>>> nearest(load("llama-3-8b"), chip("h100"), batch=100, context=8191).said[0]
'batch 64 at this context'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline import dtypes
from roofline.hardware import chip
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.fewest_chips import footprint, plain_chip, room, split_ways
from roofline.models.fit import largest_batch, longest_context
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_model

#: Narrower formats to try, for weights and for keys and values.
FORMATS = ("fp8", "int4")


@dataclass(frozen=True, slots=True)
class Nearest:
    """What would fit, each alone; None or empty where nothing of the kind does.

    ``batch`` at this context, ``context`` at this batch; ``formats`` are arguments of a step; ``chips`` hold it by
    memory alone and ``split`` when each has its share of heads and columns; ``chip`` is the name of another that does,
    the one with the least room of those that have enough, of the same maker where it has one; there are ``have`` of it.
    """

    batch: int | None
    context: int | None
    formats: tuple[tuple[str, str], ...]
    chips: int | None
    split: int | None
    chip: str | None
    have: int = 1

    @property
    def said(self) -> tuple[str, ...]:
        """One phrase for each."""
        return tuple(self._phrases())

    def _phrases(self) -> Iterator[str]:
        if self.batch:
            yield f"batch {self.batch:,} at this context"
        elif self.context:
            yield f"a context of {self.context:,} at this batch"
        words = {"weights": "weights", "kv": "keys and values"}
        yield from (f"{name} {words[part]}" for part, name in self.formats)
        if self.chips is not None:
            yield f"{self.chips} such chips by memory" + (f", {self.split} that split it" if self.split else "")
        if self.chip is not None:
            yield f"one {self.chip}" if self.have == 1 else f"{self.have} x {self.chip}"


def nearest(
    model: Model | str,
    machine: Machine | str,
    *,
    batch: int,
    context: int,
    ways: Parallelism | None = None,
    **options: Any,
) -> Nearest:
    """Find what fits in place of ``batch`` sequences with ``context`` tokens in the cache, laid out as ``ways`` says.

    ``options`` are those of :func:`roofline.models.decode`.
    """
    model, machine = load(model), chip(machine)
    ways = ways or Parallelism.on(machine)
    local, capacity, tokens = local_model(model, machine, ways)[0], room(machine), context + 1
    most = largest_batch(local, capacity, context=context, **options)
    longest = None if most else longest_context(local, capacity, batch=batch, **options)
    formats = [
        (part, name)
        for part in ("weights", "kv")
        for name in FORMATS
        if _narrower(local, options, part, name)
        and float(footprint(local, batch, tokens, {**options, part: name}).total) <= capacity
    ]
    first = {part: (part, name) for part, name in reversed(formats)}
    alone = plain_chip(machine)
    whole = float(footprint(model, batch, tokens, options).total)
    split, _ = split_ways(model, alone, room(alone), batch, tokens, ways.expert > 1, options)
    return Nearest(
        most or None,
        longest or None,
        tuple(first[part] for part in ("weights", "kv") if part in first),
        -int(-whole // room(alone)),
        split,
        _roomier(machine, float(footprint(local, batch, tokens, options).total) / machine.pooled),
        ways.chips * machine.pooled,
    )


def _narrower(model: Model, options: Any, part: str, name: str) -> bool:
    """Whether a format has fewer bits than the one in use; a checkpoint's own section is not compared."""
    now = options.get(part) or ("" if part == "weights" and model.quantisation else model.dtype)
    return bool(now) and dtypes.get(name).bits < dtypes.get(now).bits


def _roomier(machine: Machine, needed: float) -> str | None:
    """Of the catalog's chips with memory of this kind, the one with the least room that is enough; its maker first."""
    from roofline.hardware import chips

    kind = data_level(machine).name
    found: Sequence[tuple[bool, float, str]] = [
        (other.vendor != machine.vendor, memory.capacity.value, other.name)
        for other in chips()
        if "announced" not in other.name
        for memory in other.memories
        if memory.name == kind and memory.capacity is not None and memory.capacity.value >= needed
    ]
    return min(found)[2] if found else None
