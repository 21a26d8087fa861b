"""Reductions, running sums, softmax, losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, pi, prod
from typing import Any

import torch
import torch.nn.functional as F

from roofline.ops.softmax import PER_ELEMENT as SOFTMAX
from roofline.programs.pytorch.open_sizes import least, most
from roofline.programs.pytorch.price_tables import ELEMENT_OF_LOSS, REDUCTIONS
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule, shape
from roofline.work import Work


@rule(*REDUCTIONS)
def reduced(call: Call) -> Priced:
    """Reduce; ``max`` of two tensors is elementwise."""
    second = call.args[1] if len(call.args) > 1 else None
    if call.name in ("max", "min") and hasattr(second, "shape"):
        return pricing.elementwise(f"{call.name}imum", call.reads, call.writes, name=call.name)
    elements = call.args[0].numel()
    results = max(1, call.outs[0].numel())
    return pricing.reduction(
        REDUCTIONS[call.name],
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
    return pricing.vector(call.name, "scan", call.reads, call.writes, flops=flops, elements=x.numel(), one_each=flops)


@rule("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax", "_masked_softmax")
def softmaxed(call: Call) -> Priced:
    """max, subtract, exp, sum, divide."""
    size = call.outs[0].numel()
    return pricing.vector(
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
    """Pick one score a row, or put one gradient back, which reads no scores; the sum over rows counts 1 each."""
    forward = call.name.endswith("forward")
    scores, target = call.args[:2] if forward else call.args[1:3]
    (table,), rows = call.read(scores), target.numel()
    others = tuple(tensor for tensor in call.reads if tensor is not table)
    reads = (replace(table, touched=least(rows, table.elements)), *others) if forward else others
    return pricing.vector(call.name, "reduction", reads, call.writes, flops=rows, elements=rows, one_each=rows)


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss",
      "binary_cross_entropy_with_logits", "kl_div", "mse_loss_backward", "smooth_l1_loss_backward",
      "huber_loss_backward", "binary_cross_entropy_backward")  # fmt: skip
def loss(call: Call) -> Priced:
    """A loss over all elements: subtract, square (or the like), add."""
    size = most(*(item.numel() for item in call.args if hasattr(item, "numel")))
    return pricing.vector(
        call.name, "reduction", call.reads, call.writes, flops=ELEMENT_OF_LOSS * size, elements=size, one_each=size
    )


@rule("multi_margin_loss", "multi_margin_loss_backward", "multilabel_margin_loss_forward",
      "multilabel_margin_loss_backward")  # fmt: skip
def margins(call: Call) -> Priced:
    """max(0, margin − x[y] + x[j]) for each class j, of several labels y for each of those too; then a sum."""
    scores = call.args[1 if call.name.endswith("backward") else 0]
    size = scores.numel() * (scores.shape[-1] if "multilabel" in call.name else 1)
    return pricing.vector(call.name, "reduction", call.reads, call.writes, flops=4 * size, elements=size, one_each=size)


@rule("trace", "diff", "cross", "linalg_cross")
def small(call: Call) -> Priced:
    """Sums of few products: 3 FLOPs for each result."""
    size = prod(call.outs[0].shape)
    return pricing.vector(call.name, "reduction", call.reads, call.writes, flops=3 * size, elements=size, one_each=size)


@rule("_cdist_forward", "_pdist_forward", "_cdist_backward", "_pdist_backward")
def distances(call: Call) -> Priced:
    """Subtract, square (or the like) and add for every pair of rows and every column; its gradient likewise."""
    backward = call.name.endswith("backward")
    pairs = call.args[-1] if backward else call.outs[0]
    size = prod(pairs.shape) * call.args[1 if backward else 0].shape[-1]
    return pricing.vector(call.name, "reduction", call.reads, call.writes, flops=3 * size, elements=size, one_each=size)


@rule("_euclidean_dist")
def distances_by_products(call: Call) -> Priced:
    """√(x² + y² − 2·x·y): a matrix product, the squares of both sides, and 4 FLOPs a pair for the rest."""
    x, y = call.args[:2]
    m, n, k = x.shape[-2], y.shape[-2], x.shape[-1]
    op = pricing.matmul(call.name, call.read(x, y), call.writes, m=m, n=n, k=k, batch=prod(x.shape[:-2]))
    rest = 2 * (x.numel() + y.numel()) + 4 * call.outs[0].numel()
    return replace(op, work=op.work + Work.flops("vector", pricing.arithmetic(call.reads), rest))


@rule("renorm", "embedding_renorm")
def renormed(call: Call) -> Priced:
    """The norm of each row, and the rows that are too long scaled; of a table the rows that indices name."""
    table = call.args[0]
    rows = call.args[1].numel() if call.name == "embedding_renorm" else 0
    size = rows * table.shape[-1] or table.numel()
    touched = [replace(t, touched=least(size, t.elements)) for t in (*call.read(table), *call.writes[:1])]
    reads = (touched[0], *(t for t in call.reads if t not in call.read(table)))
    return pricing.vector(call.name, "reduction", reads, touched[1:], flops=3 * size, elements=size, one_each=size)


@rule("_ctc_loss", "_ctc_loss_backward")
def paths(call: Call) -> Priced:
    """The sum over all paths through labels and blanks: log(eᵃ + eᵇ + eᶜ) + p for each step and state (Graves 2006).

    A largest of three, 3 differences, 3 exponentials, 2 sums, a logarithm and 2 more sums; the gradient goes the other
    way in the same manner, and gives every score a difference, an exponential and a product.
    """
    backward = call.name.endswith("backward")
    states = prod((call.get("log_alpha") if backward else call.outs[1]).shape)
    scores = call.args[1 if backward else 0].numel()
    flops = 13 * states + (3 * scores if backward else 0)
    roots = 4 * states + (scores if backward else 0)
    return pricing.vector(
        call.name.strip("_"),
        "scan",
        call.reads,
        call.writes,
        flops=flops,
        elements=states,
        transcendentals=roots,
    )


@shape("_ctc_loss_backward")
def scores_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A gradient for every score."""
    return torch.empty_like(args[1])


