"""Input as people write it: counts with prefixes, hub ids; what a command says where nothing is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofline.cli import main
from roofline.errors import InputError
from roofline.models.config import load
from tests.strategies import some


def asked(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("short", "long"),
    some([
        (["bound", "bf16[B, D] * bf16[D, F]", "--on", "h100", "B=8k", "D=4Ki", "F=1_000"],
         ["B=8000", "D=4096", "F=1000"]),
        (["llm", "llama-3-8b", "--on", "h100", "--context", "64Ki"], ["--context", "65536"]),
        (["llm", "llama-3-8b", "--on", "h100", "--prompt", "8K"], ["--prompt", "8000"]),
        (["train", "llama-3-8b", "--on", "h100:8", "--batch-tokens", "1M", "--tokens", "15T"],
         ["--batch-tokens", "1000000", "--tokens", "15e12"]),
    ], 2),
)  # fmt: skip
def test_counts_have_prefixes(short: list[str], long: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(short, capsys) == asked([*short[: -len(long)], *long], capsys)


def test_a_hub_id_is_read_from_the_local_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert load("meta-llama/Llama-3.1-70B-Instruct").parameters == load("llama-3.1-70b").parameters
    assert any("tuned from" in note for note in load("meta-llama/Llama-3.1-70B-Instruct").notes)
    assert not any("tuned from" in note for note in load("meta-llama/Llama-3.1-70B").notes)
    with pytest.raises(InputError, match="neither shipped nor in the hub's local cache"):
        load("Qwen/Qwen9-7B-Instruct")
    folder = tmp_path / "models--meta-llama--Llama-3.1-70B-Instruct" / "snapshots" / "0f1e"
    folder.mkdir(parents=True)
    fields = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    fields |= {"intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(fields))
    assert load("meta-llama/Llama-3.1-70B-Instruct").parameters == 88640


def test_alone_the_command_greets_with_examples_that_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  roofline")]
    assert len(lines) == 3
    import shlex

    for line in lines:
        assert main(shlex.split(line)[1:]) == 0


def test_models_are_a_table_with_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("deepseek-v3 "))
    assert row.split() == ["deepseek-v3", "671B", "37.6B", "163,840"]


def test_suggestions_are_about_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "model.py:build", "--train"]) == 2
    assert "the gradient too is --backward" in capsys.readouterr().err


def test_what_may_stand_several_times_may_stand_in_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out

    line = ["bf16[64, 8192] * bf16[8192, 8192]", "--on", "h100"]
    apart = said("advise", *line, "--than", "h200", "--than", "b200")
    assert apart == said("advise", *line, "--than", "h200,b200")
    apart = said("bound", *line, "--set", "hbm=4e12", "--set", "bf16=1e15")
    assert apart == said("bound", *line, "--set", "hbm=4e12,bf16=1e15")
    apart = said("solve", "--for", "intensity", "--on", "v5e", "--bandwidth", "4e11", "--bandwidth", "8e11")
    assert apart == said("solve", "--for", "intensity", "--on", "v5e", "--bandwidth", "4e11,8e11")
    each = ["--ceiling", "bf16", "--ceiling", "int8", "--level", "hbm", "--level", "vmem"]
    apart = said("plot", "--on", "v5e", *each, "--json")
    assert apart == said("plot", "--on", "v5e", "--ceiling", "bf16,int8", "--level", "hbm,vmem", "--json")
