"""Pages of the classes that answers give: what a function returns, what its attributes and methods hold, and so on.

The Python reference names the functions and the main answers by hand; what can be reached from them is found here by
the types of what they return, so that every class that a reader can hold has its page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from inspect import getattr_static, getdoc, isclass, isfunction, unwrap
from pathlib import Path
from typing import Any, get_args, get_type_hints

PYTHON = Path(__file__).resolve().parent / "python"

#: The pages by the module that a class stands in, the longest beginning first: title, and for whom.
PAGES = {
    "models.serving": ("parts_serving", "Parts of serving answers", "what a model's prompts and tokens take"),
    "models.training": ("parts_training", "Parts of training answers", "what a training step takes"),
    "models": ("parts_models", "Parts of a model", "a model's layers, weights and formats"),
    "plans": ("parts_plans", "Parts of a plan", "what to deploy"),
    "estimates": ("parts_estimates", "Parts of an estimate", "what an operation will take"),
    "measurement": ("parts_measuring", "Parts of a measurement", "this machine, runs and profiles"),
    "programs": ("parts_programs", "Parts of a traced program", "a program"),
    "hardware": ("parts_machines", "Parts of a machine", "a machine's figures and links"),
    "formulas": ("parts_formulas", "Compiled formulas", "a bound as a formula"),
    "bounds": ("parts_bounds", "Parts of bounds", "a bound, a flip, a layout, a collective"),
    "notation": ("parts_notation", "Parts of the notation", "a line of notation as a tree"),
    "ops": ("parts_notation", "Parts of the notation", "a line of notation as a tree"),
    "charts": ("parts_shown", "What is shown", "tables, sentences and pictures of an answer"),
    "": ("parts_shown", "What is shown", "tables, sentences and pictures of an answer"),
}

_DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>class|function|module):: (?P<name>\S+)$", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n((?:    .*\n|\n)+)", re.MULTILINE)


def documented() -> list[Any]:
    """What the pages written by hand document: classes and functions."""
    found: list[Any] = []
    for page in sorted(PYTHON.glob("*.md")):
        for match in _DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
            if match["kind"] == "module":
                module = import_module(match["name"])
                own = [
                    name for name, held in vars(module).items() if getattr(held, "__module__", "") == module.__name__
                ]
                names = getattr(module, "__all__", own)
                found += [getattr(module, name) for name in names if not name.startswith("_")]
            else:
                module_name, _, name = match["name"].rpartition(".")
                found.append(getattr(import_module(module_name), name))
    return found


@cache
def parts() -> dict[type, list[str]]:
    """Every class of the package that what is documented leads to, with the places that give it."""
    known = documented()
    found: dict[type, list[str]] = {}
    left = list(known)
    while left:
        each = left.pop(0)
        for place, kind in _given(each):
            if kind not in known:
                if kind not in found:
                    left.append(kind)
                found.setdefault(kind, []).append(place)
    return found


def pages() -> dict[str, str]:
    """A page for the classes of each part of the package."""
    grouped: dict[tuple[str, str, str], list[type]] = {}
    found = parts()
    for kind in sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__)):
        where = kind.__module__.partition(".")[2]
        key = max((key for key in PAGES if f"{where}.".startswith(f"{key}." if key else "")), key=len)
        grouped.setdefault(PAGES[key], []).append(kind)
    made = {}
    for (name, title, about), kinds in grouped.items():
        lines = [f"# {title}", "", f"*For whoever holds a part of an answer about {about}.*", ""]
        lines += ["| class | what it is | given by |", "|---|---|---|"]
        lines += [f"| {_link(kind)} | {_first_paragraph(kind)} | {_places(found[kind])} |" for kind in kinds]
        lines += ["", "```{eval-rst}"]
        lines += [f".. autoclass:: {kind.__module__}.{kind.__qualname__}" for kind in kinds]
        made[f"python/{name}"] = "\n".join([*lines, "```", ""])
    return made


def _given(each: Any) -> Iterator[tuple[str, type]]:
    """The classes that a function returns, or that attributes and methods of a class give, with their places."""
    if isfunction(unwrap(each)):
        yield from ((f"{each.__name__}()", kind) for kind in _classes(_hints(unwrap(each)).get("return")))
    if not isclass(each):
        return
    for name in dir(each):
        held = getattr_static(each, name)
        if name.startswith("_") or isclass(held):
            continue
        if isinstance(held, property):
            place, function = f"{each.__name__}.{name}", held.fget
        elif isinstance(held, cached_property):
            place, function = f"{each.__name__}.{name}", held.func
        else:
            place, function = f"{each.__name__}.{name}()", unwrap(getattr(held, "__func__", held))
        if isfunction(function):
            yield from ((place, kind) for kind in _classes(_hints(function).get("return")))
    for name, hint in _hints(each).items():
        if not name.startswith("_"):
            yield from ((f"{each.__name__}.{name}", kind) for kind in _classes(hint))


def _hints(each: Any) -> dict[str, Any]:
    """The types of a class's or function's names, also where its module imports them for a type checker alone."""
    names: dict[str, Any] = {}
    for module in {each.__module__, *(base.__module__ for base in getattr(each, "__mro__", ()))}:
        if module.startswith("roofline"):
            names |= _names_of_types(module)
    return get_type_hints(each, names)


@cache
def _names_of_types(module: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in _TYPES_ONLY.findall(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")):
        exec("if True:\n" + block, names)  # our own imports
    return names | vars(sys.modules[module])


def _classes(hint: Any) -> Iterator[type]:
    """The classes of the package in a type, without private ones."""
    if isclass(hint) and hint.__module__.startswith("roofline") and not hint.__name__.startswith("_"):
        yield hint
    for each in get_args(hint):
        yield from _classes(each)


def _link(kind: type) -> str:
    return f"{{py:class}}`{kind.__name__} <{kind.__module__}.{kind.__qualname__}>`"


def _first_paragraph(kind: type) -> str:
    text = (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    return re.sub(r":[\w:]+:`~?([^`]+)`", r"`\1`", text).replace("``", "`").replace("|", "\\|")


def _places(places: list[str]) -> str:
    """Where a class is given: up to three places."""
    return ", ".join(f"`{place}`" for place in list(dict.fromkeys(places))[:3])
