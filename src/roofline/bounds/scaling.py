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

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from roofline.answers import on_several
from roofline.bounds.api import question
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import Conventions, named_axes
from roofline.bounds.crossing import hidden_from, rises, roots_of
from roofline.bounds.evaluate import values_of
from roofline.bounds.question import Question, has_arrays, names_in, refuse_idle, refuse_idle_on_plan
from roofline.bounds.scaling_conditions import (
    SPLITS,
    Batch,
    Condition,
    Scaling,
    best_split_limit,
    best_whole_split,
    check_experts_per_token,
    chips_inside,
    condition_named,
    evaluate_form,
    inner_link_limit,
    least_whole_split,
)
from roofline.errors import InputError, SizeError, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware.axes import SLICE_AXIS
from roofline.hardware.machine import TORUS_DIMENSIONS
from roofline.hardware.network import domain_of, links_inside_out
from roofline.notation import program
from roofline.signatures import either, takes
from roofline.sizes import check, is_array, is_symbol, product, symbol
from roofline.statements import without

if TYPE_CHECKING:
    from roofline.hardware.machine import Machine

#: Lines of two matmuls. MIXED shards weights over X and Y and the batch over X; ONE and TWO shard weights in one
#: dimension and in two.
_MIXED = "In:{0}[B_X, D_Y] * Wi:{1}[D_X, F_Y] * Wo:{1}[F_Y, D_X] -> Out:{0}[B_X, D_Y]"
_ONE = "In:{0}[B, D_Y] * Wi:{1}[D, F_Y] * Wo:{1}[F_Y, D] -> Out:{0}[B, D_Y]"
_TWO = "In:{0}[B, D_XY] * Wi:{1}[D_X, F_Y] * Wo:{1}[F_Y, D_X] -> Out:{0}[B, D_XY]"

#: The number of units along an axis of whole units.
_UNITS = "units"


