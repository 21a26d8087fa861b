"""What operations of PyTorch's dispatcher give, by shapes and formats alone, without PyTorch: for calls of a profile.

A profile tells the inputs of a call and not its results. :func:`with_results` works those out, so that the rule that
prices a traced call prices a profiled one. Adding an operation takes one function here and no price.

>>> x, w = TensorOperand((64, 128), "bf16"), TensorOperand((128, 32), "bf16")
>>> [(out.shape, out.dtype) for out in with_results(Call("aten.mm", "mm", (x, w))).results]
[((64, 32), 'bf16')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.errors import InputError
from roofline.frozen import replace
from roofline.ops.convolution import Window, window_count
from roofline.programs.positions import broadcast
from roofline.programs.pytorch import registry
from roofline.programs.pytorch.registry import Call, TensorOperand, operands_in
from roofline.programs.pytorch.rules.sequences import recurrence_of
from roofline.programs.pytorch.rules.windows import CONVOLUTIONS
from roofline.work import Tensor

#: Shape and number format of one result.
Result: TypeAlias = "tuple[Sequence[int], str]"

ResultRule: TypeAlias = Callable[[Call], "Result | Sequence[Result]"]

_CONV = "input weight bias stride padding dilation"
_BATCH_NORM = "input weight bias running_mean running_var"
_ATTENTION = "query key value attn_bias"

#: What the schemas call the arguments, of operations whose rule asks for one by name.
SIGNATURES: dict[str, str] = {
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
    "_scaled_dot_product_flash_attention": "query key value dropout_p is_causal",
    "_scaled_dot_product_flash_attention_for_cpu": "query key value dropout_p is_causal attn_mask",
    "_scaled_dot_product_efficient_attention": f"{_ATTENTION} compute_log_sumexp dropout_p is_causal",
    "_scaled_dot_product_cudnn_attention": f"{_ATTENTION} compute_log_sumexp dropout_p is_causal",
    "_scaled_dot_product_fused_attention_overrideable": f"{_ATTENTION} dropout_p is_causal",
    "_scaled_dot_product_flash_attention_for_cpu_backward":
        "grad_out query key value out logsumexp dropout_p is_causal attn_mask",
    "_scaled_dot_product_flash_attention_backward":
        "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal",
    "_scaled_dot_product_efficient_attention_backward":
        "grad_out_ query key value attn_bias out logsumexp philox_seed philox_offset dropout_p grad_input_mask "
        "is_causal",
    "_scaled_dot_product_cudnn_attention_backward":
        "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q cum_seq_k max_q max_k "
        "dropout_p is_causal",
    "_scaled_dot_product_fused_attention_overrideable_backward":
        "grad_out query key value attn_bias grad_input_mask out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p "
        "is_causal",
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"),
                    f"{_CONV} transposed output_padding groups"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), f"{_CONV} groups"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
                    "input weight bias stride padding output_padding groups dilation"),
    "mkldnn_convolution": "self weight bias padding stride dilation groups",
    "cudnn_convolution": "self weight padding stride dilation groups",
    "convolution_backward":
        "grad_output input weight bias_sizes stride padding dilation transposed output_padding groups output_mask",
    "convolution_backward_overrideable":
        "grad_output input weight stride padding dilation transposed output_padding groups output_mask",
    **dict.fromkeys(("layer_norm", "native_layer_norm"), "input normalized_shape weight bias"),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), "input normalized_shape weight"),
    "native_group_norm": "input weight bias N C HxW group",
    "native_layer_norm_backward": "grad_out input normalized_shape mean rstd weight bias output_mask",
    "_fused_rms_norm_backward": "grad_out input normalized_shape rstd weight output_mask",
    "native_group_norm_backward": "grad_out input mean rstd weight N C HxW group output_mask",
    **dict.fromkeys(("native_batch_norm_backward", "batch_norm_backward"),
                    "grad_out input weight running_mean running_var save_mean save_var update eps output_mask"),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit"),
                    f"{_BATCH_NORM} training"),
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation"), "self mat1 mat2 beta"),
    "linear": "input weight bias",
    **dict.fromkeys(("add", "sub", "rsub", "_foreach_add", "_foreach_sub"), "self other alpha"),
    **dict.fromkeys(("cumsum", "cumprod", "softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax",
                     "cummax", "cummin", "logcumsumexp", "median", "nanmedian", "mode"), "self dim"),
    **dict.fromkeys(("_cummax_helper", "_cummin_helper"), "self values indices dim"),
    "_masked_softmax": "self mask dim",
    "linalg_vector_norm": "self ord", "norm": "self p",
    "sort": "self dim descending",
    **dict.fromkeys(("kthvalue", "topk"), "self k dim"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
                     "max_pool3d_with_indices", "mkldnn_max_pool2d", "mkldnn_max_pool3d"),
                    "self kernel_size stride padding dilation ceil_mode"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), "self kernel_size stride padding ceil_mode"),
    **dict.fromkeys(("avg_pool2d_backward", "avg_pool3d_backward"),
                    "grad_output self kernel_size stride padding ceil_mode"),
    **dict.fromkeys(("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
                    "grad_output self kernel_size stride padding dilation"),
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), "input grid interpolation_mode"),
    **dict.fromkeys(("grid_sampler_2d_backward", "grid_sampler_3d_backward"),
                    "grad_output input grid interpolation_mode"),
    "linalg_qr": "A mode",
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), "self target weight"),
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), "grad_output self target weight"),
    "elu": "self alpha",
    "scatter": "self dim index src reduce",
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), "self indices values accumulate"),
    **dict.fromkeys(("tril", "triu"), "self diagonal"),
    "constant_pad_nd": "self pad",
    "im2col": "self kernel_size dilation padding stride",
    "searchsorted": "sorted_sequence self out_int32 right side sorter",
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"),
                    "weight indices offsets scale_grad_by_freq mode sparse per_sample_weights"),
    "bernoulli": "self p",
    "gelu": "self approximate",
    "mkldnn_rnn_layer": "input weight0 weight1 weight2 weight3 hx_ cx_ reverse batch_sizes mode hidden_size",
    "mkldnn_rnn_layer_backward":
        "input weight1 weight2 weight3 weight4 hx_ cx_tmp output hy_ cy_ grad_output grad_hy grad_cy reverse mode "
        "hidden_size",
    **dict.fromkeys(("_fused_adam", "_fused_adamw"),
                    "self grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps lr beta1 beta2 weight_decay eps "
                    "amsgrad maximize grad_scale"),
    "_fused_sgd": "self grads momentum_buffer_list weight_decay momentum lr dampening nesterov maximize is_first_step "
        "grad_scale",
    "_fused_adagrad": "self grads state_sums state_steps lr lr_decay weight_decay eps maximize grad_scale",
}  # fmt: skip

_RESULTS: dict[str, tuple[ResultRule, int | None, str]] = {}


def _results(*names: str, tensors: int | None = None, gradient: str = "") -> Callable[[ResultRule], ResultRule]:
    """Register how the results of operations are found.

    ``tensors`` is how many of the first arguments can be tensors that it reads: one behind them is where it writes.
    ``gradient`` is the operation that reads the second and third result, which otherwise nobody needs; ``{}`` stands
    for the name.
    """

    def keep(found: ResultRule) -> ResultRule:
        _RESULTS.update({name: (found, tensors, gradient.format(name)) for name in names})
        return found

    return keep


def known_operations() -> list[str]:
    """The operations whose results are found here, in order."""
    return sorted(_RESULTS)


def with_results(call: Call, *, saved: Callable[[str], bool] = lambda gradient: True) -> Call:
    """The call with its results; an error where its shapes are not those it takes.

    ``saved`` says whether a gradient of this name is taken: what is kept for it alone is written only then.
    """
    if call.name not in _RESULTS:
        raise InputError(f"{call.full_name} has no rule for its results")
    rule, tensors, gradient = _RESULTS[call.name]
    if tensors is not None:
        behind = tuple(None if list(operands_in(item)) else item for item in call.args[tensors:])
        call = replace(call, args=(*call.args[:tensors], *behind))
    found = rule(call)
    if found and isinstance(found[0], tuple) and len(found) == 2 and isinstance(found[1], str):
        found = [found]  # type: ignore[list-item]
    if call.in_place and call.name not in registry.OPTIMIZERS:
        found = [(item.shape, item.dtype) for item in operands_in(call.args[0])]
    elif gradient and not saved(gradient):
        found = [*found[:1], *found[3:]]
    return replace(call, results=tuple(_written(number, *one) for number, one in enumerate(found)))


def _written(number: int, shape: Any, dtype: Any) -> TensorOperand:
    sizes = tuple(shape)
    return TensorOperand(sizes, dtype, Tensor(f"out{number}", sizes, dtype))


def _like(operand: TensorOperand, shape: Sequence[int] | None = None, dtype: str | None = None) -> Result:
    """A result of the shape and format of an operand, or of others."""
    return (operand.shape if shape is None else tuple(shape)), dtype or operand.dtype


def _all_like(operands: Sequence[TensorOperand]) -> list[Result]:
    return [_like(item) for item in operands]


def _given(call: Call, *places: int) -> list[TensorOperand]:
    """The tensors at these places that are there."""
    return [item for place in places if place < len(call.args) and isinstance(item := call.args[place], TensorOperand)]


def _broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that operands have together; an error where they have none."""
    found: tuple[int, ...] = broadcast(*shapes)
    if any(n not in (1, wide) for shape in shapes for n, wide in zip(shape[::-1], found[::-1], strict=False)):
        raise InputError("shapes that do not broadcast")
    return found


