"""Layers whose weights PyTorch has packed as integers, which are asked what they hold; products of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch._higher_order_ops.out_dtype import out_dtype

from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule, shape
from roofline.programs.pytorch.tensors import dtype_name
from roofline.work import Tensor, Work

_LINEAR = ("quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
           "quantized.linear_relu_dynamic_fp16")  # fmt: skip


@rule(*_LINEAR)
def linear(call: Call) -> Priced:
    """Bring x to the format of the weight, 3 FLOPs an element where that is integers; multiply; rescale and add."""
    x, pack = call.args[:2]
    weight, bias = pack.unpack()
    n, k = weight.shape
    held = Tensor(f"pack{id(pack)}", (n, k), dtype_name(weight.dtype), "weight")
    added = [] if bias is None else [Tensor(f"pack{id(pack)}.bias", (n,), dtype_name(bias.dtype), "weight")]
    op = pricing.matmul(call.name, (held, held), call.writes, m=prod(x.shape[:-1]), n=n, k=k)
    each = 2 + ("relu" in call.name) if weight.is_quantized else len(added) + ("relu" in call.name)
    around = (3 * x.numel() if weight.is_quantized else 0) + each * call.outs[0].numel()
    work = op.work + Work.flops("vector", pricing.arithmetic(call.writes), around)
    return replace(op, reads=(*call.read(x), held, *added), work=work)


@shape(*_LINEAR)
def linear_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """[.., n] for a weight of n rows."""
    x, pack = args[:2]
    return x.new_empty((*x.shape[:-1], pack.unpack()[0].shape[0]))


@function(out_dtype)
def widened(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A product of bytes added up in 32 bits, as torchao asks for it."""
    product, dtype, *given = args
    of_bytes = product is torch.ops.aten.mm.default and all(item.dtype == torch.int8 for item in given)
    return torch._int_mm(*given) if of_bytes and dtype == torch.int32 else NotImplemented
