"""The structure of the package, held by tests: no circle, no private name across rooms, one name for one class.

Each guard is a function of source texts, so a made-up package shows that it can fail.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house_messages import WITHOUT_WORDS, parsed, plain, said_by_tests, untested

SOURCES = Path(__file__).resolve().parents[1] / "src"
LONGEST_FUNCTION = 80
#: The share of all lines that may import something: many small files that take from each other have more.
MOST_IMPORTS = 0.05

#: A package: the source of each module by its dotted name.
Package = Mapping[str, str]


@functools.cache
def the_package() -> Package:
    """Read the package itself."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@functools.lru_cache(None)
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a module, found once for all guards."""
    return tuple(ast.walk(parsed(source)))


def room(module: str) -> str:
    """Say which room a module is in; a top-level module is a room of its own."""
    return ".".join(module.split(".")[1:2])


def imported(package: Package) -> dict[str, set[str]]:
    """For each module, the modules it imports, inside functions and for type checking too.

    The package's own ``__init__`` is left out: it names everything public, and loads it when asked.
    """
    graph: dict[str, set[str]] = {}
    for module, source in package.items():
        graph[module] = found = set()
        for node in nodes(source):
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {name if name in package else node.module for name in inner}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        found &= set(package) - {module, "roofline"}
    graph.pop("roofline", None)
    return graph


def circle(package: Package) -> list[str]:
    """Find modules that import one another in a circle: the first again at the end."""
    try:
        graphlib.TopologicalSorter(imported(package)).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def long_functions(package: Package) -> Iterator[str]:
    """List the functions whose body, its docstring left out, is too long."""
    for module, source in package.items():
        for node in nodes(source):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
                length = (node.end_lineno or 0) - first.lineno + 1
                if length > LONGEST_FUNCTION:
                    yield f"{module}.{node.name}: {length} lines"


def private_imports(package: Package) -> Iterator[str]:
    """List the private names that one room takes from another."""
    for module, source in package.items():
        for node in nodes(source):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("roofline."):
                continue
            for name in (*str(node.module).split("."), *(alias.name for alias in node.names)):
                if name.startswith("_") and not name.endswith("__") and room(str(node.module)) != room(module):
                    yield f"{module}:{node.lineno}: {name} of {node.module}"


def classes_of_two_rooms(package: Package) -> dict[str, list[str]]:
    """List the public classes whose name stands in more than one room."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for module, source in package.items():
        for node in parsed(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms[node.name].add(room(module))
    return {name: sorted(found) for name, found in sorted(rooms.items()) if len(found) > 1}


def lines_of_imports(source: str) -> int:
    """Count the lines of a module that import something."""
    found = [node for node in nodes(source) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or 0) - node.lineno + 1 for node in found)


def share_of_imports(package: Package) -> float:
    """Say which share of all lines imports something."""
    return sum(map(lines_of_imports, package.values())) / sum(len(text.splitlines()) for text in package.values())


def test_no_import_goes_in_a_circle() -> None:
    assert circle(the_package()) == []


def test_no_function_is_too_long() -> None:
    assert list(long_functions(the_package())) == []


def test_files_are_long_enough_for_their_imports() -> None:
    assert share_of_imports(the_package()) <= MOST_IMPORTS, "merge files of one concept"


def test_a_public_class_stands_in_one_room() -> None:
    assert classes_of_two_rooms(the_package()) == {}


def test_no_room_takes_a_private_name_of_another() -> None:
    assert list(private_imports(the_package())) == []


FINE = {
    "roofline": "from roofline.b.one import f",
    "roofline.a": "def f(): pass",
    "roofline.b.one": "from roofline.a import f\nclass C: pass",
    "roofline.b.two": "from roofline.b.one import _g\nclass C: pass",
}


def test_the_guards_let_a_sound_package_pass() -> None:
    assert circle(FINE) == []
    assert list(long_functions(FINE)) == []
    assert list(private_imports(FINE)) == []
    assert classes_of_two_rooms(FINE) == {}


def test_the_guard_against_circles_can_fail() -> None:
    late = {**FINE, "roofline.a": "def f():\n    from roofline.b import two"}
    assert set(circle(late)) == {"roofline.a", "roofline.b.one", "roofline.b.two"}
    typed = {**FINE, "roofline.a": "if TYPE_CHECKING:\n    import roofline.b.one"}
    assert set(circle(typed)) == {"roofline.a", "roofline.b.one"}


def test_the_guard_against_long_functions_can_fail() -> None:
    def source(lines: int) -> str:
        return "def f():\n    '''Doc.'''\n" + "    x = 1\n" * lines

    assert list(long_functions({"m": source(LONGEST_FUNCTION)})) == []
    assert list(long_functions({"m": source(LONGEST_FUNCTION + 1)})) == ["m.f: 81 lines"]


def test_the_guard_against_private_names_can_fail() -> None:
    taken = {**FINE, "roofline.a": "def f():\n    from roofline.b.one import C, _g"}
    assert list(private_imports(taken)) == ["roofline.a:2: _g of roofline.b.one"]
    module = {**FINE, "roofline.a": "from roofline.b._hidden import C"}
    assert list(private_imports(module)) == ["roofline.a:1: _hidden of roofline.b._hidden"]


