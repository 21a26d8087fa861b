"""Convolutions whose channels are split over chips, and attention whose queries are: what each chip does and sends."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import roofline
from roofline import bound, shard
from roofline.ops.sharding.layout import Windows

IMAGE = {"N": 2, "H": 14, "W": 14}


def best(line: str, on: str = "h100:8", **sizes: Any) -> Any:
    summed = any("AllReduce" in plan.name for plan in shard(line, on=on, **sizes))
    return shard(line, on=on, algorithm={"AllReduce": "two-shot"} if summed else None, **sizes).best


def test_channels_that_are_summed_over_give_partial_sums() -> None:
    line = "conv(bf16[N, H, W, C_X], bf16[3, 3, C_X, O], pad=1) -> bf16[N, H, W, {}] {}"
    sizes = {**IMAGE, "C": 512, "O": 512}
    found = best(line.format("O", ""), **sizes)
    assert found.name == "AllReduce_X(bf16[N, H, W, O] {U_X})"
    assert found.link_bytes == 2 * 7 / 8 * 2 * 14 * 14 * 512 * 2
    assert found.bound.flops == 2 * 2 * 14 * 14 * 9 * 512 * 512 // 8
    assert best(line.format("O", "{U_X}"), **sizes).name == "no communication"
    assert "ReduceScatter_{X,O}" in best(line.format("O_X", ""), **sizes).name


@pytest.mark.parametrize(
    ("kernel", "options"),
    [("3, 3, 1, C_X", "depthwise"), ("3, 3, 4, C_X", "groups=128"), ("3, 3, 4, O_X", "groups=128")],
)
def test_groups_of_channels_need_nothing_of_each_other(kernel: str, options: str) -> None:
    """128 groups of 4 channels, or 512 of 1: a chip of 8 has an eighth of them, with their results."""
    line = f"conv(bf16[N, H, W, C_X], bf16[{kernel}], pad=1, {options}) -> bf16[N, H, W, {kernel[-3:]}]"
    sizes = {**IMAGE, "C": 512} | ({"O": 1024} if "O" in kernel else {})
    found, alone = best(line, **sizes), bound(line.replace("_X", ""), on="h100", **sizes)
    assert found.name == "no communication"
    assert found.bound.flops * 8 == alone.flops
    assert sum(found.bound.bytes.values()) * 8 == sum(alone.bytes.values())


def test_chips_that_do_not_divide_the_groups_split_something_else() -> None:
    """Each of 8 chips would have half a group of 4; of 10 channels in groups, padding would break these up."""
    line = "conv(bf16[N, H, W, C_X], bf16[3, 3, 32, C_X], pad=1, groups=4) -> bf16[N, H, W, C_X]"
    assert best(line, **{**IMAGE, "N": 8}, C=128).name != "no communication"
    line = "conv(bf16[N, H, W, C_X], bf16[3, 3, 1, O_X], pad=1, depthwise) -> bf16[N, H, W, O_X]"
    assert best(line, **IMAGE, C=10, O=20, uneven="pad").name != "no communication"


CONV = "conv(bf16[N, H_X, W, 64], bf16[{0}, 3, 64, 64], pad=({1},1)) -> bf16[N, H_X, W, 64]"


@pytest.mark.parametrize(("rows", "pad", "sides"), [(3, 1, 1), (7, 3, 3), (1, 0, 0)])
@pytest.mark.parametrize(
    ("on", "link", "both"),
    [("h100:8", "nvlink", 2), ("h100:2", "nvlink", 1), ("v5e:8", "ici X", 1), ("v5p:4x4x8", "ici X", 1)],
)
def test_chips_that_split_an_image_exchange_its_borders(
    rows: int, pad: int, sides: int, on: str, link: str, both: int
) -> None:
    """A window of k rows needs (k - 1)/2 of each neighbour: of both over a link to a switch, of one over a torus's."""
    line, sizes = CONV.format(rows, pad), {"N": 8, "H": 64, "W": 64}
    found, alone = bound(line, on=on, **sizes), bound(line.replace("_X", ""), on="h100", **sizes)
    chips = found.machine.mesh.sizes["X"]
    assert found.flops * chips == alone.flops
    assert found.wire.get(link, 0) == both * sides * 8 * 64 * 64 * 2
    hops = [amount for op in found.ops for key, amount in op.op.work.items() if key.quantity == "hops"]
    assert hops == [1] * bool(sides)
    assert any("neighbours along X exchange the borders of H" in text for text in found.assumptions) == bool(sides)


