"""What a page shows of answers: sections, charts, and closed forms that move as JavaScript.

A report embeds the page of its answer, the explorer sends that of each question: both show it with the same components.

>>> from roofline import bound
>>> answer = bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192)
>>> found = page_of([(answer, None, None)])
>>> found["title"], [step["name"] for step in found["steps"]], [size["name"] for size in found["steps"][0]["sizes"]]
('bf16[64, 8192] * int8[8192, 8192] -> bf16[64, 8192]', ['bound'], ['B', 'D', 'F'])
>>> "2*B*D*F/P_bf16" in found["functions"]
True

A report: one HTML file with answers, their closed forms as JavaScript, and sliders for sizes and rates.

The page needs no network and no Python. Its numbers come from the answer's own formula, printed by the package, so a
slider gives what a fresh answer gives. What the formula does not hold stands as it was asked.

>>> text = report(answer)
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from html import escape
from io import StringIO
from itertools import islice, takewhile
from typing import Any

from roofline.answers import Answer, Part, attributes, plain_data, with_units
from roofline.bounds.advise import advice_table, advise
from roofline.bounds.bound import Bound
from roofline.bounds.closed_form import Formula, question_formula
from roofline.bounds.comparison import SideBySide
from roofline.charts import drawing
from roofline.charts.answer_charts import pictures
from roofline.errors import InputError, RooflineError
from roofline.files import PICTURES, write_rows, write_text
from roofline.formulas.compiled import ValidRange
from roofline.formulas.printers import parameter, text
from roofline.formulas.tables import Columns
from roofline.frozen import NamedTuple
from roofline.hardware.figures import LISTED_PRICE
from roofline.quantity import in_a_row
from roofline.rendering.html import data as section_data
from roofline.rendering.html import html
from roofline.sections import Headline, Section, SizeColumn, Table, configurations
from roofline.sizes import is_array, is_symbol
from roofline.statements import untimed_parts

#: The largest size that a slider reaches where nothing else limits it: so many times what was asked.
FARTHEST = 4096

#: What a size is where none was given.
USUAL = 4096

#: The most operations that a page draws as points and lists by module.
MOST_OPERATIONS = 1500

#: The most rows of a sweep that a page shows as a table.
MOST_TABLE_ROWS = 150

#: The most that it holds as data for the reader to keep: a longer table is a file of its own (.csv, .parquet).
MOST_DATA_ROWS = 1000

#: The most characters of an answer's data: that of many sizes at once is a file of its own too (.json).
MOST_DATA = 500_000

#: The page of an answer: whole, what moves of it alone, and the rest.
PAGES = ("page", "live", "rest")

#: An answer, its sections where they are not its own, and what draws its charts where it has others.
Shown = tuple[Any, Any, Callable[[], Any] | None]


class LiveStep(NamedTuple):
    """A part that moves: its formula, the answer it is of, what is expected of it; how it lies on chips.

    Steps are ranked among those about the same ``work``; ``price`` is that of a chip for an hour, where it was asked.
    """

    name: str
    formula: Formula
    bound: Any = None
    expected: Any = None
    footprint: Any = None
    on: str = ""
    chips: int = 1
    spread: str = ""
    work: str = ""
    price: float | None = None


def page_of(shown: Sequence[Shown], part: str = "page", *, command: Sequence[str] = ()) -> dict[str, Any]:
    """The page of what was shown: title, sections, charts, steps that move, and the first answer as plain data.

    What has no name of its own is called by the words of its ``command``.

    Of a page that is sent in two parts, ``live`` has the title and the steps, ``rest`` everything but the steps.
    """
    sections: list[Section] = []
    steps: list[LiveStep] = []
    charts: list[dict[str, Any]] = []
    for answer, said, draw in shown:
        if said is None or said is answer:
            said = _sections_of(answer)
        if part != "rest":
            steps += live_steps(answer)
        if part == "live":
            sections += islice(said, 1)
        else:
            charts += _drawn(answer, draw)
            sections += said
    head = next((each for each in sections if isinstance(each, Headline)), Headline(_title(shown, command)))
    data = None
    if part == "live":
        sections = []
    else:
        found = next((answer for answer, _, _ in shown if hasattr(answer, "to_dict")), None)
        # a longer table has a file of its own
        is_long = isinstance(found, Columns) and len(found) > MOST_DATA_ROWS
        data = None if found is None or is_long else (found.thinned() if _is_chart(found) else found).to_dict()
        data = data if len(json.dumps(plain_data(data))) <= MOST_DATA else None
    first = shown[0][0] if shown else None
    machines = f"on {in_a_row(list(dict.fromkeys(first.machines)))}, " if isinstance(first, SideBySide) else ""
    return {
        "title": head.subject,
        "beside": machines + head.beside,
        "sections": section_data(sections),
        "charts": charts,
        "steps": [_record(step) for step in steps],
        "functions": "[" + ",\n".join(_function(step.formula) for step in steps) + "]",
        "answer": plain_data(data),
    }


def _sections_of(answer: Any) -> Iterable[Section]:
    if isinstance(answer, Columns):
        return answer.sections(MOST_TABLE_ROWS)
    if hasattr(answer, "sections"):
        return answer.sections()  # type: ignore[no-any-return]
    return () if _is_chart(answer) else answer


def _title(shown: Sequence[Shown], command: Sequence[str]) -> str:
    """What a page is called that has no headline: as its chart, the line that it is of, or the words of its command."""
    for answer, _, _ in shown:
        if _is_chart(answer):
            return str(answer.title)
        if isinstance(answer, Columns):
            first: Any = next(iter(getattr(answer, "parts", ())), answer)  # of several machines the first one's
            if line := getattr(getattr(first, "question", None), "text", ""):
                return str(line)
    words = takewhile(lambda word: not word.startswith("-"), command)
    return " ".join(words) or "roofline"


def _is_chart(answer: Any) -> bool:
    return hasattr(answer, "marks")


def live_steps(answer: Any) -> list[LiveStep]:
    """The parts of an answer that have a closed form; none where it has no single configuration."""
    find = next((_STEPS[each.__name__] for each in type(answer).__mro__ if each.__name__ in _STEPS), None)
    if find is None:
        return []
    try:
        return list(find(answer))
    except RooflineError:  # several sizes at once, a figure without a symbol: the page shows it without sliders
        return []


def _of_bound(answer: Bound) -> Iterator[LiveStep]:
    if answer.question is not None:
        every = question_formula(answer.question, every=True)
        where, price = answer.machine.target, None if answer.cost is None else answer.cost.price
        yield LiveStep("bound", every, answer, answer.expectation, answer.footprint, where, price=price)


def _of_solution(answer: Any) -> Iterator[LiveStep]:
    """The question itself at the size that was found, or at its own where a rate was asked for."""
    found = answer.question.answer() if answer.unit else answer.at_pick()
    if found is not None:
        yield from _of_bound(found)


def _of_serving(answer: Any) -> Iterator[LiveStep]:
    from roofline.models.closed_form import serving_formula

    for name, step in reversed(answer.phases.items()):
        if not all(isinstance(size, int | float) for size in step.sizes.values() if size is not None):
            return
        chips = int(answer.ways.chips)
        on = _chips_text(step.machine.target, chips)
        spread = _spread(answer.ways)
        cost = next(iter(answer.further.get("cost", {}).values()), None)
        formula, price = serving_formula(answer, name), None if cost is None else cost.price
        yield LiveStep(name, formula, step, step.expectation, step.footprint, on, chips, spread, price=price)


def _spread(ways: Any) -> str:
    """How a model lies on its chips, in words: a number of copies is easily taken for a split."""
    copies, each = int(ways.copies), int(ways.chips) // int(ways.copies)
    if copies == 1:
        return "" if each == 1 else f"one copy of the model, split over {each} chips"
    lies = "one on each chip" if each == 1 else f"each split over {each} chips"
    return f"{copies} copies of the model, {lies}; the batch is spread over the copies"


def _chips_text(target: str, chips: int) -> str:
    """A number of chips as it is asked for: a target that has none gets it."""
    return target if chips == 1 or ":" in target else f"{target}:{chips}"


def _of_training(answer: Any) -> Iterator[LiveStep]:
    from roofline.models.closed_form import training_formula

    if is_symbol(answer.bound.lower) or is_array(answer.lower):
        return
    formula, chips = training_formula(answer, microbatches=int(answer.layout.pipeline) > 1), int(answer.chips)
    on = _chips_text(answer.bound.machine.target, chips)
    yield LiveStep("train", formula, answer.bound, answer.expectation, answer.memory, on, chips)


def _of_several(answer: Any) -> Iterator[LiveStep]:
    works = getattr(answer, "works", ("",) * len(answer.names))
    for name, work, each in zip(answer.names, works, answer.answers, strict=True):
        for step in live_steps(each):
            yield step._replace(on=name, work=work)


#: How the moving parts of each kind of answer are found, by the name of its class.
_STEPS: dict[str, Callable[[Any], Iterable[LiveStep]]] = {
    "Formula": lambda answer: [LiveStep("formula", answer, on=answer.machine.target)],
    "Bound": _of_bound,
    "Serving": _of_serving,
    "Solution": _of_solution,
    "Training": _of_training,
    "SideBySide": _of_several,
}

#: The pictures of an answer that its page has, by kind; operations by time stand there as a tree. A table whose usual
#: picture is a heat map has that too; what has none of them and is at several sizes has curves of its time.
_SHOWN_PICTURES = ("roofline", "frontier", "front", "throughput", "memory", "split", "bandwidth")


def _drawn(answer: Any, draw: Callable[[], Any] | None) -> list[dict[str, Any]]:
    """The charts of an answer as data, each with the step and the machine it is of, where it is of one.

    Those that cannot be drawn are left out.
    """
    from roofline.charts.heat_maps import HeatMap

    if _is_chart(answer):
        return [{**answer.thinned().to_dict(), "step": ""}]
    if draw is not None:
        return [{**chart.thinned().to_dict(), "step": ""} for chart in draw()]
    kinds, found = pictures(answer), []
    if isinstance(answer, SideBySide) and "roofline" not in kinds:  # no picture together: each has its own
        beside = zip(answer.names, answer.answers, strict=True)
        found = [{**chart, "on": name} for name, each in beside for chart in _drawn(each, None)]
    phases: Sequence[str] = list(getattr(answer, "phases", ())) or [""]
    first = next(iter(kinds), "")
    maps = {first} if isinstance(kinds.get(first), HeatMap) else set()
    shown = [kind for kind in kinds if kind in {*_SHOWN_PICTURES, *maps}]
    for kind in shown if shown or isinstance(answer, SideBySide) else kinds.keys() & {"time"}:
        picture = kinds[kind]
        by_phase = kind == "roofline" and phases != [""]
        for phase in phases if by_phase else [""]:
            with suppress(RooflineError):
                chart = picture(phase=phase) if by_phase else picture()  # type: ignore[call-arg]
                found.append({**chart.thinned().to_dict(), "step": phase})
    return found


#: What is said where a formula's conditions do not hold: it is of other sizes, or no step runs.
_CONDITIONS: tuple[tuple[str, Callable[[Formula], Sequence[ValidRange]]], ...] = (
    ("not valid here", lambda formula: formula.conditions),
    ("DOES NOT RUN", lambda formula: formula.runs),
)


def _record(step: LiveStep) -> dict[str, Any]:
    """What the page is told of a step; its functions stand in a script."""
    formula, memory = step.formula, step.footprint
    expected: dict[str, Any] | None = None
    if step.expected is not None and not is_array(step.expected.value) and step.expected.is_known:
        expected = {name: float(getattr(step.expected, name)) for name in ("value", "low", "high")}
        expected |= {"basis": f"fitted to {step.expected.basis} runs"}
    return {
        **attributes(step, "name", "on", "work", "chips", "spread"),
        "machine": formula.machine.name,
        "sizes": [_slider(formula, name) for name in formula.sizes],
        "rates": [
            {"name": name, **attributes(rate, *rate._fields[1:]), "figure": _figure(rate)}
            for name, rate in formula.rates.items()
        ],
        "terms": [
            {**attributes(term, "resource", "column"), "parts": [part.record("words") for part in term.parts]}
            for term in formula.terms
        ],
        "reasons": [f"{said}: {reason}" for said, conditions in _CONDITIONS for _, reason in conditions(formula)],
        "untimed": untimed_parts(formula.incomplete),
        "capacity": None if memory is None else memory.capacity,
        "level": "" if memory is None else memory.level,
        "expected": expected,
        "operations": [] if step.bound is None or is_array(step.bound.lower) else _operations(step.bound),
        "prices": _prices(formula.machine.prices, step.price),
    }  # fmt: skip


def _prices(known: Mapping[str, Any], asked: float | None) -> dict[str, dict[str, Any]]:
    """Dollars of a chip for an hour by the kind of price, each with its source; the usual kind, or as asked, first."""
    found = {name.replace("_", " "): {"value": each.value, "source": each.source} for name, each in known.items()}
    usual = LISTED_PRICE.replace("_", " ")
    if asked is not None and found.get(usual, {}).get("value") != asked:
        found[usual] = {"value": asked, "source": ""}
    return dict(sorted(found.items(), key=lambda each: each[0] != usual))


def _figure(rate: Any) -> str:
    """The word of ``--set`` for a rate: ``hbm``, ``mxu.bf16``; none for the latency of a link."""
    if rate.unit == "FLOP/s":
        return f"{rate.resource}.{rate.dtype}"
    return str(rate.resource) if rate.unit == "B/s" else ""


def _operations(bound: Bound) -> list[dict[str, Any]]:
    """Each operation at the sizes asked: where it stands, its time at best, what binds it; none of open sizes."""
    if any(is_symbol(part.lower) for part in bound.ops):
        return []
    return [
        {
            "where": part.op.where or part.op.name, "kind": part.op.kind, "time": float(part.lower),
            "binds": str(part.bound_by), "repeat": plain_data(part.op.repeat), "flops": plain_data(part.flops),
            "bytes": plain_data(part.bytes),
        }
        for part in bound.ops[:MOST_OPERATIONS]
    ]  # fmt: skip


def _slider(formula: Formula, name: str) -> dict[str, Any]:
    """A size with the stretch of its slider: from 1 to as far as the formula holds, or far beyond what was asked."""
    value = formula.point.get(name, USUAL)
    most = max(FARTHEST, value * 16)
    point = {**dict.fromkeys(formula.sizes, USUAL), **formula.point}
    step = formula.multiple(name, point)
    most += -most % step
    while most > value and not _holds(formula, {**point, name: most}):
        most = max(value, most // 2 // step * step)
    return {
        "name": name, "value": value, "given": name in formula.point,
        "least": 0 if name in formula.from_zero else 1, "most": max(most, 2),
    }  # fmt: skip


def _holds(formula: Formula, point: Mapping[str, float]) -> bool:
    numbers = {formula.letters[name]: value for name, value in point.items()}
    is_case = not formula.ways or any(way.is_case_of(point) for way in formula.ways)
    return is_case and all(bool(condition.holds.subs(numbers)) for condition in formula.conditions)


def _function(formula: Formula) -> str:
    """The formula and the conditions under which it holds, as JavaScript functions of one object."""
    sizes = ", ".join(parameter(size, "javascript") for size in formula.letters.values())
    rates = ", ".join(formula.rates)
    everything = ", ".join(filter(None, (sizes, rates)))
    conditions = [each for _, found in _CONDITIONS for each, _ in found(formula)]
    holds = ", ".join(text(each, "javascript") for each in conditions)
    parts = ", ".join(
        f"[{', '.join(text(part.amount / part.rate, 'javascript') for part in term.parts)}]" for term in formula.terms
    )
    work = ", ".join(text(formula.forms.get(name, 0), "javascript") for name in ("flops", "bytes"))
    multiples = ", ".join(f"{size}: {text(of, 'javascript')}" for size, of in formula.multiples.items())
    named = "".join(f"const {name} = {text(form, 'javascript')};" for name, form in formula.definitions.items())
    return (
        f"{{time: {formula.printed('javascript')}, parts: ({{{everything}}}) => {{{named} return [{parts}]}},"
        f" holds: ({{{sizes}}}) => [{holds}], multiples: ({{{sizes}}}) => ({{{multiples}}}),"
        f" work: ({{{everything}}}) => {{{named} return [{work}]}}}}"
    )


#: What the page may do: nothing but run its own script, under its own style.
_POLICY = "default-src 'none'; img-src data: blob:; base-uri 'none'; form-action 'none'"

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
        prepared_file([(answer, None, None)], path, title=title)()


#: Writes a file, and gives what it lacks, in words.
Write = Callable[[], "str | None"]


def prepared_file(
    shown: list[Shown], path: str | os.PathLike[str], command: Sequence[str] = (), title: str = ""
) -> Write:
    """What writes what a command of these words showed, one answer below the other; all that refuses it is done before.

    A page may have a ``title`` in place of its own.
    """
    name = os.fspath(path)
    check_ending(name, () if shown and hasattr(shown[0][0], "to_toml") else (MACHINE_FILE,))
    return WRITERS[os.path.splitext(name)[1].lower()](shown, name, command, title)


def check_ending(name: str, but: Collection[str]) -> None:
    """Refuse a file whose ending says no kind of file that an answer is saved as, ``but`` for some kinds."""
    ending, endings = os.path.splitext(name)[1].lower(), [each for each in WRITERS if each not in but]
    if ending in endings:
        return
    *most, last = endings
    table = "; roofline sweep writes tables" if ending in (".parquet", ".npz") else ""
    hint = f"end the name in {', '.join(most)} or {last}{table}"
    raise InputError(f"an answer cannot be saved as {name!r}", hint=hint)


def save_data(data: Any, path: str | os.PathLike[str]) -> None:
    """Write plain data as JSON."""
    write_text(os.fspath(path), json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _page(shown: list[Shown], name: str, command: Sequence[str], title: str) -> Write:
    page = {**page_of(shown, command=command), **({"command": list(command)} if command else {})}
    page |= {"title": title, "beside": ""} if title else {}
    text = _file(page)

    def write() -> str:
        write_text(name, text)
        return "" if page["steps"] else "no sliders; a page of one question with a bound has them"

    return write


def _text(shown: list[Shown], name: str, *more: Any) -> Write:
    from rich.console import Console

    from roofline.rendering.terminal import terminal

    written = StringIO()
    for answer, said, _ in shown:
        told = answer if said is None else said
        Console(file=written, width=100, highlight=False, markup=False).print(
            told if hasattr(told, "__rich__") or hasattr(told, "__rich_console__") else terminal(told)
        )
    return partial(write_text, name, written.getvalue())


def _write_table(name: str, names: Sequence[str], rows: Sequence[Sequence[Any]], units: Mapping[str, str]) -> None:
    """Columns have the names of a data frame, and their units behind; figures are in SI units."""
    write_rows(name, [with_units(names, units), *rows])


def picture_of(shown: list[Shown], name: str) -> Any:
    """The picture of what was shown, for a file of that name."""
    draw = shown[0][2] if shown else None
    return draw()[0] if draw is not None else _method(shown, "plot", name)()


def _method(shown: list[Shown], word: str, name: str) -> Callable[[], Any]:
    """What makes another form of an answer; text that stands for none has no other."""
    answer: Any = shown[0][0] if shown else None
    if word == "plain_table" and sum(isinstance(each, Answer) and not isinstance(each, Part) for each, *_ in shown) > 1:
        hint = "ask for one, or end the name in .html, .json or .txt"
        raise InputError(f"{name!r} holds one table, and these are several answers", hint=hint)
    drawn_sections = isinstance(answer, Part) and word == "plot"
    found: Callable[[], Any] | None = None if drawn_sections else getattr(answer, word, None)
    if found is None:
        last = ".txt or .csv" if drawn_sections and answer.tables() else ".txt"
        raise InputError(f"what this says cannot be saved as {name!r}", hint=f"end the name in .html, .json, {last}")
    return found


#: What writes answers, by the ending of the file; ``.csv`` is the table of a data frame.
WRITERS: Mapping[str, Callable[[list[Shown], str, Sequence[str], str], Write]] = {
    ".html": _page,
    ".json": lambda shown, name, *_: partial(save_data, plain_data(_method(shown, "to_dict", name)()), name),
    ".txt": _text,
    ".csv": lambda shown, name, *_: partial(_write_table, name, *_method(shown, "plain_table", name)()),
    MACHINE_FILE: lambda shown, name, *_: partial(write_text, name, _method(shown, "to_toml", name)()),
    **dict.fromkeys(PICTURES, lambda shown, name, *_: partial(picture_of(shown, name).save, name)),
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
    """The report of an answer in a frame of a notebook, ``height`` pixels high: it runs its own script alone.

    >>> from roofline import bound
    >>> shown = Interactive(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100"))
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


def _sections(answer: Any) -> Iterable[Section]:
    if isinstance(answer, Bound) and is_array(answer.lower):
        return [*answer.sections(), _configurations(answer)]
    if not isinstance(answer, Bound) or not isinstance(answer.bound_by, str) or answer.question is None:
        return answer.sections()  # type: ignore[no-any-return]
    found = advise(answer, chips=())[:MOST_ADVICE]
    return answer.sections([advice_table(found)] if found else ())


def _configurations(answer: Bound) -> Table:
    """A few of the sizes of an answer over arrays, spread evenly: the time at best, what binds."""
    sizes = [SizeColumn(name, size, "size") for name, size in answer.sizes.items() if is_array(size)]
    shares = SizeColumn("", answer.lower / answer.lower.max(), "bar", "share")
    binding = SizeColumn("bound by", answer.bound_by)
    return configurations([*sizes, SizeColumn("at best", answer.lower, "s"), shares, binding], MOST_CONFIGURATIONS)


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
