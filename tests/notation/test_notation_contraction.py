"""Products and elementwise operations: what is contracted, what is batch, what broadcasts, what has which dtype."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline import dtypes
from roofline.errors import DTypeError, NotationError
from roofline.notation import canonical, program


def only(text, compute=None):
    (step,) = program(text, compute).steps
    return step


def shape(text):
    """The result's dimensions as names and numbers."""
    found = program(text)
    return [found.sizes.get(label, label) for label in found.steps[-1].output.labels]


def refused(text, message, compute=None):
    with pytest.raises(NotationError) as caught:
        program(text, compute)
    assert message in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("text", "contracted", "batch", "result"),
    [
        ("bf16[B, D] * bf16[D, F]", ("D",), (), ("B", "F")),
        ("bf16[B, D] * bf16[D, F] -> bf16[F, B]", ("D",), (), ("F", "B")),
        ("bf16[B, D] * bf16[E, D, F]", ("D",), (), ("B", "E", "F")),
        ("bf16[B, S, D] * bf16[B, T, D] -> [B, S, T]", ("D",), ("B",), ("B", "S", "T")),
        ("bf16[B, D, E] ·_{D,E} bf16[D, E, F]", ("D", "E"), (), ("B", "F")),
        ("bf16[B, D, E] ·_DE bf16[D, E, F]", ("D", "E"), (), ("B", "F")),
        ("bf16[B, D] ·_D bf16[B, D, F]", ("D",), ("B",), ("B", "F")),
        ("bf16[B, D] * bf16[B, D] -> bf16[B]", ("D",), ("B",), ("B",)),
        ("bf16[D] * bf16[D, F]", ("D",), (), ("F",)),
        ("bf16[I, J] * bf16[I, J] -> bf16[1]", ("I", "J"), (), ()),
    ],
)
def test_labels_are_classified(text, contracted, batch, result):
    step = only(text)
    assert step.kind == "contraction"
    assert (step.contracted, step.batch, step.output.labels) == (contracted, batch, result)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf16[B, D] * bf16[E, F]", "[B, D] * [E, F] share no dimension; rename"),
        ("bf16[B, D] * bf16[B, D]", "share B and D, so what is contracted must be said; write the result (-> …) or"),
        ("bf16[B, D] * bf16[D, F] -> bf16[B]", "F stands in one operand and nowhere else; add F to the result"),
        ("bf16[B, D] * bf16[D, F] -> bf16[B, G]", "G stands in the result and in no operand"),
        ("bf16[B, D] * bf16[D, F] -> bf16[B, B, F]", "B stands twice in the result"),
        ("bf16[B, B] * bf16[B, F]", "B stands twice in one tensor; give the second one a name of its own"),
        ("bf16[B, D] ·_E bf16[D, F]", "E is to be contracted but does not stand in both operands; both have: D"),
        ("bf16[B, D] ·_D bf16[B, D] -> bf16[B, D]", "D is contracted by ·_D and stands in the result"),
        ("bf16[B, D] ·_B bf16[B, D] -> bf16[]", "D is not in the result and not in ·_{…}"),
        ("bf16[B, D] ·_{D,D} bf16[B, D]", "D is to be contracted twice"),
    ],
)
def test_labels_that_do_not_fit_are_refused(text, message):
    refused(text, message)


def test_a_chain_infers_every_step_but_the_last():
    first, second = program("A[B, D] * W[D, F] * V[F, D] -> fp32[D, B]").steps
    assert (first.output.labels, first.output.dtype) == (("B", "F"), "bf16")
    assert (second.output.labels, second.output.dtype) == (("D", "B"), "fp32")
    refused("A[B, D] * W[B, D] * V[D, F] -> [B, F]", "share B and D")


def test_a_product_without_a_contracted_label_is_elementwise():
    for text, result in [
        ("bf16[B, D] * bf16[B, D] -> bf16[B, D]", ("B", "D")),
        ("bf16[B] * bf16[D] -> bf16[B, D]", ("B", "D")),
        ("bf16[] * bf16[B, D]", ("B", "D")),
        ("bf16[B, D] * bf16[]", ("B", "D")),
    ]:
        step = only(text)
        assert (step.kind, step.function, step.output.labels) == ("elementwise", "multiply", result)
        assert step.contracted == ()


