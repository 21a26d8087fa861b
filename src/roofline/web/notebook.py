"""What a notebook shows of an answer: what it says, what would make it faster, and its picture.

>>> from roofline import bound
>>> shown = notebook(bound("bf16[64, 8192] * bf16[8192, 8192]", on="h100"))
>>> shown.count("data:image/svg+xml"), "still memory-bound" in shown
(1, True)
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Any

from roofline.bounds.advise import advice_table, advise
from roofline.bounds.bound import Bound
from roofline.charts import drawing
from roofline.charts.answers import pictures
from roofline.errors import RooflineError
from roofline.rendering.html import html
from roofline.sections import Section

#: Lines of advice that are shown.
MOST_ADVICE = 4


def notebook(answer: Any) -> str:
    """Show an answer as HTML: its sections, advice where it has some at no cost, its usual picture."""
    return html(_sections(answer)) + _picture(answer)


def _sections(answer: Any) -> Iterable[Section]:
    if not isinstance(answer, Bound) or not isinstance(answer.bound_by, str) or answer.question is None:
        return answer.sections()  # type: ignore[no-any-return]
    found = advise(answer)[:MOST_ADVICE]
    return answer.sections([advice_table(found)] if found else ())


def _picture(answer: Any) -> str:
    """The usual picture, where the answer has one; an answer that cannot be drawn is shown without."""
    try:
        draw = next(iter(pictures(answer).values()), None)
        chart = None if draw is None else draw()
    except RooflineError:
        return ""
    if chart is None:
        return ""
    data = b64encode(drawing.svg(chart).encode()).decode()
    return (
        f'<img alt="{escape(chart.title)}" width="{chart.width}" style="max-width:100%;background:#fff"'
        f' src="data:image/svg+xml;base64,{data}">'
    )
