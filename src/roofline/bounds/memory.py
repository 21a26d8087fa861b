"""How much memory operations need at once, and which bytes they move through each level.

A footprint is how much they need, and says whether it fits a level.

>>> from roofline.notation import program
>>> from roofline.ops import build
>>> ops = build(program("h = bf16[B, D] * bf16[D, F]; gelu(h)"), {"B": 4, "D": 8, "F": 16})
>>> footprint(ops).parts, footprint(ops).total
({'activation': 320, 'weight': 256}, 576)

Bytes in memory from the tensors operations read and write, under a stated policy.

============ ==========================================================================================
``each-op``  every operation reads its operands and writes its result (the default)
``fused``    an elementwise operation joins the kernel that made most of its operands, if others can run before;
             what only moves inside one kernel costs nothing, and what a kernel reads it reads once; a norm with
             stored statistics is elementwise
``tiled``    as ``each-op``, but a contraction loads its operands again for every tile of its output
``minimal``  the physical floor: inputs, weights, KV and final outputs once, intermediates nothing
``streamed`` the convention of most published floors of serving: matrices' weights and what sequences keep, once
============ ==========================================================================================

>>> [sum(w.total("bytes") for w in traffic(ops, policy)) for policy in ("each-op", "fused", "minimal")]
[704, 448, 448]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, le
from typing import Any

from roofline.answers import Fact, Obstacle, with_formulas
from roofline.errors import InputError, check_one_of
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.lazy import np, sympy
from roofline.ops.contraction import tiled_tensors
from roofline.quantity import format_amount, format_apart
from roofline.sections import BLANK, Section, Sentences
from roofline.signatures import check_methods, either
from roofline.sizes import (
    Size,
    ceil_div,
    check,
    grouped,
    is_array,
    is_number,
    is_surely,
    is_symbol,
    is_zero,
    maximum,
    minimum,
    of_largest,
    sums_by_name,
    undominated,
)
from roofline.work import Key, Op, Tensor, Work

#: How near to its capacity a memory's need is decided by what the capacity is taken from, as a share.
NEAR = 0.05


@check_methods
@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Bytes by part: tensors that come from outside stay for the whole time, intermediates while they are needed.

    ``level`` and ``capacity`` are filled in once a machine is known; ``fits`` is None while the capacity is not.
    ``whole`` is the total as a shorter form than the sum of its parts.
    """

    parts: Mapping[str, Size]
    level: str = "main"
    capacity: float | None = None
    whole: Size | None = None

    @property
    def total(self) -> Size:
        """Bytes needed at once."""
        return sum(self.parts.values()) if self.whole is None else self.whole

    @property
    def fits(self) -> Any:
        """Whether everything fits the level, an array of answers for arrays; None where it is unknown or sizes open."""
        total = self.total
        if self.capacity is not None and is_array(total):
            return total <= self.capacity
        if self.capacity is None or not isinstance(total, int | float):
            return None
        return bool(total <= self.capacity)

    @property
    def obstacle(self) -> Obstacle | None:
        """That it does not fit, and why; None where it does, nobody knows, or there are several configurations."""
        return Obstacle("fit", self.needs_in_words()) if self.fits is False else None

    def only_if_fits(self, value: Size | None) -> Any:
        """A figure that holds only for what fits, a cost: None where it does not, NaN of one of several configurations.

        >>> Footprint({"weight": 144e9}, "hbm", 84.9e9).only_if_fits(2.5), Footprint({"weight": 1e9}).only_if_fits(2.5)
        (None, 2.5)
        """
        return only_where(self.fits, value)

    def of_which(self) -> str:
        """How many configurations of an array fit, behind their number; nothing where all do."""
        fits = self.fits
        return f", {int(fits.sum())} of which fit" if is_array(fits) and not fits.all() else ""

    @property
    def needs(self) -> Fact:
        """The bytes needed, for a comparison."""
        return Fact("memory needed", self.total, "B", "less", column="memory")

    @property
    def has(self) -> Fact:
        """The bytes there are, for a comparison."""
        return Fact("memory there", self.capacity, "B", "more", column="capacity")

    def misfit(self, instead: str = "") -> list[Section]:
        """The first line of an answer whose data do not fit, with what would; nothing where one configuration does.

        >>> Footprint({"weight": 144e9}, "hbm", 84.9e9).misfit("fp8 weights")[0].lines
        ['DOES NOT FIT: needs 144 GB, hbm has 84.9 GB · would fit: fp8 weights']
        """
        fits = self.fits
        none = not fits.any() if is_array(fits) else fits is False
        return [Sentences([self.misfit_in_words(instead)], "alert"), BLANK] if none else []

    def misfit_in_words(self, instead: str = "") -> str:
        """What is needed against what there is, and what would fit."""
        return f"DOES NOT FIT: {self.needs_in_words()}" + (f" · would fit: {instead}" if instead else "")

    def needs_in_words(self) -> str:
        """What is needed against what there is."""
        return f"needs {self.against_capacity()}"

    def against_capacity(self) -> str:
        """How much it is, and how much the level has."""
        needs, has = format_apart(self.total, self.capacity, "B")
        return f"{needs}, {self.level} has {has}" + " by the vendor's label" * self.rests_on_label

    @property
    def rests_on_label(self) -> bool:
        """Whether it is near a capacity of whole GB, the vendor's label: a driver may report more or less.

        >>> [Footprint({"weights": 95e9}, "hbm", has).rests_on_label for has in (94e9, 94.5e9, 80e9)]
        [True, False, False]
        """
        has, needs = self.capacity, self.total
        return bool(has and has % 1e9 == 0 and is_number(needs) and abs(needs - has) <= NEAR * has)

    def in_words(self) -> str:
        """What is needed at once, part by part, and what there is.

        >>> Footprint({"weight": 2e9, "activation": 1e6}, "hbm", 80e9).in_words()
        'needs 2 GB of memory at once (weight 2 GB, activation 1 MB); hbm has 80 GB'
        """
        parts = ", ".join(f"{role} {format_amount(size, 'B')}" for role, size in self.parts.items())
        whole, capacity = format_apart(self.total, self.total if self.capacity is None else self.capacity, "B")
        there = "" if self.capacity is None else f"; {self.level} has {capacity}"
        return f"needs {whole} of memory at once ({parts}){there}"

    def to_dict(self) -> dict[str, Any]:
        """What is needed, part by part, and what there is, under the keys that every answer has it under.

        >>> from roofline.sizes import symbol
        >>> Footprint({"kv": 2 * symbol("B")}).to_dict()["formulas"]
        {'parts.kv': '2*B', 'total': '2*B'}
        """
        return with_formulas(self.amounts())

    def amounts(self) -> dict[str, Any]:
        """The same as a part of an answer, whose formulas stand under paths of its own."""
        fields = {"level": self.level, "parts": dict(self.parts), "total": self.total}
        return {**fields, "capacity": self.capacity, "fits": self.fits}


