"""Which elements of its inputs the results of a jaxpr need, followed back through it.

>>> import jax
>>> x = jax.ShapeDtypeStruct((8,), "float32")
>>> program = jax.make_jaxpr(lambda x: jax.numpy.repeat(x, 2)[:10])(x)
>>> needed_of(program.jaxpr, [None], [None])
[(((0, 5, 1),),)]

Of what a rule does not follow all is needed (``programs.regions``).

Masked scores in a jaxpr: what a mask made of positions hides of the matmuls that make and use attention scores.

A program that masks its scores and takes their softmax computes all of them, so all are counted. How much is hidden is
found by following positions (``programs.positions``), the choice they make between scores and a constant, and the
exponential after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from roofline.frozen import NamedTuple
from roofline.programs import needs, positions, regions
from roofline.programs.jax.indices import (
    SAME,
    TAKEN_WHOLE,
    Hidden,
    Numbers,
    held_numbers,
    hidden,
    number_of,
    of_positions,
    picking,
    worked_out,
)
from roofline.programs.jax.registry import find, scanned, size_of, value_of
from roofline.programs.jax.rules import NAMES, OTHERS, REDUCTIONS, SCATTERS, window_places
from roofline.programs.jax.walker import PICKING, called_program, open_jaxpr, source_line
from roofline.programs.needs import Asked, needed_of_operands
from roofline.programs.positions import Elements, Visible, of_values
from roofline.programs.regions import HIDDEN, WHOLE, Region, once
from roofline.sizes import Size, exact_div, is_symbol, maximum, minimum, product


def needed_of(jaxpr: Any, numbers: Sequence[Numbers], wanted: needs.Regions, *, in_place: bool = False) -> list[Region]:
    """What is needed of the constants and inputs of an open jaxpr, of which these are known, for regions of results.

    Of a result that is an input with parts replaced ``in_place`` the parts alone are worked out.
    """
    known = _numbers(jaxpr, _given(jaxpr, numbers))
    found: dict[Any, Region] = {}

    def need(atom: Any, region: Region) -> None:
        if not hasattr(atom, "val"):
            found[atom] = regions.union(found.get(atom, regions.NOTHING), region)

    updates = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if in_place and eqn.primitive.name in _UPDATES}
    for atom, region in zip(jaxpr.outvars, wanted, strict=True):
        parts = _replaced(atom, updates, jaxpr.invars) if updates else ()
        for part in parts:
            need(part, WHOLE)
        if not parts:
            need(atom, region)
    for eqn in reversed(jaxpr.eqns):
        asked = [found.get(var, regions.NOTHING) for var in eqn.outvars]
        if eqn.outvars and all(region == regions.NOTHING for region in asked):
            continue
        for atom, region in zip(eqn.invars, _operands(eqn, known, asked), strict=True):
            need(atom, region)
    return [found.get(var, regions.NOTHING) for var in (*jaxpr.constvars, *jaxpr.invars)]


def _of_inputs(jaxpr: Any, wanted: Sequence[Region], numbers: Sequence[Numbers] | None = None) -> list[Region]:
    """What is needed of the inputs of an open jaxpr alone, of which these are known or none."""
    return needed_of(jaxpr, numbers or [None] * len(jaxpr.invars), wanted)[len(jaxpr.constvars) :]


#: Primitives that replace a part of an array.
_UPDATES = ("dynamic_update_slice", "scatter")


def _replaced(atom: Any, updates: Mapping[Any, Any], inputs: Sequence[Any]) -> list[Any]:
    """What is written into parts of an input, and where, for a result that is this input; nothing for any other."""
    parts: list[Any] = []
    while not hasattr(atom, "val") and atom in updates:
        atom, *more = updates[atom].invars
        parts += more
    return parts if not hasattr(atom, "val") and atom in inputs else []


def _numbers(jaxpr: Any, known: dict[Any, Numbers]) -> dict[Any, Numbers]:
    """Whole numbers that a jaxpr works out, by its variables."""
    for eqn in jaxpr.eqns:
        inside = _called(eqn)
        given = [number_of(atom, known) for atom in eqn.invars]
        if eqn.primitive.name == "dim_as_value":
            known[eqn.outvars[0]] = np.asarray(_sizes([eqn.params["dim"]])[0])
            continue
        if inside is None:
            if not eqn.outvars:
                continue
            is_told = not any(isinstance(each, Hidden) for each in given)
            worked = worked_out(eqn, _arrays(given)) if is_told else None
            is_open = any(map(is_symbol, _shape(eqn.outvars[0].aval)))
            if worked is None and is_told and is_open:
                worked = of_positions(eqn, [_as_formula(each) for each in given])
            worked = hidden(eqn, given if is_open else _arrays(given)) if worked is None else worked
            known |= dict.fromkeys(eqn.outvars[:1], worked)
            continue
        inner, held = open_jaxpr(inside)
        if eqn.params.get("name") in TAKEN_WHOLE and any(isinstance(each, Elements) for each in given):
            known[eqn.outvars[0]] = of_positions(eqn, given)
            continue
        own = _numbers(inner, _given(inner, [*map(held_numbers, held or ()), *given]))
        known |= {var: number_of(atom, own) for var, atom in zip(eqn.outvars, inner.outvars, strict=True)}
    return known


def _as_formula(number: Numbers) -> Numbers:
    """An open size as a formula of positions, of which it has none."""
    is_size = isinstance(number, np.ndarray) and number.dtype == object and not number.shape
    return Elements((), number.item()) if is_size else number


def _arrays(numbers: Sequence[Numbers]) -> list[Numbers]:
    """Numbers that are no formulas of positions."""
    return [None if isinstance(each, Elements) else each for each in numbers]


def _given(jaxpr: Any, numbers: Sequence[Numbers]) -> dict[Any, Numbers]:
    places = [*jaxpr.constvars, *jaxpr.invars]
    return dict(zip(places[len(places) - len(numbers) :], numbers, strict=True))


#: Loops of more steps are not followed step by step.
_MOST_STEPS = 256

#: Primitives that hold a program and do not call it once with their own operands.
_NOT_CALLED = frozenset(("scan", "while", "cond", "shard_map", "pallas_call", "custom_linear_solve"))


def _called(eqn: Any) -> Any:
    """The program that an equation calls with its own operands."""
    if eqn.primitive.name in _NOT_CALLED or (find(eqn.primitive.name) is not None):
        return None
    program = called_program(eqn)
    invars = [] if program is None else open_jaxpr(program)[0].invars
    return program if [_shape(atom.aval) for atom in eqn.invars] == [_shape(var.aval) for var in invars] else None


def _operands(eqn: Any, known: Mapping[Any, Numbers], wanted: Sequence[Region]) -> Sequence[Region]:
    """What an equation needs of its operands."""
    everything: list[Region] = [WHOLE] * len(eqn.invars)
    given = [number_of(atom, known) for atom in eqn.invars]
    inside = _called(eqn)
    if inside is not None:
        jaxpr, held = open_jaxpr(inside)
        return _of_inputs(jaxpr, wanted, [*map(held_numbers, held or ()), *given])
    ins, outs = ([_shape(atom.aval) for atom in atoms] for atoms in (eqn.invars, eqn.outvars))
    rule = _RULES.get(eqn.primitive.name)
    hidden_score = next((each for each in given[:1] if isinstance(each, Hidden) and not each.is_zero), None)
    if eqn.primitive.name in ("dot_general", "mul"):  # which look for zeros alone
        given = [each.others if isinstance(each, Hidden) and each.is_zero else each for each in given]
    given = [None if isinstance(each, Hidden) else each for each in given]
    if eqn.primitive.name == "dot_general":
        given = [positions.worked_out("not_equal", x, 0) if isinstance(x, Elements) else x for x in given]
    elif eqn.primitive.name not in ("select_n", "mul", "gather"):  # which look at formulas of positions
        given = _arrays(given)
    given = [_counted_from_least(each) if isinstance(each, Elements) else each for each in given]
    found = everything if rule is None else needed_of_operands(rule, Asked(eqn.params, ins, outs, wanted, given))
    if hidden_score is not None and eqn.primitive.name in ("exp", "exp2", "reduce_max"):
        found = [_of_seen(eqn.params, found[0], ins[0], hidden_score.others)]
    return found


def _of_seen(params: Mapping[str, Any], region: Region, shape: Sequence[Size], others: Any) -> Region:
    """Of scores some of which are so low that they count for nothing the ``others``, or all of lines without any."""
    if not isinstance(others, Elements):
        seen = once(others)
        lines = seen.any(tuple(params["axes"]), keepdims=True) if "axes" in params else True
        return regions.let_through(region, shape, seen | ~np.asarray(lines))
    shown, hides = _counted_from_least(others), positions.worked_out("logical_not", others)
    is_told = "axes" not in params or (
        tuple(params["axes"]) == (len(shape) - 1,) and positions.each_row_sees(hides, others.shape)
    )
    return regions.let_through(region, shape, shown.shown(1)) if shown is not None and is_told else region


def _of_steps(params: Mapping[str, Any], given: Sequence[Numbers], wanted: needs.Regions) -> Sequence[Region]:
    """What the steps of a loop need together of what is the same in each, whose counters are known in each of them.

    ``wanted`` is what any step is asked for.
    """
    (shared, moving), length = scanned(params), params["length"]
    body, held = open_jaxpr(params["jaxpr"])
    if type(length) is not int or not 0 < length * _picking_steps(body, {*body.invars[:shared]}) <= _MOST_STEPS:
        return []
    consts, carried = [*map(held_numbers, held or ()), *given[:shared]], list(given[shared : shared + moving])
    found: list[Region] = [regions.NOTHING] * shared
    for step in range(length)[:: -1 if params.get("reverse") else 1]:
        rows = [None if row is None else row[step] for row in given[shared + moving :]]
        numbers = [*consts, *carried, *rows]
        asked = _of_inputs(body, wanted, numbers)
        found = [regions.union(before, more) for before, more in zip(found, asked, strict=False)]
        known = _numbers(body, _given(body, numbers))
        carried = [number_of(atom, known) for atom in body.outvars[:moving]]
    return found


def _of_loop(each: Asked) -> Iterator[Region]:
    """Of a scan what its steps need, of what it scans over too."""
    (shared, moving), (body, _) = scanned(each.facts), open_jaxpr(each.facts["jaxpr"])
    inside = partial(_of_inputs, body)
    (length,) = _sizes([each.facts["length"]])
    backwards = bool(each.facts.get("reverse"))
    found = needs.of_scan(inside, shared, each.wanted[:moving], each.wanted[moving:], each.ins, length, backwards)
    stacks = [regions.each(region, lambda box: [box[1:]]) for region in each.wanted[moving:]]
    yield from _of_steps(each.facts, each.numbers, [*found[shared : shared + moving], *stacks]) or found[:shared]
    yield from found[shared:]


def _of_while(each: Asked) -> Iterator[Region]:
    """Of a loop until a condition what this and its steps need."""
    test, many = open_jaxpr(each.facts["cond_jaxpr"])[0], each.facts["cond_nconsts"]
    asked = _of_inputs(test, [WHOLE])
    carried = [regions.union(*pair) for pair in zip(each.wanted, asked[many:], strict=True)]
    inside = partial(_of_inputs, open_jaxpr(each.facts["body_jaxpr"])[0])
    consts, held, _, _ = needs.steady(inside, each.facts["body_nconsts"], carried, [])
    yield from (*asked[:many], *consts, *held)


def _of_branches(each: Asked) -> Iterator[Region]:
    """Of a choice between programs the most that one of them needs; of one for each platform the general one's."""
    branches = each.facts["branches"]
    platforms = each.facts.get("branches_platforms") or [None] * len(branches)
    programs = [open_jaxpr(branch)[0] for branch, of in zip(branches, platforms, strict=True) if of is None]
    asked = [_of_inputs(one, each.wanted, each.numbers[1:]) for one in programs]
    yield WHOLE
    for found, shape in zip(zip(*asked, strict=True), each.ins[1:], strict=True):
        yield max(found, key=partial(regions.elements_of, shape=shape))


