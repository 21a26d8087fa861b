"""Operations of PyTorch's dispatcher, known by name and input shapes alone → operations with our costs.

A profiler's trace carries no FLOPs or bytes; names, shapes and formats it does. A rule takes the shapes and formats of
the inputs, and the values of the others where the trace has them; an operation without a rule is listed, never zero.

>>> op = operation("aten::mm", [[64, 128], [128, 32]], ["float", "float"])
>>> op.kind, op.work.total("flops")
('contraction', 524288)
>>> operation("aten::sort", [[64]], ["float"]) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from roofline import dtypes
from roofline.errors import InputError
from roofline.ops.attention import attention
from roofline.ops.contraction import contraction
from roofline.ops.convolution import conv_transpose, convolution
from roofline.ops.elementwise import elementwise
from roofline.ops.embedding import embedding
from roofline.ops.norm import norm
from roofline.ops.reduction import reduction
from roofline.ops.softmax import softmax
from roofline.work import Op, Tensor, Work

#: Formats as a trace names them.
FORMATS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "unsigned char": "uint8", "short": "int16", "short int": "int16", "int": "int32", "long": "int64",
    "long int": "int64", "bool": "bool", "c10::Float8_e4m3fn": "fp8_e4m3", "c10::Float8_e5m2": "fp8_e5m2",
}  # fmt: skip

Rule = Callable[["Seen"], Op]

_RULES: dict[str, Rule] = {}


class Seen:
    """One operation as a trace saw it: tensors where inputs have shapes, plain values where it tells them."""

    def __init__(self, name: str, dims: Sequence[Any], formats: Sequence[str], values: Sequence[Any]) -> None:
        self.name = name
        self.values = list(values)
        self.tensors: list[Tensor | None] = [
            Tensor(f"x{place}", tuple(shape), FORMATS[kind]) if kind in FORMATS and _is_shape(shape) else None
            for place, (shape, kind) in enumerate(zip(dims, formats, strict=False))
        ]

    def tensor(self, place: int) -> Tensor:
        """The tensor at an argument's place."""
        found = self.optional(place)
        if found is None:
            raise InputError(f"{self.name} has no tensor with a shape at argument {place}")
        return found

    def optional(self, place: int) -> Tensor | None:
        """The tensor at an argument's place, None where there is none."""
        return self.tensors[place] if place < len(self.tensors) else None

    def stated(self, place: int) -> Any:
        """The plain value at an argument's place; an error where it does not read: older traces tell none, none text.

        What an operation within was given may then say more.
        """
        found = self.value(place, None)
        if found is None:
            raise InputError(f"the trace tells no value of argument {place} of {self.name}")
        return found

    def value(self, place: int, default: Any) -> Any:
        """The plain value at an argument's place: text of a trace read as numbers."""
        written = self.values[place] if place < len(self.values) else ""
        if isinstance(written, str):
            import ast

            try:
                return ast.literal_eval(written.capitalize() if written in ("true", "false") else written)
            except (ValueError, SyntaxError):
                return default
        return written


def operation(name: str, dims: Sequence[Any], formats: Sequence[str], values: Sequence[Any] = ()) -> Op | None:
    """Price an operation of the dispatcher; None where it has no rule, or not the shapes its rule takes."""
    rule = _RULES.get(name.removeprefix("aten::")) if name.startswith("aten::") else None
    if rule is None or not any(_is_shape(shape) and shape for shape in dims):
        return None
    try:
        return rule(Seen(name, dims, formats, values))
    except (InputError, IndexError, TypeError, ValueError):
        return None


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some operations."""

    def keep(chosen: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, chosen))
        return chosen

    return keep


def known() -> list[str]:
    """List the operations that have a rule."""
    return sorted(_RULES)


def _product(a: Tensor, b: Tensor, name: str, batch: Sequence[int], m: int, n: int, k: int) -> Op:
    out = Tensor("out", (*batch, m, n), a.dtype)
    count = 1
    for size in batch:
        count *= size
    return contraction(a, b, out, m=m, n=n, k=k, batch=count, name=name)


#: Products whose results have a format of their own.
RESULTS = {"_int_mm": "int32", "_scaled_mm": "bf16"}


@rule("mm", "addmm", "_int_mm", "_scaled_mm")
def _mm(seen: Seen) -> Op:
    a, b = (seen.tensor(1), seen.tensor(2)) if seen.name.endswith("addmm") else (seen.tensor(0), seen.tensor(1))
    op = _product(a, b, seen.name, (), a.dims[0], b.dims[1], a.dims[1])
    result = RESULTS.get(seen.name.removeprefix("aten::"))
    return op if result is None else replace(op, writes=(replace(op.writes[0], dtype=result),))


@rule("mv", "addmv", "addmv_")
def _mv(seen: Seen) -> Op:
    a, x = (seen.tensor(1), seen.tensor(2)) if "addmv" in seen.name else (seen.tensor(0), seen.tensor(1))
    (rows, inner), out = a.dims, Tensor("out", a.dims[:1], a.dtype)
    if x.dims != (inner,):
        raise InputError("a vector is as long as the rows of its matrix")
    return contraction(a, x, out, m=rows, n=1, k=inner, name=seen.name)


@rule("dot", "vdot")
def _dot(seen: Seen) -> Op:
    a, b = seen.tensor(0), seen.tensor(1)
    (inner,), out = a.dims, Tensor("out", (), a.dtype)
    return contraction(a, b, out, m=1, n=1, k=inner, unit="vector", name=seen.name)


@rule("bmm", "baddbmm")
def _bmm(seen: Seen) -> Op:
    a, b = (seen.tensor(1), seen.tensor(2)) if seen.name.endswith("baddbmm") else (seen.tensor(0), seen.tensor(1))
    return _product(a, b, seen.name, a.dims[:1], a.dims[1], b.dims[2], a.dims[2])


@rule("matmul")
def _matmul(seen: Seen) -> Op:
    a, b = seen.tensor(0), seen.tensor(1)
    if len(b.dims) == 2:
        rows = 1
        for size in a.dims[:-1]:
            rows *= size
        return _product(a, b, seen.name, (), rows, b.dims[1], a.dims[-1])
    if len(a.dims) < 2 or len(b.dims) < 2:
        raise InputError("a product of these shapes has no rule")
    batch = _broadcast([a.dims[:-2], b.dims[:-2]])
    return _product(a, b, seen.name, batch, a.dims[-2], b.dims[-1], a.dims[-1])


def _broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that operands have together: sizes stand from the last, and a 1 is repeated as often as needed."""
    width = max(map(len, shapes))
    columns = zip(*[(*[1] * (width - len(shape)), *shape) for shape in shapes], strict=True)
    sizes = [{size for size in column if size != 1} for column in columns]
    if any(len(found) > 1 for found in sizes):
        raise InputError("shapes that do not broadcast")
    return tuple(found.pop() if found else 1 for found in sizes)


