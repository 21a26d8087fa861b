"""Operations from shape facts, for every front end: what a primitive's rule calls once it knows which tensors move.

The families of :mod:`roofline.ops` start from a line of notation, whose layout is fixed. A traced program has layouts
of its own, so here the sizes are given as facts beside the tensors that are read and written:

>>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
>>> w = Tensor("w", (8192, 8192), "int8", "weight")
>>> matmul("linear", (x, w), (y,), m=64, n=8192, k=8192).work
Work(flops/matrix/bf16: 8589934592)
>>> elementwise("silu", (x,), (y,)).work
Work(flops/vector/bf16: 2097152)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.errors import DTypeError
from roofline.ops.contraction import real_flops
from roofline.ops.counting import written
from roofline.ops.elementwise import COMPLEX, PER_ELEMENT, PerElement
from roofline.ops.norm import COSTS as NORM_COSTS
from roofline.ops.reduction import PER_RESULT, TRANSCENDENTALS
from roofline.ops.softmax import PER_ELEMENT as SOFTMAX_PER_ELEMENT
from roofline.sizes import Size, ceil_div, exact_div, floor_div, is_one, is_zero, maximum, minimum, product
from roofline.work import Op, Tensor, Work

Tensors = Sequence[Tensor]

#: The kind of an operation without a rule: its tensors are known, its arithmetic is not.
UNKNOWN = "unknown"

#: Name (where it has one), size and stride of a group of devices that are numbered.
Group: TypeAlias = "tuple[str, int, int]"

#: What each device sends of ``nbytes`` over a ring: a part above, a part below.
RING: dict[str, Callable[[int], tuple[int, int]]] = {
    "AllReduce": lambda n: (2 * (n - 1), n),
    "AllGather": lambda n: (n - 1, n),
    "ReduceScatter": lambda n: (n - 1, n),
    "AllToAll": lambda n: (n - 1, n * n),
    "Permute": lambda n: (1, 1),
    "Broadcast": lambda n: (1, 1),
}

#: Said of a collective that is priced without a network.
RING_NOTE = (
    "collectives send what a ring sends, the least for each device, one way over one link; several links or a tree "
    "may be faster: a target with a shape, as in v5e:4x4, prices them on its network"
)


def arithmetic(tensors: Tensors) -> str:
    """Choose the arithmetic dtype of an operation: the widest float among its tensors, else the widest integer.

    >>> arithmetic([Tensor("i", (8,), "int64"), Tensor("x", (8,), "bf16")])
    'bf16'
    """
    formats = {tensor.dtype: dtypes.get(tensor.dtype) for tensor in tensors}
    floats = [name for name, found in formats.items() if found.family != "int"]
    try:
        return dtypes.arithmetic(floats or formats or ["fp32"])
    except DTypeError:
        return max((formats[name] for name in floats or formats), key=lambda found: found.bits).arithmetic


def matmul(
    name: str,
    reads: Tensors,
    writes: Tensors,
    *,
    m: Size,
    n: Size,
    k: Size,
    batch: Size = 1,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Contract the first two of ``reads``: 2·batch·m·n·k FLOPs; others (a bias) are read and added, 1 FLOP a result.

    Dot products (m = n = 1) run on the vector unit.
    """
    multiply, add = real_flops(reads[0].dtype, reads[1].dtype)
    dtype = compute or arithmetic(reads[:2])
    unit = "vector" if is_one(m) and is_one(n) else "matrix"
    work = Work.flops(unit, dtype, batch * m * n * k * (multiply + add))
    if len(reads) > 2:
        work += Work.flops("vector", arithmetic(writes), batch * m * n)
    dims = {"m": m, "n": n, "k": k, "batch": batch}
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, note=note)


def top_left_pairs(S: Size, T: Size) -> Size:
    """Pairs of a causal mask aligned at the top left: query i of S sees keys 0 … i of T, those behind T see all.

    >>> top_left_pairs(3, 3), top_left_pairs(1, 5), top_left_pairs(5, 2)
    (6, 1, 9)
    """
    m = minimum(S, T)
    return exact_div(m * (m + 1), 2) + (S - m) * T


