"""Whole measurements of a simulated host, whose true rates are known: what they find, and when they say "contended"."""

from __future__ import annotations

from statistics import median

import pytest
from simulated_host import Host
from tests.strategies import LONG, some

from roofline.measurement import probes
from roofline.measurement.levels import quantile

#: Runs of one host, and seconds of sampling of its thirty kernels: as much for each as in a full measurement.
RUNS, SECONDS = 10, 2.5


@pytest.fixture(scope="module")
def measured():
    """Ten measurements of a host that others use for a share of the time, each at another time."""
    kept = {}

    def measure(busy):
        if busy not in kept:
            with pytest.MonkeyPatch.context() as patch:
                kept[busy] = []
                for seed in range(RUNS):
                    host = Host(busy, seed, seconds=SECONDS)
                    patch.setattr(probes, "monotonic", host.time)
                    kept[busy].append(host.measure(rounds=3, windows=15))
        return kept[busy]

    return measure


def apart(runs):
    """How far the quartiles of every figure lie apart, the largest."""
    found = zip(*([summary.value for summary in run.summaries()] for run in runs), strict=True)
    return max((quantile(values, 0.75) - quantile(values, 0.25)) / median(values) for values in found)


def errors(run, host):
    """How far every confirmed figure of what stays on a core lies from the truth."""
    pairs = zip(run.summaries(), host.truth(), strict=True)
    return [abs(found.value / true - 1) for found, (true, memory) in pairs if found.confirmed and not memory]


def test_a_host_left_alone_is_said_to_be_uncontended(measured):
    runs = measured(0.0)
    assert not any(run.contended or run.unconfirmed for run in runs)
    assert apart(runs) < 0.01
    assert max(errors(runs[0], Host(0.0, 0, seconds=SECONDS))) < 0.01


@pytest.mark.parametrize("busy", some([0.02, 0.1, 0.3, 0.6], 4, 3))
@pytest.mark.long
def test_of_ten_runs_those_that_say_uncontended_agree(measured, busy):
    """Others use every core for a part of the time, unseen by this system; the figures are those of their absence."""
    uncontended = [run for run in measured(busy) if not run.contended]
    assert len(uncontended) > 1
    assert apart(uncontended) < 0.05


@pytest.mark.parametrize("busy", [0.8, 0.9] if LONG else [0.9])
def test_a_host_that_others_fill_is_said_to_be_contended(measured, busy):
    runs = measured(busy)
    assert all(run.contended for run in runs)
    assert all(run.warnings()[0].startswith("contended") for run in runs)


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8, 0.9] if LONG else [0.6, 0.9])
def test_what_is_confirmed_is_true_however_busy_the_host(measured, busy):
    host = Host(busy, 0, seconds=SECONDS)
    wrong = [error for run in measured(busy) for error in errors(run, host)]
    assert quantile(wrong, 0.95) < 0.05
