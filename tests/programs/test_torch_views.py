"""What a program reads of one tensor through several views, against the addresses of its elements."""

import random

import pytest

from tests.strategies import some

torch = pytest.importorskip("torch")

from roofline import trace  # noqa: E402
from roofline.programs.pytorch.tensors import region_of  # noqa: E402
from roofline.programs.tensor_parts import Stretches, pieces  # noqa: E402


def _bytes(program, *inputs, policy="each-op"):
    return sum(trace(program, *inputs).bound("h100", policy=policy).bytes.values())


def _heads(x):
    parts = [part.view(2, 64, 4, 64).transpose(1, 2) for part in x.chunk(3, -1)]
    return torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)


def test_attention_reads_queries_keys_and_values_that_lie_in_one_tensor():
    x, weight = torch.empty(2, 64, 768), torch.empty(768, 256)
    packed, result, hidden = 4 * 2 * 64 * 768, 4 * 2 * 64 * 256, torch.empty(2, 64, 256)
    assert _bytes(_heads, x) == _bytes(_heads, x, policy="minimal") == packed + result

    def layer(hidden, weight):
        return _heads(torch.nn.functional.linear(hidden, weight))

    linear = 4 * (2 * 64 * 256 + 768 * 256) + packed
    assert _bytes(layer, hidden, weight) == linear + packed + result
    assert _bytes(layer, hidden, weight, policy="minimal") == linear - packed + result


@pytest.mark.parametrize(
    ("program", "shape", "each", "least"),
    [
        (lambda x: x[:, :384] * x[:, 384:], (64, 768), 64 * (768 + 384), 64 * (768 + 384)),
        (lambda x: x[:, ::2] * x[:, 1::2], (64, 768), 64 * (768 + 384), 64 * (768 + 384)),
        (lambda x: torch.stack(x.unbind(1)), (64, 8), 2 * 64 * 8, 2 * 64 * 8),
        (lambda x: x[1:] - x[:-1], (1024,), 1024 + 1023, 1024 + 1023),
        (lambda x: x[:600].sum() + x[400:].sum(), (1024,), 600 + 624 + 5, 1024 + 1),
        (lambda x: x[2:] + x[:-2] - 2 * x[1:-1], (18,), 34 + 32 + 48, 18 + 16),
        (lambda x: x - x[:1], (64, 8), 2 * 64 * 8, 2 * 64 * 8),
        (lambda x: (x[:1] + x[:1]).sum() + x.relu().sum(), (64, 8), 3 * 8 + 1 + 3 * 64 * 8 + 1 + 3, 64 * 8 + 1),
        (lambda x: (x[:2] * x[:2, :1]).sum() + x.relu().sum(), (64, 8), 6 * 8 + 1 + 3 * 64 * 8 + 1 + 3, 64 * 8 + 1),
        (lambda x: x[:4].sum() + x[1::2].sum() + x[:, :3].sum(), (6, 8), 32 + 24 + 18 + 3 + 6, 43 + 1),
        (lambda x: (x + 1) * (x + 1)[:, :1], (64, 8), 4 * 64 * 8 + 64 * 8 + 64 + 64 * 8, 2 * 64 * 8),
    ],
)
def test_views_move_the_elements_that_they_reach_together(program, shape, each, least):
    x = torch.empty(shape)
    assert _bytes(program, x) == 4 * each
    assert _bytes(program, x, policy="minimal") == 4 * least


def test_views_of_an_intermediate_and_it_as_a_whole():
    def program(x):
        y = x + 1
        return y * y[:, :1]

    assert _bytes(program, torch.empty(64, 8)) == 4 * 4 * 64 * 8


@pytest.mark.parametrize(
    "pick",
    [
        lambda w, i: torch.index_select(w, 0, torch.tensor([i]))[0],
        lambda w, i: torch.index_select(w, -3, torch.tensor([i - 6]))[0],
        lambda w, i: w[torch.arange(6)[i : i + 1]][0],
        lambda w, i: w[torch.arange(6) == i][0],
        lambda w, i: torch.nn.functional.embedding(torch.tensor(i), w.view(6, -1)).view(16, 16),
    ],
)
def test_layers_that_known_indices_pick_are_read_each_once(pick):
    def program(x, w):
        for i in range(5):
            x = x @ pick(w, i)
        return x @ pick(w, 2)

    assert (
        0
        <= _bytes(program, torch.empty(8, 16), torch.empty(6, 16, 16), policy="minimal")
        - 4 * (2 * 8 * 16 + 5 * 16 * 16)
        <= 256
    )  # and indices


ROWS = [
    lambda x, i: x[i],
    lambda x, i: x.index_select(0, i),
    lambda x, i: torch.nn.functional.embedding(i, x),
]


@pytest.mark.parametrize("places", [[0, 1, 1, 3], [5, 0, 5, 1], [2, 2, 2, 2]])
@pytest.mark.parametrize("pick", ROWS)
def test_rows_that_a_program_picks_twice_are_read_once(pick, places):
    moved = _bytes(lambda x: pick(x, torch.tensor(places)), torch.empty(8, 1024), policy="minimal")
    assert moved == 4 * 1024 * (4 + len(set(places))) + 4 * 8


