"""Matrix products: as the user calls them (linear, matmul, einsum) and as the dispatcher runs them (mm, bmm, addmm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from roofline.ops.einsum import letters, steps
from roofline.programs.pytorch.open_sizes import least
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule, shape
from roofline.programs.pytorch.rules.sparse import is_sparse, sparse_product
from roofline.work import Op, Tensor, Work


@rule("mm", "_int_mm", "_scaled_mm", "_scaled_mm_v2", "_weight_int8pack_mm", "_weight_int4pack_mm",
      "_dyn_quant_matmul_4bit", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros")  # fmt: skip
def mm(call: Call) -> Priced:
    """Multiply [m, k] by [k, n]; scales and biases are read too, and cost a FLOP a result each."""
    a, b = call.args[:2]
    m, n = call.outs[0].shape[-2:]
    if is_sparse(a, b):
        return sparse_product(call, a, b)
    rest = [item for item in call.reads if item not in call.read(a, b)]
    return pricing.matmul(call.name, (*call.read(a, b), *rest), call.writes, m=m, n=n, k=a.shape[-1])


@rule("bmm")
def bmm(call: Call) -> Priced:
    """Multiply [b, m, k] by [b, k, n]."""
    a, b = call.args[:2]
    batch, m, k = a.shape
    return pricing.matmul(call.name, call.read(a, b), call.writes, m=m, n=b.shape[-1], k=k, batch=batch)


@rule("addmm", "baddbmm", "addmv", "addbmm", "_addmm_activation")
def addmm(call: Call) -> Priced:
    """Multiply the second and third arguments, add the first."""
    bias, a, b = call.args[:3]
    if is_sparse(a, b):
        return sparse_product(call, a, b, bias)
    reads = (*call.read(a, b), *(call.read(bias) if call.get("beta", 1) != 0 else ()))
    batch = a.shape[0] if a.dim() == 3 else 1
    m, n = a.shape[-2], (b.shape[-1] if b.dim() > 1 else 1)
    return pricing.matmul(call.name, reads, call.writes, m=m, n=n, k=a.shape[-1], batch=batch)


@rule("mv")
def mv(call: Call) -> Priced:
    """Multiply [m, k] by [k]."""
    a, b = call.args[:2]
    if is_sparse(a):
        return sparse_product(call, a, b)
    return pricing.matmul(call.name, call.read(a, b), call.writes, m=a.shape[0], n=1, k=a.shape[1])


@rule("dot", "vdot")
def dot(call: Call) -> Priced:
    """Multiply [k] by [k]."""
    a, b = call.args[:2]
    return pricing.matmul(call.name, call.read(a, b), call.writes, m=1, n=1, k=a.shape[0])


@rule("linear")
def linear(call: Call) -> Priced:
    """Multiply [.., k] by [n, k] transposed, add a bias."""
    x, weight = call.args[:2]
    bias = call.get("bias")
    if is_sparse(x, weight):
        return sparse_product(call, x, weight.t(), bias)
    return _linear(call.name, call.read(x, weight, bias), call.writes, x, weight)


@rule("matmul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul does."""
    a, b = call.args[:2]
    return _matmul(call.name, call.read(a, b), call.writes, a, b, call.outs[0])


@rule("_trilinear")
def trilinear(call: Call) -> Priced:
    """Two products one after the other: the first two operands over what the third does not have, then the third."""
    first, second, third = call.args[:3]
    lacking, summed = [set(dims) for dims in call.args[3:6]], set(call.args[6])
    rank = first.dim() + len(lacking[0])
    size: dict[int, Any] = {}
    for tensor, missing in zip((first, second, third), lacking, strict=True):
        size |= dict(zip(sorted(set(range(rank)) - missing), tensor.shape, strict=True))
    kept = set(range(rank)) - summed
    k = prod(size[d] for d in summed & lacking[2])
    n = prod(size[d] for d in summed - lacking[2])
    m = prod(size[d] for d in kept)
    reads = call.read(first, second, third)
    op = pricing.matmul("bilinear", reads[:2], call.writes, m=m, n=n, k=k)
    macs = m * n * (k + 1)
    work = Work.flops("matrix", pricing.arithmetic(reads), 2 * macs)
    return replace(op, reads=reads, work=work, options={"macs": macs})


