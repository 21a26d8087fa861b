"""Tables of configurations: each row is the answer to its own question, whatever the model, phase and policy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from roofline import llm, sweep
from roofline.errors import InputError, RooflineError
from roofline.models import load, serve_bound, serve_table
from roofline.models.closed_form import COLUMNS, formula
from roofline.models.config import load_each
from roofline.models.sweeps import sweep_steps
from roofline.sizes import BLOCK
from tests.models.tiny import TINY
from tests.strategies import some

SHIPPED = [
    "llama-3-70b",
    "mixtral-8x7b",
    "gpt-oss-20b",
    "deepseek-v3",
    "qwen3.5-35b-a3b",
    "nemotron-super-49b",
    "llama-4-scout",
]


@pytest.mark.parametrize(
    ("name", "policy"), some([(n, p) for n in SHIPPED for p in ("minimal", "each-op", "streamed")], 8)
)
def test_rows_are_single_answers(name: str, policy: str) -> None:
    batch, context = np.array([1, 3, 64, 200]), np.array([1, 130, 700, 4000])
    table = serve_table(name, "decode", on="h200", batch=batch, context=context, columns=COLUMNS, policy=policy)
    for row in range(4):
        one = serve_bound(name, "decode", on="h200", batch=int(batch[row]), context=int(context[row]), policy=policy)
        assert one.footprint is not None
        expected = {
            "lower": one.lower,
            "op_by_op": one.op_by_op,
            "upper": one.upper,
            "flops": one.flops,
            "bytes": sum(one.bytes.values()),
            "memory": one.footprint.total,
        }
        for column, value in expected.items():
            assert table[column][row] == pytest.approx(float(value), rel=1e-12), column
        assert table["bound_by"][row] == one.bound_by


@pytest.mark.parametrize("name", some(sorted(TINY), 48, 11))
def test_prefill_of_every_kind_of_layer(name: str) -> None:
    model = load(TINY[name], name=name)
    prompt = np.array([1, 7, 40, 90])
    table = serve_table(model, "prefill", on="h100", batch=4, prompt=prompt, columns=("lower", "upper", "flops"))
    for row, length in enumerate(prompt):
        one = serve_bound(model, "prefill", on="h100", batch=4, prompt=int(length))
        assert table["flops"][row] == pytest.approx(float(one.flops), rel=1e-12)
        assert table["upper"][row] == pytest.approx(float(one.upper), rel=1e-9)


def test_blocks_join_without_a_seam() -> None:
    batch = np.arange(1, 2 * BLOCK + 10) % 300 + 1
    table = serve_table("llama-3-8b", "decode", on="h100", batch=batch, context=1000)
    assert len(table) == len(batch)
    again = serve_table("llama-3-8b", "decode", on="h100", batch=np.arange(1, 301), context=1000)
    assert (table["lower"] == again["lower"][batch - 1]).all()


def test_sizes_broadcast_and_columns_are_lists() -> None:
    table = serve_table("llama-3-8b", "decode", on="h100", batch=np.array([[1], [2]]), context=np.array([10, 20, 30]))
    data = table.to_dict()
    assert data["columns"]["batch"] == [1, 1, 1, 2, 2, 2]
    assert data["columns"]["context"] == [10, 20, 30] * 2
    assert {len(values) for values in data["columns"].values()} == {6}


def test_warm_data_has_no_closed_form_and_long_arrays_of_it_are_what_short_ones_are() -> None:
    asked: dict[str, Any] = {"on": "h100", "over": "warm", "context": 64}
    for ask in (sweep_steps, formula):
        with pytest.raises(
            RooflineError, match="the bandwidth of warm data follows the sizes, so a step has no closed"
        ):
            ask("gpt2", **asked, batch=1)
    few, many = (serve_bound("gpt2", "decode", **asked, batch=np.arange(1, n)) for n in (3, BLOCK + 3))
    assert (few.lower == many.lower[:2]).all()


def test_chips_that_share_a_prompt_shorter_than_they_are_many_take_the_same_in_a_grid() -> None:
    asked: dict[str, Any] = {"on": "h100:8", "context_parallel": 8}
    table = sweep_steps("llama-3-8b", "prefill", **asked, batch=[1, 3], prompt=[1, 2, 5, 9])
    for row, (batch, prompt) in enumerate(product([1, 3], [1, 2, 5, 9])):
        alone = serve_bound("llama-3-8b", "prefill", **asked, batch=batch, prompt=prompt)
        assert table["lower"][row] == pytest.approx(alone.lower, rel=1e-12)
        assert (
            next(op.op.work.total("flops") for op in alone.ops if op.op.where == "lm_head") == batch * 2 * 4096 * 128256
        )


MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"context": 5}, "no size is an array; serve_bound answers a single configuration"),
    ({"context": [1, 2], "batch": [1, 2, 3]}, "the sizes do not broadcast: batch (3,), context (2,)"),
    ({"context": [1, 2], "columns": ("lowr",)}, "no column 'lowr'; did you mean 'lower'?"),
    ({"context": [1, 2], "batch": [0, 1]}, "size batch is 0 at index 0"),
    ({"context": [1, 2.5]}, "at index 1"),
]


@pytest.mark.parametrize(("sizes", "message"), MESSAGES)
def test_messages(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        serve_table("llama-2-7b", "decode", on="h100", **sizes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("nvidia-nemotron-3-nano-30b-a3b-nvfp4", {"on": "h200"}),  # a first step reads no states
        ("llama-3-8b", {"on": "h200:16", "tensor": 16, "kv_parallel": 2}),  # and gathers no earlier keys
    ],
)
def test_the_first_step_of_a_sequence_is_the_same_in_a_row_of_a_grid(name: str, layout: dict[str, Any]) -> None:
    sizes = {"batch": 8, "prompt": 64, **layout}
    first, later = (serve_bound(name, "prefill", past=past, **sizes) for past in (0, 64))
    rows = serve_bound(name, "prefill", past=[0, 64], **sizes)
    table = sweep_steps(name, "prefill", past=[0, 64], columns=COLUMNS, **sizes)
    assert first.upper < later.upper
    for column in ("lower", "op_by_op", "upper"):
        expected = [getattr(first, column), getattr(later, column)]
        assert getattr(rows, column).tolist() == pytest.approx(expected, rel=1e-12)
        assert list(table[column]) == pytest.approx(expected, rel=1e-12)


def test_a_pool_of_keys_that_is_not_full_reads_no_scale_in_a_row_of_an_array() -> None:
    model = load(TINY["qwen4_exp_text"])
    rows = serve_bound(model, "decode", on="h100", batch=2, context=[8, 9, 10, 11])
    one = [serve_bound(model, "decode", on="h100", batch=2, context=context).upper for context in (8, 9, 10, 11)]
    assert rows.upper.tolist() == pytest.approx(one, rel=1e-12)


def test_a_list_of_no_model_is_an_error() -> None:
    with pytest.raises(InputError, match=r"no model is named; one or more, as in 'llama-3-8b,qwen3-8b'"):
        load_each([])
    with pytest.raises(
        InputError, match=r"^'bf16\[B, D\]' is a line, not a model; .* a sweep is of one line, or of models"
    ):
        sweep(["bf16[B, D]", "gelu(bf16[B])"], on="h100", B=[1, 2], D=8)


def test_a_table_of_several_models_has_the_rows_of_each_and_says_which() -> None:
    names, asked = ["llama-3-8b", "deepseek-v3"], {"on": "h200:8", "tensor": 8, "batch": [1, 64], "price": 3}
    both = sweep(",".join(names), **asked, context=[1024, 65536])
    assert list(both)[:3] == ["model", "batch", "context"]
    assert both.subject == "llama-3-8b, deepseek-v3 decode"
    alone = [sweep(name, **asked, context=[1024, 65536]) for name in names]
    assert both.plain("model") == [name for name, each in zip(names, alone, strict=True) for _ in range(len(each))]
    for column in alone[0]:
        assert both.plain(column) == [value for each in alone for value in each.plain(column)]
    assert both.row(-1).lower == alone[1].row(-1).lower
    assert [line.label.split(",")[0] for line in both.plot().lines][::2] == [f"model = {name}" for name in names]
    assert dict(both.remarks())["cheapest"].endswith("model llama-3-8b, batch 64, context 1,024")
    # what is not stored alike is not said of all, and a context that is not given is one that all take
    assert "weights" not in both.same
    assert sweep([load(name) for name in ("gpt2", names[0])], on="h100").plain("context") == [1024, 1024]
    likely = sweep(",".join(names), **asked, context=1024, estimate=True)
    assert (
        likely.plain("expected")[-1]
        == llm(names[1], on="h200:8", tensor=8, batch=64, context=1024, estimate=True).decode.estimate
    )


def test_a_model_in_outline_is_swept_and_its_time_does_not_follow_the_context() -> None:
    grid = sweep("8B", on="h100", batch=[1, 400], context=[10, 20])
    floor = [llm("8B", on="h100", batch=batch, context=20).decode.lower for batch in (1, 400)]
    assert grid["lower"].tolist() == pytest.approx([floor[0], floor[0], floor[1], floor[1]])


def test_a_sweep_takes_its_models_in_first_place() -> None:
    for first in ((), ("llama-3-8b",)):
        with pytest.raises(InputError, match="what is swept stands first; a model, or a list of several"):
            sweep(*first, model=["mamba-2.8b"], on="h100", batch=[1, 2])


def test_a_layout_that_places_no_experts_so_is_left_out_with_its_reason() -> None:
    ways = {"tensor": [1, 8], "expert": [1, 8], "pipeline": [1, 2]}
    grid = sweep("mixtral-8x7b", "prefill", on="h100:8", **ways, batch=2, prompt=64)
    assert [grid.is_possible(row) for row in range(8)] == [True, True, True, False, True, False, True, False]
    assert any("experts on 8 chips, of which 1 split the model and 4 copies run" in each for each in grid.incomplete)
    dense = sweep(["llama-3-8b", "mixtral-8x7b"], "prefill", on="h100:8", expert=[1, 2], batch=2, prompt=64)
    assert [dense.is_possible(row) for row in range(4)] == [True, False, True, True]
    assert any("llama-3-8b has no experts to spread over 2 chips" in each for each in dense.incomplete)


def test_a_training_layout_that_places_no_experts_so_is_left_out() -> None:
    grid = sweep("mixtral-8x7b", "train", on="h100:8", tensor=2, expert=[1, 3], batch_tokens=2**20)
    assert [grid.is_possible(row) for row in range(2)] == [True, False]
    assert any("experts on 3 chips, of which 2 run a copy" in each for each in grid.incomplete)
