"""Tiles: what a contraction loads when it is computed tile by tile, and what padding to a matrix unit's tile adds.

>>> from roofline.ops.contraction import matmul
>>> op = matmul(4096, 4096, 4096)
>>> tiled_traffic(op, 512, 512, 512)
570425344
>>> tile_bytes(op, 512, 512, 512)
1572864
>>> layer = matmul(64, n=300, k=100)
>>> padded(layer, (128, 128)).work.total("flops") == 2 * 64 * 128 * 384
True
"""

from __future__ import annotations

from dataclasses import replace

from roofline import dtypes
from roofline.errors import InputError
from roofline.ops.contraction import real_flops
from roofline.ops.rules import show
from roofline.sizes import Size, ceil_div, check, minimum, round_up
from roofline.work import Op, Tensor, Work

_PADDED_KINDS = ("contraction", "convolution")


def tiled_traffic(op: Op, bm: int, bn: int, bk: int) -> Size:
    """Bytes a tiled contraction moves: every tile of the result loads the rows and columns it needs again.

    ::

        bytes = left·⌈n/bn⌉ + right·⌈m/bm⌉ + out              bytes of each tensor, batch included

    The sum over k stays on chip, so ``bk`` does not matter here; :func:`tile_bytes` says what must fit.
    With bf16 and without the result the intensity is bm·bn/(bm + bn).
    Source: "How To Scale Your Model", chapter 1, the note on tiles.
    """
    for name, size in (("bm", bm), ("bn", bn), ("bk", bk)):
        check(name, size)
    left, right, out = _matrices(op)
    again_left, again_right = ceil_div(op.dims["n"], bn), ceil_div(op.dims["m"], bm)
    return left.traffic_bytes * again_left + right.traffic_bytes * again_right + out.traffic_bytes


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


def padded(op: Op, tile: tuple[int, int]) -> Op:
    """Count the FLOPs of an operation whose right-hand matrix [k, n] is padded to whole tiles of the matrix unit.

    ::

        FLOPs = 2·batch·m·⌈k/rows⌉·rows·⌈n/columns⌉·columns          tile = (rows, columns)

    Rows m stream through the unit and are not padded. A convolution is padded as the matrix product it is computed
    as. Work on the vector unit stays, and so does attention, which the note says. Bytes do not change.
    Source: "How To Scale Your Model", chapter 2: "matrices are padded to the MXU's size", 128×128, 256×256 on v6e.

    >>> from roofline.ops.contraction import matmul
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
    flops = sum(real_flops(*(tensor.dtype for tensor in op.reads[:2]))) * batch * m * deep * wide
    work = Work({key: flops if key == matrix[0] else amount for key, amount in op.work.items()})
    said = f"[k, n] = [{show(k)}, {show(n)}] padded to [{show(deep)}, {show(wide)}] for the matrix unit"
    return replace(op, work=work, note=_note(op, said))


def _note(op: Op, said: str) -> str:
    return f"{op.note}; {said}" if op.note else said


def _matrices(op: Op) -> tuple[Tensor, Tensor, Tensor]:
    if op.kind != "contraction":
        raise InputError(f"tiles are for contractions, not {op.kind}", hint="as in bf16[B, D] * bf16[D, F]")
    left, right = op.reads
    return left, right, op.writes[0]