@pytest.mark.parametrize(("on", "sides"), [("h100:8", 2), ("h100:2", 1), ("v5e:8", 2)])
def test_windows_read_the_borders_that_neighbours_sent(on: str, sides: int) -> None:
    """Of 64 rows in all a chip has its part, and of each neighbour a row, which is sent, written and read."""
    line, chips, row = CONV.format(3, 1), int(on.partition(":")[2]), 8 * 64 * 64 * 2
    exchange, windows = bound(line, on=on, N=8, H=64, W=64, policy="each-op").ops
    assert [x.traffic_bytes for x in (*exchange.op.reads, *exchange.op.writes)] == [sides * row] * 2
    assert [x.traffic_bytes for x in windows.op.reads] == [64 // chips * row, 3 * 3 * 64 * 64 * 2, sides * row]
    least, once = (bound(line, on=on, N=8, H=64, W=64, policy=policy) for policy in ("minimal", "each-op"))
    assert sum(once.bytes.values()) - sum(least.bytes.values()) == 3 * sides * row  # read to be sent, written, read


def test_borders_of_two_dimensions_go_over_the_axes_of_each() -> None:
    line = "conv(bf16[8, H_X, W_Y, 64], bf16[3, 5, 64, 64], pad=(1,2)) -> bf16[8, H_X, W_Y, 64]"
    found = bound(line, on="v5e:4x4", H=64, W=64)
    assert found.wire == {"ici X": 8 * 16 * 64 * 2, "ici Y": 2 * 8 * 16 * 64 * 2}
    flat = bound("conv(bf16[8, H_{XY}, W, 64], bf16[3, 5, 64, 64], pad=(1,2)) -> bf16[8, H_{XY}, W, 64]", on="v5e:4x4",
                 H=64, W=64)  # fmt: skip
    assert flat.wire == {"ici X": 8 * 64 * 64 * 2, "ici Y": 8 * 64 * 64 * 2}
    pooled = bound("pool(bf16[8, H_X, 64, 64], window=3, pad=1, stride=1)", on="h100:8", H=64)
    assert pooled.wire == {"nvlink": 2 * 8 * 64 * 64 * 2}


def test_borders_as_a_formula_and_of_windows_wider_than_the_rest() -> None:
    line = CONV.format(3, 1)
    assert bound(line, on="v5e", mesh={"X": "n"}, N=8, W=64).wire == {"ici X": 8 * 64 * 64 * 2}
    for on, rows in (("h100:8", 7), ("v5e:16", 8), ("v5e:2", 4)):  # a ring brings the 15 rows of others from both sides
        wide = bound(CONV.format(31, 15), on=on, N=1, H=8 if rows < 8 else 16, W=8, plan="borders")
        assert sum(wide.wire.values()) == rows * 8 * 64 * 2, on
    line = "conv(bf16[8, H_X, 16, 64], bf16[3, 1, 64, 32]) -> bf16[8, O_X, P, 32]"  # windows that reach one way only
    assert bound(line, on="v5e:16", H=64, plan="borders").wire == {"ici X": 2 * 8 * 16 * 64 * 2 * 15 / 16}


@pytest.mark.parametrize("ways", [2, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [None, 0, 1, 2])
def test_windows_reach_as_far_as_the_image_goes(pad: int | None, stride: int, ways: int) -> None:
    """Row by row, padding aside: ``same`` begins where the results of an image that strides do not divide lie."""
    tried = 0
    for part, taps, dilation in itertools.product(range(2, 9), range(1, 7), (1, 2)):
        size, windows = part * ways, Windows("H", taps, stride, pad, dilation)
        results = windows.results(size, taps)
        if results < 1:
            continue
        extent, made = dilation * (taps - 1) + 1, -(-results // ways)
        low = max(0, (results - 1) * stride + extent - size) // 2 if pad is None else pad
        sides = []
        for chip in range(-(-results // made)):
            of_last = min(made * (chip + 1), results) - 1
            reached = {o * stride - low + at for o in range(made * chip, of_last + 1) for at in range(extent)}
            rows = reached & set(range(size))
            sides.append((sum(row < part * chip for row in rows), sum(row >= part * (chip + 1) for row in rows)))
        assert windows.reach(size, taps, ways) == (max(map(max, sides)), max(map(sum, sides)))
        tried += 1
    assert tried > 3


@pytest.mark.parametrize(
    ("taps", "stride", "pad"),
    [(3, 2, 1), (7, 2, 3), (4, 2, 1), (2, 2, 0), (1, 2, 0), (5, 4, 2), (3, 3, 0), (3, 2, "same"), (9, 2, "same")],
)
@pytest.mark.parametrize("on", ["h100:4", "v5e:4", "h100:2"])
def test_chips_exchange_the_borders_of_windows_that_divide_an_image_by_their_stride(
    on: str, taps: int, stride: int, pad: int | str
) -> None:
    """Counted row by row: which rows of other chips the windows of a chip's results need, of each neighbour."""
    rows, chips = 48, int(on[-1])
    before = max(0, taps - stride) // 2 if pad == "same" else int(pad)
    part, results = rows // chips, rows // chips // stride
    needed = [
        {r * stride - before + t for r in range(results * c, results * (c + 1)) for t in range(taps)}
        for c in range(chips)
    ]
    lower = max(len({row for row in of if 0 <= row < c * part}) for c, of in enumerate(needed))
    upper = max(len({row for row in of if (c + 1) * part <= row < rows}) for c, of in enumerate(needed))
    line = f"conv(bf16[8, H_X, 64, 64], bf16[{taps}, 3, 64, 32], stride=({stride},1), pad={{}}) -> bf16[8, O_X, P, 32]"
    line = line.format(pad if pad == "same" else f"({pad},1)")
    found, alone = bound(line, on=on, H=rows), bound(line.replace("_X", ""), on="h100", H=rows)
    assert found.flops * chips == alone.flops
    assert found.plan == ("Permute_X(borders of H)" if pad else "no communication")
    sides = lower + upper if on == "h100:4" else max(lower, upper)
    assert sum(found.wire.values()) == sides * 8 * 64 * 64 * 2
    assert not any("made with all" in text for text in found.assumptions)


@pytest.mark.parametrize("on", ["h100:4", "v5e:4", "h100:8"])
@pytest.mark.parametrize(
    ("taps", "stride", "pad", "dilation"),
    [(3, 1, 0, 1), (5, 1, 0, 1), (3, 2, 0, 1), (3, 1, 2, 1), (7, 2, 0, 1), (2, 1, 0, 3), (1, 3, 0, 1), (4, 3, 1, 1)],
)
def test_chips_exchange_the_borders_of_windows_that_shrink_or_grow_an_image(
    taps: int, stride: int, pad: int, dilation: int, on: str
) -> None:
    """Counted row by row, where chips divide the rows and each but the last makes as many results."""
    rows, chips = 48, int(on[-1])
    results = (rows + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    part, made = rows // chips, -(-results // chips)
    before, behind = [], []
    for chip in range(chips):
        at = [o * stride - pad + t * dilation for o in range(made * chip, made * (chip + 1)) for t in (0, taps - 1)]
        before.append(max(0, part * chip - max(0, min(at))))
        behind.append(max(0, min(rows, max(at) + 1) - part * (chip + 1)))
    line = f"conv(bf16[8, H_X, 16, 64], bf16[{taps}, 1, 64, 32], stride=({stride},1), pad=({pad},0), "
    line += f"dilation=({dilation},1)) -> bf16[8, O_X, P, 32]"
    found = bound(line, on=on, H=rows, plan="borders" if max(before + behind) else "no communication")
    (windows,) = [op.op for op in found.ops if op.op.kind == "convolution"]
    assert windows.writes[0].dims == (8, made, 16, 32)
    assert found.flops == 2 * 8 * made * 16 * 32 * 64 * taps
    sides = max(map(sum, zip(before, behind, strict=True))) if on[0] == "h" else max(*before, *behind)
    assert sum(found.wire.values()) == sides * 8 * 16 * 64 * 2
    said = any("the last chip has fewer" in text for text in found.assumptions)
    assert said == bool(results % chips)


@pytest.mark.parametrize(
    ("taps", "stride", "pad", "more"), [(2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1), (7, 3, 2, 0), (8, 2, 3, 0)]
)
@pytest.mark.parametrize("on", ["h100:4", "v5e:4"])
def test_chips_exchange_the_borders_of_transposed_windows_that_multiply_an_image_by_their_stride(
    on: str, taps: int, stride: int, pad: int, more: int
) -> None:
    """Counted row by row: of which rows of other chips a chip's results have a part."""
    rows, chips = 48, 4
    part = rows // chips
    made = {row: {row * stride - pad + tap for tap in range(taps)} for row in range(rows)}
    own = [set(range(part * stride * c, part * stride * (c + 1))) for c in range(chips)]
    lower = max(sum(bool(made[row] & own[c]) for row in range(c * part)) for c in range(chips))
    upper = max(sum(bool(made[row] & own[c]) for row in range((c + 1) * part, rows)) for c in range(chips))
    line = f"conv_transpose(bf16[8, H_X, 64, 64], bf16[{taps}, 3, 64, 32], stride=({stride},1), pad=({pad},1), "
    line += f"output_pad=({more},0)) -> bf16[8, O_X, P, 32]"
    found, alone = bound(line, on=on, H=rows), bound(line.replace("_X", ""), on="h100", H=rows)
    assert found.flops * chips == alone.flops
    assert found.plan == ("Permute_X(borders of H)" if pad else "no communication")
    sides = lower + upper if on == "h100:4" else max(lower, upper)
    assert sum(found.wire.values()) == sides * 8 * 64 * 64 * 2


def test_a_program_of_windows_that_divide_the_image_exchanges_borders_all_along() -> None:
    line = "x = conv(bf16[8, H_X, 64, 64], bf16[3, 3, 64, 64], stride=2, pad=1); pool(x, window=3, stride=2, pad=1)"
    found = bound(line, on="h100:4", H=256)
    assert found.plan == "Permute_X(borders of H); Permute_X(borders of 128)"
    assert found.wire == {"nvlink": 8 * 64 * 64 * 2 + 8 * 32 * 64 * 2}
    odd = bound(line, on="h100:4", H=264)  # 33 rows of the first result on each chip, 17 of the second, 15 on the last
    assert odd.plan == "Permute_X(borders of H); Permute_X(borders of 132)"
    assert odd.wire == {"nvlink": 8 * 128 * 64 * 2 // 2 + 3 * 8 * 32 * 64 * 2}
    assert any("of 66 results along 132 the last chip has fewer" in text for text in odd.assumptions)


def test_a_floor_reads_the_rows_at_the_borders_of_a_part_once() -> None:
    line = "conv(bf16[8, H_X, 64, 64], bf16[3, 3, 64, 64], pad=1) -> bf16[8, H_X, 64, 64]"
    floor, unfused = (bound(line, on="h100:4", H=64, policy=policy).bytes for policy in ("minimal", "each-op"))
    part, row, weights = 8 * 16 * 64 * 64 * 2, 8 * 64 * 64 * 2, 3 * 3 * 64 * 64 * 2
    assert floor["hbm"] == 2 * part + weights
    assert unfused["hbm"] == floor["hbm"] + 3 * 2 * row  # sent, written, read


@pytest.mark.parametrize(
    ("line", "chips", "rows", "results"),
    [
        ("conv(bf16[1, H, 64, 64], bf16[3, 3, 64, 64], pad=1) -> bf16[1, H_X, 64, 64]", 4, 16 + 2, 16 * 64),
        ("conv(bf16[1, H, 64, 64], bf16[3, 3, 64, 64], pad=1) -> bf16[1, H_X, 64, 64]", 2, 32 + 1, 32 * 64),
        ("conv(bf16[1, H, 64, 64], bf16[3, 3, 64, 64], stride=2, pad=1) -> bf16[1, O_X, 32, 64]", 4, 16 + 1, 8 * 32),
        (
            "conv_transpose(bf16[1, H, 64, 64], bf16[4, 4, 64, 64], stride=2, pad=1) -> bf16[1, O_X, 128, 64]",
            4,
            16 + 2,
            32 * 128,
        ),
        ("pool(bf16[1, H, 64, 64], window=3, stride=1, pad=1) -> bf16[1, H_X, 64, 64]", 4, 16 + 2, 16 * 64),
        ("pool(bf16[1, H, 64, 64], window=2) -> bf16[1, O_X, 32, 64]", 4, 16, 8 * 32),
    ],
)
def test_a_slice_of_an_image_that_chips_hold_whole_reaches_over_its_borders(
    line: str, chips: int, rows: int, results: int
) -> None:
    """A chip in the middle reads the rows that its windows see on either side, from its own memory."""
    kernel = math.prod(map(int, line.partition("], bf16[")[2].partition("]")[0].split(", "))) if "conv" in line else 0
    found = shard(line, on=f"h100:{chips}", H=64).best
    assert found.name == "slice_{X,H}(bf16[1, H, 64, 64])"
    assert sum(found.bound.bytes.values()) == 2 * (rows * 64 * 64 + kernel + results * 64)


def test_results_that_chips_do_not_divide_are_sent_nowhere() -> None:
    found = shard("conv(bf16[1, H, 64, 64], bf16[3, 3, 64, 64]) -> bf16[1, O_X, 62, 64]", on="h100:4", H=66)
    assert not any("62_X" in plan.name for plan in found)


def test_transposed_windows_that_do_not_multiply_an_image_need_all_of_it() -> None:
    line = "conv_transpose(bf16[8, H_X, W, 64], bf16[3, 3, 64, 64], stride=2)"
    found = bound(line, on="h100:8", H=64, W=64, plan="AllGather_X(bf16[8, H_X, W, 64])")
    assert any("made with all of H on every chip" in text for text in found.assumptions)
    line = CONV.format(3, 1).replace("H_X", "H").replace("[N", "[N_X")
    assert not any("borders" in text for text in bound(line, on="h100:8", N=8, H=64, W=64).assumptions)


SEQUENCE = {"B": 1, "S": 4096, "N": 32, "K": 8, "H": 128}


@pytest.mark.parametrize("mask", ["", ", causal", ", causal, window=512"])
@pytest.mark.parametrize("chips", [8, 16])
def test_queries_that_are_split_see_all_keys_or_those_of_their_window(mask: str, chips: int) -> None:
    """The keys and values go to all, whatever their heads; the pairs are shared evenly."""
    kv = "bf16[B, S_X, K, H]"
    line = f"attention(bf16[B, S_X, N, H], {kv}, {kv}{mask}) -> bf16[B, S_X, N, H]"
    found = bound(line, on=f"h100:{chips}", plan=f"AllGather_X({kv}); AllGather_X({kv})", **SEQUENCE)
    alone = bound(line.replace("_X", ""), on="h100", **SEQUENCE)
    assert found.flops_by == {unit: flops / chips for unit, flops in alone.flops_by.items()}
    attended = found.ops[-1].op
    keys = 4096 // chips + 511 if "window" in mask else 4096
    assert [x.traffic_bytes for x in attended.reads] == [2 * 4096 * 32 * 128 // chips, *[2 * keys * 8 * 128] * 2]
    said = any("early and late queries" in text for text in found.assumptions)
    assert said == (mask == ", causal")
    best = bound(line, on=f"h100:{chips}", **SEQUENCE)
    assert found.lower <= best.upper or "borders" in str(best.plan)


@pytest.mark.parametrize(("window", "keys"), [(1, 24), (5, 24), (24, 24), (3, 40)])
@pytest.mark.parametrize("mask", ["causal, ", ""])
def test_split_queries_of_a_window_read_the_keys_that_they_see(window: int, keys: int, mask: str) -> None:
    """Counted query by query: the keys that one of four chips sees, which has six queries that lie side by side."""
    kv = "bf16[1, T, K, H]"
    line = f"attention(bf16[1, S_X, N, H], {kv}, {kv}, {mask}window={window}) -> bf16[1, S_X, N, H]"
    found = bound(line, on="h100:4", plan="no communication", S=24, T=keys, N=4, K=2, H=8)
    last = range(keys - 6, keys)  # the last query stands at the last key
    seen = {key for q in last for key in range(max(0, q - window + 1), q + 1)}
    assert [t.traffic_bytes for t in found.ops[0].op.reads[1:]] == [len(seen) * 2 * 8 * 2] * 2
    alone = bound(line.replace("_X", ""), on="h100", S=24, T=keys, N=4, K=2, H=8)
    assert found.flops * 4 == alone.flops


@pytest.mark.parametrize("window", [1, 2, 3, 5, 24])
@pytest.mark.parametrize("on", ["h100:4", "v5e:4", "h100:2"])
def test_chips_that_split_a_sequence_get_the_keys_that_its_window_reaches_back_to(on: str, window: int) -> None:
    """Counted query by query: the keys of other chips that one needs, and the pairs of the chip that has most."""
    kv, length, chips = "bf16[1, T_X, K, H]", 24, int(on[-1])
    line = f"attention(bf16[1, T_X, N, H], {kv}, {kv}, causal, window={window}) -> bf16[1, T_X, N, H]"
    found = bound(line, on=on, plan="borders" if window > 1 else None, T=length, N=4, K=2, H=8)
    part = length // chips
    seen = [
        {key for q in range(c * part, (c + 1) * part) for key in range(max(0, q - window + 1), q + 1)}
        for c in range(chips)
    ]
    others = max(len(keys - set(range(c * part, (c + 1) * part))) for c, keys in enumerate(seen))
    row = 2 * 2 * 8
    assert sum(found.wire.values()) == 2 * others * row
    assert sum(t.traffic_bytes for t in found.ops[-1].op.reads) == 2 * part * 4 * 8 + 2 * (part + others) * row
    pairs = [sum(min(q + 1, window) for q in range(c * part, (c + 1) * part)) for c in range(chips)]
    assert found.flops == 4 * 4 * 8 * max(pairs)
    assert found.math <= found.lower
    assert any("the first one has fewer" in text for text in found.assumptions)


def test_a_sequence_split_over_two_axes_has_the_pairs_of_the_last_chip() -> None:
    kv, sizes = "bf16[B, T_{XY}, K, H]", {"B": 2, "T": 8192, "N": 32, "K": 8, "H": 128}
    line = f"attention(bf16[B, T_{{XY}}, N, H], {kv}, {kv}, causal, window=512) -> bf16[B, T_{{XY}}, N, H]"
    alone = bound(line.replace("_{XY}", ""), on="h100", **sizes)
    last = 4 * 128 * 2 * 32 * 1024 * 512  # each of its queries sees a whole window
    plans = shard(line, on="h100:8", mesh={"X": 4, "Y": 2}, **sizes)
    for plan in list(plans)[:8]:
        repeated = any("every chip along" in text for text in plan.bound.assumptions)
        has_borders = "borders" in plan.name
        assert repeated or plan.bound.flops == (last if has_borders else alone.flops / 8), plan.name


def test_a_window_over_a_split_sequence_has_one_number_as_a_formula_and_in_arrays() -> None:
    kv, sizes = "bf16[1, T_X, 8, 128]", {"plan": "borders", "on": "h100:8"}
    line = f"attention(bf16[1, T_X, 32, 128], {kv}, {kv}, causal, window=1000) -> bf16[1, T_X, 32, 128]"
    lengths = [64, 800, 8192, 32768]
    plain = [bound(line, T=length, **sizes).lower for length in lengths]
    assert bound(line, T=lengths, **sizes).lower == pytest.approx(plain, rel=1e-12)
    assert roofline.formula(line, **sizes)(T=lengths)["lower"] == pytest.approx(plain, rel=1e-12)
    gathered = [bound(line, on="h100:8", T=length, plan=f"AllGather_X({kv}); AllGather_X({kv})") for length in lengths]
    assert all(one <= other.lower for one, other in zip(plain, gathered, strict=True))


def test_more_chips_than_key_heads_do_not_repeat_the_work() -> None:
    line = "attention(bf16[B, S_X, N, H], bf16[B, S_X, K, H], bf16[B, S_X, K, H], causal) -> bf16[B, S_X, N, H]"
    found = bound(line, on="h100:16", **{**SEQUENCE, "S": 131072})
    assert found.lower == pytest.approx(4 * 32 * 128 * 131072 * 131073 / 2 / 16 / 989.4e12)


@pytest.mark.parametrize(("heads", "chips"), [(1, 8), (8, 16), (4, 8)])
def test_several_chips_share_a_key_head(heads: int, chips: int) -> None:
    """A latent cache, or fewer key heads than chips of tensor parallelism: each chip reads the head that it uses."""
    line = "attention(bf16[B, 1, N_X, H], bf16[B, T, K, H], bf16[B, T, K, H], causal) -> bf16[B, 1, N_X, H]"
    sizes = {"B": 3, "T": 4096, "N": 32, "K": heads, "H": 128}
    found = bound(line, on=f"h100:{chips}", plan="no communication", **sizes)
    reads = [x.traffic_bytes for x in found.ops[0].op.reads]
    assert reads == [2 * 3 * 32 * 128 // chips, *[2 * 3 * 4096 * 128] * 2]
    assert found.flops == 4 * 3 * 32 // chips * 4096 * 128
    assert found.ops[0].op.reads[1].capacity_bytes == 2 * 3 * 4096 * heads * 128


@pytest.mark.parametrize(("split", "sharing", "read"), [(4, 2, 1), (4, 8, 1), (2, 4, 1), (2, 2, 2), (8, 2, 1)])
def test_chips_split_the_key_heads_and_share_each(split: int, sharing: int, read: int) -> None:
    """Over one axis eight key heads are split, over another chips share each that is left, or split it further."""
    kv = "bf16[B, T, K_X, H]"
    line = f"attention(bf16[B, 1, N_{{XY}}, H], {kv}, {kv}) -> bf16[B, 1, N_{{XY}}, H]"
    sizes = {"B": 3, "T": 4096, "N": 32, "K": 8, "H": 128}
    found = bound(line, on=f"h100:{split * sharing}", mesh={"X": split, "Y": sharing}, **sizes)
    assert sum(found.wire.values()) == 0
    attended = found.ops[-1].op
    assert [x.traffic_bytes for x in attended.reads[1:]] == [2 * 3 * 4096 * read * 128] * 2
    assert found.flops == 4 * 3 * 32 * 4096 * 128 // (split * sharing)


def test_a_formula_of_split_queries_has_the_numbers_of_its_answers() -> None:
    line = "attention(bf16[B, S_X, N, H], bf16[B, S_X, K, H], bf16[B, S_X, K, H], causal) -> bf16[B, S_X, N, H]"
    plan = "AllGather_X(bf16[B, S_X, K, H]); AllGather_X(bf16[B, S_X, K, H])"
    heads = {name: SEQUENCE[name] for name in "NKH"}
    rows = bound(line, on="h100:8", plan=plan, B=1, S=[4096, 8192], **heads)
    assert rows.lower[0] == pytest.approx(bound(line, on="h100:8", plan=plan, **SEQUENCE).lower)
    chips = bound(line, on="h100", mesh={"X": "n"}, plan=plan, n=[8, 16], **SEQUENCE)
    assert chips.flops[0] == 2 * chips.flops[1]
