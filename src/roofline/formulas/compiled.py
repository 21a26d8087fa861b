"""A closed form as a function of arrays: compiled once, evaluated in blocks that stay in cache, column by column.

>>> import numpy as np, sympy
>>> from roofline.sizes import symbol
>>> B, W, P = symbol("B"), sympy.Symbol("W_hbm", positive=True), sympy.Symbol("P_bf16", positive=True)
>>> times = {"hbm": 2 * B / W, "tensor": B**2 / P}
>>> f = Compiled("demo", {"B": B}, {"W_hbm": 4.0, "P_bf16": 8.0}, {"flops": B**2}, times)
>>> found = f(B=np.array([1, 4, 16]))
>>> found["lower"].tolist(), found["bound_by"].tolist(), found["flops"].tolist()
([0.5, 2.0, 32.0], ['hbm', 'hbm', 'tensor'], [1.0, 16.0, 256.0])
>>> f(B=4, W_hbm=np.array([4.0, 1.0]))["time.hbm"].tolist()
[2.0, 8.0]

What stands for no size, or breaks a condition of the formula, is NaN, and is counted:

>>> found = f(B=np.array([0.5, 4]))
>>> found["lower"].tolist(), found.invalid
([nan, 2.0], {'B is no whole number of at least 1': 1})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product, starmap
from math import prod
from threading import local
from typing import Any

from roofline.errors import InputError, SizeError, check_one_of
from roofline.formulas.column_code import Code, ColumnForms, Printed, column_code
from roofline.formulas.printers import printer
from roofline.formulas.tables import Columns, column_meant
from roofline.frozen import Frozen, NamedTuple, dataclass, field
from roofline.lazy import np
from roofline.quantity import agree
from roofline.signatures import check_methods
from roofline.sizes import BLOCK, LARGEST, TIE, Codes, common_shape, is_array

#: Columns that follow from the times of the resources.
SUMMARIES = ("lower", "upper", "bound_by")

#: A part of each axis: from where to where.
Ranges = tuple[tuple[int, int], ...]

#: Fills in columns at a block of rows, whose place in the whole arrays it is given.
Filler = Callable[[tuple[slice, ...], Sequence[Any]], None]


class ValidRange(NamedTuple):
    """What must hold for a formula to: a relation of sizes, and what is said of rows where it does not."""

    holds: Any
    reason: str


@check_methods
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compiled:
    """A function of sizes: ``f(B=…, D=…)`` gives columns, of numbers, arrays that broadcast, or both.

    Arrays of PyTorch and JAX are taken too; columns are arrays of numpy, which ``torch.from_numpy`` takes.

    ``forms`` are columns as closed forms, ``times`` those of the resources: they are the columns ``time.hbm`` and so
    on, and ``lower`` (the largest), ``upper`` (their sum) and ``bound_by`` follow from them where ``forms`` has no
    others. Of several ``ways`` each row takes the one with the least ``lower`` of those whose ``case`` it is; one
    of them is as many as its ``tried`` has values of a symbol.
    ``rates`` may be given to a call too. A size in ``from_zero`` may be 0. ``definitions`` are what symbols in the
    forms stand for that are neither sizes nor rates (:class:`roofline.sizes.Definitions`). ``incomplete`` is not timed,
    ``assumptions`` hold of every row. ``on`` names the machine.
    """

    name: str
    sizes: Mapping[str, Any]
    rates: Mapping[str, float]
    forms: Mapping[str, Any]
    times: Mapping[str, Any]
    conditions: tuple[ValidRange, ...] = ()
    from_zero: tuple[str, ...] = ()
    ways: tuple[Compiled, ...] = ()
    definitions: Mapping[Any, Any] = field(default_factory=dict)
    incomplete: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    case: ValidRange | None = None
    on: str = ""
    tried: Mapping[str, Sequence[int]] = Frozen()
    _made: dict[Any, Any] = field(default_factory=dict)
    _simple: dict[bool, dict[Any, Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Compiled {self.name}: {len(self.columns)} columns over {', '.join(self.sizes)}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns there are."""
        times = tuple(f"time.{name}" for name in self.times)
        summaries = tuple(name for name in SUMMARIES if self.times and name not in self.forms)
        return (*self.forms, *summaries, *times)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that may bind, in each of several ways."""
        return tuple(dict.fromkeys(name for way in (self.ways or (self,)) for name in way.times))

    def __call__(self, /, columns: Sequence[str] | None = None, *, cores: int = 1, **values: Any) -> Evaluated:
        """Evaluate it; a column is worked out when it is looked up, those in ``columns`` at once."""
        return self.evaluate(values, columns, cores)

    def evaluate(
        self, values: Mapping[str, Any], columns: Sequence[str] | None = None, cores: int = 1, *, checked: bool = False
    ) -> Evaluated:
        """Evaluate it for sizes and rates by name; ``checked`` ones are known to be sizes."""
        known = (*self.sizes, *self.rates)
        for name in values:
            check_one_of(f"{self.name} has no size {name!r}", name, known, "sizes and rates", error=SizeError)
        if both := next((name for name in self.sizes if name in self.columns), ""):
            raise SizeError(f"size {both!r} has the name of a column of the answer", hint="give it another")
        missing = [name for name in self.sizes if name not in values]
        if missing:
            raise SizeError(f"size {missing[0]} has no value", hint=f"give it, as in {missing[0]}=1024")
        given = {name: _values(name, value) for name, value in values.items()}
        arrays = {name: value for name, value in given.items() if is_array(value)}
        shape = common_shape(arrays) if arrays else ()
        found = Evaluated(self, given, shape, int(np.prod(shape)), cores, checked)
        if columns is not None:
            found.work_out(tuple(self.known(name) for name in columns))
        return found

    def known(self, name: str) -> str:
        """Check that there is such a column."""
        if name not in self.columns:
            raise InputError(f"no column {name!r}", hint=column_meant(name, self.columns))
        return name

    def code(self, wanted: tuple[str, ...], arrays: frozenset[str], fixed: bool) -> Code:
        """Compile some columns for sizes and rates of which ``arrays`` are arrays; ``fixed`` rates are numbers."""
        key = (wanted, arrays, fixed)
        if key not in self._made:
            if not all(self.sizes.values()):
                raise InputError(f"{', '.join(wanted)} of {self.name} did not travel", hint="work it out before")
            forms = ColumnForms(self.sizes, self.rates, self.forms, self.times, self.definitions, self._simple)
            self._made[key] = column_code(self.name, forms, wanted, arrays, fixed)
        code: Code = self._made[key]
        return code

    def __reduce__(self) -> Any:
        """Travel as the source of the columns that were made so far, a few kilobytes; others are not made there.

        >>> import pickle, sympy
        >>> from roofline.sizes import symbol
        >>> B = symbol("B")
        >>> f = Compiled("demo", {"B": B}, {}, {"flops": B**2}, {"hbm": 2 * B})
        >>> first = f(["flops"], B=[1, 2])
        >>> pickle.loads(pickle.dumps(f))(B=[3, 4])["flops"].tolist()
        [9.0, 16.0]
        """
        made = {key: code.printed for key, code in self._made.items() if key != "conditions"}
        holds = [*self.conditions, *([self.case] if self.case else [])]
        conditions = tuple((text, each.reason) for text, each in zip(_texts(self, holds), holds, strict=True))
        names = tuple(tuple(each) for each in (self.sizes, self.forms, self.times))
        said = tuple(map(str, self.incomplete)), tuple(map(str, self.assumptions))
        own = (self.name, names, dict(self.rates), conditions, self.case is not None, self.from_zero, self.ways)
        return _arrived, (*own, said, self.on, self.tried, made)


class Evaluated(Columns):
    """The columns of a compiled form at some sizes, each worked out once, when it is looked up first.

    ``shape`` is that to which the sizes broadcast, ``rows_all`` its number of rows; ``invalid`` counts rows that are
    NaN, by the reason.
    """

    __slots__ = ("_checked", "_cores", "_done", "_given", "function", "rows_all", "shape")
    function: Compiled
    shape: tuple[int, ...]
    rows_all: int

    def __init__(
        self, function: Compiled, given: Mapping[str, Any], shape: tuple[int, ...], rows: int, cores: int,
        checked: bool = False,
    ) -> None:  # fmt: skip
        self.function, self.shape, self.rows_all = function, shape, rows
        self._given, self._cores = given, cores
        self._done: dict[str, Any] = {}
        self._checked: tuple[Any, dict[str, int]] | None = None
        if checked and not function.conditions:
            self._checked = None, {}

    @classmethod
    def of_columns(
        cls,
        function: Compiled,
        sizes: Mapping[str, Any],
        columns: Mapping[str, Any],
        wrong: Any,
        why: Mapping[str, int],
    ) -> Evaluated:
        """Columns that were worked out in another way, as flat arrays; ``wrong`` rows have none, counted in ``why``."""
        shape = np.broadcast_shapes(*(np.shape(size) for size in sizes.values()))
        found = cls(function, sizes, shape, prod(shape), 1)
        found._done = {name: column.reshape(shape) for name, column in columns.items()}
        found._checked = wrong.reshape(shape) if why else None, dict(why)
        return found

    @property
    def columns(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Every column, worked out."""
        return {name: self.whole_column(name) for name in (*self._given, *self.function.columns)}

    @property
    def incomplete(self) -> tuple[str, ...]:  # type: ignore[override]
        """What is not timed, and what could not be evaluated, in words."""
        every, lack = f"of {self.rows_all} rows", "have no figures"
        rows = (f"{count} {every} {agree(count, lack)}: {reason}" for reason, count in self.invalid.items())
        return (*self.function.incomplete, *rows)

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(name for name in self._given if name in self.function.sizes)

    @property
    def invalid_rows(self) -> Any:
        """Which rows are NaN; None where none is."""
        return self._validity()[0]

    @property
    def invalid(self) -> dict[str, int]:
        """How many rows are NaN, by the reason."""
        return dict(self._validity()[1])

    def __len__(self) -> int:
        return self.rows_all

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Any:
        return dict.fromkeys((*self._given, *self.function.columns)).keys()

    def __getitem__(self, name: str) -> Any:
        found = self.whole_column(name)
        return found.as_names() if isinstance(found, Codes) else found

    def whole_column(self, name: str) -> Any:
        """A column in the shape of the sizes; what binds as codes."""
        if name in self._given:
            return np.broadcast_to(self._given[name], self.shape)
        if name not in self._done:
            self.work_out((self.function.known(name),))
        return self._done[name]

    def work_out(self, wanted: tuple[str, ...], progress: Callable[[int], None] | None = None) -> int:
        """Evaluate some columns together, block by block, on as many cores as were asked for.

        ``progress`` is told of the rows that are done, in order. Where it is given, Ctrl-C stops the work: the answer
        is how many rows are done, and the rest is NaN.
        """
        if not wanted:
            return self.rows_all
        outs = [np.empty(self.shape, np.int8 if name == "bound_by" else np.float64) for name in wanted]
        fill = _filler(self.function, self._given, wanted, self.shape)

        def run(where: tuple[slice, ...]) -> int:
            into = [out[where or ...] for out in outs]
            with np.errstate(all="ignore"):
                fill(where, into)
            return int(into[0].size)

        done = 0
        try:
            pieces = [tuple(starmap(slice, ranges)) for ranges in cut(self.shape, BLOCK)]
            for rows in _each(run, pieces, self._cores):
                done += rows
                if progress is not None:
                    progress(done)
        except KeyboardInterrupt:
            if progress is None or not done:
                raise
        bad, _ = self._validity()
        complete, names = bad is None and done == self.rows_all, self.function.resources
        for name, out in zip(wanted, outs, strict=True):
            codes = name == "bound_by"
            nothing = len(names) if codes else np.nan
            if bad is not None:
                out[bad] = nothing  # of a single row too: then both have no dimension
            out.reshape(-1)[done:] = nothing
            self._done[name] = Codes(out, names if complete else (*names, "")) if codes else out
        return done

    def fill_in(self, figures: Mapping[str, Any], wrong: Any, why: Mapping[str, int]) -> None:
        """Put figures that were worked out in another way into the invalid rows, in their order, as flat arrays.

        ``wrong`` are those of them that have no figures in this way either, ``why`` counts them by the reason.
        """
        bad, _ = self._validity()
        for name, values in figures.items():
            column = self.whole_column(name)
            if isinstance(column, Codes):
                names = tuple(dict.fromkeys((*self.function.resources, *values.tolist())))
                column.codes[bad] = [names.index(each) for each in values.tolist()]
                column = Codes(column.codes, names)
            else:
                column[bad] = values
            self._done[name] = column
        left = np.zeros(self.shape, bool)
        left[bad] = wrong
        self._checked = left if why else None, dict(why)

    def _validity(self) -> tuple[Any, dict[str, int]]:
        if self._checked is None:
            self._checked = _invalid_rows(self.function, self._given, self.shape)
        return self._checked

    def to_dict(self) -> dict[str, Any]:
        """The columns under stable keys (schema ``roofline/columns/1``): equal-length lists."""
        return {
            "schema": "roofline/columns/1",
            "expression": self.function.name,
            "columns": {name: self.plain(name) for name in self},
            "incomplete": list(self.incomplete),
        }

    def one_line(self) -> str:
        return f"Evaluated: {self.rows_all} rows of {self.function.name}: {', '.join(self.function.columns)}"


