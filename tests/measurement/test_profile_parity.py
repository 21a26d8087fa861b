"""A call that a profile tells and the same call traced are priced alike, for every operation that both know."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest
from tests.strategies import for_each, some

from roofline.bounds.memory import traffic
from roofline.measurement import read_profile
from roofline.measurement.profiles import ProfiledCall, price_profiled_call
from roofline.programs import trace
from roofline.programs.pytorch.profiled_results import SIGNATURES, known_operations
from roofline.programs.pytorch.registry import FUNCTIONS, find

torch = pytest.importorskip("torch")
aten = torch.ops.aten
F = torch.nn.functional


def rand(*shape, dtype=torch.float32):
    return torch.rand(shape).to(dtype)


def whole(high, *shape):
    return torch.randint(0, high, shape)


X, Y, ROW = rand(4, 6), rand(4, 6), rand(6)
MASK = X > 0.5
IMAGE, VOLUME, LINE = rand(2, 8, 9, 9), rand(2, 4, 5, 5, 5), rand(2, 4, 9)
Q, K, V = (rand(2, 4, n, 16) for n in (5, 9, 9))
LSE = rand(2, 4, 5)
SEED = torch.tensor(0)
CONV = ([2, 2], [1, 1], [1, 1])
LIST = [rand(3, 4), rand(5)]
STEP = [torch.tensor(1.0), torch.tensor(1.0)]
WEIGHTS = [rand(24, 8), rand(24, 6), rand(24), rand(24)]

#: Arguments of an operation of the dispatcher, where they are not one tensor.
ARGUMENTS = {
    **dict.fromkeys((name for name in ("add", "sub", "rsub", "mul", "div", "maximum", "minimum", "atan2", "copysign",
        "floor_divide", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "heaviside", "xlogy", "logaddexp",
        "hypot", "_add_relu", "fmax", "fmin", "logaddexp2", "nextafter", "logical_and", "logical_or", "logical_xor")),
        (X, Y)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), (MASK, Y > 0.5)), "bitwise_not": (MASK,),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"), (whole(9, 4, 6), whole(3, 4, 6))),
    **dict.fromkeys(("acosh", "asinh", "atanh", "deg2rad", "digamma", "frac", "i0", "lgamma", "logit", "nan_to_num",
        "rad2deg", "softshrink", "celu", "hardshrink", "hardsigmoid", "isneginf", "isposinf", "logical_not",
        "signbit"), (X,)),
    "quantize_per_tensor": (X, 0.1, 0, torch.qint8),
    "quantize_per_channel": (X, rand(4), whole(9, 4), 0, torch.quint8), "dequantize": (whole(9, 4, 6).to(torch.int8),),
    "where": (MASK, X, Y), "masked_fill": (X, MASK, 0.5), "pow": (X, 2), "clamp": (X, 0.1, 0.9),
    "clamp_min": (X, 0.1), "clamp_max": (X, 0.9), "isin": (whole(9, 8), whole(9, 3)), "threshold": (X, 0.1, 0.0),
    **dict.fromkeys(("addcmul", "addcdiv"), (X, Y, X.clone())), "lerp": (X, Y, 0.3),
    **dict.fromkeys(("gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "hardswish_backward",
        "mish_backward", "hardsigmoid_backward"), (X, Y)),
    "threshold_backward": (X, Y, 0.1), "hardtanh_backward": (X, Y, -1.0, 1.0),
    "leaky_relu_backward": (X, Y, 0.1, False), "elu_backward": (X, 1.0, 1.0, 1.0, False, Y),
    "softplus_backward": (X, Y, 1.0, 20.0), "log_sigmoid_backward": (X, Y, X.clone()),
    "_softmax_backward_data": (X, Y, -1, torch.float32), "_log_softmax_backward_data": (X, Y, -1, torch.float32),
    "native_dropout": (X, 0.5, True), "native_dropout_backward": (X, MASK, 2.0),
    "_masked_scale": (X, MASK.float(), 2.0),
    "_transform_bias_rescale_qkv": (rand(2, 5, 48), rand(48), 4), "glu": (X, -1), "glu_backward": (rand(4, 3), X, -1),
    "_prelu_kernel": (X, ROW), "_prelu_kernel_backward": (X, Y, ROW), "copy": (X, Y),
    **{f"_foreach_{name}": (LIST, [t.clone() for t in LIST]) for name in ("add", "mul", "sub", "div", "maximum")},
    **{f"_foreach_{name}": (LIST,) for name in ("sqrt", "neg", "reciprocal", "abs", "exp")},
    **{f"_foreach_{name}": (LIST, 2.0) for name in ("pow", "norm", "clamp_min", "clamp_max")},
    **{f"_foreach_{name}": (LIST, [t.clone() for t in LIST], [t.clone() for t in LIST]) for name in
        ("addcmul", "addcdiv", "lerp")},
    "mm": (X, rand(6, 5)), "_int_mm": (whole(9, 32, 32).to(torch.int8), whole(9, 32, 32).to(torch.int8)),
    "addmm": (rand(5), X, rand(6, 5)), "_addmm_activation": (rand(5), X, rand(6, 5)),
    "bmm": (rand(3, 4, 6), rand(3, 6, 5)), "baddbmm": (rand(3, 4, 5), rand(3, 4, 6), rand(3, 6, 5)),
    "addbmm": (rand(4, 5), rand(3, 4, 6), rand(3, 6, 5)), "mv": (X, ROW), "addmv": (rand(4), X, ROW),
    **dict.fromkeys(("dot", "vdot"), (ROW, ROW.clone())),
    "_euclidean_dist": (X, rand(3, 6)), "_cdist_forward": (X, rand(3, 6), 2.0, None),
    "_cdist_backward": (rand(4, 3), X, rand(3, 6), 2.0, rand(4, 3)),
    "_scaled_dot_product_flash_attention": (Q, K, V, 0.0, True, False),
    "_scaled_dot_product_flash_attention_for_cpu": (Q, K, V, 0.0, True),
    "_scaled_dot_product_efficient_attention": (Q, K, V, None, False, 0.0, True),
    "_scaled_dot_product_cudnn_attention": (Q, K, V, None, False, 0.0, True, False),
    "_scaled_dot_product_fused_attention_overrideable": (Q, K, V, None, 0.0, True, False),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (Q, Q, K, V, Q, LSE, 0.0, True),
    "_scaled_dot_product_flash_attention_backward": (Q, Q, K, V, Q, LSE, SEED, SEED, 5, 9, 0.0, True, SEED, SEED),
    "_scaled_dot_product_efficient_attention_backward":
        (Q, Q, K, V, rand(2, 4, 5, 9), Q, LSE, SEED, SEED, 0.0, [True] * 4, True),
    "_scaled_dot_product_cudnn_attention_backward":
        (Q, Q, K, V, Q, LSE, SEED, SEED, rand(2, 4, 5, 9), SEED, SEED, 5, 9, 0.0, True),
    "_scaled_dot_product_fused_attention_overrideable_backward":
        (Q, Q, K, V, rand(2, 4, 5, 9), [True] * 4, Q, LSE, SEED, SEED, 5, 9, 0.0, True, SEED, SEED),
    "convolution": (IMAGE, rand(8, 4, 3, 3), rand(8), *CONV, False, [0, 0], 2),
    "_convolution": (IMAGE, rand(8, 8, 3, 3), None, *CONV, False, [0, 0], 1, False, False, False, False),
    "convolution_overrideable": (IMAGE, rand(8, 4, 3, 3), None, *CONV, True, [1, 1], 1),
    "cudnn_convolution": (IMAGE, rand(8, 8, 3, 3), [1, 1], [2, 2], [1, 1], 1, False, False, False),
    "mkldnn_convolution": (IMAGE, rand(8, 8, 3, 3), rand(8), [1, 1], [2, 2], [1, 1], 1),
    "convolution_backward":
        (rand(2, 8, 5, 5), IMAGE, rand(8, 4, 3, 3), [8], *CONV, False, [0, 0], 2, [True, True, True]),
    "convolution_backward_overrideable":
        (rand(2, 8, 5, 5), IMAGE, rand(8, 8, 3, 3), *CONV, False, [0, 0], 1, [True, True, False]),
    "max_pool2d_with_indices": (IMAGE, [3, 3], [2, 2], [1, 1]), "max_pool3d_with_indices": (VOLUME, [2, 2, 2]),
    "avg_pool2d": (IMAGE, [3, 3], [2, 2], [1, 1], True), "avg_pool3d": (VOLUME, [2, 2, 2]),
    "avg_pool1d": (LINE, [3]), "mkldnn_max_pool2d": (IMAGE, [3, 3], [2, 2]), "mkldnn_max_pool3d": (VOLUME, [2, 2, 2]),
    "_adaptive_avg_pool2d": (IMAGE, [4, 4]), "_adaptive_avg_pool3d": (VOLUME, [2, 3, 2]),
    "adaptive_max_pool2d": (IMAGE, [4, 4]), "adaptive_max_pool3d": (VOLUME, [2, 2, 2]),
    "max_pool2d_with_indices_backward":
        (rand(2, 8, 5, 5), IMAGE, [3, 3], [2, 2], [1, 1], [1, 1], False, whole(81, 2, 8, 5, 5)),
    "max_pool3d_with_indices_backward":
        (rand(2, 4, 2, 2, 2), VOLUME, [2, 2, 2], [], [0, 0, 0], [1, 1, 1], False, whole(9, 2, 4, 2, 2, 2)),
    "avg_pool2d_backward": (rand(2, 8, 5, 5), IMAGE, [3, 3], [2, 2], [1, 1], True, True, None),
    "avg_pool3d_backward": (rand(2, 4, 2, 2, 2), VOLUME, [2, 2, 2], [], [0, 0, 0], False, True, None),
    "adaptive_max_pool2d_backward": (rand(2, 8, 4, 4), IMAGE, whole(81, 2, 8, 4, 4)),
    "adaptive_max_pool3d_backward": (rand(2, 4, 2, 2, 2), VOLUME, whole(99, 2, 4, 2, 2, 2)),
    "_adaptive_avg_pool2d_backward": (rand(2, 8, 4, 4), IMAGE),
    "_adaptive_avg_pool3d_backward": (rand(2, 4, 2, 2, 2), VOLUME),
    "native_layer_norm": (X, [6], ROW, ROW.clone(), 1e-5), "_fused_rms_norm": (X, [6], ROW, 1e-5),
    "native_group_norm": (IMAGE, rand(8), rand(8), 2, 8, 81, 4, 1e-5),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"),
        (IMAGE, rand(8), rand(8), rand(8), rand(8), True, 0.1, 1e-5)),
    **dict.fromkeys(("_batch_norm_with_update", "_native_batch_norm_legit_no_training", "_batch_norm_no_update"),
        (IMAGE, rand(8), rand(8), rand(8), rand(8), 0.1, 1e-5)),
    "native_layer_norm_backward": (X, Y, [6], rand(4, 1), rand(4, 1), ROW, ROW.clone(), [True] * 3),
    "_fused_rms_norm_backward": (X, Y, [6], rand(4, 1), ROW, [True] * 2),
    "native_group_norm_backward": (IMAGE, IMAGE + 1, rand(2, 4), rand(2, 4), rand(8), 2, 8, 81, 4, [True] * 3),
    "native_batch_norm_backward":
        (IMAGE, IMAGE + 1, rand(8), rand(8), rand(8), rand(8), rand(8), True, 1e-5, [True] * 3),
    "cudnn_batch_norm_backward":
        (IMAGE, IMAGE + 1, rand(8), rand(8), rand(8), rand(8), rand(8), 1e-5, rand(0, dtype=torch.uint8)),
    "miopen_batch_norm_backward": (IMAGE, IMAGE + 1, rand(8), rand(8), rand(8), rand(8), rand(8), 1e-5),
    "batch_norm_backward":
        (IMAGE, IMAGE + 1, rand(8), rand(8), rand(8), rand(8), rand(8), True, 1e-5, [True] * 3,
         rand(0, dtype=torch.uint8)),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "any", "all", "var", "std", "var_mean", "std_mean", "nansum",
        "logsumexp"), (X, [1])),
    **dict.fromkeys(("max", "min", "argmax", "argmin"), (X, 1)),
    "linalg_vector_norm": (X, 2, [1]), "norm": (X, 2, [1]), "hash_tensor": (X, [1]),
    "prod": (X,), "count_nonzero": (X,), "aminmax": (X,), "_is_all_true": (MASK,), "_is_any_true": (MASK,),
    **dict.fromkeys(("_softmax", "_log_softmax"), (X, -1, False)), "_safe_softmax": (X, -1),
    **dict.fromkeys(("cumsum", "cumprod"), (X, 1)), "sort": (X, 1), "topk": (X, 2),
    "nll_loss_forward": (X, whole(6, 4), None, 1, -100),
    "nll_loss2d_forward": (rand(2, 6, 3, 3), whole(6, 2, 3, 3), None, 1, -100),
    "nll_loss_backward": (torch.tensor(1.0), X, whole(6, 4), None, 1, -100, torch.tensor(4.0)),
    "nll_loss2d_backward":
        (torch.tensor(1.0), rand(2, 6, 3, 3), whole(6, 2, 3, 3), None, 1, -100, torch.tensor(4.0)),
    **dict.fromkeys(("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"), (X, Y)),
    "mse_loss_backward": (torch.tensor(1.0), X, Y, 1), "smooth_l1_loss_backward": (torch.tensor(1.0), X, Y, 1, 1.0),
    "huber_loss_backward": (torch.tensor(1.0), X, Y, 1, 1.0),
    "binary_cross_entropy_backward": (torch.tensor(1.0), X, Y),
    "fill_": (X, 0.5), "cat": ([X, Y],), "stack": ([X, Y],), "roll": (X, [1], [0]), "flip": (X, [0]),
    "repeat": (X, [2, 3]), "constant_pad_nd": (X, [1, 2, 0, 1]), "embedding": (rand(20, 6), whole(20, 3, 4)),
    "embedding_dense_backward": (rand(3, 4, 6), whole(20, 3, 4), 20, -1, False),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"),
                    (rand(20, 6), whole(20, 9), torch.tensor([0, 4]), False, 0, False, rand(9), False, -1)),
    "_fft_c2c": (torch.complex(X, Y), [0, 1], 0, True), "_fft_r2c": (X, [1], 0, True),
    "_fft_c2r": (torch.complex(X, Y), [1], 2, 10),
    "index_select": (X, 1, torch.randperm(6)[:3]),  # a trace sees rows that are picked twice, a profile does not
    "gather": (X, 1, whole(6, 4, 3)),
    "scatter_": (X, 1, whole(6, 4, 3), rand(4, 3)), "scatter_add": (X, 1, whole(6, 4, 3), rand(4, 3)),
    "index_add": (X, 0, torch.arange(2), rand(2, 6)), "bernoulli_": (X, 0.5),
    "mkldnn_rnn_layer": (rand(5, 2, 8), rand(24, 8), rand(24, 6), rand(24), rand(24), rand(2, 6), rand(2, 6), False, [],
        2, 6, 1, True, False, False, False),
}  # fmt: skip

#: Calls as a user makes them, of operations that PyTorch takes apart when they are called on the dispatcher.
AS_CALLED = {
    "clamp": (lambda x: torch.clamp(x, min=0.1), X), "abs": (torch.abs, torch.complex(X, Y)),
    "add": (lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "log_softmax": (lambda x: F.log_softmax(x, -1), X), "softmax": (lambda x: F.softmax(x, -1), X),
    "scaled_dot_product_attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), Q, K, V),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE), "max_pool3d": (lambda x: F.max_pool3d(x, 2), VOLUME),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3), LINE),
    "native_group_norm": (lambda x, w: F.group_norm(x, 4, w), IMAGE, rand(8)),
    "lstm": (torch.nn.LSTM(8, 6, 2, bidirectional=True), rand(5, 2, 8)), "gru": (torch.nn.GRU(8, 6), rand(5, 2, 8)),
    "rnn_tanh": (torch.nn.RNN(8, 6), rand(5, 2, 8)),
    "rnn_relu": (torch.nn.RNN(8, 6, nonlinearity="relu"), rand(5, 2, 8)),
    "_euclidean_dist": (torch.cdist, rand(40, 6), rand(30, 6)),
    "linear": (F.linear, rand(2, 4, 6), rand(5, 6), rand(5)), "matmul": (torch.matmul, rand(2, 4, 6), rand(2, 6, 5)),
    "conv1d": (F.conv1d, LINE, rand(6, 4, 3), rand(6)), "conv2d": (lambda x, w: F.conv2d(x, w, stride=2), IMAGE,
        rand(4, 8, 3, 3)), "conv3d": (F.conv3d, VOLUME, rand(2, 4, 3, 3, 3)),
    "conv_transpose1d": (F.conv_transpose1d, LINE, rand(4, 6, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), IMAGE, rand(8, 4, 3, 3)),
    "conv_transpose3d": (F.conv_transpose3d, VOLUME, rand(4, 2, 3, 3, 3)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w), X, ROW),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), X, ROW),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), LINE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), VOLUME),
    "contiguous": (lambda x: x.t().contiguous(), X), "clone": (torch.clone, X),
    "quantize_per_tensor": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), X),
    "quantize_per_channel": (lambda x, s, z: torch.quantize_per_channel(x, s, z, 0, torch.qint32).dequantize(), X,
        rand(4), whole(9, 4)),
    "hash_tensor": (lambda x: torch.hash_tensor(x, [1]), X),
    "mul": (lambda x: x * 2.5, X), "expanded": (lambda x: x.expand(3, 4, 6) * 2, X),
}  # fmt: skip


def kinds_of(value):
    """The name that a profile has for a format."""
    words = {torch.float32: "float", torch.float64: "double", torch.int64: "long int", torch.int8: "signed char",
             torch.bool: "bool", torch.uint8: "unsigned char", torch.complex64: "c10::complex<float>"}  # fmt: skip
    return words[value.dtype]


#: The numbers that a profile writes for formats that are arguments.
NUMBERS_OF_FORMATS = {torch.float32: 6, torch.qint8: 12, torch.quint8: 13, torch.qint32: 14}


def told(value):
    """What a profile tells of one argument: shape, format, plain value, strides."""
    if isinstance(value, torch.Tensor):
        return list(value.shape), kinds_of(value), "", list(value.stride())
    if isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
        parts = [told(item) for item in value]
        return [p[0] for p in parts], tuple(p[1] for p in parts), "", [p[3] for p in parts]
    if isinstance(value, torch.dtype) and value in NUMBERS_OF_FORMATS:
        return [], "Scalar", str(NUMBERS_OF_FORMATS[value]), []
    if value is None or isinstance(value, str | torch.dtype):
        return [], "", "", []
    return [], "Scalar", str(list(value) if isinstance(value, list | tuple) else value), []


def row_of(name, schema, args, gradients=frozenset()):
    """The row of a profile for a call of the dispatcher, as torch.profiler writes one."""
    given = [args[n] if n < len(args) else item.default_value for n, item in enumerate(schema.arguments)]
    return ProfiledCall(f"aten::{name}", *zip(*map(told, given), strict=True), gradients=gradients)


def overload(name, args):
    """The overload of an operation that takes these arguments."""
    packet = getattr(aten, name)
    for word in packet.overloads():
        found = getattr(packet, word)
        wanted = found._schema.arguments
        if any(item.is_out for item in wanted) or len(args) > len(wanted):
            continue
        if any(not item.has_default_value() and item.default_value is None and "Optional" not in str(item.type)
               for item in wanted[len(args) :]):  # fmt: skip
            continue
        if all(_fits(item, value) for item, value in zip(wanted, args, strict=False)):
            return found
    raise AssertionError(f"no overload of {name} takes {len(args)} such arguments")


def _fits(item, value):
    kind = str(item.type)
    is_list = isinstance(value, list | tuple)
    if isinstance(value, torch.Tensor):
        return kind in ("Tensor", "Optional[Tensor]")
    if is_list and value and isinstance(value[0], torch.Tensor):
        return "List[Tensor]" in kind
    if value is None:
        return "Optional" in kind
    if is_list:
        return "List" in kind and "Tensor" not in kind
    return "Tensor" not in kind and "List" not in kind and kind not in ("Dimname", "str")


def price_of(ops):
    ops = list(ops)
    flops = sum(op.work.total("flops") for op in ops)
    return flops, sum(work.total("bytes") for work in traffic(ops))


def cases():
    for name in known_operations():
        if name in ARGUMENTS:
            yield name, ARGUMENTS[name]
        elif name in FUNCTIONS:
            yield name, (X,)
        if name in FUNCTIONS and hasattr(aten, f"{name}_") and name not in ("where", "isin"):
            yield f"{name}_", ARGUMENTS.get(name, (X,))
    for name in ("copy_", "zero_", "normal_", "uniform_", "random_", "exponential_", "scatter_", "scatter_add_",
                 "fill_",
                 "index_add_", "tril_", "triu_", "cumsum_", "addmm_", "baddbmm_", "bernoulli_"):  # fmt: skip
        yield name, ARGUMENTS.get(name, ARGUMENTS.get(name.rstrip("_"), (X,)))


#: Operations that PyTorch has no shapes for without a device, or takes apart on shapes alone.
NOT_TRACED = frozenset(("convolution_overrideable", "convolution_backward_overrideable", "cudnn_convolution",
                        "mkldnn_convolution", "_fused_rms_norm", "_transform_bias_rescale_qkv",
                        "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mish_backward"))  # fmt: skip

CASES = {name: args for name, args in cases() if name not in NOT_TRACED}
CASES["addmm_"], CASES["baddbmm_"] = (rand(4, 5), *CASES["addmm_"][1:]), CASES["baddbmm_"]


#: Operations whose further results are kept for a gradient: written where one is taken or they are given back.
KEEPING = frozenset(("native_dropout", "native_layer_norm", "native_group_norm", "native_batch_norm",
                     "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit",
                     "_batch_norm_with_update"))  # fmt: skip


#: Operations whose further results a profile does not tell the sizes of: some kernels leave them empty.
BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


@for_each(("name", "kept"), some([*((name, False) for name in CASES), *((name, True) for name in sorted(KEEPING))], 2))
def test_a_profiled_call_is_priced_as_the_traced_one(name, kept):
    args = CASES[name]
    called = overload(name, args)
    places = [n for n, value in enumerate(args) if told(value)[1] not in ("", "Scalar")]

    def step(*given):
        values = list(args)
        for place, value in zip(places, given, strict=True):
            values[place] = value
        found = called(*values)
        return found[0] if (name in KEEPING and not kept) or name in BAGS else found

    program = trace(step, *(args[place] for place in places))
    op = price_profiled_call(row_of(name, called._schema, args, gradients=None if kept else frozenset()))
    assert op is not None
    assert price_of([op]) == price_of(program.ops)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize("name", some(list(AS_CALLED), 3, 1))
def test_a_real_profile_says_what_the_traced_program_says(name, tmp_path):
    called, *inputs = AS_CALLED[name]
    with torch.no_grad():
        called(*inputs)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
            called(*inputs)
        program = trace(called, *inputs)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu", "native_group_norm"):  # formats of lists: those of other rows
        data = json.loads((tmp_path / "trace.json").read_text())
        parts = [list(p.shape) for p in called.parameters()] if isinstance(called, torch.nn.Module) else []
        first = {"ph": "X", "cat": "cpu_op", "name": "aten::view", "ts": 0, "dur": 0, "pid": 1, "tid": 9}
        state = [[4 if name == "lstm" else 1, 2, 6]]
        shapes = [*parts, *state]
        data["traceEvents"].append({**first, "args": {"Input Dims": shapes, "Input type": ["float"] * len(shapes)}})
        (tmp_path / "trace.json").write_text(json.dumps(data))
    found = read_profile(tmp_path / "trace.json")
    made = [run for run in found.runs if run.name.split()[0] not in ("zeros", "zero_")]
    ops = [op for op in program.ops if op.name not in ("zeros",)]
    assert (sum(run.flops for run in made), sum(run.bytes for run in made)) == price_of(ops)


def test_a_profile_is_read_without_torch(tmp_path):
    row = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 10, "pid": 1, "tid": 1, "args": row}
    (tmp_path / "trace.json").write_text(json.dumps([event]))
    code = f"""
