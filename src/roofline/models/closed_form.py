"""The closed form of a step of a model: prefill, decode, mixed, training; and compiled functions of its sizes.

>>> found = model_formula("llama-2-7b", "decode", on="h100", batch=8, context=1024)
>>> found.binding, list(found.sizes), [part.label for part in found.terms[0].parts]
('hbm', ['batch', 'context'], ['weights', 'activations', 'keys and values'])
>>> step_function("llama-2-7b", "decode", on="h100")(batch=[1, 8, 64], context=1024)["bound_by"].tolist()
['hbm', 'hbm', 'hbm']

Millions of configurations are priced by it too, compiled once and evaluated block by block:

>>> import numpy as np
>>> found = serve_table("llama-3-70b", "decode", on="h100", batch=np.array([1, 64]), context=np.array([512, 4096]))
>>> found["bound_by"].tolist(), [round(t * 1e3, 1) for t in found["lower"].tolist()]
(['hbm', 'hbm'], [41.5, 67.1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from roofline.answers import WAYS, machine_asked
from roofline.bounds.api import question, take_target_options, target
from roofline.bounds.arrays import ArrayBound, asked_of_rows, column_of, unknown_at
from roofline.bounds.bound import BOUNDS, Bound
from roofline.bounds.closed_form import Formula, fastest, formula_of, of_cases, question_formula
from roofline.bounds.question import refuse_idle, refuse_idle_on_plan
from roofline.counts import FROM_ZERO
from roofline.errors import InputError, RooflineError, SizeError, check_one_of, quoted
from roofline.formulas.compiled import Compiled, Evaluated, ValidRange
from roofline.formulas.tables import Columns
from roofline.frozen import Frozen, dataclass, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM
from roofline.hardware.targets import numbered_counts, open_counts, open_shape
from roofline.lazy import np, sympy
from roofline.models.config import is_model, load
from roofline.models.description import Model
from roofline.models.idle import refuse_algorithm, refuse_idle_of_step
from roofline.models.parallelism.layout import Parallelism, check_one_layout, is_several
from roofline.models.parallelism.schedules import schedule
from roofline.models.serving.answer import Serving
from roofline.models.serving.bound import Pipelined, serve_bound, step_bound
from roofline.models.serving.step import PHASES, check_phase, latent_attention_ways
from roofline.models.training.answer import Training
from roofline.models.training.step import training_question
from roofline.quantity import in_a_row
from roofline.signatures import optional, spelled, takes
from roofline.sizes import (
    BLOCK,
    Codes,
    Size,
    check,
    chip_counts,
    common_shape,
    is_array,
    is_one,
    is_symbol,
    of_largest,
    put_in,
    symbol,
)
from roofline.statements import Gap, kind_of

#: Of which stage of a pipeline the terms of a formula are.
OF_SLOWEST = "the terms are written out of the slowest stage at these sizes"

#: What a training step is asked by, beside what a step of serving is.
TRAINING_SIZES = optional(batch_tokens="Size", sequence="Size", fsdp="int | str", checkpoint="str | int")

#: Numbers of chips at which an open one is shown: the first that there may be, of chips that split layers the last.
USUAL_CHIPS = (64, 16, 8)

#: The powers of 2 that are tried where an open number of chips splits layers.
MOST_SPLIT = 11

#: Why a row of training does not run.
PARTED = "less than a sequence in a microbatch, and a chip takes whole ones"

#: The sizes of any step.
SIZES = frozenset(("batch", "batch_tokens", "sequence", *(name for kind in PHASES.values() for name in kind.sizes)))

#: The sizes of a training step, each with what it is where none is given.
OF_TRAINING = {"batch_tokens": 2**20, "sequence": 4096}


@takes(serve_bound, training_question, but=("symbolic", "as_fits"))
def model_formula(model: Model | str, phase: str = "decode", *, on: str | Machine, **options: Any) -> Formula:
    """The closed form of one step, in its sizes: ``batch`` and ``context``, ``prompt``, or ``batch_tokens``.

    Sizes that are given are the point at which it is shown; one that is needed and not given is an example, which the
    answer says. ``options`` are those of :func:`roofline.models.serve_bound` or :func:`roofline.models.train`.
    """
    return _model_formula(model, phase, on=on, chips=None, **options)


def _model_formula(model: Model | str, phase: str, *, on: str | Machine, chips: int | None, **options: Any) -> Formula:
    check_phase(phase, "train")
    _check_single(options)
    described = load(model)
    if open_shape(on) is None:
        return _on_chips(described, phase, on, options)
    heads = (block.kv_heads for block in described.layer_blocks if hasattr(block, "kv_heads"))
    return _over_chips(on, options, phase, partial(_on_chips, described, phase), chips, min(heads, default=None))


def _chips_around(options: Mapping[str, Any], phase: str) -> tuple[int, int]:
    """Chips inside each part of an open number of them, and parts outside it: copies, or chips that share weights."""
    check_one_layout(options)
    ways = {name: check(name, options.get(name) or 1) for name in WAYS if name != "kv_parallel"}
    if options.get("data") and (phase != "train" or options.get("fsdp")):
        raise InputError(f"{spelled('data')} leaves no number of chips open", hint="leave it out, or give the number")
    copy = ways["tensor"] * ways["context_parallel"]
    copy *= max(ways["expert"] // copy, 1)
    if phase != "train":
        return copy * ways["pipeline"], 1
    if options.get("fsdp"):
        return copy * ways["fsdp"] * ways["pipeline"], 1
    return copy, ways["data"] * ways["pipeline"]


def _over_chips(
    on: Any, options: Mapping[str, Any], phase: str, make: Callable[[Machine, dict[str, Any]], Formula],
    chips: int | None, kv_heads: int | None = None,
) -> Formula:  # fmt: skip
    """The closed form in an open number of chips: made on each kind of machine that they are, one case each.

    Options that bear its name are that number; where it splits layers, each power of 2 is a case. Where there are
    more of these than ``kv_heads`` heads of keys and values, chips hold copies.
    """
    rest, read = dict(options), open_shape(on)
    assert read is not None
    of_target = _take_chip_options(rest)
    named = [name for name, value in rest.items() if name in WAYS and value == read[2]]
    forms, refused = [], []
    if set(named) <= {"data", "fsdp"}:
        rest = {name: value for name, value in rest.items() if name not in named}
        inside, outside = _chips_around(rest, phase)
        if len(named) > 1 or (named and inside * outside > 1):
            raise InputError(f"{spelled(named[0], read[2])} is all chips of {on}", hint="leave it out, or the others")
        rest |= {"fsdp": 1} if "data" in named and phase == "train" else {}
        ranges, usual = open_counts(on, inside=inside, outside=outside, **of_target), USUAL_CHIPS
    else:
        usual = USUAL_CHIPS[::-1]
        ranges = numbered_counts(on, [1 << power for power in range(MOST_SPLIT)], **of_target)
    if chips is not None and not any(chips in each for each in ranges):
        ranges = (*ranges, *numbered_counts(on, [chips], **of_target))
    for each in ranges:
        own = {name: each.least if name in named else value for name, value in rest.items()}
        try:
            made = make(each.machine, own)
        except RooflineError as error:
            refused.append((each.says, error))
            continue
        named_so = {
            symbol for time in made.in_letters().values() for symbol in time.free_symbols if symbol.name == read[2]
        }
        if any(not chip_counts(symbol) for symbol in named_so) or read[2] in (*made.point, *made.rates):
            other = f"{read[0]}:{'m' if read[2] == 'n' else 'n'}"
            hint = f"another name of the chips: {other}"
            raise InputError(f"{read[2]} is a size or a rate of {made.expression}", hint=hint)
        forms.append((made, ValidRange(each.holds, each.says)))
    shown = [each for each in ranges if all(each.says != said for said, _ in refused)]
    if refused and (not shown or shown[-1].most == 1):  # one chip alone is no answer about several
        raise refused[0 if shown else -1][1]
    chips = chips or next((number for number in usual if any(number in each for each in shown)), shown[-1].least)
    found = of_cases(read[2], chips, forms)
    said = [f"not for {says}: {error.message}" for says, error in refused[:2]]
    copied = next((each.least for each in shown if "tensor" in named and kv_heads and each.least > kv_heads), None)
    if copied is not None:
        said.append(f"from {read[2]} = {copied} on chips hold copies of keys and values, which have {kv_heads} heads")
    return replace(found, said=(*found.said, *said))


def _take_chip_options(options: dict[str, Any]) -> dict[str, Any]:
    """What :func:`roofline.chip` takes, which ``options`` lose."""
    found = take_target_options(options)
    return found | (found.pop("set", None) or {})


def _check_single(options: Mapping[str, Any]) -> None:
    several = [name for name, value in options.items() if is_array(value) or (name in SIZES and is_several(value))]
    if several:
        raise SizeError(f"size {several[0]} has several values", hint="leave it open, or give one of them")


def serving_formula(found: Serving, phase: str = "decode") -> Formula:
    """What :meth:`Serving.formula` gives: the closed form of a phase of an answer, at the sizes that were asked."""
    return model_formula(found.model, phase, **found.asked_of(phase))


@takes(question, TRAINING_SIZES, model_formula)
def formula(subject: Model | str | None = None, phase: str = "decode", **arguments: Any) -> Formula:
    """The closed form of a line of notation, or of a step of a model: terms, what binds, where that flips.

    It is a function of its sizes; ``compile()`` makes one of arrays (also of rates, for millions of rows),
    ``elasticities()`` says which size or figure moves it most, ``flips()`` where another resource binds, and
    ``printed(language)`` is a program.

    >>> found = formula("bf16[B, D] * bf16[D, F]", on="h100", B=64, D=8192, F=8192)
    >>> found.binding, [name for name in found.times]
    ('hbm', ['tensor', 'hbm'])
    >>> found(B=[64, 512])["lower"].tolist()              # a function: columns at sizes
    [4.06...e-05, 6.94...e-05]
    >>> print(found.printed("python").splitlines()[0])    # a program; or "javascript", "c", "latex"
    def bound(B, D, F, P_bf16=989400000000000.0, W_hbm=3352320000000.0):
    >>> step = formula("llama-3-8b", on="h100", batch=8, context=8192)
    >>> step.compile()(batch=[1, 8], context=8192)["lower"].tolist()
    [0.00479..., 0.00704...]
    >>> step.binding, {name: round(each.at, 2) for name, each in step.elasticities()["lower"].items()}
    ('hbm', {'batch': 0.36, 'context': 0.36, 'W_hbm': -1.0, 'P_bf16_cuda': 0.0, 'P_bf16': 0.0})

    The number of chips may be open, as in ``"h100:n"`` or ``"v5e:nxn"``: then it is a size too.

    >>> step = formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20)
    >>> [(flip.before, flip.after, flip.value) for flip in step.flips() if flip.size == "n"]
    [('tensor', 'nic', 464)]
    >>> step(n=[1, 8, 64, 1024])["lower"].round(2).tolist()
    [51.7, 6.46, 0.81, 0.11]

    ``phase`` is that of a model: prefill, decode, mixed or train, ``count`` says which pairs of query and key count,
    ``causal`` or ``full``. The rest is as in :func:`roofline.bound`, or as in
    :func:`roofline.llm` and :func:`roofline.train`.
    """
    opened = open_shape(arguments.get("on"))
    chips = None if opened is None else _number_of_chips(opened[2], arguments)
    if subject is None or (isinstance(subject, str) and not is_model(subject)):
        if phase != "decode":
            raise InputError(f"{spelled('phase')} is of a model, and this is a line", hint="leave it out")
        if opened is None:
            return _line_formula(subject, arguments.pop("on", None), arguments)
        if arguments.get("mesh"):
            raise InputError(f"{spelled('mesh')} names the axes of a number of chips", hint="leave it out, or give one")
        on = arguments.pop("on")
        numbered = () if chips is None else numbered_counts(on, [chips], **_take_chip_options({**arguments}))
        make = partial(_line_formula, subject, planned_on=next((each.machine for each in numbered), None))
        return _over_chips(on, arguments, "decode", make, chips)
    described = load(subject)
    refuse_idle_of_step(arguments, phase, described)
    if phase == "train" and opened is None:
        machine = target(arguments.get("on"), **take_target_options(dict(arguments)))
        refuse_algorithm(arguments, [machine.shape])
    return _model_formula(described, phase, chips=chips, **{"on": None, **arguments})


def _number_of_chips(name: str, arguments: dict[str, Any]) -> int | None:
    """The number at which a formula of an open number of chips is shown, taken out of its arguments."""
    sizes = dict(arguments.pop("sizes", None) or {})
    found = arguments.pop(name, sizes.pop(name, None))
    if sizes:
        arguments["sizes"] = sizes
    return None if found is None else int(check(name, found))


def _line_formula(
    line: str | None, on: Any, arguments: Mapping[str, Any], planned_on: Machine | None = None
) -> Formula:
    """The closed form of a line, with the plan that is taken on another number of chips where that is stated."""
    asked = question(line, **{**arguments, "on": on})
    refuse_idle(asked)
    refuse_idle_on_plan(asked)
    if planned_on is not None:
        with suppress(SizeError):  # so many chips do not divide the sizes
            asked = replace(asked, plan_of_all=question(line, **{**arguments, "on": planned_on}).one_plan().plan_of_all)
    return question_formula(asked, every=True)


@takes(model_formula)
def step_function(model: Model | str, phase: str = "decode", *, on: str | Machine, **options: Any) -> Compiled:
    """A step as a function of arrays of its sizes; asked for again with the same choices, it is there at once.

    Its columns are ``lower``, ``op_by_op``, ``upper``, ``bound_by``, ``time.<resource>``, ``memory`` and its parts.
    A size among the ``options`` is one that the function takes, whatever its value.
    """
    given = {name: value for name, value in options.items() if is_array(value) or value not in (None, {}, ())}
    refuse_arrays(given)
    kept = {name: 1 if name in SIZES else _fixed(name, value) for name, value in given.items()}
    found = _function(load(model), phase, on, tuple(sorted(kept.items())))
    if isinstance(found, RooflineError):
        raise found.with_traceback(None)
    return found


def refuse_arrays(options: Mapping[str, Any]) -> None:
    """Refuse an option of a step that is an array, where it is no size."""
    several = next((name for name, value in options.items() if is_array(value) and name not in SIZES), None)
    if several is not None:
        raise InputError(f"{several} is an array", hint="give its values in a list")


@lru_cache(2048)
def _function(model: Model, phase: str, on: Any, options: tuple[tuple[str, Any], ...]) -> Compiled | RooflineError:
    """A compiled step, or why there is none: a search asks for the same layouts again, impossible ones too."""
    try:
        ways = _ways(model, phase, on, dict(options))
    except RooflineError as error:
        return error
    return fastest([replace(way, point={}) for way in ways]).compile()


def step_over_arrays(model: Model, phase: str, sizes: Mapping[str, Any], asked: Mapping[str, Any]) -> ArrayBound | None:
    """A step over long arrays of sizes by its closed form, its columns worked out when they are looked up.

    What it assumes is what the steps of the smallest and of the largest sizes do. None where a row is out of range, or
    where there is no closed form.
    """
    if _is_warm(asked["on"], asked):
        return None
    rest = {name: value for name, value in asked.items() if name not in sizes and value is not None}
    opened: dict[str, Any] = {**rest, **dict.fromkeys(sizes, 1)}
    function = step_function(model, phase, **opened)
    columns = function.evaluate(sizes)
    if columns.invalid:
        return None
    ends = {name: np.array([v.min(), v.max()], float) if is_array(v) else v for name, v in sizes.items()}
    sample = step_bound(model, phase, **{**rest, **ends})
    if tuple(function.times) != tuple(sample.times) or sample.footprint is None:
        return None
    parts = {name: columns[f"memory.{name}"] for name in sample.footprint.parts}
    return ArrayBound.of(sample, columns, sizes, replace(sample.footprint, parts=parts))


def _fixed(name: str, value: Any) -> Any:
    """An option that can be looked up."""
    found = Frozen(value) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value
    try:
        hash(found)
    except Exception:  # of whatever kind: a value's own method may raise what it likes
        raise InputError(f"{name} is {quoted(value)}", hint="one value of its kind in a table") from None
    return found


def _ways(model: Model, phase: str, on: str | Machine, options: Mapping[str, Any]) -> list[Formula]:
    """The closed form of a step in each way that may be the fastest."""
    _refuse_warm(on, options)
    return [_training(model, on, options)] if phase == "train" else _serving(model, phase, on, options)


def _on_chips(model: Model, phase: str, on: str | Machine, options: Mapping[str, Any]) -> Formula:
    """The closed form of a step in the fastest way."""
    return fastest(_ways(model, phase, on, options))


def _refuse_warm(on: str | Machine, options: Mapping[str, Any]) -> None:
    if _is_warm(on, options):
        hint = "leave warm out here; llm and train take it, at sizes that are given"
        raise InputError("the bandwidth of warm data follows the sizes, so a step has no closed form", hint=hint)


def _is_warm(on: str | Machine, options: Mapping[str, Any]) -> bool:
    return target(on, **take_target_options(dict(options))).over == WARM


def _layout(on: str | Machine, options: Mapping[str, Any]) -> Parallelism:
    rest = {name: value for name, value in options.items() if value is not None}
    check_one_layout(rest)
    return Parallelism.of_options(target(on, **take_target_options(rest)), rest)


def _serving(model: Model, phase: str, on: str | Machine, options: Mapping[str, Any]) -> list[Formula]:
    kind = PHASES[phase]
    rest = dict(options)
    wanted = {"batch", *kind.required, *(name for name in kind.sizes if name in rest)}
    given = {name: rest.pop(name) for name in ("batch", *kind.sizes) if rest.get(name) is not None}
    length = model.usual_length
    most = length if model.context is None else max(1, min(length, model.context - given.get("past", 0) - 1))
    usual = {"batch": 1, "tokens": 1, "prompts": 1, "chunk": 512, "prompt": most, "context": most}
    sizes = {name: symbol(name, exact=True) for name in ("batch", *kind.sizes) if name in wanted}
    point = {name: given.get(name, usual.get(name, 1)) for name in sizes}
    said = _examples(point, given)
    ways = latent_attention_ways(model, phase, {**rest, **sizes})
    layout = _layout(on, rest)
    number, stages, tried = "microbatches", layout.pipeline, dict[str, range]()
    if stages > 1:
        said.append(OF_SLOWEST)
        if phase == "decode" and layout.micro_batches is None:  # at each size the fastest number of micro-batches
            tried = {number: range(stages, 0, -1)}
            sizes[number] = symbol(number, exact=True)
    conditions = _enough_sequences(layout, sizes["batch"]) if model.causal and phase == "prefill" else []
    bounds = [step_bound(model, phase, on=on, **{**rest, **sizes, **way}) for way in ways]
    found = []
    for bound in bounds:
        own: dict[str, Any] = {}
        if isinstance(bound, Pipelined):
            own = {"forms": bound.forms, "definitions": bound.definitions}
            own |= {"stages": bound.stages, "slowest": bound.any_slowest}
        form = formula_of(bound, point, from_zero=FROM_ZERO, said=said, conditions=conditions, **own)
        if tried:  # memory is that of as many as stages, whichever number is the fastest
            held = {
                name: put_in(size, {sizes[number]: stages})
                for name, size in form.forms.items()
                if name.startswith("memory")
            }
            form = replace(form, forms={**form.forms, **held})
        found.append(replace(form, tried=tried))
    return found


def _enough_sequences(layout: Parallelism, batch: Any) -> list[ValidRange]:
    """Fewer prompts than micro-batches that are stated are cut into chunks over the stages of a pipeline."""
    if layout.pipeline == 1 or layout.micro_batches is None:
        return []
    least = (layout.micro_batches - 1) * layout.copies + 1
    why = Gap("range", f"fewer sequences than {least} are cut into chunks over the stages")
    return [ValidRange(batch >= least, why)]


def fill_in(found: Evaluated, columns: Sequence[str], model: Model, phase: str, options: Mapping[str, Any]) -> None:
    """Fill in the rows of which the closed form over stages does not hold: they are priced as arrays, in blocks.

    Such are prompts that are cut into chunks over the stages, and training steps whose microbatches are no sequence.
    """
    (reason, _), *others = found.invalid.items() or [("", 0)]
    if others or kind_of(reason) != "range":
        return
    rows = {name: found.whole_column(name)[found.invalid_rows].astype(np.float64) for name in found.whole}
    blocks, every, why = list[dict[str, Any]](), list[Any](), dict[str, int]()
    for start in range(0, len(next(iter(rows.values()))), BLOCK):
        sizes = {name: values[start : start + BLOCK] for name, values in rows.items()}
        step, wrong, said = _step_of_rows(model, phase, sizes, options)
        every.append(wrong)
        blocks.append({name: unknown_at(_figure(step, name), wrong) for name in columns})
        why |= {rule: why.get(rule, 0) + number for rule, number in said.items()}
    found.fill_in(
        {name: np.concatenate([each[name] for each in blocks]) for name in columns}, np.concatenate(every), why
    )


def _step_of_rows(
    model: Model, phase: str, rows: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Any, Any, dict[str, int]]:
    """A step over rows of sizes, None where no row can be; which rows cannot, and how many by the reason."""
    count = len(next(iter(rows.values())))
    if phase == "train":
        found = training_question(model, **{**options, **rows}).answer()
        few = np.broadcast_to(found.sequences < 1, count)
        return found, few, {PARTED: int(few.sum())} if few.any() else {}
    try:
        step, wrong, said = asked_of_rows(rows, lambda some: step_bound(model, phase, **{**options, **some}))
    except SizeError as error:
        if error.rows is None or not np.all(error.rows):
            raise
        step, wrong, said = None, True, {error.rule: count}
    return step, np.broadcast_to(False if wrong is None else wrong, count), said


def step_columns(model: Model, phase: str, sizes: Mapping[str, Any], options: Mapping[str, Any]) -> Evaluated:
    """A step of serving at sizes that broadcast, priced as arrays: of few rows quicker than to compile its closed form.

    >>> found = step_columns(load("llama-2-7b"), "decode", {"batch": [1, 64], "context": 1024}, {"on": "h100"})
    >>> [round(time * 1e3, 1) for time in found["lower"].tolist()], found["bound_by"].tolist()
    ([4.1, 14.2], ['hbm', 'hbm'])
    """
    _refuse_warm(options["on"], options)
    refuse_arrays(options)
    given = {name: np.asarray(size, np.float64) for name, size in sizes.items()}
    rows = {name: each.reshape(-1) for name, each in zip(given, np.broadcast_arrays(*given.values()), strict=True)}
    step, wrong, why = _step_of_rows(model, phase, rows, options)
    every = () if step is None else (step, *getattr(step, "stages", ()))
    names = [*COLUMNS, "intensity", "utilisation", *(f"time.{name}" for each in every for name in each.times)]
    names += [f"memory.{name}" for each in every if each.footprint for name in each.footprint.parts]
    columns = {name: unknown_at(_figure(step, name), wrong) for name in names}
    said = (() if step is None else step.incomplete), (() if step is None else step.assumptions)
    function = Compiled(f"{model.name} {phase}", dict.fromkeys(given), {}, dict.fromkeys(columns), {})
    return Evaluated.of_columns(replace(function, incomplete=said[0], assumptions=said[1]), given, columns, wrong, why)


def _figure(step: Bound | Training | None, name: str) -> Any:
    """A column of a step over arrays. Of training amounts and times are those of the slowest stage of each row."""
    if step is None:
        return "" if name == "bound_by" else np.nan
    if not isinstance(step, Training):
        return column_of(step, name)
    if name in BOUNDS:
        return getattr(step, name)
    each = [stage.bound for stage in step.stages]
    if name.startswith("memory"):
        return column_of(replace(each[0], footprint=step.memory), name)
    if name == "bound_by":
        times = dict.fromkeys(name for bound in each for name in bound.times)
        return Codes.of({name: _figure(step, f"time.{name}") for name in times})
    values = [column_of(bound, name) for bound in each]
    return np.nan if any(value is None for value in values) else of_largest([bound.lower for bound in each], values)


def _examples(point: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Say which sizes were not given."""
    taken = [f"{name} {value:,}" for name, value in point.items() if name not in given]
    return [f"shown at {in_a_row(taken)}: give others to see theirs"] if taken else []


