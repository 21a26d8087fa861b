"""Text to tokens, each with its place in the text, and the cursor that walks over them.

>>> [token.text for token in tokenize("bf16[B, D_X] ·_D int8[D, F]")]
['bf16', '[', 'B', ',', 'D_X', ']', '·_D', 'int8', '[', 'D', ',', 'F', ']', '']
>>> tokenize("A[I] ._{I,J} B[I]")[4].over               # a named contraction is one token
('I', 'J')
>>> [token.kind for token in tokenize("x -> y")]
['name', '->', 'name', 'end']

What a book or a paper pastes reads too: ``\\cdot``, ``\\times``, ``\\rightarrow``, ``\\text{…}``, ``X_{[B, D]}`` and
``$``. A line break separates statements as ``;`` does, except inside brackets. ``#`` starts a comment.
"""

from __future__ import annotations

import re

from roofline.counts import plain
from roofline.errors import NotationError
from roofline.frozen import NamedTuple
from roofline.notation.structure import Span

#: A line longer than this is a file given by mistake, not a question.
LONGEST = 200_000

LONGEST_NAME = 100


class Token(NamedTuple):
    """One token: what it is, its text, where it starts and ends; ``over`` holds the dims of ``·_{D,E}``."""

    kind: str
    text: str
    start: int
    end: int
    over: tuple[str, ...] | None = None


_LATEX = {
    "cdot": "contract", "times": "contract", "bullet": "contract", "ast": "contract", "cdotp": "contract",
    "rightarrow": "->", "to": "->", "longrightarrow": "->", "Rightarrow": "->", "div": "/",
    "{": "{", "}": "}", "_": "_", ",": "", ";": "", ":": "", "!": "", "quad": "", "qquad": "", " ": "",
}  # fmt: skip

_TEXT_MACROS = frozenset(("text", "textrm", "textbf", "textit", "texttt", "mathrm", "mathbf", "mathit", "mathtt", "bf"))

_SYMBOLS = {
    "->": "->", "-->": "->", "→": "->", "⟶": "->", "⇒": "->",
    "+": "add", "-": "subtract", "−": "subtract", "/": "divide", "÷": "divide",
    "(": "(", ")": ")", "[": "[", "]": "]", "{": "{", "}": "}", ",": ",", ":": ":", ";": ";", "=": "=",
}  # fmt: skip

_CONTRACT = "*@.·•×⨯⋅∙∗"

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v\u00a0\u2009\u202f$]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<number>[0-9](?:_?[0-9])*(?:\.[0-9]+)?(?:[eE][+]?[0-9]+)?)"
    r"|(?P<name>[^\W\d]\w*|%[0-9]{1,6}(?!\w))"
    r"|(?P<latex>\\(?:[A-Za-z]+|[{}_,;:! ]))"
    rf"|(?P<contract>[{_CONTRACT}])"
    r"|(?P<symbol>-->|->|[→⟶⇒+\-−/÷()\[\]{},:;=])"
)

_OVER = r"_(?:\{([^{}\n]{0,200})\}|([^\W_]\w*))"
#: What stands behind an x that is a product: ``bf16[B, D] x bf16[D, F]``.
_TENSOR_FOLLOWS = re.compile(r"[ \t]+(?:[^\W\d]\w*)?\[")
_CLAUSE_TARGET = r"[ \t]+([^\W_][^\s;]*|[~./][\w./~][^\s;]*)"
_WORD = r"[^\W\d]\w*"
_OPERAND_ENDS = frozenset(("name", "]", ")", "}", ";", "newline", "number", "target"))


def tokenize(text: str) -> list[Token]:
    """Cut ``text`` into tokens; the last one is of kind ``end``.

    Kinds: ``name number contract add subtract divide -> ( ) [ ] { } , : ; = newline target end``. A ``target`` is
    the word after ``on``, taken whole (``v5e:4x4``, ``dgx-h100:64``, a path).

    Raises :class:`~roofline.errors.NotationError` for a character that begins nothing.
    """
    if len(text) > LONGEST:
        raise NotationError(f"the text has {len(text)} characters, more than {LONGEST} can be read")
    tokens: list[Token] = []
    open_braces: list[bool] = []  # for every open brace: does it belong to a \text{ that is dropped?
    brackets = 0
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unexpected(text, position)
        kind, word, start, position = str(found.lastgroup), found.group(), position, found.end()
        over = None
        if kind == "space":
            continue
        if kind == "newline":
            if not brackets:
                tokens.append(Token("newline", word, start, position))
            continue
        if kind == "latex":
            command = word[1:]
            if command in _TEXT_MACROS and text[position : position + 1] == "{":
                open_braces.append(True)
                position += 1
                continue
            known = _LATEX.get(command)
            if known is None:
                hint = "\\cdot, \\times, \\rightarrow and \\text{…} are read"
                raise NotationError(f"unknown LaTeX command {word}", text=text, position=start, hint=hint)
            if known in ("", "_"):
                continue
            kind = known
        elif kind == "symbol":
            kind = _SYMBOLS[word]
        elif kind == "name":
            if not word.isidentifier() and word[0] != "%":
                raise _unexpected(text, start)
            if len(word) > LONGEST_NAME:
                message = f"a name of {len(word)} characters; {LONGEST_NAME} is the most"
                raise NotationError(message, text=text, position=start)
            if len(word) > 1 and word[-1] == "_" and text.startswith("{[", position):
                open_braces.append(True)
                word, position = word[:-1], position + 1
            if word in ("x", "X") and tokens and tokens[-1].kind == "]" and _TENSOR_FOLLOWS.match(text, position):
                kind, word = "contract", "*"
            ends = not tokens or tokens[-1].kind in _OPERAND_ENDS
            target = re.compile(_CLAUSE_TARGET).match(text, position) if word == "on" and ends else None
            if target:
                tokens.append(Token("name", word, start, position))
                kind, word, start, position = "target", target.group(1), target.start(1), target.end()
        if kind == "contract":
            named = re.compile(_OVER).match(text, position) if text[position : position + 1] == "_" else None
            if named:
                over = _over_labels(text, named)
                word, position = text[start : named.end()], named.end()
        elif kind in "([":
            brackets += 1
        elif kind in ")]":
            brackets = max(0, brackets - 1)
        elif kind == "{":
            open_braces.append(False)
        elif kind == "}" and open_braces and open_braces.pop():
            position = _join_suffix(text, position, tokens)
            continue
        tokens.append(Token(kind, word, start, position, over))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _join_suffix(text: str, position: int, tokens: list[Token]) -> int:
    """Put ``_X`` after ``\\text{AllGather}`` back onto the name; return where reading goes on."""
    suffix = re.compile(_WORD).match(text, position)
    if not (suffix and suffix.group()[0] == "_" and tokens and tokens[-1].kind == "name"):
        return position
    last = tokens[-1]
    tokens[-1] = Token("name", last.text + suffix.group(), last.start, suffix.end())
    return suffix.end()


