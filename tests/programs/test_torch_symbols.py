"""Open sizes: a formula at many sizes is the count at those sizes; where PyTorch needs the number, an error says so."""

from __future__ import annotations

import math
import warnings
from unittest import TestCase

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn

from roofline.errors import SizeError
from roofline.ops.counting import CONVENTIONS
from roofline.programs import trace
from roofline.sizes import is_symbol, symbol
from tests.programs import networks
from tests.programs.networks import on_shapes
from tests.strategies import LONG, some

B, S = symbol("B"), symbol("S")
POLICIES = ("each-op", "fused", "minimal")


def _at(amount, sizes):
    return amount.subs({symbol(name): size for name, size in sizes.items()}) if is_symbol(amount) else amount


class Spectrum(nn.Module):
    """What PyTorch takes apart late: transforms, of which one converts, a norm over a matrix, a solve."""

    def forward(self, x):
        found = torch.fft.rfft(x).abs()
        return torch.fft.fft2(x).abs(), torch.linalg.matrix_norm(found), torch.linalg.solve(x.T @ x, x.T)


class Inverse(nn.Module):
    """Rows in another order and back, as experts get them: places are written where an order names, or a mask."""

    def forward(self, x, order):
        rows = order.flatten()
        back = torch.empty_like(rows)
        back[rows] = torch.arange(rows.shape[0], device=rows.device)
        kept = x.repeat_interleave(order.shape[1], 0)[rows]
        kept[kept > 1] = 0
        return kept[back]


