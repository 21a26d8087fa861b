"""``roofline trace``: the operations of a program people already have, under the roof."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from itertools import product
from typing import Any

from roofline.answers import Part, figures_of, format_choices, names_of, side_by_side, values_listed
from roofline.bounds.api import TARGET_OPTIONS, refuse_model
from roofline.bounds.conventions import OF_OPERATIONS, Conventions
from roofline.cli.command import argument, command_named, word_given
from roofline.cli.lines import check_one_answer, show_formulas
from roofline.cli.option_table import BYTES, ESTIMATE, EXPECT, SEVERAL, options, with_options
from roofline.cli.option_values import convention_arguments, expectation_wanted, target_arguments, targets
from roofline.cli.output import is_drawn, kept_for, show, show_answer, show_explained, show_json, working
from roofline.counts import parse_size
from roofline.errors import InputError, SizeError, check_one_of, quoted
from roofline.quantity import whole_number
from roofline.sections import BLANK, Section, Sentences
from roofline.sizes import is_number


@command_named("trace", "input batch backward optimizer on set policy convention estimate flat depth explain json")
@argument("program", metavar="FILE.py:NAME | FILE.onnx", values="file")
@argument("words", nargs=-1, metavar="[SIZE=VALUE]...")
@with_options(options("input jax batch dtype trips backward input-gradients optimizer"))
@with_options(SEVERAL, BYTES["each-op"], ESTIMATE, EXPECT)
@with_options(*options("measured convention flat depth explain formula latex js python c json"))
def trace_command(program: str, words: tuple[str, ...], explain: bool, as_json: bool, **options: Any) -> None:
    """Find every operation of a module, a function or a file, and what each costs at best.

    \b
    roofline trace model.py:build --input "bf16[1, 3, 224, 224]" --on 1080ti
    roofline trace model.py:build --input "bf16[1, 3, 224, 224]" --on l4,a100,h100
    roofline trace model.py:build --input "int32[B, 128]" B=8 --backward
    roofline trace step.py:step --jax --input "bf16[1024, 4096]" --on v5e
    roofline trace resnet50.onnx --on l4 --batch 32 --dtype fp16
    roofline trace model.py:build --input "bf16[1, 3, 224, 224]" --on l4 -o layers.svg
    roofline trace model.py:build --input "bf16[B, 512]" B=64 --on h100 --formula
    """
    told = ("inputs", "frontend", "batch", "convention", "flat", "depth", "formula", "language")
    inputs, frontend, batch, convention, flat, depth, formula, language = map(options.pop, told)
    wanted, machines = expectation_wanted(options), targets(options["on"])
    if formula or language:
        _check_formula(machines, language, as_json)
    if wanted and (formula or language):
        raise InputError("a formula is that of a bound", hint="leave --estimate and --measured out")
    if machines == [None] and is_drawn():
        raise InputError("a roofline is that of a machine", hint="name one: --on h100")
    if explain and (machines == [None] or is_drawn()):
        raise InputError("--explain prints the sources of a machine's figures", hint="name one (--on h100), without -o")
    if depth is not None and depth < 0:
        raise InputError(f"--depth {depth}: there are no modules above the program", hint="0 shows the program alone")
    policies, roofs = format_choices(options, ("policy",)), []
    for on, policy in product(machines, policies):
        roof = target_arguments({**options, **figures_of(on, machines, options), "on": on})
        conventions = Conventions(**convention_arguments({**options, **policy}, OF_OPERATIONS))
        _check_target({**roof, **wanted}, conventions)
        roofs.append({**roof, **{name: getattr(conventions, name) for name in OF_OPERATIONS}})
    names = names_of(machines, policies)
    given = {"sizes": _sizes(words), "batch": None if batch is None else parse_size("batch", batch)}
    given |= {name: options[name] or None for name in ("dtype", "backward", "input_gradients", "optimizer", "trips")}
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if formula or language:
        opened, point = _traced_open(program, frontend, inputs, asked)
        show_formulas([opened.bound(**roof).formula(**point) for roof in roofs], language, as_json)
        return
    rows = _rows(asked)
    if len(rows) > 1:

        def ask(row: dict[str, Any]) -> list[Any]:
            one = {**asked, "sizes": {**asked["sizes"], **row}}
            one |= {"batch": one["sizes"].pop("batch")} if "batch" in asked else {}
            traced = _traced(program, frontend, inputs, one)
            return [traced.bound(**roof, **wanted) for roof in roofs]

        show_answer(_beside(rows, [] if machines == [None] else names, ask), as_json, explain)
        return
    traced = _traced(program, frontend, inputs, asked)
    traced.flops(convention)
    bound: Any = None
    if machines != [None]:
        bound = side_by_side([traced.bound(**roof, **wanted) for roof in roofs], names)
    several = len(names) > 1
    if as_json:
        show_json(traced.to_dict() | ({} if bound is None else {"bound": bound.to_dict()}))
    elif explain:
        show_explained(bound)
    else:

        def roofline() -> list[Any]:
            from roofline.charts.roofline_charts import program_roofline

            return [program_roofline(bound)]

        kept = kept_for()
        said = [*_sections(traced, flat, depth, convention, bound, several, 15 if kept is None else None)]
        of = traced if bound is None else bound
        of = Part([bound.operations_as_data()]) if several and kept == ".csv" else of
        show(said, of=of, charts=roofline if is_drawn() and not several else None)


def _rows(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each choice of one value where sizes have several: of all of them each with each."""
    sizes = {**asked["sizes"], **({"batch": asked["batch"]} if "batch" in asked else {})}
    listed = values_listed({name: size for name, size in sizes.items() if not isinstance(size, str)}, sizes)
    return [dict(zip(listed, row, strict=True)) for row in product(*listed.values())]


