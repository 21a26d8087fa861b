"""Policies of kernels: what the host hides, tiles that code states, sequences that pairs of blocks share."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.estimates.shared_constants import fit_family

from roofline import bound
from roofline.estimates.attention import (
    ALONE,
    BEYOND,
    EVERY_KEY,
    LOOKS,
    TILES,
    TRITON,
    TRITON_TILE,
    WINDOW_APART,
    alone_on_core,
)
from roofline.estimates.constants import KERNELS, shipped
from roofline.estimates.contraction import LEAST_SPLIT, SMALL_WHOLE, STATED_TILES
from roofline.estimates.estimator import Estimator, KernelEstimate, KernelRun, kernels_of
from roofline.estimates.fitting import Rows, fit_from_few
from roofline.estimates.kernel_model import FROM_HOST, ChipFigures, launched
from roofline.estimates.transfer import CORES, kernel_elsewhere, on_another_chip, policy_elsewhere, stated_policy
from roofline.estimates.vector_and_collectives import FRAMEWORKS
from roofline.hardware import chip, chips
from tests.strategies import some

A100 = ChipFigures(108, 312e12, 2.039e12, 42e6)


def test_the_host_hides_behind_kernels_where_no_graph_was_timed() -> None:
    time = np.array([1e-4, 1e-3])
    assert launched(time, time / 2, 3e-4).time == pytest.approx([4e-4, 1.3e-3])
    assert launched(time, time / 2, 3e-4, FROM_HOST).time == pytest.approx([3e-4, 1e-3])


@pytest.mark.parametrize(
    ("kernel", "policy"),
    [
        ("contraction", f"search {FROM_HOST}"),
        ("decode_attention", FROM_HOST),
        ("prefill_attention", f"128x128 {FROM_HOST}"),
        ("latent_decode", f"16 heads {FROM_HOST}"),
        ("latent_prefill", f"128x128 {FROM_HOST}"),
    ],
)
def test_no_kernel_is_shorter_than_its_host(kernel: str, policy: str) -> None:
    model = KERNELS[kernel]
    assert policy in model.policies
    values = {**model.defaults(), "launch_time": 3e-4}
    shapes = {name: np.array([8.0]) for name in model.shapes if name not in ("window", "past")}
    assert model.times(shapes, A100, values, policy) == pytest.approx([3e-4])


def test_a_kernel_that_works_through_every_key_takes_as_long_with_a_window() -> None:
    """As vLLM's on B60: what was expected of a prompt of one token more than a window was up to 13 times as long."""
    model, every = KERNELS["prefill_attention"], f"128x128 {EVERY_KEY} {FROM_HOST}"
    shapes = {"heads": 64.0, "kv_heads": 8.0, "head_size": 64.0, "length": 8192.0}
    times = [model.times(shapes | {"window": window}, A100, model.defaults(), every) for window in (0, 128)]
    assert times[0] == times[1] > 5 * model.times(shapes | {"window": 128}, A100, model.defaults(), every[:7])
    looks = model.times(shapes | {"window": 128}, A100, model.defaults(), f"128x128 {LOOKS}")
    assert times[0] > 1.5 * looks  # dropped blocks cost their masks alone
    wide = [one for one in shipped("prefill_attention") if BEYOND in one.path]
    every = {(one.chip, one.library) for one in wide if EVERY_KEY in one.policy and LOOKS not in one.policy}
    assert every == {("b60", "vllm"), ("l40s", "sglang")}
    assert {one.policy for one in wide if TRITON in one.path} == {TRITON_TILE}
    line = ", ".join(f"bf16[2, 16384, {heads}, 256]" for heads in (16, 8, 8))
    gemma = [
        bound(f"attention({line}, causal, window=1024)", on="h100", estimate=True, library=one).estimate
        for one in ("sglang", "vllm")
    ]
    assert gemma[0] == pytest.approx(36.0e-3, rel=0.25)  # measured, of rows that were expected to take a twentieth
    assert gemma[1] < gemma[0] / 10
    sides = [", ".join(f"bf16[64, {tokens}, {heads}, 64]" for heads in (64, 8, 8)) for tokens in (128, 129)]
    found = [bound(f"attention({one}, causal, window=128)", on="b60", estimate=True).estimate for one in sides]
    assert found[0] < found[1] < 4 * found[0]  # two tiles, of one block and of two


