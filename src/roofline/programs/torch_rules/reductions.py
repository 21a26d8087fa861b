"""Reductions, running sums, softmax, losses."""

from __future__ import annotations

from math import prod

from roofline.ops.softmax import PER_ELEMENT as SOFTMAX
from roofline.programs.torch_registry import Call, Priced, costs, rule
from roofline.programs.torch_symbols import least, most

_NAMES = {
    "sum": "sum", "nansum": "sum", "mean": "mean", "prod": "prod", "amax": "max", "amin": "min", "max": "max",
    "min": "min", "argmax": "argmax", "argmin": "argmin", "any": "sum", "all": "sum", "var": "variance",
    "std": "variance", "var_mean": "variance", "std_mean": "variance", "logsumexp": "logsumexp",
    "linalg_vector_norm": "norm", "norm": "norm", "aminmax": "max", "count_nonzero": "sum",
}  # fmt: skip


@rule(*_NAMES)
def reduced(call: Call) -> Priced:
    """Reduce; ``max`` of two tensors is elementwise."""
    second = call.args[1] if len(call.args) > 1 else None
    if call.name in ("max", "min") and hasattr(second, "shape"):
        return costs.elementwise(f"{call.name}imum", call.reads, call.writes, name=call.name)
    elements = call.args[0].numel()
    results = max(1, call.outs[0].numel())
    return costs.reduction(
        _NAMES[call.name],
        call.reads,
        call.writes,
        elements=elements,
        results=least(results, elements) or 1,
        name=call.name,
    )


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "_cummax_helper", "_cummin_helper")
def scanned(call: Call) -> Priced:
    """A running value: n − 1 operations for each row of n."""
    x = call.args[0]
    dim = call.get("dim", call.args[1] if len(call.args) > 1 else -1)
    rows = x.numel() // max(1, x.shape[dim]) if x.dim() else 1
    each = 4 if call.name == "logcumsumexp" else 1
    flops = each * (x.numel() - rows)
    return costs.vector(call.name, "scan", call.reads, call.writes, flops=flops, elements=x.numel(), one_each=flops)


@rule("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax", "_masked_softmax")
def softmaxed(call: Call) -> Priced:
    """max, subtract, exp, sum, divide."""
    size = call.outs[0].numel()
    return costs.vector(
        call.name.strip("_"),
        "softmax",
        call.reads,
        call.writes,
        flops=SOFTMAX * size,
        elements=size,
        transcendentals=size,
        one_each=size,
    )


@rule("nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward")
def picked(call: Call) -> Priced:
    """Pick one score a row, or put one back; the sum over rows counts 1 each."""
    forward = call.name.endswith("forward")
    rows = call.args[1 if forward else 2].numel()
    table = call.reads[0]
    from dataclasses import replace

    reads = (replace(table, touched=least(rows, table.elements)), *call.reads[1:]) if forward else call.reads
    return costs.vector(call.name, "reduction", reads, call.writes, flops=rows, elements=rows, one_each=rows)


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss",
      "binary_cross_entropy_with_logits", "kl_div", "mse_loss_backward", "smooth_l1_loss_backward",
      "huber_loss_backward", "binary_cross_entropy_backward", "_chunk_cat")  # fmt: skip
def loss(call: Call) -> Priced:
    """A loss over all elements: subtract, square (or the like), add."""
    size = most(*(item.numel() for item in call.args if hasattr(item, "numel")))
    return costs.vector(call.name, "reduction", call.reads, call.writes, flops=3 * size, elements=size, one_each=size)


@rule("trace", "diff", "_cdist_forward", "cross", "linalg_cross")
def small(call: Call) -> Priced:
    """Sums of few products: 3 FLOPs for each pair of elements that meet."""
    size = prod(call.outs[0].shape) * (call.args[0].shape[-1] if call.name == "_cdist_forward" else 1)
    return costs.vector(call.name, "reduction", call.reads, call.writes, flops=3 * size, elements=size, one_each=size)
