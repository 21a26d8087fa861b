"""Time of elementwise operations, norms and softmax: bytes at the rate of memory or cache, rows over cores, a launch.

::

    memory = bytes · (1 − warm) / (memory_efficiency · B/s) + bytes · warm / (memory_efficiency · B/s · cache_speedup)
    rows   = ⌈rows/cores⌉ · row_time + ⌈rows/cores⌉ · columns · element_time       (norms and softmax)
    T      = (memory^p + rows^p)^(1/p) + launch
"""

from __future__ import annotations

from roofline.estimates.kernel_model import (
    ChipFigures,
    KernelModel,
    ModelConstant,
    Parts,
    Shapes,
    Values,
    together,
    warm_share,
)

ELEMENTWISE = (
    ModelConstant("launch_time", "s", "time of an empty kernel", 5e-6, 2e-7, 1e-4, own=True),
    ModelConstant("memory_efficiency", "", "share of the data-sheet bandwidth that streams", 0.8, 0.1, 1.6, own=True),
    ModelConstant("cache_share", "", "cache that keeps operands between calls, as a share", 1.2, 0.02, 20.0, own=True),
    ModelConstant("cache_speedup", "", "rate of the cache against that of memory", 4.0, 1.0, 40.0, own=True),
)

ROWS = (
    *ELEMENTWISE,
    ModelConstant("row_time", "s", "time of a row on a core", 1e-8, 1e-12, 1e-4, own=True),
    ModelConstant("element_time", "s", "time of an element of a row on a core", 1e-11, 1e-14, 1e-8, own=True),
    ModelConstant("overlap_exponent", "", "how well rows and memory overlap", 3.0, 1.0, 12.0),
)


def elementwise_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of an operation that moves ``bytes``."""
    import numpy as np

    moved = np.asarray(shapes["bytes"], float)
    warm = warm_share(moved, c["cache_share"], chip.cache)
    memory = moved / (c["memory_efficiency"] * chip.bandwidth) * (1 - warm + warm / c["cache_speedup"])
    return Parts({"memory": memory, "launch": np.full_like(memory, c["launch_time"])})


def rows_parts(shapes: Shapes, chip: ChipFigures, c: Values, policy: str = "") -> Parts:
    """Parts of the time of a norm or softmax over ``rows`` of ``columns`` that moves ``bytes``."""
    import numpy as np

    memory = elementwise_parts(shapes, chip, c).seconds["memory"]
    turns = np.ceil(np.asarray(shapes["rows"], float) / chip.cores)
    rows = turns * (c["row_time"] + np.asarray(shapes["columns"], float) * c["element_time"])
    time = together(memory, rows, c["overlap_exponent"])
    hidden = np.minimum(memory, time)
    return Parts({"memory": hidden, "rows": time - hidden, "launch": np.full_like(time, c["launch_time"])})


#: The kernel models of this file.
MODELS = (
    KernelModel("elementwise", ("bytes",), ELEMENTWISE, elementwise_parts, sorted_by=("bytes",)),
    *(
        KernelModel(name, ("bytes", "rows", "columns"), ROWS, rows_parts, sorted_by=("bytes",))
        for name in ("norm", "softmax")
    ),
)
