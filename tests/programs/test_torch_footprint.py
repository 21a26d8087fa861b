"""How much memory a traced program needs at once, against a count by brute force, and for large programs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from roofline.bounds.memory import footprint
from roofline.programs import trace
from roofline.sizes import symbol
from roofline.work import Op, Tensor
from tests.programs import networks
from tests.strategies import some


def by_brute_force(ops):
    """At every step the sum over every intermediate from its first write to its last use; outside tensors beside."""
    written = {}
    for index, op in enumerate(ops):
        for t in op.writes:
            written.setdefault(t.ident, index)
    uses = {t.ident: index for index, op in enumerate(ops) for t in (*op.reads, *op.writes)}
    read = {t.ident for op in ops for t in op.reads}
    sizes = {t.ident: t.capacity_bytes for op in ops for t in (*op.reads, *op.writes)}
    inside = [name for name in written if name in read]
    beside = sum(size for name, size in sizes.items() if name not in inside)
    together = [sum(sizes[n] for n in inside if written[n] <= step <= uses[n]) for step in range(len(ops))]
    return beside + max(together, default=0)


@st.composite
def chains(draw):
    """Programs in which every operation reads some of what exists and writes one tensor more."""
    names, ops = ["x"], []
    for index in range(draw(st.integers(1, 12))):
        chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
        reads = tuple(Tensor(name, (1 + 7 * names.index(name),), "fp32") for name in chosen)
        names.append(f"h{index}")
        ops.append(
            Op("f", "elementwise", reads=reads, writes=(Tensor(names[-1], (1 + 7 * (len(names) - 1),), "fp32"),))
        )
    return ops


@given(ops=chains())
def test_one_pass_is_the_brute_force(ops):
    assert footprint(ops).total == by_brute_force(ops)


def test_a_network_against_brute_force():
    ops = trace(networks.on_shapes(networks.resnet50).eval(), "fp32[2, 3, 224, 224]").ops
    assert footprint(ops).total == by_brute_force(ops)


def test_an_update_in_place_needs_no_second_copy():
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    parts = trace(model, "fp32[4, 64]", optimizer="sgd").bound("h100").footprint.parts
    weights = 3 * 4 * 64 * 64
    assert parts["weight"] == weights
    assert weights <= parts["activation"] < weights + 20 * 4 * 4 * 64  # gradients of all weights, and what passes


def test_llama_training_by_hand():
    """Weights, gradients and two moments in bf16, and what the first step of the optimizer holds beside them."""
    model = networks.on_shapes(networks.Llama, layers=4).to(torch.bfloat16)
    count = sum(p.numel() for p in model.parameters())
    found = trace(model, "int32[1, 128]", optimizer="adamw").bound("h100").footprint
    assert found.parts["weight"] == 2 * count
    assert found.total == pytest.approx(4 * 2 * count, rel=0.15)
    assert found.total > 4 * 2 * count


def test_a_decode_step_holds_weights_and_cache():
    found = networks.llama_decode(32, 2048).bound("h100").footprint
    assert found.parts["weight"] == 2 * 6_738_415_616
    assert found.parts["kv"] == 2 * 2 * 32 * 4096 * 2049
    assert found.parts["activation"] < 2**20


@pytest.mark.long
def test_with_an_open_batch():
    model, B = networks.on_shapes(networks.vgg16), symbol("B")
    found = footprint(trace(model, "fp32[B, 3, 224, 224]").ops).total
    for size in (2, 16, 100):
        assert found.subs(B, size) == footprint(trace(model, f"fp32[{size}, 3, 224, 224]").ops).total


@pytest.mark.parametrize("many", some([1000, 20000], 2, 1))
@pytest.mark.long
def test_time_grows_with_the_program_not_its_square(many):
    """Twenty thousand operations: pairs of them would take minutes."""
    step = [Tensor(f"h{i}", (8,), "fp32") for i in range(many + 1)]
    ops = [Op("f", "elementwise", reads=(step[i],), writes=(step[i + 1],)) for i in range(many)]
    assert footprint(ops).total == 3 * 32 + 32


@pytest.mark.parametrize(
    ("optimizer", "moments", "extra"), [("sgd", 0, 0), ("adamw", 2, 8), ("rmsprop", 1, 8), ("adagrad", 1, 8)]
)
def test_the_floor_of_a_step_reads_and_writes_weights_and_moments(optimizer, moments, extra):
    """10,000 weights and moments in fp32, read and written; input, output, its gradient, a counter of steps."""
    traced = trace(nn.Linear(100, 100, bias=False), "fp32[1, 100]", optimizer=optimizer)
    assert traced.bytes("minimal") == 2 * (1 + moments) * 40_000 + 3 * 400 + extra
    assert traced.bound("h100").footprint.parts.get("state", 0) == moments * 40_000 + extra // 2
    assert traced.parameters() == 10_000


def test_a_step_of_the_programs_own_optimizer_moves_as_much():
    model = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    assert trace(step, "fp32[1, 100]").bytes("minimal") == 6 * 40_000 + 400 + 4 + 8
    assert not optimizer.state


def _copied(cache, place, new):
    return cache.index_copy_(2, place, new)


def _put(cache, place, new):
    cache[:, :, place] = new
    return cache


@pytest.mark.parametrize("write", [_copied, _put])
def test_a_cache_written_where_indices_name_is_read_whole(write):
    """One row is written and all others are read; an update that names places makes no new cache."""

    def decode(q, k, v, keys, values, place):
        return nn.functional.scaled_dot_product_attention(q, write(keys, place, k), write(values, place, v))

    row, cache = ("bf16[1, 8, 1, 128]",) * 3, ("bf16[1, 8, 2048, 128]",) * 2
    found = trace(decode, *row, *cache, "int64[1]")
    whole, one = 2 * 8 * 2048 * 128, 2 * 8 * 128
    assert found.bytes("minimal") == 2 * (whole - one) + 6 * one + 8
    assert found.bound("h100").footprint.parts["kv"] == 2 * whole


def test_dropout_while_training_reads_its_input_alone():
    """What random numbers are drawn into holds nothing before."""
    size = 4 * 8 * 100
    assert trace(nn.Dropout(0.1), "fp32[8, 100]").bytes() == 2 * size
    opened = trace(nn.Dropout(0.1), "fp32[B, 100]")
    assert opened.bytes().subs({symbol("B"): 8}) == 2 * size
    assert opened.assumptions[0] == "the arithmetic of random numbers is not counted"
    x = torch.empty(8, 100, device="meta", requires_grad=True)
    step = trace(nn.Dropout(0.1), x, backward=True)  # the mask, a byte for each, is written and read again
    assert step.bytes() == 2 * size + 800 + 800 + 2 * size
    assert trace(lambda x: torch.bernoulli(x), "fp32[8, 100]").bytes("minimal") == 2 * size


class _Cache:
    """What a program may give back that is no tuple or dictionary."""

    def __init__(self, keys):
        self.layers = [SimpleNamespace(keys=keys)]


@pytest.mark.parametrize("hold", [lambda h: h, _Cache, lambda h: {"h": [h]}])
def test_what_is_given_back_is_written_though_it_is_read_too(hold):
    layer = nn.Linear(64, 32, bias=False)

    def both(x):
        h = layer(x)
        return hold(h), torch.relu(h)

    for policy in ("minimal", "fused"):
        assert trace(both, "fp32[8, 64]").bytes(policy) == 4 * (8 * 64 + 64 * 32 + 2 * 8 * 32)


def test_of_what_is_seen_in_part_the_floor_writes_that_part():
    layer = nn.Linear(64, 32, bias=False)
    whole = 4 * (8 * 64 + 64 * 32 + 8 * 32)
    for picked, elements, rows, columns in (  # rows of the input and columns of the weight that these need
        (lambda h: (h[-1], torch.relu(h)), 32 + 8 * 32, 8, 32),
        (lambda h: h[:, :4], 8 * 4, 8, 4),
        (lambda h: (h[:, :4], h[:, 2:6]), 8 * 6, 8, 6),
        (lambda h: (h[:, :4], h), 8 * 32, 8, 32),
        (lambda h: (h[:, :4], h.sum()), 8 * 4 + 1, 8, 32),
        (lambda h: h[0, 0].expand(8, 8), 1, 1, 1),
        (lambda h: h.T[4:8], 8 * 4, 8, 4),
        (lambda h: h[2:5].view(torch.int32), 3 * 32, 3, 32),
    ):
        found = trace(lambda x, picked=picked: picked(layer(x)), "fp32[8, 64]")
        assert found.bytes("minimal") == 4 * (64 * (rows + columns) + elements)
        assert found.bytes("minimal") <= found.bytes("fused") <= found.bytes()
    assert trace(lambda x: layer(x)[:, :4], "fp32[8, 64]").bytes() == whole  # the kernel makes all of it
    opened = trace(lambda x: layer(x)[:, :4], "fp32[B, 64]").bytes("minimal")
    assert opened == 4 * (64 * symbol("B") + 64 * 4 + 4 * symbol("B"))


@pytest.mark.parametrize(
    ("program", "each_op", "floor"),
    [
        (lambda x: torch.argsort(x, 1), 64 * 16 * (4 + 4 + 8), 64 * 16 * (4 + 8)),
        (lambda x: torch.max(x, 1)[0], 64 * (16 * 4 + 4 + 8), 64 * (16 * 4 + 4)),
        (lambda x: torch.topk(x, 3, 1)[1], 64 * (16 * 4 + 3 * 12), 64 * (16 * 4 + 3 * 8)),
        (lambda x: torch.trace(x), 16 * 4 + 4, 16 * 4 + 4),
    ],
)
def test_a_result_that_nothing_uses_is_no_part_of_the_floor(program, each_op, floor):
    traced = trace(program, "fp32[64, 16]")
    assert (traced.bytes(), traced.bytes("minimal")) == (each_op, floor)


def test_what_a_program_keeps_of_its_own_backward_pass_is_part_of_the_floor():
    layer = nn.Linear(16, 16, bias=False)

    def step(x):
        loss = layer(x).max(1)[0].sum()
        loss.backward()
        return loss

    assert trace(step, "fp32[64, 16]").bytes("minimal") == 4 * (64 * 16 + 2 * 16 * 16 + 1)
    weight = torch.zeros(16, 16, requires_grad=True)

    def other(x):
        (x @ weight).sum().backward()
        return x[0] + 1

    assert trace(other, "fp32[64, 16]").bytes("minimal") == 4 * (64 * 16 + 2 * 16 * 16 + 16)


def test_a_gradient_that_a_program_does_not_give_back_is_no_part_of_the_floor():
    def loss(weight, x):
        return torch.tanh(x @ weight).sum()

    inputs = ("fp32[4, 3]", "fp32[5, 4]")
    one = trace(lambda *given: torch.func.grad(loss, argnums=(0, 1))(*given)[0], *inputs)
    assert one.bytes("minimal") == 4 * (12 + 20 + 12)


def test_random_numbers_and_what_is_written_over_are_no_part_of_the_floor() -> None:
    x, given = 4 * 8, "fp32[8]"
    for made in (
        lambda x: torch.empty_like(x).normal_() + x,
        lambda x: torch.zeros(8).uniform_() + x,
        lambda x: torch.zeros_like(x).copy_(x) + x,
        lambda x: torch.nn.functional.dropout(x, 0.5, True) + x,
    ):
        assert trace(made, given).bytes("minimal") == 2 * x
    assert trace(lambda x: torch.nn.functional.gumbel_softmax(x, hard=True), "fp32[2, 100]").bytes("minimal") == 1600
    assert trace(lambda x: torch.empty_like(x).normal_(), given).bytes("minimal") == x
    assert trace(lambda x: torch.empty_like(x).copy_(x), given).bytes("minimal") == 2 * x


def test_rows_that_an_index_replaces_are_not_read() -> None:
    row = 4 * 32

    def copied(cache, x):
        cache.index_copy_(1, torch.tensor([5]), x[:, None])
        return cache[:, :6].sum(1)

    def put(cache, x):
        cache[:, torch.tensor([5])] = x[:, None]
        return cache[:, :6].sum(1)

    def set_(cache, x):
        cache[:, 5] = x
        return cache[:, :6].sum(1)

    for program in (copied, put, set_):  # five rows, the new one, read and written, the sum
        assert 0 <= trace(program, "fp32[2, 16, 32]", "fp32[2, 32]").bytes("minimal") - 2 * row * (5 + 3) <= 8
