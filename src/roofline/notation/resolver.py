"""Structure to meaning: every tensor typed, every dimension labelled, every operation one step.

>>> from roofline.notation.parser import parse
>>> resolve(parse("bf16[B, D] * int8[D, F] -> bf16[B, F]")).steps[0].contracted
('D',)
>>> resolve(parse("int8[B, D] * int8[B, D, F] -> int8[B, F]")).steps[0].batch
('B',)
>>> resolve(parse("bf16[512, 8192] @ bf16[8192, 4096]")).sizes["#4"]
4096
>>> [step.function for step in resolve(parse("h = bf16[B, D] * bf16[D, F]; gelu(h) * bf16[F, D]")).steps]
['contract', 'gelu', 'contract']

Of products of two tensors some labels are contracted, some are batch, the others are kept:

- A label in both inputs and not in the result is contracted; in both and in the result, it is batch.
- With no result written exactly one shared label is contracted; zero or several need ``->`` or ``·_D``.
- Numbers are sizes, not labels: they pair as :func:`numpy.matmul` pairs them, names pair by name.
- Nothing contracted is a product element by element.

>>> from roofline.notation import program
>>> def labels(text):
...     step = program(text).steps[-1]
...     return step.contracted, step.batch, step.output.labels
>>> labels("bf16[B, D] * bf16[D, F]")
(('D',), (), ('B', 'F'))
>>> labels("bf16[B, S, D] * bf16[B, T, D] -> bf16[B, S, T]")
(('D',), ('B',), ('B', 'S', 'T'))
>>> labels("bf16[B, D, E] ·_{D,E} bf16[B, D, E]")
(('D', 'E'), ('B',), ('B',))
>>> program("bf16[B, D] * bf16[4096, F]").sizes["D"]         # a number gives the name beside it its size
4096
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from roofline import dtypes
from roofline.errors import NotationError, look_alike
from roofline.frozen import Frozen, NamedTuple
from roofline.notation.calls import FUNCTIONS, OPERAND_DTYPES, check_words, one_by_one, resolve_call
from roofline.notation.canonical import step_text
from roofline.notation.result import broadcast, match, reordered
from roofline.notation.scope import DEFAULT_DTYPE, INSIDE, NOTHING, Scope, Wanted, is_unnamed, rename
from roofline.notation.structure import (
    BinaryNode,
    CallNode,
    Node,
    Program,
    ProgramNode,
    Shape,
    Span,
    StatementNode,
    TensorDim,
    TensorNode,
    nodes_in,
)
from roofline.quantity import in_a_row
from roofline.signatures import takes

#: Bits of formats in which sums are seldom kept: a result has them where nothing else is written.
NARROW = 8

#: Axes of a result, contracted labels, and labels that the written result renames.
_Product: TypeAlias = tuple[tuple[TensorDim, ...], tuple[str, ...], dict[str, str]]


class _Paired(NamedTuple):
    """Two operands whose numbers are paired: ``inner`` is the contracted number's label, ``outer`` batch numbers."""

    left: Shape
    right: Shape
    inner: str | None = None
    outer: tuple[str, ...] = ()
    numeric: bool = False