def test_the_guard_against_two_classes_of_one_name_can_fail() -> None:
    assert classes_of_two_rooms({**FINE, "roofline.a": "class C: pass"}) == {"C": ["a", "b"]}


def test_the_count_of_imports_counts_every_line_of_one() -> None:
    assert lines_of_imports("import a\nfrom b import (\n    c,\n)\ndef f():\n    import d\n    return d") == 5
    assert share_of_imports({"m": "import a\nx = 1\ny = 2\nz = 3"}) == 0.25


def test_every_message_of_an_error_is_tested() -> None:
    package = {module: nodes(source) for module, source in the_package().items()}
    said = said_by_tests(SOURCES.parent, package)
    listed = {name: len(texts) for name, texts in WITHOUT_WORDS.items()}
    assert untested(package, said) == listed, "test each message; one without words of its own goes into WITHOUT_WORDS"
    every = "\n".join(said)
    assert [text for texts in WITHOUT_WORDS.values() for text in texts if plain(text) not in every] == []


def test_the_guard_over_messages_can_fail() -> None:
    package = {
        "roofline.a": "def f(x):\n    raise InputError(f'{x} is no such thing', hint='a thing')",
        "roofline.b": "def g(x):\n    said = 'is not so' if x else 'was never so'\n    raise InputError(said)",
        "roofline.c": "def h(x, place):\n    place.fail(f'{x}', f'{x}')",
    }
    made = {module: nodes(source) for module, source in package.items()}
    assert untested(made, ["x is no such thing", "y was never so"]) == {"c.h": 1}
    assert untested(made, ["a thing is no"]) == {"a.f": 1, "b.g": 1, "c.h": 1}


#: Words of commands of other programs, whose options are their own, and of ours, which are typed whole.
COMMANDS = ("roofline ", "pip install", "ncu ", "dask scheduler", "vllm", "--use ")


def options_spelled(source: str) -> list[str]:
    """Texts that spell an option of the command line, but for docstrings and what ``either`` chooses from."""
    every = nodes(source)
    left = {id(part) for call in every if isinstance(call, ast.Call) and _called(call) == "either"
            for part in ast.walk(call)}  # fmt: skip
    left |= {id(node.value) for node in every if isinstance(node, ast.Expr)}
    texts = (node.value for node in every if isinstance(node, ast.Constant) and id(node) not in left)
    spelled = (text for text in texts if isinstance(text, str) and re.search(r"(?:^|[ (`])--[a-z]", text))
    return [text for text in spelled if not any(command in text for command in COMMANDS)]


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "")


def test_options_are_named_as_the_caller_writes_them() -> None:
    own = {"signatures.py", "meanings.py", "deployment_words.py", "errors.py", "conventions.py", "targets.py"}
    files = [path for path in SOURCES.rglob("*.py") if not {"cli", "web"} & set(path.parts) and path.name not in own]
    assert {path.name: found for path in files if (found := options_spelled(path.read_text(encoding="utf-8")))} == {}
    assert options_spelled('raise InputError("give --tensor 8", hint=either("--mesh X=4", "mesh="))') == [
        "give --tensor 8"
    ]


#: Methods of texts that look into one.
READS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split"}
#: Names of texts that we say ourselves.
SAID = {"message", "hint", "does_not_run", "in_words", "needs_in_words", "misfit_in_words"}


def texts_read_back(source: str) -> list[str]:
    """Places that look into a message or hint of ours for a fact, which a value with a kind would say."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            read = [node.func.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _called_of(node) == "re":
            read = node.args
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            read = node.comparators
        else:
            continue
        read = [each.func if isinstance(each, ast.Call) else each for each in read]
        names = {getattr(each, "attr", getattr(each, "id", "")) for each in read}
        found += [f"{node.lineno}: {name}" for name in names & SAID]
    return found


def _called_of(call: ast.Call) -> str:
    return getattr(getattr(call.func, "value", None), "id", "")


def test_no_message_is_read_back() -> None:
    assert {module: found for module, source in the_package().items() if (found := texts_read_back(source))} == {}
    read = ["e.message.startswith('no')", "x = 'fit' in f.in_words()", "re.search('a', e.hint)", "hint.endswith('?')"]
    assert [texts_read_back(each) for each in read] == [["1: message"], ["1: in_words"], ["1: hint"], ["1: hint"]]


def banner_comments(source: str) -> list[str]:
    """Lines of comment that only set parts of a file apart."""
    return re.findall(r"^# ?(?:-{2,}|={2,}|\*{2,}).*$", source, re.MULTILINE)


def test_no_comment_is_a_banner() -> None:
    assert {module: found for module, source in the_package().items() if (found := banner_comments(source))} == {}
    assert banner_comments("x = 1\n# ---- sizes\n#: a constant\n# why: two -- three") == ["# ---- sizes"]
