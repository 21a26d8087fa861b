"""The pictures of an answer, whatever its kind: what :meth:`roofline.answers.Answer.plot` draws.

>>> from roofline import bound, llm
>>> answer = bound("bf16[512, 8192] @ bf16[8192, 8192]", on="h100")
>>> list(pictures(answer)), plot_answer(answer)
(['roofline'], <Chart 'Roofline of NVIDIA H100 SXM5 80GB': roofline with 2 lines, 1 point, 1 ridge>)
>>> list(pictures(llm("llama-3-8b", on="h100", context=8192)))
['roofline', 'time', 'memory']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from roofline.answers import Answer
from roofline.bounds.bound import Bound
from roofline.bounds.comparison import SideBySide
from roofline.charts.bars import MOST_ROWS, bars_chart, left_out, memory_chart, split_chart, with_the_rest
from roofline.charts.chart import Chart, charts_of
from roofline.charts.heat_maps import HeatMap, with_heat_maps
from roofline.charts.plot import plot
from roofline.charts.roofline_charts import (
    bandwidth_chart,
    measured_chart,
    program_roofline,
    roofline_chart,
    rows_roofline,
    why_no_rate,
)
from roofline.charts.size_charts import beside_chart, resources_chart, step_chart
from roofline.charts.specification import LeftOut
from roofline.errors import InputError, suggest
from roofline.formulas.tables import Columns
from roofline.lazy import np
from roofline.models.parallelism.layout import OPTIONS, is_several
from roofline.quantity import EQUAL, agree, format_amount, format_count, format_percent, format_range
from roofline.signatures import either
from roofline.sizes import array_of, is_array, is_number, is_symbol
from roofline.statements import BY_WHAT_IS_TIMED

#: Draws one picture of an answer.
Picture = Callable[[], Chart]

#: The most operations of a bound that are points of their own.
MOST_POINTS = 12

#: What people call a picture of a figure over two sizes: the first of its maps.
_HEAT_MAPS = ("heatmap", "heat_map", "heat map", "heat", "map", "grid", "surface")

#: Rates that differ by less than this share are a flat line.
FLAT = 0.01

#: Sizes at which a curve is drawn, beside those that were asked where they are not too many.
POINTS_OF_CURVE, MOST_SIZES = 120, 1000


def plot_answer(answer: Any, kind: str | None = None, *, theme: str = "light") -> Chart:
    """Draw an answer: its usual picture, or one of another kind that it has."""
    found = pictures(answer)
    if not found:
        what = type(answer).__name__
        has_table = _has_table(answer)
        files = f"end the name in .html, {'.csv, ' if has_table else ''}.json or .txt"
        methods = "its table() and to_dict() hold its figures" if has_table else "its to_dict() holds its figures"
        size = next(iter(getattr(answer, "sizes", ())), "n")
        hint = either(*_INSTEAD.get(what, (files, methods))).replace("{size}", size)
        lacks = {"Bound": "both FLOPs and bytes in numbers", "Solution": "a size in numbers at which it flips"}
        without = f" without {lacks[what]}" if what in lacks else ""
        raise InputError(f"there is no picture of {_called(answer)}{without}", hint=hint)
    shown = kind_meant(kind, found)
    if shown not in found:
        hint = suggest(shown, found, what="pictures")
        if (kind in _HEAT_MAPS or shown.endswith("-map")) and isinstance(answer, Columns):
            over = "a heat map is of a table over two sizes on one machine, or over a size and chips"
            hint = f"{over}; pictures here are: {', '.join(found)}"
        what = "a table" if isinstance(answer, Columns) else _called(answer)
        raise InputError(f"no picture {kind!r} of {what}", hint=hint)
    return found[shown]().with_theme(theme)


def kind_meant(kind: str | None, found: Mapping[str, Picture]) -> str:
    """The kind of picture that is asked for: the usual one, the first heat map, or the one of that name."""
    maps = (name for name, picture in found.items() if isinstance(picture, HeatMap))
    return next(maps, kind) if kind in _HEAT_MAPS else kind or next(iter(found))


def _has_table(answer: Any) -> bool:
    try:
        answer.table()
    except InputError:
        return False
    return True


def _called(answer: Any) -> str:
    """What people call an answer."""
    return next((_CALLED[each.__name__] for each in type(answer).__mro__ if each.__name__ in _CALLED), "this answer")


def pictures(answer: Answer) -> Mapping[str, Picture]:
    """The pictures that an answer has by kind, the usual one first; empty where it has none."""
    of_kind = next((_PICTURES[each.__name__] for each in type(answer).__mro__ if each.__name__ in _PICTURES), None)
    return {} if of_kind is None else of_kind(answer)


def _of_bound(answer: Bound) -> dict[str, Picture]:
    asked = answer.question
    if is_symbol(answer.lower):
        return {}
    if is_array(answer.lower):
        if asked is None or not asked.text:
            return {}
        has_rate = not why_no_rate(answer, answer.machine)
        if has_rate and _in_pairs(answer):
            return {"roofline": partial(rows_roofline, answer)}
        by = getattr(answer.expectation, "estimator", None)
        return _over_a_size(asked, asked.sizes, estimate=by, has_rate=has_rate, rates=answer.attainable)
    expected = _of_expectation(answer)
    timed = [part for part in answer.ops if part.flops and part.bytes]
    if not answer.is_rate_only and not timed:
        return expected
    if len(answer.ops) > MOST_POINTS:
        return {"roofline": partial(program_roofline, answer), **expected}
    return {"roofline": partial(roofline_chart, [answer.machine], [answer]), **expected}


def _in_pairs(answer: Bound) -> bool:
    """Whether several sizes of an answer over arrays go in pairs, and not each with each."""
    values = [len(set(size.ravel().tolist())) for size in answer.sizes.values() if is_array(size)]
    return int(answer.lower.size) < math.prod(values)


def _of_expectation(answer: Any) -> dict[str, Picture]:
    """What is expected of each kernel, where an answer of one size says so."""
    found = answer.expectation
    return {"estimate": partial(_expected_kernels, answer)} if getattr(found, "kernels", ()) and found.is_known else {}


def _expected_kernels(answer: Any) -> Chart:
    """The expected time of each kernel by part, all its runs together, the longest first."""
    ordered = sorted(answer.expectation.kernels, key=lambda each: -float(each.value))

    def parts(each: Any) -> list[tuple[str, float]]:
        once = {part: float(time) for part, time in each.parts.items() if time} or {"its bound": float(each.value)}
        scale = float(each.value) / sum(once.values())
        return [(part, time * scale) for part, time in once.items()]

    rows = with_the_rest([(each.run.name, parts(each)) for each in ordered])
    title, said = f"What to expect on {answer.machine.name}", answer.expectation.in_words()
    return bars_chart(rows, title=title, subtitle=said, label="expected time", unit="s", of="kernel")


def _over_a_size(
    asked: Any, sizes: Mapping[str, Any], machines: Sequence[Any] = (), *,
    estimate: Any = None, has_rate: bool = True, rates: Any = None,
) -> dict[str, Picture]:  # fmt: skip
    """Throughput and time over the size with the most values, a curve for each combination of the others.

    On the machine that was asked, or on several ``machines``; what to ``estimate`` is drawn too. Where no throughput is
    known (``has_rate``) the time alone; where all ``rates`` are the same the time first, as throughput is a flat line.
    """
    values = {name: sorted(set(map(int, size.ravel().tolist()))) for name, size in sizes.items() if is_array(size)}
    if not values:
        return {}
    over = max(values, key=lambda name: len(values[name]))
    if not asked.mesh_names:
        values[over] = _between(values[over], _step(asked, over))
    given: dict[str, Any] = {name: values.get(name, size) for name, size in sizes.items()}
    on, chosen = list(machines) or asked.machine, asked.conventions.changes()
    draw = partial(plot, asked.text, on=on, sizes=given, vary=over, estimate=estimate or "", **chosen)
    is_flat = is_array(rates) and rates.size > 1 and rates.max() <= (1 + FLAT) * rates.min()
    kinds = ("time", "throughput") if is_flat else ("throughput", "time")
    return {kind: partial(draw, kind=kind) for kind in kinds if has_rate or kind == "time"}


def _step(asked: Any, name: str) -> int:
    """The number that a size has to be a multiple of."""
    is_even = asked.is_sharded and asked.conventions.uneven == "error"
    return int(asked.multiple_of(name)) if is_even else 1


def _between(sizes: Sequence[int], step: int = 1) -> list[int]:
    """Sizes with more between them, so that a curve bends where it bends and not at the sizes that were asked.

    >>> len(_between([1, 1024])), _between([3, 5]), _between([8, 64], 16)
    (88, [3, 4, 5], [8, 16, 32, 48, 64])
    """
    least, most = sizes[0], sizes[-1]
    ratio = most / least
    more = (round(least * ratio ** (at / POINTS_OF_CURVE) / step) * step for at in range(POINTS_OF_CURVE + 1))
    return sorted({*(sizes if len(sizes) <= MOST_SIZES else ()), *(size for size in more if size)})


def _of_sweep(table: Any) -> dict[str, Picture]:
    if not table.question.text:
        return {}
    columns = {name: table[name] for name in table.names}
    sizes = {n: v if len(set(v.tolist())) > 1 else int(v[0]) for n, v in columns.items()}
    machines = [asked.machine for asked in table.questions if table.questions[1:]]
    try:
        lacks = why_no_rate(table.row(-1), table.questions[-1].machine)
    except InputError:  # the last row has no figures
        lacks = ""
    given = {**sizes, **table.formulas}
    rates = None if machines or "attainable" not in table.columns else table["attainable"]
    return _over_a_size(table.question, given, machines, estimate=table.estimator, has_rate=not lacks, rates=rates)


def _of_step_sweep(table: Any) -> dict[str, Picture]:
    if len(table) < 2:
        return {}
    varies = any(len(set(table[name].tolist())) > 1 for name in table.sizes)
    curves = {"time": partial(step_chart if varies else _bars_of_steps, table)} if "lower" in table.columns else {}
    rate = next((name for name in ("tokens_per_second", "throughput") if name in table.columns and varies), None)
    return with_heat_maps(table, curves if rate is None else {**curves, "throughput": partial(step_chart, table, rate)})


def _of_columns(table: Any) -> dict[str, Picture]:
    """A formula at several values of one size, or of two."""
    varying = [name for name in table.whole if len(set(table.plain(name))) > 1]
    return with_heat_maps(table, {"time": partial(resources_chart, table, *varying)} if len(varying) == 1 else {})


def _bars_of_steps(table: Any) -> Chart:
    """The time of each choice of chips, layouts and formats at the same sizes, a bar each."""
    names = list(table.columns)
    choices = {name: table.plain(name) for name in names[: names.index(table.sizes[0])]}
    told = [name for name, values in choices.items() if len(set(map(str, values))) > 1]
    fits = table.plain("fits") if "fits" in table.columns else [None] * len(table)
    rows, notes = [], table.incomplete
    for row, lower in enumerate(table.plain("lower")):
        if lower is not None:
            which = ", ".join(str(choices[n][row]) if n == "on" else f"{n} {choices[n][row]}" for n in told)
            beyond = ", does not fit" * (fits[row] is not None and not fits[row])
            rows.append((which + beyond, [("a step at best", float(lower))]))
    shown = rows[:MOST_ROWS]
    if len(shown) < len(table):
        notes = (LeftOut(f"{len(shown)} of {len(table)} choices {agree(len(shown), 'are')} drawn"), *table.incomplete)
    sizes = (f"{name.replace('_', ' ')} {table.plain(name)[0]:,}" for name in table.sizes)
    title, same = f"Time of {table.subject}", ", ".join(filter(None, [table.same_in_all, *sizes]))
    return bars_chart(shown, title=title, subtitle=same, label="a step at best", unit="s", notes=notes)


def _of_serving(answer: Any) -> dict[str, Picture]:
    several = [phase for phase in (answer.prefill, answer.decode) if phase is not None and is_array(phase.lower)]
    open_ = [phase for phase in (answer.prefill, answer.decode) if phase is not None and is_symbol(phase.lower)]
    if open_:
        return {}
    kinds = charts_of("model")
    front = {"front": lambda: kinds["front"](_front_of(answer))} if _has_front(answer) else {}
    names = ("memory",) if several else ("roofline", "time", "memory")
    return {**front, **{name: partial(kinds[name], answer) for name in names}}


def _has_front(answer: Any) -> bool:
    """Whether several choices of decoding are to be drawn as latency against throughput."""
    if answer.front is not None:
        return True
    if answer.decode is None or answer.prefill is not None or not is_array(answer.decode.lower):
        return False
    # numbers of chips are laid across one size there, and are drawn where the answer has them so
    layouts, sizes = _layouts_of(answer), _sizes_of(answer)
    grid = math.prod(map(len, (*layouts.values(), *sizes.values())))
    return not layouts or (len(sizes) < 2 and grid == answer.decode.lower.size)


def _front_of(answer: Any) -> Any:
    """The choices of decoding as a front: worked out here where the question did not ask for it."""
    from roofline.models.serving.pareto import latency_throughput

    layouts = _layouts_of(answer)
    several = {**layouts, **_sizes_of(answer)} if layouts else {}
    return answer.front or latency_throughput(answer.model, **{**answer.asked_of("decode"), **several})


def _layouts_of(answer: Any) -> dict[str, list[int]]:
    """Each number of chips of which several are asked, once."""
    asked = {name: value for name, value in answer.asked.items() if name in OPTIONS and is_several(value)}
    return {name: sorted({int(each) for each in array_of(name, value).ravel()}) for name, value in asked.items()}


def _sizes_of(answer: Any) -> dict[str, list[int]]:
    """Each value of the sizes of a decode step that have several, once."""
    sizes = {name: answer.decode.sizes.get(name) for name in ("batch", "context")}
    found = {name: sorted({int(each) for each in value.ravel()}) for name, value in sizes.items() if is_array(value)}
    return {name: values for name, values in found.items() if len(values) > 1}


def parameters_chart(models: Sequence[Any]) -> Chart:
    """Draw the parameters of models by part, a bar a model.

    >>> from roofline.models import load
    >>> chart = parameters_chart([load("llama-2-13b")])
    >>> [(bar.part, round(bar.x1 - bar.x0, 2)) for bar in chart.bars]
    [('attention', 4.19), ('mlp', 8.49), ('vocabulary', 0.33), ('norms', 0.0)]
    >>> chart.bars[-1].text
    '13B'
    """
    from roofline.models.summary import parameters_by_part

    shown = models[:MOST_ROWS]
    scale, name = (1e9, "billions") if max(model.parameters for model in shown) >= 1e9 else (1e6, "millions")
    parts = [(model.name, parameters_by_part(model)) for model in shown]
    rows = [(model, [(part, count / scale) for part, count in counts.items()]) for model, counts in parts]
    texts = {model: format_count(sum(counts.values())) for model, counts in parts}
    said = ", ".join(model.name for model in shown[:2]) if len(shown) < 3 else f"{len(models)} models"
    label, notes = f"{name} of parameters", left_out(len(models), "models")
    return bars_chart(rows, title=f"Parameters of {said}", label=label, unit="", notes=notes, texts=texts)


def _of_training(answer: Any) -> dict[str, Picture]:
    if is_array(answer.lower):
        time, memory = partial(_times_of_trainings, answer), partial(_memory_of_trainings, answer)
        takes_as_long = answer.lower.max() <= (1 + EQUAL) * answer.lower.min()  # the choices differ in memory alone
        return {"memory": memory, "time": time} if takes_as_long else {"time": time, "memory": memory}
    if not isinstance(answer.bound.kind, str):
        return {}
    return {
        "roofline": partial(program_roofline, answer.bound),
        "time": partial(charts_of("model")["time"], answer),
        "memory": partial(_memory_of_training, answer),
    }


def _trainings(answer: Any) -> tuple[list[str], tuple[str, ...]]:
    """The configurations of an answer over lists, each by its sizes as far as a picture has room; what is not drawn."""
    varying = {name: _of_each(answer, size) for name, size in _training_sizes(answer) if is_array(size)}
    names = [
        ", ".join(_training_size(name, values[at]) for name, values in varying.items())
        for at in range(min(answer.lower.size, MOST_ROWS))
    ]
    return names, left_out(answer.lower.size, "configurations")


def _training_sizes(answer: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(answer, name)) for name in ("batch_tokens", "sequence", "microbatches")]


def _training_size(name: str, value: Any) -> str:
    """A size of a training step in words, as in ``1 microbatch``."""
    parts = "microbatch" if value == 1 else "microbatches"
    called = {"batch_tokens": "tokens", "sequence": "a sequence", "microbatches": parts}
    return f"{int(value):,} {called[name]}"


def _same_of_trainings(answer: Any) -> str:
    """The chips of all configurations, and the sizes that they share."""
    same = [_training_size(name, size) for name, size in _training_sizes(answer) if not is_array(size)]
    where = answer.bound.target if is_array(answer.chips) else answer.target
    return " · ".join(filter(None, [where, ", ".join(same)]))


def _of_each(answer: Any, value: Any) -> list[Any]:
    """A value of each configuration."""
    found: list[Any] = np.broadcast_to(np.asarray(value), np.shape(answer.lower)).ravel().tolist()
    return found


def _times_of_trainings(answer: Any) -> Chart:
    """The time of a step of each configuration beside its memory, another colour where it cannot be run."""
    names, notes = _trainings(answer)
    held = _of_each(answer, answer.memory.total)
    names = [f"{name}: {format_amount(float(held[at]), 'B')} a chip" for at, name in enumerate(names)]
    label, fits, times = "a step at best", _of_each(answer, answer.fits), _of_each(answer, answer.lower)
    parts = [label] * len(names)
    if False in fits[: len(names)]:
        room = _of_each(answer, answer.memory.fits)
        parts = ["fits" if fits[at] else f"does not {'run' if room[at] else 'fit'}" for at in range(len(names))]
    rows = [(name, [(parts[at], float(times[at]))]) for at, name in enumerate(names)]
    title, same = f"A training step of {answer.model.name}", _same_of_trainings(answer)
    return bars_chart(rows, title=title, subtitle=same, label=label, unit="s", notes=notes)


def _memory_of_trainings(answer: Any) -> Chart:
    """What a chip holds, of the fullest stage, part by part, in each configuration."""
    names, notes = _trainings(answer)
    parts = {part: _of_each(answer, size) for part, size in answer.memory.parts.items()}
    rows = [(name, [(part, float(sizes[at])) for part, sizes in parts.items()]) for at, name in enumerate(names)]
    title, same = f"Memory of a chip, training {answer.model.name}", _same_of_trainings(answer)
    return memory_chart(rows, answer.memory, title=title, subtitle=same, notes=notes)


def _of_solution(found: Any) -> dict[str, Picture]:
    """The time of each resource over the size that is solved for, on both sides of where it flips."""
    asked = found.question
    if found.value is None or found.unit or not asked.text or any(map(is_symbol, _others(found).values())):
        return {}
    step = _step(asked, found.unknown)
    middle = max(found.value / step, 1.0)
    around = sorted({round(max(middle * 2 ** (at / 4), 1.0)) * step for at in range(-20, 21)})
    curves = _over_a_size(asked, {**_others(found), found.unknown: np.array(around, dtype=float)})
    return {"time": curves["time"]}


def _others(found: Any) -> dict[str, Any]:
    """The sizes of a question beside the one that is solved for."""
    return {name: size for name, size in found.question.sizes.items() if name != found.unknown}


def _of_budget(found: Any) -> dict[str, Picture]:
    name = f"{found.target}, {found.chips:,.0f} chips" if found.chips and found.chips > 1 else found.target
    return {"days": partial(_days, [name], [found])} if _has_days([found]) else {}


def _has_days(budgets: Sequence[Any]) -> bool:
    """Whether each takes one number of days."""
    return all(is_number(each.days) and is_number(each.mfu) for each in budgets)


def _days(names: Sequence[str], budgets: Sequence[Any]) -> Chart:
    """The days of each budget: those that the arithmetic takes at the peak, and what else is stated to take."""
    rows = []
    for name, each in zip(names, budgets, strict=True):
        parts = [("arithmetic at the peak", each.days * each.mfu), ("the rest, by the MFU", each.days * (1 - each.mfu))]
        rows.append((f"{name}, MFU {format_percent(each.mfu)}", parts[: 1 if each.mfu == 1 else 2]))
    first = budgets[0]
    title = f"Days to train {first.model.name} on {format_count(int(first.tokens))} tokens"
    return bars_chart(rows[:MOST_ROWS], title=title, label="days", unit="", notes=left_out(len(rows), "machines"))


def _of_training_plan(found: Any) -> dict[str, Picture]:
    from roofline.charts.plan_charts import training_plan_chart

    return {"memory": partial(training_plan_chart, found)}


def _memory_of_training(answer: Any) -> Chart:
    """What a chip of each kind of pipeline stage holds, part by part, against what there is."""
    rows = []
    for stage in answer.stages[:MOST_ROWS]:
        first, last = stage.numbers[0] + 1, stage.numbers[-1] + 1
        name = "each chip" if len(answer.stages) == 1 else f"stage {first}" + (f" to {last}" if last > first else "")
        rows.append((name, [(part, float(size)) for part, size in stage.memory.parts.items()]))
    title, notes = f"Memory of {answer.model.name} in training", left_out(len(answer.stages), "stages")
    return memory_chart(rows, answer.memory, title=title, notes=notes)


#: The step whose time a figure is, where it is not that of the whole answer.
_STEPS = {"a token at best": "decode", "first tokens at best": "prefill"}


def _at_worst(answer: Any, headline: str) -> float | None:
    """The time if nothing overlaps, of what takes ``headline`` at best."""
    worst: Any = getattr(getattr(answer, _STEPS[headline]) if headline in _STEPS else answer, "upper", None)
    return float(worst) if is_number(worst) else None


def _sizes_of_sides(answer: SideBySide) -> tuple[str, list[list[str]]]:
    """The sizes and numbers of chips that all answers have, in words, and those of each that its name does not say."""
    steps: list[Any] = [getattr(side, "steps", dict)().values() for side in answer]
    each = [[size for step in of for size in step.sizes.items()] for of in steps]
    said = [{name: f"{name.replace('_', ' ')} {size:,}" for name, size in sizes if is_number(size)} for sizes in each]
    same = [text for text in said[0].values() if all(text in one.values() for one in said)]
    told = [[*same, who] for who in answer.names]
    own = [
        [text for text in one.values() if not any(text in known for known in which)]
        for which, one in zip(told, said, strict=True)
    ]
    return ", ".join(same), own


def _of_comparison(answer: SideBySide) -> dict[str, Picture]:
    def times() -> Chart:
        headline = answer.headline
        part = answer.partial.get(headline) or [None] * len(answer.names)
        same, apart = _sizes_of_sides(answer)
        rows, texts = [], {}
        for at, who in enumerate(answer.names):
            fact, obstacle = part[at] or answer.facts[headline][at], answer.obstacles[at]
            if fact is not None and fact.value is not None:
                best, worst = float(fact.value), _at_worst(answer.answers[at], headline)
                said = [*([obstacle.said] if obstacle else []), *([BY_WHAT_IS_TIMED] if part[at] else [])]
                rest = [("and at worst", worst - best)] if worst is not None and worst > best else []
                name = ", ".join([who, *apart[at], *said])
                rows.append((name, [(headline, best), *rest]))
                texts[name] = format_range(best, worst, "s") if rest and worst is not None else format_amount(best, "s")
        most = sorted(parts[0][1] for _, parts in rows)[:MOST_ROWS][-1]
        shown = [row for row in rows if row[1][0][1] <= most][:MOST_ROWS]  # the shortest, in the order asked
        notes, title = left_out(len(rows), "answers"), answer.subject
        return bars_chart(shown, title=title, subtitle=same, label="time", unit="s", notes=notes, texts=texts)

    if all(type(each).__name__ == "TokenBudget" for each in answer.answers):
        return {"days": partial(_days, answer.names, answer.answers)} if _has_days(answer.answers) else {}
    bounds = answer.answers if all(isinstance(each, Bound) and each.ops for each in answer.answers) else ()
    machines = [each.machine for each in bounds]
    roofline = {"roofline": partial(roofline_chart, machines, bounds)} if bounds else {}
    time = {"time": times} if answer.ranked and answer.answers[0].is_floor else {}
    is_one_machine = len({machine.target for machine in machines}) < len(machines)  # whose roof is that of all
    return {**time, **roofline} if is_one_machine and time else {**roofline, **time}


def _of_comparison_by_size(answer: Any) -> dict[str, Picture]:
    several = any(len({sizes[name] for sizes in answer.sizes}) > 1 for name in answer.sizes[0])
    return {"time": partial(beside_chart, answer)} if several else {}


def _of_points(points: Any) -> dict[str, Picture]:
    drawn = [point for point in points if point.run.flops and point.run.bytes]
    runs, allowed = [point.run for point in drawn], [point.bound for point in drawn]
    roof = partial(roofline_chart, [points.machine], measured=runs, allowed=allowed)
    roofline = {"roofline": roof} if drawn else {}
    return {**roofline, "split": partial(split_chart, points, unpriced=points.unpriced)}


#: What has pictures, by the name of its class, so that drawing one kind loads no other.
_PICTURES: Mapping[str, Callable[[Any], Mapping[str, Picture]]] = {
    "Bound": _of_bound,
    "Evaluated": _of_columns,
    "ChipList": lambda found: (
        {"roofline": partial(plot, on=list(found), dtypes=[found.dtype])} if len(found) <= MOST_POINTS else {}
    ),
    "Communication": lambda answer: _of_bound(answer.bound) if is_array(answer.time) else {},
    "DeploymentPlan": lambda found: {name: partial(draw, found) for name, draw in charts_of("plan").items()},
    "Machine": lambda machine: {"roofline": partial(plot, on=machine)},
    "MeasuredPoints": _of_points,
    "Model": lambda model: {"parameters": partial(parameters_chart, [model])},
    "Measurement": lambda found: {
        "bandwidth": partial(bandwidth_chart, found),
        "roofline": partial(measured_chart, found),
    },
    "ParetoFront": lambda found: {"front": partial(charts_of("model")["front"], found)},
    "Serving": _of_serving,
    "SideBySide": _of_comparison,
    "SideBySideBySize": _of_comparison_by_size,
    "StepSweep": _of_step_sweep,
    "Sweep": lambda found: with_heat_maps(found, _of_sweep(found)),
    "Training": _of_training,
    "Solution": _of_solution,
    "TokenBudget": _of_budget,
    "TrainingPlan": _of_training_plan,
    "Zones": lambda found: {
        "roofline": partial(plot, on=found.machine, bandwidths=found.bandwidths, dtypes=(found.dtype,))
    },
}

#: What people call an answer.
_CALLED = {
    "Accuracy": "a list of errors", "AdviceList": "advice", "Bound": "a bound", "ChipList": "a list of chips",
    "Communication": "one collective of one size", "DTypeSolution": "a list of formats", "DeploymentPlan": "a plan",
    "EqualCost": "a solution", "FewestChips": "the fewest chips", "Evaluated": "a formula at sizes",
    "Formula": "a formula", "Machine": "a chip", "MeasuredPoints": "measured runs", "Measurement": "a measurement",
    "Model": "a model", "ParetoFront": "a front of choices", "Scaling": "a condition of scaling",
    "Serving": "a model that is served", "ShardPlans": "a list of plans", "SideBySide": "these answers side by side",
    "SideBySideBySize": "these answers side by side", "Solution": "a solution", "TimeSolution": "a solution for a time",
    "StepSweep": "these steps", "TensorLayout": "the layout of one tensor", "TokenBudget": "a budget of tokens",
    "Traced": "a program without a machine", "Training": "these steps", "TrainingMemory": "memory alone",
    "TrainingPlan": "a search of layouts", "Zones": "ridges",
}  # fmt: skip

#: What draws an answer that has no picture of its own, on the command line and in Python.
_INSTEAD = {
    "ChipList": (
        f"up to {MOST_POINTS} have: name them, or list fewer",
        f"up to {MOST_POINTS} have: roofline.chips(…)[:5].plot()",
    ),
    "StepSweep": (
        "one is of two rows or more with lower or throughput among the columns, or of a column over two sizes",
    )
    * 2,
    "Traced": ("say on which machine it runs", "say where it runs first: traced.bound(on='h100').plot()"),
    "Evaluated": ("one is over one size or two that vary",) * 2,
    "Formula": (
        "it has one at several values of a size: roofline sweep draws it",
        "it has one at several values of a size, or of two: found({size}=[16, 64, 256]).plot()",
    ),
}
