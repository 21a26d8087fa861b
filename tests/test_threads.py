"""Threads: any of them may be the first to load numpy, sympy or matplotlib, whatever the others ask meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

COLD = """
import sys
sys.setswitchinterval(1e-6)
from concurrent.futures import ThreadPoolExecutor
import roofline

LINE = "bf16[B, D] * bf16[D, F]"
QUESTIONS = [
    lambda: roofline.bound(LINE, on="h100", B=64, D=512, F=512).lower,
    lambda: roofline.solve(LINE, "B", on="v5e", D=4096, F=4096).pick,
    lambda: str(roofline.bound(LINE, on="h100").lower),
    lambda: str(roofline.sweep(LINE, on="h100", B=[64, 128], D=512, F=512).to_dict()),
    lambda: roofline.models.serve("llama-2-7b", on="h100", context=128).decode.lower,
    lambda: roofline.chip("h100").name,
    lambda: roofline.shard("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", B=64, D=512, F=512).to_dict(),
    lambda: roofline.plot(LINE, on="h100", B=64, D=512, F=512)._repr_svg_(),
]
assert not {"numpy", "sympy", "matplotlib"} & set(sys.modules)
with ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(lambda number: QUESTIONS[number % 8](), range(16)))
assert answers == 2 * [ask() for ask in QUESTIONS]
"""


def test_cold_calls_in_a_pool_of_threads() -> None:
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_library_that_is_half_loaded_has_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType

    from roofline.sizes import is_array, is_symbol

    for name in ("numpy", "sympy"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not is_array(object())
    assert not is_symbol(object())
