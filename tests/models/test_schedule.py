"""Pipeline schedules: closed forms against a step-by-step run of every stage; numbers, arrays and symbols."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError
from roofline.models.parallelism.schedules import SCHEDULES, check_schedule, schedule
from roofline.sizes import symbol
from tests.models.pipeline_simulation import simulate
from tests.strategies import for_each

TIMES = st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0])


def sizes(name: str, stages: int, rounds: int, extra: int, chunks: int) -> dict[str, int]:
    """Sizes a schedule can run: whole rounds of stages where it has several pieces."""
    splits = SCHEDULES[name].splits
    return {
        "stages": stages,
        "microbatches": stages * rounds if splits else max(stages * (rounds - 1) + extra, 1),
        "chunks": chunks if splits else 1,
    }


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@given(
    stages=st.integers(1, 8), rounds=st.integers(1, 4), extra=st.integers(0, 5), chunks=st.integers(1, 3),
    forward=TIMES, inputs=TIMES, weights=TIMES,
)  # fmt: skip
def test_the_closed_forms_are_what_a_run_shows(
    name: str, stages: int, rounds: int, extra: int, chunks: int, forward: float, inputs: float, weights: float
) -> None:
    at = sizes(name, stages, rounds, extra, chunks)
    run = simulate(name, **at, times=[{"F": forward, "B": inputs, "W": weights}] * stages)
    chosen = schedule(name)
    idle = chosen.idle(**at, forward=forward, inputs=inputs, weights=weights)
    assert run.idle == pytest.approx([idle] * stages)
    held = [chosen.microbatches_in_flight(stage, **at) * at["chunks"] for stage in range(stages)]
    assert held == pytest.approx(run.held)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@given(data=st.data(), stages=st.integers(2, 6), rounds=st.integers(1, 3), chunks=st.integers(1, 3))
def test_uneven_stages_never_run_faster_than_said(
    name: str, data: st.DataObject, stages: int, rounds: int, chunks: int
) -> None:
    """What is said is a floor for any stages, and exact for equal ones."""
    at = sizes(name, stages, rounds + 1, 0, chunks)
    times = [{k: data.draw(TIMES) for k in "FBW"} for _ in range(stages)]
    run = simulate(name, **at, times=times)
    rest: Any = {key: at[key] for key in ("microbatches", "chunks")}
    passes = [(t["F"], t["B"], t["W"]) for t in times]
    assert run.end >= schedule(name).step(passes, **rest) * (1 - 1e-12)
    equal = simulate(name, **at, times=times[:1] * stages)
    assert equal.end == pytest.approx(schedule(name).step(passes[:1] * stages, **rest))


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_numbers_arrays_and_symbols_agree(name: str) -> None:
    p, m, v = symbol("p"), symbol("m"), symbol("v")
    chosen = schedule(name)
    stages, many = np.array([2.0, 4.0, 8.0]), np.array([8.0, 16.0, 64.0])
    arrays = chosen.bubble(stages=stages, microbatches=many, chunks=2)
    kept = chosen.microbatches_in_flight(1, stages=stages, microbatches=many, chunks=2)
    form = chosen.bubble(stages=p, microbatches=m, chunks=v)
    form_kept = chosen.microbatches_in_flight(1, stages=p, microbatches=m, chunks=v)
    for index, (n, count) in enumerate(zip((2, 4, 8), (8, 16, 64), strict=True)):
        one = chosen.bubble(stages=n, microbatches=count, chunks=2)
        at = {p: n, m: count, v: 2}
        assert arrays[index] == pytest.approx(one, rel=1e-12)
        assert float(form.subs(at)) == pytest.approx(one, rel=1e-12)
        assert (
            kept[index]
            == float(form_kept.subs(at))
            == chosen.microbatches_in_flight(1, stages=n, microbatches=count, chunks=2)
        )


@for_each("name", sorted(SCHEDULES))
@for_each(("stages", "share"), list(itertools.product([2, 4, 8], [0.01, 0.05, 0.2])))
def test_microbatches_for_a_bubble_are_the_fewest(name: str, stages: int, share: float) -> None:
    chosen = schedule(name)
    found = chosen.microbatches(share, stages=stages)
    step = stages if chosen.splits else 1
    assert chosen.bubble(stages=stages, microbatches=found) <= share * (1 + 1e-9)
    if found > stages:
        assert chosen.bubble(stages=stages, microbatches=found - step) > share


def test_published_figures() -> None:
    """Megatron-LM's (p − 1)/m of the work, over v; zero bubble's third where all passes take equally long."""
    assert schedule("1f1b").idle(stages=8, microbatches=32) / (3 * 32) == pytest.approx(7 / 32)
    assert schedule("interleaved").idle(stages=8, microbatches=32, chunks=4) / (3 * 32) == pytest.approx(7 / 4 / 32)
    assert schedule("zb-h1").idle(stages=8, microbatches=32) * 3 == schedule("1f1b").idle(stages=8, microbatches=32)
    # zero bubble's table: (p − 1)·(f + b − w) and (p − 1)·(f + b − 2·w), 2·p − 1 kept
    at = {"stages": 8, "microbatches": 32, "forward": 1, "inputs": 2, "weights": 1}
    assert [schedule(name).idle(**at) for name in ("zb-h1", "zb-h2")] == [7 * (1 + 2 - 1), 7 * (1 + 2 - 2)]
    assert schedule("zb-h2").microbatches_in_flight(0, stages=8, microbatches=32) == 15
    assert schedule("interleaved").microbatches_in_flight(0, stages=8, microbatches=32, chunks=4) == (8 * 4 + 8 - 1) / 4


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@given(data=st.data(), stages=st.integers(1, 4), many=st.integers(1, 4))
def test_no_number_of_microbatches_is_faster_than_any_number(
    name: str, data: st.DataObject, stages: int, many: int
) -> None:
    """A pass takes a fixed time and one for its share of the batch; what stages do beside it counts in full."""
    most = many * stages if SCHEDULES[name].splits else many
    draw = [[(data.draw(TIMES), data.draw(TIMES)) for _ in range(3)] for _ in range(stages)]
    once = [data.draw(TIMES) * 4 for _ in range(stages)]

    def passes(number: float, batch: float = most) -> list[tuple[float, float, float]]:
        return [tuple(fixed + each * batch / number for fixed, each in own) for own in draw]  # type: ignore[misc]

    chosen = schedule(name)
    floor = chosen.step(passes(most), microbatches=most, once=once, whole=passes(1))
    for number in range(stages, most + 1, stages) if chosen.splits else range(1, most + 1):
        assert floor <= chosen.step(passes(number), microbatches=number, once=once) * (1 + 1e-12)


def test_what_stages_do_beside_microbatches_is_counted() -> None:
    """Of stages that take as long one may have more of it; of more sequences it leaves no less."""
    passes, more = [(1, 1, 1)] * 2, [(1.25, 1.25, 1.25)] * 2
    assert schedule("1f1b").step(passes, microbatches=2, once=[9, 0]) == 15
    assert schedule("zb-h1").step(passes, microbatches=1, once=[10], whole=passes) == 15
    assert schedule("zb-h1").step(passes, microbatches=2, once=[10], whole=more) == 15.75


def test_the_best_number_of_microbatches_is_the_best_of_all() -> None:
    """A step waits, and takes as long as the batch at once or all its microbatches in turn, whichever is longer."""
    for passes, parts in itertools.product(((1, 2, 1), (3, 1, 2), (1, 5, 0.25), (2, 2, 2)), (1.5, 6, 40)):
        tried = []
        for number in range(1, 16):
            waits = schedule("zb-h2").idle(
                stages=8, microbatches=number, forward=passes[0], inputs=passes[1], weights=passes[2]
            )
            tried.append(waits + max(parts * sum(passes), number * sum(passes)))
        whole = [tuple(parts * each for each in passes)] * 8
        found = schedule("zb-h2").step([passes] * 8, microbatches=50, whole=whole)
        assert found == pytest.approx(max(min(tried), 7 * passes[0] + parts * sum(passes)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: schedule("1f1"), "no pipeline schedule '1f1'; did you mean '1f1b'?"),
        (lambda: schedule("1f1b").microbatches(5, stages=4), "a bubble of 5 is not a share; above 0 and below 1"),
        (
            lambda: check_schedule(schedule("interleaved"), stages=4, microbatches=6, chunks=2),
            "runs microbatches in rounds of 4, and 6 is no multiple; 8 would do",
        ),
        (
            lambda: check_schedule(schedule("1f1b"), stages=4, microbatches=6, chunks=2),
            "1f1b has one piece of the model on each stage; interleaved has several",
        ),
    ],
)
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(RooflineError) as caught:
        call()
    assert message in str(caught.value)
