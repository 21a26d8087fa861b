"""One arithmetic for sizes that are ints, numpy arrays or symbols.

A cost formula is written once, in ``+ - *`` and the few functions of this file; what it returns depends on what
goes in. Ints stay exact, arrays are float64 (int64 overflows silently), symbols are sympy's.

>>> ceil_div(10, 4), maximum(2, 5, 3), nbytes(3, 4)
(3, 5, 2)
>>> import numpy as np, sympy
>>> ceil_div(np.array([8.0, 9.0]), 4)
array([2., 3.])
>>> B = symbol("B")
>>> maximum(B, 1), nbytes(B, 4)
(B, B/2)
"""

from __future__ import annotations

import math
import os
import sys
from collections import ChainMap, UserDict, UserList, UserString
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from math import prod
from types import ModuleType
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from roofline.counts import typed_size
from roofline.errors import FEWER_ROWS, InputError, OutOfMemoryError, SizeError, a_or_an, quoted
from roofline.frozen import Frozen, dataclass
from roofline.lazy import np, sympy

Function = TypeVar("Function", bound=Callable[..., Any])
Name = TypeVar("Name")
Member = TypeVar("Member")

#: An int or float, a float64 array, or a sympy expression.
Size: TypeAlias = Any

#: The largest scalar size; beyond it products of a few sizes leave the range of float64.
LARGEST = int(1e30)

#: Times that differ by less, of two ways to do the same or of two resources, are equal: the first of them is taken.
TIE = 1e-12

#: The most values of one size that a list or range may have.
MOST_VALUES = 100_000_000

#: The most rows of an answer as lists, where a number takes some 40 bytes; arrays, and files of them, have any number.
MOST_LISTED = 20_000_000

#: What is asked about most often, and is neither an array nor a symbol.
_PLAIN = frozenset({int, float, bool, str, type(None)})

#: What holds values of any kind, beside dicts.
_HOLDING = (list, tuple, set, frozenset)

#: Libraries whose kinds of these stay, or are numbers of arrays.
_AS_THEY_ARE = ("roofline", "numpy")

#: Libraries whose tensors without dimensions are numbers inside a list or dict, but not as a program's arguments.
TENSORS = ("torch", "jax", "jaxlib")

#: Libraries whose numbers are Python's inside a list or dict.
_OF_NUMBERS = ("numpy", "sympy", "fractions", "decimal")

#: Python's own kinds, and how a value of a kind below one becomes that, whatever its own methods do.
_OWN_KINDS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    UserDict: lambda value: dict(value.data),
    ChainMap: dict,
    UserList: lambda value: list(value.data),
    UserString: lambda value: str(value.data),
    os.PathLike: os.fsdecode,
}

#: Stands for a library that is not loaded: it has no names.
_ABSENT = ModuleType("absent")

#: Rows looked at or evaluated at once: a few hundred kilobytes of columns, which stay in a core's own cache.
BLOCK = 16_384

#: Operations of a closed form up to which sympy looks for its largest or smallest part.
SHORT = 12

#: Times that an open number of chips is doubled where it is looked at.
MOST_DOUBLINGS = 21

#: What to do with a size that the mesh axes which shard it do not divide.
UNEVEN = ("error", "pad")


def is_array(value: Any) -> bool:
    """Say whether ``value`` is a numpy array (without importing numpy).

    Another thread may be importing numpy: the module is there then before its names are. No value is an array yet.
    """
    if value.__class__ in _PLAIN:
        return False
    return isinstance(value, vars(sys.modules.get("numpy", _ABSENT)).get("ndarray", ()))


def is_symbol(value: Any) -> bool:
    """Say whether ``value`` is a sympy expression (without importing sympy, which another thread may be doing)."""
    if value.__class__ in _PLAIN:
        return False
    return isinstance(value, vars(sys.modules.get("sympy", _ABSENT)).get("Basic", ()))