@rule("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: Call) -> Priced:
    """Every row meets the matrix of one group: [t, k] by [g, k, n] is t·k·n multiply-adds, whatever the groups.

    Of g matrices t rows meet at most t. With both operands two-dimensional the contracted size is what is split: m·n·t.
    Three by three is batched.
    """
    a, b = call.args[:2]
    rest = [item for item in call.reads if item not in call.read(a, b)]
    (first,), (second,) = call.read(a), call.read(b)
    if a.dim() == 3 and b.dim() == 3:
        sizes = {"batch": a.shape[0], "m": a.shape[1], "k": a.shape[2], "n": b.shape[2]}
    else:
        sizes = {"m": a.shape[-2], "k": a.shape[-1], "n": b.shape[-1]}
        if b.dim() == 3:
            second = _met(second, sizes["m"], sizes["k"] * sizes["n"])
        elif a.dim() == 3:
            first = _met(first, sizes["n"], sizes["m"] * sizes["k"])
    op = pricing.matmul(call.name, (first, second), call.writes, **sizes)
    return Op(op.name, op.kind, op.work, (*op.reads, *rest), op.writes, op.dims, note=op.note, options=op.options)


def _met(matrices: Tensor, rows: Any, each: Any) -> Tensor:
    """Matrices of ``each`` elements, at most one for every row of the other operand."""
    return replace(matrices, touched=least(rows * each, matrices.elements))


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


@function(F.linear)
def linear_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A linear layer whole; with a sparse weight it is the products the dispatcher runs."""
    x, weight, bias = _named(args, kwargs, "input", "weight", "bias")
    if is_sparse(x, weight, bias):
        return NotImplemented
    with recorder.silence():
        out = func(*args, **kwargs)
    reads = [recorder.read(item) for item in (x, weight, bias) if item is not None]
    recorder.emit(_linear("linear", reads, [recorder.wrote(out)], x, weight))
    return out


@function(
    torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.mm, torch.Tensor.mm, torch.bmm, torch.Tensor.bmm
)
def matmul_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A matrix product whole: broadcasting copies nothing."""
    if "out" in kwargs or len(args) != 2 or not all(isinstance(item, torch.Tensor) for item in args):
        return NotImplemented
    if any(item.layout != torch.strided for item in args):
        return NotImplemented
    with recorder.silence():
        out = func(*args, **kwargs)
    reads = [recorder.read(item) for item in args]
    name = func.__name__.strip("_")
    recorder.emit(_matmul(name, reads, [recorder.wrote(out)], args[0], args[1], out))
    return out


@function(torch.einsum)
def einsum_called(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A sum over products of one or two operands whole; more go pair by pair as PyTorch orders them."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    if len(operands) > 2 or not isinstance(args[0], str) or is_sparse(*operands):
        return NotImplemented
    with recorder.silence():
        out = func(*args, **kwargs)
    words, _ = letters(args[0], [item.dim() for item in operands])
    if any(len(set(word)) != len(word) for word in words) or _shares(out, operands):
        return NotImplemented
    ops = steps("einsum", args[0], [recorder.read(item) for item in operands], [recorder.wrote(out)])
    recorder.emit(ops)
    return out


def _shares(out: Any, operands: Sequence[Any]) -> bool:
    """Whether a result is a view: letters in another order."""
    return any(out.untyped_storage()._cdata == item.untyped_storage()._cdata for item in operands)


def _linear(name: str, reads: Sequence[Any], writes: Sequence[Any], x: Any, weight: Any) -> Op:
    n = weight.shape[0] if weight.dim() > 1 else 1
    return pricing.matmul(name, reads, writes, m=prod(x.shape[:-1]), n=n, k=x.shape[-1])


def _matmul(name: str, reads: Sequence[Any], writes: Sequence[Any], a: Any, b: Any, out: Any) -> Op:
    k = a.shape[-1]
    m = a.shape[-2] if a.dim() > 1 else 1
    n = b.shape[-1] if b.dim() > 1 else 1
    if b.dim() <= 2:
        m, batch = m * prod(a.shape[:-2]), 1
    else:
        batch = prod(out.shape) // max(1, m * n)
    return pricing.matmul(name, reads, writes, m=m, n=n, k=k, batch=batch)


def _named(args: Sequence[Any], kwargs: dict[str, Any], *names: str) -> list[Any]:
    given = dict(zip(names, args, strict=False)) | kwargs
    return [given.get(name) for name in names]
