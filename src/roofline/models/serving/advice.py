"""What would move a step of serving, and by how much: each line is a question asked afresh, ranked by gain.

>>> found = advise_step("llama-3-70b", "decode", on="h200:8", tensor=8, batch=8, context=8192)
>>> [(a.change, round(a.gain, 2)) for a in found][:3]
[('batch 367', 6.55), ('int4 weights', 2.78), ('twice the hbm bandwidth', 2.0)]
>>> again = serve_bound(found[1].model, "decode", **found[1].arguments)
>>> again.lower == found[1].after.lower
True

``gain`` is how much faster the same number of tokens is made; what changes nothing, or no longer fits where it did, is
not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from roofline import dtypes
from roofline.answers import Answer, attributes
from roofline.bounds.advice_engine import (
    OTHER_CHIPS,
    BeforeAndAfter,
    Proposal,
    changed_words,
    helpful,
    peaks_that_bind,
    standing_of,
)
from roofline.bounds.bound import Bound
from roofline.errors import InputError, RooflineError
from roofline.frozen import dataclass, replace
from roofline.hardware import chip
from roofline.hardware.machine import TORUS_DIMENSIONS, Machine
from roofline.hardware.rate import figure_value, find_level
from roofline.hardware.targets import in_number
from roofline.models.blocks.attention import Attention
from roofline.models.blocks.residual import ParallelBranches
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.parallelism.layout import CHIPS, pool
from roofline.models.serving.bound import StepQuestion, full_from, numbers_to_try, serve_bound
from roofline.quantity import format_amount, format_change, format_percent, format_times
from roofline.sections import BLANK, Amount, Column, Headline, Row, Section, Table, paragraph
from roofline.signatures import listed_names, spelled, takes
from roofline.sizes import check, sums_by_name

#: Narrower formats worth trying for weights and for keys and values, by the bits they have now.
NARROWER = {32: ("bf16", "fp8", "int4"), 16: ("fp8", "int4"), 8: ("int4",)}
NARROWER_KV = {32: ("bf16", "fp8"), 16: ("fp8",), 8: ("int4",)}


#: The part of the bytes that weights in wider formats make at the least, where they are changed with keys and values.
LEAST_SHARE = 0.05

#: Changes of a phase that are shown, and other chips.
MOST_CHANGES, MOST_CHIPS = 9, 3


@dataclass(frozen=True, slots=True, eq=False)
class StepAdvice(BeforeAndAfter):
    """A change that moves the step: ``gain`` times as fast for the same tokens, on ``chips`` times as many chips.

    ``more`` is how many times as many tokens the changed step makes (2 for a batch twice as large). ``before`` and
    ``after`` are whole answers, which print as a page each: their seconds are ``time_before`` and ``time_after``.
    ``after`` is what :func:`roofline.models.serve_bound` gives for ``model``, the phase and ``arguments``; ``options``
    are the arguments that changed, where plain words say them and the model is the same; ``trained_anew`` says that it
    is another model.
    """

    change: str
    reason: str
    phase: str
    model: Model
    arguments: Mapping[str, Any]
    before: Bound
    after: Bound
    gain: float
    more: float
    chips: float
    options: Mapping[str, Any] | None = None
    trained_anew: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The line as plain data in SI units."""
        return {
            **attributes(self, "phase", "change", "reason", "gain"),
            "more_tokens": self.more,
            "more_chips": self.chips,
            "lower_before": self.before.lower,
            "lower_after": self.after.lower,
            "bound_by_after": self.after.bound_by,
            "options": None if self.options is None else dict(self.options),
        }


#: Sizes of a step, which may be said in words.
_SIZES = ("batch", "prompt", "past", "context", "tokens", "chunk", "prompts", *CHIPS)


