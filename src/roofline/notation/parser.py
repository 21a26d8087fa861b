"""Tokens to structure: what is written, nothing decided yet.

::

    program     statement (";" statement)* clause*
    statement   [name "="] expression ["->" output]
    expression  product (("+" | "-" | "/") product)*
    product     operand (("*" | "@" | "." | "·" | …)["_" dims] operand)*
    operand     tensor | call | "(" expression ")"
    clause      "mesh" axis "=" number … | "on" target | "over" level

Operands as written: tensors and calls.

::

    tensor      bf16[B_X, 4096]   A[I, J]   x:int8[B] {U_X}   h
    call        softmax_T(x)   conv(x, w, stride=2, same)   AllGather_{data}(x)   AllReduce_X

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
from typing import Any

from roofline import dtypes
from roofline.errors import NotationError, did_you_mean, suggest
from roofline.frozen import Frozen
from roofline.notation.calls import FUNCTIONS, Function, longest_match, misspelt_flag
from roofline.notation.structure import (
    BinaryNode,
    CallNode,
    Dim,
    MemoryLayout,
    Node,
    ProgramNode,
    Span,
    StatementNode,
    TensorNode,
)
from roofline.notation.tokens import LABELS, Cursor, Token, describe
from roofline.signatures import takes
from roofline.sizes import LARGEST

_SHARDED = r"(\w*[^\W_])_([A-Z]+)"
_AXES = r"[A-Z]+"
_MOST_DIMS = 32
_TIMES = r"(?:x[0-9]+)+"
_NUMBER_LISTS = frozenset(("stride", "pad", "dilation", "output_pad", "window"))
_COUNTS = {"stride": "steps", "dilation": "steps", "pad": "elements", "output_pad": "elements", "window": "elements"}
_MAY_BE_ZERO = frozenset(("pad", "output_pad"))
_MOST_ARGUMENTS = 8
_LONGEST_NUMBER = 30


def read_tensor(cursor: Cursor) -> TensorNode:
    """Read one tensor or one bare name; the next token is a name or ``[``."""
    start = cursor.token.start
    if cursor.token.kind == "[":
        return _with_dims(cursor, None, None, start)
    word = cursor.advance()
    if cursor.token.kind == "[":
        return _dtype_or_name(cursor, word)
    if cursor.token.kind == ":" and cursor.peek().kind == "name":
        cursor.advance()
        return _typed(cursor, word)
    if dtypes.is_dtype(word.text):
        hint = f"as in {word.text}[B, D]"
        if cursor.token.kind == "name" and cursor.peek().kind == "[":
            hint = f"a name stands before its format: {cursor.token.text}:{word.text}[…]"
        raise cursor.expected(f"'[' after the dtype {word.text}", hint=hint)
    return TensorNode(word.text, None, None, read_unreduced(cursor), cursor.span_from(start))


def read_result(cursor: Cursor) -> TensorNode:
    """Read what stands after ``->``: a tensor with dims, or a dtype alone."""
    word = cursor.token
    if word.kind == "name" and dtypes.is_dtype(word.text) and cursor.peek().kind != "[":
        cursor.advance()
        return TensorNode(None, dtypes.get(word.text).name, None, read_unreduced(cursor), cursor.span_from(word.start))
    if word.kind not in ("name", "["):
        raise cursor.expected("the result after '->', such as bf16[B, F]")
    found = read_tensor(cursor)
    if found.dims is None:
        raise cursor.expected("'[' after the result's name", hint=f"as in {word.text}[B, F]")
    return found


def read_unreduced(cursor: Cursor) -> tuple[str, ...]:
    """Read ``{U_X}`` where it stands: the mesh axes a tensor is a partial sum over."""
    token = cursor.token
    if token.kind != "{" or cursor.peek().kind != "name":
        return ()
    word = cursor.peek()
    if word.text != "U" and not word.text.startswith("U_"):
        raise cursor.fail("expected {U_X}, partial sums over the mesh axis X", at=word.start)
    cursor.advance()
    cursor.advance()
    axes: tuple[str, ...]
    if word.text == "U_" and cursor.token.kind == "{":
        axes = read_axis_list(cursor)
    elif re.fullmatch(_AXES, word.text[2:]):
        axes = tuple(word.text[2:])
    elif word.text[2:].isidentifier():
        axes = (word.text[2:],)
    else:
        raise cursor.fail("expected {U_X}, partial sums over the mesh axis X", at=word.start)
    cursor.expect("}", "'}' after the axes of partial sums")
    return axes


def read_axis_list(cursor: Cursor) -> tuple[str, ...]:
    """Read ``{data,model}``, or ``{XY}`` as LaTeX has it."""
    cursor.expect("{", "'{'")
    axes = [*_axes(cursor)]
    while cursor.accept(","):
        axes += _axes(cursor)
    cursor.expect("}", "',' or '}' in a list of mesh axes")
    return tuple(axes)


def _axes(cursor: Cursor) -> tuple[str, ...]:
    """Read the name of one mesh axis in braces, or the letters of several: LaTeX writes X and Y as ``{XY}``."""
    word = cursor.expect("name", "the name of a mesh axis").text
    return tuple(word) if set(word) <= set("XYZ") else (word,)


def _dtype_or_name(cursor: Cursor, word: Token) -> TensorNode:
    if dtypes.is_dtype(word.text):
        return _with_dims(cursor, None, dtypes.get(word.text).name, word.start)
    slip, hint = dtypes.looks_like_dtype(word.text), dtypes.two_formats(word.text)
    if slip or hint:
        raise cursor.fail(f"unknown dtype '{word.text}'", at=word.start, hint=hint or f"did you mean '{slip}'?")
    return _with_dims(cursor, word.text, None, word.start)


def _typed(cursor: Cursor, name: Token) -> TensorNode:
    word = cursor.advance()
    if not dtypes.is_dtype(word.text):
        hint = dtypes.two_formats(word.text) or suggest(word.text, dtypes.names(), what="dtypes")
        raise cursor.fail(f"unknown dtype '{word.text}'", at=word.start, hint=hint)
    if cursor.token.kind != "[":
        raise cursor.expected(f"'[' after the dtype {word.text}", hint=f"as in {word.text}[B, D]")
    if dtypes.is_dtype(name.text):
        raise cursor.fail(f"'{name.text}' is a dtype, not a name", at=name.start)
    return _with_dims(cursor, name.text, dtypes.get(word.text).name, name.start)


def _with_dims(cursor: Cursor, name: str | None, dtype: str | None, start: int) -> TensorNode:
    cursor.expect("[", "'['")
    dims: list[Dim] = []
    if cursor.token.kind != "]":
        dims.append(_dim(cursor))
        while cursor.accept(","):
            dims.append(_dim(cursor))
            if len(dims) > _MOST_DIMS:
                raise cursor.fail(f"more than {_MOST_DIMS} dimensions", at=dims[-1].span.start)
    if cursor.token.kind != "]":
        raise _after_dim(cursor, dims)
    cursor.advance()
    layout = _read_layout(cursor, len(dims))
    partial = read_unreduced(cursor)
    node = TensorNode(name, dtype, tuple(dims), partial, cursor.span_from(start), layout)
    _check_axes_once(cursor, node)
    return node


def _dim(cursor: Cursor) -> Dim:
    word = cursor.token
    if word.kind == "number":
        cursor.advance()
        return _numeric_dim(cursor, word)
    if word.kind != "name" or word.text[0] == "%":
        hint = "an array has its sizes there, not slices: bf16[B, D]" if word.kind == ":" else ""
        raise cursor.expected("a dimension: a name or a number", hint=hint)
    if word.text[0] == "_":
        raise cursor.fail("the name of a dimension begins with a letter", at=word.start)
    cursor.advance()
    if word.text.endswith("_") and cursor.token.kind == "{" and len(word.text) > 1:
        axes = read_axis_list(cursor)
        return _sharded_dim(cursor, word, word.text[:-1], axes)
    sharded = re.fullmatch(_SHARDED, word.text) if "_" in word.text else None
    if sharded:
        return _sharded_dim(cursor, word, sharded.group(1), tuple(sharded.group(2)))
    return Dim(word.text, None, (), Span(word.start, word.end))


def _sharded_dim(cursor: Cursor, word: Token, name: str, axes: tuple[str, ...]) -> Dim:
    already = re.fullmatch(_SHARDED, name)
    if already:
        letters = all(len(axis) == 1 for axis in axes)
        both = (*already.group(2), *axes)
        together = "".join(both) if letters else f"{{{','.join(both)}}}"
        hint = f"several mesh axes are written together: {already.group(1)}_{together}"
        raise cursor.fail(f"'{name}' is sharded already", at=word.start, hint=hint)
    return Dim(name, None, axes, cursor.span_from(word.start))


def _numeric_dim(cursor: Cursor, word: Token) -> Dim:
    size = read_whole_number(cursor, word)
    if size == 0:
        raise cursor.fail("a size is at least 1, not 0", at=word.start, hint="a scalar is written bf16[]")
    axes: tuple[str, ...] = ()
    follows = cursor.token
    if follows.kind == "name" and cursor.touches():
        if follows.text == "_" and cursor.peek().kind == "{":
            cursor.advance()
            axes = read_axis_list(cursor)
        elif follows.text[0] == "_" and re.fullmatch(_AXES, follows.text[1:]):
            axes = tuple(cursor.advance().text[1:])
        else:
            wrong = word.text + follows.text
            hint = "write the number out, or give the dimension a name"
            if re.fullmatch(r"(?:[xX]\d+)+", follows.text):
                hint = f"dimensions are separated by commas: [{', '.join(re.split('[xX]', wrong))}]"
            raise cursor.fail(f"'{wrong}' is not a size", at=word.start, hint=hint)
    return Dim(None, size, axes, cursor.span_from(word.start))


def read_whole_number(
    cursor: Cursor, token: Token, rule: str = "a size is a whole number", name: str = "the size", what: str = "sizes"
) -> int:
    """Turn a number token into an int no larger than sizes may be; an error says the ``rule``, and what it is for."""
    text = token.text.replace("_", "")
    if len(text) <= 40:
        if text.isdigit():
            value = int(text)
        else:
            mantissa, _, exponent = text.lower().partition("e")
            whole, _, fraction = mantissa.partition(".")
            shift = (int(exponent) if exponent else 0) - len(fraction)
            if shift < 0 and int(fraction or "0") == 0:
                fraction, shift = "", int(exponent) if exponent else 0
            if shift < 0:
                raise cursor.fail(f"{rule}, not {token.text}", at=token.start)
            value = int(whole + fraction) * 10**shift if shift <= 40 else LARGEST + 1
        if value <= LARGEST:
            return value
    shown = token.text if len(token.text) <= 32 else f"a number of {len(token.text)} digits"
    raise cursor.fail(f"{name} is {shown}", at=token.start, hint=f"{what} go up to 1e30")


def _after_dim(cursor: Cursor, dims: list[Dim]) -> NotationError:
    token, last = cursor.token, dims[-1] if dims else None
    tensor_follows = "[" in (cursor.peek().kind, cursor.peek(2).kind)
    if last and token.kind in ("contract", "add", "subtract", "divide") and not tensor_follows:
        start = last.span.start
        end = cursor.peek().end if cursor.peek().kind in ("name", "number") else token.end
        product = cursor.text[start:end]
        free = next(c for c in "FGHKMNPQRSTUVWXYZ" if c not in {dim.name for dim in dims})
        hint = f"name it and give its size beside the line: {free}={product.replace(' ', '')}"
        if token.kind == "contract" and cursor.peek().kind == ("name" if last.name else "number"):
            hint = f"two are separated by a comma, [{cursor.text[start : token.start].strip()}, …]; of one, {hint}"
        return cursor.fail("a dimension is a name or a number, not an expression", at=token.start, hint=hint)
    if last and token.kind in ("name", "number"):
        return cursor.fail(f"expected ',' or ']' between dimensions, found {describe(token)}", at=token.start)
    return cursor.expected("',' or ']'")


def _read_layout(cursor: Cursor, rank: int) -> MemoryLayout | None:
    """Read the memory layout of a line of XLA: ``{2,1,0:T(8,128)(2,1)S(1)}``."""
    if cursor.token.kind != "{" or cursor.peek().kind not in ("number", "}"):
        return None
    start = cursor.advance().start
    order: list[int] = []
    while cursor.token.kind == "number":
        order.append(read_whole_number(cursor, cursor.advance(), "a layout lists dimensions by number"))
        if cursor.accept(",") is None:
            break
    if order and sorted(order) != list(range(rank)):
        every = ", ".join(map(str, reversed(range(rank))))
        hint = f"of {rank} dimensions each stands once, the minor one first, as in {{{every}}}"
        raise cursor.fail(f"a layout of dimensions {', '.join(map(str, order))}", at=start, hint=hint)
    tiles: list[tuple[int | None, ...]] = []
    space = None
    if cursor.accept(":"):
        while cursor.token.kind in ("name", "("):
            letter = cursor.advance().text if cursor.token.kind == "name" else "T"
            numbers = _in_parentheses(cursor, start, is_tile=letter == "T")
            if letter == "T":
                tiles.append(numbers)
            elif letter == "S":
                space = numbers[0]
    if cursor.token.kind != "}":
        raise cursor.fail("expected '}' at the end of a layout", at=start, hint="as in {1,0:T(8,128)}")
    cursor.advance()
    return MemoryLayout(tuple(order), tuple(tiles), space)


def _in_parentheses(cursor: Cursor, start: int, *, is_tile: bool) -> tuple[int | None, ...]:
    """Read ``(8,128)`` of a layout; ``*`` is None."""
    numbers: list[int | None] = []
    while cursor.token.kind in ("(", ",") and cursor.peek().kind in ("number", "contract"):
        cursor.advance()
        token = cursor.advance()
        joined = token.kind == "contract"
        numbers.append(None if joined else read_whole_number(cursor, token, "a tile is of whole numbers"))
    if cursor.accept(")") is None or not numbers or numbers[-1] is None or (is_tile and 0 in numbers):
        raise cursor.fail("expected a tile of a layout, as in T(8,128)", at=start)
    return tuple(numbers)


def _check_axes_once(cursor: Cursor, node: TensorNode) -> None:
    seen: set[str] = set()
    for dim in node.dims or ():
        for axis in dim.axes:
            if axis in seen:
                hint = "a mesh axis can shard one dimension of a tensor"
                raise cursor.fail(f"axis {axis} stands twice in one tensor", at=dim.span.start, hint=hint)
            seen.add(axis)
    for axis in node.unreduced:
        if axis in seen:
            message = f"axis {axis} both shards this tensor and is summed over in {{U_{axis}}}"
            raise cursor.fail(message, at=node.span.start)


def begins_call(cursor: Cursor) -> bool:
    """Say whether the next tokens are a function's name and its ``(``, or a collective standing before a tensor."""
    word, follows = cursor.token, _after_suffix(cursor)
    if word.kind != "name":
        return False
    if follows.kind == "(":
        return True
    found = longest_match(word.text.rstrip("_") if word.text.endswith("_") else word.text)
    if found is None or FUNCTIONS[found[0]].suffix != "axes":
        return False
    return bool(found[1]) or word.text.endswith("_")


def read_call(cursor: Cursor, expression: Callable[[Cursor], Node]) -> CallNode:
    """Read a call; ``expression`` reads one argument."""
    word = cursor.advance()
    function, over = _function(cursor, word)
    cursor.descend()
    arguments: tuple[Node, ...] = ()
    options: dict[str, Any] = {}
    places: dict[str, Span] = {}
    if cursor.token.kind == "(":
        arguments, options, places = _arguments(cursor, function, expression)
    elif cursor.token.kind in ("name", "[") and not is_clause(cursor):
        arguments = (read_call(cursor, expression) if begins_call(cursor) else read_tensor(cursor),)
    cursor.ascend()
    span = cursor.span_from(word.start)
    takes_previous = not arguments and function.suffix == "axes"
    if not takes_previous and not function.least <= len(arguments) <= function.most:
        raise _wrong_count(cursor, function, arguments, span)
    return CallNode(function.name, arguments, over, Frozen(options), span, Frozen(places))


def is_clause(cursor: Cursor) -> bool:
    """Whether what closes a text stands next: ``mesh X=2``, ``on v5e:4x4``, ``over vmem``."""
    return cursor.token.text in ("mesh", "on", "over") and cursor.peek().kind in ("name", "target")


def _after_suffix(cursor: Cursor) -> Token:
    """Look past ``name_{…}`` to the token that follows."""
    if not (cursor.token.text.endswith("_") and cursor.peek().kind == "{"):
        return cursor.peek()
    ahead = 2
    while cursor.peek(ahead).kind in ("name", ",", "->"):
        ahead += 1
    return cursor.peek(ahead + 1) if cursor.peek(ahead).kind == "}" else cursor.peek()


def _function(cursor: Cursor, word: Token) -> tuple[Function, tuple[str, ...]]:
    braces = word.text.endswith("_") and cursor.token.kind == "{"
    found = longest_match(word.text[:-1] if braces else word.text)
    if found is None or (braces and found[1]):
        raise _unknown(cursor, word)
    function = FUNCTIONS[found[0]]
    over: tuple[str, ...]
    if braces:
        over = _braced(cursor, function.suffix == "axes")
    elif function.suffix == "axes" and re.fullmatch(r"[A-Z]+", found[1]):
        over = tuple(found[1])
    else:
        over = (found[1],) if found[1] else ()
    if over and not function.suffix:
        raise cursor.fail(f"{function.name} takes nothing after '_'", at=word.start, hint=f"write {found[0]}(…)")
    if not over and function.suffix == "axes":
        hint = f"as in {function.name}_X(…) or {function.name}_{{X,Y}}(…)"
        raise cursor.fail(f"{function.name} needs the mesh axes it goes over", at=word.start, hint=hint)
    repeated = next((item for i, item in enumerate(over) if item in over[:i]), None)
    if repeated:
        raise cursor.fail(f"'{repeated}' stands twice after {function.name}_", at=word.start)
    return function, over


MATMUL = "a matmul is written with *, as in bf16[B, D] * bf16[D, F] -> bf16[B, F]"

_PRODUCT = "a product of elements names its result, as in bf16[B, D] * bf16[B, D] -> bf16[B, D]"

_PROGRAM = "write its operations, as in h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]"

#: Functions of other libraries that are written otherwise here.
_WRITTEN = {
    **dict.fromkeys(("matmul", "mm", "bmm", "gemm", "gemv", "linear", "dense", "dot", "einsum"), MATMUL),
    **dict.fromkeys(("mul", "multiply"), _PRODUCT),
    **dict.fromkeys(("mlp", "ffn"), _PROGRAM),
    "add": "a sum is written with +, as in bf16[B, D] + bf16[B, D]",
    "swish": "did you mean 'silu'?",
    **dict.fromkeys(("sort", "argsort"), "a sort reads and writes its data at least once, as copy(x) does"),
}


def _unknown(cursor: Cursor, word: Token) -> NotationError:
    name = word.text.rstrip("_")
    if dtypes.is_dtype(name):
        hint = f"dimensions stand in square brackets, as in {name}[B, D]"
        return cursor.fail(f"'{name}' is a dtype, not a function", at=word.start, hint=hint)
    if name.lower() in _WRITTEN:
        return cursor.fail(f"unknown function '{name}'", at=word.start, hint=_WRITTEN[name.lower()])
    stem, _, suffix = name.rpartition("_")
    near = did_you_mean(stem, FUNCTIONS) if stem and suffix.isupper() else None
    if near:
        hint = f"did you mean '{near}_{suffix}'?" if FUNCTIONS[near].suffix else f"did you mean '{near}'?"
    else:
        hint = suggest(name, FUNCTIONS, what="functions")
    return cursor.fail(f"unknown function '{name}'", at=word.start, hint=hint)


def _braced(cursor: Cursor, axes: bool) -> tuple[str, ...]:
    """Read what a function goes over: ``{S,T}``; of a collective ``{X,Y}``, ``{XY}``, ``{X,J}`` or ``{I->J}``."""
    cursor.expect("{", "'{'")
    found: list[str] = []
    while not found or cursor.token.kind in (",", "->"):
        if found:
            cursor.advance()
        found += _axes(cursor) if axes else [cursor.expect("name", "the name of a dimension or axis").text]
    cursor.expect("}", "',' or '}'")
    return tuple(found)


def _arguments(
    cursor: Cursor, function: Function, expression: Callable[[Cursor], Node]
) -> tuple[tuple[Node, ...], dict[str, Any], dict[str, Span]]:
    cursor.expect("(", "'('")
    arguments: list[Node] = []
    options: dict[str, Any] = {}
    places: dict[str, Span] = {}
    while cursor.token.kind != ")":
        if arguments or options:
            cursor.expect(",", "',' or ')'")
        word, follows = cursor.token, cursor.peek()
        if word.kind == "name" and follows.kind == "=":
            _option(cursor, function, options)
            places[word.text] = Span(word.start, word.end)
        elif word.kind == "name" and follows.kind in (",", ")") and word.text in function.flags:
            _set(cursor, options, cursor.advance(), True)
            places[word.text] = Span(word.start, word.end)
        elif options:
            hint = suggest(word.text, [*function.flags, *function.options], what=f"options of {function.name}")
            raise cursor.expected(f"an option of {function.name}", hint=hint)
        else:
            arguments.append(expression(cursor))
        if len(arguments) > _MOST_ARGUMENTS:
            raise cursor.fail(f"{function.name} takes {_count(function)}", at=word.start)
    cursor.expect(")", "')'")
    return tuple(arguments), options, places


def _option(cursor: Cursor, function: Function, options: dict[str, Any]) -> None:
    key = cursor.advance()
    cursor.advance()
    if key.text in function.flags:
        word = cursor.advance()
        if word.text.lower() not in ("true", "false"):
            raise cursor.fail(f"{key.text} is true or false", at=word.start, hint=f"write {key.text} alone")
        if word.text.lower() == "true":
            _set(cursor, options, key, True)
        return
    if key.text not in function.options:
        known = [*function.options, *function.flags]
        hint = suggest(key.text, known, what=f"options of {function.name}")
        raise cursor.fail(f"{function.name} has no option '{key.text}'", at=key.start, hint=hint)
    _set(cursor, options, key, _value(cursor, key.text))


def _set(cursor: Cursor, options: dict[str, Any], key: Token, value: Any) -> None:
    if key.text in options:
        raise cursor.fail(f"option {key.text} is given twice", at=key.start)
    options[key.text] = value


def _value(cursor: Cursor, key: str) -> Any:
    start = cursor.token
    if key == "pad" and start.text in ("same", "valid"):
        return cursor.advance().text
    if start.kind == "(" and key in _NUMBER_LISTS:
        cursor.advance()
        numbers = [_number(cursor, key)]
        while cursor.accept(","):
            numbers.append(_number(cursor, key))
        cursor.expect(")", "',' or ')'")
        return tuple(numbers)
    number = _number(cursor, key)
    if key in _NUMBER_LISTS and cursor.touches():
        rest = cursor.token
        if rest.kind == "name" and re.fullmatch(_TIMES, rest.text):
            cursor.advance()
            parts = rest.text[1:].split("x")
            if any(len(part) > _LONGEST_NUMBER for part in parts):
                raise cursor.fail(f"{key} has a number of over {_LONGEST_NUMBER} digits", at=rest.start)
            return _checked(cursor, key, start, (number, *map(int, parts)))
    return number


def _number(cursor: Cursor, key: str) -> int:
    token = cursor.token
    if token.kind != "number":
        words = ", 'same', 'valid'" if key == "pad" else ""
        raise cursor.expected(f"{key}= a whole number{words}", hint=f"as in {key}=2")
    cursor.advance()
    counted = f"{key} is a whole number" + (f" of {_COUNTS[key]}" if key in _COUNTS else "")
    number = read_whole_number(cursor, token, counted, key, "numbers")
    return _checked(cursor, key, token, (number,))[0]


def _checked(cursor: Cursor, key: str, token: Token, numbers: tuple[int, ...]) -> tuple[int, ...]:
    if key not in _MAY_BE_ZERO and 0 in numbers:
        raise cursor.fail(f"{key} is at least 1, not 0", at=token.start)
    return numbers


def _count(function: Function) -> str:
    least, most = function.least, function.most
    number = str(least) if least == most else f"{least} to {most}"
    return f"{number} operand{'' if number == '1' else 's'}"


def _wrong_count(cursor: Cursor, function: Function, arguments: tuple[Node, ...], span: Span) -> NotationError:
    for argument in arguments:
        bare = isinstance(argument, TensorNode) and argument.dims is None and argument.name is not None
        error = misspelt_flag(function, argument.name or "") if isinstance(argument, TensorNode) and bare else None
        if error:
            return cursor.fail(error[0], at=argument.span.start, hint=error[1])
    hint = f"{function.name}({function.help})" if "[" in function.help else ""
    return cursor.fail(f"{function.name} takes {_count(function)}, not {len(arguments)}", at=span.start, hint=hint)


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
        written = read_result(cursor)
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
            raise cursor.fail("round brackets hold an expression", at=token.start, hint=MATMUL)
        inside = expression(cursor)
        cursor.expect(")", "')'")
        cursor.ascend()
        start = cursor.token.start
        if read_unreduced(cursor):
            raise cursor.fail("{U_X} stands after a tensor or a result, not after brackets", at=start)
        return inside
    if token.kind == "[":
        return read_tensor(cursor)
    if token.kind == "name":
        return read_call(cursor, expression) if begins_call(cursor) else read_tensor(cursor)
    if token.kind == "number":
        hint = "a scalar is written bf16[]; a size stands inside brackets"
        if re.match(r"\d+\s*[x×*]\s*\d+", cursor.text[token.start :]):
            hint = MATMUL
        raise cursor.fail(f"the number {token.text[:32]} is not an operand", at=token.start, hint=hint)
    hint = {"-": "the negative is neg(x)", "*": "a power is power(a, b)"}.get(token.text, "")
    raise cursor.expected("a tensor such as bf16[B, D], a name or a function", hint=hint)


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
        types.append(read_tensor(cursor))
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
        return node._replace(left=_with_leaves(node.left, leaves), right=_with_leaves(node.right, leaves))
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
        while is_clause(cursor):
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
            self.mesh[axis.text] = size.text if size.kind == "name" else read_whole_number(cursor, size)
            if self.mesh[axis.text] == 0:
                raise cursor.fail(f"axis {axis.text} has size 0", at=size.start, hint="an axis has at least 1 chip")
            if not cursor.accept(",") and not (cursor.token.kind == "name" and cursor.peek().kind == "="):
                return
