"""One chip's share of a training step: a pipeline stage's passes, its collectives, its update, and what it keeps.

The model is traced once for one microbatch; a stage is those of its operations whose layers it holds, repeated for
each microbatch of the step::

    for each microbatch     forward, what is run again, backward, the hidden state sent on and its gradient sent back,
                            ZeRO 3: weights gathered twice, those outside the layers once; ZeRO 2 and 3: gradients
                            added up and shared out
    once a step             gradients of copies added up, ZeRO 1: weights gathered, the optimizer's update;
                            a tied table's gradients exchanged by the first and the last stage, those of weights
                            that tensor chips hold together added up

Its memory: weights, gradients and optimizer states by format and ZeRO stage; activations by policy.

>>> Formats(gradients="none", master=None).states(70e9)              # Adam's moments in fp32, no copies
{'weights': 140000000000.0, 'gradients': 0, 'optimizer': 560000000000.0}
>>> sum(Formats().states(10**9).values()) / 1e9, sum(Formats().states(10**9, 64).values()) / 1e9   # bytes a parameter
(16.0, 0.25)
>>> kept_bytes(4e6, 8192, 64, checkpoint="full") / 1e12
4.194304

Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 3; "How To Scale Your Model", chapters 4 and 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from roofline import dtypes
from roofline.bounds.bound import Bound
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, check_one_of
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware.machine import Machine
from roofline.models.blocks.collectives import Algorithm, collective_operation, send_to_both_sides
from roofline.models.description import Layer, Model, block_parameters
from roofline.models.operation_builder import ForwardPass
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.schedules import Schedule
from roofline.models.parallelism.splitting import balance_layers as even
from roofline.models.training.passes import (
    GradientFormat,
    Recomputation,
    adapters,
    adds_up,
    backward,
    is_frozen,
    is_unfused,
    layer_weights,
    loss,
    policy,
)
from roofline.models.weights import join_path
from roofline.ops.collectives.cost import price_collective
from roofline.signatures import spelled
from roofline.sizes import Size, ceil_div, exact_div, grouped, is_one, is_zero, maximum, minimum, product
from roofline.work import Op, Tensor, Work, with_tensors


class Matrices(NamedTuple):
    """Matrices of one shape: of layers, of their experts, or tables, which are looked up or stand outside layers."""

    rows: Size
    columns: Size
    number: Size
    of_experts: bool = False
    is_table: bool = False


class Parameters(NamedTuple):
    """Parameters that a chip holds, the matrices among them, and FLOPs of its part of making these orthogonal."""

    count: Size
    matrices: tuple[Matrices, ...] = ()
    orthogonal: Size = 0


class ByMatrix(NamedTuple):
    """What an optimizer does with matrices, and with tables where it does the same with these.

    ``kept`` is how many numbers it keeps of one, by rows and columns, ``flops`` are those of each of its elements,
    ``is_orthogonal`` whether it makes the update orthogonal, and ``says`` how.
    """

    kept: Callable[[Size, Size], Size]
    flops: int
    tables: bool = False
    is_orthogonal: bool = False
    says: str = ""


class Optimizer(NamedTuple):
    """How many numbers an optimizer keeps for each parameter, and the FLOPs of updating it; what it does by matrix."""

    moments: int
    flops: int
    by_matrix: ByMatrix | None = None

    def of(self, held: Parameters) -> tuple[Size, Size]:
        """Numbers kept of parameters, and vector FLOPs of updating them.

        >>> OPTIMIZERS["adafactor"].of(Parameters(4096 * 1024 + 10, (Matrices(4096, 1024, 1),)))
        (5130, 58720396)
        """
        kept, flops, rule = self.moments * held.count, self.flops * held.count, self.by_matrix
        for each in held.matrices if rule else ():
            if rule and (rule.tables or not each.is_table):
                elements = each.rows * each.columns * each.number
                kept += rule.kept(each.rows, each.columns) * each.number - self.moments * elements
                flops += (rule.flops - self.flops) * elements
        return kept, flops


def orthogonal_flops(rows: Size, columns: Size) -> Size:
    """FLOPs of five Newton–Schulz steps X ← aX + (bA + cA²)X, A = XXᵀ, of a matrix of m rows and n ≥ m columns.

    The steps run on the m × m matrix XXᵀ: 3m²n + 17m³ FLOPs, as XXᵀ takes m²n, each of 17 products of m × m matrices
    m³ (all are symmetric, so one triangle is made), and the product of the result and X 2m²n. The steps as Jordan
    wrote them take 15m²n + 5m³ with one triangle of A and A², and 20m²n + 10m³ with both.

    Source: Jordan et al., "Muon", kellerjordan.github.io/posts/muon; Zhang et al., "Gram Newton-Schulz",
    dao-lab.ai/blog/2026/gram-newton-schulz.

    >>> orthogonal_flops(8, 20) == orthogonal_flops(20, 8) == 3 * 8**2 * 20 + 17 * 8**3
    True
    """
    m, n = minimum(rows, columns), maximum(rows, columns)
    return 3 * m**2 * n + 17 * m**3


#: Decayed weights included, which is AdamW: m += (1 − β₁)(g − m), v = β₂v + (1 − β₂)g², p = (1 − λ)p − α·m/(√v + ε).
#: Adam: Kingma and Ba, arXiv:1412.6980, section 2; Lion: arXiv:2302.06675. Adafactor: arXiv:1804.04235, algorithm 4, a
#: row and a column in place of v: g² + ε and its two sums, v, g/√v, its norm and division, the norm of p, the update.
#: Muon: arXiv:2502.16982, section 2: b = μb + g, g + μb and its norm, p = (1 − λ)p − α·o; AdamW of all but matrices.
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adam": Optimizer(2, 13),
    "adamw": Optimizer(2, 13),
    "adafactor": Optimizer(
        1, 14, ByMatrix(lambda rows, columns: rows + columns, 14, tables=True, says="a row and a column of each matrix")
    ),
    "muon": Optimizer(
        2, 13,
        ByMatrix(
            lambda rows, columns: rows * columns, 9, is_orthogonal=True,
            says="matrices of layers by five Newton–Schulz steps in bf16, in the fewest FLOPs published and once a "
            "copy of the states; the rest by adamw",
        ),
    ),
    "lion": Optimizer(1, 9),
    "momentum": Optimizer(1, 6),
    "sgd": Optimizer(0, 4),
}  # fmt: skip


def optimizer_named(name: str) -> Optimizer:
    """Find an optimizer by name."""
    check_one_of(f"no optimizer {name!r}", name, OPTIMIZERS, "optimizers")
    return OPTIMIZERS[name]


def check_trained(**formats: str | None) -> None:
    """Refuse weights that are trained, or their gradients, in a format that nothing computes in."""
    for what, dtype in formats.items():
        if dtype is not None and dtype != "none" and dtypes.get(dtype).name in dtypes.STORED_ONLY:
            frozen = f"{spelled('lora', 16)} {spelled('weights', dtype)}"
            beside = f"{frozen} trains adapters beside frozen {dtype} weights, or " if what == "weights" else ""
            wrong = f"{spelled(what, dtype)} cannot be trained: {dtype} is stored only, nothing computes in it"
            raise InputError(wrong, hint=f"{beside}take bf16")


@dataclass(frozen=True, slots=True)
class Formats:
    """What is kept of each parameter while it is trained, and in which formats.

    ``master`` is a second copy of the weights for the optimizer, and there is none where the weights themselves have
    that format; ``gradients`` and ``master`` may be ``none``.

    >>> str(Formats("fp32", "fp32")), sum(Formats("fp32", "fp32").states(10**9).values()) / 1e9
    ('adam; weights fp32, gradients fp32, moments fp32', 16.0)
    """

    weights: str = "bf16"
    gradients: str = "bf16"
    moments: str = "fp32"
    master: str | None = "fp32"
    optimizer: str = "adam"

    @property
    def second_copy(self) -> str | None:
        """Format of a copy of the weights in another format than theirs."""
        names = {dtypes.get(each).name for each in (self.weights, self.master) if each not in (None, "none")}
        return self.master if len(names) > 1 else None

    def states(self, parameters: Size | Parameters, shards: Size = 1, zero: int = 3) -> dict[str, Size]:
        """Bytes of weights, gradients and optimizer states on one of ``shards`` chips that share them by ZeRO stage.

        Stage 1 shares the optimizer's states, 2 gradients as well, 3 weights as well, 0 nothing.
        """
        mine = parameters if isinstance(parameters, Parameters) else Parameters(parameters)
        optimizer = optimizer_named(self.optimizer)
        if optimizer.by_matrix and not mine.matrices and not is_zero(mine.count):
            wrong = f"{spelled('optimizer', self.optimizer)} is of whole matrices, whose sizes are not known here"
            raise InputError(wrong, hint=f"name a model, as in llama-3-8b, and leave {spelled('lora')} out")
        if zero not in (0, 1, 2, 3):
            hint = "0 shares nothing, 1 states, 2 gradients too, 3 weights too"
            raise InputError(f"no ZeRO stage {zero!r}", hint=hint)
        check_trained(weights=self.weights, gradients=self.gradients, master=self.master)

        def held(dtype: str | None, stage: int, count: Size = mine.count) -> Size:
            if dtype in (None, "none") or is_zero(count):
                return 0
            return dtypes.get(dtype).nbytes(count if zero < stage or is_one(shards) else exact_div(count, shards))

        return {
            "weights": held(self.weights, 3),
            "gradients": held(self.gradients, 2),
            "optimizer": held(self.moments, 1, optimizer.of(mine)[0]) + held(self.second_copy, 1),
        }

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("weights", "gradients", "moments")}
        named["master"] = self.second_copy
        said = (f"{name} {dtype}" for name, dtype in named.items() if dtype not in (None, "none"))
        rule = optimizer_named(self.optimizer).by_matrix
        return f"{self.optimizer}{f' ({rule.says})' if rule else ''}; {', '.join(said)}"


def kept_bytes(tokens: Size, width: Size, layers: int, *, checkpoint: str | int = "full") -> Size:
    """Bytes of hidden states in bf16 that ``layers`` layers keep of ``tokens`` tokens, by a policy that counts them.

    >>> kept_bytes(4e6, 8192, 64, checkpoint=20) / 1e12
    83.88608
    """
    count = policy(checkpoint).count
    if count is None:
        hint = "'full', or how many tensors a layer keeps; roofline.models.train counts the others on the model"
        raise InputError(f"what {checkpoint!r} keeps depends on the layers", hint=hint)
    return dtypes.get("bf16").nbytes(tokens * width * layers) * count


def kept(
    ops: Sequence[Op], chosen: Recomputation, stream: Tensor, saved: str | None = None,
    trained: frozenset[str] | None = None,
) -> Size:  # fmt: skip
    """Bytes of activations that wait for the backward pass; ``stream`` is the hidden state between two layers.

    ``saved`` is a narrower format that activations of layers wait in. What a product with a matrix that is not
    ``trained`` reads is not needed for it.
    """
    inside = [with_tensors(op, lambda tensor: _narrower(tensor, saved)) if saved else op for op in ops if op.group]
    stream = _narrower(stream, saved)
    outside = [op for op in ops if not op.group]
    whole = _written([*inside, *outside])
    total: Size = _once(_saved(outside, ops, trained), whole)
    if outside and outside[-1] is ops[-1]:
        total = total + outside[-1].writes[0].capacity_bytes
    if chosen.count is not None:
        layers = sum(repeat for repeat in {op.group: op.repeat for op in inside}.values())
        return total + stream.capacity_bytes * layers * chosen.count
    if chosen.name == "matmuls":
        held = [(op, t) for op in inside if op.kind == "contraction" for t in op.writes]
        return total + _once([(op, _after(t, inside)) for op, t in held], whole)
    waiting = _saved(inside, [*inside, *outside], trained)
    if chosen.modules:
        # results of what is run again are not kept; what it reads is
        made = {t.ident for op in inside if chosen.again(op) for t in op.writes}
        waiting = [(op, t) for op, t in waiting if t.ident not in made]
    return total + _once(waiting, whole) + _of_attention(inside, probabilities=chosen.name == "none")


def _narrower(tensor: Tensor, dtype: str | None) -> Tensor:
    narrower = dtype is not None and dtypes.get(dtype).bits < dtypes.get(tensor.dtype).bits
    return replace(tensor, dtype=dtype) if narrower and dtype and tensor.role == "activation" else tensor


def at_work(ops: Sequence[Op], trained: frozenset[str] | None = None) -> Size:
    """Bytes of activations alive while one layer that was not kept is run again: the largest group's."""
    groups = grouped((op.group, op) for op in ops if op.group)
    whole = _written(ops)
    return maximum(*(_once(_saved(found, ops, trained), whole, once=True) for found in groups.values()))


