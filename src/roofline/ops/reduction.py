"""Reductions, softmax, norms and running values along some dimensions, on the vector unit.

>>> x, y = Tensor("x", (4, 1024), "fp32"), Tensor("y", (4,), "fp32")
>>> reduction("sum", [x], [y], elements=4096, results=4).work
Work(flops/vector/fp32: 4092)
>>> softmax("softmax", [x], [x], elements=4096, rows=4).work
Work(flops/vector/fp32: 20480)
>>> softmax("log_softmax", [x], [x], elements=4096, rows=4, log=True, exact=True).work
Work(flops/vector/fp32: 20476)
>>> scan("cumsum", [x], [x], elements=4096, rows=4).work
Work(flops/vector/fp32: 4092)

Layer, RMS, batch and group norm:

>>> x = Tensor("x", (32, 4096), "bf16")
>>> scale, shift = Tensor("g", (4096,), "bf16", "weight"), Tensor("b", (4096,), "bf16", "weight")
>>> sizes = {"elements": 32 * 4096, "rows": 32}
>>> norm("rms_norm", [x, scale], [x], **sizes, affine=1).work.total("flops") == 4 * 32 * 4096 + 2 * 32
True
>>> norm("layer_norm", [x, scale, shift], [x], **sizes, affine=2).work.total("flops") == 7 * 32 * 4096 + 2 * 32
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline import dtypes
from roofline.errors import check_one_of
from roofline.frozen import NamedTuple
from roofline.notation.structure import Step
from roofline.ops.basic import vector
from roofline.ops.rules import Context, register, require, require_multiple, show_size
from roofline.sizes import Size, exact_div, is_zero, product
from roofline.work import Op, Tensor

#: FLOPs of one result over n elements; :func:`reduction` has the list of steps.
PER_RESULT: dict[str, Callable[[Size], Size]] = {
    **dict.fromkeys(("sum", "prod", "max", "min", "argmax", "argmin"), lambda n: n - 1),
    "mean": lambda n: n,
    "norm": lambda n: 2 * n,
    "squares": lambda n: 2 * n - 1,
    "variance": lambda n: 4 * n,
    "logsumexp": lambda n: 4 * n,
}

#: Transcendentals among them.
TRANSCENDENTALS: dict[str, Callable[[Size], Size]] = {"norm": lambda n: 1, "logsumexp": lambda n: n + 1}

#: Softmax FLOPs for each element: max, subtract, exp, sum, divide.
SOFTMAX_PER_ELEMENT = 5

#: FLOPs for each element of the gradient of a softmax, y·(g − Σ g·y): two products, an add, a subtraction.
SOFTMAX_BACKWARD_PER_ELEMENT = 4


def reduction(
    function: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    results: Size,
    name: str | None = None,
    compute: str | None = None,
) -> Op:
    """Reduce ``elements`` to ``results``; each result comes from n = elements/results.

    ::

        sum, prod, max, min, argmax, argmin   n − 1
        mean                                  n          n − 1 adds, 1 divide
        norm        √Σx²                      2n         n squares, n − 1 adds, 1 root
        squares     Σx², Σ|x|, Σ(x ≠ 0)       2n − 1     no root, as max |x|
        variance    Σ(x − mean)²/n            4n         mean n, n subtracts, n squares, n − 1 adds, 1 divide
        logsumexp   max + log Σ exp(x − max)  4n         2·(n − 1) for max and sum, n subtracts, n exps, 1 log, 1 add

    These are exact counts; there is no rounder form. A complex sum is two real ones. What :data:`PER_RESULT` does not
    list counts as a sum. An empty axis takes nothing.

    >>> x, y = Tensor("x", (2, 0), "fp32"), Tensor("y", (2,), "fp32")
    >>> reduction("sum", [x], [y], elements=0, results=2).work.total("flops")
    0
    """
    n = elements if is_zero(results) else exact_div(elements, results)
    special = TRANSCENDENTALS.get(function)
    parts = 2 if any(dtypes.get(tensor.dtype).family == "complex" for tensor in reads) else 1
    flops = parts * results * PER_RESULT.get(function, PER_RESULT["sum"])(n)
    return vector(
        name or function, "reduction", reads, writes, flops=flops, elements=elements, dims={"results": results},
        transcendentals=0 if special is None or is_zero(elements) else results * special(n),
        one_each=elements - results, compute=compute,
    )  # fmt: skip


def softmax(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    rows: Size,
    log: bool = False,
    exact: bool = False,
    compute: str | None = None,
) -> Op:
    """exp(x − max x) / Σ exp(x − max x) along ``rows`` of elements/rows each.

    ::

        FLOPs = 5·elements                    max, subtract, exp, sum, divide
              = 5·elements − 2·rows           exact: max and sum of n elements take n − 1
        log   : x − max x − log Σ exp(x − max x), that is 5·elements + rows; exact 5·elements − rows

    Source: the stable three-pass form, as in Milakov and Gimelshein, "Online normalizer calculation for softmax",
    2018, section 2.
    """
    logs = rows if log else 0
    flops = SOFTMAX_PER_ELEMENT * elements + logs - (2 * rows if exact else 0)
    return vector(
        name, "softmax", reads, writes, flops=flops, elements=elements, transcendentals=elements + logs,
        dims={"rows": rows}, one_each=elements, compute=compute,
    )  # fmt: skip


def softmax_backward(
    name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, elements: Size, log: bool = False
) -> Op:
    """The gradient of a softmax from its result y: y·(g − Σ g·y); of a log-softmax g − exp(y)·Σ g.

    ::

        FLOPs = 4·elements         n products, n adds, n subtractions, n products
        log   : 4·elements         n adds, n exponentials, n products, n subtractions

    >>> y = Tensor("y", (4, 1024), "fp32")
    >>> softmax_backward("softmax_backward", [y, y], [y], elements=4096).work.total("flops")
    16384
    """
    flops, logs = SOFTMAX_BACKWARD_PER_ELEMENT * elements, elements if log else 0
    each = {"elements": elements, "one_each": elements}
    return vector(name, "softmax", reads, writes, flops=flops, transcendentals=logs, **each)


def scan(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    rows: Size,
    each: Size = 1,
    compute: str | None = None,
) -> Op:
    """A running value along ``rows`` of n elements: n − 1 steps for each row, of ``each`` FLOPs.

    That is the work of the sequential scan, the least there is; parallel scans do up to twice as much (G. Blelloch,
    "Prefix sums and their applications", 1990). A running log-sum-exp has 4 FLOPs a step.
    """
    flops, dims = each * (elements - rows), {"rows": rows}
    return vector(
        name, "scan", reads, writes, flops=flops, elements=elements, dims=dims, one_each=flops, compute=compute
    )


def distances(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, pairs: Size, columns: Size) -> Op:
    """Distances of ``pairs`` of rows with ``columns`` each: subtract, square (or the like) and add for every column.

    ::

        FLOPs = 3·pairs·columns

    A gradient does as much: subtract, multiply by what the distance adds, add.

    >>> x, d = Tensor("x", (8, 64), "fp32"), Tensor("d", (8, 8), "fp32")
    >>> distances("cdist", [x, x], [d], pairs=64, columns=64).work.total("flops")
    12288
    """
    size = pairs * columns
    return vector(name, "reduction", reads, writes, flops=3 * size, elements=size, one_each=size)


@register("reduction")
def reduction_rule(step: Step, context: Context) -> Op:
    """Price a reduction over the labels in ``over``, which gives a result for each row."""
    facts = context.along_rows(step)
    return reduction(step.function, results=facts.pop("rows"), **facts)


@register("softmax")
def softmax_rule(step: Step, context: Context) -> Op:
    """Price a softmax along the labels in ``over``."""
    return softmax(**context.along_rows(step), log=step.function == "log_softmax", exact=context.exact)


@register("scan")
def scan_rule(step: Step, context: Context) -> Op:
    """Price a scan along the label in ``over``."""
    return scan(**context.along_rows(step))


@register("sort")
def top_rule(step: Step, context: Context) -> Op:
    """Price the k largest of each row: every element is compared once, k entries and their int32 places are written."""
    x, n, k = context.tensor(step.inputs[0]), context.size(step.over), step.options["k"]
    row = n * product(context.ways.get(label, 1) for label in step.over)
    few = f"{step.function} cannot take {k} of"
    require(row >= k, f"{few} {show_size(row)}", "k is at most the size", f"{few} fewer")
    dims = [k if label in step.over else size for label, size in zip(step.inputs[0].labels, x.dims, strict=True)]
    found = Tensor(step.output.ident, tuple(dims), step.output.dtype, label=step.output.written)
    places = Tensor(f"places of {step.output.ident}", tuple(dims), "int32", "index")
    name, each, compute = step.text or step.function, x.elements, context.arithmetic(step)
    return vector(name, "sort", [x], [found, places], flops=each, elements=each, one_each=each, compute=compute)


class Cost(NamedTuple):
    """FLOPs without scale and shift: for each element, and for each group of n elements normalised together."""

    element: int
    group: int
    roots: int


#: FLOPs for each element of the gradient of a norm: of its input, of its scale or its shift beside that, of one alone.
BACKWARD = {"layer_norm": (7, 1, 1), "group_norm": (7, 0, 1), "rms_norm": (5, 3, 3), "batch_norm": (1, 1, 1)}

COSTS: dict[str, Cost] = {
    "layer_norm": Cost(5, 2, 1),
    "group_norm": Cost(5, 2, 1),
    "rms_norm": Cost(3, 2, 1),
    "batch_norm": Cost(2, 0, 0),
}


def norm(
    function: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    elements: Size,
    rows: Size,
    affine: int,
    added: int = 0,
    name: str | None = None,
    compute: str | None = None,
) -> Op:
    """Normalise ``elements`` in ``rows``; ``affine`` counts scale and shift, each adding 1 FLOP an element.

    ::

        layer_norm, group_norm   5·elements + 2·rows    mean: n − 1 adds, 1 divide; variance: n subtracts, n squares,
                                                        n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        rms_norm                 3·elements + 2·rows    n squares, n − 1 adds, 1 divide; + ε, 1/√; n multiplies
        batch_norm               2·elements             inference: statistics, scale and shift fold into one multiply
                                                        and one add

    A row is the n = elements/rows elements that are normalised together; ``added`` FLOPs more are done to each element.
    A batch norm that takes the statistics of the batch costs what a layer norm does.

    Sources: Ba et al., arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467; Ioffe and Szegedy, arXiv:1502.03167;
    Wu and He, arXiv:1803.08494.

    >>> norm("rmsnorm", [], [], elements=8, rows=1, affine=0)
    Traceback (most recent call last):
    roofline.errors.InputError: unknown norm 'rmsnorm'; did you mean 'rms_norm'?
    """
    check_one_of(f"unknown norm {function!r}", function, COSTS, "norms")
    cost = COSTS[function]
    stored = function == "batch_norm"
    flops = elements * (cost.element + added + (0 if stored else affine)) + cost.group * rows
    dims = {"rows": rows, "affine": affine, "statistics": int(not stored)}
    return vector(
        name or function, "norm", reads, writes, flops=flops, elements=elements, transcendentals=cost.roots * rows,
        one_each=elements, dims=dims, compute=compute, function=function,
    )  # fmt: skip


def norm_backward(
    function: str, name: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, elements: Size, of_input: bool,
    compute: str | None = None,
) -> Op:  # fmt: skip
    """The gradient of a norm (``of_input``), of its scale and of its shift, those of them that are written.

    ::

        layer_norm   7·elements    Σ g and Σ g·x of each row, a·g − b·x − c; 1 more for a scale and for a shift
        group_norm   7·elements    the same, also of a batch: scale and shift take the sums of each channel
        rms_norm     5·elements    Σ g·x of each row, a·g − b·x; 3 more for a scale, Σ g·a·x
        batch_norm   1·elements    stored statistics: a·g; 1 more for a scale and for a shift

    >>> g, scale = Tensor("g", (8, 64), "fp32"), Tensor("s", (64,), "fp32")
    >>> for made in ([g, scale], [scale]):
    ...     asked = {"elements": 512, "of_input": g in made}
    ...     print(norm_backward("layer_norm", "backward", [g], made, **asked).work.total("flops"))
    4096
    512
    """
    whole, beside, alone = BACKWARD[function]
    flops = (whole + beside * (len(writes) - 1) if of_input else alone * len(writes)) * elements
    return vector(name, "norm", reads, writes, flops=flops, elements=elements, one_each=elements, compute=compute)


@register("norm")
def rule(step: Step, context: Context) -> Op:
    """Price a norm over the labels in ``over``; a scale and a shift from outside are weights."""
    x, *affine = step.inputs
    groups, channels = context.groups(step), context.sizes[x.labels[-1]]
    said = f"{show_size(channels)} channels do not fall into {show_size(groups)} groups"
    require_multiple(channels, groups, said, rule="channels do not fall into groups")
    read = context.tensor(x)
    reads, out = (read, *(context.operand(shape) for shape in affine)), context.tensor(step.output)
    return norm(
        step.function, reads, [out], elements=read.elements, rows=context.rows(step) * groups, affine=len(affine),
        compute=context.arithmetic(step), name=step.text,
    )  # fmt: skip