@takes(serve_bound)
def advise_step(
    model: Model | str, phase: str, *, chips: Sequence[str] = OTHER_CHIPS, **arguments: Any
) -> tuple[StepAdvice, ...]:
    """Try what may help a step of ``phase``; return what does: a format that the chip's matrix unit has first, another
    model and then other chips last, the rest by gain.

    ``arguments`` are those of :func:`roofline.models.serve_bound`, plain numbers; ``chips`` names others to compare
    with, where the step runs on one chip or on chips named by their number alone.
    """
    described = load(model)
    arguments |= {name: check(name, arguments[name]) for name in _SIZES if isinstance(arguments.get(name), str)}
    before = serve_bound(described, phase, **arguments)
    if not isinstance(before.bound_by, str):
        raise InputError("advice needs plain numbers", hint="give every size one value")
    asked = StepQuestion(described, phase, arguments)
    here, trained = (
        [proposal for adviser in advisers for proposal in adviser(asked, before)]
        for advisers in (ADVISERS, OF_ANOTHER_MODEL)
    )
    several = (_native_arithmetic(asked, before), here, trained, _others(asked, chips))
    kept = (helpful(each, before, standing_of) for each in several)
    found = []
    for each in chain.from_iterable(kept):
        change, changed = each.proposal, each.proposal.question
        assert isinstance(changed, StepQuestion)
        options = changed_words(arguments, changed.arguments) if changed.model is described else None
        found.append(StepAdvice(
            change.change, each.reason, phase, changed.model, changed.arguments, before, each.after, each.gain,
            change.more, change.chips, options, any(each.proposal is one for one in trained),
        ))  # fmt: skip
    return tuple(found)


class ChangeList(tuple[Any, ...], Answer):
    """Changes that help a step of serving or training: a tuple that is an answer too."""

    __slots__ = ()

    def one_line(self) -> str:
        """How many there are."""
        return f"{len(self)} changes that help"

    def to_dict(self) -> dict[str, Any]:
        """The lines as plain data."""
        return {"advice": [line.to_dict() for line in self]}


class StepAdviceList(ChangeList):
    """Advice about the phases of a step, those of each phase in order of gain."""

    __slots__ = ()

    def sections(self) -> Iterator[Section]:
        """Of each phase what to change, the gain, and why."""
        phases = dict.fromkeys(line.phase for line in self)
        if not phases:
            yield from advice_sections(())
        for phase in phases:
            yield from advice_sections([line for line in self if line.phase == phase])


def advise(found: Any, *, chips: Sequence[str] = OTHER_CHIPS) -> StepAdviceList:
    """What :meth:`roofline.models.serving.answer.Serving.advise` gives: advice about each phase of an answer."""
    lines = [
        line for phase in found.phases for line in advise_step(found.model, phase, chips=chips, **found.asked_of(phase))
    ]
    return StepAdviceList(lines)


def narrower_cache(found: Any) -> str:
    """What the cache in the next format gives, where weights were given one and it moves more bytes than they do."""
    step = found.decode
    if not found.asked.get("weights") or found.asked.get("kv") or not isinstance(step.bound_by, str):
        return ""
    share, now = _share(step, "kv"), _widest(step, "kv")
    if now <= dtypes.get(found.asked["weights"]).bits or share <= _share(step, "weight"):
        return ""
    asked = StepQuestion(found.model, "decode", found.asked_of("decode"))
    kept = helpful(list(_kv(asked, step))[:1], step, standing_of)
    if not kept:
        return ""
    name = kept[0].proposal.question.arguments["kv"]  # type: ignore[attr-defined]
    after = f"{format_amount(kept[0].after.lower, 's')} with {spelled('kv', name)}"
    return f"keys and values stay in {now} bits, {format_percent(share)} of the bytes: {after}"