def plain_number(value: Any) -> Any:
    """A number of numpy, sympy or fractions as the Python number it is, a whole one as an int; anything else as it is.

    Numbers and text of somebody's own kind are Python's.

    >>> import numpy as np
    >>> plain_number(np.int8(64)), plain_number(np.float32(0.5)), plain_number(np.float64(64)), plain_number("4*D")
    (64, 0.5, 64, '4*D')
    >>> type(plain_number(np.longdouble(0.5)))
    <class 'float'>
    >>> import sympy
    >>> plain_number(sympy.Integer(2)), plain_number(sympy.I)
    (2, I)
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str | int | float):
        value = of_python(value)
    if is_array(value) and not value.ndim:
        value = value[()]
    if hasattr(value, "to_numpy") and len(shape_of(value)) == 1:  # a series or an index of a data frame
        return value.to_numpy()
    if isinstance(value, vars(sys.modules.get("numpy", _ABSENT)).get("generic", ())):
        value = _item(value)
    elif is_symbol(value):
        if not (value.is_number and is_real(value)):
            return value
        value = int(value) if value.is_integer else float(value)
    elif value.__class__.__name__ in ("Decimal", "Fraction"):
        with suppress(ValueError, OverflowError):  # no number, or beyond a float's
            value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST else value


#: What holds arguments of a program: a tensor of one number is one of these.
OF_PROGRAMS = ("inputs", "kwargs")


def of_python(value: Any, depth: int = 2) -> Any:
    """Text, a number, a dict, list or tuple of somebody's own kind as Python's, and what it holds; others as they are.

    Numbers that it holds are Python's too.

    Its own methods may do what they like. A statement of this package stays one.

    >>> class Text(str):
    ...     __module__, split = "elsewhere", None
    >>> of_python(Text("h100 a100")).split(), of_python([3.5])
    (['h100', 'a100'], [3.5])
    >>> of_python(UserList([UserDict(D=8)]))
    [{'D': 8}]
    """
    own = type(value)
    if own in _PLAIN:
        return value
    array = vars(sys.modules.get("numpy", _ABSENT)).get("ndarray", ())
    if issubclass(own, array) and value.dtype == object and depth and not {*map(type, value.flat)} <= _PLAIN:
        plain = value.copy()
        for at, each in enumerate(value.flat):
            plain.flat[at] = of_python(each, depth - 1)
        return plain
    library = str(own.__module__).partition(".")[0]
    if depth < 2 and library in TENSORS:
        with suppress(Exception):  # a kind without dimensions, or a tensor that has no number yet
            value = value if value.ndim else value.tolist()
    if depth < 2 and library in _OF_NUMBERS:
        return plain_number(value)
    if library in _AS_THEY_ARE or (library == "pathlib" and depth == 2):
        return value
    kind = next((kind for kind in _OWN_KINDS if issubclass(own, kind)), None)
    if kind is None:
        return value
    try:
        plain = value if own is kind and library == "builtins" else _OWN_KINDS[kind](value)
    except Exception:  # a path of somebody's own, which raises what it likes
        return value
    made = type(plain)
    parts = [*plain.values(), *plain] if made is dict else plain if made in _HOLDING else ()
    if not depth or {*map(type, parts)} <= _PLAIN:
        return plain
    if made is dict:
        return {of_python(key): of_python(each, depth - 1) for key, each in plain.items()}
    return made(of_python(each, depth - 1) for each in parts)


def is_real(form: Any) -> bool:
    """Whether a sympy expression may be a real number: not i, no infinity, no condition, no function."""
    if not hasattr(form, "__float__") or hasattr(form, "signature"):  # a set, a condition, a function
        return False
    if form.has(sympy.core.function.AppliedUndef):  # f(x), which nothing works out
        return False
    unknown = not form.is_number and form.is_extended_real is None
    return (unknown or bool(form.is_extended_real)) and form.is_finite is not False


def shape_of(value: Any) -> tuple[int, ...]:
    """The lengths of an array of any library; nothing where a value is none."""
    try:
        found = getattr(value, "shape", ())
    except RuntimeError:  # a nested tensor has none
        return ()
    return found if isinstance(found, tuple) else ()


def _item(value: Any) -> Any:
    """A number of numpy as Python's; a long double, which ``item`` leaves as it is, as a float."""
    plain = value.item()
    return float(plain) if getattr(plain, "dtype", None) is not None and plain.dtype.kind == "f" else plain


#: Arrays that :func:`own_array` made, by their identity.
_COPIES: WeakValueDictionary[int, Any] = WeakValueDictionary()


def own_array(value: Any) -> Any:
    """A copy of an array in float64, which nobody changes; masked entries are nan, complex numbers a TypeError.

    One that this made is its own copy:

    >>> import numpy
    >>> sizes = own_array(numpy.array([1, 2]))
    >>> own_array(sizes) is sizes, sizes.flags.writeable
    (True, False)
    """
    known = _COPIES.get(id(value))
    if known is not None and known is value and not known.flags.writeable:
        return known
    if is_array(value) and value.dtype.kind == "c":
        raise TypeError("complex numbers are no sizes")
    if hasattr(value, "filled"):
        value = value.astype(np.float64).filled(np.nan)
    made = read_only(np.array(value, dtype=np.float64))
    _COPIES[id(made)] = made
    return made


