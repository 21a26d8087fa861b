"""Case: operations on a machine under conventions; the only road from operations to a Bound.

A line of notation, a step of a model, a traced program and a timed call all become a Case. So the same operations give
the same answer whoever asks: times, what fits, figures that the caller set, warnings, estimates.

>>> from roofline.bounds.conventions import Conventions
>>> from roofline.hardware import chip
>>> from roofline.ops.contraction import matmul
>>> found = Case([matmul(8, 16, 32)], chip("h100", hbm="6.7e12"), Conventions(overlap=0.5)).answer()
>>> found.bound_by, found.footprint.fits
('hbm', True)
>>> [said for said in found.assumptions if said.kind in ("given", "estimate")]
['given by the caller: hbm at 6.7 TB/s', 'the estimate lets 50% of the shorter times overlap']
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.bounds.bound import Bound, OpBound
from roofline.bounds.conventions import DEFAULT, Conventions, measured_of
from roofline.bounds.evaluate import bound_of_work, price_op, symbolic_rates
from roofline.bounds.memory import (
    KERNELS_APART,
    Footprint,
    footprint,
    kernels,
    scores_in_memory,
    traffic,
    with_scores_on_chip,
)
from roofline.frozen import dataclass, field, replace
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import data_level, rates
from roofline.ops import tile_bytes
from roofline.quantity import format_quantity
from roofline.sizes import Size, is_number, is_one, is_symbol
from roofline.statements import Assumption, assume, kind_of
from roofline.work import Op, Work


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Operations to price on a machine, in stated conventions.

    ``memory`` holds bytes by part where they are not those of the operations' tensors. ``moved`` holds the bytes each
    operation moves where they do not follow from its tensors under the policy. ``assumptions`` and ``gaps`` are those
    of the front end; those of the machine and the conventions are added. ``request`` is what the caller asked other
    than by default, the conventions' changes unless given.
    """

    ops: Sequence[Op]
    machine: Machine
    conventions: Conventions = DEFAULT
    name: str = ""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    memory: Mapping[str, Size] | None = None
    moved: Sequence[Work] | None = None
    assumptions: Sequence[str] = ()
    gaps: Sequence[str] = ()
    request: Mapping[str, Any] | None = None
    question: Any = None

    def answer(self, *, symbolic: bool | None = None) -> Bound:
        """Price the operations. Rates are symbols (``P_bf16``, ``W_hbm``) where amounts are, or where ``symbolic``."""
        is_open = symbolic or (symbolic is None and has_symbols(self.ops))
        needed = self.footprint()
        return bound_of_work(
            self.ops, self.loads(), self.machine, expression=self.name, sizes=self.sizes, footprint=needed,
            overlap=self.conventions.overlap, overhead=self.conventions.overhead,
            assumptions=self._said(needed), gaps=self.gaps, question=self.question,
            request=self.conventions.changes() if self.request is None else self.request,
            rates_of=symbolic_rates if is_open else rates, kernels=kernels(self.ops, self.conventions.policy),
        )  # fmt: skip

    def again(self, known: Bound) -> Bound:
        """The answer to the same operations in the same conventions that takes other memory."""
        needed = self.footprint()
        rates_said = (line for line in known.assumptions if kind_of(line) == "rates")
        return replace(known, footprint=needed, assumptions=tuple(dict.fromkeys([*self._said(needed), *rates_said])))

    def loads(self) -> Sequence[Work]:
        """The bytes each operation moves."""
        if self.moved is not None:
            return self.moved
        return traffic(self.ops, self.conventions.policy, self.conventions.tile)

    def prices(self) -> list[OpBound]:
        """Each operation with its times alone, without what is said about them; amounts without a rate are left out."""
        pairs = zip(self.ops, self.loads(), strict=True)
        return [price_op(op, (op.work + load) * op.repeat, self.machine, rates, {}) for op, load in pairs]

    @property
    def is_raw(self) -> bool:
        """Whether the work was given in FLOPs and bytes, so that there are no tensors."""
        return any(op.kind == "raw" for op in self.ops)

    def footprint(self) -> Footprint | None:
        """The memory needed at once, and what the level has that data starts in; None for raw work."""
        if self.is_raw:
            return None
        where = data_level(self.machine)
        parts = footprint(self.ops).parts if self.memory is None else self.memory
        return Footprint(parts, where.name, where.capacity.value if where.capacity else None)

    def _said(self, needed: Footprint | None) -> list[Assumption]:
        """All assumptions in order: conventions, the front end's own, the machine's, the estimate's, what fits."""
        own = assume("program", self.assumptions)
        stated = {kind_of(line) for line in own}
        said = [line for line in self.conventions.said(self.machine, raw=self.is_raw) if line.kind not in stated]
        if any(dtypes.get(t.dtype).family == "complex" for op in self.ops for t in op.reads):
            text = "8 real FLOPs per complex multiply-add, 4 where one factor is real"
            said.insert(1, Assumption("counting", text))
        for text, is_met in _WITH_FEWER_FLOPS.items():
            if any(map(is_met, self.ops)):
                said.insert(1, Assumption("counting", text))
        for name, text in _UNREAD.items():
            amount = sum(op.options.get(name, 0) * op.repeat for op in self.ops)
            if is_number(amount) and amount:
                said.insert(1, Assumption("counting", f"{format_quantity(float(amount), 'B')} {text}"))
        if measured_of(self.machine) == "bandwidth":
            said.append(Assumption("machine", f"the bandwidth of {data_level(self.machine).name} is a measured one"))
        said += [*own, *_conversions_said(self.ops), *describe_given(self.machine), *self.machine.warnings]
        said += [*self.conventions.estimate_said(), *([] if needed is None else _fit_said(needed)), *self._tile_said()]
        return list(dict.fromkeys(said))

    def _tile_said(self) -> list[Assumption]:
        """Say where a tile is larger than the innermost memory of the core that works on it."""
        inner = [m for m in self.machine.memories if m.capacity is not None and not m.link]
        if self.conventions.tile is None or len(inner) < 2:
            return []
        memory = inner[-1]
        holds = memory.per_core or memory.capacity
        needed = [tile_bytes(op, *self.conventions.tile) for op in self.ops if op.kind == "contraction"]
        plain = [amount for amount in needed if isinstance(amount, int | float)]
        if holds is None or max(plain, default=0) <= holds.value:
            return []
        where = f"{memory.name} of one core" if memory.per_core else memory.name
        need, capacity = format_quantity(max(plain), "B"), format_quantity(holds.value, "B")
        return [Assumption("fit", f"does not fit: a tile needs {need}, {where} holds {capacity}")]


