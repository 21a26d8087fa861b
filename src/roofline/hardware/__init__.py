"""What chips offer: the catalog, targets, and the one place where an amount of work meets a rate.

>>> from roofline.hardware import chip
>>> chip("a100").name
'NVIDIA A100 SXM4 80GB'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.hardware.machine import Machine as Machine
    from roofline.hardware.overrides import override as override
    from roofline.hardware.rate import with_choices as with_choices
    from roofline.hardware.targets import chip as chip
    from roofline.hardware.targets import chips as chips
    from roofline.hardware.targets import names as names

__all__ = ["Machine", "chip", "chips", "names", "override", "with_choices"]

_HOME = {
    **dict.fromkeys(("chip", "chips", "names"), "targets"),
    "Machine": "machine",
    "override": "overrides",
    "with_choices": "rate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
