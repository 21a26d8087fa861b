"""Options of ``roofline llm`` beyond the step itself: what else to work out, and which picture to draw."""

from __future__ import annotations

from typing import Any

import click

from roofline.cli.output import ChartKind
from roofline.cli.values import FRACTION, PRICE

_COUNT = click.IntRange(1)

WORKED_OUT = (
    click.option("--output", metavar="TOKENS", help="Whole answers: prefill, then so many tokens."),
    click.option("--tpot", metavar="TIME", help="Longest time a token may take (20ms): the best of several batches."),
    click.option("--chunk", metavar="TOKENS", help="Prefill the prompt in chunks, beside what decodes at --context."),
    click.option("--fit", is_flag=True, help="The fewest chips, and the least slice, that hold model and sequences."),
    click.option("--advise", is_flag=True, help="What would move each phase, and by how much."),
    click.option("--price", callback=PRICE, metavar="DOLLARS", help="Of a chip for an hour: cost of a million tokens."),
    click.option("--power", metavar="WATTS", help="Of one chip, or tdp for the catalog's: energy of tokens."),
    click.option("--draft", type=int, metavar="N", help="Speculative decoding with drafts of N tokens."),
    click.option(
        "--accept", callback=FRACTION, default="0.8", show_default=True, metavar="P", help="Chance that one holds."
    ),
    click.option("--draft-by", metavar="MODEL", help="What drafts: a model, mtp, or a fraction of a step (0.1)."),
    click.option("--draft-weights", metavar="DTYPE", help="Format of a drafting model's matrices (default: its own)."),
    click.option("--prefill-on", metavar="TARGET", help="Prefill on chips of its own: how many for each that decodes."),
    click.option("--prefill-tensor", type=_COUNT, metavar="N", help="Chips that split a prefill server (all)."),
    click.option("--prefill-batch", type=_COUNT, default=1, show_default=True, metavar="N", help="Prompts at once."),
    click.option("--link", metavar="B/s", help="One way from a prefill chip to the servers that decode."),
    click.option("--pool", type=_COUNT, default=1, show_default=True, metavar="N", help="Chips that share evenly."),
    click.option(
        "--form", type=click.Choice(["lower", "op_by_op", "upper"]), default="lower", show_default=True,
        help="Which bound of a step adds up to longer times.",
    ),
)  # fmt: skip

PICTURES = (
    click.option("--view", type=ChartKind("serving"), help="A picture, in the terminal or in the file of -o."),
    click.option("--phase", type=click.Choice(["prefill", "decode"]), help="Phase in the picture (of time: the last)."),
    click.option("-o", "--output-file", "file", metavar="FILE", help="Write the picture as .svg, .png or .pdf."),
    click.option("--dark", is_flag=True, help="Light on dark."),
    click.option("--width", type=click.IntRange(320, 4000), metavar="PIXELS", help="Width of the picture."),
)  # fmt: skip

#: Options that say nothing without another, and which: one of them is enough.
BESIDE = {
    **dict.fromkeys(("past", "all_logits"), ("prompt",)),
    **dict.fromkeys(("accept", "draft_by"), ("draft",)),
    "draft_weights": ("draft_by",),
    **dict.fromkeys(("prefill_tensor", "prefill_batch", "link"), ("prefill_on",)),
    **dict.fromkeys(("micro_batches", "balance"), ("pipeline",)),
    **dict.fromkeys(("expert_exchange", "dispatch", "combine", "shared_experts"), ("expert",)),
    **dict.fromkeys(("kv_parallel", "sequence_parallel"), ("tensor",)),
    "algorithm": ("tensor", "expert", "context_parallel", "pipeline"),
    "phase": ("view",),
    **dict.fromkeys(("dark", "width"), ("file", "view")),
}

PICTURE_NAMES = ("view", "phase", "file", "dark", "width")
WORKED_OUT_NAMES = (
    "output", "chunk", "fit", "advise", "price", "power", "draft", "accept", "draft_by", "draft_weights",
    "prefill_on", "prefill_tensor", "prefill_batch", "link", "form", "tpot",
)  # fmt: skip


def taken(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Take options of these names out."""
    return {name: options.pop(name) for name in names}
