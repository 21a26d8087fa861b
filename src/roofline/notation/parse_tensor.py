"""Tensors as written: ``bf16[B_X, 4096]``, ``A[I, J]``, ``x:int8[B] {U_X}``, ``h``."""

from __future__ import annotations

import re

from roofline import dtypes
from roofline.errors import NotationError
from roofline.notation.cursor import Cursor, describe
from roofline.notation.structure import Dim, Span, TensorNode
from roofline.notation.tokens import Token
from roofline.sizes import LARGEST

_SHARDED = re.compile(r"(\w*[^\W_])_([A-Z]+)")
_AXES = re.compile(r"[A-Z]+")
_MOST_DIMS = 32


def tensor(cursor: Cursor) -> TensorNode:
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
        raise cursor.fail(f"expected '[' after the dtype {word.text}", hint=f"as in {word.text}[B, D]")
    return TensorNode(word.text, None, None, unreduced(cursor), cursor.span_from(start))


def output(cursor: Cursor) -> TensorNode:
    """Read what stands after ``->``: a tensor with dims, or a dtype alone."""
    word = cursor.token
    if word.kind == "name" and dtypes.is_dtype(word.text) and cursor.peek().kind != "[":
        cursor.advance()
        return TensorNode(None, dtypes.get(word.text).name, None, unreduced(cursor), cursor.span_from(word.start))
    if word.kind not in ("name", "["):
        raise cursor.fail("expected the result after '->', such as bf16[B, F]")
    found = tensor(cursor)
    if found.dims is None:
        raise cursor.fail("expected '[' after the result's name", hint=f"as in {word.text}[B, F]")
    return found


def unreduced(cursor: Cursor) -> tuple[str, ...]:
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
        axes = axis_list(cursor)
    elif _AXES.fullmatch(word.text[2:]):
        axes = tuple(word.text[2:])
    elif word.text[2:].isidentifier():
        axes = (word.text[2:],)
    else:
        raise cursor.fail("expected {U_X}, partial sums over the mesh axis X", at=word.start)
    cursor.expect("}", "'}' after the axes of partial sums")
    return axes


def axis_list(cursor: Cursor) -> tuple[str, ...]:
    """Read ``{data,model}``."""
    cursor.expect("{", "'{'")
    axes = [cursor.expect("name", "the name of a mesh axis").text]
    while cursor.accept(","):
        axes.append(cursor.expect("name", "the name of a mesh axis").text)
    cursor.expect("}", "',' or '}' in a list of mesh axes")
    return tuple(axes)


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
        from roofline.errors import suggest

        hint = dtypes.two_formats(word.text) or suggest(word.text, dtypes.names(), what="dtypes")
        raise cursor.fail(f"unknown dtype '{word.text}'", at=word.start, hint=hint)
    if cursor.token.kind != "[":
        raise cursor.fail(f"expected '[' after the dtype {word.text}", hint=f"as in {word.text}[B, D]")
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
    _skip_layout(cursor)
    partial = unreduced(cursor)
    node = TensorNode(name, dtype, tuple(dims), partial, cursor.span_from(start))
    _check_axes_once(cursor, node)
    return node


def _dim(cursor: Cursor) -> Dim:
    word = cursor.token
    if word.kind == "number":
        cursor.advance()
        return _numeric_dim(cursor, word)
    if word.kind != "name" or word.text[0] == "%":
        hint = "an array has its sizes there, not slices: bf16[B, D]" if word.kind == ":" else ""
        raise cursor.fail("expected a dimension: a name or a number", hint=hint)
    if word.text[0] == "_":
        raise cursor.fail("the name of a dimension begins with a letter", at=word.start)
    cursor.advance()
    if word.text.endswith("_") and cursor.token.kind == "{" and len(word.text) > 1:
        axes = axis_list(cursor)
        return _sharded_dim(cursor, word, word.text[:-1], axes)
    sharded = _SHARDED.fullmatch(word.text)
    if sharded:
        return _sharded_dim(cursor, word, sharded.group(1), tuple(sharded.group(2)))
    return Dim(word.text, None, (), Span(word.start, word.end))


def _sharded_dim(cursor: Cursor, word: Token, name: str, axes: tuple[str, ...]) -> Dim:
    already = _SHARDED.fullmatch(name)
    if already:
        letters = all(len(axis) == 1 for axis in axes)
        both = (*already.group(2), *axes)
        together = "".join(both) if letters else f"{{{','.join(both)}}}"
        hint = f"several mesh axes are written together: {already.group(1)}_{together}"
        raise cursor.fail(f"'{name}' is sharded already", at=word.start, hint=hint)
    return Dim(name, None, axes, cursor.span_from(word.start))


def _numeric_dim(cursor: Cursor, word: Token) -> Dim:
    size = whole_number(cursor, word)
    if size == 0:
        raise cursor.fail("a size is at least 1, not 0", at=word.start, hint="a scalar is written bf16[]")
    axes: tuple[str, ...] = ()
    follows = cursor.token
    if follows.kind == "name" and cursor.touches():
        if follows.text == "_" and cursor.peek().kind == "{":
            cursor.advance()
            axes = axis_list(cursor)
        elif follows.text[0] == "_" and _AXES.fullmatch(follows.text[1:]):
            axes = tuple(cursor.advance().text[1:])
        else:
            wrong = word.text + follows.text
            hint = "write the number out, or give the dimension a name"
            if re.fullmatch(r"(?:[xX]\d+)+", follows.text):
                hint = f"dimensions are separated by commas: [{', '.join(re.split('[xX]', wrong))}]"
            raise cursor.fail(f"'{wrong}' is not a size", at=word.start, hint=hint)
    return Dim(None, size, axes, cursor.span_from(word.start))


def whole_number(
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
    if last and token.kind in ("contract", "add", "subtract", "divide"):
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
    return cursor.fail("expected ',' or ']'")


def _skip_layout(cursor: Cursor) -> None:
    """Pass over the memory layout of a line of XLA: ``{2,1,0:T(8,128)(2,1)S(1)}``."""
    if cursor.token.kind != "{" or cursor.peek().kind not in ("number", "}"):
        return
    start = cursor.token.start
    while cursor.token.kind != "}":
        if cursor.token.kind in ("end", "newline", ";"):
            raise cursor.fail("expected '}' at the end of a layout", at=start)
        cursor.advance()
    cursor.advance()


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
