"""The JSON of a plan keeps to the schema that is shipped, and the page of the docs has its keys."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from docs.generated_pages import plan_schema_page

import roofline
from roofline.cli import main
from tests.strategies import some

SCHEMA: dict[str, Any] = json.loads((Path(roofline.__file__).parent / "plans" / "plan.schema.json").read_text("utf-8"))
PAGE = (Path(__file__).parents[2] / "docs" / "plans.md").read_text(encoding="utf-8")

#: Every plan of the page; in the quick test two of them.
COMMANDS = [line for line in re.findall(r"^\$ roofline (plan .*)$", PAGE, re.MULTILINE) if "--why" not in line]
SHOWN = COMMANDS if os.environ.get("ROOFLINE_LONG") else COMMANDS[-1:]

SMALL = "plan llama-3-8b --on h100 --count 1 --prompt 512 --formats bf16"
OTHERS = [
    f"{SMALL} --rate 2/s --output 64 --estimate --prices h100=2",
    f"{SMALL} --rate 2/s --output 64 --tpot 1us",
    f"{SMALL} --rate 9000/s --output 64 --prices h100=2",
    f"{SMALL} --rate 2/s --output 1 --explain",
    f"{SMALL} --rate trace.csv --output 64 --draft 2 --disaggregate",
    "plan llama-3-70b --on h100 --count 1 --rate 1/s --prompt 512 --output 64 --formats bf16",
]


@pytest.mark.parametrize("command", some([*SHOWN, *OTHERS], 2))
def test_a_plan_keeps_to_its_schema(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text("time,rate\n0,1\n3600,3\n")
    assert main([*shlex.split(command), "--json"]) in (0, 3)
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)


def test_the_schema_is_one_and_its_page_has_all_keys() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    page = plan_schema_page().replace("<wbr>", "").replace("\\_", "_")
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        for key, value in part["properties"].items():
            assert f"<code>{key}</code>" in page, key
            assert "description" in value, key
