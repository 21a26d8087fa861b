"""One forward pass of a model as operations: prefill and decode.

Layers that are equal, storage included, become one group with ``repeat``; each operation's ``where`` says which layers
it stands for (``layers.0-31.self_attn.q_proj``).

>>> from roofline.models import load
>>> ops = decode(load("llama-2-7b"), batch=8, context=1024, activations="bf16")
>>> sum(op.work.total("flops", "matrix") * op.repeat for op in ops)
110012399616
>>> next(op for op in ops if op.where.endswith("up_proj")).where
'layers.0-31.mlp.up_proj'

Of the operations of a step an answer shows a table of the longest, and says which run beside the matrix unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import Parameter, signature
from typing import Any

from roofline import dtypes
from roofline.bounds.bound import Bound, OpBound, amount_cells, amount_columns, module_of, sends_anything, share_of
from roofline.bounds.memory import most_at_once, moved_tensors
from roofline.errors import InputError, RooflineError, SizeError
from roofline.frozen import NamedTuple, replace
from roofline.hardware.rate import rate
from roofline.meanings import unknown_argument
from roofline.models.blocks.encoder import PoolPatches
from roofline.models.config import load
from roofline.models.description import WHOLE_BATCH, ImageSize, Layer, Model, layer_ranges, numbers_in
from roofline.models.operation_builder import ForwardPass, OperationBuilder, StorageOf
from roofline.models.weights import Weight
from roofline.ops.basic import embedding
from roofline.quantity import format_amount, format_percent
from roofline.sections import Amount, Column, Row, Table
from roofline.signatures import spelled, takes
from roofline.sizes import Size, check, is_array, is_symbol, is_zero, minimum, sums_by_name
from roofline.work import Key, Op, Tensor, with_tensors


@takes()
def prefill(
    model: Model | str,
    *,
    batch: Size = 1,
    prompt: Size,
    past: Size = 0,
    logits: str = "last",
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    count: str = "causal",
    unfused: bool = False,
    absorbed: bool = False,
    skew: Sequence[float] | None = None,
    images: Size = 0,
    image_size: tuple[int, int] | None = None,
) -> tuple[Op, ...]:
    """Run ``prompt`` new tokens of each of ``batch`` sequences through the model.

    >>> from roofline.models import load
    >>> ops = prefill(load("llama-2-7b"), batch=8, prompt=1024)
    >>> sum(op.work.total("flops", "matrix") * op.repeat for op in ops)
    108306139971584

    Parameters
        ``past``         tokens of each sequence that are in the cache already (a cached prefix, an earlier chunk)
        ``logits``       ``last``: output for the last token of each sequence; ``all``: for every new one; ``none``
        ``weights``      format of all matrices but routers and the head, from 16 bits on (bf16) of all weights; by
                         default that of the configuration
        ``activations``  format of activations, by default the model's own; ``kv`` of keys and values
        ``compute``      arithmetic of matrix products, where the operands' wider one is not meant
        ``count``        ``causal``: S(S+1)/2 pairs; ``full``: every pair, as most counters do
        ``unfused``      attention writes its scores and probabilities to memory
        ``absorbed``     latent attention works on the latents; by default keys and values are made from them (on a
                         machine, :func:`roofline.models.serve_bound` takes the faster of the two unless told)
        ``skew``         share of the routed tokens each expert gets; by default all the same
        ``images``       images in each prompt, of ``image_size`` (height, width) pixels; their tokens are part of it

    Sizes may be numbers, arrays or symbols.
    """
    model = load(model)
    if not model.causal and not is_zero(past):
        wrong = f"{model.name} keeps no keys and values: its tokens see later ones"
        raise InputError(wrong, hint=f"leave {spelled('past')} out")
    _check_skew(model, skew)
    wanted = {"last": 1, "all": prompt, "none": 0}.get(logits)
    if wanted is None:
        raise InputError(f"logits {logits!r} is not understood", hint="'last', 'all' or 'none'")
    step = _step(model, batch, ("prompt", prompt), ("past", past), activations, kv, count, unfused, absorbed, skew)
    # the chips that share a sequence each run a part of its prompt
    step = replace(step, wanted=None if logits == "all" else wanted, ring=step.context > 1)
    ops = forward_pass(model, step, weights, compute)
    if is_zero(images) or not model.embeds:
        return ops
    before, given = image_operations(model, step, images, image_size)
    gather, *rest = ops
    return (*before, replace(gather, reads=(*gather.reads, *given)), *rest)


def check_decodes(model: Model, hint: str) -> None:
    """Refuse a model whose tokens see later ones: it has no decode step."""
    if not model.causal:
        kind = "a denoiser" if model.head else "an encoder"
        raise InputError(f"{model.name} is {kind}, which does not decode", hint=hint)


@takes(prefill, but=("prompt", "past", "logits", "images", "image_size"))
def decode(
    model: Model | str, *, batch: Size = 1, context: Size, tokens: Size = 1, weights: str | None = None,
    compute: str | None = None, absorbed: bool = True, **options: Any,
) -> tuple[Op, ...]:  # fmt: skip
    """One step of ``batch`` sequences with ``context`` tokens in the cache each: ``tokens`` new ones, one by default.

    The new token attends to the cache and to itself, context + 1 keys. Latent attention is absorbed unless told
    otherwise; output is made for every new token. The rest is as in :func:`prefill`.
    """
    model = load(model)
    check_decodes(model, "ask for prefill")
    _check_skew(model, options.get("skew"))
    step = _step(model, batch, ("tokens", tokens), ("context", context), absorbed=absorbed, **options)
    return forward_pass(model, replace(step, wanted=None, decoding=True), weights, compute)


def _check_skew(model: Model, skew: Sequence[float] | None) -> None:
    """Refuse a skew of a whole model without experts; a stage of a pipeline may have none where others do."""
    if skew is not None and model.sparsity is None and model.embeds and model.head:
        raise InputError(f"{model.name} has no experts that tokens could prefer", hint="leave skew out")


def stepped(
    model: Model, *, batch: Size, new: Size, past: Size = 0, wanted: Size = 1, together: Size | None = None,
    sequences: Size | None = None, weights: str | None = None, compute: str | None = None, **options: Any,
) -> tuple[Op, ...]:  # fmt: skip
    """``new`` tokens of each of ``batch`` sequences that one chip has, of which ``wanted`` give output.

    ``together`` are the tokens of all copies that share experts, where there are more than one. ``sequences`` is how
    many these are in truth, where they are taken as one. ``options`` are those that prefill and decode share.
    """
    alone = replace(model, context=None, share=WHOLE_BATCH)
    step = _step(alone, batch, ("new", new), ("past", past), **options)
    group = batch if together is None else together / new
    step = _adapted(replace(step, wanted=wanted, group=group), alone, sequences)
    return forward_pass(model, step, weights, compute)


def forward_pass(
    model: Model, step: ForwardPass, weights: str | None = None, compute: str | None = None
) -> tuple[Op, ...]:
    """Operations of one step through the whole model."""
    model = model.in_format(step.activations)
    if compute is not None:
        step = replace(step, asked_compute=dtypes.arithmetic_name(compute))
    storage_of = model.storages(weights, compute)
    stream = Tensor("embedding", (step.tokens, model.receives or model.width), step.activations)
    # a later stage of a pipeline has the hidden state from the one before
    received = Op("receive", "copy", writes=(stream,), where="receive")
    ops: list[Op] = [_gather(model, step, storage_of(""), stream) if model.embeds else received]
    # output needs only the wanted tokens, and so do the blocks after the last layer
    ends = step if step.wanted is None else replace(step, new=step.wanted, ring=False)
    output = step.wanted is None or not is_zero(step.wanted)
    kept: dict[str, list[Tensor]] = {}
    for where, count, layer, at, of in (
        ("", 1, Layer(model.before), step, storage_of("")),
        *(
            (label, len(numbers), layer, step, storage_of(f"layers.{numbers[0]}"))
            for label, numbers, layer in model.layer_groups(weights, compute)
        ),
        ("", 1, Layer(model.stage_end), step, storage_of("")),
        *((("", 1, Layer((*model.after, *model.final)), ends, storage_of("")),) if output else ()),
    ):
        if at is ends and ends is not step:
            stream = replace(stream, dims=(ends.batch * ends.new, *stream.dims[1:]))
        builder = OperationBuilder(at, of, where, count, stream, kept, layer.memory, layer.shared_as)
        for block in layer.blocks:
            builder.enter(block.name, block.weights(), type(block).__name__)
            stream = block.run(builder, stream)
        ops += builder.ops
    if model.head and output:
        ops.append(_head(model, ends, storage_of(""), stream))
    if model.kv_memory != "main":
        host = model.kv_memory
        ops = [with_tensors(op, lambda t: replace(t, level=host) if t.role in ("kv", "state") else t) for op in ops]
    return tuple(ops if output else [_without_result(op, stream) for op in ops])


def _without_result(op: Op, stream: Tensor) -> Op:
    """The operation with nothing given back of ``stream``: a chunk of a prompt leaves keys and values alone behind."""
    if all(tensor.ident != stream.ident for tensor in op.writes):
        return op
    return replace(op, writes=tuple(replace(t, given=0) if t.ident == stream.ident else t for t in op.writes))


def check_options(options: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse an option that none of some functions takes by name."""
    every_parameter = [each for taker in takers for each in signature(taker).parameters.values()]
    names = [each.name for each in every_parameter if each.kind is Parameter.KEYWORD_ONLY]
    every = dict.fromkeys((*names, *also))
    for name in options:
        if name not in every:
            raise unknown_argument(name, every)


