"""Input specifications in the notation: ``bf16[1, 3, 224, 224]``.

>>> spec("bf16[1, 3, 224, 224]")
Spec(dtype='bf16', dims=(1, 3, 224, 224))
>>> spec("int32[B, S]", {"B": 2, "S": 128}).dims
(2, 128)
>>> spec("bf16[B, 8]")
Traceback (most recent call last):
roofline.errors.SizeError: input bf16[B, 8] does not say how large B is; write a number, or give it beside: B=…
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from roofline import dtypes
from roofline.errors import NotationError, SizeError
from roofline.notation import parse
from roofline.notation.structure import TensorNode
from roofline.sizes import Size, check


class Spec(NamedTuple):
    """Dtype and dimensions of one input."""

    dtype: str
    dims: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]"


def spec(text: str, sizes: Mapping[str, Size] | None = None, *, symbolic: bool = False) -> Spec:
    """Read one input; with ``symbolic`` a name without a size stays a symbol."""
    dtype, named = _read(text)
    known = sizes or {}
    dims: list[Size] = []
    for label, size in named:
        if size is not None:
            dims.append(size)
        elif label in known:
            dims.append(check(label, known[label]))
        elif symbolic:
            from roofline.sizes import symbol

            dims.append(symbol(label))
        else:
            raise SizeError(
                f"input {text.strip()} does not say how large {label} is",
                hint=f"write a number, or give it beside: {label}=…",
            )
    return Spec(dtype, tuple(dims))


def _read(text: str) -> tuple[str, list[tuple[str, int | None]]]:
    hint = "as in 'bf16[1, 3, 224, 224]'"
    node = parse(text)
    value = node.statements[0].value if len(node.statements) == 1 else None
    if not isinstance(value, TensorNode) or value.dims is None:
        raise NotationError("an input is one tensor", text=text, hint=hint)
    if value.dtype is None:
        raise NotationError("an input names its dtype", text=text, hint=hint)
    return dtypes.get(value.dtype).name, [(dim.name or "", dim.size) for dim in value.dims]
