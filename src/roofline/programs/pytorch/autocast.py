"""Autocast on shapes: which calls run in the lower format and which in fp32, as PyTorch lists them.

PyTorch's own casting asks for tensors on the device in question, and stand-ins are on none. Which call is cast how is
from the reference of ``torch.amp``, sections "CUDA ops" and "CPU ops".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from roofline.programs.pytorch.tensors import map_tensors

_CONVOLUTIONS = [f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]

#: Calls that run in the format autocast names.
LOWER = frozenset(
    (
        *_CONVOLUTIONS, "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "linear", "addmm", "addbmm", "baddbmm",
        "einsum", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu", "bilinear",
    )
)  # fmt: skip
_LOWER_ON_CUDA = frozenset({"mv", "addmv", "addr", "chain_matmul", "multi_dot", "prelu"})

_LOSSES = frozenset(
    (
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "nll_loss", "nll_loss_nd", "cross_entropy",
        "cross_entropy_loss", "kl_div", "binary_cross_entropy_with_logits", "soft_margin_loss", "cosine_embedding_loss",
        "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
        "poisson_nll_loss", "triplet_margin_loss", "ctc_loss",
    )
)  # fmt: skip

#: Calls that run in fp32, by device.
FULL = {
    "cuda": _LOSSES
    | {
        "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "cosh", "cdist", "cosine_similarity",
        "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm", "layer_norm", "log", "log10",
        "log_softmax", "log1p", "log2", "norm", "normalize", "pow", "prod", "reciprocal", "rsqrt", "sinh", "softmax",
        "softmin", "softplus", "sum", "renorm", "tan", "rms_norm",
    },
    "cpu": _LOSSES | {"binary_cross_entropy", "avg_pool3d", "adaptive_avg_pool3d", "prod", "cdist", "trace", "stft"},
}  # fmt: skip


class Autocast:
    """Casts the arguments of calls; weights are cast once in a region, as PyTorch keeps them."""

    def __init__(self) -> None:
        self._cast: dict[int, tuple[Any, Any]] = {}

    def arguments(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as autocast gives them to a call."""
        device = next((name for name in ("cuda", "cpu") if torch.is_autocast_enabled(name)), None)
        if device is None:
            self._cast.clear()
            return args, kwargs
        name = getattr(func, "__name__", "")
        if name in LOWER or (device == "cuda" and name in _LOWER_ON_CUDA):
            wanted = torch.get_autocast_dtype(device)
        elif name in FULL[device]:
            wanted = torch.float32
        else:
            return args, kwargs

        def cast(tensor: Any) -> Any:
            return self._one(tensor, wanted)

        return map_tensors(args, cast), map_tensors(kwargs, cast)

    def _one(self, tensor: Any, wanted: Any) -> Any:
        if not tensor.is_floating_point() or tensor.dtype in (torch.float64, wanted):
            return tensor
        if not (tensor.is_leaf and tensor.requires_grad):
            return tensor.to(wanted)
        if id(tensor) not in self._cast:
            self._cast[id(tensor)] = (tensor, tensor.to(wanted))
        return self._cast[id(tensor)][1]


@contextmanager
def autocast_without_a_device() -> Iterator[None]:
    """Let ``torch.autocast("cuda")`` stand where there is no such device, for as long as this lasts."""
    with (
        mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", return_value=False),
        mock.patch.object(torch.cuda, "is_bf16_supported", return_value=True),
    ):
        yield
