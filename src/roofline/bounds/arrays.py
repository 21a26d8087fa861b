"""A bound over arrays of sizes: its closed form, evaluated column by column when a column is looked up.

Few rows, and questions whose numbers have no closed form (data in whichever level holds it, a mesh of several sizes),
are priced as arrays instead, block by block; an answer over many rows says why.

>>> import numpy as np
>>> from roofline.bounds.api import bound
>>> found = bound("bf16[B, D] * bf16[D, F]", on="h100", B=np.arange(1, 50001), D=8192, F=8192)
>>> type(found).__name__, found.lower.shape, found.bound_by.decode()[::25000]
('ArrayBound', (50000,), ['hbm', 'tensor'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from roofline.bounds.bound import AMOUNTS, Bound
from roofline.bounds.closed_form import question_formula
from roofline.bounds.footprint import Footprint
from roofline.bounds.question import Question
from roofline.errors import RooflineError, SizeError
from roofline.formulas.compiled import Evaluated
from roofline.frozen import replace
from roofline.hardware.rate import WARM
from roofline.sizes import BLOCK, Codes, check, common_shape, is_array, is_symbol, read_only, symbol
from roofline.statements import Assumption, kind_of, without

#: Fields of a bound that are one column each.
SCALARS = (*AMOUNTS, "bound_by")

#: Fields that are a column for each resource, and how these columns are called.
TABLES = {"times": "time", "bytes": "bytes", "wire": "wire", "flops_by": "flops"}


def bound_arrays(asked: Question) -> Bound:
    """Answer a question whose sizes are arrays that broadcast against each other."""
    import numpy as np

    take = check if asked.is_sharded else _array  # which chips divide is a question about sizes
    sizes = {name: take(name, value) for name, value in asked.sizes.items()}
    asked = asked.vary(sizes=sizes).one_plan()
    arrays = {name: value for name, value in sizes.items() if is_array(value)}
    shape = common_shape(arrays)
    rows = int(np.prod(shape))
    said = no_closed_form(asked, arrays) if rows > BLOCK else ()
    if rows > BLOCK and not said:
        found = _by_closed_form(asked, sizes, arrays)
        if found is not None:
            return found
    floats = {name: a.astype(np.float64, copy=False) for name, a in arrays.items()}
    flat = {name: np.broadcast_to(a, shape).reshape(-1) for name, a in floats.items()}
    try:
        parts = [
            asked.vary(sizes={**sizes, **{n: a[start : start + BLOCK] for n, a in flat.items()}}).answer()
            for start in range(0, rows, BLOCK)
        ]
    except SizeError:
        for name, value in arrays.items():
            check(name, value)  # says where in the whole array the mistake is
        raise
    found = _join(parts, {**sizes, **floats}, rows, shape)
    return replace(found, assumptions=(*found.assumptions, *said))


def no_closed_form(asked: Question, varying: Mapping[str, Any]) -> tuple[Assumption, ...]:
    """Why the numbers of a question do not follow from a closed form in the sizes that vary; nothing where they do.

    >>> from roofline.bounds.api import question
    >>> no_closed_form(question(flops=1e12, bytes=1e9, on="h100"), {})
    ('rows are priced as arrays, not by a closed form: the amounts of raw work are the columns themselves',)
    """
    reasons = {
        "rates depend on which level holds the data": asked.machine.over == WARM,
        "the amounts of raw work are the columns themselves": bool(asked.raw),
        "the numbers of chips vary": bool(set(varying) & set(asked.mesh_names)),
    }
    said = "rows are priced as arrays, not by a closed form: "
    return tuple(Assumption("program", f"{said}{reason}") for reason, holds in reasons.items() if holds)[:1]


def evaluated(
    asked: Question, sizes: Mapping[str, Any], varying: Mapping[str, Any], *, checked: bool = False
) -> Evaluated | None:
    """The compiled closed form of a question at sizes of which some vary; None where it has none."""
    fixed = {name: value for name, value in sizes.items() if name not in varying}
    letters = {name: symbol(name, exact=True) for name in varying}
    try:
        formula = question_formula(asked.vary(sizes={**fixed, **letters}))
        return formula.compile().evaluate({name: varying[name] for name in varying}, checked=checked)
    except (RooflineError, NotImplementedError, TypeError, KeyError):
        return None


def said_of_all(sample: Bound, columns: Evaluated) -> tuple[str, ...]:
    """What the answer of one row assumes, with the collectives' algorithms at every size."""
    every = [line for line in columns.function.assumptions if kind_of(line) == "collective"]
    return (*without(sample.assumptions, ("collective",)), *every)


