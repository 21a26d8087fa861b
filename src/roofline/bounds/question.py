"""Question: everything an answer depends on, as one frozen value; ``replace`` it and ask again.

Advice, sweeps, solutions and charts all vary a question and answer it afresh, so that each of their numbers is what
a plain :func:`roofline.bound` of the same question gives.

A convention that says nothing of a line is an error, which says what it goes with.

>>> from roofline.bounds.api import question
>>> refuse_idle(question("bf16[B, D] * bf16[D, F]", on="h100", density=0.5))
Traceback (most recent call last):
roofline.errors.InputError: density= has no effect: nothing is sharded here, and nothing is a collective; shard ...
>>> refuse_idle(question("gelu(bf16[B, D])", on="v5e", pad=True))
Traceback (most recent call last):
roofline.errors.InputError: pad= has no effect: nothing here runs on the matrix unit; leave it out
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from roofline.answers import Comparable, capability
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.bounds.conventions import DEFAULT, NAMES, Conventions, settings
from roofline.bounds.memory import with_scores_on_chip
from roofline.errors import InputError, QuantityError, SizeError, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, field, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level, unit_for
from roofline.lazy import np
from roofline.notation import canonical, program
from roofline.notation.scope import is_unnamed
from roofline.notation.structure import Program
from roofline.ops import build, formula, formula_names, padded, raw
from roofline.ops.rules import family_of
from roofline.quantity import count, format_percent, given_amount, kind_of, typed
from roofline.signatures import check_methods, either, spelled
from roofline.sizes import check, common_shape, is_array, is_symbol, own_array, plain_number, product, symbol
from roofline.statements import Assumption, assume, without
from roofline.work import Op, Work

if TYPE_CHECKING:
    from roofline.ops.sharding.local import OpenSplit
    from roofline.ops.sharding.plans import Plan


#: Units of amounts of raw work.
AMOUNT_UNITS = {"flops": "FLOP", "bytes": "B", "intensity": "FLOP/B"}

#: The plan that sends over the fewest mesh axes, which is the rule of the book's four cases.
FEWEST = "fewest"


@dataclass(frozen=True, slots=True, eq=False)
class LaidOut:
    """A sharded program on a mesh: the operations of the plan taken, the machine with the mesh, the line as it ends.

    ``splits`` is what has to hold of open sizes.
    """

    machine: Machine
    ops: tuple[Op, ...]
    name: str
    others: Sequence[Any] = field(default=())
    said: tuple[Assumption, ...] = ()
    expression: str = ""
    splits: tuple[OpenSplit, ...] = ()


@check_methods
@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked: a line of notation or raw work, on a machine, at given sizes, under stated conventions.

    ``raw`` holds FLOPs, bytes or an intensity instead of an expression. ``sizes`` may hold numbers, arrays or
    nothing for a name; ``formulas`` are those that were given as text (``F="4*D"``), which follow the others.
    ``flops_share`` is the share of the FLOPs that is done, over the same bytes: what a cheaper algorithm would leave.
    ``scores_on_chip`` runs an attention that is written out in one kernel. ``plan_of_all`` is the plan of a sharded
    line that other sizes take too: of arrays, for their parts and rows, or of the sizes that a closed form is shown at.
    ``way`` is one of those that the collectives of a line with open sizes may go together, where the fastest at each
    size is still to be found.
    """

    machine: Machine
    text: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    conventions: Conventions = DEFAULT
    formulas: Mapping[str, Any] = field(default_factory=dict)
    flops_share: float = 1.0
    scores_on_chip: bool = False
    plan_of_all: Plan | None = None
    way: int | None = None

    @property
    def parsed(self) -> Program:
        """Its line as a program; raw work has none."""
        return program(self.text, self.conventions.compute)

    def ops(self) -> tuple[Op, ...]:
        """Build the operations at these sizes; sizes that are not given become symbols."""
        laid = self.laid_out()
        return self.finished(self._ops() if laid is None else laid.ops)

    def laid_out(self) -> LaidOut | None:
        """The plan of a sharded program on its mesh, None where there is one chip."""
        if self.raw or not (self.conventions.use or self.parsed.axes):
            return None
        found: LaidOut = capability("lay_out")(self)
        return found

    def _ops(self) -> tuple[Op, ...]:
        """Build the operations on one chip."""
        if self.raw:
            given = {k: v for k, v in self.raw.items() if v is not None}
            dtype, unit = given.pop("dtype", "bf16"), given.pop("unit", "matrix")
            amounts = {k: amount(k, v, self.sizes) for k, v in given.items()}
            common_shape(amounts)
            return (raw(dtype=dtype, unit=unit, **amounts),)
        chosen = {name: getattr(self.conventions, name) for name in ("exact", "count_padding", "compute")}
        return build(self.parsed, self.sizes, **chosen)

    def finished(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        """Pad operations to the tile of the matrix unit where asked for, and keep the share of FLOPs that is done."""
        if self.conventions.pad and not self.raw:
            ops = tuple(self._padded(op) for op in ops)
        ops = with_scores_on_chip(ops) if self.scores_on_chip else ops
        return ops if self.flops_share == 1 else tuple(self._lighter(op) for op in ops)

    def answer(self, *, symbolic: bool = False, laid: LaidOut | None = None) -> Bound:
        """Price the operations; ``symbolic`` keeps the rates as symbols (``P_bf16``, ``W_hbm``).

        ``laid`` is the plan laid out, where that is known.
        """
        laid = laid or self.laid_out()
        if laid is None:
            return self.price(self.finished(self._ops()), self.machine, symbolic=symbolic)
        found = self.price(self.finished(laid.ops), laid.machine, symbolic=symbolic, said=laid.said)
        return replace(found, expression=laid.expression, plan=laid.name, plans=laid.others)

    def ways(self, laid: LaidOut | None) -> Sequence[int | None]:
        """The ways that the collectives of a plan laid out may go together; where there is no choice, None alone."""
        if laid is None or self.way is not None:
            return [self.way]
        from roofline.ops.collectives.choice import Chooser

        named = Chooser(self.conventions.algorithm, laid.machine).ways(laid.ops)[1]
        return range(len(named) + 1) if named else [None]

    def price(
        self, ops: tuple[Op, ...], machine: Machine, *, symbolic: bool = False, said: Sequence[Assumption] = ()
    ) -> Bound:
        """Price operations on the machine, in the conventions of the question."""
        if self.is_sharded:
            from roofline.ops.collectives.choice import Chooser, chosen_together

            loads = Case(ops, machine, self.conventions).loads()
            ops = chosen_together(ops, loads, Chooser(self.conventions.algorithm, machine), self.way)
        read_as = [] if self.raw else assume("notation", self.parsed.assumptions)  # where the line leaves a choice
        return Case(
            ops, machine, self.conventions, name=self.expression, sizes=self.sizes,
            assumptions=[*read_as, *said, *self._not_sharded(), *self._particulars(ops), *notes_of(ops)],
            request=self.changes(), question=self,
        ).answer(symbolic=symbolic or None)  # fmt: skip

    def _not_sharded(self) -> list[Assumption]:
        """Say where there are several chips, and nothing is sharded over them."""
        chips = [n for n in (tuple(self.conventions.mesh.values()) or self.machine.shape) if n != 1]
        if not chips or (self.text and self.parsed.axes):
            return []
        each = f"each of the {product(chips)} chips" if all(isinstance(n, int) for n in chips) else "each chip"
        return [Assumption("alike", f"nothing is sharded: {each} does all of this{self._to_share()}")]

    def _to_share(self) -> str:
        """What to write so that the chips share the work: the axes of their mesh behind a size of the result."""
        mesh = self.on_mesh().mesh
        labels = [label for step in self.parsed.steps for label in step.output.labels] if self.text else []
        if mesh is None or not labels:
            return ""
        names = [axis.name for axis in mesh.axes if axis.size != 1]
        by_letters = set(names) <= set("XYZ")  # a number takes no other names
        size = self.parsed.sizes.get(labels[0], labels[0]) if by_letters or not is_unnamed(labels[0]) else "B"
        return f"; an axis behind a size shares it, as in {size}_{''.join(names) if by_letters else names[0]}"

    def _particulars(self, ops: Sequence[Op]) -> list[Assumption]:
        """Say what share of the FLOPs is done, and where nothing is arithmetic that the unit asked for would run."""
        if self.flops_share != 1:
            return [Assumption("counting", f"{format_percent(self.flops_share)} of the FLOPs, over the same bytes")]
        if self.scores_on_chip:
            return [Assumption("bytes", "scores and probabilities of attention stay on the chip")]
        if self.machine.unit is None or any(key.quantity == "flops" for op in ops for key in op.work):
            return []
        return [Assumption("rates", f"nothing here is arithmetic that {self.machine.unit} would do")]

    @property
    def expression(self) -> str:
        """The line in its one-line form, with the sizes that are plain numbers put in."""
        if self.raw:
            return ", ".join(f"{name} {written(value)}" for name, value in self.raw.items() if value is not None)
        return self.written_as(self.parsed)

    def written_as(self, parsed: Program) -> str:
        """A program in its one-line form, with the sizes that are plain numbers put in; its machine is beside it."""
        plain = parsed._replace(on=None, over=None)
        return canonical(plain, sizes={k: v for k, v in self.sizes.items() if isinstance(v, int)})

    def one_plan(self) -> Question:
        """The question with one plan for all sizes, where none is named, of those that every size in arrays allows.

        For arrays it is the best for rows together, for plain numbers the best, for open sizes the one that sends over
        the fewest axes.
        """
        if not self.is_sharded or self.plan_of_all is not None:
            return self
        plain = all(isinstance(self.sizes.get(name), int | float) for name in self.size_names)
        ranked = plain and str(self.conventions.plan).isdecimal()
        if self.conventions.plan not in (None, FEWEST) and not ranked:
            return self
        if not has_arrays(self.sizes) and (not plain or self.conventions.plan == FEWEST):
            return self.vary(plan=FEWEST)
        chosen = capability("first_plan" if self.conventions.plan == FEWEST else "plan_for_rows")
        return replace(self, plan_of_all=chosen(self))

    @property
    def is_sharded(self) -> bool:
        """Whether it is about several chips: an axis or a collective stands in its text."""
        if self.raw:
            return False
        parsed = self.parsed
        return bool(parsed.axes or self.conventions.use or any(step.kind == "collective" for step in parsed.steps))

    def on_mesh(self) -> Machine:
        """The machine with its chips named by the mesh axes of the question; a size left out is a symbol.

        >>> from roofline.bounds.api import question
        >>> asked = question("bf16[B, D_X] * bf16[D_X, F_Y]", on="v5p", mesh={"X": "N/4", "Y": 4}, N=64)
        >>> asked.on_mesh().mesh, asked.mesh_names, asked.multiple_of("D")
        (Mesh(X=16 ici line, Y=4 ici line), ('N',), 16)
        >>> question("bf16[B, D_X] * bf16[D_X, F]", on="v5e:4", wrap=True).on_mesh().mesh
        Mesh(X=4 ici ring)
        """
        given = {name: axis_size(size, self.sizes) for name, size in self.conventions.mesh.items()}
        if not given and (self.conventions.wrap is None or self.machine.mesh is None):
            return self.machine
        from roofline.hardware.mesh import with_mesh

        return with_mesh(self.machine, given or None, wrap=self.conventions.wrap)

    @property
    def mesh_names(self) -> tuple[str, ...]:
        """Names that stand in the sizes of mesh axes: sizes that it takes beside those of its tensors."""
        return tuple(names_in(self.conventions.mesh))

    @property
    def size_names(self) -> list[str]:
        """Names of the sizes it has, set or not."""
        if self.raw:
            return names_in(self.raw)
        return list(dict.fromkeys((*self.parsed.labels, *self.mesh_names)))

    def multiple_of(self, label: str) -> int:
        """The multiple that a size must be for its mesh axes to divide it; 1 where their sizes are no plain numbers."""
        mesh = self.on_mesh().mesh
        found = 1
        for step in self.parsed.steps:
            for axis in (axis for shape in (*step.inputs, step.output) for axis in shape.axes if axis.label == label):
                ways = product(mesh[name].size for name in axis.shard) if mesh is not None else 1
                found = math.lcm(found, ways) if isinstance(ways, int) else found
        return found

    def vary(self, **changes: Any) -> Question:
        """Return the question with some of its parts replaced."""
        ours = {name: changes.pop(name) for name in NAMES if name in changes}
        if ours:
            changes["conventions"] = replace(self.conventions, **ours)
        kept = self.plan_of_all if changes.keys() <= {"sizes", "raw"} else None  # another mesh has other plans
        return replace(self, **{"plan_of_all": kept, **changes})

    def with_sizes(self, **sizes: Any) -> Question:
        """Return the question at other sizes; None opens one. Sizes that are formulas of them follow."""
        now = {**self.sizes, **sizes}
        tied = {name: given for name, given in self.formulas.items() if name not in sizes}
        found = resolve_sizes({**now, **tied}, self.size_names) if tied else now
        return replace(self, sizes={name: found[name] for name in now if found.get(name) is not None})

    def changes(self) -> dict[str, Any]:
        """List the choices that are not at their default, by name, and raw work."""
        return ({"raw": self.raw} if self.raw else {}) | self.conventions.changes()

    def _padded(self, op: Op) -> Op:
        """Round the matrix work of an operation up to the unit's tile; an operation without any stays as it is."""
        key = next((k for k in op.work if k.quantity == "flops" and k.place == "matrix"), None)
        return op if key is None else padded(op, self._tile_of_unit(key.dtype))

    def _lighter(self, op: Op) -> Op:
        """Keep a share of an operation's FLOPs; its bytes and what it sends stay."""
        share = {key: n * self.flops_share if key.quantity == "flops" else n for key, n in op.work.items()}
        return replace(op, work=Work(share))

    def _tile_of_unit(self, dtype: str) -> tuple[int, int]:
        unit = unit_for(self.machine, "matrix", dtype)
        if unit is None or unit.tile is None:
            what = f"for {unit.name}, on which this runs" if unit and unit.kind == "vector" else "for its matrix unit"
            hint = "padding is known for TPUs' matrix units; give tile figures in a machine file"
            raise InputError(f"{self.machine.name} has no tile size {what}", hint=hint)
        return unit.tile

    def particular(self, assumptions: Sequence[str]) -> list[str]:
        """Those of the assumptions that are no conventions, nor about a plan and its collectives."""
        usual = self.conventions.said(self.machine, raw=bool(self.raw))
        return [said for said in without(assumptions, ("plan", "collective")) if said not in usual]


class AboutQuestion(Comparable):
    """An answer about one ``question``: it is told by its machine, and assumes what the question does not say."""

    __slots__ = ()
    question: Question

    @property
    def target(self) -> str:
        """The machine, as a person reads it."""
        return self.question.machine.name

    def assumed(self) -> Iterable[str]:
        return tuple(self.question.particular(getattr(self, "assumptions", ())))


def resolve_sizes(given: Mapping[str, Any], names: Collection[str] = ()) -> dict[str, Any]:
    """Work out sizes that are written as formulas of others; one of ``names`` that has no value is a symbol.

    >>> resolve_sizes({"D": 4096, "F": "4*D", "G": "F/2"})
    {'D': 4096, 'F': 16384, 'G': 8192}
    >>> resolve_sizes({"F": "4*D"}, ["D", "F"])
    {'F': 4*D}
    >>> resolve_sizes({"D": "F", "F": "D"})
    Traceback (most recent call last):
    roofline.errors.SizeError: size D depends on itself (D = F)
    """
    done: dict[str, Any] = {}

    def value(name: str, within: tuple[str, ...]) -> Any:
        if name in done:
            return done[name]
        raw_value = plain_number(given[name])
        whole = isinstance(raw_value, float) and raw_value.is_integer()
        if whole or isinstance(raw_value, list | tuple | range) or is_array(raw_value):
            raw_value = check(name, raw_value)
        if isinstance(raw_value, str):
            if name in within:
                raise SizeError(f"size {name} depends on itself ({name} = {raw_value})")
            known = _Lookup(given, lambda other: value(other, (*within, name)), name, names)
            result = formula(raw_value, known)
            raw_value = int(result) if isinstance(result, float) and result.is_integer() else result
        done[name] = raw_value
        return raw_value

    return {name: value(name, ()) for name in given if given[name] is not None}


def without_helpers(sizes: Mapping[str, Any], given: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Drop sizes that stand in no tensor and were only given for another size's formula.

    >>> without_helpers({"D": 8, "F": 32}, {"D": 8, "F": "4*D"}, ["F"])
    {'F': 32}
    """
    helpers = {name for value in given.values() if isinstance(value, str) for name in formula_names(value)}
    return {name: value for name, value in sizes.items() if name in labels or name not in helpers}


class _Lookup(Mapping[str, Any]):
    """Sizes as a mapping that works out formulas when asked."""

    def __init__(self, given: Mapping[str, Any], value: Any, name: str, names: Collection[str]) -> None:
        self._given, self._value, self._name, self._names = given, value, name, names

    def __getitem__(self, key: str) -> Any:
        if self._given.get(key) is None:
            if key in self._names:
                return symbol(key)
            others = [name for name in dict.fromkeys((*self._names, *self._given)) if name != self._name]
            usual = f"a size is a number, as in {self._name}=64, or a formula of numbers and other sizes"
            hint = suggest(key, others, what="sizes") if others else usual
            raise SizeError(f"size {self._name} is a formula of {key}, which has no value", hint=hint)
        return self._value(key)

    def __iter__(self) -> Any:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def notes_of(ops: Sequence[Op]) -> list[Assumption]:
    """What a reader should know about operations, each note once."""
    notes = {op.note: "collective" if op.kind == "collective" else "operation" for op in ops if op.note}
    return [Assumption(kind, note) for note, kind in notes.items()]


def has_arrays(sizes: Mapping[str, Any]) -> bool:
    """Say whether any size holds several values."""
    return any(is_array(v) or isinstance(v, list | tuple | range) for v in sizes.values())


def names_in(amounts: Mapping[str, Any]) -> list[str]:
    """Names that stand in formulas: the sizes of mesh axes, or amounts of raw work."""
    texts = [text for what, text in amounts.items() if isinstance(text, str) and what != "dtype"]
    return list(dict.fromkeys(name for text in texts if kind_of(text) is None for name in formula_names(text)))


def axis_size(size: Any, sizes: Mapping[str, Any]) -> Any:
    """The size of a mesh axis: a number, or what its formula comes to."""
    if not isinstance(size, str):
        return size
    found = formula(size, {name: value for name, value in sizes.items() if value is not None})
    return int(found) if isinstance(found, float) and found.is_integer() else found


def written(amount: Any) -> str:
    """An amount of raw work in words: several as a list, of which the first and the last where there are many."""
    if not is_array(amount):
        return typed(amount)
    flat = own_array(amount).reshape(-1)
    few = [f"{value:g}" for value in (flat if flat.size <= 4 else flat[[0, 1, -1]]).tolist()]
    return "[" + ", ".join(few if flat.size <= 4 else [*few[:2], "…", few[-1]]) + "]"


def amount(name: str, value: Any, sizes: Mapping[str, Any]) -> Any:
    """Read an amount of raw work: a number, an array, "1 TFLOP", or a formula of named sizes."""
    if is_array(value):
        return _amounts(name, value)
    if not isinstance(value, str):
        return value if is_symbol(value) else given_amount(name, value, AMOUNT_UNITS[name])
    try:
        return given_amount(name, value, AMOUNT_UNITS[name])
    except QuantityError:
        if kind_of(value) is not None or count(value) is not None or _is_float(value):
            raise
        return formula(value, sizes)


def _amounts(name: str, values: Any) -> Any:
    """Take an array of amounts as it is; the first that is none is the error of that number alone."""
    values = own_array(values)
    for value in values[~(np.isfinite(values) & (values > 0))].ravel()[:1].tolist():
        given_amount(name, value, AMOUNT_UNITS[name])
    return values


def several_amounts(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Amounts of raw work that are lists as arrays, each of their figures read for itself; the rest as they are."""
    return {
        name: np.array([given_amount(name, each, AMOUNT_UNITS[name]) for each in value])
        if isinstance(value, list | tuple | range) and len(value)
        else value
        for name, value in raw.items()
    }


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_SHARDED = "nothing is sharded here, and nothing is a collective"
_SHARD_ONE = "shard a dimension, as in bf16[B_X, D], or leave it out"
_LEFT_OUT = "leave it out"

#: Families of operations that run on the matrix unit.
_ON_THE_MATRIX_UNIT = ("contraction", "convolution", "attention")


class ConventionUse(NamedTuple):
    """What a convention needs of a question to have an effect, and what is said of one that lacks it."""

    name: str
    acts: Callable[[Question], bool]
    lacks: str
    hint: str = _LEFT_OUT


def _chooses(asked: Question) -> bool:
    """Whether an algorithm is of collectives that its plan has, or one of all plans; one word is of all kinds."""
    wanted = asked.conventions.algorithm
    if not asked.is_sharded or isinstance(wanted, str):
        return asked.is_sharded
    if asked.conventions.plan is not None:
        used = (op.options["collective"] for op in asked.ops() if op.kind == "collective")
        return not set(used).isdisjoint(wanted or ())
    kinds = {step.function for step in asked.parsed.steps if step.kind == "collective"}
    for found in capability("ranked_plans")(asked):
        kinds.update(*(choice.collectives for choice in found.plan.choices if choice))
    return not kinds.isdisjoint(wanted or ())


def _uses_a_link(asked: Question) -> bool:
    """Whether chips send each other data, or it comes over a bus, which of some cards is their link too."""
    comes = not asked.raw and any(step.function == "from_host" for step in asked.parsed.steps)
    return asked.is_sharded or comes or data_level(asked.machine).link


def _computes(asked: Question) -> bool:
    return any(step.kind != "collective" for step in asked.parsed.steps)


def _exchanges(asked: Question) -> bool:
    """Whether one of its collectives is an AllToAll, or plans choose them."""
    return _computes(asked) or any(step.function == "AllToAll" for step in asked.parsed.steps)


def _uses_further_axes(asked: Question) -> bool:
    return not set(asked.conventions.use) <= set(asked.parsed.axes)


def _on_a_torus(asked: Question) -> bool:
    mesh = asked.on_mesh().mesh
    return mesh is None or any(each.topology == "torus" for axis in mesh for each in axis.segments)


def _of_families(*families: str) -> Callable[[Question], bool]:
    return lambda asked: any(family_of(step) in families for step in asked.parsed.steps)


#: In the order in which they are refused.
USES: tuple[ConventionUse, ...] = (
    *(
        ConventionUse(name, attrgetter("is_sharded"), _SHARDED, _SHARD_ONE)
        for name in ("plan", "density", "algorithm", "wrap", "uneven")
    ),
    ConventionUse("algorithm", _chooses, "no collective here is of that kind"),
    ConventionUse("use", _uses_further_axes, "each of its axes is sharded over already"),
    ConventionUse("density", _exchanges, "nothing here is an AllToAll"),
    ConventionUse("wrap", _on_a_torus, "no axis here is one of a torus"),
    ConventionUse("count_padding", _of_families("convolution"), "nothing here is a convolution"),
    ConventionUse("pad", _of_families(*_ON_THE_MATRIX_UNIT), "nothing here runs on the matrix unit"),
    ConventionUse("compute", _computes, "nothing here computes"),
)

#: Where one line is asked; a sweep takes one plan anyway.
OF_ONE_LINE = (*USES, *(ConventionUse(name, _computes, "a collective alone has one plan") for name in ("plan", "use")))

#: Where nothing is sharded a mesh and a link's own figure are said in an answer's assumptions, which advice and
#: pictures do not repeat.
NOT_REPEATED = (
    ConventionUse("mesh", attrgetter("is_sharded"), _SHARDED, _SHARD_ONE),
    ConventionUse("link", _uses_a_link, _SHARDED, _SHARD_ONE),
)


def refuse_known(unknown: str, sizes: Mapping[str, Any]) -> None:
    """Refuse a value of what is solved for."""
    given = sizes.get(unknown)
    if given is not None and not is_symbol(given):
        said = quoted(given.tolist() if is_array(given) else given)
        raise SizeError(f"{unknown} is what is solved for, and has a value, {said}", hint="leave the value out")


def refuse_idle(*asked: Question, uses: tuple[ConventionUse, ...] = USES) -> None:
    """Refuse a convention that has no effect on any of these questions. Raw work refuses its own."""
    for name, acts, lacks, hint in uses:
        given = [each for each in asked if _is_given(name, each)]
        if given and not any(map(acts, given)):
            raise InputError(f"{_written(name)} has no effect: {lacks}", hint=hint)


def _written(name: str) -> str:
    """A convention as the caller writes it; two options of the command line set the algorithm."""
    if name == "link":
        return "a link's figure"
    word = either(settings()[name].option or name, name)
    return spelled(word) + either(f" (or {spelled('sharp')})", "") * (name == "algorithm")


def _is_given(name: str, asked: Question) -> bool:
    links = {link.name for link in asked.machine.links} if name == "link" else ()
    return name in asked.conventions.changes() or any(path.partition(".")[0] in links for path in asked.machine.given)


def refuse_idle_on_plan(asked: Question, symbolic: Bound | None = None) -> None:
    """Refuse a convention of collectives where one plan is taken for all sizes, and that has none of them.

    ``symbolic`` is the answer on this plan where sizes are open; without it, it is made where it is needed.
    """
    given = {"algorithm", "density"} & asked.conventions.changes().keys() if asked.is_sharded else set()
    if not given:
        return
    taken = asked.vary(sizes={}).one_plan().answer(symbolic=True) if symbolic is None else symbolic
    sent = {part.op.options["collective"] for part in taken.ops if part.op.kind == "collective"}
    idle = [name for name in sorted(given) if not sent or (name == "density" and "AllToAll" not in sent)]
    if idle:
        said, nothing = _written(idle[0]), "has no AllToAll" if sent else "sends nothing"
        hint = f"give all sizes numbers, or another {spelled('plan').rstrip('=')}, or {_LEFT_OUT}"
        raise InputError(f"{said} has no effect: the plan for all sizes, {taken.plan}, {nothing}", hint=hint)
