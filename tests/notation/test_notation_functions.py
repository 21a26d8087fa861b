"""Calls: the shapes that each family takes and gives, and what it refuses."""

from __future__ import annotations

import itertools

import pytest

from roofline import bound
from roofline.errors import NotationError
from roofline.notation import program
from roofline.notation.calls import FUNCTIONS, RULES, canonical_functions


def last(text):
    return program(text).steps[-1]


def shape(text):
    found = program(text)
    return [found.sizes.get(label, label) for label in found.steps[-1].output.labels]


def refused(text, message):
    with pytest.raises(NotationError) as caught:
        program(text)
    assert message in str(caught.value), str(caught.value)


def test_every_family_has_a_rule():
    assert {function.family for function in canonical_functions().values()} == set(RULES)


@pytest.mark.parametrize("name", [n for n, f in FUNCTIONS.items() if f.family == "elementwise" and f.most == 1])
def test_elementwise_functions_keep_the_shape(name):
    assert shape(f"{name}(bf16[B, 64]) -> bf16") == ["B", 64]


def test_elementwise_functions_of_several_operands_broadcast():
    assert shape("maximum(bf16[B, D], bf16[D])") == ["B", "D"]
    assert last("compare(bf16[B], bf16[B])").output.dtype == "bool"
    step = last("where([B, D], fp32[B, D], fp32[D])")
    assert (step.inputs[0].dtype, step.compute, step.output.dtype) == ("bool", "fp32", "fp32")
    assert last("cast(bf16[B]) -> int8").output.dtype == "int8"
    assert shape("rope(bf16[B, S, N, H], fp32[S, H])") == ["B", "S", "N", "H"]
    refused("cast(bf16[B])", "cast needs the dtype of its result; as in cast(x) -> int8")
    refused("swiglu(bf16[B, F], bf16[B, G])", "swiglu of [B, F] and [B, G]: neither contains the other")


def test_softmax_and_norms_work_along_the_named_dimension_or_the_last():
    assert last("softmax_T(fp32[B, T, S])").over == ("T",)
    found = program("softmax(fp32[B, T])")
    assert (found.steps[0].over, found.assumptions) == (("T",), ("softmax is along the last dimension, T",))
    numbers = program("softmax_T(fp32[8, 2048])")
    assert numbers.steps[0].over == ("#2",)
    assert numbers.assumptions == ("softmax_T of fp32[8, 2048] is along its last dimension",)
    step = last("layer_norm_D(x[B, S, D], fp32[D], fp32[D])")
    assert (step.over, step.output.dtype, step.compute) == (("D",), "bf16", "fp32")
    assert last("group_norm(bf16[B, 14, 14, 64], groups=32)").over == ("#1", "#2", "#3")
    refused("softmax_Q(bf16[B, T])", "softmax_Q: the operand has no Q; it has [B, T]")
    refused("softmax_{B,T}(bf16[B, T])", "softmax works along one dimension, not 2")
    refused("softmax(bf16[])", "softmax works along a dimension; this is a scalar")
    refused("layer_norm(x[D], g[B, D])", "the scale of layer_norm has more dimensions than x")
    refused("group_norm(bf16[B, C])", "group_norm needs groups=")


def test_reductions_drop_dimensions():
    assert shape("sum_T(bf16[B, T])") == ["B"]
    assert shape("sum_{S,T}(bf16[B, S, T])") == ["B"]
    assert shape("sum_ST(bf16[B, S, T])") == ["B"]
    assert shape("max(bf16[B, T])") == []
    assert shape("mean(bf16[B, T]) -> fp32[T]") == ["T"]
    assert shape("sum_T(bf16[4, 8])") == [4]
    assert shape("sum_last(bf16[B, 8])") == ["B"]
    assert last("argmax_V(bf16[B, V])").output.dtype == "int32"
    assert last("cumsum(bf16[B, T])").output.labels == ("B", "T")
    refused("sum_T(bf16[B, T]) -> bf16[T]", "sum gives [B]")


