"""numpy and sympy under their usual names, each loaded where something of it is first used: importing is free.

>>> from roofline.lazy import np
>>> np.arange(3).tolist()
[0, 1, 2]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np", "sympy"]

if TYPE_CHECKING:
    import numpy as np
    import sympy
else:

    class _Library:
        """A library that keeps the names it was asked for; what looks for special methods does not load it."""

        def __init__(self, module: str) -> None:
            self._module = self.__name__ = module

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and name != "__version__":
                raise AttributeError(name)
            found = self.__dict__[name] = getattr(import_module(self._module), name)
            return found

    np, sympy = _Library("numpy"), _Library("sympy")
