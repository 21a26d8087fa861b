"""Convolutions, transposed ones and pooling: the formulas against nested loops over every result and tap."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.strategies import LONG, some

from roofline import bound, formula
from roofline.errors import InputError, SizeError
from roofline.notation import program
from roofline.ops import build
from roofline.ops.convolution import MOST_TAPS, Reach, Window, convolve, valid_taps, windows
from roofline.ops.pooling import pool, pool_backward
from roofline.sizes import symbol
from roofline.work import Op, Tensor

one_dim = st.tuples(
    st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4) | st.just("same"), st.integers(1, 3)
)
one_spread = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))


def taps(L: int, k: int, s: int, p: int | str, d: int) -> list[list[int]]:
    """For each result of one dimension, the positions of its taps, as the definition has it."""
    if p == "same":
        results = -(-L // s)
        before = max(0, (results - 1) * s + d * (k - 1) + 1 - L) // 2
        return [[o * s - before + t * d for t in range(k)] for o in range(results)]
    found = []
    start = -p
    while start + d * (k - 1) < L + p:
        found.append([start + t * d for t in range(k)])
        start += s
    return found


def elements_read(L: int, every: list[list[int]]) -> tuple[int, int]:
    """Elements of one dimension that are read, and of these those up to the last window: all where none is left out."""
    met = {at for positions in every for at in positions if 0 <= at < L}
    end = max(0, min(L, every[-1][-1] + 1))
    return (L, end) if len(met) == end else (len(met), len(met))


@given(dims=st.lists(one_dim, min_size=1, max_size=2), B=st.integers(1, 2), groups=st.integers(1, 2),
       cin=st.integers(1, 2), cout=st.integers(1, 2))  # fmt: skip
def test_convolution(dims: list, B: int, groups: int, cin: int, cout: int) -> None:
    padding = dims[0][3]
    dims = [(L, k, s, padding if "same" in (p, padding) else p, d) for L, k, s, p, d in dims]
    every = [taps(*dim) for dim in dims]
    assume(all(every))
    multiplies = valid = adds = valid_adds = 0
    for _ in range(B * groups * cout):
        for result in product(*every):
            count = valid_count = 0
            for position in product(*result):
                inside = all(0 <= at < L for at, (L, *_) in zip(position, dims, strict=True))
                count += cin
                valid_count += cin * inside
            multiplies, valid = multiplies + count, valid + valid_count
            adds, valid_adds = adds + count - 1, valid_adds + max(0, valid_count - 1)
    lengths, kernel, stride, pad, dilation = zip(*dims, strict=True)
    x = Tensor("x", (B, *lengths, groups * cin), "bf16")
    w = Tensor("w", (*kernel, cin, groups * cout), "int8", "weight")
    bias = Tensor("b", (groups * cout,), "fp32", "weight")
    options = {
        "stride": stride,
        "pad": "same" if padding == "same" else pad,
        "dilation": dilation,
        "groups": groups,
        "compute": "bf16",
    }

    def flops(**more: bool) -> int:
        return int(convolve(x, w, bias, **options, **more).work.total("flops", "matrix"))

    assert flops() == 2 * multiplies
    assert flops(exact=True) == multiplies + adds
    assert flops(count_padding=False) == 2 * valid
    assert flops(count_padding=False, exact=True) == valid + valid_adds
    op = convolve(x, w, bias, **options)
    results = [len(found) for found in every]
    assert op.writes[0].dims == (B, *results, groups * cout)
    size = B * int(np.prod(results)) * groups * cout
    assert op.work.total("flops", "vector") == size
    read, kept = zip(*(elements_read(dim[0], found) for dim, found in zip(dims, every, strict=True)), strict=True)
    each = 2 * B * groups * cin
    left = {"between": each * (prod(lengths) - prod(read)), "beyond": each * (prod(read) - prod(kept))}
    assert {name: op.options.get(name, 0) for name in left} == left
    assert [t.traffic_bytes for t in (*op.reads, *op.writes)] == [
        each * prod(read),
        int(np.prod(kernel)) * cin * groups * cout,
        4 * groups * cout,
        2 * size,
    ]
    assert 2 * op.dims["m"] * op.dims["n"] * op.dims["k"] * op.dims["batch"] == 2 * multiplies


@given(dims=st.lists(one_spread, min_size=1, max_size=2), extra=st.integers(0, 2), B=st.integers(1, 2),
       groups=st.integers(1, 2), cin=st.integers(1, 2), cout=st.integers(1, 2))  # fmt: skip
def test_transposed_convolution(dims: list, extra: int, B: int, groups: int, cin: int, cout: int) -> None:
    results = [(L - 1) * s - 2 * p + d * (k - 1) + extra + 1 for L, k, s, p, d in dims]
    assume(all(size >= 1 for size in results))
    every: Counter = Counter()
    for place in product(*(range(L) for L, *_ in dims)):
        for tap in product(*(range(k) for _, k, *_ in dims)):
            at = tuple(i * s - p + t * d for i, t, (_, _, s, p, d) in zip(place, tap, dims, strict=True))
            every[at] += cin
    kept = {at: n for at, n in every.items() if all(0 <= a < size for a, size in zip(at, results, strict=True))}
    times = B * groups * cout
    lengths, kernel, stride, pad, dilation = zip(*dims, strict=True)
    x = Tensor("x", (B, *lengths, groups * cin), "bf16")
    w = Tensor("w", (*kernel, groups * cin, cout), "bf16", "weight")

    def flops(**more: bool) -> int:
        op = convolve(
            x, w, transposed=True, stride=stride, pad=pad, dilation=dilation, groups=groups, output_pad=extra, **more
        )
        assert op.writes[0].dims == (B, *results, groups * cout)
        assert op.dims == {"m": B * prod(lengths), "n": cout * prod(kernel), "k": cin, "batch": groups}
        return int(op.work.total("flops", "matrix"))

    assert flops() == 2 * times * sum(every.values())
    assert flops(count_padding=False) == 2 * times * sum(kept.values())
    assert flops(exact=True) == times * sum(2 * n - 1 for n in every.values())
    assert flops(exact=True, count_padding=False) == times * sum(2 * n - 1 for n in kept.values())


@given(dims=st.lists(one_dim, min_size=1, max_size=2), B=st.integers(1, 2), C=st.integers(1, 3))
def test_pooling(dims: list, B: int, C: int) -> None:
    dims = [(L, k, s, 0 if p == "same" else p, d) for L, k, s, p, d in dims]
    every = [taps(*dim) for dim in dims]
    assume(all(every))
    least, again, before = 0, 0, set[tuple[int, ...]]()
    for result in product(*every):
        met = {at for at in product(*result) if all(0 <= a < L for a, (L, *_) in zip(at, dims, strict=True))}
        least += max(0, len(met - before) - (not met & before))  # each new element joins the rest of its window
        again += bool(met & before)  # a gradient is added to one of another window
        before |= met
    lengths, window, stride, pad, dilation = zip(*dims, strict=True)
    options = (
        f"window={_written(window)}, stride={_written(stride)}, pad={_written(pad)}, dilation={_written(dilation)}"
    )
    text = f"pool(bf16[{B}, {', '.join(map(str, lengths))}, {C}], {options})"
    op = build_one(text)
    assert op.writes[0].dims == (B, *(len(found) for found in every), C)
    counted = op.work.total("flops", "vector")
    assert counted <= B * C * least
    assert any(p and d > 1 for *_, p, d in dims) or counted == B * C * least
    reach = [Window(k, s, p, d).reach(L, len(own)) for (L, k, s, p, d), own in zip(dims, every, strict=True)]
    sizes = {"elements": op.reads[0].elements, "results": op.writes[0].elements, "places": reach}
    added = pool_backward("pool", op.writes, op.reads, **sizes).work.total("flops", "vector")
    assert added <= B * C * again
    assert any(p and d > 1 for *_, p, d in dims) or added == B * C * again


def test_windows_in_the_padding_alone_take_no_comparison() -> None:
    """Three rows of three, each under 13 windows of a row, ten of which meet padding alone."""
    x, y = Tensor("x", (3, 3), "fp32"), Tensor("y", (13, 1), "fp32")
    op = pool("pool", [x], [y], results=13, window=3, places=[Reach(3, 13, 1, 1, 5), Reach(3, 1, 3)])
    assert op.work.total("flops") == 9 - 3


def test_windows_at_places_unknown_meet_as_many_elements_as_there_are() -> None:
    x, y = Tensor("x", (10,), "fp32"), Tensor("y", (3,), "fp32")
    found = [pool("pool", [x], [y], results=3, window=window).work.total("flops") for window in (2, 4)]
    assert found == [3 * 2 - 3, 10 - 3]


def _written(sizes: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, sizes))})" if len(sizes) > 1 else str(sizes[0])


def test_the_stride_of_a_pool_is_its_window() -> None:
    assert build_one("pool(bf16[1, 9, 9, 1], window=3)").writes[0].dims == (1, 3, 3, 1)


@given(dim=one_dim)
def test_taps_of_arrays_are_those_of_each_element(dim: tuple) -> None:
    L, k, s, p, d = dim
    window = Window(k, s, p, d)
    many = np.arange(L, L + 5, dtype=float)
    assume(all(taps(int(size), k, s, p, d) for size in many))
    expected = [window.taps(int(size), window.results(int(size))) for size in many]
    assert np.array_equal(window.taps(many, window.results(many)), expected)


# ---- errors


def build_one(text: str, **options: bool) -> Op:
    return build(program(text), {}, **options)[0]


def test_uncounted_padding_needs_a_plain_kernel() -> None:
    text = "conv(bf16[1, 32, 3], bf16[K, 3, 8], pad=1)"
    with pytest.raises(SizeError, match="which taps of a window of K meet padding is counted for a number only"):
        build_one(text, count_padding=False)
    assert (
        build_one("conv(bf16[1, 32, 3], bf16[K, 3, 8])", count_padding=False).work
        == build_one("conv(bf16[1, 32, 3], bf16[K, 3, 8])").work
    )
    wide = Tensor("w", (MOST_TAPS + 1, 1, 1), "bf16")
    with pytest.raises(SizeError, match="with an open size at most 100 taps of a window are counted, not 101"):
        convolve(Tensor("x", (1, symbol("L"), 1), "bf16"), wide, pad=1, count_padding=False)


def test_taps_that_meet_an_element_are_counted_in_no_time() -> None:
    rng = random.Random(3)
    for _ in range(300):
        length, results, taps, stride, low, dilation, base = (rng.randint(1, 7) for _ in range(7))
        low -= 3
        places = (o * stride - low + t * dilation for o in range(results) for t in range(taps))
        met = sum(place in range(0, length * base, base) for place in places)
        assert valid_taps(length, results, taps, stride=stride, low=low, dilation=dilation, base=base) == met
    wide = Tensor("w", (10**9 + 1, 1, 1), "bf16")
    op = convolve(Tensor("x", (1, 10**9, 1), "bf16"), wide, pad=10**9, dilation=2, count_padding=False)
    assert op.work.total("flops") == 2 * (10**9 + 2 * sum_of_even_gaps(10**9))


def sum_of_even_gaps(length: int) -> int:
    """Σ (length − 2·j) for 1 ≤ j ≤ length/2: the elements that a tap 2·j away from the middle meets."""
    half = length // 2
    return half * length - half * (half + 1)


def x_of(*dims: int) -> Tensor:
    return Tensor("x", dims, "bf16")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convolve(x_of(1, 3, 4), x_of(5, 4, 8)), "a window of 5 does not fit a size of 3; pad more"),
        (lambda: convolve(x_of(1, 9, 6), x_of(3, 2, 8), groups=4), "6 channels do not fall into 4 groups"),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 2, 6), groups=4), "6 output channels do not fall into 4 groups"),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 4, 8)), "x has 8 channels, the kernel is for 4"),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 8, 8), stride=(2, 2)), "stride has 2 numbers for 1 spatial"),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 8, 8), stride=0), "size stride is 0"),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 8, 8), pad=-1), "size pad is -1"),
        (
            lambda: convolve(x_of(1, 1, 8), x_of(1, 8, 8), pad=2, transposed=True),
            "nothing is left of a size of 1; pad less",
        ),
        (lambda: convolve(x_of(1, 9, 8), x_of(3, 4, 8), transposed=True), "x has 8 channels, the kernel is for 4"),
    ],
)
def test_messages(call: object, message: str) -> None:
    with pytest.raises(SizeError, match=message):
        call()  # type: ignore[operator]


def test_an_array_with_one_size_too_small_is_an_error() -> None:
    x = Tensor("x", (1, np.array([8.0, 3.0]), 4), "bf16")
    with pytest.raises(SizeError, match="a window of 5 does not fit a size of 3…8"):
        convolve(x, Tensor("w", (5, 4, 8), "bf16"))


def test_one_number_stands_for_each_dimension() -> None:
    assert windows((3, 5), stride=2, pad="same") == (Window(3, 2, "same"), Window(5, 2, "same"))


# ---- worked figures


def test_vgg16_convolutions() -> None:
    """VGG16 at 224×224 (arXiv:1409.1556, configuration D) has 15,346,630,656 multiply-adds in its convolutions."""
    layers = [(224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128), (56, 128, 256), (56, 256, 256)]
    layers += [(56, 256, 256), (28, 256, 512), (28, 512, 512), (28, 512, 512)] + [(14, 512, 512)] * 3
    convolutions = [build_one(f"conv(fp32[1,{s},{s},{c}], fp32[3,3,{c},{o}], same)") for s, c, o in layers]
    linear = [build_one(f"fp32[1,{i}] @ fp32[{i},{o}]") for i, o in ((25088, 4096), (4096, 4096), (4096, 1000))]
    assert sum(op.work.total("flops") for op in convolutions) == 2 * 15_346_630_656
    assert sum(op.work.total("flops") for op in (*convolutions, *linear)) == 30_940_528_640
    weights = sum(t.elements for op in (*convolutions, *linear) for t in op.reads if t.role == "weight")
    biases = sum(op.writes[0].dims[-1] for op in (*convolutions, *linear))
    assert weights + biases == 138_357_544


def test_mobilenet_separable_block() -> None:
    """A depthwise 3×3 and a pointwise layer cost 1/O + 1/9 of the full convolution (arXiv:1704.04861, section 3.1)."""
    full = build_one("conv(bf16[1,14,14,512], bf16[3,3,512,512], same)").work.total("flops")
    depthwise = build_one("conv(bf16[1,14,14,512], bf16[3,3,1,512], same, depthwise)")
    pointwise = build_one("conv(bf16[1,14,14,512], bf16[1,1,512,512])")
    assert depthwise.dims == {"m": 196, "n": 1, "k": 9, "batch": 512}
    assert depthwise.work.total("flops") + pointwise.work.total("flops") == pytest.approx(full * (1 / 512 + 1 / 9))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conv(bf16[1, 14, 14, 64], bf16[3, 3, 64, 64])", True),
        ("conv(bf16[1, 512, 64], bf16[3, 64, 64])", True),
        ("conv_transpose(bf16[1, 8, 8, 16], bf16[4, 4, 16, 32])", True),
        ("conv(bf16[1, 8192, 512], bf16[4096, 1, 512], same, depthwise)", True),  # a long one, by Fourier's way
        ("conv(bf16[1, 14, 14, 64], bf16[1, 1, 64, 64])", False),
        ("conv(bf16[1, 512, 64], bf16[4, 1, 64], depthwise)", False),
    ],
)
def test_an_answer_says_where_another_algorithm_may_be_faster_than_a_convolution_s_floor(text: str, said: bool) -> None:
    """Winograd's way multiplies 2.25 times less for 3x3 windows (arXiv:1509.09308); libraries choose it by shape."""
    counting = [line for line in bound(text, on="h100").assumptions if line.kind == "counting"]
    assert any("Winograd" in line for line in counting) == said


