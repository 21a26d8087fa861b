"""A report: one HTML file with an answer, its closed form as JavaScript, and sliders for its sizes and rates.

The page needs no network and no Python. Its numbers come from the answer's own formula, printed by the package, so a
slider gives what a fresh answer gives. Parts of an answer that its formula does not hold stand below it as they were.

>>> from roofline import bound
>>> text = report(bound("bf16[B, D] * int8[D, F]", on="v5e", B=64, D=8192, F=8192))
>>> "2*B*D*F/P_bf16" in text, "src=" in text
(True, False)
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from html import escape
from typing import Any, NamedTuple

from roofline.answers import Answer, plain_data, plain_table
from roofline.bounds.bound import Bound
from roofline.bounds.closed_form import Formula, question_formula
from roofline.bounds.comparison import SideBySide
from roofline.errors import InputError
from roofline.files import write_text
from roofline.formulas.printers import text
from roofline.models.serving.answer import Serving
from roofline.rendering.html import html
from roofline.sections import Headline

#: The largest size that a slider reaches where nothing else limits it: so many times what was asked.
FARTHEST = 4096

#: What the page must bring along and may do: no request at all, no script but its own.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"


class ReportStep(NamedTuple):
    """A part of an answer that moves: its formula, and what is expected of it where that was asked."""

    name: str
    formula: Formula
    expected: Any = None
    basis: str = ""
    footprint: Any = None


def report(answer: Answer) -> str:
    """The page of an answer: of a bound, a step of serving, or a formula.

    An answer without a closed form (several sizes at once, a traced program) is an error that says so.
    """
    steps = list(_steps(answer))
    head = next((each for each in answer.sections() if isinstance(each, Headline)), Headline(""))
    page = {
        "title": head.subject,
        "beside": head.beside,
        "steps": [_record(step) for step in steps],
        "answer": plain_data(answer.to_dict()),  # type: ignore[attr-defined]
    }
    functions = ",\n".join(_function(step.formula) for step in steps)
    scripts = [f"window.ROOFLINE = [{functions}];", _bundled("report.js")]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = f"{_POLICY}; script-src {hashes}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(head.subject)} · roofline</title>",
            f"<style>{_bundled('report.css')}</style></head>",
            f'<body><main><div id="live"></div><details class="card" id="asked"><summary>The whole answer, as asked'
            f"</summary>{html(answer.sections())}</details></main>",
            f'<script type="application/json" id="page">{_embedded(page)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def save(answer: Answer, path: str | os.PathLike[str]) -> None:
    """Write an answer as the ending of the name says: :data:`WRITERS` lists what there is."""
    name = os.fspath(path)
    writer = WRITERS.get(os.path.splitext(name)[1].lower())
    if writer is None:
        *most, last = WRITERS
        raise InputError(f"an answer cannot be saved as {name!r}", hint=f"end the name in {', '.join(most)} or {last}")
    writer(answer, name)


def _save_report(answer: Answer, name: str) -> None:
    write_text(name, report(answer))


def _save_data(answer: Answer, name: str) -> None:
    data = plain_data(answer.to_dict())  # type: ignore[attr-defined]
    write_text(name, json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _save_text(answer: Answer, name: str) -> None:
    from io import StringIO

    from rich.console import Console

    shown = StringIO()
    Console(file=shown, width=100, highlight=False, markup=False).print(answer)
    write_text(name, shown.getvalue())


def _save_table(answer: Answer, name: str) -> None:
    """Its largest table; a column's unit stands behind its name."""
    import csv
    from io import StringIO

    names, rows, units = plain_table(answer.table().largest())
    written = StringIO()
    csv.writer(written, lineterminator="\n").writerows(
        [[f"{each} ({units[each]})" if each in units else each for each in names], *rows]
    )
    write_text(name, written.getvalue())


def _save_picture(answer: Answer, name: str) -> None:
    answer.plot().save(name)


#: How an answer is written, by the ending of the file.
WRITERS: Mapping[str, Callable[[Any, str], None]] = {
    ".html": _save_report,
    ".json": _save_data,
    ".txt": _save_text,
    ".csv": _save_table,
    ".svg": _save_picture,
    ".png": _save_picture,
    ".pdf": _save_picture,
}


