"""Shapes of results, for operations that PyTorch cannot run on shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roofline.programs.pytorch.registry import shape


@shape("fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
       "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")  # fmt: skip
def with_mask(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same shape, and where it was clipped."""
    return torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)


@shape("dequantize")
def out_of_integers(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Floating point of the same shape."""
    return torch.empty(args[0].shape, dtype=torch.float32, device="meta")


@shape("binomial", "_standard_gamma", "_sample_dirichlet")
def shaped_as_chances(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A number for each chance or rate."""
    return torch.empty_like(args[0])


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


@shape("_weight_int4pack_mm")
def packed_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """[m, k] by a matrix packed in tiles of 8 columns."""
    x, packed = args[:2]
    return x.new_empty((x.shape[0], packed.shape[0] * 8))


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


@shape("quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
       "quantized.linear_relu_dynamic_fp16")  # fmt: skip
def linear_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """[.., n] for a weight of n rows."""
    x, pack = args[:2]
    return x.new_empty((*x.shape[:-1], pack.unpack()[0].shape[0]))


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
    return (
        solution,
        b.new_empty(0),
        a.new_empty(a.shape[:-2], dtype=torch.int64),
        a.new_empty((*a.shape[:-2], min(m, n))),
    )


@shape("_ctc_loss_backward")
def scores_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A gradient for every score."""
    return torch.empty_like(args[1])


@shape("_ctc_loss", "ctc_loss")
def paths_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss for each sequence, and a table of steps by states; targets in one row have to say how long they are."""
    scores, targets, _, lengths = args[:4]
    if targets.dim() == 1 and isinstance(lengths, torch.Tensor):
        return NotImplemented
    longest = max(lengths, default=0) if targets.dim() == 1 else targets.shape[1]
    table = (scores.shape[1], scores.shape[0], 2 * longest + 1)
    return tuple(torch.empty(dims, dtype=scores.dtype, device="meta") for dims in (table[:1], table))


@shape("_fused_sgd", "_fused_adagrad", "_amp_foreach_non_finite_check_and_unscale")
def in_place(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Nothing comes out. Whether a gradient is not finite keeps the value it had: it is taken not to be."""
    return None