def test_the_largest_of_a_row_and_a_fourier_transform():
    assert shape("topk_V(bf16[B, V], k=8)") == ["B", 8]
    assert last("top_k(bf16[B, V], k=8) -> bf16[B, K]").output.labels == ("B", "K")
    assert last("fft_{H,W}(fp32[B, H, W])").over == ("H", "W")
    assert [last(f"fft({dtype}[B, N])").output.dtype for dtype in ("fp32", "complex64", "fp64")] == [
        "complex64",
        "complex64",
        "complex128",
    ]
    refused("topk(bf16[B, V])", "topk needs k=, a whole number; as in topk_V(x, k=8)")
    refused("topk(bf16[B, V], k=(2, 2))", "expected k= a whole number")
    refused("topk(bf16[B, 4], k=8)", "topk cannot take 8 of 4; k is at most 4")
    refused("topk_BV(bf16[B, V], k=8)", "topk works along one dimension, not 2")


def test_attention_pairs_its_operands():
    step = last("attention(q[B, S, N, H], k[B, T, K, H], v[B, T, K, V], causal)")
    assert step.output.labels == ("B", "S", "N", "V")
    assert dict(step.options) == {"causal": True}
    assert shape("attention(q[S, N, H], k[S, N, H], v[S, N, H])") == ["S", "N", "H"]
    found = program("attention(bf16[8, 1, 32, 128], bf16[8, 4096, 8, 128], bf16[8, 4096, 8, 128])")
    q, k, v = found.steps[0].inputs
    assert (q.labels[0], q.labels[3]) == (k.labels[0], k.labels[3])
    assert k.labels == v.labels[:3] + k.labels[3:]
    assert shape("attention(q[B, S, N, 64], k[B, T, K, H], v[B, T, K, H])") == ["B", "S", "N", 64]
    refused("attention(q[B, S, N, H], k[B, T, K, G], v[B, T, K, H])", "the head size of q and k differs: H and G")
    refused("attention(q[S, N, H], k[T, N, H], v[S, N, H])", "the length of k and v differs: T and S")
    refused("attention(q[A, S, N, H], k[B, T, N, H], v[B, T, N, H])", "the batch of q and k differs: A and B")
    refused("attention(q[S, 12, H], k[T, 5, H], v[T, 5, H])", "12 query heads cannot share 5 key heads evenly")
    refused("attention(q[S, H], k[S, H], v[S, H])", "it takes q[B, S, N, H]")
    refused("attention(q[S, N, H], k[S, N, H], v[S, N, H], causal, full)", "attention is causal or full, not both")
    refused("attention(q[S, N, H], k[S, N, H])", "attention takes 3 operands, not 2")


def test_a_lookup_gives_the_shape_of_the_indices_and_a_row():
    step = last("embedding(bf16[V, D], tokens[B, S])")
    assert step.output.labels == ("B", "S", "D")
    assert (step.inputs[1].dtype, step.output.dtype) == ("int32", "bf16")
    assert shape("embedding(fp32[32000, 4096], int32[8, 128])") == [8, 128, 4096]
    refused("embedding(bf16[V, D], int32[B, D])", "D stands in the table and in the indices")
    refused("embedding(int32[64, 512], bf16[50000, 1024])", "the indices of an embedding are whole numbers, not bf16")
    assert shape("embedding(bf16[100, 8], uint8[4])") == [4, 8]
    refused("embedding(bf16[V, D, E], int32[B])", "the table of an embedding is [V, D], not [V, D, E]")


def test_transposition_takes_the_written_order():
    assert shape("transpose(bf16[B, S, D])") == ["B", "D", "S"]
    assert shape("transpose(bf16[B, S, D]) -> [D, B, S]") == ["D", "B", "S"]
    assert shape("transpose(bf16[2, 3, 4]) -> bf16[4, 2, 3]") == [4, 2, 3]
    refused("transpose(bf16[B])", "transpose needs two dimensions")
    refused("transpose(bf16[B, D]) -> [D, E]", "transpose gives [D, B]")


