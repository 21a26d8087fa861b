"""Speculation under load: how many checks an answer takes, and how its tokens a check vary.

A check of a draft of γ tokens, each accepted with probability α if all before it in the draft are, gives K tokens: the
accepted ones and the model's own. An answer ends within its last check, whose further tokens are lost. So with
q = 1 − 1/m an answer of geometric length, m tokens on average, takes

    checks = 1 / (1 − E[q^K]),    P(K = k) = α^(k−1)·(1 − α) for k ≤ γ,  α^γ for k = γ + 1

on average, and their number is geometric again; one of L tokens takes M(L) = 1 + E[M(L − K)].

>>> draft = Acceptance(4, 0.8)
>>> round(draft.mean, 4), round(draft.checks(1e6, "geometric") / 1e6 * draft.mean, 4)
(3.3616, 1.0)
>>> round(draft.checks(127, "geometric"), 2), round(draft.checks(127, "fixed"), 2), round(127 / draft.mean, 2)
(38.25, 38.24, 37.78)
>>> Acceptance(4, 0.0).checks(127, "geometric")
127.0

Source of the model of acceptance: Y. Leviathan, M. Kalman, Y. Matias, arXiv:2211.17192.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from roofline.models.description import Model
from roofline.models.serving.speculation import check_acceptance, check_draft, expected_tokens

#: Times the longest check after which the checks of an answer grow with its length alone.
SETTLED = 40


@dataclass(frozen=True)
class Acceptance:
    """A draft of ``length`` tokens, each accepted with probability ``chance`` if all before it are."""

    length: int
    chance: float

    def __post_init__(self) -> None:
        check_draft(self.length)
        check_acceptance(self.chance)

    @property
    def mean(self) -> float:
        """Mean tokens a check gives."""
        return float(expected_tokens(self.length, self.chance))

    @cached_property
    def chances(self) -> Any:
        """Probabilities of 1 to γ + 1 tokens a check."""
        powers = self.chance ** np.arange(self.length + 1, dtype=np.float64)
        return np.append(powers[:-1] * (1 - self.chance), powers[-1])

    @property
    def variance(self) -> float:
        """Variance of the tokens a check gives."""
        numbers = np.arange(1, self.length + 2)
        return float(self.chances @ (numbers - self.mean) ** 2)

    def checks(self, tokens: float, lengths: str) -> float:
        """Mean checks of an answer of so many tokens after its first; ``lengths`` are ``geometric`` or ``fixed``."""
        return _checks(self, float(tokens), lengths)

    def checks_of(self, tokens: Any) -> Any:
        """Mean checks of answers of exactly so many tokens: whole numbers in an array."""
        means = _renewals(self)
        beyond = np.maximum(tokens - (len(means) - 1), 0)
        return means[np.minimum(tokens, len(means) - 1)] + beyond / self.mean

    def spread(self, tokens: Any) -> Any:
        """Standard deviation of the checks of so many tokens, over their mean: of a renewal process."""
        return np.sqrt(self.variance / np.maximum(tokens, 1.0) / self.mean)

    def draw(self, random: Any, tokens: Any) -> Any:
        """Checks of single answers of so many tokens each, drawn at random."""
        left, found = np.array(tokens, dtype=np.int64), np.zeros(len(tokens), dtype=np.int64)
        while (open_ := np.flatnonzero(left > 0)).size:
            found[open_] += 1
            left[open_] -= random.choice(self.length + 1, size=open_.size, p=self.chances) + 1
        return found


@dataclass(frozen=True, slots=True)
class Speculating:
    """Drafts that are tried: their ``lengths``, the ``acceptance``, what drafts, and the format of its matrices.

    ``by`` is a model, ``mtp``, or a share of a step, as in :func:`roofline.models.serving.speculation.speculate`.
    """

    lengths: tuple[int, ...] = ()
    acceptance: float = 0.8
    by: Model | str | float = 0.1
    weights: str | None = None

    def __post_init__(self) -> None:
        for length in self.lengths:
            self.of(length)

    def of(self, length: int) -> Acceptance | None:
        """The acceptance of drafts of so many tokens; None of no draft."""
        return Acceptance(length, self.acceptance) if length else None

    @property
    def model(self) -> str | None:
        """The name of the model that drafts, where there is one."""
        return None if isinstance(self.by, int | float) else self.by if isinstance(self.by, str) else self.by.name

    @property
    def said(self) -> str:
        """What drafts, in words."""
        if self.model is None:
            return f"what takes {self.by:g} of a step"
        name = "its own prediction layers" if self.model == "mtp" else self.model
        return name if self.weights is None else f"{name} in {self.weights}"


@cache
def _checks(draft: Acceptance, tokens: float, lengths: str) -> float:
    if tokens <= 1:
        return max(tokens, 0.0)
    if lengths == "fixed":
        return float(draft.checks_of(np.array(round(tokens))))
    # 1 − E[q^K], without the difference of two numbers near 1
    ends = -np.expm1(np.arange(1, draft.length + 2) * np.log1p(-1 / tokens))
    return 1 / float(draft.chances @ ends)


@cache
def _renewals(draft: Acceptance) -> Any:
    """M(L) by its recursion, as far as it takes to be a straight line."""
    means = [0.0] * (draft.length + 1)
    for _ in range(SETTLED * (draft.length + 1)):
        means.append(1 + sum(float(chance) * means[-back] for back, chance in enumerate(draft.chances, 1)))
    return np.array(means[draft.length :])