@pytest.mark.parametrize("library", ["vllm", "sglang", "trtllm"])
def test_larger_cores_since_hopper_cut_long_sequences_whoever_tells_of_them(library: str) -> None:
    """One long sequence with keys for each head was expected to take 3.5 times as long on B200 as on H200."""
    one = "bf16[1, 1, 32, 128], bf16[1, 131072, 32, 128], bf16[1, 131072, 32, 128]"
    older, newer = (
        bound(f"attention({one}, causal)", on=on, estimate=True, library=library) for on in ("h200", "b200")
    )
    assert newer.estimate < older.estimate
    eight = "bf16[1, 1, 32, 128], fp8[1, 131072, 8, 128], fp8[1, 131072, 8, 128]"
    assert bound(f"attention({eight}, causal)", on="b200", estimate=True, library=library).estimate < older.estimate / 4
    paired = {policy_elsewhere(KERNELS["latent_decode"], "64 heads in pairs", chip(key)) for key in ("a100", "l40s")}
    assert paired == {"64 heads in pairs"}
    assert policy_elsewhere(KERNELS["latent_decode"], "64 heads in pairs", chip("h100")) == "64 heads"
    assert policy_elsewhere(KERNELS["decode_attention"], "whole", chip("b200"), TRITON) == "whole"


def test_flash_attention_2_reads_keys_for_each_head_anew_under_a_window() -> None:
    """Its decode of many sequences under a window on L40S takes 264 µs, where 47 were expected of shared keys."""
    model = KERNELS["decode_attention"]
    shapes = {"batch": 128.0, "heads": 64.0, "kv_heads": 4.0, "head_size": 64.0, "length": 4096.0, "window": 128.0}
    apart = model.times(shapes, A100, model.defaults(), WINDOW_APART)
    assert apart > 4 * model.times(shapes, A100, model.defaults(), "")
    own = shapes | {"kv_heads": 64.0}  # reads from memory apart
    assert apart == pytest.approx(model.times(own, A100, model.defaults(), "whole"), rel=0.2)
    no_window = shapes | {"window": 0.0}
    assert model.times(no_window, A100, model.defaults(), WINDOW_APART) == model.times(
        no_window, A100, model.defaults(), ""
    )
    found = {(one.chip, one.library) for one in shipped("decode_attention") if one.policy == WINDOW_APART}
    assert found == {("l40s", "vllm"), ("rtx-pro-6000", "vllm")}
    for library in ("vllm", "sglang", "trtllm"):  # nor does the token that fills a window change the kernel
        below, beyond = (_decode(library, keys, window=1024).value for keys in (1024, 1025))
        assert below <= beyond < 1.02 * below


def test_tensorrt_llm_reads_keys_for_each_head_anew_where_over_32_share_them() -> None:
    """Its kernel of shared keys takes no more: 48 query heads to a key head on H100 take up to 20 times as long."""
    few, many = (_decode("trtllm", 4096, heads) for heads in (32, 48))
    assert many.value > 4 * few.value
    assert (many.run.path, many.run.shapes["kv_heads"], many.run.shapes["shared"]) == (ALONE, 48, 48)
    assert _decode("vllm", 4096, 48).value < 2 * _decode("vllm", 4096, 32).value
    assert many.value <= _decode("trtllm", 4096, 48, queries=2).value


def _decode(library: str, keys: int, heads: int = 8, window: int = 0, queries: int = 1) -> KernelEstimate:
    sides = ", ".join(f"bf16[64, {tokens}, {each}, 128]" for tokens, each in ((queries, heads), (keys, 1), (keys, 1)))
    asked = bound(f"attention({sides}, causal{f', window={window}' if window else ''})", on="h100")
    found: KernelEstimate = Estimator(library).expect(asked).kernels[0]
    return found


def test_one_tile_takes_as_long_for_one_row_as_for_all_of_its_rows() -> None:
    model = KERNELS["quantised_contraction"]
    values = {**model.defaults(), "quantise.rate": 5e13, "quantise.row_time": 1e-13, "throttle": 0.001}
    shapes = {"m": np.array([1.0, 128.0, 129.0]), "n": 16384.0, "k": 8192.0, "a_bytes": 1.0, "b_bytes": 1.0}
    one, full, two = model.times(shapes, A100, values, "128x128")
    assert full == pytest.approx(one, rel=0.02)
    assert two > full
    assert model.times(shapes, A100, values, "nosplit")[0] < one