@shape("_ctc_loss", "ctc_loss")
def paths_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss for each sequence, and a table of steps by states; targets in one row have to say how long they are."""
    scores, targets, _, lengths = args[:4]
    if targets.dim() == 1 and isinstance(lengths, torch.Tensor):
        return NotImplemented
    longest = max(lengths, default=0) if targets.dim() == 1 else targets.shape[1]
    table = (scores.shape[1], scores.shape[0], 2 * longest + 1)
    return tuple(torch.empty(dims, dtype=scores.dtype, device="meta") for dims in (table[:1], table))


@rule("segment_reduce", "_segment_reduce_backward")
def by_segments(call: Call) -> Priced:
    """Add up (or compare) what stands in each segment; the gradient goes to every element."""
    size = max(call.reads[0].elements, call.writes[0].elements)
    return pricing.vector(call.name, "reduction", call.reads, call.writes, flops=size, elements=size, one_each=size)


@function(F.gaussian_nll_loss)
def gaussian(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """½·(log v + (x − t)²/v), without PyTorch's look at the values of v."""
    names = ("input", "target", "var", "full", "eps", "reduction")
    given: dict[str, Any] = {"full": False, "eps": 1e-6, "reduction": "mean"}
    given |= dict(zip(names, args, strict=False)) | kwargs
    x, target, variance = given["input"], given["target"], given["var"]
    if not isinstance(variance, torch.Tensor):
        return NotImplemented
    if variance.dim() and variance.shape != x.shape and variance.dim() == x.dim() - 1:
        variance = variance.unsqueeze(-1)
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=given["eps"])
    loss = 0.5 * (torch.log(variance) + (x - target) ** 2 / variance)
    loss = loss + 0.5 * log(2 * pi) if given["full"] else loss
    if given["reduction"] == "none":
        return loss
    return loss.mean() if given["reduction"] == "mean" else loss.sum()
