"""Every error this package raises on purpose, as one tree.

::

    RooflineError
    ├── InputError (ValueError)   what was typed is wrong
    │   ├── NotationError         a line of the notation
    │   ├── SizeError             a size
    │   ├── DTypeError            a number format
    │   ├── QuantityError         a figure with a unit
    │   └── HardwareError         a chip, level or link
    ├── BlockError                a block was not done
    ├── UntimedError              nothing has a rate
    ├── OutOfMemoryError (MemoryError)   no room in memory
    └── MissingExtraError (ImportError)   a library lacks

The command line prints the message and exits with code 2; the text is part of the interface and is tested.

>>> did_you_mean("bf61", ["bf16", "fp16", "int8"])
'bf16'
>>> str(NotationError("expected ']'", text="bf16[B, D", position=9))
"expected ']'\\n  bf16[B, D\\n           ^"
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from reprlib import Repr
from types import ModuleType
from typing import Any, Self

#: Characters of a message; of a longer one the middle is left out.
_LONGEST = 1500


class _AsTyped(Repr):
    """Reprs of limited length; a dict has the order in which it was typed."""

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if not x or level <= 0:
            return f"{{{self.fillvalue}}}" if x else "{}"
        said = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return f"{{{', '.join([*said, *[self.fillvalue] * (len(x) > self.maxdict)])}}}"


#: Of a value that was typed an error shows as much as this.
_VALUES = _AsTyped()
_VALUES.fillvalue, _VALUES.maxlevel, _VALUES.maxdict, _VALUES.maxlist, _VALUES.maxtuple = "…", 3, 4, 4, 4
_VALUES.maxstring = _VALUES.maxother = _VALUES.maxlong = 60
#: Of a longer line an error shows the part around the caret.
_WIDEST_LINE = 96


class RooflineError(Exception):
    """The root: catch this to catch all errors of this package.

    ``message`` says what is wrong and ``hint`` what would be right, where that is known; its text has both.

    >>> from roofline import chip
    >>> try:
    ...     chip("h1")
    ... except RooflineError as error:
    ...     error.message
    "unknown chip 'h1'"
    """

    message: str = ""
    hint: str = ""

    def __init__(self, *said: Any) -> None:
        super().__init__(*said)
        self.message = self.message or "".join(map(str, said[:1]))


class InputError(RooflineError, ValueError):
    """Something that was typed is wrong; ``hint`` says what would be right. Of a long value its ends are shown."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message, self.hint = message, hint = _brief(message), _brief(hint)
        super().__init__(f"{message}; {hint}" if hint else message)

    def worded(self, before: str = "", after: str = "") -> Self:
        """The same error with words before what is wrong, as where that stands, and after its hint.

        >>> InputError("no time", hint="a column seconds").worded("line 2: ", ", ms or us")
        InputError('line 2: no time; a column seconds, ms or us')
        """
        return type(self)(f"{before}{self.message}", hint=f"{self.hint}{after}" if self.hint else after.lstrip("; "))


class NotationError(InputError):
    """A line of notation that does not read: the line, a caret under the character, what was expected."""

    def __init__(self, message: str, *, text: str = "", position: int = 0, hint: str = "") -> None:
        self.text = text
        self.position = position
        super().__init__(message, hint=hint)

    def __str__(self) -> str:
        head = f"{self.message}; {self.hint}" if self.hint else self.message
        if not self.text:
            return head
        line, column = _line_and_column(self.text, self.position)
        return f"{head}\n  {line}\n  {' ' * column}^"


class SizeError(InputError):
    """A size that cannot be one, is missing, or is given and used nowhere.

    Of arrays ``rows`` says which entries cannot be, where others may, and ``rule`` what holds of none of them.
    """

    def __init__(self, message: str, *, hint: str = "", rows: Any = None, rule: str = "") -> None:
        self.rows, self.rule = rows, rule or message
        super().__init__(message, hint=hint)


class DTypeError(InputError):
    """An unknown number format, or two formats between which a choice is needed."""


class QuantityError(InputError):
    """A figure whose number or unit does not read."""


class HardwareError(InputError):
    """An unknown chip, memory level, unit or link, or a machine file that does not hold together.

    ``in_file`` says what is wrong at one place of a machine file without the file's name.
    """

    def __init__(self, message: str, *, hint: str = "", in_file: str = "") -> None:
        self.in_file = in_file
        super().__init__(message, hint=hint)


class LayoutError(HardwareError):
    """Numbers of chips that do not split a model so, or whose product is not that of the machine."""