def _filler(function: Compiled, given: Mapping[str, Any], wanted: tuple[str, ...], shape: tuple[int, ...]) -> Filler:
    """What fills in columns at a block of rows; of several ways, row by row those of the fastest."""
    if function.ways:
        return _fastest(function, given, wanted, shape)
    arrays = frozenset(name for name, value in given.items() if is_array(value))
    fixed = not any(name in function.rates for name in given)
    code = function.code(wanted, arrays, fixed)
    plain = {**function.rates, **{n: v for n, v in given.items() if not is_array(v)}}
    scalars = code.scalars(*(plain[name] for name in code.takes))
    views = [given[name] for name in code.arrays]
    alike = all(view.shape == shape for view in views)
    kept = local()

    def fill(where: tuple[slice, ...], outs: Sequence[Any]) -> None:
        inputs = [_part(view, where) for view in views]
        if not hasattr(kept, "buffers"):
            kept.buffers = _Buffers(code, alike)
        run = code.rows if alike else code.grid
        run(kept.buffers.for_block(inputs), outs, *scalars, *inputs)

    return fill


class _Buffers:
    """The buffers of a thread, which it keeps from block to block, cut to the shapes of a block."""

    def __init__(self, code: Code, alike: bool) -> None:
        axes = code.rows_buffers if alike else code.grid_buffers
        self.places = [[code.arrays.index(name) for name in each] for each in axes]
        self.space = np.empty((len(axes), BLOCK))
        self.cut: dict[tuple[Any, ...], list[Any]] = {}

    def for_block(self, inputs: Sequence[Any]) -> list[Any]:
        """The buffers for inputs of some shapes."""
        shapes = tuple(each.shape for each in inputs)
        if shapes not in self.cut:
            needed = [np.broadcast_shapes(*(shapes[place] for place in places)) for places in self.places]
            self.cut[shapes] = [self.space[n, : prod(each)].reshape(each) for n, each in enumerate(needed)]
        return self.cut[shapes]


