"""A place in a list of tokens, and the error that points at it."""

from __future__ import annotations

from roofline.errors import NotationError
from roofline.letters import plain
from roofline.notation.structure import Span
from roofline.notation.tokens import Token, tokenize

#: Brackets and calls may be nested this deep, and one statement may hold this many operators.
DEEPEST = 32
MOST_OPERATORS = 100


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
            raise self.fail(f"expected {expected}")
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
        position = self.token.start if at is None else at
        if at is None and message.startswith("expected "):
            message = f"{message}, found {describe(self.token)}"
        return NotationError(message, text=self.text, position=position, hint=hint)

    def count_operator(self) -> None:
        """Count one operator of the statement at hand."""
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise self.fail(
                f"more than {MOST_OPERATORS} operators in one statement",
                at=self.token.start,
                hint="split it into statements: h = …; …",
            )

    def descend(self) -> None:
        """Go one bracket deeper."""
        self.depth += 1
        if self.depth > DEEPEST:
            hint = "split it into statements: h = …; …"
            raise self.fail(f"brackets nested more than {DEEPEST} deep", at=self.token.start, hint=hint)

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