def _by_closed_form(asked: Question, sizes: Mapping[str, Any], arrays: Mapping[str, Any]) -> Bound | None:
    """The answer with its columns still to be evaluated; what it says is that of its first row."""
    import numpy as np

    first = {name: value.reshape(-1)[:1].astype(np.float64) for name, value in arrays.items()}
    for name, value in first.items():
        check(name, value)
    sample = asked.vary(sizes={**sizes, **first}).answer()
    columns = evaluated(asked, sizes, arrays, checked=not asked.formulas)
    if columns is None or tuple(columns.function.times) != tuple(sample.times):
        return None
    if columns.invalid:
        for name, value in arrays.items():
            check(name, value)
        return None
    return ArrayBound.of(sample, columns, sizes)


class _Column:
    """A field of an array's bound: its value, or the columns that it is still to be evaluated from."""

    def __init__(self, slot: Any, name: str, work_out: Callable[[Evaluated, str, Any], Any]) -> None:
        self.slot, self.name, self.work_out = slot, name, work_out

    def __get__(self, found: Any, owner: Any = None) -> Any:
        if found is None:
            return self
        value = self.slot.__get__(found, owner)
        if isinstance(value, _Pending):
            value = read_only(self.work_out(value.columns, self.name, value.sample))
            self.slot.__set__(found, value)
        return value

    def __set__(self, found: Any, value: Any) -> None:
        self.slot.__set__(found, value)


class _Pending:
    """What a field is worked out from: columns, and the same field of a bound of one row."""

    __slots__ = ("columns", "sample")

    def __init__(self, columns: Evaluated, sample: Any) -> None:
        self.columns, self.sample = columns, sample


class _Table(Mapping[str, Any]):
    """A column for each resource, evaluated when it is looked up."""

    __slots__ = ("_columns", "_names")

    def __init__(self, columns: Evaluated, names: dict[str, str]) -> None:
        self._columns, self._names = columns, names

    def __getitem__(self, name: str) -> Any:
        return read_only(self._columns[self._names[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _scalar(columns: Evaluated, name: str, sample: Any) -> Any:
    if sample is None:
        return None
    if name == "bound_by":
        return columns.whole_column(name) if isinstance(sample, Codes) else sample
    return columns[name]


def _table(columns: Evaluated, name: str, sample: Any) -> Any:
    return _Table(columns, {resource: f"{TABLES[name]}.{resource}" for resource in sample})


class ArrayBound(Bound):
    """A bound over arrays, each of whose columns is evaluated when it is looked up first."""

    __slots__ = ()

    @classmethod
    def of(
        cls, sample: Bound, columns: Evaluated, sizes: Mapping[str, Any], needed: Footprint | None = None
    ) -> ArrayBound:
        """Take what a bound of one row says, the columns of all rows, and the memory they need."""
        found = object.__new__(cls)
        for each in fields(Bound):
            value = getattr(sample, each.name)
            pending = each.name in SCALARS or each.name in TABLES
            object.__setattr__(found, each.name, _Pending(columns, value) if pending else value)
        asked = sample.question and sample.question.vary(sizes=dict(sizes))
        whole = {"sizes": dict(sizes), "question": asked, "uses": (), "ops": (), "footprint": needed}
        for name, value in whole.items():
            object.__setattr__(found, name, value)
        object.__setattr__(found, "assumptions", said_of_all(sample, columns))
        return found


for _name in (*SCALARS, *TABLES):
    setattr(ArrayBound, _name, _Column(Bound.__dict__[_name], _name, _table if _name in TABLES else _scalar))


def _array(name: str, value: Any) -> Any:
    """Take an array of numbers as it is, to be checked when it is evaluated; another size is checked at once."""
    if is_array(value) and value.dtype.kind in "iuf" and value.size:
        return value
    return value if is_symbol(value) else check(name, value)


def _join(parts: list[Bound], sizes: Mapping[str, Any], rows: int, shape: tuple[int, ...]) -> Bound:
    """Put blocks of answers back together in the shape the sizes broadcast to."""
    import numpy as np

    def joined(values: list[Any]) -> Any:
        if values[0] is None:
            return None
        counts = [min(BLOCK, rows - i * BLOCK) for i in range(len(values))]
        return np.concatenate([np.broadcast_to(v, (n,)) for v, n in zip(values, counts, strict=True)]).reshape(shape)

    def each(pick: Callable[[Bound], Mapping[str, Any]]) -> dict[str, Any]:
        names = dict.fromkeys(key for p in parts for key in pick(p))  # a block of ones may lack what others have
        return {key: joined([pick(p).get(key, 0.0) for p in parts]) for key in names}

    tables = {name: each(lambda part, name=name: getattr(part, name)) for name in TABLES}  # type: ignore[misc]
    scalars = {name: joined([getattr(p, name) for p in parts]) for name in AMOUNTS}
    codes = None if parts[0].bound_by is None else Codes.of(tables["times"])
    asked = parts[0].question and parts[0].question.vary(sizes=sizes)
    changed: dict[str, Any] = {**tables, **scalars, "sizes": sizes, "question": asked, "bound_by": codes}
    return replace(parts[0], **{**changed, "uses": (), "ops": (), "footprint": None})


__all__ = ["ArrayBound", "bound_arrays", "evaluated", "no_closed_form", "said_of_all"]
