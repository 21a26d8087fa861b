"""Contractions: matrix products, batched products, dot products; their tiles.

>>> op = matmul(m=64, n=8192, k=8192, b="int8")
>>> op.work
Work(flops/matrix/bf16: 8589934592)
>>> [t.traffic_bytes for t in (*op.reads, *op.writes)]
[1048576, 67108864, 1048576]
>>> matmul(m=64, n=8192, k=8192, exact=True).work.total("flops") == 64 * 8192 * (2 * 8192 - 1)
True
>>> x, y = Tensor("x", (1024,), "bf16"), Tensor("y", (), "bf16")
>>> contraction("dot", (x, x), (y,), m=1, n=1, k=1024, exact=True).work
Work(flops/vector/bf16: 2047)
>>> from roofline.sizes import symbol
>>> matmul(symbol("B"), symbol("F"), symbol("D")).work.total("flops")
2*B*D*F

Computed tile by tile a contraction loads operands again; padding to the tile of a matrix unit adds FLOPs:

>>> square = matmul(4096, 4096, 4096)
>>> tiled_traffic(square, 512, 512, 512), tile_bytes(square, 512, 512, 512)
(570425344, 1572864)
>>> padded(matmul(64, n=300, k=100), (128, 128)).work.total("flops") == 2 * 64 * 128 * 384
True
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.notation.structure import Step
from roofline.ops.basic import arithmetic
from roofline.ops.rules import Context, register, show_size
from roofline.signatures import takes
from roofline.sizes import Size, ceil_div, check, exact_div, is_one, is_symbol, maximum, minimum, product, round_up
from roofline.work import Op, Tensor, Work


def contraction(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    m: Size,
    n: Size,
    k: Size,
    batch: Size = 1,
    unit: str | None = None,
    compute: str | None = None,
    exact: bool = False,
    note: str = "",
) -> Op:
    """Contract the first two of ``reads``, [batch, m, k] and [batch, k, n], into [batch, m, n].

    ::

        FLOPs = 2·batch·m·n·k             a multiply and an add for every product
              = batch·m·n·(2k − 1)        exact: k products need k − 1 adds, none needs none
        bytes = each operand read once, the result written once

    ``m``, ``n``, ``k`` and ``batch`` are products of sizes, whatever the order of the tensors' dimensions. Further
    ``reads`` (a bias) are added, 1 FLOP a result. A complex product is 6 real FLOPs and a complex add 2 (2 and 2 where
    one operand is real). Dot products (m = n = 1) run on the vector unit, as they leave a matrix unit nothing to reuse.

    Source: "How To Scale Your Model", chapter 1; Golub and Van Loan, Matrix Computations, section 1.1.

    >>> x, y = Tensor("x", (64, 8192), "bf16"), Tensor("y", (64, 8192), "bf16")
    >>> w = Tensor("w", (8192, 8192), "int8", "weight")
    >>> contraction("linear", (x, w), (y,), m=64, n=8192, k=8192).work
    Work(flops/matrix/bf16: 8589934592)
    """
    multiply, add = real_flops(reads[0].dtype, reads[1].dtype)
    each = (multiply + add) * k
    fewer = add if is_symbol(k) else minimum(add, each)  # none of no products
    flops = product((m, n, each - fewer if exact else each, batch))
    unit = unit or ("vector" if is_one(m) and is_one(n) else "matrix")
    work = Work.flops(unit, compute or arithmetic(reads[:2]), flops)
    if len(reads) > 2:
        work += Work.flops("vector", arithmetic(writes), product((m, n, batch)))
    dims = {"m": m, "n": n, "k": k, "batch": batch}
    return Op(name, "contraction", work, tuple(reads), tuple(writes), dims, note=note)


def product_sizes(a: Sequence[Size], b: Sequence[Size], results: Size) -> dict[str, Size]:
    """m, n, k and batch of two shapes multiplied as numpy.matmul does, from the elements of the result.

    >>> product_sizes((2, 3, 64, 128), (128, 256), 2 * 3 * 64 * 256), product_sizes((8,), (5, 8, 4), 5 * 4)
    ({'m': 384, 'n': 256, 'k': 128, 'batch': 1}, {'m': 1, 'n': 4, 'k': 8, 'batch': 5})
    """
    n = b[-1] if len(b) > 1 else 1
    m = product(a[:-1]) if len(b) <= 2 else a[-2] if len(a) > 1 else 1
    return {"m": m, "n": n, "k": a[-1], "batch": 1 if len(b) <= 2 else exact_div(results, maximum(1, m * n))}


def matmul(
    m: Size,
    n: Size,
    k: Size,
    batch: Size = 1,
    *,
    a: str = "bf16",
    b: str = "bf16",
    out: str | None = None,
    compute: str | None = None,
    exact: bool = False,
    name: str = "matmul",
) -> Op:
    """Multiply activations [batch, m, k] in dtype ``a`` by weights [batch, k, n] in dtype ``b``.

    The result is in the wider operand's format unless ``out`` names another. See :func:`contraction`.

    >>> matmul(8, 16, 32, batch=2).dims
    {'m': 8, 'n': 16, 'k': 32, 'batch': 2}
    """
    reads = Tensor("a", (batch, m, k), a), Tensor("b", (batch, k, n), b, "weight")
    writes = (Tensor("out", (batch, m, n), out or dtypes.storage([a, b])),)
    sizes = {"m": m, "n": n, "k": k, "batch": batch}
    return contraction(name, reads, writes, **sizes, unit="matrix", compute=compute, exact=exact)


@register("contraction")
def rule(step: Step, context: Context) -> Op:
    """Price a contraction: labels kept from the left are m, from the right n, contracted ones k."""
    left, right = step.inputs
    kept = [set(shape.labels) - {*step.contracted, *step.batch} for shape in step.inputs]
    is_dot = not any(kept)
    is_weight = not is_dot and not step.batch and left.ident != right.ident
    return contraction(
        step.text or "matmul",
        (context.tensor(left), context.operand(right) if is_weight else context.tensor(right)),
        (context.tensor(step.output),),
        m=context.size(label for label in left.labels if label in kept[0]),
        n=context.size(label for label in right.labels if label in kept[1]),
        k=context.size(step.contracted),
        batch=context.size(step.batch),
        compute=context.arithmetic(step),
        exact=context.exact,
        unit="vector" if is_dot else "matrix",
    )


def real_flops(a: str, b: str) -> tuple[int, int]:
    """Real FLOPs of one product of two formats and of one add of such products.

    >>> real_flops("bf16", "int8"), real_flops("complex64", "complex64")
    ((1, 1), (6, 2))
    """
    how_many = [dtypes.get(name).family for name in (a, b)].count("complex")
    return ((1, 1), (2, 2), (6, 2))[how_many]


_PADDED_KINDS = ("contraction", "convolution")


@takes()
def tiled_traffic(op: Op, bm: int, bn: int, bk: int) -> Size:
    """Bytes a tiled contraction moves: every tile of the result loads the rows and columns it needs again.

    ::

        bytes = left·⌈n/bn⌉ + right·⌈m/bm⌉ + out              bytes of each tensor, batch included
        right = max(matrices, ⌈m/bm⌉) of one matrix           where the rows are those of several, as of experts

    Where rows are dealt to several matrices, each matrix has a tile of its own at least, and the rows fill ⌈m/bm⌉
    tiles at least; left then has a row for each product. Several layers of experts in one operation, as many as
    ``options["layers"]``, are right operands all. What else it reads, a bias or the scales of quantised
    weights, is read once.
    The sum over k stays on chip, so ``bk`` does not matter here; :func:`tile_bytes` says what must fit.
    With bf16 and without the result the intensity is bm·bn/(bm + bn).
    Source: "How To Scale Your Model", chapter 1, the note on tiles.
    """
    for name, size in (("bm", bm), ("bn", bn), ("bk", bk)):
        check(name, size)
    amounts = [amount for _, amount in tiled_tensors(op, bm, bn)]
    return sum(amounts[1:], amounts[0])


def tiled_tensors(op: Op, bm: int, bn: int) -> list[tuple[Tensor, Size]]:
    """Each tensor of a tiled contraction with the bytes that are moved of it."""
    left, _, out = _matrices(op)
    m, n, k, batch = (op.dims[name] for name in ("m", "n", "k", "batch"))
    layers = op.options.get("layers", 1)
    rights, others = op.reads[1 : 1 + layers], op.reads[1 + layers :]

    def loaded(tensor: Tensor, own: Size, again: Size) -> tuple[Tensor, Size]:
        if "groups" not in op.dims:
            return tensor, tensor.traffic_bytes * again
        return tensor, replace(tensor, touched=maximum(tensor.traffic_elements, own * again)).traffic_bytes

    each = [product((n, k, batch)) if layers == 1 else exact_div(t.elements, op.dims["groups"]) for t in rights]
    both = [loaded(left, product((m, k, batch)), ceil_div(n, bn))]
    both += [loaded(right, own, ceil_div(m, bm)) for right, own in zip(rights, each, strict=True)]
    return [*both, *((tensor, tensor.traffic_bytes) for tensor in (*others, out))]


@takes()
def tile_bytes(op: Op, bm: int, bn: int, bk: int) -> Size:
    """Bytes one tile keeps on chip: bm·bk of the left operand, bk·bn of the right, bm·bn of the result.

    A tile larger than the matrix is cut to it. Double buffering and wider accumulators are not included.
    """
    left, right, out = _matrices(op)
    m = minimum(check("bm", bm), op.dims["m"])
    n = minimum(check("bn", bn), op.dims["n"])
    k = minimum(check("bk", bk), op.dims["k"])
    parts = ((left, m * k), (right, k * n), (out, m * n))
    amounts = [dtypes.get(tensor.dtype).nbytes(elements) for tensor, elements in parts]
    return amounts[0] + amounts[1] + amounts[2]


@takes()
def padded(op: Op, tile: tuple[int, int]) -> Op:
    """Count the FLOPs of an operation whose right-hand matrix [k, n] is padded to whole tiles of the matrix unit.

    ::

        FLOPs = 2·batch·m·⌈k/rows⌉·rows·⌈n/columns⌉·columns          tile = (rows, columns)

    Rows m stream through the unit and are not padded. Exact sums have an add less for each result. A convolution is
    padded as the matrix product it is computed as. Work on the vector unit stays, and so does attention, which the note
    says. Bytes do not change.
    Source: "How To Scale Your Model", chapter 2: "matrices are padded to the MXU's size", 128×128, 256×256 on v6e.

    >>> padded(matmul(64, n=300, k=100, exact=True), (256, 256)).work.total("flops") == 64 * 512 * (2 * 256 - 1)
    True
    >>> padded(matmul(64, n=300, k=100), (256, 256)).note
    '[k, n] = [100, 300] padded to [256, 512] for the matrix unit'
    """
    rows, columns = check("tile rows", tile[0]), check("tile columns", tile[1])
    matrix = [key for key in op.work if key.quantity == "flops" and key.place == "matrix"]
    if not matrix:
        return op
    if op.kind not in _PADDED_KINDS:
        return replace(op, note=_note(op, f"{op.name} is not padded to the matrix unit's tile"))
    m, n, k, batch = (op.dims[name] for name in ("m", "n", "k", "batch"))
    wide, deep = round_up(n, columns), round_up(k, rows)
    each = sum(real_flops(*(tensor.dtype for tensor in op.reads[:2]))) * batch * m
    made = n if is_symbol(n) else maximum(1, n)
    left_out = exact_div(each * k * n - op.work[matrix[0]], made)  # of a column: adds, positions of a padding
    flops = (each * deep - left_out) * wide
    work = Work({key: flops if key == matrix[0] else amount for key, amount in op.work.items()})
    plain, full = (f"[{show_size(a)}, {show_size(b)}]" for a, b in ((k, n), (deep, wide)))
    return replace(op, work=work, note=_note(op, f"[k, n] = {plain} padded to {full} for the matrix unit"))


def _note(op: Op, said: str) -> str:
    return f"{op.note}; {said}" if op.note else said


def _matrices(op: Op) -> tuple[Tensor, Tensor, Tensor]:
    if op.kind != "contraction":
        raise InputError(f"tiles are for contractions, not {op.kind}", hint="as in bf16[B, D] * bf16[D, F]")
    left, right, *_ = op.reads
    return left, right, op.writes[0]
