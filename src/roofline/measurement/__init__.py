"""This machine → a machine with measured ceilings; timed operations and imported profiles → points under a roof.

:func:`measure` samples the processor, :func:`write_machine_file` makes a catalog entry of what it found, :func:`run`
times operations, :func:`read_profile` reads what a profiler saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.errors import late_names

if TYPE_CHECKING:
    from roofline.measurement.accelerator import measure_device
    from roofline.measurement.cpu import measure
    from roofline.measurement.machine_file import (
        MeasuredMachine,
        read_machine_file,
        this_machine,
        to_toml,
        write_machine_file,
    )
    from roofline.measurement.points import MeasuredPoint, MeasuredPoints, measured_kernels, points_of, profile
    from roofline.measurement.profiles import read_profile
    from roofline.measurement.result import Ceiling, Curve, Measurement
    from roofline.measurement.runs import Measured, read_measured
    from roofline.measurement.timing import run, run_function

__all__ = [
    "Ceiling", "Curve", "MeasuredMachine", "Measured", "Measurement", "MeasuredPoint", "MeasuredPoints", "measure",
    "measure_device", "measured_kernels", "points_of", "profile", "read_machine_file", "read_measured", "read_profile",
    "run", "run_function", "this_machine", "to_toml", "write_machine_file",
]  # fmt: skip

_NAMES = {
    "accelerator": ("measure_device",),
    "cpu": ("measure",),
    "machine_file": ("MeasuredMachine", "read_machine_file", "this_machine", "to_toml", "write_machine_file"),
    "points": ("MeasuredPoint", "MeasuredPoints", "measured_kernels", "points_of", "profile"),
    "profiles": ("read_profile",),
    "result": ("Ceiling", "Curve", "Measurement"),
    "runs": ("Measured", "read_measured"),
    "timing": ("run", "run_function"),
}
__getattr__ = late_names(__name__, _NAMES)
