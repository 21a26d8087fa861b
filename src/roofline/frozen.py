"""A mapping that stays as it was made: the peaks of a unit, the options of a step; a value as part of a key."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

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
