"""Values that stay as they were made: dataclasses, named tuples, mappings (the peaks of a unit), parts of a cache key.

Dataclasses and named tuples are those of the standard library, which a type checker takes them for. Their methods are
written when they are first asked for: a command defines a hundred such classes, and compares or prints few of them.
"""

from __future__ import annotations

import dataclasses
from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import cache, partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

__all__ = ["Frozen", "NamedTuple", "Same", "dataclass", "field", "fields", "kept", "once", "replace"]

K = TypeVar("K")
V = TypeVar("V")
Method = TypeVar("Method", bound=Callable[[Any], Any])


class Frozen(dict[K, V]):
    """A dictionary that is never changed. Unlike Python's own read-only view it can be copied, pickled and hashed.

    >>> peaks = Frozen({"bf16": 197e12})
    >>> peaks["bf16"] = 394e12
    Traceback (most recent call last):
    TypeError: this mapping is not changed; make a new one, as in {**old, 'name': value}
    >>> import pickle
    >>> pickle.loads(pickle.dumps(peaks)) == peaks == {"bf16": 197e12}
    True
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is not changed; make a new one, as in {**old, 'name': value}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> Frozen[K, V]:
        return self

    def __reduce__(self) -> tuple[type[Frozen[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)


class Same(Generic[V]):
    """A value as part of a cache's key: equal to itself alone, however many its parts.

    >>> layers = (1, 2)
    >>> Same(layers) == Same(layers), Same(layers) == Same(tuple([1, 2]))
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: V) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


