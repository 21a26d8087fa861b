"""Plain questions that ended in a traceback or were answered in silence, and their siblings."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import weakref
from collections import ChainMap, UserDict, UserList, UserString
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import sympy

import roofline
from roofline import charts, estimates, models
from roofline.cli import main
from roofline.errors import InputError, MissingExtraError, OutOfMemoryError, QuantityError, load_extra
from roofline.hardware.rate import find_level
from roofline.models.config import load
from roofline.models.sweeps import StepTable
from roofline.quantity import parse
from roofline.signatures import checked, takes

ADD = "bf16[8] + bf16[8]"
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scaling", "fsdp", "--on", "v5p", "X=2,4,8"], "X has several values; an axis has one number of chips"),
        (
            ["llm", "llama-2-7b", "--on", "h100:8", "--tensor", "0.5", "--batch", "16,256", "--context", "128"],
            "size tensor is 0.5; a size is a whole number of at least 1",
        ),
        (["sweep", ADD, "--on", "h100", "--json", "-o", "x.csv"], "--json prints the table and -o writes it"),
        (["bound", "--flops", "1e12", "--bytes", "5e-324", "--on", "h100"], "'5e-324' is below 1e-60"),
        (["bound", ADD, "--on", "h100", "--set", "hbm=1e-320"], "is below 1e-60"),
        (["bound", "--flops", "1e200", "--on", "h100"], "'1e200' is above 1e+60"),
    ],
)
def test_a_mistake_has_one_clear_message(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert not shown.out


def test_the_conditions_of_scaling_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"condition": "tp", "says": listed[2]["says"], "answer": listed[2]["answer"]} in listed


@pytest.mark.parametrize("sizes", [[1], [1, 1], [1, 2], [1] * 16_384 + [2]])
def test_a_mesh_axis_of_one_chip_among_many(sizes: list[int]) -> None:
    line = "bf16[B, D_X] * bf16[D_X, F]"
    found = roofline.bound(line, on="h100", mesh={"X": sizes}, B=64, D=64, F=64)
    assert str(found)
    for place in (0, -1):
        alone = roofline.bound(line, on="h100", mesh={"X": sizes[place]}, B=64, D=64, F=64)
        assert found.lower[place] == pytest.approx(alone.lower, rel=1e-12)
        assert found.bound_by.decode()[place] == alone.bound_by


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"num_hidden_layers": 10**9}, "of model is 1000000000; it is a whole number from 1 to 10,000"),
        ({"hidden_size": float("inf")}, "hidden_size of model is inf; it is a whole number"),
        ({"hidden_size": True}, "hidden_size of model is True; it is a whole number"),
        ({"model_type": ["x"] * 10_000}, "…"),
    ],
)  # fmt: skip
def test_a_configuration_is_read_within_limits(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        load({**LLAMA, **fields}, name="model")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (["model.layers.{0-3000000000}.mlp"], "layers are numbered from 0 to 9,999"),
        (["re:(a+)+$"], "repeats a group"),
        (["re:(a|aa)*b"], "repeats a group"),
        (["re:" + ".*a" * 20], "is too long; a list of modules takes at most 4 repeats"),
        (["re:" + ".?" * 40], "is too long"),
        (["re:" + "(.|.)" * 40], "is too long"),
        (["*a" * 20], "is too long"),
        (["re:("], "does not read"),
        ("lm_head", "a list of texts"),
        ([3], "a list of texts"),
        ([f"re:.*{n}" for n in range(2000)], "2,000 patterns name modules; at most 1,000"),
    ],
)
def test_patterns_of_modules_match_in_reasonable_time(modules: Any, said: str) -> None:
    section = {"quant_method": "fp8", "modules_to_not_convert": modules}
    with pytest.raises(InputError) as caught:
        load({**LLAMA, "quantization_config": section}, name="model")
    assert said in str(caught.value)


def test_a_library_that_is_broken_is_told_from_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brokenlibrary.py").write_text("raise ImportError('numpy.core.multiarray failed to import')")
    (tmp_path / "needylibrary.py").write_text("import nosuchlibrary")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = {}
    for name in ("brokenlibrary", "needylibrary", "nosuchlibrary"):
        with pytest.raises(MissingExtraError) as caught:
            load_extra(name, "parquet")
        said[name] = str(caught.value)
    assert "is installed and cannot be imported: ImportError: numpy.core.multiarray failed" in said["brokenlibrary"]
    assert (
        "renew it with: pip install --upgrade '.[parquet]' in the folder of roofline's source" in said["brokenlibrary"]
    )
    assert "it needs nosuchlibrary, which is not installed" in said["needylibrary"]
    assert said["nosuchlibrary"].startswith("nosuchlibrary is not installed")


SCALARS = [np.int8(64), np.int32(64), np.uint8(64), np.int64(64), np.float32(64), np.float64(64), np.float16(64)]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.dtype.name)
def test_numpy_scalars_are_numbers(scalar: Any) -> None:
    line = "bf16[B, D] * bf16[D, F]"
    found = roofline.bound(line, on="h100", B=scalar, D=scalar, F=scalar)
    plain = roofline.bound(line, on="h100", B=64, D=64, F=64)
    assert json.dumps(found.to_dict()) == json.dumps(plain.to_dict())
    amount = roofline.bound(flops=scalar, bytes=scalar, on="h100", set={"hbm": scalar})
    assert json.dumps(amount.to_dict())
    served = roofline.models.serve("llama-2-7b", on="h100", batch=scalar, context=scalar)
    plainly = roofline.models.serve("llama-2-7b", on="h100", batch=64, context=64)
    assert json.loads(json.dumps(served.to_dict())) == plainly.to_dict()


def test_no_product_of_numpy_scalars_overflows() -> None:
    big = np.int32(2**30)
    found = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=big, D=big, F=big)
    assert found.flops == 2 * 2**90
    assert (
        roofline.models.serve("llama-2-7b", on="h100", batch=np.int32(2**20), context=np.int16(4000)).decode.lower > 0
    )


@pytest.mark.parametrize("batch", [np.array([100, 120], dtype=np.int8), [100, 120], range(100, 121, 20), "100,120"])
def test_no_product_of_several_sizes_of_a_method_overflows(batch: Any) -> None:
    model = roofline.model("llama-2-7b")
    each = [model.cache_bytes(2**20, batch=sequences) for sequences in (100, 120)]
    assert model.cache_bytes(2**20, batch=batch).tolist() == each
    assert model.cache_bytes(batch).tolist() == [model.cache_bytes(length) for length in (100, 120)]


def test_arrays_are_copied_in_and_results_are_read_only() -> None:
    sizes = np.array([64.0, 128.0])
    found = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=sizes, D=64, F=64)
    before = found.lower.copy()
    sizes[:] = 1
    assert found.sizes["B"].tolist() == [64, 128]
    assert found.lower.tolist() == before.tolist()
    for array in (found.lower, found.upper, found.flops, found.times["hbm"], found.bytes["hbm"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    "odd", [1j, np.complex64(1), float("nan"), np.float32("inf"), np.nan, "1j", None, [], b"8", (1, 2)]
)
def test_a_figure_that_is_none_has_one_message(odd: Any) -> None:
    with pytest.raises((QuantityError, InputError)):
        roofline.bound(flops=1e12, bytes=1e9, on="h100", set={"hbm": odd})
    if odd is not None and not isinstance(odd, tuple):
        with pytest.raises(InputError):
            roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=odd, D=8, F=8)


class _SaysNothing:
    @property
    def __class__(self) -> type:
        raise RuntimeError("of the value itself")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: type("Lazy", (), {"__class__": str})(), "a Lazy that says it is a str; give the str itself"),
        (lambda: type("Lazy", (), {"__class__": int})(), "a Lazy that says it is an int; give the int itself"),
        (lambda: weakref.proxy(roofline), "a ProxyType that says it is a module; give the module itself"),
        (lambda: MagicMock(spec=dict), "a MagicMock that says it is a dict; give the dict itself"),
        (_SaysNothing, "a _SaysNothing that does not say what it is"),
    ],
)
def test_what_says_that_it_is_something_else_is_refused(value: Any, said: str) -> None:
    line, sizes = "bf16[B, D] * bf16[D, F]", {"B": 8, "D": 8, "F": 8}
    asked = {
        "expression": lambda each: roofline.bound(each, on="h100"),
        "on": lambda each: roofline.bound(line, on=each, **sizes),
        "B": lambda each: roofline.bound(line, on="h100", **{**sizes, "B": each}),
        "names": lambda each: roofline.chips(["h100", each]),
        "batch": lambda each: roofline.llm("llama-2-7b", on="h100", batch=each, context=64),
        "weights": lambda each: roofline.llm("llama-2-7b", on="h100", weights=["bf16", each], context=64),
        "prompt": lambda each: roofline.models.prefill("llama-2-7b", prompt=each),
        "length": lambda each: roofline.model("llama-2-7b").cache_bytes(each),
        "exchange": lambda each: roofline.models.Parallelism(exchange=each),
    }
    for name, ask in asked.items():
        with pytest.raises(InputError, match=f"^{name} (is|holds) {re.escape(said)}"):
            ask(value())
    with pytest.raises(InputError, match=r"^set holds a MagicMock that says it is a str"):
        roofline.bound(line, on="h100", set={MagicMock(spec=str): 1e12}, **sizes)


class _Raises:
    """A value whose own methods raise."""

    def __str__(self) -> str:
        raise RuntimeError("of the value itself")

    __iter__ = __str__


def test_a_value_whose_own_method_raises_is_named() -> None:
    for name, verb, ask in (
        ("source", "holds", lambda: roofline.llm({**LLAMA, "model_type": _Raises()}, on="h100")),
        ("source", "is", lambda: roofline.charts.read_measured(_Raises())),
    ):
        with pytest.raises(InputError, match=f"^{name} {verb} a _Raises that cannot be read: of the value itself"):
            ask()


def test_arrays_of_objects_and_many_layouts_are_refused_at_the_border() -> None:
    lazy = type("Lazy", (), {"__class__": dict})()
    with pytest.raises(InputError, match=r"^source holds a Lazy that says it is a dict"):
        roofline.charts.read_measured(np.array([lazy], dtype=object))
    with pytest.raises(InputError, match=r"one answer of 2,000 layouts \(by tensor=\), and at most 1,000 are taken"):
        roofline.models.latency_throughput(LLAMA, on="h100", batch=[1, 2], context=64, tensor=[8] * 2000)
    memory = roofline.bound("bf16[8, 8] @ bf16[8, 8]", on="h100").footprint
    for wrong in (itertools.count(), np.array([_Raises()], dtype=object)):
        with pytest.raises(InputError, match="value is"):
            memory.only_if_fits(wrong)


def test_numbers_inside_a_dictionary_are_pythons() -> None:
    found = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=8, D=8, F=8)
    ops = [part.op for part in found.ops]
    again = roofline.evaluate(
        ops, [op.work for op in ops], roofline.chip("h100"), sizes={"B": np.int8(8), "D": Decimal(8)}
    )
    assert json.dumps(again.to_dict()["sizes"]) == '{"B": 8, "D": 8}'


def test_layouts_of_one_machine_are_not_made_to_name_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepTable, "_chips", None)
    assert len(roofline.sweep("llama-2-7b", on="h100", tensor=[1, 2], batch=2, context=64)) == 2


def test_text_in_a_list_is_a_count_or_refused() -> None:
    assert roofline.llm("llama-2-7b", on="h100", batch=["1k", "2"], context=64)
    with pytest.raises(InputError, match=r"prompt is \['2\*B'\], and takes a whole number or several"):
        roofline.llm("llama-2-7b", on="h100", prompt=["2*B"], context=64)


def test_what_says_its_number_is_a_number() -> None:
    eight = type("Eight", (), {"__float__": lambda self: 8.0})()
    found = roofline.bound(flops=1e12, bytes=eight, on="h100", dtype="bf16")
    assert (
        json.loads(json.dumps(found.to_dict()))
        == roofline.bound(flops=1e12, bytes=8, on="h100", dtype="bf16").to_dict()
    )
    assert roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=eight, D=8, F=8).sizes["B"] == 8
    asked = [roofline.llm("llama-2-7b", on="h100", batch=[2, each], context=64) for each in (eight, 8)]
    assert asked[0].to_dict() == asked[1].to_dict()


def _wrong(*_: Any, **__: Any) -> Any:
    raise RuntimeError("of the value itself")


def test_values_of_somebodys_own_kind_are_read_as_pythons() -> None:
    text = type("Text", (str,), {**dict.fromkeys(("split", "strip", "lower", "partition"), _wrong), "__hash__": None})
    number = type("Number", (int,), dict.fromkeys(("__mul__", "__rmul__", "__lt__", "__float__"), _wrong))
    listed = type("Listed", (list,), dict.fromkeys(("__iter__", "__len__", "__getitem__"), _wrong))
    named = type("Named", (dict,), dict.fromkeys(("__iter__", "items", "keys", "__getitem__"), _wrong))
    path = type("Path", (), {"__fspath__": lambda self: b"llama-2-7b"})
    line = "bf16[B, D] * bf16[D, F]"
    plain = roofline.bound(line, on="h100", B=8, D=8, F=8)
    own = roofline.bound(text(line), on=text("h100"), sizes=named({"B": number(8), "D": 8}), F=8, over=text("hbm"))
    assert own.lower == plain.lower
    asked = roofline.llm(path(), on=listed([text("h100"), text("h200")]), batch=number(2), context=64)
    assert asked.names == roofline.llm("llama-2-7b", on="h100,h200", batch=2, context=64).names
    key = type("Key", (str,), dict.fromkeys(("split", "strip", "lower", "partition"), _wrong))
    described = roofline.chip({"name": "own", key("bf16"): 1e12, key("hbm"): 1e12})
    assert described.figure("hbm").value == 1e12
    assert roofline.model(named(LLAMA)).parameters == roofline.model(LLAMA).parameters


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "chips h100 --dtype bf16",
            "--dtype is the peak that a list shows, and a chip that is named has all of its own",
        ),
        ("chips --ratio bf16/price --dtype fp8", "--dtype is the peak that a list shows, and --ratio names its own"),
        ("chips h100 --ratio bf16/hbm --top 1", "--top says nothing of one chip"),
        ("chips --template --dtype fp8", "--template goes alone"),
        ("llm llama-2-7b --on h100 --host-layers -1", "--host-layers is -1; a whole number of at least 0"),
        ("model llama-2-7b --modules --batch 2", "--modules counts parameters, of which --batch says nothing"),
        ("model llama-2-7b --modules --policy each-op", "--modules counts parameters, of which --policy says nothing"),
    ],
)
def test_options_that_say_nothing_beside_others_are_refused(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert (said in shown.err, shown.out) == (True, "")


def test_a_folder_without_a_chip_is_no_list_of_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hold no chip; roofline chips --template"):
        roofline.chips(str(tmp_path))


def test_paths_and_arrays_inside_what_is_right_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not declared"):
        roofline.advise(ADD, on="h100", use=[tmp_path])
    for wrong in ({b"hbm": 3e12}, {8: 8}):
        with pytest.raises(InputError, match=r"set is {.*, and takes a dict"):
            roofline.bound(ADD, on="h100", set=wrong)
    with pytest.raises(InputError, match="nbytes is 'bf16', and takes a whole number or several"):
        roofline.comm("AllReduce_X(bf16[1024])", on="v5e:8").amount_in_words("bf16")
    with pytest.raises(InputError, match="unknown key b'B'; keys are: level"):
        roofline.bound(ADD, on={"x": {b"B": 8}})
    with pytest.raises(InputError, match=r"model_type of model is array.*it is a text"):
        roofline.model({**LLAMA, "model_type": np.zeros((2, 2))})
    with pytest.raises(InputError, match="model is a _SaysNothing that does not say what it is"):
        roofline.models.serve(_SaysNothing(), on="h100")


def test_lists_dicts_and_text_of_collections_are_pythons() -> None:
    asked = roofline.bound(UserString(ADD), on=UserList(["h100"]), set=UserDict(hbm=2e12))
    assert asked.lower == roofline.bound(ADD, on="h100", set={"hbm": 2e12}).lower
    with pytest.raises(InputError, match=r"levels is \[8\], and takes a list of text"):
        roofline.charts.roofline_chart([roofline.chip("h100")], levels=UserList([8]))
    with pytest.raises(InputError, match="is several figures where one is meant"):
        roofline.plan("llama-3-8b", on="h100", prompt=100, output=100, rate=1, shared=UserDict(a=1))


class _OwnDict(dict[str, float]):
    def __iter__(self) -> Any:
        raise RuntimeError("of the value itself")


def test_arrays_of_objects_hold_pythons_kinds() -> None:
    runs = np.array([_OwnDict(flops=1e12)], dtype=object)
    with pytest.raises(InputError, match="point 1: name is missing"):
        roofline.plot(ADD, on="h100", measured=runs)


class _Endless:
    def __getitem__(self, at: int) -> str:
        return "h100"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: roofline.chips(map(str, itertools.count())), "an iterator gives over 100,000 values"),
        (lambda: roofline.chip("h100", files=itertools.repeat("a.toml")), "an iterator gives over 100,000 values"),
        (lambda: roofline.bound(ADD, on="h100", files=map(str, itertools.count())), "files is <map .*takes a list"),
        (lambda: roofline.plot(ADD, on="h100", names=_Endless()), "names is <.*, and takes a list of text"),
        (lambda: roofline.bound(ADD, on="h100").save(_Endless()), "path is <.*, and takes text"),
        (lambda: roofline.bound(ADD, on=["h100"] * 1001), "on= names 1,001 machines; at most 1,000 at once"),
        (lambda: roofline.sweep(ADD, on="h100," * 2000), "on= names 2,001 machines; at most 1,000 at once"),
    ],
)
def test_what_has_no_end_ends_with_one_error(ask: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        ask()


def test_sizes_in_rows_and_columns_are_a_table_of_all_of_them() -> None:
    sizes = {"B": np.array([[8], [16]]), "D": np.array([64, 128, 256]), "F": 8}
    frame = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", **sizes).to_pandas()
    assert frame["B"].tolist() == [8, 8, 8, 16, 16, 16]
    assert frame["D"].tolist() == [64, 128, 256] * 2
    assert frame["lower"].tolist() == [
        roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=batch, D=width, F=8).lower
        for batch in (8, 16) for width in (64, 128, 256)
    ]  # fmt: skip


def test_a_tensor_without_dimensions_is_a_number_in_a_tuple_and_in_a_dict() -> None:
    eight = pytest.importorskip("torch").tensor(8)
    line = "bf16[B, D] * bf16[D, F]"
    ops = roofline.build(roofline.program(line), {"B": 8, "D": 8, "F": 8})
    for answer in (
        roofline.llm(LLAMA, on="h100", batch=(2, eight), context=64),
        roofline.bound(line, on="h100", sizes={"B": eight, "D": 8, "F": 8}),
        roofline.evaluate(ops, [op.work for op in ops], roofline.chip("h100"), sizes={"B": eight}),
    ):
        assert "8" in json.dumps(answer.to_dict())


@pytest.mark.parametrize(
    ("size", "said"), [(range(10**9), "B has over 100,000,000 values"), (-1, "size B is -1"), ("x", "size B is 'x'")]
)
def test_a_size_that_work_is_evaluated_at_is_one(size: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.evaluate([], [], roofline.chip("h100"), sizes={"B": size})


DEEP: Any = {"B": reduce(lambda inside, _: [inside], range(5000), [])}
PLANNED: dict[str, Any] = {"model": LLAMA, "on": "h100", "rate": 1, "prompt": 8, "output": 8}
FP8 = {"quant_method": "modelopt", "quant_algo": "FP8"}


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: roofline.plan(**PLANNED, memory_share=ChainMap({"B": 8})), "is several figures"),
        (lambda: roofline.train(7e9, on="h100:8", tokens=1e9, power=DEEP), "is several figures"),
        (lambda: models.train(LLAMA, on="h100:8", batch_tokens=65536, tokens=1e9, price=2, power=DEEP), "is several"),
        (lambda: roofline.model({**LLAMA, "quantization_config": {**FP8, "kv_cache_scheme": DEEP}}), "keys and values"),
        *[(lambda field=field: roofline.model({**LLAMA, field: DEEP}), "nested too deeply")
          for field in ("model_type", "dtype", "hidden_act")],
        (lambda: roofline.model({**LLAMA, "tie_word_embeddings": DEEP}), "it is true or false"),
        (lambda: roofline.bound(flops=1e9, dtype="bf16", on={"hbm": 1e12, "B": DEEP["B"]}), "unknown key 'B'"),
        (lambda: estimates.held_accuracy([DEEP], "h100"), r"runs\[0\]"),
    ],
)  # fmt: skip
def test_a_dictionary_is_no_figure_however_deep_it_is(ask: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ask()


def test_no_amount_is_minus_zero() -> None:
    assert str(parse(-0.0, "FLOP", zero=True)) == "0.0"
    served = models.serve(LLAMA, on="h100", batch=2, context=64, overhead=-0.0)
    assert "-0.0" not in json.dumps(served.to_dict())


def test_an_override_by_a_function_of_sympy_is_refused() -> None:
    with pytest.raises(InputError):
        roofline.chip("h100", hbm=sympy.Function("f")(sympy.Symbol("x")))


def test_a_value_inside_an_array_whose_own_method_raises_is_named() -> None:
    def wrong(_: Any) -> Any:
        raise RuntimeError("of the value itself")

    rows = np.array([type("Row", (dict,), {"__iter__": wrong})(B=8), None], dtype=object)
    with pytest.raises(InputError, match="holds a Row that cannot be read: of the value itself"):
        charts.read_measured(rows)


def test_what_has_any_attribute_is_no_answer_to_estimate() -> None:
    with pytest.raises(InputError, match="no expectation of Any"):
        roofline.estimated(type("Any", (), {"__getattr__": lambda self, name: 8})())


@pytest.mark.parametrize(
    ("names", "said"),
    [([f"x{number}" for number in range(50_000)], "unknown chip 'x0'"),
     ([f"x{number}.toml" for number in range(50_000)], "cannot read 'x0.toml'")],
)  # fmt: skip
def test_of_very_many_names_the_first_that_is_wrong_is_told(names: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.chips(names)


@pytest.mark.parametrize("kernel", ["/", "../catalog", "*", "no_such_kernel"])
def test_a_kind_of_kernel_is_no_pattern_of_files(kernel: str) -> None:
    assert roofline.estimates.Estimator().records_of(kernel) == ()


def test_a_level_of_no_name_is_none() -> None:
    assert find_level(roofline.chip("h100"), MagicMock()) is None


@pytest.mark.parametrize("form", ["json", "txt", "csv", "svg"])
def test_a_file_of_an_answer_takes_the_place_of_the_old_one_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """What is named by ``-o`` is written beside, and renamed: who holds the old file open keeps all of it."""
    asked = {
        "json": [["bound", ADD], ["shard", "bf16[B_X, D] + bf16[B_X, D]", "B=8", "D=8"], ["sweep", ADD]],
        "txt": [["bound", ADD], ["sweep", ADD]],
        "csv": [["sweep", ADD]],
        "svg": [["plot", ADD]],
    }
    for words in asked[form]:
        path = tmp_path / f"x.{form}"
        path.write_text("before")
        with open(path, encoding="utf-8") as held:
            code = main([*words, "--on", "v5e:4" if words[0] == "shard" else "h100", "-o", str(path)])
            shown = capsys.readouterr()
            assert (code, held.read()) == (0, "before"), shown.err
        assert path.read_text(encoding="utf-8") != "before"
        assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_a_traced_program_prints_is_no_part_of_the_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "loud.py"
    program.write_text(
        "import os\nprint('at import')\n"
        "def step(x):\n    print('in the step')\n    os.system('echo from a child')\n    return x * 2\n"
    )
    assert main(["trace", f"{program}:step", "--input", "bf16[8]", "--json"]) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)
    assert all(said in shown.err for said in ("at import", "in the step", "from a child"))


def test_a_line_that_names_its_machine_and_a_model_that_is_a_configuration_are_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bound", f"{ADD} on h100"]) == 0
    assert "H100" in capsys.readouterr().out
    assert roofline.llm(LLAMA, on="h100", batch=1, context=64)
    assert (
        roofline.bound(ADD, on="edge", files=[Path(__file__).parents[1] / "docs" / "examples" / "edge.toml"]).lower > 0
    )
    asked = {"on": "h100", "rate": 1, "prompt": 64, "output": 16, "count": 1}
    assert roofline.plan("llama-2-7b", prices={"h100": "$2/h"}, **asked).best.cost_per_hour == 2


def test_numbers_that_have_no_room_in_memory_are_one_error_everywhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @takes()
    def ask(*, batch: int = 1) -> None:
        raise MemoryError

    class Table:
        @checked
        def rows(self, most: int = 40) -> None:
            raise MemoryError

    monkeypatch.setattr("roofline.sizes.own_array", MagicMock(side_effect=MemoryError))
    said = "the answer takes more memory than there is; "
    rows, less = "give fewer values; a sweep that keeps", "ask for less at once"
    line = "bf16[B, 8] * bf16[8, 8]"
    for call, hint in (
        (ask, less), (Table().rows, less), (lambda: ask(batch=np.arange(9)), rows), (lambda: ask(batch="1:9"), rows),
        (lambda: roofline.bound(line, B=np.arange(1, 9), on="h100"), rows),
    ):  # fmt: skip
        with pytest.raises(OutOfMemoryError, match=said + hint) as caught:
            call()
        assert isinstance(caught.value, MemoryError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    monkeypatch.setattr("roofline.cli.cli.main", MagicMock(side_effect=MemoryError))
    assert main(["chips"]) == 2
    assert capsys.readouterr().err == f"error: {said}{less}\n"
