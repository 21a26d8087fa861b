"""A report: one HTML file with answers, their closed forms as JavaScript, and sliders for sizes and rates.

The page needs no network and no Python. Its numbers come from the answer's own formula, printed by the package, so a
slider gives what a fresh answer gives. What the formula does not hold stands as it was asked.

>>> from roofline import bound
>>> text = report(bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192))
>>> "2*B*D*F/P_bf16" in text, "<script src" in text
(True, False)

A notebook shows what an answer says, what would make it faster, and its picture:

>>> shown = notebook(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100"))
>>> shown.count("data:image/svg+xml"), "then compute-bound" in shown
(1, True)
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from html import escape
from io import StringIO
from typing import Any

from roofline.answers import Part, plain_data, with_units
from roofline.bounds.advise import advice_table, advise
from roofline.bounds.bound import Bound
from roofline.charts import drawing
from roofline.charts.answer_charts import pictures
from roofline.errors import InputError, RooflineError
from roofline.files import write_text
from roofline.lazy import np
from roofline.rendering.html import html
from roofline.sections import Amount, Column, Headline, Row, Section, ShareBar, Table, figures, spread
from roofline.sizes import is_array
from roofline.web.page import Shown, page_of

#: What the page may do: nothing but run its own script, under its own style.
_POLICY = "default-src 'none'; img-src data: blob:; base-uri 'none'; form-action 'none'"

#: Endings of pictures.
PICTURES = (".svg", ".png", ".pdf")

#: The ending of a machine file, which a chip alone is saved as.
MACHINE_FILE = ".toml"


def report(*answers: Any) -> str:
    """The page of an answer, or of several one below the other."""
    return _file(page_of([each if isinstance(each, tuple) else (each, None, None) for each in answers]))


def _file(page: dict[str, Any]) -> str:
    functions = page.pop("functions")
    style = bundled("report.css")
    scripts = [f"window.ROOFLINE = {functions};", bundled("report.js")]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = f"{_POLICY}; script-src {hashes}; style-src 'sha256-{_digest(style)}'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(' '.join((page['title'], page['beside'])).strip())} · roofline</title>",
            f"<style>{style}</style></head>",
            '<body><main id="live"></main>',
            f'<script type="application/json" id="page">{embedded(page)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def save(
    answer: Any,
    path: str | os.PathLike[str],
    table: str | None = None,
    width: int | None = None,
    theme: str | None = None,
    title: str = "",
) -> None:
    """Write an answer as the ending of the name says: :data:`WRITERS` lists them.

    ``table`` is that of a CSV, ``width`` that of a picture in pixels, and ``theme`` too; a page may have a ``title``
    as a picture may.
    """
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if table is not None:
        if ending != ".csv":
            raise InputError(f"a table is saved as .csv, not as {name!r}", hint="leave table= out")
        _write_table(name, *answer.plain_table(table))
    elif width is not None or theme is not None or (title and ending != ".html"):
        if ending not in PICTURES:
            what = "width" if width is not None else "title" if theme is None else "theme"
            hint = f"end the name in {', '.join(PICTURES)}"
            raise InputError(f"a {what} is that of a picture, not of {name!r}", hint=hint)
        chart = answer.plot(theme=theme or "light")
        (chart.with_title(title) if title else chart).save(name, width=width)
    else:
        save_shown([(answer, None, None)], path, title=title)


def save_shown(shown: list[Shown], path: str | os.PathLike[str], command: Sequence[str] = (), title: str = "") -> str:
    """Write what a command of these words showed, one answer below the other; give what the file lacks, in words.

    A page may have a ``title`` in place of its own.
    """
    name = os.fspath(path)
    check_ending(name, of_chip=bool(shown) and hasattr(shown[0][0], "to_toml"))
    return WRITERS[os.path.splitext(name)[1].lower()](shown, name, command, title) or ""


def check_ending(name: str, *, of_chip: bool = False) -> None:
    """Refuse a file whose ending says no kind of file that an answer is saved as."""
    ending, endings = os.path.splitext(name)[1].lower(), [each for each in WRITERS if each != MACHINE_FILE or of_chip]
    if ending in endings:
        return
    *most, last = endings
    table = "; roofline sweep writes tables" if ending in (".parquet", ".npz") else ""
    hint = f"end the name in {', '.join(most)} or {last}{table}"
    raise InputError(f"an answer cannot be saved as {name!r}", hint=hint)


def save_data(data: Any, path: str | os.PathLike[str]) -> None:
    """Write plain data as JSON."""
    write_text(os.fspath(path), json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _save_page(shown: list[Shown], name: str, command: Sequence[str], title: str) -> str:
    page = {**page_of(shown, command=command), **({"command": list(command)} if command else {})}
    page |= {"title": title, "beside": ""} if title else {}
    write_text(name, _file(page))
    return "" if page["steps"] else "no sliders; a page of one question with a bound has them"


def _save_text(shown: list[Shown], name: str, *more: Any) -> None:
    from rich.console import Console

    from roofline.rendering.terminal import terminal

    written = StringIO()
    for answer, said, _ in shown:
        told = answer if said is None else said
        Console(file=written, width=100, highlight=False, markup=False).print(
            told if hasattr(told, "__rich__") or hasattr(told, "__rich_console__") else terminal(told)
        )
    write_text(name, written.getvalue())


def _write_table(name: str, names: Sequence[str], rows: Sequence[Sequence[Any]], units: Mapping[str, str]) -> None:
    """Columns have the names of a data frame, and their units behind; figures are in SI units."""
    import csv

    written = StringIO()
    csv.writer(written, lineterminator="\n").writerows([with_units(names, units), *rows])
    write_text(name, written.getvalue())


def picture_of(shown: list[Shown], name: str) -> Any:
    """The picture of what was shown, for a file of that name."""
    draw = shown[0][2] if shown else None
    return draw()[0] if draw is not None else _method(shown, "plot", name)()


def _method(shown: list[Shown], word: str, name: str) -> Callable[[], Any]:
    """What makes another form of an answer; text that stands for none has no other."""
    answer: Any = shown[0][0] if shown else None
    drawn_sections = isinstance(answer, Part) and word == "plot"
    found: Callable[[], Any] | None = None if drawn_sections else getattr(answer, word, None)
    if found is None:
        last = ".txt or .csv" if drawn_sections and answer.tables() else ".txt"
        raise InputError(f"what this says cannot be saved as {name!r}", hint=f"end the name in .html, .json, {last}")
    return found


#: How answers are written, by the ending of the file; ``.csv`` is the table of a data frame.
WRITERS: Mapping[str, Callable[[list[Shown], str, Sequence[str], str], str | None]] = {
    ".html": _save_page,
    ".json": lambda shown, name, *_: save_data(plain_data(_method(shown, "to_dict", name)()), name),
    ".txt": _save_text,
    ".csv": lambda shown, name, *_: _write_table(name, *_method(shown, "plain_table", name)()),
    MACHINE_FILE: lambda shown, name, *_: write_text(name, _method(shown, "to_toml", name)()),
    **dict.fromkeys(PICTURES, lambda shown, name, *_: picture_of(shown, name).save(name)),
}


def embedded(data: Any) -> str:
    """JSON that nothing in it can end: no tag, no comment, no separator of lines that a script takes for one."""
    written = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for letter in ("<", ">", "&", "\u2028", "\u2029"):
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return written


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def bundled(name: str) -> str:
    """A file of the page, built from ``web/``."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read().replace("</script", "<\\/script")


