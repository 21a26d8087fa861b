"""Fit a family of groups, which shares the constants that are no group's own.

Groups are chips and libraries of one operation and format. The own constants of each and the shared ones of all are
fitted by turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roofline.estimates.fitting import Fitted, Rows, fit, fit_together
from roofline.estimates.kernel_model import FROM_HOST, KernelModel

#: Shares of the cache that fits of products begin with: all of it, and that of a cache whose parts hold the same.
CACHES: tuple[dict[str, float], ...] = ({}, {"cache_share": 0.4})
#: Steps after which starts are told apart.
LOOK = 8


def chosen_policy(model: KernelModel, rows: Rows, sample: int = 200, from_host: bool = True) -> str:
    """The policy under which a model fits a sample of these rows best: another than the first one if clearly so.

    Kernels that a graph started have none ``from_host``: nothing hides their start.
    """
    policies = [policy for policy in model.policies if from_host or not policy.endswith(FROM_HOST)]
    if len(policies) == 1:
        return policies[0]
    index = np.linspace(0, len(rows) - 1, min(sample, len(rows))).astype(int)
    few = rows.take(index)
    costs = {policy: fit(model, few, policy=policy, most=30).cost for policy in policies}
    best = min(costs, key=lambda policy: costs[policy])
    return best if costs[best] < model.clearly_less * costs[policies[0]] else policies[0]


def fit_family(
    model: KernelModel,
    groups: Sequence[Rows],
    policies: Sequence[str] = (),
    from_host: Sequence[bool] = (),
    turns: int = 3,
) -> list[Fitted]:
    """Fit groups that share the constants which are not their own.

    First every group alone, which also chooses its policy, where none of the ``policies`` is known of it: one
    ``from_host`` only where no graph was timed. Groups of one policy then share, and so do those whose policies are
    stated: by turns the shared constants of all, with the own ones fixed, and the own ones of each, with the shared
    ones fixed.
    """
    known = policies or [""] * len(groups)
    hosted = from_host or [True] * len(groups)
    alone = [_alone(model, *each) for each in zip(groups, known, hosted, strict=True)]
    found = list(alone)
    kinds = ["stated" if model.is_shared(one.policy) else one.policy for one in alone]
    for kind in dict.fromkeys(kinds):
        which = [i for i, one in enumerate(kinds) if one == kind]
        together = _sharing(model, [groups[i] for i in which], [alone[i] for i in which], turns)
        for i, one in zip(which, together, strict=True):
            found[i] = one
    return found


def _alone(model: KernelModel, rows: Rows, policy: str, from_host: bool) -> Fitted:
    return fit_alone(model, rows, policy or chosen_policy(model, rows, from_host=from_host))


def fit_alone(model: KernelModel, rows: Rows, policy: str) -> Fitted:
    """Fit all constants of a group; those of products from the share of the cache that fits best after a few steps.

    What a cache keeps of a product drops so sharply with what moves that no fit takes the share far.
    """
    starts = [model.defaults() | one for one in (CACHES if "contraction" in model.name else CACHES[:1])]
    start = starts[0]
    if len(starts) > 1:
        start = min(starts, key=lambda one: fit(model, rows, one, policy=policy, most=LOOK).cost)
    return fit(model, rows, start, policy=policy, most=40)


def _sharing(model: KernelModel, groups: Sequence[Rows], alone: Sequence[Fitted], turns: int) -> list[Fitted]:
    """Fit groups of one policy that share what is not their own."""
    own = model.own(alone[0].policy)
    shared = [constant.name for constant in model.constants if constant.name not in own]
    if not shared or len(groups) == 1:
        return list(alone)
    middle = {name: float(np.exp(np.mean([np.log(found.values[name]) for found in alone]))) for name in shared}
    now = [replace(found, values={**found.values, **middle}) for found in alone]
    for _ in range(turns):
        now = [fit(model, rows, found.values, own, found.policy) for rows, found in zip(groups, now, strict=True)]
        now = fit_together(
            model, groups, [dict(f.values) for f in now], shared, [f.policy for f in now], model.prior, 12
        )
    return [fit(model, rows, found.values, own, found.policy) for rows, found in zip(groups, now, strict=True)]
