"""Shapes of results, for operations that PyTorch cannot run on shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from roofline.programs.pytorch.recorder import packed_window
from roofline.programs.pytorch.registry import shape

# The same shape: a number for each chance or rate, functions of quantised numbers.
shape(
    "binomial", "_standard_gamma", "_sample_dirichlet",
    *(f"quantized.{name}" for name in (
        "add_scalar", "mul_scalar", "add_scalar_relu", "mul_scalar_relu", "sigmoid", "hardswish", "leaky_relu", "elu",
        "celu", "relu6", "prelu", "clamp", "threshold", "softmax", "layer_norm", "group_norm", "instance_norm",
        "dropout", *(f"batch_norm{n}{post}" for n in ("", "1d", "2d", "3d") for post in ("", "_relu")))),
)(lambda args, kwargs: torch.empty_like(args[0]))  # fmt: skip

# The same shape, and where it was clipped.
shape(
    "fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)(lambda args, kwargs: (torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)))  # fmt: skip

# Floating point of the same shape.
shape("dequantize")(lambda args, kwargs: torch.empty(args[0].shape, dtype=torch.float32, device="meta"))

# [m, k] by a matrix packed in tiles of 8 columns.
shape("_weight_int4pack_mm")(lambda args, kwargs: args[0].new_empty((args[0].shape[0], args[1].shape[0] * 8)))

# [.., n] for a packed weight of n rows.
shape(
    "quantized.linear", "quantized.linear_relu", "quantized.linear_leaky_relu", "quantized.linear_tanh",
    "quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
    "quantized.linear_relu_dynamic_fp16",
)(lambda args, kwargs: args[0].new_empty((*args[0].shape[:-1], args[1].unpack()[0].shape[0])))  # fmt: skip

shape("quantized.cat", "quantized.cat_relu")(lambda args, kwargs: torch.cat(list(args[0]), args[1]))

# What the first matrix stores.
shape("sparse_sampled_addmm")(lambda args, kwargs: args[0].clone())

# The edges of the bins of each dimension.
shape("_histogramdd_bin_edges")(lambda args, kwargs: [args[0].new_empty(many + 1) for many in args[1]])

# A gradient for every score.
shape("_ctc_loss_backward")(lambda args, kwargs: torch.empty_like(args[1]))

# Nothing comes out. Whether a gradient is not finite keeps the value it had: it is taken not to be.
shape("_fused_sgd", "_fused_adagrad", "_amp_foreach_non_finite_check_and_unscale")(lambda args, kwargs: None)


@shape("bincount")
def counts(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As many as are asked for at least, as of the tokens of each expert; without that number it depends on values."""
    given = dict(zip(("input", "weights", "minlength"), args, strict=False)) | kwargs
    weights, least = given.get("weights"), given.get("minlength", 0)
    summed = torch.float32 if weights is not None and weights.dtype == torch.float32 else torch.float64
    dtype = torch.int64 if weights is None else summed
    return args[0].new_empty(least, dtype=dtype) if least else NotImplemented


@shape("_grouped_mm")
def grouped_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """PyTorch looks at shapes of bf16 alone, though it multiplies other formats too."""
    a, b, ends, _, wanted = (*args, *(None,) * 5)[:5]
    ends, wanted = kwargs.get("offs", ends), kwargs.get("out_dtype", wanted)
    batched = a.dim() == b.dim() == 3
    fits = a.shape[-1] == b.shape[-2] and (a.shape[0] == b.shape[0] if batched else ends is not None)
    if not fits or a.dtype != b.dtype or a.dtype not in (torch.float32, torch.float16):
        return NotImplemented
    lead: Sequence[int] = ()
    if a.dim() == b.dim():
        lead = a.shape[:1] if a.dim() == 3 else ends.shape
    return torch.empty((*lead, a.shape[-2], b.shape[-1]), dtype=wanted or a.dtype, device="meta")