#: The least that JAX takes an open size for.
LEAST = 1


def _picking_steps(body: Any, outside: Collection[Any]) -> int:
    """Steps of loops in a program, one inside the other, that pick of arrays from outside; without a loop 1, or 0."""
    found = 0
    for eqn in body.eqns:
        mine = [not hasattr(atom, "val") and atom in outside for atom in eqn.invars]
        program = eqn.params["jaxpr"] if eqn.primitive.name == "scan" else _called(eqn)
        if eqn.primitive.name in PICKING and mine[0]:
            found = max(found, 1)
        elif program is not None and any(mine):
            inner, _ = open_jaxpr(program)
            places = {var for var, is_mine in zip(inner.invars, mine, strict=False) if is_mine}
            length = eqn.params["length"] if eqn.primitive.name == "scan" else 1
            found = max(found, _picking_steps(inner, places) * (length if type(length) is int else _MOST_STEPS + 1))
    return found


def _shape(aval: Any) -> tuple[Any, ...]:
    return _sizes(getattr(aval, "shape", ()))


def _sizes(dims: Sequence[Any]) -> tuple[Any, ...]:
    return regions.counted_from(LEAST, tuple(map(size_of, dims)))


def _counted_from_least(elements: Elements) -> Elements | None:
    """Elements at open sizes as regions count them."""
    names = {size: regions.counted_from(LEAST, [size])[0] for size in elements.open_sizes}
    return elements.renamed(names, regions.counted_from(LEAST, elements.shape))


