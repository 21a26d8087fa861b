"""Masked scores in a jaxpr: what a causal or windowed mask hides of the matmuls that make and use attention scores.

A program that masks its scores and takes their softmax computes all of them, so all are counted. How much is hidden is
found by following positions (``iota``), comparisons of positions (a band of the score matrix), the choice they make
between scores and a constant, and the exponential after it.

>>> pairs(4, 4, Band(0, None)), pairs(4, 4, Band(0, 1)), pairs(2, 6, Band(-4, None))
(10, 7, 11)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from roofline.frozen import NamedTuple
from roofline.ops.masks import BandMask
from roofline.programs.jax.registry import scanned, size_of, value_of
from roofline.programs.jax.walker import called_program, open_jaxpr, source_line
from roofline.sizes import Size, exact_div, is_symbol, product


class Positions(NamedTuple):
    """0, 1, 2 … along one axis, plus an offset."""

    axis: int
    offset: int


class Band(NamedTuple):
    """Pairs of a row i and a column j with low <= i - j <= high; None is no limit."""

    low: int | None
    high: int | None


class Mask(NamedTuple):
    """True, 1 or 0 where seen: so many pairs of all; the bands of several masks joined by "and"."""

    band: Band
    rows: Size
    columns: Size


class Constant(NamedTuple):
    """One number everywhere."""

    number: Any


class Scores(NamedTuple):
    """What comes of matmuls element by element; ``mask`` once it is masked, ``soft`` once exponentials are taken."""

    matmuls: frozenset[int]
    mask: Mask | None = None
    soft: bool = False


Known: TypeAlias = "Positions | Mask | Constant | Scores | None"


def pairs(rows: Size, columns: Size, band: Band) -> Size:
    """Pairs of a band."""
    after = None if band.low is None else -band.low
    return BandMask(offset=0, before=band.high, after=after).pairs(rows, columns)


def constant(value: Any) -> Known:
    """What an array that the program holds is: positions in order, or the causal mask of a square."""
    import numpy as np

    if np.ndim(value) == 1 and np.size(value) and np.issubdtype(np.asarray(value).dtype, np.integer):
        numbers = np.asarray(value)
        first = int(numbers[0])
        return Positions(0, first) if np.array_equal(numbers, np.arange(first, first + numbers.size)) else None
    if np.ndim(value) >= 2 and np.size(value) == np.prod(np.shape(value)[-2:]):
        rows, columns = np.shape(value)[-2:]
        seen = np.asarray(value).reshape(rows, columns)
        seen = seen == 0 if seen.size and seen.flat[-1] == 0 and seen.min() < 0 else seen != 0
        return Mask(Band(0, None), rows, columns) if np.array_equal(seen, np.tri(rows, columns, dtype=bool)) else None
    return None


@dataclass
class MaskFinder:
    """The matmuls met so far, and which of them a mask hides part of."""

    matmuls: list[tuple[str, Size]] = field(default_factory=list)
    hidden: dict[int, Mask] = field(default_factory=dict)

    def lines(self) -> dict[str, tuple[Size, Size]]:
        """FLOPs of the masked matmuls by source line, and how many of them are hidden."""
        found: dict[str, tuple[Size, Size]] = {}
        for number, mask in self.hidden.items():
            source, flops = self.matmuls[number]
            seen = pairs(mask.rows, mask.columns, mask.band)
            if seen != mask.rows * mask.columns:
                total, hidden = found.get(source, (0, 0))
                unseen = mask.rows * mask.columns - seen
                found[source] = total + flops, hidden + exact_div(flops * unseen, mask.rows * mask.columns)
        return found

    def walk(self, program: Any, given: Sequence[Known], times: Size = 1) -> list[Known]:
        """Follow a jaxpr that happens so many times; give what is known of its results."""
        jaxpr, held = open_jaxpr(program)
        places = [*jaxpr.constvars, *jaxpr.invars]
        known: dict[Any, Known] = dict(zip(places[len(places) - len(given) :], given, strict=True))
        known |= {var: constant(value) for var, value in zip(jaxpr.constvars, held or (), strict=False)}
        for eqn in jaxpr.eqns:
            numbers = [hasattr(v, "val") and not v.aval.shape for v in eqn.invars]
            pairs = zip(eqn.invars, numbers, strict=True)
            facts = [Constant(v.val) if is_number else _known(known, v) for v, is_number in pairs]
            known.update(zip(eqn.outvars, self._step(eqn, facts, times), strict=True))
        return [_known(known, v) for v in jaxpr.outvars]

    def _step(self, eqn: Any, facts: list[Known], times: Size) -> Sequence[Known]:
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return self._scan(params, facts, times)
        inside = called_program(eqn)
        if inside is not None:
            return self.walk(inside, facts, times)
        nothing: list[Known] = [None] * len(eqn.outvars)
        if len(eqn.outvars) != 1:
            return nothing
        shapes = [value_of(v.aval).shape for v in eqn.invars]
        out = value_of(eqn.outvars[0].aval).shape
        if name == "dot_general":
            return [self._matmul(eqn, facts, out, times)]
        if name == "select_n" and len(facts) == 3:
            return [self._chosen(facts)]
        if name in _COMPARED:
            return [_compared(name, facts, out)]
        return [_followed(name, params, facts, shapes, out)]

    def _scan(self, params: Mapping[str, Any], facts: list[Known], times: Size) -> list[Known]:
        """Slices along the length lose their positions; what is known of scores and masks stays."""
        shared, moving = scanned(params)
        rows = [None if isinstance(fact, Positions) else fact for fact in facts[shared + moving :]]
        start: list[Known] = [None] * moving
        length = times * size_of(params["length"])
        found = self.walk(params["jaxpr"], [*facts[:shared], *start, *rows], length)
        return [None if isinstance(fact, Positions) else fact for fact in found]

    def _matmul(self, eqn: Any, facts: list[Known], out: tuple[Size, ...], times: Size) -> Known:
        (left, _), _ = eqn.params["dimension_numbers"]
        shape = value_of(eqn.invars[0].aval).shape
        self.matmuls.append((source_line(eqn), 2 * times * product(out) * product(shape[d] for d in left)))
        for fact in facts:
            if isinstance(fact, Scores) and fact.mask is not None and fact.soft:
                self.hidden[len(self.matmuls) - 1] = fact.mask
                self.hidden |= dict.fromkeys(fact.matmuls, fact.mask)
        return Scores(frozenset((len(self.matmuls) - 1,)))

    def _chosen(self, facts: list[Known]) -> Known:
        """A choice by a mask: between numbers it is a mask again, between scores and a number it masks them."""
        which, no, yes = facts
        if not isinstance(which, Mask):
            return None
        if isinstance(no, Constant) and isinstance(yes, Constant):
            return which if yes.number > no.number else _other(which)  # what is seen is True, 1, or 0 against −∞
        if isinstance(yes, Scores):
            return yes._replace(mask=_both(yes.mask, which))
        if isinstance(no, Scores):
            return no._replace(mask=_both(no.mask, _other(which)))
        return None


_COMPARED = {"ge": (0, 1), "gt": (1, 1), "le": (0, -1), "lt": (1, -1), "eq": (0, 0), "ne": (0, 0)}
#: Primitives that give the same elements in another form, or one for one.
_SAME = ("convert_element_type", "stop_gradient", "copy", "reshape", "squeeze", "expand_dims", "transpose",
         "broadcast_in_dim", "optimization_barrier", "name", "sharding_constraint", "pvary")  # fmt: skip
_EACH = ("mul", "div", "sub", "add", "add_any", "exp", "exp2", "neg", "max", "min", "tanh", "and", "not", "log",
         "integer_pow", "logistic")  # fmt: skip


def _compared(name: str, facts: list[Known], out: tuple[Size, ...]) -> Known:
    """Positions against positions along another axis: a band. A mask of numbers against zero: the mask."""
    first, second = facts
    if isinstance(first, Mask) and isinstance(second, Constant) and name in ("eq", "ne", "gt"):
        return _other(first) if name == "eq" else first
    if not (isinstance(first, Positions) and isinstance(second, Positions)) or first.axis == second.axis:
        return None
    strict, way = _COMPARED[name]
    if not way:
        return None
    shift = second.offset - first.offset  # way·(i - j - shift) >= strict
    band = Band(shift + strict, None) if way > 0 else Band(None, shift - strict)
    if first.axis > second.axis:
        band = Band(None if band.high is None else -band.high, None if band.low is None else -band.low)
    low, high = sorted((first.axis, second.axis))
    return Mask(band, out[low], out[high])


def _followed(name: str, params: Mapping[str, Any], facts: list[Known], shapes: Any, out: tuple[Size, ...]) -> Known:
    if name == "iota":
        return Positions(params["dimension"], 0)
    if name in _SAME:
        return _moved(name, params, facts[0], shapes[0], out)
    if name not in _EACH:
        return None
    if name == "not" and isinstance(facts[0], Mask):
        return _other(facts[0])
    if name in ("add", "sub", "mul") and any(isinstance(fact, Positions) for fact in facts):
        return _shifted(name, facts)
    masks = [fact for fact in facts if isinstance(fact, Mask)]
    scores = [fact for fact in facts if isinstance(fact, Scores)]
    if scores:
        made = Scores(frozenset().union(*(fact.matmuls for fact in scores)), soft=any(fact.soft for fact in scores))
        for mask in (*(fact.mask for fact in scores), *masks):
            made = made._replace(mask=_both(made.mask, mask) if mask is not None else made.mask)
        return made._replace(soft=made.soft or (name in ("exp", "exp2") and made.mask is not None))
    if masks and name in ("and", "mul"):
        return masks[0] if len(masks) == 1 else _both(*masks)
    return facts[0] if len(facts) == 1 and isinstance(facts[0], Constant) else None


def _moved(name: str, params: Mapping[str, Any], fact: Known, shape: Any, out: tuple[Size, ...]) -> Known:
    """Positions keep their axis through forms that say where it goes; other facts hold in any form."""
    if not isinstance(fact, Positions) or shape == out:
        return None if name == "transpose" and isinstance(fact, Positions) else fact
    if name == "broadcast_in_dim":
        return fact._replace(axis=params["broadcast_dimensions"][fact.axis])
    longer = [axis for axis, size in enumerate(out) if is_symbol(size) or size > 1]
    return fact._replace(axis=longer[0]) if len(longer) == 1 and name != "transpose" else None


def _shifted(name: str, facts: list[Known]) -> Positions | None:
    """Positions plus or minus a number, or times one."""
    first, second = facts
    if isinstance(second, Positions) and name != "sub":
        first, second = second, first
    if not (isinstance(first, Positions) and isinstance(second, Constant)):
        return None
    if name == "mul":
        return first if second.number == 1 else None
    return first._replace(offset=first.offset + (1 if name == "add" else -1) * int(second.number))


def _other(mask: Mask) -> Mask | None:
    """What a mask hides, where that is one band."""
    low, high = mask.band
    if low is not None and high is None:
        return mask._replace(band=Band(None, low - 1))
    return mask._replace(band=Band(high + 1, None)) if high is not None and low is None else None


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    """What two masks both leave."""
    if first is None or second is None or first == second:
        return first or second
    if (first.rows, first.columns) != (second.rows, second.columns):
        return first
    lows = [band.low for band in (first.band, second.band) if band.low is not None]
    highs = [band.high for band in (first.band, second.band) if band.high is not None]
    return first._replace(band=Band(max(lows, default=None), min(highs, default=None)))


def _known(known: Mapping[Any, Known], atom: Any) -> Known:
    return None if hasattr(atom, "val") else known.get(atom)
