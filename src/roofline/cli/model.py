"""``roofline model``: models side by side, or one opened up by module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.answers import Part
from roofline.bounds.conventions import OF_OPERATIONS
from roofline.cli.command import argument, command_named, not_default
from roofline.cli.option_table import FORMATS, STORED, option, options, with_options
from roofline.cli.option_values import convention_arguments
from roofline.cli.output import show, show_json
from roofline.counts import parse_size
from roofline.errors import InputError
from roofline.quantity import format_count
from roofline.sections import BLANK, Amount, Column, Row, Section, Sentences, Table, figures
from roofline.signatures import spelled
from roofline.sizes import check

if TYPE_CHECKING:
    from roofline.models.description import Model


@command_named("model")
@argument("names", nargs=-1, metavar="[MODEL]...", values="model")
@with_options(option("batch", default="1"), options("prompt context"), FORMATS, options("modules parts json"))
def model_command(
    names: tuple[str, ...],
    batch: str,
    prompt: str | None,
    context: str | None,
    modules: bool,
    parts: bool,
    as_json: bool,
    **options: Any,
) -> None:
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
        counting = ["batch", "prompt", "context", "parts", *options]
        if (idle := next(filter(not_default, counting), None)) is not None:
            said = f"--modules counts parameters, of which {spelled(idle)} says nothing"
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
    conventions = convention_arguments(options, OF_OPERATIONS)
    sizes = {name: _size(name, text) for name, text in (("batch", batch), ("prompt", prompt), ("context", context))}
    asked = STORED.arguments(options)
    found = [
        summary(
            model, **{**sizes, "prompt": sizes["prompt"] or min(1024, model.context or 1024)}, **conventions, **asked
        )
        for model in models
    ]
    if as_json:
        show_json({"schema": "roofline/model/1", "models": [each.to_dict() for each in found]})
    else:
        show(Part(summary_sections(found)), charts=charts)


def _size(name: str, text: str | None) -> Any:
    """One number, written as people write it."""
    size = None if text is None else check(name, parse_size(name, text))
    if size is not None and not isinstance(size, int):
        raise InputError(f"--{name} {text!r} is not one number of tokens or sequences", hint="for instance 8k")
    return size


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
    columns = (Column("model"), *figures("parameters", "of them active", "trained for"), Column("also called"))
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
