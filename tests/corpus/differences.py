"""Which answers differ, and where: numbers to 1e-12, texts exactly, grouped by the place in the answer.

>>> list(differing({"a": [1.0, 2]}, {"a": [1.0 + 1e-15, 3]}))
[('a[*]', 2, 3)]
>>> list(differing({"a": 1, "b": ["x", "y"]}, {"a": 1, "c": 0, "b": ["y"]}))
[('b', 'x', '(missing)'), ('c', '(missing)', 0)]
"""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MISSING = "(missing)"
_NUMBER = re.compile(r"\d+\.?\d*(?:e[-+]?\d+)?")

Difference = tuple[str, Any, Any]


def differing(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """List the places where two answers differ: the path, what stood there, what stands there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if set(before) == set(after) == {"$sympy"}:
            if not same_expression(before["$sympy"], after["$sympy"]):
                yield path, before["$sympy"], after["$sympy"]
            return
        for name in sorted({*before, *after}):
            where = f"{path}.{name}" if path else str(name)
            if name in before and name in after:
                yield from differing(before[name], after[name], where)
            else:
                yield where, before.get(name, MISSING), after.get(name, MISSING)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    elif not same(before, after):
        yield path, before, after


def _of_lists(before: list[Any], after: list[Any], path: str) -> Iterator[Difference]:
    if all(isinstance(item, str) for item in (*before, *after)):
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for tag, start, end, other, last in matcher.get_opcodes():
            if tag != "equal":
                yield path, "\n".join(before[start:end]) or MISSING, "\n".join(after[other:last]) or MISSING
    elif len(before) != len(after):
        yield f"{path}.length", len(before), len(after)
    else:
        for one, other in zip(before, after, strict=True):
            yield from differing(one, other, f"{path}[*]")


def same(before: Any, after: Any) -> bool:
    """Say whether two values are one: numbers to 1e-12."""
    numbers = (int, float)
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, numbers) and isinstance(after, numbers):
        return before == after or math.isclose(before, after, rel_tol=1e-12) or (before != before and after != after)
    return type(before) is type(after) and bool(before == after)


def same_expression(before: str, after: str) -> bool:
    """Compare two formulas: the same text but for the last digits of its numbers.

    >>> same_expression("B/1.97e+14", "B/1.9700000000000001e+14"), same_expression("2*B", "3*B")
    (True, False)
    """
    if _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
        return False
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=1e-12) for one, other in pairs)


def title(question: Mapping[str, Any]) -> str:
    """A question in a line."""
    if "command" in question:
        text = "roofline " + " ".join(f"'{word}'" if " " in word else word for word in question["command"])
    elif "program" in question:
        options = "".join(f", {name}={value!r}" for name, value in question.get("options", {}).items())
        text = f"trace {question['program']}: {question['source']} {question.get('inputs', '')}{options}"
    else:
        named = [f"{name}={_short(value)}" for name, value in question.get("kwargs", {}).items()]
        text = f"{question['ask']}({', '.join([*map(_short, question.get('args', [])), *named])})"
    return text if len(text) <= 240 else f"{text[:237]}…"


def _short(value: Any) -> str:
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "$call":
            return f"{inner['ask'].rpartition('.')[2]}(…)"
        return _short(inner) if kind.startswith("$") else repr(value)
    return repr(value)


def report(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], examples: int, skip: str | None) -> int:
    """Print what differs, the commonest place first; return how many answers differ."""
    groups: dict[str, list[tuple[str, Any, Any]]] = defaultdict(list)
    different = 0
    for before, after in pairs:
        found = [
            row for row in differing(before["answer"], after["answer"]) if skip is None or not re.search(skip, row[0])
        ]
        different += bool(found)
        for path, old, new in found:
            groups[path].append((title(before["question"]), old, new))
    for path, rows in sorted(groups.items(), key=lambda item: -len({row[0] for row in item[1]})):
        print(f"== {path}: {len({row[0] for row in rows})} questions")
        seen: set[tuple[str, str]] = set()
        for name, old, new in rows:
            texts = _cut(old), _cut(new)
            if texts in seen or len(seen) >= examples:
                continue
            seen.add(texts)
            print(f"   {name}\n     before: {texts[0]}\n     after:  {texts[1]}")
    return different


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text.replace("\n", "\n             ")
    return text if len(text) <= 400 else f"{text[:397]}…"
