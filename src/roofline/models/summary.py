"""Models side by side: parameters, and the FLOPs, bytes and memory of one prefill on any chip.

>>> from roofline.models import load
>>> found = summary(load("llama-2-7b"), batch=1, prompt=1024)
>>> found.parameters, round(found.flops / 1e12, 2), found.kv_per_token
(6738415616, 13.54, 524288)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.answers import attributes
from roofline.bounds.conventions import taken_from
from roofline.bounds.footprint import Footprint
from roofline.bounds.traffic import POLICIES, traffic
from roofline.models.description import Model
from roofline.models.operations import prefill
from roofline.models.serving.step import needs
from roofline.quantity import format_count, format_number
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Row,
    Section,
    Table,
    assumes,
    caveats,
    figures,
    incomplete,
)
from roofline.sizes import Size
from roofline.statements import Gap, kind_of


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """One model's prefill of ``batch`` sequences of ``prompt`` tokens.

    ``flops`` are those of matrix products; ``bytes`` move under ``policy``; ``memory`` is needed at once;
    ``kv_per_token`` bytes are added by each token of a sequence while no attention window is full.
    """

    model: Model
    batch: Size
    prompt: Size
    policy: str
    parameters: int
    active: int
    flops: Size
    bytes: Size
    memory: Footprint
    kv_per_token: float

    @property
    def intensity(self) -> Size:
        """FLOPs a byte."""
        return self.flops / self.bytes

    def to_dict(self) -> dict[str, Any]:
        """The summary under stable keys, in SI units."""
        return {
            **attributes(self, "model", "batch", "prompt", "policy", "flops", "bytes", "intensity", "memory"),
            "kv_bytes_per_token": self.kv_per_token,
            "incomplete": list(self.model.gaps),
        }


def summary_sections(found: Sequence[Summary]) -> Iterator[Section]:
    """Models side by side, one a row."""
    first = found[0]
    some_active = any(each.active < each.parameters * 0.9 for each in found)
    # a model with a short context is asked for a prompt of its own length
    prompts = any(each.prompt != first.prompt for each in found)
    yield Headline(f"prefill of {first.batch} x {'prompt' if prompts else first.prompt} tokens")
    gaps = dict.fromkeys(
        Gap(kind_of(gap) or "field", f"{each.model.name}: {gap}") for each in found for gap in each.model.gaps
    )
    yield BLANK
    yield from caveats(gaps)
    names = ("parameters", *(["active"] if some_active else []), *(["prompt"] if prompts else []))
    columns = figures(*names, "FLOPs", "memory", "bytes\nmoved", "FLOP/B", "KV per\ntoken")
    rows = [Row(tuple(_row(each, some_active, prompts))) for each in found]
    yield Table((Column("model", wrap="anywhere"), *columns), rows, "models", indent=0)
    said = [
        "memory: weights, keys and values, activations"
        + ("; active: parameters one token uses" if some_active else ""),
        f"bytes moved: {POLICIES[first.policy].text}",
        *(f"{each.model.name}: {each.model.vision.parameters_sentence()}" for each in found if each.model.vision),
        *dict.fromkeys(f"{each.model.name}: {note}" for each in found for note in each.model.notes),
    ]
    yield from (BLANK, assumes(said), incomplete(gaps))


def _row(found: Summary, some_active: bool, prompts: bool) -> Iterator[Cell]:
    yield from (found.model.name, Amount(found.parameters, "", format_count(found.parameters)))
    if some_active:
        partly = found.active < found.parameters * 0.9
        yield Amount(found.active, "", format_count(found.active)) if partly else ""
    if prompts:
        yield Amount(found.prompt, "", f"{found.prompt:,}")
    yield from (Amount(found.flops, "FLOP"), Amount(found.memory.total, "B"), Amount(found.bytes, "B"))
    intensity = float(found.intensity)
    yield from (Amount(intensity, "FLOP/B", format_number(intensity)), Amount(found.kv_per_token, "B"))


def summary(model: Model, *, batch: Size = 1, prompt: Size = 1024, **options: Any) -> Summary:
    """Work one prefill out; ``options`` are those of :func:`roofline.models.prefill`."""
    conventions = taken_from(options, "minimal")
    ops = prefill(model, batch=batch, prompt=prompt, **options)
    moved = traffic(ops, conventions.policy, conventions.tile)
    flops = _total(op.work.total("flops", "matrix") * op.repeat for op in ops)
    loaded = _total(work.total("bytes") * op.repeat for op, work in zip(ops, moved, strict=True))
    stored = model.in_format(options.get("activations") or model.dtype)
    return Summary(
        model=model,
        batch=batch,
        prompt=prompt,
        policy=conventions.policy,
        parameters=model.parameters,
        active=model.active_parameters,
        flops=flops,
        bytes=loaded,
        memory=needs(stored, ops, prompt + options.get("past", 0), batch, options),
        kv_per_token=stored.kv_bytes_per_token(options.get("kv")),
    )


def _total(values: Any) -> Size:
    listed = list(values)
    return sum(listed[1:], listed[0])