def only_where(runs: Any, value: Size | None) -> Any:
    """A figure of what ``runs``: None where it does not, NaN of one of several configurations."""
    if value is None or not is_array(runs):
        return None if runs is False else value
    return np.where(runs, value, np.nan)


def footprint(ops: Sequence[Op]) -> Footprint:
    """Add up what lives at once: every outside tensor, plus the largest set of intermediates alive together.

    Tensors in one memory (``Tensor.storage``: a weight before and after its update) count once. One pass.
    """
    memories: dict[str, _Memory] = {}
    for index, op in enumerate(ops):
        for tensors, made in ((op.reads, False), (op.writes, True)):
            for tensor in tensors:
                memories.setdefault(tensor.storage or tensor.ident, _Memory(tensor.role)).hold(tensor, index, made=made)
    parts = sums_by_name((memory.role, memory.size) for memory in memories.values() if memory.stays)
    lives = [(memory.size, memory.made, memory.last) for memory in memories.values() if not memory.stays]
    if lives:
        parts["activation"] = parts.get("activation", 0) + most_at_once(lives, len(ops))
    return Footprint(parts)


def fullest(footprints: Sequence[Footprint]) -> Footprint | None:
    """What the stage of a pipeline holds that holds most, at each size; None where no stage says.

    >>> from roofline.sizes import symbol
    >>> B = symbol("B")
    >>> fullest([Footprint({"weights": 10, "kv": B}), Footprint({"weights": 8, "kv": B})]).parts
    {'weights': 10, 'kv': B}
    >>> fullest([Footprint({"weights": 10, "kv": B}), Footprint({"weights": 8, "kv": 2 * B})]).total.subs(B, 3)
    14
    """
    if len(footprints) < 2:
        return footprints[0] if footprints else None
    totals, kept = [each.total for each in footprints], list(footprints)
    if any(map(is_symbol, totals)):
        by_total = {sympy.expand(total): each for total, each in zip(reversed(totals), reversed(kept), strict=True)}
        totals = undominated(list(reversed(by_total)))
        kept = [by_total[total] for total in totals]
    elif not any(map(is_array, totals)):
        return max(footprints, key=lambda each: each.total)
    names = dict.fromkeys(name for each in kept for name in each.parts)
    parts = {name: of_largest(totals, [each.parts.get(name, 0) for each in kept]) for name in names}
    whole = maximum(*totals) if any(map(is_symbol, totals)) else None
    return kept[0] if len(kept) == 1 else replace(kept[0], parts=parts, whole=whole)