def _training(model: Model, on: str | Machine, options: Mapping[str, Any]) -> Formula:
    rest = dict(options)
    given = {name: rest.pop(name) for name in OF_TRAINING if rest.get(name) is not None}
    point = {name: given.get(name, usual) for name, usual in OF_TRAINING.items()}
    point["sequence"] = given.get("sequence", min(point["sequence"], model.context or point["sequence"]))
    sizes = {name: symbol(name, exact=True) for name in OF_TRAINING}
    found = training_question(model, on=on, symbolic=True, **{**rest, **sizes}).answer()
    said = _examples(point, given)
    if found.layout.pipeline == 1 and rest.get("microbatches") is None:
        said.append("the whole batch in one microbatch, also where it does not fit; microbatches says how many")
    if is_symbol(found.chips):
        said.append("the network is beside the whole step; scaling has one pass of a layer beside it: fewer chips")
    return _training_form(found, sizes, point, said, rest)


def training_formula(answer: Training, *, microbatches: bool = False) -> Formula:
    """The closed form of the step that an answer is about, at its sizes, with ``microbatches`` in their number too.

    It stays as it is where it follows from the batch, or has to be a multiple of the stages.

    >>> from roofline.models.training import train
    >>> step = train("llama-3-8b", on="v5p:4x4x4", batch_tokens=4e6, fsdp=16, pipeline=4, microbatches=16)
    >>> [round(float(time), 1) for time in training_formula(step, microbatches=True)(microbatches=[8, 16])["lower"]]
    [10.3, 9.1]
    """
    given = {name: getattr(answer, name) for name in OF_TRAINING}
    if microbatches and answer.question.microbatches is not None and not schedule(answer.schedule).splits:
        given["microbatches"] = answer.microbatches
    _check_single(given)
    point = {name: size for name, size in given.items() if not is_symbol(size)}
    sizes = {name: symbol(name, exact=True) for name in given}
    found = answer.question.vary(symbolic=True, measured=None, **sizes).answer()
    return _training_form(found, sizes, point, (), {"microbatches": answer.question.microbatches})


