"""A line over arrays of sizes: its closed form, or priced as arrays, a block of rows after the other.

``bound`` over arrays, a sweep in memory and a grid in blocks all ask an :class:`ArrayLine`. Few rows, and questions
whose numbers have no closed form (data in whichever level holds it, a mesh of several sizes), are priced as arrays; an
answer over many rows says why. Columns of a closed form are worked out when they are looked up.

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
from roofline.bounds.memory import Footprint
from roofline.bounds.question import Question, resolve_sizes, without_helpers
from roofline.errors import RooflineError, SizeError
from roofline.formulas.compiled import Compiled, Evaluated
from roofline.formulas.tables import stacked
from roofline.frozen import NamedTuple, replace
from roofline.hardware.rate import WARM
from roofline.lazy import np
from roofline.sizes import BLOCK, Codes, check, common_shape, is_array, is_symbol, read_only
from roofline.statements import Assumption, kind_of, without

#: Fields of a bound that are one column each.
SCALARS = (*AMOUNTS, "bound_by")

#: Fields that are a column for each resource, and how these columns are called.
TABLES = {"times": "time", "bytes": "bytes", "wire": "wire", "flops_by": "flops"}


class ArrayLine:
    """A line on one machine over sizes of which some vary; it travels to workers.

    ``first`` are the sizes of its first row, of all rows where these are few: arrays where they vary. ``formulas`` are
    sizes that follow from others. Figures of raw work may vary too. Where rows ``may_fail``, those that cannot be have
    no figures, and ``failed`` counts them by the reason.
    """

    def __init__(
        self,
        asked: Question,
        first: Mapping[str, Any],
        formulas: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> None:
        self.asked, self.first, self.formulas, self.may_fail = asked, first, formulas or {}, may_fail
        self.assumptions: dict[str, None] = {}
        self.incomplete: dict[str, None] = {}
        self.failed: dict[str, int] = {}
        self._sample: tuple[Bound, Any, dict[str, int]] | None = None

    def __reduce__(self) -> Any:
        """Travel without answers."""
        return ArrayLine, (self.asked, self.first, self.formulas, self.may_fail)

    @property
    def sample(self) -> Bound:
        """The answer to the first rows."""
        return self._first[0]

    @property
    def _first(self) -> tuple[Bound, Any, dict[str, int]]:
        """The answer to the first rows, which of them cannot be, and why."""
        if self._sample is None:
            self._sample = self._answered(self.with_formulas(self.first))
        return self._sample

    def _answered(
        self, sizes: Mapping[str, Any], spare: Mapping[str, Any] | None = None
    ) -> tuple[Bound, Any, dict[str, int]]:
        return asked_of_rows(sizes, self.answer, spare) if self.may_fail else (self.answer(sizes), None, {})

    @property
    def sizes_of_line(self) -> dict[str, Any]:
        """Sizes of its first rows, without those that were given for others alone."""
        return self.without_helpers(self.with_formulas(self.first))

    def with_formulas(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes with those that follow from them."""
        return resolve_sizes({**sizes, **self.formulas}) if self.formulas else dict(sizes)

    def answer(self, sizes: Mapping[str, Any]) -> Bound:
        """The answer at sizes, and at amounts of raw work."""
        raw = {name: sizes[name] for name in self.asked.raw if name in sizes}
        given = {name: size for name, size in sizes.items() if name not in raw}
        return self.asked.vary(sizes=self.without_helpers(given), raw={**self.asked.raw, **raw}).answer()

    def without_helpers(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of the line itself."""
        return without_helpers(sizes, self.formulas, self.asked.size_names)

    @property
    def no_closed_form(self) -> tuple[Assumption, ...]:
        """Why its numbers do not follow from a closed form in the sizes that vary; nothing where they do.

        >>> from roofline.bounds.api import question
        >>> ArrayLine(question(flops=1e12, bytes=1e9, on="h100"), {}).no_closed_form
        ('rows are priced as arrays, not by a closed form: the amounts of raw work are the columns themselves',)
        """
        varying = {name for name, value in self.with_formulas(self.first).items() if is_array(value)}
        reasons = {
            "rates depend on which level holds the data": self.asked.machine.over == WARM,
            "the amounts of raw work are the columns themselves": bool(self.asked.raw),
            "the numbers of chips vary": bool(varying & set(self.asked.mesh_names)),
        }
        said = "rows are priced as arrays, not by a closed form: "
        return tuple(Assumption("program", f"{said}{reason}") for reason, holds in reasons.items() if holds)[:1]

    def compiled(self) -> Compiled | None:
        """The closed form in the sizes that vary; None where it has none."""
        sizes = self.sizes_of_line
        if self.no_closed_form:
            return None
        try:
            found = question_formula(self.asked.vary(sizes=sizes)).compile()
        except (RooflineError, NotImplementedError, TypeError, KeyError):
            return None
        varies = {name for name, value in sizes.items() if is_array(value)}
        return found if tuple(found.times) == tuple(self.sample.times) and {*found.sizes} == varies else None

    @property
    def spare(self) -> dict[str, Any]:
        """Sizes of a row that can be."""
        wrong = self._first[1]
        at = 0 if wrong is None else int(wrong.argmin())
        return {n: v[at : at + 1] if is_array(v) else v for n, v in self.with_formulas(self.first).items()}

    def priced(
        self, sizes: Mapping[str, Any], rows: int, columns: Callable[[Bound], Mapping[Any, Any]],
        told: Callable[[int], None] | None = None,
    ) -> dict[Any, Any]:  # fmt: skip
        """``columns`` of the answers to so many rows, whose sizes are flat arrays or numbers, block after block.

        ``told`` is told of the rows that are done. Where it is given Ctrl-C stops the work, and the rest is NaN.
        """
        blocks, done = list[dict[Any, Any]](), 0
        try:
            for start in range(0, rows, BLOCK):
                part = {n: v[start : start + BLOCK] if is_array(v) else v for n, v in sizes.items()}
                known = rows <= BLOCK and _alike(part, self.first)
                answer, wrong, why = self._first if known else self._answered(self.with_formulas(part), self.spare)
                self.assumptions |= dict.fromkeys(answer.assumptions)
                self.incomplete |= dict.fromkeys(answer.incomplete)
                blocks.append(dict(columns(answer)))
                if wrong is not None:
                    blocks[-1] = {name: unknown_at(each, wrong) for name, each in blocks[-1].items()}
                    for rule, count in why.items():
                        self.failed[rule] = self.failed.get(rule, 0) + count
                done = min(start + BLOCK, rows)
                if told is not None:
                    told(done)
        except KeyboardInterrupt:
            if told is None or not done:
                raise
        counts = [min(BLOCK, rows - start) for start in range(0, done, BLOCK)]
        names = dict.fromkeys(name for block in blocks for name in block)
        left = [] if done == rows else [rows - done]

        def joined(name: Any) -> Any:
            parts = [block.get(name, 0.0) for block in blocks]  # a block of ones may lack what others have
            flat = [_in_rows(each, count) for each, count in zip(parts, counts, strict=True)]
            return None if parts[0] is None else stacked([*flat, *[None for _ in left]], [*counts, *left])

        return {name: joined(name) for name in names}


def asked_of_rows(
    sizes: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Any], spare: Mapping[str, Any] | None = None
) -> tuple[Any, Any, dict[str, int]]:
    """What is asked of rows, which of them cannot be, and how many by the reason; these take the sizes of one that can.

    That is the first that can, of none ``spare``. Where no row can be, and there is none to spare, it is an error.
    """
    wrong, why = None, dict[str, int]()
    while True:
        try:
            return ask(sizes), wrong, why
        except SizeError as error:
            rows = {value.shape for value in sizes.values() if is_array(value)}
            if error.rows is None or rows != {np.shape(error.rows)}:
                raise
            every = error.rows if wrong is None else wrong | error.rows
            if (spare is None and every.all()) or (wrong is not None and (every == wrong).all()):
                raise
            why[error.rule] = why.get(error.rule, 0) + int(every.sum()) - sum(why.values())
            wrong = every
        if not wrong.all():
            good = int(wrong.argmin())
            spare = {name: value[good] for name, value in sizes.items() if is_array(value)}
        assert spare is not None
        sizes = {name: np.where(wrong, spare[name], v) if is_array(v) else v for name, v in sizes.items()}


def column_of(answer: Any, name: str) -> Any:
    """A column of an answer, a line's or a step's, by the name that tables have for it; None where it is not known.

    >>> from roofline.bounds.api import bound
    >>> found = bound("bf16[B, D] * bf16[D, F]", on="h100", B=8, D=64, F=64)
    >>> [column_of(found, name) for name in ("bytes", "memory", "fits", "bound_by", "time.ici")]
    [10240, 10240, True, 'hbm', 0.0]
    """
    kind, _, part = name.partition(".")
    if kind == "time":
        return answer.times.get(part, 0.0)
    if kind == "memory" or name == "fits":
        held = answer.footprint
        whole = held and (held.fits if name == "fits" else held.total)
        return whole if held is None or not part else held.parts.get(part, 0.0)
    return sum(answer.bytes.values()) if name == "bytes" else getattr(answer, name)


def unknown_at(value: Any, wrong: Any) -> Any:
    """A column without the figures of some rows."""
    if value is None:
        return None
    whole = _in_rows(value, len(wrong))
    if isinstance(whole, Codes):
        return Codes(np.where(wrong, len(whole.names), whole.codes), (*whole.names, ""))
    return np.where(wrong, np.nan, whole)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether sizes are those of other rows."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def _in_rows(value: Any, rows: int) -> Any:
    """A column of some rows, which an answer may say in one value."""
    if isinstance(value, str):
        return Codes(np.zeros(rows, np.int8), (value,))
    if isinstance(value, Codes) or value is None:
        return value
    return np.broadcast_to(value, (rows,))


def bound_arrays(asked: Question) -> Bound:
    """Answer a question whose sizes are arrays that broadcast against each other."""
    take = check if asked.is_sharded else _array  # which chips divide is a question about sizes
    sizes = {name: take(name, value) for name, value in asked.sizes.items()}
    asked = asked.vary(sizes=sizes).one_plan()
    arrays = {name: value for name, value in sizes.items() if is_array(value)}
    shape = common_shape(arrays)
    rows = int(np.prod(shape))
    try:
        line = ArrayLine(asked, {**sizes, **_flat(arrays, shape, rows <= BLOCK)})
        function = line.compiled() if rows > BLOCK else None
        columns = None if function is None else function.evaluate(arrays, checked=not asked.formulas)
        if columns is not None and not columns.invalid:
            return ArrayBound.of(line.sample, columns, sizes)
        for name, value in arrays.items() if columns is not None else ():
            check(name, value)
        found = line.priced({**sizes, **_flat(arrays, shape)}, rows, _columns)
    except SizeError:
        for name, value in arrays.items():
            check(name, value)  # says where in the whole array the mistake is
        raise
    floats = {name: a.astype(np.float64, copy=False) for name, a in arrays.items()}
    whole = {"sizes": {**sizes, **floats}, "question": asked.vary(sizes={**sizes, **floats})}
    said = (*line.assumptions, *(line.no_closed_form if rows > BLOCK else ()))
    return _joined(line, found, shape, {**whole, "assumptions": said, "incomplete": tuple(line.incomplete)})


def _flat(arrays: Mapping[str, Any], shape: tuple[int, ...], every: bool = True) -> dict[str, Any]:
    """Sizes of all rows, one after the other, or of the first row alone."""
    flat = {name: np.broadcast_to(a, shape).reshape(-1) if every else a.reshape(-1)[:1] for name, a in arrays.items()}
    return {name: values.astype(np.float64, copy=False) for name, values in flat.items()}


def _columns(answer: Bound) -> Mapping[tuple[str, str], Any]:
    """Every field of a bound that is a column, and its columns by resource."""
    tables = {(name, key): each for name in TABLES for key, each in getattr(answer, name).items()}
    return {**{(name, ""): getattr(answer, name) for name in AMOUNTS}, **tables}


def _joined(line: ArrayLine, columns: Mapping[Any, Any], shape: tuple[int, ...], changed: Mapping[str, Any]) -> Bound:
    """The answer to all rows whose columns these are, in the shape of the sizes."""
    fields_of: dict[str, dict[str, Any]] = {name: {} for name in (*AMOUNTS, *TABLES)}
    for (name, key), each in columns.items():
        fields_of[name][key] = each if each is None else each.reshape(shape)
    tables = {name: each if name in TABLES else each[""] for name, each in fields_of.items()}
    codes = None if line.sample.bound_by is None else Codes.of(fields_of["times"])
    return replace(line.sample, **{**tables, **changed, "bound_by": codes, "uses": (), "ops": (), "footprint": None})


def said_of_all(sample: Bound, function: Compiled) -> tuple[str, ...]:
    """What the answer of one row assumes, with the collectives' algorithms at every size."""
    every = [line for line in function.assumptions if kind_of(line) == "collective"]
    return (*without(sample.assumptions, ("collective",)), *every)


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


class _Pending(NamedTuple):
    """What a field is worked out from: columns, and the same field of a bound of one row."""

    columns: Evaluated
    sample: Any


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
        object.__setattr__(found, "assumptions", said_of_all(sample, columns.function))
        return found


for _name in (*SCALARS, *TABLES):
    setattr(ArrayBound, _name, _Column(Bound.__dict__[_name], _name, _table if _name in TABLES else _scalar))


def _array(name: str, value: Any) -> Any:
    """Take an array of numbers as it is, to be checked when it is evaluated; another size is checked at once."""
    if is_array(value) and value.dtype.kind in "iuf" and value.size:
        return value
    return value if is_symbol(value) else check(name, value)


__all__ = ["ArrayBound", "ArrayLine", "asked_of_rows", "bound_arrays", "column_of", "said_of_all", "unknown_at"]