#: Masks of more elements are not looked at.
_LARGEST_MASK = 2**20


def _selected(each: Asked) -> Iterator[Region]:
    """Of each case the elements that a known choice takes of it."""
    choice, shape = each.numbers[0], each.outs[0]
    if not isinstance(choice, Elements | None):
        known = choice.shape == shape and once(choice).size <= _LARGEST_MASK
        choice = once(choice) if known else None
    return needs.chosen(each, choice, [None, *range(len(each.ins) - 1)])


def _reshaped(each: Asked) -> Iterator[Region]:
    in_order = each.facts.get("dimensions") is None or "new_sizes" not in each.facts
    return needs.reshaped(each) if in_order else iter((WHOLE,))


def _sliced(each: Asked) -> Iterator[Region]:
    starts = _sizes(each.facts["start_indices"])
    yield regions.sliced(each.region, each.outs[0], starts, each.facts["strides"] or (1,) * len(starts))


def _starts(each: Asked, numbers: Sequence[Numbers], sizes: Sequence[Size]) -> list[Size] | None:
    """Where a part of this size begins, at numbers that are known, which are moved so that it lies inside."""
    if any(number is None for number in numbers):
        return None
    places = zip(numbers, each.ins[0], sizes, strict=True)
    return [minimum(maximum(np.asarray(at).item(), 0), n - size) for at, n, size in places]