def _training_form(
    found: Training, sizes: Mapping[str, Any], point: Mapping[str, Any], said: Sequence[str], options: Mapping[str, Any]
) -> Formula:
    forms = {f"memory.{name}": size for name, size in found.memory.parts.items()} | {"memory": found.memory.total}
    forms |= {"model_flops": found.model_flops}
    if len(found.stages) > 1 or found.layout.pipeline > 1:
        forms |= {name: getattr(found, name) for name in BOUNDS}
    stages = [stage.bound for stage in found.stages]
    said = [*said, *[OF_SLOWEST] * (len(stages) > 1)]
    more: dict[str, Any] = {"said": said, "stages": stages, "definitions": found.definitions}
    more |= {"runs": _whole_sequences(found, sizes), "slowest": [(each.lower, each) for each in stages]}
    return formula_of(found.bound, point, forms=forms, conditions=_whole_microbatches(found, sizes, options), **more)


def _whole_sequences(found: Training, sizes: Mapping[str, Any]) -> list[ValidRange]:
    """Each copy of the model, or chip that shares one, takes a whole sequence in each microbatch."""
    many = found.copies * found.microbatches
    holds = sizes["batch_tokens"] >= many * sizes["sequence"]
    where = ValidRange(holds, f"batch_tokens is less than {_sequences(many)}, and a chip takes whole ones")
    return [where] if is_symbol(holds) and holds.free_symbols else []


