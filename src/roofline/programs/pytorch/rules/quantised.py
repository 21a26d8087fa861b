"""Operations on quantised tensors: products of packed weights, and functions that leave the integers and come back.

A quantised tensor is its integers; each operand is dequantised and each result quantised, by the prices of
:data:`~roofline.ops.elementwise.PER_ELEMENT`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.ops.elementwise import PER_ELEMENT
from roofline.programs.pytorch.price_tables import FUNCTIONS
from roofline.programs.pytorch.registry import Call, Priced, operands_in, pricing, rule
from roofline.programs.pytorch.rules.windows import convolution, pool
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Work

QUANTISE, DEQUANTISE = PER_ELEMENT["quantise"].arithmetic, PER_ELEMENT["dequantise"].arithmetic


def _beside(op: Op, call: Call, amount: Size) -> Op:
    """The operation over all that the call reads, with so many FLOPs more on the vector unit."""
    work = op.work + Work.flops("vector", "fp32", amount) if amount else op.work
    return replace(op, name=call.name, reads=call.reads, work=work, note=op.note)


def _around(call: Call, bias: Any) -> Size:
    """FLOPs before and after a product: x into integers where that happens here, results rescaled, bias and ReLU."""
    more = (bias is not None) + ("relu" in call.name)
    if "dynamic" not in call.name:
        return (QUANTISE + more) * call.results[0].elements
    return QUANTISE * call.args[0].elements + (2 + ("relu" in call.name)) * call.results[0].elements


@rule("quantized.linear", "quantized.linear_relu", "quantized.linear_leaky_relu", "quantized.linear_tanh",
      "quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
      "quantized.linear_relu_dynamic_fp16")  # fmt: skip
def packed_linear(call: Call) -> Priced:
    """Bring x to the format of the weight where it is not in it, multiply, rescale and add.

    PyTorch has packed the weights, as integers or in fp16.
    """
    x, pack = call.args[:2]
    n, k = pack.weight.shape
    op = pricing.contraction(call.name, 2 * call.read(pack.weight), call.writes, m=product(x.shape[:-1]), n=n, k=k)
    if pack.weight.dtype.startswith("fp"):
        return _beside(op, call, ((pack.bias is not None) + ("relu" in call.name)) * call.results[0].elements)
    return _beside(op, call, _around(call, pack.bias))


@rule(*(f"quantized.conv{turned}{n}d{post}" for n in (1, 2, 3) for turned in ("", "_transpose")
        for post in ("", "_relu", "_dynamic")), "quantized.conv2d_add", "quantized.conv2d_add_relu")  # fmt: skip
def packed_convolution(call: Call) -> Priced:
    """Convolve integers and rescale."""
    x, pack = call.args[0], call.args[1] if hasattr(call.args[1], "weight") else call.args[2]
    weight = replace(pack.weight, tensor=pack.weight.tensor)
    names = ("input", "weight", *pack.window)
    plain = Call("aten.convolution", "convolution", (x, weight, *pack.window.values()), names, call.results)
    op = convolution(plain)
    assert isinstance(op, Op)
    return _beside(op, call, _around(call, pack.bias))


_PAIRS = ("add", "mul", "add_relu", "mul_relu", "add_scalar", "mul_scalar", "add_scalar_relu", "mul_scalar_relu")


@rule(*(f"quantized.{name}" for name in _PAIRS))
def pair(call: Call) -> Priced:
    """Out of the integers, a sum or a product, and back."""
    each = DEQUANTISE * len(call.reads) + 1 + ("relu" in call.name) + QUANTISE
    return _each(call, each)


_FUNCTIONS = ("sigmoid", "hardswish", "leaky_relu", "elu", "celu", "relu6", "prelu", "clamp", "threshold")


@rule(*(f"quantized.{name}" for name in _FUNCTIONS))
def function(call: Call) -> Priced:
    """Out of the integers, the function, and back."""
    cost = PER_ELEMENT[FUNCTIONS.get(call.name, {"celu": "elu"}.get(call.name, "leaky_relu"))]
    return _each(call, DEQUANTISE + cost.arithmetic + cost.transcendentals + QUANTISE, cost.transcendentals)


@rule("quantized.cat", "quantized.cat_relu")
def joined(call: Call) -> Priced:
    """Copy every part, brought to one scale."""
    return _each(call, DEQUANTISE + QUANTISE + ("relu" in call.name))


@rule("quantized.matmul")
def product_of_two(call: Call) -> Priced:
    """Multiply two tensors of integers and rescale."""
    a, b = call.operands(0, 1)
    results = call.results[0].elements
    m, n = a.shape[-2], b.shape[-1]
    sizes = {"m": m, "n": n, "k": a.shape[-1], "batch": exact_div(results, m * n)}
    return _beside(pricing.contraction(call.name, call.read(a, b), call.writes, **sizes), call, QUANTISE * results)


@rule("quantized.softmax")
def softmax(call: Call) -> Priced:
    """Out of the integers, a softmax, and back."""
    (x,) = call.operands(0)
    rows = exact_div(x.elements, x.shape[call.get("dim", -1)])
    op = pricing.softmax(call.name, call.reads, call.writes, elements=x.elements, rows=rows)
    return _beside(op, call, (DEQUANTISE + QUANTISE) * x.elements)


_BATCH_NORMS = [f"batch_norm{n}{post}" for n in ("", "1d", "2d", "3d") for post in ("", "_relu")]


@rule(*(f"quantized.{name}" for name in (*_BATCH_NORMS, "layer_norm", "group_norm", "instance_norm")))
def norm(call: Call) -> Priced:
    """Out of the integers, a norm (of stored statistics for a batch norm), and back."""
    (x,) = call.operands(0)
    stored = call.name.startswith("batch")
    rows = x.shape[0] * (call.get("num_groups") or x.shape[1])
    if call.name == "layer_norm":
        rows = product(x.shape[: x.rank - len(call.stated("normalized_shape"))])
    function = "batch_norm" if stored else "layer_norm"
    affine = 2 if call.operand("weight") is not None else 0
    op = pricing.norm(function, call.reads, call.writes, elements=x.elements, rows=rows, affine=affine, name=call.name)
    return _beside(op, call, (DEQUANTISE + QUANTISE + ("relu" in call.name)) * x.elements)


rule("quantized.max_pool1d", "quantized.max_pool2d")(pool)


@rule("quantized.dropout")
def dropped(call: Call) -> Priced:
    """Nothing outside training."""
    return None


def _each(call: Call, each: int, special: int = 0) -> Op:
    size = call.results[0].elements
    reads = tuple({t.ident: t for t in call.read(*operands_in(call.args))}.values())
    facts = {"flops": each * size, "elements": size, "transcendentals": special * size, "one_each": size}
    return pricing.vector(call.name, "elementwise", reads, call.writes, **facts)