def _dynamic_part(each: Asked) -> Iterator[Region]:
    starts = _starts(each, each.numbers[1:], each.outs[0])
    yield WHOLE if starts is None else regions.sliced(each.region, each.outs[0], starts, (1,) * len(starts))


def _updated(each: Asked) -> Iterator[Region]:
    """Of an array a part of which is replaced, what lies beside it; and the part, where it is asked for."""
    starts = _starts(each, each.numbers[2:], each.ins[1])
    if starts is None:
        yield from (needs.beside_some(each, each.ins[1]), WHOLE)
        return
    part = tuple((at, at + size, 1) for at, size in zip(starts, each.ins[1], strict=True))
    yield regions.outside(each.region, part)
    found = each.region
    for axis, (at, size) in enumerate(zip(starts, each.ins[1], strict=True)):
        found = regions.joined(found, axis, at, size)
    yield found


def _unstacked(each: Asked) -> Iterator[Region]:
    axis = each.facts["axis"]
    rows = [(*shape[:axis], 1, *shape[axis:]) for shape in each.outs]
    found = zip(map(regions.box_in, each.wanted, each.outs), each.outs, rows, strict=True)
    return needs.split(each._replace(wanted=[regions.reshaped(*row) for row in found], outs=rows), axis)


def _padded(each: Asked) -> Iterator[Region]:
    low, _, between = zip(*each.facts["padding_config"], strict=True) if each.ins[0] else ((), (), ())
    return needs.padded(each, [*map(int, low)], [int(gap) + 1 for gap in between])


