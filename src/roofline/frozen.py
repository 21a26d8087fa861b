"""Frozen values: mappings and dataclasses that stay as they were made."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

K = TypeVar("K")
V = TypeVar("V")


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


if not TYPE_CHECKING:

    def dataclass(
        *, frozen: bool, slots: bool, eq: bool = True, repr: bool = True, kw_only: bool = False
    ) -> Callable[[type], type]:
        """Make a frozen, slotted dataclass, as ``dataclasses.dataclass(frozen=True, slots=True)`` does, but faster.

        The standard library compiles six functions for every class when its module loads. Here they are closures, and
        only ``__init__`` is compiled, when the first value is made. Each class costs a tenth of a millisecond, not one.

        >>> @dataclass(frozen=True, slots=True)
        ... class Figure:
        ...     value: float
        ...     source: str = ""
        >>> Figure(989.4e12) == Figure(989.4e12), dataclasses.replace(Figure(1.0), source="data sheet")
        (True, Figure(value=1.0, source='data sheet'))
        >>> Figure(1.0).value = 2.0
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'value'
        """
        if not (frozen and slots):
            raise TypeError("this makes frozen, slotted classes; dataclasses.dataclass makes others")

        def make(described: type) -> type:
            plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
            cls = plain(described)
            methods = {"__init__": _first_init(cls), "__signature__": _Signature(), **_FROZEN}
            if repr:
                methods["__repr__"] = _show
            if eq:
                methods |= _comparison(cls)
            for name, method in methods.items():
                if described.__dict__.get(name) is None:
                    setattr(cls, name, method)
            return cls

        return make


def _refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN = {
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}


def _show(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _comparison(cls: Any) -> dict[str, Callable[..., Any]]:
    """Make ``==`` and ``hash`` of a class by its fields."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    values: Callable[[Any], Any]
    values = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _first_init(cls: Any) -> Callable[..., None]:
    """Make the ``__init__`` that is replaced by the compiled one when the first value is made."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _compile_init(cls)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _compile_init(cls: Any) -> Callable[..., None]:
    """Compile the ``__init__`` that a class's fields describe."""
    fields = dataclasses.fields(cls)
    known: dict[str, Any] = {"_set": object.__setattr__, "_unset": _Unset()}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in fields:
        parameter = value = field.name
        if field.default is not dataclasses.MISSING:
            known[f"_default_{field.name}"] = field.default
            parameter += f"=_default_{field.name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_make_{field.name}"] = field.default_factory
            parameter += "=_unset"
            value = f"_make_{field.name}() if {field.name} is _unset else {field.name}"
        (named if field.kw_only else positional).append(parameter)
        body.append(f"  _set(self, {field.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    lines = [f"def make({', '.join(known)}):", f" def __init__({parameters}):", *body, "  pass", " return __init__"]
    made: dict[str, Any] = {}
    exec("\n".join(lines), sys.modules[cls.__module__].__dict__, made)
    init: Callable[..., None] = made["make"](**known)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{field.name: field.type for field in fields}, "return": None}
    return init


class _Unset:
    """Stands for the value that a field's factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


class _Signature:
    """What :func:`inspect.signature` shows of a class."""

    def __get__(self, value: object, cls: Any) -> Any:
        import inspect

        signature = inspect.signature(_compile_init(cls))
        return signature.replace(parameters=list(signature.parameters.values())[1:])