def test_convolution_gives_computed_sizes():
    found = program("conv(bf16[B, 224, 224, 3], bf16[7, 7, 3, 64], stride=2, pad=3)")
    assert shape(found.text) == ["B", 112, 112, 64]
    assert dict(found.steps[0].options) == {"stride": (2, 2), "pad": (3, 3), "dilation": (1, 1), "groups": 1}
    assert shape("conv(bf16[B, L, C], bf16[3, C, O], same)") == ["B", "L", "O"]
    assert shape("conv(bf16[B, H, W, C], bf16[3, 3, C, O], pad=1)") == ["B", "H", "W", "O"]
    assert shape("conv3d(bf16[1, 8, 8, 8, 4], bf16[3, 3, 3, 4, 16])") == [1, 6, 6, 6, 16]
    named = program("conv(bf16[B, H, W, C], bf16[3, 3, C, O], stride=2) -> bf16[B, P, Q, O]")
    assert named.steps[0].output.labels == ("B", "P", "Q", "O")
    assert named.labels == ("B", "H", "W", "C", "O")
    assert program("conv(bf16[B, 8, C], bf16[3, C, O]) -> bf16[B, P, O]").sizes["P"] == 6
    unnamed = program("conv(bf16[B, H, C], bf16[3, C, O])")
    derived = unnamed.steps[0].output.labels[1]
    assert derived.startswith("#")
    assert derived not in unnamed.sizes


def test_groups_and_depthwise():
    assert shape("conv(bf16[B, 8, 8, 64], bf16[3, 3, 16, 128], groups=4, same)") == ["B", 8, 8, 128]
    step = last("conv(bf16[B, H, W, C], bf16[3, 3, 1, C], depthwise, same)")
    assert (step.options["groups"], step.options["depthwise"]) == ("C", True)
    assert last("conv(bf16[B, 8, 32], bf16[3, 1, 64], depthwise)").options["groups"] == 32
    refused("conv(bf16[B, 8, 64], bf16[3, 8, 128], groups=4)", "64 channels in 4 groups, weights for 8; each filter")
    refused("conv(bf16[B, 8, 64], bf16[3, 16, 126], groups=4)", "126 output channels do not fall into 4 groups")
    refused("conv(bf16[B, 8, C], bf16[3, C, O], groups=4)", "C is all channels, each group sees a part")
    refused("conv(bf16[B, 8, 32], bf16[3, 2, 64], depthwise)", "the weights of a depthwise convolution are")
    refused("conv(bf16[B, 8, 8, 32], bf16[3, 3, 32], depthwise)", "w[kernel…, 1, C], depthwise)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conv(bf16[B, 8, 8, 3], bf16[3, 3, 4, 64])", "the channels of conv differ: 3 and 4"),
        ("conv(bf16[B, 8, 8, 3], bf16[9, 9, 3, 64])", "a window of 9 does not fit a size of 8"),
        ("conv(bf16[B, 8, 8, 3], bf16[3, 3, 64])", "the form is conv(x[B, spatial…, C], w[kernel…, C/groups, O])"),
        ("conv(bf16[B, 8, 3], bf16[3, 3, 64], stride=(2, 2))", "stride has 2 numbers for 1 spatial dimension"),
        ("conv(bf16[B, 8, 3], bf16[3, 3, 64], same, pad=1)", "the padding is given twice"),
        ("conv(bf16[B, 8, 3], bf16[3, 3, 64], bf16[63])", "the bias of conv differ: 64 and 63"),
        ("conv(bf16[B, H, 3], bf16[3, 3, O], stride=2) -> [B, H, O]", "H is an input's size; this size of the result"),
        ("conv(bf16[B, 8, 3], bf16[3, 3, O], stride=2) -> [B, 8, O]", "conv gives [B, 3, O]"),
        (
            "conv(a[B, L, C], w[3, C, O], stride=2) -> y[B, P, O]; conv(y, v[3, O, Q], stride=2) -> [B, P, Q]",
            "P is another computed size; this size of the result is computed; give it a name of its own",
        ),
        ("conv(a[B, L, C], w[3, C, O]) + b[B, P, O]", "name the computed sizes where they arise, as in conv(…) ->"),
        ("pool(bf16[B, 8, 8, 3])", "pool needs window=; as in pool(x, window=2)"),
        ("pool(bf16[B, 8], window=2)", "the form is pool(x[B, spatial…, C], window=2)"),
        ("conv_transpose(bf16[B, 8, 3], bf16[3, 3, O], pad=same)", "conv_transpose has no padding 'same'"),
    ],
)
def test_windows_that_do_not_fit_are_refused(text, message):
    refused(text, message)


def _positions(size, k, stride, pad, dilation):
    """Count by hand where a window stands inside the padded input."""
    reach = dilation * (k - 1)
    return sum(1 for start in range(-pad, size + pad - reach, stride))


