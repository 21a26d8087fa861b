"""``roofline llm``: the floor of serving a model on a chip."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.model_options import FORMATS, SHARING, formats, sharing
from roofline.cli.options import ESTIMATE, TARGET, parse_size, target_arguments, with_options
from roofline.cli.output import show, show_json
from roofline.errors import InputError


@click.command("llm")
@click.argument("model", metavar="MODEL")
@with_options(TARGET)
@click.option("--batch", default="1", show_default=True, metavar="N", help="Sequences; a list or range gives a table.")
@click.option("--prompt", metavar="TOKENS", help="Tokens to prefill of each sequence.")
@click.option("--past", metavar="TOKENS", help="Tokens of the prompt's prefix that are in the cache already.")
@click.option("--context", metavar="TOKENS", help="Tokens in the cache when decoding (default: the prompt).")
@click.option("--all-logits", is_flag=True, help="Prefill makes output for every token, not only the last.")
@with_options(SHARING, FORMATS, ESTIMATE)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON in SI units.")
def command(model: str, as_json: bool, **options: Any) -> None:
    """The floor of serving a model on one chip, or several that split it: prefill and decode, and whether it fits.

    MODEL is a shipped name (see 'roofline model'), a config.json or a folder that holds one.

    \b
    roofline llm llama-2-13b --on a100 --batch 8 --prompt 1024 --context 1536
    roofline llm config.json --on h200 --weights fp8 --batch 1:256:*2 --context 8192
    roofline llm llama-2-70b --on h200:8 --tensor 8 --batch 8 --context 1024
    roofline llm deepseek-v3 --on h200:32 --expert 32 --batch 1024 --context 4096
    """
    from roofline.models.report import serve

    sizes = {name: _size(name, options.pop(name)) for name in ("batch", "prompt", "past", "context")}
    arguments = target_arguments(options)
    arguments |= _beside(sharing(options), sizes)
    if options.pop("all_logits"):
        arguments["logits"] = "all"
    arguments["policy"] = options.pop("policy") or "minimal"
    past = sizes.pop("past")
    if past is not None:
        arguments["past"] = past
    found = serve(model, **sizes, **arguments, **formats(options), **options)
    if as_json:
        show_json(found.to_dict())
    else:
        from roofline.models.show import serving_table

        show(serving_table(found))


def _size(name: str, text: str | None) -> Any:
    """Read a size: a number, or a list or range, which becomes an array."""
    if text is None:
        return None
    value = parse_size(name, text)
    if isinstance(value, str):
        raise InputError(f"--{name} {text!r} is not a size", hint="a number, a list 1,8,64 or a range 1:512:*2")
    if isinstance(value, list):
        from roofline.sizes import check

        return check(name, value)
    return value


def _beside(chips: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Lay lists of numbers of chips across those of sizes: every layout with every size."""
    lists = [name for name, value in chips.items() if isinstance(value, list)]
    if not lists or not any(hasattr(value, "shape") for value in sizes.values()):
        return chips
    import numpy as np

    return {name: np.asarray(value)[:, None] if name in lists else value for name, value in chips.items()}