def advice_sections(found: Sequence[StepAdvice]) -> tuple[Section, ...]:
    """What to change in a phase, the gain, and why; then other chips: of both those that gain most."""
    if not found:
        return paragraph("faster", ["nothing that was tried helps"])
    here = found[0].before.machine.key
    changes, chips = ([each for each in found if (each.after.machine.key == here) is same] for same in (True, False))
    trained = [each for each in changes if each.trained_anew]
    changes = [each for each in changes if not each.trained_anew][: MOST_CHANGES - len(trained)]
    lines = (*changes, *trained, *chips[:MOST_CHIPS])
    rows = [(each.change, each.gain, each.before.lower, each.after.lower, each.reason) for each in lines]
    head = Headline("faster", f"{found[0].phase}, for the same tokens", level=2)
    return BLANK, head, changes_table(rows)


def changes_table(lines: Iterable[tuple[str, float, float, float, str]]) -> Table:
    """A row for each change of a step: what, how many times as fast, seconds before and after, why."""
    figured = (Column("faster", "right", meaning="gain"), Column("at best", "right", meaning="step"))
    columns = (Column("change", wrap="words"), *figured, Column("why", wrap="words"))
    rows = []
    for change, gain, before, after, reason in lines:
        step = Amount(after, "s", format_change(before, after, "s"))
        rows.append(Row((change, Amount(gain, "", format_times(gain)), step, reason)))
    return Table(columns, rows, "advice", indent=4, gap=4)


def _of_bytes(before: Bound, *roles: str, above: str = "") -> str:
    """The part that tensors of these roles make of all bytes, in words: of the host's where its link binds.

    It is that of those in formats of more bits than ``above``, where one is named.
    """
    host = find_level(before.machine, "host")
    over = host is not None and before.bound_by == host.name and host.name in before.bytes
    share = sum(_share(before, role, before.bound_by if over else None, above) for role in roles)
    return f"{format_percent(share)} of the bytes{' from the host' * over}"


def _narrowed(before: Bound, subject: str, *roles: str, above: str) -> str:
    """The part of all bytes that these roles make; where some are as narrow as ``above``, that of the wider ones."""
    every, wider = _of_bytes(before, *roles), _of_bytes(before, *roles, above=above)
    return f"{subject} are {every}" if wider == every else f"those in more bits are {wider}"


def _share(before: Bound, role: str, host: str | None = None, above: str = "") -> float:
    """The part of the bytes that tensors of one role make, by what operations read of them; of ``host`` its alone.

    Of tensors in formats of more bits than ``above`` alone, where one is named.
    """
    least = dtypes.get(above).bits if above else 0
    total = float(sum(before.bytes.values()) if host is None else before.bytes[host])
    loaded: dict[tuple[int, str], float] = {}
    chunk = 0  # one of a prompt on a stage loads again what the one before it did
    for part in before.ops:
        chunk += (part.op.where, part.op.name) == (before.ops[0].op.where, before.ops[0].op.name)
        for tensor in part.op.reads:
            is_there = host is None or tensor.level == "host"
            if tensor.role == role and is_there and dtypes.get(tensor.dtype).bits > least:
                loaded[chunk, tensor.ident] = float(tensor.traffic_bytes) * float(part.op.repeat)
    return min(1.0, sum(loaded.values()) / total) if total else 0.0


def _widest(before: Bound, role: str) -> int:
    """Bits of the widest matrix or cached tensor of a role."""
    bits = [
        dtypes.get(tensor.dtype).bits
        for part in before.ops
        for tensor in part.op.reads
        if tensor.role == role and len(tensor.dims) > 1 and part.op.kind in ("contraction", "attention")
    ]
    return max(bits, default=0)


def _with(
    asked: StepQuestion, change: str, reason: str, *, more: float = 1.0, chips: float = 1.0, **new: Any
) -> Proposal[Bound]:
    return Proposal(change, reason, asked.vary(**new), more, chips)


