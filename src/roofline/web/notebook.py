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
from roofline.charts.answer_charts import pictures
from roofline.errors import RooflineError
from roofline.rendering.html import html
from roofline.sections import Amount, Column, Headline, Row, Section, ShareBar, Table, figures, spread
from roofline.sizes import is_array
from roofline.web.report import report

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
    import numpy as np

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
    data = b64encode(drawing.svg(chart).encode()).decode()
    return (
        f'<img alt="{escape(chart.title)}" width="{chart.width}" style="max-width:100%;background:#fff"'
        f' src="data:image/svg+xml;base64,{data}">'
    )