def _gather(model: Model, step: ForwardPass, of: StorageOf, out: Tensor) -> Op:
    """Look up the new tokens: only their rows of the table move, of a part of it an even share of them."""
    whole = Weight(model.embedding_name, (model.vocabulary, model.width), "embedding")
    table = Tensor(f"{whole.name}.weight", whole.shape, of(whole.name, whole).dtype, "weight")
    tokens = Tensor("tokens", (step.own, step.new), "int32", "index")
    found = embedding(model.embedding_name, (table, tokens), (out,), parts=model.splits)
    return replace(found, where=model.embedding_name)


def _head(model: Model, step: ForwardPass, of: StorageOf, x: Tensor) -> Op:
    """Logits for the wanted tokens. A tied head streams the table once more: the gather read only a few rows."""
    builder = OperationBuilder(step, lambda _, weight: of(model.head_name, weight), "", 1, x)
    name = model.head_name.rpartition(".")[2]
    bias = (Weight(f"{name}.bias", (model.vocabulary,), "bias"),) if model.head_bias else ()
    builder.enter("", (Weight(name, (model.vocabulary, model.width), "head"), *bias))
    builder.linear(name, x)
    (op,) = builder.ops
    if not model.tied:
        return op
    same = {op.reads[1].ident: f"{model.embedding_name}.weight"}
    return replace(op, options={**op.options, "same": same})