def _over_labels(text: str, found: re.Match[str]) -> tuple[str, ...]:
    inside = found.group(1)
    if inside is None:
        return (found.group(2),)
    labels = tuple(label.strip() for label in inside.split(","))
    for label in labels:
        if not re.fullmatch(_WORD, label):
            message = f"expected the dimensions of a named contraction, as in ·_{{D,E}}, not {label!r}"
            raise NotationError(message, text=text, position=found.start(1))
    return labels


LABELS = "an einsum is written with its labels, as in bf16[B, D] * bf16[D, F] -> bf16[B, F]"

#: What to write in place of a matrix that is transposed for a product.
TRANSPOSED = "labels say what meets what: bf16[B, D] * bf16[B, F] -> bf16[D, F] contracts B"


def _unexpected(text: str, position: int) -> NotationError:
    character = text[position]
    shown = character if character.isprintable() else f"character U+{ord(character):04X}"
    is_size = text.rfind("[", 0, position) > text.rfind("]", 0, position)
    power = TRANSPOSED if re.match(r"\^\s*\{?\s*(T|\\top)\b", text[position:]) else "a power is power(a, b)"
    hint = {
        "<": "a comparison is compare(a, b)",
        ">": "the result follows ->",
        "^": "name the size and give it beside the line: N=2^10" if is_size else power,
        **dict.fromkeys("&|", "statements are separated by ;"),
        **dict.fromkeys("'\"", LABELS),
        **dict.fromkeys("“”„«»‘’", "quotes of a word processor; straight ones go round the whole line"),
        **dict.fromkeys("–—", "a dash of a word processor; a difference is written with -"),
    }.get(character, "")
    return NotationError(f"unexpected {shown!r}" if len(shown) == 1 else f"unexpected {shown}",
                         text=text, position=position, hint=hint)  # fmt: skip


#: Brackets and calls may be nested this deep, and one statement may hold this many operators.
DEEPEST = 32

MOST_OPERATORS = 100

_SPLIT = "split it into statements: h = …; …"


class Cursor:
    """Walks over the tokens of a text; ``depth`` and ``operators`` keep recursion bounded."""

    __slots__ = ("depth", "index", "operators", "text", "tokens")

    def __init__(self, text: str) -> None:
        self.text = plain(text)
        self.tokens = tokenize(self.text)
        self.index = 0
        self.depth = 0
        self.operators = 0

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.index]

    def peek(self, ahead: int = 1) -> Token:
        """Look at a later token; past the end it is the ``end`` token."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Read one token."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, kind: str) -> Token | None:
        """Read one token if it is of this kind."""
        return self.advance() if self.token.kind == kind else None

    def expect(self, kind: str, expected: str) -> Token:
        """Read one token of this kind or say what was expected."""
        if self.token.kind != kind:
            raise self.expected(expected)
        return self.advance()

    def touches(self) -> bool:
        """Say whether the next token begins where the one before it ended."""
        return self.index > 0 and self.token.start == self.tokens[self.index - 1].end

    def skip_newlines(self) -> None:
        """Pass over line breaks, where an expression cannot end."""
        while self.token.kind == "newline":
            self.index += 1

    def span_from(self, start: int) -> Span:
        """The span from ``start`` to the end of the last token read."""
        return Span(start, max(start, self.tokens[self.index - 1].end if self.index else 0))

    def fail(self, message: str, *, at: int | None = None, hint: str = "") -> NotationError:
        """Make the error that points at the next token, or at ``at``."""
        return NotationError(message, text=self.text, position=self.token.start if at is None else at, hint=hint)

    def expected(self, what: str, *, hint: str = "") -> NotationError:
        """Make the error that says what should stand at the next token, and what stands there."""
        return self.fail(f"expected {what}, found {describe(self.token)}", hint=hint)

    def count_operator(self) -> None:
        """Count one operator of the statement at hand."""
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise self.fail(f"more than {MOST_OPERATORS} operators in one statement", hint=_SPLIT)

    def descend(self) -> None:
        """Go one bracket deeper."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.fail(f"brackets nested more than {DEEPEST} deep", hint=_SPLIT)

    def ascend(self) -> None:
        """Come one bracket back."""
        self.depth -= 1


def describe(token: Token) -> str:
    """Name a token in a message."""
    if token.kind == "end":
        return "the end of the text"
    if token.kind == "newline":
        return "the end of the line"
    return f"'{token.text}'" if len(token.text) <= 32 else f"'{token.text[:32]}…'"
