"""``roofline trace``: the operations of a program people already have, under the roof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from roofline.cli.options import TARGET, parse_size, target_arguments, with_options
from roofline.cli.output import show, show_json
from roofline.errors import InputError, SizeError, suggest


@click.command("trace")
@click.argument("program", metavar="FILE.py:NAME | FILE.onnx")
@click.argument("words", nargs=-1, metavar="[SIZE=VALUE]...")
@click.option(
    "--input", "inputs", metavar="TENSOR", multiple=True, help='An input: "bf16[1, 3, 224, 224]"; repeat for more.'
)
@click.option(
    "--jax", "frontend", flag_value="jax", help="The function is JAX's (default: torch for .py, ONNX for .onnx)."
)
@click.option("--batch", metavar="N", type=int, help="Size of an ONNX file's symbolic batch.")
@click.option("--backward", is_flag=True, help="Trace the gradient too.")
@click.option("--optimizer", metavar="NAME", help="And a step: sgd, adam, adamw, rmsprop, adagrad.")
@with_options(TARGET)
@click.option(
    "--policy", metavar="POLICY", default="each-op", help="Which bytes count: each-op (default), fused, minimal."
)
@click.option(
    "--count", "convention", metavar="CONVENTION", default="flops", help="What counts as a FLOP: flops, macs, all …"
)
@click.option("--flat", is_flag=True, help="List every operation rather than the tree of modules.")
@click.option("--depth", type=int, help="How many levels of the tree to show.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON in SI units.")
@click.option("-o", "--output", metavar="PATH", help="Write the answer to a file: .html, .json or .txt.")
def command(
    program: str,
    words: tuple[str, ...],
    inputs: tuple[str, ...],
    frontend: str | None,
    batch: int | None,
    backward: bool,
    optimizer: str | None,
    policy: str,
    convention: str,
    flat: bool,
    depth: int | None,
    as_json: bool,
    output: str | None,
    **options: Any,
) -> None:
    """Find every operation of a module, a function or a file, and what each costs at best.

    \b
    roofline trace model.py:build --input "bf16[1, 3, 224, 224]" --on 1080ti
    roofline trace model.py:build --input "int32[B, 128]" B=8 --backward
    roofline trace step.py:step --jax --input "bf16[1024, 4096]" --on v5e
    roofline trace resnet50.onnx --on l4 --batch 32
    """
    from roofline.programs.api import front_end

    arguments: dict[str, Any] = {"sizes": _sizes(words)}
    if program.endswith(".onnx"):
        frontend, value = "onnx", program
        arguments |= {} if batch is None else {"batch": batch}
    else:
        _check_words(batch, arguments["sizes"], inputs)
        frontend = frontend or "torch"
        front_end(frontend)
        value = load_program(program, build=frontend == "torch")
        arguments |= {"backward": backward} if backward else {}
        arguments |= {"optimizer": optimizer} if optimizer else {}
    traced = front_end(frontend).trace(value, *inputs, **arguments)
    target = target_arguments(options)
    bound = traced.bound(policy=policy, **target) if target["on"] is not None else None
    traced.flops(convention)
    if as_json or (output or "").endswith(".json"):
        answer = traced.to_dict() | ({} if bound is None else {"bound": bound.to_dict()})
        _write_json(answer, output)
        return
    from rich.console import Group
    from rich.text import Text

    parts = [traced.table() if flat else traced.tree(depth)]
    if convention != "flops":
        from roofline.programs.counts import CONVENTIONS

        parts.append(Text(f"  {traced.flops(convention):,} counted as {convention}: {CONVENTIONS[convention].meaning}"))
    if bound is not None:
        from roofline.programs.show import under_the_roof

        parts += [Text(), under_the_roof(bound)]
    _show(Group(*parts), output)


def load_program(text: str, *, build: bool = True) -> Any:
    """Load ``file.py:name``; a function without parameters is called where ``build``, and gives the program."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        hint = "FILE.py:NAME, as in model.py:build, or a .onnx file"
        raise InputError(f"{text!r} does not say which function", hint=hint)
    module = _module(path)
    if not hasattr(module, name):
        known = [word for word in vars(module) if not word.startswith("_")]
        raise InputError(f"{path} has no {name!r}", hint=suggest(name, known, what="names"))
    value = getattr(module, name)
    return _built(value, f"{path}:{name}") if build else value


def _module(path: str) -> Any:
    import os
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    if not os.path.isfile(path):
        raise InputError(f"there is no file {path!r}", hint="FILE.py:NAME, as in model.py:build")
    place = spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    if place is None or place.loader is None:
        raise InputError(f"{path!r} cannot be loaded as Python")
    module = module_from_spec(place)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        place.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} does not run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module


def _built(value: Any, label: str) -> Any:
    """Call a function that takes nothing: it gives the module. It is built without memory for its weights."""
    from inspect import isclass, signature

    if not callable(value) or hasattr(value, "forward"):
        if isclass(value):
            return _called(value, label)
        return value
    try:
        wanted = [p for p in signature(value).parameters.values() if p.default is p.empty and p.kind not in (2, 4)]
    except (TypeError, ValueError):
        return value
    return value if wanted else _called(value, label)


def _called(build: Any, label: str) -> Any:
    import torch

    try:
        with torch.device("meta"):
            made = build()
    except Exception as error:
        raise InputError(f"{label} does not build on shapes alone: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise InputError(f"{label} gives a {type(made).__name__}", hint="it should return a module or a function")
    return made


def _check_words(batch: int | None, sizes: dict[str, Any], inputs: Sequence[str]) -> None:
    """A batch belongs to an ONNX file, and a size to an input that names it."""
    if batch is not None:
        raise InputError("--batch is for ONNX files", hint='name the size: --input "bf16[B, 512]" B=8')
    import re

    named = set(re.findall(r"[A-Za-z_]\w*", " ".join(text.partition("[")[2] for text in inputs)))
    for name in sizes:
        if name not in named:
            raise SizeError(f"no input names the size {name}", hint=suggest(name, sorted(named), what="sizes"))


def _sizes(words: Sequence[str]) -> dict[str, Any]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{word!r} is not SIZE=VALUE", hint='an input is given with --input "bf16[8, 512]"')
        found[name.strip()] = parse_size(name.strip(), value.strip())
    return found


def _write_json(answer: dict[str, Any], output: str | None) -> None:
    if output is None:
        show_json(answer)
        return
    import json
    from pathlib import Path

    Path(output).write_text(json.dumps(answer, indent=2, allow_nan=False, ensure_ascii=False), encoding="utf-8")


def _show(renderable: Any, output: str | None) -> None:
    if output is None:
        show(renderable)
        return
    from io import StringIO
    from pathlib import Path

    from rich.console import Console

    console = Console(record=True, width=140, file=StringIO())
    console.print(renderable)
    text = console.export_html() if output.endswith(".html") else console.export_text()
    Path(output).write_text(text, encoding="utf-8")
