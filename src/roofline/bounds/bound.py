"""Bound: what operations cost on a machine, resource by resource; frozen, and able to show itself.

Every field may hold a number, an array (one entry a configuration) or a symbolic expression; see
:func:`roofline.bound` for how one is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from roofline.answers import (
    OPERATIONS,
    Comparable,
    Fact,
    capability,
    chosen_table,
    expected_facts,
    heading,
    open_as_null,
    plain_data,
    whole,
)
from roofline.bounds.cost import BY_FORM, MillionCost, power_asked, token_cost
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, SizeError, check_one_of, quoted
from roofline.frozen import dataclass, field, replace
from roofline.hardware.figures import hourly_price, price_source, said_elsewhere
from roofline.hardware.machine import Machine, Rate
from roofline.hardware.rate import main_level
from roofline.lazy import np, sympy
from roofline.quantity import EQUAL, format_amount, format_change, format_number, format_percent, given_amount
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Pairs,
    Row,
    Section,
    Sentences,
    ShareBar,
    Table,
    Words,
    YesNo,
    assumes,
    caveats,
    figures,
    incomplete,
)
from roofline.signatures import call, either, spelled
from roofline.sizes import (
    LARGEST,
    Codes,
    Size,
    ceil_div,
    grouped,
    is_array,
    is_number,
    is_one,
    is_symbol,
    is_zero,
    longest,
    maximum,
    read_only,
    sums_by_name,
)
from roofline.statements import Gap, kind_of, untimed_parts, without
from roofline.work import Op

#: The times of a bound: all overlaps, each operation overlaps within itself, nothing overlaps.
BOUNDS = ("lower", "op_by_op", "upper")

#: The kind of a bound, by the quantity of the resource that binds.
BINDS = {"flops": "compute", "bytes": "memory", "wire": "network", "hops": "latency"}
BOUND_KINDS = {quantity: f"{what}-bound" for quantity, what in BINDS.items()}

#: The unit of each quantity, and of its rate.
UNITS = {"flops": ("FLOP", "FLOP/s"), "bytes": ("B", "B/s"), "wire": ("B", "B/s"), "hops": ("hops", "hops/s")}

SCHEMA = "roofline/bound/1"

#: The longest bar of a resource, in characters.
_BAR = 24

#: The row of a table that has the sum of the others' times.
ALL_IN_TURN = "sum"

#: What a time is called where each kernel overlaps within itself, with what a byte policy joins to it.
KERNELS_IN_TURN = "kernel by kernel"

#: The share of the bytes that scores of attention are for a word on one kernel for all of it.
_MUCH = 0.25

#: The share of the time that fusing saves for a word on it.
_GAIN = 0.02

#: Plans shown beside a bound.
_FEW_PLANS = 4


@dataclass(frozen=True, slots=True, eq=False)
class ResourceUse:
    """One amount on one resource: what, how much, how fast, how long."""

    resource: str
    quantity: str
    place: str
    dtype: str
    amount: Size
    rate: Rate
    time: Size

    @property
    def network(self) -> str:
        """The kind of link that it goes over, whichever the axis: ``ici`` of ``ici X``."""
        return self.rate.link

    @property
    def axis(self) -> str:
        """The axis that it goes over, whichever part of it: ``X`` of ``X.1``."""
        return self.rate.axis

    def __repr__(self) -> str:
        unit = "FLOP" if self.quantity == "flops" else "" if self.quantity == "hops" else "B"
        of = f" {self.dtype}" if self.dtype else ""
        amount, time = format_amount(self.amount, unit), format_amount(self.time, "s")
        return f"<ResourceUse {self.resource}{of}: {amount} in {time}>"


def decoded(binding: Any) -> Any:
    """What binds: a name, names for arrays, None for formulas."""
    return binding.decode() if isinstance(binding, Codes) else binding


#: The fields of a bound that are single amounts, and those that are an amount for each resource.
AMOUNTS = (
    "flops", "intensity", "critical_intensity", "lower", "op_by_op", "upper", "estimate", "attainable", "utilisation",
)  # fmt: skip
TABLES = ("flops_by", "bytes", "wire", "times")


def binding(times: Mapping[str, Size]) -> Any:
    """The resource that takes longest, of arrays for each entry; None where there is none or sizes are open."""
    values = list(times.values())
    if not values or any(is_symbol(v) for v in values):
        return None
    if any(is_array(v) for v in values):
        return Codes.of(times)
    return longest(times)


@dataclass(frozen=True, slots=True, eq=False)
class OpBound:
    """One operation with the time it takes on every resource; ``kernel``: which one starts the kernel it runs in."""

    op: Op
    uses: tuple[ResourceUse, ...]
    times: Mapping[str, Size]
    lower: Size
    upper: Size
    kernel: int | None = None

    def __repr__(self) -> str:
        binds = f", {self.bound_by}" if isinstance(self.bound_by, str) else ""
        return f"<OpBound {self.op.name}: {format_amount(self.lower, 's')} at best{binds}>"

    @property
    def bound_by(self) -> Any:
        """The resource that takes longest."""
        return binding(self.times)

    @property
    def flops(self) -> Size:
        """FLOPs on the unit that does the operation's matmuls, or on the vector unit where it has none."""
        return headline_flops(self.op.work) * self.op.repeat

    @property
    def bytes(self) -> Size:
        """Bytes moved in memory."""
        return sum(use.amount for use in self.uses if use.quantity == "bytes")

    @property
    def read_bytes(self) -> Size:
        """Bytes of the operands as they stand in memory."""
        return sum(tensor.traffic_bytes for tensor in self.op.reads)

    @property
    def written_bytes(self) -> Size:
        """Bytes of the results as they stand in memory."""
        return sum(tensor.traffic_bytes for tensor in self.op.writes)

    @property
    def sent(self) -> Size:
        """Bytes sent over the link that takes longest with them; of open sizes the most over any."""
        wires = [use for use in self.uses if use.quantity == "wire"]
        if all(is_number(use.time) for use in wires):
            return max(wires, key=lambda use: float(use.time)).amount if wires else 0
        return maximum(*(use.amount for use in wires))

    @property
    def intensity(self) -> Size | None:
        """FLOPs a byte, None where no bytes move."""
        return ratio(self.flops, self.bytes)


