"""Work of the vector unit: elementwise functions, reductions, norms, running sums, softmax, losses, distances.

Lists of tensors and whole steps of optimizers are elementwise functions too.
"""

from __future__ import annotations

import math

from roofline.frozen import replace
from roofline.ops.basic import arithmetic
from roofline.ops.elementwise import PER_ELEMENT
from roofline.programs.pytorch import registry
from roofline.programs.pytorch.registry import (
    UNTOLD,
    Call,
    Priced,
    TensorOperand,
    is_operand,
    operands_in,
    pricing,
    rule,
)
from roofline.programs.pytorch.rules.moving import is_named, nonzero_elements, scattered
from roofline.programs.rule_table import touching
from roofline.programs.tensor_parts import needing
from roofline.sizes import Size, exact_div, maximum, minimum, product
from roofline.work import Op

_RANDOM_NOTE = "the arithmetic of random numbers is not counted"


@rule(*registry.FUNCTIONS)
def known(call: Call) -> Priced:
    """A function that the notation has too; a scaled sum (add with alpha) has one multiply more."""
    function = registry.FUNCTIONS[call.name]
    second = call.args[1] if len(call.args) > 1 else None
    is_number = isinstance(second, int | float)
    if call.name == "gelu" and call.get("approximate") == "tanh":
        function = "gelu_tanh"
    if call.name == "pow":
        return pricing.power(call.name, call.reads, call.writes, second if is_number else None)
    bounds = (*call.args, None, None)[1:3]
    if call.name == "clamp" and sum(bound is None or bound is UNTOLD for bound in bounds) == 1:
        function = "maximum"
    if function in ("multiply", "divide") and call.results[0].is_complex and is_number:
        return call.for_each("elementwise", call.results[0].elements, 2)
    if function == "where":
        return _chosen(call)
    if call.name == "mul":
        return _scaled(call)
    if call.name in ("add", "sub", "rsub") and call.get("alpha", 1) != 1:
        return pricing.scaled_sum(call.name, call.reads, call.writes)
    return call.elementwise(function)


def _chosen(call: Call) -> Priced:
    """A choice between tensors or numbers: where the mask is known, no more of each is needed than it takes."""
    if call.in_place and call.writes[0].updates and is_named(call):
        return scattered(call)
    op = call.elementwise("where")
    mask, sides = (call.args[1], [(call.args[0], False)]) if call.name == "masked_fill" else (call.args[0], [])
    sides = sides or [(side, taken) for side, taken in zip(call.args[1:], (True, False), strict=False)]
    every = call.results[0].elements
    taken = nonzero_elements(mask, every)
    if taken is None:
        return op
    whole = [(side, yes) for side, yes in sides if is_operand(side) and side.elements == every]
    counts = {t.ident: taken if yes else every - taken for side, yes in whole for t in call.read(side)}
    return needing(op, counts) if len(counts) == len(whole) else op


def _scaled(call: Call) -> Priced:
    """A product: of each factor no more is needed than the other, where its elements are known, has that are not 0."""
    every, pair, counts = call.results[0].elements, call.args[:2], dict[str, Size]()
    for side, other in (pair, pair[::-1]):
        taken = nonzero_elements(other, every) if is_operand(other) and (other.is_constant or other.formulas) else None
        if taken not in (None, every) and is_operand(side) and side.elements == every:
            counts |= {t.ident: taken for t in call.read(side)}
    return needing(call.elementwise("multiply"), counts)


@rule(*registry.STATED_FORMULAS)
def other(call: Call) -> Priced:
    """A function that stands in :data:`~roofline.programs.pytorch.registry.STATED_FORMULAS` with its formula."""
    plain, special, _ = registry.STATED_FORMULAS[call.name]
    note = _RANDOM_NOTE if call.name in ("native_dropout", "_fused_dropout") else ""
    return call.for_each("elementwise", call.results[0].elements, plain + special, special, note=note)


# What it keeps for its gradient is written, and not read.
rule("rrelu_with_noise")(
    lambda call: call.for_each("elementwise", call.results[0].elements, 2, reads=call.read(call.args[0]))
)

# Complex numbers are put together or taken apart: bytes only.
rule("complex", "view_as_real_copy", "view_as_complex_copy", "real", "imag", "conj_physical")(
    lambda call: call.elementwise("copy")
)
# The bias of queries, keys and values is added, and they are laid out by heads.
rule("_transform_bias_rescale_qkv")(lambda call: call.elementwise("add"))

_BY_NAME = (
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "maximum",
    "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub",
    "tan", "tanh", "trunc",
)  # fmt: skip


