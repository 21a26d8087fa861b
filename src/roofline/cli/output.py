"""Printing: the one place where answers reach a terminal.

Signs that the output's encoding lacks (a pipe on Windows, an old terminal, LANG=C) are written in ASCII:

>>> as_plain("40 µs → 2 µs · 10⁹ B ≤ 1 GiB")
'40 us -> 2 us * 10^9 B <= 1 GiB'
>>> as_plain("└─┤█▒ ⢀⡠⠔ é 矩")
'+-+#: ... e ?'

Long work says here how far it is: on standard error, only on a terminal, and only when it takes longer than a moment.

``-o FILE`` of every command writes what it says as one page with sliders (.html), as plain data (.json) or as text
(.txt). The command runs as ever, what it shows is kept, and the file is made of that:

>>> from roofline.cli.lines import bound_command
>>> [option.opts for option in with_report(bound_command).params if option.name == "report_file"]
[['-o', '--output-file', '--output']]
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import monotonic
from typing import Any

import click

from roofline.cli.command import WORDS, Command, Option
from roofline.cli.option_table import option
from roofline.cli.option_values import blocks_asked
from roofline.errors import InputError
from roofline.files import PICTURES, check_place, write_text
from roofline.formulas.printers import PRINTED
from roofline.frozen import NamedTuple
from roofline.progress import watched
from roofline.quantity import format_quantity
from roofline.sections import BLANK, Headline, Sentences, Table
from roofline.sizes import grouped


class KeptAnswers(NamedTuple):
    """What a command said, kept instead of printed.

    ``shown`` holds each answer with the sections that the command shows of it and what draws its charts; ``data`` is
    plain data of ``--json``, ``programs`` are formulas in another language, ``errors`` what is wrong with a question.
    ``ending`` is that of the file that they go to.
    """

    shown: list[tuple[Any, Any, Callable[[], Any] | None]]
    data: list[Any]
    programs: list[str]
    errors: list[str]
    ending: str


_KEPT: ContextVar[KeptAnswers | None] = ContextVar("kept", default=None)


@contextmanager
def keep(ending: str = "") -> Iterator[KeptAnswers]:
    """Keep what commands say instead of printing it, for a file with this ``ending``.

    >>> from roofline.cli import main
    >>> with keep() as found:
    ...     code = main(["bound", "bf16[64, 64] * bf16[64, 64]", "--on", "v5e", "--json"])
    >>> code, found.data[0]["schema"]
    (0, 'roofline/bound/1')
    """
    found = KeptAnswers([], [], [], [], ending)
    before = _KEPT.set(found)
    try:
        yield found
    finally:
        _KEPT.reset(before)


def is_kept() -> bool:
    """Whether what is shown goes to a page: then nothing has to be short."""
    return kept_for() is not None


def kept_for() -> str | None:
    """The ending of the file that what is shown goes to; None where it is printed."""
    kept = _KEPT.get()
    return None if kept is None else kept.ending


def is_text() -> bool:
    """Whether what is shown is read as text, in a terminal or from a file."""
    return kept_for() in (None, ".txt")


def is_drawn() -> bool:
    """Whether what is shown goes to a picture."""
    return kept_for() in PICTURES


def show(answer: Any, *, whole: bool = False, of: Any = None, charts: Callable[[], Any] | None = None) -> None:
    """Print an answer, or sections of one; where the output is no terminal, at COLUMNS, or 100.

    ``whole`` has lines as long as its tables need, where nobody says a width. ``of`` is the answer that
    sections are of, and ``charts`` draws its pictures: a report has them.
    """
    if (kept := _KEPT.get()) is not None:
        kept.shown.append((answer if of is None else of, [*answer] if isinstance(answer, Iterator) else answer, charts))
        return

    from rich.console import Console

    from roofline.rendering.terminal import terminal

    renderable = answer if hasattr(answer, "__rich__") or hasattr(answer, "__rich_console__") else terminal(answer)
    console = Console(width=None if sys.stdout.isatty() else _piped(), highlight=False, markup=False)
    if whole and not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        from rich.measure import Measurement

        tables = terminal(part for part in answer.sections() if isinstance(part, Table))
        needed = Measurement.get(console, console.options.update(width=10_000), tables)
        console.width = max(console.width, needed.maximum)
    console.print(renderable, crop=False)


def show_changed(answer: Any, lines: Sequence[str]) -> None:
    """Print an answer, and under its headline, and what does not fit, what figures of one's own change."""
    if not lines or is_kept():
        show(answer)
        return
    head, *rest = answer.sections()
    at = next((at for at, part in enumerate(rest) if part is not BLANK and getattr(part, "tone", "") != "alert"), 0)
    show([head, *rest[:at], Sentences(lines, "strong"), BLANK, *rest[at:]], of=answer)