def _gathered(each: Asked) -> Iterator[Region]:
    """Of an array that indices pick of, the places that they name where they are known."""
    numbers, indices = each.facts["dimension_numbers"], picking(each.numbers[1])
    sizes, batched = _sizes(each.facts["slice_sizes"]), getattr(numbers, "operand_batching_dims", ())
    if indices is None:
        yield from _gathered_in_line(each) or _gathered_anywhere(each, sizes)
        return
    if batched:  # which are places of the array too
        own = np.indices(indices.shape[:-1])[[*numbers.start_indices_batching_dims]]
        indices = np.concatenate([indices, np.moveaxis(own, 0, -1)], -1)
    axes, collapsed = (*numbers.start_index_map, *batched), (*numbers.collapsed_slice_dims, *batched)
    if indices.shape == (len(numbers.start_index_map),):  # one part
        at = dict(zip(numbers.start_index_map, indices, strict=True))
        starts = _starts(each, [at.get(axis, 0) for axis in range(len(sizes))], sizes)
        assert starts is not None
        found = regions.along(each.region, sizes, collapsed, kept=False)
        yield regions.sliced(found, sizes, starts, (1,) * len(sizes))
        return
    places = np.clip(indices, 0, [each.ins[0][axis] - sizes[axis] for axis in axes])
    batch = [place for place in range(len(each.outs[0])) if place not in numbers.offset_dims]
    kept = [axis for axis in range(len(sizes)) if axis not in collapsed]
    shown = dict(zip(kept, numbers.offset_dims, strict=True))
    found = regions.each(each.region, lambda box: regions.named(box, places, batch, shown, axes, len(sizes)))
    yield from _gathered_anywhere(each, sizes) if found is WHOLE and batched else [found]


def _gathered_in_line(each: Asked) -> list[Region]:
    """Of an array of which rows are picked evenly apart along axes, so many as nobody knows; nothing of others."""
    numbers, formula, table = each.facts["dimension_numbers"], each.numbers[1], each.ins[0]
    axes, batch = numbers.start_index_map, [d for d in range(len(each.outs[0])) if d not in numbers.offset_dims]
    is_of_rows = batch and sorted(axes) == sorted(numbers.collapsed_slice_dims)
    if not isinstance(formula, Elements) or not is_of_rows:
        return []
    places = [positions.place(d - len(batch)) for d in range(len(batch))]
    left = [axis for axis in range(len(table)) if axis not in axes]
    at = {d: (axis, 1, 0) for d, axis in zip(numbers.offset_dims, left, strict=True)}
    for n, axis in enumerate(axes):
        column = formula.moved(each.ins[1][:-1], [*places, n])
        line = None if column is None else column.line()
        if line is None:
            return []
        first, step, along = line
        if batch[along] not in at and regions.are_inside(first, step, each.outs[0][batch[along]], table[axis]):
            at[batch[along]] = (axis, step, first)
    return [regions.looked_up(each.region, table, at)]


def _gathered_anywhere(each: Asked, sizes: Sequence[Size]) -> Iterator[Region]:
    """Of an array that unknown indices pick of, what the result has of each batch and of dimensions without indices."""
    numbers, shape = each.facts["dimension_numbers"], each.ins[0]
    batch = [place for place in range(len(each.outs[0])) if place not in numbers.offset_dims]
    batched = getattr(numbers, "operand_batching_dims", ())
    left = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims and axis not in batched]
    shown = {axis: at for axis, at in zip(left, numbers.offset_dims, strict=True) if sizes[axis] == shape[axis]}
    shown |= {
        axis: batch[at] for axis, at in zip(batched, getattr(numbers, "start_indices_batching_dims", ()), strict=True)
    }
    every = regions.box_of(shape)

    def part(box: Any) -> list[Any]:
        return [tuple(box[shown[axis]] if axis in shown else edges for axis, edges in enumerate(every))]

    yield regions.each(each.region, part)
    yield regions.each(each.region, lambda box: [(*(box[at] for at in batch), (0, each.ins[1][-1], 1))])


def _solved(each: Asked) -> Iterator[Region]:
    """Of a linear system what the program that solves it needs, and nothing for its check and its gradient."""
    many = each.facts["const_lengths"]
    asked = _of_inputs(open_jaxpr(each.facts["jaxprs"].solve)[0], each.wanted)
    yield from [regions.NOTHING] * (many.matvec + many.vecmat)
    yield from asked[: many.solve]
    yield from [regions.NOTHING] * many.transpose_solve
    yield from asked[many.solve :]


