"""What Python refuses of a value: one error of ours that says what would be right. The commands' are in tests/cli."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import roofline
from roofline.cli import main
from roofline.errors import InputError, RooflineError

LINE = "bf16[B, D] * bf16[D, F]"
ASKED: dict[str, Any] = {"on": "h100", "rate": 1, "prompt": 8, "output": 8}


def _bound() -> Any:
    return roofline.bound("bf16[8, 8] * bf16[8, 8]", on="h100")


def _roof(*machines: Any, bounds: Any = ()) -> Any:
    from roofline.charts.roofline_charts import roofline_chart

    return roofline_chart(list(machines), bounds)


def _bare() -> Any:
    """A chip without any rate."""
    from dataclasses import replace

    chip = roofline.chip("h100")
    return replace(chip, memories=tuple(memory._replace(bandwidth=None) for memory in chip.memories))


def _limit(kind: str) -> Any:
    from roofline.models.serving.limits import network_limit

    return network_limit("llama-3-8b", "decode", "h100", kind=kind)


def _swept(**more: Any) -> Any:
    return roofline.sweep("llama-3-8b", on="h100", phase="mixed", prompt=1024, chunk=256, context=1024, **more)


def _load(**more: Any) -> Any:
    from roofline.plans.load import ServerTimes

    return ServerTimes.of(step=[0.01] * 4, prompt=0.1, output=8, **more)


def _all_reduce(devices: int) -> Any:
    from roofline.measurement.all_reduce import all_reduce

    return all_reduce(devices)


def _page(name: str, **question: Any) -> Any:
    from roofline.cli.questions import command_words

    return command_words(name, question)


def _stated(trips: Any) -> Any:
    from roofline.programs.loops import stated

    return stated(trips, "step.py:12", "open")


def _configured(name: str, **fields: Any) -> Any:
    """A shipped configuration with other fields; None leaves one out."""
    path = Path(roofline.__file__).parent / "models" / "catalog" / f"{name}.json"
    changed = {**json.loads(path.read_text(encoding="utf-8")), **fields}
    return roofline.model({key: value for key, value in changed.items() if value is not None})


def _lazy() -> Any:
    from torch.nn import LazyLinear

    return roofline.trace(LazyLinear(4), "fp32[2, 3]")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: roofline.advise(_bound(), B=3), "a bound already has its machine and sizes; give an expression to ask"),
    (lambda: roofline.comm("AllReduce", bytes="1GB", on="v5e", mesh={"X": "n"}), "bytes go with a number of chips"),
    (lambda: roofline.solve_dtypes(LINE, 5, on="v5e", B=1, D=1, F=1), "there is no operand 5; operands are: 0"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, objective="speed"), "no objective 'speed'; cost or chips"),
    (lambda: roofline.plan("llama-3-8b", **ASKED, lengths="even"), "no lengths 'even'; one of geometric, fixed"),
    (lambda: _load(lengths="even"), "no lengths 'even'; one of geometric, fixed"),
    (lambda: _load().under(1e9), "1e+09 requests/s are not below the "),
    (lambda: _roof(), "no machine to draw the roof of; name one, such as 'h100'"),
    (lambda: _roof(_bare()), "no roof to draw: NVIDIA H100 SXM5 80GB needs a peak and a bandwidth; give both"),
    (
        lambda: _roof(roofline.chip("h100"), bounds=[roofline.bound(LINE, on="h100", B=[8, 16], D=8, F=8)]),
        "a point needs single sizes, not arrays; say which size to draw over: vary='B'",
    ),
    (lambda: roofline.zones(_bare()), "has no bandwidth at hbm; give one, as in bandwidths=[8.2e11]"),
    (lambda: _limit("sideways"), "no limit of 'sideways'; kinds are: "),
    (lambda: _swept(columns=["throughput"]),
     "no throughput of mixed steps; of decode, prefill, train"),
    (
        lambda: roofline.models.budget("llama-3-8b", on="h100:8", tokens=1e12, days=30, chip_hours=1e5),
        "chip-hours, days and chips are given, and each follows; leave one out",
    ),
    (lambda: roofline.bound(LINE, on="h100", compute=3), "compute is the name of a dtype, not 3; as in compute='bf16'"),
    (lambda: roofline.notation.program(LINE, compute=3), "compute is the name of a dtype, not 3; as in compute='bf16'"),
    (lambda: roofline.bound(LINE, on="h100", B=[], D=8, F=8), "size B is an empty array; give at least one value"),
    (
        lambda: roofline.sweep(LINE, on="h100", B=[1, 2], D=8, F=8, keep="front", block_rows=0),
        "0 rows a block; a million or more keeps a scheduler idle",
    ),
    (lambda: _all_reduce(1), "an all-reduce needs two devices; there is 1 here"),
    (lambda: roofline.trace(len, "fp32[4]", on="h100"), "a trace has no machine; its time on one is trace(…)."),
    (lambda: _stated(-1), "step.py:12: a loop cannot run -1 times; trips are a whole number from 0 on"),
    (
        lambda: roofline.trace(abs, "fp32[4]", frontend="jax", optimizer="adam"),
        "a JAX optimizer is part of the function; trace the training step with its update",
    ),
    (lambda: _lazy(), "has no shape yet: a lazy module takes it from its first input"),
    (
        lambda: _configured("deepseek-ai--deepseek-v4-flash", compress_ratios=None, layer_types=None),
        "has no compress_ratios; a deepseek_v4 configuration needs them or layer_types",
    ),
    (
        lambda: _configured("nvidia--minimax-m2.5-nvfp4", attn_type_list=[0] * 62),
        "has linear attention; only full attention (1) is read",
    ),
    (
        lambda: _configured("nvidia--llama-3_3-nemotron-super-49b-v1", block_configs=None),
        "has no block_configs; a nemotron-nas configuration needs one a layer",
    ),
    (
        lambda: roofline.bound("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]", on="h100:8", mesh={"X": [2, 4]}, B=64, D=8),
        "size F has no value while X is an array; give F too: arrays and unnamed sizes do not mix",
    ),
    (
        lambda: _configured("nvidia--nvidia-nemotron-3-nano-30b-a3b-nvfp4", mlp_bias=True),
        "is true and it has experts; theirs are not read",
    ),
    (
        lambda: _configured(
            "nvidia--nvidia-nemotron-3-nano-30b-a3b-nvfp4", hybrid_override_pattern=None, layers_block_type=None
        ),
        "has no layers_block_type; a nemotron_h configuration needs it or hybrid_override_pattern",
    ),
    (lambda: _page("explore"), "a page cannot ask 'explore'; commands are: "),
    (lambda: _page("bound", words=[None]), "None is no word of a command line; a word, a number, or a list"),
    (lambda: _page("bound", more="'x"), "a quotation mark is not closed; close it, or leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_refused(ask: Callable[[], Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        ask()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("library", "ask", "message"),
    [
        ("pandas", lambda: _bound().to_pandas(), "pandas is not installed; pip install pandas, or save('answer.csv')"),
        ("simpy", lambda: roofline.plan("llama-3-8b", **ASKED).simulated(), "a simulation needs simpy; pip install"),
    ],
)
def test_a_library_that_is_missing_is_named(
    library: str, ask: Callable[[], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError) as caught:
        ask()
    assert message in str(caught.value)


def test_an_onnx_file_without_a_graph_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="holds no graph; export or download it again"):
        roofline.trace(str(path))


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", "--port", str(port), "--no-browser"]) == 2
    assert f"port {port} is not free: " in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(address: str) -> None:
        raise OSError("refused")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=refuse))
    words = ["sweep", LINE, "--on", "h100", "B=1:4", "D=8", "F=8", "--keep", "front", "--scheduler", "tcp://host:8786"]
    assert main(words) == 2
    assert "no scheduler answers at tcp://host:8786: refused; dask scheduler starts one" in capsys.readouterr().err
