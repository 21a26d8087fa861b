"""Sparse matrix products: a multiply and an add for every stored element and column of the other operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roofline.errors import InputError
from roofline.programs.torch_registry import Call, Priced, costs, rule, shape


@rule("_sparse_mm", "_sparse_addmm", "sparse_sampled_addmm", "_sparse_semi_structured_mm",
      "_sparse_semi_structured_linear", "_sparse_semi_structured_addmm", "hspmm", "sspaddmm")  # fmt: skip
def product(call: Call) -> Priced:
    """A product with a sparse operand, of which only stored elements count."""
    matrices = [item for item in call.args if isinstance(item, torch.Tensor)]
    *bias, left, right = matrices
    added = call.read(*bias) if call.get("beta", 1) != 0 else ()
    reads = (*call.read(left, right), *added)
    n = right.shape[-1] if right.dim() > 1 else 1
    return costs.matmul(call.name.strip("_"), reads, call.writes, m=stored_elements(left), n=n, k=1)


def stored_elements(tensor: torch.Tensor) -> int:
    """Elements a matrix stores: all of them, or those of a sparse layout."""
    if tensor.layout == torch.strided:
        return int(tensor.numel())
    if tensor.device.type == "meta":
        message = f"how many elements a sparse tensor of {list(tensor.shape)} stores is not known on shapes alone"
        raise InputError(message, hint="give it as an input, or hold it, with values on the CPU")
    return int(tensor._nnz())


@shape("mm", "_sparse_mm", "addmm", "_sparse_addmm", "mv")
def dense_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A product of a sparse and a dense operand is dense."""
    if all(item.layout == torch.strided for item in args if isinstance(item, torch.Tensor)):
        return NotImplemented
    left, right = [item for item in args if isinstance(item, torch.Tensor)][-2:]
    dims = (left.shape[0], right.shape[1]) if right.dim() > 1 else (left.shape[0],)
    return torch.empty(dims, dtype=left.dtype, device="meta")
