"""Going before others, and saying what they used."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from time import monotonic, process_time

import pytest
from made import made

from roofline.measurement import priority, read_machine_file, write_machine_file
from roofline.measurement.priority import NICENESS, Others, ahead
from roofline.measurement.processor import usable


def niceness():
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_threads_begun_meanwhile_are_preferred_and_all_come_back():
    usual, seen = niceness(), []
    with ahead() as preferred:
        thread = threading.Thread(target=lambda: seen.append(niceness()))
        thread.start()
        thread.join()
        seen.append(niceness())
    assert seen == [NICENESS if preferred else usual] * 2
    assert niceness() == usual


def test_a_system_that_does_not_allow_it_changes_nothing(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(priority.os, "setpriority", refuse)
    usual = niceness()
    with ahead() as preferred:
        assert not preferred
    assert niceness() == usual


def test_own_work_is_not_that_of_others(monkeypatch):
    busy = iter([100.0, 103.0])
    own = iter([10.0, 12.5])
    clock = iter([0.0, 2.0])
    monkeypatch.setattr(priority, "_busy", lambda threads: next(busy))
    monkeypatch.setattr(priority, "_own", lambda: next(own))
    monkeypatch.setattr(priority, "monotonic", lambda: next(clock))
    assert Others((0, 1)).used() == pytest.approx((3 - 2.5) / 4)


def test_the_system_counts_this_process_too():
    """What this process burns shows among all that is busy, but for ticks that fell on others."""
    threads = usable()
    if priority._busy(threads) is None:
        assert Others(threads).used() is None
        return
    busy, own, end = priority._busy(threads), process_time(), monotonic() + 0.3
    while monotonic() < end:
        pass
    assert priority._busy(threads) - busy >= (process_time() - own) / 2


def test_only_the_threads_in_use_count(tmp_path):
    """A process held on one of many cores was told that others used more than all of its time."""
    ticks = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    stat.write_text(f"cpu 9 9 9 9 9 9 9 9\ncpu0 {ticks} 0 0 5 5 0 0 0 0 0\ncpu1 0 0 {ticks} 7 7 0 0 {ticks}\nintr 3\n")
    seconds = [priority._busy(threads, str(stat)) for threads in ((0,), (1,), (0, 1), (0, 2))]
    assert seconds == [1.0, 2.0, 3.0, None]


def test_a_busy_machine_is_called_contended(tmp_path):
    found = made()
    assert not found.contended
    busy = replace(found, conditions=replace(found.conditions, others=0.5, ahead=True))
    assert busy.contended
    assert "contended: others used 50% of the cores' time; this process went before them" in busy.warnings()
    name = tmp_path / "busy.toml"
    write_machine_file(busy, name)
    assert read_machine_file(name).conditions == busy.conditions
    quiet = replace(found, conditions=replace(found.conditions, others=0.02))
    assert not quiet.contended