class _Memory:
    """One stretch of memory: when it is first read and made, when it is used last, and how large it is."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.needed = self.made = self.last = -1
        self._sizes: dict[str, Size] = {}

    def hold(self, tensor: Tensor, index: int, *, made: bool) -> None:
        """Note that an operation reads a tensor in it, or writes one."""
        if made:
            self.made = index if self.made < 0 else self.made
        else:
            self.needed = index if self.needed < 0 else self.needed
        self.last = index
        self._sizes[tensor.ident] = tensor.capacity_bytes

    @property
    def stays(self) -> bool:
        """Whether it is there from the start, or a result that nothing reads."""
        return self.needed < 0 or self.made < 0 or self.needed <= self.made

    @property
    def size(self) -> Size:
        """Bytes of the largest tensor in it."""
        return maximum(*self._sizes.values())


def most_at_once(lives: Sequence[tuple[Size, int, int]], length: int) -> Size:
    """The largest sum of sizes alive together; each lives from one step to another, both included. One pass."""
    born: list[list[Size]] = [[] for _ in range(length)]
    gone: list[list[Size]] = [[] for _ in range(length + 1)]
    for size, first, final in lives:
        born[first].append(size)
        gone[final + 1].append(size)
    alive: Size = 0
    sums: list[Size] = []
    for index in range(length):
        alive = alive + sum(born[index]) - sum(gone[index])
        sums.append(alive)
    return maximum(*(dict.fromkeys(sums) if any(map(is_symbol, sums)) else sums))


Tile = tuple[int, int, int]


def traffic(ops: Sequence[Op], policy: str = "each-op", tile: Tile | None = None) -> list[Work]:
    """Return, for each operation, the bytes it moves under ``policy``, at the memory that each tensor lies in.

    ``tile`` is (bm, bn, bk) and goes with ``tiled``. An unknown policy is an error that lists the known ones.
    """
    check_policy(policy)
    every = _tensors_moved(ops, policy, tile)
    return [Work(sums_by_name((Key("bytes", t.level), amount) for t, amount in tensors)) for tensors in every]


def _tensors_moved(ops: Sequence[Op], policy: str, tile: Tile | None) -> list[list[tuple[Tensor, Size]]]:
    """For each operation the tensors it moves, with their bytes."""
    ops = _with_results(ops)
    moves = BYTE_POLICIES[policy].moves(ops, tile)
    return [moves(index, op) for index, op in enumerate(ops)]


def _with_results(ops: Sequence[Op]) -> list[Op]:
    """The operations; one that computes nothing and whose results are all empty reads nothing.

    A model in outline computes with every parameter, and leaves the width of its results open: they have no elements.
    """

    def is_idle(op: Op) -> bool:
        are_empty = all(any(map(is_zero, each.dims)) for each in op.writes)
        return bool(op.writes) and are_empty and all(is_zero(op.work[key]) for key in op.work)

    return [replace(op, reads=()) if is_idle(op) else op for op in ops]


def check_policy(policy: str) -> None:
    """Refuse a byte policy that there is none of."""
    check_one_of(f"unknown byte policy {policy!r}", policy, BYTE_POLICIES, "byte policies")


#: Roles of what stays after the program: written for good, whoever reads it before.
_KEPT = ("kv", "state")

Chosen = tuple[list[Tensor], list[Tensor]]
Keep = Callable[[int, Op], Chosen]
#: The tensors that an operation moves, with their bytes.
Moves = Callable[[int, Op], list[tuple[Tensor, Size]]]


def _each_op(ops: Sequence[Op]) -> Keep:
    return lambda index, op: (_once(op.reads), _once(op.writes))


def kernels(ops: Sequence[Op], policy: str) -> list[int]:
    """For each operation the one that starts the kernel it runs in; empty of a policy by which each has its own.

    >>> from roofline.notation import program
    >>> from roofline.ops import build
    >>> kernels(build(program("h = bf16[B, D] * bf16[D, F]; g = gelu(h); relu(g)"), {"B": 4, "D": 8, "F": 16}), "fused")
    [0, 0, 0]
    """
    if policy != "fused":
        return []
    kernel, before = list(range(len(ops))), _KernelOrder(len(ops))
    producer, uses = _producers(ops), _consumers(ops)
    for index, op in enumerate(ops):
        made: dict[int, Size] = {}
        for maker, tensor in sorted(((producer.get(t.ident, index), t) for t in _once(op.reads)), key=lambda m: -m[0]):
            if maker < index:  # what nothing else reads is not written either
                saved = tensor.traffic_bytes * (1 + (len(uses[tensor.ident]) == 1 and tensor.role not in _KEPT))
                made[kernel[maker]] = made.get(kernel[maker], 0) + saved
        if _joins(op) and made:
            kernel[index] = before.chosen(made, index)
        before.reads(kernel[index], made)
    return kernel


class _KernelOrder:
    """Which kernels have to run before which, as bits of a number for each."""

    def __init__(self, many: int) -> None:
        self._before = [0] * many
        self._is_read = [False] * many

    def chosen(self, made: Mapping[int, Size], alone: int) -> int:
        """Of kernels that make the operands of an operation the one that it joins, ``alone`` where none can wait.

        That is the latest, or one that makes surely more, if those of the other operands can run before it.
        """
        able = [each for each in made if not any(self._before[k] >> each & 1 for k in made if k != each)]
        best = None
        for each in able:
            best = each if best is None or _is_more(made[each], made[best]) else best
        return alone if best is None else best

    def reads(self, own: int, made: Iterable[int]) -> None:
        """Note that a kernel reads what others make; so do those that read what it makes itself."""
        found = self._before[own]
        for other in made:
            if other != own:
                found |= self._before[other] | 1 << other
                self._is_read[other] = True
        if found == self._before[own]:
            return
        self._before[own] = found
        if self._is_read[own]:
            self._before = [held | found if held >> own & 1 else held for held in self._before]


def _is_more(one: Size, other: Size) -> bool:
    """Whether a size is larger than another, whatever the open ones in them are; at the least both may be alike."""
    more = one - other
    if is_symbol(more):
        beyond = {s: 1 + s.func(f"{s.name} beyond 1", integer=True, nonnegative=True) for s in more.free_symbols}
        return bool(more != 0 and more.subs(beyond).expand().is_nonnegative)
    return bool((more >= 0).all() and (more > 0).any()) if is_array(more) else bool(more > 0)


def _fused(ops: Sequence[Op]) -> Keep:
    producer, kernel = _producers(ops), kernels(ops, "fused")
    turns = [op.repeat.tobytes() if is_array(op.repeat) else op.repeat for op in ops]
    inside, payers = set[str](), dict[tuple[int, str], Tensor]()
    for ident, users in _consumers(ops).items():
        at = producer.get(ident)
        if at is not None and all(_joins(ops[user]) and kernel[user] == kernel[at] for user in users):
            inside.add(ident)
            continue
        made = None if at is None else (kernel[at], turns[at])
        own = (((kernel[user], turns[user]), user) for user in users)
        readers = grouped((own, user) for own, user in own if at is None or at >= user or own != made)
        read = (_largest_read(ops, each, ident, floor=False) for each in readers.values())
        payers |= {(index, ident): tensor for index, tensor in read}
    return lambda index, op: (
        [payers[index, t.ident] for t in _once(op.reads) if (index, t.ident) in payers],
        [
            *(t for t in _once(op.writes) if t.role in _KEPT or t.ident not in inside),
            *(_given(t) for t in _once(op.writes) if t.ident in inside and t.given is not None and t.role not in _KEPT),
        ],
    )


def _joins(op: Op) -> bool:
    """Whether an operation works element by element, so that it can run where its operand is made."""
    return op.kind == "elementwise" or (op.kind == "norm" and op.dims.get("statistics", 1) == 0)


def _minimal(ops: Sequence[Op]) -> Keep:
    producer, consumers = _producers(ops), _consumers(ops)
    # the last that writes all of a tensor: what others write is a part of that
    whole = {t.ident: index for index, op in enumerate(ops) for t in op.writes if t.touched is None}
    ops = _moving_what_is_read(ops, consumers)
    read = (_largest_read(ops, users, of) for of, users in consumers.items() if of not in producer)
    payers = {(index, tensor.ident): tensor for index, tensor in read}

    def stays(index: int, ident: str) -> bool:
        users = [ops[user] for user in consumers.get(ident, ())]
        adding = all(op.kind == "scatter" and any(t.ident == ident for t in op.writes) for op in users)
        return adding and whole.get(ident, index) == index  # read only to add to a part of it in place

    return lambda index, op: (
        [payers[index, t.ident] for t in _once(ops[index].reads) if (index, t.ident) in payers],
        [_given(t) for t in _once(op.writes) if t.role in _KEPT or t.given is not None or stays(index, t.ident)],
    )


#: Kinds of operations that take each element of their results from one element of each tensor that they read, or from
#: as many as a larger one has for each (the gate and the other half of ``glu``).
_MOVING = ("copy", "gather", "elementwise")


def _moving_what_is_read(ops: Sequence[Op], consumers: Mapping[str, Sequence[int]]) -> Sequence[Op]:
    """The operations; one that works element by element, for others that pick among its results, reads what they take.

    So it does for a program that gives back a part of its results. One that joins several tensors reads no more of all
    of them together.
    """
    found = list(ops)
    for index, op in reversed(list(enumerate(ops))):
        only = op.writes[0] if op.kind in _MOVING and len(op.writes) == 1 else None
        only = None if only is not None and "[" in only.ident else only  # a part goes by other names where it is read
        users = [] if only is None else [found[user] for user in consumers.get(only.ident, ())]
        given = [] if only is None or only.given is None or is_zero(only.given) else [only.given]
        if only is None or only.role in _KEPT or not (users or given):
            continue
        seen = [(user, t) for user in users for t in user.reads if t.ident == only.ident]
        if any(t.dtype != only.dtype for _, t in seen):
            continue
        taken = [*given, *(_amount(t) * user.repeat for user, t in seen)]
        left = sum(taken)
        if not is_surely(ge, left, only.elements):
            reads = []
            for tensor in op.reads:
                views = sum(each.ident == tensor.ident for each in op.reads)
                several = ceil_div(tensor.elements, only.elements) if op.kind == "elementwise" else 1
                reads.append(_at_most(tensor, views * left * several))
                left = maximum(0, left - _amount(reads[-1])) if op.kind == "copy" else left
            found[index] = replace(op, reads=tuple(reads))
    return found


def _amount(tensor: Tensor) -> Size:
    """Elements that a floor counts of what is read."""
    return _needed(tensor).traffic_elements


def _at_most(tensor: Tensor, elements: Size) -> Tensor:
    """The tensor with no more of it read; where it is known what all its parts need together, the first may have it."""
    if tensor.needed is not None or is_surely(le, _amount(tensor), elements):
        return tensor
    return replace(tensor, needed=minimum(_amount(tensor), elements))


def _given(tensor: Tensor) -> Tensor:
    """The tensor with so much of it moved as the program gives back."""
    return tensor if tensor.given is None else replace(tensor, touched=tensor.given)


def _needed(tensor: Tensor) -> Tensor:
    """The tensor with so much of it moved as a floor counts of what is read."""
    return tensor if tensor.needed is None else replace(tensor, touched=tensor.needed)


def missing_tile() -> InputError:
    """The error of a tiled policy whose tile is not given."""
    hint = f"say {either('--tile 128,128,64', 'tile=(128, 128, 64)')}"
    return InputError("the byte policy 'tiled' needs a tile", hint=hint)


def _tiled(ops: Sequence[Op], tile: Tile | None) -> Moves:
    if tile is None:
        raise missing_tile()
    for name, size in zip(("bm", "bn", "bk"), tile, strict=True):
        check(name, size)
    plain = _each_op(ops)
    return lambda index, op: tiled_tensors(op, *tile[:2]) if op.kind == "contraction" else _whole(*plain(index, op))


def _streamed(ops: Sequence[Op]) -> Keep:
    """Matrices' weights where a contraction reads them; what a sequence keeps where it is written, else first read.

    That is keys and values, and the states of recurrent layers. An embedding table is only gathered from, so it does
    not count.
    """
    first: dict[str, int] = {}
    for index, op in enumerate(ops):
        for tensor in (*op.reads, *op.writes):
            if _is_kept(op, tensor) or tensor.needed is not None:
                first.setdefault(tensor.ident, index)

    def kept(index: int, op: Op) -> Chosen:
        new = [t for t in op.reads if first.get(t.ident, index) == index]
        weights = [_needed(t) for t in new if t.role == "weight" and op.kind == "contraction" and len(t.dims) > 1]
        cached = [t for t in new if _is_kept(op, t)]
        return [*weights, *cached], [_given(t) for t in op.writes if _is_kept(op, t)]

    return kept


def _is_kept(op: Op, tensor: Tensor) -> bool:
    """Whether a tensor is what a sequence keeps between steps; a program's buffers are states too, and none of it."""
    return tensor.role == "kv" or (tensor.role == "state" and op.kind in ("recurrence", "convolution"))


