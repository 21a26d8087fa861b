"""ForwardPass, what one forward pass is run on and how it is counted, and OperationBuilder, which builds the operations
of one pass through a group of equal layers. Sizes may be numbers, arrays or symbols.

A block calls its methods. Each prices one operation with the cost functions of :mod:`roofline.ops`, names it by its
place in the model, and gives its tensors identities, so that byte policies can tell intermediates apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from roofline import dtypes
from roofline.errors import DTypeError, InputError
from roofline.frozen import dataclass, replace
from roofline.models.weights import ServedAdapters, Storage, Weight, join_path
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import elementwise
from roofline.ops.recurrent import causal_convolution
from roofline.ops.reduction import norm
from roofline.signatures import spelled
from roofline.sizes import Size, ceil_div, exact_div, is_one, is_zero, minimum, product
from roofline.work import Op, Tensor, Work

#: Options of a prefill that a decode step does not take.
PREFILL_ONLY = ("past", "logits", "images", "image_size")

#: More tokens than any sequence has.
_BEYOND = 10**12


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPass:
    """``batch`` sequences, each with ``new`` tokens after ``past`` ones that are in the cache already.

    ``activations`` and ``kv`` are formats; ``full`` counts every pair of query and key, masked or not, as most
    counters do; ``absorbed`` runs latent attention on the latents rather than on keys and values made from them;
    ``unfused`` writes attention's scores to memory; ``wanted`` is the number of output rows of one sequence, None one
    for each new token. ``skew`` is the share of the routed tokens that each expert gets, where they differ.

    Over several chips ``batch`` is what one copy of the model has; ``group`` that of all copies that share experts.
    ``context`` chips share each sequence: all run its new tokens, or where ``ring`` each a part of them. ``decoding``
    tells a step of few new tokens from a prompt's. ``asked_kv`` and ``asked_compute`` are formats that the caller
    chose: they replace those of an indexer's keys and scores. ``rank`` is that of an adapter (LoRA) beside each matrix
    of a layer; 0: there is none. ``adapters`` is how many different ones the sequences of this chip use, of those that
    are ``served``; None: they are trained.
    """

    batch: Size
    new: Size
    past: Size = 0
    wanted: Size | None = 1
    activations: str = "bf16"
    kv: str = "bf16"
    full: bool = False
    absorbed: bool = False
    unfused: bool = False
    skew: tuple[float, ...] | None = None
    group: Size | None = None
    context: int = 1
    ring: bool = False
    decoding: bool = False
    asked_kv: str = ""
    asked_compute: str = ""
    rank: int = 0
    adapters: Size = 1
    served: ServedAdapters | None = None

    @property
    def attended(self) -> Size:
        """Sequences whose keys and values one chip holds and attends to: a part of each counts as that."""
        return exact_div(self.batch, self.context)

    @property
    def own(self) -> Size:
        """Sequences whose new tokens one chip runs, parts of sequences added up."""
        return self.attended if self.ring else self.batch

    @property
    def tokens(self) -> Size:
        """Tokens that pass through the layers of one chip."""
        return self.own * self.new

    def attention_arithmetic(self, queries: str) -> str:
        """Format of the products of attention: that of the queries, or fp8 where keys and values are kept as narrow.

        Public kernels cast the queries then: vLLM's with FlashAttention-3 (docs, "Quantized KV cache"), TensorRT-LLM's
        in prefill (FP8 context FMHA) and decoding (XQA, MLA). Where the caller chose the arithmetic, or the chip has no
        units for fp8, keys are widened on the way in.

        >>> ForwardPass(1, 1, kv="fp8").attention_arithmetic("bf16")
        'fp8'
        >>> ForwardPass(1, 1, kv="int8").attention_arithmetic("bf16")
        'bf16'
        >>> ForwardPass(1, 1, kv="fp8", asked_compute="bf16").attention_arithmetic("bf16")
        'bf16'
        """
        own = dtypes.get(queries).arithmetic
        narrow = dtypes.get(self.kv)
        if self.asked_compute not in ("", "fp8") or narrow.family != "float" or narrow.bits > 8 or own == "fp8":
            return own
        return "fp8"

    def index_format(self, dtype: str) -> str:
        """Format of an indexer's keys whose own is ``dtype``."""
        return self.asked_kv or dtype or self.kv

    @property
    def length(self) -> Size:
        """Tokens of one sequence, those in the cache and the new ones."""
        return self.past + self.new

    @property
    def begun(self) -> Size:
        """1 where sequences have tokens in the cache, 0 where this is their first step."""
        # to sympy a symbol is 1 at least, and that of tokens before a prompt may be 0
        return minimum(self.past, 1) if self.decoding else ceil_div(self.past, _BEYOND)