class _Once:
    """A property of a frozen value that is worked out when it is first asked for, and kept with the value."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work, self.slot, self.__doc__ = work, f"_once_{work.__name__}", work.__doc__

    def __get__(self, value: Any, owner: type | None = None) -> Any:
        if value is None:
            return self
        try:
            return object.__getattribute__(value, self.slot)
        except AttributeError:
            object.__setattr__(value, self.slot, found := self.work(value))
            return found


def kept(method: Method) -> Method:
    """A method of a frozen value that takes nothing: what it gives is worked out when it is first asked for, and kept.

    >>> @dataclass(frozen=True, slots=True)
    ... class Layer:
    ...     sizes: tuple[int, ...]
    ...     @kept
    ...     def shapes(self):
    ...         return list(self.sizes)
    >>> layer = Layer((1, 2))
    >>> layer.shapes() is layer.shapes()
    True
    """
    once_asked = _Once(method)

    @wraps(method)
    def asked(self: Any) -> Any:
        return once_asked.__get__(self)

    asked.slot = once_asked.slot  # type: ignore[attr-defined]
    return cast("Method", asked)


class _Factory:
    """Stands in a signature for a default that is made anew for each value."""

    def __repr__(self) -> str:
        return "<factory>"


class _Late:
    """A method of a class, or what a class knows of its fields, written when it is first asked for."""

    _writing = RLock()

    def __init__(self, write: Callable[[type], Any]) -> None:
        self.write = write

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, value: Any, asked: type | None = None) -> Any:
        with self._writing:
            if vars(self.owner)[self.name] is self:
                setattr(self.owner, self.name, self.write(self.owner))
        found = vars(self.owner)[self.name]
        return found.__get__(value, asked) if hasattr(found, "__get__") else found


_FACTORY = _Factory()

#: Values of so few fields are made sooner as what they are.
_FEW_FIELDS = 3

#: How the standard library marks a field of a value, beside those of a class.
_OF_AN_INSTANCE = dataclasses._FIELD  # type: ignore[attr-defined]


def _function(owner: type, head: str, lines: list[str], **known: Any) -> Any:
    """Write a method: its name with its parameters, and its lines."""
    name = head.partition("(")[0]
    exec(f"def {head}:\n " + "\n ".join(lines), space := {"__name__": owner.__module__, **known})
    space[name].__qualname__ = f"{owner.__qualname__}.{name}"
    return space[name]


@cache
def _open_twin(owner: type) -> type | None:
    """A class of the same slots whose fields are set as any attribute is, which takes a third of the time.

    A value is made as one of it and then becomes one of its own class. There is none for a class that has another one
    below it, whose slots would be apart from its own.
    """
    slots = vars(owner).get("__slots__")
    return type(owner.__name__, (), {"__slots__": slots}) if slots and owner.__bases__ == (object,) else None


def _init(owner: type) -> Any:
    """``__init__`` sets each field to what is given, to its default, or to a new value by its factory."""
    found = fields(owner)
    twin = _open_twin(owner) if len(found) > _FEW_FIELDS else None
    new = {each.name: each.default_factory for each in found if each.default_factory is not MISSING}
    # what sets a slot itself takes half the time of object.__setattr__
    setters = {f"_set_{each.name}": getattr(owner, each.name).__set__ for each in found}
    values = {each.name: f"{f'{each.name} if {each.name} is not _FACTORY else ' * each.init}_NEW[{each.name!r}]()"
              if each.name in new else each.name for each in found}  # fmt: skip
    lines = [f"_set_{name}(self, {value})" for name, value in values.items()]
    if twin is not None:
        made = [f"self.{name} = {value}" for name, value in values.items()]
        made = ["_be(self, _TWIN)", *made, "self.__class__ = _OWNER"]
        lines = ["if type(self) is _OWNER:", *(f"  {each}" for each in made), "else:", *(f"  {each}" for each in lines)]
        setters |= {"_OWNER": owner, "_TWIN": twin, "_be": vars(object)["__class__"].__set__}
    lines += ["self.__post_init__()"] * hasattr(owner, "__post_init__")
    given = [each for each in found if each.init]
    head = f"__init__({', '.join(['self', *(each.name for each in given)])})"
    init = _function(owner, head, lines or ["pass"], _FACTORY=_FACTORY, _NEW=new, **setters)
    defaults = (_FACTORY if each.name in new else each.default for each in given)
    init.__defaults__ = tuple(default for default in defaults if default is not MISSING)
    init.__annotations__ = {**{each.name: each.type for each in given}, "return": None}
    return init


def _compared(owner: type, whose: str) -> str:
    return f"({''.join(f'{whose}.{each.name}, ' for each in fields(owner) if each.compare)})"


def _eq(owner: type) -> Any:
    same = f"{_compared(owner, 'self')} == {_compared(owner, 'other')}"
    lines = ["if other.__class__ is self.__class__:", f"  return {same}", "return NotImplemented"]
    return _function(owner, "__eq__(self, other)", lines)


def _hash(owner: type) -> Any:
    return _function(owner, "__hash__(self)", [f"return hash({_compared(owner, 'self')})"])


def _repr(value: Any) -> str:
    shown = (f"{each.name}={getattr(value, each.name)!r}" for each in fields(value) if each.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _refuse_to_set(value: Any, name: str, *_: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(value: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(value: Any) -> list[Any]:
    return [getattr(value, each.name) for each in fields(value)]


def _set_state(value: Any, state: list[Any]) -> None:
    for each, part in zip(fields(value), state, strict=True):
        object.__setattr__(value, each.name, part)


_METHODS = {
    "__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete, "__getstate__": _state, "__setstate__": _set_state,
}  # fmt: skip


@cache
def _replacing(owner: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """What makes a copy of a value of a dataclass with changes."""
    names = [each.name for each in fields(owner) if each.init]
    twin = _open_twin(owner) if len(names) == len(fields(owner)) else None
    if twin is not None:
        lines = ["made = _new(_TWIN)", *(f"made.{name} = value.{name}" for name in names)]
        lines += [
            "for name in changes:",
            "  if name not in _NAMES:",
            "    _refuse(name)",
            "  _set(made, name, changes[name])",
        ]
        lines += ["made.__class__ = _OWNER"] + ["made.__post_init__()"] * hasattr(owner, "__post_init__")
        known = {"_new": object.__new__, "_TWIN": twin, "_OWNER": owner, "_NAMES": frozenset(names), "_set": setattr}
        made: Callable[[Any, dict[str, Any]], Any] = _function(
            owner, "_replaced(value, changes)", [*lines, "return made"], **known, _refuse=partial(_no_field, owner)
        )
        return made

    def replaced(value: Any, changes: dict[str, Any]) -> Any:
        for name in changes:
            if name not in names:
                _no_field(owner, name)
        return owner(*[changes[name] if name in changes else getattr(value, name) for name in names])

    return replaced


def _no_field(owner: type, name: str) -> NoReturn:
    raise TypeError(f"{owner.__name__} is not made with {name!r}")


def _replace(value: Any, /, **changes: Any) -> Any:
    """A copy with changes, as the standard library makes it, in a third of its time.

    >>> @dataclass(frozen=True, slots=True)
    ... class Link:
    ...     bandwidth: float
    ...     ways: int = 1
    >>> replace(Link(45e9), ways=2)
    Link(bandwidth=45000000000.0, ways=2)
    """
    return _replacing(type(value))(value, changes)  # type: ignore[arg-type]


def _known_fields(written: type, owner: type) -> dict[str, Any]:
    """The fields of a class and of those it is made from, by name, as the standard library keeps them."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__[1:]):
        found |= getattr(base, "__dataclass_fields__", {})
    for name, kind in written.__annotations__.items():
        if not kind.startswith("ClassVar"):
            default = vars(written).get(name, MISSING)
            each: Any = default if isinstance(default, Field) else field(default=default)
            each.name, each.type, each.kw_only, each._field_type = name, kind, False, _OF_AN_INSTANCE
            found[name] = each
    return found


