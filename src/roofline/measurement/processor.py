"""What the processor is: its name, its features, the cores this process may use, who else uses them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Bits of one vector register by the feature that brings it, widest first; what every other processor has last.
VECTOR_BITS = (("avx512f", 512), ("avx", 256), ("", 128))


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor: ``features`` are LLVM's names, ``cores`` the system's numbers of one hardware thread a core."""

    name: str
    architecture: str
    features: frozenset[str]
    cores: tuple[int, ...]

    @property
    def vector_bits(self) -> int:
        """Bits of the widest vector register."""
        return next(bits for feature, bits in VECTOR_BITS if not feature or feature in self.features)

    @property
    def fuses(self) -> bool:
        """Whether one instruction multiplies and adds: x86-64 has it since AVX2, and virtual machines may hide it."""
        return not self.is_x86 or bool(self.features & {"fma", "fma4", "avx512f"})

    @property
    def is_x86(self) -> bool:
        """Whether it runs x86-64 code."""
        return self.architecture in ("x86_64", "amd64")


def this_processor(features: Mapping[str, bool]) -> Processor:
    """Describe this machine's processor, given the features its code generator reports."""
    return Processor(
        name=_name(),
        architecture=platform.machine().lower(),
        features=frozenset(name for name, has in features.items() if has),
        cores=own_cores(),
    )


def own_cores() -> tuple[int, ...]:
    """One hardware thread of every core this process may use, of no more cores than it is given the time of."""
    cores, given = one_thread_a_core(usable()), quota()
    return cores if given is None else cores[: max(1, int(given))]


def quota(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> float | None:
    """How many cores' time this process is given, as a container is by its limits; None where the system sets none.

    >>> quota("/no/such/folder") is None
    True
    """
    try:
        groups = [line.split(":", 2)[1:] for line in Path(own).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    given = []
    for controllers, path in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = Path(root, controllers)
        inner = top / path.strip("/")
        for folder in (inner, *inner.parents):
            given.append(_quota(folder))
            if folder == top:
                break
    return min((cores for cores in given if cores is not None), default=None)


def _quota(folder: Path) -> float | None:
    """What one group of processes is given: time and the period it is for, in the files of both versions of Linux."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            time, period = " ".join((folder / name).read_text(encoding="ascii") for name in names).split()
            return float(time) / float(period) if float(time) > 0 else None
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return None


def usable() -> tuple[int, ...]:
    """List the hardware threads this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def one_thread_a_core(threads: tuple[int, ...], root: str = "/sys/devices/system/cpu") -> tuple[int, ...]:
    """Keep the first hardware thread of every core, as the system lists siblings; all, where it does not say.

    >>> one_thread_a_core((0, 1), root="/no/such/folder")
    (0, 1)
    """
    seen: set[str] = set()
    kept = []
    for thread in threads:
        try:
            core = Path(f"{root}/cpu{thread}/topology/thread_siblings_list").read_text(encoding="ascii").strip()
        except OSError:
            core = str(thread)
        if core not in seen:
            seen.add(core)
            kept.append(thread)
    return tuple(kept)


def cache_levels(root: str = "/sys/devices/system/cpu/cpu0/cache") -> int | None:
    """Count the levels of caches for data that the system reports, None where it does not say.

    >>> cache_levels("/no/such/folder") is None
    True
    """
    kept = set()
    for index in Path(root).glob("index*"):
        try:
            if (index / "type").read_text(encoding="ascii").strip() in ("Data", "Unified"):
                kept.add((index / "level").read_text(encoding="ascii").strip())
        except OSError:
            continue
    return len(kept) or None


def load_average() -> float | None:
    """Number of processes that wanted to run during the last minute, or None where the system does not count."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    plain = {key.strip(): value.strip() for key, value in fields.items()}
    return plain.get("model name") or platform.processor() or platform.machine()
