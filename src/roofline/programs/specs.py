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

import re
from collections.abc import Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, NotationError, RooflineError, SizeError
from roofline.frozen import NamedTuple
from roofline.notation import parse
from roofline.notation.structure import TensorNode
from roofline.quantity import whole_number
from roofline.signatures import either
from roofline.sizes import Size, check, is_array, is_symbol, product, symbol


def call_hint() -> str:
    """What to do about a call that Python itself refuses."""
    each = either("--input 'bf16[8, 512]', once for each", "inputs=['bf16[8, 512]', …]")
    return f"give one input for each argument, in order, as in {each}"


def is_call(reason: str) -> bool:
    """Whether an error is that inputs are missing or too many.

    >>> is_call("TypeError: step() missing 1 required positional argument: 'x'")
    True
    """
    return "TypeError" in reason and ("positional argument" in reason or "unexpected keyword" in reason)


def own_error(error: BaseException) -> RooflineError | None:
    """An error of ours that went through the program's own handlers."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, RooflineError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def one_size(name: str, value: Any) -> Size:
    """One whole number of at least 1, or a symbol: a program has one shape at a time.

    >>> one_size("B", [1, 8])
    Traceback (most recent call last):
    roofline.errors.SizeError: size B is several numbers; trace the program once for each, or leave it open
    """
    found = check(name, value)
    if is_array(found):
        raise SizeError(f"size {name} is several numbers", hint="trace the program once for each, or leave it open")
    return found


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
            dims.append(one_size(label, known[label]))
        elif symbolic:
            dims.append(symbol(label))
        else:
            raise SizeError(
                f"input {text.strip()} does not say how large {label} is",
                hint=f"write a number, or give it beside: {label}=…",
            )
    return Spec(dtype, tuple(dims))


def stated_values(text: str) -> tuple[str, list[float] | None]:
    """The tensor and the values it is given, where a program looks at them: one for all elements, or one for each.

    >>> stated_values("int64[2, 2] = [[0, 1], [1, 0]]"), stated_values("bool[4] = true"), stated_values("bf16[8]")
    (('int64[2, 2] ', [0, 1, 1, 0]), ('bool[4] ', [1]), ('bf16[8]', None))
    >>> stated_values("int64[2] = a, b")
    Traceback (most recent call last):
    roofline.errors.InputError: the values of int64[2] are not numbers; as in 'int64[4] = 0, 2, 1, 3', or one for all
    """
    tensor, equals, said = text.partition("=")
    if not equals:
        return text, None
    words = re.sub(r"[\[\](),]", " ", said).split()
    known = {"true": 1, "false": 0}
    try:
        numbers = [known.get(word.lower(), whole_number(word)) for word in words]
        return tensor, [float(w) if number is None else number for w, number in zip(words, numbers, strict=True)]
    except ValueError:
        hint = "as in 'int64[4] = 0, 2, 1, 3', or one for all"
        raise InputError(f"the values of {tensor.strip()} are not numbers", hint=hint) from None


#: The most elements of an input with values: a mask of 16,384 by 16,384.
MOST_VALUES = 2**28


def check_values(wanted: Spec, numbers: Sequence[float]) -> None:
    """Refuse values that an input cannot hold: each element has its own, or all have one.

    >>> check_values(Spec("bool", (2, 2)), [1, 0, 1])
    Traceback (most recent call last):
    roofline.errors.InputError: bool[2, 2] holds 4 values, and 3 are given; give each, or one
    """
    if any(is_symbol(dim) for dim in wanted.dims):
        raise InputError(f"{wanted} has values and an open size", hint="give the size a number")
    amount = product(wanted.dims)
    if len(numbers) not in (1, amount):
        raise InputError(f"{wanted} holds {amount} values, and {len(numbers)} are given", hint="give each, or one")
    if amount > MOST_VALUES:
        raise InputError(f"{wanted} holds {amount:,} values", hint=f"at most {MOST_VALUES:,} can be looked at")


def _read(text: str) -> tuple[str, list[tuple[str, int | None]]]:
    hint = "as in 'bf16[1, 3, 224, 224]'"
    if re.fullmatch(r"[\[(]?\s*\d+(\s*[x×,]\s*\d+)*\s*,?\s*[\])]?", text.strip()):
        written = f"as in 'bf16[{', '.join(re.findall(r'[0-9]+', text))}]'"
        raise NotationError("an input names its dtype", text=text, hint=written)
    node = parse(text)
    value = node.statements[0].value if len(node.statements) == 1 else None
    if not isinstance(value, TensorNode) or value.dims is None:
        raise NotationError("an input is one tensor", text=text, hint=hint)
    if value.dtype is None:
        raise NotationError("an input names its dtype", text=text, hint=hint)
    return dtypes.get(value.dtype).name, [(dim.name or "", dim.size) for dim in value.dims]
