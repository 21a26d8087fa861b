"""What a JAX program stacks in a loop, and what it cuts out of an array, under the floor."""

import pytest

from tests.strategies import some

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

from roofline import trace  # noqa: E402

ROW = 4 * 64 * 64
ONE, TEN = jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((10, 64, 64), "float32")


def _rnn(h, w, x):
    def step(h, x):
        h = jnp.tanh(x + h @ w)
        return h, h

    return lax.scan(step, h, x)


def _before(x, **way):
    """Of each step the sum of the rows before its own."""
    return lax.scan(lambda c, row: (c + row, c), jnp.zeros((64, 64)), x, **way)[1]


@pytest.mark.parametrize(
    ("program", "inputs", "rows"),
    [
        (_rnn, (ONE, ONE, TEN), 1 + 1 + 10 + 10 + 1),
        (lambda h, w, x: _rnn(h, w, x)[1], (ONE, ONE, TEN), 1 + 1 + 10 + 10),
        (lambda c, w: lax.scan(lambda c, _: (c @ w, c), c, None, length=10), (ONE, ONE), 1 + 1 + 10 + 1),
        (lambda c, w: lax.scan(lambda c, _: (c @ w, c * 2), c, None, length=10), (ONE, ONE), 1 + 1 + 10 + 1),
        (lambda c, w: lax.scan(lambda c, _: (c @ w, (c, c)), c, None, length=10), (ONE, ONE), 1 + 1 + 20 + 1),
        (lambda x, w: lax.map(lambda x: x @ w, x), (TEN, ONE), 10 + 1 + 10),
        (lambda c, w: lax.scan(lambda c, _: (c @ w, 2.0), c, None, length=8192), (ONE, ONE), 1 + 1 + 2 + 1),
        (lambda c, w: lax.scan(lambda c, w: (c @ w, None), c, w)[0], (ONE, TEN), 1 + 10 + 1),
        (lambda c, w: lax.scan(lambda c, w: (c @ w, None), jnp.tanh(c), w)[0], (ONE, TEN), 1 + 10 + 1),
        (lambda x: lax.scan(lambda c, x: (c + x, c + x), jnp.zeros((64, 64)), x)[1], (TEN,), 10 + 10),
        (lambda x: lax.scan(lambda c, x: (c + x, c), jnp.zeros((64, 64)), x), (TEN,), 10 + 10 + 1),
        (lambda x: _before(x), (TEN,), 9 + 10),
        (lambda x: _before(x)[:4], (TEN,), 3 + 4),
        (lambda x: _before(x)[1::3], (TEN,), 7 + 3),
        (lambda x: _before(x, reverse=True)[2:5], (TEN,), 7 + 3),
        (lambda x: lax.scan(lambda c, x: (c + x[:32], c * x[32:]), jnp.zeros((32, 64)), x)[1][2:4], (TEN,), 2.5 + 1),
        (lambda x: lax.scan(lambda c, x: (x, c[:32]), jnp.zeros((64, 64)), x)[0], (TEN,), 1 + 1),
        (lambda c: lax.fori_loop(0, 10, lambda i, c: jnp.roll(c, 1, 0) * jnp.roll(c, 1, 1), c), (ONE,), 1 + 1),
        (lambda c: (lambda y: (y, y[:32] - y[32:]))(jnp.tanh(c)), (ONE,), 1 + 1 + 0.5),
        (jax.grad(lambda w, c: lax.scan(lambda c, w: (jnp.tanh(c @ w), None), c, w)[0].sum()), (TEN, ONE), 10 + 10 + 1),
    ],
)
def test_every_row_that_a_loop_reads_or_stacks_moves(program, inputs, rows):
    traced = trace(program, *inputs, frontend="jax")
    assert traced.bytes("minimal") == rows * ROW


def test_a_row_that_is_carried_and_stacked_is_written_once():
    traced = trace(lambda h, w, x: _rnn(h, w, x)[1], ONE, ONE, TEN, frontend="jax")
    assert traced.bytes() == 10 * 8 * ROW


def test_a_loop_that_starts_from_zeros_reads_what_it_carries():
    traced = trace(lambda x: lax.scan(lambda c, x: (c + x, None), jnp.zeros((64, 64)), x)[0], TEN, frontend="jax")
    assert traced.bytes() == (10 * 3 - 1) * ROW


