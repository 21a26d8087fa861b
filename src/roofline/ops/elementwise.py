"""Elementwise operations: FLOPs for every element of the result, all on the vector unit.

>>> x, y = (Tensor(name, (64, 4096), "bf16") for name in "xy")
>>> elementwise("add", [x, y], [x]).work
Work(flops/vector/bf16: 262144)
>>> elementwise("gelu", [x], [y]).dims
{'elements': 262144, 'transcendentals': 262144}
>>> len(elementwise("copy", [x], [y]).work)           # moves bytes, computes nothing
0

A composite counts its primitive operations. Multiplying, adding, dividing, comparing, selecting and rounding count
1 each; so does a transcendental (exp, log, tanh, erf, sin, cos, a power, a square root), which hardware computes in
a special unit or by a polynomial: how many there are stands in ``dims`` as ``transcendentals``.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.errors import InputError, SizeError, check_one_of
from roofline.frozen import NamedTuple
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.rules import Context, register
from roofline.sizes import Size, product
from roofline.work import Key, Op, Tensor, Work


class PerElement(NamedTuple):
    """FLOPs for one element of the result: plain arithmetic, transcendentals, and the formula they were counted in."""

    arithmetic: int
    transcendentals: int = 0
    formula: str = ""

    @property
    def flops(self) -> int:
        """All of them."""
        return self.arithmetic + self.transcendentals


#: Every elementwise function. Definitions as in the PyTorch and JAX documentation of the function of that name.
PER_ELEMENT: dict[str, PerElement] = {
    "add": PerElement(1),
    "subtract": PerElement(1),
    "multiply": PerElement(1),
    "divide": PerElement(1),
    "maximum": PerElement(1),
    "minimum": PerElement(1),
    "compare": PerElement(1),
    "where": PerElement(1, formula="select"),
    "power": PerElement(0, 1),
    "relu": PerElement(1, formula="max(x, 0)"),
    "relu2": PerElement(2, formula="max(x, 0)²"),
    "leaky_relu": PerElement(2, formula="max(x, a·x)"),
    "relu6": PerElement(2, formula="min(max(x, 0), 6)"),
    "gelu": PerElement(4, 1, "x·½·(1 + erf(x·1/√2))"),
    "gelu_tanh": PerElement(8, 1, "x·½·(1 + tanh(√(2/π)·(x + 0.044715·x·x·x)))"),
    "sigmoid": PerElement(3, 1, "1/(1 + exp(−x))"),
    "silu": PerElement(3, 1, "x/(1 + exp(−x))"),
    "tanh": PerElement(0, 1),
    "exp": PerElement(0, 1),
    "log": PerElement(0, 1),
    "sqrt": PerElement(0, 1),
    "rsqrt": PerElement(0, 1),
    "sin": PerElement(0, 1),
    "cos": PerElement(0, 1),
    "erf": PerElement(0, 1),
    "square": PerElement(1),
    "abs": PerElement(1),
    "neg": PerElement(1),
    "reciprocal": PerElement(1),
    "sign": PerElement(1),
    "floor": PerElement(1),
    "round": PerElement(1),
    "clip": PerElement(2, formula="min(max(x, a), b)"),
    "softplus": PerElement(1, 2, "log(1 + exp(x))"),
    "mish": PerElement(2, 3, "x·tanh(log(1 + exp(x)))"),
    "hardswish": PerElement(5, formula="x·min(max(x + 3, 0), 6)·1/6"),
    "elu": PerElement(3, 1, "select(x > 0, x, a·(exp(x) − 1)), the comparison being part of the select"),
    "xielu": PerElement(10, 1, "select(x > 0, a·x·x + b·x, c·(exp(min(x, 0)) − 1 − x) + b·x)"),
    "swiglu": PerElement(4, 1, "g/(1 + exp(−g))·u"),
    "geglu": PerElement(5, 1, "g·½·(1 + erf(g·1/√2))·u"),
    "rope": PerElement(3, formula="x₁·cos − x₂·sin and x₁·sin + x₂·cos for each pair; sin and cos are looked up"),
    "dropout": PerElement(2, formula="select(mask, x·1/(1 − p), 0); the random numbers are not counted"),
    "quantise": PerElement(3, formula="round(x·1/scale + zero); what saturates is part of the conversion"),
    "dequantise": PerElement(2, formula="(x − zero)·scale"),
    "cast": PerElement(0),
    "copy": PerElement(0),
    "from_host": PerElement(0, formula="its bytes come from the host's memory, over PCIe"),
}

QUANTISE, DEQUANTISE = PER_ELEMENT["quantise"].arithmetic, PER_ELEMENT["dequantise"].arithmetic

#: Real FLOPs of one element where it is complex; other functions of complex numbers are not priced.
COMPLEX: dict[str, PerElement] = {
    "add": PerElement(2),
    "subtract": PerElement(2),
    "neg": PerElement(2),
    "multiply": PerElement(6, formula="(a + ib)·(c + id): four products, two sums"),
    "divide": PerElement(11, formula="a product with the conjugate, c² + d², two divisions"),
    "cast": PerElement(0),
    "copy": PerElement(0),
    "from_host": PerElement(0),
}


def elementwise(
    function: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    name: str | None = None,
    elements: Size | None = None,
    compute: str | None = None,
) -> Op:
    """Apply a function element by element; operands that broadcast are read once, at their own size.

    ::

        FLOPs = elements·(arithmetic + transcendentals)        per element of the result, from :data:`PER_ELEMENT`

    A function that the table does not list counts 1 an element. Complex numbers cost what :data:`COMPLEX` says; one
    times a real number is two products.
    """
    last = writes[0].dims[-1] if function == "rope" and writes and writes[0].dims else 0
    if isinstance(last, int) and last % 2:
        raise SizeError(f"rope turns pairs of elements, and a head has {last}", hint="an even size of heads")
    cost = _of_complex(function, reads) or PER_ELEMENT.get(function, PerElement(1))
    size = product(writes[0].dims) if elements is None and writes else elements or 0
    one_each = size if cost.flops else 0
    return vector(
        name or function, "elementwise", reads, writes, flops=cost.flops * one_each, elements=size,
        transcendentals=cost.transcendentals * size, one_each=one_each, compute=compute, function=function,
    )  # fmt: skip


#: Exponents whose power is another function.
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}


def power(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], exponent: float | None = None) -> Op:
    """x to a power: a root, products where the exponent is a whole number, else one transcendental.

    ::

        products = ⌊log₂ n⌋ + (ones of n in binary) − 1        x to the n by repeated squaring; 1 more is 1/xⁿ

    >>> x = [Tensor("x", (8,), "bf16")]
    >>> [power("pow", x, x, n).work.total("flops") for n in (2, 3, -1, 0.5, 1.5, None)]
    [8, 16, 8, 8, 8, 8]
    """
    if exponent is None or not float(exponent).is_integer():
        return elementwise("power" if exponent is None else _ROOTS.get(exponent, "power"), reads, writes, name=name)
    times, size = abs(int(exponent)), product(writes[0].dims)
    counts = {"multiply": max(0, times.bit_length() + times.bit_count() - 2), "divide": int(exponent < 0)}
    each = sum((_of_complex(word, reads) or PER_ELEMENT[word]).flops * many for word, many in counts.items())
    return vector(name, "elementwise", reads, writes, flops=each * size, elements=size, one_each=size * min(each, 1))


def scaled_sum(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> Op:
    """a + α·b: a product and a sum for each element of the result, twice that for complex numbers.

    >>> x = Tensor("x", (8,), "bf16")
    >>> scaled_sum("add", [x, x], [x]).work.total("flops")
    16
    """
    size = product(writes[0].dims)
    each = 4 if _is_complex(writes) else 2
    return vector(name, "elementwise", reads, writes, flops=each * size, elements=size, one_each=size)


def known_function(function: str, reads: Sequence[Tensor]) -> str:
    """Return a function that has a price of its own for these operands, or say which ones have.

    >>> known_function("gelo", [Tensor("x", (8,), "bf16")])
    Traceback (most recent call last):
    roofline.errors.InputError: unknown elementwise function 'gelo'; did you mean 'gelu'?
    """
    check_one_of(f"unknown elementwise function {function!r}", function, PER_ELEMENT, "elementwise functions")
    if _is_complex(reads) and function not in COMPLEX:
        raise InputError(f"{function} of complex numbers has no cost rule", hint="cast to a real format first")
    return function


def _is_complex(tensors: Sequence[Tensor]) -> bool:
    return any(dtypes.get(tensor.dtype).family == "complex" for tensor in tensors)


def _of_complex(function: str, reads: Sequence[Tensor]) -> PerElement | None:
    """The cost of a function where its operands are complex, None where they are not."""
    if not _is_complex(reads):
        return None
    mixed = any(dtypes.get(tensor.dtype).family != "complex" for tensor in reads)
    return PerElement(2) if function in ("multiply", "divide") and mixed else COMPLEX.get(function)


def from_host(held: Tensor, loaded: Tensor, *, name: str = "from_host") -> Op:
    """Load a tensor that lies in the host's memory: its bytes come over PCIe, and are written to the chip's own.

    >>> from_host(Tensor("x", (64, 4096), "bf16"), Tensor("y", (64, 4096), "bf16")).work
    Work(bytes/host: 524288)
    """
    work = Work({Key("bytes", "host"): held.traffic_bytes})
    return Op(name, "elementwise", work, (), (loaded,), {"elements": loaded.elements})


@register("elementwise")
def rule(step: Step, context: Context) -> Op:
    """Price an elementwise step."""
    reads, out = [context.tensor(shape) for shape in step.inputs], context.tensor(step.output)
    if step.function == "from_host":
        return from_host(reads[0], out, name=step.text)
    function = known_function(step.function, reads)
    return elementwise(function, reads, [out], compute=context.arithmetic(step), name=step.text)