def _widest(operands: Sequence[TensorOperand]) -> str:
    """The format of a result: that of the widest operand with a dimension, and of no integer beside a real number."""

    def width(kind: str) -> tuple[bool, bool, int]:
        found = dtypes.get(kind)
        return found.family == "complex", found.family == "float", found.bits

    kinds = [item.dtype for item in operands if item.shape] or [item.dtype for item in operands]
    if not kinds:
        raise InputError("no tensor with a shape")
    return max(kinds, key=width)


def _together(operands: Sequence[TensorOperand], dtype: str | None = None) -> Result:
    """As large as all operands together need."""
    if not operands:
        raise InputError("no tensor with a shape")
    return _broadcast([item.shape for item in operands]), dtype or _widest(operands)


#: Functions of two operands.
_OF_TWO = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum", "compare", "power"))
_TWO = [name for name, function in registry.FUNCTIONS.items() if function in _OF_TWO or name in ("atan2", "copysign")]

_QUANTISING = ("quantize_per_tensor", "quantize_per_channel")

#: Formats of complex numbers by that of their two parts, and the other way round.
_COMPLEX = {"fp16": "complex32", "fp32": "complex64", "fp64": "complex128"}
_PARTS = {both: real for real, both in _COMPLEX.items()}

#: Functions that PyTorch itself calls pointwise, without a rule of their own: of one operand, and of two.
_ALIKE = (
    "bitwise_not", "deg2rad", "digamma", "frac", "i0", "lgamma", "logit", "nan_to_num", "rad2deg", "softshrink",
)  # fmt: skip
_TESTS = ("isneginf", "isposinf", "logical_not", "signbit")
_BITS = ("bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "fmax", "fmin", "gcd",
         "lcm", "logaddexp2", "logical_and", "logical_or", "logical_xor", "nextafter")  # fmt: skip
