"""Commands about models: ``model`` describes, ``llm`` serves, ``train`` trains them; ``plan`` says what to deploy.

How options about models become arguments of the library stands first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from roofline.answers import Part, format_choices, models_in
from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import argument, command_named, not_default, word_given, word_of
from roofline.cli.option_table import (
    BYTES,
    ESTIMATE,
    EXPECT,
    FORMATS,
    OF_TRAINING,
    SERVED,
    SEVERAL,
    SHARING,
    SHARING_OF_EACH,
    STEP_SIZES,
    STORED,
    WORKERS,
    option,
    options,
    with_options,
)
from roofline.cli.option_values import (
    OF_EACH,
    POWER,
    against_catalog,
    announced,
    check_chips_of_each,
    convention_arguments,
    crossed_sizes,
    expectation_wanted,
    is_list,
    kept,
    kept_each,
    machine_arguments,
    model_size,
    on_each,
    parse_set,
    target_arguments,
    targets,
)
from roofline.cli.output import ChartKind, is_drawn, show, show_answer, show_changed, show_chart, show_json, working
from roofline.counts import parse_size
from roofline.errors import InputError
from roofline.quantity import format_count, whole_number
from roofline.sections import BLANK, Amount, Column, Row, Section, Sentences, Table, figures
from roofline.signatures import spelled
from roofline.sizes import check, is_array

if TYPE_CHECKING:
    from roofline.models.description import Model


def not_of_memory() -> None:
    """Refuse an option of a step's time beside a picture of memory."""
    if word := word_given(_OF_TIME):
        wrong = f"{word} is of a step's time, and --view memory shows none"
        raise InputError(wrong, hint="leave one of them out")


def not_alone(beside: Mapping[str, Sequence[str]]) -> None:
    """Refuse an option of the command that says nothing without another, where that is not given."""
    context = click.get_current_context()
    flags = {param.name: param for param in context.command.params}
    for name, needed in beside.items():
        if not_default(name) and not any(map(not_default, needed)):
            denied = flags[name].secondary_opts if context.params.get(name) is False else ()
            other = denied[-1] if denied else word_of(flags[name])
            wanted = " or ".join(word_of(flags[each]) for each in needed)
            more = "it" if len(needed) == 1 else "one of them"
            raise InputError(f"{other} says nothing without {wanted}", hint=f"add {more}, or leave {other} out")


def images(options: dict[str, Any], model: Any) -> dict[str, Any]:
    """Turn the options about images in a prompt into arguments of the library; ``options`` loses them."""
    text, size, hint = options.pop("images"), options.pop("image_size"), "a whole number, as in --images 4"
    images = model_size("images", text, "number of images", hint, least=0)
    if images is None:
        return {}
    if model.vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    if options["prompt"] is None:
        raise InputError("images are seen in prefill", hint="give the prompt that holds their tokens with --prompt")
    return {"images": images, **({} if size is None else {"image_size": _pixels(size)})}


def _pixels(text: str) -> tuple[int, int]:
    height, cross, width = text.lower().partition("x")
    size = whole_number(height), whole_number(width)
    if not (cross and size[0] and size[1]):
        raise InputError(f"--image-size {text!r} is not understood", hint="height x width in pixels, as in 1024x768")
    return size[0], size[1]


_TRAINED = ("batch_tokens", "sequence", *OF_TRAINING.names)


def without_model(options: dict[str, Any], *also: str) -> None:
    """Refuse the options about a model, and others, beside a line of notation; ``options`` loses them."""
    groups = (STEP_SIZES, OF_TRAINING, SHARING_OF_EACH, STORED, SERVED)
    for name in (*(name for group in groups for name in group.names), "phase", *also):
        if options.pop(name) not in (None, False):
            hint = "give a model's name, or leave it out"
            raise InputError(f"{spelled(name)} is about a model, and this is a line of notation", hint=hint)