def test_padded_positions_are_said_to_count() -> None:
    text = "conv(bf16[1, 8, 8, 3], bf16[3, 3, 3, 16], pad=1)"
    assert build_one(text).note == "padded positions of a convolution are counted"
    assert build_one(text, count_padding=False).note == "padded positions of a convolution are not counted"
    assert build_one("conv(bf16[1, 8, 8, 3], bf16[3, 3, 3, 16])").note == ""


def test_a_line_says_its_layout_and_that_nothing_is_padded() -> None:
    said = "conv has channels last, kernel sizes first, and no padding: pad=same keeps its sizes"
    padded = program("conv(bf16[8, 9, 9, 3], bf16[3, 3, 3, 4], pad=1)").assumptions
    assert padded[0] == "conv has channels last, kernel sizes first"
    plain = "conv(bf16[1, 8, 8, 4], bf16[3, 3, 4, 4])"
    assert said in program(plain).assumptions
    for padding in ("pad=same", "valid", "pad=1"):
        assert said not in program(plain.replace("])", f"], {padding})")).assumptions


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("conv(bf16[8, 3, 224, 224], bf16[64, 3, 7, 7])", "conv(bf16[8, 224, 224, 3], bf16[7, 7, 3, 64])"),
        ("conv(bf16[B, C, L], bf16[O, C, 3], pad=1)", "conv(bf16[B, L, C], bf16[3, C, O])"),
    ],
)
def test_channels_that_stand_first_are_told_how_they_stand_last(line: str, last: str) -> None:
    with pytest.raises(InputError) as refused:
        program(line)
    said = "stand first, as PyTorch has them; channels are last and filters behind their kernel: "
    assert f"{said}{last}" in str(refused.value)
    program(last)


