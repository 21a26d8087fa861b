"""Rules: the functions that price steps of the notation, and the operations that a program becomes by them.

A family of operations is one file of this room; it registers its rule when the family first occurs:

>>> rule_for("softmax").__module__
'roofline.ops.reduction'

A rule turns the step's shapes into tensors and shape facts, and hands those to the price of its operation. A rule of
one's own is registered the same way:

>>> @register("nothing_at_all")
... def rule(step, context):
...     return Op("nothing", "nothing_at_all")
>>> rule_for("nothing_at_all") is rule
True

:func:`build` makes operations of a resolved program and the sizes of its labels:

>>> from roofline.notation import program
>>> line = program("h = bf16[B, D] * int8[D, F]; gelu(h)")
>>> [op.kind for op in build(line, {"B": 64, "D": 8192, "F": 8192})]
['contraction', 'elementwise']
>>> build(line, {})[0].work
Work(flops/matrix/bf16: 2*B*D*F)
>>> build(line, {"D": 8192, "N": 4})
Traceback (most recent call last):
roofline.errors.SizeError: size N stands nowhere in the expression; sizes are: B, D, F
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.errors import DTypeError, InputError, NotationError, SizeError, suggest
from roofline.frozen import Frozen, NamedTuple, replace
from roofline.lazy import sympy
from roofline.notation.calls import FUNCTIONS
from roofline.notation.structure import Program, Shape, Step, tiled_elements
from roofline.signatures import call, spelled, takes
from roofline.sizes import Size, check, exact_div, is_array, is_symbol, none_open, product, symbol
from roofline.work import Op, Tensor


class Context(NamedTuple):
    """Sizes by label, and how to count.

    ``exact`` counts one add fewer than multiplies. ``count_padding`` counts the positions a convolution pads.
    ``compute`` is the arithmetic dtype of every operation, where the caller chose one. ``ways`` says over how many
    chips a label of an operand is split, of which ``sizes`` has the part of one.
    """

    sizes: Mapping[str, Size]
    exact: bool = False
    count_padding: bool = True
    compute: str | None = None
    ways: Mapping[str, Size] = Frozen({})

    def size(self, labels: Iterable[str]) -> Size:
        """Multiply the sizes of labels; none gives 1."""
        return product(self.sizes[label] for label in labels)

    def rows(self, step: Step) -> Size:
        """How many rows a step works along: the labels of its first operand that are not in ``over``."""
        return self.size(label for label in step.inputs[0].labels if label not in step.over)

    def along_rows(self, step: Step) -> dict[str, Any]:
        """What the price of a step along rows takes: what it reads and writes, elements, rows, arithmetic dtype."""
        x = self.tensor(step.inputs[0])
        moved = {"name": step.text or step.function, "reads": [x], "writes": [self.tensor(step.output)]}
        return {**moved, "elements": x.elements, "rows": self.rows(step), "compute": self.arithmetic(step)}

    def groups(self, step: Step) -> Size:
        """Groups of channels that one chip has, where its first operand is split by channels: whole ones."""
        groups = step.options.get("groups", 1)
        if isinstance(groups, str):
            return self.sizes[groups]
        return 1 if groups == 1 else exact_div(groups, self.ways.get(step.inputs[0].labels[-1], 1))

    def tensor(self, shape: Shape, role: str = "activation") -> Tensor:
        """Make the tensor of a shape."""
        dims = tuple(self.sizes[label] for label in shape.labels)
        stored = tiled_elements(dims, shape.layout) if shape.tiling else None
        return Tensor(shape.ident, dims, shape.dtype, role, label=shape.written, stored=stored)

    def operand(self, shape: Shape) -> Tensor:
        """Make a scale, a kernel, a bias or a table: a weight where it comes from outside."""
        return self.tensor(shape, "weight" if shape.source == "input" else "activation")

    def written_to(self, op: Op, shape: Shape) -> Op:
        """Say which tensor an operation writes whose sizes it has worked out itself."""
        (result,) = op.writes
        return replace(op, writes=(Tensor(shape.ident, result.dims, shape.dtype, label=shape.written),))

    def arithmetic(self, step: Step) -> str:
        """The arithmetic dtype of a step."""
        return self.compute or step.compute


#: Turns a resolved step into an operation; sizes the rule derives are those of the operation's first result.
Rule: TypeAlias = Callable[[Step, Context], Op]

#: Families that share a file with others.
_FILES = {
    "copy": "basic", "embedding": "basic", "softmax": "reduction", "scan": "reduction", "norm": "reduction",
    "sort": "reduction", "fft": "linear_algebra",
}  # fmt: skip
_RULES: dict[str, Rule] = {}


def register(family: str) -> Callable[[Rule], Rule]:
    """Register the rule of a family."""

    def keep(rule: Rule) -> Rule:
        _RULES[family] = rule
        return rule

    return keep


def family_of(step: Step) -> str:
    """The family that prices a step: its kind, or the family of the function it calls."""
    return FUNCTIONS[step.function].family if step.kind == "function" else step.kind


def has_rule(family: str) -> bool:
    """Say whether a family can be priced."""
    if family not in _RULES:
        name = f"roofline.ops.{_FILES.get(family, family)}"
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return family in _RULES


def rule_for(family: str) -> Rule:
    """Return the rule of a family; one without a rule is an error, never a silent zero.

    >>> rule_for("quicksort")
    Traceback (most recent call last):
    roofline.errors.InputError: there is no cost rule for operations of the family 'quicksort'
    """
    if not has_rule(family):
        raise InputError(f"there is no cost rule for operations of the family {family!r}")
    return _RULES[family]


_NOTED: ContextVar[dict[Any, str] | None] = ContextVar("_NOTED", default=None)


@contextmanager
def noting_conditions() -> Iterator[dict[Any, str]]:
    """The conditions on symbols that operations are built under, and what is said where one does not hold.

    >>> from roofline.notation import program
    >>> with noting_conditions() as noted:
    ...     _ = build(program("topk_V(bf16[B, V], k=8)"), {})
    >>> noted
    {V >= 8: 'topk cannot take 8 of V'}
    """
    noted: dict[Any, str] = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def require(condition: Any, message: str, hint: str = "", rule: str = "") -> None:
    """Raise :class:`SizeError` unless ``condition`` holds, for every element where it is an array; of symbols note it.

    ``rule`` is what is said of elements together, the message where none is given.

    >>> require(7 % 2 == 0, "7 channels do not fall into 2 groups")
    Traceback (most recent call last):
    roofline.errors.SizeError: 7 channels do not fall into 2 groups
    """
    if is_symbol(condition) and condition.free_symbols:
        noted = _NOTED.get()
        if noted is not None:
            noted.setdefault(condition, message)
        return
    if not (condition.all() if is_array(condition) else condition):
        raise SizeError(message, hint=hint, rows=~condition if is_array(condition) else None, rule=rule)


def require_multiple(size: Size, of: Size, message: str, hint: str = "", rule: str = "") -> None:
    """Raise unless ``size`` is a whole multiple of ``of``; with a symbol in either it is noted.

    >>> require_multiple(8, 2, "never shown")
    >>> require_multiple(8, 3, "8 query heads do not share 3 key heads evenly")
    Traceback (most recent call last):
    roofline.errors.SizeError: 8 query heads do not share 3 key heads evenly
    """
    if is_symbol(size) or is_symbol(of):
        require(sympy.Eq(sympy.Mod(size, of), 0), message, hint)
    else:
        require(size % of == 0, message, hint, rule)


def require_equal(size: Size, other: Size, message: str, rule: str = "") -> None:
    """Raise unless two sizes are equal; with a symbol in either nothing is known, and nothing raised.

    >>> require_equal(64, 32, "x has 64 channels, the kernel is for 32")
    Traceback (most recent call last):
    roofline.errors.SizeError: x has 64 channels, the kernel is for 32
    """
    if not (is_symbol(size) or is_symbol(other)):
        require(size == other, message, rule=rule)


def show_size(size: Size) -> str:
    """Write a size for a message: an array by its range.

    >>> import numpy as np
    >>> show_size(64), show_size(np.array([1.0, 8.0]))
    ('64', '1…8')
    """
    return f"{size.min():g}…{size.max():g}" if is_array(size) else str(size)


#: Families that can count complex numbers: a complex product is 6 real FLOPs, a sum 2.
_COMPLEX_FAMILIES = ("contraction", "elementwise", "copy", "fft")


@takes()
def build(
    program: Program,
    sizes: Mapping[str, Size | None],
    *,
    exact: bool = False,
    count_padding: bool = True,
    compute: str | None = None,
) -> tuple[Op, ...]:
    """Make the operations of a program on one chip.

    ``sizes`` gives labels an int or an array; labels without one, or with None, become symbols. ``exact`` counts one
    add fewer than multiplies, ``count_padding=False`` leaves out what a convolution does on padded positions,
    ``compute`` is the arithmetic dtype of every operation.

    Raises :class:`~roofline.errors.SizeError` for a size that cannot be one, contradicts the text, stands nowhere in
    it, or is missing beside an array; :class:`~roofline.errors.NotationError` for sharded tensors and collectives,
    which one chip does not have.
    """
    _single_device(program)
    known = label_sizes(program, sizes)
    arithmetic = arithmetic_dtype(compute)
    ops = []
    for step in program.steps:
        _real_or_countable(program, step)
        op = rule_for(family_of(step))(step, Context(known, exact, count_padding, arithmetic))
        known = _with_derived(known, step.output, op)
        ops.append(op)
    return leaving(ops, [step.output.ident for step in program.steps if step.leaves])


def leaving(ops: Iterable[Op], results: Collection[str]) -> tuple[Op, ...]:
    """The operations of a program that gives back these tensors, whichever of them it reads itself."""

    def given(tensor: Tensor) -> Tensor:
        if tensor.ident not in results:
            return tensor
        return replace(tensor, given=tensor.traffic_elements if tensor.stored is None else tensor.stored)

    return tuple(replace(op, writes=tuple(map(given, op.writes))) if results else op for op in ops)


def sizes_of_results(steps: Iterable[Step], sizes: dict[str, Size]) -> dict[str, Size]:
    """The sizes of labels, with those that follow from operations, wherever their tensors lie."""
    known = sizes
    for step in steps:
        if step.kind != "collective":
            known = _with_derived(known, step.output, rule_for(family_of(step))(step, Context(known)))
    return known


def _single_device(program: Program) -> None:
    collectives = [step for step in program.steps if step.kind == "collective"]
    if not (collectives or program.axes):
        return
    if collectives:
        wrong = f"{collectives[0].function} moves data between chips: it needs a mesh, and this is one chip"
        at, hint = collectives[0].span.start, "leave it out to ask about one chip's part"
        raise NotationError(wrong, text=program.text, position=at, hint=hint)
    raise NotationError(
        f"the tensors are sharded over {', '.join(program.axes)}: that needs a mesh, and this is one chip",
        text=program.text,
        position=program.steps[0].span.start,
        hint=f"leave _{program.axes[0]} out, and give the sizes one chip holds",
    )


def arithmetic_dtype(compute: str | None) -> str | None:
    """Check the arithmetic dtype a caller chose, where one was."""
    if compute is None:
        return None
    if not isinstance(compute, str):
        raise DTypeError(f"compute is the name of a dtype, not {compute!r}", hint="as in compute='bf16'")
    return dtypes.arithmetic_name(compute)


def _real_or_countable(program: Program, step: Step) -> None:
    family = family_of(step)
    if family in _COMPLEX_FAMILIES:
        return
    for shape in (*step.inputs, step.output):
        if dtypes.get(shape.dtype).family == "complex":
            wrong = f"{step.function} of complex numbers has no cost rule"
            hint = "contractions and sums, products and quotients of elements have one"
            raise NotationError(wrong, text=program.text, position=step.span.start, hint=hint)


def label_sizes(program: Program, given: Mapping[str, Any], axes: Mapping[str, Size] = Frozen({})) -> dict[str, Size]:
    """Check the sizes given for a program's labels; those without one become symbols. ``axes`` are a mesh's sizes."""
    known: dict[str, Size] = dict(program.sizes)
    for name, value in given.items():
        if value is None:
            continue
        if name in program.labels:
            known[name] = check(name, value)
        else:
            _contradiction(program, name, value)
    missing = [label for label in program.labels if label not in known]
    arrays = [name for name, value in known.items() if is_array(value)]
    opened = [*missing, *(name for name, value in known.items() if is_symbol(value))]
    none_open([*arrays, *(name for name, size in axes.items() if is_array(size))], opened)
    _broadcast(known, arrays)
    return {**known, **{label: symbol(label) for label in missing}}


def _contradiction(program: Program, name: str, value: Any) -> None:
    """Raise for a size that nothing in the text asks for; the same number once more is none."""
    if name in program.sizes:
        fixed = program.sizes[name]
        if is_array(value) or is_symbol(value) or value != fixed:
            raise SizeError(f"size {name} is {fixed} in the text, not {show_size(value)}", hint="give it in one place")
        return
    if any(name in step.output.labels for step in program.steps):
        raise SizeError(f"size {name} follows from the others", hint="leave it out")
    if not program.labels:
        raise SizeError(f"size {name} stands nowhere in the expression", hint="all its sizes are written as numbers")
    longer = next((label for label in program.labels if label.startswith(f"{name}_")), None)
    hint = suggest(name, program.labels, what="sizes")
    if name in ("price", "power"):
        hint = f"{call('bound')} takes {spelled(name)}"
    if longer is not None:
        axis = longer.removeprefix(f"{name}_")
        hint = f"{longer} is one name; {name} over a mesh axis {axis} is written {name}_{{{axis}}}"
    raise SizeError(f"size {name} stands nowhere in the expression", hint=hint)


def _broadcast(known: Mapping[str, Size], arrays: list[str]) -> None:
    for name in arrays[1:]:
        if known[name].shape == known[arrays[0]].shape:
            continue
        try:
            known[arrays[0]] + known[name]
        except ValueError:
            first, other = known[arrays[0]].shape, known[name].shape
            wrong = f"sizes {arrays[0]} and {name} are arrays of shapes {first} and {other}"
            raise SizeError(wrong, hint="arrays pair element by element, as numpy broadcasts them") from None


def _with_derived(known: dict[str, Size], shape: Shape, op: Op) -> dict[str, Size]:
    """Take in the sizes of the result that the rule worked out; they must agree with those that were known."""
    found = dict(known)
    for label, size in zip(shape.labels, op.writes[0].dims, strict=True):
        before = found.setdefault(label, size)
        if isinstance(before, int) and isinstance(size, int) and before != size:
            raise InputError(f"{label} of the result is {size}, and {before} elsewhere")
    return found
