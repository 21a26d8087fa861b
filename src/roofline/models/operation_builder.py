"""OperationBuilder: builds the operations of one pass through a group of equal layers.

A block calls its methods. Each prices one operation with the cost functions of :mod:`roofline.ops`, names it by its
place in the model, and gives its tensors identities, so that byte policies can tell intermediates apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from roofline import dtypes
from roofline.errors import InputError
from roofline.models.step import ForwardPass
from roofline.models.weights import Storage, Weight, join_path
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import elementwise
from roofline.ops.reduction import norm
from roofline.sizes import Size, exact_div
from roofline.work import Op, Tensor, Work

#: Kinds of operations that depend on how tokens are divided into sequences.
BY_SEQUENCE = ("attention", "convolution", "recurrence")

#: Functions whose gradient needs nothing of the forward pass.
LINEAR = ("add", "rope")

#: Storage of a weight, by the module path of its block and the weight.
StorageOf = Callable[[str, Weight], Storage]


class OperationBuilder:
    """Collects operations in the order they run.

    ``step`` is the step that is built, ``stream`` the residual stream, ``ops`` the operations so far, ``weights`` the
    weights of the current block by name. ``kept`` holds tensors that a layer leaves for later layers, by name; all
    groups of layers of one pass share it.
    """

    def __init__(
        self, step: ForwardPass, storage_of: StorageOf, where: str, repeat: int, stream: Tensor,
        kept: dict[str, list[Tensor]] | None = None,
    ) -> None:  # fmt: skip
        self.step = step
        self.ops: list[Op] = []
        self.stream = stream
        self.kept = {} if kept is None else kept
        self.weights: dict[str, Weight] = {}
        self._storage_of, self._where, self._repeat, self._block = storage_of, where, repeat, ""

    def enter(self, block: str, weights: Iterable[Weight] = ()) -> None:
        """Name the block that the next operations belong to, and its weights."""
        self._block = block
        self.weights = {weight.name: weight for weight in weights}

    def add(self, op: Op, part: str) -> None:
        """Append an operation as a part of the current block: named, placed in the model, repeated for its layers."""
        where, by_sequence = self.path(part), op.by_sequence or op.kind in BY_SEQUENCE
        name = part or self._block
        made = replace(op, name=name, where=where, repeat=self._repeat, group=self._where, by_sequence=by_sequence)
        self.ops.append(made)

    def path(self, *parts: str) -> str:
        """The module path of a part of the current block."""
        return join_path(self._where, self._block, *parts)

    def output(self, part: str, *dims: Size, dtype: str = "", role: str = "activation") -> Tensor:
        """A new tensor that the current block writes."""
        return Tensor(f"{self.path(part)}.out", dims, dtype or self.step.activations, role)

    def from_earlier(self, name: str) -> list[Tensor]:
        """Tensors that an earlier layer kept under ``name``; an error in a later pipeline stage, which has none."""
        if name not in self.kept:
            raise InputError(
                f"a stage of the pipeline needs {name} from an earlier one: that is not modelled",
                hint="pipeline 1; --tensor splits layers",
            )
        return self.kept[name]

    def read_weight(self, weight: Weight, touched: Size | None = None) -> tuple[tuple[Tensor, ...], str]:
        """A weight and its scales as tensors to read, and the arithmetic the checkpoint was made for.

        ``touched`` is how many of its leading entries (experts) are read on average; None: all of them.
        """
        path = join_path(self._block, weight.name)
        storage = self._storage_of(path, weight)
        ident = join_path(self._where, path)
        read = None if touched is None else touched * (weight.elements // weight.shape[0])
        average = touched is not None
        tensors = [Tensor(ident, weight.shape, storage.dtype, "weight", touched=read, average=average)]
        for name, dtype, count in storage.beside(weight.shape):
            some = None if touched is None else exact_div(touched * count, weight.shape[0])
            tensors.append(Tensor(f"{ident}.{name}", (count,), dtype, "weight", touched=some, average=average))
        return tuple(tensors), storage.compute

    def read_weights(self, *names: str, touched: Size | None = None) -> list[Tensor]:
        """Some weights of the current block and their scales as tensors to read; those it has not are left out."""
        held = (self.weights[name] for name in names if name in self.weights)
        return [tensor for weight in held for tensor in self.read_weight(weight, touched)[0]]

    def linear(self, weight: str | Weight, x: Tensor, rows: Size, *, copies: int = 1, compute: str = "") -> Tensor:
        """Multiply ``rows`` rows of ``x`` by a weight (out, in), and add its bias, where the block has one.

        ``compute`` replaces the weight's own arithmetic. ``copies`` splits the matrix into that many diagonal blocks,
        each of which multiplies a part of ``x``.
        """
        weight = self.weights[weight] if isinstance(weight, str) else weight
        (matrix, *beside), own = self.read_weight(weight)
        n, k = weight.shape[-2:]
        out = self.output(weight.name, rows, n)
        arithmetic = compute or own or dtypes.arithmetic([x.dtype, matrix.dtype])
        sizes = {"m": rows, "n": n // copies, "k": k, "batch": copies}
        op = contraction("", (x, matrix), (out,), **sizes, unit="matrix", compute=arithmetic)
        op = replace(op, reads=(x, matrix, *beside))
        if bias := self.read_weights(join_path(weight.name, "bias")):
            op = replace(
                op, reads=(*op.reads, *bias), work=op.work + Work.flops("vector", _vector_arithmetic(x.dtype), rows * n)
            )
        self.add(op, weight.name)
        return out

    def elementwise(self, function: str, inputs: Sequence[Tensor], part: str, like: Tensor | None = None) -> Tensor:
        """Apply a function element by element; the result has the shape of ``like``, or of the first input."""
        out = self.output(part, *(like or inputs[0]).dims)
        op = elementwise(function, inputs, (out,), compute=_vector_arithmetic(inputs[0].dtype))
        self.add(replace(op, role="linear") if function in LINEAR else op, part)
        return out

    def norm(
        self, function: str, x: Tensor, scale: str | Weight, rows: Size, width: int, part: str | None = None,
        touched: Size | None = None,
    ) -> Tensor:  # fmt: skip
        """Normalise rows of ``width``; multiply by the weight ``scale`` and add its bias, where the block has them.

        ``touched`` is how many entries of these are read, where there may be no rows; None: all of them.
        """
        if isinstance(scale, str):
            affine = self.read_weights(scale, join_path(scale, "bias"), touched=touched)
        else:
            affine, scale = list(self.read_weight(scale)[0]), scale.name
        part = scale if part is None else part
        seen = Tensor(x.ident, (rows, width), x.dtype, x.role)
        out = self.output(part, rows, width)
        facts = {"elements": rows * width, "rows": rows, "affine": len(affine)}
        self.add(norm(function, (seen, *affine), (out,), **facts, compute=_vector_arithmetic(x.dtype)), part)
        return out

    def vector(
        self, kind: str, reads: Sequence[Tensor], out: Tensor, part: str, flops: Size, elements: Size, compute: str = ""
    ) -> Tensor:
        """Arithmetic of the vector unit that has no price of its own in ``ops``: ``flops`` over ``elements``."""
        work = Work.flops("vector", compute or self.arithmetic, flops)
        self.add(Op("", kind, work, tuple(reads), (out,), {"elements": elements}), part)
        return out

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the vector unit on activations, at least fp16 or bf16."""
        return _vector_arithmetic(self.step.activations)

    def mark_by_sequence(self) -> None:
        """Say of the last operation that it depends on how tokens are divided into sequences."""
        self.ops[-1] = replace(self.ops[-1], by_sequence=True)

    def write_to_cache(self, tensor: Tensor, dtype: str = "") -> Tensor:
        """Make a tensor part of the cache: the operation that wrote it last writes the format of keys and values.

        ``dtype`` is another format that it is kept in.
        """
        cached = replace(tensor, role="kv", dtype=dtype or self.step.kv)
        for index in range(len(self.ops) - 1, -1, -1):
            op = self.ops[index]
            if any(written.ident == tensor.ident for written in op.writes):
                writes = tuple(
                    replace(w, role="kv", dtype=cached.dtype) if w.ident == tensor.ident else w for w in op.writes
                )
                self.ops[index] = replace(op, writes=writes)
                break
        return cached


def _vector_arithmetic(dtype: str) -> str:
    """Arithmetic of vector operations on tensors of a format: at least fp16 or bf16."""
    format_ = dtypes.get(dtype)
    return "bf16" if format_.bits < 16 else format_.arithmetic