def contract(scope: Scope, node: BinaryNode, operands: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve ``left * right`` into one step."""
    left, right = operands
    if node.over is None and not (left.axes and right.axes):
        return _by_elements(scope, node, operands, wanted)
    paired = _pair_numbers(scope, node, left, right, wanted)
    axes, contracted, renamed = _result(scope, node, paired, wanted)
    left, right = rename(paired.left, renamed), rename(paired.right, renamed)
    if not contracted:
        return _by_elements(scope, node, (left, right), wanted)
    shared = [label for label in left.labels if label in right.labels]
    kept = {axis.label for axis in axes}
    made = scope.add(
        "contraction",
        "contract",
        (left, right),
        axes,
        span=node.span,
        at=node.position,
        wanted=wanted,
        unreduced=_partial_sums(left, right, contracted),
        contracted=contracted,
        batch=tuple(label for label in shared if label in kept),
    )
    if dtypes.get(made.dtype).bits <= NARROW and (wanted.output is None or wanted.output.dtype is None):
        scope.assume(f"products are written as {made.dtype}, as their operands are: -> bf16[…] says another format")
    return made


#: Operators by their kind: the function element by element, and what its result is called.
_BY_ELEMENTS = {
    "contract": ("multiply", "the product"),
    "add": ("add", "the sum"),
    "subtract": ("subtract", "the difference"),
    "divide": ("divide", "the quotient"),
}


def _by_elements(scope: Scope, node: BinaryNode, operands: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve an operator element by element, a product without a contracted label among them."""
    function, what = _BY_ELEMENTS[node.operator]
    shapes, axes = broadcast(scope, operands, wanted, node.position, what)
    same = operands[0].unreduced == operands[1].unreduced and function in ("add", "subtract")
    unreduced = operands[0].unreduced if same else ()
    return scope.add(
        "elementwise", function, shapes, axes, span=node.span, at=node.position, wanted=wanted, unreduced=unreduced
    )


def _partial_sums(left: Shape, right: Shape, contracted: Sequence[str]) -> tuple[str, ...]:
    """Mesh axes a product is a partial sum over: those that shard a contracted label in both operands."""
    shards = [{axis.label: axis.shard for axis in shape.axes} for shape in (left, right)]
    both = [a for label in contracted for a in shards[0][label] if a in shards[1][label]]
    return tuple(dict.fromkeys((*both, *left.unreduced, *right.unreduced)))


def _pair_numbers(scope: Scope, node: BinaryNode, left: Shape, right: Shape, wanted: Wanted) -> _Paired:
    labels = (*left.labels, *right.labels)
    if not any(is_unnamed(label) for label in labels) or not (left.axes and right.axes):
        return _Paired(left, right)
    numeric = all(is_unnamed(label) for label in labels)
    if numeric:  # of numbers only places count, so that a square may meet itself again
        shared_numbers = [label for label in left.labels if label in right.labels]
        right = rename(right, {label: scope.number(scope.sizes.get(label)) for label in shared_numbers})
    written = {dim.name for dim in wanted.dims or () if dim.name}
    shared = {label for label in left.labels if label in right.labels and not is_unnamed(label)}
    inner_at = (len(left.axes) - 1, max(0, len(right.axes) - 2))
    renamed: dict[str, str] = {}
    inner = None
    one, other = left.labels[inner_at[0]], right.labels[inner_at[1]]
    if _may_pair(one, other, shared | written) and (node.over is None or one in node.over or other in node.over):
        inner = scope.pair(one, other)
        if inner is None and not shared:
            raise _unequal(scope, node, left, right, one, other)
        renamed.update({old: inner for old in (one, other) if inner and old != inner})
    outer: list[str] = []
    for back in range(3, min(len(left.axes), len(right.axes)) + 1):
        one, other = left.labels[-back], right.labels[-back]
        if not _may_pair(one, other, shared) or scope.is_one(one) or scope.is_one(other):
            continue
        label = scope.pair(one, other)
        if label is None:
            raise _unequal(scope, node, left, right, one, other)
        renamed.update({old: label for old in (one, other) if old != label})
        outer.append(label)
    new_left, new_right = rename(left, renamed), rename(right, renamed)
    for shape in (new_left, new_right):
        if len(set(shape.labels)) != len(shape.labels):
            hint = "name the dimensions that differ"
            raise scope.fail(f"{scope.show_axes(shape.axes)} would hold one label twice", node.position, hint)
    return _Paired(new_left, new_right, inner, tuple(outer), numeric)


def _may_pair(one: str, other: str, names: set[str]) -> bool:
    """Say whether two labels at matching positions pair by position: a number, and nothing paired by name."""
    return (is_unnamed(one) or is_unnamed(other)) and one not in names and other not in names


def _unequal(scope: Scope, node: BinaryNode, left: Shape, right: Shape, one: str, other: str) -> NotationError:
    sizes = [scope.sizes.get(label) for label in (one, other)]
    shown = f"{scope.show_axes(left.axes)} {node.symbol} {scope.show_axes(right.axes)}"
    text = [scope.show_label(label) + ("" if size is None or is_unnamed(label) else f" = {size}")
            for label, size in zip((one, other), sizes, strict=True)]  # fmt: skip
    hint = "numbers pair as in numpy.matmul: [M, K] * [K, N]; name the dimensions to contract others"
    place = scope.place(right, other, node.right.span)
    return scope.fail(f"{shown}: {text[0]} and {text[1]} differ", place, hint)


def _result(scope: Scope, node: BinaryNode, paired: _Paired, wanted: Wanted) -> _Product:
    """Find the axes of the result, the contracted labels, and labels that the written result renames."""
    if wanted.output and wanted.dims is not None:
        return _written_result(scope, node, paired, wanted.output, wanted)
    contracted = _named(scope, node, paired) if node.over is not None else (_only_shared(scope, node, paired),)
    return _kept(scope, paired, contracted), contracted, {}


def _named(scope: Scope, node: BinaryNode, paired: _Paired) -> tuple[str, ...]:
    """Check the labels of ``·_{D,E}`` against both operands."""
    shared = [label for label in paired.left.labels if label in paired.right.labels]
    found: list[str] = []
    for label in one_by_one(node.over or (), shared):
        if label not in shared:
            message = f"{label} is to be contracted but does not stand in both operands"
            raise scope.fail(message, node.position, f"both have: {', '.join(shared) or 'nothing'}")
        if label in found:
            raise scope.fail(f"{label} is to be contracted twice", node.position)
        found.append(label)
    return tuple(found)


def _only_shared(scope: Scope, node: BinaryNode, paired: _Paired) -> str:
    shared = [label for label in paired.left.labels if label in paired.right.labels and label not in paired.outer]
    if len(shared) == 1:
        return shared[0]
    shapes = f"{scope.show_axes(paired.left.axes)} {node.symbol} {scope.show_axes(paired.right.axes)}"
    if not shared:
        alike = next(filter(None, (look_alike(label, paired.right.labels) for label in paired.left.labels)), "")
        hint = alike or "rename the dimension to be contracted, or write the result: -> …"
        raise scope.fail(f"{shapes} share no dimension", node.position, hint)
    names = [scope.show_label(label) for label in shared]
    first = names[-1]
    hint = f"write the result (-> …) or name what is contracted (·_{first})"
    last, labels = paired.right.labels[-1], {*paired.left.labels, *paired.right.labels}
    if len(shared) == 2 and paired.left.labels[0] == last:  # a square: [N, K] * [K, N]
        other = next(letter for letter in "MPQRST" if letter not in labels)
        hint += f"; for a square result give the last {last} a name of its own and tie the two, {other}={last}"
    raise scope.fail(f"{shapes} share {in_a_row(names)}, so what is contracted must be said", node.position, hint)


def _kept(scope: Scope, paired: _Paired, contracted: Sequence[str]) -> tuple[TensorDim, ...]:
    """The result where none is written: the remaining axes of the left operand, then those of the right one."""
    left = [axis for axis in paired.left.axes if axis.label not in contracted]
    right = [axis for axis in paired.right.axes if axis.label not in contracted]
    if paired.numeric:
        return tuple(_matmul_order(scope, paired, left, right))
    own = {axis.label for axis in left}
    return (*left, *(axis for axis in right if axis.label not in own))


def _matmul_order(scope: Scope, paired: _Paired, left: list[TensorDim], right: list[TensorDim]) -> list[TensorDim]:
    """The axes as numpy.matmul orders them: batch (broadcast from the right), rows, columns."""
    rows = left[-1:] if len(paired.left.axes) > 1 else []
    columns = right[-1:] if len(paired.right.axes) > 1 else []
    first, second = left[: len(left) - len(rows)], right[: len(right) - len(columns)]
    large, small = (first, second) if len(first) >= len(second) else (second, first)
    batch = list(large)
    for back in range(1, len(small) + 1):
        if scope.is_one(batch[-back].label):
            batch[-back] = small[-back]
    return [*batch, *rows, *columns]


def _written_result(scope: Scope, node: BinaryNode, paired: _Paired, output: TensorNode, wanted: Wanted) -> _Product:
    dims = output.dims or ()
    if any(dim.name is None for dim in dims) or paired.numeric:
        return _numeric_result(scope, node, paired, output, wanted)
    axes = tuple(TensorDim(dim.name or "", dim.axes) for dim in dims)
    return axes, _check_labels(scope, node, paired, axes, output), {}


def _numeric_result(scope: Scope, node: BinaryNode, paired: _Paired, output: TensorNode, wanted: Wanted) -> _Product:
    """A written result with numbers: position by position where the default rule applies, else by size."""
    dims = output.dims or ()
    shared = [label for label in paired.left.labels if label in paired.right.labels]
    inner = [label for label in shared if label not in paired.outer]
    every = {*paired.left.labels, *paired.right.labels}
    if node.over is None and len(inner) == len(every) and [dim.size for dim in dims] == [1]:
        return (), tuple(inner), {}
    contracted = _named(scope, node, paired) if node.over is not None else tuple(inner) if len(inner) == 1 else None
    if contracted is not None and not any(dim.name in contracted for dim in dims):
        given = _kept(scope, paired, contracted)
        if not given and [dim.size for dim in dims] == [1]:
            return (), contracted, {}
        ordered = None if paired.numeric else reordered(scope, given, dims)
        if ordered is not None:
            return ordered, contracted, {}
        if paired.numeric or len(given) == len(dims):
            axes, renamed = match(scope, given, wanted, "the product")
            return axes, contracted, renamed
    axes = _by_size(scope, paired, output)
    return axes, _check_labels(scope, node, paired, axes, output), {}


def _by_size(scope: Scope, paired: _Paired, output: TensorNode) -> tuple[TensorDim, ...]:
    """Give each number of the result to the first unused number of that size in the operands."""
    free = dict.fromkeys(label for label in (*paired.left.labels, *paired.right.labels) if label != paired.inner)
    for dim in output.dims or ():
        free.pop(dim.name or "", None)
    axes: list[TensorDim] = []
    for dim in output.dims or ():
        label = dim.name
        if label is None:
            label = next((item for item in free if scope.sizes.get(item) == dim.size), None)
            if label is None:
                hint = "the numbers of a result are sizes of its operands"
                raise scope.fail(f"no dimension of size {dim.size} is left for the result", dim.span, hint)
            free.pop(label)
        axes.append(TensorDim(label, dim.axes))
    return tuple(axes)


def _check_labels(
    scope: Scope, node: BinaryNode, paired: _Paired, axes: Sequence[TensorDim], output: TensorNode
) -> tuple[str, ...]:
    """Check every label of a written result; return the contracted ones."""
    left, right = paired.left, paired.right
    written = [axis.label for axis in axes]
    for position, (label, dim) in enumerate(zip(written, output.dims or (), strict=True)):
        if label in written[:position]:
            raise scope.fail(f"{label} stands twice in the result", dim.span)
        if label not in left.labels and label not in right.labels:
            operands = f"{scope.show_axes(left.axes)} and {scope.show_axes(right.axes)}"
            raise scope.fail(f"{label} stands in the result and in no operand", dim.span, f"they are {operands}")
    for shape, other in ((left, right), (right, left)):
        for label in shape.labels:
            if label not in written and label not in other.labels and not scope.is_one(label):
                shown = scope.show_label(label)
                place = scope.place(shape, label, node.right.span if shape is right else node.left.span)
                hint = f"add {shown} to the result, or sum over it first: sum_{shown}(…)"
                if is_unnamed(label):
                    hint = "numbers pair as in numpy.matmul: [M, K] * [K, N]; name the dimensions to contract others"
                raise scope.fail(f"{shown} stands in one operand and nowhere else", place, hint)
    contracted = tuple(label for label in left.labels if label in right.labels and label not in written)
    if node.over is not None:
        named = _named(scope, node, paired)
        for label in named:
            if label in written:
                raise scope.fail(f"{label} is contracted by ·_{label} and stands in the result", output.span)
        for label in contracted:
            if label not in named:
                hint = f"write ·_{{{','.join((*named, label))}}}, or add {label} to the result"
                raise scope.fail(f"{label} is not in the result and not in ·_{{…}}", node.position, hint)
        return named
    return contracted


@takes()
def resolve(node: ProgramNode, compute: str | None = None) -> Program:
    """Resolve a parsed text; ``compute`` is the arithmetic dtype of every operation, where it is to be chosen.

    Raises :class:`~roofline.errors.NotationError`, pointing at the place, for whatever breaks a rule of the notation.
    """
    scope = Scope(node.text, None if compute is None else dtypes.arithmetic_name(compute))
    labels, axes = _namespace(scope, node)
    previous: Shape | None = None
    for statement in node.statements:
        if isinstance(statement.value, TensorNode):
            _declaration(scope, statement, statement.value)
        else:
            previous = _statement(scope, statement, previous)
    for name, unused in scope.declared.items():
        raise scope.fail(f"{name} is declared and stands in no operation", unused.span, "use it or leave it out")
    sizes = dict(scope.sizes)
    free = [label for label in labels if label not in sizes and label not in scope.derived]
    steps = tuple(step._replace(text=step_text(step, sizes)) for step in scope.steps)
    clauses = (node.mesh, node.on, node.over)
    return Program(steps, Frozen(sizes), tuple(free), node.text, tuple(axes), *clauses, scope.all_assumptions())


def _namespace(scope: Scope, node: ProgramNode) -> tuple[list[str], list[str]]:
    """List sizes and mesh axes in order of appearance; no name is both."""
    labels: dict[str, Span] = {}
    axes: dict[str, Span] = {}
    for statement in node.statements:
        for tensor in (*_tensors(statement.value), *([statement.output] if statement.output else [])):
            for dim in tensor.dims or ():
                if dim.name:
                    labels.setdefault(dim.name, dim.span)
                for axis in dim.axes:
                    axes.setdefault(axis, dim.span)
            for axis in tensor.unreduced:
                axes.setdefault(axis, tensor.span)
    for call in (call for statement in node.statements for call in nodes_in(statement.value)):
        if isinstance(call, CallNode) and FUNCTIONS[call.function].suffix == "axes":
            for axis in call.over:
                if axis not in labels:
                    axes.setdefault(axis, call.span)
    for axis, size in node.mesh.items():
        axes.setdefault(axis, Span(0, 0))
        if isinstance(size, str):
            labels.setdefault(size, Span(0, 0))
    for name in labels:
        if name in axes:
            place = max(labels[name], axes[name], key=lambda span: span.start)
            raise scope.fail(f"{name} is a size and a mesh axis", place, "give one of them another name")
    return list(labels), list(axes)


def _tensors(node: Node) -> list[TensorNode]:
    return [found for found in nodes_in(node) if isinstance(found, TensorNode)]


def _statement(scope: Scope, statement: StatementNode, previous: Shape | None) -> Shape:
    value, output = statement.value, statement.output
    written = output.name if output else None
    name = statement.target or written
    again = isinstance(value, CallNode) and FUNCTIONS[value.function].suffix == "axes"
    for taken in {statement.target, written} - {None}:
        declared = any(taken == leaf.name and leaf.dims is not None for leaf in _tensors(value))
        if declared or taken in scope.names or taken in scope.declared:
            if not (again and taken == written):
                raise scope.fail(f"'{taken}' is assigned already", statement.span, "a name is assigned once")
            name = statement.target
    result = _operation(scope, value, Wanted(name, output), previous)
    for given in (statement.target, written):
        if given:
            scope.names[given] = result
    return result


def _declaration(scope: Scope, statement: StatementNode, value: TensorNode) -> None:
    """A statement that is a tensor only: it declares an input, gives a tensor one more name, or says that it leaves."""
    if statement.output:
        hint = "a copy or a change of dtype is written copy(x) -> … or cast(x) -> …"
        raise scope.fail("a tensor alone gives no result", statement.output.span, hint)
    name = statement.target or value.name
    if statement.target is None and scope.leave(value):
        return
    if name is None or (value.dims is None and statement.target is None):
        hint = "an example: bf16[B, D] * bf16[D, F] -> bf16[B, F]; an input is declared with a name, W:int8[D, F]"
        if value.name in scope.names:
            hint = f"{value.name} comes from outside: only what an operation made can leave"
        raise scope.fail("a tensor alone is no operation", statement.span, hint)
    scope.unassigned(name, statement.span)
    if value.dims is None:
        scope.names[name] = scope.tensor(value)
    elif statement.target and value.name and statement.target != value.name:
        raise scope.fail(f"this tensor has two names, {name} and {value.name}", value.span)
    else:
        scope.declared[name] = value._replace(name=name)


def _operation(scope: Scope, node: Node, wanted: Wanted, previous: Shape | None) -> Shape:
    """Make the steps of an operation: operands that are operations first, then tensors, then the step itself."""
    if isinstance(node, BinaryNode):
        operands = _operands(scope, (node.left, node.right), (), previous)
        rule = contract if node.operator == "contract" else _by_elements
        return rule(scope, node, operands, wanted)
    if isinstance(node, TensorNode):
        return scope.tensor(node)
    if not node.arguments:
        if previous is None:
            hint = f"as in {node.function}_X(bf16[B, D])"
            raise scope.fail(f"{node.function} has no operand and nothing before it", node.span, hint)
        return resolve_call(scope, node, [previous], wanted)
    check_words(scope, node)
    defaults = OPERAND_DTYPES.get(node.function, ())
    inside = NOTHING if FUNCTIONS[node.function].suffix == "axes" else INSIDE
    operands = _operands(scope, node.arguments, defaults, previous, inside)
    return resolve_call(scope, node, operands, wanted)


def _operands(
    scope: Scope, nodes: tuple[Node, ...], defaults: tuple[str, ...], previous: Shape | None, inside: Wanted = INSIDE
) -> list[Shape]:
    found: dict[int, Shape] = {}
    for position, node in enumerate(nodes):
        if not isinstance(node, TensorNode):
            found[position] = _operation(scope, node, inside, previous)
    for position, node in enumerate(nodes):
        if isinstance(node, TensorNode):
            default = defaults[position] if position < len(defaults) else DEFAULT_DTYPE
            found[position] = scope.tensor(node, default)
    return [found[position] for position in range(len(nodes))]
