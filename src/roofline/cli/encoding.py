"""ASCII in place of signs that the output's encoding lacks: a pipe on Windows, an old terminal, LANG=C.

>>> as_plain("40 µs → 2 µs · 10⁹ B ≤ 1 GiB")
'40 us -> 2 us * 10^9 B <= 1 GiB'
>>> as_plain("└─┤█▒ ⢀⡠⠔ é 矩")
'+-+#: ... e ?'
"""

from __future__ import annotations

import codecs
import sys
import unicodedata

_SIGNS = {
    "µ": "u",
    "→": "->",
    "·": "*",
    "…": "...",
    "×": "x",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "−": "-",
    "≈": "~",
    "◇": "o",
    **dict.fromkeys("–—─━", "-"),
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("└┘┌┐┤├┬┴┼", "+"),
    **dict.fromkeys("█▉▊▋▌▍▎▏▓", "#"),
    **dict.fromkeys("▒░", ":"),
    **dict.fromkeys("‘’“”", "'"),  # a quotation mark would end a string of JSON
    **{power: f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}

#: Cells of Braille dots, which charts are drawn in.
_BRAILLE = range(0x2800, 0x2900)

_HANDLER = "roofline-signs"


def as_plain(text: str) -> str:
    """Write a text in ASCII; a letter without an equivalent becomes a question mark."""
    return "".join(_plain(character) for character in text)


def _plain(character: str) -> str:
    if character.isascii():
        return character
    if character in _SIGNS:
        return _SIGNS[character]
    if ord(character) in _BRAILLE:
        return "."
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"


def never_fail() -> None:
    """Let standard output and error write ASCII for what their encoding lacks."""
    codecs.register_error(_HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return as_plain(error.object[error.start : error.end]), error.end
