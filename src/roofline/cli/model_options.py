"""Options that the commands about models share."""

from __future__ import annotations

from typing import Any

import click

FORMATS = (
    click.option("--weights", metavar="DTYPE", help="Format of the matrices (default: as the configuration says)."),
    click.option("--activations", metavar="DTYPE", help="Format of activations (default: the model's own)."),
    click.option("--kv", metavar="DTYPE", help="Format of keys and values (default: as activations)."),
    click.option("--compute", metavar="DTYPE", help="Arithmetic of matrix products (default: the wider operand's)."),
    click.option("--policy", metavar="POLICY", help="Which bytes count: minimal (default), streamed, fused, each-op."),
    click.option("--full-attention", is_flag=True, help="Count every pair of query and key, masked or not."),
)  # fmt: skip

SHARING = (
    click.option("--tensor", type=int, default=1, show_default=True, metavar="N", help="Chips that split the model."),
    click.option("--expert", type=int, default=1, show_default=True, metavar="N", help="Of them, whole experts each."),
    click.option("--algorithm", metavar="NAME", help="Of the collectives between them: auto, two-shot …"),
)  # fmt: skip


def formats(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the shared options into arguments of the library, leaving out those not given; ``options`` loses them."""
    found = {name: options.pop(name) for name in ("weights", "activations", "kv", "compute")}
    found["count"] = "full" if options.pop("full_attention") else None
    return {name: value for name, value in found.items() if value is not None}