class Enlarged(nn.Module):
    """What PyTorch takes apart where sizes are open: resampling, no dropout, and a slice of all there is."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        x = F.dropout(self.first(x), 0.0, training=True)
        x = F.interpolate(F.interpolate(x, scale_factor=2, mode="bilinear"), scale_factor=1.5)
        return self.last(x)[:, :, 0], F.interpolate(x, size=(5, 7), mode="bicubic")


def _encoder():
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)


CASES = [
    (networks.mobilenet_v1, ["fp32[B, 3, 224, 224]"], [{"B": n} for n in (2, 33)], False),
    (networks.resnet50, ["fp32[B, 3, 224, 224]"], [{"B": n} for n in (2, 5)], True),
    (_encoder, ["fp32[B, S, 32]"], [{"B": b, "S": s} for b, s in ((2, 2), (2, 5), (7, 64), (64, 3))], True),
    (lambda: networks.GPT2(layers=2), ["int64[B, S]"], [{"B": b, "S": s} for b, s in ((2, 5), (70, 1024))], False),
    (lambda: networks.Llama(layers=2), ["int64[B, S]"], [{"B": b, "S": s} for b, s in ((2, 5), (7, 64))], True),
    (lambda: nn.LSTM(8, 16, 2, bidirectional=True), ["fp32[S, B, 8]"], [{"B": 3, "S": 11}], False),
    (Inverse, ["fp32[B, 8]", "int64[B, 2]"], [{"B": n} for n in (2, 7, 5000)], False),
    (Spectrum, ["fp32[B, 64]"], [{"B": n} for n in (2, 9)], False),
    (Enlarged, ["fp32[B, 3, S, S]"], [{"B": 3, "S": s} for s in (8, 30)], True),
    (lambda: nn.Conv2d(3, 4, 3, 2, 1), ["fp32[B, 3, S, S]"], [{"B": 3, "S": s} for s in (7, 8, 33)], True),
]  # fmt: skip
#: Whole networks of the same layers again, which take seconds.
LARGE = [
    (networks.vgg16, ["fp32[B, 3, 224, 224]"], [{"B": n} for n in (1, 2, 7, 64)], False),
    (networks.GPT2, ["int64[B, S]"], [{"B": 70, "S": 1024}], False),
    CASES.pop(1),
]


@pytest.mark.parametrize(("build", "inputs", "points", "backward"), [*some(CASES, 5, 1), *(LARGE if LONG else ())])
def test_a_formula_is_the_count_at_every_size(build, inputs, points, backward):
    model = on_shapes(build).eval()
    opened = trace(model, *inputs, backward=backward)
    for sizes in points if LONG else points[len(points) // 2 :]:
        closed = trace(model, *inputs, sizes=sizes, backward=backward)
        assert len(opened.ops) == len(closed.ops)
        for convention in CONVENTIONS:
            found, wanted = _at(opened.flops(convention), sizes), closed.flops(convention)
            assert found == wanted or float(found) == pytest.approx(wanted, rel=1e-15), (convention, sizes)
        for policy in POLICIES:
            assert _at(opened.bytes(policy), sizes) == closed.bytes(policy), (policy, sizes)


def test_the_formulas_themselves():
    vgg = trace(on_shapes(networks.vgg16), "fp32[B, 3, 224, 224]")
    assert vgg.flops() == 30_940_528_640 * B
    assert vgg.inputs == ("fp32[B, 3, 224, 224]",)
    assert "the formulas hold for whole B from 2 on" in vgg.assumptions
    layers = 32 if LONG else 2
    llama = trace(on_shapes(networks.Llama, layers=layers).to(torch.bfloat16), "int32[B, S]")
    weights = 32000 * 4096 + layers * ((6_738_415_616 - 2 * 32000 * 4096 - 65 * 4096) // 32)
    assert (llama.flops("unmasked") - 2 * weights * B * S - layers * 4 * 4096 * B * S**2).expand() == 0
    causal = trace(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), "bf16[B, 4, S, 8]")
    assert causal.flops() - 2 * B * 4 * 16 * S * (S + 1) / 2 == 0


def test_some_sizes_open_and_some_given():
    found = trace(nn.Linear(8, 16), "fp32[B, S, 8]", sizes={"S": 10})
    assert found.flops() == 2 * 10 * 8 * 16 * B


def test_a_lookup_reads_rows_at_most_the_table():
    found = trace(nn.Embedding(100, 64), "int64[B]").bytes()
    assert [found.subs(B, n) for n in (2, 100, 500)] == [n * 8 + min(n, 100) * 256 + n * 256 for n in (2, 100, 500)]


def test_conditions_of_the_program_are_assumptions():
    found = trace(lambda x: (x if x.shape[0] > 100 else x * 2).relu(), "fp32[B, 8]")
    assert "the formulas hold for whole B from 2 on, where B > 100" in found.assumptions
    (line,) = trace(lambda x: x.view(4, -1).relu(), "fp32[B, 8]").assumptions
    assert "Mod(B, 4) = 0" in line


def test_under_a_roof_with_an_open_batch():
    program = trace(nn.Linear(4096, 4096, dtype=torch.bfloat16, device="meta"), "bf16[B, 4096]")
    answer = program.bound("h100")
    rates = {use.rate.value: use.rate.plain for use in answer.uses}
    for size in (2, 64, 4096):
        plain = trace(program_of(size), f"bf16[{size}, 4096]").bound("h100")
        assert float(answer.lower.subs({B: size, **rates})) == pytest.approx(plain.lower, rel=1e-12)
    assert program.to_dict()["flops"]["flops"] == "33554432*B"


def program_of(size):
    return nn.Linear(4096, 4096, dtype=torch.bfloat16, device="meta")


def _unrolled(x):
    for _ in range(x.shape[0]):
        x = x + 1
    return x


def _forward_over_reverse(x):
    with warnings.catch_warnings(action="ignore"):
        return torch.func.jvp(torch.func.grad(lambda y: y.softmax(-1).sum()), (x,), (x,))


ERRORS = [
    (_unrolled, ["fp32[B, 8]"], r"symbols\.py:\d+: B cannot .* here the program needs its number; give it a number"),
    (lambda x: x / math.sqrt(x.shape[0]), ["fp32[S, 8]"], "S cannot stay open: .*; give it a number: S=…"),
    (lambda x, y: x @ y, ["fp32[4, B]", "fp32[S, 4]"], r"mm\(fp32\[4, B\], fp32\[S, 4\]\) fails: .*got \[4, B\]"),
    (lambda x, y: x + y, ["fp32[B]", "fp32[S]"], r"add\(fp32\[B\], fp32\[S\]\) fails: .*length S.*check the shapes"),
    (lambda x: torch.cov(x.T), ["fp32[B, 3]"], r"symbols\.py:\d+: PyTorch needs the numbers of open sizes here; give"),
    (_forward_over_reverse, ["fp32[B, 3]"], r"symbols\.py:\d+: PyTorch needs the numbers of open sizes here; give"),
    (nn.Linear(8, 8), ["fp32[B, S]"], r"addmm\(fp32\[8\], fp32\[B, S\], .*got \[B, S\]"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "inputs", "message"), ERRORS)
def test_a_size_that_cannot_stay_open(program, inputs, message):
    with TestCase().assertNoLogs(level="WARNING"), pytest.raises(ValueError, match=message) as found:
        trace(program, *inputs)
    assert "s44" not in str(found.value)
    assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0


def test_sizes_that_are_open_without_end():
    names = ", ".join(f"D{n}" for n in range(11))
    with pytest.raises(SizeError, match="more than 10 open sizes; give some of them a number"):
        trace(nn.ReLU(), f"fp32[{names}]")


def test_a_part_of_an_open_size_meets_numbers_that_the_program_makes():
    traced = trace(lambda x: x[:, ::2] @ torch.ones(8, 5), "fp32[B, 6, 8]")
    assert traced.flops() == 2 * 3 * 8 * 5 * symbol("B")
    assert traced.bytes("minimal") == 4 * (3 * 8 + 3 * 5) * symbol("B")


@pytest.mark.parametrize("positions", some([12, 64, 256], 3, 1))
def test_a_table_of_positions_says_up_to_which_size_the_formulas_hold(positions):
    table = nn.Parameter(torch.zeros(positions, 8))
    traced = trace(lambda x: x + table[: x.shape[1]], "fp32[B, S, 8]")
    assert traced.bytes("minimal") == 4 * 8 * (2 * B * S + S)
    assert f"where S ≤ {positions}" in traced.assumptions[0]


def test_products_of_several_say_for_which_sizes_their_order_is_the_cheapest():
    given = "fp32[B, 8]", "fp32[8, 16]", "fp32[16, 4]"
    traced = trace(lambda *matrices: torch.linalg.multi_dot(matrices), *given)
    assert traced.flops() == 2 * 4 * 8 * 16 + 2 * 8 * 4 * B
    assert "where 192*B ≥ 32*B + 512" in traced.assumptions[0]
    pytest.importorskip("opt_einsum")
    traced = trace(lambda *matrices: torch.einsum("bi,ij,jk->bk", *matrices), *given)
    assert traced.flops() == 2 * 4 * 8 * 16 + 2 * 8 * 4 * B
    assert "64*B + 1024 < 384*B" in traced.assumptions[0]


class Trained(nn.Module):
    """What PyTorch has no kernel of, each with a gradient: a loss, a slope, an image that grows, a variance."""

    def __init__(self):
        super().__init__()
        self.first, self.slope, self.last = nn.Conv2d(2, 3, 1), nn.PReLU(), nn.Linear(3, 5)

    def forward(self, x, target):
        x = F.interpolate(self.slope(self.first(x)), scale_factor=2)
        rows = self.last(x.var((2, 3)))
        return F.cross_entropy(rows, target) + F.pairwise_distance(rows, rows.flip(1)).sum()


def test_gradients_of_what_pytorch_takes_apart_count_with_open_sizes():
    opened = trace(Trained(), "fp32[B, 2, 4, 4]", "int64[B]", backward=True)
    fixed = trace(Trained(), "fp32[6, 2, 4, 4]", "int64[6]", backward=True)
    for policy in ("each-op", "minimal"):
        assert _at(opened.bytes(policy), {"B": 6}) == fixed.bytes(policy)
    assert _at(opened.flops("all"), {"B": 6}) == fixed.flops("all")
    assert torch.ops.aten.prelu.default._dispatch_cache.get(torch._C.DispatchKey.AutogradMeta) is None


@pytest.mark.parametrize(("program", "inputs"), [
    (lambda x, at: x[at] * 2, ["fp32[50, 8]", "int64[B]"]),
    (lambda x, at: x[at] * 2, ["fp32[B, 8]", "int64[5]"]),
    (lambda x, at: x.gather(0, at), ["fp32[50, 8]", "int64[B, 8]"]),
    (lambda x, at, rows: x.index_add(0, at, rows), ["fp32[50, 8]", "int64[B]", "fp32[B, 8]"]),
], ids=["rows of a table", "a table of open rows", "elements", "added"])  # fmt: skip
def test_indices_of_an_open_number_hold_for_every_number(program, inputs):
    opened = trace(program, *inputs, input_gradients=True)
    (said,) = opened.assumptions[-1:]
    assert "where" not in said
    for number in (3, 4, 96):
        fixed = trace(program, *inputs, sizes={"B": number}, input_gradients=True)
        for policy in ("each-op", "minimal"):
            found = opened.bytes(policy)
            assert found.subs(dict.fromkeys(found.free_symbols, number)) == fixed.bytes(policy)


@pytest.mark.parametrize("program", some([
    lambda x: F.max_pool2d(x * 2, 2), lambda x: F.max_pool2d(x * 2, 3, 2), lambda x: F.avg_pool2d(x * 2, 3),
], 2), ids=some(["two", "three that overlap", "mean of three"], 2))  # fmt: skip
def test_rows_that_no_window_reaches_are_not_read(program):
    opened = trace(program, "fp32[B, 3, S, S]", backward=True, input_gradients=True)
    for size in (7, 8, 33):
        sizes = {"B": 2, "S": size}
        fixed = trace(program, "fp32[B, 3, S, S]", sizes=sizes, backward=True, input_gradients=True)
        assert _at(opened.bytes("minimal"), sizes) == fixed.bytes("minimal")


def _at_first_rows(cache, new):
    return cache.index_copy_(0, torch.arange(4), new) * 2


def _of_weights(q, k, v):
    """Values under a softmax of scores that a causal mask hides in part."""
    hidden = torch.ones(q.shape[0], q.shape[0], dtype=torch.bool).triu(1)
    return (q @ k.t()).masked_fill(hidden, float("-inf")).softmax(-1) @ v


def _below(q):
    return torch.ones(q.shape[0], q.shape[0]).tril(-1)


def _chunked(q):
    row, column = torch.arange(q.shape[0])[:, None], torch.arange(q.shape[0])
    return (row // 4 == column // 4) & (row + 1 >= column)


@pytest.mark.parametrize(("program", "rows"), some([
    (lambda q, k, v: _of_weights(q, k, v)[:4], (3, 4, 4, 4)),  # the first row sees one score
    (lambda q, k, v: _of_weights(q, k, v).flip(0)[-4:], (3, 4, 4, 4)),
    (lambda q, k, v: ((q @ k.t()) * _below(q) @ v)[:4], (3, 3, 3, 4)),
    (lambda q, k, v: torch.triu(q @ k.t(), 1).flatten()[1:].sum(), (S - 1, S - 1, 0, 1 / 8)),
    (lambda q, k, v: torch.roll((q @ k.t()) * (torch.arange(q.shape[0]) < 5), 2, 1)[7:].sum(), (S - 7, 5, 0, 1 / 8)),
    (lambda q, k, v: torch.tril(q @ k.t(), -2).t()[0].sum(), (S - 2, 1, 0, 1 / 8)),
    (lambda q, k, v: torch.flip((torch.arange(q.shape[0])[:, None] < 3) * (q @ k.t()) @ v, [0])[0], (0, 0, 0, 1)),
    (lambda q, k, v: ((q @ k.t()) * _below(q) @ v)[::3].sum(), (S / 3 - 1, S - 3, S - 3, 1 / 8)),
    (lambda q, k, v: ((q @ k.t()) * _chunked(q) @ v)[:, 1:].sum(), (S, S, 7 * S / 8, 1 / 8)),
], 9, 2), ids=some([
    "first", "last of turned", "zeros", "flat", "rolled", "column", "hidden row", "every third", "chunks",
], 9, 2))  # fmt: skip
def test_what_masks_hide_is_not_read_for_parts_of_what_comes_of_it(program, rows):
    moved = trace(program, *["fp32[S, 8]"] * 3).bytes("minimal")
    for size in (9, 24):
        assert float(_at(moved, {"S": size})) == float(4 * 8 * _at(sum(rows), {"S": size}))


def test_replaced_rows_of_an_open_cache_are_not_read():
    def by_place(cache, new, places):
        return cache.index_copy_(0, places, new) * 2

    for program, more in ((_at_first_rows, []), (by_place, ["int64[4]"])):
        found = trace(program, "fp32[S, 8]", "fp32[4, 8]", *more).bytes("minimal")
        rows = 2 * S - 4 + 2 * 4  # the others read and all given; new ones read, and written to the cache
        assert sympy.expand(found - 4 * 8 * rows) == 8 * 4 * len(more)


@pytest.mark.parametrize("program", some([
    lambda x: F.max_pool1d(F.max_pool1d(x, 2, 3), 2, 3), lambda x: F.max_pool1d(F.max_pool1d(x, 2, 3), 3, 5),
    lambda x: F.avg_pool1d(x, 2, 2)[..., ::2] * 2, lambda x: F.lp_pool1d(x.abs(), 2, 2, 3),
    lambda x: F.max_pool1d(x, 2, 2)[..., :3] * 2, lambda x: F.conv1d(x, x.new_ones(3, 2, 3))[..., ::4] * 2,
], 2), ids=some(["gaps in gaps", "other gaps", "every second", "powers", "the first", "every fourth"], 2))  # fmt: skip
def test_what_strides_and_windows_with_gaps_reach_of_an_open_length(program):
    """A program that requires a least length is followed from there on, where the order of strides is known."""
    opened = trace(program, "fp32[1, 2, S]").bytes("minimal")
    for size in (16, 17, 22, 31, 32, 40):
        closed = trace(program, "fp32[1, 2, S]", sizes={"S": size}).bytes("minimal")
        assert _at(opened, {"S": size}) == closed


@pytest.mark.parametrize("program", some([
    lambda x: F.max_pool1d(x, 3, 4, 1), lambda x: F.max_pool1d(F.max_pool1d(x, 2, 3, 1), 2, 3, 1),
    lambda x: F.conv1d(x, x.new_ones(3, 2, 2), stride=5, padding=1),
], 2), ids=some(["pool", "pool of a pool", "convolution"], 2))  # fmt: skip
def test_windows_with_gaps_and_padding_reach_what_they_do_at_a_fixed_length(program):
    """At the least lengths some taps lie in the padding alone."""
    opened = trace(program, "fp32[1, 2, S]").bytes("minimal")
    for size in (5, 8, 13, 31, 64):
        closed = trace(program, "fp32[1, 2, S]", sizes={"S": size}).bytes("minimal")
        assert _at(opened, {"S": size}) == closed


@pytest.mark.parametrize(("program", "image"), some([
    (lambda x: F.avg_pool2d(x, 3, 4, 1), "fp32[1, 2, S, S]"), (lambda x: F.avg_pool2d(x, 3, 4, 1), "fp32[1, 2, 9, S]"),
    (lambda x: F.avg_pool2d(x, 2, 3), "fp32[1, 2, S, S]"),
    (lambda x: F.conv2d(x, x.new_ones(3, 2, 3, 3), stride=4, padding=1), "fp32[1, 2, S, S]"),
], 2, 1), ids=some(["square", "rows", "no padding", "convolution"], 2, 1))  # fmt: skip
def test_windows_with_gaps_over_rows_of_an_open_length(program, image):
    opened = trace(program, image).bytes("minimal")
    for size in (5, 8, 13, 31, 64):
        assert _at(opened, {"S": size}) == trace(program, image, sizes={"S": size}).bytes("minimal")


def test_channels_and_windows_along_an_open_length():
    """Halves of the channels lie apart whatever the length is; pooling along it is that of an image of one row."""

    class Sound(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv1d(4, 8, 3)

        def forward(self, x):
            first, second = F.max_pool1d(self.layer(x), 3, stride=2, padding=1).chunk(2, 1)
            return torch.cat([second, first]), nn.MaxPool1d(2, ceil_mode=True)(x)

    opened = trace(Sound(), "fp32[2, 4, S]")
    halves = trace(lambda x: torch.cat(x.chunk(2, 1)), "fp32[2, 8, S]")
    for sizes in ({"S": 16}, {"S": 31}):
        closed = trace(Sound(), "fp32[2, 4, S]", sizes=sizes)
        assert _at(opened.flops("all"), sizes) == closed.flops("all")
        assert [_at(opened.bytes(policy), sizes) for policy in POLICIES] == [closed.bytes(each) for each in POLICIES]
        assert _at(halves.bytes("minimal"), sizes) == 2 * 4 * 2 * 8 * sizes["S"]


class Decoder(nn.Module):
    """Attention of a decoder behind a cache: rotated by positions, grouped heads, a mask that is added."""

    def __init__(self, own):
        super().__init__()
        self.own, self.layer = own, nn.Linear(32, 64, bias=False)
        self.register_buffer("rates", 1e4 ** -(torch.arange(0, 8, 2) / 8))

    def forward(self, x, keys, values):
        B, S, P = *x.shape[:2], keys.shape[2]
        places = torch.arange(P, P + S)
        angles = (places[:, None] * self.rates).repeat(1, 2)
        q, k, v = self.layer(x).view(B, S, 8, 8).transpose(1, 2).split((4, 2, 2), 1)
        q, k = (each * angles.cos() + each.roll(4, -1) * angles.sin() for each in (q, k))
        k, v = torch.cat((keys, k), 2), torch.cat((values, v), 2)
        mask = torch.full((S, P + S), torch.finfo(x.dtype).min) * (torch.arange(P + S) > places.reshape(-1, 1))
        if not self.own:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None], enable_gqa=True), k, v
        k, v = (each[:, :, None].expand(B, 2, 2, P + S, 8).reshape(B, 4, P + S, 8) for each in (k, v))
        return (q @ k.transpose(-1, -2) + mask).softmax(-1) @ v, k, v


def routed(x, experts):
    """Tokens to the two best of four experts, by a table of weights."""
    weights, chosen = (x @ x.new_ones(16, 4)).softmax(-1).topk(2, -1)
    table = torch.zeros(x.shape[0], 4).scatter(1, chosen, weights)
    counts = F.one_hot(chosen, 4).sum((0, 1))
    return torch.einsum("td,edf,te->tf", x, experts, table), counts


def shifted(x):
    made = torch.zeros_like(x)
    made[1:] = x[:-1]
    return made


def _of_window(x):
    behind = torch.arange(x.shape[0])[:, None] - torch.arange(x.shape[0])
    return (x @ x.T).masked_fill((behind < 0) | (behind > 3), float("-inf")).softmax(-1) @ x


DECODER = ["fp32[B, 2, P, 8]", "fp32[B, 2, P, 8]"]
SMALL = [
    (Decoder(own=False), ["fp32[B, S, 32]", *DECODER], {"B": 3, "S": 4, "P": 9}),
    (Decoder(own=True), ["fp32[B, S, 32]", *DECODER], {"B": 3, "S": 4, "P": 9}),
    (Decoder(own=False), ["fp32[B, 1, 32]", *DECODER], {"B": 3, "P": 9}),
    (routed, ["fp32[B, 16]", "fp32[4, 16, 8]"], {"B": 300}),
    (lambda x, y: torch.kron(x, y), ["fp32[B, S]", "fp32[3]"], {"B": 3, "S": 5}),
    (lambda x, y, z: torch.linalg.multi_dot([x, y, z]), ["fp32[B, 16]", "fp32[16, 4]", "fp32[4]"], {"B": 300}),
    (lambda x: x.view(x.shape[0], -1, 4, 16).permute(0, 2, 1, 3).reshape(-1, 16) * 2, ["fp32[B, S, 16]"],
     {"B": 3, "S": 8}),
    (lambda x: x.unfold(1, 4, 2).sum(-1), ["fp32[B, S, 16]"], {"B": 3, "S": 9}),
    (lambda x: x[:, 1:].exp() - x[:, :-1], ["fp32[B, S]"], {"B": 3, "S": 5}),
    (lambda x: (x[:, 1:] - x[:, :-1]).mean() + (x[1:] - x[:-1]).mean(), ["fp32[B, S]"], {"B": 3, "S": 5}),
    (lambda x: _of_window(_of_window(_of_window(x)))[-4:], ["fp32[S, 8]"], {"S": 9}),
    (lambda x: x.masked_fill(torch.arange(len(x))[:, None] // 2 != torch.arange(len(x)) // 2, 0.0)[-2:],
     ["fp32[S, S]"], {"S": 9}),
    (lambda table, at: F.embedding(torch.arange(at.shape[1])[None].expand_as(at), table),
     ["fp32[999, 8]", "int64[B, S]"], {"B": 3, "S": 5}),
    (lambda x: x.tril().sum() + x[0].sum(), ["fp32[B, S]"], {"B": 9, "S": 5}),
    (lambda x, y, at: (x[1:][at].sum() + x[:-1][at].mean(), shifted(y)), ["fp32[B, S]", "fp32[B, S]", "int64[2]"],
     {"B": 9, "S": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("program", "inputs", "sizes"), some(SMALL, 3))
def test_a_small_program_counts_the_same_at_open_sizes(program, inputs, sizes):
    opened, closed = trace(program, *inputs), trace(program, *inputs, sizes=sizes)
    assert _at(opened.flops("all"), sizes) == closed.flops("all")
    assert [_at(opened.bytes(each), sizes) for each in ("each-op", "minimal")] == [
        closed.bytes(each) for each in ("each-op", "minimal")
    ]


def _two_on(x):
    places = torch.arange(x.shape[0])
    return places == places[:, None] + 2


def _hidden(x):
    return torch.triu(torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool), 1)


@pytest.mark.parametrize(
    ("program", "spec"),
    [
        (lambda x: x.masked_fill(_hidden(x), 0.0), "fp32[B, {S}, {S}]"),
        (lambda x: torch.where(torch.arange(x.shape[-1]) < 4, x, 0.0).sum(), "fp32[B, {S}]"),
        (lambda x: torch.where(torch.tensor([True, False, False, True]), x, 0.0), "fp32[{S}, 4]"),
        (lambda x: (x * torch.tensor([0, 2, 0, 1]))[:, 1:], "fp32[{S}, 4]"),
        (lambda x: x * torch.eye(x.shape[-1]), "fp32[B, {S}, {S}]"),
        (lambda x: x.exp().masked_fill_(_hidden(x), 0.0)[..., :2, :], "fp32[B, {S}, {S}]"),
        (lambda x: x.masked_fill_(_hidden(x), 0.0), "fp32[B, {S}, {S}]"),
        (lambda x: (x @ x.mT).masked_fill(_hidden(x), 0.0)[:, :1], "fp32[B, {S}, {S}]"),
        (lambda x: x.masked_fill(_hidden(x), 0.0)[:, 1::3], "fp32[B, {S}, {S}]"),
        (lambda x: torch.triu(x)[1::3, ::2], "fp32[{S}, {S}]"),
        (
            lambda x: (x * (torch.arange(x.shape[0])[:, None] // 2 == torch.arange(x.shape[0]) // 2))[::2],
            "fp32[{S}, {S}]",
        ),
        (lambda x: torch.tril(x.cumsum(1), -1), "fp32[{S}, {S}]"),
        (lambda x: x.masked_fill(_hidden(x).roll(1, 0), 0.0), "fp32[{S}, {S}]"),
        (lambda x: (torch.tril(x @ x.T) @ x)[:2], "fp32[{S}, 8]"),
        (lambda x: torch.tril(F.pad(x.exp()[1:, 1:], (0, 0, 1, 0))), "fp32[{S}, {S}]"),
        (lambda x: torch.triu(x)[torch.arange(0, x.shape[0], 2)], "fp32[{S}, {S}]"),
        (lambda x: torch.tril(x)[torch.full((x.shape[0],), 1)], "fp32[{S}, {S}]"),
        (lambda x: (x * torch.tensor([1.0, 0, 0, 1])) @ x.T, "fp32[{S}, 4]"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, _two_on(x))[:1], "fp32[{S}, 8]"),  # a row sees one, or none
    ],
)
def test_what_a_mask_of_positions_leaves_unread_is_no_part_of_an_open_floor(program, spec):
    opened = trace(program, spec.format(S="S")).bytes("minimal")
    for size in (2, 60):
        closed = trace(program, spec.format(S=size).replace("B", "3")).bytes("minimal")
        assert _at(opened, {"B": 3, "S": size}) == closed


def test_windows_laid_over_each_other_are_those_of_a_fixed_batch():
    def fold(x):
        return F.fold(x, (8, 8), 3, padding=1)

    opened, closed = (trace(fold, f"fp32[{batch}, 27, 64]").bytes("minimal") for batch in ("B", 3))
    assert (_at(opened, {"B": 3}), closed) == (3 * 6576, 3 * 6576)
