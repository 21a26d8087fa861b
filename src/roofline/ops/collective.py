"""Collectives: what moving an array between the chips of mesh axes costs, by algorithm.

>>> from roofline.hardware import chip
>>> mesh = chip("v5e:16x4").mesh
>>> cost("AllGather", mesh.select("X"), 2**20)
Cost(AllGather over X, 16 chips: two-way ring; wire/X: 491520, hops/X: 8)
>>> cost("AllReduce", mesh.select("Y"), 2**20, algorithm="book").work
Work(wire/Y: 1048576, hops/Y: 4)
>>> cost("AllGather", chip("h100:64").mesh.select("X"), 2**20).work
Work(wire/X.nvlink: 917504, hops/X.nvlink: 1, wire/X.nic: 114688, hops/X.nic: 1)

``nbytes`` is the book's V, the bytes of the array that the chips of these axes share: what each holds after an
AllGather, before a ReduceScatter or an AllReduce, and all of them together before an AllToAll. For Permute, Send and
Broadcast it is one chip's message. Amounts may be numbers, arrays or symbols, axis sizes too:

>>> from roofline.sizes import symbol
>>> from roofline.hardware.mesh import with_mesh
>>> n, V = symbol("n"), symbol("V")
>>> cost("AllReduce", with_mesh(chip("v5p"), {"X": n}).mesh.select("X"), V).work
Work(wire/X: V*(n - 1)/n, hops/X: n)

Without ``algorithm`` one that is good at every size is taken: on a torus all links there are (both ways where an axis
wraps around, a line where it does not), over tiers one after the other, on switches and on a mesh of links direct
exchange, which sends as many bytes as a ring in one hop, and two trees for a Broadcast; AllToAll, Permute and Send go
the shortest way. ``auto`` takes the fastest at this size (:mod:`roofline.ops.collective_choice`), and
:func:`algorithms` lists what fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.errors import InputError, suggest
from roofline.hardware.axes import MeshAxis
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.ops import (  # noqa: F401  (each registers its algorithms)
    collective_book,
    collective_direct,
    collective_ring,
    collective_switch,
)
from roofline.ops.collective_algorithms import ALGORITHMS, Call, named
from roofline.ops.collective_groups import groups
from roofline.ops.collective_picks import Density, Picks
from roofline.sizes import Size, is_array, is_one, is_symbol, maximum, product
from roofline.work import Op, Tensor, Work

if TYPE_CHECKING:
    from roofline.ops.collective_choice import Chooser

#: Every collective, and what it does to an array.
KINDS = {
    "AllGather": "every chip gets the shards of all",
    "ReduceScatter": "partial sums are added up, and every chip keeps one shard",
    "AllReduce": "partial sums are added up, and every chip keeps all",
    "AllToAll": "every chip sends every other its shard: the sharding moves to another dimension",
    "Permute": "every chip sends its message to the next",
    "Broadcast": "one chip's message goes to all",
    "Send": "one chip's message goes to another, the farthest",
}


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """What a collective makes one chip do, and how it was counted.

    ``work`` holds, under each place of the mesh, the one-way bytes over the busiest link and the link latencies that
    follow one another. ``nbytes`` is V, ``chips`` how many take part.
    """

    kind: str
    axes: tuple[str, ...]
    algorithm: str
    nbytes: Size
    chips: Size
    work: Work
    note: str

    def __repr__(self) -> str:
        over = f"{self.kind} over {', '.join(self.axes)}, {_chips(self.chips)}"
        return f"Cost({over}: {self.algorithm}; {repr(self.work)[5:-1]})"


def cost(
    kind: str,
    axes: Sequence[MeshAxis],
    nbytes: Size,
    *,
    algorithm: str | Chooser | None = None,
    density: Density = 1,
) -> Cost:
    """Count a collective of ``nbytes`` over mesh axes; ``density`` is the share of an AllToAll that is sent.

    Rows that go to several chips each, as :class:`~roofline.ops.collective_picks.Picks`, make a share for each tier.

    ``algorithm`` is a name, or a :class:`~roofline.ops.collective_choice.Chooser` that knows the machine.
    An unknown collective or algorithm, or one that the links cannot do, is an error that lists those that can.

    >>> from roofline.hardware import chip
    >>> cost("AllToAll", chip("h100:8").mesh.select("X"), 8e9, density=0.5).work
    Work(wire/X: 437500000.0, hops/X: 1)
    >>> cost("AllReduce", chip("v5e:4").mesh.select("X"), 8e9, algorithm="in-switch")
    Traceback (most recent call last):
    roofline.errors.InputError: in-switch does not do AllReduce over X: ici has no switches that reduce; ...
    """
    if not axes:
        raise InputError(f"{kind} goes over mesh axes, and there are none", hint=f"as in {kind}_X(…)")
    if algorithm is not None and not isinstance(algorithm, str):
        return algorithm.cost(kind, axes, nbytes, density)
    call = _call(kind, axes, nbytes, density)
    if isinstance(density, Picks) and not isinstance(call.chips, int):
        hint = "one number of chips at a time"
        raise InputError("rows that go to several chips each are counted on a number of chips", hint=hint)
    name = default_algorithm(kind, axes, density) if algorithm is None else _known(algorithm, call, axes)
    chosen = ALGORITHMS[name]
    over = tuple(axis.name for axis in axes)
    short = chosen.limit(call)
    note = f"{kind} over {', '.join(over)} ({_chips(call.chips)}): {name}, {says(kind, name)}"
    note += f" ({short})" if short else ""
    if kind == "AllToAll":
        note += _part(call)
    return Cost(kind, over, name, nbytes, call.chips, chosen.formula(call), note)


def collective(
    kind: str,
    x: Tensor,
    axes: Sequence[MeshAxis],
    *,
    out: Tensor | None = None,
    algorithm: str | Chooser | None = None,
    density: Density = 1,
    name: str = "",
) -> Op:
    """Make the operation of a collective on ``x``, the part of the array that one chip holds before it.

    It reads ``x`` and writes ``out``: one chip's part after it, by default ``x`` with its first dimension scaled by
    the number of chips (AllGather) or divided by it (ReduceScatter).

    >>> from roofline.hardware import chip
    >>> op = collective("AllGather", Tensor("x", (512, 8192), "bf16"), chip("v5e:4").mesh.select("X"))
    >>> op.work, op.writes[0].dims
    (Work(wire/X: 25165824, hops/X: 3), (2048, 8192))
    """
    chips = product(axis.size for axis in axes)
    nbytes = x.traffic_bytes * chips if kind in ("AllGather", "AllToAll") else x.traffic_bytes
    found = cost(kind, axes, nbytes, algorithm=algorithm, density=density)
    return Op(
        name=name or f"{kind}_{{{','.join(found.axes)}}}",
        kind="collective",
        work=found.work,
        reads=(x,),
        writes=(out or _result(kind, x, chips),),
        dims={"bytes": nbytes, "chips": chips},
        note=found.note,
        options={"collective": kind, "algorithm": found.algorithm, "axes": found.axes, "density": density},
    )


def default_algorithm(kind: str, axes: Sequence[MeshAxis], density: Density = 1) -> str:
    """Name the algorithm that is taken when none is asked for."""
    call = _call(kind, axes, 1, density)
    if kind in ("Permute", "Send") or not call.groups:
        return "direct"
    topologies = [group.topology for group in call.groups]
    if kind == "AllToAll" and "torus" not in topologies and not (isinstance(density, Picks) and len(topologies) > 1):
        return "direct"
    if len(topologies) > 1:
        return "hierarchical"
    if topologies == ["torus"]:
        shapes = {level.shape for level in call.groups[0].levels}
        single = len(call.groups[0].levels) == 1
        return {"ring": "two-way ring", "line": "line"}.get(shapes.pop(), "torus") if single else "torus"
    if topologies == ["switch"] and kind == "Broadcast":
        return "double binary tree"
    return {"AllReduce": "two-shot"}.get(kind, "direct")


def says(kind: str, name: str) -> str:
    """Say how an algorithm does a collective; a message for one chip goes to that one only."""
    return "a message goes to its receiver the shortest way" if kind in ("Permute", "Send") else ALGORITHMS[name].says


def algorithms(kind: str, axes: Sequence[MeshAxis]) -> tuple[str, ...]:
    """List the algorithms that can do a collective over these axes.

    >>> from roofline.hardware import chip
    >>> algorithms("AllReduce", chip("h100:8").mesh.select("X"))
    ('one-way ring', 'two-way ring', 'book', 'direct', 'two-shot', 'tree', 'double binary tree', 'in-switch')
    """
    call = _call(kind, axes, 1, 1)
    return tuple(a.name for a in ALGORITHMS.values() if kind in a.kinds and not a.unfit(call))


def limit(kind: str, axes: Sequence[MeshAxis], name: str) -> str:
    """Say why the figure of an algorithm is a limit that these axes do not reach; nothing where they can do it.

    >>> from roofline.hardware import chip
    >>> limit("AllGather", chip("v5e:8").mesh.select("X"), "two-way ring")
    'axis X does not close'
    """
    return ALGORITHMS[name].limit(_call(kind, axes, 1, 1))


def crossing(kind: str, axes: Sequence[MeshAxis], machine: Machine, *, algorithm: str | None = None) -> Size | None:
    """Return the bytes V at which moving them takes as long as the hops: below it a collective is latency-bound.

    V = α·V₀/T(V₀), as bytes over each link grow with V. None where a latency or a bandwidth is not known.

    >>> from roofline.hardware import chip
    >>> v5e = chip("v5e:8")
    >>> round(crossing("AllGather", v5e.mesh.select("X"), v5e))
    360000
    """
    unit = 2**40
    times: dict[str, Size] = {}
    latency: Size = 0
    for key, amount in cost(kind, axes, unit, algorithm=algorithm).work.items():
        found = rate(machine, key)
        if found is None:
            return None
        if key.quantity == "hops":
            latency = latency + amount / found.value
        else:
            times[found.resource] = times.get(found.resource, 0) + amount / found.value
    if not times:
        return None
    longest = maximum(*times.values()) if len(times) > 1 else next(iter(times.values()))
    if is_array(longest):
        import numpy as np

        with np.errstate(all="ignore"):
            return latency * unit / longest
    found = latency * unit / longest
    if is_symbol(found):
        import sympy

        return sympy.factor(sympy.nsimplify(sympy.cancel(found), rational=True))
    return found


def bus_share(kind: str, chips: Size) -> Size:
    """Bytes that each chip has to send whatever the network, over those of its buffer, as nccl-tests count them.

    Times the bandwidth of the buffer it is the bus bandwidth, which is at most what a chip sends one way unless
    switches reduce. The buffer is the array, but of an AllToAll the part of it that one chip holds and sends.

    Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.

    >>> bus_share("AllReduce", 8), bus_share("AllGather", 8), bus_share("AllToAll", 8), bus_share("Broadcast", 8)
    (1.75, 0.875, 0.875, 1)
    """
    if kind in ("Broadcast", "Permute", "Send"):
        return 1
    return (2 if kind == "AllReduce" else 1) * (chips - 1) / chips


def touched_share(picks: Size, ways: Size) -> Size:
    """Share of an array's bytes that leave a chip when each row goes to ``picks`` of ``ways`` chips at random.

    (1 − ((n − 1)/n)^k)·(n − 1)/n: the chips that are hit at least once, less the chip itself; the exact form of
    k/n·(n − 1)/n for k much below n. Source: "How To Scale Your Model", chapter 12.

    >>> round(touched_share(4, 8), 4)
    0.3621
    """
    others = (ways - 1) / ways
    return (1 - others**picks) * others


def _part(call: Call) -> str:
    """Say which part of an AllToAll is sent, where it is one number."""
    if isinstance(call.density, Picks) or is_one(call.density):
        return ""
    if is_array(call.density) or is_symbol(call.density):
        return "; a share of it is sent"
    return f"; {float(call.density):.3g} of it is sent"


def _call(kind: str, axes: Sequence[MeshAxis], nbytes: Size, density: Density) -> Call:
    if kind not in KINDS:
        raise InputError(f"unknown collective {kind!r}", hint=suggest(kind, KINDS, what="collectives"))
    return Call(kind, groups(axes), nbytes, product(axis.size for axis in axes), density)


def _known(name: str, call: Call, axes: Sequence[MeshAxis]) -> str:
    chosen = named(name)
    if chosen is None and name.strip().lower() == "auto":
        hint = "as in Chooser('auto', machine)"
        raise InputError("auto compares times, and those take the rates of a machine", hint=hint)
    if chosen is None:
        hint = suggest(name.strip().lower(), [*ALGORITHMS, "auto"], what="algorithms", limit=20)
        raise InputError(f"unknown algorithm {name!r}", hint=hint)
    found = chosen.name
    reason = chosen.unfit(call) if call.kind in chosen.kinds else f"it does {', '.join(chosen.kinds)}"
    if reason:
        over = ", ".join(axis.name for axis in axes)
        hint = f"those that do: {', '.join(algorithms(call.kind, axes))}"
        raise InputError(f"{found} does not do {call.kind} over {over}: {reason}", hint=hint)
    return found


def _result(kind: str, x: Tensor, chips: Size) -> Tensor:
    first, *rest = x.dims or (1,)
    scaled = {"AllGather": first * chips, "ReduceScatter": first / chips if is_symbol(chips) else first // chips}
    return Tensor(f"{kind}({x.ident})", (scaled.get(kind, first), *rest) if x.dims else (), x.dtype, x.role)


def _chips(count: Size) -> str:
    return "arrays of chips" if is_array(count) else f"{count} chips"
