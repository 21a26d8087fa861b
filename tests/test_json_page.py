"""The page of the JSON has every key of real answers, and its schema for every command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from docs.generated_pages import JSON_KEYS, json_pages
from onnx import helper

import roofline
from roofline.bounds.bound import BOUND_KINDS
from roofline.cli import main
from tests.doc_blocks import ROOT
from tests.measurement.made import made
from tests.programs.onnx_models import model
from tests.programs.onnx_models import value as tensor
from tests.strategies import short_fits

LINE = '"bf16[B, D] * bf16[D, F] -> bf16[B, F]"'
SHARDED = '"bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"'

#: Questions that among them have every schema, and most keys.
ASKED = f"""
bound {LINE} --on h100 B=64 D=8192 F=8192 --estimate
bound {LINE} --on v5e D=8192 F=8192
bound {SHARDED} --on h100:8,mi300x:8 B=512 D=8192 F=32768
bound {LINE} --on h100,a100 B=64 D=8192 F=8192
bound {SHARDED} --on v5e:8 B=512 D=8192 F=32768
bound --flops 1e12 --bytes 2e9 --on h100
solve {LINE} --for B --on v5e D=4096 F=4096
solve {LINE} --for hbm --on v5e B=64 D=4096 F=4096
solve {LINE} --for B --time 1ms --on v5e D=4096 F=4096
solve "bf16[B_X, D] * bf16[D_Y, F] -> bf16[B_X, F]" --for B --on v5e:4x4 --mesh X=4,Y=4 D=65536 F=1024
solve {LINE} --for dtype:1 --on v5e B=64 D=4096 F=4096
solve {LINE} "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]" --equal flops --for M B=64 D=4096 F=4096
solve --for intensity --on v5e --bandwidth 8e11
advise {LINE} --on a100 B=8 D=4096 F=16384
sweep {LINE} --on h100 B=1:8:*2 D=4096 F=4096
sweep {LINE} --on h100,a100 B=1:8:*2 D=4096 F=4096
sweep llama-3-8b --on h100 --batch 1:4 --context 4096
sweep llama-3-8b --on h100 --batch 1:4 --context 4096 --keep front,top=3,histogram=lower
formula {SHARDED} --on v5e:8
comm "AllReduce_X(bf16[B])" --on h100:8 B=1e9
comm dispatch T=4096 D=7168 E=256 k=8 --on h100:8
shard {SHARDED} --on v5e:8 B=512 D=8192 F=32768
layout "bf16[B_X, D]" --mesh X=4 B=512 D=8192
scaling dp --on v5p
scaling dp fsdp tp --on v5p
chips h100
chips h100:8
chips h100 --ratio hbm/pcie
model llama-3-8b
llm llama-3-8b --on h100 --batch 8 --prompt 1024 --output 256 --estimate --price 2.5 --power 700
llm llama-3-8b --on h100 --batch 1:64:*2 --context 1536 --tpot 20ms
llm llama-3-8b --on h100,h200 --batch 1,8 --context 1536
llm llama-3-8b --on h100 --batch 8 --context 1536 --advise --draft 4 --draft-by 0.1
llm llama-3-8b --on h100 --batch 8 --prompt 4096 --chunk 512 --context 1536
llm llama-3-70b --on h100 --context 8k
llm llama-3-70b --on h100:8 --tensor 4 --pipeline 2 --batch 8 --context 1536
llm llama-3-70b --on h100:8 --tensor 8 --batch 8 --prompt 1024 --output 256 --prefill-on h100:4
llm llama-3-8b --on l4 --fit
llm llama-3-70b --on h100:4 --fit --batch 8 --context 4096
train llama-3-8b --on h100:8 --batch-tokens 1M --tokens 15T --measured 14s --estimate --price 2
train llama-3-8b --on h100 --tokens 15T --mfu 0.4 --days 30
train llama-3-8b --on h100 --memory
train llama-3-8b --on h100:8 --batch-tokens 64k --search --tensor 8 --checkpoint full
accuracy h100 --op gemm
accuracy h200 --op gemm
accuracy h100 --runs {{runs}}
calibrate {{runs}} --on h100
calibrate --on h200
profile {ROOT}/docs/examples/profile.csv --on {ROOT}/docs/examples/measured.toml#this
profile {{runs}} --on h100 --estimate
plot {LINE} --on h100 B=64 D=64 F=64
trace {{program}} --on h100
"""


def unknown(answer: Any, part: dict[str, str], path: str = "") -> Iterator[str]:
    """Paths of an answer that the page does not have."""
    part = JSON_KEYS["parts"][part["@"]] if "@" in part else part
    for key, value in answer.items():
        at = f"{path}.{key}" if path else key
        listed = isinstance(value, list) and any(isinstance(each, dict) for each in value)
        word = key if key in part else f"{key}[]" if f"{key}[]" in part else f"{key}{{}}"
        said = part.get(word, part.get("*"))
        if said is None:
            yield at
            continue
        inner = said.partition("|")[0].strip()
        objects = value if listed else [value] if isinstance(value, dict) else []
        if word.endswith("{}") and isinstance(value, dict):
            objects = [one for each in value.values() for one in (each if isinstance(each, list) else [each])]
            objects = [each for each in objects if isinstance(each, dict)]
        for each in objects if inner != "@schema" else ():
            if inner[:1] == "@":
                yield from unknown(each, JSON_KEYS["parts"][inner[1:]], at)
            else:
                yield f"{at}: {sorted(each)}"
        for each in objects if inner == "@schema" else ():
            yield from unknown(each, JSON_KEYS["schemas"][each["schema"]], at)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers to all questions, by the question."""
    import contextlib
    import io

    runs = tmp_path_factory.mktemp("json") / "runs.csv"
    rows = [f'"bf16[{b}, 4096] * bf16[4096, 4096]",bf16,{30 + b / 8}' for b in range(64, 1024, 64)]
    runs.write_text("\n".join(["expression,dtype,us", *rows]), encoding="utf-8")
    program = runs.with_name("program.onnx")  # what loads no PyTorch
    doubled = model([helper.make_node("Add", ["x", "x"], ["y"])], [tensor("x", 4)], [tensor("y", 4)])
    program.write_bytes(doubled.SerializeToString())
    found = {"measured": made().to_dict()}
    for line in ASKED.strip().splitlines():
        said = io.StringIO()
        with contextlib.redirect_stdout(said), short_fits():
            assert main([*shlex.split(line.format(runs=runs, program=program)), "--json"]) in (0, 3), line
        found[line] = json.loads(said.getvalue())
    return found


