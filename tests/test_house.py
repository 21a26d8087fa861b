"""The rules of the house: what importing costs, who may import whom, what is documented."""

from __future__ import annotations

import ast
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import roofline
from tests.house_messages import parsed
from tests.strategies import some

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "roofline"
HEAVY = ("numpy", "sympy", "rich", "matplotlib", "click", "torch", "jax", "onnx", "importlib.metadata")
LONGEST_GUIDE = 60

MODULES = sorted(LIBRARY.rglob("*.py"))


def python(code: str, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a line of Python in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(path)} if path else None
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a fresh process; return the heavy modules it loads."""
    done = python(f"import sys; {statement}; print(*[m for m in {HEAVY!r} if m in sys.modules])")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_importing_loads_nothing_heavy() -> None:
    assert loaded_by("import roofline") == set()


def test_a_bound_of_plain_numbers_loads_nothing_heavy() -> None:
    asked = "roofline.bound('bf16[B, D] * int8[D, F]', on='v5e', B=64, D=8192, F=8192).lower"
    assert loaded_by(f"import roofline; {asked}") == set()
    done = python(f"import roofline, sys; {asked}; print(*(m for m in sys.modules if 'collectives' in m))")
    assert done.stdout.split() == []  # on one chip nothing is sent


@pytest.mark.parametrize(
    "asked",
    some(
        [
            ("bound", "bf16[64, 64] * bf16[64, 64]", "--on", "v5e"),
            ("llm", "llama-2-7b", "--on", "h100"),
            ("measure", "--show"),
        ],
        2,
        1,
    ),
)
def test_a_command_that_draws_nothing_loads_no_charts(asked: tuple[str, ...]) -> None:
    code = f"import sys; from roofline.cli import main; main({list(asked)!r}); print(*sys.modules, file=sys.stderr)"
    loaded = set(python(code).stderr.split())
    assert "roofline.cli.output" in loaded
    assert not {"roofline.charts", "roofline.web.report", "numpy"} & loaded


def test_a_command_that_ends_looks_for_no_cycles_in_what_it_loaded() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count()));"
    code += "from roofline.cli import run; run()"
    done = python(code, "completion", "bash")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) > 10_000


def test_the_check_for_heavy_modules_can_fail() -> None:
    assert loaded_by("import sympy") == {"sympy"}


def test_public_names_are_exact() -> None:
    assert len(set(roofline.__all__)) == len(roofline.__all__)
    assert sorted(roofline.__all__) == list(roofline.__all__)
    missing = [name for name in roofline.__all__ if not hasattr(roofline, name)]
    assert not missing
    listed = {name for name in dir(roofline) if not name.startswith("_")}
    rooms = {path.stem for path in LIBRARY.iterdir()}
    machinery = {"annotations", "TYPE_CHECKING", "Any"}
    assert listed - rooms - machinery == set(roofline.__all__)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        roofline.no_such_name  # type: ignore[attr-defined]


def lint_imports(config: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the package that lies under ``path``."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return python(code, "--config", str(config), "--no-cache", "--no-logo", path=path)


def test_import_contracts_hold() -> None:
    done = lint_imports(ROOT / "pyproject.toml", LIBRARY.parent)
    assert done.returncode == 0, done.stdout


def test_import_contracts_catch_violations(tmp_path: Path) -> None:
    shutil.copytree(LIBRARY, tmp_path / "roofline", ignore=shutil.ignore_patterns("__pycache__"))
    for file, line in (
        ("sizes.py", "from roofline.work import Op"),
        ("hardware/machine.py", "def late():\n    from roofline.bounds.bound import Bound"),
        ("bounds/bound.py", "import click"),
        ("dtypes.py", "import matplotlib.pyplot"),
        ("newroom.py", "import math"),
    ):
        with (tmp_path / "roofline" / file).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")
    done = lint_imports(ROOT / "pyproject.toml", tmp_path)
    assert done.returncode == 1, done.stdout
    for module in ("sizes", "hardware.machine", "bounds.bound", "dtypes"):
        assert f"roofline.{module} -> " in done.stdout, done.stdout
    assert "newroom" in done.stdout


def test_the_guide_for_contributors_is_under_a_page() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_GUIDE


def files_named(guide: str) -> list[str]:
    """The files and folders that a guide names in backquotes."""
    return re.findall(r"`((?:\w+/)+|(?:\w+/)*\w+\.(?:py|toml))`", guide)


def test_the_guide_for_contributors_names_files_that_there_are() -> None:
    there = {f"/{path.relative_to(LIBRARY)}" for path in LIBRARY.rglob("*")}
    there |= {f"{path}/" for path in there} | {"/pyproject.toml", "/docs/"}
    named = files_named((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []
    assert files_named("`ops/no_such.py` and `cli/`, not `x.y`") == ["ops/no_such.py", "cli/"]


def documented_methods(sources: Iterable[str]) -> dict[str, set[str]]:
    """The methods of each class, by its name, that have a docstring, or had one in a class that it derives from."""
    own: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for source in sources:
        for node in parsed(source).body:
            if isinstance(node, ast.ClassDef):
                parts = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                own[node.name] = {part.name for part in parts if ast.get_docstring(part) is not None}
                bases[node.name] = [ast.unparse(base) for base in node.bases]

    def with_inherited(name: str) -> set[str]:
        return own.get(name, set()).union(*(with_inherited(base) for base in bases.get(name, ()) if base != name))

    return {name: with_inherited(name) for name in own}


def undocumented(source: str, documented: Mapping[str, set[str]] = MappingProxyType({})) -> Iterator[str]:
    """List what is public in a module and has no docstring: the module, its functions, classes and their methods.

    A method that overrides a documented one has the docstring of that, and an overload that of its function.
    """
    tree = parsed(source)
    if ast.get_docstring(tree) is None:
        yield "the module"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            is_overload = any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)
            if ast.get_docstring(node) is None and not is_overload:
                yield node.name
            bases = node.bases if isinstance(node, ast.ClassDef) else ()
            inherited = {name for base in bases for name in documented.get(ast.unparse(base), ())}
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                is_public = isinstance(part, ast.FunctionDef) and part.name[0] != "_" and part.name not in inherited
                if is_public and ast.get_docstring(part) is None:
                    yield f"{node.name}.{part.name}"


def test_everything_public_has_a_docstring() -> None:
    sources = {str(path.relative_to(LIBRARY)): path.read_text(encoding="utf-8") for path in MODULES}
    documented = documented_methods(sources.values())
    found = {path: list(undocumented(source, documented)) for path, source in sources.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_check_for_docstrings_can_fail() -> None:
    source = "def f(): pass\ndef _g(): pass\nclass C:\n    '''Doc.'''\n    def m(self): pass\n    def _n(self): pass\n"
    assert list(undocumented(source)) == ["the module", "f", "C.m"]
    derived = "'Doc.'\nclass B:\n    'Doc.'\n    def m(self): 'Doc.'\nclass D(B):\n    'Doc.'\n    def m(self): pass\n"
    derived += "    def n(self): pass\n"
    assert list(undocumented(derived, documented_methods([derived]))) == ["D.n"]


#: Folders that hold nothing of the project, and the file that stands for one of git's in a working tree of its own.
SKIPPED = re.compile(
    r"^(\.git|\.venv|\w*\.egg-info|build|dist|out|node_modules|_build|__pycache__|\.\w+_cache|\.hypothesis)$"
)
TEXT = {".py", ".md", ".toml", ".txt", ".cfg", ".yml", ".yaml", ".csv", ".json", ".svg", ".css", ""}

#: Paths of somebody's machine, and unfinished work; put together here so that this file does not hold them.
#: Each pattern begins with its letters, which is searched for fastest.
FORBIDDEN = [
    re.compile(pattern)
    for pattern in (
        r"/(?<![\w.-]/)(?:(?:" + "work|root|home/\\w+|Users/\\w+" + r")/\w|tmp/(?:bash|venv))",
        *(rf"{word[0]}(?<!\w{word[0]}){word[1:]}\b" for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X")),
        "raise NotImplemented" + r"Error(?<!\wraise NotImplemented" + r"Error)\b",
    )
]


def forbidden(text: str) -> str:
    """The first of them in a text."""
    return next((found[0] for pattern in FORBIDDEN if (found := pattern.search(text))), "")


def project_files(folder: Path = ROOT) -> Iterator[Path]:
    """List the text files of the project, generated ones left out."""
    for path in sorted(folder.iterdir()):
        if SKIPPED.match(path.name) or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            yield from project_files(path)
        elif path.suffix in TEXT:
            yield path


def test_no_file_holds_a_path_of_a_machine_or_unfinished_work() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {found}"
        for path in project_files()
        if forbidden(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if (found := forbidden(line))
    ]
    assert found == []


@pytest.mark.parametrize("line", ["see /wo" + "rk/main", "'/ro" + "ot/x'", "# TO" + "DO: later", "/tmp/ba" + "sh_jobs"])
def test_the_check_for_forbidden_words_can_fail(line: str) -> None:
    assert forbidden(line)


@pytest.mark.parametrize("line", ["https://example.org/work/paper", "src/root/x", "framework/main", "/tmp/x"])
def test_the_check_for_forbidden_words_lets_ordinary_text_pass(line: str) -> None:
    assert not forbidden(line)


def test_the_corpus_of_questions_asks_for_what_there_is() -> None:
    from tests.corpus import answers, questions

    asked = [*questions.of_the_docs(), *questions.recorded(), *questions._notation(), *questions._collectives()]
    names = {question["ask"] for question in asked if "ask" in question} | {"roofline.models.serve_bound"}
    assert all(callable(pkgutil.resolve_name(name)) for name in names)
    first = next(question for question in questions._notation() if question["show"] == ["json"])
    assert answers.answer(first)["json"]["code"] == 0