def _saved(ops: Sequence[Op], every: Sequence[Op], trained: frozenset[str] | None = None) -> list[tuple[Op, Tensor]]:
    """What each operation's backward pass reads of forward; a tensor that was gathered is kept as each chip's part."""
    gathers = [op for op in every if op.options.get("collective") == "AllGather" and op.writes]
    shards = {op.writes[0].ident: op.reads[0] for op in gathers if op.reads}
    # keys and values that other chips pass on are passed again
    passed = {t.ident for op in gathers if not op.reads for t in op.writes}
    found = []
    for op in ops:
        if op.kind in ("collective", "embedding") or op.role == "linear" or is_frozen(op, trained):
            continue
        own = {t.ident for t in op.writes}
        read = [t for t in op.reads if t.role == "activation" and t.ident not in passed and t.ident not in own]
        found += [(op, shards.get(t.ident, t)) for t in read]
    return found


def _after(tensor: Tensor, ops: Sequence[Op]) -> Tensor:
    """A part of a sum is kept as the sum."""
    sums = (op for op in ops if adds_up(op) and tensor.ident in {each.ident for each in op.reads})
    return next((_after(op.writes[0], ops) for op in sums), tensor)


def _written(ops: Sequence[Op]) -> dict[str, Size]:
    """Bytes of all that is written, by name."""
    return {tensor.ident: tensor.capacity_bytes for op in ops for tensor in op.writes}


