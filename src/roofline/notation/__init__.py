"""The notation of "How To Scale Your Model": text → tokens → immutable structure → resolved program.

>>> line = program("bf16[B, D] * int8[D, F] -> bf16[B, F]")
>>> line.labels, line.steps[0].contracted, line.steps[0].compute
(('B', 'D', 'F'), ('D',), 'bf16')
>>> canonical(line, {"B": 64, "D": 8192, "F": 8192})
'bf16[64, 8192] * int8[8192, 8192] -> bf16[64, 8192]'
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from roofline.errors import DTypeError, NotationError, late_names, quoted
from roofline.notation.canonical import canonical
from roofline.notation.structure import Program
from roofline.signatures import takes

if TYPE_CHECKING:
    from roofline.notation.parser import parse
    from roofline.notation.resolver import resolve

#: Steps that a model's operations need not: their modules are loaded when a text is read.
__getattr__ = late_names(__name__, {"parser": ("parse",), "resolver": ("resolve",)})

__all__ = ["canonical", "parse", "program", "resolve"]


@takes()
def program(text: str, compute: str | None = None) -> Program:
    """Read and resolve a text; ``compute`` settles or overrides the arithmetic dtype.

    >>> program("x = bf16[B, D] * bf16[D, F]; gelu(x)").steps[1].inputs[0].ident
    'x'
    >>> program("softmax(fp32[8, 32, 2048, 2048])").assumptions
    ('softmax is along the last dimension, 2048',)
    >>> program("bf16[B, D] * bf16[E, F]")
    Traceback (most recent call last):
    roofline.errors.NotationError: [B, D] * [E, F] share no dimension; rename the dimension to be contracted, ...
      bf16[B, D] * bf16[E, F]
                 ^
    """
    if compute is not None and not isinstance(compute, str):
        raise DTypeError(f"compute is the name of a dtype, not {quoted(compute)}", hint="as in compute='bf16'")
    if not isinstance(text, str):
        raise NotationError(f"an expression is text, not {type(text).__name__}")
    return _program(text, compute)


@lru_cache(maxsize=1024)
def _program(text: str, compute: str | None) -> Program:
    from roofline.notation.parser import parse
    from roofline.notation.resolver import resolve

    return resolve(parse(text), compute)
