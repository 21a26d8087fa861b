"""Classes whose methods are written when they are first asked for are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field, fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from roofline import frozen
from roofline.frozen import dataclass, once

V = TypeVar("V")

LIBRARY = Path(frozen.__file__).parent


def classes(make: Callable[..., Any]) -> Iterator[Any]:
    """The same classes by another decorator, each with what makes a value of it."""

    @make(frozen=True, slots=True)
    class Plain:
        """A class with fields of every kind."""

        kind: ClassVar[str] = "plain"
        name: str
        size: int = 1
        parts: dict[str, int] = field(default_factory=dict, compare=False)
        hidden: int = field(default=2, repr=False, compare=False)
        made: list[int] = field(default_factory=list, init=False, compare=False)

        def __post_init__(self) -> None:
            self.made.append(self.size)

        def doubled(self) -> Any:
            return replace(self, size=2 * self.size)

    @make(frozen=True, slots=True)
    class Derived(Plain):
        """More fields, and a default of its own for one that there is."""

        size: int = 3
        more: float = 0.5

        def doubled(self) -> Any:
            return super(type(self), self).doubled()

    @make(frozen=True, slots=True, eq=False, repr=False)
    class Silent:
        """A class without what can be left out."""

        value: Any

    @make(frozen=True, slots=True)
    class Alike:
        """A class with an ``__eq__`` of its own."""

        value: int

        def __eq__(self, other: object) -> bool:
            return True

    @make(frozen=True, slots=True)
    class Empty:
        """A class without a field."""

    yield from (Plain, Derived, Silent, Alike, Empty)


PAIRS = zip(classes(dataclasses.dataclass), classes(dataclass), strict=True)
CASES = list(zip(PAIRS, [("a",), ("a",), ("a",), (1,), ()], strict=True))


@pytest.mark.parametrize(("pair", "given"), CASES, ids=["plain", "derived", "silent", "alike", "empty"])
def test_a_class_is_that_of_the_standard_library(pair: tuple[Any, Any], given: tuple[Any, ...]) -> None:
    standard, ours = pair
    assert str(signature(ours)) == str(signature(standard))
    assert [(each.name, each.type, each.init, each.compare) for each in fields(ours)] == [
        (each.name, each.type, each.init, each.compare) for each in fields(standard)
    ]
    assert (ours.__slots__, ours.__match_args__, ours.__qualname__) == (
        standard.__slots__, standard.__match_args__, standard.__qualname__,
    )  # fmt: skip
    values = [kind(*given) for kind in pair]
    for says in (
        lambda one: repr(one).replace(hex(id(one)), ""),
        lambda one: hash(one) if "__hash__" in vars(type(one)) else None,
        lambda one: (one == type(one)(*given), one == copy.copy(one), one != 1),
        lambda one: dataclasses.asdict(one),
        lambda one: dataclasses.asdict(copy.deepcopy(one)),
        lambda one: dataclasses.asdict(one.doubled()) if hasattr(one, "doubled") else None,
    ):
        assert says(values[1]) == says(values[0])
    with pytest.raises(TypeError) as theirs:
        standard(*given, unknown=1)
    with pytest.raises(TypeError) as mine:
        ours(*given, unknown=1)
    assert str(mine.value) == str(theirs.value)


def test_a_copy_with_changes_is_a_value_of_its_class_made_anew() -> None:
    @dataclass(frozen=True, slots=True)
    class Wide:
        name: str
        size: int = 1
        parts: dict[str, int] = field(default_factory=dict)
        label: str = ""
        last: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError("no size")

        @once
        def doubled(self) -> int:
            return 2 * self.size

    class Under(Wide):
        """A class below that is none of its own making."""

    value = Wide("a", 2)
    assert value.doubled == 4
    other = frozen.replace(value, size=5, label="b")
    assert (type(other), other, other.doubled) == (Wide, Wide("a", 5, {}, "b"), 10)
    assert other.parts is value.parts is not Wide("a").parts
    assert value == Wide("a", 2)
    under = Under("a", 3)
    assert (type(under), under.doubled, type(frozen.replace(under, size=4))) == (Under, 6, Under)
    for made in (value, other, under):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
            made.size = 1  # type: ignore[misc]
    for wrong in ({"size": -1}, {"size": -1, "name": "b"}):
        with pytest.raises(ValueError, match="no size"):
            frozen.replace(value, **wrong)
        with pytest.raises(ValueError, match="no size"):
            Wide(**{"name": "a", **wrong})
    with pytest.raises(TypeError, match="Wide is not made with 'sise'"):
        frozen.replace(value, sise=1)


@dataclass(frozen=True, slots=True)
class Kept:
    """A class that has a place in a module, and asks the one that it derives from."""

    value: int
    parts: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and super().__hash__() is not None and self.value == other.value


class Base:
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no {name}")


@dataclass(frozen=True, slots=True)
class Counted(Base):
    """A class with a property that is worked out once."""

    asked: list[int]

    @once
    def total(self) -> int:
        """What it is."""
        self.asked.append(1)
        return len(self.asked)


def test_what_is_worked_out_once_is_kept_with_the_value_and_is_no_part_of_it() -> None:
    value = Counted([])
    assert (value.total, value.total, value.asked, [each.name for each in fields(value)]) == (1, 1, [1], ["asked"])
    assert value == Counted([1])
    assert repr(value) == "Counted(asked=[1])"
    assert (pickle.loads(pickle.dumps(value)).total, replace(value, asked=[]).total) == (2, 1)
    assert Counted.total.__doc__ == "What it is."
    with pytest.raises(AttributeError, match="there is no other"):
        value.other


def named_tuples(base: Any) -> Iterator[Any]:
    """The same classes from another base."""

    class Plain(base):  # type: ignore[misc]
        """A class with a default and methods."""

        name: str
        size: int = 1

        @property
        def doubled(self) -> Any:
            return self._replace(size=2 * self.size)

    class Other(base, Generic[V]):  # type: ignore[misc]
        """A class that says itself what it looks like, and a parameter of its type."""

        value: V

        def __repr__(self) -> str:
            return "other"

    class Derived(Plain):
        """A class with more to say."""

        def __bool__(self) -> bool:
            return False

    yield from (Plain, Other, Derived)


TUPLES = list(zip(named_tuples(typing.NamedTuple), named_tuples(frozen.NamedTuple), strict=True))


@pytest.mark.parametrize("pair", TUPLES, ids=["plain", "other", "derived"])
def test_a_named_tuple_is_that_of_the_standard_library(pair: tuple[Any, Any]) -> None:
    for says in (
        lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__slots__, kind.__doc__),
        lambda kind: kind._make(["a", 2][: len(kind._fields)])._asdict(),
        lambda kind: (repr(kind("a")), kind("a") == kind("a"), hash(kind("a")), bool(kind("a"))),
        lambda kind: (kind("a")[0], copy.deepcopy(kind("a")), isinstance(kind("a"), tuple)),
        lambda kind: getattr(kind("a"), "doubled", None),
        lambda kind: {name: str(each.default) for name, each in signature(kind).parameters.items()},
        lambda kind: [each for each in dir(kind) if not each.startswith("_")],
    ):
        assert says(pair[1]) == says(pair[0])
    with pytest.raises(TypeError) as theirs:
        pair[0](unknown=1)
    with pytest.raises(TypeError) as mine:
        pair[1](unknown=1)
    assert str(mine.value) == str(theirs.value)
    assert hasattr(pair[1]("a"), "__dict__") is hasattr(pair[0]("a"), "__dict__")


def test_a_value_is_pickled_matched_and_not_changed() -> None:
    value = Kept(1, (2, 3))
    assert pickle.loads(pickle.dumps(value)).parts == (2, 3)
    match value:
        case Kept(first, second):
            assert (first, second) == (1, (2, 3))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'value'"):
        value.value = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'value'"):
        del value.value
    assert value == Kept(1)
    link = Link("a", 2)
    assert pickle.loads(pickle.dumps(link)) == copy.copy(link) == link
    match link:
        case Link(name, size):
            assert (name, size) == ("a", 2)


class Link(frozen.NamedTuple):
    """A named tuple that has a place in a module."""

    name: str
    size: int


def test_methods_are_written_once_for_several_threads() -> None:
    for _ in range(20):
        kind, *_rest = classes(dataclass)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda name, kind=kind: (kind(name), kind(name).parts), "abcdefgh"))
        assert [one.name for one, _ in found] == list("abcdefgh")


def test_frozen_dataclasses_of_the_package_are_these() -> None:
    standard = "from dataclasses import dataclass"
    sources = {path.relative_to(LIBRARY).as_posix(): path.read_text(encoding="utf-8") for path in LIBRARY.rglob("*.py")}
    found = {
        name
        for name, source in sources.items()
        if standard in source and source.count("\n@dataclass") == source.count("\n@dataclass(frozen=True, slots=True")
    }
    assert found - {"frozen.py"} == {"models/training/step.py"}  # its fields are given by name alone
    assert [
        name for name, source in sources.items() if re.search(r"^from typing import .*NamedTuple", source, re.M)
    ] == []