class Policy(NamedTuple):
    """A byte policy: what it says of itself, in brief too, and which tensors operations move under it, with bytes."""

    text: str
    brief: str
    moves: Callable[[Sequence[Op], Tile | None], Moves]


def _keeping(text: str, brief: str, keep: Callable[[Sequence[Op]], Keep]) -> Policy:
    """A policy that counts the bytes of the tensors it keeps of each operation."""

    def moves(ops: Sequence[Op], tile: Tile | None) -> Moves:
        kept = keep(ops)
        return lambda index, op: _whole(*kept(index, op))

    return Policy(text, brief, moves)


def _whole(reads: Sequence[Tensor], writes: Sequence[Tensor]) -> list[tuple[Tensor, Size]]:
    return [(tensor, tensor.traffic_bytes) for tensor in (*reads, *writes)]


#: Byte policies by name, for every front end.
BYTE_POLICIES: dict[str, Policy] = {
    "each-op": _keeping(
        "each operand read once and each result written once", "every operation reads and writes", _each_op
    ),
    "fused": _keeping(
        "elementwise operations, and a batch norm with stored statistics too, run inside the kernel that made their "
        "operand; the rest read and write",
        "elementwise work joins the operation before",
        _fused,
    ),
    "tiled": Policy(
        "contractions load their operands again for every output tile", "operands again for every tile", _tiled
    ),
    "minimal": _keeping(
        "weights, keys and values, states, inputs and outputs move once, intermediates nothing: the floor",
        "no intermediates",
        _minimal,
    ),
    "streamed": _keeping(
        "only matrices' weights, keys, values and recurrent states move, once: no norms, activations, rows or outputs",
        "weights and caches alone",
        _streamed,
    ),
}