class UnsplitError(LayoutError):
    """What no number of chips splits: experts of a model without any, layers of an outline, or what is not modelled."""


class OneSizeError(InputError):
    """What is worked out at one value of a size was asked at several."""


class BlockError(RooflineError):
    """A block of a grid that was not done; the message names it and its rows."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)


#: What to ask instead of more rows than memory holds.
FEWER_ROWS = "a sweep that keeps 'front,top=100' holds only the best rows of all combinations"


class OutOfMemoryError(RooflineError, MemoryError):
    """The numbers of an answer have no room in memory; ``of_rows`` says that several sizes were asked for."""

    def __init__(self, of_rows: bool = False) -> None:
        self.of_rows = of_rows
        self.message = "the answer takes more memory than there is"
        self.hint = f"give fewer values; {FEWER_ROWS}" if of_rows else "ask for less at once"
        super().__init__(f"{self.message}; {self.hint}")

    def __reduce__(self) -> tuple[type[OutOfMemoryError], tuple[bool]]:
        return type(self), (self.of_rows,)


class UntimedError(RooflineError):
    """Nothing of what was asked for has a rate on this machine."""


def from_the_source(extra: str, *, renewed: bool = False) -> str:
    """How the libraries of an extra are installed.

    >>> from_the_source("torch")
    "pip install '.[torch]' in the folder of roofline's source"
    """
    return f"pip install {'--upgrade ' * renewed}'.[{extra}]' in the folder of roofline's source"


class MissingExtraError(RooflineError, ImportError):
    """An optional library is missing, or is there and broken; the message names the extra that brings it."""

    def __init__(self, library: str, extra: str, broken: str = "") -> None:
        self.library = library
        self.extra = extra
        self.broken = broken
        bring = from_the_source(extra, renewed=bool(broken))
        self.message, self.hint = f"{library} {'cannot be imported' if broken else 'is not installed'}", bring
        said = f"{library} is installed and cannot be imported: {broken}; renew it with: {bring}"
        super().__init__(said if broken else f"{library} is not installed; it comes with: {bring}")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), (self.library, self.extra, self.broken)


def load_extra(library: str, extra: str) -> ModuleType:
    """Import an optional library, or say that it is missing, or why it is broken.

    >>> load_extra("nosuchlibrary", "torch")
    Traceback (most recent call last):
    roofline.errors.MissingExtraError: nosuchlibrary is not installed; it comes with: pip install '.[torch]' ...
    """
    from importlib import import_module

    top = library.partition(".")[0]
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name in (top, library):
            raise MissingExtraError(top, extra) from None
        raise MissingExtraError(top, extra, f"it needs {error.name}, which is not installed") from error
    except Exception as error:  # a library of other versions than it was built for fails in any way
        lines = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {lines[0]:.200}" if lines else type(error).__name__
        raise MissingExtraError(top, extra, said) from error


def late_names(module: str, homes: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that loads names from its parts, ``homes``, when they are first asked for.

    >>> late_names("roofline.notation", {"parser": ("parse",)})("parse").__name__
    'parse'
    """
    home = {name: part for part, names in homes.items() for name in names}

    def found(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f".{home[name]}", module), name)
        setattr(sys.modules[module], name, value)
        return value

    return found


def quoted(value: Any) -> str:
    """A value as it was typed, of a long one both ends, with its quotation marks and brackets closed.

    >>> quoted("fp8"), quoted(list(range(9))), quoted({"name": "X", "bf16": 4e14})
    ("'fp8'", '[0, 1, 2, 3, …]', "{'name': 'X', 'bf16': 400000000000000.0}")
    >>> quoted("ab" * 40)
    "'abababababababababababababa…abababababababababababababab'"
    """
    try:
        return " ".join(_VALUES.repr(value).splitlines())
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of too many digits"
    except Exception:  # of a value whose own methods raise what they like
        return f"<{type(value).__name__}>"


