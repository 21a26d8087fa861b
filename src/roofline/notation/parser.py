"""Tokens to structure: what is written, nothing decided yet.

::

    program     statement (";" statement)* clause*
    statement   [name "="] expression ["->" output]
    expression  product (("+" | "-" | "/") product)*
    product     operand (("*" | "@" | "." | "·" | …)["_" dims] operand)*
    operand     tensor | call | "(" expression ")"
    clause      "mesh" axis "=" number … | "on" target | "over" level

>>> parse("bf16[B, D] * int8[D, F] -> bf16[B, F]").statements[0].value.operator
'contract'
>>> parse("A[I, J] · B[J, K] + C[I, K]").statements[0].value.operator       # a product binds tighter
'add'
>>> parse("AllGather_X(bf16[B_X, D]) mesh X=4").mesh["X"]
4

Raises :class:`~roofline.errors.NotationError`, which shows the line and a caret, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache

from roofline import dtypes
from roofline.errors import NotationError
from roofline.frozen import Frozen
from roofline.notation import parse_operands as operands
from roofline.notation.structure import BinaryNode, Node, ProgramNode, StatementNode, TensorNode
from roofline.notation.tokens import LABELS, Cursor
from roofline.signatures import takes

_SUMS = ("add", "subtract", "divide")


@takes()
def parse(text: str) -> ProgramNode:
    """Read a text of the notation.

    >>> [dim.name for dim in parse("bf16[B_X, d_ff]").statements[0].value.dims]
    ['B', 'd_ff']
    >>> parse("bf16[B, D")
    Traceback (most recent call last):
    roofline.errors.NotationError: expected ',' or ']', found the end of the text
      bf16[B, D
               ^
    """
    if not isinstance(text, str):
        raise NotationError(f"an expression is text, not {type(text).__name__}")
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> ProgramNode:
    cursor = Cursor(text)
    statements: list[StatementNode] = []
    clauses = _Clauses()
    _skip_separators(cursor)
    while cursor.token.kind != "end":
        if not clauses.read(cursor):
            if clauses.found:
                raise cursor.expected(f"nothing after '{clauses.found}', which closes the text")
            statements.append(_statement(cursor))
            clauses.read(cursor)
        if cursor.token.kind not in (";", "newline", "end"):
            raise _unexpected(cursor)
        _skip_separators(cursor)
    if not statements:
        raise cursor.fail("there is nothing to read", at=0, hint="an example: bf16[B, D] * int8[D, F] -> bf16[B, F]")
    return ProgramNode(tuple(statements), text, Frozen(clauses.mesh), clauses.on, clauses.over)


def _skip_separators(cursor: Cursor) -> None:
    while cursor.token.kind in (";", "newline"):
        cursor.advance()


def _statement(cursor: Cursor) -> StatementNode:
    start = cursor.token.start
    cursor.operators = 0
    target = None
    if cursor.token.kind == "name" and cursor.peek().kind == "=":
        target = cursor.advance().text
        cursor.advance()
        cursor.skip_newlines()
        if dtypes.is_dtype(target):
            raise cursor.fail(f"'{target}' is a dtype, not a name", at=start)
    value = expression(cursor)
    if cursor.token.kind in (",", ":") and isinstance(value, BinaryNode):
        value = _typed_afterwards(cursor, value)
    _continue_line(cursor)
    written = None
    if cursor.accept("->"):
        cursor.skip_newlines()
        written = operands.read_result(cursor)
    return StatementNode(value, target, written, cursor.span_from(start))


def _continue_line(cursor: Cursor) -> None:
    """Let a line that begins with ``->`` go on with the statement before it."""
    ahead = 0
    while cursor.peek(ahead).kind == "newline":
        ahead += 1
    if ahead and cursor.peek(ahead).kind == "->":
        cursor.skip_newlines()


def expression(cursor: Cursor) -> Node:
    """Read sums of products."""
    return _joined(cursor, _SUMS, lambda inner: _joined(inner, ("contract",), _operand))


def _joined(cursor: Cursor, operators: Collection[str], operand: Callable[[Cursor], Node]) -> Node:
    """Read operands with operators of one strength between them, from the left on."""
    left = operand(cursor)
    while cursor.token.kind in operators:
        cursor.count_operator()
        symbol = cursor.advance()
        cursor.skip_newlines()
        right = operand(cursor)
        span = cursor.span_from(left.span.start)
        left = BinaryNode(symbol.kind, left, right, symbol.over, symbol.text[0], span, symbol.start)
    return left


def _operand(cursor: Cursor) -> Node:
    token = cursor.token
    if token.kind == "(":
        cursor.descend()
        cursor.advance()
        if cursor.token.kind in ("name", "number") and cursor.peek().kind == ",":
            raise cursor.fail("round brackets hold an expression", at=token.start, hint=operands.MATMUL)
        inside = expression(cursor)
        cursor.expect(")", "')'")
        cursor.ascend()
        start = cursor.token.start
        if operands.read_unreduced(cursor):
            raise cursor.fail("{U_X} stands after a tensor or a result, not after brackets", at=start)
        return inside
    if token.kind == "[":
        return operands.read_tensor(cursor)
    if token.kind == "name":
        return operands.read_call(cursor, expression) if operands.begins_call(cursor) else operands.read_tensor(cursor)
    if token.kind == "number":
        hint = "a scalar is written bf16[]; a size stands inside brackets"
        if re.match(r"\d+\s*[x×*]\s*\d+", cursor.text[token.start :]):
            hint = operands.MATMUL
        raise cursor.fail(f"the number {token.text[:32]} is not an operand", at=token.start, hint=hint)
    raise cursor.expected("a tensor such as bf16[B, D], a name or a function")


def _typed_afterwards(cursor: Cursor, value: BinaryNode) -> Node:
    """Read ``x • y: bf16[N], bf16[N]``: the operands first, their types behind a colon."""
    names = _leaves(value)
    if not all(isinstance(leaf, TensorNode) and leaf.name for leaf in names) or cursor.token.kind == ":":
        raise _unexpected(cursor)
    *bare, last = [leaf for leaf in names if isinstance(leaf, TensorNode)]
    if last.dims is None or any(leaf.dims is not None for leaf in bare):
        raise _unexpected(cursor)
    types = [last]
    while cursor.accept(","):
        types.append(operands.read_tensor(cursor))
    if len(types) != len(names):
        at = types[-1].span.start
        raise cursor.fail(f"{len(names)} operands and {len(types)} types", at=at, hint="one type for each operand")
    typed = [
        leaf._replace(dtype=kind.dtype, dims=kind.dims, unreduced=kind.unreduced, span=kind.span)
        for leaf, kind in zip([*bare, last], types, strict=True)
    ]
    return _with_leaves(value, typed)


def _leaves(node: Node) -> list[Node]:
    if isinstance(node, BinaryNode):
        return _leaves(node.left) + _leaves(node.right)
    return [node]


def _with_leaves(node: Node, leaves: list[TensorNode]) -> Node:
    if isinstance(node, BinaryNode):
        left = _with_leaves(node.left, leaves)
        return node._replace(left=left, right=_with_leaves(node.right, leaves))
    return leaves.pop(0)


def _unexpected(cursor: Cursor) -> NotationError:
    token = cursor.token
    hint = ""
    if token.kind == "=":
        hint = "the result follows ->; a name is given before the expression, as in h = bf16[B, D] * bf16[D, F]"
    elif token.kind in ("]", ")", "}"):
        hint = f"nothing is open that '{token.text}' could close"
    elif token.kind == ",":
        hint = LABELS
    elif token.text in ("x", "X"):
        hint = "a product is written with * or ×"
    elif token.kind in ("name", "["):
        hint = "statements are separated by ; or a line break"
    return cursor.expected("an operator, '->', ';' or the end", hint=hint)


class _Clauses:
    """What may close the text, each once: ``mesh X=2,Y=4``, ``on v5e:4x4``, ``over vmem``."""

    def __init__(self) -> None:
        self.mesh: dict[str, int | str] = {}
        self.on: str | None = None
        self.over: str | None = None
        self.found = ""

    def read(self, cursor: Cursor) -> bool:
        """Read the clauses that stand here; say whether there was one."""
        before = cursor.index
        while operands.is_clause(cursor):
            word = cursor.advance()
            given = {"mesh": bool(self.mesh), "on": self.on is not None, "over": self.over is not None}
            if given[word.text]:
                raise cursor.fail(f"'{word.text}' is given twice", at=word.start)
            self.found = word.text
            if word.text == "mesh":
                self._read_mesh(cursor)
            elif word.text == "on":
                self.on = cursor.advance().text
            else:
                self.over = cursor.advance().text
        return cursor.index > before

    def _read_mesh(self, cursor: Cursor) -> None:
        while True:
            axis = cursor.expect("name", "the name of a mesh axis, as in mesh X=2,Y=4")
            cursor.expect("=", f"'=' and the size of axis {axis.text}")
            size = cursor.token
            if size.kind not in ("number", "name"):
                raise cursor.expected(f"the size of axis {axis.text}")
            cursor.advance()
            if axis.text in self.mesh:
                raise cursor.fail(f"axis {axis.text} is given twice", at=axis.start)
            self.mesh[axis.text] = size.text if size.kind == "name" else operands.read_whole_number(cursor, size)
            if self.mesh[axis.text] == 0:
                raise cursor.fail(f"axis {axis.text} has size 0", at=size.start, hint="an axis has at least 1 chip")
            if not cursor.accept(",") and not (cursor.token.kind == "name" and cursor.peek().kind == "="):
                return