POINTWISE = frozenset((*_ALIKE, *_TESTS, *_BITS))


@_results(*(name for name in registry.FUNCTIONS if name not in (*_TWO, *_QUANTISING, "dequantize", "where")),
          *_ALIKE, "celu", "hardshrink", "hardsigmoid", "contiguous", "clone", "softmax", "_softmax", "log_softmax",
          "_log_softmax", "_safe_softmax", "cumsum",
          "cumprod", "fill", "zero", "bernoulli", "normal", "uniform", "random", "exponential", tensors=1)  # fmt: skip
@_results("_transform_bias_rescale_qkv", "roll", "flip", "tril", "triu", "copy", tensors=2)
@_results("layer_norm", "rms_norm", tensors=4)
def _as_the_first(call: Call) -> Result:
    (x,) = call.operands(0)
    return _like(x, dtype=_PARTS.get(x.dtype) if call.name == "abs" else None)


# A gradient is like what it is of.
_results(
    "_cdist_backward", "nll_loss_backward", "nll_loss2d_backward", "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward", "avg_pool2d_backward", "avg_pool3d_backward", "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
)(lambda call: _like(call.operands(1)[0]))  # fmt: skip

_results("scatter", "scatter_add", "index_add", tensors=4)(lambda call: _like(call.operands(0, 2)[0]))
_results("dequantize", tensors=1)(lambda call: _like(call.operands(0)[0], dtype="fp32"))