def test_numbers_pair_as_matmul_pairs_them():
    assert shape("bf16[512, 8192] @ bf16[8192, 4096]") == [512, 4096]
    assert shape("bf16[8, 1, 5, 6] @ bf16[3, 6, 7]") == [8, 3, 5, 7]
    assert shape("bf16[6] @ bf16[3, 6, 7]") == [3, 7]
    step = only("bf16[8, 5, 6] @ bf16[8, 6, 7]")
    assert (step.contracted, step.batch) == (("#3",), ("#1",))
    refused("bf16[512, 8192] @ bf16[4096, 8192]", "[512, 8192] @ [4096, 8192]: 8192 and 4096 differ; numbers pair")
    refused("bf16[2, 5, 6] @ bf16[3, 6, 7]", "2 and 3 differ")
    refused("bf16[5, 6] @ bf16[6, 7] -> bf16[7, 5]", "the product gives [5, 7]")
    refused("bf16[5, 6] @ bf16[6, 7] -> bf16[5]", "the product gives [5, 7]")


SIZES = st.sampled_from([1, 2, 3])


@given(st.lists(SIZES, min_size=1, max_size=4), st.lists(SIZES, min_size=1, max_size=4))
def test_numbers_agree_with_numpy(left, right):
    text = f"fp32{left} @ fp32{right}"
    try:
        expected = list((np.ones(left) @ np.ones(right)).shape)
    except ValueError:
        with pytest.raises(NotationError):
            program(text)
        return
    assert shape(text) == expected


@given(st.lists(SIZES, max_size=4), st.lists(SIZES, max_size=4))
def test_broadcasting_of_numbers_agrees_with_numpy(left, right):
    text = f"fp32{left} + fp32{right}"
    try:
        expected = list(np.broadcast_shapes(left, right))
    except ValueError:
        with pytest.raises(NotationError):
            program(text)
        return
    assert shape(text) == expected


@pytest.mark.parametrize(
    ("text", "flops", "bytes_"),
    [
        ("x = bf16[64, 64]; x @ x", 2 * 64**3, 2 * 2 * 64**2),
        ("x = bf16[4, 64, 64]; x @ x", 4 * 2 * 64**3, 2 * 2 * 4 * 64**2),
        ("x = bf16[64]; x · x", 2 * 64, 2 * 65),
        ("A = bf16[64, 64]; (A @ A) @ A", 2 * 2 * 64**3, 2 * 5 * 64**2),
        ("x = bf16[8, 64]; w = bf16[64, 64]; relu(x @ w) @ w", 2 * 2 * 8 * 64**2, 2 * (2 * 64**2 + 6 * 8 * 64)),
    ],
)
def test_a_square_of_numbers_may_meet_itself_again(text, flops, bytes_):
    answer = roofline.bound(text, on="h100")
    assert answer.flops == flops or answer.flops_by == {"cuda/bf16": flops}
    assert sum(answer.bytes.values()) == bytes_
    assert roofline.bound(canonical(program(text)), on="h100").lower == answer.lower
    assert answer.advise() is not None


