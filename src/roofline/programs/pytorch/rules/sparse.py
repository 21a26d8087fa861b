"""Sparse matrix products: a multiply and an add for every stored element and column of the other operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from roofline.errors import InputError
from roofline.programs.pytorch.registry import Call, Priced, pricing, rule, shape
from roofline.work import Op, Work


@rule("_sparse_mm", "_sparse_addmm", "sparse_sampled_addmm", "_sparse_semi_structured_mm",
      "_sparse_semi_structured_linear", "_sparse_semi_structured_addmm", "hspmm", "sspaddmm")  # fmt: skip
def product(call: Call) -> Priced:
    """A product with a sparse operand, of which only stored elements count."""
    *bias, left, right = [item for item in call.args if isinstance(item, torch.Tensor)]
    return sparse_product(call, left, right, *bias)


def is_sparse(*tensors: Any) -> bool:
    """Whether any of them stores only some of its elements."""
    return any(item is not None and item.layout != torch.strided for item in tensors)


def sparse_product(call: Call, left: Any, right: Any, *added: Any) -> Op:
    """A product of two matrices of which at least one is sparse; what is added is read unless β is 0."""
    bias = call.read(*added) if call.get("beta", 1) != 0 else ()
    rows, columns = _meetings(left, right)
    reads = (*call.read(left, right), *bias)
    op = pricing.matmul(call.name.strip("_"), reads[:2], call.writes, m=rows, n=columns, k=1)
    if not bias:
        return op
    sums = Work.flops("vector", pricing.arithmetic(call.writes), call.outs[0].numel())
    return replace(op, reads=reads, work=op.work + sums)


def _meetings(left: Any, right: Any) -> tuple[Any, Any]:
    """Multiply-adds, as stored elements of one side and how many of the other each of them meets."""
    if left.layout == torch.strided:
        return prod(left.shape[:-1]), stored_elements(right)
    if right.layout == torch.strided:
        return stored_elements(left), right.shape[-1] if right.dim() > 1 else 1
    stored_elements(left), stored_elements(right)
    columns = torch.bincount(left.to_sparse_coo()._indices()[1], minlength=left.shape[1])
    rows = torch.bincount(right.to_sparse_coo()._indices()[0], minlength=right.shape[0])
    return int((columns * rows).sum()), 1


def stored_elements(tensor: torch.Tensor) -> int:
    """Elements a matrix stores: all of them, or those of a sparse layout, whole blocks where it has blocks."""
    if tensor.layout == torch.strided:
        return int(tensor.numel())
    if tensor.device.type == "meta":
        message = f"how many elements a sparse tensor of {list(tensor.shape)} stores is not known on shapes alone"
        raise InputError(message, hint="give it as an input, or hold it, with values on the CPU")
    return int((tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()).numel())


@shape("mul", "div")
def scaled(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A sparse tensor times a dense one, or a number, stores the same elements."""
    left, right = args[:2]
    if not is_sparse(left) or (isinstance(right, torch.Tensor) and is_sparse(right)):
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