#: The integers of a quantised tensor by the number that PyTorch gives their format.
_INTEGERS = {12: "int8", 13: "uint8", 14: "int32"}


@_results(*_QUANTISING, tensors=3)
def _quantised(call: Call) -> Result:
    """Integers of the format that stands last."""
    return _like(call.operands(0)[0], dtype=_INTEGERS[_told(call, 4 if call.name == "quantize_per_channel" else 3)])


_results(*_TESTS, tensors=1)(lambda call: _like(call.operands(0)[0], dtype="bool"))


@_results(*_TWO, *_BITS, "_add_relu", "xlogy", "logaddexp", "hypot", tensors=2)
def _of_two(call: Call) -> Result:
    if call.name == "isin":
        return call.args[0].shape, "bool"
    operands = _given(call, 0, 1)
    compares = registry.FUNCTIONS.get(call.name) == "compare" and call.name != "heaviside"
    compares = compares or call.name.startswith("logical_")
    return _together(operands, "bool" if compares else _real(call, _widest(operands)))


def _real(call: Call, dtype: str) -> str:
    """The format beside a real number: of whole numbers it is a real one, and so is every quotient of them."""
    is_whole = dtypes.get(dtype).family == "int"
    made_real = call.name == "div" or any(isinstance(value, float) for value in call.args[:2])
    return "fp32" if is_whole and made_real else dtype


@_results("where", tensors=3)
def _chosen(call: Call) -> Result:
    condition, *values = _given(call, 0, 1, 2)
    return _together([condition, *values], _widest(values))


_results("masked_fill", tensors=3)(lambda call: _together(_given(call, 0, 1), call.args[0].dtype))
_results("addcmul", "addcdiv", "lerp", tensors=3)(lambda call: _together(_given(call, 0, 1, 2)))


@_results("gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "threshold_backward",
          "hardtanh_backward", "leaky_relu_backward", "elu_backward", "hardswish_backward", "softplus_backward",
          "mish_backward", "log_sigmoid_backward", "hardsigmoid_backward", "native_dropout_backward",
          "_softmax_backward_data", "_log_softmax_backward_data", "_masked_scale")  # fmt: skip
def _of_all(call: Call) -> Result:
    operands = [item for item in operands_in(call.args) if item.shape]
    return _together(operands, operands[0].dtype if operands else None)


@_results("native_dropout", tensors=1, gradient="{}_backward")
def _dropped(call: Call) -> Sequence[Result]:
    (x,) = call.operands(0)
    return [_like(x), _like(x, dtype="bool")]


