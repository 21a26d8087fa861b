"""Trace: collects the operations of one pass through a group of equal layers.

Blocks call its methods, which price one operation each by the cost functions of :mod:`roofline.ops`, name it by its
place in the model and give its tensors identities, so that byte policies can tell what is an intermediate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from roofline import dtypes
from roofline.models.description import Weight
from roofline.models.step import Step, divided
from roofline.models.storage import Storage
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import elementwise
from roofline.ops.norm import norm
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work

#: Storage of a weight: the block's module path and the weight → its format.
StorageOf = Callable[[str, Weight], Storage]


class Trace:
    """Operations in the order they run. ``stream`` is the residual stream a layer's branches start from.

    ``handed`` is what layers leave for later ones, by name.
    """

    def __init__(
        self, step: Step, storage_of: StorageOf, where: str, repeat: int, stream: Tensor,
        handed: dict[str, list[Tensor]] | None = None,
    ) -> None:  # fmt: skip
        self.step = step
        self.handed = {} if handed is None else handed
        self.ops: list[Op] = []
        self.stream = stream
        self._storage_of, self._where, self._repeat, self._block = storage_of, where, repeat, ""

    def enter(self, block: str) -> None:
        """Say which block the next operations belong to."""
        self._block = block

    def add(self, op: Op, part: str) -> None:
        """Take in an operation as a part of the current block: named for it, placed in the model, repeated by layer."""
        self.ops.append(replace(op, name=part or self._block, where=self.place(part), repeat=self._repeat))

    def place(self, *parts: str) -> str:
        """The name of a part of the current block."""
        return ".".join(filter(None, (self._where, self._block, *parts)))

    def made(self, part: str, *dims: Size, dtype: str = "", role: str = "activation") -> Tensor:
        """A tensor that the current block makes."""
        return Tensor(f"{self.place(part)}.out", dims, dtype or self.step.activations, role)

    def stored(
        self, weight: Weight, touched: Size | None = None, block: str | None = None
    ) -> tuple[tuple[Tensor, ...], str]:
        """A weight as tensors to read (with the scales beside it), and the arithmetic it was made for.

        ``touched`` is how many of its leading entries (experts) are read, where that is not all of them.
        """
        path = ".".join(filter(None, (self._block if block is None else block, weight.name)))
        storage = self._storage_of(path, weight)
        ident = ".".join(filter(None, (self._where, path)))
        read = None if touched is None else touched * (weight.elements // weight.shape[0])
        tensors = [Tensor(ident, weight.shape, storage.dtype, "weight", touched=read)]
        for name, dtype, count in storage.beside(weight.shape):
            some = None if touched is None else divided(touched * count, weight.shape[0])
            tensors.append(Tensor(f"{ident}.{name}", (count,), dtype, "weight", touched=some))
        return tuple(tensors), storage.compute

    def linear(
        self,
        weight: Weight,
        x: Tensor,
        rows: Size,
        *,
        bias: Weight | None = None,
        role: str = "activation",
        dtype: str = "",
        copies: int = 1,
        compute: str = "",
    ) -> Tensor:
        """Multiply ``rows`` rows of ``x`` by a weight (out, in), and add the bias.

        ``compute`` is the arithmetic where the weight's own is not meant. ``copies`` splits the matrix into that many
        diagonal blocks, each of which sees a part of ``x``.
        """
        (matrix, *beside), own = self.stored(weight)
        n, k = weight.shape[-2:]
        out = self.made(weight.name, rows, n, dtype=dtype, role=role)
        arithmetic = compute or own or dtypes.arithmetic([x.dtype, matrix.dtype])
        op = contraction(x, matrix, out, m=rows, n=n // copies, k=k, batch=copies, compute=arithmetic)
        op = replace(op, reads=(x, matrix, *beside))
        if bias is not None:
            added, _ = self.stored(bias)
            op = replace(op, reads=(*op.reads, *added), work=op.work + Work.flops("vector", self._vector(x), rows * n))
        self.add(op, weight.name)
        return out

    def elementwise(
        self,
        function: str,
        inputs: Sequence[Tensor],
        part: str,
        like: Tensor | None = None,
        role: str = "activation",
        dtype: str = "",
    ) -> Tensor:
        """Apply a function element by element; the result is shaped as ``like``, or as the first input."""
        dims = (like or inputs[0]).dims
        out = self.made(part, *dims, dtype=dtype, role=role)
        self.add(elementwise(function, list(inputs), out, compute=self._vector(inputs[0])), part)
        return out

    def norm(self, function: str, x: Tensor, scales: Sequence[Weight], part: str, rows: Size, width: int) -> Tensor:
        """Normalise rows of ``width``; ``scales`` are the scale and the shift, where there are any."""
        affine = [self.stored(weight)[0][0] for weight in scales]
        seen = Tensor(x.ident, (rows, width), x.dtype, x.role)
        out = self.made(part, rows, width)
        op = norm(function, seen, *affine, out=out, compute=self._vector(x))
        self.add(op, part)
        return out

    def keep(self, tensor: Tensor) -> Tensor:
        """Make a tensor part of the cache: whoever wrote it last writes it in the format of keys and values."""
        kept = replace(tensor, role="kv", dtype=self.step.kv)
        for index in range(len(self.ops) - 1, -1, -1):
            op = self.ops[index]
            if any(written.ident == tensor.ident for written in op.writes):
                writes = tuple(
                    replace(w, role="kv", dtype=self.step.kv) if w.ident == tensor.ident else w for w in op.writes
                )
                self.ops[index] = replace(op, writes=writes)
                break
        return kept

    def _vector(self, x: Tensor) -> str:
        """Arithmetic of vector operations on ``x``: that of the activations, at least fp16 or bf16."""
        format_ = dtypes.get(x.dtype)
        return "bf16" if format_.bits < 16 else format_.arithmetic
