"""One function from lines of notation to a chart: a roofline, throughput over a size, or time over a size.

>>> chart = plot("bf16[512, 8192] @ bf16[8192, 8192]", on="h100")
>>> chart.kind, [round(point.x) for point in chart.points], chart.points[0].bound_by
('roofline', [455], 'tensor')
>>> chart = plot("bf16[B, D] * bf16[D, F]", on=["v5e", "h100"], vary="B", B=[1, 16, 256, 4096], D=8192, F="D")
>>> chart.kind, [line.label for line in chart.lines][:2]
('throughput', ['v5e', 'h100'])

What to expect is drawn below what cannot be beaten: a dashed roof or curve, whiskers of 80%, launch-bound sizes.

>>> chart = plot("bf16[512, 8192] @ bf16[8192, 8192]", on="h100", estimate="vllm")
>>> [line.label for line in chart.lines if "expected" in line.label][:2]
['h100 expected bf16 slope', 'h100 expected bf16']
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, product
from typing import Any

from roofline.answers import EXPECTED_KINDS, Answer, figures_of, machines_in
from roofline.bounds.api import ARGUMENTS, question, target
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import word_of
from roofline.bounds.question import NOT_REPEATED, USES, refuse_idle, resolve_sizes
from roofline.bounds.ridges import Zones, zones
from roofline.charts.chart import Chart, charts_of
from roofline.charts.drawing import THEMES
from roofline.charts.roofline_charts import ROUND, machine_index
from roofline.charts.roofs import RoofStroke, machine_roof, stroke_lines
from roofline.charts.size_charts import EXPECTED, MOST_CURVES, Series, series
from roofline.charts.specification import Line, Mark, Region
from roofline.counts import typed_sizes
from roofline.errors import InputError, SizeError, check_one_of, quoted, suggest
from roofline.estimates.estimator import Estimator, Expectation, ExpectedRoof, expected_roof
from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import override
from roofline.hardware.rate import data_level
from roofline.measurement.runs import Measured, read_measured
from roofline.notation import program
from roofline.ops import formula_names
from roofline.quantity import format_quantity, parse
from roofline.signatures import spelled, takes, wrong_kind
from roofline.sizes import check

Targets = str | Machine | Sequence[str | Machine] | None

#: What belongs to a roofline only, by the name it is given under.
_ROOFLINE_ONLY = ("dtypes", "levels", "bandwidths", "measured")

#: Choices that the machine carries.
_OF_MACHINES = ("set", "files", "unit", "over", "achievable")

#: The most points one roofline can hold when a size has several values.
MOST_POINTS = 64


@takes(question)
def plot(
    *expressions: str,
    on: Targets = None,
    vary: str | None = None,
    kind: str | None = None,
    sizes: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    levels: Sequence[str] = (),
    bandwidths: Sequence[float | str] = (),
    points: Any = None,
    measured: Any = None,
    theme: str = "light",
    title: str = "",
    estimate: str | bool | Estimator = "",
    constants: Any = (),
    eager: bool = False,
    **arguments: Any,
) -> Chart:
    """Draw expressions on machines; the chart is a value, drawn when it is saved or shown.

    Without ``vary`` the chart is a roofline. With it, attainable FLOP/s (or, with ``kind="time"``, time) over that
    size, a curve for each expression, machine and combination of the other sizes with several values.

    >>> time = plot("bf16[B, 8192] * bf16[8192, 8192]", on="v5e", kind="time", B=range(1, 513))
    >>> [(knee.text, knee.label) for knee in time.ridges]
    [('B = 255.5', 'from B = 255.5 mxu binds')]

    Parameters
        ``on``          a target or several: ``"h100"``, ``["h100", "a100"]``, machines
        ``vary``        the size along the horizontal axis; found by itself where only one has several values
        ``kind``        ``roofline``, ``throughput`` or ``time``
        ``sizes``       sizes by name; plain keyword arguments are sizes too (``B=range(1, 512)``, ``F="4*D"``)
        ``names``       what stands beside the points or curves, in the order of the expressions
        ``dtypes``      roofline: a ceiling for each (``"bf16"``, ``"vector/fp32"``); without work, ``dtype`` is one too
        ``levels``      roofline: a slope for each memory level (``"hbm"``, ``"vmem"``)
        ``bandwidths``  roofline of one machine at several bandwidths, over regions coloured under its first ceiling
        ``points``      roofline: runs of a CSV file, tuples or dicts (:func:`~roofline.measurement.runs.read_measured`)
        ``measured``    the same, or the time that the one expression took (``"1.1ms"``)
        ``estimate``    a library (``"vllm"``): a second, dashed roof or curve says what to expect of its kernels, with
                        whiskers that hold 80 %; ``constants`` are files of ``roofline calibrate``, ``eager`` is
                        without a CUDA graph

    Lists of raw amounts (``intensity=[7, 25]``) are several points. The rest (``set``, ``unit``, ``over``, ``policy``
    …) is as in :func:`roofline.bound`. Intensities are FLOP/B, rates FLOP/s, times seconds. Bad input raises
    :class:`~roofline.errors.InputError`.
    """
    check_one_of(f"unknown theme {theme!r}", theme, THEMES, "themes")
    given_answers = [each for one in expressions for each in (one if isinstance(one, list | tuple) else [one])]
    if any(isinstance(each, Answer) for each in given_answers):
        hint = "answer.plot(), and of several one.compare(other).plot()"
        raise InputError("plot draws lines of the notation, and an answer draws itself", hint=hint)
    if points is not None:
        if measured is not None:
            raise InputError("points= and measured= are two words for the same", hint="leave one of them out")
        measured = points
    asked = _PlotRequest(expressions, _targets(machines_in(on)), tuple(names), *_split(sizes, arguments))
    chosen, over = _kind(kind, vary, asked.sizes)
    subject, draw = _drawn()[chosen]
    if subject == "roofline" and not asked.lines:
        dtypes = (*asked.of_bare_roof(), *dtypes)
    given = dict(zip(_ROOFLINE_ONLY, (dtypes, levels, bandwidths, measured), strict=True))
    if subject == "roofline":
        return _roofline(draw, asked, given, title, theme, _estimator(estimate, constants, eager))
    misplaced = next((name for name, value in given.items() if value), None)
    if misplaced is not None:
        wrong = f"{misplaced} goes with a roofline, not with {chosen} over a size"
        raise InputError(wrong, hint=f"leave {misplaced} out")
    curves = _curves(asked, over)
    chart, expects = draw(curves, title=title, theme=theme), _estimator(estimate, constants, eager)
    if expects is None:
        return chart
    return with_expected_curves(chart, curves, expects)


def _estimator(library: str | bool | Estimator, files: Any, eager: bool) -> Any:
    """Constants of a library, where it was asked what to expect."""
    if isinstance(library, Estimator):
        return library
    if not library:
        chosen = {"constants": files, "eager": eager}
        if (wrong := wrong_kind(chosen, EXPECTED_KINDS)) is not None:
            raise wrong
        given = next((name for name, value in chosen.items() if value), None)
        if given is not None:
            hint = f"add {spelled('estimate', 'vllm')}"
            raise InputError(f"{spelled(given)} goes with {spelled('estimate')}", hint=hint)
        return None
    return Estimator("vllm" if library is True else library, files, eager)


class _PlotRequest:
    """What is to be drawn: expressions (or lots of raw work) on targets, at sizes, under a question's choices."""

    def __init__(
        self,
        expressions: tuple[str, ...],
        targets: Sequence[str | Machine | None],
        names: tuple[str, ...],
        sizes: dict[str, Any],
        choices: dict[str, Any],
    ) -> None:
        self.lots = _lots(choices)
        self.lines: tuple[str | None, ...] = expressions or (None,) * len(self.lots)
        self.targets, self.sizes, self.choices = targets, sizes, choices
        if names and len(names) != len(self.lines):
            what = "lots of work" if self.lots and not expressions else "expressions"
            raise InputError(f"{len(names)} names for {len(self.lines)} {what}", hint="name each, in order")
        if len(self.lots) > 1 and not (names or expressions):
            names = tuple(", ".join(f"{name} {value}" for name, value in lot.items()) for lot in self.lots)
        self.names = names

    def of_bare_roof(self) -> tuple[str, ...]:
        """The dtype of a roof without work under it, where one is given; what only work could have is an error."""
        given = {name: value for name, value in self.choices.items() if value != ARGUMENTS[name]}
        dtype = given.pop("dtype", None)
        idle = next((name for name in (*given, *self.sizes) if name not in _OF_MACHINES), None)
        if idle is not None:
            hint = "leave it out, or give an expression such as 'bf16[B, D] * bf16[D, F]'"
            word = word_of(idle) if idle in self.choices else f"{idle}="
            raise InputError(f"{word} says nothing about a roof without work under it", hint=hint)
        return () if dtype is None else (dtype,)

    def name(self, index: int) -> str | None:
        return self.names[index] if self.names else None

    def sizes_of(self, line: str | None) -> dict[str, Any]:
        """The sizes a line has: all of them, unless other lines are drawn beside it."""
        if line is None or len(self.lines) == 1:
            return self.sizes

        labels = program(line, self.choices.get("compute")).labels
        found = {name: self.sizes[name] for name in self.sizes if name in labels}
        for name, value in found.items():
            needed = self.needed_by(value)
            if not any(_has_several(self.sizes.get(other)) for other in needed):
                found[name] = resolve_sizes({other: self.sizes.get(other) for other in (name, *needed)})[name]
        return found

    def needed_by(self, formula: Any) -> list[str]:
        """The sizes a formula stands on, directly or through others."""
        needed = list(formula_names(formula)) if isinstance(formula, str) else []
        for name in needed:
            further = self.sizes.get(name)
            needed += [n for n in formula_names(further) if n not in needed] if isinstance(further, str) else []
        return needed

    def check_sizes(self) -> None:
        """Raise where a size is used by no line; a single line's own question says so itself."""
        if len(self.lines) < 2:
            return
        stated = {name for line in self.lines for name in self.sizes_of(line)}
        used = stated | {name for stands in stated for name in self.needed_by(self.sizes[stands])}
        for name in self.sizes:
            check_one_of(f"size {name} is used by none of the expressions", name, used, "sizes", error=SizeError)

    def refuse_idle(self, machine: Machine) -> None:
        """Refuse a choice that has no effect on any of the lines."""
        asked = [question(line, on=machine, **self.choices_on(index)) for index, line in enumerate(self.lines)]
        refuse_idle(*asked, uses=(*USES, *NOT_REPEATED))

    def answers(self, machine: Machine) -> Iterator[tuple[Bound, str | None]]:
        """A bound, with its name, for every line and combination of sizes."""
        for index, line in enumerate(self.lines):
            sizes = self.sizes_of(line)
            several = {k: check(k, v).ravel().astype(int).tolist() for k, v in sizes.items() if _has_several(v)}
            combinations = list(product(*several.values()))
            if len(combinations) > MOST_POINTS:
                first = next(iter(several))
                hint = f"give fewer values to {', '.join(several)}, or draw over one: {spelled('vary', first)}"
                raise SizeError(f"{len(combinations)} points are more than a chart can hold ({MOST_POINTS})", hint=hint)
            for values in combinations:
                picked = dict(zip(several, values, strict=True))
                varied = [f"{k} = {v}" for k, v in picked.items()]
                final = resolve_sizes({**sizes, **picked})
                answer = question(line, on=machine, sizes=final, **self.choices_on(index)).answer()
                if varied and (self.names or len(self.lines) > 1):
                    varied = [self.name(index) or str(line), *varied]
                elif not varied and len(answer.ops) == 1:
                    varied = [self.name(index) or (line if line and not sizes else "")]
                yield answer, ", ".join(filter(None, varied)) or self.name(index)

    def choices_on(self, index: int) -> dict[str, Any]:
        """The choices of the question about one line, without those the machine already carries."""
        return {k: v for k, v in self.choices_of(index).items() if k not in _OF_MACHINES}

    def choices_of(self, index: int) -> dict[str, Any]:
        """The choices of the question about one line, or one lot of raw work."""
        return self.choices if self.lines[index] is not None else {**self.choices, **self.lots[index]}

    def machines(self) -> list[Machine]:
        """The targets, or where the expressions close with one, that."""
        own = {k: v for k, v in self.choices.items() if k in _OF_MACHINES}
        if any(t is not None for t in self.targets) or not self.lines:
            return [target(t, **{**own, **figures_of(t, self.targets, own)}) for t in self.targets]
        asked = enumerate(self.lines)
        found = [question(line, sizes=self.sizes_of(line), **self.choices_of(index)).machine for index, line in asked]
        return list({machine.key: machine for machine in found}.values())


