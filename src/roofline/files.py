"""Files of other people, read within limits, and files of our own, written whole or not at all.

A file may be cut short, of another kind, or made to do harm. What does not read is an error that names the file, says
where it breaks and which limit it crosses; no file takes more memory or time than its limit allows. The limits:

====================  =====================================  ==========================================
limit                 value                                  what it stops
====================  =====================================  ==========================================
:data:`MOST_BYTES`    by kind of file, once it is unpacked   packed files that grow, devices without end
:data:`MOST_MEMORY`   2 GB for the values of a JSON file     many small lists: each takes 64 bytes
:data:`MOST_ROWS`     2,000,000 rows of a table              tables of empty rows
:data:`MOST_DIGITS`   300 digits of a number                 numbers that no float holds
:data:`MOST_PARTS`    32 parts of a dotted TOML key          keys whose reading takes the square of their length
:data:`MOST_LAYERS`   10,000 layers of a model               lists of a billion layers, ``{0-3000000000}``
:data:`MOST_REPEATS`  4 repeats of an expression, no nested  regular expressions that go back and forth for hours
====================  =====================================  ==========================================

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "config.json")
>>> with replaced(path) as part, open(part, "w") as file:
...     _ = file.write('{"hidden_size": 64}')
>>> read_json(path, "configuration")
{'hidden_size': 64}
>>> os.listdir(os.path.dirname(path))
['config.json']
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from roofline.errors import InputError, quoted

#: Endings of pictures.
PICTURES = (".svg", ".png", ".pdf")

#: The most bytes of a file by its kind, unpacked. The largest published configuration has 2 MB.
MOST_BYTES = {
    "configuration": 16_000_000,
    "machine file": 1_000_000,
    "file of constants": 1_000_000,
    "table": 512_000_000,
    "trace": 1_000_000_000,
    "ONNX file": 2**31,
}
MOST_MEMORY = 2_000_000_000
MOST_ROWS = 2_000_000
#: Rows of a file that constants are fitted to.
MOST_SAMPLES = 200_000
#: Layers of a model, and numbers of layers that a pattern lists.
MOST_LAYERS = 10_000
#: Repeats (``*``, ``+``, ``?``, ``{}``) and alternatives of a regular expression: its time is a power of their number.
MOST_REPEATS, MOST_ALTERNATIVES = 4, 16
#: Regular expressions that a configuration lists.
MOST_PATTERNS = 1_000
#: Units, levels of memory or links of a chip.
MOST_TABLES = 100
MOST_DIGITS = 300
MOST_PARTS = 32

#: Bytes of memory that Python takes for a value that begins or follows such a sign in JSON.
_MEMORY = {b"{": 240, b"[": 72, b",": 40, b":": 24}

#: What pipes held that were read, by their numbers.
_PIPES: dict[tuple[int, int], bytes] = {}

_PACKED = b"\x1f\x8b"
#: Each begins where a word begins, so that a long word is read once, and with what is quick to look for.
_LONG_NUMBERS = (rf"[0-9_](?<![0-9_]{{2}})[0-9_]{{{MOST_DIGITS}}}", r"0[xX](?<![0-9A-Za-z_].{2})[0-9A-Fa-f_]{250}")
_LONG_KEY = rf"""(?<![\w"'.-])(?:[\w"'-]+[ \t]*\.[ \t]*){{{MOST_PARTS}}}"""


def _may_wait(name: str) -> bool:
    """Whether a path is a device, or a pipe that may have no writer; one that a shell opens (``<(…)``) has one."""
    mode = os.stat(name).st_mode
    is_open = stat.S_ISFIFO(mode) and name.startswith(("/dev/", "/proc/"))
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_open)


def read_bytes(
    path: str | os.PathLike[str], kind: str, *, error: type[InputError] = InputError, hint: str = "check the path"
) -> bytes:
    """Read a whole file of a kind in :data:`MOST_BYTES`; one that is packed by gzip is unpacked.

    ``hint`` says what to do where there is no such file.
    """
    name, most = os.path.expanduser(os.fspath(path)), MOST_BYTES[kind]
    content = None
    try:
        if not _may_wait(name):
            with open(name, "rb") as file:
                content, status = _read(file, most), os.fstat(file.fileno())
            if stat.S_ISFIFO(status.st_mode):  # a pipe gives its content once
                pipe = status.st_dev, status.st_ino
                content = _PIPES[pipe] = content or _PIPES.get(pipe, b"")
    except OSError as wrong:
        raise error(f"cannot read {name!r}: {wrong.strerror}", hint=hint) from None
    except ValueError as wrong:  # a path with a null character
        raise error(f"cannot read {quoted(name)}: {wrong}", hint=hint) from None
    if content is None:
        raise error(f"cannot read {name!r}: it is a device or a pipe, no file", hint="write it to a file first")
    if content.startswith(_PACKED) and len(content) <= most:
        content = _unpacked(content, name, most, error)
    if len(content) > most:
        raise error(f"{name} is too large", hint=f"a {kind} has at most {most:,} bytes, unpacked")
    return content


def _read(file: BinaryIO, most: int) -> bytes:
    """Read a file, but no further than the first megabyte beyond the limit; memory is taken for what is there."""
    import io

    # its value is its own memory, where joined pieces are a second copy
    read = io.BytesIO()
    while read.tell() <= most and (piece := file.read(2**20)):
        read.write(piece)
    return read.getvalue()


def _unpacked(content: bytes, name: str, most: int, error: type[InputError]) -> bytes:
    """Unpack, but no further than one byte beyond the limit."""
    import gzip
    import io
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return _read(file, most)  # type: ignore[arg-type]
    except (EOFError, OSError, zlib.error) as wrong:
        raise error(f"{name} is packed and cut short or damaged: {wrong}", hint="export it again") from None


def as_text(content: bytes, name: str, *, error: type[InputError] = InputError) -> str:
    """Decode UTF-8 text, with or without a byte order mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise error(f"{name} is UTF-16 text", hint="save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise error(f"{name} is not UTF-8 text at byte {wrong.start:,}", hint="save the file as UTF-8") from None


def read_json(path: str | os.PathLike[str], kind: str) -> Any:
    """Read a JSON file."""
    import json

    name = os.fspath(path)
    text = as_text(read_bytes(path, kind), name)
    needed = len(text) + sum(count * text.count(sign.decode()) for sign, count in _MEMORY.items())
    if needed > MOST_MEMORY:
        hint = f"at most {MOST_MEMORY / 1e9:.0f} GB is read"
        raise InputError(f"{name} would take {needed / 1e9:.1f} GB of memory", hint=hint)
    _check_numbers(text, name, InputError)
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply", hint="some hundred lists within lists at most") from None
    except ValueError as wrong:
        at = f" at line {wrong.lineno}, column {wrong.colno}" if isinstance(wrong, json.JSONDecodeError) else ""
        raise InputError(f"{name} is not valid JSON{at}", hint="is it cut short?") from None


def read_toml(
    path: str | os.PathLike[str], kind: str, *, error: type[InputError] = InputError, hint: str = "check the path",
    part: Callable[[str], str] = str,
) -> dict[str, Any]:  # fmt: skip
    """Read a TOML file, or the ``part`` of its text that is wanted."""
    import tomllib

    name = os.fspath(path)
    text = part(as_text(read_bytes(path, kind, error=error, hint=hint), name, error=error))
    _check_numbers(text, name, error)
    if re.search(_LONG_KEY, text):
        raise error(f"{name} has a key of over {MOST_PARTS} parts", hint="a key has at most a few, as in a.b.c")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise error(f"{name}: is nested too deeply", hint="three levels of tables are enough") from None
    except ValueError as wrong:
        raise error(f"{name}: does not read as TOML: {wrong}", hint="see https://toml.io") from None


def _check_numbers(text: str, name: str, error: type[InputError]) -> None:
    if any(re.search(long, text) for long in _LONG_NUMBERS):
        raise error(f"{name} holds a number of over {MOST_DIGITS} digits", hint="sizes go up to 1e30")


def checked_expression(text: str) -> str:
    r"""A regular expression of a file, if it matches in reasonable time.

    >>> checked_expression(r".*mlp\.(gate|up)_proj.*")
    '.*mlp\\.(gate|up)_proj.*'
    >>> checked_expression("(a+)+$")
    Traceback (most recent call last):
    roofline.errors.InputError: the expression '(a+)+$' repeats a group; a list of modules takes at most 4 repeats, ...
    """
    bare = re.sub(r"\\.|\(\?", lambda found: found[0][0] if found[0] == "(?" else "", text)
    hint = f"a list of modules takes at most {MOST_REPEATS} repeats, none of them of a group"
    if re.search(r"\)[*+{]", bare):
        raise InputError(f"the expression {quoted(text)} repeats a group", hint=hint)
    if len(re.findall(r"[*+?{]", bare)) > MOST_REPEATS or bare.count("|") > MOST_ALTERNATIVES or len(text) > 1000:
        raise InputError(f"the expression {quoted(text)} is too long", hint=hint)
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as wrong:
        raise InputError(f"the expression {quoted(text)} does not read: {wrong}", hint=hint) from None
    return text


def _is_aside(line: str) -> bool:
    """Whether a line of a table is a comment, or names the sign between cells as spreadsheets do (``sep=;``)."""
    return line.startswith("sep=") or line[:2].rstrip("\r\n ") in ("#", "##")


def first_line(text: str) -> str:
    """The first line of a table that is neither empty nor a comment.

    >>> first_line("# on an idle machine\\n\\nm,n,k,us\\n64,8,8,5\\n")
    'm,n,k,us'
    """
    return next((line for line in text.splitlines() if line.strip() and not _is_aside(line)), "")


def cell_separator(text: str) -> str:
    """The sign between cells that the first line of a table has most of; without any, spaces between words.

    >>> [cell_separator(each) for each in ("m,n,us", "m;n;us", "m | n | us", "m  n  us", "time")]
    [',', ';', '|', ' ', ',']
    """
    first = first_line(text)
    found = max(",;\t|", key=first.count)
    return " " if found not in first and len(first.split()) > 1 else found


def table_rows(
    text: str, name: str, hint: str, *, first: int = 1, most: int = MOST_ROWS, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Give the rows of a CSV table that are not empty, each with the number of its last line, without comments.

    ``first`` is the number of the text's own first line; ``hint`` says how the table would be right. Tabs, semicolons,
    bars or spaces may stand between cells, and with semicolons a comma before decimals. A ``name`` stays as it is.
    Cells beyond the last one of the first row are an error, unless they are empty. Without ``strict`` commas stand
    between, all cells stay as they are, and a quoted text may end with the file.
    """
    import csv
    import io

    between = cell_separator(text) if strict else ","
    lines = ("\n" if _is_aside(line) else line for line in io.StringIO(text, newline=""))
    if between in " |":  # one may stand at both ends of a line too
        bar = between * first_line(text).strip().startswith(between)
        lines = (line.strip().removeprefix(bar).removesuffix(bar) + "\n" for line in lines)
    reader = csv.reader(lines, skipinitialspace=strict, strict=strict, delimiter=between)
    try:
        rows, names, columns = 0, set[int](), 0
        for row in reader:
            if any(map(str.strip, row)) and not _is_rule(row):
                rows += 1
                if rows > most:
                    raise InputError(f"{name} has over {most:,} rows", hint="keep those that matter")
                names = {at for at, cell in enumerate(row) if cell.strip().lower() == "name"} if rows == 1 else names
                if strict:
                    columns = columns or max(at for at, cell in enumerate(row, 1) if cell.strip())
                    if between != " " and any(map(str.strip, row[columns:])):
                        wrong = f"{name}:{first - 1 + reader.line_num}: {len(row)} values in {columns} columns"
                        raise InputError(wrong, hint="quote a cell that holds the sign between cells")
                    each = enumerate(map(str.strip, row if between == " " else row[:columns]))
                    row = [text if at in names else _plain_cell(text, sign=between) for at, text in each]
                yield first - 1 + reader.line_num, row
    except csv.Error as wrong:
        line = first - 1 + reader.line_num
        raise InputError(f"{name} is not a CSV file: line {line}: {wrong}", hint=hint) from None


def _is_rule(row: Sequence[str]) -> bool:
    """Whether a row draws a line under the names of columns, as Markdown has it."""
    return len(row) > 1 and all(re.fullmatch(r"\s*:?-{2,}:?\s*", cell) for cell in row)


#: A number with commas between its thousands, and one with a comma before its decimals; a unit may follow.
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*[^\W\d]*")
_DECIMALS = re.compile(r"(\d{1,3}(?:\.\d{3})+|\d+),(\d+(?:[eE][+-]?\d+)?\s*[^\W\d]*)")


def _plain_cell(cell: str, *, sign: str) -> str:
    """A cell, a number in it without signs between its thousands and with a point before its decimals.

    With semicolons as the ``sign`` between cells a comma stands before decimals.

    >>> [_plain_cell("1,234", sign=each) for each in ",;"], _plain_cell("1.234,5 us", sign=";")
    (['1234', '1.234'], '1234.5 us')
    >>> _plain_cell("0,512", sign=","), _plain_cell("fp32[64,8192]", sign=";")
    ('0.512', 'fp32[64,8192]')
    """
    if "," in cell and sign != ";" and _THOUSANDS.fullmatch(cell):
        return cell.replace(",", "")
    number = _DECIMALS.fullmatch(cell) if "," in cell else None
    return f"{number[1].replace('.', '')}.{number[2]}" if number else cell


def is_program(text: str) -> bool:
    """Whether a word is what ``trace`` takes: an ONNX file, or a function in a file of Python.

    >>> is_program("mlp.onnx"), is_program("model.py:build"), is_program("llama-3-8b"), is_program("config.json")
    (True, True, False, False)
    """
    return "." in text and re.fullmatch(r"\S+(\.onnx|\.py(:\w+)?)", text) is not None


def is_replaced(path: str | os.PathLike[str]) -> bool:
    """Whether a new file replaces what is there. A device or a pipe is not replaced but written to."""
    return os.path.isfile(path) or not os.path.exists(path)


def is_left_over(name: str) -> bool:
    """Whether a file is the part of one whose writing did not end.

    >>> is_left_over("grid.123.part.json"), is_left_over("part.json")
    (True, False)
    """
    return re.search(r"\.\d+\.part(\.\w+)?$", name) is not None


@contextmanager
def replaced(
    path: str | os.PathLike[str], *, error: type[InputError] = InputError, keep: bool = True, folder: bool = False
) -> Iterator[str]:
    """Give the path of a part to write, which takes the file's place once all is written.

    Until then the file stays as it was. A link stays a link, and what is no file but a device or a pipe is written to.
    Without ``keep`` nothing is replaced: a test of whether it could be. With ``folder`` its folder is made.
    """
    name = os.fspath(path)
    check_path(name, error)
    own = is_replaced(name)
    target = os.path.realpath(name) if own else name
    stem, ending = os.path.splitext(target)
    # threads and processes that write one file have a part each, and the last that is whole stays
    part = f"{stem}.{os.getpid()}{threading.get_ident()}.part{ending}" if own else target
    try:
        if folder:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        if own and os.path.lexists(part):  # of a thread of this number that was killed
            os.unlink(part)
        yield part
        if own and keep:
            if os.path.exists(target):
                os.chmod(part, os.stat(target).st_mode & 0o7777)
            os.replace(part, target)
    except OSError as wrong:
        why = os.strerror(wrong.errno) if wrong.errno else str(wrong)  # not the words of whoever wrote
        raise error(f"cannot write {name!r}: {why}", hint="name another file: -o FILE") from None
    finally:
        if own and os.path.exists(part):
            os.unlink(part)


def check_path(path: str | bytes, error: type[InputError] = InputError) -> None:
    """Refuse a path that no file can have: with a null character, or half a character; or in a folder that is gone.

    >>> check_path("a" + chr(0))
    Traceback (most recent call last):
    roofline.errors.InputError: cannot write 'a\\x00': no file has such a name; name another file: -o FILE
    """
    try:
        if b"\0" not in os.fsencode(path):
            os.path.abspath(path)
            return
    except UnicodeEncodeError:
        pass
    except FileNotFoundError:
        wrong = f"cannot write {quoted(path)}: the folder that this runs in is gone"
        raise error(wrong, hint="go to another") from None
    raise error(f"cannot write {quoted(path)}: no file has such a name", hint="name another file: -o FILE")


def check_place(path: str) -> None:
    """Refuse a file whose folder is not there, or that is a folder itself."""
    check_path(path)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise InputError(f"there is no folder {folder!r} to write {path!r} in", hint="make it first")
    if os.path.isdir(path):
        raise InputError(f"cannot write {path!r}: it is a folder", hint="name a file in it")


def write_text(
    path: str | os.PathLike[str], text: str, *, error: type[InputError] = InputError, folder: bool = False
) -> None:
    """Write a text file: complete, or not at all."""
    with replaced(path, error=error, folder=folder) as part, open(part, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def write_rows(path: str | os.PathLike[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table as CSV, a line a row: complete, or not at all."""
    import csv

    with replaced(path) as part, open(part, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def toml_key(name: str) -> str:
    """Write a key of TOML: bare where it is of ASCII letters, digits, - and _, else in quotes.

    >>> print(toml_key("mi300x-8"), toml_key("chipé 1.5"))
    mi300x-8 "chipé 1.5"
    """
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any, form: str = "") -> str:
    """Write a value as TOML on one line: text, truth, a list, a table, or a number in a form.

    >>> print(toml_value(["a", 'say "b"']), toml_value(True), toml_value(0.25, ".4f"), toml_value({"m": [1, 2e9]}))
    ["a", "say \\"b\\""] true 0.2500 { m = [1, 2000000000.0] }
    """
    import json

    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # the escapes of TOML's basic strings are those of JSON
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(name)} = {toml_value(item)}' for name, item in value.items())} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    return format(value, form)