def _fastest(function: Compiled, given: Mapping[str, Any], wanted: tuple[str, ...], shape: tuple[int, ...]) -> Filler:
    """Fill in columns of several ways to do the same: row by row those of the way with the least lower bound."""
    tries = []
    for way in function.ways:
        if way.case is not None and not _holds(way, way.case, given).any():
            continue
        names = ("lower", *(name for name in wanted if name in way.columns and name != "lower"))
        own = {name: value for name, value in given.items() if name in way.sizes or name in way.rates}
        codes = np.array([function.resources.index(name) for name in way.resources], np.int8)
        tried = [{name: value} for name, values in way.tried.items() for value in values] or [{}]
        tries += [(way, own, _filler(way, own | each, names, shape), names, codes) for each in tried]

    def fill(where: tuple[slice, ...], outs: Sequence[Any]) -> None:
        least = np.full(outs[0].shape, np.inf)
        for way, own, run, names, codes in tries:
            found = {name: np.empty(least.shape, np.int8 if name == "bound_by" else np.float64) for name in names}
            run(where, list(found.values()))
            soon: Any = least * (1 - TIE)
            better = ~(found["lower"] >= soon)
            if way.case is not None:
                here = {name: _part(value, where) if is_array(value) else value for name, value in own.items()}
                better &= _holds(way, way.case, here)
            np.copyto(least, found["lower"], where=better)
            for name, out in zip(wanted, outs, strict=True):
                column = codes[found[name]] if name == "bound_by" else found.get(name, 0.0)
                np.copyto(out, column, where=better)

    return fill


