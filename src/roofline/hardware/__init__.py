"""What chips offer: the catalog, targets, and the one place where an amount of work meets a rate.

>>> from roofline.hardware import chip
>>> chip("a100").name
'NVIDIA A100 SXM4 80GB'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.errors import late_names

if TYPE_CHECKING:
    from roofline.hardware.machine import Machine as Machine
    from roofline.hardware.overrides import override as override
    from roofline.hardware.rate import with_choices as with_choices
    from roofline.hardware.targets import chip as chip
    from roofline.hardware.targets import chips as chips
    from roofline.hardware.targets import names as names

__all__ = ["Machine", "chip", "chips", "names", "override", "with_choices"]

_NAMES = {
    "machine": ("Machine",),
    "overrides": ("override",),
    "rate": ("with_choices",),
    "targets": ("chip", "chips", "names"),
}
__getattr__ = late_names(__name__, _NAMES)