@pytest.mark.parametrize(
    ("policy", "m", "n", "rows", "columns"),
    [
        ("vllm fp8 sm89", 16, 8192, 16, 64),
        ("vllm fp8 sm89", 17, 8193, 32, 128),
        ("vllm fp8 sm89", 300, 8192, 256, 128),
        ("vllm fp8 sm90", 17, 1280, 16, 64),
        ("vllm fp8 sm90", 17, 1281, 64, 64),
        ("vllm fp8 sm120", 256, 65536, 64, 64),
        ("sglang fp8 sm89", 1, 8193, 32, 64),
        ("sglang fp8 sm89", 256, 16384, 64, 128),
        ("sglang fp8 sm120", 1, 64, 128, 128),
    ],
)
def test_a_product_runs_the_tile_that_the_librarys_code_states_or_one_of_larger_products(
    policy: str, m: int, n: int, rows: int, columns: int
) -> None:
    """Where nothing but arithmetic counts, the time is that of whole tiles in whole waves."""
    tiles = [tile for most_rows, most_columns, tile in STATED_TILES[policy] if m <= most_rows and n <= most_columns]
    assert tiles[0] == (rows, columns)
    model = KERNELS["quantised_contraction"]
    fast = {"core_l2_rate": 2e12, "quantise.rate": 5e13, "quantise.row_time": 1e-13}
    none = {
        "launch_time": 3e-7,
        "tile_overhead": 1e-8,
        "epilogue": 1e-13,
        "throttle": 1e-3,
        "choice_width": 1e-3,
        "quantise.launch_time": 1e-8,
    }
    values = {**model.defaults(), **fast, **none, "wave_quantisation": 1.0, "overlap_exponent": 12.0}
    one = ChipFigures(4, 1e12, 1e14, 1e9)
    shapes = {"m": m, "n": n, "k": 65536.0, "a_bytes": 1.0, "b_bytes": 1.0}
    rate = one.matrix_peak / one.cores * values["compute_efficiency"]
    least = min(
        np.ceil(np.ceil(m / rows) * np.ceil(n / columns) / one.cores) * 2 * rows * columns for rows, columns in tiles
    )
    assert float(model.times(shapes, one, values, policy)) == pytest.approx(least * 65536 / rate, rel=0.02)


def test_every_product_has_a_stated_tile_and_every_table_a_chip() -> None:
    assert {name.rpartition(" ")[2] for name in STATED_TILES} == {"sm89", "sm90", "sm120"} < set(CORES.values())
    assert KERNELS["quantised_contraction"].stated == tuple(STATED_TILES)
    for name, lines in STATED_TILES.items():
        assert lines[-1][:2] == (float("inf"), float("inf")), name
        assert [line[:2] for line in lines] == sorted(line[:2] for line in lines), name
    for record in (one for one in shipped() if one.kernel == "quantised_contraction"):
        if stated := stated_policy(
            KERNELS[record.kernel], record.library, record.dtype, record.path, chip(record.chip)
        ):
            assert record.policy == stated, record.name


@pytest.mark.parametrize(
    ("on", "policy"), [("h200", "vllm fp8 sm90"), ("l4", "vllm fp8 sm89"), ("rtx-5090", "vllm fp8 sm120")]
)
def test_constants_for_another_chip_take_the_tiles_that_are_stated_for_it(on: str, policy: str) -> None:
    line = bound("fp8[64, 4096] @ fp8[4096, 4096]", on=on)
    sources = Estimator("vllm").sources(kernels_of(line)[0], chip(on))
    assert {one.policy for one, _ in sources} == {policy}


def test_prefill_has_the_kernels_that_code_names() -> None:
    """Each takes what its tile takes of such heads: twice 64 rows on Hopper, pages of FlashAttention-2 elsewhere."""
    model = KERNELS["prefill_attention"]
    shapes = {"batch": 4.0, "heads": 32.0, "kv_heads": 8.0, "length": 3000.0, "kv_bytes": 2.0}
    for name, lines in TILES.items():
        packed = " packed" if name.startswith("FlashAttention-3") else ""
        for size, window in ((size, window) for size in (64, 128, 192, 256) for window in (0, 500)):
            rows, *blocks = next(line[1:] for line in lines if size <= line[0])
            given = {key: np.array([value]) for key, value in {**shapes, "head_size": size, "window": window}.items()}
            policies = f"{rows}x{blocks[window > 0]}{packed}", name
            of_tile, stated = (model.times(given, A100, model.defaults(), policy) for policy in policies)
            assert stated == pytest.approx(of_tile, rel=1e-12), (name, size, window)
    for one in shipped("prefill_attention"):
        named = kernel_elsewhere(model, one.library, one.dtype, one.path, chip(one.chip))
        assert one.policy == named if named else one.policy not in model.stated, one.name
    assert {one.policy for one in shipped("prefill_attention")} >= set(TILES)