@rule(*(f"_foreach_{name}" for name in _BY_NAME))
def foreach(call: Call) -> Priced:
    """One elementwise function over many tensors at once; a scaled sum has one multiply more."""
    name = call.name.removeprefix("_foreach_")
    cost = PER_ELEMENT.get(registry.FUNCTIONS.get(name, ""))
    each = 1 if cost is None else cost.flops
    if name in registry.STATED_FORMULAS:
        each = sum(registry.STATED_FORMULAS[name][:2])
    elif name in ("add", "sub") and call.get("alpha", 1) != 1:
        each = 2
    return call.for_each("elementwise", _elements(call.results), each)


#: FLOPs an element of many tensors: each reduced to a number; gradients times 1/scale, and whether each is finite.
_LISTS = {"_foreach_norm": 2, "_foreach_powsum": 2, "_foreach_max": 1, "_amp_foreach_non_finite_check_and_unscale": 2}

rule(*_LISTS)(lambda call: call.for_each("elementwise", _elements(call.tensors(0)), _LISTS[call.name]))

# The next scale of gradients: one choice, one product.
rule("_amp_update_scale")(lambda call: call.for_each("elementwise", 1, 2))


@rule(*registry.OPTIMIZERS)
def fused_optimizer(call: Call) -> Priced:
    """A whole optimizer step in one kernel: FLOPs a parameter as its formula has them.

    Gradients are written only where they are unscaled.
    """
    each, roots, more, _ = registry.OPTIMIZERS[call.name]
    each += sum(flops for option, flops in more.items() if call.get(option))
    writes = call.writes
    if call.operand("grad_scale") is None:
        gradients = {tensor.base.partition(".")[0] for tensor in call.read(*call.tensors(1))}
        writes = tuple(tensor for tensor in writes if tensor.ident.partition(".")[0] not in gradients)
    return call.for_each("elementwise", _elements(call.tensors(0)), each, roots, writes=writes)


def _elements(operands: tuple[TensorOperand, ...]) -> Size:
    return sum(item.elements for item in operands if is_operand(item))


@rule(*registry.REDUCTIONS)
def reduced(call: Call) -> Priced:
    """Reduce; ``max`` of two tensors is elementwise."""
    second = call.args[1] if len(call.args) > 1 else None
    if call.name in ("max", "min") and is_operand(second):
        return pricing.elementwise(f"{call.name}imum", call.reads, call.writes, name=call.name)
    elements = call.operands(0)[0].elements
    results = maximum(1, minimum(call.results[0].elements, elements))
    sizes = {"elements": elements, "results": results}
    has_root = call.get("ord", call.get("p")) not in (0, 1, math.inf, -math.inf)
    function = registry.REDUCTIONS[call.name] if has_root or "norm" not in call.name else "squares"
    op = pricing.reduction(function, call.reads, call.writes, **sizes, name=call.name)
    return replace(op, work=op.work * 2) if call.name == "aminmax" else op


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "_cummax_helper", "_cummin_helper")
def scanned(call: Call) -> Priced:
    """A running value: n − 1 operations for each row of n."""
    (x,) = call.operands(0)
    each = 4 if call.name == "logcumsumexp" else 1
    rows = _rows(x, call.stated("dim", -1))
    return pricing.scan(call.name, call.reads, call.writes, elements=x.elements, rows=rows, each=each)


def _rows(x: TensorOperand, dim: int) -> Size:
    """Rows along one dimension."""
    return exact_div(x.elements, maximum(1, x.shape[dim])) if x.rank else 1


@rule("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax", "_masked_softmax")
def softmaxed(call: Call) -> Priced:
    """Softmax or its logarithm."""
    out, log = call.results[0], "log" in call.name
    dim = call.get("dim", -1)
    rows = _rows(out, dim if isinstance(dim, int) else -1)
    return pricing.softmax(call.name.strip("_"), call.reads, call.writes, elements=out.elements, rows=rows, log=log)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_gradient(call: Call) -> Priced:
    """The gradient, from the result."""
    size = call.results[0].elements
    return pricing.softmax_backward(call.name, call.reads, call.writes, elements=size, log="log" in call.name)


@rule("nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward")
def picked(call: Call) -> Priced:
    """Pick one score a row, or put one gradient back, which reads no scores; the sum over rows counts 1 each."""
    forward = call.name.endswith("forward")
    scores, target = call.operands(0, 1) if forward else call.operands(1, 2)
    rows, others = target.elements, call.read_without(scores)
    picked = (*call.read(scores), *call.read(call.operand("weight"))) if forward else call.read(call.operand("weight"))
    named = {t.ident: t for t in touching(rows, *picked)}
    reads = (*named.values(), *(t for t in others if t.ident not in named))
    return call.for_each("reduction", rows, reads=reads)


