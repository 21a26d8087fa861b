"""Figures by name, ratios of two answers, and what a first estimate of training holds: laws and messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline import bound, chip, comm, compare, layout, scaling, solve_equal
from roofline.cli import main
from roofline.errors import RooflineError
from roofline.hardware import chips
from roofline.hardware.figures import named_figure, readable
from roofline.models import budget, load, outweighing_batch, prefill, training_memory
from roofline.models.summary import summary
from tests.models.tiny import TINY
from tests.strategies import for_each, some

LINE = "bf16[B, D] * bf16[D, F]"


def test_every_figure_that_is_listed_can_be_read_and_set() -> None:
    for machine in chips():
        for name in readable(machine):
            value = named_figure(machine, name).value
            assert value > 0
            assert machine.ratio(name, name) == 1
    again = chip("h100", **{name: f"2x {name}" for name in ("hbm", "tensor.bf16", "nvlink")})
    assert again.ratio("hbm", "hbm", chip("h100")) == again.ratio("nvlink", "nvlink", chip("h100")) == 2


def test_a_ratio_is_that_of_the_figures() -> None:
    first, second = (bound(LINE, on=key, B=64, D=8192, F=8192) for key in ("a100", "h100"))
    both = compare(first, second)
    assert both.ratio("at best") == first.lower / second.lower == both.ratios["at best"][0]
    assert both.ratio("flops") == both.ratios["at best"][1] == 1
    assert both.change("at best", of=1, to=0) == pytest.approx(second.lower / first.lower - 1)
    assert "bound by" not in both.ratios
    assert json.loads(json.dumps(both.to_dict()))["ratios"]["at best"] == list(both.ratios["at best"])


def test_what_is_shared_evenly() -> None:
    found = bound(bytes="B*KV + P", on="v5e", sizes={"B": 8, "KV": 6.7e9, "P": 26e9}, set={"hbm": 8.2e11})
    assert found.throughput("B") == 8 / found.lower
    for time in (1e-3, 15e-3, 1.0):
        chips = found.chips_for(time)
        assert found.lower / chips <= time < found.lower / max(chips - 1, 1e-9)


@for_each("name", some(sorted(TINY), 4))
def test_parts_add_up_to_all_flops(name: str) -> None:
    model = load(TINY[name], name=name)
    found = summary(model, batch=2, prompt=16)
    assert sum(found.flops_by_part.values()) == found.flops
    assert sum(found.training_flops_by_part.values()) == 3 * found.flops
    ops = prefill(model, batch=2, prompt=16)
    assert found.flops_by_part.get("scores", 0) == sum(
        op.work.total("flops", "matrix") * op.repeat for op in ops if op.kind == "attention"
    )


def test_an_answer_of_no_machine_names_none() -> None:
    assert str(training_memory("llama-3-8b")).splitlines()[0] == "training 8.03B parameters"
    assert str(training_memory("llama-3-8b", on="h100")).splitlines()[0].endswith("on NVIDIA H100 SXM5 80GB")


def test_training_memory_is_that_of_its_parts() -> None:
    found = training_memory("llama-3-8b", tokens=4096, on="h100:8")
    assert found.total == sum(found.parts.values()) == found.each * 8
    assert found.parts["activations"] == 2 * 4096 * 4096 * 32
    assert found.bytes_per_parameter == 16
    assert found.largest == int(found.capacity // 16)
    assert (found.chips - 1) * found.capacity < found.total <= found.chips * found.capacity


def test_the_batch_that_outweighs_the_weights() -> None:
    model = load("llama-2-13b")
    batch = outweighing_batch(model, context=8192)
    assert (batch - 1) * model.cache_bytes(8192) <= model.weight_bytes() < batch * model.cache_bytes(8192)


MESSAGES: list[tuple[Any, str]] = [
    (lambda: chip("v5e", vmem="22x hmb"), "TPU v5e has no figure 'hmb'; did you mean 'hbm'?"),
    (lambda: chip("v5e", hbm="819 GB/s sparse"), "hbm: "),
    (lambda: chip("v5e", hbm="nobody"), "hbm: "),
    (lambda: chip("v5e").ratio("hbm", "nvlink"), "TPU v5e has no figure 'nvlink'"),
    (lambda: chip("v5p").ratio("bf16", "power"), "TPU v5p has no figure 'power'; none is listed; give one with"),
    (lambda: chip("v5p").ratio("bf16", "powr"), "TPU v5p has no figure 'powr'; its figures are"),
    (lambda: bound(LINE, on="v5e", B=8, D=8, F=8).throughput("Q"), "nothing here is called 'Q'"),
    (lambda: bound(LINE, on="v5e", B=8, D=8, F=8).chips_for(0), "a time of 0"),
    (
        lambda: bound("AllGather_X(bf16[B_X])", on="v5e:4", B=8).chips_for(1),
        "chips_for shares the work of one chip",
    ),
    (lambda: compare(scaling("dp", on="v5p"), scaling("fsdp", on="v5p")).ratio("valu"), "has no figure 'valu'"),
    (lambda: compare(layout("bf16[8]"), comm("allreduce", bytes=8, on="v5e:4")), "do not compare"),
    (lambda: solve_equal(LINE, "bf16[B, D] * bf16[D, G]", "B", quantity="time", D=8), "F is open"),
    (lambda: budget(1e9, tokens=1e9, on="h100", checkpoint="selective"), "no checkpointing policy 'selective'"),
    (lambda: budget(1e9, tokens=1e9, on="h100", checkpoint="full", mfu=0.8), "at most 75%"),
    (lambda: budget(1e9, tokens=1e9, on="h100", mfu=0.5, days=3).on_chips(0), "chips is 0"),
    (lambda: training_memory(1e9, tokens=8), "hidden states of tokens need a width and layers"),
    (lambda: training_memory(1e9, chips=0), "chips is 0"),
]


@pytest.mark.parametrize(("ask", "says"), MESSAGES)
def test_messages(ask: Any, says: str) -> None:
    with pytest.raises(RooflineError) as caught:
        ask()
    assert says in str(caught.value)


COMMANDS: list[tuple[str, str]] = [
    ("chips v4 --ratio hbm", "--ratio 'hbm' is not two figures; as in --ratio bf16/price, --ratio hbm/pcie"),
    ("chips v4 --ratio hbm/pcei", "TPU v4 has no figure 'pcei'"),
    ("train 70e9 --on h100 --memory --tensor 8", "about --memory; a number of parameters has no steps: leave it out"),
    ("train 70e9 --memory --zero 1", "--zero says nothing about --memory; a target of several chips lists every stage"),
    ("train 70e9 --on h100 --memory --batch-tokens 4e6", "hidden states of tokens need a width and layers"),
]


@pytest.mark.parametrize(("words", "says"), COMMANDS)
def test_commands_say_what_is_wrong(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_of_chips_side_by_side_one_without_a_figure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chips", "h100", "mi300x", "v5p", "--ratio", "bf16/power"]) == 0
    said = capsys.readouterr().out
    assert "h100" in said
    assert "mi300x" in said
    assert "v5p left out: without a figure of one of the two" in said


def test_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chips", "v4", "v5p", "--ratio", "hbm/pcie", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ratios"]["v5p"] == chip("v5p").ratio("hbm", "pcie")
    words = "train 70e9 --on h100 --memory --gradients none --master none --set hbm.capacity=80e9 --json"
    assert main(words.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["total"], found["chips"], found["slice"]["nodes"]) == (7e11, 9, 2)
