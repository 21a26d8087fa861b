"""``roofline llm``: the floor of serving a model on a chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import argument, command_named, word_of
from roofline.cli.llm_answers import ServingQuestion, further_answers
from roofline.cli.model_options import (
    BESIDE,
    PICTURE_NAMES,
    WORKED_OUT_NAMES,
    formats,
    images,
    not_alone,
    sharing,
    taken,
)
from roofline.cli.option_table import ESTIMATE, EXPECT, FORMATS, SEVERAL, SHARING, option, options, with_options
from roofline.cli.options import convention_arguments, expectation_asked, on_each, parse_size, target_arguments, targets
from roofline.cli.output import ChartKind, show, show_chart, show_json
from roofline.errors import InputError
from roofline.models.parallelism.layout import pool
from roofline.sections import Sentences
from roofline.sizes import check

if TYPE_CHECKING:
    from roofline.models.description import Model
    from roofline.models.serving.pareto import ParetoFront


@command_named(
    "llm",
    "batch prompt context output on tensor expert weights kv estimate tpot price fit advise output-file json",
)
@argument("model", metavar="MODEL", values="model")
@with_options(SEVERAL)
@with_options(option("batch", default="1", help="Sequences; a list or range gives a table."))
@with_options(options("prompt past context images image-size all-logits"), SHARING)
@with_options(option("algorithm", multiple=False, help="Of the collectives: auto, two-shot, in-switch …"))
@with_options(FORMATS, ESTIMATE, EXPECT, options("output"))
@with_options(option("tpot", help="Longest time a token may take (20ms): the best of several batches."))
@with_options(options("chunk fit advise"), option("price", help="Of a chip for an hour: cost of a million tokens."))
@with_options(option("power", help="Of one chip, or tdp for the catalog's: energy of tokens."))
@with_options(options("draft accept draft-by draft-weights prefill-on prefill-tensor prefill-batch prefill-link"))
@with_options(options("pool form"))
@with_options(option("view", type=ChartKind("serving")))
@with_options(
    option("phase", type=click.Choice(["prefill", "decode"]), help="Phase in the picture (of time: the last)."),
    option("output-file", help="Write a picture (.svg, .png, .pdf) or a report."),
    *options("dark width json"),
)
def command(model: str, as_json: bool, **options: Any) -> None:
    """The floor of serving a model on one chip, or several that split it: prefill and decode, and whether it fits.

    MODEL is a shipped name (see 'roofline model'), a config.json or a folder that holds one. With a batch of several
    sizes: latency against throughput.

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

    not_alone(BESIDE)
    expect, described = expectation_asked(options), load(model)
    machines = targets(options["on"])
    if len(machines) > 1:
        found = on_each(options, lambda of_one: expect(_step_alone(described, of_one)))
        show_json(found.to_dict()) if as_json else show(found)
        return
    asked, picture = _asked(described, {**options, "on": machines[0]})
    wanted = asked.wanted
    front = _front(asked) if _several(asked) or picture["view"] == "front" else None
    _check_form(wanted, front is not None)
    if wanted["tpot"] is not None and front is None:
        hint = "give several batches, contexts or numbers of chips, as in --batch 1:256:*2"
        raise InputError("--tpot chooses among steps of decoding, and this is one", hint=hint)
    found = None if _is_only_fit(asked) else expect(_serve(asked), output=asked.wanted["output"])
    if picture["view"] or picture["file"]:
        if as_json:
            raise InputError("--json and a picture are two answers", hint="leave --json or --view and -o out")
        _draw(found, front, picture)
        for each in further_answers(asked, found):
            show(each.sections())
        return
    more = list(further_answers(asked, found))
    if as_json:
        extra = {} if front is None else {"front": front.to_dict()}
        show_json({**({} if found is None else found.to_dict()), **extra, **{each.key: each.data for each in more}})
        return
    lead = [each.lead for each in more if each.lead]
    if front is not None or found is not None:
        show(front or (found.sections([Sentences(lead)]) if lead and found is not None else found))
    for each in more:
        show(each.sections())


def _asked(described: Model, options: dict[str, Any]) -> tuple[ServingQuestion, dict[str, Any]]:
    """The question that options ask, and the picture they ask for; options lose all."""
    pictured = images(options, described)
    sizes = _every({name: _size(name, options.pop(name)) for name in ("batch", "prompt", "past", "context")})
    picture, wanted = taken(options, PICTURE_NAMES), taken(options, WORKED_OUT_NAMES)
    wanted |= {name: _size(name, wanted[name]) for name in ("output", "chunk")}
    arguments = {**_target(options), **formats(options), **pictured, **options}
    past = sizes.pop("past")
    if past is not None:
        arguments["past"] = past
    return ServingQuestion(described, sizes, arguments, wanted), picture