def _lots(choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Raw work, as many lots of it as its amounts have values: the first FLOPs with the first bytes, and so on.

    >>> _lots({"flops": [3e10, 1e9], "bytes": [1e9, 1e8], "dtype": "fp32"})
    [{'flops': 30000000000.0, 'bytes': 1000000000.0}, {'flops': 1000000000.0, 'bytes': 100000000.0}]
    """
    raw = {name: choices[name] for name in ("flops", "bytes", "intensity") if choices.get(name) is not None}
    counts = {name: len(value) for name, value in raw.items() if _has_several(value)}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"amounts that go together differ in number: {said}", hint="give as many of each")
    count = min(counts.values(), default=1 if raw else 0)
    return [{name: value[i] if name in counts else value for name, value in raw.items()} for i in range(count)]


def _targets(on: Targets) -> tuple[str | Machine | None, ...]:
    if on is None or isinstance(on, str | Machine):
        return (on,)
    if not isinstance(on, Sequence):
        raise InputError(f"{quoted(on)} is not a target", hint="name a chip, as in on='h100', or several in a list")
    if not on:
        raise InputError("`on` is empty", hint="name at least one machine, as in on='h100'")
    return tuple(on)


def _split(sizes: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part keyword arguments into sizes and a question's own choices."""
    named = {name: value for name, value in arguments.items() if name not in ARGUMENTS}
    twice = next((name for name in named if name in (sizes or {})), None)
    if twice is not None:
        raise SizeError(f"size {twice} is given twice", hint="give it once")
    choices = {name: value for name, value in arguments.items() if name in ARGUMENTS}
    return typed_sizes({**(sizes or {}), **named}), choices


def _has_several(value: Any) -> bool:
    return not isinstance(value, str) and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0


def kinds() -> tuple[str, ...]:
    """The kinds of charts that lines of notation are drawn as."""
    return tuple(_drawn())


def _drawn() -> dict[str, tuple[str, Callable[..., Chart]]]:
    """The subject of each kind of chart, and the function that draws it."""
    subjects = ("roofline", "size")
    return {kind: (subject, draw) for subject in subjects for kind, draw in charts_of(subject).items()}


def _kind(kind: str | None, vary: str | None, sizes: Mapping[str, Any]) -> tuple[str, str]:
    """Settle what to draw, and over which size."""
    if kind is not None and kind not in kinds():
        raise InputError(f"unknown kind of chart {kind!r}", hint=suggest(kind, kinds(), what="kinds"))
    over_intensity = charts_of("roofline")
    if kind in over_intensity and vary is not None:
        raise InputError("a roofline is drawn over intensity, not over a size", hint="leave vary or kind out")
    chosen = kind or ("roofline" if vary is None else "throughput")
    if chosen in over_intensity or vary is not None:
        return chosen, vary or ""
    several = [name for name, value in sizes.items() if _has_several(value) and len(value) > 1]
    if len(several) != 1:
        found = f"{', '.join(several)} have several values" if several else "no size has several values"
        example = several[0] if several else "B"
        raise SizeError(f"it is not said which size to draw over: {found}", hint=f"say vary={example!r}")
    return chosen, several[0]


def _one_time(measured: Any) -> float | None:
    """Seconds, where one time is given and no file of that name; None where points are."""
    if isinstance(measured, int | float):
        return parse(measured, "s")
    if not isinstance(measured, str) or os.path.exists(measured) or not measured[:1].isdigit():
        return None
    with suppress(InputError):
        return parse(measured, "s")
    return None


def _measured_once(bounds: Sequence[Bound], seconds: float, names: Mapping[int, str]) -> Measured:
    """The run that took so long: that of the only expression on the only machine."""
    found = bounds[0] if len(bounds) == 1 else None
    if found is None or not found.flops or not found.intensity:
        hint = "give one expression and one machine; of many runs give a CSV file or (name, flops, bytes, seconds)"
        raise InputError("one measured time is that of one expression with FLOPs on one machine", hint=hint)
    name, flops = names.get(0) or str(found.expression), float(found.flops)
    return Measured(f"{name} measured", flops, flops / float(found.intensity), seconds, on=found.machine.key)


def _roofline(
    draw: Callable[..., Chart], asked: _PlotRequest, given: Mapping[str, Any], title: str, theme: str, expects: Any
) -> Chart:
    machines = asked.machines()
    asked.check_sizes()
    asked.refuse_idle(machines[0])
    took = _one_time(given["measured"])
    runs = read_measured(given["measured"]) if took is None and given["measured"] is not None else ()
    for run in runs:
        if not run.flops or not run.bytes:
            lacking = "bytes" if run.flops else "FLOPs"
            raise InputError(f"{run.name!r} has no {lacking}, so no place in a roofline", hint="leave it out")
    dtypes, found = given["dtypes"], None
    if given["bandwidths"]:
        if len(machines) > 1:
            raise InputError("bandwidths go with one machine", hint=f"draw {machines[0].key} alone")
        if given["levels"]:
            raise InputError("bandwidths and levels are two ways to say the slopes", hint="leave one of them out")
        dtypes = dtypes or (_computes_on(asked, machines[0]),)
        found, machines = _zones(machines[0], given["bandwidths"], dtypes[0])
    bounds: list[Bound] = []
    names: dict[int, str] = {}
    for machine in machines:
        for answer, name in asked.answers(machine):
            if name is not None:
                names[len(bounds)] = name
            bounds.append(answer)
    if took is not None:
        runs = (_measured_once(bounds, took, names),)
    chart = draw(
        machines, bounds, names=names, dtypes=dtypes, levels=given["levels"], zones=found, measured=runs,
        allowed=bounds if took is not None else (), title=title, theme=theme,
    )  # fmt: skip
    if expects is None:
        return chart
    if found is not None:
        raise InputError("what to expect at several bandwidths is not known", hint="leave bandwidths or estimate out")
    return with_expected_roofs(chart, machines, bounds, expects)


def _zones(machine: Machine, bandwidths: Sequence[float | str], ceiling: str) -> tuple[Zones, list[Machine]]:
    """The regions that are coloured under a ceiling (``bf16``, ``vector/fp32``), and the machine at each bandwidth."""
    name = data_level(machine).name
    unit, _, dtype = ceiling.rpartition("/")
    found = zones(machine, bandwidths, dtype=dtype, unit=unit or None)
    return found, [replace(override(machine, {name: b}), given=machine.given) for b in found.bandwidths]


def _computes_on(asked: _PlotRequest, machine: Machine) -> str:
    """The ceiling of the first work that has one; without any work, of bf16."""
    for answer, _ in asked.answers(machine):
        done = {use.place: use.dtype for use in answer.uses if use.quantity == "flops"}
        if done:
            return done.get("matrix") or f"vector/{done['vector']}"
    return "bf16"


def _curves(asked: _PlotRequest, unknown: str) -> dict[str, Series]:
    """A curve for each expression, machine and combination of the other sizes, by the shortest label that tells it."""
    if not asked.lines:
        raise InputError("nothing to draw over a size", hint="give an expression such as 'bf16[B, D] * bf16[D, F]'")
    asked.check_sizes()
    machines = asked.machines()
    asked.refuse_idle(machines[0])
    found: list[tuple[list[str], Series]] = []
    for index, line in enumerate(asked.lines):
        if unknown not in asked.sizes_of(line) and unknown in asked.sizes:
            raise SizeError(f"{line!r} has no size {unknown} to draw it over", hint=f"call one of its sizes {unknown}")
        for machine in machines:
            for curve in series(line, unknown, sizes=asked.sizes_of(line), on=machine, **asked.choices_on(index)):
                own = [asked.name(index) or str(line)] if len(asked.lines) > 1 or asked.names else []
                parts = [*own, *([machine.key] if len(machines) > 1 else []), *filter(None, [curve.label])]
                found.append((parts, curve))
    if len(found) > MOST_CURVES:
        hint = "draw fewer expressions, machines or sizes"
        raise InputError(f"{len(found)} curves are more than a chart can tell apart ({MOST_CURVES})", hint=hint)
    return {", ".join(parts) or curve.expression: curve for parts, curve in found}


#: The stroke of what is expected, of roofs and of whiskers.
DASH, SOLID = 1, 0
#: Sizes at which a curve is estimated, and those of them with a whisker.
MOST_SIZES, WHISKERS = 25, 5
#: Share of the expected time that the launch takes at n½.
HALF = 0.5
NO_CONSTANTS = "nothing is expected of {0}: no constants of {1} are known; roofline calibrate makes some from ten runs"


def with_expected_roofs(chart: Chart, machines: Sequence[Machine], answers: Sequence[Bound], by: Estimator) -> Chart:
    """A roofline with the roof that products reach in practice, and a whisker below each operation's place."""
    marks: list[Mark] = []
    notes: list[str] = []
    missing: list[str] = []
    for number, machine in enumerate(machines):
        mine = [answer for answer in answers if machine_index(answer.machine, machines) == number]
        formats = dict.fromkeys(ceiling.dtype for ceiling in machine_roof(machine, answers=mine).ceilings)
        for dtype in formats:
            roof = _roof(machine, dtype, by)
            if roof is None:
                missing.append(NO_CONSTANTS.format(f"{machine.key} {dtype}", by.library))
                continue
            group = machine.key if len(machines) > 1 else ""
            label = f"{machine.key} expected {dtype}"
            peak = f"expected {dtype} {format_quantity(roof.peak, 'FLOP/s')}"
            rate = f"expected {format_quantity(roof.bandwidth, 'B/s')}"
            slope = RoofStroke(f"{label} slope", rate, roof.bandwidth, number, DASH)
            marks += stroke_lines([slope], [RoofStroke(label, peak, roof.peak, number, DASH)], chart.x.limits, group)
            small = f"{format_quantity(roof.half_bytes, 'B')} or {format_quantity(roof.half_flops, 'FLOP')}"
            notes.append(f"{label}: launch-bound below n½ = {small}: as long as a start of {_seconds(roof.start)}")
    whiskers = [line for answer in answers for line in _whiskers(answer, machines, by)]
    lowest = min([chart.y.limits[0], *(line.y[0] / ROUND for line in whiskers)])
    said = f"dashed: what products of {by.library} reach; whiskers: 80% of what is expected of an operation"
    axis = replace(chart.y, limits=(lowest, chart.y.limits[1]))
    small_print = (said, *notes, *chart.notes) if marks or whiskers else chart.notes
    subtitle = " · ".join(filter(None, (chart.subtitle, *missing)))
    return replace(chart, marks=(*chart.marks, *marks, *whiskers), y=axis, notes=small_print, subtitle=subtitle)


def with_expected_curves(chart: Chart, curves: Mapping[str, Series], by: Estimator) -> Chart:
    """A chart over a size with an expected curve beside each, whiskers on it, and the sizes that the launch binds."""
    marks: list[Mark] = []
    said = f"dashed: what is expected of kernels of {by.library}, at {MOST_SIZES} sizes at most; whiskers: 80%"
    missing: list[str] = []
    in_time = chart.kind == "time"
    for number, (label, curve) in enumerate(curves.items()):
        found = [(x, *_at(curve, x, by)) for x in _some(curve.x)]
        if not all(one.kernels and all(each.source is not None for each in one.kernels) for _, _, one in found):
            missing.append(NO_CONSTANTS.format(label, by.library))
            continue
        ends = [(x, *(_value(answer, float(t), in_time) for t in (e.value, e.low, e.high))) for x, answer, e in found]
        across, up = tuple(float(x) for x, *_ in ends), tuple(y for _, y, *_ in ends)
        marks.append(Line(f"expected: {label}", across, up, "curve", number, DASH, EXPECTED))
        step = max(1, (len(found) - 1) // WHISKERS)
        for (x, _, e), (_, _, one, other) in list(zip(found, ends, strict=True))[::step]:
            whisker = f"expected at {curve.unknown} = {x:g}: {_interval(e)}"
            marks.append(Line(whisker, (x, x), (min(one, other), max(one, other)), "resource", number, SOLID))
        below = _half(found)
        if below is not None and len(curves) == 1:
            text = f"launch-bound below n½: {curve.unknown} = {below:.3g}"
            marks.insert(0, Region(text, chart.x.limits[0], below, "yellow"))
    values = [y for mark in marks if isinstance(mark, Line) for y in mark.y]
    bottom, top = chart.y.limits
    lowest = min([bottom, *values]) if chart.y.scale == "log" else bottom
    axis = replace(chart.y, limits=(lowest, max([top, *values])))
    notes = (said, *chart.notes) if marks else chart.notes
    subtitle = " · ".join(filter(None, (chart.subtitle, *missing)))
    return replace(chart, marks=(*chart.marks, *marks), y=axis, notes=notes, subtitle=subtitle)


def _roof(machine: Machine, dtype: str, by: Estimator) -> ExpectedRoof | None:
    try:
        return expected_roof(machine, dtype=dtype, library=by)
    except InputError:
        return None


def _whiskers(answer: Bound, machines: Sequence[Machine], by: Estimator) -> Iterator[Line]:
    """From the least to the most FLOP/s that are expected of an operation, at its intensity."""
    number = machine_index(answer.machine, machines)
    on = f" on {answer.machine.key}" if len(machines) > 1 else ""
    for one in by.expect(answer).kernels:
        flops = float(sum(part.flops for part in one.run.parts))
        parts = [part for part in one.run.parts if part.intensity]
        if one.source is None or not flops or not parts:
            continue
        x = flops / sum(float(part.flops) / float(part.intensity or 1.0) for part in parts)
        ends = (flops / float(one.high), flops / float(one.low))
        said = f"expected: {one.run.name}{on}: {format_quantity(flops / float(one.value), 'FLOP/s')}, {_interval(one)}"
        yield Line(said, (x, x), ends, "resource", number, SOLID)


def _interval(found: Any) -> str:
    return f"{_seconds(found.value)} ({_seconds(found.low)} to {_seconds(found.high)}, {found.holds})"


def _seconds(time: Any) -> str:
    return format_quantity(float(time), "s")


def _some(sizes: Sequence[float]) -> list[int]:
    """Whole sizes among those of a curve, at most so many, evenly in their order."""
    whole = [int(x) for x in sizes if float(x).is_integer()]
    step = max(1, math.ceil((len(whole) - 1) / (MOST_SIZES - 1)))
    return list(dict.fromkeys([*whole[::step], whole[-1]]))


def _at(curve: Series, x: int, by: Estimator) -> tuple[Bound, Expectation]:
    answer = curve.answer.question.with_sizes(**{curve.unknown: x}).answer()
    return answer, by.expect(answer)


def _value(answer: Bound, seconds: float, in_time: bool) -> float:
    return seconds if in_time else float(answer.flops) / seconds


def _half(found: Sequence[tuple[int, Bound, Expectation]]) -> float | None:
    """The size at which the launch takes half of the expected time, between the sizes around it; None where none do."""
    shares = [(x, sum(float(k.parts.get("launch", 0.0)) for k in e.kernels) / float(e.value)) for x, _, e in found]
    for (x0, before), (x1, after) in pairwise(shares):
        if before >= HALF > after:
            return x0 + (x1 - x0) * (before - HALF) / (before - after)
    return None


__all__ = ["with_expected_curves", "with_expected_roofs"]