def _whole_microbatches(found: Training, sizes: Mapping[str, Any], options: Mapping[str, Any]) -> list[ValidRange]:
    """With a pipeline one microbatch a sequence: copies of the model have whole ones, interleaved ones in rounds."""
    if found.layout.pipeline == 1 or options.get("microbatches") is not None:
        return []
    rounds = found.copies * (found.layout.pipeline if schedule(found.schedule).splits else 1)
    rest = sympy.Mod(sizes["batch_tokens"], rounds * sizes["sequence"])
    return [ValidRange(sympy.Eq(rest, 0), Gap("range", f"batch_tokens is no multiple of {_sequences(rounds)}"))]


def _sequences(many: Any) -> str:
    return "a sequence" if is_one(many) else f"{many if is_symbol(many) else f'{many:,}'} sequences"


COLUMNS = ("lower", "op_by_op", "upper", "bound_by", "flops", "bytes", "memory")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServingTable(Columns):
    """One row a configuration: the sizes that vary, then the columns asked for, all numpy arrays.

    ``lower``, ``op_by_op`` and ``upper`` are seconds, ``bytes`` and ``memory`` bytes, ``bound_by`` names.
    """

    model: Model
    phase: str
    machine: Machine
    columns: Mapping[str, Any]
    incomplete: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """The columns of sizes."""
        return tuple(name for name in self.columns if name not in COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """The table under stable keys (schema ``roofline/llm-table/1``): equal-length lists, codes decoded."""
        return {
            "schema": "roofline/llm-table/1",
            "model": self.model.to_dict(),
            "phase": self.phase,
            **machine_asked(self.machine),
            "columns": {name: self.plain(name) for name in self.columns},
            "incomplete": list(self.incomplete),
        }

    def one_line(self) -> str:
        """Its rows and columns."""
        return f"ServingTable of {len(self)} rows, {self.model.name} {self.phase}: {', '.join(self.columns)}"


@takes(serve_bound)
def serve_table(
    model: Model | str,
    phase: str,
    *,
    on: str | Machine,
    batch: Size = 1,
    columns: Sequence[str] = ("lower", "bound_by"),
    **options: Any,
) -> ServingTable:
    """Price one step for every row of the sizes that are arrays (they broadcast); the rest is as in ``serve_bound``.

    Each row is what :func:`roofline.models.serve_bound` gives for its numbers. One that is not possible is NaN, and
    ``incomplete`` counts it.
    """
    check_phase(phase)
    for name in columns:
        check_one_of(f"no column {name!r}", name, COLUMNS, "columns")
    given = {"batch": batch, **{name: options.pop(name) for name in PHASES[phase].sizes if name in options}}
    varying = {name: np.asarray(value) for name, value in given.items() if is_several(value)}
    if not varying:
        raise SizeError("no size is an array", hint="serve_bound answers a single configuration")
    shape = common_shape(varying)
    described, machine = load(model), target(on, **take_target_options(dict(options)))
    refuse_idle_of_step(options, phase, described)
    function = step_function(described, phase, on=on, **options, **dict.fromkeys(given, 1))
    found = function.evaluate({**given, **varying}, columns)
    fill_in(found, columns, described, phase, {"on": on, **options})
    if found.invalid:
        for name, values in varying.items():
            check(name, values, least=0 if name in FROM_ZERO else 1)
    table: dict[str, Any] = {n: np.broadcast_to(values, shape).reshape(-1) for n, values in varying.items()}
    table |= {name: found.whole_column(name).reshape(-1) for name in columns}
    return ServingTable(described, phase, machine, table, found.incomplete)