def read_only(value: Any) -> Any:
    """An array that nobody changes; anything else as it is."""
    if is_array(value):
        value.setflags(write=False)
    return value


def is_number(value: Any) -> bool:
    """Say whether ``value`` is one plain number: no array, no symbol."""
    return isinstance(value, int | float)


def is_zero(value: Any) -> bool:
    """Say whether ``value`` is the number 0, one that a formula comes to as well."""
    return (is_number(value) or is_symbol(value)) and bool(value == 0)


def is_one(value: Any) -> bool:
    """Say whether ``value`` is the number 1, an array of nothing else, or a formula that comes to it.

    >>> import numpy as np
    >>> is_one(1), is_one(np.array([1, 1])), is_one(np.array([1, 2])), is_one(symbol("n")), is_one(None)
    (True, True, False, False, False)
    >>> is_one(symbol("n") / symbol("n"))
    True
    """
    if is_array(value):
        return bool((value == 1).all())
    return (is_number(value) or is_symbol(value)) and bool(value == 1)


def symbol(name: str, *, exact: bool = False) -> Any:
    """Make the symbol of an unnamed size: a positive integer. Bytes of an ``exact`` one are rounded up to whole bytes.

    >>> B = symbol("B", exact=True)
    >>> nbytes(B, 4), nbytes(6 * B, 4), nbytes(B, 8, per=32)
    (ceiling(B/2), 3*B, ceiling(B/32))
    """
    return (_exact_symbol() if exact else sympy.Symbol)(name, positive=True, integer=True)


@cache
def _exact_symbol() -> Any:
    class ExactSize(sympy.Symbol):  # type: ignore[misc]
        """A size whose bytes are whole; a number is put in for the plain symbol of its name too."""

        def _eval_subs(self, old: Any, new: Any) -> Any:
            return new if old == symbol(self.name) else None

        def __reduce__(self) -> tuple[Any, ...]:
            return partial(symbol, exact=True), (self.name,)

    return ExactSize


def chip_count(name: str, least: int, most: int | None, step: int) -> Any:
    """Make the symbol of a number of chips: ``least``, ``least + step`` … up to ``most``, all multiples of ``step``.

    >>> n = chip_count("n", 16, 64, 8)
    >>> n.values, multiple_of(n / 2), multiple_of(symbol("B")), has_exact(n)
    ((16, 24, 32, 40, 48, 56, 64), 4, 1, True)
    >>> chip_count("n", 16, None, 8).values[-3:]
    (4194304, 8388608, 16777216)
    """
    return _chip_count(least, most, step)(name, positive=True, integer=True)


@cache
def _chip_count(least: int, most: int | None, step: int) -> Any:
    doubled = (least << power for power in range(MOST_DOUBLINGS))
    every = range(least, most + 1, step) if most is not None and most <= least + 64 * step else None

    class ChipCount(_exact_symbol()):  # type: ignore[misc]
        """A number of chips, of which ``values`` are all there are, or a few of many."""

        values = tuple(every or (each for each in doubled if most is None or each <= most))
        multiple = step

        def __reduce__(self) -> tuple[Any, ...]:
            return chip_count, (self.name, least, most, step)

    return ChipCount


def chip_counts(form: Any) -> list[Any]:
    """The numbers of chips that are open in a size."""
    return [each for each in form.free_symbols if hasattr(each, "multiple")] if is_symbol(form) else []


def multiple_of(form: Any) -> Any:
    """What a symbolic size is a multiple of: its factor, times that of its number of chips."""
    factor, rest = form.as_coeff_Mul()
    return factor * getattr(rest, "multiple", 1)


def has_more_operations(forms: Sequence[Any], most: int) -> bool:
    """Whether closed forms have more operations than ``most``, all together.

    A sum has at least one between its terms; sympy counts the others anew each time, and takes long.

    >>> has_more_operations([2 * symbol("B") + 1], 1), has_more_operations([2 * symbol("B") + 1], 2)
    (True, False)
    """
    least = 0
    for part in (part for form in forms for part in sympy.preorder_traversal(form) if part.is_Add):
        least += len(part.args) - 1
        if least > most:
            return True
    return sum(map(_operations, forms)) > most


