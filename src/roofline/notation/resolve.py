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
"""

from __future__ import annotations

from roofline import dtypes
from roofline.frozen import Frozen
from roofline.notation.calls import OPERAND_DTYPES, check_words, resolve_call
from roofline.notation.canonical import step_text
from roofline.notation.contraction import contract
from roofline.notation.functions import FUNCTIONS
from roofline.notation.result import broadcast
from roofline.notation.scope import DEFAULT_DTYPE, INSIDE, NOTHING, Scope, Wanted
from roofline.notation.structure import (
    BinaryNode,
    CallNode,
    Node,
    Program,
    ProgramNode,
    Shape,
    Span,
    StatementNode,
    TensorNode,
)

_NAMES = {"add": "the sum", "subtract": "the difference", "divide": "the quotient"}


def resolve(node: ProgramNode, compute: str | None = None) -> Program:
    """Resolve a parsed text; ``compute`` is the arithmetic dtype of every operation, where it is to be chosen.

    Raises :class:`~roofline.errors.NotationError`, pointing at the place, for whatever breaks a rule of the notation.
    """
    scope = Scope(node.text, _compute(compute))
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
    return Program(
        steps,
        Frozen(sizes),
        tuple(free),
        node.text,
        tuple(axes),
        node.mesh,
        node.on,
        node.over,
        scope.all_assumptions(),
    )


def _compute(compute: str | None) -> str | None:
    return None if compute is None else dtypes.arithmetic_name(compute)


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
    for call in (call for statement in node.statements for call in _calls(statement.value)):
        if FUNCTIONS[call.function].suffix == "axes":
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
    if isinstance(node, TensorNode):
        return [node]
    if isinstance(node, BinaryNode):
        return _tensors(node.left) + _tensors(node.right)
    return [tensor for argument in node.arguments for tensor in _tensors(argument)]


def _calls(node: Node) -> list[CallNode]:
    if isinstance(node, TensorNode):
        return []
    if isinstance(node, BinaryNode):
        return _calls(node.left) + _calls(node.right)
    return [node, *(call for argument in node.arguments for call in _calls(argument))]


def _statement(scope: Scope, statement: StatementNode, previous: Shape | None) -> Shape:
    value, output = statement.value, statement.output
    written = output.name if output else None
    name = statement.target or written
    again = isinstance(value, CallNode) and FUNCTIONS[value.function].suffix == "axes"
    for taken in {statement.target, written} - {None}:
        if taken in scope.names or taken in scope.declared or any(taken == leaf.name for leaf in _tensors(value)):
            if not (again and taken == written):
                raise scope.fail(f"'{taken}' is assigned already", statement.span, "a name is assigned once")
            name = statement.target
    result = _operation(scope, value, Wanted(name, output), previous)
    for given in (statement.target, written):
        if given:
            scope.names[given] = result
    return result


def _declaration(scope: Scope, statement: StatementNode, value: TensorNode) -> None:
    """A statement that is a tensor only: it declares an input, or gives a tensor one more name."""
    if statement.output:
        hint = "a copy or a change of dtype is written copy(x) -> … or cast(x) -> …"
        raise scope.fail("a tensor alone gives no result", statement.output.span, hint)
    name = statement.target or value.name
    if name is None or (value.dims is None and statement.target is None):
        hint = "an example: bf16[B, D] * bf16[D, F] -> bf16[B, F]; an input is declared with a name, W:int8[D, F]"
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
        if node.operator == "contract":
            return contract(scope, node, operands[0], operands[1], wanted)
        return _arithmetic(scope, node, operands, wanted)
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
    scope: Scope,
    nodes: tuple[Node, ...],
    defaults: tuple[str, ...],
    previous: Shape | None,
    inside: Wanted = INSIDE,
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


def _arithmetic(scope: Scope, node: BinaryNode, operands: list[Shape], wanted: Wanted) -> Shape:
    shapes, axes = broadcast(scope, operands, wanted, node.position, _NAMES[node.operator])
    same = operands[0].unreduced == operands[1].unreduced and node.operator != "divide"
    compute, storage = scope.dtypes(shapes, node.position)
    return scope.add(
        "elementwise",
        node.operator,
        shapes,
        axes,
        dtype=storage,
        compute=compute,
        span=node.span,
        wanted=wanted,
        unreduced=operands[0].unreduced if same else (),
    )