class Measurable:
    """What was ``measured`` and estimated of something with bounds; None where nothing was."""

    __slots__ = ()
    measured: float | None
    lower: Size
    upper: Size
    estimate: Size | None
    expectation: Any

    @property
    def over_floor(self) -> Size | None:
        """How many times the floor it takes in reality."""
        return None if self.measured is None else self.measured / self.lower

    @property
    def fraction(self) -> Size | None:
        """The share of the speed at the floor that it reaches in reality.

        >>> from roofline import bound
        >>> round(bound("bf16[4096, 4096] @ bf16[4096, 4096]", on="a100", measured="620us").fraction, 2)
        0.71
        """
        return None if self.measured is None else self.lower / self.measured

    @property
    def overlapped(self) -> Size | None:
        """The share of times that overlaps, if what was measured lies between the bounds; else None."""
        return overlapped(self.measured, self.lower, self.upper)

    @property
    def stated_estimate(self) -> Size | None:
        """Seconds with the stated overlap and overhead, also beside an estimate by constants; None: none was stated.

        >>> from roofline import bound
        >>> line = "bf16[512, 4096] * bf16[4096, 4096]"
        >>> [bound(line, on="h100", **more).stated_estimate for more in ({"overlap": 1}, {"estimate": True})]
        [1.7...e-05, None]
        """
        if self.expectation is None or self.estimate is None:
            return self.estimate
        constants = self.expectation.value
        same = self.estimate is constants or (not is_array(constants) and self.estimate == constants)
        return None if same else self.estimate


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bound(Measurable, Comparable):
    """The answer: time on every resource, the three bounds, what binds, and what was assumed.

    Attributes
        ``flops``       FLOPs (2 per multiply-add) of the matrix work, or of the vector work where there is no other
        ``flops_by``    FLOPs by unit and arithmetic dtype, ``{"mxu/bf16": …}``; never added over units
        ``bytes``       bytes by memory level, which :attr:`total_bytes` adds up; ``wire`` bytes sent by link
        ``intensity``   ``flops`` ÷ bytes at the level data comes from, FLOP/B
        ``critical_intensity``  where that unit's time equals that level's time (the ridge), FLOP/B
        ``times``       seconds by resource
        ``lower``       everything overlaps: the largest of ``times``
        ``op_by_op``    each operation overlaps within itself: the sum of each operation's largest time
        ``upper``       nothing overlaps: the sum of ``times``
        ``estimate``    between them, where an overlap or overhead was stated; what to expect, where constants were
                        asked for; else None
        ``expectation`` what the estimate by constants rests on: its interval, kernel by kernel
        ``cost``        dollars and energy of a million runs at ``lower``, where a price or a power was given
        ``measured``    seconds it takes in reality, where they were given; ``over_floor`` how many times ``lower``, and
                        ``fraction`` the share of that speed it reaches
        ``bound_by``    the resource that sets ``lower``, as ``hbm``; None for symbols, an array of names for arrays;
                        :attr:`kind` says what sort it is, as ``memory-bound``
        ``attainable``  ``flops`` ÷ ``lower``, FLOP/s; None where the FLOPs have no rate
        ``utilisation`` the compute unit's time ÷ ``lower``
        ``math``, ``comms``  seconds of the arithmetic, and of the busiest link or the hops
        ``plan``        how a sharded program is done: its collectives; ``plans`` every plan, best first
        ``question``    what was asked; ask it again with something changed
        ``program``     the traced program whose operations these are; None of a line

    A formula is an expression of sympy. A size in it is a symbol that is positive and whole, so that a name alone is
    another symbol: ``subs({"B": 64})`` changes nothing. :meth:`compile` takes sizes by name.

    >>> from roofline import bound
    >>> from roofline.sizes import symbol
    >>> found = bound("bf16[B, D] * bf16[D, F]", on="h100", D=8192, F=8192)
    >>> found.flops, found.flops.subs(symbol("B"), 64), int(found.compile()(B=64)["flops"])
    (134217728*B, 8589934592, 8589934592)
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
    uses: tuple[ResourceUse, ...] = ()
    ops: tuple[OpBound, ...] = ()
    footprint: Footprint | None = None
    estimate: Size | None = None
    assumptions: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    request: Mapping[str, Any] = field(default_factory=dict)
    question: Any = None
    plan: str | None = None
    plans: Sequence[Any] = ()
    expectation: Any = None
    measured: float | None = None
    cost: MillionCost | None = None
    program: Any = None

    def __post_init__(self) -> None:
        if is_array(self.lower):
            for name in AMOUNTS:
                read_only(getattr(self, name))
            for amount in (each for name in TABLES for each in getattr(self, name).values()):
                read_only(amount)

    @property
    def target(self) -> str:
        """Name of the machine."""
        return self.machine.name

    @property
    def total_bytes(self) -> Size:
        """Bytes that one chip moves at all memory levels."""
        return sum(self.bytes.values())

    @property
    def sent(self) -> Size:
        """Bytes that one chip sends over its busiest links, all axes together."""
        return sum(self.wire.values())

    @property
    def sent_both_ways(self) -> Size:
        """Bytes over those links in both directions, as the book counts them: T_comms · W of rings that send both ways.

        >>> from roofline import bound
        >>> line = "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]"
        >>> sizes = {"B": 1024, "D": 8192, "F": 32768}
        >>> found = bound(line, on="v5p", mesh={"X": 16}, algorithm="book", plan="fewest", sizes=sizes)
        >>> found.sent_both_ways == 4 * 8192 * 32768
        True
        """
        return 2 * self.sent

    @property
    def flops_of_all(self) -> Size:
        """FLOPs of all chips of the mesh, repeated work included.

        >>> from roofline import bound
        >>> found = bound("A[B_X, D_Y] *_D W[D_Y, F]", on="v5p", mesh={"X": 4, "Y": 8, "Z": 4}, B=1024, D=4096, F=8192)
        >>> found.flops_of_all == 2 * 1024 * 4096 * 8192 * 4  # nothing is split over Z
        True
        """
        mesh = self.machine.mesh
        return self.flops if mesh is None else self.flops * mesh.chips

    @property
    def idle(self) -> Size | None:
        """Share of the time that the compute unit waits where all overlaps: 1 − ``utilisation``."""
        return None if self.utilisation is None else 1 - self.utilisation

    @property
    def ridge_over_intensity(self) -> Size | None:
        """How many times the intensity the ridge is: what it lacks to be compute-bound; below 1 it is.

        >>> from roofline import bound
        >>> round(bound(intensity=0.5, on="v5e", set={"hbm": 8.2e11}).ridge_over_intensity, 1)
        480.5
        """
        return None if self.critical_intensity is None else ratio(self.critical_intensity, self.intensity or 0)

    def throughput(self, size: str) -> Size:
        """How many of a size there are a second where all overlaps: the size ÷ ``lower``.

        >>> from roofline import bound
        >>> step = bound(bytes="B*KV + P", on="v5e", sizes={"B": 8, "KV": 6.7e9, "P": 26e9}, set={"hbm": 6.56e12})
        >>> round(step.throughput("B"), 1)
        659.3
        """
        check_one_of(f"nothing here is called {size!r}", size, self.sizes, "sizes", error=SizeError)
        return self.sizes[size] / self.lower

    def chips_for(self, time: float) -> int:
        """The fewest such chips that take no longer than ``time`` seconds, where they share all of it evenly.

        >>> from roofline import bound
        >>> bound(bytes=405e9, on="v5e").chips_for(15e-3)
        33
        """
        if self.machine.mesh is not None and not is_one(self.machine.mesh.chips):
            raise InputError("chips_for shares the work of one chip", hint="ask about one chip, without a shape")
        if not isinstance(time, int | float) or not 0 < time < float("inf"):
            raise InputError(f"a time of {quoted(time)}", hint="seconds, above 0")
        if not isinstance(self.lower, int | float):
            raise InputError("chips_for is of one configuration", hint="give each size one number")
        if self.lower / time > LARGEST:
            raise InputError(f"no number of chips does this in {quoted(time)} seconds", hint="give a longer time")
        return int(ceil_div(self.lower, time)) * self.machine.pooled

    @property
    def overlap_gain(self) -> Size | None:
        """How many times faster it is with all overlapped than with nothing: ``upper`` ÷ ``lower``."""
        return ratio(self.upper, self.lower)

    def beside(self, measured: float | str) -> Bound:
        """The answer beside what it takes in reality, in seconds or as text with a unit.

        >>> from roofline import bound
        >>> found = bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100").beside("60us")
        >>> round(found.over_floor, 2), found.overlapped is None
        (1.48, True)
        """
        if is_array(self.lower) or is_symbol(self.lower):
            python = 'roofline.profile([{"m": 64, "n": 8192, "k": 8192, "us": 96}, …])'
            rows = either("`roofline profile runs.csv`", python)
            hint = f"give each size one number; {rows} takes many runs"
            raise InputError("a measured time is of one configuration", hint=hint)
        if self.is_rate_only:
            raise InputError("a measured time is of an amount of work", hint="give FLOPs and bytes, not an intensity")
        return replace(self, measured=given_amount("measured", measured))

    def priced(self, price: Any = None, power: Any = None) -> Bound:
        """The answer with the cost of a million runs: ``price`` of one chip for an hour, ``power`` of one chip.

        It is at the stated overlap and overhead, at the time to expect where that is known of all sizes, or else at the
        floor.

        >>> from roofline import bound
        >>> found = bound("bf16[8192, 8192] * bf16[8192, 8192]", on="h100").priced(3.6, "tdp")
        >>> round(found.cost.dollars, 3), round(found.cost.joules, 3)
        (1.111, 0.778)
        """
        if is_symbol(self.lower):
            raise InputError("a cost is of one size or several", hint="give each size a number")
        if self.is_rate_only:
            raise InputError("a cost is of an amount of work", hint="give FLOPs and bytes, not an intensity")
        (watts, upper), dollars = power_asked(self.machine, power), hourly_price(self.machine, price)
        chips = self.machine.chips * self.machine.pooled

        def cost(form: str, time: Size) -> MillionCost:
            found = token_cost(time=time, tokens=1, chips=chips, price=dollars, power=watts)
            found = replace(found, of="run", form=form)
            return found if self.footprint is None else found.where_it_fits(self.footprint)

        found, stated, expected = cost("lower", self.lower), self.stated_estimate, self.expectation
        if stated is not None:
            found = cost("estimate", stated)
        elif expected is not None and (expected.is_known.all() if is_array(expected.is_known) else expected.is_known):
            found = replace(cost("expected", expected.value), floor=found)
        sources = (*price_source(self.machine, dollars, price), *upper)
        return replace(self, cost=found, assumptions=(*self.assumptions, *sources))

    @property
    def math(self) -> Size:
        """T_math: the time of the busiest unit, in all its formats; 0 where nothing is computed.

        >>> from roofline import bound
        >>> line = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
        >>> answer = bound(line, on="v5e:2", link=4.5e10, B=64, D=1024, F=32768)
        >>> round(answer.math * 1e6, 1), round(answer.comms * 1e6, 1), round(answer.comms_over_math, 2)
        (10.9, 93.2, 8.55)
        """
        return self._longest("flops")

    @property
    def comms(self) -> Size:
        """T_comms: the time of the busiest link to other chips, or of the hops where that is longer; 0 on one chip."""
        return self._longest("wire", "hops")

    @property
    def moving(self) -> Size:
        """The time of the busiest memory level; 0 where nothing is read or written.

        >>> from roofline import bound
        >>> round(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100").moving * 1e6, 1)
        40.7
        """
        return self._longest("bytes")

    def _longest(self, *quantities: str) -> Size:
        """The longest time of the resources that work on these quantities."""
        names = dict.fromkeys(name for name, quantity in self._worked_on() if quantity in quantities)
        return maximum(*(self.times[name] for name in names if name in self.times))

    def _worked_on(self) -> list[tuple[str, str]]:
        """Each resource with each quantity it works on; of arrays, which say no uses, with the one that tables say."""
        if self.uses:
            return list(dict.fromkeys((use.resource, use.quantity) for use in self.uses))
        computing = (name.partition("/")[0] for name in self.flops_by)
        tables = {"hops": self.times, "wire": self.wire, "bytes": self.bytes, "flops": computing}
        return list({name: quantity for quantity, names in tables.items() for name in names}.items())

    @property
    def comms_over_math(self) -> Size | None:
        """T_comms ÷ T_math: above 1 the chips wait for the network; None where nothing is computed."""
        return ratio(self.comms, self.math)

    @property
    def kind(self) -> Any:
        """``compute-bound``, ``memory-bound``, ``network-bound`` or ``latency-bound``: of arrays one an entry.

        None of a formula.
        """
        if isinstance(self.bound_by, Codes):
            return Codes(self.bound_by.codes, tuple(map(self._kind_of, self.bound_by.names)))
        return None if self.bound_by is None else self._kind_of(self.bound_by)

    def _kind_of(self, resource: str) -> str:
        """What a step is bound by where this resource binds: a link to the host may be the one that chips send over,
        and then what takes longest on it decides.
        """
        times = {quantity: 0.0 for name, quantity in self._worked_on() if name == resource}
        for use in self.uses:
            if use.resource == resource:
                times[use.quantity] += float(use.time.sum() if is_array(use.time) else use.time)
        return BOUND_KINDS[longest(times)]

    @property
    def is_rate_only(self) -> bool:
        """Whether an intensity was asked about: then the amounts and times mean nothing."""
        return self.question is not None and self.question.raw.get("intensity") is not None

    @property
    def is_floor(self) -> bool:
        """Whether its first fact is a time: of an intensity alone it is a rate."""
        return not self.is_rate_only

    def to_dict(self) -> dict[str, Any]:
        """The answer under documented, stable keys in SI units (schema ``roofline/bound/1``).

        Numbers stay numbers, arrays become equal-length lists, symbols become null with the formula under
        ``formulas``; there is never a NaN.

        >>> from roofline import bound
        >>> found = bound("bf16[B, D] * bf16[D, F]", on="v5e", B=8, D=256, F=256).to_dict()
        >>> found["schema"], found["bound_by"], found["bytes"]
        ('roofline/bound/1', 'hbm', {'hbm': 139264})
        >>> bound("bf16[B, D] * bf16[D, F]", on="v5e").to_dict()["formulas"]["flops"]
        '2*B*D*F'
        """
        return _record(self)

    def explain(self) -> str:
        """The arithmetic line by line, with the source of every figure used.

        >>> from roofline import bound
        >>> answer = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
        >>> print("\\n".join(answer.explain().splitlines()[1:5]))
        T_mxu = 8.59 GFLOP / 197 TFLOP/s = 43.6 µs
        T_hbm = 69.2 MB / 819 GB/s = 84.5 µs
        lower bound = max = 84.5 µs (hbm binds); upper bound = sum = 128 µs
        intensity = 124 FLOP/B, ridge = 241 FLOP/B
        """
        return "\n".join(explanation(self))

    def advise(self) -> Any:
        """What would move this bound and by how much, best first."""
        return capability("Bound.advise")(self)

    def formula(self, **point: float) -> Any:
        """The closed form of it: terms by resource, flips, elasticities; ``point`` gives sizes that are open values.

        >>> from roofline import bound
        >>> bound("bf16[B, D] * bf16[D, F]", on="h100").formula(B=64, D=8192, F=8192)
        <Formula: bf16[B, D] * bf16[D, F] -> bf16[B, F] on NVIDIA H100 SXM5 80GB, 2 terms, hbm binds>

        ``printed("latex")`` of it is for a paper; sympy's own printer takes ``hbm`` in a name for a bold h.
        """
        return capability("Bound.formula")(self, **point)

    def compile(self) -> Any:
        """A function of arrays of the sizes that are open, which gives columns.

        >>> from roofline import bound
        >>> f = bound("bf16[B, D] * bf16[D, F]", on="h100").compile()
        >>> [round(t * 1e6, 1) for t in f(B=[64, 4096], D=8192, F=8192)["lower"].tolist()]
        [40.7, 555.6]
        """
        return self.formula().compile()

    def idle_copies(self) -> str:
        """That nothing is sharded over its chips, and how it would be; nothing where it is, or on one chip."""
        return next((each for each in self.assumptions if kind_of(each) == "alike"), "")

    def sections_in_full(self) -> Iterator[Section]:
        """What it says, with its operations also where there is one, and where in a program each stands."""
        return self.sections(in_full=True)

    def sections(self, advice: Sequence[Section] = (), *, in_full: bool = False) -> Iterator[Section]:
        """A row a resource with its bar, the bounds in words, operations, ``advice``, plans, and what was assumed.

        Of a traced program its modules stand first, as on a command line.
        """
        if self.program is not None and not in_full:
            yield from self.program.sections_under(self, advice)
            return
        yield from (Headline(self.expression, f"on {self.target}"), BLANK)
        yield from () if self.footprint is None else self.footprint.misfit()
        yield from caveats(self.assumptions)
        yield from (Sentences([alike], "alert"), BLANK) if (alike := self.idle_copies()) else ()
        yield from (Sentences([idle]), BLANK) if (idle := _idle_policy(self)) else ()
        if self.expectation is not None and is_number(self.lower):
            yield from (Sentences([self.expectation.in_words()], "strong"), BLANK)
        if not self.is_rate_only:
            yield from (_resources(self), BLANK)
        first, *others = bounds_in_words(self)
        yield Sentences([first, *(unfused_in_words({"": self}) if self.question is None else ()), *others])
        if in_full or len(self.ops) > 1:
            yield from (BLANK, *_operations(self, in_full))
        if self.question is None and is_number(self.op_by_op):
            yield from fusing_in_words(self)
        if self.expectation is not None and len(self.ops) > 1:
            yield from (BLANK, *self.expectation.sections())
        if advice:
            yield from (BLANK, *advice)
        if len(self.plans) > 1:
            yield from (BLANK, _plans(self))
        yield from (BLANK, assumes(without(self.assumptions, ("alike", "doubt"))), incomplete(self.incomplete))

    def steps(self) -> dict[str, Bound]:
        return {"": self}

    def tables_as_data(self) -> Mapping[str, Table]:
        """Those of any answer; of a traced program also ``modules``, a row each with all that is in it."""
        found = Comparable.tables_as_data(self)
        return found if self.program is None else {**found, "modules": self.program.modules_under(self)}

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """Over arrays a row for each of their entries: sizes that vary, times, what binds.

        >>> from roofline import bound
        >>> frame = bound("bf16[B, D] * bf16[D, F]", on="h100", B=[64, 4096], D=8192, F=8192).to_pandas()
        >>> list(frame), frame["B"].tolist(), frame["bound_by"].tolist()
        (['B', 'lower', 'op_by_op', 'upper', 'bound_by'], [64, 4096], ['hbm', 'tensor'])
        """
        if not is_array(self.lower):
            return Comparable.plain_table(self, table)
        chosen_table(table, ("configurations",))
        sizes = {name: value for name, value in self.sizes.items() if is_array(value)}
        times = {"lower": self.lower, "op_by_op": self.op_by_op, "upper": self.upper}
        if (expected := self.expectation) is not None:
            times |= {"expected": expected.value, "low": expected.low, "high": expected.high}
        columns = {**sizes, **times, "bound_by": self.bound_by.as_names()}
        entries = zip(columns, np.broadcast_arrays(*columns.values()), strict=True)
        rows = zip(*(whole(each) if name in sizes else each.ravel().tolist() for name, each in entries), strict=True)
        return ([*columns], [list(row) for row in rows], dict.fromkeys(times, "s"))

    def facts(self) -> Iterator[Fact]:
        if self.is_rate_only:
            yield Fact("attainable", self.attainable, "FLOP/s", "more", timed=True, kind="floor")
        else:
            yield Fact("at best", self.lower, "s", "less", timed=True, kind="floor")
            if is_number(self.op_by_op) and len(self.ops) > 1:
                is_shown = self.joins_kernels
                yield Fact(KERNELS_IN_TURN, self.op_by_op, "s", "less", timed=True, is_shown=is_shown, form="op_by_op")
            yield Fact("at worst", self.upper, "s", "less", timed=True, form="upper")
        yield from expected_facts("expected", self.estimate, self.expectation)
        if self.measured is not None:
            yield Fact("measured", self.measured, "s", "less")
        yield from () if self.cost is None else self.cost.facts()
        binds = self.kind and f"{self.kind} ({self.bound_by})"
        yield Fact("bound by", binds, data=self.bound_by, kind="binds")
        if not self.is_rate_only:
            yield Fact("bytes moved", self.total_bytes, "B", "less", column="bytes")
        yield Fact("intensity", self.intensity, "FLOP/B")
        yield Fact("ridge", self.critical_intensity, "FLOP/B")
        yield from self.rates_used()
        if self.footprint is not None:
            yield from (self.footprint.needs, self.footprint.has)

    @property
    def joins_kernels(self) -> bool:
        """Whether operations that a byte policy joins overlap: the kernels take less than the operations do in turn.

        >>> from roofline import bound
        >>> line = "gelu(bf16[512, 1024] @ bf16[1024, 4096])"
        >>> [bound(line, on="a100", policy=policy).joins_kernels for policy in ("each-op", "fused")]
        [False, True]
        """
        return bool(is_number(self.op_by_op) and self.op_by_op < (1 - EQUAL) * sum(each.lower for each in self.ops))

    def rates_used(self) -> Iterator[Fact]:
        """The rates that were used, under what they mean on any machine: ``matrix bf16``, ``main memory``.

        Of several formats of elementwise work the one that takes longest stands for all; of links all that a chip has,
        those to chips farther away as its network, with the longest hop.
        """
        links = {link.name: link.links or 1 for link in self.machine.links}
        rates = [use.rate.value for use in self.uses if use.quantity == "hops"]
        hops = [1 / float(rate) for rate in rates if is_number(rate)]
        parts: tuple[list[ResourceUse], list[ResourceUse]] = ([], [])
        for use in self.uses:
            parts[(use.quantity, use.place) == ("flops", "vector")].append(use)
        others, elementwise = parts
        for use in (*others, *sorted(elementwise, key=lambda use: _longest(use.time))[-1:]):
            if use.quantity == "flops":
                yield Fact(f"{use.place} {use.dtype}", use.rate.value, "FLOP/s", "more", kind=use.place)
            elif use.quantity == "bytes":
                named = "main memory" if use.place == "main" else use.place
                yield Fact(named, use.rate.value, "B/s", "more", kind=use.place)
            elif use.quantity == "wire":
                inner = use.network == next(iter(links), use.network)
                every = use.rate.value * links.get(use.network, 1)
                named, column = ("all links of a chip", "links") if inner else ("network of a chip", "network")
                yield Fact(named, every, "B/s", "more", column=column)
                yield Fact("a hop takes", max(hops, default=None), "s", "less", column="hop_latency")

    def needed(self) -> Footprint | None:
        return self.footprint

    def one_line(self) -> str:
        """The bounds and what binds.

        >>> from roofline import bound
        >>> bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192)
        <Bound: 84.5 µs at best, 128 µs at worst on TPU v5e, memory-bound (hbm)>
        """
        if isinstance(self.bound_by, Codes):
            count = self.bound_by.codes.size
            fit = self.footprint.of_which() if self.footprint else ""
            return f"Bound: {count:,} configurations{fit}, {format_amount(self.lower, 's')} at best on {self.target}"
        if self.bound_by is None:
            return f"Bound: lower {self.lower} on {self.target}"
        times = f"{format_amount(self.lower, 's')} at best, {format_amount(self.upper, 's')} at worst"
        if self.is_rate_only:
            times = f"{format_amount(self.attainable, 'FLOP/s')} attainable"
        if self.expectation is not None and self.expectation.is_known:
            times += f", expected {format_amount(self.expectation.value, 's')}"
        timed = "timed" if untimed_parts(self.incomplete) else "counted"
        partly = f", INCOMPLETE: not all is {timed}" if self.incomplete else ""
        less = f"; {fused}" if self.program is not None and (fused := fused_at_best(self)) else ""
        return f"Bound: {times} on {self.target}, {self.kind} ({self.bound_by}){less}{partly}"


def _longest(time: Size) -> float:
    """The longest of times; of formulas, which have no order, none."""
    return 0.0 if is_symbol(time) else float(time.max() if is_array(time) else time)


def headline_flops(work: Any) -> Size:
    """FLOPs of the matrix work where there is any, else of the vector work: one unit's, never a sum over units."""
    matrix = [v for k, v in work.items() if k.quantity == "flops" and k.place == "matrix"]
    chosen = matrix or [v for k, v in work.items() if k.quantity == "flops"]
    return sum(chosen)