def _piped() -> int:
    """The width where there is no terminal: COLUMNS, or 100."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() and int(said) > 0 else 100


def show_json(data: Any) -> None:
    """Print plain data as JSON; never a NaN."""
    if (kept := _KEPT.get()) is not None:
        kept.data.append(data)
        return
    click.echo(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))


def show_program(text: str) -> None:
    """Print a formula in another language, or the arithmetic of an answer."""
    if (kept := _KEPT.get()) is not None:
        kept.programs.append(text)
        return
    click.echo(text)


def show_explained(answer: Any) -> None:
    """Print the arithmetic of an answer and the source of every figure; of answers side by side, of each."""
    if not hasattr(answer, "explain"):
        raise InputError("--explain says nothing of this answer", hint="it is of steps and operations on a chip")
    if is_text():
        show_program(answer.explain())
    else:
        show(answer)


def show_each(answers: Sequence[Any]) -> None:
    """Print answers one below the other."""
    for index, each in enumerate(answers):
        if index and not is_kept():
            click.echo()
        show(each)


def show_answer(answer: Any, as_json: bool, explain: bool = False, **how: Any) -> None:
    """Print an answer as it was asked for: as plain data, its arithmetic, or as a reader has it."""
    if as_json:
        show_json(answer.to_dict())
    elif explain:
        show_explained(answer)
    else:
        show(answer, **how)


def check_files(charts: Sequence[str | None], tables: Sequence[str | None] = ()) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    if any(charts):
        from roofline.charts.chart import chart_path

        for path in filter(None, charts):
            chart_path(path)
    for path in filter(None, tables):
        check_place(path)


def wrote(path: str, units: Mapping[str, str] | None = None, what: str = "", said: str = "") -> None:
    """Say which file was written, of a table in which units: beside what a command prints, but never behind its JSON.

    ``said`` is what else a reader has to know, as of a picture what is not drawn.

    >>> wrote("a.csv", {"lower": "s", "upper": "s", "memory": "B"}, "3 rows to ")
    wrote 3 rows to a.csv: lower, upper in s; memory in B
    """
    named = grouped((unit, name) for name, unit in (units or {}).items())
    said = said or "; ".join(f"{', '.join(names)} in {unit}" for unit, names in named.items())
    context = click.get_current_context(silent=True)
    click.echo(f"wrote {what}{path}{': ' * bool(said)}{said}", err=bool(context and context.params.get("as_json")))


def show_chart(chart: Any, of: Any = None) -> None:
    """Draw a chart in the terminal; ``of`` is the answer that it is a picture of, which stands beside its file."""
    import shutil

    if is_kept():
        if of is not None and is_drawn():
            show(_opening(of)[:-1], of=of)
        show(chart)
        return
    columns = shutil.get_terminal_size((100, 30)).columns
    click.echo(chart.to_text(width=max(40, min(columns, 100)), color=_colors()))


class ChartKind(click.ParamType):  # type: ignore[type-arg]
    """The kind of a chart of some subjects; charts register themselves, so their kinds are listed when asked for."""

    name = "kind"

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects

    def kinds(self) -> click.Choice[str]:
        """The kinds there are."""
        from roofline.charts.chart import charts_of

        return click.Choice([kind for subject in self.subjects for kind in charts_of(subject)])

    def get_metavar(self, *given: Any, **named: Any) -> str | None:
        """The kinds, as help lists them."""
        return self.kinds().get_metavar(*given, **named)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a kind that there is."""
        return self.kinds().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """The kinds that begin so."""
        return self.kinds().shell_complete(ctx, param, incomplete)


