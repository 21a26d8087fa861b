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
from itertools import pairwise
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, SizeError, suggest
from roofline.models.config import load
from roofline.models.description import Block, Layer, Model, Share, Weight
from roofline.models.step import Step, is_zero
from roofline.models.storage import Storage
from roofline.models.trace import StorageOf, Trace
from roofline.ops.embedding import embedding
from roofline.sizes import Size, check, is_array, is_symbol
from roofline.work import Op, Tensor


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
        ``weights``      format of all matrices but routers and the head; by default what the configuration says
        ``activations``  format of activations, by default the model's own; ``kv`` of keys and values
        ``compute``      arithmetic of matrix products, where the operands' wider one is not meant
        ``count``        ``causal``: S(S+1)/2 pairs; ``full``: every pair, as most counters do
        ``unfused``      attention writes its scores and probabilities to memory
        ``absorbed``     latent attention works on the latents; by default keys and values are made from them
        ``skew``         share of the routed tokens each expert gets; by default all the same
        ``images``       images in each prompt, of ``image_size`` (height, width) pixels; their tokens are part of it

    Sizes may be numbers, arrays or symbols.
    """
    model = load(model)
    wanted = {"last": 1, "all": prompt, "none": 0}.get(logits)
    if wanted is None:
        raise InputError(f"logits {logits!r} is not understood", hint="'last', 'all' or 'none'")
    step = _step(model, batch, ("prompt", prompt), ("past", past), activations, kv, count, unfused, absorbed, skew)
    # the chips that share a sequence each run a part of its prompt
    step = replace(step, wanted=step.new if logits == "all" else wanted, ring=step.context > 1)
    ops = run(model, step, weights, compute)
    if is_zero(images) or not model.embeds:
        return ops
    from roofline.models.vision import seen

    before, given = seen(model, step, images, image_size)
    gather, *rest = ops
    return (*before, replace(gather, reads=(*gather.reads, *given)), *rest)


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
    step = _step(
        model, batch, ("tokens", tokens), ("context", context), activations, kv, count, unfused, absorbed, skew
    )
    return run(model, replace(step, wanted=step.new, decoding=True), weights, compute)


def stepped(
    model: Model,
    *,
    batch: Size,
    new: Size,
    past: Size = 0,
    wanted: Size = 1,
    together: Size | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    compute: str | None = None,
    count: str = "causal",
    unfused: bool = False,
    absorbed: bool = False,
    skew: Sequence[float] | None = None,
) -> tuple[Op, ...]:
    """``new`` tokens of each of ``batch`` sequences that one chip has, of which ``wanted`` give output.

    ``together`` are the tokens of all copies that share experts, where there are more than one.
    """
    alone = replace(model, context=None, share=Share())
    step = _step(alone, batch, ("new", new), ("past", past), activations, kv, count, unfused, absorbed, skew)
    group = batch if together is None else together / new
    return run(model, replace(step, wanted=wanted, group=group), weights, compute)


def run(model: Model, step: Step, weights: str | None = None, compute: str | None = None) -> tuple[Op, ...]:
    """Trace one step through the whole model."""
    model = in_format(model, step.activations)
    storage_of = storages(model, weights, compute)
    stream = Tensor("embedding", (step.tokens, model.receives or model.width), step.activations)
    # a later stage of a pipeline has the hidden state from the one before
    first = _gather(model, step, stream) if model.embeds else Op("receive", "copy", writes=(stream,), where="receive")
    ops: list[Op] = [first]
    # output needs only the wanted tokens, and so do the blocks after the last layer
    ends = replace(step, new=step.wanted, ring=False) if step.wanted is not step.new else step
    output = not is_zero(step.wanted)
    handed: dict[str, list[Tensor]] = {}
    for where, count, blocks, at, of in (
        ("", 1, model.before, step, storage_of("")),
        *(
            (label, len(numbers), layer.blocks, step, storage_of(f"layers.{numbers[0]}"))
            for label, numbers, layer in groups(model, weights, compute)
        ),
        ("", 1, model.hands, step, storage_of("")),
        *((("", 1, (*model.after, *model.final), ends, storage_of("")),) if output else ()),
    ):
        if at is ends and ends is not step:
            stream = replace(stream, dims=(step.batch * step.wanted, *stream.dims[1:]))
        trace = Trace(at, of, where, count, stream, handed)
        stream = _through(trace, blocks, stream)
        ops += trace.ops
    if model.head and output:
        ops.append(_head(model, ends, storage_of(""), stream))
    return tuple(ops)


def check_known(options: Iterable[str], *takers: Callable[..., Any], also: Iterable[str] = ()) -> None:
    """Refuse an option that none of some functions takes by name."""
    names = [name for taker in takers for name in taker.__code__.co_varnames[1 : taker.__code__.co_kwonlyargcount + 1]]
    every = dict.fromkeys((*names, *also))
    for name in options:
        if name not in every:
            raise InputError(f"there is no argument {name!r}", hint=suggest(name, every, what="arguments"))


def in_format(model: Model, activations: str) -> Model:
    """A checkpoint in fp16 runs in bf16 and the other way round: what nothing quantises is converted once."""
    same_width = dtypes.get(model.dtype).bits == dtypes.get(activations).bits
    return replace(model, dtype=activations) if same_width else model


def groups(model: Model, weights: str | None = None, compute: str | None = None) -> list[tuple[str, list[int], Layer]]:
    """Equal layers together: the name of the group, the layers' numbers, and one of them."""
    storage_of = storages(model, weights, compute)
    by_place = weights is None and model.quantisation is not None
    found: dict[Any, list[int]] = {}
    # comparing layers is slow, and most are one object: each object is looked at once
    first: dict[Layer, Layer] = {}
    same: dict[int, Layer] = {}
    inside: dict[int, tuple[tuple[str, Weight], ...]] = {}
    for number, layer in enumerate(model.layers, model.first):
        if id(layer) not in same:
            same[id(layer)] = first.setdefault(layer, layer)
        layer = same[id(layer)]
        if id(layer) not in inside:
            named = ((block.name, weight) for block in layer.blocks for weight in block.weights())
            inside[id(layer)] = tuple((".".join(filter(None, (name, w.name))), w) for name, w in named)
        of = storage_of(f"layers.{number}")
        formats = tuple(of(path, weight) for path, weight in inside[id(layer)]) if by_place else ()
        found.setdefault((id(layer), formats), []).append(number)
    return [(f"layers.{_ranges(numbers)}", numbers, same[key[0]]) for key, numbers in found.items()]


