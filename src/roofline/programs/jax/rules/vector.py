"""Work element by element: functions, reductions, running values, sorting, pooling."""

from __future__ import annotations

from dataclasses import replace

from roofline.ops.pricing import Reach
from roofline.programs.jax.registry import Call, Priced, pricing, rule
from roofline.programs.jax.rules.collectives import reduced_over
from roofline.programs.rule_table import levels_of
from roofline.sizes import exact_div, product

#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by JAX's name.
NAMES = {
    "add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "divide",
    "max": "maximum", "min": "minimum", "pow": "power", "exp": "exp", "exp2": "exp", "expm1": "exp", "log": "log",
    "log1p": "log", "log2": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "sqrt", "sin": "sin", "cos": "cos",
    "tan": "sin", "asin": "sin", "acos": "cos", "atan": "sin", "atan2": "sin", "sinh": "exp", "cosh": "exp",
    "tanh": "tanh", "asinh": "log", "acosh": "log", "atanh": "log", "logistic": "sigmoid", "erf": "erf", "erfc": "erf",
    "erf_inv": "erf", "lgamma": "log", "digamma": "log", "bessel_i0e": "exp", "bessel_i1e": "exp",
    "square": "square", "abs": "abs", "neg": "neg", "sign": "sign", "floor": "floor", "ceil": "floor",
    "round": "round", "clamp": "clip", "select_n": "where", "eq": "compare", "ne": "compare", "lt": "compare",
    "le": "compare", "gt": "compare", "ge": "compare", "eq_to": "compare", "lt_to": "compare", "le_to": "compare",
    "is_finite": "compare", "and": "add", "or": "add", "xor": "add", "not": "neg", "shift_left": "add",
    "shift_right_logical": "add", "shift_right_arithmetic": "add", "population_count": "add", "clz": "add",
    "nextafter": "add", "mulhi": "multiply", "reduce_precision": "round", "reciprocal": "reciprocal",
}  # fmt: skip


@rule(*NAMES)
def known(call: Call) -> Priced:
    """A function that the notation has too."""
    function = NAMES[call.name]
    return pricing.elementwise(function, call.reads, call.writes, name=call.name)


@rule("integer_pow")
def integer_power(call: Call) -> Priced:
    """x to a whole power by repeated squaring: as many products as the power has binary digits, less one, and ones."""
    power = call.params["y"]
    whole = abs(power)
    products = max(0, whole.bit_length() - 1 + whole.bit_count() - 1) + (power < 0)
    return _of_each(call, products)


@rule("one_minus_square")
def one_minus_square(call: Call) -> Priced:
    """(1 + x)·(1 - x)."""
    return _of_each(call, 3)


@rule("polynomial")
def polynomial(call: Call) -> Priced:
    """Horner's rule: a product and a sum for every coefficient but the last."""
    return _of_each(call, 2 * (len(call.ins) - 2))


@rule("convert_element_type")
def converted(call: Call) -> Priced:
    """Convert to another dtype."""
    if call.ins[0].dtype == call.outs[0].dtype:
        return call.alias()
    return pricing.elementwise("cast", call.reads, call.writes, name="cast")


@rule("real", "imag", "conj", "complex")
def taken_apart(call: Call) -> Priced:
    """Put together or take apart complex numbers: bytes only, though some count an operation an element."""
    return _of_each(call, 0)


@rule("igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "polygamma", "zeta")
def iterated(call: Call) -> Priced:
    """A special function worked out until it converges."""
    return pricing.unknown(call.name, call.reads, call.writes, "iterates until it converges")


def _of_each(call: Call, flops: int) -> Priced:
    """So many FLOPs for every element of the result."""
    size = call.outs[0].size
    return pricing.vector(
        call.name, "elementwise", call.reads, call.writes, flops=flops * size, elements=size, one_each=size
    )


_NAMES = {
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_and": "sum",
    "reduce_or": "sum", "reduce_xor": "sum", "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip


@rule(*_NAMES)
def reduced(call: Call) -> Priced:
    """Reduce over some dimensions; over those that are sharded, between devices too."""
    source, out = call.ins[0], call.outs[0]
    op = pricing.reduction(
        _NAMES[call.name], call.reads, call.writes, elements=source.size, results=out.size, name=call.name
    )
    axes = [axis for d in call.params["axes"] for axis in (source.split[int(d)] if source.split else ())]
    return [op, *reduced_over(call, axes, call.writes[0], out)]


@rule("reduce")
def reduced_by_program(call: Call) -> Priced:
    """Reduce with a program of its own, for every element but the first."""
    steps = call.ins[0].size - call.outs[0].size
    each = call.inner(call.params["jaxpr"])
    return pricing.vector(
        call.name,
        "reduction",
        call.reads,
        call.writes,
        flops=steps * each,
        elements=call.ins[0].size,
        dims={"results": call.outs[0].size},
        one_each=steps * each,
    )


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def scanned(call: Call) -> Priced:
    """A running value: n − 1 operations for each row of n."""
    source = call.ins[0]
    rows = exact_div(source.size, source.shape[call.params["axis"]])
    flops = (4 if call.name == "cumlogsumexp" else 1) * (source.size - rows)
    return pricing.vector(call.name, "scan", call.reads, call.writes, flops=flops, elements=source.size, one_each=flops)


@rule("sort")
def sorted_(call: Call) -> Priced:
    """Compare: n·⌈log₂ n⌉ for rows of n."""
    source = call.ins[0]
    flops = source.size * levels_of(source.shape[call.params["dimension"]]) * call.params.get("num_keys", 1)
    return pricing.vector(
        call.name, "sort", call.reads, call.writes, flops=flops, elements=source.size, one_each=source.size
    )


@rule("top_k", "approx_top_k")
def top(call: Call) -> Priced:
    """Compare every element once."""
    size = call.ins[0].size
    return pricing.vector(call.name, "sort", call.reads, call.writes, flops=size, elements=size, one_each=size)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window")
def pooled(call: Call) -> Priced:
    """The largest or the sum of each window: one operation for every element of a window but the first."""
    results, window = call.outs[0].size, product(call.params["window_dimensions"])
    each = call.inner(call.params["jaxpr"]) if "jaxpr" in call.params else 1
    sizes = ("window_dimensions", "window_strides", "padding", "window_dilation", "base_dilation")
    places = [
        Reach(length, made, taps, stride, pad[0], dilation, base)
        for length, made, taps, stride, pad, dilation, base in zip(
            call.ins[0].shape, call.outs[0].shape, *(call.params[name] for name in sizes), strict=True
        )
    ]
    op = pricing.pool(call.name, call.reads, call.writes, results=results, window=window, places=places)
    return op if each == 1 else replace(op, work=op.work * each)


@rule("select_and_scatter_add", "select_and_gather_add", "select_and_scatter")
def pooled_backward(call: Call) -> Priced:
    """Find the largest of each window again, add its gradient there."""
    results, window = call.ins[0].size, product(call.params["window_dimensions"])
    return pricing.vector(
        call.name, "pooling", call.reads, call.writes, flops=results * window, elements=results, one_each=results
    )
