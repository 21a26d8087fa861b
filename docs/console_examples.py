"""Console examples in colour and at a phone's width; wide tables on a phone as lists; pictures in both themes.

The colours are those of a terminal: the subject strong, what binds or does not fit red, assumptions quiet. An example
with a table wider than a phone is run, what it prints is laid out for a phone's columns too, and a phone shows that.
"""

from __future__ import annotations

import difflib
import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from html import escape
from pathlib import Path
from typing import Any
from unittest import mock

from docutils import nodes
from pygments.lexer import Lexer
from pygments.token import Comment, Generic, Keyword, Name, String, Text, Whitespace, _TokenType
from rich.console import Console
from tests.doc_blocks import Block, Command, agrees, commands, prepare, run, trimmed

from roofline.charts.drawing import THEMES, Theme
from roofline.cli import main

#: Columns of a terminal that a phone of 390 px shows in the type of `pages.css`.
PHONE = 56

#: A line of output that begins farther to the right belongs to a column of a table.
SET_IN = 8

_BAR = "█▉▊▋▌▍▎▏▐░▒▓"
_WORD = re.compile(r"(?P<option>(?<!\S)-{1,2}[\w-]+)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<plain>\s+|[^\s\"']+|.)")

#: What is said behind a command.
_REMARK = re.compile(r"(?<=\s)# .*")

#: Parts of an answer that stand in a tone of their own, by the word before them.
_LISTS = {
    "assumes": Comment, "measured": Comment, "started from": Comment,
    "incomplete": Generic.Traceback, "left out": Generic.Traceback,
}  # fmt: skip
_LIST = re.compile(rf"(?P<indent> *)(?P<name>{'|'.join(_LISTS)})(?: {{2,}}|$)")

_INLINE = re.compile(
    rf"(?P<bar>[{_BAR}]+)"
    r"|(?P<alert>\bbinds\b|DOES NOT FIT|(?i:\bdoes not fit\b|\bdo not fit\b)|^error:)"
    r"|(?P<warning>^\s*(?:warning|note):)"
    r"|(?P<strong>(?:(?<=at best )|(?<=expect )|(?<=measured ))[~]?[\d,.]+ ?[\wµ/%]+)"
    r"|(?P<gain>(?<![\w.])\d[\d,.]*x(?!\w| the (?:cost|chips)))"
    r"|(?P<option>(?<![\w-])--[a-z][\w-]*)"
)
_KINDS = {
    "bar": Comment.Special,
    "alert": Generic.Error,
    "warning": Generic.Traceback,
    "strong": Generic.Strong,
    "gain": Generic.Inserted,
    "option": Name.Tag,
}
_Token = tuple[int, _TokenType, str]

#: A row or a column of times over the least, in which more is no gain.
_OVER_THE_LEAST = re.compile(r"(?:^| ) +(?:times the least|over the(?: fastest| {2,}|$))")


#: The headline of a further answer of one command, such as `fsdp: weights are gathered  on TPU v5p`.
_HEADLINE = re.compile(r"\S.*?  on \S[^,]*$")


