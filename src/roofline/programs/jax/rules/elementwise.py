"""Elementwise primitives: one FLOP an element, or what the function of that name takes."""

from __future__ import annotations

from roofline.programs.jax.registry import Call, Priced, pricing, rule

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