def storages(model: Model, weights: str | None = None, compute: str | None = None) -> Callable[[str], StorageOf]:
    """How each weight is stored: the format asked for, else the checkpoint's quantisation, else the model's own."""
    chosen = None if weights is None else Storage(dtypes.get(weights).name)
    arithmetic = "" if compute is None else dtypes.arithmetic_name(compute)
    plain = Storage(model.dtype, compute=arithmetic)

    def within(place: str) -> StorageOf:
        prefix = f"{model.prefix}{place}." if place else model.prefix

        def of(path: str, weight: Weight) -> Storage:
            if weight.dtype:
                return Storage(weight.dtype)
            found: Storage | None = None
            if chosen is not None:
                found = chosen if weight.kind in ("linear", "expert") else None
            elif model.quantisation is not None:
                found = model.quantisation.storage(path if weight.kind == "head" else prefix + path, weight.kind)
            if found is None:
                return plain
            return replace(found, compute=arithmetic) if arithmetic else found

        return of

    return within


def _through(trace: Trace, blocks: Sequence[Block], x: Tensor) -> Tensor:
    for block in blocks:
        trace.enter(block.name)
        x = block.run(trace, x)
    return x


def _gather(model: Model, step: Step, out: Tensor) -> Op:
    """Look the new tokens up: only their rows of the table move."""
    table = Tensor(f"{model.embedding_name}.weight", (model.vocabulary, model.width), model.dtype, "weight")
    tokens = Tensor("tokens", (step.own, step.new), "int32", "index")
    return replace(embedding(table, tokens, out, name=model.embedding_name), where=model.embedding_name)


def _head(model: Model, step: Step, of: StorageOf, x: Tensor) -> Op:
    """Logits for the wanted tokens. A tied head streams the table once more: the gather read only a few rows."""
    trace = Trace(step, lambda _, weight: of(model.head_name, weight), "", 1, x)
    name = model.head_name.rpartition(".")[2]
    bias = Weight(f"{name}.bias", (model.vocabulary,), "bias") if model.head_bias else None
    trace.linear(Weight(name, (model.vocabulary, model.width), "head"), x, step.tokens, bias=bias)
    return trace.ops[0]


def _step(
    model: Model, batch: Size, new: tuple[str, Size], past: tuple[str, Size], activations: str | None, kv: str | None,
    count: str, unfused: bool, absorbed: bool, skew: Sequence[float] | None,
) -> Step:  # fmt: skip
    if count not in ("causal", "full"):
        raise InputError(f"count {count!r} is not understood", hint="'causal' or 'full'")
    wide = dtypes.get(activations or model.dtype).name
    stored = model.quantisation.kv if model.quantisation else None
    group = model.share.group(check("batch", batch))
    step = Step(
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
    )
    length = step.length
    if model.context is not None and isinstance(length, int) and length > model.context:
        raise SizeError(
            f"{model.name} takes sequences of up to {model.context} tokens, not {length}",
            hint="ask for a shorter prompt or context",
        )
    return step


def _past(name: str, value: Size) -> Size:
    """A size that may be 0."""
    if is_symbol(value) or (not is_array(value) and not isinstance(value, list | tuple | range) and value == 0):
        return value
    if is_array(value) or isinstance(value, list | tuple | range):
        import numpy as np

        return check(name, np.asarray(value, dtype=float) + 1) - 1
    return check(name, value)


def _ranges(numbers: Sequence[int]) -> str:
    """Write layer numbers shortly.

    >>> _ranges([0, 1, 2, 5]), _ranges([1, 3, 5, 7]), _ranges([0, 1, 4, 5, 8, 9, 12, 13])
    ('0-2,5', '1-7:2', '0-1,4-5…12-13')
    """
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 1 and all(b - a == step for a, b in pairwise(numbers)):
            return f"{numbers[0]}-{numbers[-1]}:{step}"
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ",".join(texts) if len(texts) < 4 else f"{','.join(texts[:2])}…{texts[-1]}"