def _is_symmetric(op: Op) -> bool:
    """Whether a product is surely that of a matrix and its own transpose, by its sizes."""
    is_one_whole = len({tensor.ident for tensor in op.reads}) == 1 and all(t.touched is None for t in op.reads)
    if op.kind != "contraction" or not is_one_whole or not {*"mnk"} <= op.dims.keys():
        return False
    m, n, k = (op.dims[name] for name in "mnk")
    return bool(m == n and m != k and not is_one(m))


#: What is said of operations that another algorithm computes with fewer FLOPs.
_WITH_FEWER_FLOPS: Mapping[str, Callable[[Op], bool]] = {
    "convolutions are direct: Winograd's and Fourier's ways multiply less and may run faster":
        lambda op: op.kind == "convolution" and "taps" in op.options,
    "Fourier transforms count 5·n·log₂ n FLOPs; split-radix ones, about 4·n·log₂ n, may run faster":
        lambda op: op.kind == "fft",
    "a matrix times its own transpose counts whole: a kernel for one triangle of the result may run faster":
        _is_symmetric,
}  # fmt: skip


#: What windows leave of an input, by the option of an operation that says how many bytes: in words.
_UNREAD = {"between": "between windows are not read", "beyond": "past the last windows count as read, and need not be"}


def with_policy(answer: Bound, policy: str) -> Bound:
    """The operations of an answer on its machine, under another byte policy."""
    return Case([part.op for part in answer.ops], answer.machine, Conventions(policy=policy)).answer()


def scores_on_chip(answer: Bound) -> Bound | None:
    """The operations of an answer with one kernel for each attention that is written out; None where there is none."""
    policy, ops = answer.request.get("policy", "each-op"), [part.op for part in answer.ops]
    if policy not in KERNELS_APART or not scores_in_memory(ops):
        return None
    return Case(with_scores_on_chip(ops), answer.machine, Conventions(policy=policy)).answer()


def _conversions_said(ops: Sequence[Op]) -> list[Assumption]:
    """Say which operands of products are stored in other formats than the products run in: converting is not counted.

    >>> from roofline.ops.contraction import matmul
    >>> _conversions_said([matmul(8, 16, 32, b="int8")])
    ['converting operands while they are read costs nothing: int8 to bf16']
    """
    pairs: dict[str, None] = {}
    for op in ops:
        used = {key.dtype for key, _ in op.work.items() if (key.quantity, key.place) == ("flops", "matrix")}
        if len(used) == 1 and op.kind in ("contraction", "convolution", "attention"):
            into = dtypes.get(used.pop().partition("_acc")[0])
            stored = [dtypes.get(t.dtype) for t in op.reads]
            narrow = (each for each in stored if each.bits <= 16 and each.name != "bool")
            others = [each for each in narrow if each.arithmetic != into.arithmetic]
            pairs |= dict.fromkeys(f"{each.name} to {into.name}" for each in others)
    text = f"converting operands while they are read costs nothing: {', '.join(pairs)}"
    return [Assumption("counting", text)] if pairs else []


def _fit_said(needed: Footprint) -> list[Assumption]:
    if needed.fits is not False:
        return []
    total, capacity = float(needed.total), float(needed.capacity or 0)
    need, over, holds = (format_quantity(amount, "B") for amount in (total, total - capacity, capacity))
    return [Assumption("fit", f"does not fit: it needs {need}, {over} more than the {holds} of {needed.level}")]


def has_symbols(ops: Sequence[Op]) -> bool:
    """Whether any amount or size of the operations is a symbol."""
    return "sympy" in sys.modules and any(
        is_symbol(value)
        for op in ops
        for value in (*(v for _, v in op.work.items()), *op.dims.values(), *(d for t in op.reads for d in t.dims))
    )