def show_error(said: str, head: str = "error", usage: str = "") -> None:
    """Print an error on standard error, a long word of the input cut short: on a terminal its head is red.

    Nobody is told where standard error is full; the exit code says it. ``usage`` stands before it.
    """
    text = re.sub(r"\S{500,}", lambda long: f"{long[0][:200]}…", said)
    if (kept := _KEPT.get()) is not None:
        kept.errors.append(text)
        return
    with suppress(OSError):
        if usage:
            click.echo(usage, err=True)
        shown = click.style(f"{head}:", fg="red", bold=True) if _colors(sys.stderr) else f"{head}:"
        click.echo(f"{shown} {text}", err=True)


def _colors(stream: Any = None) -> bool:
    """Whether what is printed goes to a terminal that shows colours, and the user wants them (https://no-color.org)."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_SIGNS = {
    **dict(zip("µ→·…×÷≤≥−≈◇", ["u", "->", "*", "...", "x", "/", "<=", ">=", "-", "~", "o"], strict=True)),
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
    """Let standard output and error write ASCII for what their encoding lacks, and nowhere where they are closed."""
    codecs.register_error(_HANDLER, _replaced)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return as_plain(error.object[error.start : error.end]), error.end


#: Seconds that work may take before anything is shown.
MOMENT = 0.5

#: Seconds between two changes of the bar.
BLINK = 0.05

Report = Callable[..., None]


@contextmanager
def working(what: str, unit: str = "") -> Iterator[Report]:
    """Show that ``what`` goes on, until the block ends; the block may report ``(done, of all, which part)``.

    What loops inside tell (:mod:`roofline.progress`) is shown too. Work that reports has a bar with the time left, and
    its speed where it has a ``unit``; other work has the time that it has taken. Ctrl-C ends the command.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done, total=1.0, part="": None
        return
    bar = _Bar(what, unit)
    try:
        with watched(bar.report):
            yield bar.report
    finally:
        bar.stop()


class _Bar:
    """A bar that a timer starts; what is reported before is kept for it."""

    def __init__(self, what: str, unit: str) -> None:
        self.what, self.unit = what, unit
        self.state: dict[str, Any] = {}
        self.shown: Any = None
        self.told = 0.0
        self.lock = threading.Lock()
        self.timer = threading.Timer(MOMENT, self._start)
        self.timer.daemon = True
        self.timer.start()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.table import Column

        with self.lock:
            if self.state.get("stopped"):
                return
            words = [Column(no_wrap=True) for _ in range(4)]  # the bar gives way
            said = TextColumn("{task.description}", table_column=words[0])
            left = (
                TimeElapsedColumn(table_column=words[1]), TextColumn("left", table_column=words[2]),
                TimeRemainingColumn(table_column=words[3]),
            )  # fmt: skip
            speed = (_speed(self.unit),) if self.unit else ()
            self.shown = Progress(said, BarColumn(), *speed, *left, console=Console(stderr=True), transient=True)
            self.task = self.shown.add_task(self.what, total=self.state.get("total"))
            self.shown.update(self.task, completed=self.state.get("completed", 0))
            self.shown.start()

    def report(self, done: float, total: float = 1.0, part: str = "") -> None:
        """Say how much of all is done."""
        self.state |= {"completed": done, "total": total}
        now = monotonic()
        if self.shown is not None and now - self.told >= BLINK:
            self.told = now
            said = f"{self.what} {part}".rstrip()
            self.shown.update(self.task, completed=done, total=total, description=said)

    def stop(self) -> None:
        """Take the bar away."""
        self.timer.cancel()
        with self.lock:
            self.state["stopped"] = True
            if self.shown is not None:
                self.shown.stop()


def _speed(unit: str) -> Any:
    """A column of how much is done in a second."""
    from rich.progress import ProgressColumn
    from rich.table import Column
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(format_quantity(task.speed or 0, f"{unit}/s"))

    return Speed(table_column=Column(no_wrap=True))


