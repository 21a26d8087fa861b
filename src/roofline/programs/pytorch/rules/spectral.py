"""Fourier transforms: 5·n·log₂ n real FLOPs for n complex points, half of it where one side is real."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from roofline.programs.pytorch.open_sizes import log2
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Call, Priced, function, pricing, rule
from roofline.programs.pytorch.values import map_tensors


@function(torch._VF.stft)
def windowed(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A window that was made here is data like any other; what is inside shows itself."""
    with torch._C.DisableTorchFunction():
        return func(*map_tensors(args, recorder.shape_of), **map_tensors(kwargs, recorder.shape_of))


@function(torch._VF.istft)
def put_together(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Transform back, weight each window, add them where they overlap, divide by what the weights add up to.

    PyTorch looks at the values of that sum before it divides; here the steps are its own without the look.
    """
    names = ("input", "n_fft", "hop_length", "win_length", "window", "center", "normalized", "onesided", "length")
    given = dict(zip(names, args, strict=False)) | kwargs
    x, n = given["input"], given["n_fft"]
    if given.get("return_complex") or given.get("onesided") is False or not x.is_complex():
        return NotImplemented
    hop, width = given.get("hop_length") or n // 4, given.get("win_length") or n
    window = given.get("window")
    window = torch.ones(width) if window is None else window
    window = F.pad(window, ((n - width) // 2, n - width - (n - width) // 2)) if width < n else window
    total, first = n + hop * (x.shape[-1] - 1), n // 2 if given.get("center", True) else 0
    wanted = given.get("length") or total - 2 * first

    def added(parts: Any) -> Any:
        whole = F.fold(parts.transpose(-1, -2), (1, total), (1, n), stride=(1, hop)).flatten(-3)
        return whole[..., first : first + wanted]

    frames = torch.fft.irfft(x.transpose(-1, -2), n=n, norm="ortho" if given.get("normalized") else "backward")
    result = added(frames * window) / added((window**2).expand(x.shape[-1], n))
    return F.pad(result, (0, wanted - result.shape[-1])) if result.shape[-1] < wanted else result


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def transform(call: Call) -> Priced:
    """Transform over some dimensions."""
    x, dims = call.args[0], call.args[1]
    whole = x if call.name != "_fft_c2r" else call.outs[0]
    n = prod(whole.shape[d] for d in dims)
    rows = whole.numel() // max(1, n)
    real = call.name != "_fft_c2c"
    return pricing.fourier(
        call.name.strip("_"), call.reads, call.writes, rows=rows, n=n, levels=log2(n) if n > 1 else 0, real=real
    )
