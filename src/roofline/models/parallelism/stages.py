"""Pipeline parallelism: the layers of each stage.

The first stage gathers the tokens' embeddings, the last has the output head; what lies between two stages is the
hidden state, which :mod:`roofline.models.parallelism.splitting` sends on.

>>> from roofline.models import load
>>> parts = split_into_stages(load("llama-2-7b"), 4)
>>> [(part.first, len(part.layers), part.embeds, part.head) for part in parts]
[(0, 8, True, False), (8, 8, False, False), (16, 8, False, False), (24, 8, False, True)]
>>> sum(part.parameters for part in parts) == load("llama-2-7b").parameters
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from roofline.errors import SizeError
from roofline.models.description import Model
from roofline.sizes import check


def split_into_stages(
    model: Model, count: int, costs: Sequence[float] | None = None, *, first: float = 0, last: float = 0
) -> tuple[Model, ...]:
    """Cut a model into ``count`` stages of consecutive layers.

    ``costs``, ``first`` and ``last`` are those of :func:`balance_layers`; without costs, stages have as many layers.

    A table that the embedding and the head share (tied) stands in the first and in the last stage.
    """
    if check("pipeline", count) == 1:
        return (model,)
    if count > len(model.layers):
        raise SizeError(
            f"{model.name} has {len(model.layers)} layers, too few for {count} stages",
            hint=f"a pipeline of at most {len(model.layers)}",
        )
    from roofline.models.blocks.residual_streams import CopyToStreams

    streams = next((block.streams for block in model.before if isinstance(block, CopyToStreams)), 1)
    held = (
        balance_layers([1.0] * len(model.layers), count)
        if costs is None
        else balance_layers(costs, count, first=first, last=last)
    )
    ends = list(accumulate(held))
    found = []
    for number, (size, end) in enumerate(zip(held, ends, strict=True)):
        part = replace(model, first=model.first + end - size, layers=model.layers[end - size : end])
        if number > 0:
            part = replace(part, before=(), receives=streams * model.width, tied=False, vision=None)
        if number < count - 1:
            part = replace(part, after=(), final=(), head=False, extra=(), extra_blocks=())
        found.append(part)
    return tuple(found)


def balance_layers(costs: Sequence[float], count: int, *, first: float = 0, last: float = 0) -> tuple[int, ...]:
    """How many consecutive layers each of ``count`` stages holds so that the largest sum of costs is least.

    ``first`` and ``last`` are further costs of the first and the last stage (embedding, head). Every stage has a layer.
    Where all layers cost the same and nothing comes beside them, sizes differ by one at most, the smaller ones last:

    >>> balance_layers([1] * 10, 4), balance_layers([1] * 10, 4, last=2)
    ((3, 3, 2, 2), (3, 3, 3, 1))
    >>> balance_layers([5, 1, 1, 1, 1, 1], 2)
    (1, 5)
    """
    layers = len(costs)
    if len(set(costs)) == 1 and not first and not last:
        base, rest = divmod(layers, count)
        return tuple(base + (number < rest) for number in range(count))
    sums = [0.0, *accumulate(map(float, costs))]
    # the largest sum is the cost of some run of layers, with or without the further costs
    low, high = 0.0, sums[-1] + first + last
    best = _fill(sums, count, high, first, last)
    for _ in range(60):
        middle = (low + high) / 2
        found = _fill(sums, count, middle, first, last)
        low, high, best = (low, middle, found) if found else (middle, high, best)
    return tuple(best)


def _fill(sums: Sequence[float], count: int, most: float, first: float, last: float) -> list[int]:
    """Fill the stages in order up to ``most`` each, one layer at least left for every later one; empty if it fails."""
    layers, start = len(sums) - 1, 0
    found: list[int] = []
    for number in range(count):
        beside = (first if number == 0 else 0) + (last if number == count - 1 else 0)
        after = count - 1 - number
        end = layers if after == 0 else start + 1
        while after and end < layers - after and sums[end + 1] - sums[start] + beside <= most:
            end += 1
        if sums[end] - sums[start] + beside > most * (1 + 1e-12):
            return []
        found.append(end - start)
        start = end
    return found
