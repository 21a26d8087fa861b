"""Going before others, and saying what they used."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest
from made import made

from roofline.measurement import processor, read_machine_file, write_machine_file
from roofline.measurement.processor import NICENESS, OtherLoad, raised_priority


def niceness():
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_threads_begun_meanwhile_are_preferred_and_all_come_back():
    usual, seen = niceness(), []
    with raised_priority() as preferred:
        thread = threading.Thread(target=lambda: seen.append(niceness()))
        thread.start()
        thread.join()
        seen.append(niceness())
    assert seen == [NICENESS if preferred else usual] * 2
    assert niceness() == usual


def test_a_system_that_does_not_allow_it_changes_nothing(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(processor.os, "setpriority", refuse)
    usual = niceness()
    with raised_priority() as preferred:
        assert not preferred
    assert niceness() == usual


def test_own_work_is_not_that_of_others(monkeypatch):
    busy = iter([100.0, 103.0])
    own = iter([10.0, 12.5])
    clock = iter([0.0, 2.0])
    monkeypatch.setattr(processor, "_busy_time", lambda threads: next(busy))
    monkeypatch.setattr(processor, "_own_time", lambda: next(own))
    monkeypatch.setattr(processor, "monotonic", lambda: next(clock))
    assert OtherLoad((0, 1)).used() == pytest.approx((3 - 2.5) / 4)


def test_what_cores_did_is_read_but_for_idling_and_waiting(tmp_path, monkeypatch):
    """Of the hardware threads in use alone, by made-up counts: a system may be late with its own, or keep none.

    A process held on one of many cores was told that others used more than all of its time.
    """
    counts = tmp_path / "stat"
    monkeypatch.setattr(processor, "_CORE_TIMES", str(counts))
    monkeypatch.setattr(processor.os, "sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    counts.write_text("cpu 9 9 9 9 9 9 9 9\ncpu0 100 20 30 4000 500 6 7 80 9 0\ncpu1 0 0 100 7 7 0 0 100\nintr 3\n")
    assert [processor._busy_time(threads) for threads in ((0,), (1,), (0, 1), (0, 2))] == [2.43, 2.0, 4.43, None]
    for other in ("", "intr 1 2 3\n", "cpu0 none\n"):
        counts.write_text(other, encoding="ascii")
        assert processor._busy_time((0,)) is None
    counts.unlink()
    assert processor._busy_time((0,)) is OtherLoad((0,)).used() is None


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
