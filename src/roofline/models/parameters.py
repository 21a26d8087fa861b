"""Parameter counts of a model: in all, by module, by layer, and those one token uses."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.models.description import Block, Layer, Model


def of_blocks(blocks: Iterable[Block]) -> int:
    """Parameters of blocks."""
    return sum(weight.elements for block in blocks for weight in block.weights())


def of_layer(layer: Layer) -> int:
    """Parameters of one layer."""
    return of_blocks(layer.blocks)


def by_layer(model: Model) -> list[int]:
    """Parameters of each layer in order."""
    return [of_layer(layer) for layer in model.layers]


def by_module(model: Model) -> dict[str, int]:
    """Parameters by module path, summed over layers."""
    counts = {model.embedding_name: model.vocabulary * model.width} if model.embeds else {}
    for prefix, blocks in (
        ("", model.before),
        *(("layers", layer.blocks) for layer in model.layers),
        ("", model.after),
        ("", model.final),
    ):
        for block in blocks:
            for weight in block.weights():
                path = ".".join(filter(None, (prefix, block.name, weight.name)))
                counts[path] = counts.get(path, 0) + weight.elements
    if model.head and not model.tied:
        counts[model.head_name.rpartition(".")[2]] = model.vocabulary * model.width
    if model.head and model.head_bias:
        counts[f"{model.head_name.rpartition('.')[2]}.bias"] = model.vocabulary
    return counts


def active(model: Model) -> int:
    """Parameters one token uses: its experts, its row of further tables, the embedding table and the head whole.

    A tied head is the embedding table, counted once.
    """
    blocks = [*model.before, *(block for layer in model.layers for block in layer.blocks), *model.after, *model.final]
    head = model.vocabulary * (model.width + model.head_bias) if model.head else 0
    table = 0 if model.tied or not model.embeds else model.vocabulary * model.width
    return sum(block.active() for block in blocks) + head + table