def _scattered(each: Asked) -> Iterator[Region]:
    """Of an array into which values are written, what lies beside the places; all where they are combined.

    Of the values what the result has along dimensions without indices, and of one row for each known place these rows.
    """
    numbers, indices = each.facts["dimension_numbers"], picking(each.numbers[1])
    batched = getattr(numbers, "operand_batching_dims", ())
    axes, shape, updates = numbers.scatter_dims_to_operand_dims, each.ins[0], each.ins[2]
    inside = [axis for axis in range(len(shape)) if axis not in (*numbers.inserted_window_dims, *batched)]
    windows = dict(zip(inside, numbers.update_window_dims, strict=True))
    region, rows = each.region, [place for place in range(len(updates)) if place not in numbers.update_window_dims]
    sizes = [updates[windows[axis]] if axis in windows else 1 for axis in range(len(shape))]
    is_new = not each.facts.get("update_jaxpr")
    many = product(updates[place] for place in rows) // maximum(1, product(shape[axis] for axis in batched))
    if indices is None and is_new and (many == 1 or all(sizes[axis] == 1 for axis in axes)):
        spread = sizes if many == 1 else regions.rows_of(shape, axes, many)
        whole = {axis: shape[axis] for axis in batched} | {axis: spread[axis] for axis in axes}
        region = needs.beside_some(each, [whole.get(axis, size) for axis, size in enumerate(sizes)])
    if indices is not None and is_new and not batched:
        for row in np.unique(indices.reshape(-1, len(axes)), axis=0)[: regions.MOST_BOXES].tolist():
            at = dict(zip(axes, row, strict=True))
            part = tuple((at.get(axis, 0), at.get(axis, 0) + size, 1) for axis, size in enumerate(sizes))
            if all(first >= 0 and last <= size for (first, last, _), size in zip(part, shape, strict=True)):
                region = regions.outside(region, part)

    def written(box: Any) -> Any:
        part = list(regions.box_of(updates))
        for axis, place in windows.items():
            if axis not in axes:
                part[place] = (box[axis][0], minimum(box[axis][1], updates[place]), box[axis][2])
        if indices is None or batched or len(rows) != 1 or len(axes) != 1 or axes[0] in windows:
            return [tuple(part)]
        held = np.flatnonzero(np.isin(indices.reshape(-1), np.arange(*box[axes[0]])))
        return regions.with_rows(tuple(part), rows[0], held) if len(held) else []

    yield from (region, WHOLE, regions.each(each.region, written))


def _multiplied(each: Asked) -> Iterator[Region]:
    """Of each side of a product its rows that the result has, along all that is summed over and meets no known zero."""
    contracted, batched = each.facts["dimension_numbers"]
    letters = [{d: ("batch", n) for n, d in enumerate(own)} for own in batched]
    for side, own in enumerate(contracted):
        letters[side] |= {d: ("sum", n) for n, d in enumerate(own)}
    words = [[letters[side].get(d, (side, d)) for d in range(len(shape))] for side, shape in enumerate(each.ins[:2])]
    free = [letter for side, word in enumerate(words) for letter in word if letter[0] == side]
    return needs.lettered(each, words, [*(("batch", n) for n in range(len(batched[0]))), *free], each.numbers)


def _convolved(each: Asked) -> Iterator[Region]:
    """Of the image and the kernel of a convolution, whose dimensions stand in any order."""
    params, layout = each.facts, each.facts["dimension_numbers"]
    if params["batch_group_count"] != 1:
        return
    laid = ((layout.lhs_spec, each.ins[0]), (layout.out_spec, each.outs[0]), (layout.rhs_spec, each.ins[1]))
    image, out, kernel = ([shape[d] for d in order] for order, shape in laid)
    places = window_places(params, image[2:], out[2:], kernel[2:], lambda size: _sizes([size])[0])
    in_order = regions.moved(each.region, [layout.out_spec.index(d) for d in range(len(out))])
    found = regions.convolved(in_order, kernel, places, params["feature_group_count"])
    yield from map(regions.moved, found, (layout.lhs_spec, layout.rhs_spec))


def _windowed(each: Asked) -> Iterator[Region]:
    taps = _sizes(each.facts["window_dimensions"])
    places = window_places(each.facts, each.ins[0], each.outs[0], taps, lambda size: _sizes([size])[0])
    yield regions.under_windows(regions.union(*map(regions.box_in, each.wanted, each.outs)), places)