def model_arguments(options: dict[str, Any], *, several: bool) -> tuple[str, dict[str, Any]]:
    """The phase of a step of a model, and the arguments of its question; sizes are lists only where ``several`` may be.

    ``options`` loses what it had.
    """
    phase = options.pop("phase") or _phase_meant(options)
    on = options["on"]
    given = STEP_SIZES.arguments(options) | OF_TRAINING.arguments(options, on)
    for name in given:
        if (name in _TRAINED) != (phase == "train"):
            what = "about training" if name in _TRAINED else "no size of a training step"
            hint = "add --phase train" if name in _TRAINED else "its sizes are --batch-tokens and --sequence"
            raise InputError(f"{spelled(name)} is {what}", hint=hint)
    _check_sizes_of(phase, given)
    arguments = {**target_arguments(options), **SHARING_OF_EACH.arguments(options, on), **given}
    for name in ("flops", "bytes_", "intensity", "dtype"):
        if options.pop(name) is not None:
            raise InputError(f"--{name.rstrip('_')} is about raw work, and this is a model", hint="leave it out")
    arguments |= STORED.arguments(options) | SERVED.arguments(options)
    conventions = convention_arguments(options)
    for name in conventions:
        if name not in (*OF_OPERATIONS, "algorithm", "compute"):
            raise InputError(f"--{name} says nothing about a model", hint="leave it out")
    lists = next((name for name, value in arguments.items() if isinstance(value, list)), None)
    if lists is not None and not several:
        wrong = f"{spelled(lists)} has several values"
        raise InputError(wrong, hint="a formula is of one; roofline sweep takes several")
    return phase, {**arguments, **conventions}


def _check_sizes_of(phase: str, given: Mapping[str, Any]) -> None:
    """Refuse a size that a phase of serving does not have."""
    from roofline.models.serving.step import PHASES

    if phase not in PHASES:
        return
    known = ("batch", *PHASES[phase].sizes)
    wrong = next((name for name in STEP_SIZES.names if name in given and name not in known), None)
    if wrong is not None:
        listed = ", ".join(f"--{name}" for name in known if name in STEP_SIZES.names)
        hint = f"its sizes are {listed}; --phase says which step is meant"
        raise InputError(f"--{wrong} is no size of a {phase} step", hint=hint)


def _phase_meant(options: dict[str, Any]) -> str:
    if any(options[name] is not None for name in _TRAINED):
        return "train"
    if options["chunk"] is not None:
        return "mixed"
    return "prefill" if options["prompt"] is not None and options["context"] is None else "decode"


#: Options of the command that say nothing without another, and which: one of them is enough.
BESIDE: dict[str, tuple[str, ...]] = {**dict.fromkeys(("past", "all_logits"), ("prompt",)), "kv_parallel": ("tensor",)}

#: Options of the time of a step.
_OF_TIME = (
    "over", "achievable", "unit", "algorithm", "compute", "full_attention", *OF_OPERATIONS,
    "estimate", "library", "eager", "constants", "measured",
)  # fmt: skip


def beside_of_serving() -> dict[str, tuple[str, ...]]:
    """Those, and what the library says of its own options."""
    from roofline.models.idle import SERVING, WAYS_OF_SERVING

    uses = {**SERVING, **WAYS_OF_SERVING}
    return BESIDE | {{"prefill_link": "link"}.get(name, name): use.beside for name, use in uses.items() if use.beside}


