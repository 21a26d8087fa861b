"""Reductions, running values, sorting, pooling."""

from __future__ import annotations

from roofline.programs.jax.registry import Call, Priced, pricing, rule
from roofline.programs.jax.rules.collectives import reduced_over
from roofline.sizes import Size, ceil_div, exact_div, is_symbol, log2, product

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
    flops = source.size * _levels(source.shape[call.params["dimension"]]) * call.params.get("num_keys", 1)
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
    return pricing.vector(
        call.name,
        "pooling",
        call.reads,
        call.writes,
        flops=results * (window - 1) * each,
        elements=results,
        dims={"results": results, "window": window},
        one_each=call.ins[0].size,
    )


@rule("select_and_scatter_add", "select_and_gather_add", "select_and_scatter")
def pooled_backward(call: Call) -> Priced:
    """Find the largest of each window again, add its gradient there."""
    results, window = call.ins[0].size, product(call.params["window_dimensions"])
    return pricing.vector(
        call.name, "pooling", call.reads, call.writes, flops=results * window, elements=results, one_each=results
    )


def _levels(n: Size) -> Size:
    """⌈log₂ n⌉, at least 1."""
    return ceil_div(log2(n), 1) if is_symbol(n) else max(1, (int(n) - 1).bit_length())
