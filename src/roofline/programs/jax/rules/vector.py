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


rule(*NAMES)(lambda call: call.elementwise(NAMES[call.name]))

#: FLOPs an element: (1 + x)·(1 − x); nothing where complex numbers are put together or taken apart.
_OTHERS = {"one_minus_square": 3, **dict.fromkeys(("real", "imag", "conj", "complex"), 0)}

rule(*_OTHERS)(lambda call: call.for_each("elementwise", call.outs[0].size, _OTHERS[call.name]))

rule(
    "igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "polygamma", "zeta",
)(lambda call: call.unknown("iterates until it converges"))  # fmt: skip


@rule("integer_pow")
def integer_power(call: Call) -> Priced:
    """x to a whole power by repeated squaring: as many products as the power has binary digits, less one, and ones."""
    power = call.params["y"]
    whole = abs(power)
    products = max(0, whole.bit_length() - 1 + whole.bit_count() - 1) + (power < 0)
    return call.for_each("elementwise", call.outs[0].size, products)


@rule("polynomial")
def polynomial(call: Call) -> Priced:
    """Horner's rule: a product and a sum for every coefficient but the last."""
    return call.for_each("elementwise", call.outs[0].size, 2 * (len(call.ins) - 2))


@rule("convert_element_type")
def converted(call: Call) -> Priced:
    """Convert to another dtype."""
    if call.ins[0].dtype == call.outs[0].dtype:
        return call.alias()
    return pricing.elementwise("cast", call.reads, call.writes, name="cast")


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
    elements, results = call.ins[0].size, call.outs[0].size
    flops = (elements - results) * call.inner(call.params["jaxpr"])
    return call.vector("reduction", flops, elements, dims={"results": results}, one_each=flops)


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def scanned(call: Call) -> Priced:
    """A running value: n − 1 operations for each row of n."""
    source = call.ins[0]
    rows = exact_div(source.size, source.shape[call.params["axis"]])
    flops = (4 if call.name == "cumlogsumexp" else 1) * (source.size - rows)
    return call.vector("scan", flops, source.size, one_each=flops)


@rule("sort")
def sorted_(call: Call) -> Priced:
    """Compare: n·⌈log₂ n⌉ for rows of n."""
    source = call.ins[0]
    flops = source.size * levels_of(source.shape[call.params["dimension"]]) * call.params.get("num_keys", 1)
    return call.vector("sort", flops, source.size, one_each=source.size)


# Every element is compared once.
rule("top_k", "approx_top_k")(lambda call: call.for_each("sort", call.ins[0].size))


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
    return call.for_each("pooling", call.ins[0].size, product(call.params["window_dimensions"]))
