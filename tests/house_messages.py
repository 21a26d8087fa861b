"""Which messages of errors no test knows, for the guard in test_house_structure.

A message is known by three words of its own that follow one another in a test, a page or an example; where it has
none, by the words of its hint, and where it has neither by a row of the table below.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

#: What makes an error of ours: classes, and the methods that point at a place.
MAKERS = {
    "InputError", "NotationError", "SizeError", "DTypeError", "QuantityError", "HardwareError", "BlockError",
    "UntimedError", "RooflineError", "UsageError", "BadParameter", "fail", "check_one_of",
}  # fmt: skip

#: Those whose further arguments are the hint.
HINTED = {"fail", "check_one_of"}

#: The tree of a module's source, for all guards of a process.
parsed = lru_cache(None)(ast.parse)

_WORD = re.compile(r"[\w=-]+")
_JOINED = re.compile(r'"\s*\n\s*r?f?"')

#: Words that follow one another in a text: three, or two or one where the text has no more.
Phrases = set[tuple[str, ...]]


def plain(text: str) -> str:
    """A text as one line of words: texts that go on over lines of source put together, without escapes."""
    return " ".join(_WORD.findall(_JOINED.sub("", text).replace("\\n", " ").replace("\\", "")))


def phrases_of(texts: Iterable[str], wanted: Phrases) -> Phrases:
    """Which of the wanted phrases plain texts say, of three words, two or one."""
    found: Phrases = set()
    for text in texts:
        words = text.split()
        for phrases in (zip(words, words[1:], words[2:], strict=False), pairwise(words), zip(words, strict=True)):
            found |= wanted.intersection(phrases)
    return found


def said_by_tests(root: Path, package: Mapping[str, tuple[ast.AST, ...]]) -> list[str]:
    """The tests, the pages and the examples of docstrings as plain texts; without this file, which tests nothing."""
    paths = [*(root / "tests").rglob("*.py"), *(root / "docs").rglob("*.md"), root / "README.md"]
    found = [path.read_text(encoding="utf-8") for path in paths if path != Path(__file__)]
    for nodes in package.values():
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                found.append((ast.get_docstring(node, clean=False) or "").partition(">>>")[2])
    return [plain(text) for text in found if text]


def _fixed(nodes: Iterable[ast.AST]) -> Phrases:
    """The phrases of the fixed words in some nodes, those long enough to be a message's own."""
    found: Phrases = set()
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                words = _WORD.findall(each.value)
                runs = list(zip(words, words[1:], words[2:], strict=False)) if len(words) > 2 else [tuple(words)]
                found.update(run for run in runs if sum(map(len, run)) > 6 + (len(run) > 2))
    return found


@lru_cache(None)
def _nodes_of(function: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(function))


def _given(function: ast.AST, names: set[str]) -> list[ast.AST]:
    """What a function gives to some of its names."""
    found: list[ast.AST] = []
    for node in _nodes_of(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id in names for one in targets for each in ast.walk(one)):
                found.append(node.value)
        elif isinstance(node, ast.For) and any(getattr(each, "id", "") in names for each in ast.walk(node.target)):
            found.append(node.iter)
    return found


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def messages(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int, Phrases]]:
    """The messages of a module: the function that has each, its line, and its phrases, those of the hint at last."""
    nodes = list(nodes)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in MAKERS:
            continue
        around = [each for each in functions if each.lineno <= node.lineno <= (each.end_lineno or 0)]
        inside = max(around, key=lambda each: each.lineno, default=None)
        hints = node.args[1:] if name in HINTED else [one.value for one in node.keywords if one.arg == "hint"]
        made = [] if inside is None else [_given(inside, _names(said)) for said in (node.args[:1], hints)]
        known = (node.args[:1], *made[:1], [*hints, *(made[1] if made else [])])
        yield inside.name if inside is not None else "", node.lineno, next(filter(None, map(_fixed, known)), set())