def ratio(a: Size, b: Size) -> Size | None:
    """Divide, or None where there is nothing to divide by."""
    if isinstance(b, int | float) and b == 0:
        return None
    if is_symbol(a) and is_symbol(b):
        return _cancelled(a, b)
    if is_array(b):
        with np.errstate(all="ignore"):
            return a / b
    return a / b


@lru_cache(512)
def _cancelled(a: Any, b: Any) -> Any:
    """A closed form over another without what both are multiples of; a maximum or a ceiling is one letter, as inside
    them sympy looks long.
    """
    parts = a.atoms(sympy.core.function.Application) | b.atoms(sympy.core.function.Application)
    letters = {part: sympy.Dummy() for part in sorted(parts, key=str)}
    (p, under_p), (q, under_q) = (form.xreplace(letters).expand().as_numer_denom() for form in (a, b))
    share, over, under = sympy.cancel((p * under_q, q * under_p))  # of one quotient sympy looks for a nicer form first
    return with_whole_numbers((share * over / under).xreplace({letter: part for part, letter in letters.items()}))


def with_whole_numbers(form: Any) -> Any:
    """A closed form whose whole numbers are integers."""
    return form.xreplace({x: sympy.Integer(int(x)) for x in form.atoms(sympy.Float) if float(x).is_integer()})