def attention(
    name: str,
    reads: Tensors,
    writes: Tensors,
    *,
    batch: Size,
    heads: Size,
    kv_heads: Size,
    q_length: Size,
    kv_length: Size,
    head_size: Size,
    v_head_size: Size,
    pairs: Size,
    matmuls: Size = 2,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Attend; ``pairs`` are the (query, key) pairs that see each other, over all heads of the whole batch.

    ::

        matrix FLOPs = matmuls·pairs·(H + V)        forward: 2 matmuls (q·kᵀ and p·v), 2 FLOPs a product
        vector FLOPs = 5·pairs                      softmax, for every two matmuls

    A backward pass has 4 matmuls, or 5 where q·kᵀ is worked out again (FlashAttention, arXiv:2205.14135, section 3).
    """
    each = head_size + v_head_size
    dtype = compute or arithmetic(reads[:3])
    macs = exact_div(matmuls * pairs * each, 2)
    softmax = exact_div(matmuls * SOFTMAX_PER_ELEMENT * pairs, 2)
    dims = {
        "batch": batch,
        "q_length": q_length,
        "kv_length": kv_length,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_size": head_size,
        "v_head_size": v_head_size,
        "pairs": exact_div(pairs, batch * heads),
        "transcendentals": pairs,
    }
    options = {
        "macs": macs,
        "unmasked_macs": exact_div(matmuls * batch * heads * q_length * kv_length * each, 2),
    }
    work = Work.flops("matrix", dtype, 2 * macs) + Work.flops("vector", dtype, softmax)
    return Op(name, "attention", work, tuple(reads), tuple(writes), dims, note=note, options=options)


def convolution(
    name: str,
    reads: Tensors,
    writes: Tensors,
    *,
    batch: Size,
    positions: Size,
    out_per_group: Size,
    in_per_group: Size,
    kernel: Size,
    groups: Size = 1,
    valid_taps: Size | None = None,
    bias: Size = 0,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Convolve: every one of ``positions`` results sees ``kernel`` taps (for a transposed one: every input does).

    ::

        multiply-adds = batch·positions·groups·out_per_group·in_per_group·kernel
        valid         = batch·valid_taps·groups·out_per_group·in_per_group        taps that meet an element

    ``bias`` adds that many FLOPs on the vector unit.
    """
    channels = groups * out_per_group * in_per_group
    macs = batch * positions * kernel * channels
    dtype = compute or arithmetic(reads[:2])
    work = Work.flops("matrix", dtype, 2 * macs)
    if not is_zero(bias):
        work += Work.flops("vector", dtype, bias)
    dims = {"m": batch * positions, "n": out_per_group, "k": in_per_group * kernel, "batch": groups}
    options = {"macs": macs}
    if valid_taps is not None:
        options["valid_macs"] = batch * valid_taps * channels
    return Op(name, "convolution", work, tuple(reads), tuple(writes), dims, note=note, options=options)


def valid_taps(
    length: Size, results: Size, taps: int, *, stride: int = 1, low: int = 0, dilation: int = 1, base: int = 1
) -> Size:
    """Count the taps of ``results`` windows that meet one of ``length`` elements.

    Tap t of result o lies at o·stride − low + t·dilation; elements lie at 0, base, 2·base … (``base`` > 1: a
    transposed convolution seen as a plain one).

    >>> valid_taps(3, 3, 3, low=1), valid_taps(1, 524288, 524288, low=524287)
    (7, 524288)
    """
    end = (length - 1) * base
    total: Size = 0
    for t in range(taps):
        shift = t * dilation - low
        first = maximum(0, ceil_div(-shift, stride))
        last = minimum(results - 1, floor_div(end - shift, stride))
        if base == 1:
            total += maximum(0, last - first + 1)
        else:
            total += sum((o * stride + shift) % base == 0 for o in range(first, last + 1))
    return total


def adaptive_windows(length: Size, results: Size) -> Size:
    """Elements of ``results`` windows over ``length``, window i from ⌊i·length/results⌋ to ⌈(i + 1)·length/results⌉.

    Together length + results − gcd(length, results), since only edges at whole numbers do not overlap by one.

    >>> adaptive_windows(9, 2), adaptive_windows(8, 16), adaptive_windows(7, 1)
    (10, 16, 7)
    """
    if isinstance(length, int) and isinstance(results, int):
        return length + results - gcd(length, results)
    return length


def vector(
    name: str,
    kind: str,
    reads: Tensors,
    writes: Tensors,
    *,
    flops: Size,
    elements: Size | None = None,
    transcendentals: Size = 0,
    dims: Mapping[str, Size] | None = None,
    one_each: Size | None = None,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Anything on the vector unit: stated FLOPs over the tensors that move."""
    dtype = compute or arithmetic([*reads, *writes])
    work = Work() if is_zero(flops) else Work.flops("vector", dtype, flops)
    options: dict[str, Any] = {} if one_each is None else {"one_each": one_each}
    op = Op(name, kind, work, tuple(reads), tuple(writes), options=options, note=note)
    facts = {"elements": written(op) if elements is None else elements, "transcendentals": transcendentals}
    return Op(name, kind, work, op.reads, op.writes, {**facts, **(dims or {})}, note=note, options=options)


def elementwise(
    function: str,
    reads: Tensors,
    writes: Tensors,
    *,
    name: str | None = None,
    elements: Size | None = None,
    compute: str | None = None,
) -> Op:
    """Apply a function of :data:`~roofline.ops.elementwise.PER_ELEMENT`; one it does not list counts 1 an element.

    Complex numbers cost what :data:`~roofline.ops.elementwise.COMPLEX` says; one times a real number is two products.
    """
    cost = _complex(function, reads) or PER_ELEMENT.get(function)
    size = product(writes[0].dims) if elements is None and writes else elements or 0
    each = 1 if cost is None else cost.arithmetic + cost.transcendentals
    return vector(
        name or function,
        "elementwise",
        reads,
        writes,
        flops=each * size,
        elements=size,
        transcendentals=0 if cost is None else cost.transcendentals * size,
        one_each=size if each else 0,
        compute=compute,
    )


def _complex(function: str, reads: Tensors) -> PerElement | None:
    """The cost of a function where its operands are complex, None where they are not."""
    parts = {dtypes.get(tensor.dtype).family == "complex" for tensor in reads}
    if True not in parts:
        return None
    return PerElement(2) if function in ("multiply", "divide") and False in parts else COMPLEX.get(function)


def fourier(name: str, reads: Tensors, writes: Tensors, *, rows: Size, n: Size, levels: Size, real: bool) -> Op:
    """Transform ``rows`` of ``n`` complex points, of ``levels`` = log₂ n: 5·n·log₂ n FLOPs.

    Half of it where one side is ``real``. The count is the customary one of the radix-2 algorithm (Van Loan,
    Computational Frameworks for the FFT, 1992, section 1.4; as FFTW's benchmarks use it), for any n.
    """
    flops = rows * 5 * n * levels if not is_one(n) else 0
    flops = exact_div(flops, 2) if real else flops
    amount = int(flops) if isinstance(flops, float) and flops.is_integer() else flops
    return vector(name, "fft", reads, writes, flops=amount, elements=rows * n, dims={"n": n})


def reduction(
    function: str, reads: Tensors, writes: Tensors, *, elements: Size, results: Size, name: str | None = None
) -> Op:
    """Reduce ``elements`` to ``results``; what :data:`~roofline.ops.reduction.PER_RESULT` does not list is as a sum.

    A complex sum is two real ones.
    """
    n = exact_div(elements, results)
    special = TRANSCENDENTALS.get(function)
    parts = 2 if _complex("add", reads) else 1
    return vector(
        name or function,
        "reduction",
        reads,
        writes,
        flops=parts * results * PER_RESULT.get(function, PER_RESULT["sum"])(n),
        elements=elements,
        transcendentals=0 if special is None else results * special(n),
        dims={"results": results},
        one_each=elements - results,
    )


def norm(
    function: str, name: str, reads: Tensors, writes: Tensors, *, size: Size, rows: Size, affine: int, added: int = 0
) -> Op:
    """Normalise ``size`` elements in ``rows`` by a function of :data:`~roofline.ops.norm.COSTS`.

    ``affine`` counts scale and shift, 1 FLOP an element each, which stored statistics join; ``added`` is what else is
    done to each element.

    >>> x = Tensor("x", (32, 4096), "bf16")
    >>> norm("layer_norm", "norm", (x,), (x,), size=32 * 4096, rows=32, affine=2).work.total("flops")
    917568
    """
    cost = NORM_COSTS[function]
    stored = function == "batch_norm"
    flops = size * (cost.element + added + (0 if stored else affine)) + cost.group * rows
    dims = {"rows": rows, "affine": affine, "statistics": int(not stored)}
    roots = cost.roots * rows
    return vector(
        name, "norm", reads, writes, flops=flops, elements=size, transcendentals=roots, one_each=size, dims=dims
    )


def move(name: str, reads: Tensors, writes: Tensors, *, kind: str = "copy", note: str = "") -> Op:
    """Move bytes and compute nothing: a copy, a concatenation, a gather, a fill."""
    op = Op(name, kind, Work(), tuple(reads), tuple(writes), note=note)
    return Op(name, kind, Work(), op.reads, op.writes, {"elements": written(op)}, note=note)


def ring(does: str, nbytes: Size, devices: int) -> Size:
    """Bytes that each of ``devices`` sends over its one link."""
    if devices <= 1:
        return 0
    above, below = RING[does](devices)
    return exact_div(nbytes * above, below)


def collective(
    name: str,
    reads: Tensors,
    writes: Tensors,
    *,
    does: str,
    nbytes: Size,
    devices: int,
    groups: Sequence[Group] = (),
) -> Op:
    """A collective over ``devices``, in which each sends over one link what a ring of them sends.

    ``does`` and ``nbytes`` are the kind and the bytes of :func:`roofline.ops.collective.cost`; ``groups`` say which
    devices take part, where that is known (:mod:`roofline.programs.network`).
    """
    sent = ring(does, nbytes, devices)
    if is_zero(sent):
        return Op(name, "collective", Work(), tuple(reads), tuple(writes), {"devices": devices})
    dims = {"devices": devices, "bytes": nbytes}
    options = {"collective": does, "groups": tuple(groups)}
    return Op(
        name, "collective", Work.wire("link", sent), tuple(reads), tuple(writes), dims, note=RING_NOTE, options=options
    )


def unknown(name: str, reads: Tensors, writes: Tensors, reason: str = "no rule") -> Op:
    """An operation without a rule: its tensors are known, its arithmetic is not; it is listed as a gap."""
    return Op(name, UNKNOWN, Work(), tuple(reads), tuple(writes), note=reason)