@on_several
@takes(question, but=("flops", "bytes", "intensity"))
def scaling(
    name: str,
    *,
    on: Any,
    dtype: str = "bf16",
    weights: str | None = None,
    unknown: str | None = None,
    algorithm: str = "book",
    mesh: Mapping[str, Any] | None = None,
    torus_axes: Mapping[str, Any] | None = None,
    network: str | None = None,
    **arguments: Any,
) -> Scaling:
    """Work out one of the conditions (:data:`CONDITIONS`, ``mixed`` and ``2d``) on a target.

    Without a shape in ``on`` or a ``mesh``, each axis has a symbolic size of its own name. Where a condition has one
    axis, that axis takes all chips of a slice. ``unknown`` solves for another size, or for the size of an axis.
    ``weights`` is their dtype where it is not ``dtype``, that of activations and gradients. Where the answer is a
    number of tokens, a batch ``B`` may be given: the answer says whether it is enough, and on how many chips at the
    most. ``N`` is the number of chips where the target has no shape.
    ``torus_axes`` lays a symbolic mesh axis over several axes of a torus (the book's M_X). ``network`` counts one link
    only (``nvlink``, ``ib``); one between nodes lets an open axis take whole nodes. ``2d`` gives the number of chips
    from which weights sharded in two dimensions send less than in one. Sizes may be arrays. The rest is as in
    :func:`roofline.bound`.

    >>> print(scaling("2d", on="v5p"))
    2d: chips = 4*F/D

    >>> found = scaling("mixed", on="v5p", torus_axes={"X": 2}, set={"bf16": 4.59e14}, F=32768, B=409600, N=4096)
    >>> found.value, found.best["X"]                # tokens a chip, and the best X of 4096 chips
    (99.22..., 320.0)

    >>> scaling("tp", on="v5p", unknown="Y", F=[15_000, 30_000], set={"bf16": 4.59e14}).value.round(1).tolist()
    [5.9, 11.8]

    >>> print(scaling("tp", on="dgx-h100", algorithm="hierarchical", network="ib", unknown="Y", set={"bf16": 9.9e14}))
    tp: Y = 8*(F*W_ib + P_bf16)/P_bf16

    >>> scaling("ddp", on="v5p")
    Traceback (most recent call last):
    roofline.errors.InputError: unknown condition 'ddp'; did you mean 'dp'?
    """
    several = _several(torus_axes or {})
    if not isinstance(name, str):
        raise InputError(f"a condition is text, not {quoted(name)}", hint="one at a time, such as 'fsdp'")
    formats = (dtype, weights or dtype)
    whole = {"mixed": _mixed, "2d": _two_dimensions}.get(name)
    if whole is not None:
        if mesh or network:
            counted = either("--torus-axes X=2", "torus_axes={'X': 2}")
            hint = f"give their number and what links have, as in N=4096 and {counted}"
            raise InputError(f"{name} splits N chips over X and Y itself", hint=hint)
        return whole(_SplitQuestion(on, formats, algorithm, several, unknown, arguments))
    condition = condition_named(name)
    _known_axes(several, condition.mesh)
    asked = question(_spread(condition.text.format(*formats), several), on=on, algorithm=algorithm, **arguments)
    if mesh is None and asked.machine.mesh is not None and any(len(names) > 1 for names in several.values()):
        hint = "leave them out: an axis takes all of a shape, or those that a mesh gives it"
        raise InputError(f"torus_axes are of open axes, and {asked.machine.target} has a shape", hint=hint)
    wanted = unknown or condition.unknown
    asked, beside = _beside(asked, condition, wanted)
    _has_slices(asked.machine, condition, mesh is not None)
    axes = named_axes(mesh) if mesh is not None else _axes(asked.machine, _all(condition.mesh, several))
    opened = _open_axes(axes, wanted, condition, asked.machine)
    unit = chips_inside(asked.machine, network) if len(opened) == 1 and opened[0] not in asked.sizes else 1
    asked = asked.vary(mesh={axis: axis if size is None else size for axis, size in axes.items()})
    sizes = _sizes(
        asked, wanted, list(dict.fromkeys([*program(asked.text).labels, *opened, *names_in(asked.conventions.mesh)]))
    )
    if unit > 1:
        asked = asked.vary(mesh={**axes, opened[0]: f"{unit}*{_UNITS}"})
    kept = _sizes_of_axes(sizes, axes)
    symbolic = _in_symbols(asked.vary(sizes=kept))
    _crosses_slices(asked.vary(sizes=kept), condition)
    asked = asked.vary(sizes=sizes, plan=symbolic.plan)
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in sizes.items()}}
    x = symbol(wanted)
    held, links = _sides(symbolic, condition, network)
    ways = _ways(asked, condition.per)
    if unit > 1:
        held, ways, *links = _of_chips((held, ways, *links), opened[0], unit)
    form = _together(_crossing(held, links, x, known), several)
    most = _at_most(held, links, x)
    if wanted == condition.unknown and condition.per:
        form = form / ways
    routed = _routed(form, condition, wanted, beside, ways, asked)
    found = evaluate_form(
        routed.form, {**known, **routed.known}, symbolic, {},
        name=name, says=condition.says, what=routed.what, question=asked, algorithm=algorithm, at_most=most,
        assumptions=(
            *routed.said, *_taken(asked.machine, axes, mesh is not None), *_assumed(symbolic, several, network),
        ),
    )  # fmt: skip
    beyond = inner_link_limit(wanted, found.value, asked.machine, unit) if wanted in opened else ()
    return replace(found, assumptions=(*beyond, *found.assumptions), batch=routed.batch(found.value, asked.machine))


def _open_axes(axes: Mapping[str, Any], wanted: str, condition: Condition, machine: Machine) -> list[str]:
    """The axes whose number of chips is open; what is solved for is one of them, or no axis."""
    if isinstance(axes.get(wanted), int):
        other = condition.unknown if condition.unknown != wanted else "B"
        hint = f"leave its number open (on {machine.key}), or solve for a size, as in unknown={other!r}"
        raise InputError(f"{wanted} is {axes[wanted]} chips here, and is what is solved for", hint=hint)
    return [axis for axis, size in axes.items() if size is None]


