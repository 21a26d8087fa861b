"""A formula in an open number of chips is at each number what is asked of that many chips, or says why not."""

from __future__ import annotations

import json
import math
import pickle
import random
import subprocess
from functools import lru_cache

import numpy as np
import pytest

import roofline
from roofline.errors import RooflineError
from roofline.hardware import chip
from roofline.hardware.targets import open_counts
from roofline.models import serve_bound
from roofline.models.training.step import train
from roofline.ops.collectives.choice import Chooser
from roofline.ops.collectives.registry import KINDS
from roofline.sections import Sentences
from roofline.sizes import put_in, symbol
from tests.strategies import LONG, some

BOUNDS = ("lower", "op_by_op", "upper")


@lru_cache(maxsize=4)
def program(formula):
    """The formula as a program in Python."""
    space = {}
    exec(formula.printed("python"), space)
    return space["bound"]


def agree(formula, sizes, answer, memory=None):
    """The formula as a function, and as a program in Python, gives the three bounds and the memory of an answer."""
    for found in (formula(**sizes), program(formula)(**sizes)):
        for name in BOUNDS:
            assert float(found[name]) == pytest.approx(float(getattr(answer, name)), rel=1e-9), (name, sizes)
        if memory is not None:
            assert float(found["memory"]) == pytest.approx(float(memory), rel=1e-9)


@pytest.mark.parametrize(
    ("model", "on", "options", "numbers"),
    some(
        [
            ("llama-3-8b", "h100:{}", {}, [1, 3, 8, 64, 1024]),
            ("llama-3-70b", "v5p:{0}x{0}x{0}", {}, [1, 4, 12]),
            ("llama-3-8b", "v5e:16x{}", {"tensor": 4}, [1, 8]),
            ("mixtral-8x7b", "h100:{}", {"expert": 8}, [8, 64]),
            *(
                (  # the same options on other chips, and stages: seconds each
                    ("llama-3-8b", "h100:{}", {}, [2, 16, 256]),
                    ("llama-3-70b", "v5p:{0}x{0}x{0}", {}, [2, 16]),
                    ("llama-3-8b", "v5e:16x{}", {"tensor": 4}, [2]),
                    ("mixtral-8x7b", "h100:{}", {"expert": 8}, [16]),
                    ("llama-3-8b", "v5e:{}", {}, [1, 2, 4, 8, 16]),
                    ("llama-3-8b", "dgx-h100:{}", {"fsdp": 8}, [8, 16, 512, 1024]),
                    ("llama-3-8b", "h100:{}", {"pipeline": 2}, [4, 16, 64]),
                    ("llama-3-70b", "h100:{}", {"tensor": 8}, [8, 16, 64, 1024]),
                    ("qwen3-8b", "a100:{}", {"data": 4}, [4, 8, 16, 32, 64]),
                    ("llama-3-8b", "h100:{}", {"pipeline": 4}, [4, 16, 64]),
                    ("llama-3-8b", "mi300x:{}", {}, [1, 2, 5, 8]),
                )
                if LONG
                else ()
            ),
        ],
        2,
    ),
)
def test_a_training_step_of_n_chips(model, on, options, numbers):
    found = roofline.formula(model, "train", on=on.format("n"), **options)
    for n in numbers:
        sizes = {"batch_tokens": 2048 * 512 * 16 * 4, "sequence": 2048}
        answer = train(model, on=on.format(n), **sizes, **options)
        agree(found, {"n": n, **sizes}, answer, answer.memory.total)


@pytest.mark.parametrize(
    ("model", "phase", "options", "numbers"),
    some(
        [
            ("llama-3-8b", "prefill", {}, [1, 2, 8, 32]),
            ("llama-3-70b", "decode", {"tensor": 8}, [8, 16, 64]),
            ("mixtral-8x7b", "decode", {"expert": 8}, [8, 24]),
        ],
        3,
        1,
    ),
)
def test_a_step_of_serving_on_n_chips(model, phase, options, numbers):
    found = roofline.formula(model, phase, on="h100:n", **options)
    sizes = {"batch": 100, "context" if phase == "decode" else "prompt": 3000}
    for n in numbers:
        answer = serve_bound(model, phase, on=f"h100:{n}", **sizes, **options)
        agree(found, {"n": n, **sizes}, answer, answer.footprint.total)


