"""Sums over products, from PyTorch and from ONNX alike, against a brute-force count of what each step does."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch
from onnx import TensorProto, helper

from roofline.errors import InputError
from roofline.ops.einsum import operand_letters
from roofline.programs import trace
from roofline.sizes import symbol

#: Equation, shapes, multiply-adds, and sums or products beside them.
CASES = [
    ("ij,jk->ik", [(8, 9), (9, 10)], 720, 0),
    ("ij,jk", [(8, 9), (9, 10)], 720, 0),
    ("...ij,...jk->...ik", [(2, 8, 9), (2, 9, 10)], 1440, 0),
    ("...ij,jk->...ik", [(2, 3, 8, 9), (9, 10)], 6 * 720, 0),
    ("bhid,bhjd->bhij", [(2, 3, 5, 7), (2, 3, 6, 7)], 2 * 3 * 5 * 6 * 7, 0),
    ("i,j->ij", [(8,), (9,)], 0, 72),
    ("ij,ij->ij", [(8, 9), (8, 9)], 0, 72),
    ("ijk,jl->l", [(3, 4, 5), (4, 6)], 24, 60 - 4),
    ("ij->j", [(8, 9)], 0, 72 - 9),
]


def _file(equation, shapes):
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, list(s)) for i, s in enumerate(shapes)]
    node = helper.make_node("Einsum", [item.name for item in inputs], ["y"], equation=equation)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph([node], "g", inputs, [out]))


@pytest.mark.parametrize(("equation", "shapes", "macs", "rest"), CASES)
def test_torch_and_onnx_agree_with_a_count_by_hand(equation, shapes, macs, rest):
    inputs = [f"fp32[{', '.join(map(str, shape))}]" for shape in shapes]
    called = trace(lambda *x: torch.einsum(equation, *x), *inputs)
    filed = trace(_file(equation, shapes), frontend="onnx")
    for found in (called, filed):
        assert (found.macs(), found.complete) == (macs, True)
        assert found.flops("all") == 2 * macs + rest
    assert called.bytes() == filed.bytes()


def test_three_operands_go_from_the_left():
    found = trace(_file("ab,bc,cd->ad", [(8, 9), (9, 10), (10, 11)]), frontend="onnx")
    assert found.macs() == 8 * 9 * 10 + 8 * 10 * 11
    assert found.bytes("minimal") == 4 * (8 * 9 + 9 * 10 + 10 * 11 + 8 * 11)


@pytest.mark.parametrize("equation", ["?", "\xff", "i_,j"])
def test_a_sign_that_no_equation_has_is_an_error_and_is_not_read_without_end(equation):
    with pytest.raises(InputError, match=r"the equation of an Einsum is .*; letters, commas, '...' and '->'"):
        trace(_file(equation, [(), ()]), frontend="onnx")


def test_diagonals_and_other_orders():
    assert trace(_file("iij,j->i", [(4, 4, 5), (5,)]), frontend="onnx").macs() == 20
    moved = trace(_file("ij->ji", [(4, 5)]), frontend="onnx")
    assert (moved.flops("all"), moved.bytes()) == (0, 2 * 4 * 20)
    assert trace(lambda x: torch.einsum("ij->ji", x) + 1, "fp32[4, 5]").flops("all") == 20


@pytest.mark.parametrize(("equation", "ranks"), [("ab,bc", (2, 2)), ("b...a,...b", (3, 2)), ("...,...", (2, 3))])
def test_letters_give_the_shape_torch_gives(equation, ranks):
    words, result = operand_letters(equation, ranks)
    sizes = {letter: 2 + place for place, letter in enumerate(sorted({c for word in words for c in word}))}
    made = torch.einsum(equation, *(torch.zeros([sizes[c] for c in word]) for word in words))
    assert tuple(made.shape) == tuple(sizes[c] for c in result)


def test_a_file_leaves_the_order_of_a_product_of_three_open():
    chain, least = [(64, 8), (8, 64), (64, 2)], 8 * 64 * 2 + 64 * 8 * 2
    for equation, order in (("ij,jk,kl->il", (0, 1, 2)), ("jk,ij,kl->il", (1, 0, 2)), ("kl,ij,jk->il", (2, 0, 1))):
        found = trace(_file(equation, [chain[at] for at in order]), frontend="onnx")
        assert found.macs() == least  # left to right the first has 64·8·64 + 64·64·2
    six = trace(_file("ij,jk,kl,lm,mn,no->io", [(n, 2 if n == 9 else 9) for n in (9, 2) * 3]), frontend="onnx")
    assert six.macs() == 2 * (2 * 9 * 2) + 2 * 2 * 2 + 9 * 2 * 2 + 9 * 2 * 9  # what is nine long is summed first


def test_a_complex_product_is_four_real_multiply_adds():
    """8 FLOPs, as a bound prices it; other tools count one multiply-add for it."""
    traced = trace(torch.bmm, "complex64[2, 10, 20]", "complex64[2, 20, 30]")
    assert traced.flops() == traced.flops("all") == 2 * traced.macs() == 8 * 2 * 10 * 20 * 30
    assert traced.flops("unmasked") == 2 * traced.flops("fvcore") == 2 * 2 * 10 * 20 * 30


def test_the_order_of_pairs_is_that_of_the_fewest_flops_where_sizes_are_open_too():
    """Experts of a token: weighted before they are summed, a product less than from the left."""
    opened = trace(_file("tkf,tkfd,tk->td", [("T", 2, 8), ("T", 2, 8, 6), ("T", 2)]), frontend="onnx")
    closed = trace(_file("tkf,tkfd,tk->td", [(7, 2, 8), (7, 2, 8, 6), (7, 2)]), frontend="onnx")
    for amount in (lambda program: program.flops("all"), lambda program: program.bytes()):
        assert amount(opened).subs({symbol("T"): 7}) == amount(closed)
    assert closed.flops("all") == 7 * (2 * 8 + 2 * 2 * 8 * 6)


def test_jax_says_that_it_keeps_one_order_at_open_sizes():
    chain = "fp32[I, J]", "fp32[J, K]", "fp32[K, L]"
    said = [
        trace(lambda *x, equation=equation: jnp.einsum(equation, *x), *chain[:many], frontend="jax").assumptions
        for equation, many in (("ij,jk,kl->il", 3), ("ij,jk->ik", 2))
    ]
    assert [len(lines) for lines in said] == [1, 0]
    assert "JAX multiplies the operands of an einsum in one order at all sizes" in said[0][0]


@pytest.mark.parametrize(("product", "said"), [(lambda x: x @ x.T, True), (lambda x: x[1:] @ x[:-1].T, False)])
def test_a_matrix_times_its_own_transpose_may_take_half(product, said):
    lines = trace(product, "fp32[64, 32]").bound(on="h100").assumptions
    assert any("its own transpose counts whole" in line for line in lines) == said