@_results("glu", tensors=1)
def _gated(call: Call) -> Result:
    (x,), dim = call.operands(0), _told(call, 1, -1)
    return _like(x, [size // 2 if place == dim % x.rank else size for place, size in enumerate(x.shape)])


@_results("glu_backward", "_prelu_kernel", "_prelu_kernel_backward")
def _as_the_largest(call: Call) -> Sequence[Result]:
    largest = max(operands_in(call.args), key=lambda item: prod(item.shape))
    return [_like(largest)] * (2 if call.name == "_prelu_kernel_backward" else 1)


_LISTS = ("add", "mul", "sub", "div", "sqrt", "addcmul", "addcdiv", "lerp", "neg", "pow", "norm", "maximum",
          "reciprocal", "abs", "exp", "clamp_min", "clamp_max")  # fmt: skip

_results(*(f"_foreach_{name}" for name in _LISTS))(
    lambda call: [_like(item, () if call.name == "_foreach_norm" else None) for item in call.tensors(0)]
)


@_results(*registry.OPTIMIZERS)
def _updated(call: Call) -> Sequence[Result]:
    """Parameters and what the optimizer keeps of them; gradients where they are unscaled."""
    states = {"_fused_sgd": 3, "_fused_adagrad": 3}.get(call.name, 5)
    scaled = call.operand("grad_scale") is not None
    places = [place for place in range(states) if place != 1 or scaled]
    return [_like(item) for place in places for item in operands_in(call.args[place])]


#: Formats of products whose results have one of their own.
_PRODUCT_FORMATS = {"_int_mm": "int32", "_scaled_mm": "bf16"}


@_results("mm", "_int_mm", "bmm", "mv", "dot", "vdot", tensors=2)
@_results("_scaled_mm")
@_results("addmm", "_addmm_activation", "baddbmm", "addbmm", "addmv", tensors=3)
def _product(call: Call) -> Result:
    factors = call.operands(1, 2) if "add" in call.name else call.operands(0, 1)
    words, result = registry.OF_LETTERS[call.name]
    pairs = [pair for x, word in zip(factors, words, strict=True) for pair in zip(word, x.shape, strict=False)]
    sizes = dict(pairs)
    if [len(word) for word in words] != [x.rank for x in factors] or any(sizes[word] != size for word, size in pairs):
        raise InputError(f"{call.full_name} of shapes that do not fit")
    return _like(factors[0], [sizes[letter] for letter in result], _PRODUCT_FORMATS.get(call.name))


@_results("matmul", tensors=2)
def _any_product(call: Call) -> Result:
    a, b = call.operands(0, 1)
    if len(b.shape) == 2:
        return _like(a, (*a.shape[:-1], b.shape[1]))
    if a.rank < 2 or b.rank < 2:
        raise InputError("a product of these shapes has no rule")
    return _like(a, (*_broadcast([a.shape[:-2], b.shape[:-2]]), a.shape[-2], b.shape[-1]))


@_results("linear", tensors=3)
def _layer(call: Call) -> Result:
    x, weight = call.operands(0, 1)
    return _like(x, (*x.shape[:-1], *weight.shape[:-1]))


@_results("_euclidean_dist", "_cdist_forward", tensors=2)
def _pairs(call: Call) -> Result:
    x, y = call.operands(0, 1)
    return _like(x, (*_broadcast([x.shape[:-2], y.shape[:-2]]), x.shape[-2], y.shape[-2]))


_ATTENTIONS = [name for name in SIGNATURES if "scaled_dot_product" in name]


@_results(*(name for name in _ATTENTIONS if not name.endswith("_backward")))
def _attended(call: Call) -> Result:
    q, _, v = call.operands(0, 1, 2)
    return _like(q, (*q.shape[:-1], v.shape[-1]))


@_results(*(name for name in _ATTENTIONS if name.endswith("_backward")))
def _attended_backward(call: Call) -> Sequence[Result]:
    """The gradients of queries, keys and values, and of a bias where that is asked for."""
    wanted, bias = call.get("grad_input_mask"), call.operand("attn_bias")
    has_bias = isinstance(wanted, list | tuple) and wanted[-1] and bias is not None and bias.shape
    return _all_like([*call.operands(1, 2, 3), *([bias] if has_bias and bias is not None else [])])


@_results(*CONVOLUTIONS, tensors=3)
def _convolved(call: Call) -> Result:
    x, weight = call.operands(0, 1)
    spatial, groups = weight.rank - 2, call.stated("groups", 1)
    stride, pad, dilation = (_each(call.stated(name), spatial) for name in ("stride", "padding", "dilation"))
    sizes = zip(x.shape[-spatial:], weight.shape[2:], stride, pad, dilation, strict=True)
    batch = x.shape[: x.rank - spatial - 1]
    if call.name.startswith("conv_transpose") or call.stated("transposed", False) is True:
        more = _each(call.stated("output_padding"), spatial)
        shape = [int(Window(k, s, p, d).spread(n, o)) for (n, k, s, p, d), o in zip(sizes, more, strict=True)]
        return _like(x, (*batch, weight.shape[1] * groups, *shape))
    if x.shape[-spatial - 1] != weight.shape[1] * groups:
        raise InputError(f"{call.full_name} of channels that do not fit")
    shape = [int(Window(k, s, p, d).results(n)) for n, k, s, p, d in sizes]
    return _like(x, (*batch, weight.shape[0], *shape))


@_results("convolution_backward", "convolution_backward_overrideable")
def _convolved_backward(call: Call) -> Sequence[Result]:
    grad, x, weight = call.operands(0, 1, 2)
    made = (_like(x), _like(weight), _like(grad, grad.shape[1:2]))
    return [one for one, wanted in zip(made, call.stated("output_mask"), strict=True) if wanted]


def _each(value: Any, spatial: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(item, int) and item >= 0 for item in values):
        raise InputError(f"{value!r} is not a size of a window")
    return values * spatial if len(values) == 1 else values


@_results("max_pool1d", "max_pool2d", "max_pool3d", tensors=1, gradient="{}_with_indices_backward")
@_results("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", tensors=1)
@_results("mkldnn_max_pool2d", "mkldnn_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", tensors=1)
def _pooled(call: Call) -> Sequence[Result]:
    (x,), spatial = call.operands(0), int(call.name[call.name.index("pool") + 4])
    size = _each(call.stated("kernel_size"), spatial)
    stride = _each(call.get("stride") or size, spatial)
    pad, dilation = _each(call.get("padding", 0), spatial), _each(call.get("dilation", 1), spatial)
    beyond = call.stated("ceil_mode") is True
    each = zip(x.shape[-spatial:], size, stride, pad, pad, dilation, strict=True)
    out = _like(x, (*x.shape[:-spatial], *(int(window_count(*one, beyond=beyond)) for one in each)))
    finds_places = call.name.startswith("max_pool")
    return [out, (out[0], "int64")] if finds_places else [out]


@_results("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
          "adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d", tensors=1)  # fmt: skip
def _pooled_to(call: Call) -> Sequence[Result]:
    (x,), sizes = call.operands(0), _told(call, 1)
    out = _like(x, (*x.shape[: -len(sizes)], *sizes))
    return [out, (out[0], "int64")] if "max" in call.name else [out]


_RESAMPLED = ("nearest1d", "nearest2d", "nearest3d", "nearest_exact1d", "nearest_exact2d", "nearest_exact3d",
              "linear1d", "bilinear2d", "trilinear3d", "bicubic2d")  # fmt: skip
_UPSAMPLE = tuple(f"{'_' * ('exact' in kind)}upsample_{kind}" for kind in _RESAMPLED)


@_results(*_UPSAMPLE, *(f"{name}_backward" for name in _UPSAMPLE), tensors=1)
def _resampled(call: Call) -> Result:
    """The sizes follow the tensor; a gradient has those of its own input one place on."""
    (x,) = call.operands(0)
    sizes = _told(call, 2 if call.is_backward else 1)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise InputError(f"{sizes!r} are no sizes")
    return _like(x, sizes if call.is_backward else (*x.shape[:2], *sizes))


@_results("native_layer_norm", "_fused_rms_norm", "native_group_norm", tensors=4, gradient="{}_backward")
def _normed_in_rows(call: Call) -> Sequence[Result]:
    (x,) = call.operands(0)
    if call.name == "native_group_norm":
        rows: tuple[int, ...] = (x.shape[0], call.stated("group"))
    else:
        last = len(_told(call, 1))
        rows = (*x.shape[:-last], *[1] * last)
    return [_like(x), *[(rows, x.dtype)] * (1 if call.name == "_fused_rms_norm" else 2)]


@_results("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit",
          "_batch_norm_with_update", "_native_batch_norm_legit_no_training", "_batch_norm_no_update",
          tensors=5, gradient="{}_backward")  # fmt: skip
def _normed_in_channels(call: Call) -> Sequence[Result]:
    """What is kept for the gradient, and, while training, the stored statistics that are updated."""
    (x,) = call.operands(0)
    return [_like(x), *[((x.shape[1],), "fp32")] * 2, *_all_like(_given(call, 3, 4) if call.is_training else [])]


@_results("native_layer_norm_backward", "_fused_rms_norm_backward", "native_group_norm_backward",
          "native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward",
          "batch_norm_backward")  # fmt: skip
def _normed_backward(call: Call) -> Sequence[Result]:
    """The gradients of the input, of its scale and of its shift; the first two arguments are alike."""
    scales = {"native_layer_norm_backward": (5, 6), "_fused_rms_norm_backward": (4,),
              "native_group_norm_backward": (4, 4)}.get(call.name, (2, 2))  # fmt: skip
    places = (1, *scales)
    wanted = call.get("output_mask") or [True] * len(places)
    return _all_like(_given(call, *(place for place, made in zip(places, wanted, strict=True) if made)))


#: Reductions that give a place or a count alone, a value and its place, or two values.
_PLACES, _BOTH, _TWO_VALUES = ("argmax", "argmin", "count_nonzero"), ("max", "min"), ("var_mean", "std_mean", "aminmax")


@_results(*(name for name in registry.REDUCTIONS if name not in _BOTH), tensors=1)
@_results("max", "min", tensors=2)
def _reduced(call: Call) -> Sequence[Result]:
    """Over the dimensions that are stated, else over all; ``max`` of two tensors is elementwise."""
    (x,), second = call.operands(0), call.args[1] if len(call.args) > 1 else None
    if call.name in _BOTH and isinstance(second, TensorOperand):
        return [_together([x, second])]
    axes = _told(call, 2 if call.name in ("linalg_vector_norm", "norm") else 1, ())
    axes = [axes] if isinstance(axes, int) and not isinstance(axes, bool) else axes
    over = axes if isinstance(axes, list | tuple) and axes else range(x.rank)
    along = {int(axis) % max(x.rank, 1) for axis in over}
    kept = [size for axis, size in enumerate(x.shape) if axis not in along]
    is_true = call.name in ("any", "all", "_is_all_true", "_is_any_true")
    own = "uint64" if call.name == "hash_tensor" else "bool" if is_true else None
    found = [_like(x, kept, "int64" if call.name in _PLACES else own)]
    if call.name in _TWO_VALUES or (call.name in _BOTH and kept):
        found.append(_like(x, kept, "int64" if call.name in _BOTH else None))
    return found


@_results("sort", "topk", tensors=1)
def _sorted(call: Call) -> Sequence[Result]:
    (x,), dim = call.operands(0), call.stated("dim")
    kept = [call.stated("k") if call.name == "topk" and n == dim % x.rank else s for n, s in enumerate(x.shape)]
    return [_like(x, kept), _like(x, kept, "int64")]


@_results("nll_loss_forward", "nll_loss2d_forward", tensors=3)
def _picked(call: Call) -> Sequence[Result]:
    """The loss and the weight of all rows, or a loss for each row."""
    (scores,), target = call.operands(0), call.operands(1)[0]
    return [_like(scores, target.shape if _told(call, 3, 1) == 0 else ()), _like(scores, ())]


_LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")


@_results(*_LOSSES, tensors=3)
@_results(*(f"{name}_backward" for name in _LOSSES), tensors=4)
def _lost(call: Call) -> Result:
    """One number, unless the reduction that stands behind the tensors is 0; a gradient for each element."""
    (x,) = call.operands(1 if call.is_backward else 0)
    reduction = _told(call, 3 if call.name == "binary_cross_entropy" else 2, 1)
    return _like(x, None if call.is_backward or reduction == 0 else ())


@_results("cat", "stack")
def _joined(call: Call) -> Result:
    parts = call.tensors(0)
    return (sum(part.elements for part in parts),), _widest(parts)


@_results("repeat", tensors=1)
def _repeated(call: Call) -> Result:
    (x,), times = call.operands(0), _told(call, 1)
    return _like(x, (x.elements * prod(times),))


@_results("constant_pad_nd", tensors=1)
def _padded(call: Call) -> Result:
    """The widths of the margins stand from the last dimension on, two for each."""
    (x,), widths = call.operands(0), _told(call, 1)
    sizes = list(x.shape)
    for number, width in enumerate(widths):
        sizes[-1 - number // 2] += width
    return _like(x, sizes)


@_results("embedding", tensors=2)
def _rows(call: Call) -> Result:
    table, index = call.operands(0, 1)
    return _like(table, (*index.shape, table.shape[1]))


@_results("_embedding_bag", "_embedding_bag_forward_only")
def _bags(call: Call) -> Result:
    """A row for each bag; the last offset may be the end of the last one."""
    table, _, offsets = call.operands(0, 1, 2)
    return _like(table, (offsets.shape[0] - bool(_told(call, 7, False)), table.shape[1]))


@_results("embedding_dense_backward")
def _rows_backward(call: Call) -> Result:
    (grad,) = call.operands(0)
    return _like(grad, (_told(call, 2), grad.shape[-1]))


@_results("_fft_c2c", "_fft_r2c", "_fft_c2r", tensors=1)
def _transformed(call: Call) -> Result:
    """Of real numbers the first half of the last dimension and one more may be all that is made."""
    (x,), axis = call.operands(0), _told(call, 1)[-1]
    sizes, dtype = list(x.shape), x.dtype
    if call.name == "_fft_r2c":
        sizes[axis] = sizes[axis] // 2 + 1 if _told(call, 3) else sizes[axis]
        dtype = _COMPLEX[x.dtype]
    elif call.name == "_fft_c2r":
        sizes[axis] = _told(call, 3)
        dtype = _PARTS[x.dtype]
    return _like(x, sizes, dtype)


@_results("index_select", "gather", tensors=3)
def _gathered(call: Call) -> Result:
    x, index, dim = call.operands(0)[0], call.operands(2)[0], _told(call, 1)
    if call.name == "gather":
        return _like(x, index.shape)
    return _like(x, [index.elements if place == dim % x.rank else size for place, size in enumerate(x.shape)])


_results("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn")(lambda call: recurrence_of(call).results())


@_results("mkldnn_rnn_layer")
def _recurrent_layer(call: Call) -> Sequence[Result]:
    (x,) = call.operands(0)
    return [_like(x, (*x.shape[:-1], call.stated("hidden_size"))), *_all_like(_given(call, 5, 6))]


_results("mkldnn_rnn_layer_backward")(lambda call: _all_like(_given(call, 0, 1, 2, 3, 4, 5, 6)))


def _told(call: Call, place: int, default: Any = ...) -> Any:
    """The plain value at an argument's place; an error where it is not told and nothing else will do."""
    value = call.args[place] if place < len(call.args) else registry.UNTOLD
    if value is not registry.UNTOLD and not isinstance(value, TensorOperand) and value is not None:
        return value
    if default is ...:
        raise InputError(f"the value of argument {place} of {call.full_name} is not told")
    return default
