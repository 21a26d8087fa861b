"""One forward pass of a model as operations: prefill and decode.

Layers that are equal, storage included, become one group with ``repeat``; each operation's ``where`` says which layers
it stands for (``layers.0-31.self_attn.q_proj``).

>>> from roofline.models import load
>>> ops = decode(load("llama-2-7b"), batch=8, context=1024, activations="bf16")
>>> sum(op.work.total("flops", "matrix") * op.repeat for op in ops)
110012399616
>>> next(op for op in ops if op.where.endswith("up_proj")).where
'layers.0-31.mlp.up_proj'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, SizeError
from roofline.models.config import load
from roofline.models.description import WHOLE_BATCH, ImageSize, Model
from roofline.models.operation_builder import ForwardPass, OperationBuilder, StorageOf
from roofline.models.weights import Weight
from roofline.ops.basic import embedding
from roofline.signatures import takes, unknown_argument
from roofline.sizes import Size, array_of, check, is_array, is_symbol, is_zero, maximum, plain_numbers
from roofline.work import Op, Tensor


@plain_numbers
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
    _check_skew(model, skew)
    wanted = {"last": 1, "all": prompt, "none": 0}.get(logits)
    if wanted is None:
        raise InputError(f"logits {logits!r} is not understood", hint="'last', 'all' or 'none'")
    step = _step(model, batch, ("prompt", prompt), ("past", past), activations, kv, count, unfused, absorbed, skew)
    # the chips that share a sequence each run a part of its prompt
    step = replace(step, wanted=step.new if logits == "all" else wanted, ring=step.context > 1)
    ops = forward_pass(model, step, weights, compute)
    if is_zero(images) or not model.embeds:
        return ops
    before, given = image_operations(model, step, images, image_size)
    gather, *rest = ops
    return (*before, replace(gather, reads=(*gather.reads, *given)), *rest)


@plain_numbers
@takes()
def decode(
    model: Model | str,
    *,
    batch: Size = 1,
    context: Size,
    tokens: Size = 1,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    count: str = "causal",
    unfused: bool = False,
    absorbed: bool = True,
    skew: Sequence[float] | None = None,
) -> tuple[Op, ...]:
    """One step of ``batch`` sequences with ``context`` tokens in the cache each: ``tokens`` new ones, one by default.

    The new token attends to the cache and to itself, context + 1 keys. Latent attention is absorbed unless told
    otherwise; output is made for every new token. The rest is as in :func:`prefill`.
    """
    model = load(model)
    if not model.causal:
        raise InputError(f"{model.name} does not generate: it has no decode step", hint="ask for prefill")
    _check_skew(model, skew)
    step = _step(
        model, batch, ("tokens", tokens), ("context", context), activations, kv, count, unfused, absorbed, skew
    )
    return forward_pass(model, replace(step, wanted=step.new, decoding=True), weights, compute)


def _check_skew(model: Model, skew: Sequence[float] | None) -> None:
    """Refuse a skew of a whole model without experts; a stage of a pipeline may have none where others do."""
    if skew is not None and model.sparsity is None and model.embeds and model.head:
        raise InputError(f"{model.name} has no experts that tokens could prefer", hint="leave skew out")


def stepped(
    model: Model, *, batch: Size, new: Size, past: Size = 0, wanted: Size = 1, together: Size | None = None,
    weights: str | None = None, compute: str | None = None, **options: Any,
) -> tuple[Op, ...]:  # fmt: skip
    """``new`` tokens of each of ``batch`` sequences that one chip has, of which ``wanted`` give output.

    ``together`` are the tokens of all copies that share experts, where there are more than one. ``options`` are those
    that prefill and decode share.
    """
    alone = replace(model, context=None, share=WHOLE_BATCH)
    step = _step(alone, batch, ("new", new), ("past", past), **options)
    group = batch if together is None else together / new
    return forward_pass(model, replace(step, wanted=wanted, group=group), weights, compute)


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
    ends = replace(step, new=step.wanted, ring=False) if step.wanted is not step.new else step
    output = not is_zero(step.wanted)
    kept: dict[str, list[Tensor]] = {}
    for where, count, blocks, at, of in (
        ("", 1, model.before, step, storage_of("")),
        *(
            (label, len(numbers), layer.blocks, step, storage_of(f"layers.{numbers[0]}"))
            for label, numbers, layer in model.layer_groups(weights, compute)
        ),
        ("", 1, model.stage_end, step, storage_of("")),
        *((("", 1, (*model.after, *model.final), ends, storage_of("")),) if output else ()),
    ):
        if at is ends and ends is not step:
            stream = replace(stream, dims=(step.batch * step.wanted, *stream.dims[1:]))
        builder = OperationBuilder(at, of, where, count, stream, kept)
        for block in blocks:
            builder.enter(block.name, block.weights())
            stream = block.run(builder, stream)
        ops += builder.ops
    if model.head and output:
        ops.append(_head(model, ends, storage_of(""), stream))
    return tuple(ops)


def check_options(options: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse an option that none of some functions takes by name."""
    every_parameter = [each for taker in takers for each in signature(taker).parameters.values()]
    names = [each.name for each in every_parameter if each.kind is Parameter.KEYWORD_ONLY]
    every = dict.fromkeys((*names, *also))
    for name in options:
        if name not in every:
            raise unknown_argument(name, every)