def _step(
    model: Model, batch: Size, new: tuple[str, Size], past: tuple[str, Size], activations: str | None = None,
    kv: str | None = None, count: str = "causal", unfused: bool = False, absorbed: bool = False,
    skew: Sequence[float] | None = None,
) -> ForwardPass:  # fmt: skip
    if count not in ("causal", "full"):
        raise InputError(f"count {count!r} is not understood", hint="'causal' or 'full'")
    wide = dtypes.get(activations or model.dtype).name
    stored = model.quantisation.kv if model.quantisation else None
    group, own = model.share.turn(model.share.group(check("batch", batch)))
    step = ForwardPass(
        batch=own,
        new=check(*new),
        past=check(*past, least=0),
        activations=wide,
        kv=dtypes.get(kv or stored or wide).name,
        full=count == "full",
        absorbed=absorbed,
        unfused=unfused,
        skew=None if skew is None else tuple(skew),
        group=group,
        context=model.share.context,
        asked_kv=dtypes.get(kv).name if kv else "",
    )
    return _adapted(step, model)


def _adapted(step: ForwardPass, model: Model, sequences: Size | None = None) -> ForwardPass:
    """The step with the adapters that its ``sequences`` use, as many different ones as can be."""
    if model.adapters is None:
        return step
    used = minimum(model.adapters.number, step.batch if sequences is None else sequences)
    return replace(step, rank=model.adapters.rank, adapters=used, served=model.adapters)