@pytest.mark.parametrize(
    ("library", "on", "dtype", "path", "alone"),
    [
        ("trtllm", "h200", "bf16", "", (128, 192, 256)), ("trtllm", "rtx-5090", "fp8", BEYOND, (192, 256)),
        ("trtllm", "l4", "bf16", BEYOND, (256,)), ("vllm", "a100", "bf16", "", (256,)),
        ("vllm", "a10", "bf16", "", (128, 192, 256)), ("vllm", "l40s", "bf16", "fp8 cache", ()),
        ("sglang", "a100", "bf16", "", (192, 256)), ("sglang", "h100", "bf16", f"{TRITON}, {BEYOND}", ()),
        ("trtllm", "v100", "bf16", "", ()),
    ],
)  # fmt: skip
def test_a_core_of_hopper_holds_one_tile_and_others_two_where_their_memory_does(
    library: str, on: str, dtype: str, path: str, alone: tuple[int, ...]
) -> None:
    sizes = np.array([128, 192, 256])
    assert tuple(sizes[alone_on_core(library, dtype, path, sizes, chip(on)) & (sizes > 0)]) == alone


def test_what_a_kernel_makes_of_narrow_heads_stays_with_it() -> None:
    model, h100 = KERNELS["prefill_attention"], ChipFigures(132, 989e12, 3.35e12, 5e7)
    values = {**model.defaults(), "narrow_heads": 0.4, "wide_heads": 0.3}
    for other, left in ((False, (0.4, 0.3)), (True, (1.0, 1.0))):
        moved = on_another_chip(model, values, A100, h100, chip("a100"), chip("h100"), other_kernel=other)
        assert (moved["narrow_heads"], moved["wide_heads"]) == left


def test_a_stated_tile_is_kept_whatever_rows_say() -> None:
    """Rows that one tile of 128 x 128 made are fitted by the constants alone."""
    model = KERNELS["quantised_contraction"]
    figures = ChipFigures(132, 1979e12, 3.35e12, 5e7)
    m = np.geomspace(1, 4096, 12).round()
    shapes = {"m": m, **dict.fromkeys(("n", "k"), 4096 + 0 * m), **dict.fromkeys(("a_bytes", "b_bytes"), 1 + 0 * m)}
    rows = Rows(shapes, model.times(shapes, figures, model.defaults(), "128x128"), figures)
    starts = [(model.defaults(), "vllm fp8 sm90")] * 2
    assert fit_from_few(model, rows, starts, ["launch_time"]).policy == "vllm fp8 sm90"
    assert fit_family(model, [rows], policies=["vllm fp8 sm90"])[0].policy == "vllm fp8 sm90"


def test_libraries_with_stated_tiles_share_what_is_the_chips() -> None:
    """Kernels of vLLM and SGLang in fp8 differ in what a kernel costs; caches, loads and power are the chip's."""
    model = KERNELS["quantised_contraction"]
    held = [one for one in shipped() if one.kernel == model.name and one.policy in model.stated]
    assert len(held) >= 6
    for one in held:
        others = [each for each in held if each.chip == one.chip and each is not one]
        assert others, one.name
        shared = [name for name in model.defaults() if name not in model.own(one.policy)]
        assert len(shared) == 7
        assert all(each.values[name] == one.values[name] for each in others for name in shared), one.name


def test_libraries_share_what_is_of_cublas_on_a_chip() -> None:
    """Products in half precision: waves, tiles and power are the kernels'; rates, starts and caches a library's."""
    model = KERNELS["contraction"]
    held = [one for one in shipped() if one.kernel == model.name and one.dtype == "bf16" and one.library in FRAMEWORKS]
    shared = [name for name in model.defaults() if name not in model.own()]
    for key in ("a100", "h100", "l40s", "rtx-pro-6000"):
        mine = [one for one in held if one.chip == key]
        assert {one.library for one in mine} == set(FRAMEWORKS)
        assert all(len({one.values[name] for one in mine}) == 1 for name in shared), key


