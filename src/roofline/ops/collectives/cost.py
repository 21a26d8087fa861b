"""The cost of one collective: what moving an array between the chips of mesh axes takes, by algorithm.

>>> from roofline.hardware import chip
>>> mesh = chip("v5e:16x4").mesh
>>> cost("AllGather", mesh.select("X"), 2**20)
CollectiveCost(AllGather over X, 16 chips: two-way ring; wire/X: 491520, hops/X: 8)
>>> cost("AllReduce", mesh.select("Y"), 2**20, algorithm="book").work
Work(wire/Y: 1048576, hops/Y: 4)
>>> cost("AllGather", chip("h100:64").mesh.select("X"), 2**20).work
Work(wire/X.nvlink: 917504, hops/X.nvlink: 1, wire/X.nic: 114688, hops/X.nic: 1)

``nbytes`` is V of the book, the bytes of the whole array: each chip holds it after an AllGather and before a
ReduceScatter or an AllReduce, all chips together hold it before an AllToAll, one chip after a Gather and before a
Scatter. For Permute, Send, Broadcast and Reduce it is the message of one chip. Amounts and axis
sizes may be numbers, arrays or symbols:

>>> from roofline.sizes import symbol
>>> from roofline.hardware.mesh import with_mesh
>>> n, V = symbol("n"), symbol("V")
>>> cost("AllReduce", with_mesh(chip("v5p"), {"X": n}).mesh.select("X"), V).work
Work(wire/X: V*(n - 1)/n, hops/X: n - 1)

Without ``algorithm``, the one that is the fastest for large arrays is taken (:func:`default_algorithm`). A
:class:`~roofline.ops.collectives.choice.Chooser` knows the machine and takes the fastest at this size.
:func:`algorithms` lists those that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from roofline.errors import InputError, check_one_of, suggest
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import Machine, MeshAxis
from roofline.hardware.rate import HOPS, rate
from roofline.lazy import np, sympy
from roofline.ops.collectives import algorithms as _registered  # noqa: F401  (they register theirs)
from roofline.ops.collectives import registry
from roofline.ops.collectives.registry import ALGORITHMS, KINDS, LIKE, CollectiveCall
from roofline.ops.collectives.routing import Density, TopKRouting
from roofline.sizes import Size, is_array, is_one, is_symbol, maximum, product, sums_by_name
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveCost:
    """The work of one chip in a collective, and how it was counted.

    ``work`` holds, under each place of the mesh, the one-way bytes over the busiest link and the link latencies that
    follow one another. ``nbytes`` is V, ``chips`` the number of chips that take part. ``algorithms`` are several where
    sizes are open or arrays.
    """

    kind: str
    axes: tuple[str, ...]
    algorithms: tuple[str, ...]
    nbytes: Size
    chips: Size
    work: Work
    note: str

    @property
    def algorithm(self) -> str:
        """Its algorithms in words."""
        return " or ".join(self.algorithms)

    def __repr__(self) -> str:
        over = f"{self.kind} over {', '.join(self.axes)}, {_chips(self.chips)}"
        return f"CollectiveCost({over}: {self.algorithm}; {repr(self.work)[5:-1]})"


class ChoosesAlgorithm(Protocol):
    """Chooses the algorithm of a collective and counts it (:class:`~roofline.ops.collectives.choice.Chooser`)."""

    def cost(
        self, kind: str, axes: Sequence[MeshAxis], nbytes: Size, density: Density, dtype: str = ""
    ) -> CollectiveCost:
        """Count a collective by the algorithm chosen for it."""


def algorithm_names() -> tuple[str, ...]:
    """The algorithms of collectives.

    >>> {"tree", "in-switch", "torus"} <= set(algorithm_names())
    True
    """
    return tuple(ALGORITHMS)


def cost(
    kind: str,
    axes: Sequence[MeshAxis],
    nbytes: Size,
    algorithm: str | ChoosesAlgorithm | None = None,
    density: Density = 1,
    dtype: str = "",
    machine: Machine | None = None,
) -> CollectiveCost:
    """Count a collective of ``nbytes`` over mesh axes.

    ``density`` is the share of an AllToAll that is sent, or the routing of rows that go to several chips each. The
    latter gives each tier a share of its own. ``dtype`` is the format of what an AllReduce adds up: switches add up
    some of them. ``algorithm`` is a name, or a
    :class:`~roofline.ops.collectives.choice.Chooser` that knows the machine. By the rates of a ``machine``
    ``balanced`` and ``balanced in-switch`` share bytes out between tiers. An unknown collective or algorithm, or one
    that the links cannot do, is an error that lists those that can.

    >>> from roofline.hardware import chip
    >>> cost("AllToAll", chip("h100:8").mesh.select("X"), 8e9, density=0.5).work
    Work(wire/X: 437500000.0, hops/X: 1)
    >>> cost("AllReduce", chip("v5e:4").mesh.select("X"), 8e9, algorithm="in-switch")
    Traceback (most recent call last):
    roofline.errors.InputError: in-switch does not do AllReduce over X: ici has no switches that reduce; ...
    >>> [cost("AllReduce", chip("h100:8").mesh.select("X"), 8e9, dtype=dtype).algorithm for dtype in ("bf16", "int8")]
    ['in-switch', 'two-shot']
    """
    if not axes:
        raise InputError(f"{kind} goes over mesh axes, and there are none", hint=f"as in {kind}_X(…)")
    if algorithm is not None and not isinstance(algorithm, str):
        return algorithm.cost(kind, axes, nbytes, density, dtype)
    call = _call(kind, axes, nbytes, density, dtype, machine)
    if isinstance(density, TopKRouting) and not isinstance(call.chips, int):
        hint = "one number of chips at a time"
        raise InputError("rows that go to several chips each are counted on a number of chips", hint=hint)
    name = default_algorithm(kind, axes, density, dtype) if algorithm is None else _known(algorithm, call, axes)
    chosen = ALGORITHMS[name]
    over, short = tuple(axis.name for axis in axes), chosen.limit(call)
    how = describe_algorithm(kind, name, len(call.groups))
    note = f"{kind} over {', '.join(over)} ({_chips(call.chips)}): {name}, {how}"
    note += f" ({short})" if short else ""
    note += _reducing(call) if name in registry.BY_SWITCHES else ""
    note += _part(call) if kind == "AllToAll" else ""
    work, places = chosen.formula(call), [segment.place for group in call.groups for segment in group.segments]
    work = Work({key: work[key] for key in sorted(work, key=lambda key: places.index(key.place))})  # inner tiers first
    return CollectiveCost(kind, over, (name,), nbytes, call.chips, work, note)


def collective(
    kind: str,
    x: Tensor,
    axes: Sequence[MeshAxis],
    *,
    out: Tensor | None = None,
    sent: Tensor | None = None,
    algorithm: str | ChoosesAlgorithm | None = None,
    density: Density = 1,
    name: str = "",
) -> Op:
    """Make the operation of a collective on ``x``, the part of the array that one chip holds before it.

    ``sent`` is that part where it is padded to be sent, so that each chip gets a part of the same size.

    It reads ``x`` and writes ``out``: one chip's part after it, by default ``x`` with its first dimension scaled by
    the number of chips (AllGather) or divided by it (ReduceScatter). Of an AllToAll that sends a share, that share of
    both; of rows that go to several chips each, every row once, and those that arrive.

    >>> from roofline.hardware import chip
    >>> op = collective("AllGather", Tensor("x", (512, 8192), "bf16"), chip("v5e:4").mesh.select("X"))
    >>> op.work, op.writes[0].dims
    (Work(wire/X: 25165824, hops/X: 3), (2048, 8192))
    """
    chips = product(axis.size for axis in axes)
    part = (sent or x).traffic_bytes
    nbytes = part * chips if kind in ("AllGather", "Gather", "AllToAll") else part
    name = name or f"{kind}_{{{','.join(axis.name for axis in axes)}}}"
    out = out or _result(kind, x, chips)
    if kind == "AllToAll" and (isinstance(density, TopKRouting) or not is_one(density)):
        one_of = (1 / density.chosen, density.sent_share(chips)) if isinstance(density, TopKRouting) else (density,) * 2
        pairs = zip((x, out), one_of, strict=True)
        x, out = (replace(t, touched=t.elements * share, average=True) for t, share in pairs)
    return price_collective(
        name, (x,), (out,), kind=kind, axes=axes, nbytes=nbytes, algorithm=algorithm, density=density
    )


def price_collective(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    *,
    kind: str,
    axes: Sequence[MeshAxis],
    nbytes: Size,
    algorithm: str | ChoosesAlgorithm | None = None,
    density: Density = 1,
    dtype: str = "",
) -> Op:
    """Make the operation of a collective of an array of ``nbytes``; in place, it reads and writes nothing."""
    dtype = dtype or next((tensor.dtype for tensor in (*reads, *writes)), "")
    found = cost(kind, axes, nbytes, algorithm=algorithm, density=density, dtype=dtype)
    dims = {"bytes": nbytes, "chips": found.chips}
    options = {"collective": kind, "algorithms": found.algorithms, "axes": found.axes, "density": density}
    return Op(name, "collective", found.work, tuple(reads), tuple(writes), dims, note=found.note, options=options)


def default_algorithm(kind: str, axes: Sequence[MeshAxis], density: Density = 1, dtype: str = "") -> str:
    """Name the fastest algorithm for large arrays.

    An AllReduce and a Broadcast go by switches that reduce and multicast, where there are any that add up ``dtype``. On
    a torus all links are used, both ways where an axis wraps around; by trees where one ends. On switches and meshes it
    is direct exchange, which sends the bytes of a ring in one hop. Over several tiers it is hierarchical. An AllToAll
    goes the shortest way, and so do a Permute and a Send where links lead no other way.

    >>> from roofline.hardware import chip
    >>> [default_algorithm("AllReduce", chip(on).mesh.axes) for on in ("h100:8", "a100:8", "v5e:16x16", "v5e:4x4")]
    ['in-switch', 'two-shot', 'torus', 'spanning trees']
    """
    call = _call(kind, axes, 1, density, dtype)
    kind = call.kind
    if kind in ("Permute", "Send") and len(call.groups) == 1 and not ALGORITHMS["striped"].unfit(call):
        return "striped"
    if kind in ("Permute", "Send") or not call.groups:
        return "direct"
    topologies = [group.topology for group in call.groups]
    routed_over_tiers = isinstance(density, TopKRouting) and len(topologies) > 1
    if kind == "AllToAll" and "torus" not in topologies and not routed_over_tiers:
        return "direct"
    if kind in ALGORITHMS["in-switch"].kinds and any(call.in_switch(group) for group in call.groups):
        return "in-switch"
    if kind == "AllReduce" and topologies == ["torus"] and is_one(call.chips - 1):
        return "direct"
    if _trees_send_less(call):
        lines = [segment.shape for group in call.groups for segment in group.segments]
        return "chain" if lines == ["line"] and kind == "AllReduce" else "spanning trees"
    if len(topologies) > 1:
        return "hierarchical"
    if topologies == ["torus"]:
        shapes = {segment.shape for segment in call.groups[0].segments}
        single = len(call.groups[0].segments) == 1
        return {"ring": "two-way ring", "line": "line"}.get(shapes.pop(), "torus") if single else "torus"
    return "two-shot" if kind in ("AllReduce", "Broadcast") else "direct"


def _trees_send_less(call: CollectiveCall) -> bool:
    """Whether trees over all links send less than rings: an AllReduce where an axis ends, a Broadcast over several."""
    for group in call.groups:
        several = len(group.segments) > 1 and group.topology == "torus"
        if call.kind == "Broadcast" and (several or group.topology == "mesh"):
            return True
        if call.kind == "AllReduce" and group.topology == "torus" and registry.require_closed_axes(call):
            return True
    return False


#: What algorithms do that send from one chip to all, or from all to one.
_WITH_ONE_CHIP = {
    "direct": "straight between one chip and each other", "two-shot": "in parts, each by way of another chip",
    "tree": "a binomial tree, log₂ n steps",
}  # fmt: skip


def describe_algorithm(kind: str, name: str, tiers: int = 1) -> str:
    """Say how an algorithm does a collective over some tiers; a message for one chip goes to that one only.

    Where one chip has all of it before or after, the others send to it, or it sends to them.

    >>> describe_algorithm("AllReduce", "one-way ring"), describe_algorithm("AllReduce", "one-way ring", 2)
    ('one way round a ring', 'one way round a ring in each tier; one over all chips is a flat ring')
    >>> describe_algorithm("AllReduce", "two-shot"), describe_algorithm("Broadcast", "two-shot")
    ('a direct ReduceScatter, then a direct AllGather', 'in parts, each by way of another chip')
    """
    if kind in ("Permute", "Send") and name == "direct":
        return "a message goes to its receiver the shortest way"
    if kind in registry.ROOTED and name in _WITH_ONE_CHIP:
        return _WITH_ONE_CHIP[name]
    each = " in each tier; one over all chips is a flat ring" if tiers > 1 and name == "one-way ring" else ""
    return f"{ALGORITHMS[name].says}{each}"


def algorithms(kind: str, axes: Sequence[MeshAxis], dtype: str = "") -> tuple[str, ...]:
    """List the algorithms that can do a collective over these axes.

    >>> from roofline.hardware import chip
    >>> algorithms("AllReduce", chip("h100:8").mesh.select("X"))
    ('one-way ring', 'two-way ring', 'book', 'direct', 'two-shot', 'tree', 'double binary tree', 'in-switch')
    """
    call = _call(kind, axes, 1, 1, dtype)
    return tuple(a.name for a in ALGORITHMS.values() if call.kind in a.kinds and not a.unfit(call))


def limit_reason(kind: str, axes: Sequence[MeshAxis], name: str) -> str:
    """Say why the figure of an algorithm is a limit that these axes do not reach; nothing where they can do it.

    >>> from roofline.hardware import chip
    >>> limit_reason("AllGather", chip("v5e:8").mesh.select("X"), "two-way ring")
    'axis X does not close'
    """
    return ALGORITHMS[name].limit(_call(kind, axes, 1, 1))


def reducing_links(kind: str, axes: Sequence[MeshAxis], dtype: str = "") -> tuple[str, ...]:
    """Name the links whose switches add up or multicast this collective in this format, the innermost first.

    >>> from roofline.hardware import chip
    >>> reducing_links("AllReduce", chip("h100:16").mesh.select("X"), "bf16")
    ('nvlink',)
    """
    call = _call(kind, axes, 1, 1, dtype)
    return tuple(dict.fromkeys(group.link for group in call.groups if call.in_switch(group)))


def latency_crossover(
    kind: str, axes: Sequence[MeshAxis], machine: Machine, *, algorithm: str | None = None, density: Density = 1,
    dtype: str = "",
) -> Size | None:  # fmt: skip
    """Return the bytes V that take as long to move as the hops take: a smaller collective is latency-bound.

    V = α·V₀/T(V₀), as bytes over each link grow with V. None where a latency or a bandwidth is not known.

    >>> from roofline.hardware import chip
    >>> v5e = chip("v5e:8")
    >>> round(latency_crossover("AllGather", v5e.mesh.select("X"), v5e))
    360000
    """
    unit = 2**40
    work = cost(kind, axes, unit, algorithm, density, dtype, machine).work
    each = [(rate(machine, key), amount) for key, amount in work.items()]
    times = sums_by_name((found.resource, amount / found.value) for found, amount in each if found is not None)
    latency = times.pop(HOPS, 0)
    if not times or any(found is None for found, _ in each):
        return None
    longest = maximum(*times.values())
    if is_array(longest):
        with np.errstate(all="ignore"):
            return latency * unit / longest
    found = latency * unit / longest
    if is_symbol(found):
        return sympy.factor(sympy.nsimplify(sympy.cancel(found), rational=True))
    return found


def touched_share(chosen: Size, ways: Size) -> Size:
    """Share of an array's bytes that leave a chip when each row goes to ``chosen`` of ``ways`` chips at random.

    (1 − ((n − 1)/n)^k)·(n − 1)/n: the chips that are hit at least once, without the chip itself. For k much
    smaller than n it is k/n·(n − 1)/n. Source: "How To Scale Your Model", chapter 12.

    >>> round(touched_share(4, 8), 4)
    0.3621
    """
    others = (ways - 1) / ways
    return (1 - others**chosen) * others


def _part(call: CollectiveCall) -> str:
    """Say which share of an AllToAll is sent, where it is one number."""
    if isinstance(call.density, TopKRouting) or is_one(call.density):
        return ""
    if is_array(call.density) or is_symbol(call.density):
        return "; a share of it is sent"
    return f"; {float(call.density):.3g} of it is sent"


def _reducing(call: CollectiveCall) -> str:
    """Say which links reduce, and by what."""
    able = [group for group in call.groups if group.reduces is not None and call.in_switch(group)]
    said = [f"{group.link}: {group.reduces.note}" for group in able if group.reduces is not None and group.reduces.note]
    return f" ({'; '.join(said)})" if said else ""


def _call(
    kind: str, axes: Sequence[MeshAxis], nbytes: Size, density: Density, dtype: str = "", machine: Machine | None = None
) -> CollectiveCall:
    check_one_of(f"unknown collective {kind!r}", kind, KINDS, "collectives")
    chips = product(axis.size for axis in axes)
    groups = registry.link_groups(axes)
    sums = kind in registry.SUMMING
    return CollectiveCall(LIKE.get(kind, kind), groups, nbytes, chips, density, dtype, sums, machine)


def _known(name: str, call: CollectiveCall, axes: Sequence[MeshAxis]) -> str:
    chosen = registry.find_algorithm(name)
    if chosen is None and name.strip().lower() == "auto":
        hint = "as in Chooser('auto', machine)"
        raise InputError("auto compares times, and those take the rates of a machine", hint=hint)
    if chosen is None:
        hint = suggest(name.strip().lower(), [*ALGORITHMS, *registry.ALIASES, "auto"], what="algorithms", limit=30)
        raise InputError(f"unknown algorithm {name!r}", hint=hint)
    reason = chosen.unfit(call) if call.kind in chosen.kinds else f"it does {', '.join(chosen.kinds)}"
    if reason:
        over = ", ".join(axis.name for axis in axes)
        hint = f"those that do: {', '.join(algorithms(call.kind, axes, call.dtype))}"
        raise InputError(f"{chosen.name} does not do {call.kind} over {over}: {reason}", hint=hint)
    return chosen.name


def _result(kind: str, x: Tensor, chips: Size) -> Tensor:
    first, *rest = x.dims or (1,)
    scaled = {"AllGather": first * chips, "ReduceScatter": first / chips if is_symbol(chips) else first // chips}
    dims = (scaled.get(LIKE.get(kind, kind), first), *rest) if x.dims else ()
    return Tensor(f"{kind}({x.ident})", dims, x.dtype, x.role)


def _chips(count: Size) -> str:
    return "arrays of chips" if is_array(count) else f"{count} chips"