def test_expressions_of_a_step_over_stages_on_n_chips_are_those_at_the_number_shown():
    """They are of as many micro-batches as are the fastest on so many chips, and in sizes and rates alone."""
    asked = {"pipeline": 2, "batch": 512, "context": 100}
    found = roofline.formula("llama-3.2-1b", on="l4:n", n=32, **asked)
    step, values = serve_bound("llama-3.2-1b", "decode", on="l4:32", **asked), found.values()
    known = {rate.symbol: rate.value for rate in found.rates.values()}
    known |= {found.sizes[name]: value for name, value in found.point.items()}
    assert step.micro_batches == 1
    assert float(put_in(found.lower, known)) == pytest.approx(values["lower"]) == pytest.approx(step.lower)
    times = {name: float(put_in(time, known)) for name, time in found.times.items()}
    assert times == pytest.approx({name: values[f"time.{name}"] for name in times})


@pytest.mark.parametrize(
    ("line", "on"),
    some(
        [
            (line, on)
            for line in ("AllReduce_X(bf16[N])", "AllGather_X(bf16[N, D_X])")
            for on in ("h100:{}", "dgx-h100:{}", "v5p:{}", "mi300x:{}", "l4:{}")
        ],
        8,
        2,
    ),
)
def test_a_line_on_n_chips(on, line):
    found = roofline.formula(line, on=on.format("n"))
    for n in (2, 4, 8, 16, 272, 512, 552):
        sizes = {"N": 1000 * n, **({"D": 64 * n} if "D_X" in line else {})}
        if not any(way.is_case_of({"n": n}) for way in found.ways):
            assert math.isnan(found(n=n, **sizes)["lower"])
            continue
        agree(found, {"n": n, **sizes}, roofline.bound(line, on=on.format(n), **sizes))


def test_an_open_number_of_chips_that_is_given_takes_the_plan_of_that_number():
    line, sizes = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", {"B": 4096, "D": 128, "F": 8192}
    found, one = roofline.formula(line, on="v5e:n", n=8, **sizes), roofline.bound(line, on="v5e:8", **sizes)
    assert found.values()["lower"] == pytest.approx(one.lower, rel=1e-12)
    assert one.plan == "AllGather_X(bf16[B, D_X]); AllGather_X(bf16[D_X, F])"
    uneven = found(**{**sizes, "n": 8, "D": 100})
    assert math.isnan(uneven["lower"])
    assert [*uneven.invalid] == ["D is no multiple of the n chips that it is split over"]
    heads = "attention(bf16[B, S_X, N, 64], bf16[B, S_X, K, 64], bf16[B, S_X, K, 64])"
    assert math.isnan(roofline.formula(heads, on="v5e:n", n=8)(B=1, S=8, N=8, K=16)["lower"])


def test_heads_that_open_chips_split_as_the_keys_are_all_read():
    line, sizes = "attention(bf16[B, S, N, 64], bf16[B, T_X, N, 64], bf16[B, T_X, N, 64])", {"B": 8, "S": 256, "T": 64}
    found, one = (roofline.formula(line, on="l4:n", n=4, N=8, **sizes), roofline.bound(line, on="l4:4", N=8, **sizes))
    assert "AllToAll" in one.plan
    assert found.values()["time.dram"] == pytest.approx(one.times["dram"], rel=1e-12)


def test_several_collectives_over_open_chips_are_the_fastest_together():
    line = "AllReduce_XY(bf16[1024, 256]); AllReduce_XY(bf16[256, 128])"
    found = roofline.formula(line, on="v5e:nxn", n=4)
    assert found.values()["lower"] == pytest.approx(roofline.bound(line, on="v5e:4x4").lower, rel=1e-12)
    found = roofline.formula("AllGather_X(bf16[B_X, 64]); AllGather_X(bf16[D_X, 64])", on="h100:n")
    assert any(way.ways for way in found.ways)
    assert [*found(n=24, B=48, D=64).invalid] == ["D is no multiple of the n chips that it is split over"]
    assert not found(n=16, B=48, D=64).invalid


