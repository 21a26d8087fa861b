"""One collective: its time by each algorithm that fits, and the size below which hops take longer than bytes.

>>> found = comm("AllGather_Y(bf16[2048_Y, 8192])", on="v5e:8x4")
>>> found
<Communication: AllGather over Y by line: 559 µs on TPU v5e>
>>> [(row.algorithm, round(row.time * 1e6, 1)) for row in found.algorithms if row.algorithm in ("line", "book")]
[('line', 559.2), ('book', 372.8)]
>>> round(found.crossing)                        # bytes of the array below which the hops take longer
180000
>>> comm("AllReduce_X(bf16[B, D] {U_X})", on="dgx-h100:1024", sharp=True, B=8192, D=8192).algorithm
'in-switch'

What nccl-tests measure is given in their words, the bandwidth of the buffer and that of the bus:

>>> found = comm("AllReduce_X(bf16[B, D] {U_X})", on="a100:8", B=8192, D=8192)
>>> round(found.algorithm_bandwidth / 1e9), round(found.bus_bandwidth / 1e9)
(171, 300)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import (
    Comparable,
    Fact,
    attributes,
    estimable,
    expected_facts,
    heading,
    measurable,
    on_several,
    plain_data,
    plain_table,
    whole,
)
from roofline.bounds.api import question
from roofline.bounds.bound import Bound, measured_in_words, ratio
from roofline.bounds.question import OF_ONE_LINE, Question, refuse_idle
from roofline.bounds.sharding_plans import lay_out
from roofline.errors import InputError, a_or_an, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.hardware import chip
from roofline.hardware.mesh import shape_axes
from roofline.hardware.rate import rate
from roofline.lazy import np
from roofline.ops.collectives.choice import Regime, regimes
from roofline.ops.collectives.cost import (
    algorithms,
    default_algorithm,
    describe_algorithm,
    latency_crossover,
    limit_reason,
    reducing_links,
)
from roofline.ops.collectives.registry import BY_SWITCHES, GATHERING, SUMMING, bus_share, link_groups
from roofline.ops.collectives.routing import Density, TopKRouting
from roofline.quantity import format_amount, format_percent, given_amount, in_a_row, parse
from roofline.sections import (
    BLANK,
    Amount,
    Column,
    Headline,
    Row,
    Section,
    Sentences,
    Table,
    Tone,
    assumes,
    figures,
    incomplete,
)
from roofline.signatures import either, spelled, takes
from roofline.sizes import Size, check, is_array, is_number, is_one, is_symbol, longest, maximum, product
from roofline.statements import Assumption, assume, without
from roofline.work import Work

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide


#: Collectives in which all chips send as much.
_ALIKE = (*GATHERING, "AllToAll")

#: The table of algorithms, by name.
_ALGORITHMS = "algorithms"


@dataclass(frozen=True, slots=True, eq=False)
class AlgorithmCost:
    """One algorithm: bytes over the busiest link, hops, and the times of both.

    ``sent_by_link`` has the bytes over every link or tier. ``hop_time`` is None where the latency of a link is not
    known. ``limit`` says why the network cannot reach these figures; it is empty where the network can.
    """

    algorithm: str
    says: str
    sent: Size
    hops: Size
    wire_time: Size
    hop_time: Size | None
    limit: str = ""
    sent_by_link: Mapping[str, Size] = field(default_factory=dict)

    @property
    def tiers_differ(self) -> bool:
        """Whether some links carry more than others, so that one number cannot stand for all of them."""
        amounts = [*self.sent_by_link.values()]
        return len(amounts) > 1 and not (all(map(is_number, amounts)) and len({*amounts}) == 1)

    @property
    def time(self) -> Size:
        """The larger of both: bytes stream while hops pass."""
        return self.wire_time if self.hop_time is None else maximum(self.wire_time, self.hop_time)

    @property
    def time_in_turn(self) -> Size | None:
        """The sum of both, α + n/β: bytes wait for the hops. None where no latency is known.

        At ``crossing`` bytes, the n½ of that model, it is twice :attr:`time`, and half of the bandwidth is reached.
        """
        return None if self.hop_time is None else self.wire_time + self.hop_time

    def crossing(self, nbytes: Size) -> Size | None:
        """Bytes of an array, of which this is the cost of ``nbytes``, that take as long as its hops: n½."""
        return None if self.hop_time is None else ratio(self.hop_time * nbytes, self.wire_time)

    @property
    def sent_both_ways(self) -> Size:
        """Bytes over that link in both directions, where a ring sends both ways: twice ``sent``."""
        return 2 * self.sent

    @property
    def wire_time_per_hop(self) -> Size | None:
        """Seconds that the bytes of one hop take: those over the busiest link, hop after hop."""
        return ratio(self.wire_time, self.hops)

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data in SI units."""
        plain = attributes(self, "algorithm", "says", "sent", "hops", "wire_time", "hop_time", "time")
        plain |= attributes(self, "time_in_turn", "limit")
        return {**plain, "sent_by_link": {name: plain_data(amount) for name, amount in self.sent_by_link.items()}}