_RULES: dict[str, needs.Rule] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshaped),
    "transpose": lambda each: [regions.moved(each.region, each.facts["permutation"])],
    "broadcast_in_dim": lambda each: [regions.broadcast(each.region, each.ins[0], each.facts["broadcast_dimensions"])],
    "rev": lambda each: [regions.flipped(each.region, each.outs[0], each.facts["dimensions"])],
    "tile": needs.repeated, "slice": _sliced, "dynamic_slice": _dynamic_part, "dynamic_update_slice": _updated,
    "split": lambda each: needs.split(each, each.facts["axis"]),
    "stack": lambda each: needs.stacked(each, each.facts["axis"]), "unstack": _unstacked,
    "concatenate": lambda each: needs.joined(each, each.facts["dimension"]),
    "pad": _padded, "gather": _gathered, "dot_general": _multiplied,
    **dict.fromkeys(SCATTERS, _scattered),
    **dict.fromkeys(("optimization_barrier", "tie"), lambda each: each.wanted),
    **dict.fromkeys(
        ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
        lambda each: [regions.up_to(each.region, each.ins[0], each.facts["axis"], each.facts.get("reverse", False))],
    ),
    "sort": lambda each: needs.along(each, (each.facts["dimension"],), many=None),
    **dict.fromkeys(REDUCTIONS, lambda each: needs.along(each, each.facts["axes"], kept=False)),
    **dict.fromkeys((*NAMES, *OTHERS, "integer_pow", "convert_element_type", "stop_gradient", "name", "copy"),
                    needs.alike),
    "mul": lambda each: needs.scaled(each, each.numbers),
    "fft": lambda each: needs.along(each, range(-len(each.facts["fft_lengths"]) % len(each.ins[0]), len(each.ins[0]))),
    "cholesky": lambda each: needs.batched(each, half="lower"),
    "triangular_solve": lambda each: needs.solved(
        each.region, each.ins[0], each.ins[1], each.outs[0], each.facts["left_side"], not each.facts["lower"],
        not each.facts["unit_diagonal"], bool(each.facts["transpose_a"]),
    ),
    "custom_linear_solve": _solved, "select_n": _selected, "scan": _of_loop, "while": _of_while, "cond": _of_branches,
    "conv_general_dilated": _convolved,
    **dict.fromkeys(("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"), _windowed),
    "top_k": lambda each: needs.along(each, [each.facts.get("axis", -1) % len(each.ins[0])]),
    "approx_top_k": lambda each: needs.along(each, [each.facts["reduction_dimension"] % len(each.ins[0])]),
    **dict.fromkeys(("svd", "eigh", "eig", "qr", "geqrf", "lu", "schur"), needs.batched),
}  # fmt: skip


class Scores(NamedTuple):
    """What comes of matmuls element by element; ``mask`` once it is masked, ``soft`` once exponentials are taken."""

    matmuls: frozenset[int]
    mask: Visible | None = None
    soft: bool = False

    def masked(self, other: Visible | None) -> Scores:
        """The scores under one more mask; of masks that do not fit together the first."""
        if other is None or other.parts == positions.EVERYWHERE:
            return self
        both = other if self.mask is None else self.mask.both(other) if self.mask.shape == other.shape else None
        return self._replace(mask=both or self.mask)


Known: TypeAlias = "Elements | Scores | None"


