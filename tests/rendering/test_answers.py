"""Every answer of the package yields sections and says itself in one line of its own."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

import roofline
from roofline.answers import CAPABILITIES, Answer, capability
from roofline.sections import Section
from tests.strategies import for_each

ROOMS = ("bounds", "models", "programs", "measurement")


def answers(of: type[Answer] = Answer) -> Iterator[type[Answer]]:
    """The classes of answers in the package."""
    for found in of.__subclasses__():
        if found.__module__.startswith("roofline."):
            yield found
        yield from answers(found)


def writes_itself(of: type[Answer]) -> bool:
    """Whether the one line at a prompt is the class's own, and not the one that ``dataclass`` makes of its fields."""
    return not hasattr(of.__repr__, "__wrapped__")


def test_no_answer_shows_its_fields_at_a_prompt() -> None:
    for room in ROOMS:
        package = import_module(f"roofline.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"roofline.{room}."):
            import_module(module.name)
    found = list(answers())
    assert len(found) > 20
    assert [each.__name__ for each in found if not writes_itself(each)] == []


def test_the_guard_sees_a_dataclass_that_shows_its_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Careless(Answer):
        value: int

        def sections(self) -> list[Section]:
            return []

    assert not writes_itself(Careless)


@for_each("name", CAPABILITIES)
def test_what_answers_offer_from_above_is_there(name: str) -> None:
    assert callable(capability(name))


def test_an_answer_and_its_page_say_the_same() -> None:
    found = roofline.bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192)
    page = found._repr_html_()
    for use in found.uses:
        assert f'data-value="{use.time!r}" data-unit="s"' in page
    for line in (*found.assumptions, *found.incomplete):
        assert line in page