def image_operations(
    model: Model, step: ForwardPass, images: Size, size: ImageSize | None = None
) -> tuple[tuple[Op, ...], list[Tensor]]:
    """Operations of ``images`` images in each sequence of ``step``, and the tensors that the language model reads."""
    vision = model.vision
    if vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    rows, columns = vision.grid(size)
    patches = rows * columns
    _check_room(model, step, check("images", images), vision.tokens(size))
    each = replace(step, batch=step.own * images, new=patches, past=0, wanted=None, context=1, ring=False)
    tower = _part(vision.tower, each, "vision_tower", "pixels")
    pooled = any(isinstance(block, PoolPatches) for block in vision.tower.after)
    rows_each = vision.tokens(size) if pooled else patches
    after = replace(each, new=rows_each, wanted=None)
    projector = _part(vision.projector, after, "projector", tower[-1].writes[0].ident)
    ops = (*tower, *projector)
    read = {tensor.ident for op in ops for tensor in op.reads}
    return ops, [tensor for op in ops for tensor in op.writes if tensor.ident not in read]


def _part(part: Model, step: ForwardPass, place: str, given: str) -> list[Op]:
    """Run a part, its operations and tensors named for it; ``given`` is the tensor it starts from."""

    def named(tensor: Tensor) -> Tensor:
        return replace(tensor, ident=given if tensor.ident == "embedding" else f"{place}.{tensor.ident}")

    _, *ops = forward_pass(part, step)
    return [with_tensors(op, named, where=f"{place}.{op.where}") for op in ops]


def _check_room(model: Model, step: ForwardPass, images: Size, tokens: int) -> None:
    if is_symbol(images) or is_symbol(step.new):
        return
    more = images * tokens > step.new
    if more.any() if is_array(more) else more:
        shown = "" if is_array(more) else f", and the prompt has {step.new:,} tokens"
        needed = "" if is_array(more) else f": {images * tokens:,} or more"
        wrong = f"images of {tokens:,} tokens each do not fit into the prompt of {model.name}{shown}"
        raise SizeError(wrong, hint=f"image tokens are part of the prompt{needed}")


def matrix_flops(ops: Iterable[Op]) -> Size:
    """FLOPs of the matrix products of all layers."""
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


def activation_bytes(ops: Sequence[Op]) -> Size:
    """The most bytes of intermediates alive at once while operations run in this order; the last one's result stays."""
    last = {tensor.ident: index for index, op in enumerate(ops) for tensor in (*op.writes, *op.reads)}
    lives: dict[str, tuple[Size, int, int]] = {}
    for index, op in enumerate(ops):
        for tensor in op.writes:
            if tensor.role == "activation":
                lives.setdefault(tensor.ident, (tensor.capacity_bytes, index, last[tensor.ident]))
    return most_at_once(list(lives.values()), len(ops)) if ops else 0


#: The share of the time below which a kind of module is not named.
LITTLE = 0.001

#: Operations that are shown, and kinds of module that a line names.
SHOWN, MODULES = 16, 4

#: The share of the time that the shortest operations take together and are not shown by name.
SHORTEST = 0.01