def _step_alone(described: Model, options: dict[str, Any]) -> Any:
    """A step of serving by itself: what several machines are compared by."""
    asked, picture = _asked(described, options)
    context = click.get_current_context()
    for name, value in {**picture, **asked.wanted}.items():  # a page (-o x.html) is made by the common road: no file
        if value is not None and context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT):
            flag = next(word_of(param) for param in context.command.params if param.name == name)
            hint = "roofline plan --prices h100=2,h200=3 compares costs" if name == "price" else "name one machine"
            raise InputError(f"several machines are compared by their steps, without {flag}", hint=hint)
    return _serve(asked)


def _target(options: dict[str, Any]) -> dict[str, Any]:
    """Where it runs: one chip, several that split the model, or a pool of them."""
    found = target_arguments(options)
    pooled, ways = options.pop("pool"), sharing(options)
    found |= ways
    if options.pop("all_logits"):
        found["logits"] = "all"
    found |= convention_arguments(options, OF_OPERATIONS)
    if pooled > 1 and ways:
        raise InputError(f"a pool of chips is not split by {next(iter(ways))} too", hint="give one of the two")
    if pooled > 1:
        from roofline.bounds.api import target

        chosen = {name: found.pop(name) for name in ("set", "files", "unit", "over", "achievable")}
        found["on"] = pool(target(found["on"], **chosen), pooled)
    return found


def _check_form(wanted: dict[str, Any], has_front: bool) -> None:
    """A step shows all its bounds: one of them is chosen for what is made of steps alone."""
    longer = ("output", "chunk", "draft", "prefill_on", "price", "power")
    if wanted["form"] != "lower" and not has_front and all(wanted[name] is None for name in longer):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in longer)
        raise InputError(
            f"--form {wanted['form']} says nothing about a step, which has all three bounds",
            hint=f"add one of {names}, or several batches, or leave --form out",
        )


def _several(asked: ServingQuestion) -> bool:
    """Whether choices of decoding are asked for: several batches, contexts or tensor ways, and no prefill."""
    lists = {name for name, value in asked.arguments.items() if isinstance(value, list)}
    many = lists == {"tensor"} or any(hasattr(asked.sizes[name], "shape") for name in ("batch", "context"))
    return many and lists <= {"tensor"} and asked.sizes["prompt"] is None and asked.sizes["context"] is not None


def _is_only_fit(asked: ServingQuestion) -> bool:
    return bool(asked.wanted["fit"]) and asked.sizes["prompt"] is None and asked.sizes["context"] is None


def _serve(asked: ServingQuestion) -> Any:
    from roofline.models.serving.answer import serve

    return serve(asked.model, **asked.sizes, **_beside(asked.arguments, asked.sizes))


def _front(asked: ServingQuestion) -> ParetoFront:
    from roofline.models.serving.pareto import latency_throughput

    if asked.context is None:
        raise InputError("a front needs a context to decode after", hint="for instance --context 8192")
    sizes = {"batch": asked.sizes["batch"], "context": asked.context}
    sizes |= {name: asked.wanted[name] for name in ("form", "tpot")}
    return latency_throughput(asked.model, **sizes, **asked.decoding)


def _draw(found: Any, front: ParetoFront | None, picture: dict[str, Any]) -> None:
    """Draw the view asked for: into a file, or the terminal."""
    from roofline.charts.chart import charts_of

    view = picture["view"] or ("front" if front is not None else "roofline")
    asked = {} if view == "front" else {"phase": picture["phase"]}
    draw = charts_of("serving")[view]
    chart = draw(front if view == "front" else found, theme="dark" if picture["dark"] else "light", **asked)
    show_chart(chart, picture["file"], picture["width"])


def _size(name: str, text: str | None) -> Any:
    """Read a size: a number, or a list or range, which becomes an array."""
    if text is None:
        return None
    value = parse_size(name, text)
    if isinstance(value, str):
        raise InputError(f"--{name} {text!r} is not a size", hint="a number, a list 1,8,64 or a range 1:512:*2")

    return check(name, value) if isinstance(value, list) else value


def _every(sizes: dict[str, Any]) -> dict[str, Any]:
    """Lay sizes of several values across each other: every batch with every context."""
    several = [name for name, value in sizes.items() if hasattr(value, "shape")]
    if len(several) < 2:
        return sizes
    import numpy as np

    grid = np.meshgrid(*(sizes[name] for name in several), indexing="ij")
    return {**sizes, **{name: values.ravel() for name, values in zip(several, grid, strict=True)}}


def _beside(chips: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Lay lists of numbers of chips across those of sizes: every layout with every size."""
    lists = [name for name, value in chips.items() if isinstance(value, list)]
    if not lists or not any(hasattr(value, "shape") for value in sizes.values()):
        return chips
    import numpy as np

    return {name: np.asarray(value)[:, None] if name in lists else value for name, value in chips.items()}