#: Where the context of a command holds the file; how its picture looks: ``dark``, ``width``, ``title``; its answer; and
#: what was said beside its files so far, that several files have it once.
KEY, LOOK, ANSWER, OPENED = "roofline.report", "roofline.look", "roofline.answer", "roofline.opened"


def with_report(command: click.Command) -> click.Command:
    """Give a command ``-o FILE``; one that writes other kinds of files by ``-o`` keeps them."""
    own = next((each for each in command.params if "-o" in each.opts), None)
    if getattr(own, "name", "") == "report_file" or command.callback is None or command.name in _OWN_FILES:
        return command
    if own is None:
        free = all("--output" not in each.opts for each in command.params)
        option(
            "output-file", name="report_file", older="--output" if free else "", multiple=True, expose_value=False,
            callback=_files, help=_meaning(command),
        )(command)  # fmt: skip
    elif isinstance(own, Option):
        own.callback, own.multiple = _files, command.name in _PICTURED
        own.means(f"{own.help} With .html: a page with sliders.")
    if isinstance(command, Command) and command.common:
        command.common = (*command.common, "--output-file")
    looks = ["width", "dark"] * (command.name in _PICTURED)
    looks += ["title"] * all(each.name != "title" for each in command.params)
    for word in looks:
        option(word, expose_value=False, callback=_as_look)(command)
    command.callback = _kept(command.callback, getattr(own, "name", ""))
    return command


def _meaning(command: click.Command) -> str:
    """What the file of a command may be."""
    table = ", its table (.csv)" * (".csv" not in _LACKS.get(command.name, ()))
    picture = " or a picture (.svg, .png, .pdf)" * (command.name in _PICTURED)
    program = ", or beside --c, --js, --python or --latex that program" * _prints(command)
    return f"Write a page with sliders (.html), the answer (.json, .txt){table}{picture}{program}."


def _prints(command: click.Command) -> bool:
    """Whether a command prints a formula in another language."""
    return any(each.name == "language" for each in command.params)


#: Commands whose file is something else than what they say (constants), and those that serve.
_OWN_FILES = ("calibrate", "explore", "completion")

#: Endings of files that no answer of a command is saved as; of most that of a machine file.
_LACKS: dict[str | None, tuple[str, ...]] = {"chips": (), "plot": (".csv", ".toml")}

#: Commands whose ``-o`` may be a picture, and those of them that print JSON beside one.
_PICTURED = (
    "bound", "chips", "comm", "llm", "model", "plan", "plot", "profile", "run", "solve", "sweep", "trace", "train",
)  # fmt: skip
_JSON_BESIDE = ("plan",)