class ConsoleLexer(Lexer):
    """Commands after ``$``, and what they show."""

    name = "Console examples of roofline"
    aliases = ("console",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[_Token]:
        at, continues, first, listed, below, gains = 0, False, False, (Text, -1), False, True
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            asks = line.startswith("$ ") or continues
            if asks:
                yield from _command(line, at, Generic.Heading if below else Generic.Prompt)
                continues, first, listed, gains = line.rstrip().endswith("\\"), True, (Text, -1), True
            else:
                found = _LIST.match(line)
                if found:
                    listed = _LISTS[found["name"]], len(found["indent"])
                elif not line.strip() or len(line) - len(line.lstrip()) <= listed[1]:
                    listed = (Text, -1)
                gains = not line.strip() or (gains and not _OVER_THE_LEAST.search(line))
                tone = Comment if listed[0] is Text and is_head(lines, number) else listed[0]
                yield from _output(line, at, first or is_headline(lines, number), tone, gains)
                first = first and not line.strip()
            at, below = at + len(line), bool(line.strip()) and not asks


def is_headline(lines: Sequence[str], number: int) -> bool:
    """Whether a line begins or goes on with the headline of a further answer, which may be wrapped.

    >>> lines = ["...", "fsdp: weights are", "gathered  on TPU v5p", "  plan  AllGather"]
    >>> [is_headline(lines, number) for number in range(4)]
    [False, True, True, False]
    """
    line = lines[number]
    begins = not line.startswith((" ", "$ ", "...")) and bool(line.strip())
    return begins and (bool(_HEADLINE.match(line)) or (number + 1 < len(lines) and is_headline(lines, number + 1)))


def _columns(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


class CommandLexer(Lexer):
    """Commands without a prompt, which no page shows the output of."""

    name = "Commands of roofline"
    aliases = ("commands",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[_Token]:
        at = 0
        for line in text.splitlines(keepends=True):
            yield from _command(line, at, Generic.Prompt)
            at += len(line)


def _command(line: str, at: int, prompt: _TokenType) -> Iterator[_Token]:
    """A command in words: the prompt (that of a heading right below an output), the program, options and strings.

    Each word of a string is one of its own, so that a line breaks between them and never inside ``->``.
    """
    start = 2 if line.startswith("$ ") else 0
    if start:
        yield at, prompt, line[:2]
    program = bool(start)
    said = _REMARK.search(line)
    end = said.start() if said else len(line)
    option = False
    for word in _WORD.finditer(line, start, end):
        kind = Name.Attribute if word["option"] else String if word["string"] else Name
        if program and not word[0].isspace():
            kind, program = Keyword, False
        for part in re.finditer(r"\s+|\S+", word[0]):
            blank = Whitespace if option else Text  # the one behind an option keeps what it takes on its line
            yield at + word.start() + part.start(), blank if part[0].isspace() else kind, part[0]
        option = bool(word["option"])
    if said:
        yield at + end, Comment.Single, said[0]
        yield at + said.end(), Text, line[said.end() :]


def _output(line: str, at: int, first: bool, listed: _TokenType, gains: bool) -> Iterator[_Token]:
    """A line of output; ``listed`` is the tone of the list it stands in, ``first`` says that it is the headline.

    ``gains`` says whether a factor in it is one.
    """
    if line.strip() == "..." or listed is not Text:
        yield at, listed if listed is not Text else Comment, line
    elif first and line.strip() and not line.startswith((" ", "\\", "error:", "wrote ", "import ", "function ")):
        subject = _columns(line)[0]
        yield at, Generic.Strong, subject
        yield at + len(subject), Text, line[len(subject) :]
    else:
        done, plain = 0, Generic.Output if is_sentence(line) else Text
        binds = line.rstrip().endswith("binds")
        for found in _INLINE.finditer(line):
            yield at + done, plain, line[done : found.start()]
            kind = Generic.Error if found.lastgroup == "bar" and binds else _KINDS[found.lastgroup or ""]
            yield at + found.start(), kind if gains or found.lastgroup != "gain" else plain, found[0]
            done = found.end()
        yield at + done, plain, line[done:]


def is_head(lines: Sequence[str], number: int) -> bool:
    """Whether a line is one of at most three with the names of a table's columns, above its first figures.

    >>> lines = ["a model", "", "  layer     FLOPs  bytes", "      at best  bound by", "  norm   1 MFLOP  2 MB"]
    >>> [is_head(lines, number) for number in range(5)]
    [False, False, True, True, False]
    >>> words = ["$ roofline s", "  name  meaning  unit", "  dp  data  batch", "  tp  tensor  F", "  ep  expert  F"]
    >>> [is_head(words, number) for number in range(1, 5)]
    [True, False, False, False]
    """
    start = end = number
    while start and _names_columns(lines[start - 1]):
        start -= 1
    while end < len(lines) and _names_columns(lines[end]):
        end += 1
    above = lines[start - 1] if start else ""
    below = lines[end] if end < len(lines) else ""
    columns = sum(len(_columns(line)) for line in lines[start:end])
    if end > start + 3:  # a table of words alone: right below its command the first line is the head
        return number == start and above.startswith("$ ") and len(_columns(lines[number])) > 2
    starts = not above.strip() or above.startswith("$ ") or is_sentence(above)
    return number < end and columns > 2 and starts and bool(re.search(r"\d", below))


def _names_columns(line: str) -> bool:
    return not is_sentence(line) and not re.search(r"\b\d", line)


class _TwoWidths(io.StringIO):
    """Standard output of one run: what it shows in 100 columns, and in ``narrow`` what it shows on a phone."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = io.StringIO()
        self.wide_only = False

    def write(self, text: str) -> int:
        if not self.wide_only:
            self.narrow.write(text)
        return super().write(text)


_print = Console.print


def _print_twice(console: Console, *said: Any, **how: Any) -> None:
    """Print, and print again for a phone where somebody listens."""
    both = console.file
    if isinstance(both, _TwoWidths):
        both.wide_only = True
        _print(console, *said, **how)
        both.wide_only = False
        Console(file=both.narrow, width=PHONE, highlight=False, markup=False).print(*said, **how)
    else:
        _print(console, *said, **how)


def narrow(command: Command) -> tuple[str, ...] | None:
    """What a command shows on a phone, elided as the page elides it; None where the page's is not what it shows."""
    both = _TwoWidths()
    with mock.patch.object(Console, "print", _print_twice):
        wide = run(main, command.text, into=both)
    if not agrees(command, wide):
        return None
    lines = trimmed(both.narrow.getvalue().splitlines())
    if any(is_too_wide(line) for line in lines):  # what no console laid out: a chart of signs, a help text
        lines = run(main, command.text, PHONE).lines
    return tuple(elided(command.expected, wide.lines, lines))


def is_too_wide(line: str) -> bool:
    """Whether a line is a row of a table that is wider than a phone; a sentence goes on below by itself."""
    return len(line) > PHONE and not is_sentence(line)


def is_sentence(line: str) -> bool:
    """Whether a line of output has one column, and goes on with none of the row above."""
    return len(_columns(line)) == 1 and len(line) - len(line.lstrip()) < SET_IN


def elided(expected: Sequence[str], wide: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """The lines whose words stand in those that the page keeps; ``...`` for the others.

    >>> list(elided(("a b", "...", "e f g"), ("a b", "c d", "e f g"), ("a", "b", "c", "d", "e f", "g")))
    ['a', 'b', '...', 'e f', 'g']

    A table that goes on below keeps the same rows in each of its parts:

    >>> list(elided(("n x y", "a 1 5", "..."), ("n x y", "a 1 5", "b 2 6"), ("n x", "a 1", "b 2", "n y", "a 5", "b 6")))
    ['n x', 'a 1', '...', 'n y', 'a 5', '...']
    """
    if not any(line.strip() == "..." for line in expected):
        yield from lines
        return
    shown, kept = iter(expected), set()
    awaited = next(shown, None)
    skipping = False
    for number, line in enumerate(wide):
        while awaited is not None and awaited.strip() == "...":
            awaited, skipping = next(shown, None), True
        if line == awaited:
            kept.add(number)
            awaited, skipping = next(shown, None), False
        elif not skipping:
            break
    votes = _votes([(word, line in kept) for line, said in enumerate(wide) for word in _words(said)], lines)
    blank, left_out = False, False
    for number, line in enumerate(lines):
        if votes[number] > 0:
            yield from [""] if blank and not left_out else []
            yield line
            blank = left_out = False
        elif not line.strip():
            blank = True
        elif not left_out:
            yield "..."
            left_out = True


def _votes(words: Sequence[tuple[str, bool]], lines: Sequence[str]) -> dict[int, int]:
    """How many more words of each line are kept than are not.

    Words stand in the same order, but for a table that goes on below or a cell that does: what finds no words is looked
    for again among those that nothing has found, and at last among all.

    >>> said = [("keys", True), ("values", True), ("2x", True), ("why", True), ("values", False)]
    >>> _votes(said, ["keys 2x", "values", "why"])
    {0: 1, 1: 1, 2: 1}
    """
    votes: dict[int, int] = {}
    left = [*words]
    while True:
        sought = [(word, number) for number, line in enumerate(lines) if number not in votes for word in _words(line)]
        pair = ([word for word, _ in left], [word for word, _ in sought])
        blocks = difflib.SequenceMatcher(None, *pair, autojunk=False).get_matching_blocks()
        taken = [(a + place, b + place) for a, b, size in blocks for place in range(size)]
        found: dict[int, int] = {}
        for one, other in taken:
            number = sought[other][1]
            found[number] = found.get(number, 0) + (1 if left[one][1] else -1)
        votes |= found
        if not found and left == [*words]:
            return {number: votes.get(number, 0) for number in range(len(lines))}
        gone = {one for one, _ in taken}
        left = [each for place, each in enumerate(left) if place not in gone] if found else [*words]


def _words(line: str) -> list[str]:
    return [word if word.strip(_BAR) else "█" for word in line.split()]


def for_a_phone(app: Any, doctree: nodes.document) -> None:
    """Put beside an example whose tables are too wide what it shows on a phone; the style shows one of the two."""
    found = [node for node in doctree.findall(nodes.literal_block) if node.get("language") == "console"]
    found = [node for node in found if any(map(is_too_wide, node.astext().splitlines()))]
    if app.tags.has("check"):  # tests hold examples to their pages; nobody reads this build on a phone
        found = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        prepare(Path(folder))
        for node in found:
            lines: list[str] = []
            for command in commands(Block("console", tuple(node.astext().splitlines()), 0)):
                shown: tuple[str, ...] | None = command.expected
                if command.is_ours:
                    shown = narrow(command)
                if shown is None:
                    break
                lines += ["", f"$ {command.text}", *shown]
            else:
                text = "\n".join(lines[1:])
                fresh = nodes.literal_block(text, text, language="console", classes=["on-a-phone"])
                node["classes"].append("on-a-desk")
                node.parent.insert(node.parent.index(node) + 1, fresh)


def without_blank_ends(app: Any, doctree: nodes.document) -> None:
    """Take away the blank line that ends an example in Python, where its output would else go on."""
    for node in doctree.findall(nodes.literal_block):
        said = node.astext().rstrip("\n")
        node.rawsource, node[:] = said, [nodes.Text(said)]


def pictures_of_both_themes(app: Any, doctree: nodes.document) -> None:
    """Put beside each chart the same in the colours of the dark theme; furo shows one of the two.

    On a phone both are those of a phone's width, in letters that can be read there.
    """
    up = "../" * app.env.docname.count("/")
    for image in list(doctree.findall(nodes.image)):
        name = Path(image["uri"]).name
        if not isinstance(image.parent, nodes.reference):  # a picture opens by itself, where a phone can enlarge it
            image.replace_self(nodes.reference("", "", image.deepcopy(), refuri=f"{up}_images/{name}"))
    for image in [each for each in doctree.findall(nodes.image) if each["uri"].endswith(".svg")]:
        link, name = image.parent, Path(image["uri"]).name
        link["classes"].append("only-light")
        is_own = "_images/" in link["refuri"]

        def drawn(theme: str, folder: str, link: Any = link, image: Any = image, own: str = name * is_own) -> str:
            target = f"{up}{folder}{own}" if own else link["refuri"]
            said = (
                f'<img alt="{escape(image.get("alt", ""))}" src="{up}{folder}{Path(image["uri"]).name}" loading="lazy">'
            )
            return f'<a class="only-{theme}" href="{target}">{said}</a>'

        phone = f'<span class="on-a-phone">{drawn("light", "phone/")}{drawn("dark", "dark/phone/")}</span>'
        at = link.parent.index(link)
        link.parent.insert(at + 1, nodes.raw("", f"{drawn('dark', 'dark/')}</span>{phone}", format="html"))
        link.parent.insert(at, nodes.raw("", '<span class="on-a-desk">', format="html"))


def in_dark(drawn: str) -> str:
    """A chart's SVG in the colours of the dark theme."""
    light, dark = (_colours(THEMES[name]) for name in ("light", "dark"))
    return re.sub("|".join(light), lambda found: dark[light.index(found[0])], drawn)


def _colours(theme: Theme) -> list[str]:
    regions = [colour for of in (theme.regions, theme.region_text) for colour in of.values()]
    return [theme.background, theme.text, theme.muted, theme.grid, theme.axis, *theme.series, *theme.shades, *regions]


#: Letters of a word of code that a column of a phone's table holds, by the number of columns; a longer one may break.
LONGEST_WORDS, LONGEST_WORD = {2: 22, 3: 14, 4: 12}, 8

#: Letters of the longest words of all columns that stand beside each other on a phone, by the number of columns.
ROOM, SHORTEST_COLUMN = {2: 42, 3: 37, 4: 40}, 6

#: Letters that the edges of a piece of code are as wide as.
EDGES = 2

#: Letters of an entry, such as a figure with its unit, that stays on one line of a desk's table.
SHORT = 10

#: Columns of a table from which on a phone shows a list in its place.
WIDE_TABLE = 5

_FIGURE = re.compile(r"[-+~]?[\d.,]+(?: ?[%xkMBT]| of \d+)?$")


def tables_for_a_phone(app: Any, doctree: nodes.document) -> None:
    """Put beside a table whose columns have no room a list of its rows, each figure behind its column's name.

    Of all tables, code that is wider than a column may break; where every other word has room none does.
    """
    for table in doctree.findall(nodes.table):
        longest = LONGEST_WORDS.get(len(next(iter(table.findall(nodes.row)))), LONGEST_WORD)
        for code in table.findall(nodes.literal):
            if any(len(word) > longest for word in code.astext().split()):
                code["classes"].append("long")
        for entry in table.findall(nodes.entry):
            entry["classes"] += ["short"] if len(entry.astext()) <= SHORT else []
        if have_room([[_words_that_stay(entry) for entry in row.children] for row in table.findall(nodes.row)]):
            table["classes"].append("whole-words")
    found = [
        (table, [list(row.children) for row in table.findall(nodes.row)]) for table in doctree.findall(nodes.table)
    ]
    heads = [[entry.astext() for entry in rows[0]] for _, rows in found]
    # of tables with the same columns on a page all are lists, or none
    lists = [head for head, (table, _) in zip(heads, found, strict=True) if "whole-words" not in table["classes"]]
    for table, (head, *rows) in found:
        if len(head) >= WIDE_TABLE or (len(head) > 2 and [entry.astext() for entry in head] in lists):
            said = [[entry.astext() for entry in row] for row in rows]
            names = _columns_of_names(said) if len(head) >= WIDE_TABLE else 1
            table["classes"].append("on-a-desk")
            items = [_row_in_words([entry.astext() for entry in head], row, names) for row in rows]
            fresh = nodes.bullet_list("", *items, classes=["on-a-phone"], bullet="-")
            table.parent.insert(table.parent.index(table) + 1, fresh)


def have_room(rows: Sequence[Sequence[Sequence[str]]]) -> bool:
    """Whether the longest words of a table's columns stand beside each other on a phone.

    >>> have_room([[["word"], ["meaning"]], [["interval"], ["where", "80%", "lie"]]]), have_room([[["a" * 40], []]])
    (True, False)
    """
    longest = [max(len(word) for words in column for word in words or [""]) for column in zip(*rows, strict=True)]
    return sum(max(letters, SHORTEST_COLUMN) for letters in longest) <= ROOM.get(len(longest), 0)


def _words_that_stay(entry: nodes.Element) -> list[str]:
    """The words of an entry that do not break, those of code with its edges; none of what is set between as HTML."""
    found = []
    for text in entry.findall(nodes.Text):
        if isinstance(text.parent, nodes.literal):
            words = _BREAKS.split(text) if "long" in text.parent["classes"] else text.split()
            found += [word + " " * EDGES for word in words]
        elif not isinstance(text.parent, nodes.raw):
            found += text.split()
    return found


_BREAKS = re.compile(r"(?<=[._/,=:|])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z][a-z])")
_CODE = re.compile(
    r'<code class="(?:[^"]* )?(?:long|xref)\b[^"]*">.*?</code>|<span class="sig-prename\b[^"]*">.*?</span></span>',
    re.DOTALL,
)

#: A name that may break, alone or as a link, with the bracket before it and the comma or full stop behind it.
_NAME = r"<code [^>]*>(?:(?!</code>).)*<wbr>(?:(?!</code>).)*</code>"
_NAME = rf"(?:{_NAME}|<a [^>]*>{_NAME}</a>)"
_SIGNS = re.compile(rf"\({_NAME}[,.;:)]*|{_NAME}[,.;:)]+")


def names_that_break(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a path or a dotted name that is wider than its column break between its words."""
    for number, (letter, entries) in enumerate(context.get("genindexentries", ())):
        context["genindexentries"][number] = (letter, [_with_breaks(entry) for entry in entries])
    if "body" in context:
        word = re.compile(r'(?<=<span class="pre">)[^<]+')
        context["body"] = _CODE.sub(
            lambda code: word.sub(lambda found: _BREAKS.sub("<wbr>", found[0]), code[0]), context["body"]
        )
        context["body"] = _SIGNS.sub(r'<span class="with-signs">\g<0></span>', context["body"])


def _with_breaks(entry: Sequence[Any]) -> tuple[Any, ...]:
    """An entry of the index, and what stands below it, whose dotted names may break behind their dots.

    >>> _with_breaks(("lower (roofline.bounds.Bound attribute)", ([], [], None)))[0].split("\\u200b")
    ['lower (roofline.', 'bounds.', 'Bound attribute)']
    """
    name, (links, below, key) = entry
    below = [(re.sub(r"\.(?=\w)", ".\u200b", each), *rest) for each, *rest in below]
    return re.sub(r"\.(?=\w)", ".\u200b", name), (links, below, key)


def _columns_of_names(rows: Sequence[Sequence[str]]) -> int:
    """How many columns say what a row is of: those before the first whose entries are all figures.

    >>> _columns_of_names([["vllm", "bf16", "350", "6.7"], ["torch", "", "1", ""]])
    2
    """
    figures = (all(_FIGURE.match(said) for said in column if said) for column in zip(*rows, strict=True))
    return max(1, next((number for number, found in enumerate(figures) if found), 1))


def _row_in_words(head: Sequence[str], row: Sequence[Any], names: int) -> nodes.list_item:
    """A row as an item of a list: its names strong, then what stands in each column that is not empty.

    The column's name stands before it, but for one such as ``what it is``.
    """
    parts = [[part.deepcopy() for inner in e.children for part in inner.children] for e in row[:names] if e.astext()]
    joined = [part for number, each in enumerate(parts) for part in (*[nodes.Text(", ")] * bool(number), *each)]
    said = nodes.paragraph("", "", nodes.strong("", "", *joined))
    for name, entry in zip(head[names:], row[names:], strict=True):
        if entry.astext():
            named = [] if name.startswith("what ") else [nodes.inline("", f"{name}: ", classes=["column"])]
            said += [nodes.Text(" · "), *named]
            said += [part.deepcopy() for inner in entry.children for part in inner.children]
    return nodes.list_item("", said)


def setup(app: Any) -> dict[str, bool]:
    """Register the lexer and the second output."""
    app.add_lexer("console", ConsoleLexer)
    app.connect("doctree-read", without_blank_ends)
    app.add_lexer("commands", CommandLexer)
    app.connect("doctree-read", for_a_phone)
    app.connect("doctree-read", pictures_of_both_themes)
    app.connect("doctree-read", tables_for_a_phone)
    app.connect("html-page-context", names_that_break)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