@pytest.mark.parametrize("pick", ROWS)
def test_of_indices_that_are_given_each_counts_whatever_the_example_holds(pick):
    table, ids = torch.empty(8, 1024), torch.zeros(4, dtype=torch.int64)
    for program in (pick, lambda x, i: pick(x, i + 1)):
        assert _bytes(program, table, ids, policy="minimal") >= 4 * 1024 * (4 + 4) + 4 * 8


@pytest.mark.parametrize(
    ("program", "read", "given"),
    [
        (lambda x: torch.nn.functional.max_pool2d(x[None, :63, :63], 2, return_indices=True), 62 * 62, 31 * 31),
        (
            lambda x: [y[:, :2].clone() for y in torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)],
            256,
            64,
        ),
        (lambda x: [y[:5].clone() for y in x.max(1)], 5 * 64, 5),
        (lambda x: [y[:5].clone() for y in x.topk(3)], 5 * 64, 15),
        (lambda x: [y[:5].clone() for y in x.sort(1)], 5 * 64, 5 * 64),
        (lambda x: [None, x.max(1)[1][:5].clone()], 5 * 64, (5,)),
        (lambda x: torch.nn.functional.adaptive_max_pool2d(x[None], 4)[:, :1].clone(), 16 * 64, (0, 4)),
    ],
)
def test_a_part_of_values_and_their_places_needs_the_part_that_reaches_it(program, read, given):
    """Places take 8 bytes each."""
    places, values = (given if len(given) == 2 else (*given, 0)) if isinstance(given, tuple) else (given, given)
    assert _bytes(program, torch.empty(64, 64), policy="minimal") == 4 * (read + values) + 8 * places


@pytest.mark.parametrize(
    ("program", "elements"),
    some(
        [
            (lambda x: torch.diag(x), 2 * 64),
            (lambda x: torch.where(torch.arange(64)[:, None] < 10, x, 0.0), 10 * 64 + 64 * 64),
            (lambda x: x.masked_fill(torch.ones(64, 64).tril() == 0, 0.0), 65 * 32 + 64 * 64),
            (lambda x: torch.cat([x, 2 * x])[:10].clone(), 20 * 64),
            (lambda x: torch.roll(x, 1, 0)[:10].clone(), 20 * 64),
            (lambda x: (x + 1).tanh()[:10].clone(), 20 * 64),
            (lambda x: (x + 1).tanh()[:10], 20 * 64),
            (lambda x: torch.cat([x, 2 * x])[:10], 20 * 64),
            (lambda x: ((x + 1)[:10], (x + 1).sum()), 64 * 64 + 10 * 64 + 1),
            (lambda x: torch.view_as_complex((x + 1).view(64, 32, 2)) * 2, 2 * 64 * 64),
            (lambda x: (y := x.tanh())[:10] + y[5:15], 25 * 64),
            (lambda x: ((y := x + 1)[:10], y[5:15].view(torch.int32)), 2 * 15 * 64),
            (lambda x: (x * 2).view(torch.int16)[:, ::2], 64 * 64 + 64 * 32),
            (lambda x: (torch.view_as_complex(x.view(64, 32, 2)) * 2).imag, 64 * 64 + 64 * 32),
            (lambda x: torch.fft.fft(torch.view_as_complex(x.view(64, 32, 2)[:3, :3])).real, 2 * 3 * 3 + 3 * 3),
            (lambda x: F.fractional_max_pool2d(x[None], 2, 20), 40 * 40 + 20 * 20),
            (lambda x: torch.repeat_interleave(x, 2, 0)[:10] + 1, 15 * 64),
            (lambda x: torch.cat([x, 2 * x], 1)[:10], 10 * 64 + 20 * 64),
            (lambda x: torch.cat([x, x.exp()])[60:70], 20 * 64),
            (lambda x: torch.cumsum(x, 0)[:10], 20 * 64),
            (lambda x: torch.sort(x, -1)[0][:10], 20 * 64),
            (lambda x: torch.topk(x, 64)[0][:10], 20 * 64),
            (lambda x: torch.softmax(x, -1)[:10], 20 * 64),
            (lambda x: torch.nn.functional.layer_norm(x, (64,))[:10], 20 * 64),
            (lambda x: (x @ x.T)[:10, 10:20], 20 * 64 + 10 * 10),
            (lambda x: x.sum(1)[:10], 10 * 64 + 10),
            (lambda x: torch.nn.functional.pad(x, (0, 0, 5, 5))[:10] * 2, 15 * 64),
        ],
        2,
        1,
    ),
)
def test_no_more_is_read_than_a_result_needs(program, elements):
    assert 0 <= _bytes(program, torch.empty(64, 64), policy="minimal") - 4 * elements <= 64


F = torch.nn.functional
Q, GROUPED = (2, 4, 8, 6), (2, 2, 8, 6)
attend, resize = F.scaled_dot_product_attention, F.interpolate
solved = torch.linalg.solve_triangular


def _written(x, y, at):
    x[at] = y
    return x


KNOWN = torch.tensor([[0, 1, 2, 0, 1, 2]] * 2)
GRU = [torch.randn(shape, dtype=torch.float64) for shape in ((12, 3), (12, 4), (12,), (12,))]


def _joined(x, y, step=1, overlap=0):
    """One behind the other in a new buffer, or in turns."""
    rows = len(x)
    made = x.new_empty((2 * rows - overlap, *x.shape[1:]))
    made[: (rows - 1) * step + 1 : step] = x
    made[1 if step > 1 else rows - overlap :: step] = y
    return made


