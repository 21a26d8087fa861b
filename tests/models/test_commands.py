"""``roofline model`` and ``roofline llm``: what they print, their JSON, and what they say to bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofline.cli import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def as_json(capsys: Capture, *words: str) -> Any:
    return json.loads(run(capsys, *words, "--json"))


def test_models_side_by_side(capsys: Capture) -> None:
    text = run(capsys, "model", "llama-2-7b", "llama-2-13b", "llama-2-70b", "gpt-3")
    for word in ("llama-2-7b", "gpt-3", "6.74B", "175B", "524 kB", "parameters", "FLOP/B", "KV per token"):
        assert word in text
    assert "…" not in text


def test_the_table_as_json(capsys: Capture) -> None:
    found = as_json(capsys, "model", "llama-2-7b", "--batch", "8", "--prompt", "1024")
    (model,) = found["models"]
    assert found["schema"] == "roofline/model/1"
    assert model["parameters"] == 6738415616
    assert model["flops"] == 108306139971584
    assert model["kv_bytes_per_token"] == 524288
    assert model["intensity"] == model["flops"] / model["bytes"]


def test_modules(capsys: Capture) -> None:
    found = as_json(capsys, "model", "llama-2-7b", "--modules")
    assert found["total"] == 6738415616 == sum(found.values()) / 2
    assert "layers.mlp.up_proj" in run(capsys, "model", "llama-2-7b", "--modules")


def test_names_are_listed(capsys: Capture) -> None:
    assert "deepseek-v3" in run(capsys, "model").splitlines()


def test_serving(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-2-13b", "--on", "a100:1", "--batch", "8", "--prompt", "1024", "--context", "1536")
    for word in (
        "compute-bound (tensor)",
        "memory-bound (hbm)",
        "layers.0-39.mlp.up_proj",
        "fits",
        "tokens/s for each user",
    ):
        assert word in text


def test_serving_as_json(capsys: Capture) -> None:
    words = ("llm", "llama-2-7b", "--on", "a100", "--set", "hbm=2.039e12", "--batch", "8", "--context", "1024")
    found = as_json(capsys, *words, "--policy", "streamed", "--activations", "bf16")
    assert found["prefill"] is None
    assert found["decode"]["flops"] == 110012399616
    assert found["time_per_token"] == found["decode"]["lower"] == pytest.approx(8.58917e-3, rel=1e-6)
    assert found["tokens_per_second_per_user"] == 1 / found["time_per_token"]
    assert (
        sum(op["flops"] for op in found["decode"]["ops"] if op["kind"] in ("contraction", "attention")) == 110012399616
    )


def test_a_table_over_batches(capsys: Capture) -> None:
    text = run(capsys, "llm", "mixtral-8x7b", "--on", "h200", "--batch", "1:64:*2", "--context", "4096")
    assert "7 of 7 configurations fit" in text or "configurations fit" in text
    found = as_json(capsys, "llm", "mixtral-8x7b", "--on", "h200", "--batch", "1,64", "--context", "4096")
    assert len(found["time_per_token"]) == 2
    assert found["decode"]["bound_by"] == ["hbm", "hbm"]


def test_a_file(capsys: Capture, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
        "unheard_of": 7,
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(config))
    text = run(capsys, "llm", str(path), "--on", "h100", "--prompt", "16")
    assert "mine" in text
    assert "unheard_of is not understood and not modelled" in text


def test_an_encoder_has_no_decode(capsys: Capture) -> None:
    found = as_json(capsys, "llm", "bert-base", "--on", "h100", "--prompt", "128")
    assert found["decode"] is None
    assert found["time_per_token"] is None


def test_what_does_not_fit(capsys: Capture) -> None:
    text = run(capsys, "llm", "llama-2-70b", "--on", "h100", "--prompt", "1000")
    assert "does not fit" in text
    assert "instead: the weights fit in fp8" in text


MESSAGES = [
    (["llm", "lama-2-7b", "--on", "h100", "--prompt", "8"], "no model 'lama-2-7b'; did you mean 'llama-2-7b'?"),
    (["llm", "llama-2-7b", "--prompt", "8"], "no machine to run on"),
    (
        ["llm", "llama-2-7b", "--on", "h100"],
        "nothing is asked for; give a prompt to prefill, a context to decode after",
    ),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "x"], "--prompt 'x' is not a size; a number, a list"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "8", "--batch", "0"], "size batch is 0"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "9000"], "takes sequences of up to 4096 tokens, not 9000"),
    (["llm", "llama-2-7b", "--on", "h100", "--prompt", "8", "--weights", "fp9"], "unknown dtype 'fp9'; did you mean"),
    (["model", "llama-2-7b", "gpt-3", "--modules"], "--modules opens one model up, not 2; name one"),
    (["model", "llama-2-7b", "--prompt", "0"], "size prompt is 0"),
]


@pytest.mark.parametrize(("words", "message"), MESSAGES)
def test_messages(words: list[str], message: str, capsys: Capture) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def test_plain_numbers_load_nothing_heavy() -> None:
    code = (
        "import sys, roofline.cli;"
        "roofline.cli.main(['llm', 'deepseek-v3', '--on', 'h100', '--prompt', '64', '--json']);"
        "print([m for m in ('numpy', 'sympy', 'matplotlib', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"
