"""Commands about chips: ``chips`` lists, filters, compares and explains those of the catalog.

About many chips that work together: ``shard``, ``layout``, ``comm`` and ``scaling``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.answers import figures_of
from roofline.bounds.chip_list import ChipList, chips, detail
from roofline.cli.command import Option, argument, command_named, not_default, word_given
from roofline.cli.option_table import COUNTING, ESTIMATE, EXPECT, MESH, NETWORK, SEVERAL, option, options, with_options
from roofline.cli.option_values import (
    convention_arguments,
    expectation_wanted,
    is_list,
    machine_files,
    on_each,
    one_expression,
    parse_mesh,
    parse_set,
    question_arguments,
    split_words,
    target_arguments,
    unit_apart,
    words_given,
)
from roofline.cli.output import is_kept, show, show_answer, show_each, show_json
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.hardware.catalog import machine_template
from roofline.hardware.targets import is_machine
from roofline.quantity import kind_of
from roofline.sections import Column, Row, Section, Table, Words


@command_named("chips")
@argument("names", nargs=-1, metavar="[CHIP]...", values="chip")
@with_options(
    option("filter"),
    option("dtype", default="bf16"),
    option("top", default=None),
    *options("sort ratio set chips template sources json"),
)
def chips_command(names: tuple[str, ...], template: bool, sources: bool, as_json: bool, **options: Any) -> None:
    """List the catalog; with one chip its figures and rules of thumb; with several, side by side.

    \b
    roofline chips nvidia
    roofline chips h100 --sources
    roofline chips h100 mi300x v5p
    roofline chips --filter "fp8, memory>=80GB" --sort bandwidth --top 5
    roofline chips --ratio bf16/price
    roofline chips --template > my-chip.toml
    """
    dtype = options.pop("dtype")
    shown = dtype if not_default("dtype") else None
    if template:
        if as_json or sources or is_kept() or shown or any((names, *options.values())):
            raise InputError("--template goes alone", hint="as in: roofline chips --template > my-chip.toml")
        click.echo(machine_template(), nl=False)
        return
    filter_, sort, top, ratio = (options[name] for name in ("filter_", "sort", "top", "ratio"))
    if ratio is not None and sort is None and shown:
        raise InputError("--dtype is the peak that a list shows, and --ratio names its own", hint="leave --dtype out")
    layers = machine_files(options["files"])
    overrides: dict[str, Any] = dict(parse_set(options["set_"]))
    if overrides and not names:
        raise InputError("--set goes with a chip", hint="as in: roofline chips v5e --set hbm=8.2e11")
    of_lists = {"--filter": filter_, "--sort": sort, "--top": top, "--dtype": shown}
    if overrides and (idle := next((word for word, value in of_lists.items() if value is not None), None)):
        raise InputError(f"{idle} is of a list, and --set goes with chips by name", hint="leave one of them out")
    if overrides:
        own = [figures_of(name, names, {"set": overrides, "files": layers})["set"] for name in names]
        found = ChipList([chip(name, files=layers, **of) for name, of in zip(names, own, strict=True)], beside=True)
    else:
        # a ratio that ranks is worked out of all chips before the first of them are kept
        ranks = ratio is not None and sort is None and top is not None
        found = chips(names, filter=filter_, sort=sort, dtype=shown, top=None if ranks else top, files=layers)
    answer = found if ratio is None else found.ratio(*_two_figures(ratio), top=top)
    if sources and not (answer is found and found.beside):
        raise InputError("--sources is of chips by name", hint="as in: roofline chips h100 --sources")
    if answer is found and sources and found.beside and not as_json:
        show([section for machine in found for section in detail(machine, sources=True)], of=found)
    else:
        show_answer(answer, as_json, whole=found.beside)


def _two_figures(text: str) -> tuple[str, str]:
    name, slash, other = (part.strip() for part in text.partition("/"))
    if not slash or not name or not other:
        raise InputError(f"--ratio {text!r} is not two figures", hint="as in --ratio bf16/price, --ratio hbm/pcie")
    return name, other


@command_named("shard", "on layouts mesh link algorithm uneven use set overlap overhead json")
@argument("words", nargs=-1, metavar="EXPRESSION [SIZE=VALUE]...")
@with_options(SEVERAL, NETWORK, options("layouts uneven use density"), COUNTING, ESTIMATE, option("json"))
def shard_command(words: tuple[str, ...], layouts: bool, as_json: bool, **given: Any) -> None:
    """Every legal plan of a sharded expression: what is sent, before or after, over which operand; best first.

    \b
    roofline shard "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]" --on v5p:4x4x4 I=8192 J=8192 K=8192
    roofline shard "In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]" --on v5e:16 B=16384 D=8192 F=32768
    roofline shard "A[I_X, J] * B[J_X, K] -> C[I_X, K]" --on h100:8,v5e:8 I=8192 J=8192 K=8192
    roofline shard "A[B, D] * W[D, F] -> C[B, F]" --layouts --on v5e:2x4 B=512 D=8192 F=32768
    """
    from roofline.bounds.shard import shard

    expressions, sizes = split_words(words)
    expression = one_expression(expressions)
    if expression is None:
        raise InputError("the expression is missing", hint="for instance 'A[I, J_X] * B[J_X, K] -> C[I, K]'")

    def ask(asked: dict[str, Any]) -> Any:
        without_raw = {**asked, **dict.fromkeys(("flops", "bytes_", "intensity", "dtype"))}
        return shard(expression, layouts=layouts, sizes=sizes, **question_arguments(without_raw))

    show_answer(on_each(given, ask), as_json)


@command_named("layout")
@argument("words", nargs=-1, metavar="TENSOR [SIZE=VALUE]...")
@with_options(option("mesh", name="meshes"), option("on", multiple=False, metavar="TARGET"))
@with_options(options("chips local uneven json"))
def layout_command(
    words: tuple[str, ...], meshes: tuple[str, ...], on: str | None, local: bool, files: tuple[str, ...], uneven: str,
    as_json: bool,
) -> None:  # fmt: skip
    """What each chip holds of a sharded tensor: local shape, bytes, copies.

    \b
    roofline layout "int8[I_XY, J]" --mesh X=2,Y=8,Z=2 I=128 J=2048
    roofline layout "bf16[B_X, D]" --on v5e:4x4 B=10 D=8 --uneven pad
    roofline layout "bf16[4096_X, 8192]" --mesh X=8 --local
    """
    from roofline.bounds.shard import layout

    expressions, sizes = split_words(words, lists=True)
    tensor = one_expression(expressions)
    if tensor is None:
        raise InputError("the tensor is missing", hint="for instance 'bf16[B_X, D]'")
    found = layout(
        tensor, mesh=parse_mesh(meshes), on=on, uneven=uneven, local=local, sizes=sizes,
        files=machine_files(files, (on,)),
    )  # fmt: skip
    show_answer(found, as_json)


@command_named("comm", "on bytes bytes-per-chip dtype estimate measured algorithm sharp mesh wrap set explain json")
@argument("words", nargs=-1, metavar="COLLECTIVE [SIZE=VALUE]...")
@with_options(SEVERAL, MESH, EXPECT, option("bytes", name="bytes"), option("bytes-per-chip"))
@with_options(option("dtype", default="bf16"), options("measured explain json"))
def comm_command(words: tuple[str, ...], explain: bool, as_json: bool, **options: Any) -> None:
    """How long a collective takes on this network, by which algorithm, and what else would do it.

    \b
    roofline comm "AllGather_Y(bf16[2048_Y, 8192])" --on v5e:8x4
    roofline comm allreduce 500MB --on h100:8
    roofline comm allreduce --bytes 28GB,14GB --algorithm ring --on h100:32x8
    roofline comm allreduce,allgather --bytes 1GB --on h100:16
    roofline comm alltoall --bytes-per-chip 64MB --on h100:16,v5e:4x4
    roofline comm dispatch T=4096 D=7168 E=256 k=8 --dtype fp8 --on h100:32
    roofline comm "AllReduce_X(bf16[B, D] {U_X})" --on dgx-h100:1024 --sharp B=8192 D=8192
    """
    from roofline.bounds.communication import NAMED, collectives_in, comm

    expressions, sizes = split_words(words)
    amounts = {name: options.pop(name) for name in ("bytes", "bytes_per_chip", "dtype")}
    joined = " ".join(expressions)
    is_torn = bool(unit_apart(words_given()))
    named = None if is_torn or any(map(is_machine, expressions)) else NAMED.fullmatch(joined)
    if named and amounts["bytes"] is None and is_list(named[2]):
        joined, amounts["bytes"] = named[1], named[2]
    one_word = ",".join(word for word in expressions if not word[:1].isdigit() and kind_of(f"1{word}") is None)
    if not named and "," in one_word and not is_torn and NAMED.fullmatch(one_word):
        raise InputError("several collectives are written as one word", hint=f"as in {one_word}")
    expression = joined if named else one_expression(expressions)
    if expression is None:
        raise InputError("the collective is missing", hint="for instance allreduce 1GB, or 'AllGather_X(bf16[B_X, D])'")
    dtype = {"dtype": amounts.pop("dtype")}
    given: dict[str, Any] = {name: amount for name, amount in amounts.items() if amount is not None}
    given |= dtype if given or not_default("dtype") else {}
    wanted = expectation_wanted(options)
    given |= {name: [*map(str.strip, text.split(","))] for name, text in given.items() if is_list(text)}
    given["expression"] = collectives_in(expression)

    def ask(asked: dict[str, Any]) -> Any:
        one = {name: asked.pop(name) for name in given}
        chosen = {**target_arguments(asked), **convention_arguments(asked)}
        return comm(sizes=sizes, **one, **chosen, **wanted)

    show_answer(
        on_each({**options, **given}, ask, "expression", *given, measured=wanted.get("measured")), as_json, explain
    )


@command_named("scaling")
@argument("words", nargs=-1, metavar="[CONDITION]... [SIZE=VALUE]...", values="condition")
@with_options(option("for", name="unknown"), option("dtype", default="bf16"))
@with_options(options("weights compute torus-axes network"), SEVERAL, NETWORK, option("json"))
def scaling_command(words: tuple[str, ...], torus_axes: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """From which batch or width on, and up to how many chips, does a layer scale? Without a condition, list them.

    \b
    roofline scaling dp fsdp tp --on v5p
    roofline scaling fsdp --on v5p --torus-axes X=3
    roofline scaling tp --for Y --on v5p F=30000
    roofline scaling mixed --on v5p --torus-axes X=2 F=32768 B=2e6 N=4096
    roofline scaling fsdp --on v5p:16x20x28 B=1024*4096
    """
    names, sizes = split_words(words)
    if not names:
        _refuse_beside_a_list(sizes)
        if as_json:
            from roofline.bounds.scaling import list_conditions

            columns = ("condition", "says", "answer")
            show_json([dict(zip(columns, row, strict=True)) for row in list_conditions()])
            return
        show(_listed())
        return
    from roofline.bounds.scaling import scaling

    if not options["on"]:
        raise InputError("the target is missing", hint="for instance --on v5p, or --on dgx-h100:1024")
    axes = parse_mesh(torus_axes, "torus-axes", "COUNT")

    def ask(name: str, asked: dict[str, Any]) -> Any:
        arguments = {**target_arguments(asked), **convention_arguments(asked), **asked}
        return scaling(name.lower(), **{"algorithm": "book", **arguments, "torus_axes": axes, "sizes": sizes})

    found = [on_each(options, partial(ask, name)) for name in names]
    if as_json:
        several = {"schema": "roofline/scalings/1", "conditions": [each.to_dict() for each in found]}
        show_json(found[0].to_dict() if len(found) == 1 else several)
        return
    show_each(found)


def _refuse_beside_a_list(sizes: dict[str, Any]) -> None:
    """Without a condition they are listed: then a size and any option but ``--json`` and ``-o`` say nothing."""
    names = {each.name for each in click.get_current_context().command.params if isinstance(each, Option)}
    idle = next(iter(sizes), "") or word_given(names - {"as_json", "report_file"})
    if idle:
        raise InputError(f"{idle} says nothing without a condition", hint="as in: roofline scaling fsdp --on v5p")


def _listed() -> list[Section]:
    """The conditions with what they say and what is solved for."""
    from roofline.bounds.scaling import list_conditions

    columns = (Column("condition"), Column("answer"), Column("what it says", wrap="words"))
    return [Table(columns, [Row((Words(name, "strong"), what, says)) for name, says, what in list_conditions()])]
