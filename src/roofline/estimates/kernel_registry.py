"""Every kernel model by the kind of kernel. Adding one is a file with ``MODELS`` and a word here.

>>> sorted(KERNELS)[:3]
['all_reduce', 'collective', 'contraction']
"""

from __future__ import annotations

from roofline.estimates import attention, communication, contraction, experts, steps, vector
from roofline.estimates.kernel_model import KernelModel

#: Kernel models by name.
KERNELS: dict[str, KernelModel] = {
    model.name: model
    for family in (contraction, attention, vector, communication, experts, steps)
    for model in family.MODELS
}
