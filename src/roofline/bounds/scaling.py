"""When does a layer scale? The book's conditions, each worked out from the plan of one sharded line.

>>> for name in ("dp", "fsdp", "tp", "mixed"):
...     print(scaling(name, on="v5p"))
dp: tokens per chip = P_bf16/(2*W_ici_X) = 2,550
fsdp: tokens per chip = P_bf16/(2*W_ici_X) = 2,550
tp: F = P_bf16*Y/(2*W_ici_Y)
mixed: tokens per chip = P_bf16**2/(4*F*W_ici_X*W_ici_Y)

No formula is typed here: a condition is a line of the notation and the unknown at which T_math = T_comms. Bandwidths W
are one way over one link; the book's is both ways, twice that. Any collective algorithm may be named in place of the
book's limiting form, any target in place of a ring of a symbolic number of chips:

>>> round(scaling("dp", on="dgx-h100:1024", set={"bf16": 9.9e14}).value)
2475
>>> scaling("tp", on="v5p", set={"bf16": 4.59e14}, F=50_000, unknown="Y").value
19.6...

Sources: "How To Scale Your Model", chapters 5 (data, fully sharded, tensor and mixed parallelism, DCN), 7 (decoding)
and 12 (GPUs, experts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.bounds.api import question
from roofline.bounds.bound import Bound
from roofline.bounds.closed import values_of
from roofline.bounds.crossing import positive_number, put_numbers, roots_of
from roofline.bounds.question import Question
from roofline.bounds.solve_network import hidden_from
from roofline.errors import InputError, suggest
from roofline.quantity import format_number
from roofline.sizes import product, symbol


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a sharded line, its unknown, and what the answer is per.

    ``against`` is what communication is held against: ``flops``, or ``bytes`` where decoding is bound by loading
    weights. ``per`` lists the mesh axes whose chips share the unknown; ``link`` names the axis whose links count,
    where only one does.
    """

    says: str
    text: str
    unknown: str
    what: str
    per: tuple[str, ...] = ()
    mesh: tuple[str, ...] = ("X",)
    link: str = ""
    against: str = "flops"