def bounds_in_words(answer: Bound) -> list[str]:
    """The bounds, the intensity against the ridge, communication against arithmetic: a sentence each."""
    if is_symbol(answer.lower):
        lines = [f"lower bound  {answer.lower} s", f"upper bound  {answer.upper} s"]
        return lines if answer.intensity is None else [*lines, f"intensity    {answer.intensity} FLOP/B"]
    low, high = format_amount(answer.lower, "s"), format_amount(answer.upper, "s")
    if answer.is_rate_only:
        attainable = format_amount(answer.attainable, "FLOP/s")
        return [f"attainable {attainable}, {format_percent(answer.utilisation)} of peak", *_ridge(answer)]
    line = f"at best {low} if all overlaps, {high} if nothing does" if len(answer.times) > 1 else f"at best {low}"
    if len(answer.ops) > 1:
        line += f", {format_amount(answer.op_by_op, 's')} if each operation overlaps within itself"
    if answer.incomplete:
        line = f"at least {low}, for what could be timed; {missing_in_words(answer.incomplete)}"
    if not is_array(answer.lower) and answer.flops and answer.attainable is not None:
        reached = "" if answer.utilisation is None else f", {format_percent(answer.utilisation)} of peak"
        line += f" · {format_amount(answer.attainable, 'FLOP/s')}{reached}"
    lines = [line]
    if answer.expectation is not None and not is_number(answer.lower):
        lines.append(answer.expectation.in_words())
    lines += stated_in_words(answer)
    if answer.measured is not None:
        lines.append(measured_in_words(answer))
    if answer.cost is not None:
        lines += _cost_in_words(answer.cost)
    if is_array(answer.lower):
        fit = answer.footprint.of_which() if answer.footprint else ""
        lists = f"{either('`roofline sweep`', 'to_pandas()')} lists each"
        lines.append(f"{answer.lower.size:,} configurations{fit}{_what_binds_where(answer)}; {lists}")
    return [*lines, *_communication_against_arithmetic(answer), *_ridge(answer)]


