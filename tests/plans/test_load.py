"""A server under load against its simulation, request by request, on random loads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.models import load, serve
from roofline.models.serving import step_bound
from roofline.plans.answer import DeploymentPlan
from roofline.plans.load import LENGTHS, Acceptance, LatencyUnderLoad, ServerTimes
from roofline.plans.question import Limits, Load, PlanQuestion
from roofline.plans.replicas import FORMATS, Replica, estimator_of, replicas, step_options, unloaded
from roofline.plans.search import Deployment, Search
from roofline.plans.simulation import simulate
from tests.plans.test_queueing import erlang_c
from tests.strategies import LONG, some

#: How many random loads are tried, and requests of each.
LOADS, REQUESTS = (100, 40_000) if LONG else (4, 4_000)


def random_server(random: np.random.Generator) -> ServerTimes:
    """A server whose steps take longer with more sequences; prompts whole or in chunks, all alike or of two lengths."""
    base = random.uniform(0.005, 0.03)
    most = int(random.integers(8, 257))
    step = base + base * 10 ** random.uniform(-3, -1.3) * np.arange(most + 1)
    output, prompt = int(random.integers(16, 257)), base * 10 ** random.uniform(-0.5, 1.2)
    if random.random() < 0.5:
        chunks = int(random.integers(1, 9))
        mixed = np.maximum(step * 1.05, prompt / chunks + 0.5 * step)
        return ServerTimes.of(step=step, prompt=prompt, mixed=mixed, chunks=chunks, output=output)
    spread = ((1.0, 1.0),) if random.random() < 0.5 else ((0.5, 0.5), (0.5, 1.5))
    return ServerTimes.of(step=step, prompt=prompt, output=output, spread=spread)


@pytest.mark.parametrize("seed", some(range(LOADS), 2))
def test_theory_is_near_the_simulation(seed: int) -> None:
    random = np.random.default_rng(seed)
    server = random_server(random)
    rate = random.uniform(0.3, 0.9) * server.largest_rate
    found, seen = server.under(rate), simulate(server, rate, requests=REQUESTS, seed=seed)
    for name, allowed in (("per_token", 0.05), ("first_token", 0.15)):
        expected: LatencyUnderLoad = getattr(found, f"time_{'to_' if name == 'first_token' else ''}{name}")
        measured: LatencyUnderLoad = getattr(seen, f"time_{'to_' if name == 'first_token' else ''}{name}")
        error = seen.standard_error(name)
        for which in ("mean", "percentile"):
            off = abs(getattr(expected, which) - getattr(measured, which)) - 2 * getattr(error, which)
            assert off <= allowed * getattr(measured, which), (name, which, expected, measured)


@pytest.mark.parametrize(("lengths", "draft"), some([*product(LENGTHS, [None, Acceptance(4, 0.8)])], 6))
def test_the_end_of_an_answer_is_a_percentile_of_answers_of_their_own_lengths(
    lengths: str, draft: Acceptance | None
) -> None:
    step = 0.01 + 0.0001 * np.arange(33)
    server = ServerTimes.of(step=step, mixed=1.5 * step, prompt=0.05, chunks=3, output=101, lengths=lengths)
    server = replace(server, draft=draft)
    found = server.under(0.5 * server.largest_rate)
    seen = simulate(server, found.rate, requests=8_000, seed=2).end_to_end
    assert found.end_to_end().mean == pytest.approx(seen.mean, rel=0.03)
    assert found.end_to_end().percentile == pytest.approx(seen.percentile, rel=0.06)
    # of geometric lengths one in twenty is three times the mean
    assert (seen.percentile > 2.5 * seen.mean) is (lengths == "geometric")


def test_bursts_lengthen_the_time_per_token_as_simulated() -> None:
    seeds = range(2000, 2040 if LONG else 2003)
    off = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        server = replace(random_server(random), arrival_variation=4.0)
        rate = random.uniform(0.3, 0.9) * server.largest_rate
        found = server.under(rate).time_per_token
        seen = simulate(server, rate, requests=4_000, seed=seed).time_per_token
        off.append((abs(found.mean / seen.mean - 1), abs(found.percentile / seen.percentile - 1)))
    assert np.median(off, axis=0) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(
    ("prompt", "apart", "variation", "rel"), some([(0.03, True, 0.1, 0.25), (0.1, False, 0.1, 0.05)], 2)
)
def test_even_arrivals_wait_for_a_place_as_simulated(prompt: float, apart: bool, variation: float, rel: float) -> None:
    """Were the number at work that of Poisson arrivals, waits would be twice as long."""
    server = ServerTimes.of(
        step=0.02 + 0.0003 * np.arange(33), prompt=prompt, output=65, apart=apart, arrival_variation=variation
    )
    found = server.under(0.9 * server.largest_rate)
    seen = simulate(server, found.rate, requests=12_000, seed=1)
    rest = 0.0 if not apart else 0.011  # half of a step, which the simulation has and the wait for a place does not
    assert found.time_to_first_token.mean + rest == pytest.approx(seen.time_to_first_token.mean, rel=rel)
    assert found.time_per_token.mean == pytest.approx(seen.time_per_token.mean, rel=0.17)


@pytest.mark.parametrize(("lengths", "times"), [("geometric", 2.5), ("fixed", 4.0)])
def test_the_number_at_work_varies_as_arrivals_do_over_a_life(lengths: str, times: float) -> None:
    """Of infinitely many servers: over lives of one length as the count of arrivals, over exponential ones half so."""
    server = ServerTimes.of(step=np.full(400, 0.02), prompt=0.0, output=51, apart=True, lengths=lengths)
    state = replace(server, arrival_variation=4.0).chain(30.0).in_flight
    n = np.arange(len(state))
    mean = float(state @ n)
    assert float(state @ (n - mean) ** 2) == pytest.approx(times * mean, rel=0.01)


def test_prompts_of_one_time_start_fixed_answers_together_as_simulated() -> None:
    server = ServerTimes.of(step=0.02 + 0.0005 * np.arange(65), prompt=0.05, output=33, lengths="fixed")
    found = server.under(0.85 * server.largest_rate)
    seen = simulate(server, found.rate, requests=12_000, seed=1).time_per_token
    # were their lives exponential, the mean would be 7% less and the percentile 11%
    assert found.time_per_token.mean == pytest.approx(seen.mean, rel=0.04)
    assert found.time_per_token.percentile == pytest.approx(seen.percentile, rel=0.05)


def test_a_rare_step_at_work_is_in_the_percentile_of_the_first_token() -> None:
    """One request in twenty meets a step of 10 ms: one in a hundred waits for at least four fifths of it."""
    step = np.full(65, 0.01)
    server = ServerTimes.of(step=step, prompt=0.01, output=6, mixed=step)
    assert server.under(1.0, 0.99).time_to_first_token.percentile == pytest.approx(0.018, abs=0.0005)


def test_a_burst_larger_than_all_places_stops_a_step_once_for_each_that_leaves() -> None:
    server = ServerTimes.of(step=np.full(5, 0.01), prompt=0.03, output=32, arrival_variation=100.0)
    found = server.under(0.5 * server.largest_rate)
    seen = simulate(server, found.rate, requests=4_000, seed=3).time_per_token
    # were all of a burst to stop it, both would be four times as long
    assert found.time_per_token.mean == pytest.approx(seen.mean, rel=0.1)
    assert found.time_per_token.percentile == pytest.approx(seen.percentile, rel=0.1)


@pytest.mark.parametrize("how", some([{}, {"mixed": np.full(65, 0.03), "chunks": 2}], 2, 1))
def test_fewer_come_while_one_waits_where_arrivals_are_even(how: dict[str, Any]) -> None:
    server = ServerTimes.of(step=np.full(65, 0.01), prompt=0.04, output=9, arrival_variation=0.1, **how)
    found = server.under(0.3 * server.largest_rate).time_per_token
    seen = simulate(server, 0.3 * server.largest_rate, requests=8_000, seed=2).time_per_token
    # were as many to come as of Poisson arrivals, the mean would be 1.4 to 1.6 times as long, the percentile 1.5 to 1.9
    assert found.mean == pytest.approx(seen.mean, rel=0.15)
    assert found.percentile == pytest.approx(seen.percentile, rel=0.1)


def test_replicas_that_bursts_go_to_at_random_see_less_of_them() -> None:
    random, rate = np.random.default_rng(4), 40.0
    arrivals = np.cumsum(random.gamma(1 / 16, 16 / rate, 400_000))
    gaps = np.diff(arrivals[random.integers(4, size=len(arrivals)) == 0])
    one = ServerTimes.of(step=np.full(9, 0.02), prompt=0.05, output=129, arrival_variation=16.0).one_of(4)
    assert one.arrival_variation == pytest.approx(gaps.var() / gaps.mean() ** 2, rel=0.06)
    bursts = Load(40, 1024, 128, arrival_variation=16.0)
    search = Search(PlanQuestion(load("llama-3-8b"), bursts, Limits(), ("h100",), (4,), objective="chips"))
    found = search.assess(Deployment(Replica("h100", "bf16"), 4))
    said = " ".join(DeploymentPlan(search.asked, search, (found,), None, Counter()).assumptions)
    assert (
        "16 times the variance of Poisson ones, which go to a replica at random: nine in ten times lie within" in said
    )
    server = search.times(Replica("h100", "bf16")).server()
    assert found.first_token == replace(server, arrival_variation=one.arrival_variation).under(10.0).time_to_first_token


def test_those_behind_in_a_burst_vary_in_number() -> None:
    server = ServerTimes.of(step=0.01 + 2e-5 * np.arange(17), prompt=0.08, output=32, arrival_variation=16.0)
    found = server.under(0.3 * server.largest_rate).time_per_token
    seen = simulate(server, 0.3 * server.largest_rate, requests=8_000, seed=3).time_per_token
    # were as many behind each as on average, all places would be taken: a third more, and 46% at the percentile
    assert found.mean == pytest.approx(seen.mean, rel=0.05)
    assert found.percentile == pytest.approx(seen.percentile, rel=0.12)


@pytest.mark.parametrize("how", [{}, {"mixed": 1.5 * np.full(3, 0.01), "chunks": 16}])
@pytest.mark.parametrize("places", [1, 2])
def test_none_comes_in_while_the_few_places_are_taken(places: int, how: dict[str, Any]) -> None:
    """A place is held while its prompt is prefilled too, and those that decode wait for no more than the others fill.

    Else two places with chunks would have first tokens a third later, and one a gap 1.5 to 4 times as long at p99.
    """
    server = ServerTimes.of(step=np.full(3, 0.01), prompt=0.2, output=33, **how).limited_to(places)
    found = server.under(0.6 * server.largest_rate, 0.95)
    seen = simulate(server, found.rate, requests=3_000, seed=4)
    for time in ("time_to_first_token", "time_per_token"):
        assert getattr(found, time).mean == pytest.approx(getattr(seen, time).mean, rel=0.1)
        assert getattr(found, time).percentile == pytest.approx(getattr(seen, time).percentile, rel=0.15)


@pytest.mark.parametrize("places", [2, 8])
def test_answers_of_one_length_are_stopped_once_by_each_other_place(places: int) -> None:
    """A place is taken over once while an answer decodes, so that no gap is longer than with all of these stops."""
    server = ServerTimes.of(step=np.full(places + 1, 0.03), prompt=0.2, output=33, lengths="fixed")
    found = server.under(0.9 * server.largest_rate).time_per_token
    most = 0.03 + (places - 1) * 0.2 / 32
    assert 0.03 < found.mean < found.percentile <= most * (1 + 1e-12)
    assert found.percentile > 0.97 * most


@pytest.mark.parametrize(("lengths", "chunks"), [("geometric", 5), ("fixed", 4)])
def test_places_that_are_filled_one_at_a_time_limit_the_rate(lengths: str, chunks: int) -> None:
    mixed = np.full(5, 0.015)
    server = ServerTimes.of(step=np.full(5, 0.01), prompt=1, output=13, mixed=mixed, chunks=chunks, lengths=lengths)
    for places in (1, 3):
        few = server.limited_to(places)
        seen = simulate(few, 1e6, requests=2_000)
        assert few.largest_rate == pytest.approx(2_000 / float(seen.last_token.max()), rel=0.03)


def test_a_burst_stops_a_first_step_until_all_places_are_taken() -> None:
    server = ServerTimes.of(step=0.02 + 0.0005 * np.arange(17), prompt=0.05, output=33)
    server = replace(server, arrival_variation=4.0)
    found = server.under(0.8 * server.largest_rate)
    seen = simulate(server, found.rate, requests=4_000, seed=1).time_per_token
    # were all that came with a request to stop it, the mean would be a seventh more and the percentile a third
    assert found.time_per_token.mean == pytest.approx(seen.mean, rel=0.08)
    assert found.time_per_token.percentile == pytest.approx(seen.percentile, rel=0.12)


def test_steps_of_one_time_without_stalls_are_m_m_c() -> None:
    found = ServerTimes.of(step=np.full(9, 0.1), prompt=0.5, output=11, apart=True).under(7.0)
    # 8 places, each taken for a second
    waits = erlang_c(8, 7.0)
    assert found.server.largest_rate == pytest.approx(8.0)
    assert found.in_flight == pytest.approx(7.0)
    assert found.time_to_first_token.mean == pytest.approx(waits / (8.0 - 7.0), rel=1e-9)
    assert found.time_to_first_token.percentile == pytest.approx(np.log(waits / 0.05), rel=1e-2)
    # where nothing decodes prompts wait in one queue, however many places there are: M/D/1
    one, many = (ServerTimes.of(step=np.full(n, 0.1), prompt=0.1, output=1).under(9.0) for n in (2, 65))
    assert one.time_to_first_token == many.time_to_first_token
    assert one.time_to_first_token.mean == pytest.approx(0.1 + 0.09 / 0.2)


@pytest.mark.parametrize(
    ("output", "chunks", "step", "mixed"),
    some(
        [(11, 4, 0.02, 0.02), (11, 4, 0.007, 0.012), (2, 16, 0.01, 0.02), (4, 8, 0.007, 0.01), (257, 2, 0.01, 0.012)],
        3,
    ),
)
def test_prompts_in_chunks_wait_for_each_other(output: int, chunks: int, step: float, mixed: float) -> None:
    """Where there are places for all that decode, no more prompts come through than one after the other.

    So it is where chunks cost nothing, and where a prompt has more chunks than its answer has tokens.
    """
    steps = np.full(401, step)
    server = ServerTimes.of(step=steps, prompt=1, output=output, mixed=np.full(401, mixed), chunks=chunks)
    assert server.largest_rate == pytest.approx(1 / (chunks * mixed), rel=1e-9)
    found = server.under(0.5 * server.largest_rate)
    seen = simulate(server, found.rate, requests=2 * REQUESTS, seed=3)
    for time in ("time_to_first_token", "time_per_token"):
        assert getattr(found, time).mean == pytest.approx(getattr(seen, time).mean, rel=0.05)
        assert getattr(found, time).percentile == pytest.approx(getattr(seen, time).percentile, rel=0.1)


def test_every_rate_below_the_largest_has_times() -> None:
    n = np.arange(1025)
    step, mixed = 2e-5 * n, 2.1e-5 * n + 0.005
    server = ServerTimes.of(step=step, prompt=0.0, output=100, mixed=mixed, chunks=100 / 512, together=5)
    assert server.largest_rate == server.rates(server.most)  # below that of prompts alone
    assert server.under(0.999999 * server.largest_rate).time_per_token.mean > step[0]


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_short_prompts_that_share_steps_wait_as_simulated(share: float) -> None:
    """Four prompts a step, each 0.8 ms more: with places for 120 in flight 4 of them every 13.2 ms at the most."""
    step, mixed = np.full(301, 0.01), np.full(301, 0.0132)
    server = ServerTimes.of(step=step, prompt=0.01, output=31, mixed=mixed, chunks=1 / 4, together=4)
    assert server.largest_rate == pytest.approx(4 / 0.0132)
    found = server.under(share * server.largest_rate)
    seen = simulate(server, found.rate, requests=4_000, seed=3)
    for name in ("time_to_first_token", "time_per_token"):
        each, simulated = getattr(found, name), getattr(seen, name)
        assert each.mean == pytest.approx(simulated.mean, rel=0.1)
        assert each.percentile == pytest.approx(simulated.percentile, rel=0.15)


@pytest.mark.parametrize(
    ("compute", "together", "share"),
    some(
        [
            (compute, together, share)
            for compute, together in ((1.05e-3, 10), (5.2e-3, 2), (1e-4, 64), (1e-3, 64), (8e-3, 16))
            for share in (0.1, 0.5, 0.9)
        ],
        4,
        1,
    ),
)
def test_prompts_alone_share_steps_as_counted_event_by_event(compute: float, together: int, share: float) -> None:
    """A step of b prompts waits 10 ms for weights, or computes b of them; it takes all that wait, up to so many."""
    full = max(0.01, together * compute)
    step, mixed = np.full(together + 1, 0.01), np.full(together + 1, full)
    filled = np.maximum(0.01, compute * np.arange(together + 1))
    server = ServerTimes.of(
        step=step, prompt=0.01, output=1, mixed=mixed, chunks=1 / together, together=together, filled=filled
    )
    assert server.largest_rate == pytest.approx(together / full)
    found = server.under(share * server.largest_rate).time_to_first_token
    count, now, done = 20_000, 0.0, 0
    arrivals = np.random.default_rng(5).exponential(1 / (share * server.largest_rate), count).cumsum()
    first = np.zeros(count)
    while done < count:
        now = max(now, float(arrivals[done]))
        taken = min(together, int(np.searchsorted(arrivals, now, "right")) - done)
        now += max(0.01, taken * compute)
        first[done : done + taken] = now - arrivals[done : done + taken]
        done += taken
    assert found.mean == pytest.approx(first.mean(), rel=0.05)
    assert found.percentile == pytest.approx(np.quantile(first, 0.95), rel=0.08)
    simulated = simulate(server, share * server.largest_rate, requests=4000, seed=1).time_to_first_token
    assert simulated.mean == pytest.approx(found.mean, rel=0.15)


def test_chips_that_only_prefill_take_as_many_short_prompts_as_they_compute() -> None:
    """Llama 3 8B, prompts of 32 tokens: 32 × 6.98e9 weights of layers and 0.525e9 of the head, 989 TFLOP/s each."""
    sizes = Limits(), ("h100",), (1,)
    for output in (1, 64):
        asked = PlanQuestion(load("llama-3-8b"), Load(4, 32, output), *sizes, formats=("bf16",), objective="chips")
        times = unloaded(asked, replicas(asked)[0])
        server = times.prefilling
        assert server.largest_rate == pytest.approx(989.4e12 / (2 * (32 * 6.98e9 + 0.525e9)), rel=0.01)
        assert times.rate_bound_by(server, 0) == "tensor"
        slower = times.slower(2.0).prefilling
        assert slower.largest_rate == pytest.approx(server.largest_rate / 2)
        if output == 1:
            assert times.server().largest_rate == server.largest_rate


def test_prompts_alone_share_no_step_where_links_take_as_long_for_each() -> None:
    """Two l40s send 2 · 32 hidden states of 1,024 · 4,096 in bf16 over PCIe, which grows with prompts."""
    sizes = Load(4, 1024, 256), Limits(), ("l40s",), (2,)
    asked = PlanQuestion(load("llama-3.1-8b"), *sizes, formats=("fp8",), objective="chips")
    times = unloaded(asked, next(each for each in replicas(asked) if each.tensor == 2))
    assert (times.prompt_bound_by, times.shared, times.prefilling.together) == ("pcie", 2, 1)
    assert times.prefilling.largest_rate == pytest.approx(1 / times.prompt)


def test_stages_of_a_pipeline_that_only_prefill_compute_as_much_as_all_their_chips() -> None:
    """66 new tokens of 65,536: several prompts at once compute all the time, however eight chips share the layers."""
    sizes = Load(4, 65_536, 1, shared=0.999), Limits(), ("h200",), (8,)
    asked = PlanQuestion(load("llama-3-70b"), *sizes, formats=("fp8",), objective="chips")
    found = {(each.tensor, each.pipeline): unloaded(asked, each) for each in replicas(asked) if each.chips == 8}
    whole = found[8, 1].prefilling.largest_rate
    assert [found[way].prefilling.together for way in ((4, 2), (2, 4))] == [2, 2]
    assert [found[way].prefilling.largest_rate for way in ((4, 2), (2, 4))] == pytest.approx([whole] * 2, rel=0.01)
    assert found[4, 2].most == found[8, 1].most


def test_as_many_sequences_fit_as_the_fullest_stage_of_a_pipeline_holds() -> None:
    """Gemma 4's layers that see everything lie unevenly on stages: that with the most weights has few of them."""
    asked = PlanQuestion(load("gemma-4-26b-a4b-nvfp4"), Load(4, 100_000, 1000), Limits(), ("h200",), (4,))
    replica = next(each for each in replicas(asked) if each.pipeline == 4 and each.formats == "stored")
    times = unloaded(asked, replica)
    sizes = {"context": asked.load.peak_context - 1, **step_options(asked, replica)}
    full, over = (
        step_bound(asked.model, "decode", on=asked.machine(replica.target), batch=times.most + more, **sizes).footprint
        for more in (0, 1 + times.most // 50)
    )
    assert full is not None
    assert over is not None
    assert full.total <= times.capacity < over.total


def _expected_pass(asked: PlanQuestion, batch: int, prompts: int) -> float:
    """Seconds of the kernels of one pass of the library, of ``batch`` that decode and whole prompts beside."""
    sizes = {"batch": batch, "context": asked.load.mean_context, **FORMATS["fp8"]}
    if prompts:
        sizes |= {"chunk": asked.load.new_tokens, "past": 0, "last": True, "prompts": prompts}
    answer = step_bound(asked.model, "mixed" if prompts else "decode", on=asked.machine("h100"), **sizes)
    return float(estimator_of("vllm").expect(answer).value)


@pytest.mark.parametrize("prompt", some([32, 128, 512], 2))
def test_prompts_that_share_an_expected_step_add_what_a_pass_with_them_takes_more(prompt: int) -> None:
    """An engine fills a step of 2,048 tokens: the pass of 32 that decode and of these prompts, kernel by kernel."""
    load_ = Load(4, prompt, 128)
    asked = PlanQuestion(load("llama-3-8b"), load_, Limits(), ("h100",), (1,), formats=("fp8",), library="vllm")
    times = unloaded(asked, replicas(asked)[0])
    server, together = times.server(2048), 2048 // prompt
    assert server.together == together
    more = times.prefill_factor * (_expected_pass(asked, 32, together) - _expected_pass(asked, 32, 0))
    assert float(server.stall[32]) == pytest.approx(more / together, rel=0.15)
    alone = times.slower(2.0).prefilling.largest_rate
    assert alone == pytest.approx(times.prefilling.largest_rate / 2)
    assert times.prefilling.largest_rate > 1 / times.prompt


def test_a_chip_serves_as_many_short_prompts_as_it_computes() -> None:
    """Llama 3 8B, prompts of 32 tokens and answers of 4: 6.98e9 weights of layers, 0.525e9 of the head, 989 TFLOP/s.

    One prompt a step would wait for 15 GB of weights each: 223 a second.
    """
    sizes = Load(4, 32, 4), Limits(), ("h100",), (1,)
    asked = PlanQuestion(load("llama-3-8b"), *sizes, formats=("bf16",), objective="chips")
    times = unloaded(asked, replicas(asked)[0])
    flops = 2 * (35 * 6.98e9 + 4 * 0.525e9)
    assert times.server(512).largest_rate == pytest.approx(989.4e12 / flops, rel=0.01)
    assert times.chunks == (512,)
    # ten prompts are at work at once, and so are their activations
    alone = serve("llama-3-8b", on="h100", batch=1, prompt=32, phase="prefill", weights="bf16").memory
    assert times.memory.parts["activations"] == pytest.approx(10 * alone.parts["activations"])


def test_steps_that_take_as_long_as_there_are_sequences_are_m_m_1() -> None:
    server = ServerTimes.of(step=0.001 * np.arange(400), prompt=0.0, output=101)
    found = server.under(7.0)
    assert found.time_per_token.mean == pytest.approx(0.001 / (1 - 0.7), rel=1e-3)
    assert found.in_flight == pytest.approx(0.7 / 0.3, rel=1e-3)


def test_above_the_largest_rate_is_an_error() -> None:
    server = ServerTimes.of(step=np.full(9, 0.1), prompt=0.05, output=11)
    with pytest.raises(InputError, match="not below"):
        server.under(server.largest_rate)


@pytest.mark.parametrize("seed", some([1, 2, 4, 6, 8], 4))
def test_gaps_between_tokens_are_those_that_are_simulated(seed: int) -> None:
    random = np.random.default_rng(seed)
    server = random_server(random)
    rate = random.uniform(0.3, 0.9) * server.largest_rate
    found, seen = server.under(rate).token_gap, simulate(server, rate, requests=3_000, seed=seed).token_gap
    assert found.mean == pytest.approx(seen.mean, rel=0.05)
    assert found.percentile == pytest.approx(seen.percentile, rel=0.1)