def did_you_mean(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known word nearest to ``word``, or None when none is as near as ``least`` (1: the same)."""
    import difflib

    choices = list(known) if len(word) <= _WIDEST_LINE else []
    lowered = {choice.lower(): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=least)
    return lowered[close[0]] if close else None


def suggest(word: str, known: Iterable[str], *, what: str, limit: int = 12) -> str:
    """Phrase a hint: the nearest legal word, or the list of legal words when none is near.

    >>> suggest("v5f", ["v5e", "h100"], what="chips")
    "did you mean 'v5e'?"
    >>> suggest("xyz", ["hbm", "vmem"], what="levels")
    'levels are: hbm, vmem'
    >>> suggest("torus", ["ring", "torus2d", "torus3d"], what="topologies")
    "did you mean 'torus2d' or 'torus3d'?"
    >>> suggest("cost", ["lower", "cost_per_million"], what="columns")
    "did you mean 'cost_per_million'?"
    """
    choices = list(known)
    if near := near_words(word, choices):
        return near
    rest = len(choices) - limit
    listed = ", ".join(choices[:limit]) + (f" and {rest} more" if rest > 0 else "")
    return f"{what} are: {listed}" if choices else f"there are no {what}"


def check_one_of(
    wrong: str, word: str, known: Collection[str], what: str, *, error: type[InputError] = InputError
) -> None:
    """Refuse a word that is none of those known: ``wrong`` is the message, the hint is that of :func:`suggest`.

    >>> check_one_of("unknown theme 'drak'", "drak", ["light", "dark"], "themes")
    Traceback (most recent call last):
    roofline.errors.InputError: unknown theme 'drak'; did you mean 'dark'?
    """
    if word not in known:
        raise error(wrong, hint=suggest(word, known, what=what))


def near_words(word: str, known: Collection[str]) -> str:
    """The first part of a hint: the legal words near to a word; nothing where none is.

    >>> near_words("v5f", ["v5e", "h100"]), near_words("xyz", ["hbm", "vmem"])
    ("did you mean 'v5e'?", '')
    """
    if alike := look_alike(word, known):
        return alike
    begun = [choice for choice in known if word and choice.lower().startswith(word.lower())]
    if 0 < len(begun) <= 3 and len(word) > 2 and word not in begun:
        return f"did you mean {' or '.join(map(repr, begun))}?"
    near = did_you_mean(word, known)
    return "" if near is None else f"did you mean {near!r}?"


#: Letters of Cyrillic and Greek that look like Latin ones.
_LOOKS_LIKE = {
    "A": "\u0410\u0391", "B": "\u0412\u0392", "C": "\u0421", "E": "\u0415\u0395", "H": "\u041d\u0397",
    "I": "\u0406\u0399", "J": "\u0408", "K": "\u041a\u039a", "M": "\u041c\u039c", "N": "\u039d",
    "O": "\u041e\u039f", "P": "\u0420\u03a1", "S": "\u0405", "T": "\u0422\u03a4", "X": "\u0425\u03a7",
    "Y": "\u0423\u03a5", "Z": "\u0396", "a": "\u0430", "c": "\u0441", "e": "\u0435",
    "h": "\u04bb", "i": "\u0456", "j": "\u0458", "o": "\u043e\u03bf", "p": "\u0440",
    "s": "\u0455", "v": "\u03bd", "x": "\u0445", "y": "\u0443",
}  # fmt: skip
_LATIN = {ord(other): letter for letter, others in _LOOKS_LIKE.items() for other in others}


def look_alike(word: str, known: Iterable[str]) -> str:
    """A hint that a known word looks the same and has other letters; nothing where none does.

    >>> look_alike("B", ["\\u0412", "D"]), look_alike("B", ["D"])
    ("'\u0412' has CYRILLIC CAPITAL LETTER VE, which looks like LATIN CAPITAL LETTER B; write both alike", '')
    """
    alike = next((each for each in known if each != word and each.translate(_LATIN) == word.translate(_LATIN)), None)
    if alike is None:
        return ""
    from unicodedata import name

    typed, there = next(pair for pair in zip(word, alike, strict=True) if pair[0] != pair[1])
    return f"{alike!r} has {name(there)}, which looks like {name(typed)}; write both alike"


def a_or_an(name: str) -> str:
    """A name behind its article.

    >>> a_or_an("Sweep"), a_or_an("Accuracy")
    ('a Sweep', 'an Accuracy')
    """
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def _brief(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 4 :]}"


def _line_and_column(text: str, position: int) -> tuple[str, int]:
    """Cut the line that holds ``position`` out of ``text``, a long one on both sides, and find the caret's column."""
    position = max(0, min(position, len(text)))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start:] if end < 0 else text[start:end]
    column = position - start
    if len(line) > _WIDEST_LINE:
        first = max(0, min(column - _WIDEST_LINE * 2 // 3, len(line) - _WIDEST_LINE))
        last = first + _WIDEST_LINE
        before, after = "…" if first else "", "…" if last < len(line) else ""
        line, column = before + line[first:last] + after, column - first + len(before)
    printable = "".join(c if c.isprintable() else " " for c in line)
    return printable, _cells(printable[:column])


def _cells(text: str) -> int:
    """Count the columns of a terminal that a text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