def test_numbers_and_names_meet_by_position():
    found = program("bf16[B, D] * bf16[4096, F] -> bf16[B, F]")
    assert found.sizes["D"] == 4096
    assert found.labels == ("B", "F")
    assert found.assumptions == ("D = 4096, the number it meets",)
    assert shape("bf16[B, 8192] * int8[8192, F]") == ["B", "F"]
    assert shape("bf16[B, 8192] * int8[8192, 64] -> bf16[64, B]") == [64, "B"]
    assert shape("bf16[8, S, D] * bf16[8, D, F]") == [8, "S", "F"]
    assert program("bf16[B, D] * bf16[D, F] -> bf16[64, 1024]").sizes == {"B": 64, "F": 1024}
    refused("bf16[4096, D] * bf16[8192, F]; bf16[B, D] * bf16[4096, F]", "D = 8192 and 4096 differ")
    refused("bf16[S, 128] * bf16[T, 128] -> bf16[S, T]", "128 stands in one operand and nowhere else; numbers pair")
    refused("bf16[B, D] * bf16[D, F] -> bf16[64, F, 3]", "no dimension of size 64 is left for the result")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("bf16[B, D] + bf16[B, D]", ["B", "D"]),
        ("bf16[D] - bf16[B, S, D]", ["B", "S", "D"]),
        ("bf16[B, D] / bf16[B]", ["B", "D"]),
        ("bf16[B, D] + bf16[]", ["B", "D"]),
        ("bf16[B] + bf16[D] -> bf16[B, D]", ["B", "D"]),
        ("bf16[B, D] + bf16[B, D] -> bf16[D, B]", ["D", "B"]),
        ("bf16[B, 1] + bf16[1, D]", ["B", "D"]),
        ("bf16[B, 64] + bf16[64]", ["B", 64]),
        ("bf16[4, 1] + bf16[3]", [4, 3]),
    ],
)
def test_elementwise_operands_broadcast(text, result):
    assert only(text).kind == "elementwise"
    assert shape(text) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf16[B, S] + bf16[B, D]", "the sum of [B, S] and [B, D]: neither contains the other"),
        ("bf16[4, 2] - bf16[3]", "the difference of [4, 2] and [3]: 2 meets 3; sizes are equal or 1"),
        ("bf16[B, D] / bf16[D] -> bf16[D]", "B stands in an operand and not in the result"),
        ("bf16[B, D] + bf16[D] -> bf16[B, D, E]", "E stands in the result and in no operand"),
    ],
)
def test_elementwise_operands_that_do_not_broadcast_are_refused(text, message):
    refused(text, message)


@pytest.mark.parametrize(
    ("text", "compute", "result"),
    [
        ("bf16[B, D] * int8[D, F]", "bf16", "bf16"),
        ("int8[B, D] * int8[D, F]", "int8", "int8"),
        ("int8[B, D] * int8[D, F] -> bf16[B, F]", "int8", "bf16"),
        ("bf16[B, D] * fp32[D, F] -> bf16[B, F]", "fp32", "bf16"),
        ("fp8_e4m3[B, D] * fp8_e5m2[D, F] -> bf16[B, F]", "fp8", "bf16"),
        ("nvfp4[B, D] * mxfp4[D, F] -> bf16", "fp4", "bf16"),
        ("fp16[B, D] * nf4[D, F]", "fp16", "fp16"),
        ("bf16[B, D] * q4_0[D, F]", "bf16", "bf16"),
        ("fp8_e4m3fnuz[B, D] * f8e5m2[D, F] -> bf16", "fp8", "bf16"),
        ("A[B, D] * int4[D, F]", "bf16", "bf16"),
        ("fp16[B, D] * uint4_g128[D, F]", "fp16", "fp16"),
        ("fp8_g128[B, D] * fp8_g128[D, F] -> bf16", "fp8", "bf16"),
    ],
)
def test_the_arithmetic_is_the_wider_operands(text, compute, result):
    step = only(text)
    assert (step.compute, step.output.dtype) == (compute, result)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("int4_g128", 4 + 16 / 128), ("uint4_g128", 4 + (16 + 4) / 128), ("INT8_G64", 8.25), ("fp8_g128", 8 + 32 / 128)],
)
def test_groups_of_elements_carry_their_scales(dtype, bits):
    """GPTQ's symmetric integers, AWQ's with a zero point, the fp8 of DeepSeek-V3's activations."""
    answer = roofline.bound(f"bf16[B, D] * {dtype}[D, F] -> bf16[B, F]", on="h100", B=4, D=4096, F=1024)
    assert answer.total_bytes == 2 * 4 * (4096 + 1024) + 4096 * 1024 * bits / 8


