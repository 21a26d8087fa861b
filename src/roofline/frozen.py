"""A mapping that stays as it was made: the peaks of a unit, the options of a step."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

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