def test_every_key_of_an_answer_stands_on_the_page(answers: dict[str, Any]) -> None:
    missing = {line: list(unknown(answer, JSON_KEYS["schemas"][answer["schema"]])) for line, answer in answers.items()}
    assert not {line: keys for line, keys in missing.items() if keys}


def test_every_schema_of_the_page_is_asked(answers: dict[str, Any]) -> None:
    assert set(JSON_KEYS["schemas"]) == {answer["schema"] for answer in answers.values()}


def test_a_key_that_is_not_on_the_page_is_found(answers: dict[str, Any]) -> None:
    answer = list(answers.values())[1]
    assert list(unknown({**answer, "more": 1}, {"@": "bound"})) == ["more"]
    worse = {**answer, "ops": [{**answer["ops"][0], "colour": "red"}]}
    assert list(unknown(worse, {"@": "bound"})) == ["ops.colour"]


def test_the_pages_have_every_schema_and_part() -> None:
    page = "\n".join(json_pages().values()).replace("<wbr>", "").replace("\\_", "_")
    for name, keys in {**JSON_KEYS["schemas"], **JSON_KEYS["parts"]}.items():
        assert f"## {name}" in page.replace("`", "")
        assert all(f"<code>{key}</code>" in page for key in keys if key not in ("says", "@", "*")), name


def test_kinds_of_a_bound_are_those_of_the_code() -> None:
    said = JSON_KEYS["parts"]["bound"]["kind"].removeprefix("| ").replace(" or ", ", ").split(", ")
    assert sorted(said) == sorted(set(BOUND_KINDS.values()))


def test_keys_of_options_that_were_not_given_are_absent() -> None:
    plain = roofline.llm("llama-3-8b", on="h100", context=8192)
    assert not {"cost", "expectation", "front", "formulas"} & set(plain.to_dict())
    assert plain.to_dict()["prefill"] is None
    assert "cost" in roofline.llm("llama-3-8b", on="h100", context=8192, price=2).to_dict()


def test_the_data_of_an_answer_ask_it_again_on_the_same_machine() -> None:
    machine = roofline.chip("h100", hbm="4 TB/s", unit="vector", **{"tensor.achievable": 0.8})
    line, sizes = "bf16[B, D] * bf16[D, F]", {"B": 128, "D": 4096, "F": 4096}
    answer = roofline.bound(line, on=machine, **sizes)
    said = answer.to_dict()
    again = roofline.bound(line, on=said["machine"], set=said["set"], **said["sizes"], **said["options"])
    assert again.lower == answer.lower
    assert again.to_dict()["set"] == said["set"] == machine.figures_set
    whole = {"hbm.bandwidth": 4e12, "tensor.achievable": 0.8}
    grid = roofline.sweep(line, on=[machine, "a100"], **{**sizes, "B": [1, 8]})
    assert grid.to_dict()["sets"] == [whole, {}]
    assert roofline.solve(line, for_="B", on=machine, D=4096, F=4096).to_dict()["set"] == whole
    assert roofline.comm("AllReduce_X(bf16[8])", on=machine, mesh={"X": 8}).to_dict()["set"] == whole
