"""Text ⇄ counts: numbers, lists and ranges of sizes as people write them, in arguments as on the command line.

>>> typed_sizes({"B": "8k", "D": "1k,4k", "N": "1:8:*2", "F": "4*D", "on": "h100"})
{'B': 8000, 'D': [1000, 4000], 'N': [1, 2, 4, 8], 'F': '4*D', 'on': 'h100'}

Characters as documents have them → those that are read: full-width forms, superscripts.

>>> plain("bf16［B，D］×int8［D，F］"), plain("B＝６４")
('bf16[B,D]×int8[D,F]', 'B=64')
>>> powers("9.89×10¹⁴"), powers("24*b*s*h²")
('9.89×10^14', '24*b*s*h^2')
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from roofline.errors import OutOfMemoryError, SizeError

DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}

#: A size by its name, as a word of a command line: ``B=64``.
SIZE = r"\s*([^\W\d]\w*)\s*=\s*([^\[\]]*)"
_WHOLE = r"\d[\d_]*(?:\.\d+)?(?:e\+?\d+)?(?:[kmgt]i?)?"
_RANGE = rf"({_WHOLE}):({_WHOLE})(?::(\*?)({_WHOLE}))?"

#: Counts of a step that may be 0, which a range of them may start at.
FROM_ZERO = ("context", "host_layers", "past")

#: Arguments of functions that are counts, with whether ``B`` stands for a billion.
COUNTS = {
    **dict.fromkeys(("batch_tokens", "sequence", "tokens"), True),
    **dict.fromkeys((
        "adapters", "batch", "block_rows", "chips", "chunk", "chunks", "context", "context_parallel", "count", "data",
        "draft", "expert", "fsdp", "host_layers", "images", "kv_block", "kv_parallel", "lora", "microbatches", "most",
        "output", "past", "pipeline", "pool", "prefill_batch", "prefill_tensor", "prompt", "prompts", "source",
        "tensor", "workers",
    ), False),
}  # fmt: skip


def count(text: str, billion: bool = False) -> int | float | None:
    """Read a number as people write counts, whole where it can be; None for anything else.

    ``k``, ``M``, ``G`` and ``T`` are powers of 1000 and ``Ki``, ``Mi``, ``Gi`` and ``Ti`` of 1024. ``billion`` allows
    ``B``, which is the name of a size where sizes have names.

    >>> count("8k"), count("128Ki"), count("4M"), count("1.5e3"), count("1_000"), count("0.5")
    (8000, 131072, 4000000, 1500, 1000, 0.5)
    >>> count("300B", billion=True), count("15T"), count("300B"), count("8*k"), count("8 k")
    (300000000000, 15000000000000, None, None, 8000)
    >>> count("1536*2048"), count("4M*1.5")                                           # a product
    (3145728, 6000000)
    """
    if "*" in (text := plain(text)):
        factors = [count(each, billion) for each in text.split("*")]
        whole = math.prod(each for each in factors if each is not None)
        return None if None in factors else int(whole) if whole == whole // 1 else whole
    found = re.fullmatch(r"([+-]?[\d._]+(?:[eE][+-]?\d+)?)(?:\s*(?:([kKMGT]|B)|([KMGT]i)))?", plain(text).strip())
    if found is None:
        return float(text) if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") else None
    if found[2] == "B" and not billion:
        return None
    digits, decimal, binary = found.groups()
    factor = int(BINARY[binary] if binary else DECIMAL[{"K": "k", "B": "G", None: ""}.get(decimal, decimal)])
    digits = digits.replace("_", "")
    try:
        if digits.lstrip("+-").isdigit():
            return int(digits) * factor
        from decimal import Decimal

        exact = Decimal(digits) * factor
    except (ArithmeticError, ValueError):
        return None
    if exact.adjusted() > 308:
        return math.copysign(math.inf, exact)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def parse_size(name: str, text: str) -> Any:
    """Read a size: a number, a list ``1024,4096``, a range ``1:512`` (both ends), ``1:512:2``, ``1:512:*2``, a formula.

    >>> parse_size("B", "1:8:*2"), parse_size("B", "1:7:3"), parse_size("B", "4e6"), parse_size("F", "max(D, 64)")
    ([1, 2, 4, 8], [1, 4, 7], 4000000, 'max(D, 64)')
    >>> parse_size("D", "8k"), parse_size("D", "8Ki"), parse_size("D", "1k:4k:*2")    # SI, binary
    (8000, 8192, [1000, 2000, 4000])
    >>> parse_size("B", "1:16:*1.5")                                                  # whole numbers by a factor
    [1, 2, 3, 5, 7, 11]
    >>> parse_size("host_layers", "0:20:10")                                          # what may be 0
    [0, 10, 20]
    """
    if not text:
        raise SizeError(f"size {name} has no value", hint=f"for instance {name}=64")
    if "," in re.sub(r"[a-z]\(.*\)", "", text):  # one inside max(D, 64) makes no list
        return [_item(name, item.strip()) for item in text.split(",")]
    match = re.fullmatch(_RANGE, text.replace(" ", ""), re.IGNORECASE) if ":" in text else None
    if match is not None:
        try:
            return _range(name, *match.groups())
        except MemoryError:
            raise OutOfMemoryError(of_rows=True) from None
    if ":" in text or (set(".…") & set(text) and re.fullmatch(r"\d+\s*(\.\.+|…)\s*\d+", text)):
        raise SizeError(f"size {name} is {text!r}", hint=f"a range is {name}=1:512, {name}=1:512:8 or {name}=1:512:*2")
    number = count(text)
    return text if number is None else number


def _range(name: str, first: str, last: str, times: str | None, step: str | None) -> list[int]:
    hint = "as in 1:512, 1:512:8 (steps) or 1:512:*2 (doubling)"
    low, high, by = (count(text) for text in (first, last, step or "1"))
    if not (isinstance(low, int) and isinstance(high, int)):
        raise SizeError(f"size {name} has a range of {first}:{last}, and sizes are whole numbers", hint=hint)
    if by is None or not (isinstance(by, int) or times):
        raise SizeError(f"size {name} has a range with a step of {step}, and sizes are whole numbers", hint=hint)
    if low < 1 and (times or name not in FROM_ZERO):
        why = f"{low} grows by no factor" if name in FROM_ZERO else "a size is at least 1"
        raise SizeError(f"size {name} has a range that starts at {low}; {why}", hint=hint)
    if low > high:
        raise SizeError(f"size {name} has an empty range {first}:{last}", hint=hint)
    if by <= 1 if times else by < 1:
        raise SizeError(f"size {name} has a range with a step of {times or ''}{by}", hint=hint)
    if (high - low) // by > 50_000_000 and not times:
        raise SizeError(f"size {name} has over 50 million values", hint="take larger steps")
    if not times:
        return list(range(low, high + 1, int(by)))
    values, exact = [low], low * by
    while exact <= high:  # whole numbers next to those that grow by a factor, each once
        values += [int(exact)] * (int(exact) > values[-1])
        exact *= by
    return values


def _item(name: str, text: str) -> int | float:
    number = count(text)
    if number is None or is_group(text):
        hint = f"numbers without separators, as in {name}=1024,4096"
        if re.fullmatch(SIZE, text, re.DOTALL):
            hint = f"each size is a word of its own, after a space: {name}=64 {text}"
        elif not text:
            hint = f"no comma stands at an end; each size is a word of its own, after a space: {name}=64 …"
        raise SizeError(f"size {name} lists {text!r}", hint=hint)
    return number


def is_group(text: str) -> bool:
    """Say whether this is what stands behind a thousands separator: ``024``."""
    return len(text) > 1 and text[0] == "0" and text.isdigit()


def typed_size(name: str, value: Any, billion: bool = False) -> Any:
    """What text says that starts as a number, alone or in a list; other text, a formula or a word, as it is.

    >>> typed_size("B", "8k"), typed_size("B", ["1k", 64]), typed_size("F", "2*max(D, 8)"), typed_size("count", "full")
    (8000, [1000, 64], '2*max(D, 8)', 'full')
    >>> typed_size("tokens", "300B", billion=True)
    300000000000
    """
    if isinstance(value, list | tuple) and any(issubclass(kind, str) for kind in set(map(type, value))):
        return [typed_size(name, each, billion) for each in value]
    if not isinstance(value, str) or not value.strip()[:1].isdigit() or "(" in value:
        return value
    number = count(value, billion)
    return parse_size(name, plain(value).strip()) if number is None else number


def typed_sizes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes by name, with the numbers that are given as text read."""
    return {name: typed_size(name, value) for name, value in sizes.items()}


#: Unicode's full-width forms are ASCII moved by this much; brackets and the comma of lists are Chinese punctuation.
_MOVED = 0xFEE0
_PLAIN: dict[int, int | str] = {
    **{code + _MOVED: code for code in range(ord("!"), ord("~") + 1)},
    **str.maketrans("\u3000、【】〔〕", " ,[][]"),
}
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_LOWERED = str.maketrans(_RAISED, "0123456789+-")
_SUPERSCRIPT = f"[{_RAISED}]+"


def plain(text: str) -> str:
    """Write full-width forms and Chinese brackets as ASCII; every character keeps its place."""
    return text if text.isascii() else text.translate(_PLAIN)


def powers(text: str) -> str:
    """Write superscripts as ``^`` and their digits."""
    return text if text.isascii() else re.sub(_SUPERSCRIPT, lambda found: "^" + found[0].translate(_LOWERED), text)