def test_a_pair_of_blocks_walks_over_a_whole_sequence() -> None:
    """TensorRT-LLM 1.0 on A100: 32 sequences take as long as one, 128 take 2.3 times as long as 32."""
    model = KERNELS["latent_decode"]
    values = {**model.defaults(), "occupancy": 1.47, "memory_efficiency": 1.4, "throttle": 0.001}
    shapes = {"batch": np.array([1.0, 32.0, 64.0, 128.0]), "heads": 16.0, "length": 65536.0}
    one, some, pairs, more = model.times(shapes, A100, values, "64 heads in pairs")
    assert some / one == pytest.approx(1, rel=0.05)
    assert pairs / some == pytest.approx(2 / 1.47, rel=0.05)
    assert more / some == pytest.approx(2 / 1.47 + 1, rel=0.05)


def grouped(rows: list[float], tokens: float, policy: str) -> list[float]:
    """Seconds of 64 experts whose memory and launch take nothing, with just so many rows each."""
    model = KERNELS["experts"]
    values = {**model.defaults(), "memory_efficiency": 1.4, "core_memory_rate": 2e12, "token_time": 1e-15}
    picks = np.array(rows) * 64
    shapes = {"picks": picks, "touched": 64.0, "experts": 64.0, "hidden": 4096.0, "inter": 2048.0, "products": 3.0}
    tiles = {f"tiles_{size}": 64 * np.ceil(np.array(rows) / size) for size in (8, 16, 32, 48, 64)}
    times = model.parts(
        {**shapes, **tiles, "tokens": tokens, "weight_bytes": 2.0, "a_bytes": 2.0},
        A100._replace(bandwidth=1e18),
        values,
        policy,
    )
    return list(times.seconds["waves"] + times.seconds["memory"])


def test_untuned_triton_has_small_tiles_for_as_many_tokens_as_experts_and_64_rows_for_more() -> None:
    one, most, more = grouped([65.0, 128.0, 129.0], 1000.0, "triton")
    assert one == pytest.approx(most, rel=1e-3)
    assert more > 1.2 * most
    few, many = (grouped([1.0], tokens, "triton")[0] for tokens in (64.0, 65.0))
    assert few < many


def test_marlin_takes_the_least_tile_that_rows_do_not_fill() -> None:
    small, same, larger = grouped([40.0, 43.0, 44.0], 1000.0, "marlin")
    assert small == pytest.approx(same, rel=1e-3)
    assert larger > 1.1 * same


def test_experts_take_no_less_as_they_widen_and_no_step_where_a_mean_load_fills_a_tile() -> None:
    model, one = KERNELS["experts"], np.ones(4)
    shapes = {"hidden": np.array([128.0, 129, 2048, 2048]), "inter": 768 * one, "products": 3 * one}
    shapes |= {"picks": 64.0 * np.array([1, 1, 64, 65]), "touched": np.array([1.0, 1, 64, 64]), "weight_bytes": 2 * one}
    narrow, wider, full, more = model.times(shapes | {"a_bytes": 2 * one}, A100, model.defaults(), "64 rows")
    assert narrow < wider  # before, 0.7 times as long
    assert full < more < 1.1 * full  # before, twice the tiles of all experts


@pytest.mark.parametrize("here", [1, 8, 64])
def test_experts_take_no_less_with_more_tokens_whatever_tiles_their_code_states(here: int) -> None:
    """One expert of a chip took 0.6 times as long with twice the tokens, as its tiles were counted as more bytes."""
    tokens = np.unique(np.round(np.geomspace(1, 1e5, 60)))
    share = here / 64
    shapes = {"picks": 6 * tokens * share, "touched": here * (1 - (1 - 1 / 64) ** (6 * tokens)), "experts": here}
    shapes |= {"tokens": tokens * (1 - (1 - share) ** 6), "choices": 6 * tokens, "hidden": 2048.0, "products": 3.0}
    shapes |= {"weight_bytes": 2.0, "a_bytes": 2.0}
    for one in some(shipped("experts"), 12):
        figures = ChipFigures(*(one.figures[name] for name in ChipFigures._fields))
        for inter in (176.0, 1408.0):
            times = KERNELS["experts"].times(shapes | {"inter": inter}, figures, one.values, one.policy)
            assert (times[1:] >= times[:-1] * (1 - 1e-9)).all(), (one.chip, one.library, one.dtype, one.path, inter)