def _gather(model: Model, step: ForwardPass, of: StorageOf, out: Tensor) -> Op:
    """Look up the new tokens: only their rows of the table move."""
    whole = Weight(model.embedding_name, (model.vocabulary, model.width), "embedding")
    table = Tensor(f"{whole.name}.weight", whole.shape, of(whole.name, whole).dtype, "weight")
    tokens = Tensor("tokens", (step.own, step.new), "int32", "index")
    return replace(embedding(model.embedding_name, (table, tokens), (out,)), where=model.embedding_name)


def _head(model: Model, step: ForwardPass, of: StorageOf, x: Tensor) -> Op:
    """Logits for the wanted tokens. A tied head streams the table once more: the gather read only a few rows."""
    builder = OperationBuilder(step, lambda _, weight: of(model.head_name, weight), "", 1, x)
    name = model.head_name.rpartition(".")[2]
    bias = (Weight(f"{name}.bias", (model.vocabulary,), "bias"),) if model.head_bias else ()
    builder.enter("", (Weight(name, (model.vocabulary, model.width), "head"), *bias))
    builder.linear(name, x, step.tokens)
    return builder.ops[0]


def _step(
    model: Model, batch: Size, new: tuple[str, Size], past: tuple[str, Size], activations: str | None = None,
    kv: str | None = None, count: str = "causal", unfused: bool = False, absorbed: bool = False,
    skew: Sequence[float] | None = None,
) -> ForwardPass:  # fmt: skip
    if count not in ("causal", "full"):
        raise InputError(f"count {count!r} is not understood", hint="'causal' or 'full'")
    wide = dtypes.get(activations or model.dtype).name
    stored = model.quantisation.kv if model.quantisation else None
    group = model.share.group(check("batch", batch))
    return ForwardPass(
        batch=model.share.turn(model.share.local(group)),
        new=check(*new),
        past=_past(*past),
        activations=wide,
        kv=dtypes.get(kv or stored or wide).name,
        full=count == "full",
        absorbed=absorbed,
        unfused=unfused,
        skew=None if skew is None else tuple(skew),
        group=model.share.turn(group),
        context=model.share.context,
        asked_kv=dtypes.get(kv).name if kv else "",
    )


def _past(name: str, value: Size) -> Size:
    """A size that may be 0."""
    if is_array(value) or isinstance(value, list | tuple | range):
        return check(name, array_of(name, value) + 1) - 1
    return value if is_symbol(value) or value == 0 else check(name, value)


def image_operations(
    model: Model, step: ForwardPass, images: Size, size: ImageSize | None = None
) -> tuple[tuple[Op, ...], list[Tensor]]:
    """Operations of ``images`` images in each sequence of ``step``, and the tensors that the language model reads."""
    from roofline.models.blocks.vision import PoolPatches

    vision = model.vision
    if vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    rows, columns = vision.grid(size)
    patches = rows * columns
    _check_room(model, step, check("images", images), vision.tokens(size))
    each = replace(step, batch=step.own * images, new=patches, past=0, wanted=patches, context=1, ring=False)
    tower = _part(vision.tower, each, "vision_tower", "pixels")
    pooled = any(isinstance(block, PoolPatches) for block in vision.tower.after)
    rows_each = vision.tokens(size) if pooled else patches
    after = replace(each, new=rows_each, wanted=rows_each)
    projector = _part(vision.projector, after, "projector", tower[-1].writes[0].ident)
    ops = (*tower, *projector)
    read = {tensor.ident for op in ops for tensor in op.reads}
    return ops, [tensor for op in ops for tensor in op.writes if tensor.ident not in read]


def _part(part: Model, step: ForwardPass, place: str, given: str) -> list[Op]:
    """Run a part, its operations and tensors named for it; ``given`` is the tensor it starts from."""

    def named(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            replace(tensor, ident=given if tensor.ident == "embedding" else f"{place}.{tensor.ident}")
            for tensor in tensors
        )

    _, *ops = forward_pass(part, step)
    return [replace(op, where=f"{place}.{op.where}", reads=named(op.reads), writes=named(op.writes)) for op in ops]


def _check_room(model: Model, step: ForwardPass, images: Size, tokens: int) -> None:
    if is_symbol(images) or is_symbol(step.new):
        return
    more = images * tokens > step.new
    if more.any() if is_array(more) else more:
        shown = "" if is_array(more) else f", and the prompt has {step.new:,} tokens"
        needed = "" if is_array(more) else f": {images * tokens:,} or more"
        raise SizeError(
            f"images of {tokens:,} tokens each do not fit into the prompt of {model.name}{shown}",
            hint=f"image tokens are part of the prompt{needed}",
        )


def activation_bytes(ops: Sequence[Op]) -> Size:
    """The most bytes of intermediates alive at once while operations run in this order; the last one's result stays."""
    last = {tensor.ident: index for index, op in enumerate(ops) for tensor in (*op.writes, *op.reads)}
    gone: dict[int, list[str]] = {}
    for ident, index in last.items():
        gone.setdefault(index, []).append(ident)
    alive: dict[str, Size] = {}
    peaks: list[Size] = [0]
    now: Size = 0
    for index, op in enumerate(ops):
        for tensor in op.writes:
            if tensor.role == "activation" and tensor.ident not in alive:
                alive[tensor.ident] = tensor.capacity_bytes
                now = now + alive[tensor.ident]
        peaks.append(now)
        for ident in gone.get(index, ()):
            now = now - alive.pop(ident, 0)
    return maximum(*peaks)
