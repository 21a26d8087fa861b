"""The processor: its name and features, the cores this process may use, its priority on them, who else uses them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import monotonic

from roofline.frozen import dataclass

#: Where Linux keeps the limits of groups of processes, and says which groups this one is in.
GROUPS, OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"

#: Files of both versions that hold a group's time and the period it is for, and its memory.
TIME_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
MEMORY_FILES = (("memory.max",), ("memory.limit_in_bytes",))

#: A limit of memory of so many bytes is none.
UNLIMITED = 2.0**60

#: Bits of one vector register by the feature that brings it, widest first; last for all other processors.
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
    def has_fma(self) -> bool:
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
        cores=available_cores(),
    )


def available_cores() -> tuple[int, ...]:
    """One hardware thread of every core this process may use, of no more cores than its quota allows."""
    cores, given = one_thread_a_core(usable_threads()), core_quota()
    return cores if given is None else cores[: max(1, int(given))]


def core_quota(root: str = GROUPS, own: str = OWN_GROUPS) -> float | None:
    """The quota of cores that this process has, as in a container; None where the system sets none.

    >>> core_quota("/no/such/folder") is None
    True
    """
    found = _limits("cpu", TIME_FILES, root, own)
    return min((time / period for time, period in found if time > 0 and period > 0), default=None)


def memory_limit(root: str = GROUPS, own: str = OWN_GROUPS) -> float | None:
    """The limit of this process's memory in bytes; None where the system sets none."""
    found = _limits("memory", MEMORY_FILES, root, own)
    return min((size for [size] in found if size < UNLIMITED), default=None)


def _limits(controller: str, files: Sequence[Sequence[str]], root: str, own: str) -> list[list[float]]:
    """Limits of the control groups this process is in, and of the groups around them."""
    try:
        groups = [line.split(":", 2) for line in Path(own).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in (group for group in groups if len(group) == 3):
        if controllers and controller not in controllers.split(","):
            continue
        top = Path(root, controllers)
        inner = top / path.strip("/")
        around = [folder for folder in (inner, *inner.parents) if folder.is_relative_to(top)]
        for folder, names in product(around, files):
            with contextlib.suppress(OSError, ValueError):
                words = " ".join((folder / name).read_text(encoding="ascii") for name in names).split()
                found.append([float(word) for word in words])
    return found


def usable_threads() -> tuple[int, ...]:
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


def data_caches(root: str = "/sys/devices/system/cpu/cpu0/cache") -> dict[str, float]:
    """Levels of caches for data that the system reports, with the bytes of each, 0 where it says no size.

    >>> data_caches("/no/such/folder")
    {}
    """
    found = {}
    for index in Path(root).glob("index*"):
        try:
            if (index / "type").read_text(encoding="ascii").strip() in ("Data", "Unified"):
                level = (index / "level").read_text(encoding="ascii").strip()
                found[level] = _cache_bytes(index / "size")
        except OSError:
            continue
    return found


def _cache_bytes(path: Path) -> float:
    """The size of a cache in a file, as ``32768K``."""
    try:
        text = path.read_text(encoding="ascii").strip()
        return float(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
    except (OSError, ValueError):
        return 0.0


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


_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


def allow_tiles() -> bool:
    """Ask the system to let this process use matrix tiles (AMX); tell whether it does.

    Source: Linux kernel documentation, "Using XSTATE features in user space applications".
    """
    if not sys.platform.startswith("linux"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    return int(system.syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)) == 0


#: Where the system lists the threads of this process.
_TASKS = "/proc/self/task"


def thread_ids() -> set[int]:
    """The threads of this process by the system's numbers, none where it does not list them."""
    with contextlib.suppress(OSError):
        return {int(name) for name in os.listdir(_TASKS)}
    return set()


#: Niceness while measuring. Only a privileged process may take one below its own.
NICENESS = -15

#: Where the system counts what its cores did.
_CORE_TIMES = "/proc/stat"


@contextlib.contextmanager
def raised_priority() -> Iterator[bool]:
    """Raise the priority of all threads of this process, those begun meanwhile too; tell whether the system agreed.

    A process of usual priority beside others is taken off its core every few milliseconds; one of higher priority keeps
    it for longer than a window lasts. Others still get their share, and what they used is told with the figures.
    """
    if not hasattr(os, "setpriority"):
        yield False
        return
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    preferred = usual > NICENESS and _set_niceness(0, NICENESS)
    if preferred:
        for task in thread_ids():
            _set_niceness(task, NICENESS)
    try:
        yield preferred
    finally:
        if preferred:
            for task in (0, *thread_ids()):
                _set_niceness(task, usual)


def _set_niceness(task: int, niceness: int) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, task, niceness)
    except OSError:
        return False
    return True


class OtherLoad:
    """How busy others kept some hardware threads since this was made; other machines on the same host count too.

    >>> used = OtherLoad((0, 1)).used()
    >>> used is None or used >= 0
    True
    """

    def __init__(self, threads: Sequence[int]) -> None:
        self.threads = tuple(threads)
        self._start, self._busy, self._own = monotonic(), _busy_time(self.threads), _own_time()

    def used(self) -> float | None:
        """Their CPU time as a share of all these threads' time, None where the system does not tell."""
        now = _busy_time(self.threads)
        if now is None or self._busy is None:
            return None
        whole = (monotonic() - self._start) * len(self.threads)
        theirs = (now - self._busy) - (_own_time() - self._own)
        return max(theirs / whole, 0.0) if whole > 0 else 0.0


def _busy_time(threads: Sequence[int]) -> float | None:
    """Seconds that some hardware threads were busy or taken away since the system started."""
    names = {f"cpu{thread}" for thread in threads}
    try:
        with open(_CORE_TIMES, encoding="ascii") as file:
            found = [columns for name, *columns in map(str.split, file) if name in names]
        times = [map(int, columns[:8]) for columns in found]
        ticks = sum(user + nice + system + irq + soft + stolen for user, nice, system, _, _, irq, soft, stolen in times)
        return ticks / os.sysconf("SC_CLK_TCK") if len(found) == len(names) else None
    except (OSError, ValueError):
        return None


def _own_time() -> float:
    found = os.times()
    return found.user + found.system