#: The conditions by name; ``{0}`` in a line is the dtype.
CONDITIONS: dict[str, Condition] = {
    "dp": Condition(
        "data parallelism: gradients of a layer are summed behind its backward pass",
        "dWo = h:{0}[B_X, F] * dOut:{0}[B_X, D] -> {0}[F, D]; dh = dOut * Wo:{0}[F, D] -> {0}[B_X, F]; "
        "dWi = x:{0}[B_X, D] * dh -> {0}[D, F]; dh * Wi:{0}[D, F] -> {0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "fsdp": Condition(
        "fully sharded data parallelism: weights are gathered behind the forward pass",
        "In:{0}[B_X, D] * Wi:{0}[D_X, F] * Wo:{0}[F, D_X] -> Out:{0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "tp": Condition(
        "tensor parallelism: activations are gathered and scattered around the layer",
        "In:{0}[B, D_Y] * Wi:{0}[D, F_Y] * Wo:{0}[F_Y, D] -> Out:{0}[B, D_Y]",
        "F",
        "F",
        mesh=("Y",),
    ),
    "dcn": Condition(
        "data parallelism between slices: gradients cross the data-centre network",
        "dWo = h:{0}[B_SX, F] * dOut:{0}[B_SX, D] -> {0}[F, D_X]; dh = dOut * Wo:{0}[F, D] -> {0}[B_SX, F]; "
        "dWi = x:{0}[B_SX, D] * dh -> {0}[D_X, F]; dh * Wi:{0}[D, F] -> {0}[B_SX, D]",
        "B",
        "tokens per slice",
        per=("S",),
        mesh=("X", "S"),
        link="S",
    ),
    "moe-dp": Condition(
        "data parallelism of E experts, k of them for each token: T tokens reach each expert",
        "dWo = h:{0}[E, T_X, F] * dOut:{0}[E, T_X, D] -> {0}[E, F, D]; dh = dOut * Wo:{0}[E, F, D] -> {0}[E, T_X, F]; "
        "dWi = x:{0}[E, T_X, D] * dh -> {0}[E, D, F]; dh * Wi:{0}[E, D, F] -> {0}[E, T_X, D]",
        "T",
        "tokens per expert and chip",
        per=("X",),
    ),
    "ep": Condition(
        "expert parallelism: tokens go to the chips of their experts and back",
        "In:{0}[E, T_X, D] *_D Wi:{0}[E_X, D, F] *_F Wo:{0}[E_X, F, D] -> Out:{0}[E, T_X, D]",
        "F",
        "F",
    ),
    "decode-tp": Condition(
        "tensor parallelism of decoding: activations move while weights are loaded",
        "In:{0}[B, D_Y] * Wi:{0}[D, F_Y] * Wo:{0}[F_Y, D] -> Out:{0}[B, D_Y]",
        "Y",
        "ways",
        mesh=("Y",),
        against="bytes",
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A condition worked out: scaling holds while ``what`` is at least (for ways: at most) ``form``.

    ``form`` is the closed form in rates and open sizes, ``value`` its number where nothing is open; ``limit_form`` and
    ``limit`` are those for large sizes, which is how the book gives them; ``at`` what else follows (the best X of
    mixed parallelism). ``question`` is what was asked, with the plan taken.
    """

    name: str
    says: str
    what: str
    form: Any
    value: float | None
    question: Question
    algorithm: str
    at: Mapping[str, Any]
    limit_form: Any = None
    limit: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/scaling/1``)."""
        return {
            "schema": "roofline/scaling/1", "name": self.name, "says": self.says, "what": self.what,
            "form": str(self.form), "value": self.value,
            "limit": self.limit, "at": {name: str(form) for name, form in self.at.items()},
            "algorithm": self.algorithm, "expression": self.question.text, "plan": self.question.plan,
            "target": self.question.machine.name,
        }  # fmt: skip

    def __str__(self) -> str:
        number = "" if self.value is None else f" = {format_number(self.value, 4)}"
        return f"{self.name}: {self.what} = {self.form}{number}"

    def __repr__(self) -> str:
        return f"<Scaling {self}>"


def scaling(
    name: str,
    *,
    on: Any,
    dtype: str = "bf16",
    unknown: str | None = None,
    algorithm: str = "book",
    mesh: Mapping[str, Any] | None = None,
    torus_axes: Mapping[str, int] | None = None,
    network: str | None = None,
    **arguments: Any,
) -> Scaling:
    """Work out one of the conditions (:data:`CONDITIONS`, ``mixed`` and ``2d``) on a target.

    Without a shape in ``on`` or a ``mesh``, axes have symbolic sizes named as they are. ``unknown`` solves for another
    size, or for the size of an axis. ``torus_axes`` lays a symbolic mesh axis over several axes of a torus (the book's
    M_X), ``network`` counts one link only (``nvlink``, ``ib``). ``2d`` is how many chips it takes for weights sharded
    in two dimensions to send less than in one. The rest is as in :func:`roofline.bound`.

    >>> print(scaling("2d", on="v5p"))
    2d: chips = 4*F/D

    >>> scaling("mixed", on="v5p", torus_axes={"X": 2}, set={"bf16": 4.59e14}, F=32768).value
    99.22...

    >>> scaling("ddp", on="v5p")
    Traceback (most recent call last):
    roofline.errors.InputError: unknown condition 'ddp'; did you mean 'dp'?
    """
    several = _several(torus_axes or {})
    if name == "mixed":
        return _mixed(on, dtype, algorithm, several, arguments)
    if name == "2d":
        return _two_dimensions(on, dtype, algorithm, several, arguments)
    condition = condition_named(name)
    asked = question(_spread(condition.text.format(dtype), several), on=on, algorithm=algorithm, **arguments)
    wanted = unknown or condition.unknown
    axes = (
        dict(mesh) if mesh is not None else {} if asked.machine.mesh else dict.fromkeys(_all(condition.mesh, several))
    )
    asked = asked.vary(mesh={axis: axis if size is None else size for axis, size in axes.items()})
    sizes = {key: size for key, size in asked.sizes.items() if key != wanted}
    kept = {key: size for key, size in sizes.items() if key in axes}
    symbolic = asked.vary(sizes=kept).answer(symbolic=True)
    asked = asked.vary(sizes=sizes, plan=symbolic.plan)
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in sizes.items()}}
    x = symbol(wanted)
    form = _together(_crossing(symbolic, condition, x, network, known), several)
    if wanted == condition.unknown and condition.per:
        form = form / _ways(asked, condition.per)
    what = condition.what if wanted == condition.unknown else wanted
    return _answer(name, condition.says, what, form, known, asked, algorithm, {})


