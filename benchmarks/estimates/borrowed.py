"""Groups that no other shares constants with borrow them: six stay their own, the others are another group's.

A policy or a version of a library that one group alone has left it nothing to share. Such a group takes the constants
that are not its own from the group of the kind of kernel that its rows tell of best, and fits its own ones anew. A
product with its quantiser may take those of the product alone. Which group that is, two parts of its first half say:
each is fitted with the constants of every other group in turn, and tested on the other part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.estimates.fits import LEAST_FOR_INTERVAL, Outcome, outcome, parted, residuals
from benchmarks.estimates.rows import Group
from roofline.estimates.constants import KERNELS
from roofline.estimates.fitting import Fitted, Rows, fit
from roofline.estimates.kernel_model import KernelModel

#: Most rows that a lender is chosen on.
MOST = 500
#: Loss of a group that finds none to borrow from, or that keeps its own for nobody.
NONE = 1e3
#: Constants that groups share, by name and value.
Shared = tuple[tuple[str, float], ...]


def with_lenders(
    families: Sequence[Sequence[Outcome]], data: Mapping[Group, Rows], alone: Sequence[Outcome] = ()
) -> list[Outcome]:
    """Outcomes of one kind of kernel, family by family, where no group keeps all constants for itself.

    Of a product with its quantiser, ``alone`` are those of the product without it, which lend too.
    """
    sharing: dict[Shared, list[Outcome]] = defaultdict(list)
    for one in (one for family in families for one in family):
        sharing[shared(one)].append(one)
    beside: dict[Shared, list[Outcome]] = defaultdict(list)
    for one in alone:
        beside[shared(one)].append(one)
    borrowed = {sharing[key][0].group: dict(taken) for key, taken in lenders(sharing, data, beside).items()}
    return [one for family in families for one in _of_family(family, borrowed, data)]


def shared(one: Outcome) -> Shared:
    """The constants of a group that are not its own."""
    own = KERNELS[one.group.kernel].own(one.constants.policy)
    return tuple((name, value) for name, value in one.constants.values.items() if name not in own)


def lenders(
    sharing: Mapping[Shared, Sequence[Outcome]],
    data: Mapping[Group, Rows],
    beside: Mapping[Shared, Sequence[Outcome]],
) -> dict[Shared, Shared]:
    """Whose constants each group without others borrows, so that all together lose least; what is lent is kept.

    Constants of links are lent on their chip alone.
    """
    losses, lent = {}, {}
    for key, (one, *others) in sharing.items():
        if others or not key:
            continue
        model, rows = KERNELS[one.group.kernel], parted(one.group, data[one.group])[0]
        names = [name for name, _ in key]
        near = {
            other: min(members, key=lambda each: each.group.library != one.group.library).constants.values
            for other, members in {**beside, **sharing}.items()
            if other != key and ("link" not in model.shapes or one.group.chip in {each.group.chip for each in members})
        }
        # a group that has other constants of its own than all others takes the rest from any of them
        known = [other for other in near if [name for name, _ in other] == names] or list(near)
        rows = rows.take(np.arange(0, len(rows), -(-len(rows) // MOST)))
        lent[key] = {other: tuple((name, near[other][name]) for name in names) for other in known}
        losses[key] = dict(zip(known, losses_of(model, rows, one, list(lent[key].values())), strict=True))
    return {key: lent[key][other] for key, other in least_loss(losses).items()}


def losses_of(model: KernelModel, rows: Rows, one: Outcome, others: Sequence[Shared]) -> list[float]:
    """By how much the mean error of a group's rows grows with the shared constants of others: two parts in turn."""
    policy = one.constants.policy
    own, halves = model.own(policy), [rows.take(np.arange(start, len(rows), 2)) for start in (0, 1)]
    alone = [fit(model, part, policy=policy, most=40) for part in halves]

    def error(found: Sequence[Fitted]) -> float:
        tested = zip(found, halves[::-1], strict=True)
        off = [np.log(model.times(part.shapes, part.chip, now.values, policy) / part.seconds) for now, part in tested]
        return float(np.abs(np.concatenate(off)).mean())

    least, losses = error(alone), []
    for other in others:
        starts = [{**now.values, **dict(other)} for now in alone]
        moved = [fit(model, part, start, own, policy, most=12) for part, start in zip(halves, starts, strict=True)]
        losses.append(error(moved) - least)
    return losses