@pytest.mark.parametrize(("stride", "dilation", "pad"), some([(5, 1, 0), (2, 2, 2), (4, 2, 1), (3, 3, 1)], 2, 1))
def test_a_formula_reads_what_windows_of_a_stride_meet_in_numbers(stride: int, dilation: int, pad: int) -> None:
    line = f"pool(bf16[1, H, 1], window=3, stride={stride}, dilation={dilation}, pad={pad})"
    formula = bound(line, on="h100").total_bytes
    for length in range(7, 24):
        results = (length + 2 * pad - 2 * dilation - 1) // stride + 1
        met = {o * stride - pad + tap * dilation for o in range(results) for tap in range(3)} & set(range(length))
        counted = formula.xreplace(dict.fromkeys(formula.free_symbols, length))
        assert counted == bound(line, on="h100", H=length).total_bytes == 2 * (len(met) + results)


@pytest.mark.parametrize(
    ("k", "stride", "dilation", "pad"),
    some(
        [(3, 2, 2, "same"), (3, 1, 2, 0), (7, 3, 2, 6), (2, 1, 3, 1), (3, 2, 3, 2), (2, 3, 2, 0), (1, 3, 3, "same")],
        4,
    ),
)
def test_what_dilated_windows_read_is_one_number_in_arrays_and_in_formulas(
    k: int, stride: int, dilation: int, pad: int | str
) -> None:
    line = f"conv(bf16[1, X, 1], bf16[{k}, 1, 1], stride={stride}, pad={pad}, dilation={dilation})"
    X = np.arange(1 if pad in ("same", 6) else dilation * (k - 1) + 1, 24 if LONG else 16)
    numbers = [bound(line, on="h100", X=int(x)).bytes["hbm"] for x in X]
    assert formula(line, on="h100")(X=X, W_hbm=1.0)["time.hbm"].tolist() == numbers
    for x, moved in zip(X, numbers, strict=True):
        each = taps(int(x), k, stride, pad, dilation)
        met = {place for window in each for place in window if 0 <= place < x}
        assert moved >= 2 * (len(met) + len(each) + k)
