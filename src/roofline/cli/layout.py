"""``roofline layout``: what each chip holds of a sharded tensor."""

from __future__ import annotations

from roofline.cli.command import argument, command_named
from roofline.cli.option_table import option, options, with_options
from roofline.cli.option_values import machine_files, one_expression, parse_mesh, split_words
from roofline.cli.output import show, show_json
from roofline.errors import InputError


@command_named("layout")
@argument("words", nargs=-1, metavar="TENSOR [SIZE=VALUE]...")
@with_options(
    option("mesh", name="meshes"),
    option("on", multiple=False, metavar="TARGET", help="Take the axes of a target's shape: v5e:4x4 has X=4,Y=4."),
    *options("chips local uneven json"),
)
def command(
    words: tuple[str, ...], meshes: tuple[str, ...], on: str | None, local: bool, files: tuple[str, ...], uneven: str,
    as_json: bool,
) -> None:  # fmt: skip
    """What each chip holds of a sharded tensor: local shape, bytes, copies.

    \b
    roofline layout "int8[I_XY, J]" --mesh X=2,Y=8,Z=2 I=128 J=2048
    roofline layout "bf16[B_X, D]" --on v5e:4x4 B=10 D=8 --uneven pad
    roofline layout "bf16[4096_X, 8192]" --mesh X=8 --local
    """
    from roofline.bounds.layout import layout

    expressions, sizes = split_words(words, lists=True)
    tensor = one_expression(expressions)
    if tensor is None:
        raise InputError("the tensor is missing", hint="for instance 'bf16[B_X, D]'")
    found = layout(
        tensor, mesh=parse_mesh(meshes), on=on, uneven=uneven, local=local, sizes=sizes,
        files=machine_files(files, (on,)),
    )  # fmt: skip
    if as_json:
        show_json(found.to_dict())
    else:
        show(found)
