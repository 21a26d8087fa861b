"""Signatures: the parameters that a function takes through ``**options``, by name, for ``help()`` and editors.

An argument of a kind that a parameter does not take is an error that names it, wherever the call came to grief.

>>> import inspect
>>> @takes([NAMED_SIZES])
... def ask(line, *, on="h100", exact=False, **named): ...
>>> @takes(ask, but=("exact",))
... def draw(line, *, theme="light", **options): ...
>>> inspect.signature(draw)
<Signature (line, *, theme='light', on='h100', **named_sizes)>
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache, partial, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, Signature, signature
from itertools import chain, islice
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

from roofline.counts import COUNTS, count, typed_size
from roofline.errors import InputError, OutOfMemoryError, RooflineError, a_or_an, quoted
from roofline.meanings import MEANINGS, MEANINGS_OF, unknown_argument
from roofline.sizes import (
    OF_PROGRAMS,
    TENSORS,
    array_of,
    check_itself,
    check_number_of,
    is_array,
    is_real,
    is_symbol,
    none_open,
    of_python,
    own_array,
    plain_number,
    shape_of,
)

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

#: Sizes that a question takes by names of the caller's own, and figures of a machine by theirs.
NAMED_SIZES = Parameter("named_sizes", Parameter.VAR_KEYWORD, annotation="Any")
NAMED_FIGURES = Parameter("overrides", Parameter.VAR_KEYWORD, annotation="Any")

#: Letters of a name or a title.
MOST_LETTERS = 1_000

#: Lists and dicts within each other that are looked into for a value whose own method raised.
MOST_DEPTH = 4

#: Values that an iterator may give.
MOST_NAMES = 100_000

#: Parameters from which on ``help()`` leaves out those that a docstring does not explain in its own words.
LONG = 16


class ShortSignature(Signature):
    """A signature whose text has the names of the common parameters; programs and editors see all, with their types."""

    __slots__ = ("common",)
    common: Collection[str]

    def __str__(self) -> str:
        common: Collection[str] = getattr(self, "common", self.parameters)
        left = len(self.parameters) > LONG and any(name not in common for name in self.parameters)
        words: list[str] = []
        for each in self.parameters.values():
            if left and each.name not in common:
                continue
            if each.kind is Parameter.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
                words.append("*")
            star = "**" if each.kind is Parameter.VAR_KEYWORD else "*" if each.kind is Parameter.VAR_POSITIONAL else ""
            words.append(f"{star}{each.name}" + ("" if each.default is Parameter.empty else f"={each.default!r}"))
        return f"({', '.join([*words, '...'] if left else words)})"

    def __repr__(self) -> str:
        return f"<Signature {self}>"

    def format(self, **how: Any) -> str:
        """The same, as ``help()`` of Python 3.13 asks for it."""
        return str(self)


#: Arguments by names that they had before, which are taken too.
OLDER_NAMES = {
    "acceptance": "accept", "data": "runs", "files": "constants", "kernel": "op", "micro_batches": "microbatches",
    "most_sequences": "most", "prices": "price",
}  # fmt: skip


def takes(
    *sources: Callable[..., Any] | Collection[Parameter], but: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Show the named parameters of ``sources`` in place of a function's ``**options``, except those in ``but``.

    A source is a function, whose keyword-only parameters are taken, a dataclass, or a list of parameters; of several
    of one name the first stands. ``**named_sizes`` stands at the end where a source takes sizes by name.
    """

    def shown(function: Function) -> Function:
        own = signature(function)
        kept = {name: each for name, each in own.parameters.items() if each.kind is not Parameter.VAR_KEYWORD}
        rest = [each for source in sources for each in _parameters(source)]
        for each in rest:
            if each.kind is Parameter.KEYWORD_ONLY and each.name not in but:
                kept.setdefault(each.name, each)
        named = [each for source in sources if not callable(source) for each in source if each.kind is each.VAR_KEYWORD]
        last = [NAMED_SIZES] if NAMED_SIZES in rest else named[:1]
        options = [name for name, each in kept.items() if each.kind is Parameter.KEYWORD_ONLY]
        takes_any = last or (not sources and len(kept) < len(own.parameters))
        short = ShortSignature([*kept.values(), *last], return_annotation=own.return_annotation)
        short.common = [each.name for each in kept.values() if _is_common(each, function.__doc__ or "")]
        kinds = {name: _kind(each) for name, each in kept.items()}
        counts = COUNTS.keys() - {name for name, kind in kinds.items() if "Sequence[str]" in kind}  # chips by name
        border = _Border(
            own,
            short,
            kinds,
            {name: kind for name, kind in kinds.items() if name not in counts},
            None if takes_any else options or list(kept),
            frozenset(each.name for each in kept.values() if each.default is None),
            "Size" if last == [NAMED_SIZES] else "",
        )

        def taken(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            """The arguments as the function takes them: numbers as Python's, by the names of today, without None."""
            for name in OLDER_NAMES.keys() & named.keys():
                if name not in kept and OLDER_NAMES[name] in kept and named.get(OLDER_NAMES[name]) is None:
                    named[OLDER_NAMES[name]] = named.pop(name)
            given, named = border.each_as(_own, given, named)
            named |= {name: typed_size(name, named[name], COUNTS[name]) for name in named.keys() & counts}
            _check_open(named)
            # None is what it is where it is left out, also where one of several functions inside takes it
            return given, {n: each for n, each in named.items() if each is not None or n not in border.left_out}

        @wraps(function)
        def asked(*given: Any, **named: Any) -> Any:
            return border.passed(function, (), given, named, taken)

        asked.__signature__ = short  # type: ignore[attr-defined]
        asked.__doc__ = described(function.__doc__, kept, function.__name__)
        return cast("Function", asked)

    return shown


def _kind(parameter: Parameter) -> str:
    """The annotation of a parameter, which takes None where that is its default."""
    return f"{parameter.annotation}{' | None' * (parameter.default is None)}"


#: Reads the arguments of a call by position and by name as its function takes them.
Reader: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class _Border:
    """What every call of a function passes: arguments of a wrong kind, and too many or too few, are an error.

    ``kinds`` are annotations by name, ``simple`` those of arguments that are no sizes, which may be text, ``options``
    the only names that are taken, ``left_out`` those of which None is as good as nothing, ``further`` the annotation of
    arguments by other names.
    """

    def __init__(
        self, own: Signature, shown: Signature, kinds: Mapping[str, str], simple: Mapping[str, str],
        options: Sequence[str] | None = None, left_out: Collection[str] = (), further: str = "",
    ) -> None:  # fmt: skip
        self.own, self.shown, self.kinds, self.simple = own, shown, kinds, simple
        self.options, self.left_out, self.further = options, left_out, further
        single = [each for each in own.parameters.values() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        self.positional = [each.name for each in single]
        self.by_place = [kinds[name] for name in self.positional]
        of_any = (each for each in own.parameters.values() if each.kind is Parameter.VAR_POSITIONAL)
        self.rest = {each.name: str(each.annotation) for each in of_any}

    def passed(
        self, function: Callable[..., Any], owner: tuple[Any, ...], given: tuple[Any, ...], named: dict[str, Any],
        taken: Reader,
    ) -> Any:  # fmt: skip
        """What a function answers, of an ``owner`` where it is a method, to arguments as ``taken`` reads them."""
        looked_at: dict[str, Any] = {}
        is_plain = self.are_plain(given, named)
        if not is_plain:
            given, named = taken(given, named)
            every = self.by_name(given, named).items()
            looked_at = {n: each for n, each in every if not _is_plainly(each, self.kinds.get(n, self.further))}
            rest = [(name, each) for name in self.rest for each in given[len(self.positional) :]]
            _check_values([*looked_at.items(), *rest], self.kinds, function.__name__)
        given, named = _own_copies(given, named)
        try:
            answer = function(*owner, *given, **named)
        except MemoryError as error:
            raise _no_room(error, (*given, *named.values())) from None
        except RooflineError:
            raise
        except Exception as error:  # of whatever kind: a value's own methods may raise what they like
            known = self.wrong(function, given, named, looked_at) or self.misplaced(function, given, named)
            if (known := known or _raised_within(error, self.by_name(given, named))) is None:
                raise
            raise known from error
        # what a function took in silence may end in an error of Python's when the answer is looked at
        if not is_plain and (known := self.wrong(function, given, named, looked_at)) is not None:
            raise known
        return answer

    def are_plain(self, given: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether the arguments of a call are those that the function takes, right at first sight: every call asks."""
        if len(given) > len(self.by_place) or not all(map(_is_plainly, given, self.by_place)):
            return False
        simple, left_out = self.simple, self.left_out
        for name, each in named.items():
            if name not in simple or (each is None and name in left_out) or not _is_plainly(each, simple[name]):
                return False
        return True

    def by_name(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Every argument of a call by its name."""
        return {**dict(zip(self.positional, given, strict=False)), **named}

    def each_as(
        self, read: Callable[[str, Any, str], Any], given: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Each argument of a call as ``read`` finds it, by its name and its annotation."""
        names = [*self.positional, *[next(iter(self.rest), "")] * len(given)]
        by_place = tuple(read(name, each, self.kinds.get(name, "")) for name, each in zip(names, given, strict=False))
        return by_place, {name: read(name, each, self.kinds.get(name, self.further)) for name, each in named.items()}

    def wrong(
        self, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], looked_at: Mapping[str, Any]
    ) -> InputError | None:
        """An error about an argument of an unknown name or a wrong kind, or None."""
        unknown = next((name for name in named if name not in self.kinds), None)
        if unknown is not None and self.options is not None:
            return unknown_argument(unknown, self.options)
        further = (wrong_kind({n: each}, self.rest) for n in self.rest for each in given[len(self.positional) :])
        found = wrong_kind(looked_at, self.kinds, function=function.__name__)
        return found or next(filter(None, further), None)

    def misplaced(
        self, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
    ) -> InputError | None:
        """An error about an argument too many, or one that is missing."""
        try:
            self.own.bind(*given, **named)
        except TypeError as error:
            is_machine = "on" in self.kinds and "on" not in named and len(given) > 1 and isinstance(given[-1], str)
            hint = f"give {spelled('on', given[-1])}; " if is_machine and str(error).startswith("too many") else ""
            said = _unbound(error, self.own, given, named)
            return InputError(said, hint=f"{hint}the call is {function.__name__}{self.shown}")
        return None


def checked(method: Function) -> Function:
    """The border of a method: an argument of a wrong kind is an error that names it, as with :func:`takes`.

    >>> class Table:
    ...     def rows(self, most: int = 40): ...
    >>> checked(Table.rows)(Table(), most="many")
    Traceback (most recent call last):
    roofline.errors.InputError: most is 'many', and takes a whole number; How many rows
    """

    @wraps(method)
    def asked(self: Any, *given: Any, **named: Any) -> Any:
        border = _border_of(method)
        return border.passed(method, (self,), given, named, partial(border.each_as, _at_border))

    asked.is_checked = True  # type: ignore[attr-defined]
    return cast("Function", asked)


def check_methods(owner: Class) -> Class:
    """Put the border of :func:`checked` around public methods of a class that take arguments; return the class."""
    for name, method in list(vars(owner).items()):
        made = isinstance(method, classmethod)
        own = method.__func__ if made else method
        function = own.__wrapped__ if hasattr(own, "cache_info") else own
        if name.startswith("_") or not isinstance(function, FunctionType) or hasattr(own, "is_checked"):
            continue
        code = function.__code__
        takes_some = code.co_argcount + code.co_kwonlyargcount > 1 or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
        if takes_some or name == "to_dict":  # which may have no room in memory
            setattr(owner, name, classmethod(checked(own)) if made else checked(own))
    return owner


@lru_cache(maxsize=1024)
def _border_of(method: Callable[..., Any]) -> _Border:
    """The border of a method without its owner."""
    whole = signature(method)
    own = whole.replace(parameters=[*whole.parameters.values()][1:])
    kinds = {each.name: _kind(each) for each in own.parameters.values() if "VAR" not in each.kind.name}
    simple = {name: kind for name, kind in kinds.items() if "Size" not in _alternatives(kind)}
    return _Border(own, ShortSignature([*own.parameters.values()]), kinds, simple)


#: Python's own classes whose values, or what is in these, may be changed after a call.
_CONTAINERS = frozenset((list, dict, tuple))


def _own_copies(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with copies of lists and dicts, which the caller may change after it."""
    held = (*given, *named.values()) if named else given
    if _CONTAINERS.isdisjoint(map(type, held)):
        return given, named
    return _copy(given), _copy(named)


def _copy(value: Any, depth: int = 0) -> Any:
    """A copy of a list or dict and of those in it, which the caller may change after the call; others as they are.

    >>> given = ([1, 8], {"hbm": {"bandwidth": 2}}, "h100")
    >>> found = _copy(given)
    >>> found == given, found[0] is given[0], found[1]["hbm"] is given[1]["hbm"]
    (True, False, False)
    """
    own = type(value)
    if own not in _CONTAINERS:
        return value
    held = value.values() if own is dict else value if len(value) <= MOST_LETTERS else value[:1]  # long ones are alike
    if depth > MOST_DEPTH or _CONTAINERS.isdisjoint(map(type, held)):
        return value if own is tuple else value.copy()
    if own is dict:
        return {name: _copy(each, depth + 1) for name, each in value.items()}
    return own(_copy(each, depth + 1) for each in value)


def _own(name: str, value: Any, annotation: str) -> Any:
    """An argument that is what it says, a number of other libraries as Python's; an error where it is not."""
    if _is_plainly(value, annotation):
        return value
    check_itself(name or "an argument", value)
    return value if name in OF_PROGRAMS else _plain(value, annotation)


#: Libraries whose data frames are taken where a list of rows is.
FRAMES = ("pandas", "polars")


def _rows(value: Any, annotation: str) -> Any:
    """A data frame as a list of rows, cells without a value left out, where a list is taken; others as they are."""
    takes_rows = any(kind.startswith(("Sequence", "Iterable")) for kind in _alternatives(annotation))
    if not takes_rows or not hasattr(value, "columns"):
        return value
    rows = value.to_dicts() if hasattr(value, "to_dicts") else value.to_dict("records")
    return [{name: cell for name, cell in row.items() if cell is not None and cell == cell} for row in rows]


def _plain(value: Any, annotation: str) -> Any:
    """A number of other libraries as Python's, an int where whole numbers are taken alone; several as an array of ours.

    Tensors of PyTorch and JAX are numbers where one or several are taken; elsewhere they are a program's arguments.
    A value whose own methods raise stays what it is.

    >>> import numpy
    >>> _plain(numpy.float32(2), "int | None"), _plain(2.0, "float")
    (2, 2.0)
    """
    if _is_plainly(value, annotation):
        return value
    try:
        if type(value).__module__.partition(".")[0] in FRAMES:
            value = _rows(value, annotation)
        if type(value).__module__.partition(".")[0] in TENSORS:
            kinds = _alternatives(annotation)
            is_taken = any(kind in _NUMBERS or (kind in _NUMBER and not value.ndim) for kind in kinds)
            value = value.tolist() if is_taken and value.ndim < 2 else value
        if annotation and annotation not in _OPEN:
            value = of_python(value)
        if isinstance(value, Iterator) and any(kind.startswith("Iterable") for kind in _alternatives(annotation)):
            value = list(islice(value, MOST_NAMES + 1))
            if len(value) > MOST_NAMES:
                raise InputError(f"an iterator gives over {MOST_NAMES:,} values", hint="give a list of them")
        plain: Any = value if value.__class__ is float else plain_number(value)
        if _takes_numbers(annotation):
            if not isinstance(plain, list):
                plain = _as_number(plain)
            elif not {*map(type, plain)} <= {int, float}:
                plain = [_as_number(each) for each in plain]
            if (
                "Size" in _alternatives(annotation) and is_array(plain) and plain.ndim and plain.dtype.kind in "iuf"
            ):  # products in float64 do not overflow
                plain = own_array(plain)
        if plain.__class__ is float and not plain:
            plain = 0.0
        if plain.__class__ is float and plain.is_integer() and "int" in annotation and "float" not in annotation:
            return int(plain) if "int" in _alternatives(annotation) else plain
        return plain
    except RooflineError:
        raise
    except Exception:  # of whatever kind
        return value


def _raised_within(error: Exception, arguments: Mapping[str, Any]) -> InputError | None:
    """An error about the argument that is or holds a value whose own method raised this error, or None."""
    from traceback import walk_tb

    last = [frame.f_code for frame, _ in walk_tb(error.__traceback__)][-1]
    for name, value in arguments.items():
        for depth, each in _held(value):
            methods = (vars(kind).values() for kind in type(each).__mro__)
            if any(getattr(found, "__code__", None) is last for found in chain(*methods)):
                verb = "holds" if depth else "is"
                return InputError(f"{name} {verb} {a_or_an(type(each).__name__)} that cannot be read: {error}")
    return None


def _held(value: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """A value and what its lists, dicts and arrays of objects hold, each with how deep."""
    yield depth, value
    parts = [*value, *value.values()] if type(value) is dict else value if type(value) in (list, tuple) else ()
    parts = value.flat if is_array(value) and value.dtype == object else parts
    for each in parts if depth < MOST_DEPTH else ():
        yield from _held(each, depth + 1)


def _check_open(named: Mapping[str, Any]) -> None:
    """Refuse an open count beside one of several values."""
    counts = {name: named[name] for name in named.keys() & COUNTS.keys()}
    opened = [name for name, value in counts.items() if is_symbol(value)]
    if opened:
        listed = [name for name, value in counts.items() if isinstance(value, list | tuple) and len(value) > 1]
        listed += [name for name, value in counts.items() if is_array(value) and value.size > 1]
        none_open(listed, opened)


def _as_number(value: Any) -> Any:
    """What says its number as that number: of another library, or of a class with ``__float__``."""
    if isinstance(value, _NUMBERS_AND_TEXT) or not _is_number(value):
        return value
    return plain_number(float(value))


@lru_cache(maxsize=1024)
def _takes_numbers(annotation: str) -> bool:
    return any(kind in (*_NUMBER, *_NUMBERS) for kind in _alternatives(annotation))


def _check_values(arguments: Iterable[tuple[str, Any]], annotations: Mapping[str, str], function: str) -> None:
    """Refuse what a function is not to look at: too many values, no text, no end."""
    for name, value in arguments:
        try:
            check_number_of(name, value)
            check_text(name, value)
            wrong = wrong_kind({name: value}, annotations, function=function) if _may_be_endless(value) else None
        except RooflineError:
            raise
        except Exception:  # a value whose own methods raise is told where the function comes to grief
            continue
        if wrong is not None:
            raise wrong


def _may_be_endless(value: Any) -> bool:
    """Whether a value is gone through item by item, is no list of Python's and no array: it may have no end.

    >>> _may_be_endless(iter([1])), _may_be_endless([1]), _may_be_endless({}), _may_be_endless(8)
    (True, False, False, False)
    """
    own = type(value)
    is_gone_through = hasattr(own, "__iter__") or hasattr(own, "__getitem__")
    return is_gone_through and not isinstance(value, str | bytes | Collection) and not hasattr(own, "dtype")


def _at_border(name: str, value: Any, annotation: str) -> Any:
    """An argument of a method as its function takes it: several sizes are an array in float64, which does not overflow.

    >>> _at_border("batch", range(1, 3), "Size"), _at_border("batch", "8k", "Size"), _at_border("of", [1], "tuple[int]")
    (array([1., 2.]), 8000, (1,))
    """
    plain = _own(name, value, annotation)
    if "Size" in _alternatives(annotation):
        plain = typed_size(name, plain)
        if isinstance(plain, str) and "str" not in _alternatives(annotation):
            raise InputError(f"{name} is {quoted(plain)}, and takes a whole number or several")
        return array_of(name, plain) if isinstance(plain, list | tuple | range) or is_array(plain) else plain
    return tuple(plain) if isinstance(plain, list) and annotation.startswith("tuple[") else plain


def _unbound(error: TypeError, own: Signature, given: Sequence[Any], named: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call: Python names the first that is missing, this all of them.

    >>> _unbound(TypeError("missing a required argument: 'a'"), signature(lambda a, b, *, c, d=0: 0), (), {"b": 1})
    "missing required arguments: 'a', 'c'"
    """
    if not str(error).startswith("missing"):
        return str(error)
    filled = {**own.bind_partial(*given, **named).arguments}
    required = (
        name for name, each in own.parameters.items() if each.default is each.empty and "VAR" not in each.kind.name
    )
    missing = [repr(name) for name in required if name not in filled]
    return str(error) if len(missing) < 2 else f"missing required arguments: {', '.join(missing)}"


#: Kinds of arguments by the heads of annotations: what is one, and how an error calls it.
_KINDS: dict[str, tuple[tuple[Any, ...], str]] = {
    "None": ((type(None),), ""),
    "bool": ((bool,), "True or False"),
    "str": ((str,), "text"),
    "int": ((), "a whole number"),
    "float": ((), "a number"),
    "Size": ((str,), "a whole number or several"),
    "Figure": ((str, Mapping), "a number"),
    "Sequence": ((list, tuple, range, str), "a list"),
    "Iterable": ((list, tuple, range, str, Iterator), "a list"),
    "tuple": ((list, tuple, str), "a list"),
    "Tile": ((list, tuple, range, str), "three sizes"),
    "Mapping": ((Mapping,), "a dict"),
    "dict": ((Mapping,), "a dict"),
    "Model": ((Mapping, os.PathLike, int, float), "a model"),
    "Estimator": ((), "an estimator"),
    "Callable": ((Callable,), "a function"),
    "Progress": ((Callable,), "a function"),
    "RatesOf": ((Callable,), "a function"),
    "On": ((str, Mapping, list, tuple, type(None)), "a chip's name, its figures or a machine"),
}

#: Kinds that are one number, of other libraries too, and those that may be several or a symbol.
_NUMBER, _NUMBERS = ("int", "float", "Figure"), ("Size",)

#: Python's own numbers, and text, which may be a count.
_NUMBERS_AND_TEXT = (int, float, str, type(None))

#: Above this a whole number is no float.
_LARGEST = 10**308

#: Annotations of what is checked where it is read.
_OPEN = ("Any", "Device", "Targets", str(Parameter.empty))

#: How many arguments functions are called with, by the names of their kinds; ``Callable[[…], …]`` says it itself.
_CALLED_WITH = {"Progress": 2, "RatesOf": 3}

#: Names of several classes, and the module that these are of.
_MODULES = {"Section": "roofline.sections"}


def wrong_kind(
    arguments: Mapping[str, Any], annotations: Mapping[str, str], further: str = "Any", function: str = ""
) -> InputError | None:
    """An error about the first argument of a function that is of no kind that its annotation names, or None.

    ``further`` is the annotation of arguments by other names.

    >>> print(wrong_kind({"batch": 8, "theme": ["dark"]}, {"batch": "Size", "theme": "str | None"}))
    theme is ['dark'], and takes text; light or dark
    >>> print(wrong_kind({"files": ["a.toml", 3]}, {"files": "Sequence[str]"}))
    files is ['a.toml', 3], and takes a list of text; Machine file or folder over the catalog
    >>> print(wrong_kind({"fsdp": [8, 16]}, {"fsdp": "int | None"}, function="training_question"))
    fsdp is [8, 16], and takes a whole number; one at a time; roofline.sweep(phase='train') takes several
    >>> wrong_kind({"image_size": (1024, 768)}, {"image_size": "tuple[int, int] | None"})
    >>> wrong_kind({"policy": "min", "batch": 8}, {"policy": "str", "batch": "int"})
    """
    for name, value in arguments.items():
        annotation = annotations.get(name, further)
        if not _is_any_of(value, annotation):
            words = " or ".join(dict.fromkeys(filter(None, map(_in_words, _alternatives(annotation)))))
            said, option = " ".join(quoted(value).split()), spelled(name).rstrip("=")
            several = function == "training_question" and "int" in _alternatives(annotation) and _are_numbers(value)
            grid = f"one at a time; {call('sweep', phase='train')} takes several" if several else ""
            hint = grid or _meaning(name, function).rstrip(".")
            return InputError(f"{option} is {said}, and takes {words}", hint=hint)
    return None


def _meaning(name: str, function: str) -> str:
    """What an argument of a function means, as the caller writes it."""
    meaning = MEANINGS_OF.get(function, {}).get(name) or MEANINGS.get(name, "")
    return meaning if _COMMAND_LINE.get() else _in_python(meaning)


@lru_cache(maxsize=1024)
def _alternatives(annotation: str) -> list[str]:
    """What an annotation allows.

    >>> _alternatives("str | Sequence[str | os.PathLike[str]] | None")
    ['str', 'Sequence[str | os.PathLike[str]]', 'None']
    """
    found = [""]
    for part in annotation.split(" | "):
        whole = found[-1].count("[") == found[-1].count("]")
        found = [*found, part] if whole else [*found[:-1], f"{found[-1]} | {part}"]
    return found[1:]


#: Python's own classes whose values are of a kind, whatever they are.
_PLAINLY: dict[str, tuple[type, ...]] = {
    "str": (str,), "bool": (bool,), "None": (type(None),), "int": (int,), "float": (int, float), "Size": (int, float),
    "On": (str, type(None)),
}  # fmt: skip

#: Kinds that take a list or dict of Python's own, which is right at first sight where each thing in it is.
_HOLDS: dict[type, tuple[str, ...]] = {
    tuple: ("tuple", "Sequence", "Iterable"), list: ("Sequence", "Iterable"), dict: ("Mapping", "dict"),
}  # fmt: skip


@lru_cache(maxsize=1024)
def _plain_classes(annotation: str) -> frozenset[type]:
    kinds = _alternatives(annotation)
    if not {"", *_OPEN}.isdisjoint(kinds):
        return frozenset(each for classes in _PLAINLY.values() for each in classes)
    return frozenset(each for kind in kinds for each in _PLAINLY.get(kind, ()))


@lru_cache(maxsize=1024)
def _annotations_within(own: Any, annotation: str) -> tuple[str, ...]:
    """The annotation of what a list of a class holds, of a dict's keys and of its values; empty where others are taken.

    >>> _annotations_within(tuple, "tuple[str, ...]"), _annotations_within(dict, "Mapping[str, Size | None] | None")
    (('str',), ('str', 'Size | None'))
    >>> _annotations_within(list, "Size | Sequence[int]"), _annotations_within(tuple, "tuple[int, int]")
    ((), ())
    """
    for kind in () if _takes_numbers(annotation) else _alternatives(annotation):
        head, _, inside = kind.removesuffix("]").partition("[")
        if inside and head in _HOLDS.get(own, ()) and (head != "tuple" or inside.endswith(", ...")):
            return tuple(inside.split(", ", 1)) if own is dict else (inside.removesuffix(", ..."),)
    return ()


def _holds_plainly(value: Any, annotation: str) -> bool:
    """Whether a list, tuple or dict of Python's own, and all that it holds, is right at first sight."""
    own: Any = type(value)
    within = _annotations_within(own, annotation)
    if not within or len(value) > MOST_LETTERS:
        return False
    if own is dict:
        names, values = within
        return all(_is_plainly(name, names) and _is_plainly(each, values) for name, each in value.items())
    return all(_is_plainly(each, within[0]) for each in value)


@lru_cache(maxsize=4096)
def _is_own(kind: Any, annotation: str) -> bool:
    """Whether values of a class are the package's own, and taken by an annotation that names the class, or any."""
    names = {each.__name__ for each in kind.__mro__} | {*_OPEN}
    own = vars(kind).get("__module__")
    return isinstance(own, str) and own.startswith("roofline.") and not names.isdisjoint(_alternatives(annotation))


def _is_plainly(value: Any, annotation: str) -> bool:
    """Whether a value is right at first sight."""
    own: Any = type(value)
    if own not in _plain_classes(annotation):
        return _holds_plainly(value, annotation) if own in _HOLDS else _is_own(own, annotation)
    if own is str:
        return value.isascii() and len(value) <= MOST_LETTERS
    if own is float and not value:  # it may be -0.0
        return False
    return own is not int or -_LARGEST <= value <= _LARGEST


def _is_any_of(value: Any, annotation: str) -> bool:
    try:
        return _is_plainly(value, annotation) or any(_is_of(value, kind) for kind in _alternatives(annotation))
    except Exception:  # raised by a method of the value's own
        return False


def _is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a kind: of one in the table, with the elements that it names, or of a class by its name."""
    head, _, inside = kind.partition("[")
    if head in _OPEN:
        return True
    known, classes = _KINDS.get(head, ((), ""))[0], {each.__name__ for each in type(value).__mro__}
    if isinstance(value, bool):
        return head == "bool"
    if head in _MODULES:
        return type(value).__module__ == _MODULES[head]
    if head in _CALLED_WITH or head == "Callable":
        return callable(value) and not is_symbol(value) and _takes_so_many(value, _called_with(kind))
    if head == "Tile" and is_array(value):
        return len(shape_of(value)) == 1
    if head in (*_NUMBER, *_NUMBERS) and not isinstance(value, known):
        whole = head != "int" or isinstance(value, int) or not _is_number(value) or float(value).is_integer()
        return (_is_number(value) and whole) or (head in _NUMBERS and _are_numbers(value))
    # other mappings may work out a value when they are asked for it
    if isinstance(value, dict) and inside and head in ("Mapping", "dict"):
        names, _, others = inside[:-1].partition(", ")
        return all(_is_any_of(key, names) and _is_any_of(each, others) for key, each in value.items())
    if head == "On" and isinstance(value, list | tuple):
        return bool(value) and all(_is_any_of(each, "str | Machine | Mapping") for each in value)
    kinds = [each.partition("[")[0] for each in _alternatives(inside[:-1].removesuffix(", ..."))]
    of_classes = bool(inside) and not any(each in _KINDS or each in _OPEN or "." in each for each in kinds)
    of_numbers = head in ("Sequence", "Iterable") and {*kinds} <= {"int", "float"}
    if isinstance(value, known) and not (isinstance(value, str) and (of_classes or of_numbers)):
        items = value if inside and isinstance(value, list | tuple | range) else ()
        allowed = inside[:-1].removesuffix(", ...").replace("str", "str | PathLike")
        if head == "tuple" and inside and not isinstance(value, str) and not inside.endswith(", ...]"):
            if len(value) != inside.count(", ") + 1:
                return False
            allowed = allowed.replace(", ", " | ")
        return all(_is_any_of(each, allowed) for each in items)
    name = {"On": "Machine"}.get(head, head.rpartition(".")[2])
    if head == "Model" and isinstance(getattr(value, "model_type", None), str):  # a configuration of transformers
        return True
    return name in classes or (name in ("Path", "PathLike") and isinstance(value, str | os.PathLike))


def _called_with(kind: str) -> int | None:
    """How many arguments functions of a kind are called with, None where it leaves that open.

    >>> _called_with("Callable[[int, str], None]"), _called_with("Callable[..., Any]"), _called_with("Progress")
    (2, None, 2)
    """
    head, _, inside = kind.partition("[")
    listed = re.match(r"\[([^\[\]]*)\]", inside)
    return _CALLED_WITH.get(head) if listed is None else len([each for each in listed[1].split(",") if each])


def _takes_so_many(function: Callable[..., Any], count: int | None) -> bool:
    """Whether a function can be called with so many arguments; one that does not say takes any."""
    try:
        own = signature(function)
    except (TypeError, ValueError):
        return not isinstance(function, type)
    try:
        own.bind(*range(count or 0))
    except TypeError:
        return count is None
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool) and (isinstance(value, float) or abs(value) <= _LARGEST)
    if isinstance(value, type) or is_symbol(value):
        return is_symbol(value) and bool(value.is_number) and is_real(value)
    # letters of numpy's kinds of numbers: whole, unsigned, real, of Python's own
    letter = getattr(getattr(value, "dtype", None), "kind", "O")
    if not hasattr(value, "__float__") or isinstance(value, complex) or letter not in "iufO" or shape_of(value):
        return False
    return float(value) is not None  # raises where its own method does


def _are_numbers(value: Any) -> bool:
    """Whether a list or an array has an entry at least, and numbers alone; text in it may be a count."""
    if is_symbol(value):
        return is_real(value)
    if isinstance(value, range):
        return bool(value)
    if isinstance(value, list | tuple):
        if set(map(type, value)) == {int}:  # as a range is written out, of a million numbers
            return bool(max(max(value), -min(value)) <= _LARGEST)
        return len(value) > 0 and all(_is_number(each) or _is_count(each) for each in value)
    return is_array(value) and value.ndim > 0 and value.size > 0 and value.dtype.kind in "iuf"


def _is_count(value: Any) -> bool:
    return isinstance(value, str) and value.strip()[:1].isdigit() and count(value, billion=True) is not None


def _in_words(kind: str) -> str:
    head, _, inside = kind.partition("[")
    words = _KINDS.get(head, ((), head.rpartition(".")[2]))[1]
    if words == "a function" and (count := _called_with(kind)):
        return f"{words} of {count} argument{'s' * (count > 1)}"
    return f"{words} of text" if inside.startswith("str") and words == "a list" else words


def check_fields(value: Any) -> None:
    """The border of a dataclass that callers make: a field of a wrong kind is an error that names it.

    Numbers of other libraries become Python's.
    """
    for each in fields(value):
        given, kind = getattr(value, each.name), str(each.type)
        if _is_plainly(given, kind):
            continue
        plain = _own(each.name, given, kind)
        check_text(each.name, plain)
        if (wrong := wrong_kind({each.name: plain}, {each.name: kind})) is not None:
            raise wrong
        object.__setattr__(value, each.name, plain)


def check_text(name: str, value: Any) -> None:
    """Refuse text with half a character, which no file and no terminal can hold.

    >>> check_text("name", chr(0xD800))
    Traceback (most recent call last):
    roofline.errors.InputError: name has a character that is no text, U+D800; leave it out
    """
    if value.__class__ is str and not value.isascii() and (half := re.search("[\ud800-\udfff]", value)):
        raise InputError(f"{name} has a character that is no text, U+{ord(half[0]):X}", hint="leave it out")
    if name in ("name", "title", "library") and value.__class__ is str and len(value) > MOST_LETTERS:
        raise InputError(f"{name} has {len(value):,} letters", hint=f"at most {MOST_LETTERS:,}")


def check_top(top: Any, of: str) -> None:
    """Refuse how many to list where it is no whole number above 0."""
    if top is not None and (not isinstance(top, int) or isinstance(top, bool) or top < 1):
        raise InputError(f"top is {quoted(top)}", hint=f"how many {of} to list, as in top=5")


def _is_common(parameter: Parameter, doc: str) -> bool:
    """Whether a call must or may begin with it, or a docstring explains or shows it in its own words."""
    named = parameter.name == "on" or f"``{parameter.name}``" in doc or f" {parameter.name}=" in doc
    return named or parameter.kind is not Parameter.KEYWORD_ONLY or parameter.default is Parameter.empty


def described(doc: str | None, names: Collection[str], function: str = "") -> str | None:
    """A docstring with what the parameters of a function mean that it does not name itself.

    >>> print(described("Ask.", ["batch"]))
    Ask.
    <BLANKLINE>
        Options
            ``batch``  Sequences at once (default 1); a list or range gives a table.
    >>> print(str(described("Ask.", ["on"])).splitlines()[-2].strip())
    ``on``  h100, h100:8, v5e:4x4, a TOML file, a dictionary of figures.

    A method's docstring is set in further, and stays one text:

    >>> from inspect import cleandoc
    >>> cleandoc(str(described("Ask.\\n\\n        More.\\n        ", ["eager"]))).splitlines()[2:5]
    ['More.', '', 'Options']
    """
    own = MEANINGS_OF.get(function, {})
    told = {name: own.get(name) or MEANINGS.get(name, "") for name in names if doc and f"``{name}``" not in doc}
    left = {name: _in_python(meaning) for name, meaning in told.items() if meaning}
    if doc is None or not left:
        return doc
    option = re.compile(r"--([a-z][a-z-]*)")
    said = [(n, option.sub(lambda word: f"``{word[1].replace('-', '_')}``", each)) for n, each in left.items()]
    below = [line for line in doc.splitlines()[1:] if line.strip()]
    set_in = " " * min((len(line) - len(line.lstrip()) for line in below), default=4)
    lines = (f"{set_in}    ``{name}``  {meaning}" for name, meaning in said)
    head = [] if f"\n{set_in}Options\n" in doc else ["", f"{set_in}Options"]
    return "\n".join([doc.rstrip(), *head, *lines, set_in])


def _in_python(meaning: str) -> str:
    """What an option means, its commands as the calls that they are in Python."""
    for command, said in _COMMANDS_IN_PYTHON.items():
        meaning = meaning.replace(command, said)
    return meaning


#: Commands in the meaning of options, and what a Python user takes in their place.
_COMMANDS_IN_PYTHON = {
    "a TOML file (roofline chips --template)": "a TOML file, a dictionary of figures",
    "roofline chips h100": "roofline.chip('h100')",
}

_COMMAND_LINE: ContextVar[bool] = ContextVar("command line", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Spell options as a command line does within the block."""
    token = _COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def spelled(name: str, value: Any = None) -> str:
    """An option as the caller writes it: a keyword in Python, ``--name`` on the command line.

    >>> spelled("batch_tokens", 4096), spelled("price", "h100=3"), spelled("eager")
    ('batch_tokens=4096', "price='h100=3'", 'eager=')
    >>> with on_command_line():
    ...     spelled("batch_tokens", 4096), spelled("estimate", True), spelled("eager")
    ('--batch-tokens 4096', '--estimate', '--eager')
    """
    if _COMMAND_LINE.get():
        return f"--{name.replace('_', '-')}" + ("" if value is None or value is True else f" {value}")
    return f"{name}=" + ("" if value is None else f"{value!r}")


def call(command: str, *given: str, **options: Any) -> str:
    """A command as the caller writes it: a line to paste into a terminal, or the function of its name.

    >>> call("chips", "h100"), call("chips", filter="hopper"), call("chips")
    ("roofline.chips('h100')", "roofline.chips(filter='hopper')", 'roofline.chips()')
    >>> with on_command_line():
    ...     call("chips", "h100"), call("chips", filter="hopper")
    ('`roofline chips h100`', '`roofline chips --filter hopper`')
    """
    if _COMMAND_LINE.get():
        return f"`{' '.join(['roofline', command, *given, *(spelled(*each) for each in options.items())])}`"
    return f"roofline.{command}({', '.join([*map(repr, given), *(spelled(*each) for each in options.items())])})"


def _no_room(error: MemoryError, values: Iterable[Any]) -> OutOfMemoryError:
    """No room in memory: for rows where one of the values holds or lists several, as ``1,2,4`` and ``1:9`` do."""
    of_rows = any(
        re.match(r"\d[\w.]*\s*[:,]", each)
        if isinstance(each, str)
        else is_array(each) or isinstance(each, list | range)
        for each in values
    )
    return OutOfMemoryError(of_rows or getattr(error, "of_rows", False))


def either(option: str, keyword: str) -> str:
    """What the caller writes, where the command line and Python have other words for it.

    >>> either("--json", "to_dict()")
    'to_dict()'
    >>> with on_command_line():
    ...     either("--json", "to_dict()")
    '--json'
    """
    return option if _COMMAND_LINE.get() else keyword


def setting(figure: str, value: str = "…") -> str:
    """What gives a machine a figure, as the caller writes it.

    >>> setting("bf16", "1e14")
    "set={'bf16': 1e14}"
    >>> with on_command_line():
    ...     setting("bf16", "1e14")
    '--set bf16=1e14'
    """
    return either(f"--set {figure}={value}", f"set={{{figure!r}: {value}}}")


def with_named(shown: Signature, defaults: Mapping[str, Any]) -> Signature:
    """A signature with more named parameters, by name with their defaults; sizes by name stay the last.

    >>> with_named(signature(lambda line, **sizes: 0), {"exact": False})
    <Signature (line, *, exact=False, **sizes)>
    """
    own = [each for each in shown.parameters.values() if each.name not in defaults]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    last = [each for each in own if each.kind is Parameter.VAR_KEYWORD]
    found = shown.replace(parameters=[*(each for each in own if each not in last), *more, *last])
    if isinstance(found, ShortSignature) and isinstance(shown, ShortSignature):
        found.common = [*shown.common, *defaults]
    return found


def listed_names(names: Any) -> list[Any]:
    """Names of a list, or of one text with commas between them.

    >>> listed_names("h100, a100"), listed_names(["h100"])
    (['h100', 'a100'], ['h100'])
    """
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def optional(**annotations: str) -> list[Parameter]:
    """Parameters that are None where they are left out, by name with what they take.

    >>> optional(past="int")
    [<Parameter "past: 'int | None' = None">]
    """
    kind = Parameter.KEYWORD_ONLY
    return [Parameter(name, kind, default=None, annotation=f"{what} | None") for name, what in annotations.items()]


def renamed(source: Callable[..., Any], names: Mapping[str, str]) -> list[Parameter]:
    """Some parameters of a dataclass under the names of options: ``{option: field}``."""
    found = {each.name: each for each in _parameters(source)}
    # in a step a number of chips may be several
    several = {"int": "Size", "int | None": "Size | None"}
    return [
        found[name].replace(name=option, annotation=several.get(str(found[name].annotation), found[name].annotation))
        for option, name in names.items()
    ]


def _parameters(source: Callable[..., Any] | Collection[Parameter]) -> Collection[Parameter]:
    """The parameters of a source; the fields of a dataclass are named ones, an empty value for one that is made."""
    if not callable(source):
        return source
    found = signature(source).parameters.values()
    if not is_dataclass(source):
        return found
    made = {each.name: each.default_factory for each in fields(source) if each.default_factory is not MISSING}
    return [
        each.replace(kind=Parameter.KEYWORD_ONLY, default=None if each.name in made else each.default) for each in found
    ]