@rule(*registry.LOSSES)
def loss(call: Call) -> Priced:
    """A loss of each element, and their sum where one number is wanted; or the gradient of one."""
    each, special, _ = registry.LOSSES[call.name]
    size = maximum(*(item.elements for item in operands_in(call.args)))
    return call.for_each("reduction", size, each + special + (call.results[0].elements != size), special)


@rule("multi_margin_loss", "multi_margin_loss_backward", "multilabel_margin_loss_forward",
      "multilabel_margin_loss_backward")  # fmt: skip
def margins(call: Call) -> Priced:
    """max(0, margin − x[y] + x[j]) for each class j, of several labels y for each of those too; then a sum."""
    scores = call.args[1 if call.is_backward else 0]
    labels = scores.shape[-1] if "multilabel" in call.name and scores.rank else 1
    return call.for_each("reduction", scores.elements * labels, 4)


@rule("trace")
def trace(call: Call) -> Priced:
    """The sum of a diagonal, of which alone it reads."""
    (matrix,) = call.reads
    size = minimum(*call.args[0].shape)
    return call.for_each("reduction", size, reads=(replace(matrix, touched=size),))


# Sums of few products: 3 FLOPs for each result.
rule("diff", "cross", "linalg_cross")(lambda call: call.for_each("reduction", call.results[0].elements, 3))


@rule("_cdist_forward", "_pdist_forward", "_cdist_backward", "_pdist_backward")
def distances(call: Call) -> Priced:
    """Subtract, square (or the like) and add for every pair of rows and every column; its gradient likewise."""
    pairs = call.args[-1] if call.is_backward else call.results[0]
    columns = call.args[1 if call.is_backward else 0].shape[-1]
    return pricing.distances(call.name, call.reads, call.writes, pairs=pairs.elements, columns=columns)


@rule("dist")
def distance(call: Call) -> Priced:
    """The same for one pair, all elements of which are columns."""
    columns = maximum(*(item.elements for item in call.operands(0, 1)))
    return pricing.distances(call.name, call.reads, call.writes, pairs=1, columns=columns)


_CHUNKED = "torch_nn._linear_cross_entropy_batch_chunked"


@rule(_CHUNKED, f"{_CHUNKED}_no_reduction")
def linear_cross_entropy(call: Call) -> Priced:
    """A product with all classes and its cross entropy in chunks: no score is written.

    The gradients of x and of the weight are worked out in the same pass, another product each.
    """
    x, weight = [item for item in operands_in(call.args) if item.rank == 2][:2]
    rows, scores = x.shape[0], x.shape[0] * weight.shape[0]
    words = ("compute_input_grad", "compute_linear_weight_grad")
    passes = 1 + sum(bool(call.get(word)) for word in words)
    sizes = {"m": rows, "n": weight.shape[0], "k": x.shape[1]}
    op = pricing.contraction(call.name.strip("_"), call.read(x, weight), call.writes, **sizes)
    work = op.work * passes
    soft = pricing.softmax(call.name, op.reads, op.writes, elements=scores, rows=rows, log=True).work
    return replace(op, reads=call.reads, work=work + soft, options={"macs": passes * scores * x.shape[1]})


@rule("_euclidean_dist")
def distances_by_products(call: Call) -> Priced:
    """√(x² + y² − 2·x·y): a matrix product, the squares of both sides, and 4 FLOPs a pair for the rest."""
    x, y = call.operands(0, 1)
    m, n, k = x.shape[-2], y.shape[-2], x.shape[-1]
    op = pricing.contraction(call.name, call.read(x, y), call.writes, m=m, n=n, k=k, batch=product(x.shape[:-2]))
    rest = 2 * (x.elements + y.elements) + 4 * call.results[0].elements
    return call.beside(op, rest, pricing.arithmetic(call.reads), reads=op.reads)


@rule("renorm", "embedding_renorm")
def renormed(call: Call) -> Priced:
    """The norm of each row, and the rows that are too long scaled; of a table the rows that indices name."""
    (table,) = call.operands(0)
    if call.name == "renorm":
        return call.for_each("reduction", table.elements, 3)
    size = call.operands(1)[0].elements * table.shape[-1]
    read, *written = touching(size, *call.read(table), *call.writes[:1])
    return call.for_each("reduction", size, 3, reads=(read, *call.read_without(table)), writes=written)