#: Lines of advice that are shown.
MOST_ADVICE = 4

#: Configurations of an answer over arrays that are shown.
MOST_CONFIGURATIONS = 8


def notebook(answer: Any) -> str:
    """Show an answer as HTML: its sections, advice where it has some at no cost, its usual picture."""
    return html(_sections(answer)) + _picture(answer)


class Interactive:
    """The report of an answer in a frame of a notebook: it runs its own script and reaches nothing else.

    >>> from roofline import bound
    >>> shown = interactive(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100"))
    >>> 'sandbox="allow-scripts allow-downloads"' in shown._repr_html_(), "<script" in shown._repr_html_()
    (True, False)
    """

    def __init__(self, answer: Any, height: int = 760) -> None:
        self.answer, self.height = answer, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="a report with sliders" width="100%" height="{int(self.height)}" loading="lazy"'
            f' sandbox="allow-scripts allow-downloads" style="border:1px solid #8886;border-radius:8px"'
            f' srcdoc="{escape(report(self.answer))}"></iframe>'
        )

    def __repr__(self) -> str:
        head = next((each for each in self.answer.sections() if isinstance(each, Headline)), None)
        return f"<Interactive report{f' of {head.subject}' if head else ''}>"


def interactive(answer: Any, height: int = 760) -> Interactive:
    """The report of an answer, as a notebook shows it in ``height`` pixels."""
    return Interactive(answer, height)


def _sections(answer: Any) -> Iterable[Section]:
    if isinstance(answer, Bound) and is_array(answer.lower):
        return [*answer.sections(), _configurations(answer)]
    if not isinstance(answer, Bound) or not isinstance(answer.bound_by, str) or answer.question is None:
        return answer.sections()  # type: ignore[no-any-return]
    found = advise(answer)[:MOST_ADVICE]
    return answer.sections([advice_table(found)] if found else ())


def _configurations(answer: Bound) -> Table:
    """A few of the sizes of an answer over arrays, spread evenly: the time at best, what binds."""
    varied = {name: size for name, size in answer.sizes.items() if is_array(size)}
    *sizes, lower = np.broadcast_arrays(*varied.values(), answer.lower)
    binding = np.broadcast_to(np.asarray(answer.bound_by.decode(), dtype=object), lower.shape).ravel()
    longest = float(lower.max())
    rows = []
    for at in spread(lower.size, MOST_CONFIGURATIONS):
        each, time = [size.ravel()[at] for size in sizes], float(lower.ravel()[at])
        rows.append(
            Row((*(f"{value:,.0f}" for value in each), Amount(time, "s"), ShareBar(time / longest), binding[at]))
        )
    columns = (*figures(*varied, "at best"), Column(meaning="share"), Column("bound by"))
    return Table(columns, rows, "configurations")


def _picture(answer: Any) -> str:
    """The usual picture, where the answer has one; an answer that cannot be drawn is shown without."""
    try:
        draw = next(iter(pictures(answer).values()), None)
        chart = None if draw is None else draw()
    except RooflineError:
        return ""
    if chart is None:
        return ""
    data = base64.b64encode(drawing.svg(chart).encode()).decode()
    return (
        f'<img alt="{escape(chart.title)}" width="{chart.width}" style="max-width:100%;background:#fff"'
        f' src="data:image/svg+xml;base64,{data}">'
    )