def _steps(answer: Answer) -> Iterator[ReportStep]:
    """The parts of an answer that have a closed form."""
    if isinstance(answer, Formula):
        yield ReportStep(answer.expression, answer)
    elif isinstance(answer, Serving):
        yield from _serving_steps(answer)
    elif isinstance(answer, Bound) and answer.question is not None:
        found = answer.expectation
        yield ReportStep("bound", question_formula(answer.question), found, _basis(found), answer.footprint)
    else:
        if isinstance(answer, SideBySide):
            raise InputError("a report is of one machine", hint="name one with --on; .json and .txt take several")
        kind = type(answer).__name__
        raise InputError(f"a report of a {kind} is not made", hint="bound, llm and formula give one; others give .json")


def _serving_steps(answer: Serving) -> Iterator[ReportStep]:
    from roofline.models.closed_form import serving_formula

    for name, step in reversed(answer.phases.items()):
        if not all(isinstance(size, int | float) for size in step.sizes.values() if size is not None):
            raise InputError("a report is of one configuration", hint="give every size one value")
        formula = serving_formula(answer, name)
        yield ReportStep(name, formula, step.expectation, _basis(step.expectation), step.footprint)


def _basis(expected: Any) -> str:
    return "" if expected is None else f"constants of {expected.library}"


def _record(step: ReportStep) -> dict[str, Any]:
    """What the page is told of a step; its function stands in a script."""
    formula = step.formula
    expected = None
    if step.expected is not None:
        expected = {name: float(getattr(step.expected, name)) for name in ("value", "low", "high")}
    memory = step.footprint
    return {
        "name": step.name,
        "machine": formula.machine.name,
        "sizes": [_slider(formula, name) for name in formula.sizes],
        "rates": [
            {"name": name, "value": rate.value, "unit": rate.unit, "resource": rate.resource, "source": rate.source}
            for name, rate in formula.rates.items()
        ],
        "terms": [
            {
                "resource": term.resource,
                "parts": [
                    {
                        "label": part.label, "amount": text(part.amount, "python"), "unit": part.unit,
                        "rate": str(part.rate), "operations": list(part.operations),
                    }
                    for part in term.parts
                ],
            }
            for term in formula.terms
        ],
        "reasons": [condition.reason for condition in formula.conditions],
        "capacity": None if memory is None else memory.capacity,
        "level": "" if memory is None else memory.level,
        "expected": None if expected is None else {**expected, "basis": step.basis},
    }  # fmt: skip


def _slider(formula: Formula, name: str) -> dict[str, Any]:
    """A size with the stretch of its slider: from 1 to as far as the formula holds, or far beyond what was asked."""
    value = formula.point.get(name, 1)
    most = max(FARTHEST, value * 16)
    while most > value and not _holds(formula, {**formula.point, name: most}):
        most = max(value, most // 2)
    return {"name": name, "value": value, "least": 0 if name in formula.from_zero else 1, "most": max(most, 2)}


def _holds(formula: Formula, point: Mapping[str, float]) -> bool:
    numbers = {formula.sizes[name]: value for name, value in point.items()}
    return all(bool(condition.holds.subs(numbers)) for condition in formula.conditions)


def _function(formula: Formula) -> str:
    """The formula and the conditions under which it holds, as JavaScript functions of one object."""
    sizes, rates = ", ".join(formula.sizes), ", ".join(formula.rates)
    everything = ", ".join(filter(None, (sizes, rates)))
    holds = ", ".join(text(condition.holds, "javascript") for condition in formula.conditions)
    parts = ", ".join(
        f"[{', '.join(text(part.amount / part.rate, 'javascript') for part in term.parts)}]" for term in formula.terms
    )
    return (
        f"{{time: {formula.printed('javascript')}, parts: ({{{everything}}}) => [{parts}],"
        f" holds: ({{{sizes}}}) => [{holds}]}}"
    )


def _embedded(data: Any) -> str:
    """JSON that nothing in it can end: no tag, no comment, no separator of lines that a script takes for one."""
    written = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for letter in ("<", ">", "&", "\u2028", "\u2029"):
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return written


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _bundled(name: str) -> str:
    """A file of the page, built from ``web/``."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read().replace("</script", "<\\/script")