@pytest.mark.parametrize(
    ("program", "shapes"),
    some(
        [
            (lambda a, b: torch.einsum("ij,jk->ki", a, b)[:3, :5] + 1, [(16, 10), (10, 12)]),
            (lambda a, b: torch.einsum("bhsd,bhtd->bhst", a, b)[:, :2, :3] + 1, [(2, 4, 5, 3), (2, 4, 6, 3)]),
            (lambda a, b: torch.einsum("...ij,jk", a, b)[1] + 1, [(2, 4, 5), (5, 3)]),
            (lambda a, b: torch.einsum("bi,bi->bi", a, b)[:1] + 1, [(4, 5), (1, 5)]),
            (lambda q, k, v: attend(q, k, v)[:, :, :4] + 1, [Q, Q, Q]),
            (lambda q, k, v: attend(q, k, v)[:, 1:3, :, :2] + 1, [Q, Q, Q]),
            (lambda q, k, v: attend(q, k, v, is_causal=True)[:, :, 2:4] + 1, [Q, Q, Q]),
            (lambda q, k, v: attend(q, k, v, is_causal=True)[:, :, :1, 2:4] + 1, [Q, Q, Q]),
            (lambda q, k, v: attend(q, k, v, enable_gqa=True)[:, 1:2] + 1, [Q, GROUPED, GROUPED]),
            (lambda q, k, v: attend(q, k, v, enable_gqa=True)[:, ::3] + 1, [Q, GROUPED, GROUPED]),
            (lambda q, k, v, m: attend(q, k, v, m)[:, 1:2, :3] + 1, [Q, Q, Q, (2, 1, 8, 8)]),
            (lambda q, k, v: attend(q, k, v)[:3] + 1, [(8, 6), (9, 6), (9, 5)]),
            (lambda x: resize(x, scale_factor=1.7)[:, :, :6] + 1, [(2, 3, 8, 8)]),
            (lambda x: resize(x, (5,))[:, :, 1:3] + 1, [(2, 3, 8)]),
            (lambda x: resize(x, (5, 5, 7), mode="nearest-exact")[:, :, 1:3] + 1, [(1, 2, 4, 8, 8)]),
            (lambda x, w: F.rms_norm(x, (4,), w)[:2] + 1, [(8, 4), (4,)]),
            (lambda x: F.adaptive_avg_pool2d(x, 1)[:1] + 1, [(2, 2, 8, 8)]),
            (lambda x: F.group_norm(x, 2)[:1] + 1, [(2, 4, 8, 8)]),
            (lambda x: F.pad(x, (2, 1, 1, 2), mode="circular"), [(2, 3, 5, 4)]),
            (lambda x: F.pad(x, (2, 1, 1, 2), mode="circular")[0, :, 1:3], [(2, 3, 5, 4)]),
            (lambda x, y: torch.slice_scatter(x, y, 0, 1, 9, 3), [(9, 6), (3, 6)]),
            (lambda x, y: torch.slice_scatter(x, y, 1, -5, 6, 2)[2:4, 1:4] + 1, [(9, 6), (9, 3)]),
            (lambda x, y: torch.slice_scatter(x[::2], y, 0, 0, 4, 2)[:3] + 1, [(8, 6), (2, 6)]),
            (lambda x, y: x.index_put((torch.arange(1, 4, 2), torch.arange(0, 3, 2)), y), [(5, 4, 6), (2, 6)]),
            (
                lambda x, y: _written(x.clone(), y, (torch.arange(3), slice(None), torch.arange(2, 5))),
                [(5, 4, 6), (3, 4)],
            ),
            (lambda x, y: _written(x.clone(), y, (slice(None), slice(1, 6, 2))), [(5, 6), (5, 3)]),
            (lambda x: _joined(x, 2 * x)[:3], [(4, 6)]),
            (lambda x: _joined(x, 2 * x)[6:7] + 1, [(4, 6)]),
            (lambda x, y: _joined(x, y, step=2)[:3], [(4, 6), (4, 6)]),
            (lambda x, y: _joined(x, y, overlap=2), [(4, 6), (4, 6)]),
            (lambda a, b: solved(a, b, upper=False)[:, 1:3], [(8, 8), (8, 5)]),
            (lambda a, b: solved(a, b, upper=False)[:3], [(8, 8), (8, 5)]),
            (lambda a, b: solved(a, b, upper=True)[-2:], [(8, 8), (8, 5)]),
            (lambda a, b: solved(a, b, upper=True, left=False)[1:3, :4], [(8, 8), (5, 8)]),
            (lambda a, b: solved(a, b, upper=False, left=False)[..., 5:], [(8, 8), (2, 5, 8)]),
            (lambda a, b: torch.linalg.solve(a, b)[:, :2], [(8, 8), (8, 5)]),
            (lambda a, b: torch.linalg.solve(a, b)[:2], [(3, 8, 8), (3, 8)]),
            (lambda a, b: torch.linalg.solve(a, b)[:, :3], [(3, 8, 8), (3, 8)]),
            (lambda a, b: solved(a, b, upper=True, unitriangular=True)[-3:], [(8, 8), (8, 5)]),
            (lambda x: torch.tril(x)[3:5], [(70, 8)]),
            (lambda x: torch.triu(x, 1)[:, :3, 2:4], [(2, 8, 8)]),
            (lambda x: x.masked_fill(torch.ones(6, 6).triu(1) > 0, 0.0)[2:4], [(6, 6)]),
            (lambda x, y: torch.where(torch.arange(6) > 2, x, y)[:2], [(4, 6), (4, 6)]),
            (lambda x, w: F.conv1d(F.pad(x, (8, 0)), w, dilation=4)[..., -1:], [(1, 2, 20), (3, 2, 3)]),
            (lambda x: F.pad(x, (2, 2), mode="replicate")[..., :3], [(1, 2, 8)]),
            (lambda x: F.pad(x, (2, 1, 3, 2), mode="reflect")[..., :2, 6:], [(1, 2, 6, 5)]),
            (lambda a, b: torch.cdist(a, b)[:2, 1:3], [(5, 4), (6, 4)]),
            (lambda x: (x[..., :2] * 2 - x[..., 2:])[:1, :, :1] + 1, [(3, 5, 4)]),
            (lambda b: torch.cholesky_solve(b, b.new_ones(8, 8).cumsum(0).cumsum(1).sin())[:2, 1:4], [(8, 5)]),
            (lambda x: F.fold(x, (6, 6), 2)[:, :1, :2, 1:3], [(2, 12, 25)]),
            (lambda x: F.fold(x, (7, 6), 3, dilation=2, padding=1, stride=2)[0, :, 2:5], [(2, 18, 6)]),
            (lambda x: F.fold(x, (6, 6), 3, padding=1)[:, :, ::3], [(2, 18, 36)]),
            (lambda x: F.unfold(x, 2)[:, :4, :3], [(2, 3, 6, 6)]),
            (lambda x: F.unfold(x, 2, stride=5)[:, :, :4], [(1, 2, 12, 12)]),
            (lambda x: F.unfold(x, (2, 1), stride=3)[:, :2], [(1, 2, 8, 9)]),
            (lambda x, w: F.conv2d(x, w, stride=9, dilation=4, padding=3)[:, :, :2], [(1, 1, 30, 30), (1, 1, 3, 3)]),
            (lambda x, w: F.conv1d(x, w, stride=2, dilation=3)[..., :5], [(1, 1, 30), (1, 1, 3)]),
            (lambda x: F.unfold(x, 3, dilation=2, padding=1, stride=2)[:1, 3:5], [(2, 3, 6, 6)]),
            (lambda x: F.unfold(x, 2, dilation=2, padding=2, stride=3)[:, 7:8, :10], [(1, 2, 12, 12)]),
            (lambda x, w: F.conv2d(x, w, padding=2, stride=4)[:, :, :2], [(1, 1, 8, 8), (1, 1, 3, 3)]),
            (lambda x, w: F.conv2d(x, w, None, 3, 2, 2)[:, :, :3], [(1, 1, 12, 12), (1, 1, 2, 2)]),
            (lambda x: torch.diag_embed(x, 1)[:, 1:3, :3], [(4, 6)]),
            (lambda x, y: torch.diagonal_scatter(x, y, 1), [(5, 6), (5,)]),
            (lambda x: F.logsigmoid(x)[:2], [(4, 6)]),
            (lambda x, y: torch.view_as_real(torch.complex(x, y))[:2], [(4, 6), (4, 6)]),
            (lambda x: F.rrelu(x, 0.1, 0.3, training=True), [(4, 6)]),
            (lambda x, t: torch.linalg.householder_product(x, t), [(6, 4), (4,)]),
            (lambda x, t, y: torch.ormqr(x, t, y), [(6, 4), (4,), (6, 3)]),
            (lambda x, w: F.conv_transpose1d(x, w, stride=3, groups=2)[:, 2:3], [(1, 4, 4), (4, 3, 2)]),
            (lambda x: torch.diag_embed(x, -2, 0, 1)[1:4, ::2], [(4, 6)]),
            (lambda a, b: torch.block_diag(a, b)[2:4, :6], [(3, 4), (5, 6)]),
            (lambda x: x.renorm(2, 0, 0.1)[:2], [(8, 6)]),
            (lambda a, x, y: torch.addr(a, x, y)[1:3, :4], [(5, 6), (5,), (6,)]),
            (lambda x, y: F.huber_loss(x, y, reduction="none")[:2], [(8, 6), (8, 6)]),
            (lambda a, b, w: F.bilinear(a, b, w)[:3, :2], [(4, 3), (4, 2), (5, 3, 2)]),
            (lambda x, w: F.prelu(-x.abs(), w)[:, :2], [(4, 6), (6,)]),
            (lambda x, h: torch.gru(x, h, GRU, True, 1, 0.0, False, False, False)[0][:3, 1:2], [(6, 2, 3), (1, 2, 4)]),
            (lambda x, h: torch.gru(x, h, GRU, True, 1, 0.0, False, False, True)[0][1:, :3], [(2, 6, 3), (1, 2, 4)]),
        ],
        3,
    ),
)
def test_a_part_of_what_is_taken_whole_needs_what_its_jacobian_has(program, shapes):
    given = tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)
    results = program(*given).numel()
    parts = torch.autograd.functional.jacobian(program, given)
    used = sum(int((part.reshape(results, -1) != 0).any(0).sum()) for part in parts)
    weights = 2 * sum(each.numel() for each in GRU) if "GRU" in program.__code__.co_names else 0
    assert _bytes(program, *map(torch.empty, shapes), policy="minimal") == 4 * (used + results + weights)