@rule("_ctc_loss", "_ctc_loss_backward")
def paths(call: Call) -> Priced:
    """The sum over all paths through labels and blanks: log(eᵃ + eᵇ + eᶜ) + p for each step and state (Graves 2006).

    A largest of three, 3 differences, 3 exponentials, 2 sums, a logarithm and 2 more sums; the gradient goes the other
    way in the same manner, and gives every score a difference, an exponential and a product.
    """
    states = (call.get("log_alpha") if call.is_backward else call.results[1]).elements
    scores = call.args[1 if call.is_backward else 0].elements
    flops, special = 13 * states, 4 * states
    if call.is_backward:
        flops, special = flops + 3 * scores, special + scores
    return replace(call.vector("scan", flops, states, transcendentals=special), name=call.name.strip("_"))


# What stands in each segment is added up (or compared); the gradient goes to every element.
rule("segment_reduce", "_segment_reduce_backward")(
    lambda call: call.for_each("reduction", maximum(call.reads[0].elements, call.writes[0].elements))
)


@rule("native_layer_norm", "layer_norm", "_fused_rms_norm", "rms_norm")
def layer_norm(call: Call) -> Priced:
    """Normalise over the last dimensions: those that are stated, or that the scale has."""
    (x,) = call.operands(0)
    function = "rms_norm" if "rms" in call.name else "layer_norm"
    affine = sum(map(is_operand, call.args[2 : 3 if function == "rms_norm" else 4]))
    shape = call.get("normalized_shape")
    if not isinstance(shape, int | list | tuple):
        shape = call.args[2].shape if affine else x.shape[-1:]
    row = shape if isinstance(shape, int) else product(shape)
    return _norm(function, call, x.elements, exact_div(x.elements, row), affine=affine)


@rule("native_group_norm")
def group_norm(call: Call) -> Priced:
    """Normalise over groups of channels."""
    (x,) = call.operands(0)
    return _norm(
        "group_norm", call, x.elements, x.shape[0] * call.stated("group"), affine=sum(map(is_operand, call.args[1:3]))
    )


BATCH_NORMS = (
    "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm",
    "_batch_norm_with_update", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
    "_batch_norm_no_update",
)  # fmt: skip


@rule(*BATCH_NORMS)
def batch_norm(call: Call) -> Priced:
    """Normalise over the batch: with statistics of the batch as a layer norm, with stored ones 2 an element."""
    (x,) = call.operands(0)
    function = "layer_norm" if call.is_training else "batch_norm"
    return _norm(function, call, x.elements, x.shape[1], affine=sum(map(is_operand, call.args[1:3])), name="batch_norm")


@rule(
    "native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
    "cudnn_batch_norm_backward", "miopen_batch_norm_backward", "batch_norm_backward", "_fused_rms_norm_backward",
    "rms_norm_backward",
)  # fmt: skip
def norm_backward(call: Call) -> Priced:
    """The gradients of a norm; by the statistics of the batch, or stored ones where its eighth argument says so."""
    is_stored = call.name in ("native_batch_norm_backward", "batch_norm_backward") and call.args[7] is False
    of_batch = slice(3, 5) if not is_stored else slice(5, 7)  # the others are not read
    others = slice(6, 7) if "layer" in call.name else of_batch  # of the shift only the shape is needed
    has_spare = "batch" in call.name or call.name == "native_layer_norm_backward"
    spare = [each.tensor for each in operands_in(call.args[others])] if has_spare else []
    compute = arithmetic([*call.reads[:1], *call.writes])
    reads = tuple(tensor for tensor in call.reads if tensor not in spare)
    (grad,) = call.operands(0)
    function = next(each for each in ("rms_norm", "layer_norm", "group_norm", "batch_norm") if each in call.name)
    if function == "batch_norm" and not is_stored:
        function = "group_norm"
    wanted = call.get("output_mask") or [len(tensor.dims) == grad.rank for tensor in call.writes[:1]]
    asked = {"elements": grad.elements, "of_input": bool(wanted and wanted[0])}
    return pricing.norm_backward(function, call.name, reads, call.writes, **asked, compute=compute)


def _norm(function: str, call: Call, size: Size, rows: Size, *, affine: int, name: str | None = None) -> Op:
    writes = call.writes[:1] if function == "batch_norm" else call.writes  # with stored statistics there are no others
    compute = arithmetic([*call.reads, *writes[:1]])  # not that of the statistics beside the result, fp32
    return pricing.norm(
        function, call.reads, writes, elements=size, rows=rows, affine=affine, name=name, compute=compute
    )