def _jacobi(u):
    return 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))


@pytest.mark.parametrize(
    ("program", "shape", "elements"),
    [
        (_jacobi, (64, 64), 2 * 64 * 64),
        (lambda x: x[2:] + x[:-2] - 2 * x[1:-1], (18,), 18 + 16),
        (lambda x: x[:, ::2] * x[:, 1::2], (8, 8), 64 + 32),
        (lambda x: x[:600].sum() + x[400:].sum(), (1024,), 1024 + 1),
        (lambda x: x[:300].sum() + x[:400].sum(), (1024,), 400 + 1),
        (lambda x: x[::2].sum() + x[:1023].sum(), (1024,), 1023 + 1),
    ],
)
def test_parts_that_overlap_are_read_once(program, shape, elements):
    traced = trace(program, jax.ShapeDtypeStruct(shape, "float32"), frontend="jax")
    assert traced.bytes("minimal") == 4 * elements


@pytest.mark.parametrize(
    ("program", "elements"),
    [
        (lambda x: jax.image.resize(x, (8, 16, 32, 64), "nearest"), 2 * 8 * 16 * 32 * 64),
        (lambda x: jax.image.resize(x, (8, 128, 128, 64), "nearest"), 8 * 64 * 64 * 64 * (1 + 4)),
        (lambda x: x[::2][:, ::2][:, :, 3], 2 * 4 * 32 * 64),
        (lambda x: (y := x[::2], y[:, 0]), 2 * 4 * 64 * 64 * 64 + 4 * 64 * 64),
    ],
)
def test_what_is_picked_from_what_was_picked_is_read_once(program, elements):
    traced = trace(program, jax.ShapeDtypeStruct((8, 64, 64, 64), "bfloat16"), frontend="jax")
    assert 0 <= traced.bytes("minimal") - 2 * elements <= 2048  # and the places that are picked


def test_both_parts_of_an_array_that_a_result_is_made_of_are_read():
    """As of rotated halves: of one row and one column of the result two of x."""
    found = trace(lambda x: (x[..., :2] * 2 - x[..., 2:])[:1, :, :1], "fp32[3, 5, 4]", frontend="jax")
    assert found.bytes("minimal") == 4 * (2 * 5 + 5)


def test_places_and_masks_that_are_worked_out_of_few_fractions_are_known():
    def cropped(x):
        return jax.image.resize(x, (4, 32, 32, 3), "nearest")[:, :8]

    def masked(x):
        return jnp.where(jnp.linspace(0.0, 1.0, 64)[:, None] < 0.25, x, 0.0)

    assert trace(cropped, "fp32[4, 16, 16, 3]", frontend="jax").bytes("minimal") == 4 * 4 * 3 * (4 * 16 + 8 * 32)
    rows = int((np.linspace(0, 1, 64, dtype=np.float32) < 0.25).sum())
    assert trace(masked, "fp32[64, 64]", frontend="jax").bytes("minimal") == 4 * 64 * (rows + 64)


def test_a_result_that_nothing_uses_is_no_part_of_the_floor():
    found = trace(lambda x: lax.top_k(x, 3)[0], ONE, frontend="jax")
    assert (found.bytes(), found.bytes("minimal")) == (ROW + 64 * 3 * 8, ROW + 64 * 3 * 4)