def _beside(rows: Sequence[dict[str, Any]], on: Sequence[str], ask: Callable[[dict[str, Any]], list[Any]]) -> Any:
    """A program at several sizes side by side: on one machine a column a size, on several a row a size."""
    from roofline.bounds.comparison import beside_at_sizes, check_number, compare

    if not on:
        raise InputError("several sizes stand side by side on a machine", hint="name one: --on h100")
    if len(on) > 1:
        return beside_at_sizes(rows, lambda row: side_by_side(ask(dict(row)), on))
    check_number(rows)
    names = [", ".join(f"{name} {value:,}" for name, value in row.items()) for row in rows]
    return compare(*(ask(row)[0] for row in rows), names=names)


def _check_formula(machines: Sequence[str | None], language: str | None, as_json: bool) -> None:
    """A closed form is that of a machine, and no list of operations."""
    if machines == [None]:
        raise InputError("a formula is that of a machine", hint="name one: --on h100")
    if word := word_given(("convention", "flat", "depth", "explain")):
        raise InputError(f"{word} is of the list of operations", hint="leave it or the formula out")
    check_one_answer(language, as_json)


def _traced_open(
    program: str, frontend: str | None, inputs: Sequence[str], given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The operations with every size left open that can be, and the numbers of these: the point of its formula."""
    sizes = given["sizes"]
    numbers = {name: value for name, value in sizes.items() if isinstance(value, int)}
    others = {name: value for name, value in sizes.items() if name not in numbers}
    try:
        return _traced(program, frontend, inputs, {**given, "sizes": others}), numbers
    except SizeError:  # the program needs the number of one
        if not numbers:
            raise
        return _traced(program, frontend, inputs, given), {}


def _traced(program: str, frontend: str | None, inputs: Sequence[str], given: dict[str, Any]) -> Any:
    """Load a program and find its operations; ``given`` is what trace was asked with."""
    from roofline.programs.api import front_end, guess, trace

    value: Any = program
    if program.endswith(".onnx"):
        _check_file(frontend, given)
        frontend = "onnx"
    else:
        _check_batch(given)
        _named(program)
        if frontend is not None:
            front_end(frontend)
        value = load_program(program)
        frontend = frontend or (guess(value, ()) if callable(value) else "torch")
        front_end(frontend)
        value, inputs = _built(value, program, inputs, frontend)
        _check_sizes(given["sizes"], [each for each in inputs if isinstance(each, str)])
    if "trips" in given:
        if frontend == "torch":
            raise InputError("--trips is for JAX and ONNX", hint="a PyTorch loop runs as written")
        given["trips"] = _trips(given["trips"])
    try:
        with working("tracing"), output_kept_apart():
            return trace(value, *inputs, frontend=frontend, **given)
    except SystemExit as stop:
        raise InputError(f"{program} ends with sys.exit({stop.code!r})", hint=_NO_EXIT) from None


def _sections(
    traced: Any, flat: bool, depth: int | None, convention: str, bound: Any, several: bool, most: int | None
) -> Iterator[Section]:
    """The operations, as a tree of modules or a list, under roofs where there are any; FLOPs by another convention."""
    if bound is None:
        yield from traced.operation_sections() if flat else traced.sections(depth)
    elif several:
        yield from traced.sections_beside(bound, depth, flat)
    else:
        yield from traced.sections_under(bound, depth=depth, flat=flat, most=most)
    if convention != "flops":
        from roofline.ops.counting import CONVENTIONS

        meaning = CONVENTIONS[convention].meaning
        count = traced.flops(convention)
        said = f"{format(count, ',') if is_number(count) else count} counted as {convention}: {meaning}"
        yield from (BLANK, Sentences([said]))


def load_program(text: str) -> Any:
    """Load ``file.py:name``."""
    path, name = _named(text)
    module = _module(path)
    if not hasattr(module, name):
        check_one_of(
            f"{path} has no {name!r}", name, [word for word in vars(module) if not word.startswith("_")], "names"
        )
    return getattr(module, name)


_NO_EXIT = "put what only a program does under: if __name__ == '__main__'"


@contextmanager
def output_kept_apart() -> Iterator[None]:
    """Send what a program prints to standard error: standard output is for the answer."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        kept = -1
    try:
        if kept >= 0:
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


def _named(text: str) -> tuple[str, str]:
    """The file and the name in ``file.py:name``; the file is there."""
    if os.path.isdir(text) or text.endswith(".json"):
        raise InputError(f"{text} is the configuration of a model", hint=f"roofline llm {text}")
    asked = f"roofline llm {text} --on h100, roofline train {text} --on h100:8 --batch-tokens 1M"
    refuse_model(text, "a program", asked)
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        hint = "FILE.py:NAME, as in model.py:build, or a .onnx file"
        if text.endswith(".py") and os.path.isfile(text):
            hint = f"FILE.py:NAME, as in {' or '.join(f'{text}:{each}' for each in _defined(text))}"
        raise InputError(f"{text!r} does not say which function", hint=hint)
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path!r}", hint="FILE.py:NAME, as in model.py:build")
    return path, name