def moved_tensors(ops: Sequence[Op], policy: str = "each-op", tile: Tile | None = None) -> list[list[tuple[str, Size]]]:
    """For each operation the role and bytes of every tensor it moves.

    >>> from roofline.ops.contraction import matmul
    >>> moved_tensors([matmul(8, 16, 32)])
    [[('activation', 512), ('weight', 1024), ('activation', 256)]]
    """
    return [[(tensor.role, amount) for tensor, amount in tensors] for tensors in _tensors_moved(ops, policy, tile)]


#: Kinds of operations that stand between the two products of an attention that is written out.
_ON_SCORES = ("elementwise", "softmax", "reduction", "copy")

#: The byte policies under which what stands between two kernels is written and read.
KERNELS_APART = ("each-op", "fused")


def scores_in_memory(ops: Sequence[Op]) -> frozenset[str]:
    """Tensors between the two products of an attention that is written out: scores, probabilities, what makes them.

    Between the two there is a softmax, or what one is made of, and nobody else reads what stands between.

    >>> from roofline.notation import program
    >>> from roofline.ops import build
    >>> line = "s = bf16[S, D] * bf16[T, D]; p = softmax_T(s); p * bf16[T, E]"
    >>> sorted(scores_in_memory(build(program(line), {"S": 64, "T": 64, "D": 16, "E": 16})))
    ['p', 's']
    """
    consumers, found = _consumers(ops), set[str]()
    for op in ops:
        if op.kind != "contraction" or len(op.writes) != 1:
            continue
        waiting, inside, ends, rows = [op.writes[0].ident], set[str](), 0, set[Any]()
        while waiting:
            ident = waiting.pop()
            users = [ops[user] for user in consumers.get(ident, ())]
            products = [user for user in users if user.kind == "contraction"]
            between = [user for user in users if user.kind in _ON_SCORES]
            if not users or len(products) + len(between) < len(users):
                break
            inside.add(ident)
            ends += len(products)
            rows |= {each for user in between for each in (user.kind, user.options.get("function"))}
            made = {tensor.ident for user in between for tensor in user.writes}
            waiting += made - inside - set(waiting)
        else:
            if ends and ("softmax" in rows or {"exp", "reduction"} <= rows):
                found |= inside
    return frozenset(found)