def longest_operations(step: Bound, phase: str = "") -> Table:
    """The operations that take longest, one a row, and their shares of the time that all take one after the other.

    The shortest, which together take a hundredth of it, are one row, and those that take the same in each of several
    groups of layers. A narrow terminal breaks names, not figures.
    """
    ordered = sorted(_groups_as_one(step.ops), key=lambda part: -float(part.lower))
    sends = sends_anything(ordered)
    times = [float(part.lower) for part in ordered]
    long = sum(sum(times[at:]) > SHORTEST * sum(times) for at in range(len(times)))
    few = min(SHOWN, long if len(times) - long > 1 else len(times))
    columns, shown, rest = amount_columns(sends), ordered[:few], ordered[few:]
    share, binds = Column("share", "right", spare=1), Column("bound by", wrap="words")
    named = (Column("operation", wrap="dots"), *columns, share, binds)
    whole = sum(part.lower for part in ordered)

    def rows(parts: Sequence[OpBound]) -> list[Row]:
        return [
            Row((part.op.where, *amount_cells(part, sends), share_of(part.lower, whole), str(part.bound_by or "")))
            for part in parts
        ]

    def every() -> list[Row]:
        return rows(sorted(step.ops, key=lambda part: -float(part.lower)))

    found = rows(shown)
    if rest:
        time, empty = sum(part.lower for part in rest), [""] * (len(columns) - 1)
        found.append(Row((f"{len(rest)} more", *empty, Amount(time, "s"), share_of(time, whole), "")))
    return Table(named, found, "operations", indent=4, every=every, phase=phase)


def _groups_as_one(parts: Iterable[OpBound]) -> Iterator[OpBound]:
    """Operations that take the same in each layer of several groups as one of them all."""
    found: dict[tuple[Any, ...], list[OpBound]] = {}
    for part in parts:
        prefix, _, numbers = part.op.group.rpartition(".")
        each = (f"{float(amount) / part.op.repeat:.9g}" for amount in (part.lower, part.flops, part.bytes, part.sent))
        inside, known = part.op.where.removeprefix(part.op.group), re.fullmatch(r"[\d,:-]+", numbers)
        same = (prefix, inside, str(part.bound_by), *each) if known else (id(part),)
        found.setdefault(same, []).append(part)
    for alike in found.values():
        if len(alike) == 1:
            yield alike[0]
            continue
        first, repeat = alike[0], sum(part.op.repeat for part in alike)
        more = repeat / first.op.repeat
        groups = [part.op.group.rpartition(".") for part in alike]
        name = f"{groups[0][0]}.{layer_ranges(sorted(n for *_, text in groups for n in numbers_in(text)))}"
        op = replace(first.op, where=name + first.op.where.removeprefix(first.op.group), repeat=repeat)
        uses = tuple(replace(use, amount=use.amount * more, time=use.time * more) for use in first.uses)
        yield replace(first, op=op, uses=uses, lower=first.lower * more, upper=first.upper * more)


def shares_of_modules(step: Bound) -> str:
    """What each kind of module takes of the time that operations take one after the other; collectives by themselves.

    >>> from roofline.models import serve_bound
    >>> shares_of_modules(serve_bound("mixtral-8x7b", "decode", on="h100:2", tensor=2, batch=8, context=4096))
    'block_sparse_moe 92%, self_attn 7.9%, lm_head 0.3%, communication 0.29% of the time'
    """
    times = sums_by_name((module_of(part.op), float(part.lower)) for part in step.ops)
    whole = sum(times.values())
    longest = sorted((name for name in times if times[name] > LITTLE * whole), key=lambda name: -times[name])[:MODULES]
    return ", ".join(f"{name} {format_percent(times[name] / whole)}" for name in longest) + " of the time"


#: What of a step's bytes tensors of a role are; of all others they are the rest.
_MOVED = {"weight": "weights", "kv": "kv", "state": "states"}


def moved_by_part(step: Bound) -> dict[str, Size]:
    """Bytes that one chip moves in a step: weights, keys and values, states, and the rest.

    >>> from roofline.models import serve_bound
    >>> moved_by_part(serve_bound("llama-3-8b", "decode", on="h100", batch=8, context=4096))
    {'weights': 15009914880, 'kv': 4296015872, 'states': 0, 'rest': 2052128}
    """
    ops = [part.op for part in step.ops]
    tensors = moved_tensors(ops, step.request.get("policy", "each-op"), step.request.get("tile"))
    pairs = ((role, size * op.repeat) for op, each in zip(ops, tensors, strict=True) for role, size in each)
    moved = sums_by_name((_MOVED[role], size) for role, size in pairs if role in _MOVED)
    found = dict.fromkeys(_MOVED.values(), 0) | moved
    return found | {"rest": step.total_bytes - sum(found.values())}