@rule("linear")
def _linear(seen: Seen) -> Op:
    x, w = seen.tensor(0), seen.tensor(1)
    rows = 1
    for size in x.dims[:-1]:
        rows *= size
    return _product(x, Tensor(w.ident, w.dims, w.dtype, "weight"), seen.name, (), rows, w.dims[0], w.dims[1])


#: Where convolutions have their options: stride, pad, dilation, groups, padding of the output, and whether transposed.
_PLAIN_CONV, _WIDE_CONV = (3, 4, 5, 6, None, None), (3, 4, 5, 8, 7, 6)
CONVOLUTIONS: dict[str, tuple[int | None, ...]] = {
    "conv1d": _PLAIN_CONV, "conv2d": _PLAIN_CONV, "conv3d": _PLAIN_CONV, "mkldnn_convolution": (4, 3, 5, 6, None, None),
    "convolution": _WIDE_CONV, "_convolution": _WIDE_CONV, "convolution_overrideable": _WIDE_CONV,
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), (3, 4, 7, 6, 5, None)),
}  # fmt: skip


@rule(*CONVOLUTIONS)
def _conv(seen: Seen) -> Op:
    """Channels stand second there, last here; the kernel of a transposed one begins with the channels it takes."""
    name, x, w = seen.name.removeprefix("aten::"), seen.tensor(0), seen.tensor(1)
    given = [None if place is None else seen.stated(place) for place in CONVOLUTIONS[name]]
    stride, pad, dilation, groups, more, turned = (tuple(one) if isinstance(one, list) else one for one in given)
    last = Tensor(x.ident, (x.dims[0], *x.dims[2:], x.dims[1]), x.dtype)
    options: dict[str, Any] = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "name": seen.name}
    if turned is True or name.startswith("conv_transpose"):
        kernel = Tensor(w.ident, (*w.dims[2:], *w.dims[:2]), w.dtype, "weight")
        return conv_transpose(last, kernel, output_pad=more or 0, **options)
    kernel = Tensor(w.ident, (*w.dims[2:], w.dims[1], w.dims[0]), w.dtype, "weight")
    return convolution(last, kernel, **options)


#: Attention in the dispatcher's several forms, with the place of the argument that says it is causal.
ATTENTION = {
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
}


@rule(*ATTENTION)
def _attention(seen: Seen) -> Op:
    """Operands stand as [batch, heads, length, size] there, as [batch, length, heads, size] here."""
    q, k, v = (_lengths_first(seen.tensor(place), "kv" if place else "activation") for place in range(3))
    causal = seen.stated(ATTENTION[seen.name.removeprefix("aten::")]) is True
    if causal and q.dims[-3] != k.dims[-3]:
        q, k, v = _upper_left(q, k, v)
    return attention(q, k, v, causal=causal, name=seen.name)


