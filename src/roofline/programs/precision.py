"""In which format a framework runs products of fp32: stored, read and summed as fp32, multiplied as it was told to.

JAX's default precision takes tf32 on NVIDIA GPUs from Ampere on and one pass of bf16 on a TPU (docs.jax.dev, "Matmul
precision"); ``HIGHEST`` keeps fp32. PyTorch keeps fp32 in matrix products and takes tf32 in cuDNN's convolutions, as
``torch.backends.cuda.matmul.allow_tf32`` and ``torch.backends.cudnn.allow_tf32`` say (docs.pytorch.org, "CUDA
semantics"). A floor takes the fastest that is allowed, of several passes one.

>>> from roofline.hardware import chip
>>> from roofline.ops.contraction import matmul
>>> op = allowing(matmul(8, 16, 32, a="fp32", b="fp32"), jax_format(None), "tf32 is allowed")
>>> for name in ("h100", "v5e", "v100"):
...     (found,), said = multiplied_on([op], chip(name))
...     print(found.work, said)
Work(flops/matrix/tf32: 8192) ('tf32 is allowed: products of fp32 run as tf32',)
Work(flops/matrix/bf16: 8192) ('tf32 is allowed: products of fp32 run as bf16',)
Work(flops/matrix/fp32: 8192) ()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.frozen import replace
from roofline.hardware.machine import Machine
from roofline.work import Key, Op, Work

#: What is said of products that JAX rounds.
BY_JAX = "JAX's precision is not 'highest'"

_FP32, _ALLOWED = Key("flops", "matrix", "fp32"), "fp32_as"


def allowing(op: Op, chosen: str, why: str) -> Op:
    """The operation with the format that its products of fp32 may run in, and why; as it is where it has none."""
    if chosen == "fp32" or _FP32 not in op.work:
        return op
    return replace(op, options={**op.options, _ALLOWED: (chosen, why)})


def multiplied_on(ops: Sequence[Op], machine: Machine) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """Operations on a machine, products of fp32 in the format that it has of those allowed; and what is said of it."""
    found, said = [], dict[str, None]()
    for op in ops:
        chosen, why = op.options.get(_ALLOWED, ("", ""))
        taken = next((name for unit in machine.units for name in _names(unit.name, chosen) if name in unit.peaks), None)
        if taken is not None:
            work = {key._replace(dtype=taken) if key == _FP32 else key: amount for key, amount in op.work.items()}
            op = replace(op, work=Work(work))
            said[f"{why}: products of fp32 run as {taken}"] = None
        found.append(op)
    return tuple(found), tuple(said)


def _names(unit: str, chosen: str) -> tuple[str, ...]:
    """What stands for a format on a unit: XLA rounds to bf16 on a TPU."""
    return ("bf16",) if unit == "mxu" and chosen == "tf32" else (chosen,)


def jax_format(precision: Any) -> str:
    """The fastest format that a precision of JAX allows: None, a pair of precisions, or the name of an algorithm.

    >>> jax_format("TF32_TF32_F32_X3"), jax_format("BF16_BF16_F32"), jax_format("Precision.HIGHEST")
    ('tf32', 'bf16', 'fp32')
    """
    first = precision[0] if isinstance(precision, tuple) else precision
    name = "DEFAULT" if first is None else str(first).rpartition(".")[2]
    by_name = {"HIGHEST": "fp32", "F32": "fp32", "F64": "fp32", "BF16": "bf16", "F16": "fp16"}
    return by_name.get(name.partition("_")[0], "tf32")


def torch_format(torch: Any, kind: str) -> tuple[str, str]:
    """The format of a kind of operation by PyTorch's settings where it is traced, and the setting."""
    is_convolution, backends = kind == "convolution", torch.backends
    name, setting = ("cudnn", backends.cudnn) if is_convolution else ("cuda.matmul", backends.cuda.matmul)
    newer = getattr(setting, "conv", None) if is_convolution else setting
    chosen = getattr(newer, "fp32_precision", None)  # of an older PyTorch allow_tf32 alone
    allowed = setting.allow_tf32 if chosen is None else chosen == "tf32"
    return "tf32" if allowed else "fp32", f"torch.backends.{name}.allow_tf32 is set"
