"""Splitting over chips: one chip's part of a model, the mesh that the chips make, the layers of each stage.

>>> from roofline.hardware import chip
>>> from roofline.models import load
>>> local, machine = local_model(load("llama-3-70b"), chip("h100:16"), tensor=16)
>>> local.layers[0].blocks[1].heads, local.kv_bytes_per_token() * 8 == load("llama-3-70b").kv_bytes_per_token()
(4, True)
>>> local.notes[-1], machine.mesh
('8 heads of keys and values on 16 chips: each is held by 2', Mesh(tensor=16 nvlink switch 8, nic switch 2))

The first stage of a pipeline gathers the tokens' embeddings, the last has the output head; what lies between two stages
is the hidden state.

>>> parts = split_into_stages(load("llama-2-7b"), 4)
>>> [(part.first, len(part.layers), part.embeds, part.head) for part in parts]
[(0, 8, True, False), (8, 8, False, False), (16, 8, False, False), (24, 8, False, True)]
>>> sum(part.parameters for part in parts) == load("llama-2-7b").parameters
True

Several layouts in one call are numbers of chips as arrays that broadcast with the sizes. Each distinct layout is priced
once, for all its sizes together, and the answers are put where they belong:

>>> from roofline.models.serving import serve_bound
>>> found = serve_bound("llama-2-70b", "decode", on="h200:8", tensor=[1, 2, 4, 8], batch=64, context=2048)
>>> [round(float(time) * 1e3, 1) for time in found.lower], found.bound_by.decode()
([29.8, 15.4, 8.3, 4.7], ['hbm', 'hbm', 'hbm', 'hbm'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate
from typing import Any

from roofline.bounds.bound import AMOUNTS, TABLES, Bound
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, LayoutError, SizeError, UnsplitError
from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.meanings import LISTS
from roofline.models.blocks.attention import with_index_formats
from roofline.models.description import Model
from roofline.models.parallelism.layout import OPTIONS, Parallelism, is_several, name_axes
from roofline.quantity import in_a_row
from roofline.signatures import spelled
from roofline.sizes import Codes, check, common_shape, grouped, is_array, is_number, is_one, is_symbol
from roofline.statements import Assumption, Gap, kind_of


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
        wrong = f"{model.name} has {len(model.layers)} layers, too few for {count} stages"
        raise SizeError(wrong, hint=f"a pipeline of at most {len(model.layers)}")
    from roofline.models.blocks.residual import CopyToStreams

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
            part = replace(part, before=(), receives=streams * model.hidden, tied=False, vision=None)
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
    held = balance_each([[cost] for cost in costs], count, first=first, last=last)
    return tuple(int(stage[0]) for stage in held)


def balance_each(costs: Any, count: int, *, first: Any = 0, last: Any = 0) -> Any:
    """The same for several costs of each layer, entry by entry: an array of layers by stage and entry.

    >>> balance_each([[5, 1], [1, 1], [1, 1], [1, 1]], 2).tolist()
    [[1, 2], [3, 2]]
    """
    sums = np.concatenate([np.zeros((1, len(costs[0]))), np.cumsum(np.asarray(costs, float), axis=0)])
    # the largest sum is the cost of some run of layers, with or without the further costs
    low, high = np.zeros(len(costs[0])), sums[-1] + first + last
    best, _ = _fill(sums, count, high, first, last)
    for _ in range(60):
        middle = (low + high) / 2
        found, fits = _fill(sums, count, middle, first, last)
        low, high, best = np.where(fits, low, middle), np.where(fits, middle, high), np.where(fits, found, best)
    return best


def _fill(sums: Any, count: int, most: Any, first: Any, last: Any) -> tuple[Any, Any]:
    """Fill the stages in order up to ``most`` each, one layer at least left for every later one; where that does."""
    layers, entries = len(sums) - 1, np.arange(sums.shape[1])
    start, fits, found = np.zeros(len(entries), int), True, []
    for number in range(count):
        beside = (first if number == 0 else 0) + (last if number == count - 1 else 0)
        after, before = count - 1 - number, sums[start, entries]
        within = np.sum(sums - before + beside <= most, axis=0) - 1
        end = np.clip(within, start + 1, layers - after) if after else np.full(len(entries), layers)
        fits = fits & (sums[end, entries] - before + beside <= most * (1 + 1e-12))
        found.append(end - start)
        start = end
    return np.array(found), fits


#: Fields of an answer that list what is said of it.
_STATEMENTS = ("assumptions", "incomplete")


def stack_layouts(ask: Callable[..., Bound], asked: Mapping[str, Any], **every: Any) -> Bound:
    """Ask for each layout among the options and stack the answers in the shape that sizes and layouts broadcast to."""
    varying = {n: np.asarray(v) for n, v in asked.items() if n not in LISTS and is_several(v)}
    fixed = {name: value for name, value in asked.items() if name not in varying}
    symbols = [name for name, value in fixed.items() if is_symbol(value)]
    if symbols:
        raise SizeError(f"{symbols[0]} is unnamed, and numbers of chips are an array", hint="give it a value")
    shape = common_shape(varying)
    flat = {name: np.broadcast_to(values, shape).ravel() for name, values in varying.items()}
    names = [name for name in flat if name in OPTIONS]
    layouts = zip(*(flat[name].tolist() for name in names), strict=True)
    rows = grouped((layout, index) for index, layout in enumerate(layouts))
    answers = []
    for layout, where in rows.items():
        sizes = {name: values[where].astype(float) for name, values in flat.items() if name not in names}
        try:
            answers.append((where, ask(**every, **fixed, **sizes, **dict(zip(names, layout, strict=True)))))
        except LayoutError as wrong:
            if len(names) < 2 or isinstance(wrong, UnsplitError):
                raise
            hint = f"{in_a_row(map(spelled, names))} go together, the first of each, then the second"
            raise wrong.worded(after=f"; {hint}") from None
    full = {name: np.broadcast_to(values, shape).astype(float) for name, values in varying.items()}
    told = [dict(zip(names, layout, strict=True)) for layout in rows]
    listed = {name: [getattr(bound, name) for _, bound in answers] for name in _STATEMENTS}
    said: dict[str, Any] = {name: said_of_layouts(told, each) for name, each in listed.items()}
    return replace(_stack(answers, shape, full), **said)


def said_of_layouts(layouts: Sequence[Mapping[str, Any]], said: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What is said of every layout, and with their names what is said of some.

    >>> both = ["no dropout", "chips split heads"]
    >>> said_of_layouts([{"tensor": 1}, {"tensor": 2}, {"tensor": 4}], [["no dropout"], both, both])
    ('no dropout', 'tensor 2, 4: chips split heads')
    """
    found: list[str] = []
    for line in dict.fromkeys(line for lines in said for line in lines):
        of = [layout for layout, lines in zip(layouts, said, strict=True) if line in lines]
        each = [{name: f"{n:g}" if is_number(n) else str(n) for name, n in layout.items()} for layout in of]
        if len(of[0]) == 1:
            which = f"{next(iter(of[0]))} {', '.join(value for layout in each for value in layout.values())}"
        else:
            which = "; ".join(", ".join(map(" ".join, layout.items())) for layout in each)
        text = line if len(of) == len(layouts) else f"{which}: {line}"
        made = Gap if isinstance(line, Gap) else Assumption
        found.append(made(kind_of(line), text) if kind_of(line) else text)
    return tuple(found)