@pytest.mark.parametrize("dtype", ["int4_g0", "int4_g1", "int4_g", "bf16_g128", "mxfp4_g32", "int4_g12x"])
def test_groups_are_of_narrow_formats_without_scales(dtype):
    refused(f"bf16[B, D] * {dtype}[D, F]", f"unknown dtype '{dtype}'; did you mean")


def test_a_group_has_a_size_that_can_be_read():
    with pytest.raises(DTypeError, match="unknown dtype 'int4_g999"):
        dtypes.get("int4_g" + "9" * 5000)


def test_formats_of_equal_width_need_a_choice():
    refused(
        "bf16[B, D] * fp16[D, F]", "say compute='bf16' or compute='fp16'\n  bf16[B, D] * fp16[D, F]\n             ^"
    )
    step = only("bf16[B, D] * fp16[D, F]", "fp16")
    assert (step.compute, step.output.dtype) == ("fp16", "fp16")
    step = only("int8[B, D] * int8[D, F]", "bfloat16")
    assert (step.compute, step.output.dtype) == ("bf16", "int8")
    assert only("fp16[B, D] * fp16[D, F]", "fp16_acc16").compute == "fp16_acc16"
    for wrong in ("bf61", "", 7, []):
        with pytest.raises(DTypeError):
            program("bf16[B] * bf16[B]", wrong)


def test_the_default_dtype_is_said():
    assert program("A[I, J] * [J, K]").assumptions == ("default dtype bf16 for A, [J, K]",)
    said = "products are written as int8, as their operands are: -> bf16[…] says another format"
    assert program("A:int8[I, J] * int8[J, K]").assumptions == (said,)
    assert program("A:int8[I, J] * int8[J, K] -> int8[I, K]").assumptions == ()
    assert program("A:bf16[I, J] * int8[J, K]").assumptions == ()


def test_names_are_assigned_once_and_checked():
    found = program("W:int8[D, F]; x = bf16[B, D]; h = x * W -> C[B, F]; gelu(h[B, F]) + C")
    assert [step.function for step in found.steps] == ["contract", "gelu", "add"]
    assert found.steps[0].inputs[1].ident == "W"
    assert found.steps[2].inputs[1].ident == "h"
    refused("h = a[I] * b[I]; h = a + b", "'h' is assigned already; a name is assigned once")
    refused("h = h + b[I]", "'h' is not defined; an input is written with its dims")
    refused("h = a[I, J] + b[J]; gelu(h[J, I])", "h is h[I, J]")
    refused("h = a[I, J] + b[J]; gelu(h:fp32[I, J])", "h is bf16, here fp32")
    refused("a[I, J] * a[J, K]", "a is a[I, J]")
    refused("hidden = a[I] + b[I]; gelu(hiden)", "'hiden' is not defined; did you mean 'hidden'?")
    refused("W:int8[D, F]; gelu(x[B])", "W is declared and stands in no operation")


def test_operations_inside_come_first():
    found = program("x[B, D] * (W[D, F] + b[F])")
    assert [step.function for step in found.steps] == ["add", "contract"]
    assert found.labels == ("B", "D", "F")
    assert found.steps[0].text == "bf16[D, F] + bf16[F] -> bf16[D, F]"


def test_sharded_products_keep_what_is_written():
    step = only("bf16[B_X, D_Y] * bf16[D, F_Y] -> bf16[B_X, F_Y]")
    assert [axis.shard for axis in step.inputs[0].axes] == [("X",), ("Y",)]
    assert step.inputs[1].axes[0].shard == ()
    assert program("A[I, J_X] * B[J_X, K]").steps[0].output.unreduced == ("X",)
    assert program("A[I, J_X] * B[J_X, K] -> C[I, K]").steps[0].output.unreduced == ()
    assert program("A[I_X, J] * B[J, K_Y] mesh X=2,Y=2").axes == ("X", "Y")
    refused("A[I_X, J] * B[J, K_X]", "axis X would shard both I and K of the result")
    refused("A[I_X, J] * B[J, X]", "X is a size and a mesh axis")
    refused("A[I_XX, J]", "axis X stands twice in one tensor")
    refused("A[I, J] * B[J, K] mesh J=2", "J is a size and a mesh axis")