def _upper_left(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Leave out the keys no query sees, where PyTorch aligns the first query with the first key, and we the last ones.

    Queries beyond the last key see all of them, which has no rule here.
    """
    queries = q.dims[-3]
    if queries > k.dims[-3]:
        raise InputError("more queries than keys under a causal mask")
    k, v = (replace(x, dims=(*x.dims[:-3], queries, *x.dims[-2:])) for x in (k, v))
    return q, k, v


def _lengths_first(x: Tensor, role: str) -> Tensor:
    *before, heads, length, size = x.dims
    return Tensor(x.ident, (*before, length, heads, size), x.dtype, role)


@rule("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def _softmax(seen: Seen) -> Op:
    x = seen.tensor(0)
    return softmax(x, axes=(int(seen.value(1, -1)),), log="log" in seen.name, name=seen.name)


@rule("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
def _norm(seen: Seen) -> Op:
    x = seen.tensor(0)
    affine = [t for place in (2, 3) if (t := seen.optional(place)) is not None]
    function = "rms_norm" if "rms" in seen.name else "layer_norm"
    axes = tuple(range(-max(len(affine[0].dims) if affine else 1, 1), 0))
    return norm(function, x, *affine, axes=axes, name=seen.name)


#: Reductions: the dispatcher's name and ours. The places of their dimensions follow the tensor.
REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "logsumexp": "logsumexp", "var": "variance"}


@rule(*REDUCTIONS)
def _reduction(seen: Seen) -> Op:
    x, axes = seen.tensor(0), seen.value(1, [])
    axes = [axes] if isinstance(axes, int) and not isinstance(axes, bool) else axes
    over = axes if isinstance(axes, list | tuple) and axes else range(len(x.dims))
    ours = REDUCTIONS[seen.name.removeprefix("aten::")]
    return reduction(ours, x, axes=[int(axis) for axis in over], name=seen.name)


#: Updates of an element by others, as optimizers do them: a + f·b·c, a + f·b/c and a + f·(b − a), FLOPs of each.
UPDATES, UPDATE_FLOPS = ("addcmul", "addcdiv", "lerp"), 3


@rule(*UPDATES, *(f"{name}_" for name in UPDATES))
def _update(seen: Seen) -> Op:
    reads = [t for place in range(3) if (t := seen.optional(place)) is not None and t.dims]
    if not reads:
        raise InputError(f"{seen.name} has no tensors with shapes")
    sums = elementwise("add", reads, name=seen.name)
    return replace(sums, work=sums.work * UPDATE_FLOPS)


@rule("embedding")
def _embedding(seen: Seen) -> Op:
    return embedding(seen.tensor(0), seen.tensor(1), name=seen.name)


#: Elementwise operations: the dispatcher's name and ours.
ELEMENTWISE = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "gelu": "gelu", "silu": "silu",
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "neg": "neg", "abs": "abs", "sin": "sin", "cos": "cos", "erf": "erf", "pow": "power", "maximum": "maximum",
    "minimum": "minimum", "copy": "copy", "clone": "copy", "contiguous": "copy", "rsub": "subtract", "clamp": "clip",
    "hardtanh": "clip", "clamp_min": "maximum", "clamp_max": "minimum", "where": "where", "gt": "compare",
    "ge": "compare", "lt": "compare", "le": "compare", "eq": "compare", "ne": "compare",
    **{name: name for name in (
        "leaky_relu", "relu6", "softplus", "mish", "hardswish", "elu", "square", "reciprocal", "sign", "floor", "round",
    )},
}  # fmt: skip


@rule(*ELEMENTWISE, *(f"{name}_" for name in ELEMENTWISE))
def _elementwise(seen: Seen) -> Op:
    """The result is as large as all operands together need, and of the widest format; in place, it is the first."""
    plain = seen.name.removeprefix("aten::")
    ours = ELEMENTWISE[plain.removesuffix("_")]
    if plain in ("copy_", "copy"):
        target, source = seen.tensor(0), seen.tensor(1)
        return elementwise("copy", [source], replace(target, ident="out"), name=seen.name)
    places = range(3 if ours == "where" else 2)
    tensors = [t for place in places if (t := seen.optional(place)) is not None and t.dims]
    if not tensors:
        raise InputError(f"{seen.name} has no tensor with a shape")
    kinds = [t.dtype for t in tensors[1 if ours == "where" else 0 :]] or [tensors[0].dtype]
    dtype = tensors[0].dtype if plain.endswith("_") else "bool" if ours == "compare" else _widest(kinds)
    out = Tensor("out", _broadcast([t.dims for t in tensors]), dtype)
    return elementwise(ours, tensors, out, compute=_widest(kinds), name=seen.name)


def _widest(kinds: Sequence[str]) -> str:
    """The format of a result: that of the widest operand, and of no integer beside a real number."""
    return max(kinds, key=lambda kind: (dtypes.get(kind).family in ("float", "complex"), dtypes.get(kind).bits))


@rule("fill_", "zero_")
def _fill(seen: Seen) -> Op:
    """Memory that is written and not read."""
    return Op(seen.name, "elementwise", Work(), (), (seen.tensor(0),), {"elements": seen.tensor(0).elements})


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(isinstance(size, int) and size > 0 for size in shape)