import sys
from roofline.measurement import read_profile
print(read_profile({str(tmp_path / "trace.json")!r}).runs[0].flops, "torch" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(float(2 * 64 * 32 * 16)), "False"]


def test_every_priced_operation_is_compared():
    compared = {name.rstrip("_") if not name.startswith("__") else name for name in (*CASES, *AS_CALLED)}
    left = set(known_operations()) - compared - NOT_TRACED
    assert left <= {
        "_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad", "_cudnn_rnn", "mkldnn_rnn_layer_backward",
        "_scaled_mm", "max_pool1d_with_indices", *(n for n in left if "upsample" in n),
    }  # fmt: skip


@for_each("name", SIGNATURES)
def test_names_of_arguments_are_those_of_the_schemas(name):
    found = [getattr(torch.ops.aten, one, None) for one in (name, f"{name}_")]
    schemas = [getattr(packet, word)._schema for packet in found if packet for word in packet.overloads()]
    asked = {"is_causal", "attn_mask", "attn_bias", "stride", "padding", "dilation", "transposed", "groups", "bias",
             "output_mask", "normalized_shape", "group", "training", "beta", "alpha", "dim", "kernel_size", "ceil_mode",
             "grad_scale", "mode", "hidden_size", "p", "approximate", "output_padding"}  # fmt: skip
    ours = {place: word for place, word in enumerate(SIGNATURES[name].split()) if word in asked}
    assert any(
        all(place < len(schema.arguments) and schema.arguments[place].name == word for place, word in ours.items())
        for schema in schemas
    )


def test_a_profiled_call_has_the_names_that_its_rule_asks_for():
    """A trace tells values by place alone: names that nothing gives would be defaults in silence."""
    nameless = set()
    for name in known_operations():
        priced = find(f"aten.{name}")
        packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.aten, f"{name}_", None)
        if priced is None or packet is None:
            continue
        asked = set(re.findall(r'call\.(?:get|stated|operand)\("(\w+)"', inspect.getsource(priced)))
        words = {one.name for each in packet.overloads() for one in getattr(packet, each)._schema.arguments}
        nameless |= {(name, word) for word in asked & words - set(SIGNATURES.get(name, "").split())}
    assert not nameless


def test_the_comparison_of_prices_can_fail():
    schema = overload("add", (X, Y))._schema
    program = trace(torch.add, X, Y)
    assert price_of([price_profiled_call(row_of("add", schema, (X, Y)))]) == price_of(program.ops)
    assert price_of([price_profiled_call(row_of("add", schema, (X, Y, 2)))]) != price_of(program.ops)
    assert price_of([price_profiled_call(row_of("add", schema, (X, ROW)))]) != price_of(program.ops)