def _defined(path: str) -> list[str]:
    """The last functions and classes that a file defines, without running it; ``build`` where it has none."""
    import ast

    try:
        with open(path, encoding="utf-8") as file:
            body = ast.parse(file.read()).body
    except (SyntaxError, ValueError):
        body = []
    names = [each.name for each in body if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name[0] != "_"]
    return names[-3:] or ["build"]


def _module(path: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    place = spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    assert place is not None
    assert place.loader is not None  # a file whose name ends in .py has one
    module = module_from_spec(place)
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        with output_kept_apart():
            place.loader.exec_module(module)
    except SystemExit as stop:
        raise InputError(f"{path} ends with sys.exit({stop.code!r})", hint=_NO_EXIT) from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in ("torch", "jax"):
            from roofline.programs.api import front_end

            front_end(error.name)  # says which extra brings it
        said = f"{_line_of(error, path)}the file does not run: {type(error).__name__}: {error}"
        raise InputError(said, hint="trace imports it first, as python does") from error
    finally:
        sys.path.remove(folder)
    return module


def _takes_nothing(value: Any) -> bool:
    """Whether a program is what this gives when it is called: a module's class, a function without parameters."""
    from inspect import isclass, signature

    if hasattr(value, "forward"):
        return isclass(value)
    try:
        return not [p for p in signature(value).parameters.values() if p.default is p.empty and p.kind not in (2, 4)]
    except (TypeError, ValueError):
        return False


def _built(value: Any, label: str, inputs: Sequence[Any], frontend: str) -> tuple[Any, Sequence[Any]]:
    """The program and its inputs: a function that takes nothing gives the program, or both.

    One of JAX that gives arrays is a program without inputs.
    """
    if not _takes_nothing(value) or (frontend == "jax" and _gives_arrays(value)):
        return value, inputs
    made = _called(value, label, frontend)
    if isinstance(made, tuple | list) and len(made) == 2:
        if inputs:
            raise InputError(f"{label} gives its inputs, and so does --input", hint="leave one of them out")
        made, own = made
        inputs = tuple(own) if isinstance(own, tuple | list) else (own,)
    if not callable(made):
        hint = "it should return a module or a function, or one and its inputs"
        raise InputError(f"{label} gives {type(made).__name__}", hint=hint)
    return made, inputs


def _gives_arrays(program: Any) -> bool:
    """Whether a function of JAX without parameters gives arrays alone; it is run on shapes."""
    import jax

    with output_kept_apart():
        try:
            jax.eval_shape(program)
        except TypeError:
            return False
        except (Exception, SystemExit):  # tracing says what is wrong with a program
            return True
    return True


def _called(build: Any, label: str, frontend: str) -> Any:
    """What a function without parameters gives; one of torch is built without memory for its weights."""
    on_shapes: AbstractContextManager[Any] = nullcontext()
    if frontend == "torch":
        from roofline.programs.pytorch.data_parallel import building_on_shapes

        on_shapes = building_on_shapes()
    try:
        with output_kept_apart(), on_shapes:
            return build()
    except SystemExit as stop:
        raise InputError(f"{label} ends with sys.exit({stop.code!r})", hint=_NO_EXIT) from None
    except Exception as error:
        line = _line_of(error, label.rpartition(":")[0])
        said = f"{line}{label} does not build on shapes alone: {type(error).__name__}: {error}"
        hint = "no values are there while it builds: sizes are Python numbers, and weights are loaded later"
        raise InputError(said, hint=hint) from error


def _line_of(error: BaseException, path: str) -> str:
    """The last line of the user's file that an error went through."""
    from traceback import extract_tb

    steps = [step for step in extract_tb(error.__traceback__) if step.filename == os.path.abspath(path)]
    return f"{path}:{steps[-1].lineno}: " if steps else ""


def _check_file(frontend: str | None, given: dict[str, Any]) -> None:
    """An ONNX file is run forward, and is no function of JAX."""
    words = {"backward": "--backward", "optimizer": "--optimizer", "input_gradients": "--input-gradients"}
    for word in [*["--jax"] * (frontend is not None), *(words[name] for name in words if name in given)]:
        raise InputError(f"{word} is not for ONNX files", hint="a file is traced as it stands, as it runs forward")


def _check_target(target: dict[str, Any], conventions: Conventions) -> None:
    """What is said of a machine needs one."""
    words = {"files": "--chips", "over": "--over, --warm or --cold"}
    of_machines = (*TARGET_OPTIONS, "estimate", "measured")
    of_bounds = [name for name in ("overlap", "overhead", "policy", "tile") if name in conventions.changes()]
    for name in (*filter(target.get, of_machines), *of_bounds) if target["on"] is None else ():
        raise InputError(f"{words.get(name, f'--{name}')} says nothing without a machine", hint="name one: --on h100")


def _check_batch(given: dict[str, Any]) -> None:
    """A batch and a format of all tensors belong to an ONNX file."""
    if "batch" in given:
        raise InputError("--batch is for ONNX files", hint='name the size: --input "bf16[B, 512]" B=8')
    if "dtype" in given:
        hint = 'a module has its own, as in model.to(torch.bfloat16), an input says it: --input "bf16[8, 512]"'
        raise InputError("--dtype is for ONNX files", hint=hint)


def _check_sizes(sizes: dict[str, Any], inputs: Sequence[str]) -> None:
    """A size belongs to an input that names it."""
    formulas = [value for value in sizes.values() if isinstance(value, str)]
    named = set(re.findall(r"[A-Za-z_]\w*", " ".join((*(text.partition("[")[2] for text in inputs), *formulas))))
    for name in sizes:
        check_one_of(f"no input names the size {name}", name, sorted(named), "sizes", error=SizeError)


def _sizes(words: Sequence[str]) -> dict[str, Any]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{word!r} is not SIZE=VALUE", hint='an input is given with --input "bf16[8, 512]"')
        found[name.strip()] = parse_size(name.strip(), value.strip())
    return found


def _trips(words: Sequence[str]) -> Any:
    """One number for all loops, or one for each place."""
    found = {}
    for word in words:
        place, _, number = word.rpartition("=")
        trips = whole_number(number)
        if trips is None:
            hint = "as in --trips 10, or --trips step.py:12=10"
            raise InputError(f"--trips {quoted(word)} is not N or PLACE=N", hint=hint)
        found[place] = trips
    return found[""] if list(found) == [""] else found
