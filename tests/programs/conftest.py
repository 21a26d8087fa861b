"""Front ends are tested where their library is; the test extra brings it, so continuous integration tests them all."""

from __future__ import annotations

import os
from importlib.util import find_spec

collect_ignore_glob = [
    f"test_{library}_*"
    for library in ("torch", "jax", "onnx")
    if find_spec(library) is None and not os.environ.get("CI")
]