def test_only_kernels_that_no_graph_started_hide_their_start() -> None:
    hidden = [record for record in shipped() if record.policy.endswith(FROM_HOST)]
    assert {record.chip for record in hidden if not record.kernel.startswith("latent")} == {"b60"}
    assert all(record.state.startswith("no graph") for record in hidden)
    assert {record.library for record in hidden} == {"vllm"}


def test_a_policy_from_the_host_is_chosen_only_where_no_graph_was_timed() -> None:
    model = KERNELS["prefill_attention"]
    shapes = {"batch": 1.0, "heads": 32.0, "kv_heads": 8.0, "head_size": 128.0, "kv_bytes": 2.0}
    sizes = {name: np.full(40, value) for name, value in shapes.items()} | {"length": np.geomspace(16, 8192, 40)}
    policy = f"128x128 {FROM_HOST}"
    rows = Rows(sizes, model.times(sizes, A100, {**model.defaults(), "launch_time": 2e-4}, policy), A100)
    assert [fit_family(model, [rows], from_host=[started])[0].policy == policy for started in (True, False)] == [
        True,
        False,
    ]


#: Rows, columns and depths of products: on both sides of where tables of tiles change.
SIZES = (
    [1, 8, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 1024, 4096, 8192],
    [64, 96, 128, 256, 1024, 1280, 1281, 4096, 4097, 8192, 8193, 16384, 16385, 32768],
    [64, 512, 4096, 16384, 28672],
)
FORMATS = [
    ("contraction", "bf16", "", 2, 2), ("contraction", "int8", "weights only", 2, 1),
    ("contraction", "int4", "weights only", 2, 0.5), ("quantised_contraction", "fp8", "", 1, 1),
    ("quantised_contraction", "fp8", "block scales", 1, 1), ("quantised_contraction", "nvfp4", "", 0.5625, 0.5625),
]  # fmt: skip


@pytest.mark.parametrize("library", some(["vllm", "trtllm", "sglang"], 2))
@pytest.mark.parametrize(("kernel", "dtype", "path", "a_bytes", "b_bytes"), FORMATS)
def test_no_product_takes_less_as_it_grows(
    library: str, kernel: str, dtype: str, path: str, a_bytes: float, b_bytes: float
) -> None:
    m, n, k = np.meshgrid(*(np.array(sizes, float) for sizes in SIZES), indexing="ij")
    shapes = {"m": m, "n": n, "k": k, "batch": 1.0, "a_bytes": a_bytes, "b_bytes": b_bytes, "out_bytes": 2.0}
    estimator, run = Estimator(library), KernelRun(kernel, dtype, path, shapes, ())
    machines = some(list(chips()), 3, FORMATS.index((kernel, dtype, path, a_bytes, b_bytes)))
    expected = [estimator.kernel(run, one) for one in machines if estimator.sources(run, one)]
    assert expected
    for one in expected:
        for side in range(3):
            longer = np.diff(np.asarray(one.value), axis=side) >= 0
            keeps_whole = dtype == "bf16" and one.source is not None and one.source.policy == SMALL_WHOLE
            begins_to_cut = np.diff(m * n * k >= LEAST_SPLIT, axis=side) & keeps_whole
            assert (longer | begins_to_cut).all(), (one.basis, "mnk"[side])


def test_cublas_keeps_small_products_whole_where_it_was_measured_to() -> None:
    """A router of a few tokens takes the loads of its whole depth, until the depth is cut from 2²¹ multiply-adds."""
    records = shipped("contraction", dtype="bf16")
    whole = {record.chip for record in records if record.policy == SMALL_WHOLE}
    assert whole == {"l40s", "rtx-pro-6000"}
    assert all(record.policy == SMALL_WHOLE for record in records if record.chip in whole)
    model, record = KERNELS["contraction"], next(one for one in records if one.chip == "l40s" and one.library == "vllm")
    figures = ChipFigures(*(record.figures[name] for name in ChipFigures._fields))
    shapes = {"m": np.array([1.0, 3.0, 4.0]), "n": 128.0, "k": 4096.0, "a_bytes": 2.0, "b_bytes": 2.0, "out_bytes": 2.0}
    vector, small, cut = model.times(shapes, figures, record.values, record.policy)
    assert small > 3 * cut
    assert vector <= cut
    whole_depth, *_ = model.times({**shapes, "m": np.array([3.0])}, figures, record.values, "nosplit")
    assert small == pytest.approx(whole_depth)