def _once(tensors: Sequence[tuple[Op, Tensor]], whole: Mapping[str, Size], once: bool = False) -> Size:
    """Bytes of tensors, each counted once for every layer of its group.

    Where operations read parts of one, as a gate and what it opens, these are kept: no more than the ``whole`` of it.
    """
    parts: dict[str, list[Size]] = {}
    repeats: dict[str, Size] = {}
    for op, tensor in tensors:
        parts.setdefault(tensor.ident, []).append(tensor.capacity_bytes)
        repeats[tensor.ident] = 1 if once else op.repeat

    def together(ident: str, sizes: Sequence[Size]) -> Size:
        most = maximum(*sizes)
        return most if len(sizes) == 1 else minimum(sum(sizes), maximum(most, whole.get(ident, most)))

    return sum(together(ident, sizes) * repeats[ident] for ident, sizes in parts.items())


def _of_attention(ops: Sequence[Op], *, probabilities: bool) -> Size:
    """What attention keeps beside its operands: probabilities where they are in memory, else a sum for each query."""
    total: Size = 0
    for op in ops:
        if op.kind == "attention" and "v_head_size" in op.dims:
            rows = product(op.dims[name] for name in ("batch", "heads", "q_length"))
            if not is_unfused(op):
                total = total + dtypes.get("fp32").nbytes(rows) * op.repeat
            elif probabilities:
                total = total + op.writes[-1].capacity_bytes * op.repeat
    return total