class TokenExchange(NamedTuple):
    """A ``dispatch`` or ``combine``: ``tokens`` on each chip, ``width`` wide, each to ``chosen`` of ``experts``."""

    way: str
    dtype: str
    tokens: int
    width: int
    experts: int
    chosen: int

    def __str__(self) -> str:
        sent = f"{self.tokens:,} tokens a chip, {self.dtype}[{self.width}]"
        return f"{self.way} of {sent}, each {_WAYS[self.way]} {self.chosen:,} of {self.experts:,} experts"

    @property
    def routing(self) -> TopKRouting:
        """How tokens go to the chips of their experts."""
        return TopKRouting(self.experts, self.chosen)

    def line(self, arguments: dict[str, Any]) -> str:
        """Write it as an AllToAll with a row for every pair of a token and its expert, of which a part is sent."""
        if not is_one(arguments.get("density", 1)):
            hint = f"leave out {spelled('density')}"
            raise InputError(f"what is sent of {self.way} follows from the experts of a token", hint=hint)
        chips = product(_all_axes(arguments).values())
        if not isinstance(chips, int):
            raise InputError("tokens go to a number of chips", hint=f"as in {spelled('on', 'h100:8')}")
        pairs = -(-self.tokens * self.chosen * self.width // chips) * chips
        arguments["sizes"] = {"N": pairs, "M": chips}
        return _LINES["AllToAll"].format(A=",".join(_all_axes(arguments)), dtype=self.dtype)

    def reached(self, found: Communication) -> str:
        """How many chips have experts of a token, and how often it is sent."""
        hit = self.routing.expected_units(int(found.chips))
        once = "each chip and each node" if found.algorithm == "hierarchical" else "each"
        return f"a token's experts lie on {hit:.3g} of {found.chips:,} chips on average; it is sent once to {once}"


#: The two exchanges of tokens with their experts, and which way a token goes.
_WAYS = {"dispatch": "to", "combine": "from"}

#: The sizes of an exchange of tokens, and what they are.
_OF_TOKENS = {"T": "tokens on each chip", "D": "width of a token", "E": "experts", "k": "experts of a token"}


def _token_exchange(expression: str, dtype: str, arguments: dict[str, Any]) -> TokenExchange | None:
    """Take the sizes of a dispatch or combine out of the arguments, where this is one."""
    way = expression.strip().lower()
    if way not in _WAYS:
        return None
    given = {**(arguments.pop("sizes", None) or {}), **{n: arguments.pop(n) for n in _OF_TOKENS if n in arguments}}
    wrong = next((name for name in (*_OF_TOKENS, *given) if (name in given) != (name in _OF_TOKENS)), None)
    if wrong is not None:
        said = f"{wrong} ({_OF_TOKENS[wrong]}) is missing" if wrong in _OF_TOKENS else f"{wrong} is no size of it"
        hint = ", ".join(f"{name} {what}" for name, what in _OF_TOKENS.items())
        raise InputError(f"{way}: {said}", hint=f"its sizes are {hint}, as in T=4096 D=7168 E=256 k=8")
    sizes = [check(name, given[name]) for name in _OF_TOKENS]
    if not all(isinstance(size, int) for size in sizes):
        raise InputError(f"{way} takes one number for each of its sizes", hint="ask about one after the other")
    return TokenExchange(way, dtypes.get(dtype).name, *sizes)


#: Statements about arithmetic and operands, of which a collective has none.
_OF_COMPUTING = ("counting", "bytes")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Communication(Comparable):
    """The answer of :func:`comm`.

    ``bound`` holds the times of all resources, the chip's own memory among them; ``time`` is that of the network,
    the larger of links and hops. ``algorithms`` lists every algorithm that fits, and ``crossing`` the bytes of the
    array below which it is latency-bound, where that is known. ``regimes`` says which algorithm is the fastest from
    which number of bytes on, of those that the network can do; ``chips`` is how many take part,
    ``density`` the share of an AllToAll that is sent, ``reducing`` the links whose switches do their part of it.
    ``exchange`` are the tokens of a dispatch or combine. Sizes are told of each chip where ``by_bytes_per_chip``.
    """

    bound: Bound
    kind: str
    axes: tuple[str, ...]
    algorithm: str
    nbytes: Size
    algorithms: tuple[AlgorithmCost, ...]
    crossing: Size | None
    regimes: tuple[Regime, ...] = ()
    chips: Size = 1
    density: Density = 1
    reducing: tuple[str, ...] = ()
    by_bytes: bool = False
    exchange: TokenExchange | None = None
    by_bytes_per_chip: bool = False

    def beside(self, measured: float | str) -> Communication:
        """The collective beside what it takes in reality: seconds, text with a unit, or the ``busbw`` of nccl-tests.

        >>> round(comm("allreduce", bytes=1e9, on="h100:8").beside("4ms").bound.over_floor, 2)
        1.8
        >>> round(comm("allreduce", bytes=1e9, on="h100:8").beside("437.5 GB/s").bound.measured * 1e3, 6)
        4.0
        """
        is_rate = isinstance(measured, str) and ("/s" in measured or measured.lower().endswith("bps"))
        if is_rate and not is_array(self.time) and not is_symbol(self.time):
            measured = float(self._sent_at_least) / parse(measured, "B/s")
        return replace(self, bound=self.bound.beside(measured))

    @property
    def row(self) -> AlgorithmCost:
        """The algorithm taken."""
        return next(row for row in self.algorithms if row.algorithm == self.algorithm)

    @property
    def time(self) -> Size:
        """Seconds on the network: the larger of the busiest link's time and the hops' time."""
        return self.row.time

    @property
    def crossing_per_chip(self) -> Size | None:
        """Bytes of one chip's part below which it is latency-bound: what a link sends while a hop takes.

        >>> comm("allgather", bytes=1e6, on="v5e:8").crossing_per_chip
        45000.0
        """
        return None if self.crossing is None else self.crossing / self.chips

    @property
    def latency_bound_below(self) -> Size | None:
        """Bytes of the array from which on they take longer than the hops, n½; :attr:`latency_bound_from` are chips.

        >>> comm("allreduce", bytes=1e9, on="v5e:8").latency_bound_below
        315000.0
        """
        return self.crossing

    @property
    def latency_bound_from(self) -> Size | None:
        """Chips from which the hops of as many bytes take longer than the bytes: the array over one hop's bytes.

        >>> round(comm("AllGather_X(int8[B, D_X])", on="v5e:8", B=16, D=8192).latency_bound_from, 2)
        2.91
        """
        return None if self.crossing_per_chip is None else self.nbytes / self.crossing_per_chip

    @property
    def tier_bandwidths(self) -> dict[str, Size | None]:
        """Bytes of the buffer a second that each link or tier by itself could reach.

        >>> found = comm("allgather", bytes=1e9, on="dgx-h100:64")
        >>> {name: round(rate / 1e9) for name, rate in found.tier_bandwidths.items()}
        {'nvlink': 514, 'ib': 457}
        """
        times = {use.resource: use.time for use in self.bound.uses if use.quantity == "wire"}
        return {name: ratio(self._buffer, time) for name, time in times.items()}

    @property
    def bytes_per_chip(self) -> Size:
        """Bytes that each chip holds before: the array, or its part of it where the collective starts from parts.

        >>> comm("alltoall", bytes_per_chip="4MB", on="v5e:4x4").nbytes
        64000000
        """
        if self.exchange is not None:
            return self.nbytes / self.chips / self.exchange.chosen
        return self.nbytes / self.chips if self.kind in STARTS_FROM_PARTS else self.nbytes

    @property
    def sent_by_all(self) -> Size | None:
        """Bytes that all chips send over the links that carry the most: what goes through the switch that joins them.

        None where chips do not send alike: a Broadcast leaves one chip first.

        >>> comm("allreduce", bytes=1e9, on="h100:8").sent_by_all
        8000000000
        """
        return self.row.sent * self.chips if self.kind in _ALIKE else None

    @property
    def algorithm_bandwidth(self) -> Size | None:
        """Bytes of the buffer a second, as nccl-tests count; for an AllToAll, what is sent of one chip's part."""
        return ratio(self._buffer, self.time)

    @property
    def bus_bandwidth(self) -> Size | None:
        """Least bytes a second that each chip sends: ``busbw`` of nccl-tests, to compare with a link's bandwidth."""
        return ratio(self._sent_at_least, self.time)

    @property
    def _sent_at_least(self) -> Size:
        """Least bytes that each chip sends, whichever algorithm is taken."""
        return self._buffer * bus_share(self.kind, self.chips)

    @property
    def _buffer(self) -> Size:
        if self.kind != "AllToAll":
            return self.nbytes
        routed = isinstance(self.density, TopKRouting)
        return self.nbytes / self.chips * (self.density.sent_share(int(self.chips)) if routed else self.density)

    @property
    def target(self) -> str:
        """The machine, as a person reads it."""
        return self.bound.target

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What is not timed."""
        return self.bound.incomplete

    @property
    def subject(self) -> str:
        """The collective, and whether its bytes are of all chips together or on each one."""
        if not self.by_bytes or self.exchange is not None:
            return self._named
        if self._sized_by_part or self.kind in _STARTS_FROM_COPIES:
            return f"{self._named} (bytes on each chip)"
        return f"{self._named} (bytes in all)" if self.kind in STARTS_FROM_PARTS else self._named

    @property
    def _sized_by_part(self) -> bool:
        """Whether sizes are told of the part that each chip holds, as it was asked, and not of the whole array."""
        return self.by_bytes_per_chip and self.kind in STARTS_FROM_PARTS

    @property
    def _named(self) -> str:
        """The collective in words: a number of bytes is of no format."""
        named = f"{self.kind} over {', '.join(self.axes)}" if self.by_bytes else self.bound.expression
        return named if self.exchange is None else str(self.exchange)

    def facts(self) -> Iterator[Fact]:
        yield Fact("at best", self.time, "s", "less", timed=True, kind="floor")
        yield Fact("at worst", self.bound.upper, "s", "less", timed=True, form="upper")
        yield from expected_facts("expected", self.bound.estimate, self.bound.expectation)
        if self.bound.measured is not None:
            yield Fact("measured", self.bound.measured, "s", "less")
        yield Fact("bound by", next(iter(_times_on_network(self)), None), kind="binds")
        yield Fact("algorithm", self.algorithm)
        yield Fact("chips", self.chips)
        yield Fact("on each chip", self.bytes_per_chip, "B")
        carried = self.row.sent_by_link if self.row.tiers_differ else {"each link": self.row.sent}
        for link, amount in carried.items():
            yield Fact(f"{link} carries", amount, "B")
        if _over_switches(self):
            for link, amount in carried.items():
                over = f" over {link}" * self.row.tiers_differ
                yield Fact(f"all chips send{over}", amount * self.chips, "B")
        yield Fact("hops", self.row.hops, "", "less")
        if self.exchange is not None:
            return
        yield Fact("algbw", self.algorithm_bandwidth, "B/s", "more", timed=True)
        yield Fact("busbw", self.bus_bandwidth, "B/s", "more", timed=True)
        below = ("latency-bound below, on each chip", self.crossing_per_chip)
        yield Fact(*below if self._sized_by_part else ("latency-bound below", self.crossing), "B")

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """A row an algorithm, with its ``time`` and n½, ``latency_bound_below``; over arrays, at each of their entries.

        >>> found = comm("AllReduce_X(bf16[N])", on="v5e:8", mesh={"X": 8}, N=[4096, 2**27]).to_pandas()
        >>> ring = found[found["algorithm"] == "two-way ring"]
        >>> ring[["N", "bytes", "latency_bound_below"]].values.round().tolist()
        [[4096.0, 8192.0, 360000.0], [134217728.0, 268435456.0, 360000.0]]
        """
        if is_symbol(self.time) or table not in (None, _ALGORITHMS):
            return Comparable.plain_table(self, table)
        varying = {name: size for name, size in self.bound.sizes.items() if is_array(size)}
        names, rows, units = plain_table(_figures(self, as_data=True))
        if not is_array(self.time):
            return names, rows, units
        each = [np.broadcast_arrays(*varying.values(), *row) for row in rows]
        sizes = len(varying)
        entries = [
            list(zip(*map(whole, cells[:sizes]), *(cell.ravel().tolist() for cell in cells[sizes:]), strict=True))
            for cells in each
        ]
        return [*varying, *names], [list(row) for rows in zip(*entries, strict=True) for row in rows], units

    def explain(self) -> str:
        """The time of each link and of the hops, with the source of every figure."""
        return self.bound.explain()

    def assumed(self) -> tuple[str, ...]:
        return tuple(without(self.bound.assumptions, _OF_COMPUTING))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/comm/1``)."""
        return {
            **heading("roofline/comm/1", self.bound.machine, self.bound.expression),
            "collective": self.kind,
            **({} if self.exchange is None else {"exchange": self.exchange._asdict()}),
            **attributes(self, "axes", "algorithm"),
            "bytes": plain_data(self.nbytes),
            **attributes(self, "time", "algorithm_bandwidth", "bus_bandwidth", "crossing", "crossing_per_chip"),
            **attributes(self, "latency_bound_from", "sent_by_all"),
            "fastest": [{"from_bytes": regime.start, "algorithm": regime.algorithm} for regime in self.regimes],
            "algorithms": [row.to_dict() for row in self.algorithms],
            "bound": self.bound.to_dict(),
        }

    def sections(self) -> Iterator[Section]:
        bound = self.bound
        size = _size(self) if self.exchange is None else ""
        yield from (Headline(self._named, f"{size}on {bound.target}"), BLANK)
        time = format_amount(self.time, "s")
        expected = [] if bound.expectation is None else [bound.expectation.in_words()]
        if bound.measured is not None:
            expected.append(f"{measured_in_words(bound)} · {_reached_in_words(self, bound.measured)}")
        carried = _carried(self)
        most = f", {format_amount(bound.upper, 's')} if nothing overlaps" if is_number(bound.upper) else ""
        found = f"at best {time} on the network by {self.algorithm}{most}{_binding(self)}"
        yield Sentences([found, *expected, *carried, *_size_of_benchmarks(self)])
        yield from (BLANK, _formulas(self) if is_symbol(self.time) else _figures(self), BLANK)
        yield Sentences(tuple(_remarks(self)))
        yield from (BLANK, assumes(self.assumed()), incomplete(bound.incomplete))

    def amount_in_words(self, nbytes: Size) -> str:
        """An array of so many bytes, or each chip's part as it was asked; of tokens, those that each chip has then."""
        if self.exchange is None:
            part = self._sized_by_part
            return f"{format_amount(nbytes / self.chips, 'B')} on each chip" if part else format_amount(nbytes, "B")
        return f"{format_amount(nbytes / self.nbytes * self.exchange.tokens)} tokens a chip"

    def one_line(self) -> str:
        what = self.kind if self.exchange is None else self.exchange.way
        over = f"{what} over {', '.join(self.axes)} by {self.algorithm}"
        return f"Communication: {over}: {format_amount(self.time, 's')} on {self.bound.target}"


def _binding(found: Communication) -> str:
    """What binds on the network, and how long the rest takes that :func:`_carried` leaves out."""
    times = _times_on_network(found)
    if not times:
        return f": {found.row.says}"
    first, *rest = times
    said = found.row.sent_by_link if found.row.tiers_differ else ()
    others = ", ".join(f"{name} {format_amount(times[name], 's')}" for name in rest if name not in said)
    verb = "bind" if first == "hops" else "binds"
    return f"; {first} {verb}" + (f" ({others})" if others else "")


def _carried(found: Communication) -> Iterator[str]:
    """What each tier carries and how long that takes, where tiers carry different amounts; what switches must do."""
    times, sent = _times_on_network(found), found.row.sent_by_link
    if found.row.tiers_differ and all(map(is_number, sent.values())):
        first, *rest = [name for name in times if name in sent]
        others = [f"{name} {format_amount(sent[name], 'B')}: {format_amount(times[name], 's')}" for name in rest]
        head = f"{first} carries {format_amount(sent[first], 'B')}: {format_amount(times[first], 's')}"
        yield f"{'; '.join([head, *others])}, at the same time"
    other = _without_switches(found) if times else None
    if other is not None:
        needs = "in-network reduction (SHARP)" if found.kind in SUMMING else "in-network multicast"
        where = in_a_row(found.reducing)
        took = format_amount(other.time, "s")
        if took == format_amount(times[next(iter(times))], "s"):
            yield f"{other.algorithm} takes as long without {needs} on {where}"
        else:
            yield f"needs {needs} on {where}; without it {other.algorithm} takes {took}"


def _without_switches(found: Communication) -> AlgorithmCost | None:
    """Of an answer by switches that reduce or multicast: the fastest algorithm without them."""
    possible = [row for row in found.algorithms if not row.limit and row.algorithm not in BY_SWITCHES]
    if not found.reducing or found.algorithm not in BY_SWITCHES or not possible:
        return None
    return min(possible, key=lambda row: (float(row.time), float(row.hops)))


def _reached_in_words(found: Communication, took: Size) -> str:
    """The bandwidth on the bus that was reached, and its share of what each way could reach."""
    least = found._sent_at_least
    said = f"{format_amount(ratio(least, took), 'B/s')} on the bus"
    other = _without_switches(found)
    if other is None:
        return f"{said}, {format_percent(float(found.time) / float(took))} of what is possible"
    ways = {found.algorithm: found.time, other.algorithm: other.time}
    shares = [
        f"{format_percent(float(time) / float(took))} of {format_amount(ratio(least, time), 'B/s')} by {way}"
        for way, time in ways.items()
    ]
    return f"{said}: {', '.join(shares)}"


def _times_on_network(found: Communication) -> dict[str, Size]:
    """Seconds of each link and of the hops, the longest first; nothing where they are no numbers."""
    links = {use.resource: use.time for use in found.bound.uses if use.quantity == "wire"}
    times = {**links, **({} if found.row.hop_time is None else {"hops": found.row.hop_time})}
    if not links or not all(is_number(time) for time in times.values()):
        return {}
    first = longest(times)
    return dict(sorted(times.items(), key=lambda each: (each[0] != first, -each[1])))


def _size(found: Communication) -> str:
    """The bytes of the array, and of them on each chip before."""
    if is_symbol(found.nbytes):
        return ""
    whole = f"of {format_amount(found.nbytes, 'B')}"
    if found.kind in STARTS_FROM_PARTS:
        return f"{whole} in all, {format_amount(found.bytes_per_chip, 'B')} on each chip, "
    return f"{whole}, whole on each chip, " if found.kind in _STARTS_FROM_COPIES else f"{whole}, "


def _size_of_benchmarks(found: Communication) -> Iterator[str]:
    """What nccl-tests call the size of an AllToAll: the buffer of one rank, where other sizes are of the whole array.

    Source: NVIDIA/nccl-tests, ``src/alltoall.cu``, whose send count is the size over the width of an element.
    """
    if found.kind == "AllToAll" and found.by_bytes and is_number(found.bytes_per_chip) and found.exchange is None:
        each = format_amount(found.bytes_per_chip, "B")
        yield f"nccl-tests' size of it is what each chip holds, {each}: {spelled('bytes_per_chip')} takes that"


def _remarks(found: Communication) -> Iterator[str]:
    """The bandwidths that benchmarks print, the chip's own memory, and where another algorithm is the fastest."""
    # none of formulas, nor where one chip sends nothing
    if found.exchange is not None:
        yield found.exchange.reached(found)
    elif not is_symbol(found.time) and not (is_array(found.time) and bool((found.time == 0).any())):
        algorithm, bus = (format_amount(rate, "B/s") for rate in (found.algorithm_bandwidth, found.bus_bandwidth))
        yield f"as nccl-tests count: {algorithm} of the buffer (algbw), {bus} on the bus (busbw)"
        if _over_switches(found):
            yield f"all {found.chips} chips together send {_through_switches(found)}"
    for name, time in found.bound.times.items():
        if name in found.bound.bytes:
            yield f"{name} takes {format_amount(time, 's')} to read and write it"
    if len(found.regimes) > 1:
        first, *between, last = found.regimes
        ends = [found.amount_in_words(regime.start) for regime in (*between, last)]
        middle = [f"{regime.algorithm} from there to {end}" for regime, end in zip(between, ends[1:], strict=True)]
        yield f"fastest: {', '.join([f'{first.algorithm} below {ends[0]}', *middle, f'{last.algorithm} from there'])}"
    elif found.regimes:
        yield f"fastest at every size: {found.regimes[0].algorithm}"
    if found.crossing is not None:
        least, this = map(found.amount_in_words, (found.crossing, found.nbytes))
        taken = found.row.time_in_turn
        in_turn = f", and {format_amount(taken, 's')} if bytes wait for the hops" if is_number(taken) else ""
        yield f"latency-bound below {least} (n½: bytes take as long as hops); this is {this}{in_turn}"


def _through_switches(found: Communication) -> str:
    """The bytes that all chips together send through the switches, by tier where tiers carry different amounts."""
    if not found.row.tiers_differ:
        return f"{format_amount(found.sent_by_all, 'B')} through the switches"
    tiers = found.row.sent_by_link.items()
    amounts = [f"{name} {format_amount(sent * found.chips, 'B')}" for name, sent in tiers]
    return f"through the switches: {', '.join(amounts)}"


def _over_switches(found: Communication) -> bool:
    """Whether all chips that take part send alike, and are joined by switches and by nothing else."""
    mesh = found.bound.machine.mesh
    axes = [axis for axis in mesh or () if axis.name in found.axes]
    return (
        found.kind in _ALIKE
        and bool(axes)
        and all(part.topology == "switch" for axis in axes for part in axis.segments)
    )


def _figures(found: Communication, *, as_data: bool = False) -> Table:
    """A row an algorithm: bytes (of each tier where they differ), hops, their times, and how.

    The one taken is bold and stands first, the others as they take longer. A data frame has the array's bytes, the time
    and n½ of each too.
    """
    links = tuple(dict.fromkeys(name for row in found.algorithms for name in row.sent_by_link))
    links = links if any(row.tiers_differ for row in found.algorithms) else ()
    names = (*([f"over {link}" for link in links] or ["each link"]), "hops", "bytes take", "hops take")
    rows = []
    for row in _fastest_first(found):
        hop_time = "" if row.hop_time is None else Amount(row.hop_time, "s")
        says = f"{row.says} ({row.limit})" if row.limit else row.says
        sent = [row.sent_by_link.get(link, 0) for link in links] or [row.sent]
        amounts = (*(Amount(each, "B") for each in sent), Amount(row.hops), Amount(row.wire_time, "s"))
        crossing = row.crossing(found.nbytes)
        half = "" if crossing is None else Amount(crossing, "B")
        more = (Amount(row.time, "s"), Amount(found.nbytes, "B"), half) if as_data else ()
        rows.append(Row((row.algorithm, *amounts, hop_time, *more, says), _tone(row, found)))
    names += ("time", "bytes", "latency_bound_below") if as_data else ()
    columns = (Column("algorithm", wrap="words"), *figures(*names), Column(wrap="anywhere", meaning="says"))
    return Table(columns, rows, _ALGORITHMS)


def _fastest_first(found: Communication) -> Sequence[AlgorithmCost]:
    """The algorithm taken, then the others by their times: those that could run before the limits of others."""

    def place(row: AlgorithmCost) -> tuple[bool, bool, float, float]:
        return row.algorithm != found.algorithm, bool(row.limit), float(row.time), float(row.hops)

    are_numbers = all(is_number(row.time) for row in found.algorithms)
    return sorted(found.algorithms, key=place) if are_numbers else found.algorithms


def _formulas(found: Communication) -> Table:
    """A row an algorithm where sizes are open: its hops, and the formula of its bytes' time."""
    rows = []
    for row in found.algorithms:
        time = f"{row.wire_time}  ({row.limit})" if row.limit else f"{row.wire_time}"
        rows.append(Row((row.algorithm, Amount(row.hops), time), _tone(row, found)))
    columns = (Column("algorithm"), *figures("hops"), Column("bytes take, s", wrap="words"))
    return Table(columns, rows, _ALGORITHMS)


def _tone(row: AlgorithmCost, found: Communication) -> Tone:
    return "strong" if row.algorithm == found.algorithm else "quiet"


#: A collective over the axes A of an array of N elements, as the notation writes it.
_LINES = {
    "AllGather": "AllGather_{{{A}}}({dtype}[N_{{{A}}}])",
    "ReduceScatter": "ReduceScatter_{{{A},N}}({dtype}[N] {{U_{{{A}}}}})",
    "AllReduce": "AllReduce_{{{A}}}({dtype}[N] {{U_{{{A}}}}})",
    "AllToAll": "AllToAll_{{{A},M}}({dtype}[N_{{{A}}}, M])",
    "Broadcast": "Broadcast_{{{A}}}({dtype}[N])",
    "Reduce": "Reduce_{{{A}}}({dtype}[N] {{U_{{{A}}}}})",
    "Gather": "Gather_{{{A}}}({dtype}[N_{{{A}}}])",
    "Scatter": "Scatter_{{{A},N}}({dtype}[N])",
    "Permute": "Permute_{{{A}}}({dtype}[N])",
    "Send": "Send_{{{A}}}({dtype}[N])",
}

#: Names of collectives, one or several, and behind them the bytes: ``all-gather, reduce_scatter 1GB``.
_NAME = r"(?:(?i:all +(?:gather|reduce|to +all)|reduce +scatter|collective +permute)|[A-Za-z][A-Za-z_-]*)"
NAMED = re.compile(rf"\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*,?(?:\s+([-+.]?\d.*))?\s*")


def collectives_in(expression: Any) -> Any:
    """Several collectives that are named in a text as a list; anything else as it is.

    >>> collectives_in("allreduce, all-gather"), collectives_in("allreduce,allgather 1GB")
    (['allreduce', 'all-gather'], ['allreduce 1GB', 'allgather 1GB'])
    >>> collectives_in("all gather, reduce scatter, .5GB"), collectives_in("AllGather_X(bf16[B_X, D])")
    (['all-gather .5GB', 'reduce-scatter .5GB'], 'AllGather_X(bf16[B_X, D])')
    """
    if isinstance(expression, list | tuple):
        return expression[0] if len(expression) == 1 else list(expression)
    named = NAMED.fullmatch(expression) if isinstance(expression, str) and "," in expression else None
    if named is None:
        return expression
    return collectives_in([f"{'-'.join(name.split())} {named[2] or ''}".strip() for name in named[1].split(",")])


#: Collectives that begin with a part of the array on each chip, and with an array of full size on each.
STARTS_FROM_PARTS = ("AllGather", "AllToAll", "Gather")
_STARTS_FROM_COPIES = ("AllReduce", "ReduceScatter", "Reduce")


def _all_axes(arguments: Mapping[str, Any]) -> Mapping[str, Size]:
    """The axes of all chips of the target, or those that are named."""
    target = arguments.get("on")
    machine = chip(target, files=arguments.get("files", ())) if isinstance(target, str) else target
    if machine is None:
        raise InputError("the target is missing", hint=f"for instance {spelled('on', 'h100:8')}")
    return arguments.get("mesh") or shape_axes(machine)


#: The least share by which whole elements make an array larger that is told.
_ROUNDING_SHOWN = 1e-3


def _kind_named(name: str) -> str | None:
    """The collective that a name means in any spelling: ``allreduce``, ``all-reduce``, ``all_reduce``."""
    known = {**{kind.lower(): kind for kind in _LINES}, "collectivepermute": "Permute"}
    return known.get("".join(letter for letter in name.lower() if letter.isalpha()))


def _line(
    name: str, nbytes: Any, per_chip: Any, dtype: str, arguments: dict[str, Any]
) -> tuple[str, tuple[Assumption, ...]]:
    """Write a collective that is named, over all chips of the target and of an array of so many bytes.

    ``per_chip`` are the bytes that each chip holds before, where they are given instead. Chips have whole elements, of
    an AllToAll for each other; where that makes the array larger it is said.
    """
    kind = _kind_named(name)
    if kind is None:
        hint = suggest(name, list(_LINES), what="collectives that bytes can be given for")
        raise InputError(f"{quoted(name)} is no collective's name", hint=hint)
    axes = _all_axes(arguments)
    chips = product(axes.values())
    if not isinstance(chips, int):
        raise InputError("bytes go with a number of chips", hint=f"as in {spelled('on', 'h100:8')}")
    if per_chip is not None and nbytes is not None:
        raise InputError("bytes are given twice: of the array, and of each chip", hint="leave one of them out")
    parts = chips if per_chip is not None and kind in STARTS_FROM_PARTS else 1
    named = ("bytes", nbytes) if per_chip is None else ("bytes_per_chip", per_chip)
    amount = given_amount(*named, "B") * parts
    elements = math.ceil(amount * 8 / dtypes.get(dtype).bits_per_element)
    plain = {one: {"N": elements} for one in ("AllReduce", "Broadcast", "Reduce", "Permute", "Send")}
    whole = {**plain, "AllToAll": {"N": -(-elements // chips**2) * chips, "M": chips}}
    taken = whole.get(kind, {"N": -(-elements // chips) * chips})
    sizes = arguments.get("sizes") or {}
    if given := next((name for name in taken if name in sizes or name in arguments), ""):
        raise InputError(f"size {given} goes with a line, and bytes say how large this is", hint="leave it out")
    arguments["sizes"] = {**sizes, **taken}
    rounded = dtypes.get(dtype).nbytes(product(taken.values()))
    said: list[Assumption] = []
    if rounded > amount * (1 + _ROUNDING_SHOWN):
        given, made = format_amount(amount / parts, "B"), format_amount(rounded / parts, "B")
        each = "that every chip has for every other" if kind == "AllToAll" else "on each chip"
        said = assume("layout", [f"{given} are taken as {made}: whole elements of {dtype} {each}"])
    return _LINES[kind].format(A=",".join(axes), dtype=dtype), tuple(said)


def _refuse_several(option: str, amount: Any) -> None:
    """Refuse an array or a range such as ``1kB:1GB:*10`` where one amount is taken."""
    is_several = isinstance(amount, str) and re.search(r":|[A-Za-z]\s*,", amount)
    if is_several or isinstance(amount, list | tuple | range) or is_array(amount):
        hint = f"several stand side by side: {either(spelled(option, '1MB,1GB'), spelled(option, ['1MB', '1GB']))}"
        raise InputError(f"{spelled(option)} takes {either('no range', 'one amount or a list')}", hint=hint)


@overload
def comm(expression: str, *, on: list[Any] | tuple[Any, ...], **arguments: Any) -> SideBySide: ...
@overload
def comm(expression: list[str] | tuple[str, ...], *, on: Any, **arguments: Any) -> SideBySide: ...
@overload
def comm(expression: str, *, bytes: list[Any] | tuple[Any, ...], on: Any = None, **arguments: Any) -> SideBySide: ...
@overload
def comm(
    expression: str,
    *,
    sharp: bool = False,
    bytes: float | str | None = None,
    bytes_per_chip: float | str | None = None,
    dtype: str = "bf16",
    **arguments: Any,
) -> Communication: ...
@measurable  # type: ignore[misc]  # several collectives come one by one
@partial(on_several, subject="expression", read=collectives_in, amounts=("bytes", "bytes_per_chip", "dtype"))
@estimable
@takes(question, but=("flops", "intensity"))
def comm(
    expression: str,
    *,
    sharp: bool = False,
    bytes: float | str | None = None,
    bytes_per_chip: float | str | None = None,
    dtype: str = "bf16",
    **arguments: Any,
) -> Communication | SideBySide:
    """Price one collective of the notation, and every algorithm that could do it.

    ``expression`` is a single collective, ``AllGather_X(bf16[B_X, D])``; ``sharp`` lets the switches add up an
    AllReduce. With ``bytes`` it is a collective's name, over all chips of the target and in ``dtype``; the array has so
    many bytes, all shards together; ``"allreduce 500MB"`` says both. ``bytes_per_chip`` are those that each chip holds
    before: the array itself for an AllReduce or a ReduceScatter, its part of it for an AllGather or an AllToAll.
    Several collectives, ``"allreduce,allgather"`` or a list, stand side by side, and so do a list of bytes.
    The rest is as in :func:`roofline.bound`: ``on``, ``mesh``, ``algorithm``, ``link``, ``wrap``, ``density``, sizes.

    ``"dispatch"`` and ``"combine"`` are the exchange of tokens with their experts: ``T`` tokens on each chip, ``D``
    wide and in ``dtype``, each to ``k`` of ``E`` experts, which lie evenly over the chips of the target. A token is
    sent once to each chip that has some of its experts, and once to each node where that is faster.

    >>> comm("allreduce", bytes=1e9, on="h100:8")
    <Communication: AllReduce over X by in-switch: 2.22 ms on NVIDIA H100 SXM5 80GB>
    >>> comm("dispatch", on="h100:32", dtype="fp8", T=4096, D=7168, E=256, k=8)
    <Communication: dispatch over X by hierarchical: 1.59 ms on NVIDIA H100 SXM5 80GB>
    >>> comm("allreduce 1GB", on="a100:8")
    <Communication: AllReduce over X by two-shot: 5.83 ms on NVIDIA A100 SXM4 80GB>
    >>> comm("reduce-scatter,all-gather 1GB", on="a100:8").names
    ('a100:8 reduce-scatter 1GB', 'a100:8 all-gather 1GB')
    >>> comm("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", B=8, D=8, F=8)
    Traceback (most recent call last):
    roofline.errors.InputError: comm prices one collective, and this is none; as in AllGather_X(bf16[B_X, D]), ...
    """
    rounding: tuple[Assumption, ...] = ()
    named = NAMED.fullmatch(expression)
    if bytes is None and named is not None and named[2]:
        expression, bytes = named[1], named[2].strip()
    for option, given in (("bytes", bytes), ("bytes_per_chip", bytes_per_chip)):
        _refuse_several(option, given)
    by_bytes = (bytes is not None or bytes_per_chip is not None) and dtype == "bf16"
    exchange = _token_exchange(expression, dtype, arguments)
    if exchange is not None:
        if bytes is not None or bytes_per_chip is not None:
            hint = f"leave out {spelled('bytes' if bytes is not None else 'bytes_per_chip')}"
            raise InputError(f"the bytes of {exchange.way} follow from its tokens", hint=hint)
        expression = exchange.line(arguments)
    elif bytes is not None or bytes_per_chip is not None:
        expression, rounding = _line(expression, bytes, bytes_per_chip, dtype, arguments)
    elif dtype != "bf16":
        raise InputError(f"{spelled('dtype')} is of bytes, and a line says its own formats", hint="leave it out")
    elif named is not None and _kind_named(expression) is not None:
        raise InputError(f"the bytes of {expression.strip()} are missing", hint=f"as in {spelled('bytes', '1GB')}")
    asked = question(expression, **arguments)
    if exchange is not None:
        asked = asked.vary(density=exchange.routing)
    steps = asked.parsed.steps
    if len(steps) != 1 or steps[0].kind != "collective":
        hint = "as in AllGather_X(bf16[B_X, D]), or use bound or shard for other operations"
        raise InputError("comm prices one collective, and this is none", hint=hint)
    refuse_idle(asked, uses=OF_ONE_LINE)
    asked = asked.vary(algorithm=_wanted(steps[0].function, asked.conventions.algorithm, sharp))
    whole = asked.on_mesh().mesh
    if whole is not None and all(is_one(whole.sizes.get(axis)) for axis in steps[0].over):
        raise InputError(f"{steps[0].function} goes over axes of one chip: nothing is sent", hint="name a larger mesh")
    laid = lay_out(asked)
    op, mesh = next(op for op in laid.ops if op.kind == "collective"), laid.machine.mesh
    kind, axes = op.options["collective"], tuple(op.options["axes"])
    over = mesh.select(axes) if mesh is not None else ()
    chosen, density = " or ".join(op.options["algorithms"]), asked.conventions.density
    if is_symbol(op.dims["bytes"]) and asked.conventions.algorithm is None:
        chosen = default_algorithm(kind, over, density, op.writes[0].dtype)
    dtype = op.writes[0].dtype
    names, tiers = algorithms(kind, over, dtype), len(link_groups(over))
    rows = [
        _row(asked.vary(algorithm=name), name, describe_algorithm(kind, name, tiers), limit_reason(kind, over, name))
        for name in names
    ]
    if chosen in names:
        crossing = latency_crossover(kind, over, laid.machine, algorithm=chosen, density=density, dtype=dtype)
    else:
        rows.append(_row(asked, chosen, "the fastest at each size"))
        crossing = rows[-1].crossing(op.dims["bytes"]) if is_array(rows[-1].wire_time) else None
    answer = asked.answer()
    answer = replace(answer, assumptions=(*answer.assumptions, *rounding))
    by_size = regimes(kind, over, laid.machine, density=density, dtype=dtype)
    return Communication(
        answer, kind, axes, chosen, op.dims["bytes"], tuple(rows), crossing, by_size, op.dims["chips"], density,
        reducing_links(kind, over, dtype), by_bytes, exchange, bytes_per_chip is not None,
    )  # fmt: skip


def _wanted(kind: str, algorithm: str | Mapping[str, str] | None, sharp: bool) -> str | Mapping[str, str] | None:
    """Map the algorithm asked for to this collective; ``sharp`` means in-switch."""
    if not sharp:
        return {kind: algorithm} if isinstance(algorithm, str) else algorithm
    if kind != "AllReduce":
        raise InputError(f"the switches add up an AllReduce, and this is {a_or_an(kind)}", hint="leave sharp out")
    if isinstance(algorithm, str):
        raise InputError(f"sharp and the algorithm {algorithm} are both asked for", hint="leave one of them out")
    return {**(algorithm or {}), "AllReduce": "in-switch"}


def _row(asked: Question, name: str, says: str, limit: str = "") -> AlgorithmCost:
    """Price the collective by another algorithm, or by the fastest of each size."""
    answer = asked.answer()
    wire = {resource: time for resource, time in answer.times.items() if resource in answer.wire}
    work = sum((part.op.work * part.op.repeat for part in answer.ops if part.op.kind == "collective"), Work())
    known = all(rate(answer.machine, key) is not None for key in work if key.quantity == "hops")
    hop_time = sum(use.time for use in answer.uses if use.quantity == "hops") if known else None
    busiest, sent = maximum(*wire.values()), maximum(*answer.wire.values())
    return AlgorithmCost(name, says, sent, work.total("hops"), busiest, hop_time, limit, dict(answer.wire))