@lru_cache(4096)
def _operations(form: Any) -> int:
    return int(form.count_ops())


class Definitions(dict[Any, Any]):
    """Long parts of closed forms, by the symbols that stand for them; of parts alike there is one.

    >>> B, C = symbol("B"), symbol("C")
    >>> short = Definitions()
    >>> long = sum(maximum(n * B, C**n, C + n) for n in range(1, 4))
    >>> short("part", long) + 2 * short("part", long), short("part", B), list(short)
    (3*part_1, B, [part_1])
    """

    def __init__(self) -> None:
        super().__init__()
        self._symbols: dict[Any, Any] = {}

    def __call__(self, name: str, form: Size, most: int = SHORT) -> Size:
        """The symbol that stands for a form, or a form of no more than ``most`` operations as it is."""
        if not is_symbol(form) or not has_more_operations([form], most):
            return form
        if form not in self._symbols:
            self._symbols[form] = sympy.Symbol(f"{name}_{len(self) + 1}", positive=True)
            self[self._symbols[form]] = form
        return self._symbols[form]


def is_exact(form: Any) -> bool:
    """Whether a form counts whole elements of sizes that are exact."""
    return bool(form.is_integer) and has_exact(form)


def has_exact(form: Any) -> bool:
    """Whether exact sizes are in a closed form."""
    return any(isinstance(each, _exact_symbol()) for each in form.free_symbols)


def in_plain_symbols(form: Any, definitions: Mapping[Any, Any] = Frozen()) -> Any:
    """A closed form in symbols of which none is exact, and in place of those with ``definitions`` what they stand for.

    >>> in_plain_symbols(2 * symbol("B", exact=True)).diff(symbol("B"))
    2
    >>> B, part = symbol("B", exact=True), sympy.Symbol("part", positive=True)
    >>> in_plain_symbols(2 * maximum(part, 3), {part: B + 1})
    2*Max(3, B + 1)
    """
    found = {each for part in (form, *definitions.values()) if is_symbol(part) for each in part.free_symbols}
    exact = {each: symbol(each.name) for each in found if isinstance(each, _exact_symbol())}
    return put_in(form, {**definitions, **exact})


def put_in(form: Any, known: Mapping[Any, Any]) -> Any:
    """A closed form with others in place of some symbols, which may stand in each other; each part is made once.

    >>> B, C = symbol("B"), symbol("C")
    >>> put_in(2 * maximum(B, C) + C, {B: C + 1, C: 3})
    11
    """
    made: dict[Any, Any] = {}

    def put(part: Any) -> Any:
        if part not in made:
            if part in known:
                made[part] = put(sympy.sympify(known[part]))
            else:
                args = [put(each) for each in part.args]
                made[part] = part if all(a is b for a, b in zip(args, part.args, strict=True)) else rebuilt(part, args)
        return made[part]

    return put(form) if is_symbol(form) else form


def rebuilt(part: Any, args: Sequence[Any]) -> Any:
    """A part of a closed form with other arguments; relations are looked at of numbers alone: it takes sympy long.

    >>> B, C = symbol("B"), symbol("C")
    >>> put_in(of_largest([B, C], [1, 2]), {B: 3}), put_in(of_largest([B, C], [1, 2]), {B: 3, C: 4})
    (Piecewise((1, 3 >= C), (2, True)), 2)
    """
    if isinstance(part, sympy.Max | sympy.Min):
        return (maximum if isinstance(part, sympy.Max) else minimum)(*args)
    if isinstance(part, sympy.Piecewise):
        cases = [case for case in args if case.cond != sympy.false]
        if not cases:
            return sympy.nan
        return cases[0].expr if cases[0].cond == sympy.true else part.func(*cases, evaluate=False)
    may_hold = isinstance(part, sympy.Rel | sympy.logic.boolalg.BooleanFunction)
    is_open = may_hold and any(each.free_symbols for each in args)
    return part.func(*args, evaluate=False) if is_open else part.func(*args)