def condition_named(name: str) -> Condition:
    """Find a condition, or say which there are."""
    if name not in CONDITIONS:
        raise InputError(
            f"unknown condition {name!r}", hint=suggest(name, [*CONDITIONS, "mixed", "2d"], what="conditions")
        )
    return CONDITIONS[name]


def _mixed(
    on: Any, dtype: str, algorithm: str, several: Mapping[str, tuple[str, ...]], arguments: Mapping[str, Any]
) -> Scaling:
    """FSDP over X and tensor parallelism over Y of N = X·Y chips: the X at which both take equally long, then B."""
    import sympy

    t = dtype
    line = f"In:{t}[B_X, D_Y] * Wi:{t}[D_X, F_Y] * Wo:{t}[F_Y, D_X] -> Out:{t}[B_X, D_Y]"
    asked = question(_spread(line, several), on=on, algorithm=algorithm, **arguments)
    asked = asked.vary(mesh={axis: axis for axis in _all(("X", "Y"), several)})
    symbolic = asked.vary(sizes={}).answer(symbolic=True)
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in asked.sizes.items()}}
    batch, x, n = symbol("B"), symbol("X"), symbol("N")
    split = {symbol("Y"): n / x}
    math = _together(_time(symbolic, "flops"), several).subs(split)
    over = {axis: _together(_over(symbolic, axis), several).subs(split) for axis in ("X", "Y")}
    best = next(root for root in roots_of(over["X"], over["Y"], x) or () if root.subs(_ones(root)) > 0)
    equation = sympy.simplify((math / over["X"].subs(x, best)) ** 2)
    form = (roots_of(equation, sympy.Integer(1), batch) or [0])[0]
    says = "FSDP over X and tensor parallelism over Y, both behind the forward pass"
    at = {"X": sympy.simplify(best)}
    return _answer("mixed", says, "tokens per chip", form / n, known, asked.vary(plan=symbolic.plan), algorithm, at)


def _two_dimensions(
    on: Any, dtype: str, algorithm: str, several: Mapping[str, tuple[str, ...]], arguments: Mapping[str, Any]
) -> Scaling:
    """Weights over X and Y of N = X·Y chips against all N in one dimension: the best X, then the N of equal times.

    The collectives follow one another, so that their times add; ``torus_axes`` lays the one dimension over several.
    """
    import sympy

    t = dtype
    one = f"In:{t}[B, D_Y] * Wi:{t}[D, F_Y] * Wo:{t}[F_Y, D] -> Out:{t}[B, D_Y]"
    two = f"In:{t}[B, D_XY] * Wi:{t}[D_X, F_Y] * Wo:{t}[F_Y, D_X] -> Out:{t}[B, D_XY]"
    x, n = symbol("X"), symbol("N")
    sent = []
    for line, axes in ((_spread(one, several), _all(("Y",), several)), (two, ("X", "Y"))):
        asked = question(line, on=on, algorithm=algorithm, **arguments).vary(mesh={axis: axis for axis in axes})
        symbolic = asked.vary(sizes={}).answer(symbolic=True)
        busiest = {u.place.partition(".")[0]: u.time for u in symbolic.uses if u.quantity == "wire"}
        times = [busiest[axis] for axis in dict.fromkeys(("X", "Y")) if axis in busiest]
        sent.append(_together(sum(times[1:], times[0]), several).subs(symbol("Y"), n / x))
    rates = _numbers(symbolic)
    links = {u.place: u.rate.value for u in symbolic.uses if u.quantity == "wire"}
    if rates.get(links["X"]) == rates.get(links["Y"]):
        sent = [time.subs(links["X"], links["Y"]) for time in sent]
    best = next(root for root in sympy.solve(sympy.diff(sent[1], x), x) if root.subs(_ones(root)) > 0)
    equation = sympy.simplify((sent[0].subs(x, 1) / sent[1].subs(x, best)) ** 2)
    form = (roots_of(equation, sympy.Integer(1), n) or [0])[0]
    known = {**rates, **{symbol(key): size for key, size in asked.sizes.items()}}
    says = "weights in two dimensions send less than in one from so many chips on"
    at = {"X": sympy.simplify(best)}
    return _answer("2d", says, "chips", form, known, asked.vary(plan=symbolic.plan), algorithm, at)