@pytest.mark.parametrize(
    "on", some(["v5p:nxnxn", "h100:n", "l4:n", "dgx-h100:n", "v6e:16xn", "a100:n", "v5e:n", "gb200:n"], 8, 3)
)
def test_the_algorithm_of_a_collective_is_the_fastest_at_each_number(on):
    chosen, V = random.Random(on), symbol("V", exact=True)
    for place, each in enumerate(open_counts(on)):
        for turn, kind in enumerate(KINDS if hasattr(each.size, "values") else ()):
            for size in some((3e6, V, 5e8 / each.size), 2, place + turn):  # of each kind all, on other numbers of chips
                found = Chooser(None, each.machine).cost(kind, each.machine.mesh.axes, size, 1)
                n = chosen.choice(range(each.size.values[0], min(each.size.values[-1], 4096) + 1, each.size.multiple))
                put = {each.size: n, V: 10 ** chosen.uniform(2, 10)}
                known, one = float(size.subs(put)) if hasattr(size, "subs") else size, chip(on.replace("n", str(n)))
                if on.startswith(("dgx", "gb")):
                    one = chip(f"{on.partition(':')[0]}:{n}")
                expected = Chooser(None, one).cost(kind, one.mesh.axes, known, 1)
                for key, amount in expected.work.items():
                    assert float(
                        found.work[key].subs(put) if hasattr(found.work[key], "subs") else found.work[key]
                    ) == (pytest.approx(float(amount))), (on, each.says, kind, n, known)


@pytest.mark.parametrize(
    ("on", "nbytes", "change"), some([("h100:n", 3e5, 80), ("h100:n", 3e4, 584), ("a100:n", 3e4, 296)], 2, 1)
)
def test_the_algorithm_changes_at_the_exact_number_of_chips(on, nbytes, change):
    """One fewer takes another algorithm, between the numbers that are tried first too."""
    (*_, open_count) = open_counts(on)
    assert change not in open_count.size.values
    mesh = open_count.machine.mesh.axes
    found = Chooser(None, open_count.machine).cost("AllReduce", mesh, nbytes, 1).work
    for n in (change - open_count.size.multiple, change):
        one = chip(on.replace("n", str(n)))
        known = Chooser(None, one).cost("AllReduce", one.mesh.axes, nbytes, 1)
        assert {key: float(found[key].subs(open_count.size, n)) for key, _ in known.work.items()} == pytest.approx(
            dict(known.work.items())
        )


def test_what_n_may_be_is_said_and_kept():
    found = roofline.formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20, n=16)
    assert [way.case.reason for way in found.ways] == ["n = 1", "n = 2 to 8", "n = 16, 24 …"]
    assert found.multiple("n", found.point) == 8  # by which a slider moves
    columns = found(n=[1, 12, 16])
    assert np.isnan(columns["lower"]).tolist() == [False, True, False]
    assert columns.invalid == {"none of n = 1; n = 2 to 8; n = 16, 24 …": 1}
    assert found.values()["lower"] == pytest.approx(float(columns["lower"][2]))
    given = roofline.formula("llama-3-8b", "train", on="h100:n", n=12, batch_tokens=12 * 4096)
    assert given.ways[-1].case.reason == "n = 12"
    assert given.values()["lower"] == pytest.approx(train("llama-3-8b", on="h100:12", batch_tokens=12 * 4096).lower)
    none = roofline.formula("AllReduce_X(bf16[N])", on="v5e:n", n=3, N=8)
    assert not none.is_numeric
    assert math.isnan(none.values()["lower"])
    space = {}
    exec(found.printed("python"), space)
    with pytest.raises(ValueError, match="none of n = 1; n = 2 to 8"):
        space["bound"](n=12, batch_tokens=2**20, sequence=4096)
    assert found.to_dict()["valid"][-1]["reason"].startswith("none of n = 1")
    assert "% for n = 16, 24" in found.printed("latex")


@pytest.mark.long
def test_a_program_in_javascript_takes_the_case_of_n():
    found = roofline.formula("AllReduce_X(bf16[N])", on="h100:n")
    calls = "bound({n: 4, N: 1000}).lower, bound({n: 64, N: 1e8}).lower"
    script = f"{found.printed('javascript')}\nconsole.log(JSON.stringify([{calls}]))"
    printed = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True).stdout
    numbers = [float(found(n=n, N=size)["lower"]) for n, size in ((4, 1000), (64, 1e8))]
    assert json.loads(printed) == pytest.approx(numbers)


def test_a_compiled_formula_travels_with_its_cases():
    function = roofline.formula("AllReduce_X(bf16[N])", on="h100:n").compile()
    sizes = {"n": np.array([4.0, 9.0, 64.0]), "N": 1e6}
    here = function(["lower"], **sizes)["lower"]
    there = pickle.loads(pickle.dumps(function))(**sizes)["lower"]
    assert np.array_equal(here, there, equal_nan=True)