def check(name: str, value: Any, least: int = 1) -> Size:
    """Return ``value`` as a size of at least ``least``, or say what is wrong with it; an array as a read-only copy.

    >>> check("B", 64), check("B", 4e6)
    (64, 4000000)
    >>> check("B", "8k")
    8000
    >>> check("B", 0)
    Traceback (most recent call last):
    roofline.errors.SizeError: size B is 0; a size is a whole number of at least 1
    >>> check("B", 2.5)
    Traceback (most recent call last):
    roofline.errors.SizeError: size B is 2.5; a size is a whole number of at least 1
    """
    value = plain_number(typed_size(name, value))
    if is_array(value) or isinstance(value, list | tuple | range):
        return _check_array(name, value, least)
    if is_symbol(value) and is_real(value):
        return value
    if not isinstance(value, int | float | complex | type | bytes | bytearray | memoryview) and not is_symbol(value):
        with suppress(Exception):  # of a value whose own methods may raise what they like
            value = value.item() if hasattr(value, "item") else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = "a size is a whole number, an array of them, or nothing"
        raise SizeError(f"size {name} is {quoted(value)}", hint=hint)
    if not -float("inf") < value < float("inf") or value < least or value != int(value):
        raise SizeError(f"size {name} is {_short(value)}", hint=f"a size is a whole number of at least {least}")
    if value > LARGEST:
        raise SizeError(f"size {name} is {_short(value)}", hint="sizes go up to 1e30")
    return int(value)


def none_open(arrays: Sequence[str], missing: Sequence[str]) -> None:
    """Refuse sizes without a value beside arrays; both are names.

    >>> none_open(["B"], ["F"])
    Traceback (most recent call last):
    roofline.errors.SizeError: size F has no value while B is an array; give F too: arrays and unnamed sizes do not mix
    """
    if arrays and missing:
        hint = f"give {', '.join(missing)} too: arrays and unnamed sizes do not mix"
        raise SizeError(f"size {missing[0]} has no value while {arrays[0]} is an array", hint=hint)


def check_itself(name: str, value: Any, depth: int = 0) -> None:
    """Refuse what says that it is of another class than it is, alone or in a list or dict: it cannot be read as either.

    >>> check_itself("on", type("Lazy", (), {"__class__": str})())
    Traceback (most recent call last):
    roofline.errors.InputError: on is a Lazy that says it is a str; give the str itself
    """
    own = type(value)
    if own in _PLAIN or own.__module__ == "torch":  # a nested tensor refuses to give its shape
        return
    head = f"{name} {'holds' if depth else 'is'} {a_or_an(own.__name__)}"
    try:
        said, _ = value.__class__, getattr(value, "shape", None)
        if isinstance(value, os.PathLike):
            os.fspath(value)
        held = of_python(value)
        parts = [*held, *held.values()] if type(held) is dict else held if type(held) in _HOLDING else ()
        parts = held.ravel().tolist() if is_array(held) and held.dtype.kind == "O" else parts
        kinds = {*map(type, parts)}
    except Exception:  # of the value itself, whatever it raises
        raise InputError(f"{head} that does not say what it is") from None
    if said is not own:
        word = getattr(said, "__name__", "value")
        raise InputError(f"{head} that says it is {a_or_an(word)}", hint=f"give the {word} itself")
    if depth < 2 and not kinds <= _PLAIN:
        for each in parts:
            check_itself(name, each, depth + 1)


def check_listed(rows: int) -> None:
    """Refuse lists of more rows than :data:`MOST_LISTED`, before they are made."""
    if rows > MOST_LISTED:
        hint = f"{MOST_LISTED:,} at most; its columns are arrays; a sweep that keeps 'rows' writes them in blocks"
        raise SizeError(f"an answer over {rows:,} rows is too large for lists", hint=hint)


def check_number_of(name: str, value: Any) -> None:
    """Refuse a list or range of more values than :data:`MOST_VALUES`, before any of them is looked at."""
    if isinstance(value, list | tuple | range) and value[MOST_VALUES : MOST_VALUES + 1]:
        raise SizeError(f"{name} has over {MOST_VALUES:,} values", hint="ask in parts")


def array_of(name: str, value: Any) -> Any:
    """A copy of several sizes as an array in float64, or an error that names them."""
    value = of_python(value, 0)
    check_number_of(name, value)
    try:
        return own_array(value)
    except MemoryError:
        raise OutOfMemoryError(of_rows=True) from None
    except Exception:  # of the value itself, whatever it raises
        raise SizeError(f"size {name} is not an array of numbers", hint="give ints") from None


def _check_array(name: str, value: Any, least: int) -> Size:
    array = array_of(name, value)
    if array.size == 0:
        raise SizeError(f"size {name} is an empty array", hint="give at least one value")
    if _are_sizes(array, least):
        return array
    valid = np.isfinite(array) & (array >= least) & (array <= LARGEST)
    valid &= np.where(valid, array == np.floor(array), False)
    if not valid.all():
        where = int(np.argmin(valid.ravel()))
        bad = array.ravel()[where]
        too_large = bad > LARGEST and np.isfinite(bad)
        hint = "sizes go up to 1e30" if too_large else f"a size is a whole number of at least {least}"
        raise SizeError(f"size {name} is {_short(bad)} at index {where}", hint=hint)
    return array


