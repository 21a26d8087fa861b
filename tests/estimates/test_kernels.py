"""Kernel models: shapes broadcast, times grow with work, parts add up, constants stay in range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.estimates.constants import KERNELS, shipped
from roofline.estimates.contraction import ROWS_AT_ONCE
from roofline.estimates.fitting import Rows, elsewhere, fit, fit_from_few, most_telling, spread_evenly
from roofline.estimates.kernel_model import ChipFigures, data_sheet_times, slowed, together, warm_share

CHIP = ChipFigures(cores=132, matrix_peak=989.4e12, bandwidth=3.35e12, cache=50e6)

BATCHED = {"m": 64.0, "n": 512.0, "k": 128.0, "batch": 16.0, "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
#: One kernel of each kind, and the shapes that make it do more.
SHAPES = {
    "contraction": {
        "m": 512.0,
        "n": 4096.0,
        "k": 4096.0,
        "batch": 1.0,
        "a_bytes": 2.0,
        "b_bytes": 2.0,
        "out_bytes": 2.0,
    },
    "quantised_contraction": {"m": 512.0, "n": 4096.0, "k": 4096.0, "a_bytes": 1.0, "b_bytes": 1.0, "out_bytes": 2.0},
    "quantise": {"m": 512.0, "k": 4096.0, "a_bytes": 1.0},
    "prefill_attention": {
        "batch": 2.0,
        "heads": 32.0,
        "kv_heads": 8.0,
        "head_size": 128.0,
        "length": 2048.0,
        "kv_bytes": 2.0,
    },
    "unmasked_attention": {
        "batch": 2.0,
        "heads": 16.0,
        "kv_heads": 16.0,
        "head_size": 72.0,
        "length": 2048.0,
        "later": 1.0,
        "kv_bytes": 2.0,
    },
    "decode_attention": {
        "batch": 16.0,
        "heads": 32.0,
        "kv_heads": 8.0,
        "head_size": 128.0,
        "length": 2048.0,
        "kv_bytes": 2.0,
    },
    "latent_prefill": {
        "batch": 2.0,
        "heads": 16.0,
        "kv_heads": 16.0,
        "head_size": 160.0,
        "length": 2048.0,
        "kv_bytes": 2.0,
    },
    "latent_decode": {
        "batch": 16.0,
        "heads": 16.0,
        "head_size": 576.0,
        "value_size": 512.0,
        "length": 2048.0,
        "kv_bytes": 2.0,
    },
    "batched_contraction": BATCHED,
    "quantised_batched_contraction": BATCHED,
    "elementwise": {"bytes": 1e7, "values": 5e6},
    "norm": {"bytes": 1e7, "values": 5e6},
    "softmax": {"bytes": 1e7, "values": 5e6},
    "collective": {"sent": 1e6, "chips": 8.0, "link": 4.5e11},
    "all_reduce": {"sent": 1e6, "chips": 8.0, "link": 4.5e11},
    "served_step": {"batch": 16.0, "decode": 8e-3, "mixed": 1e-3, "kernels": 800.0},
    "first_token": {"prompt": 1024.0, "prefill": 5e-2, "kernels": 800.0, "experts": 40.0},
    "eager_kernel": {"kernels": 2.0},
    "training_step": {"floor": 5.0},
    "experts": {
        "picks": 512.0,
        "touched": 8.0,
        "hidden": 4096.0,
        "inter": 14336.0,
        "products": 3.0,
        "weight_bytes": 2.0,
        "a_bytes": 2.0,
    },
}
MORE = {
    "contraction": "k",
    "quantised_contraction": "k",
    "batched_contraction": "batch",
    "quantised_batched_contraction": "batch",
    "quantise": "m",
    "prefill_attention": "batch",
    "unmasked_attention": "batch",
    "decode_attention": "length",
    "elementwise": "bytes",
    "norm": "bytes",
    "softmax": "bytes",
    "collective": "sent",
    "all_reduce": "sent",
    "latent_prefill": "batch",
    "latent_decode": "length",
    "served_step": "decode",
    "first_token": "prefill",
    "eager_kernel": "kernels",
    "training_step": "floor",
    "experts": "inter",
}


def test_every_kind_of_kernel_is_tried() -> None:
    assert set(SHAPES) == set(MORE) == set(KERNELS)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_parts_add_up_and_none_is_negative(name: str) -> None:
    model = KERNELS[name]
    for policy in model.policies:
        parts = model.parts(SHAPES[name], CHIP, model.defaults(), policy)
        assert all(np.all(np.asarray(seconds) >= 0) for seconds in parts.seconds.values()), parts.seconds
        assert parts.time == pytest.approx(sum(parts.seconds.values()))
        assert 0 < float(np.squeeze(parts.time)) < (60 if name == "training_step" else 1)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_an_array_is_its_numbers(name: str) -> None:
    model, shapes = KERNELS[name], dict(SHAPES[name])
    sizes = np.array([1.0, 2.0, 5.0, 16.0]) * shapes[MORE[name]]
    many = model.times({**shapes, MORE[name]: sizes}, CHIP, model.defaults(), model.policies[0])
    each = [model.times({**shapes, MORE[name]: size}, CHIP, model.defaults(), model.policies[0]) for size in sizes]
    assert np.allclose(many, [float(np.squeeze(one)) for one in each], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_sixteen_times_the_work_takes_longer(name: str) -> None:
    model, shapes = KERNELS[name], SHAPES[name]
    more = {**shapes, MORE[name]: 16 * shapes[MORE[name]]}
    for policy in model.policies:
        less, longer = (model.times(given, CHIP, model.defaults(), policy) for given in (shapes, more))
        assert float(np.squeeze(longer)) > float(np.squeeze(less))


@pytest.mark.parametrize("name", ["decode_attention", "latent_decode"])
def test_no_attention_of_a_token_takes_less_with_more_sequences_heads_or_keys(name: str) -> None:
    """With fewer pieces to put together eight sequences took 0.77 of the time of four, and 89, uncut, 0.70 of 88."""
    lengths = np.unique(np.r_[np.arange(1, 2000, 61), np.floor(2.0 ** np.arange(0, 17, 0.5))])
    batch, kv_heads, length = np.meshgrid(np.arange(1.0, 200), [1.0, 2.0, 8.0], lengths, indexing="ij")
    shapes = {**SHAPES[name], "batch": batch, "kv_heads": kv_heads, "heads": 8 * kv_heads, "length": length}
    for record in shipped(name):
        figures = ChipFigures(*(record.figures[figure] for figure in ChipFigures._fields))
        times = KERNELS[name].times(shapes, figures, record.values, record.policy)
        assert all((np.diff(times, axis=side) >= -1e-12 * times.max()).all() for side in range(3)), record


@pytest.mark.parametrize("name", ["prefill_attention", "unmasked_attention", "latent_prefill"])
def test_no_prompt_takes_less_with_more_sequences_heads_tokens_or_tokens_before_it(name: str) -> None:
    """With 64 query heads in a tile of 64 rows, a first token before 512 took off up to 8% of their time."""
    sizes = np.array([1, 2, 8, 64.0]), np.array([1, 8.0]), np.array([1, 17, 64, 100, 128, 512, 4000.0])
    batch, kv_heads, length, past = np.meshgrid(*sizes, np.array([0, 1, 64, 100, 1024.0]), indexing="ij")
    for group in (1, 8, 64):
        shapes = {**SHAPES[name], "batch": batch, "kv_heads": kv_heads, "heads": group * kv_heads, "length": length}
        for record in shipped(name):
            figures = ChipFigures(*(record.figures[figure] for figure in ChipFigures._fields))
            times = KERNELS[name].times({**shapes, "past": past}, figures, record.values, record.policy)
            assert all((np.diff(times, axis=side) >= -1e-12 * times.max()).all() for side in range(4)), record


@given(st.floats(1e-9, 1.0), st.floats(1e-9, 1.0), st.floats(1.0, 12.0))
def test_together_lies_between_the_larger_and_the_sum(a: float, b: float, exponent: float) -> None:
    assert max(a, b) * (1 - 1e-12) <= float(together(a, b, exponent)) <= (a + b) * (1 + 1e-12)


def test_floors_of_attention_count_the_pairs_that_see_each_other() -> None:
    """Two FLOPs for each of a score and its value: all 5 x 5 pairs, 1 + 2 + … + 5 of them, or 5 of one query."""
    shapes = {"batch": 1.0, "heads": 1.0, "kv_heads": 1.0, "head_size": 1.0, "length": 5.0, "kv_bytes": 2.0}
    pairs = {"unmasked_attention": 25, "prefill_attention": 15, "decode_attention": 5}
    found = {kernel: data_sheet_times(kernel, shapes, ChipFigures(1, 4.0, 1.0, 1.0))[0] for kernel in pairs}
    assert found == pairs


def test_cache_and_clock() -> None:
    assert warm_share(1.0, 1.0, 1e9) == pytest.approx(1.0)
    assert warm_share(1e12, 1.0, 1e6) < 1e-9
    assert slowed(1e-6, 0.1) < 1.001e-6
    assert slowed(1.0, 0.1) == pytest.approx(1.1, rel=1e-3)
    assert slowed(1.0, 0.1, busy=0.1) == pytest.approx(1.001, rel=1e-3)


def test_power_slows_products_that_keep_the_units_busy_and_leaves_those_that_wait_for_memory() -> None:
    model = KERNELS["contraction"]
    cool, hot = ({**model.defaults(), "throttle": slowing} for slowing in (0.001, 0.4))
    shapes = {"m": np.array([8192.0, 8.0]), "n": 16384.0, "k": np.array([8192.0, 524288.0])}
    shapes = {**shapes, "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
    long, streaming = model.times(shapes, CHIP, hot, "search") / model.times(shapes, CHIP, cool, "search")
    assert long > 1.1
    assert streaming < 1.002


@given(st.floats(0.0, 2.0), st.floats(1.0, 1.5))
def test_a_slowed_kernel_takes_longer_the_longer_it_waits(arithmetic: float, longer: float) -> None:
    """More time beside the same arithmetic lets the clock rise, but never by as much."""
    time = max(arithmetic, 1e-6)
    one, other = (slowed(each, 0.6, min(arithmetic / each, 1.0)) for each in (time, time * longer))
    assert one <= other * (1 + 1e-12)


def test_a_fit_finds_the_constants_that_made_the_times() -> None:
    model = KERNELS["elementwise"]
    true = {"launch_time": 3e-6, "value_time": 1.4e-10, "cache_share": 0.5, "cache_speedup": 5.0}
    shapes = {"bytes": np.geomspace(1e4, 1e9, 60), "values": np.geomspace(5e3, 5e8, 60)}
    rows = Rows(shapes, model.times(shapes, CHIP, true, ""), CHIP)
    found = fit(model, rows, prior=1e-4)
    assert {name: found.values[name] for name in true} == pytest.approx(true, rel=0.02)


def test_few_rows_find_the_start_and_the_tile_rule_that_made_them() -> None:
    """Ten products of a chip with one tile for every shape, from the constants of two chips that search."""
    model = KERNELS["contraction"]
    near, far = model.defaults(), {**model.defaults(), "launch_time": 2e-5, "core_l2_rate": 1e10}
    sizes = np.random.default_rng(0).integers(1, 64, (3, 10)) * 128.0
    shapes = {**dict(zip("mnk", sizes, strict=True)), "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
    shapes = {name: np.broadcast_to(np.asarray(value), 10) for name, value in shapes.items()}
    own = [one.name for one in model.constants if one.own]
    for policy in ("search", "128x128"):
        rows = Rows(shapes, model.times(shapes, CHIP, near, policy), CHIP)
        found = fit_from_few(model, rows, [(far, "search"), (near, "search")], own, 0.5)
        assert found.policy == policy
        assert found.values["launch_time"] == pytest.approx(near["launch_time"], rel=0.05)


def test_shipped_constants_are_within_range_and_say_how_good_they_are() -> None:
    records = shipped()
    assert len({record.key for record in records}) == len(records) > 80
    for record in records:
        model = KERNELS[record.kernel]
        assert set(record.values) == {constant.name for constant in model.constants}, record.name
        # constants with a larger error are reported, and no estimate takes them
        assert 0 < record.error["mdape"] < 0.5 or not record.usable, record.name
        few = record.kernel in ("served_step", "first_token", "training_step", "eager_kernel")
        assert record.error["n_test"] >= (3 if few else 15), record.name
        assert record.source, record.name
        assert all(0.05 < low <= high < 10 for low, high in record.interval) or not record.usable, record.name


def test_constants_of_a_kind_are_those_of_all_that_have_its_words() -> None:
    """A part of a file is read; what it leaves out has other words, and no record is lost."""
    every = shipped()
    asked = [("", {"library": "vllm"}), ("eager_kernel", {}), ("unheard_of", {}), ("contraction", {"chip": "v5e"})]
    asked += [(one.kernel, {"dtype": one.dtype, "path": one.path}) for one in every[::7]]
    for kernel, words in asked:
        alike = [one for one in every if kernel in ("", one.kernel)]
        alike = [one for one in alike if all(getattr(one, name) == word for name, word in words.items())]
        assert [one.to_dict() for one in shipped(kernel, **words)] == [one.to_dict() for one in alike]


def test_at_most_fifteen_constants_six_of_them_own() -> None:
    for name, model in KERNELS.items():
        # a quantised product is two operations: the product and the quantiser
        constants = [one for one in model.constants if not one.name.startswith("quantise.")]
        assert len(constants) <= 15, name
        for policy in ("", *model.stated):
            assert len([one for one in model.own(policy) if not one.startswith("quantise.")]) <= 6, name


def test_products_in_blocks_take_the_times_of_each_alone() -> None:
    model = KERNELS["contraction"]
    count = 2 * ROWS_AT_ONCE + 7
    sizes = {name: np.random.default_rng(2).integers(1, 9000, count) for name in "mnk"}
    wide = {"a_bytes": 2.0, "b_bytes": np.resize([2.0, 1.0], count), "out_bytes": 2.0}
    for policy in ("search", "bucket", *model.stated):
        many = model.parts({**sizes, **wide}, CHIP, model.defaults(), policy)
        for row in (0, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, count - 1):
            own = {name: np.broadcast_to(each, count)[row] for name, each in {**sizes, **wide}.items()}
            one = model.parts(own, CHIP, model.defaults(), policy)
            for name, value in one.seconds.items():
                assert float(value) == pytest.approx(float(many.seconds[name][row]), rel=1e-12, abs=1e-18)
    assert model.times({**sizes, "m": np.ones((3, 1, 1)), **wide}, CHIP, model.defaults(), "search").shape == (
        3,
        1,
        count,
    )


def test_no_rounding_of_a_whole_number_of_waves_makes_one_more() -> None:
    """Cut sequences fill every slot once, whatever the number of slots is: no number of sequences stands out."""
    shapes = {"heads": 16.0, "kv_heads": 1.0, "length": 1527.0, "batch": np.arange(1.0, 129.0)}
    for kernel, extra in (("decode_attention", {}), ("latent_decode", {"value_size": 512.0})):
        model = KERNELS[kernel]
        for occupancy in np.linspace(1.0, 1.5, 26):
            values = {**model.defaults(), "occupancy": float(occupancy), "wave_quantisation": 0.9}
            times = model.times({**shapes, **extra}, CHIP, values, model.policies[0])
            inside = times[1:-1]
            assert (inside <= 1.05 * np.maximum(times[:-2], times[2:])).all(), (kernel, occupancy)


def test_eight_tiles_of_a_core_run_as_on_eight_times_the_cores() -> None:
    model = KERNELS["contraction"]
    few, many = (ChipFigures(cores, 98e12, 456e9, 18e6) for cores in (20, 160))
    shapes = {"m": np.geomspace(1, 8192, 20).round(), "n": 4096.0, "k": 4096.0, "a_bytes": 2.0, "b_bytes": 2.0}
    (policy,) = model.stated
    found = model.times(shapes, few, model.defaults(), policy)
    assert found == pytest.approx(model.times(shapes, many, model.defaults(), "search from the host"), rel=1e-12)


def test_few_rows_of_a_product_leave_other_sizes_where_the_starts_are() -> None:
    """Ten short rows tell the launch; what long products take stays what two chips say of them."""
    model = KERNELS["contraction"]
    values = [{**model.defaults(), "compute_efficiency": share} for share in (0.7, 0.8)]
    own = [one.name for one in model.constants if one.own]
    one = {"m": np.linspace(8, 80, 10), "n": np.full(10, 512.0), "k": np.full(10, 512.0)}
    shapes = {**one, **dict.fromkeys(("a_bytes", "b_bytes", "out_bytes"), np.full(10, 2.0))}
    slow = {**values[0], "launch_time": 2 * values[0]["launch_time"]}
    rows = Rows(shapes, model.times(shapes, CHIP, slow, "search"), CHIP)
    limits = {"m": (8.0, 8192.0), "n": (512.0, 16384.0), "k": (512.0, 16384.0)}
    found = fit_from_few(model, rows, [(each, "search") for each in values], own, 0.5, limits=limits)
    assert model.times(shapes, CHIP, found.values, found.policy) == pytest.approx(rows.seconds, rel=0.05)
    long = {**{name: np.array([8192.0]) for name in "mnk"}, "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
    less, more = sorted(float(model.times(long, CHIP, each, "search")[0]) for each in values)
    assert 0.8 * less < float(model.times(long, CHIP, found.values, found.policy)[0]) < 1.25 * more
    everywhere = elsewhere(rows, limits)
    assert everywhere is not None
    assert all(low <= everywhere[name].min() < everywhere[name].max() <= high for name, (low, high) in limits.items())
    assert elsewhere(rows, {"length": (1.0, 2.0)}) is None


def test_starts_hold_a_constant_as_far_as_they_agree_on_it() -> None:
    """Ten rows that ask for other efficiencies move the one that chips differ in."""
    model = KERNELS["contraction"]
    values = [{**model.defaults(), "memory_efficiency": share} for share in (0.4, 0.9)]
    own = [one.name for one in model.constants if one.own]
    m = np.geomspace(4, 64, 10)
    shapes = {
        "m": m,
        "n": 8192 + 0 * m,
        "k": 8192 + 0 * m,
        **dict.fromkeys(("a_bytes", "b_bytes", "out_bytes"), 2.0 + 0 * m),
    }
    slow = {**model.defaults(), "memory_efficiency": 0.5}
    rows = Rows(shapes, model.times(shapes, CHIP, slow, "search"), CHIP)
    limits = {"m": (4.0, 64.0), "n": (8192.0, 8200.0), "k": (8192.0, 8200.0)}
    found = fit_from_few(model, rows, [(each, "search") for each in values], own, 0.5, limits=limits)
    assert found.values["memory_efficiency"] == pytest.approx(0.5, rel=0.06)
    kept = [name for name in model.defaults() if name != "memory_efficiency"]
    assert all(abs(np.log(found.values[name] / values[0][name])) < 0.3 for name in kept)


def test_the_rows_that_tell_most_are_chosen_by_their_sizes_alone() -> None:
    """Those whose times depend on constants that starts do not agree on; no row twice, whatever their times are."""
    model = KERNELS["contraction"]
    sizes = spread_evenly({"m": (1, 8192), "n": (128, 65536), "k": (128, 65536)}, 80)
    shapes = {**sizes, **{name: np.full(80, 2.0) for name in ("a_bytes", "b_bytes", "out_bytes")}, "batch": np.ones(80)}
    rows = Rows(shapes, np.ones(80), ChipFigures(132, 989e12, 3.35e12, 5e7))
    first = model.defaults()
    starts = [(first, "search"), ({**first, "launch_time": 4 * first["launch_time"]}, "search")]
    limits = {name: (float(sizes[name].min()), float(sizes[name].max())) for name in sizes}
    told = most_telling(model, rows, starts, [0.5, 0.5], limits)
    assert len(set(told)) == 10
    assert told == most_telling(model, replace(rows, seconds=np.arange(1.0, 81.0)), starts, [0.5, 0.5], limits)
    times = model.times(shapes, rows.chip, first, "search")
    assert times[told[0]] < np.median(times)  # the launch is what they differ in
    starts[1] = ({**first, "cache_share": first["cache_share"] / 2}, "search")
    more = model.times(shapes, rows.chip, {**first, "cache_share": first["cache_share"] * 1.05}, "search")
    steepest = int(np.abs(more / times - 1).argmax())  # a row that the cache just keeps tells of nothing but that
    assert steepest not in most_telling(model, rows, starts, [0.5, 0.5], limits)


def test_ten_rows_of_a_product_overrule_starts_that_are_far_off() -> None:
    """Where all takes twice as long as two chips say, sizes between and beyond the ten rows take that too."""
    model = KERNELS["contraction"]
    values = [{**model.defaults(), "compute_efficiency": share} for share in (0.7, 0.8)]
    own = [one.name for one in model.constants if one.own]
    half = {name: values[0][name] / 2 for name in ("compute_efficiency", "memory_efficiency", "core_l2_rate")}
    slow = {**values[0], **half, "launch_time": 2 * values[0]["launch_time"]}
    ten, others = (
        {
            "m": m,
            "n": 4096.0 + 0 * m,
            "k": 4096.0 + 0 * m,
            **dict.fromkeys(("a_bytes", "b_bytes", "out_bytes"), 2 + 0 * m),
        }
        for m in (np.geomspace(8, 4096, 10), np.array([12.0, 96.0, 700.0, 3000.0, 8192.0]))
    )
    rows = Rows(ten, model.times(ten, CHIP, slow, "search"), CHIP)
    limits = {"m": (8.0, 8192.0), "n": (512.0, 16384.0), "k": (512.0, 16384.0)}
    found = fit_from_few(model, rows, [(each, "search") for each in values], own, 0.5, limits=limits)
    off = model.times(others, CHIP, found.values, found.policy) / model.times(others, CHIP, slow, "search") - 1
    assert np.abs(off).max() < 0.05
    assert np.abs(off).mean() < 0.035