def least_loss(losses: Mapping[Any, Mapping[Any, float]]) -> dict[Any, Any]:
    """Of what each would lose by borrowing from each, who borrows from whom: what is borrowed is not lent.

    At first all borrow from those that share already and are no borrowers. Then one that saves most by keeping its own,
    for others to borrow, does so, alone or in the place of another, until nothing is saved.

    >>> least_loss({"a": {"b": 0.1, "shared": 0.9}, "b": {"a": 0.3, "shared": 0.4}, "c": {"a": 0.2, "shared": 0.1}})
    {'a': 'b', 'c': 'shared'}
    """

    def chosen(lend: frozenset[Any]) -> tuple[float, dict[Any, Any]]:
        takes = {}
        for key, row in losses.items():
            known = (other for other in row if other in lend or other not in losses)
            if key not in lend:
                takes[key] = min(known, key=row.__getitem__, default=None)
        idle = len(lend - set(takes.values()))
        return idle * NONE + sum(losses[key].get(other, NONE) for key, other in takes.items()), takes

    lend: frozenset[Any] = frozenset()
    while True:
        others = [lend | {key} for key in losses if key not in lend]
        others += [further - {key} for further in [lend, *others] for key in lend]
        best = min(others, key=lambda each: chosen(each)[0], default=lend)
        if chosen(best)[0] >= chosen(lend)[0]:
            return {key: other for key, other in chosen(lend)[1].items() if other is not None}
        lend = best


def _of_family(
    family: Sequence[Outcome], borrowed: Mapping[Group, Mapping[str, float]], data: Mapping[Group, Rows]
) -> list[Outcome]:
    """Outcomes of groups that share constants, those of borrowers made anew.

    Where a borrower has few rows for an interval, those of its whole family make it.
    """
    parts = {one.group: parted(one.group, data[one.group]) for one in family}
    fitted = {
        one.group: _refitted(one, borrowed[one.group], parts[one.group][0]) for one in family if one.group in borrowed
    }
    few = any(sum(map(len, parts[group][:2])) < LEAST_FOR_INTERVAL for group in fitted)
    checks = {
        one.group: residuals(one.group.kernel, *parts[one.group][:2], fitted.get(one.group) or _as_fitted(one))
        for one in family
        if few or one.group in fitted
    }
    return [_again(one, fitted[one.group], parts[one.group], checks) if one.group in fitted else one for one in family]


def _refitted(one: Outcome, taken: Mapping[str, float], rows: Rows) -> Fitted:
    """A group with constants of another, its own ones fitted anew."""
    model, policy = KERNELS[one.group.kernel], one.constants.policy
    return fit(model, rows, {**one.constants.values, **taken}, model.own(policy), policy)


def _as_fitted(one: Outcome) -> Fitted:
    return Fitted(one.constants.values, one.constants.policy, 0.0)


def _again(
    one: Outcome, now: Fitted, parts: tuple[Rows, Rows, Rows], checks: Mapping[Group, tuple[Any, Any]]
) -> Outcome:
    """A group's record with other constants: what other chips' constants gave stays."""
    train, _, test = parts
    check = checks[one.group]
    if len(check[0]) < LEAST_FOR_INTERVAL:
        estimated, measured = zip(*checks.values(), strict=True)
        check = np.concatenate(estimated), np.concatenate(measured)
    made = outcome(one.group, train, test, now, check).constants
    object.__setattr__(made, "error", {**one.constants.error, **made.error})
    return replace(one, constants=made)