def _late_dataclass(*, frozen: bool, slots: bool, eq: bool = True, repr: bool = True) -> Callable[[type], type]:
    """Make a class as the standard library does, which writes every method at once, in a quarter of its time.

    >>> @dataclass(frozen=True, slots=True)
    ... class Link:
    ...     bandwidth: float
    ...     ways: int = 1
    >>> Link(45e9), Link(45e9) == Link(45e9, ways=1)
    (Link(bandwidth=45000000000.0, ways=1), True)
    """
    late: dict[str, Any] = {"__init__": _init} | ({"__eq__": _eq, "__hash__": _hash} if eq else {})
    at_once = _METHODS | ({"__repr__": _repr} if repr else {})

    def made(written: type) -> type:
        def asked_of_library(name: str, owner: type) -> Any:
            return getattr(dataclasses.dataclass(init=False, repr=False, eq=False)(written), name)

        asked: dict[str, Any] = late | {"__dataclass_fields__": partial(_known_fields, written)}
        asked |= {name: partial(asked_of_library, name) for name in ("__dataclass_params__", "__match_args__")}
        methods = at_once | {name: _Late(write) for name, write in asked.items()}
        named = [name for name, kind in written.__annotations__.items() if not kind.startswith("ClassVar")]
        inherited = {name for base in written.__mro__ for name in getattr(base, "__slots__", ())}
        own = {name: part for name, part in vars(written).items() if name not in ("__dict__", "__weakref__", *named)}
        if eq and own.get("__hash__", 0) is None:  # as Python sets it beside an __eq__
            del own["__hash__"]
        remembered = [part.slot for part in own.values() if hasattr(part, "slot")]
        slotted = {"__slots__": (*(name for name in named if name not in inherited), *remembered)}
        found = type(written)(written.__name__, written.__bases__, methods | own | slotted)
        found.__qualname__ = written.__qualname__
        for part in own.values():
            part = getattr(part, "__wrapped__", part)  # a method stands behind its border
            for cell in getattr(part, "__closure__", None) or ():
                with suppress(ValueError):  # a cell of a local name may hold nothing yet
                    if cell.cell_contents is written:  # it says super()
                        cell.cell_contents = found
        return found

    return made


class _Tuple(tuple[Any, ...]):
    """The methods of a named tuple, alike for all."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _NamedTupleMaker(type):
    """Makes named tuples as the standard library does, which makes each class twice and writes its methods at once.

    >>> class Width(NamedTuple):
    ...     least: int
    ...     most: int = 80
    >>> Width(10), Width._make((1, 2))._replace(least=0), Width._fields
    (Width(least=10, most=80), Width(least=0, most=2), ('least', 'most'))
    """

    def __new__(cls, name: str, bases: tuple[type, ...], own: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, own)
        fields = tuple(own.get("__annotations__", ()))
        defaults = {each: own.pop(each) for each in fields if each in own}

        def new(owner: type) -> Any:
            head = f"__new__({', '.join(('_cls', *fields))})"
            made = _function(owner, head, [f"return _new(_cls, ({''.join(f'{each}, ' for each in fields)}))"], **_NEW)
            made.__defaults__ = tuple(defaults.values())
            made.__annotations__, made.__qualname__ = owner.__annotations__, f"{owner.__name__}.__new__"
            return staticmethod(made)

        known = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        places = {each: _tuplegetter(place, f"Alias for field number {place}") for place, each in enumerate(fields)}
        others = tuple(_Tuple if type(base) is cls else base for base in bases)
        return type(name, others, places | known | {"__new__": _Late(new)} | own)


_NEW = {"_new": tuple.__new__}


class _LateNamedTuple(metaclass=_NamedTupleMaker):
    pass


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
    from functools import cached_property as once
    from typing import NamedTuple
else:
    dataclass, NamedTuple, once, replace = _late_dataclass, _LateNamedTuple, _Once, _replace