def _as_look(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep how a picture looks for whoever draws it, and the title of a page."""
    if value:
        context.meta.setdefault(LOOK, {})[parameter.name] = value


def _check_looks(names: Iterable[str], files: Sequence[str]) -> None:
    """Refuse how a picture looks, or the title of a page, where no such file is written."""
    for name in names:
        endings = (*PICTURES, ".html") if name == "title" else PICTURES
        if not any(path.lower().endswith(endings) for path in files):
            hint = f"end -o in {', '.join(endings[:-1])} or {endings[-1]}, or leave it out"
            raise InputError(f"--{name} is of a picture{' or a page' * (name == 'title')}", hint=hint)


def _files(context: click.Context, parameter: click.Parameter, values: Any) -> Any:
    """Check the files before any work is done; of a command that writes its own, pages and pictures go this road."""
    listed = values if isinstance(values, tuple) else (values,) if values is not None else ()
    if len({*map(os.path.normpath, listed)}) < len(listed):
        raise InputError("-o names one file twice", hint="each is written once")
    common = (".html", *PICTURES) if context.command.name in _PICTURED else ".html"
    kept = [each for each in listed if parameter.name == "report_file" or each.lower().endswith(common)]
    for path in kept:
        from roofline.web.report import check_ending

        if not (_prints(context.command) and path.lower().endswith(tuple(each.ending for each in PRINTED.values()))):
            check_ending(path, _LACKS.get(context.command.name, (".toml",)))
    check_files((), kept)
    context.meta[KEY] = kept
    rest = tuple(each for each in listed if each not in kept)
    return rest if isinstance(values, tuple) else next(iter(rest), None)


def _kept(run: Callable[..., Any], own: str) -> Callable[..., Any]:
    """The command, which writes what it would show where files were named: each as it would be written alone.

    A command that writes files of its ``own`` does that itself.
    """

    def command(**options: Any) -> int:
        context = click.get_current_context()
        meta, prints_json = context.meta, options.get("as_json", False)
        kept, given = meta.pop(KEY, ()), options.get(own)
        files = given if isinstance(given, tuple) else (given,) * (given is not None)
        _check_looks(meta.get(LOOK, ()), kept)
        if len(kept) + len(files) > 1 and prints_json:
            hint = "name one file, or leave out --json"
            raise InputError("--json prints one answer, and each file is one", hint=hint)
        for path in kept:
            if "language" in options:
                check_language(path, options["language"])
            beside = (".json", *PICTURES) if context.command.name in _JSON_BESIDE else ".json"
            if prints_json and not path.lower().endswith(beside):
                raise InputError(f"--json and {path} are two answers", hint="-o FILE.json writes what --json prints")
        runs: Sequence[Any] = files if files or kept else (None,)
        if isinstance(given, tuple):  # tables are of one run, each folder of blocks of its own
            from roofline.formulas.tables import check_table

            pictures = [each for each in kept if each.lower().endswith(PICTURES)]
            tables = [each for each in (*given, *pictures) if not blocks_asked({**options}, each)]
            for path in tables:
                check_table(path)
            together = tuple(each for each in given if each in tables)
            folders = [(each,) for each in given if each not in tables]
            runs = [*folders, together] if together or not (folders or kept) else folders
        alone = {**options, own: None} if own else options
        said = [_said(run, dict(alone), path) for path in kept]
        writes = [prepared(found, path, _asked(context)) for path, (_, found) in zip(kept, said, strict=True)]
        codes = [_code_of(run, {**alone, own: file} if own else alone) for file in runs]
        for write in writes:
            write()
        return max(*codes, *(code for code, _ in said), 0)

    command.__doc__ = run.__doc__
    return command


def asked_once(answer: Callable[[], Any]) -> Any:
    """The answer of a command: worked out for its first file, kept for the others."""
    meta = click.get_current_context().meta
    if ANSWER not in meta:
        meta[ANSWER] = answer()
    return meta[ANSWER]


def _code_of(run: Callable[..., Any], options: Mapping[str, Any]) -> int:
    """The exit code of a command: what says that nothing meets its limits is an answer too."""
    try:
        code = run(**options)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return code if isinstance(code, int) else 0


def _said(run: Callable[..., Any], options: dict[str, Any], path: str) -> tuple[int, KeptAnswers]:
    """The exit code of a command, and what it says for a file."""
    ending = os.path.splitext(path)[1].lower()
    if ending == ".json" and "as_json" in options and not options.get("language"):
        options["as_json"] = True
    with keep(ending) as found:
        return _code_of(run, options), found


def _asked(context: click.Context) -> list[str]:
    """The words of the command without the files that it writes, and without how their pictures look: flags last."""
    flags = {word for each in context.command.params if getattr(each, "is_flag", False)
             for word in (*each.opts, *each.secondary_opts)}  # fmt: skip
    left_out = {
        word: not getattr(each, "is_flag", False)
        for each in context.command.params if each.callback in (_files, _as_look) and each.name != "title"
        for word in each.opts
    }  # fmt: skip
    given, kept = context.meta.get(WORDS, []), []
    words = iter(context.command.with_library(given) if isinstance(context.command, Command) else given)
    for word in words:
        has_value = left_out.get(word.partition("=")[0])
        if has_value and "=" not in word:
            next(words)
        elif has_value is None and not word.startswith("-o"):
            kept.append(word)
    return sorted(kept, key=flags.__contains__)


def check_language(path: str, language: str | None) -> None:
    """Refuse a file that is named as a program in another language than the one that is asked for."""
    ending = os.path.splitext(path)[1].lower()
    named, option = next(((n, f"--{p.word}") for n, p in PRINTED.items() if p.ending == ending), (language, ""))
    if named != language:
        wrong, hint = "another language is asked for", "end the name in .txt, or ask for one language"
        if language is None:
            wrong, hint = "no language is asked for", f"add {option}, or end the name in .txt"
        raise InputError(f"{path} is named as a formula by {option}, and {wrong}", hint=hint)


def _check_program(path: str) -> None:
    """Refuse a file for a formula in another language that is named as another kind of answer."""
    from roofline.web.report import WRITERS

    ending = os.path.splitext(path)[1].lower()
    if ending in WRITERS and ending != ".txt":
        hint = (
            f"end the name in {', '.join(each.ending for each in PRINTED.values())} or .txt, or leave the language out"
        )
        raise InputError(f"a formula in another language is text, and {path} is not", hint=hint)


def _opening(shown: Any) -> list[Any]:
    """The headline of an answer, what does not fit, and its first sentences: beside a file, which holds the rest."""
    parts = list(shown.sections()) if hasattr(shown, "sections") else shown if isinstance(shown, list) else []
    opening: list[Any] = []
    for part, following in zip(parts, [*parts[1:], BLANK][: len(parts)], strict=True):
        if isinstance(part, Headline):
            opening += [part, BLANK]
        elif isinstance(part, Sentences) and part.lines and part.tone != "quiet" and not isinstance(following, Table):
            opening += [part, BLANK]
            if part.tone != "alert":
                break
    return opening


def prepared(found: KeptAnswers, path: str, words: Sequence[str]) -> Callable[[], None]:
    """What writes what a command said: all that refuses the file is done before. A page also says by which words."""
    from roofline.web.report import picture_of, prepared_file, save_data

    beside: list[Any] = []
    opening: list[Any] = []
    save: Callable[[], str | None]
    if found.programs:
        _check_program(path)
        save = partial(write_text, path, "\n".join([*found.programs, ""]))
    elif found.data and not found.shown:
        save = partial(save_data, found.data[0], path)
    elif not found.shown:
        raise InputError("what this prints is no answer that a file could hold", hint="leave -o out")
    elif path.lower().endswith(PICTURES):
        chart = next((answer for answer, *_ in found.shown if hasattr(answer, "marks")), None)
        beside = [said for answer, said, _ in found.shown if answer is not chart]
        if chart is None:
            chart, opening, beside = picture_of(found.shown, path), _opening(beside[0]), []
        save = _prepared_chart(chart, path)
    else:
        title = click.get_current_context().meta.get(LOOK, {}).get("title", "")
        save = prepared_file(found.shown, path, words, title)
        opening = _opening(found.shown[0][1])
    units = found.shown[0][0].plain_table()[2] if found.shown and path.lower().endswith(".csv") else {}

    def write() -> None:
        lacks = save() or ""
        for data in found.data if path.lower().endswith(PICTURES) else ():
            show_json(data)
        _show_beside([*beside, opening])
        wrote(path, units, said=lacks)

    return write


def _show_beside(several: Iterable[Any]) -> None:
    """Print what is said beside a file, without headlines and sentences that stand beside a file before it."""
    before: list[Any] = click.get_current_context().meta.setdefault(OPENED, [])
    told: list[Any] = []
    for said in several:
        words = [part for part in said if isinstance(part, (Headline, Sentences))] if isinstance(said, list) else []
        new = [part for part in said if part not in before or part not in words] if words else said
        if new and (told or not isinstance(new, list) or any(part is not BLANK for part in new)):
            show(new)
            told += words
    before += told


def _prepared_chart(chart: Any, path: str) -> Callable[[], str]:
    """What writes a chart as it is asked to look, and says what is not drawn.

    It has twice the size unless a width is asked for, which keeps the plot's proportions; rows of bars and of the key
    keep their height.
    """
    look = click.get_current_context().meta.get(LOOK, {})
    chart = chart.with_theme("dark") if look.get("dark") else chart
    chart = chart.with_title(look["title"]) if "title" in look else chart

    def save() -> str:
        chart.save(path, width=look.get("width"))
        return "; ".join(chart.left_out)

    return save
