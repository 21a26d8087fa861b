"""Calls as written: ``softmax_T(x)``, ``conv(x, w, stride=2, same)``, ``AllGather_{data}(x)``, ``AllReduce_X``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from roofline import dtypes
from roofline.errors import NotationError, did_you_mean, suggest
from roofline.frozen import Frozen
from roofline.notation.cursor import Cursor
from roofline.notation.functions import FUNCTIONS, Function, longest_match, no_flag
from roofline.notation.parse_tensor import whole_number
from roofline.notation.structure import CallNode, Node, Span, TensorNode
from roofline.notation.tokens import Token

_TIMES = re.compile(r"(?:x[0-9]+)+")
_NUMBER_LISTS = frozenset(("stride", "pad", "dilation", "output_pad", "window"))
_COUNTS = {"stride": "steps", "dilation": "steps", "pad": "elements", "output_pad": "elements", "window": "elements"}
_MAY_BE_ZERO = frozenset(("pad", "output_pad"))
_MOST_ARGUMENTS = 8
_LONGEST_NUMBER = 30


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


def call(cursor: Cursor, expression: Callable[[Cursor], Node]) -> CallNode:
    """Read a call; ``expression`` reads one argument."""
    word = cursor.advance()
    function, over = _function(cursor, word)
    cursor.descend()
    arguments: tuple[Node, ...]
    options: dict[str, Any] = {}
    places: dict[str, Span] = {}
    if cursor.token.kind == "(":
        arguments, options, places = _arguments(cursor, function, expression)
    elif cursor.token.kind in ("name", "[") and not _is_clause(cursor):
        from roofline.notation.parse_tensor import tensor

        arguments = (call(cursor, expression) if begins_call(cursor) else tensor(cursor),)
    else:
        arguments = ()
    cursor.ascend()
    span = cursor.span_from(word.start)
    takes_previous = not arguments and function.suffix == "axes"
    if not takes_previous and not function.least <= len(arguments) <= function.most:
        raise _wrong_count(cursor, function, arguments, span)
    return CallNode(function.name, arguments, over, Frozen(options), span, Frozen(places))


def _is_clause(cursor: Cursor) -> bool:
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
        over = _braced(cursor)
    elif function.suffix == "axes" and re.fullmatch(r"[A-Z]+", found[1]):
        over = tuple(found[1])
    else:
        over = (found[1],) if found[1] else ()
    if over and not function.suffix:
        hint = f"write {found[0]}(…)"
        raise cursor.fail(f"{function.name} takes nothing after '_'", at=word.start, hint=hint)
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


def _braced(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("{", "'{'")
    found = [cursor.expect("name", "the name of a dimension or axis").text]
    while cursor.token.kind in (",", "->"):
        cursor.advance()
        found.append(cursor.expect("name", "the name of a dimension or axis").text)
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
            raise cursor.fail(f"expected an option of {function.name}", hint=hint)
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
    _set(cursor, options, key, _value(cursor, function, key.text))


def _set(cursor: Cursor, options: dict[str, Any], key: Token, value: Any) -> None:
    if key.text in options:
        raise cursor.fail(f"option {key.text} is given twice", at=key.start)
    options[key.text] = value


def _value(cursor: Cursor, function: Function, key: str) -> Any:
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
        if rest.kind == "name" and _TIMES.fullmatch(rest.text):
            cursor.advance()
            parts = rest.text[1:].split("x")
            if any(len(part) > _LONGEST_NUMBER for part in parts):
                raise cursor.fail(f"{key} has a number of over {_LONGEST_NUMBER} digits", at=rest.start)
            return _checked(cursor, key, start, (number, *map(int, parts)))
    return number


def _number(cursor: Cursor, key: str) -> int:
    token = cursor.token
    if token.kind != "number":
        example = "(2, 2)" if key in _NUMBER_LISTS else "2"
        words = ", 'same', 'valid'" if key == "pad" else ""
        raise cursor.fail(f"expected {key}= a whole number{words}", hint=f"as in {key}={example}")
    cursor.advance()
    return int(_checked(cursor, key, token, (_whole(cursor, key, token),))[0])


def _whole(cursor: Cursor, key: str, token: Token) -> int:
    counted = f"{key} is a whole number" + (f" of {_COUNTS[key]}" if key in _COUNTS else "")
    return whole_number(cursor, token, counted, key, "numbers")


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
        error = no_flag(function, argument.name or "") if isinstance(argument, TensorNode) and bare else None
        if error:
            return cursor.fail(error[0], at=argument.span.start, hint=error[1])
    hint = f"{function.name}({function.help})" if "[" in function.help else ""
    return cursor.fail(f"{function.name} takes {_count(function)}, not {len(arguments)}", at=span.start, hint=hint)