def share_of_experts(step: Bound) -> Size | None:
    """The share of its experts' weights that a chip reads in a step, where tokens choose among experts.

    >>> from roofline.models import serve_bound
    >>> share_of_experts(serve_bound("mixtral-8x7b", "decode", on="h200", batch=2, context=4096))
    0.4375
    """
    experts = [
        (tensor.touched * part.op.repeat, tensor.elements * part.op.repeat)
        for part in step.ops
        for tensor in part.op.reads
        if tensor.average and tensor.touched is not None
    ]
    read, held = (sum(each) for each in zip(*experts, strict=True)) if experts else (0, 0)
    return read / held if experts else None


def moved_in_words(step: Bound) -> str:
    """The bytes of :func:`moved_by_part`, and the share of experts that are read."""
    parts, share = moved_by_part(step), share_of_experts(step)
    total = format_amount(step.total_bytes, "B")
    names = {"kv": "keys and values"}
    said = [f"{names.get(name, name)} {format_amount(amount, 'B')}" for name, amount in parts.items() if amount]
    if share is not None:
        said[0] += f" ({100 * float(share):.4g}% of its experts)"
    return f"a chip moves {total}: {', '.join(said)}"


def network_resources(step: Bound) -> set[str]:
    """The resources of a step that pass bytes between chips."""
    return {use.resource for use in step.uses if use.quantity in ("wire", "hops")}


class OffMatrixUnit(NamedTuple):
    """Matrix products that run on another unit, or on none (None), as the matrix unit lacks their formats."""

    runs_on: str | None
    formats: str
    unit: str
    instead: str

    def in_words(self, option: str) -> str:
        """Where they run, why, and the option that takes them to the matrix unit."""
        where = "run on no unit" if self.runs_on is None else f"run on {self.runs_on}"
        taken = f"{self.unit} takes no {self.formats}; {spelled(option, self.instead)} would run on it"
        return f"matrix products {where}: {taken}"

    def faster(self, step: Bound, option: str, answer: Callable[[str], Size]) -> str:
        """The time at best with the format that the matrix unit has, for the end of a headline.

        Empty if it is no faster, or has no answer.
        """
        if self.runs_on is None:
            return ""
        try:
            before, after = step.lower, answer(self.instead)
        except RooflineError:
            return ""
        said = format_amount(after, "s")
        is_faster = after < before and said != format_amount(before, "s")
        return f"; {said} with {spelled(option, self.instead)}" if is_faster else ""


def off_matrix_unit(step: Bound) -> OffMatrixUnit | None:
    """Tell whether matrix products run on another unit than the matrix unit, and the format of 16 bits that it has.

    >>> from roofline.models import serve_bound
    >>> off_matrix_unit(serve_bound("llama-2-7b", "decode", on="v5e", context=64))
    OffMatrixUnit(runs_on='vpu', formats='fp16', unit='mxu', instead='bf16')
    """
    matrix = {unit.name for unit in step.machine.units if unit.kind == "matrix"}
    runs = {name: rate(step.machine, Key("flops", "matrix", name)) for name in ("bf16", "fp16")}
    usual = next(((name, found.resource) for name, found in runs.items() if found and found.resource in matrix), None)
    products = next((part for part in step.ops if part.op.kind == "contraction"), None)
    if usual is None or products is None:
        return None
    formats = {key.dtype for key, _ in products.op.work.items() if key.quantity == "flops" and key.place == "matrix"}
    found = {rate(step.machine, Key("flops", "matrix", name)) for name in formats} - {None}
    other = next((each.resource for each in found if each and each.resource not in matrix), None)
    if other is None and (found or not formats):
        return None
    return OffMatrixUnit(other, ", ".join(sorted(formats)), usual[1], usual[0])
