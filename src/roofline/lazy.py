"""numpy and sympy under their usual names, each loaded where something of it is first used: importing is free.

>>> from roofline.lazy import np
>>> np.arange(3).tolist()
[0, 1, 2]

Copied and pickled, a closed form stays as it is. By itself sympy would compare the parts of each maximum anew, which
takes minutes for a step over the stages of a pipeline:

>>> import pickle
>>> from roofline.lazy import sympy
>>> B = sympy.Symbol("B")
>>> pickle.loads(pickle.dumps(sympy.Max(B, B + 1, evaluate=False)))
Max(B, B + 1)
"""

from __future__ import annotations

import copyreg
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np", "sympy"]

if TYPE_CHECKING:
    import numpy as np
    import sympy
else:

    def _as_it_is(form: Any) -> tuple[Any, ...]:
        """How a part of a closed form is pickled: without roofline it is read by sympy alone."""
        return partial(type(form), evaluate=False), form.args

    class _Library:
        """A library that keeps the names it was asked for; what looks for special methods does not load it.

        Values of its ``unevaluated`` kinds are copied and pickled as they are.
        """

        def __init__(self, module: str, unevaluated: str = "") -> None:
            self._module = self.__name__ = module
            self._unevaluated = unevaluated

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and name != "__version__":
                raise AttributeError(name)
            library = import_module(self._module)
            for kind in self.__dict__.pop("_unevaluated", "").split():
                copyreg.pickle(getattr(library, kind), _as_it_is)
            found = self.__dict__[name] = getattr(library, name)
            return found

    np, sympy = _Library("numpy"), _Library("sympy", "Max Min Piecewise Ge Gt Le Lt Eq Ne And Or")