def _weights(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Store the matrices in fewer bits; the arithmetic stays what it is."""
    for name in NARROWER.get(_widest(before, "weight"), ()):
        reason = _narrowed(before, "weights", "weight", above=name)
        yield _with(asked, f"{name} weights", reason, **_stored(asked, before, name))


def _stored(asked: StepQuestion, before: Bound, name: str) -> dict[str, Any]:
    """Options that store weights in a narrower format; where their products would change theirs, it is said too."""
    now, beside = _arithmetic(before), dtypes.get(asked.arguments.get("activations") or asked.model.dtype)
    own = asked.model.quantisation is not None and asked.model.quantisation.has(name)
    stays = now is None or (beside.arithmetic == now and beside.bits > dtypes.get(name).bits and not own)
    return {"weights": name} if stays or asked.arguments.get("compute") else {"weights": name, "compute": str(now)}


def _kv(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Store keys and values in fewer bits, alone and together with the matrices."""
    stored = NARROWER.get(_widest(before, "weight"), ())
    for name in NARROWER_KV.get(_widest(before, "kv"), ()):
        computes, wide = before.kind == "compute-bound", _share(before, "weight", above=name)
        why = f"attention multiplies in {name}" if computes else _narrowed(before, "they", "kv", above=name)
        yield _with(asked, f"{name} keys and values", why, kv=name)
        is_full = before.footprint is not None and before.footprint.fits is False
        if name in stored and (is_full or (wide > LEAST_SHARE and not computes)):
            reason = f"together {_narrowed(before, 'they', 'kv', 'weight', above=name)}"
            yield _with(asked, f"{name} weights, keys and values", reason, kv=name, **_stored(asked, before, name))


def _narrow_arithmetic(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Multiply in a narrower format with a higher peak, where arithmetic binds."""
    if before.kind != "compute-bound":
        return
    known = {name for unit in before.machine.units for name in unit.peaks}
    bits = dtypes.get(_arithmetic(before) or "bf16").bits
    for name, stored in (("fp8", "fp8"), ("int8", "int8"), ("fp4", "nvfp4")):
        if name in known and dtypes.get(stored).bits < bits:
            formats: dict[str, Any] = {"weights": stored, "activations": "bf16", "compute": stored}
            yield _with(asked, f"{name} arithmetic", "a higher peak", **formats)


def _native_arithmetic(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Another format of 16 bits, where the chip has no matrix unit for the one that activations are in."""
    now = dtypes.get(asked.arguments.get("activations") or asked.model.dtype).arithmetic
    stored = [word for word in ("weights", "kv", "compute") if asked.arguments.get(word) == now]
    for name in native_formats(before.machine, now):
        reason = f"the chip has no matrix unit for {now}"
        changed: dict[str, Any] = dict.fromkeys(("activations", *stored), name)
        yield _with(asked, f"{name} in place of {now}", reason, **changed)


def native_formats(machine: Machine, now: str) -> list[str]:
    """The formats of 16 bits that a chip's matrix unit has, where it has not the one of 16 bits that runs now.

    >>> native_formats(chip("v5e"), "fp16"), native_formats(chip("v100"), "bf16"), native_formats(chip("h100"), "fp16")
    (['bf16'], ['fp16'], [])
    """
    peaks = {name for unit in machine.units if unit.kind == "matrix" for name in unit.peaks}
    if now in peaks or now not in ("fp16", "bf16"):
        return []
    return [name for name in ("bf16", "fp16") if name in peaks]


def _arithmetic(before: Bound) -> str | None:
    """The format that most of the matrix arithmetic is in."""
    products = (part.op for part in before.ops if part.op.kind == "contraction")
    amounts = ((key, float(amount) * float(op.repeat)) for op in products for key, amount in op.work.items())
    flops = sums_by_name((key.dtype, n) for key, n in amounts if (key.quantity, key.place) == ("flops", "matrix"))
    return max(flops, key=lambda name: flops[name], default=None)


def _batch(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """More sequences at once: the weights serve them all."""
    now, needed = asked.arguments.get("batch", 1), before.footprint
    if asked.phase == "mixed" or needed is None:
        return
    yield _with(asked, f"batch {now * 2}", "twice the tokens a step", more=2, batch=now * 2)
    most = full_from(needed, asked.model, now, asked.ways(before.machine).data, (before,))
    if most is not None and most > 2 * now:
        yield _with(asked, f"batch {most}", "about as many as fit", more=most / now, batch=most)


def _on_the_chip(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Weights, or keys and values, in the chip's memory in place of the host's."""
    reason = "the chip's own memory is faster than the host's link"
    moved = asked.model.with_layers(lambda layer: replace(layer, memory="main"))
    if moved.layers != asked.model.layers:
        yield Proposal("all weights in the chip's memory", reason, replace(asked, model=moved))
    if asked.model.kv_memory == "host":
        kept = replace(asked.model, kv_memory="main")
        yield Proposal("keys and values in the chip's memory", reason, replace(asked, model=kept))


def _fewer_layers(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Half the layers, for half of everything."""
    count = len(asked.model.layers)
    if count >= 2:
        # every second of each kind: kinds may alternate
        kinds = {layer: number for number, layer in enumerate(dict.fromkeys(asked.model.layers))}
        order = sorted(range(count), key=lambda number: (kinds[asked.model.layers[number]], number))
        model = replace(asked.model, layers=tuple(asked.model.layers[number] for number in sorted(order[::2])))
        shared = any(layer.shared for layer, _ in asked.model.layer_counts())
        reason = f"distilled: half the arithmetic{', not the shared weights' if shared else ' and the bytes'}"
        yield Proposal(f"{len(model.layers)} layers in place of {count}", reason, replace(asked, model=model))


def _less_to_see(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """A shorter context; a prompt of which half is cached already."""
    if asked.phase in ("decode", "mixed"):
        context = asked.arguments["context"]
        if context >= 2:
            reason = f"keys and values are {_of_bytes(before, 'kv')}"
            yield _with(asked, f"a context of {context // 2}", reason, context=context // 2)
    if asked.phase == "prefill" and not asked.arguments.get("past") and asked.arguments["prompt"] >= 2:
        half = asked.arguments["prompt"] // 2
        rest = asked.arguments["prompt"] - half
        yield _with(asked, "half of the prompt cached", "a shared prefix is not run again", prompt=rest, past=half)


def _counted(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Undo what costs more than it must: masked pairs, logits nobody needs, scores and intermediates in memory."""
    if asked.arguments.get("count") == "full":
        yield _with(asked, "skip masked pairs", "about half of attention's arithmetic", count="causal")
    if asked.arguments.get("logits") == "all":
        yield _with(asked, "logits of the last token alone", "the head runs for one token", logits="last")
    if asked.arguments.get("unfused"):
        yield _with(asked, "fused attention", "scores stay on the chip", unfused=False)
    if asked.arguments.get("policy") == "each-op":
        yield _with(asked, "fuse elementwise operations", "their operands stay on the chip", policy="fused")


def _fewer_heads(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Let more query heads share keys and values."""
    ways = asked.arguments.get("tensor", 1)

    def halved(block: Any) -> Any:
        if isinstance(block, ParallelBranches):
            return replace(block, branches=tuple(tuple(map(halved, branch)) for branch in block.branches))
        fits = isinstance(block, Attention) and block.kv_heads % 2 == 0 and block.kv_heads // 2 >= ways
        return replace(block, kv_heads=block.kv_heads // 2) if fits else block

    model = asked.model.with_blocks(halved)
    if model.layers != asked.model.layers:
        reason = "fewer keys and values; it has to be trained so"
        yield Proposal("half the heads of keys and values", reason, replace(asked, model=model))


def _machine(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Twice the figure that binds, whatever it is: of a unit each peak that is used."""
    given = dict(asked.arguments.get("set") or {})
    moving = [use for use in before.uses if use.resource == before.bound_by and use.quantity == "bytes"]
    for use in [*peaks_that_bind(before), *moving[:1]]:
        if use.rate.figure is None:
            continue
        is_peak = use.quantity == "flops"
        figure = f"{use.resource}.{use.dtype}" if is_peak else use.resource
        change = f"twice the {f'{use.dtype} peak' if is_peak else f'{use.resource} bandwidth'}"
        twice = {**given, figure: figure_value(before.machine, use.rate) * 2}
        yield _with(asked, change, f"a {'higher' if is_peak else 'steeper'} roof", set=twice)


def _ways(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Split the model over twice the chips: those of another copy, or twice as many."""
    ways = asked.ways(before.machine)
    if ways.pipeline * ways.context > 1:
        return
    more: dict[str, Any] = {"tensor": ways.tensor * 2}
    if ways.copies > 1 and ways.data == ways.copies and "data" not in asked.arguments:
        yield _with(asked, f"tensor {ways.tensor * 2}", f"{ways.copies // 2} copies in place of {ways.copies}", **more)
    if ways.expert > 1:
        more["expert"] = ways.expert * 2
    on = in_number(asked.arguments["on"], ways.chips * 2, asked.arguments.get("files", ()))
    if on is not None:
        change = f"tensor {ways.tensor * 2}, {ways.chips * 2} chips"
        yield _with(asked, change, "half the work for each", chips=2.0, on=on, **more)


def _dealt_out(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """Keys and values dealt out by sequence, where chips that split the heads hold the same ones."""
    ways = asked.ways(before.machine)
    heads = [getattr(block, "kv_heads", 1) for block in asked.model.layer_blocks if block.keeps == "keys"]
    shared = ways.tensor // min(heads, default=ways.tensor)
    if asked.phase == "decode" and shared > 1 and ways.kv == 1:
        reason = f"{shared} chips hold the same keys and values"
        yield _with(asked, f"kv parallel {shared}", reason, kv_parallel=shared)


def _micro_batches(asked: StepQuestion, before: Bound) -> Iterator[Proposal[Bound]]:
    """The number of micro-batches, or of chunks of a prompt, with which stages are done first, where one is given."""
    stages = asked.ways(before.machine).pipeline
    if stages == 1 or "microbatches" not in asked.arguments:
        return
    times: dict[int, float] = {}
    for number in numbers_to_try(stages):
        with suppress(RooflineError):
            times[number] = float(asked.vary(microbatches=number).answer().lower)
    best = min(times, key=lambda number: times[number], default=stages)
    reason = "stages read their weights fewer times" if best < stages else "stages wait less for each other"
    yield _with(asked, f"{best} micro-batch{'es' * (best > 1)}", reason, microbatches=best)


def _others(asked: StepQuestion, names: Sequence[str]) -> Iterator[Proposal[Bound]]:
    """The same on another chip, on as many of them, or on a pool of as many."""
    machine = asked.machine
    if asked.arguments.get("set"):
        return
    for name in listed_names(names):
        other = chip(name)
        if name != machine.key and other.links and not (machine.shape and other.links[0].topology in TORUS_DIMENSIONS):
            alike = f"{name}:{machine.chips}" if machine.shape else name
            on = pool(other, machine.pooled) if machine.pooled > 1 else alike
            yield _with(asked, other.name, "another chip", on=on)


Adviser = Callable[[StepQuestion, Bound], Iterator[Proposal[Bound]]]

#: What to try behind a format that the chip's matrix unit has.
ADVISERS: tuple[Adviser, ...] = (
    _weights, _kv, _narrow_arithmetic, _batch, _less_to_see, _counted, _machine, _ways, _dealt_out, _micro_batches,
    _on_the_chip,
)  # fmt: skip

#: Those whose changes make another model, to be trained anew.
OF_ANOTHER_MODEL: tuple[Adviser, ...] = (_fewer_heads, _fewer_layers)