def test_convolution_sizes_equal_a_count_of_positions():
    for size, k, stride, pad, dilation in itertools.product((5, 8), (1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2)):
        text = f"conv(bf16[1, {size}, 4], bf16[{k}, 4, 4], stride={stride}, pad={pad}, dilation={dilation})"
        assert shape(text)[1] == _positions(size, k, stride, pad, dilation), text


def test_a_transposed_convolution_undoes_the_size_of_a_convolution():
    for size, k, stride, pad in itertools.product((5, 8, 9), (2, 3), (1, 2), (0, 1)):
        small = _positions(size, k, stride, pad, 1)
        rest = (size + 2 * pad - k) % stride
        text = f"conv_transpose(bf16[1, {small}, 4], bf16[{k}, 4, 6], stride={stride}, pad={pad}, output_pad={rest})"
        assert shape(text) == [1, size, 6], text
    assert shape("conv_transpose(bf16[1, 4, 8], bf16[3, 8, 6], groups=2)") == [1, 6, 12]


def test_pooling_steps_by_its_window():
    assert shape("pool(bf16[8, 112, 112, 64], window=3, stride=2, pad=1)") == [8, 56, 56, 64]
    assert shape("max_pool(bf16[8, 8, 6, 64], window=4x3)") == [8, 2, 2, 64]
    assert shape("pool(bf16[8, 7, 7, 64], window=2, same)") == [8, 4, 4, 64]


def test_collectives_change_the_sharding():
    def sharding(text):
        return [axis.shard for axis in last(text).output.axes]

    assert sharding("AllGather_X(A[I_XY, J])") == [("Y",), ()]
    assert sharding("AllGather_XY(A[I_X, J_Y])") == [(), ()]
    assert sharding("AllToAll_{X,J}(A[I_X, J])") == [(), ("X",)]
    assert sharding("ReduceScatter_{X,J}(A[I_Y, J] {U_X})") == [("Y",), ("X",)]
    assert sharding("ReduceScatter_X(A[I, J] {U_X}) -> A[I, J_X]") == [(), ("X",)]
    assert last("AllReduce_X(A[I, J] {U_XY})").output.unreduced == ("Y",)
    assert last("CollectivePermute_X(A[I_X, J])").function == last("permute_X(A[I_X, J])").function == "Permute"
    step = last("ReduceScatter_{X,J}(A[I, J] {U_X})")
    assert (step.kind, step.over, step.options["dim"]) == ("collective", ("X",), "J")
    assert program("AllReduce_X(A[I, J])").assumptions[1] == "the operand of AllReduce_X holds partial sums over X"
    refused("AllGather_X(A[I, J])", "AllGather_X: X shards no dimension of the operand")
    refused("AllReduce_X(A[I_X, J])", "AllReduce_X: X shards I of the operand")
    refused(
        "ReduceScatter_X(A[I, J] {U_X})", "ReduceScatter needs the dimension to shard; as in ReduceScatter_{X,K}(…)"
    )
    refused("AllGather_J(A[I_X, J])", "AllGather needs the mesh axes it goes over")
    refused("AllGather_X(A[I_X, J]) -> A[I_X, J]", "AllGather gives [I, J]")
    refused("AllGather(A[I_X, J])", "AllGather needs the mesh axes it goes over; as in AllGather_X(…)")


def test_a_resharded_tensor_may_keep_its_name():
    found = program("AllGather_X(A[I_X, J]) -> A[I, J]; A[I, J] * B[J, K]")
    assert found.steps[1].inputs[0].axes[0].shard == ()
    refused("gelu(A[I, J]) -> A[I, J]", "'A' is assigned already")


def test_letters_of_attention_in_another_order_are_told() -> None:
    """Heads before the sequence, as in PyTorch, are another product: the answer says how they were read."""
    turned = bound("attention(bf16[B, H, S, D], bf16[B, H, S, D], bf16[B, H, S, D])", on="h100", D=128)
    said = "H is read as the sequence and S as the heads: dimensions are in the order [B, S, N, H]"
    assert any(said in each for each in turned.assumptions)
    usual = bound("attention(bf16[B, S, N, H], bf16[B, T, K, H], bf16[B, T, K, H])", on="h100", H=128, N=32, K=8)
    assert not any("is read as the sequence" in each for each in usual.assumptions)
