"""Models side by side: parameters, and the FLOPs, bytes and memory of one prefill on any chip.

>>> from roofline.models import load
>>> found = summary(load("llama-2-7b"), batch=1, prompt=1024)
>>> found.parameters, round(found.flops / 1e12, 2), found.kv_per_token
(6738415616, 13.54, 524288)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline import sections
from roofline.answers import attributes
from roofline.bounds.conventions import taken_from
from roofline.bounds.memory import BYTE_POLICIES, Footprint, traffic
from roofline.frozen import dataclass
from roofline.models.blocks.encoder import Encoder, source_said
from roofline.models.blocks.feed_forward import MixtureOfExperts, Mlp
from roofline.models.blocks.recurrent import ChannelMix
from roofline.models.description import Block, Model
from roofline.models.operations import matrix_flops, prefill
from roofline.models.serving.step import formats_in_words, needs
from roofline.quantity import format_amount, format_count, format_number
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Table, figures, incomplete
from roofline.sizes import Size, is_array, is_symbol, sums_by_name
from roofline.statements import Gap, kind_of
from roofline.work import Op

#: Tokens of a prompt where none is named.
USUAL_PROMPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """One model's prefill of ``batch`` sequences of ``prompt`` tokens.

    ``flops`` are those of matrix products; ``bytes`` move under ``policy``; ``memory`` is needed at once;
    ``kv_per_token`` bytes are added by each token of a sequence while no attention window is full,
    ``kv_per_late_token`` by one after all windows are; ``kv_of_context`` are those that a sequence of ``context``
    tokens keeps. ``flops_by_part`` are those of :func:`flops_by_part`; ``formats`` say how weights and the rest are
    stored.
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
    flops_by_part: Mapping[str, Size]
    context: int | None = None
    kv_of_context: float | None = None
    kv_per_late_token: float | None = None
    formats: str = ""

    @property
    def training_flops_by_part(self) -> dict[str, Size]:
        """FLOPs of a training step of as many tokens by part: forward, and twice as many backward.

        >>> from roofline.models import load
        >>> found = summary(load("llama-2-7b"), batch=4, prompt=4096, logits="all").training_flops_by_part
        >>> found["mlp"] == 18 * 4 * 4096 * 4096 * 11008 * 32
        True
        """
        return {part: 3 * flops for part, flops in self.flops_by_part.items()}

    @property
    def parts(self) -> dict[str, int]:
        """Parameters by part of the model."""
        return parameters_by_part(self.model)

    @property
    def parameters_without_norms(self) -> int:
        """Parameters of everything but the norms."""
        return self.parameters - self.parts.get("norms", 0)

    @property
    def intensity(self) -> Size:
        """FLOPs a byte."""
        return self.flops / self.bytes

    def to_dict(self) -> dict[str, Any]:
        """The summary under stable keys, in SI units."""
        return {
            **attributes(self, "model", "batch", "prompt", "policy", "flops", "bytes", "intensity", "memory"),
            "kv_bytes_per_token": self.kv_per_token,
            "kv_bytes_per_late_token": self.kv_per_late_token,
            "context": self.context,
            "kv_bytes_of_context": self.kv_of_context,
            "parameters_by_part": self.parts,
            **attributes(self, "flops_by_part", "training_flops_by_part", "parameters_without_norms"),
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
    yield from sections.caveats(gaps)
    names = ("parameters", *(["active"] if some_active else []), *(["prompt"] if prompts else []))
    columns = figures(*names, "FLOPs", "memory", "bytes\nmoved", "FLOP/B", "KV per\ntoken")
    if first.context is not None:
        columns += figures(f"KV of\n{first.context:,}")
    columns = tuple(column._replace(spare=column.name == "FLOP/B") for column in columns)
    rows = [Row(tuple(_row(each, some_active, prompts))) for each in found]
    yield Table((Column("model", wrap="anywhere"), *columns), rows, "models", indent=0)
    said = [
        "memory: weights, keys and values, activations"
        + ("; active: parameters one token uses" if some_active else ""),
        f"bytes moved: {BYTE_POLICIES[first.policy].text}",
        *_formats(found),
        *(f"{each.model.name}: {each.model.vision.parameters_sentence()}" for each in found if each.model.vision),
        *(f"{each.model.name}: {line}" for each in found for line in _late_tokens(each)),
        *(line for each in found for line in each.model.beyond_training(each.context or each.prompt)),
        *(f"{each.model.name}: {said}" for each in found if (said := source_said(each.model))),
        *dict.fromkeys(f"{each.model.name}: {note}" for each in found for note in each.model.notes),
    ]
    yield from (BLANK, sections.assumes(said), incomplete(gaps))


def _formats(found: Sequence[Summary]) -> Iterator[str]:
    """How weights, activations, keys and values are stored: once where all models agree."""
    if len({each.formats for each in found}) == 1:
        yield found[0].formats
    else:
        yield from (f"{each.model.name}: {each.formats}" for each in found)


def _late_tokens(found: Summary) -> Iterator[str]:
    """A word where later tokens add less than the first, whose bytes times a context would be too many."""
    late = found.kv_per_late_token
    if late is not None and late < found.kv_per_token * 0.999:
        adds = f"adds {format_amount(late, 'B')} of keys and values" if late else "adds no keys and values"
        yield f"a token {adds} once windows are full, fewer than its first ones do"


def model_card(model: Model) -> Iterator[Section]:
    """A model by itself: what its prefill needs, and its parameters by part."""
    found = summary(model, prompt=min(USUAL_PROMPT, model.context or USUAL_PROMPT))
    yield Headline(model.named, f"{model.family}, {len(model.layers)} layers, prefill of {found.prompt:,} tokens")
    yield from list(summary_sections([found]))[1:]
    yield from (BLANK, *part_sections([model]))


def part_sections(models: Sequence[Model]) -> Iterator[Section]:
    """Parameters by part, a model a column; with and without norms."""
    counts = [parameters_by_part(model) for model in models]
    parts = dict.fromkeys(part for each in counts for part in each)
    rows = [Row((part, *(_whole(each[part]) if part in each else "" for each in counts))) for part in parts]
    whole = [sum(each.values()) for each in counts]
    plain = [total - each.get("norms", 0) for total, each in zip(whole, counts, strict=True)]
    totals = {"total": whole, "without norms": plain}
    rows += [Row((name, *map(_whole, values))) for name, values in totals.items()]
    yield Table((Column("part"), *figures(*(model.name for model in models), wrap="anywhere")), rows, "parts", indent=0)


def _whole(count: int) -> Amount:
    return Amount(count, "", f"{count:,}")


def _row(found: Summary, some_active: bool, prompts: bool) -> Iterator[sections.Cell]:
    yield from (found.model.name, Amount(found.parameters, "", format_count(found.parameters)))
    if some_active:
        partly = found.active < found.parameters * 0.9
        yield Amount(found.active, "", format_count(found.active)) if partly else ""
    if prompts:
        yield Amount(found.prompt, "", f"{found.prompt:,}")
    yield from (Amount(found.flops, "FLOP"), Amount(found.memory.total, "B"), Amount(found.bytes, "B"))
    intensity = float(found.intensity)
    yield from (Amount(intensity, "FLOP/B", format_number(intensity)), Amount(found.kv_per_token, "B"))
    if found.kv_of_context is not None:
        yield Amount(found.kv_of_context, "B")


#: The part of a model that the matrices of a block belong to, where it is not what the block keeps of earlier tokens.
PARTS: dict[type[Block], str] = {Mlp: "mlp", ChannelMix: "mlp", MixtureOfExperts: "experts"}
KEEPING = {"keys": "attention", "state": "recurrent"}
#: Parts that the kind of a weight decides, whatever block it is of.
_KINDS = {"norm": "norms", "bias": "biases", "router": "routers", "embedding": "vocabulary", "head": "vocabulary"}


def parameters_by_part(model: Model) -> dict[str, int]:
    """Parameters by part of the model: attention, MLP or experts, vocabulary (embedding and head), norms and the rest.

    >>> from roofline.models import load
    >>> parts = parameters_by_part(load("llama-2-13b"))
    >>> parts["mlp"], parts["attention"], parts["vocabulary"], parts["norms"]
    (8493465600, 4194304000, 327680000, 414720)
    >>> sum(parts.values()) == load("llama-2-13b").parameters
    True
    """
    outside = (part for block in (*model.before, *model.after, *model.final) for part in _parts(block))
    whole = [(part, weight, 1) for part in outside for weight in part.weights()]
    whole += [(each.block, each.weight, len(each.layers)) for each in model.layer_weights()]
    counts = sums_by_name([
        *(("vocabulary", weight.elements) for weight in model.tables),
        *((_KINDS.get(weight.kind) or _part(block), times * weight.elements) for block, weight, times in whole),
    ])  # fmt: skip
    order = ("attention", "mlp", "experts", "recurrent", "routers", "vocabulary", "biases", "norms", "other")
    return {part: counts[part] for part in order if counts.get(part)}


def flops_by_part(model: Model, ops: Sequence[Op]) -> dict[str, Size]:
    """FLOPs of matrix products by part of the model: ``attention`` its projections, ``scores`` queries with keys.

    >>> from roofline.models import load
    >>> model = load("llama-2-7b")
    >>> parts = flops_by_part(model, prefill(model, prompt=4096, count="full", logits="all"))
    >>> parts["scores"] == 4 * 4096 * 4096 * 4096 * 32, parts["attention"] == 8 * 4096 * 4096 * 4096 * 32
    (True, True)
    """
    kinds = {type(part).__name__: part for block in model.blocks for part in _parts(block)}
    routers = {weight.name for block in kinds.values() for weight in block.weights() if weight.kind == "router"}

    def part_of(op: Op) -> str:
        if op.kind == "attention":
            return "scores"
        if not op.block:
            return "vocabulary"
        return "routers" if op.name in routers else _part(kinds[op.block])

    amounts = ((op, op.work.total("flops", "matrix") * op.repeat) for op in ops)
    return sums_by_name((part_of(op), n) for op, n in amounts if is_symbol(n) or is_array(n) or n)


def _parts(block: Block) -> tuple[Block, ...]:
    return block.blocks if isinstance(block, Encoder) else block.parts()


def _part(block: Block) -> str:
    return PARTS.get(type(block)) or KEEPING.get(block.keeps, "other")


def summary(
    model: Model, *, batch: Size = 1, prompt: Size = 1024, context: int | None = None, **options: Any
) -> Summary:
    """Work one prefill out; ``options`` are those of :func:`roofline.models.prefill`.

    ``context`` are tokens of a sequence whose keys and values are asked for: windows keep fewer than all of them.

    >>> from roofline.models import load
    >>> found = summary(load("gpt-oss-120b"), context=128_000)
    >>> found.kv_per_token, found.kv_per_late_token, round(found.kv_of_context / 1e9, 2)
    (73728, 36864.0, 4.72)
    """
    conventions = taken_from(options, "minimal")
    ops = prefill(model, batch=batch, prompt=prompt, **options)
    moved = traffic(ops, conventions.policy, conventions.tile)
    flops = matrix_flops(ops)
    loaded = sum(work.total("bytes") * op.repeat for op, work in zip(ops, moved, strict=True))
    stored, kv = model.in_format(options.get("activations") or model.dtype), options.get("kv")
    # a token adds less after some hundred thousand, when windows are full
    full = max(model.context or 0, 1 << 17)
    before, after = (float(stored.cache_bytes(tokens, dtype=kv)) for tokens in (full, 2 * full))
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
        kv_per_token=stored.kv_bytes_per_token(kv),
        flops_by_part=flops_by_part(model, ops),
        context=context,
        kv_of_context=None if context is None else float(stored.cache_bytes(context, dtype=kv)),
        kv_per_late_token=(after - before) / full,
        formats=formats_in_words(model, ops, options, any(op.kind == "attention" for op in ops)),
    )
