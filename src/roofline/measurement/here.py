"""The machine one is on, as it was measured: its figures, and its roofs with all threads and with one."""

from __future__ import annotations

import os
from typing import NamedTuple

from roofline.errors import InputError
from roofline.hardware import chip
from roofline.hardware.catalog import user_file
from roofline.hardware.machine import Machine
from roofline.measurement.machine_chips import ALL, ONE
from roofline.measurement.machine_file import read_machine_file
from roofline.measurement.result import Measurement


class Here(NamedTuple):
    """What was ``measured``, the roof ``on`` the threads asked for, and that of ``one_thread``."""

    measured: Measurement
    on: Machine
    one_thread: Machine


def this_machine(machine: str | os.PathLike[str] | None = None, threads: int | None = None) -> Here:
    """Load a machine file of ``roofline measure``, by default the one that ``--on this`` reads.

    Raises :class:`~roofline.errors.InputError` where there is none.
    """
    path = os.fspath(machine) if machine is not None else user_file("this.toml")
    if machine is not None and not os.path.isfile(path):
        raise InputError(f"there is no file {path!r}", hint=f"make it with `roofline measure -o {path}`")
    if not os.path.isfile(path):
        raise InputError("no measurement of this machine is known", hint="make one with `roofline measure`")
    measured = read_machine_file(path)
    several = len(measured.thread_counts()) > 1
    one = chip(f"{path}#{ONE if several else ALL}")
    return Here(measured, one if threads == 1 else chip(f"{path}#{ALL}"), one)