@pytest.mark.parametrize(
    ("program", "others", "indices"),
    [
        (lambda x, y, i: x.scatter(0, i, y), 6 * 6 + 2 * 6, 2 * 6),
        (lambda x, y, i: x.scatter(0, i, y)[:, :2], 6 * 2 + 2 * 2, 2 * 2),
        (lambda x, y, i: x.scatter_add(0, i, y)[1:, 4:], 7 * 2 + 2 * 2, 2 * 2),
        (lambda x, y, i: x.index_add(0, i[0, :2], y)[:, :1], 8 * 1 + 2, 2),
        (lambda x, y, i: x.index_put((i[:, 0],), y)[:, :2], 6 * 2 + 2 * 2, 2),
        (lambda x, y, i: x.index_put((i[:, 0], i[:, 1]), y[0, :2]), 8 * 6 - 2 + 2, 4),
        (lambda x, y, i: x.index_copy(0, i[:, 0], y), 6 * 6 + 2 * 6, 2),
        (lambda x, y, i: x.index_fill(0, i[:, 0], 0.0), 6 * 6, 2),
        (lambda x, y, i: x.index_fill(0, i[:, 0], y[0, 0]), 6 * 6 + 1, 2),
        (lambda x, y, i: x.scatter_reduce(0, i, y, "amax", include_self=False), 6 * 6 + 2 * 6, 2 * 6),
        (lambda x, y, i: x[0, 0].index_copy(0, i[0, :1], y[0, 0]), 2, 1),
        (lambda x, y, i: y[0].masked_scatter(i > 0, x[:2]), 6 + 12, 2 * 6),
        (lambda x, y, i: x.scatter(0, KNOWN, y)[:1], 6 + 2, 4),
        (lambda x, y, i: x.index_add(0, KNOWN[0, :2], y)[1:3, :2], 2 * 2 + 2, 1),
        (lambda x, y, i: x.gather(0, i)[:, :2], 2 * 2, 2 * 2),
    ],
)
def test_of_what_indices_write_the_part_that_the_result_has_is_read(program, others, indices):
    """Rows that indices replace, whichever, are not read; each index names another one."""
    given = torch.empty(8, 6), torch.empty(2, 6), torch.zeros(2, 6, dtype=torch.int64)
    moved = trace(program, *given).bound("h100", policy="minimal").bytes["hbm"]
    results = program(*given).numel()
    assert moved == 4 * (results + others) + 8 * indices