def _several(torus_axes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Names of the torus axes that one mesh axis is laid over: X, X2 …"""
    return {axis: (axis, *(f"{axis}{i}" for i in range(2, count + 1))) for axis, count in torus_axes.items()}


def _spread(text: str, several: Mapping[str, tuple[str, ...]]) -> str:
    """Shard over several axes of a torus where a line shards over one mesh axis."""
    for axis, names in several.items():
        text = text.replace(f"_{axis}", f"_{{{','.join(names)}}}")
    return text


def _all(axes: tuple[str, ...], several: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for axis in axes for name in several.get(axis, (axis,)))


def _together(form: Any, several: Mapping[str, tuple[str, ...]]) -> Any:
    """Take the first of several torus axes for their product: only that enters a form, and which links are busy."""
    return form.subs({symbol(name): 1 for names in several.values() for name in names[1:]})


def _answer(
    name: str,
    says: str,
    what: str,
    form: Any,
    known: Mapping[Any, Any],
    asked: Question,
    algorithm: str,
    at: Mapping[str, Any],
) -> Scaling:
    import sympy

    form = sympy.factor(sympy.cancel(form))
    value = positive_number(put_numbers(form, known))
    leading, limit = _for_large_sizes(form, known)
    return Scaling(name, says, what, form, value, asked, algorithm, at, leading, limit)


def _for_large_sizes(form: Any, known: Mapping[Any, Any]) -> tuple[Any, float | None]:
    """The leading part of a form as all its sizes grow together: what (n − 1)/n and the like leave out is gone.

    >>> from sympy import Symbol
    >>> F, W, P = symbol("F"), Symbol("W"), Symbol("P")
    >>> _for_large_sizes((4 * F * W + P) / P, {F: 1000, W: 1, P: 8})
    (4*F*W/P, 500.0)
    """
    import sympy

    t = sympy.Symbol("t", positive=True)
    sizes = [s for s in form.free_symbols if s.is_integer]
    if not sizes:
        return form, positive_number(put_numbers(form, known))
    grown = sympy.cancel(form.subs({size: size * t for size in sizes}))
    degree = sympy.degree(sympy.numer(grown), t) - sympy.degree(sympy.denom(grown), t)
    leading = sympy.factor(sympy.limit(sympy.cancel(grown / t**degree), t, sympy.oo))
    return leading, positive_number(put_numbers(leading, known))


def _numbers(symbolic: Bound) -> dict[Any, float]:
    return values_of((use.rate.value for use in symbolic.uses), [use.rate for use in symbolic.uses])


def _crossing(symbolic: Bound, condition: Condition, x: Any, network: str | None, known: Mapping[Any, Any]) -> Any:
    """Where the links take as long as what they are held against."""
    held = _weights(symbolic) if condition.against == "bytes" else _time(symbolic, condition.against)
    links = [u for u in symbolic.uses if u.quantity == "wire"]
    if network is not None:
        names = list(dict.fromkeys(u.resource.partition(" ")[0] for u in links))
        links = [u for u in links if u.resource.partition(" ")[0] == network]
        if not links:
            raise InputError(f"nothing is sent over {network!r}", hint=suggest(network, names, what="links in use"))
    chosen = [u.time for u in links if not condition.link or u.place.partition(".")[0] == condition.link]
    found = hidden_from(held, chosen, x, known)
    if found is None:
        raise InputError(f"{x} does not decide whether this scales", hint="solve for another size, as in unknown='B'")
    return found


def _time(symbolic: Bound, quantity: str) -> Any:
    times = [use.time for use in symbolic.uses if use.quantity == quantity]
    return sum(times[1:], times[0])


def _weights(symbolic: Bound) -> Any:
    """Time to load the weights alone, as in decoding of a small batch."""
    loaded = sum(t.traffic_bytes for part in symbolic.ops for t in part.op.reads if t.role == "weight")
    return loaded / next(use.rate.value for use in symbolic.uses if use.quantity == "bytes")


def _over(symbolic: Bound, axis: str) -> Any:
    """The time of the busiest link of one mesh axis."""
    times = [u.time for u in symbolic.uses if u.quantity == "wire" and u.place.partition(".")[0] == axis]
    return times[0]


def _ways(asked: Question, axes: tuple[str, ...]) -> Any:
    from roofline.bounds.question_mesh import mesh_of

    mesh = mesh_of(asked).mesh
    return product(mesh[axis].size for axis in axes) if mesh is not None else 1


def _ones(form: Any) -> dict[Any, int]:
    return dict.fromkeys(form.free_symbols, 1)