#: Gaps that are named before the table of what an answer is made of.
_FEW_GAPS = 3


def missing_in_words(gaps: Sequence[str]) -> str:
    """What an answer leaves out, in short: ``not counted: svd x1``; the whole lines stand under *incomplete*.

    >>> missing_in_words([Gap("operation", "not counted: svd x1 (no rule), 49.4 kB", brief="not counted: svd x1")])
    'not counted: svd x1 (see incomplete below)'
    """
    said = "; ".join(line.brief if isinstance(line, Gap) else line for line in gaps[:_FEW_GAPS])
    more = f" and {len(gaps) - _FEW_GAPS} more" if len(gaps) > _FEW_GAPS else ""
    return f"{said}{more} (see incomplete below)"


def _what_binds_where(answer: Bound) -> str:
    """What binds in how many configurations; over one size from which of its values on.

    >>> from roofline import bound
    >>> sizes = {"B": [1, 64, 256, 512], "D": 8192, "F": 8192}
    >>> bounds_in_words(bound("bf16[B, D] * bf16[D, F]", on="a100", sizes=sizes))[1]
    '4 configurations: hbm binds up to B = 64, tensor from B = 256; to_pandas() lists each'
    """
    codes = answer.bound_by.codes.ravel()
    names, counts = np.unique(codes, return_counts=True)
    if len(names) == 1:
        return f", {answer.bound_by.names[names[0]]} binds in all"
    varying = {name: size.ravel() for name, size in answer.sizes.items() if is_array(size)}
    said = [f"{answer.bound_by.names[each]} binds in {count:,}" for each, count in zip(names, counts, strict=True)]
    for name, values in varying.items() if len(varying) == 1 else ():
        order = np.argsort(values, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order])) + 1
        if len(starts) < len(names):  # none binds again after another
            last = values[order[starts[0] - 1]]
            said = [f"{answer.bound_by.names[codes[order[0]]]} binds up to {name} = {format_number(last)}"]
            runs = [(codes[order[at]], values[order[at]]) for at in starts]
            said += [f"{answer.bound_by.names[each]} from {name} = {format_number(value)}" for each, value in runs]
    return f": {', '.join(said)}"


def _cost_in_words(cost: MillionCost) -> list[str]:
    """What a million runs cost, of several sizes the least."""
    which = "of the cheapest " if is_array(cost.chip_hours) else ""
    found = cost.least()[0] if which else cost
    return [f"{line}, {which}{BY_FORM[cost.form]}" for line in found.in_words("runs")]


def stated_in_words(answer: Measurable) -> list[str]:
    """The time with the stated overlap and overhead, where one was stated."""
    stated = answer.stated_estimate
    return [] if stated is None else [f"estimate {format_amount(stated, 's')} with the stated overlap and overhead"]


def overlapped(measured: Size | None, lower: Size, upper: Size) -> Any:
    """The share of times that overlaps in what takes ``measured`` seconds; None outside its bounds."""
    if measured is None or not lower <= measured <= upper:
        return None
    return ratio(upper - measured, upper - lower)


#: From how many seconds, and how many times the floor, a measured time may have been meant in another unit.
_LONG, _FAR = 0.01, 300


def from_the_floor(measured: float, lower: float, upper: float, why: str) -> str:
    """How far what takes ``measured`` seconds is from its bounds; ``why`` it cannot be below them.

    >>> from_the_floor(3e-6, 2e-6, 4e-6, "")
    '1.5 times the floor: as if 50% of the times overlapped'
    >>> from_the_floor(5e-6, 2e-6, 4e-6, "")
    '2.5 times the floor, and 1 µs more than where nothing overlaps'
    >>> from_the_floor(0.62, 4.4e-4, 4.9e-4, "").partition(", and")[0]
    '1,409 times the floor (a time without a unit is in seconds: 0.62ms is 620 µs)'
    >>> from_the_floor(1e-6, 2e-6, 4e-6, "something else ran")
    'it cannot be: the floor is 2 µs; something else ran'
    """
    if measured < lower:
        return f"it cannot be: the floor is {format_amount(lower, 's')}; {why}"
    line = f"{format_number(measured / lower, 3)} times the floor"
    if measured >= _LONG and measured >= _FAR * lower:
        line += f" (a time without a unit is in seconds: {measured:g}ms is {format_amount(measured * 1e-3, 's')})"
    if measured > upper:
        return f"{line}, and {format_amount(measured - upper, 's')} more than where nothing overlaps"
    share = overlapped(measured, lower, upper)
    return line if share is None else f"{line}: as if {format_percent(share)} of the times overlapped"


def loss_of_each_said() -> str:
    """What a measured total leaves open, and what answers it."""
    how = either("roofline profile FILE", "roofline.profile(file, on=…)")
    return f"a total does not say which operations lose it; a profile of the run does: {how}"


