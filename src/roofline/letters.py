"""Characters as documents have them → those that are read: full-width forms, superscripts.

>>> plain("bf16［B，D］×int8［D，F］"), plain("B＝６４")
('bf16[B,D]×int8[D,F]', 'B=64')
>>> powers("9.89×10¹⁴"), powers("24*b*s*h²")
('9.89×10^14', '24*b*s*h^2')
"""

from __future__ import annotations

import re

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