def test_flips_name_the_most_chips_on_which_a_step_stays_compute_bound():
    found = roofline.formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20)
    (flip,) = (flip for flip in found.flips() if flip.size == "n")
    at = found(n=[flip.value - 8, flip.value])
    assert at["bound_by"].tolist() == [flip.before, flip.after] == ["tensor", "nic"]
    values = {each.symbol: each.value for each in found.rates.values()}
    values |= {found.sizes[name]: value for name, value in found.point.items()}
    assert flip.value - 8 < float(flip.form.subs(values)) <= flip.value


@pytest.mark.long
def test_chips_of_one_batch_are_more_by_a_whole_step_than_behind_a_backward_pass():
    """Each of the answers to one question says how the other counts: 6 FLOPs of a weight and token, or 4 of them."""
    layers = roofline.scaling("dp", on="h100:1024", B=4_000_000)
    step = roofline.formula("llama-3-8b", "train", on="h100:n", data="n", batch_tokens=4_000_000)
    (flip,) = (each for each in step.flips() if each.size == "n")
    attention = step.point["sequence"] * 32 * 4096 * 6 / (6 * 8.03e9)  # causal: 12·layers·width·T/2 of 6 FLOPs a weight
    assert flip.value / (4_000_000 / layers.value) == pytest.approx(1.5 * (1 + attention), rel=0.05)
    assert any("1.5 times as many chips" in line for line in layers.assumptions)
    assert any("scaling has one pass of a layer beside it" in line for line in step.said)
    slow = roofline.scaling("dp", on="h100:1024", B=4_000_000, link=50e9)
    assert "given by the caller: nvlink at 50 GB/s, while nic stays as listed" in slow.assumptions


@pytest.mark.long
def test_a_flip_beyond_whole_sequences_says_that_no_step_runs_there():
    """The batch has 976 sequences, one for each chip: on 977 chips none runs, as a step asked about on so many says."""
    step = roofline.formula("llama-3-8b", "train", on="h100:n", batch_tokens=4_000_000)
    (flip,) = (each for each in step.flips() if each.size == "n")
    reason = "batch_tokens is less than n sequences, and a chip takes whole ones"
    assert flip.does_not_run == f"from n 977 on {reason}"
    first = next(each.lines[0] for each in step.sections() if isinstance(each, Sentences))
    assert first == f"{flip.does_not_run}: no step runs there; nic would bind from n {flip.value:,.0f} on"
    (tokens,) = (each for each in step.flips() if each.size == "batch_tokens")
    assert tokens.does_not_run == f"below batch_tokens {64 * 4096:,} {reason}"
    said = " ".join(str(step).split())
    assert "nic would bind from n 1,728 on, tensor before" in said
    assert f"no step runs where {reason}" in said
    asked = {n: roofline.train("llama-3-8b", on=f"h100:{n}", batch_tokens=4_000_000) for n in (976, 1728)}
    assert [found.sequences >= 1 for found in asked.values()] == [True, False]
    several = roofline.formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**22, sequence=512)
    assert [each.does_not_run for each in several.flips() if each.size == "n"] == [""]


@pytest.mark.long
def test_flips_are_at_numbers_that_chips_may_have():
    """Chips that split layers are a power of 2: 17 to 31 are no numbers of the formula's."""
    options = {"batch": 8, "context": 4096}
    flip, *_ = roofline.formula("llama-3-8b", on="h100:n", tensor="n", **options).flips()
    asked = [serve_bound("llama-3-8b", "decode", on=f"h100:{n}", tensor=n, **options).bound_by for n in (64, 128)]
    assert (flip.value, asked) == (128, [flip.before, flip.after])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llama-3-8b", "train", {"fsdp": 8, "data": 2}), "data= leaves no number of chips open"),
        (("llama-3-8b", "decode", {"data": 2}), "data= leaves no number of chips open"),
        (("AllReduce_X(bf16[N])", "decode", {"mesh": {"X": 8}}), "mesh= names the axes of a number of chips"),
        (("llama-3-8b", "train", {"n": 2.5}), "size n is 2.5"),
        (("llama-3-8b", "train", {"m": 2}), "there is no argument 'm'"),
        (
            ("llama-3-8b", "train", {"fsdp": "n", "data": "n"}),
            "fsdp='n' is all chips of h100:n",
        ),
        (("llama-3-8b", "decode", {"tensor": "n", "data": "n"}), "data 2 · tensor 2 is 4 chips, and h100:2 has 2"),
    ],
)
def test_what_leaves_nothing_open_is_refused(arguments, message):
    subject, phase, options = arguments
    with pytest.raises(RooflineError, match=message):
        roofline.formula(subject, phase, on="h100:n", **options)


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("h100:nxn", "chips of NVIDIA H100 SXM5 80GB stand in a row; as in h100:n"),
        ("h100:8:n", "shape '8:n' of 'h100:8:n' does not read"),
        ("nope:n", "unknown chip 'nope'"),
        ("v5p:nxnxnxn", "TPU v5p has no slice of 2x2x2x2: it has 4 axes"),
        ("trn2:n", "how many neuronlink links AWS Trainium2 has"),
        (
            "h100:sequence",
            "sequence is a size or a rate of llama-3-8b training step; another name of the chips: h100:n",
        ),
    ],
)
def test_no_such_target(on, message):
    with pytest.raises(RooflineError, match=message):
        roofline.formula("llama-3-8b", "train", on=on)