@pytest.mark.parametrize(
    ("program", "layers"),
    some(
        [
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i], x), 6),
            (lambda x, w: lax.fori_loop(0, 3, lambda i, x: x @ lax.dynamic_index_in_dim(w, i, 0, False), x), 3),
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i] @ w[i], x), 6),
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[2], x), 1),
            (lambda x, w: lax.scan(lambda x, i: (x @ w[i], None), x, jnp.arange(6))[0], 6),
            (lambda x, w: lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1] @ w[c[0]]), (0, x))[1], 6),
            (lambda x, w: lax.fori_loop(0, 3, lambda _, x: lax.fori_loop(0, 4, lambda i, x: x @ w[i], x), x), 4),
            (lambda x, w: lax.fori_loop(0, 12, lambda i, x: x @ w[i % 6], x), 6),
            (lambda x, w: lax.scan(lambda x, i: (x @ w[i], None), x, jnp.concatenate([jnp.arange(6)] * 2))[0], 6),
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i], x @ w[0]), 6),
            (lambda x, w: lax.scan(lambda x, wi: (x @ wi, None), x @ w[0], w)[0], 6),
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i // 2], x), 3),
            (lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i >> 1], x), 3),
            (lambda x, w: lax.fori_loop(0, 3, lambda i, x: x @ w[i] @ w[i + 3], x), 6),
            (lambda x, w: lax.scan(lambda x, i: (x @ w[i] @ w[5 - i], None), x, jnp.arange(6))[0], 6),
            (lambda x, w: lax.fori_loop(2, 6, lambda i, x: x @ w[i], lax.fori_loop(0, 3, lambda i, x: x @ w[i], x)), 6),
            (
                lambda x, w: lax.fori_loop(0, 2, lambda j, x: lax.fori_loop(0, 3, lambda i, x: x @ w[3 * j + i], x), x),
                6,
            ),
            (
                lambda x, w: lax.fori_loop(0, 2, lambda j, x: jax.jit(lambda x, w, j: x @ w[j] @ w[j + 2])(x, w, j), x),
                4,
            ),
        ],
        3,
    ),
)
def test_layers_that_a_loop_picks_by_its_counter_are_read_each_once(program, layers):
    traced = trace(program, "fp32[8, 16]", "fp32[6, 16, 16]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * (2 * 8 * 16 + layers * 16 * 16) <= 256  # and counters


def test_stacked_layers_of_a_loop_are_in_memory_once():
    needed = trace(lambda x, w: lax.fori_loop(0, 6, lambda i, x: x @ w[i], x), "fp32[8, 16]", "fp32[6, 16, 16]",
                   frontend="jax").bound(on="h100").footprint  # fmt: skip
    assert 0 <= needed.total - 4 * (6 * 16 * 16 + 16 * 16 + 3 * 8 * 16) <= 64


@pytest.mark.parametrize(
    "pick",
    [
        lambda w, i: lax.dynamic_index_in_dim(w, i, 0, False),
        lambda w, i: jnp.take(w, i, axis=0),
        lambda w, i: w[jnp.array(i)],
        lambda w, i: w[np.array([i])][0],
        lambda w, i: w[jnp.arange(6)[i]],
        lambda w, i: w[jnp.arange(6, 0, -1)[i] - 7],
        lambda w, i: lax.dynamic_slice_in_dim(w, jnp.int32(i), 1, 0)[0],
    ],
)
def test_layers_that_a_program_picks_by_numbers_it_holds_are_read_each_once(pick):
    def program(x, w):
        for i in range(5):
            x = x @ pick(w, i)
        return x @ pick(w, 2)

    traced = trace(program, "fp32[8, 16]", "fp32[6, 16, 16]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * (2 * 8 * 16 + 5 * 16 * 16) <= 256  # and numbers


def test_even_and_odd_columns_that_indices_pick_are_read_each_once():
    even, odd = np.arange(0, 64, 2), np.arange(1, 64, 2)
    traced = trace(lambda x: x[:, even] * x[:, odd], "fp32[1024, 64]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * 1024 * (64 + 32) <= 2048


@pytest.mark.parametrize("places", [[0, 1, 1, 3], [5, 0, 5, 1], [2, 2, 2, 2]])
def test_rows_that_indices_pick_twice_are_read_once(places):
    traced = trace(lambda x: x[np.array(places)], "fp32[8, 1024]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * 1024 * (4 + len(set(places))) <= 256  # and numbers


N = 128
TRIANGLE = N * (N + 1) // 2


@pytest.mark.parametrize(
    ("program", "elements"),
    [
        (jnp.tril, TRIANGLE + N * N),
        (lambda x: jnp.triu(x, 1), TRIANGLE - N + N * N),
        (lambda x: jnp.tril(x).sum(), TRIANGLE + 1),
        (jnp.diag, 2 * N),
        (jnp.trace, N + 1),
        (lambda x: jnp.diag(jnp.tril(x[:40, :40])), 2 * 40),
        (lambda x: jnp.einsum("ii->i", x), 2 * N),
        (lambda x: jnp.where(jnp.arange(N)[:, None] < 10, x, 0.0), 10 * N + N * N),
        (lambda x: jnp.concatenate([x, 2 * x])[:10], 20 * N),
        (lambda x: jnp.stack([x, x + 1])[0], 2 * N * N),
        (lambda x: jnp.tanh(x + 1)[:10], 20 * N),
        (lambda x: jnp.split(x, 4)[1], N * N // 2),
        (lambda x: jnp.flip(x, 0)[:10], 20 * N),
        (lambda x: (y := jnp.tanh(x))[:10].sum() + y[5:15].sum(), 15 * N + 1),
        (lambda x: jnp.repeat(x, 2, 0)[:10], 15 * N),
        (lambda x: jnp.cumsum(x, 0)[:10], 20 * N),
        (lambda x: jax.nn.softmax(x)[:10], 20 * N),
        (lambda x: (x @ x.T)[:10, :20], 20 * N + 10 * 20),
        (lambda x: jnp.sort(x)[:10, :2], 10 * N + 20),
        (lambda x: x.at[:100].set(0.0).sum(), 28 * N + 1),
        (lambda x: lax.dynamic_update_slice(x, jnp.ones((1, N)), (5, 0))[:10] + 1, 19 * N),
        (lambda x: jnp.tril(x[:32, :32])[2:10].sum(0), 52 + 32),
        (lambda x: jnp.where(jnp.arange(N)[:, None] < 10, x, 0.0)[5:20].sum(), 5 * N + 1),
    ],
)
def test_no_more_is_read_than_a_result_needs(program, elements):
    traced = trace(program, f"fp32[{N}, {N}]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * elements <= 64


@pytest.mark.parametrize(
    ("program", "shapes", "elements"),
    [
        (lambda a, b: jnp.linalg.solve(a, b)[:2], [(5, 3, 3), (5, 3, 2)], 2 * (9 + 6 + 6)),
        (lambda a, b: jnp.linalg.solve(a, b[..., None])[1:3, :, 0], [(5, 3, 3), (5, 3)], 2 * (9 + 3 + 3)),
        (lambda a: jnp.linalg.inv(a)[-1], [(5, 3, 3)], 9 + 9),
        (lambda x, i: jnp.take_along_axis(x, jnp.int32(i), 0)[:, :2], [(8, 4), (2, 4)], 4 + 4 + 4),
        (lambda x: jnp.take_along_axis(x, np.array([[0, 1, 1, 3]]), 0), [(8, 4)], 4 + 4 + 4),
        (lambda x: jnp.take_along_axis(x, np.array([[0, 1], [0, 1]]), 0), [(8, 2)], 2 + 4 + 4),
        (lambda x: jnp.take_along_axis(2 * x, np.array([[0], [3], [3], [1]]), 1)[2:], [(4, 8)], 2 + 4 + 2),
        (lambda q, k, v: lax.dynamic_slice_in_dim(jnp.tril(q @ k.T), 0, 3) @ v, [(8, 4)] * 3, 4 * 3 * 4),
        (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x[i], 0 * x[0])[:2], [(8, 4)], 3 * 2 + 2),
    ],
)
def test_of_batches_those_that_a_result_has_are_read(program, shapes, elements):
    inputs = [f"fp32[{', '.join(map(str, shape))}]" for shape in shapes]
    assert trace(program, *inputs, frontend="jax").bytes("minimal") == 4 * elements


def _attended(q, k, v, mask, low=-1e9):
    return jax.nn.softmax(jnp.where(mask, q @ k.mT, low)) @ v


_CAUSAL = np.tril(np.ones((N, N), bool))


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        (lambda q, k, v: _attended(q, k, v, _CAUSAL)[:10], 40),
        (lambda q, k, v: _attended(q, k, v, _CAUSAL, -jnp.inf)[3:10] * 2, 7 + 10 + 10 + 7),
        (lambda q, k, v: _attended(q, k, v, jnp.arange(N) <= 9), N + 10 + 10 + N),
        (lambda q, k, v: _attended(q, k, v, jnp.arange(N)[:, None] >= jnp.arange(N))[:10], 40),
        (lambda q, k, v: (jnp.exp(jnp.where(_CAUSAL, q @ k.T, -jnp.inf)) / 8 @ v)[:10], 40),
        (lambda q, k, v: (jnp.where(_CAUSAL, q @ k.T, 0.0) * 2 @ v)[:10], 40),
        (lambda q, k, v: _attended(q, k, v, _CAUSAL, 0.0)[:10], 10 + 10 + N + 10),  # which hides nothing
        # a line that is hidden as a whole weighs all values alike
        (lambda q, k, v: _attended(q, k, v, jnp.arange(N)[:, None] > jnp.arange(N))[:1], N + 1),
    ],
)
@pytest.mark.parametrize("dtype", some(["fp32", "bf16"], 2))
def test_of_values_under_a_mask_those_that_it_lets_through_are_read(program, rows, dtype):
    for lead in ("", "2, 3, "):
        inputs = [f"{dtype}[{lead}{N}, {N}]"] * 3
        each = program if not lead else jax.vmap(jax.vmap(program))
        moved = trace(each, *inputs, frontend="jax").bytes("minimal")
        elements = rows * N * (6 if lead else 1)
        masks = N * N  # of truth values that the program holds
        assert 0 <= moved - elements * (4 if dtype == "fp32" else 2) <= masks


@pytest.mark.long
def test_a_mask_that_is_repeated_for_many_heads_is_looked_at_once():
    def program(q, k, v):
        mask = jnp.arange(4096)[:, None] >= jnp.arange(4096)
        return _attended(q, k, v, mask[None, None])[:, :, :64]

    moved = trace(program, *["bf16[64, 64, 4096, 8]"] * 3, frontend="jax").bytes("minimal")
    assert moved < 2.1 * 2 * 64 * 64 * 4096 * 8


@pytest.mark.parametrize(
    ("pick", "layers"),
    [
        (lambda i: i * 0, 1),
        (lambda i: i % 2, 2),
        (lambda i: jnp.minimum(i, 2), 3),
        (lambda i: 5 - i, 6),
    ],
)
def test_layers_that_a_loop_picks_again_are_read_once(pick, layers):
    def program(x, w):
        return lax.scan(lambda x, i: (x @ w[pick(i)], None), x, jnp.arange(6))[0]

    traced = trace(program, "fp32[64, 64]", "fp32[6, 64, 64]", frontend="jax")
    assert -64 <= traced.bytes("minimal") - ROW * (2 + layers) <= 512  # and counters


def test_of_a_buffer_that_is_updated_what_was_there_before_is_read():
    def step(cache, row):
        cache = lax.dynamic_update_slice(cache, row, (5, 0))
        return cache, cache[:8].sum(0)

    traced = trace(step, "fp32[64, 64]", "fp32[1, 64]", frontend="jax")
    assert traced.bytes("minimal") == 4 * 64 * (7 + 1 + 1 + 1)  # seven rows, the new one, read and written, the sum


@pytest.mark.parametrize("rows", [512, 4096])
def test_a_large_mask_hides_what_it_hides_of_a_floor(rows):
    x = jax.ShapeDtypeStruct((rows, rows), "float32")
    assert trace(jnp.tril, x, frontend="jax").bytes("minimal") == 4 * (rows * (rows + 1) // 2 + rows * rows)
    first = trace(lambda x: jnp.where(jnp.arange(rows)[:, None] < 10, x, 0.0), x, frontend="jax")
    assert first.bytes("minimal") == 4 * (10 * rows + rows * rows)


@pytest.mark.parametrize("body", [lambda x, w: (jnp.tanh(x @ w), None), jax.checkpoint(lambda x, w: (x @ w, None))])
def test_layers_that_a_scan_and_its_gradient_go_over_are_read_and_held_once(body):
    def program(x, w):
        return jax.grad(lambda w: lax.scan(body, x, w)[0].sum())(w)

    traced = trace(program, "fp32[8, 64]", "fp32[12, 64, 64]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * (8 * 64 + 2 * 12 * 64 * 64) <= 4 * 12 * 8 * 64
    assert traced.bound(on="h100").footprint.total <= 4 * (2 * 12 * 64 * 64 + 8 * 12 * 8 * 64)


def test_heads_that_are_repeated_for_queries_are_read_no_more_than_once():
    def program(q, k):
        keys = jnp.repeat(k, 4, axis=1)
        return [q[:, head] @ keys[:, head].T for head in range(8)]

    traced = trace(program, "fp32[16, 8, 64]", "fp32[512, 2, 64]", frontend="jax")
    assert traced.bytes("minimal") <= 4 * (16 * 8 * 64 + 512 * 2 * 64 + 8 * 16 * 512)


def test_a_binary_search_reads_an_element_a_step():
    found = trace(lambda rows, x: jnp.searchsorted(rows, x), "fp32[1000000]", "fp32[10]", frontend="jax")
    assert 4 * 10 * 19 <= found.bytes("minimal") - 2 * 4 * 10 <= 4 * 10 * 21


def test_parts_that_a_loop_visits_again_are_read_at_each_visit_where_operations_read_memory():
    def program(x):
        return lax.scan(lambda c, i: (c + lax.dynamic_slice(x, (i % 4, 0), (1, 1000))[0], None), x[0], jnp.arange(64))[
            0
        ]

    once, again = (trace(program, "fp32[4, 1000]", frontend="jax").bytes(policy) for policy in ("minimal", "each-op"))
    assert once <= 4 * 4 * 1000 + 4 * 1000 + 1000
    assert again >= 64 * 4 * 5 * 1000  # a part and its copy, the sum and what is added


@pytest.mark.parametrize(("shape", "rows"), [((12,), 4), ((12, 5), 4), ((13, 3), 5), ((12, 8, 64), 4)])
def test_elements_that_steps_do_not_share_evenly_are_all_read(shape, rows):
    """Each third of what a loop stacks, whose steps stand together: a step reads a part of its row on average."""
    traced = trace(
        lambda x: lax.scan(lambda c, x: (c, jnp.sin(x)), 0.0, x)[1][::3],
        jax.ShapeDtypeStruct(shape, "float32"),
        frontend="jax",
    )
    elements = rows * int(np.prod(shape[1:]))
    assert traced.bytes("minimal") == 2 * 4 * elements
    assert traced.bytes() == 4 * (2 * int(np.prod(shape)) + 2 * elements)
    assert traced.bound(on="h100").footprint.total == 4 * (2 * int(np.prod(shape)) + elements)


def _layers(x, ws):
    return lax.scan(lambda h, w: (h @ w, None), x, ws)[0]


def _groups(x, ws):
    return lax.scan(lambda h, group: (_layers(h, group), None), x, ws)[0]


@pytest.mark.parametrize(
    ("program", "stack"),
    [
        (_layers, (1,)),
        (_groups, (3, 4)),
        (_groups, (1, 4)),
        (_groups, (3, 1)),
        (lambda x, ws: lax.scan(lambda h, groups: (_groups(h, groups), None), x, ws)[0], (3, 4, 2)),
        (lambda x, ws: lax.scan(lambda h, _: (_layers(h, ws), None), x, None, length=3)[0], (4,)),
    ],
)
def test_layers_in_loops_of_loops_are_read_and_held_each_once(program, stack):
    ws = jax.ShapeDtypeStruct((*stack, 64, 64), "float32")
    traced = trace(program, ONE, ws, weights=1, frontend="jax")
    layers = int(np.prod(stack))
    assert traced.bytes("minimal") == (layers + 2) * ROW
    assert traced.bound(on="h100").footprint.parts["weight"] == layers * ROW


@pytest.mark.parametrize(
    ("program", "elements"),
    [
        (lambda x: lax.scan(lambda c, v: (c + v.sum(), None), 0.0, x)[0], N * N + 1),
        (lambda x: lax.scan(lambda c, v: (c + v[0], c + v[0]), 0.0, x), N + N + 1),
        (lambda x: (x * 2).at[3].set(5.0), (2 * N - 1) * N),
        (lambda x: lax.dynamic_update_slice(jnp.tanh(x), x[:2] * 3, (3, 0)), (2 * N - 2) * N),
        (lambda x: lax.fori_loop(0, 4, lambda i, b: b.at[i].set(x[i] * 2), jnp.zeros((4, N))), 2 * 4 * N),
    ],
)
def test_what_a_loop_carries_and_a_program_updates_itself_is_written_once(program, elements):
    traced = trace(program, f"fp32[{N}, {N}]", frontend="jax")
    assert 0 <= traced.bytes("minimal") - 4 * elements <= 64
