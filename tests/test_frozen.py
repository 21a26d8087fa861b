"""Frozen dataclasses are those of the standard library, made faster."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from roofline import frozen


@frozen.dataclass(frozen=True, slots=True)
class Fast:
    """A class of ours; its twin is the standard library's."""

    size: int
    name: str = "a"
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)

    @property
    def double(self) -> int:
        """Twice the size."""
        return 2 * self.size


@dataclass(frozen=True, slots=True)
class Plain:
    """A class of the standard library."""

    size: int
    name: str = "a"
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


@frozen.dataclass(frozen=True, slots=True)
class Larger(Fast):
    """A class that inherits."""

    more: int = 5


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Fields by name only, one of them checked."""

    share: float = 0.5
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("count is below 1")

    def __repr__(self) -> str:
        return f"<{self.count}>"


@frozen.dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A class whose values compare by identity."""

    size: int


@frozen.dataclass(frozen=True, slots=True)
class Single:
    """One field."""

    size: int


@frozen.dataclass(frozen=True, slots=True)
class Empty:
    """No field."""


def test_values_look_as_those_of_the_standard_library() -> None:
    assert repr(Fast(1, tags=["x"], note="n")) == repr(Plain(1, tags=["x"], note="n")).replace("Plain", "Fast")
    assert str(inspect.signature(Fast)) == str(inspect.signature(Plain))
    assert Fast.__match_args__ == Plain.__match_args__
    assert [f.name for f in fields(Fast)] == [f.name for f in fields(Plain)]
    assert Fast(3).double == 6
    assert not hasattr(Fast(3), "__dict__")
    assert repr(Named(count=2)) == "<2>"


@pytest.mark.parametrize("of", [Fast, Plain])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda cls: cls(),
        lambda cls: cls(1, "b", [], "", 5),
        lambda cls: cls(1, size=2),
        lambda cls: cls(1, extra=2),
    ],
)
def test_wrong_arguments_are_type_errors(of: Any, wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        wrong(of)


def test_values_compare_by_their_fields() -> None:
    assert Fast(1, note="x") == Fast(1, note="y") != Fast(2)
    assert Fast(1).__eq__(Plain(1)) is NotImplemented
    assert Identity(1) != Identity(1)
    assert hash(Single(7)) == hash(Single(7)) != hash(Single(8))
    assert Single(7) != Single(8)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert len({Identity(1), Identity(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Fast(1))


@pytest.mark.parametrize("value", [Fast(1, tags=["x"]), Larger(2, more=9), Named(count=3), Empty()])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)), replace])
def test_values_are_copied(value: Any, again: Callable[[Any], Any]) -> None:
    assert dataclasses.asdict(again(value)) == dataclasses.asdict(value)
    assert type(again(value)) is type(value)


def test_values_stay_as_they_were_made() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
        Fast(1).size = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
        del Fast(1).size
    with pytest.raises(FrozenInstanceError):
        Fast(1).other = 2  # type: ignore[attr-defined]


def test_fields_follow_their_rules() -> None:
    assert Fast(1).tags is not Fast(1).tags
    assert (Larger(1, "b", ["c"], "d", 6).more, Larger(1).name) == (6, "a")
    assert Named(count=1).share == 0.5
    with pytest.raises(TypeError, match="positional"):
        Named(0.5, 1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="below 1"):
        Named(count=0)
    with pytest.raises(TypeError, match="frozen, slotted"):
        frozen.dataclass(frozen=False, slots=True)
