"""Functions element by element, their gradients, dropout, updates of optimizers."""

from __future__ import annotations

from math import prod

from roofline.errors import InputError
from roofline.measurement.aten import Seen, broadcast, like, rule, widest
from roofline.ops import pricing
from roofline.programs.pytorch.price_tables import NAMES, OPTIMIZERS, OTHERS, each_of_list
from roofline.work import Op, Tensor

#: Functions of two operands, where the second is no place to write to.
OF_TWO = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum", "compare", "power", "where"))

_COPIES = {"clone": "copy", "contiguous": "copy"}
ELEMENTWISE = {**NAMES, **_COPIES}


@rule(*ELEMENTWISE, *(f"{name}_" for name in NAMES))
def known(seen: Seen) -> Op:
    """The result is as large as all operands together need, and of the widest format; in place, it is the first."""
    ours = ELEMENTWISE[seen.plain.removesuffix("_")]
    chosen = seen.plain == "where"
    tensors = seen.some(*range(3 if chosen else 2 if ours in OF_TWO else 1))
    tensors = tuple(t for t in tensors if t.dims) or tensors
    if not tensors:
        raise InputError(f"{seen.name} has no tensor with a shape")
    kinds = [t.dtype for t in (seen.some(1, 2) if chosen else tensors)]
    if not kinds:
        raise InputError(f"{seen.name} chooses between nothing: it asks for places")
    if seen.plain.startswith("masked_fill"):
        kinds = kinds[:1]
    dtype = tensors[0].dtype if seen.plain.endswith("_") else "bool" if ours == "compare" else widest(kinds)
    out = Tensor("out", broadcast([t.dims for t in tensors]), dtype)
    return pricing.elementwise(ours, tensors, (out,), compute=widest(kinds), name=seen.name)


@rule("copy_", "copy")
def copied(seen: Seen) -> Op:
    """Write a tensor into another."""
    return pricing.elementwise("copy", [seen.tensor(1)], [like(seen.tensor(0))], name=seen.name)


#: Updates of an element by others, as optimizers do them: a + f·b·c, a + f·b/c and a + f·(b − a).
UPDATES = ("addcmul", "addcdiv", "lerp")

#: Gradients that have the shape and format of their first argument.
GRADIENTS = (
    "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "threshold_backward", "hardtanh_backward",
    "leaky_relu_backward", "elu_backward", "hardswish_backward", "softplus_backward", "mish_backward",
    "log_sigmoid_backward", "hardsigmoid_backward", "native_dropout_backward", "_masked_scale", "_add_relu",
)  # fmt: skip


@rule(*UPDATES, *(f"{name}_" for name in UPDATES), *GRADIENTS)
def of_all(seen: Seen) -> Op:
    """Every tensor is read, and what comes out is as large as all together need."""
    reads = tuple(t for t in (seen.every() if seen.plain in GRADIENTS else seen.some(0, 1, 2)) if t.dims)
    if not reads:
        raise InputError(f"{seen.name} has no tensors with shapes")
    return _counted(seen, reads, [like(reads[0], broadcast([t.dims for t in reads]))])


@rule("_transform_bias_rescale_qkv")
def split_heads(seen: Seen) -> Op:
    """Add the bias of queries, keys and values, and lay them out by heads."""
    x, bias = seen.tensor(0), seen.tensor(1)
    return pricing.elementwise("add", [x, bias], [like(x)], name=seen.name)


@rule("native_dropout")
def dropped_out(seen: Seen) -> Op:
    """What is left, and which it is."""
    x = seen.tensor(0)
    return _counted(seen, (x,), [like(x), like(x, dtype="bool", ident="mask")])


@rule("glu")
def gated(seen: Seen) -> Op:
    """One half times the sigmoid of the other."""
    x, dim = seen.tensor(0), seen.value(1, -1)
    halves = [size // 2 if place == dim % len(x.dims) else size for place, size in enumerate(x.dims)]
    return _counted(seen, (x,), [like(x, halves)])


@rule("glu_backward", "_prelu_kernel", "_prelu_kernel_backward")
def like_the_larger(seen: Seen) -> Op:
    """The gradient of both halves; a slope may be one for all, and its gradient is as large as the elements."""
    reads = seen.every()
    largest = max(reads, key=lambda tensor: prod(tensor.dims))
    results = 2 if seen.plain == "_prelu_kernel_backward" else 1
    return _counted(seen, reads, [like(largest, ident=f"out {n}") for n in range(results)])


def _counted(seen: Seen, reads: tuple[Tensor, ...], writes: list[Tensor]) -> Op:
    """The FLOPs an element of :data:`~roofline.programs.pytorch.price_tables.OTHERS`."""
    plain, special, _ = OTHERS[seen.plain if seen.plain in OTHERS else seen.plain.removesuffix("_")]
    size = writes[0].elements
    flops, roots = size * (plain + special), size * special
    return pricing.vector(seen.name, "elementwise", reads, writes, flops=flops, elements=size, transcendentals=roots)


#: Functions over lists of tensors, without the first part of their names.
LISTS = ("add", "mul", "sub", "div", "sqrt", "addcmul", "addcdiv", "lerp", "neg", "pow", "norm", "maximum",
         "reciprocal", "abs", "exp", "clamp_min", "clamp_max")  # fmt: skip


@rule(*(f"_foreach_{name}{end}" for name in LISTS for end in ("", "_")))
def of_lists(seen: Seen) -> Op:
    """One function over many tensors at once; a norm gives one number for each."""
    first = seen.listed(0)
    size = sum(tensor.elements for tensor in first)
    shapes = [() if seen.plain.startswith("_foreach_norm") else tensor.dims for tensor in first]
    writes = [like(tensor, dims, ident=f"out {n}") for n, (tensor, dims) in enumerate(zip(first, shapes, strict=True))]
    flops = each_of_list(seen.plain.removesuffix("_")) * size
    return pricing.vector(
        seen.name, "elementwise", (*seen.all_listed, *seen.every()), writes, flops=flops, elements=size
    )


#: Which lists a step of an optimizer in one kernel writes: parameters and what it keeps of them, not gradients.
_STATES = {"_fused_adam": (0, 2, 3), "_fused_adamw": (0, 2, 3), "_fused_sgd": (0, 2), "_fused_adagrad": (0, 2)}


@rule(*(f"{name}_" for name in OPTIMIZERS))
def whole_step(seen: Seen) -> Op:
    """A whole step of an optimizer in one kernel."""
    name = seen.plain.removesuffix("_")
    each, roots, _ = OPTIMIZERS[name]
    size = sum(tensor.elements for tensor in seen.listed(0))
    kept = [place for place in _STATES[name] if seen.has_list(place)]
    writes = [like(tensor, ident=f"new {tensor.ident}") for place in kept for tensor in seen.listed(place)]
    return pricing.vector(
        seen.name, "elementwise", seen.all_listed, writes,
        flops=each * size, elements=size, transcendentals=roots * size,
    )  # fmt: skip