@command_named(
    "llm",
    "batch prompt context output on set tensor expert weights kv estimate measured tpot price fit advise explain json",
)
@argument("model", metavar="MODEL", values="model")
@with_options(SEVERAL, option("batch"), options("prompt past context images image-size all-logits"))
@with_options(SERVED, SHARING, option("algorithm", multiple=False), FORMATS, ESTIMATE, EXPECT)
@with_options(options("measured output tpot chunk fit advise price power draft accept draft-by draft-weights"))
@with_options(options("prefill-on prefill-tensor prefill-batch prefill-link pool form"))
@with_options(
    option("view", type=ChartKind("model")), option("phase", type=click.Choice(["prefill", "decode"])),
    options("explain json"),
)  # fmt: skip
def llm_command(model: str, explain: bool, as_json: bool, **options: Any) -> None:
    """The floor of serving a model on one chip or several: prefill and decode, and whether it fits.

    MODEL is a shipped name (see 'roofline model'), a config.json or its folder, or several: A,B. A list of batches
    shows latency against throughput; layers.1-35:2 is every second of 1 to 35.

    \b
    roofline llm llama-2-13b --on a100 --batch 8 --prompt 1024 --context 1536
    roofline llm llama-2-70b --on h100:8,h200:8 --tensor 8 --batch 8 --context 8k
    roofline llm llama-2-70b --on h200:8 --tensor 8 --batch 8 --context 1024 --advise
    roofline llm config.json --on h200 --tensor 2,4,8 --batch 1:256:*2 --context 8192 -o front.svg
    roofline llm llama-3-70b --on h200:8 --tensor 8 --batch 64 --prompt 8192 --output 512 --chunk 512 --price 2.5
    roofline llm deepseek-v3 --on h200:32 --expert 32 --batch 1024 --context 4096
    roofline llm qwen3-vl-2b-instruct --on h100 --prompt 4096 --images 4 --image-size 1024x768
    """
    from roofline.models.config import load
    from roofline.models.serving.llm import decodes_several, llm

    not_alone(beside_of_serving())
    wanted, models = expectation_wanted(options), models_in(model)
    machines = targets(options["on"])
    if len(machines) * len(format_choices({**options, "model": models})) > 1:
        _check_side_by_side()

        def ask_one(one: dict[str, Any]) -> Any:
            described = load(one.pop("model"))
            return llm(described, **_asked(described, one), **wanted)

        found: Any = on_each({**options, "model": models}, ask_one, measured=wanted.get("measured"))
        show_answer(found, as_json, explain)
        return
    described = load(models)
    view, phase, is_picture = options["view"], options["phase"], options["view"] is not None or is_drawn()
    asked = _asked(described, {**options, "on": machines[0]})
    if (as_json or explain) and is_picture:
        other = "--json" if as_json else "--explain"
        raise InputError(f"{other} and a picture are two answers", hint=f"leave {other} or --view and -o out")
    if view == "memory":
        not_of_memory()
    along_front = decodes_several(asked, asked) and (is_drawn() or "estimate" not in wanted)
    of_step = (asked[name] for name in ("prompt", "context", "price", "power"))
    alone = asked["fit"] and not asked["advise"] and all(value is None for value in of_step)
    if alone and is_picture:
        raise InputError("a picture is of a step, and --fit alone is of memory", hint="add --context 8k")
    found = llm(described, **asked, front=along_front or view == "front", **wanted)
    if view and hasattr(found, "each"):  # at several sizes
        raise InputError("--view is of one step, and several sizes are given", hint="leave --view out, or give one")
    if is_picture and not hasattr(found, "each"):
        show_chart(_picture(found, view, phase), of=found)
        for each in found.worked_out:
            show(each.sections())
        show([BLANK] * is_drawn())
    elif as_json and alone:
        show_json({"schema": "roofline/llm/1", "fewest": found.to_dict()})
    elif as_json or explain:
        show_answer(found, as_json, explain)
    else:

        def ask(of_one: dict[str, Any]) -> Any:
            return llm(described, **_asked(described, of_one), **wanted)

        show_changed(found, against_catalog(found, {**options, "on": machines[0]}, ask))


