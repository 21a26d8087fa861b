"""What Python offers: a function of the name of every command, with real parameters; one set of methods for answers."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline import models
from roofline.answers import Answer
from roofline.bounds.evaluate import evaluate
from roofline.charts.chart import Chart
from roofline.cli import _COMMANDS, cli
from roofline.errors import InputError
from roofline.meanings import SAID_IN_PYTHON
from roofline.measurement.machine_file import write_machine_file
from roofline.measurement.points import points_of
from roofline.sections import Sentences
from roofline.signatures import ShortSignature, check_methods
from tests.strategies import for_each, some
from tests.test_house_values import ANSWERS, LINE, SIZES, VALUES

#: Commands that have no function: they open or serve a page.
NO_FUNCTION = {"explore", "completion"}

#: What options of commands are called in Python, where they are no parameter of the command's function.
SAID_OTHERWISE = {
    "all": {
        **dict.fromkeys(("report_file", "file", "output", "chart", "split", "csv_file", "roofline", "view"),
                        "answer.save(path), answer.plot()"),
        **dict.fromkeys(("width", "dark", "against", "phase"), "answer.plot()"),
        "title": "answer.save(path, title=)",
        "as_json": "to_dict()", "explain": "answer.explain()", "words": "positional", "help_all": "help()",
        "bytes_": "bytes", "set_": "set", "sharp": "algorithm={'AllReduce': 'in-switch'}",
        "full_attention": "count='full'", "all_logits": "logits='all'",
    },
    "accuracy": {"chip": "on"},
    "advise": {"others": "chips"},
    "calibrate": {"file": "runs"},
    "chips": {
        "filter_": "filter", "ratio": "chips().ratio(figure, other)", "sources": "machine.alternates",
        "template": "chip({…})",
    },
    "formula": {"language": "formula.printed(language)"},
    "layout": {"meshes": "mesh"},
    "llm": {"link": "prefill_link"},
    "measure": {"again": "read_machine_file", "no_library": "library"},
    "model": {
        **dict.fromkeys(
            ("batch", "prompt", "weights", "activations", "kv", "compute", "policy", "tile"), "llm(name, prompt=…)"),
        "context": "model.cache_bytes(context)",
        "names": "source", "modules": "model.parameters_by_module()", "parts": "model.parameters_by_module()",
    },
    "plan": {"why": "plan.why(deployment)", "simulate": "plan.simulated()"},
    "plot": {"machines": "on", "library": "estimate", "names": "names"},
    "profile": {"file": "path"},
    "solve": {
        "bandwidths": "zones(bandwidths=…)", "equal": "solve_equal(first, second, …)",
        "language": "solution.printed(language)",
    },
    "sweep": {"kind": "table.plot(kind)"},
    "trace": {
        "convention": "traced.flops(convention)", "flat": "traced.ops", "depth": "traced.ops",
        "formula": "bound.formula()", "language": "formula.printed(language)",
    },
}  # fmt: skip

NO_PICTURE = "there is no picture of"

#: Methods that answers have as far as the capability exists, and how each is called.
METHODS_OF_SOME: dict[str, Callable[[Any], Any]] = {
    "advise": lambda answer: answer.advise(),
    "compare": lambda answer: answer.compare(answer),
    "explain": lambda answer: answer.explain(),
    "formula": lambda answer: answer.formula(),
}

FUNCTIONS = [name for name in roofline.__all__ if inspect.isfunction(getattr(roofline, name))]


@pytest.mark.parametrize("name", sorted(set(_COMMANDS) - NO_FUNCTION))
def test_every_command_has_a_function_of_its_name(name: str) -> None:
    assert name in dir(roofline)
    assert callable(getattr(roofline, name))


@pytest.mark.parametrize("room", ["", "charts", "estimates", "hardware", "measurement", "models", "notation", "ops"])
def test_every_public_function_checks_the_kinds_of_its_arguments(room: str) -> None:
    home = import_module(f"roofline.{room}" if room else "roofline")
    functions = [each for each in (getattr(home, name) for name in home.__all__) if inspect.isfunction(each)]
    taking = [each for each in functions if inspect.signature(each).parameters]
    assert [each.__name__ for each in taking if not isinstance(inspect.signature(each), ShortSignature)] == []


#: What prices are made of: amounts may be sizes of PyTorch's or JAX's own, and errors are Python's.
PARTS = {"Tensor.updated", "Work.bytes", "Work.flops", "Work.hops", "Work.wire"}

ROOMS = [
    "",
    "bounds",
    "charts",
    "estimates",
    "hardware",
    "measurement",
    "models",
    "notation",
    "ops",
    "plans",
    "programs",
]


@pytest.mark.parametrize("room", ROOMS)
def test_every_method_of_a_public_class_checks_the_kinds_of_its_arguments(room: str) -> None:
    home = import_module(f"roofline.{room}" if room else "roofline")
    assert [each for name in getattr(home, "__all__", ()) for each in _unchecked(getattr(home, name))] == []


def _unchecked(owner: Any) -> list[str]:
    """The public methods of a class, its own or of a class of the package that it is of, without a border."""
    found = []
    for name in dir(owner) if inspect.isclass(owner) else ():
        method = inspect.getattr_static(owner, name)
        method = getattr(method, "__func__", method)
        function = method.__wrapped__ if hasattr(method, "cache_info") else method
        if name.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("roofline"):
            continue
        if f"{owner.__name__}.{name}" in PARTS:
            continue
        if len(inspect.signature(function).parameters) > 1 and not hasattr(method, "is_checked"):
            found.append(f"{owner.__name__}.{name}")
    return found


def test_a_method_without_a_border_is_found() -> None:
    class Mine:
        def rows(self, most: int) -> None: ...

    Mine.rows.__module__ = "roofline.mine"
    assert _unchecked(Mine) == ["Mine.rows"]
    assert _unchecked(check_methods(Mine)) == []


@for_each("name", FUNCTIONS)
def test_a_function_shows_its_parameters_by_name(name: str) -> None:
    parameters = inspect.signature(getattr(roofline, name)).parameters.values()
    rest = [each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    assert rest in ([], ["named_sizes"], ["more_sizes"], ["named"], ["overrides"]), rest


#: Parameters of functions that take objects of the library, whose kinds their annotations say.
OF_THE_LIBRARY = {"build", "compare", "estimated", "evaluate", "parse", "points_of", "program", "write_machine_file"}


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - OF_THE_LIBRARY))
def test_help_says_what_every_option_means(name: str) -> None:
    function = getattr(roofline, name)
    options = [each for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    said = inspect.getdoc(function) or ""
    assert [each.name for each in options if f"``{each.name}``" not in said] == []
    assert function.__name__ == name


def test_help_shows_what_bound_takes() -> None:
    shown = inspect.signature(roofline.bound)
    assert {"expression", "on", "policy", "overlap", "achievable", "mesh", "plan"} <= set(shown.parameters)
    assert shown.parameters["uneven"].default == "error"
    assert {"prompt", "context", "tensor", "expert", "weights", "overlap"} <= set(
        inspect.signature(roofline.llm).parameters
    )
    assert {"checkpoint", "zero", "schedule", "on", "policy"} <= set(inspect.signature(roofline.train).parameters)


@pytest.mark.parametrize("name", ["pytorch", "jax", "onnx"])
def test_trace_shows_what_its_front_ends_take(name: str) -> None:
    source = Path(roofline.__file__).parent / "programs" / name / "trace.py"
    [own] = [
        each
        for each in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and each.name == "trace"
    ]
    shown = inspect.signature(roofline.trace).parameters
    assert [each.arg for each in own.args.kwonlyargs if each.arg not in shown] == []


@pytest.mark.parametrize("name", sorted(set(_COMMANDS) - NO_FUNCTION))
def test_every_option_of_a_command_is_a_parameter_of_its_function(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    words = {str(param.name) for param in command.params}
    otherwise = {**SAID_OTHERWISE["all"], **SAID_OTHERWISE.get(name, {})}
    takes = set(inspect.signature(getattr(roofline, name)).parameters)
    assert words - takes - set(otherwise) == set()
    assert set(SAID_OTHERWISE.get(name, {})) - words == set()


@pytest.mark.parametrize("word", ["full_attention", "all_logits", "sharp", "than", "explain"])
def test_a_word_of_the_command_line_is_told_what_python_calls_it(word: str) -> None:
    for ask in (
        lambda more: roofline.bound(LINE, on="h100", **SIZES, **more),
        lambda more: roofline.llm("llama-3-8b", on="h100", context=9, **more),
    ):
        with pytest.raises(InputError, match=f"there is no argument '{word}'; ") as raised:
            ask({word: True})
        assert raised.value.hint == SAID_IN_PYTHON[word]


PLANNED: dict[str, Any] = {"on": "h100", "rate": "2/s", "prompt": 100, "output": 10, "formats": "bf16", "count": 1}

#: Questions whose counts are text, and the same with numbers.
COUNTS_AS_TEXT: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    (roofline.llm, {"context": "8k", "batch": "4"}, {"context": 8000, "batch": 4}),
    (roofline.llm, {"context": "8Ki", "batch": "1:4:*2"}, {"context": 8192, "batch": [1, 2, 4]}),
    (roofline.llm, {"prompt": "1k", "past": "2k", "output": "64"}, {"prompt": 1000, "past": 2000, "output": 64}),
    (roofline.llm, {"context": "1k", "pool": "2"}, {"context": 1000, "pool": 2}),
    (roofline.llm, {"context": "1k", "price": "$2.5/h"}, {"context": 1000, "price": 2.5}),
    (roofline.llm, {"context": "1k", "draft": "4", "accept": "90%"}, {"context": 1000, "draft": 4, "accept": 0.9}),
    (roofline.train, {"batch_tokens": "64k", "sequence": "1k"}, {"batch_tokens": 64000, "sequence": 1000}),
    (roofline.train, {"tokens": "1T", "mfu": "40%", "price": "2"}, {"tokens": 10**12, "mfu": 0.4, "price": 2}),
    (roofline.train, {"tokens": "300B", "chip_hours": "2M"}, {"tokens": 300 * 10**9, "chip_hours": 2e6}),
    (roofline.sweep, {"batch": "1:4", "context": ["1k", "2k"]}, {"batch": [1, 2, 3, 4], "context": [1000, 2000]}),
    (roofline.formula, {"batch": "8", "context": "8k"}, {"batch": 8, "context": 8000}),
    (roofline.plan, {**PLANNED, "count": "1,2", "prompt": "1k"}, {**PLANNED, "count": (1, 2), "prompt": 1000}),
    (roofline.plan, {**PLANNED, "most": "64", "shared": "50%"}, {**PLANNED, "most": 64, "shared": 0.5}),
]


@pytest.mark.parametrize(("ask", "typed", "meant"), some(COUNTS_AS_TEXT, 2))
def test_a_count_of_a_model_may_be_text(ask: Callable[..., Any], typed: Any, meant: Any) -> None:
    first, second = (ask("llama-3-8b", **{"on": "h100", **asked}).to_dict() for asked in (typed, meant))
    assert first == second


def test_a_size_of_a_line_may_be_text() -> None:
    line = "bf16[B, D] * bf16[D, F]"
    found = roofline.bound(line, on="h100", B="8k", D="4Ki", F="4*D")
    assert found.sizes == {"B": 8000, "D": 4096, "F": 16384}
    assert roofline.bound(line, on="h100", B="1,2", D=8, F="2*max(D, 8)").sizes["B"].tolist() == [1, 2]
    assert roofline.sweep(line, on="h100", B="1:8:*2", sizes={"D": "1k"}, F="D").plain("B") == [1, 2, 4, 8]
    assert roofline.solve(line, "B", on="v5e", D="8k", F="8k").pick == roofline.solve(
        line, "B", on="v5e", D=8000, F=8000).pick  # fmt: skip
    assert roofline.layout("bf16[B_X, D]", mesh={"X": 4}, B="8k", D=8).local == (2000, 8)
    assert [op.name for op in models.prefill("gpt2", prompt="1k")] == [
        op.name for op in models.prefill("gpt2", prompt=1000)]  # fmt: skip


def test_text_that_is_no_count_is_refused() -> None:
    with pytest.raises(InputError, match="size context is '8q'; a size is a whole number"):
        roofline.llm("llama-3-8b", on="h100", context="8q")
    with pytest.raises(InputError, match="size context lists 'x'; numbers without separators"):
        roofline.llm("llama-3-8b", on="h100", context="8k,x")
    with pytest.raises(InputError, match="expected an operator before 'B'"):  # a size, not a billion
        roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B="1B", D=8, F=8)
    with pytest.raises(InputError, match=r"prompt is \[1000, 2000\]; a load is of one number of tokens"):
        roofline.plan("llama-3-8b", **{**PLANNED, "prompt": "1k,2k"})
    with pytest.raises(InputError, match="a number above 0"):
        roofline.train("llama-3-8b", on="h100", tokens="many")
    with pytest.raises(InputError, match="'often' does not start with a number"):
        roofline.train("llama-3-8b", on="h100", tokens="1T", mfu="often")


def test_help_says_what_a_parameter_of_this_function_means() -> None:
    for name in FUNCTIONS:
        function = getattr(roofline, name)
        if "options" not in inspect.signature(function).parameters:
            assert "``options``" not in (function.__doc__ or ""), name
    helps = {name: getattr(roofline, name).__doc__ for name in ("trace", "layout", "scaling", "sweep", "measure")}
    assert "``batch``  The first size of every input that an ONNX file leaves open;" in helps["trace"]
    assert "``device``  What a torch program is told" in helps["trace"]
    assert "``weights``  Positions of the inputs of a JAX function" in helps["trace"]
    assert "``tensor``  The tensor with the mesh axes of its dimensions" in helps["layout"]
    assert "``name``  The condition: tp, dp" in helps["scaling"]
    assert "``tokens``  New tokens of a decode step" in helps["sweep"]


def test_llm_and_train_say_what_comes_back() -> None:
    served, trained = (str(inspect.signature(ask).return_annotation) for ask in (roofline.llm, roofline.train))
    asked: dict[str, Any] = {"context": 1024}
    for answer in (
        roofline.llm("llama-3-8b", on="h100", **asked),
        roofline.llm("llama-3-8b", on="h100", fit=True),
        roofline.llm("llama-3-8b", on=["h100", "h200"], **asked),
    ):
        assert type(answer).__name__ in served
    for more in ({"batch_tokens": 65536}, {"tokens": 1e12}, {"memory": True}):
        assert type(roofline.train("llama-3-8b", on="h100", **more)).__name__ in trained  # type: ignore[arg-type]


def test_a_formula_says_how_it_is_printed() -> None:
    said = r"a program or LaTeX is formula.printed\('python'\)"
    with pytest.raises(InputError, match=f"there is no argument 'python'; {said}"):
        roofline.formula(LINE, on="h100", **SIZES, python=True)
    with pytest.raises(InputError, match=f"there is no argument 'latex'; {said}"):
        roofline.formula("llama-3-8b", on="h100", latex=True)
    found = roofline.bound(LINE, on="h100", **SIZES)
    with pytest.raises(InputError, match=f"a formula takes sizes, and 'language' is none; {said}"):
        found.formula(language="python")
    assert "def floor(" in found.formula().printed("python", name="floor")


def test_an_answer_without_explain_says_which_have_it() -> None:
    found = roofline.train("llama-3-8b", on="h100", tokens=1e12)
    with pytest.raises(AttributeError, match=r"a TokenBudget has no explain\(\): .*of comm, llm and training steps"):
        found.explain()
    program = roofline.programs.traced.Traced("mlp", ())
    with pytest.raises(AttributeError, match=r"a Traced has no compare\(\): .*bound\(on='h100'\)\.compare\(\)"):
        program.compare(program)


def test_an_argument_of_another_function_is_told() -> None:
    with pytest.raises(InputError, match=r"there is no argument 'pricing'; did you mean 'price'\?"):
        roofline.plan("llama-3-8b", **PLANNED, pricing=3)
    for name, argument in (
        ("tp", "tensor"),
        ("dtype", "weights"),
        ("seq_len", "context"),
        ("max_new_tokens", "output"),
    ):
        with pytest.raises(InputError, match=rf"there is no argument '{name}'; did you mean '{argument}'\?"):
            roofline.llm("llama-3-8b", on="h100", **{name: 8})
    with pytest.raises(InputError, match=r"there is no argument 'using'; did you mean 'optimizer'\?"):
        roofline.train("llama-3-8b", on="h100", batch_tokens=4096, using="adam")
    assert roofline.train("llama-3-8b", on="h100", batch_tokens=4096, optimizer="lion").question.optimizer == "lion"
    with pytest.raises(InputError, match="arguments are: on, rate, prompt, output, count, ttft"):
        roofline.plan("llama-3-8b", **PLANNED, qqqqq=3)
    with pytest.raises(InputError, match="arguments are: batch, prompt, context, output"):
        roofline.llm("llama-3-8b", on="h100", context=9, qqqqq=3)
    with pytest.raises(InputError, match="'count'; a line's attention is full unless it says causal"):
        roofline.bound(LINE, on="h100", **SIZES, count="full")
    for asked in (("llama-3-8b",), ("llama-3-8b", "gpt2")):
        with pytest.raises(InputError, match="a comparison is of answers, not of what is asked; ask on several"):
            roofline.compare(*asked, on=["h100", "h200"])
    with pytest.raises(InputError, match=r"no argument 'B'; a size of an input is one of sizes={'B': 8}; an input"):
        roofline.trace(lambda x: x, "fp32[B, 8]", frontend="torch", B=4)
    with pytest.raises(InputError, match="no argument 'input'; did you mean 'inputs'"):
        roofline.trace(len, input="bf16[8]")
    with pytest.raises(InputError, match=r"no argument 'backwards'; did you mean 'backward'\?"):
        roofline.trace(len, "bf16[8]", backwards=True)


def test_an_unknown_argument_of_a_plan_or_of_training_is_refused() -> None:
    asked: dict[str, Any] = {"on": "h100", "rate": "2/s", "prompt": 100, "output": 10}
    with pytest.raises(InputError, match="there is no argument 'tftt'"):
        roofline.plan("llama-3-8b", **asked, tftt="1s")
    with pytest.raises(InputError, match="there is no argument 'tenser'; did you mean 'tensor'"):
        roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192, tenser=2)
    with pytest.raises(InputError, match="batch_tokens= is missing; tokens of one step over all chips"):
        roofline.train("llama-3-8b", on="h100:8")
    with pytest.raises(InputError, match="there is no argument 'tensor'"):
        roofline.train("llama-3-8b", on="h100:8", tokens=1e12, tensor=2)


def test_a_plan_takes_the_words_of_its_command() -> None:
    asked: dict[str, Any] = {"on": "h100", "count": 1, "rate": "2/s", "prompt": 100, "output": 10, "formats": "bf16"}
    found = roofline.plan("llama-3-8b", **asked, prices="h100=2", most=64)
    assert (found.asked.prices, found.asked.most_sequences) == ({"h100": 2.0}, 64)
    assert roofline.plan("llama-3-8b", **asked, most_sequences=64).asked.most_sequences == 64


def test_chips_are_listed_as_on_the_command_line() -> None:
    assert [each.key for each in roofline.chips("tpu", sort="memory")][:3] == ["tpu8i", "tpu8t", "tpu7x"]
    assert [each.key for each in roofline.chips(["h100", "a100"])] == ["h100", "a100"]
    assert roofline.chips("nvidia", sort="price")[0].key == "a100"
    assert {each.vendor for each in roofline.chips(filter="amd")} == {"AMD"}


def test_training_is_asked_as_on_the_command_line() -> None:
    assert round(roofline.train("llama-3-70b", on="h100:512", tokens=15e12, mfu=0.4).days) == 363
    assert roofline.train("llama-3-8b", on="h100", memory=True).parameters == roofline.model("llama-3-8b").parameters
    assert roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192, zero=3, search=True).meets


@pytest.mark.parametrize("on", ["h100,h200", ["h100", "h200"]])
def test_several_machines_stand_side_by_side(on: Any) -> None:
    assert roofline.bound(LINE, on=on, **SIZES).fastest == "h200"
    assert roofline.llm("llama-3-8b", on=on, context=8192).fastest == "h200"
    assert roofline.comm("allreduce", bytes=1e9, on=["h100:8", "a100:8"]).fastest


def refusal(method: Callable[[], Any]) -> str | None:
    """What an answer says where it does not have something; None where it has."""
    try:
        method()
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [*ANSWERS, "chip", "model"])
def test_an_answer_has_the_methods_that_it_can_have(name: str) -> None:
    found = ({**ANSWERS, **VALUES})[name]()
    for answer in found if type(found) is tuple else [found]:
        assert isinstance(answer, Answer)
        assert answer.to_dict()
        for method, none in (
            (answer.table, "has no table"),
            (answer.to_pandas, "has no table"),
            (answer.plot, NO_PICTURE),
        ):
            said = refusal(method)
            assert said is None or none in said
        for method, question in METHODS_OF_SOME.items():
            if hasattr(answer, method):
                said = refusal(partial(question, answer))
                assert said is None or name.endswith(("arrays", "formulas")), (answer, method)
            else:
                with pytest.raises(AttributeError, match=rf"an? {type(answer).__name__} has no {method}\(\): "):
                    getattr(answer, method)


def test_an_answer_is_saved_as_what_the_ending_says(tmp_path: Path) -> None:
    answer = roofline.bound(LINE, on="v5e", **SIZES)
    for ending, start in [
        (".svg", b"<?xml"),
        (".png", b"\x89PNG"),
        (".csv", b"on,phase,operation,kind,module,flops [FLOP],bytes [B],"),
        (".html", b"<!doctype"),
    ]:
        path = tmp_path / f"answer{ending}"
        answer.save(path)
        assert path.read_bytes().startswith(start), ending
    with pytest.raises(InputError, match=r"end the name in \.html, \.json, \.txt, \.csv, \.svg, \.png or \.pdf"):
        answer.save(tmp_path / "answer.doc")
    answer.save(tmp_path / "wide.svg", width=1200)
    assert 'width="1200"' in (tmp_path / "wide.svg").read_text()
    with pytest.raises(InputError, match=r"a width is that of a picture, not of .*x.csv'; end the name in .svg, .png"):
        answer.save(tmp_path / "x.csv", width=1200)
    answer.save(tmp_path / "dark.svg", theme="dark")
    assert (tmp_path / "dark.svg").read_bytes() != (tmp_path / "answer.svg").read_bytes()
    with pytest.raises(InputError, match=r"a theme is that of a picture, not of .*x.csv'; end the name in .svg, .png"):
        answer.save(tmp_path / "x.csv", theme="dark")


def test_a_table_is_saved_as_numbers_text_or_a_picture(tmp_path: Path) -> None:
    table = roofline.sweep(LINE, on="v5e", B=[1, 64], D=1024, F=1024)
    for ending, start in [(".csv", b"expression,on,B,D,F,lower [s]"), (".txt", b"bf16[B, "), (".svg", b"<?xml")]:
        path = tmp_path / f"table{ending}"
        table.save(str(path))
        assert path.read_bytes().startswith(start), ending


def test_what_cannot_be_drawn_says_what_can() -> None:
    with pytest.raises(InputError, match="there is no picture of a formula; it has one at several values of a size"):
        roofline.formula(LINE, on="v5e", **SIZES).plot()
    with pytest.raises(InputError, match="of a model that is served; pictures are: roofline, time, memory"):
        models.serve("llama-2-7b", on="h100", context=128).plot("bars")
    grid = roofline.sweep("llama-3-8b", on="h100", batch=[1, 64], context=1024)
    told = "a heat map is of a table over two sizes on one machine, or over a size and chips; pictures here are: time"
    with pytest.raises(InputError, match=f"no picture 'heatmap' of a table; {told}"):
        grid.plot("heatmap")


def test_a_table_is_drawn_over_the_size_that_varies() -> None:
    table = roofline.sweep(LINE, on="v5e", B=[1, 64, 4096], D=[1024, 2048], F=1024)
    chart = table.plot()
    assert (chart.kind, [line.label for line in chart.lines][:2]) == ("throughput", ["D = 1024", "D = 2048"])


def test_a_sweep_is_of_a_line_or_of_a_model_as_on_the_command_line() -> None:
    table = roofline.sweep("llama-3-8b", on="h100", batch=[1, 64], context=4096)
    assert table.phase == "decode"
    assert len(table) == 2


def test_a_profile_is_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("name,dtype,flops,bytes,seconds\nup,bf16,1e12,2e9,2e-3\ndown,bf16,1e12,2e9,4e-3\n")
    found = roofline.profile(path, on="h100")
    assert [point.run.name for point in found] == ["down", "up"]
    assert [len(roofline.profile(path, on="h100", top=1)), found[1].bound.bound_by] == [1, "tensor"]
    assert found.to_dict()["schema"] == "roofline/points/1"
    assert isinstance(found.plot(), Chart)


def test_what_a_command_works_out_beside_a_step_a_function_does() -> None:
    split: dict[str, Any] = {"on": "h200:8", "tensor": 8, "batch": 16, "prompt": 1000}
    found = roofline.llm("llama-3-70b", output=100, price=2.5, power="tdp", advise=True, fit=True, **split)
    assert list(found.further) == ["generation", "cost", "fewest", "advice"]
    assert found.to_dict()["generation"]["total"] == found.further["generation"].total
    said = next(each for each in found.sections() if isinstance(each, Sentences))
    assert said.lines[0].startswith("answers of 100 tokens to prompts of 1,000: at best ")
    front = roofline.llm("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=[1, 64], context=8192, tpot="20 ms").front
    assert [(best.batch, best.tensor) for best in front.within] == [(64, 4)]
    assert roofline.llm("deepseek-v3", on="h200", fit=True).chips == 5
    with pytest.raises(InputError, match="output= needs prompt=; for instance prompt=1024"):
        roofline.llm("llama-3-8b", on="h100", context=9, output=8)


@pytest.mark.parametrize(
    "ask",
    [
        lambda more: roofline.bound(LINE, on="h100", **SIZES, **more),
        lambda more: roofline.llm("llama-3-8b", on="h100", context=1024, **more).decode,
        lambda more: roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192, **more),
        lambda more: roofline.comm("allreduce", bytes=1e9, on="h100:8", **more).bound,
    ],
)
def test_a_question_says_what_to_expect_too(ask: Callable[[dict[str, Any]], Any]) -> None:
    assert ask({}).expectation is None
    assert ask({"estimate": True}).expectation.value == ask({"estimate": "vllm"}).expectation.value
    with pytest.raises(InputError, match="library=, constants= and eager= go with estimate=; add estimate=True"):
        ask({"eager": True})


def test_sizes_in_a_data_frame_are_whole_and_an_expectation_is_a_line() -> None:
    frame = roofline.llm("llama-3-8b", on="h100", batch=[1, 2], context=1024).to_pandas()
    assert frame["batch"].tolist() == [1, 2]
    assert frame["batch"].dtype.kind == "i"
    said = repr(roofline.bound("bf16[64, 8192] @ bf16[8192, 8192]", on="h100", estimate=True).expectation)
    assert said.startswith("<Expectation: expect ")
    assert len(said) < 200


def test_two_chips_are_compared_in_a_line() -> None:
    one, other = (roofline.llm("llama-3-8b", on=chip, batch=8, context=8192) for chip in ("h100", "h200"))
    both: Any = one.compare(other)
    assert both.fastest == "h200"
    assert both.plot("time").bars


def test_an_answer_says_what_its_times_are_called() -> None:
    with pytest.raises(AttributeError, match="a Bound has no latency: its times are lower, op_by_op, upper, estimate"):
        _ = roofline.bound("bf16[8, 8] * bf16[8, 8]", on="h100").latency


_LAYER = "bf16[B, 8192] * bf16[8192, 8192]"

_ESTIMATED: dict[str, Callable[[], Any]] = {
    "line": lambda: roofline.bound(_LAYER, on="h100", B=64, estimate=True),
    "several sizes": lambda: roofline.bound(_LAYER, on="h100", B=[1, 64], estimate=True),
    "sweep": lambda: roofline.sweep(_LAYER, on="h100", B=[1, 64], estimate=True),
    "side by side": lambda: roofline.bound(_LAYER, on=["h100", "a100"], B=64, estimate=True),
    "collective": lambda: roofline.comm("allreduce 1GB", on="h100:8", estimate=True),
    "decode": lambda: roofline.llm("llama-3-8b", on="h100", batch=8, context=1024, estimate=True),
    "decode, prefill": lambda: roofline.llm("llama-3-8b", on="h100", prompt=64, output=8, estimate=True),
    "models side by side": lambda: roofline.llm("llama-3-8b", on=["h100", "h200"], context=1024, estimate=True),
    "training": lambda: roofline.train("llama-3-8b", on="h100:512", batch_tokens=4e6, estimate=True),
}


@pytest.mark.parametrize("kind", _ESTIMATED)
@pytest.mark.parametrize("word", ["expected", "estimate", "floor", "limited_by"])
def test_a_word_that_is_no_attribute_is_told_with_the_expression_that_has_it(kind: str, word: str) -> None:
    answer = _ESTIMATED[kind]()
    values: list[Any] = [getattr(answer, word, None)]
    if values[0] is None:
        with pytest.raises(AttributeError, match=r"there (is|are) ") as wrong:
            getattr(answer, word)
        values = [eval(each, {"answer": answer}) for each in re.findall(r"answer[^\s,]+", str(wrong.value))]
    for value in values:
        array = np.asarray(value)
        assert array.dtype.kind in "OU" if word == "limited_by" else (array > 0).all()


def test_what_to_expect_of_a_training_step_is_its_estimate_and_no_rate_is_taken_from_it() -> None:
    asked: dict[str, Any] = {"on": "h100:512", "batch_tokens": 4e6}
    step = roofline.train("llama-3-8b", **asked, estimate=True)
    assert step.estimate == step.expectation.value > step.lower == step.time
    stated = roofline.train("llama-3-8b", **asked, overlap=0.5, estimate=True)
    assert stated.estimate == stated.stated_estimate == stated.time != stated.expectation.value
    assert step.stated_estimate is None


def test_words_that_engineers_have_for_times_rates_and_figures_are_told_their_names() -> None:
    served: Any = roofline.llm("llama-3-8b", on="h100", prompt=64, output=8)
    sent: Any = roofline.comm("all_reduce", bytes="1GB", on="h100:8")
    for answer, word, said in (
        (served, "ttft", "there is answer.time_to_first_token, seconds at best"),
        (served, "tpot", "there is answer.time_per_token, seconds at best"),
        (served, "kv_cache", "there is answer.memory, bytes by part, total, and what fits"),
        (sent, "busbw", "there is answer.bus_bandwidth, B/s on the bus"),
        (roofline.bound("bf16[8, 8] * bf16[8, 8]", on="h100"), "tflops", "there is answer.attainable, FLOP/s at best"),
        (roofline.chip("h100"), "bandwidth", "a figure with its source is chip.figure('bf16'), chip.figure('hbm') or"),
        (roofline.chip("h100"), "fp8", "a figure with its source is chip.figure('bf16'), chip.figure('hbm') or"),
    ):
        with pytest.raises(AttributeError, match=rf"a \w+ has no {word}: {re.escape(said)}"):
            getattr(answer, word)


def test_a_machine_tells_how_its_ridge_is_asked() -> None:
    machine = roofline.chip("h100")
    with pytest.raises(AttributeError, match=r"a Machine has no ridge: .* is chip\.ratio\('bf16', 'hbm'\)"):
        _ = machine.ridge
    assert machine.ratio("bf16", "hbm") == roofline.bound(_LAYER, on="h100", B=64).critical_intensity


def test_a_table_tells_how_a_column_is_asked_that_it_has_not() -> None:
    table: Any = roofline.sweep(_LAYER, on="h100", B=[1, 64])
    with pytest.raises(AttributeError, match="a Sweep has no ridge: columns='critical_intensity' asks for it"):
        _ = table.ridge
    with pytest.raises(InputError, match="no column 'expected'; estimate=True adds expected, low and high"):
        _ = table["expected"]
    assert "critical_intensity" in roofline.sweep(_LAYER, on="h100", B=[1, 64], columns="critical_intensity").columns
    with pytest.raises(InputError, match="no column 'best'; did you mean 'lower'"):
        _ = table["best"]
    with pytest.raises(InputError, match=r"no column .time\.hbm.; columns=.times. adds the time of each"):
        _ = table["time.hbm"]
    assert "time.hbm" in roofline.sweep(_LAYER, on="h100", B=[1, 64], columns="times").columns


@pytest.mark.parametrize(
    ("name", "hint", "asked"),
    [
        ("within", "a limit adds it: tpot='30ms' of decode", {"tpot": "30ms"}),
        ("cost_per_million", "price=2.5 adds it", {"price": 2.5}),
        ("time.hbm", "columns='time.hbm' asks for", {"columns": "time.hbm"}),
        ("memory.kv", "columns='memory.kv' asks for", {"columns": "memory.kv"}),
        ("op_by_op", "columns='op_by_op' asks for", {"columns": "op_by_op"}),
    ],
)
def test_a_column_of_steps_is_there_as_its_hint_says(name: str, hint: str, asked: dict[str, Any]) -> None:
    sizes = {"on": "h100", "batch": 1, "context": 128}
    with pytest.raises(InputError, match=re.escape(f"no column {name!r}; {hint}")):
        _ = roofline.sweep("llama-3-8b", **sizes)[name]
    assert name in roofline.sweep("llama-3-8b", **sizes, **asked).columns


def test_no_place_is_told_where_there_is_none() -> None:
    with pytest.raises(AttributeError, match="'Machine' object has no attribute 'lower'"):
        _ = roofline.chip("h100").lower


def test_help_begins_with_the_common_parameters() -> None:
    import pydoc

    said = pydoc.render_doc(roofline.plan, renderer=pydoc.plaintext).splitlines()
    assert len(said[2]) < 420
    assert said[2].startswith("plan(model, *, on=None, rate, prompt, output, count='1:64', ttft=None")
    assert "why the others are not" in said[3]
    assert ">>> found = plan(" in said[5]
    assert {"tensor", "overhead"} <= set(inspect.signature(roofline.plan).parameters)
    assert not {"logits", "images", "image_size"} & set(inspect.signature(roofline.plan).parameters)


def test_what_an_argument_means_is_not_taken_from_a_command_with_another_argument_of_that_name() -> None:
    assert "``tokens``  New tokens of a decode step" in (roofline.models.serve_bound.__doc__ or "")
    for function in (evaluate, points_of, write_machine_file):
        assert "Machine file of" not in (function.__doc__ or "")
        assert "What it takes in reality" not in (function.__doc__ or "")


def test_an_argument_is_explained_as_that_of_its_own_function() -> None:
    """An option's words are of the commands that take it: another function's argument of that name has its own."""
    with pytest.raises(
        InputError, match=r"runs is 5, .*; Your own runs, .*: a CSV, in Python a list of dicts or a frame too$"
    ):
        roofline.accuracy("h100", runs=5)
    with pytest.raises(InputError, match="there is no argument 'on'; arguments are: runs, machine"):
        roofline.measurement.points_of([], on="h100")
    assert "``tokens``  Tokens to train on" in str(roofline.models.budget.__doc__)
    for function in (roofline.models.nearest, roofline.models.network_limit, roofline.models.pool):
        assert "``machine``  The target." in str(function.__doc__)


TWO: dict[str, Any] = {"on": ["h100:8", "a100:8"]}
#: Functions that are asked about two machines at once.
ASKED_OF_TWO: dict[str, Callable[[], Any]] = {
    "bound": lambda: roofline.bound(LINE, **SIZES, **TWO),
    "comm": lambda: roofline.comm("allreduce 1GB", **TWO),
    "llm": lambda: roofline.llm("llama-3-8b", context=512, **TWO),
    "plan": lambda: roofline.plan(
        "llama-3-8b", on=["h100", "a100"], rate=1, prompt=9, output=2, formats=["bf16"], count=1
    ),
    "plot": lambda: roofline.plot(LINE, sizes=SIZES, **TWO),
    "scaling": lambda: roofline.scaling("dp", **TWO),
    "solve": lambda: roofline.solve("bf16[B, D] * bf16[D, F]", "B", D=512, F=512, **TWO),
    "solve_dtypes": lambda: roofline.solve_dtypes(LINE, **SIZES, **TWO),
    "solve_equal": lambda: roofline.solve_equal(LINE, LINE.replace("F", "G"), "F", B=8, D=512, G=64, **TWO),
    "sweep": lambda: roofline.sweep(LINE, **SIZES, **TWO),
    "train": lambda: roofline.train("llama-3-8b", batch_tokens=65536, **TWO),
    "trace": lambda: roofline.trace(_two_products, "bf16[8, 8]", frontend="jax", **TWO),
}


def _two_products(x: Any) -> Any:
    return x @ x @ x


def _every_public_function() -> list[Callable[..., Any]]:
    rooms = (roofline, models, roofline.bounds, roofline.estimates, roofline.measurement, roofline.plans)
    every = (getattr(room, name) for room in rooms for name in getattr(room, "__all__", ()))
    return list({id(each): each for each in every if inspect.isfunction(each)}.values())


def test_help_says_several_machines_where_several_are_taken() -> None:
    said = {each.__name__ for each in _every_public_function() if "; or several." in (each.__doc__ or "")}
    assert {"llm", "solve", "sweep", "train"} <= said <= set(ASKED_OF_TWO)  # others say it in words of their own


@pytest.mark.parametrize("name", ASKED_OF_TWO)
def test_what_is_asked_of_several_machines_answers_for_each(name: str) -> None:
    if name == "trace":
        pytest.importorskip("jax")
    assert ASKED_OF_TWO[name]() is not None


def test_raw_work_is_said_of_functions_that_take_it() -> None:
    for each in _every_public_function():
        taken = set(inspect.signature(each).parameters) & {"flops", "intensity"}
        assert taken or "raw work" not in (each.__doc__ or ""), each.__name__


def test_a_first_argument_is_described_as_that_of_its_own_function() -> None:
    """``help(roofline.model)`` said that its source is the tokens of an encoder."""
    said = inspect.getdoc(roofline.model) or ""
    assert (
        "``source``  A shipped name, a hub id, a config.json or a folder that holds one, its fields, or a Model."
        in said
    )
    assert str(inspect.signature(roofline.model)).startswith("(source")
    assert roofline.model.__name__ == "model"
    tokens = [
        each.__name__ for each in _every_public_function() if "Tokens that the encoder reads" in (each.__doc__ or "")
    ]
    firsts = {each.__name__: next(iter(inspect.signature(each).parameters), "") for each in _every_public_function()}
    assert not [name for name in tokens if firsts[name] == "source"]
    optimizers = {
        each.__name__ for each in _every_public_function() if "``optimizer``  And a step" in (each.__doc__ or "")
    }
    assert optimizers <= {"trace"}


@pytest.mark.parametrize("wrong", [{"layers": 32, "width": 4096, "kv_heads": 8}, {"layers": 32, "width": 4096}])
def test_a_model_that_is_made_by_its_sizes_is_led_to_its_configuration(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"a Model is made by reading a configuration.*roofline\.model\(\{'model_type'"
    ):
        roofline.Model(**wrong)


@pytest.mark.parametrize(
    ("ask", "given"),
    [
        (partial(roofline.llm, "llama-3-8b", on="h100"), {"batch": [1, 8], "context": np.array([128, 256])}),
        (partial(roofline.llm, "llama-3-8b", batch=2), {"on": ["h100", "a100"], "set": {"hbm": "3 TB/s"}}),
        (partial(roofline.sweep, "llama-3-8b", batch=2), {"on": ["h100:8"], "tensor": [1, 8], "context": [64, 128]}),
        (partial(roofline.bound, LINE, on="h100"), {"sizes": {**SIZES, "B": [1, 8]}}),
    ],
)
def test_an_answer_is_that_of_the_lists_as_they_were(ask: Callable[..., Any], given: dict[str, Any]) -> None:
    answer, asked = ask(**given), ask(**deepcopy(given))
    for each in given.values():
        each.fill(7) if isinstance(each, np.ndarray) else each.clear()
    assert (str(answer), answer.to_dict()) == (str(asked), asked.to_dict())
    assert not hasattr(answer, "row") or str(answer.row(0)) == str(asked.row(0))