def _values(name: str, value: Any) -> Any:
    """Take numbers as floats and arrays as float64; integers are converted block by block."""
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "iuf":
            found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SizeError(f"{name} is not an array of numbers", hint="give numbers") from None
    return found.item() if found.ndim == 0 else found


def cut(shape: Sequence[int], most: int) -> Iterator[Ranges]:
    """Cut an array of this shape into parts of about equal size and at most ``most`` entries that follow each other.

    >>> list(cut((3, 5), 10))
    [((0, 2), (0, 5)), ((2, 3), (0, 5))]
    >>> list(cut((2, 25), 10))[:3]
    [((0, 1), (0, 9)), ((0, 1), (9, 18)), ((0, 1), (18, 25))]
    """
    inner, split = 1, len(shape)
    while split and inner * shape[split - 1] <= most:
        split -= 1
        inner *= shape[split]
    rest = tuple((0, size) for size in shape[split:])
    if not split:
        yield rest
        return
    length = shape[split - 1]
    pieces = -(-length // max(most // inner, 1))
    step = -(-length // pieces)
    for outer in product(*(range(size) for size in shape[: split - 1])):
        for start in range(0, length, step):
            yield (*((i, i + 1) for i in outer), (start, min(start + step, length)), *rest)


def _part(values: Any, where: tuple[slice, ...]) -> Any:
    """The block of an array that broadcasts to the shape of all, as floats."""
    own = where[len(where) - values.ndim :]
    part = values[tuple(slice(None) if n == 1 else w for n, w in zip(values.shape, own, strict=True))]
    return part if part.dtype == np.float64 else part.astype(np.float64)


def _each(run: Callable[[Any], int], pieces: Sequence[Any], cores: int) -> Iterator[int]:
    """Do every piece, on several cores at once; what each gives, in order."""
    if cores == 1 or len(pieces) < 2:
        yield from map(run, pieces)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(cores)
    try:
        yield from pool.map(run, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


def _invalid_rows(function: Compiled, given: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[Any, dict[str, int]]:
    """Which rows hold no sizes, or lie outside the range of the formula; how many, by the reason. None is all valid."""
    found: list[tuple[Any, str]] = []
    for name, value in given.items():
        least = 0 if name in function.from_zero else 1
        if name in function.rates:
            bad, reason = _outside(value, None), f"{name} is no rate above 0"
        else:
            bad = _outside(value, least)
            reason = f"{name} is no whole number of at least {least}"
        if bad is not None:
            found.append((bad, reason))
    with np.errstate(all="ignore"):
        for condition in function.conditions:
            found.append((~_holds(function, condition, given), condition.reason))
        cases = [(way, _holds(way, way.case, given)) for way in function.ways if way.case is not None]
        for way, here in cases:
            found += [(here & ~_holds(way, condition, given), condition.reason) for condition in way.conditions]
        if cases:
            listed = "; ".join(way.case.reason for way, _ in cases if way.case is not None)
            found.append(
                (~np.logical_or.reduce(np.broadcast_arrays(*(here for _, here in cases))), f"none of {listed}")
            )
    found = [(bad, reason) for bad, reason in found if bad.any()]
    if not found:
        return None, {}
    every, counts = np.zeros(shape, bool), {}
    for bad, reason in found:
        fresh = np.broadcast_to(bad, shape) & ~every
        if fresh.any():
            counts[reason] = int(fresh.sum())
        every |= fresh
    return every, counts


def _outside(value: Any, least: int | None) -> Any:
    """Which entries are no sizes of at least ``least``, or no rates; None where all are."""
    flat = np.asarray(value).reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        low, high = part.min(), part.max()
        fine = low > 0 if least is None else low >= least
        whole = least is None or part.dtype.kind in "iu" or bool((np.rint(part) == part).all())
        if not (fine and high <= LARGEST and whole):
            array = np.asarray(value, dtype=np.float64)
            if least is None:
                return ~((array > 0) & np.isfinite(array))
            return ~((array >= least) & (array <= LARGEST) & (np.floor(array) == array))
    return None


def _texts(function: Compiled, conditions: Sequence[ValidRange]) -> tuple[str, ...]:
    """Conditions as functions of sizes in source; they have come so where the formula has travelled."""
    show = printer("numpy").doprint
    if not all(function.sizes.values()):
        return tuple(condition.holds for condition in conditions)
    arguments = ", ".join(show(symbol) for symbol in function.sizes.values())
    return tuple(f"lambda {arguments}: {show(condition.holds)}" for condition in conditions)


def _arrived(
    name: str, names: tuple[tuple[str, ...], ...], rates: dict[str, float], conditions: Sequence[tuple[str, str]],
    is_case: bool, from_zero: tuple[str, ...], ways: tuple[Compiled, ...],
    said: tuple[tuple[str, ...], tuple[str, ...]], on: str, tried: Mapping[str, Sequence[int]],
    made: Mapping[Any, Printed],
) -> Compiled:  # fmt: skip
    """A formula that has travelled: the code of its columns, and the names of what it is made of."""
    sizes, forms, times = (dict.fromkeys(each) for each in names)
    holds = [ValidRange(text, reason) for text, reason in conditions]
    case = holds.pop() if is_case else None
    codes = {key: printed.executed(name) for key, printed in made.items()}
    return Compiled(name, sizes, rates, forms, times, tuple(holds), from_zero, ways, {}, *said, case, on, tried, codes)


def _holds(function: Compiled, condition: ValidRange, given: Mapping[str, Any]) -> Any:
    """Where a condition of a function holds, of its sizes."""
    tests = function._made.setdefault("conditions", {})
    if condition.holds not in tests:
        (tests[condition.holds],) = (eval(each, {"numpy": np}) for each in _texts(function, [condition]))
    return np.asarray(tests[condition.holds](*(np.asarray(given[n], np.float64) for n in function.sizes)), dtype=bool)
