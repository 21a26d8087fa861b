"""Work: what one device must do; Op: one operation with its tensors; both frozen.

Work is a sparse vector over (quantity, place, dtype). It adds, and scales by a number:

>>> matmul = Work.flops("matrix", "bf16", 2 * 64 * 4096 * 4096)
>>> load = Work.bytes("main", 64 * 4096 * 2)
>>> (matmul + load * 3).total("bytes")
1572864
>>> Work() + matmul == matmul
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from roofline import dtypes
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.signatures import checked
from roofline.sizes import Size, is_array, product


class Key(NamedTuple):
    """What is counted: ``flops`` on a unit, ``bytes`` at a level, ``wire`` bytes or ``hops`` on an axis or link."""

    quantity: str
    place: str
    dtype: str = ""


class Work:
    """A frozen sparse vector of amounts with a zero, ``+`` and ``* n``. It knows no rates."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Key, Size] | None = None) -> None:
        self._items: Mapping[Key, Size] = dict(items or {})

    @classmethod
    def flops(cls, unit: str, dtype: str, amount: Size) -> Work:
        """Arithmetic on the ``matrix`` or ``vector`` unit in one arithmetic dtype."""
        return cls({Key("flops", unit, dtype): amount})

    @classmethod
    def bytes(cls, level: str, amount: Size) -> Work:
        """Bytes moved at a memory level; ``main`` is the chip's own HBM or DRAM."""
        return cls({Key("bytes", level): amount})

    @classmethod
    def wire(cls, axis: str, amount: Size) -> Work:
        """Bytes this device sends one way over a mesh axis or link."""
        return cls({Key("wire", axis): amount})

    @classmethod
    def hops(cls, axis: str, amount: Size) -> Work:
        """Link latencies paid one after the other over a mesh axis or link."""
        return cls({Key("hops", axis): amount})

    def __add__(self, other: Work) -> Work:
        items = dict(self._items)
        for key, amount in other._items.items():
            items[key] = items[key] + amount if key in items else amount
        return _work_of(items)

    def __mul__(self, times: Size) -> Work:
        return _work_of({key: amount * times for key, amount in self._items.items()})

    __rmul__ = __mul__

    def __getitem__(self, key: Key) -> Size:
        return self._items.get(key, 0)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        """Compare amounts; Work that holds arrays compares by identity."""
        if not isinstance(other, Work):
            return NotImplemented
        if any(is_array(v) for v in (*self._items.values(), *other._items.values())):
            return self is other
        return dict(self._items) == dict(other._items)

    __hash__ = object.__hash__

    def items(self) -> Iterator[tuple[Key, Size]]:
        """Pairs of key and amount."""
        return iter(self._items.items())

    @checked
    def total(self, quantity: str, place: str | None = None) -> Size:
        """Sum the amounts of one quantity, over all places and dtypes or at one place."""
        amounts = [v for k, v in self._items.items() if k.quantity == quantity and place in (None, k.place)]
        return sum(amounts)

    def __repr__(self) -> str:
        inside = ", ".join(f"{'/'.join(filter(None, key))}: {amount}" for key, amount in self._items.items())
        return f"Work({inside})"


def _work_of(items: dict[Key, Size]) -> Work:
    """Work of a dict that nobody else holds, which need not be copied."""
    made = object.__new__(Work)
    made._items = items
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor an operation reads or writes.

    ``ident`` says which tensor it is: the same ident written by one operation and read by another is an
    intermediate. A part of one goes by its name with a bracket. ``role`` is one of activation, weight, kv, gradient,
    index, state, raw. ``touched`` counts the elements that move where that is not all of them (the rows of a lookup);
    of an ``average`` of them the bytes are not rounded. ``storage`` names the memory it lies in where that is another
    tensor's: a weight before and after its update. ``stored`` counts the elements in memory, where padding makes them
    more than there are. ``given`` counts those that a program gives back of what it wrote, where that is a part of
    them; ``needed`` those of what it reads that a floor counts, where others were read before or no result depends on
    them. ``level`` is the memory that its bytes move at: ``main``, or ``host`` for what stays in the host's memory.
    """

    ident: str
    dims: tuple[Size, ...]
    dtype: str
    role: str = "activation"
    touched: Size | None = None
    label: str = ""
    storage: str = ""
    average: bool = False
    stored: Size | None = None
    given: Size | None = None
    needed: Size | None = None
    level: str = "main"

    @property
    def base(self) -> str:
        """The name of the whole tensor, of one that is a part of it."""
        return self.ident.partition("[")[0]

    @property
    def updates(self) -> str:
        """The tensor of which this is a part that is written in place; empty for any other."""
        return self.ident.rpartition("[+")[0]

    def updated(self, by: object, **changes: Any) -> Tensor:
        """A part of it that is written in place, under a name of its own."""
        return replace(self, ident=f"{self.ident}[+{by}]", **changes)

    @property
    def elements(self) -> Size:
        """Elements the tensor holds."""
        return product(self.dims)

    @property
    def traffic_elements(self) -> Size:
        """Elements that move when the operation reads or writes it once: those ``touched``, else all."""
        return self.elements if self.touched is None else self.touched

    @property
    def capacity_bytes(self) -> Size:
        """Bytes the tensor occupies."""
        return dtypes.get(self.dtype).nbytes(self.elements if self.stored is None else self.stored)

    @property
    def traffic_bytes(self) -> Size:
        """Bytes that move when the operation reads or writes it once."""
        dtype = dtypes.get(self.dtype)
        if self.touched is not None and self.average:
            return dtype.average_bytes(self.touched)
        return self.capacity_bytes if self.touched is None else dtype.nbytes(self.touched)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation: its arithmetic as Work, its tensors, and the shape facts a rate may depend on.

    ``work`` holds arithmetic and anything sent; bytes in memory follow from ``reads`` and ``writes`` under a byte
    policy. ``kind`` and ``dims`` are the shape facts (a contraction's m, n, k, batch). ``where`` is its place in a
    model, ``repeat`` how often it happens, ``note`` what a reader should know.

    Who makes it says what others ask of it. ``group`` is the group of equal layers it belongs to, ``phase`` the pass
    (forward, recompute, backward, optimizer), ``role`` its part in it: ``linear`` (its gradient needs nothing of the
    forward pass), ``input gradient``, ``weight gradient``, ``absorb``, ``quantised`` (sent in a format that was chosen
    for it). ``by_sequence`` says that its amounts depend on how tokens are divided into sequences, and not on their
    number alone. ``block`` is the kind of block that makes it.
    """

    name: str
    kind: str
    work: Work = field(default_factory=Work)
    reads: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    dims: Mapping[str, Size] = field(default_factory=dict)
    repeat: Size = 1
    where: str = ""
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""
    phase: str = ""
    role: str = ""
    by_sequence: bool = False
    block: str = ""


def with_tensors(op: Op, changed: Callable[[Tensor], Tensor], **more: Any) -> Op:
    """An operation with each of its tensors changed, and fields in ``more``."""
    return replace(op, reads=tuple(map(changed, op.reads)), writes=tuple(map(changed, op.writes)), **more)