_ROWS = "test_values_that_make_no_operation_are_not_priced"


def untested(package: Mapping[str, tuple[ast.AST, ...]], said: Iterable[str]) -> dict[str, int]:
    """How many messages of each function stand in no test, by their own words."""
    listed = [(f"{module.removeprefix('roofline.')}.{function}", phrases)
              for module, nodes in package.items() for function, _, phrases in messages(nodes)]  # fmt: skip
    known = phrases_of(said, set().union(*(phrases for _, phrases in listed)))
    return dict(Counter(name for name, phrases in listed if not phrases & known))


#: Messages without fixed words of their own, by the function that gives them, and a text of the tests that comes from
#: it: what its callers hand over, or the name of a test that goes through it.
WITHOUT_WORDS: dict[str, tuple[str, ...]] = {
    "bounds.comparison.best": ("no fact 'x'; facts are: ",),
    "bounds.evaluate.bound_of_work": ("not timed: flops on matrix in int64 (1 TFLOP); TPU v5e has no figure for it",),
    "bounds.sharding_plans._at_axis": ("is not declared; the axes are: ", "is not declared: TPU v5e is one chip"),
    "cli.option_values.model_size": ("--count '0.5' is not a number of chips; 8, a list 8,16 or a range",),
    "cli.trace.load_program": ("FILE has no 'c'; names are: b",),
    "estimates.constants._record": (": policy 'x'; one of ",),
    "estimates.constants._values": (" lacks host_time; eager_kernel has host_time",),
    "hardware.schema.read": ("system.mine.link[1].wrap: is 'sometimes'; rules are: full axis",),
    "hardware.schema.fail": ("chip.x.tdp: -1 is negative; expected a power above 0",),
    "hardware.schema.figure": (
        "chip.x.tdp: -1 is negative; expected a power above 0", "bf16.basis: is 'guess'; bases are: spec, derived",
    ),
    "hardware.schema.defaults_of": ("chip.x.unit.tensor.basis: is 'speck'; did you mean 'spec'?",),
    "measurement.executors.executor": ("torch has no fp4 to run fp4[8, 8]",),
    "measurement.runs.check_plain": ("is no text; write it as name,flops,bytes,seconds", "with: ncu"),
    "measurement.runs._of_shapes": ("point 1: ",),
    "models.families.multimodal._kimi": (r"is \[2, 3\]; two equal sides, as \[2, 2\]",),
    "models.fields._above_zero": ("partial_rotary_factor of phi is 3; it is a fraction, above 0",),
    "models.fields.text": ("hybrid_override_pattern of nemotron_h is 3; it is a text",),
    "models.fields.listed": ("layer_types of toy is 'full'; it is a list",),
    "models.sweeps.in_memory": ("tensor 3 does not divide the 8 chips of h100:8",),
    "notation.calls.check_words": ("did you mean 'causal'",),
    "notation.parser._wrong_count": ("attention takes 3 operands, not 2", "did you mean 'causal'"),
    "notation.parser._arguments": ("relu takes 1 operand",),
    "notation.parser.read_whole_number": ("stride is a whole number of steps, not 2.5",),
    "notation.scope.fail": ("the channels of conv differ: 3 and 4",),
    "notation.scope.dtypes": ("fp16 and bf16 are equally wide",),
    "notation.tokens.fail": ("expected ')'",),
    "ops.formula.fail": ("expected ')'",),
    "ops.rules.require": ("10 channels do not fall into 4 groups",),
    "plans.training.search_training": ("fsdp 8 · tensor 3 is 24 chips, and h100:8 has 8",),
    "programs.pytorch.recorder._refused": ("fails: a and b must have same",),
    "programs.pytorch.registry.tensors": (_ROWS,),
    "programs.pytorch.profiled_results._resampled": (_ROWS,),
    "quantity._parse_text": ("--price: '2 W' is a power",),
}  # fmt: skip