def measured_in_words(answer: Bound) -> str:
    """What was measured: how far from the floor, at which rate, and whether it is what was to be expected."""
    took = float(answer.measured or 0)
    why = "another size, format or chip ran than asked about"
    if any(is_in_model(part.op) for part in answer.ops):
        why = "a shorter context, a smaller batch, narrower formats or another chip ran than asked about"
    elif answer.kind == "memory-bound":
        why = f"data came from a cache, or {why}"
    said = f"measured {format_amount(took, 's')}: {from_the_floor(took, answer.lower, answer.upper, why)}"
    if answer.flops and answer.utilisation is not None:
        peak = format_percent(answer.utilisation * answer.lower / took)
        rates = [f"{format_amount(answer.flops / took, 'FLOP/s')}, {peak} of peak"]
        moved = [use for use in answer.uses if use.quantity == "bytes" and use.resource == answer.bound_by]
        if moved and answer.kind == "memory-bound":
            speed = float(moved[0].amount) / took
            share = format_percent(speed / float(moved[0].rate.value))
            rates.insert(0, f"{format_amount(speed, 'B/s')}, {share} of bandwidth")
        said += f" · {'' if took >= answer.lower else 'it would be '}{'; '.join(rates)}"
    if took < answer.lower:
        said += f"; {_what_would_fit(answer, took)}"
    if len(answer.ops) > 1 and took >= answer.lower:
        said += f"; {loss_of_each_said()}"
    if answer.expectation is None or not answer.expectation.is_known:
        return said
    low, high = answer.expectation.low, answer.expectation.high
    place = "faster than" if took < low else "slower than" if took > high else "within"
    said += f"; {place} the interval that is expected"
    if took <= high:
        return said
    floor, usual = float(answer.lower), float(answer.expectation.value)
    parts = (format_amount(time, "s") for time in (floor, usual - floor, took - usual))
    return f"{said}: {{}} at best + {{}} usual + {{}} not explained".format(*parts)


def _what_would_fit(answer: Bound, took: float) -> str:
    """What takes no more than ``took`` seconds: a part of the work; where FLOPs bind, a format with their rate."""
    part = f"{format_percent(took / float(answer.lower))} of the work would fit"
    if answer.kind != "compute-bound" or not is_number(answer.flops):
        return part
    peaks = {
        name: figure.value
        for unit in answer.machine.units if unit.name == answer.bound_by
        for name, figure in unit.peaks.items()
        if figure.value * took >= float(answer.flops)
    }  # fmt: skip
    least = min(peaks, key=peaks.__getitem__, default=None)
    return f"{part}, or {least} at {format_amount(peaks[least], 'FLOP/s')}" if least else part


def _communication_against_arithmetic(answer: Bound) -> list[str]:
    ratio = answer.comms_over_math if answer.wire else None
    if ratio is None or is_array(ratio) or is_symbol(ratio):
        return []
    comms, math = format_amount(answer.comms, "s"), format_amount(answer.math, "s")
    return [f"{comms} of communication against {math} of arithmetic: {format_number(ratio)} times as long"]


def _ridge(answer: Bound) -> list[str]:
    """The intensity against the ridge, where both are known."""
    if answer.intensity is None or answer.critical_intensity is None:
        return []
    intensity, ridge = (format_amount(x, "FLOP/B") for x in (answer.intensity, answer.critical_intensity))
    words = f"{intensity} against a ridge of {ridge}"
    return [f"{words}: {answer.kind}" if isinstance(answer.kind, str) else words]


def _resources(answer: Bound) -> Table:
    """A row a resource: amount, rate, time and a bar; for arrays the range of its times.

    The bar gives way first where a terminal is narrow. Formulas are long: they go over several lines.
    """
    if is_array(answer.lower):
        taken = {name: time for name, time in answer.times.items() if (time.any() if is_array(time) else time)}
        times = [Row((name, Amount(time, "s"))) for name, time in taken.items()]
        return Table((Column("resource"), *figures("time")), times, "resources", headed=False)
    wrap = "words" if is_symbol(answer.lower) else "never"
    columns = (
        Column("resource"),
        Column("dtype"),
        *figures("amount", wrap=wrap),  # type: ignore[arg-type]
        *figures("rate"),
        *figures("time", wrap=wrap),  # type: ignore[arg-type]
        Column(wrap="words", most=_BAR, meaning="share"),
        Column(meaning="binds"),
    )
    rows = [Row(_resource_cells(answer, use)) for use in answer.uses]
    return Table(columns[: 5 if is_symbol(answer.lower) else None], rows, "resources", headed=False)


#: What runs on a unit that serves for both kinds.
_WORDS_OF_PLACES = {"matrix": "products", "vector": "elementwise"}


def _resource_cells(answer: Bound, use: ResourceUse) -> tuple[Cell, ...]:
    alike = [other for other in answer.uses if other.resource == use.resource]
    longest = is_symbol(answer.lower) or max(alike, key=lambda other: float(other.time)) is use
    binds = use.resource == answer.bound_by and longest
    twice = len({other.place for other in alike if other.dtype == use.dtype}) > 1
    unit, per_second = UNITS[use.quantity]
    rate = Amount(use.rate.plain or use.rate.value, per_second)
    if use.rate.figure is not None and use.rate.figure.doubt:
        rate = rate._replace(text=f"? {rate}")
    share = 0.0 if is_symbol(answer.lower) or not answer.lower else float(use.time) / float(answer.lower)
    dtype = f"{use.dtype} {_WORDS_OF_PLACES.get(use.place, '')}".strip() if twice else use.dtype
    cells = (use.resource, dtype, Amount(use.amount, unit), rate, Amount(use.time, "s"))
    binding = (ShareBar(share, "alert" if binds else ""), YesNo(bool(binds), "binds", "", "alert"))
    return cells if is_symbol(answer.lower) else (*cells, *binding)


#: Operations from which on equal ones stand in one row.
MOST_UNGROUPED = 24


def _operations(answer: Bound, in_full: bool = False) -> Iterator[Section]:
    """A row an operation, ``in_full`` with its module where it has one; formulas below its name."""
    sends = sends_anything(answer.ops)
    figured = amount_columns(sends)
    if not is_symbol(answer.lower):
        placed = any(part.op.where and (in_full or not is_in_model(part.op)) for part in answer.ops)
        where = [Column("where", wrap="dots")] * placed
        columns = (Column("operation", wrap="anywhere"), *where, *figured, Column("bound by"))
        rows = [
            Row((part.op.name, *[part.op.where] * placed, *amount_cells(part, sends), _bound_by(part)))
            for part in answer.ops
        ]
        if in_full or len(rows) <= MOST_UNGROUPED or len({tuple(map(str, row.cells)) for row in rows}) == len(rows):
            yield Table(columns, rows, OPERATIONS)
        else:
            yield _equal_together(columns, rows, answer.ops)
        return
    names = [*(column.name for column in figured), "bound by"]
    for part in answer.ops:
        yield Sentences([part.op.name])
        cells = zip(names, map(str, (*amount_cells(part, sends), _bound_by(part))), strict=True)
        yield Pairs([(name, text) for name, text in cells if text], indent=4, gap=1, name=OPERATIONS)


def _equal_together(columns: Sequence[Column], rows: Sequence[Row], parts: Sequence[OpBound]) -> Table:
    """Operations that are equal in all that their rows say as one row, with how many they are and their time in all."""
    found: dict[tuple[str, ...], tuple[tuple[Cell, ...], list[OpBound]]] = {}
    for row, part in zip(rows, parts, strict=True):
        found.setdefault(tuple(map(str, row.cells)), (tuple(row.cells), []))[1].append(part)
    heads = (columns[0], *figures("count"), *columns[1:-1], *figures("in all"), columns[-1])
    shown = [
        Row((cells[0], Amount(len(same), ""), *cells[1:-1], Amount(sum(part.lower for part in same), "s"), cells[-1]))
        for cells, same in found.values()
    ]
    return Table(heads, shown, OPERATIONS, every=lambda: shown)


def fusing_in_words(answer: Bound, who: str = "") -> Iterator[Section]:
    """Of operations that each read and write memory: the share of elementwise ones, and the time that fusing gives.

    Of an attention that is written out also the share of its scores, and the time with one kernel for all of it.
    """
    main, alone = main_level(answer.machine).name, capability("Bound.scores_on_chip")(answer)
    share = 0.0 if alone is None else 1 - float(alone.bytes[main]) / float(answer.bytes[main])
    if share > _MUCH:
        change = format_change(float(answer.lower), float(alone.lower), "s")
        makes_again = len({part.op.phase for part in answer.ops}) > 1  # then arithmetic is added
        gain = "; the backward pass makes them again" if makes_again else f": {change} at best"
        said = f"{format_percent(share)} of the bytes are scores and probabilities of attention"
        yield Sentences([f"{who}{said}, which one kernel for all of attention keeps on the chip{gain}"])
    yield from _joining_in_words(answer, who)


