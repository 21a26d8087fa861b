"""Leave to use matrix tiles (AMX): Linux gives it to a process that asks.

Source: Linux kernel documentation, "Using XSTATE features in user space applications".
"""

from __future__ import annotations

import ctypes
import sys

_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


def allow_tiles() -> bool:
    """Ask the system to let this process use matrix tiles; say whether it does."""
    if not sys.platform.startswith("linux"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    return int(system.syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)) == 0