def _asked(described: Model, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the question that options ask; options lose all."""
    pictured = images(options, described) | ({"logits": "all"} if options.pop("all_logits") else {})
    sizes = crossed_sizes({name: _size(name, options.pop(name)) for name in ("batch", "prompt", "past", "context")})
    sizes["batch"] = 1 if sizes["batch"] is None and options["tpot"] is None else sizes["batch"]
    view, phase = options.pop("view"), options.pop("phase")
    options |= {name: _size(name, options[name]) for name in ("output", "chunk")}
    options["prefill_link"] = options.pop("link")
    by = options["draft_by"]
    with suppress(TypeError, ValueError):
        options["draft_by"] = float(by)
    found = {
        **target_arguments(options), **SHARING.arguments(options), **convention_arguments(options, OF_OPERATIONS),
        **STORED.arguments(options), **SERVED.arguments(options), **pictured, **options, **sizes,
    }  # fmt: skip
    if found["past"] is None:
        del found["past"]
    if view == "front" or not (view or is_drawn()):
        found["phase"] = phase
    return found


#: Options of one step: a cost stands beside a cost, the fewest chips beside others, and whole answers beside others.
_OF_ONE_STEP = (
    "chunk", "advise", "draft", "accept", "draft_by", "draft_weights", "prefill_on", "prefill_tensor", "prefill_batch",
    "link", "tpot", "view",
)  # fmt: skip


def _check_side_by_side() -> None:
    """Refuse an option of one step where several are compared."""
    if word := word_given(_OF_ONE_STEP):
        table = "roofline sweep takes it over several machines and batches, and with --price names the cheapest of all"
        wrong = f"{word} is of one step, and several models, machines, formats or policies are given"
        raise InputError(wrong, hint=table if word == "--tpot" else "give one of each, without commas")


def _picture(found: Any, view: str | None, phase: str | None) -> Any:
    """The view asked for; without one the front of several choices, or the roofline."""
    from roofline.charts.chart import charts_of

    kinds = charts_of("model")
    if view == "front" or (view is None and found.front is not None):
        return kinds["front"](found.front)
    return kinds[view or "roofline"](found, phase=phase)


def _size(name: str, text: str | int | None, *said: str) -> Any:
    """Read a size: a number, or a list or range, which becomes an array; one that is read already stays."""
    value = model_size(name, text, *said)
    return check(name, value) if isinstance(value, list) else value


def _one(name: str, text: str | None, what: str = "number of tokens", hint: str = "as in 65536, 4e6 or 4M") -> Any:
    """Read one whole number, which may be written as 4e6, 4M or 15T."""
    return model_size(name, text, what, hint, least=1)


@command_named("model")
@argument("names", nargs=-1, metavar="[MODEL]...", values="model")
@with_options(option("batch", default="1"), options("prompt context"), FORMATS, options("modules parts json"))
def model_command(names: tuple[str, ...], modules: bool, parts: bool, as_json: bool, **options: Any) -> None:
    """Models side by side: parameters, FLOPs, prefill memory, bytes moved, intensity, KV per token.

    MODEL is a shipped name, a config.json or a folder that holds one; without any, the shipped names are listed.

    \b
    roofline model llama-2-7b llama-2-13b llama-2-70b gpt-3 --batch 8
    roofline model deepseek-v3 qwen3-32b gpt-oss-120b --context 128k
    roofline model deepseek-v3 --modules
    roofline model llama-2-13b llama-3-405b --parts
    """
    from roofline.models.config import load_each
    from roofline.models.config import names as shipped

    if not names:
        show_json(shipped()) if as_json else show(Part(_catalog()), whole=True)
        return
    models = [model for name in names for model in load_each(name)]
    if modules:
        if word := word_given(("parts", *options)):
            said = f"--modules counts parameters, of which {word} says nothing"
            raise InputError(said, hint="leave one of them out")
        _show_modules(models, as_json)
        return

    def charts() -> list[Any]:
        from roofline.charts.answer_charts import parameters_chart

        return [parameters_chart(models)]

    from roofline.models.summary import part_sections, summary, summary_sections

    if parts and not as_json:
        show(Part(part_sections(models)), charts=charts)
        return
    if options.pop("compute") is not None:
        raise InputError("--compute says nothing of FLOPs and bytes, and there are no times here", hint="leave it out")
    what = "number of tokens or sequences", "one, for instance 8k"
    asked = {name: _one(name, options.pop(name), *what) for name in ("batch", "prompt", "context")}
    asked |= convention_arguments(options, OF_OPERATIONS) | STORED.arguments(options)
    prompts = [asked["prompt"] or min(1024, model.context or 1024) for model in models]
    found = [summary(model, **{**asked, "prompt": prompt}) for model, prompt in zip(models, prompts, strict=True)]
    if as_json:
        show_json({"schema": "roofline/model/1", "models": [each.to_dict() for each in found]})
    else:
        show(Part(summary_sections(found)), charts=charts)


def _catalog() -> list[Section]:
    """A row a shipped configuration: its shortest name, its size, what of it works on a token, its context."""
    from roofline.models.config import load, shipped_names

    rows = []
    for first, *others in shipped_names():
        model = load(first)
        sparse = model.active_parameters < 0.9 * model.parameters
        active = Amount(model.active_parameters, "", format_count(model.active_parameters)) if sparse else ""
        total = Amount(model.parameters, "", format_count(model.parameters))
        cells = (first, total, active, "" if model.context is None else f"{model.context:,}")
        rows.append(Row((*cells, ", ".join(others))))
    names = Column("model"), Column("also called", wrap="anywhere")
    columns = (names[0], *figures("parameters", "of them active", "trained for"), names[1])
    return [
        Table(columns, rows, "models", indent=0),
        BLANK,
        Sentences(["a config.json, a folder or a hub id does as well"], indent=0),
    ]


def _by_module(model: Model) -> dict[str, int]:
    """Parameters by module; where there is a vision tower, language part, tower and projector apart."""
    counts = model.parameters_by_module()
    if model.vision is None:
        return {**counts, "total": model.parameters}
    parts = {"vision_tower": model.vision.tower, "projector": model.vision.projector}
    for name, part in parts.items():
        counts |= {f"{name}.{module}": count for module, count in part.parameters_by_module().items()}
    apart = {"language part": model.parameters, **model.vision.parameters_by_part()}
    return {**counts, **apart, "total": sum(apart.values())}


def _show_modules(models: list[Model], as_json: bool) -> None:
    if len(models) > 1:
        raise InputError(f"--modules opens one model up, not {len(models)}", hint="name one")
    counts = _by_module(models[0])
    if as_json:
        show_json(counts)
        return
    rows = [Row((name, Amount(count, "", f"{count:,}"))) for name, count in counts.items()]
    show(Part([Table((Column("module"), *figures("parameters")), rows, "modules", indent=0, headed=False)]))


#: Options that say nothing without another.
_BESIDE_TRAIN = {
    **dict.fromkeys(("schedule", "chunks"), ("pipeline",)),
    **dict.fromkeys(("price", "power", "days", "chip_hours"), ("tokens",)),
    "sequence_parallel": ("tensor",),
}

#: Options of a token budget, which needs no step; all others are about one.
_OF_BUDGETS = (
    "tokens", "mfu", "price", "power", "days", "chip_hours", "weights", "checkpoint", "on", "set_", "files", "as_json"
)  # fmt: skip


#: What microbatches are, and how they are written.
_PARTS = ("number of parts", "as in 8, or several: 8,16,32")


def _power(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Watts of a chip; those of its data sheet where ``tdp`` or nothing is given."""
    return None if str(value).lower() == "tdp" else POWER(context, parameter, value)


@command_named(
    "train",
    "batch-tokens sequence tokens search on set fsdp tensor weights checkpoint estimate mfu measured price "
    "explain json",
)
@argument("model", metavar="MODEL", values="model")
@with_options(SEVERAL, options("batch-tokens sequence"), option("data", type=OF_EACH, metavar="N"))
@with_options(option("pipeline", type=OF_EACH, default=1, metavar="N"), options("schedule chunks"))
@with_options(option("microbatches", type=str), option("fsdp", type=OF_EACH))
@with_options(options("tensor expert", type=OF_EACH, default=1, metavar="N"), option("expert-exchange"))
@with_options(
    option("context-parallel", type=OF_EACH, default=1, metavar="N"),
    option("sequence-parallel", default=True, words="--sequence-parallel/--no-sequence-parallel"),
    option("algorithm", multiple=False),
    option("zero"),
    option("checkpoint", default="selective"),
    *options("lora saved-activations unfused"),
    option("optimizer", default="adam", values="adam adamw adafactor lion momentum muon sgd"),
    *options("weights gradients moments master tokens mfu measured days chip-hours price"),
    option("power", callback=_power),
    *BYTES["minimal"],
    option("full-attention"),
    *ESTIMATE,
    *EXPECT,
    *options("memory search explain json"),
)
def train_command(model: str, explain: bool, as_json: bool, search: bool, memory: bool, **options: Any) -> None:
    """The floor of a training step: time, what binds, memory by part; days and cost of a token budget.

    MODEL is a shipped name (see 'roofline model'), a config.json, a folder that holds one, several (A,B), or, without a
    step, a number of parameters. Without --batch-tokens the answer is that of the token budget: 6 FLOPs a parameter and
    token.

    \b
    roofline train 70e9 --on v5p:16x20x28 --tokens 15e12 --mfu 0.4
    roofline train deepseek-v3 --on h800 --tokens 14.8e12 --chip-hours 2.664e6 --price 2
    roofline train 70e9 --on h100 --memory --gradients none --master none
    roofline train llama-3-8b --on h100:8 --batch-tokens 65536
    roofline train llama-3-8b --on h100:64,b200:64 --batch-tokens 1M,4M --tokens 15T
    roofline train llama-3-70b --on v5p:16x16x16 --batch-tokens 4e6 --tensor 8 --checkpoint full --tokens 15e12
    """
    from roofline.bounds.comparison import SideBySide, SideBySideBySize
    from roofline.models.parallelism.schedules import schedule
    from roofline.models.training.question import train

    if search and memory:
        raise InputError("--search and --memory are two answers", hint="leave one of them out")
    if explain and (search or memory or options["batch_tokens"] is None):
        raise InputError("--explain is of a step", hint="add --batch-tokens, as in --batch-tokens 4M")
    schedule(options["schedule"])  # a wrong name is said before that it takes --pipeline
    not_alone(_BESIDE_TRAIN)
    wanted = expectation_wanted(options)
    options["measured"] = wanted.pop("measured", None)
    check_chips_of_each(options)
    if search:
        _search(model, as_json, {**options, **wanted})
        return
    if memory:
        _memory(model, as_json, {**options, **wanted})
        return
    if options["batch_tokens"] is None:
        if wanted:
            raise InputError("what to expect is that of a step", hint="give --batch-tokens")
        _budget(model, as_json, options)
        return
    for name in ("days", "chip_hours"):
        if options.pop(name) is not None:
            hint = "leave --batch-tokens out, or give --mfu"
            raise InputError(f"{spelled(name)} is of a budget without a step", hint=hint)
    options["tokens"] = _one("tokens", options["tokens"])
    for name in ("batch_tokens", "sequence"):
        options[name] = _sizes(name, options[name])
    options["microbatches"] = _size("microbatches", options["microbatches"], *_PARTS)
    options["checkpoint"] = kept_each(options.pop("checkpoint"))
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        asked |= crossed_sizes({name: asked[name] for name in ("batch_tokens", "sequence", "microbatches")})
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        return train(asked.pop("model"), **arguments, **asked, **wanted)

    options["model"] = models_in(model)
    found = on_each(options, ask)
    if as_json and not isinstance(found, SideBySide | SideBySideBySize) and not is_array(found.lower):
        from roofline.models.training.advice import advise, best_mix, layouts_over_slices, limits

        mix = best_mix(found)
        scales, faster = [limit.to_dict() for limit in limits(found)], [line.to_dict() for line in advise(found)]
        show_json(
            {
                **found.to_dict(),
                "limits": scales,
                "mix": None if mix is None else mix.to_dict(),
                "advice": faster,
                "over_slices": [line.to_dict() for line in layouts_over_slices(found)],
            }
        )
        return
    if as_json or explain:
        show_answer(found, as_json, explain)
    else:
        show_changed(found, against_catalog(found, options, ask))


def _search(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """The fastest layout: options about it that are not given are tried. Exit code 3: none fits."""
    from roofline.bounds.api import target
    from roofline.plans.training import TRIED, search_training

    context = click.get_current_context()
    if options["batch_tokens"] is None:
        raise InputError("--search is about a step", hint="add --batch-tokens, as in --batch-tokens 4M")
    if targets(options["on"]) == [None]:
        target(None)  # which says how to name one
    if len(targets(options["on"])) > 1:
        raise InputError("--search is on one machine", hint="ask once for each")
    for name in ("days", "chip_hours"):
        options.pop(name)
    for name in ("batch_tokens", "sequence", "tokens"):
        options[name] = _one(name, options[name])
    options["microbatches"] = _size("microbatches", options["microbatches"], *_PARTS)
    if is_array(options["microbatches"]):
        raise InputError("--search tries numbers of microbatches", hint="give one, or leave --microbatches out")
    for name in (*TRIED, "zero"):
        if not not_default(name):
            options[name] = None
    policy = options["checkpoint"]
    options["checkpoint"] = None if policy is None else kept(policy)
    options["count"] = "full" if options.pop("full_attention") else "causal"

    def ask(asked: dict[str, Any]) -> Any:
        arguments = target_arguments(asked) | convention_arguments(asked, OF_OPERATIONS)
        found = {name: value for name, value in {**arguments, **asked}.items() if value not in (None, (), {})}
        return search_training(model, **found)

    with working("trying layouts"):
        found = on_each(options, ask)
    show_answer(found, as_json)
    if not getattr(found, "meets", True):
        context.exit(3)


#: Options of what is held in all, which needs no layout.
_OF_MEMORY = (
    "batch_tokens", "checkpoint", "weights", "gradients", "moments", "master", "optimizer", "lora", "on", "set_",
    "files",
)  # fmt: skip


def _memory(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """Answer what training holds in all; an option about a layout is refused."""
    from roofline.models.training.budget import training_memory

    given = [name for name in options if name not in _OF_MEMORY and not_default(name)]
    policy = kept_each(options["checkpoint"]) if not_default("checkpoint") else "full"
    if policy != "full" and not isinstance(policy, int):
        given.append("checkpoint")
    if given:
        raise _of_a_step(model, given[0], options)
    not_alone({"checkpoint": ("batch_tokens",)})
    names = ("weights", "gradients", "moments", "master", "lora")
    figures = {name: options[name] for name in names if not_default(name)}
    tokens = _one("batch_tokens", options["batch_tokens"]) or 0

    def ask(asked: dict[str, Any]) -> Any:
        how: dict[str, Any] = {"tokens": tokens, "checkpoint": policy, "optimizer": options["optimizer"], **figures}
        return training_memory(asked["model"], **how, **machine_arguments(asked))

    found = on_each({**options, "model": models_in(model)}, ask)
    show_answer(found, as_json)


def _of_a_step(model: str, name: str, options: dict[str, Any]) -> InputError:
    """That an option is of one step, where ``--memory`` is of all chips together, with the line of that step."""
    from roofline.models.config import load

    params: dict[str, Any] = {each.name: each for each in click.get_current_context().command.params if each.name}
    word, several = word_of(params[name]), models_in(model)
    if load(several[0] if isinstance(several, list) else several).in_outline:
        stages = "a target of several chips lists every stage: --on h100:8"
        hint = stages if name in ("zero", "fsdp") else "a number of parameters has no steps: leave it out"
        return InputError(f"{word} says nothing about --memory", hint=hint)
    if name in _OF_BUDGETS and name != "checkpoint":
        return InputError(f"{word} says nothing about --memory", hint="ask for each by itself")
    usual = {"on": "--on=h100:8", "batch_tokens": "--batch-tokens=4M"}
    words = [word for other, word in usual.items() if not options[other]]
    for other, value in options.items():
        if not_default(other):
            values = value if isinstance(value, tuple) else (value,)
            flag = params[other].secondary_opts[-1:] if value is False else [word_of(params[other])]
            words += flag if params[other].is_flag else [f"{flag[0]}={each}" for each in values]
    asked = shlex.join([model, *words])
    why = f"{word} is of one step, and --memory is of training in all, without a layout"
    return InputError(why, hint=f"a step lists its own memory: roofline train {asked}")


def _budget(model: str, as_json: bool, options: dict[str, Any]) -> None:
    """Answer for a token budget without a step; an option about steps is refused."""
    tokens = _one("tokens", options["tokens"])
    if tokens is None:
        hint = "tokens of one step over all chips, as in --batch-tokens 4M; or --tokens alone: a budget"
        raise InputError("--batch-tokens is missing", hint=hint)
    not_alone({name: ("batch_tokens",) for name in options if name not in (*_OF_BUDGETS, "batch_tokens")})
    from roofline.models.training.budget import budget

    figures = {name: options[name] for name in ("mfu", "days", "chip_hours", "price", "power", "weights")}
    if not_default("checkpoint"):
        figures["checkpoint"] = options["checkpoint"]

    def ask(asked: dict[str, Any]) -> Any:
        return budget(asked["model"], tokens=tokens, **machine_arguments(asked), **figures)

    found = on_each({**options, "model": models_in(model)}, ask)
    show_answer(found, as_json)


def _sizes(name: str, text: str | None) -> Any:
    """Read tokens of a step or a sequence: a number, or a list or range of them."""
    if text is None or not (is_list(text) or ":" in text):
        return _one(name, text)
    each = text.split(",") if "," in text else map(str, parse_size(name, text))
    return check(name, [_one(name, one) for one in each])


#: The exit code where nothing meets the limits.
MISSED = 3

#: Options that say nothing without another.
_BESIDE_PLAN = {**dict.fromkeys(("accept", "draft_by"), ("draft",)), "draft_weights": ("draft_by",)}


@command_named("plan", "rate prompt output on count ttft tpot price formats disaggregate estimate why explain json")
@argument("model", metavar="MODEL", values="model")
@with_options(
    option("on", metavar="CHIP[,CHIP]…"),
    *options("count set rate prompt output shared ttft tpot e2e percentile price objective formats lengths most"),
    option("disaggregate"),
    option("draft", type=str, metavar="N[,N]…"),
    *options("accept draft-by draft-weights"),
    *SERVED,
    option("estimate", is_flag=False, flag_value="vllm", metavar="LIBRARY"),
    *options("why explain simulate"),
    *WORKERS,
    option("view", type=ChartKind("plan")),
    option("json"),
)
def plan_command(model: str, as_json: bool, view: str | None, **options: Any) -> None:
    """The cheapest way to serve a model for a load within limits, and why not the others.

    Every chip, number of chips, layout, format and way of taking prompts is asked. Exit code 3: nothing meets the
    limits, and the answer is the nearest miss.

    \b
    roofline plan llama-3-70b --on h100,h200,b200 --rate 12/s --prompt 2048 --output 256 --ttft 500ms --tpot 30ms
    roofline plan llama-3-8b --on l4,a100 --rate 2/s --prompt 1024 --output 128 --price l4=0.7,a100=1.8
    """
    from roofline.charts.chart import charts_of
    from roofline.plans.answer import plan

    not_alone(_BESIDE_PLAN)
    why, explain, simulate = (options.pop(name) for name in ("why", "explain", "simulate"))
    if as_json and view is not None and not is_drawn():
        raise InputError("--json and a picture are two answers", hint="give -o FILE for the picture, or leave one out")
    if as_json and simulate:
        raise InputError("--simulate is a table, which --json does not have", hint="leave one of them out")
    chips = [str(name) for name in targets(options.pop("on")) if name is not None] or None
    chips_hint, draft_hint = "8, a list 8,16 or a range 1:64", "4, or several to try: 2,4,8"
    count = model_size("count", options.pop("count"), "number of chips", chips_hint, whole=True)
    drafts = model_size("draft", options.pop("draft"), "number of tokens", draft_hint, whole=True)
    formats = [name.strip() for name in (options.pop("formats") or "").split(",") if name.strip()]
    shared, figures = options.pop("shared"), parse_set(options.pop("set_"))
    options |= SERVED.arguments(options)
    options |= {"set": figures} if figures else {}
    trace = None
    if options["rate"].lower().endswith((".csv", ".txt")):
        from roofline.plans.cost import Trace

        trace = Trace.read(options["rate"])
        options["rate"] = trace.peak
        options |= {name: options[name] or getattr(trace, name) for name in ("prompt", "output")}
    for name in ("prompt", "output"):
        if options[name] is None:
            hint = f"tokens, as in --{name} 1024, or a column {name} of the trace"
            raise InputError(f"a plan needs --{name}", hint=hint)
        options[name] = _one(name, options[name], hint=f"one number, as in --{name} 1024")
    with suppress(TypeError, ValueError):
        options["draft_by"] = float(options["draft_by"])
    options |= {"draft": drafts or [], "draft_by": options["draft_by"] or 0.1}
    with working("trying chips and formats"):
        found = plan(
            model, on=chips, count=count, formats=formats,
            shared=shared or 0.0, announce=announced, **options,
        )  # fmt: skip
    if why is not None:
        _show_reason(found, why, as_json)
        return
    fleet = None if trace is None else found.fleet(trace)
    if as_json:
        over = {} if fleet is None else {"fleet": fleet.to_dict()}
        show_json({**found.to_dict(), **over, **({"elasticities": found.elasticities()} if explain else {})})
    else:
        show(found)
        if fleet is not None:
            show(fleet.sections())
        if explain:
            show(found.explain())
        if simulate:
            show(found.simulated())
    if is_drawn() or view is not None:
        view = view or ("frontier" if found.asked.load.output > 1 else "first-token")
        show_chart(charts_of("plan")[view](found))
    if not found.meets:
        click.get_current_context().exit(MISSED)


def _show_reason(found: Any, why: str, as_json: bool) -> None:
    """Why the best deployment that words mean is not the one to take."""
    about = found.assess(why)
    reason, name = about.reason, str(about.deployment)
    if as_json:
        plain = None if reason is None else reason._asdict()
        show_json({"asked": why, "deployment": name, "reason": plain})
        return
    show(found.sections(BLANK, *_why(why, name, reason)), of=found)


def _why(asked: str, name: str, reason: Any) -> list[Section]:
    """What was asked about in a line, and below it why it is not taken."""
    exact = name in " ".join(asked.split())
    of = "" if exact else f", the best of {asked!r}"
    if reason is None:
        return [Sentences([f"take {name}{of}"], "strong")]
    if reason.kind == "beaten":
        head = f"not {name}{of}"
    else:
        head = f"not {name}" if exact else f"no {asked!r} will do; the nearest is {name}"
    return [Sentences([head], "strong"), Sentences([reason.text], indent=4)]