#: Kinds of operations that depend on how tokens are divided into sequences.
BY_SEQUENCE = ("attention", "convolution", "recurrence")

#: Functions whose gradient needs nothing of the forward pass.
LINEAR = ("add", "rope")

#: Storage of a weight, by the module path of its block and the weight.
StorageOf = Callable[[str, Weight], Storage]


class OperationBuilder:
    """Collects operations in the order they run.

    ``step`` is the step that is built, ``stream`` the residual stream, ``ops`` the operations so far, ``weights`` the
    weights of the current block by name, ``memory`` where they lie. ``kept`` holds tensors that a layer leaves for
    later layers, by name; all groups of layers of one pass share it. ``shared_as`` names the weights of a path that
    other layers use too. A builder that ``records`` notes the weights of a block and the states that it keeps, as the
    block's own run names them.
    """

    def __init__(
        self, step: ForwardPass, storage_of: StorageOf, where: str, repeat: int, stream: Tensor,
        kept: dict[str, list[Tensor]] | None = None, memory: str = "main",
        shared_as: Callable[[str], str] = lambda path: "", records: bool = False,
    ) -> None:  # fmt: skip
        self.step = step
        self.ops: list[Op] = []
        self.stream = stream
        self.kept = {} if kept is None else kept
        self.weights: dict[str, Weight] = {}
        self.memory, self.shared_as, self._records = memory, shared_as, records
        self.kept_states: list[tuple[str, Size, str]] = []
        self._storage_of, self._where, self._repeat, self._block, self._kind = storage_of, where, repeat, "", ""

    def inside(self, step: ForwardPass, where: str, repeat: int, stream: Tensor) -> OperationBuilder:
        """A builder of layers that stand inside the current block, with a step and a residual stream of their own."""
        place = join_path(self._block, where.partition(".")[0])

        def storage_of(path: str, weight: Weight) -> Storage:
            return self._storage_of(join_path(place, path), weight)

        return OperationBuilder(step, storage_of, self.path(where), repeat, stream, self.kept, self.memory)

    def enter(self, block: str, weights: Iterable[Weight] = (), kind: str = "") -> None:
        """Name the block that the next operations belong to, its weights, and its kind: the name of its class."""
        self._block, self._kind = block, kind
        self.weights = {weight.name: weight for weight in weights}

    def add(self, op: Op, part: str) -> None:
        """Append an operation as a part of the current block: named, placed in the model, repeated for its layers."""
        where, by_sequence = self.path(part), op.by_sequence or op.kind in BY_SEQUENCE
        name = part or self._block
        placed = (self._repeat, where, op.note, op.options, self._where, op.phase, op.role, by_sequence, self._kind)
        self.ops.append(Op(name, op.kind, op.work, op.reads, op.writes, op.dims, *placed))

    def path(self, *parts: str) -> str:
        """The module path of a part of the current block."""
        return join_path(self._where, self._block, *parts)

    def output(self, part: str, *dims: Size, dtype: str = "", role: str = "activation") -> Tensor:
        """A new tensor that the current block writes."""
        return Tensor(f"{self.path(part)}.out", dims, dtype or self.step.activations, role)

    def from_earlier(self, name: str) -> list[Tensor]:
        """Tensors that an earlier layer kept under ``name``; an error in a later pipeline stage, which has none."""
        if self._records:
            return [Tensor(name, (1, 1), self.step.activations)]
        if name not in self.kept:
            wrong = f"a stage of the pipeline needs {name} from an earlier one: that is not modelled"
            raise InputError(wrong, hint=f"{spelled('pipeline', 1)}; {spelled('tensor')} splits layers")
        return self.kept[name]

    def read_weight(self, weight: Weight, touched: Size | None = None) -> tuple[tuple[Tensor, ...], str]:
        """A weight and its scales as tensors to read, and the arithmetic the checkpoint was made for.

        ``touched`` is how many of its leading entries (experts) are read on average; None: all of them. Of weights that
        layers share a floor counts one read for all of them.
        """
        path = join_path(self._block, weight.name)
        storage, shared = self._storage_of(path, weight), self.shared_as(path)
        ident = join_path(shared or self._where, path)
        # by dimensions a policy that counts matrices alone tells these, and their scales, from biases
        dims = (prod(weight.shape),) if weight.kind == "bias" else weight.shape
        whole = [("", storage.dtype, dims), *((f".{n}", kind, (1, c)) for n, kind, c in storage.beside(weight.shape))]
        tensors = []
        for name, dtype, shape in whole:
            count = prod(shape)
            read = None if touched is None else exact_div(touched * count, weight.shape[0])
            more = {"level": "main" if shared or weight.kind == "adapter" else self.memory}
            found = Tensor(f"{ident}{name}", shape, dtype, "weight", read, average=touched is not None, **more)
            tensors.append(self.shared(found) if shared else found)
        return tuple(tensors), storage.compute

    def shared(self, weight: Tensor) -> Tensor:
        """The weight, where each layer of the group reads the same one: a floor counts one read for all of them."""
        read = weight.traffic_elements
        return replace(weight, average=True, needed=exact_div(read, self._repeat))

    def read_weights(self, *names: str, touched: Size | None = None) -> list[Tensor]:
        """Some weights of the current block and their scales as tensors to read; those it has not are left out."""
        held = (self.weights[name] for name in names if name in self.weights)
        return [tensor for weight in held for tensor in self.read_weight(weight, touched)[0]]

    def declare(self, name: str, shape: tuple[int, ...], kind: str = "other", dtype: str = "") -> None:
        """Record a weight of the block, where its weights are recorded; in any other pass it is there already."""
        if self._records:
            self.weights.setdefault(name, Weight(name, shape, kind, dtype))

    def declare_and_read(self, sizes: Mapping[str, int | tuple[int, ...]], dtype: str = "") -> list[Tensor]:
        """Read further weights of the block, given by name with their sizes; recorded as by :meth:`declare`."""
        for name, size in sizes.items():
            self.declare(name, (size,) if isinstance(size, int) else size, dtype=dtype)
        return self.read_weights(*sizes)

    def linear(
        self, weight: str | Weight, x: Tensor, outputs: int = 0, *, rows: Size | None = None, copies: int = 1,
        compute: str = "", kind: str = "linear", dtype: str = "", bias: bool = False,
    ) -> Tensor:  # fmt: skip
        """Multiply the rows of ``x``, or so many ``rows``, by a weight (out, in), and add its bias where there is one.

        ``compute`` replaces the weight's own arithmetic. ``copies`` splits the matrix into that many diagonal blocks,
        each of which multiplies a part of ``x``. Of a block whose weights are recorded ``outputs``, ``kind``, ``dtype``
        and ``bias`` say which they are.
        """
        if outputs and isinstance(weight, str):
            self.declare(weight, (outputs, x.dims[1] // copies), kind, dtype)
            if bias:
                self.declare(join_path(weight, "bias"), (outputs,), "bias")
        weight, rows = self.weights[weight] if isinstance(weight, str) else weight, x.dims[0] if rows is None else rows
        (matrix, *beside), own = self.read_weight(weight)
        n, k = weight.shape[-2:]
        out = self.output(weight.name, rows, n)
        arithmetic = compute or own or product_arithmetic(x.dtype, matrix.dtype)
        sizes = {"m": rows, "n": n // copies, "k": k, "batch": copies}
        op = contraction("", (x, matrix), (out,), **sizes, unit="matrix", compute=arithmetic)
        if beside:
            op = replace(op, reads=(x, matrix, *beside))
        if added := self.read_weights(join_path(weight.name, "bias")):
            sums = Work.flops("vector", _vector_arithmetic(x.dtype), rows * n)
            op = replace(op, reads=(*op.reads, *added), work=op.work + sums)
        self.add(op, weight.name)
        if self.step.rank and self._where and weight.kind == "linear":
            out = self._adapt(weight, x, out, rows, copies)
        return out

    def add_low_rank(self, name: str, x: Tensor, out: Tensor, rank: int) -> Tensor:
        """Add B·A·x to what a product of ``x`` gave; A and B are the model's own, ``name.0`` and ``name.1``."""
        made = self.linear(f"{name}.1", self.linear(f"{name}.0", x, rank), out.dims[1])
        return self.elementwise("add", (out, made), f"{name}.add", like=out)

    def _adapt(self, weight: Weight, x: Tensor, out: Tensor, rows: Size, copies: int) -> Tensor:
        """Add B·A·x to a product: A is rank x in, B out x rank, both in the format of activations.

        Of several adapters each row meets one: they have as many FLOPs as one, and all of them are read. Chips that
        split the weight read and run equal parts of each. Diagonal blocks share A, and each has its part of B.

        Source: Hu et al., arXiv:2106.09685, section 4.1; Chen et al., "Punica", arXiv:2310.18547.
        """
        down, up = self.adapter(weight)
        made = self.linear(down, x, rows=rows * copies)
        self.mark_adapter()
        made = self.linear(up, made, rows=rows, copies=copies)
        self.mark_adapter()
        return self.elementwise("add", (out, made), join_path(weight.name, "lora_add"), like=out)

    def adapter(self, weight: Weight) -> tuple[Weight, Weight]:
        """A and B of an adapter beside a matrix, a chip's parts of them."""
        served, rank = self.step.served, self.step.rank
        n, k = weight.shape[-2:] if served is None else served.part(weight)
        shapes = {"lora_A": (rank, k), "lora_B": (n, rank)}
        dtype = self.step.activations
        down, up = (Weight(join_path(weight.name, name), each, "adapter", dtype) for name, each in shapes.items())
        return down, up

    def mark_adapter(self) -> None:
        """Say of the last operation, a product by a matrix of an adapter, that it reads those of all in use."""
        read, matrix, *beside = self.ops[-1].reads
        used = self.step.adapters
        if not is_one(used):
            needed = None if matrix.needed is None else matrix.needed * used
            matrix = replace(matrix, dims=(used, *matrix.dims), needed=needed)
        self.mark(reads=(read, matrix, *beside), role="adapter")

    def elementwise(self, function: str, inputs: Sequence[Tensor], part: str, like: Tensor | None = None) -> Tensor:
        """Apply a function element by element; the result has the shape of ``like``, or of the first input."""
        out = self.output(part, *(like or inputs[0]).dims)
        op = elementwise(function, inputs, (out,), compute=_vector_arithmetic(inputs[0].dtype))
        self.add(replace(op, role="linear") if function in LINEAR else op, part)
        return out

    def norm(
        self, function: str, x: Tensor, scale: str | Weight, rows: Size | None = None, width: Size | None = None,
        part: str | None = None, touched: Size | None = None, scaled: bool = True, shift: bool = False,
    ) -> Tensor:  # fmt: skip
        """Normalise the rows of ``x``, or ``rows`` of a ``width``; multiply by the weight ``scale`` and add its bias,
        where the block has them.

        ``touched`` is how many entries of these are read, where there may be no rows; None: all of them. Of a block
        whose weights are recorded ``scaled`` and ``shift`` say which it has.
        """
        rows, width = x.dims[0] if rows is None else rows, x.dims[1] if width is None else width
        if isinstance(scale, str):
            for name in (scale, join_path(scale, "bias"))[: scaled + (scaled and shift)]:
                self.declare(name, (width,), "norm")
            affine = self.read_weights(scale, join_path(scale, "bias"), touched=touched)
        else:
            affine, scale = list(self.read_weight(scale)[0]), scale.name
        part = scale if part is None else part
        seen = Tensor(x.ident, (rows, width), x.dtype, x.role)
        out = self.output(part, rows, width)
        facts = {"elements": rows * width, "rows": rows, "affine": len(affine)}
        self.add(norm(function, (seen, *affine), (out,), **facts, compute=_vector_arithmetic(x.dtype)), part)
        return out

    def convolve(
        self, x: Tensor | list[Tensor], channels: int, kernel: int, weight: str = "conv1d", activated: bool = True,
        apart: int = 1, bias: bool = False,
    ) -> Tensor:  # fmt: skip
        """A short causal convolution of each channel, with an activation or none; the last inputs are kept.

        Its ``kernel`` tokens are so many ``apart``.
        """
        step = self.step
        out = self.output("conv1d", step.tokens, channels)
        self.declare(weight, (channels, 1, kernel))
        if bias:
            self.declare(f"{weight}.bias", (channels,), "bias")
        read = [*(x if isinstance(x, list) else [x]), *self.read_weights(weight, f"{weight}.bias")]
        state, kept = self.states("inputs", (step.batch, channels, (kernel - 1) * apart))
        facts = {"elements": step.tokens * channels, "kernel": kernel, "activated": activated}
        self.add(causal_convolution("", [*read, *state], [out, kept], **facts, compute=self.arithmetic), "conv1d")
        return out

    def states(self, name: str, dims: tuple[Size, ...], dtype: str = "") -> tuple[tuple[Tensor, ...], Tensor]:
        """The state that a step reads, none in the first step of a sequence, and the state that it writes."""
        kept = Tensor(self.path("kept", name), dims, dtype or self.step.activations, "state")
        if self._records:
            self.kept_states.append((name, product(dims[1:]), dtype))
        if is_zero(self.step.past):
            return (), kept
        read = None if isinstance(self.step.past, int) else kept.elements * self.step.begun
        return (replace(kept, ident=self.path("cache", name), touched=read),), kept

    def vector(
        self, kind: str, reads: Sequence[Tensor], part: str, *dims: Size, each: Size = 1, elements: Size | None = None,
        flops: Size | None = None, compute: str = "",
    ) -> Tensor:  # fmt: skip
        """Arithmetic of the vector unit that has no price of its own in ``ops``, and what it makes, of size ``dims``.

        It has ``each`` FLOPs for each of its ``elements``, which are those that it makes unless given, or so many
        ``flops`` in all.
        """
        out = self.output(part, *dims)
        elements = out.elements if elements is None else elements
        work = Work.flops("vector", compute or self.arithmetic, each * elements if flops is None else flops)
        self.add(Op("", kind, work, tuple(reads), (out,), {"elements": elements}), part)
        return out

    @property
    def arithmetic(self) -> str:
        """Arithmetic of the vector unit on activations, at least fp16 or bf16."""
        return _vector_arithmetic(self.step.activations)

    def mark(self, **facts: Any) -> None:
        """Say more of the last operation, as ``by_sequence``: it depends on how tokens are divided into sequences."""
        self.ops[-1] = replace(self.ops[-1], **facts)

    def cached(
        self, name: str, *dims: Size, length: Size | None = None, seen: Size | None = None, dtype: str = ""
    ) -> list[Tensor]:
        """What earlier steps kept under a name, ``dims`` for each token or each of ``length`` entries; none in a first.

        ``seen`` is how many of a sequence are read; None: all of them.
        """
        step = self.step
        if is_zero(step.past):
            return []
        touched = None if seen is None else step.attended * seen * product(dims)
        shape = (step.attended, step.past if length is None else length, *dims)
        return [Tensor(self.path("cache", name), shape, dtype or step.kv, "kv", touched=touched)]

    def write_to_cache(self, tensor: Tensor, dtype: str = "", most: Size | None = None) -> Tensor:
        """Make a tensor part of the cache: the operation that wrote it last writes the format of keys and values.

        ``dtype`` is another format that it is kept in; ``most`` is how many tokens of a sequence are kept, where a
        window or a chunk needs no more. A floor counts what is kept, on each chip its part.
        """
        cached, step = replace(tensor, role="kv", dtype=dtype or self.step.kv), self.step
        kept = tensor.elements if most is None else exact_div(tensor.elements, step.new) * minimum(step.new, most)
        kept = kept if step.ring else exact_div(kept, step.context)
        for index in range(len(self.ops) - 1, -1, -1):
            op = self.ops[index]
            if any(written.ident == tensor.ident for written in op.writes):
                writes = tuple(
                    replace(w, role="kv", dtype=cached.dtype, given=kept if w.given is None else w.given + kept)
                    if w.ident == tensor.ident else w
                    for w in op.writes
                )  # fmt: skip
                self.ops[index] = replace(op, writes=writes)
                break
        return cached


def product_arithmetic(activations: str, weights: str) -> str:
    """The format in which a matrix of ``weights`` multiplies ``activations``.

    >>> product_arithmetic("bf16", "int4")
    'bf16'
    """
    try:
        return dtypes.arithmetic([activations, weights])
    except DTypeError as wrong:
        raise wrong.worded(after=f", or {spelled('activations', weights)} to run all of it so") from None


def _vector_arithmetic(dtype: str) -> str:
    """Arithmetic of vector operations on tensors of a format: at least fp16 or bf16."""
    format_ = dtypes.get(dtype)
    return "bf16" if format_.bits < 16 else format_.arithmetic