def _sizes_of_axes(sizes: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of chips that were given, one for each axis."""
    kept = {key: size for key, size in sizes.items() if key in axes}
    several = ", ".join(key for key, size in kept.items() if has_arrays({key: size}))
    if several:
        raise SizeError(f"{several} has several values", hint="an axis has one number of chips, or is left open")
    return kept


def _beside(asked: Question, condition: Condition, wanted: str) -> tuple[Question, dict[str, Any]]:
    """Take what stands beside the condition from the sizes: k of E experts; N chips and a batch of B tokens.

    N and B are taken where the answer is a number of tokens.
    """
    names = []
    if condition.routed and wanted == condition.unknown:
        names.append("k")
    if condition.per == ("X",) and wanted == condition.unknown:
        names += ["N", "B"]
    elif condition.experts:
        names += ["N", "k"]
    elif condition.hides == "weights" or (condition.per and wanted == condition.unknown):
        names.append("B")
    beside = {name: asked.sizes[name] for name in names if name in asked.sizes}
    return asked.vary(sizes={name: size for name, size in asked.sizes.items() if name not in beside}), beside


@dataclass(frozen=True, slots=True)
class _Routed:
    """A closed form with what k of E experts do to it, and the batch that was given."""

    form: Any
    what: str
    known: Mapping[Any, Any]
    said: tuple[str, ...]
    chips: Any
    tokens: Any
    alone: bool
    sliced: bool

    def batch(self, value: Any, machine: Machine) -> Batch | None:
        """Tokens of all chips beside those that are needed on each."""
        if self.chips is _NO_BATCH:
            return None
        found = Batch.of(value, self.chips, self.tokens, machine, alone=self.alone)
        return replace(found, pods=None) if found is not None and self.sliced else found


_NO_BATCH = object()


def _routed(
    form: Any, condition: Condition, wanted: str, beside: Mapping[str, Any], ways: Any, asked: Question
) -> _Routed:
    """Let k of E experts count: the batch is one of all tokens, and a chip (or node) of several is sent to once."""
    what = condition.what if wanted == condition.unknown else wanted
    known: dict[Any, Any] = {}
    said: tuple[str, ...] = ()
    picks = beside.get("k")
    chips = beside.get("N", ways if isinstance(ways, int) and condition.per else None)
    counted = wanted == condition.unknown and (condition.per or condition.hides == "weights")
    if picks is not None:
        known[symbol("k")] = check_experts_per_token(picks, asked.sizes.get("E"))
    if picks is not None and condition.routed:
        form, what = form * symbol("E") / symbol("k"), "tokens per chip" if condition.per else "tokens"
    elif picks is not None:
        mesh = asked.on_mesh().mesh
        chips = chips or (mesh["X"].size if mesh is not None else None)
        form, said = _sent_once(form, picks, chips, asked.machine)
    if counted and condition.routed and picks is None:
        counted = False
    tokens = check("B", beside["B"]) if "B" in beside else None
    alone = condition.hides == "weights"
    return _Routed(form, what, known, said, chips if counted else _NO_BATCH, tokens, alone, bool(condition.link))


def _sent_once(form: Any, picks: int, chips: Any, machine: Machine) -> tuple[Any, tuple[str, ...]]:
    """The width that k of the experts need: of several on one chip, or in one node, a token is sent to once.

    Source: "How To Scale Your Model", chapter 12: T_comms counts min(k / nodes, 1) of a dense AllToAll.
    """
    if not isinstance(chips, int):
        return form, ("each token goes to k chips: what is sent and what is computed grow alike, and k cancels",)
    inner = links_inside_out(machine)[0]
    joined = domain_of(inner)
    inside = inner.topology in TORUS_DIMENSIONS or joined is None or chips <= joined
    groups, word = (chips, "chip") if inside else (chips // (joined or 1), "node")
    if picks <= groups:
        return form, (f"each token goes to {picks} of {groups:,} {word}s: k cancels",)
    said = f"a token goes to each of {groups:,} {word}s once, for all of its {picks} experts there"
    return form * groups / symbol("k"), (said,)


def _in_symbols(asked: Question) -> Bound:
    """The answer in symbols; what has no effect on it is refused, but for the algorithm, which is always named."""
    found = asked.answer(symbolic=True)
    unnamed = asked.vary(algorithm=Conventions().algorithm)
    refuse_idle(unnamed)
    refuse_idle_on_plan(unnamed, found)
    return found


class _SplitQuestion(NamedTuple):
    """What is asked of a condition on how N chips are split over X and Y."""

    on: Any
    formats: tuple[str, str]
    algorithm: str
    several: Mapping[str, tuple[str, ...]]
    unknown: str | None
    given: Mapping[str, Any]

    def line(self, text: str, several: Mapping[str, tuple[str, ...]], axes: tuple[str, ...] = ("X", "Y")) -> Question:
        """A line over these axes, each over ``several`` of a torus."""
        asked = question(
            _spread(text.format(*self.formats), several), on=self.on, algorithm=self.algorithm, **self.given
        )
        return asked.vary(mesh={axis: axis for axis in _all(axes, several)})


def _split_sizes(asked: Question) -> dict[str, Any]:
    """The sizes that are given, and the number of chips of a target's shape."""
    return {**_chips(asked.machine, asked.sizes.get("N")), **_sizes(asked, None, ["B", "D", "F", "N"])}


def _mixed(request: _SplitQuestion) -> Scaling:
    """FSDP over X and tensor parallelism over Y of N = X·Y chips: the X at which both take as long, then the B."""
    import sympy

    several, wanted = request.several, request.unknown or "B"
    _known_axes(several, ("X", "Y"))
    batch_wanted = wanted == "B"
    asked = request.line(_MIXED, several)
    sizes = _split_sizes(asked)
    symbolic = _in_symbols(asked.vary(sizes={}))
    known = {**_numbers(symbolic), **{symbol(key): size for key, size in sizes.items()}}
    x, n = symbol("X"), symbol("N")
    split = {symbol("Y"): n / x}
    math = _together(_time(symbolic, "flops"), several).subs(split)
    over = {axis: _together(_over(symbolic, axis), several).subs(split) for axis in ("X", "Y")}
    best = next(root for root in roots_of(over["X"], over["Y"], x) or () if root.subs(_ones(root)) > 0)
    equation = sympy.simplify((math / over["X"].subs(x, best)) ** 2)
    form = _root(equation, wanted, sizes)
    says, what = SPLITS["mixed"]
    least = {symbol("B"): form} if batch_wanted and "B" not in sizes else {}  # no batch is given: the least that scales
    found = evaluate_form(
        form / n if batch_wanted else form, known, symbolic, {"X": sympy.simplify(best), "Y": sympy.simplify(n / best)},
        name="mixed", says=says, what=what if batch_wanted else wanted,
        question=asked.vary(plan=symbolic.plan), algorithm=request.algorithm, at_most=_falls(equation, symbol(wanted)),
        take=best_whole_split(sympy.Max(*over.values()).subs(least), known), sizes=sizes,
        whole=least_whole_split([time - math for time in over.values()], known) if batch_wanted else {},
        assumptions=(
            *best_split_limit(best.subs(least), known, asked.machine), *_assumed(symbolic, several, None),
        ),
    )  # fmt: skip
    batch = Batch.of(found.value, sizes.get("N"), sizes.get("B"), asked.machine, 0.5) if batch_wanted else None
    return replace(found, batch=batch)


def _two_dimensions(request: _SplitQuestion) -> Scaling:
    """Weights over X and Y of N = X·Y chips against all N in one dimension: the best X, then the N of equal times.

    The collectives follow one another, so that their times add. ``torus_axes`` of Y alone lays the one dimension over
    several; of X and Y those of the two dimensions, and the one dimension over all of them.
    """
    import sympy

    several = request.several
    _known_axes(several, ("X", "Y"))
    x, n, wanted = symbol("X"), symbol("N"), request.unknown or "N"
    apart = "X" in several
    of_one = _several({"Y": sum(map(len, several.values()))}) if apart else several
    of_two = several if apart else {}
    sent = []
    lines = ((_ONE, of_one, ("Y",)), (_TWO, of_two, ("X", "Y")))
    for line, spread, axes in lines:
        asked = request.line(line, spread, axes)
        symbolic = _in_symbols(asked.vary(sizes={}))
        busiest = {u.place.partition(".")[0]: u.time for u in symbolic.uses if u.quantity == "wire"}
        times = [busiest[axis] for axis in dict.fromkeys(("X", "Y")) if axis in busiest]
        sent.append(_together(sum(times[1:], times[0]), spread).subs(symbol("Y"), n / x))
    sizes = _split_sizes(asked)
    rates = _numbers(symbolic)
    links = {u.place: u.rate.value for u in symbolic.uses if u.quantity == "wire"}
    if rates.get(links["X"]) == rates.get(links["Y"]):
        sent = [time.subs(links["X"], links["Y"]) for time in sent]
    best = next(root for root in sympy.solve(sympy.diff(sent[1], x), x) if root.subs(_ones(root)) > 0)
    equation = sympy.simplify((sent[0].subs(x, 1) / sent[1].subs(x, best)) ** 2)
    says, what = SPLITS["2d"]
    known = {**rates, **{symbol(key): size for key, size in sizes.items()}}
    return evaluate_form(
        _root(equation, wanted, {name: size for name, size in sizes.items() if name != "N"}), known, symbolic,
        {"X": sympy.simplify(best), "Y": sympy.simplify(n / best)}, name="2d", says=says,
        what=what if wanted == "N" else wanted, question=asked.vary(plan=symbolic.plan), algorithm=request.algorithm,
        at_most=_falls(equation, symbol(wanted)), take=best_whole_split(sent[1], known),
        sizes={name: size for name, size in sizes.items() if name == "F"},
        assumptions=(*best_split_limit(best, known, asked.machine), *_assumed(symbolic, several, None)),
    )  # fmt: skip


def _sizes(asked: Question, wanted: str | None, names: list[str]) -> dict[str, Any]:
    """The sizes that are given, checked: each stands in the line, and the unknown is not one of them."""
    for name in asked.sizes:
        if name not in names:
            raise SizeError(f"size {name} plays no part in this condition", hint=suggest(name, names, what="sizes"))
        if name == wanted:
            other = next((each for each in reversed(names) if each != wanted), "B")
            hint = f"leave it out, or solve for another, as in {either(f'--for {other}', f'unknown={other!r}')}"
            raise InputError(f"{name} is what is solved for, and it is given", hint=hint)
    return {name: check(name, size) for name, size in asked.sizes.items() if size is not None}


def _known_axes(several: Mapping[str, tuple[str, ...]], axes: tuple[str, ...]) -> None:
    for axis in several:
        if axis not in axes:
            hint = f"its mesh axes are {' and '.join(axes)}"
            raise InputError(f"torus_axes names {axis!r}, which this condition does not have", hint=hint)


def _chips(machine: Machine, given: Any) -> dict[str, Any]:
    """The number of chips that a target's shape gives; those of one node leave X no link of its own."""
    if machine.mesh is None:
        return {}
    chips = machine.mesh.chips
    if given is not None and given != chips:
        raise InputError(f"N={given}, and {machine.target} has {chips} chips", hint="leave one of them out")
    links = {level.link for axis in machine.mesh for level in axis.segments}
    if len(links) == 1 and all(level.topology != "torus" for axis in machine.mesh for level in axis.segments):
        mesh = either("--mesh X=…,Y=…", "mesh={'X': …, 'Y': …}")
        hint = f"both axes share it; ask bound about the line, with {mesh}"
        raise InputError(f"the {chips} chips of {machine.target} are joined by {links.pop()} alone", hint=hint)
    return {"N": chips}


def _root(equation: Any, wanted: str, sizes: Mapping[str, Any]) -> Any:
    """Solve ratio² = 1 for the unknown. The ratio is a product of powers, so there is one root."""
    import sympy

    if wanted in sizes and wanted != "B":
        raise InputError(f"{wanted} is what is solved for, and it is given", hint="leave it out")
    found = roots_of(equation, sympy.Integer(1), symbol(wanted))
    if not found:
        raise _does_not_decide(wanted)
    return found[0]


def _does_not_decide(wanted: Any) -> InputError:
    other = either("--for B", "unknown='B'")
    hint = f"solve for another size, as in {other}, or for an axis whose size is open (on a chip without a shape)"
    return InputError(f"{wanted} does not decide whether this scales", hint=hint)


def _falls(ratio: Any, x: Any) -> bool:
    """Whether the ratio of arithmetic to communication falls as ``x`` grows: then scaling holds below the crossing."""
    return not rises(ratio, x)


def _has_slices(machine: Machine, condition: Condition, given: bool) -> None:
    """A condition on what crosses slices needs a target of several, or a mesh of the caller's own."""
    if condition.link and machine.mesh is not None and machine.slices == 1 and not given:
        raise _one_slice(machine)


def _crosses_slices(asked: Question, condition: Condition) -> None:
    """A condition on what crosses slices needs an axis that does."""
    mesh = asked.on_mesh().mesh
    if condition.link and mesh is not None:
        axis = next((axis for axis in mesh.select([condition.link])), None)
        if axis is not None and all(level.topology == "torus" for level in axis.segments):
            raise _one_slice(asked.machine)


def _one_slice(machine: Machine) -> InputError:
    several = f"{machine.target}:2" if len(machine.shape) > 1 else "v5p:16x20x28:2"
    hint = f"name a target of several, as in {several}"
    return InputError(f"{machine.name} is one slice here, and nothing crosses slices", hint=hint)


def _assumed(symbolic: Bound, several: Mapping[str, tuple[str, ...]], network: str | None) -> tuple[str, ...]:
    """What the answer rests on: the collectives and links of the plan, and what of the network counts."""
    spread = [f"{axis} lies over {len(over)} axes of the torus" for axis, over in several.items() if len(over) > 1]
    counted = [f"only what goes over {network} counts"] if network else []
    said = without(symbolic.assumptions, ("plan",))
    return (*said, *spread, *counted)


#: The most axes of a torus that a mesh axis may lie over; those of real machines are 6 at most.
MOST_AXES = 64


def _several(torus_axes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Names of the torus axes that one mesh axis is laid over: X, X2 …"""
    counts = {axis: check(f"of torus_axes for {axis}", count) for axis, count in torus_axes.items()}
    for axis, count in counts.items():
        if not isinstance(count, int):
            raise SizeError(f"torus_axes for {axis} has several values", hint=f"one number, as in {axis}=2")
        if count > MOST_AXES:
            raise SizeError(f"{axis} over {count:g} axes of a torus", hint=f"a torus has at most {MOST_AXES} axes here")
    return {axis: (axis, *(f"{axis}{i}" for i in range(2, count + 1))) for axis, count in counts.items()}


def _spread(text: str, several: Mapping[str, tuple[str, ...]]) -> str:
    """Shard over several axes of a torus where a line shards over one mesh axis."""
    if not any(len(names) > 1 for names in several.values()):
        return text

    def spread(found: re.Match[str]) -> str:
        return f"_{{{','.join(_all(tuple(found[1]), several))}}}"

    return re.sub(r"_([A-Z]+)", spread, text)


def _axes(machine: Machine, names: tuple[str, ...]) -> dict[str, Any]:
    """Sizes of a condition's mesh axes: None where open, else from the target's shape. One axis takes all of a slice.

    >>> from roofline.hardware import chip
    >>> [_axes(chip(on), ("Y",)) for on in ("v5e", "h100:8", "v5e:4x4", "v5e:16x16:2")]
    [{'Y': None}, {'Y': 8}, {'Y': 16}, {'Y': 256, 'S': 2}]
    """
    if machine.mesh is None or not names:
        return dict.fromkeys(names)
    if names[1:] not in ((), (SLICE_AXIS,)) or machine.mesh.sizes.keys() == {*names}:
        return {}
    inside = {names[0]: product(machine.shape)}
    return {**inside, SLICE_AXIS: machine.slices} if machine.slices > 1 else inside


def _taken(machine: Machine, axes: Mapping[str, Any], given: bool) -> tuple[str, ...]:
    """Say that one axis takes all the axes of a target's shape."""
    if given or len(axes) != (1 if machine.slices == 1 else 2) or len(machine.shape) < 2:
        return ()
    name, size = next(iter(axes.items()))
    whole = replace(machine, slices=1).target
    fewer = {name: machine.shape[0], "X" if name == "Y" else "Y": size // machine.shape[0], **dict([*axes.items()][1:])}
    example = ", ".join(f"{axis}={n}" for axis, n in fewer.items())
    return (f"{name} is all {size:,} chips of {whole}, over its axes at once; a mesh takes fewer, as in {example}",)


def _all(axes: tuple[str, ...], several: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for axis in axes for name in several.get(axis, (axis,)))


def _together(form: Any, several: Mapping[str, tuple[str, ...]]) -> Any:
    """Let the first of several torus axes stand for their product, which is all that a closed form depends on."""
    return form.subs({symbol(name): 1 for names in several.values() for name in names[1:]})


def _numbers(symbolic: Bound) -> dict[Any, float]:
    return values_of((use.rate.value for use in symbolic.uses), [use.rate for use in symbolic.uses])


def _sides(symbolic: Bound, condition: Condition, network: str | None) -> tuple[Any, list[Any]]:
    """The time that communication has to stay below, and the times of the links that count."""
    held = _weights(symbolic) if condition.against == "bytes" else _time(symbolic, condition.against)
    if condition.hides == "weights":
        return held, [_weights(symbolic, named="W")]
    links = [u for u in symbolic.uses if u.quantity == "wire"]
    if network is not None:
        names = list(dict.fromkeys(u.resource.partition(" ")[0] for u in links))
        links = [u for u in links if u.resource.partition(" ")[0] == network]
        if not links:
            raise InputError(f"nothing is sent over {network!r}", hint=suggest(network, names, what="links in use"))
    return held, [u.time for u in links if not condition.link or u.place.partition(".")[0] == condition.link]


def _crossing(held: Any, links: list[Any], x: Any, known: Mapping[Any, Any]) -> Any:
    """The size at which the links take as long as the arithmetic, or as loading the weights."""
    if len(links) > 1 and any(is_array(size) for size in known.values()):
        raise SizeError("with arrays the link that binds may differ", hint="one number a size, or name the link")
    found = hidden_from(held, links, x, {each: size for each, size in known.items() if not is_array(size)})
    if found is None:
        raise _does_not_decide(x)
    return found


def _at_most(held: Any, links: list[Any], x: Any) -> bool:
    return any(_falls(held / link, x) for link in links)


def _time(symbolic: Bound, quantity: str) -> Any:
    times = [use.time for use in symbolic.uses if use.quantity == quantity]
    return sum(times)


def _weights(symbolic: Bound, named: str = "") -> Any:
    """Time to load the weights alone, as in decoding of a small batch; those of experts go by their name."""
    reads = [t for part in symbolic.ops for t in part.op.reads if t.role == "weight" or (named and t.ident == named)]
    loaded = sum(t.traffic_bytes for t in reads)
    return loaded / next(use.rate.value for use in symbolic.uses if use.quantity == "bytes")


def _over(symbolic: Bound, axis: str) -> Any:
    """The time of the busiest link of one mesh axis."""
    times = [u.time for u in symbolic.uses if u.quantity == "wire" and u.place.partition(".")[0] == axis]
    return times[0]


def _of_chips(forms: Iterable[Any], axis: str, unit: int) -> list[Any]:
    """Let an axis of whole units count chips."""
    whole = {symbol(_UNITS): symbol(axis) / unit}
    return [form.subs(whole) if is_symbol(form) else form for form in forms]


def _ways(asked: Question, axes: tuple[str, ...]) -> Any:
    mesh = asked.on_mesh().mesh
    return product(mesh[axis].size for axis in axes) if mesh is not None else 1


def _ones(form: Any) -> dict[Any, int]:
    return dict.fromkeys(form.free_symbols, 1)