@shape("mul", "div")
def scaled(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A sparse tensor times a dense one, or a number, stores the same elements."""
    left, right = args[:2]
    if left.layout == torch.strided or (isinstance(right, torch.Tensor) and right.layout != torch.strided):
        return NotImplemented
    return left.clone()


@shape("mm", "_sparse_mm", "addmm", "_sparse_addmm", "mv")
def dense_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A product of a sparse and a dense operand is dense."""
    if all(item.layout == torch.strided for item in args if isinstance(item, torch.Tensor)):
        return NotImplemented
    left, right = [item for item in args if isinstance(item, torch.Tensor)][-2:]
    dims = (left.shape[0], right.shape[1]) if right.dim() > 1 else (left.shape[0],)
    return torch.empty(dims, dtype=left.dtype, device="meta")


def _averaged(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A mean of quantised numbers: the shape is that of floating point, the format that of what goes in."""
    if args[0].dtype not in (torch.uint8, torch.int8):
        return NotImplemented
    made = getattr(torch.ops.aten, name)(torch.empty(args[0].shape, device="meta"), *args[1:], **kwargs)
    return torch.empty_like(made, dtype=args[0].dtype)


for _name in ("mean", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"):
    shape(_name)(partial(_averaged, _name))

#: The plain integers that quantised tensors stand for.
_INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}


@shape("quantize_per_tensor", "quantize_per_channel")
def integers(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Integers of the same shape, without their scale."""
    wanted = kwargs.get("dtype", args[-1])
    return torch.empty(args[0].shape, dtype=_INTEGERS.get(wanted, torch.uint8), device="meta")


@shape(*(f"quantized.conv{turned}{n}d{post}" for n in (1, 2, 3) for turned in ("", "_transpose")
         for post in ("", "_relu", "_dynamic")), "quantized.conv2d_add", "quantized.conv2d_add_relu")  # fmt: skip
def convolved(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As the convolution of floating point that the packed weights are for."""
    x, pack = args[0], args[1] if hasattr(args[1], "unpack") else args[2]
    x, weight = (torch.empty(item.shape, device="meta") for item in (x, pack.unpack()[0]))
    window = packed_window(pack)
    order = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    made = torch.ops.aten.convolution(x, weight, None, *(window[word] for word in order))
    return torch.empty_like(made, dtype=args[0].dtype)


@shape("quantized.add", "quantized.mul", "quantized.add_relu", "quantized.mul_relu")
def paired(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As large as both together need."""
    tensors = [item for item in args if isinstance(item, torch.Tensor)]
    return tensors[0].new_empty(torch.broadcast_shapes(*(item.shape for item in tensors)))


@shape("quantized.matmul")
def product_of_two(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As numpy.matmul."""
    a, b = args[:2]
    return a.new_empty((*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))


@shape("quantized.max_pool1d", "quantized.max_pool2d")
def pooled(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As the pooling of floating point."""
    x = torch.empty(args[0].shape, device="meta")
    made = (torch.max_pool2d if len(args[1]) == 2 else torch.max_pool1d)(x, *args[1:])
    return torch.empty_like(made, dtype=args[0].dtype)


@shape("_sparse_mm_reduce_impl")
def reduced_product(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Dense, and which terms were chosen."""
    made = args[1].new_empty((args[0].shape[0], args[1].shape[1]))
    return made, torch.empty_like(made, dtype=torch.int64)


@shape("histogram")
def counted(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The counts, and the edges of the bins."""
    bins = args[1] if len(args) > 1 else kwargs.get("bins", 100)
    many = bins if isinstance(bins, int) else bins.numel() - 1
    return args[0].new_empty(many), args[0].new_empty(many + 1)


# A count for each bin.
shape("_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors")(
    lambda args, kwargs: args[0].new_empty([n if isinstance(n, int) else n.numel() - 1 for n in args[1]])
)


@shape("multilabel_margin_loss_forward")
def margins(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss for each row, or one; and which classes are among the labels."""
    scores, target, reduction = args[:3]
    rows = scores.shape[:1] if reduction == 0 and scores.dim() > 1 else ()
    return scores.new_empty(rows), torch.empty_like(scores, memory_format=torch.contiguous_format).view(target.shape)


@shape("geqrf")
def reflections(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The triangle over the reflections, and a factor for each."""
    (a,) = args
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])))


@shape("linalg_lstsq")
def least_squares(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The solution and the singular values; what depends on the rank is left empty."""
    a, b = args[:2]
    m, n = a.shape[-2:]
    solution = b.new_empty((*b.shape[:-2], n, b.shape[-1]) if b.dim() == a.dim() else (*b.shape[:-1], n))
    rank, values = a.new_empty(a.shape[:-2], dtype=torch.int64), a.new_empty((*a.shape[:-2], min(m, n)))
    return solution, b.new_empty(0), rank, values


@shape("_ctc_loss", "ctc_loss")
def paths_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss for each sequence, and a table of steps by states; targets in one row have to say how long they are."""
    scores, targets, _, lengths = args[:4]
    if targets.dim() == 1 and isinstance(lengths, torch.Tensor):
        return NotImplemented
    longest = max(lengths, default=0) if targets.dim() == 1 else targets.shape[1]
    table = (scores.shape[1], scores.shape[0], 2 * longest + 1)
    return tuple(torch.empty(dims, dtype=scores.dtype, device="meta") for dims in (table[:1], table))