def with_scores_on_chip(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operations, as one kernel for attention runs them: scores and probabilities are neither written nor read."""
    inside = scores_in_memory(ops)

    def moved(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in tensors if tensor.ident not in inside)

    return tuple(replace(op, reads=moved(op.reads), writes=moved(op.writes)) for op in ops)


def _largest_read(ops: Sequence[Op], users: Sequence[int], of: str, floor: bool = True) -> tuple[int, Tensor]:
    """Of the operations that read a tensor, the one that touches most of it: a tied table is looked up and streamed.

    With it goes the tensor with as much of it as any touches: of open sizes and arrays another may touch more at some.

    >>> from roofline.sizes import symbol
    >>> ops = [Op("", "gather", reads=(Tensor("table", (99,), "int8", touched=symbol(name)),)) for name in "BC"]
    >>> _largest_read(ops, [0, 1], "table")[1].touched
    Max(B, C)
    """
    reads = [(at, _needed(t) if floor else t) for at in users for t in _once(ops[at].reads) if t.ident == of]
    if len(reads) == 1:
        return reads[0]
    at, largest = reads[0]
    for index, tensor in reads:
        if tensor.touched is None:
            return index, tensor
        if is_surely(gt, tensor.touched, largest.touched):
            at, largest = index, tensor
    return at, replace(largest, touched=maximum(*(t.touched for _, t in reads)))


def _once(tensors: Sequence[Tensor]) -> list[Tensor]:
    """An operand named twice (``h * h``) is read once."""
    return list({t.ident: t for t in tensors}.values())


def _producers(ops: Sequence[Op]) -> dict[str, int]:
    return {t.ident: index for index, op in enumerate(ops) for t in op.writes}


def _consumers(ops: Sequence[Op]) -> dict[str, list[int]]:
    return grouped((t.ident, index) for index, op in enumerate(ops) for t in op.reads)