def _are_sizes(array: Any, least: int) -> bool:
    """Whether all are whole numbers from ``least`` to :data:`LARGEST`, looked at while they are in a core's cache."""
    flat = array.reshape(-1)
    rounded = np.empty(min(BLOCK, flat.size))
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        near = np.rint(part, out=rounded[: part.size])
        if not (np.array_equal(near, part) and part.min() >= least and part.max() <= LARGEST):
            return False
    return True


def _short(value: Any) -> str:
    text = repr(plain_number(value))
    return text if len(text) <= 32 else f"{float(value):.6g}" if len(text) < 300 else "a number of over 300 digits"


#: Rows that are held in memory: a column of them has 8 GB.
MOST_ROWS = 10**9


def common_shape(sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape that arrays broadcast to; an error naming them where they do not."""
    arrays = {name: value for name, value in sizes.items() if is_array(value)}
    if not arrays:
        return ()
    shapes = ", ".join(f"{name} {value.shape}" for name, value in arrays.items())
    try:
        shape = np.broadcast_shapes(*(value.shape for value in arrays.values()))
    except ValueError:
        hint = "make them of one length; sweep() takes all combinations"
        raise SizeError(f"the sizes do not broadcast: {shapes}", hint=hint) from None
    if prod(shape) > MOST_ROWS:
        few = f"{MOST_ROWS:,} rows at most; {FEWER_ROWS}"
        raise SizeError(f"the sizes make {prod(shape):,} rows, too many for memory: {shapes}", hint=few)
    return shape


def sums_by_name(pairs: Iterable[tuple[Name, Any]]) -> dict[Name, Any]:
    """Amounts by their names; those of one name are added up.

    >>> sums_by_name([("hbm", 1), ("nvlink", 2), ("hbm", 3)])
    {'hbm': 4, 'nvlink': 2}
    """
    found: dict[Name, Any] = {}
    for name, amount in pairs:
        found[name] = found[name] + amount if name in found else amount
    return found


def grouped(pairs: Iterable[tuple[Name, Member]]) -> dict[Name, list[Member]]:
    """What there is of each name, in order.

    >>> grouped([("hbm", 1), ("nvlink", 2), ("hbm", 3)])
    {'hbm': [1, 3], 'nvlink': [2]}
    """
    found: dict[Name, list[Member]] = {}
    for name, member in pairs:
        found.setdefault(name, []).append(member)
    return found


def maximum(*values: Size) -> Size:
    """Return the largest of the values, element by element for arrays; 0 of none."""
    return _extreme("maximum", "Max", max, values) if values else 0


def minimum(*values: Size) -> Size:
    """Return the smallest of the values, element by element for arrays."""
    return _extreme("minimum", "Min", min, values)


def _extreme(array_name: str, symbol_name: str, plain: Any, values: tuple[Size, ...]) -> Size:
    if len(values) == 1:
        return values[0]
    if _PLAIN.issuperset(map(type, values)):
        return plain(values)
    if any(is_symbol(v) for v in values):
        return _open_extreme(symbol_name, *map(sympy.sympify, values))
    if any(is_array(v) for v in values):
        function = getattr(np, array_name)
        result = values[0]
        for value in values[1:]:
            result = function(result, value)
        return result
    return plain(values)


@lru_cache(2048, typed=True)
def _open_extreme(symbol_name: str, *values: Size) -> Size:
    """The ``Max`` or ``Min`` of closed forms; most are asked for again, as layers are alike."""
    kept = undominated(values, largest=symbol_name == "Max")
    # sympy looks long for an order of sums, or of times over rates of their own, of which nothing is known
    short = not has_more_operations(kept, SHORT) and not _apart(kept)
    return kept[0] if len(kept) == 1 else getattr(sympy, symbol_name)(*kept, evaluate=short)


def at_typical_size(amount: Size) -> float:
    """A number for an amount, to compare it with others: open sizes are taken for 1,024.

    >>> at_typical_size(3), at_typical_size(2 * symbol("B") + 1)
    (3.0, 2049.0)
    """
    return float(amount.subs(dict.fromkeys(amount.free_symbols, 1024)) if is_symbol(amount) else amount)


def is_surely(compare: Callable[[Any, Any], Any], a: Size, b: Size) -> bool:
    """Whether a comparison (``operator.le``) of two sizes holds whatever the open ones in them are.

    >>> from operator import gt, le
    >>> B = symbol("B")
    >>> is_surely(le, 1, B), is_surely(le, 2, B), is_surely(gt, 3, 2)
    (True, False, True)
    """
    try:
        return bool(compare(a, b))
    except (TypeError, ValueError):  # it depends on the size: a symbol's, or which of an array's
        return False


def of_largest(keys: Sequence[Size], values: Sequence[Size]) -> Size:
    """The value whose key is the largest, of equal ones the first; of arrays, entry by entry.

    >>> import numpy as np
    >>> of_largest([1, 3], [10, 30]), of_largest([np.array([5, 1]), 3], [10, 30]).tolist()
    (30, [10, 30])
    >>> of_largest([symbol("B"), 3], [10, 30])
    Piecewise((10, B >= 3), (30, True))
    """
    if any(map(is_symbol, keys)):
        cases = zip(values, _where_largest(*map(sympy.sympify, keys)), strict=True)
        return sympy.Piecewise(*cases, evaluate=False)
    if any(map(is_array, keys)):
        choices = np.broadcast_arrays(*keys, *values)[len(keys) :]
        return np.choose(np.argmax(np.broadcast_arrays(*keys), axis=0), choices)
    return values[keys.index(max(keys))]


def longest(times: Mapping[str, float]) -> str:
    """The name of the largest time, of those within a :data:`TIE` the first: rounding names none.

    >>> longest({"nvlink": 0.3, "nic": 0.1 + 0.2, "hbm": 0.2})
    'nvlink'
    """
    found, *others = times
    most = times[found]
    for name in others:
        found, most = (name if times[name] * (1 - TIE) > most else found), max(most, times[name])
    return found


@lru_cache(64, typed=True)
def _where_largest(*keys: Any) -> tuple[Any, ...]:
    """Where each of several closed forms is the largest, of equal ones the first: it is asked of every part alike."""
    rest = [sympy.Max(*keys[:index], *keys[index + 1 :]) for index in range(len(keys) - 1)]
    return (*(sympy.Ge(key, other, evaluate=False) for key, other in zip(keys, rest, strict=False)), True)


def undominated(forms: Sequence[Any], *, largest: bool = True) -> list[Any]:
    """Of closed forms, those that no other exceeds term by term: the largest is one of them, or the smallest.

    >>> B, C = symbol("B"), symbol("C")
    >>> undominated([2 * B, 3 * B + C, C * B, 3 * B + C]), undominated([2 * B, 3 * B + C], largest=False)
    ([3*B + C, B*C], [2*B])
    """
    kept = list(dict.fromkeys(forms))
    if len(kept) == 1:
        return kept
    sums = {form: form.as_coefficients_dict() for form in kept}
    for form in list(kept):
        others = (other for other in kept if other is not form)
        if any(
            _nowhere_below(sums[other], sums[form]) if largest else _nowhere_below(sums[form], sums[other])
            for other in others
        ):
            kept.remove(form)
    return kept


def _apart(forms: Sequence[Any]) -> bool:
    """Whether each of several forms has a symbol that no other has."""
    names = [form.free_symbols for form in forms]
    return all(here.difference(*names[:i], *names[i + 1 :]) for i, here in enumerate(names))


def _nowhere_below(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Whether every term of one sum is at least that of another, and all that differ are positive."""
    more = {term: one.get(term, 0) - other.get(term, 0) for term in {**one, **other}}
    # the sign of a term takes sympy longer than that of a number
    return all(each >= 0 for each in more.values()) and all(term.is_nonnegative for term, each in more.items() if each)


def ceil_div(a: Size, b: Size) -> Size:
    """Divide and round up to a whole number."""
    if is_symbol(a) or is_symbol(b):
        return sympy.ceiling(a / b)
    if is_array(a) or is_array(b):
        return np.ceil(a / b)
    return -(-a // b)


def floor_div(a: Size, b: Size) -> Size:
    """Divide and round down to a whole number."""
    if is_symbol(a) or is_symbol(b):
        return sympy.floor(a / b)
    if is_array(a) or is_array(b):
        return np.floor(a / b)
    return a // b


def exact_div(a: Size, b: Size) -> Size:
    """Divide; an int stays an int where the division comes out even.

    >>> exact_div(10**30, 2), exact_div(3, 2)
    (500000000000000000000000000000, 1.5)
    """
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def sqrt(a: Size) -> Size:
    """Take the square root.

    >>> sqrt(16), sqrt(symbol("B"))
    (4.0, sqrt(B))
    """
    return _function("sqrt", a)


def log2(a: Size) -> Size:
    """Take the logarithm to base 2.

    >>> log2(8), log2(symbol("B"))
    (3.0, log(B)/log(2))
    """
    return _function("log2", a)


def _function(name: str, a: Size) -> Size:
    if is_symbol(a):
        return sympy.log(a, 2) if name == "log2" else sympy.sqrt(a)
    if is_array(a):
        return getattr(np, name)(a)
    return getattr(math, name)(a)


def round_up(a: Size, multiple: int) -> Size:
    """Round up to a whole multiple.

    >>> round_up(100, 128)
    128
    """
    return ceil_div(a, multiple) * multiple


def nbytes(elements: Size, bits: int, per: int = 1) -> Size:
    """Count the bytes of ``elements`` that take ``bits`` for every ``per`` of them.

    Whole numbers are rounded up to whole bytes, exact symbols too; other symbols are the ratio, and so is what is
    expected on average and no whole number of elements.

    >>> nbytes(5, 4), nbytes(33, 8, per=32), nbytes(10**30, 4), nbytes(5.5, 4)
    (3, 2, 500000000000000000000000000000, 2.75)
    """
    if is_symbol(elements) and not is_exact(elements):
        return elements * sympy.Rational(bits, 8 * per)
    if bits % 8 == 0 and per == 1:
        return elements * (bits // 8)
    groups = ceil_div(elements, per) if per > 1 else elements
    rounded = groups * (bits // 8) if bits % 8 == 0 else ceil_div(groups * bits, 8)
    if isinstance(elements, int) or is_symbol(elements):
        return rounded
    if is_array(elements):
        return np.where(elements == np.floor(elements), rounded, elements * (bits / (8 * per)))
    return rounded if elements == int(elements) else elements * (bits / (8 * per))


def product(values: Iterable[Size]) -> Size:
    """Multiply the values; nothing gives 1."""
    result: Size = 1
    for value in values:
        if not (isinstance(value, int) and value == 1):
            result = value if isinstance(result, int) and result == 1 else result * value
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Which resource binds, for arrays: small integers and the names they stand for.

    It compares, indexes and counts as an array of the names does.

    >>> import numpy as np
    >>> codes = Codes.of({"mxu": np.array([1.0, 3.0]), "hbm": np.array([2.0, 2.0])})
    >>> codes.codes.tolist(), codes.names, codes.tolist()
    ([1, 0], ('mxu', 'hbm'), ['hbm', 'mxu'])
    >>> codes[0], codes == "mxu", np.unique(codes).tolist()
    ('hbm', array([False,  True]), ['hbm', 'mxu'])
    """

    codes: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, times: Mapping[str, Size]) -> Codes:
        """Find the largest of the times, entry by entry; the first named wins a :data:`TIE`."""
        values = np.broadcast_arrays(*times.values())
        largest, codes = values[0], np.zeros(values[0].shape, np.int8)
        for code, value in enumerate(values[1:], 1):
            longer = value * (1 - TIE) > largest
            codes = np.where(longer, np.int8(code), codes)
            largest = np.maximum(largest, value)
        return cls(codes, tuple(times))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, which: Any) -> Any:
        return self.as_names()[which]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.as_names())

    def __eq__(self, other: object) -> Any:
        return self.as_names() == (other.as_names() if isinstance(other, Codes) else other)

    def __ne__(self, other: object) -> Any:
        return self.as_names() != (other.as_names() if isinstance(other, Codes) else other)

    __hash__ = object.__hash__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.as_names() if dtype is None else self.as_names().astype(dtype)

    def __repr__(self) -> str:
        return repr(self.as_names())

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        found: tuple[int, ...] = self.codes.shape
        return found

    def reshape(self, *shape: Any) -> Codes:
        """The same in another shape, as an array."""
        return Codes(self.codes.reshape(*shape), self.names)

    def tolist(self) -> Any:
        """The names, in lists as deep as the array."""
        return self.as_names().tolist()

    def decode(self) -> list[str]:
        """Names in flat order."""
        return [self.names[code] for code in self.codes.ravel()]

    def as_names(self) -> Any:
        """An array of the names."""
        return np.asarray(self.names, dtype=object)[self.codes]