def test_a_name_of_chips_that_is_a_size_is_named_otherwise():
    with pytest.raises(RooflineError, match="another name of the chips: h100:m"):
        roofline.formula("bf16[n, D] * bf16[D, F]", on="h100:n")


def test_other_questions_take_a_number():
    with pytest.raises(RooflineError, match=r"leaves it open"):
        roofline.bound("AllReduce_X(bf16[N])", on="h100:n")


@pytest.mark.parametrize(
    ("model", "phase", "on", "option"),
    some(
        [
            ("mixtral-8x7b", "prefill", "h100:{}", "expert"),
            ("llama-3-8b", "decode", "v5e:{}", "tensor"),
            ("llama-3-70b", "decode", "h100:{}", "tensor"),
            ("llama-3-8b", "decode", "h100:{}", "data"),
        ],
        4,
        1,
    ),
)
def test_all_n_chips_may_split_layers(model, phase, on, option):
    found = roofline.formula(model, phase, on=on.format("n"), **{option: "n"})
    sizes = {"batch": 48, "context" if phase == "decode" else "prompt": 3000}
    for n in (1, 4, 16):
        answer = serve_bound(model, phase, on=on.format(n), **sizes, **{option: n})
        agree(found, {"n": n, **sizes}, answer, answer.footprint.total)


@pytest.mark.parametrize("option", some(["fsdp", "data"], 2))
def test_all_n_chips_may_be_copies_or_share_one(option):
    found = roofline.formula("llama-3-8b", "train", on="h100:n", **{option: "n"})
    sizes = {"batch_tokens": 2**22, "sequence": 4096}
    for n in (1, 4, 64):
        answer = train("llama-3-8b", on=f"h100:{n}", **sizes, **{option: n})
        agree(found, {"n": n, **sizes}, answer, answer.memory.total)


def test_all_n_chips_leave_none_to_others():
    with pytest.raises(RooflineError, match="data='n' is all chips of h100:n; leave it out, or the others"):
        roofline.formula("llama-3-8b", "train", on="h100:n", data="n", tensor=2)
    with pytest.raises(RooflineError, match="size tensor is 'm'"):
        roofline.formula("llama-3-8b", "train", on="h100:n", tensor="m")


@pytest.mark.long
def test_pictures_over_the_number_of_chips_and_the_batch():
    found = roofline.formula("llama-3-8b", "train", on="h100:n", batch_tokens=2**20)
    over_n = found(n=[8, 12, 64, 512])
    chart = over_n.plot()
    times = {line.label: dict(zip(line.x, line.y, strict=True)) for line in chart.lines}
    assert [max(times, key=lambda name, n=n: times[name].get(n, 0)) for n in (8, 64, 512)] == [
        "tensor",
        "tensor",
        "nic",
    ]
    assert 12 not in times["tensor"]
    assert 8 not in times["nic"]
    both = found(n=np.array([16, 64, 256, 1024])[:, None], batch_tokens=2 ** np.arange(16, 24))
    assert both.plot("limit-map").title == "What binds over batch tokens and n"
    with pytest.raises(RooflineError, match="there is no picture of a formula at sizes; one is over one size or two"):
        found(n=8).plot()
    with pytest.raises(RooflineError, match="the formula holds at none of these sizes"):
        found(n=[9, 10]).plot()