def test_a_loss_reads_the_weights_of_no_more_classes_than_it_has_rows():
    given = torch.empty(2, 5), torch.zeros(2, dtype=torch.int64), torch.empty(5)
    assert _bytes(F.nll_loss, *given, policy="minimal") == 4 * 2 + 8 * 2 + 4 * 2 + 4


def test_a_part_of_a_fold_of_many_taps_needs_the_windows_that_reach_it():
    """Of its first two rows three pairs of a tap and a place, and along rows all 30 taps at 31 places."""
    moved = _bytes(lambda x: F.fold(x, (60, 60), (30, 30))[:, :, :2], torch.empty(1, 900, 961), policy="minimal")
    assert moved == 4 * (3 * 30 * 31 + 2 * 60)


def test_no_more_of_a_triangle_is_read_than_it_has():
    assert _bytes(torch.linalg.eigvalsh, torch.empty(5, 5), policy="minimal") == 4 * (15 + 5)
    """Of up to 32 rows exactly it, of more at most 1/32 less."""
    matrix, known = torch.empty(3, 200, 200), torch.empty(3, 200, 1)
    for rows in (32, 150):
        half = rows * (rows + 1) // 2
        moved = _bytes(lambda a, b, n=rows: solved(a, b, upper=False)[1, :n], matrix, known, policy="minimal")
        assert 0 <= half + 2 * rows - moved / 4 <= (0 if rows == 32 else half / 32)
    moved = _bytes(lambda a: torch.linalg.cholesky(a)[1], torch.empty(3, 20, 20), policy="minimal")
    assert moved == 4 * (20 * 21 // 2 + 20 * 20)


def test_a_part_of_two_views_that_are_stacked_is_worked_out_of_all_operands():
    def program(x, y):
        z = x * y
        return torch.stack([z[0], z[-1]])[:1].clone()

    assert _bytes(program, torch.empty(5, 5), torch.empty(1), policy="minimal") == 4 * (5 + 1 + 5)


def test_rows_that_a_list_names_are_known():
    moved = _bytes(
        lambda x, y: _written(x.clone(), y, [1, 3]), torch.empty(5, 64), torch.empty(2, 64), policy="minimal"
    )
    assert moved == 4 * 64 * (3 + 2 + 5) + 2 * 8


def test_of_a_cache_that_is_updated_what_was_there_before_is_read():
    def step(cache, row):
        cache[:, 5] = row
        return cache[:, :8].sum(1)

    def whole(cache, row):
        cache[:, 5] = row
        return cache.sum(1)

    def first(cache, row):
        cache[:5] = row
        return cache[0] + 1

    cache, row = torch.empty(2, 16, 64), torch.empty(2, 64)
    assert _bytes(step, cache, row, policy="minimal") == 4 * 2 * 64 * (7 + 1 + 1 + 1)
    assert _bytes(whole, cache, row, policy="minimal") == 4 * 2 * 64 * (15 + 1 + 1 + 1)

    def again(cache, row):
        cache.mul_(2)
        cache[:5] = row
        return cache[0] + 1

    assert _bytes(first, torch.empty(16, 64), torch.empty(5, 64), policy="minimal") == 4 * 64 * (5 + 5 + 1)
    assert _bytes(again, torch.empty(16, 64), torch.empty(5, 64), policy="minimal") == 4 * 64 * (11 + 5 + 16 + 1)


@pytest.mark.parametrize(("second", "rows"), [(slice(0, 64), 64), (slice(32, 96), 96)])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("is_outside", [False, True])
def test_of_a_place_that_is_written_twice_the_last_write_counts(is_outside, is_read, second, rows):
    """It is written once for good, of a given buffer too; what is written first is read where something reads it."""

    def program(x, y, *given):
        made = given[0] if given else torch.empty(256, 64)
        made[:64] = x
        seen = made[:64].sum() if is_read else x.new_zeros(())
        made[second] = y
        return (seen,) if given else (made[:96], seen)

    inputs = [torch.empty(64, 64), torch.empty(64, 64), *[torch.empty(256, 64)] * is_outside]
    moved = _bytes(program, *inputs, policy="minimal")
    of_x = 64 if is_read else rows - 64
    assert moved == 4 * 64 * (of_x + 64 + rows) + 4


def test_a_part_that_is_written_before_the_whole_is_not_kept():
    def step(parameter, x):
        parameter[:3] = x[:3]
        parameter.mul_(0.9)

    def row(parameter, x):
        for place in range(8):
            parameter[3] = x[place]

    x = torch.empty(64, 64)
    assert _bytes(step, torch.empty(64, 64), x, policy="minimal") == 4 * 64 * (3 + 61 + 64)
    assert _bytes(row, torch.empty(64, 64), x, policy="minimal") == 4 * 64 * 2


@pytest.mark.parametrize(
    "program",
    [
        lambda c, i, a, b: [c[layer].index_copy_(0, i, a[layer, :2]) for layer in range(4)],
        lambda c, i, a, b: [each.index_put_((i,), a[0, :2]) for each in c],
        lambda c, i, a, b: [c[0].index_copy_(0, i, a[0, :2]), c[0].index_put_((i,), b[0, :2])],
        lambda c, i, a, b: [c[:, :, :4].index_copy_(1, i, a[:, :2, :4]), c[..., 4:].index_copy_(1, i, b[:, :2, 4:])],
        lambda c, i, a, b: [c.index_copy_(1, i, a[:, :2]), c.index_copy_(2, i, b[..., :2])],
        lambda c, i, a, b: [c.index_copy_(1, i, a[:, :2]), c.index_copy_(0, i, b[:2])],
        lambda c, i, a, b: [c[0].index_put_((i,), a[0, :2]), c[0, :, :3].index_put_((i,), b[0, :2, :3])],
        lambda c, i, a, b: [c[0].index_put_((i,), a[0, :2]), c[0, :, 3:].index_copy_(0, i, b[0, :2, 3:])],
        lambda c, i, a, b: [c[0].index_put_((i,), a[0, :2]), c[0, :4].index_put_((i,), b[0, :2])],
        lambda c, i, a, b: [c[0, :4].index_put_((i,), a[0, :2]), c[0].index_put_((i,), b[0, :2])],
        lambda c, i, a, b: [c.index_copy_(2, i, a[..., :2]), c[1:, :3].index_copy_(2, i, b[1:, :3, :2])],
        lambda c, i, a, b: [c.index_put_((i, i), a[0, :2]), c[:, :4, 2:].index_put_((i, i), b[0, :2, 2:])],
    ],
)
def test_the_same_indices_name_other_places_of_another_view_or_along_another_axis(program):
    """What a run changes, and of what is written what stands there in the end."""
    shape, at = (4, 8, 8), torch.tensor([1, 3])
    filled, given = torch.zeros(shape), torch.arange(1.0, 257).reshape(shape)
    program(filled, at, given, -given)
    stays = filled[filled != 0]
    moved = _bytes(program, torch.empty(shape), at, torch.empty(shape), torch.empty(shape), policy="minimal")
    assert moved == 16 + 4 * (len(stays) + len(stays.unique()))


def _drawn_updates(seed):
    """A program that writes parts of a given tensor ``a`` and of one of its own, ``m``, and gives some of both back."""
    draw = random.Random(seed)

    def part():
        first, last = sorted(draw.sample(range(5), 2))
        left, right = sorted(draw.sample(range(4), 2))
        columns = slice(left, right) if draw.random() < 0.5 else slice(None)
        return (slice(None), columns) if draw.random() < 0.2 else (slice(first, last, draw.choice((1, 1, 2))), columns)

    steps = [(draw.choice("cccampzsi"), draw.choice("aam"), part(), draw.choice("xyam")) for _ in range(4)]
    shown = [("m", part()), *[(draw.choice("am"), part()) for _ in range(draw.randint(0, 1))]]

    def program(a, x, y, written=None):
        held, found = {"a": a, "x": x, "y": y, "m": torch.zeros(4, 3)}, []
        for kind, name, where, source in steps:
            target = held[name] if where == (slice(None), slice(None)) else held[name][where]
            rows, columns = target.shape
            other = held[source][4 - rows :, 3 - columns :]
            other = other.clone() if source == name and kind in "ca" else other
            if kind in "sp":
                found.append(target.sum() if kind == "s" else target + 1)
                continue
            if kind == "i":
                held[name].index_copy_(0, torch.tensor([3, 1]), held[source][:2].clone())
            else:
                change, *given = {"c": ("copy_", other), "a": ("add_", other), "z": ("zero_",)}.get(kind, ("mul_", 0.9))
                getattr(target, change)(*given)
            if written is not None and name == "a":
                written[[3, 1] if kind == "i" else where] = True
        return [held[name][where] for name, where in shown], found

    return program, shown


@pytest.mark.parametrize("seed", range(12))
def test_of_drawn_updates_in_place_each_element_is_read_and_written_once(seed):
    """An element is needed where a NaN in it reaches what is left of the program."""
    program, shown = _drawn_updates(seed)
    written, own = torch.zeros(4, 3, dtype=torch.bool), torch.zeros(4, 3, dtype=torch.bool)
    parts, found = program(*(torch.rand(4, 3) for _ in range(3)), written)
    for name, where in shown:
        own[where] |= name == "m"
    needed = 0
    for place in range(36):
        inputs = torch.rand(36)
        inputs[place] = torch.nan
        given = list(inputs.reshape(3, 4, 3).clone())
        parts, others = program(*given)
        inner = [part for part, (name, _) in zip(parts, shown, strict=True) if name == "m"]
        needed += any(bool(each.isnan().any()) for each in (given[0][written], *inner, *others))
    elements = needed + int(written.sum()) + int(own.sum()) + sum(each.numel() for each in found)
    moved = _bytes(program, *(torch.empty(4, 3) for _ in range(3)), policy="minimal")
    indices = 8 * 2 * 4  # those of a copy that nothing needs are not read
    assert 4 * elements <= moved <= 4 * elements + indices
    assert (moved - 4 * elements) % 8 == 0


def _moved_by_a_run(program, *shapes):
    """Elements that a program writes and gives back, and those of its inputs in which a NaN reaches one of these."""
    filled = [torch.rand(shape) for shape in shapes]
    given = [each.clone() for each in filled]
    found = program(*given)
    written = [before != after for before, after in zip(filled, given, strict=True)]
    read = 0
    for place, at in [(place, at) for place, each in enumerate(filled) for at in range(each.numel())]:
        given = [each.clone() for each in filled]
        given[place].view(-1)[at] = torch.nan
        result = program(*given)
        read += any(bool(each[where].isnan().any()) for each, where in zip(given, written, strict=True)) or (
            result is not None and bool(result.isnan().any())
        )
    return read + sum(int(where.sum()) for where in written) + (0 if found is None else found.numel())


_AT, _ROWS = torch.tensor([[0, 1, 2, 3], [4, 4, 4, 4]]), torch.tensor([0, 3, 5])


@pytest.mark.parametrize(
    ("program", "others", "indices"),
    [
        (lambda x, v: x.scatter(0, _AT, v), [(2, 4)], 8),
        (lambda x, v: x.scatter(0, _AT, v)[:3].clone(), [(2, 4)], 3),
        (lambda x: x.scatter(0, _AT, 2.0, reduce="multiply"), [], 8),
        (lambda x, v: x.put(_ROWS, v), [(3,)], 3),
        (lambda x, v: x.put(_ROWS, v, accumulate=True), [(3,)], 3),
        (lambda x, v, w: x.put_(_ROWS, v).put_(_ROWS, w).sum(0), [(3,), (3,)], 3),
        (lambda x, v, w: x.put_(_ROWS, v).put_(_ROWS + 8, w).sum(0), [(3,), (3,)], 3),
        (lambda x, v, w: x.scatter_(0, _AT, v).scatter_add_(0, _AT, w).sum(0), [(2, 4), (2, 4)], 8),
        (lambda x, v, w: x.index_copy_(0, _ROWS, v).index_add_(0, _ROWS, w).sum(0), [(3, 4), (3, 4)], 3),
        (lambda x, v, w: x.index_add_(0, _ROWS, v).index_copy_(0, _ROWS, w).sum(0), [(3, 4), (3, 4)], 3),
        (lambda x: (x.exp() * 2).gather(1, _AT.T % 4)[:2].clone(), [], 4),
        (lambda x: x.cumsum(1).gather(0, _AT)[1].clone(), [], 4),
        (lambda x, v, w: x.index_put_((_ROWS,), v, True).index_put_((_ROWS,), w, True).sum(0), [(3, 4), (3, 4)], 3),
    ],
)
def test_of_what_known_places_replace_nothing_is_read(program, others, indices):
    shapes = [(6, 4), *others]
    moved = _bytes(program, *map(torch.empty, shapes), policy="minimal")
    assert moved == 4 * _moved_by_a_run(program, *shapes) + 8 * indices


def test_rows_that_a_mask_of_the_program_names_are_known():
    mask = torch.arange(6) % 3 == 0
    for program, others in (
        (lambda x: x.softmax(1)[mask], []),
        (lambda x, v: x.index_put((mask,), v), [(2, 4)]),
        (lambda x, v: x.index_put_((mask,), v).sum(0), [(2, 4)]),
        (lambda x: x.exp()[mask[:, None] & mask[:4]], []),
    ):
        shapes = [(6, 4), *others]
        moved = _bytes(program, *map(torch.empty, shapes), policy="minimal")
        assert 0 <= moved - 4 * _moved_by_a_run(program, *shapes) <= 24


def test_values_are_no_part_of_which_places_a_program_writes():
    at, x, v = torch.tensor([0, 5]), torch.empty(6, 4), torch.empty(2)
    moved = _bytes(lambda x, at, v, w: [x.put_(at, v).put_(at, w), None][1], x, at, v, v, policy="minimal")
    assert moved == 8 * 2 + 4 * 2 * 2


def test_rows_and_columns_of_a_tensor_of_an_open_size_may_be_written():
    """Rows that cross are written once of a known size, and not much more of an open one."""

    def program(c, i, a, b):
        c.index_copy_(1, i, a[:, :2])
        c.index_copy_(2, i, b[..., :2])

    found = [
        trace(program, f"fp32[{size}, 8, 8]", torch.tensor([1, 3]), *[f"fp32[{size}, 8, 8]"] * 2).bytes("minimal")
        for size in (8, "B")
    ]
    assert found[0] == 16 + 4 * 8 * 2 * (12 + 16)
    assert found[0] <= found[1].subs(dict.fromkeys(found[1].free_symbols, 8)) <= 1.1 * found[0]


def test_writes_to_unknown_places_are_no_more_than_the_tensor_has():
    def program(cache, x, first, second):
        for index in (first, first, second, second):
            cache[index] = x

    index = torch.zeros(5, dtype=torch.int64)
    moved = _bytes(program, torch.empty(8, 64), torch.empty(5, 64), index, index.clone(), policy="minimal")
    assert moved == 4 * 64 * (5 + 8) + 2 * 8 * 5


def test_inputs_that_are_updated_in_place_are_written():
    def step(parameter, gradient, mean):
        mean.mul_(0.9).add_(gradient, alpha=0.1)
        parameter.sub_(mean / (mean.abs() + 1))

    assert _bytes(step, *(torch.empty(64, 64) for _ in range(3)), policy="minimal") == 4 * 64 * 64 * 5


def test_places_of_several_indices_are_read_once():
    def program(x):
        return x[torch.tensor([0, 1, 1]), torch.tensor([2, 2, 2])]

    assert _bytes(program, torch.empty(8, 8, 64), policy="minimal") == 4 * 64 * (2 + 3) + 2 * 3 * 8


LAYER = torch.nn.Linear(64, 64, bias=False)


def test_a_module_is_found_in_a_function_that_is_written_inside_another():
    def step(x):
        return torch.utils.checkpoint.checkpoint(lambda y: LAYER(y).tanh(), x, use_reentrant=False).sum().backward()

    assert trace(step, torch.empty(8, 64)).flops() == 3 * 2 * 8 * 64 * 64


def test_views_of_open_sizes():
    traced = trace(lambda x: x[:, :384] * x[:, 384:], "fp32[B, 768]")
    (moved,) = traced.bound("h100").bytes.values()
    assert moved.subs(dict.fromkeys(moved.free_symbols, 64)) == 4 * 64 * (768 + 384)


def test_pieces_of_drawn_views_are_those_of_their_elements():
    draw = random.Random(0)
    for _ in range(300):
        x = torch.arange(96).view(draw.choice([(96,), (8, 12), (2, 8, 6), (4, 24)]))
        views = []
        for _ in range(draw.randint(1, 4)):
            ends = [sorted(draw.sample(range(n + 1), 2)) for n in x.shape]
            views.append(x[tuple(slice(a, b, draw.choice((1, 1, 2))) for a, b in ends)])
        held = [set(view.flatten().tolist()) for view in views]
        cut = pieces([region_of(view) for view in views])
        union = set().union(*held)
        assert cut.union(range(len(views))) == 8 * len(union)
        assert cut.apart == (sum(map(len, held)) == len(union))


def test_all_of_a_tensor_by_its_rows_and_by_its_batches_is_one_piece_of_any_size():
    """Places are never listed where rows of a view go on from one row of another to the next."""
    rows = Stretches(0, ((2**40, 2**10), (2**9, 2), (2, 1)))
    batches = Stretches(0, ((2**20, 2**30), (2**20, 2**10), (2**9, 2), (2, 1)))
    assert pieces([rows, batches, Stretches(0, ((2**50, 1),))]) == ((2**50,), ((0,), (0,), (0,)))
    assert pieces([rows, Stretches(2**10, ((3, 2**10), (2**10, 1)))]).sizes == (2**50 - 3 * 2**10, 3 * 2**10)


def test_as_much_is_scattered_as_indices_name():
    given = ("fp32[10, 8]", "int64[3, 8]", "fp32[5, 8]")
    added = trace(lambda x, at, rows: x.scatter_add_(0, at, rows), *given)
    assert (added.flops("all"), added.bytes()) == (3 * 8, 8 * 3 * 8 + 4 * 3 * 3 * 8)
