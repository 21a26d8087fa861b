"""``roofline llm``: the floor of serving a model on a chip."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from roofline.answers import format_choices, models_in
from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import argument, command_named, not_default, word_of
from roofline.cli.model_options import (
    PICTURE_NAMES,
    WORKED_OUT_NAMES,
    beside_of_serving,
    images,
    not_alone,
    not_of_memory,
    taken,
)
from roofline.cli.option_table import (
    ESTIMATE,
    EXPECT,
    FORMATS,
    SERVED,
    SEVERAL,
    SHARING,
    STORED,
    option,
    options,
    with_options,
)
from roofline.cli.option_values import (
    against_catalog,
    convention_arguments,
    crossed_sizes,
    expectation_wanted,
    model_size,
    on_each,
    target_arguments,
    targets,
)
from roofline.cli.output import ChartKind, data_or_picture, show, show_answer, show_changed, show_chart, show_json
from roofline.errors import InputError
from roofline.sizes import check

if TYPE_CHECKING:
    from roofline.models.description import Model


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
    option("view", type=ChartKind("model")),
    option("phase", type=click.Choice(["prefill", "decode"])),
    option("output-file", callback=data_or_picture, help="A picture (.svg, .png, .pdf); .json, .txt: all; .csv."),
    *options("dark width explain json"),
)
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
        each = {**options, "model": models}
        took = wanted.get("measured")
        found: Any = on_each(each, lambda one: _step_alone(load(one.pop("model")), one, wanted), measured=took)
        if options["file"] is not None:
            if as_json:
                raise InputError("--json and a picture are two answers", hint="give one of them")
            show_chart(found.plot(), options["file"])
            return
        show_answer(found, as_json, explain)
        return
    described = load(models)
    asked, picture = _asked(described, {**options, "on": machines[0]})
    if (as_json or explain) and (picture["view"] or picture["file"]):
        other = "--json" if as_json else "--explain"
        raise InputError(f"{other} and a picture are two answers", hint=f"leave {other} or --view and -o out")
    if picture["view"] == "memory":
        not_of_memory()
    along_front = decodes_several(asked, asked) and (picture["file"] is not None or "estimate" not in wanted)
    front = along_front or picture["view"] == "front"
    of_step = (asked[name] for name in ("prompt", "context", "price", "power"))
    alone = asked["fit"] and not asked["advise"] and all(value is None for value in of_step)
    if alone and (picture["view"] or picture["file"]):
        raise InputError("a picture is of a step, and --fit alone is of memory", hint="add --context 8k")
    found = llm(described, **asked, front=front, **wanted)
    if (picture["view"] or picture["file"]) and hasattr(found, "each"):  # at several sizes
        if picture["view"]:
            raise InputError("--view is of one step, and several sizes are given", hint="leave --view out, or give one")
        show_chart(found.plot(), picture["file"])
    elif picture["view"] or picture["file"]:
        _draw(found, picture)
        for each in found.worked_out:
            show(each.sections())
    elif as_json and alone:
        show_json({"fewest": found.to_dict()})
    elif as_json or explain:
        show_answer(found, as_json, explain)
    else:

        def ask(of_one: dict[str, Any]) -> Any:
            return llm(described, **_asked(described, of_one)[0], **wanted)

        show_changed(found, against_catalog(found, {**options, "on": machines[0]}, ask))


def _asked(described: Model, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the question that options ask, and the picture they ask for; options lose all."""
    pictured = images(options, described) | ({"logits": "all"} if options.pop("all_logits") else {})
    sizes = crossed_sizes({name: _size(name, options.pop(name)) for name in ("batch", "prompt", "past", "context")})
    sizes["batch"] = 1 if sizes["batch"] is None and options["tpot"] is None else sizes["batch"]
    picture = taken(options, PICTURE_NAMES)
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
    if picture["view"] == "front" or not (picture["view"] or picture["file"]):
        found["phase"] = picture["phase"]
    return found, picture


#: What answers a limit of decoding on several machines.
_SWEPT = "roofline sweep takes it over several machines and batches, and with --price names the cheapest of all"


def _step_alone(described: Model, options: dict[str, Any], expected: dict[str, Any]) -> Any:
    """A step of serving by itself: what several machines are compared by."""
    from roofline.models.serving.llm import llm

    asked, picture = _asked(described, options)
    context = click.get_current_context()
    # a cost stands beside a cost, the fewest chips beside others, and whole answers beside others
    others = (name for name in WORKED_OUT_NAMES if name not in ("price", "power", "fit", "output", "form"))
    names = {name: "link" if name == "prefill_link" else name for name in (*others, "view")}
    for name, own in names.items():
        value = picture[name] if name in picture else asked[name]
        if value is not None and not_default(own):
            flag = next(word_of(param) for param in context.command.params if param.name == own)
            raise InputError(
                f"{flag} is of one step, and several models, machines, formats or policies are given",
                hint=_SWEPT if name == "tpot" else "give one of each, without commas",
            )
    return llm(described, **asked, **expected)


def _draw(found: Any, picture: dict[str, Any]) -> None:
    """Draw the view asked for: into a file, or the terminal."""
    from roofline.charts.chart import charts_of
    from roofline.sections import Sentences

    front = found.front
    view = picture["view"] or ("front" if front is not None else "roofline")
    asked = {} if view == "front" else {"phase": picture["phase"]}
    draw = charts_of("model")[view]
    if front is not None and front.fitting and picture["file"]:
        show([Sentences(front.lead)])
    show_chart(draw(front if view == "front" else found, **asked), picture["file"])


def _size(name: str, text: str | int | None) -> Any:
    """Read a size: a number, or a list or range, which becomes an array; one that is read already stays."""
    value = model_size(name, text)
    return check(name, value) if isinstance(value, list) else value