#: Axes whose chips hold the same weights; those that experts are spread over hold different experts.
SHARING = ("fsdp", "expert", "context")

#: The ZeRO stage from which each part is shared.
SHARED_FROM = {"optimizer": 1, "gradients": 2, "weights": 3}


class WeightCollective(NamedTuple):
    """A collective of weights or gradients; each chip has one of ``parts`` parts of the weights before it.

    ``each``: it runs for each microbatch, else once a step.
    """

    name: str
    kind: str
    axes: Any
    dtype: str
    phase: str
    each: bool
    role: str = ""
    parts: Size = 1


class StepPlan(NamedTuple):
    """How a step is done, alike on every stage: the model, one chip's part of it, chips and sizes, formats, policies.

    ``asked`` is the question. ``total`` are the tokens of the step, ``length`` those of a sequence, ``share`` is how
    many sequences a copy has on average. ``algorithm`` chooses that of each collective. ``frozen`` are the bytes of
    weights that are not trained, where adapters are in their place.
    """

    asked: Any
    model: Model
    local: Model
    machine: Machine
    layout: Parallelism
    total: Size
    length: Size
    share: Size
    microbatches: Size
    step: ForwardPass
    policy: Recomputation
    order: Schedule
    formats: Formats
    algorithm: Algorithm
    frozen: Size | None

    @property
    def saved(self) -> str | None:
        """The format that activations wait in, where it is not their own."""
        return None if self.asked.saved_activations is None else dtypes.get(self.asked.saved_activations).name

    @property
    def alike(self) -> int:
        """Chips that have the same hidden state between layers."""
        return 1 if self.layout.sequence else self.layout.tensor

    @property
    def stream(self) -> Tensor:
        """The hidden state between two layers, as one chip holds it."""
        tokens = exact_div(self.step.tokens, exact_div(self.layout.tensor, self.alike))
        return Tensor("hidden state", (tokens, self.local.hidden), self.step.activations)

    @property
    def steady(self) -> bool:
        """Whether as much waits for its backward pass however many chips share the batch."""
        return self.layout.pipeline > 1 and self.asked.microbatches is None and self.order.bounded

    def axes(self, *names: str) -> tuple[Any, ...]:
        """The mesh axes of these names that there are."""
        return tuple(axis for axis in self.machine.mesh or () if axis.name in names)

    def whole(self, waiting: Size) -> Size:
        """Whole sequences in so many microbatches of the copy with the most, over those there are on average.

        >>> StepPlan(*[None] * 7, 7.629, 4, *[None] * 6).whole(1) * 7.629 / 4
        2.0
        """
        most = ceil_div(waiting * ceil_div(self.share, 1), self.microbatches)
        return exact_div(most * self.microbatches, waiting * self.share)

    def sharing(self, experts: bool = False) -> tuple[Any, ...]:
        """The mesh axes whose chips share one copy of the weights: of the same experts, or of all others."""
        spread = self.layout.expert_axes if experts and self.layout.expert > 1 else ()
        return self.axes(*(name for name in SHARING if name not in spread))

    def shards(self, experts: bool = False) -> Size:
        """Chips that share one copy of the weights: of the same experts, or of all others."""
        return product(axis.size for axis in self.sharing(experts))


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The operations of one stage: a microbatch's in three passes, and those once a step; what it holds in memory."""

    forward: tuple[Op, ...]
    inputs: tuple[Op, ...]
    weights: tuple[Op, ...]
    once: tuple[Op, ...]
    memory: Mapping[str, Size]
    fixed: Size


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One stage of the pipeline and how many are alike: its layers, a chip's step without waits, a chip's memory.

    ``numbers`` are those of the stages that are alike, from 0; ``fixed`` the bytes that more chips do not share.
    """

    numbers: tuple[int, ...]
    layers: int
    bound: Bound
    memory: Footprint
    fixed: Size


def cut(model: Model, stages: int, chunks: int = 1) -> list[list[int]]:
    """Which layers each stage holds: pieces as even as they go, every ``stages``-th piece on one stage.

    >>> from roofline.models import load
    >>> [len(held) for held in cut(load("llama-3-8b"), 6)], cut(load("llama-3-8b"), 8, 2)[1]
    ([6, 6, 5, 5, 5, 5], [2, 3, 18, 19])
    """
    pieces = stages * chunks
    ends = [0, *accumulate(even([1.0] * len(model.layers), pieces))]
    return [
        [layer for piece in range(stage, pieces, stages) for layer in range(ends[piece], ends[piece + 1])]
        for stage in range(stages)
    ]


def operations_of(model: Model, ops: Sequence[Op], held: Sequence[int], first: bool, last: bool) -> tuple[Op, ...]:
    """Those of a whole model's operations that a stage runs: its layers', with the embedding or head at the ends."""
    counts = {label: len(set(numbers).intersection(held)) for label, numbers, _ in model.layer_groups()}
    inside = [index for index, op in enumerate(ops) if op.group]
    found = []
    for index, op in enumerate(ops):
        if op.group:
            repeat = counts[op.group]
            found += [_with_repeat(op, repeat)] if repeat else []
        elif (first and index < inside[0]) or (last and index > inside[-1]):
            found.append(op)
    return tuple(found)


def _with_repeat(op: Op, repeat: int) -> Op:
    """An operation of fewer layers than its group has, which read what they share once as well."""

    def read(tensor: Tensor) -> Tensor:
        more = None if tensor.needed is None else exact_div(tensor.needed * op.repeat, repeat)
        return tensor if more is None else replace(tensor, needed=more)

    return op if op.repeat == repeat else replace(op, repeat=repeat, reads=tuple(map(read, op.reads)))


def matrices_of(model: Model, held: Sequence[int], first: bool, last: bool) -> Iterator[Matrices]:
    """Matrices of the layers that a stage holds, and tables: of the vocabulary, and all that stands outside layers."""
    outside = Layer((*(model.before if first else ()), *((*model.after, *model.final) if last else ())))
    inside = [(each.weight, len(each.layers), False) for each in model.layer_weights(among=held)]
    for weight, number, is_table in [*inside, *((weight, 1, True) for _, weight in outside.weights())]:
        if weight.kind in ("linear", "expert", "embedding"):
            *several, rows, columns = weight.shape
            is_table = is_table or weight.kind == "embedding"
            yield Matrices(rows, columns, number * product(several), weight.is_of_experts, is_table)
    tables = first + (last and model.head and not (model.tied and first))
    if tables:
        yield Matrices(model.vocabulary, model.width, tables, is_table=True)


def parameters_held(plan: StepPlan, held: Sequence[int], ends: tuple[bool, bool]) -> tuple[Parameters, Parameters]:
    """What :func:`parameters_of` counts of a stage, with the matrices; chips of a copy share the work of whole ones."""
    counts = parameters_of(plan.local, held, *ends)
    rule, flops = optimizer_named(plan.formats.optimizer).by_matrix, [0, 0]
    if rule is None:
        return Parameters(counts[0]), Parameters(counts[1])
    whole = parameters_of(plan.model, held, *ends)[1]
    matrices = tuple(matrices_of(plan.local, held, *ends))
    for each in matrices_of(plan.model, held, *ends) if rule.is_orthogonal else ():
        flops[each.of_experts] += 0 if each.is_table else orthogonal_flops(each.rows, each.columns) * each.number
    dense, experts = exact_div(flops[0], plan.layout.tensor), exact_div(flops[1] * counts[1], whole or 1)
    return (
        Parameters(counts[0], tuple(each for each in matrices if not each.of_experts), dense),
        Parameters(counts[1], tuple(each for each in matrices if each.of_experts), experts),
    )


def parameters_of(model: Model, held: Sequence[int], first: bool, last: bool) -> tuple[int, int]:
    """Parameters a stage holds, and those of experts, apart; a tied table is held at both ends of a pipeline."""
    table = model.vocabulary * model.width
    weights = [(each.weight, len(each.layers) * each.weight.elements) for each in model.layer_weights(among=held)]
    total = sum(count for _, count in weights)
    experts = sum(count for weight, count in weights if weight.is_of_experts)
    if first:
        total += table + block_parameters(model.before)
    if last:
        total += block_parameters((*model.after, *model.final))
        total += table if model.head and not (model.tied and first) else 0
        total += model.vocabulary if model.head_bias else 0
    return total - experts, experts


def held_by_several(model: Model, stages: Sequence[Sequence[int]]) -> list[Size]:
    """For each stage, parameters whose gradients it sends to others that hold the same weights, as often as it does.

    Of k stages each sends 2(k - 1)/k of them. Such are weights that layers share, and a tied table, of both ends.
    """
    found: list[Size] = [0] * len(stages)
    held: dict[tuple[str, str], tuple[int, list[int]]] = {}
    for number, layers in enumerate(stages):
        for each in model.layer_weights(among=layers):
            if each.shared:
                held.setdefault((each.shared, each.weight.name), (each.weight.elements, []))[1].append(number)
    if model.tied and model.head:
        held["", ""] = model.vocabulary * model.width, sorted({0, len(stages) - 1})
    for elements, numbers in held.values():
        for number in numbers:
            found[number] += exact_div(2 * (len(numbers) - 1) * elements, len(numbers))
    return found


def added_up_by_tensor_chips(plan: StepPlan, held: Sequence[int], ends: tuple[bool, bool]) -> dict[int, Size]:
    """For so many tensor-parallel chips as hold the same weights, parameters whose gradients these chips add up.

    Each has a part of the gradients of what makes keys, values and latents, by its own heads, and under sequence
    parallelism of what chips run on their own tokens. Of few tokens they exchange what the matrices make instead.
    Of adapters these are the halves that every chip holds, beside matrices that chips split and those
    that make what all heads read.
    """
    found: dict[int, Size] = {}
    seen: set[tuple[str, str]] = set()
    whole, local, ways = plan.model, plan.local, plan.layout
    tokens, rank = plan.step.tokens * plan.microbatches, plan.step.rank
    every = [(whole.layers[number], local.layers[number]) for number in held]
    every += [(Layer(whole.before), Layer(local.before))] if ends[0] else []
    every += [(Layer((*whole.after, *whole.final)), Layer((*local.after, *local.final)))] if ends[1] else []
    alike = Counter((id(full), id(part)) for full, part in every)
    for full, part in {(id(full), id(part)): (full, part) for full, part in every}.values() if ways.tensor > 1 else ():
        for (block, weight), (_, own) in zip(full.weights(), part.weights(), strict=True):
            copies = ways.tensor * own.elements // weight.elements
            once = (full.shared_as(weight.name), weight.name)
            repeat = 1 if once[0] else alike[id(full), id(part)]
            names = getattr(block, "for_all_heads", None) or getattr(block, "names", ())[1:3]
            keys = [join_path(block.name, name) for name in names]
            is_parted = ways.sequence and (block.runs_whole or getattr(block, "reads_latents_alone", False))
            count: Size = 0
            if rank and weight.kind == "linear" and (own.shape != weight.shape or weight.name in keys):
                sides = zip(own.shape[-2:], weight.shape[-2:], strict=True)
                copies, count = ways.tensor, rank * sum(minimum(n, tokens) for n, size in sides if n == size)
            elif not rank and copies > 1 and (is_parted or weight.name in keys):
                rows = 1 if len(weight.shape) == 1 else weight.shape[-1]
                count = exact_div(own.elements, rows) * minimum(rows, tokens)
            if not is_zero(count) and once not in seen:
                seen |= {once} if once[0] else set()
                found[copies] = found.get(copies, 0) + count * repeat
    return found


def passes(
    plan: StepPlan, ops: Sequence[Op], parameters: tuple[Parameters, Parameters],
    ends: tuple[bool, bool], exchanged: Size = 0, added: Mapping[int, Size] = MappingProxyType({}),
) -> Callable[[Size], Passes]:  # fmt: skip
    """Work out one stage from its operations of one microbatch, for so many microbatches' activations as are kept.

    ``ends`` says whether it is the pipeline's first and last stage; ``exchanged`` is as in :func:`held_by_several`,
    ``added`` as in :func:`added_up_by_tensor_chips`.
    """
    forward = [*ops, *([loss(ops[-1].writes[0])] if ends[1] else [])]
    trained = None if plan.frozen is None else adapters(ops)
    gradients = GradientFormat(plan.formats.gradients, plan.machine.mesh, plan.algorithm, trained)
    back = backward(ops, plan.policy, gradients)
    for_weights = [op for op in back if op.role == "weight gradient"]
    for_inputs = [op for op in back if op.role != "weight gradient"]
    each, once = _shared(plan, ops, trained)
    if exchanged:
        once.append(_exchanged(plan, exchanged))
    once += [op for copies, count in added.items() for op in _added_up(plan, copies, count)]
    ahead, behind = _sent(plan, ends)
    forward += [op for op in each if op.phase == "forward"] + ahead
    for_inputs += [op for op in each if op.phase == "backward" and op.role != "weight gradient"] + behind
    for_weights += [op for op in each if op.role == "weight gradient"]
    shards = (plan.shards(), plan.shards(experts=True))
    if trained is not None:
        count = sum(count * repeat for count, repeat in layer_weights(ops, trained=trained).values())
        parameters = Parameters(count), Parameters(0)
    zero = plan.asked.zero
    parts = [plan.formats.states(each, ways, zero) for each, ways in zip(parameters, shards, strict=True)]
    states = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    if plan.frozen is not None:
        experts = sum(size * times for size, times in layer_weights(ops, experts=True, in_bytes=True).values())
        held = zip((plan.frozen - experts, experts), shards, strict=True)
        states["weights"] += sum(exact_div(size, ways if zero == 3 else 1) for size, ways in held)
    update = _update(plan, [(each, ways if zero else 1) for each, ways in zip(parameters, shards, strict=True)], states)
    gathered = _most_gathered(plan, ops) if zero == 3 else 0
    renewed = at_work([op for op in ops if plan.policy.again(op)] if plan.policy.modules else ops, trained)
    renewed = 0 if plan.policy.name in ("none", "selective") else renewed * plan.whole(1)
    of_one = kept(ops, plan.policy, plan.stream, plan.saved, trained)
    alone = gathered + sum(states[name] for name, stage in SHARED_FROM.items() if zero < stage)

    def keeping(waiting: Size) -> Passes:
        activations = of_one * waiting * plan.whole(waiting)
        return Passes(
            tuple(forward), tuple(for_inputs), tuple(for_weights), (*once, update),
            {**states, "activations": activations, "a layer at work": gathered + renewed},
            alone + (activations + renewed if plan.steady else 0),
        )  # fmt: skip

    return keeping


def repeated(ops: Iterable[Op], times: Size) -> list[Op]:
    """Operations run once for each microbatch."""
    listed = list(ops)
    return listed if is_one(times) else [replace(op, repeat=op.repeat * times) for op in listed]


def _sent(plan: StepPlan, ends: tuple[bool, bool]) -> tuple[list[Op], list[Op]]:
    """The hidden state to the next stage and its gradient to the one before, once for each piece of the model.

    Chips that have the same send a part each, which they put together where links are fast; that is not counted.
    Source: Narayanan et al., arXiv:2104.04473, section 4.1 (scatter and gather).
    """
    axes = plan.axes("pipeline")
    if not axes:
        return [], []
    pieces = plan.asked.chunks - ends[1], plan.asked.chunks - ends[0]
    nbytes = exact_div(plan.stream.traffic_bytes, plan.alike)
    sent = send_to_both_sides(axes[0], pieces, plan.asked.chunks, nbytes, plan.stream, plan.algorithm)
    named = zip(("hidden state sent on", "its gradient sent back"), sent, strict=True)
    ahead, behind = ([replace(op, name=name, where=f"pipeline: {name}")] if op.repeat else [] for name, op in named)
    return ahead, behind


def _exchanged(plan: StepPlan, parameters: Size) -> Op:
    """Stages that hold the same weights send each other their gradients: each chip those it looks after."""
    gradients = Tensor("shared gradient", (exact_div(parameters, plan.shards()),), plan.formats.gradients, "gradient")
    other = replace(gradients, ident="shared gradient of other stages", role="activation")
    axes = plan.axes("pipeline")
    sent = collective_operation("Send", axes, gradients.traffic_bytes, gradients, other, plan.algorithm)
    name = "gradients of weights that stages share"
    return replace(sent, name=name, where=f"pipeline: {name}")


def _added_up(plan: StepPlan, copies: int, parameters: Size) -> Iterator[Op]:
    """Tensor-parallel chips that hold the same weights add up their parts of the gradients, those they look after."""
    axes = tuple(axis.innermost(copies) for axis in plan.axes("tensor"))
    name, dtype = f"gradients that {copies} tensor chips add up", plan.formats.gradients
    call = WeightCollective(name, "AllReduce", axes, dtype, "backward", False, "weight gradient", plan.shards())
    return _priced([call], {"": (parameters, 1)}, plan.algorithm)


def _most_gathered(plan: StepPlan, ops: Sequence[Op]) -> Size:
    """Bytes of the weights that chips gather for the largest group of layers; what no chips share is there."""
    found, in_bytes = dict[str, Size](), plan.frozen is not None
    for experts in (False, True):
        if plan.sharing(experts):
            for group, (count, _) in layer_weights(ops, experts=experts, in_bytes=in_bytes).items():
                found[group] = found.get(group, 0) + count
    most = max(found.values(), default=0)
    return most if in_bytes else most * (dtypes.get(plan.formats.weights).bits / 8)


def _shared(plan: StepPlan, ops: Sequence[Op], trained: frozenset[str] | None) -> tuple[list[Op], list[Op]]:
    """Collectives of weights and gradients by group of layers, for each microbatch and once a step."""
    each: list[Op] = []
    once: list[Op] = []
    for experts in (False, True):
        found = layer_weights(ops, experts=experts, trained=trained)
        frozen = None if trained is None else layer_weights(ops, experts=experts, in_bytes=True)
        if found or frozen:
            calls = list(_calls(plan, plan.sharing(experts)))
            each += _priced([call for call in calls if call.each], found, plan.algorithm, frozen)
            once += _priced([call for call in calls if not call.each], found, plan.algorithm)
    return each, once


def _calls(plan: StepPlan, sharing: Any) -> Iterator[WeightCollective]:
    """What chips that share weights tell each other."""
    zero, weights, copying = plan.asked.zero, plan.formats.weights, plan.axes("data")
    of_gradients = {"dtype": plan.formats.gradients, "phase": "backward", "role": "weight gradient"}
    if sharing and zero == 3:
        for phase in ("forward", "backward"):
            yield WeightCollective(f"weights for {phase}", "AllGather", sharing, weights, phase, each=True)
    elif sharing and zero:
        yield WeightCollective("updated weights", "AllGather", sharing, weights, "optimizer", each=False)
    if sharing:
        kind = "ReduceScatter" if zero else "AllReduce"
        yield WeightCollective("gradients", kind, sharing, each=zero > 1, **of_gradients)
    if copying:
        # without ZeRO too, between the two halves of the AllReduce of those that share
        parts = product(axis.size for axis in sharing)
        yield WeightCollective("gradients of copies", "AllReduce", copying, each=False, parts=parts, **of_gradients)


def _priced(
    calls: Sequence[WeightCollective], weights: Mapping[str, tuple[Size, Size]], algorithm: Algorithm,
    frozen: Mapping[str, tuple[Size, Size]] | None = None,
) -> Iterator[Op]:  # fmt: skip
    """Price calls for each group of ``weights``; where most are ``frozen``, all of them are gathered, in bytes.

    Outside the layers none are gathered for backward: a lookup needs none there, and the head's turn follows at once.
    """
    for group in frozen or weights:
        for call in calls:
            if not group and call.phase == "backward" and not call.role:
                continue
            if frozen is not None and not call.role:
                nbytes, repeat = frozen[group]
            elif group in weights:
                elements, repeat = weights[group]
                nbytes = dtypes.get(call.dtype).nbytes(exact_div(elements, call.parts))
            else:
                continue
            made = price_collective(
                call.name, (), (), kind=call.kind, axes=call.axes, nbytes=nbytes, algorithm=algorithm, dtype=call.dtype
            )
            where = f"{group or 'other weights'}: {call.name}"
            yield replace(made, repeat=repeat, where=where, group=group, phase=call.phase, role=call.role)


def _update(plan: StepPlan, parts: Sequence[tuple[Parameters, Size]], states: Mapping[str, Size]) -> Op:
    """The optimizer's step on the parameters a chip looks after: everything it holds of them is read and written.

    It reads their gradients, and the weights where it has no copy of its own: both moved before, so a floor counts
    neither again. ``parts`` are parameters that so many chips share.
    """
    formats, optimizer, held = plan.formats, optimizer_named(plan.formats.optimizer), states["optimizer"]
    amounts = [((each.count, optimizer.of(each)[1], each.orthogonal), ways) for each, ways in parts]
    count, flops, products = (sum(exact_div(each[n], ways) for each, ways in amounts) for n in range(3))
    written = Tensor("new weights", (count,), formats.weights, "weight")
    gradients = Tensor("gradients", (count,), formats.gradients, "gradient", needed=0)
    state = [Tensor("optimizer states", (held,), "int8", "state")] if held else []
    weights = [] if formats.second_copy else [replace(written, ident="weights", needed=0)]
    new = (written, *(replace(tensor, ident="new optimizer states") for tensor in state))
    work = Work.flops("vector", "fp32", flops)
    work = work if all(is_zero(each.orthogonal) for each, _ in parts) else work + Work.flops("matrix", "bf16", products)
    reads, dims = (*state, gradients, *weights), {"elements": count}
    return Op("optimizer", "elementwise", work, reads, new, dims, where="optimizer", phase="optimizer")