#: Why a byte policy may move what ``each-op`` does.
_WHY_IDLE = {
    "fused": "only elementwise operations join those before them",
    "minimal": "there are no intermediates to keep on chip",
}


def _idle_policy(answer: Bound) -> str:
    """That the policy which was chosen changes nothing, with what one kernel for everything would move; else empty."""
    chosen = answer.request.get("policy")
    if chosen not in _WHY_IDLE or not answer.ops or answer.is_rate_only or not is_number(answer.op_by_op):
        return ""
    if chosen == "minimal" and answer.question is None:  # the usual one of models
        return ""
    apart, minimal = (capability("Bound.with_policy")(answer, policy) for policy in ("each-op", "minimal"))
    if apart.total_bytes != answer.total_bytes:
        return ""
    said = f"{spelled('policy', chosen)} changes nothing here against each-op: {_WHY_IDLE[chosen]}"
    if minimal.total_bytes >= answer.total_bytes:
        return said
    less = format_change(float(answer.total_bytes), float(minimal.total_bytes), "B")
    return f"{said}; {spelled('policy', 'minimal')} keeps all intermediates on chip: {less}"


def _joining_in_words(answer: Bound, who: str) -> Iterator[Section]:
    """The times with elementwise work joined to what made its operand, where these are shorter.

    Beside other answers, which ``who`` tells apart, also the times at best; of one answer these stand at the head.
    """
    with_fusing = _with_fusing(answer)
    if not with_fusing:
        return
    said, at_best, fused = [], _shorter(answer, with_fusing), with_fusing["fused"]
    if float(fused.op_by_op) < (1 - _GAIN) * float(answer.op_by_op):
        apart = sum(float(part.lower) for part in answer.ops if part.op.kind == "elementwise") / float(answer.op_by_op)
        change = format_change(float(answer.op_by_op), float(fused.op_by_op), "s")
        share = f"{format_percent(apart)} is elementwise work in kernels of its own"
        said.append(f"{share}, which fused joins to the operations before it: {change}, one after the other")
    if who and at_best:
        said.append(f"{format_amount(float(answer.lower), 's')} at best, {at_best}")
    if said or at_best:
        yield Sentences([f"{who}{'; '.join([*said, spelled('policy', 'each-op,fused,minimal')])} compares"])


def _with_fusing(answer: Bound) -> dict[str, Bound]:
    """An answer of several operations that each read and write memory, under policies that fuse them; else none."""
    if len(answer.ops) < 2 or answer.request.get("policy", "each-op") != "each-op" or not is_number(answer.op_by_op):
        return {}
    return {policy: capability("Bound.with_policy")(answer, policy) for policy in ("fused", "minimal")}


def fused_at_best(answer: Bound) -> str:
    """The times at best without reads and writes of intermediates, and what binds then; empty where none is shorter.

    >>> from roofline import bound
    >>> line = "bf16[512, 64] * bf16[64, 4096] -> x[512, 4096]; gelu(x[512, 4096])"
    >>> fused_at_best(bound(line, on="h100")), fused_at_best(bound(line, on="h100", policy="fused"))
    ('fused 1.43 µs, memory-bound (hbm)', '')
    """
    return _shorter(answer, _with_fusing(answer))


def _shorter(answer: Bound, with_fusing: Mapping[str, Bound]) -> str:
    said, least = [], float(answer.lower) if is_number(answer.lower) else 0.0
    for policy, found in with_fusing.items():
        if float(found.lower) < (1 - _GAIN) * least:
            least = float(found.lower)
            said.append(f"{policy} {format_amount(least, 's')}, {found.kind} ({found.bound_by})")
    return "; ".join(said)


def unfused_in_words(answers: Mapping[str, Bound]) -> list[str]:
    """What times at best take for granted of memory, where a compiler that fuses kernels may be below one of them."""
    fused = {who: fused_at_best(answer) for who, answer in answers.items()}
    told = "; ".join(": ".join(filter(None, each)) for each in fused.items() if each[1])
    eager = "at best has every operation's reads and writes in memory, as eager kernels do; a compiler that fuses them"
    return [f"{eager} (jax.jit, torch.compile) may take less: {told}"] if told else []


def operations_as_data(steps: Mapping[str, Bound]) -> Table | None:
    """Every operation of some steps, in columns that are always there; None where there are no plain numbers."""
    if not steps or any(not is_number(step.lower) for step in steps.values()):
        return None
    named = [Column(name) for name in ("on", "phase", "operation", "kind", "module")]
    columns = (*named, *amount_columns(sends=True), *figures("at worst", "share"), Column("bound by"))
    rows = []
    for phase, step in steps.items():
        whole = sum(part.lower for part in step.ops)
        for part in step.ops:
            op = part.op
            name, where = named_place(op)
            module = module_of(op) if is_in_model(op) else where
            amounts = (Amount(part.flops, "FLOP"), Amount(part.bytes, "B"), Amount(part.sent, "B"))
            times = (part.intensity, part.lower, part.upper, float(part.lower) / float(whole) if whole else 0.0)
            units = ("FLOP/B", "s", "s", "")
            figured = ("" if x is None else Amount(x, unit) for x, unit in zip(times, units, strict=True))
            said = (step.machine.key, phase or op.phase, name, op.kind, module)
            rows.append(Row((*said, *amounts, *figured, _bound_by(part))))
    return Table(columns, rows, OPERATIONS)


def is_in_model(op: Op) -> bool:
    """Whether the place of an operation ends with its name, as those of models do; a word may follow.

    The gradient of a collective is one of another name at its place.
    """
    sent_back = op.kind == "collective" and op.group and op.where.startswith(f"{op.group}.")
    return bool(sent_back) or f".{op.name} " in f".{op.where} "


def named_place(op: Op) -> tuple[str, str]:
    """The name of an operation and where in a program it stands; that of a model's operation says both."""
    return (op.where, "") if is_in_model(op) else (op.name, op.where.removesuffix(f": {op.name}"))


def module_of(op: Op) -> str:
    """The kind of module in a layer that an operation of a model belongs to; collectives are by themselves."""
    inside = op.where.removeprefix(op.group).lstrip(".")
    return "communication" if op.kind == "collective" else inside.partition(".")[0]


def sends_anything(parts: Iterable[OpBound]) -> bool:
    """Whether any operation sends bytes to other chips: then their tables have a column for them."""
    return any(not is_zero(part.sent) for part in parts)


def amount_columns(sends: bool) -> tuple[Column, ...]:
    """The heads of :func:`amount_cells`."""
    flops, moved, sent, intensity, time = figures("FLOPs", "bytes", "sent", "FLOP/B", "at best")
    return (flops._replace(spare=1), moved, *[sent] * sends, intensity._replace(spare=2), time)


def amount_cells(part: OpBound, sends: bool) -> tuple[Cell, ...]:
    """What an operation computes, moves and sends, and how long it takes at best; nothing where it has none of it."""
    amounts = [(part.flops, "FLOP"), (part.bytes, "B"), *([(part.sent, "B")] if sends else [])]
    cells: list[Cell] = ["" if is_zero(amount) else Amount(amount, unit) for amount, unit in amounts]
    computes = part.intensity is not None and not is_zero(part.flops)
    intensity = Amount(part.intensity, "", format_amount(part.intensity, "", 4)) if computes else ""
    return (*cells, intensity, Amount(part.lower, "s"))


def share_of(time: Size, whole: Size) -> Cell:
    """A part of the time that operations take one after the other, read as a percentage; blank where it is none."""
    share = float(time) / float(whole) if whole else 0.0
    return Amount(share, "", format_percent(share, 0 if share >= 0.0995 else 1)) if time else ""


def _bound_by(part: OpBound) -> str:
    binding = decoded(part.bound_by)
    return ", ".join(dict.fromkeys(binding)) if isinstance(binding, list) else binding or ""


