"""Proposals: changes of a question that may help, each asked afresh; what helps is kept, the best first.

One engine serves a line, a step of serving and a step of training. Each of them lists proposals, and says how its
answers compare (:class:`Standing`). A question is a value, so a proposal holds the changed one and not a text to edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from roofline.errors import RooflineError

#: The least gain worth a line.
LEAST_GAIN = 1.005

#: Chips another one is compared with when no others are named.
OTHER_CHIPS = ("h100", "h200", "b200", "mi300x", "v5p", "v6e")

A = TypeVar("A", covariant=True)
Found = TypeVar("Found")


class Askable(Protocol[A]):
    """A question as a value: ``answer`` asks it."""

    def answer(self) -> A:
        """Ask it."""


@dataclass(frozen=True, slots=True)
class Proposal(Generic[A]):
    """A change to try: what it is, why it may help, and the question with it made.

    ``more`` is how many times the work the changed question does, ``chips`` how many times the chips it takes.
    """

    change: str
    reason: str
    question: Askable[A]
    more: float = 1.0
    chips: float = 1.0


class Standing(NamedTuple):
    """What an answer is compared by: seconds for its work, whether it fits, how much of it is not timed, its memory."""

    time: float
    fits: bool | None
    gaps: int
    kind: str | None
    memory: float = 0.0


class Kept(NamedTuple, Generic[Found]):
    """A proposal that helps: its answer, how much faster the same work gets, whether it fits and did not before."""

    proposal: Proposal[Found]
    after: Found
    gain: float
    makes_it_fit: bool
    reason: str
    memory: float


def helpful(
    proposals: Iterable[Proposal[Found]], before: Found, standing: Callable[[Found], Standing]
) -> list[Kept[Found]]:
    """Ask each proposal; keep what helps: first what makes it fit, then by gain, then by memory.

    Left out are changes that cannot be answered, that leave more untimed, that gain nothing, and those after which it
    fits no more.
    """
    old = standing(before)
    kept: list[Kept[Found]] = []
    for proposal in proposals:
        try:
            after = proposal.question.answer()
        except RooflineError:
            continue
        new = standing(after)
        gain = old.time / new.time * proposal.more
        makes_it_fit = old.fits is False and new.fits is True
        loses_fit = new.fits is False and (old.fits is not False)
        if new.gaps > old.gaps or loses_fit or (gain < LEAST_GAIN and not makes_it_fit):
            continue
        then = f"then {new.kind}" if new.kind != old.kind else f"still {new.kind}"
        reason = f"{proposal.reason}: {then}" if proposal.reason else then
        kept.append(Kept(proposal, after, gain, makes_it_fit, reason, new.memory))
    return sorted(kept, key=lambda each: (not each.makes_it_fit, -each.gain, each.memory))


def standing_of(answer: Any) -> Standing:
    """What a bound is compared by."""
    fits = None if answer.footprint is None else answer.footprint.fits
    return Standing(float(answer.lower), fits, len(answer.incomplete), answer.kind)
