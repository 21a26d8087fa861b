"""In which format a framework runs products of fp32: stored, read and summed as fp32, multiplied as it was told to.

On a TPU JAX's precisions take 1, 3 or 6 passes of bf16; on NVIDIA GPUs from Ampere on tf32, ``HIGHEST`` fp32; an
algorithm, such as ``BF16_BF16_F32_X3``, the passes that it names (docs.jax.dev, ``jax.lax.Precision``). PyTorch keeps
fp32 in matrix products and takes tf32 in cuDNN's convolutions, as ``torch.backends.cuda.matmul.allow_tf32`` and
``torch.backends.cudnn.allow_tf32`` say (docs.pytorch.org, "CUDA semantics"); on a TPU one pass of bf16 for both
(docs.pytorch.org/xla, ``torch_xla.backends.set_mat_mul_precision``). ONNX Runtime takes tf32 for both, as its CUDA
provider's ``use_tf32`` says, which is 1 by default (onnxruntime.ai, "CUDA Execution Provider").

>>> from roofline.hardware import chip
>>> from roofline.ops.contraction import matmul
>>> op = allowing(matmul(8, 16, 32, a="fp32", b="fp32"), jax_products(None))
>>> for name in ("h100", "v5e", "v100"):
...     (found,), said = multiplied_on([op], chip(name))
...     print(found.work, said)
Work(flops/matrix/tf32: 8192) ("JAX's precision is DEFAULT: products of fp32 run as tf32",)
Work(flops/matrix/bf16: 8192) ("JAX's precision is DEFAULT: products of fp32 run as bf16",)
Work(flops/matrix/fp32: 8192) ()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.frozen import NamedTuple, replace
from roofline.hardware.machine import Machine
from roofline.hardware.rate import PASSES
from roofline.quantity import format_amount
from roofline.work import Key, Op, Work

#: Lines of a program that are named.
_FEW = 3

_FP32, _ALLOWED = Key("flops", "matrix", "fp32"), "fp32_as"


class Products(NamedTuple):
    """How products of fp32 may run: in passes of a format, on a TPU in passes of bf16 (0: as elsewhere); and why."""

    format: str
    why: str
    passes: int = 1
    on_tpu: int = 0
    why_on_tpu: str = ""


#: How products of an ONNX file run.
ONNX_PRODUCTS = Products("tf32", "use_tf32 of ONNX Runtime's CUDA provider is 1")


def allowing(op: Op, products: Products) -> Op:
    """The operation with how its products of fp32 may run; as it is where it has none."""
    if (products.format == "fp32" and not products.on_tpu) or _FP32 not in op.work:
        return op
    return replace(op, options={**op.options, _ALLOWED: products})


def multiplied_on(ops: Sequence[Op], machine: Machine) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """Operations on a machine, products of fp32 as they may run there; and what is said of it."""
    found, said = [], dict[str, list[Op]]()
    for op in ops:
        taken = _taken(op.options[_ALLOWED], machine) if _ALLOWED in op.options else None
        if taken is not None:
            times = f"{taken.passes} passes of " if taken.passes > 1 else ""
            said.setdefault(f"{taken.why}: products of fp32 run as {times}{taken.format}", []).append(op)
            work = dict(op.work.items())
            run = Work({_FP32._replace(dtype=taken.format): work.pop(_FP32) * taken.passes})
            op = replace(op, work=Work(work) + run)
        found.append(op)
    several = len(said) + any(_FP32 in op.work for op in found) > 1
    return tuple(found), tuple(f"{line}{_which(those) if several else ''}" for line, those in said.items())


def _which(ops: Sequence[Op]) -> str:
    """Which products run so, where others do not: how many, their FLOPs, and in which lines or modules of the program.

    >>> from roofline.ops.contraction import matmul
    >>> _which([replace(matmul(8, 16, 32), options={"source": "step.py:7"})] * 3)
    ' (3 products, 24.6 kFLOP: step.py:7)'
    """
    flops = sum(op.work.total("flops") * op.repeat for op in ops)
    every = [*dict.fromkeys(map(_place, ops))]
    places = every[:_FEW] + [f"{len(every) - _FEW} more"] * (len(every) > _FEW)
    count = sum(op.repeat for op in ops)
    many = f"{count} product{'s' * (count != 1)}"
    return f" ({many}, {format_amount(flops, 'FLOP')}: {', '.join(places)})"


def _place(op: Op) -> str:
    """The line of the program that an operation is from; where that is not known its module."""
    return str(op.options.get("source") or (f"module {op.where}" if op.where else op.name))


def _taken(products: Products, machine: Machine) -> Products | None:
    """How products run on the units that may be taken; None where they stay in fp32."""
    for unit in machine.units:
        is_tpu = unit.name == "mxu" and products.on_tpu > 0 and products.format not in unit.peaks
        on_tpu = products._replace(format="bf16", passes=products.on_tpu, why=products.why_on_tpu or products.why)
        each = on_tpu if is_tpu else products
        if machine.unit in (None, unit.name, unit.kind) and each.format in unit.peaks:
            return None if each.format == "fp32" else each
    return None


def jax_products(precision: Any) -> Products:
    """How products run by a precision of JAX: None, a pair of precisions, or the name of an algorithm.

    >>> for each in ("HIGH", "HIGHEST", "TF32_TF32_F32_X3", "BF16_BF16_F32"):
    ...     print(*jax_products(each))
    tf32 JAX's precision is HIGH 1 3
    fp32 JAX's precision is HIGHEST 1 6
    tf32 JAX's precision is TF32_TF32_F32_X3 3 3
    bf16 JAX's precision is BF16_BF16_F32 1 1
    """
    first = precision[0] if isinstance(precision, tuple) else precision
    name = "DEFAULT" if first is None else str(first).rpartition(".")[2]
    by_name = {"HIGHEST": "fp32", "F32": "fp32", "F64": "fp32", "BF16": "bf16", "F16": "fp16"}
    taken = by_name.get(name.partition("_")[0], "tf32")
    times = name.rpartition("_X")[2]
    passes = int(times) if times.isdigit() else 1
    on_tpu = 3 if name == "HIGH" else PASSES["fp32"]["bf16"] if taken == "fp32" else passes
    return Products(taken, f"JAX's precision is {name}", passes, on_tpu)


def torch_products(torch: Any, kind: str) -> Products:
    """How products of a kind of operation run by PyTorch's settings where it is traced."""
    is_convolution, backends = kind == "convolution", torch.backends
    name, setting = ("cudnn", backends.cudnn) if is_convolution else ("cuda.matmul", backends.cuda.matmul)
    newer = getattr(setting, "conv", None) if is_convolution else setting
    chosen = getattr(newer, "fp32_precision", None)  # of an older PyTorch allow_tf32 alone
    allowed = setting.allow_tf32 if chosen is None else chosen == "tf32"
    why, on_tpu = f"torch.backends.{name}.allow_tf32 is set", "the precision of PyTorch/XLA is 'default'"
    return Products("tf32" if allowed else "fp32", why, on_tpu=1, why_on_tpu=on_tpu)