def _plans(answer: Bound) -> Table:
    """The first plans and the one taken, which is bold."""
    plans = answer.plans
    listed = [*plans[:_FEW_PLANS], *(plan for plan in plans[_FEW_PLANS:] if plan.name == answer.plan)]
    columns = (Column(), Column(align="right", meaning="rank"), Column("plan", wrap="words"), *figures("at best"))
    rows = []
    for index, plan in enumerate(listed):
        tone: Any = "strong" if plan.name == answer.plan else "quiet"
        label = "plans" if index == 0 else ""
        rows.append(Row((label, *(Words(str(cell), tone) for cell in (f"{plan.rank}.", plan.name, _at_best(plan))))))
    rest = len(plans) - len(listed)
    if rest > 0:
        rows.append(Row(("", "", Words(f"… and {rest} more: {call('shard')} lists them", "quiet"), "")))

    def every() -> list[Row]:
        return [Row(("", Amount(each.rank), each.name, _at_best(each))) for each in listed]

    return Table(columns, rows, "plans", headed=False, every=every)


def _at_best(plan: Any) -> Cell:
    return "" if plan.bound is None else Amount(plan.bound.lower, "s")


def explanation(answer: Bound, step: Any = None) -> Iterator[str]:
    """Lines with time = amount ÷ rate for every resource, the bounds, and where each rate comes from.

    ``step`` is the answer whose three times are told, where that is more than the bound of one chip: it waits too.
    """
    step = answer if step is None else step
    yield f"{answer.expression}  on {answer.target}"
    if answer.footprint is not None and answer.footprint.fits is False:
        yield answer.footprint.misfit_in_words()
    formats = {(use.resource, use.dtype) for use in answer.uses}
    for use in answer.uses:
        unit, per_second = UNITS[use.quantity]
        several = sum(resource == use.resource for resource, _ in formats) > 1
        name = f"T_{use.resource}" + (f" ({use.dtype})" if use.place == "vector" or several else "")
        amount, rate = format_amount(use.amount, unit), format_amount(use.rate.value, per_second)
        yield f"{name} = {amount} / {rate} = {format_amount(use.time, 's')}"
    yield from _bounds_in_words(answer, step)
    if answer.intensity is not None and answer.critical_intensity is not None:
        intensity, ridge = (format_amount(x, "FLOP/B") for x in (answer.intensity, answer.critical_intensity))
        yield f"intensity = {intensity}, ridge = {ridge}"
    yield from stated_in_words(step)
    if answer.measured is not None:
        yield measured_in_words(answer)
    yield from () if answer.cost is None else _cost_in_words(answer.cost)
    if answer.expectation is not None:
        yield from ("", "expected", *(f"  {line}" for line in answer.expectation.explanation()))
    yield from ("", "figures", *dict.fromkeys(_source(answer.machine, use) for use in answer.uses))
    yield from ("", "assumed", *(f"  {item}" for item in answer.assumptions))
    if answer.incomplete:
        yield from ("", "incomplete", *(f"  {item}" for item in answer.incomplete))


def one_after_another(parts: Sequence[OpBound]) -> Size:
    """Seconds of kernels one after the other, each overlapping within itself."""
    timed = ((at if part.kernel is None else part.kernel, part) for at, part in enumerate(parts) if part.times)
    return sum(
        inside[0].lower
        if len(inside) == 1
        else maximum(*sums_by_name(each for part in inside for each in part.times.items()).values())
        for inside in grouped(timed).values()
    )


def _bounds_in_words(answer: Bound, step: Any) -> Iterator[str]:
    """How the three times of a step follow from those of resources, and from the waits where stages wait."""
    own = (maximum(*answer.times.values()), one_after_another(answer.ops), sum(answer.times.values()))
    whole = (step.lower, step.op_by_op, step.upper)
    longer: Any = step.lower != own[0] if is_symbol(step.lower) else step.lower > own[0] * (1 + 1e-9)
    waits = " + waits" * bool(longer.any() if is_array(longer) else longer)
    binds = f" ({answer.bound_by} binds)" if isinstance(answer.bound_by, str) else ""
    said = []
    for way, part, time in zip(("lower bound = max", "op by op", "upper bound = sum"), own, whole, strict=True):
        both = f" = {format_amount(part, 's')} + {format_amount(time - part, 's')}"
        equals = " =" if "=" in way or waits else ""
        said.append(f"{way}{waits}{both * bool(waits and is_number(time))}{equals} {format_amount(time, 's')}")
    if waits:
        yield "waits = until the other stages of the pipeline have done their parts"
    yield "; ".join([said[0] + binds, *said[1:2] * (len(answer.ops) > 1), said[2]])


def _source(machine: Machine, use: ResourceUse) -> str:
    """The rate of a resource, the source of the figure, and what other sources give instead."""
    figure, value = use.rate.figure, use.rate.value if use.rate.plain is None else use.rate.plain
    text = f"  {use.resource} {use.dtype}".rstrip() + f" {format_amount(value, UNITS[use.quantity][1])}"
    if figure is None:
        return text
    others = [format_amount(value, UNITS[use.quantity][1]) for value in said_elsewhere(machine, figure)]
    said = f"; others give {', '.join(dict.fromkeys(others))}" if others else ""
    return f"{text}  [{', '.join(filter(None, (figure.basis, figure.source, figure.date, figure.remarks)))}{said}]"


def _record(answer: Bound) -> dict[str, Any]:
    formulas: dict[str, str] = {}

    def value(path: str, found: Any) -> Any:
        return open_as_null(path, found, formulas)

    chosen = {"unit": answer.machine.unit, "over": answer.machine.over, "achievable": answer.machine.use_achievable}
    body: dict[str, Any] = {
        **heading(SCHEMA, answer.machine, answer.expression),
        "sizes": {name: plain_data(whole(size)) for name, size in answer.sizes.items()},
        **{name: value(name, getattr(answer, name)) for name in (*AMOUNTS, *TABLES)},
        "bound_by": decoded(answer.bound_by),
        "kind": answer.kind if isinstance(answer.kind, str) else None,
        "ops": [value(f"ops.{index}", _operation_record(part)) for index, part in enumerate(answer.ops)],
        "footprint": value("footprint", answer.footprint and answer.footprint.amounts()),
        "rates": [_rate_record(use) for use in answer.uses],
        "options": plain_data({**{name: choice for name, choice in chosen.items() if choice}, **answer.request}),
    }
    if answer.plan is not None:
        body |= {name: value(name, getattr(answer, name)) for name in ("math", "comms", "comms_over_math")}
        body |= {"plan": answer.plan, "plans": [found.to_dict() for found in answer.plans]}
    if answer.expectation is not None:
        body["expectation"] = answer.expectation.to_dict()
    if answer.measured is not None:
        body |= {name: getattr(answer, name) for name in ("measured", "over_floor", "fraction", "overlapped")}
    if answer.cost is not None:
        body["cost"] = answer.cost.to_dict()
    body |= {"assumptions": list(answer.assumptions), "incomplete": list(answer.incomplete)}
    return {**body, "formulas": formulas} if formulas else body


def _operation_record(part: OpBound) -> dict[str, Any]:
    op, binds = part.op, part.bound_by
    return {
        "name": op.name, "kind": op.kind, "where": op.where or None, "repeat": plain_data(op.repeat),
        "dims": plain_data(dict(op.dims)), "flops": part.flops, "bytes": part.bytes, "intensity": part.intensity,
        "times": dict(part.times), "lower": part.lower, "upper": part.upper,
        "bound_by": binds if isinstance(binds, str) else None,
    }  # fmt: skip


def _rate_record(use: ResourceUse) -> dict[str, Any]:
    rate = use.rate
    return {
        "resource": use.resource,
        "dtype": use.dtype or None,
        "value": plain_data(rate.value if rate.plain is None else rate.plain),
        "symbol": str(rate.value) if is_symbol(rate.value) else None,
        "source": rate.figure.source if rate.figure else None,
        "basis": rate.figure.basis if rate.figure else None,
    }
