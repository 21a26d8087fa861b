"""What a model needs in memory: weights by format, keys and values, states.

>>> from roofline.models import load
>>> model = load("llama-2-7b")
>>> weight_bytes(model), cache_bytes(model, 2048, dtype="bf16")
(13476831232, 1073741824)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.models.description import Model, Weight
from roofline.models.operations import groups, storages
from roofline.models.step import divided
from roofline.sizes import Size, maximum
from roofline.work import Op


def weight_bytes(model: Model, weights: str | None = None) -> int:
    """Bytes of every parameter, the vision tower's in its own formats; prediction layers are not included.

    See :func:`roofline.models.prefill` for ``weights``.
    """
    of = storages(model, weights)
    table = Weight(model.embedding_name, (model.vocabulary, model.width), "embedding")
    total = of("")(table.name, table).nbytes(table.shape) if model.embeds else 0
    for block in (*model.before, *model.after, *model.final):
        total += sum(of("")(_path(block.name, weight.name), weight).nbytes(weight.shape) for weight in block.weights())
    for _, numbers, layer in groups(model, weights):
        within = of(f"layers.{numbers[0]}")
        total += len(numbers) * sum(
            within(_path(block.name, weight.name), weight).nbytes(weight.shape)
            for block in layer.blocks
            for weight in block.weights()
        )
    if model.head and not model.tied:
        head = Weight(model.head_name, table.shape, "head")
        total += of("")(head.name, head).nbytes(head.shape)
    if model.head and model.head_bias:
        bias = Weight(f"{model.head_name}.bias", table.shape[:1], "bias")
        total += of("")(bias.name, bias).nbytes(bias.shape)
    if model.vision is not None:
        total += model.vision.weight_bytes()
    return int(total)


def cache_bytes(model: Model, length: Size, *, batch: Size = 1, dtype: str | None = None) -> Size:
    """Bytes that ``batch`` sequences of ``length`` tokens keep: keys and values (in ``dtype``) and states."""
    kv = dtypes.get(dtype or (model.quantisation.kv if model.quantisation else None) or model.dtype)
    total: Size = 0
    for layer in model.layers:
        for block in layer.blocks:
            for part in block.cache(length):
                format_ = kv if part.role == "kv" else dtypes.get(part.dtype or model.dtype)
                total = total + format_.nbytes(part.elements)
    sequences = model.share.local(model.share.group(batch))
    return total * (sequences if model.share.context == 1 else divided(sequences, model.share.context))


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


def kv_bytes_per_token(model: Model, dtype: str | None = None) -> float:
    """Bytes one more token of one sequence adds, while no window is full; states do not grow and are not in it."""
    kv = dtypes.get(dtype or (model.quantisation.kv if model.quantisation else None) or model.dtype)
    elements = sum(block.kv_per_token() for layer in model.layers for block in layer.blocks)
    found = elements * kv.bits_per_element / 8
    return int(found) if found == int(found) else found


def _path(*names: str) -> str:
    return ".".join(filter(None, names))