def stack_parts(ask: Callable[..., Bound], sizes: Mapping[str, Any], some: Any) -> Bound:
    """Ask once for the entries that ``some`` selects and once for the rest, and merge the answers."""
    varying = {name: np.asarray(value) for name, value in sizes.items() if is_array(value)}
    fixed = {name: value for name, value in sizes.items() if name not in varying}
    shape = common_shape(varying)
    full = {name: np.broadcast_to(values, shape) for name, values in varying.items()}
    chosen = np.broadcast_to(some, shape).ravel()
    answers = []
    for where in (np.flatnonzero(chosen), np.flatnonzero(~chosen)):
        here = {name: values.ravel()[where] for name, values in full.items()}
        try:
            answers.append((where.tolist(), ask(**fixed, **here)))
        except SizeError as error:
            if error.rows is not None:  # of the entries asked for: where they are among all
                among = np.zeros(shape, bool)
                among.flat[where] = error.rows
                error.rows = among
            raise
    return _stack(answers, shape, full)


def _stack(answers: Sequence[tuple[list[int], Bound]], shape: tuple[int, ...], varying: Mapping[str, Any]) -> Bound:
    first = answers[0][1]

    def column(values: Iterable[Any]) -> Any:
        listed = list(values)
        if any(value is None for value in listed):
            return None
        made = np.zeros(int(np.prod(shape)))
        for (where, _), value in zip(answers, listed, strict=True):
            made[where] = value
        return made.reshape(shape)

    def columns(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        names = dict.fromkeys(name for mapping in mappings for name in mapping)
        return {name: column(mapping.get(name, 0) for mapping in mappings) for name in names}

    bounds = [bound for _, bound in answers]
    times = columns([{**bound.times, **_idle_resources(bound)} for bound in bounds])
    found = [bound.footprint for bound in bounds if bound.footprint is not None]
    footprint = None
    if len(found) == len(bounds):
        footprint = Footprint(columns([each.parts for each in found]), found[0].level, found[0].capacity)
    changed: dict[str, Any] = {name: column(getattr(bound, name) for bound in bounds) for name in AMOUNTS}
    changed |= {name: columns([getattr(bound, name) for bound in bounds]) for name in TABLES if name != "times"}
    for name in _STATEMENTS:
        changed[name] = tuple(dict.fromkeys(item for bound in bounds for item in getattr(bound, name)))
    # an axis that another layout lacks has size 1 there
    sizes = dict.fromkeys((*(name for bound in bounds for name in bound.sizes), *varying))
    changed["sizes"] = {n: varying[n] if n in varying else column(b.sizes.get(n, 1) for b in bounds) for n in sizes}
    for name, values in changed["sizes"].items():
        if name not in varying and (values == values.ravel()[0]).all():
            changed["sizes"][name] = first.sizes.get(name, 1)
    base = Bound(**plain_fields(first))
    return replace(base, **changed, times=times, bound_by=Codes.of(times), uses=(), ops=(), footprint=footprint)


def plain_fields(bound: Bound) -> dict[str, Any]:
    """What a bound says that every bound does, by name."""
    return {field.name: getattr(bound, field.name) for field in fields(Bound)}


def _idle_resources(bound: Bound) -> dict[str, int]:
    """The resources that other stages of a pipeline use alone, without a time in the slowest."""
    return {name: 0 for stage in getattr(bound, "stages", ()) for name in stage.times if name not in bound.times}


#: Costs of each layer, of what comes before the first, and of what comes after the last.
Costs = tuple[Sequence[float], float, float]


def local_model(
    model: Model, machine: Machine, ways: Parallelism | None = None, **options: Any
) -> tuple[Model, Machine]:
    """One chip's part of a model that is laid out as ``ways`` says, and the machine with its chips named so.

    In place of ``ways``, ``options`` are those of :meth:`roofline.models.Parallelism.on`: ``tensor`` chips split the
    model, ``expert`` chips hold whole experts; chips that are left over run copies.
    """
    ways = Parallelism.on(machine, **options) if ways is None else ways
    if ways.pipeline > 1:
        raise InputError("the stages of a pipeline have a share each", hint="local_stages gives them")
    (local,), named = local_stages(model, machine, ways)
    return local, named


def local_stages(
    model: Model, machine: Machine, ways: Parallelism, costs: Costs | None = None, *, compares: bool = True
) -> tuple[tuple[Model, ...], Machine]:
    """One chip's part of each stage of a model, and the machine with its chips named.

    ``costs`` of each layer, of the blocks before them and of those after balance the stages.
    ``compares`` is as in :func:`roofline.models.parallelism.block_splitting.split_by_layout`.
    """
    cut = None if costs is None else (tuple(costs[0]), *costs[1:])
    return _stages(model, machine, ways, ways.notes, cut, compares)


@lru_cache(maxsize=256)
def _stages(
    model: Model, machine: Machine, ways: Parallelism, notes: tuple[str, ...], costs: Costs | None, compares: bool
) -> tuple[tuple[Model, ...], Machine]:
    """The stages: a search asks for one layout in several formats and phases. Notes are part of a key."""
    model = with_index_formats(model, machine)
    if ways.chips == 1:
        return (model,), machine
    from roofline.models.parallelism.block_splitting import check_experts, split_by_layout

    check_experts(model, ways.expert)
    of_copy = ways.tensor * ways.context * ways.pipeline
    if model.in_outline and not is_one(of_copy):
        even = f"{spelled('pool', of_copy)} on {machine.key} shares it evenly, links left out"
        raise UnsplitError(
            f"{model.name}: a number of parameters has no layers, heads and columns to split over chips",
            hint=f"{even}; {spelled('fit', True)} counts memory; a config.json says what there is to split",
        )
    if not is_one(ways.fsdp):
        raise UnsplitError(f"fsdp {ways.fsdp} shares weights in training alone", hint="leave fsdp out")
    wanted = {name: size for name, size in ways.axes.items() if not is_one(size)}
    named = machine
    alone = machine.mesh is None and machine.shape and list(wanted) == ["data"]  # copies send each other nothing
    if not alone and (machine.mesh is None or [axis.name for axis in machine.mesh] != list(wanted)):
        named = name_axes(machine, wanted)
    layers, first, last = costs or (None, 0, 0)
    parts = split_into_stages(model, ways.pipeline, layers, first=first, last=last)
    return tuple(split_by_layout(part, ways, named, compares=compares) for part in parts), named