@dataclass
class MaskFinder:
    """The matmuls met so far, and which of them a mask hides part of."""

    matmuls: list[tuple[str, Size]] = field(default_factory=list)
    hidden: dict[int, Visible] = field(default_factory=dict)

    def lines(self) -> dict[str, tuple[Size, Size]]:
        """FLOPs of the masked matmuls by source line, and how many of them are hidden."""
        found: dict[str, tuple[Size, Size]] = {}
        for number, mask in self.hidden.items():
            source, flops = self.matmuls[number]
            seen, every = mask.share() or (0, 0)
            if seen != every:
                total, hidden = found.get(source, (0, 0))
                found[source] = total + flops, hidden + exact_div(flops * (every - seen), every)
        return found

    def walk(self, program: Any, given: Sequence[Known], times: Size = 1) -> list[Known]:
        """Follow a jaxpr that happens so many times; give what is known of its results."""
        jaxpr, held = open_jaxpr(program)
        places = [*jaxpr.constvars, *jaxpr.invars]
        known: dict[Any, Known] = dict(zip(places[len(places) - len(given) :], given, strict=True))
        known |= {var: of_values(value) for var, value in zip(jaxpr.constvars, held or (), strict=False)}
        for eqn in jaxpr.eqns:
            facts = [_known(known, atom) for atom in eqn.invars]
            known.update(zip(eqn.outvars, self._step(eqn, facts, times), strict=True))
        return [_known(known, atom) for atom in jaxpr.outvars]

    def _step(self, eqn: Any, facts: list[Known], times: Size) -> Sequence[Known]:
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return self._scan(params, facts, times)
        inside, own = called_program(eqn), [fact for fact in facts if isinstance(fact, Elements)]
        if inside is not None and params.get("name") in TAKEN_WHOLE and len(own) == len(facts):
            return [of_positions(eqn, own)]
        if inside is not None:
            return self.walk(inside, facts, times)
        nothing: list[Known] = [None] * len(eqn.outvars)
        if len(eqn.outvars) != 1:
            return nothing
        out = value_of(eqn.outvars[0].aval).shape
        if name == "dot_general":
            return [self._matmul(eqn, facts, out, times)]
        if any(isinstance(fact, Scores) for fact in facts):
            return [_scored(name, facts)]
        return [of_positions(eqn, own) if len(own) == len(facts) else None]

    def _scan(self, params: Mapping[str, Any], facts: list[Known], times: Size) -> list[Known]:
        """Slices along the length lose positions along it; what is known of scores and masks stays."""
        shared, moving = scanned(params)
        rows = [fact.row() if isinstance(fact, Elements) else fact for fact in facts[shared + moving :]]
        start: list[Known] = [None] * moving
        length = size_of(params["length"])
        found = self.walk(params["jaxpr"], [*facts[:shared], *start, *rows], times * length)
        stacks = (Elements((length, *e.shape), cases=e.cases) if isinstance(e, Elements) else e for e in found[moving:])
        return [*found[:moving], *stacks]

    def _matmul(self, eqn: Any, facts: list[Known], out: tuple[Size, ...], times: Size) -> Known:
        (left, _), _ = eqn.params["dimension_numbers"]
        shape = value_of(eqn.invars[0].aval).shape
        self.matmuls.append((source_line(eqn), 2 * times * product(out) * product(shape[d] for d in left)))
        for fact in facts:
            if isinstance(fact, Scores) and fact.mask is not None and fact.soft:
                self.hidden[len(self.matmuls) - 1] = fact.mask
                self.hidden |= dict.fromkeys(fact.matmuls, fact.mask)
        return Scores(frozenset((len(self.matmuls) - 1,)))


#: Primitives that work one for one.
_EACH = ("mul", "div", "sub", "add", "add_any", "exp", "exp2", "neg", "max", "min", "tanh", "and", "not", "log",
         "integer_pow", "logistic")  # fmt: skip


def _scored(name: str, facts: list[Known]) -> Scores | None:
    """Scores that a primitive gives: a mask makes them low, or zero once they are soft."""
    scores = [fact for fact in facts if isinstance(fact, Scores)]
    if name == "select_n" and len(facts) == 3 and isinstance(facts[0], Elements):
        first, is_second = scores[0], isinstance(facts[2], Scores)
        other, shown = facts[1 if is_second else 2], facts[0].visible()
        if len(scores) > 1 or not isinstance(other, Elements) or not other.is_at_most(0 if first.soft else HIDDEN):
            return first if len(scores) == 1 else None
        return first.masked(shown if is_second else shown and shown.negated())
    if name in SAME:
        return scores[0]
    if name not in _EACH:
        return None
    found = Scores(frozenset().union(*(fact.matmuls for fact in scores)), soft=any(fact.soft for fact in scores))
    for fact in facts:
        if isinstance(fact, Scores):
            found = found.masked(fact.mask)
        elif fact is not None and fact.shape and name in (("mul",) if found.soft else ("add", "sub")):
            added = positions.worked_out("negative" if name == "sub" else "positive", fact)
            found = found if added is None else found.masked(added.visible(is_added=not found.soft))
    return found._replace(soft=found.soft or name in ("exp", "exp2"))


def _known(known: Mapping[Any, Known], atom: Any) -> Known:
    return of_values(atom.val) if hasattr(atom, "val") else known.get(atom)
