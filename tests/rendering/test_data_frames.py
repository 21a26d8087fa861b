"""A data frame and a file of an answer hold every row, figures as numbers, truth values, and columns with names."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.answers import Answer, plain_table
from roofline.cli import main
from roofline.errors import InputError
from roofline.hardware import chip
from roofline.sections import Amount, Column, Row, Table, YesNo, figures
from tests.strategies import short_fits

LINE = "bf16[64, 8192] * bf16[8192, 8192]"
SHARDED = "A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K]"


def shown(answer: Answer) -> int:
    """The rows of its largest table that a reader sees."""
    return max(len(each.rows) for each in answer.sections() if isinstance(each, Table))


def saved(answer: Answer, folder: Path) -> list[list[str]]:
    """The rows of its CSV, without the first line."""
    answer.save(folder / "answer.csv")
    with open(folder / "answer.csv", newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


ANSWERS: dict[str, Any] = {
    "a step": lambda: roofline.llm("llama-3-8b", on="h100", batch=1, context=8192),
    "batches": lambda: roofline.llm("llama-3-8b", on="h100", batch=range(1, 129), context=8192),
    "a front": lambda: roofline.llm("llama-3-8b", on="h100", batch=range(1, 65), context=8192, front=True).front,
    "training": lambda: roofline.train("llama-3-8b", on="h100:8", batch_tokens=8192),
    "a sweep": lambda: roofline.sweep("bf16[B, D] * bf16[D, F]", on="h100", B=range(1, 101), D=1024, F=1024),
    "plans": lambda: roofline.shard(SHARDED, on="v5p:4x4x4", I=8192, J=8192, K=8192),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_data_has_every_row_and_a_screen_some(name: str, tmp_path: Path) -> None:
    answer = ANSWERS[name]()
    frame, table = answer.to_pandas(), answer.table()
    assert len(frame) >= shown(answer)
    assert "more" not in " ".join(map(str, frame.iloc[:, 0]))
    assert len(saved(answer, tmp_path)) == len(table.to_pandas()) == len(frame)
    assert [column for column in frame if str(column).startswith("column ")] == []


def test_a_frame_of_a_step_has_the_operations_of_the_data() -> None:
    found = ANSWERS["a step"]()
    frame = found.to_pandas()
    assert len(frame) == len(found.decode.ops) > shown(found) - 1
    assert frame["flops"].sum() == pytest.approx(sum(part.flops for part in found.decode.ops))
    assert frame["lower"].dtype.kind == "f"
    assert any("more" in str(row.cells[0]) for each in found.sections() if isinstance(each, Table) for row in each.rows)


def test_whether_something_is_so_is_a_truth_value(tmp_path: Path) -> None:
    found = ANSWERS["batches"]()
    fits = found.to_pandas()["fits"]
    assert fits.dtype == bool
    assert fits.sum() == found.memory.fits.sum() == 64
    assert {row[-1] for row in saved(found, tmp_path)} == {"True", "False"}
    assert "yes" in found._repr_html_()
    best = ANSWERS["a front"]()
    assert best.to_pandas()["best"].sum() == len(best.best)
    binds = roofline.bound(LINE, on="h100").to_pandas("resources").set_index("resource")["binds"]
    assert binds.dtype == bool
    assert list(binds[binds].index) == ["hbm"]


def test_a_machine_names_its_columns() -> None:
    frame = chip("h100").to_pandas()
    named = ["part", "figure", "value", "basis", "source", "date", "note", "verdict", "unit"]
    assert list(frame) == named
    assert frame["value"].dtype.kind == "f"
    assert set(frame["basis"]) == {"spec", "measured", "derived", "table"}
    assert (frame["source"] != "").all()
    said = chip("h100").to_pandas("other sources").set_index(["figure", "source"])
    assert said["rejected"].sum() == sum(each.rejected for each in chip("h100").alternates)
    hbm = frame[(frame["part"] == "hbm") & (frame["figure"] == "bandwidth")].iloc[0]
    assert (hbm["value"], hbm["unit"]) == (3.35232e12, "B/s")


def test_a_column_without_a_figure_in_a_row_is_one_of_figures() -> None:
    columns = (Column(meaning="what"), *figures("time"), Column("fits"))
    table = Table(columns, [Row(("a", Amount(1.0, "s"), YesNo(True))), Row(("b", "", YesNo(False)))])
    assert plain_table(table) == (["what", "time", "fits"], [["a", 1.0, True], ["b", None, False]], {"time": "s"})


def test_figures_of_one_column_in_several_units_say_theirs() -> None:
    frame = roofline.bound(LINE, on="h100").to_pandas("resources")
    assert list(frame["amount unit"]) == ["FLOP", "B"]
    assert list(frame["rate unit"]) == ["FLOP/s", "B/s"]
    assert frame.attrs["units"] == {"time": "s"}


def test_the_cost_of_an_answer_and_of_a_plan() -> None:
    found = roofline.llm("llama-3-8b", on="h100", batch=8, context=8192, price=3)
    assert found.cost["output"].dollars == found.further["cost"]["output"].dollars
    with pytest.raises(InputError, match="give price="):
        _ = ANSWERS["a step"]().cost
    load: Any = {"on": "h100", "rate": "2/s", "prompt": 512, "output": 64, "tpot": "50ms", "count": 4}
    best = roofline.plan("llama-3-8b", **load).best
    assert (best.chip, best.chips, best.cost_per_hour) == ("h100", 4, None)
    plan = roofline.plan("llama-3-8b", prices={"h100": 2.5}, **load)
    assert plan.best.cost_per_hour == plan.to_dict()["choices"][0]["cost_per_hour"] == 2.5 * plan.best.chips


CHAIN = "a = bf16[64, 8192] * bf16[8192, 8192]; b = gelu(a); c = gelu(b); d = gelu(c); gelu(d)"


def test_the_table_of_a_frame_is_the_same_for_any_number_of_operations(tmp_path: Path) -> None:
    one, five = roofline.bound(LINE, on="h100"), roofline.bound(CHAIN, on="h100")
    assert list(one.to_pandas()) == list(five.to_pandas())
    assert list(one.to_pandas("operations")) == list(five.to_pandas("operations"))
    assert [len(one.to_pandas(table="operations")), len(five.to_pandas("operations"))] == [1, 5]
    five.save(tmp_path / "operations.csv", table="operations")
    assert (tmp_path / "operations.csv").read_text().count("\n") == 6


def test_a_table_that_is_not_there_is_an_error_that_lists_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no table 'ops'; tables are: resources, operations"):
        roofline.bound(LINE, on="h100").to_pandas("ops")
    with pytest.raises(InputError, match=r"no table 'ops'; tables are: configurations"):
        roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", B=[1, 2], D=64, F=64).to_pandas("ops")
    with pytest.raises(InputError, match=r"no table 'ops'; tables are: rows"):
        ANSWERS["a sweep"]().to_pandas("ops")
    with pytest.raises(InputError, match=r"a table is saved as .csv, not as .*x.html'; leave table= out"):
        roofline.bound(LINE, on="h100").save(tmp_path / "x.html", table="resources")


def test_prefill_and_decode_stand_in_one_frame() -> None:
    found = roofline.llm("llama-3-8b", on="h100", batch=8, prompt=1024, context=8192)
    frame = found.to_pandas()
    assert list(frame["phase"].unique()) == ["prefill", "decode"]
    for phase, step in found.phases.items():
        rows = frame[frame["phase"] == phase]
        assert rows["flops"].sum() == pytest.approx(sum(part.flops for part in step.ops))
        assert rows["share"].sum() == pytest.approx(1)
    assert list(ANSWERS["a step"]().to_pandas()) == list(frame)
    alone = found.decode.to_pandas()
    assert list(alone["operation"]) == [part.op.where for part in found.decode.ops]
    assert list(frame[frame["phase"] == "decode"]["operation"]) == list(alone["operation"])


def test_printing_an_answer_shows_what_a_terminal_shows() -> None:
    found = roofline.bound(LINE, on="h100")
    assert "40.7 µs" in str(found)
    assert "hbm" in str(found.table())
    assert len(str(found).splitlines()) > 5
    assert repr(found).count("\n") == 0


def test_operations_have_their_kind_and_module(tmp_path: Path) -> None:
    frame = roofline.llm("llama-3-8b", on="h100:2", tensor=2, batch=8, context=8192).to_pandas()
    times = frame.groupby("module")["lower"].sum()
    assert {"self_attn", "mlp", "lm_head", "communication"} <= set(times.index)
    assert set(frame[frame["module"] == "communication"]["kind"]) == {"collective"}
    assert frame[frame["kind"] == "collective"]["sent"].gt(0).all()
    file = tmp_path / "two.py"
    file.write_text("import torch\n\ndef build():\n    return torch.nn.Sequential(*[torch.nn.Linear(8, 8)] * 2)\n")
    words = ["trace", f"{file}:build", "--input", "fp32[4, 8]", "-o", str(tmp_path / "two.csv")]
    assert main([*words, "--on", "h100"]) == 0
    head, *rows = (tmp_path / "two.csv").read_text().splitlines()
    assert [name.partition(" [")[0] for name in head.split(",")] == OPERATION_COLUMNS
    assert "lower [s]" in head
    assert len(rows) == 2
    assert main(words) == 0
    assert (tmp_path / "two.csv").read_text().startswith("operation,module,source,flops [FLOP],bytes [B]\n")


OPERATION_COLUMNS = [
    "on", "phase", "operation", "kind", "module", "flops", "bytes", "sent", "intensity", "lower", "upper", "share",
    "bound_by",
]  # fmt: skip


def test_a_column_has_the_name_of_the_attribute_in_every_frame() -> None:
    step = list(ANSWERS["a step"]().to_pandas())
    operations = roofline.bound(CHAIN, on="h100").to_pandas("operations")
    assert step == list(operations) == list(roofline.bound(LINE, on="h100").to_pandas()) == OPERATION_COLUMNS
    assert list(ANSWERS["training"]().to_pandas()) == OPERATION_COLUMNS
    assert not operations[["flops", "bytes", "sent", "lower", "share"]].isna().any().any()
    for frame in (ANSWERS["a sweep"]().to_pandas(), ANSWERS["plans"]().to_pandas(), operations):
        assert not {"at best", "bound by", "FLOPs"} & set(frame)


def test_an_answer_of_a_model_has_what_a_bound_has() -> None:
    found = roofline.llm("llama-3-8b", on="h100", prompt=64, context=8192)
    assert (found.bound_by, found.incomplete) == (found.decode.bound_by, ())
    assert found.assumptions == tuple(found.assumed())
    assert roofline.llm("llama-3-8b", on="h100", context=8192).bound_by == "hbm"


#: The methods that answers share; an answer that lacks one says which has it, or what to do.
SHARED = ("table", "plot", "advise", "compare", "save", "to_dict", "to_pandas", "explain", "formula")

EVERY_ANSWER = {
    **ANSWERS,
    "a bound": lambda: roofline.bound(LINE, on="h100"),
    "side by side": lambda: roofline.bound(LINE, on="h100,a100"),
    "a sweep of steps": lambda: roofline.sweep("llama-3-8b", on="h100", batch=[1, 8], context=8192),
    "a search": lambda: roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536, pipeline=1, search=True),
    "a machine": lambda: chip("h100"),
    "chips": lambda: roofline.chips("h100", "a100"),
    "a solution": lambda: roofline.solve("bf16[B, D] * bf16[D, F]", "B", on="v5e", D=8192, F=8192),
    "a collective": lambda: roofline.comm("allreduce", bytes="1GB", on="h100:8"),
    "a layout": lambda: roofline.layout("bf16[B_X, D]", mesh={"X": 4}, B=8, D=8),
    "a formula": lambda: roofline.formula("bf16[B, D] * bf16[D, F]", on="h100", B=64, D=8192, F=8192),
    "a model": lambda: roofline.model("llama-3-8b"),
}


@pytest.mark.parametrize("name", EVERY_ANSWER)
def test_every_answer_has_the_shared_methods_or_says_which_has(name: str) -> None:
    answer, said = EVERY_ANSWER[name](), {}
    for method in SHARED:
        try:
            found = getattr(answer, method)
            if method == "plot":
                assert found().marks
        except (AttributeError, InputError) as wrong:
            said[method] = str(wrong)
    for method, words in said.items():
        assert ("there is no picture of" if method == "plot" else f"has no {method}(): ") in words
        assert method != "plot" or "; " in words
    assert answer.to_dict()


def test_a_sweep_takes_machines_by_commas_as_a_bound_does() -> None:
    for words in ({"expression": "bf16[B, D] * bf16[D, F]", "B": [1, 2], "D": 64, "F": 64},
                  {"expression": "llama-3-8b", "batch": [1, 2], "context": 1024}):  # fmt: skip
        several, listed = (roofline.sweep(**words, on=on) for on in ("h100,a100", ["h100", "a100"]))
        assert list(several["lower"]) == list(listed["lower"])
        assert len(several) == 4


def test_a_sweep_of_steps_has_its_picture() -> None:
    table = roofline.sweep("llama-3-8b", on=["h100", "a100"], batch=[1, 8, 64], context=[1024, 8192])
    lines = table.plot().lines
    assert [line.label for line in lines][:2] == ["h100, context = 1024", "h100, context = 8192"]
    alone = roofline.llm("llama-3-8b", on="a100", batch=64, context=8192)
    assert (lines[3].x[-1], lines[3].y[-1]) == (64, pytest.approx(alone.decode.lower))
    with pytest.raises(InputError, match="one is of two rows or more with lower or throughput among the columns"):
        roofline.sweep("llama-3-8b", on="h100", batch=[1, 2], context=1024, columns="memory").plot()
    chosen = roofline.sweep("llama-3-70b", on=["h100:2", "h200:4"], tensor=2, batch=64, context=8192)
    bars = chosen.plot().bars
    assert [bar.label for bar in bars] == ["h100:2, does not fit: a step at best", "h200:4: a step at best"]
    assert [bar.x1 for bar in bars] == chosen.plain("lower")


def test_columns_of_answers_side_by_side_have_the_names_of_attributes() -> None:
    beside = roofline.bound(LINE, on="h100,a100")
    frame = beside.to_pandas()
    for name in ("lower", "upper", "bound_by", "intensity", "critical_intensity"):
        assert frame[name].tolist() == [getattr(answer, name) for answer in beside.answers]
    assert frame["memory"].tolist() == [answer.footprint.total for answer in beside.answers]
    served = roofline.llm("llama-3-8b", on="h100,a100", prompt=64)
    frame = served.to_pandas()
    for name in ("time_per_token", "time_to_first_token", "tokens_per_second"):
        assert frame[name].tolist() == [getattr(answer, name) for answer in served.answers]
    assert frame["decode_bound_by"].tolist() == [answer.decode.bound_by for answer in served.answers]
    trained = roofline.train("llama-3-8b", on="h100:8,a100:8", batch_tokens=65536)
    frame = trained.to_pandas()
    for name in ("lower", "op_by_op", "upper", "most_mfu", "tokens_per_day"):
        assert frame[name].tolist() == [getattr(answer, name) for answer in trained.answers]


def test_a_column_without_any_figure_holds_nan() -> None:
    """A chip without a vector unit has no time for a step beside one that has; alike, they have that of the rest."""
    mine = chip({"bf16": 2.5e14, "hbm": 1.2e12, "capacity": 48e9})
    frame = roofline.llm("llama-3-8b", on=[mine, "h100"], context=64).to_pandas()
    assert frame["time_per_token"].dtype == frame["tokens_per_second"].dtype == float
    assert frame["time_per_token"].isna().tolist() == [True, False]
    alike = roofline.llm("llama-3-8b", on=[mine, chip(mine, hbm=2.4e12)], context=64).to_pandas()
    assert alike["time_per_token"].notna().all()
    assert [bool(gaps) for gaps in frame["incomplete"]] == [True, False]
    large = roofline.llm("llama-3-70b", on=["h100", "a100"], context=64, price=2).to_pandas()
    assert large["output_cost_per_million"].isna().all()
    assert "binds" not in roofline.bound("bf16[B, 1024] * bf16[1024, 1024]", on="h100").to_pandas()
    several = roofline.bound("bf16[B, 1024] * bf16[1024, 1024]", on="h100", B=[1, 2])
    assert [column.name for column in several.table().named("resources").columns] == ["resource", "time"]


def test_a_formula_as_a_frame_has_its_term_and_total_in_every_row() -> None:
    frame = roofline.formula("llama-3-8b", on="h100").to_pandas()
    totals = frame.groupby("T")["time"].sum()
    assert totals.to_dict() == pytest.approx(frame.groupby("T")["total"].first().to_dict())
    assert frame[frame["binds"]]["T"].unique().tolist() == [totals.idxmax()] == ["hbm"]
    symbolic = roofline.formula("bf16[B, D] * bf16[D, F]", on="h100").to_pandas()
    assert symbolic["total"].isna().all()


@pytest.mark.parametrize(
    "ask",
    [
        lambda **asked: roofline.bound(LINE, on="h100", **asked),
        lambda **asked: roofline.llm("llama-3-8b", on="h100", context=8192, **asked),
        lambda **asked: roofline.train("llama-3-8b", on="h100:8", batch_tokens=65536, **asked),
    ],
)
def test_what_is_expected_and_measured_has_one_name_in_every_frame(ask: Any) -> None:
    names = ["expected", "low", "high"]
    one = ask(estimate=True)
    frame = one.to_pandas("facts")
    low, expected, high = (float(frame[name][0]) for name in ("low", "expected", "high"))
    assert low <= expected <= high
    assert one.compare(one).to_pandas()[names].iloc[0].tolist() == frame[names].iloc[0].tolist()
    assert ask(measured="900 ms").to_pandas("facts")["measured"].tolist() == [0.9]


def test_frames_of_one_answer_joined_rank_none_that_is_timed_in_part() -> None:
    pandas = pytest.importorskip("pandas")
    asked: dict[str, Any] = {"tensor": 2, "context": 4096}
    each = [roofline.llm("llama-3-8b", on=on, batch=8, **asked) for on in ("mi300x:2", "h200:2")]
    frame = pandas.concat([one.to_pandas("facts") for one in each])
    assert frame["time_per_token"].isna().tolist() == frame["incomplete"].notna().tolist() == [True, False]
    assert frame.sort_values("time_per_token")["on"].tolist() == ["h200:2", "mi300x:2"]
    several = roofline.llm("llama-3-8b", on="mi300x:2", batch=[1, 8], **asked).to_pandas()
    table = roofline.sweep("llama-3-8b", on="mi300x:2", batch=[1, 8], **asked).to_pandas()
    own = "setting mi300x.xgmi.latency gives it one"
    said = [f"not timed: hops at tensor (65 hops); AMD MI300X has no figure for it: {own}"]
    assert table.attrs["incomplete"] == several.attrs["incomplete"] == said
    assert several["incomplete"].tolist() == 2 * said


def test_configurations_say_where_they_are_expected() -> None:
    frame = roofline.llm("llama-3-8b", on="h100", batch=[1, 8], context=8192, estimate=True).to_pandas()
    one = roofline.llm("llama-3-8b", on="h100", batch=8, context=8192, estimate=True).to_pandas("facts")
    for name in ("expected", "low", "high"):
        assert frame[name][1] == pytest.approx(one[name][0])
    sent = roofline.comm("allreduce", bytes=1e9, on="h100:8", measured="3 ms").to_pandas("facts")
    assert (sent["measured"][0], sent["on"][0], sent["hops"].dtype) == (0.003, "h100:8", int)


def test_columns_of_configurations_and_plans_have_the_names_of_attributes() -> None:
    several = roofline.llm("llama-3-8b", on="h100", batch=[1, 2], prompt=64, front=True)
    frame = several.to_pandas()
    for name in ("time_per_token", "time_to_first_token", "tokens_per_second"):
        assert frame[name].tolist() == getattr(several, name).tolist()
    assert frame["decode_bound_by"].tolist() == several.decode.bound_by.tolist()
    assert frame["prefill_bound_by"].tolist() == several.prefill.bound_by.tolist()
    front = several.to_pandas("front")
    for name in ("time_per_token", "tokens_per_second_per_user", "tokens_per_second_per_chip"):
        assert sorted(front[name]) == sorted(getattr(choice, name) for choice in several.front.fitting)
    plan = roofline.plan("llama-3-8b", on="h100", rate="1/s", prompt=100, output=100, count=1, price=2)
    frame = plan.to_pandas()
    assert frame["cost_per_hour"].tolist() == [choice.cost_per_hour for choice in plan.choices]
    assert frame["rate_bound_by"].tolist() == [choice.bound_by for choice in plan.choices]


def test_frames_of_all_answers_call_a_thing_by_one_name_and_give_its_unit() -> None:
    plans = roofline.shard("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="v5e:8", B=512, D=8192, F=32768)
    assert {"lower", "upper", "memory"} <= set(plans.to_pandas().columns)
    sent = roofline.comm("allreduce", bytes=1e9, on="h100:8").to_pandas()
    amounts = ["bytes", "latency_bound_below"]
    assert sent.columns.tolist() == ["algorithm", "sent", "hops", "wire_time", "hop_time", "time", *amounts, "says"]
    times = dict.fromkeys(("wire_time", "hop_time", "time"), "s")
    assert sent.attrs["units"] == {**dict.fromkeys(("sent", *amounts), "B"), **times}
    assert {"bytes", "kv_per_token"} <= set(roofline.model("llama-3-8b").to_pandas().columns)
    batches = roofline.llm("llama-3-8b", on="h100", batch=[1, 8], context=8192).to_pandas()
    assert batches.attrs["units"]["tokens_per_second"] == "token/s"
    assert "decode_bound_by" in batches
    priced = roofline.llm("llama-3-8b", on="h100", price=2, power=700).to_pandas("facts").attrs["units"]
    assert (priced["output_cost_per_million"], priced["output_kilowatt_hours_per_million"]) == ("USD", "kWh")


def test_collectives_of_a_training_step_name_the_layers_that_they_belong_to() -> None:
    frame = roofline.train("llama-3-8b", on="h100:32", batch_tokens=4e6).to_pandas()
    collectives = frame[frame["kind"] == "collective"]
    assert set(collectives["module"]) == {"layers.0-31", "other weights"}
    assert set(collectives["operation"]) >= {"weights for forward", "gradients"}


def test_what_is_solved_for_is_a_row_with_the_same_columns_for_one_machine_and_several() -> None:
    """Also where nothing flips, and numbers have their units beside them."""
    one, three = (roofline.solve("bf16[B, D] * bf16[D, F]", "B", on=on, D=8192, F=8192) for on in ("h100", "h100,v5e"))
    assert one.to_pandas().columns.tolist() == three.to_pandas().columns.tolist()
    assert one.to_pandas()["B_to_take"].tolist() == [one.pick] == three.to_pandas()["B_to_take"].tolist()[:1]
    assert three.to_pandas().attrs["units"] == dict.fromkeys(("intensity_there", "critical_intensity"), "FLOP/B")
    never = roofline.solve("bf16[B, D] + bf16[B, D]", "B", on="h100,a100", D=8192).to_pandas()
    assert never["B_exactly"].isna().all()
    formats = roofline.solve_dtypes("bf16[64, 8192] * bf16[8192, 8192]", 1, on="h100").to_pandas()
    assert formats.columns.tolist() == ["dtype", "lower", "bound_by", "kind"]
    assert (
        roofline.solve("bf16[B, 8192] * bf16[8192, 8192]", "B", on="h100", time="1 ms").to_pandas()["B_to_take"][0] > 0
    )
    assert len(roofline.scaling("fsdp", on="v5e:8").to_pandas()) == 1


def test_a_plan_as_a_frame_says_what_binds_the_rate_and_prefill_and_the_percentile() -> None:
    asked = {"rate": 4, "prompt": 1024, "output": 128, "formats": "bf16", "price": "table", "percentile": 99}
    found = roofline.plan("llama-3-8b", on="h100,h200", **asked)
    frame = found.to_pandas()
    assert frame["time_to_first_token_p99"].tolist() == [each.first_token.percentile for each in found.choices]
    assert frame[["tensor", "rate_bound_by", "prefill_bound_by"]].values.tolist()[0] == [1, "tensor", "tensor"]
    assert found.why(found.choices[1]) == found.why(str(found.choices[1].deployment))


@short_fits()
def test_a_frame_of_runs_is_taken_where_rows_are() -> None:
    """Cells without a value say nothing, as in a row without that key."""
    pandas = pytest.importorskip("pandas")
    rows: list[dict[str, Any]] = [{"m": 64 * (1 + at), "n": 8192, "k": 8192, "us": 96 + 20 * at} for at in range(10)]
    frame = pandas.DataFrame([{**rows[0], "dtype": "fp16"}, *rows[1:]])
    assert frame["dtype"].isna().sum() == 9
    seen = roofline.profile(frame, on="a100")
    assert sorted(point.run.dtype for point in seen) == ["bf16"] * 9 + ["fp16"]
    assert (
        roofline.calibrate(frame, "a100").to_dict()
        == roofline.calibrate([{**rows[0], "dtype": "fp16"}, *rows[1:]], "a100").to_dict()
    )
    points = roofline.points_of(frame, "a100")
    assert len(points.to_pandas()) == len(points) == 10
    assert repr(points) == "<10 points on NVIDIA A100 SXM4 80GB>"


@pytest.mark.long
def test_accuracy_of_a_kind_that_was_not_measured_has_a_frame_and_names_the_steps_with_it() -> None:
    found = roofline.accuracy("h200", op="moe")
    assert found.to_pandas()["kernel"].tolist() == ["experts"]
    assert "of whole served steps with it there, median error" in " ".join(str(found).split())
    assert "roofline.accuracy('h200')" in str(found)


def test_what_an_answer_has_in_a_step_is_told() -> None:
    served = roofline.llm("llama-3-8b", on="h100", context=64)
    for name in ("ops", "bytes", "flops", "total_bytes"):
        with pytest.raises(AttributeError, match=f"a Serving has no {name}: there is answer.decode.{name}"):
            getattr(served, name)
    assert repr(served.decode.ops[0]) == "<OpBound embed_tokens: 2.44 ns at best, hbm>"


def test_rates_of_a_formula_at_arrays_have_their_units() -> None:
    found = roofline.formula("bf16[B, D] * bf16[D, F]", on="h100")(B=64, D=8, F=8, W_hbm=[1e12, 2e12])
    assert found.to_pandas().attrs["units"]["W_hbm"] == "B/s"
    assert "2 TB/s" in str(found)


def test_facts_of_answers_side_by_side_say_what_is_not_timed_and_what_cures_it() -> None:
    asked: dict[str, Any] = {"on": ["h100:8", "mi300x:8"], "tensor": 8, "context": 1024}
    frame = roofline.llm("llama-3-8b", **asked).to_pandas("facts")
    (said,) = frame.attrs["incomplete"]
    assert frame["incomplete"].tolist()[1] == said
    assert frame["time_per_token"].isna().tolist() == list(map(bool, frame["incomplete"])) == [False, True]
    cure = said.partition(" figure for it: setting ")[2].removesuffix(" gives it one")
    frame = roofline.llm("llama-3-8b", set={cure: "1 us"}, **asked).to_pandas("facts")
    assert frame["time_per_token"].notna().all()
    assert ("incomplete" in frame, frame.attrs["incomplete"]) == (False, [])


def test_columns_of_what_is_expected_come_with_the_estimate() -> None:
    asked: dict[str, Any] = {"on": "h100", "B": [1, 8], "D": 64, "F": 64}
    with pytest.raises(InputError, match="estimate=True adds expected, low and high"):
        roofline.sweep("bf16[B, D] * bf16[D, F]", columns="lower,expected", **asked)
    with pytest.raises(InputError, match="estimate=True adds expected, low and high"):
        roofline.sweep("llama-3-8b", on="h100", batch=[1, 2], context=1024, columns="lower,low")
