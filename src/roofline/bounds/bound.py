"""Bound: what operations cost on a machine, resource by resource; frozen, and able to show itself.

Every field may hold a number, an array (one entry a configuration) or a symbolic expression; see
:func:`roofline.bound` for how one is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.sizes import Size, is_array, is_symbol, maximum
from roofline.work import Op

if TYPE_CHECKING:
    from roofline.bounds.footprint import Footprint
    from roofline.bounds.ranked_plan import RankedPlan
    from roofline.hardware.machine import Machine, Rate

#: How a bound is called when a resource that does this kind of work binds.
BOUND_KINDS = {
    "flops": "compute-bound",
    "bytes": "memory-bound",
    "wire": "network-bound",
    "hops": "latency-bound",
}


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One amount on one resource: what, how much, how fast, how long."""

    resource: str
    quantity: str
    place: str
    dtype: str
    amount: Size
    rate: Rate
    time: Size


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Which resource binds, for arrays: small integers and the names they stand for.

    >>> import numpy as np
    >>> codes = Codes.of({"mxu": np.array([1.0, 3.0]), "hbm": np.array([2.0, 2.0])})
    >>> codes.codes.tolist(), codes.names, codes.decode()
    ([1, 0], ('mxu', 'hbm'), ['hbm', 'mxu'])
    """

    codes: Any
    names: tuple[str, ...]

    @classmethod
    def of(cls, times: Mapping[str, Size]) -> Codes:
        """Find the largest of the times, entry by entry; the first named wins a tie."""
        import numpy as np

        values = np.broadcast_arrays(*times.values())
        largest, codes = values[0], np.zeros(values[0].shape, np.int8)
        for code, value in enumerate(values[1:], 1):
            longer = value > largest
            codes = np.where(longer, np.int8(code), codes)
            largest = np.maximum(largest, value)
        return cls(codes, tuple(times))

    def decode(self) -> list[str]:
        """Names in flat order."""
        return [self.names[code] for code in self.codes.ravel()]


@dataclass(frozen=True, slots=True, eq=False)
class OpBound:
    """One operation with the time it takes on every resource."""

    op: Op
    uses: tuple[Use, ...]
    times: Mapping[str, Size]
    lower: Size
    upper: Size
    bound_by: str | None

    @property
    def flops(self) -> Size:
        """FLOPs on the unit that does the operation's matmuls, or on the vector unit where it has none."""
        return headline_flops(self.op.work) * self.op.repeat

    @property
    def bytes(self) -> Size:
        """Bytes moved in memory."""
        return sum(use.amount for use in self.uses if use.quantity == "bytes")

    @property
    def intensity(self) -> Size | None:
        """FLOPs a byte, None where no bytes move."""
        return ratio(self.flops, self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The answer: time on every resource, the three bounds, what binds, and what was assumed.

    Attributes
        ``flops``       FLOPs (2 per multiply-add) of the matrix work, or of the vector work where there is no other
        ``flops_by``    FLOPs by unit and arithmetic dtype, ``{"mxu/bf16": …}``; never added over units
        ``bytes``       bytes by memory level; ``wire`` bytes sent by link
        ``intensity``   ``flops`` ÷ bytes at the level data comes from, FLOP/B
        ``critical_intensity``  where that unit's time equals that level's time (the ridge), FLOP/B
        ``times``       seconds by resource
        ``lower``       everything overlaps: the largest of ``times``
        ``op_by_op``    each operation overlaps within itself: the sum of each operation's largest time
        ``upper``       nothing overlaps: the sum of ``times``
        ``estimate``    between them, where an overlap or overhead was stated, else None
        ``bound_by``    the resource that sets ``lower``; None for symbols, an array of names for arrays
        ``attainable``  ``flops`` ÷ ``lower``, FLOP/s; None where the FLOPs have no rate
        ``utilisation`` the compute unit's time ÷ ``lower``
        ``math``, ``comms``  seconds of the arithmetic, and of the busiest link or the hops
        ``plan``        how a sharded program is done: its collectives; ``plans`` every plan, best first
        ``question``    what was asked; ask it again with something changed
    """

    expression: str
    machine: Machine
    sizes: Mapping[str, Size]
    flops: Size
    flops_by: Mapping[str, Size]
    bytes: Mapping[str, Size]
    wire: Mapping[str, Size]
    intensity: Size | None
    critical_intensity: Size | None
    times: Mapping[str, Size]
    lower: Size
    op_by_op: Size
    upper: Size
    bound_by: Any
    attainable: Size | None
    utilisation: Size | None
    uses: tuple[Use, ...] = ()
    ops: tuple[OpBound, ...] = ()
    footprint: Footprint | None = None
    estimate: Size | None = None
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    request: Mapping[str, Any] = field(default_factory=dict)
    question: Any = None
    plan: str | None = None
    plans: Sequence[RankedPlan] = ()

    @property
    def target(self) -> str:
        """Name of the machine."""
        return self.machine.name

    @property
    def math(self) -> Size:
        """T_math: the time of the arithmetic, over all units; 0 where there is none.

        >>> from roofline import bound
        >>> line = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
        >>> answer = bound(line, on="v5e:2", link=4.5e10, B=64, D=1024, F=32768)
        >>> round(answer.math * 1e6, 1), round(answer.comms * 1e6, 1), round(answer.comms_over_math, 2)
        (10.9, 93.2, 8.55)
        """
        times = [use.time for use in self.uses if use.quantity == "flops"]
        return sum(times[1:], times[0]) if times else 0

    @property
    def comms(self) -> Size:
        """T_comms: the time of the busiest link to other chips, or of the hops where that is longer; 0 on one chip."""
        names = dict.fromkeys(use.resource for use in self.uses if use.quantity in ("wire", "hops"))
        times = [self.times[name] for name in names]
        return maximum(*times) if len(times) > 1 else times[0] if times else 0

    @property
    def comms_over_math(self) -> Size | None:
        """T_comms ÷ T_math: above 1 the chips wait for the network; None where nothing is computed."""
        return ratio(self.comms, self.math)

    @property
    def kind(self) -> str | None:
        """``compute-bound``, ``memory-bound``, ``network-bound`` or ``latency-bound``; None unless a plain number."""
        if not isinstance(self.bound_by, str):
            return None
        return BOUND_KINDS[next(u.quantity for u in self.uses if u.resource == self.bound_by)]

    def to_dict(self) -> dict[str, Any]:
        """The answer under documented, stable keys in SI units (schema ``roofline/bound/1``)."""
        from roofline.bounds.record import record

        return record(self)

    def explain(self) -> str:
        """The arithmetic line by line, with the source of every figure used."""
        from roofline.bounds.explain import explain

        return explain(self)

    def advise(self) -> Any:
        """What would move this bound and by how much, best first."""
        from roofline.bounds.advise import advise

        return advise(self)

    def __rich__(self) -> Any:
        from roofline.bounds.show import table

        return table(self)

    def _repr_html_(self) -> str:
        from roofline.bounds.show import html

        return html(self)

    def __repr__(self) -> str:
        from roofline.bounds.show import one_line

        return one_line(self)


def headline_flops(work: Any) -> Size:
    """FLOPs of the matrix work where there is any, else of the vector work: one unit's, never a sum over units."""
    matrix = [v for k, v in work.items() if k.quantity == "flops" and k.place == "matrix"]
    chosen = matrix or [v for k, v in work.items() if k.quantity == "flops"]
    return sum(chosen[1:], chosen[0]) if chosen else 0


def ratio(a: Size, b: Size) -> Size | None:
    """Divide, or None where there is nothing to divide by."""
    if isinstance(b, int | float) and b == 0:
        return None
    if is_symbol(a) and is_symbol(b):
        import sympy

        found = sympy.cancel(a / b)
        whole = {x: sympy.Integer(int(x)) for x in found.atoms(sympy.Float) if float(x).is_integer()}
        return found.xreplace(whole)
    if is_array(b):
        import numpy as np

        with np.errstate(all="ignore"):
            return a / b
    return a / b
